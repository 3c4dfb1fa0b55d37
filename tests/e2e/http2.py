"""HTTP/2 clients for the tests: one on python3-h2, and frames written by hand."""
import select
import socket
import struct
import time

import h2.config
import h2.connection
import h2.events

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
ENHANCE_YOUR_CALM = 11


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header_block(path, method=b"\x82"):
    """GET http://test/path in HPACK, without the dynamic table."""
    return method + b"\x86\x01\x04test\x04" + bytes([len(path)]) + path.encode()


class Raw:
    """Sends exactly its input, and reads frames."""

    def __init__(self, port, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def frames(self):
        """(kind, flags, stream, payload) of each whole frame in the buffer."""
        while len(self.buffer) >= 9:
            size = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + size:
                return
            kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big")
            payload, self.buffer = self.buffer[9:9 + size], self.buffer[9 + size:]
            yield kind, flags, stream, payload

    def look_for_goaway(self):
        """The error code of a GOAWAY that has arrived by now, or None."""
        if select.select([self.socket], [], [], 0)[0]:
            self.buffer += self.socket.recv(1 << 16)
        return next((int.from_bytes(payload[4:8], "big") for kind, _, _, payload in self.frames() if kind == GOAWAY), None)

    def each_frame(self):
        """Frames as they arrive."""
        while True:
            yield from self.frames()
            got = self.socket.recv(1 << 16)
            assert got, "the server has closed the connection"
            self.buffer += got

    def all_frames(self):
        """All frames until the server closes."""
        while True:
            yield from self.frames()
            try:
                got = self.socket.recv(1 << 16)
            except ConnectionError:
                return
            if not got:
                return
            self.buffer += got

    def goaway(self):
        """The error code of the last GOAWAY before the server closes; None: it sends no GOAWAY."""
        codes = [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in self.all_frames() if kind == GOAWAY]
        return codes[-1] if codes else None


class Answer:
    def __init__(self):
        self.interim, self.fields, self.trailers, self.body = [], {}, {}, b""
        self.interim_fields = []
        self.ended, self.reset = False, None

    @property
    def status(self):
        return int(self.fields.get(":status", 0))


class Client:
    def __init__(self, port, timeout=20, opens_windows=True):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.connection.initiate_connection()
        self.opens_windows = opens_windows
        self.answers = {}
        self.goaways = []
        self.closed = False
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def flush(self):
        data = self.connection.data_to_send()
        if data:
            self.socket.sendall(data)

    def request(self, path, method="GET", fields=(), body=None, ends=True):
        """Sends a request. With ends=False and no body, send() sends the body later."""
        stream = self.connection.get_next_available_stream_id()
        self.connection.send_headers(stream, [(":method", method), (":scheme", "http"), (":authority", "test"),
                                              (":path", path), *fields], end_stream=ends and body is None)
        if body is not None:
            self.connection.send_data(stream, body, end_stream=True)
        self.answers[stream] = Answer()
        self.flush()
        return stream

    def send(self, stream, data):
        self.connection.send_data(stream, data, end_stream=True)
        self.flush()

    def hear(self):
        """Reads the next data and handles its events. Returns False at the end of the connection."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            self.closed = True
            return False
        for event in self.connection.receive_data(data):
            answer = self.answers.get(getattr(event, "stream_id", None))
            if isinstance(event, h2.events.ResponseReceived):
                answer.fields.update(event.headers)
            elif isinstance(event, h2.events.InformationalResponseReceived):
                answer.interim.append(int(dict(event.headers)[":status"]))
                answer.interim_fields.append(dict(event.headers))
            elif isinstance(event, h2.events.TrailersReceived):
                answer.trailers.update(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                answer.body += event.data
                if self.opens_windows:
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                answer.ended = True
            elif isinstance(event, h2.events.StreamReset):
                answer.reset = int(event.error_code)
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.goaways.append(int(event.error_code))
        self.flush()
        return True

    def wait(self, *streams, seconds=20):
        """Waits for the answers of these streams, whole or reset."""
        end = time.monotonic() + seconds
        while any(not self.answers[stream].ended and self.answers[stream].reset is None for stream in streams):
            assert time.monotonic() < end, "no answer in time"
            if not self.hear():
                break
        return [self.answers[stream] for stream in streams]

    def get(self, path, **more):
        return self.wait(self.request(path, **more))[0]
