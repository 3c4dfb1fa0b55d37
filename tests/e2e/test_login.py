"""[login]: users of a database get tokens, keep them and lose them (docs/guide/authentication.md)."""
import base64
import concurrent.futures
import itertools
import json
import subprocess
import time
import urllib.parse

import pytest

from browser import Chromium
from cluster import Postgres
from conftest import SLUICE, queried_database, until
from http1 import Broken, Connection
from test_changes import Ended, Stream
from test_reload import reload
from tokens import Ed, soon
from upstream import Upstream, response

PASSWORD = "correct horse"
BCRYPT = "$2b$04$PbZtSBiRWjajufJFjxyDkuKApNhr9x3kaUcvCIwNc2BXrU7sitOcq"
SCHEMA = [
    "CREATE TABLE users (id integer PRIMARY KEY, email text UNIQUE NOT NULL, role text, active boolean NOT NULL DEFAULT true,"
    " password text)",
    "CREATE TABLE notes (id integer PRIMARY KEY, author text, text text)",
]
POLICY = '[policy.auth]\ntype = "jwt"\nissuer = "https://here.example"\n'
LOGIN = """
[login]
query = "SELECT id AS sub, role, active, password FROM users WHERE email = :email"
policy = "auth"
signing_keys = ["login.key.pem"]
claims = {{ iss = "https://here.example" }}
require = {{ that = "eq(claim.active, true)", detail = "The account is locked." }}
rehash = "UPDATE users SET password = :password WHERE id = CAST(:sub AS integer)"
{keys}
"""
ROUTES = """
[[endpoint]]
path = "/notes"
use = ["auth"]
get = "SELECT :who AS who"
params.who = { from = "claim.sub" }
returns = "object"
[endpoint.post]
sql = "INSERT INTO notes (id, author, text) VALUES ((SELECT coalesce(max(id), 0) + 1 FROM notes), :who, :text)"
"""
WATCHED = """
[[endpoint]]
path = "/watched"
use = ["auth"]
get = "SELECT id, text FROM notes"
changes = { tables = ["notes"] }
"""
networks = itertools.count(1)
ids = itertools.count(1)


def hash_of(password):
    return subprocess.run([SLUICE, "hash-password"], input=password, capture_output=True, text=True, check=True).stdout.strip()


HASH = None


class Answer:
    def __init__(self, response):
        self.status, self.response = response.status, response
        self.cookies = {}
        for name, value in response.fields:
            if name == "set-cookie":
                pair, _, attributes = value.partition("; ")
                cookie, _, text = pair.partition("=")
                self.cookies[cookie] = (text, attributes)

    @property
    def json(self):
        return json.loads(self.response.body)

    def __getattr__(self, name):
        return getattr(self.response, name)


class Client:
    """A browser without pages: it keeps cookies. Each has a /24 of its own."""

    def __init__(self, server, network=None):
        self.server, self.jar = server, {}
        self.source = f"127.1.{network if network is not None else next(networks) % 250}.7"

    def call(self, method, target, body=None, *fields, form=False, cookies=True):
        fields = list(fields)
        if cookies and self.jar:
            fields.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in self.jar.items()))
        if body is not None:
            fields.append(f"Content-Type: {'application/x-www-form-urlencoded' if form else 'application/json'}")
            body = (urllib.parse.urlencode(body) if form else json.dumps(body)).encode() if not isinstance(body, bytes) else body
        with Connection(self.server.port, source=self.source) as connection:
            answer = Answer(connection.call(method, target, body, *fields))
        for name, (value, attributes) in answer.cookies.items():
            if "Max-Age=0" in attributes:
                self.jar.pop(name, None)
            else:
                self.jar[name] = value
        return answer

    def login(self, email, password=PASSWORD, *fields, **how):
        return self.call("POST", "/auth/login", {"email": email, "password": password}, *fields, **how)

    def post(self, target, body=None, *fields):
        return self.call("POST", target, body, *fields)

    def get(self, target, *fields):
        return self.call("GET", target, None, *fields)

    def copy(self):
        other = Client(self.server)
        other.jar = dict(self.jar)
        return other


class Site:
    def __init__(self, kind, folder, url, query, start):
        self.kind, self.folder, self.url, self.query, self.start = kind, folder, url, query, start

    def config(self, keys="", policy="", login=LOGIN, routes=ROUTES):
        return f'[database.main]\nurl = "{self.url}"\n' + login.format(keys=keys) + POLICY + policy + "\n" + routes

    def serve(self, keys="", policy="", server="", **how):
        return self.start(self.config(keys, policy, **how), server)

    def user(self, role="reader", hash=None, active="true"):
        global HASH
        HASH = HASH or hash_of(PASSWORD)
        number = next(ids)
        value = "NULL" if hash == "" else f"'{hash or HASH}'"
        self.write(f"INSERT INTO users VALUES ({number}, 'user{number}@x', '{role}', {active}, {value})")
        return number, f"user{number}@x"

    def write(self, statement):
        self.query(statement)


