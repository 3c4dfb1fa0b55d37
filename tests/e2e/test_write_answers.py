"""Answers of methods that write, on both databases: their shape, the value at fault, missing rows, and bodies that GET returned."""
import json
import sqlite3
import time
import subprocess
import threading

import pytest

from test_write import Films

CONFIG = '''
[openapi]
[batch]
[database.main]
url = "{url}"
[[endpoint]]
path = "/items"
get = "SELECT id, name, price FROM items ORDER BY id"
[endpoint.post]
sql = "INSERT INTO items (id, name, price) VALUES (:id, :name, :price) RETURNING id, name"
location = "/items/{{id}}"
[endpoint.patch]
sql = "UPDATE items SET price = :price WHERE id = :id RETURNING id, price"
[[endpoint]]
path = "/item"
[endpoint.post]
returns = "object"
sql = "INSERT INTO items (id, name, price) VALUES (:id, :name, :price) RETURNING id, name"
location = "/items/{{id}}"
[[endpoint]]
path = "/made"
[endpoint.post]
creates = true
returns = "object"
sql = "{making}"
location = "/items/{{id}}"
[[endpoint]]
path = "/logged"
[endpoint.post]
creates = false
sql = "INSERT INTO items (id, name) VALUES (:id, 'log') RETURNING id"
[[endpoint]]
path = "/all"
post = "INSERT INTO items (id, name) SELECT id + 100, name || '*' FROM items WHERE id <= :most RETURNING id"
params.most = {{ from = "query.most", type = "int" }}
[[endpoint]]
path = "/items/{{id:int}}"
returns = "object"
version = "*"
get = "SELECT * FROM items WHERE id = :id"
patch = "UPDATE items SET name = :name, price = :price WHERE id = :id"
delete = "DELETE FROM items WHERE id = :id"
params.twice = {{ ignored = true }}
params.made = {{ ignored = true }}
[endpoint.put]
table = "items"
columns.id = {{ key = true, from = "path.id" }}
columns.name = {{}}
columns.price = {{}}
columns.made = {{ ignored = true }}
[[endpoint]]
path = "/parts"
post = "INSERT INTO parts (item, place, slot) VALUES (:item, :place, :slot)"
[[endpoint]]
path = "/parts/{{place}}"
get = "SELECT place, slot, item, twice FROM parts WHERE place = :place ORDER BY slot"
[endpoint.put]
table = "parts"
existing = "SELECT slot FROM parts WHERE place = :place"
columns.place = {{ key = true, from = "path.place" }}
columns.slot = {{ key = true }}
columns.item = {{}}
[[endpoint]]
path = "/found"
get = "{search}"
params.q = "text"
[[endpoint]]
path = "/found/mapped"
get = "{search}"
params.q = "text"
errors.42601 = {{ status = 422, title = "No search", detail = "Look at the quotes." }}
[[endpoint]]
path = "/json"
get = "{json_get}"
params.q = "text"
params.path = "text"
[endpoint.post]
sql = "{json_post}"
[[endpoint]]
path = "/overflow"
get = "SELECT {overflow} AS n"
post = "INSERT INTO docs (doc) SELECT {overflow}"
params.n = "int"
[[endpoint]]
path = "/alone"
post = "{alone}"
[[endpoint]]
path = "/listed/{{id:int}}"
returns = "object"
version = "*"
get = "SELECT * FROM items WHERE id = :id"
[endpoint.put]
returns = "rows"
before = ["DELETE FROM parts"]
sql = "UPDATE items SET name = :name WHERE id = :id RETURNING id"
'''
SCHEMA = '''
CREATE TABLE items (id integer PRIMARY KEY, name text NOT NULL UNIQUE, price numeric CONSTRAINT p_price_check CHECK (price > 0),
                    twice numeric GENERATED ALWAYS AS (price * 2) STORED, made text DEFAULT 'today',
                    CONSTRAINT name_and_price CHECK (name <> 'cheap' OR price < 10));
CREATE TABLE docs (doc text);
CREATE TABLE parts (item integer REFERENCES items (id), place text, slot integer CHECK (slot < 10),
                    twice integer GENERATED ALWAYS AS (slot * 2) STORED, PRIMARY KEY (place, slot))
'''
CASES = {
    "sqlite": {"making": "WITH given(id, name) AS (SELECT :id, :name) INSERT INTO items (id, name) SELECT id, name FROM given "
                         "RETURNING id, name",
               "search": "SELECT title FROM texts WHERE texts MATCH :q",
               "json_get": "SELECT json(:q) -> :path AS found", "json_post": "INSERT INTO docs (doc) VALUES (json(:doc))",
               "alone": "UPDATE docs SET doc = json(doc)", "overflow": "abs(:n)"},
    "postgres": {"making": "SELECT id, name FROM make_item(:id, :name)",
                 "search": "SELECT title FROM texts WHERE to_tsvector('simple', title) @@ to_tsquery('simple', :q)",
                 "json_get": "SELECT jsonb_path_query_first(:q::jsonb, :path::jsonpath) AS found",
                 "json_post": "INSERT INTO docs (doc) VALUES ((:doc::text)::json)",
                 "alone": "UPDATE docs SET doc = doc::json", "overflow": "abs(:n::bigint)"},
}
CSV = "Content-Type: text/csv"


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

        for statement in [*SCHEMA.split(";"), "CREATE VIRTUAL TABLE texts USING fts5(title)"]:
            query(statement)
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")
        name = f"answers_{time.monotonic_ns()}"
        postgres.psql(f"CREATE DATABASE {name}")

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql, name).decode().splitlines()]

        query(SCHEMA + "; CREATE TABLE texts (title text); CREATE FUNCTION make_item(id integer, name text) RETURNS items LANGUAGE sql "
              "AS 'INSERT INTO items (id, name) VALUES ($1, $2) RETURNING *'")
        url = postgres.url(name)
    return Films(sluice(CONFIG.format(url=url, **CASES[request.param])), request.param, query)


