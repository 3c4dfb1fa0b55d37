#!/usr/bin/env python3
"""Slow clients beside ordinary ones: 1,000 connections of each attack of slowhttptest (slow headers, slow bodies, slow reads) with
the default timeouts, and what an ordinary client at a fixed low rate sees meanwhile. The server has core 0, all clients the others.

usage: run_slow.py [--connections N] [--rate N] [--seconds S] [--rounds N] [--only NAME,NAME]

Latencies count from the moment a request was due. `ratio` is p99 under attack to p99 just before; it shall be at most 2.
`kib_per_slow`: the growth of the server's resident memory for each connection that the attack held (null: it held too few).
"""
import argparse
import gc
import math
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request

from harness import Program, SLUICE, folder, free_port, median, tell
from percentiles import percentile

BODY = b"a" * 1500
ROWS = 100_000
MOST = 2.0


def attacks(port):
    """{name: arguments of slowhttptest}. It sends `Connection: close`, so the server does not wait for an unwanted body, and holds
    none; None stands for slow bodies of our own on connections that stay open."""
    url = f"http://127.0.0.1:{port}"
    read = ["-X", "-w", "512", "-y", "1024", "-n", "1", "-z", "32", "-u"]
    return {"slow-headers": ["-H", "-i", "1", "-u", f"{url}/page.html"],
            "slow-body": ["-B", "-i", "1", "-s", "8192", "-x", "10", "-u", f"{url}/numbers/1"],
            "slow-body-kept": None,
            "slow-read-file": [*read, f"{url}/big.bin"],
            "slow-read-rows": [*read, f"{url}/numbers"]}


class Server(Program):
    command = ()  # the command that runs the program

    def configure(self, text):
        """Returns the configuration; subclasses may add to it."""
        return text

    def __init__(self, where):
        (where / "site").mkdir()
        (where / "site/page.html").write_bytes(BODY)
        (where / "site/big.bin").write_bytes(b"b" * 10_000_000)
        database = sqlite3.connect(where / "numbers.db")
        with database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY, text TEXT)")
            database.executemany("INSERT INTO numbers VALUES (?, ?)", ((n, f"number {n}") for n in range(ROWS)))
            database.execute("CREATE TABLE texts (text TEXT)")
        database.close()
        port, self.admin_port = free_port(), free_port()
        file = where / "sluice.toml"
        file.write_text(self.configure(f'''[server]
listen = ["127.0.0.1:{port}"]
cores = 1
[admin]
listen = "127.0.0.1:{self.admin_port}"
[database.main]
url = "sqlite:{where}/numbers.db"
[[endpoint]]
path = "/numbers"
get = "SELECT n, text FROM numbers ORDER BY n"
[[endpoint]]
path = "/numbers/{{n:int}}"
returns = "object"
get = "SELECT n, text FROM numbers WHERE n = :n"
[[files]]
path = "/"
root = "{where}/site"
'''))
        super().__init__("sluice", [*self.command, SLUICE, "serve", file], port, core=0)

    def connections(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=10) as answer:
            return int(re.search(r"^sluice_connections_open (\d+)", answer.read().decode(), re.M).group(1))