def prepare(request, folder, start):
    if request.param == "sqlite":
        url, query = queried_database(request, folder, [])
    else:
        postgres, name = request.getfixturevalue("postgres"), f"login_{next(ids)}"
        postgres.psql(f"CREATE DATABASE {name}")
        url = postgres.url(name)

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql, name).decode().splitlines()]
    for statement in SCHEMA:
        query(statement)
    subprocess.run([SLUICE, "keys", "--kid", "login", "--alg", "EdDSA", "--out", folder], check=True, capture_output=True)
    site = Site(request.param, folder, url, query, start)
    (folder / "tables.toml").write_text(site.config())
    subprocess.run([SLUICE, "login", "sql", "tables.toml", "--apply"], cwd=folder, check=True)
    return site


@pytest.fixture(params=["sqlite", "postgres"])
def site(request, tmp_path, sluice):
    return prepare(request, tmp_path, sluice)


def claims_of(token):
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def header_of(token):
    header = token.split(".")[0]
    return json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))


def test_a_login_with_cookies(site):
    server = site.serve()
    number, email = site.user("writer")
    client = Client(server)
    answer = client.login(email)
    assert answer.status == 200
    assert answer.get("cache-control") == "no-store"
    assert answer.json["sub"] == str(number) and answer.json["role"] == "writer" and answer.json["active"] is True
    assert answer.json["iss"] == "https://here.example" and answer.json["exp"] - answer.json["iat"] == 900
    assert "password" not in answer.json
    assert answer.cookies["access"][1] == "Path=/; Max-Age=900; HttpOnly; SameSite=Lax"
    assert answer.cookies["refresh"][1] == "Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"
    assert claims_of(client.jar["access"]) == answer.json
    assert client.get("/auth/me").json == answer.json
    assert client.get("/notes").json == {"who": str(number)}
    # The same by a form, and by the Authorization field.
    other = Client(server)
    assert other.login(email, form=True).status == 200
    assert other.call("GET", "/notes", None, f"Authorization: Bearer {client.jar['access']}", cookies=False).json == {"who": str(number)}
    # The stored values are hashes.
    rows = site.query("SELECT * FROM refresh_tokens")
    assert len(rows) == 2
    secret = client.jar["refresh"].split(".")[1]
    assert secret not in repr(rows) and PASSWORD not in repr(rows) and PASSWORD not in server.log
    assert email not in repr(site.query("SELECT * FROM login_tries"))
    # New roles count from the next refresh on.
    site.write(f"UPDATE users SET role = 'reader' WHERE id = {number}")
    assert client.get("/auth/me").json["role"] == "writer"
    assert client.post("/auth/refresh").json["role"] == "reader"
    assert client.get("/auth/me").json["role"] == "reader"


def test_wrong_names_and_passwords_get_the_same_answer(site):
    server = site.serve()
    _, email = site.user()
    _, without = site.user(hash="")
    _, broken = site.user(hash="secret")
    answers = [Client(server).login(email, "wrong"), Client(server).login("nobody@x"), Client(server).login(without),
               Client(server).login(broken)]
    assert [answer.status for answer in answers] == [401] * 4
    assert len({answer.body for answer in answers}) == 1
    assert all(answer.get("www-authenticate") == "Bearer" and not answer.cookies for answer in answers)
    assert "is no hash that can be verified" in server.log and "secret" not in server.log


@pytest.mark.parametrize("body, form, status, detail", [
    ({"email": "a@x"}, False, 400, 'The field "password" is missing.'),
    ({"password": "x"}, False, 400, 'The field "email" is missing.'),
    ({"email": ["a"], "password": "x"}, False, 400, 'The member "email" must be a text, a number or a truth value.'),
    ({"email": "a@x", "password": "x" * 1025}, False, 400, "The password is longer than 1,024 bytes."),
    ({"email": "a" * 1025, "password": "x"}, False, 400, 'The field "email" is too long.'),
    (b"[1]", False, 400, "The body is not a JSON object, or it has a member twice."),
    (b'{"email":"a","email":"b","password":"x"}', False, 400, "The body is not a JSON object, or it has a member twice."),
    (b"email=a&email=b&password=x", True, 400, "The form has a field twice."),
    (b"email=%zz&password=x", True, 400, "The form cannot be read."),
    (b"x" * 20000, False, 413, None),
], ids=[str(i) for i in range(10)])
def test_bodies_that_are_refused(site, body, form, status, detail):
    if site.kind == "postgres":
        pytest.skip("the body is refused before the database is asked")
    answer = Client(site.serve()).call("POST", "/auth/login", body, form=form)
    assert answer.status == status
    if detail is not None:
        assert answer.json["detail"] == detail


