"""No bytes of one request become another request: a server behind the gateway records and checks every byte that it gets."""
import random
import re
import selectors
import socket
import threading

import hpack
import pytest

import http2
from cluster import free_port
from conftest import IO, Server
from http1 import Broken
from test_gateway import gateway
from upstream import response

EVIL = b"GET /evil HTTP/1.1\r\nHost: test\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: test\r\n\r\n"
TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"


class Recorder:
    """Records each request of the gateway, and answers it with "ok" after it has read everything that has arrived by then. One thread
    serves all connections. A request that a strict reader would refuse is a fault."""

    def __init__(self):
        self.requests, self.faults = [], []
        self.open = {}  # the bytes of the next request by connection
        self.idle = threading.Condition()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.waker, self.woken = socket.socketpair()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.woken, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self):
        self.waker.close()
        self.thread.join()

    def take(self):
        """The requests since the last call, after no request is incomplete: the gateway has closed those connections."""
        with self.idle:
            assert self.idle.wait_for(lambda: not any(self.open.values()), 20), self.open
            taken, self.requests = self.requests, []
            faults, self.faults = self.faults, []
        assert not faults, faults
        return taken

    def _run(self):
        while True:
            ready = self.selector.select()
            while ready:  # until nothing more has arrived
                for key, _ in ready:
                    if key.fileobj is self.woken:
                        for one in [*self.open, self.listener, self.woken]:
                            one.close()
                        return
                    if key.fileobj is self.listener:
                        connection, _ = self.listener.accept()
                        self.open[connection] = b""
                        self.selector.register(connection, selectors.EVENT_READ)
                    else:
                        self._receive(key.fileobj)
                ready = self.selector.select(0)
            with self.idle:
                for connection in list(self.open):
                    self._answer(connection)
                self.idle.notify_all()

    def _receive(self, connection):
        try:
            data = connection.recv(1 << 20)
        except OSError:
            data = b""
        self.open[connection] += data
        if not data:
            self._close(connection)

    def _close(self, connection):
        self.selector.unregister(connection)
        with self.idle:
            del self.open[connection]
        connection.close()

    def _answer(self, connection):
        try:
            if request := parse(self.open[connection]):
                self.requests.append(request)
                self.open[connection] = b""
                connection.sendall(response(b"ok"))
        except Exception as error:  # noqa: BLE001: reported by take()
            self.faults.append((repr(error), self.open[connection]))
            self._close(connection)


