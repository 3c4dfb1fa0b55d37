"""Attacks on policies of type "jwt" in front of an upstream. Each forged token is refused over both versions of HTTP, with a
challenge that says why, and the upstream receives nothing. Where it matters, a token without the flaw passes."""
import base64
import datetime
import hashlib
import hmac
import json
import string
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

import http2
from cluster import free_port
from conftest import Server
from test_gateway import echo, gateway
from test_jwt import bearer, refused
from test_reload import reload
from tokens import Ec, Ed, Rsa, Secret, assemble, encode
from upstream import Upstream

SECRET, RSA, EC, ED = Secret(), Rsa(), Ec(), Ed()
SIGNERS = {"secret": SECRET, "rsa": RSA, "ec": EC, "ed": ED}  # by the name of the policy, which is also its path
CLAIMS = {"sub": "ada", "exp": 4102444800}
LIMIT = 8192

POLICIES = {
    "secret": f'secret = "{SECRET.secret}"',
    "rsa": 'public_key = "rsa.pem"',
    "pss": 'public_key = "rsa.pem"\nalgorithms = ["PS256"]',
    "ec": 'public_key = "ec.pem"',
    "ed": 'public_key = "ed.pem"',
    "set": 'jwks = "keys.json"',
    "named": f'secret = "{SECRET.secret}"\nissuer = "https://a.example"\naudience = "films"',
    "long": f'secret = "{SECRET.secret}"\ntoken_limit = "60KiB"',
}


def configuration(back, policies=None):
    policies = POLICIES if policies is None else policies
    text = gateway(back.url, path="/open")
    for name, keys in policies.items():
        text += f'[policy.{name}]\ntype = "jwt"\n{keys}\n'
        text += f'[[route]]\npath = "/{name}/{{rest...}}"\nupstream = "back"\nuse = ["{name}"]\n'
    return text


def write_keys(folder):
    for name in ("rsa", "ec", "ed"):
        (folder / f"{name}.pem").write_bytes(SIGNERS[name].public_pem)
    keys = [RSA.jwk("r"), EC.jwk("e"), ED.jwk("d"), SECRET.jwk("s")]
    (folder / "keys.json").write_text(json.dumps({"keys": keys}))


class Gate:
    """The program in front of an upstream. `lure` is a server to which forged headers point, and that nobody may reach."""

    def __init__(self, server, back, lure):
        self.server, self.back, self.lure = server, back, lure

    def accepts(self, policy, token):
        before = len(self.back.requests)
        answer = self.server.get(f"/{policy}/x", bearer(token))
        assert answer.status == 200, answer.body
        assert len(self.back.requests) == before + 1

    def refuses(self, policy, token, says, error="invalid_token"):
        """`token` is the whole value of the field if `error` is None."""
        value = f"Bearer {token}" if error else token
        before = len(self.back.requests)
        answer = self.server.get(f"/{policy}/x", f"Authorization: {value}")
        assert refused(answer, says, error=error)
        with http2.Client(self.server.port) as client:
            again = client.get(f"/{policy}/x", fields=[("authorization", value)])
            assert (again.status, again.fields["www-authenticate"]) == (401, answer.get("www-authenticate"))
        assert len(self.back.requests) == before and self.lure.connections == 0


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacks")
    write_keys(folder)
    port, admin_port = free_port(), free_port()
    file = folder / "sluice.toml"
    with Upstream(echo) as back, Upstream(echo) as lure:
        file.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\ncores = 1\nheader_limit = "63KiB"\n'
                        f'[admin]\nlisten = "127.0.0.1:{admin_port}"\n{configuration(back)}')
        server = Server(file, folder, {}, port, admin_port)
        try:
            server.wait()
            yield Gate(server, back, lure)
            server.stop()
            assert lure.connections == 0
        finally:
            server.kill()


def cases(dictionary):
    """Parametrizes a test with the dictionary's values, and names each case after its key."""
    return [pytest.param(*(value if isinstance(value, tuple) else (value,)), id=name) for name, value in dictionary.items()]


def hmac_with(secret, bits=256):
    return lambda data: hmac.new(secret, data, f"sha{bits}").digest()


def pss(digest, salt, mask=None):
    return lambda data: RSA.private.sign(data, padding.PSS(padding.MGF1(mask or digest), salt), digest)


# ---- the algorithm ----

@pytest.mark.parametrize("policy", SIGNERS)
@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "none ", " none", "none\0", "n\u043ene", "null", "hs256", "HS256 ",
                                 "HS1", "HS256\0", "rs256", "RSA", "es256", "ES256K", "Ed25519", "dir", "A256KW", "RSA-OAEP"])
def test_an_algorithm_that_does_not_exist(gate, policy, alg):
    gate.refuses(policy, assemble({"alg": alg}, CLAIMS, lambda data: b""), "malformed")  # nothing follows the second dot
    for sign in (SIGNERS[policy].sign, lambda data: b"x", hmac_with(b"")):
        gate.refuses(policy, assemble({"alg": alg}, CLAIMS, sign), "algorithm")


@pytest.mark.parametrize("header", ["{}", '{"alg":""}', '{"alg":null}', '{"alg":0}', '{"alg":true}', '{"alg":["HS256"]}',
                                    '{"alg":{"HS256":1}}', '{"ALG":"HS256"}', '{"typ":"JWT"}', "", '"HS256"', "null", "[]",
                                    '{"alg":"HS256"', '{"alg":"HS256"}}', '{"alg":"HS256"}{"alg":"none"}', "{'alg':'HS256'}",
                                    '\ufeff{"alg":"HS256"}', '{"alg":"HS256",}', '{"alg":"HS256"/**/}'])
def test_a_header_that_names_no_algorithm(gate, header):
    gate.refuses("secret", assemble(header, CLAIMS, SECRET.sign), "malformed")


