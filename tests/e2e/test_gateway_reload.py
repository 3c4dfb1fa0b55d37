"""Reloads while a gateway is under load: no request fails, and only the WebSockets of what is removed are closed."""
import os
import threading

import http2
from test_gateway import wait_until
from test_gateway_upstream import state
from test_reload import reload
from upstream import Upstream, response, websocket_echo
from websocket import TEXT, WebSocket, WebSocketOverHttp2

RELOADS = int(os.environ.get("RELOADS", "100"))


def answer(request, connection):
    return websocket_echo(request, connection) if "upgrade" in dict(request[2]) else response(b"ok")


class Load:
    """A client in a thread that sends requests until stop() and counts the answers. `faults` collects what is not a 200."""

    def __init__(self, ask, faults):
        self.answered = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(ask, faults))
        self.thread.start()

    def _run(self, ask, faults):
        try:
            while not self.stopping.is_set():
                if (status := ask(self.answered)) != 200:
                    faults.append(status)
                self.answered += 1
        except Exception as error:  # noqa: BLE001: reported by the test
            faults.append(repr(error))

    def stop(self):
        self.stopping.set()
        self.thread.join()


def clients_of(server):
    """Functions that send a request over HTTP/1.1, on a kept connection and on new ones, and over HTTP/2. Half of the requests are
    POSTs, which are not sent again if they fail."""
    kept, multiplexed = server.connect(), http2.Client(server.port)

    def on_kept(number):
        return (kept.call("POST", "/load", b"x" * 3000) if number % 2 else kept.get("/load")).status

    def on_new(number):
        with server.connect() as client:
            return (client.call("POST", "/load", b"x") if number % 2 else client.get("/load")).status

    def on_http2(number):
        return multiplexed.get("/load", method="POST" if number % 2 else "GET", body=b"x" if number % 2 else None).status

    return on_kept, on_new, on_http2


def test_a_reload_while_a_request_is_still_coming(sluice):
    with Upstream(lambda request, _: response(request[3])) as back:
        server = sluice(f"""
[[upstream]]
name = "back"
servers = ["{back.url}"]
[[route]]
path = "/a"
upstream = "back"
""", server='trusted_proxies = ["127.0.0.9"]\nclient_header = "X-Name-Of-The-Clients-Address"')
        def add_route(path):
            text = server.file.read_text()
            server.file.write_text(f'{text}[[route]]\npath = "{path}"\nupstream = "back"\n')
            assert reload(server)[0] == 200

        add_route("/b")
        with server.connect() as client:
            client.send(b"POST /a HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            wait_until(lambda: back.connections == 1)
            for path in ("/c", "/d", "/e"):
                add_route(path)
            client.send(b"0\r\nX-Sum: 7\r\nX_Name_Of_The_Clients_Address: 6.6.6.6\r\n\r\n")
            assert client.read().body == b"hello"
        assert back.requests[0].trailers == [("x-sum", "7")]


def test_reloads_under_load(sluice):
    """The server `ill` is ejected at the beginning; it would answer 503 if a reload forgot that."""
    with (Upstream(answer) as first, Upstream(answer) as second,
          Upstream(lambda *_: response(b"", status="503 Service Unavailable")) as ill):
        def config(number, goes=True):
            """Each number differs from the one before in one part, and in the path by which the test knows it."""
            added = f', "{second.url}"' if number // 4 % 2 else ""
            weight = 1 + (number + 1) // 4 % 5
            more = "".join(f'[[route]]\npath = "/more/{n}"\nupstream = "other"\n' for n in range((number + 2) // 4 % 4))
            return f'''# routes
[[upstream]]
name = "back"
servers = ["{first.url}", "{ill.url}"{added}]
eject = {{ after = 1, for = "5m", at_most = "100%" }}
[[upstream]]
name = "other"
servers = [{{ url = "{first.url}", weight = {weight} }}, "{second.url}"]
retries = {(number + 3) // 4 % 3}
[[route]]
path = "/load"
upstream = "back"
[[route]]
path = "/chat"
upstream = "back"
[[route]]
path = "/changes/{number}"
upstream = "other"
methods = ["{"GET" if number % 2 else "POST"}"]
{more}''' + ('[[route]]\npath = "/goes"\nupstream = "back"\n' if goes else "")

        server = sluice(config(0), server='cores = 2\ngrace = "1s"\n')
        head = server.file.read_text().split("# routes")[0]

        def change(*how):
            server.file.write_text(head + config(*how))
            assert reload(server)[0] == 200

        wait_until(lambda: server.get("/load").status == 503)
        wait_until(lambda: state(server, ill.port) == "ejected")
        wait_until(lambda: {server.get("/load").status for _ in range(8)} == {200})  # on every core
        sent_to_ill = len(ill.requests)
        stay = [kind(server.port, "/chat") for kind in (WebSocket, WebSocketOverHttp2) for _ in range(3)]
        go = [kind(server.port, "/goes") for kind in (WebSocket, WebSocketOverHttp2)]

        def talk(clients, number):
            for client in clients:
                client.say(TEXT, f"message {number}")
                assert client.frame().payload.decode() == f"message {number}"

        counter = f'sluice_upstream_requests_total{{upstream="back",server="{first.name}"}}'
        counted, faults = 0, []
        loads = [Load(ask, faults) for ask in clients_of(server)]
        try:
            for number in range(1, 1 + RELOADS):
                before = [load.answered for load in loads]
                change(number)
                # At least one request of each client begins after the reload.
                wait_until(lambda: faults or all(load.answered > was + 1 for load, was in zip(loads, before)))
                assert not faults, faults[:5]
                method, other = ("GET", "POST") if number % 2 else ("POST", "GET")
                assert [server.get(f"/changes/{number}", method=one).status for one in (method, other)] == [200, 405]
                assert server.get(f"/changes/{number - 1}").status == 404
                talk(stay + go, number)
                assert state(server, ill.port) == "ejected"
                now = server.sample(counter)
                assert now > counted
                counted = now
            change(RELOADS, False)
            for client in go:
                client.assert_closed()
            talk(stay, "after")
        finally:
            for load in loads:
                load.stop()
        assert not faults, faults[:5]
        assert len(ill.requests) == sent_to_ill
        # The WebSockets are the requests of the first server that have not ended.
        assert server.sample(f'sluice_upstream_tunnels{{upstream="back",server="{first.name}"}}') == len(stay)
        of_other = sum(request[1].startswith("/changes/") for request in first.requests)
        assert server.sample(counter) == len(first.requests) - of_other
        for client in stay:
            client.close_with(1000)
            client.close()
        wait_until(lambda: server.sample(f'sluice_upstream_tunnels{{upstream="back",server="{first.name}"}}') == 0)
    assert server.sample('sluice_reloads_total{result="done"}') == RELOADS + 1
