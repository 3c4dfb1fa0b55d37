"""[policy.NAME] of the types that limit clients: "rate-limit", "concurrency" and "body-limit"."""
import hashlib
import json
import os
import re
import select
import sqlite3
import struct
import subprocess
import threading
import time

import pytest

from conftest import SLUICE, until
from http2 import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, Raw, frame, header_block
from test_policies import basic, hash_of
from test_reload import reload, write
from tokens import Secret, soon
from upstream import Upstream, response
from websocket import TEXT, WebSocket

SECRET = Secret()
KEYS = {"ada": "the-key-of-ada-012345", "bob": "the-key-of-bob-012345"}
DATABASE = '[database.main]\nurl = "sqlite:main.db"\n'
AUTH = f'[policy.auth]\ntype = "jwt"\nsecret = "{SECRET.secret}"\noptional = true\n'


@pytest.fixture(autouse=True)
def database(tmp_path):
    sqlite3.connect(tmp_path / "main.db").close()


def endpoint(path="/a", use="limit", more=""):
    names = ", ".join(f'"{name}"' for name in use.split())
    columns = "".join(f", :{name} AS {name}" for name in re.findall(r"{(\w+)}", path))
    return f'[[endpoint]]\npath = "{path}"\nget = "SELECT 1 AS one{columns}"\nuse = [{names}]\n{more}'


def limit(rate, more="", name="limit"):
    return f'[policy.{name}]\ntype = "rate-limit"\nrate = "{rate}"\n{more}\n'


def statuses(server, count, *targets, fields=()):
    with server.connect() as client:
        return [client.get(target, *fields).status for target in targets for _ in range(count)]


