"""The clients that load servers. Each function runs its client once and returns a dict with at least `requests`, `rps`, `mb_s` (of
bodies, or of all bytes where the client counts so) and `errors`; most also return the latencies that LATENCIES names, in
microseconds. latency() sends one request after the other."""
import json
import re
import subprocess
import tempfile

from harness import BUILD
from http_servers import CIPHER
from percentiles import percentile

LATENCIES = ("mean_us", "p50_us", "p75_us", "p90_us", "p99_us", "max_us")

_SIZES = {"B": 1e-6, "K": 1.024e-3, "M": 1.048576, "G": 1073.741824}
_TIME = r"([\d.]+[a-z]+)"
_MICROSECONDS = {"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6}


def _run(command, core, most_seconds=None):
    pin = [] if core is None else ["taskset", "-c", str(core)]
    run = subprocess.run([*pin, *map(str, command)], capture_output=True, text=True, timeout=most_seconds)
    return run.stdout, f"{command[0]} got no answer: {(run.stdout + run.stderr)[-500:]}"


def _latencies(values):
    ascending = sorted(values)
    return {"mean_us": sum(ascending) / len(ascending), "max_us": ascending[-1],
            **{f"p{percent}_us": percentile(ascending, percent) for percent in (50, 75, 90, 99)}}


def _microseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)([a-z]+)", text).groups()
    return float(number) * _MICROSECONDS[unit]


def wrk(port, target="/", connections=100, seconds=3, threads=1, core=None, script=None, fields=(), host="127.0.0.1"):
    """HTTP/1.1 without TLS."""
    command = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--latency"]
    command += ["-s", script] if script else []
    for field in fields:
        command += ["-H", field]
    text, complaint = _run([*command, f"http://{host}:{port}{target}"], core)
    found = re.search(r"(\d+) requests in", text)
    if not found or int(found.group(1)) == 0:
        raise SystemExit(complaint)
    rate, unit = re.search(r"Transfer/sec:\s+([\d.]+)([BKMG])", text).groups()
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    result = {"requests": int(found.group(1)), "rps": float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)),
              "mb_s": float(rate) * _SIZES[unit],
              "socket_errors": dict(zip(("connect", "read", "write", "timeout"),
                                        map(int, errors.groups() if errors else (0, 0, 0, 0)))),
              "not_2xx": int(bad.group(1)) if bad else 0}
    mean, _, longest = re.search(rf"^\s+Latency\s+{_TIME}\s+{_TIME}\s+{_TIME}", text, re.M).groups()
    result |= {"mean_us": _microseconds(mean), "max_us": _microseconds(longest),
               **{f"p{percent}_us": _microseconds(re.search(rf"^\s+{percent}%\s+{_TIME}", text, re.M).group(1))
                  for percent in (50, 75, 90, 99)}}
    result["errors"] = sum(result["socket_errors"].values()) + result["not_2xx"]
    return result


def h2load(port, target="/", connections=100, seconds=3, streams=1, http1=False, tls=True, core=None, latencies=False):
    """HTTP/2 or HTTP/1.1 keep-alive over TLS 1.3; without TLS, HTTP/2 by prior knowledge. `latencies`: also returns latencies, for
    which h2load writes a line for each request."""
    # h2load 1.52 sometimes does not end after its time on a busy machine.
    with tempfile.NamedTemporaryFile("r") as log:
        text, complaint = _run(["h2load", f"-c{connections}", f"-m{streams}", f"-D{seconds}", f"--tls13-ciphers={CIPHER}",
                                *(["--h1"] if http1 else []), *([f"--log-file={log.name}"] if latencies else []),
                                f"http{'s' if tls else ''}://127.0.0.1:{port}{target}"], core, seconds + 30)
        values = [int(line.split()[2]) for line in log]
    done = re.search(r"requests: \d+ total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored", text)
    if not done or int(done.group(2)) == 0:
        raise SystemExit(complaint)
    protocol = "http/1.1" if http1 else "h2" if tls else "h2c"
    for expected in (*([f"Cipher: {CIPHER}"] if tls else []), f"Application protocol: {protocol}"):
        if expected not in text:
            raise SystemExit(f"not {expected}: {text[-800:]}")
    rps = float(re.search(r"finished in \S+, ([\d.]+) req/s", text).group(1))
    body_bytes = int(re.search(r"\((\d+)\) data", text).group(1))
    return {"requests": int(done.group(1)), "rps": rps, "mb_s": body_bytes / 1e6 / seconds,
            "errors": int(done.group(3)) + int(done.group(4)), **(_latencies(values) if values else {})}


def drain(port, target="/", connections=8, seconds=3, core=None):
    """HTTP/1.1 without TLS by drain.cc, for large files."""
    text, complaint = _run([BUILD / "bench/drain", port, target, connections, seconds], core)
    if not text:
        raise SystemExit(complaint)
    return _figures(json.loads(text))


def websocket(port, connections=100, seconds=3, core=None):
    """Messages that ws_echo.cc sends and gets back, one after the other on each connection; they count as requests."""
    text, complaint = _run([BUILD / "bench/ws_echo", port, connections, seconds], core)
    if not text:
        raise SystemExit(complaint)
    return _figures(json.loads(text))


def _figures(told):
    requests, megabytes = len(told["latencies_us"]), told["bytes"] / 1e6
    return {"requests": requests, "rps": requests / told["seconds"], "mb_s": megabytes / told["seconds"], "megabytes": megabytes,
            "errors": told["failed"], **_latencies(told["latencies_us"])}


def latency(port, target="/", warm_up=100, requests=1000, core=None, fields=()):
    """One keep-alive connection by latency.cc, one request after the other: `latencies_us` of each, the `bytes` of the body, which
    all answers share, and its content `coding`. Any failure ends the benchmark."""
    pin = [] if core is None else ["taskset", "-c", str(core)]
    command = [*pin, BUILD / "bench/latency", port, target, warm_up, requests, *fields]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{target}: {run.stderr}")
    return json.loads(run.stdout)