def test_other_media_types_and_methods_are_refused(site):
    client = Client(site.serve())
    with Connection(client.server.port) as connection:
        assert connection.call("POST", "/auth/login", b"<a/>", "Content-Type: text/xml").status == 415
    assert client.get("/auth/login").status == 405
    assert client.get("/auth/me").status == 401


def test_a_condition_for_users(site):
    server = site.serve()
    number, email = site.user(active="false")
    client = Client(server)
    answer = client.login(email)
    assert (answer.status, answer.json["detail"]) == (403, "The account is locked.")
    assert not answer.cookies
    assert Client(server).login(email, "wrong").status == 401, "only who knows the password learns of the lock"
    site.write(f"UPDATE users SET active = true WHERE id = {number}")
    assert client.login(email).status == 200
    site.write(f"UPDATE users SET active = false WHERE id = {number}")
    kept = client.copy()
    answer = client.post("/auth/refresh")
    assert answer.status == 403 and not client.jar, "the cookies are removed"
    assert kept.get("/notes").status == 401, "and the session has ended"


def pass_time(site, seconds=100):
    """As if the tokens had been refreshed earlier."""
    site.write(f"UPDATE refresh_tokens SET rotated_at = rotated_at - {seconds}")


def test_each_refresh_token_is_used_once(site):
    server = site.serve()
    _, email = site.user()
    client = Client(server)
    client.login(email)
    first = client.copy()
    assert client.post("/auth/refresh").status == 200
    assert client.jar["refresh"] != first.jar["refresh"]
    # An answer that was lost, or a second tab: the same token comes again.
    again = first.copy()
    assert again.post("/auth/refresh").status == 200
    assert again.jar["refresh"] == client.jar["refresh"]
    assert client.post("/auth/refresh").status == 200
    assert client.jar["refresh"] == again.jar["refresh"], "it changes once in ten seconds"
    pass_time(site)
    assert client.post("/auth/refresh").status == 200
    assert client.jar["refresh"] != again.jar["refresh"]
    # The first one has been replaced twice: somebody has kept a copy.
    stale = first.copy()
    assert stale.post("/auth/refresh").status == 401 and not stale.jar
    assert client.post("/auth/refresh").status == 401
    assert first.get("/notes").status == 401, "its access tokens have ended too"
    assert "was used again" in server.log
    assert server.sample('sluice_login_refused_total{reason="reuse"}') == 1


