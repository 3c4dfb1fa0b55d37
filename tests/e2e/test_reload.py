"""The configuration is read again while the program serves: POST /reload and SIGHUP."""
import contextlib
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import threading
import time

import pytest

import http1
import http2
from test_changes import Ended, Stream
from tokens import Secret
from websocket import TEXT, WebSocket

ROWS = 200_000


def reload(server, *fields):
    """(status, text) of POST /reload."""
    with socket.create_connection(("127.0.0.1", server.admin_port), timeout=60) as client:
        lines = "".join(f"{field}\r\n" for field in fields or ["Host: localhost"])
        client.sendall(f"POST /reload HTTP/1.1\r\n{lines}Connection: close\r\nContent-Length: 0\r\n\r\n".encode())
        answer = http.client.HTTPResponse(client)
        answer.begin()
        return answer.status, answer.read().decode()


def write(server, config):
    """Writes the configuration file: the same [server] and [admin], followed by `config`."""
    head = server.file.read_text().split("\n[database", 1)[0].split("\n#", 1)[0]
    server.file.write_text(f"{head}\n# routes\n{config}")


def generation(n, more="", things="SELECT id FROM things"):
    """A configuration whose answers show its number in rows, in the path, and in the allowed origin."""
    return f'''
[database.main]
url = "sqlite:main.db"
[policy.web]
type = "cors"
origins = ["https://g{n}.example", "https://all.example"]
expose = ["X-Generation-{n}"]
[[endpoint]]
path = "/which"
get = "SELECT {n} AS generation"
use = ["web"]
[[endpoint]]
path = "/only/{n}"
get = "SELECT {n} AS generation"
[[endpoint]]
path = "/many"
get = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
         SELECT i, {n} AS generation, 'some more text that makes the rows longer' AS text FROM n"""
[[endpoint]]
path = "/things"
get = "{things}"
post = "INSERT INTO things (id) VALUES (:id)"
changes = {{ tables = ["things"] }}
[[resident]]
name = "known"
query = "SELECT id, name FROM known"
key = "id"
use = ["web"]
[[websocket]]
path = "/echo"
handler = "echo"
{more}'''


@pytest.fixture
def server(sluice, tmp_path):
    with sqlite3.connect(tmp_path / "main.db") as database:
        database.executescript("PRAGMA journal_mode = WAL; CREATE TABLE things (id INTEGER PRIMARY KEY);"
                               "CREATE TABLE known (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO known VALUES (1, 'one')")
    database.close()
    started = sluice("# routes\n" + generation(1), server="cores = 2\n")
    return started


def which(server, **options):
    answer = server.get("/which", "Origin: https://all.example", **options)
    assert answer.status == 200
    (name,) = [value for field, value in answer.fields if field == "access-control-expose-headers"]
    number = json.loads(answer.body)[0]["generation"]
    assert name == f"X-Generation-{number}"
    return number


def test_the_next_request_is_answered_by_the_new_file(server):
    assert which(server) == 1 and server.get("/only/1").status == 200 and server.get("/only/2").status == 404
    write(server, generation(2))
    assert reload(server) == (200, "The configuration has been read again.\n")
    with http2.Client(server.port) as client:
        for _ in range(8):  # on every core
            assert which(server) == 2
            assert server.get("/only/1").status == 404 and server.get("/only/2").status == 200
            assert server.get("/known/1", "Origin: https://g2.example").get("access-control-allow-origin") == "https://g2.example"
        assert client.get("/only/2").status == 200
    assert server.sample('sluice_reloads_total{result="done"}') == 1
    # A route's counters go on if its name comes back.
    write(server, generation(1))
    assert reload(server)[0] == 200
    assert server.get("/only/1").status == 200
    _, text = server.admin("/metrics")
    counted = {line for line in text.splitlines() if line.startswith("http_server_request_duration_seconds_count")}
    assert any('http_route="/only/1"' in line and line.endswith(" 2") for line in counted), counted
    assert any('http_route="/only/2"' in line and line.endswith(" 9") for line in counted), counted


