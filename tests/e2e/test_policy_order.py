"""Several policies in front of one route of each kind: their order, those of [defaults], and policies that come more than once."""
import itertools
import json
import subprocess
import threading

import pytest

from conftest import SLUICE
from test_gateway import echo, gateway, said, wait_until
from test_policies import KEY, OTHER, PATHS, PROXY, everywhere, main_db, opens_websocket, statuses
from test_reload import reload
from tokens import Secret, soon
from upstream import Upstream, response

SECRET = Secret()
TOKEN = f"Authorization: Bearer {SECRET.token(soon(sub='ada'))}"
WITH_KEY = f"X-API-Key: {KEY}"
# Three policies whose refusals differ. "judge" is another server.
ADDRESS_AND_KEY = f'''
[policy.near]
type = "ip"
allow = ["10.0.0.0/8"]
[policy.key]
type = "api-key"
keys.acme = "{KEY}"
'''
JUDGE = '''
[policy.judge]
type = "auth-request"
upstream = "judge"
path = "/judge"
'''
PASS = {"near": "X-Forwarded-For: 10.1.1.1", "key": WITH_KEY, "judge": "X-Session: good"}
REFUSAL = {"near": (403, None), "key": (401, 'ApiKey realm="sluice"'), "judge": (401, "Session")}


def names(*use):
    return json.dumps(use)


def judge(request, _):
    good = ("x-session", "good") in request[2]
    return response() if good else response(b"", "WWW-Authenticate: Session", status="401 Unauthorized")


def with_judge(other):
    return f'[[upstream]]\nname = "judge"\nservers = ["{other.url}"]\n{ADDRESS_AND_KEY}{JUDGE}'


def refusal(answer):
    return answer.status, answer.get("www-authenticate")


@pytest.mark.parametrize("default", [0, 1, 3], ids=["in use", "the first in [defaults]", "all in [defaults]"])
@pytest.mark.parametrize("order", itertools.permutations(PASS), ids=" ".join)
def test_the_first_that_refuses_answers(sluice, main_db, order, default):
    """Wherever the policies are named, the request must pass them in this order, on each kind of route."""
    with Upstream(echo) as back, Upstream(judge) as other:
        text = everywhere(back, names(*order[default:])) + with_judge(other)
        if default:
            text += f"[defaults]\nuse = {names(*order[:default])}\n"
        server = sluice(text, server=f'trusted_proxies = ["{PROXY}"]')
        with server.connect(source=PROXY) as client:
            for passed in itertools.product([False, True], repeat=3):
                fields = [PASS[name] for name, passes in zip(order, passed) if passes]
                first = next((name for name, passes in zip(order, passed) if not passes), None)
                asked, forwarded = len(other.requests), len(back.requests)
                for path in PATHS:
                    answer = client.get(path, *fields)
                    assert first is None and answer.status == 200 or refusal(answer) == REFUSAL[first], path
                # A policy behind the one that refuses is not asked.
                reached = first is None or order.index("judge") <= order.index(first)
                assert len(other.requests) - asked == reached * len(PATHS)
                assert len(back.requests) - forwarded == (first is None)
        with server.connect(source=PROXY) as client:
            upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                       "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
            for count in range(3):
                answer = client.get("/ws", *upgrade, *(PASS[name] for name in order[:count]))
                assert refusal(answer) == REFUSAL[order[count]]
            assert client.get("/ws", *upgrade, *PASS.values()).status == 101


def test_public_has_only_its_own_policies(sluice, main_db, tmp_path):
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/hello.txt").touch()
    with Upstream(echo) as back, Upstream(judge) as other:
        text = everywhere(back, names("key")).replace('use = ["key"]', 'use = ["key"]\npublic = true')
        server = sluice(text + with_judge(other) + f'[defaults]\nuse = {names("near", "judge")}\n'
                        '[[route]]\npath = "/closed"\nrespond = 200\n[[files]]\npath = "/site/closed"\nroot = "closed"\n'
                        '[[route]]\npath = "/open"\nrespond = 200\npublic = true\n')
        with server.connect() as client:
            assert statuses(client) == {401} and statuses(client, WITH_KEY) == {200}
            for path in ("/closed", "/site/closed/hello.txt"):
                assert refusal(client.get(path, WITH_KEY)) == REFUSAL["near"]
            assert client.get("/open").status == 200
        assert (opens_websocket(server), opens_websocket(server, WITH_KEY)) == (401, 101)
        assert not other.requests


