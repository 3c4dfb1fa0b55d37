"""The gateway through the real program: requests go to real servers, and their responses come back."""
import hashlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

import http2
from cluster import free_port
from conftest import SLUICE
from http1 import Broken, Connection
from http2 import Client
from tokens import Secret, soon
from upstream import Upstream, response


def gateway(*servers, path="/{rest...}", upstream="", route="", more=""):
    listed = ", ".join(f'"{server}"' for server in servers)
    return (f'[[upstream]]\nname = "back"\nservers = [{listed}]\n{upstream}\n'
            f'[[route]]\npath = "{path}"\nupstream = "back"\n{route}\n{more}')


def echo(request, _):
    method, target, fields, body = request
    lines = [f"{method} {target}", *(f"{name}: {value}" for name, value in fields), hashlib.sha256(body).hexdigest()]
    text = "\n".join(lines).encode()
    return response(b"" if method == "HEAD" else text, "X-Back: yes", "Set-Cookie: a=b", "Set-Cookie: c=d")


def said(answer):
    first, *lines, digest = answer.body.decode().split("\n")
    return first, dict(line.split(": ", 1) for line in lines), digest


def test_a_request_and_its_response_pass(sluice):
    with Upstream(echo) as back:
        server = sluice(gateway(back.url))
        with server.connect() as client:
            answer = client.call("POST", "/a/b?c=%2F", b"hello", "X-A: 1", "Connection: X-B", "X-B: 2",
                                 "X-Forwarded-For: 6.6.6.6", "X.Real.IP: 6.6.6.6", "X.Forwarded.Prefix: /b",
                                 "Transfer.Encoding: chunked", "X~Forwarded~Host: b")
            assert answer.status == 200 and answer.get("x-back") == "yes"
            assert [value for name, value in answer.fields if name == "set-cookie"] == ["a=b", "c=d"]
            first, fields, digest = said(answer)
            assert first == "POST /a/b?c=%2F"
            assert re.fullmatch(r"1\.1 sluice-[0-9a-f]{16}", fields.pop("via"))
            assert fields == {"host": "test", "x-a": "1", "content-length": "5", "x-forwarded-for": "127.0.0.1",
                              "x-forwarded-proto": "http", "x-forwarded-host": "test"}
            assert digest == hashlib.sha256(b"hello").hexdigest()
            for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
                assert said(client.call(method, "/m"))[0] == f"{method} /m"
            assert client.get("/h", method="HEAD").get("x-back") == "yes"
            assert client.get("/h", method="TRACE").status == 405
        assert back.connections == 1
        assert [request[0] for request in back.requests] == ["POST", "GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]
        assert server.sample(f'sluice_upstream_requests_total{{upstream="back",server="127.0.0.1:{back.port}"}}') == 7


def test_http2_and_tls_in_front(sluice, localhost, tmp_path):
    with Upstream(echo) as back:
        server = sluice(gateway(back.url), server=f'[server.tls]\ncert = "{localhost[0]}"\nkey = "{localhost[1]}"\n')
        body = os.urandom(300_000)
        (tmp_path / "body").write_bytes(body)
        run = subprocess.run(["curl", "-sk", "--http2", "-w", "\n%{http_version}", "--data-binary", f"@{tmp_path}/body", "-H",
                              "Cookie: a=b", "-H", "Cookie: c=d", f"https://localhost:{server.port}/x%2Fy"],
                             capture_output=True, check=True, timeout=300)
        first, *lines, digest, version = run.stdout.decode().split("\n")
        assert (first, version) == ("POST /x%2Fy", "2")
        assert digest == hashlib.sha256(body).hexdigest()
        assert "x-forwarded-proto: https" in lines and f"host: localhost:{server.port}" in lines
        assert [line for line in lines if line.startswith("cookie")] == ["cookie: a=b; c=d"]


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_long_bodies_pass_both_ways(sluice, tmp_path, version):
    long = os.urandom(5_000_000)

    def answer(request, connection):
        if request[1] == "/chunked":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
            for at in range(0, len(long), 99_999):
                piece = long[at:at + 99_999]
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            return b"0\r\nX-Sum: 7\r\n\r\n"
        if request[1] == "/end":
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + long)
            return None
        return response(long, f"X-Digest: {hashlib.sha256(request[3]).hexdigest()}")

    (tmp_path / "long").write_bytes(long)
    with Upstream(answer) as back:
        server = sluice(gateway(back.url), server='body_limit = "32MiB"')
        curl = ["curl", "-s", version, "-D", "-", "-o", str(tmp_path / "out")]
        url = f"http://127.0.0.1:{server.port}"
        for how in (["-H", "Transfer-Encoding: chunked"], []):
            run = subprocess.run([*curl, "-T", str(tmp_path / "long"), *how, f"{url}/up"], capture_output=True, check=True,
                                 timeout=300)
            assert f"x-digest: {hashlib.sha256(long).hexdigest()}" in run.stdout.decode().lower()
            assert f"content-length: {len(long)}" in run.stdout.decode().lower()
            assert (tmp_path / "out").read_bytes() == long
        for path in ("/chunked", "/end"):
            run = subprocess.run([*curl, url + path], capture_output=True, check=True, timeout=300)
            assert (tmp_path / "out").read_bytes() == long
            assert "content-length" not in run.stdout.decode().lower()
            assert ("x-sum: 7" in run.stdout.decode().lower()) == (path == "/chunked")