def test_what_many_removed_routes_have_counted_is_forgotten(server):
    def many(first):
        return "".join(f'[[endpoint]]\npath = "/many/{n}"\nget = "SELECT 1 AS n"\n' for n in range(first, first + 600))
    for first in (0, 600, 1200):
        write(server, generation(2, many(first)))
        assert reload(server)[0] == 200
        assert server.get(f"/many/{first}").status == 200
        for _ in range(4):  # on every core
            assert server.get("/only/2").status == 200
        _, text = server.admin("/metrics")
        assert [n for n in (0, 600, 1200) if f'http_route="/many/{n}"' in text] == ([0, 600] if first == 600 else [first])
    assert 'http_route="/only/2",http_response_status_code="200",url_scheme="http"} 12\n' in text


def test_sighup_reads_it_too(server):
    write(server, generation(2))
    server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 30
    while "the configuration has been read again" not in server.log:
        assert time.monotonic() < end, server.log
        time.sleep(0.02)
    assert which(server) == 2


BROKEN = {
    "no TOML": ("[[endpoint\n", ":"),
    "an unknown key": ('[[files]]\npath = "/"\nroot = "."\nrooot = "x"\n', 'unknown key "rooot"'),
    "SQL": ('[[endpoint]]\npath = "/x"\nget = "SELECT absent FROM nowhere"\n', "no such table"),
    "a path twice": ('[[endpoint]]\npath = "/which"\nget = "SELECT 1"\n', "line"),
    "no such policy": ('[[endpoint]]\npath = "/x"\nget = "SELECT 1 AS n"\nuse = ["none"]\n', "there is no [policy.none]"),
    "a folder that is not there": ('[[files]]\npath = "/f"\nroot = "not/there"\n', "not/there"),
    "a resident table without rows": ('[[resident]]\nname = "more"\nquery = "SELECT id FROM nowhere"\n', "no such table"),
    "a key that is no key": ('[policy.auth]\ntype = "jwt"\nsecret = "short"\n[[endpoint]]\npath = "/x"\nget = "SELECT 1 AS n"\n'
                             'use = ["auth"]\n', "HS256 needs 32"),
}


def test_a_wrong_file_changes_nothing(server):
    for count, (what, (more, told)) in enumerate(BROKEN.items(), 1):
        write(server, generation(2, more))
        status, text = reload(server)
        assert status == 422 and told in text, (what, status, text)
        assert which(server) == 1 and server.get("/only/2").status == 404, what
        assert text.splitlines()[0] in server.log
        assert server.sample('sluice_reloads_total{result="refused"}') == count
    written = server.file.read_text()
    write(server, generation(2))
    server.file.write_text(server.file.read_text().replace("cores = 2", "cores = 1"))
    status, text = reload(server)
    assert status == 422 and "[server] cores" in text and "needs a restart" in text, text
    server.file.unlink()
    assert reload(server)[0] == 422
    server.file.write_text(written)
    write(server, generation(3))
    assert reload(server)[0] == 200 and which(server) == 3


def test_only_an_operator_may_ask(server):
    write(server, generation(2))
    for fields, status in (
            (["Host: localhost", "Origin: https://evil.example"], 403), (["Host: evil.example"], 403),
            (["Host: localhost.evil.example"], 403), (["Host: localhost", "Origin: null"], 403)):
        assert reload(server, *fields)[0] == status, fields
    assert server.admin("/reload")[0] == 405
    assert which(server) == 1
    for host in ("127.0.0.1:80", "[::1]", "localhost:1", "LOCALHOST:1"):
        assert reload(server, f"Host: {host}")[0] == 200, host
    assert which(server) == 2


