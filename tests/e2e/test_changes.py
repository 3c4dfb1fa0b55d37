"""GET /x/changes: Server-Sent Events for committed changes, on both databases."""
import json
import os
import re
import sqlite3
import time

import pytest

from http1 import Broken
from http2 import Client, DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, Raw, SETTINGS, frame, header_block
from tokens import Secret, soon

SECRET = Secret()
CONFIG = '''
[compression]
codings = ["gzip"]
[database.main]
url = "{url}"
[[endpoint]]
path = "/notes"
get = "SELECT n, text FROM notes ORDER BY n"
changes = {{ {what}, {more} }}
[endpoint.post]
table = "notes"
columns.n = {{}}
columns.text = {{}}
[[endpoint]]
path = "/notes/{{n:int}}"
delete = "DELETE FROM notes WHERE n = :n"
[[endpoint]]
path = "/others"
post = "INSERT INTO others VALUES (:n)"
'''
HEARTBEAT = 'heartbeat = "1m"'


class Ended(Exception):
    """The stream ended as its framing says."""


class Stream:
    """One client of an event stream, over HTTP/1.1."""

    def __init__(self, server, target="/notes/changes", last=None, fields=(), connection=None):
        self.connection = connection or server.connect()
        fields = [*fields, *([f"Last-Event-ID: {last}"] if last else [])]
        self.connection.send("\r\n".join([f"GET {target} HTTP/1.1", "Host: test", "Accept-Encoding: gzip", *fields]) +
                             "\r\n\r\n")
        head = self.connection._until(b"\r\n\r\n").decode()
        assert head.startswith("HTTP/1.1 200 "), head
        assert "content-type: text/event-stream\r\n" in head.lower() and "content-encoding" not in head.lower()
        self.text, self.id, self.retry, self.comments = "", None, None, 0
        while self.retry is None:
            self._line()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def _line(self):
        while "\n" not in self.text:
            size = int(self.connection._until(b"\r\n"), 16)
            if size == 0:
                raise Ended
            self.text += self.connection._exactly(size).decode()
            assert self.connection._exactly(2) == b"\r\n"
        line, self.text = self.text.split("\n", 1)
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self.id = value
        elif name == "retry":
            self.retry = int(value)
        elif line == ":":
            self.comments += 1
        return name, value

    def next(self):
        """(id, event, data) of the next event."""
        event, data = "message", []
        end = time.monotonic() + 60  # comments keep the connection's own timeout from expiring
        while True:
            assert time.monotonic() < end, "no event came"
            name, value = self._line()
            if name == "event":
                event = value
            elif name == "data":
                data.append(value)
            elif name == "" and value == "" and data:
                return self.id, event, "\n".join(data)

    def number(self):
        return int(self.id.rpartition("-")[2]) if self.id else -1


