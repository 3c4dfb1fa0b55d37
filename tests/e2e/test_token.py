"""`sluice keys` and `sluice token`: what they write and print, and that a server and another implementation accept it."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import time

import jwt as pyjwt
import pytest

from conftest import ROOT, SLUICE

ASYMMETRIC = [*(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)), "EdDSA"]
SYMMETRIC = ["HS256", "HS384", "HS512"]
ENDPOINT = '''
[database.main]
url = "sqlite:small.db"
[[endpoint]]
path = "/me"
returns = "object"
get = "SELECT :name AS name, :role AS role"
params.name = { from = "claim.sub" }
params.role = { from = "claim.role" }
use = ["auth"]
'''


@pytest.fixture
def run(tmp_path):
    """run(words): the exit code, the output and the errors of `sluice words` in the test's folder."""
    def start(*words):
        done = subprocess.run([SLUICE, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    return start


def good(result):
    code, out, errors = result
    assert (code, errors) == (0, "")
    return out


def token_of(run, *words):
    token = good(run("token", *words))
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+\n", token)
    return token.strip()


def ask(server, token):
    return server.get("/me", f"Authorization: Bearer {token}")


def mode_of(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("algorithm", ASYMMETRIC + SYMMETRIC)
def test_the_printed_policy_accepts_tokens_of_the_key(sluice, small_sqlite, tmp_path, run, algorithm):
    policy = good(run("keys", "--alg", algorithm, "--kid", "dev"))
    server = sluice(ENDPOINT + policy)
    command = shlex.split(re.match(r"# A token: sluice (token .*)\n", policy)[1])
    token = good(run(*command, "--subject", "ada", "--claim", "role=editor")).strip()
    answer = ask(server, token)
    assert (answer.status, json.loads(answer.body)) == (200, {"name": "ada", "role": "editor"})
    expired = ask(server, good(run(*command, "--claim", "exp=0")).strip())
    assert expired.status == 401 and b"expired" in expired.body

    # Another implementation verifies the token, too.
    header = pyjwt.get_unverified_header(token)
    if algorithm in SYMMETRIC:
        assert header == {"alg": algorithm, "typ": "JWT"}
        assert mode_of(tmp_path / "dev.secret") == 0o600
        keys = [(tmp_path / "dev.secret").read_text().rstrip("\n")]
    else:
        assert header == {"alg": algorithm, "typ": "JWT", "kid": "dev"}
        assert mode_of(tmp_path / "dev.key.pem") == 0o600
        assert (tmp_path / "dev.key.pem").read_text().startswith("-----BEGIN PRIVATE KEY-----\n")
        (jwk,) = json.loads((tmp_path / "dev.jwks.json").read_text())["keys"]
        assert (jwk["kid"], jwk["alg"], jwk["use"]) == ("dev", algorithm, "sig") and "d" not in jwk
        keys = [(tmp_path / "dev.pub.pem").read_text(), pyjwt.PyJWK(jwk).key]
    for key in keys:
        claims = pyjwt.decode(token, key, algorithms=[algorithm])
        assert claims["exp"] - claims["iat"] == 3600 and abs(claims["iat"] - time.time()) < 600
        assert {**claims, "exp": 0, "iat": 0} == {"sub": "ada", "role": "editor", "exp": 0, "iat": 0}


def test_the_pem_file_is_a_policy_s_public_key(sluice, small_sqlite, run):
    good(run("keys", "--alg", "EdDSA", "--kid", "dev"))
    server = sluice(ENDPOINT + '[policy.auth]\ntype = "jwt"\npublic_key = "dev.pub.pem"\n')
    assert ask(server, token_of(run, "--key", "dev.key.pem")).status == 200
    good(run("keys", "--alg", "EdDSA", "--kid", "other"))
    assert ask(server, token_of(run, "--key", "other.key.pem")).status == 401


def test_the_claims(tmp_path, run):
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    token = token_of(run, "--key", "secret", "--kid", "dev", "--expires", "15m", "--issuer", "me", "--audience", "films",
                     "--claim", "level=3", "--claim", 'tags=["a", "b"]', "--claim", "is=true", "--claim", "text=a=b \"c\"",
                     "--claim", 'quoted="3"', "--claim", 'realm={"roles": ["x"]}', "--claim", "iat=7", "--claim", "empty=")
    assert pyjwt.get_unverified_header(token)["kid"] == "dev"
    claims = pyjwt.decode(token, "0123456789abcdef0123456789abcdef", algorithms=["HS256"], audience="films")
    assert 0 < claims.pop("exp") - time.time() <= 900
    assert claims == {"iss": "me", "aud": "films", "level": 3, "tags": ["a", "b"], "is": True, "text": 'a=b "c"', "quoted": "3",
                      "realm": {"roles": ["x"]}, "iat": 7, "empty": ""}


def test_the_id_is_the_thumbprint(tmp_path, run):
    policy = good(run("keys", "--out", str(tmp_path)))
    path = pathlib.Path(re.search(r'^jwks = "(.*)"$', policy, re.M)[1])
    (jwk,) = json.loads(path.read_text())["keys"]
    assert re.fullmatch("[0-9a-f]{16}", jwk["kid"]) and path == tmp_path / f'{jwk["kid"]}.jwks.json'
    assert jwk["alg"] == "ES256"


def test_the_set_beside_the_key_may_have_other_keys(tmp_path, run):
    for kid in ("old", "new"):
        good(run("keys", "--alg", "RS512" if kid == "old" else "PS256", "--kid", kid))
    keys = [json.loads((tmp_path / f"{kid}.jwks.json").read_text())["keys"][0] for kid in ("old", "new")]
    (tmp_path / "new.jwks.json").write_text(json.dumps({"keys": keys}))
    header = pyjwt.get_unverified_header(token_of(run, "--key", "new.key.pem"))
    assert (header["kid"], header["alg"]) == ("new", "PS256")
    header = pyjwt.get_unverified_header(token_of(run, "--key", "new.key.pem", "--kid", "x", "--alg", "RS256"))
    assert (header["kid"], header["alg"]) == ("x", "RS256")
    (tmp_path / "new.jwks.json").unlink()
    assert pyjwt.get_unverified_header(token_of(run, "--key", "new.key.pem")) == {"alg": "RS256", "typ": "JWT"}


def test_nothing_is_overwritten(tmp_path, run):
    for taken in ("dev.key.pem", "dev.pub.pem", "dev.jwks.json"):
        (tmp_path / taken).write_text("mine")
        code, out, errors = run("keys", "--kid", "dev")
        assert (code, out, errors) == (1, "", f"sluice: {taken}: the file exists, and is not overwritten\n")
        assert [(path.name, path.read_text()) for path in tmp_path.glob("dev.*")] == [(taken, "mine")]
        (tmp_path / taken).unlink()
    code, _, errors = run("keys", "--kid", "dev", "--out", "missing")
    assert code == 1 and errors == "sluice: missing/dev.key.pem: cannot be written: No such file or directory\n"


@pytest.mark.parametrize("words, code, said", [
    ("--key missing", 1, "missing: cannot be read: No such file or directory"),
    ("--key short", 1, "short: the secret has 5 bytes; HS256 needs 32"),
    ("--key secret --alg HS512", 1, "secret: the secret has 32 bytes; HS512 needs 64"),
    ("--key secret --alg ES256", 1, "secret: the key is not for ES256, but for HS256, HS384, HS512"),
    ("--key dev.key.pem --alg ES256", 1, "dev.key.pem: the key is not for ES256, but for ES384"),
    ("--key dev.key.pem --alg HS256", 1, "dev.key.pem: the key is not for HS256, but for ES384"),
    ("--key dev.pub.pem", 1, "dev.pub.pem: it holds no private key, and a public key cannot sign"),
    ("--key locked.pem", 1, "locked.pem: its private key is broken, or encrypted"),
    ("--key weak.pem", 1, "weak.pem: the RSA key has 1024 bits; 2048 are needed"),
    ("--key secret --claim a=1 --claim a=2", 2, 'the claim "a" is given twice'),
    ("--key secret --subject ada --claim sub=grace", 2, 'the claim "sub" is given twice'),
    ("--key secret --expires 1m --claim exp=0", 2, 'the claim "exp" is given twice'),
])
def test_what_is_wrong_is_named(tmp_path, run, words, code, said):
    (tmp_path / "short").write_text("short\n")
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef")
    good(run("keys", "--alg", "ES384", "--kid", "dev"))
    for command in ("openssl pkey -in dev.key.pem -aes128 -passout pass:x -out locked.pem",
                    "openssl genrsa -out weak.pem 1024"):
        subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True, timeout=60)
    assert run("token", *words.split()) == (code, "", f"sluice: {said}\n")


def test_the_guide_s_example(sluice, small_sqlite, tmp_path):
    page = (ROOT / "docs/guide/authentication.md").read_text()
    ((endpoint, console),) = re.findall(r"^```toml\n([^`]*)^```\n\n```console\n(\$ sluice keys .*?)^```", page, re.M | re.S)
    (tmp_path / "sluice").symlink_to(SLUICE)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    (keys, policy), *others = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.M)

    def shell(script):
        return subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=path, capture_output=True, text=True, timeout=60)

    assert shell(keys).stdout == policy
    server = sluice('[database.main]\nurl = "sqlite:small.db"\n' + endpoint + policy)
    script = "\n".join(command for command, _ in others).replace("localhost:8080", f"127.0.0.1:{server.port}")
    assert shell(script.replace("curl", "curl -s")).stdout.strip() == others[-1][1].strip()
