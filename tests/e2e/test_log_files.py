"""[server] access_log and error_log: files, their rotation, and disks that are full."""
import collections
import json
import os
import re
import signal
import stat
import subprocess
import threading

import pytest

from conftest import SLUICE, until
from http1 import Connection
from skips import skip
from test_reload import reload
from websocket import TEXT, WebSocket

FILES = '[[files]]\npath = "/"\nroot = "{site}"\n'


def requests_in(*files):
    """The targets of the requests in the files, and how often each is there."""
    return targets_of(line for file in files for line in file.read_text().splitlines())


def targets_of(lines):
    return collections.Counter(json.loads(line)["target"] for line in lines)


def whole_lines(file):
    return [line for line in file.read_text().splitlines() if line.endswith("}")]


def dropped(server, log="access_log"):
    return server.sample(f'sluice_log_lines_dropped_total{{log="{log}"}}')


def test_both_logs_go_to_files(sluice, site, tmp_path):
    server = sluice(FILES.format(site=site), server='access_log = "access.log"\nerror_log = "./errors"')
    access, errors = tmp_path / "access.log", tmp_path / "errors"
    assert server.get("/hello.txt?one").status == 200
    until(lambda: "one" in access.read_text())
    line = json.loads(access.read_text())
    assert line["target"] == "/hello.txt?one" and line["status"] == 200
    umask = os.umask(0)
    os.umask(umask)
    assert [stat.S_IMODE(file.stat().st_mode) for file in (access, errors)] == [0o640 & ~umask] * 2
    assert reload(server)[0] == 200
    until(lambda: "has been read again" in errors.read_text())
    server.stop()
    assert "stops: SIGTERM" in errors.read_text()
    assert "has been read again" not in server.log and "SIGTERM" not in server.log


def test_a_file_is_appended_to(sluice, site, tmp_path):
    file = tmp_path / "access.log"
    for name in ("one", "two"):
        server = sluice(FILES.format(site=site), server='access_log = "access.log"')
        server.get("/hello.txt?" + name)
        server.stop()
    assert requests_in(file) == {"/hello.txt?one": 1, "/hello.txt?two": 1}


@pytest.mark.parametrize("again", ["SIGUSR1", "SIGHUP", "reload"])
def test_rotation_loses_no_line(sluice, site, tmp_path, again):
    server = sluice(FILES.format(site=site), server='cores = 2\naccess_log = "access.log"')
    current = tmp_path / "access.log"
    ends, made = threading.Event(), collections.Counter()

    def ask(client):
        with Connection(server.port, 20) as connection:
            while not ends.is_set():
                target = f"/hello.txt?{client}-{made[client]}"
                assert connection.get(target).status == 200
                made[client] += 1

    clients = [threading.Thread(target=ask, args=(client,)) for client in range(4)]
    for client in clients:
        client.start()
    rotated = []
    try:
        for number in range(5):
            count = sum(made.values())
            until(lambda: sum(made.values()) > count + 50)
            rotated.append(current.rename(tmp_path / f"access.log.{number}"))
            if again == "reload":
                assert reload(server)[0] == 200
            else:
                server.process.send_signal(signal.Signals[again])
            until(lambda: current.exists() and current.stat().st_size > 0)
    finally:
        ends.set()
        for client in clients:
            client.join()
    server.stop()
    assert len(rotated) == 5 and all(file.stat().st_size > 0 for file in rotated)
    assert requests_in(current, *rotated) == {f"/hello.txt?{client}-{number}": 1 for client in range(4) for number in range(made[client])}


