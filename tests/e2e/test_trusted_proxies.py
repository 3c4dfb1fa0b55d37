"""[server] trusted_proxies: which peers may name the client's address and scheme. Peers are loopback addresses."""
import json
import signal
import subprocess

import pytest

from cluster import free_port
from conftest import SLUICE
from test_gateway import echo, gateway, said, wait_until
from upstream import Upstream

PROXY, OTHER = "127.0.0.2", "127.0.0.1"
SAYS = ("X-Forwarded-For: 6.6.6.6, 1.2.3.4", "X-Forwarded-For: 127.0.0.3", "X-Forwarded-Proto: https", "X-Forwarded-Host: b",
        "X-Forwarded-Port: 7")


def forwarded(answer):
    return {name[12:]: value for name, value in said(answer)[1].items() if name.startswith("x-forwarded-")}


def logged(server):
    return [line["client"] for line in map(json.loads, (line for line in server.log.splitlines() if line.startswith("{")))]


def test_a_trusted_proxy_says_who_the_client_is(sluice):
    with Upstream(echo) as back:
        server = sluice(gateway(back.url), server='cores = 1\naccess_log = "stdout"\n'
                        'trusted_proxies = ["127.0.0.2/31", "2001:db8::/32"]')
        with server.connect(source=PROXY) as client:
            assert forwarded(client.get("/", *SAYS)) == {"for": "6.6.6.6, 1.2.3.4, 127.0.0.3, 127.0.0.2", "proto": "https",
                                                         "host": "b", "port": "7"}
            assert forwarded(client.get("/")) == {"for": "127.0.0.2", "proto": "http", "host": "test"}
            assert forwarded(client.get("/", "X-Forwarded-For: 1.2.3.4, unknown")) == {
                "for": "1.2.3.4, unknown, 127.0.0.2", "proto": "http", "host": "test"}
        # Other peers are not trusted.
        with server.connect(source=OTHER) as client:
            assert forwarded(client.get("/", *SAYS)) == {"for": "127.0.0.1", "proto": "http", "host": "test"}
        subprocess.run(["curl", "-s", "--http2-prior-knowledge", "--interface", PROXY, "-H", "X-Forwarded-For: 1.2.3.5",
                        f"http://127.0.0.1:{server.port}/"], check=True, timeout=60, capture_output=True)
        wait_until(lambda: logged(server) == ["1.2.3.4", "127.0.0.2", "127.0.0.2", "127.0.0.1", "1.2.3.5"])


def test_another_field_may_name_the_client(sluice):
    says = ("X-Forwarded-For: 6.6.6.6", "X-Forwarded-Proto: https", "CF-Connecting-IP: 1.2.3.4", "CF_Connecting_IP: 6.6.6.6")
    with Upstream(echo) as back:
        server = sluice(gateway(back.url), server='access_log = "stdout"\ntrusted_proxies = ["127.0.0.2"]\n'
                                                  'client_header = "CF-Connecting-IP"')
        with server.connect(source=PROXY) as client:
            answer = client.get("/", *says)
            assert forwarded(answer) == {"for": "1.2.3.4, 127.0.0.2", "proto": "https", "host": "test"}
            fields = said(answer)[1]
            assert fields["cf-connecting-ip"] == "1.2.3.4" and "cf_connecting_ip" not in fields
            assert forwarded(client.get("/", says[0]))["for"] == PROXY
        with server.connect(source=OTHER) as client:
            answer = client.get("/", *says)
            assert forwarded(answer) == {"for": OTHER, "proto": "http", "host": "test"}
            assert not {"cf-connecting-ip", "cf_connecting_ip"} & said(answer)[1].keys()
        wait_until(lambda: logged(server) == ["1.2.3.4", PROXY, OTHER])


