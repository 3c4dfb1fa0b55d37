#!/usr/bin/env python3
"""Resident tables: what an answer of 100 users costs beside a static file of the same size; how long 1,000,000 rows take to load,
and their memory; how much faster two cores send one long answer that is encoded on demand; and versions that follow each other
under load, of which no answer may mix two.

usage: run_resident.py [--rounds N] [--seconds S] [--rows N] [--only answer,load,parallel,refresh]
"""
import argparse
import json
import pathlib
import re
import socket
import subprocess
import time
import urllib.request

import pg_floor
from harness import BUILD, fetch, folder, median, postgres, sluice, tell
from http_clients import wrk
from http_cost import cost_of, instructions

CORE = 0
USERS = '''
[[resident]]
name = "users"
query = "SELECT * FROM users ORDER BY id"
key = "id"
index = ["roles"]
'''
PEOPLE = """
CREATE TABLE people AS SELECT id, md5(id::text) AS name, md5((id * 7)::text) || '@example.org' AS email,
  (ARRAY['admin', 'editor', 'reader', 'guest'])[1 + id % 4] AS role, (id::bigint * 7919 % 1000000) AS popularity,
  timestamptz '2020-01-01' + id * interval '1 minute' AS joined, 'Some words that say more about number ' || id AS about
FROM generate_series(1, {rows}) AS id;
ALTER TABLE people ADD PRIMARY KEY (id);
VACUUM ANALYZE people"""
LOADED = '''
[[resident]]
name = "people"
query = "SELECT * FROM people ORDER BY id"
key = "id"
index = ["role", "popularity", "joined"]
memory = "4GiB"
timeout = "5m"
'''
# All rows of a version have its number, `v`.
VERSIONS = '''
[[resident]]
name = "versions"
query = """
SELECT id, id % 10 AS part, (extract(epoch FROM now()) * 1000000)::bigint AS v
FROM generate_series(1, 1000) AS id"""
key = "id"
index = ["part"]
refresh = { every = "100ms" }
'''
# Compares the first and the last row of each answer, and all rows of each tenth answer.
LOOK = """
wrong, seen, whole = 0, 0, 0
function init(args) end
function setup(thread) threads = threads or {}; table.insert(threads, thread) end
function response(status, headers, body)
  local first = string.match(body, '"v":(%d+)')
  local last = string.match(string.sub(body, -40), '"v":(%d+)')
  if status ~= 200 or first ~= last or string.byte(body, 1) ~= 91 or string.sub(body, -2) ~= "]\\n" then wrong = wrong + 1 end
  seen = seen + 1
  if seen % 10 == 0 then
    local _, rows = string.gsub(body, '"v":', "")
    local _, same = string.gsub(body, '"v":' .. tostring(first) .. '}', "")
    if rows ~= 100 or same ~= 100 then wrong = wrong + 1 end
    whole = whole + 1
  end
end
function done(summary, latency, requests)
  local sum, all = 0, 0
  for _, thread in ipairs(threads) do
    sum, all = sum + thread:get("wrong"), all + thread:get("whole")
  end
  io.write("wrong answers: " .. sum .. ", looked at whole: " .. all .. "\\n")
end
"""


def metric(admin, name, table):
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics") as answer:
        return float(re.search(rf'^sluice_resident_{name}{{resident="{table}"}} (\S+)$', answer.read().decode(), re.M).group(1))


def admin_port(where, program):
    return re.search(r'\[admin\]\nlisten = "127.0.0.1:(\d+)"', (where / f"sluice-{program.port}.toml").read_text()).group(1)