def test_what_runs_goes_on(server):
    """A long answer keeps to the configuration that it began with; streams and WebSockets stay."""
    with server.connect() as slow, server.connect() as stream, server.connect() as kept, http2.Client(server.port) as multiplexed:
        slow.sip = 4096
        slow.send("GET /many HTTP/1.1\r\nHost: test\r\n\r\n")
        assert b"200 OK" in slow._until(b"\r\n")
        stream.send("GET /things/changes HTTP/1.1\r\nHost: test\r\n\r\n")
        stream._until(b"\r\n\r\n")
        assert kept.get("/only/1").status == 200
        talk = WebSocket(server.port, "/echo")
        assert multiplexed.get("/only/1").status == 200
        for number in (2, 3, 4):
            write(server, generation(number))
            assert reload(server)[0] == 200
        assert kept.get("/only/4").status == 200 and kept.get("/only/1").status == 404
        assert multiplexed.get("/only/4").status == 200
        assert server.get("/things", "Content-Type: application/json", method="GET").status == 200
        with server.connect() as writer:
            assert writer.call("POST", "/things", b'{"id": 7}', "Content-Type: application/json").status // 100 == 2
        assert b"id: " in stream._until(b"data:")
        talk.say(TEXT, b"still here")
        assert talk.frame().payload == b"still here"
        assert server.sample("sluice_earlier_configurations") >= 1
        head = slow._until(b"\r\n\r\n")
        assert b"chunked" in head
        body = b""
        while size := int(slow._until(b"\r\n"), 16):
            body += slow._exactly(size)
            slow._exactly(2)
        rows = json.loads(body)
        assert len(rows) == ROWS and {row["generation"] for row in rows} == {1}
        talk.close()
    end = time.monotonic() + 30
    while server.sample("sluice_earlier_configurations") != 0:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_of_a_route_that_keeps_changing_the_oldest_answers_are_cut(server):
    """A client whose stream is cut comes back without missing an event."""
    streams = []
    with contextlib.ExitStack():
        for number in range(2, 24):
            streams.append(Stream(server, "/things/changes"))
            write(server, generation(number, things=f"SELECT id, {number} AS generation FROM things"))
            assert reload(server)[0] == 200
        with server.connect() as writer:
            assert writer.call("POST", "/things", b'{"id": 7}', "Content-Type: application/json").status // 100 == 2
        told = cut = 0
        for stream in streams:
            try:
                assert stream.next()[1] == "message"
                told += 1
            except (Ended, OSError, http1.Broken):
                cut += 1
                with Stream(server, "/things/changes", last=stream.id) as again:
                    assert again.next()[1] == "message"
        assert told >= 1 and cut >= 22 - 2 * 9, (told, cut)  # with two cores
        assert server.sample("sluice_earlier_configurations") <= 2 * 9
        for stream in streams:
            stream.connection.close()
    end = time.monotonic() + 30
    while server.sample("sluice_earlier_configurations") != 0:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_answers_of_an_unchanged_route_are_never_cut(sluice, tmp_path):
    """Reloads, while other clients ask for a route that changes each time. Downloads of a file and of rows, begun before each
    of the first forty, are complete."""
    reloads = int(os.environ.get("RELOADS", "60"))
    with contextlib.closing(sqlite3.connect(tmp_path / "main.db")) as database:
        database.executescript("CREATE TABLE things (id INTEGER PRIMARY KEY); CREATE TABLE known (id INTEGER PRIMARY KEY, name TEXT)")
    content = os.urandom(1 << 20) * 24  # more than the sockets hold
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(content)
    more = f'''[[files]]
path = "/folder"
root = "folder"
[[endpoint]]
path = "/rows"
get = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
         SELECT i, 'some more text that makes the rows longer, so that the sockets do not hold them' AS text FROM n"""
'''
    server = sluice("# routes\n" + generation(1, more), server='cores = 2\nwrite_timeout = "10m"\nslowest_client = 0\n')
    stop, faults = threading.Event(), []

    def ask():
        try:
            with server.connect() as client:
                while not stop.is_set():
                    if client.get("/which").status != 200:
                        faults.append("status")
        except Exception as error:  # noqa: BLE001: reported by the test
            faults.append(repr(error))
    clients = [threading.Thread(target=ask) for _ in range(2)]
    for client in clients:
        client.start()
    downloads = []
    try:
        for number in range(2, 2 + reloads):
            if len(downloads) < 40:
                slow = server.connect()
                slow.sip = 4096
                slow.send(f"GET {'/rows' if number % 5 == 0 else '/folder/file'} HTTP/1.1\r\nHost: test\r\n\r\n")
                assert b"200 OK" in slow._until(b"\r\n")
                downloads.append((number % 5 == 0, slow))
            write(server, generation(number, more))
            assert reload(server)[0] == 200
    finally:
        stop.set()
        for client in clients:
            client.join()
    assert not faults, faults[:5]
    assert server.sample("sluice_earlier_configurations") >= 40
    for is_rows, slow in downloads:
        slow.sip = 1 << 20
        slow._until(b"\r\n\r\n")
        if is_rows:
            body = b""
            while size := int(slow._until(b"\r\n"), 16):
                body += slow._exactly(size)
                slow._exactly(2)
            assert len(json.loads(body)) == ROWS
        else:
            assert slow._exactly(len(content)) == content
        slow.close()
    end = time.monotonic() + 30
    while server.sample("sluice_earlier_configurations") != 0:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_conversations_live_as_long_as_their_route(sluice, tmp_path):
    """WebSockets hold no earlier configuration. They are closed with 1001 if their route or its policies change."""
    secret = Secret()
    plain = '[[endpoint]]\npath = "/x/{n}"\nget = "SELECT 1 AS n"\n'
    database = f'[database.main]\nurl = "sqlite:{tmp_path}/main.db"\n'
    sqlite3.connect(tmp_path / "main.db").execute("PRAGMA user_version = 1")
    policy = f'[policy.auth]\ntype = "jwt"\nsecret = "{secret.secret}"\nissuer = "{{issuer}}"\noptional = true\n'
    echo = '[[websocket]]\npath = "/{path}"\nhandler = "echo"\n{more}'

    def config(n, *routes):
        return database + policy.format(issuer=n) + plain.replace("{n}", str(n)) + "".join(routes)
    free, guarded = echo.format(path="free", more=""), echo.format(path="guarded", more='use = ["auth"]\n')
    server = sluice("# routes\n" + config(1, free, guarded, echo.format(path="gone", more="")))
    talks = {path: [WebSocket(server.port, f"/{path}") for _ in range(4)] for path in ("free", "guarded", "gone")}
    for n in range(2, 14):
        write(server, config(n, free, guarded))
        assert reload(server)[0] == 200
    for path in ("guarded", "gone"):
        for talk in talks[path]:
            assert talk.frame().payload[:2] == (1001).to_bytes(2), path
            talk.close()
    assert server.sample("sluice_earlier_configurations") == 0
    assert server.sample("sluice_websockets_total") == 12
    for talk in talks["free"]:
        talk.say(TEXT, b"still here")
        assert talk.frame().payload == b"still here"
    assert server.sample("sluice_websockets_open") == 4
    assert server.sample('sluice_websocket_messages_total{direction="received"}') == 4
    # Conversations without a route are counted until they are closed, and their counters stay.
    write(server, config(14))
    assert reload(server)[0] == 200
    assert server.sample("sluice_websockets_open") == 4
    for talk in talks["free"]:
        assert talk.frame().payload[:2] == (1001).to_bytes(2)
        talk.close()
    end = time.monotonic() + 30
    while server.sample("sluice_websockets_open") != 0:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert server.sample("sluice_websockets_total") == 12
    assert server.sample('sluice_websocket_messages_total{direction="received"}') == 4


