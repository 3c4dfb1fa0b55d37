"""The probes of test_http1_probes.py: what is sent, and the answer that the RFC asks for.

A probe begins with its reference: a section of RFC 9112, or of another RFC that it names ("9110 9.3.7"). Then come a title, the
bytes, the answers in order, and the fate of the connection. The same write sends the canary behind the bytes: a request for a file
of its own. On a connection that is KEPT the canary is answered next; on one that is CLOSED it is not answered. So each probe shows
where the server saw the end of its request. `alone` sends no canary.
"""
import dataclasses

KEPT, CLOSED = "kept", "closed"

HELLO = b"Hello, world.\n"
DATA = bytes(n * 7 % 251 for n in range(10_000))
MODIFIED = "Wed, 01 Jan 2020 00:00:00 GMT"
EARLIER = "Tue, 31 Dec 2019 23:59:59 GMT"
LATER = "Thu, 02 Jan 2020 00:00:00 GMT"
HEAD_LIMIT, TARGET_LIMIT, FIELD_LIMIT, BODY_LIMIT = 4096, 1024, 32, 4096

FILE, BIG, ROW, SOCKET, NOTHING = "/f/hello.txt", "/f/data.bin", "/echo/x", "/socket", "/nothing/here"


class A:
    """An expected answer. `fields` maps names to values; None: the field is absent; ...: any value."""

    def __init__(self, status, body=None, head=False, fields=None):
        self.status, self.body, self.head, self.fields = status, body, head, fields or {}

    def __repr__(self):
        return f"A({self.status}, {self.body!r}, {self.fields})"


@dataclasses.dataclass
class Probe:
    reference: str
    title: str
    sent: bytes
    answers: list
    fate: str
    alone: bool


OK = A(200, HELLO)
PROBES = []


def probe(reference, title, sent, *answers, fate, alone=False):
    # latin-1 gives each character one byte.
    sent = sent.encode("latin-1") if isinstance(sent, str) else sent
    answers = [A(answer) if isinstance(answer, int) else answer for answer in answers]
    PROBES.append(Probe(reference, title, sent, answers, fate, alone))


def request(*fields, method="GET", target=FILE, version="HTTP/1.1", host="h", body=""):
    lines = [f"{method} {target} {version}", *([] if host is None else [f"Host: {host}"]), *fields]
    return "\r\n".join(lines) + "\r\n\r\n" + body


def kept(reference, title, *fields, answer=OK, **how):
    probe(reference, title, request(*fields, **how), answer, fate=KEPT)


def refused(reference, title, *fields, status=400, **how):
    probe(reference, title, request(*fields, **how), status, fate=CLOSED)


SMUGGLED = "GET /f/smuggled.txt HTTP/1.1\r\nHost: h\r\n\r\n"

# ---- Content-Length (RFC 9110, 8.6; RFC 9112, 6.2 and 6.3) ----

kept("6.2", "a body as long as it says", "Content-Length: 5", body="hello")
kept("6.2", "a length of zero", "Content-Length: 0")
kept("6.2", "a body that is a request", f"Content-Length: {len(SMUGGLED)}", body=SMUGGLED)
kept("9110 8.6", "leading zeros", "Content-Length: 0005", body="hello")
kept("9110 8.6", "thirty leading zeros", "Content-Length: " + "0" * 30 + "5", body="hello")
kept("5.1", "white space around the length", "Content-Length:  \t5 \t", body="hello")
kept("9110 5.1", "a name in mixed case", "cOnTeNt-LeNgTh: 5", body="hello")
kept("6.2", "another field whose name begins so", "Content-Length-X: 5")
kept("6.2", "another field that differs by '_'", "Content_Length: 5")
refused("6.3", "two lengths that differ", "Content-Length: 5", "Content-Length: 6", body="hello")
refused("6.3", "two lengths that differ, one is zero", "Content-Length: 0", "Content-Length: 44", body=SMUGGLED)
refused("6.3", "the same length twice", "Content-Length: 5", "Content-Length: 5", body="hello")
refused("6.3", "a list of the same", "Content-Length: 5, 5", body="hello")
refused("6.3", "a list of the same without a space", "Content-Length: 5,5", body="hello")
refused("6.3", "a list of different ones", "Content-Length: 5, 6", body="hello")
for value in ("+5", "-1", "-0", "0x5", "5_0", "1e1", "5.0", "5 5", "5;5", "\"5\"", "five", "", "5\x0b", "\u00b2", "5,", ",5",
              "5\x00", "0o5", "5h", "٥".encode().decode("latin-1")):
    refused("6.3", f"a length of {value!r}", f"Content-Length: {value}", body="hello")
refused("9110 15.5.14", "a length of 2^63", f"Content-Length: {2**63}", status=413, body="hello")
refused("9110 15.5.14", "a length of 2^64", f"Content-Length: {2**64}", status=413, body="hello")
refused("9110 15.5.14", "a length of 2^64 + 5", f"Content-Length: {2**64 + 5}", status=413, body="hello")
refused("9110 15.5.14", "a length of 2^32 + 5", f"Content-Length: {2**32 + 5}", status=413, body="hello")
refused("9110 15.5.14", "a length of a hundred digits", "Content-Length: " + "9" * 100, status=413, body="hello")
refused("6.3", "2^64 and a letter", f"Content-Length: {2**64}x", body="hello")

# ---- Transfer-Encoding (RFC 9112, 6.1, 6.3 and 7) ----

CHUNKS = "5\r\nhello\r\n0\r\n\r\n"


def chunked(reference, title, body, answer=OK, fate=KEPT, alone=False):
    probe(reference, title, request("Transfer-Encoding: chunked", body=body), answer, fate=fate, alone=alone)


def bad_chunks(reference, title, body, status=400, alone=False):
    chunked(reference, title, body, A(status), CLOSED, alone)


