"""Starting and stopping, readiness, metrics and logs."""
import datetime
import json
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import pytest

from cluster import free_port
from conftest import SLUICE, until
from http1 import Broken, Connection


@pytest.fixture
def files(site):
    return f'[[files]]\npath = "/"\nroot = "{site}"\n'


def test_version_and_help():
    version = subprocess.run([SLUICE, "--version"], capture_output=True, text=True)
    assert version.returncode == 0 and re.search(r"\d+\.\d+\.\d+", version.stdout)
    usage = subprocess.run([SLUICE, "--help"], capture_output=True, text=True)
    assert usage.returncode == 0 and "serve" in usage.stdout and "check" in usage.stdout
    assert subprocess.run([SLUICE, "no-such-command"], capture_output=True).returncode != 0


def test_the_banner_names_the_addresses(sluice, files):
    server = sluice(files)
    assert f"127.0.0.1:{server.port}" in server.log
    assert f"127.0.0.1:{server.admin_port}" in server.log


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "[::]"])
def test_the_banner_names_something_to_open(sluice, tmp_path, files, host):
    port, admin_port = free_port(), free_port()
    file = tmp_path / "wildcard.toml"
    file.write_text(f'[server]\nlisten = ["{host}:{port}"]\n[admin]\nlisten = "127.0.0.1:{admin_port}"\n{files}')
    with subprocess.Popen([SLUICE, "serve", str(file)], stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()
            assert process.stdout.readline().split() == ["serving", f"http://localhost:{port}/"]
            with urllib.request.urlopen(f"http://localhost:{port}/hello.txt", timeout=10) as answer:
                assert answer.status == 200
        finally:
            process.terminate()


def ask_unix(path, target="/hello.txt"):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".encode())
        return client.makefile("rb").read()


@pytest.fixture
def beside(tmp_path, files):
    """A configuration in its own folder, with sockets beside it; sluice runs in another folder."""
    folder = tmp_path / "etc"
    folder.mkdir()
    file = folder / "sluice.toml"
    file.write_text(f'[server]\nlisten = ["unix:web.sock"]\ngrace = "1m"\n[admin]\nlisten = "unix:admin.sock"\n{files}')
    return file


def start_beside(file, cwd):
    process = subprocess.Popen([SLUICE, "serve", str(file)], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
    for _ in range(3):  # after the banner all cores run
        process.stdout.readline()
    return process


def test_a_relative_socket_is_beside_the_configuration(tmp_path, beside):
    with start_beside(beside, tmp_path) as process:
        try:
            assert ask_unix(beside.parent / "web.sock").startswith(b"HTTP/1.1 200 ")
            assert ask_unix(beside.parent / "admin.sock", "/livez").startswith(b"HTTP/1.1 200 ")
            taken = subprocess.run([SLUICE, "serve", str(beside)], cwd=tmp_path, capture_output=True, text=True,
                                   timeout=20)
            assert taken.returncode == 1 and f"unix:{beside.parent}/web.sock" in taken.stderr
            assert ask_unix(beside.parent / "web.sock").startswith(b"HTTP/1.1 200 ")
        finally:
            process.terminate()
        assert process.wait(20) == 0
    assert sorted(os.listdir(beside.parent)) == ["sluice.toml"]


def test_a_socket_path_that_is_too_long_is_refused(tmp_path, files):
    folder = tmp_path / ("f" * 100)
    folder.mkdir()
    file = folder / "sluice.toml"
    file.write_text(f'[server]\nlisten = ["unix:web.sock"]\n{files}')
    failed = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=20)
    assert failed.returncode == 3
    assert "sluice.toml:2:11" in failed.stderr and f"{folder}/web.sock" in failed.stderr


def test_a_second_sigterm_ends_it_and_leaves_no_socket(tmp_path, beside):
    with start_beside(beside, tmp_path) as process, socket.socket(socket.AF_UNIX) as busy:
        try:
            busy.connect(str(beside.parent / "web.sock"))
            busy.sendall(b"GET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n")
            assert busy.recv(1)
            process.terminate()
            with pytest.raises(ConnectionError):
                while True:
                    ask_unix(beside.parent / "web.sock")
            assert process.poll() is None  # it drains, because the answer has not been read
            process.terminate()
            assert process.wait(20) == -signal.SIGTERM
        finally:
            process.kill()
    assert sorted(os.listdir(beside.parent)) == ["sluice.toml"]


def is_served(server):
    try:
        return server.get("/hello.txt").status == 200
    except (OSError, Broken):
        return False


def test_sigterm_finishes_what_runs_and_accepts_nothing_new(sluice, files):
    server = sluice(files)
    with server.connect() as idle, server.connect() as busy:
        assert idle.get("/hello.txt").status == 200
        busy.send("GET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n")
        assert busy.socket.recv(1000, socket.MSG_PEEK)
        server.terminate()
        idle.assert_closed()
        end = time.monotonic() + 2  # each core stops at its own time
        while is_served(server) or server.admin("/readyz")[0] == 200:
            assert time.monotonic() < end, "new requests are still answered"
            time.sleep(0.01)
        assert server.process.poll() is None
        answer = busy.read()
        assert answer.status == 200 and answer.body == bytes(range(256)) * 40_000
        busy.assert_closed()
    server.stop()


def test_a_new_connection_has_time_for_its_first_request_while_the_server_drains(sluice, files):
    server = sluice(files, server="cores = 1")
    with server.connect() as idle, server.connect() as new:
        assert idle.get("/hello.txt").status == 200
        until(lambda: server.sample("sluice_connections_open") == 2)
        server.terminate()
        idle.assert_closed()
        answer = new.get("/hello.txt")
        assert answer.status == 200 and answer.get("Connection") == "close"
    server.stop()


def serves_while_it_leaves(server):
    """SIGTERM with drain_delay: not ready, but new connections are served and kept."""
    server.terminate()
    until(lambda: server.admin("/readyz")[0] == 503)
    assert "draining" in server.admin("/readyz")[1]
    client = server.connect()
    for _ in range(2):
        answer = client.get("/hello.txt")
        assert answer.status == 200 and answer.get("Connection") is None
    return client


def test_drain_delay_serves_and_is_not_ready(sluice, files):
    server = sluice(files, server='drain_delay = "3s"')
    with serves_while_it_leaves(server) as client:
        client.assert_closed()  # the drain begins
    server.stop()
    assert "; it still accepts requests for 3 s; then requests that run have 10 s to end\n" in server.log


def test_a_second_sigterm_ends_drain_delay(sluice, files):
    server = sluice(files, server='drain_delay = "1h"')
    with serves_while_it_leaves(server) as client:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == -signal.SIGTERM
        client.assert_closed()
    server.judged = True


def test_the_grace_period_ends(sluice, files):
    server = sluice(files, server='grace = "500ms"')
    with server.connect() as connection:
        connection.send("GET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n")
        assert connection.socket.recv(1000)
        start = time.monotonic()
        server.stop()
        assert time.monotonic() - start < 5
        with pytest.raises(Broken):
            while True:
                connection._more()


def test_a_port_that_is_taken_ends_it(tmp_path, files):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        file = tmp_path / "sluice.toml"
        file.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\n[admin]\nlisten = "127.0.0.1:{free_port()}"\n'
                        + files)
        run = subprocess.run([SLUICE, "serve", str(file)], capture_output=True, text=True, timeout=10)
    assert run.returncode not in (0, 3) and run.returncode > 0
    assert str(port) in run.stderr + run.stdout


