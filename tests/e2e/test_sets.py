"""PUT and PATCH of sets, and methods that name a table, on both databases."""
import contextlib
import json
import re
import select
import sqlite3
import subprocess
import time

import pytest

from conftest import SLUICE
from test_write import Films, JSON

CONFIG = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/films/{{slug}}/tags"
get = "SELECT tag, weight, note FROM tags WHERE film = :slug ORDER BY tag"
[endpoint.put]
table = "tags"
existing = "SELECT tag FROM tags WHERE film = :slug -- the film's own"
columns.film = {{ key = true, from = "path.slug" }}
columns.tag = {{ key = true, trim = true }}
columns.weight = {{ default = 1 }}
columns.note = {{}}
[endpoint.patch]
table = "tags"
set = true
columns.film = {{ key = true, from = "path.slug" }}
columns.tag = {{ key = true }}
columns.weight = {{}}
columns.note = {{}}
[[endpoint]]
path = "/limited/{{slug}}"
[endpoint.put]
table = "tags"
existing = "SELECT tag FROM tags WHERE film = :slug"
max_deleted = 2
accepts_object = true
columns.film = {{ key = true, from = "path.slug" }}
columns.tag = {{ key = true }}
[[endpoint]]
path = "/share/{{slug}}"
[endpoint.put]
table = "tags"
existing = "SELECT tag FROM tags WHERE film = :slug"
max_deleted = "50%"
columns.film = {{ key = true, from = "path.slug" }}
columns.tag = {{ key = true }}
[[endpoint]]
path = "/readings"
get = "SELECT * FROM readings ORDER BY at, value"
[endpoint.put]
table = "readings"
existing = "SELECT * FROM readings"
columns.at = {{ key = true }}
columns.value = {{ key = true }}
columns.data = {{}}
[[endpoint]]
path = "/items"
get = "SELECT id, name, price, stock FROM items ORDER BY id"
[endpoint.post]
table = "items"
columns.name = {{ required = true, trim = true }}
columns.price = {{ type = "real" }}
columns.stock = {{}}
returning = "id, name, price, stock"
location = "/items/{{id}}"
[[endpoint]]
path = "/items/{{id:int}}"
returns = "object"
get = "SELECT id, name, price, stock FROM items WHERE id = :id"
[endpoint.put]
table = "items"
columns.id = {{ key = true, from = "path.id" }}
columns.name = {{ required = true }}
columns.price = {{}}
columns.stock = {{}}
returning = "id, name, price, stock"
[endpoint.patch]
table = "items"
columns.id = {{ key = true, from = "path.id" }}
columns.name = {{}}
columns.price = {{}}
returning = "id, name, price, stock"
[endpoint.delete]
table = "items"
columns.id = {{ key = true, from = "path.id" }}
[[endpoint]]
path = "/typed"
[endpoint.post]
table = "items"
columns.name = {{ required = true, type = "text" }}
columns.price = {{ type = "real" }}
[[endpoint]]
path = "/one"
returns = "object"
post = "INSERT INTO items (name) VALUES (:name) RETURNING id, name"
[[endpoint]]
path = "/typed/{{id:int}}"
[endpoint.patch]
table = "items"
columns.id = {{ key = true, from = "path.id" }}
columns.price = {{ type = "real" }}
columns.name = {{ type = "text", trim = true }}
returning = "id, name, price"
'''
SCHEMA = '''
CREATE TABLE tags (film text NOT NULL, tag text NOT NULL, weight numeric CHECK (weight < 100), note text,
                   PRIMARY KEY (film, tag));
