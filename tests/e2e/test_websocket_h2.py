"""WebSocket over HTTP/2 (RFC 8441) through the real program: handshakes, parallel streams, closing, timeouts, wsproto."""
import os
import ssl
import time

import pytest

from certificates import tls_table
from http1 import Broken
from test_websocket import ECHO, SANITIZED, resident_kib
from websocket import BINARY, CLOSE, PING, PONG, TEXT, WebSocketOverHttp2, close_payload, frame

ENABLE_CONNECT_PROTOCOL = 8
CANCEL = 8


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


# ---- the handshake ----

def test_echo_and_close(sluice):
    server = sluice(ECHO, server='access_log = "stdout"')
    with WebSocketOverHttp2(server.port) as client:
        assert client.settings[ENABLE_CONNECT_PROTOCOL] == 1
        client.say(TEXT, "Grüße")
        got = client.frame()
        assert got.opcode == TEXT and got.payload.decode() == "Grüße"
        assert server.sample("sluice_websockets_open") == 1
        # The request ends with its answer: it is logged, and does not count as active.
        assert '"method":"CONNECT","target":"/echo"' in server.log and '"status":200' in server.log
        client.close_with(1000)
        assert client.ended and client.reset is None
    metrics = server.admin("/metrics")[1]
    assert 'http_request_method="CONNECT",http_route="/echo",http_response_status_code="200"' in metrics
    assert 'http_server_active_requests{http_request_method="CONNECT",url_scheme="http"} 0\n' in metrics
    assert "sluice_websockets_total 1\n" in metrics and "sluice_websockets_lost_total 0\n" in metrics
    assert server.log.count('"CONNECT"') == 1


def test_refusals_leave_the_connection(sluice, site):
    server = sluice(ECHO + f'[[files]]\npath = "/"\nroot = "{site}"\n')
    with WebSocketOverHttp2(server.port, open=False) as client:
        def refused(*fields, path="/echo", **how):
            client.path = path
            client.handshake(*fields, **how)
            answer = client.whole_answer()
            assert answer.media_type == "application/problem+json"
            return answer

        for version in ("8", None):
            answer = refused(ws_version=version)
            assert answer.status == 400 and answer.get("sec-websocket-version") == "13"
        assert refused(protocol="connect-udp").status == 501
        assert refused("Origin: http://evil.example").status == 403
        assert refused("Origin: http://test", "Origin: http://test").status == 403
        assert refused("Sec-WebSocket-Protocol: a b").status == 400
        assert refused("Sec-WebSocket-Extensions: =").status == 400
        assert refused("Content-Length: 5").status == 400
        assert refused(path="/").status == 405
        answer = refused(path="/hello.txt")
        assert answer.status == 405 and answer.get("allow") == "GET, HEAD, OPTIONS"
        for method in ("GET", "POST"):
            answer = refused(method=method, protocol=None, end=True)
            assert answer.status == 405 and answer.get("allow") == "CONNECT, OPTIONS"
        client.path = "/echo"
        client.handshake("Origin: http://test")
        client.say(TEXT, b"after all")
        assert client.frame().payload == b"after all"
    assert "GET, HEAD, OPTIONS" == server.get("/echo", method="POST").get("allow")


def test_unknown_paths(sluice):
    server = sluice(ECHO)
    with WebSocketOverHttp2(server.port, "/none", open=False) as client:
        assert client.handshake().status == 404


def test_connect_to_an_authority_is_for_proxies(sluice):
    server = sluice(ECHO)
    with WebSocketOverHttp2(server.port) as client, WebSocketOverHttp2(server.port, open=False, beside=client) as other:
        other.stream = client.connection.get_next_available_stream_id()
        client.clients[other.stream] = other
        client.connection.send_headers(other.stream, [(":method", "CONNECT"), (":authority", "test:80")])
        while other.answer is None:
            other.listen()
        assert other.answer.status == 501


def test_origins_subprotocols_and_compression(sluice):
    server = sluice(ECHO + 'origins = ["https://example.org"]\nprotocols = ["chat.v2", "chat"]\ncompression = "message"\n')
    fields = ("Origin: https://example.org", "Sec-WebSocket-Protocol: soap, chat, chat.v2",
              "Sec-WebSocket-Extensions: permessage-deflate")
    with WebSocketOverHttp2(server.port, "/echo", *fields) as client:
        assert client.answer.get("sec-websocket-protocol") == "chat"
        assert client.answer.get("sec-websocket-extensions").startswith("permessage-deflate")
        client.close_with(1000)


