"""[policy.NAME] of the types ip, api-key, basic, headers and query, in front of each kind of route."""
import base64
import hashlib
import json
import signal
import sqlite3
import subprocess
import threading

import pytest

from conftest import SLUICE
from test_gateway import echo, gateway, said, wait_until
from test_reload import reload
from tokens import Secret, soon
from upstream import Upstream

KEY, OTHER = "the-key-of-acme-0123", "the-key-of-globex-45"
PROXY = "127.0.0.2"
SECRET = Secret().secret


def digest(key):
    return hashlib.sha256(key.encode()).hexdigest()


def basic(user, password):
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def hash_of(password):
    return subprocess.run([SLUICE, "hash-password"], input=password + "\n", capture_output=True, text=True, check=True,
                          timeout=60).stdout.strip()


def everywhere(back, use):
    """A configuration with a route of each kind that uses these policies, and the paths that answer GET."""
    return f'''
[database.main]
url = "sqlite:main.db"
[[endpoint]]
path = "/endpoint"
get = "SELECT 1 AS one"
use = {use}
[[files]]
path = "/site"
root = "site"
use = {use}
[[resident]]
name = "known"
query = "SELECT 1 AS id"
key = "id"
use = {use}
[[websocket]]
path = "/ws"
handler = "echo"
use = {use}
{gateway(back.url, path="/back/{rest...}", route=f"use = {use}")}
'''


PATHS = ("/endpoint", "/site/hello.txt", "/known", "/known/1", "/back/a")


@pytest.fixture
def main_db(tmp_path, site):
    def run(script=""):
        with sqlite3.connect(tmp_path / "main.db") as database:
            database.executescript(script)
        database.close()
    run()
    return run


def statuses(client, *fields):
    return {client.get(path, *fields).status for path in PATHS}


def opens_websocket(server, *fields):
    with server.connect() as client:
        return client.get("/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                          "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", *fields).status


def test_keys_in_front_of_everything(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, '["partners"]') + f"""
[policy.partners]
type = "api-key"
[policy.partners.keys]
acme = "sha256:{digest(KEY)}"
globex = "${{GLOBEX}}"
""", server='access_log = "stdout"', env={"GLOBEX": OTHER})
        with server.connect() as client:
            for key in (KEY, OTHER):
                assert statuses(client, f"X-API-Key: {key}") == {200}
            for bad in ((), ("X-API-Key:",), (f"X-API-Key: {KEY.upper()}",), (f"X-API-Key: {digest(KEY)}",),
                        (f"X-API-Key: {KEY}x",), (f"Authorization: Bearer {KEY}",)):
                assert statuses(client, *bad) == {401}, bad
            assert client.get("/endpoint").get("www-authenticate") == 'ApiKey realm="sluice"'
            assert client.get("/endpoint", method="POST").status == 401
            assert statuses(client, f"X-API-Key: {KEY}", f"X-API-Key: {KEY}") == {400}
            assert "x-api-key" not in said(client.get("/back/a", f"X-API-Key: {KEY}"))[1]
        assert opens_websocket(server, f"X-API-Key: {KEY}") == 101
        assert opens_websocket(server) == 401
        assert KEY not in server.log and OTHER not in server.log
        assert server.sample('sluice_api_key_refusals_total{policy="partners",reason="repeated"}') == 5
        assert all(KEY not in value for request in back.requests for _, value in request[2])


