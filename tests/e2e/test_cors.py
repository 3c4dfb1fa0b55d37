"""[policy.NAME] of type "cors": the fields that let pages of other origins call."""
import json
import sqlite3

import pytest

import http2
from tokens import Secret

SECRET = Secret()
APP = "https://app.example"
ROUTES = f'''
[policy.web]
type = "cors"
origins = ["{APP}", "https://*.app.example"]
credentials = true
[policy.auth]
type = "jwt"
secret = "{SECRET.secret}"
[database.main]
url = "sqlite:main.db"
[[endpoint]]
path = "/things"
get = "SELECT id, name FROM things ORDER BY id"
post = "INSERT INTO things (id, name) VALUES (:id, :name) RETURNING id"
body_limit = "1KiB"
use = ["auth", "web"]
changes = {{ tables = ["things"] }}
[[endpoint]]
path = "/open"
get = "SELECT 1 AS one"
[[resident]]
name = "known"
query = "SELECT id, name FROM things"
key = "id"
use = ["web"]
[[files]]
path = "/site"
root = "site"
use = ["web"]
[batch]
use = ["web"]
[openapi]
use = ["web"]
[compression]
codings = ["gzip"]
'''
PREFLIGHT = [f"Origin: {APP}", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type"]


@pytest.fixture
def server(sluice, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.txt").write_text("text " * 1000)
    with sqlite3.connect(tmp_path / "main.db") as database:
        database.executescript("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
                               "INSERT INTO things VALUES (1, 'one')")
    database.close()
    return sluice(ROUTES)


def told(answer):
    """The CORS fields of an answer, and its Vary."""
    fields = {}
    for name, value in answer.fields.items() if isinstance(answer.fields, dict) else answer.fields:
        if name.lower() == "vary" or name.lower().startswith("access-control-"):
            fields.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(values) for name, values in fields.items()}


def test_pages_of_the_origins_may_call(server):
    allowed = {"vary": "Origin", "access-control-allow-origin": APP, "access-control-allow-credentials": "true"}
    token = f"Authorization: Bearer {SECRET.token()}"

    def ask(path, *fields, method="GET", body=None, origin=APP):
        with server.connect() as client:
            answer = client.call(method, path, body, *([f"Origin: {origin}"] if origin else []), *fields)
        said = told(answer)
        exposed = said.pop("access-control-expose-headers", None)
        assert (exposed is not None) == ("access-control-allow-origin" in said)
        return answer, said

    answer, said = ask("/things", token)
    assert (answer.status, json.loads(answer.body)) == (200, [{"id": 1, "name": "one"}])
    assert said == {**allowed, "vary": "Accept, Origin"}
    for path, status in (("/things", 401), ("/known", 200), ("/known/2", 404), ("/site/a.txt", 200), ("/site/b.txt", 404),
                         ("/openapi.json", 200)):
        answer, said = ask(path)
        assert answer.status == status, path
        assert {**said, "vary": "Origin"} == allowed and "Origin" in said["vary"].split(", "), (path, said)
    # Every kind of answer has the fields: a wrong method, a body that is too long, a batch, a file that the client has.
    answer, said = ask("/things", token, method="DELETE")
    assert answer.status == 405 and said == allowed
    answer, said = ask("/things", token, "Content-Type: application/json", method="POST", body=b'{"id":2,"name":"' + b"x" * 2000 + b'"}')
    assert answer.status == 413 and said == allowed
    answer, said = ask("/batch", token, "Content-Type: application/json", method="POST",
                       body=b'[{"method":"POST","path":"/things","body":{"id":2,"name":"two"}}]')
    assert answer.status == 200 and said == allowed
    assert json.loads(answer.body) == [{"status": 201, "headers": {"row-count": "1"}, "body": [{"id": 2}]}]
    tag = ask("/site/a.txt")[0].get("etag")
    answer, said = ask("/site/a.txt", f"If-None-Match: {tag}")
    assert answer.status == 304 and said["access-control-allow-origin"] == APP
    answer, said = ask("/site/a.txt", "Accept-Encoding: gzip")
    assert answer.get("content-encoding") == "gzip" and sorted(said["vary"].split(", ")) == ["Accept-Encoding", "Origin"]
    # Other origins get the same answers without the fields, so their browsers keep them from the page.
    for other in ("https://evil.example", "null", f"{APP}.evil.example", None):
        answer, said = ask("/site/a.txt", origin=other)
        assert answer.status == 200 and list(said) == ["vary"], (other, said)
        assert sorted(said["vary"].split(", ")) == ["Accept-Encoding", "Origin"], other
    assert ask("/site/a.txt", origin="https://a.b.app.example")[1]["access-control-allow-origin"] == "https://a.b.app.example"
    # Without the policy there are no CORS fields.
    assert ask("/open")[1] == {"vary": "Accept"} and ask("/none")[1] == {}


def test_preflights_are_answered_before_tokens_are_asked_for(server):
    methods = {"/things": "GET, HEAD, POST, OPTIONS", "/things/changes": "GET, HEAD, OPTIONS", "/known": "GET, HEAD, OPTIONS",
               "/site/a.txt": "GET, HEAD, OPTIONS", "/batch": "POST, OPTIONS", "/openapi.json": "GET, HEAD, OPTIONS"}
    asked = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
    for path, allowed in methods.items():
        answer = server.get(path, *PREFLIGHT, method="OPTIONS")
        assert answer.status == 204, path
        assert told(answer) == {
            "vary": asked, "access-control-allow-origin": APP, "access-control-allow-credentials": "true",
            "access-control-allow-methods": allowed, "access-control-allow-headers": "authorization,content-type",
            "access-control-max-age": "600"}, path
        refused = server.get(path, "Origin: https://evil.example", *PREFLIGHT[1:], method="OPTIONS")
        assert (refused.status, told(refused)) == (204, {"vary": asked})
    assert told(server.get("/open", *PREFLIGHT, method="OPTIONS")) == {}
    with http2.Client(server.port) as client:
        answer = client.get("/things", method="OPTIONS", fields=[
            ("origin", APP), ("access-control-request-method", "POST"), ("access-control-request-headers", "authorization")])
        assert answer.status == 204 and told(answer)["access-control-allow-headers"] == "authorization"
        answer = client.get("/things", fields=[("origin", APP)])
        assert answer.status == 401 and told(answer)["access-control-allow-origin"] == APP


def test_a_change_stream_carries_the_fields(server):
    with server.connect() as client:
        client.send(f"GET /things/changes HTTP/1.1\r\nHost: test\r\nOrigin: {APP}\r\n"
                    f"Authorization: Bearer {SECRET.token()}\r\n\r\n")
        head = client._until(b"\r\n\r\n").decode()
    assert head.startswith("HTTP/1.1 200") and f"Access-Control-Allow-Origin: {APP}\r\n" in head
