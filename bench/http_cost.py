"""What one HTTP request costs the server that answers it."""
import pathlib
import re
import subprocess
import tempfile

import harness
from harness import counters_work
from http_clients import wrk

_counters = None


def cost_of(program, load):
    """Returns load()'s result, with the program's CPU microseconds a request and, where they can be counted, its instructions.
    Begins again, twice at most, if the client does not end (h2load 1.52 on a busy machine)."""
    for _ in range(2):
        try:
            return _cost_of(program, load)
        except subprocess.TimeoutExpired:
            harness.tell(client="did not end, begins again", server=program.name)
    return _cost_of(program, load)


def _cost_of(program, load):
    global _counters
    if _counters is None:
        _counters = counters_work()
    with tempfile.NamedTemporaryFile("r") as output:
        counting = None
        if _counters:
            counting = subprocess.Popen(["perf", "stat", "-x,", "-e", "instructions:u,instructions:k", "-o", output.name,
                                         "-p", ",".join(map(str, program.pids))])
        before = program.cpu_seconds()
        result = load()
        spent = program.cpu_seconds() - before
        if counting:
            counting.send_signal(2)  # perf writes its counts when it is interrupted
            counting.wait()
            counted = {kind: int(value) for value, kind in
                       re.findall(r"^(\d+),[^,]*,instructions:([uk])", output.read(), re.M)}
            result["instructions_user"] = round(counted["u"] / result["requests"])
            result["instructions_kernel"] = round(counted["k"] / result["requests"])
    result["cpu_us"] = 1e6 * spent / result["requests"]
    if "megabytes" in result:
        result["cpu_us_per_mb"] = 1e6 * spent / result["megabytes"]
    return result


def measure(program, target, connections=100, seconds=3, core=1, threads=1):
    return cost_of(program, lambda: wrk(program.port, target, connections, seconds, threads, core))


class Counted:
    """A program under callgrind. `start` starts it; its files lie in a folder below `where`."""

    def __init__(self, start, where):
        self.dumps = pathlib.Path(tempfile.mkdtemp(prefix="callgrind-", dir=where))
        harness.under = ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes", "--collect-systime=yes",
                         f"--callgrind-out-file={self.dumps}/out.%p"]
        try:
            self.program = start()
        finally:
            harness.under = []

    def count(self, load, seconds):
        """Instructions in user space and system calls of one request; load(program, seconds) returns its result."""
        self._control("-z")
        requests = load(self.program, seconds)["requests"]
        self._control("-d")
        instructions = calls = 0
        for file in self.dumps.glob("out.*.*"):
            events = re.search(r"^events: (.*)$", text := file.read_text(), re.M)[1].split()
            values = dict(zip(events, map(int, re.search(r"^(?:totals|summary): (.*)$", text, re.M)[1].split())))
            instructions += values["Ir"]
            calls += values.get("sysCount", 0)
            file.unlink()
        return {"instructions": instructions / requests, "calls": calls / requests}

    def _control(self, option):
        for pid in self.program.pids:
            subprocess.run(["callgrind_control", option, str(pid)], capture_output=True)


def instructions(start, where, load):
    """Instructions in user space of one request: start() returns the program, load(program, seconds) its result."""
    counted = Counted(start, where)
    load(counted.program, 1)
    found = counted.count(load, 3)
    counted.program.stop()
    return round(found["instructions"])
