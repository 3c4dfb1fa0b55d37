"""Generated sets on both databases against a model without the server and SQL; and the state after a kill in the middle of a
set."""
import datetime
import decimal
import json
import os
import random
import signal
import sqlite3
import threading
import time
import uuid

import pytest

from cluster import Postgres
from http1 import Broken, Connection

pytestmark = pytest.mark.timeout(240)  # hundreds of generated sets take longer than other tests

Decimal = decimal.Decimal
SEED = int(os.environ.get("SET_SEED", random.randrange(1 << 32)))
TEXTS = ["", " ", "a", "A", "\\N", "\\.", "\\", "tab\there", "two\nlines", "\r\n", 'quo"ted', "comma,", "'", "null", "NULL", "é",
         "e\u0301", "日本語", "🎬\u200d🎥", "\u2028", "\x01\x7f", "ﬀ", "İ", "x" * 500, "%s $1 :name ?", "{}", "t", "0"]


class Value:
    """A column's value and its spelling: `json` in JSON, `text` in CSV (None: null)."""

    def __init__(self, model, text, raw=None):
        self.model, self.text = model, text
        self.json = "null" if text is None else raw if raw is not None else json.dumps(text, ensure_ascii=bool(len(text) % 2))


NULL = Value(None, None)


def integer(bits):
    def make(rng, wide=True):
        number = rng.choice([rng.randrange(-40, 40), rng.randrange(-(1 << bits - 1), 1 << bits - 1) if wide else 0])
        return spell_integer(rng, number)
    return make


def spell_integer(rng, number):
    text = rng.choice([str(number), f"{number:04}"])
    return Value(number, text, str(number) if rng.random() < 0.7 else None)


def spell_numeric(rng, number):
    text = format(number, "f")
    if rng.random() < 0.5:
        text += "00" if "." in text else ".00"
    if rng.random() < 0.2:
        text = f"{number.scaleb(2):f}e-2"
    return Value(number, text, text if rng.random() < 0.6 else None)


def numeric(rng):
    return spell_numeric(rng, Decimal(rng.randrange(-400, 400)) / 4)


def double(rng):
    number = rng.choice([0.0, 0.1, -2.5, 1e300, 5e-324, 1 / 3, 123456789.125])
    text = rng.choice([repr(number), f"{number:.17e}"])
    return Value(number, text, text)


def text(rng):
    made = rng.choice(TEXTS)
    return Value(made, made)


def boolean(rng):
    made = rng.random() < 0.5
    return Value(made, rng.choice(["true", "t", "1", "on"] if made else ["false", "f", "0", "off"]), "true" if made else "false")


def spell_time(rng, at):
    zone = datetime.timezone(datetime.timedelta(minutes=rng.choice([0, 60, -330, 840])))
    said = at.astimezone(zone).isoformat(rng.choice(" T"))
    return Value(at, said.replace("+00:00", "Z"))


def timestamp(rng):
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    return spell_time(rng, at + datetime.timedelta(hours=rng.randrange(500), microseconds=rng.choice([0, 0, 1, 500_000])))


def spell_uuid(rng, made):
    return Value(made, rng.choice([str(made), str(made).upper(), "{" + str(made) + "}", made.hex]))


def identifier(rng):
    return spell_uuid(rng, uuid.UUID(int=rng.randrange(60) << 64 | 0xABCDEF))


def document(rng):
    made = rng.choice([{}, [], {"a": [1, 2.50, None, "é"], "b": {"c": True}}, {"b": {"c": True}, "a": [1, 2.5, None, "é"]},
                       [1, [2, {"x": "\n\t\\"}]], {"k": "v" * 3000}])
    said = json.dumps(made, indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5)
    return Value(made, said, said.replace("\n", " "))  # a CSJ row is one line


def plain_document(rng):
    """A document of a type without equality, which is compared by its text."""
    made = rng.choice([{}, [1, 2.5, None, "é"], {"k": "v" * 3000}, {"a": {"b": [True]}}])
    said = json.dumps(made, ensure_ascii=False)
    return Value(made, said, said)


