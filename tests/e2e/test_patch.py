"""PATCH and PUT of a table, on both databases: the columns that are written, the version that is raised, merge patches."""
import json
import subprocess

import pytest

from conftest import SLUICE, queried_database

MERGE = "application/merge-patch+json"
ITEM = '''
[[endpoint]]
path = "/items/{id:int}"
returns = "object"
version = "revision"
get = "SELECT id, a, b, doc, revision FROM items WHERE id = :id"
[endpoint.patch]
table = "items"
columns.id = { key = true, from = "path.id" }
columns.a = {}
columns.b = {}
columns.doc = {}
columns.revision = {}
returning = "id, a, b, doc, revision"
[endpoint.put]
table = "items"
columns.id = { key = true, from = "path.id" }
columns.a = {}
columns.b = {}
columns.revision = {}
returning = "id, a, b, doc, revision"
[[endpoint]]
path = "/items"
[endpoint.patch]
table = "items"
columns.id = { key = true }
columns.a = {}
columns.b = {}
[endpoint.post]
table = "items"
columns.id = {}
columns.a = {}
[[endpoint]]
path = "/quiet/{id:int}"
returns = "object"
[endpoint.patch]
table = "items"
columns.id = { key = true, from = "path.id" }
columns.a = {}
columns.b = {}
[[endpoint]]
path = "/timed/{id:int}"
returns = "object"
version = "state"
get = "SELECT id, name, at AS state FROM timed WHERE id = :id"
[endpoint.patch]
table = "timed"
columns.id = { key = true, from = "path.id" }
columns.name = {}
[[endpoint]]
path = "/wide/{id:int}"
returns = "object"
get = "SELECT * FROM wide WHERE id = :id"
[endpoint.patch]
table = "wide"
columns.id = { key = true, from = "path.id" }
''' + "".join(f"columns.c{i} = {{}}\n" for i in range(8))
TABLES = ["DROP TABLE IF EXISTS items", "DROP TABLE IF EXISTS noted", "DROP TABLE IF EXISTS timed", "DROP TABLE IF EXISTS wide",
          "CREATE TABLE items (id integer PRIMARY KEY, a integer, b integer, doc {json}, revision integer)",
          "CREATE TABLE noted (b integer)", "CREATE TABLE timed (id integer PRIMARY KEY, name text, at timestamp{precision})",
          "INSERT INTO items VALUES (1, 1, 1, NULL, 1), (2, 2, 2, '{{\"x\":{{\"y\":1.50,\"z\":[1]}},\"w\":\"v\"}}', 7)",
          "INSERT INTO timed VALUES (1, 'one', '2024-01-01 10:00:00'), (2, 'two', NULL), (3, 'later', '2999-01-01 10:00:00')",
          "CREATE TABLE wide (id integer PRIMARY KEY, " + ", ".join(f"c{i} integer" for i in range(8)) + ")",
          "INSERT INTO wide (id) VALUES (1)"]
TRIGGERS = {
    "sqlite": ["CREATE TRIGGER note AFTER UPDATE OF b ON items BEGIN INSERT INTO noted VALUES (NEW.b); END"],
    "postgres": ["CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                 "INSERT INTO noted VALUES (NEW.b); RETURN NULL; END $$",
                 "CREATE TRIGGER note AFTER UPDATE OF b ON items FOR EACH ROW EXECUTE FUNCTION note()"],
}


class Items:
    def __init__(self, server, query, url):
        self.server, self.query, self.url = server, query, url

    def call(self, method, target, body=None, *fields, content="application/json"):
        with self.server.connect() as connection:
            if body is None:
                return connection.call(method, target, None, *fields)
            return connection.call(method, target, json.dumps(body).encode(), f"Content-Type: {content}", *fields)

    def row(self, *arguments, **named):
        answer = self.call(*arguments, **named)
        assert answer.status == 200, (answer.status, answer.body)
        return json.loads(answer.body)


@pytest.fixture(params=["sqlite", "postgres"])
def items(request, sluice, tmp_path):
    json_type, precision = ("JSON", "") if request.param == "sqlite" else ("jsonb", "(0)")
    tables = [text.format(json=json_type, precision=precision) for text in TABLES]
    url, query = queried_database(request, tmp_path, tables + TRIGGERS[request.param])
    return Items(sluice(f'[database.main]\nurl = "{url}"\n{ITEM}'), query, url)


def test_a_patch_sets_the_columns_that_the_body_names(items):
    assert items.row("PATCH", "/items/1", {"a": 5}) == {"id": 1, "a": 5, "b": 1, "doc": None, "revision": 2}
    assert items.row("PATCH", "/items/1", {}) == {"id": 1, "a": 5, "b": 1, "doc": None, "revision": 2}
    assert items.query("SELECT b FROM noted") == []
    assert items.call("PATCH", "/items/9", {}).status == 404
    assert items.call("PATCH", "/quiet/1", {}).status == 204
    assert items.call("PATCH", "/quiet/9", {}).status == 404
    assert items.call("PATCH", "/items/1", {}, 'If-Match: "1"').status == 412
    assert items.call("PATCH", "/quiet/1", {"a": 6}).status == 204
    assert items.query("SELECT b FROM noted") == []
    assert items.row("PATCH", "/items/1", {"b": 8, "a": None})["b"] == 8
    assert items.query("SELECT b FROM noted") == [("8",)]


