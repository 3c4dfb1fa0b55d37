"""The clients that load servers. Each function runs its client once and returns a dict with at least `requests`, `rps`, `mb_s` (of
bodies, or of all bytes where the client counts so) and `errors`; latency() sends one request after the other."""
import json
import re
import subprocess

from harness import BUILD
from http_servers import CIPHER

_SIZES = {"B": 1e-6, "K": 1.024e-3, "M": 1.048576, "G": 1073.741824}


def _run(command, core):
    pin = [] if core is None else ["taskset", "-c", str(core)]
    run = subprocess.run([*pin, *map(str, command)], capture_output=True, text=True)
    return run.stdout, f"{command[0]} got no answer: {(run.stdout + run.stderr)[-500:]}"


def wrk(port, target="/", connections=100, seconds=3, threads=1, core=None, script=None, fields=()):
    """HTTP/1.1 without TLS."""
    command = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--latency"]
    command += ["-s", script] if script else []
    for field in fields:
        command += ["-H", field]
    text, complaint = _run([*command, f"http://127.0.0.1:{port}{target}"], core)
    found = re.search(r"(\d+) requests in", text)
    if not found or int(found.group(1)) == 0:
        raise SystemExit(complaint)
    rate, unit = re.search(r"Transfer/sec:\s+([\d.]+)([BKMG])", text).groups()
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    result = {"requests": int(found.group(1)), "rps": float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)),
              "mb_s": float(rate) * _SIZES[unit],
              "p99": re.search(r"^\s+99%\s+(\S+)", text, re.M).group(1),
              "socket_errors": dict(zip(("connect", "read", "write", "timeout"),
                                        map(int, errors.groups() if errors else (0, 0, 0, 0)))),
              "not_2xx": int(bad.group(1)) if bad else 0}
    result["errors"] = sum(result["socket_errors"].values()) + result["not_2xx"]
    return result


def h2load(port, target="/", connections=100, seconds=3, streams=1, http1=False, tls=True, core=None):
    """HTTP/2 or HTTP/1.1 keep-alive over TLS 1.3; without TLS, HTTP/2 by prior knowledge."""
    text, complaint = _run(["h2load", f"-c{connections}", f"-m{streams}", f"-D{seconds}", f"--tls13-ciphers={CIPHER}",
                            *(["--h1"] if http1 else []), f"http{'s' if tls else ''}://127.0.0.1:{port}{target}"], core)
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
            "errors": int(done.group(3)) + int(done.group(4))}


def drain(port, target="/", connections=8, seconds=3, core=None):
    """HTTP/1.1 without TLS by drain.cc, for large files."""
    text, complaint = _run([BUILD / "bench/drain", port, target, connections, seconds], core)
    if not text:
        raise SystemExit(complaint)
    figures = json.loads(text)
    return {"requests": figures["requests"], "rps": figures["requests"] / figures["seconds"],
            "mb_s": figures["bytes"] / 1e6 / figures["seconds"], "megabytes": figures["bytes"] / 1e6,
            "errors": figures["failed"]}


def latency(port, target="/", warm_up=100, requests=1000, core=None, fields=()):
    """One keep-alive connection by latency.cc, one request after the other: `latencies_us` of each, the `bytes` of the body, which
    all answers share, and its content `coding`. Any failure ends the benchmark."""
    pin = [] if core is None else ["taskset", "-c", str(core)]
    command = [*pin, BUILD / "bench/latency", port, target, warm_up, requests, *fields]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{target}: {run.stderr}")
    return json.loads(run.stdout)
