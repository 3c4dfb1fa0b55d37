"""`jwks_url` of a policy of type "jwt": keys that an issuer publishes, through the real program. A Python server is the issuer."""
import contextlib
import gzip
import json
import threading
import time

import pytest

from certificates import Authority
from test_gateway import wait_until
from test_gateway_tls import speaks
from test_jwt import ask, bearer, counted, refused
from test_reload import reload, write
from tokens import Ec, Rsa, soon
from upstream import Upstream, response

FETCHED, FAILED = (f'sluice_jwt_key_fetches_total{{url="%s/keys",result="{what}"}}' for what in ("done", "failed"))


def config(url, *options, more="", name="auth"):
    keys = "".join(f"{option}\n" for option in options)
    return f'''
[policy.{name}]
type = "jwt"
jwks_url = "{url}/keys"
{keys}
[[route]]
path = "/{name}"
respond = 200
use = ["{name}"]
{more}
'''


OPEN = '[[route]]\npath = "/open"\nrespond = 200\n'


def with_token(server, token, path="/auth"):
    return ask(server, token, path)


class Issuer:
    """Publishes the public keys of `signers`, unless `answer` replaces that."""

    def __init__(self, port=0, tls=None):
        self.signers = {"first": Ec()}
        self.answer = lambda connection: response(self.set())
        self.back = Upstream(lambda request, connection: self.answer(connection), port=port, tls=tls)
        self.url = self.back.url

    def set(self):
        return json.dumps({"keys": [pair.jwk(kid) for kid, pair in self.signers.items()]}).encode()

    def token(self, kid="first", **claims):
        return self.signers[kid].token(soon(**claims), kid=kid)

    def rotate(self, old, new):
        """Signs with another key from now on."""
        del self.signers[old]
        self.signers[new] = Ec()

    @property
    def fetches(self):
        return len(self.back.requests)


@contextlib.contextmanager
def issuing(**options):
    issuer = Issuer(**options)
    try:
        yield issuer
    finally:
        issuer.back.close()


def unknown():
    """A token whose key is not published."""
    return Ec().token(kid="unknown")


def test_one_fetch_for_all_cores_and_policies(sluice, authority, localhost):
    with issuing(tls=speaks(localhost)) as issuer:
        ca = f'jwks_ca = "{authority.ca}"'
        text = config(issuer.url, ca) + config(issuer.url, ca, 'require = [{ claim = "scope", any = ["a"] }]', name="scope")
        server = sluice(text, server="cores = 3")
        for _ in range(12):  # on several connections, and so on several cores
            assert with_token(server, issuer.token()).status == 200
            assert with_token(server, issuer.token(scope="a"), "/scope").status == 200
            assert with_token(server, issuer.token(), "/scope").status == 403
        (method, target, fields, body), = issuer.back.requests
        assert (method, target, body) == ("GET", "/keys", b"")
        assert dict(fields)["host"] == f"localhost:{issuer.back.port}"
        assert dict(fields)["accept"] == "application/jwk-set+json, application/json"
        assert server.sample(FETCHED % issuer.url) == 1
        assert server.sample(FAILED % issuer.url) == 0


def test_what_the_issuer_changes_holds_after_a_while(sluice):
    with issuing() as issuer:
        server = sluice(config(issuer.url, 'jwks_every = "1s"'), server="cores = 2")
        old = issuer.token()
        assert with_token(server, old).status == 200
        wait_until(lambda: issuer.fetches >= 3)
        verified = counted(server, "sluice_jwt_verifications_total")
        for _ in range(8):  # the same set again does not empty the cache
            assert with_token(server, old).status == 200
        assert counted(server, "sluice_jwt_verifications_total") <= max(verified, 2)
        issuer.rotate("first", "second")
        wait_until(lambda: with_token(server, issuer.token("second")).status == 200)
        for _ in range(8):  # the old key is gone, and so are the cached tokens of every core
            wait_until(lambda: with_token(server, old).status == 401)


