"""[policy.NAME] of type "jwt" in front of endpoints, files and WebSockets: which tokens pass, and what refusals say."""
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import time

import jwt as pyjwt
import pytest

import http2
import tokens
from conftest import SLUICE, database_with
from test_gateway import echo, gateway, said, wait_until
from tokens import Ec, Rsa, Secret, assemble, soon
from upstream import Upstream

SECRET = Secret()
ROUTES = '''
[database.main]
url = "sqlite:small.db"
[[endpoint]]
path = "/numbers/{n:int}"
get = "SELECT text FROM numbers WHERE n = :n"
use = ["auth"]
[[endpoint]]
path = "/open"
get = "SELECT 1 AS one"
[[files]]
path = "/site"
root = "site"
use = ["auth"]
[[websocket]]
path = "/echo"
handler = "echo"
use = ["auth"]
'''


def policy(keys, more="", name="auth"):
    return f'[policy.{name}]\ntype = "jwt"\n{keys}\n{more}\n'


@pytest.fixture(scope="session")
def pairs():
    return {"RS256": Rsa(), "ES256": Ec()}


@pytest.fixture
def guarded(sluice, small_sqlite, site):
    """guarded(keys, more) serves ROUTES behind such a policy."""
    return lambda keys=f'secret = "{SECRET.secret}"', more="", **options: sluice(ROUTES + policy(keys, more), **options)


def bearer(token):
    return f"Authorization: Bearer {token}"


def ask(server, token, path="/numbers/7", **options):
    return server.get(path, *([bearer(token)] if token is not None else []), **options)


def refused(answer, says, status=401, error="invalid_token"):
    assert answer.status == status, answer.body
    assert answer.media_type == "application/problem+json"
    problem = json.loads(answer.body)
    assert problem["status"] == status and says in problem["detail"]
    challenge = answer.get("www-authenticate")
    assert challenge.startswith('Bearer realm="sluice"')
    if error:
        assert f'error="{error}", error_description="{problem["detail"]}"' in challenge
    else:
        assert "error" not in challenge
    return True


def counted(server, name, **labels):
    """The sum of a metric's samples that have these labels."""
    found = 0
    for line in server.admin("/metrics")[1].splitlines():
        if re.match(rf"{name}[{{ ]", line) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            found += int(line.split()[-1])
    return found


def keys_of(algorithm, pairs, folder):
    """The policy's key line, and the signer."""
    if algorithm == "HS256":
        return f'secret = "{SECRET.secret}"', SECRET
    (folder / "key.pem").write_bytes(pairs[algorithm].public_pem)
    return 'public_key = "key.pem"', pairs[algorithm]


@pytest.mark.parametrize("algorithm", ["HS256", "RS256", "ES256"])
def test_every_algorithm_on_endpoints_and_files_over_both_versions(guarded, tmp_path, pairs, algorithm):
    line, signer = keys_of(algorithm, pairs, tmp_path)
    server = guarded(line)
    good = signer.token()
    library = pyjwt.encode({"sub": "ada", "exp": int(time.time()) + 60},
                           SECRET.secret if algorithm == "HS256" else signer.private, algorithm=algorithm)
    header, payload, signature = good.split(".")
    swapped = payload.replace(payload[3], "A" if payload[3] != "A" else "B", 1)
    bad = [f"{header}.{swapped}.{signature}", f"{header}.{payload}.{'A' * len(signature)}"]
    for path, body in [("/numbers/7", b'[{"text":"number 7"}]\n'), ("/site/hello.txt", b"Hello, world.\n")]:
        for token in (good, library):
            assert ask(server, token, path).body == body
            assert ask(server, token, path, method="HEAD").status == 200
        assert refused(ask(server, None, path), "needed", error=None)
        for token in bad:
            assert refused(ask(server, token, path), "signature")
        with http2.Client(server.port) as client:
            answer = client.get(path, fields=[("authorization", f"Bearer {good}")])
            assert (answer.status, answer.body) == (200, body)
            for fields, error in [([], ""), ([("authorization", f"Bearer {bad[0]}")], "invalid_token")]:
                answer = client.get(path, fields=fields)
                assert answer.status == 401 and error in answer.fields["www-authenticate"]
    assert server.get("/open").status == 200


@pytest.fixture(scope="session")
def signers():
    """{algorithm: private key as PyJWT takes it}"""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    pair = rsa.generate_private_key(65537, 2048)
    return {**{f"HS{bits}": "s" * 64 for bits in (256, 384, 512)},
            **{f"{kind}{bits}": pair for kind in ("RS", "PS") for bits in (256, 384, 512)},
            "ES256": ec.generate_private_key(ec.SECP256R1()), "ES384": ec.generate_private_key(ec.SECP384R1()),
            "ES512": ec.generate_private_key(ec.SECP521R1()), "EdDSA": ed25519.Ed25519PrivateKey.generate()}