def answered(answer, status):
    assert answer.status == status, (answer.status, answer.body)
    return json.loads(answer.body)


def test_returns_decides_the_shape(items):
    one = items.call("POST", "/items", {"id": 1, "name": "a", "price": 1})
    assert answered(one, 201) == [{"id": 1, "name": "a"}] and one.get("location") == "/items/1"
    two = items.call("POST", "/items", [{"id": 2, "name": "b"}, {"id": 3, "name": "c"}])
    assert len(answered(two, 201)) == 2 and two.get("location") is None
    assert answered(items.call("PATCH", "/items", {"id": 1, "price": 5}), 200) == [{"id": 1, "price": 5}]
    assert answered(items.call("PATCH", "/items", {"id": 99, "price": 5}), 200) == []
    for most, ids in ((0, []), (1, [101]), (2, [101, 102])):
        items.query("DELETE FROM items WHERE id > 100")
        made = items.call("POST", f"/all?most={most}")
        assert sorted(row["id"] for row in answered(made, 201 if ids else 200)) == ids

    for body, *fields in (({"id": 4, "name": "d"},), ([{"id": 5, "name": "e"}],), ("id,name\n6,f\n", CSV)):
        made = items.call("POST", "/item", body, *fields)
        found = answered(made, 201)
        assert isinstance(found, dict) and made.get("location") == f"/items/{found['id']}"
    items.problem(400, "POST", "/item", [{"id": 7, "name": "g"}, {"id": 8, "name": "h"}])
    items.problem(400, "POST", "/item", [])

    paths = answered(items.call("GET", "/openapi.json"), 200)["paths"]
    def shape(path, method, status):
        return paths[path][method]["responses"][status]["content"]["application/json"]["schema"]
    assert shape("/items", "post", "201")["type"] == "array"
    assert set(shape("/item", "post", "201")) == {"$ref"} and "200" not in paths["/item"]["post"]["responses"]
    def taken(path, method):
        return paths[path][method]["requestBody"]["content"]
    assert set(taken("/item", "post")["application/json"]["schema"]) == {"$ref"}
    assert set(taken("/items", "post")["application/json"]["schema"]) == {"anyOf"}
    assert taken("/parts/{place}", "put")["application/json"]["schema"]["type"] == "array"
    assert "application/x-www-form-urlencoded" not in taken("/parts/{place}", "put")


def test_what_creates_may_be_declared(items):
    made = items.call("POST", "/made", {"id": 1, "name": "a"})
    assert answered(made, 201) == {"id": 1, "name": "a"} and made.get("location") == "/items/1"
    logged = items.call("POST", "/logged", {"id": 2})
    assert answered(logged, 200) == [{"id": 2}] and logged.get("location") is None


