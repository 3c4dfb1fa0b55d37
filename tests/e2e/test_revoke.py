"""POST /jwt/revoke on the admin listener: tokens are revoked at once, and stay so whatever happens to the program."""
import random
import sqlite3
import subprocess
import threading
import time

import pytest

import http1
from conftest import SLUICE
from test_gateway import wait_until
from tokens import Secret, soon
from websocket import TEXT, WebSocket

SIGNER = Secret()
ROUTE = """
[[route]]
path = "/{path}"
respond = {{ status = 200, body = "in" }}
use = ["{policy}"]
"""
FAR = 4102444800


def policy(name="auth", file="revoked.jsonl", more=""):
    revocations = f'revocations = "{file}"' if file else ""
    return f'[policy.{name}]\ntype = "jwt"\nsecret = "{SIGNER.secret}"\n{revocations}\n{more}\n'


CONFIG = policy() + ROUTE.format(path="who", policy="auth")


def revoke(server, query, *fields):
    with http1.Connection(server.admin_port) as admin:
        admin.send("\r\n".join([f"POST /jwt/revoke{query} HTTP/1.1", "Host: localhost", *fields, "", ""]))
        return admin.read()


def ask(server, path="/who", client=None, **claims):
    token = "Authorization: Bearer " + SIGNER.token({"exp": FAR, **claims})
    return client.get(path, token) if client else server.get(path, token)


def test_a_revoked_token_is_refused_by_every_core_at_once(sluice, tmp_path):
    server = sluice(CONFIG, server="cores = 2")
    assert "the file of revocations does not exist yet" in server.log
    clients = [server.connect() for _ in range(8)]
    for number in range(20):
        claims = {"sub": "ada", "jti": f"a b'{number}\u00e4"}
        assert {ask(server, client=client, **claims).status for client in clients} == {200}  # it is remembered
        answer = revoke(server, f"?jti=a+b%27{number}%C3%A4&exp={FAR}")
        assert (answer.status, answer.body) == (200, b"revoked\n")
        refused = [ask(server, client=client, **claims) for client in clients]
        assert {one.status for one in refused} == {401}
        assert 'error_description="The token has been revoked."' in refused[0].get("www-authenticate")
    assert ask(server, sub="ada", jti="other").status == 200
    assert ask(server, sub="ada").status == 200
    assert (tmp_path / "revoked.jsonl").read_text().splitlines()[0] == f'{{"jti":"a b\'0\u00e4","exp":{FAR}}}'
    assert (tmp_path / "revoked.jsonl").stat().st_mode & 0o777 == 0o600
    for client in clients:
        client.close()


@pytest.mark.parametrize("how", ["file", "table"])
def test_streams_websockets_and_tunnels_end(sluice, tmp_path, how):
    with sqlite3.connect(tmp_path / "main.db") as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE revoked (jti text PRIMARY KEY)")
        database.execute("CREATE TABLE notes (n int)")
    behind = sluice('[[websocket]]\npath = "/tunnel"\nhandler = "echo"\n')
    use = 'use = ["auth"]\n'
    server = sluice(
        policy(file="revoked.jsonl" if how == "file" else None, more='revoked = "revoked"\n' if how == "table" else "") +
        f'[database.main]\nurl = "sqlite:{tmp_path}/main.db"\n'
        f'[[resident]]\nname = "revoked"\nquery = "SELECT jti FROM revoked"\nkey = "jti"\nserve = {"true" if how == "file" else "false"}\n'
        'refresh = { every = "100ms" }\n'
        f'[[websocket]]\npath = "/echo"\nhandler = "echo"\n{use}'
        f'[[endpoint]]\npath = "/notes"\nget = "SELECT n FROM notes"\npost = "INSERT INTO notes (n) VALUES (:n)"\nchanges = {{ tables = ["notes"] }}\n{use}'
        f'[[route]]\npath = "/tunnel"\nupstream = "behind"\nupgrade = ["websocket"]\n{use}'
        f'[[upstream]]\nname = "behind"\nservers = ["http://127.0.0.1:{behind.port}"]\n')

    def opened(jti):
        field = "Authorization: Bearer " + SIGNER.token({"exp": FAR, "sub": "ada", "jti": jti})
        stream = server.connect()
        stream.send(f"GET /notes/changes HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n")
        assert b" 200 " in stream._until(b"\r\n\r\n")
        return WebSocket(server.port, "/echo", field), WebSocket(server.port, "/tunnel", field), stream

    ended, others = opened("a"), opened("b")
    if how == "file":
        assert revoke(server, "?jti=a").status == 200
    else:
        with sqlite3.connect(tmp_path / "main.db") as database:
            database.execute("INSERT INTO revoked VALUES ('a')")
    echo, tunnel, stream = ended
    assert echo.frame().code == 4401
    with pytest.raises(http1.Broken):
        tunnel.frame()
    while int(stream._until(b"\r\n"), 16):  # until the last chunk
        stream._until(b"\n\n\r\n")
    for talk in others[:2]:
        talk.say(TEXT, b"still here")
        assert talk.frame().payload == b"still here"
    for one in (*ended, *others):
        one.close()


