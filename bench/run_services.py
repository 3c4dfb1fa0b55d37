#!/usr/bin/env python3
"""Services in sluice.toml (bench/services.cc), in CPU time of the server per message. One worker on core 0, the client on core 1, in
turns, over WebSockets with one frame in flight on each connection.

echo  behind a JWT policy and a rate limit, beside the same service in a Host without routes and policies
row   a handler that reads one row of PostgreSQL, beside an [[endpoint]] that reads the same row, over HTTP

usage: run_services.py [--rounds N] [--seconds S] [--cases CASE,CASE]
"""
import argparse
import json
import os
import sqlite3
import subprocess

from harness import BUILD, Program, fetch, folder, free_port, median, postgres, sluice, tell
from http_cost import measure
from tokens import Secret, soon

CASES = ("echo", "row")
CONNECTIONS = 64
PROGRAM = str(BUILD / "bench/bench_services")
SECRET = Secret("a secret of a benchmark, 32 bytes or more")
ROUTE = '[[websocket]]\npath = "{path}"\nservice = "{service}"\n{more}'


def frames(program, path, size, seconds):
    """CPU microseconds of the program for a message."""
    before = program.cpu_seconds()
    run = subprocess.run(["taskset", "-c", "1", BUILD / "bench/frames_load", str(program.port), "echo", str(CONNECTIONS), str(size), "1",
                          str(seconds)], capture_output=True, text=True,
                         env={**os.environ, "WEBSOCKET": path, "TOKEN": SECRET.token(soon())})
    if run.returncode != 0:
        raise SystemExit(f"{program.name}: {run.stderr}")
    return (program.cpu_seconds() - before) * 1e6 / json.loads(run.stdout)["messages"]


def compare(case, rounds, ours, theirs, most):
    """Runs both in turns, and tells the median of the ratios within a round."""
    ratios, costs = [], ([], [])
    for number in range(rounds + 1):  # the first one warms up
        pair = [0.0, 0.0]
        for which in ((0, 1) if number % 2 else (1, 0)):
            pair[which] = (ours, theirs)[which]()
        if number:
            ratios.append(pair[0] / pair[1])
            for of, cost in zip(costs, pair):
                of.append(cost)
    ratio = median(ratios)
    tell(bench="services", case=case, rounds=rounds, cpu_us=round(median(costs[0]), 2), beside_us=round(median(costs[1]), 2),
         ratio=round(ratio, 3), least=round(min(ratios), 3), most=round(max(ratios), 3), goal=most, met=ratio <= most)
    return ratio <= most


def echo(rounds, seconds):
    where = folder()
    sqlite3.connect(where / "rows.db").executescript("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)").close()
    config = (f'[database.main]\nurl = "sqlite:{where}/rows.db"\n'  # the program's other service wants one
              f'[policy.auth]\ntype = "jwt"\nsecret = "{SECRET.secret}"\n'
              '[policy.some]\ntype = "rate-limit"\nrate = "100000/s"\nper = "claim.sub"\n'
              + ROUTE.format(path="/echo", service="echo", more='use = ["auth", "some"]\n'))
    inside = sluice(config, where, cores=1, core=0, server_more='io = "epoll"\n', program=PROGRAM)
    port = free_port()
    alone = Program("host", [PROGRAM, "alone", f"127.0.0.1:{free_port()}", f"127.0.0.1:{port}"], port, 0)
    met = [compare(f"echo of {size} bytes", rounds, lambda: frames(inside, "/echo", size, seconds),
                   lambda: frames(alone, "/echo", size, seconds), 1.05) for size in (64, 512)]
    inside.stop()
    alone.stop()
    return all(met)


def row(rounds, seconds):
    cluster = postgres()
    cluster.psql("CREATE TABLE rows (id int PRIMARY KEY, text text NOT NULL)")
    cluster.psql("INSERT INTO rows SELECT n, repeat('x', 64) FROM generate_series(1, 1000) n")
    cluster.psql("VACUUM ANALYZE rows")
    config = (f'[database.main]\nurl = "{cluster.url()}"\n'
              '[[endpoint]]\npath = "/rows/{id:int}"\nreturns = "object"\nget = "SELECT text FROM rows WHERE id = :id"\n'
              + ROUTE.format(path="/rows", service="rows", more=""))
    server = sluice(config, folder(), cores=1, core=0, program=PROGRAM)
    status, body = fetch(server.port, "/rows/7")
    if status != 200 or json.loads(body) != {"text": "x" * 64}:
        raise SystemExit(f"/rows/7 answers {status} {body!r}")
    met = compare("a row", rounds, lambda: frames(server, "/rows", 64, seconds),
                  lambda: measure(server, "/rows/7", CONNECTIONS, seconds)["cpu_us"], 1.10)
    server.stop()
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--cases", default=",".join(CASES))
    args = parser.parse_args()
    if unknown := set(args.cases.split(",")) - set(CASES):
        parser.error(f"no case {', '.join(unknown)}")
    raise SystemExit(not all([globals()[case](args.rounds, args.seconds) for case in args.cases.split(",")]))


if __name__ == "__main__":
    main()
