"""/openapi.json: its description of the endpoints on both databases, a linter's verdict, and requests made from it."""
import copy
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys

import pytest

from conftest import ROOT, SLUICE, database_with
from skips import skip, skip_unfetched
from tokens import Secret, soon

pytestmark = pytest.mark.timeout(240)  # schemathesis and the linters take longer than other tests

CONFIG = '''
[openapi]
title = "Films"
version = "2.1"
description = "Films, and *what* is said of them."
[database.main]
url = "{url}"
[policy.auth]
type = "jwt"
secret = "{secret}"
[policy.perhaps]
type = "jwt"
secret = "{secret}"
optional = true
[[endpoint]]
path = "/films"
changes = {changes}
get = "SELECT id, slug, name, score, adult FROM films WHERE coalesce(:q, '') = '' OR name = :q ORDER BY id LIMIT :limit"
params = {{ q = "text", limit = {{ type = "int", min = 0, max = 1000, default = 20 }} }}
[endpoint.post]
table = "films"
columns.slug = {{ required = true, trim = true, type = "text" }}
columns.name = {{ type = "text" }}
columns.score = {{ type = "real", min = -10, max = 10 }}
columns.adult = {{ type = "bool", default = false }}
columns.kind = {{ values = ["film", "series"] }}
returning = "id, slug, name, score, adult"
location = "/films/{{id}}"
[[endpoint]]
path = "/films/{{id:int}}"
returns = "object"
get = "SELECT id, slug, name, score, adult FROM films WHERE id = :id"
[endpoint.put]
table = "films"
columns.id = {{ key = true, from = "path.id", type = "int" }}
columns.slug = {{ required = true, type = "text" }}
columns.name = {{ type = "text" }}
returning = "id, slug, name, score, adult"
[endpoint.patch]
table = "films"
columns.id = {{ key = true, from = "path.id", type = "int" }}
columns.name = {{ type = "text" }}
columns.score = {{ type = "real" }}
returning = "id, slug, name, score, adult"
[endpoint.delete]
table = "films"
columns.id = {{ key = true, from = "path.id", type = "int" }}
[[endpoint]]
path = "/films/{{id:int}}/tags"
get = "SELECT tag, weight FROM tags WHERE film = :id ORDER BY tag"
[endpoint.put]
table = "tags"
existing = "SELECT film, tag FROM tags WHERE film = :id"
columns.film = {{ key = true, from = "path.id", type = "int" }}
columns.tag = {{ key = true, type = "text" }}
columns.weight = {{ type = "real", default = 1 }}
[endpoint.patch]
table = "tags"
set = true
columns.film = {{ key = true, from = "path.id", type = "int" }}
columns.tag = {{ key = true, type = "text" }}
columns.weight = {{ type = "real" }}
[[endpoint]]
path = "/ratings/{{slug}}"
put = "UPDATE films SET score = :score WHERE slug = :slug"
delete = "UPDATE films SET score = NULL WHERE slug = :slug RETURNING slug, score"
returns = "object"
params.score = {{ from = "body.rating.value", type = "real", required = true }}
[[endpoint]]
path = "/mine"
use = ["auth"]
get = "SELECT slug, score FROM films WHERE name = :me AND score > :least"
params.me = {{ from = "claim.sub", type = "text", required = true }}
params.least = {{ from = "header.x-least", type = "real", default = 0.5 }}
[[endpoint]]
path = "/maybe"
use = ["perhaps"]
get = "SELECT count(*) AS films FROM films WHERE name = :theme"
params.theme = {{ from = "cookie.theme", type = "text", required = true }}
[[resident]]
name = "kept/films"
query = "SELECT id, slug, name, score, adult FROM films ORDER BY id"
key = "id"
index = ["slug", "score", "adult"]
[[resident]]
name = "kept-tags"
use = ["auth"]
query = "SELECT tag, weight FROM tags"
index = ["tag"]
csv = true
[[endpoint]]
path = "/mine/compared"
get = "SELECT slug FROM films WHERE score = :score AND id = :id AND adult = :adult AND slug = :slug"
{more}
'''
ADULT = {"sqlite": "integer", "postgres": "boolean"}  # a STRICT table has no BOOLEAN
KEY = Secret()
SCHEMA = '''
CREATE TABLE films (id {serial}, slug text UNIQUE NOT NULL, name text, score {real},
                    adult {boolean} NOT NULL DEFAULT {false}, kind text){strict};
CREATE TABLE tags (film {bigint} NOT NULL REFERENCES films (id) ON DELETE CASCADE, tag text NOT NULL, weight {real},
                   PRIMARY KEY (film, tag)){strict};
INSERT INTO films (slug, name, score) VALUES ('alien', 'Alien', 8.5), ('am-ende', 'Am Ende', NULL);
INSERT INTO tags VALUES (1, 'space', 1.5)
'''


