"""Values of every type: writing back the rows of an answer changes nothing, in each format, on both databases."""
import json
import os
import random
import sqlite3
import subprocess

import pytest

from conftest import SLUICE, database_with

TYPES = {"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv", "csj": "application/csj"}
# Rows of each table. Every kind of value occurs among a few hundred; for more, run it with SLUICE_VALUE_ROWS=10000.
ROWS = int(os.environ.get("SLUICE_VALUE_ROWS", "400"))

STRINGS = ["", " ", "x", "\\x41", "\\x", "NULL", "null", "true", "t", "1", "1.50", "0x1F", "Infinity", "NaN", '"', '""', "'",
           "a,b", "a\nb", "a\r\nb", "\t", "\\", "\\N", "\\.", "{}", "{1,2}", "[1]", '{"a": 1}', "äöü €", "\U0001F600",
           "\u2028", "\x01\x1f\x7f", "12345678901234567890123", "1e400", "00491701234567890", " 7 ", "2024-02-29",
           "https://example.com/?a=1&b=%20#x", "</script>", "(1,2)", "a" * 3000]
INTEGERS = [0, 1, -1, 2**31 - 1, -2**31, 2**53 + 1, 2**63 - 1, -2**63]
REALS = [0.0, 1.0, -1.0, 0.1, 0.30000000000000004, 1e15, 1e16, 1e300, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
         -123456.789, 9007199254740993.0, float("inf"), float("-inf")]
JSONS = ["{}", "[]", '{"a":1}', '{ "a" : [1, 2,\n  {"b": null}] }', '"text"', '"\\u00e9\\/\\n\\"x\\""', '"5"', '"null"', '"true"',
         "true", "false", "null", '[null,"a",1.50,1e3,12345678901234567890123]', '{"a":{"b":{"c":"\\\\x41"}}}', '[\r\n1\r\n]']


def some_text(rng):
    if rng.random() < 0.6:
        return rng.choice(STRINGS)
    return "".join(chr(rng.choice((rng.randrange(32, 127), rng.randrange(0xA0, 0x2000), rng.randrange(1, 32))))
                   for _ in range(rng.randrange(12)))


def some_integer(rng):
    return rng.choice(INTEGERS) if rng.random() < 0.3 else rng.getrandbits(rng.randrange(1, 63)) * rng.choice((1, -1))


def some_real(rng):
    return rng.choice(REALS) if rng.random() < 0.3 else rng.uniform(-1, 1) * 10.0 ** rng.randrange(-20, 20)


def some_json(rng):
    return rng.choice(JSONS) if rng.random() < 0.7 else json.dumps({some_text(rng): some_text(rng)})


class Sqlite:
    """Tables with columns of each kind. In "loose" tables each value has its own type, which CSV cannot express."""
    tables = {"plain": {"id": "INTEGER PRIMARY KEY", "i": "INTEGER", "bi": "BIGINT", "r": "REAL", "d": "DOUBLE PRECISION",
                        "n": "NUMERIC", "de": "DECIMAL(10,2)", "t": "TEXT", "vc": "VARCHAR(40) COLLATE NOCASE", "bl": "BLOB",
                        "bo": "BOOLEAN", "j": "JSON", "jn": "JSON NOT NULL", "da": "DATE", "ts": "TIMESTAMP"},
              "strict": {"id": "INTEGER PRIMARY KEY", "i": "INT", "r": "REAL", "t": "TEXT", "bl": "BLOB", "a": "ANY"},
              "loose": {"id": "INTEGER PRIMARY KEY", "u": "", "bl": "BLOB", "j": "JSON"},
              "loose_strict": {"id": "INTEGER PRIMARY KEY", "a": "ANY", "bl": "BLOB"}}
    formats = {"plain": TYPES, "strict": TYPES, "loose": ["json", "ndjson", "csj"],
               "loose_strict": ["json", "ndjson", "csj"]}

    def __init__(self, path):
        self.path, self.url = path, f"sqlite:{path}"
        self.run("PRAGMA journal_mode = WAL")

    def run(self, sql, rows=None):
        database = sqlite3.connect(self.path, timeout=10, isolation_level=None)
        try:
            if rows is None:
                return database.execute(sql).fetchall()
            database.execute("BEGIN")
            database.executemany(sql, rows)
            database.execute("COMMIT")
        finally:
            database.close()

    def create(self, name):
        columns = ", ".join(f"{column} {declared}" for column, declared in self.tables[name].items())
        self.run(f"CREATE TABLE {name} ({columns}) {'STRICT' if name.endswith('strict') else ''}")

    def fill(self, name, count):
        rng = random.Random(13)
        rows = [[n] + [None if rng.random() < 0.1 and "NOT NULL" not in declared else self.value(rng, declared, name)
                       for column, declared in self.tables[name].items() if column != "id"] for n in range(count)]
        self.run(f"INSERT INTO {name} VALUES ({','.join('?' * len(self.tables[name]))})", rows)

    @staticmethod
    def value(rng, declared, table):
        loose = [some_integer(rng), some_real(rng), some_text(rng)]
        if table.startswith("loose") and loose[1] in (float("inf"), float("-inf")):
            loose[1] = 0.5  # without a declared type it cannot be told from the text
        if table.startswith("loose"):
            if declared == "JSON":
                return rng.choice([some_integer(rng), rng.uniform(-1, 1), "no json", "{", '"', "a\nb", some_json(rng)])
            if declared == "BLOB":  # a text in the notation of bytes would become bytes
                bytes_ = rng.randbytes(rng.randrange(9))
                return bytes_ if table == "loose_strict" else rng.choice((*loose[:2], loose[2].lstrip("\\"), bytes_))
            return rng.choice(loose)
        kind = declared.split()[0].split("(")[0]
        return {"INTEGER": lambda: some_integer(rng), "INT": lambda: some_integer(rng), "BIGINT": lambda: some_integer(rng),
                "REAL": lambda: some_real(rng), "DOUBLE": lambda: some_real(rng),
                "NUMERIC": lambda: rng.choice(loose[:2]), "DECIMAL": lambda: round(rng.uniform(-1e6, 1e6), 2),
                "TEXT": lambda: loose[2], "VARCHAR": lambda: loose[2],
                "BLOB": lambda: rng.randbytes(rng.choice((0, 1, 2, 7, 300))),
                "BOOLEAN": lambda: rng.choice((0, 1)), "JSON": lambda: some_json(rng),
                "ANY": lambda: loose[2],
                "DATE": lambda: f"{rng.randrange(1, 9999):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
                "TIMESTAMP": lambda: rng.choice((some_integer(rng), "2026-11-21 18:48:34.5", 2460310.25))}[kind]()

    def dump(self, name):
        return [tuple(map(repr, row)) for row in self.run(f"SELECT * FROM {name} ORDER BY id")]