chunked("7.1", "chunks", CHUNKS)
chunked("7.1", "no chunk but the last", "0\r\n\r\n")
chunked("7.1", "a chunk that is a request", f"{len(SMUGGLED):x}\r\n{SMUGGLED}\r\n0\r\n\r\n")
kept("7", "the coding's name in capitals", "Transfer-Encoding: CHUNKED", body=CHUNKS)
kept("5.1", "white space around the coding", "Transfer-Encoding: \t chunked \t ", body=CHUNKS)
kept("9110 5.6.1", "an empty element before the coding", "Transfer-Encoding: , chunked", body=CHUNKS)
kept("9110 5.6.1", "an empty element behind the coding", "Transfer-Encoding: chunked,", body=CHUNKS)
kept("9110 10.1.4", "a TE field is no coding of the request", "TE: trailers, chunked", "Connection: TE")
refused("6.1", "CL.TE: a length and chunks", f"Content-Length: {len(CHUNKS)}", "Transfer-Encoding: chunked", body=CHUNKS)
refused("6.1", "TE.CL: chunks and a shorter length", "Transfer-Encoding: chunked", "Content-Length: 4",
        body=f"{len(SMUGGLED):x}\r\n{SMUGGLED}\r\n0\r\n\r\n")
refused("6.1", "a length of zero and chunks", "Content-Length: 0", "Transfer-Encoding: chunked", body=CHUNKS)
refused("6.3", "a length and an unknown coding", "Content-Length: 5", "Transfer-Encoding: xchunked", body="hello")
for value in ("gzip", "identity", "xchunked", "chunkedx", "chunke", "", ",", "chunked, identity", "chunked, gzip", "\"chunked\"",
              "'chunked'", "chunked;", "chunked;q=1", "[chunked]", "chunked chunked", "chunked\x0b", "\x0bchunked",
              "chunked\x00", "chunk\u00e9d", "ch\rchunked"):
    refused("6.3", f"a coding {value!r}, so chunked is not the last", f"Transfer-Encoding: {value}", body=CHUNKS)
refused("6.3", "chunked twice", "Transfer-Encoding: chunked, chunked", body=CHUNKS)
refused("6.3", "chunked twice, in two fields", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=CHUNKS)
refused("6.3", "TE.TE: chunked, then identity in a field of its own", "Transfer-Encoding: chunked",
        "Transfer-Encoding: identity", body=CHUNKS)
refused("6.1", "TE.TE: identity, then chunked", "Transfer-Encoding: identity", "Transfer-Encoding: chunked", status=501,
        body=CHUNKS)
refused("6.1", "a coding that the server does not know, then chunked", "Transfer-Encoding: gzip, chunked", status=501, body=CHUNKS)
refused("6.1", "a made-up coding, then chunked", "Transfer-Encoding: x, chunked", status=501, body=CHUNKS)
refused("6.1", "HTTP/1.0 with Transfer-Encoding", "Transfer-Encoding: chunked", version="HTTP/1.0", body=CHUNKS)
refused("6.1", "HTTP/1.0 with both", "Transfer-Encoding: chunked", "Content-Length: 5", "Connection: keep-alive",
        version="HTTP/1.0", body=CHUNKS)
refused("5.1", "a space between the name and the colon", "Transfer-Encoding : chunked", body=CHUNKS)
refused("5.1", "a tab between the name and the colon", "Transfer-Encoding\t: chunked", body=CHUNKS)
refused("5.1", "NUL in the name", "Transfer-Encoding\x00: chunked", body=CHUNKS)
refused("5.2", "the coding on a folded line", "Transfer-Encoding:\r\n chunked", body=CHUNKS)
refused("5.2", "the coding behind a folded line", "X: y\r\n Transfer-Encoding: chunked", body=CHUNKS)
refused("2.2", "the field behind a bare CR", "X: y\rTransfer-Encoding: chunked", body=CHUNKS)
refused("2.2", "the field behind a bare LF", "X: y\nTransfer-Encoding: chunked", body=CHUNKS)

# ---- chunks (RFC 9112, 7.1) ----

chunked("7.1", "a size in capitals and small letters", "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n")
chunked("7.1", "a size with leading zeros", "0000000000000005\r\nhello\r\n000\r\n\r\n")
chunked("7.1.1", "an extension", "5;name=value\r\nhello\r\n0;last\r\n\r\n")
chunked("7.1.1", "an extension in quotes", '5;name="a;b\\"c"\r\nhello\r\n0\r\n\r\n')
chunked("7.1.1", "white space before an extension", "5 \t;\tname = value\r\nhello\r\n0\r\n\r\n")
chunked("7.1.2", "trailer fields", "5\r\nhello\r\n0\r\nX-Sum: 5\r\nX-More:\r\n\r\n")
chunked("9110 6.5.1", "trailer fields about framing are not obeyed",
        "5\r\nhello\r\n0\r\nContent-Length: 100\r\nTransfer-Encoding: gzip\r\nHost: other\r\nConnection: close\r\n\r\n")
for title, size in (("empty", ""), ("no digits", "x"), ("digits, then letters", "5x"), ("negative", "-5"), ("with a plus", "+5"),
                    ("with 0x", "0x5"), ("with an underscore", "0_5"), ("in quotes", '"5"'), ("with a point", "5.0"),
                    ("behind a space", " 5"), ("behind a tab", "\t5"), ("before a space", "5 "), ("before a tab", "5\t"),
                    ("before a comma", "5,"), ("with NUL", "5\0"), ("behind NUL", "\x005"), ("before a vertical tab", "5\x0b"),
                    ("two", "5 5")):
    bad_chunks("7.1", f"a size {title}", f"{size}\r\nhello\r\n0\r\n\r\n")