def test_folders_keep_their_open_files_unless_the_root_leads_elsewhere(sluice, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    (tmp_path / "site").symlink_to("one")
    folder = '[[files]]\npath = "/"\nroot = "site"\n'
    server = sluice("# routes\n" + folder, server="cores = 1\n")
    assert server.get("/a").body == b"one"
    write(server, folder + '[[endpoint]]\npath = "/api"\nget = "SELECT 1 AS n"\n[database.main]\nurl = "sqlite:main.db"\n')
    sqlite3.connect(tmp_path / "main.db").execute("PRAGMA user_version = 1")
    assert reload(server)[0] == 200
    assert server.sample("sluice_files_cache_files") == 1
    assert server.get("/a").body == b"one"
    (tmp_path / "next").symlink_to("two")
    os.replace(tmp_path / "next", tmp_path / "site")
    assert reload(server)[0] == 200
    assert server.get("/a").body == b"two"


@pytest.mark.parametrize("key", ["secret", "secret_file"])
def test_a_rotated_key_closes_no_websocket(sluice, tmp_path, key):
    """Guarded WebSockets and change streams go on. The old key's tokens are refused from then on, also remembered ones."""
    with contextlib.closing(sqlite3.connect(tmp_path / "main.db")) as database:
        database.executescript("PRAGMA journal_mode = WAL; CREATE TABLE things (id INTEGER PRIMARY KEY)")
    one, other = Secret(), Secret("fedcba9876543210fedcba9876543210")

    def config(secret):
        value = secret.secret if key == "secret" else f"{secret.secret}.key"
        (tmp_path / f"{secret.secret}.key").write_text(secret.secret)
        return f'''
[database.main]
url = "sqlite:main.db"
[policy.auth]
type = "jwt"
{key} = "{value}"
[[websocket]]
path = "/echo"
handler = "echo"
use = ["auth"]
[[endpoint]]
path = "/things"
get = "SELECT id FROM things"
post = "INSERT INTO things (id) VALUES (:id)"
changes = {{ tables = ["things"] }}
use = ["auth"]
'''
    server = sluice("# routes\n" + config(one), server="cores = 2\n")
    bearer = {secret: f"Authorization: Bearer {secret.token()}" for secret in (one, other)}
    talks = [WebSocket(server.port, "/echo", bearer[one]) for _ in range(6)]
    for _ in range(6):
        assert server.get("/things", bearer[one]).status == 200
        assert server.get("/things", bearer[other]).status == 401
    with server.connect() as stream:
        stream.send(f"GET /things/changes HTTP/1.1\r\nHost: test\r\n{bearer[one]}\r\n\r\n")
        assert b"200 OK" in stream._until(b"\r\n")
        write(server, config(other))
        assert reload(server)[0] == 200
        for _ in range(6):  # on both cores
            assert server.get("/things", bearer[one]).status == 401
            assert server.get("/things", bearer[other]).status == 200
        for talk in talks:
            talk.say(TEXT, b"still here")
            assert talk.frame().payload == b"still here"
        assert server.sample("sluice_websockets_open") == 6
        with server.connect() as writer:
            assert writer.call("POST", "/things", b'{"id": 7}', "Content-Type: application/json",
                               bearer[other]).status // 100 == 2
        assert b"id: " in stream._until(b"data:")
    for talk in talks:
        talk.close()


def test_no_request_fails_or_sees_two(server):
    """Clients of HTTP/1.1 and HTTP/2, while one generation follows the other."""
    stop, seen, faults = threading.Event(), set(), []

    def ask_http1():
        with server.connect() as client:
            while not stop.is_set():
                answer = client.get("/which", "Origin: https://all.example")
                (name,) = [value for field, value in answer.fields if field == "access-control-expose-headers"]
                number = json.loads(answer.body)[0]["generation"] if answer.status == 200 else None
                if name != f"X-Generation-{number}":
                    faults.append((answer.status, name, answer.body))
                seen.add(number)

    def ask_http2():
        with http2.Client(server.port) as client:
            while not stop.is_set():
                answer = client.get("/which", fields=[("origin", "https://all.example")])
                number = json.loads(answer.body)[0]["generation"] if answer.status == 200 else None
                if answer.fields.get("access-control-expose-headers") != f"X-Generation-{number}":
                    faults.append((answer.status, answer.fields, answer.body))
                seen.add(number)

    def guarded(run):
        try:
            run()
        except Exception as error:  # noqa: BLE001: reported by the test
            faults.append(repr(error))

    threads = [threading.Thread(target=guarded, args=[run]) for run in [ask_http1] * 6 + [ask_http2] * 2]
    for thread in threads:
        thread.start()
    try:
        for number in range(2, 22):
            write(server, generation(number))
            assert reload(server)[0] == 200
            assert which(server) == number
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not faults, faults[:5]
    assert len(seen) > 2
    assert server.sample('sluice_reloads_total{result="done"}') == 20
    assert server.sample("sluice_earlier_configurations") == 0


def test_an_answer_has_the_headers_of_its_own_configuration(server, tmp_path):
    """Two writes wait for a lock while the configuration is reloaded."""
    active = 'http_server_active_requests{http_request_method="POST",url_scheme="http"}'
    holder = sqlite3.connect(tmp_path / "main.db", isolation_level=None)
    with contextlib.closing(holder), server.connect() as client, http2.Client(server.port) as multiplexed:
        holder.execute("BEGIN IMMEDIATE")
        client.send('POST /things HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"id": 8}')
        stream = multiplexed.request("/things", "POST", [("content-type", "application/json")], b'{"id": 9}')
        end = time.monotonic() + 30
        while server.sample(active) != 2:
            assert time.monotonic() < end
            time.sleep(0.02)
        write(server, generation(2, '[server.headers]\nX-Of = "2"\n'))
        assert reload(server)[0] == 200
        assert server.get("/which").get("x-of") == "2"
        holder.execute("COMMIT")
        first, (second,) = client.read(), multiplexed.wait(stream)
        assert first.status == 201 and first.get("x-of") is None
        assert second.status == 201 and "x-of" not in second.fields
        assert client.get("/which").get("x-of") == "2" and multiplexed.get("/which").fields["x-of"] == "2"


def test_sigterm_during_a_reload(server):
    write(server, generation(2))

    def ask():
        try:
            reload(server)
        except (OSError, http.client.HTTPException):
            pass  # the program ended before it answered
    asked = threading.Thread(target=ask)
    asked.start()
    server.process.send_signal(signal.SIGHUP)
    server.stop()
    asked.join()


def test_tokens_of_changed_policies(sluice, tmp_path):
    """A new, removed or changed policy holds once the reload is answered; the keys of an unchanged policy are not read again."""
    one, other = Secret(), Secret("fedcba9876543210fedcba9876543210")

    def config(secret, use):
        return f'''
[policy.auth]
type = "jwt"
secret = "{secret.secret}"
[[files]]
path = "/"
root = "site"
{use}
[[files]]
path = "/also"
root = "also"
use = ["auth"]
'''
    for folder in ("site", "also"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text(folder)
    server = sluice("# routes\n" + config(one, 'use = ["auth"]'))

    def status(secret):
        return server.get("/a", f"Authorization: Bearer {secret.token()}").status
    assert (status(one), status(other)) == (200, 401)
    verified = 'sluice_jwt_verifications_total{policy="auth"}'
    counted = server.sample(verified)
    write(server, config(other, 'use = ["auth"]'))
    assert reload(server)[0] == 200
    assert server.sample(verified) == counted
    assert (status(one), status(other)) == (401, 200)
    write(server, config(other, ""))
    assert reload(server)[0] == 200
    assert (status(one), server.get("/a").status) == (200, 200)
    write(server, config(other, 'use = ["auth"]'))
    assert reload(server)[0] == 200
    assert (server.get("/a").status, status(other)) == (401, 200)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_new_types_of_columns_are_taken(sluice, tmp_path, request, kind):
    if kind == "postgres":
        postgres = request.getfixturevalue("own_postgres")
        url, run = postgres.url(), postgres.psql
    else:
        url, run = "sqlite:types.db", lambda sql: sqlite3.connect(tmp_path / "types.db", isolation_level=None).execute(sql)
    run("CREATE TABLE typed (id integer PRIMARY KEY, n integer)")
    server = sluice(f'''
[database.main]
url = "{url}"
[[endpoint]]
path = "/typed"
get = "SELECT id FROM typed WHERE n = :n"
[endpoint.post]
table = "typed"
columns.id = {{}}
columns.n = {{}}
returning = "*"
''')

    def post(number, value):
        with server.connect() as client:
            body = json.dumps({"id": number, "n": value}).encode()
            answer = client.call("POST", "/typed", body, "Content-Type: application/json")
            return answer.status, json.loads(answer.body)
    assert post(1, 1) == (201, [{"id": 1, "n": 1}])
    if kind == "postgres":
        run("ALTER TABLE typed ALTER n TYPE bigint")
        value = 3_000_000_000
    else:
        run("DROP TABLE typed")
        run("CREATE TABLE typed (id integer PRIMARY KEY, n text)")
        value = "a text"
    assert post(2, value)[0] == 422
    assert reload(server)[0] == 200
    assert post(2, value) == (201, [{"id": 2, "n": value}])
    assert json.loads(server.get(f"/typed?n={str(value).replace(' ', '+')}").body) == [{"id": 2}]


def test_a_write_may_go_and_come_back(sluice, small_sqlite):
    config = '''
[database.main]
url = "sqlite:small.db"
[[endpoint]]
path = "/numbers"
get = "SELECT n FROM numbers WHERE n < 3"
'''
    writes = config + 'post = "INSERT INTO numbers (n, text) VALUES (:n, :text)"\n'
    server = sluice("# routes\n" + writes)
    for routes, allowed in ((config, "GET, HEAD, OPTIONS"), (writes, "GET, HEAD, POST, OPTIONS")):
        write(server, routes)
        assert reload(server) == (200, "The configuration has been read again.\n")
        assert server.get("/numbers", method="OPTIONS").get("allow") == allowed
    server = sluice("# routes\n" + config)
    write(server, writes)
    assert reload(server)[0] == 200
    with server.connect() as client:
        answer = client.call("POST", "/numbers", b'{"n": 2000000, "text": "new"}', "Content-Type: application/json")
        assert answer.status == 201


HELD = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/which"
get = "SELECT {n} AS generation FROM held"
[policy.auth]
type = "jwt"
secret_file = "key"
[[files]]
path = "/site"
root = "site"
use = ["auth"]
'''


@pytest.fixture
def held(sluice, own_postgres, tmp_path):
    """A server whose reloads wait inside `with hold()`; waiting() says whether one waits."""
    own_postgres.psql("CREATE TABLE held (id integer); INSERT INTO held VALUES (1)")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a").write_text("a")
    (tmp_path / "key").write_text(Secret().secret)
    server = sluice("# routes\n" + HELD.format(url=own_postgres.url(), n=1))

    def waiting():
        return own_postgres.psql("SELECT count(*) FROM pg_locks WHERE NOT granted").strip() != b"0"

    def wait_for(condition):
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end, server.log
            time.sleep(0.05)

    def change(n):
        write(server, HELD.format(url=own_postgres.url(), n=n))
    server.waiting, server.wait_for, server.change = waiting, wait_for, change

    @contextlib.contextmanager
    def hold():
        psql = subprocess.Popen(["psql", "-XAtq", own_postgres.url()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        psql.stdin.write(b"BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE; SELECT 'held';\n")
        psql.stdin.flush()
        assert psql.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            psql.communicate()
    server.hold = hold
    return server


def test_keys_that_change_during_a_reload_are_taken(held, tmp_path):
    old, new = Secret(), Secret("fedcba9876543210fedcba9876543210")

    def status(secret):
        return held.get("/site/a", f"Authorization: Bearer {secret.token()}").status
    held.change(2)
    answers = []
    asked = threading.Thread(target=lambda: answers.append(reload(held)))
    with held.hold():
        asked.start()
        held.wait_for(held.waiting)
        (tmp_path / "next").write_text(new.secret)
        (tmp_path / "next").rename(tmp_path / "key")
    asked.join()
    assert answers[0][0] == 200
    assert (status(old), status(new)) == (401, 200)
    # Later changes of the file count too, without a signal.
    (tmp_path / "next").write_text(old.secret)
    (tmp_path / "next").rename(tmp_path / "key")
    held.wait_for(lambda: status(old) == 200)
    assert status(new) == 401


def test_a_signal_during_a_reload_is_not_lost(held):
    with held.hold():
        held.change(2)
        held.process.send_signal(signal.SIGHUP)
        held.wait_for(held.waiting)
        held.change(3)
        held.process.send_signal(signal.SIGHUP)
    held.wait_for(lambda: held.get("/which").body == b'[{"generation":3}]\n')


def test_sigterm_does_not_wait_for_a_reload(held):
    with held.hold():
        held.change(2)
        held.process.send_signal(signal.SIGHUP)
        held.wait_for(held.waiting)
        held.stop()  # while the lock is held


def test_a_fifo_in_place_of_a_file_holds_nothing_up(sluice, tmp_path):
    """A FIFO without a writer would block an open() forever: keys, schemas, and the configuration file itself."""
    fifo = tmp_path / "fifo"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a").write_text("a")
    sqlite3.connect(tmp_path / "main.db").execute("CREATE TABLE t (n INTEGER)").connection.close()
    files = '[[files]]\npath = "/"\nroot = "site"\n'
    keys = '[policy.auth]\ntype = "jwt"\nsecret_file = "fifo"\n' + files + 'use = ["auth"]\n'
    schema = files + ('[database.main]\nurl = "sqlite:main.db"\n[[endpoint]]\npath = "/t"\n[endpoint.post]\n'
                      'sql = "INSERT INTO t VALUES (:n)"\nschema = "fifo"\n')
    fifo.write_text(Secret().secret)
    server = sluice("# routes\n" + keys)
    fifo.unlink()
    os.mkfifo(fifo)
    end = time.monotonic() + 40
    while "policy auth: the file is not a regular file; the keys from before stay in use" not in server.log:
        assert time.monotonic() < end, server.log
        time.sleep(0.05)
    for config in (keys, schema):
        write(server, config)
        status, text = reload(server)
        assert status == 422 and "is not a regular file" in text, text
    assert server.get("/a", f"Authorization: Bearer {Secret().token()}").status == 200
    server.file.unlink()
    os.mkfifo(server.file)
    status, text = reload(server)
    assert status == 422 and f"{server.file}: error: is not a regular file" in text, text
    server.stop()


def test_keys_that_come_by_a_reload_are_watched(sluice, tmp_path):
    one, other = Secret(), Secret("fedcba9876543210fedcba9876543210")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a").write_text("a")
    files = '[[files]]\npath = "/"\nroot = "site"\n'
    server = sluice("# routes\n" + files)
    (tmp_path / "key").write_text(one.secret)
    write(server, '[policy.auth]\ntype = "jwt"\nsecret_file = "key"\n' + files + 'use = ["auth"]\n')
    assert reload(server)[0] == 200

    def status(secret):
        return server.get("/a", f"Authorization: Bearer {secret.token()}").status
    assert (status(one), status(other)) == (200, 401)
    (tmp_path / "next").write_text(other.secret)
    (tmp_path / "next").rename(tmp_path / "key")
    end = time.monotonic() + 40
    while status(other) != 200:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert status(one) == 401
