"""Over HTTP/1.1, an error that needs no body is sent before the client has sent it; then the connection goes on, or is closed."""
import contextlib
import socket
import threading

import pytest

from cluster import free_port
from http1 import Broken
from test_gateway import gateway
from tokens import Secret
from upstream import Upstream, response

SECRET = Secret()
PATIENT = 'body_timeout = "1h"\n'  # so that an answer after this time would come too late for the test
POLICIES = f'''
[policy.token]
type = "jwt"
secret = "{SECRET.secret}"
[policy.elsewhere]
type = "ip"
allow = ["192.0.2.1"]
[policy.few]
type = "rate-limit"
rate = "1/d"
burst = 1
[policy.short]
type = "body-limit"
size = "4B"
'''
ROUTES = "".join(f'[[route]]\npath = "/{name}"\nupstream = "back"\nuse = ["{name}"]\n' for name in ("token", "elsewhere", "few", "short"))
FRAMINGS = {"length": (b"Content-Length: 11", [b"hello ", b"world"]),
            "chunks": (b"Transfer-Encoding: chunked", [b"6\r\nhello \r\n5", b"\r\nworld\r\n0\r\n\r\n"])}


class Hasty:
    """A server that answers as soon as it has read a header."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            received = b""
            while b"\r\n\r\n" not in received and (data := connection.recv(65536)):
                received += data
            connection.sendall(self.answer)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass


def expect_early(server, target, status, framing, body=None, closes=False):
    """`closes`: the answer may be long, so the connection ends with it."""
    field, pieces = FRAMINGS[framing]
    for sent in range(len(pieces)):
        with server.connect() as client:
            client.send(f"POST {target} HTTP/1.1\r\nHost: test\r\n".encode() + field + b"\r\n\r\n" + b"".join(pieces[:sent]))
            answer = client.read()
            assert (answer.status, answer.get("connection")) == (status, "close" if closes else None)
            assert body is None or answer.body == body
            client.send(b"".join(pieces[sent:]))
            if closes:
                client.assert_closed()
            else:
                assert client.get("/ready").body == b"ready", "the next request"


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("target, status", [("/token", 401), ("/elsewhere", 403), ("/nothing", 404), ("/few", 429)])
def test_a_refusal_does_not_wait_for_the_body(sluice, target, status, framing):
    with Upstream(lambda *_: response(b"ready")) as back:
        server = sluice(gateway(back.url, path="/ready", more=POLICIES + ROUTES), server=PATIENT)
        if target == "/few":
            assert server.get(target).status == 200
        expect_early(server, target, status, framing)
        assert {request[1] for request in back.requests} <= {"/ready", "/few"}


@pytest.mark.parametrize("framing, first", [("length", 0), ("chunks", 1)])
def test_a_body_that_is_too_long_is_refused_before_it_comes(sluice, framing, first):
    with Upstream(lambda *_: response(b"ready")) as back:
        server = sluice(gateway(back.url, path="/ready", more=POLICIES + ROUTES), server=PATIENT)
        field, pieces = FRAMINGS[framing]
        with server.connect() as client:
            client.send(b"POST /short HTTP/1.1\r\nHost: test\r\n" + field + b"\r\n\r\n" + b"".join(pieces[:first]))
            assert client.read().status == 413


@pytest.mark.parametrize("framing", FRAMINGS)
def test_the_answers_of_a_server_do_not_wait_for_the_body(sluice, framing):
    """502 if it cannot be reached, and its own answer if it does not wait for the body itself."""
    page = b"<p>no</p>" * 40_000
    hasty = [Hasty(response(b"no", status="403 Forbidden")),
             Hasty(b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n"),
             Hasty(response(page, status="403 Forbidden"))]
    routes = f'[[upstream]]\nname = "dead"\nservers = ["http://127.0.0.1:{free_port()}"]\n[[route]]\npath = "/dead"\nupstream = "dead"\n'
    for number, one in enumerate(hasty):
        routes += (f'[[upstream]]\nname = "hasty{number}"\nservers = ["{one.url}"]\n'
                   f'[[route]]\npath = "/hasty{number}"\nupstream = "hasty{number}"\n')
    with Upstream(lambda *_: response(b"ready")) as back:
        server = sluice(gateway(back.url, path="/ready", more=routes), server=PATIENT)
        expect_early(server, "/dead", 502, framing)
        expect_early(server, "/hasty0", 403, framing, body=b"no", closes=True)
        expect_early(server, "/hasty1", 403, framing, body=b"no", closes=True)
        expect_early(server, "/hasty2", 403, framing, body=page, closes=True)
    for one in hasty:
        one.close()


def test_a_client_that_does_not_read_before_it_has_sent_everything_gets_its_answer(sluice):
    """The body is longer than the buffers of both sockets."""
    hasty = Hasty(response(b"no", status="403 Forbidden"))
    body = b"b" * 1_000_000
    with Upstream(lambda *_: response(b"ready")) as back:
        server = sluice(gateway(back.url, path="/ready",
                                more=f'[[upstream]]\nname = "hasty"\nservers = ["{hasty.url}"]\n'
                                     f'[[route]]\npath = "/hasty"\nupstream = "hasty"\n'), server=PATIENT)
        for target, status in [("/hasty", 403), ("/nothing", 404)]:
            with server.connect() as client:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
                client.send(b"POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % (target.encode(), len(body)))
                client.send(body)
                assert client.read().status == status
                if status == 404:
                    assert client.get("/ready").body == b"ready"
    hasty.close()


def test_the_rest_of_a_body_may_not_take_long(sluice):
    server = sluice(gateway("http://127.0.0.1:1", path="/ready"), server='body_timeout = "1s"\n')
    with server.connect() as client:
        client.send("POST /nothing HTTP/1.1\r\nHost: test\r\nContent-Length: 11\r\n\r\nhello ")
        assert client.read().status == 404
        client.assert_closed()
    with server.connect() as client:
        client.send("POST /nothing HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert client.read().status == 404
        with pytest.raises((Broken, OSError)):
            while True:
                client.send(b"10000\r\n" + b"b" * 0x10000 + b"\r\n")
