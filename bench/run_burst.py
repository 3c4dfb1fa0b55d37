#!/usr/bin/env python3
"""A burst of 1,000 notifications of PostgreSQL to 1,900 streams of changes, and what an ordinary client sees meanwhile.

usage: run_burst.py [--streams N] [--events N] [--rate N] [--bursts N]

The server has core 0, all clients the others. Latencies count from the moment a request was due. The goals: no request takes longer
than 50 ms, and each stream gets each event.
"""
import argparse
import contextlib
import gc
import multiprocessing
import os
import selectors
import socket
import sys
import time

from harness import folder, postgres, sluice, tell
from percentiles import percentile

MOST_MS = 50
ROW = b'{"n":7,"text":"number 7"}\n'


def listen(port, count, events, ready, done):
    """Opens streams and reads from them. Sets `ready` when all have begun, and `done` when all have had all events."""
    selector = selectors.DefaultSelector()
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(b"GET /numbers/changes HTTP/1.1\r\nHost: a\r\n\r\n")
        one.setblocking(False)
        selector.register(one, selectors.EVENT_READ, [0, False])
    greeted = whole = 0
    while whole < count:
        for key, _ in selector.select(1):
            try:
                got = key.fileobj.recv(1 << 18)
            except BlockingIOError:
                continue
            if not got:
                raise SystemExit("a stream has ended")
            if not key.data[1]:
                key.data[1] = True
                greeted += 1
                if greeted == count:
                    ready.set()
            before = key.data[0]
            key.data[0] += got.count(b"data:")
            whole += before < events <= key.data[0]
    done.set()


def ask(port, rate, until):
    """Latencies in milliseconds of requests for one row, until until() is true."""
    latencies = []
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        start, n = time.perf_counter(), 0
        while not until():
            due = start + n / rate
            n += 1
            if (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            one.sendall(b"GET /numbers/7 HTTP/1.1\r\nHost: a\r\n\r\n")
            got = b""
            while not got.endswith(ROW):
                got += one.recv(65536)
            latencies.append((time.perf_counter() - due) * 1000)
    return sorted(latencies)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1900)
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=500)
    args = parser.parse_args()
    multiprocessing.set_start_method("fork")
    cluster = postgres()
    cluster.psql("CREATE TABLE numbers (n int PRIMARY KEY, text text); INSERT INTO numbers SELECT n, 'number ' || n FROM generate_series(1, 100) n")
    server = sluice(f'''
[database.main]
url = "{cluster.url()}"
[[endpoint]]
path = "/numbers"
get = "SELECT n, text FROM numbers"
changes = {{ notify = "burst", clients = {args.streams}, keep = 10000 }}
[[endpoint]]
path = "/numbers/{{n:int}}"
returns = "object"
get = "SELECT n, text FROM numbers WHERE n = :n"
''', folder(), cores=1, core=0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[1:] or [0])
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    gc.disable()
    ready, done = multiprocessing.Event(), multiprocessing.Event()
    listeners = multiprocessing.Process(target=lambda: (os.nice(19), listen(server.port, args.streams, args.events, ready, done)))
    listeners.start()
    if not ready.wait(60):
        raise SystemExit("the streams do not begin")
    end = time.monotonic() + 5
    quiet = ask(server.port, args.rate, lambda: time.monotonic() > end)
    begun = time.monotonic()
    sender = multiprocessing.Process(target=lambda: cluster.psql(
        f"SELECT pg_notify('burst', n::text) FROM generate_series(1, {args.events}) n"))
    sender.start()
    loud = ask(server.port, args.rate, lambda: done.is_set() or time.monotonic() > begun + 60)
    figures = {"bench": "burst", "streams": args.streams, "events": args.events, "delivered": done.is_set(),
               "seconds": round(time.monotonic() - begun, 2), "requests": len(loud)}
    for name, latencies in (("quiet", quiet), ("burst", loud)):
        figures |= {f"{name}_p50_ms": round(percentile(latencies, 50), 2), f"{name}_p99_ms": round(percentile(latencies, 99), 2),
                    f"{name}_most_ms": round(latencies[-1], 2)}
    figures["within"] = figures["delivered"] and figures["burst_most_ms"] <= MOST_MS
    tell(**figures)
    sender.join()
    listeners.kill()
    return 0 if figures["within"] else 1


if __name__ == "__main__":
    sys.exit(main())
