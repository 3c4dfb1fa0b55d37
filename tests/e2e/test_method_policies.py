"""`use` and `public` of one method: a public GET and a guarded POST on one path, on both databases."""
import json
import sqlite3
import subprocess

import pytest

from conftest import SLUICE, database_with
from test_config import run
from tokens import Secret, soon

SECRET = Secret()
APP = "https://app.example"
POLICIES = f'''
[policy.auth]
type = "jwt"
secret = "{SECRET.secret}"
[policy.maybe]
type = "jwt"
secret = "{SECRET.secret}"
optional = true
realm = "films"
[policy.web]
type = "cors"
origins = ["{APP}"]
[policy.office]
type = "ip"
allow = ["192.0.2.1"]
'''
ENDPOINTS = '''
[openapi]
[batch]
[[endpoint]]
path = "/films"
get = "SELECT id, title FROM films ORDER BY id"
use = ["web"]
params.me = { from = "claim.sub" }
[endpoint.post]
sql = "INSERT INTO films (id, title, owner) VALUES (:id, :title, :me) RETURNING id, owner"
use = ["auth"]
[endpoint.put]
table = "films"
existing = "SELECT id FROM films"
columns.id = { key = true }
columns.title = {}
use = ["auth", "office"]

[[endpoint]]
path = "/guarded"
get = "SELECT id, title FROM films ORDER BY id"
use = ["auth", "web"]
[endpoint.post]
sql = "INSERT INTO films (id, title, owner) VALUES (:id, :title, 'nobody') RETURNING id"
public = true

[[endpoint]]
path = "/asked"
get = "SELECT id, title FROM films ORDER BY id"
use = ["maybe"]
[endpoint.post]
sql = "INSERT INTO films (id, title, owner) VALUES (:id, :title, 'x') RETURNING id"
require = ["or(ne(header.x, 'y'), present(header.z))", "eq(claim.sub, 'ada')"]
[endpoint.delete]
sql = "DELETE FROM films"
require = { that = "eq(claim.sub, 'ada')", status = 403 }
'''
SCHEMA = ["DROP TABLE IF EXISTS films", "CREATE TABLE films (id int NOT NULL PRIMARY KEY, title text, owner text)",
          "INSERT INTO films VALUES (1, 'one', 'ada')"]
TOKEN = f"Authorization: Bearer {SECRET.token(soon())}"
CHALLENGE = 'Bearer realm="sluice"'


class Films:
    def __init__(self, server):
        self.server = server

    def call(self, method, path, *fields, body=None):
        if body is not None:
            fields = (*fields, "Content-Type: application/json")
        with self.server.connect() as connection:
            return connection.call(method, path, None if body is None else json.dumps(body).encode(), *fields)


@pytest.fixture(params=["sqlite", "postgres"])
def films(request, sluice, tmp_path):
    url = database_with(request, tmp_path, SCHEMA)
    return Films(sluice(f'[database.main]\nurl = "{url}"\n' + POLICIES + ENDPOINTS))


def test_a_public_get_and_a_guarded_post_have_one_path(films):
    film = {"id": 2, "title": "two"}
    assert films.call("GET", "/films").status == 200
    assert films.call("HEAD", "/films").status == 200
    refused = films.call("POST", "/films", body=film)
    assert (refused.status, refused.get("www-authenticate")) == (401, CHALLENGE)
    made = films.call("POST", "/films", TOKEN, body=film)
    assert (made.status, json.loads(made.body)) == (201, [{"id": 2, "owner": "ada"}]), films.server.log

    assert films.call("PUT", "/films", body=[film]).status == 401
    assert films.call("PUT", "/films", TOKEN, body=[film]).status == 403  # the address
    assert len(json.loads(films.call("GET", "/films").body)) == 2


def test_a_public_post_is_without_the_policies_of_its_endpoint(films):
    for method in "GET", "HEAD":
        assert films.call(method, "/guarded").status == 401
        assert films.call(method, "/guarded", TOKEN).status == 200
    assert films.call("POST", "/guarded", body={"id": 3, "title": "three"}).status == 201


