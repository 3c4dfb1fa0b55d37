#!/usr/bin/env python3
"""Counts what a request of the ladder costs: system calls by strace, instructions in user space by callgrind, and the part of the
time that each system call takes, by perf. The first two do not depend on how busy the machine is. One worker each, 100 keep-alive
connections, 1,500 bytes.

usage: run_profile.py [--only NAME,NAME] [--page]
  --page   stores the figures (results/profile.json), and writes the tables of docs/why-fast.md
"""
import argparse
import collections
import pathlib
import re
import signal
import subprocess
import threading
import time

import stored
from harness import fetch, folder, tell
from http_clients import wrk
from http_cost import instructions
from http_servers import floor, h2o, make_site, nginx, ours
from run_ladder import BODY, STEPS, TARGET, VARIANTS, ladder

SERVERS = {**{step: lambda where, step=step: ladder(step, where) for step in (*STEPS, *VARIANTS)}, "floor": floor, "sluice": ours,
           "h2o": h2o, "nginx": nginx}

# Parts of a request by the kernel's function of the system call. A call of no part counts as "other calls".
PARTS = {
    "receive": ("recvfrom", "recvmsg", "readv"), "send": ("sendto", "sendmsg", "writev", "write"),
    "sendfile": ("sendfile64",), "open and read the file": ("openat", "newfstatat", "fstat", "read", "pread64", "statx"),
    "accept and close": ("accept4", "accept", "close", "shutdown"),
    "wait and register": ("epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl", "io_uring_enter", "setsockopt", "poll"),
}
PART_OF = {call: part for part, calls in PARTS.items() for call in calls}


def system_calls(program, where):
    """{name: calls per request}"""
    output = where / "strace"
    tracing = subprocess.Popen(["strace", "-c", "-f", "-o", str(output), *(f"-p{pid}" for pid in program.pids)],
                               stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    requests = wrk(program.port, TARGET, 100, 2)["requests"]
    tracing.send_signal(signal.SIGINT)
    tracing.wait()
    return {name: round(int(count) / requests, 2) for name, count in
            ((name, count) for count, name in re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$",
                                                         output.read_text(), re.M))
            if name != "total" and int(count) / requests >= 0.02}


def by_function(program, where):
    """The parts of the program's time, by perf at 2 kHz: the system call that a sample is in, or the program's own code."""
    output = where / "perf.data"
    load = threading.Thread(target=wrk, args=(program.port, TARGET, 100, 4, 1, 1))
    load.start()
    time.sleep(0.5)
    subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "-g", "-p", ",".join(map(str, program.pids)),
                    "-o", output, "--", "sleep", "3"], check=True, capture_output=True)
    load.join()
    script = subprocess.run(["perf", "script", "-i", output, "-F", "ip,sym"], check=True, capture_output=True, text=True).stdout
    parts = collections.Counter()
    for sample in script.split("\n\n"):
        frames = [line.split()[1] for line in sample.splitlines() if len(line.split()) > 1]
        addresses = [line.split()[0] for line in sample.splitlines() if line.split()]
        if not addresses:
            continue
        calls = [call for frame in frames
                 if (call := re.sub(r"^(__x64_sys_|__do_sys_|__se_sys_|__sys_|ksys_|do_sys_)", "", frame)) != frame]
        if "sock_read_iter" in frames or "sock_write_iter" in frames:
            parts["receive" if "sock_read_iter" in frames else "send"] += 1
        elif calls:
            parts[next((PART_OF[call] for call in calls if call in PART_OF), "other calls")] += 1
        elif addresses[0].startswith("ffffffff"):
            parts["interrupts, entry and exit"] += 1
        else:
            parts["own code"] += 1
    total = sum(parts.values())
    return {part: round(count / total, 3) for part, count in parts.most_common()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SERVERS))
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    about = stored.about() if args.page else None
    where = pathlib.Path(folder())
    make_site(where, page=BODY)
    table = []
    for name in args.only.split(","):
        program = SERVERS[name](where)
        if fetch(program.port, TARGET) != (200, b"a" * BODY):
            raise SystemExit(f"{name} does not answer with the file")
        calls = system_calls(program, where)
        parts = by_function(program, where)
        program.stop()
        table.append({"server": name, "system_calls": round(sum(calls.values()), 1), "of_these": calls, "time": parts,
                      "instructions_user": instructions(lambda name=name: SERVERS[name](where), where,
                                                        lambda program, seconds: wrk(program.port, TARGET, 100, seconds))})
        tell(bench="profile", **table[-1])
    if args.page:
        stored.store("profile", about, table)
        stored.main()


if __name__ == "__main__":
    main()
