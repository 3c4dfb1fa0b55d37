"""WebSocket clients over HTTP/1.1 and HTTP/2. They send exactly what a test says, and check the server against RFC 6455 and
8441."""
import base64
import hashlib
import os
import struct

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import wsproto
import wsproto.events
import wsproto.frame_protocol

from http1 import Broken, Connection, Response
from http2 import GOAWAY

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def header(opcode, size, fin=True, rsv=0, mask=b"\x9a\x3c\x51\xe7", form=None):
    """A frame's header. `form` forces a length field of 7, 16 or 64 bits; mask=None: the frame is not masked."""
    form = form or (7 if size < 126 else 16 if size < 65536 else 64)
    masked = 0x80 if mask is not None else 0
    first = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    if form == 7:
        length = bytes([masked | size])
    elif form == 16:
        length = bytes([masked | 126]) + struct.pack("!H", size)
    else:
        length = bytes([masked | 127]) + struct.pack("!Q", size)
    return first + length + (mask or b"")


def apply_mask(payload, mask):
    if not payload:
        return b""
    key = (mask * (len(payload) // 4 + 1))[:len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(len(payload), "big")


def frame(opcode, payload=b"", fin=True, rsv=0, mask=b"\x9a\x3c\x51\xe7", form=None):
    """One frame as a client sends it."""
    payload = payload.encode() if isinstance(payload, str) else payload
    body = payload if mask is None else apply_mask(payload, mask)
    return header(opcode, len(payload), fin, rsv, mask, form) + body


def close_payload(code, reason=b""):
    return struct.pack("!H", code) + (reason.encode() if isinstance(reason, str) else reason)


class Frame:
    def __init__(self, fin, rsv, opcode, payload):
        self.fin, self.rsv, self.opcode, self.payload = fin, rsv, opcode, payload

    @property
    def code(self):
        """The code of a close frame; None if it has none."""
        assert self.opcode == CLOSE, self
        return struct.unpack("!H", self.payload[:2])[0] if self.payload else None

    def __repr__(self):
        return f"Frame(fin={self.fin}, rsv={self.rsv}, opcode={self.opcode}, {len(self.payload)}: {self.payload[:40]!r})"


class WebSocket(Connection):
    """A connection that makes the handshake, unless open=False; then handshake() does. `tls`: an ssl.SSLContext."""

    def __init__(self, port, path="/echo", *fields, timeout=20, open=True, tls=None):
        super().__init__(port, timeout)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.path = path
        self.answer = None
        if open:
            self.answer = self.handshake(*fields)
            assert self.answer.status == 101, self.answer.status

    def handshake(self, *fields, method="GET", version="HTTP/1.1", key=None, upgrade=True, ws_version="13", host="test",
                  early=b""):
        """Makes the handshake, and checks the answer if it is 101. A part that is None or False is left out."""
        if key is None:
            key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"{method} {self.path} {version}", f"Host: {host}"]
        if upgrade:
            lines += ["Upgrade: websocket", "Connection: Upgrade"]
        if key:
            lines.append(f"Sec-WebSocket-Key: {key}")
        if ws_version:
            lines.append(f"Sec-WebSocket-Version: {ws_version}")
        self.send("\r\n".join([*lines, *fields]).encode() + b"\r\n\r\n" + early)
        answer = self.read(head=method == "HEAD")
        if answer.status == 101:
            expected = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
            assert answer.get("sec-websocket-accept") == expected.decode()
            assert answer.get("upgrade").lower() == "websocket"
            assert answer.get("connection").lower() == "upgrade"
            assert answer.get("content-length") is None
        return answer

    def frame(self):
        """The next frame. Raises Broken if the connection ends before it."""
        first, second = self._exactly(2)
        fin, rsv, opcode = bool(first & 0x80), first >> 4 & 7, first & 0x0F
        assert not second & 0x80, "a server does not mask"
        assert opcode in (0, 1, 2, 8, 9, 10), opcode
        size = second & 0x7F
        if size == 126:
            size = struct.unpack("!H", self._exactly(2))[0]
            assert size >= 126, "not the shortest length"
        elif size == 127:
            size = struct.unpack("!Q", self._exactly(8))[0]
            assert size >= 65536, "not the shortest length"
        if opcode >= 8:
            assert fin and size <= 125, "a control frame that may not be"
        return Frame(fin, rsv, opcode, self._exactly(size))

    def say(self, opcode, payload=b"", **how):
        self.send(frame(opcode, payload, **how))

    def close_with(self, code=1000):
        """Starts the close handshake; the server ends the connection."""
        self.say(CLOSE, close_payload(code))
        answer = self.frame()
        assert answer.opcode == CLOSE and answer.code == code, answer
        self.assert_closed()

    def expect_close(self, code):
        """The server closes with this code, without sending anything else before, and ends the connection."""
        answer = self.frame()
        assert answer.opcode == CLOSE and answer.code == code, answer
        self.assert_closed()


class WsprotoWebSocket(WebSocket):
    """wsproto makes the handshake, and reads and checks what the server sends; frame() returns whole messages. The test still sends
    its own bytes, because wsproto would refuse to send most of them."""

    def handshake(self):
        self.client, self.arrived, self.message = wsproto.WSConnection(wsproto.ConnectionType.CLIENT), [], None
        self.send(self.client.send(wsproto.events.Request(host="test", target=self.path)))
        answer = self.arrive()
        assert isinstance(answer, wsproto.events.AcceptConnection), answer
        return Response("HTTP/1.1", 101, [])

    def arrive(self):
        """The next event of wsproto."""
        while not self.arrived:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError as error:
                raise Broken("reset") from error
            if not data:
                raise Broken("closed")
            self.client.receive_data(data)
            self.arrived += self.client.events()
        return self.arrived.pop(0)

    def frame(self):
        while True:
            event = self.arrive()
            if isinstance(event, wsproto.events.Ping):
                return Frame(True, 0, PING, bytes(event.payload))
            if isinstance(event, wsproto.events.Pong):
                return Frame(True, 0, PONG, bytes(event.payload))
            if isinstance(event, wsproto.events.CloseConnection):
                has_code = event.code != wsproto.frame_protocol.CloseReason.NO_STATUS_RCVD
                return Frame(True, 0, CLOSE, close_payload(int(event.code), event.reason or b"") if has_code else b"")
            assert isinstance(event, wsproto.events.Message), event
            is_text = isinstance(event, wsproto.events.TextMessage)
            self.message = self.message or Frame(True, 0, TEXT if is_text else BINARY, bytearray())
            self.message.payload += event.data.encode() if is_text else event.data
            if event.message_finished:
                whole, self.message = self.message, None
                return whole

    def assert_closed(self):
        try:
            raise AssertionError(self.arrive())
        except Broken:
            pass  # a reset closes too


class WebSocketOverHttp2(WebSocket):
    """The same on a stream of an HTTP/2 connection: its own, or the connection of `beside`."""

    def __init__(self, port, path="/echo", *fields, timeout=20, open=True, tls=None, beside=None):
        self.beside = beside
        if beside is None:
            Connection.__init__(self, port, timeout)
            if tls is not None:
                self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
            self.connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8",
                                                                                   validate_outbound_headers=False))
            self.connection.initiate_connection()
            self.clients = {}  # by stream
            self.settings = None
            self.goaways = []  # (code, last stream)
            self.frames = b""  # bytes of an incomplete frame
        else:
            for name in ("socket", "connection", "clients"):
                setattr(self, name, getattr(beside, name))
            self.buffer = b""
        self.path = path
        self.stream = None
        self.answer = None
        self.ended = False  # the server has ended the stream
        self.reset = None  # the error code
        self.takes = True  # whether received data opens the window again
        if open:
            self.answer = self.handshake(*fields)
            assert self.answer.status == 200, self.answer.status

    def handshake(self, *fields, method="CONNECT", protocol="websocket", ws_version="13", host="test", scheme="http", early=b"",
                  end=False):
        """Makes the handshake. A part that is None or False is left out."""
        head = [(":method", method), (":scheme", scheme), (":path", self.path), (":authority", host)]
        if protocol:
            head.append((":protocol", protocol))
        if ws_version:
            head.append(("sec-websocket-version", ws_version))
        for line in fields:
            name, value = line.split(":", 1)
            head.append((name.lower(), value.strip()))
        self.stream = self.connection.get_next_available_stream_id()
        self.clients[self.stream] = self
        self.answer, self.buffer, self.ended, self.reset = None, b"", False, None
        self.connection.send_headers(self.stream, head, end_stream=end)
        self.send(early)
        while self.answer is None:
            assert self.reset is None, f"reset with {self.reset} instead of an answer"
            self.listen()
        if method == "CONNECT" and self.answer.status == 200:
            for name in ("sec-websocket-accept", "upgrade", "connection", "content-length", "transfer-encoding"):
                assert self.answer.get(name) is None, name
        return self.answer

    def whole_answer(self):
        """The answer with its body, if it is a refusal."""
        try:
            self.answer.body = self.rest()
        except Broken as end:
            assert str(end) != "reset"
        return self.answer

    def flush(self):
        data = self.connection.data_to_send()
        if data:
            self.socket.sendall(data)

    def listen(self):
        """Reads the next data, for any stream of the connection."""
        self.flush()
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError as error:
            raise Broken("reset") from error
        if not data:
            for client in self.clients.values():
                client.ended = True
            return
        for event in self.connection.receive_data((self.beside or self).without_goaways(data)):
            client = self.clients.get(getattr(event, "stream_id", None))
            if isinstance(event, h2.events.ResponseReceived):
                client.answer = Response("HTTP/2", int(event.headers[0][1]), list(event.headers[1:]))
            elif isinstance(event, h2.events.DataReceived):
                client.buffer += event.data
                if client.takes and event.flow_controlled_length:
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                client.ended = True
            elif isinstance(event, h2.events.StreamReset):
                client.reset = int(event.error_code)
            elif isinstance(event, h2.events.RemoteSettingsChanged):
                (self.beside or self).settings = {code: change.new_value for code, change in event.changed_settings.items()}
        self.flush()

    def without_goaways(self, data):
        """The whole frames in the data, without GOAWAY: python3-h2 would end all streams on it, even those that may go on."""
        whole, self.frames = b"", self.frames + data
        while len(self.frames) >= 9 and len(self.frames) >= 9 + (size := int.from_bytes(self.frames[:3], "big")):
            one, self.frames = self.frames[:9 + size], self.frames[9 + size:]
            if one[3] == GOAWAY:
                self.goaways.append((int.from_bytes(one[13:17], "big"), int.from_bytes(one[9:13], "big")))
            else:
                whole += one
        return whole

    def send(self, data):
        """Sends as much as the windows allow, and reads meanwhile. Raises OSError if the stream has ended."""
        try:
            while data:
                if self.reset is not None:
                    raise ConnectionResetError(f"reset with {self.reset}")
                room = min(self.connection.local_flow_control_window(self.stream), self.connection.max_outbound_frame_size)
                if room <= 0:
                    self.listen()
                    continue
                self.connection.send_data(self.stream, data[:room])
                data = data[room:]
        except (h2.exceptions.StreamClosedError, h2.exceptions.NoSuchStreamError) as error:
            raise ConnectionResetError(str(error)) from error
        self.flush()

    def end(self):
        """Ends this side of the stream."""
        self.connection.end_stream(self.stream)
        self.flush()

    def cancel(self, code=8):
        self.connection.reset_stream(self.stream, code)
        self.flush()

    def _more(self):
        have = len(self.buffer)
        while len(self.buffer) == have:
            if self.reset is not None:
                raise Broken("reset" if self.reset != 0 else "closed")
            if self.ended:
                raise Broken("closed")
            self.listen()

    def close(self):
        if self.beside is None:
            self.socket.close()


__all__ = ["BINARY", "CLOSE", "CONTINUATION", "PING", "PONG", "TEXT", "Broken", "Frame", "WebSocket", "WebSocketOverHttp2",
           "WsprotoWebSocket", "apply_mask", "close_payload", "frame", "header"]