def test_a_hot_key_over_two_cores_never_gets_more(sluice):
    """Between any two moments, at most the burst and the rate times the interval are allowed."""
    rate, burst, clients = 200, 50, 16
    server = sluice(DATABASE + limit(f"{rate}/s", f"burst = {burst}") + endpoint(), server="cores = 2")
    answers = []

    def hammer():
        with server.connect() as client:
            own = []
            while len(own) < 400:
                begin = time.monotonic()
                status = client.get("/a").status
                own.append((begin, time.monotonic(), status))
            answers.extend(own)

    threads = [threading.Thread(target=hammer) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 400 * clients and {status for _, _, status in answers} <= {200, 429}
    allowed = sorted((begin, end) for begin, end, status in answers if status == 200)
    assert burst <= len(allowed) < len(answers)
    for i, (begin, _) in enumerate(allowed):
        for n, end in enumerate(sorted(end for _, end in allowed[i:]), 1):
            assert n <= burst + rate * (end - begin), (n, end - begin)
    counted = 'sluice_rate_limit_{}_total{{policy="limit"}}'
    assert server.sample(counted.format("allowed")) == len(allowed)
    assert server.sample(counted.format("refused")) == len(answers) - len(allowed)
    # Both cores have connections. The core that does not own the key waits for the owner only for some requests.
    assert 0 < server.sample(counted.format("waits")) < len(answers) / 2
    assert server.sample('sluice_rate_limit_keys{policy="limit"}') == 1


def test_the_whole_burst_whichever_cores_the_connections_are_on(sluice):
    server = sluice(DATABASE + limit("1/h", "burst = 100") + endpoint(), server="cores = 2")
    clients = [server.connect() for _ in range(16)]
    got = [clients[i % len(clients)].get("/a").status for i in range(120)]
    assert got == [200] * 100 + [429] * 20
    for client in clients:
        client.close()


def test_a_rate_per_day(sluice):
    server = sluice(DATABASE + limit("2/d") + endpoint())
    with server.connect() as client:
        assert [client.get("/a").status for _ in range(2)] == [200, 200]
        refused = client.get("/a")
        assert (refused.status, refused.get("ratelimit-policy")) == (429, '"limit";q=2;w=86400')
        assert 43000 <= int(refused.get("retry-after")) <= 43200


def test_what_a_client_is_told(sluice):
    server = sluice(DATABASE + limit("60/h", "burst = 2") + limit("2/m", 'tell = "always"', "b") + endpoint() + endpoint("/b", "b"))
    with server.connect() as client:
        assert client.get("/a").get("ratelimit") is None
        assert client.get("/a").status == 200
        refused = client.get("/a")
        assert (refused.status, refused.get("content-type")) == (429, "application/problem+json")
        assert json.loads(refused.body)["status"] == 429
        assert refused.get("ratelimit-policy") == '"limit";q=2;w=120' and refused.get("ratelimit") == '"limit";r=0;t=120'
        assert 50 <= int(refused.get("retry-after")) <= 60
        told = client.get("/b")
        assert (told.status, told.get("ratelimit-policy"), told.get("ratelimit")) == (200, '"b";q=2;w=60', '"b";r=1;t=30')
        assert client.get("/b").get("ratelimit") == '"b";r=0;t=60'
        refused = client.get("/b")
        assert refused.status == 429 and [name for name, _ in refused.fields].count("ratelimit") == 1


def test_all_kinds_of_routes(sluice, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/a.txt").write_text("a")
    config = DATABASE + limit("1/h", 'per = "route"') + endpoint() + '''
[[resident]]
name = "known"
query = "SELECT 1 AS id"
key = "id"
use = ["limit"]
[[files]]
path = "/site"
root = "site"
use = ["limit"]
[[websocket]]
path = "/echo"
handler = "echo"
use = ["limit"]
[batch]
use = ["limit"]
[openapi]
use = ["limit"]
[[route]]
path = "/back/{rest...}"
upstream = "back"
use = ["limit"]
[[upstream]]
name = "back"
'''
    with Upstream(lambda request, _: response(b"back")) as back:
        server = sluice(config + f'servers = ["{back.url}"]\n')
        for target in ("/a", "/known", "/known/1", "/site/a.txt", "/openapi.json", "/back/a"):
            assert statuses(server, 2, target) == [200, 429], target
        assert len(back.requests) == 1
    # A request of any method counts for the route, even if the method is not allowed.
    assert server.get("/a", method="TRACE").status == server.get("/a", method="OPTIONS").status == 429
    # A preflight does not count.
    preflight = ["Origin: https://a.example", "Access-Control-Request-Method: GET"]
    assert server.get("/a", *preflight, method="OPTIONS").status == 204
    first = WebSocket(server.port, "/echo")
    upgrade = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
    assert server.get("/echo", *upgrade).status == 429
    first.socket.close()
    with server.connect() as client:
        calls = json.dumps([{"method": "GET", "path": "/a"}]).encode()
        field = "Content-Type: application/json"
        inner = client.call("POST", "/batch", calls, field)
        assert inner.status == 429 and inner.get("retry-after") and "Call 0" in inner.body.decode()
        assert client.call("POST", "/batch", calls, field).get("ratelimit")  # the field is the batch's own


def test_what_is_counted_together(sluice):
    config = DATABASE + AUTH + (
        limit("1/h", 'per = "claim.sub"', "sub") + limit("1/h", 'per = "header.x-key"', "key")
        + limit("1/h", 'per = "path.tenant"', "tenant") + limit("1/h", 'per = ["header.x-key", "route"]', "both")
        + limit("1/h", name="client"))
    config += (endpoint("/sub", "auth sub") + endpoint("/key", "key") + endpoint("/t/{tenant}", "tenant")
               + endpoint("/u/{x}/{tenant}", "tenant") + endpoint("/one", "both") + endpoint("/two", "both") + endpoint("/client", "client"))
    server = sluice(config)
    with server.connect() as client:
        def status(target, *fields):
            return client.get(target, *fields).status

        def bearer(name):
            return f"Authorization: Bearer {SECRET.token(soon(sub=name))}"
        assert [status("/sub", bearer(name)) for name in ("ada", "ada", "bob", "ada")] == [200, 429, 200, 429]
        assert [status("/sub"), status("/sub")] == [200, 429]  # without a claim the client counts
        assert [status("/key", f"X-Key: {key}") for key in "aab"] == [200, 429, 200]
        assert [status("/key"), status("/key", "X-Key:")] == [200, 429]
        assert [status(target) for target in ("/t/a", "/u/b/a", "/t/b", "/u/a/b", "/u/a/c")] == [200, 429, 200, 429, 200]
        assert [status(target, "X-Key: a") for target in ("/one", "/two", "/one", "/two")] == [200, 200, 429, 429]
        assert [status("/client"), status("/client", "X-Forwarded-For: 192.0.2.1")] == [200, 429]


def test_claims_of_keys_and_passwords_are_counted(sluice):
    config = DATABASE + (
        f'[policy.keys]\ntype = "api-key"\nkeys.ada = "{KEYS["ada"]}"\nkeys.bob = "{KEYS["bob"]}"\n'
        f'[policy.staff]\ntype = "basic"\nusers.ada = "{hash_of("right")}"\n'
        + limit("1/h", 'per = "claim.sub"', "sub") + limit("2/h", name="tries") + limit("1/h", 'per = "claim.sub"', "user"))
    server = sluice(config + endpoint("/key", "keys sub") + endpoint("/user", "staff user") + endpoint("/guess", "tries staff"))
    with server.connect() as client:
        assert [client.get("/key", f"X-API-Key: {KEYS[name]}").status for name in ("ada", "ada", "bob", "ada")] == [200, 429, 200, 429]
        assert client.get("/key").status == 401
        # Behind a guard only authenticated requests count; before it, all attempts do.
        assert [client.get("/user", basic("ada", word)).status for word in ("wrong", "right", "right")] == [401, 200, 429]
        assert [client.get("/guess", basic("ada", word)).status for word in ("wrong", "wrong", "right")] == [401, 401, 429]


def test_a_token_brings_its_own_rate(sluice):
    config = DATABASE + AUTH + limit("2/h", 'per = "claim.sub"\nrate_claim = "plan.rate"\ntell = "always"')
    server = sluice(config + endpoint("/a", "auth limit"), server="cores = 2")

    def ask(client, sub, **claims):
        return client.get("/a", "Authorization: Bearer " + SECRET.token(soon(sub=sub, **claims)))

    with server.connect() as client:
        answers = [ask(client, "ada", plan={"rate": "4/d"}) for _ in range(5)]
        assert [one.status for one in answers] == [200] * 4 + [429]
        assert answers[0].get("ratelimit-policy") == '"limit";q=4;w=86400' and answers[0].get("ratelimit").startswith('"limit";r=3;')
        assert answers[4].get("ratelimit-policy") == '"limit";q=4;w=86400'
        for sub, plan in (("bob", {}), ("eve", {"rate": "many"}), ("dan", {"rate": 100}), ("joe", {"rate": "0/s"})):
            assert [ask(client, sub, plan=plan).status for _ in range(3)] == [200, 200, 429], (sub, plan)
        # With another rate, used tokens stay used. A core may remember a refusal for a second.
        until(lambda: ask(client, "ada", plan={"rate": "6/d"}).status == 200)
        assert [ask(client, "ada", plan={"rate": "6/d"}).status for _ in range(2)] == [200, 429]
        assert ask(client, "max", plan={"rate": "1000000/d"}).status == 200


def test_a_table_has_the_rates_of_its_keys(sluice, tmp_path):
    """An UPDATE changes the rate of a key on every core."""
    main = sqlite3.connect(tmp_path / "main.db", isolation_level=None)
    main.execute("CREATE TABLE keys (digest text PRIMARY KEY, owner text, rate text)")
    for name, rate in (("ada", "3/h"), ("bob", None)):
        main.execute("INSERT INTO keys VALUES (?, ?, ?)", (hashlib.sha256(KEYS[name].encode()).hexdigest(), name, rate))
    server = sluice(DATABASE + '''[[resident]]
name = "keys"
query = "SELECT digest, owner AS sub, rate FROM keys"
key = "digest"
refresh.every = "20ms"
serve = false
[policy.keys]
type = "api-key"
table = "keys"
''' + limit("1/h", 'per = "claim.sub"\nrate_claim = "rate"') + endpoint("/a", "keys limit"), server="cores = 2")
    clients = [server.connect() for _ in range(8)]  # on both cores

    def passed(name, count):
        return [clients[i % 8].get("/a", f"X-API-Key: {KEYS[name]}").status for i in range(count)].count(200)

    assert (passed("ada", 20), passed("bob", 20)) == (3, 1)
    main.execute("UPDATE keys SET rate = '10/h' WHERE owner = 'ada'")
    total = 3

    def more():
        nonlocal total
        total += passed("ada", 8)
        return total == 10

    until(more)
    assert passed("ada", 20) == 0 and passed("bob", 20) == 0
    main.execute("UPDATE keys SET rate = '2/h' WHERE owner = 'bob'")
    until(lambda: passed("bob", 1) == 1)
    assert passed("bob", 20) == 0
    main.close()
    for client in clients:
        client.close()


def test_the_client_is_whom_a_trusted_proxy_tells(sluice):
    server = sluice(DATABASE + limit("1/h") + endpoint(), server='trusted_proxies = ["127.0.0.2"]')

    def status(source, *clients):
        with server.connect(source=source) as client:
            return [client.get("/a", f"X-Forwarded-For: {one}").status for one in clients]
    assert status("127.0.0.2", "192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2") == [200, 429, 200, 200, 429]
    assert status("127.0.0.3", "192.0.2.8", "192.0.2.9") == [200, 429]  # not trusted


def test_new_keys_find_room(sluice):
    """Clients that choose their keys cannot keep others out: the key that is nearest to its whole burst is forgotten."""
    config = DATABASE + limit("1/h", 'per = "header.x-key"\nkeys = 2') + limit("1000000/s", 'burst = 1\nper = "header.x-key"\nkeys = 1', "fast")
    server = sluice(config + endpoint() + endpoint("/fast", "fast"), server="cores = 1")
    with server.connect() as client:
        assert [client.get("/a", f"X-Key: {key}").status for key in "abcc"] == [200, 200, 200, 429]
        assert [client.get("/fast", f"X-Key: {n}").status for n in range(50)] == [200] * 50
    assert server.sample('sluice_rate_limit_evicted_total{policy="limit"}') == 1
    assert server.sample('sluice_rate_limit_keys{policy="limit"}') == 2
    assert server.sample('sluice_rate_limit_keys{policy="fast"}') == 1


def test_reload_keeps_what_has_been_used(sluice):
    def config(more, use="limit"):
        return DATABASE + more + endpoint(use=use) + '[[websocket]]\npath = "/echo"\nhandler = "echo"\nuse = ["limit"]\n'

    server = sluice(config(limit("1/h", "burst = 10")), server="cores = 2")
    conversation = WebSocket(server.port, "/echo")
    assert statuses(server, 5, "/a") == [200] * 5  # six are used

    def change(text):
        write(server, text)
        assert reload(server)[0] == 200
    change(config(limit("1/h", "burst = 10")) + endpoint("/more"))
    assert statuses(server, 1, "/more", "/a") == [200] * 2
    change(config(limit("1/h", 'burst = 12\ntell = "always"')))
    got = server.get("/a")
    # Nine of twelve are used; the other core may hold one more as a loan.
    assert got.status == 200 and got.get("ratelimit")[:13] in ('"limit";r=3;t', '"limit";r=2;t')
    change(config(limit("1/h", "burst = 9")))
    until(lambda: statuses(server, 2, "/a") == [429] * 2)  # the other core may still use its loan
    # A refused configuration changes nothing.
    write(server, config(limit("1/h", "burst = 100")) + endpoint("/more", "none"))
    assert reload(server)[0] == 422
    assert statuses(server, 2, "/a") == [429] * 2
    conversation.say(TEXT, "still here")
    assert conversation.frame().payload == b"still here"
    # With another key the counters start anew.
    change(config(limit("1/h", 'burst = 2\nper = "route"')))
    assert statuses(server, 3, "/a") == [200, 200, 429]


@pytest.mark.parametrize("text, says, hint", [
    (limit("100"), 'policy.limit.rate must be a number of requests from 1 to 1000000 and "/s", "/m", "/h" or "/d"', ""),
    (limit("1/d", "burst = 50000"), 'has a "burst" of more than 40000', ""),
    (limit("0/s"), "policy.limit.rate must be", ""),
    (limit("1/s", 'per = "ip"'), 'policy.limit.per must be "client", "route"', ""),
    (limit("1/s", 'per = "claim.sub"'), 'counts by a claim, and no policy before it gives any', ""),
    (limit("1/s", 'per = "path.tenan"'), "counts by {tenan}, which is not in the path", 'did you mean "tenant"?'),
    (limit("1/s", "burst = 0"), "policy.limit.burst", ""),
    (limit("1/s", "bursts = 1"), 'unknown key "bursts"', 'did you mean "burst"?'),
    (limit("1/s", 'origins = ["*"]'), "origins", ""),
])
def test_what_cannot_be_is_refused_at_start(tmp_path, text, says, hint):
    (tmp_path / "sluice.toml").write_text(DATABASE + text + AUTH + endpoint("/a/{tenant}", "limit auth"))
    done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=20, cwd=tmp_path)
    assert done.returncode != 0 and says in done.stderr and hint in done.stderr, done.stderr
    assert re.search(r"^sluice\.toml:\d+:\d+: error:", done.stderr, re.M)


@pytest.mark.parametrize("keys", ['per = "claim.sub"', 'rate_claim = "rate"'])
def test_a_claim_needs_its_policy_before(tmp_path, keys):
    text = DATABASE + AUTH + limit("1/s", keys)
    for use, good in (("auth limit", True), ("limit auth", False)):
        (tmp_path / "sluice.toml").write_text(text + endpoint("/a", use))
        done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=20, cwd=tmp_path)
        assert (done.returncode == 0) == good, done.stderr