def test_admin_probes(sluice, files):
    server = sluice(files)
    assert server.admin("/livez")[0] == 200
    assert server.admin("/readyz")[0] == 200
    assert server.admin("/nothing")[0] == 404
    assert server.get("/livez").status == 404  # not on the public listener


def test_readiness_is_the_database(sluice, own_postgres):
    server = sluice(f'''
[database.main]
url = "{own_postgres.url()}"
[[endpoint]]
path = "/one"
get = "SELECT 1 AS one"
''')
    assert json.loads(server.get("/one").body) == [{"one": 1}]
    own_postgres.stop("immediate")
    assert server.admin("/readyz")[0] == 503
    assert server.admin("/livez")[0] == 200
    own_postgres.start()
    server.wait("/readyz")


def read_metrics(server):
    """{name with labels: value}. Every line must be valid, and the samples of a family must be contiguous."""
    status, text = server.admin("/metrics")
    assert status == 200
    samples, families = {}, []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            assert line.split()[2] not in families, "a family in two places"
            families.append(line.split()[2])
        if line and not line.startswith("#"):
            sample = re.fullmatch(r'([a-zA-Z_:][\w:]*)(\{(?:\w+="(?:[^"\\]|\\.)*",?)*\})? ([-+0-9.eEInfNa]+)', line)
            assert sample, f"not Prometheus text: {line!r}"
            assert sample.group(1).startswith(families[-1])
            samples[sample.group(1) + (sample.group(2) or "")] = float(sample.group(3))
    return samples


