#!/usr/bin/env python3
"""The case study: users by role among 10,000, from a service that is improved stage by stage, then through endpoints from the
databases' own indexes, then from a resident table; answers of 100 users and of 1,000.

One keep-alive connection sends one request after the other; the servers take turns, and each percentile is the median of the
rounds'. The client and all servers except the parallel stage run on core 0, databases where the kernel puts them. On different
cores, waking the other side would take longer than the shorter answers, on virtual machines much longer, and would dominate the
result. First, every answer is compared, as a value, with the first stage's. The floor is a loop that sends as many bytes as the
first stage's answer and parses nothing. Figures go to standard output as JSON lines, then as a table, and into a file as a picture;
with --profile, where each spends its time (perf) goes into a text file beside the picture. Also how many blocks of memory each stage
allocates for an answer (heaptrack), and what -O2 instead of -O3 makes of each stage and, where SLUICE_O2 names a program that was
built so, of Sluice.
usage: run_case_study.py [--rounds N] [--share F] [--only NAME,NAME] [--plot FILE] [--profile] [--page]
  --page   stores the figures (results/case-study.json), and writes docs/case-study.svg and the tables of docs/case-study.md
"""
import argparse
import collections
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import tempfile
import time

import stored
from harness import BUILD, SLUICE, Program, descendants, fetch, folder, free_port, median, postgres, sluice, tell
from http_clients import latency
from percentiles import summary

ROLES = {100: "admin", 1000: "editor"}  # number of users: their role
# Requests a round.
STAGES = {"scan-and-copy": 100, "role-index": 150, "moves": 150, "views": 150, "text": 300, "append": 1000, "reserve": 1000,
          "parallel": 1000, "ttl-cache": 1000, "gzip": 1000}
CORE = 0
ON_ALL_CORES = {"parallel"}
FIRST = "scan-and-copy"
GZIP = "Accept-Encoding: gzip"
WANTED = 500  # how many times as fast as the first stage the resident table's answer of 100 users must be

# name; its program, or None and the reason in `missing`; the target, with {role} in it; requests a round; fields of the request; a
# function that returns more processes to profile
Rung = collections.namedtuple("Rung", "name program missing target requests fields processes",
                              defaults=("/users?role={role}", 1000, (), lambda: []))


def stage(name, program="case_study"):
    port = free_port()
    core = None if name in ON_ALL_CORES else CORE
    return Rung(name, Program(name, [BUILD / "bench" / program, name, port], port, core), None, requests=STAGES[name],
                fields=(GZIP,) if name == "gzip" else ())


def allocations(name, where, requests=20):
    """{number of users: blocks and bytes that the stage allocates for an answer}, by heaptrack: of a run with requests, less those
    of a run with one request."""
    def run(role, count):
        port, out = free_port(), where / f"heap-{name}"
        program = Program(name, ["heaptrack", "-o", out, BUILD / "bench/case_study", name, port], port)
        latency(port, f"/users?role={role}", 0, count, None, (GZIP,) if name == "gzip" else ())
        for pid in program.pids[1:]:
            os.kill(pid, 2)
        program.process.wait(60)
        [file] = where.glob(f"heap-{name}.*")
        told = subprocess.run(["heaptrack_print", "-p", "0", "-a", "0", "-T", "0", "-l", "0", "-f", file], check=True,
                              capture_output=True, text=True).stdout
        file.unlink()
        return int(re.search(r"calls to allocation functions: (\d+)", told)[1])
    return {count: round((run(role, requests + 1) - run(role, 1)) / requests) for count, role in ROLES.items()}


