"""Sets through a real PgBouncer in transaction mode, where each transaction may have another session."""
import json
import os
import threading

import pytest

from cluster import PgBouncer
from http1 import Connection

PUTS = int(os.environ.get("SLUICE_POOLER_PUTS", "200"))
CLIENTS = 8

TABLES = """
    DROP TABLE IF EXISTS reds, blues;
    CREATE TABLE reds (owner text, name text, weight int CHECK (weight >= 0), PRIMARY KEY (owner, name));
    CREATE TABLE blues (owner text, name text, weight int CHECK (weight >= 0), PRIMARY KEY (owner, name));"""

ENDPOINT = """
[[endpoint]]
path = "/{table}/{{owner}}"
get = "SELECT name, weight FROM {table} WHERE owner = :owner ORDER BY name"
[endpoint.put]
table = "{table}"
existing = "SELECT name FROM {table} WHERE owner = :owner"
columns.owner = {{ key = true, from = "path.owner" }}
columns.name = {{ key = true }}
columns.weight = {{}}
body_limit = "16MiB"
[endpoint.patch]
table = "{table}"
set = true
columns.owner = {{ key = true, from = "path.owner" }}
columns.name = {{ key = true }}
columns.weight = {{}}
"""


def config(pooler):
    database = f'[database.main]\nurl = "{pooler.url()}"\nprepared = false\nwait = "20s"\n'
    return database + ENDPOINT.format(table="reds") + ENDPOINT.format(table="blues")


def send(connection, method, target, rows):
    return connection.call(method, target, json.dumps(rows).encode(), "Content-Type: application/json")


def rows_of(answer):
    """The rows that a 422 refuses."""
    assert answer.status == 422, answer.body
    return [error["row"] for error in json.loads(answer.body)["errors"]]


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.timeout(300)
def test_sets_of_two_tables_at_once_keep_to_their_own(sluice, postgres, size):
    postgres.psql(TABLES)
    wrong = []

    def work(server, client):
        table = "reds" if client % 2 == 0 else "blues"
        with Connection(server.port, timeout=60) as connection:
            for turn in range(PUTS // CLIENTS):
                rows = [{"name": f"{table} {client} {n}", "weight": turn} for n in range(1 + turn % 5)]
                while (answer := send(connection, "PUT", f"/{table}/{client}", rows)).status == 409:
                    pass  # serializable transactions that touch the same page
                if answer.status != 200:
                    wrong.append((answer.status, answer.body))
                    return
                there = connection.get(f"/{table}/{client}")
                if there.status != 200 or json.loads(there.body) != rows:
                    wrong.append((table, client, turn, there.status, there.body))
                    return

    with PgBouncer(postgres, size) as pooler:
        server = sluice(config(pooler))
        threads = [threading.Thread(target=work, args=(server, client)) for client in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.stop()
    assert not wrong, wrong[:3]
    for table in ("reds", "blues"):
        strangers = postgres.psql(f"SELECT count(*) FROM {table} WHERE name NOT LIKE '{table} %'")
        assert strangers == b"0\n"
        assert int(postgres.psql(f"SELECT count(DISTINCT owner) FROM {table}")) == CLIENTS // 2


def test_refused_rows_are_named(sluice, postgres):
    postgres.psql(TABLES)
    with PgBouncer(postgres, 2) as pooler:
        server = sluice(config(pooler))
        with Connection(server.port) as connection:
            assert send(connection, "PUT", "/reds/a", [{"name": "x", "weight": 1}]).status == 200
            bad = [{"name": "y", "weight": 1}, {"name": "z", "weight": -1}]
            for method in ("PUT", "PATCH"):
                assert rows_of(send(connection, method, "/reds/a", bad)) == [1]
            assert rows_of(send(connection, "PUT", "/reds/a", [{"name": "y", "weight": 1}] * 2)) == [1]
            assert send(connection, "PUT", "/reds/a?dry-run", [{"name": "y", "weight": 1}]).status == 200
            assert send(connection, "PATCH", "/reds/a", [{"name": "w", "weight": 5}]).status == 200
            there = [{"name": "w", "weight": 5}, {"name": "x", "weight": 1}]
            assert json.loads(connection.get("/reds/a").body) == there
        server.stop()


def test_a_large_set_streams_into_its_one_transaction(sluice, postgres):
    postgres.psql(TABLES)
    rows = [{"name": f"{n:06} {'x' * 80}", "weight": n} for n in range(40_000)]
    with PgBouncer(postgres, 2) as pooler:
        server = sluice(config(pooler))
        with Connection(server.port, timeout=50) as connection:
            assert send(connection, "PUT", "/reds/a", rows).status == 200
            assert int(postgres.psql("SELECT count(*) FROM reds")) == len(rows)
            rows[30_000]["weight"] = -1
            assert rows_of(send(connection, "PUT", "/reds/a", rows)) == [30_000]
            assert int(postgres.psql("SELECT count(*) FROM reds WHERE weight < 0")) == 0
        server.stop()
