#!/usr/bin/env python3
"""Runs benchmarks one after the other, and says how long each took. One that fails does not stop the others; ends with 1 if any
did.

usage: all.py [--quick] NAME ...     run_NAME.py of each; --quick: one round of one second and small tables, where they can be chosen
"""
import pathlib
import subprocess
import sys
import time

import stored

HERE = pathlib.Path(__file__).resolve().parent
QUICK = {"--rounds": 1, "--seconds": 1, "--scale": 1, "--rows": 10_000, "--generations": 10, "--connections": 1000, "--events": 100}
# A failing server needs its time to be ejected and to come back.
LEAST = {("failing", "--seconds"): 2, ("slow", "--seconds"): 5, ("bodies", "--seconds"): 5}


def command(name, quick):
    program = HERE / f"run_{name.replace('-', '_')}.py"
    chosen = []
    if quick:
        known = subprocess.run([sys.executable, "-B", program, "--help"], capture_output=True, text=True, check=True).stdout
        chosen = [part for option, value in QUICK.items() if f"{option} " in known
                  for part in (option, str(LEAST.get((name, option), value)))]
    return [sys.executable, "-B", program, *chosen]


def main():
    names = [name for name in sys.argv[1:] if name != "--quick"]
    quick = "--quick" in sys.argv
    about = stored.about()
    took, failed = {}, []
    for name in names:
        begin = time.monotonic()
        print(f"== {name}", flush=True)
        if subprocess.run(command(name, quick)).returncode != 0:
            failed.append(name)
        took[name] = round(time.monotonic() - begin)
    for name, seconds in took.items():
        print(f"{name:<16}{seconds // 60:>4} min {seconds % 60:>2} s{'   failed' if name in failed else ''}")
    if not quick and not failed:
        stored.store("durations", about, took)
        stored.main()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
