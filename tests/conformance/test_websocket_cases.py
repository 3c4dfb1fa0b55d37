"""WebSocket in the manner of the Autobahn list: what each case sends, and what must come back.

A case has a number, a title, the bytes to send, and the expected frames in order. Every case runs on a connection of its own
against the real program's echo: over HTTP/1.1, over HTTP/2, and with wsproto as the client that reads the answers. A short case is
also sent byte by byte. After the last expectation the connection must still work (the test closes it by a handshake), unless the
case ends it with a close frame of ours or with FAIL(code), the server's close.
"""
import struct
import zlib

import pytest

from websocket import (BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, WebSocket, WebSocketOverHttp2, WsprotoWebSocket,
                       close_payload, frame, header)

CONFIG = """
[[websocket]]
path = "/echo"
handler = "echo"
max_message = "16MiB"

[[websocket]]
path = "/small"
handler = "echo"
max_message = 1000
max_frame = 600

[[websocket]]
path = "/message"
handler = "echo"
max_message = "1MiB"
compression = "message"

[[websocket]]
path = "/connection"
handler = "echo"
max_message = "1MiB"
compression = "connection"
"""


@pytest.fixture(scope="module")
def server(serve):
    return serve(CONFIG)


@pytest.fixture(params=(WebSocket, WebSocketOverHttp2), ids=("http1", "h2"))
def connect(request, server):
    """connect(path, *fields) opens a WebSocket and returns its client."""
    return lambda path, *fields: request.param(server.port, path, *fields)


class Got:
    """An expected message or control frame."""

    def __init__(self, opcode, payload=b""):
        self.opcode = opcode
        self.payload = payload.encode() if isinstance(payload, str) else payload

    def __repr__(self):
        return f"{self.opcode}:{self.payload[:30]!r}({len(self.payload)})"


class FAIL:
    """The server closes with this code, and ends the connection."""

    def __init__(self, code):
        self.code = code


class CLOSED:
    """The server answers our close frame with this code (None: without one), and ends the connection."""

    def __init__(self, code):
        self.code = code


CASES = []


def case(number, title, sent, *expected, path="/echo"):
    CASES.append(pytest.param(sent, expected, path, id=f"{number} {title}"))


def texts(*parts):
    """A fragmented text message."""
    return b"".join(frame(TEXT if i == 0 else CONTINUATION, part, fin=i == len(parts) - 1)
                    for i, part in enumerate(parts))


# ---- 1: framing ----

for number, opcode, kind in ((1, TEXT, "text"), (2, BINARY, "binary")):
    byte = b"*" if opcode == TEXT else b"\xfe"
    for i, size in enumerate((0, 1, 125, 126, 127, 128, 65535, 65536, 65537)):
        case(f"1.{number}.{i + 1}", f"{kind} of {size} bytes", frame(opcode, byte * size), Got(opcode, byte * size))
    case(f"1.{number}.10", f"two {kind} messages at once", frame(opcode, b"1") + frame(opcode, b"2"),
         Got(opcode, b"1"), Got(opcode, b"2"))
    case(f"1.{number}.11", f"200 {kind} messages at once", b"".join(frame(opcode, b"%d" % n) for n in range(200)),
         *[Got(opcode, b"%d" % n) for n in range(200)])
for i, (size, form) in enumerate(((0, 16), (1, 16), (125, 16), (125, 64), (126, 64), (65535, 64))):
    case(f"1.3.{i + 1}", f"{size} bytes with a length of {form} bits", frame(BINARY, bytes(size), form=form), FAIL(1002))
case("1.3.7", "a length with its highest bit", header(BINARY, 1 << 63, form=64), FAIL(1002))
for i, (opcode, payload) in enumerate(((TEXT, b"x"), (BINARY, b""), (PING, b""), (CLOSE, close_payload(1000)))):
    case(f"1.4.{i + 1}", f"opcode {opcode} without a mask", frame(opcode, payload, mask=None), FAIL(1002))
case("1.4.5", "a mask of zeros", frame(TEXT, b"hello", mask=b"\0\0\0\0"), Got(TEXT, "hello"))
case("1.4.6", "another mask for each frame", frame(TEXT, b"hello", mask=b"abcd") + frame(TEXT, b"world", mask=b"\xff\0\xff\0"),
     Got(TEXT, "hello"), Got(TEXT, "world"))

