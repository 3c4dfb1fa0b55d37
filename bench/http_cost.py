"""What one HTTP request costs the server that answers it."""
import re
import subprocess
import tempfile
import time

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


def instructions(start, where, load):
    """Instructions in user space of one request, by callgrind: start() returns the program, load(program, seconds) its result."""
    dumps = where / "callgrind"
    dumps.mkdir()
    harness.under = ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={dumps}/out.%p"]
    program = start()
    harness.under = []
    load(program, 1)

    def control(what):
        for pid in program.pids:
            subprocess.run(["callgrind_control", what, str(pid)], capture_output=True)

    control("-z")
    requests = load(program, 3)["requests"]
    control("-d")
    time.sleep(1)
    program.stop()
    counted = sum(int(number) for file in dumps.glob("out.*.1")
                  for number in re.findall(r"^(?:totals|summary): (\d+)", file.read_text(), re.M)[:1])
    for file in dumps.iterdir():
        file.unlink()
    dumps.rmdir()
    return round(counted / requests)
