"""What methods that write keep to, on both databases: the state that a client has seen."""
import concurrent.futures
import json
import sqlite3

import pytest

from test_config import place, run
from test_write import Films

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
'''
SCHEMA = ["DROP TABLE IF EXISTS items",
          "CREATE TABLE items (id integer PRIMARY KEY, name text, rev integer)",
          *(f"INSERT INTO items VALUES ({n}, 'item {n}', 1)" for n in range(1, 10))]
CSV = "Accept: text/csv"
GZIP = "Accept-Encoding: gzip"


@pytest.fixture(params=["sqlite", "postgres"])
def items(request, sluice, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "items.db"

        def query(sql):
            database = sqlite3.connect(path, timeout=10, isolation_level=None)
            try:
                return [tuple(str(value) for value in row) for row in database.execute(sql)]
            finally:
                database.close()

        for statement in SCHEMA:
            query(statement)
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql).decode().splitlines()]

        query("; ".join(SCHEMA))
        url = postgres.url()
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
    changed = items.call("PATCH", "/items/1", {"name": "x"}, 'If-Match: "0", "1;csv"')
    assert (changed.status, changed.get("etag"), json.loads(changed.body)) == (200, '"2"', {"name": "x", "rev": 2})
    items.problem(412, "DELETE", "/items/1", None, 'If-Match: "1"')
    assert items.call("DELETE", "/items/1", None, 'If-Match: "2"').status == 204
    assert items.query("SELECT count(*) FROM items") == [("8",)]

    # A coding makes another representation of the same state, with a tag that a write can name.
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


@pytest.mark.parametrize("path", ["/items/{}", "/hashed/{}", "/counted/{}"])
def test_of_those_who_have_seen_one_state_one_writes(items, path):
    writers = 6

    def patch(number, target, tag):
        return items.call("PATCH", target, {"name": f"by {number}"}, f"If-Match: {tag}").status

    with concurrent.futures.ThreadPoolExecutor(writers) as pool:
        for one in (1, 2, 3):
            target = path.format(one)
            tag = items.call("GET", target).get("etag")
            statuses = sorted(pool.map(patch, range(writers), [target] * writers, [tag] * writers))
            assert statuses[0] in (200, 204) and statuses[1:] == [412] * (writers - 1), items.server.log

        def put(number):
            return items.call("PUT", "/items/70", {"name": f"by {number}", "rev": 1}, "If-None-Match: *").status

        assert sorted(pool.map(put, range(writers))) == [201] + [412] * (writers - 1), items.server.log


def test_the_description_tells_of_it(items):
    paths = json.loads(items.call("GET", "/openapi.json").body)["paths"]
    item = paths["/items/{id}"]
    assert "ETag" in item["get"]["responses"]["304"]["headers"]
    assert {"412", "428"} <= set(item["patch"]["responses"])
    assert {"name": "If-Match", "in": "header", "required": True}.items() <= next(
        one for one in item["patch"]["parameters"] if one["name"] == "If-Match").items()
    assert "If-None-Match" in [one["name"] for one in item["put"]["parameters"]]
    assert "428" not in paths["/hashed/{id}"]["patch"]["responses"]


ENDPOINT = '''[database.main]
url = "sqlite:small.db"
[[endpoint]]
path = "/numbers/{n:int}"
'''


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
])
def test_a_version_that_cannot_be(tmp_path, small_sqlite, text, needle, says):
    checked = run(tmp_path, ENDPOINT + text)
    assert checked.returncode == 3
    assert f":{place(ENDPOINT + text, needle)}: " in checked.stderr, checked.stderr
    assert says in checked.stderr
