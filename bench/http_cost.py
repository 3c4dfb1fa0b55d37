"""What one HTTP request costs the server that answers it."""
import re
import subprocess
import tempfile

from harness import counters_work

_counters = None


def wrk(port, target="/", connections=100, seconds=3, threads=1, core=None, script=None):
    """One run of wrk: requests, rps, p99 and errors."""
    command = [] if core is None else ["taskset", "-c", str(core)]
    command += ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--latency"]
    command += ["-s", str(script)] if script else []
    run = subprocess.run([*command, f"http://127.0.0.1:{port}{target}"], capture_output=True, text=True)
    text = run.stdout
    found = re.search(r"(\d+) requests in", text)
    if not found or int(found.group(1)) == 0:
        raise SystemExit(f"wrk got no answer from port {port}: {(text + run.stderr)[-500:]}")
    result = {"requests": int(found.group(1)), "rps": float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)),
              "p99": re.search(r"^\s+99%\s+(\S+)", text, re.M).group(1)}
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    result["socket_errors"] = dict(zip(("connect", "read", "write", "timeout"),
                                       map(int, errors.groups() if errors else (0, 0, 0, 0))))
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    result["not_2xx"] = int(bad.group(1)) if bad else 0
    return result


def measure(program, target, connections=100, seconds=3, core=1, threads=1):
    """wrk against the program: its run, CPU microseconds and, where counted, instructions a request."""
    global _counters
    if _counters is None:
        _counters = counters_work()
    with tempfile.NamedTemporaryFile("r") as output:
        counting = None
        if _counters:
            counting = subprocess.Popen(["perf", "stat", "-x,", "-e", "instructions:u,instructions:k", "-o", output.name,
                                         "-p", ",".join(map(str, program.pids)), "sleep", str(seconds + 60)])
        before = program.cpu_seconds()
        result = wrk(program.port, target, connections, seconds, threads, core)
        spent = program.cpu_seconds() - before
        if counting:
            counting.send_signal(2)  # perf writes its counts when it is interrupted
            counting.wait()
            counted = {kind: int(value) for value, kind in
                       re.findall(r"^(\d+),[^,]*,instructions:([uk])", output.read(), re.M)}
            result["instructions_user"] = round(counted["u"] / result["requests"])
            result["instructions_kernel"] = round(counted["k"] / result["requests"])
    result["cpu_us"] = 1e6 * spent / result["requests"]
    return result
