"""[server] io: requests with both I/O backends, and the reaction when io_uring is refused."""
import concurrent.futures
import ctypes
import pathlib
import re
import resource
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from certificates import tls_table
from conftest import SLUICE
from http1 import Connection
from skips import skip
from websocket import BINARY, TEXT, WebSocket

HELLO = b"Hello, world.\n"
BIG = bytes(range(256)) * 40_000
ECHO = '[[websocket]]\npath = "/echo"\nhandler = "echo"\nmax_message = "4MiB"\n'
SANITIZED = b"__asan_init" in pathlib.Path(SLUICE).read_bytes()


def check(io, tmp_path, **how):
    file = tmp_path / f"{io}.toml"
    file.write_text(f'[server]\nio = "{io}"\n[[files]]\npath = "/"\nroot = "{tmp_path}"\n')
    return subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=20, **how)


@pytest.fixture(params=["epoll", "uring"])
def io(request, tmp_path):
    run = check(request.param, tmp_path)
    if run.returncode != 0:
        skip("kernel", run.stderr)
    return f'io = "{request.param}"\n'


@pytest.fixture
def config(site):
    return f'[[files]]\npath = "/"\nroot = "{site}"\n'


def test_files_small_and_large(sluice, io, config):
    server = sluice(config, io)
    with server.connect() as connection:
        for _ in range(3):
            assert connection.get("/hello.txt").body == HELLO
            assert connection.get("/big.bin").body == BIG
        # Many requests in one segment, and one request in many.
        connection.send("GET /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n" * 500)
        for _ in range(500):
            assert connection.read().body == HELLO
        for byte in "GET /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n":
            connection.send(byte)
        assert connection.read().body == HELLO
    for _ in range(200):
        assert server.get("/hello.txt", "Connection: close").body == HELLO


def test_bodies_of_requests(sluice, io, config):
    server = sluice(config, io)
    with server.connect() as connection:
        for size in (1, 4095, 4096, 4097, 60_000, 10):
            connection.send(f"POST /hello.txt HTTP/1.1\r\nHost: test\r\nContent-Length: {size}\r\n\r\n")
            connection.send(b"x" * size)
            assert connection.read().status == 405
            assert connection.get("/hello.txt").body == HELLO, size


def test_bytes_come_back_as_they_were_sent(sluice, io):
    server = sluice(ECHO, io)
    with WebSocket(server.port) as client:
        for size in (0, 1, 125, 4000, 70_000, 3_000_000, 7):
            sent = bytes(i * 7 % 251 for i in range(size))
            # The client has to read while it sends.
            sender = threading.Thread(target=client.say, args=(BINARY, sent))
            sender.start()
            got = client.frame()
            sender.join()
            assert (got.opcode, got.payload) == (BINARY, sent), size
        client.say(TEXT, "over")
        assert client.frame().payload == b"over"
        client.close_with(1000)


def test_tls_and_http2(sluice, io, config, localhost, authority):
    server = sluice(config, io + tls_table(localhost))
    for version in ("--http1.1", "--http2"):
        for target, body in (("hello.txt", HELLO), ("big.bin", BIG)):
            got = subprocess.run(["curl", "-sS", version, "--max-time", "30", "--cacert", authority.ca,
                                  f"https://localhost:{server.port}/{target}"], capture_output=True)
            assert (got.stdout == body, got.stderr) == (True, b"")
    context = ssl.create_default_context(cafile=authority.ca)
    with Connection(server.port) as connection:
        connection.socket = context.wrap_socket(connection.socket, server_hostname="localhost")
        connection.send("POST /hello.txt HTTP/1.1\r\nHost: test\r\nContent-Length: 60000\r\n\r\n")
        connection.send(b"x" * 60_000)
        assert connection.read().status == 405
        assert connection.get("/hello.txt").body == HELLO


def test_a_slow_reader_gets_all_of_it(sluice, io, config):
    server = sluice(config, io)
    with server.connect() as slow:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
        slow.send("GET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n" * 2)
        time.sleep(0.2)
        assert server.get("/hello.txt").body == HELLO
        slow.shut_sending()  # the answers are still sent
        for _ in range(2):
            assert slow.read().body == BIG


def expect_in_log(server, pattern):
    """Waits for a line of the log. The lines of the start may come after the server is ready."""
    end = time.monotonic() + 20
    while not re.search(pattern, server.log, re.M):
        assert time.monotonic() < end, server.log
        time.sleep(0.02)


def resident_kib(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))