def test_a_key_in_the_query_string_is_in_no_log_and_goes_nowhere(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(gateway(back.url, path="/back/{rest...}", route='use = ["partners"]') + f"""
[policy.partners]
type = "api-key"
query = "k"
keys.acme = "sha256:{digest(KEY)}"
""", server='access_log = "stdout"')
        with server.connect() as client:
            assert said(client.get(f"/back/a?x=1&k={KEY}&y=2"))[0] == "GET /back/a?x=1&y=2"
            assert said(client.get(f"/back/a%2fb?k={KEY}"))[0] == "GET /back/a%2Fb"
            assert client.get(f"/back/a?k={KEY}&%6b={KEY}").status == 400
            assert client.get(f"/back/a?k={OTHER}").status == 401
            assert client.get(f"/nowhere?k={KEY}").status == 404
            assert client.get("/back/a", f"X-API-Key: {KEY}").status == 401
        wait_until(lambda: server.log.count('"target"') == 6)
        assert KEY not in server.log and OTHER not in server.log


def test_a_key_in_a_cookie_needs_an_origin_to_change_anything(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, '["partners"]') + f"""
[policy.partners]
type = "api-key"
cookie = "kc"
origins = ["https://admin.example"]
keys.acme = "{KEY}"
""")
        cookie = f"Cookie: theme=dark; kc={KEY}"
        with server.connect() as client:
            for method in ("GET", "HEAD", "OPTIONS"):
                answer = client.get("/back/a", cookie, "Origin: https://evil.example", method=method)
                assert answer.status == 200
            before = len(back.requests)
            for origin in ((), ("Origin: https://evil.example",), ("Origin: null",)):
                for method in ("POST", "DELETE", "LOCK"):
                    answer = client.call(method, "/back/a", b"x", cookie, *origin)
                    assert answer.status == 403 and not answer.get("www-authenticate")
                    assert "needs an Origin that is allowed" in json.loads(answer.body)["detail"]
            assert len(back.requests) == before
            for origin in ("http://test", "https://admin.example"):
                assert said(client.call("POST", "/back/a", b"x", cookie, f"Origin: {origin}"))[1]["cookie"] == "theme=dark"
            assert client.call("POST", "/back/a", b"x").status == 401
        assert opens_websocket(server, cookie, "Origin: https://evil.example") == opens_websocket(server, cookie) == 403
        assert opens_websocket(server, cookie, "Origin: http://test") == 101
        assert server.sample('sluice_api_key_refusals_total{policy="partners",reason="origin"}') == 3 * 3 + 2


@pytest.mark.parametrize("passes", [False, True])
def test_no_other_spelling_of_the_field_with_the_key_passes(sluice, passes):
    with Upstream(echo) as back:
        server = sluice(gateway(back.url, route='use = ["partners"]') + f"""
[policy.partners]
type = "api-key"
optional = true
pass = {str(passes).lower()}
keys.acme = "{KEY}"
""")
        with server.connect() as client:
            others = ("X_API_Key: root", "x-api_key: root", "X.API.Key: root", "X-API-Keys: a")
            for fields, left in [((f"X-API-Key: {KEY}",), {"x-api-key": KEY} if passes else {}), ((), {})]:
                got = said(client.get("/a", *fields, *others))[1]
                assert {name: value for name, value in got.items() if "api" in name} == {**left, "x-api-keys": "a"}


def test_who_has_the_key_is_a_claim(sluice, main_db):
    main_db("CREATE TABLE orders (owner text, what text); INSERT INTO orders VALUES ('acme', 'anvil'), ('globex', 'laser')")
    server = sluice(f'''
[database.main]
url = "sqlite:main.db"
[[endpoint]]
path = "/orders"
get = "SELECT what FROM orders WHERE owner = :owner"
params.owner = {{ from = "claim.sub" }}
use = ["partners"]
[[endpoint]]
path = "/admin"
get = "SELECT 1 AS one"
require = "eq(claim.sub, 'globex')"
use = ["partners"]
[policy.partners]
type = "api-key"
keys = {{ acme = "{KEY}", globex = "{OTHER}" }}
''')
    with server.connect() as client:
        assert json.loads(client.get("/orders", f"X-API-Key: {KEY}").body) == [{"what": "anvil"}]
        assert json.loads(client.get("/orders", f"X-API-Key: {OTHER}").body) == [{"what": "laser"}]
        assert client.get("/admin", f"X-API-Key: {KEY}").status == 403
        assert client.get("/admin", f"X-API-Key: {OTHER}").status == 200


TABLE = '''
[database.main]
url = "sqlite:main.db"
[[resident]]
name = "keys"
query = "SELECT digest, owner AS sub, tenant FROM keys"
key = "digest"
encode = "ENCODE"
refresh = { every = "20ms" }
serve = false
[policy.partners]
type = "api-key"
table = "keys"
[[endpoint]]
path = "/who"
get = "SELECT :sub AS sub, :tenant AS tenant"
params.sub = { from = "claim.sub" }
params.tenant = { from = "claim.tenant" }
use = ["partners"]
'''