def test_an_unknown_key_has_the_set_fetched(sluice):
    with issuing() as issuer:
        server = sluice(config(issuer.url, 'jwks_every = "1h"'), server="cores = 2")
        issuer.rotate("first", "second")
        assert with_token(server, issuer.token("second")).status == 200
        assert issuer.fetches == 2
        # For a while, no other unknown key causes a fetch, however many come, on any core.
        issuer.rotate("second", "third")
        for _ in range(20):
            assert refused(with_token(server, unknown()), "key is not known")
            assert refused(with_token(server, issuer.token("third")), "key is not known")
        assert issuer.fetches == 2


def test_a_token_that_no_key_would_help_causes_no_fetch(sluice):
    with issuing() as issuer:
        expected = ('issuer = "me"', 'audience = "films"', 'require = [{ claim = "scope", any = ["a"] }]')
        server = sluice(config(issuer.url, 'jwks_every = "1h"', *expected), server="cores = 2")
        good = dict(iss="me", aud="films")
        no_help = [({**good, "iss": "other"}, "another issuer"), ({"aud": "films"}, "another issuer"),
                   ({**good, "aud": "books"}, "another audience"), ({"iss": "me"}, "another audience"),
                   ({**good, "exp": 1000}, "has expired"), ({**good, "nbf": int(time.time()) + 1000}, "not valid yet")]
        for _ in range(4):  # on several connections, and so on several cores
            for pair in Ec(), Rsa():  # the set has no key for the second one's algorithm either
                for claims, says in no_help:
                    assert refused(with_token(server, pair.token(soon(**claims), kid="unknown")), says)
                assert refused(with_token(server, pair.token("no JSON", kid="unknown")), "malformed")
        assert issuer.fetches == 1
        # The scope is asked of verified tokens alone.
        assert refused(with_token(server, Ec().token(soon(**good), kid="unknown")), "key is not known")
        assert issuer.fetches == 2


def test_a_key_for_another_algorithm_is_unknown_too(sluice):
    with issuing() as issuer:
        server = sluice(config(issuer.url))
        issuer.signers = {"rsa": Rsa()}
        assert with_token(server, issuer.token("rsa")).status == 200


def test_many_wait_for_one_fetch(sluice):
    with issuing() as issuer:
        server = sluice(config(issuer.url, 'jwks_timeout = "60s"'), server="cores = 2")
        issuer.rotate("first", "second")
        released = threading.Event()

        def slowly(connection):
            released.wait(30)
            return response(issuer.set())

        issuer.answer = slowly
        statuses = []
        token = issuer.token("second")
        clients = [threading.Thread(target=lambda: statuses.append(with_token(server, token).status)) for _ in range(40)]
        for client in clients:
            client.start()
        wait_until(lambda: issuer.fetches == 2)
        released.set()
        for client in clients:
            client.join()
        assert statuses == [200] * 40
        assert issuer.fetches == 2


def test_only_requests_with_an_unknown_key_wait(sluice):
    with issuing() as issuer:
        server = sluice(config(issuer.url, 'jwks_timeout = "60s"', 'audience = "films"', more=OPEN), server="cores = 1")
        good = lambda kid="first": issuer.token(kid, aud="films")
        issuer.signers = {**issuer.signers, "second": Ec()}
        released = threading.Event()

        def slowly(connection):
            released.wait(30)
            return response(issuer.set())

        issuer.answer = slowly
        with server.connect() as waiting:
            waiting.send(f"GET /auth HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {good('second')}\r\n\r\n")
            wait_until(lambda: issuer.fetches == 2)
            for _ in range(4):  # while the issuer thinks
                assert with_token(server, good()).status == 200
                assert server.get("/open").status == 200
                assert refused(with_token(server, None), "needed", error=None)
                assert refused(with_token(server, issuer.token()), "another audience")
                assert refused(with_token(server, good("second")[:-9]), "malformed")
                assert refused(with_token(server, Ec().token(soon(aud="films"), kid="first")), "signature")
            assert not released.is_set() and issuer.fetches == 2
            released.set()
            assert waiting.read().status == 200