def test_the_key_and_not_the_token_decides_the_algorithm(sluice, small_sqlite, tmp_path, signers):
    """A policy for each algorithm. All RS and PS share a key, as all HS do, and still each policy accepts only its own."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding

    text = '[database.main]\nurl = "sqlite:small.db"\n'
    for algorithm, private in signers.items():
        key = f'secret = "{private}"'
        if not algorithm.startswith("HS"):
            (tmp_path / f"{algorithm}.pem").write_bytes(private.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
            key = f'public_key = "{algorithm}.pem"'
        # The first algorithm of a kind is the default for a key.
        more = "" if algorithm in ("HS256", "RS256", "ES256", "ES384", "ES512", "EdDSA") else f'algorithms = ["{algorithm}"]'
        text += policy(key, more, algorithm)
        text += f'[[endpoint]]\npath = "/{algorithm}"\nget = "SELECT 1 AS one"\nuse = ["{algorithm}"]\n'
    text += policy('public_key = "RS256.pem"', 'algorithms = ["PS512", "ES256", "RS384"]', "both")
    text += '[[endpoint]]\npath = "/both"\nget = "SELECT 1 AS one"\nuse = ["both"]\n'
    server = sluice(text)
    for algorithm, private in signers.items():
        token = pyjwt.encode(soon(), private, algorithm=algorithm)
        passed = [path for path in [*signers, "both"] if ask(server, token, f"/{path}").status == 200]
        assert passed == [algorithm, "both"][:1 + (algorithm in ("PS512", "RS384"))]
    # The token names one of the key's algorithms and is signed with the other.
    pss = padding.PSS(padding.MGF1(hashes.SHA512()), 64)
    for named, status in (("PS512", 200), ("RS384", 401), ("RS512", 401)):
        token = assemble({"alg": named}, soon(), lambda data: signers["PS512"].sign(data, pss, hashes.SHA512()))
        assert ask(server, token, "/both").status == status


def test_a_key_set_of_every_algorithm(guarded, tmp_path, signers):
    keys = []
    for algorithm, private in signers.items():
        public = private.encode() if algorithm.startswith("HS") else private.public_key()
        jwk = tokens.ec_jwk(public) if algorithm.startswith("ES") else json.loads(
            pyjwt.algorithms.get_default_algorithms()[algorithm].to_jwk(public))
        keys.append({**jwk, "kid": algorithm, "alg": algorithm})
    (tmp_path / "keys.json").write_text(json.dumps({"keys": keys}))
    server = guarded('jwks = "keys.json"')
    for algorithm, private in signers.items():
        token = pyjwt.encode(soon(), private, algorithm=algorithm, headers={"kid": algorithm})
        assert ask(server, token).status == 200, algorithm
        other = pyjwt.encode(soon(), private, algorithm=algorithm, headers={"kid": "another"})
        assert refused(ask(server, other), "key is not known"), algorithm
    narrow = guarded('jwks = "keys.json"', 'algorithms = ["EdDSA", "PS256"]')
    for algorithm, private in signers.items():
        token = pyjwt.encode(soon(), private, algorithm=algorithm, headers={"kid": algorithm})
        assert ask(narrow, token).status == (200 if algorithm in ("EdDSA", "PS256") else 401), algorithm


def test_every_method_is_guarded(guarded):
    server = guarded()
    for path in ("/numbers/7", "/site/hello.txt", "/site/", "/site/missing", "/echo"):
        for method in ("GET", "HEAD", "OPTIONS", "POST", "DELETE", "TRACE", "PROPFIND"):
            assert server.get(path, method=method).status == 401, (method, path)
    good = SECRET.token()
    assert ask(server, good, method="OPTIONS").status == 204
    assert ask(server, good, method="POST").status == 405
    assert ask(server, good, "/site/missing").status == 404


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_preflights_pass_and_run_nothing(sluice, tmp_path, request, kind):
    """A browser sends no token with its preflight (Fetch, 4.8). The answer only lists the methods."""
    made = ["DROP TABLE IF EXISTS visits", "CREATE TABLE visits (n int PRIMARY KEY)"]
    request.param = kind
    url = database_with(request, tmp_path, made)
    (tmp_path / "site").mkdir()
    changes = 'tables = ["visits"]' if kind == "sqlite" else 'notify = "visits"'
    server = sluice(policy(f'secret = "{SECRET.secret}"') + f'''
[database.main]
url = "{url}"
[[endpoint]]
path = "/visits"
use = ["auth"]
require = ["eq(claim.sub, 'ada')", "exists(SELECT 1 WHERE 1 = 0)"]
get = "SELECT n FROM visits"
post = "INSERT INTO visits VALUES (1)"
changes = {{ {changes} }}
[[endpoint]]
path = "/all"
use = ["auth"]
[endpoint.put]
table = "visits"
existing = "SELECT n FROM visits"
columns.n = {{ key = true }}
[[resident]]
name = "known"
use = ["auth"]
query = "SELECT n FROM visits"
key = "n"
[[files]]
path = "/site"
root = "site"
use = ["auth"]
[[websocket]]
path = "/echo"
handler = "echo"
use = ["auth"]
[batch]
path = "/batch"
use = ["auth"]
[openapi]
path = "/openapi.json"
title = "x"
use = ["auth"]
''')
    allowed = {"/visits": "GET, HEAD, POST, OPTIONS", "/visits/changes": "GET, HEAD, OPTIONS", "/all": "PUT, OPTIONS",
               "/known": "GET, HEAD, OPTIONS", "/known/7": "GET, HEAD, OPTIONS", "/site/": "GET, HEAD, OPTIONS",
               "/site": "GET, HEAD, OPTIONS", "/echo": "GET, HEAD, OPTIONS", "/batch": "POST, OPTIONS",
               "/openapi.json": "GET, HEAD, OPTIONS"}
    preflight = ["Origin: https://app.example", "Access-Control-Request-Method: POST",
                 "Access-Control-Request-Headers: authorization, content-type"]
    for path, methods in allowed.items():
        answer = server.get(path, *preflight, method="OPTIONS")
        assert (answer.status, answer.get("allow"), answer.body) == (204, methods, b""), path
        # Half of a preflight is not one, and neither are its fields with another method.
        for fields in (preflight[:1], preflight[1:]):
            assert server.get(path, *fields, method="OPTIONS").status == 401, path
        for method in ("GET", "HEAD", "POST", "PUT", "TRACE"):
            assert server.get(path, *preflight, method=method).status == 401, (method, path)
    assert server.get("/none", *preflight, method="OPTIONS").status == 404
    with http2.Client(server.port) as client:
        fields = [("origin", "https://app.example"), ("access-control-request-method", "POST")]
        for path in allowed:
            assert client.get(path, method="OPTIONS", fields=fields).status == 204, path
            assert client.get(path, method="OPTIONS", fields=fields[:1]).status == 401, path
    if kind == "sqlite":
        with sqlite3.connect(tmp_path / "main.db") as database:
            assert database.execute("SELECT count(*) FROM visits").fetchone() == (0,)
        database.close()
    else:
        assert request.getfixturevalue("postgres").psql("SELECT count(*) FROM visits").strip() == b"0"


def test_a_websocket_is_guarded_in_both_versions(guarded):
    from websocket import TEXT, WebSocket, WebSocketOverHttp2

    server = guarded()
    token = bearer(SECRET.token())
    with WebSocket(server.port, "/echo", token) as client:
        client.say(TEXT, "let in")
        assert client.frame().payload == b"let in"
    with WebSocketOverHttp2(server.port, "/echo", token) as client:
        client.say(TEXT, "here too")
        assert client.frame().payload == b"here too"
    with WebSocket(server.port, "/echo", open=False) as client:
        assert client.handshake().status == 401
    assert counted(server, "sluice_websockets_total") == 2


def test_no_spelling_of_a_path_goes_around(guarded, tmp_path):
    """A [[files]] for the parent folder is refused (below); one for a folder beside it opens no way in."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other/hello.txt").write_text("public")
    server = guarded(more='[[files]]\npath = "/"\nroot = "other"')
    assert server.get("/hello.txt").body == b"public"
    for path in ("//site/hello.txt", "/%2fsite/hello.txt", "/site%2fhello.txt", "/./site/hello.txt", "/x/../site/hello.txt",
                 "/%73ite/hello.txt", "/site//hello.txt", "/site/./hello.txt", "/site/%2e/hello.txt", "/SITE/hello.txt",
                 "/site;/hello.txt", "/site/../site/hello.txt", "http://test/site/hello.txt", "/site%00/hello.txt",
                 "/site\\hello.txt", "/numbers/7.csv", "/numbers/7.json", "/numbers/%37", "//numbers/7", "/numbers//7"):
        status = 400 if path in ("/site%00/hello.txt", "/site\\hello.txt") else 401
        if path in ("/%2fsite/hello.txt", "/SITE/hello.txt", "/site%2fhello.txt", "/site;/hello.txt"):
            status = 404  # these are paths in the folder beside it
        answer = server.get(path)
        assert answer.status == status, (path, answer.status, answer.body)