bad_chunks("7.1", "a size of 2^64", "10000000000000000\r\nhello\r\n0\r\n\r\n")
bad_chunks("7.1", "a size of 2^64 + 5", "10000000000000005\r\nhello\r\n0\r\n\r\n")
bad_chunks("7.1", "a size of 2^63 + 5, which signed would be negative", "8000000000000005\r\nhello\r\n0\r\n\r\n")
bad_chunks("7.1", "a size of 2^64 - 1", "ffffffffffffffff\r\nhello\r\n0\r\n\r\n")
bad_chunks("7.1", "a size behind a bare LF", "5\nhello\r\n0\r\n\r\n")
bad_chunks("7.1", "a size behind a bare CR", "5\rhello\r\n0\r\n\r\n")
bad_chunks("7.1", "a last size behind a bare LF", "0\n\r\n")
bad_chunks("7.1", "no line end behind the data", "5\r\nhello0\r\n\r\n")
bad_chunks("7.1", "a bare LF behind the data", "5\r\nhello\n0\r\n\r\n")
bad_chunks("7.1", "a bare CR behind the data", "5\r\nhello\r0\r\n\r\n")
bad_chunks("7.1", "more data than the size", "5\r\nhello!\r\n0\r\n\r\n")
bad_chunks("7.1", "less data than the size", "5\r\nhell\r\n0\r\n\r\n")
bad_chunks("7.1.1", "an extension with a bare LF", "5;a\nhello\r\n0\r\n\r\n")
bad_chunks("7.1.1", "an extension with a bare LF, then a request", f"2;\nxx\r\n{len(SMUGGLED):x}\r\n0\r\n\r\n{SMUGGLED}\r\n0\r\n\r\n")
bad_chunks("7.1.1", "an extension with a bare CR", "5;a\rb\r\nhello\r\n0\r\n\r\n")
bad_chunks("7.1.1", "an extension with NUL", "5;a\0b\r\nhello\r\n0\r\n\r\n")
bad_chunks("7.1.1", "an extension in quotes with a line end", '5;a="\r\n"\r\nhello\r\n0\r\n\r\n')
bad_chunks("7.1.1", "extensions without end", "5;" + "a" * 3000 + "\r\nhello\r\n0\r\n\r\n")
bad_chunks("7.1.2", "a trailer line without a colon", "0\r\nnothing\r\n\r\n")
bad_chunks("7.1.2", "a trailer with a space before its colon", "0\r\nX : y\r\n\r\n")
bad_chunks("7.1.2", "a trailer with a bare LF", "0\r\nX: y\n\r\n")
bad_chunks("7.1.2", "a trailer with NUL", "0\r\nX: y\0\r\n\r\n")
bad_chunks("5.2", "a trailer that is folded", "0\r\nX: y\r\n z\r\n\r\n")
bad_chunks("7.1.2", "a bare LF instead of the trailer's end", "0\r\n\n")
bad_chunks("6585 5", "trailers without end", "0\r\n" + ("X: " + "y" * 1000 + "\r\n") * 10 + "\r\n", status=431)
probe("7.1", "a request right behind the last chunk is one of its own", request("Transfer-Encoding: chunked", body=CHUNKS)
      + request(target="/f/second.txt"), OK, A(200, b"second\n"), fate=KEPT)
probe("7.1", "a last chunk without its empty line takes the next request for a trailer",
      request("Transfer-Encoding: chunked", body="0\r\n") + "GET /f/smuggled.txt HTTP/1.1\r\nHost: h\r\n\r\n", 400, fate=CLOSED)

# ---- bodies where none is expected (RFC 9110, 9.3) ----

for method, target, answer in (("HEAD", FILE, A(200, head=True)), ("DELETE", FILE, A(405)), ("OPTIONS", FILE, A(204)),
                               ("POST", FILE, A(405)), ("PUT", FILE, A(405)), ("GET", NOTHING, A(404)), ("GET", ROW, A(400)),
                               ("BREW", FILE, A(501))):
    kept("6.3", f"a body with {method} {target}", f"Content-Length: {len(SMUGGLED)}", answer=answer, method=method,
         target=target, body=SMUGGLED)
    kept("6.3", f"chunks with {method} {target}", "Transfer-Encoding: chunked", answer=answer, method=method, target=target,
         body=f"{len(SMUGGLED):x}\r\n{SMUGGLED}\r\n0\r\n\r\n")
kept("6.3", "POST without a length has no body", method="POST", answer=A(405))
kept("6.3", "an HTTP/1.0 body", "Content-Length: 5", "Connection: keep-alive", version="HTTP/1.0", body="hello")
kept("9110 8.3", "a Content-Type without a body", "Content-Type: text/plain")

# ---- the connection (RFC 9112, 9) ----

kept("9.3", "HTTP/1.1 stays", answer=A(200, HELLO, fields={"connection": None}))
probe("9.3", "HTTP/1.0 closes", request(version="HTTP/1.0"), A(200, HELLO, fields={"transfer-encoding": None}), fate=CLOSED)
kept("9.3", "HTTP/1.0 with keep-alive stays and says so", "Connection: keep-alive", version="HTTP/1.0",
     answer=A(200, HELLO, fields={"connection": "keep-alive"}))
kept("9.3", "HTTP/1.0 with Keep-Alive in capitals", "Connection: KEEP-ALIVE", version="HTTP/1.0")
probe("9.6", "close", request("Connection: close"), OK, fate=CLOSED)
probe("9.6", "close in capitals", request("Connection: CLOSE"), OK, fate=CLOSED)
probe("9.6", "close in a list", request("Connection: foo , close,bar"), OK, fate=CLOSED)
probe("9.6", "close in a second field", request("Connection: keep-alive", "Connection: close"), OK, fate=CLOSED)
probe("9.3", "close beside keep-alive", request("Connection: keep-alive, close"), OK, fate=CLOSED)
probe("9.3", "HTTP/1.0 with close beside keep-alive", request("Connection: close, keep-alive", version="HTTP/1.0"), OK,
      fate=CLOSED)
