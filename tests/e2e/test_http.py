"""HTTP/1.1 as a client with a raw socket sees it: RFC 9110, RFC 9112, and the limits of [server]."""
import itertools
import json
import subprocess
import time

import pytest

from certificates import tls_table
from http1 import Broken

HELLO = b"Hello, world.\n"


@pytest.fixture
def config(site, small_sqlite):
    return f'''
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/numbers"
get = "SELECT n, text FROM numbers ORDER BY n"
[[endpoint]]
path = "/numbers/{{n:int}}"
returns = "object"
get = "SELECT n, text FROM numbers WHERE n = :n"
[[files]]
path = "/"
root = "{site}"
'''


@pytest.fixture
def server(sluice, config):
    return sluice(config)


def refused(server, data, *statuses):
    """The bytes get one of the statuses, with a problem document, and the connection is closed."""
    with server.connect() as connection:
        connection.send(data)
        answer = connection.read()
        assert answer.status in statuses
        assert answer.media_type == "application/problem+json"
        assert json.loads(answer.body)["status"] == answer.status
        assert answer.get("connection") == "close"
        connection.assert_closed()


def test_an_answer_has_what_it_must(server):
    answer = server.get("/hello.txt")
    assert (answer.version, answer.status, answer.body) == ("HTTP/1.1", 200, HELLO)
    assert answer.media_type == "text/plain"
    assert answer.get("content-length") == str(len(HELLO))
    time.strptime(answer.get("date"), "%a, %d %b %Y %H:%M:%S GMT")


def test_keep_alive(server):
    with server.connect() as connection:
        for n in range(1, 51):
            assert json.loads(connection.get(f"/numbers/{n}").body)["n"] == n
            assert connection.get("/hello.txt").body == HELLO


def test_pipelined_requests_are_answered_in_order(server):
    with server.connect() as connection:
        targets = [f"/numbers/{n}" if n % 3 else "/numbers" if n % 2 else "/hello.txt" for n in range(1, 61)]
        connection.send("".join(f"GET {target} HTTP/1.1\r\nHost: test\r\n\r\n" for target in targets))
        for target in targets:
            answer = connection.read()
            assert answer.status == 200
            if target == "/hello.txt":
                assert answer.body == HELLO
            elif target == "/numbers":
                assert len(json.loads(answer.body)) == 1000
            else:
                assert json.loads(answer.body)["n"] == int(target.rsplit("/", 1)[1])


def test_a_request_may_come_byte_by_byte(server):
    with server.connect() as connection:
        for byte in b"GET /numbers/7 HTTP/1.1\r\nHost: test\r\nX: y\r\n\r\n":
            connection.send(bytes([byte]))
        assert json.loads(connection.read().body)["n"] == 7


def test_connection_close(server):
    with server.connect() as connection:
        answer = connection.get("/hello.txt", "Connection: close")
        assert answer.body == HELLO and answer.get("connection") == "close"
        connection.assert_closed()


def test_what_follows_connection_close_is_not_answered(server):
    with server.connect() as connection:
        connection.send("GET /hello.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
                        "GET /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n")
        assert connection.read().body == HELLO
        connection.assert_closed()


def test_half_close_still_gets_its_answers(server):
    with server.connect() as connection:
        connection.send("GET /numbers HTTP/1.1\r\nHost: test\r\n\r\nGET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n")
        connection.shut_sending()
        assert len(json.loads(connection.read().body)) == 1000
        assert len(connection.read().body) == 10_240_000
        connection.assert_closed()


def test_half_close_in_the_middle_of_a_request(server):
    with server.connect() as connection:
        connection.send("GET /hello.txt HTTP/1.1\r\nHost: te")
        connection.shut_sending()
        answered = connection.rest()
        assert answered == b"" or answered.startswith(b"HTTP/1.1 400 ")


def test_http_10_closes_and_is_not_chunked(server):
    for target in ("/hello.txt", "/numbers"):
        with server.connect() as connection:
            connection.send(f"GET {target} HTTP/1.0\r\n\r\n")
            answer = connection.read()
            assert answer.status == 200 and answer.get("transfer-encoding") is None
            assert answer.body == HELLO if target == "/hello.txt" else len(json.loads(answer.body)) == 1000
            connection.assert_closed()