def test_no_spelling_walks_around_a_policy(sluice):
    secret = Secret()
    with Upstream(echo) as back:
        server = sluice(gateway(back.url) + f'[[route]]\npath = "/admin/{{rest...}}"\nupstream = "back"\nuse = ["auth"]\n'
                        f'[[route]]\npath = "/admin"\nupstream = "back"\nuse = ["auth"]\n'
                        f'[policy.auth]\ntype = "jwt"\nsecret = "{secret.secret}"\n')
        token = f"Authorization: Bearer {secret.token(soon())}"
        with server.connect() as client:
            for target in ("/admin/a", "/admin/", "/admin", "/%61dmin/a", "/./admin/a", "/x/../admin/a", "/x/%2e%2E/admin/a",
                           "http://test/admin/a"):
                assert client.get(target).status == 401, target
                passed = client.get(target, token)
                assert passed.status == 200, target
                assert said(passed)[0].startswith("GET /admin"), target
            for target in ("//admin/a", "/admin//a"):
                assert client.get(target).status == 401 and client.get(target, token).status == 404, target
            # For routes and policies %2f is part of a segment, but the server might split the path there.
            assert client.get("/x%2f..%2fadmin").status == 400
            assert client.get("/admin/..%2f").status == 401 and client.get("/admin/..%2f", token).status == 400
            assert said(client.get("/x%2fadmin"))[0] == "GET /x%2Fadmin"
            assert client.get("/../admin").status == 400


def test_a_server_that_goes_and_comes_again(sluice):
    port = free_port()
    with Upstream(lambda *_: response(b"one")) as one:
        two = Upstream(lambda *_: response(b"two"), port)
        server = sluice(gateway(one.url, two.url), server="cores = 1")
        with server.connect() as client:
            assert [client.get("/").body for _ in range(4)] == [b"one", b"two", b"one", b"two"]
            two.close()
            assert [client.call("POST", "/", b"x").body for _ in range(4)] == [b"one"] * 4
            with Upstream(lambda *_: response(b"two"), port):
                assert {client.get("/").body for _ in range(4)} == {b"one", b"two"}
        assert "127.0.0.1:%d: it cannot be reached: Connection refused" % port in server.log


def test_nothing_answers(sluice):
    server = sluice(gateway(f"http://127.0.0.1:{free_port()}", "http://nowhere.invalid"))
    for _ in range(2):
        answer = server.get("/")
        assert (answer.status, answer.media_type) == (502, "application/problem+json")
        assert b"127.0.0.1" not in answer.body
    assert "it cannot be reached" in server.log


def test_a_server_that_is_silent(sluice):
    waits = threading.Event()

    def answer(request, connection):
        if request[1] == "/half":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        waits.wait(30)

    with Upstream(answer) as back:
        server = sluice(gateway(back.url, upstream='response_timeout = "300ms"\nidle_timeout = "300ms"'))
        assert server.get("/").status == 504
        with server.connect() as client, pytest.raises(Broken):
            client.get("/half")
        waits.set()


def test_a_route_has_a_deadline_for_all_servers(sluice):
    waits = threading.Event()

    def answer(request, connection):
        if request[1] == "/drips":  # a byte is never late, but the whole is
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not waits.wait(0.05):
                connection.sendall(b"x")
        if request[1] == "/events":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n")
            waits.wait(30)
            connection.sendall(b"data: late\n\n")
        waits.wait(30)

    with Upstream(answer) as first, Upstream(answer) as second:
        server = sluice(gateway(first.url, second.url, upstream="retries = 10", route='timeout = "400ms"'))
        begin = time.monotonic()
        assert server.get("/").status == 504
        assert time.monotonic() - begin < 5, "the deadline is one for all servers"
        assert len(first.requests) + len(second.requests) == 1
        assert server.get("/", method="POST").status == 504
        with server.connect() as client, pytest.raises(Broken):
            client.get("/drips")
        with server.connect() as client:
            client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
            client._until(b"\r\n\r\n")
            assert server.get("/").status == 504, "the deadline has passed for a request that came later"
            waits.set()
            client._until(b"data: late\n\n")
    with Upstream(echo) as back:
        assert sluice(gateway(back.url, route='timeout = "20s"')).get("/").status == 200


