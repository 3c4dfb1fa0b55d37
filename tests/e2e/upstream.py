"""A server behind the gateway that answers as a test says, and records its requests."""
import base64
import hashlib
import os
import socket
import threading

from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Message, Ping
from wsproto.extensions import PerMessageDeflate


class Upstream:
    """Serves connections on a port of `host`, or on a unix socket at `path`, each in a thread; `tls` is an ssl.SSLContext.
    `answer(request, connection)` returns bytes, or None to end the connection. A request is (method, target, fields, body)."""

    def __init__(self, answer, port=0, tls=None, path=None, host="127.0.0.1"):
        self.answer = answer
        self.tls = tls
        self.path = path
        self.requests = []
        self.connections = 0
        self.lock = threading.Lock()
        self.open = set()
        if path is None:
            self.listener = socket.create_server((host, port))
            self.port = self.listener.getsockname()[1]
        else:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(str(path))
            self.listener.listen()
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    @property
    def url(self):
        if self.path is not None:
            return f"unix:{self.path}"
        return f"https://localhost:{self.port}" if self.tls else f"http://127.0.0.1:{self.port}"

    @property
    def name(self):
        """Its name in metrics and logs."""
        if self.path is not None:
            return f"unix:{self.path}"
        return f"https://localhost:{self.port}" if self.tls else f"127.0.0.1:{self.port}"

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # ends accept()
        except OSError:
            pass
        self.listener.close()
        if self.path is not None:
            os.unlink(self.path)
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
            if self.tls:
                with self.lock:
                    self.open.discard(connection)
                    connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                    self.open.add(connection)
                stream.close()
                connection.do_handshake()
                stream = connection.makefile("rb")
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


class Request(tuple):
    """(method, target, fields, body), and the trailers."""
    trailers = ()


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
    body, trailers = b"", []
    length = [value for name, value in fields if name == "content-length"]
    if ("transfer-encoding", "chunked") in fields:
        assert not length
        while size := int(stream.readline(), 16):
            body += stream.read(size)
            if stream.readline() != b"\r\n":
                raise ValueError("the request's body breaks off")
        while (line := stream.readline()) != b"\r\n":
            if not line.endswith(b"\r\n"):
                raise ValueError("the request's body breaks off")
            name, value = line.decode("latin-1").removesuffix("\r\n").split(": ", 1)
            trailers.append((name.lower(), value))
    elif length:
        body = stream.read(int(length[0]))
        if len(body) != int(length[0]):
            raise ValueError("the request's body breaks off")
    request = Request((method, target, fields, body))
    request.trailers = trailers
    return request


def response(body=b"", *fields, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def change_protocol(request, connection, *fields, protocol="websocket"):
    """Answers a request for an upgrade with 101."""
    asked = dict(request[2])
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {protocol}", *fields]
    if protocol == "websocket":
        digest = hashlib.sha1((asked["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        lines.append(f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}")
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")


def websocket_echo(request, connection):
    """An `answer` in which wsproto echoes every message. It accepts the first subprotocol of the request, and compresses."""
    asked = dict(request[2])
    if asked.get("upgrade", "").lower() != "websocket":
        return response(b"no WebSocket", status="426 Upgrade Required")
    fields, extensions = [], []
    if protocols := asked.get("sec-websocket-protocol"):
        fields.append(f"Sec-WebSocket-Protocol: {protocols.split(',')[0]}")
    if offer := asked.get("sec-websocket-extensions"):
        extensions.append(PerMessageDeflate())
        agreed = extensions[0].accept(offer)
        fields.append("Sec-WebSocket-Extensions: permessage-deflate" + (f"; {agreed}" if isinstance(agreed, str) else ""))
    change_protocol(request, connection, *fields)
    socket_ = Connection(ConnectionType.SERVER, extensions)
    while data := connection.recv(1 << 16):
        socket_.receive_data(data)
        for event in socket_.events():
            if isinstance(event, Message):
                connection.sendall(socket_.send(event))
            elif isinstance(event, (Ping, CloseConnection)):
                connection.sendall(socket_.send(event.response()))
                if isinstance(event, CloseConnection):
                    return None
    return None
