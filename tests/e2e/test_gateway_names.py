"""Servers of an upstream that have a name: their addresses come from a name server of the test, and change."""
import os
import socket
import struct
import subprocess
import threading

import pytest

import conftest
from cluster import free_port
from skips import skip
from test_gateway import gateway, wait_until
from test_gateway_upstream import named, servers_of
from upstream import Upstream, response

NAME = "back.example"


def is_possible():
    """Whether this user may mount a file of its own over /etc/resolv.conf, and listen on port 53."""
    try:
        NameServer().__exit__()
    except OSError:
        return False
    return subprocess.run(["unshare", "-rm", "mount", "--bind", "/etc/hosts", "/etc/resolv.conf"], capture_output=True).returncode == 0


class NameServer:
    """Answers each query for an address of NAME with `addresses`, or as `fault` says: "silent", "SERVFAIL" or "NXDOMAIN"."""

    CODES = {"SERVFAIL": 2, "NXDOMAIN": 3}

    def __init__(self, *addresses):
        self.addresses = addresses
        self.fault = None
        self.queries = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.address = f"127.53.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"  # other tests may run at the same time
        self.socket.bind((self.address, 53))
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.fault = "end"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (self.address, 53))
        self.thread.join()
        self.socket.close()

    def _serve(self):
        while self.fault != "end":
            query, client = self.socket.recvfrom(4096)
            if len(query) < 12:
                continue
            self.queries += 1
            if self.fault != "silent":
                self.socket.sendto(self._answer(query), client)

    def _answer(self, query):
        end = query.index(b"\0", 12) + 5
        (kind,) = struct.unpack("!H", query[end - 4:end - 2])
        addresses = self.addresses if kind == 1 and self.fault is None else ()
        flags = 0x8180 | self.CODES.get(self.fault, 0)
        head = query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0)
        records = b"".join(struct.pack("!HHHIH", 0xc00c, 1, 1, 1, 4) + socket.inet_aton(address) for address in addresses)
        return head + query[12:end] + records  # each record lives for a second


@pytest.fixture
def with_names(sluice, tmp_path, monkeypatch):
    """with_names(name_server, config, server=...) starts the program, which asks that name server."""
    if not is_possible():
        skip("kernel", "may not mount a resolv.conf, or listen on port 53")

    def start(names, *args, **more):
        file, program = tmp_path / "resolv.conf", tmp_path / "sluice"
        file.write_text(f"nameserver {names.address}\noptions timeout:1 attempts:1\n")
        program.write_text(f'#!/bin/sh\nexec unshare -rm sh -c \'mount --bind {file} /etc/resolv.conf && exec "$0" "$@"\' '
                           f'{os.path.abspath(conftest.SLUICE)} "$@"\n')
        program.chmod(0o755)
        with monkeypatch.context() as patch:
            patch.setattr(conftest, "SLUICE", str(program))
            return sluice(*args, **more)
    return start


def at(host, port, name):
    return Upstream(lambda *_: response(name), port, host=host)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_server_that_moves(with_names, method):
    port = free_port()
    with NameServer("127.0.0.2") as names:
        with at("127.0.0.2", port, b"old"):
            server = with_names(names, gateway(f"http://{NAME}:{port}"), server="cores = 1")
            assert server.get("/", method=method).body == b"old"
        with at("127.0.0.3", port, b"new"):
            names.addresses = ("127.0.0.3",)
            wait_until(lambda: server.get("/", method=method).body == b"new")
            assert [server.get("/", method=method).body for _ in range(5)] == [b"new"] * 5


@pytest.mark.parametrize("addresses", [("127.0.0.2", "127.0.0.3"), ("127.0.0.3", "127.0.0.2")])
def test_one_of_two_addresses_refuses(with_names, addresses):
    port = free_port()
    with NameServer(*addresses) as names, at("127.0.0.3", port, b"well"):
        server = with_names(names, gateway(f"http://{NAME}:{port}", upstream="keep = 0"), server="cores = 1")
        assert [server.get("/", method=method).body for method in ("GET", "POST") * 3] == [b"well"] * 6
        assert servers_of(server)[f"{NAME}:{port}"]["failures"] == 0


@pytest.mark.parametrize("fault", ["silent", "SERVFAIL"])
def test_a_name_server_that_fails_later(with_names, fault):
    """The old addresses go on being used."""
    with NameServer("127.0.0.1") as names, named("back") as back:
        server = with_names(names, gateway(f"http://{NAME}:{back.port}", upstream="keep = 0"), server="cores = 1")
        assert server.get("/").body == b"back"
        names.fault = fault
        count = names.queries
        wait_until(lambda: server.get("/").body == b"back" and names.queries > count + 1)
        assert [server.get("/", method=method).body for method in ("GET", "POST") * 3] == [b"back"] * 6


def test_a_name_that_is_removed_and_comes_again(with_names):
    with NameServer("127.0.0.1") as names, named("back") as back:
        server = with_names(names, gateway(f"http://{NAME}:{back.port}", upstream="keep = 0"), server="cores = 1")
        assert server.get("/").body == b"back"
        names.fault = "NXDOMAIN"
        wait_until(lambda: server.get("/").status == 502)
        assert f"{NAME}:{back.port}: it cannot be reached: " in server.log
        names.fault = None
        wait_until(lambda: server.get("/", method="POST").body == b"back")


@pytest.mark.parametrize("fault", ["silent", "SERVFAIL", "NXDOMAIN"])
def test_a_name_server_that_fails_from_the_start(with_names, fault):
    """Another server gets the requests, until the name has an address."""
    with NameServer("127.0.0.1") as names, named("back") as back, named("other") as other:
        names.fault = fault
        late = 'connect_timeout = "1s"\n' if fault == "silent" else ""
        server = with_names(names, gateway(f"http://{NAME}:{back.port}", other.url, upstream=late + "eject.after = 0"),
                            server="cores = 1")
        assert [server.get("/", method=method).body for method in ("GET", "POST")] == [b"other"] * 2
        assert servers_of(server)[f"{NAME}:{back.port}"]["failures"] >= 1
        names.fault = None
        wait_until(lambda: server.get("/").body == b"back")
