"""WebSockets and other upgrades through a route: real servers, clients over HTTP/1.1, HTTP/2 and TLS."""
import os
import pathlib
import socket
import ssl
import threading
import time
import zlib

import pytest

from certificates import tls_table
from http1 import Broken
from test_gateway import gateway, wait_until
from test_reload import reload
from test_websocket import SANITIZED
from tokens import Secret
from upstream import Upstream, change_protocol, response, websocket_echo
from websocket import BINARY, CONTINUATION, PING, PONG, TEXT, WebSocket, WebSocketOverHttp2, WsprotoWebSocket

RESET = b"\1\0\0\0\0\0\0\0"  # SO_LINGER: close() resets


def opened(server, back):
    return server.sample(f'sluice_upstream_tunnels{{upstream="back",server="{back.name}"}}')


def message(client):
    """A whole message; the gateway may split it into other frames than the client sent."""
    frames = [client.frame()]
    while not frames[-1].fin:
        frames.append(client.frame())
    return b"".join(one.payload for one in frames)


def insecure():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.fixture(params=["h1", "wss", "h2", "h2-tls"])
def connect(request, localhost):
    """connect.config configures the server; connect(server, *fields, path=...) opens a WebSocket."""
    tls = request.param in ("wss", "h2-tls")

    def open_one(server, *fields, path="/chat", **how):
        kind = WebSocketOverHttp2 if "h2" in request.param else WebSocket
        context = insecure() if tls else None
        if tls:
            context.set_alpn_protocols(["h2" if "h2" in request.param else "http/1.1"])
        return kind(server.port, path, *fields, tls=context, **how)

    open_one.config = tls_table(localhost) if tls else ""
    open_one.is_http2 = "h2" in request.param
    return open_one


def test_messages_pass_both_ways(sluice, connect):
    with Upstream(websocket_echo) as back:
        server = sluice(gateway(back.url), server=connect.config)
        with connect(server, "Sec-WebSocket-Protocol: chat, other", "Origin: https://a.example", path="/chat?room=1") as client:
            assert client.answer.get("sec-websocket-protocol") == "chat"
            assert client.answer.get("sec-websocket-extensions") is None
            for text in ("Grüße", "x" * 70_000):
                client.say(TEXT, text)
                assert message(client).decode() == text
            client.say(TEXT, b"in ", fin=False)
            client.say(CONTINUATION, b"parts")
            assert message(client) == b"in parts"
            client.say(PING, b"still there?")
            assert client.frame().opcode == PONG
            assert opened(server, back) == 1
            client.close_with(1000)
            if connect.is_http2:
                client.end()  # ends this side of the stream; the HTTP/1.1 client closes its connection
        wait_until(lambda: opened(server, back) == 0)
        method, target, fields, _ = back.requests[0]
        assert (method, target) == ("GET", "/chat?room=1")
        assert sorted(value for name, value in fields if name in ("upgrade", "connection", "origin", "sec-websocket-version")) == \
            ["13", "Upgrade", "https://a.example", "websocket"]
        assert len([name for name, _ in fields if name == "sec-websocket-key"]) == 1
        assert dict(fields)["x-forwarded-proto"] == ("https" if connect.config else "http")


def test_long_messages_pass_both_ways(sluice, connect):
    long = os.urandom(3_000_000)
    with Upstream(websocket_echo) as back:
        server = sluice(gateway(back.url), server=connect.config)
        with connect(server, timeout=60) as client:
            def say():
                for _ in range(3):
                    client.say(BINARY, long)

            got = bytearray()
            if connect.is_http2:
                say()  # reads while it sends
            else:
                thread = threading.Thread(target=say)  # so that one side can read while the other one sends
                thread.start()
            for _ in range(3):
                got += message(client)
            assert got == 3 * long


def test_compression_is_between_the_ends(sluice, connect):
    with Upstream(websocket_echo) as back:
        server = sluice(gateway(back.url), server=connect.config)
        with connect(server, "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits") as client:
            assert client.answer.get("sec-websocket-extensions").startswith("permessage-deflate")
            text = b"many words " * 1000
            deflate = zlib.compressobj(wbits=-15)
            client.say(TEXT, (deflate.compress(text) + deflate.flush(zlib.Z_SYNC_FLUSH))[:-4], rsv=4)
            got = client.frame()
            assert got.rsv == 4 and len(got.payload) < 1000
            assert zlib.decompressobj(wbits=-15).decompress(got.payload + b"\0\0\xff\xff") == text


