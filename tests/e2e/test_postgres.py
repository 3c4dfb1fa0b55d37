"""Tests that need a real PostgreSQL: restarts under load, errors, limits, cancels."""
import contextlib
import json
import random
import socket
import string
import subprocess
import threading
import time
import urllib.parse

import pytest

from cluster import Postgres, free_port
from conftest import SLUICE
from http1 import Broken, Connection

ROWS = 20_000


def numbers(cluster):
    cluster.psql(f"""
        CREATE TABLE IF NOT EXISTS numbers (n bigint PRIMARY KEY, text text NOT NULL);
        INSERT INTO numbers SELECT n, 'number ' || n || ' ' || repeat(chr(65 + n % 26), n % 300)
        FROM generate_series(1, {ROWS}) n ON CONFLICT DO NOTHING;
        ANALYZE numbers""")


def text_of(n):
    return f"number {n} {chr(65 + n % 26) * (n % 300)}"


CONFIG = '''
[database.main]
url = "{url}"
{keys}
[[endpoint]]
path = "/numbers/{{n:int}}"
returns = "object"
get = "SELECT n, text FROM numbers WHERE n = :n"
[[endpoint]]
path = "/numbers"
get = "SELECT n, text FROM numbers ORDER BY n"
[[endpoint]]
path = "/sleep/{{seconds}}"
get = "SELECT pg_sleep(cast(:seconds AS double precision))"
[[endpoint]]
path = "/nap/{{seconds}}"
returns = "object"
get = "SELECT pg_sleep(cast(:seconds AS double precision)) AS nap"
[[endpoint]]
path = "/breaks"
get = "SELECT n, text, 1 / ({last} - n) FROM numbers ORDER BY n"
[[endpoint]]
path = "/two"
returns = "object"
get = "SELECT n FROM numbers WHERE n <= 2"
[[endpoint]]
path = "/day/{{day}}"
get = "SELECT cast(:day AS date) AS day"
[[endpoint]]
path = "/endless"
get = "SELECT generate_series(1, 1000000000) AS n, repeat('x', 1000)"
'''


def config(cluster, keys="", url=None):
    numbers(cluster)
    return CONFIG.format(url=url or cluster.url(), keys=keys, last=ROWS)


def test_a_row_count_of_the_wrong_sort_is_500_and_logged(sluice, postgres):
    server = sluice(config(postgres))
    answer = server.get("/two")
    assert answer.status == 500 and answer.media_type == "application/problem+json"
    assert b"numbers" not in answer.body  # the message stays inside
    server.stop()
    assert "/two" in server.log


def test_a_value_that_does_not_fit_is_400(sluice, postgres):
    server = sluice(config(postgres))
    assert json.loads(server.get("/day/2026-11-21").body) == [{"day": "2026-11-21"}]
    for day in ("2026-13-41", "yesterdayish"):
        answer = server.get(f"/day/{day}")
        assert answer.status == 400 and answer.media_type == "application/problem+json"
    assert server.get("/numbers/1").status == 200


def test_a_result_that_breaks_half_way_is_cut(sluice, postgres):
    server = sluice(config(postgres))
    for form in ("json", "csv", "ndjson", "csj"):
        with pytest.raises(Broken):
            server.get(f"/breaks.{form}")
    assert server.get("/numbers/1").status == 200


def test_a_statement_that_takes_too_long_is_504(sluice, postgres):
    server = sluice(config(postgres, 'statement_timeout = "400ms"'))
    start = time.monotonic()
    answer = server.get("/sleep/30")
    assert answer.status == 504 and answer.media_type == "application/problem+json"
    assert time.monotonic() - start < 5
    assert json.loads(server.get("/numbers/1").body)["n"] == 1
    wait_for_quiet(postgres, "pg_sleep")


def wait_for_quiet(cluster, what):
    end = time.monotonic() + 5
    while cluster.psql(f"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%{what}%' "
                       "AND pid <> pg_backend_pid()").strip() != b"0":
        assert time.monotonic() < end, f"{what} still runs in the database"
        time.sleep(0.05)


def test_a_client_that_leaves_cancels_its_statement(sluice, postgres):
    server = sluice(config(postgres))
    with server.connect() as connection:
        connection.send("GET /endless HTTP/1.1\r\nHost: test\r\n\r\n")
        assert connection.socket.recv(100_000)
    wait_for_quiet(postgres, "generate_series")
    assert server.get("/numbers/1").status == 200