def levels(where, only, rounds, share):
    """{stage: {users: {level of optimisation: p50 in µs}}}, both levels in turns; of Sluice too, where it was built at -O2."""
    pairs = {name: (stage(name, "case_study_o2"), stage(name)) for name in STAGES if not only or name in only}
    if (two := os.environ.get("SLUICE_O2")) and (where / "users.db").exists():
        pairs["Sluice, endpoint, SQLite"] = (from_sqlite(where, two), from_sqlite(where))
    table = {}
    for name, (two, three) in pairs.items():
        table[name] = {}
        for count, role in ROLES.items():
            runs = {2: [], 3: []}
            for _ in range(rounds):
                for level, rung in ((2, two), (3, three)):
                    requests = max(20, round(rung.requests * share))
                    runs[level].append(summary(latency(rung.program.port, rung.target.format(role=role), requests // 10 + 1, requests,
                                                       CORE, rung.fields)["latencies_us"])["p50"])
            table[name][count] = {level: round(median(of_level), 1) for level, of_level in runs.items()}
            tell(bench="case-study", levels=name, users=count, **{f"O{level}_us": value for level, value in table[name][count].items()})
        for rung in (two, three):
            rung.program.stop()
    return table


def users_as(dialect):
    return subprocess.run([BUILD / "bench/case_study", "sql", dialect], check=True, capture_output=True).stdout


def worker(config, where, program=SLUICE):
    return sluice(config, where, cores=1, core=CORE, program=program)


def endpoint(database, statement):
    return f'''[database.main]
url = "{database}"
[[endpoint]]
path = "/users"
get = "{statement}"
'''


def fill_sqlite(where):
    with sqlite3.connect(where / "users.db") as database:
        database.executescript(users_as("sqlite").decode())
    database.close()


def from_sqlite(where, program=SLUICE):
    config = endpoint(f"sqlite:{where}/users.db",
                      "SELECT users.* FROM user_roles JOIN users ON users.id = user_roles.user WHERE role = :role")
    return Rung("endpoint, SQLite", worker(config, where, program), None, requests=300)


class Cluster:
    """PostgreSQL with the users, an index of their roles, and the processes that serve queries."""

    def __init__(self, where):
        self.where = where
        self.cluster = postgres()
        self.cluster.psql(users_as("postgres"))
        self.url = f"postgres://postgres@/postgres?host={self.cluster.folder}&port={self.cluster.port}"

    def processes(self):
        with open(f"{self.cluster.data}/postmaster.pid") as file:
            return descendants(int(file.readline()))

    def by_index(self):
        for role in ROLES.values():
            plan = self.cluster.psql(f"EXPLAIN SELECT * FROM users WHERE roles @> ARRAY['{role}']").decode()
            if "Bitmap Index Scan on users_roles" not in plan:
                raise SystemExit(f"PostgreSQL does not use the index:\n{plan}")
        config = endpoint(self.url, "SELECT * FROM users WHERE roles @> ARRAY[:role]")
        return Rung("endpoint, GIN", worker(config, self.where), None, requests=300, processes=self.processes)

    def resident(self):
        config = f'''[database.main]
url = "{self.url}"
[compression]
codings = ["gzip"]
[[resident]]
name = "users"
query = "SELECT * FROM users ORDER BY id"
key = "id"
index = ["roles"]
'''
        file = self.where / "resident.toml"
        file.write_text(f'[server]\nlisten = ["127.0.0.1:{free_port()}"]\n{config}')
        check = subprocess.run([SLUICE, "check", file], capture_output=True, text=True)
        target = "/users?roles={role}"
        if re.search(r'resident is not supported yet|unknown key "resident"', check.stdout + check.stderr):
            missing = f"{SLUICE} does not know [[resident]]"
            return [Rung("resident", None, missing), Rung("resident, gzip", None, missing)]
        if check.returncode != 0:
            raise SystemExit(check.stdout + check.stderr)
        program = worker(config, self.where)
        return [Rung("resident", program, None, target), Rung("resident, gzip", program, None, target, fields=(GZIP,))]


def rungs(where, only):
    for name in STAGES:
        if not only or name in only or name == FIRST:
            yield stage(name)
    if not only or "sqlite" in only:
        fill_sqlite(where)
        yield from_sqlite(where)
    if not only or {"gin", "resident"} & only:
        cluster = Cluster(where)
        if not only or "gin" in only:
            yield cluster.by_index()
        if not only or "resident" in only:
            yield from cluster.resident()


