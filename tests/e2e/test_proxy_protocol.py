"""[server] proxy_protocol: proxies start each connection with a header that names the client."""
import ssl
import socket
import struct
import subprocess

import pytest

from test_trusted_proxies import logged
from test_gateway import wait_until

PROXY, OTHER = "127.0.0.2", "127.0.0.1"
CONFIG = '[[files]]\npath = "/"\nroot = "site"\n'
TEXT = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n"


def binary(command=1, family=0x11, addresses=socket.inet_aton("192.0.2.8") + bytes(4) + b"\xdc\x04\x01\xbb"):
    return b"\r\n\r\n\0\r\nQUIT\n" + struct.pack(">BBH", 0x20 | command, family, len(addresses)) + addresses


def ask(server, header, source=PROXY, path="/page", wrap=None):
    """Sends the header and a request. Returns the status, or 0 if the connection ends without an answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20, source_address=(source, 0)) as client:
        client.sendall(header)
        if wrap:
            client = wrap(client)
        try:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while piece := client.recv(65536):
                answer += piece
        except ConnectionError:
            pass
        finally:
            client.close()
    return int(answer[9:12]) if answer else 0


@pytest.fixture
def site(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/page").write_text("page")
    return tmp_path


def test_the_header_names_the_client(sluice, site):
    server = sluice(CONFIG, server=f'access_log = "stdout"\nproxy_protocol = ["{PROXY}"]')
    assert ask(server, TEXT) == 200
    assert ask(server, binary()) == 200
    assert ask(server, binary(family=0x21, addresses=socket.inet_pton(socket.AF_INET6, "2001:db8::9") + bytes(20))) == 200
    for source in (b"::ffff:192.0.2.10", b"::FFFF:c000:20b", b"0:0:0:0:0:ffff:192.0.2.12"):
        assert ask(server, b"PROXY TCP6 " + source + b" ::ffff:198.51.100.1 56324 443\r\n") == 200
    assert ask(server, binary(family=0x21, addresses=socket.inet_pton(socket.AF_INET6, "::ffff:192.0.2.13") + bytes(20))) == 200
    assert ask(server, binary(command=0)) == 200, "a health check"
    assert ask(server, b"PROXY UNKNOWN\r\n") == 200
    assert ask(server, b"", source=OTHER) == 200
    done = subprocess.run(["curl", "-s", "--haproxy-protocol", "--interface", PROXY, "--http2-prior-knowledge",
                           f"http://127.0.0.1:{server.port}/page"], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"page"
    wait_until(lambda: logged(server) == ["192.0.2.7", "192.0.2.8", "2001:db8::9",
                                       *(f"192.0.2.{n}" for n in range(10, 14)), PROXY, PROXY, OTHER, PROXY])


def test_who_begins_otherwise_is_not_answered(sluice, site):
    server = sluice(CONFIG, server=f'access_log = "stdout"\nproxy_protocol = ["{PROXY}"]')
    for header in (b"", b"PROXY TCP4 192.0.2.7\r\n", binary(family=0x12), binary(command=2), TEXT.replace(b"\r", b"")):
        assert ask(server, header) == 0
    assert server.sample("sluice_proxy_headers_refused_total") == 5
    assert ask(server, TEXT, source=OTHER) == 400, "nobody asks others for it"
    with socket.create_connection(("127.0.0.1", server.port), source_address=(PROXY, 0)):
        pass  # as a health check of the port does
    assert ask(server, TEXT) == 200
    assert server.sample("sluice_proxy_headers_refused_total") == 5


def test_a_proxy_that_says_nothing_is_not_waited_for(sluice, site):
    server = sluice(CONFIG, server=f'header_timeout = "300ms"\nproxy_protocol = ["{PROXY}"]')
    with socket.create_connection(("127.0.0.1", server.port), timeout=20, source_address=(PROXY, 0)) as client:
        client.sendall(TEXT[:20])
        assert client.recv(100) == b""


def test_it_stands_before_tls(sluice, site, localhost):
    file = site / "tls.toml"
    file.write_text(f'''[server]
listen = ["${{LISTEN}}"]
access_log = "stdout"
proxy_protocol = ["{PROXY}"]
trusted_proxies = ["192.0.2.0/24"]
[server.tls]
cert = "{localhost[0]}"
key = "{localhost[1]}"
[admin]
listen = "${{ADMIN}}"
{CONFIG}''')
    server = sluice(file=file)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for header in (TEXT, binary()):
        assert ask(server, header, wrap=context.wrap_socket) == 200
    wait_until(lambda: logged(server) == ["192.0.2.7", "192.0.2.8"])


def test_draining_does_not_wait_for_it(sluice, site):
    server = sluice(CONFIG, server=f'proxy_protocol = ["{PROXY}"]\nheader_timeout = "1h"\ngrace = "10m"')
    with socket.create_connection(("127.0.0.1", server.port), timeout=20, source_address=(PROXY, 0)) as client:
        client.sendall(TEXT[:20])
        wait_until(lambda: server.sample("sluice_connections_open") == 1)
        server.stop()
        assert client.recv(100) == b""