def date(rng):
    made = datetime.date(2026, 1, 1) + datetime.timedelta(days=rng.randrange(60))
    return Value(made, rng.choice([made.isoformat(), made.strftime("%Y%m%d")]))


def octets(rng):
    made = rng.randbytes(rng.choice([0, 1, 2]))
    return Value(made, "\\x" + (made.hex() if rng.random() < 0.5 else made.hex().upper()))


def folded(rng):
    made = "".join(rng.choice([c, c.upper()]) if c.isascii() else c for c in rng.choice(["alien", "brazil", "été", "Été", "ran", "x y"]))
    return Value(made, made)


def sqlite_boolean(rng):
    made = rng.random() < 0.5
    return Value(made, "1" if made else "0", "true" if made else "false")


def time_of(said):
    return datetime.datetime.fromisoformat(said)


# type: (function that makes a value, function that turns the database's text into the model's value)
POSTGRES = {
    "integer": (integer(32), int), "bigint": (integer(64), int), "numeric": (numeric, Decimal), "float8": (double, float),
    "text": (text, str), "boolean": (boolean, lambda said: said == "true"), "timestamptz": (timestamp, time_of),
    "uuid": (identifier, uuid.UUID), "jsonb": (document, json.loads), "json": (plain_document, json.loads),
    "date": (date, datetime.date.fromisoformat), "bytea": (octets, lambda said: bytes.fromhex(said[2:]))}
SQLITE = {
    "INTEGER": (integer(63), int), "NUMERIC": (numeric, Decimal), "REAL": (double, float), "TEXT": (text, str),
    "BOOLEAN": (sqlite_boolean, bool), "TEXT COLLATE NOCASE": (folded, str), "": (text, str)}
KEYS = {"postgres": [["integer"], ["numeric"], ["timestamptz"], ["uuid"], ["text"], ["date", "bytea"], ["boolean", "text", "bigint"]],
        "sqlite": [["INTEGER"], ["NUMERIC"], ["TEXT"], ["TEXT COLLATE NOCASE"], ["BOOLEAN", "TEXT", "REAL"]]}


class Case:
    """A table with one of the database's KEYS, and a column of each of `types`."""

    def __init__(self, database, types, number):
        self.database, self.types, self.name = database, types, f"things{number}"
        self.keys = {f"k{i}": kind for i, kind in enumerate(KEYS[database][number])}
        self.others = {f"c{i}": kind for i, kind in enumerate(types)}
        self.others["made"] = {"postgres": "text", "sqlite": "TEXT"}[database]
        self.columns = {**self.keys, **self.others}
        self.new = {**dict.fromkeys(self.others), "made": "by default"}  # the defaults of a new row

    def schema(self):
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items()) + " DEFAULT 'by default'"
        default = "false" if self.database == "postgres" else "0"
        return (f"CREATE TABLE {self.name} (scope text NOT NULL, kept boolean NOT NULL DEFAULT {default}, {columns}, "
                f"PRIMARY KEY (scope, {', '.join(self.keys)}))")

    def new_row(self):
        return {name: Value(model, model) for name, model in self.new.items()}

    def config(self):
        columns = "\n".join(f'columns.{name} = {{ key = {str(name in self.keys).lower()} }}' for name in self.columns)
        return f'''
[[endpoint]]
path = "/{self.name}/{{scope}}"
[endpoint.put]
table = "{self.name}"
existing = "SELECT * FROM {self.name} WHERE scope = :scope AND NOT kept"
columns.scope = {{ key = true, from = "path.scope" }}
{columns}
[endpoint.patch]
table = "{self.name}"
set = true
columns.scope = {{ key = true, from = "path.scope" }}
{columns}
'''

    def value(self, rng, column):
        kind = self.columns[column]
        if column not in self.keys and rng.random() < 0.15:
            return NULL
        return self.types[kind][0](rng)

    def key_of(self, row):
        return tuple(self.folded(name, row[name].model) for name in self.keys)

    def folded(self, name, model):
        # NOCASE folds only ASCII.
        if self.columns[name] != "TEXT COLLATE NOCASE":
            return model
        return "".join(c.lower() if c.isascii() else c for c in model)

    def respell(self, rng, column, model):
        """The same value in another spelling, or None if none is found."""
        fold = self.folded if column in self.keys else lambda _, of: of
        for _ in range(60 if model is not None else 0):
            again = self.value(rng, column)
            if again.model is not None and fold(column, again.model) == fold(column, model):
                return again
        return None

    def rows(self, rng, count):
        found = {}
        for _ in range(count):
            row = {name: self.value(rng, name) for name in self.columns}
            found.setdefault(self.key_of(row), row)
        return list(found.values())


