"""Which server of an upstream gets a request, and the reaction to servers that fail: the real program, with real servers."""
import json
import contextlib
import select
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import http1
from cluster import free_port
from test_gateway import gateway, wait_until
from tokens import Secret, soon
from upstream import Upstream, response


def named(name):
    return Upstream(lambda *_: response(name.encode()))


def state(server, back, name="back"):
    """The server's state; None: no core has it."""
    for line in server.admin("/metrics")[1].splitlines():
        if line.startswith(f'sluice_upstream_state{{upstream="{name}",server="127.0.0.1:{back}"') and line.endswith(" 1"):
            return line.split('state="')[1].split('"')[0]
    return None


def of_server(server, metric, port):
    return server.sample(f'sluice_upstream_{metric}{{upstream="back",server="127.0.0.1:{port}"}}')


def entry(url, weight):
    return f'{{ url = "{url}", weight = {weight} }}'


def upstream_of(entries, more=""):
    return f'[[upstream]]\nname = "back"\nservers = [{", ".join(entries)}]\n{more}\n[[route]]\npath = "/{{rest...}}"\nupstream = "back"\n'


def test_weights(sluice):
    with named("a") as a, named("b") as b:
        server = sluice(upstream_of([entry(a.url, 3), f'"{b.url}"']), server="cores = 1")
        with server.connect() as client:
            assert b"".join(client.get("/").body for _ in range(8)) == b"aabaaaba"


def test_weights_hold_for_many_clients_on_two_cores(sluice):
    """Each client sends many requests at once and then reads their answers."""
    requests, batch, clients = 10_000, 50, 8
    with named("a") as a, named("b") as b, named("c") as c:
        server = sluice(upstream_of([entry(a.url, 5), entry(b.url, 3), entry(c.url, 2)]), server="cores = 2")
        faults = []

        def ask():
            try:
                with server.connect() as client:
                    for _ in range(requests // batch // clients):
                        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * batch)
                        for _ in range(batch):
                            assert client.read().status == 200
            except Exception as error:  # noqa: BLE001: reported by the test
                faults.append(repr(error))

        threads = [threading.Thread(target=ask) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults, faults
        for back, share in ((a, 5), (b, 3), (c, 2)):
            assert of_server(server, "requests_total", back.port) == len(back.requests)
            assert abs(len(back.requests) / (requests * share / 10) - 1) <= 0.02
        assert len(a.requests) + len(b.requests) + len(c.requests) == requests


def test_least_sends_at_most_one_request_of_each_core_to_a_server_that_hangs(sluice):
    go_on = threading.Event()

    def wait(*_):
        go_on.wait(30)
        return response(b"slow")

    with Upstream(wait) as slow, named("fast") as fast, contextlib.ExitStack() as connections:
        server = sluice(gateway(slow.url, fast.url, upstream='balance = "least"'), server="cores = 2")
        waiting, fast_answers = [], 0
        for _ in range(20):
            client = connections.enter_context(server.connect())
            for _ in range(10):
                client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                while not (arrived := select.select([client.socket], [], [], 0.01)[0]) and len(slow.requests) == len(waiting):
                    pass
                if not arrived:
                    waiting.append(client)
                    break
                assert client.read().body == b"fast"
                fast_answers += 1
        assert 1 <= len(waiting) <= 2
        assert (len(slow.requests), len(fast.requests)) == (len(waiting), fast_answers)
        go_on.set()
        assert [client.read().body for client in waiting] == [b"slow"] * len(waiting)


def test_least_keeps_away_from_a_server_that_is_slow(sluice):
    go_on = threading.Event()

    def wait(*_):
        go_on.wait(30)
        return response(b"slow")

    with Upstream(wait) as slow, named("fast") as fast:
        server = sluice(gateway(slow.url, fast.url, upstream='balance = "least"'), server="cores = 1")
        with server.connect() as waiting:
            waiting.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            # Until a request waits at the slow server, which then has more requests than the other one.
            while not slow.requests:
                assert waiting.read().body == b"fast"
                waiting.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                time.sleep(0.02)
            with server.connect() as client:
                assert {client.get("/").body for _ in range(40)} == {b"fast"}
            go_on.set()
            assert waiting.read().body == b"slow"


@pytest.mark.parametrize("key, field", [("header.X-User", "X-User: {}"), ("cookie.session", "Cookie: a=b; session={}; c=d"),
                                        ("path", None)])
def test_hash(sluice, key, field):
    with named("a") as a, named("b") as b, named("c") as c:
        options = f'balance = "hash"\nhash = "{key}"'
        server = sluice(gateway(a.url, b.url, c.url, upstream=options))

        def ask(number):
            with server.connect() as client:
                return client.get(f"/{number}" if field is None else "/", *([field.format(number)] if field else [])).body

        first = [ask(number) for number in range(60)]
        assert set(first) == {b"a", b"b", b"c"}
        assert [ask(number) for number in range(60)] == first
        # The order of the list does not matter. A new server takes some keys, and all others stay where they are.
        with named("d") as d:
            text = server.file.read_text()
            server.file.write_text(text.replace(f'"{a.url}", "{b.url}"', f'"{d.url}", "{b.url}", "{a.url}"'))
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "has been read again" in server.log)
            second = [ask(number) for number in range(60)]
            moved = [now for now, before in zip(second, first) if now != before]
            assert set(moved) == {b"d"} and len(moved) < 30