@pytest.mark.parametrize("encode", ["load", "on-demand"])
def test_keys_in_a_table_change_with_it(sluice, main_db, encode):
    main_db("CREATE TABLE keys (digest text PRIMARY KEY, owner text, tenant integer)")
    server = sluice(TABLE.replace("ENCODE", encode), server="cores = 2")
    clients = [server.connect() for _ in range(8)]  # on both cores

    def all_say(key, status):
        wait_until(lambda: {client.get("/who", f"X-API-Key: {key}").status for client in clients} == {status})

    all_say(KEY, 401)
    main_db(f"INSERT INTO keys VALUES ('{digest(KEY)}', 'acme', 7), ('{digest(OTHER).upper()}', 'globex', 8)")
    all_say(KEY, 200)
    assert clients[0].get("/who", f"X-API-Key: {OTHER}").status == 401  # only lower-case digests match
    assert json.loads(clients[0].get("/who", f"X-API-Key: {KEY}").body) == [{"sub": "acme", "tenant": "7"}]
    main_db(f"UPDATE keys SET owner = 'emca' WHERE digest = '{digest(KEY)}'")
    wait_until(lambda: {json.loads(client.get("/who", f"X-API-Key: {KEY}").body)[0]["sub"] for client in clients} == {"emca"})
    main_db("DELETE FROM keys")
    all_say(KEY, 401)
    assert clients[0].get("/keys", f"X-API-Key: {KEY}").status == 404
    # The same policy then reads the new table.
    main_db(f"CREATE TABLE keys2 AS SELECT '{digest(KEY)}' AS digest, 'new' AS owner, 1 AS tenant")
    server.file.write_text(server.file.read_text().replace("FROM keys", "FROM keys2"))
    server.process.send_signal(signal.SIGHUP)
    all_say(KEY, 200)
    for client in clients:
        client.close()


def test_policies_of_defaults_stand_before_everything(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, "[]") + f'''
[defaults]
use = ["partners"]
[policy.partners]
type = "api-key"
keys.acme = "{KEY}"
[policy.far]
type = "ip"
allow = ["10.0.0.1"]
[openapi]
[[endpoint]]
path = "/public"
get = "SELECT 1 AS one"
public = true
[[route]]
path = "/far"
respond = 200
use = ["far"]
''')
        with server.connect() as client:
            assert statuses(client) == {401}
            assert statuses(client, f"X-API-Key: {KEY}") == {200}
            assert client.get("/openapi.json").status == 401
            document = json.loads(client.get("/openapi.json", f"X-API-Key: {KEY}").body)
            assert document["paths"]["/endpoint"]["get"]["security"] == [{"partners": []}]
            assert not document["paths"]["/public"]["get"].get("security")
            assert client.get("/public").status == 200
            assert client.get("/far").status == 401  # the key is asked for first
            assert client.get("/far", f"X-API-Key: {KEY}").status == 403
        assert opens_websocket(server) == 401
        assert opens_websocket(server, f"X-API-Key: {KEY}") == 101
        # A reload that opens everything.
        server.file.write_text(server.file.read_text().replace('[defaults]\nuse = ["partners"]', "").replace("public = true\n", ""))
        server.process.send_signal(signal.SIGHUP)
        with server.connect() as client:
            wait_until(lambda: statuses(client) == {200})


@pytest.mark.parametrize("more, warns", [
    ("", True),
    ('use = ["limit"]', True),
    ('use = ["partners"]', False),
    ('public = true', False),
    ('public = true\n[defaults]\nuse = ["limit"]', False),
])
def test_a_write_that_nobody_guards_is_warned_of(tmp_path, main_db, more, warns):
    main_db("CREATE TABLE a (b integer)")
    file = tmp_path / "open.toml"
    file.write_text(f'''
[database.main]
url = "sqlite:main.db"
[policy.partners]
type = "api-key"
keys.acme = "{KEY}"
[policy.limit]
type = "rate-limit"
rate = "1/s"
[[files]]
path = "/limited"
root = "."
use = ["limit"]
[[endpoint]]
path = "/guarded"
post = "INSERT INTO a VALUES (1)"
use = ["partners"]
[[endpoint]]
path = "/reads"
get = "SELECT b FROM a"
[[endpoint]]
path = "/open"
delete = "DELETE FROM a"
{more}
''')
    run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    says = '"/open": the endpoint in line 22 writes, and no policy checks the client, as one does for "/guarded" in line 15'
    assert (says in run.stdout + run.stderr) == warns and ("warning" in run.stdout + run.stderr) == warns, run.stdout + run.stderr


REVOKED = '''
[database.main]
url = "sqlite:main.db"
[[resident]]
name = "revoked"
query = "SELECT jti FROM revoked"
key = "jti"
refresh = { every = "20ms" }
serve = false
[policy.auth]
type = "jwt"
secret = "SECRET"
revoked = "revoked"
[[endpoint]]
path = "/who"
get = "SELECT :sub AS sub"
params.sub = { from = "claim.sub" }
use = ["auth"]
'''


