"""[policy.NAME] of type mtls, with certificates of real clients in front of a real server."""
import json
import re
import signal
import socket
import ssl
import subprocess

import pytest

from certificates import Authority, tls_table
from cluster import free_port
from conftest import SLUICE
from test_gateway import echo, wait_until
from test_tls import read_answer, request
from upstream import Upstream

POLICIES = '''
[policy.any]
type = "mtls"
[policy.subject]
type = "mtls"
subject = ["CN=Jürgen,OU=a\\\\, b,O=Example"]
[policy.san]
type = "mtls"
san = ["ada@Example.org", "*.jobs.example", "spiffe://example/import"]
'''
PATHS = ("any", "subject", "san")


@pytest.fixture(scope="module")
def clients(authority):
    return {
        "named": authority.issue("named", subject="/O=Example/OU=a, b/CN=Jürgen"),
        "reversed": authority.issue("reversed", subject="/CN=Jürgen/OU=a, b/O=Example"),
        "email": authority.issue("email", names=["email:ada@example.org"]),
        "job": authority.issue("job", ["One.Jobs.Example"]),
        "deep": authority.issue("deep", ["a.one.jobs.example"]),
        "uri": authority.issue("uri", names=["URI:spiffe://example/import"]),
        "other": authority.issue("other", names=["URI:spiffe://example/import/2", "email:Ada@example.org"]),
    }


ADMITTED = {"named": ("any", "subject"), "reversed": ("any",), "email": ("any", "san"), "job": ("any", "san"),
            "deep": ("any",), "uri": ("any", "san"), "other": ("any",)}


@pytest.fixture
def server(sluice, tmp_path, localhost, authority):
    """TLS on the first address, plain HTTP on the second, which is `.plain_port`."""
    def start(back, ca=authority.ca, mode="optional", more=""):
        routes = "".join(f'[[route]]\npath = "/{name}"\nupstream = "back"\nuse = ["{name}"]\n' for name in PATHS)
        plain_port = free_port()
        tls = tls_table(localhost, f'client_ca = "{ca}"\nclient_auth = "{mode}"\n{more}')
        file = tmp_path / "mtls.toml"
        file.write_text(f'[server]\nlisten = ["https://${{LISTEN}}", "http://127.0.0.1:{plain_port}"]\n{tls}[admin]\n'
                        f'listen = "${{ADMIN}}"\n[[upstream]]\nname = "back"\nservers = ["{back.url}"]\n{routes}{POLICIES}')
        started = sluice(file=file)
        started.plain_port = plain_port
        return started
    return start


def curl(authority, url, *more, certificate=None):
    shown = ["--cert", certificate[0], "--key", certificate[1]] if certificate else []
    run = subprocess.run(["curl", "-sS", "--max-time", "30", "-w", "\n%{http_code}", "--cacert", str(authority.ca),
                          *map(str, shown), *more, url], capture_output=True, text=True, timeout=60)
    body, _, status = run.stdout.rpartition("\n")
    return int(status), body


@pytest.mark.parametrize("version", [("--http1.1",), ("--http2",), ("--http1.1", "--tls-max", "1.2")], ids=" ".join)
def test_names_decide(server, authority, clients, version):
    with Upstream(echo) as back:
        running = server(back)
        for client, certificate in clients.items():
            for name in PATHS:
                status, body = curl(authority, f"https://localhost:{running.port}/{name}", *version,
                                    certificate=certificate)
                assert status == (200 if name in ADMITTED[client] else 403), (client, name)
                if status == 403:
                    assert json.loads(body)["detail"] == "Clients with this certificate may not come here."
        assert len(back.requests) == sum(len(names) for names in ADMITTED.values())
        for url in f"https://localhost:{running.port}/any", f"http://localhost:{running.plain_port}/any":
            status, body = curl(authority, url)
            assert status == 403
            assert json.loads(body)["detail"] == "The client has shown no certificate on this connection."
        assert running.sample('sluice_mtls_refusals_total{policy="any",reason="missing"}') == 2
        assert running.sample('sluice_mtls_refusals_total{policy="san",reason="name"}') == 4


