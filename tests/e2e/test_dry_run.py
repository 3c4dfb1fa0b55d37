"""Policies with dry_run: they check and count as usual, and every request continues."""
import json
import subprocess

import pytest

from conftest import SLUICE
from test_auth_request import Judge, auth
from test_gateway import echo, gateway, said, wait_until
from test_limits import RUNNING, Slow, ask, concurrency, route
from test_policies import KEY, OTHER, everywhere, main_db, opens_websocket, statuses
from test_reload import reload
from tokens import Secret, soon
from upstream import Upstream, response

SECRET = Secret()
POLICIES = f'''
[policy.near]
type = "ip"
allow = ["10.0.0.0/8"]
dry_run = true
[policy.key]
type = "api-key"
keys.acme = "{KEY}"
dry_run = true
[policy.few]
type = "rate-limit"
rate = "1/d"
dry_run = true
'''


def would_refuse(server, policy):
    return server.sample(f'sluice_policy_dry_run_refused_total{{policy="{policy}"}}')


def test_every_request_passes_on_every_kind_of_route(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, '["near", "key", "few"]') + POLICIES)
        with server.connect() as client:
            assert statuses(client, f"X-API-Key: {KEY}") == {200}
            assert [would_refuse(server, name) for name in ("near", "key", "few")] == [5, 0, 4]
            assert statuses(client) == {200}
            assert statuses(client, f"X-API-Key: {OTHER}") == {200}
        assert opens_websocket(server) == 101
        assert [would_refuse(server, name) for name in ("near", "key", "few")] == [16, 11, 15]
        assert server.sample('sluice_api_key_refusals_total{policy="key",reason="unknown"}') == 5
        assert server.sample('sluice_ip_refusals_total{policy="near"}') == 16
        # Without dry_run, the next request is refused.
        server.file.write_text(server.file.read_text().replace("dry_run = true\n", ""))
        assert reload(server)[0] == 200
        assert server.get("/endpoint", f"X-API-Key: {KEY}").status == 403


def test_accepted_tokens_give_claims_and_others_do_not(sluice, main_db):
    server = sluice(f'''
[database.main]
url = "sqlite:main.db"
[[endpoint]]
path = "/me"
get = "SELECT :me AS me"
params.me = {{ from = "claim.sub" }}
use = ["auth"]
[policy.auth]
type = "jwt"
secret = "{SECRET.secret}"
dry_run = true
''')
    with server.connect() as client:
        for fields, name in (([f"Authorization: Bearer {SECRET.token(soon(sub='ada'))}"], "ada"),
                             ([f"Authorization: Bearer {Secret().token(soon(sub='eve'))}x"], None), ([], None)):
            assert json.loads(client.get("/me", *fields).body) == [{"me": name}]
    assert would_refuse(server, "auth") == 2


def test_permits_are_given_back(sluice):
    slow = Slow()
    with Upstream(slow.answer) as back:
        server = sluice(concurrency(1, 'queue = 5\nwait = "10m"\ndry_run = true') + route(back.url), server="cores = 2")
        clients = [server.connect() for _ in range(4)]
        for i, client in enumerate(clients):
            ask(client)
            wait_until(lambda: slow.arrived == i + 1)
        assert server.sample(RUNNING) == 1 and would_refuse(server, "limit") == 3
        slow.go_on.set()
        assert [client.read().status for client in clients] == [200] * 4
        wait_until(lambda: server.sample(RUNNING) == 0)
        for client in clients:
            assert client.get("/a").status == 200
            wait_until(lambda: server.sample(RUNNING) == 0)
            client.close()
        assert would_refuse(server, "limit") == 3


def test_a_client_cannot_send_the_fields_of_the_other_server(sluice):
    judge = Judge(response(b"", status="401 Unauthorized"))
    with Upstream(judge) as other, Upstream(echo) as back:
        config = auth(other.url).replace('type = "auth-request"', 'type = "auth-request"\ndry_run = true')
        server = sluice(gateway(back.url, route='use = ["login"]', more=config))
        with server.connect() as client:
            for answer in (judge.next, response(b"", status="500 Internal Server Error")):
                judge.next = answer
                _, fields, _ = said(client.get("/a", "X-Auth-Request-User: root", "X-Other: kept"))
                assert "x-auth-request-user" not in fields and fields["x-other"] == "kept"
            judge.next = response(b"", "X-Auth-Request-User: ada")
            assert said(client.get("/a"))[1]["x-auth-request-user"] == "ada"
        assert would_refuse(server, "login") == 2


@pytest.fixture
def check(tmp_path):
    def run(policies, use):
        (tmp_path / "sluice.toml").write_text(policies + f'[[route]]\npath = "/"\nrespond = 200\nuse = ["{use}"]\n')
        return subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    return run


def test_check_warns(check):
    done = check(POLICIES, "near")
    assert done.returncode == 0 and 'the policy "near" refuses no request, because of "dry_run"' in done.stderr


@pytest.mark.parametrize("policy", ['type = "headers"\nrequest_id = true', 'type = "cors"\norigins = ["*"]',
                                    'type = "body-limit"\nsize = "1KiB"'])
def test_types_without_a_dry_run(check, policy):
    done = check(f"[policy.p]\ndry_run = true\n{policy}\n", "p")
    assert done.returncode != 0 and "sluice.toml:2:11: error: a policy of type" in done.stderr, done.stderr
