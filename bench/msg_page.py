#!/usr/bin/env python3
"""Micro benchmarks of message services: runs those of base, core and msg, and an echo over loopback, and writes
results/message-services.md, its plot results/message-services.svg, and all figures as results/message-services.json.

usage: msg_page.py [--compare | --render]
  --compare   writes nothing, prints the ratio of each figure to the one in results/message-services.json, and names those
              that are slower by more than their spread, then and now, together; ends with 1 if there are any
  --render    measures nothing: writes the page and its plot again from the stored figures
"""
import argparse
import dataclasses
import json
import re
import resource
import statistics
import subprocess
import sys

import stored
from harness import BUILD, ROOT, Program, free_port, tell

NAME = "message-services"
REPETITIONS = 3  # a figure is their median
MIN_TIME = 0.05  # seconds of each

# Published figures of a comparable framework (C++23, Windows, i5-9300H, DDR4-2400): ns of CPU time, or operations a second.
# The best one counts where it was published again later. Each is in exactly one row.
PUBLISHED = {
    **{f"spsc/{slots}": [ns] for slots, ns in ((1024, 9.9), (4096, 9.5), (32768, 9.2), (65536, 11.9))},
    "spsc/later": [3.4], "spsc/latency": [7.8], "spsc/refused": [3.2], "spsc/two threads": [46.2],
    **{f"mpsc/{slots}": [ns] for slots, ns in ((1024, 14.1), (4096, 14.1), (32768, 13.6), (65536, 15.3))},
    "mpsc/two producers": [38.4], "mpsc/refused": [5.9],
    **{f"slab/{size}": [ns] for size, ns in ((64, 11.1), (256, 11.2), (1024, 10.0))},
    **{f"malloc/{size}": [ns] for size, ns in ((64, 120), (256, 120), (1024, 122))}, "make_shared": [153.5],
    **{f"bump/{size}": [ns] for size, ns in ((64, 10.0), (256, 7.1), (1024, 7.3))},
    **{f"arena/{size}": [ns] for size, ns in ((64, 14.6), (256, 19.9), (1024, 20.4))},
    **{f"encode/{size}": [ns] for size, ns in ((64, 57.5), (512, 73.2), (4096, 165), (16384, 609))},
    **{f"decode/{size}": [ns] for size, ns in ((64, 110), (512, 123), (4096, 195), (16384, 725))},
    **{f"flatbuffer/build/{size}": [ns] for size, ns in ((64, 100), (512, 105), (4096, 160))},
    **{f"flatbuffer/read/{size}": [ns] for size, ns in ((64, 3.4), (512, 3.5), (4096, 3.6))},
    **{f"heap/build/{size}": [ns] for size, ns in ((64, 62.5), (512, 68.4), (4096, 128))},
    **{f"heap/read/{size}": [ns] for size, ns in ((64, 64), (512, 68), (4096, 114))},
    **{f"dispatch/{count}": [ns] for count, ns in ((10, 5.5), (100, 5.8), (1000, 5.2))},
    **{f"sessions/{count}": [ns] for count, ns in ((100, 5.2), (1000, 7.1), (10000, 7.1), (100000, 4.3))},
    **{f"unordered_map/{count}": [ns] for count, ns in ((100, 7.5), (1000, 6.0), (10000, 3.8), (100000, 3.9))},
    **{f"walk/{count}": [ns] for count, ns in ((100, 1.8), (1000, 2.8), (10000, 2.62))},
    **{f"walk/unordered_map/{count}": [ns] for count, ns in ((100, 1.15), (1000, 3.0), (10000, 6.63))},
    **{f"timers/{count}": [ns] for count, ns in ((1000, 64.1), (10000, 72.5), (50000, 73.0))}, "timers/scheduled": [159],
    "session made": [443e3], "session copied": [6.3], "shared_ptr copied": [18.0],
    **{f"buffer/{size}": [ns] for size, ns in ((64, 34.5), (512, 40.6), (4096, 102.5))},
    **{f"linearise/{size}": [ns] for size, ns in ((64, 43.5), (512, 67), (4096, 132.5))},
    **{f"new and copy/{size}": [ns] for size, ns in ((64, 156), (512, 160), (4096, 251))},
    "round trip": [24.3e3, 8.2e3], "posts": [0.98e6, 2.9e6],
    **{f"pipeline/{size}": [ns] for size, ns in ((64, 6.1e3), (512, 6.8e3), (4096, 6.8e3))},
    **{f"echo/{size}": [ns] for size, ns in ((64, 8.2e3), (512, 8.2e3), (4096, 8.5e3))},
    **{f"per core/{workers}": [rate * 1e6] for workers, rate in ((1, 0.51), (2, 0.90), (3, 1.24), (4, 1.56), (8, 1.98))},
    **{f"shared/{workers}": [rate * 1e6] for workers, rate in ((1, 0.53), (2, 0.64), (3, 0.72), (4, 0.74), (8, 0.77))},
}