def concurrency(requests, more="", name="limit"):
    return f'[policy.{name}]\ntype = "concurrency"\nrequests = {requests}\n{more}\n'


def route(url, use="limit"):
    return (f'[[upstream]]\nname = "back"\nservers = ["{url}"]\n'
            f'[[route]]\npath = "/{{rest...}}"\nupstream = "back"\nuse = ["{use}"]\n')


class Slow:
    """An upstream whose answers wait until the test releases them."""

    def __init__(self):
        self.go_on = threading.Event()
        self.arrived = 0
        self.lock = threading.Lock()

    def answer(self, request, _):
        with self.lock:
            self.arrived += 1
        self.go_on.wait(60)
        return response(b"done")


def ask(client, target="/a"):
    client.send(f"GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")


def has_answer(client):
    return bool(select.select([client.socket], [], [], 0)[0])


RUNNING = 'sluice_concurrency_running{policy="limit"}'


def test_a_client_whose_window_is_shut_holds_no_place(sluice):
    """Small answers are taken over: neither the places of `concurrency` nor the connections to the servers wait for the client."""
    settings = struct.pack(">HI", 4, 0)  # SETTINGS_INITIAL_WINDOW_SIZE = 0
    with Upstream(lambda *_: response(b"x" * 150)) as back:
        config = concurrency(2) + route(back.url).replace("\n[[route]]", "\nconnections = 2\n[[route]]")
        server = sluice(config, server="cores = 1")
        with Raw(server.port) as raw:
            raw.send(PREFACE + frame(SETTINGS, 0, 0, settings))
            frames = raw.each_frame()
            for stream in range(1, 41, 2):
                raw.send(frame(HEADERS, END_STREAM | END_HEADERS, stream, header_block("/a")))
                assert next(payload[:1] for kind, _, of, payload in frames if (kind, of) == (HEADERS, stream)) == b"\x88"  # 200
            assert server.get("/a").status == 200
            assert server.sample(RUNNING) == 0
            raw.send(b"".join(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 1000)) for stream in range(1, 41, 2)))
            ended = set()
            while len(ended) < 20:
                kind, flags, stream, payload = next(frames)
                assert kind == DATA and payload == b"x" * 150 and flags & END_STREAM
                ended.add(stream)