def test_a_client_that_leaves_before_the_first_row_cancels_too(sluice, postgres):
    server = sluice(config(postgres))
    with server.connect() as connection:
        connection.send("GET /sleep/20 HTTP/1.1\r\nHost: test\r\n\r\n")
        time.sleep(0.5)
    wait_for_quiet(postgres, "pg_sleep")
    assert server.get("/numbers/1").status == 200


def test_a_slow_look_up_does_not_hold_up_the_others(sluice, postgres):
    server = sluice(config(postgres, "pool = 2"), server="cores = 1")
    with server.connect() as slow:
        slow.send("GET /nap/3 HTTP/1.1\r\nHost: test\r\n\r\n")
        time.sleep(0.2)
        start = time.monotonic()
        for n in range(1, 20):
            assert json.loads(server.get(f"/numbers/{n}").body)["n"] == n
        assert time.monotonic() - start < 2, "they waited for the slow one"
        assert slow.read().status == 200
    # The statement now gets a connection of its own, where it can be cancelled.
    with server.connect() as gone:
        gone.send("GET /nap/60 HTTP/1.1\r\nHost: test\r\n\r\n")
        time.sleep(0.2)
    wait_for_quiet(postgres, "AS nap")


def test_a_full_pool_is_503_with_retry_after(sluice, postgres):
    server = sluice(config(postgres, 'pool = 1\nwait = "300ms"\npipeline = 1'), server="cores = 1")
    with server.connect() as busy:
        busy.send("GET /sleep/3 HTTP/1.1\r\nHost: test\r\n\r\n")
        time.sleep(0.3)
        start = time.monotonic()
        answer = server.get("/numbers/1")
        assert answer.status == 503 and int(answer.get("retry-after")) >= 1
        assert time.monotonic() - start < 2
        assert busy.read().status == 200
    assert server.get("/numbers/1").status == 200


def test_long_results_do_not_hold_up_look_ups(sluice, postgres):
    server = sluice(config(postgres), server="cores = 1")
    with server.connect() as slow:
        slow.send("GET /endless HTTP/1.1\r\nHost: test\r\n\r\n")
        assert slow.socket.recv(1000)
        for n in range(1, 100):
            assert json.loads(server.get(f"/numbers/{n}").body)["n"] == n


@pytest.mark.parametrize("keys", ["", "prepared = false", "pipeline = 1", "pool = 1"])
def test_the_unix_socket_and_the_kinds_of_connection(sluice, postgres, keys):
    url = f"postgres://postgres@/postgres?host={postgres.folder}&port={postgres.port}"
    server = sluice(config(postgres, keys, url))
    rows = json.loads(server.get("/numbers").body)
    assert [row["n"] for row in rows] == list(range(1, ROWS + 1))
    assert all(row["text"] == text_of(row["n"]) for row in rows)
    with server.connect() as connection:
        connection.send("".join(f"GET /numbers/{n} HTTP/1.1\r\nHost: test\r\n\r\n" for n in range(1, 201)))
        for n in range(1, 201):
            assert json.loads(connection.read().body) == {"n": n, "text": text_of(n)}


class Load:
    """Keeps requesting rows on several connections with many requests in flight, and checks every answer."""

    def __init__(self, port, threads=8, depth=16):
        self.port, self.depth = port, depth
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.good = self.unavailable = self.cut = 0
        self.wrong = []
        self.threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self, seed):
        n = seed * 1009
        while not self.stopped.is_set():
            try:
                with Connection(self.port, timeout=15) as connection:
                    while not self.stopped.is_set():
                        asked = []
                        for _ in range(self.depth):
                            n = (n * 7919 + 12345) % ROWS
                            asked.append(n + 1)
                        connection.send("".join(f"GET /numbers/{each} HTTP/1.1\r\nHost: test\r\n\r\n" for each in asked))
                        for each in asked:
                            self._judge(each, connection.read())
            except (Broken, ConnectionError):
                with self.lock:
                    self.cut += 1
                time.sleep(0.01)
            except Exception as error:  # a hang or a malformed answer
                self.wrong.append(repr(error))
                return

    def _judge(self, asked, answer):
        with self.lock:
            if answer.status == 200:
                if json.loads(answer.body) != {"n": asked, "text": text_of(asked)}:
                    self.wrong.append(f"asked for {asked}, got {answer.body[:100]!r}")
                self.good += 1
            elif answer.status == 503 and (answer.get("retry-after") or "").isdigit():
                self.unavailable += 1
            else:
                self.wrong.append(f"status {answer.status}, Retry-After {answer.get('retry-after')}")

    def until(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            assert not self.wrong, self.wrong[:5]
            assert time.monotonic() < end, what
            time.sleep(0.02)

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive(), "a request hangs"
        assert not self.wrong, self.wrong[:5]


@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_a_restart_under_load(sluice, own_postgres, mode):
    server = sluice(config(own_postgres))
    load = Load(server.port)
    try:
        load.until(lambda: load.good > 2000, 15, "no answers before the restart")
        own_postgres.stop(mode)
        assert server.admin("/readyz")[0] == 503
        before = load.unavailable
        load.until(lambda: load.unavailable > before + 200, 15, "no 503 while the database is away")
        own_postgres.start()
        after = load.good
        load.until(lambda: load.good > after + 2000, 15, "no recovery after the restart")
        server.wait("/readyz")
    finally:
        load.stop()


def test_connections_that_the_server_kills_are_replaced(sluice, postgres):
    server = sluice(config(postgres))
    load = Load(server.port, threads=4)
    try:
        for _ in range(5):
            good = load.good
            load.until(lambda: load.good > good + 300, 15, "no answers")
            postgres.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                          "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
        good = load.good
        load.until(lambda: load.good > good + 300, 15, "no answers at the end")
    finally:
        load.stop()


def end_sessions(cluster):
    cluster.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                 "WHERE pid <> pg_backend_pid() AND application_name LIKE 'sluice%'")


