"""[server] body_memory: how much request bodies may hold, which requests are refused or cut beyond it, and its metrics."""
import json
import re
import select
import socket
import time

import h2.settings
import http2
import pytest
from conftest import database_with
from http1 import Broken, Connection
from websocket import BINARY, CLOSE, CONTINUATION, PING, WebSocket, WebSocketOverHttp2

LIMIT = 4 << 20  # so one connection may hold 1 MiB
SHARE = LIMIT // 4
STREAM = 14_000  # the most that a stream takes besides its body and long headers
REFUSED_STREAM = 7
PATIENCE = 60
CONFIG = '''
[database.main]
url = "sqlite:{file}"
[store.files]
path = "files"
limit = "4MiB"
[[endpoint]]
path = "/numbers/{{n:int}}"
returns = "object"
get = "SELECT n, text FROM numbers WHERE n = :n"
[[endpoint]]
path = "/row"
get = "SELECT hex(zeroblob(100000)) AS text"
[[endpoint]]
path = "/echoed"
post = "INSERT INTO numbers (n, text) VALUES (:n, 'x') RETURNING n, hex(zeroblob(100000)) AS text"
[[endpoint]]
path = "/texts"
post = "INSERT INTO numbers (n, text) VALUES (:n, :text)"
[[endpoint]]
path = "/long"
body_limit = "3MiB"
row_limit = "3MiB"
post = "INSERT INTO numbers (n, text) VALUES (:n, :text)"
[[endpoint]]
path = "/set"
get = "SELECT n, text FROM numbers WHERE n > 100000"
[endpoint.put]
table = "numbers"
existing = "SELECT n, text FROM numbers WHERE n > 100000"
columns.n = {{ key = true }}
columns.text = {{}}
[[endpoint]]
path = "/upload"
post = "INSERT INTO numbers (n, text) VALUES (:n, :file || :text)"
params.file = {{ from = "upload.file", store = "files" }}
[batch]
path = "/batch"
[compression]
codings = ["gzip"]
[[websocket]]
path = "/echo"
handler = "echo"
'''


@pytest.fixture
def server(sluice, small_sqlite, tmp_path):
    (tmp_path / "files").mkdir()
    return sluice(CONFIG.format(file=small_sqlite), server=f'cores = 1\nbody_memory = "4MiB"\nbody_timeout = "{PATIENCE}s"')


def reading(server, name):
    return int(re.search(rf"^{name} (\d+)", server.admin("/metrics")[1], re.M).group(1))