@dataclasses.dataclass(frozen=True)
class Figure:
    """`of`: cpu (CPU time of an iteration), real (the same by the clock), item (time of an item), rate (items a second), or a
    counter of the benchmark: a number, or seconds in `seconds`. `share`: operations in an iteration."""
    bench: str  # program/benchmark, or socket/...
    of: str = "cpu"
    unit: str = "ns"
    share: int = 1

    @property
    def name(self):
        return self.bench if self.of == "cpu" else f"{self.bench} {self.of}"

    def read(self, run):
        """In ns, a second, or as the counter counts."""
        scale = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[run["time_unit"]]
        if self.of in ("cpu", "real"):
            return run[f"{self.of}_time"] * scale / self.share
        if self.of in ("item", "rate"):
            return run["items_per_second"] if self.of == "rate" else 1e9 / run["items_per_second"]
        return run[self.of] * (1e9 if self.unit == "ns" else 1)

    def text(self, value):
        if self.of == "rate":
            return f"{value / 1e6:.3g} M/s"
        if self.unit != "ns":
            return f"{value:g}"
        return f"{value:.3g} ns" if value < 999.5 else f"{value / 1e3:.3g} µs"

    def slower(self, now, then):
        return then / now if self.of == "rate" else now / then


@dataclasses.dataclass(frozen=True)
class Row:
    what: str
    ours: Figure
    beside: dict = dataclasses.field(default_factory=dict)  # by label
    published: str = ""  # a name in PUBLISHED
    size: int = 0        # bytes of an operation, for GB/s
    why: str = ""        # needed where ours is behind the published one


def base(bench, *of):
    return Figure(f"base/{bench}", *of)


def core(bench, *of):
    return Figure(f"core/{bench}", *of)


def msg(bench, *of, **more):
    return Figure(f"msg/{bench}", *of, **more)


def buffer(kind, size, backlog):
    return base(f"append_and_consume<{kind}>/bytes:{size}/backlog:{backlog}")


def allocators(bench, after="", *of):
    return {name.lower(): core(f"{bench}<{name}>{after}", *of) for name in ("Malloc", "Mimalloc")}


def threads(bench, count):
    return core(f"{bench}/real_time/threads:{count}", "rate")


SIZES = (64, 512, 4096)
# GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000 takes a copy of 4,096 bytes from 2,900 to 70 ns there.
SLOW_COPY = ("glibc 2.36 copies more than 2 kB by `rep movsb`, which AMD's Zen 3 does 40 times slower where both addresses have nearly the "
             "same place in a page")
FRAMES = 16  # in an iteration of encode and decode

