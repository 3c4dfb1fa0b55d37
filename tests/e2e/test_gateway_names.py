"""Servers of an upstream that have a name: their addresses come from a name server of the test, and change."""
import contextlib
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
from test_gateway_tls import speaks, tls
from test_gateway_upstream import entry, named, operate, order, servers_of, upstream_of
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


@contextlib.contextmanager
def hosts(*numbers, **options):
    """Servers at 127.0.0.N with one port. Each answers with N."""
    port = free_port()
    with contextlib.ExitStack() as stack:
        yield port, {n: stack.enter_context(Upstream(lambda *_, n=n: response(b"%d" % n), port, host=f"127.0.0.{n}", **options))
                     for n in numbers}


def ip(*numbers):
    return tuple(f"127.0.0.{n}" for n in numbers)


def shown(server):
    """The servers, by the last number of their address; 0: the name is the server."""
    return {int(name.rpartition("/127.0.0.")[2] if "/127" in name else 0): one for name, one in servers_of(server).items()}


def wait_for(server, *numbers):
    wait_until(lambda: set(shown(server)) == set(numbers))


def answers(server, count):
    return [int(server.get("/").body) for _ in range(count)]


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
        wait_until(lambda: set(servers_of(server)) == {f"{NAME}:{port}/127.0.0.2", f"{NAME}:{port}/127.0.0.3"})
        assert [server.get("/", method=method).body for method in ("GET", "POST") * 3] == [b"well"] * 6
        assert servers_of(server)[f"{NAME}:{port}/127.0.0.3"]["failures"] == 0


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


@pytest.mark.parametrize("cores", [1, 2])
def test_every_address_is_a_server(with_names, cores):
    with hosts(2, 3, 4) as (port, backs), NameServer(*ip(4, 2, 3)) as names:
        server = with_names(names, upstream_of([entry(f"http://{NAME}:{port}", 2)]), server=f"cores = {cores}")
        wait_for(server, 2, 3, 4)
        assert all(one["state"] == "up" and one["weight"] == 2 for one in shown(server).values())
        before = {n: len(back.requests) for n, back in backs.items()}
        with server.connect() as client:
            assert sorted(int(client.get("/").body) for _ in range(9)) == [2, 2, 2, 3, 3, 3, 4, 4, 4]
        for n, back in backs.items():
            assert len(back.requests) - before[n] == 3
        assert f"its addresses are {', '.join(ip(2, 3, 4))}" in server.log
        assert server.sample(f'sluice_upstream_requests_total{{upstream="back",server="{NAME}:{port}/127.0.0.2"}}') >= 3


def test_addresses_that_stay_keep_their_connections(with_names):
    with hosts(2, 3, 4) as (port, backs), NameServer(*ip(2, 3)) as names:
        server = with_names(names, gateway(f"http://{NAME}:{port}"), server="cores = 1")
        wait_for(server, 2, 3)
        answers(server, 4)
        count, connections = shown(server)[3]["requests"], backs[3].connections
        names.addresses = ip(4, 3)
        wait_for(server, 3, 4)
        assert set(answers(server, 6)) == {3, 4}
        names.addresses = ip(3)
        wait_for(server, 3)
        assert answers(server, 3) == [3] * 3
        assert shown(server)[3]["requests"] == count + 6
        assert backs[3].connections == connections
        names.addresses = ip(2, 3, 4)
        wait_for(server, 2, 3, 4)
        assert sorted(answers(server, 3)) == [2, 3, 4]


def test_a_request_goes_on_at_an_address_that_is_gone(with_names):
    begun, go_on = threading.Event(), threading.Event()

    def slow(*_):
        begun.set()
        go_on.wait(30)
        return response(b"2")

    with hosts(3) as (port, _), Upstream(slow, port, host="127.0.0.2"), NameServer(*ip(2, 3)) as names:
        server = with_names(names, gateway(f"http://{NAME}:{port}"), server="cores = 1")
        wait_for(server, 2, 3)
        with server.connect() as client, server.connect() as other:
            for one in (client, other):
                one.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert begun.wait(20)
            names.addresses = ip(3)
            wait_for(server, 3)
            assert answers(server, 4) == [3] * 4
            go_on.set()
            assert {client.read().body, other.read().body} == {b"2", b"3"}