def public_texts(pair):
    """All forms in which a client may know the public key."""
    public = pair.private.public_key()
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    jwk = pair.jwk()
    return {"PEM": pair.public_pem, "PEM in one line": pair.public_pem.replace(b"\n", b""), "DER": der,
            "base64 of DER": base64.b64encode(der), "JWK": json.dumps(jwk).encode(),
            "JWK in short": json.dumps(jwk, separators=(",", ":"), sort_keys=True).encode(),
            "the number": base64.urlsafe_b64decode(jwk.get("n", jwk.get("x")) + "=="),
            "its text": jwk.get("n", jwk.get("x")).encode(),
            "the name of the file": b"key.pem", "nothing": b""}


@pytest.mark.parametrize("policy", ["rsa", "pss", "ec", "ed"])
@pytest.mark.parametrize("form", public_texts(EC))
def test_a_public_key_in_no_form_is_a_secret(gate, policy, form):
    pair = SIGNERS.get(policy, RSA)
    secret = public_texts(pair)[form]
    for bits in (256, 384, 512):
        gate.refuses(policy, assemble({"alg": f"HS{bits}"}, CLAIMS, hmac_with(secret, bits)), "algorithm")
    own = "PS256" if policy == "pss" else pair.algorithm
    gate.refuses(policy, assemble({"alg": own}, CLAIMS, hmac_with(secret)), "signature")
    # In a set with a secret, HS256 exists, but not for the public key.
    kid = {"rsa": "r", "pss": "r", "ec": "e", "ed": "d"}[policy]
    gate.refuses("set", assemble({"alg": "HS256", "kid": kid}, CLAIMS, hmac_with(secret)), "key is not known")
    gate.refuses("set", assemble({"alg": "HS256", "kid": "s"}, CLAIMS, hmac_with(secret)), "signature")


SHA1, SHA256, SHA384 = hashes.SHA1(), hashes.SHA256(), hashes.SHA384()


@pytest.mark.parametrize("policy, alg, sign, says", cases({
    "PS256 for RS256": ("rsa", "PS256", pss(SHA256, 32), "algorithm"),
    "PS256 called RS256": ("rsa", "RS256", pss(SHA256, 32), "signature"),
    "RS256 for PS256": ("pss", "RS256", RSA.sign, "algorithm"),
    "RS256 called PS256": ("pss", "PS256", RSA.sign, "signature"),
    "RS384 called RS256": ("rsa", "RS256", lambda data: RSA.private.sign(data, padding.PKCS1v15(), SHA384), "signature"),
    "RS384": ("rsa", "RS384", lambda data: RSA.private.sign(data, padding.PKCS1v15(), SHA384), "algorithm"),
    "RS256 with SHA-1": ("rsa", "RS256", lambda data: RSA.private.sign(data, padding.PKCS1v15(), SHA1), "signature"),
    "PS256 without salt": ("pss", "PS256", pss(SHA256, 0), "signature"),
    "PS256 with a short salt": ("pss", "PS256", pss(SHA256, 20), "signature"),
    "PS256 with the longest salt": ("pss", "PS256", pss(SHA256, padding.PSS.MAX_LENGTH), "signature"),
    "PS256 with a mask of SHA-1": ("pss", "PS256", pss(SHA256, 32, SHA1), "signature"),
    "PS384 called PS256": ("pss", "PS256", pss(SHA384, 48), "signature"),
    "ES256 for RS256": ("rsa", "ES256", EC.sign, "algorithm"),
    "RS256 for ES256": ("ec", "RS256", RSA.sign, "algorithm"),
    "ES384 for ES256": ("ec", "ES384", EC.sign, "algorithm"),
    "ES256 with SHA-384": ("ec", "ES256", lambda data: raw(*decode_dss_signature(EC.private.sign(data, ec.ECDSA(SHA384)))),
                           "signature"),
    "EdDSA for ES256": ("ec", "EdDSA", ED.sign, "algorithm"),
    "EdDSA called ES256": ("ec", "ES256", ED.sign, "signature"),
    "ES256 for EdDSA": ("ed", "ES256", EC.sign, "algorithm"),
    "ES256 called EdDSA": ("ed", "EdDSA", EC.sign, "signature"),
    "HS384 for HS256": ("secret", "HS384", hmac_with(SECRET.secret.encode(), 384), "algorithm"),
    "HS512 called HS256": ("secret", "HS256", hmac_with(SECRET.secret.encode(), 512), "signature"),
}))
def test_another_algorithm_than_the_keys_own(gate, policy, alg, sign, says):
    gate.refuses(policy, assemble({"alg": alg}, CLAIMS, sign), says)


# ---- signatures ----

N = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551  # the order of P-256's base point
L = 2**252 + 27742317777372353535851937790883648493  # the order of Ed25519's


def raw(r, s, size=32):
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


