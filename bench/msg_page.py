#!/usr/bin/env python3
"""Micro benchmarks of message services: runs those of base, core and msg, and writes results/message-services.md, and all
figures as results/message-services.json.

usage: msg_page.py [--compare]
  --compare   writes nothing, and prints the ratio of each figure to the one in results/message-services.json
"""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import time

from harness import BUILD, ROOT, tell

PAGE = pathlib.Path(__file__).resolve().parent / "results/message-services.md"
BASELINE = PAGE.with_suffix(".json")
REPETITIONS = 3  # a figure is their median
MIN_TIME = 0.05  # seconds of each
QUIET = 0.05     # the part of the CPUs that other programs may take


@dataclasses.dataclass(frozen=True)
class Figure:
    """`of`: cpu (CPU time of an iteration), real (the same by the clock), item (time of an item), rate (items a second), or a
    counter of the benchmark: a number, or seconds in `seconds`."""
    bench: str  # program/benchmark
    of: str = "cpu"
    unit: str = "ns"

    @property
    def name(self):
        return self.bench if self.of == "cpu" else f"{self.bench} {self.of}"

    def read(self, run):
        """In ns, a second, or as the counter counts."""
        scale = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[run["time_unit"]]
        if self.of in ("cpu", "real"):
            return run[f"{self.of}_time"] * scale
        if self.of in ("item", "rate"):
            return run["items_per_second"] if self.of == "rate" else 1e9 / run["items_per_second"]
        return run[self.of] * (1e9 if self.unit == "ns" else 1)

    def text(self, value):
        if self.of == "rate":
            return f"{value / 1e6:.3g} M/s"
        if self.unit != "ns":
            return f"{value:g}"
        return f"{value:.3g} ns" if value < 999.5 else f"{value / 1e3:.3g} µs"


@dataclasses.dataclass(frozen=True)
class Row:
    what: str
    ours: Figure
    beside: dict = dataclasses.field(default_factory=dict)  # by label
    published: str = ""
    best: float = 0  # of the published figures, which the ratio is to; 0: not comparable
    why: str = ""    # filled in by hand, if ours is behind and the reason is known


def core(bench, *of):
    return Figure(f"core/{bench}", *of)


def msg(bench, *of):
    return Figure(f"msg/{bench}", *of)


def buffer(kind, size, backlog):
    return Figure(f"base/append_and_consume<{kind}>/bytes:{size}/backlog:{backlog}")


def allocators(bench, after="", *of):
    return {name.lower(): core(f"{bench}<{name}>{after}", *of) for name in ("Malloc", "Mimalloc")}


OPTIONAL = "<Mimalloc>"  # skipped where it is not installed

