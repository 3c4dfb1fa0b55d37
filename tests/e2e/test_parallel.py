"""`parallel` of an endpoint: several connections read one table in one snapshot."""
import json
import random
import subprocess
import threading
import time

import pytest

from conftest import SLUICE
from http1 import Broken, Connection

ROWS = 40_000  # some 700 blocks: enough for several connections
RANGE = "WHERE ctid >= :ctid_from AND ctid < :ctid_to"
CONFIG = f'''
[database.main]
url = "{{url}}"
pool = 4
{{role}}
[[endpoint]]
path = "/plain"
get = "SELECT id, amount, note FROM parts"
[[endpoint]]
path = "/ordered"
get = "SELECT id, amount, note FROM parts {RANGE}"
parallel = 3
[[endpoint]]
path = "/unordered"
get = "SELECT id, amount, note FROM parts {RANGE}"
parallel = {{{{ connections = 3, ordered = false }}}}
[batch]
[[endpoint]]
path = "/wide/plain"
get = "SELECT id, amount, repeat(note, 8) AS note FROM parts"
[[endpoint]]
path = "/wide/ordered"
get = "SELECT id, amount, repeat(note, 8) AS note FROM parts {RANGE}"
parallel = 3
[[endpoint]]
path = "/wide/unordered"
get = "SELECT id, amount, repeat(note, 8) AS note FROM parts {RANGE}"
parallel = {{{{ connections = 3, ordered = false }}}}
[[endpoint]]
path = "/breaks"
get = "SELECT id, 1 / (id - {ROWS - 5000}) AS bad, note FROM parts {RANGE}"
parallel = 3
[[endpoint]]
path = "/large"
get = "SELECT id, repeat('y', 2000) AS text FROM parts {RANGE} AND id % :m::int = 0"
params.m = {{{{ default = 1 }}}}
parallel = {{{{ connections = 3, ordered = false }}}}
'''
IN_TRANSACTION = "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND application_name = 'sluice'"


def fill(cluster):
    cluster.psql(f"""
        SET client_min_messages = warning; DROP TABLE IF EXISTS parts;
        CREATE TABLE parts (id int PRIMARY KEY, amount int NOT NULL, note text NOT NULL);
        INSERT INTO parts SELECT n, 10, 'part ' || n || repeat('.', n % 180) FROM generate_series(1, {ROWS}) n""")
    cluster.psql("VACUUM ANALYZE parts")


@pytest.fixture
def parts(sluice, postgres):
    fill(postgres)
    yield sluice(CONFIG.format(url=postgres.url(), role=""))
    for _ in range(200):
        if postgres.psql(IN_TRANSACTION) == b"0\n":
            break
        time.sleep(0.05)
    assert postgres.psql(IN_TRANSACTION) == b"0\n"


def helpers(server):
    return sum(int(line.rsplit(" ", 1)[1]) for line in server.admin("/metrics")[1].splitlines()
               if line.startswith("sluice_postgres_helpers_total"))


def test_every_format_has_the_same_rows(parts):
    with parts.connect() as connection:
        for form in ("csv", "csj", "json", "ndjson"):
            plain = connection.get(f"/plain.{form}", "TE: trailers")
            ordered = connection.get(f"/ordered.{form}", "TE: trailers")
            unordered = connection.get(f"/unordered.{form}", "TE: trailers")
            assert plain.status == ordered.status == unordered.status == 200, parts.log
            assert ordered.body == plain.body
            if form == "json":
                assert sorted(map(str, json.loads(unordered.body))) == sorted(map(str, json.loads(plain.body)))
            else:
                assert sorted(unordered.body.splitlines()) == sorted(plain.body.splitlines())
            if form == "csv":
                assert unordered.body.startswith(b"id,amount,note")
            assert plain.trailer("Row-Count") == ordered.trailer("Row-Count") == unordered.trailer("Row-Count") == str(ROWS)
    assert helpers(parts) > 0
    refused = parts.get("/ordered?ctid_from=(100,0)&ctid_to=(0,0)")
    assert refused.status == 400 and json.loads(refused.body)["parameter"] == "ctid_from"