CREATE TABLE readings (at {timestamp}, value numeric, data {json}, PRIMARY KEY (at, value));
CREATE TABLE items (id {serial}, name text NOT NULL, price numeric, stock integer DEFAULT 7)
'''


@pytest.fixture(params=["sqlite", "postgres"])
def films(request, sluice, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "sets.db"

        def query(sql):
            database = sqlite3.connect(path, timeout=10, isolation_level=None)
            try:
                return database.execute(sql).fetchall()
            finally:
                database.close()

        schema = SCHEMA.format(timestamp="text", json="text", serial="integer PRIMARY KEY")
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql).decode().splitlines()]

        schema = ("DROP TABLE IF EXISTS tags; DROP TABLE IF EXISTS readings; DROP TABLE IF EXISTS items;"
                  + SCHEMA.format(timestamp="timestamptz", json="json", serial="serial PRIMARY KEY"))
        url = postgres.url()
    for statement in schema.split(";"):
        query(statement)
    return Films(sluice(CONFIG.format(url=url), server='body_limit = "64MiB"'), request.param, query)


def reading(server, name):
    return int(re.search(rf"^{name} (\d+)", server.admin("/metrics")[1], re.M).group(1))


def counts(answer):
    assert answer.status == 200, answer.body
    found = json.loads(answer.body)
    return found["inserted"], found["updated"], found["deleted"], found["unchanged"]


def tags(films, slug="alien"):
    return [(row["tag"], row["weight"], row["note"]) for row in json.loads(films.call("GET", f"/films/{slug}/tags").body)]


def test_the_body_becomes_the_set(films):
    films.query("INSERT INTO tags VALUES ('other', 'space', 5, 'stays')")
    assert counts(films.call("PUT", "/films/alien/tags", [{"tag": "space"}, {"tag": " dark ", "weight": 2, "note": "x"}])
                  ) == (2, 0, 0, 0)
    assert tags(films) == [("dark", 2, "x"), ("space", 1, None)]
    body = [{"tag": "dark", "weight": 2.0, "note": "x"}, {"tag": "new", "weight": 3}, {"tag": "space", "weight": 4}]
    assert counts(films.call("PUT", "/films/alien/tags?dry-run", body)) == (1, 1, 0, 1)
    assert len(tags(films)) == 2
    assert counts(films.call("PUT", "/films/alien/tags", body)) == (1, 1, 0, 1)
    assert counts(films.call("PUT", "/films/alien/tags", body)) == (0, 0, 0, 3)
    assert counts(films.call("PUT", "/films/alien/tags", [{"tag": "new", "weight": 3}])) == (0, 0, 2, 1)
    assert counts(films.call("PUT", "/films/alien/tags", "[]")) == (0, 0, 1, 0)
    assert tags(films) == [] and tags(films, "other") == [("space", 5, "stays")]


def fill(films, count=4):
    names = [f"tag {n}" for n in range(count)]
    films.query("DELETE FROM tags")
    assert counts(films.call("PUT", "/films/alien/tags", [{"tag": name} for name in names])) == (count, 0, 0, 0)
    return names


def test_a_set_is_a_list(films):
    names = fill(films)
    form = "Content-Type: application/x-www-form-urlencoded"
    for target in ("/films/alien/tags", "/share/alien", "/films/alien/tags?dry-run", "/films/alien/tags?max-deleted=9"):
        assert "list" in films.problem(400, "PUT", target, {"tag": "tag 1"})["detail"]
        assert "list" in films.problem(400, "PUT", target, "tag=tag+1", form)["detail"]
    assert [tag for tag, _, _ in tags(films)] == names
    assert counts(films.call("PATCH", "/films/alien/tags", {"tag": "tag 1", "weight": 3})) == (0, 1, 0, 0)
    fill(films, 2)
    assert counts(films.call("PUT", "/limited/alien", {"tag": "tag 1"})) == (0, 0, 1, 1)
    assert counts(films.call("PUT", "/limited/alien", "tag=other", form)) == (1, 0, 1, 0)


@pytest.mark.parametrize("target, most", [("/limited/alien", 2), ("/share/alien", 2)])
def test_more_is_deleted_only_where_the_request_says_so(films, target, most):
    names = fill(films)
    kept = [{"tag": "tag 0"}, {"tag": "new"}]
    found = films.problem(409, "PUT", target, kept)
    assert {name: found[name] for name in ("inserted", "updated", "deleted", "unchanged")} == {
        "inserted": 1, "updated": 0, "deleted": 3, "unchanged": 1}
    assert "max-deleted=3" in found["detail"]
    films.problem(409, "PUT", target + "?max-deleted=2", kept)
    films.problem(409, "PUT", target, "[]")
    for wrong in ("max-deleted", "max-deleted=", "max-deleted=-1", "max-deleted=50%25", "max-deleted=4&max-deleted=4"):
        films.problem(400, "PUT", f"{target}?{wrong}", kept)
    assert [tag for tag, _, _ in tags(films)] == names
    assert counts(films.call("PUT", target + "?dry-run", kept)) == (1, 0, 3, 1)
    assert [tag for tag, _, _ in tags(films)] == names
    assert counts(films.call("PUT", target, [{"tag": name} for name in names[:most]])) == (0, 0, 2, 2)
    assert counts(films.call("PUT", target + "?max-deleted=2", "[]")) == (0, 0, 2, 0)
    assert counts(films.call("PUT", target, "[]")) == (0, 0, 0, 0)


@pytest.mark.parametrize("body, content_type", [("tag\n", "Content-Type: text/csv"), ('"tag"\n', "Content-Type: application/csj"),
                                                ("\n", "Content-Type: application/x-ndjson")])
def test_a_header_alone_deletes_nothing_by_itself(films, body, content_type):
    names = fill(films, 2)
    for target in ("/films/alien/tags", "/limited/alien", "/share/alien"):
        assert films.problem(409, "PUT", target, body, content_type)["deleted"] == 2
        assert counts(films.call("PUT", target + "?dry-run", body, content_type)) == (0, 0, 2, 0)
    assert [tag for tag, _, _ in tags(films)] == names
    assert counts(films.call("PUT", "/films/none/tags", body, content_type)) == (0, 0, 0, 0)
    assert counts(films.call("PUT", "/films/alien/tags?max-deleted=2", body, content_type)) == (0, 0, 2, 0)


def test_other_formats(films):
    csv = 'tag,weight,note\na,1.5,\nb,2,"two\nlines"\n'
    assert counts(films.call("PUT", "/films/alien/tags", csv, "Content-Type: text/csv")) == (2, 0, 0, 0)
    assert tags(films) == [("a", 1.5, None), ("b", 2, "two\nlines")]
    csj = '"tag","weight"\n"a",1.50\n"c",null\n'
    assert counts(films.call("PUT", "/films/alien/tags", csj, "Content-Type: application/csj")) == (1, 0, 1, 1)
    lines = '{"tag":"a","weight":1.500}\n{"tag":"c"}\n'
    found = counts(films.call("PUT", "/films/alien/tags", lines, "Content-Type: application/x-ndjson"))
    assert found == (0, 1, 0, 1)  # a missing weight gets its default; null was not the default


def test_patch_deletes_nothing_and_keeps_what_is_not_said(films):
    counts(films.call("PUT", "/films/alien/tags", [{"tag": "a", "weight": 1, "note": "n"}, {"tag": "b"}]))
    found = counts(films.call("PATCH", "/films/alien/tags",
                              [{"tag": "a", "weight": 9}, {"tag": "c", "note": "new"}, {"tag": "b"}]))
    assert found == (1, 1, 0, 1)
    assert tags(films) == [("a", 9, "n"), ("b", 1, None), ("c", None, "new")]
    assert counts(films.call("PATCH", "/films/alien/tags", [{"tag": "a", "note": None}])) == (0, 1, 0, 0)
    assert tags(films)[0] == ("a", 9, None)


def test_keys_are_compared_by_the_database(films):
    at = [("2026-01-02T03:04:05Z", "2026-01-02 04:04:05+01"), ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z")]
    first, second = at[films.kind == "sqlite"]
    assert counts(films.call("PUT", "/readings", [{"at": first, "value": 1.5, "data": {"a": [1]}}])) == (1, 0, 0, 0)
    assert counts(films.call("PUT", "/readings", [{"at": second, "value": "1.50", "data": {"a": [1]}}])) == (0, 0, 0, 1)
    found = films.problem(422, "PUT", "/readings", [{"at": first, "value": 1.5}, {"at": "2027-01-01", "value": 1},
                                                    {"at": second, "value": "1.500"}])
    assert [(each["row"], each["detail"]) for each in found["errors"]] == [(2, "has the same key as row 0")]
    assert len(json.loads(films.call("GET", "/readings").body)) == 1


def test_bad_rows_are_listed_and_nothing_is_written(films):
    before = [{"tag": "a"}, {"tag": "b"}]
    counts(films.call("PUT", "/films/alien/tags", before))
    body = '[{"tag":"c"},\n{"tag":null},\n{"weight":1},{"tag":"d","colour":"red"}]'
    found = films.problem(422, "PUT", "/films/alien/tags", body)
    assert [(each["line"], each["row"], each["pointer"], each["detail"]) for each in found["errors"]][:2] == [
        (2, 1, "/1/tag", "must not be null"), (3, 2, "/2/tag", "is missing")]
    assert len(found["errors"]) == 3
    films.problem(422, "PUT", "/films/alien/tags", [{"tag": "x", "weight": 100}])
    films.problem(400, "PUT", "/films/alien/tags", '[{"tag":"x"}')
    films.problem(400, "PUT", "/films/alien/tags?dry-run=maybe", "[]")
    films.problem(400, "PUT", "/films/alien/tags?dry-run=0&dry-run=1", "[]")
    films.problem(400, "PUT", "/films/alien/tags")
    films.problem(415, "PUT", "/films/alien/tags", "x", "Content-Type: text/plain")
    if films.kind == "postgres":
        found = films.problem(422, "PUT", "/films/alien/tags",
                              "tag,weight\n" + "".join(f"t{n},{n % 90}\n" for n in range(2000)) + "z,high\n",
                              "Content-Type: text/csv")
        assert found["errors"] == [{"line": 2002, "row": 2000, "pointer": "weight",
                                    "detail": "is not of the column's type"}]
    assert [tag for tag, _, _ in tags(films)] == ["a", "b"]
    assert counts(films.call("PUT", "/films/alien/tags", before)) == (0, 0, 0, 2)  # the connection is still usable


def test_many_rows(films):
    rows = [{"tag": f"tag {n}", "weight": n % 100 / 2, "note": "n" * (n % 50)} for n in range(30_000)]
    assert counts(films.call("PUT", "/films/alien/tags", rows)) == (30_000, 0, 0, 0)
    assert counts(films.call("PUT", "/films/alien/tags", rows)) == (0, 0, 0, 30_000)
    rows = rows[:20_000] + [{"tag": f"more {n}"} for n in range(5)]
    rows[7]["note"] = "changed"
    assert counts(films.call("PUT", "/films/alien/tags", rows)) == (5, 1, 10_000, 19_999)
    assert len(tags(films)) == 20_005


def test_a_client_that_leaves_changes_nothing(films):
    counts(films.call("PUT", "/films/alien/tags", [{"tag": "a"}]))
    for sent in (30, 300_000):
        with films.server.connect() as connection:
            connection.send("PUT /films/alien/tags HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
                            "Content-Length: 1000000\r\n\r\n")
            connection.send((b'{"tag":"%06d"}\n' * (sent // 15)) % tuple(range(sent // 15)))
    assert counts(films.call("PUT", "/films/alien/tags", [{"tag": "a"}])) == (0, 0, 0, 1)


def test_rows_of_a_table(films):
    made = films.call("POST", "/items", {"name": " nut ", "price": 0.5})
    assert (made.status, made.get("location")) == (201, "/items/1")
    assert json.loads(made.body) == [{"id": 1, "name": "nut", "price": 0.5, "stock": 7}]
    assert json.loads(films.call("POST", "/items", {"name": "bolt", "stock": None}).body)[0]["stock"] is None
    found = films.problem(422, "POST", "/items", {"price": "cheap"})
    assert found["errors"][0]["pointer"] == "/name"
    films.problem(422, "POST", "/items", {"name": "x", "id": 9})  # mass assignment

    changed = films.call("PATCH", "/items/1", {"price": 0.75})
    assert json.loads(changed.body) == {"id": 1, "name": "nut", "price": 0.75, "stock": 7}
    assert json.loads(films.call("PATCH", "/items/1", {"price": None}).body)["price"] is None
    films.problem(404, "PATCH", "/items/9", {"price": 1})
    films.problem(422, "PATCH", "/items/1", {"stock": 1})

    replaced = films.call("PUT", "/items/1", {"name": "screw"})
    assert (replaced.status, json.loads(replaced.body)) == (200, {"id": 1, "name": "screw", "price": None, "stock": 7})
    created = films.call("PUT", "/items/40", {"name": "washer", "price": 1})
    assert (created.status, json.loads(created.body)["id"]) == (201, 40)
    assert films.call("DELETE", "/items/40").status == 204
    films.problem(404, "DELETE", "/items/40")


def test_fields_that_have_a_type_may_be_missing(films):
    """Regression: the check for a missing field was once made with the field's own type."""
    assert films.call("POST", "/typed", {"name": "nut"}).status == 201
    changed = films.call("PATCH", "/typed/1", {"price": 2.5})
    assert (changed.status, json.loads(changed.body)) == (200, [{"id": 1, "name": "nut", "price": 2.5}])
    assert json.loads(films.call("PATCH", "/typed/1", {"price": None}).body)[0]["price"] is None


def test_a_put_that_collides_with_another_row(films):
    """Regression: the answer once blamed a concurrent write and asked for a retry."""
    films.query("CREATE UNIQUE INDEX items_name ON items (name)")
    films.call("PUT", "/items/1", {"name": "nut"})
    refused = films.call("PUT", "/items/2", {"name": "nut"})
    assert (refused.status, refused.get("retry-after")) == (409, None)
    assert "the same key" in json.loads(refused.body)["detail"]
    assert films.server.log.count("23505") == 0


def test_an_object_is_written_by_itself(films):
    films.problem(400, "POST", "/one", [{"name": "nut"}, {"name": "bolt"}])
    assert json.loads(films.call("GET", "/items").body) == []
    assert json.loads(films.call("POST", "/one", {"name": "screw"}).body)["name"] == "screw"


RULES = '''
CREATE TABLE own (id integer PRIMARY KEY, owner text, note text DEFAULT 'new');
INSERT INTO own VALUES (1, 'ada', 'a'), (2, 'bob', 'b');
CREATE TABLE loose (grp text, k text, v text, UNIQUE (grp, k));
INSERT INTO loose VALUES ('g', NULL, 'n'), ('g', 'a', '1'), ('h', NULL, 'other');
CREATE TABLE items (owner text, k text, list text, PRIMARY KEY (owner, k));
INSERT INTO items VALUES ('ada', '1', 'x'), ('bob', '1', 'y');
CREATE TABLE ruled (id integer PRIMARY KEY, pos integer UNIQUE, n integer CONSTRAINT small CHECK (n < 100));
CREATE TABLE late (id integer PRIMARY KEY, up integer REFERENCES late (id) DEFERRABLE INITIALLY DEFERRED)
'''
RULES_CONFIG = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/items/{{owner}}/{{list}}"
[endpoint.put]
table = "items"
existing = "SELECT owner, k FROM items WHERE list = :list"
columns.owner = {{ from = "path.owner", key = true }}
columns.k = {{ key = true }}
columns.list = {{ from = "path.list" }}
[[endpoint]]
path = "/own/{{owner}}"
[endpoint.put]
table = "own"
existing = "SELECT id FROM own WHERE owner = :owner"
columns.id = {{ key = true }}
columns.owner = {{ from = "path.owner" }}
columns.note = {{}}
[endpoint.patch]
table = "own"
set = true
existing = "SELECT id FROM own WHERE owner = :owner"
columns.id = {{ key = true }}
columns.owner = {{ from = "path.owner" }}
columns.note = {{ default = "made" }}
[[endpoint]]
path = "/loose"
[endpoint.put]
table = "loose"
existing = "SELECT k FROM loose WHERE grp = :grp"
columns.grp = {{ key = true, from = "query.grp" }}
columns.k = {{ key = true }}
columns.v = {{}}
[[endpoint]]
path = "/ruled"
post = "INSERT INTO ruled (id, n) VALUES (:id, :n)"
[endpoint.put]
table = "ruled"
existing = "SELECT id FROM ruled"
columns.id = {{ key = true }}
columns.pos = {{}}
columns.n = {{}}
[[endpoint]]
path = "/added"
errors.23505 = {{ status = 418, title = "Taken" }}
[endpoint.patch]
table = "ruled"
set = true
columns.id = {{ key = true }}
columns.pos = {{}}
columns.n = {{}}
[[endpoint]]
path = "/late"
post = "INSERT INTO late (id, up) VALUES (:id, :up)"
'''