def test_what_writes_is_guarded(guarded, small_sqlite):
    server = guarded(more='''[[endpoint]]
path = "/texts"
post = "INSERT INTO numbers (text) VALUES ('new')"
use = ["auth"]''')
    with sqlite3.connect(small_sqlite) as database:
        count = lambda: database.execute("SELECT count(*) FROM numbers").fetchone()[0]
        before = count()
        assert server.get("/texts", "Content-Length: 0", method="POST").status == 401
        assert count() == before
        assert ask(server, SECRET.token(), "/texts", method="POST").status == 201
        assert count() == before + 1
    database.close()


# ---- what a token must be ----

def test_forged_tokens(guarded):
    server = guarded()
    good = SECRET.token()
    header, payload, signature = good.split(".")
    forged = [
        (assemble({"alg": "none"}, soon(), lambda data: b""), "malformed"),
        (assemble({"alg": "none"}, soon(), lambda data: b"x"), "algorithm"),
        (assemble({"alg": "HS512"}, soon(), SECRET.sign), "algorithm"),
        (assemble({"alg": "RS256"}, soon(), SECRET.sign), "algorithm"),
        (assemble({"alg": "HS256", "crit": ["exp"]}, soon(), SECRET.sign), "extension"),
        (assemble({"alg": "HS256", "b64": False, "crit": ["b64"]}, soon(), SECRET.sign), "extension"),
        (assemble('{"alg":"HS256","alg":"none"}', soon(), SECRET.sign), "malformed"),
        (assemble({"alg": "HS256", "kid": 7}, soon(), SECRET.sign), "malformed"),
        (assemble({"alg": "HS256"}, '{"exp":99999999999,"exp":99999999999}', SECRET.sign), "malformed"),
        (assemble({"alg": "HS256"}, "[]", SECRET.sign), "malformed"),
        (assemble({"alg": "HS256"}, soon(), Secret("another secret that is long enough").sign), "signature"),
        (assemble({"alg": "HS256"}, soon(), lambda data: SECRET.sign(data)[:16]), "signature"),
        (f"{header}.{payload}", "malformed"), (f"{good}.x", "malformed"), (f"{good}=", "malformed"), ("x", "malformed"),
        (f"{header}=.{payload}.{signature}", "malformed"),
        (SECRET.token(soon(exp=int(time.time()) - 31)), "expired"),
        (SECRET.token(soon(nbf=int(time.time()) + 100)), "not valid yet"),
        (SECRET.token({"sub": "ada"}), "never expires"),
        (SECRET.token(soon(exp="soon")), "malformed"),
        (SECRET.token(soon(pad="x" * 9000)), "too long"),
    ]
    for token, says in forged:
        assert refused(ask(server, token), says), token
    assert ask(server, good).status == 200
    assert counted(server, "sluice_jwt_refusals_total", reason="malformed", policy="auth") == sum(
        says == "malformed" for _, says in forged)
    assert counted(server, "sluice_jwt_refusals_total") == len(forged)
    assert ask(server, SECRET.token(soon(exp=time.time() - 20))).status == 200  # within the leeway


