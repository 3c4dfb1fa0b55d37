"""What a service manager such as systemd hears of the program, and the sockets that it passes."""
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request

import pytest

from conftest import IO, ROOT, SLUICE, until


class Manager:
    """The socket on which a service manager listens."""

    def __init__(self, address):
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(20)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def heard(self):
        return self.socket.recv(4096).decode()

    def state(self):
        """The next datagram that is not from the watchdog."""
        while (text := self.heard()) == "WATCHDOG=1":
            pass
        return text


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    manager = Manager(str(tmp_path / "notify") if request.param == "path" else f"@sluice-test-{tmp_path}")
    with manager.socket:
        yield manager


@pytest.fixture
def files(site):
    return f'[[files]]\npath = "/"\nroot = "{site}"\n'


def test_the_manager_hears_of_every_state(sluice, files, manager):
    server = sluice(files, env={"NOTIFY_SOCKET": manager.address})
    assert manager.state() == "READY=1\nSTATUS=serving"

    def reloads():
        assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", manager.state())
        return manager.state()

    server.process.send_signal(signal.SIGHUP)
    assert reloads() == "READY=1\nSTATUS=serving; the configuration has been read again"
    subprocess.run([SLUICE, "reload", str(server.file)], check=True, timeout=20)
    assert reloads() == "READY=1\nSTATUS=serving; the configuration has been read again"
    server.file.write_text("nonsense")
    server.process.send_signal(signal.SIGHUP)
    assert reloads() == "READY=1\nSTATUS=serving; the last reload was refused"
    server.terminate()
    assert manager.state() == "STOPPING=1"
    server.stop()


def test_the_watchdog_hears_of_the_loops_until_the_end(sluice, files, manager):
    server = sluice(files, env={"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "200000"})
    assert manager.state() == "READY=1\nSTATUS=serving"
    assert [manager.heard() for _ in range(3)] == ["WATCHDOG=1"] * 3
    with server.connect() as busy:
        busy.send("GET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n")
        assert busy.socket.recv(1)
        server.terminate()
        assert manager.state() == "STOPPING=1"
        assert [manager.heard() for _ in range(3)] == ["WATCHDOG=1"] * 3  # the drain takes long, but nothing hangs
    server.stop()


def test_a_wrong_notify_socket_is_an_error(tmp_path, files):
    file = tmp_path / "sluice.toml"
    file.write_text(f'[server]\nlisten = ["127.0.0.1:0"]\n{files}')
    done = subprocess.run([SLUICE, "serve", str(file)], env={"NOTIFY_SOCKET": "notify"}, capture_output=True, text=True,
                          timeout=20)
    assert done.returncode == 1
    assert done.stderr == 'sluice: NOTIFY_SOCKET in the environment is "notify", which is not a socket\n'


class Activated:
    """Starts the program with listening sockets of this process, one program after another, as systemd does."""

    def __init__(self, folder, configuration):
        self.file = folder / "activated.toml"
        self.file.write_text(configuration)
        self.log = folder / "activated.log"
        self.running = []

    def start(self, *passed, pid="$$"):
        """The program gets copies of these files as its descriptors from 3 on."""
        copies = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD, 50) for one in passed]
        moves = "".join(f" {3 + index}<&{copy} {copy}<&-" for index, copy in enumerate(copies))
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-c", f'exec {moves}; export LISTEN_FDS={len(passed)} LISTEN_PID={pid}; exec "$0" serve "$1"',
                 SLUICE, str(self.file)], pass_fds=copies, stdout=log, stderr=log)
        for copy in copies:
            os.close(copy)
        self.running.append(process)
        return process

    def fails(self, *passed, **options):
        """The error of a program that does not start."""
        assert self.start(*passed, **options).wait(20) == 1
        return self.log.read_text()

    def end(self):
        process = self.running.pop()
        process.terminate()
        assert process.wait(20) == 0, self.log.read_text()


@pytest.fixture
def activated(tmp_path):
    started = []

    def make(configuration):
        started.append(Activated(tmp_path, configuration))
        return started[-1]

    yield make
    for process in (process for each in started for process in each.running):
        process.kill()
        process.wait()


def listener(path=None):
    opened = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
    opened.bind(str(path) if path else ("127.0.0.1", 0))
    opened.listen(1000)
    return opened


def port_of(opened):
    return opened.getsockname()[1]


def configured(files, listen, admin=None):
    """A configuration that listens on these addresses."""
    io = f'io = "{IO}"\n' if IO else ""
    admin = f"127.0.0.1:{admin}" if admin else ""
    return f'[server]\ncores = 2\nlisten = {json.dumps(listen)}\n{io}[admin]\nlisten = "{admin}"\n{files}'