@pytest.fixture(params=["sqlite", "postgres"])
def rules(request, sluice, tmp_path):
    schema, config = RULES, RULES_CONFIG
    if request.param == "sqlite":
        path = tmp_path / "rules.db"
        schema += (";CREATE TABLE plain (k TEXT PRIMARY KEY, v ANY, n INTEGER) STRICT;"
                   "CREATE INDEX plain_folded ON plain (k COLLATE NOCASE)")
        config += SHOWN.replace("shown", "plain").replace("columns.id", "columns.k") + "columns.v = {{}}\ncolumns.n = {{}}\n"

        def query(sql):
            database = sqlite3.connect(path, isolation_level=None)
            try:
                return database.execute(sql).fetchall()
            finally:
                database.close()
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")
        postgres.psql("DROP DATABASE IF EXISTS rules WITH (FORCE)")
        postgres.psql("CREATE DATABASE rules")
        schema += (";CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
                   "CREATE EXTENSION citext; CREATE DOMAIN mail AS citext; CREATE DOMAIN doc AS json;"
                   "CREATE TABLE folding (k text COLLATE folded PRIMARY KEY, n int);"
                   "CREATE TABLE shown (id int PRIMARY KEY, mail mail, list citext[], span interval, real float8, fold text COLLATE "
                   "folded, doc doc, num numeric); CREATE TYPE mood AS ENUM ('sad', 'so so'); CREATE TABLE listed (id int PRIMARY KEY,"
                   "tags text[], moods mood[], boxes box[], docs jsonb[], grid int[])")
        config += SHOWN + "".join(f"columns.{name} = {{{{}}}}\n" for name in "mail list span real fold doc num".split())
        config += LISTED + SHOWN.replace("shown", "folding").replace("columns.id", "columns.k") + "columns.n = {{}}\n"

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql, "rules").decode().splitlines()]
        url = postgres.url("rules")
    for statement in schema.split(";"):
        query(statement)
    return Films(sluice(config.format(url=url), server='body_limit = "64MiB"'), request.param, query)


