#!/usr/bin/env python3
"""The ladder of exports: rows from PostgreSQL as CSV and CSJ, from a JSON object and a flush for each row to the library's blocks;
then Sluice over HTTP, psql, and the floors, all in one run. And what an allocation and a write cost, strings by value beside
appended ones, and a JSON value in several memory layouts.

Every job writes to a file in the same temporary folder; the floors read the bytes of the result and discard them. First, each job
runs once without being timed: its bytes must be those of the others (CSV: those of COPY), and its peak memory (VmHWM), allocations
(count_malloc.cc, preloaded) and writes (syscw in /proc/PID/io) are noted. Then they run in turns.
usage: run_export_ladder.py [--rounds N] [--rows N] [--scale S] [--tables films,accounts,accounts+fillers] [--sink file|null]
                            [--page]
  --page   stores the figures (results/exports.json), and writes docs/exports-ladder.svg and the tables of docs/exports-ladder.md
           and results/exports.md
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import threading
import time

import pg_floor
import stored
from export_pages import FORMATS
from harness import BUILD, ROOT, SLUICE, folder, median, postgres, sluice, tell
from run_export import FILMS, fill

PLOT = ROOT / "docs/exports-ladder.svg"
RUNGS = ("flush", "newline", "buffer", "unbuffered", "append", "blocks")
FILM_COLUMNS = "id, slug, adult, name_en, popularity"
# A JSON object has each name once, so the further columns have names of their own.
QUERIES = {"films": ("films", f"SELECT {FILM_COLUMNS} FROM films"),
           "accounts": ("pgbench_accounts", "SELECT * FROM pgbench_accounts"),
           "accounts+fillers": ("pgbench_accounts", "SELECT *, filler AS filler_2, filler AS filler_3 FROM pgbench_accounts")}
FEW = 100_000  # rows for strings and layouts


class Sink:
    """The file that jobs write to: a new one for each job, so that none waits for the pages of another."""

    def __init__(self, where, kind):
        self.path = pathlib.Path("/dev/null") if kind == "null" else where / "exported"
        self.words = str(self.path) if kind == "null" else "a file"

    def __enter__(self):
        self.file = open(self.path, "wb")
        return self

    def __exit__(self, *_):
        self.file.close()
        if self.path.is_file():
            self.path.unlink()


def start(command, sink, **environment):
    return subprocess.Popen([*map(str, command)], stdout=sink.file, env={**os.environ, **environment})


def timed(command, sink):
    """(seconds, CPU seconds of the process)"""
    with sink:
        begin = time.perf_counter()
        process = start(command, sink)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} failed")
    return seconds, usage.ru_utime + usage.ru_stime


def looked_at(command, where):
    """The hash of the bytes that the command writes, its peak memory in KiB, its allocations, and its writes."""
    counted = where / "allocations"
    counted.unlink(missing_ok=True)
    with Sink(where, "file") as sink:
        process = start(command, sink, LD_PRELOAD=str(BUILD / "bench/exports/libcount_malloc.so"), COUNT_MALLOC=str(counted))
        proc, peak, ended = pathlib.Path(f"/proc/{process.pid}"), 0, threading.Event()

        def watch():
            nonlocal peak
            while not ended.wait(0.01):
                if found := re.search(r"^VmHWM:\s+(\d+)", (proc / "status").read_text(), re.M):
                    peak = max(peak, int(found[1]))

        watcher = threading.Thread(target=watch)
        watcher.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # /proc still has its counters
        ended.set()
        watcher.join()
        writes = int(re.search(r"^syscw: (\d+)", (proc / "io").read_text(), re.M)[1])
        if process.wait() != 0:
            raise SystemExit(f"{command[0]} failed")
        with open(sink.path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"sha256": digest, "size": sink.path.stat().st_size, "peak_kib": peak, "allocations": int(counted.read_text()),
                "writes": writes}


def run(name, sql, rows, program, cluster, url, where, args):
    """Returns figures for each job and format."""
    sink = Sink(where, args.sink)
    target = f"http://127.0.0.1:{program.port}/{name.replace('+', '-')}"
    jobs = {(rung, form): [BUILD / f"bench/exports/exports_{rung}", url, sql, form] for rung in RUNGS for form in FORMATS}
    for form in FORMATS:
        jobs["sluice query", form] = [SLUICE, "query", url, sql, "--format", form]
        jobs["Sluice over HTTP", form] = ["curl", "-sSf", f"{target}.{form}"]
    copy = f"COPY ({sql}) TO STDOUT (FORMAT csv, HEADER)"
    jobs["psql \\copy", "csv"] = [f"{cluster.bin}/psql", "-Xq", url, "-c", f"\\copy ({sql}) TO STDOUT (FORMAT csv, HEADER)"]
    floor = pg_floor.connect(f"{cluster.folder}/.s.PGSQL.{cluster.port}", "postgres", "postgres")
    floors = {("floor: COPY, discarded", "csv"): copy, ("floor: rows, discarded", ""): sql}

    seen = {}
    for (job, form), command in [*jobs.items()][::-1]:  # psql first: the others are compared with it
        found = seen[job, form] = looked_at(command, where)
        expected = next(other for (_, of), other in seen.items() if of == form)
        if found["sha256"] != expected["sha256"]:
            raise SystemExit(f"{name}: {job} writes other {form} than the rest")

    times = {key: [] for key in (*jobs, *floors)}
    for _ in range(args.rounds):
        for key, command in jobs.items():
            before = program.cpu_seconds()
            seconds, cpu = timed(command, sink)
            served = key[0] == "Sluice over HTTP"
            times[key].append((seconds, program.cpu_seconds() - before if served else cpu))
        for key, statement in floors.items():
            times[key].append((pg_floor.drain(floor, statement)[0], None))

    least = median(seconds for seconds, _ in times["floor: rows, discarded", ""])
    figures = []
    for (job, form), measured in times.items():
        one = {"bench": "export-ladder", "table": name, "rows": rows, "job": job, "format": form, "rounds": args.rounds,
               "seconds": round(median(seconds for seconds, _ in measured), 3)}
        one["to_floor"] = round(one["seconds"] / least, 2)
        if measured[0][1] is not None:
            one["cpu_seconds"] = round(median(cpu for _, cpu in measured), 3)
        if (job, form) in seen:
            of = seen[job, form]
            one["bytes"] = of["size"]
            if job != "Sluice over HTTP":  # that was curl
                one |= {"peak_mib": round(of["peak_kib"] / 1024, 1), "allocations_per_row": round(of["allocations"] / rows, 3),
                        "writes": of["writes"]}
        tell(**one)
        figures.append(one)
    return figures


def program_figures(program, *arguments):
    run = subprocess.run([BUILD / f"bench/exports/exports_{program}", *arguments], stdout=subprocess.PIPE, text=True, check=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    for line in lines:
        tell(bench=f"export-ladder-{program}", **line)
    return lines


def plot(figures, file):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "exports"
    from matplotlib import pyplot
    tables = list(dict.fromkeys(one["table"] for one in figures))
    figure, axes = pyplot.subplots(1, len(tables), figsize=(4 * len(tables) + 1.5, 4.5), sharey=True, squeeze=False)
    for axis, table in zip(axes[0], tables):
        rows = [one for one in figures if one["table"] == table]
        names = list(dict.fromkeys(one["job"] for one in rows))
        colour = {name: "tab:orange" if name.lower().startswith("sluice") else "tab:blue" if name in RUNGS else "tab:grey" for name in names}
        for offset, form, alpha in ((-0.2, "csv", 1), (0.2, "csj", 0.5)):
            of = {one["job"]: one["seconds"] for one in rows if one["format"] in (form, "")}
            axis.barh([at + offset for at, name in enumerate(names) if name in of], list(of.values()), 0.4, alpha=alpha,
                      color=[colour[name] for name in of], label=form.upper())
        axis.set_yticks(range(len(names)), names)
        axis.set_title(f"{table}, {rows[0]['rows']:,} rows")
        axis.set_xlabel("seconds")
    axes[0][0].invert_yaxis()
    axes[0][-1].legend()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=FILMS, help="of the films")
    parser.add_argument("--scale", type=int, default=20, help="of pgbench_accounts: 100,000 rows each")
    parser.add_argument("--tables", default=",".join(QUERIES))
    parser.add_argument("--sink", choices=("file", "null"), default="file")
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()

    about = stored.about() if args.page else None
    where = folder()
    cluster = postgres()
    tables = args.tables.split(",")
    # The films are always there: strings and layouts are measured with them.
    made = fill(cluster, ["films", *(["accounts"] if any(name.startswith("accounts") for name in tables) else [])], args.scale,
                args.rows)
    rows = {table: count for table, count in made.values()}
    url = f"postgres://postgres@/postgres?host={cluster.folder}&port={cluster.port}"
    config = f'[database.main]\nurl = "{url}"\nstatement_timeout = "10m"\n'
    for name in tables:
        config += f'[[endpoint]]\npath = "/{name.replace("+", "-")}"\nget = "{QUERIES[name][1]}"\n'
    program = sluice(config, where)

    figures = []
    for name in tables:
        table, sql = QUERIES[name]
        figures += run(name, sql, rows[table], program, cluster, url, where, args)
    operations = program_figures("allocations", where / "written")
    few = f"SELECT {FILM_COLUMNS} FROM films ORDER BY id LIMIT {FEW}"
    strings = program_figures("strings", url, few, "csj")
    layouts = program_figures("layouts", url, few, "csj")
    if args.page:
        stored.store("exports", about, figures, rounds=args.rounds, sink=Sink(where, args.sink).words, operations=operations,
                     strings=strings, layouts=layouts)
        plot(figures, PLOT)
        stored.main()


if __name__ == "__main__":
    main()