def context_of(authority, certificate, maximum):
    context = ssl.create_default_context(cafile=authority.ca)
    context.maximum_version = maximum
    if certificate:
        context.load_cert_chain(*certificate)
    return context


def status_of(context, port, path, session=None):
    """The status, whether the session was resumed, and the session for the next connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
        with context.wrap_socket(plain, server_hostname="localhost", session=session) as connection:
            request(connection, path)
            head, _ = read_answer(connection)
            return int(re.match(rb"HTTP/1.1 (\d+)", head).group(1)), connection.session_reused, connection.session


@pytest.mark.parametrize("maximum", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_resumed_session_keeps_its_certificate(server, authority, clients, maximum):
    with Upstream(echo) as back:
        running = server(back)
        for certificate, any_, subject in ((clients["named"], 200, 200), (clients["uri"], 200, 403), (None, 403, 403)):
            context = context_of(authority, certificate, maximum)
            status, reused, session = status_of(context, running.port, "/any")
            assert (status, reused) == (any_, False)
            status, reused, session = status_of(context, running.port, "/any", session)
            assert (status, reused) == (any_, True)
            assert status_of(context, running.port, "/subject", session)[:2] == (subject, True)


def test_a_reload_reads_the_authority_again(server, authority, clients, tmp_path):
    other = Authority(tmp_path / "other")
    ca = tmp_path / "clients.pem"
    ca.write_bytes(authority.ca.read_bytes())
    with Upstream(echo) as back:
        running = server(back, ca)
        url = f"https://localhost:{running.port}/any"
        newcomer = other.issue("newcomer")
        assert curl(authority, url, certificate=clients["named"])[0] == 200
        assert curl(authority, url, certificate=newcomer)[0] == 0
        ca.write_bytes(other.ca.read_bytes())
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "certificates: read again" in running.log)
        wait_until(lambda: curl(authority, url, certificate=newcomer)[0] == 200)
        assert curl(authority, url, certificate=clients["named"])[0] == 0


@pytest.fixture(scope="module")
def middle(authority, tmp_path_factory):
    """An authority whose certificate the test's root has signed."""
    return Authority(tmp_path_factory.mktemp("middle") / "middle", authority)


def refusals(running):
    return re.findall(r"tls: refused the certificate of 127.0.0.1: (.*)", running.log)


@pytest.mark.parametrize("maximum", ["1.2", "1.3"])
def test_a_revoked_certificate_is_refused(server, authority, middle, clients, tmp_path, maximum):
    """The client's own one and that of its authority, also after a reload and for sessions from before."""
    ca = tmp_path / "clients.pem"
    good, lost = middle.issue("good"), middle.issue("lost")
    lists = [authority.revocation_list(), middle.revocation_list()]
    ca.write_bytes(b"".join([authority.ca.read_bytes(), *lists]))
    with Upstream(echo) as back:
        running = server(back, ca)
        url = f"https://localhost:{running.port}/any"

        def status(certificate):
            return curl(authority, url, "--tls-max", maximum, certificate=certificate)[0]

        def reread(*lists):
            before = running.log.count("certificates: read again")
            ca.write_bytes(b"".join([authority.ca.read_bytes(), *lists]))
            running.process.send_signal(signal.SIGHUP)
            wait_until(lambda: running.log.count("certificates: read again") > before)

        for certificate in (good, lost, clients["named"]):
            assert status(certificate) == 200
        context = context_of(authority, lost, getattr(ssl.TLSVersion, f"TLSv{maximum.replace('.', '_')}"))
        session = status_of(context, running.port, "/any")[2]
        reread(authority.revocation_list(), middle.revocation_list(lost[0]))
        wait_until(lambda: status(lost) == 0)
        assert status(good) == 200 and status(clients["named"]) == 200
        wait_until(lambda: refusals(running))
        assert refusals(running)[0] == "certificate verify failed: certificate revoked (CN=lost)"
        with pytest.raises(OSError):
            status_of(context, running.port, "/any", session)
        reread(authority.revocation_list(middle.ca), middle.revocation_list())
        wait_until(lambda: status(good) == 0)
        assert status(clients["named"]) == 200
        # A line is written once a second.
        wait_until(lambda: status(good) == 0 and "certificate revoked (CN=CA middle)" in refusals(running)[-1])


