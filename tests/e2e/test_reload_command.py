"""`sluice reload`: its output and exit codes, with a running server and without one."""
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import time

import pytest

from cluster import free_port
from conftest import ROOT, SLUICE, Server
from test_check import endpoint


def reload(*words):
    done = subprocess.run([SLUICE, "reload", *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def write(server, config):
    """Writes the configuration file: the same [server] and [admin], followed by `config`."""
    server.file.write_text(server.file.read_text().split("\n[database", 1)[0] + "\n" + config)


def generation(n):
    return '[database.main]\nurl = "sqlite:main.db"\n' + endpoint(f"SELECT {n} AS n", f"/only/{n}")


@pytest.fixture
def folder(tmp_path):
    sqlite3.connect(tmp_path / "main.db").close()
    return tmp_path


@pytest.fixture
def server(sluice, folder):
    return sluice(generation(1))


def test_the_server_answers_by_the_new_file(server):
    write(server, generation(2))
    assert server.get("/only/2").status == 404
    said = reload("--admin", f"http://127.0.0.1:{server.admin_port}")
    assert said == (0, "The configuration has been read again.\n", "")
    assert server.get("/only/2").status == 200 and server.get("/only/1").status == 404
    for spelling in (f"127.0.0.1:{server.admin_port}", f"http://localhost:{server.admin_port}/"):
        assert reload("--admin", spelling)[0] == 0
    assert server.sample('sluice_reloads_total{result="done"}') == 3


def test_the_address_is_that_of_the_file(server, folder):
    done = (0, "The configuration has been read again.\n", "")
    assert reload(str(server.file)) == done
    (folder / "sluice.toml").write_text(server.file.read_text().replace('"127.0.0.1:' + str(server.admin_port), f'"*:{server.admin_port}'))
    in_folder = subprocess.run([SLUICE, "reload"], capture_output=True, text=True, timeout=60, cwd=folder)
    assert (in_folder.returncode, in_folder.stdout, in_folder.stderr) == done
    # Errors that leave the address known are reported by the server.
    write(server, generation(1) + "wrong = 1\n")
    code, _, errors = reload(str(server.file))
    assert code == 3 and 'unknown key "wrong"' in errors
    (folder / "sluice.toml").write_text('[server]\nlisten = ["127.0.0.1:8080"]\n[admin]\nlisten = ""\n' + generation(1))
    code, _, errors = reload(str(folder / "sluice.toml"))
    assert code == 3 and "has no [admin] listen; reload by SIGHUP, or write --admin URL\n" in errors
    code, _, errors = reload(str(folder / "absent.toml"))
    assert code == 3 and "absent.toml" in errors


def test_the_guide_s_command(server):
    page = (ROOT / "docs/guide/reloading.md").read_text()
    ((command, answer),) = re.findall(r"^\$ (sluice reload .*)\n(.*\n)```", page, re.M)
    words = shlex.split(command.replace("127.0.0.1:8081", f"127.0.0.1:{server.admin_port}"))
    done = subprocess.run([SLUICE, *words[1:]], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, answer, "")


def test_a_wrong_file_is_told_as_the_check_tells_it(server):
    write(server, generation(2) + '[[files]]\npath = "/f"\nroot = "."\nrooot = "x"\n')
    code, out, errors = reload("--admin", f"http://127.0.0.1:{server.admin_port}")
    assert (code, out) == (3, "")
    checked = subprocess.run([SLUICE, "check", server.file], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 3 and checked.stderr == errors and 'unknown key "rooot"' in errors
    assert server.get("/only/1").status == 200


def test_a_unix_socket(folder):
    path, port = folder / "admin.sock", free_port()
    file = folder / "sluice.toml"
    file.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\n[admin]\nlisten = "unix:{path}"\n' + generation(1))
    server = Server(file, folder, {}, port, 0)
    try:
        end = time.monotonic() + 15
        while reload("--admin", f"unix:{path}") != (0, "The configuration has been read again.\n", ""):
            assert server.process.poll() is None and time.monotonic() < end, server.log
            time.sleep(0.02)
        server.stop()
    finally:
        server.kill()


def test_where_there_is_no_server():
    url = f"http://127.0.0.1:{free_port()}"
    assert reload("--admin", url) == (1, "", f"sluice: {url}: cannot connect to the server: Connection refused\n")


def test_a_server_that_has_no_reload(server):
    code, out, errors = reload("--admin", f"http://127.0.0.1:{server.port}")
    assert (code, out) == (1, "") and "the server answered 404: " in errors


@pytest.mark.parametrize("url", ["http://127.0.0.1", "https://127.0.0.1:8081", "http://127.0.0.1:8081/reload", ""])
def test_what_is_no_address(url):
    code, out, errors = reload("--admin", url)
    assert (code, out) == (2, "") and f'sluice: "{url}" is no address of an admin listener' in errors


def test_it_waits_until_it_is_interrupted():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = subprocess.Popen([SLUICE, "reload", "--admin", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        client, _ = listener.accept()
        with client:
            asked = b""
            while b"\r\n\r\n" not in asked:
                asked += client.recv(1000)
            assert asked.startswith(b"POST /reload HTTP/1.1\r\nHost: localhost\r\n")
            command.send_signal(signal.SIGINT)
            assert command.communicate(timeout=60) == ("", f"sluice: {url}: interrupted by a signal\n")
            assert command.returncode == 1
