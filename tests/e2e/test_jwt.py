"""[policy.NAME] of type "jwt" in front of endpoints, files and websockets: who is let in, and who is told what."""
import json
import os
import re
import subprocess
import time

import jwt as pyjwt
import pytest

import http2
import tokens
from conftest import SLUICE
from tokens import Ec, Rsa, Secret, assemble, soon

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
    """guarded(keys, more) serves ROUTES with such a policy."""
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
    """The policy's key line, and who signs."""
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


def test_every_method_is_guarded(guarded):
    server = guarded()
    for path in ("/numbers/7", "/site/hello.txt", "/site/", "/site/missing", "/echo"):
        for method in ("GET", "HEAD", "OPTIONS", "POST", "DELETE", "TRACE", "PROPFIND"):
            assert server.get(path, method=method).status == 401, (method, path)
    good = SECRET.token()
    assert ask(server, good, method="OPTIONS").status == 204
    assert ask(server, good, method="POST").status == 405
    assert ask(server, good, "/site/missing").status == 404