def written(rng, rows, columns):
    """(Content-Type, body) for the rows. If a row lacks fields, the format is JSON: only JSON can leave them out."""
    whole = all(len(row) == len(columns) for row in rows)
    form = rng.choice(["application/json", "application/x-ndjson"] + (["text/csv", "application/csj"] if whole else []))
    if not rows:
        form = "application/json"  # in the other formats the body would be empty
    names = list(columns)
    rng.shuffle(names)
    if form == "text/csv":
        def cell(value):
            return "" if value.text is None else '"' + value.text.replace('"', '""') + '"'
        body = "".join(",".join(line) + "\n" for line in [names, *([cell(row[name]) for name in names] for row in rows)])
    elif form == "application/csj":
        body = "".join(",".join(line) + "\n"
                       for line in [map(json.dumps, names), *([row[name].json for name in names] for row in rows)])
    else:
        objects = ["{" + ",".join(f'"{name}": {row[name].json}' for name in names if name in row) + "}" for row in rows]
        body = "[" + ",\n".join(objects) + "]" if form == "application/json" else "".join(one + "\n" for one in objects)
    return form, body.encode()


class Sets:
    """The running server, direct access to its database, and requests."""

    def __init__(self, server, kind, query, execute):
        self.server, self.kind, self.query, self.execute = server, kind, query, execute

    def call(self, method, target, form, body):
        with self.server.connect() as connection:
            connection.send(f"{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Type: {form}\r\nContent-Length: {len(body)}\r\n\r\n")
            connection.send(body)
            return connection.read()

    def counts(self, method, target, form, body):
        answer = self.call(method, target, form, body)
        assert answer.status == 200, (form, body[:2000], answer.body, self.server.log)
        found = json.loads(answer.body)
        return found["inserted"], found["updated"], found["deleted"], found["unchanged"]

    def state(self, case):
        """{(scope, kept, key): (physical position of the row, its other values)}, by SQL outside of the server."""
        if self.kind == "postgres":
            texts = ", ".join(f"{name}::text" for name in case.columns)
            lines = self.query("SET TimeZone = 'UTC'; SET extra_float_digits = 1; SELECT json_build_array(scope, kept, ctid::text || ' ' || xmin::text"
                               f", {texts}) FROM {case.name}")
            rows = [json.loads(line) for line in lines]
        else:
            rows = self.query(f"SELECT scope, kept, rowid, {', '.join(case.columns)} FROM {case.name}")
        found = {}
        for scope, kept, place, *values in rows:
            models = {name: None if value is None else case.types[kind][1](value)
                      for (name, kind), value in zip(case.columns.items(), values)}
            key = scope, bool(kept), tuple(case.folded(name, models[name]) for name in case.keys)
            assert key not in found
            found[key] = place, {name: models[name] for name in case.others}
        return found

    def writes(self, case):
        """The number of row writes so far, counted by a trigger."""
        return int(self.query(f"SELECT count(*) FROM {case.name}_log")[0][0] if self.kind == "sqlite" else
                   self.query(f"SELECT count(*) FROM {case.name}_log")[0])


def sqlite_query(path):
    def query(sql):
        database = sqlite3.connect(path, timeout=20, isolation_level=None)
        try:
            return database.execute(sql).fetchall()
        finally:
            database.close()
    return query