def test_tokens_in_a_table_are_revoked(sluice, main_db):
    main_db("CREATE TABLE revoked (jti text PRIMARY KEY)")
    signer = Secret()
    server = sluice(REVOKED.replace("SECRET", signer.secret), server="cores = 2")
    clients = [server.connect() for _ in range(8)]  # on both cores

    def ask(client, **claims):
        return client.get("/who", "Authorization: Bearer " + signer.token(soon(**claims)))

    def all_say(status, **claims):
        wait_until(lambda: {ask(client, **claims).status for client in clients} == {status})

    claims = {"jti": "a b'c", "exp": 4102444800}  # the same token each time: it is remembered
    all_say(200, **claims)
    main_db("INSERT INTO revoked VALUES ('a b''c'), (7)")
    all_say(401, **claims)
    answer = ask(clients[0], **claims)
    assert 'error="invalid_token", error_description="The token has been revoked."' in answer.get("www-authenticate")
    assert ask(clients[0], jti="7").status == 401
    assert ask(clients[0], jti="A B'C").status == 200
    main_db("DELETE FROM revoked")
    all_say(200, **claims)
    for bad in ({}, {"jti": 7}):  # such a token could not be revoked
        answer = ask(clients[0], **bad)
        assert answer.status == 401 and "The token has no id." in answer.get("www-authenticate"), bad
    for client in clients:
        client.close()


def test_with_a_stale_table_no_token_is_accepted(sluice, main_db):
    main_db("CREATE TABLE revoked (jti text PRIMARY KEY)")
    signer = Secret()
    text = REVOKED.replace("SECRET", signer.secret).replace("serve = false", 'stale_after = "1s"\nserve = false')
    server = sluice(text)
    with server.connect() as client:
        token = "Authorization: Bearer " + signer.token(soon(jti="1"))
        wait_until(lambda: client.get("/who", token).status == 200)
        main_db("DROP TABLE revoked")
        wait_until(lambda: client.get("/who", token).status == 503)
        assert client.get("/who", token).get("retry-after") == "1"
        main_db("CREATE TABLE revoked (jti text PRIMARY KEY)")
        wait_until(lambda: client.get("/who", token).status == 200)


def test_a_reload_changes_keys(sluice, main_db):
    with Upstream(echo) as back:
        text = gateway(back.url, route='use = ["partners", "fields"]') + """
[policy.fields]
type = "headers"
request.set = { X-Partner = "{claim.sub}" }
[policy.partners]
type = "api-key"
keys.acme = """
        server = sluice(text + f'"{KEY}"')
        with server.connect() as client:
            assert said(client.get("/", f"X-API-Key: {KEY}", "X-Partner: root"))[1]["x-partner"] == "acme"
            server.file.write_text(server.file.read_text().replace(KEY, OTHER))
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: client.get("/", f"X-API-Key: {OTHER}").status == 200)
            assert client.get("/", f"X-API-Key: {KEY}").status == 401


def test_passwords_in_front_of_everything(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, '["staff"]') + f"""
[policy.staff]
type = "basic"
realm = "staff"
users = {{ ada = "{hash_of("love:lace")}" }}
""")
        with server.connect() as client:
            assert statuses(client, basic("ada", "love:lace")) == {200}
            for bad in ((), ("Authorization: Basic",), (basic("ada", "Love:lace"),), (basic("bob", "love:lace"),), (basic("ada", ""),),
                        ("Authorization: Bearer a",), (basic("ada", "love:lace") + "=",)):
                answer = client.get("/endpoint", *bad)
                assert answer.status == 401 and answer.get("www-authenticate") == 'Basic realm="staff", charset="UTF-8"', bad
            assert statuses(client) == {401}
            assert client.get("/endpoint", basic("ada", "love:lace"), basic("ada", "love:lace")).status == 400
            assert "authorization" not in said(client.get("/back/a", basic("ada", "love:lace")))[1]
        assert opens_websocket(server, basic("ada", "love:lace")) == 101
        assert opens_websocket(server, basic("ada", "x")) == 401
        assert subprocess.run(["curl", "-s", "-u", "ada:love:lace", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}",
                               f"http://127.0.0.1:{server.port}/endpoint"], capture_output=True, timeout=60).stdout == b"200"


def test_users_of_an_htpasswd_file(sluice, main_db, tmp_path):
    people = tmp_path / "people"
    for number, (options, user) in enumerate((("-B", "ada"), ("-m", "bob"))):
        subprocess.run(["htpasswd", "-bc" if number == 0 else "-b", options, people, user, f"of {user}"], check=True, capture_output=True)
    config = f'''
[[files]]
path = "/"
root = "site"
use = ["staff"]
[policy.staff]
type = "basic"
file = "people"
users = {{ eve = "{hash_of("of eve")}" }}
'''
    server = sluice(config)

    def status(user, password):
        return server.get("/hello.txt", basic(user, password)).status

    for user in ("ada", "bob", "eve"):
        assert status(user, f"of {user}") == 200 and status(user, "of another") == 401
    subprocess.run(["htpasswd", "-b", "-B", people, "dan", "of dan"], check=True, capture_output=True)
    subprocess.run(["htpasswd", "-D", people, "bob"], check=True, capture_output=True)
    assert reload(server)[0] == 200
    assert (status("dan", "of dan"), status("bob", "of bob"), status("ada", "of ada")) == (200, 401, 200)
    people.write_text("# people\n\nada:{SHA}qvTGHdzF6KLavt4PO0gs2a6pQ00=\n")
    code, text = reload(server)
    assert code == 422 and 'people: line 3: the hash of "ada" must be a hash of argon2id' in text
    people.unlink()
    code, text = reload(server)
    assert code == 422 and "people: " in text
    assert status("dan", "of dan") == 200