def ask(opened):
    """Sends a request over a new connection, which may wait in the listening socket. Returns the connection."""
    client = socket.socket(opened.family)
    client.settimeout(20)
    client.connect(opened.getsockname())
    client.sendall(b"GET /hello.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
    return client


def is_ready(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=20) as ready:
            return ready.status == 200
    except urllib.error.HTTPError as error:
        reason = error.read()
        assert error.code == 503 and b"starting" in reason, reason
        return False


def answered(client):
    with client:
        return client.makefile("rb").read().startswith(b"HTTP/1.1 200 ")


def test_passed_sockets_are_used_and_connections_wait_for_the_next_program(activated, files, tmp_path):
    path = tmp_path / "web.sock"
    with listener() as tcp, listener(path) as unix, listener() as admin:
        program = activated(configured(files, [f"127.0.0.1:{port_of(tcp)}", f"unix:{path}"], port_of(admin)))
        for _ in range(2):
            clients = [ask(opened) for opened in (tcp, unix) for _ in range(50)]
            program.start(tcp, unix, admin)
            assert all([answered(client) for client in clients])
            until(lambda: is_ready(port_of(admin)))  # all cores have begun
            assert answered(ask(tcp)) and answered(ask(unix))
            program.end()
        assert path.exists()  # it belongs to the manager
        waits = ask(tcp)
        with waits, pytest.raises(BlockingIOError):  # neither refused nor reset
            waits.setblocking(False)
            waits.recv(1)


def test_restarts_lose_no_connection(activated, files):
    with listener() as tcp:
        program = activated(configured(files, [f"127.0.0.1:{port_of(tcp)}"]))
        program.start(tcp)
        outcomes, is_over = [], threading.Event()

        def ask_on():
            while not is_over.is_set():
                try:
                    outcomes.append(answered(ask(tcp)))
                except OSError as error:
                    outcomes.append(error)

        clients = [threading.Thread(target=ask_on) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            for _ in range(3):
                seen = len(outcomes)
                until(lambda: len(outcomes) > seen + 50)
                program.end()
                program.start(tcp)
        finally:
            is_over.set()
            for client in clients:
                client.join()
        assert [one for one in outcomes if one is not True] == []
        program.end()


def test_a_reload_keeps_passed_sockets(activated, files):
    with listener() as tcp, listener() as admin:
        program = activated(configured(files, [f"127.0.0.1:{port_of(tcp)}"], port_of(admin)))
        program.start(tcp, admin)
        assert answered(ask(tcp))
        with_it, without_it = program.file.read_text(), configured(files, ["127.0.0.1:0"], port_of(admin))
        for text in (with_it + "\n", without_it, with_it):
            program.file.write_text(text)
            waits = ask(tcp) if text == with_it else None  # at an address that the program does not serve now
            subprocess.run([SLUICE, "reload", str(program.file)], check=True, timeout=20)
            if text != without_it:
                assert answered(waits or ask(tcp))
        program.end()


def test_wrong_sockets_are_errors(activated, files):
    with listener() as tcp, listener() as other:
        program = activated(configured(files, [f"127.0.0.1:{port_of(tcp)}"]))
        assert program.fails(tcp, other) == (
            f"sluice: the service manager has passed a socket for 127.0.0.1:{port_of(other)}, and the configuration does "
            "not listen there\n")
        with open(program.file) as file:
            assert program.fails(tcp, file) == (
                "sluice: descriptor 4 from the service manager is not a listening stream socket\n")
        assert f"cannot listen on 127.0.0.1:{port_of(tcp)}: Address already in use" in program.fails(tcp, pid=1)


def test_the_commands_of_the_unit(files, manager, tmp_path):
    unit = (ROOT / "packaging/sluice.service").read_text()
    file = tmp_path / "sluice.toml"
    file.write_text(f'[server]\nlisten = ["unix:{tmp_path}/web.sock"]\n[admin]\nlisten = "unix:{tmp_path}/admin.sock"\n{files}')

    def command(key):
        line = re.search(rf"^{key}=(.*)$", unit, re.M)[1]
        return line.replace("/usr/bin/sluice", SLUICE).replace("/etc/sluice/sluice.toml", str(file)).split()

    with subprocess.Popen(command("ExecStart"), env={"NOTIFY_SOCKET": manager.address}) as process:
        try:
            assert manager.state().startswith("READY=1\n")
            subprocess.run(command("ExecReload"), check=True, timeout=20)
            assert manager.state().startswith("RELOADING=1\n")
            assert manager.state().startswith("READY=1\n")
        finally:
            process.terminate()
        assert process.wait(20) == 0