def test_an_answer_is_one_snapshot(parts, postgres):
    """Order and rows are those of the beginning, whatever others commit meanwhile; sums stay right."""
    with parts.connect() as connection:
        plain = connection.get("/wide/plain.csv").body  # more than the sockets buffer
    for path in ("/wide/ordered.csv", "/wide/unordered.csv"):
        fill(postgres)
        with parts.connect() as connection:
            connection.send(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")
            connection._more()  # the answer has begun
            postgres.psql("UPDATE parts SET amount = 11 WHERE id % 3 = 0; DELETE FROM parts WHERE id % 5 = 0;"
                          f"INSERT INTO parts SELECT n, 12, repeat('new', 50) FROM generate_series({ROWS + 1}, {ROWS + 9000}) n")
            postgres.psql("VACUUM parts")
            body = connection.read().body
        assert (body if path == "/wide/ordered.csv" else b"\n".join(sorted(body.splitlines()))) \
            == (plain if path == "/wide/ordered.csv" else b"\n".join(sorted(plain.splitlines())))

    fill(postgres)
    stop = threading.Event()
    failed = []

    def move(seed):
        chance = random.Random(seed)
        try:
            while not stop.is_set():
                giver, taker = chance.randrange(ROWS), chance.randrange(ROWS)
                postgres.psql(f"""
                    BEGIN; UPDATE parts SET amount = amount - 3 WHERE id % 50 = {giver % 50};
                    UPDATE parts SET amount = amount + 3 WHERE id % 50 = {giver % 50};
                    WITH gone AS (DELETE FROM parts WHERE id IN ({giver}) RETURNING amount)
                    INSERT INTO parts SELECT (SELECT max(id) FROM parts) + 1, amount, 'moved' FROM gone; COMMIT""")
        except RuntimeError as error:
            failed.append(str(error))

    writers = [threading.Thread(target=move, args=(1,))]
    for writer in writers:
        writer.start()
    try:
        with parts.connect() as connection:
            for _ in range(2):
                for path in ("/ordered.csv", "/unordered.csv"):
                    rows = [line.split(b",") for line in connection.get(path).body.splitlines()[1:]]
                    assert len(rows) == ROWS and len({row[0] for row in rows}) == ROWS
                    assert sum(int(row[1]) for row in rows) == 10 * ROWS
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert not failed


def test_clients_that_leave_and_ranges_that_fail(parts, postgres):
    for _ in range(3):
        with parts.connect() as connection:
            connection.send("GET /large HTTP/1.1\r\nHost: test\r\n\r\n")
            connection._more()
            assert int(postgres.psql(IN_TRANSACTION)) >= 1
    with parts.connect() as connection:
        with pytest.raises(Broken):
            connection.get("/breaks.csv")
    with parts.connect() as connection:
        assert connection.get("/large.csv?m=100").body.count(b"\n") == ROWS // 100 + 1
        assert connection.get("/large?m=x").status == 400
        # In a batch it is one statement of the batch's transaction, for the whole table.
        calls = json.dumps([{"method": "GET", "path": "/large.csv?m=10000"}])
        connection.send("POST /batch HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                        f"Content-Length: {len(calls)}\r\n\r\n{calls}")
        batch = json.loads(connection.read().body)
        assert batch[0]["status"] == 200 and batch[0]["body"].count("\n") == ROWS // 10_000 + 1
        head = connection.get("/ordered.csv", method="HEAD")
        assert head.status == 200 and head.media_type == "text/csv"


def test_requests_that_compete_all_end(parts):
    with parts.connect() as connection:
        plain = connection.get("/plain.csv").body
    answers = []

    def ask(path):
        with Connection(parts.port, timeout=60) as connection:
            answers.append((path, connection.get(path)))

    # Six requests for four connections, one of which is for short requests: some wait, but not without end.
    asking = [threading.Thread(target=ask, args=(path,)) for path in ("/ordered.csv", "/unordered.csv") * 3]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    assert len(answers) == 6
    for path, answer in answers:
        assert answer.status == 200, parts.log
        assert answer.body == plain or (path == "/unordered.csv" and
                                        sorted(answer.body.splitlines()) == sorted(plain.splitlines()))


def test_row_level_security_decides_on_each_connection(sluice, postgres):
    fill(postgres)
    postgres.psql("""
        DO $$ BEGIN CREATE ROLE even; CREATE ROLE odd; CREATE ROLE exporter LOGIN NOINHERIT; GRANT even, odd TO exporter;
        EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        GRANT SELECT ON parts TO even, odd; ALTER TABLE parts ENABLE ROW LEVEL SECURITY;
        CREATE POLICY evens ON parts TO even USING (id % 2 = 0); CREATE POLICY odds ON parts TO odd USING (id % 2 = 1)""")
    server = sluice(CONFIG.format(url=f"postgres://exporter@127.0.0.1:{postgres.port}/postgres",
                                  role='role = "header.x-role"'))
    with server.connect() as connection:
        for turn in range(4):
            for number, role in enumerate(("even", "odd")):
                rows = connection.get("/ordered.csv", f"X-Role: {role}").body.splitlines()[1:]
                assert len(rows) == ROWS // 2
                assert all(int(row.split(b",")[0]) % 2 == number for row in rows)
        assert connection.get("/ordered.csv", "X-Role: postgres").status == 403
    assert helpers(server) > 0


def test_a_standby_is_read_on_one_connection(sluice, postgres):
    """It cannot export a snapshot; all else is as on any server."""
    fill(postgres)
    standby = postgres.standby()
    try:
        server = sluice(CONFIG.format(url=standby.url(), role=""))
        with server.connect() as connection:
            plain = connection.get("/plain.csv").body
            assert plain.count(b"\n") == ROWS + 1
            for path in ("/ordered.csv", "/unordered.csv"):
                assert connection.get(path).body == plain
            assert connection.get("/large.csv?m=100").body.count(b"\n") == ROWS // 100 + 1
        assert helpers(server) == 0
        assert "as long as the server is a standby, table public.parts is read on one connection" in server.log
    finally:
        standby.remove()


CHECKS = [
    ('get = "SELECT id FROM parts {range} ORDER BY id"', "Sort"),
    ('get = "SELECT count(*) FROM parts {range}"', "Aggregate"),
    ('get = "SELECT id FROM parts {range} LIMIT :n"', "Limit"),
    ('get = "SELECT p.id FROM parts p, parts q WHERE p.ctid >= :ctid_from AND p.ctid < :ctid_to AND p.id = q.id"', "Join"),
    ('get = "SELECT id FROM parts"', "ctid >= :ctid_from AND ctid < :ctid_to"),
    ('get = "SELECT id, :ctid_from::tid FROM parts {range}"', ":ctid_from must stand once"),
    ('get = "SELECT id FROM parts {range}"\nreturns = "object"', "many rows"),
    ('get = "SELECT id FROM parts {range}"\nparams.ctid_to = {{ default = 1 }}', "set by"),
    ('post = "DELETE FROM parts"', "for \"get\""),
]


def test_check_says_why_a_statement_cannot_be_read_in_parallel(postgres, small_sqlite, tmp_path):
    fill(postgres)
    url = postgres.url()
    texts = [(f'path = "/x"\nparallel = 2\n{keys.format(range=RANGE)}', url, why) for keys, why in CHECKS]
    texts.append((f'path = "/x"\nparallel = 8\nget = "SELECT id FROM parts {RANGE}"', url, "pool = 8"))
    texts.append(('path = "/x"\nparallel = 2\nget = "SELECT n FROM numbers"', f"sqlite:{small_sqlite}", "PostgreSQL"))
    for endpoint, database, why in texts:
        file = tmp_path / "sluice.toml"
        file.write_text(f'[database.main]\nurl = "{database}"\n[[endpoint]]\n{endpoint}\n')
        checked = subprocess.run([SLUICE, "check", file], capture_output=True, text=True, timeout=30)
        assert checked.returncode == 3 and why in checked.stderr, (endpoint, checked.stderr)
