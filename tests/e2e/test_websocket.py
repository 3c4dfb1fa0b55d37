"""WebSocket through the real program: handshakes, wsproto as a client, keep-alive, timeouts, draining."""
import os
import pathlib
import socket
import ssl
import subprocess
import time

import pytest

from conftest import SLUICE
from http1 import Broken
from tokens import Secret, soon
from websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, WebSocket, close_payload, frame

ECHO = '[[websocket]]\npath = "/echo"\nhandler = "echo"\n'
RSS_LINE = "VmRSS:"


SANITIZED = b"__asan_init" in pathlib.Path(SLUICE).read_bytes()  # then memory says nothing about the server's own use


def resident_kib(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith(RSS_LINE)).split()[1])


def refusal(server, *fields, **how):
    with WebSocket(server.port, open=False) as client:
        answer = client.handshake(*fields, **how)
        assert answer.status != 101
        return answer


def test_a_conversation_ends_with_its_token(sluice):
    secret = Secret()
    server = sluice(f'[policy.auth]\ntype = "jwt"\nsecret = "{secret.secret}"\nleeway = "0s"\n{ECHO}use = ["auth"]\n')

    def bearer(**claims):
        return f"Authorization: Bearer {secret.token(soon(**claims))}"
    with WebSocket(server.port, "/echo", bearer()) as lasting:
        with WebSocket(server.port, "/echo", bearer(exp=time.time() + 1.2)) as client:
            client.say(TEXT, "a")
            assert client.frame().payload == b"a"
            end = client.frame()
            assert (end.opcode, end.code) == (CLOSE, 4401)
        lasting.say(TEXT, "b")
        assert lasting.frame().payload == b"b"


# ---- the handshake ----

def test_echo_and_close(sluice):
    server = sluice(ECHO)
    with WebSocket(server.port) as client:
        client.say(TEXT, "Grüße")
        got = client.frame()
        assert got.opcode == TEXT and got.payload.decode() == "Grüße"
        client.close_with(1000)
    metrics = server.admin("/metrics")[1]
    assert 'http_response_status_code="101"' in metrics and 'http_route="/echo"' in metrics
    for sample in ('sluice_websockets_total 1', 'sluice_websockets_lost_total 0',
                   'sluice_websocket_messages_total{direction="received"} 1',
                   'sluice_websocket_messages_total{direction="sent"} 1',
                   'sluice_websocket_message_bytes_total{direction="sent"} 7'):
        assert sample + "\n" in metrics, sample


def test_plain_requests_hear_that_an_upgrade_is_required(sluice):
    server = sluice(ECHO)
    for how in ({"upgrade": False}, {"ws_version": "8"}, {"ws_version": None}, {"version": "HTTP/1.0"}):
        answer = refusal(server, **how)
        assert answer.status == 426, how
        assert answer.get("sec-websocket-version") == "13"
        assert answer.get("upgrade") == "websocket"
        assert answer.media_type == "application/problem+json"
    assert refusal(server, method="HEAD").status == 426
    assert refusal(server, method="POST").status == 405


def test_a_refused_handshake_leaves_the_connection(sluice):
    server = sluice(ECHO)
    with WebSocket(server.port, open=False) as client:
        assert client.handshake(ws_version="8").status == 426
        assert client.handshake().status == 101
        client.say(TEXT, b"after all")
        assert client.frame().payload == b"after all"


def test_malformed_handshakes(sluice):
    server = sluice(ECHO)
    assert refusal(server, key="").status == 400
    assert refusal(server, key="too short").status == 400
    assert refusal(server, "Sec-WebSocket-Protocol: a b").status == 400
    assert refusal(server, "Sec-WebSocket-Extensions: =").status == 400
    # A request with a body cannot change the protocol.
    assert refusal(server, "Content-Length: 5", early=b"hello").status == 426


