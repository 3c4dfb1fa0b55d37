#!/usr/bin/env python3
"""Rooms beside Centrifugo: what a delivery costs, how long it takes, and what a subscriber takes in memory. The server is alone on
core 0 with one worker (Sluice: cores = 1, Centrifugo: GOMAXPROCS=1), the client rooms_load on core 1; in turns.

one    9,000 subscribers of one room, 2 publications a second: 18,000 deliveries a second, which Centrifugo can still make on one core
many   1,000 rooms of 9 subscribers each, 134 publications a second: 2,010 in 15 seconds. As many deliveries a second as in `one` would
       take 2,000 publications a second, and their own cost (an HTTP request, and with Sluice a row in SQLite) would hide that of the
       deliveries. It is still a large part of `cpu_us` here; `cpu_us_publication` is the cost of a publication with its 9 deliveries
all    the same rooms, but each publication goes to all of them, 2 a second: 18,000 deliveries a second, as in `one`. It is one request:
       with Sluice an endpoint whose statement adds a row for each room, with Centrifugo its broadcast
slow   Sluice alone: `one` without slow subscribers and with 100 additional ones that read 300 bytes a second, in turns. In both runs
       15 texts of 15,000 bytes are published first. They fill the buffers of the slow subscribers, which are then held back during the
       whole measurement. Latencies and deliveries are those of the 9,000 others. `cpu_us` is the CPU time of the whole server,
       including its work for the slow subscribers, divided by the deliveries to the others. Each ratio shall be at most 1.01
stalled  Sluice alone: 9,000 subscribers read nothing, and one reads, while 50 texts of 2,000 bytes are published each second. Memory is
       VmRSS before the first subscriber, when all are subscribed, at the end of the publications, and when the server has closed the
       stalled clients. The peak (VmHWM) from the first publication until they are closed may exceed the memory of the subscribed clients
       by this bound: two buffers for each client, of 64 KiB and a message each, because a WebSocket writes one while it collects the
       next; 8 times keep_bytes, which a room may keep while it tells its clients; and 16 MiB for the database. `busy_until_closed` is
       the part of its core that the server needs after the publications, when it has nothing to do but wait

`passed_each` is the number of publications that the server has passed to a slow or stalled client, by its own count. It includes those
in the buffers. If it is not below the number that was published (`slow`: that was published first), nothing was held back, and this
ends with 1. It also does so if `slow` ends with fewer slow subscribers, or if the server has not closed all stalled clients 60 seconds
after the publications. It closes them after a write_timeout of 30 seconds or a WebSocket ping without an answer, so a `slow` of more
than 20 --seconds may fail.

Both servers keep publications for subscribers that come back: Sluice in a table of SQLite, which each publication is committed to
before it is delivered; Centrifugo in memory, 1,000 of each channel for 60 seconds. Publications are texts of 200 bytes, by HTTP.
Every subscriber, except slow and stalled ones, must receive every publication once and in order; otherwise this ends with 1.

Each run has a new server. Its figures: CPU time of the server between the first publication and the end, divided by the deliveries;
latency from publication to receipt; growth of VmRSS from before the first subscriber until all are subscribed, and until the end.

A server that cannot keep up with the rate delivers late, or not within 10 seconds, and the run fails: `server_busy`, the part of
its core that it needed, must be well below 1 for the latencies to mean anything. `client_busy` is the same of the client.

usage: run_rooms.py [--rounds N] [--seconds S] [--cases CASE,CASE] [--only SERVER,SERVER] [--subscribers N] [--rate X] [--many-rate X]
                    [--slow K]
  --only         the servers of `one`, `many` and `all`
  --subscribers  in each case; `many` has a ninth as many rooms (9000)
  --rate, --many-rate  publications a second in `one`, `all` and `slow` (2), and in `many` (134)
  --slow         slow subscribers of `slow` (100)
"""
import argparse
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

import harness
from harness import BUILD, ROOT, SLUICE, Program, folder, free_port, median, tell