ROWS = [
    Row("ring, one producer and one consumer, two threads, 1,024 slots: a value",
        core("spsc_two_threads/1024/real_time", "per_value"), {"one thread": core("spsc_push_and_pop")},
        "9.9 ns, later 3.4 ns", 3.4),
    *(Row(f"the same, {slots:,} slots", core(f"spsc_two_threads/{slots}/real_time", "per_value"))
      for slots in (4096, 16384, 65536)),
    Row("ring, there and back between two threads that poll", core("spsc_ping_pong/real_time", "real")),
    *(Row(f"ring with a slow consumer, {slots:,} slots: a value", core(f"spsc_slow_consumer/{slots}/real_time", "per_value"),
          {"the consumer's own work": core("slow_consumer_alone")}) for slots in (1024, 65536)),
    Row("inbox, two producers: a value", core("inbox_pushes/2/real_time", "item"),
        {"one producer": core("inbox_pushes/1/real_time", "item")}, "14 ns", 14),
    Row("call to another core and back, both asleep", core("cross_core_round_trip/1/real_time", "round_trip"),
        {"bare eventfd": core("eventfd_round_trip/real_time", "round_trip")}, "17 to 24 µs, later 8.2 µs", 8200,
        "the kernel wakes two threads, as for the bare eventfd"),
    Row("the same, both polling", core("cross_core_round_trip_polling/real_time", "round_trip")),
    Row("posts to another core", core("one_way_posts/1000000/real_time", "rate"), {}, "0.98 M/s, later 2.9 M/s", 2.9e6),
    Row("counters of each core, two threads: a count", core("counters_per_core/real_time/threads:2", "item"),
        {"64 locked shards": core("counters_in_64_locked_shards/real_time/threads:2", "item")},
        "2.1 times a shared loop, 4 workers"),
    Row("the same, one thread", core("counters_per_core/real_time/threads:1", "item"),
        {"64 locked shards": core("counters_in_64_locked_shards/real_time/threads:1", "item")}),
    Row("slab, a block of 64 bytes and back", core("one_block<Slab>/64"), allocators("one_block", "/64"),
        "11 ns; malloc 120 ns", 11),
    Row("slab, 1,024 blocks of mixed sizes alive", core("many_alive<Slab>"), allocators("many_alive")),
    Row("arena, an allocation, with its share of reset()", core("arena_request", "item"),
        allocators("allocator_request", "", "item"), "7 ns; malloc 120 ns", 7),
    Row("buffer, 64 bytes appended and consumed", buffer("Buffer", 64, 0), {"naive vector": buffer("NaiveBuffer", 64, 0)},
        "35 ns", 35),
    *(Row(f"buffer, {size:,} bytes, {backlog} messages before them", buffer("Buffer", size, backlog),
          {"naive vector": buffer("NaiveBuffer", size, backlog)})
      for size, backlog in ((64, 16), (512, 16), (4096, 16), (16384, 0), (16384, 16))),
    Row("timer armed and cancelled beside 100,000", core("timer_schedule_and_cancel/100000")),
    Row("timer moved, of 100,000", core("timer_reschedule/100000")),
    Row("tick of the timing wheel, nothing due", core("timer_tick_nothing_due")),
    Row("timer armed and fired, of 100,000", core("timer_schedule_and_fire/100000")),
    *(Row(f"dispatch, {count:,} handlers", msg(f"dispatch/{count}")) for count in (10, 100, 1000)),
    *(Row(f"session by id, of {count:,}", msg(f"session_find<InSessions>/{count}"),
          {"std::map": msg(f"session_find<InTree>/{count}")}) for count in (100, 10_000, 100_000)),
    *(Row(f"walk over {count:,} sessions: one", msg(f"session_iterate<InSessions>/{count}"),
          {"std::unordered_map": msg(f"session_iterate<InHashMap>/{count}"), "std::map": msg(f"session_iterate<InTree>/{count}")})
      for count in (100, 10_000, 100_000)),
    Row("session object of a connection, made and destroyed", msg("tcp_session_create_and_destroy")),
    Row("session begins and ends beside 100,000", msg("session_begin_and_end/100000")),
    Row("reference to a session copied", msg("session_ref_copy"), {"std::shared_ptr": msg("shared_ptr_copy")}),
    Row("FlatBuffers message built", msg("flatbuffer_build"), {"plain struct": msg("struct_build")}),
    Row("FlatBuffers message verified", msg("flatbuffer_verify")),
    Row("FlatBuffers message read", msg("flatbuffer_read"), {"struct: new, copy and read": msg("struct_new_copy_read")}),
    *(Row(f"frame of {size:,} bytes: encoded, decoded, dispatched, answered", msg(f"frame_pipeline/{size}"))
      for size in (64, 512, 4096)),
    *(Row(f"allocations of that, {size:,} bytes", msg(f"frame_pipeline/{size}", "allocations_per_message", ""))
      for size in (64, 512, 4096)),
]


def figures():
    return {figure.name: figure for row in ROWS for figure in (row.ours, *row.beside.values())}


