#!/usr/bin/env python3
"""Request bodies that never end, against a memory limit, and what an ordinary client sees meanwhile. The attacks are 1,500
connections that hold 1 MB each and come back a second after they were cut, as Retry-After asks, and one HTTP/2 connection that
sends 1 MB on each of 100 streams. Both run with `body_memory = "256MiB"`, and in turns with the default in a 600 MB address space.

usage: run_bodies.py [--connections N] [--rate N] [--seconds S] [--only http1,http2,limited]

The server has core 0, all clients the others. The ordinary client requests a file and a row by turns and writes a row each tenth
time; latencies count from the moment a request was due, and `refused` counts its writes that got 503. The goals: the process lives,
p99 is at most 50 ms, nothing fails, and 30 s after the end RSS is at most 48 MiB above its first value.
"""
import argparse
import contextlib
import gc
import multiprocessing
import os
import re
import selectors
import socket
import struct
import sys
import time
import urllib.request

from harness import folder, tell
from run_slow import Client, Server, microseconds

MOST_MS = 50
FALLEN_KIB = 48 * 1024
BODY = 1_000_000
HEAD = b"POST /texts HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1048000\r\n\r\n"


class BodiesServer(Server):
    def __init__(self, where, server, command=()):
        self.more, self.command = server, command
        super().__init__(where)

    def configure(self, text):
        return text.replace("cores = 1", f"cores = 1\n{self.more}") + '''
[[endpoint]]
path = "/texts"
post = "INSERT INTO texts (text) VALUES (:text)"
'''

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=10) as answer:
            return int(re.search(rf"^{name} (\d+)", answer.read().decode(), re.M).group(1))


class WritingClient(Client):
    """Writes a row with each tenth request, over a connection of its own."""
    refused = 0

    def ask(self, connection, n):
        if n % 10 != 9:
            return super().ask(connection, n)
        body = b'{"text":"an ordinary row"}'
        connection.sendall(b"POST /texts HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        got = b""
        while piece := connection.recv(65536):
            got += piece
        if got.startswith(b"HTTP/1.1 503 "):
            self.refused += 1
        elif not got.startswith(b"HTTP/1.1 201 "):
            raise OSError("refused")


def hold_http1(port, count, until):
    """Opens connections that never send the end of a body; a connection that is answered or cut comes back a second later."""
    selector = selectors.DefaultSelector()
    text = HEAD + b'{"text":"' + b"x" * BODY

    def begin():
        one = socket.socket()
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            one.connect(("127.0.0.1", port))
        selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE, [0])

    for _ in range(count):
        begin()
    refused = []  # the time of each, ascending
    while time.monotonic() < until:
        while refused and refused[0] + 1 < time.monotonic():
            refused.pop(0)
            begin()
        for key, events in selector.select(0.1):
            one, at = key.fileobj, key.data
            try:
                if events & selectors.EVENT_WRITE:
                    at[0] += one.send(text[at[0]:at[0] + 65536])
                    if at[0] == len(text):
                        selector.modify(one, selectors.EVENT_READ, at)
                if events & selectors.EVENT_READ and len(one.recv(65536)) >= 0:
                    raise OSError("answered")
            except BlockingIOError:
                pass
            except OSError:
                selector.unregister(one)
                one.close()
                refused.append(time.monotonic())


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def hold_http2(port, until):
    """One connection that sends as much of 100 bodies as its windows allow, and begins a new body for each that is refused."""
    block = b"\x83\x86\x04\x06/texts\x01\x01a\x0f\x10\x10application/json"
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as one:
            one.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
            windows, sent, ids, buffer, initial = {0: 65535}, {}, iter(range(1, 1 << 30, 2)), b"", 65535
            while time.monotonic() < until:
                while len(sent) < 100:
                    stream = next(ids)
                    sent[stream], windows[stream] = 0, initial
                    one.sendall(frame(1, 4, stream, block))
                out = b""
                for stream, done in sent.items():
                    size = min(16384, windows[0], windows[stream], BODY - done)
                    if size > 0:
                        text = b'{"text":"'.ljust(size, b"x") if done == 0 else b"x" * size
                        out += frame(0, 0, stream, text)
                        sent[stream] += size
                        windows[0] -= size
                        windows[stream] -= size
                if out:
                    one.sendall(out)
                one.settimeout(0.001 if out else 0.1)
                with contextlib.suppress(TimeoutError):
                    got = one.recv(1 << 16)
                    if not got:
                        raise OSError("closed")
                    buffer += got
                one.settimeout(1)
                while len(buffer) >= 9 and len(buffer) >= 9 + (size := int.from_bytes(buffer[:3], "big")):
                    kind, flags, stream, payload = buffer[3], buffer[4], int.from_bytes(buffer[5:9], "big"), buffer[9:9 + size]
                    buffer = buffer[9 + size:]
                    if kind == 8 and stream in windows:
                        windows[stream] += int.from_bytes(payload, "big")
                    elif kind == 4 and not flags & 1:
                        for at in range(0, len(payload), 6):
                            if payload[at:at + 2] == b"\0\x04":
                                new = int.from_bytes(payload[at + 2:at + 6], "big")
                                for each in sent:
                                    windows[each] += new - initial
                                initial = new
                        one.sendall(frame(4, 1, 0))
                    elif kind == 3 or (kind in (0, 1) and flags & 1):
                        sent.pop(stream, None)
                        windows.pop(stream, None)


