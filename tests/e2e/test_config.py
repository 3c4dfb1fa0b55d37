"""What `sluice check` and `sluice serve` say of a configuration that is wrong: exit code 3, and where it is wrong."""
import os
import re
import subprocess

import pytest

from conftest import SLUICE, FILMS


def run(tmp_path, text, command="check", **environment):
    file = tmp_path / "sluice.toml"
    file.write_text(text)
    return subprocess.run([SLUICE, command, str(file)], capture_output=True, text=True, timeout=20, cwd=tmp_path,
                          env={**os.environ, **environment})


def place(text, needle):
    """line:column of the needle, both from 1."""
    at = text.index(needle)
    return f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


ENDPOINT = '''[database.main]
url = "sqlite:small.db"

[[endpoint]]
path = "/numbers"
get = "SELECT n, text FROM numbers"
'''


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
    ('[policy.auth]\ntype = "jwt"\npublic_key = "none.pem"\n' + ENDPOINT, '"none.pem"', "none.pem cannot be read"),
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
    ("BEGIN", "BEGIN"),
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


WRONG_VALUES = [
    # (what follows the database, what is at the place that is named, what is said)
    ('path = "/a"\nget = "SELECT n FROM numbers WHERE n = :n"\nparams.n = "bool"', '"bool"',
     'is declared as bool, and the database takes it for an integer'),
    ('path = "/a"\nget = "SELECT n FROM numbers WHERE n = :n"\nparams.n = "text"', '"text"',
     'is declared as text, and the database takes it for an integer'),
    ('path = "/a"\nget = "SELECT n FROM numbers WHERE n = :n"\nparams.n = { default = "many" }', '"many"',
     'this default of "n" is not an integer'),
    ('path = "/a/{n:int}"\nget = "SELECT n FROM numbers WHERE made = :n"', "{n:int}",
     'is declared as int, and the database takes it for a date'),
    ('path = "/a"\n[endpoint.post]\ntable = "numbers"\ncolumns.n = { type = "real" }', '"real"',
     'is declared as real, and the database takes it for an integer'),
    ('path = "/a"\n[endpoint.patch]\ntable = "numbers"\nset = true\ncolumns.n = { key = true, type = "bool" }\n'
     'columns.text = {}', '"bool"', 'is declared as bool, and the database takes it for an integer'),
]
WRONG_ANYWHERE = [
    ('path = "/a"\nget = "SELECT n FROM numbers WHERE n > :x AND n < :y"\nparams.y = { from = "query.x", type = "int" }',
     '"query.x"', '"x" and "y" come from the same query parameter, "x"'),
    ('path = "/a"\n[endpoint.post]\ntable = "numbers"\ncolumns.n = {}\ncolumns.txet = {}', 'txet',
     'the table numbers has no column "txet"'),
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
                         [("postgres", *one) for one in WRONG_VALUES + WRONG_ANYWHERE]
                         + [("sqlite", *one) for one in WRONG_ANYWHERE + WRONG_ON_SQLITE]
                         # SQLite has no dates.
                         + [("sqlite", *one) for one in WRONG_VALUES if "date" not in one[2]])
def test_what_the_database_says_otherwise(request, tmp_path, small_sqlite, kind, lines, needle, says):
    url = "sqlite:small.db"
    if kind == "postgres":
        cluster = request.getfixturevalue("postgres")
        cluster.psql("DROP TABLE IF EXISTS numbers")
        cluster.psql("CREATE TABLE numbers (n bigint PRIMARY KEY, text text, made date)")
        url = cluster.url()
    text = f'[database.main]\nurl = "{url}"\n[[endpoint]]\n{lines}\n'
    for command in ("check", "serve"):
        failed = run(tmp_path, text, command)
        assert failed.returncode == 3, failed.stdout + failed.stderr
        assert says in failed.stderr, failed.stderr
        assert f"sluice.toml:{place(text, needle)}: error: " in failed.stderr, failed.stderr