@pytest.mark.parametrize("forge", cases({
    "r = 0": lambda r, s: raw(0, s), "s = 0": lambda r, s: raw(r, 0), "r = s = 0": lambda r, s: raw(0, 0),
    "r = n": lambda r, s: raw(N, s), "s = n": lambda r, s: raw(r, N), "r = s = n": lambda r, s: raw(N, N),
    "r = 0, s = 1": lambda r, s: raw(0, 1), "r = n, s = 1": lambda r, s: raw(N, 1), "r = s = 1": lambda r, s: raw(1, 1),
    "r = s = n - 1": lambda r, s: raw(N - 1, N - 1), "all ones": lambda r, s: b"\xff" * 64, "-r": lambda r, s: raw(N - r, s),
    "swapped": lambda r, s: raw(s, r), "r + 1": lambda r, s: raw((r + 1) % N, s), "33 bytes each": lambda r, s: raw(r, s, 33),
    "s + n": lambda r, s: r.to_bytes(32, "big") + (s + N).to_bytes(33, "big"), "a byte more": lambda r, s: raw(r, s) + b"\0",
    "a byte before": lambda r, s: b"\0" + raw(r, s), "a byte less": lambda r, s: raw(r, s)[:-1],
    "r alone": lambda r, s: r.to_bytes(32, "big"), "one byte": lambda r, s: b"\1", "twice": lambda r, s: raw(r, s) * 2,
    "P-384's length": lambda r, s: raw(r, s, 48), "4 kB": lambda r, s: raw(r, s) + bytes(4000),
    "DER": lambda r, s: encode_dss_signature(r, s), "DER of zeros": lambda r, s: encode_dss_signature(0, 0),
    "hexadecimal": lambda r, s: raw(r, s).hex().encode(), "base64url": lambda r, s: encode(raw(r, s)).encode(),
    "little-endian": lambda r, s: r.to_bytes(32, "little") + s.to_bytes(32, "little"),
}))
def test_es256_signatures(gate, forge):
    def sign(data):
        return forge(*decode_dss_signature(EC.sign_der(data)))
    gate.accepts("ec", EC.token(CLAIMS))
    gate.refuses("ec", assemble({"alg": "ES256"}, CLAIMS, sign), "signature")


SMALL_ORDER = {"1": "01" + "00" * 31, "-1": "ec" + "ff" * 30 + "7f", "0": "00" * 32, "0, negative": "00" * 31 + "80",
               "order 8": "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
               "-order 8": "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
               "another of order 8": "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
               "p": "ed" + "ff" * 30 + "7f", "p + 1": "ee" + "ff" * 30 + "7f", "1, negative": "01" + "00" * 30 + "80"}


@pytest.mark.parametrize("forge", cases({
    **{f"R = {name}, S = 0": lambda R, S, point=bytes.fromhex(text): point + bytes(32) for name, text in SMALL_ORDER.items()},
    **{f"R = {name}": lambda R, S, point=bytes.fromhex(text): point + S for name, text in SMALL_ORDER.items()},
    "S + L": lambda R, S: R + (int.from_bytes(S, "little") + L).to_bytes(32, "little"),
    "S + 8 L": lambda R, S: R + ((int.from_bytes(S, "little") + 8 * L) % 2**256).to_bytes(32, "little"),
    "S = 0": lambda R, S: R + bytes(32), "S = L": lambda R, S: R + L.to_bytes(32, "little"),
    "all ones": lambda R, S: b"\xff" * 64, "S with its highest bit": lambda R, S: R + S[:-1] + bytes([S[-1] | 0x80]),
    "-R": lambda R, S: R[:-1] + bytes([R[-1] ^ 0x80]) + S, "swapped": lambda R, S: S + R,
    "a byte more": lambda R, S: R + S + b"\0", "a byte less": lambda R, S: (R + S)[:-1], "R alone": lambda R, S: R,
    "Ed448's length": lambda R, S: R + S + bytes(50),
}))
def test_eddsa_signatures(gate, forge):
    def sign(data):
        signature = ED.sign(data)
        return forge(signature[:32], signature[32:])
    gate.accepts("ed", ED.token(CLAIMS))
    gate.refuses("ed", assemble({"alg": "EdDSA"}, CLAIMS, sign), "signature")


def rsa_number(value):
    return value.to_bytes(256, "big")


DIGEST_INFO = bytes.fromhex("3031300d060960864801650304020105000420")  # of SHA-256 (RFC 8017, 9.2)
MODULUS = RSA.private.public_key().public_numbers().n


@pytest.mark.parametrize("policy, alg", [("rsa", "RS256"), ("pss", "PS256")])
@pytest.mark.parametrize("forge", cases({
    "0": lambda s: bytes(256), "1": lambda s: rsa_number(1), "n": lambda s: rsa_number(MODULUS),
    "n - 1": lambda s: rsa_number(MODULUS - 1), "-s": lambda s: rsa_number(MODULUS - int.from_bytes(s, "big")),
    "all ones": lambda s: b"\xff" * 256, "a byte before": lambda s: b"\0" + s, "a byte more": lambda s: s + b"\0",
    "a byte less": lambda s: s[:-1], "without its first byte": lambda s: s[1:], "half": lambda s: s[:128],
    "one byte": lambda s: b"\0", "s + n": lambda s: (int.from_bytes(s, "big") + MODULUS).to_bytes(257, "big"),
    "twice": lambda s: s + s, "reversed": lambda s: s[::-1],
    "the padded digest itself": lambda s: b"\0\1" + b"\xff" * 202 + b"\0" + DIGEST_INFO + hashlib.sha256(b"").digest(),
}))
def test_rsa_signatures(gate, policy, alg, forge):
    sign = RSA.sign if policy == "rsa" else pss(SHA256, 32)
    gate.accepts(policy, assemble({"alg": alg}, CLAIMS, sign))
    gate.refuses(policy, assemble({"alg": alg}, CLAIMS, lambda data: forge(sign(data))), "signature")


@pytest.mark.parametrize("sign", cases({
    "no secret": hmac_with(b""), "half": lambda data: SECRET.sign(data)[:16], "one byte": lambda data: SECRET.sign(data)[:1],
    "a byte more": lambda data: SECRET.sign(data) + b"\0", "zeros": lambda data: bytes(32),
    "twice": lambda data: SECRET.sign(data) * 2, "hexadecimal": lambda data: SECRET.sign(data).hex().encode(),
    "a line break after the secret": hmac_with(SECRET.secret.encode() + b"\n"),
    "the secret's base64url": hmac_with(encode(SECRET.secret).encode()),
    "the secret's digest": hmac_with(hashlib.sha256(SECRET.secret.encode()).digest()),
    "of the payload alone": lambda data: SECRET.sign(data.split(b".")[1]),
    "of the decoded text": lambda data: SECRET.sign(b'{"alg":"HS256"}' + json.dumps(CLAIMS).encode()),
    "SHA-256 without a secret": lambda data: hashlib.sha256(data).digest(),
    "the secret before the text": lambda data: hashlib.sha256(SECRET.secret.encode() + data).digest(),
}))
def test_hs256_signatures(gate, sign):
    gate.accepts("secret", SECRET.token(CLAIMS))
    gate.refuses("secret", assemble({"alg": "HS256"}, CLAIMS, sign), "signature")


