"""Starts the real program and a real PostgreSQL for the tests, and takes them down."""
import contextlib
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from certificates import Authority
from cluster import Postgres, free_port
from http1 import Connection

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLUICE = os.environ.get("SLUICE", str(ROOT / "build/dev/sluice"))
FILMS_GENERATE = os.environ.get("FILMS_GENERATE", str(ROOT / "build/dev/examples/films_generate"))
IO = os.environ.get("SLUICE_TEST_IO")  # [server] io of the servers that tests configure: "epoll", "uring"
FILMS = ROOT / "examples/films"
ROWS = 3000


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


class Server:
    """One running `sluice serve`."""

    def __init__(self, config, folder, environment, port, admin_port, limits=(), program=None):
        self.port, self.admin_port = port, admin_port
        self.terminated = False  # SIGTERM was sent; a second one may end the program without draining
        self.judged = False  # the exit status has been checked
        self.log_path = folder / f"log-{port}"
        self.log_file = open(self.log_path, "wb")
        limited = ["prlimit", *(f"--{name}={most}:{most}" for name, most in limits.items())] if limits else []
        self.process = subprocess.Popen([*limited, program or SLUICE, "serve", str(config)], cwd=folder, stdout=self.log_file,
                                        stderr=subprocess.STDOUT, env={**os.environ, **environment})

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def connect(self, timeout=20, source="127.0.0.1"):
        return Connection(self.port, timeout, source)

    def get(self, target, *fields, method="GET"):
        with self.connect() as connection:
            return connection.get(target, *fields, method=method)

    def admin(self, path):
        """(status, body) of the admin listener; (0, "") if nothing listens there."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def sample(self, name):
        """The value of a metric; `name` includes its labels, if any."""
        status, text = self.admin("/metrics")
        assert status == 200
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M).group(1))

    def wait(self, path="/readyz", seconds=15):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, f"sluice ended with {self.process.returncode}:\n{self.log}"
            if self.admin(path)[0] == 200:
                return self
            time.sleep(0.02)
        raise AssertionError(f"{path} was not 200 within {seconds} s:\n{self.log}")

    def terminate(self):
        if not self.terminated:
            self.terminated = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self, seconds=15):
        """Sends SIGTERM; the program must drain and exit with 0."""
        self.judged = True
        self.terminate()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"sluice did not stop within {seconds} s of SIGTERM:\n{self.log}") from None
        finally:
            self.log_file.close()
        assert code == 0, f"sluice ended with {code}:\n{self.log}"

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log_file.close()


@contextlib.contextmanager
def servers(folder, patience=15):
    """The function that the fixture sluice describes."""
    running = []

    def start(config="", server="", file=None, env=None, ready="/readyz", limits=None, program=None):
        port, admin_port = free_port(), free_port()
        if file is None:
            file = folder / f"sluice-{port}.toml"
            io = f'io = "{IO}"\n' if IO and not re.search(r"^io\s*=", server, re.M) else ""
            file.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\n{io}{server}\n'
                            f'[admin]\nlisten = "127.0.0.1:{admin_port}"\n{config}\n')
        environment = {"LISTEN": f"127.0.0.1:{port}", "ADMIN": f"127.0.0.1:{admin_port}", **(env or {})}
        started = Server(file, folder, environment, port, admin_port, limits or (), program)
        started.file = file
        running.append(started)
        return started.wait(ready, patience)

    yield start
    try:
        for each in running:
            if not each.judged:
                each.stop()
    finally:
        for each in running:
            each.kill()


@pytest.fixture
def sluice(tmp_path):
    """sluice(config, server="", file=None, env={}, ready="/readyz", limits={}, program=None) starts the program and waits until it
    is ready.

    `config` follows [server] and [admin], which the fixture writes; `server` adds keys to [server]. `file` is a whole configuration
    instead, which reads LISTEN and ADMIN from the environment. `limits` are prlimit's: {"nofile": 160}. All programs are stopped at
    the end of the test.
    """
    with servers(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def module_sluice(tmp_path_factory):
    """As sluice(); the programs are stopped at the end of the file."""
    with servers(tmp_path_factory.mktemp("servers"), 60) as start:
        yield start


def database_with(request, folder, statements):
    """The URL of a database in which the statements have run; `request.param` is "sqlite" or "postgres"."""
    if request.param == "sqlite":
        database = sqlite3.connect(folder / "main.db", isolation_level=None)
        for statement in statements:
            database.execute(statement)
        database.close()
        return f"sqlite:{folder}/main.db"
    postgres = request.getfixturevalue("postgres")
    postgres.psql("; ".join(statements))
    return postgres.url()


def queried_database(request, folder, statements):
    """As database_with(), and a function that returns a query's rows as texts."""
    url = database_with(request, folder, statements)

    def of_sqlite(sql):
        database = sqlite3.connect(folder / "main.db", timeout=10, isolation_level=None)
        try:
            return [tuple(str(value) for value in row) for row in database.execute(sql)]
        finally:
            database.close()

    def of_postgres(sql):
        return [tuple(line.split("|")) for line in request.getfixturevalue("postgres").psql(sql).decode().splitlines()]
    return url, of_sqlite if request.param == "sqlite" else of_postgres


@pytest.fixture(scope="session")
def postgres():
    cluster = Postgres()
    try:
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture
def own_postgres():
    """A cluster that the test may stop."""
    cluster = Postgres()
    try:
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="session")
def films_sqlite(tmp_path_factory):
    """The path of a SQLite file with ROWS films."""
    path = tmp_path_factory.mktemp("films") / "films.db"
    subprocess.run([FILMS_GENERATE, "--rows", str(ROWS), "--sqlite", str(path)], check=True)
    return path


@pytest.fixture(scope="session")
def films_postgres(postgres):
    """The URL of a database with the same films."""
    script = subprocess.run([FILMS_GENERATE, "--rows", str(ROWS), "--sql"], check=True, capture_output=True).stdout
    postgres.psql("CREATE DATABASE films")
    postgres.psql(script, "films")
    return postgres.url("films")


@pytest.fixture
def small_sqlite(tmp_path):
    """The path of a SQLite file with numbers(n, text): 1 to 1000."""
    path = tmp_path / "small.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY, text TEXT)")
        database.executemany("INSERT INTO numbers VALUES (?, ?)", [(n, f"number {n}") for n in range(1, 1001)])
    database.close()
    return path


@pytest.fixture
def site(tmp_path):
    """A folder with files to serve."""
    root = tmp_path / "site"
    root.mkdir()
    (root / "hello.txt").write_bytes(b"Hello, world.\n")
    (root / "big.bin").write_bytes(bytes(range(256)) * 40_000)
    return root


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="session")
def localhost(authority):
    return authority.issue("localhost", ["localhost", "127.0.0.1"])