class Notes:
    def __init__(self, server, kind, change):
        self.server, self.kind, self.change = server, kind, change

    def post(self, body, target="/notes"):
        data = json.dumps(body).encode()
        with self.server.connect() as connection:
            connection.send(f"POST {target} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                            f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
            return connection.read().status

    def metric(self, name):
        found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", self.server.admin("/metrics")[1], re.M)
        return int(float(found.group(1)))

    def wait_for(self, name, value):
        end = time.monotonic() + 15
        while self.metric(name) != value:
            assert time.monotonic() < end, (name, self.metric(name), self.server.log)
            time.sleep(0.02)


# PostgreSQL uses the first key, SQLite the second.
BOTH = 'notify = "notes_changed", tables = ["Notes"]'
TRIGGER = '''
CREATE OR REPLACE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_notify('notes_changed', 'notes'); RETURN NULL; END $$;
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON notes EXECUTE FUNCTION tell();
'''


@pytest.fixture
def notes(request, sluice, tmp_path):
    """notes(kind, more, server) starts the program with a table of notes."""
    def start(kind, more=HEARTBEAT, server="cores = 2", extra="", env=None):
        schema = "CREATE TABLE notes (n int PRIMARY KEY, text text); CREATE TABLE others (n int);"
        if kind == "sqlite":
            path = tmp_path / "notes.db"
            database = sqlite3.connect(path)
            database.executescript(schema)
            database.close()
            config = CONFIG.format(url=f"sqlite:{path}", what=BOTH, more=more)
            change = '{"tables":["Notes"]}'
        else:
            postgres = request.getfixturevalue("postgres")
            postgres.psql("DROP TABLE IF EXISTS notes, others; " + schema + TRIGGER)
            config = CONFIG.format(url=postgres.url(), what=BOTH, more=more)
            change = "notes"
        started = Notes(sluice(config + extra, server=server, env=env), kind, change)
        started.wait_for("sluice_changes_listening", 1)
        return started
    return start


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_commits_are_told_in_the_same_order_everywhere(notes, kind):
    it = notes(kind)
    streams = [Stream(it.server) for _ in range(16)]  # on both cores
    ids = []
    for n in range(3):
        assert it.post({"n": n, "text": "x"}) == 201
        # A rollback and a change of another table send no event.
        assert it.post([{"n": 100 + n, "text": "y"}, {"n": n, "text": "y"}]) == 409
        assert it.post({"n": 1}, "/others") == 201
        events = {stream.next() for stream in streams}
        assert len(events) == 1, events
        (event,) = events
        assert event[1:] == ("message", it.change)
        ids.append(event[0])
    assert it.server.get("/notes/0", method="DELETE").status == 204
    assert {stream.next()[2] for stream in streams} == {it.change}
    assert [int(id.rpartition("-")[2]) for id in ids] == list(range(streams[0].number() - 3, streams[0].number()))

    # A client that comes back, to any core, gets every event exactly once.
    last = streams[0].id
    for stream in streams:
        stream.connection.close()
    for _ in range(8):
        with Stream(it.server, last=ids[0]) as again:
            assert [again.next()[0] for _ in range(3)] == [ids[1], ids[2], last]
    waiting = [Stream(it.server, last=last) for _ in range(8)]
    assert it.post({"n": 50}) == 201
    assert {stream.next()[1:] for stream in waiting} == {("message", it.change)}
    assert waiting[0].number() == int(last.rpartition("-")[2]) + 1

    # An id of another process, or of the future, gives a reset.
    boot = last.rpartition("-")[0]
    for other in ("0123456789abcdef-1", f"{boot}-999999", f"{boot}-", "x"):
        with Stream(it.server, last=other) as lost:
            assert lost.next()[:2] == (waiting[0].id, "reset")
    for stream in waiting:
        stream.connection.close()
    it.wait_for("sluice_changes_clients", 0)
    assert it.metric("sluice_changes_events_total") >= 5
    assert it.server.get("/notes/changes", method="POST").status == 405


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_resident_table_beside_it_takes_nothing_away(notes, kind):
    it = notes(kind, extra='''
[[resident]]
name = "kept"
query = "SELECT n, text FROM notes"
key = "n"
refresh = { notify = "notes_changed", every = "1h" }
''')
    with Stream(it.server) as stream:
        assert it.post({"n": 1, "text": "x"}) == 201
        assert stream.next()[1:] == ("message", it.change)


def test_a_set_is_told_of_once_it_is_written(notes):
    it = notes("sqlite", extra='''
[[endpoint]]
path = "/all"
[endpoint.put]
table = "notes"
existing = "SELECT n FROM notes"
columns.n = { key = true }
columns.text = {}
''')
    with Stream(it.server) as stream:
        def put(rows, query=""):
            data = json.dumps(rows).encode()
            with it.server.connect() as connection:
                connection.send(f"PUT /all{query} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                                f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
                assert connection.read().status == 200
        rows = [{"n": 1, "text": "a"}]
        put(rows, "?dry-run")
        put(rows)
        first = stream.next()
        put(rows)  # this changes nothing
        assert it.post({"n": 2}) == 201
        assert (first[2], stream.next()[2]) == (it.change, it.change)
        assert stream.id.endswith("-2")


def test_one_connection_listens_for_all_and_comes_back(notes, postgres):
    it = notes("postgres")
    streams = [Stream(it.server) for _ in range(200)]
    mine = "FROM pg_stat_activity WHERE application_name = 'sluice (changes)'"
    assert postgres.psql(f"SELECT count(*) {mine}") == b"1\n"
    postgres.psql("NOTIFY notes_changed, 'one'; NOTIFY other, 'no'; "
                  "SELECT pg_notify('notes_changed', E'two\\r\\n\\nid: 7\\rGrüße')")
    assert {stream.next()[1:] for stream in streams} == {("message", "one")}
    assert {stream.next()[1:] for stream in streams} == {("message", "two\n\nid: 7\nGrüße")}
    before = streams[0].id
    postgres.psql(f"SELECT pg_terminate_backend(pid) {mine}")
    assert {stream.next()[1:] for stream in streams} == {("reset", '{"reason":"gap"}')}
    postgres.psql("NOTIFY notes_changed, 'three'")
    assert {stream.next()[1:] for stream in streams} == {("message", "three")}
    assert len({stream.id for stream in streams}) == 1
    with Stream(it.server, last=before) as late:
        assert late.next()[1] == "reset"
    assert it.metric("sluice_changes_clients") >= 200
    for stream in streams:
        stream.connection.close()


def test_streams_end_on_sigterm_and_timeouts_do_not_touch_them(notes):
    it = notes("sqlite", more='heartbeat = "50ms", clients = 3, retry = "100ms"',
               server='cores = 1\ngrace = "1m"\nwrite_timeout = "200ms"\nidle_timeout = "200ms"')
    streams = [Stream(it.server) for _ in range(2)]
    assert all(100 <= stream.retry <= 150 for stream in streams)
    with Raw(it.server.port) as client:  # python3-h2 accepts nothing after GOAWAY
        client.send(PREFACE + frame(SETTINGS) + frame(HEADERS, END_STREAM | END_HEADERS, 1, header_block("/notes/changes")))
        body = b""
        ended = False

        def hear():
            nonlocal body, ended
            data = client.socket.recv(1 << 16)
            assert data
            client.buffer += data
            for kind, flags, stream, payload in client.frames():
                if kind == DATA and stream == 1:
                    body += payload
                    ended = ended or bool(flags & END_STREAM)
        while b"id:" not in body:
            hear()
        assert it.server.get("/notes/changes").status == 503
        for stream in streams:
            while stream.comments < 10:
                stream._line()
        assert it.post({"n": 1}) == 201
        for stream in streams:
            assert stream.next()[2] == it.change
        while it.change.encode() not in body:
            hear()
        it.server.terminate()
        for stream in streams:
            with pytest.raises(Ended):
                stream.next()
        while not ended:
            hear()
    it.server.stop()


def test_who_does_not_read_is_cut(notes, postgres):
    # Memory in AddressSanitizer's quarantine is not the server's.
    quarantine = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=1"]))
    it = notes("postgres", more='heartbeat = "1m", keep = 64', server='cores = 1\nwrite_timeout = "300ms"',
               env={"ASAN_OPTIONS": quarantine})
    slow = Stream(it.server)
    with Stream(it.server) as quick:
        status = f"/proc/{it.server.process.pid}/status"

        def resident_kib():
            return int(re.search(r"VmRSS:\s+(\d+)", open(status).read()).group(1))
        before = resident_kib()
        sent, payload = 0, "x" * 7900
        while it.metric("sluice_changes_clients") == 2 and sent < 20_000:
            postgres.psql(f"SELECT pg_notify('notes_changed', '{payload}' || n) "
                          f"FROM generate_series({sent + 1}, {sent + 1000}) n")
            sent += 1000
            it.wait_for("sluice_changes_events_total", sent + 1)  # the 1 is the reset at the start
            # The client that reads goes on; in such a flood a reset may replace events that it missed.
            while quick.number() < sent + 1:
                quick.next()
        it.wait_for("sluice_changes_clients", 1)
        assert resident_kib() - before < 16 * 1024, sent
    with pytest.raises((Broken, Ended, AssertionError)):
        while True:
            slow.next()


GUARDED = '''
[policy.auth]
type = "jwt"
secret = "{secret}"
leeway = "0s"
[database.main]
url = "{url}"
role = "claim.role"
[[endpoint]]
path = "/guarded/{{n:int}}"
use = ["auth"]
get = "SELECT n FROM guarded WHERE n = :n AND n > :least -- all"
params.least = {{ from = "query.least", type = "int", required = true }}
require = ["in(claim.tenant, 'a', 'b')", "exists(SELECT FROM members WHERE name = claim.sub)"]
changes = {{ notify = "guarded_changed" }}
'''


def test_tokens_roles_and_requirements(sluice, postgres):
    for role in ("reader", "stranger"):
        postgres.psql(f"DO $$ BEGIN CREATE ROLE {role}; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    postgres.psql("DROP TABLE IF EXISTS guarded, members; CREATE TABLE guarded (n int); "
                  "CREATE TABLE members (name text); INSERT INTO members VALUES ('ada'); "
                  "GRANT SELECT ON guarded TO reader; GRANT SELECT ON members TO reader, stranger")
    server = sluice(GUARDED.format(url=postgres.url(), secret=SECRET.secret))

    def status(**claims):
        token = SECRET.token(soon(**{"role": "reader", "tenant": "a", **claims}))
        return server.get("/guarded/7/changes", f"Authorization: Bearer {token}").status
    assert server.get("/guarded/7/changes").status == 401
    assert server.get("/guarded/x/changes").status == 404
    assert status(tenant="c") == 403
    assert status(sub="eve") == 403
    assert status(role="stranger") == 403  # this role may not read the table
    assert status(role="nobody_of_that_name") == 403
    assert status(role=None) == 403
    Notes(server, "postgres", None).wait_for("sluice_changes_listening", 1)
    token = SECRET.token(soon(role="reader", tenant="b"))
    with Stream(server, "/guarded/7/changes", fields=[f"Authorization: Bearer {token}"]) as stream:
        postgres.psql("NOTIFY guarded_changed, 'x'")
        assert stream.next()[1:] == ("message", "x")
    # A token that expires soon still starts a stream, which ends with it.
    token = SECRET.token({"sub": "ada", "role": "reader", "tenant": "a", "exp": time.time() + 1.2})
    with Stream(server, "/guarded/7/changes", fields=[f"Authorization: Bearer {token}"]) as stream:
        with pytest.raises(Ended):
            stream.next()
    assert server.get("/guarded/7/changes", f"Authorization: Bearer {token}").status == 401


SHARED_CONNECTION = '''
[policy.auth]
type = "jwt"
secret = "{secret}"
leeway = "0s"
[[endpoint]]
path = "/private"
use = ["auth"]
get = "SELECT 1 AS one"
'''


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("http2", [False, True])
def test_a_token_that_expires_ends_no_other_request(notes, kind, http2):
    """Request memory that held an expired token serves other requests, also on other connections."""
    it = notes(kind, extra=SHARED_CONNECTION.format(secret=SECRET.secret), server="cores = 1")
    token = SECRET.token({"sub": "ada", "exp": time.time() + 0.5})

    def use_up(ask):
        """Uses the token until it has expired."""
        statuses = []
        while not statuses or statuses[-1] == 200:
            statuses.append(ask())
        assert statuses[0] == 200 and statuses[-1] == 401
    if not http2:
        with it.server.connect() as connection:
            use_up(lambda: connection.get("/private", f"Authorization: Bearer {token}").status)
            streams = [Stream(it.server, connection=connection), Stream(it.server)]
            assert it.post({"n": 1}) == 201
            assert [stream.next()[1:] for stream in streams] == [("message", it.change)] * 2
        return
    with Client(it.server.port) as client:
        use_up(lambda: client.get("/private", fields=[("authorization", f"Bearer {token}")]).status)
        answers = [client.answers[client.request("/notes/changes")] for _ in range(2)]
        it.wait_for("sluice_changes_clients", 2)
        assert it.post({"n": 1}) == 201
        while any(it.change.encode() not in answer.body for answer in answers):
            assert not any(answer.ended for answer in answers) and client.hear()