@pytest.fixture(params=["sqlite", "postgres"])
def sets(request, sluice, tmp_path):
    types = {"sqlite": SQLITE, "postgres": POSTGRES}[request.param]
    cases = [Case(request.param, types, number) for number in range(len(KEYS[request.param]))]
    if request.param == "sqlite":
        query = execute = sqlite_query(tmp_path / "sets.db")
        url = f"sqlite:{tmp_path}/sets.db"
        for case in cases:
            query(case.schema())
            query(f"CREATE TABLE {case.name}_log (what text)")
            for what in ("INSERT", "UPDATE", "DELETE"):
                query(f"CREATE TRIGGER {case.name}_{what} AFTER {what} ON {case.name} BEGIN "
                      f"INSERT INTO {case.name}_log VALUES ('{what}'); END")
    else:
        postgres = request.getfixturevalue("postgres")

        def query(sql):
            return postgres.psql(sql, "differential").decode().removesuffix("\n").split("\n")
        execute = query
        postgres.psql("DROP DATABASE IF EXISTS differential WITH (FORCE)")
        postgres.psql("CREATE DATABASE differential")
        url = postgres.url("differential")
        query("CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
              "EXECUTE format('INSERT INTO %I VALUES ($1)', TG_TABLE_NAME || '_log') USING TG_OP; RETURN NULL; END $$;"
              + "".join(f"{case.schema()}; CREATE TABLE {case.name}_log (what text); CREATE TRIGGER noted AFTER INSERT OR UPDATE "
                        f"OR DELETE ON {case.name} FOR EACH ROW EXECUTE FUNCTION noted();" for case in cases))
    config = f'[database.main]\nurl = "{url}"\n' + "".join(case.config() for case in cases)
    made = Sets(sluice(config), request.param, query, execute)
    made.cases = cases
    return made


def models(row):
    return {name: value.model for name, value in row.items()}


def expected_after(case, before, rows, removes):
    """(counts, untouched keys of `here`, {key: its other values}) according to the model."""
    had = {key[2]: values for key, (_, values) in before.items() if key[:2] == ("here", False)}
    after = {} if removes else dict(had)
    inserted = updated = 0
    untouched = set() if removes else set(had)
    for row in rows:
        key = case.key_of(row)
        said = {name: value for name, value in models(row).items() if name in case.others}
        now = {**(had.get(key) or case.new), **said}
        after[key] = now
        untouched.discard(key)
        if key not in had:
            inserted += 1
        elif now != had[key]:
            updated += 1
        else:
            untouched.add(key)
    deleted = len(set(had) - set(after))
    return (inserted, updated, deleted, len(rows) - inserted - updated), untouched, after


def check(sets, case, before, rows, removes, counts):
    expected, untouched, after = expected_after(case, before, rows, removes)
    assert counts == expected
    now = sets.state(case)
    assert {key[2]: values for key, (_, values) in now.items() if key[:2] == ("here", False)} == after
    for key, row in before.items():
        if key[:2] != ("here", False) or key[2] in untouched:
            assert now[key] == row, key  # the same physical row: it was not written
    assert len([key for key in now if key[:2] != ("here", False)]) == len(
        [key for key in before if key[:2] != ("here", False)])
    return now