@pytest.mark.parametrize("crl", ["soft", "hard"])
@pytest.mark.parametrize("fault", ["missing", "expired"])
def test_lists_that_are_missing_or_have_expired(server, authority, middle, tmp_path, fault, crl):
    ca = tmp_path / "clients.pem"
    good, lost = middle.issue("good"), middle.issue("lost")
    lists = [authority.revocation_list()] + ([middle.revocation_list(lost[0], expired=True)] if fault == "expired" else [])
    ca.write_bytes(b"".join([authority.ca.read_bytes(), *lists]))
    with Upstream(echo) as back:
        running = server(back, ca, more=f'crl = "{crl}"')
        url = f"https://localhost:{running.port}/any"
        assert curl(authority, url, certificate=good)[0] == (200 if crl == "soft" else 0)
        assert curl(authority, url, certificate=lost)[0] == (200 if crl == "soft" and fault == "missing" else 0)
        if fault == "expired":
            assert f"{ca} holds a revocation list of CN=CA middle that has expired on 20" in running.log
        elif crl == "soft":
            wait_until(lambda: f"tls: {ca} holds no revocation list of CN=CA middle; its certificates are accepted" in running.log)
        if crl == "hard":
            wait_until(lambda: refusals(running))
            assert refusals(running)[0] == "certificate verify failed: " + (
                "CRL has expired (CN=good)" if fault == "expired" else "unable to get certificate CRL (CN=good)")


def test_hard_needs_a_list(tmp_path, localhost, authority):
    tls = tls_table(localhost, f'client_ca = "{authority.ca}"\nclient_auth = "require"\ncrl = "hard"')
    (tmp_path / "sluice.toml").write_text(f'[[route]]\npath = "/"\nrespond = 200\n[server]\nlisten = ["https://127.0.0.1:{free_port()}"]\n{tls}')
    done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode != 0 and f'{authority.ca} holds no revocation list, which crl = "hard" needs' in done.stderr


def test_an_intermediate_authority_alone_is_trusted(server, authority, middle, clients):
    with Upstream(echo) as back:
        running = server(back, middle.ca)
        url = f"https://localhost:{running.port}/any"
        assert curl(authority, url, certificate=middle.issue("member"))[0] == 200
        assert curl(authority, url, certificate=clients["named"])[0] == 0
        wait_until(lambda: refusals(running))
        assert refusals(running) == ["certificate verify failed: self-signed certificate in certificate chain (CN=CA authority)"]


def test_refused_clients_are_logged(server, authority, tmp_path):
    stranger = Authority(tmp_path / "strangers").issue("stranger")
    with Upstream(echo) as back:
        running = server(back, mode="require")
        url = f"https://localhost:{running.port}/any"
        assert curl(authority, url)[0] == 0
        wait_until(lambda: refusals(running) == ["peer did not return a certificate"])
        # A core writes a line once a second.
        why = "certificate verify failed: self-signed certificate in certificate chain (CN=CA strangers)"
        wait_until(lambda: curl(authority, url, certificate=stranger)[0] == 0 and refusals(running)[-1].startswith(why))


@pytest.mark.parametrize("policy, auth, says", [
    ("", False, "sluice.toml:1:9: error: [policy.p] admits nobody, because no client is asked for a certificate"),
    ('subject = ["CN=ada, O=Example"]', True, "policy.p.subject must have no spaces around its parts"),
    ('san = ["a.*.example"]', True, "policy.p.san must be a host name, in which only the first label may be"),
])
def test_what_check_refuses(tmp_path, localhost, authority, policy, auth, says):
    tls = tls_table(localhost, f'client_ca = "{authority.ca}"\nclient_auth = "require"') if auth else ""
    (tmp_path / "sluice.toml").write_text(f'[policy.p]\ntype = "mtls"\n{policy}\n[[route]]\npath = "/"\nrespond = 200\n'
                                          f'use = ["p"]\n[server]\nlisten = ["127.0.0.1:{free_port()}"]\n{tls}')
    done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode != 0 and says in done.stderr, done.stderr
