"""A WebSocket client over a raw socket: it sends exactly what a test says, and fails on what RFC 6455 forbids a server."""
import base64
import hashlib
import os
import struct

from http1 import Broken, Connection

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def header(opcode, size, fin=True, rsv=0, mask=b"\x9a\x3c\x51\xe7", form=None):
    """A frame's header. `form` forces a length field: 7, 16 or 64 bits; mask=None: the frame is not masked."""
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
        """The close frame's; None where it has none."""
        assert self.opcode == CLOSE, self
        return struct.unpack("!H", self.payload[:2])[0] if self.payload else None

    def __repr__(self):
        return f"Frame(fin={self.fin}, rsv={self.rsv}, opcode={self.opcode}, {len(self.payload)}: {self.payload[:40]!r})"


class WebSocket(Connection):
    """A connection whose handshake is made, or asked for with handshake()."""

    def __init__(self, port, path="/echo", *fields, timeout=20, open=True):
        super().__init__(port, timeout)
        self.path = path
        self.answer = None
        if open:
            self.answer = self.handshake(*fields)
            assert self.answer.status == 101, self.answer.status

    def handshake(self, *fields, method="GET", version="HTTP/1.1", key=None, upgrade=True, ws_version="13", host="test",
                  early=b""):
        """Asks for the handshake, and checks the answer if it is 101. A part that is None or False is left out."""
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
        """The next frame. Broken where the connection ends before it."""
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
        """The close handshake, begun here; the server ends the connection."""
        self.say(CLOSE, close_payload(code))
        answer = self.frame()
        assert answer.opcode == CLOSE and answer.code == code, answer
        self.assert_closed()

    def expect_close(self, code):
        """The server closes with this code, answers nothing else before, and ends the connection."""
        answer = self.frame()
        assert answer.opcode == CLOSE and answer.code == code, answer
        self.assert_closed()


__all__ = ["BINARY", "CLOSE", "CONTINUATION", "PING", "PONG", "TEXT", "Broken", "Frame", "WebSocket", "apply_mask",
           "close_payload", "frame", "header"]