def array_of(make, rng, dimensions=2):
    def one():
        return "NULL" if rng.random() < 0.1 else '"' + make(rng).replace("\\", "\\\\").replace('"', '\\"') + '"'
    if dimensions == 2 and rng.random() < 0.2:
        return "{{" + one() + "," + one() + "},{" + one() + "," + one() + "}}"
    return "{" + ",".join(one() for _ in range(rng.randrange(4))) + "}"


def record_of(rng, *values):
    return "(" + ",".join("" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '""') + '"'
                          for value in values) + ")"


def some_when(rng):
    return rng.choice(("infinity", "-infinity", "0044-03-15 12:00:00 BC", "2026-11-21 18:48:34.5", "1970-01-01 00:00:00",
                       f"{rng.randrange(1, 9999):04}-0{rng.randrange(1, 10)}-1{rng.randrange(10)} 0{rng.randrange(10)}:00:00.123456"))


def some_record(rng):
    return record_of(rng, rng.choice((None, str(rng.randrange(-9, 9)))), rng.choice((None, some_text(rng))),
                     rng.choice((None, array_of(some_text, rng))), rng.choice((None, *JSONS[:9])), some_when(rng))


class Postgres:
    """One table with columns of each kind; values are given as texts."""
    made = ("DROP SCHEMA IF EXISTS typed CASCADE; CREATE SCHEMA typed; CREATE TYPE typed.mood AS ENUM ('good', 'not so, \"good\"');"
            "CREATE TYPE typed.pair AS (a int, \"b c\" text, list text[], doc jsonb, at timestamptz);"
            "CREATE TYPE typed.outer AS (p typed.pair, ps typed.pair[]); CREATE DOMAIN typed.few AS int[];"
            "CREATE DOMAIN typed.doc AS json; CREATE TABLE typed.plain (id int PRIMARY KEY, {})")
    columns = {
        "bo": ("boolean", lambda r: r.choice("tf")), "si": ("smallint", lambda r: str(r.randrange(-2**15, 2**15))),
        "i": ("integer", lambda r: str(r.randrange(-2**31, 2**31))), "bi": ("bigint", lambda r: str(some_integer(r))),
        "r": ("real", lambda r: r.choice(("NaN", "Infinity", "-Infinity", "-0", "1e-30", "0.1", str(r.random())))),
        "d": ("double precision", lambda r: r.choice(("NaN", "-0", repr(some_real(r)).replace("inf", "Infinity")))),
        "n": ("numeric", lambda r: r.choice(("NaN", "Infinity", "1.50", "0.00", "12345678901234567890123.10", str(r.random())))),
        "t": ("text", some_text), "vc": ("varchar(3000)", some_text), "c": ("char(5)", lambda r: r.choice(("", "a", "ab  c"))),
        "by": ("bytea", lambda r: "\\x" + r.randbytes(r.choice((0, 1, 9))).hex()), "da": ("date", lambda r: some_when(r)),
        "ti": ("time", lambda r: "18:48:34.5"), "tz": ("timetz", lambda r: "18:48:34.5+05:30"), "ts": ("timestamp", some_when),
        "tt": ("timestamptz", some_when), "iv": ("interval", lambda r: r.choice(("1 mon", "30 days", "-1 day +02:03:04.5", "0"))),
        "u": ("uuid", lambda r: r.randbytes(16).hex()), "j": ("json", some_json), "jb": ("jsonb", some_json),
        "jn": ("jsonb NOT NULL", some_json), "jd": ("typed.doc", some_json), "ip": ("inet", lambda r: "10.0.0.1/8"),
        "ci": ("cidr", lambda r: "10.0.0.0/8"), "ma": ("macaddr", lambda r: "08:00:2b:01:02:03"),
        "bt": ("bit(4)", lambda r: "0101"), "vb": ("varbit", lambda r: r.choice(("", "1", "0101"))),
        "po": ("point", lambda r: "(1.5,-2)"), "bx": ("box[]", lambda r: "{(1,1),(0,0);(3,3),(2,2)}"),
        "ia": ("int[]", lambda r: array_of(lambda r: str(r.randrange(99)), r)), "ta": ("text[]", lambda r: array_of(some_text, r)),
        "ba": ("boolean[]", lambda r: "{t,f,NULL}"), "ja": ("jsonb[]", lambda r: array_of(lambda r: r.choice(JSONS[:11]), r, 1)),
        "tta": ("timestamptz[]", lambda r: array_of(some_when, r)), "few": ("typed.few", lambda r: "{1,2}"),
        "rg": ("int4range", lambda r: r.choice(("empty", "[1,5)", "(,)", "[3,)"))), "tr": ("tstzrange", lambda r: '["2026-01-01 00:00:00+00",)'),
        "mr": ("int4multirange", lambda r: r.choice(("{}", "{[1,3),[5,9)}"))), "mo": ("typed.mood", lambda r: r.choice(("good", 'not so, "good"'))),
        "p": ("typed.pair", some_record), "pa": ("typed.pair[]", lambda r: array_of(some_record, r)),
        "o": ("typed.outer", lambda r: record_of(r, some_record(r), array_of(some_record, r))),
        "tv": ("tsvector", lambda r: "'a':1 'b c':2"), "mn": ("money", lambda r: "1234.50")}
    tables = {"typed.plain": {"id": "int", **columns}}
    formats = {"typed.plain": TYPES}

    def __init__(self, cluster):
        self.cluster, self.url = cluster, cluster.url()

    def create(self, name):
        self.cluster.psql(self.made.format(", ".join(f"{column} {declared}" for column, (declared, _) in self.columns.items())))

    def fill(self, name, count):
        rng = random.Random(13)

        def copied(text):
            return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
        lines = ["\t".join([str(n)] + ["\\N" if rng.random() < 0.1 and "NOT NULL" not in declared else copied(make(rng))
                                       for declared, make in self.columns.values()]) for n in range(count)]
        self.cluster.psql((f"COPY {name} FROM STDIN;\n" + "\n".join(lines) + "\n\\.\n").encode())

    def dump(self, name):
        return self.cluster.psql(f"COPY (SELECT * FROM {name} ORDER BY id) TO STDOUT").splitlines()