kept("9.6", "an option that begins like close", "Connection: close-not")
kept("9110 7.6.1", "empty elements", "Connection: ,, ,")
probe("9.6", "a 404 does not close", request(target=NOTHING), 404, fate=KEPT)
probe("9.6", "a 404 closes where close is asked", request("Connection: close", target=NOTHING), 404, fate=CLOSED)
probe("9.6", "close with rows", request("Connection: close", target=ROW), A(200), fate=CLOSED)
probe("7", "rows for HTTP/1.0 are not chunked", request(target="/numbers", version="HTTP/1.0"),
      A(200, fields={"transfer-encoding": None}), fate=CLOSED)
probe("9.3.2", "pipelined requests are answered in their order",
      request() + request(target=ROW) + request(target="/f/second.txt") + request(target=NOTHING) + request(method="HEAD"),
      OK, A(200, b'{"value":"x"}\n'), A(200, b"second\n"), 404, A(200, head=True), fate=KEPT)
probe("9.3.2", "fifty pipelined requests", request() * 50, *[OK] * 50, fate=KEPT)
probe("9.3.2", "a pipelined request with a body between others",
      request() + request("Content-Length: 5", method="POST", body="hello") + request(), OK, 405, OK, fate=KEPT)
probe("9.3.2", "a bad request ends what is pipelined", request() + "BAD\r\n\r\n" + request(), OK, 400, fate=CLOSED)
probe("9.6", "nothing behind close is answered", request() + request("Connection: close") + request(), OK, OK, fate=CLOSED)
probe("2.2", "an empty line before a request", "\r\n" + request(), OK, fate=KEPT)
probe("2.2", "an empty line behind a body", request("Content-Length: 5", body="hello\r\n"), OK, fate=KEPT)
probe("2.2", "two empty lines before a request", "\r\n\r\n" + request(), OK, fate=KEPT)
probe("2.2", "empty lines without end", "\r\n" * 50 + request(), 400, fate=CLOSED)
probe("2.2", "an LF before a request", "\n" + request(), 400, fate=CLOSED)
probe("2.2", "a space before a request", " " + request(), 400, fate=CLOSED)

# ---- the end of answers (RFC 9112, 6.3; RFC 9110, 8.6) ----

kept("6.3", "HEAD has a file's length and no body", method="HEAD",
     answer=A(200, head=True, fields={"content-length": str(len(HELLO)), "content-type": ...}))
kept("9110 9.3.2", "HEAD of rows has their type", method="HEAD", target=ROW, answer=A(200, head=True, fields={"content-type": "application/json"}))
kept("9110 9.3.2", "HEAD of what is not there", method="HEAD", target=NOTHING, answer=A(404, head=True))
refused("9110 9.3.2", "HEAD that is refused has no body", "Content-Length: 99999", method="HEAD", status=A(413, head=True))
refused("9110 9.3.2", "HEAD of what is no path has no body", method="HEAD", target="/../x", status=A(400, head=True))
refused("9110 9.3.2", "HEAD without Host has no body", method="HEAD", host=None, status=A(400, head=True))
kept("9110 8.6", "204 has no length", method="OPTIONS", answer=A(204, fields={"content-length": None, "allow": "GET, HEAD, OPTIONS"}))
kept("9110 15.4.5", "304 has no body", "If-None-Match: *", answer=A(304, fields={"etag": ..., "date": ...}))
kept("9110 15.4.2", "301 names the folder", target="/f/sub?x=1", answer=A(301, fields={"location": "/f/sub/?x=1"}))
kept("9110 15.4.2", "301 names the folder of the route", target="/f?x=1", answer=A(301, fields={"location": "/f/?x=1"}))

# ---- expectations (RFC 9110, 10.1.1) ----

probe("9110 10.1.1", "a final answer instead of 100 closes", request("Expect: 100-continue", "Content-Length: 5", body="hello"),
      OK, fate=CLOSED)
probe("9110 10.1.1", "a request that waits for 100", request("Expect: 100-continue", "Content-Length: 5"), OK, fate=CLOSED,
      alone=True)
probe("9110 10.1.1", "a chunked request that waits", request("Expect: 100-Continue", "Transfer-Encoding: chunked"), OK,
      fate=CLOSED, alone=True)
probe("9110 10.1.1", "405 instead of 100", request("Expect: 100-continue", "Content-Length: 5", method="PUT"), 405, fate=CLOSED,
      alone=True)
probe("9110 10.1.1", "413 instead of 100", request("Expect: 100-continue", f"Content-Length: {BODY_LIMIT + 1}"), 413, fate=CLOSED,
      alone=True)
kept("9110 10.1.1", "an expectation without a body", "Expect: 100-continue")
kept("9110 10.1.1", "an HTTP/1.0 expectation is ignored", "Expect: 100-continue", "Content-Length: 5", "Connection: keep-alive",
     version="HTTP/1.0", body="hello")
refused("9110 10.1.1", "an unknown expectation", "Expect: 200-maybe", status=417)
refused("9110 10.1.1", "an unknown expectation beside the known", "Expect: 100-continue, x=y", status=417)
refused("9110 10.1.1", "an unknown expectation with a body", "Expect: x", "Content-Length: 5", status=417, body="hello")

# ---- the request line (RFC 9112, 3) ----