def test_frames_may_come_with_the_handshake(sluice):
    server = sluice(ECHO)
    with WebSocketOverHttp2(server.port, open=False) as client:
        assert client.handshake(early=frame(TEXT, b"early") + frame(PING, b"bird")).status == 200
        assert client.frame().payload == b"early"
        assert client.frame().opcode == PONG
        client.end()  # without a close frame
        with pytest.raises(Broken):
            client.frame()
        assert client.ended
    wait_for(lambda: server.sample("sluice_websockets_lost_total") == 1)


# ---- beside each other ----

def test_many_on_one_connection(sluice, site):
    server = sluice(ECHO + 'max_message = "4MiB"\n' + f'[[files]]\npath = "/"\nroot = "{site}"\n',
                    server="http2_streams = 100\nbody_limit = 1000")
    big = bytes(range(256)) * 8000
    (site / "large.bin").write_bytes(big)
    with WebSocketOverHttp2(server.port) as first:
        clients = [first] + [WebSocketOverHttp2(server.port, beside=first) for _ in range(59)]
        download = WebSocketOverHttp2(server.port, "/large.bin", open=False, beside=first)
        for turn in range(2):
            for n, client in enumerate(clients):
                client.say(TEXT, f"{turn} of {n}".encode() * (n + 1))
            for n, client in enumerate(clients):
                assert client.frame().payload == f"{turn} of {n}".encode() * (n + 1)
        download.handshake(method="GET", protocol=None, ws_version=None, end=True)
        assert download.answer.status == 200 and download.whole_answer().body == big
        clients[7].say(BINARY, big)  # longer than a request body may be, and than any window
        assert clients[7].frame().payload == big
        for client in clients:
            client.close_with(1000)
        assert server.sample("sluice_connections_total") == 1


def test_a_reset_is_that_conversations_own(sluice):
    server = sluice(ECHO)
    with WebSocketOverHttp2(server.port) as first:
        other = WebSocketOverHttp2(server.port, beside=first)
        other.say(TEXT, b"half a message", fin=False)
        other.cancel()
        first.say(TEXT, b"undisturbed")
        assert first.frame().payload == b"undisturbed"
        wait_for(lambda: server.sample("sluice_websockets_open") == 1)
        assert server.sample("sluice_websockets_lost_total") == 1
        again = WebSocketOverHttp2(server.port, beside=first)
        again.close_with(1001)
        first.close_with(1000)


def test_who_does_not_read_is_not_read_from(sluice):
    """An echo whose client opens no window: the server buffers a bounded part, and resets the stream in the end."""
    server = sluice(ECHO + 'write_timeout = "2s"\n')
    with WebSocketOverHttp2(server.port) as other:
        deaf = WebSocketOverHttp2(server.port, beside=other)
        deaf.takes = False
        before = resident_kib(server)
        with pytest.raises(OSError):
            for _ in range(1000):  # 60 MB if the server read it all
                deaf.send(frame(BINARY, bytes(60_000)))
        assert deaf.reset == CANCEL
        assert SANITIZED or resident_kib(server) - before < 5_000
        # The other streams need the connection's window, which the unread data has used up.
        other.connection.increment_flow_control_window(len(deaf.buffer))
        for _ in range(3):
            other.say(TEXT, b"undisturbed")
            assert other.frame().payload == b"undisturbed"
        other.close_with(1000)


# ---- keeping alive, and ends ----

def test_a_quiet_conversation_is_not_idle(sluice):
    server = sluice(ECHO, server='idle_timeout = "200ms"\nwrite_timeout = "200ms"\nheader_timeout = "200ms"\n'
                                 'body_timeout = "200ms"')
    with WebSocketOverHttp2(server.port) as client:
        time.sleep(1.5)
        client.say(TEXT, b"still here")
        assert client.frame().payload == b"still here"
        client.close_with(1000)
        client.end()
        while not client.goaways:  # the connection is idle now
            client.listen()


def test_silent_clients_are_pinged_and_cut(sluice):
    server = sluice(ECHO + 'ping_interval = "100ms"\npong_timeout = "2s"\n' + ECHO.replace("/echo", "/quiet") +
                    'ping_interval = "1h"\n')
    with WebSocketOverHttp2(server.port, "/quiet") as other:
        silent = WebSocketOverHttp2(server.port, beside=other)
        assert silent.frame().opcode == PING
        with pytest.raises(Broken):
            while True:
                assert silent.frame().opcode == PING
        other.say(TEXT, b"x")
        assert other.frame().payload == b"x"
        assert server.sample("sluice_websockets_lost_total") == 1


