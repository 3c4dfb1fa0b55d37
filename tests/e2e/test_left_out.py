"""Writes that a table's own rules would change: ON CONFLICT constraints, and triggers that drop rows."""
import json
import sqlite3
import subprocess

import pytest

from conftest import SLUICE
from test_sets import counts, errors
from test_write import Films

CONFIG = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/{table}"
[endpoint.put]
table = "{table}"
existing = "SELECT id FROM {table} WHERE owner = 'ada'"
max_deleted = 0
columns.id = {{ key = true }}
columns.slug = {{}}
columns.owner = {{ default = "ada" }}
[endpoint.post]
table = "{table}"
columns.id = {{}}
columns.slug = {{}}
[[endpoint]]
path = "/{table}/{{id}}"
[endpoint.patch]
table = "{table}"
columns.id = {{ key = true, from = "path.id" }}
columns.slug = {{}}
[endpoint.put]
table = "{table}"
columns.id = {{ key = true, from = "path.id" }}
columns.slug = {{}}
'''
RULES = {"unique": "id INTEGER PRIMARY KEY, slug TEXT UNIQUE ON CONFLICT REPLACE, owner TEXT",
         "ignored": "id INTEGER PRIMARY KEY, slug TEXT UNIQUE ON CONFLICT IGNORE, owner TEXT",
         "spaced": "id INTEGER PRIMARY KEY, slug TEXT, owner TEXT, CONSTRAINT one UNIQUE (slug)\n on\nConflict  REPLACE"}


def sqlite_of(path):
    def query(sql):
        database = sqlite3.connect(path, timeout=10, isolation_level=None)
        try:
            return database.execute(sql).fetchall()
        finally:
            database.close()
    return query


@pytest.mark.parametrize("rule", RULES)
def test_no_row_goes_or_stays_out_by_a_constraints_own_clause(sluice, tmp_path, rule):
    query = sqlite_of(tmp_path / "rules.db")
    query(f"CREATE TABLE ruled ({RULES[rule]})")
    query("INSERT INTO ruled VALUES (1, 'a', 'ada'), (2, 'b', 'ada'), (3, 'c', 'bob')")
    before = query("SELECT * FROM ruled ORDER BY id")
    films = Films(sluice(CONFIG.format(url=f"sqlite:{tmp_path}/rules.db", table="ruled")), "sqlite", query)
    both = [{"id": 1, "slug": "a"}, {"id": 2, "slug": "b"}]
    for method, target, body in (("PUT", "/ruled", [*both, {"id": 4, "slug": "c"}]), ("PUT", "/ruled", [both[0], {"id": 2, "slug": "a"}]),
                                 ("POST", "/ruled", {"id": 4, "slug": "c"}), ("PATCH", "/ruled/2", {"slug": "c"}),
                                 ("PUT", "/ruled/2", {"slug": "c"}), ("PUT", "/ruled/4", {"slug": "c"})):
        films.problem(409, method, target, body)
        assert query("SELECT * FROM ruled ORDER BY id") == before, (method, target)
    assert counts(films.call("PUT", "/ruled", [*both, {"id": 4, "slug": "d"}])) == (1, 0, 0, 2)
    (tmp_path / "rows.csv").write_text("id,slug\n5,c\n")
    done = subprocess.run([SLUICE, "import", "--database", f"sqlite:{tmp_path}/rules.db", "ruled", "rows.csv"], cwd=tmp_path, text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == 1 and "rows.csv:2" in done.stderr, done.stderr
    assert [row[0] for row in query("SELECT * FROM ruled ORDER BY id")] == [1, 2, 3, 4]


def test_a_key_and_a_missing_value_have_no_clause_of_their_own(sluice, tmp_path):
    query = sqlite_of(tmp_path / "rules.db")
    query("CREATE TABLE ruled (id INTEGER PRIMARY KEY ON CONFLICT REPLACE, slug TEXT NOT NULL ON CONFLICT REPLACE DEFAULT 'x', owner TEXT)")
    query("INSERT INTO ruled VALUES (1, 'a', 'ada')")
    films = Films(sluice(CONFIG.format(url=f"sqlite:{tmp_path}/rules.db", table="ruled")), "sqlite", query)
    films.problem(409, "POST", "/ruled", {"id": 1, "slug": "b"})
    films.problem(422, "PATCH", "/ruled/1", {"slug": None})
    films.problem(422, "PUT", "/ruled", [{"id": 1, "slug": None}])
    assert query("SELECT * FROM ruled") == [(1, "a", "ada")]
    assert films.call("POST", "/ruled", {"id": 2}).status == 201
    assert query("SELECT * FROM ruled WHERE id = 2") == [(2, "x", None)]


def test_a_triggers_statements_keep_their_own_clause(sluice, tmp_path):
    query = sqlite_of(tmp_path / "rules.db")
    query("CREATE TABLE plain (id INTEGER PRIMARY KEY, slug TEXT, owner TEXT)")
    query("CREATE TABLE names (name TEXT PRIMARY KEY)")
    query("CREATE TRIGGER named AFTER INSERT ON plain BEGIN INSERT OR IGNORE INTO names VALUES (NEW.slug); END")
    films = Films(sluice(CONFIG.format(url=f"sqlite:{tmp_path}/rules.db", table="plain")), "sqlite", query)
    for number in (1, 2):
        assert films.call("POST", "/plain", {"id": number, "slug": "same"}).status == 201
    assert counts(films.call("PUT", "/plain", [{"id": 3, "slug": "same"}])) == (1, 0, 0, 0)
    assert query("SELECT name FROM names") == [("same",)]


def test_no_row_of_a_body_goes_by_a_triggers_replace(sluice, tmp_path):
    query = sqlite_of(tmp_path / "rules.db")
    query("CREATE TABLE ruled (id INTEGER PRIMARY KEY, slug TEXT UNIQUE, owner TEXT)")
    query("INSERT INTO ruled VALUES (1, 'a', 'ada'), (2, 'b', 'ada')")
    query("CREATE TRIGGER heir AFTER DELETE ON ruled WHEN OLD.id = 1 BEGIN REPLACE INTO ruled VALUES (100, 'b', 'bob'); END")
    films = Films(sluice(CONFIG.format(url=f"sqlite:{tmp_path}/rules.db", table="ruled")), "sqlite", query)
    assert '"ruled"' in films.problem(409, "PUT", "/ruled?max-deleted=1", [{"id": 2, "slug": "b"}])["detail"]
    assert query("SELECT * FROM ruled") == [(1, "a", "ada"), (2, "b", "ada")]
    assert counts(films.call("PUT", "/ruled?max-deleted=1", [{"id": 2, "slug": "c"}])) == (0, 1, 1, 0)
    assert query("SELECT * FROM ruled ORDER BY id") == [(2, "c", "ada"), (100, "b", "bob")]


@pytest.fixture(params=["sqlite", "postgres"])
def guarded(request, sluice, tmp_path):
    """A table whose trigger drops inserted rows with the slug "out"."""
    if request.param == "sqlite":
        query, url = sqlite_of(tmp_path / "guarded.db"), f"sqlite:{tmp_path}/guarded.db"
        query("CREATE TABLE guarded (id INTEGER PRIMARY KEY, slug TEXT, owner TEXT)")
        query("CREATE TRIGGER out BEFORE INSERT ON guarded WHEN NEW.slug = 'out' BEGIN SELECT RAISE(IGNORE); END")
    else:
        postgres = request.getfixturevalue("postgres")

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql).decode().splitlines()]
        url = postgres.url()
        query("DROP TABLE IF EXISTS guarded, guarded_log; CREATE TABLE guarded (id int PRIMARY KEY, slug text, owner text);"
              "CREATE TABLE guarded_log (what text);"
              "CREATE OR REPLACE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.slug = 'out' THEN "
              "INSERT INTO guarded_log VALUES ('out'); RETURN NULL; END IF; RETURN NEW; END $$;"
              "CREATE TRIGGER out BEFORE INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION leave_out()")
    config = CONFIG.format(url=url, table="guarded") + '''