def test_authorization_comes_once_and_is_bearer(guarded):
    server = guarded()
    token = SECRET.token()
    for field in (f"authorization: bearer {token}", f"AUTHORIZATION: BEARER   {token}"):
        assert server.get("/numbers/7", field).status == 200
    assert refused(server.get("/numbers/7", bearer(token), bearer(token)), "more than once", 400, "invalid_request")
    assert refused(server.get("/numbers/7", "Authorization: Basic YTpi"), "Bearer", error=None)
    assert refused(server.get("/numbers/7", f"Authorization: {token}"), "Bearer", error=None)
    with http2.Client(server.port) as client:
        twice = [("authorization", f"Bearer {token}")] * 2
        assert client.get("/numbers/7", fields=twice).status == 400
        assert client.get("/numbers/7", fields=[("authorization", f"bEARER {token}")]).status == 200


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_public_key_is_no_secret(guarded, tmp_path, pairs, algorithm):
    """The classic confusion: HS256 with the public PEM as its secret."""
    line, signer = keys_of(algorithm, pairs, tmp_path)
    server = guarded(line)
    pem = signer.public_pem.decode()
    for secret in (pem, pem.strip(), pem.replace("\n", "\r\n")):
        assert refused(ask(server, Secret(secret).token()), "algorithm")
        assert refused(ask(server, assemble({"alg": algorithm}, soon(), Secret(secret).sign)), "signature")
    other = (Rsa if algorithm == "RS256" else Ec)()
    assert refused(ask(server, other.token()), "signature")
    if algorithm == "ES256":
        assert refused(ask(server, assemble({"alg": "ES256"}, soon(), signer.sign_der)), "signature")
        assert refused(ask(server, assemble({"alg": "ES256"}, soon(), lambda data: bytes(64))), "signature")


def test_issuer_and_audience(guarded):
    server = guarded(more='issuer = ["https://a.example", "https://b.example"]\naudience = "films"')
    for claims in ({"aud": "films"}, {"aud": ["x", "films"]}):
        for issuer in ("https://a.example", "https://b.example"):
            assert ask(server, SECRET.token(soon(iss=issuer, **claims))).status == 200
        for wrong in ({}, {"iss": "https://a.example/"}, {"iss": ["https://a.example"]}):
            assert refused(ask(server, SECRET.token(soon(**wrong, **claims))), "issuer")
    for wrong in ({}, {"aud": "film"}, {"aud": []}, {"aud": ["film"]}, {"aud": {"films": 1}}, {"aud": ["films", 1]}):
        assert refused(ask(server, SECRET.token(soon(iss="https://a.example", **wrong))), "audience")
    lists = guarded(more='audience = ["films", "actors"]')
    assert ask(lists, SECRET.token(soon(aud="actors"))).status == 200
    assert refused(ask(guarded(), SECRET.token(soon(aud="films"))), "audience")


def test_optional(guarded):
    server = guarded(more="optional = true")
    assert ask(server, None).status == 200
    assert ask(server, SECRET.token()).status == 200
    assert refused(ask(server, SECRET.token(soon(exp=1))), "expired")
    assert refused(server.get("/numbers/7", "Authorization: Basic YTpi"), "Bearer", error=None)
    assert counted(server, "sluice_jwt_anonymous_total") == 1