def test_a_new_password_ends_log_ins(site):
    server = site.serve()
    number, email = site.user()
    client = Client(server)
    client.login(email)
    site.write(f"UPDATE users SET password = '{hash_of('another secret')}' WHERE id = {number}")
    answer = client.post("/auth/refresh")
    assert answer.status == 401 and answer.json["detail"] == "The user's name or password has changed, so the log-in has ended."
    # Log-ins that are under way when the password changes.
    site.write(f"UPDATE users SET password = '{HASH}' WHERE id = {number}")
    networks = [Client(server) for _ in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        going = [pool.submit(one.login, email) for one in networks]
        until(lambda: any(one.done() for one in going))
        site.write(f"UPDATE users SET password = '{hash_of('a third secret')}' WHERE id = {number}")
        concurrent.futures.wait(going)
    assert [one.post("/auth/refresh").status for one in networks] == [401] * 8


def test_other_cookies_of_the_same_name(site):
    server = site.serve()
    _, email = site.user()
    client = Client(server)
    client.login(email)
    tossed = [f"Cookie: refresh=tossed; refresh={client.jar['refresh']}; access={client.jar['access']}"]
    assert client.call("POST", "/auth/refresh", None, *tossed, cookies=False).status == 200
    assert client.call("POST", "/auth/logout", None, *tossed, cookies=False).status == 204
    assert client.get("/notes").status == 401


def test_many_refreshes_at_once(site):
    server = site.serve()
    _, email = site.user()
    client = Client(server)
    client.login(email)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        others = list(pool.map(lambda _: (lambda one: (one.post("/auth/refresh").status, one.jar.get("refresh")))(client.copy()), range(16)))
    assert {status for status, _ in others} == {200}
    assert len({token for _, token in others}) == 1


def test_log_out(site):
    server = site.serve()
    number, email = site.user()
    client, elsewhere, third = Client(server), Client(server), Client(server)
    for one in (client, elsewhere, third):
        assert one.login(email).status == 200
    kept = client.copy()
    answer = client.post("/auth/logout")
    assert answer.status == 204 and not client.jar
    refused = kept.get("/notes")
    assert refused.status == 401 and refused.json["detail"] == "The token has been revoked."
    assert kept.post("/auth/refresh").status == 401
    assert elsewhere.get("/notes").status == 200
    assert client.post("/auth/logout").status == 204, "a second time"
    assert client.post("/auth/logout?all").status == 400
    kept = [elsewhere.copy(), third.copy()]
    assert elsewhere.post("/auth/logout?everywhere").status == 204
    for one in kept:
        assert one.get("/notes").status == 401
        assert one.post("/auth/refresh").status == 401
    assert Client(server).login(email).status == 200


def test_a_log_out_ends_streams(site):
    if site.kind == "postgres":
        pytest.skip("the database plays no part")
    server = site.serve(routes=ROUTES + WATCHED)
    _, email = site.user()
    client = Client(server)
    client.login(email)
    with Stream(server, "/watched/changes", fields=[f"Cookie: access={client.jar['access']}"]) as stream:
        assert client.post("/auth/logout").status == 204
        with pytest.raises((Ended, Broken)):
            stream.next()


def test_sessions_that_ended_before_the_start(site):
    server = site.serve()
    _, email = site.user()
    client = Client(server)
    client.login(email)
    kept = client.copy()
    client.post("/auth/logout")
    server.stop()
    kept.server = site.serve()
    assert kept.get("/notes").status == 401


def test_pages_of_other_origins(site):
    server = site.serve(policy='origins = ["https://app.example"]\n')
    _, email = site.user()
    client = Client(server)
    assert client.login(email, PASSWORD, "Sec-Fetch-Site: cross-site").status == 403
    for origin in ("https://evil.example", "null", "http://test.evil.example", "https://test"):
        answer = client.login(email, PASSWORD, f"Origin: {origin}")
        assert answer.status == 403 and not answer.cookies, origin
    assert client.login(email, PASSWORD, "Origin: http://test").status == 200
    for target in ("/auth/refresh", "/auth/logout"):
        assert client.post(target, None, "Origin: https://evil.example").status == 403
    assert client.post("/notes", {"text": "x"}).status == 403, "a cookie needs an Origin"
    assert client.post("/notes", {"text": "x"}, "Origin: https://evil.example").status == 403
    assert client.post("/notes", {"text": "x"}, "Origin: http://test").status == 201
    assert client.login(email, PASSWORD, "Origin: https://app.example").status == 200
    assert client.post("/auth/refresh", None, "Origin: https://app.example").status == 200


def test_answers_in_the_body(site):
    server = site.serve(keys='answer = "body"\naccess = "1m"')
    _, email = site.user()
    client = Client(server)
    answer = client.login(email)
    assert answer.status == 200 and not answer.cookies
    assert set(answer.json) == {"access_token", "token_type", "expires_in", "refresh_token"}
    assert answer.json["token_type"] == "Bearer" and answer.json["expires_in"] == 60
    bearer = f"Authorization: Bearer {answer.json['access_token']}"
    assert client.get("/notes", bearer).status == 200
    assert client.get("/notes", f"Cookie: access={answer.json['access_token']}").status == 401
    assert client.post("/auth/refresh").status == 400
    assert client.post("/auth/refresh", {"refresh_token": "x"}).status == 401
    assert client.post("/auth/logout", {"refresh_token": "x"}).status == 400
    fresh = client.post("/auth/refresh", {"refresh_token": answer.json["refresh_token"]})
    assert fresh.status == 200 and fresh.json["refresh_token"] != answer.json["refresh_token"]
    assert client.post("/auth/logout", {"refresh_token": fresh.json["refresh_token"]}).status == 204
    assert client.get("/notes", bearer).status == 401


def test_a_user_who_has_gone(site):
    server = site.serve()
    number, email = site.user()
    client, other = Client(server), Client(server)
    client.login(email)
    other.login(email)
    site.write(f"UPDATE users SET password = NULL WHERE id = {number}")
    assert client.post("/auth/refresh").status == 401
    # Somebody else takes the name, and has the same hash.
    site.write(f"UPDATE users SET password = '{HASH}', id = {next(ids) + 1000} WHERE id = {number}")
    assert other.post("/auth/refresh").status == 401
    assert other.post("/auth/refresh").status == 401


def test_a_hash_of_bcrypt_is_replaced(site):
    server = site.serve()
    number, email = site.user(hash=BCRYPT)
    assert Client(server).login(email, "wrong").status == 401
    assert site.query(f"SELECT password FROM users WHERE id = {number}") == [(BCRYPT,)]
    assert Client(server).login(email).status == 200
    assert site.query(f"SELECT password FROM users WHERE id = {number}")[0][0].startswith("$argon2id$")
    assert Client(server).login(email).status == 200


def test_tries_are_delayed(site):
    server = site.serve()
    _, email = site.user()
    guesser = Client(server)
    assert [guesser.login(email, "wrong").status for _ in range(4)] == [401] * 4
    refused = guesser.login(email)
    assert refused.status == 429 and refused.get("retry-after") == "1", "even with the right password"
    assert guesser.login(email.upper(), "wrong").status == 401, "SQLite and PostgreSQL compare exactly: another account"
    owner = Client(server)
    assert owner.login(email).status == 200, "from elsewhere"
    time.sleep(1.1)
    assert guesser.login(email).status == 200
    assert [guesser.login(email, "wrong").status for _ in range(4)] == [401] * 4, "success forgives"


def test_tries_at_once_do_not_slip_through(site):
    server = site.serve(keys="queue = 200")
    _, email = site.user()
    network = next(networks) % 250
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda i: Client(server, network).login(email, f"wrong{i}").status, range(40)))
    assert statuses.count(401) <= 4 and set(statuses) == {401, 429}