for title, line in (("two spaces behind the method", f"GET  {FILE} HTTP/1.1"), ("two spaces before the version", f"GET {FILE}  HTTP/1.1"),
                    ("a space behind the version", f"GET {FILE} HTTP/1.1 "), ("a tab behind the method", f"GET\t{FILE} HTTP/1.1"),
                    ("a tab before the version", f"GET {FILE}\tHTTP/1.1"), ("a tab behind the version", f"GET {FILE} HTTP/1.1\t"),
                    ("a space in the target", "GET /f/hel lo.txt HTTP/1.1"), ("no target", "GET HTTP/1.1"),
                    ("an empty target", "GET  HTTP/1.1"), ("no version: HTTP/0.9", f"GET {FILE}"), ("a method alone", "GET"),
                    ("a version in small letters", f"GET {FILE} http/1.1"), ("a version with one number", f"GET {FILE} HTTP/1"),
                    ("a version with two digits", f"GET {FILE} HTTP/1.10"), ("a version with zeros", f"GET {FILE} HTTP/01.1"),
                    ("a version with a comma", f"GET {FILE} HTTP/1,1"), ("a version of letters", f"GET {FILE} HTTP/x.y"),
                    ("another protocol", f"GET {FILE} ICY/1.1"), ("HTTPS as the version's name", f"GET {FILE} HTTPS/1.1"),
                    ("a vertical tab", f"GET\x0b{FILE} HTTP/1.1"), ("NUL in the method", f"G\0ET {FILE} HTTP/1.1"),
                    ("a colon in the method", f"GET: {FILE} HTTP/1.1"), ("a bracket in the method", f"G(T {FILE} HTTP/1.1"),
                    ("a method beyond ASCII", f"G\u00c9T {FILE} HTTP/1.1"), ("no method", f" {FILE} HTTP/1.1"),
                    ("NUL in the target", "GET /f/hello.txt\0 HTTP/1.1"), ("a control character in the target", "GET /f/\x01 HTTP/1.1"),
                    ("DEL in the target", "GET /f/\x7f HTTP/1.1"), ("a bare CR in the target", "GET /f/\rhello.txt HTTP/1.1"),
                    ("a bare CR behind the version", f"GET {FILE} HTTP/1.1\rX: y"), ("a fragment", f"GET {FILE}#x HTTP/1.1"),
                    ("UTF-8 in the target", "GET /f/\xc3\xa9 HTTP/1.1"), ("a byte beyond ASCII in the query", "GET /f/?\xff HTTP/1.1")):
    probe("3", f"{title}", line + "\r\nHost: h\r\n\r\n", 400, fate=CLOSED)
probe("2.2", "lines that end with LF", f"GET {FILE} HTTP/1.1\nHost: h\n\n", 400, fate=CLOSED)
probe("2.2", "a request line that ends with LF", f"GET {FILE} HTTP/1.1\nHost: h\r\n\r\n", 400, fate=CLOSED)
probe("2.2", "an empty line of LF", f"GET {FILE} HTTP/1.1\r\nHost: h\r\n\n", 400, fate=CLOSED)
probe("2.2", "white space between the request line and the fields", f"GET {FILE} HTTP/1.1\r\n Host: x\r\nHost: h\r\n\r\n", 400,
      fate=CLOSED)
