"""POST /explain on the admin listener: it answers as `sluice explain` prints, for the configuration that is served."""
import json
import subprocess

import pytest

import http1
from conftest import SLUICE
from test_explain import CONFIG, KEY, config, folder, token, upstream, verdicts  # noqa: F401
from test_gateway import wait_until

OPEN = '[[route]]\npath = "/"\nrespond = 204\n'


def post(server, path, body="", *fields):
    with http1.Connection(server.admin_port) as admin:
        body = body if isinstance(body, str) else json.dumps(body)
        admin.send("\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body.encode())}", *fields,
                                "", body]))
        return admin.read()


def explain(server, method, url, *headers, **more):
    answer = post(server, "/explain", {"method": method, "url": url, "headers": headers, **more})
    assert answer.status == 200 and answer.get("content-type") == "application/json", answer.body
    assert KEY.encode() not in answer.body and b"secret" not in answer.body
    return json.loads(answer.body)


def test_the_answer_is_that_of_the_command(sluice, config, upstream, token):
    server = sluice(config)
    requests = [
        ("GET", "/api/films?token=secret", ["X-API-Key: " + KEY, "Cookie: a=secret"], "10.1.2.3"),
        ("GET", "/api/films", ["X-API-Key: secret-of-another"], "10.1.2.3"),
        ("GET", "/api/films", ["X-API-Key: " + KEY], ""),
        ("GET", "/orders/7", [token, "X-Wanted: yes"], ""),
        ("GET", "/orders/7", [], ""),
        ("DELETE", "/orders/7", [token], ""),
        ("GET", "http://old.example/a?b=1", [], ""),
        ("GET", "/nowhere", [], ""),
        ("PUT", "/orders", [], ""),
    ]
    answered = []
    for method, url, headers, client in requests:
        words = [word for header in headers for word in ("-H", header)] + (["--client", client] if client else [])
        command = subprocess.run([SLUICE, "explain", "--json", "--config", str(server.file), method, url, *words],
                                 capture_output=True, text=True, timeout=60)
        more = {"client": client} if client else {}
        found = explain(server, method, url, *headers, **more)
        assert found == json.loads(command.stdout), (method, url)
        answered.append(found["answered"])
    assert answered == [True, False, True, True, False, True, True, False, False]
    assert upstream.connections == 0


def test_a_route_with_policies_and_an_endpoint(sluice, config, token):
    server = sluice(config)
    route = explain(server, "GET", "/api/films", "X-API-Key: " + KEY, client="10.1.2.3")
    assert verdicts(route) == [("pages", "passes"), ("partners", "passes"), ("small", "passes"), ("office", "passes")]
    assert route["destination"]["target"] == "/films"
    for _ in range(3):  # a rate of one request a minute: these do not count
        endpoint = explain(server, "GET", "/orders/7", token)
        assert endpoint["destination"]["plan"] == ["SEARCH orders USING INTEGER PRIMARY KEY (rowid=?)"]
        assert endpoint["destination"]["parameters"] == {"wanted": None, "id": "7"}
    assert explain(server, "DELETE", "/orders/7", token)["answered"]
    assert server.get("/orders/7", token).status == 200, "it has not been deleted"
    assert explain(server, "GET", "/nowhere")["answer"]["status"] == 404
    status, metrics = server.admin("/metrics")
    assert status == 200
    for counter, value in (('sluice_jwt_verifications_total{policy="login"}', 1), ('sluice_rate_limit_allowed_total{policy="quota"}', 1),
                           ('sluice_api_key_accepted_total{policy="partners"}', 0)):
        assert f"{counter} {value}\n" in metrics, "only the request counts, not the explanations"