# The clients flood a server that stops reading, because they do not read its answers.
def test_a_flood_of_requests_stays_with_its_sender(sluice, io, config):
    server = sluice(config, io + 'cores = 1\n')
    server.get("/big.bin")
    before = resident_kib(server)
    floods = []
    requests = b"GET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n" * 1000
    for _ in range(50):
        flood = socket.create_connection(("127.0.0.1", server.port))
        flood.setblocking(False)
        floods.append(flood)
    for _ in range(10):
        for flood in floods:
            try:
                while flood.send(requests):
                    pass
            except BlockingIOError:
                pass
        time.sleep(0.02)
        assert server.get("/hello.txt").body == HELLO
    if not SANITIZED:
        assert resident_kib(server) - before < 20_000
    for flood in floods:
        flood.close()
    assert server.get("/big.bin").body == BIG


def test_thousands_of_idle_connections(sluice, io, config):
    server = sluice(config, io)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    connections = []
    try:
        for _ in range(2000):
            connections.append(server.connect())
        for round in range(3):
            for connection in connections:
                connection.send("GET /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n")
            for connection in connections:
                assert connection.read().body == HELLO
        assert "sluice_connections_open 2000" in server.admin("/metrics")[1]
    finally:
        for connection in connections:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    end = time.monotonic() + 20
    while "sluice_connections_open 0\n" not in server.admin("/metrics")[1]:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_graceful_stop(sluice, io, config):
    server = sluice(config, io + 'grace = "20s"\n')
    idle = server.connect()
    assert idle.get("/hello.txt").body == HELLO
    with server.connect() as busy:
        busy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
        busy.send("GET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n")
        time.sleep(0.1)
        server.terminate()
        assert idle.socket.recv(1) == b""
        with pytest.raises(OSError):
            end = time.monotonic() + 10
            while time.monotonic() < end:
                server.connect().close()
        assert busy.read().body == BIG
    server.stop()


def test_a_stopped_process_goes_on(sluice, io, config):
    server = sluice(config, io)
    with server.connect() as connection:
        for _ in range(3):
            assert connection.get("/hello.txt").body == HELLO
            server.process.send_signal(19)
            connection.send("GET /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n")
            time.sleep(0.05)
            server.process.send_signal(18)
            assert connection.read().body == HELLO


def test_what_runs_is_told(sluice, io, config):
    server = sluice(config, io)
    name = "io_uring" if "uring" in io else "epoll"
    expect_in_log(server, rf"^  io +{name}$")
    assert f'sluice_io_info{{io="{name}"}} 1\n' in server.admin("/metrics")[1]


# ---- where io_uring is refused ----

def refuse_io_uring(error):
    """A function for a child process: io_uring_setup() fails with `error` from then on, as in many containers."""
    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("lines", ctypes.c_char_p)]
    lines = b"".join(struct.pack("HBBI", *line) for line in (
        (0x20, 0, 0, 0),                     # load the number of the system call
        (0x15, 0, 1, 425),                   # io_uring_setup
        (0x06, 0, 0, 0x00050000 | error),    # SECCOMP_RET_ERRNO
        (0x06, 0, 0, 0x7FFF0000)))           # SECCOMP_RET_ALLOW
    libc = ctypes.CDLL(None, use_errno=True)

    def apply():
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        assert libc.prctl(22, 2, ctypes.byref(Filter(4, lines)), 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    return apply


@pytest.mark.parametrize("error, says", [(38, "this kernel has no io_uring"), (1, "kernel.io_uring_disabled or a seccomp filter"),
                                         (22, "Linux 6.1"), (12, "RLIMIT_MEMLOCK")])
def test_where_io_uring_is_refused(sluice, tmp_path, config, error, says):
    refused = check("uring", tmp_path, preexec_fn=refuse_io_uring(error))
    assert refused.returncode == 1 and says in refused.stderr, refused
    assert "uring.toml:2:6: error: " in refused.stderr
    assert check("auto", tmp_path, preexec_fn=refuse_io_uring(error)).returncode == 0
    assert check("epoll", tmp_path, preexec_fn=refuse_io_uring(error)).returncode == 0

    # A thread gets the filter and starts the server, so the other tests' threads stay without it.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        thread.submit(refuse_io_uring(error)).result()
        server = thread.submit(sluice, config, 'io = "auto"\n').result()
    assert server.get("/hello.txt").body == HELLO
    assert 'sluice_io_info{io="epoll"} 1\n' in server.admin("/metrics")[1]