def test_no_more_requests_at_the_same_time_than_may(sluice):
    slow = Slow()
    with Upstream(slow.answer) as back:
        server = sluice(concurrency(3) + route(back.url), server="cores = 2")
        clients = [server.connect() for _ in range(12)]
        for i, client in enumerate(clients):
            ask(client)
            until(lambda: slow.arrived == min(i + 1, 3) and (i < 3 or has_answer(client)))
        refused = [client.read() for client in clients[3:]]
        assert [(answer.status, answer.get("retry-after")) for answer in refused] == [(503, "1")] * 9
        assert server.sample(RUNNING) == 3
        assert server.sample('sluice_concurrency_refused_total{policy="limit"}') == 9
        slow.go_on.set()
        assert [client.read().status for client in clients[:3]] == [200] * 3
        until(lambda: server.sample(RUNNING) == 0)
        assert [client.get("/a").status for client in clients] == [200] * 12
        for client in clients:
            client.close()
        assert slow.arrived == 15


def test_requests_wait_in_a_queue(sluice):
    slow = Slow()
    waits = 'sluice_concurrency_waits_total{policy="limit"}'
    with Upstream(slow.answer) as back:
        config = concurrency(1, 'queue = 2\nwait = "10m"') + route(back.url)
        server = sluice(config, server="cores = 1")
        clients = [server.connect() for _ in range(4)]
        for i, client in enumerate(clients[:3]):
            ask(client)
            until(lambda: slow.arrived == 1 and server.sample(waits) == i)
        assert clients[3].get("/a").status == 503
        # A client that leaves makes room in the queue.
        clients[2].close()
        while server.sample(waits) < 3:  # there is no room until the server has noticed the close
            clients[2] = server.connect()
            ask(clients[2])
            until(lambda: has_answer(clients[2]) or server.sample(waits) == 3)
        # A reload that raises the limit lets waiting requests go on.
        server.file.write_text(server.file.read_text().replace("requests = 1", "requests = 2"))
        assert reload(server)[0] == 200
        until(lambda: slow.arrived == 2)
        slow.go_on.set()
        assert [client.read().status for client in clients[:3]] == [200] * 3
        for client in clients:
            client.close()