@pytest.mark.parametrize("change", [
    (f'use = {names("near", "key")}\n', f'use = {names("key", "near")}\n'),
    (f'use = {names("near", "key")}\n', f'use = {names("key")}\n'),
], ids=["another order", "one less"])
def test_a_reload_changes_the_order(sluice, main_db, change):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, names("near", "key")) + ADDRESS_AND_KEY)
        with server.connect() as client:
            assert {refusal(client.get(path)) for path in PATHS} == {REFUSAL["near"]}
            server.file.write_text(server.file.read_text().replace(*change))
            assert reload(server)[0] == 200
            assert {refusal(client.get(path)) for path in PATHS} == {REFUSAL["key"]}  # on the connection from before


# ---- several policies of a type ----

def test_addresses_must_pass_every_policy(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, names("home", "not-guest", "low")) + '''
[policy.home]
type = "ip"
allow = ["127.0.0.0/8"]
[policy.not-guest]
type = "ip"
deny = ["127.0.0.6"]
[policy.low]
type = "ip"
allow = ["127.0.0.0/28"]
deny = ["127.0.0.7"]
''')
        for address, status in {"127.0.0.1": 200, "127.0.0.15": 200, "127.0.0.6": 403, "127.0.0.7": 403, "127.0.0.16": 403}.items():
            with server.connect(source=address) as client:
                assert statuses(client) == {status}, address


FIELDS = '''
[policy.one]
type = "headers"
request.set = { X-A = "one", X-B = "one" }
request.add = { X-C = "one" }
response.set = { X-A = "one", X-B = "one" }
response.add = { X-C = "one" }
[policy.two]
type = "headers"
request.set = { X-A = "two" }
request.add = { X-C = "two" }
request.remove = ["X-B", "X-Debug"]
response.set = { X-A = "two" }
response.add = { X-C = "two" }
response.remove = ["X-B", "X-Back"]
'''


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")], ids=" ".join)
def test_fields_change_on_the_way_in_and_in_reverse_on_the_way_out(sluice, main_db, order):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, names(*order)) + FIELDS)
        with server.connect() as client:
            for path in PATHS:
                answer = client.get(path, "X-A: client", "X-B: client", "X-C: client", "X-Debug: 1")
                fields = [(name, value) for name, value in answer.fields if name.startswith("x-")]
                # The first policy sees an answer last.
                assert [value for name, value in fields if name == "x-a"] == [order[0]], path
                assert [value for name, value in fields if name == "x-b"] == (["one"] if order[0] == "one" else []), path
                assert [value for name, value in fields if name == "x-c"] == [*reversed(order)], path
                assert answer.get("x-back") is None
            [(_, _, fields, _)] = back.requests
            assert [value for name, value in fields if name == "x-a"] == [order[1]]
            assert [value for name, value in fields if name == "x-b"] == (["one"] if order[1] == "one" else [])
            assert [value for name, value in fields if name == "x-c"] == ["client", *order]
            assert "x-debug" not in dict(fields)


def test_fields_of_refusals_come_from_the_policies_before(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, names("before", "key", "after")) + ADDRESS_AND_KEY + '''
[policy.before]
type = "headers"
response.set = { X-Before = "{client.ip}" }
[policy.after]
type = "headers"
response.set = { X-After = "{claim.sub}" }
''')
        with server.connect() as client:
            for path in (*PATHS, "/site/missing", "/known/7", "/ws"):
                refused = client.get(path)
                assert (refused.status, refused.get("x-before"), refused.get("x-after")) == (401, "127.0.0.1", None), path
                passed = client.get(path, WITH_KEY)
                assert passed.status != 401 and (passed.get("x-before"), passed.get("x-after")) == ("127.0.0.1", "acme"), path


