"""The limit of busy connections to a server, and the age of kept ones: the real program, with real servers."""
import threading
import time

import pytest

from test_gateway import gateway, wait_until
from test_reload import reload
from upstream import Upstream, change_protocol, response
from websocket import WebSocket


class Gate:
    """A server whose requests wait until the gate is opened."""

    def __init__(self, name=b"ok"):
        self.opened = threading.Event()
        self.back = Upstream(self._answer)
        self.name = name

    def _answer(self, request, connection):
        if request[1] == "/socket":
            change_protocol(request, connection)
            self.opened.wait(20)
            return None
        self.opened.wait(20)
        return response(self.name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.opened.set()
        self.back.close()


def ask(server):
    """Sends a request and returns its connection."""
    client = server.connect().__enter__()
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return client


def in_flight(server, gate):
    return server.sample(f'sluice_upstream_requests_in_flight{{upstream="back",server="{gate.back.name}"}}')


def busy(server, gate):
    return server.sample(f'sluice_upstream_busy_total{{upstream="back",server="{gate.back.name}"}}')


@pytest.mark.parametrize("cores", [1, 2])
def test_no_more_requests_than_connections_are_sent(sluice, cores):
    with Gate() as gate:
        server = sluice(gateway(gate.back.url, upstream="connections = 3"), server=f"cores = {cores}")
        clients = [ask(server) for _ in range(3)]
        wait_until(lambda: len(gate.back.requests) == 3)
        for _ in range(4):
            refused = server.get("/")
            assert refused.status == 503 and b"busy" in refused.body
            assert refused.get("retry-after") == "1"
        assert busy(server, gate) == 4
        assert len(gate.back.requests) == 3
        gate.opened.set()
        for client in clients:
            assert client.read().status == 200
            client.close()
        wait_until(lambda: in_flight(server, gate) == 0)
        assert server.get("/").body == b"ok"


@pytest.mark.parametrize("cores", [1, 2])
def test_requests_wait_for_a_connection(sluice, cores):
    with Gate() as gate:
        server = sluice(gateway(gate.back.url, upstream='connections = 1\nqueue = 2\nwait = "20s"'), server=f"cores = {cores}")
        first = ask(server)
        wait_until(lambda: len(gate.back.requests) == 1)
        waiting = [ask(server), ask(server)]
        wait_until(lambda: in_flight(server, gate) == 3)
        with server.connect() as gone:  # a client that leaves gives up its place
            assert gone.get("/").status == 503
        waiting.pop().close()
        wait_until(lambda: in_flight(server, gate) == 2)
        waiting.append(ask(server))
        wait_until(lambda: in_flight(server, gate) == 3)
        assert len(gate.back.requests) == 1
        gate.opened.set()
        for client in [first, *waiting]:
            assert client.read().body == b"ok"
            client.close()
        assert gate.back.connections == 1 or cores == 2


def test_a_request_does_not_wait_longer_than_wait(sluice):
    with Gate() as gate:
        server = sluice(gateway(gate.back.url, upstream='connections = 1\nqueue = 2\nwait = "50ms"'))
        first = ask(server)
        wait_until(lambda: len(gate.back.requests) == 1)
        assert server.get("/").status == 503
        gate.opened.set()
        assert first.read().status == 200
        assert len(gate.back.requests) == 1


def test_the_deadline_of_the_route_bounds_the_wait(sluice):
    with Gate() as gate:
        server = sluice(gateway(gate.back.url, upstream='connections = 1\nqueue = 2\nwait = "20s"', path="/",
                                more='[[route]]\npath = "/hurried"\nupstream = "back"\ntimeout = "50ms"'))
        first = ask(server)
        wait_until(lambda: len(gate.back.requests) == 1)
        assert server.get("/hurried").status == 504
        gate.opened.set()
        assert first.read().status == 200


def test_the_deadline_of_the_route_ends_an_upload_that_waits(sluice):
    """The client never sends the rest of its body."""
    with Gate() as gate:
        server = sluice(gateway(gate.back.url, upstream='connections = 1\nqueue = 2\nwait = "20s"', path="/",
                                more='[[route]]\npath = "/hurried"\nupstream = "back"\ntimeout = "50ms"'))
        first = ask(server)
        wait_until(lambda: len(gate.back.requests) == 1)
        with server.connect() as client:
            client.send("POST /hurried HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
            answer = client.read()
            assert (answer.status, answer.get("connection")) == (504, "close")
        gate.opened.set()
        assert first.read().status == 200


def test_another_server_gets_a_request_that_finds_one_busy(sluice):
    with Gate(b"a") as a, Gate(b"b") as b:
        b.opened.set()
        server = sluice(gateway(a.back.url, b.back.url, upstream="connections = 1"), server="cores = 1")
        first = ask(server)
        wait_until(lambda: len(a.back.requests) == 1)
        for _ in range(4):
            assert server.get("/").body == b"b"
        a.opened.set()
        assert first.read().body == b"a"
        assert f'server="{a.back.name}",state="up"}} 1' in server.admin("/metrics")[1]


def test_a_websocket_keeps_a_connection_busy(sluice):
    with Gate() as gate:
        server = sluice(gateway(gate.back.url, upstream="connections = 1"))
        with WebSocket(server.port, "/socket"):
            assert server.get("/").status == 503
        gate.opened.set()
        wait_until(lambda: in_flight(server, gate) == 0)
        assert server.get("/").status == 200


def test_a_reload_changes_the_limit_and_keeps_what_runs(sluice):
    with Gate() as gate:
        server = sluice(gateway(gate.back.url, upstream='connections = 1\nqueue = 2\nwait = "20s"'), server="cores = 2")
        clients = [ask(server)]
        wait_until(lambda: len(gate.back.requests) == 1)
        clients += [ask(server), ask(server)]
        wait_until(lambda: in_flight(server, gate) == 3)
        head = server.file.read_text().split("[[upstream]]")[0]
        server.file.write_text(head + gateway(gate.back.url, upstream="connections = 2"))
        assert reload(server)[0] == 200
        wait_until(lambda: len(gate.back.requests) == 2)
        server.file.write_text(head + gateway(gate.back.url))
        assert reload(server)[0] == 200
        wait_until(lambda: len(gate.back.requests) == 3)
        gate.opened.set()
        for client in clients:
            assert client.read().body == b"ok"
        assert server.get("/").status == 200


def test_an_old_connection_gets_no_further_request(sluice):
    def answer(*_):
        time.sleep(0.01)
        return response(b"ok")

    with Upstream(answer) as back:
        server = sluice(gateway(back.url, upstream='keep_age = "5ms"'), server="cores = 1")
        for _ in range(3):
            assert server.get("/").body == b"ok"
        assert back.connections == 3