def measure():
    """The median of each figure, by name."""
    values = {}
    for program in ("base", "core", "msg"):
        of_program = [figure for figure in figures().values() if figure.bench.startswith(f"{program}/")]
        names = sorted({figure.bench.split("/", 1)[1] for figure in of_program})
        run = subprocess.run([BUILD / f"bench_{program}", f"--benchmark_filter=^({'|'.join(map(re.escape, names))})$",
                              f"--benchmark_min_time={MIN_TIME}", f"--benchmark_repetitions={REPETITIONS}",
                              "--benchmark_format=json"], capture_output=True, text=True)
        if run.returncode != 0:
            raise SystemExit(f"bench_{program}: {run.stderr}")
        runs = {}
        for one in json.loads(run.stdout)["benchmarks"]:
            if one["run_type"] == "iteration":
                name = one["run_name"].split("/repeats:")[0]
                if one.get("error_occurred") and OPTIONAL not in name:
                    raise SystemExit(f"{name}: {one['error_message']}")
                runs.setdefault(name, []).append(one)
        for figure in of_program:
            name = figure.bench.split("/", 1)[1]
            if name not in runs:
                raise SystemExit(f"bench_{program} has no {name}")
            if not runs[name][0].get("error_occurred"):
                values[figure.name] = statistics.median(map(figure.read, runs[name]))
    return values


def busy():
    """The part of the CPUs that other programs take."""
    def times():
        numbers = [int(number) for number in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]  # all; idle, and waiting for a disk
    before = times()
    time.sleep(1)
    after = times()
    return 1 - (after[1] - before[1]) / max(after[0] - before[0], 1)


def head():
    def of(*command):
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]
    changed = of("git", "status", "--porcelain", "--untracked-files=no", "--", "src", "cmake", "CMakeLists.txt", ":!*.md")
    return {
        "CPU": f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} of them",
        "kernel": platform.release(),
        "compiler": of(compiler, "--version").splitlines()[0],
        "commit": of("git", "rev-parse", "--short", "HEAD") + (" and changes" if changed else ""),
        "date": str(datetime.date.today()),
    }


def page(about, values, taken):
    lines = ["# Micro benchmarks of message services", "",
             "`make bench-msg CASES=page` writes this page. The code is in the `*_bench.cc` beside the code that it measures. "
             f"A figure is the median of {REPETITIONS} runs: CPU time with one thread, time by the clock with two.", "",
             "\"Beside it\" is an alternative in the same run. \"Published\" are figures of a comparable framework from other "
             "machines, so their ratios show an order of magnitude: above 1, ours is better than the best of them.", ""]
    if taken > QUIET:
        lines += [f"**Provisional:** other programs took {taken:.0%} of the CPUs. Figures of two threads suffer most.", ""]
    lines += ["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in about.items()), "",
              "| | ours | beside it | published | ratio | why |", "|---|---|---|---|---|---|"]
    for row in ROWS:
        ours = values[row.ours.name]
        beside = ", ".join(f"{label} {figure.text(values[figure.name])}" for label, figure in row.beside.items()
                           if figure.name in values)
        ratio = (ours / row.best if row.ours.of == "rate" else row.best / ours) if row.best else None
        cells = (row.what, row.ours.text(ours), beside, row.published, "" if ratio is None else f"{ratio:.2g}",
                 row.why if ratio is not None and ratio < 1 else "")
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def compare(values):
    stored = json.loads(BASELINE.read_text())
    print(f"commit {stored['about']['commit']}, {stored['about']['date']}; ratio: now to then")
    for name, figure in figures().items():
        now, then = values.get(name), stored["figures"].get(name)
        if now is None or then is None:
            print(f"{name:<62} only {'then' if now is None else 'now'}")
        else:
            ratio = f"{now / then:8.2f}" if then else " " * 8
            print(f"{name:<62} {figure.text(then):>10} {figure.text(now):>10} {ratio}")


def write():
    taken = busy()
    values = measure()
    about = head()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(about, values, taken))
    rounded = {name: float(f"{value:.4g}") for name, value in values.items()}
    BASELINE.write_text(json.dumps({"about": about | {"busy": round(taken, 2)}, "figures": rounded}, indent=1) + "\n")
    tell(bench="msg", case="page", written=str(PAGE.relative_to(ROOT)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true")
    if parser.parse_args().compare:
        compare(measure())
    else:
        write()


if __name__ == "__main__":
    main()