def test_scopes_and_roles(sluice, small_sqlite):
    """Policies with different requirements, each in front of its own path."""
    text = '[database.main]\nurl = "sqlite:small.db"\n'
    for name, require in [("read", '{ claim = "scope", any = ["films:read", "films:all"] }'),
                          ("edit", '{ claim = "scope", all = ["films:write"] }, '
                                   '{ claim = "realm_access.roles", any = ["editor", "the owner"] }')]:
        text += policy(f'secret = "{SECRET.secret}"', f"require = [{require}]", name)
        text += f'[[endpoint]]\npath = "/{name}"\nget = "SELECT 1 AS one"\nuse = ["{name}"]\n'
    server = sluice(text)
    roles = lambda *names: {"realm_access": {"roles": [*names]}}
    reader, editor = SECRET.token(soon(scope="openid films:all")), SECRET.token(
        soon(scope=["films:write", "films:read"], **roles("x", "the owner")))
    for _ in range(3):
        assert ask(server, reader, "/read").status == ask(server, editor, "/read").status == 200
        assert ask(server, editor, "/edit").status == 200
    for path, scope, claims in [
            ("/read", "films:read films:all", {}), ("/read", "films:read films:all", {"scope": "films:reader"}),
            ("/read", "films:read films:all", {"scope": ["films:read films:all"]}),
            ("/edit", "films:write", roles("editor")), ("/edit", None, {"scope": "films:write"}),
            ("/edit", None, {"scope": "films:write", **roles("owner")}), ("/edit", "films:write", {"scope": "openid"})]:
        answer = ask(server, SECRET.token(soon(**claims)), path)
        assert refused(answer, "scope" if scope else "claims", 403, "insufficient_scope")
        assert answer.get("www-authenticate").endswith(f', scope="{scope}"') is (scope is not None)
    assert refused(ask(server, None, "/edit"), "needed", error=None)
    assert refused(ask(server, SECRET.token(soon(exp=1)), "/edit"), "expired")
    assert counted(server, "sluice_jwt_refusals_total", policy="read", reason="scope") == 3
    assert counted(server, "sluice_jwt_refusals_total", policy="edit", reason="claim") == 2


def test_a_token_without_an_end(guarded):
    server = guarded(more='require_exp = false\nrealm = "films"')
    assert ask(server, SECRET.token({})).status == 200
    assert ask(server, None).get("www-authenticate") == 'Bearer realm="films"'


# ---- keys ----

def test_a_key_set(guarded, tmp_path, pairs):
    others = Rsa(), Ec()
    keys = [pairs["RS256"].jwk("r1"), pairs["ES256"].jwk("e1"), others[0].jwk("r2"), SECRET.jwk("s1"),
            {"kty": "OKP", "crv": "Ed448", "x": "AA", "kid": "o1"}]
    (tmp_path / "keys.json").write_text(json.dumps({"keys": keys}))
    server = guarded('jwks = "keys.json"')
    assert 'warning: keys.json: key 5 ("o1") is left out' in server.log.replace(str(tmp_path) + "/", "")
    for signer, kid in ((pairs["RS256"], "r1"), (pairs["ES256"], "e1"), (others[0], "r2"), (SECRET, "s1")):
        assert ask(server, signer.token(kid=kid)).status == 200
    for signer, kid in ((pairs["RS256"], "r2"), (SECRET, "r1"), (pairs["ES256"], "e2"), (others[1], "e1")):
        assert ask(server, signer.token(kid=kid)).status == 401
    assert refused(ask(server, pairs["RS256"].token()), "key is not known")  # two keys are possible
    assert ask(server, pairs["ES256"].token()).status == 200  # only one key is possible


def test_a_secret_in_a_file_and_one_from_the_environment(guarded, tmp_path):
    (tmp_path / "secret").write_text(SECRET.secret + "\n")
    assert ask(guarded('secret_file = "secret"'), SECRET.token()).status == 200
    server = guarded('secret = "${JWT_SECRET}"', env={"JWT_SECRET": SECRET.secret})
    assert ask(server, SECRET.token()).status == 200


@pytest.mark.parametrize("by_signal", [True, False])
def test_keys_are_read_again(guarded, tmp_path, by_signal):
    old, new = Ec(), Ec()
    path = tmp_path / "key.pem"
    path.write_bytes(old.public_pem)
    server = guarded('public_key = "key.pem"')
    old_token, new_token = old.token(), new.token()
    assert [ask(server, token).status for token in (old_token, old_token, new_token)] == [200, 200, 401]

    def hear_of(what):
        if by_signal:
            server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 30
        while what not in server.log:
            assert time.monotonic() < end, server.log
            time.sleep(0.05)

    (tmp_path / "next").write_text("no key")
    (tmp_path / "next").rename(path)
    hear_of("the keys from before stay in use")
    assert ask(server, old_token).status == 200
    (tmp_path / "next").write_bytes(new.public_pem)
    (tmp_path / "next").rename(path)
    hear_of("policies: keys read again")
    end = time.monotonic() + 20
    while ask(server, new_token).status != 200:  # each core gets the new key at its own time
        assert time.monotonic() < end
    # Tokens that the old key signed leave every core's cache with it.
    for _ in range(16):
        while ask(server, old_token).status != 401:
            assert time.monotonic() < end


