"""Attacks on methods that write, on both databases: each input is bound as a value, or refused."""
import json
import re
import sqlite3
import urllib.parse

import pytest

from test_write import Films
from tokens import Secret, soon

KEY = Secret()
CONFIG = '''
[database.main]
url = "{url}"
[policy.auth]
type = "jwt"
secret = "{secret}"
[[endpoint]]
path = "/items"
get = "SELECT id, slug, owner, price FROM items WHERE coalesce(:q, '') = '' OR slug = :q ORDER BY id"
params.q = "text"
[endpoint.post]
returns = "object"
table = "items"
columns.slug = {{ required = true, type = "text" }}
columns.price = {{ type = "real" }}
returning = "id, slug, owner, price"
location = "/items/{{slug}}"
[[endpoint]]
path = "/items/{{slug}}"
returns = "object"
get = "SELECT id, slug, owner, price FROM items WHERE slug = :slug"
[endpoint.patch]
table = "items"
columns.slug = {{ key = true, from = "path.slug", type = "text" }}
columns.price = {{ type = "real" }}
returning = "slug, price"
[endpoint.delete]
table = "items"
columns.slug = {{ key = true, from = "path.slug", type = "text" }}
[[endpoint]]
path = "/numbered/{{id:int}}"
returns = "object"
get = "SELECT id, slug FROM items WHERE id = :id"
[[endpoint]]
path = "/below/{{rest...}}"
get = "SELECT slug FROM items WHERE slug = :rest"
[[endpoint]]
path = "/mine"
query = "any"
use = ["auth"]
get = "SELECT id, slug, owner, price FROM items WHERE owner = :me ORDER BY id"
params.me = {{ from = "claim.sub", type = "text", required = true }}
[endpoint.post]
returns = "object"
table = "items"
columns.owner = {{ from = "claim.sub", type = "text", required = true }}
columns.slug = {{ required = true, type = "text" }}
returning = "id, slug, owner"
[[endpoint]]
path = "/mine/{{slug}}"
query = "any"
use = ["auth"]
returns = "object"
[endpoint.delete]
table = "items"
columns.owner = {{ key = true, from = "claim.sub", type = "text", required = true }}
columns.slug = {{ key = true, from = "path.slug", type = "text" }}
[[endpoint]]
path = "/mine/all"
query = "any"
use = ["auth"]
params.me = {{ from = "claim.sub", type = "text", required = true }}
[endpoint.put]
table = "items"
accepts_object = true
existing = "SELECT slug FROM items WHERE owner = :me"
columns.owner = {{ from = "claim.sub", type = "text", required = true }}
columns.slug = {{ key = true, type = "text" }}
columns.price = {{ type = "real" }}
[[endpoint]]
path = "/team"
use = ["auth"]
[endpoint.post]
table = "items"
columns.slug = {{ from = "claim.team" }}
columns.price = {{}}
[endpoint.put]
table = "items"
existing = "SELECT id FROM items"
columns.id = {{ key = true }}
columns.slug = {{ from = "claim.team" }}
[[endpoint]]
path = "/from"
returns = "object"
post = "INSERT INTO items (slug, owner, price) VALUES (:slug, :agent, :session) RETURNING slug, owner, price"
params.slug = {{ from = "query.slug", type = "text" }}
params.agent = {{ from = "header.x-agent", type = "text" }}
params.session = {{ from = "cookie.session", type = "real" }}
[[endpoint]]
path = "/nested"
returns = "object"
post = "INSERT INTO items (slug, owner) VALUES (:slug, :owner) RETURNING slug, owner"
params.slug = {{ from = "body.item.slug", type = "text", required = true }}
params.owner = {{ from = "body.item.owner.name", type = "text" }}
[[endpoint]]
path = "/count"
returns = "object"
post = "INSERT INTO items (slug, stock) VALUES (:slug, :stock) RETURNING slug, stock"
params.slug = {{ type = "text" }}
params.stock = {{ type = "int" }}
'''
SCHEMA = '''
CREATE TABLE items (id {serial}, slug text UNIQUE NOT NULL, owner text DEFAULT 'nobody', price {real},
                    stock integer, secret text DEFAULT 'hidden');
CREATE TABLE secrets (id integer, text text);
INSERT INTO secrets VALUES (1, 'the secret')
'''
INJECTIONS = [
    "x'; DROP TABLE items; --", "x' OR '1'='1", "' UNION SELECT text FROM secrets --", '"; DELETE FROM items; --',
    "x\\'; DROP TABLE items; --", "$1", ":slug", "?1", "$$; DROP TABLE items; $$", "x') ; DROP TABLE items; --",
    "/* */ ; --", "x'||(SELECT text FROM secrets)||'", "\\x00", "E'\\047'", "%27%20OR%201=1", "{}", "x\\", "\\copy", "\\.",
    "pg_sleep(10)", "randomblob(1000000000)", "-1; ATTACH DATABASE 'x' AS y", "NULL", "DEFAULT", "\ta\r\nb",
]