def differences(before, after):
    """The fields that differ in each row, up to three."""
    def fields(row):
        return row if isinstance(row, tuple) else row.split(b"\t")
    found = [pair for old, new in zip(before, after) if old != new for pair in zip(fields(old), fields(new))]
    return [f"{old!r} is now {new!r}"[:1000] for old, new in found if old != new][:3]


def config_of(database):
    config = f'[database.main]\nurl = "{database.url}"\npool = 2\n'
    for name, columns in database.tables.items():
        lines = "".join(f"columns.{column} = {{{' key = true ' if column == 'id' else ''}}}\n" for column in columns)
        config += (f'[[endpoint]]\npath = "/{name}"\nget = "SELECT * FROM {name} ORDER BY id"\n'
                   f'[endpoint.put]\ntable = "{name}"\nexisting = "SELECT id FROM {name}"\nrow_limit = "4MiB"\n{lines}'
                   f'[[endpoint]]\npath = "/{name}/{{id:int}}"\nreturns = "object"\nversion = "*"\n'
                   f'get = "SELECT * FROM {name} WHERE id = :id"\n'
                   f'[endpoint.put]\ntable = "{name}"\nreturning = "*"\n{lines.replace("key = true", "key = true, from = " + chr(34) + "path.id" + chr(34))}'
                   f'[endpoint.patch]\ntable = "{name}"\nreturning = "*"\n{lines.replace("key = true", "key = true, from = " + chr(34) + "path.id" + chr(34))}')
    return config


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    made = Sqlite(tmp_path / "typed.db") if request.param == "sqlite" else Postgres(request.getfixturevalue("postgres"))
    for name in made.tables:
        made.create(name)
    return made


def call(connection, method, target, body=None, content="application/json", *fields):
    answer = connection.call(method, target, body, *([f"Content-Type: {content}"] if body is not None else []), *fields)
    assert answer.status in ((200, 304) if method == "GET" else (200, 201, 204)), (target, answer.status, answer.body)
    return answer


def test_what_get_gives_is_what_put_takes(database, sluice):
    """PUT of a set: every row is unchanged, in each format."""
    for name in database.tables:
        database.fill(name, ROWS)
    server = sluice(config_of(database), server='body_limit = "1GiB"')
    with server.connect(600) as connection:
        for name in database.tables:
            before = database.dump(name)
            assert len(before) == ROWS
            for form in database.formats[name]:
                body = call(connection, "GET", f"/{name}.{form}").body
                counts = json.loads(call(connection, "PUT", f"/{name}", body, TYPES[form]).body)
                after = database.dump(name)
                assert differences(before, after) == [] and len(after) == ROWS, (name, form, counts)
                assert counts == {"inserted": 0, "updated": 0, "deleted": 0, "unchanged": ROWS}, (name, form, counts)


def test_rows_that_are_put_where_none_are(database, sluice):
    """PUT of a set into an empty table makes the same rows again. JSON's null becomes NULL if the column allows it."""
    for name in database.tables:
        database.fill(name, 200)
    server = sluice(config_of(database), server='body_limit = "1GiB"')
    with server.connect(60) as connection:
        for name in database.tables:
            if name == "loose":
                continue  # text that is not JSON becomes a JSON string in a JSON column
            for form in database.formats[name]:
                shown = call(connection, "GET", f"/{name}.{form}").body
                before = database.dump(name)
                call(connection, "PUT", f"/{name}", b"[]")
                counts = json.loads(call(connection, "PUT", f"/{name}", shown, TYPES[form]).body)
                assert counts["inserted"] == 200
                assert call(connection, "GET", f"/{name}.{form}").body == shown
                if form == "csv":
                    assert database.dump(name) == before


def test_one_row_is_put_as_it_was_given(database, sluice):
    """Methods that name a table. The answer's ETag is that of a GET before and after it."""
    for name in database.tables:
        database.fill(name, 60)
    server = sluice(config_of(database), server='body_limit = "1GiB"')
    with server.connect(60) as connection:
        for name in database.tables:
            before = database.dump(name)
            for n in range(60):
                shown = call(connection, "GET", f"/{name}/{n}")
                for method in ("PUT", "PATCH"):
                    body = shown.body.replace(f'"id":{n},'.encode(), b"", 1)
                    written = call(connection, method, f"/{name}/{n}", body, "application/json",
                                   f"If-Match: {shown.get('ETag')}")
                    assert written.body == shown.body and written.get("ETag") == shown.get("ETag"), (name, n, method)
            assert differences(before, database.dump(name)) == []


