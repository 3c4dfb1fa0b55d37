"""Rules of methods that write, on both databases: the version of a row, mapped errors, limits of bodies, and their JSON Schema."""
import concurrent.futures
import json

import pytest

from conftest import queried_database
from test_config import place, run
from test_write import Films, JSON

CONFIG = '''
[openapi]
[compression]
codings = ["gzip"]
minimum = 1
[database.main]
url = "{url}"
[[endpoint]]
path = "/items/{{id:int}}"
returns = "object"
version = "rev"
require_match = true
get = "SELECT id, name, rev FROM items WHERE id = :id"
patch = "UPDATE items SET name = :name, rev = rev + 1 WHERE id = :id RETURNING name, rev"
delete = "DELETE FROM items WHERE id = :id"
[endpoint.put]
table = "items"
columns.id = {{ key = true, from = "path.id" }}
columns.name = {{}}
columns.rev = {{}}
[[endpoint]]
path = "/hashed/{{id:int}}"
returns = "object"
version = "*"
get = "SELECT id, name, rev FROM items WHERE id = :id"
patch = "UPDATE items SET name = :name WHERE id = :id RETURNING id, name, rev"
[[endpoint]]
path = "/counted/{{id:int}}"
returns = "object"
version = "sum"
get = "SELECT id, sum(rev) AS sum FROM items WHERE id = :id GROUP BY id"
patch = "UPDATE items SET name = :name, rev = rev + 1 WHERE id = :id"
[[endpoint]]
path = "/marked/{{id:int}}"
returns = "object"
version = "*"
get = "SELECT id, (SELECT count(*) FROM marks WHERE item = items.id) AS marks FROM items WHERE id = :id"
patch = "INSERT INTO marks (item, name) VALUES (:id, :name) RETURNING name"
[[endpoint]]
path = "/viewed/{{id:int}}"
returns = "object"
version = "marks"
get = "SELECT * FROM viewed WHERE id = :id"
patch = "INSERT INTO marks (item, name) VALUES (:id, :name) RETURNING name"

[batch]
path = "/batch"
[errors]
P0001 = {{ status = 418, title = "Refused", show_message = true }}
23xxx = 400
[[endpoint]]
path = "/strict"
get = "SELECT id, name FROM strict ORDER BY id"
body_limit = 4096
errors.23505 = {{ status = 409, detail = "Take another id.", type = "https://example.com/taken" }}
[endpoint.post]
sql = "INSERT INTO strict (id, name, tags) VALUES (:id, :name, :tags)"
row_limit = 200
schema = "item.schema.json"
[endpoint.put]
table = "strict"
existing = "SELECT id FROM strict"
columns.id = {{ key = true }}
columns.name = {{}}
body_limit = "3MiB"
schema = {{ properties.id.maximum = 100_000, properties.name = {{ type = "string", pattern = "^(a+)+$|^n[0-9]+$" }} }}
[[endpoint]]
path = "/trimmed"
params.name = {{ trim = true }}
[endpoint.post]
sql = "INSERT INTO strict (id, name, tags) VALUES (:id, :name, :tags)"
schema = {{ properties = {{ name = {{ not.const = "admin" }}, tags = {{ not.const = "admin" }} }} }}
[endpoint.put]
table = "strict"
existing = "SELECT id FROM strict"
columns.id = {{ key = true }}
columns.name = {{ from = "body.who.name", trim = true }}
columns.tags = {{}}
schema = {{ properties.who = {{ required = ["name"], properties.name = {{ maxLength = 5, not.const = "admin" }} }} }}
[[endpoint]]
path = "/unchecked"
post = "INSERT INTO strict (id, name) VALUES (:id, :name)"
'''
ITEM = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["id"],
        "definitions": {"name": {"type": "string", "minLength": 2}},
        "properties": {"id": {"type": "integer", "minimum": 1}, "name": {"$ref": "#/definitions/name"},
                       "tags": {"items": {"enum": ["a", "b"]}, "uniqueItems": True}}}