def wait_for(server, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, server.admin("/metrics")[1]
        time.sleep(0.02)


def begin(server, path, body, length=1_000_000, method="POST", kind="application/json"):
    """Sends only the beginning of a request's body."""
    connection = Connection(server.port)
    connection.send(f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n".encode() + body)
    return connection


def is_refused(connection):
    answer = connection.read()
    assert (answer.status, answer.get("Retry-After")) == (503, "1")
    connection.close()


def row(size):
    return b'{"n":100001,"text":"' + b"x" * size


def test_unfinished_bodies_have_a_bound_and_the_stillest_goes_first(server):
    assert reading(server, "sluice_body_bytes_max") == LIMIT
    held = [begin(server, "/texts", row(300_000)) for _ in range(12)]
    wait_for(server, lambda: reading(server, "sluice_bodies_refused_total") >= 4)
    assert 600_000 < reading(server, "sluice_body_bytes") <= LIMIT
    assert reading(server, "sluice_bodies_cut_total") == 0
    assert server.get("/numbers/7").status == 200
    # The held bodies make no progress, so a body that does may have their memory.
    statuses = []

    def goes_through():
        with server.connect() as connection:
            statuses.append(connection.call("POST", "/texts", row(400_000) + b'"}', "Content-Type: application/json").status)
        return statuses[-1] != 503

    wait_for(server, goes_through)
    assert statuses[-1] == 201
    cut = reading(server, "sluice_bodies_cut_total")
    assert cut >= 1
    refused = 0
    for connection in held:
        connection.socket.setblocking(False)
        try:
            is_there = connection.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            continue
        finally:
            connection.socket.setblocking(True)
        assert is_there
        is_refused(connection)
        refused += 1
    assert refused >= 4 + cut
    for connection in held:
        connection.close()
    wait_for(server, lambda: reading(server, "sluice_body_bytes") == 0)


def test_one_connection_of_http2_has_its_share(server):
    with http2.Client(server.port) as client:
        # Sends as much of each body as the windows allow; none of them ends.
        streams = []
        for _ in range(16):
            stream = client.connection.get_next_available_stream_id()
            client.answers[stream] = http2.Answer()
            client.connection.send_headers(stream, [(":method", "POST"), (":scheme", "http"), (":authority", "test"), (":path", "/texts"),
                                                    ("content-type", "application/json")])
            for piece in range(13):
                while client.connection.local_flow_control_window(stream) < 16_000:
                    assert client.hear()
                client.connection.send_data(stream, row(0) + b"x" * 15_000 if piece == 0 else b"x" * 16_000)
                client.flush()
                if client.answers[stream].fields:
                    break
            streams.append(stream)
        wait_for(server, lambda: reading(server, "sluice_bodies_refused_total") >= 1)
        assert reading(server, "sluice_body_bytes") <= SHARE + 16 * STREAM
        with server.connect() as other:
            assert other.call("POST", "/texts", row(400_000) + b'"}', "Content-Type: application/json").status == 201
        while not any(client.answers[stream].fields for stream in streams):
            assert client.hear()
        refused = [answer for answer in client.answers.values() if answer.fields]
        assert all((answer.status, answer.fields["retry-after"]) == (503, "1") for answer in refused)
    wait_for(server, lambda: reading(server, "sluice_body_bytes") == 0)


def websockets_of_one_each(server, count):
    return [WebSocket(server.port) for _ in range(count)]


def websockets_of_one_connection(server, count):
    first = WebSocketOverHttp2(server.port)
    return [first] + [WebSocketOverHttp2(server.port, beside=first) for _ in range(count - 1)]


@pytest.mark.parametrize("open_all, limit", [(websockets_of_one_each, LIMIT), (websockets_of_one_connection, SHARE + 10 * STREAM)])
def test_unfinished_messages_of_websockets_are_bounded_too(server, open_all, limit):
    sockets = open_all(server, 10)
    refused = 0
    for client in sockets:
        try:
            client.say(BINARY, bytes(700_000), fin=False)
            client.say(PING, b"has it come?")
            got = client.frame()
        except (Broken, OSError):  # the server refused it while it was being sent
            refused += 1
            continue
        if got.opcode == CLOSE:
            assert got.code == 1013
            refused += 1
        assert reading(server, "sluice_body_bytes") <= limit
    assert 0 < refused < 10
    assert reading(server, "sluice_bodies_refused_total") + reading(server, "sluice_bodies_cut_total") >= refused
    with WebSocket(server.port) as other:
        other.say(BINARY, b"short")
        assert other.frame().payload == b"short"
    for client in sockets:
        client.close()
    wait_for(server, lambda: reading(server, "sluice_body_bytes") == 0)


def first_reset(connections):
    """The error code of the first RST_STREAM on any of the connections."""
    while True:
        ready = select.select([connection.socket for connection in connections], [], [], PATIENCE)[0]
        assert ready
        for connection in connections:
            if connection.socket in ready:
                connection.buffer += connection.socket.recv(1 << 16)
                for kind, _, _, payload in connection.frames():
                    if kind == http2.RST_STREAM:
                        return int.from_bytes(payload, "big")


def test_streams_of_which_only_the_header_has_come_have_a_bound(server):
    head = http2.header_block("/texts", method=b"\x83") + b"\x0f\x10\x10application/json"
    data = http2.PREFACE + http2.frame(http2.SETTINGS)
    data += b"".join(http2.frame(http2.HEADERS, http2.END_HEADERS, 2 * i + 1, head) for i in range(100))
    held = [http2.Raw(server.port) for _ in range(8)]
    for connection in held:
        connection.send(data)
    wait_for(server, lambda: reading(server, "sluice_bodies_refused_total") >= 1)
    assert LIMIT // 2 < reading(server, "sluice_body_bytes") <= LIMIT
    assert first_reset(held) == REFUSED_STREAM
    assert server.get("/numbers/7").status == 200
    # The held streams make no progress; those idle for longest make room for others.
    answers = []

    def goes_through():
        with http2.Client(server.port) as client:
            answers.append(client.get("/numbers/7"))
        return answers[-1].reset != REFUSED_STREAM

    wait_for(server, goes_through)
    assert answers[-1].status == 200
    assert reading(server, "sluice_bodies_cut_total") >= 1
    for connection in held:
        connection.socket.close()
    wait_for(server, lambda: reading(server, "sluice_body_bytes") == 0)


def unread(server, path, method="GET", fields=(), body=lambda i: None):
    """Eight connections with forty requests each, which read none of the answers' bodies."""
    clients = []
    for connection in range(8):
        client = http2.Client(server.port)
        client.connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        client.flush()
        for i in range(40):
            client.request(path, method, fields, body(40 * connection + i))
            while any(not answer.fields and answer.reset is None for answer in client.answers.values()):
                assert client.hear()
            assert reading(server, "sluice_body_bytes") <= LIMIT
        clients.append(client)
    return clients


@pytest.mark.parametrize("fields", [(), (("accept-encoding", "gzip"),)], ids=["plain", "gzip"])
def test_answers_that_nobody_takes_are_bounded_and_come_back(server, fields):
    clients = unread(server, "/row", fields=fields)
    statuses = [answer.status for client in clients for answer in client.answers.values()]
    assert 503 in statuses and 200 in statuses
    assert reading(server, "sluice_bodies_refused_total") > 0
    assert server.get("/numbers/7").status == 200
    # Their answers make no progress, so others get the memory.
    wait_for(server, lambda: server.get("/row").status == 200)
    with http2.Client(server.port) as other:
        wait_for(server, lambda: other.get("/row").status == 200)
    assert reading(server, "sluice_bodies_cut_total") > 0
    for client in clients:
        client.socket.close()
    wait_for(server, lambda: reading(server, "sluice_body_bytes") == 0)


def test_answers_of_writes_that_nobody_takes_are_bounded(server):
    kind = (("content-type", "application/json"),)
    clients = unread(server, "/echoed", "POST", kind, lambda i: b'{"n":%d}' % (200_000 + i))
    answers = [answer for client in clients for answer in client.answers.values()]
    assert {answer.status for answer in answers if answer.reset is None} == {201, 500}
    # The write was carried out, so the client must not be told to send it again.
    assert all("retry-after" not in answer.fields for answer in answers if answer.status == 500)
    for client in clients:
        client.socket.close()
    wait_for(server, lambda: reading(server, "sluice_body_bytes") == 0)


def test_a_body_that_needs_more_than_a_connection_may_have_is_413(server):
    with server.connect() as connection:
        answer = connection.call("POST", "/long", row(1_500_000) + b'"}', "Content-Type: application/json")
        assert (answer.status, answer.get("Retry-After")) == (413, None)
    assert server.get("/numbers/7").status == 200


FORM = b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\n' + b"x" * 300_000


@pytest.mark.parametrize("path, body, method, kind", [
    ("/texts", row(300_000), "POST", "application/json"),
    ("/set", b"[" + row(300_000), "PUT", "application/json"),
    ("/set", b'n,text\r\n100001,"' + b"x" * 300_000, "PUT", "text/csv"),
    ("/upload", FORM, "POST", "multipart/form-data; boundary=b"),
    ("/batch", b'[{"method":"POST","path":"/texts","body":' + row(300_000), "POST", "application/json"),
], ids=["statement", "set of json", "set of csv", "form", "batch"])
def test_whoever_keeps_a_body_counts_it(server, path, body, method, kind):
    with begin(server, path, body, method=method, kind=kind):
        wait_for(server, lambda: reading(server, "sluice_body_bytes") >= 300_000)
    wait_for(server, lambda: reading(server, "sluice_body_bytes") == 0)


@pytest.mark.parametrize("short_table", ["sqlite", "postgres"], indirect=True)
def test_many_short_rows(sluice, short_table):
    """Answers without rows take no memory; those with rows do, and a refusal names the limit."""
    server = sluice(f'''
[database.main]
url = "{short_table}"
[[endpoint]]
path = "/plain"
post = {{ table = "short", columns = {{ id = {{}} }}, rows = 20000 }}
[[endpoint]]
path = "/returned"
post = {{ table = "short", columns = {{ id = {{}} }}, returning = "id", rows = 40000 }}
''', server='cores = 1\nbody_memory = "16MiB"\n')

    def post(path, first, count):
        body = json.dumps([{"id": first + i} for i in range(count)]).encode()
        with server.connect() as client:
            return client.call("POST", path, body, "Content-Type: application/json")
    assert post("/plain", 0, 20_000).status == 201
    refused = post("/returned", 100_000, 40_000)
    assert refused.status == 413 and "body_memory" in json.loads(refused.body)["detail"]
    assert post("/returned", 200_000, 1_000).status == 201


@pytest.fixture
def short_table(request, tmp_path):
    return database_with(request, tmp_path, ["DROP TABLE IF EXISTS short", "CREATE TABLE short (id integer PRIMARY KEY)"])
