"""The message services of examples/services, as their programs."""
import collections
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import threading
import time
import zlib

import pytest

from certificates import Authority
from cluster import free_port
from conftest import FILMS_GENERATE
from frames import PING, Client, Frame, decode, encode
from http1 import Broken, Connection
from websocket import BINARY, CLOSE, TEXT, WebSocket, close_payload

EXAMPLES = pathlib.Path(FILMS_GENERATE).parent
NAME, SAY = 100, 101


class Service:
    def __init__(self, folder, name, *arguments, soft_descriptors=None):
        limited = [] if soft_descriptors is None else ["prlimit", f"--nofile={soft_descriptors}:"]
        self.log_path = folder / f"{name}.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([*limited, EXAMPLES / f"example_{name}", *map(str, arguments)], stdout=log,
                                            stderr=subprocess.STDOUT)

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait(self, address):
        """Until it accepts clients there."""
        end = time.monotonic() + 20
        while True:
            assert self.process.poll() is None, self.log
            try:
                with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as probe:
                    return probe.connect(address)
            except OSError:
                assert time.monotonic() < end, self.log
                time.sleep(0.02)

    def stop(self, number=signal.SIGTERM):
        """What it has logged, without its addresses."""
        self.process.send_signal(number)
        assert self.process.wait(20) == 0, self.log
        assert self.log.startswith("serving "), self.log
        lines = [line for line in self.log.splitlines(True) if not line.startswith("serving ")]
        assert f"stops: {signal.Signals(number).name} from process " in lines.pop(), self.log
        return "".join(lines)


@pytest.fixture
def service(tmp_path):
    """service(name, arguments...) starts an example on a free port, and returns it when it accepts clients."""
    running = []

    def start(name, *arguments, listen=None, soft_descriptors=None):
        port = free_port()
        started = Service(tmp_path, name, listen or f"127.0.0.1:{port}", *arguments,
                          soft_descriptors=soft_descriptors)
        running.append(started)
        started.address = listen.removeprefix("unix:") if listen else ("127.0.0.1", port)
        started.wait(started.address)
        return started

    yield start
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


@pytest.fixture
def room(service):
    """The broadcast service, with the port of its WebSockets."""
    port = free_port()
    started = service("broadcast", f"127.0.0.1:{port}")
    started.wait(("127.0.0.1", port))
    started.websocket_port = port
    return started


def test_echo(service):
    echo = service("echo")
    with Client(echo.address) as client:
        assert client.call(7, b"hello", 42) == Frame(7, b"hello", 42)
        assert client.call(0xFFFFFEFF) == Frame(0xFFFFFEFF, b"")
        large = bytes(range(256)) * 4096
        assert client.call(1, large) == Frame(1, large)
    assert echo.stop() == ""


def test_many_frames_in_one_write(service):
    with Client(service("echo").address) as client:
        client.socket.sendall(b"".join(encode(n, b"x" * (n % 100), n) for n in range(3000)))
        for n in range(3000):
            assert client.receive() == Frame(n, b"x" * (n % 100), n)


def test_many_clients(service):
    address = service("echo").address
    clients = [Client(address) for _ in range(100)]
    for n, client in enumerate(clients):
        client.send(n, b"mine", n)
    for n, client in enumerate(clients):
        assert client.receive() == Frame(n, b"mine", n)
        client.socket.close()


def test_more_clients_than_the_soft_limit_of_descriptors(service):
    """Many shells set a soft limit of 1,024; the host raises it."""
    echo = service("echo", soft_descriptors=100)
    clients = [Client(echo.address) for _ in range(200)]
    for n, client in enumerate(clients):
        assert client.call(n) == Frame(n, b"")
    for client in clients:
        client.socket.close()


def test_tls(service, tmp_path):
    authority = Authority(tmp_path / "ca")
    echo = service("echo", *authority.issue("echo"))
    tls = ssl.create_default_context(cafile=authority.ca)
    with Client(echo.address, tls) as client:
        assert client.call(7, b"x" * 100_000, 1) == Frame(7, b"x" * 100_000, 1)
        echo.process.terminate()
        assert client.receive() is None  # with close_notify, or the ssl module would raise
    with pytest.raises(OSError):
        Client(echo.address)
    assert echo.process.wait(20) == 0


def test_new_certificates_on_sighup(service, tmp_path):
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    cert, key = authority.issue("echo")
    echo = service("echo", cert, key)
    client = Client(echo.address, ssl.create_default_context(cafile=authority.ca))
    for old, new in zip((cert, key), other.issue("echo")):
        pathlib.Path(new).replace(old)
    echo.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    while "certificates: read again" not in echo.log:
        assert time.monotonic() < end, echo.log
        time.sleep(0.02)
    assert client.call(7, b"hello") == Frame(7, b"hello"), "sessions go on"
    for _ in range(8):  # each core has its own
        with Client(echo.address, ssl.create_default_context(cafile=other.ca)) as fresh:
            assert fresh.call(7, b"hello") == Frame(7, b"hello")
    client.socket.close()
    echo.stop()


