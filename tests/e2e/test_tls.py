"""TLS with real clients: curl, OpenSSL's own client, and Python's."""
import datetime
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest
from cryptography import x509

from certificates import Authority, openssl, tls_table
from cluster import free_port
from conftest import SLUICE, until


@pytest.fixture
def files(site):
    return f'[[files]]\npath = "/"\nroot = "{site}"\n'


@pytest.fixture
def secure(sluice, files, localhost):
    """secure(extra, server="", config="") starts the program with TLS on its only address."""
    def start(extra="", server="", certificate=localhost, config=""):
        return sluice(files + config, server=server + "\n" + tls_table(certificate, extra))
    return start


@pytest.fixture
def both(sluice, tmp_path, files, localhost):
    """Plain HTTP on the first address, TLS on the second, which is `.tls_port`."""
    def start(extra=""):
        tls_port = free_port()
        file = tmp_path / "both.toml"
        file.write_text(f'[server]\nlisten = ["http://${{LISTEN}}", "https://127.0.0.1:{tls_port}"]\n'
                        f'{tls_table(localhost, extra)}[admin]\nlisten = "${{ADMIN}}"\n{files}')
        server = sluice(file=file)
        server.tls_port = tls_port
        return server
    return start


def curl(*arguments, check=True):
    run = subprocess.run(["curl", "-sS", "--max-time", "30", "--http1.1", *map(str, arguments)], capture_output=True)
    if check:
        assert run.returncode == 0, run.stderr.decode()
    return run


def connect(port, authority, host="localhost", alpn=None, certificate=None, maximum=None, session=None):
    context = ssl.create_default_context(cafile=authority.ca)
    if alpn:
        context.set_alpn_protocols(alpn)
    if certificate:
        context.load_cert_chain(*certificate)
    if maximum:
        context.maximum_version = maximum
    plain = socket.create_connection(("127.0.0.1", port), timeout=20)
    try:
        return context.wrap_socket(plain, server_hostname=host, suppress_ragged_eofs=False, session=session)
    except BaseException:
        plain.close()
        raise