SHOWN = '''
[[endpoint]]
path = "/shown"
[endpoint.put]
table = "shown"
existing = "SELECT * FROM shown"
columns.id = {{ key = true }}
'''

LISTED = SHOWN.replace("shown", "listed") + "".join(f"columns.{name} = {{{{}}}}\n" for name in "tags moods boxes docs grid".split()) + '''
[[endpoint]]
path = "/listed/all"
get = "SELECT * FROM listed ORDER BY id"
post = "INSERT INTO listed (id, tags, moods) VALUES (:id, :tags, :moods)"
[[endpoint]]
path = "/listed/{{id:int}}"
returns = "object"
get = "SELECT * FROM listed WHERE id = :id"
[endpoint.put]
table = "listed"
columns.id = {{ from = "path.id", key = true }}
columns.tags = {{}}
columns.moods = {{}}
columns.docs = {{}}
'''


def errors(answer, status):
    assert answer.status == status, answer.body
    return [(each["line"], each["row"], each["pointer"], each["detail"]) for each in json.loads(answer.body)["errors"]]


def test_rows_that_existing_does_not_select_are_left_alone(rules):
    theirs = [(1, 1, "/1", "is there already, and no part of what is replaced")]
    body = [{"id": 1, "note": "x"}, {"id": 2, "note": "stolen"}, {"id": 3, "note": "new"}]
    before = rules.query("SELECT * FROM own ORDER BY id")
    for method, target in (("PUT", "/own/ada"), ("PUT", "/own/ada?dry-run"), ("PATCH", "/own/ada")):
        assert errors(rules.call(method, target, body), 409) == theirs
        assert rules.query("SELECT * FROM own ORDER BY id") == before
    assert counts(rules.call("PUT", "/own/ada", [body[0], body[2]])) == (1, 1, 0, 0)
    # Keys are shared, and `existing` returns the key: another owner's row with the same k is still not part of the set.
    assert counts(rules.call("PUT", "/items/bob/x", [])) == (0, 0, 0, 0)
    assert errors(rules.call("PUT", "/items/bob/x", [{"k": "1"}]), 409) == [
        (1, 0, "/0", "is there already, and no part of what is replaced")]
    assert counts(rules.call("PUT", "/items/bob/y", [{"k": "2"}])) == (1, 0, 1, 0)
    assert rules.query("SELECT owner, k, list FROM items ORDER BY 1") == [("ada", "1", "x"), ("bob", "2", "y")]
    # A PATCH keeps columns that it does not name; defaults are only for new rows.
    assert counts(rules.call("PATCH", "/own/ada", [{"id": 1}, {"id": 4}])) == (1, 0, 0, 1)
    assert [row[2] for row in rules.query("SELECT * FROM own ORDER BY id")] == ["x", "b", "new", "made"]