def test_a_flood_of_passwords_is_bounded(sluice, main_db):
    server = sluice(f'''
[[files]]
path = "/"
root = "site"
use = ["staff"]
[policy.staff]
type = "basic"
queue = 1
users = {{ ada = "{hash_of("lovelace")}" }}
''', server="cores = 1")
    seen = []

    def ask(number):
        with server.connect() as client:
            for i in range(10):
                answer = client.get("/hello.txt", basic("ada", f"{number}-{i}"))
                seen.append((answer.status, answer.get("retry-after")))
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {(401, None), (503, "1")}
    assert server.get("/hello.txt", basic("ada", "lovelace")).status == 200
    assert server.get("/hello.txt", basic("ada", "lovelace")).status == 200
    assert server.sample('sluice_basic_cache_hits_total{policy="staff"}') == 1


def test_addresses_in_front_of_everything(sluice, main_db):
    with Upstream(echo) as back:
        server = sluice(everywhere(back, '["near", "not-that"]') + """
[policy.near]
type = "ip"
allow = ["127.0.0.0/8", "10.0.0.0/8"]
[policy.not-that]
type = "ip"
deny = ["127.0.0.3", "10.6.6.6", "2001:db8::/32"]
""", server=f'trusted_proxies = ["{PROXY}"]')
        with server.connect() as client:
            assert statuses(client) == {200}
            assert statuses(client, "X-Forwarded-For: 10.6.6.6") == {200}  # the peer is no trusted proxy
        with server.connect(source="127.0.0.3") as client:
            assert statuses(client) == {403}
            assert statuses(client, "X-Forwarded-For: 127.0.0.1") == {403}
            assert client.get("/endpoint").media_type == "application/problem+json"
        with server.connect(source=PROXY) as client:
            assert statuses(client, "X-Forwarded-For: 10.1.1.1") == {200}
            for bad in ("10.6.6.6", "11.0.0.1", "10.1.1.1, 10.6.6.6", "2001:db8::1", "::ffff:10.6.6.6"):
                assert statuses(client, f"X-Forwarded-For: {bad}") == {403}, bad
        assert opens_websocket(server) == 101