# ---- keys that the token names or brings ----

KIDS = {
    "a path": "../../../../../../dev/null", "an absolute path": "/dev/null", "an URL": "file:///dev/null", "percent": "%65",
    "SQL": "x' UNION SELECT '' --", "SQL that is true": "' OR ''='", "a variable": "${JWT_SECRET}", "a command": "|/usr/bin/true",
    "a NUL": "\0", "a NUL after a kid": "e\0", "a NUL between kids": "e\0s", "a space after": "e ", "a space before": " e",
    "another case": "E", "full width": "\uff45", "combined": "e\u0301", "right to left": "\u202ee", "an emoji": "\U0001f600",
    "empty": "", "a line break": "e\n", "a field": "e\r\nX-User: root", "JSON": '{"kid":"e"}', "3 kB": "e" * 3000, "two kids": "e,s",
}


@pytest.mark.parametrize("kid", cases(KIDS))
def test_a_key_id_that_the_set_does_not_have(gate, kid):
    gate.refuses("set", EC.token(CLAIMS, kid=kid), "key is not known")
    for secret in (b"", b"\0", kid.encode()):
        gate.refuses("set", assemble({"alg": "HS256", "kid": kid}, CLAIMS, hmac_with(secret)), "key is not known")
        gate.refuses("secret", assemble({"alg": "HS256", "kid": kid}, CLAIMS, hmac_with(secret)), "signature")


@pytest.mark.parametrize("kid, says", cases({
    "5 kB": ('"' + "e" * 5000 + '"', "malformed"), "10 kB": ('"' + "e" * 10_000 + '"', "too long"),
    "half a pair": (r'"\ud800"', "malformed"), "a raw line break": ('"e\n"', "malformed"),
    "a raw NUL": ('"e\0"', "malformed"), "null": ("null", "malformed"), "a list": ('["e"]', "malformed"),
    "an object": ('{"e":"e"}', "malformed"), "false": ("false", "malformed"), "no end": ('"e', "malformed"),
}))
def test_a_key_id_that_is_no_text(gate, kid, says):
    gate.refuses("set", assemble(f'{{"alg":"ES256","kid":{kid}}}', CLAIMS, EC.sign), says)


def test_a_key_id_is_compared_as_decoded(gate):
    gate.accepts("set", assemble(r'{"alg":"ES256","kid":"\u0065"}', CLAIMS, EC.sign))
    invalid = base64.urlsafe_b64encode(b'{"alg":"ES256","kid":"e\xff"}').rstrip(b"=").decode()
    data = f"{invalid}.{encode(CLAIMS)}"
    gate.refuses("set", f"{data}.{encode(EC.sign(data.encode()))}", "malformed")


STRANGER = Ec()


def certificate():
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stranger")])
    day = datetime.datetime(2020, 1, 1)
    builder = x509.CertificateBuilder(name, name, STRANGER.private.public_key(), 1, day, day.replace(year=2099))
    return builder.sign(STRANGER.private, SHA256)


def brought(url):
    """Members of a header that bring a key, or say where one is."""
    own = certificate().public_bytes(serialization.Encoding.DER)
    members = {"jwk": STRANGER.jwk("e"), "jku": f"{url}/jwks.json", "x5u": f"{url}/stranger.pem",
               "x5c": [base64.b64encode(own).decode()],
               "x5t": encode(hashlib.sha1(own).digest()), "x5t#S256": encode(hashlib.sha256(own).digest())}
    return {**{name: {name: value} for name, value in members.items()}, "all": members}


@pytest.mark.parametrize("name", brought(""))
def test_a_key_that_the_token_brings(gate, name):
    members = brought(gate.lure.url)[name]
    gate.refuses("ec", STRANGER.token(CLAIMS, **members), "signature")
    gate.refuses("set", STRANGER.token(CLAIMS, kid="e", **members), "signature")
    gate.refuses("set", STRANGER.token(CLAIMS, kid="stranger", **members), "key is not known")
    gate.refuses("rsa", STRANGER.token(CLAIMS, **members), "algorithm")
    gate.refuses("ec", STRANGER.token({**CLAIMS, "iss": gate.lure.url}, kid=members.get("jku", "e"), **members), "signature")
    gate.accepts("ec", EC.token(CLAIMS, **members))  # unknown members are ignored (RFC 7515, 4)
    assert gate.lure.connections == 0


def test_a_secret_that_the_token_brings(gate):
    own = Secret("a secret of the client, which is long enough")
    for more in ({}, {"kid": "s"}, {"kid": own.secret}):
        gate.refuses("secret", own.token(CLAIMS, jwk=own.jwk(), **more), "signature")
    gate.refuses("set", own.token(CLAIMS, kid="s", jwk=own.jwk("s")), "signature")


# ---- base64url ----

ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"


def parts_with(change, index):
    """A token whose part `index` is changed, and that is signed as it is; the original must have what the change needs."""
    for n in range(200):
        parts = [encode({"alg": "HS256", "x": "a" * n + "~~???"}), encode({**CLAIMS, "x": "a" * n + "~~???"})]
        if index == 2:
            parts.append(encode(SECRET.sign(".".join(parts).encode())))
        changed = change(parts[index])
        if changed in (None, parts[index]):
            continue
        parts[index] = changed
        return ".".join(parts if index == 2 else [*parts, encode(SECRET.sign(".".join(parts).encode()))])
    raise AssertionError("the change never fits")


def trailing_bits(text):
    return text[:-1] + ALPHABET[ALPHABET.index(text[-1]) ^ 1] if len(text) % 4 else None