def test_hash_by_claim(sluice):
    secret = Secret()
    with named("a") as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream='balance = "hash"\nhash = "claim.sub"', route='use = ["auth"]') +
                        f'[policy.auth]\ntype = "jwt"\nsecret = "{secret.secret}"\n')

        def ask(number):
            return server.get("/", f"Authorization: Bearer {secret.token(soon(sub=f'user-{number}'))}").body

        first = [ask(number) for number in range(20)]
        assert set(first) == {b"a", b"b"}
        assert [ask(number) for number in range(20)] == first


def test_a_server_is_ejected_for_all_cores_and_comes_back(sluice):
    ill = threading.Event()
    ill.set()

    def answer(*_):
        return response(b"ill", status="503 Service Unavailable") if ill.is_set() else response(b"a")

    with Upstream(answer) as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream='eject = { after = 3, for = "1s", slow_start = "200ms" }'),
                        server="cores = 2")

        def ask():
            with server.connect() as client:  # a new connection each time, so that both cores get requests
                return client.get("/").status

        while state(server, a.port) != "ejected":
            assert ask() in (200, 503)
        wait_until(lambda: ask() == 200)
        before = len(a.requests)
        # An ejected server gets no requests. The ejection may end while this counts them.
        statuses = [ask() for _ in range(20)]
        if state(server, a.port) == "ejected":
            assert statuses == [200] * 20 and len(a.requests) == before
        # One request tries the server and fails, so the next ejection lasts twice as long.
        wait_until(lambda: ask() == 503)
        wait_until(lambda: "ejected for 2 s: the one request that it got failed" in server.log)
        ill.clear()

        def is_up():
            assert ask() == 200
            return state(server, a.port) == "up"

        wait_until(is_up)
        assert of_server(server, "ejections_total", a.port) >= 2
        for text in ("ejected for 1 s: requests failed, one after the other", "the next request tries it",
                     "it answers again", "up again"):
            assert f"127.0.0.1:{a.port}: " in server.log and text in server.log
        count = len(a.requests)
        for _ in range(20):
            ask()
        assert len(a.requests) > count


def test_the_only_server_is_never_ejected(sluice):
    with Upstream(lambda *_: response(b"", status="503 Service Unavailable")) as a:
        server = sluice(gateway(a.url, upstream="eject.after = 1"))
        assert [server.get("/").status for _ in range(10)] == [503] * 10
        assert len(a.requests) == 10 and state(server, a.port) == "up"