SECTIONS = {
    "Between threads": [
        *(Row(f"ring, one thread pushes and pops, {slots:,} slots", core(f"spsc_push_and_pop/{slots}"), {}, f"spsc/{slots}")
          for slots in (1024, 4096, 32768, 65536)),
        Row("the same beside the figure published later", core("spsc_push_and_pop/1024"), {}, "spsc/later"),
        Row("one value through an empty ring: latency", core("spsc_push_and_pop/1024"), {}, "spsc/latency"),
        Row("push that a full ring refuses", core("spsc_refused_push"), {}, "spsc/refused"),
        Row("ring, two threads, 1,024 slots: a value", core("spsc_two_threads/1024/real_time", "per_value"), {}, "spsc/two threads"),
        *(Row(f"the same, {slots:,} slots", core(f"spsc_two_threads/{slots}/real_time", "per_value"))
          for slots in (4096, 16384, 65536)),
        Row("ring, there and back between two threads that poll", core("spsc_ping_pong/real_time", "real")),
        *(Row(f"ring with a slow consumer, {slots:,} slots: a value", core(f"spsc_slow_consumer/{slots}/real_time", "per_value"),
              {"the consumer's own work": core("slow_consumer_alone")}) for slots in (1024, 65536)),
        Row("message through a core's own ring, run in place", core("spsc_message", "item")),
        *(Row(f"inbox of many producers, one thread pushes and takes, {slots:,} cells", core(f"inbox_push_and_take/{slots}"), {},
              f"mpsc/{slots}", why="each push has a compare-exchange and a full fence, so that no wake-up of a sleeping core is lost")
          for slots in (1024, 4096, 32768, 65536)),
        Row("inbox, two producers and the core: a value", core("inbox_pushes/2/real_time", "item"), {}, "mpsc/two producers",
            why="three threads on two CPUs here; the published machine had eight"),
        Row("inbox, one producer and the core: a value", core("inbox_pushes/1/real_time", "item")),
        Row("push that a full inbox refuses", core("inbox_refused_push"), {}, "mpsc/refused"),
        Row("call to another core and back, both asleep", core("cross_core_round_trip/1/real_time", "round_trip"),
            {"bare eventfd": core("eventfd_round_trip/real_time", "round_trip")}, "round trip",
            why="the kernel wakes two threads, as for the bare eventfd"),
        Row("the same, 64 in flight", core("cross_core_round_trip/64/real_time", "round_trip")),
        Row("the same, both polling", core("cross_core_round_trip_polling/real_time", "round_trip")),
        Row("posts to another core", core("one_way_posts/1000000/real_time", "rate"), {}, "posts"),
    ],
    "Per core against one shared loop": [
        row for count in (1, 2, 3, 4, 8) for row in (
            Row(f"items a second, sessions and queue of each worker, workers: {count}", threads("items_per_core", count), {},
                f"per core/{count}"),
            Row(f"items a second, one queue and 64 locked shards, workers: {count}", threads("items_in_a_shared_loop", count), {},
                f"shared/{count}"))
    ],
    "Memory": [
        *(Row(f"slab, a block of {size:,} bytes and back", core(f"one_block<Slab>/{size}"), {}, f"slab/{size}")
          for size in (64, 256, 1024)),
        *(Row(f"malloc, a block of {size:,} bytes and back", core(f"one_block<Malloc>/{size}"),
              {"mimalloc": core(f"one_block<Mimalloc>/{size}")}, f"malloc/{size}") for size in (64, 256, 1024)),
        Row("slab, a block of 4,096 bytes and back", core("one_block<Slab>/4096"), allocators("one_block", "/4096")),
        Row("std::make_shared and destroyed", core("make_shared_and_destroy"), {}, "make_shared"),
        Row("slab, 1,024 blocks of mixed sizes alive", core("many_alive<Slab>"), allocators("many_alive")),
        *(Row(f"arena, {size:,} bytes, with its share of reset()", core(f"arena_blocks/{size}"), {}, f"arena/{size}")
          for size in (64, 256, 1024)),
        *(Row(f"the same beside the published bump allocator, {size:,} bytes", core(f"arena_blocks/{size}"), {}, f"bump/{size}")
          for size in (64, 256, 1024)),
        Row("arena, allocations of a request, with their share of reset()", core("arena_request", "item"),
            allocators("allocator_request", "", "item")),
        *(Row(f"buffer, {size:,} bytes appended and consumed", buffer("Buffer", size, 0),
              {"vector": buffer("NaiveBuffer", size, 0)}, f"buffer/{size}", size, SLOW_COPY) for size in SIZES),
        *(Row(f"buffer, {size:,} bytes, {backlog} messages before them", buffer("Buffer", size, backlog),
              {"vector": buffer("NaiveBuffer", size, backlog)}, "", size)
          for size, backlog in ((64, 16), (512, 16), (4096, 16), (16384, 0), (16384, 16))),
        *(Row(f"{size:,} bytes in two pieces made one: not needed, the buffer is linear (decision 22)", base(f"linearise/{size}"), {},
              f"linearise/{size}", size) for size in SIZES),
        *(Row(f"new and copy, {size:,} bytes", base(f"new_and_copy/{size}"), {}, f"new and copy/{size}", size, SLOW_COPY)
          for size in SIZES),
    ],
    "Timers": [
        Row("timer armed and disarmed", core("timer_schedule_and_cancel/0"), {}, "timers/scheduled"),
        *(Row(f"timer armed and disarmed beside {count:,}", core(f"timer_schedule_and_cancel/{count}")) for count in (1000, 100_000)),
        *(Row(f"timer armed and fired, of {count:,}", core(f"timer_schedule_and_fire/{count}"), {},
              f"timers/{count}" if count < 100_000 else "") for count in (1000, 10_000, 50_000, 100_000)),
        *(Row(f"timer moved, of {count:,}", core(f"timer_reschedule/{count}")) for count in (1, 1000, 100_000)),
        Row("tick of the timing wheel, nothing due", core("timer_tick_nothing_due")),
    ],
    "Frames and messages": [
        *(Row(f"frame of {size:,} bytes encoded", msg(f"encode/{size}", share=FRAMES), {}, f"encode/{size}", size)
          for size in (*SIZES, 16384)),
        Row("header encoded alone, for a shared body", msg("encode_header")),
        *(Row(f"frame of {size:,} bytes copied into the buffer and decoded", msg(f"copy_and_decode/{size}", share=FRAMES), {},
              f"decode/{size}", size) for size in (*SIZES, 16384)),
        *(Row(f"frame of {size:,} bytes decoded in place", msg(f"decode_aligned/{size}", share=FRAMES), {}, "", size)
          for size in (*SIZES, 16384)),
        *(Row(f"FlatBuffers message with a text of {size:,} bytes built", msg(f"flatbuffer_build_of_size/{size}"), {},
              f"flatbuffer/build/{size}", size, SLOW_COPY) for size in SIZES),
        *(Row(f"FlatBuffers message with a text of {size:,} bytes read", msg(f"flatbuffer_read_of_size/{size}"), {},
              f"flatbuffer/read/{size}") for size in SIZES),
        *(Row(f"{size:,} bytes built on the heap", base(f"new_and_copy/{size}"), {}, f"heap/build/{size}", size, SLOW_COPY)
          for size in SIZES),
        *(Row(f"{size:,} bytes read into the heap", base(f"new_and_copy/{size}"), {}, f"heap/read/{size}", size, SLOW_COPY)
          for size in SIZES),
        Row("FlatBuffers log-in message built", msg("flatbuffer_build"), {"plain struct": msg("struct_build")}),
        Row("FlatBuffers log-in message verified", msg("flatbuffer_verify")),
        Row("FlatBuffers log-in message read", msg("flatbuffer_read"), {"struct: new, copy and read": msg("struct_new_copy_read")}),
        Row("the same built, framed, decoded, verified and read", msg("flatbuffer_build_frame_decode_verify_read")),
        *(Row(f"dispatch, {count:,} handlers", msg(f"dispatch/{count}"), {}, f"dispatch/{count}",
              why="noise of this machine: fewer and more handlers take half of it in the same run" if count == 100 else "")
          for count in (10, 100, 1000)),
        *(Row(f"frame of {size:,} bytes: encoded, decoded, dispatched, answered", msg(f"frame_pipeline/{size}"), {},
              f"pipeline/{size}") for size in SIZES),
        *(Row(f"allocations of that, {size:,} bytes", msg(f"frame_pipeline/{size}", "allocations_per_message", "")) for size in SIZES),
        *(Row(f"echo of {size:,} bytes over loopback TCP: CPU time of server and client", Figure(f"socket/echo/{size}"),
              {"bare epoll loop": Figure(f"socket/floor/{size}")}, f"echo/{size}",
              why="nearly all of it is the kernel's, as the bare loop shows") for size in SIZES),
    ],
    "Sessions": [
        *(Row(f"session by id, of {count:,}", msg(f"session_find<InSessions>/{count}"),
              {"std::map": msg(f"session_find<InTree>/{count}")}, f"sessions/{count}",
              why="the ids are asked for in random order here, so each look-up misses the caches")
          for count in (100, 1000, 10_000, 100_000)),
        *(Row(f"the same beside the published std::unordered_map, of {count:,}", msg(f"session_find<InSessions>/{count}"), {},
              f"unordered_map/{count}", why="the ids are asked for in random order here, so each look-up misses the caches")
          for count in (100, 1000, 10_000, 100_000)),
        *(Row(f"walk over {count:,} sessions: one", msg(f"session_iterate<InSessions>/{count}"),
              {"std::map": msg(f"session_iterate<InTree>/{count}")}, f"walk/{count}" if count < 100_000 else "")
          for count in (100, 1000, 10_000, 100_000)),
        *(Row(f"walk over a std::unordered_map of {count:,}: one", msg(f"session_iterate<InHashMap>/{count}"), {},
              f"walk/unordered_map/{count}" if count < 100_000 else "", why="not ours: the map of the standard library") for count in (100, 1000, 10_000, 100_000)),
        Row("connection accepted, session made, both closed, with the client's own calls", msg("session_with_its_socket"), {},
            "session made"),
        Row("session object of a connection, made and destroyed", msg("tcp_session_create_and_destroy")),
        *(Row(f"session begins and ends beside {count:,}", msg(f"session_begin_and_end/{count}")) for count in (0, 10_000, 100_000)),
        *(Row(f"a message to a group of 100 among {count:,}, and its turn", msg(f"group_broadcast/{count}")) for count in (100, 9_000)),
        Row("reference to a session copied", msg("session_ref_copy"), {}, "session copied"),
        Row("std::shared_ptr copied", msg("shared_ptr_copy"), {}, "shared_ptr copied"),
    ],
}
ROWS = [row for rows in SECTIONS.values() for row in rows]
LEFT_OUT = ("allocations_are_counted",)  # it checks, and measures nothing