def answer(where, args):
    """One worker on core 0, the client on core 1. The file holds the same bytes as the answer."""
    users = subprocess.run([BUILD / "bench/case_study", "sql", "sqlite"], check=True, capture_output=True, text=True).stdout
    subprocess.run(["sqlite3", where / "users.db"], input=users, check=True, text=True)
    site = where / "site"
    site.mkdir()
    targets = {"file": "/static/users.json", "resident": "/users?roles=admin"}

    def start():
        program = sluice(f'[database.main]\nurl = "sqlite:{where}/users.db"\n{USERS}'
                      f'[[files]]\npath = "/static"\nroot = "{site}"\n', where, cores=1, core=CORE)
        for _ in range(100):  # the port is bound a moment before it is served
            if fetch(program.port, targets["resident"])[0] == 200:
                break
            time.sleep(0.1)
        return program

    program = start()
    status, body = fetch(program.port, targets["resident"])
    if status != 200 or len(json.loads(body)) != 100:
        raise SystemExit("there are not 100 users")
    (site / "users.json").write_bytes(body)
    if fetch(program.port, targets["file"])[1] != body:
        raise SystemExit("the file is not the answer")
    runs = {name: [] for name in targets}
    for _ in range(args.rounds):
        for name, target in targets.items():
            runs[name].append(cost_of(program, lambda target=target: wrk(program.port, target, 100, args.seconds, core=1)))
    program.stop()
    figures = {}
    for name, target in targets.items():
        user = instructions(start, where, lambda one, seconds, target=target: wrk(one.port, target, 100, seconds))
        counted = {key: median(run[key] for run in runs[name]) for key in runs[name][0] if key.startswith("instructions")}
        figures[name] = user
        tell(bench="resident", case="answer", of=name, bytes=len(body), rps=round(median(run["rps"] for run in runs[name])),
             cpu_us=round(median(run["cpu_us"] for run in runs[name]), 2), errors=sum(run["errors"] for run in runs[name]),
             callgrind_user=user, **counted)
    tell(bench="resident", case="answer", ratio="resident to file",
         cpu_us=round(median(one["cpu_us"] / other["cpu_us"] for one, other in zip(runs["resident"], runs["file"])), 3),
         rps=round(median(one["rps"] / other["rps"] for one, other in zip(runs["resident"], runs["file"])), 3),
         callgrind_user=round(figures["resident"] / figures["file"], 3), wanted=1.15)


def load(where, args):
    cluster = postgres()
    cluster.psql(PEOPLE.format(rows=args.rows))
    floor = pg_floor.connect(f"{cluster.folder}/.s.PGSQL.{cluster.port}", "postgres", "postgres")
    sql = "SELECT * FROM people ORDER BY id"
    pg_floor.drain(floor, sql)
    reading, loading, loaded = [], [], None
    for _ in range(3):
        reading.append(pg_floor.drain(floor, sql)[0])
        bare = sluice('[[files]]\npath = "/"\nroot = "/usr/share/doc"\n', where)
        time.sleep(0.5)
        before = bare.rss_kib()
        bare.stop()
        begin = time.perf_counter()
        program = sluice(f'[database.main]\nurl = "{cluster.url()}"\n{LOADED}', where)
        started = time.perf_counter() - begin
        loading.append(started)
        time.sleep(0.5)
        admin = admin_port(where, program)
        status, body = fetch(program.port, "/people?limit=1000")
        if status != 200:
            raise SystemExit("it does not answer")
        size = 0
        with urllib.request.urlopen(f"http://127.0.0.1:{program.port}/people.ndjson") as whole:
            while piece := whole.read(1 << 20):
                size += len(piece)
        loaded = {"json_mb": round(size / 1e6, 1), "bytes_metric_mb": round(metric(admin, "bytes", "people") / 1e6, 1),
                  "rss_growth_mb": round((program.rss_kib() - before) * 1024 / 1e6, 1)}
        loaded["rss_to_json"] = round(loaded["rss_growth_mb"] / loaded["json_mb"], 3)
        loaded["metric_to_json"] = round(loaded["bytes_metric_mb"] / loaded["json_mb"], 3)
        program.stop()
    tell(bench="resident", case="load", rows=args.rows, indexes=3, reading_s=round(median(reading), 3),
         start_to_serving_s=round(median(loading), 3), ratio=round(median(loading) / median(reading), 3), wanted=2.0, **loaded,
         wanted_to_json=1.5)


