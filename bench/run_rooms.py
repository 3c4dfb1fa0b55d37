#!/usr/bin/env python3
"""Rooms beside Centrifugo: what a delivery costs, how long it takes, and what a subscriber takes in memory. The server is alone on
core 0 with one worker (Sluice: cores = 1, Centrifugo: GOMAXPROCS=1), the client rooms_load on core 1; in turns.

one    9,000 subscribers of one room, 2 publications a second: 18,000 deliveries a second, which Centrifugo can still make on one core
many   1,000 rooms of 9 subscribers each, 134 publications a second: 2,010 in 15 seconds. As many deliveries a second as in `one` would
       take 2,000 publications a second, and their own cost (an HTTP request, and with Sluice a row in SQLite) would hide that of the
       deliveries. It is still a large part of `cpu_us` here; `cpu_us_publication` is the cost of a publication with its 9 deliveries

Both servers keep publications for subscribers that come back: Sluice in a table of SQLite, which each publication is committed to
before it is delivered; Centrifugo in memory, 1,000 of each channel for 60 seconds. Publications are texts of 200 bytes, by HTTP.
Every subscriber must receive every publication once and in order; otherwise this ends with 1.

Each run has a new server. Its figures: CPU time of the server between the first publication and the end, divided by the deliveries;
latency from publication to receipt; growth of VmRSS from before the first subscriber until all are subscribed, and until the end.

A server that cannot keep up with the rate delivers late, or not within 10 seconds, and the run fails: `server_busy`, the part of
its core that it needed, must be well below 1 for the latencies to mean anything. `client_busy` is the same of the client.

usage: run_rooms.py [--rounds N] [--seconds S] [--cases CASE,CASE] [--only SERVER,SERVER] [--subscribers N] [--rate X] [--many-rate X]
  --subscribers  in each case; `many` has a ninth as many rooms (9000)
  --rate, --many-rate  publications a second in `one` (2) and in `many` (134)
"""
import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

import harness
from harness import BUILD, ROOT, SLUICE, Program, folder, free_port, median, tell

SERVER_CORE, CLIENT_CORE = 0, 1
CASES = ("one", "many")
IN_A_ROOM = 9  # subscribers of each room of `many`
PAYLOAD = 200
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
"""


def sluice():
    where = folder()
    with sqlite3.connect(where / "chat.db") as database:
        database.execute(TABLE)
    database.close()
    config = ROOMS.format(database=where / "chat.db")
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


def centrifugo():
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


def measure(name, case, subscribers, rate, seconds):
    """The figures of one run on a new server, and whether all was delivered."""
    program = SERVERS[name]()
    rooms = 1 if case == "one" else max(1, subscribers // IN_A_ROOM)
    command = ["taskset", "-c", CLIENT_CORE, BUILD / "bench/rooms_load", "--server", name, "--port", program.port, "--api-port",
               program.port, "--rooms", rooms, "--subscribers", subscribers, "--rate", rate, "--seconds", seconds,
               "--payload", PAYLOAD]
    before = rest_kib(program)
    with subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as client:
        said = client.stderr.readline()
        if said != "ready\n":
            raise SystemExit(f"{name}: {said}{client.stderr.read()}")
        subscribed = rest_kib(program)
        spent = program.cpu_seconds()
        client.stdin.write("go\n")
        client.stdin.flush()
        line = client.stdout.readline()
        spent = program.cpu_seconds() - spent
        if not line:
            raise SystemExit(f"{name}: {client.stderr.read()}")
        after = program.rss_kib()
        client.stdin.close()
        errors = client.stderr.read()
        good = client.wait() == 0
    program.stop()
    if not good:
        print(f"{name}, {case}: {errors}", file=sys.stderr)
    figures = json.loads(line)
    del figures["server"]
    return figures | {"rooms": rooms, "subscribers": subscribers, "cpu_us": spent * 1e6 / max(1, figures["deliveries"]),
                      "cpu_us_publication": spent * 1e6 / figures["publications"], "server_busy": spent / figures["seconds"],
                      "rss_before_kib": before, "bytes_each": (subscribed - before) * 1024 / subscribers,
                      "bytes_each_after": (after - before) * 1024 / subscribers}, good


def compare(case, runs):
    """Tells the medians, and with both servers how they compare with the goals."""
    middle = {name: {key: median(run[key] for run in of_server) for key in of_server[0]} for name, of_server in runs.items()}
    for name, figures in middle.items():
        tell(bench="rooms", case=case, server=name, rounds=len(runs[name]),
             **{key: round(value, 3) for key, value in figures.items()})
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--only", default=",".join(SERVERS))
    parser.add_argument("--subscribers", type=int, default=9000)
    parser.add_argument("--rate", type=float, default=2)
    parser.add_argument("--many-rate", type=float, default=134)
    args = parser.parse_args()
    cases, names = args.cases.split(","), args.only.split(",")
    for wrong in (*(case for case in cases if case not in CASES), *(name for name in names if name not in SERVERS)):
        parser.error(f"no {wrong}")
    if "centrifugo" in names:
        build_centrifugo()
    all_good = True
    for case in cases:
        rate = args.rate if case == "one" else args.many_rate
        runs = {name: [] for name in names}
        for _ in range(args.rounds):
            for name in names:
                figures, good = measure(name, case, args.subscribers, rate, args.seconds)
                runs[name].append(figures)
                all_good = all_good and good
        compare(case, runs)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
