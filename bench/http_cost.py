"""What one HTTP request costs the server that answers it."""
import re
import subprocess
import tempfile

from harness import counters_work
from http_clients import wrk

_counters = None


def cost_of(program, load):
    """What load() gives, with CPU microseconds and, where counted, instructions a request of the program meanwhile."""
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