RATES = '''
[policy.all]
type = "rate-limit"
rate = "1/d"
burst = 3
per = "route"
[policy.each]
type = "rate-limit"
rate = "1/d"
burst = 1
per = "header.X-Tenant"
'''


@pytest.mark.parametrize("use, expected", [
    (("all", "each"), [200, 429, 429, 429]),  # the second request uses the route's token, and so does the third
    (("each", "all"), [200, 429, 429, 200]),
], ids=["all each", "each all"])
def test_a_request_that_a_later_limit_refuses_has_used_the_earlier(sluice, main_db, use, expected):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, names(*use)) + RATES, server="cores = 1")
        for path in ("/endpoint", "/site/hello.txt", "/known", "/back/a"):
            with server.connect() as client:
                tenants = ["a", "a", "a", "b"]
                answers = [client.get(path, f"X-Tenant: {path[1:3]}{tenant}") for tenant in tenants]
                assert [answer.status for answer in answers] == expected, path
                assert answers[1].get("ratelimit-policy").startswith('"each"')


@pytest.mark.parametrize("use, expected", [(("all", "key"), 429), (("key", "all"), 200)], ids=["all key", "key all"])
def test_attempts_without_a_key_count_only_before_it(sluice, main_db, use, expected):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, names(*use)) + RATES + ADDRESS_AND_KEY, server="cores = 1")
        for path in ("/endpoint", "/site/hello.txt", "/known", "/back/a"):
            with server.connect() as client:
                assert [client.get(path).status for _ in range(3)] == [401] * 3
                assert client.get(path, WITH_KEY).status == expected, path
        for _ in range(3):
            assert opens_websocket(server) == 401
        assert opens_websocket(server, WITH_KEY) == (429 if expected == 429 else 101)


def test_a_policy_of_defaults_and_of_use_counts_once(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, names("all")) + RATES + f'[defaults]\nuse = {names("each", "all")}\n', server="cores = 1")
        with server.connect() as client:
            tenants = [f"X-Tenant: {number}" for number in range(4)]
            assert [client.get("/endpoint", tenant).status for tenant in tenants] == [200, 200, 200, 429]


