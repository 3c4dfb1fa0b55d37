"""Code that the benchmarks share: programs in temporary folders, their costs, and figures as JSON lines."""
import atexit
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from cluster import Postgres, free_port  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build/release"))
SLUICE = os.environ.get("SLUICE", str(BUILD / "sluice"))

# A shell starts background jobs with SIGINT ignored. perf and strace would inherit that, and SIGINT could not end them.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Ten thousand connections need as many descriptors, in wrk and in the servers.
_, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_most, _most))


def tell(**figures):
    print(json.dumps(figures), flush=True)


def folder():
    """A temporary folder that every user may read; removed at exit."""
    path = tempfile.mkdtemp(prefix="sluice-bench-")
    os.chmod(path, 0o755)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return pathlib.Path(path)


def postgres(*settings):
    cluster = Postgres("shared_buffers=512MB", "autovacuum=off", *settings)
    atexit.register(cluster.remove)
    return cluster


under = []  # the start of the command that runs programs, such as valgrind's


class Program:
    """A program that listens on `port`, stopped at the end of the benchmark."""
    scheme = "http"
    preloaded = {}  # more environment of Sluice's programs
    admin = None    # the port of Sluice's [admin]

    def __init__(self, name, command, port, core=None, environment=None):
        self.name, self.port = name, port
        self.log = tempfile.TemporaryFile("w+")
        pin = [] if core is None else ["taskset", "-c", str(core)]
        self.process = subprocess.Popen([*pin, *under, *map(str, command)], stdout=self.log, stderr=subprocess.STDOUT,
                                        env={**os.environ, **(environment or {}), **(self.preloaded if name == "sluice" else {})})
        atexit.register(self.stop)
        self.wait_for(port)

    def wait_for(self, port):
        """Returns when it listens on the port."""
        end = time.monotonic() + 15
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    self.log.seek(0)
                    raise SystemExit(f"{self.name} does not listen on port {port}:\n{self.log.read()}") from None
                time.sleep(0.02)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    @property
    def pids(self):
        """The program's process and its children; nginx has several."""
        return descendants(self.process.pid)

    def cpu_seconds(self):
        """The CPU time of its threads, in nanoseconds where the kernel counts so."""
        spent = 0
        for pid in self.pids:
            for task in _tasks(pid):
                fields = _read(f"/proc/{pid}/task/{task}/schedstat").split()
                spent += int(fields[0]) if fields else 0
        return spent / 1e9

    def rss_kib(self, what="VmRSS"):
        return sum(int(number) for pid in self.pids
                   for number in re.findall(rf"^{what}:\s+(\d+) kB", _read(f"/proc/{pid}/status"), re.M))

    def forget_peak(self):
        """Sets VmHWM to the current resident size (proc(5), clear_refs)."""
        for pid in self.pids:
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def descendants(pid):
    """The process and all its descendants."""
    found, new = [], [pid]
    while new:
        found += new
        new = [int(child) for parent in new for task in _tasks(parent)
               for child in _read(f"/proc/{parent}/task/{task}/children").split()]
    return found


def _read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


def _tasks(pid):
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def sluice(config, where, cores=0, core=None, port=None, server=None, server_more="", program=SLUICE):
    """Starts Sluice. `config` follows [server] and [admin]; `server` replaces [server]'s listen, `server_more` adds keys to [server]."""
    if not os.access(program, os.X_OK):
        raise SystemExit(f"there is no {program}; build it first (make build)")
    port = port or free_port()
    file = where / f"sluice-{port}.toml"
    server = server or f'listen = ["127.0.0.1:{port}"]\n'
    admin = free_port()
    file.write_text(f'[server]\n{server}{server_more}cores = {cores}\n[admin]\nlisten = "127.0.0.1:{admin}"\n{config}')
    started = Program("sluice", [program, "serve", file], port, core)
    started.admin = admin
    return started


def fetch(port, target, *options, scheme="http"):
    """(status, body) by curl, which may get more options; for checks that the measured answers are right."""
    run = subprocess.run(["curl", "-sS", "-w", "%{stderr}%{http_code}", *options, f"{scheme}://127.0.0.1:{port}{target}"],
                         capture_output=True)
    return int(run.stderr or b"0"), run.stdout


def counters_work():
    """Whether this machine counts instructions; many virtual ones do not."""
    if not shutil.which("perf"):
        return False
    run = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u,instructions:k", "true"], capture_output=True,
                         text=True)
    return run.returncode == 0 and len(re.findall(r"^\d+,[^,]*,instructions:[uk]", run.stderr, re.M)) == 2


def median(values):
    return statistics.median(values)