def test_waiting_has_an_end(sluice):
    slow = Slow()
    with Upstream(slow.answer) as back:
        server = sluice(concurrency(1, 'queue = 9\nwait = "50ms"') + route(back.url), server="cores = 2")
        with server.connect() as first, server.connect() as second:
            ask(first)
            until(lambda: slow.arrived == 1)
            assert second.get("/a").status == 503
            assert server.sample('sluice_concurrency_late_total{policy="limit"}') == 1
            slow.go_on.set()
            assert first.read().status == 200 and second.get("/a").status == 200


def test_a_client_that_goes_away_gives_its_place_back(sluice):
    slow = Slow()
    with Upstream(slow.answer) as back:
        server = sluice(concurrency(2) + route(back.url), server="cores = 2")
        for _ in range(5):
            arrived = slow.arrived
            with server.connect() as one, server.connect() as other:
                ask(one)
                ask(other)
                until(lambda: slow.arrived == arrived + 2)
                assert server.get("/a").status == 503
            until(lambda: server.sample(RUNNING) == 0)
        slow.go_on.set()
        assert server.get("/a").status == 200


def test_a_websocket_has_its_place_until_it_ends(sluice):
    server = sluice(concurrency(1) + '[[websocket]]\npath = "/echo"\nhandler = "echo"\nuse = ["limit"]\n', server="cores = 2")
    conversation = WebSocket(server.port, "/echo")
    conversation.say(TEXT, "a")
    assert conversation.frame().payload == b"a"
    upgrade = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
    assert [server.get("/echo", *upgrade).status for _ in range(4)] == [503] * 4
    assert server.sample(RUNNING) == 1
    conversation.socket.close()
    until(lambda: server.get("/echo", *upgrade).status == 101)
    until(lambda: server.sample(RUNNING) == 0)