class Items(Films):
    def bearer(self, **claims):
        return f"Authorization: Bearer {KEY.token(soon(**claims))}"

    def slugs(self):
        return [row["slug"] for row in json.loads(self.call("GET", "/items").body)]

    def raw(self, method, target, data, *fields):
        """As call(), with a body of any bytes."""
        with self.server.connect() as connection:
            head = [f"{method} {target} HTTP/1.1", "Host: test", f"Content-Length: {len(data)}", *fields]
            connection.send("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + data)
            return connection.read()


@pytest.fixture(params=["sqlite", "postgres"])
def items(request, sluice, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "security.db"

        def query(sql):
            database = sqlite3.connect(path, timeout=10, isolation_level=None)
            try:
                return [tuple(map(str, row)) for row in database.execute(sql).fetchall()]
            finally:
                database.close()

        for statement in SCHEMA.format(serial="integer PRIMARY KEY", real="real").split(";"):
            query(statement)
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql, "security").decode().splitlines()]

        postgres.psql("DROP DATABASE IF EXISTS security")
        postgres.psql("CREATE DATABASE security")
        query(SCHEMA.format(serial="serial PRIMARY KEY", real="double precision"))
        url = postgres.url("security")
    made = Items(sluice(CONFIG.format(url=url, secret=KEY.secret)), request.param, query)
    yield made
    # The server still runs, and the table that no statement names is untouched.
    assert made.query("SELECT text FROM secrets") == [("the secret",)]
    assert made.server.process.poll() is None


def has_header(type):
    """Whether the format's header names the columns: then a wrong name is a fault of the whole body (400), not of a row (422)."""
    return type in ("text/csv", "application/csj")


def quoted(text):
    return urllib.parse.quote(text, safe="")


def test_sql_in_values(items):
    for text in INJECTIONS:
        made = items.call("POST", "/items", {"slug": text})
        assert made.status == 201, (text, made.body)
        assert json.loads(made.body)["slug"] == text
    assert sorted(items.slugs()) == sorted(INJECTIONS)
    for text in INJECTIONS:
        found = items.call("GET", f"/items?q={quoted(text)}")
        assert [row["slug"] for row in json.loads(found.body)] == [text]
        if "/" not in text:
            assert json.loads(items.call("GET", f"/items/{quoted(text)}").body)["slug"] == text
            changed = items.call("PATCH", f"/items/{quoted(text)}", {"price": 1})
            assert json.loads(changed.body) == {"slug": text, "price": 1}
    for text in INJECTIONS:
        assert items.call("DELETE", f"/items/{quoted(text)}").status == 204, text
    assert items.slugs() == []


def test_sql_in_every_source(items):
    for text in INJECTIONS:
        if any(c < " " for c in text):
            continue
        made = items.call("POST", f"/from?slug={quoted(text)}", None, f"X-Agent: {text}", "Cookie: session=1.5")
        assert made.status == 201, (text, made.body)
        assert json.loads(made.body) == {"slug": text, "owner": text, "price": 1.5}
        items.problem(400, "POST", "/from?slug=b", None, "X-Agent: a", f"Cookie: session={text.replace(';', '')}")
        below = items.call("GET", f"/below/{quoted(text)}")
        assert [row["slug"] for row in json.loads(below.body)] == [text]
    tokens = [text for text in INJECTIONS if text not in items.slugs()]
    for n, text in enumerate(INJECTIONS):
        made = items.call("POST", "/mine", {"slug": f"own {n}"}, items.bearer(sub=text))
        assert json.loads(made.body)["owner"] == text
        mine = items.call("GET", "/mine", None, items.bearer(sub=text))
        assert f"own {n}" in [row["slug"] for row in json.loads(mine.body)]
    assert len(tokens) == 1  # a header field cannot hold this one


