"""[endpoint.list] on both databases against list_model.py: generated query strings, walks along `Link`, other writers between two pages,
and what a client could try to inject."""
import base64
import contextlib
import json
import os
import random
import re
import sqlite3
from decimal import Decimal

import pytest

import list_model
import test_values
from cluster import Postgres
from list_model import ANY, COLUMNS, INJECTED, MARK, STORED, Ask, Condition, Group

# A difference is repeated with both from its message; SLUICE_LIST_QUERIES=5000 in a long run.
SEED = int(os.environ.get("SLUICE_LIST_SEED", random.randrange(1 << 32)))
QUERIES = int(os.environ.get("SLUICE_LIST_QUERIES", "400"))
WALKS = max(6, QUERIES // 20)
ROWS = 300
NAMES = ", ".join(f'"{name}"' for name in COLUMNS)
CONFIG = f'''
[database.main]
url = "{{url}}"
[[endpoint]]
path = "/plain"
get = "{list_model.SELECT} ORDER BY id"
''' + "".join(f'''
[[endpoint]]
path = "{path}"
get = "{get}"
[endpoint.list]
filter = [{NAMES}]
search = ["name", "note"]
sort = [{NAMES}]
order = "id"
limit = {{{{ default = 50, max = 400 }}}}
count = true
max_offset = {250 if path == "/distinct" else 10_000}
''' for path, get in (("/things", list_model.SELECT),
                      ("/distinct", list_model.SELECT.replace("SELECT", "SELECT DISTINCT")),
                      ("/above/{{low:int}}", list_model.SELECT + " WHERE id > :low AND :low >= 0")))


def literal(value):
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "true", False: "false"}[value]
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def inserted(rows):
    values = (f"({', '.join(literal(row[name]) for name in STORED)})" for row in rows)
    return f"INSERT INTO things ({', '.join(STORED)}) VALUES {', '.join(values)};"


class Table:
    """The rows in a database and in Python, and a connection to the program."""

    def __init__(self, kind, url, execute, sluice):
        self.kind, self.execute = kind, execute
        self.rows = list_model.made_rows(ROWS)
        self.free = sorted(set(range(1, 10 * ROWS)) - {row["id"] for row in self.rows})  # keys that have never been used
        rng = random.Random("injected")
        self.rows += [{**list_model.made_row(rng, key), "name": text} for key, text in enumerate(INJECTED, 10 * ROWS)]
        types = ", ".join(f"{name} {getattr(COLUMNS[name], kind)}" for name in STORED)
        labels = ", ".join(map(literal, list_model.LABELS))
        execute((f"CREATE TYPE size AS ENUM ({labels});" if kind == "postgres" else "PRAGMA journal_mode = WAL;")
                + f"CREATE TABLE things ({types}); CREATE INDEX things_n ON things (n, id);" + inserted(self.rows))
        self.server = sluice(CONFIG.format(url=url), server='target_limit = "32KiB"\nheader_limit = "48KiB"')
        self.connection = self.server.connect(60)
        self.look()

    def look(self):
        """Reads how the program shows each row, without a list."""
        self.shown = {dict(row)["id"]: row for row in parsed(self.connection.get("/plain").body)}
        assert set(self.shown) == {row["id"] for row in self.rows}

    def expected(self, ask, rows):
        """The rows as an answer shows them."""
        if not ask.fields:
            return [self.shown[row["id"]] for row in rows]
        return [[(name, dict(self.shown[row["id"]])[name]) for name in ask.fields] for row in rows]

    def get(self, target):
        answer = self.connection.get(target)
        assert answer.status == 200, f"{self.kind}: GET {target}: {answer.status} {answer.body.decode()}"
        return answer


def parsed(body):
    """JSON in which the members' order counts."""
    return json.loads(body, parse_float=Decimal, object_pairs_hook=list)


def links(answer):
    """{relation: reference}"""
    text = answer.get("link")
    assert re.fullmatch(r'<\?[^<>"\s]*>; rel="[a-z]+"(, <\?[^<>"\s]*>; rel="[a-z]+")*', text), text
    found = re.findall(r'<([^>]*)>; rel="([a-z]+)"', text)
    assert len(found) == len(dict((relation, reference) for reference, relation in found))
    return {relation: reference for reference, relation in found}