def test_bodies_have_a_length_of_their_own(sluice, tmp_path):
    def back_end(name, size):
        return (f'[policy.{name}]\ntype = "body-limit"\nsize = "{size}"\n[[route]]\npath = "/{name}"\nupstream = "back"\n'
                f'use = ["{name}"]\n')
    sizes = {"small": (2048, 2049, 5000, 900_000), "large": (3 << 20, (3 << 20) + 1, 5_000_000), "none": (1 << 20, (1 << 20) + 1)}
    with Upstream(lambda request, _: response(str(len(request[3])).encode())) as back:
        server = sluice(f'[[upstream]]\nname = "back"\nservers = ["{back.url}"]\n' + back_end("small", "2KiB")
                        + back_end("large", "3MiB") + '[[route]]\npath = "/none"\nupstream = "back"\n')
        for name, lengths in sizes.items():
            for size in lengths:
                (tmp_path / "body").write_bytes(b"x" * size)
                for how in (["--http1.1"], ["--http1.1", "-H", "Transfer-Encoding: chunked"], ["--http2-prior-knowledge"],
                            ["--http2-prior-knowledge", "-H", "Content-Length:"]):
                    run = subprocess.run(["curl", "-s", *how, "-w", "\n%{http_code}", "-H", "Expect:", "-X", "POST", "--data-binary",
                                          f"@{tmp_path}/body", f"http://127.0.0.1:{server.port}/{name}"],
                                         capture_output=True, timeout=60)
                    body, status = run.stdout.decode().rsplit("\n", 1)
                    if size == lengths[0]:
                        assert (status, body) == ("200", str(size)), (name, size, how)
                    else:
                        assert status == "413", (name, size, how, run)
        assert max(len(request[3]) for request in back.requests) == 3 << 20
        assert server.sample('sluice_body_limit_refused_total{policy="small"}') >= 3


