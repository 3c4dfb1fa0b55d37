"""Signed tokens for the tests: JWS by hand with hmac and python3-cryptography, so that a test can forge every part."""
import base64
import hashlib
import hmac
import json
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def encode(data):
    if isinstance(data, dict):
        data = json.dumps(data, separators=(",", ":"))
    if isinstance(data, str):
        data = data.encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def assemble(header, payload, sign):
    """`header` and `payload` are dicts, or the text to use instead; `sign` returns the signature of the signing input."""
    signing_input = f"{encode(header)}.{encode(payload)}"
    return f"{signing_input}.{encode(sign(signing_input.encode()))}"


def soon(**claims):
    return {"sub": "ada", "exp": int(time.time()) + 3600, **claims}


class Secret:
    algorithm = "HS256"

    def __init__(self, secret="0123456789abcdef0123456789abcdef"):
        self.secret = secret

    def sign(self, data):
        return hmac.new(self.secret.encode(), data, hashlib.sha256).digest()

    def jwk(self, kid=None):
        return {"kty": "oct", "k": encode(self.secret), **({"kid": kid} if kid else {})}

    def token(self, payload=None, **header):
        return assemble({"alg": self.algorithm, "typ": "JWT", **header}, soon() if payload is None else payload, self.sign)


class KeyPair(Secret):
    def __init__(self, private):
        self.private = private
        self.public_pem = private.public_key().public_bytes(serialization.Encoding.PEM,
                                                            serialization.PublicFormat.SubjectPublicKeyInfo)


def number(value, size=None):
    return encode(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class Rsa(KeyPair):
    algorithm = "RS256"

    def __init__(self, bits=2048):
        super().__init__(rsa.generate_private_key(65537, bits))

    def sign(self, data):
        return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())

    def jwk(self, kid=None):
        numbers = self.private.public_key().public_numbers()
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "n": number(numbers.n), "e": number(numbers.e),
                **({"kid": kid} if kid else {})}


def ec_jwk(public):
    """RFC 7518, 6.2.1: coordinates have their full length; PyJWT leaves out leading zeros."""
    numbers, size = public.public_numbers(), (public.key_size + 7) // 8
    return {"kty": "EC", "crv": f"P-{public.key_size}", "x": number(numbers.x, size), "y": number(numbers.y, size)}


class Ec(KeyPair):
    algorithm = "ES256"

    def __init__(self, curve=None):
        super().__init__(ec.generate_private_key(curve or ec.SECP256R1()))

    def sign_der(self, data):
        return self.private.sign(data, ec.ECDSA(hashes.SHA256()))

    def sign(self, data):
        r, s = decode_dss_signature(self.sign_der(data))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def jwk(self, kid=None):
        return {**ec_jwk(self.private.public_key()),
                **({"kid": kid} if kid else {})}


class Ed(KeyPair):
    algorithm = "EdDSA"

    def __init__(self):
        super().__init__(ed25519.Ed25519PrivateKey.generate())

    def sign(self, data):
        return self.private.sign(data)

    def jwk(self, kid=None):
        raw = self.private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return {"kty": "OKP", "crv": "Ed25519", "x": encode(raw), **({"kid": kid} if kid else {})}
