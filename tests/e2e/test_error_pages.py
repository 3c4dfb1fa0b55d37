"""Errors as pages: for requests that prefer HTML, as those of browsers do."""
import json
import re
import subprocess

import pytest

from conftest import SLUICE
from test_reload import reload
from upstream import Upstream, response

BROWSER = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


def is_json(answer):
    return answer.get("content-type") == "application/problem+json" and json.loads(answer.body)["status"] == answer.status


def test_who_gets_a_page(sluice, small_sqlite):
    with Upstream(lambda *_: response(b'{"title":"theirs","status":404}', "Content-Type: application/problem+json", status="404 Not Found")) as back:
        server = sluice(f'''
[database.main]
url = "sqlite:{small_sqlite}"
[policy.ids]
type = "headers"
request_id = true
[[endpoint]]
path = "/numbers/{{n:int}}"
returns = "object"
get = "SELECT n, text FROM numbers WHERE n = :n"
params.n = {{ type = "int" }}
use = ["ids"]
[[upstream]]
name = "back"
servers = ["{back.url}"]
[[route]]
path = "/back"
upstream = "back"
''')
        with server.connect() as client:
            for accept in ((), ("Accept: */*",), ("Accept: application/json",), ("Accept: text/html;q=0.5, application/problem+json",),
                           ("Accept: application/json, text/html",)):
                answer = client.get("/nothing", *accept)
                assert answer.status == 404 and is_json(answer), accept
            for accept in (BROWSER, "Accept: text/html", "Accept: application/json;q=0.5, text/html"):
                answer = client.get("/nothing", accept)
                assert (answer.status, answer.get("content-type"), answer.get("vary")) == (404, "text/html; charset=utf-8", "Accept")
                assert b"<h1>404 Not Found</h1>\n<p>No resource has this path.</p>" in answer.body
                assert len(answer.body) == int(answer.get("content-length"))
            head = client.get("/nothing", BROWSER, method="HEAD")
            assert head.body == b"" and head.get("content-type") == "text/html; charset=utf-8"
            answer = client.get("/numbers/100000000", BROWSER)
            assert answer.status == 404 and re.search(rb"<small>[^<]{8,}</small>", answer.body)
            # The detail quotes the request.
            answer = client.get("/numbers/1?%3Cscript%3E=1", BROWSER)
            assert b"<script>" not in answer.body
            assert client.call("DELETE", "/numbers/1", b"", BROWSER).get("allow").startswith("GET")
            assert json.loads(client.get("/back", BROWSER).body)["title"] == "theirs"
        page = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-H", BROWSER, f"http://127.0.0.1:{server.port}/nothing"],
                              capture_output=True, timeout=60).stdout
        assert b"<h1>404 Not Found</h1>" in page


def test_own_pages(sluice, tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "404.html").write_text("<style>p{color:red}</style><p>{status}|{title}|{detail}|{request_id}|{other}|{")
    (pages / "4xx.html").write_text("client: {status}")
    (pages / "notes.txt").write_text("nothing")
    server = sluice('[[route]]\npath = "/a"\nrespond = 200\n', server='error_pages = "pages"')
    with server.connect() as client:
        assert client.get("/b", BROWSER).body == (b"<style>p{color:red}</style><p>404|Not Found|No resource has this path.||{other}|{")
        assert client.call("TRACE", "/a", b"", BROWSER).body == b"client: 405"
        assert is_json(client.get("/b"))
        (pages / "404.html").write_text("new")
        assert reload(server)[0] == 200
        assert client.get("/b", BROWSER).body == b"new"


@pytest.mark.parametrize("folder, says", [("absent", "the error pages cannot be read: No such file or directory"), ("empty", "the folder has no page")])
def test_a_folder_without_pages(tmp_path, folder, says):
    (tmp_path / "empty").mkdir()
    (tmp_path / "sluice.toml").write_text(f'[server]\nlisten = ["127.0.0.1:0"]\nerror_pages = "{folder}"\n[[route]]\npath = "/a"\nrespond = 200\n')
    done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 3 and f"sluice.toml:3:15: error: {says}" in done.stderr, done.stderr
