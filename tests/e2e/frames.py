"""A client of message services: frames over a socket (docs/formats/frame.md)."""
import dataclasses
import socket
import struct

CORRELATED, ERROR = 1, 2
PING, TOKEN = 0xFFFFFF00, 0xFFFFFF02


def encode(message, body=b"", correlation=None, flags=0, version=1, size=None):
    head = struct.pack(">BBIIH", version, flags | (CORRELATED if correlation is not None else 0), message,
                       len(body) if size is None else size, 0)
    return head + (struct.pack(">I", correlation) if correlation is not None else b"") + body


def decode(frame):
    """One whole frame, such as a WebSocket's message."""
    version, flags, message, size, reserved = struct.unpack(">BBIIH", frame[:12])
    assert version == 1 and reserved == 0
    correlation = struct.unpack(">I", frame[12:16])[0] if flags & CORRELATED else None
    body = frame[16 if flags & CORRELATED else 12:]
    assert len(body) == size
    return Frame(message, body[4:], correlation, struct.unpack(">I", body[:4])[0]) if flags & ERROR else \
        Frame(message, body, correlation)


@dataclasses.dataclass
class Frame:
    message: int
    body: bytes
    correlation: int | None = None
    error: int | None = None  # the code; `body` is then the text


class Client:
    def __init__(self, address, tls=None, receive_buffer=None):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
        else:
            self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(20)
        self.socket.connect(address)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *arguments, **options):
        self.socket.sendall(encode(*arguments, **options))

    def _take(self, size):
        """None at the end of the stream."""
        while len(self.received) < size:
            more = self.socket.recv(1 << 16)
            if not more:
                assert not self.received, "the stream ended within a frame"
                return None
            self.received += more
        taken, self.received = self.received[:size], self.received[size:]
        return taken

    def receive(self):
        """The next frame, or None if the service has ended the session."""
        head = self._take(12)
        if head is None:
            return None
        version, flags, message, size, reserved = struct.unpack(">BBIIH", head)
        assert version == 1 and reserved == 0
        correlation = struct.unpack(">I", self._take(4))[0] if flags & CORRELATED else None
        body = self._take(size) if size else b""
        if flags & ERROR:
            return Frame(message, body[4:], correlation, struct.unpack(">I", body[:4])[0])
        return Frame(message, body, correlation)

    def call(self, message, body=b"", correlation=None):
        self.send(message, body, correlation)
        return self.receive()