# ---- where tokens are ----

FROM = 'from = ["header.authorization", "cookie.session", "query.access_token"]\n'


@pytest.fixture
def passed_on(sluice):
    """passed_on(more) serves a route to a real server behind such a policy: (server, upstream)."""
    with contextlib.ExitStack() as stack:
        def serve(more="", answer=echo, where=FROM, **options):
            back = stack.enter_context(Upstream(answer))
            text = gateway(back.url, route='use = ["auth"]') + policy(f'secret = "{SECRET.secret}"', where + more)
            return sluice(text, server='access_log = "stdout"', **options), back
        yield serve


def test_a_token_in_a_cookie_needs_an_origin_to_change_anything(passed_on):
    server, back = passed_on('origins = ["https://admin.example", "https://*.sub.example"]')
    token = SECRET.token()
    cookie = f"Cookie: theme=dark; session={token}; lang=de"
    with server.connect() as client:
        for method in ("GET", "HEAD", "OPTIONS"):
            assert client.get("/a", cookie, "Origin: https://evil.example", method=method).status == 200
        assert said(client.get("/a", cookie))[1]["cookie"] == "theme=dark; lang=de"
        before = len(back.requests)
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            for origin in ((), ("Origin: https://evil.example",), ("Origin: null",), ("Origin: https://test",),
                           ("Origin: http://test:81",), ("Origin: http://test", "Origin: http://test")):
                answer = client.call(method, "/a", b"x", cookie, *origin)
                assert answer.status == 403 and not answer.get("www-authenticate"), origin
                assert "needs an Origin that is allowed" in json.loads(answer.body)["detail"]
        assert len(back.requests) == before
        for origin in ("http://test", "https://admin.example", "https://a.sub.example"):
            assert client.call("POST", "/a", b"x", cookie, f"Origin: {origin}").status == 200
        assert client.call("POST", "/a", b"x", cookie, bearer(token)).status == 200  # no page of a stranger has the token
        assert client.call("POST", "/a", b"x", "Cookie: session=").status == 403
        assert refused(client.get("/a", "Cookie: session="), "malformed")
        assert refused(client.get("/a", "Cookie: Session=a"), "needed", error=None)
    assert counted(server, "sluice_jwt_refusals_total", reason="origin") == 4 * 6 + 1
    assert all("session" not in value for request in back.requests for _, value in request[2])


@pytest.mark.parametrize("kind", ["h1", "h2"])
def test_a_websocket_with_a_token_of_a_browser(passed_on, kind):
    from upstream import websocket_echo
    from websocket import TEXT, WebSocket, WebSocketOverHttp2

    client_of = WebSocket if kind == "h1" else WebSocketOverHttp2
    server, back = passed_on('origins = ["https://admin.example"]', answer=websocket_echo)
    token = SECRET.token()
    cookie = f"Cookie: session={token}"
    for origin in ("http://test", "https://admin.example"):
        with client_of(server.port, "/chat?room=1", cookie, f"Origin: {origin}") as client:
            client.say(TEXT, "in")
            assert client.frame().payload == b"in"
    for origin in ((), ("Origin: https://evil.example",), ("Origin: https://test",)):
        with client_of(server.port, "/chat?room=1", cookie, *origin, open=False) as client:
            assert client.handshake(cookie, *origin).status == 403
    # A page that knows the token is trusted.
    for target in (f"/chat?access_token={token}&room=1", f"/chat?room=1&%61ccess_token={token}",
                   f"/chat?access_token={token}&room=1&access_token={token}"):
        with client_of(server.port, target, "Origin: https://evil.example") as client:
            client.say(TEXT, "in")
            assert client.frame().payload == b"in"
    assert [request[1] for request in back.requests] == ["/chat?room=1"] * 5
    assert all(token not in value for request in back.requests for _, value in request[2])
    with client_of(server.port, f"/chat?access_token={token}x", open=False) as client:
        assert client.handshake().status == 401
    wait_until(lambda: server.log.count('"target"') == 9)
    assert token not in server.log and server.log.count('"/chat?access_token=***"') == 1


def test_a_token_in_the_query_string_counts_for_event_streams(passed_on):
    server, back = passed_on()
    token = SECRET.token()
    stream = "Accept: text/event-stream"
    with server.connect() as client:
        assert said(client.get(f"/events?x=1&access_token={token}&y=2", stream))[0] == "GET /events?x=1&y=2"
        assert said(client.get(f"/events?access_token={token}", stream))[0] == "GET /events"
        before = len(back.requests)
        for fields in ((), ("Accept: */*",), ("Accept: application/json",), ("Accept: text/event-stream;q=0, */*",)):
            assert refused(client.get(f"/events?access_token={token}", *fields), "needed", error=None)
        assert client.call("POST", f"/events?access_token={token}", b"x", stream).status == 401
        assert len(back.requests) == before
        # It is removed where it does not count, too.
        assert said(client.get(f"/events?access_token={token}&x=1", bearer(token)))[0] == "GET /events?x=1"
    with http2.Client(server.port) as client:
        answer = client.get(f"/events?access_token={token}&z=3", fields=[("accept", "text/event-stream")])
        assert answer.body.startswith(b"GET /events?z=3\n")
    wait_until(lambda: server.log.count('"target"') == 9)
    assert token not in server.log and server.log.count("access_token=***") == 5


