"""What passes through the gateway beside head and body: interim responses, trailers, and methods."""
import json
import socket
import subprocess
import threading

import pytest

from conftest import SLUICE
from http2 import Client
from test_gateway import gateway
from upstream import Upstream, response

HINTS = (b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nLink: </b.js>; rel=preload\r\n"
         b"Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nContent-Length: 3\r\n\r\n")


@pytest.mark.parametrize("method, body", [("GET", None), ("POST", b"hello")])
@pytest.mark.parametrize("version", ["1.1", "2"])
def test_interim_responses_pass_at_once(sluice, version, method, body):
    seen = threading.Event()

    def answer(_, connection):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" + HINTS)
        assert seen.wait(30)
        return b"HTTP/1.1 102 Processing\r\n\r\n" + response(b"ok", "X-Last: yes")

    with Upstream(answer) as back:
        server = sluice(gateway(back.url))
        if version == "2":
            with Client(server.port) as client:
                stream = client.request("/", method, body=body)
                hears = client.answers[stream]
                while not hears.interim:
                    assert client.hear()
                assert hears.interim_fields == [{":status": "103", "link": "</b.js>; rel=preload"}]
                seen.set()
                client.wait(stream)
                assert (hears.interim, hears.status, hears.body) == ([103, 102], 200, b"ok")
                again = client.get("/")
                assert again.interim == [103, 102] and again.fields["x-last"] == "yes"
            return
        with server.connect() as client:
            hints = client.call(method, "/", body)
            assert hints.status == 103
            assert hints.fields == [("link", "</a.css>; rel=preload"), ("link", "</b.js>; rel=preload")]
            seen.set()
            assert [client.read().status, client.read().body] == [102, b"ok"]
            assert [client.get("/").status, client.read().status, client.read().status] == [103, 102, 200]
            client.send("GET / HTTP/1.0\r\nHost: test\r\nConnection: keep-alive\r\n\r\n")
            assert client.read().status == 200


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_a_client_that_waits_to_send_its_body_gets_one_100(sluice, version):
    def answer(request, connection):
        connection.sendall(HINTS)
        return response(request[3])

    with Upstream(answer) as back:
        server = sluice(gateway(back.url))
        if version == "2":
            with Client(server.port) as client:
                stream = client.request("/", "POST", [("expect", "100-continue")], ends=False)
                while not client.answers[stream].interim:
                    assert client.hear()
                client.send(stream, b"hello")
                hears = client.wait(stream)[0]
                assert (hears.interim, hears.body) == ([100, 103], b"hello")
            return
        with server.connect() as client:
            client.send("POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
            assert client.read().status == 100
            client.send("hello")
            assert [client.read().status, client.read().body] == [103, b"hello"]


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_a_client_that_does_not_read_delays_no_interim_response(sluice, version):
    """Some interim responses are lost, but each one that arrives is whole."""
    sent = threading.Event()

    def answer(_, connection):
        for _ in range(60):
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nX-Long: " + b"x" * 30_000 + b"\r\n\r\n")
        connection.sendall(response(b"ok"))
        sent.set()

    with Upstream(answer) as back:
        server = sluice(gateway(back.url))
        if version == "2":
            with Client(server.port) as client:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stream = client.request("/")
                assert sent.wait(30)
                hears = client.wait(stream)[0]
                assert hears.body == b"ok" and 1 <= len(hears.interim) <= 60
                assert all(fields["x-long"] == "x" * 30_000 for fields in hears.interim_fields)
            return
        with server.connect() as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            assert sent.wait(30)
            hears = [client.read()]
            while hears[-1].status == 103:
                assert hears[-1].get("x-long") == "x" * 30_000
                hears.append(client.read())
            assert hears[-1].body == b"ok" and 2 <= len(hears) <= 61


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_a_server_knows_that_its_client_takes_trailers(sluice, version):
    def answer(request, _):
        fields = dict(request[2])
        if fields.get("te") != "trailers":
            return response(b"ok", f"X-Got: {fields.get('te')} {fields.get('connection')}")
        assert fields["connection"] == "TE"
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n"

    with Upstream(answer) as back:
        server = sluice(gateway(back.url))
        if version == "2":
            with Client(server.port) as client:
                assert client.get("/", fields=[("te", "trailers")]).trailers == {"x-sum": "7"}
                assert client.get("/").fields["x-got"] == "None None"
            return
        with server.connect() as client:
            for te in ("trailers", "gzip;q=0.5, Trailers"):
                assert client.get("/", f"TE: {te}", "Connection: TE").trailer("x-sum") == "7"
            for te in ("gzip", "deflate;q=0.5, chunked", "xtrailers"):
                assert client.get("/", f"TE: {te}", "Connection: TE").get("x-got") == "None None"


def echo_method(request, _):
    return response(f"{request[0]} {request[3].decode()}".encode())


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_any_method_passes(sluice, version):
    with Upstream(echo_method) as back:
        server = sluice(gateway(back.url, more='[[route]]\npath = "/here"\nrespond = 204\n'
                                '[[route]]\npath = "/only/{rest...}"\nupstream = "back"\nmethods = ["GET", "PROPFIND", "MKCOL"]\n'
                                '[[route]]\npath = "/only/{rest...}"\nupstream = "back"\nmethods = ["POST", "LOCK"]\n'
                                'strip = "/only"\n'), server='access_log = "stdout"')

        def ask(method, path, body=None):
            if version == "1.1":
                with server.connect() as client:
                    answer = client.call(method, path, body)
                    return answer.status, answer.body.decode(), answer.get("allow")
            with Client(server.port) as client:
                answer = client.get(path, method=method, body=body)
                return answer.status, answer.body.decode(), answer.fields.get("allow")

        for method in ("PROPFIND", "REPORT", "MKCOL", "M-SEARCH", "get", "!#$%&'*+-.^_`|~"):
            assert ask(method, "/a", b"<a/>") == (200, f"{method} <a/>", None)
            assert ask(method, "/a")[:2] == (200, f"{method} ")
            assert ask(method, "/here")[0] == 501
        for method in ("GET", "PROPFIND", "MKCOL", "POST", "LOCK"):
            assert ask(method, "/only/a")[:2] == (200, f"{method} ")
        for method in ("REPORT", "UNLOCK"):
            assert ask(method, "/only/a")[0] == 501
        status, _, allow = ask("DELETE", "/only/a")
        assert (status, {*allow.split(", ")} - {"CONNECT"}) == (405, {"GET", "HEAD", "POST", "OPTIONS", "PROPFIND", "MKCOL", "LOCK"})
        assert ask("TRACE", "/a")[0] == 405
        assert [request[1] for request in back.requests if request[0] == "LOCK"] == ["/a"]
        server.stop()
        lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
        assert {"M-SEARCH", "get", "!#$%&'*+-.^_`|~"} <= {line["method"] for line in lines}


def test_a_request_with_an_unknown_method_is_sent_once(sluice):
    with Upstream(lambda *_: None) as one, Upstream(lambda *_: None) as other:
        server = sluice(gateway(one.url, other.url, upstream="eject.after = 0\n"))
        with server.connect() as client:
            assert client.call("PROPFIND", "/").status == 502
        assert [len(one.requests) + len(other.requests)] == [1]
        with server.connect() as client:
            assert client.call("PUT", "/", b"").status == 502
        assert len(one.requests) + len(other.requests) == 3


def test_two_routes_for_one_unknown_method_are_refused(tmp_path):
    route = '[[route]]\npath = "/a"\nupstream = "back"\n'
    head = '[[upstream]]\nname = "back"\nservers = ["http://127.0.0.1:1"]\n'
    for first, second, is_valid in [('["LOCK"]', '["UNLOCK"]', True), ('["LOCK", "GET"]', '["LOCK"]', False), ("[]", '["LOCK"]', False),
                                    ('["GET"]', '["LOCK"]', True)]:
        (tmp_path / "c.toml").write_text(f"{head}{route}methods = {first}\n{route}methods = {second}\n")
        run = subprocess.run([SLUICE, "check", str(tmp_path / "c.toml")], capture_output=True, text=True, timeout=60)
        assert (run.returncode == 0) == is_valid, run.stdout + run.stderr
        assert is_valid or 'another [[route]] has the path "/a"' in run.stderr + run.stdout


SENT = [("x-sum", "7"), ("x-more", "a b"), ("host", "evil"), ("authorization", "a"), ("content-length", "3"), ("content-type", "a"),
        ("x-forwarded-for", "1.1.1.1"), ("x_forwarded_host", "a"), ("cookie", "a=b"), ("if-match", "a"), ("x_set", "evil"), ("range", "a"),
        ("content_encoding", "gzip"), ("trailer", "a"), ("x.set", "evil"), ("x.real.ip", "a"), ("x.forwarded~for", "a")]


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_trailers_of_requests_pass(sluice, version):
    with Upstream(lambda request, _: response(request[3])) as back:
        server = sluice(gateway(back.url, route='use = ["set"]', more='[policy.set]\ntype = "headers"\nrequest.set = {X-Set = "ours"}\n'))
        if version == "2":
            with Client(server.port) as client:
                for body in (b"hello", b""):
                    stream = client.request("/", "POST", ends=False)
                    client.connection.send_data(stream, body)
                    client.connection.send_headers(stream, SENT, end_stream=True)
                    client.flush()
                    assert client.wait(stream)[0].body == body
        else:
            with server.connect() as client:
                for body in (b"5\r\nhello\r\n", b""):
                    client.send(b"POST / HTTP/1.1\r\nHost: test\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n")
                    client.send("".join(f"{name}: {value}\r\n" for name, value in [*SENT, ("connection", "close"), ("te", "a")]) + "\r\n")
                    assert client.read().status == 200
        for request in back.requests:
            assert request.trailers == [("x-sum", "7"), ("x-more", "a b")]
            assert ("x-set", "ours") in request[2] and "x-sum" not in dict(request[2])
        assert [request[3] for request in back.requests] == [b"hello", b""]
        assert version == "2" or ("trailer", "X-Sum") in back.requests[0][2]


OWNING = """
[policy.jwt]
type = "jwt"
secret = "0123456789012345678901234567890123456789"
optional = true
from = ["header.X-Token"]
[policy.key]
type = "api-key"
header = "X-Who"
optional = true
keys = { ada = "0123456789abcdefghij" }
[policy.tried]
type = "api-key"
header = "X-Tried"
dry_run = true
keys = { ada = "0123456789abcdefghij" }
[policy.user]
type = "headers"
request.set = { X-User = "{claim.sub}" }
request.add = { X-Group = "{claim.group}" }
request.remove = ["X-Inner"]
[policy.id]
type = "headers"
request_id = true
[policy.asks]
type = "auth-request"
upstream = "auth"
copy = ["X-Role"]
[policy.asks-in-vain]
type = "auth-request"
upstream = "auth"
copy = ["X-Tried-Role"]
dry_run = true
"""


@pytest.mark.parametrize("use, names", [
    ('["jwt", "user"]', ["X-Token", "X-User", "X-Group", "X-Inner"]),
    ('["key", "user"]', ["X-Who", "X-User", "X-Group", "X-Inner"]),
    ('["tried"]', ["X-Tried"]),
    ('["id"]', ["X-Request-Id"]),
    ('["asks"]', ["X-Role"]),
    ('["asks-in-vain"]', ["X-Tried-Role"]),
])
def test_trailers_carry_no_field_of_a_policy_that_has_no_value_for_it(sluice, use, names):
    with Upstream(lambda *_: response(b"ok")) as back, Upstream(lambda *_: response(b"")) as auth:
        other = f'[[upstream]]\nname = "auth"\nservers = ["{auth.url}"]\n{OWNING}[[route]]\npath = "/free"\nupstream = "back"\n'
        server = sluice(gateway(back.url, route=f"use = {use}", more=other))
        sent = [("X-Sum", "7")] + [(spelling, "root") for name in names for spelling in (name, name.replace("-", "_"))]
        with server.connect() as client:
            for path in ("/", "/free"):
                client.send(f"POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n")
                client.send("".join(f"{name}: {value}\r\n" for name, value in sent) + "\r\n")
                assert client.read().status == 200
        assert back.requests[0].trailers == [("x-sum", "7")]
        assert back.requests[1].trailers == [(name.lower(), value) for name, value in sent], "no policy"


# How careless servers frame "hello", and whether the connection is used again.
CARELESS = {
    "padded chunk sizes": (b"Transfer-Encoding: chunked\r\n\r\n5   \r\nhello\r\n0 \t\r\n\r\n", True),
    "LF": (b"Transfer-Encoding: chunked\r\n\r\n2\nhe\n3\nllo\n0\n\n", True),
    "LF in trailers": (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\nX-Sum: 7\n\n", True),
    "a long extension": (b"Transfer-Encoding: chunked\r\n\r\n5;a=" + b"b" * 2000 + b"\r\nhello\r\n0\r\n\r\n", True),
    "equal lengths": (b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", True),
    "a list of equal lengths": (b"Content-Length: 5, 5\r\n\r\nhello", True),
    "a length beside chunks": (b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", False),
}


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("framing", CARELESS)
def test_the_framing_of_careless_servers_is_read(sluice, framing, version):
    bytes_, is_kept = CARELESS[framing]

    def answer(request, _):
        head = b"HTTP/1.1 200 OK\r\n" + bytes_
        return head.split(b"\r\n\r\n")[0] + b"\r\n\r\n" if request[0] == "HEAD" else head

    with Upstream(answer) as back:
        server = sluice(gateway(back.url), server="cores = 1")
        if version == "2":
            with Client(server.port) as client:
                for _ in range(2):
                    answered = client.get("/")
                    assert (answered.status, answered.body) == (200, b"hello")
        else:
            with server.connect() as client:  # the client's connection checks that the answer has one framing
                for _ in range(2):
                    answered = client.get("/")
                    assert (answered.status, answered.body) == (200, b"hello")
                    assert answered.get("content-length") == ("5" if "length" in framing and is_kept else None)
                head = client.get("/", method="HEAD")
                assert head.status == 200
                assert head.get("content-length") == ("5" if "length" in framing and is_kept else None)
        assert back.connections == (1 if is_kept else len(back.requests))


@pytest.mark.parametrize("framing", CARELESS)
def test_a_careless_request_reaches_no_server(sluice, framing):
    with Upstream(lambda *_: response(b"ok")) as back:
        server = sluice(gateway(back.url), server="cores = 1")
        with server.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: test\r\n" + CARELESS[framing][0])
            assert client.read().status == 400
            client.assert_closed()
        assert not any(body == b"hello" for *_, body in back.requests)
