"""The time limit of statements: `statement_timeout`, and `timeout`, which overrides it, on both databases."""
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import database_with

# Statements that read `slow` or write `slow_notes` exceed statement_timeout; preparing them does not. No call waits for a
# connection.
SCHEMA = {
    "sqlite": ["CREATE VIEW slow AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 2000000) "
               "SELECT count(*) AS n FROM c",
               "CREATE TABLE slow_notes (id integer PRIMARY KEY, text text)",
               "CREATE TRIGGER slowly AFTER INSERT ON slow_notes BEGIN SELECT n FROM slow; END"],
    "postgres": ["DROP TABLE IF EXISTS slow_notes", "DROP VIEW IF EXISTS slow",
                 "CREATE VIEW slow AS SELECT 1 AS n FROM pg_sleep(0.6)",
                 "CREATE TABLE slow_notes (id integer PRIMARY KEY, text text)",
                 "CREATE OR REPLACE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS "
                 "'BEGIN PERFORM n FROM slow; RETURN NULL; END'",
                 "CREATE TRIGGER slowly AFTER INSERT ON slow_notes FOR EACH ROW EXECUTE FUNCTION slowly()"],
}
CONFIG = '''
[database.main]
url = "{url}"
statement_timeout = "{statement_timeout}"
wait = "1m"
[batch]
{timeout}
[[endpoint]]
path = "/rows"
get = "SELECT n FROM slow"
{timeout}
[[endpoint]]
path = "/row"
returns = "object"
get = "SELECT n FROM slow"
{timeout}
[[endpoint]]
path = "/notes"
{timeout}
[endpoint.post]
table = "slow_notes"
columns.id = {{}}
columns.text = {{}}
[endpoint.put]
table = "slow_notes"
existing = "SELECT id FROM slow_notes WHERE text = 'none'"
columns.id = {{ key = true }}
columns.text = {{}}
'''
RESIDENT = '''
[[resident]]
name = "kept"
query = "SELECT n FROM slow"
timeout = "1m"
'''
CALLS = [("GET", "/rows", None), ("GET", "/row", None), ("POST", "/notes", {"id": 1}), ("PUT", "/notes", [{"id": 2}]),
         ("POST", "/batch", [{"method": "POST", "path": "/notes", "body": {"id": 3}},
                             {"method": "POST", "path": "/notes", "body": {"id": 4}}])]


@pytest.fixture(params=["sqlite", "postgres"])
def slow(request, sluice, tmp_path):
    url = database_with(request, tmp_path, SCHEMA[request.param])
    statement_timeout = "100ms" if request.param == "sqlite" else "400ms"
    return lambda timeout, behind="": sluice(
        CONFIG.format(url=url, statement_timeout=statement_timeout, timeout=timeout) + behind)


def statuses(server):
    def status(call):
        method, path, body = call
        data = b"" if body is None else json.dumps(body).encode()
        with server.connect(timeout=50) as connection:
            connection.send(f"{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                            f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
            return connection.read().status

    with ThreadPoolExecutor(len(CALLS)) as threads:
        return list(threads.map(status, CALLS))


def test_a_timeout_beyond_statement_timeout_holds(slow):
    server = slow('timeout = "1m"', RESIDENT)
    assert statuses(server) == [200, 200, 201, 200, 200]
    assert json.loads(server.get("/kept").body) == json.loads(server.get("/rows").body)


def test_without_a_timeout_statement_timeout_holds(slow):
    assert statuses(slow("")) == [504] * 5
