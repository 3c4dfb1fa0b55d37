#!/usr/bin/env python3
"""Reloads under load: generation after generation of a configuration, and what clients see of it.

usage: run_reload.py [--generations N]

Each configuration differs from the one before in routes, SQL, a policy, a header and a SQLite file, and each answer names its
generation four times. Between them come wrong files, the loss of a connection to PostgreSQL, and at the end a database that accepts
connections and sends nothing, with SIGTERM while a reload waits for it. The goals: a generation takes at most ten times as
long as a reload without clients (twenty at the start, in the same run); no request fails (except a write on the lost connection);
no answer mixes two generations; each acknowledged write is there once; connections on routes that stay live on, those on removed
routes end as they should; p99 is at most 50 ms; nothing is left behind, and resident memory grows by at most 5 % in the second
half. Removed routes come back after ten generations, because their counters stay.
"""
import argparse
import contextlib
import json
import multiprocessing
import os
import re
import signal
import socket
import sqlite3
import sys
import threading
import time
import urllib.request

from harness import folder, postgres, sluice, tell
from http1 import Broken, Connection
from http2 import Client
from percentiles import percentile
from websocket import PING, PONG, TEXT, WebSocket

MOST_MS = 50
MOST_TO_ALONE = 10  # the eight processes of clients share the CPUs with it
ALONE = 20  # reloads without clients, an even number
ROWS = 2_000_000
MOST_STATEMENTS = 14  # of one connection: twice as many as a configuration has
MOST_BACKENDS = 10  # two cores, each with four and one that listens
MOST_GROWTH = 1.05  # of resident memory in the second half; in the first, allocators find their size
ENOUGH = 200  # generations for that


def generation(n, files, url):
    return f'''
[server.headers]
X-Generation = "{n}"
[database.file]
url = "sqlite:{files[n % 2]}"
[database.main]
url = "{url}"
pool = 4
[policy.web]
type = "cors"
origins = ["https://all.example"]
expose = ["X-Generation-{n}"]
[[endpoint]]
path = "/file"
database = "file"
returns = "object"
get = "SELECT {n} AS generation, name FROM file"
use = ["web"]
[[endpoint]]
path = "/main"
database = "main"
returns = "object"
get = "SELECT {n} AS generation, (SELECT count(*) FROM pg_prepared_statements) AS statements"
use = ["web"]
[[endpoint]]
path = "/only/{n % 10}"
database = "main"
returns = "object"
get = "SELECT {n} AS generation, '{files[n % 2]}' AS name"
use = ["web"]
[[endpoint]]
path = "/written"
database = "main"
post = "INSERT INTO written (n) VALUES (:n)"
[[endpoint]]
path = "/long"
database = "main"
get = "SELECT i, {n} AS generation FROM generate_series(1, {ROWS}) AS i"
[[endpoint]]
path = "/notes"
database = "main"
get = "SELECT n FROM notes"
changes = {{ notify = "notes" }}
[[endpoint]]
path = "/notes/{n % 10}"
database = "main"
get = "SELECT n FROM notes"
changes = {{ notify = "notes" }}
[[resident]]
name = "known"
database = "main"
query = "SELECT n FROM notes"
key = "n"
[[websocket]]
path = "/echo"
handler = "echo"
[[websocket]]
path = "/echo/{n % 10}"
handler = "echo"
'''