probe("2.2", "TLS on a port without it", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\x00" * 32, 400, fate=CLOSED)
probe("2.2", "what is no HTTP", "SSH-2.0-OpenSSH_9.6\r\n", 400, fate=CLOSED)
kept("9110 2.5", "a higher minor version is taken for 1.1", version="HTTP/1.2")
kept("9110 2.5", "the highest minor version", version="HTTP/1.9")
for version in ("HTTP/2.0", "HTTP/3.0", "HTTP/0.9", "HTTP/9.1"):
    refused("9110 15.6.6", f"{version} in a request line", version=version, status=505)
refused("3", "the methods' longest", method="M" * 3000, status=501)
refused("3", "a target longer than the limit", target="/f/" + "a" * TARGET_LIMIT, status=414)
refused("3", "a query longer than the limit", target="/f/?" + "a" * TARGET_LIMIT, status=414)
kept("3", "the longest target", target="/f/" + "a" * (TARGET_LIMIT - 3), answer=A(404))

# ---- forms of the target (RFC 9112, 3.2) ----

kept("3.2.1", "origin-form with a query", target=FILE + "?a=b&c=d?e/../f")
kept("3.2.1", "an empty query", target=FILE + "?")
kept("3.2.2", "absolute-form", target="http://h" + FILE)
kept("3.2.2", "absolute-form with a differing Host, which is ignored", target="http://h" + FILE, host="other.example")
kept("3.2.2", "absolute-form with a port", target="http://h:8080" + FILE)
kept("9110 4.2.3", "a scheme in capitals", target="HTTP://H" + FILE)
kept("9110 4.2.3", "absolute-form without a path", target="http://h", answer=A(404))
kept("3.2.2", "absolute-form with a query and no path", target="http://h?x", answer=A(404))
kept("3.2.2", "absolute-form with IPv6", target="http://[::1]:80" + FILE, host="[::1]:80")
refused("3.2", "absolute-form without Host", target="http://h" + FILE, host=None)
refused("3.2", "absolute-form with a bad Host", target="http://h" + FILE, host="a b")
refused("9110 4.2.4", "userinfo", target="http://user@h" + FILE)
refused("9110 4.2.1", "an empty host", target="http://" + FILE)
refused("3.2.2", "a bad port", target="http://h:x" + FILE)
refused("3.2.2", "another scheme", target="ftp://h" + FILE)
refused("3.2.2", "no scheme", target="h" + FILE)
refused("3.2.2", "one slash behind the scheme", target="http:/h" + FILE)
refused("9110 7.4", "https on a port without TLS", target="https://h" + FILE, status=421)
refused("3.2.3", "authority-form with CONNECT: no proxy, and no request follows", method="CONNECT", target="h:80", host="h:80",
        status=501)
refused("3.2.3", "CONNECT without a port", method="CONNECT", target="h")
refused("3.2.3", "CONNECT with a path", method="CONNECT", target="/f/hello.txt")
refused("3.2.3", "authority-form with GET", target="h:80")
kept("3.2.4", "asterisk-form with OPTIONS", method="OPTIONS", target="*", answer=A(204))
kept("3.2.4", "absolute-form of the asterisk", method="OPTIONS", target="http://h", answer=A(204))
refused("3.2.4", "asterisk-form with GET", target="*")
refused("3.2.4", "more than an asterisk", method="OPTIONS", target="*x")
refused("3.2.4", "an asterisk with a query", method="OPTIONS", target="*?x")

# ---- Host (RFC 9112, 3.2) ----

refused("3.2", "no Host", host=None)
refused("3.2", "two Hosts", "Host: h")
refused("3.2", "two Hosts that differ", "Host: other")
refused("3.2", "two Hosts in HTTP/1.0", "Host: h", version="HTTP/1.0")
for value in ("a b", "a/b", "user@a", "a:x", "a:80:80", "a:99999", "a:-1", "http://a", "[::1", "::1]", "[::1]x", "[::g]", "a?b", "a#b",
              "a\\b", "a%zz", "a%", "<a>", "a\"b", ":80", "a\xc3\xa9", "a, b", "a%20b", "a..", "a\x0b", "a\0"):
    refused("3.2", f"a Host {value!r}", host=value)
for value in ("h:80", "h:", "127.0.0.1:8080", "[::1]:8080", "[2001:db8::1]", "a.", "a_b", ""):
    kept("3.2", f"a Host {value!r}", host=value)
probe("3.2", "HTTP/1.0 needs none", request(version="HTTP/1.0", host=None), OK, fate=CLOSED)
kept("9110 5.1", "the name in small letters, no space", "host:h", host=None)

# ---- fields (RFC 9112, 5; RFC 9110, 5.5) ----

kept("9110 5.5", "an empty value", "X:")
kept("9110 5.5", "a value of white space", "X: \t ")
kept("9110 5.5", "bytes beyond ASCII", "X: \xc3\xa9\xff")
kept("9110 5.6.2", "every character of a token", "!#$%&'*+-.^_`|~09azAZ: x")
kept("9110 5.3", "a field many times", *["X: y"] * 20)
kept("9110 5.5", "a tab inside of a value", "X: a\tb")
for title, line in (("a name alone", "Name"), ("an empty name", ": value"), ("a space in the name", "Na me: value"),
                    ("a space before the colon", "Name : value"), ("a tab before the colon", "Name\t: value"),
                    ("NUL in a name", "Na\0me: value"), ("a bracket in a name", "Na(me: value"), ("a name in quotes", '"Name": value'),
                    ("a name beyond ASCII", "N\u00e4me: value"), ("DEL in a name", "Na\x7fme: value"), ("a slash in a name", "a/b: c"),
                    ("NUL in a value", "X: a\0b"), ("NUL alone", "X: \0"), ("a bare CR in a value", "X: a\rb"),
                    ("a bare CR before the line end", "X: a\r"), ("a bare LF in a value", "X: a\nY: b"), ("a bare LF as the line end", "X: a\nY"),
                    ("a control character in a value", "X: a\x01b"), ("DEL in a value", "X: a\x7fb"), ("an escape in a value", "X: \x1b[0m"),
                    ("a line that begins with a space", " X: y"), ("a line that begins with a tab", "\tX: y"),
                    ("a folded value", "X: y\r\n z"), ("a value folded with a tab", "X: y\r\n\tz"), ("a line of a space", "X: y\r\n ")):
    refused("5", title, line)
refused("6585 5", "a field longer than the limit", "X: " + "y" * HEAD_LIMIT, status=431)
refused("6585 5", "a name longer than the limit", "X" * HEAD_LIMIT + ": y", status=431)
refused("6585 5", "many fields that are too long together", *["X: " + "y" * 200] * 25, status=431)
refused("6585 5", "more fields than the limit", *["X: y"] * FIELD_LIMIT, status=431)
kept("6585 5", "as many fields as the limit", *["X: y"] * (FIELD_LIMIT - 1))

# ---- limits of bodies (RFC 9110, 15.5.14) ----

refused("9110 15.5.14", "a length over the limit, before any of it came", f"Content-Length: {BODY_LIMIT + 1}", status=413)
kept("9110 15.5.14", "the longest body", f"Content-Length: {BODY_LIMIT}", body="x" * BODY_LIMIT)
bad_chunks("9110 15.5.14", "chunks over the limit", f"{BODY_LIMIT // 2:x}\r\n{'x' * (BODY_LIMIT // 2)}\r\n" * 3 + "0\r\n\r\n", status=413)
bad_chunks("9110 15.5.14", "a chunk over the limit, before any of it came", f"{BODY_LIMIT + 1:x}\r\n", status=413, alone=True)
bad_chunks("9110 15.5.14", "the largest chunk that there is", "7fffffffffffffff\r\nhello", status=413, alone=True)
chunked("9110 15.5.14", "chunks of the limit", f"{BODY_LIMIT:x}\r\n{'x' * BODY_LIMIT}\r\n0\r\n\r\n")

# ---- Upgrade (RFC 9110, 7.8) ----

kept("9110 7.8", "a protocol that nobody knows", "Connection: upgrade", "Upgrade: foo/2")
kept("9110 7.8", "h2c, which is not taken", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
kept("9110 7.8", "TLS", "Connection: Upgrade", "Upgrade: TLS/1.2, HTTP/1.1")
kept("9110 7.8", "a WebSocket where there is a file", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
kept("9110 7.8", "Upgrade with a body", "Connection: Upgrade", "Upgrade: h2c", f"Content-Length: {len(SMUGGLED)}", body=SMUGGLED)
kept("9110 7.8", "a WebSocket path without Upgrade", target=SOCKET, answer=A(426, fields={"upgrade": "websocket", "connection": ...}))
kept("9110 7.8", "an HTTP/1.0 Upgrade is ignored", "Connection: upgrade, keep-alive", "Upgrade: websocket", version="HTTP/1.0")

# ---- normalisation (RFC 3986, 6.2.2; RFC 9110, 4.2.3 and 17.3) ----

for target in ("/f/%68ello.txt", "/f/h%65ll%6F.txt", "/f/hello%2Etxt", "/f/hello%2etxt", "/%66/hello.txt", "/f/./hello.txt", "/./f/hello.txt",
               "/f/sub/../hello.txt", "/f/sub/%2e%2e/hello.txt", "/f/sub/.%2E/hello.txt", "/f/sub/%2e./hello.txt", "/f/%2e/hello.txt",
               "/x/../f/hello.txt", "/f/a/b/../../hello.txt", "/f//hello.txt", "//f/hello.txt", "/f///.//hello.txt"):
    kept("3986 6.2.2", f"{target} is the file", target=target)
kept("3986 6.2.2", "a folder by '..' at the end", target="/f/sub/x/..", answer=A(404))
kept("3986 3.3", "a semicolon is data", target="/echo/a;b=c", answer=A(200, b'{"value":"a;b=c"}\n'))
kept("3986 3.3", "a semicolon does not end a file's name", target=FILE + ";x", answer=A(404))
kept("3986 2.2", "an encoded slash is data", target="/echo/a%2Fb", answer=A(200, b'{"value":"a/b"}\n'))
kept("3986 2.2", "an encoded slash separates nothing", target="/f%2fhello.txt", answer=A(404))
kept("3986 2.2", "an encoded question mark is data", target="/echo/a%3Fb", answer=A(200, b'{"value":"a?b"}\n'))
kept("3986 2.2", "an encoded '#' is data", target="/echo/a%23b", answer=A(200, b'{"value":"a#b"}\n'))
kept("3986 2.4", "an escape is resolved once", target="/echo/a%2541", answer=A(200, b'{"value":"a%41"}\n'))
kept("3986 2.4", "a plus is a plus in a path", target="/echo/a+b", answer=A(200, b'{"value":"a+b"}\n'))
kept("3986 2.5", "UTF-8 by escapes", target="/echo/%C3%A9", answer=A(200, b'{"value":"\xc3\xa9"}\n'))
kept("3986 2.4", "a doubly encoded '..' is a name", target="/f/%252e%252e/f/hello.txt", answer=A(404))
kept("3986 2.4", "a doubly encoded slash is a name", target="/f/sub%252f..%252fhello.txt", answer=A(404))
for target in ("/f/..%2fsecret.txt", "/f/%2e%2e%2fsecret.txt", "/f/sub/..%2f..%2fsecret.txt", "/f/..%5csecret.txt",
               "/f/%c0%ae%c0%ae/secret.txt", "/f/..%c0%afsecret.txt", "/f/%e0%80%ae%e0%80%ae/secret.txt", "/f/..;/secret.txt",
               "/f/.../secret.txt", "/f/....//secret.txt", "/f/%ef%bc%8e%ef%bc%8e/secret.txt", "/f/link-out.txt", "/f//etc/passwd",
               "/f/%20../secret.txt", "/f/..%20/secret.txt", "/f/hello.txt/", "/f/hello.txt/x", "/f/%u002e%u002e/x"):
    answer = A(400) if "%u" in target else A(404)
    (refused if answer.status == 400 else kept)("9110 17.3", f"{target} leads nowhere", target=target,
                                               **({} if answer.status == 400 else {"answer": answer}))
for target in ("/../f/hello.txt", "/..", "/f/../../etc/passwd", "/%2e%2e/f/hello.txt", "/f/%2e%2e/%2E%2E/etc/passwd", "/..;/../../x",
               "http://h/../f/hello.txt"):
    refused("9110 17.3", f"{target} is above the root", target=target)
for target in ("/f/%00hello.txt", "/f/hello.txt%00", "/f/hello.txt%00.html", "/echo/%00", "/f/%", "/f/%4", "/f/%zz", "/f/%4g",
               "/f/%%34%31", "/f/% 41", "/f/%-1", "/f/%+1"):
    refused("3", f"{target!r} has a bad escape", target=target)
for target in ("/f/sub\\..\\hello.txt", "/f\\hello.txt", "/f/..\\secret.txt", "\\f\\hello.txt"):
    refused("3", f"{target!r} has a backslash", target=target)
for target in ("/f/<hello.txt>", '/f/"hello.txt"'):
    refused("3", f"{target!r} has what is in no URI", target=target)

# ---- methods (RFC 9110, 9) ----

GET_ONLY = {"allow": "GET, HEAD, OPTIONS"}
for kind, target, known, allow in (("a file", FILE, 200, GET_ONLY), ("a folder", "/f/sub/", 404, GET_ONLY), ("rows", ROW, 200, GET_ONLY),
                                   ("a WebSocket", SOCKET, 426, None)):
    kept("9110 9.3.1", f"GET of {kind}", target=target, answer=A(known))
    kept("9110 9.3.2", f"HEAD of {kind}", method="HEAD", target=target, answer=A(known, head=True))
    kept("9110 9.3.7", f"OPTIONS of {kind}", method="OPTIONS", target=target, answer=A(204, fields=allow or {"allow": ...}))
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        kept("9110 15.5.6", f"{method} of {kind}", method=method, target=target, answer=A(405, fields=allow or {"allow": ...}))
    kept("9110 15.5.6", f"TRACE of {kind}", method="TRACE", target=target, answer=A(405, fields=allow or {"allow": ...}))
    for method in ("BREW", "get", "GETS", "PROPFIND"):
        kept("9110 9.1", f"{method} of {kind}", method=method, target=target, answer=A(501))
for method in ("GET", "POST", "DELETE", "OPTIONS", "TRACE"):
    kept("9110 15.5.5", f"{method} of nothing", method=method, target=NOTHING, answer=A(404))
kept("9110 9.1", "BREW of nothing", method="BREW", target=NOTHING, answer=A(501))
kept("9110 9.3.8", "a TRACE does not come back", "Cookie: secret", method="TRACE", answer=A(405, fields={"content-type": "application/problem+json"}))

# ---- conditions (RFC 9110, 13); {tag} and {weak} stand for the file's entity-tag ----

for title, fields, status in (
        ("the tag", ["If-None-Match: {tag}"], 304), ("the tag, weak", ["If-None-Match: W/{tag}"], 304),
        ("another tag", ['If-None-Match: "other"'], 200), ("the tag in a list", ['If-None-Match: "a", {tag} , "b"'], 304),
        ("the tag in a second field", ['If-None-Match: "a"', "If-None-Match: {tag}"], 304), ("any tag", ["If-None-Match: *"], 304),
        ("a date before its own", [f"If-Modified-Since: {EARLIER}"], 200), ("its date", [f"If-Modified-Since: {MODIFIED}"], 304),
        ("a later date", [f"If-Modified-Since: {LATER}"], 304),
        ("RFC 850's form", ["If-Modified-Since: Wednesday, 01-Jan-20 00:00:00 GMT"], 304),
        ("asctime's form", ["If-Modified-Since: Wed Jan  1 00:00:00 2020"], 304),
        ("a date that is none", ["If-Modified-Since: yesterday"], 200),
        ("another tag goes before its date", ['If-None-Match: "other"', f"If-Modified-Since: {MODIFIED}"], 200),
        ("the tag goes before an earlier date", ["If-None-Match: {tag}", f"If-Modified-Since: {EARLIER}"], 304),
        ("If-Match of the tag", ["If-Match: {tag}"], 200), ("If-Match of any", ["If-Match: *"], 200),
        ("If-Match of another", ['If-Match: "other"'], 412), ("If-Match is strong", ["If-Match: W/{tag}"], 412),
        ("If-Match in a list", ['If-Match: "other", {tag}'], 200),
        ("unmodified since its date", [f"If-Unmodified-Since: {MODIFIED}"], 200),
        ("unmodified since an earlier date", [f"If-Unmodified-Since: {EARLIER}"], 412),
        ("unmodified since no date", ["If-Unmodified-Since: now"], 200),
        ("If-Match goes before If-Unmodified-Since", ["If-Match: {tag}", f"If-Unmodified-Since: {EARLIER}"], 200),
        ("If-Match goes before If-None-Match", ['If-Match: "other"', "If-None-Match: {tag}"], 412)):
    kept("9110 13.2.2", f"conditions: {title}", *fields, target=BIG, answer=A(status))
    if status != 200:
        kept("9110 13.2.2", f"HEAD, conditions: {title}", *fields, target=BIG, method="HEAD", answer=A(status, head=True))
kept("9110 13.2.1", "conditions change nothing where the answer is 405", 'If-Match: "other"', method="DELETE", answer=A(405))
kept("9110 13.2.1", "conditions change nothing where there is nothing", "If-None-Match: *", target=NOTHING, answer=A(404))

# ---- ranges (RFC 9110, 14) ----


def part(first, last):
    return A(206, DATA[first:last + 1], fields={"content-range": f"bytes {first}-{last}/{len(DATA)}", "etag": ..., "date": ...})


WHOLE = A(200, DATA, fields={"content-range": None})
NONE = A(416, fields={"content-range": f"bytes */{len(DATA)}"})
PARTS = A(206, fields={"content-range": None, "content-type": "multipart/byteranges"})
for title, fields, answer in (
        ("the first bytes", ["Range: bytes=0-4"], part(0, 4)), ("one byte", ["Range: bytes=0-0"], part(0, 0)),
        ("from a byte on", ["Range: bytes=9990-"], part(9990, 9999)), ("the last bytes", ["Range: bytes=-10"], part(9990, 9999)),
        ("more last bytes than there are", ["Range: bytes=-20000"], part(0, 9999)),
        ("an end beyond the last", ["Range: bytes=9000-20000"], part(9000, 9999)),
        ("an end beyond 2^64", ["Range: bytes=9000-99999999999999999999"], part(9000, 9999)),
        ("the unit in capitals", ["Range: BYTES=0-4"], part(0, 4)),
        ("all behind the end", ["Range: bytes=10000-"], NONE), ("no last bytes", ["Range: bytes=-0"], NONE),
        ("a begin beyond 2^64", ["Range: bytes=99999999999999999999-"], NONE), ("several behind the end", ["Range: bytes=20000-,30000-"], NONE),
        ("one behind the end, one before", ["Range: bytes=20000-,0-4"], part(0, 4)),
        ("an end before its begin", ["Range: bytes=5-4"], WHOLE), ("another unit", ["Range: lines=0-4"], WHOLE),
        ("no numbers", ["Range: bytes=-"], WHOLE), ("letters", ["Range: bytes=a-b"], WHOLE), ("no unit", ["Range: 0-4"], WHOLE),
        ("nothing", ["Range: bytes="], WHOLE), ("a sign", ["Range: bytes=+0-4"], WHOLE),
        ("several", ["Range: bytes=0-9,1000-1009,-10"], PARTS), ("several with white space", ["Range: bytes=0-9 , 1000-1009"], PARTS),
        ("overlapping ones become one", ["Range: bytes=0-99,50-149"], part(0, 149)),
        ("the same one many times", ["Range: bytes=" + ",".join(["0-99"] * 20)], part(0, 99)),
        ("too many", ["Range: bytes=" + ",".join(f"{n}-{n}" for n in range(0, 10000, 50))], WHOLE),
        ("If-Range with the tag", ["Range: bytes=0-4", "If-Range: {tag}"], part(0, 4)),
        ("If-Range with another", ["Range: bytes=0-4", 'If-Range: "other"'], WHOLE),
        ("If-Range is strong", ["Range: bytes=0-4", "If-Range: W/{tag}"], WHOLE),
        ("If-Range with its date", ["Range: bytes=0-4", f"If-Range: {MODIFIED}"], part(0, 4)),
        ("If-Range with a later date", ["Range: bytes=0-4", f"If-Range: {LATER}"], WHOLE),
        ("If-Range without a Range", ["If-Range: {tag}"], WHOLE), ("If-None-Match goes before", ["Range: bytes=0-4", "If-None-Match: *"], A(304)),
        ("If-Match goes before", ["Range: bytes=0-4", 'If-Match: "other"'], A(412))):
    kept("9110 14.2", f"ranges: {title}", *fields, target=BIG, answer=answer)
kept("9110 14.2", "ranges: HEAD has none", "Range: bytes=0-4", method="HEAD", target=BIG, answer=A(200, head=True, fields={"content-range": None}))
kept("9110 14.2", "ranges: rows have none", "Range: bytes=0-4", target=ROW, answer=A(200, b'{"value":"x"}\n', fields={"content-range": None}))
