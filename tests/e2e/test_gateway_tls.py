"""TLS and unix sockets between the gateway and the servers of an upstream; the servers use Python's ssl."""
import shutil
import ssl
import subprocess

import pytest

from certificates import Authority, openssl
from conftest import SLUICE
from http1 import Broken
from test_gateway import echo, gateway, said, wait_until
from test_reload import reload
from upstream import Upstream, response, websocket_echo
from websocket import TEXT, WebSocket


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("strangers") / "stranger")


def speaks(certificate, ask_for=None):
    """A server's TLS context. `ask_for`: the CA file that clients' certificates must be signed by."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    if ask_for:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(ask_for)
    return context


def tls(**keys):
    keys = {name: "false" if value is False else f'"{value}"' for name, value in keys.items()}
    return "tls = { " + ", ".join(f"{name} = {value}" for name, value in keys.items()) + " }"


def metric(server, name, back):
    return server.sample(f'{name}{{upstream="back",server="{back.name}"}}')


def test_a_request_goes_over_tls(sluice, authority, localhost):
    seen = []
    context = speaks(localhost)
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.sni_callback = lambda connection, name, _: seen.append(name)

    def answer(request, connection):
        seen.append(connection.selected_alpn_protocol())
        return echo(request, connection)

    with Upstream(answer, tls=context) as back:
        server = sluice(gateway(back.url, upstream=tls(ca=authority.ca)), server="cores = 1")
        with server.connect() as client:
            first, fields, _ = said(client.call("POST", "/a", b"x" * 100_000))
            assert first == "POST /a" and fields["host"] == "test" and fields["x-forwarded-proto"] == "http"
            assert client.get("/b").status == 200
        assert seen == ["localhost", "http/1.1", "http/1.1"] and back.connections == 1
        assert metric(server, "sluice_upstream_connections_opened_total", back) == 1


def test_long_bodies_and_websockets(sluice, authority, localhost):
    long = bytes(range(256)) * 20_000

    def answer(request, connection):
        if request[1] == "/chat":
            return websocket_echo(request, connection)
        if request[1] == "/end":
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + long)
            connection.unwrap()  # sends close_notify
            return None
        if request[1] == "/cut":
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + long)
            return None  # closes without close_notify, as an attacker between the two could
        assert request[3] == long
        return response(long)

    with Upstream(answer, tls=speaks(localhost)) as back:
        server = sluice(gateway(back.url, upstream=tls(ca=authority.ca)), server='body_limit = "32MiB"')
        with server.connect() as client:
            assert client.call("POST", "/", long).body == long
            assert client.get("/end").body == long
            with pytest.raises(Broken):
                client.get("/cut")
        with WebSocket(server.port, "/chat") as client:
            client.say(TEXT, "over TLS")
            assert client.frame().payload == b"over TLS"
            client.close_with(1000)


def first_certificate(file):
    text = file.read_text()
    return text[:text.index("-----END CERTIFICATE-----") + 26]


@pytest.mark.parametrize("trusted", ["the middle", "the server", "the server, self-signed"])
def test_trusted_certificates_need_not_be_self_signed(sluice, authority, stranger, tmp_path, trusted):
    middle = Authority(tmp_path / "middle", authority)
    certificate = middle.issue("own")
    ca = tmp_path / "trusted.pem"
    ca.write_text(first_certificate(middle.ca if trusted == "the middle" else certificate[0]))
    if trusted == "the server, self-signed":
        ca, key = tmp_path / "self.pem", tmp_path / "self.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 30, "-subj", "/CN=localhost",
                "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", ca)
        certificate = ca, key
    with Upstream(echo, tls=speaks(certificate)) as back, Upstream(echo, tls=speaks(authority.issue("by-the-root"))) as other:
        assert sluice(gateway(back.url, upstream=tls(ca=ca))).get("/").status == 200
        assert sluice(gateway(other.url, upstream=tls(ca=ca))).get("/").status == 502


@pytest.mark.parametrize("crl", ["soft", "hard"])
def test_revoked_servers_are_not_trusted(sluice, authority, tmp_path, crl):
    middle = Authority(tmp_path / "middle", authority)
    good, lost = middle.issue("good"), middle.issue("lost")
    ca = tmp_path / "trusted.pem"

    def write_trusted(*lists):
        ca.write_bytes(b"".join([authority.ca.read_bytes(), *lists]))

    write_trusted(authority.revocation_list(), middle.revocation_list(lost[0]))
    both = tls(ca=ca, crl=crl) if crl == "hard" else tls(ca=ca)
    with Upstream(echo, tls=speaks(good)) as back, Upstream(echo, tls=speaks(lost)) as revoked:
        assert sluice(gateway(revoked.url, upstream=both)).get("/").status == 502
        server = sluice(gateway(back.url, upstream=both), server="cores = 1")
        assert server.get("/").status == 200
        write_trusted(authority.revocation_list(), middle.revocation_list(expired=True))
        reload(server)
        assert server.get("/").status == (200 if crl == "soft" else 502)
        assert f"upstream back: {ca} holds a revocation list of CN=CA middle that has expired on 20" in server.log
        assert ("TLS: certificate verify failed: CRL has expired (CN=good)" in server.log) == (crl == "hard")
        write_trusted(authority.revocation_list(middle.ca), middle.revocation_list())
        reload(server)
        assert server.get("/").status == 502
        fresh = sluice(gateway(back.url, upstream=both))
        assert fresh.get("/").status == 502
        assert "TLS: certificate verify failed: certificate revoked (CN=CA middle)" in fresh.log


REFUSED = {
    "expired": (lambda own, other: own.issue_expired("expired"), "certificate has expired"),
    "another name": (lambda own, other: own.issue("another", ["another.example"]), "hostname mismatch"),
    "another authority": (lambda own, other: other.issue("unknown"), "self-signed certificate in certificate chain"),
    "self-signed": (lambda own, other: (other.ca, other.folder / "ca.key"), "self-signed certificate"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_that_is_not_trusted(sluice, authority, stranger, case):
    make, why = REFUSED[case]
    with Upstream(echo, tls=speaks(make(authority, stranger))) as back:
        server = sluice(gateway(back.url, upstream=tls(ca=authority.ca)))
        answer = server.get("/secret")
        assert answer.status == 502 and b"certificate" not in answer.body
        assert f"{back.name}: it cannot be reached: TLS: " in server.log and why in server.log
        assert not back.requests, "nothing is sent to it"
        assert metric(server, "sluice_upstream_connection_failures_total", back) == 1
        trusting = sluice(gateway(back.url, upstream=tls(verify=False)))
        assert trusting.get("/secret").status == 200


def test_the_system_is_trusted_by_default(sluice, authority, localhost, tmp_path):
    with Upstream(echo, tls=speaks(localhost)) as back:
        assert sluice(gateway(back.url)).get("/").status == 502
        server = sluice(gateway(back.url), env={"SSL_CERT_FILE": str(authority.ca)})
        assert server.get("/").status == 200


def test_the_name_may_be_another(sluice, authority):
    seen = []
    context = speaks(authority.issue("inner", ["inner.example"]))
    context.sni_callback = lambda connection, name, _: seen.append(name)
    with Upstream(echo, tls=context) as back:
        by_address = f"https://127.0.0.1:{back.port}"
        server = sluice(gateway(by_address, upstream=tls(ca=authority.ca, name="inner.example")))
        assert server.get("/").status == 200 and seen == ["inner.example"]
        server = sluice(gateway(by_address, upstream=tls(ca=authority.ca)))
        assert server.get("/").status == 502 and seen[-1] is None and "IP address mismatch" in server.log


def test_a_certificate_of_our_own(sluice, authority, stranger, localhost):
    own, wrong = authority.issue("gateway"), stranger.issue("gateway")
    with Upstream(echo, tls=speaks(localhost, ask_for=authority.ca)) as back:
        server = sluice(gateway(back.url, upstream=tls(ca=authority.ca, cert=own[0], key=own[1])))
        assert server.get("/").status == 200
        for keys in ({}, {"cert": wrong[0], "key": wrong[1]}):
            server = sluice(gateway(back.url, upstream=tls(ca=authority.ca, **keys)))
            # A TLS 1.3 server refuses after the handshake, and its reset may arrive before the refusal is read.
            assert server.get("/").status == 502
            assert f"{back.name}: it " in server.log
        assert len(back.requests) == 1


def test_no_tls_where_it_is_wanted_and_the_other_way_round(sluice, authority, localhost):
    with Upstream(echo) as plain:
        server = sluice(gateway(plain.url.replace("http:", "https:"), upstream=tls(ca=authority.ca)))
        assert server.get("/").status == 502 and "it cannot be reached: TLS: " in server.log
    with Upstream(echo, tls=speaks(localhost)) as secure:
        server = sluice(gateway(f"http://127.0.0.1:{secure.port}"))
        assert server.get("/").status == 502


def test_files_that_cannot_be_used_refuse_the_start(tmp_path, authority, stranger, localhost):
    (tmp_path / "empty.pem").write_text("")
    head = '[server]\nlisten = ["127.0.0.1:0"]\n'

    def said_of(**keys):
        file = tmp_path / "sluice.toml"
        file.write_text(head + gateway("https://a.example", upstream=tls(**keys)))
        run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode != 0, keys
        return run.stderr + run.stdout

    for keys, name, why in ((dict(ca="none.pem"), "ca", "none.pem cannot be read"),
                            (dict(ca="empty.pem"), "ca", "empty.pem holds no PEM certificates"),
                            (dict(cert="none.pem", key=localhost[1]), "cert", "none.pem cannot be read"),
                            (dict(cert=localhost[0], key="empty.pem"), "key", "empty.pem holds no PEM private key"),
                            (dict(cert=localhost[0], key=stranger.folder / "ca.key"), "key", "is not the key of")):
        text = said_of(**keys)
        line = (tmp_path / "sluice.toml").read_text().split("\n").index(tls(**keys)) + 1
        column = tls(**keys).index(f'{name} = "') + len(f"{name} = ") + 1
        assert f"sluice.toml:{line}:{column}" in text and why in text, text


def test_a_reload_reads_the_files_again(sluice, authority, stranger, tmp_path):
    """A changed file counts as a change, even if the configuration is the same."""
    ca = tmp_path / "ca.pem"
    shutil.copy(authority.ca, ca)
    with Upstream(echo, tls=speaks(authority.issue("first"))) as back:
        server = sluice(gateway(back.url, upstream=tls(ca="ca.pem")), server="cores = 1")
        assert server.get("/").status == 200
        text = server.file.read_text()
        server.file.write_text(text + '[server.headers]\nX-A = "1"\n')
        assert reload(server)[0] == 200
        assert server.get("/").get("x-a") == "1" and back.connections == 1, "it goes on"
        shutil.copy(stranger.ca, ca)
        assert reload(server)[0] == 200
        assert server.get("/").status == 502
        ca.write_text("")
        assert reload(server)[0] != 200
        shutil.copy(authority.ca, ca)
        assert reload(server)[0] == 200
        assert server.get("/").status == 200
        wait_until(lambda: len(back.open) == 1)


def test_a_unix_socket(sluice, tmp_path):
    path = tmp_path / "app.sock"
    with Upstream(echo, path=path) as back:
        server = sluice(gateway(back.url), server="cores = 1")
        with server.connect() as client:
            first, fields, _ = said(client.call("POST", "/a", b"hello"))
            assert first == "POST /a" and fields["host"] == "test"
            client.send(b"GET /b HTTP/1.0\r\n\r\n")
            assert said(client.read())[1]["host"] == "localhost"
        assert back.connections == 1
        assert metric(server, "sluice_upstream_requests_total", back) == 2
    assert server.get("/").status == 502
    assert f"unix:{path}: it cannot be reached: " in server.log
    with Upstream(websocket_echo, path=path):
        with WebSocket(server.port, "/chat") as client:
            client.say(TEXT, "hello")
            assert client.frame().payload == b"hello"


@pytest.mark.parametrize("unix", [False, True], ids=["tls", "unix"])
def test_probes_reach_the_server_as_requests_do(sluice, tmp_path, authority, localhost, unix):
    hosts = []

    def answer(request, connection):
        hosts.append(dict(request[2])["host"])
        return echo(request, connection)

    with Upstream(answer, **{"path": tmp_path / "app.sock"} if unix else {"tls": speaks(localhost)}) as back:
        keys = "" if unix else tls(ca=authority.ca) + "\n"
        server = sluice(gateway(back.url, upstream=keys + 'health = { path = "/healthz", every = "10ms" }'))

        def probes(result):
            return server.sample(f'sluice_upstream_probes_total{{upstream="back",server="{back.name}",result="{result}"}}')

        wait_until(lambda: probes("passed") >= 2)
        assert probes("failed") == 0
        assert hosts[0] == ("localhost" if unix else f"localhost:{back.port}")


def test_a_probe_has_the_name_of_the_certificate(sluice, authority, localhost):
    with Upstream(echo, tls=speaks(localhost)) as back:
        address = f"https://127.0.0.1:{back.port}"
        keys = tls(ca=authority.ca, name="localhost") + '\nhealth = { path = "/healthz", every = "10ms" }'
        server = sluice(gateway(address, upstream=keys))
        wait_until(lambda: server.sample(
            f'sluice_upstream_probes_total{{upstream="back",server="{address}",result="passed"}}'))
        assert {dict(request[2])["host"] for request in back.requests} == {"localhost"}