SERVER_CORE, CLIENT_CORE = 0, 1
CASES = ("one", "many", "all", "slow", "stalled")
IN_A_ROOM = 9  # subscribers of each room of `many` and `all`
PAYLOAD = 200
SLOW_RATE = 300  # bytes a second
FILL = 15        # texts of 15,000 bytes
SLOW_GOAL = 1.01
STALLED_RATE, STALLED_PAYLOAD = 50, 2000
# The bound on the memory of stalled clients.
CLIENT_KIB = 2 * (64 + 2.25)  # two buffers of a WebSocket, each of 64 KiB and a message
KEPT_KIB = 8 * 256            # keep_bytes of the room, while it tells its clients
DATABASE_KIB = 16 * 1024
CLOSED_WITHIN = 60            # seconds after the publications
CENTRIFUGO = "github.com/centrifugal/centrifugo/v6@v6.9.1"

TABLE = "CREATE TABLE messages (id INTEGER PRIMARY KEY, room TEXT NOT NULL, text TEXT NOT NULL)"
ROOMS = """
[database.chat]
url = "sqlite:{database}"

[[room]]
path = "/rooms/{{id}}"
public = true
[room.publish]
rate = "100000/s"
sql = "INSERT INTO messages (room, text) VALUES (:id, :text)"
[room.history]
query = "SELECT seq, text FROM messages WHERE room = :id AND seq > :after ORDER BY seq LIMIT 200"
changes = {{ tables = ["messages"] }}

[[endpoint]]
path = "/broadcast"
post = "WITH RECURSIVE rooms (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM rooms WHERE n < {last}) INSERT INTO messages (room, text) SELECT n, :text FROM rooms"
"""


def sluice(rooms):
    where = folder()
    with sqlite3.connect(where / "chat.db") as database:
        database.execute(TABLE)
    database.close()
    config = ROOMS.format(database=where / "chat.db", last=rooms - 1)
    file = where / "sluice.toml"
    file.write_text(f'[server]\nlisten = ["127.0.0.1:{free_port()}"]\ncores = 1\n{config}')
    made = subprocess.run([SLUICE, "rooms", "sql", "--apply", file], capture_output=True, text=True)
    if made.returncode != 0:
        raise SystemExit(f"sluice rooms sql --apply: {made.stdout}{made.stderr}")
    return harness.sluice(config, where, cores=1, core=SERVER_CORE)


def build_centrifugo():
    """The program, built once into .cache/."""
    program = ROOT / ".cache/bin/centrifugo"
    if not program.exists():
        if not shutil.which("go"):
            raise SystemExit("Centrifugo needs Go to be built")
        print(f"building {CENTRIFUGO}, once", file=sys.stderr)
        with tempfile.TemporaryDirectory() as bin:
            built = subprocess.run(["nice", "-n", "19", "go", "install", "-p", "1", CENTRIFUGO], env={**os.environ, "GOBIN": bin},
                                   capture_output=True, text=True)
            if built.returncode != 0:
                raise SystemExit(f"Centrifugo cannot be built:\n{built.stderr[-2000:]}")
            program.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(f"{bin}/centrifugo", program)
    return program


def centrifugo(_):
    port = free_port()
    file = folder() / "centrifugo.json"
    file.write_text(json.dumps({
        "http_server": {"address": "127.0.0.1", "port": port},
        "log": {"level": "error"},
        "engine": {"type": "memory"},
        "client": {"allow_anonymous_connect_without_token": True},
        "channel": {"without_namespace": {"allow_subscribe_for_client": True, "allow_subscribe_for_anonymous": True,
                                          "history_size": 1000, "history_ttl": "60s", "force_recovery": True}},
        "http_api": {"key": "bench"},
        "usage_stats": {"disabled": True},
    }))
    return Program("centrifugo", [build_centrifugo(), "--config", file], port, SERVER_CORE, {"GOMAXPROCS": "1"})


SERVERS = {"sluice": sluice, "centrifugo": centrifugo}


def rest_kib(program):
    """VmRSS after the server has finished its work."""
    time.sleep(0.5)
    return program.rss_kib()


