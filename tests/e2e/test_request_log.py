"""[request_log]: requests become rows of a table, without their credentials, on both databases."""
import json
import re
import sqlite3
import subprocess
import time

import pytest

import http2
from conftest import SLUICE
from tokens import Secret, soon

SECRET = Secret()
CONFIG = '''
[policy.auth]
type = "jwt"
secret = "{secret}"
optional = true
[database.main]
url = "{url}"
[request_log]
table = "requests"
every = "20ms"
redact = ["x-pin", "pin"]
{more}
[[endpoint]]
path = "/films/{{slug}}"
query = "any"
use = ["auth"]
returns = "object"
get = "SELECT cast(:slug AS text) AS slug"
'''
COLUMNS = "time {time}, client text, method text, target text, path text, query text, route text, host text, user_agent " \
          "text, headers {json}, subject text, status int, bytes int, duration_us int, broken boolean, note text DEFAULT 'n'"


class Log:
    def __init__(self, kind, url, query):
        self.kind, self.url, self.query = kind, url, query

    def rows(self, what, count):
        """Waits for `count` rows and returns them as objects."""
        columns = what.split(", ")
        end = time.monotonic() + 10
        while time.monotonic() < end:
            found = self.query(columns)
            if len(found) >= count:
                return found
            time.sleep(0.02)
        raise AssertionError(f"{len(found)} rows: {found}")