def test_fields_of_requests_and_answers(sluice, main_db):
    secret = Secret()
    main_db("CREATE TABLE seen (request_id text, path text)")
    with Upstream(echo) as back:
        server = sluice(everywhere(back, '["auth", "fields"]') + f"""
[request_log]
table = "seen"
[policy.auth]
type = "jwt"
secret = "{secret.secret}"
[policy.fields]
type = "headers"
request_id = true
request.set = {{ X-User = "{{claim.sub}}", X-From = "{{client.ip}}" }}
request.add = {{ X-Seen = "{{request.id}}" }}
request.remove = ["X-Debug"]
response.set = {{ X-For = "{{claim.sub}}" }}
response.remove = ["X-Back"]
""", server=f'access_log = "stdout"\ntrusted_proxies = ["{PROXY}"]')
        token = f"Authorization: Bearer {secret.token(soon(sub='ada'))}"
        with server.connect() as client:
            answer = client.get("/back/a", token, "X-User: root", "x-user: admin", "X-Debug: 1", "X-Request-Id: mine", "X-A: 1",
                                "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            fields = [line.split(": ", 1) for line in answer.body.decode().split("\n")[1:-1]]
            passed = dict(fields)
            assert len(fields) == len(passed)
            given = answer.get("x-request-id")
            assert len(given) == 32 and given != "mine"
            assert {name: passed[name] for name in ("x-user", "x-from", "x-seen", "x-request-id", "x-a")} == {
                "x-user": "ada", "x-from": "127.0.0.1", "x-seen": given, "x-request-id": given, "x-a": "1"}
            assert passed["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c") and "x-debug" not in passed
            assert answer.get("x-for") == "ada" and answer.get("x-back") is None
            ids = set()
            for path in PATHS:
                answer = client.get(path, token)
                assert answer.status == 200 and answer.get("x-for") == "ada"
                ids.add(answer.get("x-request-id"))
            assert len(ids) == len(PATHS)
            evil = f"Authorization: Bearer {secret.token(soon(sub='a' + chr(13) + chr(10) + 'X-Admin: 1'))}"
            before = len(back.requests)
            answer = client.get("/back/a", evil)
            assert answer.status == 403 and answer.get("x-for") is None and len(back.requests) == before
        with server.connect(source=PROXY) as client:
            assert client.get("/endpoint", token, "X-Request-Id: theirs").get("x-request-id") == "theirs"
            assert len(client.get("/endpoint", token, "X-Request-Id: a", "X-Request-Id: b").get("x-request-id")) == 32
        wait_until(lambda: '"request_id":"theirs"' in server.log and f'"request_id":"{given}"' in server.log)
        server.stop()
        with sqlite3.connect(f"{server.file.parent}/main.db") as database:
            rows = dict(database.execute("SELECT request_id, path FROM seen"))
        database.close()
        assert rows[given] == "/back/a" and rows["theirs"] == "/endpoint"


def test_fields_from_the_path(sluice):
    with Upstream(echo) as back:
        server = sluice(gateway(back.url, path="/back/{tenant}/{rest...}", route='use = ["fields"]') + """
[[route]]
path = "/{rest...}"
respond = 200
use = ["fields"]
[policy.fields]
type = "headers"
request.set = { X-Rest = "<{path.rest}>" }
response.set = { X-Rest = "{path.rest}" }
""")
        with server.connect() as client:
            for path, rest in (("/back/acme/a/b%2fc", "a/b/c"), ("/back/acme/%C3%A4?q", "ä"), ("/back/acme/", "")):
                answer = client.get(path, "X-Rest: root", "X_Rest: root", "X.Rest: root", "x!rest: root")
                assert [name for name in said(answer)[1] if "rest" in name] == ["x-rest"]
                assert said(answer)[1]["x-rest"].encode("latin-1").decode() == f"<{rest}>"
                assert (answer.get("x-rest") or "").encode("latin-1").decode() == rest
            assert client.get("/one/two").get("x-rest") == "one/two"
            before = len(back.requests)
            for evil in ("%0d%0aX-Admin:%201", "a%0Ab", "%7f"):
                answer = client.get(f"/back/acme/{evil}")
                assert answer.status == 403 and answer.get("x-rest") is None and len(back.requests) == before


def test_parameters_of_the_query_string(sluice, main_db):
    secret = Secret()
    with Upstream(echo) as back:
        server = sluice(gateway(back.url, path="/back/{tenant}", route='use = ["auth", "fixed", "more"]') + f"""
[database.main]
url = "sqlite:main.db"
[[endpoint]]
path = "/rows/{{tenant}}"
get = "SELECT :user AS user, :tenant AS tenant, :t AS t"
params = {{ user = {{ from = "query.user" }}, tenant = {{ from = "path.tenant" }}, t = {{ from = "query.t" }} }}
use = ["auth", "fixed"]
[[endpoint]]
path = "/strict/{{tenant}}"
get = "SELECT :tenant AS tenant"
use = ["auth", "fixed"]
[policy.auth]
type = "jwt"
secret = "{secret.secret}"
optional = true
[policy.fixed]
type = "query"
set = {{ user = "{{claim.sub}}", t = "{{path.tenant}}" }}
remove = ["debug"]
[policy.more]
type = "query"
add = {{ tag = "two", at = "{{client.ip}}" }}
set = {{ id = "{{request.id}}" }}
""")
        token = f"Authorization: Bearer {secret.token(soon(sub='a&b=ü c'))}"
        with server.connect() as client:
            def target(path, *fields):
                passed, _, made = said(client.get(path, *fields))[0].partition("&id=")
                assert len(made.partition("&")[0]) == 32
                return passed + made[32:]

            ours = "user=a%26b%3D%C3%BC%20c&t="
            assert target("/back/a%2Bb", token) == f"GET /back/a%2Bb?{ours}a%2Bb&tag=two&at=127.0.0.1"
            assert target("/back/x?a=1&user=root&tag=one&%75s%65r=root&t;USER=root&debug=&b=%2f", token) == (
                f"GET /back/x?a=1&tag=one&b=%2f&{ours}x&tag=two&at=127.0.0.1")
            assert target("/back/x?user=root&%64ebug=1&id=mine") == "GET /back/x?t=x&tag=two&at=127.0.0.1"
            assert json.loads(client.get("/rows/x?user=root&t=1&debug=1", token).body) == [
                {"user": "a&b=ü c", "tenant": "x", "t": "x"}]
            assert json.loads(client.get("/rows/x?user=root").body) == [{"user": None, "tenant": "x", "t": "x"}]
            assert client.get("/strict/x", token).status == 400
            before = len(back.requests)
            assert client.get("/back/a%0Ab").status == 403 and len(back.requests) == before
        over_http2 = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-H", token,
                                     f"http://127.0.0.1:{server.port}/rows/x?user=root"], capture_output=True, timeout=60)
        assert json.loads(over_http2.stdout) == [{"user": "a&b=ü c", "tenant": "x", "t": "x"}]