def test_errors_of_clients_eject_nobody(sluice):
    with Upstream(lambda *_: response(b"", status="404 Not Found")) as a, \
            Upstream(lambda *_: response(b"", status="500 Internal Server Error")) as b:
        server = sluice(gateway(a.url, b.url, upstream='eject = { after = 1, at_most = "100%" }'), server="cores = 1")
        with server.connect() as client:
            assert [client.get("/").status for _ in range(20)] == [404, 500] * 10
            for _ in range(3):
                with server.connect() as other:
                    other.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
                    other.shut_sending()
                    assert other.read().status == 400
            time.sleep(0.1)
            assert state(server, a.port) == state(server, b.port) == "up"
        assert of_server(server, "ejections_total", a.port) == 0


def test_which_statuses_eject(sluice):
    with Upstream(lambda *_: response(b"", status="500 Internal Server Error")) as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream='eject = { after = 2, for = "1m", status = "500-599" }'))
        wait_until(lambda: server.get("/").status and state(server, a.port) == "ejected")
        assert servers_of(server)[a.name]["failures"] == of_server(server, "failures_total", a.port) >= 2
        assert servers_of(server)[b.name]["failures"] == 0


def test_failed_connects_are_failures(sluice):
    with named("b") as b:
        port = free_port()
        server = sluice(gateway(f"http://127.0.0.1:{port}", b.url), server="cores = 1")
        assert [server.get("/").status for _ in range(2)] == [200, 200]
        assert servers_of(server)[f"127.0.0.1:{port}"]["failures"] == of_server(server, "failures_total", port) == 1


def test_when_all_are_ejected_all_are_tried(sluice):
    with Upstream(lambda *_: response(b"", status="503 Service Unavailable")) as a, \
            Upstream(lambda *_: response(b"", status="503 Service Unavailable")) as b:
        server = sluice(gateway(a.url, b.url, upstream='eject = { after = 1, for = "1m", at_most = "100%" }'), server="cores = 1")
        wait_until(lambda: server.get("/").status and state(server, a.port) == state(server, b.port) == "ejected")
        counts = len(a.requests), len(b.requests)
        assert [server.get("/").status for _ in range(4)] == [503] * 4
        assert (len(a.requests), len(b.requests)) == (counts[0] + 2, counts[1] + 2)


def test_active_probes(sluice):
    well = threading.Event()
    well.set()

    def answer(request, _):
        if request[1] == "/healthz":
            return response(b"", status="200 OK" if well.is_set() else "500 Internal Server Error")
        return response(b"a")

    health = 'health = { path = "/healthz", every = "50ms", timeout = "2s", rise = 2, fall = 2 }\n' \
             'eject = { for = "100ms", slow_start = "0s" }'
    with Upstream(answer) as a, Upstream(lambda *_: response(b"b")) as b:
        server = sluice(gateway(a.url, b.url, upstream=health), server="cores = 2")
        wait_until(lambda: server.sample(f'sluice_upstream_probes_total{{upstream="back",server="127.0.0.1:{a.port}",result="passed"}}'))
        probe = next(request for request in a.requests if request[1] == "/healthz")
        assert probe[0] == "GET" and ("host", f"127.0.0.1:{a.port}") in probe[2]
        well.clear()
        wait_until(lambda: state(server, a.port) == "ejected")
        assert "probes failed: it answered 500" in server.log
        assert {server.get("/").body for _ in range(10)} == {b"b"}
        well.set()
        wait_until(lambda: server.get("/").body and state(server, a.port) == "up")
        wait_until(lambda: server.get("/").body == b"a")


def probed(keys):
    return f'health = {{ path = "/healthz", every = "20ms", rise = 1, fall = 1{keys} }}\neject = {{ for = "100ms" }}\n'


