"""[policy.NAME] of type auth-request: another server decides about each request, and without it no request passes."""
import json
import re
import signal
import threading

import pytest

from test_gateway import echo, gateway, said, wait_until
from upstream import Upstream, response

POLICY = '''
[policy.login]
type = "auth-request"
upstream = "auth"
path = "/oauth2/auth"
copy = ["X-Auth-Request-User", "X-Auth-Request-Groups"]
'''


def auth(url, upstream=""):
    return f'[[upstream]]\nname = "auth"\nservers = ["{url}"]\n{upstream}\n{POLICY}'


def fields_of(request):
    return dict(request[2])


class Judge:
    """The server that decides. It gives the same answer to every request until `next` is replaced."""

    def __init__(self, answer):
        self.next = answer

    def __call__(self, request, _):
        return self.next


def decisions(server, result):
    return server.sample(f'sluice_auth_request_decisions_total{{policy="login",result="{result}"}}')


def test_the_other_server_gets_the_header_and_no_body(sluice):
    judge = Judge(response(b"", "X-Auth-Request-User: ada"))
    with Upstream(judge) as other, Upstream(echo) as back:
        server = sluice(gateway(back.url, route='use = ["login"]', more=auth(other.url)))
        with server.connect() as client:
            answer = client.call("POST", "/a/b?c=%2F", b"hello", "Cookie: session=1", "Content-Type: text/plain",
                                 "If-None-Match: *", "Range: bytes=0-1", "X-Forwarded-Uri: /public",
                                 "X-Auth-Request-User: root", "X_Auth_Request_Groups: admins",
                                 "X.Auth.Request.Groups: admins", "X.Auth-Request_User: root")
            assert answer.status == 200
            first, fields, _ = said(answer)
            assert first == "POST /a/b?c=%2F" and fields["x-auth-request-user"] == "ada"
            assert fields["content-length"] == "5" and fields["cookie"] == "session=1"
            assert [name for name in fields if "auth" in name] == ["x-auth-request-user"]
        [(method, target, asked, body)] = other.requests
        assert (method, target, body) == ("GET", "/oauth2/auth", b"")
        assert asked.pop()[0] == "via"
        assert dict(asked) == {"host": "test", "cookie": "session=1", "x-forwarded-method": "POST",
                               "x-forwarded-uri": "/a/b?c=%2F", "x-forwarded-for": "127.0.0.1",
                               "x-forwarded-proto": "http", "x-forwarded-host": "test"}
        assert decisions(server, "passed") == 1


def test_only_sluice_says_which_request_it_asks_about(sluice):
    names = ("X-Original-URL", "X-Original-URI", "X-Original-Method", "X-Rewrite-URL", "X-Forwarded-Uri", "X-Forwarded-Method")
    says = [f"{spelling}: /public" for name in names for spelling in (name, name.replace("-", "_"), name.replace("-", "."))]
    more = '[policy.tells]\ntype = "headers"\nrequest.set = { X-Original-URI = "/ours" }\n'
    with Upstream(Judge(response())) as other, Upstream(echo) as back:
        server = sluice(gateway(back.url, route='use = ["login"]', more=auth(other.url)) + more
                        + '[[route]]\npath = "/told"\nupstream = "back"\nuse = ["tells", "login"]\n',
                        server='trusted_proxies = ["127.0.0.2"]')
        for source in ("127.0.0.1", "127.0.0.2"):
            with server.connect(source=source) as client:
                assert said(client.get("/a", *says))[1]["x-original-url"] == "/public"
                assert client.get("/told", *says).status == 200
        for number, (_, _, asked, _) in enumerate(other.requests):
            told = {name: value for name, value in asked if re.sub("[_.]", "-", name) in map(str.lower, names)}
            path, ours = [("/a", {}), ("/told", {"x-original-uri": "/ours"})][number % 2]
            assert told == {"x-forwarded-method": "GET", "x-forwarded-uri": path, **ours}
            assert [name for name, _ in asked].count("x-forwarded-uri") == 1


def test_a_client_cannot_remove_what_was_decided(sluice):
    judge = Judge(response(b"", "X-Auth-Request-User: ada"))
    with Upstream(judge) as other, Upstream(echo) as back:
        server = sluice(gateway(back.url, route='use = ["login"]', more=auth(other.url)))
        with server.connect() as client:
            _, fields, _ = said(client.get("/a/../%62", "X-Tenant: one",
                                             "Connection: X-Auth-Request-User, X-Forwarded-Uri, X-Tenant"))
            assert fields["x-auth-request-user"] == "ada"
        asked = fields_of(other.requests[0])
        assert asked["x-forwarded-uri"] == "/b" and asked["x-tenant"] == "one"