def test_each_row_of_a_patch_sets_its_own_columns(items):
    rows = [{"id": 1, "a": 10}, {"id": 2, "b": 20}, {"id": 1}, {"id": 2, "a": 11, "b": 21}, {"id": 1, "a": 12}]
    assert items.call("PATCH", "/items", rows).status in (200, 204)
    assert items.query("SELECT a, b FROM items ORDER BY id") == [("12", "1"), ("11", "21")]
    assert items.query("SELECT b FROM noted ORDER BY b") == [("20",), ("21",)]


def test_a_patch_with_any_set_of_columns(items):
    expected = {f"c{i}": None for i in range(8)}
    for turn in range(2):
        for chosen in range(256):
            body = {f"c{i}": chosen + turn for i in range(8) if chosen >> i & 1}
            expected.update(body)
            assert items.call("PATCH", "/wide/1", body).status == 204
    assert items.row("GET", "/wide/1") == {"id": 1, **expected}


def test_a_patch_needs_rights_to_the_named_columns_alone(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS granted; CREATE TABLE granted (id integer PRIMARY KEY, a integer, b integer); "
                  "INSERT INTO granted VALUES (1, 1, 1); DROP ROLE IF EXISTS narrow; CREATE ROLE narrow LOGIN; "
                  "GRANT SELECT, UPDATE (a) ON granted TO narrow")
    url = postgres.url().replace("postgres@", "narrow@")
    assert "narrow@" in url
    server = sluice(f'[database.main]\nurl = "{url}"\n[[endpoint]]\npath = "/granted/{{id:int}}"\n[endpoint.patch]\ntable = "granted"\n'
                    'columns.id = { key = true, from = "path.id" }\ncolumns.a = {}\ncolumns.b = {}\n')
    granted = Items(server, None, url)
    assert granted.call("PATCH", "/granted/1", {"a": 5}).status == 204
    assert granted.call("PATCH", "/granted/1", {}).status == 204
    assert granted.call("PATCH", "/granted/1", {"b": 5}).status == 403
    assert postgres.psql("SELECT a, b FROM granted").decode().strip() == "5|1"
    postgres.psql("DROP TABLE granted; DROP ROLE narrow")


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_a_generated_write_raises_the_version(items, method):
    body = {"a": 2, "b": 3, "revision": 1}
    first = items.call(method, "/items/1", body, 'If-Match: "1"')
    assert (first.status, first.get("etag"), json.loads(first.body)["revision"]) == (200, '"2"', 2)
    assert items.call(method, "/items/1", body, 'If-Match: "1"').status == 412
    assert items.call("GET", "/items/1", None, 'If-None-Match: "1"').get("etag") == '"2"'
    assert items.call("GET", "/items/1", None, 'If-None-Match: "2"').status == 304
    assert items.call(method, "/items/1", body, 'If-Match: "2"').get("etag") == '"3"'


def test_a_version_that_is_a_time_differs_after_each_write(items):
    for number in (1, 2, 3):
        tags = {items.call("GET", f"/timed/{number}").get("etag")}
        for turn in range(4):
            assert items.call("PATCH", f"/timed/{number}", {"name": f"n{turn}"}).status == 204
            tags.add(items.call("GET", f"/timed/{number}").get("etag"))
        assert len(tags) == 5 and (None in tags) == (number == 2), tags


VERSIONED = '''[database.main]
url = "URL"
[[endpoint]]
path = "/t/{id:int}"
returns = "object"
version = "mark"
get = "SELECT id, name, mark FROM marked WHERE id = :id"
[endpoint.patch]
table = "marked"
columns.id = { key = true, from = "path.id" }
columns.name = {}
returning = "id, name, mark"
'''
MARKS = {"sqlite": ["CREATE TRIGGER mark AFTER UPDATE OF name ON marked BEGIN UPDATE marked SET mark = NEW.mark || 'x' WHERE id = NEW.id; END"],
         "postgres": ["CREATE OR REPLACE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                      "NEW.mark := OLD.mark || 'x'; RETURN NEW; END $$",
                      "CREATE TRIGGER mark BEFORE UPDATE ON marked FOR EACH ROW EXECUTE FUNCTION mark()"]}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_version_that_nothing_raises_is_refused(kind, request, sluice, tmp_path):
    request.param = kind
    tables = ["DROP TABLE IF EXISTS marked", "CREATE TABLE marked (id integer PRIMARY KEY, name text, mark text)",
              "INSERT INTO marked VALUES (1, 'one', 'x')"]
    url, query = queried_database(request, tmp_path, tables)
    config = VERSIONED.replace("URL", url)
    (tmp_path / "marked.toml").write_text(config)
    checked = subprocess.run([SLUICE, "check", "marked.toml"], capture_output=True, text=True, timeout=20, cwd=tmp_path)
    assert checked.returncode == 3 and 'the column\'s type is "text"' in checked.stderr.lower(), checked.stderr
    assert "marked.toml:6:" in checked.stderr
    url, query = queried_database(request, tmp_path, (tables if kind == "postgres" else tables[1:0]) + MARKS[kind])
    marked = Items(sluice(config), query, url)
    assert marked.call("PATCH", "/t/1", {"name": "two"}, 'If-Match: "x"').status == 200
    assert marked.call("PATCH", "/t/1", {"name": "two"}, 'If-Match: "x"').status == 412
    assert marked.call("GET", "/t/1").get("etag") == '"xx"'