def metric(program, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{program.admin}/metrics", timeout=30) as answer:
        found = re.findall(rf"^sluice_rooms_{name}{{.*}} (\d+)$", answer.read().decode(), re.M)
    if not found:
        raise SystemExit(f"no metric sluice_rooms_{name}")
    return sum(map(int, found))


def measure(name, case, subscribers, rate, seconds, rooms=1, payload=PAYLOAD, look=lambda program, figures: {}, **more):
    """The figures of one run on a new server, and whether all was delivered. `look` returns further figures, while all subscribers are
    connected; `more` are further options of rooms_load."""
    program = SERVERS[name](rooms)
    command = ["taskset", "-c", CLIENT_CORE, BUILD / "bench/rooms_load", "--server", name, "--port", program.port, "--api-port",
               program.port, "--rooms", rooms, "--subscribers", subscribers, "--rate", rate, "--seconds", seconds,
               "--payload", payload, *(part for option, value in more.items() for part in (f"--{option.replace('_', '-')}", value))]
    before = rest_kib(program)
    with subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as client:
        said = client.stderr.readline()
        if said != "ready\n":
            raise SystemExit(f"{name}: {said}{client.stderr.read()}")
        subscribed = rest_kib(program)
        program.forget_peak()
        spent = program.cpu_seconds()
        client.stdin.write("go\n")
        client.stdin.flush()
        line = client.stdout.readline()
        spent = program.cpu_seconds() - spent
        if not line:
            raise SystemExit(f"{name}: {client.stderr.read()}")
        after = program.rss_kib()
        figures = json.loads(line) | {"rss_before_kib": before, "rss_subscribed_kib": subscribed, "rss_after_kib": after}
        figures |= look(program, figures)
        figures["rss_peak_kib"] = program.rss_kib("VmHWM")
        client.stdin.close()
        errors = client.stderr.read()
        good = client.wait() == 0
    program.stop()
    if not good:
        print(f"{name}, {case}: {errors}", file=sys.stderr)
    del figures["server"]
    return figures | {"rooms": rooms, "subscribers": subscribers, "cpu_us": spent * 1e6 / max(1, figures["deliveries"]),
                      "cpu_us_publication": spent * 1e6 / figures["publications"], "server_busy": spent / figures["seconds"],
                      "bytes_each": (subscribed - before) * 1024 / (subscribers + more.get("slow", 0)),
                      "bytes_each_after": (after - before) * 1024 / (subscribers + more.get("slow", 0))}, good


def tell_median(case, server, runs, **more):
    """Tells the medians of the runs, and returns them."""
    figures = {key: median(run[key] for run in runs) for key in runs[0]}
    tell(bench="rooms", case=case, server=server, rounds=len(runs), **more, **{key: round(value, 3) for key, value in figures.items()})
    return figures


def compare(case, runs):
    """Tells the medians, and with both servers how they compare with the goals."""
    middle = {name: tell_median(case, name, of_server) for name, of_server in runs.items()}
    if len(middle) < 2:
        return
    ours, theirs = middle["sluice"], middle["centrifugo"]

    def ratio(what, key, **goal):
        tell(bench="rooms", case=case, what=f"{what}, Sluice's to Centrifugo's", ratio=round(ours[key] / theirs[key], 3), **goal)

    ratio("CPU time per delivery", "cpu_us", goal=0.7, met=ours["cpu_us"] <= 0.7 * theirs["cpu_us"])
    ratio("p99 of the latency", "p99_us", goal=1, met=ours["p99_us"] < theirs["p99_us"])
    ratio("p50 of the latency", "p50_us")
    ratio("memory of a subscriber", "bytes_each")
    ratio("memory of a subscriber after the publications", "bytes_each_after")


def beside(case, args):
    """`one`, `many` or `all`, the servers in turns. Returns whether all was delivered."""
    rate = args.many_rate if case == "many" else args.rate
    rooms = 1 if case == "one" else max(1, args.subscribers // IN_A_ROOM)
    runs = {name: [] for name in args.only}
    all_good = True
    for _ in range(args.rounds):
        for name in args.only:
            figures, good = measure(name, case, args.subscribers, rate, args.seconds, rooms, broadcast=int(case == "all"))
            runs[name].append(figures)
            all_good = all_good and good
    compare(case, runs)
    return all_good


def holds(case, condition, problem):
    if not condition:
        print(f"sluice, {case}: {problem}", file=sys.stderr)
    return condition


def slow(args):
    """The same subscribers without slow ones beside them, and with. Returns whether all was as it must be."""
    def look(program, figures):
        publications = FILL + figures["publications"]
        passed = metric(program, "deliveries_total") - publications * args.subscribers
        return {"passed_each": passed / args.slow, "resets": metric(program, "resets_total")}

    runs = {0: [], args.slow: []}
    all_good = True
    for number in range(args.rounds):
        for count in sorted(runs, reverse=number % 2 == 1):
            figures, good = measure("sluice", "slow", args.subscribers, args.rate, args.seconds, look=look, slow=count,
                                    slow_rate=SLOW_RATE, fill=FILL)
            runs[count].append(figures)
            all_good = all((all_good, good,
                            holds("slow", figures["passed_each"] < FILL, "the slow subscribers were not held back"),
                            holds("slow", figures["slow_closed"] == 0, f"{figures['slow_closed']} slow subscribers were closed")))
    without, beside = (tell_median("slow", "sluice", runs[count], slow=count) for count in runs)
    for what, key in (("p50 of the latency", "p50_us"), ("p99 of the latency", "p99_us"), ("CPU time per delivery", "cpu_us")):
        ratio = beside[key] / without[key]
        tell(bench="rooms", case="slow", what=f"{what}, beside {args.slow} slow subscribers to without", ratio=round(ratio, 3),
             goal=SLOW_GOAL, met=ratio <= SLOW_GOAL)
    return all_good


def stalled(args):
    """Subscribers that read nothing, and one that reads. Returns whether all was as it must be."""
    def look(program, figures):
        passed = metric(program, "deliveries_total") - figures["deliveries"]
        begin, spent = time.monotonic(), program.cpu_seconds()
        while (left := metric(program, "clients")) > 1 and time.monotonic() < begin + CLOSED_WITHIN:
            time.sleep(0.5)
        waited = time.monotonic() - begin
        return {"passed_each": passed / args.subscribers, "resets": metric(program, "resets_total"),
                "closed": args.subscribers + 1 - left, "closed_within_s": figures["seconds"] + waited,
                "busy_until_closed": (program.cpu_seconds() - spent) / waited, "rss_closed_kib": rest_kib(program)}

    runs = []
    all_good = True
    for _ in range(args.rounds):
        figures, good = measure("sluice", "stalled", 1, STALLED_RATE, args.seconds, payload=STALLED_PAYLOAD, look=look,
                                slow=args.subscribers)
        runs.append(figures)
        all_good = all((all_good, good,
                        holds("stalled", figures["passed_each"] < figures["publications"], "no publications were held back"),
                        holds("stalled", figures["closed"] >= args.subscribers, f"only {figures['closed']} clients were closed")))
    tell_median("stalled", "sluice", runs, stalled=args.subscribers)
    grown = max(run["rss_peak_kib"] - run["rss_subscribed_kib"] for run in runs)
    bound = args.subscribers * CLIENT_KIB + KEPT_KIB + DATABASE_KIB
    tell(bench="rooms", case="stalled", what="growth of memory by stalled subscribers, the most of all rounds", grown_kib=grown,
         bytes_each=round(grown * 1024 / args.subscribers), bound_kib=bound, met=grown <= bound)
    return all_good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--only", default=",".join(SERVERS))
    parser.add_argument("--subscribers", type=int, default=9000)
    parser.add_argument("--rate", type=float, default=2)
    parser.add_argument("--many-rate", type=float, default=134)
    parser.add_argument("--slow", type=int, default=100)
    args = parser.parse_args()
    cases, args.only = args.cases.split(","), args.only.split(",")
    for wrong in (*(case for case in cases if case not in CASES), *(name for name in args.only if name not in SERVERS)):
        parser.error(f"no {wrong}")
    if min(args.slow, args.rounds, args.subscribers) < 1:
        parser.error("--slow, --rounds and --subscribers are at least 1")
    if "centrifugo" in args.only and not {"one", "many", "all"}.isdisjoint(cases):
        build_centrifugo()
    all_good = True
    for case in cases:
        good = slow(args) if case == "slow" else stalled(args) if case == "stalled" else beside(case, args)
        all_good = all_good and good
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
