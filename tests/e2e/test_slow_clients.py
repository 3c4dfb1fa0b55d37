"""Hundreds of deliberately slow clients: each is closed, others are served meanwhile, and memory stays bounded."""
import contextlib
import json
import os
import re
import select
import socket
import time

import pytest

HELD = 300
SHORT = '''
header_timeout = "1s"
body_timeout = "1s"
write_timeout = "1s"
slowest_client = "100KiB"
'''
PATIENCE = 150  # seconds; usually a second or two is enough


@pytest.fixture
def server(sluice, site, small_sqlite):
    (site / "page.html").write_bytes(b"a" * 1500)
    with open(site / "huge.bin", "wb") as file:
        file.truncate(200_000_000)
    # Freed memory does not count, so the address sanitizer's quarantine is kept small.
    quarantine = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=1"]))
    return sluice(f'''
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/numbers/{{n:int}}"
returns = "object"
get = "SELECT n, text FROM numbers WHERE n = :n"
[[endpoint]]
path = "/numbers"
post = "INSERT INTO numbers (text) VALUES (:text)"
[[endpoint]]
path = "/endless"
get = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 100000000) SELECT n, 'a row of some length' AS text FROM r"
[[files]]
path = "/"
root = "{site}"
''', server=SHORT, env={"ASAN_OPTIONS": quarantine})


def resident_kib(server):
    with open(f"/proc/{server.process.pid}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))


def open_connections(server):
    return int(re.search(r"^sluice_connections_open (\d+)", server.admin("/metrics")[1], re.M).group(1))


def expect_service(server):
    """A kept connection and a new one are both served."""
    with server.connect() as connection:
        for _ in range(3):
            assert connection.get("/page.html").body == b"a" * 1500
            assert json.loads(connection.get("/numbers/7").body)["n"] == 7
    assert server.get("/page.html").status == 200


def open_slow(server, stack, request, count=HELD, receive_buffer=None):
    connections = []
    for _ in range(count):
        one = stack.enter_context(socket.socket())
        if receive_buffer:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        one.connect(("127.0.0.1", server.port))
        one.sendall(request.encode())
        one.setblocking(False)
        connections.append(one)
    return connections


def drip(server, connections, drop):
    """Sends `drop` on each connection until all are answered or reset; others are served meanwhile. Returns the answers."""
    got = {one: b"" for one in connections}
    left = set(connections)
    end = time.monotonic() + PATIENCE
    while left:
        assert time.monotonic() < end, f"{len(left)} of {HELD} slow clients are still there"
        expect_service(server)
        for one in list(left):
            with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                one.send(drop)
        for one in select.select(list(left), [], [], 0.05)[0]:
            try:
                piece = one.recv(65536)
            except ConnectionResetError:
                piece = b""
            got[one] += piece
            if not piece:
                left.discard(one)
    return list(got.values())


def expect_gone(server):
    end = time.monotonic() + PATIENCE
    while open_connections(server) > 0:
        assert time.monotonic() < end, "connections are still open"
        time.sleep(0.05)
    expect_service(server)


@pytest.mark.parametrize("request_text, drop, status", [
    ("GET /page.html HTTP/1.1\r\nHost: slow\r\n", b"X: y\r\n", 408),
    ("GET /page.html HTTP/1.1\r\nHost: slow\r\nX: ", b"y", 408),
    ("POST /numbers HTTP/1.1\r\nHost: slow\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n", b" ", 408),
    ("GET /page.html HTTP/1.1\r\nHost: slow\r\nContent-Length: 100000\r\n\r\n", b"x", 408),
    # An error does not need the body.
    ("POST /page.html HTTP/1.1\r\nHost: slow\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 405),
], ids=["slow fields", "a slow value", "a slow body to an endpoint", "a slow body to a file", "slow chunks"])
def test_who_sends_slowly_is_answered_and_ended(server, request_text, drop, status):
    with contextlib.ExitStack() as stack:
        before = resident_kib(server)
        connections = open_slow(server, stack, request_text)
        got = drip(server, connections, drop)
        # A reset may discard the answer if it crosses a drop.
        assert all(answer == b"" or answer.startswith(b"HTTP/1.1 %d " % status) for answer in got), set(got)
        assert any(got)
        assert resident_kib(server) - before < HELD * 64 + 32 * 1024
    expect_gone(server)


def test_silence_is_ended(server):
    with contextlib.ExitStack() as stack:
        connections = open_slow(server, stack, "")
        assert drip(server, connections, b"") == [b""] * HELD
    expect_gone(server)


# Rows are read as they are sent, so each slow reader holds a database connection, and more readers would wait for one.
@pytest.mark.parametrize("target, count", [("/huge.bin", HELD), ("/endless", 4)])
def test_who_reads_slowly_is_cut(server, target, count):
    with contextlib.ExitStack() as stack:
        before = resident_kib(server)
        connections = open_slow(server, stack, f"GET {target} HTTP/1.1\r\nHost: slow\r\n\r\n", count, receive_buffer=4096)
        most = 0
        end = time.monotonic() + PATIENCE
        while open_connections(server) > 0:
            assert time.monotonic() < end, f"{open_connections(server)} slow readers are still there"
            expect_service(server)
            for one in connections:
                with contextlib.suppress(BlockingIOError, ConnectionResetError):
                    one.recv(16)
            most = max(most, resident_kib(server))
        # A few blocks each, although the answers have 200 MB and more. The constant is for threads and sanitizers.
        assert most - before < count * 256 + 64 * 1024
    expect_gone(server)


def test_who_is_fast_enough_is_served_to_the_end(server, site):
    """The client never pauses for as long as write_timeout, although the whole answer takes longer."""
    with server.connect(timeout=PATIENCE) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.sip = 65536
        connection.send("GET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n")
        begin = time.monotonic()
        while time.monotonic() - begin < 4:
            connection._more()
            time.sleep(0.05)
        assert connection.read().body == (site / "big.bin").read_bytes()