def test_a_deadline_that_ends_an_upload_is_answered_at_once(sluice):
    """The rest of the body never comes."""
    with Upstream(echo) as back:
        server = sluice(gateway(back.url, route='timeout = "200ms"'), server='body_timeout = "5m"\nhttp2 = true')
        for method in ("POST", "PUT"):  # the body of a PUT may have to be sent again
            with server.connect() as client:
                client.send(f"{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
                answer = client.read()
                assert answer.status == 504 and answer.get("connection") == "close"
                client.assert_closed()
        with Client(server.port) as client:
            stream = client.request("/", "POST", ends=False)
            answer = client.wait(stream)[0]
            assert answer.status == 504 and answer.ended


def test_the_access_log_names_the_server(sluice):
    closed = socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()
    token = Secret()
    with Upstream(echo) as back:
        server = sluice(gateway(f"http://127.0.0.1:{port}", back.url, path="/a/{rest...}", route='use = ["who"]',
                                more=f'[policy.who]\ntype = "jwt"\noptional = true\nsecret = "{token.secret}"\n'
                                     '[[route]]\npath = "/b"\nrespond = 204\n'),
                        server='cores = 1\naccess_log = "stdout"')
        for _ in range(2):
            assert server.get("/a/x", f"Authorization: Bearer {token.token(soon(sub='ann'))}").status == 200
        assert server.get("/b").status == 204
        server.stop()
    lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    passed, here = lines[:2], lines[2]
    for line in passed:
        assert (line["route"], line["subject"]) == ("/a/{rest...}", "ann")
        assert (line["upstream"], line["server"]) == ("back", back.name)
        assert 0 <= line["server_us"] <= line["duration_us"]
    assert sorted((line["tries"], line.get("failure")) for line in passed) == [(1, None), (2, "connect")]
    assert here["route"] == "/b" and "upstream" not in here and "subject" not in here


@pytest.mark.parametrize("answer, status, failure", [(None, 502, "no_response"), (b"HTTP/1.1 2\r\n\r\n", 502, "invalid_response"),
                                                     (response(status="503 Full"), 503, "status"), ("late", 504, "timeout")])
def test_the_access_log_says_why_a_server_failed(sluice, answer, status, failure):
    done = threading.Event()

    def answer_late(*_):
        done.wait(60)

    with Upstream(answer_late if answer == "late" else lambda *_: answer) as back:
        server = sluice(gateway(back.url, upstream='retry_on = "503"\nresponse_timeout = "100ms"' if answer == "late" else 'retry_on = "503"'),
                        server='access_log = "stdout"')
        assert server.get("/").status == status
        done.set()
        server.stop()
    line = json.loads(next(line for line in server.log.splitlines() if line.startswith("{")))
    assert (line["server"], line["tries"], line["failure"]) == (back.name, 1, failure)


@pytest.mark.parametrize("bad", [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
                                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                                 b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
                                 b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n",
                                 b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 40_000 + b"\r\n\r\n", b""])
def test_what_is_no_response(sluice, bad):
    def answer(_, connection):
        connection.sendall(bad)

    with Upstream(answer) as back:
        server = sluice(gateway(back.url))
        assert server.get("/").status == 502
        assert "it gave no" in server.log


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("framing", [b"", b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_head_does_not_wait_for_its_body(sluice, version, framing):
    """For example, a stream of events may send its first event much later."""
    seen = threading.Event()

    def answer(request, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Early: yes\r\nContent-Type: text/event-stream\r\n" + framing + b"\r\n")
        if seen.wait(30):
            connection.sendall(b"4\r\nlate\r\n0\r\n\r\n" if b"chunked" in framing else b"late")

    with Upstream(answer) as back:
        server = sluice(gateway(back.url))
        if version == "2":
            with Client(server.port) as client:
                stream = client.request("/")
                while not client.answers[stream].status:
                    assert client.hear()
                seen.set()
                assert client.wait(stream)[0].body == b"late"
            return
        with server.connect() as client:
            client.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            head = client._until(b"\r\n\r\n")
            assert b"x-early: yes" in head.lower()
            seen.set()
            rest = client._until(b"late")
            assert b"HTTP/1.1" not in rest


def test_an_interim_response_is_not_the_answer(sluice):
    with Upstream(lambda *_: b"HTTP/1.1 100 Continue\r\n\r\n" * 2 + response(b"ok")) as back:
        answer = sluice(gateway(back.url)).get("/")
        assert (answer.status, answer.body) == (200, b"ok")


def test_what_the_server_says_behind_its_answer_is_nobodys(sluice):
    with Upstream(lambda *_: response(b"ok") + response(b"not asked for")) as back:
        server = sluice(gateway(back.url))
        with server.connect() as client:
            assert [client.get("/").body for _ in range(5)] == [b"ok"] * 5
        assert back.connections == 5


def test_a_body_that_is_too_long_or_breaks(sluice):
    with Upstream(echo) as back:
        server = sluice(gateway(back.url))
        with server.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n")
            assert client.read().status == 413
        with server.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n")
            assert client.read().status == 400
        with server.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
            client.shut_sending()
            assert client.read().status == 400
        assert server.get("/ok").status == 200
        assert [request[1] for request in back.requests] == ["/ok"]


def test_a_body_may_be_complete_before_a_server_is_chosen(sluice):
    with Upstream(echo) as back:
        server = sluice(gateway(back.url, route='buffer_request = true\nuse = ["short"]') +
                        '[policy.short]\ntype = "body-limit"\nsize = "600KiB"\n', server='body_memory = "4MiB"\ncores = 1')

        def digest(body):
            return hashlib.sha256(body).hexdigest()

        with server.connect() as client:
            client.send(b"POST /slow HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
            assert client._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
            client.send(b"5\r\nhello\r\n")
            assert server.get("/other").status == 200  # on another connection, while the first request waits
            assert [request[1] for request in back.requests] == ["/other"] and back.connections == 1
            client.send(b"6\r\n world\r\n0\r\n\r\n")
            _, fields, sha = said(client.read())
            assert fields["content-length"] == "11" and "transfer-encoding" not in fields and sha == digest(b"hello world")
            # No bytes at all, and more than one piece of a body.
            client.send(b"POST /empty HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            assert said(client.read())[1]["content-length"] == "0"
            long = os.urandom(500_000)
            assert said(client.call("PUT", "/long", long))[2] == digest(long)
            client.send(b"POST /chunks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
                        b"%x\r\n%b\r\n0\r\n\r\n" % (len(long), long))
            assert said(client.read())[2] == digest(long)
        seen = len(back.requests)
        with server.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n%x\r\n" % 700_000)
            assert client.read().status == 413
        with server.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
            client.shut_sending()
            assert client.read().status == 400
        assert len(back.requests) == seen


def test_a_long_body_that_is_complete_is_sent_again(sluice):
    body = os.urandom(300_000)
    with Upstream(lambda *_: None) as broken, Upstream(echo) as back:
        server = sluice(gateway(broken.url, back.url, route="buffer_request = true"), server="cores = 1")
        with server.connect() as client:
            for _ in range(4):
                assert said(client.call("PUT", "/", body))[2] == hashlib.sha256(body).hexdigest()
        assert broken.requests and len(back.requests) == 4


def test_the_head_does_not_wait_for_the_body(sluice):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = sluice(gateway(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        for framing, end in (("Content-Length: 5", b"hello"), ("Transfer-Encoding: chunked", b"00000005\r\nhello\r\n0\r\n\r\n")):
            with server.connect() as client:
                client.send(f"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{framing}\r\n\r\n")
                assert client._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
                listener.settimeout(20)
                back, _ = listener.accept()
                with back, back.makefile("rb") as stream:
                    back.settimeout(20)
                    while (line := stream.readline()) != b"\r\n":
                        assert line
                    client.send(b"hello" if end == b"hello" else b"5\r\nhello\r\n0\r\n\r\n")
                    assert stream.read(len(end)) == end
                    back.sendall(response(b"ok", "Connection: close"))
                    assert client.read().body == b"ok"


def test_escapes_stay_as_the_client_has_sent_them(sluice):
    escaped = "/%21%24%26%27%28%29%2A%2B%2C%3B%3D%3A%40/!$&'()*+,;=:@"
    with Upstream(echo) as back:
        server = sluice(gateway(back.url) + '[[route]]\npath = "/@app/{rest...}"\nupstream = "back"\nstrip = "/@app"\n')
        with server.connect() as client, http2.Client(server.port) as client2:
            for sent, got in ((escaped, escaped), ("/a/../%2b/%2e/b", "/%2B/b"), ("http://test/%2B", "/%2B"),
                              ("/@app/%2B", "/%2B"), ("/%40app/%2B+", "/%2B+")):
                assert said(client.get(sent))[0] == f"GET {got}"
                if sent.startswith("/"):
                    assert said(client2.get(sent))[0] == f"GET {got}"


def test_the_stripped_prefix_is_restored_in_answers(sluice):
    def answer(request, connection):
        if request[1] == "/early":
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
        fields = dict(request[2])
        return response(b"", *(f"{name}: {fields['x-' + name]}" for name in ("location", "content-location", "set-cookie")
                               if "x-" + name in fields), status="201 Created" if request[0] == "POST" else "302 Found")

    with Upstream(answer) as back:
        routes = "".join(f'[[route]]\npath = "/{name}/{{rest...}}"\nupstream = "back"\n{keys}\n' for name, keys in (
            ("app", 'strip = "/app"'), ("new", """rewrite = { match = "^/new", to = "/app" }"""), ("asked", 'strip = "/asked"\nuse = ["ask"]')))
        server = sluice(gateway(back.url, more=routes) + """
            [policy.ask]
            type = "auth-request"
            upstream = "back"
            path = "/check"
            """)
        with server.connect() as client, http2.Client(server.port) as client2:
            def answers(method, target, *sent):
                """The answer's fields over HTTP/1.1 and HTTP/2 are the same."""
                first = client.call(method, target, b"" if method == "POST" else None, *(f"{n}: {v}" for n, v in sent))
                first = dict((client.read() if first.status == 103 else first).fields)
                second = client2.get(target, method=method, fields=sent).fields
                names = ("location", "content-location", "set-cookie")
                assert [first.get(name) for name in names] == [second.get(name) for name in names]
                return [first.get(name) for name in names]

            sent = (("x-location", "/x"), ("x-content-location", "http://test/y"), ("x-set-cookie", "a=b; Path=/"))
            restored = ["/app/x", "http://test/app/y", "a=b; Path=/app"]
            for method, target in (("GET", "/app/a"), ("GET", "/app/early"), ("POST", "/app/a"), ("GET", "/%61pp/a")):
                assert answers(method, target, *sent) == restored
            assert answers("GET", "/app/a", ("x-location", "/app/x"), ("x-set-cookie", "a=b")) == ["/app/x", None, "a=b"]
            assert answers("GET", "/app/a", ("x-location", "http://other/x")) == ["http://other/x", None, None]
            for target in ("/plain/a", "/new/a", "/asked/a"):  # the last answer is that of the auth server
                assert answers("GET", target, *sent) == ["/x", "http://test/y", "a=b; Path=/"]


def test_the_host_may_be_the_servers(sluice, localhost, tmp_path):
    gone = f"127.0.0.1:{free_port()}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*localhost)
    names = []
    context.sni_callback = lambda _, name, __: names.append(name)
    with (Upstream(echo) as back, Upstream(echo, path=tmp_path / "socket") as local, Upstream(echo, tls=context) as secure,
          Upstream(lambda *_: response(status="503 Service Unavailable")) as busy):
        for url, host, upstream in ((back.url, back.name, ""), (local.url, "localhost", ""),
                                    (secure.url, f"localhost:{secure.port}", 'tls = { name = "inner.example", verify = false }')):
            server = sluice(gateway(url, upstream=upstream, route="preserve_host = false"))
            with server.connect() as client, http2.Client(server.port) as client2:
                for answer in (client.get("/", "X-Forwarded-Host: forged"), client2.get("/")):
                    fields = said(answer)[1]
                    assert (fields["host"], fields["x-forwarded-host"]) == (host, "test")
        assert set(names) == {"inner.example"}
        server = sluice(gateway(f"http://{gone}", busy.url, back.url, upstream='retry_on = "503"', route="preserve_host = false"))
        for _ in range(4):
            assert said(server.get("/"))[1]["host"] == back.name
        assert {dict(request[2])["host"] for request in busy.requests} == {busy.name}


def test_fields_of_the_server_are_replaced_and_not_doubled(sluice, localhost):
    sent = ["Access-Control-Allow-Origin: *", "access-control-allow-credentials: true", "Access-Control-Allow-Methods: PUT",
            "Vary: Origin, Accept", "vary: Cookie, accept", "X-Frame-Options: SAMEORIGIN", "x-frame-options: ALLOWALL",
            "Strict-Transport-Security: max-age=1", "X-Own: 1"]

    def answer(request, _):
        return response(b"text", *sent, status="401 Unauthorized" if request[1] == "/check" else "200 OK")

    with Upstream(answer) as back:
        server = sluice(gateway(back.url, route='use = ["web"]') + """
            [[route]]
            path = "/asked"
            upstream = "back"
            use = ["web", "ask"]
            [policy.web]
            type = "cors"
            origins = ["https://app.example"]
            expose = []
            [policy.ask]
            type = "auth-request"
            upstream = "back"
            path = "/check"
            [server.headers]
            X-Frame-Options = "DENY"
            """, server=f'[server.tls]\ncert = "{localhost[0]}"\nkey = "{localhost[1]}"\nhsts = "7s"\n')
        for version in ("--http1.1", "--http2"):
            for path in ("/", "/asked"):
                for origin in ("https://app.example", "https://evil.example"):
                    run = subprocess.run(["curl", "-sk", version, "-o", os.devnull, "-D", "-", "-H", f"Origin: {origin}",
                                          f"https://localhost:{server.port}{path}"], capture_output=True, check=True, timeout=300)
                    lines = [line.split(": ", 1) for line in run.stdout.decode().strip().split("\r\n")[1:]]
                    fields = sorted((name.lower(), value) for name, value in lines)
                    ours = [("access-control-allow-origin", origin)] if origin == "https://app.example" else []
                    assert [one for one in fields if one[0] not in ("date", "server", "content-length")] == [
                        *ours, ("strict-transport-security", "max-age=7"), ("vary", "Origin, Accept, Cookie"),
                        ("x-frame-options", "DENY"), ("x-own", "1")], (version, path, origin)


def test_fields_for_proxies_and_methods_pass(sluice):
    with Upstream(lambda *_: response(b"", 'Proxy-Authenticate: Basic realm="a"', "Proxy-Authentication-Info: b",
                                      status="407 Proxy Authentication Required")) as back:
        server = sluice(gateway(back.url, route='methods = ["GET", "OPTIONS"]'))
        answer = server.get("/", "Proxy-Authorization: Basic YTpi")
        assert (answer.status, answer.get("proxy-authenticate"), answer.get("proxy-authentication-info")) == (
            407, 'Basic realm="a"', "b")
        assert dict(back.requests[0][2])["proxy-authorization"] == "Basic YTpi"
        refused = server.get("/", method="POST")
        assert (refused.status, refused.get("allow")) == (405, "GET, HEAD, OPTIONS")


def test_extensions_of_chunks_are_bounded_one_by_one(sluice):
    extension = "x" * 200
    chunk = f"1;{extension}\r\na\r\n"
    chunked = f"{chunk * 10}0;{extension}\r\n\r\n"

    def answer(request, _):
        assert request[3] == b"a" * 10
        return f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}".encode()

    with Upstream(answer) as back:
        server = sluice(gateway(back.url))
        with server.connect() as client:
            client.send(f"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}")
            assert client.read().body == b"a" * 10
            client.send(f"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;{'x' * 256}\r\na\r\n0\r\n\r\n")
            assert client.read().status == 400


def test_a_response_that_breaks_off_is_logged(sluice):
    waits = threading.Event()

    def answer(request, connection):
        if request[1] == "/chunks":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nno size\r\n")
        else:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        if request[1] == "/stalls":
            waits.wait(30)

    for path in ("/stalls", "/closes", "/chunks"):
        with Upstream(answer) as back:
            server = sluice(gateway(back.url, upstream='idle_timeout = "300ms"'))
            with server.connect() as client, pytest.raises(Broken):
                client.get(path)
            assert f"127.0.0.1:{back.port}: its response broke off: " in server.log, path
            waits.set()


def test_an_answer_before_the_end_of_a_body(sluice):
    def serve(listener):
        connection, _ = listener.accept()
        with connection:
            received = b""
            while b"hello" not in received:
                received += connection.recv(1000)
            connection.sendall(response(b"no", status="413 Too long"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        server = sluice(gateway(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        with server.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
            client.send(b"again")
            assert client.read().status == 413
        thread.join()


def test_reload_keeps_connections_and_changes_servers(sluice):
    with Upstream(lambda *_: response(b"one")) as one, Upstream(lambda *_: response(b"two")) as two:
        server = sluice(gateway(one.url), server="cores = 1")
        with server.connect() as client:
            assert client.get("/").body == b"one"
            text = server.file.read_text()
            for added in ("[server.headers]\nX-A = \"1\"\n", "[server.headers]\nX-A = \"2\"\n"):
                server.file.write_text(text + added)
                server.process.send_signal(signal.SIGHUP)
                number = added[-3]
                wait_until(lambda: client.get("/").get("x-a") == number)
            assert one.connections == 1
            server.file.write_text(text.replace(one.url, two.url))
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: client.get("/").body == b"two")
            wait_until(lambda: not one.open)


def wait_until(met, seconds=15):
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_draining_lets_a_response_end(sluice):
    goes_on = threading.Event()

    def answer(_, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        goes_on.wait(30)
        return b"again"

    with Upstream(answer) as back:
        server = sluice(gateway(back.url))
        with server.connect() as client:
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            wait_until(lambda: back.requests)
            server.terminate()
            wait_until(lambda: server.admin("/readyz")[0] != 200)
            goes_on.set()
            assert client.read().body == b"helloagain"
        server.stop()


def test_a_client_that_leaves_ends_its_request(sluice):
    left = threading.Event()

    def answer(_, connection):
        connection.settimeout(20)
        if connection.recv(1) == b"":
            left.set()

    with Upstream(answer) as back:
        server = sluice(gateway(back.url))
        with server.connect() as client:
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            wait_until(lambda: back.requests)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert left.wait(20)


def test_no_spelling_passes_by_a_policy(sluice):
    guarded = '[[route]]\npath = "/admin/{rest...}"\nupstream = "back"\nuse = ["nobody"]\n[policy.nobody]\ntype = "ip"\nallow = ["192.0.2.1"]\n'
    with Upstream(echo) as back:
        server = sluice(gateway(back.url, more=guarded))
        with server.connect() as client:
            for path, status in (("/admin/x", 403), ("/%61dmin/x", 403), ("/./admin/x", 403), ("/admin/a%2Fb", 403),
                                 ("/admin%2Fx", 400), ("/admin%5Cx", 400), ("/admin;a/x", 400), ("/%2Fadmin%2fx", 400),
                                 ("/other%2Fx;y", 200)):
                assert client.get(path).status == status, path
        assert [request[1] for request in back.requests] == ["/other%2Fx;y"]


def test_ipv4_clients_of_a_listener_for_both_families(sluice, tmp_path):
    file = tmp_path / "both.toml"
    with Upstream(echo) as back:
        file.write_text('[server]\nlisten = ["*:${PORT}"]\n[admin]\nlisten = "${ADMIN}"\n' + gateway(back.url))
        port = free_port()
        server = sluice(file=file, env={"PORT": str(port)})
        with Connection(port) as client:
            assert said(client.get("/"))[1]["x-forwarded-for"] == "127.0.0.1"


@pytest.mark.parametrize("use, others, warns", [
    ('use = ["nobody"]', "/{rest...}", '"/admin" go to the route "/{rest...}", those for "/admin/{rest...}"'),
    ('use = ["nobody"]', "/admin", '"/admin" go to the route "/admin", those for "/admin/{rest...}"'),
    ('use = ["slow"]', "/admin", None),
    ('use = ["nobody"]', "/other/{rest...}", None),
    ('use = ["nobody"]', "/{name}", '"/admin" go to the route "/{name}", those for "/admin/{rest...}"'),
    ('use = ["nobody"]\n[[route]]\npath = "/admin"\nrespond = {status = 404}', "/{rest...}", None),
    ('use = ["nobody"]\n[[route]]\npath = "/admin/{all...}"\nheaders = {V = "2"}\nupstream = "back"', "/other",
     'the one with the same path in line'),
    ('use = ["nobody"]\nmethods = ["POST"]\n[[route]]\npath = "/admin/{all...}"\nmethods = ["GET"]\nupstream = "back"',
     "/other", 'the one with the same path in line'),
    ('use = ["nobody"]\n[[route]]\npath = "/admin/{all...}"\nheaders = {V = "2"}\nuse = ["nobody"]\nupstream = "back"',
     "/other", None),
])
def test_a_guard_beside_an_open_path_is_a_warning(tmp_path, use, others, warns):
    guarded = (f'[[route]]\npath = "/admin/{{rest...}}"\nupstream = "back"\n{use}\n[policy.nobody]\ntype = "ip"\n'
               'allow = ["192.0.2.1"]\n[policy.slow]\ntype = "rate-limit"\nrate = "1/s"\n')
    file = tmp_path / "sluice.toml"
    file.write_text(gateway("http://127.0.0.1:1", path=others, more=guarded))
    checked = subprocess.run([SLUICE, "check", file], capture_output=True, text=True, timeout=20)
    assert checked.returncode == 0, checked.stderr
    said = [line for line in checked.stderr.splitlines() if "checks the client" in line]
    assert said == [] if warns is None else len(said) == 1 and warns in said[0], checked.stderr


@pytest.mark.parametrize("path, use, open_path, open_upstream, more, warns", [
    ("/admin", "nobody", "/{rest...}", "back", "", '"/admin/" go to the route "/{rest...}", those for "/admin"'),
    ("/a/{id}", "nobody", "/a/{rest...}", "back", "", '"/a/{id}/" go to the route "/a/{rest...}", those for "/a/{id}"'),
    ("/admin", "nobody", "/{rest...}", "front", "", None),
    ("/admin", "slow", "/{rest...}", "back", "", None),
    ("/admin", "nobody", "/other/{rest...}", "back", "", None),
    ("/admin", "nobody", "/admin/{rest...}", "back", "", '"/admin" go to the route "/admin", those for "/admin/{rest...}"'),
    ("/admin", "nobody", "/{rest...}", "back", '[[route]]\npath = "/admin/{rest...}"\nrespond = 404\n', None),
    ("/", "nobody", "/{rest...}", "back", "", None),
])
def test_a_guard_that_does_not_cover_a_trailing_slash_is_a_warning(tmp_path, path, use, open_path, open_upstream, more, warns):
    file = tmp_path / "sluice.toml"
    file.write_text(
        '[[upstream]]\nname = "back"\nservers = ["http://127.0.0.1:1"]\n'
        '[[upstream]]\nname = "front"\nservers = ["http://127.0.0.1:2"]\n'
        f'[[route]]\npath = "{open_path}"\nupstream = "{open_upstream}"\n'
        f'[[route]]\npath = "{path}"\nupstream = "back"\nuse = ["{use}"]\n{more}'
        '[policy.nobody]\ntype = "ip"\nallow = ["192.0.2.1"]\n[policy.slow]\ntype = "rate-limit"\nrate = "1/s"\n')
    checked = subprocess.run([SLUICE, "check", file], capture_output=True, text=True, timeout=20)
    assert checked.returncode == 0, checked.stderr
    said = [line for line in checked.stderr.splitlines() if "checks the client" in line]
    assert said == [] if warns is None else len(said) == 1 and warns in said[0], checked.stderr


@pytest.mark.parametrize("through", ["route", "auth-request"])
def test_a_loop_ends(sluice, tmp_path, through):
    file, port = tmp_path / "loop.toml", free_port()
    ask = 'use = ["ask"]\n[policy.ask]\ntype = "auth-request"\nupstream = "self"\npath = "/x"\n' if through != "route" else ""
    with Upstream(echo) as back:
        file.write_text('[server]\nlisten = ["127.0.0.1:${PORT}"]\n[admin]\nlisten = "${ADMIN}"\n'
                        f'[[upstream]]\nname = "self"\nservers = ["http://127.0.0.1:{port}"]\n'
                        f'[[upstream]]\nname = "back"\nservers = ["{back.url}"]\n'
                        f'[[route]]\npath = "/x"\nupstream = "self"\n{ask}'
                        '[[route]]\npath = "/twice"\nupstream = "self"\nrewrite = { match = ".*", to = "/once" }\n'
                        '[[route]]\npath = "/once"\nupstream = "self"\nrewrite = { match = ".*", to = "/there" }\n'
                        '[[route]]\npath = "/there"\nupstream = "back"\n')
        server = sluice(file=file, env={"PORT": str(port)})
        with Connection(port) as client:
            assert client.get("/x").status == (508 if through == "route" else 502)
            assert server.sample('sluice_upstream_requests_total{upstream="self"' + f',server="127.0.0.1:{port}"}}') == 3
            assert client.get("/twice", "Via: 1.1 other, 1.1 another").status == 200
        passed = [value for name, value in back.requests[0][2] if name == "via"]
        assert passed[0] == "1.1 other, 1.1 another" and len(passed) == 4 and len(set(passed)) == 2


def checked_routes(tmp_path, *routes):
    """What `check` says of routes to the upstream "back"."""
    file = tmp_path / "sluice.toml"
    file.write_text('[[upstream]]\nname = "back"\nservers = ["http://127.0.0.1:1"]\n'
                    '[[upstream]]\nname = "front"\nservers = ["http://127.0.0.1:2"]\n'
                    '[policy.nobody]\ntype = "ip"\nallow = ["192.0.2.1"]\n' +
                    "".join(f"[[route]]\n{route}\n" for route in routes))
    checked = subprocess.run([SLUICE, "check", file], capture_output=True, text=True, timeout=20)
    assert checked.returncode == 0, checked.stderr
    return [line for line in checked.stderr.splitlines() if "checks the client" in line]


GUARDED = 'path = "/admin/{rest...}"\nupstream = "back"\nuse = ["nobody"]'


@pytest.mark.parametrize("guarded, opens, warns", [
    (GUARDED, ['path = "/api/{rest...}"\nstrip = "/api"\nupstream = "back"'],
     ['requests for "/api/admin/1" go to the route "/api/{rest...}", and the upstream "back" gets "/admin/1"']),
    (GUARDED + '\nstrip = "/admin"', ['path = "/{rest...}"\nupstream = "back"'],
     ['"/admin" go to the route "/{rest...}", those for', 'requests for "/1" go to the route "/{rest...}"']),
    (GUARDED + '\nhost = "a.example"', ['path = "/{rest...}"\nupstream = "back"'],
     ['"/admin" go to the route "/{rest...}", those for', 'requests for "/admin/1" and other hosts go to the route "/{rest...}"']),
    (GUARDED + '\nhost = "a.example"', ['path = "/{rest...}"\nhost = "*.b.example"\nupstream = "back"'],
     ['requests for "/admin/1" and the host a.b.example go to the route "/{rest...}"']),
    # Another route guards the path.
    (GUARDED, ['path = "/api/{rest...}"\nstrip = "/api"\nupstream = "back"',
               'path = "/api/admin/{rest...}"\nstrip = "/api"\nupstream = "back"\nuse = ["nobody"]',
               'path = "/api/admin"\nrespond = 404'], []),
    (GUARDED, ['path = "/api/{rest...}"\nstrip = "/api"\nupstream = "front"'], []),
    (GUARDED, ['path = "/api/{rest...}"\nupstream = "back"'], []),
    (GUARDED, ['path = "/api/{id:int}"\nstrip = "/api"\nupstream = "back"'], []),
    (GUARDED, ['path = "/api/{rest...}"\nrewrite = { match = "a", to = "/b" }\nupstream = "back"'], []),
])
def test_an_open_route_that_reaches_a_guarded_path_is_a_warning(tmp_path, guarded, opens, warns):
    said = checked_routes(tmp_path, guarded, *opens)
    assert len(said) == len(warns) and all(one in line for one, line in zip(warns, said)), said


def test_a_head_that_comes_too_slowly_is_late(sluice):
    def drip(request, connection):
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nX-Long: ")
        while True:  # until the connection ends
            connection.sendall(b"x")
            time.sleep(0.02)

    with Upstream(drip) as back:
        server = sluice(gateway(back.url, upstream='response_timeout = "300ms"'))
        with server.connect() as client:
            assert [client.get("/").status, client.read().status] == [103, 504]
