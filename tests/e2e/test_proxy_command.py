"""`sluice proxy`: the gateway without a configuration file."""
import socket
import subprocess

import pytest

from cluster import free_port
from conftest import SLUICE
from http1 import Connection
from upstream import Upstream, response


def proxy(*words):
    done = subprocess.run([SLUICE, "proxy", *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def start(*words):
    """Starts the program and returns it once it serves; the caller stops it."""
    port = free_port()
    process = subprocess.Popen([SLUICE, "proxy", *words, "--listen", f"127.0.0.1:{port}"], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if str(port) in line:
            return process, port
    raise AssertionError("it did not start")


def test_every_request_is_passed_on_to_the_servers_in_turn():
    with Upstream(lambda *_: response(b"a")) as a, Upstream(lambda *_: response(b"b")) as b:
        process, port = start(f"127.0.0.1:{a.port}", b.url)
        try:
            with Connection(port) as connection:
                bodies = [connection.get(target).body for target in ("/", "/x/y?z=1", "/x", "/")]
                connection.send("POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nhi")
                assert connection.read().status == 200
            assert bodies in ([b"a", b"b", b"a", b"b"], [b"b", b"a", b"b", b"a"])
            assert sorted(request[1] for request in a.requests + b.requests) == ["/", "/", "/f", "/x", "/x/y?z=1"]
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def test_what_it_prints_serves_the_same(sluice, tmp_path):
    with Upstream(lambda *_: response(b"a")) as a:
        listen = f"unix:{tmp_path / 'front.sock'}"
        code, text, errors = proxy("--print", "--listen", listen, f"localhost:{a.port}")
        assert (code, errors) == (0, "")
        file = tmp_path / "printed.toml"
        file.write_text(text.replace('[admin]\nlisten = ""', '[admin]\nlisten = "${ADMIN}"'))
        sluice(file=file)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(listen.removeprefix("unix:"))
            client.sendall(b"GET /x HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
            answer = b""
            while piece := client.recv(65536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\na")


@pytest.mark.parametrize("words, said", [
    ((), "SERVER is required"),
    (("ftp://localhost",), '"ftp://localhost" must be'),
    (("localhost:port",), '"localhost:port" must'),
    (("localhost/path",), '"localhost/path" must'),
    (("localhost:3000", "--listen", "nowhere"), "nowhere"),
])
def test_what_is_wrong_is_named(words, said):
    code, _, errors = proxy(*words)
    assert code == 2 and said in errors and "/proc/" not in errors


def test_an_address_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, errors = proxy("localhost:3000", "--listen", address)
        assert code == 1 and address in errors and "/proc/" not in errors