ROUNDS = int(os.environ.get("SLUICE_SIGTERMS", "3"))


def test_every_session_learns_of_the_end_under_load(service):
    """SLUICE_SIGTERMS says how often."""
    for _ in range(ROUNDS):
        echo = service("echo")
        clients = [Client(echo.address) for _ in range(20)]
        ends, calls = [], collections.Counter()

        def load(client):
            try:
                while client.call(7, b"x" * 100):
                    calls[client] += 1
                ends.append("end")
            except OSError as error:
                ends.append(error)

        threads = [threading.Thread(target=load, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        while len(calls) < 20 or min(calls.values()) < 20:
            time.sleep(0.005)
        echo.process.terminate()
        for thread in threads:
            thread.join(20)
        assert echo.process.wait(20) == 0, echo.log
        assert ends == ["end"] * 20


def test_unix_socket(service, tmp_path):
    path = tmp_path / "echo.sock"
    echo = service("echo", listen=f"unix:{path}")
    with Client(str(path)) as client:
        assert client.call(7, b"hello") == Frame(7, b"hello")
    echo.stop()
    assert not path.exists()


@pytest.mark.parametrize("frame, code", [(encode(7, version=2), 1), (encode(7, flags=0x80), 1),
                                         (encode(7, size=1 << 30), 4), (b"GET / HTTP/1.1\r\n\r\n", 1)])
def test_a_bad_frame_is_answered_with_an_error(service, frame, code):
    with Client(service("echo").address) as client:
        client.socket.sendall(encode(7, b"good") + frame + b"more")
        assert client.receive() == Frame(7, b"good")
        assert client.receive().error == code
        assert client.receive() is None


def test_a_lying_size_takes_no_memory(service):
    echo = service("echo")
    clients = [Client(echo.address) for _ in range(100)]
    for client in clients:
        client.socket.sendall(encode(7, b"x" * 100, size=1 << 20))
    with Client(echo.address) as client:
        assert client.call(7, b"hello") == Frame(7, b"hello")
    resident = int(subprocess.run(["ps", "-o", "rss=", "-p", str(echo.process.pid)], capture_output=True).stdout)
    for client in clients:
        client.socket.close()
    assert resident < 300_000  # KiB, of which a sanitized program takes most


def test_everybody_hears(room):
    clients = [Client(room.address) for _ in range(50)]
    for n, client in enumerate(clients):
        client.send(NAME, f"client {n}".encode())
        client.send(PING, correlation=n)  # the answer: the service has the name
        assert client.receive().correlation == n
    for n, client in enumerate(clients):
        client.send(SAY, b"hello")
    everything = {f"client {n}: hello".encode() for n in range(50)}
    for client in clients:
        assert {client.receive().body for _ in range(50)} == everything
        client.socket.close()
    assert room.stop() == ""


def test_an_application_error(room):
    with Client(room.address) as client:
        assert client.call(SAY, b"hello", 9) == Frame(SAY, b"Say your name first.", 9, 1000)
        assert client.call(12345) == Frame(12345, b"This service has no such message.", None, 2)


def test_a_client_that_does_not_read_delays_nobody(room):
    with Client(room.address, receive_buffer=4096) as slow, Client(room.address) as client, Client(room.address) as other:
        client.call(PING, correlation=1)
        slow.call(PING, correlation=1)
        other.call(PING, correlation=1)
        client.send(NAME, b"loud")
        text = b"x" * 60_000
        for _ in range(100):  # more than the slow client's queue and the socket's buffers take
            client.send(SAY, text)
            assert client.receive().body == b"loud: " + text
            assert other.receive().body == b"loud: " + text
        with pytest.raises((AssertionError, ConnectionResetError)):  # closed, within a frame
            while slow.receive() is not None:
                pass
            raise AssertionError


def say_over(socket, *arguments, **options):
    socket.say(BINARY, encode(*arguments, **options))


def heard_over(socket):
    frame = socket.frame()
    assert frame.opcode == BINARY, frame
    return decode(frame.payload)


def test_websockets_and_tcp_hear_each_other(room):
    with WebSocket(room.websocket_port, "/room?x=1") as browser, Client(room.address) as client:
        client.send(NAME, b"tcp")
        assert client.call(PING, correlation=1).correlation == 1
        say_over(browser, NAME, b"browser")
        say_over(browser, PING, correlation=2)
        assert heard_over(browser).correlation == 2
        browser.say(BINARY, encode(SAY, b"one") + encode(SAY, b"two"))  # a message may hold several frames
        for text in (b"browser: one", b"browser: two"):
            assert heard_over(browser) == Frame(SAY, text)
            assert client.receive() == Frame(SAY, text)
        client.send(SAY, b"x" * 50_000)
        assert heard_over(browser) == Frame(SAY, b"tcp: " + b"x" * 50_000)


@pytest.mark.parametrize("opcode, payload", [(TEXT, b"hello"), (BINARY, encode(SAY, b"cut")[:-1]),
                                             (BINARY, encode(SAY, version=3)), (BINARY, b"")])
def test_a_bad_message_ends_a_websocket(room, opcode, payload):
    with WebSocket(room.websocket_port, "/room") as browser:
        browser.say(opcode, payload)
        if payload:
            assert heard_over(browser).error == 1
            assert browser.frame().code == 1002
        else:
            say_over(browser, PING, correlation=3)
            assert heard_over(browser).correlation == 3


def test_a_message_holds_the_longest_body(room):
    with WebSocket(room.websocket_port, "/room") as browser:
        say_over(browser, 77, b"x" * (1 << 20), correlation=5)  # nobody knows message 77
        assert heard_over(browser).correlation == 5
        say_over(browser, PING, correlation=6)
        assert heard_over(browser).correlation == 6


def test_a_broadcast_is_compressed_for_those_who_want_it(room):
    deflate = "Sec-WebSocket-Extensions: permessage-deflate"
    with WebSocket(room.websocket_port, "/room", deflate) as one, WebSocket(room.websocket_port, "/room", deflate) as two, \
            WebSocket(room.websocket_port, "/room") as plain, Client(room.address) as client:
        for socket in (one, two, plain):
            say_over(socket, PING, correlation=1)
            assert heard_over(socket).correlation == 1
        client.send(NAME, b"tcp")
        for text in (b"x" * 3000, b"y" * 100_000, b"short"):
            client.send(SAY, text)
            for socket in (one, two):
                frame = socket.frame()
                packed = frame.rsv == 4  # RSV1
                assert packed == (len(text) > 100)
                payload = zlib.decompressobj(-15).decompress(frame.payload + b"\0\0\xff\xff") if packed else frame.payload
                assert decode(payload) == Frame(SAY, b"tcp: " + text)
            assert heard_over(plain) == Frame(SAY, b"tcp: " + text)
            assert client.receive() == Frame(SAY, b"tcp: " + text)


def test_clients_that_leave_in_the_middle_of_many_answers(room):
    for _ in range(40):
        with WebSocket(room.websocket_port, "/room") as browser:
            browser.say(BINARY, encode(77, b"zz", 3) * 20_000)
            for _ in range(2):
                assert heard_over(browser).error == 2
    with WebSocket(room.websocket_port, "/room") as browser:
        say_over(browser, PING, correlation=1)
        assert heard_over(browser).correlation == 1


def test_other_requests_get_an_error(room):
    with Connection(room.websocket_port) as connection:
        assert connection.get("/").status == 404
        assert connection.get("/room").status == 426


def test_websockets_are_closed_with_1001(room):
    with WebSocket(room.websocket_port, "/room") as browser:
        say_over(browser, PING, correlation=1)
        assert heard_over(browser).correlation == 1
        room.process.terminate()
        assert browser.frame().code == 1001
        browser.say(CLOSE, close_payload(1001))
        assert room.process.wait(20) == 0


def test_a_websocket_that_does_not_read_is_closed(room):
    with WebSocket(room.websocket_port, "/room") as slow, Client(room.address) as client:
        say_over(slow, PING, correlation=1)
        heard_over(slow)
        client.send(NAME, b"loud")
        text = b"x" * 60_000
        for _ in range(150):  # more than the slow client's queue and the sockets' buffers take
            client.send(SAY, text)
            assert client.receive().body == b"loud: " + text
        with pytest.raises((Broken, ConnectionResetError)):
            while True:
                slow.frame()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_the_sessions(service, number):
    echo = service("echo")
    clients = [Client(echo.address) for _ in range(20)]
    for client in clients:
        assert client.call(7) == Frame(7, b"")
    echo.process.send_signal(number)
    for client in clients:
        assert client.receive() is None
        client.socket.close()
    assert echo.process.wait(20) == 0


def test_an_address_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        echo = Service(tmp_path, "echo", address)
        assert echo.process.wait(20) == 1
        assert f"cannot listen on {address}: Address already in use" in echo.log


@pytest.mark.parametrize("arguments, text", [
    (["nowhere"], '"nowhere" is not an address to listen on'),
    (["127.0.0.1:0", "missing.pem", "missing.key"], "missing.pem"),
])
def test_what_cannot_be_set_up_is_said(tmp_path, arguments, text):
    echo = Service(tmp_path, "echo", *arguments)
    assert echo.process.wait(20) == 1
    assert text in echo.log


def test_clients_of_many_threads(service):
    address = service("echo").address
    failures = []

    def run(number):
        with Client(address) as client:
            for n in range(200):
                if client.call(number, b"%d" % n, n) != Frame(number, b"%d" % n, n):
                    failures.append((number, n))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
