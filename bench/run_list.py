#!/usr/bin/env python3
"""A list of 20 rows by a filter and a sort key, [endpoint.list] beside the same statement written by hand, from SQLite and PostgreSQL.

The two endpoints of one server are asked in turn. Their cost is the CPU time of Sluice and, with PostgreSQL, of its sessions too.
usage: run_list.py [--rounds N] [--seconds S] [--rows N]
"""
import argparse
import json
import os
import pathlib
import sqlite3
import subprocess

from harness import descendants, fetch, folder, median, postgres, sluice, tell
from http_clients import wrk

SCHEMA = ("CREATE TABLE films (id INTEGER PRIMARY KEY, slug TEXT NOT NULL, name TEXT NOT NULL, adult BOOLEAN NOT NULL, "
          "popularity {real} NOT NULL, released TEXT NOT NULL)")
INDEX = "CREATE INDEX films_popularity ON films (popularity, id)"
CONFIG = '''
[database.{name}]
url = "{url}"
pool = 2
[[endpoint]]
path = "/{name}/hand"
database = "{name}"
get = """SELECT id, slug, name, adult, popularity, released FROM films
WHERE adult = :adult AND popularity >= :least ORDER BY popularity, id LIMIT :limit"""
params = {{ adult = "bool", least = "real", limit = "int" }}
[[endpoint]]
path = "/{name}/list"
database = "{name}"
get = "SELECT id, slug, name, adult, popularity, released FROM films"
[endpoint.list]
filter = ["adult", "popularity"]
sort = ["popularity"]
order = "id"
'''
QUERIES = {"hand": "adult=false&least=%s&limit=20", "list": "adult=false&popularity=gte.%s&sort=popularity&limit=20"}


def fill(where, rows):
    values = [(n, f"film-{n}", f"The film number {n}", n % 3 == 0, n * 7919 % rows / 10, f"20{n % 90 + 10}-01-01")
              for n in range(rows)]
    with sqlite3.connect(where / "films.db") as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(SCHEMA.format(real="REAL"))
        database.executemany("INSERT INTO films VALUES (?, ?, ?, ?, ?, ?)", values)
        database.execute(INDEX)
    database.close()
    cluster = postgres()
    (where / "films.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in values))
    cluster.psql(SCHEMA.format(real="float8"))
    subprocess.run(["psql", "-q", "-d", cluster.url(), "-c", f"\\copy films FROM '{where}/films.tsv'"], check=True)
    cluster.psql(f"{INDEX}; VACUUM ANALYZE films")
    return cluster


def script(where, name, kind, rows):
    """Requests that begin at a hundred different values; each page has 20 rows."""
    file = where / f"{name}-{kind}.lua"
    target = f"/{name}/{kind}?{QUERIES[kind]}" % '" .. (i * 37 % 100) * {} .. "'.format(rows // 2000)
    file.write_text(f'''local requests, at = {{}}, 0
init = function(args)
  for i = 1, 100 do requests[i] = "GET {target} HTTP/1.1\\r\\nHost: bench\\r\\n\\r\\n" end
end
request = function() at = at % 100 + 1; return requests[at] end
''')
    return file


def sessions_cpu_seconds(cluster):
    """CPU time of the cluster's processes that run now."""
    total = 0
    for pid in descendants(int((pathlib.Path(cluster.data) / "postmaster.pid").read_text().split()[0])):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=100_000)
    args = parser.parse_args()

    where = folder()
    cluster = fill(where, args.rows)
    urls = {"sqlite": f"sqlite:{where}/films.db",
            "postgres": f"postgres://postgres@/postgres?host={cluster.folder}&port={cluster.port}"}
    program = sluice("".join(CONFIG.format(name=name, url=url) for name, url in urls.items()), where, cores=1)
    for name in urls:
        bodies = [json.loads(fetch(program.port, f"/{name}/{kind}?" + QUERIES[kind] % 40)[1]) for kind in QUERIES]
        if bodies[0] != bodies[1] or len(bodies[0]) != 20:
            raise SystemExit(f"{name}: the answers differ: {bodies}")
        costs = {kind: [] for kind in QUERIES}
        servers = {kind: [] for kind in QUERIES}
        for round_ in range(args.rounds + 1):
            for kind in QUERIES if round_ % 2 else reversed(QUERIES):
                before = program.cpu_seconds(), sessions_cpu_seconds(cluster)
                told = wrk(program.port, "/", 16, args.seconds, script=script(where, name, kind, args.rows))
                after = program.cpu_seconds(), sessions_cpu_seconds(cluster)
                if told["errors"]:
                    raise SystemExit(f"{name} {kind}: {told}")
                if round_ == 0:
                    continue  # warms up
                costs[kind].append(1e6 * (after[0] - before[0]) / told["requests"])
                servers[kind].append(1e6 * (after[0] - before[0] + after[1] - before[1]) / told["requests"])
        hand, made = median(costs["hand"]), median(costs["list"])
        figures = {"hand_cpu_us": round(hand, 2), "list_cpu_us": round(made, 2), "ratio": round(made / hand, 3)}
        if name == "postgres":
            with_server = {kind: median(values) for kind, values in servers.items()}
            figures["with_server_ratio"] = round(with_server["list"] / with_server["hand"], 3)
            figures["with_server_hand_cpu_us"] = round(with_server["hand"], 2)
        tell(case=f"list-{name}", goal=1.05, **figures)


main()