def test_wsproto_at_both_ends(sluice):
    with Upstream(websocket_echo) as back:
        server = sluice(gateway(back.url))
        with WsprotoWebSocket(server.port, "/chat") as client:
            client.say(TEXT, "hello")
            assert client.frame().payload == b"hello"
            client.close_with(1000)


def test_a_refusal_is_passed_on(sluice, connect):
    refusals = {"/403": "403 Forbidden", "/401": "401 Unauthorized", "/302": "302 Found", "/426": "426 Upgrade Required"}
    with Upstream(lambda request, _: response(b"no", "X-Why: because", status=refusals[request[1]])) as back:
        server = sluice(gateway(back.url), server=connect.config)
        with connect(server, open=False) as client:
            for path, status in refusals.items():
                client.path = path
                answer = client.handshake()
                if connect.is_http2:
                    answer = client.whole_answer()
                assert (answer.status, answer.body, answer.get("x-why")) == (int(status[:3]), b"no", "because")


def test_a_server_without_websockets(sluice):
    """For an HTTP/2 client a 200 would mean that its WebSocket is open."""
    with Upstream(lambda *_: response(b"page")) as back:
        server = sluice(gateway(back.url))
        with WebSocketOverHttp2(server.port, "/", open=False) as client:
            client.handshake()
            assert client.whole_answer().status == 502
            client.handshake(protocol="connect-udp")
            assert client.whole_answer().status == 501
        with WebSocket(server.port, "/", open=False) as client:
            assert client.handshake().body == b"page"