def test_no_valid_token_is_refused_while_keys_rotate(sluice):
    """An issuer publishes a key before it signs with it, and removes it when it has not signed with it for a while."""
    with issuing() as issuer:
        server = sluice(config(issuer.url, 'jwks_every = "1s"'), server="cores = 2")
        answers, signs_with, over = [], ["first", issuer.signers["first"]], threading.Event()

        def call():
            with server.connect() as client:
                while not over.wait(0.01):
                    kid, pair = signs_with
                    answers.append((kid, client.get("/auth", bearer(pair.token(kid=kid))).status))

        clients = [threading.Thread(target=call) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            for old, new in (("first", "second"), ("second", "third")):
                last = issuer.token(old)
                issuer.signers = {**issuer.signers, new: Ec()}
                published = issuer.fetches
                wait_until(lambda: issuer.fetches >= published + 2)  # so one of them has ended
                signs_with = [new, issuer.signers[new]]
                changed = len(answers)
                wait_until(lambda: len(answers) >= changed + 40)
                issuer.signers = {new: issuer.signers[new]}
                wait_until(lambda: with_token(server, last).status == 401)
        finally:
            over.set()
            for client in clients:
                client.join()
        assert {kid for kid, _ in answers} == {"first", "second", "third"}
        assert [answer for answer in answers if answer[1] != 200] == []
        assert server.sample(FAILED % issuer.url) == 0


@pytest.mark.parametrize("trickles", [False, True])
def test_nobody_waits_longer_than_the_fetch_may_take(sluice, trickles):
    with issuing() as issuer:
        server = sluice(config(issuer.url, 'jwks_timeout = "200ms"'))
        over = threading.Event()

        def slowly(connection):
            if trickles:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
            while not over.wait(0.01):
                if trickles:
                    connection.sendall(b" ")

        issuer.answer = slowly
        begin = time.monotonic()
        assert refused(with_token(server, unknown()), "key is not known")
        assert time.monotonic() - begin > 0.1
        assert with_token(server, issuer.token()).status == 200
        wait_until(lambda: server.sample(FAILED % issuer.url) >= 1)
        assert "it did not answer in time; those from before stay in use" in server.log
        over.set()


def test_without_keys_nothing_is_ready(sluice):
    with issuing() as issuer:
        port = issuer.back.port
    server = sluice(config(issuer.url, more=OPEN), ready="/livez")
    token = issuer.token()
    status, text = server.admin("/readyz")
    assert status == 503 and f"The keys of {issuer.url}/keys have not been fetched yet." in text
    answer = with_token(server, token)
    assert (answer.status, answer.get("retry-after")) == (503, "1") and not answer.get("www-authenticate")
    assert "are not there yet" in json.loads(answer.body)["detail"]
    assert refused(with_token(server, None), "needed", error=None)
    assert server.get("/open").status == 200
    assert counted(server, "sluice_jwt_refusals_total", reason="no_keys") == 1
    wait_until(lambda: server.sample(FAILED % issuer.url) >= 2)  # only the first is logged
    assert server.log.count("it cannot be reached") == 1 and "; there are none yet" in server.log
    with issuing(port=port) as later:
        later.signers = issuer.signers
        server.wait()
        assert with_token(server, token).status == 200
        assert server.log.count(f"keys of {issuer.url}/keys: fetched\n") == 1


@pytest.mark.parametrize("answer, says", [
    (response(b"<html>", "Content-Type: text/html"), "it is no JWK set"),
    (response(b"", status="503 Service Unavailable"), "it answered 503"),
    (b"", "it gave no response"),
    (None, "it did not answer in time"),
], ids=["no JSON", "503", "nothing", "silence"])
def test_an_issuer_that_is_not_ready_at_the_start(sluice, answer, says):
    with issuing() as issuer:
        over = threading.Event()

        def wrong(connection):
            if answer is None:
                over.wait(30)
            return answer or None

        good, issuer.answer = issuer.answer, wrong
        server = sluice(config(issuer.url, 'jwks_timeout = "200ms"'), ready="/livez")
        wait_until(lambda: server.sample(FAILED % issuer.url) >= 1)
        assert f"/keys: {says}" in server.log
        answered = with_token(server, issuer.token())
        assert (answered.status, answered.get("retry-after")) == (503, "1") and server.admin("/readyz")[0] == 503
        issuer.answer = good
        over.set()
        wait_until(lambda: with_token(server, issuer.token()).status == 200)
        server.wait()


def test_a_redirect_is_not_followed(sluice):
    with issuing() as issuer, issuing() as other:
        issuer.signers = other.signers
        for status, location in (("301 Moved Permanently", f"{other.url}/keys"), ("302 Found", f"{issuer.url}/elsewhere"),
                                 ("303 See Other", "/elsewhere"), ("307 Temporary Redirect", f"{other.url}/keys"),
                                 ("308 Permanent Redirect", "/elsewhere")):
            issuer.answer = lambda connection: response(issuer.set(), f"Location: {location}", status=status)
            server = sluice(config(issuer.url), ready="/livez")
            wait_until(lambda: server.sample(FAILED % issuer.url) >= 1)
            assert f"/keys: it answered {status[:3]}" in server.log
            assert with_token(server, issuer.token()).status == 503
            server.stop()
        assert other.back.connections == 0 and {request[1] for request in issuer.back.requests} == {"/keys"}


@pytest.mark.parametrize("form", [
    lambda keys: response(keys, "Content-Type: text/html"),
    lambda keys: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n%s\r\n%x\r\n%s\r\n0\r\nX-Sum: 1\r\n\r\n"
                 % (keys[:4], len(keys) - 4, keys[4:]),
    lambda keys: b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n" + response(keys),
    lambda keys: response(b" " * 900_000 + keys),
    lambda keys: response(b'{"x":{"keys":[]},' + keys[1:]),
], ids=["another type", "chunked", "after a hint", "almost too large", "with more members"])
def test_forms_of_a_set(sluice, form):
    with issuing() as issuer:
        issuer.answer = lambda connection: form(issuer.set())
        assert with_token(sluice(config(issuer.url)), issuer.token()).status == 200


def test_a_set_becomes_stale(sluice):
    with issuing() as issuer:
        text = config(issuer.url, 'jwks_every = "1s"', 'stale_after = "2s"', more=OPEN)
        server = sluice("\n# routes\n" + text, server="cores = 2")
        token = issuer.token()
        for _ in range(8):
            assert with_token(server, token).status == 200
        good, issuer.answer = issuer.answer, lambda _: response(status="500 Internal Server Error")
        wait_until(lambda: "it answered 500; those from before are stale and no longer used\n" in server.log)
        for _ in range(8):  # on several connections, and so on several cores
            wait_until(lambda: with_token(server, token).status == 503)
        answer = with_token(server, token)
        assert (answer.status, answer.get("retry-after")) == (503, "1")
        assert server.get("/open").status == 200
        status, says = server.admin("/readyz")
        assert status == 503 and f"The keys of {issuer.url}/keys are stale." in says
        write(server, text + OPEN.replace("/open", "/more"))
        assert reload(server)[0] == 200
        assert with_token(server, token).status == 503
        issuer.answer = good
        server.wait()
        for _ in range(8):
            wait_until(lambda: with_token(server, token).status == 200)
        assert server.log.count(f"keys of {issuer.url}/keys: fetched\n") == 1


HUGE = b'{"keys":[' + b" " * (1 << 20) + b"]}"


@pytest.mark.parametrize("answer, says", [
    (response(b"<html>"), "it is no JWK set"),
    (response(b'{"keys":[]}'), "it has no key to verify tokens with"),
    (response(b'{"keys":[{"kty":"oct","k":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}'), "it has no key"),
    (response(HUGE), "its set is larger than 1048576 bytes"),
    (b"HTTP/1.1 200 OK\r\n\r\n" + HUGE, "its set is larger than 1048576 bytes"),
    (response(b"", status="500 Internal Server Error"), "it answered 500"),
    (response(b"", "Location: /elsewhere", status="302 Found"), "it answered 302"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "its response breaks off"),
    (b"SSH-2.0-OpenSSH\r\n\r\n", "it gave no response"),
    (b"", "it gave no response"),
    (response(b"[]"), "it is no JWK set"),
    (response(b'{"keys":{"a":1}}'), "it is no JWK set"),
    (response(b'{"keys":' + b"[" * 5000), "it is no JWK set"),
    (response(gzip.compress(b'{"keys":[]}'), "Content-Encoding: gzip"), "it is no JWK set"),
    (response(2 * HUGE), "its set is larger than 1048576 bytes"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n" + 2 * HUGE, "its set is larger than 1048576 bytes"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "its response breaks off"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", "it answered 204"),
    (response(b"", status="206 Partial Content"), "it answered 206"),
    (response(b"", status="401 Unauthorized"), "it answered 401"),
], ids=["no JSON", "empty", "a secret", "huge", "huge without a length", "500", "302", "broken off", "no HTTP", "nothing",
        "a list", "keys in an object", "too deep", "gzip", "2 MiB", "2 MiB in a chunk", "no chunk", "204", "206", "401"])
def test_an_answer_that_is_no_set_changes_nothing(sluice, answer, says):
    with issuing() as issuer:
        server = sluice(config(issuer.url, 'jwks_every = "1s"', 'jwks_timeout = "10s"'))

        def wrong(connection):
            with contextlib.suppress(OSError):
                connection.sendall(answer)

        good, issuer.answer = issuer.answer, wrong
        wait_until(lambda: server.sample(FAILED % issuer.url) >= 2)
        assert server.log.count("keys of ") == 1 and f"/keys: {says}" in server.log, server.log
        assert with_token(server, issuer.token()).status == 200
        assert server.admin("/readyz")[0] == 200
        issuer.answer = good
        wait_until(lambda: "/keys: fetched\n" in server.log)


def test_one_bad_key_does_not_spoil_the_others(sluice):
    with issuing() as issuer:
        good = json.loads(issuer.set())["keys"]
        issuer.answer = lambda _: response(json.dumps({"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}, *good]}).encode())
        server = sluice(config(issuer.url))
        assert with_token(server, issuer.token()).status == 200
        assert "key 1 is left out: the RSA key has 17 bits" in server.log


def test_a_reload_keeps_the_keys(sluice):
    with issuing() as issuer:
        server = sluice("\n# routes\n" + config(issuer.url), server="cores = 2")
        token = issuer.token()
    # The issuer is gone; other options of the policy may change nevertheless.
    for options in ([], ['leeway = "1s"'], ['realm = "x"']):
        write(server, config(issuer.url, *options))
        assert reload(server)[0] == 200
        for _ in range(8):
            assert with_token(server, token).status == 200
    write(server, config(issuer.url, 'require = [{ claim = "scope", any = ["a"] }]'))
    assert reload(server)[0] == 200
    assert with_token(server, token).status == 403
    assert server.admin("/readyz")[0] == 200
    with issuing() as other:
        write(server, config(other.url))
        assert reload(server)[0] == 200
        server.wait()
        assert with_token(server, other.token()).status == 200
        assert refused(with_token(server, token), "signature")


def test_whose_certificate_is_not_trusted_gives_no_keys(sluice, localhost, tmp_path):
    stranger = Authority(tmp_path / "stranger")
    with issuing(tls=speaks(localhost)) as issuer:
        for options in ([], [f'jwks_ca = "{stranger.ca}"']):
            server = sluice(config(issuer.url, *options), ready="/livez")
            wait_until(lambda: server.sample(FAILED % issuer.url) >= 1)
            assert with_token(server, issuer.token()).status == 503
            assert "it cannot be reached" in server.log and "certificate" in server.log
        assert issuer.fetches == 0