@pytest.mark.parametrize("keys", ["", "pool = 1"])
def test_the_request_after_the_end_of_a_session_is_answered(sluice, postgres, keys):
    server = sluice(config(postgres, keys))
    with Connection(server.port) as connection:
        for n in range(1, 11):
            assert connection.get(f"/numbers/{n}").status == 200
            end_sessions(postgres)
            answer = connection.get(f"/numbers/{n}")
            assert (answer.status, json.loads(answer.body)) == (200, {"n": n, "text": text_of(n)})


def test_sessions_that_the_server_ends_when_they_are_idle(sluice, own_postgres):
    own_postgres.psql("ALTER DATABASE postgres SET idle_session_timeout = '300ms'")
    server = sluice(config(own_postgres))

    def sessions():
        return set(own_postgres.psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'sluice'").split())

    for n in range(1, 6):
        before = sessions()
        while before & sessions():
            time.sleep(0.02)
        answer = server.get(f"/numbers/{n}")
        assert (answer.status, json.loads(answer.body)) == (200, {"n": n, "text": text_of(n)})


class Forwarder:
    """Passes each connection to `port`, as it is when the connection comes: an address that moves to another server."""

    def __init__(self, port):
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", free_port()))
        self.sockets = [self.listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            self.sockets += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


WRITES = """
[database.main]
url = "{url}"
[[endpoint]]
path = "/kept"
get = "SELECT n FROM kept ORDER BY n"
post = "INSERT INTO kept (n) VALUES (cast(:n AS int)) RETURNING n"
params.n.from = "query.n"
[[endpoint]]
path = "/kept-set"
[endpoint.put]
table = "kept"
existing = "SELECT n FROM kept"
columns.n = {{ key = true }}
"""


def post(server, n):
    return server.get(f"/kept?n={n}", "Content-Length: 0", method="POST")


def put(server):
    with server.connect() as connection:
        return connection.call("PUT", "/kept-set", b'[{"n": 1}]', "Content-Type: application/json")


def test_writes_reach_the_primary_after_the_address_has_moved(sluice, own_postgres):
    own_postgres.psql("CREATE TABLE kept (n int PRIMARY KEY)")
    standby = own_postgres.standby()
    try:
        with Forwarder(standby.port) as address:
            url = f"postgres://postgres@127.0.0.1:{address.listener.getsockname()[1]}/postgres"
            server = sluice(WRITES.format(url=url))
            for answer in [post(server, n) for n in range(5)] + [put(server)]:
                assert answer.status == 503 and answer.get("retry-after"), answer.body
                assert server.get("/kept").status == 200
            address.port = own_postgres.port
            for n in range(100, 110):
                end = time.monotonic() + 15
                while (answer := post(server, n)).status == 503:
                    assert time.monotonic() < end, "writes do not reach the primary"
                    time.sleep(0.05)
                assert answer.status == 201, answer.body
            assert server.get("/kept").status == 200
            assert put(server).status == 200
    finally:
        standby.remove()


def test_a_server_that_is_read_only_by_default_is_not_written_to(sluice, own_postgres):
    own_postgres.psql("CREATE TABLE kept (n int PRIMARY KEY)")
    server = sluice(WRITES.format(url=own_postgres.url()))
    numbers = iter(range(1, 1000))
    assert post(server, next(numbers)).status == 201

    def until(status):  # each session reads the configuration some time after the server was told to
        times = 0
        while times < 8:
            answer = post(server, next(numbers))
            assert answer.status in (201, 503), answer.body
            assert answer.status == 201 or answer.get("retry-after")
            times = times + 1 if answer.status == status else 0

    for setting, status in (("on", 503), ("off", 201), ("on", 503)):
        own_postgres.psql(f"ALTER SYSTEM SET default_transaction_read_only = {setting}")
        own_postgres.psql("SELECT pg_reload_conf()")
        until(status)
        assert server.get("/kept").status == 200
        assert put(server).status == (200 if status == 201 else 503)


def away_config(cluster, tmp_path, keys=""):
    port, admin_port = free_port(), free_port()
    file = tmp_path / "away.toml"
    file.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\n[admin]\nlisten = "127.0.0.1:{admin_port}"\n'
                    f'[database.main]\nurl = "{cluster.url()}"\n{keys}\n[[endpoint]]\npath = "/one"\nget = "SELECT 1 AS one"\n')
    return file, port


def test_a_database_that_is_away_at_the_start(own_postgres, tmp_path):
    own_postgres.stop()
    file, _ = away_config(own_postgres, tmp_path, 'start_timeout = "1s"')
    for command, least in (("check", 0), ("serve", 0.8)):
        start = time.monotonic()
        failed = subprocess.run([SLUICE, command, str(file)], capture_output=True, text=True, timeout=30)
        assert failed.returncode == 1, failed.stderr
        assert "away.toml:6:7: error: " in failed.stderr
        assert time.monotonic() - start >= least
        assert ("waiting for it" in failed.stderr) == (command == "serve")


def test_the_start_waits_for_the_database(own_postgres, tmp_path):
    own_postgres.stop()
    file, port = away_config(own_postgres, tmp_path, 'start_timeout = "60s"')
    with subprocess.Popen([SLUICE, "serve", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            assert "database main: " in process.stderr.readline()
            own_postgres.start()
            assert "database main: reached" in process.stderr.readline()
            assert process.stdout.readline().startswith("sluice ")
            for _ in range(2):
                process.stdout.readline()
            with Connection(port) as connection:
                assert json.loads(connection.get("/one").body) == [{"one": 1}]
        finally:
            process.terminate()


def test_a_host_name(sluice, own_postgres):
    named = config(own_postgres).replace("@127.0.0.1:", "@localhost:")
    assert "@localhost:" in named
    server = sluice(named)
    assert server.get("/numbers/1").status == 200
    own_postgres.stop("immediate")
    assert server.admin("/readyz")[0] == 503
    assert {server.get("/numbers/1").status for _ in range(32)} == {503}
    own_postgres.start()
    server.wait("/readyz")
    # The program is ready when every core is, whichever core accepts a connection.
    assert {server.get("/numbers/1").status for _ in range(16)} == {200}


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_host_name_that_nobody_knows(tmp_path, command):
    file = tmp_path / "nowhere.toml"
    file.write_text('[server]\nlisten = ["127.0.0.1:0"]\n[database.main]\nurl = "postgres://u@nobody.invalid/d"\n'
                    '[[endpoint]]\npath = "/one"\nget = "SELECT 1 AS one"\n')
    failed = subprocess.run([SLUICE, command, str(file)], capture_output=True, text=True, timeout=60)
    assert failed.returncode == 3, failed.stderr
    assert 'nowhere.toml:4:7: error: the host "nobody.invalid" cannot be resolved: ' in failed.stderr


def test_writes_that_fail_while_reads_succeed_are_logged_once(sluice, postgres):
    """Failed writes and successful reads alternate."""
    postgres.psql("DROP TABLE IF EXISTS filled; DROP TABLE IF EXISTS fullness; CREATE TABLE filled (n int PRIMARY KEY);"
                  "CREATE TABLE fullness AS SELECT true AS is_full;"
                  "CREATE OR REPLACE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                  "IF (SELECT is_full FROM fullness) THEN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END IF; "
                  "RETURN new; END $$;"
                  "CREATE TRIGGER fill BEFORE INSERT ON filled FOR EACH ROW EXECUTE FUNCTION fill()")
    server = sluice(f'''[database.main]
url = "{postgres.url()}"
[batch]
[[endpoint]]
path = "/filled"
get = "SELECT n FROM filled"
post = "INSERT INTO filled SELECT count(*) FROM filled"
[[endpoint]]
path = "/filled/set"
[endpoint.patch]
table = "filled"
set = true
columns.n = {{ key = true }}
''')
    json_type = "Content-Type: application/json"

    def read(connection):
        assert connection.get("/filled").status == 200
        assert connection.call("POST", "/batch", b'[{"method":"GET","path":"/filled"}]', json_type).status == 200

    writes = [("POST", "/filled", b""), ("PATCH", "/filled/set", b'[{"n":1}]'),
              ("POST", "/batch", b'[{"method":"GET","path":"/filled"},{"method":"POST","path":"/filled"}]')]
    with server.connect() as connection:
        for write in writes:
            time.sleep(1.1)  # longer than TroubleLog::quiet, so that a success would end the failure state
            read(connection)
            answer = connection.call(*write, json_type)
            assert answer.status == 503, (write, answer.status, answer.body)
        assert "database main, writing: 53100 no space; further failures" in server.log
        postgres.psql("UPDATE fullness SET is_full = false")
        end = time.monotonic() + 20
        while "answers again" not in server.log:
            assert time.monotonic() < end, server.log
            assert connection.call(*writes[0], json_type).status < 300
            time.sleep(0.05)
    lines = [line.split("sluice: ")[1] for line in server.log.splitlines() if "sluice: database" in line]
    assert len(lines) == 2 and lines[1].startswith("database main, writing: answers again; 3 requests failed"), lines


def test_an_outage_is_logged_once(sluice, own_postgres):
    server = sluice(config(own_postgres), server="cores = 1")
    assert server.get("/numbers/1").status == 200
    for _ in range(2):
        own_postgres.stop("immediate")
        for n in range(50):
            assert server.get(f"/numbers/{n + 1}").status == 503
        own_postgres.start()
        end = time.monotonic() + 20
        told = server.log.count("answers again")
        while server.log.count("answers again") == told:
            assert time.monotonic() < end, server.log
            server.get("/numbers/1")
            time.sleep(0.05)
    lines = [line for line in server.log.splitlines() if "sluice: " in line]
    assert all(": database main: " in line for line in lines), lines
    assert len(lines) == 4, lines


def test_a_write_whose_columns_have_changed_is_carried_out_once(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS once; CREATE TABLE once (id serial PRIMARY KEY, v text, m text); "
                  "CREATE TYPE once_a AS ENUM ('a'); CREATE TYPE once_b AS ENUM ('a')")
    server = sluice(f'[database.main]\nurl = "{postgres.url()}"\n[[endpoint]]\npath = "/once"\n'
                    'post = "INSERT INTO once (v) VALUES (:v) RETURNING id, v, m"\n'
                    '[[endpoint]]\npath = "/all"\n'
                    'post = "INSERT INTO once (v) VALUES (:v) RETURNING *"\n')
    written = 0
    for change in ("ALTER COLUMN m TYPE once_a USING m::once_a", "ALTER COLUMN m TYPE text",
                   "ALTER COLUMN m TYPE once_b USING m::once_b", "ADD COLUMN more once_a", "DROP COLUMN more"):
        postgres.psql(f"ALTER TABLE once {change}")
        for path in ("/once", "/all"):
            for _ in range(3):
                with server.connect() as client:
                    answer = client.call("POST", path, b'{"v":"x"}', "Content-Type: application/json")
                    assert answer.status == 201, answer.body
                written += 1
                assert int(postgres.psql("SELECT count(*) FROM once")) == written


@pytest.mark.parametrize("writes", [True, False])
def test_a_batch_after_a_change_of_its_tables_is_carried_out(sluice, postgres, writes):
    tables = [f"part{n}" for n in range(8)]
    postgres.psql("".join(f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id serial PRIMARY KEY, v text);"
                          for table in tables))
    server = sluice(f'[database.main]\nurl = "{postgres.url()}"\n[batch]\n' + "".join(
        f'[[endpoint]]\npath = "/{table}"\nget = "SELECT * FROM {table}"\n'
        f'post = "INSERT INTO {table} (v) VALUES (:v) RETURNING *"\n' for table in tables))
    call = {"method": "POST", "body": {"v": "x"}} if writes else {"method": "GET"}
    batch = json.dumps([call | {"path": f"/{table}"} for table in tables]).encode()
    with server.connect() as client:
        for n in range(4):
            for change in ("SELECT 1", f"ALTER TABLE {{}} ADD COLUMN c{n} int DEFAULT {n}"):
                postgres.psql("; ".join(change.format(table) for table in tables))
                answer = client.call("POST", "/batch", batch, "Content-Type: application/json")
                assert answer.status == 200, answer.body
                assert {each["status"] for each in json.loads(answer.body)} == ({201} if writes else {200})
    assert int(postgres.psql("SELECT count(*) FROM part7")) == (8 if writes else 0)


@pytest.mark.parametrize("path, body", [("/doubled", b"{}"), ("/changed", b"{}"), ("/gone", b"{}")])
def test_an_answer_that_is_too_long_writes_nothing(sluice, postgres, path, body):
    postgres.psql("DROP TABLE IF EXISTS long; CREATE TABLE long (id serial PRIMARY KEY, n int, t text); "
                  "INSERT INTO long (n, t) SELECT n, repeat('x', 900000) FROM generate_series(1, 20) n")
    server = sluice(f'[database.main]\nurl = "{postgres.url()}"\n'
                    '[[endpoint]]\npath = "/doubled"\npost = "INSERT INTO long (n, t) SELECT n, t FROM long RETURNING t"\n'
                    '[[endpoint]]\npath = "/changed"\npost = "UPDATE long SET n = 0 RETURNING t"\n'
                    '[[endpoint]]\npath = "/gone"\npost = "DELETE FROM long RETURNING t"\n')
    with server.connect() as client:
        assert client.call("POST", path, body, "Content-Type: application/json").status == 422
    assert postgres.psql("SELECT count(*), sum(n) FROM long").strip() == b"20|210"


STYLED = """
[batch]
[[endpoint]]
path = "/styled"
get = "SELECT id, score, octets, span, day FROM styled ORDER BY id"
[endpoint.put]
table = "styled"
existing = "SELECT id FROM styled"
columns.id = { key = true }
columns.score = {}
columns.octets = {}
columns.span = {}
columns.day = {}
[[endpoint]]
path = "/new"
post = "INSERT INTO styled SELECT id + 1, score, octets, span, day FROM styled RETURNING id, score, octets, span, day"
[[endpoint]]
path = "/text"
get = "SELECT score::text AS score, octets::text AS octets, span::text AS span, day::text AS day FROM styled WHERE id = 1"
"""


@pytest.mark.parametrize("keys", ["", "prepared = false"])
def test_values_do_not_depend_on_the_roles_settings(sluice, postgres, keys):
    postgres.psql("DROP TABLE IF EXISTS styled; DROP ROLE IF EXISTS styled; CREATE ROLE styled LOGIN;"
                  "CREATE TABLE styled (id int PRIMARY KEY, score float8, octets bytea, span interval, day date);"
                  "INSERT INTO styled VALUES (1, 0.1::float8 + 0.2::float8, '\\x00ff5c', '-1 year +2 days -03:04:05', '2024-12-31');"
                  "GRANT ALL ON styled TO styled;"
                  "ALTER ROLE styled SET extra_float_digits = 0; ALTER ROLE styled SET bytea_output = 'escape';"
                  "ALTER ROLE styled SET IntervalStyle = 'sql_standard'; ALTER ROLE styled SET DateStyle = 'German'")
    values = {"score": 0.30000000000000004, "octets": "\\x00ff5c", "span": "-1 years +2 days -03:04:05", "day": "2024-12-31"}
    server = sluice(f'[database.main]\nurl = "{postgres.url().replace("postgres@", "styled@")}"\n{keys}\n{STYLED}')
    stored = postgres.psql("SELECT id, score, octets, span, day FROM styled")
    with server.connect() as connection:
        got = connection.get("/styled")
        assert json.loads(got.body) == [{"id": 1, **values}]
        assert json.loads(connection.get("/text").body) == [{**values, "score": "0.30000000000000004"}]
        put = connection.call("PUT", "/styled", got.body, "Content-Type: application/json")
        assert json.loads(put.body)["unchanged"] == 1, put.body
        assert postgres.psql("SELECT id, score, octets, span, day FROM styled") == stored
        calls = json.dumps([{"method": "GET", "path": "/styled"}]).encode()
        batch = connection.call("POST", "/batch", calls, "Content-Type: application/json")
        assert json.loads(batch.body)[0]["body"] == [{"id": 1, **values}], batch.body
        new = connection.call("POST", "/new", b"")
        assert json.loads(new.body) == [{"id": 2, **values}], new.body


TRANSLATED = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/days"
get = "SELECT id FROM days WHERE id < :most::int AND day > :since::date"
post = "INSERT INTO days (id, day, doc) VALUES (:id, :day, :doc)"
[endpoint.put]
table = "days"
existing = "SELECT * FROM days"
columns.id = {{ key = true }}
columns.day = {{}}
columns.doc = {{}}
'''


# Japanese and Korean put the name of the table first, and Spanish has no dollar sign before a parameter's number.
@pytest.mark.parametrize("language", ["en", "de", "es", "ja", "ko"])
def test_errors_name_the_value_in_every_language(sluice, language):
    cluster = Postgres("lc_messages=C.UTF-8", language=language)
    try:
        with pytest.raises(RuntimeError) as refused:
            cluster.psql("SELECT 1 / 0")
        assert ("division by zero" in str(refused.value)) == (language == "en")
        cluster.psql("CREATE TABLE days (id int PRIMARY KEY, day date NOT NULL, doc jsonb)")
        server = sluice(TRANSLATED.format(url=cluster.url()))

        def refusal(status, method, target, body=None):
            with server.connect() as connection:
                data = json.dumps(body).encode() if body is not None else b""
                fields = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n" if body is not None else ""
                connection.send(f"{method} {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n".encode() + data)
                answer = connection.read()
            assert answer.status == status, answer.body
            problem = json.loads(answer.body)
            return [(fault["row"], fault["pointer"]) for fault in problem["errors"]] if body is not None else problem["detail"]

        assert refusal(400, "GET", "/days?most=9&since=never") == 'The parameter "since" does not fit its type.'
        good = {"id": 1, "day": "2024-01-01", "doc": {}}
        for method in ("POST", "PUT"):
            assert refusal(422, method, "/days", [good, {**good, "id": 2, "day": "never"}]) == [(1, "/1/day")]
            assert refusal(422, method, "/days", [good, {**good, "id": 2, "doc": "\x00"}]) == [(1, "/1/doc")]
        assert refusal(422, "PUT", "/days", [good, {**good, "id": 2, "day": None}]) == [(1, "/1/day")]
    finally:
        cluster.remove()


LIMITS = '''
[batch]
[database.main]
url = "{url}"
[[endpoint]]
path = "/limits"
post = "INSERT INTO limits (id, name, doc) VALUES (:id, :name, :doc)"
[endpoint.put]
table = "limits"
existing = "SELECT * FROM limits"
columns.id = {{ key = true }}
columns.name = {{}}
columns.doc = {{}}
[[endpoint]]
path = "/limits/{{id:int}}"
patch = "UPDATE limits SET name = :name, doc = :doc WHERE id = :id"
[endpoint.put]
table = "limits"
columns.id = {{ key = true, from = "path.id" }}
columns.name = {{}}
columns.doc = {{}}
[[endpoint]]
path = "/cast"
post = "INSERT INTO limits (id, doc) VALUES (:id, (:doc::text)::jsonb)"
'''
CSV, JSON = "text/csv", "application/json"


def test_values_beyond_a_limit_of_the_database_are_the_clients(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS limits; CREATE TABLE limits (id int PRIMARY KEY, name text, doc jsonb);"
                  "CREATE INDEX ON limits (name); INSERT INTO limits VALUES (1, 'a', '{}')")
    server = sluice(LIMITS.format(url=postgres.url()))
    name = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=20_000))
    doc = 50_000 * "[" + 50_000 * "]"

    def errors(method, target, body, media_type):
        data = body if isinstance(body, str) else json.dumps(body)
        with server.connect() as connection:
            connection.send(f"{method} {target} HTTP/1.1\r\nHost: test\r\nContent-Type: {media_type}\r\n"
                            f"Content-Length: {len(data)}\r\n\r\n{data}")
            answer = connection.read()
        assert answer.status == 422, (method, target, answer.status, answer.body)
        problem = json.loads(answer.body)
        if target == "/batch":
            problem = problem["answer"]["body"]
        return [(fault["row"], fault["pointer"], fault["detail"]) for fault in problem["errors"]]

    long, deep = "is too long", "is nested too deeply"
    rows = {long: f"2,b,[]\n3,{name},[]\n", deep: f"2,b,[]\n3,c,{doc}\n"}
    for method in ("POST", "PUT"):
        assert errors(method, "/limits", "id,name,doc\n" + rows[long], CSV) == [(1, "", long)]
        assert errors(method, "/limits", "id,name,doc\n" + rows[deep], CSV) == [(1, "doc", deep)]
    for method in ("PATCH", "PUT"):
        assert errors(method, "/limits/1", {"name": name, "doc": {}}, JSON) == [(0, "", long)]
        assert errors(method, "/limits/1", f"name,doc\na,{doc}\n", CSV) == [(0, "doc", deep)]
    assert errors("POST", "/cast", [{"id": 2, "doc": "[]"}, {"id": 3, "doc": doc}], JSON) == [(1, "/1", deep)]
    call = {"method": "POST", "path": "/limits", "body": [{"id": 2, "name": "b", "doc": {}}, {"id": 3, "name": name, "doc": {}}]}
    assert errors("POST", "/batch", [call], JSON) == [(1, "/1", long)]
    assert postgres.psql("SELECT id, name, doc FROM limits") == b"1|a|{}\n"


REFUSED = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/refused"
get = "SELECT id FROM refused"
post = "INSERT INTO refused (id) VALUES (:id)"
[[endpoint]]
path = "/raised/{{name}}"
get = "SELECT raises(:name) AS name"
[[endpoint]]
path = "/raised"
get = "SELECT raises('nobody') AS name"
[[endpoint]]
path = "/shown/{{name}}"
get = "SELECT raises(:name) AS name"
errors.P0001 = {{ status = 400, show_message = true }}
'''


def test_refusals_of_the_database_say_why(sluice, postgres):
    postgres.psql("""DROP TABLE IF EXISTS refused; CREATE TABLE refused (id int);
        DO $$ BEGIN CREATE ROLE refused_login LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        CREATE OR REPLACE FUNCTION raises(name text) RETURNS text LANGUAGE plpgsql AS
          $$ BEGIN RAISE EXCEPTION 'there is no %', name USING DETAIL = 'a secret'; END $$""")
    server = sluice(REFUSED.format(url=f"postgres://refused_login@127.0.0.1:{postgres.port}/postgres"), server="cores = 1")
    line = "endpoint /refused: 42501 permission denied for table refused"

    def detail(status, target, body=None):
        with server.connect() as connection:
            if body is None:
                answer = connection.get(target)
            else:
                connection.send(f"POST {target} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                                f"Content-Length: {len(body)}\r\n\r\n{body}")
                answer = connection.read()
        assert answer.status == status, (answer.status, answer.body)
        return json.loads(answer.body)["detail"]

    assert detail(403, "/refused") == "This is not permitted." and server.log.count(line) == 1, server.log
    assert detail(403, "/refused", '{"id": 1}') == "This is not permitted." and server.log.count(line) == 2, server.log
    assert detail(400, "/raised/ada") == detail(400, "/raised") == "The database refuses it."
    assert detail(400, "/shown/ada") == "there is no ada"
    assert "there is no" not in server.log


# SASLprep changes some of these, and PostgreSQL uses the others raw because RFC 4013 does not allow them.
PASSWORDS = ["pencil", "a\x07b \x7f", "I\u00adX", "a\u00a0b\u3000c", "pa\u0308sswo\u0308rd", "\u00aa", "\u2168", "\ufb01sh \uff21\u2460",
             "\u1112\u1161\u11ab", "\u3300", "\ufdfa", "\ufe8d\ufe90", "\u0627\u0628", "\u2168\x07", "\u2168\u0085", "\u2168\ue000",
             "\u2168\ufffd", "\u0627\u0031", "\u0627\u2168\u0628", "\u2168\u0221", "\u2168\U0001f600", "\u00ad"]


def test_passwords_are_prepared_as_postgresql_does(sluice, own_postgres):
    for i, password in enumerate(PASSWORDS):
        own_postgres.psql(f"CREATE ROLE login_{i} LOGIN PASSWORD '{password}'")
    with open(f"{own_postgres.data}/pg_hba.conf", "w") as rules:
        rules.write("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    own_postgres.psql("SELECT pg_reload_conf()")
    sections = []
    for i, password in enumerate(PASSWORDS):
        url = f"postgres://login_{i}:{urllib.parse.quote(password)}@127.0.0.1:{own_postgres.port}/postgres"
        sections.append(f'''
[database.d{i}]
url = "{url}"
[[endpoint]]
path = "/{i}"
database = "d{i}"
get = "SELECT current_user::text AS login"
''')
    server = sluice("".join(sections), server="cores = 1")
    for i in range(len(PASSWORDS)):
        assert json.loads(server.get(f"/{i}").body) == [{"login": f"login_{i}"}]
