#!/usr/bin/env python3
"""How cost grows as work grows: connections, routes, hosts, policies, tokens, keys, servers, rows, sessions, bodies, streams, databases
and reloads, each at sizes that grow by about 3 to 10 times. One worker on core 0, the client on core 1.

Each dimension promises how its cost grows: constant, logarithmic or linear. growth.py judges each promise by the exponent of its
figures. All sizes of a dimension run in turns, so that a slow second of the machine hits all of them; the first turn warms up.
A cost is CPU time of the program, in user space and in the kernel. Latencies are the client's; under a closed loop they include the
time in which requests wait for each other.

usage: run_growth.py [--rounds N] [--seconds S] [--only NAME,NAME] [--full] [--page]
  --only   these dimensions
  --full   also a resident table of 10,000,000 rows
  --page   stores the figures (results/growth.json), and writes docs/scaling.svg and the tables of docs/scaling.md
"""
import argparse
import base64
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import hmac
import http.client
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable

import growth
import stored
from harness import descendants, folder, free_port, median, sluice, tell
from http_clients import drain, h2load, latency, wrk
from http_cost import cost_of
from run_gateway import SECRET
from run_msg import load as load_frames
from run_msg import service
from run_resident import admin_port, metric

CORE = 1  # of the client, and of the server behind
MINUTES = 12
DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
MOST_WAIT = 60  # seconds, for wrk to connect
MOST_CONNECTIONS = min(20_000, DESCRIPTORS - 600)
ANSWER = 'respond = { status = 200, body = "' + "a" * 100 + '" }\n'

SCRIPT = """
local file = io.open("FILE", "rb")
local requests, at = {}, 0
for one in file:read("*a"):gmatch("[^%z]+") do requests[#requests + 1] = one end
file:close()
function request()
  at = at % #requests + 1
  return requests[at]
end
"""


@dataclasses.dataclass
class Subject:
    """A running program at one size. `measure(seconds)` returns cpu_us, p99_us, errors and requests."""
    program: object
    measure: Callable
    more: dict = dataclasses.field(default_factory=dict)  # further figures


@dataclasses.dataclass
class Dimension:
    of: str          # what grows
    unit: str        # the cost is CPU time for each of these
    sizes: tuple
    promise: str     # how the cost grows with the size
    make: Callable   # (folder, size) -> Subject
    memory: str = ""        # how the program's memory grows, if that is a promise
    peak: bool = False      # whether memory is the peak, because it is given back after the load


DIMENSIONS = {}


def dimension(of, sizes, promise, unit="request", **more):
    def add(make):
        DIMENSIONS[make.__name__.replace("_", "-")] = Dimension(of, unit, sizes, promise, make, **more)
        return make
    return add


# ---- Programs and loads

def serve(where, config, target, fields=(), server_more="", **listen):
    """Starts Sluice and waits for the first 200. `start_ms` of the result is the time from the start to that."""
    begin = time.perf_counter()
    program = sluice(config, where, cores=1, core=0, server_more='connections = 30000\nidle_timeout = "5m"\n' + server_more, **listen)
    headers = dict(field.split(": ", 1) for field in fields)
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            client = http.client.HTTPConnection("127.0.0.1", program.port, timeout=300)
            client.request("GET", target, headers=headers)
            status = client.getresponse().status
            client.close()
            if status == 200:
                break
        if program.process.poll() is not None or time.perf_counter() - begin > 300:
            raise SystemExit(f"{target} is not answered with 200")
        time.sleep(0.005)
    program.start_ms = (time.perf_counter() - begin) * 1000
    return program


def responses(admin):
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=30) as answer:
        counts = re.findall(r"^http_server_request_duration_seconds_count\S* (\S+)$", answer.read().decode(), re.M)
    return sum(map(float, counts))


def under(program, load, **more):
    return Subject(program, lambda seconds: cost_of(program, lambda: load(seconds)), more)


def spread(where, program, requests, connections=100, **more):
    """Sends these (method, target, fields, body) in a random order."""
    name = f"requests-{program.port}"
    texts = []
    for method, target, fields, body in requests:
        head = "".join(f"{field}\r\n" for field in fields)
        head += "" if any(field.startswith("Host:") for field in fields) else "Host: localhost\r\n"
        head += f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n" if body else ""
        texts.append(f"{method} {target} HTTP/1.1\r\n{head}\r\n{body}")
    random.Random(1).shuffle(texts)
    (where / name).write_text("\0".join(texts))
    script = where / f"{name}.lua"
    script.write_text(SCRIPT.replace("FILE", str(where / name)))
    return under(program, lambda seconds: wrk(program.port, "/", connections, seconds, core=CORE, script=script), **more)


