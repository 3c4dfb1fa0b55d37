#!/usr/bin/env python3
"""What one request of each family costs Sluice: instructions in user space and system calls, counted by callgrind. Ends with 1, and
names the families, where one of the two is more than the stored one by more than both spreads. Counts do not depend on how fast the
machine is at the moment; they do on the compiler, the libraries and the kind of CPU.

usage: run_check.py [--rounds N] [--seconds S] [--cases FAMILY,FAMILY] [--slow PERCENT] [--store]
  --slow    makes Sluice execute so many more instructions than stored (slowdown.cc), to see that the check notices it
  --store   stores the counts and their spreads (results/check.json), to compare later runs with
"""
import argparse
import json
import mmap
import sqlite3
import statistics
import struct
import subprocess
import sys

import run_gateway
import run_http
import stored
from harness import BUILD, Program, folder, free_port, postgres, sluice, tell
from http_clients import wrk
from http_cost import Counted
from http_servers import CIPHER, floor, make_certificate, make_site, ours

CORE = 1
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
[[resident]]
database = "lite"
name = "users"
query = "SELECT id, name, 'role' || id % 100 AS role FROM users ORDER BY id"
key = "id"
index = ["role"]
'''
ROWS = "SELECT value AS id, 'user ' || value AS name, 'Some words that say more about number ' || value AS about"


LEAST_SPREAD = 0.01
NAMES = ("static", "gateway", "guarded", "messages", "sqlite", "postgres", "list", "resident", "write", "export", "h2", "tls")


def get(target, connections=64, **more):
    def load(program, seconds):
        result = wrk(program.port, target, connections, seconds, core=CORE, **more)
        if result["errors"]:
            raise SystemExit(f"{target}: {result['errors']} requests failed")
        return result
    return load


def download(program, seconds):
    """Two answers by curl, one after the other."""
    subprocess.run(["taskset", "-c", str(CORE), "curl", "-sSf", *["-o/dev/null", f"http://127.0.0.1:{program.port}/export.csv"] * 2], check=True)
    return {"requests": 2}


def echo(program, seconds):
    run = subprocess.run(["taskset", "-c", str(CORE), BUILD / "bench/frames_load", str(program.port), "echo", "100", "64", "1", str(seconds)],
                         check=True, capture_output=True, text=True)
    return {"requests": json.loads(run.stdout)["messages"]}


def over_tls(streams, *options):
    """h2load, with as many requests as count: each of its 20 connections begins with a handshake."""
    def load(program, seconds):
        requests = 10_000 * seconds
        run = subprocess.run(["taskset", "-c", str(CORE), "h2load", "-c20", f"-m{streams}", f"-n{requests}", f"--tls13-ciphers={CIPHER}", *options,
                              f"https://127.0.0.1:{program.tls_port}/page.html"], check=True, capture_output=True, text=True)
        if f"{requests} succeeded" not in run.stdout:
            raise SystemExit(f"requests over TLS failed: {run.stdout}")
        return {"requests": requests}
    return load


def families(where, wanted):
    """Starts the programs of the families that are wanted; yields each family's name, program and load."""
    def want(*names):
        return any(name in wanted for name in names)

    def counted(start, *arguments, **more):
        return Counted(lambda: start(*arguments, **more), where)

    make_site(where, **run_http.SIZES)
    if want("static"):
        yield "static", counted(ours, where), get("/page.html", 100)
    if want("gateway", "guarded"):
        gateway = counted(run_gateway.ours, where, floor(where, core=CORE).port, "plain")
        yield "gateway", gateway, get("/page.html", 100)
        yield "guarded", gateway, get("/page.html", 100, fields=run_gateway.GUARDED)
    if want("messages"):
        port = free_port()
        yield "messages", counted(Program, "sluice", [BUILD / "examples/example_echo", f"127.0.0.1:{port}"], port, 0), echo
    if want("sqlite", "postgres", "list", "export", "resident", "write"):
        with sqlite3.connect(where / "check.db") as database:
            database.executescript(f"""PRAGMA journal_mode = WAL; CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, about TEXT, visits INT DEFAULT 0);
                WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n WHERE value < 100000)
                INSERT INTO users (id, name, about) {ROWS} FROM n""")
        database.close()
        cluster = postgres()
        cluster.psql(f"CREATE TABLE users AS {ROWS} FROM generate_series(1, 100000) AS value; ALTER TABLE users ADD PRIMARY KEY (id); VACUUM ANALYZE users")
        api = counted(sluice, API.format(where=where, postgres=cluster.url()), where, cores=1, core=0)
        put = where / "put.lua"
        put.write_text('wrk.method = "PUT"\nwrk.headers["Content-Type"] = "application/json"\nwrk.body = "{}"\n')
        yield "sqlite", api, get("/lite/777")
        yield "postgres", api, get("/post/777")
        yield "list", api, get("/list?id=gte.50000&sort=id&limit=20")
        yield "resident", api, get("/users?role=role7", 16)
        yield "write", api, get("/write/777", 16, script=put)
        yield "export", api, download
    if want("h2", "tls"):
        other = folder()
        make_site(other, **run_http.SIZES)
        make_certificate(other)
        program = counted(ours, other)
        yield "h2", program, over_tls(32)
        yield "tls", program, over_tls(1, "--h1")


class Slowdown:
    """slowdown.cc in Sluice's programs: counts their sends, and makes each of them execute more instructions."""

    def __init__(self, where):
        file = where / "slowdown"
        file.write_bytes(bytes(16))
        with file.open("r+b") as opened:
            self.shared = mmap.mmap(opened.fileno(), 16)
        Program.preloaded = {"LD_PRELOAD": str(BUILD / "bench/libslowdown.so"), "SLOWDOWN": str(file)}

    def set(self, wanted, counted, load, seconds):
        """Makes a request execute so many instructions."""
        self.shared[:] = bytes(16)
        sends = []

        def watched(program, seconds):
            before = struct.unpack("QQ", self.shared)[0]
            result = load(program, seconds)
            sends.append((struct.unpack("QQ", self.shared)[0] - before) / result["requests"])
            return result

        more = (wanted - counted.count(watched, seconds)["instructions"]) / sends[0]
        self.shared[8:] = struct.pack("Q", round(max(more, 0)))


def limits(now, then):
    """The most that each count may be."""
    return {what: then[what] * (1 + then[f"{what}_spread"] + now[f"{what}_spread"]) for what in ("instructions", "calls")}


def median_of(counts):
    """Their medians; a spread is the distance between the least and the most, as a part of the median, at least a hundredth."""
    figures = {}
    for what in ("instructions", "calls"):
        values = [count[what] for count in counts]
        middle = statistics.median(values)
        figures |= {what: round(middle, 3), f"{what}_spread": round(max((max(values) - min(values)) / middle, LEAST_SPREAD), 4)}
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--cases", default=",".join(NAMES))
    parser.add_argument("--slow", type=float, default=0)
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args()
    if args.slow and args.store:
        parser.error("--slow compares with what is stored")
    wanted = args.cases.split(",")
    if unknown := set(wanted) - set(NAMES):
        parser.error(f"no such family: {', '.join(sorted(unknown))}")
    about = stored.about() if args.store else None
    slowdown = Slowdown(folder()) if args.slow else None

    bounds = stored.load("check")["figures"] if not args.store else {}
    figures, worse = {}, []
    for name, counted, load in families(folder(), wanted):
        if name not in wanted:
            continue
        if name not in bounds and not args.store:
            raise SystemExit(f"{name} has no stored counts; store them with --store")
        load(counted.program, args.seconds)  # warms up
        if slowdown:
            slowdown.set(bounds[name]["instructions"] * (1 + args.slow / 100), counted, load, args.seconds)
        now = figures[name] = median_of([counted.count(load, args.seconds) for _ in range(args.rounds)])
        if args.store:
            tell(bench="check", family=name, **now)
            continue
        most = limits(now, bounds[name])
        more = [what for what, value in most.items() if now[what] > value]
        tell(bench="check", family=name, **now, **{f"most_{what}": round(value, 3) for what, value in most.items()}, more=more)
        if more:
            worse.append(f"{name} ({', '.join(more)})")
    if args.store:
        stored.store("check", about, figures, rounds=args.rounds, seconds=args.seconds)
    print("more than stored: " + (", ".join(worse) or "none of them"))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