def test_a_network_that_tries_many_accounts(site):
    if site.kind == "sqlite":
        pytest.skip("the statements are the same")
    server = site.serve(keys="queue = 200")
    _, email = site.user()
    network = next(networks) % 250
    statuses = [Client(server, network).login(f"nobody{i}@x").status for i in range(60)]
    assert statuses.count(401) in range(51, 56) and statuses[-1] == 429
    before = site.query("SELECT count(*) FROM login_tries")
    assert Client(server, network).login("nobody1000@x").status == 429
    assert site.query("SELECT count(*) FROM login_tries") == before, "a flood writes nothing"
    assert Client(server).login(email).status == 200


def test_the_line_is_bounded(site):
    if site.kind == "postgres":
        pytest.skip("the line comes after the database")
    server = site.serve(keys="queue = 2", server="cores = 1")
    users = [site.user()[1] for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda email: Client(server).login(email), users))
    statuses = [answer.status for answer in answers]
    assert set(statuses) == {200, 503}
    assert all(answer.get("retry-after") == "1" for answer in answers if answer.status == 503)
    assert server.sample('sluice_login_refused_total{reason="busy"}') == statuses.count(503)


def test_keys_change(site):
    if site.kind == "postgres":
        pytest.skip("the database plays no part")
    server = site.serve()
    _, email = site.user()
    client = Client(server)
    client.login(email)
    old = client.jar["access"]
    subprocess.run([SLUICE, "keys", "--kid", "next", "--alg", "ES256", "--out", site.folder], check=True, capture_output=True)
    text = server.file.read_text()
    server.file.write_text(text.replace('["login.key.pem"]', '["next.key.pem", "login.key.pem"]'))
    assert reload(server)[0] == 200
    assert client.get("/notes").status == 200, "the old key still verifies"
    client.post("/auth/refresh")
    assert header_of(client.jar["access"])["alg"] == "ES256"
    assert client.get("/notes").status == 200
    keys = client.get("/.well-known/jwks.json")
    assert [key["alg"] for key in keys.json["keys"]] == ["ES256", "EdDSA"]
    assert {key["kid"] for key in keys.json["keys"]} == {header_of(client.jar["access"])["kid"], header_of(old)["kid"]}
    assert not any("d" in key for key in keys.json["keys"]), "only the public parts"
    server.file.write_text(text.replace('["login.key.pem"]', '["next.key.pem"]'))
    assert reload(server)[0] == 200
    assert client.get("/notes").status == 200
    assert client.call("GET", "/notes", None, f"Authorization: Bearer {old}", cookies=False).status == 401
    # A key that cannot be read changes nothing.
    server.file.write_text(text.replace('["login.key.pem"]', '["gone.key.pem"]'))
    status, said = reload(server)
    assert status == 422 and "gone.key.pem" in said
    assert client.get("/notes").status == 200


def test_forged_tokens(site):
    if site.kind == "postgres":
        pytest.skip("the database plays no part")
    server = site.serve()
    _, email = site.user()
    client = Client(server)
    client.login(email)
    kid = header_of(client.jar["access"])["kid"]
    forged = Ed().token(soon(iss="https://here.example"), kid=kid)
    assert client.call("GET", "/notes", None, f"Authorization: Bearer {forged}", cookies=False).status == 401
    head, payload, signature = client.jar["access"].split(".")
    admin = base64.urlsafe_b64encode(json.dumps({**claims_of(client.jar["access"]), "role": "admin"}).encode()).decode().rstrip("=")
    assert client.call("GET", "/notes", None, f"Authorization: Bearer {head}.{admin}.{signature}", cookies=False).status == 401
    family, secret = client.jar["refresh"].split(".")
    for token in (f"{family}.{secret}x", "a.b", family, "", secret + "." + secret, claims_of(client.jar["access"])["sid"] + "." + secret):
        other = Client(server)
        other.jar = {"refresh": token}
        assert other.post("/auth/refresh").status == 401, token
    assert client.post("/auth/refresh").status == 200, "none of these has ended the session"