NDJSON = "Content-Type: application/x-ndjson"
TEXT_CSV = "Content-Type: text/csv"
TRIGGER = {
    "sqlite": ["CREATE TRIGGER strict_names BEFORE INSERT ON strict WHEN NEW.name = 'nobody' "
               "BEGIN SELECT RAISE(ABORT, 'there is nobody'); END"],
    "postgres": ["CREATE OR REPLACE FUNCTION strict_names() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                 "IF NEW.name = 'nobody' THEN RAISE EXCEPTION 'there is nobody' USING DETAIL = 'a secret'; END IF; "
                 "RETURN NEW; END $$",
                 "CREATE TRIGGER strict_names BEFORE INSERT ON strict FOR EACH ROW EXECUTE FUNCTION strict_names()"],
}
SCHEMA = ["DROP VIEW IF EXISTS viewed", "DROP TABLE IF EXISTS marks", "DROP TABLE IF EXISTS items", "DROP TABLE IF EXISTS strict",
          "CREATE TABLE strict (id integer PRIMARY KEY, name text CHECK (name <> 'no'), tags text)",
          "CREATE TABLE items (id integer PRIMARY KEY, name text, rev integer)", "CREATE TABLE marks (item integer, name text)",
          "CREATE VIEW viewed AS SELECT id, (SELECT count(*) FROM marks WHERE item = items.id) AS marks FROM items",
          *(f"INSERT INTO items VALUES ({n}, 'item {n}', 1)" for n in range(1, 10))]
CSV = "Accept: text/csv"
GZIP = "Accept-Encoding: gzip"


@pytest.fixture(params=["sqlite", "postgres"])
def items(request, sluice, tmp_path):
    (tmp_path / "item.schema.json").write_text(json.dumps(ITEM))
    url, query = queried_database(request, tmp_path, SCHEMA + TRIGGER[request.param])
    return Films(sluice(CONFIG.format(url=url)), request.param, query)


def test_states_and_conditions(items):
    got = items.call("GET", "/items/1")
    assert (got.status, got.get("etag")) == (200, '"1"')
    assert items.call("GET", "/items/1.csv").get("etag") == '"1;csv"'
    assert items.call("GET", "/items/1", None, CSV).get("etag") == '"1;csv"'
    known = items.call("GET", "/items/1", None, 'If-None-Match: W/"1"')
    assert (known.status, known.get("etag"), known.body) == (304, '"1"', b"")
    assert items.call("GET", "/items/1", None, 'If-None-Match: "1;csv"').status == 200

    items.problem(428, "PATCH", "/items/1", {"name": "x"})
    items.problem(412, "PATCH", "/items/1", {"name": "x"}, 'If-Match: "2"')
    items.problem(412, "PATCH", "/items/1", {"name": "x"}, 'If-Match: W/"1"')
    items.problem(412, "PATCH", "/items/99", {"name": "x"}, "If-Match: *")
    # A list that mixes tags with "*", in one field or in two, is invalid.
    for fields in (['If-Match: "1", *'], ["If-Match: *", 'If-Match: "1"'], ['If-Match: "1"', 'If-None-Match: *, "x"']):
        for method, body in (("PATCH", {"name": "z"}), ("PUT", {"name": "z", "rev": 9}), ("DELETE", None), ("GET", None)):
            items.problem(400, method, "/items/1", body, *fields)
        items.problem(400, "PATCH", "/items/99", {"name": "z"}, *fields)
        called = items.problem(400, "POST", "/batch", [{"method": "PATCH", "path": "/items/1", "body": {"name": "z"},
                                                        "headers": {"If-Match": '"1", *'}}])
        assert called["answer"]["status"] == 400
    assert items.call("GET", "/items/1").body == b'{"id":1,"name":"item 1","rev":1}\n'
    changed = items.call("PATCH", "/items/1", {"name": "x"}, 'If-Match: "0", "1;csv"')
    assert (changed.status, changed.get("etag"), json.loads(changed.body)) == (200, '"2"', {"name": "x", "rev": 2})
    items.problem(412, "DELETE", "/items/1", None, 'If-Match: "1"')
    assert items.call("DELETE", "/items/1", None, 'If-Match: "2"').status == 204
    assert items.query("SELECT count(*) FROM items") == [("8",)]

    # A content coding has its own tag for the same version of the row, and a write may use that tag.
    coded = items.call("GET", "/items/2", None, GZIP)
    assert (coded.get("content-encoding"), coded.get("etag")) == ("gzip", '"1;gzip"')
    assert items.call("GET", "/items/2", None, GZIP, 'If-None-Match: "1;gzip"').get("etag") == '"1;gzip"'
    assert items.call("PATCH", "/items/2", {"name": "y"}, 'If-Match: "1;gzip"').status == 200