def test_no_request_is_smuggled(sluice):
    """The bytes after a refused upgrade are a request of their own, with its own route and policies."""
    inner = b"GET /admin HTTP/1.1\r\nHost: test\r\n\r\n"
    with Upstream(lambda request, _: response(request[1].encode())) as back:
        server = sluice(gateway(back.url) + '[[route]]\npath = "/admin"\nupstream = "back"\nuse = ["auth"]\n'
                        f'[policy.auth]\ntype = "jwt"\nsecret = "{Secret().secret}"\n')
        for ws_version in ("13", "777"):
            with WebSocket(server.port, "/chat", open=False) as client:
                assert client.handshake(early=inner, ws_version=ws_version).body == b"/chat"
                assert client.read().status == 401
        with server.connect() as client:
            client.send(b"GET /chat HTTP/1.1\r\nHost: test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                        b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + inner)
            assert client.read().body == b"/chat" and client.read().status == 401
        assert {request[1] for request in back.requests} == {"/chat"}
        assert "upgrade" not in dict(back.requests[-1][2])


def test_listed_protocols_may_be_tunnelled(sluice):
    def shout(request, connection):
        change_protocol(request, connection, protocol="shout/1")
        while data := connection.recv(1000):
            connection.sendall(data.upper())
        connection.sendall(b"(the end)")  # the client has ended its side, and ours is still open

    with Upstream(shout) as back:
        server = sluice(gateway(back.url, route='upgrade = ["websocket", "Shout/1"]'))
        with server.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\nUpgrade: shout/1\r\n\r\nfirst words")
            assert client.read().status == 101
            assert client._exactly(11) == b"FIRST WORDS"
            client.shut_sending()
            assert client.rest() == b"(the end)"
        wait_until(lambda: opened(server, back) == 0)


@pytest.mark.parametrize("listed", ["", "upgrade = []", 'upgrade = ["tcp"]'])
def test_protocols_that_are_not_listed(sluice, connect, listed):
    with Upstream(lambda request, _: response(request[1].encode())) as back:
        server = sluice(gateway(back.url, route=listed), server=connect.config)
        with connect(server, open=False) as client:
            answer = client.handshake()
            if connect.is_http2:
                answer = client.whole_answer()
            if listed:
                assert answer.status == 501
            else:  # a WebSocket may pass, but the server has none
                assert answer.status == (502 if connect.is_http2 else 200)
        with connect(server, open=False) as client:
            if not connect.is_http2:
                client.send(b"GET /plain HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\nUpgrade: shout/1\r\n\r\n")
                assert client.read().body == b"/plain"
                assert "upgrade" not in dict(back.requests[-1][2])
        assert [request[1] for request in back.requests] == ["/chat"] * (not listed) + ["/plain"] * (not connect.is_http2)


def test_policies_guard_it(sluice, connect):
    secret = Secret()
    with Upstream(websocket_echo) as back:
        server = sluice(gateway(back.url, route='use = ["auth"]') +
                        f'[policy.auth]\ntype = "jwt"\nsecret = "{secret.secret}"\nleeway = "0s"\n', server=connect.config)
        with connect(server, open=False) as client:
            answer = client.handshake()
            assert answer.status == 401
        assert not back.requests
        token = secret.token({"sub": "ada", "exp": int(time.time()) + 3})
        with connect(server, f"Authorization: Bearer {token}") as client:
            client.say(TEXT, "in time")
            assert client.frame().payload == b"in time"
            client.assert_closed()  # when the token expires
        wait_until(lambda: opened(server, back) == 0)


def test_a_client_that_vanishes(sluice, connect):
    left = threading.Event()

    def answer(request, connection):
        try:
            websocket_echo(request, connection)
        finally:
            left.set()

    with Upstream(answer) as back:
        server = sluice(gateway(back.url), server=connect.config)
        with connect(server) as client:
            client.say(TEXT, "here")
            assert client.frame().payload == b"here"
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        assert left.wait(20)
        wait_until(lambda: opened(server, back) == 0)


def test_a_server_that_vanishes(sluice, connect):
    def answer(request, connection):
        change_protocol(request, connection)
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    with Upstream(answer) as back:
        server = sluice(gateway(back.url), server=connect.config)
        with connect(server) as client:
            client.say(TEXT, "go")
            # Python's ssl reports a reset as the end.
            with pytest.raises(Broken, match="reset|closed" if isinstance(client.socket, ssl.SSLSocket) else "reset"):
                client.frame()
        wait_until(lambda: opened(server, back) == 0)


def peak_kib(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1])