def test_preflights_need_no_token_and_other_methods_meet_the_policies_of_the_endpoint(films):
    for wanted, allowed in (("POST", APP), ("GET", APP)):
        answer = films.call("OPTIONS", "/films", f"Origin: {APP}", f"Access-Control-Request-Method: {wanted}")
        assert (answer.status, answer.get("access-control-allow-origin")) == (204, allowed), wanted
    # The public POST has no policy that would allow the page.
    answer = films.call("OPTIONS", "/guarded", f"Origin: {APP}", "Access-Control-Request-Method: POST")
    assert (answer.status, answer.get("access-control-allow-origin")) == (204, None)
    assert films.call("OPTIONS", "/films").get("allow") == "GET, HEAD, POST, PUT, OPTIONS"
    refused = films.call("DELETE", "/films", f"Origin: {APP}")
    assert (refused.status, refused.get("access-control-allow-origin")) == (405, APP)
    assert films.call("DELETE", "/guarded").status == 401
    # A refusal has the fields of CORS, so the page sees it.
    refused = films.call("POST", "/films", f"Origin: {APP}", body={"id": 9, "title": "nine"})
    assert (refused.status, refused.get("access-control-allow-origin")) == (401, APP)


def test_a_batch_meets_the_policies_of_each_method(films):
    calls = [{"method": "GET", "path": "/films"},
             {"method": "POST", "path": "/films", "body": {"id": 4, "title": "four"}}]
    refused = films.call("POST", "/batch", body=calls)
    assert (refused.status, refused.get("www-authenticate")) == (401, CHALLENGE)
    assert films.call("POST", "/batch", body=calls[:1]).status == 200
    assert films.call("POST", "/batch", TOKEN, body=calls).status == 200


def test_the_description_has_the_credentials_of_each_method(films):
    paths = json.loads(films.call("GET", "/openapi.json").body)["paths"]
    security = {path: {method: one.get("security") for method, one in paths[path].items()}
                for path in ("/films", "/guarded", "/asked")}
    auth, maybe = [{"auth": []}], [{}, {"maybe": []}]
    assert security == {"/films": {"get": None, "post": auth, "put": auth}, "/guarded": {"get": auth, "post": None},
                        "/asked": {"get": maybe, "post": maybe, "delete": maybe}}
    assert "401" in paths["/films"]["post"]["responses"]
    assert "401" not in paths["/films"]["get"]["responses"]


def test_a_requirement_without_any_claims_asks_for_credentials(films):
    film = {"id": 5, "title": "five"}
    refused = films.call("POST", "/asked", body=film)
    assert (refused.status, refused.get("www-authenticate")) == (401, 'Bearer realm="films"')
    eve = f"Authorization: Bearer {SECRET.token(soon(sub='eve'))}"
    refused = films.call("POST", "/asked", eve, body=film)
    assert (refused.status, refused.get("www-authenticate")) == (403, None)
    # Credentials would not help here, or the configuration says another status.
    assert films.call("POST", "/asked", "X: y", body=film).status == 403
    assert films.call("DELETE", "/asked").status == 403
    assert films.call("POST", "/asked", TOKEN, body=film).status == 201


CHECKED = '[database.main]\nurl = "sqlite:check.db"\n' + POLICIES


def check(tmp_path, text):
    with sqlite3.connect(tmp_path / "check.db") as database:
        database.executescript("CREATE TABLE IF NOT EXISTS films (id INTEGER PRIMARY KEY, title, owner)")
    database.close()
    return run(tmp_path, CHECKED + text)


def test_check_knows_the_policies_of_each_method(tmp_path):
    guarded = '''
[[endpoint]]
path = "/a"
get = "SELECT id FROM films"
{endpoint}
[endpoint.post]
sql = "INSERT INTO films (title) VALUES (:title)"
{post}
[endpoint.delete]
sql = "DELETE FROM films"
{delete}
'''
    both = check(tmp_path, guarded.format(endpoint="", post='use = ["auth"]', delete='use = ["auth"]'))
    assert both.returncode == 0 and "checks the client" not in both.stderr, both.stderr
    one = check(tmp_path, guarded.format(endpoint="", post='use = ["auth"]', delete=""))
    assert one.returncode == 0 and '"/a": DELETE of the endpoint' in one.stderr, one.stderr
    meant = check(tmp_path, guarded.format(endpoint="", post='use = ["auth"]', delete="public = true"))
    assert meant.returncode == 0 and "checks the client" not in meant.stderr, meant.stderr