def test_all_tokens_of_a_subject(sluice):
    server = sluice(CONFIG, server="cores = 2")
    now = int(time.time())
    old, new = {"sub": "ada", "iat": now - 100}, {"sub": "ada", "iat": now + 2}
    assert ask(server, **old).status == 200
    assert revoke(server, f"?sub=ada&before={now - 200}").status == 200
    assert ask(server, **old).status == 200
    assert revoke(server, "?sub=ada&sub=bob").status == 200
    assert [ask(server, **claims).status for claims in (old, {"sub": "ada"}, {"sub": "bob", "iat": 1})] == [401] * 3
    assert ask(server, sub="eve", iat=1).status == 200
    wait_until(lambda: time.time() > now + 2)
    assert ask(server, **new).status == 200, "it was issued afterwards"


def test_explain_knows_what_is_revoked(sluice):
    server = sluice(CONFIG)
    assert revoke(server, "?jti=a").status == 200
    for jti, says in (("a", "The token has been revoked."), ("b", "passes")):
        token = SIGNER.token({"exp": FAR, "jti": jti})
        run = subprocess.run([SLUICE, "explain", "GET", "/who", "--config", str(server.file), "-H", f"Authorization: Bearer {token}"],
                             capture_output=True, text=True, timeout=60)
        assert says in run.stdout and run.returncode == (jti == "a"), run.stdout + run.stderr


def test_several_at_once_and_after_a_restart(sluice):
    server = sluice(CONFIG)
    assert revoke(server, "?jti=a&jti=b&sub=ada").status == 200
    server.stop()
    server = sluice(CONFIG)
    assert [ask(server, jti=jti, sub="x").status for jti in "abc"] == [401, 401, 200]
    assert ask(server, sub="ada", iat=1).status == 401


def test_a_revocation_outlives_the_leeway(sluice):
    claims = {"jti": "a", "exp": int(time.time()) + 1}
    server = sluice(CONFIG)
    assert ask(server, **claims).status == 200
    assert revoke(server, f"?jti=a&exp={claims['exp']}").status == 200
    wait_until(lambda: time.time() > claims["exp"] + 1)
    assert revoke(server, "?jti=b").status == 200, "it writes the file anew"
    server.stop()
    server = sluice(CONFIG)
    assert [ask(server, **{**claims, "jti": jti}).status for jti in "abc"] == [401, 401, 200]


def test_ids_that_are_numbers(sluice):
    server = sluice(CONFIG)
    assert revoke(server, "?jti=42&sub=77").status == 200
    assert [ask(server, **claims).status for claims in ({"jti": 42}, {"sub": 77}, {"jti": 43, "sub": 78})] == [401, 401, 200]