def parse(data):
    """(method, target, fields, body) of the request that is all the data; None if it is incomplete."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    line, *lines = head.split(b"\r\n")
    method, target = re.fullmatch(rb"(" + TOKEN + rb") (/[!-~]*|\*) HTTP/1\.1", line).groups()
    fields = [re.fullmatch(rb"(" + TOKEN + rb"): ((?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?)", one).groups()
              for one in lines]
    fields = [(name.decode().lower(), value.decode("latin-1")) for name, value in fields]
    values = dict(fields)
    names = [name for name, _ in fields]
    for name in ("host", "content-length", "transfer-encoding"):
        assert names.count(name) <= 1, name
    assert "host" in values
    assert values.get("connection") == ("Upgrade" if "upgrade" in values else "TE" if "te" in values else None)
    assert values.get("te", "trailers") == "trailers"
    assert not {"keep-alive", "proxy-connection"} & set(names)
    body = b""
    if "transfer-encoding" in values:
        assert values["transfer-encoding"] == "chunked" and "content-length" not in values
        while True:
            size, end, rest = rest.partition(b"\r\n")
            if not end:
                return None
            assert re.fullmatch(rb"[0-9A-F]+", size), size
            if int(size, 16) == 0:
                break
            if len(rest) < int(size, 16) + 2:
                return None
            body, rest = body + rest[:int(size, 16)], rest[int(size, 16):]
            assert rest.startswith(b"\r\n")
            rest = rest[2:]
        while rest and not rest.startswith(b"\r\n"):
            line, end, rest = rest.partition(b"\r\n")
            assert not end or re.fullmatch(TOKEN + rb": [\t -~\x80-\xff]*", line), line
        if not rest:
            return None
        rest = rest[2:]
    elif "content-length" in values:
        assert re.fullmatch("0|[1-9][0-9]*", values["content-length"])
        size = int(values["content-length"])
        if len(rest) < size:
            return None
        body, rest = rest[:size], rest[size:]
    assert not rest, "bytes behind a request"
    return method.decode(), target.decode(), fields, body


@pytest.fixture(scope="module")
def recorder():
    recorder = Recorder()
    yield recorder
    recorder.close()


@pytest.fixture(scope="module")
def server(recorder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("smuggling")
    port, admin_port = free_port(), free_port()
    file = folder / "sluice.toml"
    io = f'io = "{IO}"\n' if IO else ""
    file.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\ncores = 1\n{io}[admin]\nlisten = "127.0.0.1:{admin_port}"\n' +
                    gateway(recorder.url, upstream="eject.after = 0"))
    started = Server(file, folder, {}, port, admin_port)
    try:
        yield started.wait()
        started.stop()
    finally:
        started.kill()


def seen(server, recorder):
    """The requests that the server behind has got. The gateway has passed on everything before the request that this sends."""
    assert server.get("/sentinel").body == b"ok"
    requests = recorder.take()
    assert requests.pop()[1] == "/sentinel"
    return requests


def exchange(server, data):
    """The statuses of all answers to the data, after which the client ends its side."""
    with server.connect() as client:
        client.send(data)
        client.shut_sending()
        try:
            received = client.rest()
        except Broken:  # by a reset
            received = client.buffer
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", received)]


def post(*fields, body=b"", line=b"POST /in HTTP/1.1", host=b"Host: test"):
    return b"\r\n".join([line, *([host] if host else []), *fields]) + b"\r\n\r\n" + body


def sized(body):
    return b"Content-Length: %d" % len(body)


def chunk(body, size=None, end=b"\r\n"):
    return (b"%x" % len(body) if size is None else size) + b"\r\n" + body + end


CHUNKED = b"Transfer-Encoding: chunked"
HELLO = chunk(b"hello") + b"0\r\n\r\n"
HIDDEN = chunk(EVIL) + b"0\r\n\r\n"  # refused, or a body that is EVIL

# Each is refused, and so is everything behind it.
REFUSED = {
    "CL.TE": post(sized(b"0\r\n\r\n" + EVIL), CHUNKED, body=b"0\r\n\r\n" + EVIL),
    "TE.CL": post(CHUNKED, b"Content-Length: 4", body=HIDDEN),
    "CL.TE where both agree on nothing": post(b"Content-Length: 0", CHUNKED, body=b"0\r\n\r\n" + EVIL),
    "a chunked body in HTTP/1.0": post(CHUNKED, body=HIDDEN, line=b"POST /in HTTP/1.0"),
    "two lengths": post(b"Content-Length: 5", sized(EVIL), body=b"hello" + EVIL),
    "two lengths, reversed": post(sized(EVIL), b"Content-Length: 5", body=b"hello" + EVIL),
    "a length and a shorter one in a list": post(b"Content-Length: 40, 5", body=b"hello" + EVIL),
    "line breaks in front of a fold": post(b"X: y", b" Content-Length: 5", body=b"hello" + EVIL),
    **{f"the length {value!r}": post(b"Content-Length: " + value, body=b"hello" + EVIL) for value in (
        b"+5", b"-5", b"-0", b"0x5", b"5 5", b"5;", b"5,", b",5", b"5.0", b"5e0", b"", b"five", b"5\x0b", b"\x0c5", b"\"5\"", b"5\x00",
        b"\xd9\xa5", b"\xb2", b"5, 6", b"5_0", b"18446744073709551621", b"36893488147419103237", b"9" * 40, b"1" + b"0" * 400)},
    **{f"the coding {value!r}": post(b"Transfer-Encoding: " + value, body=HIDDEN) for value in (
        b"xchunked", b"chunkedx", b"chunk", b"chunked, identity", b"identity, chunked", b"identity", b"chunked, chunked",
        b"gzip, chunked", b"chunked, gzip", b"chunked;a=b", b"\"chunked\"", b"'chunked'", b"", b"\x0bchunked", b"chunked\x0b",
        b"\x00chunked", b"chunked\x00", b"chunked\xa0", b"\xef\xbb\xbfchunked", b"chunked chunked", b"chun\rked", b"\rchunked",
        b"chunked\r", b"\nchunked", b"\r\n chunked", b"\r\n\tchunked", b"chunked\r\n ", b"chunked,\r\n identity")},
    "a coding twice": post(CHUNKED, CHUNKED, body=HIDDEN),
    "another coding behind": post(CHUNKED, b"Transfer-Encoding: identity", body=HIDDEN),
    "another coding in front": post(b"Transfer-Encoding: identity", CHUNKED, body=HIDDEN),
    "a coding with a case that changes, and another": post(b"tRANSFER-eNCODING: chunked", b"Transfer-encoding: cow", body=HIDDEN),
    **{f"the field line {line!r}": post(line, sized(EVIL), body=EVIL) for line in (
        b"Transfer-Encoding : chunked", b"Transfer-Encoding\t: chunked", b" Transfer-Encoding: chunked", b"\tTransfer-Encoding: chunked",
        b"Transfer-Encoding\x0b: chunked", b"Transfer-Encoding\x00: chunked", b"Transfer-Encoding\r: chunked", b"Transfer-Encoding",
        b"Transfer Encoding: chunked", b"\rTransfer-Encoding: chunked", b"\nTransfer-Encoding: chunked", b": chunked", b":",
        b"X: a\rTransfer-Encoding: chunked", b"X: a\nTransfer-Encoding: chunked", b"X: a\r\rTransfer-Encoding: chunked",
        b"X: a\r", b"X: a\x00b", b"X: \x01", b"X: \x7f", b"X\xe9: a", b"X(: a", b"X: a\n\nGET /evil HTTP/1.1\nHost: test\n",
        b"X: a\n\r\nGET /evil HTTP/1.1", b"X: a\r\n\n", b"Content-Length : 5", b"X", b"\"X\": a", b"Host: test", b"Host: other",
        b"Content-Length:\n 5", b"X: a\r\n\x20", b"Content-Length\n: 5")},
    "lines that end with LF": post(sized(EVIL), body=EVIL).replace(b"\r\n", b"\n"),
    "the first line ends with LF": post(sized(EVIL), body=EVIL).replace(b"\r\n", b"\n", 1),
    "the first line ends with CR": post(sized(EVIL), body=EVIL).replace(b"\r\n", b"\r", 1),
    "no host": post(sized(EVIL), body=EVIL, host=None),
    **{f"the host {value!r}": post(sized(EVIL), body=EVIL, host=b"Host: " + value) for value in (
        b"test\rX: a", b"test other", b"test/evil", b"test\x00", b"test\r\n other", b"a@test", b"test:x", b"test?a", b"test#a")},
    **{f"the line {line!r}": post(sized(EVIL), body=EVIL, line=line) for line in (
        b"POST  /in HTTP/1.1", b"POST /in  HTTP/1.1", b"POST /in HTTP/1.1 ", b" POST /in HTTP/1.1", b"POST\t/in\tHTTP/1.1", b"POST /in",
        b"POST /in HTTP/1.1\r", b"POST /in\rHTTP/1.1", b"POST /in\x0bHTTP/1.1", b"POST /a b HTTP/1.1", b"POST /in HTTP/1.1 HTTP/1.1",
        b"POST /in\x00 HTTP/1.1", b"POST /in\nX: HTTP/1.1", b"POST /in HTTP/1.1\n", b"POST /in HTTP/1.2.3", b"POST /in HTTP/11",
        b"POST /in HTTP/2.0", b"POST /in HTTP/0.9", b"POST /in http/1.1", b"POST /in HTTP /1.1", b"PO ST /in HTTP/1.1", b"PO\rST /in HTTP/1.1",
        b"PO:ST /in HTTP/1.1", b"POST in HTTP/1.1", b"POST test/in HTTP/1.1", b"POST ftp://test/in HTTP/1.1", b"POST http:///in HTTP/1.1",
        b"POST http://a b/in HTTP/1.1", b"POST /in#a HTTP/1.1", b"POST \\in HTTP/1.1",
        b"POST http://a@test/in HTTP/1.1", b"POST /in\xff HTTP/1.1")},
    **{f"the chunk line {line!r}": post(CHUNKED, body=line + b"\r\n" + EVIL + b"\r\n0\r\n\r\n") for line in (
        b"+" + b"%x" % len(EVIL), b"-1", b"0x%x" % len(EVIL), b" %x" % len(EVIL), b"\t%x" % len(EVIL), b"", b"g", b"%x_0" % len(EVIL),
        b"%xx" % len(EVIL), b"%x,0" % len(EVIL), b"%x 0" % len(EVIL), b"%x\r" % len(EVIL), b"%x\r;a" % len(EVIL), b"%x;a\rb" % len(EVIL),
        b"%x;a\r" % len(EVIL), b"%x;a\nb" % len(EVIL), b"%x;a\x00" % len(EVIL), b"%x\x00" % len(EVIL), b"1%016x" % len(EVIL),
        b"f" * 16, b"f" * 17, b"8000000000000000", b"1" + b"0" * 32, b"-%x" % len(EVIL), b"%x\n" % len(EVIL), b"\"%x\"" % len(EVIL),
        b"%x.0" % len(EVIL), b"\xef\xbb\xbf%x" % len(EVIL), b"%x;" % len(EVIL) + b"a" * 100_000)},
    "a chunk line that ends with LF": post(CHUNKED, body=b"5\nhello\r\n0\r\n\r\n" + EVIL),
    "a chunk line that ends with CR": post(CHUNKED, body=b"5\rhello\r\n0\r\n\r\n" + EVIL),
    "a chunk that is longer than its size": post(CHUNKED, body=b"5\r\nhello, \r\n0\r\n\r\n" + EVIL),
    "a chunk that is shorter than its size": post(CHUNKED, body=b"7\r\nhello\r\n0\r\n\r\n" + EVIL),
    "a chunk that ends with LF": post(CHUNKED, body=chunk(b"hello", end=b"\n") + b"0\r\n\r\n" + EVIL),
    "a chunk that ends with CR": post(CHUNKED, body=chunk(b"hello", end=b"\r") + b"0\r\n\r\n" + EVIL),
    "a chunk that ends with two bytes that are no line end": post(CHUNKED, body=chunk(b"hello", end=b"xy") + b"0\r\n\r\n" + EVIL),
    "a chunk without an end": post(CHUNKED, body=chunk(b"hello", end=b"") + b"0\r\n\r\n" + EVIL),
    "the last chunk ends with LF": post(CHUNKED, body=chunk(b"hello") + b"0\n\n" + EVIL),
    "trailers end with LF": post(CHUNKED, body=chunk(b"hello") + b"0\r\nX: a\n\n" + EVIL),
    "trailers end with CR": post(CHUNKED, body=chunk(b"hello") + b"0\r\nX: a\r\r" + EVIL),
    "trailers that fold": post(CHUNKED, body=chunk(b"hello") + b"0\r\nX: a\r\n b\r\n\r\n" + EVIL),
    "trailers with a space before the colon": post(CHUNKED, body=chunk(b"hello") + b"0\r\nX : a\r\n\r\n" + EVIL),
    "a request line as a trailer": post(CHUNKED, body=chunk(b"hello") + b"0\r\n" + EVIL + EVIL),
    "an empty line that is not the end": post(CHUNKED, body=chunk(b"hello") + b"0\r\n\n" + EVIL),
    "a body that stops": post(b"Content-Length: 500", body=b"hello" + EVIL),
    "a chunk that stops": post(CHUNKED, body=b"fff\r\nhello" + EVIL),
    "the last chunk is missing": post(CHUNKED, body=chunk(b"hello")),
    "bytes for the tunnel of a CONNECT": post(line=b"CONNECT evil:80 HTTP/1.1"),
    "a CONNECT with a body": post(sized(EVIL), body=EVIL, line=b"CONNECT evil:80 HTTP/1.1"),
    "an expectation that nobody meets": post(b"Expect: evil", sized(EVIL), body=EVIL),
}


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in REFUSED.items()])
def test_a_refused_request_ends_the_connection(server, recorder, data):
    statuses = exchange(server, data + EVIL)
    assert len(statuses) == 1 and (400 <= statuses[0] < 500 or statuses[0] in (501, 505)), statuses
    assert seen(server, recorder) == []


def body_of(request):
    return request[0], request[1], request[3]


def get(*fields, line=b"GET /in HTTP/1.1"):
    return post(*fields, line=line)


IN, LAST_SEEN = ("POST", "/in"), ("GET", "/last", b"")

# Each is one request with this body, and the next one on the connection is LAST.
TAKEN = {
    "a length": (post(sized(EVIL), body=EVIL), EVIL),
    "chunks": (post(CHUNKED, body=HIDDEN), EVIL),
    "a request in a chunk between others": (post(CHUNKED, body=chunk(b"a") + chunk(EVIL) + chunk(b"b") + b"0\r\n\r\n"), b"a" + EVIL + b"b"),
    "a body that ends like chunks": (post(sized(b"0\r\n\r\n" + EVIL), body=b"0\r\n\r\n" + EVIL), b"0\r\n\r\n" + EVIL),
    "chunks in chunks": (post(CHUNKED, body=chunk(HIDDEN) + b"0\r\n\r\n"), HIDDEN),
    "no body": (post(b"Content-Length: 0"), b""),
    "neither a length nor a coding": (post(), b""),
    "white space around a length": (post(b"Content-Length: \t 34 \t", body=EVIL), EVIL),
    "zeros before a length": (post(b"Content-Length: 0034", body=EVIL), EVIL),
    "white space around a coding": (post(b"Transfer-Encoding: \t chunked \t", body=HIDDEN), EVIL),
    "a coding in capitals": (post(b"TRANSFER-ENCODING: CHUNKED", body=HIDDEN), EVIL),
    "fields with similar names": (post(b"Transfer_Encoding: chunked", b"Content_Length: 0", b"X-Transfer-Encoding: chunked",
                                       b"Transfer-Encoding-: chunked", b"Content-Lengt: 1", sized(EVIL), body=EVIL), EVIL),
    "other fields for the encoding": (post(b"Content-Encoding: chunked", b"TE: chunked", sized(EVIL), body=EVIL), EVIL),
    "a length that Connection names": (post(b"Connection: content-length", sized(EVIL), body=EVIL), EVIL),
    "a coding that Connection names": (post(b"Connection: transfer-encoding", CHUNKED, body=HIDDEN), EVIL),
    "a host that Connection names": (post(b"Connection: host, keep-alive", sized(EVIL), body=EVIL), EVIL),
    "all fields that Connection may name": (post(b"Connection: keep-alive, te, trailer, x-forwarded-for, expect", b"TE: trailers",
                                                 b"Trailer: Content-Length", b"Keep-Alive: 5", b"Proxy-Connection: keep-alive",
                                                 sized(EVIL), body=EVIL), EVIL),
    "zeros before the size of a chunk": (post(CHUNKED, body=b"00022\r\n" + EVIL + b"\r\n000\r\n\r\n"), EVIL),
    "extensions": (post(CHUNKED, body=b"22;a=b;c=\"d e\" ; f\r\n" + EVIL + b"\r\n0;0\r\n\r\n"), EVIL),
    "trailers for the framing": (post(CHUNKED, body=chunk(EVIL) + b"0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
                                      b"Host: evil\r\n\r\n"), EVIL),
    "an expectation": (post(b"Expect: 100-continue", sized(EVIL), body=EVIL), EVIL),
    "an expectation before chunks": (post(b"Expect: 100-continue", CHUNKED, body=HIDDEN), EVIL),
    "an expectation without a body": (post(b"Expect: 100-continue", b"Content-Length: 0"), b""),
    "an upgrade with a body": (post(b"Connection: upgrade", b"Upgrade: evil", sized(EVIL), body=EVIL), EVIL),
    "an upgrade with chunks": (post(b"Connection: upgrade", b"Upgrade: websocket", CHUNKED, body=HIDDEN), EVIL),
    "an upgrade that Connection does not name": (post(b"Upgrade: h2c", sized(EVIL), body=EVIL), EVIL),
    "an upgrade that the server ignores": (post(b"Connection: upgrade", b"Upgrade: evil"), b""),
    "bytes above ASCII in a value": (post(b"X: \xe5\x98\x8a\xe5\x98\x8dTransfer-Encoding: chunked", sized(EVIL), body=EVIL), EVIL),
    "empty lines in front": (b"\r\n\r\n" + post(sized(EVIL), body=EVIL), EVIL),
}


@pytest.mark.parametrize("data, body", [pytest.param(*case, id=name) for name, case in TAKEN.items()])
def test_a_request_keeps_its_body(server, recorder, data, body):
    statuses = exchange(server, data + LAST)
    assert [status for status in statuses if status != 100] == [200, 200]
    first, last = seen(server, recorder)
    assert body_of(first) == (*IN, body) and body_of(last) == LAST_SEEN
    assert dict(first[2])["host"] == "test"


@pytest.mark.parametrize("line", [b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"])
@pytest.mark.parametrize("framing, body", [(sized(EVIL), EVIL), (CHUNKED, HIDDEN)], ids=["length", "chunks"])
def test_every_method_may_have_a_body(server, recorder, line, framing, body):
    assert exchange(server, post(framing, body=body, line=line + b" /in HTTP/1.1") + LAST) == [200, 200]
    first, last = seen(server, recorder)
    assert body_of(first) == (line.decode(), "/in", EVIL) and body_of(last) == LAST_SEEN


@pytest.mark.parametrize("target, host", [(b"http://other/in", "other"), (b"HTTP://other:81/in?a=http://test/", "other:81"),
                                          (b"http://other", "other"), (b"http://other?a", "other")])
def test_the_host_of_the_target_is_the_only_one(server, recorder, target, host):
    assert exchange(server, get(line=b"GET " + target + b" HTTP/1.1") + LAST) == [200, 200]
    first, last = seen(server, recorder)
    assert [value for name, value in first[2] if name in ("host", "x-forwarded-host")] == [host, host]
    assert first[1].startswith("/") and "other" not in first[1]
    assert body_of(last) == LAST_SEEN


@pytest.mark.parametrize("refused", [b"GET /in HTTP/1.1\r\n\r\n", post(b"Content-Length: x"), post(CHUNKED, body=b"x\r\n")])
def test_requests_behind_a_refused_one_are_dropped(server, recorder, refused):
    statuses = exchange(server, LAST + post(sized(EVIL), body=EVIL) + refused + EVIL * 3)
    assert statuses == [200, 200, 400]
    assert [body_of(one) for one in seen(server, recorder)] == [LAST_SEEN, (*IN, EVIL)]


def split(random, data):
    """The data in pieces of random sizes."""
    while data:
        size = random.choice([1, 1, 2, 3, 7, 50, 1000, 20_000])
        yield data[:size]
        data = data[size:]


@pytest.mark.parametrize("seed", range(20))
def test_random_chunks_become_the_same_body(server, recorder, seed):
    """Bodies that look like requests and chunks, in chunks and segments of random sizes."""
    source = random.Random(seed)
    alphabet = [EVIL, LAST, b"0\r\n\r\n", b"\r\n", b"\r", b"\n", b"5\r\nhello\r\n", b"Content-Length: 5\r\n", b"x" * 5000, b"\0"]
    bodies, sent = [], b""
    for _ in range(12):
        body = b"".join(source.choices(alphabet, k=source.randrange(30)))
        bodies.append(body)
        if source.random() < 0.3:
            sent += post(sized(body), body=body)
            continue
        sent += post(CHUNKED)
        for piece in split(source, body):
            size = source.choice([b"%x", b"%X", b"%04x"]) % len(piece)
            sent += size + source.choice([b"", b"", b";a", b";a=b", b" ;a=\"b\""]) + b"\r\n" + piece + b"\r\n"
        sent += source.choice([b"0", b"000", b"0;a"]) + b"\r\n" + source.choice([b"", b"X-Sum: 1\r\nX-More:\r\n"]) + b"\r\n"
    with server.connect() as client:
        def send():
            for piece in split(source, sent + LAST):
                client.send(piece)

        sender = threading.Thread(target=send)
        sender.start()
        assert [client.read().body for _ in range(len(bodies) + 1)] == [b"ok"] * (len(bodies) + 1)
        sender.join()
    assert [body_of(one) for one in seen(server, recorder)] == [*((*IN, body) for body in bodies), LAST_SEEN]


def literal(name, value):
    """A field in HPACK, as it is."""
    def text(data):
        data = data.encode("latin-1") if isinstance(data, str) else data
        if len(data) < 127:
            return bytes([len(data)]) + data
        rest = len(data) - 127
        return bytes([127, *([rest] if rest < 128 else [rest % 128 | 128, rest // 128])]) + data
    return b"\0" + text(name) + text(value)


HEAD2 = [(":method", "POST"), (":scheme", "http"), (":authority", "test"), (":path", "/in")]


def changed(**pseudo):
    """HEAD2 with these pseudo fields."""
    return [(name, pseudo.get(name[1:], value)) for name, value in HEAD2]


class Http2:
    """A connection that sends the fields as they are."""

    def __init__(self, port):
        self.raw = http2.Raw(port)
        self.raw.send(http2.PREFACE + http2.frame(http2.SETTINGS))
        self.decoder = hpack.Decoder()
        self.outcomes = {}  # by stream: a status, or "reset"
        self.ended = set()
        self.closed = False

    def send(self, stream, fields, *bodies, trailers=None):
        """Sends a request with one DATA frame for each body."""
        block = b"".join(literal(*field) for field in fields)
        frames = http2.frame(http2.HEADERS, http2.END_HEADERS | (0 if bodies else http2.END_STREAM), stream, block)
        for index, body in enumerate(bodies):
            ends = index + 1 == len(bodies) and trailers is None
            frames += http2.frame(http2.DATA, http2.END_STREAM if ends else 0, stream, body)
        if trailers is not None:
            frames += http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream,
                                  b"".join(literal(*field) for field in trailers))
        self.raw.send(frames)

    def wait(self, stream):
        """The outcome of the stream: its status, "reset", or "closed"."""
        while True:
            for kind, flags, number, payload in self.raw.frames():
                if kind == http2.HEADERS:
                    fields = self.decoder.decode(payload)
                    if (status := int(fields[0][1])) >= 200:
                        self.outcomes[number] = status
                elif kind == http2.RST_STREAM:
                    self.outcomes.setdefault(number, "reset")
                if kind == http2.RST_STREAM or kind in (http2.HEADERS, http2.DATA) and flags & http2.END_STREAM:
                    self.ended.add(number)
            if stream in self.ended:
                return self.outcomes[stream]
            if self.closed:
                return "closed"
            try:
                data = self.raw.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            self.raw.buffer += data
            self.closed = not data


def exchange2(server, fields, *bodies, trailers=None):
    """The outcomes of this request, and of the next one on the connection."""
    client = Http2(server.port)
    with client.raw:
        client.send(1, fields, *bodies, trailers=trailers)
        first = client.wait(1)
        if first == "closed":
            return first, first
        try:
            client.send(3, [(":method", "GET"), (":scheme", "http"), (":authority", "test"), (":path", "/last")])
        except OSError:
            return first, "closed"
        return first, client.wait(3)


INJECTED = "a\r\n\r\nGET /evil HTTP/1.1\r\nHost: test\r\n\r\n"

REFUSED2 = {
    **{f"the field {name!r}: {value!r}": [*HEAD2, (name, value)] for name, value in (
        ("x", INJECTED), ("x", "a\r\nTransfer-Encoding: chunked"), ("x", "a\rb"), ("x", "a\nb"), ("x", "a\0b"), ("x", "\r"), ("x", "\n"),
        ("x", "a\r"), ("x", "a\n"), ("x\r\ny", "a"), ("x\ny", "a"), ("x\ry", "a"), ("x\0", "a"), ("x: y\r\nz", "a"), ("x:y", "a"),
        ("x:", "a"), ("x y", "a"), ("x ", "a"), (" x", "a"), ("x\t", "a"), ("X", "a"), ("Content-Length", "5"), ("", "a"), ("x\xe9", "a"),
        ("x(", "a"), ("x\x7f", "a"), (INJECTED, "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "identity"),
        ("transfer-encoding", ""), ("Transfer-Encoding", "chunked"), ("transfer-encoding ", "chunked"), ("transfer-encoding:", "chunked"),
        ("connection", "close"), ("connection", "content-length"), ("connection", "upgrade"), ("upgrade", "h2c"), ("keep-alive", "5"),
        ("proxy-connection", "keep-alive"), ("te", "chunked"), ("te", "trailers, chunked"), (":path", "/evil"), (":method", "GET"),
        (":authority", "evil"), (":scheme", "https"), (":evil", "a"), (":status", "200"), (":protocol", "websocket"), ("host", "evil"),
        ("host", "test\r\nX: a"), ("content-length", "-1"), ("content-length", "+0"), ("content-length", "0, 0"), ("content-length", "0x0"),
        ("content-length", ""), ("content-length", "5"), ("content-length", "18446744073709551616"), ("content-length", "a"),
        ("content-length", "0\r\nX: a"), ("cookie", INJECTED), ("x", " a"), ("x", "a "), ("x", "\ta"))},
    **{f"the path {value!r}": changed(path=value) for value in (
        "/in HTTP/1.1\r\nHost: test\r\n\r\nGET /evil", "/a b", "/a\r", "/a\nb", "/a\0", "/a\tb", "", "in", "http://evil/in", "/in#a", " /in", "/in ",
        "/in HTTP/1.1", "/a\x7f", "*", "/a\x0b")},
    **{f"the method {value!r}": changed(method=value) for value in (
        "GET /evil HTTP/1.1\r\nHost: test\r\n\r\nPOST", "PO ST", "POST ", " POST", "", "POST\r\nX: a", "PO\0ST", "POST\t", "PO:ST", "P(ST")},
    **{f"the authority {value!r}": changed(authority=value) for value in (
        "test\r\nTransfer-Encoding: chunked", "test\r\n\r\n" + INJECTED, "te st", "test\0", "", "a@test", "test/evil", "test?a", "test#a", "test:x")},
    **{f"the scheme {value!r}": changed(scheme=value) for value in ("http://evil/", "http\r\nX: a", "", "ht tp", "http ")},
    **{f"no {name}": [field for field in HEAD2 if field[0] != name] for name in (":method", ":scheme", ":path", ":authority")},
    "a pseudo field behind others": [*HEAD2[:3], ("x", "a"), HEAD2[3]],
    "two lengths": [*HEAD2, ("content-length", "0"), ("content-length", "5")],
    "two hosts": [*HEAD2, ("host", "test"), ("host", "test")],
}


@pytest.mark.parametrize("fields", [pytest.param(fields, id=name) for name, fields in REFUSED2.items()])
@pytest.mark.parametrize("bodies", [(), (EVIL,)], ids=["no body", "a body"])
def test_a_refused_request_over_http2(server, recorder, fields, bodies):
    first, last = exchange2(server, fields, *bodies)
    assert first in ("reset", "closed") or 400 <= first < 500 or first == 501, first
    assert last in (200, "closed")
    assert [body_of(one) for one in seen(server, recorder)] == ([LAST_SEEN] if last == 200 else [])


@pytest.mark.parametrize("length, bodies", [
    (5, (b"hello" + EVIL,)), (5, (b"hello", EVIL)), (5, (b"hell", b"o" + EVIL)), (0, (EVIL,)), (5, (b"hell",)), (5, (b"",)),
    (100, (EVIL,)), (100, (EVIL, EVIL)), (5, ()), (len(EVIL) - 1, (EVIL,)), (len(EVIL) + 1, (EVIL,))])
def test_a_length_that_differs_over_http2(server, recorder, length, bodies):
    first, last = exchange2(server, [*HEAD2, ("content-length", str(length))], *bodies)
    assert first in ("reset", "closed", 400), first
    assert last in (200, "closed")
    requests = [body_of(one) for one in seen(server, recorder)]
    if last == 200:
        assert requests.pop() == LAST_SEEN
    # The whole body may have been passed on before the bytes arrive that are too many.
    assert requests in ([], [(*IN, b"".join(bodies)[:length])])
    assert not requests or len(b"".join(bodies)) > length


@pytest.mark.parametrize("fields, bodies, trailers", [
    ([], (EVIL,), None), ([], (b"a", EVIL, b"b"), None), ([("content-length", "34")], (EVIL,), None), ([], (HIDDEN,), None),
    ([], (b"0\r\n\r\n" + EVIL,), None), ([("te", "trailers")], (EVIL,), None), ([("host", "test")], (EVIL,), None),
    ([("expect", "100-continue")], (EVIL,), None), ([], (EVIL, b""), None), ([], (b"", EVIL), None), ([], (), None),
    ([("content-length", "0")], (), None), ([("x", "GET /evil HTTP/1.1")], (EVIL,), None),
    ([], (EVIL,), [("x-sum", "1")]), ([], (EVIL,), [("content-length", "5"), ("host", "evil")]),
])
def test_a_request_over_http2_keeps_its_body(server, recorder, fields, bodies, trailers):
    assert exchange2(server, [*HEAD2, *fields], *bodies, trailers=trailers) == (200, 200)
    assert [body_of(one) for one in seen(server, recorder)] == [(*IN, b"".join(bodies)), LAST_SEEN]


@pytest.mark.parametrize("trailer", [("x", INJECTED), ("x\r\ny", "a"), (":path", "/evil"), ("transfer-encoding", "chunked"), ("x", "a\nb"),
                                     ("X", "a"), ("connection", "close")])
def test_trailers_over_http2_inject_nothing(server, recorder, trailer):
    first, last = exchange2(server, HEAD2, EVIL, trailers=[trailer])
    assert first in ("reset", "closed", 400), first
    assert [body_of(one) for one in seen(server, recorder)] == ([LAST_SEEN] if last == 200 else [])


def test_connect_is_no_request_to_the_server(server, recorder):
    for fields in ([(":method", "CONNECT"), (":authority", "evil:80")], changed(method="CONNECT")):
        first, last = exchange2(server, fields, EVIL)
        assert first in ("reset", "closed") or 400 <= first <= 501, first
        assert [body_of(one) for one in seen(server, recorder)] == ([LAST_SEEN] if last == 200 else [])