[[endpoint]]
path = "/returned"
returns = "object"
[endpoint.post]
table = "guarded"
columns.id = {}
columns.slug = {}
returning = "id"
'''
    return Films(sluice(config), request.param, query)


def test_a_row_that_the_database_leaves_out_is_not_said_to_be_written(guarded):
    out = {"id": 1, "slug": "out"}
    left_out = [(1, 0, "", "is left out by the database")]
    for method, target, body in (("POST", "/guarded", out), ("POST", "/returned", out), ("PUT", "/guarded/1", {"slug": "out"})):
        assert errors(guarded.call(method, target, body), 409) == left_out, (method, target)
    assert errors(guarded.call("POST", "/guarded", [{"id": 2, "slug": "in"}, out, {"id": 3, "slug": "in"}]), 409) == [
        (1, 1, "/1", "is left out by the database")]
    assert guarded.query("SELECT * FROM guarded") == []
    if guarded.kind == "postgres":  # the trigger's other work is undone, too
        assert guarded.query("SELECT * FROM guarded_log") == []
    assert guarded.call("POST", "/guarded", {"id": 1, "slug": "in"}).status == 201
    assert guarded.call("PUT", "/guarded/2", {"slug": "in"}).status == 201
    assert json.loads(guarded.call("POST", "/returned", {"id": 3, "slug": "in"}).body) == {"id": 3}
