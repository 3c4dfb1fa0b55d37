"""A server behind the gateway that does what it is told to, and remembers what it was asked."""
import socket
import threading


class Upstream:
    """Serves connections on a loopback port, each in a thread: `answer(request, connection)` gives bytes; None: it ends the
    connection. A request is (method, target, fields, body), with names in lower case."""

    def __init__(self, answer, port=0):
        self.answer = answer
        self.requests = []
        self.connections = 0
        self.lock = threading.Lock()
        self.open = set()
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # so that accept() ends
        except OSError:
            pass
        self.listener.close()
        self.thread.join()
        with self.lock:
            for one in self.open:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.open.add(connection)
                self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        stream = connection.makefile("rb")
        try:
            while request := read_request(stream):
                with self.lock:
                    self.requests.append(request)
                answer = self.answer(request, connection)
                if answer is None:
                    return
                connection.sendall(answer)
        except (OSError, ValueError):
            pass
        finally:
            with self.lock:
                self.open.discard(connection)
            stream.close()
            connection.close()


def read_request(stream):
    line = stream.readline()
    if not line:
        return None
    method, target, version = line.decode("latin-1").split(" ")
    assert version == "HTTP/1.1\r\n", line
    fields = []
    while (line := stream.readline()) != b"\r\n":
        name, value = line.decode("latin-1").removesuffix("\r\n").split(": ", 1)
        fields.append((name.lower(), value))
    body = b""
    length = [value for name, value in fields if name == "content-length"]
    if ("transfer-encoding", "chunked") in fields:
        assert not length
        while size := int(stream.readline(), 16):
            body += stream.read(size)
            assert stream.readline() == b"\r\n"
        assert stream.readline() == b"\r\n"
    elif length:
        body = stream.read(int(length[0]))
        if len(body) != int(length[0]):
            raise ValueError("the request's body breaks off")
    return method, target, fields, body


def response(body=b"", *fields, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