def test_a_probe_is_a_request_as_the_application_wants_it(sluice):
    """The application knows its own host only, and answers 200 for everything that it finds."""
    def answer(request, _):
        method, target, fields, _ = request
        if target != "/healthz":
            return response(b"a")
        if method != "GET" or dict(fields).get("host") != "app.example" or dict(fields).get("x-probe") != "yes":
            return response(b"ok", status="400 Bad Request")
        return response(b"database: " + state_of[0])

    state_of = [b"down"]
    with Upstream(answer) as other, Upstream(answer) as back:
        keys = f', host = "app.example", fields = {{ X-Probe = "yes" }}, body = "database: up", port = {other.port}'
        server = sluice(gateway(back.url, upstream=probed(keys)))
        wait_until(lambda: state(server, back.port) == "ejected")
        assert 'probes failed: its answer does not contain "database: up"' in server.log
        state_of[0] = b"up"
        wait_until(lambda: server.get("/").body == b"a")
        assert other.requests and {request[1] for request in back.requests} == {"/"}
    with Upstream(lambda request, _: response(b"") if request[0] == "HEAD" else None) as back:
        server = sluice(gateway(back.url, upstream=probed(', method = "HEAD"')))
        wait_until(lambda: passed_probes(server, back))
        assert {request[0] for request in back.requests} == {"HEAD"}


def passed_probes(server, back):
    return server.sample(f'sluice_upstream_probes_total{{upstream="back",server="{back.name}",result="passed"}}')


@pytest.mark.parametrize("route, host", [('host = "app.example"', "app.example"),
                                         ('host = "app.example"\npreserve_host = false', None),
                                         ('host = "*.app.example"', None), ("", None)])
def test_a_probe_has_the_host_of_the_requests(sluice, route, host):
    with Upstream(lambda *_: response(b"")) as back:
        server = sluice(gateway(back.url, upstream=probed(""), route=route))
        wait_until(lambda: passed_probes(server, back))
        assert {dict(request[2])["host"] for request in back.requests} == {host or f"127.0.0.1:{back.port}"}


def test_probes_that_only_connect(sluice):
    port = free_port()
    with named("b") as b:
        health = 'health = { every = "50ms", fall = 2, rise = 1 }\neject = { for = "100ms", slow_start = "0s" }'
        server = sluice(gateway(f"http://127.0.0.1:{port}", b.url, upstream=health))
        wait_until(lambda: state(server, port) == "ejected")
        assert "probes failed: it cannot be reached: Connection refused" in server.log
        with Upstream(lambda *_: response(b"a"), port):
            wait_until(lambda: server.get("/").body == b"a")
            wait_until(lambda: server.get("/").body and state(server, port) == "up")


def test_without_a_server_requests_are_refused_at_once(sluice):
    health = 'health = { path = "/healthz", every = "100ms", fall = 2, rise = 12 }\neject = { for = "100ms" }'
    port = free_port()
    back = Upstream(lambda *_: response(b"a"), port)
    server = sluice(gateway(back.url, upstream=health), server="cores = 2")
    assert server.get("/").body == b"a"
    back.close()
    wait_until(lambda: state(server, port) == "ejected" and server.get("/").status == 503)
    failures = of_server(server, "connection_failures_total", port)
    for method in ("GET", "POST"):
        answer = server.get("/", method=method)
        assert (answer.status, answer.media_type) == (503, "application/problem+json") and b"available" in answer.body
        assert answer.get("retry-after") == "2", "12 probes take 1.2 s"
    assert of_server(server, "connection_failures_total", port) == failures
    with Upstream(lambda *_: response(b"b"), port) as back:
        # Until then only probes reach it. They need not wait for the end of the ejection.
        wait_until(lambda: server.get("/").body == b"b")
        assert sum(request[1] == "/healthz" for request in back.requests) >= 12
        wait_until(lambda: server.get("/").body == b"b" and state(server, port) == "up")


@pytest.mark.parametrize("balance", ['"round-robin"', '"least"', '"hash"\nhash = "path"'])
def test_a_backup_gets_requests_only_while_no_other_server_is_up(sluice, balance):
    port = free_port()
    first = Upstream(lambda *_: response(b"a"), port)
    with named("backup") as backup:
        entries = [f'{{ url = "{backup.url}", backup = true }}', f'"{first.url}"']
        server = sluice(upstream_of(entries, f'balance = {balance}\n'
                                    'eject = { after = 3, for = "500ms", slow_start = "0s" }'), server="cores = 2")
        assert {server.get(f"/{i}").body for i in range(20)} == {b"a"}
        first.close()
        # Until the server is ejected, each request is tried at it, and then sent to the backup.
        wait_until(lambda: server.get("/").body == b"backup" and state(server, port) == "ejected")
        with Upstream(lambda *_: response(b"a"), port):
            wait_until(lambda: server.get("/").body and state(server, port) == "up")
            wait_until(lambda: server.get("/").body == b"a")
            count = len(backup.requests)
            assert {server.get(f"/{i}").body for i in range(20)} == {b"a"}
            assert len(backup.requests) == count


