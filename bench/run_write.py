#!/usr/bin/env python3
"""What writes cost: one row a request into SQLite beside a transaction for each row, and whole sets beside hand-written SQL.

Single rows: POST over 64 keep-alive connections, durable, beside a loop of BEGIN, INSERT, COMMIT with synchronous = FULL (WAL, as
Sluice's) on the same file system. Sets: PUT of N rows into an empty table, and again with one row in a hundred changed. The rival
on PostgreSQL is psql's COPY into a temporary table and one MERGE; on SQLite it is executemany into a temporary table and three
statements, with the rows ready in memory (`with_parsing`: read from the same JSON first).

Single rows gain from a shared transaction as much as a sync costs, and many disks of virtual machines answer from a cache. So they
are measured again with syncs that take --sync-us longer for all programs (0: not).
usage: run_write.py [--rounds N] [--seconds S] [--rows N] [--folder DIR] [--sync-us N] [--only single,slow-sync,postgres,sqlite]
"""
import argparse
import atexit
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

from harness import BUILD, fetch, median, postgres, sluice, tell
from http_clients import wrk

CONNECTIONS = 64
COLUMNS = "id, name, price, at, note"
STEPS = ("empty", "changed")  # into an empty table; then with one row in a hundred changed


def disk_folder(parent):
    """A temporary folder on a disk, and the name of its file system."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="sluice-bench-", dir=parent))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    kind = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        raise SystemExit(f"{parent} is in memory: fsync costs nothing there; --folder names another")
    return path, kind


def sync_seconds(where, count=200):
    """The median time to append a page to a file and make it durable."""
    file = os.open(where / "sync", os.O_WRONLY | os.O_CREAT)
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        os.write(file, b"a" * 4096)
        os.fdatasync(file)
        taken.append(time.perf_counter() - start)
    os.close(file)
    return median(taken)


def single_rows(args, where, kind):
    for name in ("served", "alone"):
        with sqlite3.connect(where / f"{name}.db") as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE readings (id INTEGER PRIMARY KEY, name TEXT NOT NULL, value REAL)")
        database.close()
    program = sluice(f'''
[database.main]
url = "sqlite:{where}/served.db"
[[endpoint]]
path = "/readings"
get = "SELECT count(*) AS count FROM readings"
post = "INSERT INTO readings (name, value) VALUES (:name, :value)"
''', where)
    script = where / "post.lua"
    script.write_text('''wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"name":"a reading of the north sensor","value":12.5}'
''')

    def served():
        before = count()
        run = wrk(program.port, "/readings", CONNECTIONS, args.seconds, script=script)
        written = count() - before
        # wrk ends while some of its requests are unanswered.
        if run["errors"] or not run["requests"] <= written <= run["requests"] + CONNECTIONS:
            raise SystemExit(f"{written} rows for {run}")
        return run["rps"]

    def count():
        return json.loads(fetch(program.port, "/readings")[1])[0]["count"]

    def alone():
        database = sqlite3.connect(where / "alone.db", isolation_level=None)
        database.execute("PRAGMA synchronous = FULL")
        start, rows = time.perf_counter(), 0
        while time.perf_counter() - start < args.seconds:
            database.execute("BEGIN")
            database.execute("INSERT INTO readings (name, value) VALUES (?, ?)", ("a reading of the north sensor", 12.5))
            database.execute("COMMIT")
            rows += 1
        rate = rows / (time.perf_counter() - start)
        database.close()
        return rate

    rates = {"sluice": [], "one transaction each": []}
    served(), alone()
    for _ in range(args.rounds):
        rates["sluice"].append(served())
        rates["one transaction each"].append(alone())
    program.stop()
    tell(bench="write", case="single", file_system=kind, sync_us=round(sync_seconds(where) * 1e6),
         of_them_added=int(os.environ.get("SYNC_US", 0)), rounds=args.rounds, connections=CONNECTIONS, **{f"{name}, rows/s": round(median(each)) for name, each in rates.items()},
         ratio=round(median(ours / theirs for ours, theirs in zip(*rates.values())), 1))


def rows_of(count, changed):
    """The rows of a set, as JSON objects."""
    return [{"id": n, "name": f"thing number {n}", "price": n % 10_000 / 100 + (changed and n % 100 == 7),
             "at": f"2026-01-{n % 28 + 1:02}T12:{n % 60:02}:00Z", "note": None if n % 3 else "what there is to say of it"}
            for n in range(count)]


def bodies(where, count):
    """The rows of each step in each format, as files: {step: {format: path}}."""
    files = {}
    for step in STEPS:
        rows = rows_of(count, step == "changed")
        texts = {"json": json.dumps(rows), "ndjson": "".join(json.dumps(row) + "\n" for row in rows),
                 "csv": f"{COLUMNS.replace(' ', '')}\n" + "".join(
                     ",".join("" if value is None else str(value) for value in row.values()) + "\n" for row in rows)}
        files[step] = {}
        for form, text in texts.items():
            files[step][form] = where / f"{step}.{form}"
            files[step][form].write_text(text)
    return files


TYPES = {"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv"}
ENDPOINT = '''
[[endpoint]]
path = "/things"
timeout = "5m"
[endpoint.put]
table = "things"
existing = "SELECT id FROM things"
columns.id = { key = true }
columns.name = {}
columns.price = {}
columns.at = {}
columns.note = {}
'''


def put(program, form, file, expected):
    """The seconds that a PUT takes; its answer must have the expected counts."""
    start = time.perf_counter()
    run = subprocess.run(["curl", "-sS", "-X", "PUT", "-H", f"Content-Type: {TYPES[form]}", "-H", "Expect:", "-T", file,
                          f"http://127.0.0.1:{program.port}/things"], capture_output=True, check=True)
    taken = time.perf_counter() - start
    counts = json.loads(run.stdout)
    if [counts.get(name) for name in ("inserted", "updated", "deleted", "unchanged")] != expected:
        raise SystemExit(f"PUT answers {counts}, not {expected}")
    return taken


def compare(case, args, program, files, rival_name, rival, empty, extra=None):
    """In each round every format and the rival do both steps, beginning with an empty table."""
    jobs = {f"sluice {form}": form for form in TYPES} | {rival_name: None}
    taken = {(name, step): [] for name in jobs for step in STEPS}
    cpu = {name: [] for name in jobs}
    for turn in range(args.rounds + 1):
        for name, form in jobs.items():
            empty()
            before = program.cpu_seconds()
            for step, expected in zip(STEPS, ([args.rows, 0, 0, 0], [0, args.rows // 100, 0, args.rows - args.rows // 100])):
                seconds = put(program, form, files[step][form], expected) if form else rival(step)
                if turn > 0:  # the first turn warms up
                    taken[name, step].append(seconds)
            cpu[name].append(program.cpu_seconds() - before)
    for step in STEPS:
        beside = taken[rival_name, step]
        for name, form in jobs.items():
            figures = {"bench": "write", "case": case, "step": step, "job": name, "rows": args.rows, "rounds": args.rounds,
                       "best_s": round(min(taken[name, step]), 3), "median_s": round(median(taken[name, step]), 3)}
            if form:
                figures["cpu_s_both_steps"] = round(median(cpu[name]), 3)
                figures[f"times {rival_name}"] = round(median(a / b for a, b in zip(taken[name, step], beside)), 2)
                if extra:
                    figures["times with_parsing"] = round(
                        median(a / (b + extra[step]) for a, b in zip(taken[name, step], beside)), 2)
            tell(**figures)


def postgres_sets(args, where, files):
    cluster = postgres()
    cluster.psql("CREATE TABLE things (id bigint PRIMARY KEY, name text NOT NULL, price numeric, at timestamptz, note text)")
    program = sluice(f'''
[database.main]
url = "postgres://postgres@/postgres?host={cluster.folder}&port={cluster.port}"
{ENDPOINT}''', where, server_more='body_limit = "256MiB"\n')
    for step in STEPS:
        (where / f"{step}.sql").write_text(f'''BEGIN;
CREATE TEMPORARY TABLE stage (id bigint, name text, price numeric, at timestamptz, note text) ON COMMIT DROP;
\\copy stage FROM '{files[step]["csv"]}' (FORMAT csv, HEADER)
MERGE INTO things AS t USING stage AS s ON t.id = s.id
WHEN MATCHED AND (t.name, t.price, t.at, t.note) IS DISTINCT FROM (s.name, s.price, s.at, s.note)
  THEN UPDATE SET name = s.name, price = s.price, at = s.at, note = s.note
WHEN NOT MATCHED THEN INSERT ({COLUMNS}) VALUES (s.id, s.name, s.price, s.at, s.note);
COMMIT;
''')

    def merge(step):
        start = time.perf_counter()
        subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", cluster.folder, "-p", str(cluster.port), "-U",
                        "postgres", "-f", where / f"{step}.sql", "postgres"], check=True)
        return time.perf_counter() - start

    def empty():
        cluster.psql("TRUNCATE things; VACUUM ANALYZE things")

    compare("postgres", args, program, files, "COPY and MERGE", merge, empty)
    program.stop()


def sqlite_sets(args, where, files, kind):
    path = where / "things.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, at TEXT, note TEXT)")
    database.close()
    program = sluice(f'[database.main]\nurl = "sqlite:{path}"\n{ENDPOINT}', where, server_more='body_limit = "256MiB"\n')
    rows, parsing = {}, {}
    for step in STEPS:
        start = time.perf_counter()
        rows[step] = [tuple(row.values()) for row in json.loads(files[step]["json"].read_text())]
        parsing[step] = time.perf_counter() - start

    def by_hand(step):
        start = time.perf_counter()
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TEMPORARY TABLE stage (id INTEGER PRIMARY KEY, name TEXT, price REAL, at TEXT, note TEXT)")
        database.execute("BEGIN IMMEDIATE")
        database.executemany("INSERT INTO stage VALUES (?, ?, ?, ?, ?)", rows[step])
        database.execute("DELETE FROM things WHERE id NOT IN (SELECT id FROM stage)")
        database.execute("UPDATE things AS t SET name = s.name, price = s.price, at = s.at, note = s.note FROM stage AS s "
                         "WHERE t.id = s.id AND (t.name IS NOT s.name OR t.price IS NOT s.price OR t.at IS NOT s.at OR "
                         "t.note IS NOT s.note)")
        database.execute(f"INSERT INTO things SELECT {COLUMNS} FROM stage WHERE id NOT IN (SELECT id FROM things)")
        database.execute("COMMIT")
        database.close()
        return time.perf_counter() - start

    def empty():
        database = sqlite3.connect(path, isolation_level=None, timeout=30)
        database.execute("DELETE FROM things")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()

    tell(bench="write", case="sqlite", file_system=kind, sync_us=round(sync_seconds(where) * 1e6))
    compare("sqlite", args, program, files, "executemany and three statements", by_hand, empty, parsing)
    program.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", default="/var/tmp", help="on the disk whose fsync is to count")
    parser.add_argument("--sync-us", type=int, default=1000, help="added to each sync, as good disks take it")
    parser.add_argument("--only", default="single,slow-sync,postgres,sqlite")
    args = parser.parse_args()
    only = args.only.split(",")
    where, kind = disk_folder(args.folder)
    if "single" in only:
        single_rows(args, where, kind)
    if "slow-sync" in only and args.sync_us:
        environment = {**os.environ, "LD_PRELOAD": str(BUILD / "bench/libslow_sync.so"), "SYNC_US": str(args.sync_us)}
        subprocess.run([sys.executable, "-B", __file__, "--only", "single", "--folder", args.folder, "--rounds", str(args.rounds),
                        "--seconds", str(args.seconds)], env=environment, check=True)
    files = bodies(where, args.rows)
    if "postgres" in only:
        postgres_sets(args, where, files)
    if "sqlite" in only:
        sqlite_sets(args, where, files, kind)


main()
