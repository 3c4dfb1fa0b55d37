"""[[resident]] with encode = "on-demand": the same answers as from a table that is encoded when it is loaded."""
import json
import re
import socket
import sqlite3
import subprocess
import time

import pytest

from test_resident import wait_for

ROWS = 30_000
# Quotes, line ends and NULLs; numbers, times, arrays, JSON.
SQLITE = f"""
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, roles JSON, score NUMERIC, joined TEXT, more JSON, gone BOOLEAN, changed INTEGER);
INSERT INTO users SELECT value, CASE WHEN value % 7 = 0 THEN NULL ELSE 'the "user" ' || value || char(10) END,
  CASE value % 3 WHEN 0 THEN '["admin","user"]' WHEN 1 THEN '["user"]' ELSE '[]' END, value % 100 / 4.0,
  datetime('2020-01-01', value || ' minutes'), json_object('n', value, 'words', json_array('a', NULL)), 0, 1
  FROM generate_series(1, {ROWS});
"""
POSTGRES = f"""
CREATE TABLE users AS SELECT id, CASE WHEN id % 7 <> 0 THEN 'the "user" ' || id || E'\\n' END AS name,
  CASE id % 3 WHEN 0 THEN ARRAY['admin', 'user'] WHEN 1 THEN ARRAY['user'] ELSE ARRAY[]::text[] END AS roles,
  (id % 100 / 4.0)::numeric(10, 2) AS score, timestamptz '2020-01-01' + id * interval '1 minute' AS joined,
  json_build_object('n', id, 'words', json_build_array('a', NULL)) AS more, false AS gone, 1 AS changed
FROM generate_series(1, {ROWS}) AS id;
ALTER TABLE users ADD PRIMARY KEY (id);
"""
TABLE = '''
[[resident]]
name = "{name}"
encode = "{encode}"
query = "SELECT id, name, roles, score, joined, more, changed FROM users WHERE NOT gone ORDER BY id"
key = "id"
index = ["roles", "score", "joined", "changed"]
csv = true
cache = {cache}
[resident.refresh]
every = "50ms"
changes = "SELECT * FROM users WHERE changed >= :since"
version = "changed"
deleted = "gone"
'''


@pytest.fixture(params=["sqlite", "postgres"])
def users(request, tmp_path, sluice):
    """A server with the same rows in both modes, and a function that executes SQL."""
    if request.param == "sqlite":
        path = tmp_path / "users.db"

        def execute(statements):
            with sqlite3.connect(path, timeout=10) as database:
                database.executescript(statements)
            database.close()
        execute("PRAGMA journal_mode = WAL")
        # Not every build of the module has generate_series().
        execute(SQLITE.replace(f"FROM generate_series(1, {ROWS})",
                               f"FROM (WITH RECURSIVE s(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM s "
                               f"WHERE value < {ROWS}) SELECT value FROM s)"))
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")
        name = f"users_{time.monotonic_ns()}"
        postgres.psql(f"CREATE DATABASE {name}")
        postgres.psql(POSTGRES, name)
        url = postgres.url(name)

        def execute(statements):
            postgres.psql(statements, name)
    config = f'[database.main]\nurl = "{url}"\n' + TABLE.format(name="encoded", encode="load", cache='"1MiB"') + \
        TABLE.format(name="packed", encode="on-demand", cache='"1MiB"')
    return sluice(config, server="cores = 2"), execute


def metric(server, name, table="packed"):
    return float(re.search(rf'^sluice_resident_{name}{{resident="{table}"}} (\S+)$', server.admin("/metrics")[1], re.M).group(1))


def answers(connection, target, *fields, method="GET"):
    """The answer of both modes, which must be the same except for the fields of the connection."""
    of = [connection.get(f"/{table}{target}", *fields, method=method) for table in ("encoded", "packed")]
    for one in of:
        body = one.body.replace(b"/encoded", b"/packed")  # a 404 names the path
        one.seen = (one.status, body, *[one.get(name) for name in ("etag", "content-type", "x-total-count", "vary")])
    assert of[0].seen == of[1].seen, (target, of[0].seen[0], of[1].seen[0], of[0].body[:300], of[1].body[:300])
    return of[1]