def test_readiness_without_a_server(sluice):
    health = 'health = { every = "50ms", fall = 2, rise = 1 }\neject = { for = "100ms" }'
    ports = free_port(), free_port()
    first = Upstream(lambda *_: response(b"a"), ports[0])
    with named("b") as b:
        needed = f'[[upstream]]\nname = "needed"\nservers = ["http://127.0.0.1:{ports[1]}", "{b.url}"]\nrequired = true\n'
        server = sluice(gateway(first.url, upstream=health) + needed + health, server="cores = 2")
        wait_until(lambda: state(server, ports[1], "needed") == "ejected")
        assert server.admin("/readyz") == (200, "ready\n")
        first.close()
        wait_until(lambda: server.admin("/readyz") == (200, 'ready\nThe upstream "back" has no available server.\n'))
    wait_until(lambda: server.admin("/readyz")[0] == 503)
    assert server.admin("/readyz")[1].count("has no available server.") == 2
    with Upstream(lambda *_: response(b"c"), ports[1]):
        wait_until(lambda: server.admin("/readyz")[0] == 200)
    wait_until(lambda: server.admin("/readyz")[0] == 503)
    # A reload that no longer requires it keeps the state.
    server.file.write_text(server.file.read_text().replace("required = true", ""))
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: server.admin("/readyz")[0] == 200)
    assert server.admin("/readyz")[1].count("has no available server.") == 2


def test_a_server_that_hangs_is_ejected(sluice):
    ends = threading.Event()

    def hang(*_):
        ends.wait(30)

    with Upstream(hang) as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream='response_timeout = "100ms"\neject = { after = 2, for = "1m" }\nretries = 0'),
                        server="cores = 1")
        statuses = []
        while state(server, a.port) != "ejected":
            statuses.append(server.get("/").status)
        assert set(statuses) == {200, 504}
        assert {server.get("/").status for _ in range(10)} == {200}
        ends.set()


def broken(_, connection):
    connection.sendall(b"HTTP/1.1 2")


def resets(_, connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


@pytest.mark.parametrize("fault", [broken, resets])
def test_what_is_sent_to_another_server(sluice, fault):
    with Upstream(fault) as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream="eject.after = 0"), server="cores = 1")

        def ask(method, body=None, *fields):
            count = len(a.requests)
            with server.connect() as client:
                while True:  # until a gets the request
                    answer = client.call(method, "/", body, *fields) if body is not None else client.get("/", method=method)
                    if len(a.requests) > count:
                        assert len(a.requests) == count + 1
                        return answer.status

        assert ask("GET") == 200
        assert ask("DELETE") == 200
        assert ask("PUT", b"x" * 60_000) == 200
        assert b.requests[-1][3] == b"x" * 60_000
        assert ask("PUT", b"x" * 70_000) == 502
        got = len(b.requests)
        assert ask("POST", b"hello") == 502
        assert ask("PATCH", b"hello") == 502
        posts = [request for request in b.requests[got:] if request[0] in ("POST", "PATCH")]
        assert len(posts) <= 2, "those that it got at its own turn"
        assert of_server(server, "retries_total", a.port) == 3


def test_retry_on(sluice):
    with Upstream(lambda *_: response(b"full", status="503 Service Unavailable")) as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream='eject.after = 0\nretry_on = "503"'), server="cores = 1")
        with server.connect() as client:
            assert [client.get("/").status for _ in range(8)] == [200] * 8
            assert len(a.requests) == 4
            # The two requests go to one server each. A POST is not repeated, so its 503 is passed on.
            assert sorted(client.call("POST", "/", b"x").status for _ in range(2)) == [200, 503]