@contextlib.contextmanager
def table_of_sqlite(folder, sluice):
    def execute(sql):
        database = sqlite3.connect(folder / "things.db", timeout=10, isolation_level=None)
        try:
            database.executescript(sql)
        finally:
            database.close()
    table = Table("sqlite", f"sqlite:{folder}/things.db", execute, sluice)
    table.written = lambda: ""
    yield table


@contextlib.contextmanager
def table_of_postgres(_, sluice):
    cluster = Postgres("log_statement=all", "log_parameter_max_length=0")
    try:
        table = Table("postgres", cluster.url(), lambda sql: cluster.psql(f"BEGIN; {sql} COMMIT"), sluice)
        with open(f"{cluster.folder}/log", errors="replace") as log:
            table.written = log.read
            yield table
        table.connection.close()
        table.server.stop()
    finally:
        cluster.remove()


@pytest.fixture(scope="module", params=[table_of_sqlite, table_of_postgres], ids=["sqlite", "postgres"])
def module_table(request, tmp_path_factory, module_sluice):
    with request.param(tmp_path_factory.mktemp("things"), module_sluice) as table:
        yield table


@pytest.fixture
def table(module_table):
    """written() returns what PostgreSQL has logged since the last call: each statement, without its parameters."""
    print(f"SLUICE_LIST_SEED={SEED}")
    module_table.connection.close()  # the test before may have left an answer
    module_table.connection = module_table.server.connect(60)
    module_table.written()
    return module_table


def test_the_program_shows_the_models_rows(table):
    for row in table.rows:
        shown = dict(table.shown[row["id"]])
        assert list(shown) == list(COLUMNS)
        for name, value in row.items():
            if isinstance(value, float):
                assert float(shown[name]) == value, name
            elif name == "at" and table.kind == "postgres" and value:
                assert shown[name] == value.replace(" ", "T")
            else:
                assert shown[name] == value, name


# The paths of the configuration: which rows `get` has, and `max_offset`.
PATHS = {"/things": (lambda row: True, 10_000), "/distinct": (lambda row: True, 250), "/above/900": (lambda row: row["id"] > 900, 10_000)}
DEFAULT_LIMIT = 50


class Walk:
    """The pages of one query string. `start` and `end`: which of all rows the present page has."""

    def __init__(self, table, path, ask, text):
        self.table, self.path, self.ask, self.text = table, path, ask, text
        has, self.max_offset = PATHS[path]
        self.all = ask.rows(table.kind, [row for row in table.rows if has(row)])
        self.limit = DEFAULT_LIMIT if ask.limit is None else ask.limit
        self.steps = []
        start = ask.offset or 0
        answer = self.take("?" + text, start, start + self.limit)
        page = self.all[start:start + self.limit]
        place = f"{start}-{start + len(page) - 1}" if page else "*"
        self.same(answer.get("content-range"), f"items {place}/{len(self.all)}" if ask.counted else None)

    def take(self, reference, start, end):
        """Gets this page and compares it."""
        self.reference, self.start, self.end = reference, start, end
        answer = self.table.get(self.path + reference)
        self.same(parsed(answer.body), self.table.expected(self.ask, self.all[start:end]))
        self.same(answer.get("x-total-count"), str(len(self.all)) if self.ask.counted else None)
        self.links = links(answer)
        self.same(set(self.links), set(self.places()))
        return answer

    def places(self):
        """{relation: its page}"""
        is_empty = not self.all[self.start:self.end]
        last = max(0, len(self.all) - 1) // max(1, self.limit) * self.limit
        found = {"first": (0, self.limit)}
        if self.start > 0:
            before = max(0, self.start - max(1, self.limit))
            found["prev"] = (before, before + self.limit if is_empty else self.start)
        if self.end < len(self.all) and not is_empty:
            found["next"] = (self.end, self.end + self.limit)
        if self.ask.counted and self.limit > 0:
            # Beyond the greatest offset, it is a full page that ends with the last row.
            is_reached = last <= self.max_offset
            found["last"] = (last, last + self.limit) if is_reached else (len(self.all) - self.limit, len(self.all))
        return found

    def follow(self, relation):
        self.steps.append(relation)
        self.take(self.links[relation], *self.places()[relation])

    def same(self, found, expected):
        assert found == expected, (f"SLUICE_LIST_SEED={SEED} {self.table.kind}: GET {self.path}?{self.text} {' '.join(self.steps)}: "
                                   f"{self.reference}\nfound {found!s:.1500}\nexpected {expected!s:.1500}")


