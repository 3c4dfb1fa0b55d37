"""Servers that fail before, in and after their response: which requests another server gets, and which never a second time."""
import contextlib
import socket
import struct
import threading

import pytest

from cluster import free_port
from http1 import Broken
from http2 import Client
from test_gateway import gateway, wait_until
from test_gateway_upstream import named, of_server, operate, servers_of, state, upstream_of
from upstream import Upstream, response

HEAD = b"HTTP/1.1 200 OK\r\n"
REPEATABLE = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS")


def received(back, target):
    return sum(request[1] == target for request in back.requests)


def reset(connection):
    """Lets the end of the connection be a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def until_it_ends(connection, piece=None):
    """Sends the piece over and over, or waits, until the other side closes the connection."""
    with contextlib.suppress(OSError):
        connection.settimeout(0.02 if piece else 30)
        while True:
            try:
                if not connection.recv(65536):
                    return
            except TimeoutError:
                if piece is None:
                    return
                connection.sendall(piece)


def says(data, and_then=lambda _: None):
    def answer(_, connection):
        connection.sendall(data)
        and_then(connection)
    return answer


# Before the header is complete: the status that a client gets if no other server may get the request.
NO_HEAD = {
    "closes": (says(b""), 502),
    "resets": (says(b"", reset), 502),
    "closes in its status line": (says(b"HTTP/1.1 20"), 502),
    "closes in its header": (says(HEAD + b"Content-Length: 5\r\nX-Half"), 502),
    "resets in its header": (says(HEAD + b"Content-Length: 5\r\n", reset), 502),
    "closes behind an interim response": (says(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), 502),
    "closes behind 200 interim responses": (says(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 200), 502),
    "speaks another protocol": (says(b"220 mail.example ESMTP\r\n"), 502),
    "sends bytes": (says(bytes(range(256)) * 4), 502),
    "sends a request": (says(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 502),
    "sends a status of two digits": (says(b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"), 502),
    "speaks HTTP/2": (says(b"\0\0\0\4\0\0\0\0\0"), 502),
    "sends two lengths": (says(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 502),
    "sends a negative length": (says(HEAD + b"Content-Length: -1\r\n\r\n"), 502),
    "sends two lengths beside chunks": (
        says(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 502),
    "sends a null in its header": (says(HEAD + b"X: a\0b\r\nContent-Length: 0\r\n\r\n"), 502),
    "sends too many fields": (says(HEAD + b"X: y\r\n" * 300 + b"Content-Length: 0\r\n\r\n"), 502),
    "sends too long a field": (says(HEAD + b"X: " + b"y" * 40_000 + b"\r\n\r\n"), 502),
    "changes the protocol": (says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n"), 502),
    "is silent": (says(b"", until_it_ends), 504),
    "is silent in its header": (says(HEAD + b"Content-Length: 5\r\n", until_it_ends), 504),
    "sends its header byte by byte": (says(HEAD + b"X: ", lambda connection: until_it_ends(connection, b"y")), 504),
    "sends interim responses without end": (
        says(b"", lambda connection: until_it_ends(connection, b"HTTP/1.1 103 Early Hints\r\n\r\n")), 504),
}


@pytest.mark.parametrize("methods", [REPEATABLE, ("POST", "PATCH")], ids=["repeatable", "POST"])
@pytest.mark.parametrize("fault", NO_HEAD)
def test_a_server_that_fails_before_its_header_is_complete(sluice, fault, methods):
    answer, status = NO_HEAD[fault]
    late, methods = ('response_timeout = "1s"\n', methods[:1]) if status == 504 else ("", methods)
    is_repeatable = methods[0] in REPEATABLE
    with Upstream(answer) as ill, named("well") as well:
        server = sluice(gateway(ill.url, well.url, upstream=late + "eject.after = 0"), server="cores = 1")
        hit = 0
        for method in methods:
            for target in (f"/{method}/1", f"/{method}/2"):
                with server.connect() as client:
                    got = client.call(method, target, b"hello" if method in ("PUT", "POST", "PATCH") else None)
                    while got.status < 200:  # interim responses of the server that then fails
                        got = client.read(head=method == "HEAD")
                times = received(ill, target), received(well, target)
                assert times in ((0, 1), (1, 1) if is_repeatable else (1, 0)), method
                assert got.status == (200 if times[1] else status)
                hit += times[0]
        assert hit > 0
        assert of_server(server, "failures_total", ill.port) == hit
        assert of_server(server, "retries_total", ill.port) == (hit if is_repeatable else 0)
        assert of_server(server, "failures_total", well.port) == 0


# After the header: the bytes that the server sends at once, and its reaction when the client has received them.
IN_THE_BODY = {
    "closes": (b"Content-Length: 10\r\n\r\nhalf", says(b"")),
    "closes long before its end": (b"Content-Length: 99999999999999999999\r\n\r\nhalf", says(b"")),
    "resets": (b"Content-Length: 10\r\n\r\nhalf", says(b"", reset)),
    "is silent": (b"Content-Length: 10\r\n\r\nhalf", says(b"", until_it_ends)),
    "closes between chunks": (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", says(b"")),
    "closes in a chunk": (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", says(b"8\r\nhalf")),
    "closes in a chunk's size": (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", says(b"8")),
    "closes in its trailers": (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", says(b"0\r\nX: a")),
    "resets between chunks": (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", says(b"", reset)),
    "is silent between chunks": (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", says(b"", until_it_ends)),
    "sends a chunk without a size": (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", says(b"none\r\n")),
    "sends a chunk that is too long": (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", says(b"fffffffffffffffff\r\na")),
    "sends more than the chunk's size": (b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", says(b"2\r\nmore\r\n0\r\n\r\n")),
    "resets without a length": (b"\r\nhalf", says(b"", reset)),
}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("fault", IN_THE_BODY)
def test_a_server_that_fails_in_its_body(sluice, fault, method):
    begin, go_on = IN_THE_BODY[fault]
    seen = threading.Event()

    def answer(request, connection):
        connection.sendall(HEAD + begin)
        assert seen.wait(30)
        return go_on(request, connection)

    late = 'idle_timeout = "500ms"\n' if "silent" in fault else ""
    with Upstream(answer) as ill, named("well") as well:
        server = sluice(gateway(ill.url, well.url, upstream=late + 'eject = { after = 1, for = "5m" }'), server="cores = 1")
        with server.connect() as client:
            client.send(f"{method} /cut HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nhi")
            head = client._until(b"half")
            assert head.startswith(b"HTTP/1.1 200 ")
            seen.set()
            with contextlib.suppress(Broken):
                rest = client.rest()
                assert b"0\r\n" not in rest and b"HTTP/1.1" not in rest, "the client sees that it is cut"
        # No server gets it again. It counts as a failure, but does not eject the server.
        wait_until(lambda: of_server(server, "failures_total", ill.port) == 1)
        assert (received(ill, "/cut"), received(well, "/cut")) == (1, 0)
        assert f"{ill.name}: its response broke off: " in server.log
        assert state(server, ill.port) == "up"
        assert server.get("/").body == b"well"


@pytest.mark.parametrize("fault", ["closes", "resets between chunks", "sends a chunk without a size"])
def test_a_stream_is_reset_if_the_body_breaks_off(sluice, fault):
    begin, go_on = IN_THE_BODY[fault]
    seen = threading.Event()

    def answer(request, connection):
        connection.sendall(HEAD + begin)
        assert seen.wait(30)
        return go_on(request, connection)

    with Upstream(answer) as ill, named("well") as well:
        server = sluice(gateway(ill.url, well.url), server="cores = 1")
        with Client(server.port) as client:
            cut = client.request("/cut")
            while client.answers[cut].body != b"half":
                assert client.hear()
            seen.set()
            client.wait(cut)
            assert client.answers[cut].reset is not None and not client.answers[cut].ended
            other = client.request("/")
            assert client.wait(other)[0].body == b"well", "the connection goes on"


@contextlib.contextmanager
def refuses():
    yield f"http://127.0.0.1:{free_port()}"


@contextlib.contextmanager
def accepts_nothing():
    with socket.socket() as full, contextlib.ExitStack() as clients:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):  # they fill the queue
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        yield f"http://127.0.0.1:{full.getsockname()[1]}"


@contextlib.contextmanager
def has_no_address():
    yield "http://nowhere.invalid"


@contextlib.contextmanager
def has_no_socket():
    yield "unix:/nowhere/to/be/found.sock"


def without_tls(answer):
    @contextlib.contextmanager
    def server():
        def serve(listener):
            with contextlib.suppress(OSError):
                while True:
                    with listener.accept()[0] as connection:
                        connection.recv(65536)
                        answer(connection)

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=serve, args=(listener,))
            thread.start()
            yield f"https://127.0.0.1:{listener.getsockname()[1]}"
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
    return server


UNREACHABLE = {
    "refuses": refuses, "accepts nothing": accepts_nothing, "has no address": has_no_address, "has no socket": has_no_socket,
    "closes in the handshake": without_tls(lambda connection: None), "resets in the handshake": without_tls(reset),
    "answers a handshake in the clear": without_tls(lambda connection: connection.sendall(response(b"", status="400 Bad Request"))),
    "is silent in the handshake": without_tls(until_it_ends)}


@pytest.mark.parametrize("fault", UNREACHABLE)
def test_a_server_that_cannot_be_connected_to(sluice, fault):
    """Another server gets every request, whatever its method."""
    late = 'connect_timeout = "1s"\n' if "nothing" in fault or "silent" in fault else ""
    with UNREACHABLE[fault]() as url, named("well") as well:
        server = sluice(gateway(url, well.url, upstream=late + 'eject = { after = 2, for = "5m" }'), server="cores = 1")
        for target, method in enumerate((*REPEATABLE, "POST", "PATCH", "POST")):
            with server.connect() as client:
                assert client.call(method, f"/{target}", None if method in ("GET", "HEAD") else b"hello").status == 200
        assert [received(well, f"/{target}") for target in range(8)] == [1] * 8

        def ill():
            (one,) = [one for name, one in servers_of(server).items() if name != well.name]
            return one

        wait_until(lambda: ill()["state"] == "ejected")
        assert ill()["failures"] >= 2 and ill()["requests"] == 0


@pytest.mark.parametrize("fault", ["refuses", "accepts nothing", "has no address", "has no socket", "closes in the handshake"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_server_can_be_connected_to(sluice, fault, method):
    late = "nothing" in fault
    with UNREACHABLE[fault]() as url, refuses() as other:
        server = sluice(gateway(other, url, upstream='connect_timeout = "300ms"' if late else ""), server="cores = 1")
        statuses = {server.get("/", method=method).status for _ in range(2)}
        assert statuses <= ({502, 504} if late else {502})
        assert server.admin("/readyz")[0] == 200, "without probes nobody knows whether they would answer now"


def test_connects_that_fail_are_outside_of_the_budget(sluice):
    with refuses() as url, named("well") as well:
        server = sluice(gateway(url, well.url, upstream="eject.after = 0"), server="cores = 1")
        with server.connect() as client:
            assert {client.get("/", method=method).status for _ in range(30) for method in ("GET", "POST")} == {200}
        assert server.sample('sluice_upstream_retries_refused_total{upstream="back"}') == 0


@pytest.mark.parametrize("fault", ["closes", "resets in its header", "speaks another protocol", "503"])
def test_a_storm_of_retries_is_bounded(sluice, fault):
    requests, clients, cores = 10, 8, 2
    answer = NO_HEAD[fault][0] if fault in NO_HEAD else lambda *_: response(b"", status="503 Service Unavailable")
    with Upstream(answer) as a, Upstream(answer) as b:
        server = sluice(gateway(a.url, b.url, upstream='eject.after = 0\nretry_on = "503"'), server=f"cores = {cores}")
        statuses = []

        def ask(method):
            for _ in range(requests):
                with server.connect() as client:
                    statuses.append(client.get("/", method=method).status)

        def storm(method):
            """How many requests the servers get."""
            before = len(a.requests) + len(b.requests)
            threads = [threading.Thread(target=ask, args=(method,)) for _ in range(clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return len(a.requests) + len(b.requests) - before

        count = requests * clients
        assert storm("POST") == count, "never twice"
        assert count < storm("GET") <= count + count / 5 + 10 * cores
        assert storm("GET") <= count + count / 5 + 10 * cores
        assert len(statuses) == 3 * count and set(statuses) == {503 if fault == "503" else 502}
        assert server.sample('sluice_upstream_retries_refused_total{upstream="back"}') > 0


@pytest.mark.parametrize("ending", [says(b""), says(b"", reset)], ids=["closes", "resets"])
def test_a_kept_connection_that_ends_with_the_next_request(sluice, ending):
    """The server gets a GET again, over a new connection, but no POST."""
    used = set()

    def answer(request, connection):
        if connection in used:
            return ending(request, connection)
        used.add(connection)
        return response(b"ok")

    with Upstream(answer) as back:
        server = sluice(gateway(back.url), server="cores = 1")
        for target in ("/1", "/2", "/3"):
            assert server.get(target).status == 200
        assert [received(back, target) for target in ("/1", "/2", "/3")] == [1, 2, 2]
        assert server.get("/post", method="POST").status == 502
        assert received(back, "/post") == 1
        assert server.get("/again", method="POST").status == 200


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 421, 425, 429, 431, 451, 500, 501, 505])
def test_statuses_that_eject_nobody(sluice, status):
    """They are answers, and the client gets them."""
    with Upstream(lambda *_: response(b"no", status=f"{status} No")) as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream='eject = { after = 1, for = "5m" }'), server="cores = 1")
        with server.connect() as client:
            for method in ("GET", "POST"):
                assert [client.get("/", method=method).status for _ in range(6)] == [status, 200] * 3
        assert len(a.requests) == len(b.requests) == 6
        assert servers_of(server)[a.name]["failures"] == 0 and state(server, a.port) == "up"


@pytest.mark.parametrize("status", [502, 503, 504])
def test_statuses_that_eject(sluice, status):
    with Upstream(lambda *_: response(b"no", status=f"{status} No")) as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream='eject = { after = 2, for = "5m" }'), server="cores = 1")
        wait_until(lambda: server.get("/").status and state(server, a.port) == "ejected")
        count = len(a.requests)
        assert [server.get("/", method=method).body for method in ("GET", "POST") * 5] == [b"b"] * 10
        assert len(a.requests) == count >= 2


LIMITS = {
    "rate-limit": ('rate = "1/h"\nburst = 1', 429),
    "body-limit": ('size = "1B"', 413),
    "ip": ('deny = ["127.0.0.0/8"]', 403),
    "jwt": ('secret = "a secret of this test, 32 bytes or more"', 401),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_limits_of_the_gateway_eject_nobody(sluice, kind):
    options, status = LIMITS[kind]
    with named("a") as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream='eject = { after = 1, for = "5m", status = "500-599" }',
                                route='use = ["limit"]', more=f'[policy.limit]\ntype = "{kind}"\n{options}\n'), server="cores = 1")

        def ask():
            with server.connect() as client:
                return client.call("POST", "/", b"hello").status
        assert [ask() for _ in range(6)][-5:] == [status] * 5
        assert [one["failures"] for one in servers_of(server).values()] == [0, 0]
        assert state(server, a.port) == state(server, b.port) == "up"


def test_clients_that_leave_eject_nobody(sluice):
    def answer(request, connection):
        until_it_ends(connection)

    with Upstream(answer) as a, Upstream(answer) as b:
        server = sluice(gateway(a.url, b.url, upstream='eject = { after = 1, for = "5m" }'), server="cores = 1")
        for count in range(1, 7):
            with server.connect() as client:
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                wait_until(lambda: len(a.requests) + len(b.requests) == count)
            wait_until(lambda: [one["in_flight"] for one in servers_of(server).values()] == [0, 0])
        assert [one["failures"] for one in servers_of(server).values()] == [0, 0]
        assert state(server, a.port) == state(server, b.port) == "up"


PROBES = {
    "closes": says(b""), "resets": says(b"", reset), "speaks another protocol": says(b"220 mail.example ESMTP\r\n"),
    "closes in its header": says(HEAD + b"X-Half"), "is silent": says(b"", until_it_ends),
    "sends its header byte by byte": says(HEAD + b"X: ", lambda connection: until_it_ends(connection, b"y")),
    "answers 404": lambda *_: response(b"", status="404 Not Found"), "answers 503": lambda *_: response(b"", status="503 No"),
}


@pytest.mark.parametrize("fault", PROBES)
def test_probes_that_fail_eject_a_server_and_those_that_pass_return_it(sluice, fault):
    """The server answers requests all the time."""
    ill = threading.Event()
    ill.set()

    def answer(request, connection):
        return PROBES[fault](request, connection) if request[1] == "/healthz" and ill.is_set() else response(b"a")

    health = 'health = { path = "/healthz", every = "100ms", timeout = "1s", rise = 2, fall = 2 }\n' \
             'eject = { for = "100ms", slow_start = "0s" }'
    with Upstream(answer) as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream=health), server="cores = 2")
        wait_until(lambda: state(server, a.port) == "ejected")
        assert f"{a.name}: ejected" in server.log and "probes failed" in server.log
        assert [server.get("/", method=method).body for method in ("GET", "POST") * 5] == [b"b"] * 10
        ill.clear()
        wait_until(lambda: server.get("/").body == b"a")
        wait_until(lambda: server.get("/").status == 200 and state(server, a.port) == "up")


def test_a_server_goes_through_all_states(sluice):
    """`/metrics` and `GET /upstreams` show each of them."""
    ill, tried, go_on = threading.Event(), threading.Event(), threading.Event()
    ill.set()

    def answer(*_):
        if ill.is_set():
            return response(b"", status="503 Service Unavailable")
        tried.set()
        assert go_on.wait(30)
        return response(b"a")

    with Upstream(answer) as a, named("b") as b:
        server = sluice(gateway(a.url, b.url, upstream='eject = { after = 2, for = "500ms", slow_start = "5m" }'),
                        server="cores = 2")

        def shows(expected):
            return state(server, a.port) == servers_of(server)[a.name]["state"] == expected

        assert shows("up")
        wait_until(lambda: server.get("/").status and shows("ejected"))
        ill.clear()
        count, bodies = len(a.requests), []

        def ask():
            while not go_on.is_set():
                bodies.append(server.get("/").body)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert tried.wait(20)
        wait_until(lambda: shows("probing"))
        before = len(bodies)
        wait_until(lambda: len(bodies) > before + 50)
        assert len(a.requests) == count + 1, "a single request tries the server"
        go_on.set()
        for thread in threads:
            thread.join()
        wait_until(lambda: shows("slow_start"))
        # A tenth of its share for half a minute: about one of eleven requests.
        assert 0 < [server.get("/").body for _ in range(100)].count(b"a") < 30
        assert operate(server, "drain", a.name).status == 200
        assert servers_of(server)[a.name]["state"] == "drained"
        wait_until(lambda: {server.get("/").body for _ in range(20)} == {b"b"})
        operate(server, "enable", a.name)
        wait_until(lambda: shows("slow_start"))


@pytest.mark.parametrize("fault", ["closes", "is silent"])
def test_a_backup_gets_what_the_last_server_fails_to_answer(sluice, fault):
    late = 'response_timeout = "1s"\n' if "silent" in fault else ""
    with Upstream(NO_HEAD[fault][0]) as ill, named("backup") as backup:
        server = sluice(upstream_of([f'"{ill.url}"', f'{{ url = "{backup.url}", backup = true }}'], late + "eject.after = 0"),
                        server="cores = 1")
        for target in ("/1", "/2"):
            assert server.get(target).body == b"backup"
            assert (received(ill, target), received(backup, target)) == (1, 1)
        assert server.get("/post", method="POST").status == (504 if late else 502)
        assert (received(ill, "/post"), received(backup, "/post")) == (1, 0)


def test_a_unix_socket_that_goes_and_comes_again(sluice, tmp_path):
    path = tmp_path / "back.sock"
    with Upstream(lambda *_: response(b"one"), path=path) as one:
        server = sluice(gateway(one.url), server="cores = 1")
        assert server.get("/").body == b"one"
    assert server.get("/").status == 502
    with Upstream(lambda *_: response(b"two"), path=path):
        assert server.get("/").body == b"two"
        assert server.get("/", method="POST").body == b"two"


def test_a_server_that_is_replaced_on_its_port(sluice):
    """For example, a new version of a program: connections to the old one end, and the new one gets every request."""
    port = free_port()
    server = None
    for name in (b"1", b"2", b"3"):
        with Upstream(lambda *_, name=name: response(name), port) as back:
            server = server or sluice(gateway(back.url), server="cores = 1")
            with server.connect() as client:
                assert [client.get("/", method=method).body for method in ("GET", "POST", "GET")] == [name] * 3
            assert back.connections == 1