def test_metrics_of_requests_that_are_refused(sluice, files):
    server = sluice(files, server='body_limit = "1KiB"')
    for request, status in (("GET / HTTP/1.1\r\n\r\n", 400), ("nonsense\r\n\r\n", 400),
                            (f"PUT /{'a' * 9000} HTTP/1.1\r\nHost: a\r\n\r\n", 414),
                            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n", 413)):
        with server.connect() as connection:
            connection.send(request)
            assert connection.read().status == status
    samples = read_metrics(server)
    for method, status in (("GET", 400), ("_OTHER", 400), ("PUT", 414), ("POST", 413)):
        labels = f'{{http_request_method="{method}",http_response_status_code="{status}",url_scheme="http"}}'
        assert samples["http_server_request_duration_seconds_count" + labels] == 1, samples


def test_metrics_of_the_databases(sluice, small_sqlite, postgres):
    server = sluice(f'''
[database.file]
url = "sqlite:{small_sqlite}"
[database.main]
url = "{postgres.url()}"
[[endpoint]]
database = "main"
path = "/nap"
get = "SELECT pg_sleep(60)"
[[endpoint]]
database = "main"
path = "/one"
get = "SELECT 1 AS one"
[[endpoint]]
database = "file"
path = "/numbers/{{n:int}}"
get = "SELECT n FROM numbers WHERE n = :n"
[[endpoint]]
database = "file"
path = "/numbers"
get = "SELECT n FROM numbers"
''', server="cores = 1")
    for _ in range(3):
        assert server.get("/numbers/7").status == server.get("/one").status == 200
    assert server.get("/numbers").status == 200
    with server.connect() as napping:
        napping.send("GET /nap HTTP/1.1\r\nHost: test\r\n\r\n")
        end = time.monotonic() + 10
        while True:
            samples = read_metrics(server)
            used = samples['db_client_connection_count{db_client_connection_pool_name="main",'
                           'db_client_connection_state="used"}']
            active = samples['http_server_active_requests{http_request_method="GET",url_scheme="http"}']
            if (used, active) == (1, 1):
                break
            assert time.monotonic() < end, (used, active)
        assert samples["sluice_connections_open"] >= 1
    assert samples['db_client_connection_max{db_client_connection_pool_name="main"}'] == 8
    assert samples['db_client_connection_pending_requests{db_client_connection_pool_name="main"}'] == 0
    assert samples['sluice_postgres_connections_opened_total{database="main"}'] >= 1
    assert samples['sluice_sqlite_look_ups_total{database="file"}'] == 3
    assert samples['sluice_sqlite_scans_total{database="file"}'] == 1
    assert 1 <= samples['sluice_sqlite_transactions_total{database="file"}'] <= 3
    end = time.monotonic() + 10
    while True:  # until the server has cancelled the statement of the client that left
        samples = read_metrics(server)
        if (samples['sluice_postgres_cancels_total{database="main"}'] == 1 and
                samples['http_server_active_requests{http_request_method="GET",url_scheme="http"}'] == 0):
            break
        assert time.monotonic() < end, samples


def test_metrics(sluice, small_sqlite):
    server = sluice(f'''
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/numbers/{{n:int}}"
returns = "object"
get = "SELECT n FROM numbers WHERE n = :n"
''')
    for n in range(1, 8):
        assert server.get(f"/numbers/{n}").status == 200
    assert server.get("/numbers/5000").status == 404
    samples = read_metrics(server)
    counted = {key: value for key, value in samples.items()
               if key.startswith("http_server_request_duration_seconds_count")}
    found = [value for key, value in counted.items()
             if 'http_route="/numbers/{n:int}"' in key and 'http_response_status_code="200"' in key]
    assert sum(found) == 7, counted
    assert any(key.startswith("http_server_request_duration_seconds_bucket") and 'le="+Inf"' in key for key in samples)


def test_the_access_log_is_json_lines(sluice, files):
    server = sluice(files, server='cores = 1\naccess_log = "stdout"')
    before = time.time()
    body = server.get("/hello.txt?a=\"b\\", "User-Agent: it's \"one\"").body
    assert server.get("/hello.txt", method="HEAD").status == 200
    missing = server.get("/nothing")
    with server.connect() as connection:
        connection.send("nonsense\r\n\r\n")
        refused = connection.read()
    after = time.time()
    server.stop()
    lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    for line in lines:
        written = line.pop("time")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", written)
        assert before - 60 < datetime.datetime.fromisoformat(written).timestamp() < after + 60
        assert isinstance(line["duration_us"], int) and 0 <= line.pop("duration_us") <= (after - before) * 1e6
    client = {"client": "127.0.0.1"}
    asked = {**client, "method": "GET", "host": "test", "user_agent": ""}
    assert lines == [
        {**asked, "target": "/hello.txt?a=\"b\\", "user_agent": "it's \"one\"", "route": "/", "status": 200,
         "bytes": len(body)},
        {**asked, "method": "HEAD", "target": "/hello.txt", "route": "/", "status": 200, "bytes": 0},
        {**asked, "target": "/nothing", "route": "/", "status": 404, "bytes": len(missing.body)},
        {**client, "status": 400, "bytes": len(refused.body)}]


def test_the_access_log_has_standard_output_for_itself(sluice, files):
    first = sluice(files, server='access_log = "stdout"')
    first.stop()
    with subprocess.Popen([SLUICE, "serve", str(first.file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first.process = process
        first.wait()
        process.terminate()
        output, errors = process.communicate(timeout=15)
    assert output == b"" and errors.startswith(b"sluice ")


def test_the_access_log_is_off_by_default(sluice, files):
    server = sluice(files)
    assert server.get("/hello.txt").status == 200
    server.stop()
    assert "hello.txt" not in server.log


def test_a_sqlite_statement_that_takes_too_long_is_504(sluice, small_sqlite):
    server = sluice(f'''
[database.main]
url = "sqlite:{small_sqlite}"
statement_timeout = "300ms"
[[endpoint]]
path = "/endless"
get = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) AS n FROM c"
[[endpoint]]
path = "/patient"
timeout = "1s"
get = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) AS n FROM c"
[[endpoint]]
path = "/numbers"
get = "SELECT n FROM numbers"
''')
    start = time.monotonic()
    assert server.get("/endless").status == 504
    assert time.monotonic() - start >= 0.3
    start = time.monotonic()
    assert server.get("/patient").status == 504
    assert time.monotonic() - start >= 1
    assert server.get("/numbers").status == 200


def test_it_ends_in_order_where_there_is_no_memory_left(sluice, small_sqlite):
    server = sluice(f'[database.main]\nurl = "sqlite:{small_sqlite}"\n[[endpoint]]\npath = "/numbers"\nget = "SELECT n FROM numbers"\n',
                    server="cores = 2")
    assert server.get("/numbers").status == 200
    status = open(f"/proc/{server.process.pid}/status").read()
    taken = int(re.search(r"^VmSize:\s+(\d+) kB", status, re.M).group(1)) * 1024
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (taken, taken))
    server.stop()  # exits with 0, not by a signal


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_log_that_nobody_reads_delays_nothing(tmp_path, site, stream):
    """Requests, signals and reloads do not wait for the reader of a log. Dropped lines are counted, and reported when it reads again."""
    port, admin_port = free_port(), free_port()
    file = tmp_path / "stalled.toml"
    file.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\naccess_log = "stdout"\n[admin]\nlisten = "127.0.0.1:{admin_port}"\n'
                    f'[[files]]\npath = "/"\nroot = "{site}"\n')
    read, write = os.pipe()
    os.set_blocking(write, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(write, b" " * 4096)
    os.set_blocking(write, True)
    other = tmp_path / "other"
    with other.open("wb") as other_file:
        process = subprocess.Popen([SLUICE, "serve", str(file)], **{"stdout": other_file, "stderr": other_file, stream: write})
    os.close(write)

    def ask(path):
        assert process.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}{path}", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def sample(name):
        return int(re.search(rf"^{re.escape(name)} (\d+)$", ask("/metrics"), re.M)[1])

    try:
        until(lambda: ask("/livez"))
        with Connection(port) as client:
            for _ in range(1200):  # more than the buffer holds
                assert client.get("/hello.txt", f"User-Agent: {'a' * 1000}").status == 200
            process.send_signal(signal.SIGHUP)
            until(lambda: sample('sluice_reloads_total{result="done"}') == 1)
            dropped = sample('sluice_log_lines_dropped_total{log="stdout"}')
            assert (dropped > 0) == (stream == "stdout")
            assert ask("/livez") == "live\n"
            if stream == "stdout":
                reader = threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(read, 65536), b"")])
                reader.start()
                until(lambda: f"standard output was not read for a time: {dropped} lines were dropped\n" in other.read_text())
            assert client.get("/hello.txt").status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        if stream == "stdout":
            reader.join()
        os.close(read)