def test_http_10_keep_alive_is_told_and_kept(server):
    with server.connect() as connection:
        connection.send("GET /hello.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        answer = connection.read()
        assert answer.body == HELLO
        if (answer.get("connection") or "").lower() == "keep-alive":
            assert connection.get("/hello.txt").body == HELLO
        else:
            connection.assert_closed()


def test_head(server):
    with server.connect() as connection:
        for target, length in (("/hello.txt", len(HELLO)), ("/big.bin", 10_240_000)):
            answer = connection.get(target, method="HEAD")
            assert (answer.status, answer.get("content-length")) == (200, str(length))
        assert connection.get("/numbers", method="HEAD").status == 200
        assert connection.get("/hello.txt").body == HELLO


def test_forms_of_the_target(server):
    with server.connect() as connection:
        for target in ("/hello.txt?x=y", "http://test/hello.txt", "/./hello.txt", "/a/../hello.txt", "/h%65llo.txt"):
            answer = connection.get(target)
            assert (answer.status, answer.body) == (200, HELLO), target


@pytest.mark.parametrize("target, status", [("/../sluice.toml", 400), ("/%2e%2e/small.db", 400), ("/..%2fsmall.db", 404),
                                            ("/a/..%2f..%2fsmall.db", 404), ("/%2e%2e%2fsmall.db", 404), ("/hello.txt%00", 400),
                                            ("/....//small.db", 404), ("//etc/passwd", 404)])
def test_nothing_outside_the_root_is_served(server, target, status):
    assert server.get(target).status == status


@pytest.mark.parametrize("target", ["/sub%2Fhello.txt", "/sub%2fhello.txt", "/%2Fhello.txt", "/sub/..%2Fhello.txt"])
def test_an_encoded_slash_names_no_file(server, site, target):
    (site / "sub").mkdir()
    (site / "sub/hello.txt").write_bytes(HELLO)
    assert server.get("/sub/hello.txt").body == HELLO
    assert server.get(target).status == 404


def test_an_encoded_slash_is_part_of_a_value(sluice, small_sqlite):
    server = sluice(f'''
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/echo/{{value}}"
get = "SELECT :value AS value"
[[endpoint]]
path = "/echo/{{value}}/{{more}}"
get = "SELECT :value AS value, :more AS more"
[[endpoint]]
path = "/all/{{rest...}}"
get = "SELECT :rest AS rest"
''')
    with server.connect() as connection:
        for target, value in (("/echo/a%2Fb", {"value": "a/b"}),
                              ("/echo/a%2fb%2F", {"value": "a/b/"}),
                              ("/echo/%2F", {"value": "/"}),
                              ("/echo/a%252Fb", {"value": "a%2Fb"}),
                              ("/echo/a%2Fb%252F", {"value": "a/b%2F"}),
                              ("/echo/a%2Fb/c", {"value": "a/b", "more": "c"}),
                              ("/echo/..%2Fb", {"value": "../b"}),
                              ("/echo/x/../%61%2F..", {"value": "a/.."}),
                              ("/echo/a%2Fb.json", {"value": "a/b"}),
                              ("/all/a/b%2Fc/d", {"rest": "a/b/c/d"}),
                              ("/all/a/%2e%2e/b%252F", {"rest": "b%2F"}),
                              ("/echo/plain", {"value": "plain"})):
            answer = connection.get(target)
            assert (answer.status, json.loads(answer.body)) == (200, [value]), target
        for target in ("/echo%2Fa", "/all%2Fa"):
            assert connection.get(target).status == 404, target


@pytest.mark.parametrize("target", ["/%", "/%4", "/%zz", "/a%"])
def test_bad_percent_encoding(server, target):
    assert server.get(target).status == 400


def test_empty_lines_before_a_request_are_ignored(server):
    with server.connect() as connection:
        connection.send("\r\nGET /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n")
        assert connection.read().body == HELLO


GOOD = "GET /hello.txt HTTP/1.1\r\nHost: test\r\n"


@pytest.mark.parametrize("data", [
    "GET /hello.txt HTTP/1.1\r\n\r\n",                                       # RFC 9112 3.2: no Host
    GOOD + "Host: test\r\n\r\n",                                             # 3.2: two
    "GET /hello.txt HTTP/1.1\r\nHost: a b\r\n\r\n",                          # 3.2: a bad one
    GOOD + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",  # 6.3
    GOOD + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",              # 6.3
    GOOD + "Content-Length: 3, 4\r\n\r\nabc",
    GOOD + "Content-Length: -1\r\n\r\n",
    GOOD + "Content-Length: +3\r\n\r\nabc",
    GOOD + "Content-Length: 0x3\r\n\r\nabc",
    GOOD + "Content-Length: 3 3\r\n\r\nabc",
    GOOD + "Content-Length: \r\n\r\n",
    GOOD + "Name : value\r\n\r\n",                                           # 5.1: space before the colon
    GOOD + "Name: value\r\n folded\r\n\r\n",                                 # 5.2: obs-fold
    GOOD + " Name: value\r\n\r\n",
    GOOD + ": value\r\n\r\n",
    GOOD + "Name\r\n\r\n",
    GOOD + "Na(me: value\r\n\r\n",
    GOOD + "Name: va\rlue\r\n\r\n",                                          # 2.2: bare CR
    GOOD + "Name: va\0lue\r\n\r\n",
    "GET /hello.txt HTTP/1.1\nHost: test\n\n",                               # 2.2: bare LF
    GOOD + "Name: value\n\r\n",
    "GET  /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n",
    "GET /hello.txt  HTTP/1.1\r\nHost: test\r\n\r\n",
    "GET /hello.txt HTTP/1.1 \r\nHost: test\r\n\r\n",
    "GET /hel lo.txt HTTP/1.1\r\nHost: test\r\n\r\n",
    "GET hello.txt HTTP/1.1\r\nHost: test\r\n\r\n",
    "GET\t/hello.txt\tHTTP/1.1\r\nHost: test\r\n\r\n",
    "GET /hello.txt\r\nHost: test\r\n\r\n",
    "GET /hello.txt http/1.1\r\nHost: test\r\n\r\n",
    "GET /hello.txt HTTP/1.1.1\r\nHost: test\r\n\r\n",
    "G(T /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",                  # TLS to a plain port
])
def test_malformed_requests_are_400(server, data):
    refused(server, data, 400)
    assert server.get("/hello.txt").status == 200


@pytest.mark.parametrize("coding, statuses", [
    ("gzip", (400, 501)),
    ("chunked, gzip", (400,)),
    ("chunked, chunked", (400,)),
    ("xchunked", (400, 501)),
])
def test_transfer_codings_that_are_not_chunked(server, coding, statuses):
    refused(server, GOOD + f"Transfer-Encoding: {coding}\r\n\r\n", *statuses)


def test_transfer_encoding_in_http_10(server):
    refused(server, "GET /hello.txt HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400)


@pytest.mark.parametrize("body", ["x\r\n", "-1\r\n", "3\r\nabcd\r\n", "3;\x00\r\n", "ffffffffffffffffff\r\n", "3\nabc\r\n"])
def test_a_bad_chunk_is_never_taken_for_a_request(server, body):
    with server.connect() as connection:
        connection.send(GOOD + "Transfer-Encoding: chunked\r\n\r\n" + body + "\r\n\r\n" + GOOD + "\r\n")
        statuses = []
        try:
            while len(statuses) < 3:
                statuses.append(connection.read().status)
        except Broken:
            pass
        # The handler needs no body, so a 200 may be sent before the chunk is read; then no further answer comes.
        assert statuses in ([400], [200], [200, 400], [413])


def test_an_unread_body_is_not_the_next_request(server):
    smuggled = "GET /numbers/9 HTTP/1.1\r\nHost: test\r\n\r\n"
    bodies = [f"Content-Length: {len(smuggled)}\r\n\r\n{smuggled}",
              f"Transfer-Encoding: chunked\r\n\r\n{len(smuggled):x};a=b\r\n{smuggled}\r\n0\r\nTrailer: x\r\n\r\n"]
    for body in bodies:
        with server.connect() as connection:
            connection.send(GOOD + body + "GET /numbers/1 HTTP/1.1\r\nHost: test\r\n\r\n")
            first = connection.read()
            assert first.body == HELLO
            if first.get("connection") != "close":
                assert json.loads(connection.read().body)["n"] == 1


def test_an_answer_does_not_wait_for_a_body_that_waits_for_100(server):
    smuggled = "GET /numbers/9 HTTP/1.1\r\nHost: test\r\n\r\n"
    with server.connect(timeout=5) as connection:
        connection.send(GOOD + f"Expect: 100-continue\r\nContent-Length: {len(smuggled)}\r\n\r\n")
        answer = connection.read()
        if answer.status == 100:
            connection.send(smuggled)
            answer = connection.read()
        assert answer.body == HELLO
        if answer.get("connection") != "close":
            connection.send(smuggled + "GET /numbers/1 HTTP/1.1\r\nHost: test\r\n\r\n")
            assert json.loads(connection.read().body)["n"] == 1


def test_unknown_methods_change_nothing(server):
    with server.connect() as connection:
        for method, status in (("DELETE", 405), ("PUT", 405), ("PATCH", 405), ("POST", 405), ("BREW", 501), ("get", 501)):
            connection.send(f"{method} /hello.txt HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n")
            answer = connection.read()
            assert answer.status == status, method
            if status == 405:
                assert "GET" in answer.get("allow")
        assert connection.get("/hello.txt").body == HELLO


def test_a_path_parameter_that_is_no_int_is_another_path(server):
    assert server.get("/numbers/one").status == 404
    assert server.get("/numbers/99999999999999999999").status == 404


def test_versions(server):
    refused(server, "GET /hello.txt HTTP/2.0\r\nHost: test\r\n\r\n", 505)
    refused(server, "GET /hello.txt HTTP/3.0\r\nHost: test\r\n\r\n", 505)
    refused(server, "GET /hello.txt HTTP/0.9\r\nHost: test\r\n\r\n", 505, 400)


def test_the_header_limit_is_431(sluice, config):
    server = sluice(config, server='header_limit = "4KiB"')
    assert server.get("/hello.txt", "X: " + "a" * 3500).status == 200
    refused(server, GOOD + "X: " + "a" * 5000 + "\r\n\r\n", 431)
    refused(server, GOOD + "".join(f"X-{i}: a\r\n" for i in range(1000)) + "\r\n", 431)


def test_the_target_limit_is_414(sluice, config):
    server = sluice(config, server='target_limit = "100B"')
    with server.connect() as connection:
        assert connection.get("/" + "a" * 99).status == 404
        assert connection.get("/?" + "a" * 98).status == 404
    refused(server, f"GET /{'a' * 100} HTTP/1.1\r\nHost: test\r\n\r\n", 414)
    generous = sluice(config, server='target_limit = "20KiB"\nheader_limit = "24KiB"')
    assert generous.get("/" + "a" * 20_000).status == 404


def test_the_field_limit_is_431(sluice, config):
    for limit in (8, 500):
        server = sluice(config, server=f"field_limit = {limit}")
        fields = [f"X-{i}: a" for i in range(limit - 1)]  # Host is one more
        assert server.get("/hello.txt", *fields).status == 200
        refused(server, GOOD + "".join(f"{field}\r\n" for field in [*fields, "Y: a"]) + "\r\n", 431)


def test_a_header_without_end_is_431(server):
    with server.connect() as connection:
        connection.send(GOOD)
        try:
            for _ in range(64):
                connection.send("X: " + "a" * 1021 + "\r\n")
        except OSError:
            pass
        try:
            assert connection.read().status == 431
        except Broken as end:
            assert str(end) == "reset"  # the answer may be lost if the peer is still sending


def test_a_target_that_is_too_long(server):
    refused(server, f"GET /{'a' * 20_000} HTTP/1.1\r\nHost: test\r\n\r\n", 414)


def test_the_body_limit_is_413(sluice, config):
    server = sluice(config, server='body_limit = "1KiB"')
    refused(server, GOOD + "Content-Length: 1025\r\n\r\n", 413)
    refused(server, GOOD + "Content-Length: 99999999999999999999999\r\n\r\n", 413, 400)
    with server.connect() as connection:
        connection.send(GOOD + "Content-Length: 1024\r\n\r\n" + "a" * 1024)
        assert connection.read().body == HELLO


def test_a_slow_header_is_408(sluice, config):
    server = sluice(config, server='header_timeout = "300ms"')
    start = time.monotonic()
    refused(server, "GET /hello.txt HTTP/1.1\r\nHost:", 408)
    assert 0.2 < time.monotonic() - start < 5
    # Bytes keep coming, but the timeout is for the whole header.
    with server.connect() as connection:
        start = time.monotonic()
        connection.send("GET /hello.txt HTTP/1.1\r\n")
        with pytest.raises(OSError):
            while time.monotonic() - start < 5:
                connection.send("X: y\r\n")
                time.sleep(0.05)


def test_an_idle_connection_is_closed_quietly(sluice, config):
    server = sluice(config, server='idle_timeout = "300ms"')
    with server.connect() as connection:
        assert connection.get("/hello.txt").status == 200
        start = time.monotonic()
        connection.assert_closed()
        assert 0.2 < time.monotonic() - start < 5


def test_a_client_that_takes_nothing_is_cut(sluice, config):
    server = sluice(config, server='write_timeout = "500ms"')
    with server.connect() as connection:
        connection.send("GET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n" * 20)
        time.sleep(3)
        with pytest.raises(Broken):
            for _ in range(20):
                connection.read()


def test_the_connection_limit_is_503(sluice, config):
    server = sluice(config, server="cores = 1\nconnections = 3")
    held = [server.connect() for _ in range(3)]
    for connection in held:
        assert connection.get("/hello.txt").status == 200
    for _ in range(3):
        with server.connect() as connection:
            assert connection.get("/hello.txt").status == 503
            connection.assert_closed()
    assert held[0].get("/hello.txt").status == 200
    for connection in held:
        connection.close()
    end = time.monotonic() + 5
    while True:
        try:
            if server.get("/hello.txt").status == 200:
                break
        except (Broken, OSError):
            pass
        assert time.monotonic() < end, "the places of closed connections are not given again"
        time.sleep(0.05)


def test_many_connections_at_once(server):
    connections = [server.connect() for _ in range(500)]
    for n, connection in enumerate(connections):
        connection.send(f"GET /numbers/{n + 1} HTTP/1.1\r\nHost: test\r\n\r\n")
    for n, connection in enumerate(connections):
        assert json.loads(connection.read().body)["n"] == n + 1
        connection.close()


@pytest.mark.parametrize("body, status", [("zz\r\n", 400), ("5\r\nabcdeX\r\n0\r\n\r\n", 400), ("-1\r\n", 400),
                                          ("100001\r\n" + "x" * 0x100001 + "\r\n0\r\n\r\n", 413)],
                         ids=["no size", "no line end", "negative", "too long"])
def test_a_body_that_nobody_asked_for_must_be_right_all_the_same(server, body, status):
    with server.connect() as connection:
        try:
            connection.send("GET /hello.txt HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        except ConnectionError:
            pass  # the server may close before it has read everything
        assert connection.read().status == status
        connection.assert_closed()


def test_connect_is_refused(server):
    with server.connect() as connection:
        connection.send("CONNECT example.com:80 HTTP/1.1\r\nHost: example.com:80\r\n\r\n")
        assert connection.read().status == 501


def test_one_connection_too_many_is_told_so_even_if_it_says_nothing(sluice, site):
    server = sluice(f"""[[files]]
path = "/"
root = "{site}"
""", server="connections = 2\ncores = 1")
    with server.connect() as one, server.connect() as two:
        assert one.get("/hello.txt").status == two.get("/hello.txt").status == 200
        with server.connect() as silent:
            assert silent.read().status == 503
            silent.assert_closed()


def test_every_answer_has_the_configured_fields(sluice, config, authority, localhost):
    headers = '[server.headers]\nX-Content-Type-Options = "nosniff"\nContent-Security-Policy = "default-src \'self\'"\n'
    server = sluice(config, server=tls_table(localhost, 'hsts = "1h"') + headers)
    for version, target in itertools.product(("--http1.1", "--http2"), ("hello.txt", "nothing", "%zz")):
        got = subprocess.run(["curl", "-sSi", version, "--cacert", authority.ca, f"https://localhost:{server.port}/{target}"],
                             capture_output=True, text=True)
        fields = [line.lower() for line in got.stdout.splitlines()]
        for field in ("x-content-type-options: nosniff", "content-security-policy: default-src 'self'",
                      "strict-transport-security: max-age=3600", "server: sluice"):
            assert fields.count(field) == 1, got.stdout
    server = sluice(config, server=headers)
    with server.connect() as client:
        answer = client.get("/hello.txt")
        assert answer.get("x-content-type-options") == "nosniff" and answer.get("strict-transport-security") is None