ALL_OF_A_KIND = '''
[database.main]
url = "sqlite:{path}"
[[endpoint]]
path = "/films"
get = "SELECT * FROM films ORDER BY id"
[endpoint.post]
table = "films"
columns.id = {{}}
columns.adult = {{}}
columns.code = {{}}
columns.data = {{}}
columns.score = {{}}
[endpoint.put]
table = "films"
existing = "SELECT id FROM films"
columns.id = {{ key = true }}
columns.adult = {{}}
columns.code = {{}}
columns.data = {{}}
columns.score = {{}}
[[endpoint]]
path = "/written"
[endpoint.post]
sql = "INSERT INTO films (id, adult, code, data, score) VALUES (:id, :adult, :code, :data, :score)"
[[endpoint]]
path = "/unknown"
[endpoint.post]
sql = "INSERT INTO films (id, adult, code, data, score) SELECT * FROM (SELECT :id, :adult, :code, :data, :score)"
[[endpoint]]
path = "/typed"
params.adult.type = "bool"
params.code.type = "text"
params.data.type = "bytes"
post = "INSERT INTO films (id, adult, code, data, score) SELECT * FROM (SELECT :id, :adult, :code, :data, :score)"
'''


@pytest.fixture
def films(sluice, tmp_path):
    """SQLite's films(id, adult BOOLEAN, code TEXT, data BLOB, score REAL), and a function that reads its rows."""
    path = tmp_path / "films.db"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("CREATE TABLE films (id INTEGER PRIMARY KEY, adult BOOLEAN, code TEXT, data BLOB, score REAL)")
    server = sluice(ALL_OF_A_KIND.format(path=path))
    with server.connect() as connection:
        yield (lambda method, target, body, content="application/json":
               connection.call(method, target, body.encode(), f"Content-Type: {content}"),
               lambda columns: database.execute(f"SELECT {columns} FROM films ORDER BY id").fetchall(), path)
    database.close()


BOOLEANS = "id,adult\n1,f\n2,t\n3,false\n4,true\n5,TRUE\n6,0\n7,1\n8,\n9,\"\"\n"
AS_BOOLEANS = [(0,), (1,), (0,), (1,), (1,), (0,), (1,), (None,), (None,)]


def test_booleans_of_csv_are_booleans(films):
    call, rows, path = films
    for target in ("POST", "PUT"):
        call("PUT", "/films", "[]")
        assert call(target, "/films", BOOLEANS, "text/csv").status in (200, 201)
        assert rows("adult") == AS_BOOLEANS
    call("PUT", "/films", "[]")
    subprocess.run([SLUICE, "import", "--database", f"sqlite:{path}", "films", "-", "--format", "csv"], check=True,
                   input=BOOLEANS, text=True, capture_output=True, timeout=60)
    assert rows("adult") == AS_BOOLEANS


LONG = ["9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "3.14159265358979323846264338327950288",
        "1.50", "0.30000000000000004", "1e400", "-0"]


def test_numbers_keep_their_digits_in_columns_of_text(films):
    call, rows, _ = films
    body = "[" + ",".join(f'{{"id":{n},"code":{number}}}' for n, number in enumerate(LONG)) + "]"
    for method, target in (("POST", "/films"), ("PUT", "/films"), ("POST", "/written"), ("POST", "/typed")):
        call("PUT", "/films", "[]")
        sent = body if target == "/films" else body.replace('"code"', '"adult":null,"data":null,"score":null,"code"')
        assert call(method, target, sent).status in (200, 201), (method, target)
        assert rows("code") == [(number,) for number in LONG]
    # A boolean becomes a word, as in PostgreSQL.
    assert call("POST", "/films", '{"id":100,"code":true}').status == 201
    assert rows("code")[-1] == ("true",)


def test_numbers_that_would_lose_digits_are_refused(films):
    call, rows, _ = films
    for column, number in (("id", LONG[2]), ("adult", LONG[0]), ("adult", LONG[2]), ("data", LONG[3]), ("score", "1e400")):
        row = {"id": 1, "adult": None, "code": None, "data": None, "score": None}
        body = json.dumps({**row, column: "@"}).replace('"@"', number)
        for method, target in (("POST", "/films"), ("PUT", "/films"), ("POST", "/written")):
            answer = call(method, target, f"[{body}]")
            assert answer.status == 422, (column, method, target, answer.body)
            assert json.loads(answer.body).get("errors", [{}])[0].get("pointer") == f"/0/{column}", (column, target, answer.body)
    assert rows("id") == []
    # If a statement does not show which column a value is for, it is stored if it fits into 64 bits.
    answer = call("POST", "/unknown", '{"id":1,"adult":true,"code":1.50,"data":"\\\\x41","score":0.30000000000000004}')
    assert answer.status == 201
    assert rows("adult, code, data, score") == [(1, "1.5", "\\x41", 0.30000000000000004)]
    for number in LONG[:4]:
        assert call("POST", "/unknown", f'{{"id":2,"adult":0,"code":{number},"data":0,"score":0}}').status == 422
    # REAL is double precision and rounds, as in PostgreSQL.
    assert call("POST", "/films", f'{{"id":2,"score":{LONG[3]}}}').status == 201
    assert rows("score")[-1] == (3.141592653589793,)


def test_bytes_are_bytes_where_they_are_declared(films):
    call, rows, _ = films
    for target in ("/films", "/written", "/typed"):
        call("PUT", "/films", "[]")
        row = '{"id":1,"adult":"t","code":"\\\\x41","data":"\\\\x00fF","score":1}'
        assert call("POST", target, row).status == 201, target
        assert rows("adult, code, data") == [(1, "\\x41", b"\x00\xff")]
    assert call("POST", "/typed", '{"id":2,"adult":"f","code":"","data":"no bytes","score":1}').status == 422
    # Without a declared type SQLite stores any text, and so does the column.
    assert call("POST", "/films", '{"id":2,"data":"no bytes"}').status == 201
    assert rows("data")[-1] == ("no bytes",)