def test_a_reload_keeps_and_adds(sluice):
    server = sluice(CONFIG, server="cores = 2")

    def reload():
        with http1.Connection(server.admin_port) as admin:
            admin.send("POST /reload HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert admin.read().status == 200

    assert revoke(server, "?jti=a").status == 200
    server.file.write_text(server.file.read_text().replace('type = "jwt"', 'type = "jwt"\nleeway = "10s"') +
                           policy("other", "./revoked.jsonl") + ROUTE.format(path="other", policy="other") +
                           policy("apart", "apart.jsonl") + ROUTE.format(path="apart", policy="apart") +
                           policy("none", None) + ROUTE.format(path="none", policy="none"))
    reload()
    paths = ("/who", "/other", "/apart", "/none")
    assert [ask(server, path, jti="a").status for path in paths] == [401, 401, 200, 200]
    assert revoke(server, "?jti=b").status == 400, "which file?"
    assert revoke(server, "?jti=b&policy=other").status == 200
    assert [ask(server, path, jti="b").status for path in paths] == [401, 401, 200, 200]
    assert revoke(server, "?jti=c&policy=apart").status == 200
    assert [ask(server, path, jti="c").status for path in paths] == [200, 200, 401, 200]
    assert revoke(server, "?jti=c&policy=none").status == 404


@pytest.mark.parametrize("query, status, says", [
    ("", 400, "?jti=ID"), ("?exp=4000000000", 400, "?jti=ID"), ("?jti=", 400, "cannot be read"), ("?jti=%ff", 400, "cannot be read"),
    ("?jti=%4", 400, "cannot be read"), ("?jti=a&other=1", 400, "other"), ("?jti=a&exp=1&exp=2", 400, "exp"),
    ("?jti=a&exp=soon", 400, "Unix epoch"), ("?jti=a&exp=inf", 400, "Unix epoch"), ("?jti=a&before=1", 400, "before"),
    ("?jti=a&exp=5", 400, "past"), ("?jti=a&exp=1900000000000", 400, "too far away"),
    ("?sub=a&before=x", 400, "Unix epoch"), ("?jti=a&policy=nobody", 404, "No such policy")])
def test_orders_that_are_refused(sluice, tmp_path, query, status, says):
    server = sluice(CONFIG)
    answer = revoke(server, query)
    assert answer.status == status and says in answer.body.decode(), answer.body
    assert (tmp_path / "revoked.jsonl").read_text() == ""


def test_who_may_not_revoke(sluice):
    server = sluice(CONFIG)
    assert revoke(server, "?jti=a", "Origin: http://evil.example").status == 403
    assert server.admin("/jwt/revoke?jti=a")[0] == 405
    assert server.get("/jwt/revoke?jti=a", method="POST").status == 404
    assert ask(server, jti="a").status == 200
    assert sluice(policy(file=None) + ROUTE.format(path="who", policy="auth")).admin("/jwt/revoke?jti=a")[0] == 405


def test_a_file_that_cannot_be_read_refuses_the_start(tmp_path):
    (tmp_path / "revoked.jsonl").write_text('{"jti":"a"}\n{"jti":"b"\n')
    (tmp_path / "sluice.toml").write_text('[server]\nlisten = ["127.0.0.1:0"]\n' + CONFIG)
    for command in ("check", "serve"):
        run = subprocess.run([SLUICE, command, "sluice.toml"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert run.returncode == 3 and "revoked.jsonl: line 2 is not a revocation" in run.stderr, run.stderr
        assert "sluice.toml:6" in run.stderr, run.stderr


def test_only_one_process_has_the_file(sluice, tmp_path):
    text = '[server]\nlisten = ["127.0.0.1:0"]\n'

    def run(command, config):
        (tmp_path / "second.toml").write_text(text + config)
        return subprocess.run([SLUICE, command, "second.toml"], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    def reload():
        with http1.Connection(first.admin_port) as admin:
            admin.send("POST /reload HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return admin.read()

    first = sluice(CONFIG)
    for jti in "ab":  # the first revocation replaces the file
        second = run("serve", CONFIG)
        assert second.returncode == 1 and "revoked.jsonl: another process uses it" in second.stderr, second.stderr
        assert run("check", CONFIG).returncode == 0
        assert revoke(first, f"?jti={jti}").status == 200
        assert reload().status == 200
    other = sluice(policy("auth", "other.jsonl") + ROUTE.format(path="who", policy="auth"))
    before = first.file.read_text()
    first.file.write_text(before + policy("more", "other.jsonl") + ROUTE.format(path="more", policy="more"))
    refused = reload()
    assert refused.status == 422 and b"other.jsonl: another process uses it" in refused.body, refused.body
    other.stop()
    assert reload().status == 200, "the other process has ended"
    first.file.write_text(before)
    assert reload().status == 200
    assert [ask(first, jti=jti).status for jti in "abc"] == [401, 401, 200]


def test_a_file_that_somebody_else_changes_is_read_again(sluice, tmp_path):
    server, file = sluice(CONFIG), tmp_path / "revoked.jsonl"

    def reload():
        with http1.Connection(server.admin_port) as admin:
            admin.send("POST /reload HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return admin.read()

    def refused():
        return "".join(jti for jti in "abcd" if ask(server, jti=jti).status == 401)

    assert revoke(server, "?jti=a").status == 200
    with file.open("a") as added:
        added.write('{"jti":"b"}\n')
    assert revoke(server, "?jti=c").status == 200
    assert refused() == "abc"
    (tmp_path / "fresh").write_text('{"jti":"d"}\n')
    (tmp_path / "fresh").rename(file)  # as editors do
    assert reload().status == 200 and refused() == "d"
    file.write_text('{"jti":"d"}\n{"jti":\n')
    answer = reload()
    assert answer.status == 422 and b"revoked.jsonl: line 2 is not a revocation" in answer.body and refused() == "d"
    file.unlink()
    assert reload().status == 200 and refused() == "d"
    assert file.read_text() == '{"jti":"d"}\n'


def test_a_file_that_cannot_be_written_revokes_nothing(sluice, tmp_path):
    server = sluice(CONFIG)
    (tmp_path / "revoked.jsonl").unlink()
    (tmp_path / "revoked.jsonl").mkdir()
    answer = revoke(server, "?jti=a")
    assert answer.status == 500 and "Nothing is revoked" in answer.body.decode()
    assert ask(server, jti="a").status == 200
    (tmp_path / "revoked.jsonl").rmdir()
    assert revoke(server, "?jti=a").status == 200
    assert ask(server, jti="a").status == 401


def test_no_revocation_is_lost_through_fifty_kills(sluice):
    """The program is killed while it revokes: every token whose revocation was answered stays revoked."""
    revoked, asked = set(), 0
    rng = random.Random(7)
    for _ in range(50):
        server = sluice(CONFIG, server="cores = 1")
        with server.connect() as client:
            sample = rng.sample(sorted(revoked), min(len(revoked), 20)) + sorted(revoked)[-5:]
            assert {ask(server, client=client, jti=f"t{one}").status for one in sample} <= {401}
            assert ask(server, client=client, jti=f"t{asked}").status == 200
        enough, goal = threading.Event(), len(revoked) + rng.randrange(1, 12)

        def go_on():
            nonlocal asked
            with http1.Connection(server.admin_port) as admin:
                while True:
                    number, asked = asked, asked + 1
                    try:
                        admin.send(f"POST /jwt/revoke?jti=t{number} HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        answer = admin.read()
                    except (OSError, http1.Broken):
                        return
                    assert answer.status == 200
                    revoked.add(number)
                    if len(revoked) >= goal:
                        enough.set()

        thread = threading.Thread(target=go_on)
        thread.start()
        assert enough.wait(20)
        server.judged = True
        server.kill()
        thread.join()
    server = sluice(CONFIG)
    with server.connect() as client:
        assert {ask(server, client=client, jti=f"t{one}").status for one in revoked} == {401}
        assert ask(server, client=client, jti=f"t{asked}").status == 200