@pytest.fixture(params=["sqlite", "postgres"])
def log(request, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "log.db"
        with sqlite3.connect(path) as database:
            database.execute(f"CREATE TABLE requests ({COLUMNS.format(time='text', json='text')})")
        database.close()

        def query(columns):
            opened = sqlite3.connect(path, timeout=10)
            try:
                rows = opened.execute(f"SELECT {', '.join(columns)} FROM requests ORDER BY time, rowid").fetchall()
            finally:
                opened.close()
            return [dict(zip(columns, row)) for row in rows]
        return Log("sqlite", f"sqlite:{path}", query)
    postgres = request.getfixturevalue("postgres")
    postgres.psql("DROP TABLE IF EXISTS requests; "
                  f"CREATE TABLE requests ({COLUMNS.format(time='timestamptz', json='jsonb')})")

    def query(columns):
        text = postgres.psql(f"SELECT to_json(r) FROM (SELECT {', '.join(columns)} FROM requests ORDER BY time) r").decode()
        return [json.loads(line) for line in text.splitlines()]
    return Log("postgres", postgres.url(), query)


def wait_for_metric(server, line):
    end = time.monotonic() + 10
    while line not in server.admin("/metrics")[1]:
        assert time.monotonic() < end, server.admin("/metrics")[1]
        time.sleep(0.02)


def test_requests_become_rows_without_credentials(sluice, log):
    server = sluice(CONFIG.format(url=log.url, secret=SECRET.secret, more=""))
    token = SECRET.token(soon(sub="ada"))
    server.get("/films/alien?x=1&access_token=hush-1&pin=hush-2", f"Authorization: Bearer {token}", "Cookie: session=hush-3",
               "X-Pin: hush-4", "User-Agent: \u00e9 \"quoted\"", "X-Api-Key: hush-5",
               "Referer: http://u:hush-7@a/?y=2&pin=hush-6", "X-Auth-Key: hush-8")
    server.get("/none")
    with server.connect() as connection:
        connection.send(b"no request\r\n\r\n")
        connection.read()
    what = "method, target, path, query, route, status, headers, subject, user_agent, client, bytes, broken, note, duration_us, time"
    found = sorted(log.rows(what, 3), key=lambda row: row["status"])
    alien, broken, none = found
    assert (alien["method"], alien["path"], alien["route"], alien["status"]) == ("GET", "/films/alien", "/films/{slug}", 200)
    assert alien["target"] == "/films/alien?x=1&access_token=***&pin=***"
    assert alien["query"] == "x=1&access_token=***&pin=***"
    assert (alien["subject"], alien["client"], alien["note"]) == ("ada", "127.0.0.1", "n")
    assert alien["bytes"] == len('{"slug":"alien"}\n') and not alien["broken"] and alien["duration_us"] > 0
    headers = json.loads(alien["headers"]) if log.kind == "sqlite" else alien["headers"]
    assert (headers["authorization"], headers["cookie"], headers["x-pin"], headers["x-api-key"],
            headers["x-auth-key"]) == ("***",) * 5
    assert headers["referer"] == "http://***@a/?y=2&pin=***"
    assert headers["user-agent"] == alien["user_agent"]
    assert (none["path"], none["route"], none["status"]) == ("/none", None, 404)
    assert (broken["method"], broken["path"], broken["status"]) == (None, None, 400)
    assert "hush" not in json.dumps(found) and token not in json.dumps(found)
    assert time.strftime("%Y-%m-%d", time.gmtime())[:8] in alien["time"]
    wait_for_metric(server, "sluice_request_log_rows_total 3")


SPELLINGS = ["token", "access_token", "Password", "api_key", "API-KEY", "client_secret", "sig", "%74oken", "pass%77ord", "pin",
             "%2574oken", "pass%252577ord", "%25%37%34oken"]

AGENTS = {"bot (+https://ada:hush@h/)": "bot (+https://***@h/)", "bot https://h/?token=hush": "bot https://h/?token=***"}


def test_both_logs_hide_the_same(sluice, log):
    server = sluice(CONFIG.format(url=log.url, secret=SECRET.secret, more=""), server='access_log = "stdout"')
    targets = [f"/films/alien?x=1&{name}=hush&y=2" for name in SPELLINGS]
    targets += ["/films/alien?token%3Dhush", "/films/alien?token:hush", "/films/alien?next=%2Fa%3Ftoken%3Dhush"]
    targets += ["/films/alien?x=1&u=https://ada:hush@h/", "/films/alien?u=https%3A%2F%2Fada:hush%40h/"]
    targets += ["/films/alien?next=/a?token=hush", "/films/alien?x=1;token=hush", "/none?token=hush", "/films/alien?token=a?hush;hush"]
    with server.connect() as connection, http2.Client(server.port) as client:
        for target in targets:
            connection.get(target)
            client.get(target)
        connection.get(f"http://test{targets[0]}")
        for agent in AGENTS:
            connection.get(targets[0], f"User-Agent: {agent}")
    count = 2 * len(targets) + 1 + len(AGENTS)
    rows = log.rows("target, query, user_agent", count)
    server.stop()
    lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    agents = [line["user_agent"] for line in lines if line["user_agent"]]
    assert sorted(agents) == sorted(row["user_agent"] for row in rows if row["user_agent"]) == sorted(AGENTS.values())
    lines = [line["target"] for line in lines]
    shown = [f"/films/alien?x=1&{name}=***&y=2" for name in SPELLINGS]
    shown += ["/films/alien?token%3D***", "/films/alien?token:***", "/films/alien?next=%2Fa%3Ftoken%3D***"]
    shown += ["/films/alien?x=1&u=https://***@h/", "/films/alien?u=https%3A%2F%2F***%40h/"]
    shown += ["/films/alien?next=/a?token=***", "/films/alien?x=1;token=***", "/none?token=***", "/films/alien?token=***"]
    assert sorted(lines) == sorted(shown * 2 + [f"http://test{shown[0]}"] + [shown[0]] * len(AGENTS))
    assert sorted(row["target"] for row in rows) == sorted(lines)
    assert all(row["query"] == row["target"].partition("?")[2] for row in rows)
    assert "hush" not in json.dumps(rows) and "hush" not in server.log


CREDENTIALS = '''
[database.main]
url = "{url}"
[request_log]
table = "requests"
every = "20ms"
[errors]
22xxx = 500
42601 = 500
P0001 = {{ status = 500, show_message = false }}
[[endpoint]]
path = "/header"
get = "{get}"
params.value.from = "header.authorization"
[[endpoint]]
path = "/cookie"
get = "{get}"
params.value.from = "cookie.sid"
[[endpoint]]
path = "/query"
get = "{get}"
params.value.from = "query.token"
[[endpoint]]
path = "/guard"
get = "SELECT 1 AS one"
require = "exists({exists})"
params.value.from = "header.authorization"
[[endpoint]]
path = "/write"
post = "{post}"
[[endpoint]]
path = "/whole"
post = "{whole}"
params.row.from = "body"
[[endpoint]]
path = "/typed"
get = "SELECT 1 AS one WHERE 1 = :number"
params.number = {{ from = "header.authorization", type = "int" }}
[[endpoint]]
path = "/plain"
get = "{get}"
params.value.from = "header.x-name"
[batch]
path = "/batch"
'''
# Each statement fails with a message that repeats the value.
REPEATING = {
    "sqlite": {"get": "SELECT json_extract('{}', :value) AS x", "exists": "SELECT 1 WHERE json_extract('{}', :value) = 1",
               "post": "INSERT INTO refusing SELECT json_extract('{}', :password)",
               "whole": "INSERT INTO refusing SELECT json_extract('{}', :row)"},
    "postgres": {"get": "SELECT cast(cast(:value AS text) AS int) AS x",
                 "exists": "SELECT 1 WHERE cast(cast(:value AS text) AS int) = 1", "post": "INSERT INTO refusing VALUES (:password)",
                 "whole": "INSERT INTO refusing VALUES (cast(:row AS text))"}}
REFUSES = """CREATE TABLE IF NOT EXISTS refusing (x text);
CREATE OR REPLACE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not %', NEW.x; END $$;
CREATE OR REPLACE TRIGGER refuses BEFORE INSERT ON refusing FOR EACH ROW EXECUTE FUNCTION refuses()"""


def test_a_credential_that_a_statement_takes_reaches_no_log_and_no_answer(sluice, log, request):
    if log.kind == "sqlite":
        with sqlite3.connect(log.url.removeprefix("sqlite:")) as database:
            database.execute("CREATE TABLE refusing (x)")
        database.close()
    else:
        request.getfixturevalue("postgres").psql(REFUSES)
    server = sluice(CREDENTIALS.format(url=log.url, **REPEATING[log.kind]), server='access_log = "stdout"')
    authorization, json_type = "Authorization: Bearer hush", "Content-Type: application/json"
    with server.connect() as connection:
        answers = [connection.get("/header", authorization), connection.get("/cookie", "Cookie: sid=hush"),
                   connection.get("/query?token=hush"), connection.get("/guard", authorization),
                   connection.call("POST", "/write", b'{"password":"hush"}', json_type),
                   connection.call("POST", "/batch", b'[{"method":"POST","path":"/write","body":{"password":"hush"}}]', json_type)]
        answers.append(connection.call("POST", "/whole", b'{"password":"hush"}', json_type))
        assert [answer.status for answer in answers] == [500] * 7, server.log
        typed = connection.get("/typed", authorization)
        assert typed.status == 400
        # A message without a credential is logged as usual.
        assert connection.get("/plain", "X-Name: said").status == 500
    assert not any(b"hush" in answer.body for answer in [*answers, typed])
    rows = log.rows("target, headers, status", 9)
    server.stop()
    assert "said" in server.log
    assert "hush" not in server.log and "hush" not in json.dumps(rows)
    for path in ("/header", "/cookie", "/query", "/guard", "/write", "/whole"):
        assert re.search(rf"endpoint {path}: .*\(the message is left out: the statement takes the credential ", server.log), path


def test_what_is_left_is_written_at_the_end(sluice, log):
    server = sluice(CONFIG.format(url=log.url, secret=SECRET.secret, more="").replace("20ms", "1h"))
    with server.connect() as connection:
        for n in range(300):
            assert connection.get(f"/films/{n}").status == 200
    assert log.query(["status"]) == []
    server.stop()
    assert sorted(int(row["path"][7:]) for row in log.rows("path", 300)) == list(range(300))


def test_the_end_of_grace_ends_a_statement(sluice, log, request):
    """A lock on the table lasts longer than the server, which ends nevertheless and logs what is lost."""
    server = sluice(CONFIG.format(url=log.url, secret=SECRET.secret, more=""), server='grace = "300ms"')
    if log.kind == "sqlite":
        blocker = sqlite3.connect(log.url.removeprefix("sqlite:"), isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        assert server.get("/films/alien").status == 200
        server.stop()
        blocker.close()
    else:
        postgres = request.getfixturevalue("postgres")
        blocker = subprocess.Popen(["psql", "-XAtq", postgres.url()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        blocker.stdin.write(b"BEGIN; LOCK TABLE requests; SELECT 'locked';\n")
        blocker.stdin.flush()
        assert blocker.stdout.readline() == b"locked\n"

        def wait_for_waiting(count):
            end = time.monotonic() + 10
            while int(postgres.psql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sluice' AND "
                                    "wait_event_type = 'Lock' AND query LIKE 'INSERT%'")) != count:
                assert time.monotonic() < end
                time.sleep(0.02)
        try:
            assert server.get("/films/alien").status == 200
            wait_for_waiting(1)
            server.stop()
            wait_for_waiting(0)
        finally:
            blocker.communicate()
    assert log.query(["path"]) == []
    assert "request_log: table requests: 1 row was not written before the end" in server.log


def test_a_table_that_does_not_take_them(sluice, postgres):
    """Requests go on. Refused rows are dropped and counted, and no more rows wait than the queue holds."""
    postgres.psql("DROP TABLE IF EXISTS requests; CREATE TABLE requests (path text, status int)")
    server = sluice(CONFIG.format(url=postgres.url(), secret=SECRET.secret, more="queue = 5"))
    assert server.get("/films/1").status == 200
    postgres.psql("ALTER TABLE requests ADD CHECK (status <> 404)")
    assert server.get("/none").status == 404
    wait_for_metric(server, "sluice_request_log_dropped_total 1")
    assert "request_log: table requests" in server.log
    assert server.get("/films/2").status == 200
    end = time.monotonic() + 10
    while postgres.psql("SELECT count(*) FROM requests WHERE status = 200").strip() != b"2":
        assert time.monotonic() < end
        time.sleep(0.02)


def test_only_the_row_that_is_refused_is_lost(sluice, log, request):
    """The other rows of the statement are written. A NUL, which PostgreSQL's text cannot hold, is replaced."""
    if log.kind == "sqlite":
        with sqlite3.connect(log.url.removeprefix("sqlite:")) as database:
            database.executescript("DROP TABLE requests; CREATE TABLE requests (time text, path text, subject text, "
                                   "status int CHECK (status <> 404))")
        database.close()
    else:
        request.getfixturevalue("postgres").psql("ALTER TABLE requests ADD CHECK (status <> 404)")
    server = sluice(CONFIG.format(url=log.url, secret=SECRET.secret, more="").replace("20ms", "1h"))
    tokens = [SECRET.token(soon(sub=subject)) for subject in ("a\0da", "\\u0000")]
    with server.connect() as connection:
        for n in range(50):
            assert connection.get(f"/films/{n}", f"Authorization: Bearer {tokens[n % 2]}").status == 200
            if n % 20 == 7:
                assert connection.get(f"/none/{n}").status == 404
    server.stop()
    rows = log.rows("path, subject, status", 50)
    assert sorted((row["path"], row["subject"]) for row in rows) == sorted(
        (f"/films/{n}", ("a?da", "\\u0000")[n % 2]) for n in range(50))
    assert server.log.count("request_log: table requests") == 1, server.log


def check(tmp_path, config):
    file = tmp_path / "check.toml"
    file.write_text(config)
    done = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 3, done.stderr
    return done.stderr


def test_check_says_what_is_wrong(tmp_path):
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE other (a, b)")
    database.close()
    config = CONFIG.format(url=f"sqlite:{tmp_path}/a.db", secret=SECRET.secret, more="")
    assert 'there is no table "requests"' in check(tmp_path, config)
    assert "none of the columns" in check(tmp_path, config.replace('"requests"', '"other"'))