TYPED = [("n", "integer", "abc"), ("n", "integer", "1.5"), ("n", "integer", True), ("ok", "boolean", "maybe"), ("ok", "boolean", "2"),
         ("r", "double precision", "much"), ("r", "double precision", False), ("d", "numeric", "1,5"), ("d", "numeric", True), ("j", "json", "{no"), ("jb", "jsonb", "{no")]
TYPED_CONFIG = """
[database.main]
url = "{url}"
[[endpoint]]
path = "/typed"
get = "SELECT n, t, ok FROM typed WHERE (:ok IS NULL OR ok = :ok) AND (n = :n OR :n IS NULL) ORDER BY n, t"
[endpoint.post]
table = "typed"
{columns}
[endpoint.put]
table = "typed"
existing = "SELECT t FROM typed"
{columns}
columns.t.key = true
[[endpoint]]
path = "/own"
post = "INSERT INTO typed (n, ok, r, d, j, jb, t) VALUES (:n, :ok, :r, :d, :j, :jb, :t)"
[[endpoint]]
path = "/json"
get = "SELECT t, j FROM typed ORDER BY t"
[[endpoint]]
path = "/ok/{{ok}}"
get = "SELECT n FROM typed WHERE ok = :ok"
require = "exists(SELECT 1 FROM typed WHERE ok = :ok)"
[[endpoint]]
path = "/set/{{ok}}"
[endpoint.put]
table = "typed"
existing = "SELECT t FROM typed WHERE ok = :ok"
columns.t = {{ key = true }}
columns.ok = {{ from = "path.ok" }}
"""


@pytest.fixture(params=["sqlite", "postgres"])
def typed(request, sluice, tmp_path):
    """typed(n integer, ok boolean, r double precision, d numeric, j json, t text)"""
    columns = {column: kind for column, kind, _ in TYPED}
    url = database_with(request, tmp_path, ["DROP TABLE IF EXISTS typed", "CREATE TABLE typed (t text PRIMARY KEY, " + ", ".join(
        f"{column} {kind}" for column, kind in columns.items()) + ")"])
    lines = "".join(f"columns.{column} = {{}}\n" for column in columns)
    server = sluice(TYPED_CONFIG.format(url=url, columns=lines + "columns.t.required = true"))
    with server.connect() as connection:
        connection.kind = request.param
        yield connection


def test_parameters_of_existing_are_converted_too(typed):
    def put(ok, *keys):
        return typed.call("PUT", f"/set/{ok}", json.dumps([{"t": key} for key in keys]).encode(), "Content-Type: application/json")
    assert put("true", "a", "b").status == 200 and put("f", "c").status == 200
    for ok, keys, deleted in (("true", ["a"], 1), ("t", [], 1), ("false", [], 1)):
        answer = put(ok, *keys)
        assert answer.status == 200 and json.loads(answer.body)["deleted"] == deleted, (ok, answer.body)
    assert put("banana", "a").status == 400


def test_what_is_not_of_the_columns_type_is_refused(typed):
    for column, _, wrong in TYPED:
        for content, body in (("text/csv", f't,{column}\na,"{wrong}"\n'), ("application/json", json.dumps([{"t": "a", column: wrong}]))):
            if column in ("j", "jb") and content != "text/csv":
                continue  # it is a valid JSON string
            for method, target in (("POST", "/typed"), ("PUT", "/typed"), ("POST", "/own")):
                answer = typed.call(method, target, body.encode(), f"Content-Type: {content}")
                assert answer.status == 422, (column, content, method, target, answer.status, answer.body)
    for wrong in ({"n": [1]}, {"ok": {}}):
        assert typed.call("POST", "/typed", json.dumps({"t": "a", **wrong}).encode(), "Content-Type: application/json").status == 422
    assert json.loads(typed.get("/typed").body) == []


def test_a_field_that_was_left_empty_is_no_number(typed):
    """An empty field of a form or of CSV is NULL if the type has no empty text; so is an empty query parameter."""
    empty = {column: "" for column, _, _ in TYPED}
    form, head = "&".join(f"{column}=" for column in empty), ",".join(empty)
    for method, target, content, body in (
            ("POST", "/typed", "application/x-www-form-urlencoded", f"t=&{form}"),
            ("POST", "/own", "application/x-www-form-urlencoded", f"t=a&{form}"),
            ("POST", "/typed", "text/csv", f't,{head}\nb{",%22%22".replace("%22", chr(34)) * len(empty)}\n'),
            ("PUT", "/typed", "text/csv", 't,n,ok\n"",,\na,"",""\nb,"",\n')):
        answer = typed.call(method, target, body.encode(), f"Content-Type: {content}")
        assert answer.status in (200, 201), (method, target, content, answer.status, answer.body)
    assert sorted(json.loads(typed.get("/typed?n=&ok=").body), key=lambda row: row["t"]) == [
        {"n": None, "t": text, "ok": None} for text in ("", "a", "b")]
    for body in (b'{"t":"c","n":""}', b'{"t":"c","ok":""}'):
        assert typed.call("POST", "/typed", body, "Content-Type: application/json").status == 422


# Columns, and the value that an empty field of a form or of CSV gives.
EMPTY = {"sqlite": {"n": ("NUMERIC(10,2)", None), "d": ("DATE", None), "at": ("TIMESTAMP", None), "dt": ("datetime", None), "u": ("UUID", None),
                    "span": ("INTERVAL", None), "s": ("STRING", ""), "t": ("VARCHAR(9)", ""), "a": ("", "")},
         "postgres": {"n": ("numeric(10,2)", None), "d": ("date", None), "at": ("timestamptz", None), "u": ("uuid", None),
                      "span": ("interval", None), "mood": ("empty.mood", None), "dm": ("empty.domain", None), "ms": ("empty.mood[]", None),
                      "p": ("empty.pair", None), "net": ("inet", None), "r": ("int4range", None), "m": ("money", None),
                      "said": ("empty.said", ""), "t": ("varchar(9)", ""), "c": ('"char"', ""), "b": ("bytea", "\\x")}}