def faults(items, status, method, target, body, *fields):
    return [(fault["row"], fault["pointer"], fault.get("constraint"))
            for fault in items.problem(status, method, target, body, *fields)["errors"]]


def test_errors_name_the_field_and_the_constraint(items):
    items.call("POST", "/items", {"id": 1, "name": "a"})
    on_sqlite = items.kind == "sqlite"
    unique = "items.name" if on_sqlite else "items_name_key"
    cases = [({"id": 2, "name": "b", "price": -1}, 422, "price", "p_price_check"),
             ({"id": 2, "name": "a"}, 409, "name", unique),
             ({"id": 1, "name": "b"}, 409, "id", "items.id" if on_sqlite else "items_pkey"),
             ({"id": 2, "name": None}, 422, "name", None),
             ({"id": 2, "name": "cheap", "price": 20}, 422, "", "name_and_price")]
    if not on_sqlite:
        cases.append(({"id": 2, "name": "b", "price": "high"}, 422, "price", None))
    for body, status, field, constraint in cases:
        pointer = f"/{field}" if field else ""
        assert faults(items, status, "POST", "/items", body) == [(0, pointer, constraint)]
        assert faults(items, status, "POST", "/items", [{"id": 9, "name": "z"}, body]) == [(1, "/1" + pointer, constraint)]
        if "cheap" != body["name"]:
            line = ",".join(str(body.get(name) or "") for name in ("id", "name", "price"))
            assert faults(items, status, "POST", "/items", f"id,name,price\n{line}\n", CSV) == [(0, field, constraint)]
    # A method that names a table knows its columns.
    assert faults(items, 422, "PUT", "/items/2", {"name": "b", "price": -1}) == [(0, "/price", "p_price_check")]
    assert faults(items, 422, "PATCH", "/items/1", {"name": "b", "price": -1}) == [(0, "/price", "p_price_check")]
    # Check constraints in a statement and in a set, and a foreign key.
    slot = None if on_sqlite else "parts_slot_check"
    assert faults(items, 422, "POST", "/parts", {"slot": 10, "place": "p"}) == [(0, "/slot", slot)]
    assert faults(items, 422, "PUT", "/parts/p", [{"slot": 1}, {"slot": 10}]) == [(1, "/1/slot", slot)]
    item = ("", None) if on_sqlite else ("/item", "parts_item_fkey")
    assert faults(items, 409, "POST", "/parts", {"slot": 1, "place": "p", "item": 99}) == [(0, *item)]
    assert items.query("SELECT id FROM items") == [("1",)]
    schema = answered(items.call("GET", "/openapi.json"), 200)["components"]["schemas"]["Problem"]
    assert schema["properties"]["errors"]["items"]["properties"]["constraint"] == {"type": "string"}


def test_a_search_that_cannot_be_read(items):
    items.query("INSERT INTO texts VALUES ('one two')")
    assert answered(items.call("GET", "/found?q=two"), 200) == [{"title": "one two"}]
    wrong = ['"', "two AND", "a:b", "("] if items.kind == "sqlite" else ["two one", "two %26", "(", "'", "two%5C"]
    for text in wrong:
        text = text.replace(" ", "+").replace('"', "%22")
        assert items.problem(400, "GET", f"/found?q={text}")["detail"] == "The search expression or path cannot be read."
        mapped = items.problem(422, "GET", f"/found/mapped?q={text}")
        assert (mapped["title"], mapped["detail"]) == ("No search", "Look at the quotes.")


def test_json_that_cannot_be_read_is_the_clients(items):
    assert answered(items.call("GET", "/json?q=%7B%22a%22%3A1%7D&path=$.a"), 200) == [{"found": 1}]
    items.problem(400, "GET", "/json?q=%7Ba&path=$.a")
    items.problem(400, "GET", "/json?q=%7B%22a%22%3A1%7D&path=$.a%5B")
    items.problem(422, "POST", "/json", {"doc": "{a"})
    assert items.query("SELECT count(*) FROM docs") == [("0",)]
    # Bad data in the table is not the client's fault.
    items.query("INSERT INTO docs VALUES ('{a')")
    items.problem(500, "POST", "/alone")
    assert "endpoint /alone: " in items.server.log