def test_standard_streams_may_be_closed(tmp_path, site):
    """The log of a program without standard streams does not go into one of its connections."""
    port, admin_port = free_port(), free_port()
    file = tmp_path / "closed.toml"
    file.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\naccess_log = "stdout"\n[admin]\nlisten = "127.0.0.1:{admin_port}"\n'
                    f'[[files]]\npath = "/"\nroot = "{site}"\n')
    process = subprocess.Popen(["sh", "-c", f'exec "{SLUICE}" serve "{file}" <&- >&- 2>&-'])
    try:
        until(lambda: process.poll() is None and listens(port))
        assert {os.readlink(f"/proc/{process.pid}/fd/{one}") for one in range(3)} == {"/dev/null"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_an_address_in_use_says_who_has_it(sluice, tmp_path, files):
    server = sluice(files)
    second = tmp_path / "second.toml"
    second.write_text(f'[server]\nlisten = ["127.0.0.1:{server.port}"]\n{files}')
    done = subprocess.run([SLUICE, "serve", str(second)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stderr == (f"sluice: cannot listen on 127.0.0.1:{server.port}: Address already in use "
                           f"(by sluice, process {server.process.pid})\n")


def test_the_end_is_logged_with_its_cause(sluice, files):
    server = sluice(files)
    server.stop()
    assert f"sluice: stops: SIGTERM from process {os.getpid()}; requests that run have 10 s to end\n" in server.log