def test_statements_get_the_request_id(sluice, main_db):
    main_db("CREATE TABLE notes (n integer, by text NOT NULL); CREATE TABLE audit (by text NOT NULL)")
    server = sluice('''
[database.main]
url = "sqlite:main.db"
[policy.ids]
type = "headers"
request_id = true
[[endpoint]]
path = "/id"
use = ["ids"]
get = "SELECT :by AS by"
params.by.from = "request.id"
[endpoint.post]
sql = "INSERT INTO audit VALUES (:by) RETURNING by"
[[endpoint]]
path = "/notes"
use = ["ids"]
require = "present(request.id)"
[endpoint.post]
table = "notes"
columns.n = {}
columns.by = { from = "request.id" }
returning = "by"
''', server=f'trusted_proxies = ["{PROXY}"]')
    trace = "0af7651916cd43dd8448eb211c80319c"
    parent = f"traceparent: 00-{trace}-b7ad6b7169203331-01"

    def ids(client, *fields):
        answers = [client.get("/id", *fields), client.call("POST", "/id", None, *fields),
                   client.call("POST", "/notes", b'{"n": 1}', "Content-Type: application/json", *fields)]
        for answer in answers:
            body = json.loads(answer.body)
            assert (body[0] if isinstance(body, list) else body) == {"by": answer.get("x-request-id")}, answer.body
        return {answer.get("x-request-id") for answer in answers}

    with server.connect(source=PROXY) as client:
        assert ids(client, "X-Request-Id: a.b_C-1", parent) == {"a.b_C-1"}
        assert ids(client, "X-Request-Id: a/b", parent) == ids(client, parent) == {trace}
        assert len(ids(client, parent.upper())) == len(ids(client)) == 3
    with server.connect() as client:
        assert len(ids(client, "X-Request-Id: mine", parent)) == 3