def test_the_shortest_body_counts(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(gateway(back.url, route=f'use = {names("large", "key", "small")}') + ADDRESS_AND_KEY + '''
[policy.large]
type = "body-limit"
size = "1KiB"
[policy.small]
type = "body-limit"
size = "10B"
''')
        with server.connect() as client:
            assert client.call("POST", "/", b"x" * 10, WITH_KEY).status == 200
            assert client.call("POST", "/", b"x" * 10).status == 401
        for length, fields, status in ((11, (), 401), (11, (WITH_KEY,), 413), (1025, (), 413)):  # each at its place
            with server.connect() as client:
                assert client.call("POST", "/", b"x" * length, *fields).status == status
        with server.connect() as client:
            client.send(f"POST / HTTP/1.1\r\nHost: test\r\n{WITH_KEY}\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n{'x' * 11}\r\n")
            assert client.read().status == 413
        assert len([request for request in back.requests if request[3]]) == 1


def test_a_request_needs_a_place_of_every_policy(sluice, main_db):
    released = threading.Event()

    def slowly(request, connection):
        released.wait(30)
        return response()

    with Upstream(slowly) as back:
        server = sluice(gateway(back.url, route=f'use = {names("each", "all")}') + '''
[policy.each]
type = "concurrency"
requests = 1
per = "header.X-Tenant"
[policy.all]
type = "concurrency"
requests = 2
''')
        clients = [server.connect() for _ in range(2)]
        for client, tenant in zip(clients, "ab"):
            client.send(f"GET / HTTP/1.1\r\nHost: test\r\nX-Tenant: {tenant}\r\n\r\n")
        wait_until(lambda: len(back.requests) == 2)
        for tenant in "abc":  # the third tenant has a place of its own, and there is none in total
            assert server.get("/", f"X-Tenant: {tenant}").status == 503
        released.set()
        for client in clients:
            assert client.read().status == 200
            client.close()
        for tenant in "abc":  # a refused request holds no place
            wait_until(lambda: server.get("/", f"X-Tenant: {tenant}").status == 200)


def test_claims_reach_the_policies_behind(sluice, main_db):
    """[defaults] asks for the token, and the route's own policies use its claims."""
    with Upstream(echo) as back:
        server = sluice(everywhere(back, names("fields", "by-subject")) + f'''
[defaults]
use = ["auth"]
[policy.auth]
type = "jwt"
secret = "{SECRET.secret}"
[policy.fields]
type = "headers"
request.set = {{ X-User = "{{claim.sub}}" }}
response.set = {{ X-For = "{{claim.sub}}" }}
[policy.by-subject]
type = "rate-limit"
rate = "1/d"
burst = 5
per = "claim.sub"
''', server="cores = 1")
        with server.connect() as client:
            for path in PATHS:
                assert client.get(path, "X-User: root").status == 401
                assert client.get(path, TOKEN, "X-User: root").get("x-for") == "ada"
            [request] = back.requests
            assert [value for name, value in request[2] if name == "x-user"] == ["ada"]
            assert client.get("/endpoint", TOKEN).status == 429
            bob = f"Authorization: Bearer {SECRET.token(soon(sub='bob'))}"
            assert said(client.get("/back/a", bob))[1]["x-user"] == "bob"
        assert opens_websocket(server, TOKEN) == 429 and opens_websocket(server, bob) == 101


# ---- what cannot be ----

JWT = f'[policy.{{}}]\ntype = "jwt"\nsecret = "{SECRET.secret}"\n'
API_KEY = f'[policy.{{}}]\ntype = "api-key"\nkeys.acme = "{OTHER}"\n'
CORS = '[policy.{}]\ntype = "cors"\norigins = ["https://a.example"]\n'
USES_CLAIMS = '[policy.{}]\ntype = "headers"\nrequest.set = {{ X-User = "{{claim.sub}}" }}\n'


@pytest.mark.parametrize("policies, use, defaults, public, says", [
    ([JWT], "a a", "", False, '"a" comes twice'),
    ([JWT], "", "a a", False, '"a" comes twice'),
    ([JWT, JWT], "a b", "", False, 'one policy of type "jwt" at most'),
    ([JWT, JWT], "b", "a", False, 'one policy of type "jwt" at most'),
    ([JWT, API_KEY], "a b", "", False, 'a route takes its claims from one policy, not from "a" and "b"\n'),
    ([JWT, API_KEY], "", "a b", False, 'a route takes its claims from one policy, not from "a" and "b"\n'),
    ([JWT, API_KEY], "b", "a", False, '"a" is from [defaults], which do not apply with public = true'),
    ([CORS, CORS], "b", "a", False, 'one policy of type "cors" at most'),
    ([USES_CLAIMS, JWT], "a b", "", False, "[policy.a] uses claims, and no policy before it gives any"),
    ([USES_CLAIMS, JWT], "b", "a", False, "[policy.a] uses claims, and no policy before it gives any"),
    ([USES_CLAIMS, JWT], "a", "b", True, "[policy.a] uses claims, and no policy before it gives any"),
    ([JWT], "", "b", False, "there is no [policy.b]"),
    ([USES_CLAIMS, JWT], "a", "b", False, None),
    ([JWT, JWT], "b", "a", True, None),
    ([JWT, API_KEY], "b", "a", True, None),
    ([JWT], "a", "a", False, None),
])
def test_orders_that_cannot_be(tmp_path, policies, use, defaults, public, says):
    file = tmp_path / "sluice.toml"
    text = "".join(policy.format(name) for policy, name in zip(policies, "ab"))
    file.write_text(f"[defaults]\nuse = {names(*defaults.split())}\n{text}[[route]]\npath = \"/\"\nrespond = 200\n"
                    f"use = {names(*use.split())}\npublic = {str(public).lower()}\n"
                    f"[[route]]\npath = \"/b\"\nrespond = 200\npublic = true\n")
    run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == (3 if says else 0) and (says or "ok") in run.stdout + run.stderr, run.stdout + run.stderr
