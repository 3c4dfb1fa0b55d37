#!/usr/bin/env python3
"""Runs benchmarks one after the other, and says how long each took. One that fails does not stop the others; ends with 1 if any
did.

usage: all.py [--quick | --rounds N] [--page] NAME ...     run_NAME.py of each
  --quick   one round of one second and small tables, where they can be chosen
  --rounds  of those that have rounds (default: 3, with which a run takes an hour and a half; alone, most of them have more)
  --page    stores the figures of those that have a page, and the counts of bench-check
"""
import argparse
import pathlib
import subprocess
import sys
import time

import stored

HERE = pathlib.Path(__file__).resolve().parent
QUICK = {"--rounds": 1, "--seconds": 1, "--scale": 1, "--rows": 10_000, "--generations": 10, "--connections": 1000, "--events": 100}
# A failing server needs its time to be ejected and to come back, and the buffers of clients that read nothing to fill.
LEAST = {("check", "--rounds"): 3, ("failing", "--seconds"): 2, ("slow", "--seconds"): 5, ("bodies", "--seconds"): 5,
         ("rooms", "--seconds"): 5}

ALONE = ("slow",)  # as many rounds as it has by itself: one


def command(name, quick, rounds, page):
    program = HERE / f"run_{name.replace('-', '_')}.py"
    known = subprocess.run([sys.executable, "-B", program, "--help"], capture_output=True, text=True, check=True).stdout
    wanted = QUICK if quick else {} if name in ALONE else {"--rounds": rounds}
    chosen = [part for option, value in wanted.items() if f"{option} " in known
              for part in (option, str(LEAST.get((name, option), value)))]
    if page:
        chosen += [option for option in ("--page", "--store") if f"[{option}]" in known]
    return [sys.executable, "-B", program, *chosen]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    about = stored.about()
    took, failed = {}, []
    for name in args.names:
        begin = time.monotonic()
        print(f"== {name}", flush=True)
        if subprocess.run(command(name, args.quick, args.rounds, args.page)).returncode != 0:
            failed.append(name)
        took[name] = round(time.monotonic() - begin)
    for name, seconds in took.items():
        print(f"{name:<16}{seconds // 60:>4} min {seconds % 60:>2} s{'   failed' if name in failed else ''}")
    if args.page:
        stored.store("durations", about, took)
        stored.main()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
