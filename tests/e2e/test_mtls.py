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
    def start(back, ca=authority.ca, mode="optional"):
        routes = "".join(f'[[route]]\npath = "/{name}"\nupstream = "back"\nuse = ["{name}"]\n' for name in PATHS)
        plain_port = free_port()
        tls = tls_table(localhost, f'client_ca = "{ca}"\nclient_auth = "{mode}"')
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
