"""Statements that fail: before the first rows the answer is an error, after them the answer is cut. On both databases."""
import json
import sqlite3
import time

import pytest

from http1 import Broken

ROWS = 20_000

CONFIG = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/first"
get = "SELECT n, text, {fails_at_1} FROM sequence ORDER BY n"
[[endpoint]]
path = "/sorted"
get = "SELECT {fails_at_1} AS value FROM sequence ORDER BY value DESC"
[[endpoint]]
path = "/object"
returns = "object"
get = "SELECT n, {fails_at_1} AS value FROM sequence WHERE n = 1"
[[endpoint]]
path = "/last"
get = "SELECT n, text, {fails_at_last} FROM sequence ORDER BY n"
[[endpoint]]
path = "/endless"
timeout = "300ms"
get = "{endless}"
[[endpoint]]
path = "/all"
get = "SELECT n FROM sequence ORDER BY n"
'''


@pytest.fixture(params=["sqlite", "postgres"])
def server(request, sluice, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "failures.db"
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE sequence (n INTEGER PRIMARY KEY, text TEXT)")
            database.executemany("INSERT INTO sequence VALUES (?, ?)", [(n, "x" * 100) for n in range(1, ROWS + 1)])
        database.close()
        words = {"url": f"sqlite:{path}",
                 # abs() of the smallest integer overflows.
                 "fails_at_1": "abs(CASE n WHEN 1 THEN -9223372036854775807 - 1 ELSE n END)",
                 "fails_at_last": f"abs(CASE n WHEN {ROWS} THEN -9223372036854775807 - 1 ELSE n END)",
                 "endless": "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) "
                            "SELECT i FROM c WHERE i < 0"}
    else:
        postgres = request.getfixturevalue("postgres")
        postgres.psql("DROP TABLE IF EXISTS sequence; CREATE TABLE sequence (n bigint PRIMARY KEY, text text);"
                      f"INSERT INTO sequence SELECT n, repeat('x', 100) FROM generate_series(1, {ROWS}) n")
        words = {"url": postgres.url(), "fails_at_1": "1 / (n - 1)", "fails_at_last": f"1 / (n - {ROWS})",
                 "endless": "SELECT pg_sleep(60)"}

    return sluice(CONFIG.format(**words))


def is_problem(answer, status):
    return (answer.status == status and answer.media_type == "application/problem+json" and
            json.loads(answer.body)["status"] == status and b"sequence" not in answer.body)


def test_before_the_first_rows_a_failure_is_500(server):
    with server.connect() as connection:
        for target in ("/first", "/first.json", "/first.csv", "/first.ndjson", "/first.csj", "/sorted", "/object"):
            for fields in ((), ("TE: trailers",)):
                assert is_problem(connection.get(target, *fields), 500), target
            assert connection.get(target, method="HEAD").status == 500
        assert len(json.loads(connection.get("/all").body)) == ROWS


def test_after_the_first_rows_the_stream_is_cut(server):
    for form in ("json", "csv", "ndjson", "csj"):
        with server.connect() as connection:
            connection.send(f"GET /last.{form} HTTP/1.1\r\nHost: test\r\n\r\n")
            with pytest.raises(Broken):
                connection.read()
    assert len(json.loads(server.get("/all").body)) == ROWS


SORTED = """
[[endpoint]]
path = "/{path}"
get = "SELECT text, n FROM sequence ORDER BY text, n DESC OFFSET 19999"
post = "INSERT INTO sorted SELECT n FROM (SELECT text, n FROM sequence ORDER BY text, n DESC OFFSET 19999) AS rows"
{errors}
"""


@pytest.mark.parametrize("keys", ["", "prepared = false"])
def test_a_limit_of_the_servers_configuration_is_no_outage(sluice, postgres, keys):
    """A statement that exceeds temp_file_limit (53400) exceeds it again, so the client is not asked to retry."""
    postgres.psql("DROP TABLE IF EXISTS sorted, sequence; CREATE TABLE sequence (n bigint PRIMARY KEY, text text);"
                  f"INSERT INTO sequence SELECT n, repeat('x', 100) FROM generate_series(1, {ROWS}) n;"
                  "CREATE TABLE sorted (n bigint); DROP ROLE IF EXISTS limited; CREATE ROLE limited LOGIN;"
                  "GRANT ALL ON sequence, sorted TO limited;"
                  "ALTER ROLE limited SET temp_file_limit = '64kB'; ALTER ROLE limited SET work_mem = '64kB'")
    server = sluice(f'[database.main]\nurl = "{postgres.url().replace("postgres@", "limited@")}"\n{keys}\n[batch]\n' +
                    SORTED.format(path="plain", errors="") +
                    SORTED.format(path="mapped", errors='errors.53400 = { status = 507, title = "Too large" }'))
    batch = json.dumps([{"method": "GET", "path": "/plain"}]).encode()
    with server.connect() as connection:
        for answer in (connection.get("/plain"), connection.call("POST", "/plain", b""),
                       connection.call("POST", "/batch", batch, "Content-Type: application/json")):
            assert is_problem(answer, 500), (answer.status, answer.body)
            assert answer.get("Retry-After") is None
        for answer in (connection.get("/mapped"), connection.call("POST", "/mapped", b"")):
            assert is_problem(answer, 507) and json.loads(answer.body)["title"] == "Too large", answer.body
    assert "endpoint /plain: 53400 temporary file size exceeds" in server.log
    assert "when it recovers" not in server.log


def test_what_takes_too_long_before_the_first_rows_is_504(server):
    begun = time.monotonic()
    answer = server.get("/endless")
    assert is_problem(answer, 504)
    assert 0.2 < time.monotonic() - begun < 15
    assert is_problem(server.get("/endless.csv"), 504)
    assert len(json.loads(server.get("/all").body)) == ROWS
