"""[server] of a configuration that is read again while the program serves: addresses, limits, TLS."""
import os
import pathlib
import re
import signal
import socket
import ssl
import time

import pytest

import http2
from certificates import tls_table
from cluster import free_port
from conftest import IO
from http1 import Connection
from test_reload import HELD, held, reload  # noqa: F401
from test_tls import connect, subject_of
from websocket import TEXT, WebSocket


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(params=[2])
def server(sluice, tmp_path, site, request):
    """A program on `request.param` cores; change(listen, keys) replaces its [server]. It starts with one address, `.port`."""
    always = f"cores = {request.param}\n" + (f'io = "{IO}"\n' if IO else "")

    def text(listen, keys=""):
        addresses = ", ".join(f'"{one}"' for one in listen)
        return (f'[server]\nlisten = [{addresses}]\n{always}{keys}\n[admin]\nlisten = "${{ADMIN}}"\n'
                f'[[files]]\npath = "/"\nroot = "{site}"\n[[websocket]]\npath = "/echo"\nhandler = "echo"\n')

    file = tmp_path / "sluice.toml"
    file.write_text(text(["${LISTEN}"]))
    started = sluice(file=file)

    def change(listen, keys=""):
        file.write_text(text([f"127.0.0.1:{one}" if isinstance(one, int) else one for one in listen], keys))
        return reload(started)
    started.change = change
    return started


def serves(port, times=8):
    """Each of many connections, on all cores, gets an answer."""
    for _ in range(times):
        with Connection(port) as client:
            assert client.get("/hello.txt").status == 200


