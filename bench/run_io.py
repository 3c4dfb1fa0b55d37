#!/usr/bin/env python3
"""What a request costs with [server] io = "uring" beside "epoll": two servers of one worker, both on core 0 and loaded at the same
time, each by a client on core 1, so that a slow moment of the machine hits both. Prints the median CPU microseconds a request, and
the median, least and most of each round's own ratio.

usage: run_io.py [--rounds N] [--seconds S] [--cases CASE,CASE]
"""
import argparse
import concurrent.futures

from harness import fetch, folder, median, tell
from http_clients import drain, h2load, wrk
from http_servers import make_certificate, make_site, ours

SIZES = {"page": 1500, "hundred": 100_000, "ten": 10_000_000}
CORE = 1  # the client's

CASES = {
    "100": ("page", lambda server, target, seconds: wrk(server.port, target, 100, seconds, core=CORE)),
    "5000": ("page", lambda server, target, seconds: wrk(server.port, target, 5000, seconds, core=CORE)),
    "close": ("page", lambda server, target, seconds: wrk(server.port, target, 100, seconds, core=CORE,
                                                          fields=["Connection: close"])),
    "tls": ("page", lambda server, target, seconds: h2load(server.tls_port, target, 100, seconds, http1=True, core=CORE)),
    "h2": ("page", lambda server, target, seconds: h2load(server.tls_port, target, 100, seconds, streams=32, core=CORE)),
    "100kB": ("hundred", lambda server, target, seconds: drain(server.port, target, 16, seconds, CORE)),
    "10MB": ("ten", lambda server, target, seconds: drain(server.port, target, 8, seconds, CORE)),
}


def measure(servers, load, target, seconds):
    """Loads both at the same time, so that other work of the machine slows both."""
    before = {io: server.cpu_seconds() for io, server in servers.items()}
    with concurrent.futures.ThreadPoolExecutor(len(servers)) as threads:
        loads = {io: threads.submit(load, server, target, seconds) for io, server in servers.items()}
    results = {}
    for io, server in servers.items():
        results[io] = loads[io].result()
        results[io]["cpu_us"] = 1e6 * (server.cpu_seconds() - before[io]) / results[io]["requests"]
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--cases", default=",".join(CASES))
    args = parser.parse_args()

    where = folder()
    make_site(where, **SIZES)
    make_certificate(where)
    servers = {io: ours(where, io=io) for io in ("epoll", "uring")}
    for name in args.cases.split(","):
        file, load = CASES[name]
        target = f"/{file}.html"
        for server in servers.values():
            if fetch(server.port, target) != (200, b"a" * SIZES[file]):
                raise SystemExit(f"{server.name} does not answer with the file")
            load(server, target, 1)
        rounds = [measure(servers, load, target, args.seconds) for _ in range(args.rounds)]
        runs = {io: [one[io] for one in rounds] for io in servers}
        for io, of_server in runs.items():
            tell(bench="io", case=name, io=io, rounds=args.rounds, cpu_us=round(median(run["cpu_us"] for run in of_server), 2),
                 rps=round(median(run["rps"] for run in of_server)), errors=sum(run["errors"] for run in of_server))
        ratios = [uring["cpu_us"] / epoll["cpu_us"] for epoll, uring in zip(runs["epoll"], runs["uring"])]
        tell(bench="io", case=name, ratio="uring to epoll", cpu=round(median(ratios), 3), least=round(min(ratios), 3),
             most=round(max(ratios), 3))


if __name__ == "__main__":
    main()