class Stream(Connection):
    """A stream of changes whose head has arrived."""

    def __init__(self, port, target):
        super().__init__(port)
        self.send(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
        head = self._until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head

    def hears(self):
        """Waits for an event. Returns False if the stream ends with its last chunk."""
        while size := int(self._until(b"\r\n"), 16):
            if b"data:" in self._exactly(size + 2):
                return True
        return False


def fault_of(target, status, fields, body):
    """What is wrong with an answer, or None. `fields` has names in lower case."""
    if status != 200:
        return f"{target}: {status} {body[:200]!r}"
    if target.startswith("/known"):
        return None
    said = {re.sub(r"\D", "", fields.get("access-control-expose-headers", "")), fields.get("x-generation"),
            str(json.loads(body)["generation"])}
    name = json.loads(body).get("name")
    if len(said) != 1 or name and not name.endswith(f"{int(min(said)) % 2}.db"):
        return f"{target}: {said} {name}"
    return None


def ask(port, version, connections, stop, results):
    """Sends requests over some connections, one after the other."""
    latencies, faults = [], []
    origin = "https://all.example"
    try:
        clients = [(Connection if version == 1 else Client)(port) for _ in range(connections)]
        while not stop.is_set():
            for client in clients:
                for target in ("/file", "/main", "/known/1"):
                    begin = time.perf_counter()
                    answer = (client.get(target, f"Origin: {origin}") if version == 1 else
                              client.get(target, fields=[("origin", origin)]))
                    latencies.append((time.perf_counter() - begin) * 1000)
                    if fault := fault_of(target, answer.status, dict(answer.fields), answer.body):
                        faults.append(fault)
    except Exception as error:  # noqa: BLE001: it is reported
        faults.append(repr(error))
    results.put((latencies, faults))


def write(port, stop, results):
    """Writes rows, each with a number of its own. Reports how many, and which were not acknowledged."""
    latencies, faults, lost, n = [], [], [], 0
    with Connection(port) as client:
        while not stop.is_set():
            n += 1
            begin = time.perf_counter()
            answer = client.call("POST", "/written", b'{"n": %d}' % n, "Content-Type: application/json")
            latencies.append((time.perf_counter() - begin) * 1000)
            if answer.status == 503:
                lost.append(n)
            elif answer.status != 201:
                faults.append(f"/written: {answer.status} {answer.body[:200]!r}")
    results.put((latencies, faults, n, lost))


def sip(port, begun, stop, results):
    """Downloads slowly, for as long as the benchmark runs. Reports the number of whole rows of the first generation."""
    rows, rest = 0, b""
    with Connection(port, timeout=120) as client:
        client.send("GET /long HTTP/1.1\r\nHost: a\r\nAccept: text/csv\r\n\r\n")
        assert client._until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        begun.set()
        with contextlib.suppress(Broken):
            while size := int(client._until(b"\r\n"), 16):
                lines = (rest + client._exactly(size)).split(b"\n")
                client._exactly(2)
                rest = lines.pop()
                rows += sum(line.strip().endswith(b",0") for line in lines)
                if not stop.is_set():
                    time.sleep(0.1)
    results.put(rows)


class Served:
    """The program, its configuration file and its metrics."""

    def __init__(self, files, url):
        self.files, self.url, self.folder = files, url, folder()
        self.program = sluice(generation(0, files, url), self.folder, cores=2)
        self.port = self.program.port
        (self.file,) = self.folder.glob("*.toml")
        text = self.file.read_text()
        self.head = text.split("\n[server.headers]")[0]
        self.admin = re.search(r'\[admin\]\nlisten = "([^"]+)"', text)[1]
        self.program.wait_for(int(self.admin.rsplit(":", 1)[1]))

    def reload(self, config):
        """The status and the body of the answer."""
        self.file.write_text(self.head + config)
        request = urllib.request.Request(f"http://{self.admin}/reload", method="POST")
        with contextlib.closing(urllib.request.build_opener(NoError).open(request, timeout=300)) as answer:
            return answer.status, answer.read().decode()

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=30) as answer:
            found = re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.M)
        return float(found[1]) if found else 0

    def state(self, cluster):
        pid = self.program.process.pid
        with Connection(self.port) as client:
            statements = json.loads(client.get("/main").body)["statements"]
        return {"rss_kib": self.program.rss_kib(), "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
                "threads": len(os.listdir(f"/proc/{pid}/task")), "statements": statements,
                "earlier": self.metric("sluice_earlier_configurations"),
                "backends": int(cluster.psql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")) - 1}


class NoError(urllib.request.HTTPErrorProcessor):
    def http_response(self, request, response):
        return response


def echoes(talk):
    talk.say(TEXT, b"still here")
    while (frame := talk.frame()).opcode == PING:
        talk.say(PONG, frame.payload)
    return frame.payload == b"still here"


def ends_well(pairs):
    """How many streams of removed routes ended whole, and how many WebSockets closed with 1001."""
    whole = sum(not stream.hears() for stream, _ in pairs)
    told = 0
    for _, talk in pairs:
        frame = talk.frame()
        told += frame.opcode == 8 and frame.code == 1001
    for stream, talk in pairs:
        stream.close()
        talk.close()
    return whole, told


def quiet_ask(port, seconds):
    latencies, end = [], time.monotonic() + seconds
    with Connection(port) as client:
        while time.monotonic() < end:
            begin = time.perf_counter()
            assert client.get("/main").status == 200
            latencies.append((time.perf_counter() - begin) * 1000)
    return sorted(latencies)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=200, help="a multiple of ten")
    args = parser.parse_args()
    cluster = postgres()
    cluster.psql("CREATE TABLE notes (n int PRIMARY KEY); INSERT INTO notes VALUES (1); CREATE TABLE written (n int)")
    where = folder()
    files = [where / "0.db", where / "1.db"]
    for file in files:
        with contextlib.closing(sqlite3.connect(file)) as database:
            database.executescript(f"PRAGMA journal_mode = WAL; CREATE TABLE file (name text); INSERT INTO file VALUES ('{file}')")
    served = Served(files, cluster.url())
    figures = {"bench": "reload", "generations": args.generations}

    start = time.monotonic()
    for n in range(1, ALONE + 1):
        assert served.reload(generation(n % 2, files, served.url))[0] == 200
    alone = (time.monotonic() - start) / ALONE

    stop, begun, results, written, sipped = multiprocessing.Event(), multiprocessing.Event(), *(multiprocessing.Queue() for _ in range(3))
    clients = [multiprocessing.Process(target=ask, args=(served.port, version, connections, stop, results))
               for version, connections in [(1, 8)] * 4 + [(2, 4)] * 2]
    clients += [multiprocessing.Process(target=write, args=(served.port, stop, written)),
                multiprocessing.Process(target=sip, args=(served.port, begun, stop, sipped))]
    for client in clients:
        client.start()
    assert begun.wait(60)
    talks = [WebSocket(served.port, "/echo") for _ in range(50)]
    streams = [Stream(served.port, "/notes/changes") for _ in range(20)]

    open_ones, whole, told, refused, warm, memory = [], 0, 0, 0, None, []
    start = time.monotonic()
    for n in range(1, args.generations + 1):
        open_ones.append((Stream(served.port, f"/notes/{(n - 1) % 10}/changes"), WebSocket(served.port, f"/echo/{(n - 1) % 10}")))
        status, text = served.reload(generation(n, files, served.url))
        if status != 200:
            raise SystemExit(f"generation {n}: {status} {text}")
        for version in (Connection, Client):
            with version(served.port) as client:
                found = [client.get(f"/only/{which % 10}") for which in (n, n - 1)]
                if [one.status for one in found] != [200, 404]:
                    raise SystemExit(f"generation {n}: {[(one.status, one.body) for one in found]}")
        if n % 10 == 0:
            status, text = served.reload(f'[[endpoint]]\npath = "/{n}"\nget = "SELECT"\nnone = 1\n')
            refused += status == 422 and str(served.file) in text
            ended = ends_well(open_ones)
            assert all(map(echoes, talks))
            whole, told, open_ones = whole + ended[0], told + ended[1], []
        if n % 20 == 0:
            memory.append(served.program.rss_kib())
        if n == args.generations // 2:
            warm = served.state(cluster)
        if n == args.generations // 2:
            cluster.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND "
                         "query LIKE 'SELECT%AS statements' LIMIT 1")
    seconds = time.monotonic() - start
    stop.set()
    asked = [results.get(timeout=60) for _ in range(6)]
    write_latencies, write_faults, last, lost = written.get(timeout=60)
    rows = sipped.get(timeout=120)
    latencies = sorted(sum((one[0] for one in asked), write_latencies))
    faults = sum((one[1] for one in asked), write_faults)
    rows_written = [int(cluster.psql(f"SELECT count({what}) FROM written WHERE NOT n = ANY ('{{{','.join(map(str, lost))}}}')"))
                    for what in ("*", "DISTINCT n")]

    alive = 0
    for talk in talks:
        alive += echoes(talk)
    cluster.psql("NOTIFY notes")
    heard = sum(stream.hears() for stream in streams)
    for one in [*talks, *streams]:
        one.close()
    end = time.monotonic() + 30
    while served.metric("sluice_earlier_configurations") > 0 and time.monotonic() < end:
        time.sleep(0.1)
    last_state = served.state(cluster)
    figures |= {"seconds": round(seconds, 1), "alone_ms": round(1000 * alone, 1),
                "to_alone": round(seconds / args.generations / alone, 1),
                "completed": served.metric('sluice_reloads_total{result="done"}') - ALONE,
                "refused": refused, "requests": len(latencies), "failed": len(faults), "faults": faults[:5],
                "p50_ms": round(percentile(latencies, 50), 2), "p99_ms": round(percentile(latencies, 99), 2),
                "most_ms": round(latencies[-1], 1), "acknowledged": last - len(lost), "rows_written": rows_written, "not_acknowledged": len(lost), "long_rows": rows,
                "websockets_alive": alive, "streams_alive": heard, "streams_ended": whole, "websockets_told": told,
                "half_way": warm, "end": last_state, "rss_kib_every_20": memory}

    # A database that hangs, and SIGTERM while a reload waits for it.
    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as hung:
        config = generation(args.generations + 1, files, served.url) + (
            f'[database.hung]\nurl = "postgres://a@127.0.0.1:{hung.getsockname()[1]}/a"\n'
            '[[endpoint]]\npath = "/hung"\ndatabase = "hung"\nget = "SELECT 1 AS n"\n')
        waiting = threading.Thread(target=reload_quietly, args=(served, config))
        waiting.start()
        taken, _ = hung.accept()
        hanging = quiet_ask(served.port, 2)
        figures["hanging_p99_ms"] = round(percentile(hanging, 99), 2)
        begin = time.monotonic()
        served.program.process.send_signal(signal.SIGTERM)
        figures["exit"] = served.program.process.wait(60)
        figures["exit_s"] = round(time.monotonic() - begin, 1)
        waiting.join()
        taken.close()

    expected = args.generations
    figures["within"] = (
        figures["to_alone"] <= MOST_TO_ALONE and figures["completed"] == expected and refused == expected // 10 and not faults and
        figures["p99_ms"] <= MOST_MS and rows_written == [last - len(lost)] * 2 and len(lost) <= 1 and rows == ROWS and alive == 50 and heard == 20 and
        whole == told == expected // 10 * 10 and figures["hanging_p99_ms"] <= MOST_MS and figures["exit"] == 0 and
        (args.generations < ENOUGH or last_state["rss_kib"] <= MOST_GROWTH * warm["rss_kib"]) and last_state["earlier"] == 0 and
        last_state["descriptors"] <= warm["descriptors"] and last_state["threads"] <= warm["threads"] and
        last_state["statements"] <= MOST_STATEMENTS and last_state["backends"] <= MOST_BACKENDS)
    tell(**figures)
    return 0 if figures["within"] else 1


def reload_quietly(served, config):
    with contextlib.suppress(OSError):
        served.reload(config)


if __name__ == "__main__":
    sys.exit(main())