MAPPED = ("192.0.2.{}", "::ffff:192.0.2.{}", "::FFFF:192.0.2.{}", "0:0:0:0:0:ffff:192.0.2.{}", "::ffff:c000:2{:02x}",
          "[::ffff:192.0.2.{}]:80")


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_a_mapped_address_is_the_ipv4_address(sluice, version):
    policies = """
[policy.rate]
type = "rate-limit"
rate = "6/h"
[policy.ip]
type = "ip"
deny = ["192.0.2.9"]
[policy.says]
type = "headers"
request.set = { X-Real-IP = "{client.ip}" }
"""
    with Upstream(echo) as back:
        server = sluice(gateway(back.url, route='use = ["ip", "rate", "says"]', more=policies),
                        server=f'cores = 1\naccess_log = "stdout"\ntrusted_proxies = ["{PROXY}"]')
        curl = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--interface", PROXY]
        if version == "2":
            curl.append("--http2-prior-knowledge")

        def status(form, number):
            command = [*curl, "-H", f"X-Forwarded-For: {form.format(number)}", f"http://127.0.0.1:{server.port}/"]
            return int(subprocess.run(command, check=True, timeout=60, capture_output=True).stdout)

        assert [status(form, 7) for form in MAPPED] == [200] * 6
        assert [status(form, 7) for form in MAPPED] == [429] * 6
        assert [status(form, 8) for form in MAPPED] == [200] * 6, "another client"
        assert [status(form, 9) for form in MAPPED] == [403] * 6
        assert {dict(request[2])["x-real-ip"] for request in back.requests} == {"192.0.2.7", "192.0.2.8"}
        expected = ["192.0.2.7"] * 12 + ["192.0.2.8"] * 6 + ["192.0.2.9"] * 6
        wait_until(lambda: logged(server) == expected)


@pytest.mark.parametrize("keys, what", [('client_header = "X-Real-IP"', 'needs "trusted_proxies"'),
                                        ('trusted_proxies = ["unix:"]\nclient_header = "forwarded"', "Forwarded (RFC 7239) is not read"),
                                        ('trusted_proxies = ["unix:"]\nclient_header = "X Y"', "must be the name of a header field")])
def test_what_cannot_name_the_client_is_refused(tmp_path, keys, what):
    file = tmp_path / "bad.toml"
    file.write_text(f'[server]\n{keys}\n[[files]]\npath = "/"\nroot = "."\n')
    run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 3 and what in run.stderr, run.stderr


def test_the_redirect_to_https_sees_the_clients_scheme(sluice, localhost, site):
    file = site.parent / "both.toml"
    file.write_text(f'''
[server]
listen = ["http://${{LISTEN}}", "https://127.0.0.1:{free_port()}"]
trusted_proxies = ["{PROXY}"]
[server.tls]
cert = "{localhost[0]}"
key = "{localhost[1]}"
redirect = true
[admin]
listen = "${{ADMIN}}"
[[files]]
path = "/"
root = "site"
''')
    server = sluice(file=file)
    with server.connect(source=PROXY) as client:
        assert client.get("/hello.txt", "X-Forwarded-Proto: https").status == 200
        assert client.get("/hello.txt", "X-Forwarded-Proto: http").status == 301
        assert client.get("/hello.txt").status == 301
    with server.connect(source=OTHER) as client:
        assert client.get("/hello.txt", "X-Forwarded-Proto: https").status == 301


def test_a_reload_holds_from_the_next_request(sluice):
    with Upstream(echo) as back:
        server = sluice(gateway(back.url), server='trusted_proxies = ["127.0.0.9"]')
        with server.connect(source=PROXY) as client:
            assert forwarded(client.get("/", *SAYS))["for"] == PROXY
            text = server.file.read_text()
            server.file.write_text(text.replace("127.0.0.9", PROXY))
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: forwarded(client.get("/", *SAYS))["for"].startswith("6.6.6.6, "))


@pytest.mark.parametrize("bad, what", [("127.0.0.1/8", "has bits set behind its prefix"), ("localhost", "must be an address"),
                                       ("10.0.0.0/33", "0 to 32"), ("", "must be an address")])
def test_what_is_no_proxy_is_refused(tmp_path, bad, what):
    file = tmp_path / "bad.toml"
    file.write_text(f'[server]\ntrusted_proxies = ["10.0.0.1", "{bad}"]\n[[files]]\npath = "/"\nroot = "."\n')
    run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 3 and what in run.stderr and ":2:" in run.stderr, run.stderr