def test_origins(sluice):
    server = sluice(ECHO + '[[websocket]]\npath = "/listed"\nhandler = "echo"\norigins = ["https://example.org"]\n'
                    '[[websocket]]\npath = "/any"\nhandler = "echo"\norigins = ["*"]\n')

    def status(path, origin, host="test"):
        with WebSocket(server.port, path, open=False) as client:
            return client.handshake(*([f"Origin: {origin}"] if origin else []), host=host).status

    assert status("/echo", None) == 101
    assert status("/echo", "http://test") == 101
    assert status("/echo", "https://test:8443", host="test:8443") == 101
    assert status("/echo", "http://evil.example") == 403
    assert status("/echo", "null") == 403
    assert status("/listed", "https://example.org") == 101
    assert status("/listed", "http://test") == 403
    assert status("/any", "http://evil.example") == 101


def test_subprotocols(sluice):
    server = sluice(ECHO + 'protocols = ["chat.v2", "chat"]\n')
    with WebSocket(server.port, "/echo", "Sec-WebSocket-Protocol: soap, chat, chat.v2") as client:
        assert client.answer.get("sec-websocket-protocol") == "chat"
    with WebSocket(server.port, "/echo", "Sec-WebSocket-Protocol: soap") as client:
        assert client.answer.get("sec-websocket-protocol") is None


def test_frames_may_come_with_the_handshake(sluice):
    server = sluice(ECHO)
    with WebSocket(server.port, open=False) as client:
        assert client.handshake(early=frame(TEXT, b"early") + frame(PING, b"bird")).status == 101
        assert client.frame().payload == b"early"
        assert client.frame().opcode == PONG


def test_after_other_requests_on_the_same_connection(sluice, site):
    server = sluice(ECHO + f'[[files]]\npath = "/"\nroot = "{site}"\n')
    with WebSocket(server.port, open=False) as client:
        assert client.get("/hello.txt").status == 200
        client.send("GET /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n")
        assert client.read().body == b"Hello, world.\n"
        client.send("GET /hello.txt HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n")
        answer = client.read()  # the upgrade is ignored (RFC 9110, 7.8)
        assert answer.status == 200 and answer.body == b"Hello, world.\n" and answer.get("upgrade") is None
        assert client.handshake().status == 101
        client.close_with(1001)


def test_over_tls(sluice, tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out",
                    certificate], check=True, capture_output=True)
    server = sluice(ECHO, server=f'[server.tls]\ncert = "{certificate}"\nkey = "{key}"\n')
    context = ssl.create_default_context(cafile=certificate)
    with WebSocket(server.port, "/echo", "Origin: https://test", tls=context) as client:
        for size in (0, 5, 1000, 16384, 100_000):
            # Several messages in one TLS record, and one message in several records.
            client.send(frame(BINARY, b"a" * size) + frame(PING) + frame(BINARY, b"b" * size))
            assert client.frame().payload == b"a" * size
            assert client.frame().opcode == PONG
            assert client.frame().payload == b"b" * size
        for byte in frame(TEXT, b"byte by byte"):
            client.send(bytes([byte]))
        assert client.frame().payload == b"byte by byte"
        client.close_with(1000)
    with WebSocket(server.port, "/echo", tls=context) as client:
        server.terminate()
        assert client.frame().code == 1001
        client.say(CLOSE, close_payload(1001))
        client.assert_closed()
    server.stop()


# ---- with another implementation ----