def refuses(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            return False
    except ConnectionRefusedError:
        return True


def listeners(port):
    """The inodes of the sockets that listen on the port."""
    rows = [line.split() for line in open("/proc/net/tcp").read().splitlines()[1:]]
    return {row[9] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port}


DONE = (200, "The configuration has been read again.\n")


def test_addresses_come_stay_and_go(server):
    other = free_port()
    assert refuses(other)
    sockets = listeners(server.port)
    assert len(sockets) == 2
    with server.connect() as old, http2.Client(server.port) as multiplexed:
        talk = WebSocket(server.port)
        assert old.get("/hello.txt").status == multiplexed.get("/hello.txt").status == 200
        assert server.change([server.port, other]) == DONE
        serves(server.port)
        serves(other)
        assert listeners(server.port) == sockets and len(listeners(other)) == 2
        assert server.change([other]) == DONE
        wait_for(lambda: refuses(server.port))
        serves(other)
        # Older connections go on.
        assert old.get("/hello.txt").status == multiplexed.get("/hello.txt").status == 200
        talk.say(TEXT, b"still here")
        assert talk.frame().payload == b"still here"
        assert server.change([server.port]) == DONE
        wait_for(lambda: refuses(other))
        serves(server.port)
        talk.close()


def test_an_address_of_another_program_is_refused_and_nothing_changes(server, tmp_path):
    free, path = free_port(), tmp_path / "web.sock"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, text = server.change([free, f"unix:{path}", server.port, port], 'server_header = "changed"')
        assert status == 422
        column = server.file.read_text().splitlines()[1].index(f'"127.0.0.1:{port}"') + 1
        assert text.startswith(f"{server.file}:2:{column}: error: cannot listen on 127.0.0.1:{port}: Address already in use")
        assert refuses(free) and not path.exists()
        status, text = server.change([f"*:{server.port}"])
        assert status == 422 and f"cannot listen on *:{server.port}: Address already in use" in text
        assert server.get("/hello.txt").get("server") == "sluice"
        serves(server.port)
    assert server.change([free, f"unix:{path}", server.port, port], 'server_header = "changed"') == DONE
    for one in (free, server.port, port):
        serves(one)
    assert server.get("/hello.txt").get("server") == "changed" and path.exists()


def test_sockets_in_files(server, tmp_path):
    path = tmp_path / "web.sock"

    def ask():
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(path))
            client.sendall(b"GET /hello.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
            return client.makefile("rb").read()
    for _ in range(2):
        assert server.change([server.port, f"unix:{path}"]) == DONE
        assert ask().startswith(b"HTTP/1.1 200 ")
        assert server.change([server.port, f"unix:{path}"], 'server_header = "kept"') == DONE
        assert b"Server: kept" in ask()
        assert server.change([server.port]) == DONE
        assert not path.exists()
    assert server.change([server.port, f"unix:{path}"]) == DONE
    server.stop()
    assert not path.exists()


def test_a_file_that_is_no_socket_stays(server, tmp_path):
    path = tmp_path / "precious"
    path.write_text("kept")
    status, text = server.change([server.port, f"unix:{path}"])
    assert status == 422 and f"cannot listen on unix:{path}: File exists" in text, text
    assert path.read_text() == "kept"
    assert server.get("/hello.txt").status == 200


def test_a_shorter_idle_timeout_holds_for_open_connections(server):
    with http2.Client(server.port) as client:
        assert client.get("/hello.txt").status == 200
        assert server.change([server.port], 'idle_timeout = "100ms"') == DONE
        while client.hear():  # until the server closes
            pass


def test_a_file_that_takes_a_socket_s_place_stays(server, tmp_path):
    path, other = tmp_path / "web.sock", tmp_path / "other.sock"
    assert server.change([server.port, f"unix:{path}", f"unix:{other}"]) == DONE
    for socket_file in (path, other):
        socket_file.unlink()
        socket_file.write_text("kept")
    assert server.change([server.port, f"unix:{other}"]) == DONE
    assert path.read_text() == "kept"
    server.stop()
    assert other.read_text() == "kept"


@pytest.mark.parametrize("which", ["cert", "key"])
def test_a_fifo_in_place_of_a_certificate_holds_nothing_up(server, authority, tmp_path, which):
    """A FIFO without a writer would block an open() forever."""
    cert, key = authority.issue("usable")
    fifo = tmp_path / "fifo.pem"
    fifo.write_bytes(pathlib.Path(cert if which == "cert" else key).read_bytes())
    files = (fifo, key) if which == "cert" else (cert, fifo)
    assert server.change([f"https://127.0.0.1:{server.port}"], tls_table(files)) == DONE
    fifo.unlink()
    os.mkfifo(fifo)
    wait_for(lambda: f"{fifo} is not a regular file; those from before stay in use" in server.log)
    status, text = reload(server)
    assert status == 422 and f"{fifo} is not a regular file" in text, text
    with connect(server.port, authority) as connection:
        assert subject_of(connection) == "usable"
    server.stop()


def test_a_port_that_the_system_chose_stays(sluice, tmp_path, site):
    file = tmp_path / "sluice.toml"

    def text(keys):
        return (f'[server]\nlisten = ["127.0.0.1:0", "127.0.0.1:0"]\n{keys}\n[admin]\nlisten = "${{ADMIN}}"\n'
                f'[[files]]\npath = "/"\nroot = "{site}"\n')
    file.write_text(text(""))
    server = sluice(file=file)
    ports = {int(port) for port in re.findall(r"serving  http://127\.0\.0\.1:(\d+)/", server.log)}
    assert len(ports) == 2
    file.write_text(text('server_header = "changed"'))
    assert reload(server) == DONE
    for port in ports:
        with Connection(port) as client:
            assert client.get("/hello.txt").get("server") == "changed"


def test_limits_and_fields_hold_for_the_next_request(server):
    target = "/hello.txt?" + "x" * 300
    with server.connect() as kept, http2.Client(server.port) as multiplexed:
        assert kept.get(target).status == multiplexed.get(target).status == 200
        assert server.change([server.port], 'target_limit = "200B"\nserver_header = ""\n'
                             'headers = { X-Content-Type-Options = "nosniff" }') == DONE
        answer = kept.get("/hello.txt")
        assert answer.get("server") is None and answer.get("x-content-type-options") == "nosniff"
        fields = multiplexed.get("/hello.txt").fields
        assert "server" not in fields and fields["x-content-type-options"] == "nosniff"
        assert kept.get(target).status == 414
        assert multiplexed.get(target).status == 200, "its client was told of other limits"
        for _ in range(8):
            assert server.get(target).status == 414
    with http2.Client(server.port) as multiplexed:
        assert multiplexed.get(target).status == 414
    assert server.change([server.port]) == DONE
    for _ in range(8):
        answer = server.get(target)
        assert answer.status == 200 and answer.get("server") == "sluice" and answer.get("x-content-type-options") is None


@pytest.mark.parametrize("server", [1], indirect=True)
def test_fewer_connections_close_nobody(server):
    with server.connect() as one, server.connect() as other:
        assert one.get("/hello.txt").status == other.get("/hello.txt").status == 200
        assert server.change([server.port], "connections = 1") == DONE
        assert one.get("/hello.txt").status == other.get("/hello.txt").status == 200
        assert server.get("/hello.txt").status == 503
        assert server.change([server.port]) == DONE
        assert server.get("/hello.txt").status == 200


def test_the_access_log_and_the_grace_change(server):
    def logged():
        return server.log.count('"target":"/hello.txt"')
    serves(server.port)
    assert server.change([server.port], 'access_log = "stdout"\ngrace = "1h"') == DONE
    serves(server.port, 3)
    wait_for(lambda: logged() == 3)
    assert server.change([server.port], 'grace = "100ms"') == DONE
    serves(server.port)
    with server.connect() as slow:
        slow.sip = 1024
        slow.send("GET /big.bin HTTP/1.1\r\nHost: test\r\n\r\n")
        slow._until(b"\r\n\r\n")
        server.stop()  # an hour would be too long
    assert logged() == 3


def test_without_http2_its_clients_are_told_to_go(server):
    with http2.Client(server.port) as client, server.connect() as plain:
        assert client.get("/hello.txt").status == plain.get("/hello.txt").status == 200
        assert server.change([server.port], "http2 = false") == DONE
        while client.hear():
            pass
        assert set(client.goaways) == {0}
        assert plain.get("/hello.txt").status == 200
    with http2.Raw(server.port) as refused:
        refused.send(http2.PREFACE)
        assert refused.socket.recv(100).startswith(b"HTTP/1.1 4")
    assert server.change([server.port]) == DONE
    with http2.Client(server.port) as client:
        assert client.get("/hello.txt").status == 200


def test_tls_comes_changes_and_goes(server, authority):
    port = free_port()
    plain, secure = f"http://127.0.0.1:{server.port}", f"https://127.0.0.1:{port}"

    def status_and_fields(host_port, context=None):
        with socket.create_connection(("127.0.0.1", host_port), timeout=20) as raw:
            stream = context.wrap_socket(raw, server_hostname="localhost") if context else raw
            stream.sendall(b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := stream.recv(4096):
                data += piece
            if context:
                stream.close()
        return int(data.split()[1]), data

    def now(alpn=None):
        with connect(port, authority, alpn=alpn) as connection:
            return subject_of(connection), connection.selected_alpn_protocol()
    trusting = ssl.create_default_context(cafile=authority.ca)
    first, second = authority.issue("first"), authority.issue("second")
    assert server.change([plain, secure], tls_table(first, 'redirect = true\nhsts = "1h"')) == DONE
    for _ in range(4):
        status, data = status_and_fields(server.port)
        assert status == 301 and f"location: https://localhost:{port}/hello.txt".encode() in data.lower()
        status, data = status_and_fields(port, trusting)
        assert status == 200 and b"strict-transport-security: max-age=3600" in data.lower()
    assert now(["h2", "http/1.1"]) == ("first", "h2")

    with connect(port, authority) as old:
        assert server.change([plain, secure], "http2 = false\n" + tls_table(second)) == DONE
        for _ in range(4):
            assert now(["h2", "http/1.1"]) == ("second", "http/1.1")
            assert status_and_fields(server.port)[0] == 200
            assert b"strict-transport" not in status_and_fields(port, trusting)[1].lower()
        # The program watches the files that it serves now.
        for source, to in zip(authority.issue("third"), second):
            os.replace(source, to)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: now()[0] == "third")
        wait_for(lambda: server.sample('sluice_reloads_total{result="done"}') == 3)
        for source, to in zip(authority.issue("fourth"), second):
            os.replace(source, to)
        assert server.change([plain, secure], tls_table(second)) == DONE
        assert now()[0] == "fourth"
        # Each address switches between TLS and no TLS, and then none has TLS.
        assert server.change([f"https://127.0.0.1:{server.port}", f"http://127.0.0.1:{port}"], tls_table(second)) == DONE
        for _ in range(4):
            assert status_and_fields(server.port, trusting)[0] == status_and_fields(port)[0] == 200
        assert server.change([server.port]) == DONE
        wait_for(lambda: refuses(port))
        for _ in range(4):
            assert status_and_fields(server.port)[0] == 200
        old.sendall(b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert old.recv(1000).startswith(b"HTTP/1.1 200 ")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.sample('sluice_reloads_total{result="done"}') == 7)


def test_files_of_certificates_that_cannot_be_used_change_nothing(server, authority):
    first = authority.issue("usable")
    assert server.change([f"https://127.0.0.1:{server.port}"], tls_table(first)) == DONE
    status, text = server.change([f"https://127.0.0.1:{server.port}"], tls_table((first[0], authority.issue("else")[1])))
    assert status == 422 and re.match(rf"{re.escape(str(server.file))}:\d+:7: error: .*key", text), text
    with connect(server.port, authority) as connection:
        assert subject_of(connection) == "usable"


def test_a_reload_puts_no_older_certificate_in_place(held, authority):  # noqa: F811
    port = free_port()
    certificate, key = authority.issue("older")
    listen = f'"http://127.0.0.1:{held.port}", "https://127.0.0.1:{port}"'
    written = held.file.read_text().replace(f'"127.0.0.1:{held.port}"', listen)
    held.file.write_text(written.replace("[admin]", tls_table((certificate, key)) + "[admin]"))
    assert reload(held) == DONE

    def subject():
        with connect(port, authority) as connection:
            return subject_of(connection)
    assert subject() == "older"
    with held.hold():
        held.file.write_text(held.file.read_text().replace("[server.tls]", '[server.tls]\nhsts = "1h"'))
        held.change(2)
        held.process.send_signal(signal.SIGHUP)
        held.wait_for(held.waiting)  # it has read the certificate files
        new, new_key = authority.issue("newer")
        os.replace(new, certificate)
        os.replace(new_key, key)
        held.process.send_signal(signal.SIGHUP)
        held.wait_for(lambda: subject() == "newer")
    held.wait_for(lambda: held.get("/which").body == b'[{"generation":2}]\n')
    assert subject() == "newer"


def test_what_needs_a_restart_is_refused_by_its_name_and_place(server):
    with server.connect() as kept:
        text = server.file.read_text()
        for name, other in (("cores", text.replace("cores = 2", "cores = 1")),
                            ("io", re.sub("cores = 2\n(io = .*\n)?", f'cores = 2\nio = "{"epoll" if IO == "uring" else "uring"}"\n', text))):
            server.file.write_text(other)
            status, said = reload(server)
            line = 3 if name == "cores" else 4
            assert status == 422 and "needs a restart" in said, said
            assert said.startswith(f"{server.file}:{line}:{len(name) + 4}: error: [server] {name} "), said
        server.file.write_text(text)
        server.file.write_text(server.file.read_text().replace("${ADMIN}", f"127.0.0.1:{free_port()}"))
        status, said = reload(server)
        assert status == 422 and "[admin] listen" in said and "needs a restart" in said
        assert kept.get("/hello.txt").status == 200
