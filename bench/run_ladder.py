#!/usr/bin/env python3
"""The ladder: from a blocking server to a loop for each core, then Sluice, nginx and h2o, all in one run.

Each answers the same file of 1,500 bytes to wrk, at 100 and at 10,000 connections, with every core for both sides, and with 1 ... N
workers where it has workers. The table goes to standard output as JSON lines and, with --plot, to docs/ladder.svg as a picture.
usage: run_ladder.py [--rounds N] [--seconds S] [--plot FILE]
"""
import argparse
import os

from harness import BUILD, Program, counters_work, fetch, folder, free_port, median, tell
from http_cost import measure
from http_servers import h2o, make_site, nginx, ours

STEPS = ("blocking", "readiness", "keep_alive", "send_file", "loops")
BODY = 1500
TARGET = "/page.html"


def ladder(step, where, workers=1):
    port = free_port()
    return Program(step, [BUILD / f"bench/ladder_{step}", port, where / "site/page.html", workers], port)


def servers(where, cores):
    """(name, workers, function that starts it), the lowest rung first."""
    for step in STEPS[:-1]:
        yield step, 1, lambda step=step: ladder(step, where)
    for workers in range(2, cores + 1):
        yield "loops", workers, lambda workers=workers: ladder("loops", where, workers)
    for workers in range(1, cores + 1):
        yield "nginx", workers, lambda workers=workers: nginx(where, workers, None)
        yield "h2o", workers, lambda workers=workers: h2o(where, workers, None)
        yield "sluice", workers, lambda workers=workers: ours(where, workers, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--plot")
    args = parser.parse_args()

    where = folder()
    make_site(where, page=BODY)
    cores = len(os.sched_getaffinity(0))
    rungs = list(servers(where, cores))
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
        figures = {"bench": "ladder", "server": name, "workers": workers, "connections": connections, "rounds": args.rounds,
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
        tell(**figures)
    if args.plot:
        plot(table, args.plot)


def plot(table, file):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ladder"
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for axis, connections in zip(axes, (100, 10_000)):
        rows = [row for row in table if row["connections"] == connections]
        names = [f'{row["server"]} ×{row["workers"]}' if row["workers"] > 1 else row["server"] for row in rows]
        colours = ["tab:orange" if row["server"] == "sluice" else "tab:blue" if row["server"] in STEPS else "tab:grey"
                   for row in rows]
        axis.barh(names, [row["rps"] / 1000 for row in rows], color=colours)
        axis.invert_yaxis()
        axis.set_title(f"{connections:,} connections")
        axis.set_xlabel("thousand requests a second")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
