#!/usr/bin/env python3
"""A short run of one case of each family: CPU time of a request of Sluice, as a ratio to a bare loop (or nginx) in the same run.
Ends with 1, and names the families, where a ratio is worse than the stored one by more than both spreads.

usage: run_check.py [--rounds N] [--seconds S] [--cases FAMILY,FAMILY] [--slow PERCENT] [--store]
  --slow    burns so much more CPU time in Sluice (slowdown.cc), to see that the check notices it
  --store   stores the ratios and their spreads (results/check.json), to compare later runs with
"""
import argparse
import json
import sqlite3
import statistics
import subprocess
import sys

import run_gateway
import run_http
import stored
from harness import BUILD, Program, folder, free_port, postgres, sluice, tell
from http_clients import h2load, wrk
from http_cost import cost_of
from http_servers import floor, make_certificate, make_site, nginx, ours

CORE = 1
RESIDENT = '[[resident]]\nname = "users"\nquery = "SELECT id, name, \'role\' || id % 100 AS role FROM users ORDER BY id"\nkey = "id"\nindex = ["role"]\n'
API = '''
[database.lite]
url = "sqlite:{where}/check.db"
[database.post]
url = "{postgres}"
pool = 2
[[endpoint]]
path = "/lite/{{id}}"
database = "lite"
get = "SELECT id, name, about FROM users WHERE id = :id"
[[endpoint]]
path = "/post/{{id}}"
database = "post"
get = "SELECT id, name, about FROM users WHERE id = :id"
params = {{ id = "int" }}
[[endpoint]]
path = "/export.csv"
database = "post"
get = "SELECT id, name, about FROM users"
[[endpoint]]
path = "/list"
database = "lite"
get = "SELECT id, name, about FROM users"
[endpoint.list]
filter = ["id"]
sort = ["id"]
order = "id"
[[endpoint]]
path = "/write/{{id}}"
database = "lite"
put = "UPDATE users SET visits = visits + 1 WHERE id = :id"
'''
ROWS = "SELECT value AS id, 'user ' || value AS name, 'Some words that say more about number ' || value AS about"


class Family:
    """`case`: its programs, with Sluice first, and a load(program, seconds)."""

    def __init__(self, name, programs, load, per="cpu_us"):
        self.name, self.programs, self.load, self.per = name, programs, load, per

    def ratio(self, seconds):
        """Sluice's cost to the other's, in one round."""
        mine, other = (cost_of(program, lambda program=program: self.load(program, seconds))[self.per] for program in self.programs)
        return mine / other


def get(target, connections=64, script=None):
    def load(program, seconds):
        if program.name == "floor":
            return wrk(program.port, "/", connections, seconds, core=CORE)
        result = wrk(program.port, target, connections, seconds, core=CORE, script=script)
        if result["errors"]:
            raise SystemExit(f"{target}: {result['errors']} requests failed")
        return result
    return load


def download(program, seconds):
    """Ten answers by curl, one after the other."""
    target = "/export.csv" if program.name == "sluice" else "/ten.html"
    url = f"http://127.0.0.1:{program.port}{target}"
    run = subprocess.run(["taskset", "-c", str(CORE), "curl", "-sSf", "-w", "%{stderr}%{size_download}\n", *["-o/dev/null", url] * 10],
                         check=True, capture_output=True, text=True)
    sizes = [int(line) for line in run.stderr.split()]
    return {"requests": len(sizes), "megabytes": sum(sizes) / 1e6}


def echo(program, seconds):
    run = subprocess.run(["taskset", "-c", str(CORE), BUILD / "bench/frames_load", str(program.port), "echo", "100", "64", "1", str(seconds)],
                         check=True, capture_output=True, text=True)
    return {"requests": json.loads(run.stdout)["messages"]}