def test_keys_that_are_null(rules):
    rules.problem(400, "PUT", "/loose", [{"k": "a"}])  # the key from the query is missing
    assert counts(rules.call("PUT", "/loose?grp=g", [{"k": "a", "v": "1"}])) == (0, 0, 1, 1)
    assert counts(rules.call("PUT", "/loose?grp=g", [])) == (0, 0, 1, 0)
    assert [row[2] for row in rules.query("SELECT * FROM loose")] == ["other"]


def test_rows_that_break_a_rule_are_listed(rules):
    assert counts(rules.call("PUT", "/ruled", [{"id": 1, "pos": 1, "n": 1}])) == (1, 0, 0, 0)
    body = [{"id": n, "pos": 1 if n == 7 else n, "n": 100 if n in (2000, 3000) else 1} for n in range(1, 4000)]
    unique = "ruled_pos_key" if rules.kind == "postgres" else "pos"
    assert errors(rules.call("PUT", "/ruled", body), 409) == [
        (1, 6, "/6/pos", f"has the same unique value as another row ({unique})"),
        (1, 1999, "/1999/n", "is outside of what is allowed (small)"),
        (1, 2999, "/2999/n", "is outside of what is allowed (small)")]
    assert len(rules.query("SELECT * FROM ruled")) == 1
    csv = "id,n\n" + "".join(f"{n},{n}\n" for n in range(10, 103))
    assert errors(rules.call("PUT", "/ruled?dry-run", csv, "Content-Type: text/csv"), 422) == [
        (n + 2 - 10, n - 10, "n", "is outside of what is allowed (small)") for n in (100, 101, 102)]
    assert errors(rules.call("POST", "/ruled", [{"id": 8, "n": 1}, {"id": 9, "n": 100}]), 422) == [
        (1, 1, "/1/n", "is outside of what is allowed")]
    assert len(rules.query("SELECT * FROM ruled")) == 1
    if rules.kind == "postgres":  # after 131,072 rows the line numbers are no longer kept
        csv = "id,n\nfirst,1\n" + 140_000 * "5,1\n"
        assert errors(rules.call("PUT", "/ruled", csv, "Content-Type: text/csv"), 422) == [
            (2, 0, "id", "is not of the column's type")]
        # PostgreSQL's error says where the document is wrong before it says which row it is in.
        csv = "id,doc\n1,{}\n2,[]\n3,no\n"
        assert errors(rules.call("PUT", "/shown", csv, "Content-Type: text/csv"), 422) == [
            (4, 2, "doc", "is not of the column's type")]


def test_rows_of_all_of_the_table_are_refused_and_listed(rules):
    body = [{"id": n, "n": 100 if n == 1500 else 1} for n in range(2000)]
    for target in ("/added?dry-run", "/added"):
        assert errors(rules.call("PATCH", target, body), 422) == [(1, 1500, "/1500/n", "is outside of what is allowed (small)")]
        assert rules.query("SELECT * FROM ruled") == []
    # An entry of `errors` keeps the list, and each member that it does not set.
    unique = "ruled_pos_key" if rules.kind == "postgres" else "pos"
    refused = rules.call("PATCH", "/added", [{"id": 1, "pos": 1}, {"id": 2, "pos": 1}])
    assert errors(refused, 418) == [(1, 1, "/1/pos", f"has the same unique value as another row ({unique})")]
    assert (json.loads(refused.body)["title"], json.loads(refused.body)["detail"]) == (
        "Taken", "There is a row with the same key already.")
    assert rules.query("SELECT * FROM ruled") == []