OPTIONAL = "<Mimalloc>"  # skipped where it is not installed


def figures():
    return {figure.name: figure for row in ROWS for figure in (row.ours, *row.beside.values())}


def complain(available):
    """The faults of ROWS: published figures without a row, and benchmarks without one. `available`: names by program."""
    used = [row.published for row in ROWS if row.published]
    faults = [f"no row has the published figure {name}" for name in PUBLISHED if name not in used]
    faults += [f"{name} is published nowhere" for name in used if name not in PUBLISHED]
    faults += [f"two rows have the published figure {name}" for name in set(used) if used.count(name) > 1]
    wanted = {figure.bench for figure in figures().values()}
    faults += [f"{program}/{name} has no row" for program, names in available.items() for name in names
               if f"{program}/{name}" not in wanted and name not in LEFT_OUT]
    return faults


def behind(values, spread):
    """Rows that are behind the published figure by more than their spread, and say no reason."""
    return [row.what for row in ROWS
            if row.published and not row.why and ratio(row, values) * (1 + spread.get(row.ours.name, 0)) < 1]


def ratio(row, values):
    """Above 1: ours is better than the best that was published."""
    ours, published = values[row.ours.name], PUBLISHED[row.published]
    return ours / max(published) if row.ours.of == "rate" else min(published) / ours