@pytest.mark.parametrize("index", [0, 1, 2], ids=["header", "payload", "signature"])
@pytest.mark.parametrize("change", cases({
    "padded": lambda text: text + "=" * (-len(text) % 4), "one =": lambda text: text + "=",
    "four =": lambda text: text + "====", "= first": lambda text: "=" + text,
    "= within": lambda text: text[:4] + "=" + text[4:], "%3D": lambda text: text + "%3D",
    "+ for -": lambda text: text.replace("-", "+"), "/ for _": lambda text: text.replace("_", "/"),
    "trailing bits": trailing_bits, "an impossible length": lambda text: text + "A" * ((1 - len(text)) % 4),
    "a space": lambda text: text[:4] + " " + text[4:], "a tab": lambda text: text[:4] + "\t" + text[4:],
    "a star": lambda text: text[:4] + "*" + text[4:], "escaped": lambda text: "%65" + text[1:],
    "quoted": lambda text: f'"{text}"', "an apostrophe": lambda text: text + "'",
    "a high byte": lambda text: text[:4] + "\xe9" + text[4:], "a tilde": lambda text: "~" + text,
}))
def test_parts_have_one_spelling(gate, change, index):
    gate.refuses("secret", parts_with(change, index), "malformed")


# ---- JSON ----

@pytest.mark.parametrize("header", [r'{"alg":"HS256","\u0061lg":"none"}', r'{"\u0061lg":"HS256","alg":"HS256"}',
                                    '{"alg":"HS256","kid":"a","kid":"a"}',
                                    '{"alg":"HS256","typ":"JWT","typ":"JWT"}', '{"alg":"HS256","x":1,"x":1}',
                                    '{"alg":"HS256","":1,"":1}',
                                    '{"alg":"HS256","b64":true,"b64":true}', '{"alg":"none","alg":"HS256"}'])
def test_names_come_once_in_a_header(gate, header):
    gate.refuses("secret", assemble(header, CLAIMS, SECRET.sign), "malformed")


EXP = '"exp":4102444800'


@pytest.mark.parametrize("payload", [
    f'{{"sub":"ada","sub":"root",{EXP}}}', f'{{"sub":"ada",{EXP},"exp":1}}', f'{{"exp":1,{EXP}}}',
    rf'{{{EXP},"\u0065xp":4102444801}}',
    f'{{{EXP},"":1,"":1}}', f'{{{EXP},"a":{{"b":1,"b":2}}}}', f'{{{EXP},"a":[{{"b":1,"b":2}}]}}',
    f'{{{EXP},"a":[[{{"b":{{"c":1,"c":1}}}}]]}}',
    f'{{{EXP},"roles":["x"],"roles":["admin"]}}', f'{{{EXP}}}{{{EXP}}}', f'{{{EXP}}} x', f'{{{EXP},}}', f'{{{EXP}', f'{{{EXP}}}]',
    f'\ufeff{{{EXP}}}', f"{{'exp':4102444800}}", f'{{{EXP},"a":"\n"}}', f'{{{EXP},"a":"\0"}}', f'{{{EXP}}}\0',
    rf'{{{EXP},"a":"\ud800"}}',
    rf'{{{EXP},"a":"\x41"}}', f'{{{EXP},"a":tru}}', f'{{{EXP}/**/}}', '"text"', "null", "true", "7", " ", f"[{{{EXP}}}]", "\xe9",
])
def test_a_payload_is_one_object_with_unique_names(gate, payload):
    gate.refuses("secret", assemble({"alg": "HS256"}, payload, SECRET.sign), "malformed")


def nested(depth, inner="1"):
    """A payload of that many levels."""
    return f'{{{EXP},"a":{"[" * (depth - 1)}{inner}{"]" * (depth - 1)}}}'


@pytest.mark.parametrize("depth", [17, 64, 1000, 1100, 2900])
def test_deep_nesting(gate, depth):
    objects = f'{{{EXP},"a":' + '{"a":' * (depth - 1) + "1" + "}" * depth
    for payload in (nested(depth), objects, nested(depth, '{"b":1}')):
        if len(payload) < 5900:
            gate.refuses("secret", assemble({"alg": "HS256"}, payload, SECRET.sign), "malformed")
        gate.refuses("long", assemble({"alg": "HS256"}, payload, SECRET.sign), "malformed")
    gate.accepts("secret", assemble({"alg": "HS256"}, nested(16), SECRET.sign))
    if depth > 1000:
        for brackets in ("[]", "{}"):
            header = f'{{"alg":"HS256","a":{brackets[0] * depth}{brackets[1] * min(depth, 1000)}}}'
            gate.refuses("secret", assemble(header, CLAIMS, SECRET.sign), "malformed")


@pytest.mark.parametrize("member", ['"a":18446744073709551616', '"a":-9223372036854775809', '"a":[1e400]', '"a":{"b":-1e400}',
                                    '"a":01', '"a":.5', '"a":1.', '"a":+1', '"a":0x1', '"a":NaN', '"a":-Infinity', '"a":1e', '"a":--1'])
def test_numbers_beyond_the_limits(gate, member):
    gate.refuses("secret", assemble({"alg": "HS256"}, f"{{{EXP},{member}}}", SECRET.sign), "malformed")


# ---- size and form ----

def of_size(size):
    """A token of that many bytes; not every size can be had with a payload alone."""
    for kid in ("", "k", "kk"):
        rest = size - len(encode({"alg": "HS256", "kid": kid})) - 2 - 43
        payload = json.dumps({**CLAIMS, "pad": ""})
        bytes_ = rest * 3 // 4
        token = assemble({"alg": "HS256", "kid": kid}, payload[:-2] + "x" * (bytes_ - len(payload)) + '"}', SECRET.sign)
        if len(token) == size:
            return token
    raise AssertionError(size)


