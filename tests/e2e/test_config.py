"""What `sluice check` and `sluice serve` report of a wrong configuration: exit code 3, and the position of each error."""
import contextlib
import os
import re
import sqlite3
import subprocess

import pytest

from conftest import SLUICE, FILMS


def run(tmp_path, text, command="check", **environment):
    file = tmp_path / "sluice.toml"
    file.write_text(text)
    return subprocess.run([SLUICE, command, str(file)], capture_output=True, text=True, timeout=20, cwd=tmp_path,
                          env={**os.environ, **environment})


def place(text, needle):
    """The line:column of the needle, both from 1."""
    at = text.index(needle)
    return f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


ENDPOINT = '''[database.main]
url = "sqlite:small.db"

[[endpoint]]
path = "/numbers"
get = "SELECT n, text FROM numbers"
'''


@pytest.mark.parametrize("writes", ["", 'post = "INSERT INTO numbers (n) VALUES (:n)"\n'])
@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_locked_file_is_no_error_of_the_configuration(tmp_path, small_sqlite, command, writes):
    with contextlib.closing(sqlite3.connect(small_sqlite, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        failed = run(tmp_path, ENDPOINT + writes, command=command)
    assert failed.returncode == 1, failed.stderr
    assert re.search(r"sluice\.toml:2:7: error: .*small\.db: .*database is locked", failed.stderr), failed.stderr


def test_a_good_file_is_good(tmp_path, small_sqlite):
    checked = run(tmp_path, ENDPOINT)
    assert checked.returncode == 0, checked.stderr


def test_the_film_example_is_good(tmp_path, films_sqlite, films_postgres):
    for database in (f"sqlite:{films_sqlite}", films_postgres):
        checked = subprocess.run([SLUICE, "check", str(FILMS / "films.toml")], capture_output=True, text=True, timeout=20,
                                 env={**os.environ, "DATABASE": database})
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("command", ["check", "serve"])
@pytest.mark.parametrize("text, needle, says", [
    ('[server]\nlissten = ["127.0.0.1:0"]\n', "lissten", 'did you mean "listen"'),
    ('[sever]\n', "sever", 'did you mean "server"'),
    (ENDPOINT + 'retuns = "object"\n', "retuns", 'did you mean "returns"'),
    (ENDPOINT + 'returns = "objects"\n', '"objects"', "object"),
    ('[server]\ncores = "two"\n', '"two"', "cores"),
    ('[server]\ncores = -1\n', "-1", "cores"),
    ('[server]\nidle_timeout = "10 parsecs"\n', '"10 parsecs"', "idle_timeout"),
    ('[server]\nheader_limit = 12\n', "12", "header_limit"),
    ('[server]\nlisten = ["nowhere"]\n', '"nowhere"', "listen"),
    ('[policy.auth]\ntype = "jwt"\n', "auth", "no key"),
    ('[policy.auth]\ntype = "jwt"\npublic_key = "none.pem"\n' + ENDPOINT, '"none.pem"', "the file cannot be read"),
    (ENDPOINT + 'use = ["auth"]\n', '"auth"', "there is no [policy.auth]"),
    (ENDPOINT.replace("sqlite:small.db", "mysql://x"), '"mysql://x"', "url"),
    (ENDPOINT + 'database = "other"\n', '"other"', "other"),
    (ENDPOINT + ENDPOINT.split("\n\n")[1], None, "/numbers"),
])
def test_errors_name_their_place(tmp_path, small_sqlite, command, text, needle, says):
    failed = run(tmp_path, text, command)
    assert failed.returncode == 3, failed.stdout + failed.stderr
    assert says in failed.stderr
    if needle:
        assert f"sluice.toml:{place(text, needle)}" in failed.stderr
    assert "^" in failed.stderr


def test_a_syntax_error_names_its_place(tmp_path):
    failed = run(tmp_path, '[server]\nlisten = ["a"\n[admin]\n')
    assert failed.returncode == 3 and re.search(r"sluice\.toml:[23]:\d+", failed.stderr)


def test_a_file_that_is_not_there(tmp_path):
    failed = subprocess.run([SLUICE, "check", str(tmp_path / "none.toml")], capture_output=True, text=True)
    assert failed.returncode == 3 and "none.toml" in failed.stderr


@pytest.mark.parametrize("sql, says", [
    ("SELECT nn FROM numbers", "nn"),
    ("SELECT n FROM nowhere", "nowhere"),
    ("SELEKT n FROM numbers", "SELEKT"),
    ("SELECT n FROM numbers; SELECT 1", "/bad"),
])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_sql_that_cannot_be_prepared(request, tmp_path, small_sqlite, kind, sql, says):
    text = ENDPOINT
    if kind == "postgres":
        cluster = request.getfixturevalue("postgres")
        cluster.psql("CREATE TABLE IF NOT EXISTS numbers (n bigint PRIMARY KEY, text text)")
        text = text.replace("sqlite:small.db", cluster.url())
    text += f'\n[[endpoint]]\npath = "/bad"\nget = "{sql}"\n'
    for command in ("check", "serve"):
        failed = run(tmp_path, text, command)
        assert failed.returncode == 3, failed.stdout + failed.stderr
        assert says in failed.stderr and "/bad" in failed.stderr
        assert f"sluice.toml:{place(text, 'get = ' + chr(34) + sql).split(':')[0]}:" in failed.stderr


OF_TRANSACTIONS = ["COMMIT", "-- x\n begin", "START TRANSACTION", "end", "ROLLBACK", "SAVEPOINT a", "RELEASE a"]
POSTGRES_OF_TRANSACTIONS = ["ABORT", "PREPARE TRANSACTION 'a'", "COMMIT PREPARED 'a'", "/* /* */ */ COMMIT", "--\\rCOMMIT --\nSELECT 1"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_statement_begins_or_ends_a_transaction(request, tmp_path, small_sqlite, kind):
    text, statements = ENDPOINT, [sql for sql in OF_TRANSACTIONS if sql != "START TRANSACTION"]
    if kind == "postgres":
        cluster = request.getfixturevalue("postgres")
        cluster.psql("CREATE TABLE IF NOT EXISTS numbers (n bigint PRIMARY KEY, text text)")
        text, statements = text.replace("sqlite:small.db", cluster.url()), OF_TRANSACTIONS + POSTGRES_OF_TRANSACTIONS
    for place_of in ('before = ["""{}"""]\nsql = "DELETE FROM numbers"', 'sql = """{}"""', None):
        config = text
        for n, sql in enumerate(statements):
            config += f'\n[[endpoint]]\npath = "/of{n}"\n'
            config += f'[endpoint.post]\n{place_of.format(sql)}\n' if place_of else f'get = """{sql}"""\n'
        for command in ("check", "serve"):
            failed = run(tmp_path, config, command)
            assert failed.returncode == 3, failed.stdout + failed.stderr
            assert failed.stderr.count("a statement may not begin or end a transaction") == len(statements), failed.stderr


WRITES = [
    ("INSERT INTO numbers VALUES (0, 'x') RETURNING n", "INSERT"),
    ("update numbers set text = :t returning n", "update"),
    ("/* SELECT */ DELETE FROM numbers WHERE n = 1 RETURNING n", "DELETE"),
    ("INSERT INTO numbers VALUES (0, 'x')", "INSERT"),
    ("WITH one AS (SELECT 1 AS n) DELETE FROM numbers WHERE n IN (SELECT n FROM one) RETURNING n", "DELETE"),
]
POSTGRES_WRITES = [
    ("WITH gone AS (DELETE FROM numbers RETURNING n) SELECT n FROM gone", None),
    ("WITH a AS (SELECT 1), gone AS MATERIALIZED (UPDATE numbers SET text = 'x' RETURNING n) SELECT n FROM gone", None),
    ("SELECT n FROM numbers FOR UPDATE", None),
    ("SELECT n INTO other FROM numbers", "other"),
    ("EXPLAIN (ANALYZE, COSTS off) DELETE FROM numbers", "DELETE"),
    ("explain analyze verbose DELETE FROM numbers", "DELETE"),
    ("SET work_mem = '1MB'", "SET"),
    ("LISTEN a", "LISTEN"),
]
READS = [
    "SELECT n FROM numbers",
    "SELECT 'INSERT INTO' AS x, \"n\" AS \"DELETE\" FROM numbers -- UPDATE",
    "WITH one AS (SELECT 1 AS n) SELECT n FROM one",
    "VALUES (1), (2)",
]
POSTGRES_READS = ["TABLE numbers", "(SELECT 1 AS n) UNION (SELECT 2)", "SHOW work_mem", "EXPLAIN SELECT n FROM numbers",
                  "EXPLAIN (ANALYZE, BUFFERS) SELECT n FROM numbers WHERE n = :n",
                  "SELECT n, $$DELETE FROM numbers$$ AS x FROM numbers WHERE text = :t"]


def with_get(sql, url, keys=""):
    quoted = sql.replace("\\", "\\\\").replace('"', '\\"')
    return f'[database.main]\nurl = "{url}"\n{keys}\n[[endpoint]]\npath = "/a"\nget = "{quoted}"\n'


@pytest.fixture
def numbers_postgres(postgres):
    postgres.psql("CREATE TABLE IF NOT EXISTS numbers (n bigint PRIMARY KEY, text text)")
    return postgres.url()


@pytest.mark.parametrize("command", ["check", "serve"])
@pytest.mark.parametrize("sql, word", WRITES)
def test_a_get_that_writes_to_sqlite_is_refused(tmp_path, small_sqlite, command, sql, word):
    failed = run(tmp_path, with_get(sql, "sqlite:small.db"), command)
    assert failed.returncode == 3, failed.stdout + failed.stderr
    assert "sluice.toml:6:7: error: endpoint /a: the statement writes" in failed.stderr


@pytest.mark.parametrize("keys", ["", "prepared = false"])
@pytest.mark.parametrize("sql, word", WRITES + POSTGRES_WRITES)
def test_a_get_that_writes_to_postgres_is_refused(tmp_path, numbers_postgres, keys, sql, word):
    text = with_get(sql, numbers_postgres, keys)
    failed = run(tmp_path, text)
    assert failed.returncode == 3, failed.stdout + failed.stderr
    assert "endpoint /a: a statement that answers GET must not write" in failed.stderr
    where = place(text, word if word else '"' + sql[:4])
    assert f"sluice.toml:{where}: " in failed.stderr, failed.stderr


def test_a_get_that_reads_is_not_taken_for_one_that_writes(tmp_path, small_sqlite, numbers_postgres):
    for url, statements in (("sqlite:small.db", READS), (numbers_postgres, READS + POSTGRES_READS)):
        for sql in statements:
            checked = run(tmp_path, with_get(sql, url))
            assert checked.returncode == 0, f"{sql}: {checked.stderr}"


def test_a_variable_that_is_not_set(tmp_path):
    text = '[database.main]\nurl = "${SLUICE_TEST_UNSET}"\n'
    failed = run(tmp_path, text)
    assert failed.returncode == 3 and "SLUICE_TEST_UNSET" in failed.stderr and "sluice.toml:2:" in failed.stderr


def test_variables_and_their_defaults(tmp_path, small_sqlite):
    text = ENDPOINT.replace("small.db", "${SLUICE_TEST_NAME:-small.db}")
    assert run(tmp_path, text).returncode == 0
    assert run(tmp_path, text, SLUICE_TEST_NAME="small.db").returncode == 0
    assert run(tmp_path, text, SLUICE_TEST_NAME="none.db").returncode == 3


def test_a_secret_is_not_repeated(tmp_path):
    failed = run(tmp_path, '[database.main]\nurl = "postgres://me:${SECRET}@127.0.0.1:1/x?sslmode=nonsense"\n',
                 SECRET="hunter2hunter2")
    assert failed.returncode == 3 and "hunter2" not in failed.stdout + failed.stderr


SECRET_URLS = [
    "postgres://me:hu%20sh@h/x?sslmode=no", "postgres://me:1@hush@h/x?sslmode=no", "postgres://me:1 hush@h/x?sslmode=no",
    "postgres://me:1?hush@h/x", "postgres://me:1?hush=2@h/x", "postgres://me:1/hush@h/x?sslmode=no",
    "postgres://127.0.0.1:1/x?password=1&hush", "postgres://h/x?password=1&hush=2", "postgres://h/x?pass%77ord=hush&sslmode=no",
    "postgres://h/x?sslpassword=hush", "postgres:///x?host=/tmp&user=me&password=hush&sslmode=no", "postgres://:hush@/x?sslmode=no",
    "postgres://me:hush@h1,h2/x", "postgresql://me:hush@[::1/x", "mysql://me:hush@h/x", "postgres:me:hush@h/x", "me:hush@h:5432/x",
    "host=h user=me password=hush dbname=x", "host=h password = 'hush'",
    # These URLs are valid, but nothing answers.
    "postgres://me:hush@127.0.0.1:1/x", "postgres://127.0.0.1:1/x?user=me&password=hush", "postgres://me:hush@/x?host=/nowhere"]


def test_check_never_prints_a_password(tmp_path):
    forms = ['[database.main]\nurl = "{}"\n', '[database]\nmain = {{ url = "{}", pool = 8 }}\n']
    cases = [form.format(url) for url in SECRET_URLS for form in forms]
    cases += [forms[0].format(f"${{NONE:-{url}}}") for url in SECRET_URLS[::5]] + [forms[0].format("${SECRET_URL}")]
    for text in cases:
        failed = run(tmp_path, text + '[[endpoint]]\npath = "/"\nget = "SELECT 1 AS one"\n', SECRET_URL=SECRET_URLS[0])
        assert failed.returncode in (1, 3) and "sluice.toml:" in failed.stderr, (text, failed.stderr)
        assert "hu" not in failed.stdout + failed.stderr, (text, failed.stderr)


def test_a_password_under_a_wrong_key_is_not_printed(tmp_path):
    for line in ('password = "hush"', "passwd = 'hush'", 'db_password = "hush"', 'secret = "hush"', 'token = "hush"'):
        failed = run(tmp_path, f'[database.main]\nurl = "sqlite:small.db"\n{line}\n')
        assert failed.returncode == 3 and "unknown key" in failed.stderr and "hush" not in failed.stderr, failed.stderr


WRONG_VALUES = [
    # (text after the database, text at the error's position, message)
    ('path = "/a"\nget = "SELECT n FROM numbers WHERE n = :n"\nparams.n = "bool"', '"bool"',
     'is declared as bool, and the database takes it for an integer'),
    ('path = "/a"\nget = "SELECT n FROM numbers WHERE n = :n"\nparams.n = "text"', '"text"',
     'is declared as text, and the database takes it for an integer'),
    ('path = "/a"\nget = "SELECT n FROM numbers WHERE n = :n"\nparams.n = { default = "many" }', '"many"',
     'this default of "n" must be an integer'),
    ('path = "/a"\nget = "SELECT n FROM numbers WHERE made = :n"\nparams.n = "bool"', '"bool"',
     'is declared as bool, and the database takes it for a date'),
    ('path = "/a"\n[endpoint.patch]\ntable = "numbers"\nset = true\ncolumns.n = { key = true, type = "bool" }\n'
     'columns.text = {}', '"bool"', 'is declared as bool, and the database takes it for an integer'),
]
WRONG_ON_POSTGRES = [
    ('path = "/a"\n[endpoint.post]\ntable = "numbers"\ncolumns.n = { type = "real" }', '"real"',
     'is declared as real, and the database takes it for an integer'),
]
WRONG_ANYWHERE = [
    ('path = "/a"\nget = "SELECT 1 AS a"\nrequire = "not(exists(SELECT 1 FROM numbers WHERE n = :n))"\n'
     'params.n = { default = "abc" }', '"abc"', 'this default of "n" must be an integer'),
    ('path = "/a"\n[endpoint.post]\ntable = "numbers"\ncolumns.n = {}\ncolumns.price = { default = "abc" }', '"abc"',
     'this default of "price" must be a number'),
    ('path = "/a"\npost = "INSERT INTO numbers (n) VALUES (:n)"\nparams.n = { default = 1.5 }', '1.5',
     'this default of "n" must be an integer'),
    ('path = "/a"\n[endpoint.put]\ntable = "numbers"\nexisting = "SELECT n FROM numbers"\ncolumns.n = { key = true }\n'
     'columns.ok = { default = "maybe" }', '"maybe"', 'this default of "ok" must be '),
    ('path = "/a/{m}"\nparams.m = "bool"\n[endpoint.put]\ntable = "numbers"\ncolumns.n = { key = true }\n'
     'existing = "SELECT n FROM numbers WHERE n = :m"', '"bool"',
     'is declared as bool, and the database takes it for an integer'),
    ('path = "/a"\nparams.m = { from = "query.m", default = "abc" }\n[endpoint.patch]\ntable = "numbers"\nset = true\n'
     'columns.n = { key = true }\nexisting = "SELECT n FROM numbers WHERE n = :m"', '"abc"',
     'this default of "m" must be an integer'),
    ('path = "/a"\nget = "SELECT 1 AS a"\nrequire = "and(present(query.n), exists(SELECT 1 FROM numbers WHERE n = (:n)))"\n'
     'params.n = { default = "abc" }', '"abc"', 'this default of "n" must be an integer'),
    ('path = "/a"\npost = "INSERT INTO numbers (text) VALUES (:t)"\nparams.n = { from = "query.n", type = "bool" }\n'
     '[endpoint.delete]\nsql = "DELETE FROM numbers"\nrequire = "exists(SELECT 1 FROM numbers f WHERE f.n IS NOT NULL AND f.n = :n)"',
     '"bool"', 'is declared as bool, and the database takes it for an integer'),
    ('path = "/a"\nget = "SELECT n FROM numbers WHERE n > :x AND n < :y"\nparams.y = { from = "query.x", type = "int" }',
     '"query.x"', '"x" and "y" come from the same query parameter, "x"'),
    ('path = "/a"\n[endpoint.post]\ntable = "numbers"\ncolumns.n = {}\ncolumns.txet = {}', 'txet',
     'the table numbers has no column "txet"'),
    ('path = "/a"\n[endpoint.post]\ntable = "numbers"\ncolumns."a.b" = {}', '"a.b"', '"a.b" would be a field within an object of the body'),
    ('path = "/a"\n[endpoint.put]\ntable = "numbers"\nexisting = "SELECT n FROM numbers"\ncolumns.m = { key = true }', 'm =',
     'the table numbers has no column "m"'),
    ('path = "/a"\n[endpoint.post]\ntable = "numbers"\ncolumns.n = {}\nreturning = "m"', '"numbers"', 'm'),
    ('path = "/a"\n[endpoint.put]\ntable = "numbers"\nexisting = "SELECT n FROM numbers"\ncolumns.n = { key = true }\n'
     'columns.text = { from = "query.dry-run" }', 'text =', 'a set takes the query parameter "dry-run" itself'),
    ('path = "/a"\n[endpoint.put]\ntable = "numbers"\nexisting = "SELECT text FROM numbers"\ncolumns.text = { key = true }',
     '"SELECT', 'may have several rows with the same key'),
]

WRONG_ON_SQLITE = [
    ('path = "/a"\npost = "INSERT INTO numbers (text, n) VALUES (:t, :n)"\nparams.n = "text"', '"text"',
     'is declared as text, and the database takes it for an integer'),
    ('path = "/a"\nget = "SELECT \'a\' AS a, \\"nope\\" AS b FROM numbers"', '\\"nope', "no such column: nope"),
]


@pytest.mark.parametrize("kind, lines, needle, says",
                         [("postgres", *one) for one in WRONG_VALUES + WRONG_ON_POSTGRES + WRONG_ANYWHERE]
                         + [("sqlite", *one) for one in WRONG_ANYWHERE + WRONG_ON_SQLITE]
                         # SQLite has no dates.
                         + [("sqlite", *one) for one in WRONG_VALUES if "date" not in one[2]])
def test_what_the_database_says_otherwise(request, tmp_path, small_sqlite, kind, lines, needle, says):
    url = "sqlite:small.db"
    if kind == "postgres":
        cluster = request.getfixturevalue("postgres")
        cluster.psql("DROP TABLE IF EXISTS numbers")
        cluster.psql("CREATE TABLE numbers (n bigint PRIMARY KEY, text text, made date, price numeric, ok boolean)")
        url = cluster.url()
    else:
        with sqlite3.connect(small_sqlite) as database:
            database.executescript("ALTER TABLE numbers ADD COLUMN price NUMERIC; ALTER TABLE numbers ADD COLUMN ok BOOLEAN")
        database.close()
    text = f'[database.main]\nurl = "{url}"\n[[endpoint]]\n{lines}\n'
    for command in ("check", "serve"):
        failed = run(tmp_path, text, command)
        assert failed.returncode == 3, failed.stdout + failed.stderr
        assert says in failed.stderr, failed.stderr
        assert f"sluice.toml:{place(text, needle)}: error: " in failed.stderr, failed.stderr


TYPES = {"t": 'type = "text"', "i": 'type = "int"', "r": 'type = "real"', "b": 'type = "bool"'}
SQLITE_SCHEMA = """
CREATE TABLE films (id INTEGER PRIMARY KEY, slug TEXT UNIQUE, title TEXT, genre_id INTEGER, votes INT, score REAL,
                    price DECIMAL(10,2), seen BOOLEAN, flag INTEGER, day DATE, ts INTEGER, n NUMERIC, code INTEGER, tags TEXT);
CREATE TABLE settings (id INTEGER PRIMARY KEY, key INTEGER, value INTEGER, tags TEXT);
CREATE TABLE prefs (user INTEGER, enabled INTEGER, v TEXT, PRIMARY KEY (user, enabled));
CREATE TABLE u (code TEXT, name TEXT, id TEXT);
CREATE TABLE gaps (span INTERVAL, only INTEGER UNIQUE);
CREATE VIEW v AS SELECT id || '' AS id, title FROM films;
CREATE VIRTUAL TABLE ft USING fts5(title, code);
"""
# Statements that are valid, with the parameters' type or default.
FINE_ON_SQLITE = [
    ("SELECT * FROM films WHERE :g = '' OR genre_id = :g", 'g = { default = "" }'),
    ("SELECT * FROM films WHERE :g = '' OR genre_id = :g", 'g = { default = "", type = "text" }'),
    ("SELECT * FROM films WHERE :g = 'all' OR genre_id = :g", 'g = { default = "all" }'),
    ("SELECT * FROM films WHERE id = :t OR title = :t", ""),
    ("SELECT * FROM films WHERE title = :t OR id = :t", ""),
    ("SELECT * FROM films WHERE id = :t OR title LIKE '%' || :t || '%'", ""),
    ("SELECT * FROM films WHERE :t IN (id, slug)", ""),
    ("SELECT * FROM films WHERE votes >= :r", ""),
    ("SELECT * FROM films WHERE votes BETWEEN :r AND :r2", 'r2 = "real"'),
    ("SELECT * FROM films WHERE votes = :r", ""),
    ("SELECT s.id FROM settings s, json_each(s.tags) j WHERE j.value = :t", ""),
    ("SELECT s.id FROM settings s, json_each(s.tags) j WHERE j.key = :t", ""),
    ("SELECT s.id FROM settings s JOIN json_tree(s.tags) j WHERE j.fullkey = :t", ""),
    ("SELECT id FROM settings WHERE EXISTS (SELECT 1 FROM json_each(settings.tags) WHERE value = :t)", ""),
    ("SELECT settings.id FROM settings, json_each(tags) WHERE json_each.value IN (:t)", ""),
    ("SELECT * FROM (SELECT slug AS 'code' FROM films) WHERE code = :t", ""),
    ("SELECT * FROM (SELECT slug code FROM films) WHERE code = :t", ""),
    ("SELECT * FROM (SELECT slug 'code' FROM films) AS s WHERE s.code = :t", ""),
    ("SELECT * FROM (SELECT slug AS [code] FROM films) AS s WHERE s.[code] = :t", ""),
    ("WITH x(code) AS (SELECT slug FROM films) SELECT * FROM x WHERE code = :t", ""),
    ("SELECT * FROM films WHERE price = :t", ""),
    ("SELECT * FROM films WHERE n = :t", ""),
    ("SELECT * FROM films WHERE seen = :t", ""),
    ("SELECT * FROM films WHERE score = :s", 's = { default = "-Infinity" }'),
    ("SELECT v FROM prefs WHERE user = :i AND enabled = :b", ""),
    ("SELECT * FROM films WHERE flag = :b", ""),
    ("SELECT * FROM films WHERE flag = :f", 'f = { type = "bool", default = false }'),
    ("SELECT * FROM films WHERE day BETWEEN :t AND :t2 AND ts > unixepoch(:t)", 't2 = "text"'),
    ("SELECT u.code FROM u WHERE u.code = :t AND EXISTS (SELECT 1 FROM films WHERE films.title = u.name)", ""),
    ("SELECT f.id FROM films f JOIN u ON u.name = f.title WHERE u.code = :t", ""),
    ("SELECT title FROM v WHERE id = :t", ""),
    ("SELECT ft.title FROM ft, films WHERE ft.code = :t", ""),
    ("SELECT name FROM u NATURAL JOIN films WHERE code = :t", ""),
    ("SELECT * FROM films WHERE id <> :x", 'x = { default = "" }'),
    ("SELECT * FROM films WHERE id LIKE :t AND votes GLOB :t", ""),
    ("SELECT * FROM films WHERE votes >= :x AND n BETWEEN :y AND 5", 'x = { default = "" }\nparams.y = { default = "no" }'),
    ("SELECT * FROM films WHERE n <> :x", 'x = { default = "12345678901234567890123" }'),
    ("SELECT * FROM films WHERE id = nullif(:x, '')", 'x = { default = "" }'),
    ("SELECT genre_id, count(*) AS votes FROM films GROUP BY 1 HAVING votes = :r", ""),
    ("SELECT * FROM films WHERE (title, id) > (:t, :i)", ""),
    ("SELECT f.id FROM films f, pragma_table_info('films') p WHERE p.type = :t", ""),
    # Comparisons that may find nothing.
    ("SELECT * FROM films WHERE slug = :t OR id = :x", 'x = { default = "" }'),
    ("SELECT * FROM films WHERE id IN (:i, :x)", 'x = { default = "" }'),
    ("SELECT * FROM films WHERE id NOT IN (:x)", 'x = { default = "" }'),
    ("SELECT * FROM films WHERE NOT id = :x AND NOT (votes = :y)", 'x = { default = "" }\nparams.y = { default = "no" }'),
    ("SELECT * FROM films WHERE id IS NOT :x", 'x = { default = "" }'),
    ("SELECT title, id = :x AS chosen FROM films", 'x = { default = "" }'),
    ("SELECT * FROM films ORDER BY id = :x DESC, CASE WHEN votes = :y THEN 1 END", 'x = { default = "" }\nparams.y = { default = "" }'),
    ("SELECT f.id FROM films f LEFT JOIN settings s ON s.id = f.id AND s.key = :x", 'x = { default = "" }'),
    ("SELECT * FROM films WHERE slug = :t AND NOT EXISTS (SELECT 1 FROM settings WHERE id = :x)", 'x = { default = "" }'),
    ("SELECT * FROM films WHERE (score > 1 OR votes = :x)", 'x = { default = "" }'),
    ("SELECT * FROM films WHERE id = CASE WHEN :x = '' THEN id ELSE :x END", 'x = { default = "" }'),
    # Columns of other types.
    ("SELECT span FROM gaps WHERE span = :t", ""),
    ("SELECT span FROM gaps WHERE only = :b", ""),
    ("SELECT u.id FROM films, u WHERE u.id = :t", ""),
    ("SELECT u.id FROM films CROSS JOIN u \"films2\", u WHERE films2.id = :t", ""),
    ("SELECT films.name FROM u AS films WHERE films.code = :t", ""),
    ("SELECT slug AS code FROM films WHERE code = :t", ""),
    ("SELECT e.key FROM settings, json_each('[1]') AS e WHERE e.key = :t", ""),
    ("SELECT seq FROM pragma_index_list('films'), films WHERE origin = :t", ""),
    ("SELECT id FROM films WHERE id = :t || ''", ""),
    ("SELECT id FROM films WHERE id = :t COLLATE nocase", ""),
    ("SELECT id FROM films WHERE votes BETWEEN 1 AND id = :t", ""),
    ("SELECT id FROM films WHERE id = :t UNION SELECT code FROM u WHERE code = :t", ""),
    ("SELECT id FROM films WHERE +id = :t", ""),
    ("SELECT id FROM films WHERE instr(',' || :t || ',', ',' || id || ',')", ""),
]
FINE_WRITES_ON_SQLITE = [
    ("INSERT INTO films (slug, votes) VALUES (:t, nullif(:x, ''))", 'x = { default = "" }'),
    ("INSERT INTO films (slug, votes, flag) VALUES (:t, :r, :b)", ""),
    ("INSERT INTO films (votes) SELECT :t", ""),
    ("INSERT INTO gaps VALUES (:t, :t2)", 't2 = "text"'),
    ("INSERT INTO films (slug) VALUES ('a') ON CONFLICT (slug) DO UPDATE SET votes = :t", ""),
    ("INSERT INTO films (price, seen, n) VALUES (:t, :t, :t2)", 't2 = "text"'),
    ("INSERT INTO films (slug, votes) VALUES (:t, 1) ON CONFLICT (slug) DO UPDATE SET votes = votes + :i", ""),
    ("INSERT INTO films (id, slug) SELECT :i, :t WHERE NOT EXISTS (SELECT 1 FROM films WHERE id = :x)", 'x = { default = "" }'),
    ("UPDATE films SET title = u.name FROM u WHERE u.id = :t", ""),
    ("UPDATE films SET votes = CASE WHEN :t = '' THEN NULL ELSE :t END WHERE id = :i", ""),
    ("UPDATE films SET seen = :b, n = :t, votes = :r WHERE slug = :t2", 't2 = "text"'),
    ("DELETE FROM films WHERE id = :t OR slug = :t", ""),
    ("DELETE FROM u WHERE id = :t AND code IN (SELECT slug FROM films)", ""),
]
FINE_ANYWHERE = """
[[endpoint]]
path = "/table"
[endpoint.post]
table = "films"
columns.price = { type = "text" }
columns.seen = { type = "text" }
columns.votes = { default = "0" }
[[endpoint]]
path = "/exists"
get = "SELECT 1 AS a"
params.g = { default = "7" }
require = "or(exists(SELECT 1 FROM films WHERE id = :g), not(exists(SELECT 1 FROM films WHERE id = (:g))))"
[[endpoint]]
path = "/existing/{id}"
params.id = "text"
[endpoint.put]
table = "films"
columns.id = { key = true, from = "body.id" }
existing = "SELECT id FROM films WHERE slug = :id"
"""
FINE_TABLES_ON_SQLITE = """
[[endpoint]]
path = "/flags"
params.x = { default = 0 }
get = "SELECT 1 AS a"
require = "not(exists(SELECT 1 FROM films WHERE id = :x))"
[endpoint.patch]
table = "prefs"
columns.enabled = { key = true, type = "bool" }
columns.user = { key = true }
columns.v = {}
[endpoint.post]
table = "films"
columns.votes = { type = "real" }
columns.flag = { type = "bool" }
columns.n = { type = "text", default = "many" }
"""
FINE_ON_POSTGRES = [
    ("SELECT * FROM films WHERE score >= :t AND seen = :t2", 't2 = "text"'),
    ("SELECT * FROM films WHERE seen = :s", 's = { default = "tru" }'),
    ("SELECT * FROM films WHERE seen = :i", ""),
    ("SELECT * FROM films WHERE d >= :lo AND d <= :hi", 'lo = { default = "-infinity" }\nparams.hi = { default = "inf" }'),
    ("SELECT * FROM films WHERE r < :x AND score <> :y", 'x = { default = "+INF" }\nparams.y = { default = "nan" }'),
    ("SELECT * FROM films WHERE day = :i", ""),
    ("SELECT * FROM films WHERE id = :n", 'n = { default = " 7 " }'),
    ("SELECT * FROM films WHERE :g::text = '' OR id::text = :g", 'g = { default = "" }'),
    ("SELECT * FROM films WHERE at >= :a", 'a = { default = "-infinity" }'),
    ("SELECT * FROM films WHERE id = ANY (:a)", 'a = { default = "{}" }'),
]


def endpoints(statements, key):
    for number, (sql, params) in enumerate(statements):
        used = set(re.findall(r":([tirb])\b", sql))
        yield (f'[[endpoint]]\npath = "/{key}{number}"\n{key} = """{sql}"""\n' + (f"params.{params}\n" if params else "")
               + "".join(f"params.{name} = {{ {TYPES[name]} }}\n" for name in used))


def test_what_works_is_not_refused_on_sqlite(tmp_path):
    with sqlite3.connect(tmp_path / "films.db") as database:
        database.executescript(SQLITE_SCHEMA)
    database.close()
    checked = run(tmp_path, '[database.main]\nurl = "sqlite:films.db"\n' + "".join(endpoints(FINE_ON_SQLITE, "get"))
                  + "".join(endpoints(FINE_WRITES_ON_SQLITE, "post")) + FINE_ANYWHERE + FINE_TABLES_ON_SQLITE)
    assert checked.returncode == 0, checked.stderr


def test_what_works_is_not_refused_on_postgres(tmp_path, postgres):
    postgres.psql("DROP TABLE IF EXISTS films CASCADE; CREATE TABLE films (id int PRIMARY KEY, slug text, votes int,"
                  " price numeric, score numeric(5,2), r real, d float8, seen boolean, day date, at timestamptz)")
    checked = run(tmp_path, f'[database.main]\nurl = "{postgres.url()}"\n' + "".join(endpoints(FINE_ON_POSTGRES, "get"))
                  + FINE_ANYWHERE)
    assert checked.returncode == 0, checked.stderr