def test_sql_in_bodies_of_every_format(items):
    fields = ["Content-Type: application/x-www-form-urlencoded"]
    form = "&".join([f"slug={quoted('x); DROP TABLE items; --')}", "price=2"])
    assert items.call("POST", "/items", form, *fields).status == 201
    for text in INJECTIONS:
        items.query("DELETE FROM items")
        rows = {
            "text/csv": 'slug,price\n"' + text.replace('"', '""') + '",1\n',
            "application/x-ndjson": json.dumps({"slug": text, "price": 1}) + "\n",
            "application/csj": '"slug","price"\n' + json.dumps(text) + ",1\n",
        }
        for type, body in rows.items():
            items.query("DELETE FROM items")
            made = items.call("POST", "/items", body, f"Content-Type: {type}")
            assert made.status == 201, (type, text, made.body)
            assert items.slugs() == [text]
            # The same in a set: PostgreSQL's COPY has escapes of its own.
            items.query("DELETE FROM items")
            put = items.call("PUT", "/mine/all", body, f"Content-Type: {type}", items.bearer())
            assert (put.status, json.loads(put.body)["inserted"]) == (200, 1), (type, text)
            assert items.slugs() == [text]


def test_names_of_tables_and_columns_are_nobodys_to_send(items):
    for name in ('slug") VALUES (\'x\'); DROP TABLE items; --', "slug\"", "secret", "id", "owner", "stock", "ctid",
                 "rowid", "slug.x", "SLUG", "slug ", "__proto__", "items.slug", "has_c_slug", "c_slug"):
        found = items.problem(422, "POST", "/items", {"slug": "a", name: "x"})
        assert "errors" in found
        encoded = f"slug=a&{quoted(name)}=x"
        items.problem(422, "POST", "/items", encoded, "Content-Type: application/x-www-form-urlencoded")
        header = json.dumps(name)
        assert items.call("POST", "/items", f'"slug",{header}\n"a","x"\n', "Content-Type: application/csj").status == 400
        csv = name.replace('"', '""')
        assert items.call("POST", "/items", f'slug,"{csv}"\na,x\n', "Content-Type: text/csv").status == 400
        items.problem(422, "POST", "/items", json.dumps({"slug": "a", name: 1}), "Content-Type: application/x-ndjson")
        assert items.call("PUT", "/mine/all", [{"slug": "a", name: 1}], items.bearer()).status == 422
    assert items.slugs() == []


def test_what_is_returned_and_how_it_is_sorted_is_the_configurations(items):
    items.call("POST", "/items", {"slug": "b"})
    items.call("POST", "/items", {"slug": "a"})
    for query in ("sort=slug", "order=slug", "order_by=slug;DROP TABLE items", "returning=secret", "select=secret",
                  "columns=secret", "fields=secret", "limit=1", "table=secrets", "q[]=a", "q.a=b", "Q=a"):
        items.problem(400, "GET", "/items?" + quoted(query).replace("%3D", "="))
    for query in ("returning=secret", "returning=*", "select=secret", "columns=secret", "on_conflict=slug"):
        items.problem(400, "POST", f"/items?{query}", {"slug": query})
    made = items.call("POST", "/items", {"slug": "c"}, "Prefer: return=representation, returning=secret")
    assert (made.status, set(json.loads(made.body))) == (201, {"id", "slug", "owner", "price"})
    assert "hidden" not in made.body.decode()
    items.problem(422, "POST", "/items", {"slug": "d", "returning": "secret"})
    assert sorted(items.slugs()) == ["a", "b", "c"]


