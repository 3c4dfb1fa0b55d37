#!/usr/bin/env python3
"""Files over HTTP: the floor, Sluice, h2o and nginx take turns in one run, one worker each, on core 0 with the client on core 1.

usage: run_http.py [--rounds N] [--seconds S] [--only NAME,NAME] [--cases CASE,CASE] [--page]
  --page   stores the figures of all cases (results/http.json), and writes results/http.md and the tables of README
"""
import argparse
import dataclasses
from collections.abc import Callable

import stored
from harness import counters_work, fetch, folder, median, tell
from http_clients import LATENCIES, drain, h2load, wrk
from http_cost import cost_of
from http_servers import SERVERS, make_certificate, make_site

SIZES = {"page": 1500, "hundred": 100_000, "ten": 10_000_000}
CORE = 1  # the client's


@dataclasses.dataclass
class Case:
    name: str
    file: str  # empty: the load checks the answers
    load: Callable  # (program, target, seconds)
    beside_floor: bool = False


CASES = (
    Case("static", "page", lambda program, target, seconds: wrk(program.port, target, 100, seconds, core=CORE), True),
    Case("static-10k", "page", lambda program, target, seconds: wrk(program.port, target, 10_000, seconds, core=CORE)),
    Case("100kB", "hundred", lambda program, target, seconds: drain(program.port, target, 16, seconds, CORE)),
    Case("10MB", "ten", lambda program, target, seconds: drain(program.port, target, 8, seconds, CORE)),
    Case("tls", "page", lambda program, target, seconds: h2load(program.tls_port, target, 100, seconds, http1=True, core=CORE)),
    Case("tls-100kB", "hundred",
         lambda program, target, seconds: h2load(program.tls_port, target, 16, seconds, http1=True, core=CORE)),
    Case("h2", "page",
         lambda program, target, seconds: h2load(program.tls_port, target, 100, seconds, streams=32, core=CORE)),
    Case("h2-100kB", "hundred",
         lambda program, target, seconds: h2load(program.tls_port, target, 16, seconds, streams=8, core=CORE)),
    Case("h2c-100kB", "hundred",
         lambda program, target, seconds: h2load(program.h2c_port, target, 16, seconds, streams=8, tls=False, core=CORE)),
)


def _cost(run):
    return sum(run.get(f"instructions_{kind}", 0) for kind in ("user", "kernel")) or run["cpu_us"]


def _by_round(mine, others):
    """The medians of each round's own ratios: both sides of a ratio ran at nearly the same time."""
    pairs = list(zip(mine, others, strict=True))
    return {"rps": round(median(one["rps"] / other["rps"] for one, other in pairs), 3),
            "cost": round(median(_cost(one) / _cost(other) for one, other in pairs), 3),
            "cpu_us": round(median(one["cpu_us"] / other["cpu_us"] for one, other in pairs), 3)}


def run(case, programs, rounds, seconds, bench="http"):
    """Prints a line for each server, and one with the ratios of Sluice's figures to the others'. Returns each server's medians."""
    target = f"/{case.file}.html"
    for program in programs:
        if case.file and fetch(program.port, target, "-k", scheme=program.scheme) != (200, b"a" * SIZES[case.file]):
            raise SystemExit(f"{program.name} does not answer with the file")
        cost_of(program, lambda program=program: case.load(program, target, seconds))  # warms up
    runs = {program.name: [] for program in programs}
    for number in range(rounds):  # in turns, so that a slow minute of the machine hits all of them
        first = number % len(programs)
        for program in (*programs[first:], *programs[:first]):
            runs[program.name].append(cost_of(program, lambda program=program: case.load(program, target, seconds)))

    medians = {}
    for name, of_server in runs.items():
        middle = {key: median(run[key] for run in of_server) for key in of_server[0]
                  if isinstance(of_server[0][key], (int, float)) and key not in ("requests", "megabytes")}
        middle |= {"cost": _cost(middle), "errors": sum(run["errors"] for run in of_server)}
        medians[name] = middle
        tell(bench=bench, case=case.name, server=name, rounds=rounds, rps=round(middle["rps"]), mb_s=round(middle["mb_s"], 1),
             busy=round(median(run["cpu_us"] * run["rps"] / 1e6 for run in of_server), 2),
             **{key: round(value, 2) for key, value in middle.items() if key.startswith(("cpu_us", "instructions"))},
             **{key: round(middle[key]) for key in LATENCIES if key in middle}, errors=middle["errors"])
    if "sluice" in medians:
        mine = medians["sluice"]
        tell(bench=bench, case=case.name, ratio_of="sluice",
             cost="instructions" if counters_work() else "cpu_us (this machine does not count instructions)",
             **{f"to_{name}": {"cost": round(mine["cost"] / other["cost"], 3), "rps": round(mine["rps"] / other["rps"], 3),
                               "mb_s": round(mine["mb_s"] / other["mb_s"], 3),
                               "by_round": _by_round(runs["sluice"], runs[name])}
                for name, other in medians.items() if name != "sluice"})
    return medians


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--only", default=",".join(SERVERS))
    parser.add_argument("--cases", default=",".join(case.name for case in CASES))
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    about = stored.about() if args.page else None

    where = folder()
    make_site(where, **SIZES)
    make_certificate(where)
    programs = [SERVERS[name](where) for name in args.only.split(",")]
    wanted = args.cases.split(",")
    table = {}
    for name in wanted:
        case = next(case for case in CASES if case.name == name)
        table[name] = run(case, [program for program in programs if case.beside_floor or program.name != "floor"], args.rounds,
                          args.seconds)
    if args.page:
        stored.store("http", about, {case: {name: {key: round(value, 2) for key, value in medians.items()}
                                            for name, medians in of_case.items()} for case, of_case in table.items()},
                     rounds=args.rounds, seconds=args.seconds)
        stored.main()


if __name__ == "__main__":
    main()
