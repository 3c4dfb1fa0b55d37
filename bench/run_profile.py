#!/usr/bin/env python3
"""Counts what a request of the ladder costs: system calls by strace, instructions in user space by callgrind. Neither depends on
how busy the machine is. One worker each, 100 keep-alive connections, 1,500 bytes.

usage: run_profile.py [--only NAME,NAME]
"""
import argparse
import pathlib
import re
import signal
import subprocess
import time

from harness import fetch, folder, tell
from http_clients import wrk
from http_cost import instructions
from http_servers import floor, h2o, make_site, nginx, ours
from run_ladder import BODY, STEPS, TARGET, ladder

SERVERS = {**{step: lambda where, step=step: ladder(step, where) for step in STEPS}, "floor": floor, "sluice": ours,
           "h2o": h2o, "nginx": nginx}


def system_calls(program, where):
    """{name: calls per request}"""
    output = where / "strace"
    tracing = subprocess.Popen(["strace", "-c", "-f", "-o", str(output), *(f"-p{pid}" for pid in program.pids)],
                               stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    requests = wrk(program.port, TARGET, 100, 2)["requests"]
    tracing.send_signal(signal.SIGINT)
    tracing.wait()
    return {name: round(int(count) / requests, 2) for count, name in
            re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", output.read_text(), re.M)
            if name != "total" and int(count) / requests >= 0.02}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SERVERS))
    args = parser.parse_args()
    where = pathlib.Path(folder())
    make_site(where, page=BODY)
    for name in args.only.split(","):
        program = SERVERS[name](where)
        if fetch(program.port, TARGET) != (200, b"a" * BODY):
            raise SystemExit(f"{name} does not answer with the file")
        calls = system_calls(program, where)
        program.stop()
        tell(bench="profile", server=name, system_calls=round(sum(calls.values()), 1), of_these=calls,
             instructions_user=instructions(lambda name=name: SERVERS[name](where), where,
                                    lambda program, seconds: wrk(program.port, TARGET, 100, seconds)))


if __name__ == "__main__":
    main()