def test_values_of_other_kinds(items):
    for wrong in (["a"], {"a": 1}, {"$ne": ""}, [], {}, [["a"]]):
        items.problem(422, "POST", "/items", {"slug": wrong})
        items.problem(422, "POST", "/count", {"slug": "a", "stock": wrong})
        items.problem(422, "PATCH", "/items/a", {"price": wrong})
    for wrong in ("1.5", "15e-1", '"1e3"', "true", '"0x10"', '" 1"', '"1 "', '"+1"', '""', "9223372036854775808",
                  "-9223372036854775809", "1" + "0" * 400, '"١"', '"1_000"'):
        items.problem(422, "POST", "/count", '{"slug":"a","stock":' + wrong + "}")
    for wrong in ("NaN", "Infinity", "-Infinity", "nan", "0x10", "01", "+1", ".5", "1.", "1e", "--1", "undefined"):
        # These are not JSON.
        assert items.call("POST", "/items", '{"slug":"a","price":' + wrong + "}").status == 400, wrong
    for wrong in ('"NaN"', '"Infinity"', '"1e999999999"', '"1,5"', "true"):
        items.problem(422, "POST", "/items", '{"slug":"a","price":' + wrong + "}")
    # A body that is not a list of rows, and lists of values that are not rows.
    for body in ('"slug"', "1", "null", "true"):
        assert items.call("POST", "/items", body).status == 400, body
    for body in ("[1]", "[[]]", '["slug"]', "[null]"):
        assert items.call("POST", "/items", body).status == 422, body
    assert items.call("POST", "/items", '[{"slug":"a"},1]').status == 400  # the method takes one row only
    assert items.slugs() == []


