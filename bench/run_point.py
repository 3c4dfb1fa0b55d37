#!/usr/bin/env python3
"""One row by primary key over 64 keep-alive connections: from PostgreSQL beside pgbench -S, from SQLite beside a static file.

Everything may use every core, as pgbench does. PostgreSQL is read with one worker, as pgbench has one thread, and with a worker for
each core; with a Sync for each look-up, which is the default, and with up to sixteen look-ups for one Sync; and with a role for each
request and row-level security: one role, or fifty in turn, where one request in a hundred has a role that the login may not take.
usage: run_point.py [--rounds N] [--seconds S] [--scale S]
"""
import argparse
import re
import sqlite3
import subprocess

from harness import fetch, folder, median, postgres, sluice, tell
from http_clients import wrk

CONNECTIONS = 64
SQLITE_ROWS = 200_000
ROLES = 50


def script(where, name, rows, path=None, roles=0):
    """Requests for random rows, like pgbench's own; made before the run, so that Lua costs little during it."""
    role = f'"X-Role: " .. (i % 100 == 0 and "stranger" or "r" .. i % {roles}) .. "\\r\\n" ..' if roles else ""
    file = where / f"{name}.lua"
    file.write_text(f'''local requests, at, count = {{}}, 0, 100000
init = function(args)
  math.randomseed(1)
  for i = 1, count do
    requests[i] = "GET /{path or name}/" .. math.random({rows}) .. " HTTP/1.1\\r\\nHost: bench\\r\\n" .. {role} "\\r\\n"
  end
end
request = function() at = at % count + 1; return requests[at] end
''')
    return file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--scale", type=int, default=20)
    args = parser.parse_args()

    where = folder()
    (where / "site").mkdir()
    (where / "site/page.html").write_bytes(b"a" * 1500)
    with sqlite3.connect(where / "accounts.db") as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE accounts (aid INTEGER PRIMARY KEY, abalance INTEGER, filler TEXT)")
        database.executemany("INSERT INTO accounts VALUES (?, 0, ?)",
                             ((aid, " " * 84) for aid in range(1, SQLITE_ROWS + 1)))
    database.close()
    cluster = postgres()
    subprocess.run(["pgbench", "-i", "-q", "-s", str(args.scale), "-I", "dtgvp", cluster.url()], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    socket_url = f"postgres://postgres@/postgres?host={cluster.folder}&port={cluster.port}"
    roles = ", ".join(f"r{number}" for number in range(ROLES))
    cluster.psql("CREATE ROLE login LOGIN NOINHERIT; CREATE ROLE stranger;" +
                 "".join(f"CREATE ROLE r{number};" for number in range(ROLES)) +
                 f"GRANT {roles} TO login; GRANT SELECT ON pgbench_accounts TO {roles}, login;"
                 "ALTER TABLE pgbench_accounts ENABLE ROW LEVEL SECURITY;"
                 "CREATE POLICY seen ON pgbench_accounts USING (current_setting('request.method', true) = 'GET')")
    login_url = socket_url.replace("postgres@", "login@")
    config = f'''
[database.postgres]
url = "{socket_url}"
[database.batched]
url = "{socket_url}"
batch = 16
[database.roles]
url = "{login_url}"
role = "header.x-role"
[database.sqlite]
url = "sqlite:{where}/accounts.db"
[[endpoint]]
path = "/postgres/{{aid:int}}"
database = "postgres"
returns = "object"
get = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid"
[[endpoint]]
path = "/batched/{{aid:int}}"
database = "batched"
returns = "object"
get = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid"
[[endpoint]]
path = "/roles/{{aid:int}}"
database = "roles"
returns = "object"
get = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid"
[[endpoint]]
path = "/sqlite/{{aid:int}}"
database = "sqlite"
returns = "object"
get = "SELECT abalance FROM accounts WHERE aid = :aid"
[[files]]
path = "/"
root = "{where}/site"
'''
    one, all_cores = sluice(config, where, cores=1), sluice(config, where)
    for program in (one, all_cores):
        for target, body in (("/postgres/1", b'{"abalance":0}'), ("/batched/1", b'{"abalance":0}'),
                             ("/sqlite/1", b'{"abalance":0}'), ("/page.html", b"a" * 1500)):
            status, got = fetch(program.port, target)
            if status != 200 or got.replace(b" ", b"").strip() != body:
                raise SystemExit(f"{target} answers {status} {got[:200]!r}")
        for role, expected in (("r0", 200), (f"r{ROLES - 1}", 200), ("stranger", 403)):
            status, got = fetch(program.port, "/roles/1", "-H", f"X-Role: {role}")
            if status != expected or (status == 200) != (b"abalance" in got):
                raise SystemExit(f"/roles/1 answers {status} to {role}: {got[:200]!r}")

    pgbench = ["pgbench", "-n", "-S", "-M", "prepared", "-c", "8", "-j", "1", "-T", str(args.seconds), "-h", cluster.folder,
               "-p", str(cluster.port), "-U", "postgres", "postgres"]

    def tps():
        text = subprocess.run(pgbench, capture_output=True, text=True, check=True).stdout
        return float(re.search(r"tps = ([\d.]+) \(without initial", text).group(1))

    def rps(program, target, lua=None, strangers=False):
        run = wrk(program.port, target, CONNECTIONS, args.seconds, script=lua)
        refused = run["rps"] * args.seconds / 100 * 1.1 + CONNECTIONS if strangers else 0
        if run["not_2xx"] > refused or (strangers and not run["not_2xx"]) or any(run["socket_errors"].values()):
            raise SystemExit(f"{target}: {run}")
        return run["rps"]

    requests = {name: script(where, name, rows) for name, rows in
                (("postgres", args.scale * 100_000), ("batched", args.scale * 100_000), ("sqlite", SQLITE_ROWS))}
    for name, count in (("one role", 1), ("fifty roles", ROLES)):
        requests[name] = script(where, name.replace(" ", "-"), args.scale * 100_000, "roles", count)
    pgbench_name = "pgbench -S -M prepared -c 8 -j 1"
    jobs = {pgbench_name: tps}
    for name, (program, kind) in {
            "sluice postgres, 1 worker": (one, "postgres"),
            "sluice postgres, 1 worker, batch = 16": (one, "batched"),
            "sluice postgres, all cores": (all_cores, "postgres"),
            "sluice postgres, all cores, batch = 16": (all_cores, "batched"),
            "sluice sqlite": (all_cores, "sqlite")}.items():
        jobs[name] = lambda program=program, kind=kind: rps(program, "/", requests[kind])
    plain = "sluice postgres, 1 worker"
    for name in ("one role", "fifty roles"):
        jobs[f"{plain}, {name}"] = lambda name=name: rps(one, "/", requests[name], strangers=True)
    jobs["sluice file"] = lambda: rps(all_cores, "/page.html")
    for job in jobs.values():
        job()  # warms up
    rates = {name: [] for name in jobs}
    for _ in range(args.rounds):
        for name, job in jobs.items():
            rates[name].append(job())
    beside = {name: pgbench_name for name in jobs if name.startswith("sluice postgres")} | {"sluice sqlite": "sluice file"}
    beside |= {name: plain for name in jobs if name.endswith(("role", "roles"))}
    for name in jobs:
        figures = {"bench": "point", "job": name, "rounds": args.rounds, "best": round(max(rates[name])),
                   "median": round(median(rates[name]))}
        if name in beside:
            # The median of the rounds' own ratios: the two runs of a round are close in time.
            figures[f"ratio_to {beside[name]}"] = round(
                median(ours / theirs for ours, theirs in zip(rates[name], rates[beside[name]])), 3)
        tell(**figures)


main()
