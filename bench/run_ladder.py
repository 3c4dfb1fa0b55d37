#!/usr/bin/env python3
"""The ladder: from a blocking server to a loop for each core, then Sluice, nginx and h2o, all in one run.

Each answers the same file of 1,500 bytes to wrk, at 100 and at 10,000 connections, with every core for both sides. Servers that
have workers run with 1 to three times as many as there are cores. Three variants of a rung show what else could be tried:
buffers that are kept, a prepared answer, and reads and sends in batches (io_uring).

usage: run_ladder.py [--rounds N] [--seconds S] [--page]
  --page   stores the figures (results/ladder.json), and writes docs/ladder.svg and the tables of docs/why-fast.md
"""
import argparse
import os

import stored
from harness import BUILD, Program, counters_work, fetch, folder, free_port, median, tell
from http_cost import measure
from http_servers import h2o, make_site, nginx, ours

STEPS = ("blocking", "readiness", "keep_alive", "send_file", "edge", "loops")
VARIANTS = ("pooled", "prepared", "batched")
BODY = 1500
TARGET = "/page.html"
PLOT = stored.ROOT / "docs/ladder.svg"


def ladder(step, where, workers=1):
    port = free_port()
    return Program(step, [BUILD / f"bench/ladder_{step}", port, where / "site/page.html", workers], port)


def servers(where, cores):
    """(name, workers, function that starts it), the lowest rung first."""
    for step in (*STEPS[:-1], *VARIANTS):
        yield step, 1, lambda step=step: ladder(step, where)
    for workers in range(1, 3 * cores + 1):
        yield "loops", workers, lambda workers=workers: ladder("loops", where, workers)
        for start in (nginx, h2o, ours):
            name = "sluice" if start is ours else start.__name__
            yield name, workers, lambda start=start, workers=workers: start(where, workers, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()

    about = stored.about() if args.page else None
    where = folder()
    make_site(where, page=BODY)
    rungs = list(servers(where, len(os.sched_getaffinity(0))))
    runs = {}
    for _ in range(args.rounds):
        for connections in (100, 10_000):
            for name, workers, start in rungs:
                program = start()
                if fetch(program.port, TARGET) != (200, b"a" * BODY):
                    raise SystemExit(f"{name} does not answer with the file")
                run = measure(program, TARGET, connections=connections, seconds=args.seconds, core=None,
                              threads=4 if connections > 100 else 1)
                program.stop()
                runs.setdefault((name, workers, connections), []).append(run)

    counted = counters_work()
    table = []
    for (name, workers, connections), of_server in runs.items():
        figures = {"server": name, "workers": workers, "connections": connections,
                   "rps": round(median(run["rps"] for run in of_server)),
                   "cpu_us": round(median(run["cpu_us"] for run in of_server), 2),
                   "p99_us": round(median(run["p99_us"] for run in of_server)),
                   "socket_errors": sum(sum(run["socket_errors"].values()) for run in of_server),
                   "not_2xx": sum(run["not_2xx"] for run in of_server)}
        if counted:
            for key in ("instructions_user", "instructions_kernel"):
                figures[key] = round(median(run[key] for run in of_server))
        base = runs[("blocking", 1, connections)]
        figures["ratio_to_blocking"] = round(figures["rps"] / median(run["rps"] for run in base), 2)
        table.append(figures)
        tell(bench="ladder", rounds=args.rounds, **figures)
    if args.page:
        stored.store("ladder", about, table, rounds=args.rounds, seconds=args.seconds)
        plot(table, PLOT)
        stored.main()


def plot(table, file):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ladder"
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for column, connections in enumerate((100, 10_000)):
        rows = [row for row in table if row["connections"] == connections]
        single = [row for row in rows if row["workers"] == 1 and row["server"] not in VARIANTS and row["server"] != "loops"]
        colours = ["tab:orange" if row["server"] == "sluice" else "tab:blue" if row["server"] in STEPS else "tab:grey"
                   for row in single]
        bars, lines = axes[0][column], axes[1][column]
        bars.barh([row["server"].replace("_", "-") for row in single], [row["rps"] / 1000 for row in single], color=colours)
        bars.invert_yaxis()
        bars.set_title(f"{connections:,} connections")
        bars.set_xlabel("thousand requests a second, one worker")
        for name in ("loops", "nginx", "h2o", "sluice"):
            of_server = sorted((row["workers"], row["rps"] / 1000) for row in rows if row["server"] == name)
            lines.plot(*zip(*of_server), marker="o", label=name, color="tab:orange" if name == "sluice" else None)
        lines.set_xlabel("workers")
        lines.set_ylabel("thousand requests a second")
        lines.set_ylim(bottom=0)
        lines.legend()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