def test_both_modes_answer_the_same(users):
    server, execute = users
    with server.connect() as connection:
        for end in ("", ".ndjson", ".csj", ".csv"):
            for query in ("", "?roles=admin&limit=100", "?score=gte.20&sort=-joined,id&offset=5", "?fields=id,name&roles=admin",
                          "?fields=more&limit=3", "?fields=joined,id&limit=2500", "?sort=score&limit=3000", "?id=in.(7,1,99)"):
                assert answers(connection, f"{end}{query}").status == 200
            assert answers(connection, f"/77{end}").status == 200
            assert answers(connection, f"/78{end}?fields=roles,joined").status == 200
        # From the second time on, rows are cached one by one.
        kept = metric(server, "cache_bytes")
        for number in range(6):
            rows = json.loads(answers(connection, f"?fields=name,id&score=gte.{number}&limit=50").body)
            assert len(rows) == 50 and list(rows[0]) == ["name", "id"]
        assert metric(server, "cache_bytes") > kept
        for target, status in (("/0", 404), ("/78?fields=no", 400), ("?limit=x", 400), ("?name=x", 400), (".xml", 404)):
            assert answers(connection, target).status == status, target
        whole = answers(connection, "")
        assert len(json.loads(whole.body)) == ROWS
        assert answers(connection, "", f"If-None-Match: {whole.get('etag')}").status == 304
        assert answers(connection, "", 'If-Match: "other"').status == 412
        answers(connection, "/7", method="HEAD")
        answers(connection, "?roles=user", method="HEAD")
    run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", f"http://127.0.0.1:{server.port}/packed"], capture_output=True,
                         check=True)
    assert run.stdout == whole.body
    # The other core has encoded chunks. If it was too busy, the first core took them back, so this asks again.
    wait_for(lambda: server.get("/packed").body == whole.body and metric(server, "chunks_elsewhere_total") > 0)
    assert metric(server, "chunks_elsewhere_total", "encoded") == 0
    # The bytes are the same however the two cores share the work.
    with server.connect() as connection:
        for _ in range(30):
            assert connection.get("/packed").body == whole.body
    assert metric(server, "bytes") < 0.75 * metric(server, "bytes", "encoded")

    # Only the changed rows are read.
    execute("UPDATE users SET name = 'other', changed = 2 WHERE id IN (5, 6); UPDATE users SET gone = true, changed = 2 WHERE id = 7;"
            "INSERT INTO users SELECT 40000, 'new', roles, score, joined, more, gone, 2 FROM users WHERE id = 9")
    for table in ("packed", "encoded"):
        wait_for(lambda table=table: server.get(f"/{table}?changed=2").get("x-total-count") == "3")
    with server.connect() as connection:
        assert [row["id"] for row in json.loads(answers(connection, "?changed=2").body)] == [5, 6, 40000]
        assert json.loads(answers(connection, "/40000").body)["name"] == "new"
        assert answers(connection, "/7").status == 404
        assert answers(connection, "").get("etag") != whole.get("etag")
    assert metric(server, "partial_total") >= 1 and metric(server, "failures_total") == 0


def test_slow_and_leaving_clients(users):
    """New versions come while clients read their answers slowly or leave early."""
    server, execute = users
    wanted = server.get("/packed").body
    slow = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(8)]
    for client in slow:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.sendall(b"GET /packed HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    for version in (2, 3, 4):
        execute(f"UPDATE users SET score = {version}, changed = {version} WHERE id = 1")
        wait_for(lambda version=version: json.loads(server.get("/packed/1").body)["score"] == version)
    for client in slow[::2]:
        client.close()
    for client in slow[1::2]:
        # The whole answer is of the version that it began with.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        body = b"".join(iter(lambda client=client: client.recv(1 << 16), b""))
        assert body.count(b'"id":') >= wanted.count(b'"id":') - 1 and b'"changed":2' not in body and b'"changed":3' not in body
        client.close()
    assert metric(server, "failures_total") == 0
    assert server.get("/packed?limit=1").status == 200