def test_bodies_of_endpoints_and_calls(sluice, tmp_path):
    with sqlite3.connect(tmp_path / "main.db") as database:
        database.execute("CREATE TABLE t (a text)")
    limit = '[policy.limit]\ntype = "body-limit"\nsize = "100B"\n'
    post = '[[endpoint]]\npath = "/t"\npost = "INSERT INTO t (a) VALUES (:a)"\nuse = ["limit"]\n[batch]\n'
    server = sluice(DATABASE + limit + post)
    field = "Content-Type: application/json"

    def body(size):
        return json.dumps({"a": "x" * (size - 8)}, separators=(",", ":")).encode()
    with server.connect() as client:
        assert len(body(100)) == 100 and client.call("POST", "/t", body(100), field).status in range(200, 300)
        for size, expected in ((90, 200), (200, 413)):
            calls = [{"method": "POST", "path": "/t", "body": json.loads(body(size))}]
            assert client.call("POST", "/batch", json.dumps(calls).encode(), field).status == expected
        assert client.call("POST", "/t", body(101), field).status == 413
    with server.connect() as client:
        client.send(f"POST /t HTTP/1.1\r\nHost: test\r\n{field}\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.send(b"65\r\n" + body(101) + b"\r\n0\r\n\r\n")
        assert client.read().status == 413
    assert sqlite3.connect(tmp_path / "main.db").execute("SELECT count(*) FROM t").fetchone() == (2,)


@pytest.mark.parametrize("text, says", [
    ('[policy.limit]\ntype = "body-limit"\nsize = "2MiB"\n', "allows longer bodies than [server]; it can be used only by a [[route]]"),
    ('[policy.limit]\ntype = "body-limit"\n', '"size"'),
    (concurrency(0), "policy.limit.requests"),
    ('[policy.limit]\ntype = "concurrency"\n', '"requests"'),
    (concurrency(1, 'per = "claim.sub"'), 'counts by a claim, and no policy before it gives any'),
    (concurrency(1, 'wait = "0s"'), "policy.limit.wait"),
])
def test_what_else_is_refused_at_start(tmp_path, text, says):
    (tmp_path / "sluice.toml").write_text(DATABASE + text + endpoint())
    done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=20, cwd=tmp_path)
    assert done.returncode != 0 and says in done.stderr, done.stderr
    assert re.search(r"^sluice\.toml:\d+:\d+: error:", done.stderr, re.M)


def test_a_reload_when_the_process_may_use_fewer_cores_than_at_its_start(sluice):
    """What is new after it is for the cores that the process has."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    server = sluice(DATABASE + endpoint(use=""))
    for thread in os.listdir(f"/proc/{server.process.pid}/task"):
        os.sched_setaffinity(int(thread), {min(os.sched_getaffinity(0))})
    write(server, DATABASE + limit("3/h") + endpoint())
    assert reload(server)[0] == 200
    clients = [server.connect() for _ in range(16)]
    assert sorted(client.get("/a").status for client in clients) == [200] * 3 + [429] * 13
    for client in clients:
        client.close()