EMPTY_CONFIG = """
[database.main]
url = "{url}"
[[endpoint]]
path = "/empty"
get = "SELECT * FROM {table} WHERE {found}"
[endpoint.post]
table = "{table}"
{columns}
[endpoint.put]
table = "{table}"
existing = "SELECT id FROM {table} WHERE false"
{columns}
[[endpoint]]
path = "/own"
post = "INSERT INTO {table} (id, {names}) VALUES (:id, {values})"
"""


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_field_is_null_where_the_column_is_no_text(kind, request, sluice, tmp_path):
    columns = EMPTY[kind]
    table = "empty.plain" if kind == "postgres" else "plain"
    create = f"CREATE TABLE {table} (id integer PRIMARY KEY, {', '.join(f'{name} {declared}' for name, (declared, _) in columns.items())})"
    if kind == "postgres":
        cluster = request.getfixturevalue("postgres")
        cluster.psql("DROP SCHEMA IF EXISTS empty CASCADE; CREATE SCHEMA empty; CREATE TYPE empty.mood AS ENUM ('good');"
                     "CREATE TYPE empty.said AS ENUM ('', 'a'); CREATE DOMAIN empty.domain AS empty.mood;"
                     f"CREATE TYPE empty.pair AS (a int, b int); {create}")
        url = cluster.url()
    else:
        url = f"sqlite:{tmp_path}/empty.db"
        sqlite3.connect(tmp_path / "empty.db").execute(create)
    names = list(columns)
    # A domain or a composite type can only be compared after a cast.
    compared = [name for name, (_, value) in columns.items() if value is None and name not in ("dm", "p")]
    server = sluice(EMPTY_CONFIG.format(
        url=url, table=table, names=", ".join(names), values=", ".join(f":{name}" for name in names),
        found=" AND ".join(f"(:{name} IS NULL OR {name} = :{name})" for name in compared) + " ORDER BY id",
        columns="columns.id.key = true\n" + "".join(f"columns.{name} = {{}}\n" for name in names)))
    form = "&".join(f"{name}=" for name in names)
    csv = f"id,{','.join(names)}\n{{}}" + ',""' * len(names) + "\n"
    with server.connect() as connection:
        for n, (method, target, content, body) in enumerate((
                ("POST", "/own", "application/x-www-form-urlencoded", f"id=0&{form}"),
                ("POST", "/empty", "application/x-www-form-urlencoded", f"id=1&{form}"),
                ("POST", "/own", "text/csv", csv.format(2)), ("PUT", "/empty", "text/csv", csv.format(3)))):
            answer = connection.call(method, target, body.encode(), f"Content-Type: {content}")
            assert answer.status in (200, 201), (n, answer.body, server.log)
        subprocess.run([SLUICE, "import", "--database", url, table, "-", "--format", "csv"], check=True, input=csv.format(4), text=True,
                       capture_output=True, timeout=60)
        found = connection.get("/empty?" + "&".join(f"{name}=" for name in compared))
        assert found.status == 200, (found.body, server.log)
        assert json.loads(found.body) == [
            {"id": n, **{name: value for name, (_, value) in columns.items()}} for n in range(5)]


def test_parameters_are_of_their_columns_type(typed):
    rows = [{"t": str(n), "n": n, "ok": n % 2 == 1} for n in range(4)]
    assert typed.call("PUT", "/typed", json.dumps(rows).encode(), "Content-Type: application/json").status == 200
    for query, found in (("?ok=true", [1, 3]), ("?ok=f", [0, 2]), ("?ok=t&n=3", [3]), ("?n=2", [2]), ("", [0, 1, 2, 3])):
        assert [row["n"] for row in json.loads(typed.get("/typed" + query).body)] == found, query
    assert sorted(row["n"] for row in json.loads(typed.get("/ok/true").body)) == [1, 3]
    for target in ("/typed?ok=maybe", "/typed?n=abc", "/ok/maybe"):
        assert typed.get(target).status == 400, target


def test_a_nul_in_json(typed):
    """JSON can hold an escaped NUL, and a JSON column keeps it. Texts and PostgreSQL's jsonb cannot hold it."""
    rows = [b'{"t":"a","j":"x\\u0000"}', b'{"t":"b","j":{"k\\u0000":["\\u0000"]}}', b'{"t":"c","j":"x\\u0000"}']
    for row, method, target in zip(rows, ("PUT", "POST", "POST"), ("/typed", "/typed", "/own")):
        body = b"[" + row + b"]"
        assert typed.call(method, target, body, "Content-Type: application/json").status in (200, 201), row
    first = typed.get("/json").body
    assert first == b"[" + b",\n".join(rows) + b"]\n"
    for form, content in TYPES.items():
        body = typed.get(f"/json.{form}").body
        assert typed.call("PUT", "/typed", body, f"Content-Type: {content}").body == (
            b'{"inserted":0,"updated":0,"deleted":0,"unchanged":3}'), form
        assert typed.get("/json").body == first, form
    for field, value in (("t", '"a\\u0000"'), ("n", '"\\u0000"'), ("jb", '"a\\u0000"'), ("jb", '["\\u0000"]')):
        body = f'[{{"t":{value}}}]' if field == "t" else f'[{{"t":"e","{field}":{value}}}]'
        for method, target in (("POST", "/typed"), ("PUT", "/typed"), ("POST", "/own")):
            if field == "jb" and typed.kind == "sqlite":
                continue
            answer = typed.call(method, target, body.encode(), "Content-Type: application/json")
            assert answer.status == 422, (field, method, target, answer.status, answer.body)
    assert typed.get("/json").body == first