def test_query_strings(table):
    for number in range(QUERIES):
        rng = random.Random(f"{SEED} {number}")
        ask = list_model.some_ask(rng, table.rows)
        path = rng.choice([*["/things"] * 4, *PATHS])
        walk = Walk(table, path if (ask.offset or 0) <= PATHS[path][1] else "/things", ask, ask.text(rng))
        if rng.random() < 0.3:
            walk.follow(rng.choice(sorted(walk.links)))


def some_walk(rng, table):
    """A query string whose rows are more than one page."""
    while True:
        ask = Ask(list_model.some_conditions(rng, table.rows)[:2], None, list_model.some_sort(rng), rng.choice([1, 3, 10, 40]), None,
                  list_model.some_fields(rng), rng.random() < 0.2)
        count = len(ask.rows(table.kind, table.rows))
        ask.limit = max(ask.limit, count // 12)
        if count > ask.limit:
            return ask


def test_walks_along_links(table):
    for number in range(WALKS):
        rng = random.Random(f"{SEED} walk {number}")
        ask = some_walk(rng, table)
        walk = Walk(table, rng.choice(["/things", "/distinct"]), ask, ask.text(rng))
        while "next" in walk.links:
            walk.follow("next")
        assert walk.end >= len(walk.all)
        while "prev" in walk.links:
            walk.follow("prev")
        assert walk.start == 0
        for _ in range(8):
            walk.follow(rng.choice(sorted(walk.links)))


def some_changes(rng, table, ask):
    """Statements that insert and delete rows and change columns that are not in `sort`. The model changes with them."""
    statements = []
    for _ in range(rng.randrange(1, 5)):
        chosen = rng.random()
        if chosen < 0.4:
            row = list_model.made_row(rng, table.free.pop(rng.randrange(len(table.free))))
            statements.append(inserted([row]))
            table.rows.append(row)
            continue
        row = rng.choice(table.rows)
        if chosen < 0.7:
            statements.append(f"DELETE FROM things WHERE id = {row['id']};")
            table.rows.remove(row)
        else:
            name = rng.choice([name for name in STORED if name not in ("id", *dict(ask.sort))])
            row[name] = rng.choice(COLUMNS[name].values)
            statements.append(f"UPDATE things SET {name} = {literal(row[name])} WHERE id = {row['id']};")
    table.execute("".join(statements))
    table.look()


def walk_while_rows_change(rng, table, relation, ask, text):
    """Follows `relation` to its end. Each page must begin exactly behind, or in front of, the page before, as the rows are now."""
    def place(row):
        return ask.place(table.kind, row)

    target, page, seen = "?" + text, [], []
    if relation == "prev":
        walk = Walk(table, "/things", ask, text)
        while "next" in walk.links:
            walk.follow("next")
        target, page = walk.links["prev"], [place(row) for row in walk.all[walk.start:walk.end]]
    stayed = {row["id"] for row in ask.rows(table.kind, table.rows) if not page or place(row) < page[0]}
    while True:
        rows = ask.rows(table.kind, table.rows)
        if page:
            rows = [row for row in rows if (page[-1] < place(row) if relation == "next" else place(row) < page[0])]
        expected = rows[:ask.limit] if relation == "next" else rows[-ask.limit:]
        answer = table.get("/things" + target)
        message = f"SLUICE_LIST_SEED={SEED} {table.kind}: GET /things?{text}: {relation} {target}"
        assert parsed(answer.body) == table.expected(ask, expected), message
        assert (relation in links(answer)) == (len(rows) > len(expected)), message
        seen += [row["id"] for row in expected]
        if relation not in links(answer):
            break
        page = [place(row) for row in expected]
        target = links(answer)[relation]
        some_changes(rng, table, ask)
        stayed &= {row["id"] for row in ask.rows(table.kind, table.rows)}
    assert len(seen) == len(set(seen)) and stayed <= set(seen)


def test_walks_while_rows_come_and_go(table):
    for number in range(max(4, WALKS // 4)):
        rng = random.Random(f"{SEED} writer {number}")
        ask = some_walk(rng, table)
        walk_while_rows_change(rng, table, rng.choice(["next", "prev"]), ask, ask.text(rng))


# Every answer to these is 400, wherever they stand.
BROKEN = ["%", "%4", "%zz", "%%27", f"{MARK}%u0027"]
# Parameters with a hole for such a text. It is a name, an operator, a cursor, or no value of the column's type.
REFUSING = ["{}=1", "name{}=1", "{}.name=1", "not.{}=(n.eq.1)", "n={}.1", "n=not.{}.1", "ok=is.{}", "or=(name.{}.x)", "or=(name.not.{}.x)",
            "or=({}.eq.1)", "or=(not.{}(n.eq.1))", "or={}", "or=(n.eq.1){}", "and=(n.eq.1,{})", "after={}", "before={}", "sort={}", "sort=name,-{}",
            "fields={}", "fields=id,{}", "limit={}", "limit=1{}", "offset={}", "count={}", "count=exact{}", "n={}", "n=in.({})", "or=(n.eq.{})",
            "price=gt.{}", "r=lt.{}", "f=neq.{}"]
REFUSING_OF_POSTGRES = ["day={}", "at=gt.{}", "kind={}", "kind=in.(small,{})"]


def asked_of(text):
    """Query strings in which the text is a value."""
    condition = [Condition("name", operator, text) for operator in ("eq", "neq", "gt")]
    condition += [Condition("note", "in", ["x", text]), Condition("name", "in", [text, text], True), Condition("name", "like", [ANY, text, ANY]),
                  Condition("note", "eq", text, True)]
    return [Ask(words=text), *(Ask([one]) for one in condition), Ask([Group("or", condition, True)]),
            Ask([Group("or", [Group("and", [one]) for one in condition])], sort=[("name", True)], counted=True)]


def test_nothing_of_a_client_is_sql(table):
    texts = [list_model.quote(text, safe="") for text in INJECTED] + BROKEN
    for hole in REFUSING + (REFUSING_OF_POSTGRES if table.kind == "postgres" else []):
        for text in texts:
            answer = table.connection.get(f"/things?{hole.format(text)}")
            assert (answer.status, answer.media_type) == (400, "application/problem+json"), (hole, text, answer.status, answer.body)
    rng = random.Random(SEED)
    for text in INJECTED:
        for ask in asked_of(text):
            Walk(table, "/things", ask, ask.text(rng))
    log = table.written()
    assert MARK not in log and "ERROR:" not in log
    assert len(re.findall("execute .*", log)) >= 10 * len(INJECTED) * (table.kind == "postgres")


NO_TEXTS = ["%00", "a%00b", "%ff", "%c0%af", "%ed%a0%80", "%f5%80%80%80", "a%e2%82"]


def test_bytes_that_are_no_text(table):
    for hole in (*REFUSING, "name={}", "name=like.*{}", "name=neq.{}", "note=in.(x,{})", "or=(name.eq.{})", "or=(note.not.like.{})", "q={}", "q=a+{}"):
        for text in NO_TEXTS:
            answer = table.connection.get(f"/things?{hole.format(text)}")
            assert (answer.status, answer.media_type) == (400, "application/problem+json"), (hole, text, answer.status, answer.body)
    assert "ERROR:" not in table.written()


NUMBERS = ["0", "-0", "+1", "007", " 1", "1 ", "1.0", "1.5", "1e3", "0x10", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
           "9" * 30, "9" * 400, "1e39", "1e-50", "1e308", "1e309", "-1e400", "1e-400", "1e131073", "1e-20000", "1e400000000", "1e99999999999999999999",
           "NaN", "nan", "Infinity", "-Infinity", "inf", "0x1p3", "1_000", ".5", "5.", ".", "1e", "e1", "--1", "\u0661", "true"]
TIMES = ["infinity", "-infinity", "today", "now", "epoch", "allballs", "2026-02-30", "2026-13-01", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01",
         "5874898-01-01", "294277-01-01", "999999999-01-01", "0044-03-15 BC", "2026-1-1", "20260101", "2026-01-01T00:00:00Z", "2026-01-01 24:00:00",
         "2026-01-01 23:59:60", "2026-01-01 25:00:00", "2026-01-01 00:00:00.1234567", "294277-01-01 00:00:00", "2026-01-01 00:00:00 99",
         "2026-01-01 00:00:00+99:00", "2026-01-01 00:00:00 Europe/Berlin", "4714-01-01 BC"]
EDGES = {**dict.fromkeys(("id", "n", "seven", "r", "f", "price"), NUMBERS), **dict.fromkeys(("day", "at"), TIMES),
         "ok": ["1", "0", "2", "TRUE", "yes", "on", "T", " t", "null"], "kind": ["Small", "small ", " small", "huge", "small,medium"]}


def test_the_database_sees_no_value_that_it_refuses(table):
    """PostgreSQL alone knows the bounds of decimals and times, so it is what refuses values beyond."""
    wrong = []
    for column, values in EDGES.items():
        for value in values:
            text = list_model.quote(value, safe="")
            holes = ["{}={}", "{}=in.(%22{}%22)", "or=({}.gt.%22{}%22)"]
            for target in ("/things?" + hole.format(column, text) for hole in holes):
                answer = table.connection.get(target)
                parameter = json.loads(answer.body).get("parameter") if answer.status == 400 else None
                errors = "ERROR:" in table.written()
                if column in ("price", "day", "at"):
                    is_right = answer.status in (200, 400)
                else:
                    is_right = not errors and (answer.status == 200 or parameter == column)
                if not is_right:
                    wrong.append(f"{target[:100]}: {answer.status} {answer.body.decode()[-150:]}")
    assert not wrong, "\n".join(wrong)


def decoded(cursor):
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


def test_cursors_that_are_not_from_a_link(table):
    """A client can make a cursor: it is not signed."""
    for order in ("n", "-price,name", "kind,-day", "seven,at", "id"):
        answer = table.get(f"/things?sort={order}&limit=150")
        cursor = re.search("[?&]after=([^&]*)", links(answer)["next"]).group(1)
        made = decoded(cursor)
        tried = [made[:size] for size in range(len(made))] + [made + b"n", made + made[8:], made[:8] + made[8:] * 40]
        tried += [made[:at] + bytes([byte]) + made[at + 1:] for at in range(len(made)) for byte in {made[at] ^ 1, 0, 0xFF, 0x7F, ord("n")} - {made[at]}]
        values = [b"t" + bytes([len(text)]) + text for text in (b"abc", b"", b"' OR 1=1", b"\0", b"\xff", b"1e999", b"99999999999999999999", b"infinity")]
        values += [tag + bytes([len(text)]) + text for tag in (b"i", b"r", b"b", b"x", b"n", b"?") for text in
                   (b"", b"abc", b"1e999", b"99999999999999999999", b"true", b"\\x00", b"\\xzz", b"NaN")]
        tried += [made[:8] + one + other for one in values for other in (b"", b"n", b"t\x01a", b"t\x011")]
        for one in tried:
            text = base64.urlsafe_b64encode(one).decode().rstrip("=")
            for name in ("after", "before"):
                answer = table.connection.get(f"/things?sort={order}&limit=150&{name}={text}")
                assert answer.status == 400 or answer.status == 200 and one[:8] == made[:8], (order, name, one, made, answer.status, answer.body)


def test_a_client_writes_nothing_into_link(table):
    for text in ('a>;rel="next",<//evil', 'a">', "a,b;c", "\u00e9>"):
        for target in (f"/things?name=neq.{list_model.quote(text)}", f"/things?q={text}".encode().decode("latin-1")):
            with table.server.connect() as connection:
                answer = connection.get(target)
            assert answer.status in (200, 400)
            if answer.status == 200:
                links(answer)


class Typed:
    """A table of test_values.py; `orders` are its columns whose values have an order."""

    def __init__(self, kind, request, folder, sluice):
        self.kind = kind
        if kind == "sqlite":
            self.database, self.name = test_values.Sqlite(folder / "typed.db"), "plain"
            columns = self.database.tables["plain"]
            self.orders = [name for name, declared in columns.items() if not declared.startswith("JSON")]
        else:
            self.database, self.name = test_values.Postgres(request.getfixturevalue("postgres")), "typed.plain"
            columns = self.database.columns
            self.orders = ["id", *(name for name, (declared, _) in columns.items() if "[]" not in declared and declared.split()[0] not in
                                   ("json", "jsonb", "point", "typed.doc", "typed.few", "typed.pair", "typed.outer"))]
        self.database.create(self.name)
        self.database.fill(self.name, 60)
        names = ", ".join(f'"{name}"' for name in self.orders)
        self.server = sluice(f'[database.main]\nurl = "{self.database.url}"\n[[endpoint]]\npath = "/typed"\nget = "SELECT '
                             f'{names.replace(chr(34), "")} FROM {self.name}"\n[endpoint.list]\norder = "id"\nfilter = [{names}]\nsort = [{names}]\n',
                             server='target_limit = "32KiB"\nheader_limit = "48KiB"')

    def numbers(self, sql):
        """The rows of a query for one or two integers."""
        if self.kind == "sqlite":
            return [tuple(row) for row in self.database.run(sql)]
        return [tuple(map(int, line.split(b"|"))) for line in self.database.cluster.psql(sql).split()]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def typed(request, tmp_path_factory, module_sluice):
    return Typed(request.param, request, tmp_path_factory.mktemp("typed"), module_sluice)


def test_cursors_of_every_type(typed):
    with typed.server.connect(60) as connection:
        def page(target):
            answer = connection.get("/typed" + target)
            assert answer.status == 200, (target, answer.status, answer.body)
            return [row["id"] for row in json.loads(answer.body)], links(answer)
        for name in typed.orders:
            for sign, down in (("", ""), ("-", "DESC")):
                nulls = f"{name} IS NULL {down}, " if typed.kind == "sqlite" else ""
                expected = [one for one, in typed.numbers(f"SELECT id FROM {typed.name} ORDER BY {nulls}{name} {down}, id")]
                found, followed = page(f"?sort={sign}{name}&limit=11&fields=id")
                while "next" in followed:
                    more, followed = page(followed["next"])
                    found += more
                assert found == expected, (name, down)
                backwards = []
                while "prev" in followed:
                    more, followed = page(followed["prev"])
                    backwards = more + backwards
                assert backwards == expected[:len(backwards)] and len(backwards) > 40, (name, down)


def test_a_value_of_an_answer_finds_its_row(typed):
    wrong = []
    with typed.server.connect(60) as connection:
        shown = json.loads(connection.get("/typed?limit=200").body, parse_float=str, parse_int=str)
        for name in typed.orders:
            equal = typed.numbers(f"SELECT a.id, b.id FROM {typed.name} a JOIN {typed.name} b ON a.{name} = b.{name} ORDER BY 1, 2")
            for value, key in {row[name]: int(row["id"]) for row in shown if row[name] is not None}.items():
                text = list_model.quote(str(value).lower() if isinstance(value, bool) else value, safe="")
                answer = connection.get(f"/typed?{name}=eq.{text}&limit=200&fields=id")
                expected = [{"id": other} for one, other in equal if one == key]
                if answer.status != 200 or json.loads(answer.body) != expected:
                    wrong.append(f"{name}=eq.{text[:200]}: {answer.status} {answer.body.decode()[-200:]}, not {expected}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_a_request_has_bounds(table):
    def status(target):
        return table.connection.get(target).status

    def groups(depth):
        return "or=(" + "and(" * (depth - 1) + "n.eq.1" + ")" * depth

    conditions, values = ["n.gte.0"] * 40, ["7"] * 300
    for most, query in ((32, lambda count: "&".join(["n=gte.0"] * count)), (32, lambda count: f"or=({','.join(conditions[:count])})"),
                        (32, lambda count: "q=" + "+".join(["a"] * count)), (32, lambda count: f"q=a&n=1&and=({','.join(conditions[:count - 2])})"),
                        (200, lambda count: f"n=in.({','.join(values[:count])})"), (200, lambda count: f"or=(n.not.in.({','.join(values[:count])}))"),
                        (4, groups), (4, lambda depth: "not." + groups(depth)), (400, lambda count: f"limit={count}"), (250, lambda count: f"offset={count}")):
        assert [status("/distinct?" + query(count)) for count in (most, most + 1)] == [200, 400], query(most + 1)


def test_a_cursor_belongs_to_its_list(table):
    own = "n=gte.0&sort=-day&limit=5"
    cursor = re.search("after=[^&]*", links(table.get("/things?" + own))["next"]).group()
    for other in (own, own + "0", "limit=2&sort=-day&n=gte.0", own + "&fields=name", own + "&count=exact", own.replace("&", "&&")):
        table.get(f"/things?{other}&{cursor}")
    for other in (f"/things?n=gte.1&sort=-day&{cursor}", f"/things?n=gt.0&sort=-day&{cursor}", f"/things?n=gte.0&sort=day&{cursor}",
                  f"/things?n=gte.0&sort=-day,name&{cursor}", f"/things?n=gte.0&n=gte.0&sort=-day&{cursor}", f"/things?n=gte.0&{cursor}",
                  f"/things?{own}&q=a&{cursor}", f"/things?sort=-day&{cursor}", f"/things?{own}&{cursor}&offset=1", f"/things?{own}&{cursor}&{cursor}",
                  f"/things?{own}&{cursor}&{cursor.replace('after', 'before')}", f"/things?{own}&not.or=(id.eq.1)&{cursor}",
                  f"/distinct?{own}&{cursor}", f"/above/900?{own}&{cursor}"):
        answer = table.connection.get(other)
        assert (answer.status, answer.media_type) == (400, "application/problem+json"), (other, answer.body)


def test_long_patterns(table):
    """Patterns have up to 1,000 bytes, which is SQLite's limit; there, what GLOB reads as signs takes three bytes."""
    long = "x" * 300
    found = parsed(table.get(f"/things?name=eq.{long}").body)
    assert found and parsed(table.get(f"/things?name=like.{'x*' * 300}{'*' * 400}&name=eq.{long}").body) == found
    for text in ("x" * 1001, "%5B" * 400, "x" * 3000):
        answer = table.connection.get(f"/things?name=like.{text}")
        if table.kind == "postgres" and text.startswith("%5B"):
            assert (answer.status, answer.body) == (200, b"[]\n")
        else:
            assert answer.status == 400 and json.loads(answer.body).get("parameter") == "name", answer.body


def test_an_operator_needs_a_value(table):
    for query in ("n=eq.", "n=not.eq.", "n=neq.", "n=gt.", "n=in.(,)", "or=(n.eq.)", "ok=eq.", "price=not.eq."):
        answer = table.connection.get("/things?" + query)
        assert (answer.status, answer.media_type) == (400, "application/problem+json"), query


def test_a_range_ends_within_the_estimate(table):
    """RFC 9110, 14.4: a Content-Range whose last position is not below the complete length is invalid."""
    for query in ("seven=3", "seven=3&limit=5&offset=20", "seven=3&limit=5&offset=200"):
        answer = table.get(f"/things?{query}&count=estimated")
        place, total = re.fullmatch("items (?:[0-9]+-([0-9]+)|[*])/([0-9]+)", answer.get("content-range")).groups()
        assert int(place or -1) < int(total), answer.get("content-range")


def test_a_column_without_a_type_is_walked(tmp_path, sluice):
    """SQLite: numbers, then texts, then bytes, then NULL."""
    values = [None, None, 0, 1, 1.0, -1, 0.5, 2**53 + 1, 2**63 - 1, -2**63, 1e300, 5e-324, "", "1", "0.5", "a", "A", "é", "x" * 300, b"", b"1", b"a", b"\xff\x00",
              "\\x41", "true", "null"]
    with sqlite3.connect(tmp_path / "any.db") as database:
        database.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, v)")
        database.executemany("INSERT INTO things (v) VALUES (?)", [(value,) for value in values])
    server = sluice(f'[database.main]\nurl = "sqlite:{tmp_path}/any.db"\n[[endpoint]]\npath = "/things"\nget = "SELECT id, v FROM things"\n'
                    '[endpoint.list]\norder = "id"\nfilter = ["v"]\nsort = ["v", "id"]\n')
    for sort, order in (("v", "v IS NULL, v, id"), ("-v,-id", "v IS NULL DESC, v DESC, id DESC"), ("-v", "v IS NULL DESC, v DESC, id")):
        expected = [key for key, in database.execute(f"SELECT id FROM things ORDER BY {order}")]
        found, reference = [], f"?sort={sort}&limit=2&fields=id"
        while reference:
            answer = server.get("/things" + reference)
            assert answer.status == 200, answer.body
            found += [row["id"] for row in json.loads(answer.body)]
            reference = links(answer).get("next")
        assert found == expected, sort
    database.close()