def test_a_number_that_overflows_is_the_clients(items):
    least = -2**63
    assert answered(items.call("GET", f"/overflow?n={least + 1}"), 200) == [{"n": -least - 1}]
    assert items.problem(400, "GET", f"/overflow?n={least}")["detail"] == "The database refuses a parameter's value."
    assert items.problem(422, "POST", "/overflow", [{"n": 1}, {"n": least}])["errors"] == [
        {"line": 1, "row": 1, "pointer": "/1", "detail": "is out of the range of the column's type"}]
    assert items.query("SELECT count(*) FROM docs") == [("0",)]


def test_what_is_not_found_is_named(items):
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert items.problem(404, method, "/items/7", body)["detail"] == "No row matches /items/7."
    batch = items.problem(404, "POST", "/batch", [{"method": "DELETE", "path": "/items/8"}])
    assert batch["answer"]["body"]["detail"] == "No row matches /items/8."


def test_what_get_answers_can_be_sent_back(items):
    items.call("POST", "/items", {"id": 1, "name": "a", "price": 2})
    before = items.query("SELECT * FROM items")
    got = answered(items.call("GET", "/items/1"), 200)
    assert got == {"id": 1, "name": "a", "price": 2, "twice": 4, "made": "today"}
    for method in ("PUT", "PATCH"):
        for suffix, *fields in ((".json",), (".csv", CSV), (".ndjson", "Content-Type: application/x-ndjson"),
                                (".csj", "Content-Type: application/csj")):
            body = items.call("GET", "/items/1" + suffix).body.decode()
            assert items.call(method, "/items/1", body, *fields).status == 204, (method, suffix, items.server.log)
        assert items.query("SELECT * FROM items") == before
        assert faults(items, 422, method, "/items/1", {**got, "id": 2}) == [(0, "/id", None)]
        assert items.call(method, "/items/1", {**got, "twice": 99, "made": [1]}).status == 204
        assert items.query("SELECT * FROM items") == before
    assert faults(items, 422, "PUT", "/items/1", {**got, "other": 1}) == [(0, "/other", None)]

    assert items.call("PUT", "/parts/p", [{"slot": 1, "item": 1}, {"slot": 2}]).status == 200
    got = answered(items.call("GET", "/parts/p"), 200)
    assert got[0] == {"place": "p", "slot": 1, "item": 1, "twice": 2}
    assert answered(items.call("PUT", "/parts/p", got), 200)["unchanged"] == 2
    assert faults(items, 422, "PUT", "/parts/p", [got[0], {**got[1], "place": "q"}]) == [(1, "/1/place", None)]
    fields = answered(items.call("GET", "/openapi.json"), 200)["components"]["schemas"]
    assert set(fields["PutItemsByIdBody"]["properties"]) == {"id", "name", "price", "twice", "made"}


CHANGING = '''
[batch]
[database.main]
url = "{url}"
[[endpoint]]
path = "/t"
[endpoint.post]
table = "changing"
columns.name = {{}}
returning = "*"
location = "/t/{{name}}"
[[endpoint]]
path = "/t/{{name}}"
returns = "object"
version = "{version}"
get = "SELECT * FROM changing WHERE name = :name"
patch = "UPDATE changing SET rev = rev + 1 WHERE name = :name RETURNING *"
'''
# (change with as many columns, with more, or in another order with other types; a new row's values besides name and rev)
CHANGES = [("ALTER TABLE changing DROP COLUMN price; ALTER TABLE changing ADD COLUMN note text DEFAULT 'n'", {"note": "n"}),
           ("ALTER TABLE changing ADD COLUMN last int DEFAULT 5", {"note": "n", "last": 5}),
           ("DROP TABLE changing; CREATE TABLE changing (last text DEFAULT '5', price boolean DEFAULT true, rev int DEFAULT 0, name text)",
            {"last": "5", "price": True})]