def test_the_longest_token(gate):
    gate.accepts("secret", of_size(LIMIT))
    gate.refuses("secret", of_size(LIMIT + 1), "too long")
    gate.accepts("long", of_size(60 << 10))
    gate.refuses("long", of_size((60 << 10) + 1), "too long")
    gate.refuses("secret", "." * LIMIT, "malformed")
    gate.refuses("secret", "A" * 60_000, "too long")


def test_beyond_the_limit_of_headers(gate):
    before = len(gate.back.requests)
    for token in (of_size(70_000), "A" * 64_600):
        assert gate.server.get("/long/x", bearer(token)).status == 431
    assert len(gate.back.requests) == before


GOOD = SECRET.token(CLAIMS)
HEADER, PAYLOAD, SIGNATURE = GOOD.split(".")
JWE = encode({"alg": "dir", "enc": "A256GCM"})


@pytest.mark.parametrize("token", cases({
    "nothing": "", "one dot": ".", "two dots": "..", "three dots": "...", "no payload": f"{HEADER}..{SIGNATURE}",
    "no header": f".{PAYLOAD}.{SIGNATURE}", "no signature": f"{HEADER}.{PAYLOAD}.", "a payload alone": PAYLOAD,
    "a dot first": f".{GOOD}", "a dot last": f"{GOOD}.", "two dots between": f"{HEADER}..{PAYLOAD}.{SIGNATURE}",
    "four parts": f"{GOOD}.{SIGNATURE}", "five parts": f"{GOOD}.{PAYLOAD}.{SIGNATURE}",
    "a JWE": f"{JWE}..{encode('0' * 12)}.{encode('x')}.{encode('0' * 16)}",
    "a JWE around a token": f"{JWE}.{encode('key')}.{encode('0' * 12)}.{encode(GOOD)}.{encode('0' * 16)}",
    "JSON": json.dumps({"payload": PAYLOAD, "protected": HEADER, "signature": SIGNATURE}, separators=(",", ":")),
    "two tokens": f"{GOOD} {GOOD}", "two tokens with a comma": f"{GOOD},{GOOD}",
    "a list of schemes": f"{GOOD}, Bearer {GOOD}", "a parameter": f"{GOOD};a=b", "quoted": f'"{GOOD}"',
    "in brackets": f"<{GOOD}>", "a name": f"token={GOOD}", "Bearer twice": f"Bearer {GOOD}", "base64url of it": encode(GOOD),
    "a token in a token": assemble({"alg": "HS256", "cty": "JWT"}, GOOD, SECRET.sign),
}))
def test_the_form_of_a_token(gate, token):
    gate.refuses("secret", token, "malformed")


@pytest.mark.parametrize("members, says", cases({
    "nothing critical": ({"crit": []}, "extension"), "exp": ({"crit": ["exp"], "exp": 1}, "extension"),
    "alg": ({"crit": ["alg"]}, "extension"), "a text": ({"crit": "b64"}, "extension"), "null": ({"crit": None}, "extension"),
    "an object": ({"crit": {}}, "extension"), "unknown": ({"crit": ["x"], "x": 1}, "extension"),
    "b64 = true": ({"crit": ["b64"], "b64": True}, "extension"), "b64 = false": ({"b64": False}, "extension"),
    "b64 = 0": ({"b64": 0}, "malformed"), "b64 is a text": ({"b64": "false"}, "malformed"),
    "b64 = null": ({"b64": None}, "malformed"),
}))
def test_extensions(gate, members, says):
    gate.refuses("secret", SECRET.token(CLAIMS, **members), says)
    if members.get("b64") is False:  # the payload as it is (RFC 7797)
        head = encode({"alg": "HS256", **members})
        for payload in (json.dumps(CLAIMS, separators=(",", ":")), "{}"):
            gate.refuses("secret", f"{head}.{payload}.{encode(SECRET.sign(f'{head}.{payload}'.encode()))}", "extension")


@pytest.mark.parametrize("typ", ["JWT", "jwt", "at+jwt", "application/jwt", "JOSE", "", "\0", 7, None, ["JWT"], {"a": 1}])
def test_no_type_opens_or_closes(gate, typ):
    gate.accepts("secret", SECRET.token(CLAIMS, typ=typ))
    gate.refuses("secret", Secret("another secret that is long enough").token(CLAIMS, typ=typ), "signature")


# ---- claims ----

@pytest.mark.parametrize("exp, says", cases({
    text: (text, says) for says, texts in {
        "malformed": ['"4102444800"', '"soon"', '""', "null", "true", "[4102444800]", '{"a":1}', "1e400", "-1e400",
                      "NaN", "Infinity", "18446744073709551616",
                      "+4102444800", "04102444800", "0xf4865700", "4102444800.", "4_102_444_800", "4102444800Z"],
        "expired": ["0", "-0", "-1", "-4102444800", "1", "1.5", "1e-400", "1e9", "-1e308", "0.0", "-9223372036854775808"],
        None: ["4102444800", "4102444800.5", "4.1024448e9", "4102444800000", "18446744073709551615", "1e308"],
    }.items() for text in texts}))
def test_expirations(gate, exp, says):
    token = assemble({"alg": "HS256"}, f'{{"sub":"ada","exp":{exp}}}', SECRET.sign)
    gate.refuses("secret", token, says) if says else gate.accepts("secret", token)


@pytest.mark.parametrize("nbf, says", cases({
    text: (text, says) for says, texts in {
        "malformed": ['"0"', "null", "false", "[]", "1e400", "NaN", "18446744073709551616"],
        "not valid yet": ["4102444700", "4102444700.5", "1e308", "18446744073709551615", "9223372036854775807"],
        None: ["0", "-1", "1.5", "-1e308", "1e-400"]}.items() for text in texts}))