class Client:
    """Requests a file and a row by turns over a kept connection, and each tenth time over a new one."""

    def __init__(self, port):
        self.port = port
        self.kept = self.connect()
        self.failed = 0

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def ask(self, connection, n):
        target, body = ("/page.html", BODY) if n % 2 else ("/numbers/7", b'{"n":7,"text":"number 7"}\n')
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
        got = b""
        while not got.endswith(body):
            piece = connection.recv(65536)
            if not piece:
                raise OSError("closed")
            got += piece
        if not got.startswith(b"HTTP/1.1 200 "):
            raise OSError("refused")

    def run(self, rate, seconds):
        """The latencies in microseconds, sorted. A failed request counts as infinite."""
        latencies = []
        start = time.perf_counter()
        for n in range(int(rate * seconds)):
            due = start + n / rate
            if (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            try:
                if n % 10 == 9:
                    with self.connect() as connection:
                        self.ask(connection, n)
                else:
                    self.ask(self.kept, n)
                latencies.append((time.perf_counter() - due) * 1e6)
            except OSError:
                self.failed += 1
                latencies.append(math.inf)
                self.kept.close()
                self.kept = self.connect()
        return sorted(latencies)


def microseconds(latencies, percent):
    value = percentile(latencies, percent)
    return round(value) if value != math.inf else None


def attack(server, client, arguments, args):
    """What the client sees while slowhttptest holds its connections, and what these connections cost."""
    others = sorted(os.sched_getaffinity(0))[-1]
    before = server.rss_kib()
    command = ["slowhttptest", "-c", str(args.connections), "-r", str(args.connections), "-l", str(args.seconds + 5), "-p",
               "5", "-v", "1", *(arguments or [])]
    if arguments is None:
        command = [sys.executable, __file__, "--connections", str(args.connections), "--drip-bodies-to", str(server.port)]
    running = subprocess.Popen(["nice", "-n", "19", "taskset", "-c", str(others), *command], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 5
        held = 0
        while held < args.connections and time.monotonic() < end:
            held = max(held, server.connections() - 2)  # without the ordinary client's, and slowhttptest's own probe
            time.sleep(0.1)
        latencies = client.run(args.rate, args.seconds)
        left = server.connections() - 1
        memory = server.rss_kib("VmHWM")
    finally:
        running.kill()
        running.wait()
    end = time.monotonic() + 15
    while server.connections() > 1 and time.monotonic() < end:
        time.sleep(0.1)
    return {"latencies": latencies, "held": held, "left": max(left, 0), "rss_before": before, "rss": memory}


def drip_bodies(port, count):
    connections = []
    for _ in range(count):
        connections.append(socket.create_connection(("127.0.0.1", port)))
        connections[-1].sendall(b"POST /numbers/1 HTTP/1.1\r\nHost: slow\r\nContent-Length: 100000\r\n\r\n")
    while True:
        time.sleep(1)
        for connection in connections:
            try:
                connection.send(b"x")
            except OSError:
                pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=8, help="below header_timeout, so that they are all there to the end")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="slow-headers,slow-body,slow-body-kept,slow-read-file,slow-read-rows")
    parser.add_argument("--drip-bodies-to", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.drip_bodies_to:
        drip_bodies(args.drip_bodies_to, args.connections)
    if not shutil.which("slowhttptest"):
        raise SystemExit("there is no slowhttptest; scripts/bootstrap bench")

    # The measuring client must not wait for the attacker: on two cores they share one.
    try:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[1:] or [0])
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        pass
    gc.disable()
    for name in args.only.split(","):
        server = Server(folder())  # one for each attack: the next would reuse the memory of this one
        client = Client(server.port)
        client.run(args.rate, 1)
        quiet, loud = [], []
        for _ in range(args.rounds):
            quiet.append(client.run(args.rate, args.seconds))
            server.forget_peak()
            loud.append(attack(server, client, attacks(server.port)[name], args))
        figures = {"bench": "slow", "attack": name, "connections": args.connections,
                   "held": min(run["held"] for run in loud), "left_at_the_end": max(run["left"] for run in loud)}
        for percent in (50, 99):
            figures[f"quiet_p{percent}_us"] = median(microseconds(run, percent) for run in quiet)
            values = [microseconds(run["latencies"], percent) for run in loud]
            figures[f"p{percent}_us"] = None if None in values else median(values)
        figures["failed"] = client.failed
        ratio = figures["p99_us"] and figures["p99_us"] / figures["quiet_p99_us"]
        figures["ratio"] = ratio and round(ratio, 2)
        figures["within"] = bool(ratio and ratio <= MOST and not client.failed)
        figures["rss_kib"] = max(run["rss"] for run in loud)
        grown = max(run["rss"] - run["rss_before"] for run in loud)
        figures["kib_per_slow"] = round(grown / figures["held"], 1) if figures["held"] > args.connections / 2 else None
        tell(**figures)
        server.stop()


if __name__ == "__main__":
    main()