def test_a_generated_body_becomes_the_set(sets):
    print(f"SET_SEED={SEED}")
    for case in sets.cases:
        rng = random.Random(f"{SEED} {sets.kind} {case.name}")
        sets.counts("PUT", f"/{case.name}/kept", *written(rng, case.rows(rng, 12), case.columns))
        sets.execute(f"UPDATE {case.name} SET kept = {'true' if sets.kind == 'postgres' else 1}, scope = 'here'")
        sets.counts("PUT", f"/{case.name}/there", *written(rng, case.rows(rng, 12), case.columns))
        kept = {key[2] for key in sets.state(case) if key[1]}
        target = f"/{case.name}/here"
        rows = []
        for turn in range(5):
            fresh = [row for row in case.rows(rng, rng.choice([0, 1, 5, 60])) if case.key_of(row) not in kept]
            # Some of the earlier rows stay, and some of these get another value.
            stays = {case.key_of(row): dict(row) for row in rows if rng.random() < 0.7}
            for row in stays.values():
                if rng.random() < 0.3:
                    name = rng.choice(list(case.others))
                    row[name] = case.value(rng, name)
            rows = list({**{case.key_of(row): row for row in fresh}, **stays}.values())
            rng.shuffle(rows)
            before = sets.state(case)
            now = check(sets, case, before, rows, True, sets.counts("PUT", target, *written(rng, rows, case.columns)))

            # The same set in another order and other spellings.
            again = [{name: case.respell(rng, name, value.model) or value for name, value in row.items()} for row in rows]
            rng.shuffle(again)
            writes = sets.writes(case)
            assert sets.counts("PUT", target, *written(rng, again, case.columns)) == (0, 0, 0, len(rows))
            assert sets.state(case) == now and sets.writes(case) == writes

            # The same key twice, in any spelling.
            if rows:
                twin = dict(rng.choice(again))
                for name in case.keys:
                    twin[name] = case.respell(rng, name, twin[name].model) or twin[name]
                answer = sets.call("PUT", target, *written(rng, [*rows, twin], case.columns))
                assert answer.status == 422 and b"has the same key as row" in answer.body, answer.body
                assert sets.state(case) == now and sets.writes(case) == writes

            part = [{name: value for name, value in row.items() if name in case.keys or rng.random() < 0.5}
                    for row in case.rows(rng, 6) if case.key_of(row) not in kept]
            part += [{name: case.value(rng, name) if name in case.others else value for name, value in row.items()
                      if name in case.keys or rng.random() < 0.3} for row in rng.sample(rows, min(len(rows), 10))]
            part = list({case.key_of(row): row for row in part}.values())
            now = check(sets, case, now, part, False, sets.counts("PATCH", target, *written(rng, part, case.columns)))
            writes = sets.writes(case)
            assert sets.counts("PATCH", target, *written(rng, part, case.columns)) == (0, 0, 0, len(part))
            assert sets.state(case) == now and sets.writes(case) == writes
            # The next turn starts with the rows that are there now.
            known = {case.key_of(row): row for row in rows}
            for row in part:
                known[case.key_of(row)] = {**known.get(case.key_of(row), case.new_row()), **row}
            rows = list(known.values())