def test_sigusr1_keeps_a_file_that_cannot_be_opened_again(sluice, site, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    server = sluice(FILES.format(site=site), server='access_log = "logs/access.log"')
    folder.rename(tmp_path / "moved")
    server.process.send_signal(signal.SIGUSR1)
    until(lambda: f"{folder}/access.log: No such file or directory; the log is written to the file that was open" in server.log)
    server.get("/hello.txt?kept")
    until(lambda: requests_in(tmp_path / "moved/access.log") == {"/hello.txt?kept": 1})


@pytest.mark.parametrize("key, name", [("access_log", "access"), ("error_log", "error")])
def test_a_path_that_cannot_be_opened_is_an_error(sluice, site, tmp_path, key, name):
    server = sluice(FILES.format(site=site), server=f'{key} = "a.log"')
    right = server.file.read_text()
    server.file.write_text(right.replace(f'{key} = "a.log"', f'{key} = "no/a.log"'))
    line, column = next((n, text.index(" = ") + 4) for n, text in enumerate(server.file.read_text().splitlines(), 1) if "no/a.log" in text)
    error = f"{server.file}:{line}:{column}: error: the {name} log cannot be opened: No such file or directory"
    status, text = reload(server)
    assert status == 422 and text.startswith(error) and f"the file would be {tmp_path}/no/a.log" in text
    server.get("/hello.txt?kept")
    if key == "access_log":
        until(lambda: requests_in(tmp_path / "a.log") == {"/hello.txt?kept": 1})
    else:
        until(lambda: "nothing has changed" in (tmp_path / "a.log").read_text())
    server.stop()
    again = subprocess.run([SLUICE, "serve", str(server.file)], capture_output=True, text=True, timeout=30,
                           env={**os.environ, "LISTEN": "127.0.0.1:0", "ADMIN": ""})
    assert again.returncode == 1 and again.stderr.startswith(error)


def test_a_reload_changes_where_the_logs_go(sluice, site, tmp_path):
    server = sluice(FILES.format(site=site), server='access_log = "a.log"\n#')
    original = server.file.read_text()
    steps = (("b.log", "./errors", "one"), ("stdout", "stderr", "two"), ("a.log", "./errors", "three"), ("off", "stderr", "four"))
    with server.connect() as connection:
        for log, errors, name in steps:
            server.file.write_text(original.replace('"a.log"\n#', f'"{log}"\nerror_log = "{errors}"\n#'))
            assert reload(server) == (200, "The configuration has been read again.\n")
            assert connection.get("/hello.txt?" + name).status == 200
    server.stop()
    assert requests_in(tmp_path / "b.log") == {"/hello.txt?one": 1}
    assert requests_in(tmp_path / "a.log") == {"/hello.txt?three": 1}
    assert re.findall(r"hello.txt.(\w+)", server.log) == ["two"]
    assert (tmp_path / "errors").read_text().count("has been read again") == 2
    assert server.log.count("has been read again") == 2


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, text=True)
    if made.returncode != 0:
        skip("kernel", "may not mount a tmpfs: " + made.stderr.strip())
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_costs_lines_and_no_request(sluice, site, small_disk):
    server = sluice(FILES.format(site=site), server=f'access_log = "{small_disk}/access.log"')
    log, ballast = small_disk / "access.log", small_disk / "ballast"
    with server.connect() as connection:
        assert connection.get("/hello.txt?before").status == 200
        until(lambda: log.stat().st_size > 0)
        with pytest.raises(OSError), open(ballast, "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        made = 0
        while dropped(server) < 100:
            assert connection.get(f"/hello.txt?full-{made}").status == 200
            made += 1
        assert "the access log: No space left on device" in server.log
        assert connection.get("/hello.txt?lost").status == 200
        until(lambda: dropped(server) + len(whole_lines(log)) == made + 2)
        ballast.unlink()
        until(lambda: connection.get("/hello.txt?after").status == 200 and "after" in log.read_text())
    server.stop()
    whole = targets_of(whole_lines(log))
    assert len(log.read_text().splitlines()) - len(whole_lines(log)) <= 1, "the line that the disk cut"
    assert whole["/hello.txt?before"] == 1 and whole["/hello.txt?after"] >= 1 and whole["/hello.txt?lost"] == 0
    assert sum(count for target, count in whole.items() if "full" in target) + 100 <= made


SILENT = """
[database.main]
url = "sqlite:{folder}/small.db"
[policy.auth]
type = "jwt"
secret = "a secret of more than thirty-two bytes"
[[endpoint]]
path = "/one"
get = "SELECT 1 AS one"
access_log = false
[[endpoint]]
path = "/two"
get = "SELECT 2 AS two"
[[endpoint]]
path = "/guarded"
get = "SELECT 3 AS three"
use = ["auth"]
access_log = false
[[files]]
path = "/site"
root = "{folder}/site"
access_log = false
[[resident]]
name = "numbers"
query = "SELECT n, text FROM numbers"
key = "n"
access_log = false
[[websocket]]
path = "/echo"
handler = "echo"
access_log = false
[[upstream]]
name = "back"
servers = ["http://127.0.0.1:9"]
[[route]]
path = "/back"
upstream = "back"
methods = ["GET"]
access_log = false
[[route]]
path = "/back"
upstream = "back"
methods = ["POST"]
[batch]
path = "/batch"
access_log = false
[openapi]
access_log = false
"""


def test_routes_may_be_left_out_of_the_access_log(sluice, small_sqlite, site):
    server = sluice(SILENT.format(folder=site.parent), server='access_log = "stdout"')
    with server.connect() as connection:
        for target, status in (("/one", 200), ("/guarded", 401), ("/site/hello.txt", 200), ("/numbers", 200), ("/back", 502),
                               ("/openapi.json", 200), ("/batch", 405)):
            assert connection.get(target).status == status, target
        with WebSocket(server.port, "/echo") as socket:
            socket.say(TEXT, "hello")
            assert socket.frame().payload == b"hello"
            socket.close_with()
        assert connection.get("/two").status == 200
        assert connection.get("/nowhere").status == 404
        assert connection.get("/back", method="POST").status == 502
        server.file.write_text(server.file.read_text().replace("access_log = false", "access_log = true", 1))
        assert reload(server)[0] == 200
        assert connection.get("/one").status == 200
    server.stop()
    assert re.findall(r'"target":"(.+?)"', server.log) == ["/two", "/nowhere", "/back", "/one"]