def programs():
    return {program: subprocess.run([BUILD / f"bench_{program}", "--benchmark_list_tests"], check=True, capture_output=True,
                                    text=True).stdout.split() for program in ("base", "core", "msg")}


def measure():
    """The median and the spread, the part of it between the least and the most, of each figure by name."""
    available = programs()
    if faults := complain(available):
        raise SystemExit("\n".join(faults))
    runs = {}
    for program, names in available.items():
        run = subprocess.run([BUILD / f"bench_{program}", f"--benchmark_min_time={MIN_TIME}",
                              f"--benchmark_repetitions={REPETITIONS}", "--benchmark_format=json"], capture_output=True, text=True)
        if run.returncode != 0:
            raise SystemExit(f"bench_{program}: {run.stderr}")
        for one in json.loads(run.stdout)["benchmarks"]:
            if one["run_type"] == "iteration":
                name = one["run_name"].split("/repeats:")[0]
                if one.get("error_occurred") and OPTIONAL not in name:
                    raise SystemExit(f"{name}: {one['error_message']}")
                if not one.get("error_occurred"):
                    runs.setdefault(f"{program}/{name}", []).append(one)
    seen = {figure.name: [figure.read(run) for run in runs[figure.bench]] for figure in figures().values() if figure.bench in runs}
    seen |= over_sockets()
    return ({name: statistics.median(values) for name, values in seen.items()},
            {name: (max(values) - min(values)) / (statistics.median(values) or 1) for name, values in seen.items()})