def test_what_is_created_and_nothing_else(items):
    created = items.call("PUT", "/items/50", {"name": "new", "rev": 1}, "If-None-Match: *")
    assert created.status == 201
    items.problem(412, "PUT", "/items/50", {"name": "again", "rev": 1}, "If-None-Match: *")
    items.problem(412, "PUT", "/items/51", {"name": "none", "rev": 1}, 'If-Match: "1"')
    assert items.call("PUT", "/items/50", {"name": "other", "rev": 2}, 'If-Match: "1"').status == 204
    assert items.query("SELECT id, name, rev FROM items WHERE id >= 50") == [("50", "other", "2")]


def test_a_hash_is_a_state_too(items):
    tag = items.call("GET", "/hashed/1").get("etag")
    changed = items.call("PATCH", "/hashed/1", {"name": "x"}, f"If-Match: {tag}")
    assert changed.status == 200
    assert changed.get("etag") == items.call("GET", "/hashed/1").get("etag") != tag
    items.problem(412, "PATCH", "/hashed/1", {"name": "y"}, f"If-Match: {tag}")
    assert items.call("PATCH", "/hashed/1", {"name": "y"}).status == 200, "a condition is required only where it says so"


@pytest.mark.parametrize("path", ["/items/{}", "/hashed/{}", "/counted/{}", "/marked/{}", "/viewed/{}"])
def test_of_those_who_have_seen_one_state_one_writes(items, path):
    writers = 6

    def patch(number, target, tag):
        return items.call("PATCH", target, {"name": f"by {number}"}, f"If-Match: {tag}").status

    with concurrent.futures.ThreadPoolExecutor(writers) as pool:
        for one in (1, 2, 3):
            target = path.format(one)
            tag = items.call("GET", target).get("etag")
            statuses = sorted(pool.map(patch, range(writers), [target] * writers, [tag] * writers))
            # The statement of /counted returns no columns.
            assert statuses == [204 if "counted" in path else 200] + [412] * (writers - 1), items.server.log

        def put(number):
            return items.call("PUT", "/items/70", {"name": f"by {number}", "rev": 1}, "If-None-Match: *").status

        assert sorted(pool.map(put, range(writers))) == [201] + [412] * (writers - 1), items.server.log


def faults_of(problem):
    return [(fault["pointer"], fault["detail"]) for fault in problem["errors"]]


def test_errors_are_answered_as_the_configuration_says(items):
    assert items.call("POST", "/strict", {"id": 1, "name": "first"}).status == 201
    taken = items.problem(409, "POST", "/strict", {"id": 1})
    assert (taken["type"], taken["title"], taken["detail"]) == ("https://example.com/taken", "Conflict", "Take another id.")
    raised = items.problem(418, "POST", "/strict", {"id": 2, "name": "nobody"})
    assert (raised["type"], raised["title"], raised["detail"]) == ("about:blank", "Refused", "there is nobody")
    listed = items.problem(400, "POST", "/strict", [{"id": 2, "name": "yes"}, {"id": 3, "name": "no"}])
    assert listed["detail"] == "A value is outside of what is allowed.", "what the entry does not say is as ever"
    assert [(fault["row"], fault["pointer"]) for fault in listed["errors"]] == [(1, "/1/name")]
    assert items.problem(400, "POST", "/unchecked", {"id": 1})["detail"] == "There is a row with the same key already."