def test_different_tokens_in_a_request(passed_on):
    server, _ = passed_on()
    one, two = SECRET.token(), SECRET.token(soon(sub="other"))
    with server.connect() as client:
        assert client.get("/a", bearer(one), f"Cookie: session={one}; session={one}").status == 200
        for fields in ((bearer(one), f"Cookie: session={two}"), (f"Cookie: session={one}; session={two}",),
                       (f"Cookie: session={one}", f"Cookie: session={two}")):
            assert refused(client.get("/a", *fields), "different tokens", 400, "invalid_request")
        stream = "Accept: text/event-stream"
        assert client.get(f"/a?access_token={one}", bearer(one), stream).status == 200
        assert client.get(f"/a?access_token={one}", bearer(two), stream).status == 400
        assert client.get(f"/a?access_token={one}&access_token={two}", stream).status == 400
        assert client.get(f"/a?access_token={one}", bearer(two)).status == 200  # it does not count
    assert counted(server, "sluice_jwt_refusals_total", reason="different") == 5


def test_a_token_in_a_field_of_its_own(passed_on):
    token = SECRET.token()
    server, back = passed_on(where='from = ["header.X-Token"]\n')
    kept, seen = passed_on(where='from = ["header.X-Token", "cookie.t"]\npass = true\n')
    assert server.get("/a", f"X-Token: {token}", "X_Token: root", "X.Token: root", "Authorization: Basic YTpi").status == 200
    assert server.get("/a", bearer(token)).status == 401
    assert server.get("/a", f"X-Token: Bearer {token}").status == 401
    fields = dict(back.requests[0][2])
    assert not {"x-token", "x_token", "x.token"} & fields.keys() and fields["authorization"] == "Basic YTpi"
    assert kept.get("/a", f"X-Token: {token}", "X_Token: root", f"Cookie: t={token}").status == 200
    fields = dict(seen.requests[0][2])
    assert fields["x-token"] == token and "x_token" not in fields and fields["cookie"] == f"t={token}"
    assert token not in server.log


def test_the_calls_of_a_batch_are_guarded_as_their_page_is(sluice, small_sqlite):
    server = sluice('''
[database.main]
url = "sqlite:small.db"
[batch]
[[endpoint]]
path = "/numbers/{n:int}"
use = ["auth"]
get = "SELECT text FROM numbers WHERE n = :n"
patch = "UPDATE numbers SET text = :text WHERE n = :n"
''' + policy(f'secret = "{SECRET.secret}"', FROM))
    cookie = f"Cookie: session={SECRET.token()}"

    def batch(call, *fields):
        with server.connect() as client:
            body = json.dumps([call]).encode()
            answer = client.call("POST", "/batch", body, "Content-Type: application/json", cookie, *fields)
        return answer.status, json.loads(answer.body)

    write = {"method": "PATCH", "path": "/numbers/7", "body": {"text": "x"}}
    assert batch(write)[0] == 403
    assert batch(write, "Origin: https://evil.example")[0] == 403
    status, problem = batch({**write, "headers": {"Origin": "http://test"}}, "Origin: https://evil.example")
    assert status == 400 and "belongs to the batch" in json.dumps(problem)
    assert batch({"method": "GET", "path": "/numbers/7"})[1][0]["body"] == [{"text": "number 7"}]
    assert batch(write, "Origin: http://test")[0] == 200
    assert batch({"method": "GET", "path": "/numbers/7"})[1][0]["body"] == [{"text": "x"}]


# ---- the cache ----

def test_tokens_are_verified_once_and_expire_in_the_cache(guarded):
    server = guarded(more='leeway = "0s"', server="cores = 1")
    token = SECRET.token(soon(exp=int(time.time()) + 3))
    while ask(server, token).status == 200:
        time.sleep(0.05)
    assert refused(ask(server, token), "expired")
    assert counted(server, "sluice_jwt_verifications_total", policy="auth") == 1
    assert counted(server, "sluice_jwt_cache_hits_total") > 0
    assert counted(server, "sluice_jwt_cache_tokens") == 0 == counted(server, "sluice_jwt_cache_bytes")


def test_the_cache_has_limits(guarded):
    server = guarded(more="cache_tokens = 5", server="cores = 1")
    for n in range(12):
        assert ask(server, SECRET.token(soon(n=n))).status == 200
    assert counted(server, "sluice_jwt_cache_tokens") == 5
    small = guarded(more='cache_memory = "4KiB"', server="cores = 1")
    for n in range(12):
        assert ask(small, SECRET.token(soon(n=n))).status == 200
    assert 0 < counted(small, "sluice_jwt_cache_bytes") <= 4096
    none = guarded(more="cache_tokens = 0", server="cores = 1")
    token = SECRET.token()
    for _ in range(3):
        assert ask(none, token).status == 200
    assert counted(none, "sluice_jwt_verifications_total") == 3