@pytest.mark.parametrize("status,fields", [
    ("302 Found", ["Location: https://login.example/start?rd=%2F", "Set-Cookie: csrf=1"]),
    ("401 Unauthorized", ['WWW-Authenticate: Basic realm="a"', "Set-Cookie: csrf=1"]),
    ("403 Forbidden", ["Set-Cookie: csrf=1"]),
    ("429 Too Many Requests", ["Retry-After: 7", "Set-Cookie: csrf=1"]),
])
def test_a_refusal_reaches_the_client(sluice, status, fields):
    text = b"Who are you?" * 10_000
    judge = Judge(response(text, *fields, status=status))
    with Upstream(judge) as other, Upstream(echo) as back:
        server = sluice(gateway(back.url, route='use = ["login"]', more=auth(other.url)))
        with server.connect() as client:
            for method in ("GET", "POST"):
                answer = client.call(method, "/a", b"x" if method == "POST" else b"")
                assert answer.status == int(status.split()[0]) and answer.body == text
                for field in fields:
                    name, value = field.split(": ", 1)
                    assert answer.get(name) == value
            assert client.get("/a", method="HEAD").status == int(status.split()[0])
        assert back.requests == [] and decisions(server, "refused") == 3


@pytest.mark.parametrize("answer,expected", [
    (b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", 502),
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 502),
    (b"HTTP/1.1 304 Not Modified\r\n\r\n", 502),
    (b"HTTP/1.1 100 Continue\r\n\r\n", 504),
    (b"SSH-2.0-OpenSSH_9.2\r\n", 502),
    (None, 502),
])
def test_without_a_decision_nothing_passes(sluice, answer, expected):
    with Upstream(Judge(answer)) as other, Upstream(echo) as back:
        server = sluice(gateway(back.url, route='use = ["login"]',
                                more=auth(other.url, 'response_timeout = "300ms"\nretries = 0')))
        with server.connect() as client:
            assert client.get("/a").status == expected
        assert back.requests == [] and decisions(server, "failed") == 1


def test_a_server_that_is_away_lets_nothing_pass(sluice):
    with Upstream(echo) as back:
        with Upstream(echo) as other:
            pass
        server = sluice(gateway(back.url, route='use = ["login"]', more=auth(other.url)))
        with server.connect() as client:
            assert client.get("/a").status == 502
        assert back.requests == []


def test_cookies_of_a_decision_reach_the_client(sluice):
    judge = Judge(response(b"welcome", "Set-Cookie: session=2", "Set-Cookie: other=3"))
    with Upstream(judge) as other, Upstream(echo) as back:
        server = sluice(gateway(back.url, route='use = ["login"]', more=auth(other.url)))
        with server.connect() as client:
            for _ in range(3):
                cookies = [value for name, value in client.get("/a").fields if name == "set-cookie"]
                assert sorted(cookies) == ["a=b", "c=d", "other=3", "session=2"]
        assert other.connections == 1


def test_it_stands_in_front_of_everything_else_too(sluice, tmp_path, site):
    (tmp_path / "main.db").touch()
    judge = Judge(response(b"", "X-Auth-Request-User: ada"))
    with Upstream(judge) as other:
        server = sluice(f'''
[database.main]
url = "sqlite:main.db"
[[endpoint]]
path = "/me"
returns = "object"
get = "SELECT :user AS user"
use = ["login"]
[endpoint.params]
user = {{ from = "header.X-Auth-Request-User" }}
[[files]]
path = "/site"
root = "site"
use = ["login"]
[[websocket]]
path = "/ws"
handler = "echo"
use = ["login"]
{auth(other.url)}''')
        upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                   "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
        with server.connect() as client:
            assert json.loads(client.get("/me", "X-Auth-Request-User: root").body) == {"user": "ada"}
            assert client.get("/site/hello.txt").status == 200
            judge.next = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
            assert client.get("/me").status == 401
            assert client.get("/site/hello.txt").status == 401
            assert client.get("/ws", *upgrade).status == 401
        judge.next = response(b"")
        with server.connect() as client:
            assert client.get("/ws", *upgrade).status == 101


def test_a_reload_asks_the_new_server(sluice):
    with Upstream(Judge(response(b"", "X-Auth-Request-User: ada"))) as one, \
            Upstream(Judge(response(b"", "X-Auth-Request-User: eve"))) as two, Upstream(echo) as back:
        text = gateway(back.url, route='use = ["login"]', more=auth(one.url))
        server = sluice(text)
        with server.connect() as client:
            assert said(client.get("/"))[1]["x-auth-request-user"] == "ada"
            server.file.write_text(server.file.read_text().replace(one.url, two.url))
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: said(client.get("/"))[1]["x-auth-request-user"] == "eve")


def test_a_client_that_leaves_ends_the_question(sluice):
    asked, gone = threading.Event(), threading.Event()

    def judge(_, connection):
        asked.set()
        assert connection.recv(1) == b""
        gone.set()

    with Upstream(judge) as other, Upstream(echo) as back:
        server = sluice(gateway(back.url, route='use = ["login"]', more=auth(other.url)))
        with server.connect() as client:
            client.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            assert asked.wait(60)
        assert gone.wait(60)
        assert back.requests == []