def test_a_request_that_another_server_answers_has_not_failed(sluice):
    port = free_port()
    with named("b") as b:
        server = sluice(gateway(f"http://127.0.0.1:{port}", b.url, upstream="eject.after = 0"), server="cores = 1")
        with server.connect() as client:
            assert [client.get("/").status for _ in range(20)] == [200] * 20
            assert "it cannot be reached" in server.log
            with Upstream(lambda *_: response(b"a"), port=port):
                wait_until(lambda: client.get("/").status == 200 and "answers again; 0 requests failed" in server.log)


def test_the_budget_of_retries(sluice):
    def fail(*_):
        return None

    with Upstream(fail) as a, Upstream(fail) as b:
        server = sluice(gateway(a.url, b.url, upstream="eject.after = 0"), server="cores = 1")
        for _ in range(60):
            assert server.get("/").status == 502
        sent = len(a.requests) + len(b.requests)
        # Ten retries, and one for each five requests after the first.
        assert 60 + 10 <= sent <= 60 + 10 + 12
        assert server.sample('sluice_upstream_retries_refused_total{upstream="back"}') == 120 - sent


def ask_all(server, requests, clients):
    """Sends GETs from several clients at the same time, and returns their statuses."""
    def ask(_):
        return [server.get("/").status for _ in range(requests // clients)]

    with ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(ask, range(clients)), [])


def test_a_budget_of_retries_bounds_a_storm(sluice):
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Upstream(lambda *_: None)) for _ in range(3)]
        options = 'eject.after = 0\nretries = { tries = 2, budget = "10%", at_least = 3 }'
        server = sluice(gateway(*(one.url for one in servers), upstream=options), server="cores = 1")
        assert ask_all(server, 240, clients=8) == [502] * 240
        retried = sum(len(one.requests) for one in servers) - 240
        assert 24 <= retried <= 24 + 3
        assert sum(of_server(server, "retries_total", one.port) for one in servers) == retried
        # Each request has ended either at the budget or after two other servers.
        assert server.sample('sluice_upstream_retries_refused_total{upstream="back"}') >= 240 - retried


def test_a_budget_of_all_requests(sluice):
    with Upstream(lambda *_: None) as a, Upstream(lambda *_: None) as b:
        options = 'eject.after = 0\nretries = { budget = "100%", at_least = 0 }'
        server = sluice(gateway(a.url, b.url, upstream=options), server="cores = 1")
        assert ask_all(server, 80, clients=8) == [502] * 80
        assert len(a.requests) == len(b.requests) == 80


def test_no_budget(sluice):
    port = free_port()
    with Upstream(lambda *_: None) as a, named("b") as b:
        options = 'eject.after = 0\nretries.budget = "0%"'
        server = sluice(gateway(a.url, b.url, upstream=options), server="cores = 1")
        assert sorted(server.get("/").status for _ in range(20)) == [200] * 10 + [502] * 10
        assert len(a.requests) == 10
    with named("b") as b:
        server = sluice(gateway(f"http://127.0.0.1:{port}", b.url, upstream=options), server="cores = 1")
        assert [server.get("/").status for _ in range(20)] == [200] * 20


def test_reload_keeps_what_stays(sluice):
    with Upstream(lambda *_: response(b"", status="503 Service Unavailable")) as a, named("b") as b, named("c") as c:
        server = sluice(gateway(a.url, b.url, upstream='eject = { after = 2, for = "5m" }'), server="cores = 1")
        with server.connect() as client:
            wait_until(lambda: client.get("/").status and state(server, a.port) == "ejected")
            requests = of_server(server, "requests_total", b.port)
            text = server.file.read_text()
            server.file.write_text(text.replace(f'"{b.url}"', f'"{c.url}", {entry(b.url, 2)}') .replace("[[route]]", "retries = 1\n[[route]]"))
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: client.get("/").body == b"c")
            assert state(server, a.port) == "ejected"
            assert {client.get("/").body for _ in range(9)} == {b"b", b"c"}
            assert b.connections == 1
            assert of_server(server, "requests_total", b.port) > requests
            # A removed server is forgotten; if it comes back, its counters start anew.
            server.file.write_text(text.replace(f'"{a.url}", ', ""))
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: state(server, a.port) is None)
            server.file.write_text(text)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: state(server, a.port) is not None)
            # Other options for connections or ejection: all counters start anew.
            server.file.write_text(text.replace("after = 2", "after = 3"))
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: of_server(server, "ejections_total", a.port) == 0 or None)