KILLS = 15
ROWS = 20_000
BOUND = 50  # seconds for the kills of one test; a slow machine does fewer of them
KILL_CONFIG = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/things"
get = "SELECT count(*) AS count FROM things"
[endpoint.put]
table = "things"
existing = "SELECT id FROM things"
columns.id = {{ key = true }}
columns.name = {{}}
columns.value = {{}}
'''
OLD = {n: ("old", n % 97) for n in range(ROWS)}
NEW = {n: ("old" if n % 3 else "new", n % 97) for n in range(ROWS // 4, ROWS // 4 + ROWS)}


def csv_of(rows):
    return "id,name,value\n" + "".join(f"{key},{name},{value}\n" for key, (name, value) in rows.items())


class Put(threading.Thread):
    """A PUT in eight pieces with pauses between; `answer` is None if a kill came first."""

    def __init__(self, port, rows, pause):
        super().__init__()
        self.answer, self.rows, self.pause = None, rows, pause
        self.body = csv_of(rows).encode()
        self.connection = Connection(port, 30)
        self.connection.send(f"PUT /things HTTP/1.1\r\nHost: a\r\nContent-Type: text/csv\r\nContent-Length: {len(self.body)}\r\n\r\n")
        self.start()

    def run(self):
        try:
            step = len(self.body) // 8
            for at in range(0, len(self.body), step):
                self.connection.send(self.body[at:at + step])
                time.sleep(self.pause)
            self.answer = self.connection.read()
        except (OSError, Broken, ValueError):
            pass  # something was killed
        finally:
            self.connection.close()


class Killing:
    """Sets that replace each other, with kills between."""

    def __init__(self, rng, start, read):
        self.rng, self.start, self.read = rng, start, read
        self.server = start()
        self.has, self.next = OLD, NEW
        self.kills = self.changed = 0

    def put(self, rows):
        put = Put(self.server.port, rows, 0)
        put.join(60)
        return put.answer

    def goes_on(self, patience=30):
        """The server accepts a set within `patience`; the database may have to start again."""
        end = time.monotonic() + patience
        while True:
            answer = self.put(self.next)
            if answer is not None and answer.status == 200:
                break
            assert time.monotonic() < end, (answer and answer.body, self.server.log)
            time.sleep(0.1)
        assert self.read() == self.next
        self.has, self.next = self.next, self.has

    def kill_many(self, kill, settle=lambda: None):
        self.goes_on()
        end = time.monotonic() + BOUND
        start = time.monotonic()
        self.goes_on()
        whole = time.monotonic() - start
        while self.kills < KILLS and time.monotonic() < end:
            put = Put(self.server.port, self.next, self.rng.choice([0, 0, 0.02]))
            time.sleep(self.rng.random() * whole)
            kill(self, put)
            put.join(60)
            assert not put.is_alive()
            settle()
            there = self.read()
            assert there == self.has or there == self.next  # and no mixture
            if put.answer is not None and put.answer.status == 200:
                assert there == self.next
            if there == self.next:
                self.changed += 1
                self.has, self.next = self.next, self.has
            self.kills += 1
            if self.kills % 4 == 0:
                self.goes_on()
        self.goes_on()
        print(f"{self.kills} kills, {self.changed} sets written all the same")
        assert self.kills > 0


def kill_the_server(killing, _):
    killing.server.judged = True
    killing.server.kill()
    killing.server = killing.start()


def leave(killing, put):
    # The sending thread gets an error from its socket.
    try:
        put.connection.socket.shutdown(2)
    except OSError:
        pass


@pytest.fixture
def killing_sqlite(sluice, tmp_path):
    path = tmp_path / "killed.db"
    query = sqlite_query(path)
    query("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, value INTEGER)")

    def read():
        return {key: (name, value) for key, name, value in query("SELECT * FROM things")}
    killing = Killing(random.Random(f"{SEED} kills"), lambda: sluice(KILL_CONFIG.format(url=f"sqlite:{path}")), read)
    yield killing
    assert query("PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("kill", [kill_the_server, leave])
def test_killed_on_sqlite(killing_sqlite, kill):
    print(f"SET_SEED={SEED}")
    killing_sqlite.kill_many(kill)


class KilledPostgres:
    """A cluster that soon cleans up after a killed session."""

    def __init__(self):
        self.cluster = Postgres("autovacuum_naptime=1", "restart_after_crash=on")
        self.cluster.psql("CREATE TABLE things (id bigint PRIMARY KEY, name text, value integer)")

    def psql(self, sql, patience=30):
        end = time.monotonic() + patience
        while True:
            try:
                return self.cluster.psql(sql).decode().splitlines()
            except RuntimeError:  # the server is starting again
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def read(self):
        rows = (line.split("|") for line in self.psql("SELECT * FROM things"))
        return {int(key): (name, int(value)) for key, name, value in rows}

    def sessions(self, where="true"):
        return self.psql(f"SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND {where}")

    def settle(self):
        """Waits until no transaction is open and no temporary table is left."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if not self.sessions("(state <> 'idle' OR xact_start IS NOT NULL)") and self.psql(
                    "SELECT count(*) FROM pg_class WHERE relpersistence = 't'") == ["0"]:
                return
            time.sleep(0.05)
        raise AssertionError(self.psql("SELECT pid, state, query FROM pg_stat_activity; "
                                       "SELECT oid::regclass FROM pg_class WHERE relpersistence = 't'"))


@pytest.fixture
def killed_postgres():
    made = KilledPostgres()
    try:
        yield made
    finally:
        made.cluster.remove()


def kill_the_backend(killed_postgres):
    def kill(killing, _):
        for pid in killed_postgres.sessions("state <> 'idle'") or killed_postgres.sessions():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
    return kill


@pytest.mark.parametrize("kill", ["server", "client", "backend"])
def test_killed_on_postgres(sluice, killed_postgres, kill):
    print(f"SET_SEED={SEED}")
    config = KILL_CONFIG.format(url=killed_postgres.cluster.url())
    killing = Killing(random.Random(f"{SEED} kills"), lambda: sluice(config), killed_postgres.read)
    killing.kill_many({"server": kill_the_server, "client": leave, "backend": kill_the_backend(killed_postgres)}[kill],
                      killed_postgres.settle)
