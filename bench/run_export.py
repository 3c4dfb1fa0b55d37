#!/usr/bin/env python3
"""Exports of whole tables: Sluice in each format, on one connection and on several, beside the wire floor, COPY by psql, psql
--csv, and a program that makes a JSON object of each row.

usage: run_export.py [--rounds N] [--scale S] [--tables films,films+2,accounts,accounts+2] [--formats csv,csj,json,ndjson]
                     [--parallel N] [--slow-seconds S] [--naive-rounds N]
"""
import argparse
import hashlib
import os
import subprocess
import time

import pg_floor
from harness import BUILD, folder, median, postgres, sluice, tell

FILMS = 402_343
# Two columns like pgbench's own filler.
FILLERS = "ADD filler_2 char(84) NOT NULL DEFAULT 'two', ADD filler_3 char(84) NOT NULL DEFAULT 'three'"
RANGE = "WHERE ctid >= :ctid_from AND ctid < :ctid_to"


def timed(command):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def fill(cluster, tables, scale, films=FILMS):
    """Makes the tables, and returns each one's name in the database and its rows."""
    made = {}
    if any(name.startswith("films") for name in tables):
        generate = subprocess.Popen([BUILD / "examples/films_generate", "--rows", str(films), "--sql"],
                                    stdout=subprocess.PIPE)
        subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", cluster.url()], stdin=generate.stdout, check=True,
                       stdout=subprocess.DEVNULL)
        if generate.wait() != 0:
            raise SystemExit("films_generate failed")
        made["films"] = ("films", films)
    if any(name.startswith("accounts") for name in tables):
        subprocess.run(["pgbench", "-i", "-q", "-s", str(scale), "-I", "dtgv", cluster.url()], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        made["accounts"] = ("pgbench_accounts", scale * 100_000)
    for name in tables:
        if name.endswith("+2"):
            table, rows = made[name[:-2]]
            cluster.psql(f"CREATE TABLE {table}_2 AS TABLE {table}; ALTER TABLE {table}_2 {FILLERS}")
            made[name] = (f"{table}_2", rows)
    cluster.psql("VACUUM ANALYZE")
    return {name: made[name] for name in tables}


def read_slowly(program, target, seconds, rate=100_000):
    """Reads `rate` bytes a second. Returns the growth of the peak RSS in KiB, and how many bytes were read."""
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


def lines(data, in_order):
    """A hash to compare answers by: of the text, or of its sorted lines where the rows may come in any order."""
    return hashlib.sha256(data if in_order else b"\n".join(sorted(data.split(b"\n")))).hexdigest()


def run(name, table, rows, program, cluster, socket_url, args):
    """The jobs of one table, in turns. Returns lines of the table that is printed at the end."""
    sql = f"SELECT * FROM {table}"
    formats = args.formats.split(",")
    url = f"http://127.0.0.1:{program.port}/{table}"
    psql = ["psql", "-X", "-q", socket_url]
    floor = pg_floor.connect(f"{cluster.folder}/.s.PGSQL.{cluster.port}", "postgres", "postgres")
    several = [(f"/parallel", f"{args.parallel} connections"),
               (f"/unordered", f"{args.parallel} connections, unordered")] if args.parallel > 1 else []

    # Each answer must be the whole table, byte for byte.
    copied = subprocess.run([*psql, "-c", f"COPY ({sql}) TO STDOUT (FORMAT csv, HEADER)"], stdout=subprocess.PIPE,
                            check=True).stdout
    for kind in ["", *(kind for kind, _ in several)]:
        for form in formats:
            got = subprocess.run(["curl", "-sSf", f"{url}{kind}.{form}"], stdout=subprocess.PIPE, check=True).stdout
            # CSJ, NDJSON and JSON have one line for each row.
            counted = got.count(b"\n") - (1 if form in ("csv", "csj", "json") else 0)
            if form != "json" and counted != rows:
                raise SystemExit(f"{name}{kind}.{form} has {counted} rows")
            in_order = kind != "/unordered"
            if form == "csv" and lines(got, in_order) != lines(copied, in_order):
                raise SystemExit(f"{name}{kind}.csv is not what COPY gives")
    del got, copied

    jobs = {"floor": lambda: pg_floor.drain(floor, sql)[0]}
    for form in formats:
        jobs[f"sluice {form}"] = lambda form=form: timed(["curl", "-sSf", "-o", "/dev/null", f"{url}.{form}"])
    for kind, words in several:
        for form in formats:
            jobs[f"sluice {form}, {words}"] = \
                lambda form=form, kind=kind: timed(["curl", "-sSf", "-o", "/dev/null", f"{url}{kind}.{form}"])
    jobs["psql \\copy csv"] = lambda: timed([*psql, "-c", f"\\copy ({sql}) TO STDOUT (FORMAT csv, HEADER)"])
    jobs["psql --csv"] = lambda: timed([*psql, "--csv", "-c", sql])
    naive = BUILD / "bench/naive_export"
    if args.naive_rounds and os.access(naive, os.X_OK):
        jobs["a JSON object per row"] = lambda: timed([naive, socket_url, sql])

    seconds = {job: [] for job in jobs}
    cpu = {job: [] for job in jobs}
    grown = {}
    for turn in range(args.rounds):
        for job, work in jobs.items():
            if job.startswith("a JSON") and turn >= args.naive_rounds:
                continue
            if job.startswith("sluice"):
                program.forget_peak()
                resident = program.rss_kib()
            before = program.cpu_seconds()
            seconds[job].append(work())
            cpu[job].append(program.cpu_seconds() - before)
            if job.startswith("sluice"):
                grown[job] = max(grown.get(job, 0), program.rss_kib("VmHWM") - resident)

    printed = []
    for job, times in seconds.items():
        best, middle = min(times), median(times)
        by_round = median([one / floor_time for one, floor_time in zip(times, seconds["floor"])])
        figures = {"bench": "export", "table": name, "job": job, "rows": rows, "rounds": len(times),
                   "best_s": round(best, 3), "median_s": round(middle, 3),
                   "best_to_floor": round(best / min(seconds["floor"]), 3),
                   "median_to_floor": round(middle / median(seconds["floor"]), 3), "by_round": round(by_round, 3)}
        if job.startswith("sluice"):
            figures["cpu_s"] = round(median(cpu[job]), 3)
            figures["median_to_psql_copy"] = round(middle / median(seconds["psql \\copy csv"]), 3)
            figures["peak_rss_growth_mib"] = round(grown[job] / 1024, 1)
        tell(**figures)
        printed.append((name, job, best, middle, figures["median_to_floor"], figures["best_to_floor"]))
    return printed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=int, default=10, help="of pgbench_accounts: 100,000 rows each")
    parser.add_argument("--tables", default="films,films+2,accounts,accounts+2")
    parser.add_argument("--formats", default="csv,csj")
    parser.add_argument("--parallel", type=int, default=2, help="connections; 1: not measured")
    parser.add_argument("--slow-seconds", type=int, default=10)
    parser.add_argument("--naive-rounds", type=int, default=1)
    args = parser.parse_args()

    where = folder()
    cluster = postgres()
    tables = fill(cluster, args.tables.split(","), args.scale)
    socket_url = f"postgres://postgres@/postgres?host={cluster.folder}&port={cluster.port}"
    config = f'[database.main]\nurl = "{socket_url}"\nstatement_timeout = "10m"\n'
    for table, _ in tables.values():
        config += f'[[endpoint]]\npath = "/{table}"\nget = "SELECT * FROM {table}"\n'
        for kind, ordered in (("parallel", "true"), ("unordered", "false")):
            config += (f'[[endpoint]]\npath = "/{table}/{kind}"\nget = "SELECT * FROM {table} {RANGE}"\n'
                       f'parallel = {{ connections = {args.parallel}, ordered = {ordered} }}\n')
    program = sluice(config, where)

    printed = []
    for name, (table, rows) in tables.items():
        printed += run(name, table, rows, program, cluster, socket_url, args)

    target = f"/{next(iter(tables.values()))[0]}"
    if args.slow_seconds:
        for kind in ("", "/parallel", "/unordered"):
            grown, read = read_slowly(program, f"{target}{kind}.csv", args.slow_seconds / 3)
            tell(bench="export-memory", client="100 kB/s", target=f"{target}{kind}.csv", read_bytes=read,
                 peak_rss_growth_mib=round(grown / 1024, 1))

    print(f"\n{'table':<11} {'':<38} {'best':>7} {'median':>7}   to the floor: median, best")
    for name, job, best, middle, to_floor, best_to_floor in printed:
        print(f"{name:<11} {job:<38} {best:7.3f} {middle:7.3f} {to_floor:10.2f} {best_to_floor:8.2f}")


if __name__ == "__main__":
    main()
