"""[admin] token: who may use the admin listener."""
import subprocess
import urllib.error
import urllib.request

import pytest

from conftest import SLUICE

TOKEN = "0123456789-abcdef"
FILES = '[[files]]\npath = "/"\nroot = "site"\n'


def ask(server, path, *authorization, method="GET"):
    """(status, fields) of the admin listener."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin_port}{path}", method=method)
    for value in authorization:
        request.add_header("Authorization", value)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers


def text_of(token):
    return f'[server]\nlisten = ["${{LISTEN}}"]\n[admin]\nlisten = "${{ADMIN}}"\ntoken = "{token}"\n{FILES}'


@pytest.fixture
def server(sluice, site):
    file = site.parent / "sluice.toml"
    file.write_text(text_of(TOKEN))
    return sluice(file=file)


@pytest.mark.parametrize("path, method", [("/metrics", "GET"), ("/upstreams", "GET"), ("/reload", "POST"), ("/none", "GET"), ("/livez/", "GET")])
def test_requests_need_the_token(server, path, method):
    for wrong in ([], ["Bearer 0123456789-abcdeF"], [f"Bearer {TOKEN}0"], [f"Bearer {TOKEN[:-1]}"], [f"Basic {TOKEN}"], [TOKEN], ["Bearer "]):
        status, fields = ask(server, path, *wrong, method=method)
        assert status == 401 and fields["WWW-Authenticate"] == "Bearer", wrong
    status, _ = ask(server, path, f"Bearer {TOKEN}", method=method)
    assert status == (404 if path in ("/none", "/livez/") else 200)


def test_probes_need_no_token(server):
    assert ask(server, "/livez")[0] == 200 and ask(server, "/readyz")[0] == 200
    assert ask(server, "/livez", "Bearer wrong")[0] == 200


def sluice_reload(server, *words):
    environment = {"LISTEN": f"127.0.0.1:{server.port}", "ADMIN": f"127.0.0.1:{server.admin_port}"}
    done = subprocess.run([SLUICE, "reload", *words], capture_output=True, text=True, timeout=60, env=environment)
    return done.returncode, done.stdout + done.stderr


def test_the_reload_command_sends_the_token_of_the_file(server):
    done = (0, "The configuration has been read again.\n")
    assert sluice_reload(server, str(server.file)) == done
    assert sluice_reload(server, "--admin", f"127.0.0.1:{server.admin_port}", str(server.file)) == done
    code, said = sluice_reload(server, "--admin", f"127.0.0.1:{server.admin_port}", str(server.file.parent / "none.toml"))
    assert code == 1 and "the server answered 401" in said


def test_a_reload_changes_the_token(server):
    other = TOKEN[::-1]
    server.file.write_text(text_of(other))
    assert ask(server, "/reload", f"Bearer {TOKEN}", method="POST")[0] == 200
    assert ask(server, "/metrics", f"Bearer {TOKEN}")[0] == 401
    assert ask(server, "/metrics", f"Bearer {other}")[0] == 200
    server.file.write_text(text_of(other).replace(f'token = "{other}"\n', ""))
    assert ask(server, "/reload", f"Bearer {other}", method="POST")[0] == 200
    assert ask(server, "/metrics")[0] == 200


def check(folder, admin):
    (folder / "sluice.toml").write_text(f"[admin]\n{admin}\n{FILES}")
    done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=20, cwd=folder)
    return done.returncode, done.stderr


@pytest.mark.parametrize("address", ["*:8081", "0.0.0.0:8081", "[::]:8081", "10.0.0.1:8081"])
def test_an_address_that_other_machines_reach_needs_a_token(site, address):
    code, said = check(site.parent, f'listen = "{address}"')
    assert code == 3
    assert said.startswith("sluice.toml:2:10: error: [admin] needs a token, because other machines reach this address\n")
    assert check(site.parent, f'listen = "{address}"\ntoken = "{TOKEN}"')[0] == 0


@pytest.mark.parametrize("address", ["127.0.0.1:8081", "[::1]:8081", "unix:admin.sock", ""])
def test_an_address_of_this_machine_needs_none(site, address):
    assert check(site.parent, f'listen = "{address}"') == (0, "")


@pytest.mark.parametrize("token", ["", "short", "0123456789 abcdef", "0123456789äabcdef"])
def test_a_token_is_long_and_fits_into_a_field(site, token):
    code, said = check(site.parent, f'token = "{token}"')
    assert code == 3
    assert said.startswith("sluice.toml:2:9: error: admin.token must have at least 16 letters, digits and characters of -._~+/=\n")
    assert not token or token not in said