def test_one_of_several_addresses_is_ejected_and_replaced(with_names):
    with hosts(3, 4) as (port, _), NameServer(*ip(2, 3)) as names:  # nothing listens at 127.0.0.2
        server = with_names(names, gateway(f"http://{NAME}:{port}", upstream='eject = { after = 2, for = "1m" }'), server="cores = 2")
        wait_for(server, 2, 3)
        wait_until(lambda: server.get("/", method="POST").body == b"3" and shown(server)[2]["state"] == "ejected")
        failures = shown(server)[2]["failures"]
        wait_until(lambda: answers(server, 8) == [3] * 8)
        assert f"{NAME}:{port}/127.0.0.2: ejected for 60 s" in server.log
        names.addresses = ip(2, 3, 4)
        wait_for(server, 2, 3, 4)
        assert set(answers(server, 8)) == {3, 4}
        assert (shown(server)[2]["state"], shown(server)[2]["failures"]) == ("ejected", failures)


def test_each_address_is_probed(with_names):
    def answer(request, _):
        return response(b"3") if request[1] != "/well" or is_well.is_set() else response(b"", status="503 Busy")

    is_well = threading.Event()
    with hosts(2) as (port, backs), Upstream(answer, port, host="127.0.0.3"), NameServer(*ip(2, 3)) as names:
        health = 'health = { path = "/well", every = "50ms", rise = 1, fall = 1 }\neject = { for = "10ms" }'
        server = with_names(names, gateway(f"http://{NAME}:{port}", upstream=health), server="cores = 2")
        wait_for(server, 2, 3)
        wait_until(lambda: shown(server)[3]["state"] == "ejected")
        wait_until(lambda: answers(server, 6) == [2] * 6)
        assert any(request[1] == "/well" and f"{NAME}:{port}" in str(request[2]) for request in backs[2].requests)
        is_well.set()
        wait_until(lambda: set(answers(server, 6)) == {2, 3})


def test_a_key_stays_with_its_address(with_names):
    numbers = range(2, 7)
    with hosts(*numbers) as (port, _), NameServer(*ip(*numbers)) as names:
        server = with_names(names, gateway(f"http://{NAME}:{port}", upstream='balance = "hash"\nhash = "header.x-key"'), server="cores = 2")
        wait_for(server, *numbers)

        def places():
            with server.connect() as client:
                return {key: int(client.call("GET", "/", None, f"X-Key: {key}").body) for key in range(200)}

        wait_until(lambda: set(places().values()) == set(numbers))
        before = places()
        names.addresses = ip(6, 2, 5, 4)
        wait_for(server, 2, 4, 5, 6)
        after = places()
        assert {key for key in before if before[key] != after[key]} == {key for key in before if before[key] == 3}