def test_what_the_commit_refuses_is_of_no_row(rules):
    assert "errors" not in rules.problem(409, "POST", "/late", [{"id": 1, "up": 9}, {"id": 2, "up": 1}, {"id": 3, "up": 1}])
    assert errors(rules.call("POST", "/late", [{"id": 1, "up": 9}, {"id": 1, "up": 1}]), 409)[0][:3] == (1, 1, "/1/id")
    assert rules.call("POST", "/late", [{"id": 1, "up": 2}, {"id": 2, "up": 1}]).status == 201


def test_a_server_without_prepared_statements_keeps_nothing_of_a_refused_set(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS bare; CREATE TABLE bare (id int PRIMARY KEY, n int CHECK (n >= 0))")
    server = sluice(f'''
[database.main]
url = "{postgres.url()}"
prepared = false
[[endpoint]]
path = "/bare"
[endpoint.patch]
table = "bare"
set = true
columns.id = {{ key = true }}
columns.n = {{}}
''')
    called = Films(server, "postgres", None)
    for target in ("/bare", "/bare?dry-run"):
        refused = called.call("PATCH", target, [{"id": 1, "n": 1}, {"id": 2, "n": -1}, {"id": 3, "n": 3}])
        assert [row for _, row, _, _ in errors(refused, 422)] == [1]
        assert postgres.psql("SELECT count(*) FROM bare") == b"0\n"


def test_a_wrong_row_is_told_before_the_body_has_ended(rules):
    if rules.kind == "sqlite":
        head, row, listed = "PUT /plain", b'{"k":"%d","n":"x"}\n', [(1, 0, "/n"), (2, 1, "/n")]
    else:
        head, row, listed = "PUT /ruled", b'{"id":"x%d"}\n', [(1, 0, "/id")]
    with rules.server.connect() as connection:
        connection.send(f"{head} HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
                        "Content-Length: 60000000\r\n\r\n")
        for begin in range(0, 400_000, 4000):  # much less than announced
            connection.send(b"".join(row % n for n in range(begin, begin + 4000)))
            if select.select([connection.socket], [], [], 0.02)[0]:
                break
        assert [fault[:3] for fault in errors(connection.read(), 422)][:2] == listed


PATIENCE = 60  # seconds that a slow machine may take
SLOW = """
[database.main]
url = "{url}"
pool = 2
[[endpoint]]
path = "/slow/{{list:int}}"
get = "SELECT n FROM slow WHERE list = :list ORDER BY n"
body_limit = "4MiB"
[endpoint.put]
table = "slow"
existing = "SELECT n FROM slow WHERE list = :list"
columns.list = {{ from = "path.list", key = true }}
columns.n = {{ key = true }}
"""


def test_clients_that_send_slowly_keep_no_connection_of_the_database(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS slow; CREATE TABLE slow (list int, n int, PRIMARY KEY (list, n))")
    server = sluice(SLOW.format(url=postgres.url()), server='cores = 1\nbody_timeout = "20s"')
    count = 40_000
    body = b"".join(b'{"n":%06d}\n' % n for n in range(100_000, 100_000 + count))
    half = len(body) // 2
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.connect()) for _ in range(5)]
        for n, connection in enumerate(slow):
            connection.send(f"PUT /slow/{n} HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
                            f"Content-Length: {len(body)}\r\n\r\n")
            connection.send(body[:half])
        end = time.monotonic() + PATIENCE
        while reading(server, "sluice_body_bytes") < len(slow) * half:
            assert time.monotonic() < end
        assert json.loads(server.get("/slow/1").body) == []
        for connection in slow:
            connection.send(body[half:])
            assert counts(connection.read()) == (count, 0, 0, 0)
    assert len(json.loads(server.get("/slow/4").body)) == count


def test_a_long_body_must_come_fast_while_the_database_waits_for_it(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS slow; CREATE TABLE slow (list int, n int, PRIMARY KEY (list, n))")
    server = sluice(SLOW.format(url=postgres.url()), server='cores = 1\nbody_timeout = "1s"\nslowest_client = "1B"')
    row = b'{"n":%07d}\n'
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.connect()) for _ in range(2)]
        for connection in slow:
            connection.send("PUT /slow/1 HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
                            "Content-Length: 4000000\r\n\r\n")
            connection.send(b"".join(row % n for n in range(1_000_000, 1_100_000)))
        left = slow
        for n in range(2_000_000, 2_003_000):  # less than announced
            left = [connection for connection in left if not select.select([connection.socket], [], [], 0.01)[0]]
            if not left:
                break
            for connection in left:
                connection.send(row % n)
        assert not left, "nobody is cut while something comes"
        assert [connection.read().status for connection in slow] == [408, 408]
        assert json.loads(server.get("/slow/1").body) == []