@pytest.mark.parametrize("version", ["rev", "*"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_writes_return_the_columns_that_the_table_has_now(kind, version, request, sluice, tmp_path):
    """Regression: rows were once returned under the old names, and then refused until a restart."""
    if kind == "sqlite":
        database = sqlite3.connect(tmp_path / "changing.db", isolation_level=None, timeout=10)
        database.execute("PRAGMA journal_mode = WAL")
        alter, url = database.executescript, f"sqlite:{tmp_path}/changing.db"
    else:
        alter, url = request.getfixturevalue("postgres").psql, request.getfixturevalue("postgres").url()
    alter("DROP TABLE IF EXISTS changing; CREATE TABLE changing (price int DEFAULT 1, name text, rev int DEFAULT 0)")
    items = Films(sluice(CHANGING.format(url=url, version=version)), kind, None)
    for name, (change, others) in zip("abcd", [("SELECT 1", {"price": 1}), *CHANGES]):
        alter(change)
        row = {"name": name, "rev": 0, **others}
        created = items.call("POST", "/t", {"name": name})
        assert (created.status, created.get("location")) == (201, f"/t/{name}"), (created.body, items.server.log)
        assert json.loads(created.body) == [row]
        etag = items.call("GET", f"/t/{name}").get("etag")
        changed = items.call("PATCH", f"/t/{name}", {}, f"If-Match: {etag}")
        assert (changed.status, json.loads(changed.body)) == (200, {**row, "rev": 1}), items.server.log
        items.problem(412, "PATCH", f"/t/{name}", {}, f"If-Match: {etag}")
        assert changed.get("etag") == items.call("GET", f"/t/{name}").get("etag") != etag
        for more in "xy":
            answers = json.loads(items.call("POST", "/batch", [
                {"method": "POST", "path": "/t", "body": {"name": name + more}}, {"method": "GET", "path": f"/t/{name}{more}"},
                {"method": "PATCH", "path": f"/t/{name}{more}", "body": {}}]).body)
            made = {**row, "name": name + more}
            assert [one["body"] for one in answers] == [[made], made, {**made, "rev": 1}], items.server.log


def test_conditions_hold_for_a_list_without_rows(items):
    items.call("POST", "/items", {"id": 1, "name": "a"})
    items.query("INSERT INTO parts (place, slot) VALUES ('p', 1)")
    tag = items.call("GET", "/listed/1").get("etag")
    items.problem(412, "PUT", "/listed/1", [], 'If-Match: "other"')
    items.problem(412, "PUT", "/listed/2", [], f"If-Match: {tag}")
    assert items.query("SELECT count(*) FROM parts") == [("1",)]
    assert answered(items.call("PUT", "/listed/1", [], f"If-Match: {tag}"), 200) == []
    assert items.query("SELECT count(*) FROM parts") == [("0",)]


def test_a_row_that_another_transaction_has_inserted_meanwhile(sluice, postgres):
    """Regression: this was once answered 409, but a set can simply be written again."""
    postgres.psql('''DROP TABLE IF EXISTS met; CREATE TABLE met (k text PRIMARY KEY, v text);
        CREATE OR REPLACE FUNCTION met_waits() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$;
        CREATE TRIGGER met_waits BEFORE INSERT ON met FOR EACH ROW EXECUTE FUNCTION met_waits()''')
    server = sluice(f"""
[database.main]
url = "{postgres.url()}"
[[endpoint]]
path = "/met"
[endpoint.put]
table = "met"
existing = "SELECT k FROM met"
columns.k = {{ key = true }}
columns.v = {{}}
[[endpoint]]
path = "/once"
[endpoint.put]
table = "met"
existing = "SELECT k FROM met"
retries = 0
columns.k = {{ key = true }}
columns.v = {{}}
""")
    films = Films(server, "postgres", None)
    for target, status, retry_after in (("/met", 200, None), ("/once", 409, "1")):
        postgres.psql("DELETE FROM met")
        other = subprocess.Popen(["psql", "-XAtq", postgres.url()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        other.stdin.write(b"BEGIN; INSERT INTO met VALUES ('a', 'theirs'); SELECT 'there';\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"there\n"
        answers = []
        ours = threading.Thread(target=lambda: answers.append(films.call("PUT", target, [{"k": "a", "v": "ours"}])))
        ours.start()
        while postgres.psql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != b"1\n":
            pass
        other.communicate(b"COMMIT;\n")
        ours.join()
        assert (answers[0].status, answers[0].get("retry-after")) == (status, retry_after), answers[0].body
    assert postgres.psql("SELECT * FROM met") == b"a|theirs\n"