def taken(port, target):
    """Seconds and bytes of an answer that the kernel discards (tcp(7), MSG_TRUNC)."""
    block = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port)) as client:
        begin = time.perf_counter()
        client.sendall(f"GET {target} HTTP/1.0\r\nHost: bench\r\n\r\n".encode())
        size = 0
        while got := client.recv_into(block, len(block), socket.MSG_TRUNC):
            size += got
        return time.perf_counter() - begin, size


def parallel(where, args):
    """Answers of a table that is encoded on demand, from one core and from two, in turns."""
    cluster = postgres()
    cluster.psql(PEOPLE.format(rows=args.rows))
    config = f'[database.main]\nurl = "{cluster.url()}"\n' + LOADED.replace('key = "id"', 'key = "id"\nencode = "on-demand"')
    programs = {cores: sluice(config, where, cores=cores) for cores in (1, 2)}
    time.sleep(1)
    for target in ("/people", "/people?role=reader", "/people?limit=20000"):
        times, sizes = {1: [], 2: []}, set()
        before = metric(admin_port(where, programs[2]), "chunks_elsewhere_total", "people")
        for _ in range(2 * args.rounds - 1):
            for cores, program in programs.items():
                seconds, size = taken(program.port, target)
                times[cores].append(seconds)
                sizes.add(size)
        chunks = metric(admin_port(where, programs[2]), "chunks_elsewhere_total", "people") - before
        tell(bench="resident", case="parallel", target=target, megabytes=round(max(sizes) / 1e6, 1), same_size=len(sizes) == 1,
             one_core_ms=round(median(times[1]) * 1e3, 1), two_cores_ms=round(median(times[2]) * 1e3, 1),
             times_as_fast=round(median(one / two for one, two in zip(times[1], times[2])), 2),
             chunks_by_the_other=int(chunks / len(times[2])))
    for program in programs.values():
        program.stop()


def refresh(where, args):
    cluster = postgres()
    program = sluice(f'[database.main]\nurl = "{cluster.url()}"\n{VERSIONS}', where)
    admin = admin_port(where, program)
    script = where / "look.lua"
    script.write_text(LOOK)
    time.sleep(1)
    target = "/versions?part=3"
    wrk(program.port, target, 100, 1)
    before, loads = program.rss_kib(), metric(admin, "loads_total", "versions")
    run = subprocess.run(["wrk", "-t2", "-c100", f"-d{args.seconds * 5}s", "-s", script,
                          f"http://127.0.0.1:{program.port}{target}"], capture_output=True, text=True)
    wrong, whole = re.search(r"wrong answers: (\d+), looked at whole: (\d+)", run.stdout).groups()
    looked = wrk(program.port, target, 100, args.seconds, threads=1)
    time.sleep(1.5)
    made = metric(admin, "loads_total", "versions") - loads
    tell(bench="resident", case="refresh", every_ms=100, versions=int(made), rows=100,
         looked_at_rps=round(float(re.search(r"Requests/sec:\s+([\d.]+)", run.stdout).group(1))),
         looked_at=int(re.search(r"(\d+) requests in", run.stdout).group(1)), looked_at_whole=int(whole), wrong=int(wrong),
         socket_errors=re.findall(r"Socket errors.*|Non-2xx.*", run.stdout), rps=round(looked["rps"]), errors=looked["errors"],
         rss_before_mib=round(before / 1024, 1), rss_after_mib=round(program.rss_kib() / 1024, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", default="answer,load,parallel,refresh")
    args = parser.parse_args()
    cases = {"answer": answer, "load": load, "parallel": parallel, "refresh": refresh}
    for name in args.only.split(","):
        cases[name](pathlib.Path(folder()), args)


if __name__ == "__main__":
    main()