def test_values_that_show_as_others_are_written(rules):
    if rules.kind == "sqlite":  # STRICT, ANY, and an index that folds the key's case
        assert counts(rules.call("PUT", "/plain", [{"k": "A", "v": "007"}, {"k": "a", "v": 7}])) == (2, 0, 0, 0)
        assert rules.query("SELECT k, v, typeof(v) FROM plain ORDER BY k") == [("A", "007", "text"), ("a", 7, "integer")]
        assert errors(rules.call("PUT", "/plain", [{"k": "b", "n": "x"}, {"k": "c", "n": "1"}, {"k": "d", "n": 1.5}]), 422) == [
            (1, row, f"/{row}/n", "must be an integer") for row in (0, 2)]
        return
    row = {"id": 1, "mail": "a@x", "list": "{x}", "span": "1 mon", "real": 0, "fold": "a", "doc": {"a": 1}, "num": 1.5}
    assert counts(rules.call("PUT", "/shown", [row])) == (1, 0, 0, 0)
    assert counts(rules.call("PUT", "/shown", [row])) == (0, 0, 0, 1)
    for name, value in {"mail": "A@X", "list": "{X}", "span": "30 days", "real": "-0", "fold": "A", "doc": {"a": 2}}.items():
        row[name] = value
        assert counts(rules.call("PUT", "/shown", [row])) == (0, 1, 0, 0), name
    assert counts(rules.call("PUT", "/shown", [{**row, "num": "1.50"}])) == (0, 0, 0, 1)


def test_keys_are_compared_by_their_collation(rules):
    if rules.kind == "sqlite":
        return  # "plain" above covers SQLite
    assert counts(rules.call("PUT", "/folding", [{"k": "Abc", "n": 1}])) == (1, 0, 0, 0)
    for rows in ([{"k": "ABC", "n": 2}, {"k": "abc", "n": 3}], [{"k": "new", "n": 2}, {"k": "NEW", "n": 3}]):
        assert [row for _, row, *_ in errors(rules.call("PUT", "/folding", rows), 422)] == [1]
    assert counts(rules.call("PUT", "/folding", [{"k": "ABC", "n": 2}])) == (0, 1, 0, 0)


def test_an_index_by_another_collation_makes_no_key(postgres, tmp_path):
    postgres.psql("DROP DATABASE IF EXISTS folded WITH (FORCE)")
    postgres.psql("CREATE DATABASE folded")
    postgres.psql("CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
                  "CREATE TABLE t (k text COLLATE ci NOT NULL, n int); CREATE UNIQUE INDEX ON t (k COLLATE \"C\")", "folded")
    (tmp_path / "sluice.toml").write_text(f'''
[database.main]
url = "{postgres.url("folded")}"
[[endpoint]]
path = "/t"
[endpoint.put]
table = "t"
existing = "SELECT * FROM t"
columns.k = {{ key = true }}
columns.n = {{}}
''')

    def check():
        return subprocess.run([SLUICE, "check", "sluice.toml"], cwd=tmp_path, text=True, capture_output=True, timeout=60)
    assert "may have several rows with the same key" in check().stderr
    postgres.psql("CREATE UNIQUE INDEX ON t (k)", "folded")
    assert check().returncode == 0, check().stderr


def test_arrays_are_written_as_they_are_read(rules):
    if rules.kind == "sqlite":  # SQLite's arrays are JSON
        return
    rows = [{"id": 1, "tags": ["a", "b c", "", "NULL", '"\\{', None], "moods": ["so so"], "boxes": ["(2,2),(1,1)", "(4,4),(3,3)"],
             "docs": [{"a": [1]}, "text", 1.5, None], "grid": [[1, 2], [3, None]]},
            {"id": 2, "tags": [], "moods": None, "boxes": None, "docs": None, "grid": None}]
    assert counts(rules.call("PUT", "/listed", rows)) == (2, 0, 0, 0)
    read = rules.call("GET", "/listed/all")
    assert json.loads(read.body) == rows
    assert counts(rules.call("PUT", "/listed", json.loads(read.body))) == (0, 0, 0, 2)
    # A single row, and a statement of the configuration. Columns that are not sent stay as they are.
    one = {"tags": ["x y"], "moods": ["sad", None], "docs": [[1, 2]]}
    assert rules.call("PUT", "/listed/3", one).status == 201
    assert json.loads(rules.call("GET", "/listed/3").body) == {"id": 3, **one, "boxes": None, "grid": None}
    assert rules.call("POST", "/listed/all", [{"id": 4, "tags": ["p", "q"], "moods": ["sad"]}, {"id": 5, "tags": "{r}"}]).status == 201
    assert rules.query("SELECT tags, moods FROM listed WHERE id > 3 ORDER BY id") == [("{p,q}", "{sad}"), ("{r}", "")]
    assert errors(rules.call("PUT", "/listed", [{"id": 1, "grid": [[1], [2, 3]]}]), 422) == [
        (1, 0, "/0/grid", "is not of the column's type")]


TREES = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/nodes"
get = "SELECT id, parent, slug, note FROM nodes ORDER BY id"
[endpoint.put]
table = "nodes"
existing = "SELECT id FROM nodes"
columns.id = {{ key = true }}
columns.parent = {{}}
columns.slug = {{}}
[[endpoint]]
path = "/limited"
[endpoint.put]
table = "nodes"
existing = "SELECT id FROM nodes"
max_deleted = 2
columns.id = {{ key = true }}
[[endpoint]]
path = "/names"
[endpoint.put]
table = "nodes"
existing = "SELECT id FROM nodes"
columns.id = {{ key = true }}
columns.slug = {{}}
[[endpoint]]
path = "/pets"
get = "SELECT id, owner FROM pets ORDER BY id"
[endpoint.put]
table = "pets"
existing = "SELECT id FROM pets"
columns.id = {{ key = true }}
columns.name = {{}}
[[endpoint]]
path = "/twins"
get = "SELECT id, note FROM twins ORDER BY id"
[endpoint.put]
table = "twins"
existing = "SELECT id FROM twins"
columns.id = {{ key = true }}
'''
TREES_SCHEMA = '''
CREATE TABLE nodes (id integer PRIMARY KEY, parent integer REFERENCES nodes ON DELETE CASCADE, slug text UNIQUE,
                    note text DEFAULT 'new');