@pytest.mark.parametrize("slow", ["client", "server"])
def test_a_slow_reader_costs_little_memory(sluice, slow):
    """One side sends much more than sockets hold and the other one does not read, so the sender has to wait."""
    blocks, block = 2500, b"x" * 40_000
    stuck, reads = threading.Event(), threading.Event()

    def send(sender):
        sender.settimeout(2)
        for _ in range(blocks):
            rest = memoryview(block)
            while rest:
                try:
                    rest = rest[sender.send(rest):]
                except TimeoutError:
                    stuck.set()
                    reads.wait(60)

    def receive(receiver, have=0):
        receiver.settimeout(60)
        left = blocks * len(block) - have
        while left:
            got = receiver.recv(1 << 20)
            assert got and got.count(b"x") == len(got)
            left -= len(got)

    done = threading.Event()

    def answer(request, connection):
        change_protocol(request, connection, protocol="bytes")
        if slow == "client":
            send(connection)
        else:
            reads.wait(60)
            receive(connection)
        done.set()

    with Upstream(answer) as back:
        server = sluice(gateway(back.url, route='upgrade = ["bytes"]'), server="cores = 1")
        with server.connect() as client:
            client.send(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\nUpgrade: bytes\r\n\r\n")
            assert client.read().status == 101
            before = peak_kib(server)
            other = threading.Thread(target=send if slow == "server" else lambda _: None, args=(client.socket,))
            other.start()
            assert stuck.wait(60), "everything was taken"
            reads.set()
            if slow == "client":
                receive(client.socket, len(client.buffer))
            assert done.wait(60)
            other.join()
            assert SANITIZED or peak_kib(server) - before < 8_000


def test_silence_ends_it(sluice, connect):
    with Upstream(websocket_echo) as back:
        server = sluice(gateway(back.url, upstream='tunnel_timeout = "1s"'), server=connect.config)
        with connect(server) as client:
            client.say(TEXT, "one")
            assert client.frame().payload == b"one"
            client.assert_closed()
        wait_until(lambda: not back.open)


def test_reload_cuts_only_what_is_gone(sluice, connect):
    policy = '[policy.web]\ntype = "cors"\norigins = ["https://{}.example"]\n'
    with Upstream(websocket_echo) as back, Upstream(websocket_echo) as other:
        more = (f'[[upstream]]\nname = "other"\nservers = ["{other.url}"]\n'
                '[[route]]\npath = "/other"\nupstream = "other"\n'
                '[[route]]\npath = "/guarded"\nupstream = "back"\nuse = ["web"]\n'
                '[[route]]\npath = "/goes"\nupstream = "back"\n')
        server = sluice(gateway(back.url, path="/chat") + more + policy.format("a"),
                        server='cores = 2\ngrace = "1s"\n' + connect.config)
        clients = {path: connect(server, path=path) for path in ("/chat", "/other", "/guarded", "/goes")}

        def talk(path):
            clients[path].say(TEXT, path)
            assert clients[path].frame().payload.decode() == path

        for path in clients:
            talk(path)
        text = server.file.read_text()
        server.file.write_text(text + "[server.headers]\nX-A = \"1\"\n")
        assert reload(server)[0] == 200
        for path in clients:
            talk(path)
        text = text.replace('[[route]]\npath = "/goes"\nupstream = "back"\n', "").replace("https://a", "https://b")
        server.file.write_text(text.replace('name = "other"\n', 'name = "other"\nkeep = 3\n'))
        assert reload(server)[0] == 200
        for path in ("/other", "/guarded", "/goes"):
            clients[path].assert_closed()
        talk("/chat")
        assert opened(server, back) == 1
        clients["/chat"].close()


def test_reload_cuts_those_of_a_server_that_is_removed(sluice, connect):
    with Upstream(websocket_echo) as back, Upstream(websocket_echo) as other:
        server = sluice(gateway(back.url), server='cores = 2\ngrace = "1s"\n' + connect.config)
        with connect(server) as client:
            client.say(TEXT, "before")
            assert client.frame().payload == b"before"
            text = server.file.read_text()
            added = text.replace(f'"{back.url}"', f'"{back.url}", "{other.url}"')
            assert added != text
            server.file.write_text(added)
            assert reload(server)[0] == 200
            client.say(TEXT, "after")
            assert client.frame().payload == b"after", "its server stays"
            assert opened(server, back) == 1
            server.file.write_text(text.replace(back.url, other.url))
            assert reload(server)[0] == 200
            client.assert_closed()
        wait_until(lambda: not back.open)
        wait_until(lambda: back.name not in server.admin("/metrics")[1])
        with connect(server) as client:
            client.say(TEXT, "new")
            assert client.frame().payload == b"new"


def test_shutdown_waits_for_the_grace_only(sluice, connect):
    with Upstream(websocket_echo) as back:
        server = sluice(gateway(back.url), server='grace = "2s"\n' + connect.config)
        with connect(server) as client:
            server.terminate()
            wait_until(lambda: server.admin("/readyz")[0] != 200)
            client.say(TEXT, "still")
            assert client.frame().payload == b"still"
            client.assert_closed()
        server.stop()


def test_a_connection_that_was_kept_is_not_trusted(sluice):
    """A WebSocket is a GET: if the kept connection has just been closed, it is sent again on a new one."""
    def answer(request, connection):
        if request[1] == "/page":
            connection.sendall(response(b"page"))
            go.wait(20)
            return None  # closes the connection after the next request was sent
        return websocket_echo(request, connection)

    go = threading.Event()
    with Upstream(answer) as back:
        server = sluice(gateway(back.url), server="cores = 1")
        assert server.get("/page").body == b"page"
        # The server behind closes without reading the request.
        with WebSocketOverHttp2(server.port, "/chat", open=False) as client:
            threading.Timer(0.2, go.set).start()
            assert client.handshake().status == 200
            client.say(TEXT, "hello")
            assert client.frame().payload == b"hello"
        assert back.connections == 2