@pytest.mark.parametrize("endpoint, says", [
    ('get = "SELECT id FROM films"\n[endpoint.post]\nsql = "INSERT INTO films (title) VALUES (:title)"\n'
     'use = ["nobody"]', 'there is no [policy.nobody]'),
    ('get = "SELECT id FROM films"\nuse = ["auth"]\n[endpoint.post]\n'
     'sql = "INSERT INTO films (title) VALUES (:title)"\nuse = ["maybe"]', 'a route uses one policy of type "jwt" at most'),
    ('get = "SELECT id FROM films WHERE owner = :me"\nparams.me = { from = "claim.sub" }\n[endpoint.post]\n'
     'sql = "INSERT INTO films (owner) VALUES (:me)"\nuse = ["auth"]', 'there are no claims'),
    ('get = "SELECT id FROM films"\nuse = ["auth"]\n[endpoint.post]\npublic = true\n'
     'sql = "INSERT INTO films (title) VALUES (:title)"\nrequire = "present(claim.sub)"', 'there are no claims'),
    ('get = "SELECT id FROM films"\nrequire = "present(claim.sub)"\n[endpoint.post]\n'
     'sql = "INSERT INTO films (title) VALUES (:title)"\nuse = ["auth"]', 'there are no claims'),
])
def test_check_refuses_what_a_method_cannot_have(tmp_path, endpoint, says):
    checked = check(tmp_path, f'\n[[endpoint]]\npath = "/a"\n{endpoint}\n')
    assert checked.returncode != 0 and checked.stderr.count(says) == 1, checked.stderr


def test_explain_names_the_policies_of_the_method(tmp_path):
    checked = check(tmp_path, ENDPOINTS)
    assert checked.returncode == 0, checked.stderr

    def policies(*words):
        answer = subprocess.run([SLUICE, "explain", *words, "--json"], cwd=tmp_path, capture_output=True, text=True,
                                timeout=60)
        return [(one["name"], one["verdict"]) for one in json.loads(answer.stdout)["policies"]]
    assert policies("GET", "/films") == [("web", "passes")]
    assert policies("POST", "/films") == [("web", "passes"), ("auth", "refuses")]
    assert policies("POST", "/guarded") == []
    assert policies("HEAD", "/guarded") == [("web", "passes"), ("auth", "refuses")]
    preflight = ["-H", f"Origin: {APP}", "-H", "Access-Control-Request-Method: POST"]
    assert [name for name, _ in policies("OPTIONS", "/films", *preflight)] == ["web", "auth"]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_what_defaults_say_holds_for_every_method_that_is_not_public(sluice, tmp_path, request, database):
    request.param = database
    url = database_with(request, tmp_path, SCHEMA)
    films = Films(sluice(f'[database.main]\nurl = "{url}"\n' + POLICIES + '''
[defaults]
use = ["auth"]
[[endpoint]]
path = "/films"
get = "SELECT id, title FROM films"
delete = { sql = "DELETE FROM films WHERE id = 7", public = true }
post = "INSERT INTO films (id, title) VALUES (:id, :title)"
[[endpoint]]
path = "/open"
public = true
get = "SELECT id, title FROM films"
delete = { sql = "DELETE FROM films WHERE id = 7", use = ["auth"] }
'''))
    statuses = {(method, path): films.call(method, path).status
                for method in ("GET", "POST", "DELETE") for path in ("/films", "/open")}
    assert statuses == {("GET", "/films"): 401, ("POST", "/films"): 401, ("DELETE", "/films"): 204,
                        ("GET", "/open"): 200, ("POST", "/open"): 405, ("DELETE", "/open"): 401}