def users(rung, role):
    """The rung's answer as values, sorted by id, because no order was requested."""
    status, body = fetch(rung.program.port, rung.target.format(role=role),
                         *(option for field in rung.fields for option in ("--compressed", "-H", field)))
    if status != 200:
        raise SystemExit(f"{rung.name} answers {status}: {body[:200]!r}")
    return sorted(json.loads(body), key=lambda user: user["id"])


def compare(ladder):
    for count, role in ROLES.items():
        expected = users(ladder[0], role)
        if len(expected) != count or not all(role in user["roles"] for user in expected):
            raise SystemExit(f"{role}: {len(expected)} users")
        for rung in ladder[1:]:
            for ours, theirs in zip(users(rung, role), expected, strict=True):
                if ours != theirs:
                    raise SystemExit(f"{rung.name} answers\n{ours}\nand not\n{theirs}")


def floors(first):
    """(number of users, rung) pairs: each floor sends as many bytes as the first rung's answer."""
    for count, role in ROLES.items():
        port, size = free_port(), len(fetch(first.program.port, first.target.format(role=role))[1])
        yield count, Rung("floor", Program("floor", [BUILD / "bench/floor_epoll", port, size], port, CORE), None)


def measure(ladder, rounds, share):
    """{(name, number of users): figures}"""
    runs = collections.defaultdict(list)
    floor = dict(floors(ladder[0]))
    for _ in range(rounds):
        for count, role in ROLES.items():
            for rung in [*ladder, floor[count]]:
                requests = max(20, round(rung.requests * share))
                runs[rung.name, count].append(latency(rung.program.port, rung.target.format(role=role), requests // 10 + 1,
                                                      requests, CORE, rung.fields))
    table = {}
    for (name, count), of_rung in runs.items():
        rows = [summary(run["latencies_us"]) for run in of_rung]
        table[name, count] = {"users": count, "bytes": of_rung[0]["bytes"], "coding": of_rung[0]["coding"], "rounds": rounds,
                              "requests": sum(len(run["latencies_us"]) for run in of_rung),
                              **{f"{key}_us": round(median(row[key] for row in rows), 1) for key in rows[0]}}
    for (name, count), figures in table.items():
        figures["times_as_fast"] = round(table[FIRST, count]["p50_us"] / figures["p50_us"], 1)
        tell(bench="case-study", rung=name, **figures)
    return table


def write_table(table, missing):
    print(f'\n{"":<18}{"users":>7}{"bytes":>9}{"p50":>12}{"p95":>12}{"p99":>12}   times as fast')
    for count in ROLES:
        for (name, users_of_row), row in table.items():
            if users_of_row == count:
                times = "".join(f'{row[f"p{percent}_us"] / 1000:>9.3f} ms' for percent in (50, 95, 99))
                print(f'{name:<18}{count:>7,}{row["bytes"]:>9,}{times}{row["times_as_fast"]:>16,.1f}')
    for rung in missing:
        print(f"{rung.name:<18}missing: {rung.missing}")