@pytest.fixture(params=["sqlite", "postgres"])
def films(request, sluice, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "openapi.db"
        with sqlite3.connect(path) as database:
            # STRICT, so that every column has its declared type in SQLite, too.
            database.executescript(SCHEMA.format(serial="integer PRIMARY KEY", real="real", bigint="integer", boolean="integer",
                                                 false="0", strict=" STRICT"))
        database.close()
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")
        postgres.psql("DROP DATABASE IF EXISTS openapi")
        postgres.psql("CREATE DATABASE openapi")
        postgres.psql(SCHEMA.format(serial="bigserial PRIMARY KEY", real="double precision", bigint="bigint", boolean="boolean",
                                    false="false", strict=""), "openapi")
        url = postgres.url("openapi")
    changes = '{ tables = ["films"] }' if request.param == "sqlite" else '{ notify = "films" }'
    server = sluice(CONFIG.format(url=url, secret=KEY.secret, changes=changes, more=""))
    server.kind = request.param
    return server


def document_of(server):
    answer = server.get("/openapi.json")
    assert (answer.status, answer.get("content-type")) == (200, "application/json")
    return json.loads(answer.body)



def operations(document):
    return {(method, path): operation for path, item in document["paths"].items()
            for method, operation in item.items() if method != "parameters"}


def streams(document):
    """The paths whose GET is an endless stream."""
    return [path for (_, path), operation in operations(document).items()
            if "text/event-stream" in operation["responses"].get("200", {}).get("content", {})]


def schema_of(document, schema):
    return document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


def json_of(document, holder):
    return schema_of(document, holder["content"]["application/json"]["schema"])


def test_what_it_says(films):
    document = document_of(films)
    assert document["openapi"] == "3.1.0"
    assert document["info"] == {"title": "Films", "version": "2.1", "description": "Films, and *what* is said of them."}
    assert [tag["name"] for tag in document["tags"]] == ["films", "ratings", "mine", "maybe", "kept",
                                                               "kept-tags"]
    all_of_them = operations(document)
    assert set(all_of_them) == {
        ("get", "/films"), ("post", "/films"), ("get", "/films/{id}"), ("put", "/films/{id}"), ("patch", "/films/{id}"),
        ("delete", "/films/{id}"), ("get", "/films/{id}/tags"), ("put", "/films/{id}/tags"),
        ("patch", "/films/{id}/tags"), ("put", "/ratings/{slug}"), ("delete", "/ratings/{slug}"), ("get", "/mine"),
        ("get", "/mine/compared"), ("get", "/maybe"), ("get", "/films/changes"), ("get", "/kept/films"), ("get", "/kept/films/{key}"),
        ("get", "/kept-tags")}
    ids = [operation["operationId"] for operation in all_of_them.values()]
    assert len(set(ids)) == len(ids) and "getFilmsByIdTags" in ids
    problem = document["components"]["responses"]["422"]["content"]
    assert list(problem) == ["application/problem+json"]


def test_parameters(films):
    document = document_of(films)
    calls = operations(document)
    q, limit = calls["get", "/films"]["parameters"]
    assert (q["in"], q["schema"]) == ("query", {"type": "string"})
    assert limit["schema"] == {"type": "integer", "format": "int64", "minimum": 0, "maximum": 1000, "default": 20}
    assert "required" not in limit
    [by_id] = document["paths"]["/films/{id}"]["parameters"]
    assert (by_id["in"], by_id["required"], by_id["schema"]["type"]) == ("path", True, "integer")
    [least] = calls["get", "/mine"]["parameters"]  # the claim is not a parameter
    assert (least["name"], least["in"], least["schema"]) == ("x-least", "header", {"type": "number", "default": 0.5})
    types = {one["name"]: one["schema"]["type"] for one in calls["get", "/mine/compared"]["parameters"]}
    score = "number" if films.kind == "sqlite" else ["number", "string"]
    assert types == {"score": score, "id": "integer", "adult": ADULT[films.kind], "slug": "string"}
    [theme] = calls["get", "/maybe"]["parameters"]
    assert (theme["name"], theme["in"], theme["required"]) == ("theme", "cookie", True)
    assert calls["get", "/mine"]["security"] == [{"auth": []}]
    assert calls["get", "/maybe"]["security"] == [{}, {"perhaps": []}]
    assert "security" not in calls["get", "/films"]
    assert document["components"]["securitySchemes"]["auth"] == {"type": "http", "scheme": "bearer",
                                                                 "bearerFormat": "JWT"}
    assert "401" in calls["get", "/mine"]["responses"] and "401" not in calls["get", "/films"]["responses"]


def test_rows_and_bodies(films):
    document = document_of(films)
    calls = operations(document)
    rows = json_of(document, calls["get", "/films"]["responses"]["200"])
    row = schema_of(document, rows["items"])
    assert row["required"] == ["id", "slug", "name", "score", "adult"]
    kinds = {name: property["type"] for name, property in row["properties"].items()}
    adult = "integer" if films.kind == "sqlite" else "boolean"
    assert kinds == {"id": "integer", "slug": "string", "name": ["string", "null"],
                     "score": ["number", "string", "null"], "adult": adult}
    assert set(calls["get", "/films"]["responses"]["200"]["content"]) == {"application/json", "text/csv",
                                                                         "application/x-ndjson", "application/csj"}
    body = calls["post", "/films"]["requestBody"]
    assert body["required"] and "application/x-www-form-urlencoded" in body["content"]
    one = schema_of(document, json_of(document, body)["anyOf"][0])
    assert (one["required"], one["additionalProperties"]) == (["slug"], False)
    assert one["properties"]["slug"] == {"type": "string", "pattern": "[^ \\t\\r\\n]"} and one["properties"]["adult"] == {"type": "boolean"}
    assert one["properties"]["score"] == {"type": ["number", "null"], "minimum": -10, "maximum": 10}
    assert one["properties"]["kind"] == {"type": ["string", "null"], "enum": ["film", "series", None]}
    film = schema_of(document, json_of(document, calls["put", "/films/{id}"]["requestBody"]))
    assert film["properties"]["id"] == {"readOnly": True}, "the path says it"
    rating = schema_of(document, json_of(document, calls["put", "/ratings/{slug}"]["requestBody"]))
    assert rating["properties"]["rating"]["required"] == ["value"]
    assert {status for status in calls["post", "/films"]["responses"] if status < "3"} == {"200", "201"}
    assert "Location" in calls["post", "/films"]["responses"]["201"]["headers"]
    assert {status for status in calls["delete", "/films/{id}"]["responses"] if status < "3"} == {"204"}
    assert {status for status in calls["put", "/films/{id}/tags"]["responses"] if status < "3"} == {"200"}
    assert "dry-run" in [one["name"] for one in calls["put", "/films/{id}/tags"]["parameters"]]


def test_resident_tables(films):
    document = document_of(films)
    calls = operations(document)
    kept, by_key, tags = (calls["get", path] for path in ("/kept/films", "/kept/films/{key}", "/kept-tags"))
    taken = {one["name"]: one for one in kept["parameters"]}
    assert list(taken) == ["id", "slug", "score", "adult", "or", "and", "sort", "limit", "offset", "fields", "If-None-Match",
                           "If-Match"]
    ids = re.compile(taken["id"]["schema"]["items"]["pattern"])
    for text in ("7", "-7", "gte.10", "in.(1,2)", "in.()", "is.null", "is.not_null", "eq.9", "neq.9",
                 "not.gt.7", "not.in.(1,2)", "not.is.null"):
        assert ids.search(text), text
        assert films.get(f"/kept/films?id={text}").status == 200, text
    for text in ("x", "gte.", "in.(1,)", "in.(1", "is.nothing", "7 ", "like.7", "not.7", "is.true"):
        assert not ids.search(text), text
        assert films.get(f"/kept/films?id={text.replace(' ', '%20')}").status == 400, text
    assert taken["sort"]["schema"]["items"]["enum"] == ["id", "-id", "slug", "-slug", "score", "-score", "adult", "-adult"]
    assert taken["fields"]["schema"]["items"]["enum"] == ["id", "slug", "name", "score", "adult"]
    assert set(kept["responses"]) >= {"200", "304", "400", "406", "412", "503"} and "404" in by_key["responses"]
    assert set(kept["responses"]["200"]["headers"]) == {"ETag", "Age", "X-Total-Count"}
    [key] = document["paths"]["/kept/films/{key}"]["parameters"]
    assert (key["name"], key["in"], key["schema"]["type"]) == ("key", "path", "integer")
    assert "text/csv" in tags["responses"]["200"]["content"] and "text/csv" not in kept["responses"]["200"]["content"]
    assert (tags["security"], "security" in kept) == ([{"auth": []}], False)
    assert "401" in tags["responses"] and "401" not in kept["responses"]
    assert ("get", "/kept-tags/{key}") not in calls
    row = schema_of(document, json_of(document, by_key["responses"]["200"]))
    assert list(row["properties"]) == ["id", "slug", "name", "score", "adult"] and "required" not in row
    # The document's limit and Accept work.
    found = films.get("/kept/films?limit=1&sort=-id&fields=slug")
    assert (json.loads(found.body), found.get("x-total-count")) == ([{"slug": "am-ende"}], "2")


def test_it_is_served_as_a_file_would_be(films):
    first = films.get("/openapi.json")
    tag = first.get("etag")
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = films.get("/openapi.json", f"If-None-Match: {known}")
        assert (again.status, again.get("etag"), again.body) == (304, tag, b""), known
    assert films.get("/openapi.json", 'If-None-Match: "x"').status == 200
    head = films.get("/openapi.json", method="HEAD")
    assert (head.status, head.get("content-length")) == (200, str(len(first.body)))
    assert films.get("/openapi.json", method="POST").status == 405


def test_it_is_compressed_and_behind_a_policy(sluice, small_sqlite):
    key = Secret()
    server = sluice(f"""
[compression]
codings = ["gzip"]
[openapi]
path = "/docs/api.json"
use = ["auth"]
[policy.auth]
type = "jwt"
secret = "{key.secret}"
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/numbers/{{n:int}}"
get = "SELECT n, text FROM numbers WHERE n = :n"
[[endpoint]]
path = "/numbers/{{text}}"
get = "SELECT n, text FROM numbers WHERE text = :text"
""")
    assert server.get("/openapi.json").status == 404
    assert server.get("/docs/api.json").status == 401
    authorized = f"Authorization: Bearer {key.token()}"
    answer = server.get("/docs/api.json", authorized, "Accept-Encoding: gzip")
    assert (answer.status, answer.get("content-encoding")) == (200, "gzip")
    again = server.get("/docs/api.json", authorized, "Accept-Encoding: gzip", f"If-None-Match: {answer.get('etag')}")
    assert again.status == 304
    document = json.loads(server.get("/docs/api.json", authorized).body)
    # For OpenAPI the two paths are the same.
    assert list(document["paths"]) == ["/numbers/{n}"]
    assert "leaves out /numbers/{text}" in server.log


def test_paths_that_are_taken(tmp_path, small_sqlite):
    text = """[database.main]
url = "sqlite:small.db"
[[endpoint]]
path = "/api.json"
get = "SELECT n FROM numbers"
[openapi]
path = "/api.json"
"""
    for path, says in (("/api.json", 'an [[endpoint]] has the path "/api.json"'),
                       ("/{name}", "no parameters"), ("api", "not a path")):
        (tmp_path / "sluice.toml").write_text(text.replace('path = "/api.json"\n', f'path = "{path}"\n')
                                              if path != "/api.json" else text)
        failed = subprocess.run([SLUICE, "check", "sluice.toml"], cwd=tmp_path, capture_output=True, text=True)
        assert failed.returncode == 3 and says in failed.stderr and "sluice.toml:7:8" in failed.stderr, failed.stderr


@pytest.fixture(scope="session")
def tools(tmp_path_factory):
    """The folder of `st` (schemathesis) and `openapi-spec-validator`, which Debian does not package."""
    if given := os.environ.get("OPENAPI_TOOLS"):
        return given
    folder = tmp_path_factory.mktemp("openapi-tools")
    for step in ([sys.executable, "-m", "venv", folder],
                 [folder / "bin/pip", "install", "-q", "--disable-pip-version-check", "schemathesis>=4,<5",
                  "openapi-spec-validator"]):
        made = subprocess.run(list(map(str, step)), capture_output=True, text=True)
        if made.returncode != 0:
            skip_unfetched("schemathesis", made.stdout + made.stderr)
    return str(folder / "bin")


def test_a_linter_finds_nothing(films, tools, tmp_path):
    (tmp_path / "openapi.json").write_bytes(films.get("/openapi.json").body)
    linted = subprocess.run([f"{tools}/openapi-spec-validator", "openapi.json"], cwd=tmp_path, capture_output=True,
                            text=True)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def run_schemathesis(films, tools, tmp_path, document, *arguments):
    (tmp_path / "schemathesis.toml").write_text(
        '[phases.coverage]\nunexpected-methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]\n')
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    endless = streams(document)
    assert endless == ["/films/changes"]
    run = subprocess.run(
        [f"{tools}/st", "--config-file", "schemathesis.toml", "run", "openapi.json", "--url",
         f"http://127.0.0.1:{films.port}", "--max-time", "20", "--max-examples", "60", "--generation-deterministic",
         "--continue-on-failure", "--no-color", "--phases", "examples,coverage,fuzzing", "--suppress-health-check", "all",
         "-H", f"Authorization: Bearer {KEY.token()}", *(f"--exclude-path={path}" for path in endless), *arguments],
        cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr + films.log
    assert f"Tested: {len(operations(document)) - len(endless)}" in run.stdout, run.stdout
    assert films.process.poll() is None


def test_schemathesis_finds_no_server_error(films, tools, tmp_path):
    # The two excluded checks would report that text in CSV may be wrong, and that "7" is accepted for 7.
    run_schemathesis(films, tools, tmp_path, document_of(films), "--exclude-checks",
                     "positive_data_acceptance,negative_data_rejection")
    assert " 500 " not in films.log


def test_schemathesis_finds_that_what_it_says_is_taken(films, tools, tmp_path):
    document = copy.deepcopy(document_of(films))
    for (_, path), operation in operations(document).items():
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]
            operation["requestBody"]["content"] = {"application/json": content["application/json"]}
    del document["paths"]["/films/{id}/tags"]  # no schema can say that the keys of a set are distinct
    for (_, path), operation in operations(document).items():
        if path.startswith("/kept"):  # nor can it say which version a row has, and how the conditions of a group are written
            operation["parameters"] = [one for one in operation["parameters"] if one["name"] not in ("If-Match", "or", "and")]
    run_schemathesis(films, tools, tmp_path, document, "--mode", "positive", "--generation-allow-x00", "false",
                     "--checks", "positive_data_acceptance,not_a_server_error,response_schema_conformance")


ITEMS = """
[openapi]
title = "Items"
servers = ["https://api.example.com/v1", "/"]
[policy.auth]
type = "jwt"
secret = "{secret}"
[database.main]
url = "{url}"
[[endpoint]]
path = "/items"
formats = ["json"]
summary = "All items"
description = "Cheap ones *first*."
get = "SELECT id, name, price, note FROM items ORDER BY price"
[endpoint.post]
summary = "Adds items"
table = "items"
columns.id = {{}}
columns.name = {{ required = true }}
columns.price = {{ type = "real" }}
returning = "id, name, price, note"
[[endpoint]]
path = "/items/{{id:int}}"
formats = ["json", "csv"]
use = ["auth"]
returns = "object"
get = "SELECT id, name, price FROM items WHERE id = :id"
delete = "DELETE FROM items WHERE id = :id"
[[endpoint]]
path = "/joined"
get = "SELECT a.name, b.name AS other FROM items a LEFT JOIN items b ON b.id = a.id + 1 ORDER BY a.id"
"""


@pytest.fixture(params=["sqlite", "postgres"])
def items(request, sluice, tmp_path):
    real = {"sqlite": "real", "postgres": "double precision"}[request.param]
    url = database_with(request, tmp_path, [
        "DROP VIEW IF EXISTS viewed", "DROP TABLE IF EXISTS items",
        f"CREATE TABLE items (id integer PRIMARY KEY, name text NOT NULL, price {real} NOT NULL, note text)",
        "INSERT INTO items VALUES (1, 'Pen', 2.5, NULL), (2, 'Ink', 1.25, NULL)"])
    return sluice(ITEMS.format(secret=KEY.secret, url=url))


def test_what_the_file_says_of_operations(items):
    document = document_of(items)
    assert document["servers"] == [{"url": "https://api.example.com/v1"}, {"url": "/"}]
    several = document["paths"]["/items"]
    assert (several["get"]["summary"], several["get"]["description"]) == ("All items", "Cheap ones *first*.")
    assert (several["post"]["summary"], several["post"]["description"]) == ("Adds items", "Cheap ones *first*.")
    one = document["paths"]["/items/{id}"]
    assert "summary" not in one["get"]
    for method in ("get", "delete"):
        assert one[method]["security"] == [{"auth": []}]
    assert document["components"]["securitySchemes"]["auth"] == {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    assert "security" not in several["get"]


def test_columns_that_are_never_null(items):
    document = document_of(items)

    def nullable(path, method, status):
        content = document["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
        row = next(one for one in (content.get("items"), content, *content.get("anyOf", ())) if one and "$ref" in one)
        return {name: "null" in schema.get("type", ["null"]) for name, schema in schema_of(document, row)["properties"].items()}

    expected = {"id": False, "name": False, "price": False, "note": True}
    assert nullable("/items", "get", "200") == nullable("/items", "post", "201") == expected
    # The row of the other table may be missing.
    assert nullable("/joined", "get", "200") == {"name": False, "other": True}


TYPED = """
[database.main]
url = "{url}"
[openapi]
[[endpoint]]
path = "/typed/{{id:int}}"
get = "SELECT * FROM typed WHERE id = :id"
[endpoint.put]
table = "typed"
columns.id = {{ key = true, from = "path.id" }}
columns.name = {{}}
columns.score = {{}}
columns.data = {{}}
columns.count = {{}}
[endpoint.patch]
table = "typed"
columns.id = {{ key = true, from = "path.id" }}
columns.data = {{}}
returning = "id, data"
"""


def test_types_of_tables_on_postgres(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS typed; CREATE TABLE typed (id integer PRIMARY KEY, name text NOT NULL, score double precision NOT NULL"
                  " DEFAULT 0, data jsonb NOT NULL, count integer, counts integer[])")
    document = document_of(sluice(TYPED.format(url=postgres.url())))
    one = document["paths"]["/typed/{id}"]
    body = schema_of(document, one["put"]["requestBody"]["content"]["application/json"]["schema"])
    assert body["required"] == ["name", "data"]
    assert body["properties"]["count"]["format"] == "int32"
    row = schema_of(document, json_of(document, one["get"]["responses"]["200"])["items"])
    for properties in (body["properties"], row["properties"]):
        assert properties["score"] == {"type": ["number", "string"], "pattern": "^(NaN|-?Infinity)$"}
    assert row["properties"]["counts"]["items"]["anyOf"][0]["format"] == "int32"
    patched = schema_of(document, json_of(document, one["patch"]["responses"]["200"])["items"])
    assert patched["properties"]["id"]["type"] == "integer"


def test_formats_that_are_offered(items):
    document = document_of(items)
    several, one = document["paths"]["/items"], document["paths"]["/items/{id}"]
    for operation, status in ((several["get"], "200"), (several["post"], "201")):
        assert list(operation["responses"][status]["content"]) == ["application/json"]
    assert list(one["get"]["responses"]["200"]["content"]) == ["application/json", "text/csv"]
    for target, *fields in (("/items.csv",), ("/items.ndjson",), ("/items.csj",), ("/items", "Accept: text/csv"),
                            ("/items", "Accept: application/x-ndjson, text/csv")):
        refused = items.get(target, *fields)
        assert refused.status == 406, target
        assert json.loads(refused.body)["detail"] == "The resource is available as application/json."
    for fields in ((), ("Accept: */*",), ("Accept: text/csv, application/json;q=0.1",), ("Accept: application/*",)):
        answer = items.get("/items", *fields)
        assert (answer.status, answer.get("content-type")) == (200, "application/json"), fields
    with items.connect() as connection:
        refused = connection.call("POST", "/items", b'{"name":"Cap","price":3}', "Content-Type: application/json",
                                  "Accept: text/csv")
        assert refused.status == 406
        assert connection.call("POST", "/items", b'{"id":3,"name":"Cap","price":3}', "Content-Type: application/json").status == 201
    authorized = f"Authorization: Bearer {KEY.token()}"
    assert items.get("/items/1.csv", authorized).body.startswith(b"id,name,price")
    assert items.get("/items/1.ndjson", authorized).status == 406
    assert "application/json, text/csv." in items.get("/items/1", authorized, "Accept: application/csj").body.decode()


NODE_MODULES = ("openapi-typescript@7.4.4", "openapi-fetch@0.13.3", "typescript@5.7.2")
CLIENT = """
import createClient from "openapi-fetch";
import type { paths } from "./api";
const client = createClient<paths>({ baseUrl: "http://127.0.0.1" });
export async function cheapest(): Promise<number | string> {
  const { data, error } = await client.GET("/items");
  if (error) throw error;
  return ITEM;
}
"""


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory):
    """The folder of openapi-typescript and a compiler, fetched once."""
    folder = ROOT / ".cache/openapi-typescript"
    if not shutil.which("npm"):
        skip("node", "openapi-typescript needs Node.js")
    if not (folder / "node_modules/.bin/tsc").exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-save", "--prefix", str(folder), *NODE_MODULES],
                                 capture_output=True, text=True)
        if fetched.returncode != 0:
            skip_unfetched("openapi-typescript", fetched.stdout + fetched.stderr)
    return folder / "node_modules"


def test_a_generated_client_compiles(items, node_modules, tmp_path):
    folder = tmp_path / "client"
    folder.mkdir()
    (folder / "node_modules").symlink_to(node_modules)
    (folder / "openapi.json").write_bytes(items.get("/openapi.json").body)
    made = subprocess.run(["node_modules/.bin/openapi-typescript", "openapi.json", "-o", "api.d.ts"], cwd=folder,
                          capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stdout + made.stderr

    def compiled(item):
        (folder / "client.ts").write_text(CLIENT.replace("ITEM", item))
        return subprocess.run(["node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module",
                               "nodenext", "--moduleResolution", "nodenext", "client.ts"], cwd=folder, capture_output=True, text=True, timeout=60)

    good = compiled("data[0].price")
    assert good.returncode == 0, good.stdout
    assert "Property 'prize' does not exist" in compiled("data[0].prize").stdout


DESCRIBED = '''
[openapi]
[database.main]
url = "{url}"
[defaults]
formats = ["json"]
[[endpoint]]
path = "/films"
get = "SELECT * FROM films ORDER BY id"
[endpoint.post]
table = "films"
columns.id = {{ required = true }}
columns.slug = {{ required = true }}
columns.state = {{ required = true }}
columns.price = {{}}
columns.moods = {{}}
returning = "id, slug, state"
[[endpoint]]
path = "/films/{{id:int}}"
returns = "object"
get = "SELECT slug, state, price, moods FROM films WHERE id = :id"
patch = {{ table = "films", columns.id = {{ key = true, from = "path.id" }}, columns.slug = {{}}, columns.state = {{}} }}
[[endpoint]]
path = "/by-state"
get = "SELECT id FROM films WHERE state = :state"
put = "UPDATE films SET state = :state, price = :price WHERE id = :id"
[[endpoint]]
path = "/joined"
formats = ["json", "csv"]
get = """SELECT f.id, f.slug, p.name, s.name AS studio, f.price FROM films f JOIN people p ON p.id = f.director
         LEFT JOIN studios AS s ON s.id = f.studio"""
[[resident]]
name = "kept"
query = "SELECT id, slug, state, price FROM films"
key = "id"
'''
TYPES = '''
CREATE TYPE film_state AS ENUM ('draft', 'shown', 'it''s "over"');
CREATE TABLE people (id int PRIMARY KEY, name varchar(40) NOT NULL);
CREATE TABLE studios (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE films (id int PRIMARY KEY, slug varchar(20) NOT NULL, code char(3), state film_state NOT NULL,
                    price numeric(8, 2), moods film_state[], director int REFERENCES people (id),
                    studio int REFERENCES studios (id));
INSERT INTO people VALUES (1, 'ada');
INSERT INTO films VALUES (1, 'alien', 'abc', 'shown', 9.50, '{draft}', 1, NULL)
'''


def test_what_the_types_of_postgres_say(sluice, postgres):
    postgres.psql("DROP DATABASE IF EXISTS typed")
    postgres.psql("CREATE DATABASE typed")
    postgres.psql(TYPES, "typed")
    server = sluice(DESCRIBED.format(url=postgres.url("typed")))
    document = document_of(server)
    calls = operations(document)
    labels = ["draft", "shown", 'it\'s "over"']
    state = {"type": "string", "enum": labels}
    moods = {"type": ["array", "null"], "items": {"anyOf": [{"type": ["string", "null"], "enum": [*labels, None]},
                                                            {"type": "array"}]}}

    def row(method, path, status="200"):
        answer = json_of(document, calls[method, path]["responses"][status])
        return schema_of(document, answer.get("items", answer))["properties"]
    films = row("get", "/films")
    assert films["slug"] == {"type": "string", "maxLength": 20}
    assert films["code"] == {"type": ["string", "null"], "maxLength": 3}
    assert (films["state"], films["price"], films["moods"]) == (state, {"type": ["number", "null"]}, moods)
    assert row("post", "/films", "201")["state"] == state
    assert row("get", "/films/{id}")["moods"] == moods
    assert row("get", "/kept")["state"] == state and row("get", "/kept")["price"] == {"type": ["number", "null"]}

    def body(method, path):
        schema = json_of(document, calls[method, path]["requestBody"])
        return schema_of(document, schema["anyOf"][0] if "anyOf" in schema else schema)["properties"]
    for made in body("post", "/films"), body("patch", "/films/{id}"):
        assert (made["state"], made["slug"]) == (state, {"type": "string", "maxLength": 20})
    assert body("post", "/films")["price"] == {"type": ["number", "null"]}
    assert body("put", "/by-state")["state"] == {"type": ["string", "null"], "enum": [*labels, None]}
    assert [one["schema"] for one in calls["get", "/by-state"]["parameters"]] == [state]
    # The answers are as described.
    got = json.loads(server.get("/films").body)
    assert got == [{"id": 1, "slug": "alien", "code": "abc", "state": "shown", "price": 9.5, "moods": ["draft"],
                    "director": 1, "studio": None}]


JOINED = {"sqlite": '''CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE studios (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE films (id INTEGER PRIMARY KEY, slug TEXT NOT NULL, state TEXT, price REAL, moods TEXT, director INT, studio INT)''',
          "postgres": TYPES}


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_joins_and_formats(sluice, request, tmp_path, database):
    if database == "sqlite":
        url = f"sqlite:{tmp_path}/joined.db"
        with sqlite3.connect(tmp_path / "joined.db") as made:
            made.executescript(JOINED[database])
        made.close()
    else:
        postgres = request.getfixturevalue("postgres")
        postgres.psql("DROP DATABASE IF EXISTS joined")
        postgres.psql("CREATE DATABASE joined")
        postgres.psql(JOINED[database], "joined")
        url = postgres.url("joined")
    server = sluice(DESCRIBED.format(url=url))
    document = document_of(server)
    calls = operations(document)
    content = calls["get", "/joined"]["responses"]["200"]["content"]
    row = schema_of(document, schema_of(document, content["application/json"]["schema"])["items"])["properties"]
    nullable = {name: "null" in schema["type"] for name, schema in row.items()}
    # A left join finds no studio for some films.
    assert nullable == {"id": False, "slug": False, "name": False, "studio": True, "price": True}
    assert list(content) == ["application/json", "text/csv"], "the endpoint's own formats"
    for path in "/films", "/films/{id}", "/by-state":
        assert list(calls["get", path]["responses"]["200"]["content"]) == ["application/json"], path
    assert list(calls["post", "/films"]["responses"]["201"]["content"]) == ["application/json"]
    assert server.get("/films", "Accept: text/csv").status == 406
    assert server.get("/joined", "Accept: text/csv").status == 200