DECLARED = '''
[database.main]
url = "{path}"
[[endpoint]]
path = "/o"
get = "SELECT * FROM o ORDER BY id"
{methods}
[[endpoint]]
path = "/c"
get = "SELECT * FROM c ORDER BY id"
[endpoint.post]
table = "c"
columns.a = {{}}
columns.s = {{}}
columns.d = {{}}
returning = "a, s, d"
[endpoint.put]
table = "c"
existing = "SELECT id FROM c"
columns.id = {{ key = true }}
columns.a = {{}}
columns.s = {{}}
columns.d = {{}}
[[endpoint]]
path = "/own"
params.s.type = "text"
post = "INSERT INTO c (s) VALUES (:s)"
'''
DECLARED_TYPES = {"total": ("INTEGER", "real"), "price": ("DECIMAL(30,2)", "real"), "n": ("NUMERIC", "text"), "s": ("STRING", "text"),
                  "ok": ("BOOLEAN", "text"), "bl": ("BLOB", "text"), "j": ("JSON", "text")}


@pytest.fixture
def declared(sluice, tmp_path):
    """SQLite's tables o, whose columns have a `type` in the configuration, and c(id, a ANY, s STRING, d DATE)"""
    path = tmp_path / "declared.db"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("CREATE TABLE o (id INTEGER PRIMARY KEY, " + ", ".join(f"{c} {k}" for c, (k, _) in DECLARED_TYPES.items()) + ")")
    database.execute("CREATE TABLE c (id INTEGER PRIMARY KEY, a ANY, s STRING, d DATE)")
    columns = "columns.id = { key = true }\n" + "".join(f'columns.{c} = {{ type = "{t}" }}\n' for c, (_, t) in DECLARED_TYPES.items())
    methods = f'[endpoint.put]\ntable = "o"\nexisting = "SELECT id FROM o"\n{columns}[endpoint.post]\ntable = "o"\n' + (
        columns.replace("{ key = true }", "{}"))
    server = sluice(DECLARED.format(path=f"sqlite:{path}", methods=methods))
    with server.connect() as connection:
        yield (lambda method, target, body, content="application/json":
               connection.call(method, target, body.encode(), f"Content-Type: {content}"),
               lambda query: database.execute(query).fetchall())
    database.close()


def test_a_declared_type_is_no_way_around_the_column(declared):
    call, rows = declared
    row = {"id": 1, "total": 9007199254740993, "price": 9007199254740993, "n": 9007199254740993, "s": "x", "ok": "true", "bl": "\\x00ff", "j": "5"}
    stored = [(9007199254740993, 9007199254740993, 9007199254740993, "x", 1, b"\x00\xff", '"5"')]
    for method, body, content in (("POST", json.dumps(row), "application/json"), ("PUT", json.dumps([row]), "application/json"),
                                  ("PUT", ",".join(row) + '\n1,9007199254740993,9007199254740993,9007199254740993,x,t,\\x00ff,"""5"""\n', "text/csv")):
        rows("DELETE FROM o")
        answer = call(method, "/o", body, content)
        assert answer.status in (200, 201), (method, content, answer.body)
        assert rows("SELECT total, price, n, s, ok, bl, j FROM o") == stored, (method, content)
    answer = call("PUT", "/o", call("GET", "/o", "").body.decode())
    assert answer.status == 200 and json.loads(answer.body)["unchanged"] == 1, answer.body
    for column, value in (("total", "1.5"), ("price", "12345678901234567890.12"), ("n", '"12345678901234567890123"'), ("s", '"12345678901234567890123"'),
                          ("s", '"007"')):
        answer = call("POST", "/o", f'{{"{column}":{value}}}')
        assert answer.status == 422 and json.loads(answer.body)["errors"][0]["pointer"] == f"/{column}", (column, value, answer.body)
    assert rows("SELECT count(*) FROM o") == [(1,)]
    # The column's declared type is text, so any text is valid.
    assert call("POST", "/o", '{"n":"many","ok":"maybe"}').status == 201
    assert rows("SELECT n, ok FROM o ORDER BY id DESC LIMIT 1") == [("many", "maybe")]


def test_a_json_column_keeps_strings_where_a_type_is_declared(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS kept; CREATE TABLE kept (id int PRIMARY KEY, j jsonb)")
    server = sluice(f'[database.main]\nurl = "{postgres.url()}"\n[[endpoint]]\npath = "/kept"\n[endpoint.put]\ntable = "kept"\n'
                    'existing = "SELECT id FROM kept"\ncolumns.id.key = true\ncolumns.j.type = "text"\n')
    with server.connect() as connection:
        assert connection.call("PUT", "/kept", b'[{"id":1,"j":"5"}]', "Content-Type: application/json").status == 200
    assert postgres.psql("SELECT j FROM kept") == b'"5"\n'


def test_texts_that_sqlite_would_write_anew(declared):
    """In columns with NUMERIC affinity SQLite would change them: ANY in a table that is not STRICT, STRING, DATE."""
    call, rows = declared
    for column in ("a", "s", "d"):
        for text in ("007", "+7", " 7", "1.50", "1e5", ".5", "9223372036854775808", "12345678901234567890123"):
            for method, body, content in (("POST", f'{{"{column}":"{text}"}}', "application/json"), ("POST", f'{column}\n"{text}"\n', "text/csv"),
                                          ("PUT", f'[{{"id":1,"{column}":"{text}"}}]', "application/json")):
                answer = call(method, "/c", body, content)
                assert answer.status == 422, (column, text, method, content, answer.body)
        for text in ("20260101", "1.5", "-3", "2026-01-01", "x", "0x10"):
            answer = call("POST", "/c", f'{{"{column}":"{text}"}}')
            assert answer.status == 201 and f'"{column}":{text}' in answer.body.decode().replace('"' + text + '"', text), (column, text)
    assert call("POST", "/own", '{"s":"007"}').status == 422
    shown = call("GET", "/c", "").body.decode()
    answer = call("PUT", "/c", shown)
    assert json.loads(answer.body)["unchanged"] == 18, answer.body


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=False)
def test_a_null_of_json_between_blanks_stays(kind, request, sluice, tmp_path):
    request.param = kind
    url = database_with(request, tmp_path, ["DROP TABLE IF EXISTS nulls", "CREATE TABLE nulls (id integer PRIMARY KEY, j json)",
                                            "INSERT INTO nulls VALUES (1, ' null ')"])
    server = sluice(f'[database.main]\nurl = "{url}"\n[[endpoint]]\npath = "/nulls"\nget = "SELECT * FROM nulls"\n[endpoint.put]\n'
                    'table = "nulls"\nexisting = "SELECT id FROM nulls"\ncolumns.id.key = true\ncolumns.j = {}\n')
    with server.connect() as connection:
        answer = connection.call("PUT", "/nulls", connection.get("/nulls").body, "Content-Type: application/json")
        assert json.loads(answer.body)["unchanged"] == 1, answer.body