def plot(table, file):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "case-study"
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True, sharex=True)
    for axis, count in zip(axes, ROLES):
        rows = {name: row for (name, users_of_row), row in table.items() if users_of_row == count}
        colours = ["tab:blue" if name in STAGES else "tab:orange" if name.startswith("resident") else "tab:grey" for name in rows]
        axis.barh(list(rows), [row["p50_us"] / 1000 for row in rows.values()], color=colours)
        axis.plot([row["p99_us"] / 1000 for row in rows.values()], list(rows), "k|", label="p99")
        axis.set_xscale("log")
        axis.set_xlim(left=0.01)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_title(f"{count:,} users")
        axis.set_xlabel("milliseconds, p50 (and p99)")
    axes[0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def readable(name):
    """A C++ name without namespaces and template arguments."""
    name = name.replace("(anonymous namespace)::", "").replace("case_study::", "").replace(" (inlined)", "")
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return re.sub(r"\w*json_abi\w*::", "", name)


# Callers that the profile leaves out: loops, threads, and what the compiler puts between.
AROUND = re.compile(r"""0x | [\da-f]{16}$ | _Z | _start | main$ | clone3 | start_thread | __libc_start | plain::loop | answer$
    | do_syscall_64 | entry_SYSCALL | __x64_sys | (__)?std::(thread|function|_Function|__invoke) | .*operator\(\)$ | \S*JobOf
    | sluice::app::serve | sluice::core::(Core::run|run_cores|\w*Reactor::(turn|dispatch))""", re.X)


def profile(rung, role, seconds, most=10):
    """Lines: a function's inclusive share, its own share, its name. The rung runs for about a second."""
    with tempfile.NamedTemporaryFile() as data:
        pids = [*rung.program.pids, *rung.processes()]
        recording = subprocess.Popen(["perf", "record", "-q", "-F", "999", "--call-graph", "dwarf,8192", "-o", data.name,
                                      "-p", ",".join(map(str, pids))], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)  # until perf has started
        latency(rung.program.port, rung.target.format(role=role), 1, round(1 / seconds) + 1, CORE, rung.fields)
        recording.send_signal(2)  # perf writes what it has when it is interrupted
        recording.wait()
        report = subprocess.run(["perf", "report", "-i", data.name, "--stdio", "--children", "-g", "none", "-F",
                                 "overhead_children,overhead,sym"], capture_output=True, text=True)
    lines, seen = [], set()
    for inclusive, own, name in re.findall(r"^\s+([\d.]+)%\s+([\d.]+)%\s+\[[.k]\] (\S.*?)\s*$", report.stdout, re.M):
        name = readable(name)
        # A function that only calls another one has the same share; the first of them is enough.
        if AROUND.match(name) or (inclusive in seen and float(own) < 1):
            continue
        seen.add(inclusive)
        lines.append(f"{float(inclusive):6.1f} % {float(own):6.1f} %  {name}")
        if len(lines) == most:
            break
    if not lines:
        raise SystemExit(f"perf has nothing to say of {rung.name}: {report.stderr}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1, help="of the requests that a round has for each")
    parser.add_argument("--only", help="stages, sqlite, gin, resident; the first stage is always there")
    parser.add_argument("--plot", type=pathlib.Path, default=BUILD.parent / "case-study.svg")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    about = stored.about() if args.page else None
    if args.page:
        args.plot = stored.ROOT / "docs/case-study.svg"
    only = args.only and set(args.only.split(","))

    where = folder()
    ladder, missing = [], []
    for rung in rungs(where, only):
        if rung.program:
            ladder.append(rung)
        else:
            missing.append(rung)
            tell(bench="case-study", rung=rung.name, missing=rung.missing)
    compare(ladder)
    table = measure(ladder, args.rounds, args.share)
    if ("resident", 100) in table:
        times = table["resident", 100]["times_as_fast"]
        to_floor = table["resident", 100]["p50_us"] / table["floor", 100]["p50_us"]
        tell(bench="case-study", rung="resident", users=100, times_as_fast=times, wanted=WANTED, within=times >= WANTED,
             to_floor=round(to_floor, 2))
    write_table(table, missing)
    plot(table, args.plot)
    allocated = {}
    for name in STAGES:
        if not only or name in only:
            allocated[name] = allocations(name, where)
            tell(bench="case-study", rung=name, allocations={str(count): of for count, of in allocated[name].items()})
    of_levels = levels(where, only, args.rounds, args.share)
    if args.page:
        stored.store("case-study", about, [{"rung": name, **row} for (name, _), row in table.items()], allocations=allocated,
                     levels=of_levels)
        stored.main()
    print(f"\n{args.plot}")
    if args.profile:
        beside = args.plot.with_suffix(".profile.txt")
        with open(beside, "w") as file:
            file.write("Where the time goes: a function with what it calls, itself alone. CPU time, not waiting.\n")
            for rung in ladder:
                for count, role in ROLES.items():
                    lines = profile(rung, role, table[rung.name, count]["p50_us"] / 1e6)
                    file.write("\n".join([f"\n{rung.name}, {count:,} users", *lines]) + "\n")
        print(beside)


if __name__ == "__main__":
    main()
