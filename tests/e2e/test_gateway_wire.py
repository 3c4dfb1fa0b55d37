"""What passes through the gateway beside head and body: interim responses, trailers, and methods."""
import socket
import threading

import pytest

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