def test_the_cookies_of_a_server_with_tls(site):
    server = site.serve(server='trusted_proxies = ["127.0.0.1"]')
    _, email = site.user()
    client = Client(server, 0)
    client.source = "127.0.0.1"
    answer = client.login(email, PASSWORD, "X-Forwarded-Proto: https", "Origin: https://test")
    assert answer.status == 200
    assert answer.cookies["__Host-access"][1].endswith("; Secure")
    assert set(answer.cookies) == {"__Host-access", "__Host-refresh"}
    assert client.get("/notes").status == 200


def test_an_upstream_gets_no_cookies(site):
    if site.kind == "postgres":
        pytest.skip("the database plays no part")
    with Upstream(lambda request, connection: response(b"up")) as upstream:
        server = site.serve(routes=ROUTES + f'[[upstream]]\nname = "up"\nservers = ["{upstream.url}"]\n'
                            '[[route]]\npath = "/up/{rest...}"\nupstream = "up"\nuse = ["auth"]\n')
        _, email = site.user()
        client = Client(server)
        client.login(email)
        client.jar["theme"] = "dark"
        assert client.get("/up/x").status == 200
        assert [value for name, value in upstream.requests[-1][2] if name.lower() == "cookie"] == ["theme=dark"]


def test_the_database_is_away(site):
    if site.kind == "sqlite":
        pytest.skip("it is a file")
    # One of its own, which can be stopped.
    cluster = Postgres()
    try:
        for statement in SCHEMA:
            cluster.psql(statement)
        site.url, site.query = cluster.url(), lambda sql: cluster.psql(sql)
        (site.folder / "tables.toml").write_text(site.config())
        subprocess.run([SLUICE, "login", "sql", "tables.toml", "--apply"], cwd=site.folder, check=True)
        server = site.serve(routes=ROUTES + '[[files]]\npath = "/files"\nroot = "."\nuse = ["auth"]\n')
        _, email = site.user()
        client = Client(server)
        assert client.login(email).status == 200
        cluster.stop("immediate")
        for answer in (Client(server).login(email), client.post("/auth/refresh"), client.copy().post("/auth/logout")):
            assert answer.status == 503 and answer.get("retry-after") and not answer.cookies
        assert client.get("/files/tables.toml").status == 200, "tokens need no database"
        cluster.start()
        until(lambda: client.post("/auth/refresh").status == 200)
    finally:
        cluster.remove()


def test_two_nodes(site):
    if site.kind == "sqlite":
        pytest.skip("nodes share PostgreSQL")
    one, two = site.serve(), site.serve()
    _, email = site.user()
    client = Client(one)
    client.login(email)
    client.server = two
    assert client.get("/notes").status == 200
    first = client.copy()
    assert client.post("/auth/refresh").status == 200
    client.server = one
    pass_time(site)
    assert client.post("/auth/refresh").status == 200
    # A stolen token is noticed by either, and ends the session on both.
    first.server = two
    assert first.post("/auth/refresh").status == 401
    until(lambda: client.get("/notes").status == 401, 5)
    # Log-out everywhere.
    here, there = Client(one), Client(two)
    here.login(email)
    there.login(email)
    kept = there.copy()
    assert here.post("/auth/logout?everywhere").status == 204
    until(lambda: kept.get("/notes").status == 401, 5)
    assert kept.post("/auth/refresh").status == 401
    # Tries are counted together.
    guesser = Client(one)
    for i in range(4):
        guesser.server = (one, two)[i % 2]
        assert guesser.login(email, "wrong").status == 401
    assert guesser.login(email, "wrong").status == 429


