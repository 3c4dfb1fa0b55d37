"""A strict HTTP/1.1 client over a raw socket: it sends exactly its input, and fails on an answer that RFC 9112 forbids."""
import re
import socket


class Broken(Exception):
    """The answer ended before its framing said that it would."""


class Response:
    def __init__(self, version, status, fields):
        self.version = version
        self.status = status
        self.fields = fields  # [(name in lower case, value)]
        self.body = b""
        self.trailers = []

    def get(self, name):
        values = [value for field, value in self.fields if field == name.lower()]
        assert len(values) <= 1, f"{name} comes {len(values)} times"
        return values[0] if values else None

    def trailer(self, name):
        return dict(self.trailers).get(name.lower())

    @property
    def media_type(self):
        return (self.get("content-type") or "").split(";")[0].strip()


def parse_fields(lines):
    fields = []
    for line in lines:
        match = re.fullmatch(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*", line)
        assert match, f"bad field line {line!r}"
        fields.append((match.group(1).decode().lower(), match.group(2).decode("latin-1")))
    return fields


class Connection:
    def __init__(self, port, timeout=20, source="127.0.0.1"):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.sip = 1 << 18  # how many bytes one read takes at most

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def shut_sending(self):
        self.socket.shutdown(socket.SHUT_WR)

    def call(self, method, target, body=None, *fields):
        """Sends one request with these header lines, and with the body if there is one. Returns the answer."""
        lines = [f"{method} {target} HTTP/1.1", "Host: test", *fields]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        return self.read(head=method == "HEAD")

    def get(self, target, *fields, method="GET"):
        self.send("\r\n".join([f"{method} {target} HTTP/1.1", "Host: test", *fields]) + "\r\n\r\n")
        return self.read(head=method == "HEAD")

    def _more(self):
        try:
            got = self.socket.recv(self.sip)
        except ConnectionResetError as error:
            raise Broken("reset") from error
        if not got:
            raise Broken("closed")
        self.buffer += got

    def _until(self, mark):
        while mark not in self.buffer:
            self._more()
        data, self.buffer = self.buffer.split(mark, 1)
        return data

    def _exactly(self, size):
        parts, have = [self.buffer], len(self.buffer)
        while have < size:
            self.buffer = b""
            self._more()
            parts.append(self.buffer)
            have += len(self.buffer)
        data = b"".join(parts)
        self.buffer = data[size:]
        return data[:size]

    def read(self, head=False):
        """The next response, 1xx included. Raises Broken if it is cut."""
        lines = self._until(b"\r\n\r\n").split(b"\r\n")
        status = re.fullmatch(rb"(HTTP/1\.[01]) ([1-5][0-9][0-9]) ([^\r\n]*)", lines[0])
        assert status, f"bad status line {lines[0]!r}"
        response = Response(status.group(1).decode(), int(status.group(2)), parse_fields(lines[1:]))
        length, coding = response.get("content-length"), response.get("transfer-encoding")
        assert not (length and coding), "Content-Length beside Transfer-Encoding"
        if head or response.status // 100 == 1 or response.status in (204, 304):
            if response.status // 100 == 1 or response.status == 204:
                assert not length and not coding, f"{response.status} with a length"
            return response
        if coding:
            assert coding.lower() == "chunked", coding
            chunks = []
            while True:
                line = self._until(b"\r\n")
                assert re.fullmatch(rb"[0-9A-Fa-f]+", line), f"bad chunk size {line!r}"
                size = int(line, 16)
                if size == 0:
                    break
                chunks.append(self._exactly(size))
                assert self._exactly(2) == b"\r\n"
            response.body = b"".join(chunks)
            trailer = []
            while line := self._until(b"\r\n"):
                trailer.append(line)
            response.trailers = parse_fields(trailer)
        elif length:
            assert re.fullmatch("[0-9]+", length), length
            response.body = self._exactly(int(length))
        else:
            assert response.get("connection") == "close" or response.version == "HTTP/1.0", "a body without an end"
            response.body = self.rest()
        return response

    def rest(self):
        """All bytes until the server closes."""
        try:
            while True:
                self._more()
        except Broken as end:
            if str(end) == "reset":
                raise
        data, self.buffer = self.buffer, b""
        return data

    def assert_closed(self):
        """The server closes without sending anything more."""
        try:
            assert self.rest() == b""
        except Broken:
            pass  # a reset closes too