def test_a_merge_patch_changes_parts_of_json(items):
    patched = items.row("PATCH", "/items/2", {"doc": {"x": {"y": None, "n": {"k": None, "m": 1}}, "u": [1]}}, content=MERGE)
    assert patched["doc"] == {"x": {"z": [1], "n": {"m": 1}}, "w": "v", "u": [1]} and patched["revision"] == 8
    assert (patched["a"], patched["b"]) == (2, 2)
    assert items.row("PATCH", "/items/2", {"doc": {"w": "new"}}, content=MERGE)["doc"]["x"] == {"z": [1], "n": {"m": 1}}
    assert items.row("PATCH", "/items/2", {"doc": [2], "a": 4}, content=MERGE)["doc"] == [2]
    assert items.row("PATCH", "/items/2", {"doc": {"w": 1, "v": None}}, content=MERGE)["doc"] == {"w": 1}
    assert items.row("PATCH", "/items/2", {"doc": {"v": 2}})["doc"] == {"v": 2}
    assert items.row("PATCH", "/items/2", {"doc": None}, content=MERGE)["doc"] is None
    assert items.query("SELECT count(*) FROM items WHERE doc IS NULL") == [("2",)]
    assert items.row("PATCH", "/items/1", {"doc": {"v": 2, "w": None}}, content=MERGE)["doc"] == {"v": 2}
    assert items.call("PATCH", "/items/9", {"doc": {"v": 2}}, content=MERGE).status == 404


def test_types_that_nothing_implements_are_refused(items):
    patch = items.call("PATCH", "/items/1", [{"op": "remove", "path": "/a"}], content="application/json-patch+json")
    assert patch.status == 415 and MERGE in patch.get("accept-patch") and "application/json," in patch.get("accept-patch")
    post = items.call("POST", "/items", {"id": 5}, content="application/vnd.api+json")
    assert post.status == 415 and MERGE not in post.get("accept-post") and "application/json," in post.get("accept-post")
    put = items.call("PUT", "/items/1", {"a": 1}, content=MERGE)
    assert put.status == 415 and put.get("accept-patch") is None
    assert items.query("SELECT a, b FROM items WHERE id = 1") == [("1", "1")]


@pytest.mark.parametrize("method", ['table = "parts"\ncolumns.id = {}\nreturning = "id, xmin::text AS revision"',
                                    'sql = "INSERT INTO parts (id) VALUES (:id) RETURNING id, xmin::text AS revision"'])
def test_system_columns_of_partitioned_tables(postgres, tmp_path, method):
    postgres.psql("DROP TABLE IF EXISTS parts; CREATE TABLE parts (id integer PRIMARY KEY) PARTITION BY RANGE (id); "
                  "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100)")

    def check(text):
        (tmp_path / "parts.toml").write_text(f'[database.main]\nurl = "{postgres.url()}"\n[[endpoint]]\npath = "/parts"\n'
                                             f'[endpoint.post]\n{text}\n')
        return subprocess.run([SLUICE, "check", "parts.toml"], capture_output=True, text=True, timeout=20, cwd=tmp_path)

    refused = check(method)
    assert refused.returncode == 3 and "is partitioned" in refused.stderr and 'version = "*"' in refused.stderr, refused.stderr
    assert "parts.toml:6:" in refused.stderr
    assert check(method.replace(", xmin::text AS revision", "")).returncode == 0
    assert check(method.replace("parts", "parts_1")).returncode == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_table_of_many_columns_is_written(kind, request, sluice, tmp_path):
    request.param = kind
    names = [f"c{i}" for i in range(1010)]
    url, query = queried_database(request, tmp_path, ["DROP TABLE IF EXISTS broad", "CREATE TABLE broad (id integer PRIMARY KEY, " +
                                                      ", ".join(f"{name} integer" for name in names) + ")", "INSERT INTO broad (id) VALUES (1)"])
    columns = 'columns.id = { key = true, from = "path.id" }\n' + "".join(f"columns.{name} = {{}}\n" for name in names)
    broad = Items(sluice(f'[database.main]\nurl = "{url}"\n[[endpoint]]\npath = "/broad/{{id:int}}"\nreturns = "object"\n'
                         f'get = "SELECT * FROM broad WHERE id = :id"\n[endpoint.patch]\ntable = "broad"\n{columns}'), query, url)
    assert broad.call("PATCH", "/broad/1", {name: 2 for name in names}).status == 204
    assert broad.row("GET", "/broad/1") == {"id": 1, **{name: 2 for name in names}}
