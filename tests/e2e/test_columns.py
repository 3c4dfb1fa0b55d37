"""Tables that change while the program runs: the answers follow."""
import json
import sqlite3

import pytest

from conftest import queried_database

CONFIG = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/things"
get = "SELECT * FROM things ORDER BY name, id"
[[endpoint]]
path = "/things/{{id:int}}"
returns = "object"
get = "SELECT * FROM things WHERE id = :id"
[[endpoint]]
path = "/things/{{id:int}}/rows"
get = "SELECT * FROM things WHERE id = :id"
[[endpoint]]
path = "/names"
get = "SELECT name FROM things ORDER BY name, id"
'''
ROWS = 5000  # several blocks


class Things:
    """The program and its database; `alter` changes the database from outside."""

    def __init__(self, server, alter):
        self.server, self.alter = server, alter

    def names(self):
        """The names of the columns, which must be the same in every kind of answer and fit the rows."""
        seen = []
        for _ in range(2):  # when the program finds the change, and once it knows it
            with self.server.connect() as connection:
                for target in ("/things", "/things/7/rows"):
                    rows = json.loads(self._body(connection, f"{target}.json"))
                    header, *lines = self._body(connection, f"{target}.csv").decode().splitlines()
                    assert len(rows) == len(lines) == (ROWS if target == "/things" else 1)
                    assert header == ",".join(rows[0])
                    for row, line in zip(rows, lines):
                        assert [str(value) if value is not None else "" for value in row.values()] == line.split(",")
                    seen.append(list(rows[0]))
                    header, *lines = self._body(connection, f"{target}.csj").decode().splitlines()
                    assert json.loads(f"[{header}]") == seen[-1]
                    assert json.loads(f"[{lines[0]}]") == list(rows[0].values())
                seen.append(list(json.loads(self._body(connection, "/things/7"))))
                assert self._body(connection, "/names.csv").startswith(b"name\n")
        assert all(each == seen[0] for each in seen), seen
        return seen[0]

    def _body(self, connection, target):
        answer = connection.get(target)
        assert answer.status == 200, (target, answer.status, answer.body, self.server.log)
        return answer.body


@pytest.fixture(params=["sqlite", "postgres"])
def things(request, sluice, tmp_path):
    schema = "CREATE TABLE things (id integer PRIMARY KEY, name text);"
    fill = "INSERT INTO things SELECT n, 'thing ' || n FROM ({}) s;"
    if request.param == "sqlite":
        path = tmp_path / "things.db"

        def alter(sql):
            database = sqlite3.connect(path, timeout=10, isolation_level=None)
            database.executescript(sql)
            database.close()

        alter("PRAGMA journal_mode = WAL")
        series = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) SELECT n FROM c"
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")

        def alter(sql):
            postgres.psql(sql)

        alter("DROP TABLE IF EXISTS things")
        series = "SELECT n FROM generate_series(1, {}) n"
        url = postgres.url()
    alter(schema + fill.format(series.format(ROWS)))
    return Things(sluice(CONFIG.format(url=url)), alter)


def test_columns_are_added_renamed_and_dropped(things):
    assert things.names() == ["id", "name"]
    things.alter("ALTER TABLE things ADD COLUMN note text")
    assert things.names() == ["id", "name", "note"]
    things.alter("ALTER TABLE things RENAME COLUMN note TO remark")
    assert things.names() == ["id", "name", "remark"]
    things.alter("UPDATE things SET remark = 'r' || id")
    assert json.loads(things.server.get("/things/7").body) == {"id": 7, "name": "thing 7", "remark": "r7"}
    things.alter("ALTER TABLE things DROP COLUMN remark")
    assert things.names() == ["id", "name"]
    things.alter("ALTER TABLE things ADD COLUMN note text; ALTER TABLE things ADD COLUMN last integer DEFAULT 3")
    assert things.names() == ["id", "name", "note", "last"]


def test_a_table_that_is_made_anew_has_its_new_types(things):
    assert json.loads(things.server.get("/things/7").body) == {"id": 7, "name": "thing 7"}
    things.alter("BEGIN; DROP TABLE things; CREATE TABLE things (id integer PRIMARY KEY, name boolean); "
                 "INSERT INTO things VALUES (7, true); COMMIT")
    for _ in range(2):
        assert json.loads(things.server.get("/things/7").body) == {"id": 7, "name": True}
        assert json.loads(things.server.get("/things").body) == [{"id": 7, "name": True}]


def test_a_column_that_has_gone_is_500_until_it_is_back(things):
    assert things.server.get("/names").status == 200
    things.alter("ALTER TABLE things RENAME COLUMN name TO title")
    for _ in range(2):
        answer = things.server.get("/names")
        assert answer.status == 500 and answer.media_type == "application/problem+json"
        assert b"things" not in answer.body
    assert list(json.loads(things.server.get("/things/7").body)) == ["id", "title"]
    things.alter("ALTER TABLE things RENAME COLUMN title TO name")
    assert things.server.get("/names").status == 200
    assert things.names() == ["id", "name"]


# SQLite takes a quoted name for a text if no column has it. `table` quotes all names.
QUOTED = r'''
[database.main]
url = "{url}"
[[endpoint]]
path = "/tags"
get = """SELECT n FROM tags WHERE "tag" <> :tag ORDER BY n"""
[endpoint.delete]
table = "tags"
columns.tag = {{ key = true, from = "query.tag" }}
[endpoint.patch]
table = "tags"
columns.tag = {{ key = true, from = "query.tag" }}
columns.n = {{}}
[endpoint.post]
table = "tags"
columns.n = {{}}
returning = '"tag"'
[[endpoint]]
path = "/some"
get = """SELECT n FROM tags WHERE "tag" || film LIKE :tag"""
[[endpoint]]
path = "/guarded"
require = "exists(SELECT 1 FROM tags WHERE \"tag\" = :tag)"
get = "SELECT 'secret' AS s WHERE :tag = :tag"
[[endpoint]]
path = "/films/{{film}}"
get = "SELECT n FROM tags WHERE film = :film"
[endpoint.put]
table = "tags"
existing = """SELECT n FROM tags WHERE film = :film AND "tag" <> 'other'"""
columns.n = {{ key = true }}
[[endpoint]]
path = "/unquoted"
get = "SELECT 1 AS one"
patch = "UPDATE tags SET tag = :tag WHERE n = :n"
'''
TAGS = ["DROP TABLE IF EXISTS tags", "CREATE TABLE tags (n integer PRIMARY KEY, film text, tag text)",
        "INSERT INTO tags VALUES (1, 'heat', 'crime'), (2, 'heat', 'la'), (3, 'alien', 'space')"]
WORKING = [("GET", "/tags?tag=tag", None, 200), ("GET", "/some?tag=t%25", None, 200),
           ("GET", "/guarded?tag=crime", None, 200), ("GET", "/guarded?tag=tag", None, 403),
           ("DELETE", "/tags?tag=tag", None, 204), ("PATCH", "/tags?tag=tag", {"n": 9}, 204),
           ("PUT", "/films/heat", [{"n": 1}, {"n": 2}], 200), ("PATCH", "/unquoted", {"n": 8, "tag": "a"}, 204)]
CHANGING = [("PUT", "/films/heat", [{"n": 1}]), ("POST", "/tags", {"n": 4})]


@pytest.fixture(params=["sqlite", "postgres"])
def tags(request, tmp_path):
    return queried_database(request, tmp_path, TAGS)


def call(server, method, target, body=None):
    with server.connect() as connection:
        if body is None:
            return connection.call(method, target)
        return connection.call(method, target, json.dumps(body).encode(), "Content-Type: application/json")


@pytest.mark.parametrize("are_prepared", [True, False], ids=["prepared", "new"])
@pytest.mark.parametrize("change", ["RENAME COLUMN tag TO label", "DROP COLUMN tag"])
def test_a_quoted_name_is_never_a_text(sluice, tags, change, are_prepared):
    url, query = tags
    server = sluice(QUOTED.format(url=url))
    for method, target, body, status in WORKING if are_prepared else []:
        answer = call(server, method, target, body)
        assert answer.status == status, (method, target, answer.body, server.log)
    query(f"ALTER TABLE tags {change}")
    for method, target, body in [each[:3] for each in WORKING] + CHANGING:
        logged = len(server.log)
        answer = call(server, method, target, body)
        assert answer.status == 500, (method, target, answer.status, answer.body)
        assert "tag" in server.log[logged:], (method, target, server.log)
    assert query("SELECT n FROM tags ORDER BY n") == [("1",), ("2",), ("3",)]


@pytest.mark.parametrize("tags", ["sqlite"], indirect=True)
def test_a_text_in_double_quotes_goes_on_to_work_in_triggers_and_views(sluice, tags):
    url, query = tags
    query("CREATE TABLE log (n int, what text)")
    query('CREATE VIEW named AS SELECT "a view" AS name, n, tag FROM tags')
    query('CREATE TRIGGER noted AFTER DELETE ON tags BEGIN INSERT INTO log VALUES (old.n, "deleted"); END')
    server = sluice(QUOTED.format(url=url) + """
[[endpoint]]
path = "/named"
get = "SELECT name FROM named WHERE n = 3"
""")
    assert json.loads(server.get("/named").body) == [{"name": "a view"}]
    assert call(server, "DELETE", "/tags?tag=crime").status == 204
    assert call(server, "PUT", "/films/heat", []).status == 200
    assert query("SELECT n, what FROM log ORDER BY n") == [("1", "deleted"), ("2", "deleted")]