def gets(targets, fields=()):
    return [("GET", target, fields, "") for target in targets]


def database(where, name, *statements):
    """Makes a SQLite file."""
    with contextlib.closing(sqlite3.connect(where / name)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        for statement in statements:
            made.execute(statement)
        made.commit()
    return f'url = "sqlite:{where / name}"\n'


# ---- The dimensions, each with its promise

# A request touches its own connection, and nothing that grows with their number. The caches of the CPU hold fewer and fewer of them.
@dimension("connections", (100, 300, 1_000, 3_000, 10_000, MOST_CONNECTIONS), "constant", memory="linear")
def connections(where, size):
    (where / "site").mkdir(exist_ok=True)
    (where / "site/page.html").write_bytes(b"a" * 1500)
    # An address for each run of a client, and for each 10,000 connections of it: the ports of its side do not suffice for more, and
    # those in TIME-WAIT towards one address are free towards the others.
    hosts = [f"127.0.1.{n}" for n in range(1, 51)]
    port = free_port()
    program = serve(where, f'[[files]]\npath = "/"\nroot = "{where}/site"\n', "/page.html", port=port,
                    server=f'listen = {json.dumps([f"{host}:{port}" for host in ["127.0.0.1", *hosts]])}\n')
    admin, parts = admin_port(where, program), math.ceil(size / 10_000)
    time.sleep(0.1)
    before = len(os.listdir(f"/proc/{program.process.pid}/fd"))

    def measure(seconds):
        """The cost while all are connected, without what it takes to accept them."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            loads = [pool.submit(wrk, program.port, "/page.html", size // parts, MOST_WAIT, core=CORE, host=hosts.pop())
                     for _ in range(parts)]
            while (accepted := len(os.listdir(f"/proc/{program.process.pid}/fd")) - before) < size // parts * parts:
                if any(load.done() for load in loads):
                    raise SystemExit(f"only {accepted} of {size} connections in {MOST_WAIT} s")
                time.sleep(0.05)
            answered = responses(admin)
            figures = cost_of(program, lambda: time.sleep(seconds) or {"requests": responses(admin) - answered})
            memory = program.rss_kib("RssAnon")
            for pid in descendants(os.getpid()):
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "wrk":
                    os.kill(pid, signal.SIGINT)  # it stops and reports
        seen = [load.result() for load in loads]
        return figures | {"memory": memory, "p99_us": max(one["p99_us"] for one in seen), "errors": sum(one["errors"] for one in seen),
                          "rps": seen[0]["rps"], "mb_s": seen[0]["mb_s"]}

    return Subject(program, measure)


# The literals below a node of the router are sorted: a look-up is a binary search.
@dimension("routes", (10, 100, 1_000, 10_000), "logarithmic", memory="linear")
def routes(where, size):
    config = "".join(f'[[route]]\npath = "/service-{n}/{{id}}/items"\n{ANSWER}' for n in range(size))
    program = serve(where, config, "/service-0/1/items")
    return spread(where, program, gets(f"/service-{n}/{n % 97}/items" for n in range(size)), start_ms=program.start_ms)


# The hosts are sorted, too.
@dimension("hosts", (10, 100, 1_000, 10_000), "logarithmic", memory="linear")
def hosts(where, size):
    config = "".join(f'[[route]]\nhost = "h{n}.example"\npath = "/{{id}}"\n{ANSWER}' for n in range(size))
    program = serve(where, config, "/1", ["Host: h0.example"])
    return spread(where, program, [("GET", f"/{n % 97}", [f"Host: h{n}.example"], "") for n in range(size)], start_ms=program.start_ms)


# Each policy of a chain costs the same, wherever it stands. All of them are rate limits by a header field.
@dimension("policies", (0, 1, 2, 4, 8), "linear")
def policies(where, size):
    names = [f"limit-{n}" for n in range(size)]
    config = f'[[route]]\npath = "/{{id}}"\nuse = {json.dumps(names)}\n{ANSWER}'
    config += "".join(f'[policy.{name}]\ntype = "rate-limit"\nrate = "1000000/s"\nper = "header.x-key"\n' for name in names)
    program = serve(where, config, "/1")
    return spread(where, program, gets((f"/{n}" for n in range(100)), ["X-Key: one"]))


# A remembered token is found by its hash.
@dimension("tokens", (10, 100, 1_000, 10_000), "constant", memory="linear")
def tokens(where, size):
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    def token(n):
        claims = json.dumps({"sub": f"user-{n}", "exp": int(time.time()) + 86400}).encode()
        signed = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(claims)
        return (signed + b"." + part(hmac.digest(SECRET.encode(), signed, hashlib.sha256))).decode()

    program = serve(where, f'[[route]]\npath = "/"\nuse = ["auth"]\n{ANSWER}[policy.auth]\ntype = "jwt"\nsecret = "{SECRET}"\n'
                    'cache_tokens = 100000\ncache_memory = "256MiB"\n', "/", [f"Authorization: Bearer {token(0)}"])
    return spread(where, program, [("GET", "/", [f"Authorization: Bearer {token(n)}"], "") for n in range(size)])


# A key is found by its hash.
@dimension("API keys", (10, 100, 1_000, 10_000), "constant", memory="linear")
def keys(where, size):
    config = f'[[route]]\npath = "/"\nuse = ["auth"]\n{ANSWER}[policy.auth]\ntype = "api-key"\n[policy.auth.keys]\n'
    config += "".join(f'user-{n} = "the-key-of-user-{n}-of-16-bytes"\n' for n in range(size))
    program = serve(where, config, "/", ["X-API-Key: the-key-of-user-0-of-16-bytes"])
    return spread(where, program, [("GET", "/", [f"X-API-Key: the-key-of-user-{n}-of-16-bytes"], "") for n in range(size)],
                  start_ms=program.start_ms)


# Smooth weighted round robin looks at each server for each request, as in nginx: some nanoseconds for each of them.
@dimension("servers", (1, 10, 100, 1_000), "linear")
def servers(where, size):
    port = free_port()
    back = sluice(f'[[route]]\npath = "/{{rest...}}"\nrespond = {{ status = 200, body = "{"a" * 1500}" }}\n', where, cores=1, core=CORE,
                  port=port, server=f'listen = ["*:{port}"]\nconnections = 30000\nidle_timeout = "5m"\n')
    urls = "[" + ",\n".join(f'"http://127.0.{n // 250}.{n % 250 + 1}:{back.port}"' for n in range(size)) + "]"
    program = serve(where, f'[[upstream]]\nname = "back"\nkeep = 256\nservers = {urls}\n'
                    '[[route]]\npath = "/{rest...}"\nupstream = "back"\n', "/")
    return under(program, lambda seconds: wrk(program.port, "/", 100, seconds, core=CORE))


def rows_file(where, size):
    return database(where, f"rows-{size}.db",
                    "CREATE TABLE items (id INTEGER PRIMARY KEY, part INTEGER, name TEXT, changed INTEGER)",
                    f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {size}) "
                    "INSERT INTO items SELECT i, i / 10, 'item number ' || i, 1 FROM n", "CREATE INDEX changes ON items (changed)")


def resident(where, size, requests):
    if not (where / f"rows-{size}.db").exists():
        rows_file(where, size)
    program = serve(where, f'[database.main]\nurl = "sqlite:{where}/rows-{size}.db"\nstatement_timeout = "5m"\n[[resident]]\n'
                    'name = "items"\nquery = "SELECT id, part, name FROM items ORDER BY id"\nkey = "id"\nindex = ["part"]\n'
                    'cache = "0"\nmemory = "8GiB"\ntimeout = "5m"\n', "/items/1")
    return spread(where, program, requests, load_ms=program.start_ms)


# A row is found by the hash of its key. Nothing is cached here, and the rows are asked for at random.
@dimension("rows of a resident table", (1_000, 10_000, 100_000, 1_000_000), "constant", memory="linear")
def rows_by_key(where, size):
    some = random.Random(2).sample(range(1, size + 1), min(size, 20_000))
    return resident(where, size, gets(f"/items/{key}" for key in some))


# The same by a column with ten rows for each value.
@dimension("rows of a resident table", (1_000, 10_000, 100_000, 1_000_000), "constant")
def rows_by_index(where, size):
    some = random.Random(2).sample(range(1, size // 10), min(size // 10 - 1, 20_000))
    return resident(where, size, gets(f"/items?part={part}" for part in some))


def versions_of(where, rows, updates):
    """Rows change one by one, and each commit makes a version. The cost is that of a second without requests."""
    name = f"changing-{rows}-{updates}"
    rows_file(where, rows)
    (where / f"rows-{rows}.db").rename(where / f"{name}.db")
    program = serve(where, f'[database.main]\nurl = "sqlite:{where}/{name}.db"\n[[resident]]\nname = "items"\n'
                    'query = "SELECT id, part, name, changed FROM items ORDER BY id"\nkey = "id"\nindex = ["part"]\nmemory = "8GiB"\n'
                    '[resident.refresh]\nevery = "10ms"\nchanges = "SELECT *, 0 AS gone FROM items WHERE changed > :since"\n'
                    'version = "changed"\ndeleted = "gone"\n', "/items/1")
    admin, last = admin_port(where, program), [1]

    def update(stop):
        with contextlib.closing(sqlite3.connect(where / f"{name}.db")) as made:
            while not stop.wait(1 / updates):
                last[0] += 1
                made.execute("UPDATE items SET changed = ? WHERE id = ?", (last[0], last[0] * 7919 % rows + 1))
                made.commit()

    @contextlib.contextmanager
    def updating():
        stop = threading.Event()
        thread = threading.Thread(target=update, args=(stop,))
        if updates:
            thread.start()
        yield
        stop.set()
        if updates:
            thread.join()

    def measure(seconds):
        loads = metric(admin, "loads_total", "items")
        with updating():
            figures = cost_of(program, lambda: time.sleep(seconds) or {"requests": seconds})
            made = metric(admin, "loads_total", "items") - loads
            times = sorted(latency(program.port, "/items/1", 10, 500, core=CORE)["latencies_us"])
        return figures | {"p99_us": times[len(times) * 99 // 100], "errors": 0, "versions": made,
                          "each_version_us": figures["cpu_us"] * seconds / made if made else 0}

    return Subject(program, measure)


# Each update of one row makes a version of a table of 10,000 rows.
@dimension("updates a second of a resident table", (0, 1, 10, 50), "linear", unit="second")
def versions(where, size):
    return versions_of(where, 10_000, size)


# A version copies the places of its rows, so it costs in proportion to the table. 4 versions a second.
@dimension("rows of a resident table that changes", (1_000, 10_000, 100_000, 1_000_000), "linear", unit="second")
def version_rows(where, size):
    return versions_of(where, size, 4)


# Each session that hears a message costs one delivery. 16 messages of 64 bytes at a time.
@dimension("sessions that hear a message", (100, 300, 1_000, 3_000, 9_000), "linear", unit="message", memory="linear", peak=True)
def sessions(where, size):
    program = service("broadcast")

    def measure(seconds):
        figures = load_frames(program, "hear", size, 64, 16, seconds)
        messages = figures["messages"] / size
        return {"requests": messages, "rps": messages / figures["seconds"],
                "mb_s": figures["messages"] * (12 + 3 + 64) / figures["seconds"] / 1e6,
                "cpu_us": figures["cpu_us"] * size, "p99_us": figures["p99_us"], "errors": 0}

    return Subject(program, measure)


def one_file(where):
    """A database with rows of several widths, for answers."""
    if not (where / "answers.db").exists():
        columns = ", ".join(f"c{n} INTEGER" for n in range(100))
        count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) "
        database(where, "answers.db", "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, score REAL)",
                 count.format(100_000) + "INSERT INTO items SELECT i, 'item number ' || i, i / 8.0 FROM n",
                 f"CREATE TABLE wide (id INTEGER PRIMARY KEY, {columns})",
                 count.format(100) + "INSERT INTO wide SELECT i, " + ", ".join(f"{100_000 + n} + 100 * i" for n in range(100)) + " FROM n")
    return f'[database.main]\nurl = "sqlite:{where}/answers.db"\n'


# An answer from SQLite costs the same for each of its rows of three values.
@dimension("rows of an answer", (1, 10, 100, 1_000, 10_000, 100_000), "linear")
def answer_rows(where, size):
    program = serve(where, one_file(where) + '[[endpoint]]\npath = "/items"\nget = "SELECT * FROM items LIMIT :n"\n'
                    'params.n = { type = "int" }\n', f"/items?n={size}")
    return under(program, lambda seconds: wrk(program.port, f"/items?n={size}", 8, seconds, core=CORE))


# And for each value of a row; an answer has 100 rows.
@dimension("columns of an answer of 100 rows", (1, 3, 10, 30, 100), "linear")
def answer_columns(where, size):
    names = ", ".join(f"c{n}" for n in range(size))
    program = serve(where, one_file(where) + f'[[endpoint]]\npath = "/wide"\nget = "SELECT {names} FROM wide"\n', "/wide")
    return under(program, lambda seconds: wrk(program.port, "/wide", 8, seconds, core=CORE))


# A body that is inserted into SQLite costs the same for each of its rows, in one transaction.
@dimension("rows of a body", (1, 10, 100, 1_000, 10_000), "linear")
def body_rows(where, size):
    config = "[database.main]\n" + database(where, f"bodies-{size}.db",
                                             "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, score REAL)")
    program = serve(where, config + '[[endpoint]]\npath = "/items"\nget = "SELECT count(*) AS n FROM items"\n[endpoint.post]\n'
                    'table = "items"\ncolumns.name = { required = true }\ncolumns.score = {}\n', "/items",
                    server_more='body_limit = "16MiB"\n')
    body = json.dumps([{"name": f"item number {n}", "score": n / 8} for n in range(size)])
    return spread(where, program, [("POST", "/items", [], body)], connections=4)


GATEWAY = ('[[upstream]]\nname = "back"\nservers = ["http://127.0.0.1:PORT"]\nkeep = 256\n'
           '[[route]]\npath = "/{rest...}"\nupstream = "back"\n')
BODY_SIZES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)


# An answer that passes through costs the same for each byte.
@dimension("bytes of an answer through the gateway", BODY_SIZES, "linear")
def gateway_answers(where, size):
    site = where / f"site-{size}"
    site.mkdir()
    (site / "body.html").write_bytes(b"a" * size)
    back = sluice(f'[[files]]\npath = "/"\nroot = "{site}"\n', where, cores=1, core=CORE)
    program = serve(where, GATEWAY.replace("PORT", str(back.port)), "/body.html")
    return under(program, lambda seconds: drain(program.port, "/body.html", 8, seconds, CORE))


# A stream costs the same beside others; with more of them, a system call serves more. 10 connections.
@dimension("streams on each HTTP/2 connection", (1, 4, 16, 64, 128), "constant")
def streams(where, size):
    program = serve(where, f'[[route]]\npath = "/"\n{ANSWER}', "/", server_more="http2_streams = 128\n")
    return under(program, lambda seconds: h2load(program.port, "/", 10, seconds, streams=size, tls=False, core=CORE, latencies=True))


# A request uses one database; the others cost it nothing. But look-ups of one file that arrive together share a read transaction,
# and those of different files do not, so this promise is met only as far as requests are not spread.
@dimension("databases", (1, 3, 10, 30, 100), "constant", memory="linear")
def databases(where, size):
    config = ""
    for n in range(size):
        config += f"[database.d{n}]\n" + database(
            where, f"database-{size}-{n}.db", "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO items SELECT i, 'item ' || i FROM n")
        config += (f'[[endpoint]]\npath = "/d{n}/{{id:int}}"\ndatabase = "d{n}"\nreturns = "object"\n'
                   'get = "SELECT id, name FROM items WHERE id = :id"\n')
    program = serve(where, config, "/d0/1")
    return spread(where, program, gets(f"/d{n}/{key}" for n in range(size) for key in range(1, max(100 // size, 1) + 1)),
                  start_ms=program.start_ms)


# A reload leaves nothing behind but the counters of routes that are gone; here two sets of 100 routes replace each other.
@dimension("reloads before", (1, 3, 10, 30, 100), "constant", memory="constant")
def reloads(where, size):
    def config(n):
        routes = "".join(f'[[route]]\npath = "/{n % 2}/{route}/{{id}}"\n{ANSWER}' for route in range(100))
        return routes + f'[[route]]\npath = "/"\n{ANSWER}'

    program = serve(where, config(0), "/")
    file, admin = where / f"sluice-{program.port}.toml", admin_port(where, program)
    head = file.read_text().removesuffix(config(0))
    begin = time.perf_counter()
    for n in range(1, size + 1):
        file.write_text(head + config(n))
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{admin}/reload", method="POST"), timeout=30).close()
    took = (time.perf_counter() - begin) * 1000 / size
    return spread(where, program, gets(f"/{size % 2}/{route}/1" for route in range(100)), reload_ms=took)


# ---- Measuring

def kernel_share(program, load):
    """The part of the program's CPU time that is the kernel's, by perf's samples; None without perf. (The ticks in /proc are scaled by
    those of the start, and so say little about a second of it.)"""
    if not shutil.which("perf"):
        return load() and None
    with tempfile.NamedTemporaryFile() as file:
        recording = subprocess.Popen(["perf", "record", "-q", "-B", "-N", "-F", "499", "-e", "cpu-clock", "-o", file.name, "-p",
                                      ",".join(map(str, program.pids))], stderr=subprocess.DEVNULL)
        while recording.poll() is None and os.path.getsize(file.name) == 0:  # it begins to sample when it has written its head
            time.sleep(0.02)
        load()
        recording.send_signal(2)
        recording.wait()
        places = subprocess.run(["perf", "script", "-F", "ip", "-i", file.name], capture_output=True, text=True).stdout.split()
    return round(sum(int(place, 16) >> 63 for place in places) / len(places), 2) if len(places) >= 50 else None


def run(name, of, rounds, seconds):
    where = folder()
    subjects, begin = {}, time.monotonic()
    for size in of.sizes:
        subjects[size] = of.make(where, size)
    runs = {size: [] for size in of.sizes}
    kernel = {size: kernel_share(subject.program, lambda subject=subject: subject.measure(seconds)) for size, subject in subjects.items()}
    for number in range(rounds):
        for size, subject in (subjects.items() if number % 2 else reversed(subjects.items())):
            runs[size].append(subject.measure(seconds))
    rows = []
    for size, subject in subjects.items():
        middle = {key: median(run[key] for run in runs[size]) for key in ("cpu_us", "p99_us")}
        if "each_version_us" in runs[size][0]:
            subject.more["each_version_us"] = median(run["each_version_us"] for run in runs[size])
        rows.append({"size": size, "cpu_us": round(middle["cpu_us"], 3), "p99_us": round(middle["p99_us"]),
                     "kernel": kernel[size],
                     "memory": 1024 * (runs[size][0].get("memory") or subject.program.rss_kib("VmHWM" if of.peak else "RssAnon")),
                     **({"bytes": round(median(1e6 * run["mb_s"] / run["rps"] for run in runs[size]))} if "mb_s" in runs[size][0] else {}),
                     "errors": sum(run["errors"] for run in runs[size]),
                     **{key: round(value, 1) for key, value in subject.more.items()}})
        tell(bench="growth", dimension=name, of=of.of, unit=of.unit, rounds=rounds, **rows[-1])
    for subject in subjects.values():
        subject.program.stop()
    figures = {"of": of.of, "unit": of.unit, "promise": of.promise, "memory": of.memory, "rows": rows}
    tell(bench="growth", dimension=name, **growth.judge(figures), took_s=round(time.monotonic() - begin, 1))
    return figures


def idle():
    """Memory of the program and of the kernel for each of 9,000 keep-alive connections that have made a request. Both ends of them
    are on this machine, so half of the kernel's memory is the server's."""
    def slab():
        return int(re.search(r"^Slab:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)[1])

    program = serve(folder(), f'[[route]]\npath = "/"\n{ANSWER}', "/")
    clients, count = [], 9_000

    def grow(more):
        for _ in range(more):
            clients.append(socket.create_connection(("127.0.0.1", program.port)))
            clients[-1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            clients[-1].recv(4096)
        time.sleep(0.5)
        return program.rss_kib(), slab()

    before, after = grow(500), grow(count)
    for client in clients:
        client.close()
    program.stop()
    made, kernel = ((later - earlier) * 1024 / count for later, earlier in zip(after, before))
    return {"program_bytes": round(made), "kernel_bytes": round(kernel / 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--only", default=",".join(DIMENSIONS), help="default: all")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(DIMENSIONS):
        parser.error(f"no such dimension: {', '.join(sorted(unknown))}")
    if args.page and set(wanted) != set(DIMENSIONS):
        parser.error("the page needs all dimensions")
    if args.full:
        DIMENSIONS["rows-by-key"].sizes += (10_000_000,)
    about = stored.about() if args.page else None
    begin = time.monotonic()
    connection = idle()
    tell(bench="growth", idle_connection=connection)
    figures = {name: run(name, DIMENSIONS[name], args.rounds, args.seconds) for name in wanted}
    tell(bench="growth", minutes=round((time.monotonic() - begin) / 60, 1), most_minutes=MINUTES,
         broken=[name for name, of in figures.items() if not all(growth.judge(of)[key] for key in ("met", "memory_met", "start_met"))])
    if args.page:
        stored.store("growth", about, figures, rounds=args.rounds, seconds=args.seconds, idle_connection=connection)
        growth.plot(figures, stored.ROOT / "docs/scaling.svg")
        stored.main()


if __name__ == "__main__":
    main()
