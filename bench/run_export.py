#!/usr/bin/env python3
"""All rows of pgbench_accounts: through Sluice in each format, against the wire floor, COPY by psql, and psql --csv.

usage: run_export.py [--rounds N] [--scale S] [--formats csv,csj,json,ndjson] [--slow-seconds S]
"""
import argparse
import subprocess
import time

import pg_floor
from harness import folder, median, postgres, sluice, tell

SQL = "SELECT * FROM pgbench_accounts"


def timed(command):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def read_slowly(program, target, seconds, rate=100_000):
    """Reads `rate` bytes a second and gives the growth of the peak RSS in KiB."""
    from http1 import Connection
    program.forget_peak()
    before = program.rss_kib()
    with Connection(program.port) as connection:
        connection.send(f"GET {target} HTTP/1.1\r\nHost: bench\r\n\r\n")
        start, read = time.monotonic(), 0
        while time.monotonic() - start < seconds:
            read += len(connection.socket.recv(rate // 10))
            time.sleep(max(0, start + read / rate - time.monotonic()))
    return program.rss_kib("VmHWM") - before, read


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=int, default=20, help="100,000 rows each")
    parser.add_argument("--formats", default="csv,csj,json,ndjson")
    parser.add_argument("--slow-seconds", type=int, default=20)
    args = parser.parse_args()
    formats = args.formats.split(",")
    rows = args.scale * 100_000

    where = folder()
    cluster = postgres()
    subprocess.run(["pgbench", "-i", "-q", "-s", str(args.scale), "-I", "dtgv", cluster.url()], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    socket_url = f"postgres://postgres@/postgres?host={cluster.folder}&port={cluster.port}"
    program = sluice(f'''
[database.main]
url = "{socket_url}"
statement_timeout = "10m"
[[endpoint]]
path = "/accounts"
get = "{SQL}"
''', where)
    url = f"http://127.0.0.1:{program.port}/accounts"
    psql = ["psql", "-X", "-q", socket_url]
    floor = pg_floor.connect(f"{cluster.folder}/.s.PGSQL.{cluster.port}", "postgres", "postgres")

    # What is measured is the whole table, to the byte.
    expected = subprocess.run([*psql, "-c", f"COPY ({SQL}) TO STDOUT (FORMAT csv, HEADER)"], stdout=subprocess.PIPE,
                              check=True).stdout
    for form in formats:
        got = subprocess.run(["curl", "-sSf", f"{url}.{form}"], stdout=subprocess.PIPE, check=True).stdout
        counted = got.count(b"{") if "json" in form else got.count(b"\n") - 1
        if counted != rows or (form == "csv" and got != expected):
            raise SystemExit(f"the {form} has {counted} rows, or is not what COPY gives")
    del got, expected

    jobs = {"floor": lambda: pg_floor.drain(floor, SQL)[0]}
    for form in formats:
        jobs[f"sluice {form}"] = lambda form=form: timed(["curl", "-sSf", "-o", "/dev/null", f"{url}.{form}"])
    jobs["psql COPY"] = lambda: timed([*psql, "-c", f"COPY ({SQL}) TO STDOUT (FORMAT csv, HEADER)"])
    jobs["psql --csv"] = lambda: timed([*psql, "--csv", "-c", SQL])

    program.forget_peak()
    resident = program.rss_kib()
    seconds = {name: [] for name in jobs}
    cpu = {name: [] for name in jobs}
    for _ in range(args.rounds):
        for name, job in jobs.items():
            before = program.cpu_seconds()
            seconds[name].append(job())
            cpu[name].append(program.cpu_seconds() - before)
    grown = program.rss_kib("VmHWM") - resident

    floor_best, floor_median = min(seconds["floor"]), median(seconds["floor"])
    for name in jobs:
        best, middle = min(seconds[name]), median(seconds[name])
        figures = {"bench": "export", "job": name, "rows": rows, "rounds": args.rounds, "best_s": round(best, 3),
                   "median_s": round(middle, 3), "best_to_floor": round(best / floor_best, 3),
                   "median_to_floor": round(middle / floor_median, 3)}
        if name.startswith("sluice"):
            figures["cpu_s"] = round(median(cpu[name]), 3)
            figures["median_to_psql_copy"] = round(middle / median(seconds["psql COPY"]), 3)
        tell(**figures)
    tell(bench="export-memory", client="fast", peak_rss_growth_mib=round(grown / 1024, 1), resident_mib=round(resident / 1024, 1))
    if args.slow_seconds:
        for form in formats:
            grown, read = read_slowly(program, f"/accounts.{form}", args.slow_seconds / len(formats))
            tell(bench="export-memory", client="100 kB/s", format=form, read_bytes=read,
                 peak_rss_growth_mib=round(grown / 1024, 1))


main()