def test_tokens_of_the_future(gate, nbf, says):
    token = assemble({"alg": "HS256"}, f'{{{EXP},"nbf":{nbf}}}', SECRET.sign)
    gate.refuses("secret", token, says) if says else gate.accepts("secret", token)


RIGHT = {"iss": "https://a.example", "aud": "films"}


@pytest.mark.parametrize("claim, says", cases({
    f"{name} {json.dumps(value)}": ({name: value}, says) for name, says, values in [
        ("iss", "issuer", ["", "https://a.example ", " https://a.example", "https://a.example\0", "https://A.example", "https://a.exampl",
                           "https://a.example.evil.example", "https://a.example#", "https://\u0430.example", None, True, 7,
                           ["https://a.example", "https://b.example"], {"https://a.example": 1}]),
        ("aud", "audience", ["", "Films", "films ", "films,books", "films books", "film", "films\0", "\uff46ilms", None, True, 7, [],
                             [["films"]], ["films", None], ["films", ["books"]], ["books", {"films": "films"}], {"films": "films"},
                             {"0": "films"}]),
    ] for value in values}))
def test_issuers_and_audiences_that_only_look_right(gate, claim, says):
    gate.accepts("named", SECRET.token({**CLAIMS, **RIGHT}))
    gate.refuses("named", SECRET.token({**CLAIMS, **RIGHT, **claim}), says)


# ---- the field ----

@pytest.mark.parametrize("value, says", cases({
    "a tab": (f"Bearer\t{GOOD}", "scheme"), "no space": (f"Bearer{GOOD}", "scheme"), "a colon": (f"Bearer: {GOOD}", "scheme"),
    "an equals sign": (f"Bearer={GOOD}", "scheme"), "a comma": (f"Bearer,{GOOD}", "scheme"),
    "the token alone": (GOOD, "scheme"), "empty": ("", "scheme"), "another scheme": (f"Token {GOOD}", "scheme"),
    "JWT": (f"JWT {GOOD}", "scheme"), "DPoP": (f"DPoP {GOOD}", "scheme"), "Bearers": (f"Bearers {GOOD}", "scheme"),
    "Beare": (f"Beare {GOOD}", "scheme"), "quoted": (f'"Bearer {GOOD}"', "scheme"),
    "Basic first": (f"Basic YTpi, Bearer {GOOD}", "scheme"), "a look-alike": (f"B\xe9arer {GOOD}", "scheme"),
    "a no-break space": (f"Bearer\xa0{GOOD}", "scheme"),
}))
def test_another_scheme(gate, value, says):
    gate.refuses("secret", value, says, error=None)


def test_spaces_before_a_token(gate):
    gate.refuses("secret", f"\t{GOOD}", "malformed")
    gate.refuses("secret", f"  \t{GOOD}", "malformed")
    for value in ("Bearer", "Bearer ", "bearer"):
        assert refused(gate.server.get("/secret/x", f"Authorization: {value}"), "malformed")
    for field in (f"AUTHORIZATION:bEaReR    {GOOD} \t", f"authorization:\tBearer {GOOD}"):
        assert gate.server.get("/secret/x", field).status == 200


BAD = f"Bearer {HEADER}.{PAYLOAD}.AAAA"


@pytest.mark.parametrize("first, second", cases({
    "the same": (f"Bearer {GOOD}", f"Bearer {GOOD}"), "good and bad": (f"Bearer {GOOD}", BAD),
    "bad and good": (BAD, f"Bearer {GOOD}"), "Basic and good": ("Basic YTpi", f"Bearer {GOOD}"),
    "good and Basic": (f"Bearer {GOOD}", "Basic YTpi"), "empty and good": ("", f"Bearer {GOOD}"),
    "good and empty": (f"Bearer {GOOD}", ""),
}))
def test_two_fields(gate, first, second):
    before = len(gate.back.requests)
    for names in (("Authorization", "Authorization"), ("authorization", "AUTHORIZATION")):
        for between in ((), ("X-Between: 1",)):
            answer = gate.server.get("/secret/x", f"{names[0]}: {first}", *between, f"{names[1]}: {second}")
            assert refused(answer, "more than once", 400, "invalid_request")
    with http2.Client(gate.server.port) as client:
        fields = [("authorization", first), ("x-between", "1"), ("authorization", second)]
        assert client.get("/secret/x", fields=fields).status == 400
    assert len(gate.back.requests) == before


@pytest.mark.parametrize("target, fields", cases({
    "in the query": (f"/secret/x?access_token={GOOD}", ()), "in the path": (f"/secret/{GOOD}", ()),
    "in a cookie": ("/secret/x", (f"Cookie: access_token={GOOD}",)),
    "for a proxy": ("/secret/x", (f"Proxy-Authorization: Bearer {GOOD}",)),
    "in an X field": ("/secret/x", (f"X-Authorization: Bearer {GOOD}",)),
    "with an underscore": ("/secret/x", (f"Authorization_: Bearer {GOOD}",)),
    "forwarded": ("/secret/x", (f"X-Forwarded-Authorization: Bearer {GOOD}",)),
    "another path": ("/secret/x", ("X-Original-URL: /open", "X-Rewrite-URL: /open")),
    "another method": ("/secret/x", ("X-HTTP-Method-Override: OPTIONS",)),
    "identities": ("/secret/x", ("X-User: root", "X-Forwarded-User: root", "X-Remote-User: root", "X-Forwarded-For: 127.0.0.1")),
    "named in Connection": ("/secret/x", ("Connection: authorization",)),
}))
def test_a_token_elsewhere_does_not_count(gate, target, fields):
    before = len(gate.back.requests)
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        answer = gate.server.get(target, *fields, method=method)
        assert answer.status == 401 and answer.get("www-authenticate") == 'Bearer realm="sluice"'
    assert len(gate.back.requests) == before