def families(where, wanted):
    """Starts the programs of the families that are wanted."""
    def want(*names):
        return any(name in wanted for name in names)

    make_site(where, **run_http.SIZES)
    if want("static"):
        yield Family("static", (ours(where), floor(where)), get("/page.html", 100))
    if want("gateway", "guarded"):
        _, programs = run_gateway.start(where, "plain", "page", ["sluice"])
        bare, gateway = programs
        yield Family("gateway", (gateway, bare), get("/page.html", 100))
        yield Family("guarded", (gateway, bare), lambda program, seconds: wrk(program.port, "/page.html", 100, seconds, core=CORE,
                                                                             fields=run_gateway.GUARDED))
    if want("messages"):
        echo_port, floor_port = free_port(), free_port()
        yield Family("messages", (Program("sluice", [BUILD / "examples/example_echo", f"127.0.0.1:{echo_port}"], echo_port, 0),
                                  Program("floor", [BUILD / "bench/floor_frames", floor_port, "echo"], floor_port, 0)), echo)
    if want("sqlite", "postgres", "list", "export", "resident", "write"):
        with sqlite3.connect(where / "check.db") as database:
            database.executescript(f"""PRAGMA journal_mode = WAL; CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, about TEXT, visits INT DEFAULT 0);
                WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n WHERE value < 100000)
                INSERT INTO users (id, name, about) {ROWS} FROM n""")
        database.close()
        cluster = postgres()
        cluster.psql(f"CREATE TABLE users AS {ROWS} FROM generate_series(1, 100000) AS value; ALTER TABLE users ADD PRIMARY KEY (id); VACUUM ANALYZE users")
        api = sluice(API.format(where=where, postgres=cluster.url()) + RESIDENT.replace('[[resident]]\n', '[[resident]]\ndatabase = "lite"\n'),
                     where, cores=1, core=0)
        bare = floor(where)
        put = where / "put.lua"
        put.write_text('wrk.method = "PUT"\nwrk.headers["Content-Type"] = "application/json"\nwrk.body = "{}"\n')
        yield Family("sqlite", (api, bare), get("/lite/777"))
        yield Family("postgres", (api, bare), get("/post/777"))
        yield Family("list", (api, bare), get("/list?id=gte.50000&sort=id&limit=20"))
        yield Family("resident", (api, bare), get("/users?role=role7", 16))
        yield Family("write", (api, bare), get("/write/777", 16, put))
        yield Family("export", (api, nginx(where)), download, "cpu_us_per_mb")
    if want("h2", "tls"):
        other = folder()
        make_site(other, **run_http.SIZES)
        make_certificate(other)
        programs = (ours(other), nginx(other))
        for name, streams in (("h2", 32), ("tls", None)):
            yield Family(name, programs, lambda program, seconds, streams=streams: h2load(
                program.tls_port, "/page.html", 100, seconds, streams=streams or 1, http1=streams is None, core=CORE))


NAMES = ("static", "gateway", "guarded", "messages", "sqlite", "postgres", "list", "resident", "write", "export", "h2", "tls")


def spread(ratios):
    """Half the distance between the quartiles, as a part of the median."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    return (high - low) / 2 / middle


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--cases", default=",".join(NAMES))
    parser.add_argument("--slow", type=float, default=0)
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args()
    wanted = args.cases.split(",")
    if unknown := set(wanted) - set(NAMES):
        parser.error(f"no such family: {', '.join(sorted(unknown))}")
    about = stored.about() if args.store else None
    if args.slow:
        Program.slowed = {"LD_PRELOAD": str(BUILD / "bench/libslowdown.so"), "SLOWDOWN": str(args.slow)}

    bounds = stored.load("check")["figures"] if not args.store else {}
    figures, worse = {}, []
    for family in families(folder(), wanted):
        if family.name not in wanted:
            continue
        family.ratio(args.seconds)  # warms up
        ratios = [family.ratio(args.seconds) for _ in range(args.rounds)]
        now = figures[family.name] = {"ratio": round(statistics.median(ratios), 3), "spread": round(spread(ratios), 3)}
        most = now["ratio"]
        if then := bounds.get(family.name):
            most = then["ratio"] * (1 + then["spread"] + now["spread"])
        elif not args.store:
            raise SystemExit(f"{family.name} has no stored ratio; store it with --store")
        tell(bench="check", family=family.name, **now, most=round(most, 3), met=now["ratio"] <= most)
        if now["ratio"] > most:
            worse.append(family.name)
    if args.store:
        stored.store("check", about, figures, rounds=args.rounds, seconds=args.seconds)
    print("worse than the stored ratio: " + (", ".join(worse) or "none of them"))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