def test_a_server_that_dies_and_comes_back_under_load(sluice):
    port = free_port()
    answers = []
    stop = threading.Event()
    with named("a") as a:
        dying = Upstream(lambda *_: response(b"b"), port)
        server = sluice(gateway(a.url, dying.url, upstream='eject = { after = 2, for = "200ms", slow_start = "200ms" }'),
                        server="cores = 2")

        def load():
            with server.connect() as client:
                while not stop.is_set():
                    answers.append(client.get("/").status)

        clients = [threading.Thread(target=load) for _ in range(4)]
        for client in clients:
            client.start()
        wait_until(lambda: len(answers) > 100)
        dying.close()
        wait_until(lambda: state(server, port) == "ejected")
        with Upstream(lambda *_: response(b"b"), port) as back:
            wait_until(lambda: state(server, port) == "up")
            wait_until(lambda: len(back.requests) > 50)
            stop.set()
            for client in clients:
                client.join()
    assert set(answers) == {200}


def test_a_server_that_does_not_wait_for_a_slow_client_stays(sluice):
    def leave(listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                received = b""
                while not received.endswith(b"\r\n\r\nx") and (piece := connection.recv(65536)):
                    received += piece

    with socket.create_server(("127.0.0.1", 0)) as listener, named("b") as b:
        threading.Thread(target=leave, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        server = sluice(gateway(f"http://127.0.0.1:{port}", b.url, upstream='eject = { after = 1, at_most = "100%" }'),
                        server="cores = 1")
        for i in range(3):
            with server.connect() as client:
                client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
                wait_until(lambda: of_server(server, "requests_total", port) == i + 1 and of_server(server, "connections", port) == 0)
                client.send(b"123456789")
                assert client.read().status == 502
            assert server.get("/").body == b"b"
        assert state(server, port) == "up" and of_server(server, "ejections_total", port) == 0
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("request_text", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                                          b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"])
def test_a_server_that_leaves_while_nobody_is_slow_is_ejected(sluice, request_text):
    with Upstream(lambda *_: None) as leaves, named("b") as b:
        server = sluice(gateway(leaves.url, b.url, upstream='eject = { after = 1, for = "1m", at_most = "100%" }\nretries = 0'),
                        server="cores = 1")

        def is_ejected():
            with server.connect() as client:
                client.send(request_text)
                assert client.read().status in (200, 502)
            return state(server, leaves.port) == "ejected"
        wait_until(is_ejected)


def order(server, target, *fields):
    """A POST to the admin listener."""
    with http1.Connection(server.admin_port) as admin:
        admin.send("\r\n".join([f"POST {target} HTTP/1.1", "Host: localhost", *fields, "", ""]))
        return admin.read()


def operate(server, what, back, *fields):
    return order(server, f"/upstreams/back/{what}?server={back}", *fields)


def servers_of(server, name="back"):
    status, text = server.admin("/upstreams")
    assert status == 200
    (upstream,) = [one for one in json.loads(text)["upstreams"] if one["name"] == name]
    return {one["server"]: one for one in upstream["servers"]}


def test_an_operator_drains_a_server(sluice):
    begun, go_on = threading.Event(), threading.Event()

    def answer(request, _):
        if request[1] == "/slow":
            begun.set()
            go_on.wait(30)
        return response(b"a")

    with Upstream(answer) as a, named("b") as b:
        server = sluice(upstream_of([f'"{a.url}"']), server="cores = 2")

        def change(old, new):
            server.file.write_text(server.file.read_text().replace(old, new))
            assert order(server, "/reload").status == 200

        with server.connect() as slow, server.connect() as client:
            slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            assert begun.wait(20)
            change(f'"{a.url}"', f'"{a.url}", {entry(b.url, 2)}')
            drained = operate(server, "drain", a.name)
            assert (drained.status, drained.body) == (200, b"drained\n")
            wait_until(lambda: all(client.get("/").body == b"b" for _ in range(6)))
            for _ in range(20):  # new connections, on both cores
                assert server.get("/").body == b"b"
            shown = servers_of(server)
            assert (shown[a.name]["state"], shown[a.name]["in_flight"]) == ("drained", 1)
            assert state(server, a.port) == "drained" and state(server, b.port) == "up"
            assert (shown[b.name]["state"], shown[b.name]["weight"]) == ("up", 2)
            assert shown[b.name]["requests"] >= 26
            go_on.set()
            assert slow.read().body == b"a", "the request that it had goes on"
        # A version with other options makes a new upstream, and the server stays drained.
        change('name = "back"', 'name = "back"\nconnect_timeout = "3s"')
        for _ in range(20):
            assert server.get("/").body == b"b"
        operate(server, "drain", b.name)
        wait_until(lambda: server.get("/").status == 503)
        assert server.get("/").get("retry-after") == "1"
        assert 'The upstream "back" has no available server.' in server.admin("/readyz")[1]
        assert operate(server, "enable", a.name).body == b"enabled\n"
        wait_until(lambda: server.get("/").body == b"a")
        assert state(server, a.port) == "up"
        assert "drained" in server.log and "enabled again" in server.log


def test_what_drains_nothing(sluice):
    with named("a") as a:
        server = sluice(gateway(a.url))
        assert operate(server, "drain", "127.0.0.1:1").status == 404
        assert operate(server, "drain", a.name, "Origin: http://evil.example").status == 403
        assert operate(server, "drain", f"{a.name}&server={a.name}").status == 400
        assert order(server, f"/upstreams/other/drain?server={a.name}").status == 404
        assert order(server, "/upstreams/back/drain").status == 400
        assert server.admin(f"/upstreams/back/drain?server={a.name}")[0] == 405
        assert servers_of(server)[a.name]["state"] == "up" and server.get("/").body == b"a"


def test_the_timeout_of_a_route_ejects_nobody(sluice):
    """Neither while a server is silent, nor while the client sends its body, nor while the server accepts no connection."""
    waits = threading.Event()

    def answer(request, connection):
        if request[1] == "/begins":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
        waits.wait(60)

    with Upstream(answer) as a, named("b") as b, socket.socket() as full, contextlib.ExitStack() as clients:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):  # they fill the queue of connections that nobody accepts
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        full_url = f"http://127.0.0.1:{full.getsockname()[1]}"
        config = "".join(
            f'[[upstream]]\nname = "{name}"\nservers = ["{url}", "{b.url}"]\neject = {{ after = 1, for = "5m" }}\n'
            'retries = 0\n'
            f'[[route]]\npath = "/{name}/{{rest...}}"\nupstream = "{name}"\nstrip = "/{name}"\ntimeout = "200ms"\n'
            for name, url in (("back", a.url), ("full", full_url)))
        server = sluice(config, server='cores = 1\nbody_timeout = "5m"')
        assert sorted(server.get("/back/").status for _ in range(4)) == [200, 200, 504, 504]
        assert sorted(server.get("/full/").status for _ in range(4)) == [200, 200, 504, 504]
        cut = 0
        for _ in range(2):
            with server.connect() as client, contextlib.suppress(http1.Broken):
                cut += 1
                client.get("/back/begins")
                cut -= 1
        assert cut == 1
        for _ in range(2):
            with server.connect() as client:
                client.send("POST /back/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
                assert client.read().status == 504
        assert [state(server, one.port) for one in (a, b)] == ["up", "up"]
        assert state(server, full.getsockname()[1], "full") == "up"
        assert servers_of(server, "back")[a.name]["failures"] == 0
        assert server.log.count("a request took longer than the `timeout` of its route") >= 2
        assert "cannot be reached" not in server.log and "gave no response" not in server.log
        waits.set()