def test_sigterm_says_going_away(sluice):
    server = sluice(ECHO + 'close_timeout = "500ms"\n')
    with WebSocketOverHttp2(server.port) as first:
        silent = WebSocketOverHttp2(server.port, beside=first)
        server.terminate()
        assert first.frame().code == 1001
        first.say(CLOSE, close_payload(1001))
        first.assert_closed()
        first.end()
        assert silent.frame().code == 1001
        silent.assert_closed()
        while first.socket.fileno() >= 0 and len(first.goaways) < 2:
            first.listen()
        assert [code for code, _ in first.goaways] == [0, 0]
        assert first.goaways[-1][1] == silent.stream
    server.stop()


def test_a_client_that_vanishes(sluice):
    server = sluice(ECHO)
    for payload in (b"", frame(TEXT, b"half", fin=False), frame(BINARY, bytes(1000))[:500]):
        first = WebSocketOverHttp2(server.port)
        WebSocketOverHttp2(server.port, beside=first).send(payload)
        first.send(payload)
        first.close()
    wait_for(lambda: server.sample("sluice_websockets_lost_total") == 6)
    assert server.sample("sluice_websockets_open") == 0
    wait_for(lambda: server.sample("sluice_connections_open") == 0)


def test_many_idle_conversations(sluice):
    server = sluice(ECHO, server="cores = 1")

    def open_some(count):
        first = WebSocketOverHttp2(server.port)
        clients = [first] + [WebSocketOverHttp2(server.port, beside=first) for _ in range(count - 1)]
        for client in clients:  # each was busy once
            client.say(TEXT, b"x" * 5000)
            assert len(client.frame().payload) == 5000
        return clients

    clients = open_some(50)
    before = resident_kib(server)
    for _ in range(10):
        clients += open_some(50)
    grown = resident_kib(server) - before
    print(f"{grown * 1024 / 500:.0f} bytes for each idle conversation, its part of the connection included")
    assert SANITIZED or grown < 500 * 8
    for client in clients:
        client.close()


# ---- with others ----

@pytest.mark.parametrize("compression", ("off", "message", "connection"))
def test_wsproto_over_tls(sluice, localhost, authority, compression):
    from wsproto import ConnectionType, events, extensions
    from wsproto.connection import Connection
    server = sluice(ECHO + f'compression = "{compression}"\n', server=tls_table(localhost))
    context = ssl.create_default_context(cafile=authority.ca)
    context.set_alpn_protocols(["h2"])
    deflate = extensions.PerMessageDeflate()
    offer = deflate.offer()
    with WebSocketOverHttp2(server.port, "/echo", "Origin: https://test",
                            f"Sec-WebSocket-Extensions: permessage-deflate{'; ' + offer if isinstance(offer, str) else ''}",
                            tls=context) as carrier:
        agreed = carrier.answer.get("sec-websocket-extensions")
        assert (agreed is not None) == (compression != "off")
        if agreed:
            deflate.finalize(agreed)
        client = Connection(ConnectionType.CLIENT, [deflate] if agreed else [])

        def receive():
            while True:
                for event in client.events():
                    yield event
                if not carrier.buffer:
                    carrier._more()
                data, carrier.buffer = carrier.buffer, b""
                client.receive_data(data)

        heard = receive()
        for n in range(20):
            text = f"message {n} " * 200
            carrier.send(client.send(events.TextMessage(data=text[:700], message_finished=False)) +
                         client.send(events.Ping(payload=b"%d" % n)) + client.send(events.TextMessage(data=text[700:])))
            answer, pong, whole = "", None, False
            while not (whole and pong):
                event = next(heard)
                if isinstance(event, events.Pong):
                    pong = event.payload
                else:
                    answer += event.data
                    whole = event.message_finished
            assert answer == text and pong == b"%d" % n
        data, got = os.urandom(500_000), b""
        carrier.send(client.send(events.BytesMessage(data=data)))
        while len(got) < len(data):
            got += bytes(next(heard).data)
        assert got == data
        carrier.send(client.send(events.CloseConnection(code=1000, reason="done")))
        event = next(heard)
        while not isinstance(event, events.CloseConnection):
            event = next(heard)
        assert event.code == 1000
        carrier.assert_closed()