def over_sockets(seconds=1):
    """CPU time of the echo service and its client for a message, and of the bare loop and its client, in ns: one connection with
    one message in flight, as in the published figure."""
    started = {}
    for name, command in (("echo", lambda port: [BUILD / "examples/example_echo", f"127.0.0.1:{port}"]),
                          ("floor", lambda port: [BUILD / "bench/floor_frames", port, "echo"])):
        port = free_port()
        started[name] = Program(name, command(port), port, 0)
    seen = {}
    for number in range(REPETITIONS + 1):  # the first one warms up
        for name, program in started.items():
            for size in SIZES:
                before, children = program.cpu_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
                run = subprocess.run(["taskset", "-c", "1", BUILD / "bench/frames_load", str(program.port), "echo", "1", str(size), "1",
                                      str(seconds)], check=True, capture_output=True, text=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                spent = program.cpu_seconds() - before + after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
                if number:
                    seen.setdefault(f"socket/{name}/{size}", []).append(spent * 1e9 / json.loads(run.stdout)["messages"])
    for program in started.values():
        program.stop()
    return seen


def page(told, values):
    lines = ["# Micro benchmarks of message services", "",
             "`make bench-msg CASES=page` writes this page. The code is in the `*_bench.cc` beside the code that it measures. "
             f"A figure is the median of {REPETITIONS} runs: CPU time with one thread, time by the clock with two.", "",
             "\"Beside it\" is an alternative in the same run. \"Published\" is the figure of a comparable framework (C++23, Windows, "
             "Intel i5-9300H), from another machine, so its ratio shows an order of magnitude: above 1, ours is better.", "",
             "![ours and the published figures](message-services.svg)", ""]
    if not stored.is_quiet(told):
        lines += [f"**Provisional:** other programs took {told['other programs']}. Figures of two threads suffer most.", ""]
    lines += stored.about_lines(told)
    for section, rows in SECTIONS.items():
        cells = []
        for row in rows:
            ours = values[row.ours.name]
            beside = ", ".join(f"{label} {figure.text(values[figure.name])}" for label, figure in row.beside.items()
                               if figure.name in values)
            better = ratio(row, values) if row.published else None
            speed = f" ({row.size / ours:.3g} GB/s)" if row.size else ""
            cells.append((row.what, row.ours.text(ours) + speed, beside,
                          ", later ".join(map(row.ours.text, PUBLISHED[row.published])) if row.published else "",
                          "" if better is None else f"{better:.2g}", row.why if better is not None and better < 1 else ""))
        lines += ["", f"## {section}", "", *stored.table(("", "ours", "beside it", "published", "ratio", "why"), cells)]
    return "\n".join(lines) + "\n"


def plot(values, file):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = NAME
    from matplotlib import pyplot
    times = [row for row in ROWS if row.published and row.ours.of != "rate"]
    rates = [row for row in ROWS if row.published and row.ours.of == "rate"]
    figure, axes = pyplot.subplots(2, 1, figsize=(10, 0.19 * (len(times) + len(rates)) + 2), layout="constrained",
                                   height_ratios=(len(times), len(rates)))
    for axis, rows, scale, label in ((axes[0], times, 1, "ns, less is better"), (axes[1], rates, 1e-6, "million a second, more is better")):
        names = [row.what for row in rows]
        places = range(len(rows))
        best = [(max if row.ours.of == "rate" else min)(PUBLISHED[row.published]) * scale for row in rows]
        axis.hlines(places, [values[row.ours.name] * scale for row in rows], best, color="lightgrey", zorder=1)
        axis.scatter(best, places, color="tab:grey", s=14, label="published")
        axis.scatter([values[row.ours.name] * scale for row in rows], places, color="tab:orange", s=14, label="Sluice")
        axis.set_yticks(places, names, fontsize=6)
        axis.invert_yaxis()
        axis.margins(y=0.01)
        axis.set_xscale("log")
        axis.set_xlabel(label)
        axis.legend(loc="lower right", fontsize=7)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def compare(values, spread):
    """Prints all, and returns the names of those that are slower by more than both spreads together."""
    then = stored.load(NAME)
    print(f"commit {then['about']['commit']}, {then['about']['date']}; ratio: now to then")
    slower = []
    for name, figure in figures().items():
        now, before = values.get(name), then["figures"].get(name)
        if now is None or before is None:
            print(f"{name:<62} only {'then' if now is None else 'now'}")
            continue
        changed = f"{now / before:8.2f}" if before else " " * 8
        print(f"{name:<62} {figure.text(before):>10} {figure.text(now):>10} {changed}")
        if before and figure.slower(now, before) > 1 + then["spread"].get(name, 0) + spread[name]:
            slower.append(name)
    print("slower by more than the spread: " + (", ".join(slower) or "nothing"))
    return slower


def render(told, values, spread):
    plot(values, stored.RESULTS / f"{NAME}.svg")
    (stored.RESULTS / f"{NAME}.md").write_text(page(told, values))
    if faults := behind(values, spread):
        raise SystemExit("behind the published figure, and the row says no reason: " + "; ".join(faults))


def write():
    told = stored.about()
    values, spread = measure()
    stored.store(NAME, told, {name: float(f"{value:.4g}") for name, value in values.items()},
                 spread={name: round(value, 3) for name, value in spread.items()})
    render(told, values, spread)
    tell(bench="msg", case="page", written=str((stored.RESULTS / f"{NAME}.md").relative_to(ROOT)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--render", action="store_true")
    args = parser.parse_args()
    if args.compare:
        sys.exit(1 if compare(*measure()) else 0)
    if args.render:
        then = stored.load(NAME)
        return render(then["about"], then["figures"], then["spread"])
    write()


if __name__ == "__main__":
    main()