# ---- what cannot work ----

def check(tmp_path, text, **environment):
    file = tmp_path / "sluice.toml"
    file.write_text(text)
    return subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=20, cwd=tmp_path,
                          env={**os.environ, **environment})


@pytest.mark.parametrize("keys, line, says", [
    ('secret = "hunter2hunter2"', "[policy", "the secret has 14 bytes; HS256 needs 32"),
    ('public_key = "none.pem"', '"none.pem"', "the file cannot be read: No such file"),
    ('public_key = "weak.pem"', '"weak.pem"', "the RSA key has 1024 bits; 2048 are needed"),
    ('public_key = "k256.pem"', '"k256.pem"', "not on P-256, P-384 or P-521"),
    ('public_key = "good.pem"\nalgorithms = ["HS256", "ES256"]', '"good.pem"', 'none of "algorithms" is for this key'),
    ('secret = "hunter2hunter2hunter2hunter2hunter2"\nalgorithms = ["HS512"]', "[policy", "HS512 needs 64"),
    ('public_key = "good.pem"\nalgorithms = ["none"]', '"none"', 'must be "HS256", "HS384"'),
    ('public_key = "private.pem"', '"private.pem"', "it is a private key"),
    ('public_key = "sluice.toml"', '"sluice.toml"', "no PEM public key"),
    ('secret_file = "good.pem"', '"good.pem"', "the secret is a PEM key"),
    ('secret_file = "short"', '"short"', "the secret has 5 bytes"),
    ('jwks = "good.pem"', '"good.pem"', "no JWK set"),
    ('jwks = "weak.json"', '"weak.json"', "the RSA key has 1024 bits"),
    ('jwks = "empty.json"', '"empty.json"', "no key to verify tokens with"),
    ('jwks = "https://issuer.example/jwks.json"', '"https', 'write "jwks_url"'),
    ('jwks_url = "http://issuer.example/jwks.json"', '"http', 'must begin with "https://"'),
])
def test_keys_that_cannot_work(tmp_path, small_sqlite, site, pairs, keys, line, says):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    weak = Rsa(1024)
    (tmp_path / "weak.pem").write_bytes(weak.public_pem)
    (tmp_path / "weak.json").write_text(json.dumps({"keys": [weak.jwk("w")]}))
    (tmp_path / "k256.pem").write_bytes(Ec(ec.SECP256K1()).public_pem)
    (tmp_path / "good.pem").write_bytes(pairs["RS256"].public_pem)
    (tmp_path / "private.pem").write_bytes(pairs["RS256"].private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    (tmp_path / "short").write_text("short\n")
    (tmp_path / "empty.json").write_text('{"keys": []}')
    text = ROUTES + policy(keys)
    failed = check(tmp_path, text)
    assert failed.returncode == 3 and says in failed.stderr, failed.stderr
    number = text.count("\n", 0, text.index(line)) + 1
    assert f"sluice.toml:{number}:" in failed.stderr
    assert "hunter2" not in failed.stderr


@pytest.mark.parametrize("more, line, says", [
    ('from = []', "[policy", "takes tokens from nowhere"),
    ('from = ["body.token"]', "from", 'must be "header.NAME", "cookie.NAME" or "query.NAME"'),
    ('from = ["cookie."]', "from", 'must be "header.NAME"'),
    ('from = ["cookie.a b"]', "from", 'must be "header.NAME"'),
    ('from = ["header.Authorization", "cookie.a", "header.authorization"]', "from", "this place is there twice"),
    ('origins = ["https://app.example"]', "origins", '"origins" is for cookies'),
    ('from = ["cookie.a"]\norigins = ["*"]', "origins", "the pages of any origin could act for the users"),
    ('from = ["cookie.a"]\norigins = ["https://app.example/"]', "origins", "as browsers write it"),
    ('stale_after = "1d"', "stale_after", '"stale_after" is for "jwks_url"'),
])
def test_places_that_cannot_work(tmp_path, small_sqlite, site, more, line, says):
    text = ROUTES + policy(f'secret = "{SECRET.secret}"', more)
    failed = check(tmp_path, text)
    assert failed.returncode == 3 and says in failed.stderr, failed.stderr
    number = text.count("\n", 0, text.index(f"\n{line}") + 1) + 1
    assert f"sluice.toml:{number}:" in failed.stderr


def test_what_is_used_must_exist(tmp_path, small_sqlite, site):
    failed = check(tmp_path, ROUTES + policy('secret = "${S}"', name="auht"), S=SECRET.secret)
    assert failed.returncode == 3
    assert failed.stderr.count("there is no [policy.auth]") == 3 and 'did you mean "auht"' in failed.stderr
    unused = check(tmp_path, ROUTES + policy('secret = "${S}"') + policy('secret = "${S}"', name="more"), S=SECRET.secret)
    assert unused.returncode == 0 and 'nothing uses the policy "more"' in unused.stderr