# ---- 2: pings and pongs ----

case("2.1", "ping without payload", frame(PING), Got(PONG))
case("2.2", "ping with text", frame(PING, b"Hello, world!"), Got(PONG, b"Hello, world!"))
case("2.3", "ping with bytes that are no text", frame(PING, b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff"),
     Got(PONG, b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff"))
case("2.4", "ping of 125 bytes", frame(PING, b"\xfe" * 125), Got(PONG, b"\xfe" * 125))
case("2.5", "ping of 126 bytes", frame(PING, b"\xfe" * 126), FAIL(1002))
case("2.6", "ping of 65536 bytes", frame(PING, b"\xfe" * 65536), FAIL(1002))
case("2.7", "an unasked pong", frame(PONG) + frame(PING, b"x"), Got(PONG, b"x"))
case("2.8", "an unasked pong with payload", frame(PONG, b"unasked") + frame(TEXT, b"x"), Got(TEXT, b"x"))
case("2.9", "an unasked pong, then a ping", frame(PONG, b"unasked") + frame(PING, b"ping"), Got(PONG, b"ping"))
case("2.10", "ten pings at once", b"".join(frame(PING, b"payload-%d" % n) for n in range(10)),
     *[Got(PONG, b"payload-%d" % n) for n in range(10)])
case("2.11", "a pong of 126 bytes", frame(PONG, bytes(126)), FAIL(1002))
case("2.12", "a ping after a message", frame(TEXT, b"x") + frame(PING, b"y"), Got(TEXT, b"x"), Got(PONG, b"y"))

# ---- 3: reserved bits ----

for rsv in range(1, 8):
    case(f"3.1.{rsv}", f"text with reserved bits {rsv:03b}", frame(TEXT, b"Hello", rsv=rsv), FAIL(1002))
    case(f"3.2.{rsv}", f"ping with reserved bits {rsv:03b}", frame(PING, b"Hello", rsv=rsv), FAIL(1002))
case("3.3", "a message, then reserved bits", frame(TEXT, b"1") + frame(TEXT, b"2", rsv=2) + frame(PING), Got(TEXT, b"1"),
     FAIL(1002))
case("3.4", "reserved bits of a continuation", frame(TEXT, b"1", fin=False) + frame(CONTINUATION, b"2", rsv=1), FAIL(1002))
case("3.5", "reserved bits of a close", frame(CLOSE, close_payload(1000), rsv=4), FAIL(1002))

# ---- 4: opcodes ----

for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
    case(f"4.1.{opcode}", f"opcode {opcode}", frame(opcode), FAIL(1002))
    case(f"4.2.{opcode}", f"opcode {opcode} with payload, after a message", frame(TEXT, b"x") + frame(opcode, b"payload") +
         frame(PING), Got(TEXT, b"x"), FAIL(1002))

# ---- 5: fragmentation ----

case("5.1", "a fragmented ping", frame(PING, b"1", fin=False) + frame(CONTINUATION, b"2"), FAIL(1002))
case("5.2", "a fragmented pong", frame(PONG, b"1", fin=False) + frame(CONTINUATION, b"2"), FAIL(1002))
case("5.3", "a fragmented close", frame(CLOSE, close_payload(1000), fin=False), FAIL(1002))
case("5.4", "text in two fragments", texts(b"fragment1", b"fragment2"), Got(TEXT, b"fragment1fragment2"))
case("5.5", "text in ten fragments", texts(*[b"%d" % n for n in range(10)]), Got(TEXT, b"0123456789"))
case("5.6", "a ping between fragments", frame(TEXT, b"fragment1", fin=False) + frame(PING, b"ping") +
     frame(CONTINUATION, b"fragment2"), Got(PONG, b"ping"), Got(TEXT, b"fragment1fragment2"))
case("5.7", "two pings and a pong between fragments", frame(BINARY, b"1", fin=False) + frame(PING, b"a") +
     frame(CONTINUATION, b"2", fin=False) + frame(PONG, b"b") + frame(PING, b"c") + frame(CONTINUATION, b"3"),
     Got(PONG, b"a"), Got(PONG, b"c"), Got(BINARY, b"123"))
case("5.8", "a continuation of nothing", frame(CONTINUATION, b"x"), FAIL(1002))
case("5.9", "a continuation of nothing that goes on", frame(CONTINUATION, b"x", fin=False) + frame(TEXT, b"y"), FAIL(1002))
case("5.10", "a continuation after a whole message", frame(TEXT, b"x") + frame(CONTINUATION, b"y"), Got(TEXT, b"x"), FAIL(1002))
case("5.11", "text within text", frame(TEXT, b"x", fin=False) + frame(TEXT, b"y"), FAIL(1002))
case("5.12", "binary within text", frame(TEXT, b"x", fin=False) + frame(BINARY, b"y", fin=False), FAIL(1002))
case("5.13", "empty fragments", texts(b"", b"", b"", b""), Got(TEXT, b""))
case("5.14", "text between empty fragments", texts(b"", b"middle", b""), Got(TEXT, b"middle"))
case("5.15", "a fragmented message, then a whole one", texts(b"a", b"b") + frame(TEXT, b"c"), Got(TEXT, b"ab"), Got(TEXT, b"c"))
case("5.16", "a close between fragments", frame(TEXT, b"x", fin=False) + frame(CLOSE, close_payload(1000)), CLOSED(1000))
case("5.17", "large fragments", frame(BINARY, b"a" * 70_000, fin=False) + frame(CONTINUATION, b"b" * 70_000, fin=False) +
     frame(CONTINUATION, b"c" * 70_000), Got(BINARY, b"a" * 70_000 + b"b" * 70_000 + b"c" * 70_000))
case("5.18", "1000 fragments of a byte", texts(*[b"x"] * 1000), Got(TEXT, b"x" * 1000))
case("5.19", "a ping between each of twenty fragments", b"".join(
    frame(BINARY if n == 0 else CONTINUATION, b"%d." % n, fin=n == 19) + (frame(PING, b"%d" % n) if n < 19 else b"")
    for n in range(20)), *[Got(PONG, b"%d" % n) for n in range(19)], Got(BINARY, b"".join(b"%d." % n for n in range(20))))

# ---- 6: UTF-8 ----

GREEK = "Hello-µ@ßöäüàá-UTF-8!!".encode()
case("6.1.1", "text of no bytes", frame(TEXT), Got(TEXT))
case("6.1.2", "text of no bytes in three fragments", texts(b"", b"", b""), Got(TEXT))
case("6.2.1", "valid text", frame(TEXT, GREEK), Got(TEXT, GREEK))
case("6.2.2", "valid text in two fragments, cut between characters", texts(GREEK[:8], GREEK[8:]), Got(TEXT, GREEK))
case("6.2.3", "valid text in fragments of a byte", texts(*[bytes([byte]) for byte in GREEK]), Got(TEXT, GREEK))
case("6.2.4", "valid text, long", frame(TEXT, GREEK * 5000), Got(TEXT, GREEK * 5000))
WRONG = "κόσμε".encode() + b"\xed\xa0\x80" + b"edited"
case("6.3.1", "invalid text", frame(TEXT, WRONG), FAIL(1007))
case("6.3.2", "invalid text in fragments of a byte", texts(*[bytes([byte]) for byte in WRONG]), FAIL(1007))
case("6.4.1", "invalid text is refused in its first fragment", frame(TEXT, "κόσμε".encode() + b"\xf4\x90", fin=False), FAIL(1007))
case("6.4.2", "invalid text is refused within a frame that is not whole", header(TEXT, 1000, mask=bytes(4)) +
     "κόσμε".encode() + b"\xf4\x90", FAIL(1007))
VALID = {
    "the word κόσμε": "κόσμε".encode(), "U+0000": b"\0", "U+007F": b"\x7f", "U+0080": b"\xc2\x80", "U+07FF": b"\xdf\xbf",
    "U+0800": b"\xe0\xa0\x80", "U+D7FF": b"\xed\x9f\xbf", "U+E000": b"\xee\x80\x80", "U+FFFD": b"\xef\xbf\xbd",
    "U+FFFE": b"\xef\xbf\xbe", "U+FFFF": b"\xef\xbf\xbf", "U+10000": b"\xf0\x90\x80\x80", "U+1FFFE": b"\xf0\x9f\xbf\xbe",
    "U+10FFFF": b"\xf4\x8f\xbf\xbf", "a byte order mark": b"\xef\xbb\xbf",
}
for i, (title, text) in enumerate(VALID.items()):
    case(f"6.5.{i + 1}", title, frame(TEXT, text), Got(TEXT, text))
INVALID = {
    "U+110000": b"\xf4\x90\x80\x80", "five bytes": b"\xf8\x88\x80\x80\x80", "six bytes": b"\xfc\x84\x80\x80\x80\x80",
    "a continuation byte": b"\x80", "two continuation bytes": b"\x80\xbf", "all continuation bytes": bytes(range(0x80, 0xC0)),
    "a lonely start of two": b"\xc2 ", "a lonely start of three": b"\xe2 ", "a lonely start of four": b"\xf0 ",
    "the last byte of two is missing": b"\xc3", "the last byte of three is missing": b"\xe2\x82",
    "the last byte of four is missing": b"\xf0\x9f\x98", "fe": b"\xfe", "ff": b"\xff", "fe fe ff ff": b"\xfe\xfe\xff\xff",
    "overlong / of two": b"\xc0\xaf", "overlong / of three": b"\xe0\x80\xaf", "overlong / of four": b"\xf0\x80\x80\xaf",
    "overlong / of five": b"\xf8\x80\x80\x80\xaf", "the largest overlong of two": b"\xc1\xbf",
    "the largest overlong of three": b"\xe0\x9f\xbf", "the largest overlong of four": b"\xf0\x8f\xbf\xbf",
    "overlong NUL": b"\xc0\x80", "the first surrogate": b"\xed\xa0\x80", "the last high surrogate": b"\xed\xaf\xbf",
    "the first low surrogate": b"\xed\xb0\x80", "the last surrogate": b"\xed\xbf\xbf",
    "a pair of surrogates": b"\xed\xa0\x80\xed\xb0\x80",
}
for i, (title, text) in enumerate(INVALID.items()):
    case(f"6.6.{i + 1}", title, frame(TEXT, text), FAIL(1007))
    case(f"6.7.{i + 1}", f"{title}, far behind", frame(TEXT, b"x" * 300 + text + b"y" * 300), FAIL(1007))
case("6.8", "any bytes are binary", frame(BINARY, bytes(range(256))), Got(BINARY, bytes(range(256))))

# ---- 7: closing ----

case("7.1.1", "a message, then a close", frame(TEXT, b"Hello") + frame(CLOSE, close_payload(1000)), Got(TEXT, b"Hello"), CLOSED(1000))
case("7.1.2", "two closes", frame(CLOSE, close_payload(1000)) * 2, CLOSED(1000))
case("7.1.3", "a ping after the close", frame(CLOSE, close_payload(1000)) + frame(PING), CLOSED(1000))
case("7.1.4", "a message after the close", frame(CLOSE, close_payload(1000)) + frame(TEXT, b"late"), CLOSED(1000))
case("7.1.5", "an unfinished message, a close, its end", frame(TEXT, b"1", fin=False) + frame(CLOSE, close_payload(1000)) +
     frame(CONTINUATION, b"2"), CLOSED(1000))
case("7.1.6", "256 kB, then a close", frame(TEXT, b"BAsd7&jh23" * 26215) + frame(CLOSE, close_payload(1000)),
     Got(TEXT, b"BAsd7&jh23" * 26215), CLOSED(1000))
case("7.3.1", "a close without payload", frame(CLOSE), CLOSED(None))
case("7.3.2", "a close of one byte", frame(CLOSE, b"\x03"), FAIL(1002))
case("7.3.3", "a close with a code", frame(CLOSE, close_payload(1000)), CLOSED(1000))
case("7.3.4", "a close with a reason", frame(CLOSE, close_payload(1000, "Hello World!")), CLOSED(1000))
case("7.3.5", "a close with a reason of 123 bytes", frame(CLOSE, close_payload(1000, b"*" * 123)), CLOSED(1000))
case("7.3.6", "a close with a reason of 124 bytes", frame(CLOSE, close_payload(1000, b"*" * 124)), FAIL(1002))
case("7.5.1", "a close whose reason is no text", frame(CLOSE, close_payload(1000, WRONG)), FAIL(1007))
case("7.5.2", "a close whose reason ends within a character", frame(CLOSE, close_payload(1000, b"\xe2\x82")), FAIL(1007))
for i, code in enumerate((1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999)):
    case(f"7.7.{i + 1}", f"code {code}", frame(CLOSE, close_payload(code)), CLOSED(code))
for i, code in enumerate((0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)):
    case(f"7.9.{i + 1}", f"code {code}", frame(CLOSE, close_payload(code)), FAIL(1002))

# ---- 9: limits and large messages ----

for number, opcode in ((1, TEXT), (2, BINARY)):
    for i, size in enumerate((1 << 16, 1 << 18, 1 << 20, 1 << 22)):
        payload = b"*" * size
        case(f"9.{number}.{i + 1}", f"{size} bytes of opcode {opcode}", frame(opcode, payload), Got(opcode, payload))
for i, size in enumerate((64, 1024, 65536)):
    whole = b"x" * (1 << 20) if size > 64 else b"x" * (1 << 16)
    case(f"9.3.{i + 1}", f"{len(whole)} bytes in fragments of {size}", texts(*[whole[at:at + size] for at in range(0, len(whole), size)]),
         Got(TEXT, whole))
case("9.4.1", "a frame as long as allowed", frame(TEXT, b"x" * 600), Got(TEXT, b"x" * 600), path="/small")
case("9.4.2", "a frame that is too long", frame(TEXT, b"x" * 601), FAIL(1009), path="/small")
case("9.4.3", "a message as long as allowed", texts(b"x" * 600, b"y" * 400), Got(TEXT, b"x" * 600 + b"y" * 400), path="/small")
case("9.4.4", "a message that is too long", texts(b"x" * 600, b"y" * 401), FAIL(1009), path="/small")
case("9.4.5", "a message of many fragments that is too long", texts(*[b"x"] * 1001), FAIL(1009), path="/small")
case("9.4.6", "a frame that is announced too long", header(BINARY, 1 << 40), FAIL(1009), path="/small")
case("9.4.7", "a second message counts by itself", texts(b"x" * 600, b"y" * 400) * 2, Got(TEXT, b"x" * 600 + b"y" * 400),
     Got(TEXT, b"x" * 600 + b"y" * 400), path="/small")
case("9.4.8", "the largest frame there is", header(BINARY, (1 << 63) - 1), FAIL(1009))


SHORT = 200  # bytes: cases up to this size are also sent byte by byte


def expect(client, expected):
    for what in expected:
        if isinstance(what, Got):
            got = client.frame()
            assert (got.fin, got.rsv, got.opcode) == (True, 0, what.opcode), (got, what)
            assert got.payload == what.payload, (got, what)
        elif isinstance(what, FAIL):
            client.expect_close(what.code)
            return
        else:
            got = client.frame()
            assert got.opcode == CLOSE and got.code == what.code, got
            client.assert_closed()
            return
    client.close_with(1000)


@pytest.mark.parametrize("client_of", (WebSocket, WebSocketOverHttp2, WsprotoWebSocket), ids=("http1", "h2", "wsproto"))
@pytest.mark.parametrize("sent, expected, path", CASES)
def test_case(server, client_of, sent, expected, path):
    if client_of is WsprotoWebSocket and sent == frame(CLOSE, close_payload(1014)):
        pytest.skip("wsproto does not know this code")

    def connect(path):
        return client_of(server.port, path)

    with connect(path) as client:
        client.send(sent)
        expect(client, expected)
    if len(sent) > SHORT:
        return
    with connect(path) as client:
        for i in range(len(sent)):
            try:
                client.send(sent[i:i + 1])
            except OSError:  # the server has closed before the end
                assert any(isinstance(what, (FAIL, CLOSED)) for what in expected)
                break
        try:
            expect(client, expected)
        except ConnectionResetError:
            assert any(isinstance(what, (FAIL, CLOSED)) for what in expected)


def test_the_list_is_long_enough():
    assert len(CASES) + len(DEFLATE) >= 150
    numbers = [each.id for each in CASES + DEFLATE]
    assert len(numbers) == len(set(numbers))


# ---- 12 and 13: compression ----

class Deflate:
    """A client's side of permessage-deflate, as the answer to the handshake agreed to it."""

    def __init__(self, answer, level=6):
        extension = answer.get("sec-websocket-extensions")
        name, *parameters = [part.strip() for part in extension.split(";")]
        assert name == "permessage-deflate"
        self.parameters = dict((part.split("=") + [None])[:2] for part in parameters)
        self.level = level
        self.bits = int(self.parameters.get("client_max_window_bits") or 15)
        self.server_bits = int(self.parameters.get("server_max_window_bits") or 15)
        self.forget()
        self.inflater = zlib.decompressobj(-self.server_bits)

    def forget(self):
        self.deflater = zlib.compressobj(self.level, zlib.DEFLATED, -self.bits)

    def compress(self, data):
        out = self.deflater.compress(data) + self.deflater.flush(zlib.Z_SYNC_FLUSH)
        assert out.endswith(b"\0\0\xff\xff")
        if "client_no_context_takeover" in self.parameters:
            self.forget()
        return out[:-4]

    def decompress(self, payload):
        if "server_no_context_takeover" in self.parameters:
            self.inflater = zlib.decompressobj(-self.server_bits)
        return self.inflater.decompress(payload + b"\0\0\xff\xff")


DEFLATE = []


def deflate_case(number, title, offer, path):
    def add(function):
        DEFLATE.append(pytest.param(function, offer, path, id=f"{number} {title}"))
        return function
    return add


def message(client, deflate):
    """The next message: (opcode, data, whether it was compressed)."""
    got = client.frame()
    assert got.fin and got.rsv in (0, 4) and got.opcode in (TEXT, BINARY), got
    data = deflate.decompress(got.payload) if got.rsv else got.payload
    return got.opcode, data, got.rsv == 4


PLAIN = "permessage-deflate"
OFFERS = (
    ("as it is", PLAIN), ("client_max_window_bits", f"{PLAIN}; client_max_window_bits"),
    ("windows of 512 bytes", f"{PLAIN}; client_max_window_bits=9; server_max_window_bits=9"),
    ("a window of 256 bytes", f"{PLAIN}; server_max_window_bits=8"),
    ("no context for the server", f"{PLAIN}; server_no_context_takeover"),
    ("no context for either", f"{PLAIN}; server_no_context_takeover; client_no_context_takeover"),
)
DATA = {
    "repetitive": lambda size: (b"The quick brown fox jumps over the lazy dog. " * (size // 45 + 1))[:size],
    "hardly compressible": lambda size: b"".join(struct.pack("!I", n * 2654435761 % (1 << 32)) for n in range(size // 4 + 1))[:size],
}
for p, path in enumerate(("/message", "/connection")):
    for d, (what, make) in enumerate(DATA.items()):
        for s, size in enumerate((16, 64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072)):
            @deflate_case(f"12.{p + 1}.{d + 1}.{s + 1}", f"three times {size} bytes, {what}, {path}", PLAIN, path)
            def echoes(client, deflate, payload=make(size)):
                for _ in range(3):
                    client.say(BINARY, deflate.compress(payload), rsv=4)
                for _ in range(3):
                    opcode, data, _ = message(client, deflate)
                    assert opcode == BINARY and data == payload
    for o, (what, offer) in enumerate(OFFERS):
        @deflate_case(f"13.{p + 1}.{o + 1}", f"{what}, {path}", offer, path)
        def agrees(client, deflate):
            for size in (1, 100, 1000, 50_000, 1000, 50_000):
                payload = DATA["repetitive"](size)
                client.say(TEXT, deflate.compress(payload), rsv=4)
                opcode, data, compressed = message(client, deflate)
                assert opcode == TEXT and data == payload
                assert compressed or size < 100


@deflate_case("13.3.1", "fragments of a compressed message, a ping between them", PLAIN, "/message")
def _(client, deflate):
    payload = deflate.compress(GREEK * 20)
    for cut in range(len(payload) + 1):
        client.say(TEXT, payload[:cut], fin=False, rsv=4)
        client.say(PING, b"%d" % cut)
        client.say(CONTINUATION, payload[cut:])
        pong = client.frame()
        assert pong.opcode == PONG and pong.payload == b"%d" % cut
        assert message(client, deflate)[:2] == (TEXT, GREEK * 20)


@deflate_case("13.3.2", "compressed and plain messages in turn", PLAIN, "/connection")
def _(client, deflate):
    for n in range(10):
        text = b"message %d" % n * 10
        if n % 2:
            client.say(TEXT, text)
        else:
            client.say(TEXT, deflate.compress(text), rsv=4)
        assert message(client, deflate)[:2] == (TEXT, text)


@deflate_case("13.3.3", "an empty message, compressed", PLAIN, "/connection")
def _(client, deflate):
    client.say(TEXT, b"\0", rsv=4)
    assert message(client, deflate)[:2] == (TEXT, b"")


@deflate_case("13.3.4", "a block that says it is the last", PLAIN, "/connection")
def _(client, deflate):
    client.say(TEXT, b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00", rsv=4)
    assert message(client, deflate)[:2] == (TEXT, b"Hello")
    client.say(TEXT, b"\xf2\x00\x11\x00\x00", rsv=4)
    assert message(client, deflate)[:2] == (TEXT, b"Hello")


@deflate_case("13.3.5", "a stored block", PLAIN, "/message")
def _(client, deflate):
    client.say(TEXT, b"\x00\x05\x00\xfa\xffHello\x00", rsv=4)
    assert message(client, deflate)[:2] == (TEXT, b"Hello")


@deflate_case("13.4.1", "what is no deflate stream", PLAIN, "/message")
def _(client, deflate):
    client.say(TEXT, b"hello, world", rsv=4)
    client.expect_close(1007)
    return "closed"


@deflate_case("13.4.2", "text that is none, compressed", PLAIN, "/message")
def _(client, deflate):
    client.say(TEXT, deflate.compress(WRONG), rsv=4)
    client.expect_close(1007)
    return "closed"


@deflate_case("13.4.3", "a bomb", PLAIN, "/message")
def _(client, deflate):
    payload = deflate.compress(bytes(64 << 20))
    assert len(payload) < 1 << 17
    client.say(BINARY, payload, rsv=4)
    client.expect_close(1009)
    return "closed"


@deflate_case("13.4.4", "exactly as large as allowed, and a byte more", PLAIN, "/connection")
def _(client, deflate):
    client.say(BINARY, deflate.compress(bytes(1 << 20)), rsv=4)
    assert message(client, deflate)[1] == bytes(1 << 20)
    client.say(BINARY, deflate.compress(bytes((1 << 20) + 1)), rsv=4)
    client.expect_close(1009)
    return "closed"


@deflate_case("13.4.5", "the bit on a continuation", PLAIN, "/message")
def _(client, deflate):
    payload = deflate.compress(b"x" * 100)
    client.say(TEXT, payload[:3], fin=False, rsv=4)
    client.say(CONTINUATION, payload[3:], rsv=4)
    client.expect_close(1002)
    return "closed"


@deflate_case("13.4.6", "the bit on a ping", PLAIN, "/message")
def _(client, deflate):
    client.say(PING, b"", rsv=4)
    client.expect_close(1002)
    return "closed"


@deflate_case("13.4.7", "another bit on a compressed message", PLAIN, "/message")
def _(client, deflate):
    client.say(TEXT, deflate.compress(b"x"), rsv=6)
    client.expect_close(1002)
    return "closed"


@pytest.mark.parametrize("talk, offer, path", DEFLATE)
def test_compression(connect, talk, offer, path):
    with connect(path, f"Sec-WebSocket-Extensions: {offer}") as client:
        deflate = Deflate(client.answer)
        if path == "/message":
            assert {"server_no_context_takeover", "client_no_context_takeover"} <= set(deflate.parameters)
        if talk(client, deflate) != "closed":
            client.close_with(1000)


@pytest.mark.parametrize("offer", (
    "permessage-deflate; unknown", "permessage-deflate; server_max_window_bits=16", "permessage-deflate; server_max_window_bits",
    "permessage-deflate; client_no_context_takeover=1", "permessage-deflate; client_max_window_bits=7", "x-webkit-deflate-frame"))
def test_an_offer_that_cannot_be_met_is_declined(connect, offer):
    with connect("/message", f"Sec-WebSocket-Extensions: {offer}") as client:
        assert client.answer.get("sec-websocket-extensions") is None
        client.say(TEXT, b"plain")
        assert client.frame().payload == b"plain"
        client.close_with(1000)