def test_bodies_and_rows_have_their_limits(items):
    items.problem(413, "POST", "/strict", {"id": 1, "name": "n" * 5000})
    chunk = b"1000\r\n" + b" " * 4096 + b"\r\n"
    with items.server.connect() as connection:
        connection.send(b"POST /strict HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                        b"Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk + b"0\r\n\r\n")
        assert connection.read().status == 413
    found = items.problem(422, "POST", "/strict", [{"id": 1, "name": "ok"}, {"id": 2, "name": "n" * 300}])
    assert found["errors"][0]["detail"] == "the row is longer than 200 bytes"
    # More than [server] allows for other bodies.
    rows = "[" + ",".join(f'{{"id":{n},"name":"n{n}"}}' for n in range(1, 50_001)) + "]"
    assert len(rows) > 1 << 20
    assert json.loads(items.call("PUT", "/strict", rows).body)["inserted"] == 50_000
    with items.server.connect() as connection:
        connection.send(b"POST /unchecked HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                        b"Expect: 100-continue\r\nContent-Length: 1048577\r\n\r\n")
        assert connection.read().status == 413, "it is refused before it is sent"


def test_rows_fit_their_schema(items):
    found = items.problem(422, "POST", "/strict", [{"id": 1, "name": "first"}, {"id": 0, "name": "x"}, {"name": "third"},
                                                   {"id": 4, "tags": ["a", "c", "a"]}])
    assert faults_of(found) == [("/1/id", "must be at least 1"), ("/1/name", "must have at least 2 characters"),
                                ("/2/id", "is missing"), ("/3/tags/1", 'must be one of "a", "b"'),
                                ("/3/tags", "must not have an item twice")]
    found = items.problem(422, "POST", "/strict", '{"id":1}\n{"id":"2"}\n', NDJSON)
    assert [(fault["line"], fault["pointer"]) for fault in found["errors"]] == [(2, "/id")]
    found = items.problem(422, "POST", "/strict", "id,name\n1,first\n0,x\n", TEXT_CSV)
    assert faults_of(found) == [("id", "must be at least 1"), ("name", "must have at least 2 characters")]
    assert items.query("SELECT count(*) FROM strict") == [("0",)]
    assert items.call("POST", "/strict", "id,name\n1,first\n2,second\n", TEXT_CSV).status == 201
    assert items.call("POST", "/strict", {"id": 3, "name": "third", "tags": ["b", "a"]}).status == 201

    # Each row of a set is checked, and at most 100 errors are reported. A backtracking engine would not finish the pattern.
    found = items.problem(422, "PUT", "/strict", [{"id": 1, "name": "a" * 3000 + "!"}, {"id": 100_001, "name": "aa"}])
    assert [fault["pointer"] for fault in found["errors"]] == ["/0/name", "/1/id"]
    assert len(items.problem(422, "PUT", "/strict", [{"id": n, "name": "b"} for n in range(300)])["errors"]) == 100
    assert items.query("SELECT count(*) FROM strict") == [("3",)]
    assert json.loads(items.call("PUT", "/strict", [{"id": 1, "name": "aa"}]).body)["deleted"] == 2


def test_a_schema_sees_what_is_written(items):
    form = "Content-Type: application/x-www-form-urlencoded"
    escaped = '{"name":"\\u0020ad\\u006din\\n","id":1}'
    for body, kind in (({"id": 1, "name": " admin"}, JSON), (escaped, JSON), ('{"id":1,"name":"admin "}\n', NDJSON),
                       ("id,name\n1, admin \n", TEXT_CSV), ("id=1&name=+admin", form),
                       ('"id","name"\n1," admin"\n', "Content-Type: application/csj")):
        found = items.problem(422, "POST", "/trimmed", body, kind)
        assert [fault["pointer"].rpartition("/")[2] for fault in found["errors"]] == ["name"], body
    assert items.call("POST", "/trimmed", {"id": 1, "name": " \"a\" ", "tags": " admin"}).status == 201
    assert items.query("SELECT name, tags FROM strict") == [('"a"', " admin")]
    found = items.problem(422, "PUT", "/trimmed", [{"who": {"name": "   five5 "}, "id": 1}, {"id": 2, "who": {"name": "admin "}}])
    assert faults_of(found)[0][0] == "/1/who/name"
    assert items.call("PUT", "/trimmed", [{"who": {"name": "   five5 "}, "id": 1}]).status == 200
    assert items.query("SELECT name FROM strict") == [("five5",)]


def test_the_description_tells_of_it(items):
    document = json.loads(items.call("GET", "/openapi.json").body)
    paths = document["paths"]
    item = paths["/items/{id}"]
    assert "ETag" in item["get"]["responses"]["304"]["headers"]
    assert {"412", "428"} <= set(item["patch"]["responses"])
    assert {"name": "If-Match", "in": "header", "required": True}.items() <= next(
        one for one in item["patch"]["parameters"] if one["name"] == "If-Match").items()
    assert "If-None-Match" in [one["name"] for one in item["put"]["parameters"]]
    assert "428" not in paths["/hashed/{id}"]["patch"]["responses"]
    assert "418" in paths["/strict"]["post"]["responses"]
    content = paths["/strict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    name = content["anyOf"][0]["$ref"].rsplit("/", 1)[1]
    schema = document["components"]["schemas"][name]
    assert "$schema" not in schema and schema["required"] == ["id"]
    assert schema["properties"]["name"]["$ref"] == f"#/components/schemas/{name}/definitions/name"


ENDPOINT = '''[database.main]
url = "sqlite:small.db"
[[endpoint]]
path = "/numbers/{n:int}"
'''


PATCH = '[endpoint.patch]\nsql = "UPDATE numbers SET text = :text WHERE n = :n"\n'


@pytest.mark.parametrize("text, needle, says", [
    ('returns = "object"\nget = "SELECT n, text FROM numbers WHERE n = :n"\nversion = "txt"\n', '"txt"',
     'returns no column "txt"'),
    ('returns = "object"\nget = "SELECT n, text FROM numbers WHERE n = :n"\nversion = ""\n', '""', "names a column"),
    ('get = "SELECT n, text FROM numbers WHERE n = :n"\nversion = "n"\n', '"n"\n', 'add returns = "object"'),
    ('returns = "object"\ndelete = "DELETE FROM numbers WHERE n = :n"\nversion = "n"\n', '"n"\n', "which is not there"),
    ('get = "SELECT n FROM numbers WHERE n = :n"\nrequire_match = true\n', "true", 'for an endpoint with "version"'),
    ('returns = "object"\nget = "SELECT n FROM numbers WHERE n = :n"\nversion = "*"\nrequire_match = true\n', "true",
     "for methods that write"),
    ('returns = "object"\nget = "SELECT n FROM numbers WHERE n = :n"\nversion = "n"\n[endpoint.patch]\ntable = "numbers"\n'
     'set = true\ncolumns.n = { key = true }\ncolumns.text = {}\n', '"n"\n', "a set has many"),
    ('delete = "DELETE FROM numbers WHERE n = :n"\nerrors.2350 = 409\n', "2350", "is no SQLSTATE"),
    ('delete = "DELETE FROM numbers WHERE n = :n"\nerrors.23505 = 200\n', "200", "at least 400"),
    ('delete = "DELETE FROM numbers WHERE n = :n"\nerrors.23505 = 499\n', "499", "add a title"),
    ('delete = "DELETE FROM numbers WHERE n = :n"\nerrors.08006 = 409\n', "08006", "cannot be reached"),
    ('get = "SELECT n FROM numbers WHERE n = :n"\nbody_limit = 10\n', "10", "for methods that write"),
    ('patch = "UPDATE numbers SET text = :text WHERE n = :n"\nrow_limit = "2MiB"\n', '"2MiB"', "body_limit is 1MiB"),
    ('[endpoint.delete]\nsql = "DELETE FROM numbers WHERE n = :n"\nschema = {}\n', "{}", "takes nothing from one"),
    (PATCH + 'schema = "none.json"\n', '"none.json"', "cannot be read"),
    (PATCH + 'schema = "bad.json"\n', '"bad.json"', "the schema bad.json: it is not JSON"),
    (PATCH + "schema = { properties.text = { pattern = '(?=a)' } }\n", "{ properties", "at /properties/text/pattern"),
    (PATCH + 'schema = { "$ref" = "https://example.com/a.json" }\n', '{ "$ref"', "only references within"),
])
def test_what_cannot_be_kept_to(tmp_path, small_sqlite, text, needle, says):
    (tmp_path / "bad.json").write_text("{")
    checked = run(tmp_path, ENDPOINT + text)
    assert checked.returncode == 3
    assert f":{place(ENDPOINT + text, needle)}: " in checked.stderr, checked.stderr
    assert says in checked.stderr