def test_a_body_that_is_no_json_is_400(typed):
    for body, content in (('{"t":"a",}', "application/json"), ('[{"t":"a"},{"t":x}]', "application/json"), ('{"t":"a"} x', "application/json"),
                          ('{"t":"a"}\n{"t":"b" "n":1}\n', "application/x-ndjson")):
        for method, target in (("POST", "/typed"), ("PUT", "/typed")):
            answer = typed.call(method, target, body.encode(), f"Content-Type: {content}")
            assert answer.status == 400, (method, body, answer.status, answer.body)
    assert typed.call("POST", "/typed", b'{"t":"a","other":1}', "Content-Type: application/json").status == 422


FORMS = [
    "INSERT INTO t VALUES (:id, :b, :x, :j, :n)",
    "INSERT INTO main.t AS q (id, b, x, j, n) VALUES (:id, (:b), ((:x)), (:j), :n)",
    "INSERT INTO t (n, j, x, b, id) SELECT :n, :j, :x, :b, :id",
    "INSERT INTO t SELECT :id, :b, :x, :j, :n WHERE true ON CONFLICT DO NOTHING",
    "INSERT INTO t (id, b, x, j, n) VALUES (:id, coalesce(:b, 0), ifnull(:x, x''), coalesce(:j, '{}'), :n)",
    "INSERT INTO t (id) VALUES (:id) ON CONFLICT (id) DO UPDATE SET b = :b, x = :x, j = :j, n = :n",
    "UPDATE t SET b = ((:b)), x = :x, j = coalesce(:j, j), n = :n WHERE id = :id",
    "UPDATE t SET b = coalesce(:b, b), x = ifnull((:x), x), j = :j, n = :n WHERE id >= :id AND id <= :id",
]
BODIES = [('{"id":1,"b":true,"x":"\\\\x00ff","j":"str","n":7}', "application/json"),
          ('id,b,x,j,n\n1,t,\\x00ff,"""str""",7\n', "text/csv"), ("id=1&b=true&x=\\x00ff&j=%22str%22&n=7", "application/x-www-form-urlencoded")]


def test_statements_say_their_columns_in_other_ways(sluice, tmp_path):
    path = tmp_path / "forms.db"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, b BOOLEAN, g AS (id + 1), x BLOB, j JSON, n INTEGER)")
    config = f'[database.main]\nurl = "sqlite:{path}"\n'
    for n, statement in enumerate(FORMS):
        config += f'[[endpoint]]\npath = "/f{n}"\npost = """{statement}"""\n'
    for n, condition in enumerate(("b <> :b", "b IS NOT :b", "b != :b", "n BETWEEN :low AND :high", "n >= :low", "1 = :b")):
        config += f'[[endpoint]]\npath = "/d{n}"\nget = "SELECT id FROM t WHERE {condition}"\ndelete = "DELETE FROM t WHERE {condition}"\n'
    config += ('[[endpoint]]\npath = "/but"\nparams.id.default = ""\nget = "SELECT id FROM t WHERE id <> :id"\n'
               '[[endpoint]]\npath = "/real"\nparams.low.type = "real"\nget = "SELECT id FROM t WHERE n >= :low"\n')
    server = sluice(config)
    with server.connect() as connection:
        for n, statement in enumerate(FORMS):
            for body, content in BODIES:
                database.execute("DELETE FROM t")
                if "UPDATE" in statement:
                    database.execute("INSERT INTO t (id, b) VALUES (1, 0)")
                answer = connection.call("POST", f"/f{n}", body.encode(), f"Content-Type: {content}")
                assert answer.status in (200, 201, 204), (statement, content, answer.body)
                assert database.execute("SELECT * FROM t").fetchall() == [(1, 1, 2, b"\x00\xff", '"str"', 7)], (statement, content)
            if "n)" in statement or "n = :n" in statement:
                answer = connection.call("POST", f"/f{n}", b'{"id":1,"b":null,"x":null,"j":null,"n":"abc"}', "Content-Type: application/json")
                assert answer.status == 422, (statement, answer.body)
        # coalesce() keeps the old value if the new one is NULL.
        assert connection.call("POST", f"/f{len(FORMS) - 1}", b'{"id":1,"b":null,"x":null,"j":{},"n":7}', "Content-Type: application/json").status in (200, 204)
        assert database.execute("SELECT b, x, j FROM t").fetchall() == [(1, b"\x00\xff", "{}")]
        for target in ("/d0?b=true", "/d1?b=t", "/d2?b=TRUE"):
            assert connection.get(target).body == b"[]\n", target
            connection.call("DELETE", target)
            assert database.execute("SELECT count(*) FROM t").fetchall() == [(1,)], target
        for target in ("/d0?b=maybe", "/d3?low=1&high=abc", "/d4?low=abc", "/but?id=abc"):
            assert connection.get(target).status == 400, target
        assert json.loads(connection.get("/d3?low=1&high=7").body) == [{"id": 1}]
        for target in ("/d4?low=6.5", "/real?low=6.5", "/but", "/but?id=", "/but?id=2"):
            assert json.loads(connection.get(target).body) == [{"id": 1}], target
        for target in ("/d4?low=7.5", "/real?low=7.5", "/but?id=1"):
            assert connection.get(target).body == b"[]\n", target
    database.close()