@pytest.mark.parametrize("compression", ("off", "message", "connection"))
def test_wsproto(sluice, compression):
    import wsproto
    from wsproto import events, extensions
    server = sluice(ECHO + f'compression = "{compression}"\n')
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        client = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        deflate = extensions.PerMessageDeflate()
        connection.sendall(client.send(events.Request(host="test", target="/echo", extensions=[deflate])))
        got = []

        def receive():
            while not got:
                client.receive_data(connection.recv(65536) or None)
                got.extend(client.events())
            return got.pop(0)

        assert isinstance(receive(), events.AcceptConnection)
        assert deflate.enabled() == (compression != "off")
        for n in range(20):
            text = f"message {n} " * 200
            connection.sendall(client.send(events.TextMessage(data=text[:700], message_finished=False)) +
                               client.send(events.Ping(payload=b"%d" % n)) +
                               client.send(events.TextMessage(data=text[700:])))
            answer, pong = "", None
            while True:
                event = receive()
                if isinstance(event, events.Pong):
                    pong = event.payload
                else:
                    answer += event.data
                    if event.message_finished:
                        break
            assert answer == text and pong == b"%d" % n
        connection.sendall(client.send(events.BytesMessage(data=os.urandom(100_000))))
        size = 0
        while True:
            event = receive()
            size += len(event.data)
            if event.message_finished:
                break
        assert size == 100_000
        connection.sendall(client.send(events.CloseConnection(code=1000, reason="done")))
        event = receive()
        assert isinstance(event, events.CloseConnection) and event.code == 1000


# ---- keeping alive, and ends ----

def test_silent_clients_are_pinged_and_cut(sluice):
    server = sluice(ECHO + 'ping_interval = "100ms"\npong_timeout = "2s"\n')
    with WebSocket(server.port) as silent, WebSocket(server.port) as answering:
        for _ in range(5):
            got = answering.frame()
            assert got.opcode == PING
            answering.say(PONG, got.payload)
        with pytest.raises(Broken):
            while True:
                assert silent.frame().opcode == PING
        # The answering client may have been too slow by now, so this uses a new one.
    with WebSocket(server.port) as client:
        client.say(TEXT, b"x")
        while (got := client.frame()).opcode == PING:
            pass
        assert got.payload == b"x"


def test_sigterm_says_going_away(sluice):
    server = sluice(ECHO)
    with WebSocket(server.port) as idle, WebSocket(server.port) as busy, WebSocket(server.port) as within:
        busy.say(TEXT, b"before")
        assert busy.frame().payload == b"before"
        within.say(TEXT, b"half a message", fin=False)
        server.terminate()
        for client in (idle, busy, within):
            got = client.frame()
            assert got.opcode == CLOSE and got.code == 1001
            client.say(CLOSE, close_payload(1001))
            client.assert_closed()
    server.stop()


def test_sigterm_ends_for_those_who_do_not_answer(sluice):
    server = sluice(ECHO + 'close_timeout = "200ms"\n')
    with WebSocket(server.port) as client:
        server.terminate()
        assert client.frame().code == 1001
        client.assert_closed()
    server.stop()


def test_a_client_that_vanishes(sluice):
    server = sluice(ECHO)
    for payload in (b"", frame(TEXT, b"half", fin=False), frame(BINARY, bytes(1000))[:500]):
        client = WebSocket(server.port)
        client.send(payload)
        client.close()
    with WebSocket(server.port) as client:
        client.close_with(1000)


def test_who_does_not_read_is_not_read_from(sluice):
    """An echo whose client only sends: the server buffers a bounded part, and cuts the connection in the end."""
    server = sluice(ECHO + 'write_timeout = "1s"\nping_interval = "10m"\n')
    before = resident_kib(server)
    with WebSocket(server.port) as client, WebSocket(server.port) as other:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        data = frame(BINARY, bytes(60_000)) * 20
        with pytest.raises(OSError):
            for _ in range(1000):  # 1.2 GB if the server read it all
                client.send(data)
        assert SANITIZED or resident_kib(server) - before < 20_000
        other.say(TEXT, b"undisturbed")
        assert other.frame().payload == b"undisturbed"


def test_many_idle_connections(sluice):
    server = sluice(ECHO, server="cores = 1")
    clients = [WebSocket(server.port) for _ in range(10)]
    before = resident_kib(server)
    clients += [WebSocket(server.port) for _ in range(500)]
    for client in clients:  # each was busy once
        client.say(TEXT, b"x" * 5000)
        assert len(client.frame().payload) == 5000
    grown = resident_kib(server) - before
    print(f"{grown * 1024 / 500:.0f} bytes for each idle connection")
    assert SANITIZED or grown < 500 * 5
    for client in clients:
        client.close()