def attackers(name, port, args, until):
    both = {"http1": lambda: hold_http1(port, args.connections, until), "http2": lambda: hold_http2(port, until)}
    return list(both.values()) if name == "limited" else [both[name]]


def run(name, args):
    limited = name == "limited"
    server = BodiesServer(folder(), "" if limited else 'body_memory = "256MiB"', ["prlimit", f"--as={600 << 20}"] if limited else [])
    client = WritingClient(server.port)
    client.run(args.rate, 1)
    quiet = client.run(args.rate, 5)
    before = server.rss_kib()
    client.failed = client.refused = 0
    server.forget_peak()
    until = time.monotonic() + args.seconds
    processes = []
    for attack in attackers(name, server.port, args, until):
        process = multiprocessing.Process(target=lambda: (os.nice(19), attack()))
        process.start()
        processes.append(process)
    loud = client.run(args.rate, args.seconds)
    peak = server.rss_kib("VmHWM")
    held = server.metric("sluice_body_bytes_max")
    for process in processes:
        process.join(args.seconds)
        process.kill()
    ended = time.monotonic()
    fallen = None
    while fallen is None and time.monotonic() < ended + 30:
        time.sleep(0.5)
        if server.rss_kib() <= before + FALLEN_KIB:
            fallen = round(time.monotonic() - ended, 1)
    figures = {"bench": "bodies", "attack": name, "lives": server.process.poll() is None, "limit_mib": held >> 20,
               "failed": client.failed, "refused": client.refused}
    for percent in (50, 99):
        for label, latencies in (("quiet_", quiet), ("", loud)):
            value = microseconds(latencies, percent)
            figures[f"{label}p{percent}_ms"] = value and round(value / 1000, 2)
    figures |= {"cut": server.metric("sluice_bodies_cut_total"), "bodies_refused": server.metric("sluice_bodies_refused_total"),
                "out_of_memory": server.metric("sluice_out_of_memory_total"), "rss_before_kib": before, "rss_peak_kib": peak,
                "rss_after_kib": server.rss_kib(), "fallen_after_s": fallen}
    figures["within"] = bool(figures["lives"] and figures["p99_ms"] is not None and figures["p99_ms"] <= MOST_MS and
                             not client.failed and fallen is not None)
    tell(**figures)
    server.stop()
    return figures["within"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1500)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--only", default="http1,http2,limited")
    args = parser.parse_args()
    multiprocessing.set_start_method("fork")
    # The measuring client must not wait for the attacker: on two cores they share one.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[1:] or [0])
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    gc.disable()
    return 0 if all([run(name, args) for name in args.only.split(",")]) else 1


if __name__ == "__main__":
    sys.exit(main())