def test_nesting_and_size(items):
    for depth in (64, 65, 1000, 100_000):
        for body, status in (("[" * depth + "]" * depth, 422), ('{"slug":' + "[" * depth + "]" * depth + "}", 422),
                             ('{"slug":' * depth + "1" + "}" * depth, 422), ("[" * depth, 400),
                             ('{"a":' * depth, 400)):
            assert items.call("POST", "/items", body).status == status, (depth, body[:20])
    wide = {f"field{n}": n for n in range(5000)}
    items.problem(422, "POST", "/items", {"slug": "a", **wide})
    with items.server.connect() as connection:
        connection.send("POST /items HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                        "Content-Length: 9999999999\r\n\r\n")
        assert connection.read().status == 413
    assert items.slugs() == []


def test_a_name_that_comes_twice(items):
    refused = items.call("POST", "/items", '{"slug":"a","price":1,"slug":"b"}')
    assert refused.status == 422
    for body, type in (('{"slug":"a","\\u0073lug":"b"}', "application/json"),
                       ('{"slug":"a","slug":"b"}\n', "application/x-ndjson"),
                       ("slug=a&slug=b", "application/x-www-form-urlencoded"),
                       ("slug=a&%73lug=b", "application/x-www-form-urlencoded"), ("slug,slug\na,b\n", "text/csv"),
                       ('"slug","slug"\n"a","b"\n', "application/csj")):
        status = 400 if has_header(type) else 422
        assert items.call("POST", "/items", body, f"Content-Type: {type}").status == status, body
    assert items.call("POST", "/nested", '{"item":{"slug":"a"},"item":{"slug":"b"}}').status == 422
    assert items.slugs() == []
    # A repeated query parameter is refused, because a server before us may have read the other value.
    assert items.call("POST", "/from?slug=first&slug=second", None, "X-Agent: one").status == 400
    made = items.call("POST", "/from?slug=first", None, "X-Agent: one")
    assert json.loads(made.body)["slug"] == "first" and json.loads(made.body)["owner"] == "one"
    assert items.call("POST", "/from?slug=third", None, "X-Agent: one", "X-Agent: two").status == 400


def test_content_types(items):
    body = '{"slug":"a"}'
    for type in ("text/plain", "text/json", "application/javascript", "application/xml", "multipart/form-data; boundary=x",
                 "application/json;charset=utf-7", "application/json; charset=utf-16", "application/json; charset=latin1",
                 'application/json; charset="utf-16le"', "application/json, text/csv", "application/json/x", "json", "*/*",
                 "", "application/", "/json", "application/json; charset", "application/octet-stream",
                 "text/csv; header=absent", "application/json;charset=utf-8;charset=utf-7"):
        items.problem(415, "POST", "/items", body, f"Content-Type: {type}")
    assert items.raw("POST", "/items", body.encode()).status == 415
    for coding in ("utf-16", "utf-16-le", "utf-32", "utf-7"):
        encoded = body.encode(coding)
        answer = items.raw("POST", "/items", encoded, "Content-Type: application/json")
        assert (answer.status == 201) == (encoded == body.encode()), coding
        items.query("DELETE FROM items")
    # The body has another format than its Content-Type.
    for type, wrong, status in (("application/json", "slug=a", 400), ("application/json", "slug\na\n", 400),
                                ("text/csv", body, 400), ("application/x-www-form-urlencoded", body, 400),
                                ("application/csj", "slug=a", 400), ("application/x-ndjson", "slug\na\n", 400)):
        assert items.call("POST", "/items", wrong, f"Content-Type: {type}").status == status, type
    # Another server might have read the other type.
    two = items.call("POST", "/items", body, "Content-Type: application/json", "Content-Type: text/csv")
    assert two.status == 415
    assert items.call("POST", "/items", body, "Content-Type: application/json", "Content-Encoding: gzip").status == 415
    assert items.slugs() == []


def test_a_claim_is_the_tokens_alone(items):
    forged = ["claim.sub: ada", "Claim-Sub: ada", "sub: ada", "X-Claim-Sub: ada", "X-Forwarded-User: ada",
              "X-Forwarded-For: ada", "X-User: ada", "Remote-User: ada", "X-Jwt-Claim-Sub: ada", "Cookie: sub=ada"]
    items.query("INSERT INTO items (slug, owner) VALUES ('hers', 'ada')")
    for field in forged:
        items.problem(401, "GET", "/mine", None, field)
        items.problem(401, "POST", "/mine", {"slug": "forged"}, field)
        mine = items.call("GET", "/mine?sub=ada&claim.sub=ada&me=ada&owner=ada", None, items.bearer(sub="eve"), field)
        assert json.loads(mine.body) == []
        items.problem(404, "DELETE", "/mine/hers?owner=ada&sub=ada", None, items.bearer(sub="eve"), field)
    items.problem(422, "POST", "/mine", {"slug": "x", "owner": "ada"}, items.bearer(sub="eve"))
    items.problem(422, "POST", "/mine", {"slug": "x", "sub": "ada"}, items.bearer(sub="eve"))
    items.problem(422, "POST", "/mine", {"slug": "x", "claim.sub": "ada"}, items.bearer(sub="eve"))
    items.problem(422, "POST", "/mine", {"slug": "x", "claim": {"sub": "ada"}}, items.bearer(sub="eve"))
    assert items.call("PUT", "/mine/all", [{"slug": "x", "owner": "ada"}], items.bearer(sub="eve")).status == 422
    assert json.loads(items.call("PUT", "/mine/all?me=ada&owner=ada", "[]", items.bearer(sub="eve")).body)["deleted"] == 0
    assert items.slugs() == ["hers"]
    # With two tokens, the request is refused.
    with items.server.connect() as connection:
        refused = items.call_on(connection, "GET", "/mine", None, items.bearer(sub="eve"), items.bearer(sub="ada"))
        assert refused.status == 400
    # The claim's column must not be NULL, so the claim is needed even if nothing says that it is required.
    for method, body in (("POST", {"price": 1}), ("PUT", [{"id": 1}])):
        assert items.problem(403, method, "/team", body, items.bearer(sub="eve"))["detail"] == 'The token\'s claim "team" is missing.'
    # The claim is null, or not a text.
    for claims in ({"sub": None},):
        items.problem(403, "GET", "/mine", None, items.bearer(**claims))
    for odd in (["ada"], {"a": "ada"}, 7, True):
        answer = items.call("GET", "/mine", None, items.bearer(sub=odd))
        assert answer.status == 403 or json.loads(answer.body) == []
    assert items.call("DELETE", "/mine/hers", None, items.bearer(sub="ada")).status == 204


def test_fields_that_no_column_names(items):
    """Mass assignment of columns that the configuration does not name."""
    for name in ("id", "owner", "stock", "secret"):
        bodies = {
            "application/json": json.dumps({"slug": "a", name: "1"}),
            "application/x-ndjson": json.dumps({"slug": "a", name: "1"}),
            "application/x-www-form-urlencoded": f"slug=a&{name}=1",
            "text/csv": f"slug,{name}\na,1\n",
            "application/csj": f'"slug","{name}"\n"a","1"\n',
        }
        for type, body in bodies.items():
            status = 400 if has_header(type) else 422
            assert items.call("POST", "/items", body, f"Content-Type: {type}").status == status, (name, type)
            assert items.call("PUT", "/mine/all", body, f"Content-Type: {type}", items.bearer()).status == status
    items.call("POST", "/items", {"slug": "a", "price": 1})
    for body in ({"owner": "me"}, {"slug": "b"}, {"price": 2, "stock": 1}, {"price": 2, "PRICE": 3}):
        items.problem(422, "PATCH", "/items/a", body)
    for body in ({"item": {"slug": "x", "secret": "y"}}, {"item": {"slug": "x"}, "secret": "y"},
                 {"item": {"slug": "x", "owner": {"name": "a", "role": "admin"}}}, {"item.slug": "x"},
                 {"item": {"slug": "x", "owner": "a"}}):
        items.problem(422, "POST", "/nested", body)
    assert items.query("SELECT slug, owner, price, stock IS NULL, secret FROM items")[0][:2] == ("a", "nobody")
    assert items.slugs() == ["a"]
    made = items.call("POST", "/nested", {"item": {"slug": "x", "owner": {"name": "me"}}})
    assert json.loads(made.body) == {"slug": "x", "owner": "me"}


BROKEN = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf0\x9f\x98", b"a\x80"]


def test_nul_and_broken_text_in_bodies(items):
    for broken in BROKEN:
        for type, body in (("application/json", b'{"slug":"%s"}'), ("application/x-ndjson", b'{"slug":"%s"}\n'),
                           ("text/csv", b"slug\n%s\n"), ("application/csj", b'"slug"\n"%s"\n'),
                           ("application/x-www-form-urlencoded", b"slug=%s"), ("application/json", b'{"slug":"a","%s":1}'),
                           ("text/csv", b"slug,%s\na,1\n")):
            status = 400 if body.startswith(b"slug,%s") else 422  # in the header line, or in a row
            answer = items.raw("POST", "/items", body % broken, f"Content-Type: {type}")
            assert answer.status == status, (type, broken, answer.body)
            json.loads(answer.body.decode())  # the message is valid text
            answer = items.raw("PUT", "/mine/all", body % broken, f"Content-Type: {type}", items.bearer())
            assert answer.status == status, (type, broken, answer.body)
    for type, body in (("application/json", b'{"slug":"a\\u0000b"}'), ("application/json", b'{"slug":"a\0b"}'),
                       ("application/x-ndjson", b'{"slug":"\\u0000"}'), ("text/csv", b"slug\na\0b\n"),
                       ("application/csj", b'"slug"\n"\\u0000"\n'), ("application/x-www-form-urlencoded", b"slug=a%00b"),
                       ("application/x-www-form-urlencoded", b"slug=a\0b"), ("application/json", b'{"slug":"\\ud800"}'),
                       ("application/x-www-form-urlencoded", b"slug=%ff"), ("application/json", b'{"a\\u0000":1}'),
                       ("application/x-www-form-urlencoded", b"slug=%zz")):
        status = 400 if body in (b"slug=%zz", b'{"slug":"a\0b"}') else 422  # neither a valid form nor valid JSON
        assert items.raw("POST", "/items", body, f"Content-Type: {type}").status == status, body
        assert items.raw("PUT", "/mine/all", body, f"Content-Type: {type}", items.bearer()).status == status, body
    assert items.slugs() == []


def test_nul_and_broken_text_elsewhere(items):
    items.call("POST", "/items", {"slug": "a"})
    for escape in ("%00", "%ff", "%c0%80", "%ed%a0%80", "a%00b", "%f0%9f%98", "%"):
        for target in (f"/items?q={escape}", f"/items/{escape}", f"/below/{escape}", f"/below/x/{escape}"):
            answer = items.call("GET", target)
            assert answer.status == 400, (target, answer.body)
        answer = items.call("GET", f"/items?{escape}=a")
        assert answer.status == 400, (escape, answer.body)
        answer = items.call("POST", f"/from?slug={escape}")
        assert answer.status == 400, (escape, answer.body)
        assert items.call("DELETE", f"/items/{escape}").status == 400, escape
    for broken in BROKEN:
        answer = items.raw("POST", "/from?slug=b", b"", b"X-Agent: %s".decode() % broken.decode("latin-1"))
        assert answer.status == 400, (broken, answer.body)
        answer = items.raw("POST", "/from?slug=b", b"", "Cookie: session=" + broken.decode("latin-1"))
        assert answer.status == 400, (broken, answer.body)
    assert items.raw("POST", "/from?slug=b", b"", "X-Agent: a\0b").status == 400
    # A claim that no column can hold, and a token that is not valid JSON.
    for sub, status in (("a\0b", 403), ("\ud800", 401)):
        answer = items.call("POST", "/mine", {"slug": "b"}, items.bearer(sub=sub))
        assert answer.status == status, (sub, answer.body)
    assert items.slugs() == ["a"]


def test_paths_that_climb(items):
    items.call("POST", "/items", {"slug": "a"})
    items.call("POST", "/items", {"slug": ".."})
    items.call("POST", "/items", {"slug": "../secrets"})
    for target, status in (("/below/../../etc/passwd", 400), ("/items/../../../etc/passwd", 400),
                           ("/items/..%2f..%2fetc%2fpasswd", 404), ("/items/%2e%2e/%2e%2e/%2e%2e/etc/passwd", 400),
                           ("/below/..\\..\\x", 400), ("/items/a/../../secrets", 404), ("/numbered/../items/a/b", 404),
                           ("/items//../../x", 400), ("/below/%00/../../x", 400)):
        answer = items.call("GET", target)
        assert answer.status == status, (target, answer.body)
    # An encoded slash is part of the value, so ".." before it is not a dot segment.
    found = items.call("GET", "/items/..%2Fsecrets")
    assert found.status == 200 and json.loads(found.body)["slug"] == "../secrets"
    assert items.call("GET", "/numbered/1").status == 200
    for target in ("/numbered/1%20OR%201=1", "/numbered/1;", "/numbered/0x1", "/numbered/1.0", "/numbered/+1",
                   "/numbered/99999999999999999999", "/numbered/%31%2F", "/numbered/"):
        assert items.call("GET", target).status == 404, target
    for target in ("/numbered/9999999999999999999", "/numbered/-9223372036854775809", "/numbered/1%00"):
        assert items.call("GET", target).status == 400, target
    # PostgreSQL's column is a 32-bit integer.
    assert items.call("GET", "/numbered/9223372036854775807").status == (400 if items.kind == "postgres" else 404)


def test_an_empty_segment_names_nothing(items):
    items.call("POST", "/items", {"slug": "a"})
    for target in ("//items/a", "/items//a", "/items/a//", "/items//x/../a", "/below//a/b", "/below/a//b", "/numbered//1"):
        for method in ("GET", "DELETE"):
            answer = items.call(method, target)
            assert answer.status == 404, (method, target, answer.body)
    assert items.slugs() == ["a"]
    assert b"(//)" in items.call("GET", "/items//a").body
    assert items.call("GET", "/items/a").status == 200 and items.call("GET", "/below/a/b").status == 200


def test_nul_in_a_path_is_named(items):
    assert b"NUL" in items.call("GET", "/items/a%00b").body
    assert b"percent escape" in items.call("GET", "/items/a%0").body


def test_a_location_is_one_line_and_one_path(items):
    for text in ("a\r\nSet-Cookie: x=y", "a\r\n\r\n<html>", "//evil.example/", "/\\evil.example", "?x=y", "#x", "a b", "\t",
                 "http://evil.example/", "%0d%0aX: y", "\u2028", "é", "...", ";", "a\x7f"):
        made = items.call("POST", "/items", {"slug": text})
        assert made.status == 201
        location = made.get("location")
        assert re.fullmatch(r"/items/[A-Za-z0-9._~%-]+", location), location
        assert urllib.parse.unquote(location) == "/items/" + text
        assert made.get("set-cookie") is None and made.get("x") is None
    # Even escaped, such a path would lead the client elsewhere.
    for text in ("..", ".", "a/../../x"):
        made = items.call("POST", "/items", {"slug": text})
        assert (made.status, made.get("location")) == (201, None)
    assert items.call("POST", "/items", {"slug": ""}).status == 201


def test_answers_tell_nothing_of_the_inside(items):
    items.call("POST", "/items", {"slug": "a"})
    refused = [("POST", "/items", {"slug": "a"}, 409), ("POST", "/items", {"slug": None}, 422),
               ("GET", "/numbered/9999999999999999999", None, 400), ("POST", "/items", "{", 400)]
    if items.kind == "postgres":  # a 32-bit integer
        refused += [("POST", "/count", {"slug": "b", "stock": 99999999999}, 422)]
    for method, target, body, status in refused:
        answer = items.call(method, target, body)
        assert answer.status == status, (method, target, body)
        problem = json.loads(answer.body)
        for error in problem.get("errors", []):  # clients may see only the constraint's name
            assert error.pop("constraint", "items.slug").startswith(("items.slug", "items_slug_key"))
        said = json.dumps(problem).lower()
        for inside in ("items_slug_key", "sqlite", "postgres", "constraint", "insert", "select", "relation", ".cc"):
            assert inside not in said, (inside, said)


def test_a_row_that_breaks_a_rule_is_not_told(sluice, postgres):
    postgres.psql("DROP DATABASE IF EXISTS told")
    postgres.psql("CREATE DATABASE told")
    postgres.psql("""
        CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL, hash text, active boolean CHECK (id < 100));
        INSERT INTO people VALUES (1, 'ada', 'HASH-OF-ADA', true);
        CREATE VIEW active AS SELECT id, name, active FROM people WHERE active WITH CHECK OPTION;
        CREATE FUNCTION hand_on() RETURNS int LANGUAGE plpgsql AS $$
        DECLARE row text;
        BEGIN
          UPDATE people SET id = 100 WHERE id = 1;
        EXCEPTION WHEN check_violation THEN
          GET STACKED DIAGNOSTICS row = PG_EXCEPTION_DETAIL;
          RAISE EXCEPTION 'caught' USING ERRCODE = 'XX000', DETAIL = row;
        END $$""", "told")
    server = sluice(f'''
[database.main]
url = "{postgres.url("told")}"
[errors]
23502 = 500
23514 = 500
[[endpoint]]
path = "/people/{{id:int}}"
patch = "UPDATE active SET active = :active WHERE id = :id"
params.active = "bool"
[endpoint.put]
sql = "UPDATE people SET name = NULL WHERE id = :id"
[endpoint.delete]
sql = "UPDATE people SET id = 100 WHERE id = :id"
[[endpoint]]
path = "/active"
[endpoint.post]
table = "active"
columns.id = {{}}
columns.name = {{}}
columns.active = {{}}
[[endpoint]]
path = "/caught"
post = "SELECT hand_on()"
''')
    films = Films(server, "postgres", None)
    answer = films.call("PATCH", "/people/1", {"active": False})
    assert answer.status == 422
    assert json.loads(answer.body)["detail"] == "A value is outside of what is allowed."
    refused = films.problem(422, "POST", "/active", [{"id": 2, "name": "b", "active": True}, {"id": 3, "name": "c"}])
    assert refused["errors"][0]["row"] == 1 and refused["errors"][0]["detail"] == "is outside of what is allowed"
    for method, path in (("PUT", "/people/1"), ("DELETE", "/people/1"), ("POST", "/caught")):
        assert films.call(method, path).status == 500, (method, path)
    server.stop()
    assert "23502" in server.log and "23514" in server.log and "XX000 caught" in server.log
    assert "HASH" not in server.log