def run(site, *command, password=None):
    done = subprocess.run([SLUICE, *command], cwd=site.folder, input=password, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_commands_for_users(site):
    (site.folder / "sluice.toml").write_text(site.config('users = { table = "users" }'))
    server = site.serve()
    number = next(ids)
    assert run(site, "user", "add", "eve@x", "--set", f"id={number}", "--set", "role=writer", "--set", "active=true",
               password="first secret\n") == (0, "eve@x has been added.\n")
    client = Client(server)
    assert client.login("eve@x", "first secret").json["role"] == "writer"
    assert run(site, "user", "add", "eve@x", "--set", f"id={next(ids)}", password="x y z\n") [0] == 1
    assert run(site, "user", "password", "eve@x", password="second secret\n") == (0, "eve@x has a new password, and has to log in again.\n")
    until(lambda: client.get("/notes").status == 401, 5)
    assert client.post("/auth/refresh").status == 401
    assert Client(server).login("eve@x", "first secret").status == 401
    assert Client(server).login("eve@x", "second secret").status == 200
    assert run(site, "user", "disable", "eve@x") == (0, "eve@x cannot log in any more.\n")
    assert Client(server).login("eve@x", "second secret").status == 401
    assert run(site, "user", "disable", "nobody@x") == (1, "sluice: there is no user nobody@x\n")
    assert run(site, "user", "password", "eve@x", password="\n")[0] == 1
    assert run(site, "user", "add", "a", "--set", "none=1", password="x y z\n")[0] == 1
    assert run(site, "user", "add", "", password="x y z\n")[0] == 1
    assert run(site, "user", "add", "a", "--set", "email=b", password="x y z\n")[1] == "sluice: --set is for other columns than email\n"
    code, text = run(site, "login", "sql")
    assert code == 0 and "CREATE TABLE IF NOT EXISTS refresh_tokens" in text
    assert run(site, "login", "sql", "--apply")[0] == 0, "a second time"


FAULTS = [
    ("keys", 'policy = "auth"', 'policy = "other"', 'there is no [policy.other] of type "jwt"'),
    ("keys", 'signing_keys = ["login.key.pem"]', "", "[login] has no key to sign tokens with"),
    ("keys", '["login.key.pem"]', '["gone.pem"]', "gone.pem: cannot be read"),
    ("keys", '["login.key.pem"]', '["login.pub.pem"]', "it holds no private key"),
    ("keys", '["login.key.pem"]', '["login.jwks.json"]', "is no private key in PEM"),
    ("keys", '["login.key.pem"]', '["login.key.pem", "login.key.pem"]', "is there twice"),
    ("keys", "signing_keys", 'algorithm = "RS256"\nsigning_keys', "the key is not for RS256, but for EdDSA"),
    ("keys", "signing_keys", 'algorithm = "HS256"\nsigning_keys', "signs with a private key, not with a secret"),
    ("policy", 'issuer = "https://here.example"', 'issuer = "https://there.example"', '[policy.auth] refuses tokens with the issuer'),
    ("policy", "issuer", 'audience = "api"\nissuer', '[policy.auth] has "audience", and the tokens of [login] have no "aud"'),
    ("policy", "issuer", 'algorithms = ["RS256"]\nissuer', "does not accept EdDSA, with which [login] signs"),
    ("policy", "issuer", 'secret = "0123456789abcdef0123456789abcdef"\nissuer', "[policy.auth] has a key of its own"),
    ("policy", "issuer", 'from = ["header.authorization"]\nissuer', "takes no tokens from where clients have them"),
    ("policy", "issuer", 'origins = ["*"]\nissuer', "the pages of any origin could act for the users"),
    ("query", "id AS sub", "id", 'the query has no column "sub"'),
    ("query", ", password FROM", " FROM", 'the query has no column "password"'),
    ("query", "role, active", "role AS exp, active", 'the column "exp" would be a claim that [login] gives itself'),
    ("query", " WHERE email = :email", "", "the query has no parameter"),
    ("query", "email = :email", "email = :email AND password = :password", "the query has the parameter :password"),
    ("query", "FROM users", "FROM user_table", "user_table"),
    ("query", "id = CAST(:sub AS integer)", "id = CAST(:id AS integer)", 'the parameters of "rehash" are :password and :sub'),
    ("tables", "signing_keys", 'refresh.table = "tokens"\nsigning_keys', "`sluice login sql --apply` makes the tables"),
    ("tables", "signing_keys", 'tries = "users"\nsigning_keys', "the table users"),
    ("keys", "eq(claim.active, true)", "exists(SELECT 1)", "[login] takes no exists()"),
    ("keys", "eq(claim.active, true)", "eq(query.x, 1)", "[login] has no query.x"),
    ("keys", "signing_keys", 'use = ["auth"]\nsigning_keys', "nobody has a token before the log-in"),
    ("keys", "iss =", "sub =", '[login] itself gives the claim "sub"'),
    ("keys", "signing_keys", 'cookies.access = "__Host-a"\nsigning_keys', "browsers refuse a cookie of this name without Secure"),
]


def test_check_finds_faults(site):
    if site.kind == "postgres":
        pytest.skip("one database is enough")
    for _, old, new, message in FAULTS:
        text = site.config()
        assert old in text
        (site.folder / "sluice.toml").write_text(text.replace(old, new, 1))
        code, said = run(site, "check")
        assert code == 3 and message in said, (new, said)
    (site.folder / "sluice.toml").write_text(site.config())
    assert run(site, "check")[0] == 0


def test_prompts_and_logs_show_no_secret(site):
    if site.kind == "postgres":
        pytest.skip("the database plays no part")
    key = (site.folder / "login.key.pem").read_text()
    server = site.serve(login=LOGIN.replace('signing_keys = ["login.key.pem"]', 'signing_key = "${{file:login.key.pem}}"'))
    _, email = site.user()
    assert Client(server).login(email).status == 200
    assert key.splitlines()[1] not in server.log
    status, shown = server.admin("/configuration")
    assert status == 200 and "signing_key" in shown and key.splitlines()[1] not in shown


PAGE = """<!doctype html><title>Log-in</title>"""
STREAMS = """
[[websocket]]
path = "/echo"
handler = "echo"
use = ["auth"]

[[files]]
path = "/"
root = "public"
"""
LOG_IN = """fetch("/auth/login", {method: "POST", headers: {"Content-Type": "application/json"},
  body: JSON.stringify({email: EMAIL, password: PASSWORD})}).then(answer => answer.status)"""
WATCH = """new Promise(done => {
  window.stream = new EventSource("/watched/changes");
  stream.onopen = () => done("open");
  stream.onerror = () => done("error");
})"""
ECHO = """new Promise(done => {
  window.socket = new WebSocket(`ws://${location.host}/echo`);
  socket.onopen = () => socket.send("hello");
  socket.onmessage = message => done(message.data);
  socket.onclose = () => done("closed");
})"""
CLOSED = "new Promise(done => { if (socket.readyState == 3) done('closed'); socket.onclose = () => done('closed'); })"


def status(method, target, **more):
    return f"fetch({json.dumps(target)}, {json.dumps({'method': method, **more})}).then(answer => answer.status)"


def test_a_page_in_chromium(site, tmp_path_factory):
    public = site.folder / "public"
    public.mkdir()
    (public / "index.html").write_text(PAGE)
    streams = STREAMS + (WATCHED if site.kind == "sqlite" else "")
    server, other = site.serve(routes=ROUTES + streams), site.serve(routes=ROUTES + streams)
    number, email = site.user("writer")
    chromium = Chromium(tmp_path_factory.mktemp("chromium"))
    try:
        page = chromium.open(f"http://localhost:{server.port}/")
        run = page.run
        assert run(status("GET", "/notes")) == 401
        log_in = LOG_IN.replace("EMAIL", json.dumps(email))
        assert run(log_in.replace("PASSWORD", '"wrong"')) == 401
        assert run(log_in.replace("PASSWORD", json.dumps(PASSWORD))) == 200
        assert run('fetch("/auth/me").then(answer => answer.json())')["sub"] == str(number)
        assert run("document.cookie") == "", "scripts see no cookie"
        headers = {"Content-Type": "application/json"}
        assert run(status("POST", "/notes", headers=headers, body='{"text": "mine"}')) == 201
        assert run(ECHO) == "hello"
        if site.kind == "sqlite":
            assert run(WATCH) == "open"
        # Two tabs that refresh at the same time.
        second = chromium.open(f"http://localhost:{server.port}/")
        refresh = "Promise.all([1, 2, 3].map(() => " + status("POST", "/auth/refresh") + "))"
        assert run(refresh) == [200] * 3
        pass_time(site)
        assert second.run(refresh) == [200] * 3
        assert second.run(status("GET", "/notes")) == 200
        # A page of another port is another origin: cookies do not separate ports, the Origin rule does.
        foreign = chromium.open(f"http://localhost:{other.port}/")
        there = f"http://localhost:{server.port}"
        form = {"mode": "no-cors", "credentials": "include", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}
        foreign.run(f"fetch('{there}/notes', {json.dumps({**form, 'method': 'POST', 'body': 'text=forged'})})")
        foreign.run(f"fetch('{there}/auth/logout', {json.dumps({**form, 'method': 'POST'})})")
        foreign.run(f"fetch('{there}/auth/login', {json.dumps({**form, 'method': 'POST', 'body': 'email=a&password=b'})})")
        assert foreign.run(ECHO.replace("${location.host}", f"localhost:{server.port}")) == "closed"
        assert site.query("SELECT text FROM notes") == [("mine",)]
        assert run(status("GET", "/notes")) == 200
        # Log-out in one tab ends all.
        assert second.run(status("POST", "/auth/logout")) == 204
        assert run(CLOSED) == "closed"
        assert run(status("GET", "/notes")) == 401 and run(status("POST", "/auth/refresh")) == 401
    finally:
        chromium.close()