@pytest.mark.parametrize("lines", cases({
    "a space before the colon": f"Authorization : Bearer {GOOD}", "folded": f"Authorization: Bearer\r\n {GOOD}",
    "folded within": f"Authorization: Bearer {GOOD[:40]}\r\n\t{GOOD[40:]}",
    "a bare line feed": f"X: 1\nAuthorization: Bearer {GOOD}",
    "a bare line feed within": f"Authorization: Bearer {GOOD[:40]}\n{GOOD[40:]}",
    "a bare return": f"X: 1\rAuthorization: Bearer {GOOD}", "a NUL": f"Authorization: Bearer {GOOD}\0",
}))
def test_fields_that_are_no_fields(gate, lines):
    before = len(gate.back.requests)
    assert gate.server.get("/secret/x", lines).status == 400
    assert len(gate.back.requests) == before


def test_a_token_in_the_trailers_comes_too_late(gate):
    before = len(gate.back.requests)
    with gate.server.connect() as client:
        client.send("POST /secret/x HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n"
                    f"1\r\nx\r\n0\r\nAuthorization: Bearer {GOOD}\r\n\r\n")
        assert refused(client.read(), "needed", error=None)
    assert len(gate.back.requests) == before


def test_a_refusal_asks_for_no_body(gate):
    """A client that waits for 100 gets the refusal, and not the interim answer."""
    before = len(gate.back.requests)
    with gate.server.connect() as client:
        client.send("POST /secret/x HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n"
                    f"Authorization: {BAD}\r\n\r\n")
        assert refused(client.read(), "signature")
    assert len(gate.back.requests) == before


def test_an_upgrade_needs_a_token_too(gate):
    before = len(gate.back.requests)
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
               "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
    for field in (f"Authorization: {BAD}", f"Sec-WebSocket-Protocol: bearer, {GOOD}", "Connection: authorization"):
        assert gate.server.get("/secret/x", *upgrade, field).status == 401
    assert len(gate.back.requests) == before


# ---- tokens that were accepted before ----

@pytest.mark.parametrize("twin", cases({
    "trailing bits": lambda token: trailing_bits(token), "padded": lambda token: token + "=",
    "a dot": lambda token: token + ".", "shorter": lambda token: token[:-1],
    "a space": lambda token: token.replace(".", ". ", 1), "another case": lambda token: token.swapcase(),
    "other claims": lambda token: swapped(token, 1, {**CLAIMS, "sub": "root"}),
    "another header": lambda token: swapped(token, 0, {"alg": "none"}),
    "an escaped name": lambda token: swapped(token, 1, r'{"s\u0075b":"ada","exp":4102444800}'),
}))
def test_a_twin_of_a_remembered_token(gate, twin):
    hits = gate.server.sample('sluice_jwt_cache_hits_total{policy="secret"}')
    token = SECRET.token(CLAIMS)
    with gate.server.connect() as client:
        before = len(gate.back.requests)
        for _ in range(2):
            assert client.get("/secret/x", bearer(token)).status == 200
        assert gate.server.sample('sluice_jwt_cache_hits_total{policy="secret"}') > hits
        assert client.get("/secret/x", bearer(twin(token))).status == 401
        assert client.get("/ec/x", bearer(token)).status == 401  # another policy remembers for itself
        assert client.get("/named/x", bearer(token)).status == 401
        assert len(gate.back.requests) == before + 2


def swapped(token, index, replacement):
    parts = token.split(".")
    parts[index] = encode(replacement)
    return ".".join(parts)


@pytest.mark.parametrize("before, after, says", cases({
    "another secret": (f'secret = "{SECRET.secret}"', f'secret = "{"another" * 8}"', "signature"),
    "a public key": (f'secret = "{SECRET.secret}"', 'public_key = "ec.pem"', "algorithm"),
    "a set without the key": ('jwks = "keys.json"', 'jwks = "fewer.json"', "key is not known"),
    "a set with another key of the name": ('jwks = "keys.json"', 'jwks = "other.json"', "signature"),
    "an issuer": (f'secret = "{SECRET.secret}"', f'secret = "{SECRET.secret}"\nissuer = "https://a.example"', "another issuer"),
    "an audience": (f'secret = "{SECRET.secret}"', f'secret = "{SECRET.secret}"\naudience = "films"', "another audience"),
    "a shorter limit": (f'secret = "{SECRET.secret}"', f'secret = "{SECRET.secret}"\ntoken_limit = "256B"', "too long"),
    "less leeway": (f'secret = "{SECRET.secret}"\nleeway = "1h"', f'secret = "{SECRET.secret}"\nleeway = "0s"', "expired"),
    "an end": (f'secret = "{SECRET.secret}"\nrequire_exp = false', f'secret = "{SECRET.secret}"', "never expires"),
}))
def test_a_reload_forgets_what_was_accepted(sluice, tmp_path, before, after, says):
    write_keys(tmp_path)
    (tmp_path / "fewer.json").write_text(json.dumps({"keys": [EC.jwk("e"), Secret("a" * 32).jwk("t")]}))
    (tmp_path / "other.json").write_text(json.dumps({"keys": [Secret("a" * 32).jwk("s")]}))
    claims = {"sub": "ada", "exp": 4102444800, "pad": "x" * 200}
    if says == "expired":
        claims["exp"] = int(time.time()) - 60
    if says == "never expires":
        del claims["exp"]
    token = SECRET.token(claims, kid="s")
    with Upstream(echo) as back:
        server = sluice(configuration(back, {"auth": before}), server="cores = 2")
        clients = [server.connect() for _ in range(6)]  # on both cores, and open during the reload
        for client in clients * 2:
            assert client.get("/auth/x", bearer(token)).status == 200
        server.file.write_text(server.file.read_text().replace(before, after))
        assert reload(server)[0] == 200
        passed = len(back.requests)
        for client in clients:
            assert refused(client.get("/auth/x", bearer(token)), says)
            client.close()
        assert len(back.requests) == passed == 12