CREATE TABLE leaves (node integer REFERENCES nodes ON DELETE CASCADE);
CREATE TABLE pets (id integer PRIMARY KEY, name text, owner integer {owner});
CREATE TABLE owners (id integer PRIMARY KEY, pet integer REFERENCES pets ON DELETE CASCADE);
CREATE TABLE twins (id integer PRIMARY KEY, twin integer, note text);
INSERT INTO nodes VALUES (1, NULL, 'a', 'kept'), (2, 1, 'b', 'kept'), (3, 2, 'c', 'kept'), (4, NULL, 'd', 'kept');
INSERT INTO leaves VALUES (2), (3);
INSERT INTO pets VALUES (1, 'a', NULL), (2, 'b', {first});
INSERT INTO owners VALUES (1, 1);
INSERT INTO twins VALUES (1, 2, 'kept'), (2, 1, 'kept')
'''
TWINS = {
    "sqlite": ["CREATE TRIGGER twins AFTER DELETE ON twins BEGIN DELETE FROM twins WHERE id = OLD.twin; END"],
    "postgres": ["ALTER TABLE pets ADD FOREIGN KEY (owner) REFERENCES owners ON DELETE CASCADE", "UPDATE pets SET owner = 1 WHERE id = 2",
                 "CREATE OR REPLACE FUNCTION twins() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                 "DELETE FROM twins WHERE id = OLD.twin; RETURN OLD; END $$",
                 "CREATE TRIGGER twins AFTER DELETE ON twins FOR EACH ROW EXECUTE FUNCTION twins()"],
}


@pytest.fixture(params=["sqlite", "postgres"])
def trees(request, sluice, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "trees.db"

        def query(sql):
            database = sqlite3.connect(path, timeout=10, isolation_level=None)
            try:
                return [tuple("" if value is None else str(value) for value in row) for row in database.execute(sql)]
            finally:
                database.close()

        schema = TREES_SCHEMA.format(owner="REFERENCES owners ON DELETE CASCADE", first=1)
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql).decode().splitlines()]

        query("DROP TABLE IF EXISTS nodes, leaves, pets, owners, twins CASCADE")
        schema = TREES_SCHEMA.format(owner="", first="NULL")
        url = postgres.url()
    for statement in schema.split(";") + TWINS[request.param]:
        query(statement)
    return Films(sluice(TREES.format(url=url)), request.param, query)


def nodes(films):
    return films.query("SELECT id, parent, slug, note FROM nodes ORDER BY id"), films.query("SELECT node FROM leaves ORDER BY node")


def test_a_row_that_gets_another_parent_outlives_its_old_one(trees):
    moved = [{"id": 2, "slug": "b"}, {"id": 3, "parent": 2, "slug": "c"}, {"id": 4, "slug": "d"}, {"id": 5, "parent": 2}]
    for target in ("/nodes?dry-run", "/nodes"):
        assert counts(trees.call("PUT", target, moved)) == (1, 1, 1, 2)
    assert nodes(trees) == ([("2", "", "b", "kept"), ("3", "2", "c", "kept"), ("4", "", "d", "kept"), ("5", "2", "", "new")],
                            [("2",), ("3",)])


def test_a_value_of_a_deleted_row_is_free_in_a_tree_too(trees):
    taken_over = [{"id": 1, "slug": "a"}, {"id": 2, "parent": 1, "slug": "b"}, {"id": 4, "slug": "c"}]
    assert counts(trees.call("PUT", "/nodes", taken_over)) == (0, 1, 1, 2)


def test_a_row_that_gets_another_parent_cannot_take_over_a_value_too(trees):
    before = nodes(trees)
    unique = "nodes_slug_key" if trees.kind == "postgres" else "slug"
    # An inserted row could take the value over, so it is not listed.
    for target in ("/nodes?dry-run", "/nodes"):
        assert errors(trees.call("PUT", target, [{"id": 9, "slug": "d"}, {"id": 3}, {"id": 2, "slug": "a"}]), 409) == [
            (1, 2, "/2/slug", f"has the same unique value as another row ({unique})")]
        assert nodes(trees) == before


def test_rows_that_go_with_others_of_those_that_are_deleted_are_counted(trees):
    assert trees.problem(409, "PUT", "/limited", [{"id": 4}])["deleted"] == 3
    assert trees.problem(409, "PUT", "/limited", "[]")["deleted"] == 4
    assert len(nodes(trees)[0]) == 4
    assert counts(trees.call("PUT", "/nodes?dry-run", "[]")) == (0, 0, 4, 0)
    assert counts(trees.call("PUT", "/limited?max-deleted=3", [{"id": 4}])) == (0, 0, 3, 1)
    assert nodes(trees) == ([("4", "", "d", "kept")], [])


def test_no_row_of_the_body_goes_with_a_deleted_one(trees):
    before = nodes(trees), trees.query("SELECT id, owner FROM pets ORDER BY id"), trees.query("SELECT id, note FROM twins ORDER BY id")
    for target, body, table in (("/names", [{"id": 2, "slug": "b"}, {"id": 3, "slug": "x"}, {"id": 4, "slug": "d"}], "nodes"),
                                ("/nodes", [{"id": 2, "parent": 1, "slug": "b"}, {"id": 3, "slug": "c"}], "nodes"),
                                ("/pets", [{"id": 2, "name": "b"}], "pets"), ("/twins", [{"id": 2}, {"id": 3}], "twins")):
        for query in ("", "?dry-run", "?max-deleted=9"):
            detail = trees.problem(409, "PUT", target + query, body)["detail"]
            assert f'"{table}"' in detail and "nothing has been written" in detail
    assert (nodes(trees), trees.query("SELECT id, owner FROM pets ORDER BY id"),
            trees.query("SELECT id, note FROM twins ORDER BY id")) == before
    assert counts(trees.call("PUT", "/twins", [{"id": 1}, {"id": 2}, {"id": 3}])) == (1, 0, 0, 2)