def test_a_name_and_its_addresses_are_drained(with_names):
    with hosts(2, 3, 4) as (port, _), NameServer(*ip(2, 3)) as names, named("other") as other:
        name = f"{NAME}:{port}"
        server = with_names(names, upstream_of([f'"http://{name}"', f'{{ url = "{other.url}", backup = true }}']), server="cores = 2")

        def states(*states):
            assert tuple(one["state"] for place, one in sorted(shown(server).items()) if place) == states

        wait_for(server, 0, 2, 3)
        assert operate(server, "drain", f"{name}/127.0.0.2").status == 200
        states("drained", "up")
        wait_until(lambda: answers(server, 6) == [3] * 6)
        assert operate(server, "drain", name).status == 200
        states("drained", "drained")
        wait_until(lambda: [server.get("/").body for _ in range(6)] == [b"other"] * 6)
        names.addresses = ip(2, 3, 4)
        wait_for(server, 0, 2, 3, 4)
        states("drained", "drained", "drained")
        server.file.write_text(server.file.read_text().replace('name = "back"', 'name = "back"\nconnect_timeout = "3s"'))
        assert order(server, "/reload").status == 200
        assert server.get("/").body == b"other"
        wait_for(server, 0, 2, 3, 4)
        states("drained", "drained", "drained")
        assert operate(server, "enable", f"{name}/127.0.0.4").status == 200
        states("drained", "drained", "up")
        wait_until(lambda: [server.get("/").body for _ in range(6)] == [b"4"] * 6)
        assert operate(server, "enable", name).status == 200
        states("up", "up", "up")
        wait_until(lambda: set(answers(server, 6)) == {2, 3, 4})


@pytest.mark.parametrize("fault", ["silent", "SERVFAIL"])
def test_several_addresses_outlive_a_name_server(with_names, fault):
    with hosts(2, 3) as (port, _), NameServer(*ip(2, 3)) as names:
        server = with_names(names, gateway(f"http://{NAME}:{port}"), server="cores = 1")
        wait_for(server, 2, 3)
        names.fault = fault
        count = names.queries
        wait_until(lambda: server.get("/").status == 200 and names.queries > count + 2)
        assert sorted(answers(server, 4)) == [2, 2, 3, 3]


def test_several_addresses_go_with_their_name_and_come_again(with_names):
    with hosts(2, 3) as (port, _), NameServer(*ip(2, 3)) as names:
        server = with_names(names, gateway(f"http://{NAME}:{port}"), server="cores = 2")
        wait_for(server, 2, 3)
        names.fault = "NXDOMAIN"
        wait_for(server, 0)
        wait_until(lambda: server.get("/").status == 502)
        assert f"{NAME}:{port}: the name has no address: " in server.log
        names.fault = None
        wait_for(server, 2, 3)
        wait_until(lambda: set(answers(server, 4)) == {2, 3})


def test_certificates_bear_the_name_and_not_the_address(with_names, authority):
    with hosts(2, 3, tls=speaks(authority.issue(NAME, hosts=(NAME,)))) as (port, _), NameServer(*ip(2, 3)) as names:
        server = with_names(names, gateway(f"https://{NAME}:{port}", upstream=tls(ca=authority.ca)), server="cores = 1")
        wait_for(server, 2, 3)
        assert sorted(answers(server, 4)) == [2, 2, 3, 3]
        assert set(servers_of(server)) == {f"https://{NAME}:{port}/127.0.0.{n}" for n in (2, 3)}


def test_names_change_while_servers_are_added_by_reloads(with_names):
    """Many requests, reloads and answers of the name server: no request fails."""
    with hosts(2, 3, 4) as (port, _), NameServer(*ip(2, 3)) as names, named("9") as other:
        server = with_names(names, gateway(f"http://{NAME}:{port}"), server="cores = 2")
        wait_for(server, 2, 3)
        text = server.file.read_text()
        faults, ended = [], threading.Event()

        def ask():
            with server.connect() as client:
                while not ended.is_set():
                    answer = client.get("/")
                    if answer.status != 200:
                        faults.append(answer)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for i, numbers in enumerate([(2, 3, 4), (3, 4), (2, 4), (2, 3, 4), (3,), (2, 3)]):
            names.addresses = ip(*numbers)
            more = f', "{other.url}"' if i % 2 else ""
            server.file.write_text(text.replace(f'"http://{NAME}:{port}"', f'"http://{NAME}:{port}"{more}'))
            assert order(server, "/reload").status == 200
            wait_until(lambda: {n for n in shown(server) if n} == set(numbers))  # noqa: B023: evaluated at once
        ended.set()
        for thread in threads:
            thread.join()
        assert not faults, faults[:3]