def test_a_request_id_needs_its_policy(tmp_path):
    config = tmp_path / "sluice.toml"
    config.write_text('[database.main]\nurl = "sqlite:main.db"\n[[endpoint]]\npath = "/id"\nget = "SELECT :by AS by"\n'
                      'params.by.from = "request.id"\n')
    checked = subprocess.run([SLUICE, "check", config], capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 3 and ":6:" in checked.stderr, checked.stderr
    assert 'no id without a policy with "request_id"' in checked.stderr, checked.stderr


@pytest.mark.parametrize("policy, what", [
    ('type = "ip"', "names no addresses"),
    ('type = "ip"\nallow = ["10.0.0.1/8"]', "has bits set behind its prefix"),
    ('type = "ip"\nallow = ["10.0.0.1"]\nkeys = { a = "b" }', '"api-key"'),
    ('type = "api-key"', "has no keys"),
    ('type = "api-key"\nkeys = { a = "short" }', 'the key of "a" has at least 16 characters'),
    ('type = "api-key"\nkeys = { a = "sha256:12" }', "64 hexadecimal digits"),
    (f'type = "api-key"\nkeys = {{ a = "{KEY}", b = "sha256:{digest(KEY)}" }}', '"a" and "b" have the same key'),
    (f'type = "api-key"\nkeys = {{ a = "sha256:{digest("")}" }}', "is the digest of nothing"),
    (f'type = "api-key"\nquery = "k"\ncookie = "k"\nkeys = {{ a = "{KEY}" }}', "has more than one of"),
    (f'type = "api-key"\norigins = ["https://a.example"]\nkeys = {{ a = "{KEY}" }}', "[policy.one] takes no key from a cookie"),
    (f'type = "api-key"\ncookie = "k"\norigins = ["*"]\nkeys = {{ a = "{KEY}" }}', "the pages of any origin could act for the users"),
    ('type = "api-key"\ntable = "kyes"', 'did you mean "keys"'),
    ('type = "api-key"\ntable = "keys"', "everybody could read it at /keys"),
    ('type = "api-key"\ntable = "keys"', '"keys" is never refreshed'),
    (f'type = "api-key"\ntable = "keys"\nkeys = {{ a = "{KEY}" }}', 'has "keys" as well'),
    (f'type = "jwt"\nsecret = "{SECRET}"\nrevoked = "kyes"', 'did you mean "keys"'),
    (f'type = "jwt"\nsecret = "{SECRET}"\nrevoked = "keys"', "everybody could read it at /keys"),
    (f'type = "jwt"\nsecret = "{SECRET}"\nrevoked = "rows"', 'the key is the column with the "jti"'),
    ('type = "basic"', "has no users"),
    ('type = "basic"\nusers = { a = "secret" }', 'the hash of "a" must be a hash of argon2id'),
    ('type = "auth-request"', 'needs the key "upstream"'),
    ('type = "auth-request"\nupstream = "auth"', 'there is no [[upstream]] called "auth"'),
    ('type = "auth-request"\nupstream = "auth"\npath = "auth"', 'must begin with "/"'),
    ('type = "auth-request"\nupstream = "auth"\npath = "/a?b"', "must be a path"),
    ('type = "auth-request"\nupstream = "auth"\ncopy = ["Host"]', "no policy changes this field"),
    ('type = "headers"', "changes nothing"),
    ('type = "headers"\nrequest.set = { Host = "a" }', "no policy changes this field"),
    ('type = "headers"\nrequest.remove = ["X-Forwarded-For"]', "no policy changes this field"),
    ('type = "headers"\nresponse.set = { Content-Length = "1" }', "no policy changes this field"),
    ('type = "headers"\nrequest.set = { X-A = "{claims.sub}" }', "a place that nothing fills"),
    ('type = "headers"\nrequest.set = { X-A = "{claim.sub}" }', "no policy before it gives any"),
    ('type = "headers"\nresponse.set = { X-A = "{path.id}" }', "uses {path.id}, which is not in the path"),
    ('type = "headers"\nresponse.set = { X-A = "a\\r\\nX-B: c" }', "no control characters"),
    ('type = "headers"\nresponse.set = { "X A" = "a" }', "not the name of a header field"),
    ('type = "headers"\nresponse.set = { X-A = "a", x-a = "b" }', "this field comes twice"),
    ('type = "headers"\nresponse.set = { x-a = "b" }\n[server.headers]\nX-A = "a"', "[server.headers] adds this field to all answers"),
    ('type = "headers"\nresponse.remove = ["x-a"]\n[server.headers]\nX-A = "a"', "[server.headers] adds this field to all answers"),
    ('type = "query"', "changes nothing"),
    ('type = "query"\nset = { a = "{claim.sub}" }', "no policy before it gives any"),
    ('type = "query"\nadd = { a = "{path.id}" }', "uses {path.id}, which is not in the path"),
    ('type = "query"\nadd = { a = "{id}" }', "a place that nothing fills"),
    ('type = "query"\nset = { a = "1" }\nremove = ["A"]', "this parameter comes twice"),
    ('type = "query"\nremove = [""]', "the name of a parameter is not empty"),
    ('type = "headers"\nrequest_id = true\nrequest.remove = ["x-request-id"]', '"request_id" sets this field'),
])
def test_what_cannot_work_is_refused(tmp_path, policy, what):
    (tmp_path / "main.db").touch()
    file = tmp_path / "bad.toml"
    file.write_text(f'[policy.one]\n{policy}\n[database.main]\nurl = "sqlite:main.db"\n[[resident]]\nname = "keys"\n'
                    f'query = "SELECT 1 AS id"\nkey = "id"\n[[resident]]\nname = "rows"\nquery = "SELECT 1 AS id"\n[[endpoint]]\npath = "/a"\nget = "SELECT 1 AS one"\nuse = ["one"]\n')
    run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert run.returncode == 3 and what in run.stderr, run.stderr
    assert "bad.toml:" in run.stderr and "secret" not in run.stderr, run.stderr


def test_claims_come_from_one_policy(tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text(f'[policy.one]\ntype = "api-key"\nkeys.a = "{KEY}"\n[policy.two]\ntype = "jwt"\nsecret = "{"s" * 32}"\n'
                    '[[files]]\npath = "/"\nroot = "."\nuse = ["one", "two"]\n')
    run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert run.returncode == 3 and "a route takes its claims from one policy" in run.stderr, run.stderr


def test_hash_password():
    assert hash_of("a").startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    for bad in ("", "a\tb"):
        run = subprocess.run([SLUICE, "hash-password"], input=bad, capture_output=True, text=True, timeout=60)
        assert run.returncode == 1 and run.stdout == "" and "sluice: " in run.stderr