def test_after_a_reload(sluice, config, folder):
    server = sluice(config)
    assert not explain(server, "GET", "/new")["answered"]
    server.file.write_text(server.file.read_text() + '[[route]]\npath = "/new"\nrespond = 204\npublic = true\n')
    assert not explain(server, "GET", "/new")["answered"], "the file does not count before it is served"
    assert post(server, "/reload").status == 200
    assert explain(server, "GET", "/new")["answer"]["status"] == 204
    server.file.write_text("wrong")
    assert post(server, "/reload").status == 422
    assert explain(server, "GET", "/new")["answer"]["status"] == 204


@pytest.mark.parametrize("body, says", [
    ("", "The body is not JSON"), ("{", "The body is not JSON"), ("[]", "must be a JSON object"),
    ('{"method": "GET"}', 'needs \\"method\\" and \\"url\\"'), ('{"url": "/"}', 'needs \\"method\\" and \\"url\\"'),
    ('{"method": "G T", "url": "/"}', "a word such as GET"), ('{"method": 1, "url": "/"}', '\\"method\\" is wrong: it must be a string'),
    ('{"method": "GET", "url": "secret"}', "must be a path"), ('{"method": "GET", "url": "/a b"}', "without spaces"),
    ('{"method": "GET", "url": "/", "headers": {"X": "secret"}}', "an array of strings"),
    ('{"method": "GET", "url": "/", "headers": ["secret"]}', "a header must be"),
    ('{"method": "GET", "url": "/", "headers": ["X: secret\\r\\nY: 1"]}', "a header must be"),
    ('{"method": "GET", "url": "/", "headers": [1, "A: b"]}', "a header must be"),
    ('{"method": "GET", "url": "/", "client": "secret"}', "must be an IP address"),
    ('{"method": "GET", "url": "/", "header": []}', "the members are method, url, headers and client")])
def test_wrong_bodies(sluice, body, says):
    answer = post(sluice(OPEN), "/explain", body)
    assert answer.status == 400 and says in answer.body.decode() and b"secret" not in answer.body, answer.body


def test_refused_requests(sluice):
    server = sluice(OPEN)
    body = {"method": "GET", "url": "/"}
    assert post(server, "/explain", body, "Origin: http://evil.example").status == 403
    with http1.Connection(server.admin_port) as admin:
        admin.send("POST /explain HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}")
        assert admin.read().status == 403
    assert server.admin("/explain")[0] == 405
    assert server.get("/explain", method="POST").status == 404
    assert post(server, "/explain", {**body, "headers": ["X: " + "x" * 70_000]}).status == 413


def test_one_explanation_at_a_time(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS held; CREATE TABLE held(id int)")
    server = sluice(f'''
[database.main]
url = "{postgres.url()}"
[[endpoint]]
path = "/held"
get = "SELECT id FROM held"
[policy.tokens]
type = "jwt"
secret = "a secret of thirty-two bytes, or more"
revocations = "revoked.jsonl"
[[route]]
path = "/in"
respond = 204
use = ["tokens"]
''')
    psql = subprocess.Popen(["psql", "-XAtq", postgres.url()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        psql.stdin.write(b"BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE; SELECT 'held';\n")
        psql.stdin.flush()
        assert psql.stdout.readline() == b"held\n"
        body = json.dumps({"method": "GET", "url": "/held"})
        with http1.Connection(server.admin_port) as admin:
            admin.send(f"POST /explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}")
            wait_until(lambda: postgres.psql("SELECT 1 FROM pg_locks WHERE relation = 'held'::regclass AND NOT granted"))
            busy = post(server, "/explain", {"method": "GET", "url": "/in"})
            assert busy.status == 503 and busy.get("retry-after") == "1", busy.body
            assert post(server, "/jwt/revoke?jti=a").status == 200, "a revocation does not wait for it"
            psql.stdin.write(b"COMMIT;\n")
            psql.stdin.flush()
            answer = admin.read()
            assert answer.status == 200 and json.loads(answer.body)["answered"]
    finally:
        psql.stdin.close()
        psql.wait()
    assert explain(server, "GET", "/in")["answer"]["status"] == 401