def read_to_end(connection):
    """Raises ssl.SSLEOFError if the connection ends without close_notify."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


def request(connection, path="/hello.txt", more=""):
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())


def read_answer(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        assert piece, data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(re.search(rb"content-length: (\d+)", head, re.I).group(1))
    while len(body) < size:
        piece = connection.recv(65536)
        assert piece, head
        body += piece
    assert len(body) == size
    return head, body


def subject_of(connection):
    return dict(pair[0] for pair in connection.getpeercert()["subject"])["commonName"]


def test_curl_gets_files_over_both_versions(secure, authority):
    server = secure()
    assert f"https://127.0.0.1:{server.port}" in server.log
    for maximum, version in ("1.3", "TLSv1.3"), ("1.2", "TLSv1.2"):
        run = curl("--cacert", authority.ca, "--tls-max", maximum, "-v", f"https://localhost:{server.port}/hello.txt")
        assert run.stdout == b"Hello, world.\n"
        assert f"SSL connection using {version}".encode() in run.stderr
    assert b"certificate" in curl(f"https://localhost:{server.port}/hello.txt", check=False).stderr
    old = curl("--cacert", authority.ca, "--tls-max", "1.1", f"https://localhost:{server.port}/", check=False)
    assert old.returncode != 0


def test_only_tls_1_3(secure, authority):
    server = secure('min_version = "1.3"')
    assert curl("--cacert", authority.ca, f"https://localhost:{server.port}/hello.txt").stdout
    run = curl("--cacert", authority.ca, "--tls-max", "1.2", f"https://localhost:{server.port}/", check=False)
    assert run.returncode != 0


def test_megabytes_arrive_whole(secure, authority, small_sqlite):
    server = secure(config=f'''
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/numbers"
get = "SELECT a.n AS a, b.n AS b, b.text FROM numbers a, numbers b WHERE a.n <= 100"
''')
    run = curl("--cacert", authority.ca, f"https://localhost:{server.port}/big.bin")
    assert run.stdout == bytes(range(256)) * 40_000
    run = curl("--cacert", authority.ca, f"https://localhost:{server.port}/numbers")
    rows = json.loads(run.stdout)
    assert len(rows) == 100_000 and rows[-1] == {"a": 100, "b": 1000, "text": "number 1000"}
    # Many requests on one connection, and several connections at once.
    urls = [f"https://localhost:{server.port}/{name}" for name in ["hello.txt", "big.bin"] * 10]
    run = curl("--cacert", authority.ca, *urls)
    assert run.stdout == (b"Hello, world.\n" + bytes(range(256)) * 40_000) * 10


def test_pipelined_requests_are_answered_in_order(secure, authority):
    server = secure()
    with connect(server.port, authority) as connection:
        connection.sendall(b"".join(b"GET /hello.txt?%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % i for i in range(500))
                           + b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        data = read_to_end(connection)
    assert data.count(b"HTTP/1.1 200 OK") == 500 and data.count(b"HTTP/1.1 404") == 1
    assert data.rindex(b"HTTP/1.1 404") > data.rindex(b"HTTP/1.1 200")


def test_alpn(secure, authority):
    server = secure()
    with connect(server.port, authority, alpn=["http/1.1"]) as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"
    with connect(server.port, authority) as connection:
        assert connection.selected_alpn_protocol() is None
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        connect(server.port, authority, alpn=["spdy/1"]).close()


def test_the_host_chooses_the_certificate(secure, authority, localhost):
    first = authority.issue("first", ["first.example"])
    wild = authority.issue("wild", ["*.wild.example", "second.example"])
    rsa = authority.issue("rsa", ["first.example"], key_type=("rsa:2048",))
    server = secure("".join(f'[[server.tls.certificate]]\ncert = "{cert}"\nkey = "{key}"\n'
                            for cert, key in (first, wild, rsa)))
    for host, name in [("localhost", "localhost"), ("first.example", "first"), ("second.example", "wild"),
                       ("a.wild.example", "wild")]:
        run = curl("--cacert", authority.ca, "-v", "--resolve", f"{host}:{server.port}:127.0.0.1",
                   f"https://{host}:{server.port}/hello.txt")
        assert f"subject: CN={name}".encode() in run.stderr
    run = curl("--cacert", authority.ca, "-v", "--tls-max", "1.2", "--ciphers", "ECDHE-RSA-AES128-GCM-SHA256",
               "--resolve", f"first.example:{server.port}:127.0.0.1", f"https://first.example:{server.port}/hello.txt")
    assert b"subject: CN=rsa" in run.stderr, "a client without ECDSA gets the RSA certificate for the same name"
    with connect(server.port, authority, host="127.0.0.1") as connection:
        assert subject_of(connection) == "localhost"


def test_sessions_are_resumed(secure, authority, tmp_path):
    server = secure()
    arguments = ["s_client", "-connect", f"127.0.0.1:{server.port}", "-CAfile", authority.ca, "-servername", "localhost"]
    run = openssl(*arguments, "-reconnect", "-tls1_2", "-no_ign_eof", input=b"")
    assert run.stdout.count(b"Reused, TLSv1.2") == 5
    session = tmp_path / "session"
    get = b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for expected in b"New, TLSv1.3", b"Reused, TLSv1.3", b"Reused, TLSv1.3":
        resume = ["-sess_in", session] if session.exists() else []
        run = openssl(*arguments, "-tls1_3", "-ign_eof", "-sess_out", session, *resume, input=get)
        assert expected in run.stdout and b"Hello, world." in run.stdout
    text = server.admin("/metrics")[1]
    assert re.search(r'^sluice_tls_handshakes_total\{resumed="true"\} 7$', text, re.M), text
    assert re.search(r'^sluice_tls_handshakes_total\{resumed="false"\} 2$', text, re.M), text


def test_plain_http_on_the_tls_port_is_400(secure):
    server = secure()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        data = read_to_end(connection)
    assert data.startswith(b"HTTP/1.1 400 ") and b"HTTPS" in data
    assert 'reason="plain_http"} 1\n' in server.admin("/metrics")[1]


def test_garbage_harms_nobody(secure, authority):
    server = secure(server='header_timeout = "500ms"')
    bad = [os.urandom(n) for n in (1, 5, 50, 500, 5000, 50_000)]
    bad += [b"\x16\x03\x01\x40\x00\x01" + os.urandom(3000), b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x00\x02", b""]
    with connect(server.port, authority) as healthy:
        for garbage in bad:
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
                try:
                    connection.sendall(garbage)
                    read_to_end(connection)
                except OSError:
                    pass
            with connect(server.port, authority) as connection:
                try:
                    with socket.socket(fileno=os.dup(connection.fileno())) as below:
                        below.sendall(garbage or b"\x17")
                    read_to_end(connection)
                except OSError:
                    pass
        with pytest.raises(ssl.SSLError):
            context = ssl.create_default_context(cafile=authority.ca)
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as plain:
                context.wrap_socket(plain, server_hostname="another.host")
        assert read_to_end(healthy) == b"", "the idle one was closed in good order"
    assert curl("--cacert", authority.ca, f"https://localhost:{server.port}/hello.txt").stdout == b"Hello, world.\n"


def test_idle_connections_end_with_a_goodbye(secure, authority):
    server = secure(server='idle_timeout = "200ms"')
    with connect(server.port, authority) as connection:
        request(connection)
        assert read_answer(connection)[1] == b"Hello, world.\n"
        assert connection.recv(100) == b""  # no SSLEOFError
    with connect(server.port, authority) as connection:
        request(connection, more="Connection: close\r\n")
        assert read_to_end(connection).endswith(b"Hello, world.\n")
    with connect(server.port, authority) as connection:
        request(connection)
        read_answer(connection)
        connection.unwrap().close()  # raises an error if the server does not answer close_notify


def test_a_client_that_says_goodbye_still_gets_its_answer(secure, authority):
    server = secure()
    context = ssl.create_default_context(cafile=authority.ca)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as plain:
        def until(action):
            while True:
                try:
                    result = action()
                    plain.sendall(outgoing.read())
                    return result
                except ssl.SSLWantReadError:
                    plain.sendall(outgoing.read())
                    data = plain.recv(65536)
                    incoming.write(data) if data else incoming.write_eof()
        until(client.do_handshake)
        client.write(b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            client.unwrap()
        except ssl.SSLWantReadError:
            pass
        plain.sendall(outgoing.read())
        data = b""
        while piece := plain.recv(65536):
            data += piece
        # Without the answer's head and its 14 bytes this would be shorter.
        assert len(data) > 150


def test_redirect_and_hsts(both, authority):
    server = both('redirect = true\nhsts = "1d"')
    answer = server.get("/hello.txt?a=b")
    assert answer.status == 301 and answer.get("location") == f"https://test:{server.tls_port}/hello.txt?a=b"
    assert answer.get("strict-transport-security") is None
    assert server.get("/hello.txt", method="POST").status == 308
    assert server.get("*", method="OPTIONS").status == 204  # it asks about the server, not about a URL
    absolute = server.get(f"http://test:{server.port}/hello.txt?a=b")  # the form that clients send to proxies
    assert absolute.status == 301 and absolute.get("location") == f"https://test:{server.tls_port}/hello.txt?a=b"
    run = curl("--cacert", authority.ca, "-iL", f"http://127.0.0.1:{server.port}/hello.txt")
    assert run.stdout.endswith(b"Hello, world.\n")
    assert b"\r\nStrict-Transport-Security: max-age=86400\r\n" in run.stdout
    assert b"HTTP/1.1 301 " in run.stdout and b"HTTP/1.1 200 " in run.stdout


def test_plain_and_tls_side_by_side(both, authority):
    server = both()
    assert server.get("/hello.txt").status == 200
    run = curl("--cacert", authority.ca, "-i", f"https://127.0.0.1:{server.tls_port}/hello.txt")
    assert run.stdout.endswith(b"Hello, world.\n") and b"Strict-Transport" not in run.stdout


def test_clients_show_certificates(secure, authority, tmp_path):
    client, key = authority.issue("client")
    stranger, stranger_key = Authority(tmp_path / "strangers").issue("stranger")
    for mode in "require", "optional":
        server = secure(f'client_ca = "{authority.ca}"\nclient_auth = "{mode}"')
        url = f"https://localhost:{server.port}/hello.txt"
        assert curl("--cacert", authority.ca, "--cert", client, "--key", key, url).stdout == b"Hello, world.\n"
        assert curl("--cacert", authority.ca, "--cert", stranger, "--key", stranger_key, url, check=False).returncode
        assert (curl("--cacert", authority.ca, url, check=False).returncode == 0) == (mode == "optional")


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_sighup_changes_the_certificate_and_fails_no_request(secure, authority):
    certificate, key = authority.issue("before")
    server = secure(certificate=(certificate, key))
    over = threading.Event()
    failures, done = [], [0]

    def load(kept):
        try:
            while not over.is_set():
                with connect(server.port, authority) as connection:
                    for _ in range(5 if kept else 1):
                        request(connection)
                        head, body = read_answer(connection)
                        assert head.startswith(b"HTTP/1.1 200") and body == b"Hello, world.\n"
                        done[0] += 1
        except Exception as error:
            failures.append(repr(error))

    def current():
        with connect(server.port, authority) as connection:
            return subject_of(connection)

    threads = [threading.Thread(target=load, args=(i % 2,)) for i in range(4)]
    try:
        with connect(server.port, authority) as old:
            for thread in threads:
                thread.start()
            for generation in range(5):
                new, new_key = authority.issue(f"after{generation}")
                os.replace(new, certificate)
                os.replace(new_key, key)
                server.process.send_signal(signal.SIGHUP)
                wait_for(lambda: current() == f"after{generation}")
            before = done[0]
            wait_for(lambda: failures or done[0] > before + 20)
            request(old)
            assert read_answer(old)[1] == b"Hello, world.\n"
            assert subject_of(old) == "before"
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures


def test_a_bad_certificate_leaves_the_old_one(secure, authority):
    certificate, key = authority.issue("good")
    server = secure(certificate=(certificate, key))
    good = key.read_bytes()
    for bad in b"", authority.issue("unfit")[1].read_bytes():
        mark = len(server.log)
        key.write_bytes(bad)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "stay in use" in server.log[mark:])
        with connect(server.port, authority) as connection:
            assert subject_of(connection) == "good"
    key.write_bytes(good)
    mark = len(server.log)
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "read again" in server.log[mark:])


def test_files_that_change_are_noticed(secure, authority):
    certificate, key = authority.issue("watched")
    server = secure(certificate=(certificate, key))
    new, new_key = authority.issue("noticed")
    os.replace(new, certificate)
    os.replace(new_key, key)

    def current():
        with connect(server.port, authority) as connection:
            return subject_of(connection)
    wait_for(lambda: current() == "noticed", 60)


def test_sighup_without_tls_is_survived(sluice, files):
    server = sluice(files)
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "the configuration has been read again" in server.log)
    assert server.get("/hello.txt").status == 200


def test_sigterm_finishes_what_runs(secure, authority):
    server = secure()
    with connect(server.port, authority) as idle, connect(server.port, authority) as busy, \
            socket.create_connection(("127.0.0.1", server.port), timeout=20) as mute:
        request(idle)
        read_answer(idle)
        request(busy, "/big.bin")
        first = busy.recv(1000)
        server.terminate()
        assert idle.recv(100) == b""
        assert mute.recv(100) == b""
        data = first + read_to_end(busy)
        assert data.endswith(bytes(range(256)) * 40_000)
    server.stop()


def check(tmp_path, files, localhost, server):
    file = tmp_path / "sluice.toml"
    file.write_text(f'[server]\nlisten = ["127.0.0.1:{free_port()}"]\n{server}\n{files}')
    run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=20)
    return run.returncode, run.stderr


def test_check(tmp_path, files, authority, localhost):
    other = authority.issue("other")
    cert, key = localhost
    good = f'[server.tls]\ncert = "{cert}"\nkey = "{key}"\n'
    assert check(tmp_path, files, localhost, good) == (0, "")
    for server, line, text in [
        (f'[server.tls]\ncert = "{cert}"\nkey = "{other[1]}"\n', 5, "is not the key of"),
        (f'[server.tls]\ncert = "none.pem"\nkey = "{key}"\n', 4, f"{tmp_path}/none.pem cannot be read"),
        (f'[server.tls]\ncert = "{key}"\nkey = "{key}"\n', 4, "holds no PEM certificate"),
        (good + f'[[server.tls.certificate]]\ncert = "{cert}"\nkey = "{other[1]}"\n', 8, "is not the key of"),
        (good + 'client_auth = "require"\n', 6, "client_ca"),
        (good + f'client_ca = "{authority.ca}"\n', 6, "client_auth"),
        (good + f'client_ca = "{key}"\nclient_auth = "optional"\n', 6, "holds no PEM certificates"),
        (good + "redirect = true\n", 6, "http://"),
        (good + "redirect_port = 443\n", 6, "redirect"),
        ('[server.tls]\nkey = "a"\n', 3, "cert"),
    ]:
        code, error = check(tmp_path, files, localhost, server)
        assert code == 3 and f"sluice.toml:{line}:" in error and text in error, (server, error)
    file = tmp_path / "schemes.toml"
    for listen, text in [('"https://127.0.0.1:1"', "[server.tls]"), ('"ftp://127.0.0.1:1"', "not an address"),
                         ('"http://127.0.0.1:1", "127.0.0.1:1"', "already")]:
        file.write_text(f"[server]\nlisten = [{listen}]\n{files}")
        run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=20)
        assert run.returncode == 3 and text in run.stderr, run.stderr
    file.write_text(f'[server]\nlisten = ["http://127.0.0.1:1"]\n{good}{files}')
    run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=20)
    assert run.returncode == 3 and "no address" in run.stderr, run.stderr


def test_check_warns_of_what_expires(tmp_path, files, authority, localhost):
    soon = authority.issue("soon", days=2)
    code, error = check(tmp_path, files, localhost, tls_table(soon))
    assert code == 0 and "expires on 20" in error


def test_the_log_and_a_metric_say_when_certificates_expire(sluice, files, authority, tmp_path):
    def ends(path):
        """The first notAfter of the certificates in a file, Unix time."""
        certificates = re.findall(rb"-+BEGIN CERTIFICATE.+?END CERTIFICATE-+", path.read_bytes(), re.S)
        return min(x509.load_pem_x509_certificate(one).not_valid_after.replace(tzinfo=datetime.timezone.utc).timestamp()
                   for one in certificates)

    def expiry(path, use):
        return server.sample(f'sluice_tls_certificate_expiry_timestamp_seconds{{certificate="{path}",use="{use}"}}')

    soon, own = authority.issue("five-days", days=5), authority.issue("own", days=13)
    later, expired = authority.issue("later", ["later.test"], days=60), authority.issue_expired("ended", "ended.test")
    others = "".join(f'[[server.tls.certificate]]\ncert = "{certificate}"\nkey = "{key}"\n' for certificate, key in (later, expired))
    server = sluice(files + f'''[[upstream]]
name = "back"
servers = ["https://127.0.0.1:9"]
tls = {{ ca = "{authority.ca}", cert = "{own[0]}", key = "{own[1]}" }}
[[route]]
path = "/back"
upstream = "back"
''', server=tls_table(soon, f'client_auth = "optional"\nclient_ca = "{authority.ca}"\n' + others))
    for path, use in ((soon[0], "server"), (later[0], "server"), (expired[0], "server"), (authority.ca, "client_ca"),
                      (own[0], "upstream"), (authority.ca, "upstream_ca")):
        assert expiry(path, use) == ends(path), (path, use)
    assert f"certificates: one in {soon[0]} expires in 5 days, on 20" in server.log
    assert f"certificates: one in {own[0]} expires in 13 days, on 20" in server.log
    assert f"certificates: one in {expired[0]} has expired on 20" in server.log
    assert f"one in {authority.ca}" not in server.log and f"one in {later[0]}" not in server.log
    assert authority.issue("five-days", days=20)[0] == soon[0]
    server.process.send_signal(signal.SIGHUP)
    until(lambda: f"certificates: one in {soon[0]} expires in 20 days" in server.log)
    assert expiry(soon[0], "server") == ends(soon[0])
    assert len(re.findall("certificates: one in .+ (?:expires in|has expired on)", server.log)) == 4, "each once"
