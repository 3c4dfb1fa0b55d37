"""What a service manager such as systemd hears of the program, and the sockets that it passes."""
import re
import signal
import socket
import subprocess

import pytest

from conftest import SLUICE


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
