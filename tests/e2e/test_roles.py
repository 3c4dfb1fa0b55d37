"""[database.NAME] role: PostgreSQL's grants and row-level security decide, for reads, writes and sets."""
import json
import threading

import pytest

from tokens import Secret, soon

SECRET = Secret()
CONFIG = '''
[policy.auth]
type = "jwt"
secret = "{secret}"
optional = {optional}
[database.main]
url = "{url}"
pool = 3
role = "claim.role"
{anonymous}
[[endpoint]]
path = "/notes"
use = ["auth"]
get = "SELECT owner, n FROM notes WHERE n > :least ORDER BY n"
params.least = {{ type = "int", default = 0 }}
[endpoint.post]
table = "notes"
columns.owner = {{ from = "claim.sub" }}
columns.n = {{}}
returning = "owner, n"
[[endpoint]]
path = "/notes/{{n:int}}"
use = ["auth"]
returns = "object"
get = "SELECT owner, n FROM notes WHERE n = :n"
delete = "DELETE FROM notes WHERE n = :n"
[[endpoint]]
path = "/mine"
use = ["auth"]
get = "SELECT n FROM notes"
[endpoint.put]
table = "notes"
existing = "SELECT n FROM notes"
columns.n = {{ key = true }}
columns.owner = {{ from = "claim.sub" }}
[[endpoint]]
path = "/who/{{any}}"
use = ["auth"]
returns = "object"
get = """SELECT current_user::text AS role, current_setting('request.method') AS method, :any AS any,
         current_setting('request.path') AS path, current_setting('request.jwt.claims') AS claims"""
[[endpoint]]
path = "/slow"
use = ["auth"]
timeout = "200ms"
get = "SELECT pg_sleep(30)::text"
[[endpoint]]
path = "/endless"
use = ["auth"]
get = "SELECT current_user::text AS role, generate_series(1, 1000000000) AS n"
'''
SCHEMA = '''
DROP TABLE IF EXISTS notes;
DO $$ DECLARE one text; BEGIN
  FOREACH one IN ARRAY ARRAY['member', 'guest', 'stranger', 'authenticator LOGIN NOINHERIT'] LOOP
    -- Other tests have made some of them.
    BEGIN EXECUTE 'CREATE ROLE ' || one; EXCEPTION WHEN duplicate_object THEN NULL; END;
  END LOOP;
END $$;
GRANT member, guest TO authenticator;
CREATE TABLE notes (n int PRIMARY KEY, owner text NOT NULL);
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
GRANT ALL ON notes TO member;
GRANT SELECT ON notes TO guest;
CREATE POLICY own ON notes TO member USING (owner = current_setting('request.jwt.claims')::json ->> 'sub');
CREATE POLICY anyone ON notes FOR SELECT TO guest USING (n <= 2);
INSERT INTO notes SELECT n, CASE WHEN n % 2 = 0 THEN 'ada' ELSE 'bob' END FROM generate_series(1, 9) n;
'''


class Notes:
    def __init__(self, server):
        self.server = server

    def call(self, method, target, token, body=None):
        with self.server.connect() as connection:
            data = b"" if body is None else json.dumps(body).encode()
            lines = [f"{method} {target} HTTP/1.1", "Host: test"]
            if token is not None:
                lines += [f"Authorization: Bearer {token}"]
            if body is not None:
                lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
            connection.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
            return connection.read()

    def numbers(self, token, target="/notes"):
        answer = self.call("GET", target, token)
        assert answer.status == 200, (answer.status, answer.body, self.server.log)
        return [row["n"] for row in json.loads(answer.body)]


def token(role=None, sub="ada", **more):
    return SECRET.token(soon(sub=sub, **({} if role is None else {"role": role}), **more))


@pytest.fixture
def notes(sluice, postgres):
    def start(anonymous="", optional="false"):
        postgres.psql(SCHEMA)
        url = f"postgres://authenticator@127.0.0.1:{postgres.port}/postgres"
        return Notes(sluice(CONFIG.format(url=url, secret=SECRET.secret, anonymous=anonymous, optional=optional)))
    return start


def test_row_level_security_decides(notes, postgres):
    served = notes()
    ada, bob = token("member"), token("member", "bob")
    for _ in range(12):
        assert served.numbers(ada) == [2, 4, 6, 8]
        assert served.numbers(bob) == [1, 3, 5, 7, 9]
    assert served.numbers(token("guest")) == [1, 2]
    assert served.call("GET", "/notes/1", ada).status == 404
    assert served.call("DELETE", "/notes/1", ada).status == 404
    assert served.call("DELETE", "/notes/2", token("guest")).status == 403
    assert served.call("DELETE", "/notes/2", ada).status == 204
    made = served.call("POST", "/notes", ada, {"n": 10})
    assert (made.status, json.loads(made.body)) == (201, [{"owner": "ada", "n": 10}])
    assert served.call("POST", "/notes", token("guest"), {"n": 11}).status == 403
    assert served.call("POST", "/notes", ada, {"n": 1}).status == 409

    # A set replaces the rows that the role sees, and no others.
    put = served.call("PUT", "/mine", ada, [{"n": 4}, {"n": 20}])
    assert put.status == 200, (put.body, served.server.log)
    assert json.loads(put.body) == {"inserted": 1, "updated": 0, "deleted": 3, "unchanged": 1}
    assert postgres.psql("SELECT string_agg(n || owner, ' ' ORDER BY n) FROM notes") == (
        b"1bob 3bob 4ada 5bob 7bob 9bob 20ada\n")
    assert served.call("PUT", "/mine", token("stranger"), [{"n": 4}]).status == 403


def test_what_statements_may_ask_of_the_request(notes):
    served = notes()
    answer = served.call("GET", "/who/a%2Fb%C3%A9", token("member", "Ad\"a\\\n€", teams=["x", {"y": 1.50}], none=None))
    who = json.loads(answer.body)
    assert (who["role"], who["method"], who["path"]) == ("member", "GET", "/who/a/bé")
    claims = json.loads(who["claims"])
    assert (claims["sub"], claims["teams"], claims["none"]) == ("Ad\"a\\\n€", ["x", {"y": 1.5}], None)
    assert set(claims) == {"sub", "exp", "role", "teams", "none"}


def test_a_role_that_may_not_be_taken_is_forbidden_and_injects_nothing(notes, postgres):
    served = notes()
    for role in ["stranger", "postgres", "none", "NONE", "", "nobody", "member; DROP TABLE notes", "member'; DROP TABLE notes; --",
                 "member\" ; RESET ROLE", "authenticator ", "x" * 2000, 7, ["member"], {"a": 1}, None, True, "member\x00"]:
        for method, target, body in [("GET", "/notes", None), ("GET", "/notes/2", None), ("POST", "/notes", {"n": 50}),
                                     ("DELETE", "/notes/2", None), ("PUT", "/mine", [])]:
            answer = served.call(method, target, SECRET.token(soon(role=role)), body)
            assert answer.status == 403, (role, method, answer.body, served.server.log)
            assert answer.media_type == "application/problem+json"
            assert b"role" not in answer.body or b"claim" in answer.body
    assert served.call("GET", "/notes", token()).status == 403
    assert postgres.psql("SELECT count(*) FROM notes") == b"9\n"
    assert served.numbers(token("member")) == [2, 4, 6, 8]


def test_no_role_leaks_between_pooled_connections(notes, postgres):
    """Clients with different roles, errors, timeouts and streams that are not read to the end, on three connections."""
    served = notes()
    wrong = []

    def work(sub, expected, seed):
        mine = token("member", sub)
        for i in range(25):
            step = (i * 7 + seed) % 5
            if step == 0 and served.call("GET", "/slow", mine).status not in (504, 503):
                wrong.append("slow")
            if step == 1 and served.call("POST", "/notes", mine, {"n": 1}).status not in (409, 503):
                wrong.append("post")
            if step == 2 and served.call("GET", "/notes", token("stranger")).status not in (403, 503):
                wrong.append("stranger")
            if step == 3:
                with served.server.connect() as connection:
                    connection.send(b"GET /endless HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer " + mine.encode() +
                                    b"\r\n\r\n")
                    if b"HTTP/1.1" not in connection.socket.recv(4096):
                        wrong.append("stream")
            answer = served.call("GET", "/notes", mine)
            if answer.status == 503:
                continue
            if answer.status != 200 or [row["n"] for row in json.loads(answer.body)] != expected:
                wrong.append((sub, answer.status, answer.body))

    threads = [threading.Thread(target=work, args=(*who, i)) for i, who in
               enumerate([("ada", [2, 4, 6, 8]), ("bob", [1, 3, 5, 7, 9]), ("eve", []), ("ada", [2, 4, 6, 8])])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, (wrong, served.server.log)
    assert postgres.psql("SELECT count(*) FROM notes") == b"9\n"


def test_what_is_set_for_the_session_ends_with_what_is_written(sluice, postgres):
    postgres.psql(SCHEMA)
    server = sluice(f'''
[database.main]
url = "{postgres.url()}"
pool = 1
role = "header.x-role"
[database.plain]
url = "{postgres.url()}"
pool = 1
[[endpoint]]
path = "/as"
get = "SELECT current_user::text AS role"
database = "main"
[[endpoint]]
path = "/user"
database = "plain"
returns = "object"
get = "SELECT coalesce(current_setting('app.user', true), '') AS name, current_setting('statement_timeout') AS timeout"
post = "SELECT set_config('app.user', :name, false) AS name, set_config('statement_timeout', '1h', false) AS timeout"
''', server="cores = 1")
    served = Notes(server)
    before = json.loads(server.get("/user").body)
    for name in ("ada", "bob"):
        assert json.loads(served.call("POST", "/user", None, {"name": name}).body)["name"] == name
        assert json.loads(server.get("/user").body) == {**before, "name": ""}
    assert json.loads(server.get("/as", "X-Role: member").body) == [{"role": "member"}]
    twice = server.get("/as", "X-Role: member", "x-role: guest")
    assert twice.status == 400 and "more than once" in json.loads(twice.body)["detail"]


LEAKS = """
DROP TABLE IF EXISTS leaky CASCADE;
CREATE TABLE leaky (n int PRIMARY KEY);
INSERT INTO leaky VALUES (1), (2), (3);
DROP ROLE IF EXISTS leaked;
CREATE ROLE leaked;
CREATE OR REPLACE FUNCTION leak() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('search_path', 'public, pg_catalog', false), set_config('TimeZone', 'Asia/Tokyo', false),
          set_config('app.who', 'ada', false), pg_advisory_lock(4711);
  EXECUTE 'LISTEN leaked';
  EXECUTE 'SET ROLE leaked';
  RETURN 1;
END $$;
CREATE OR REPLACE FUNCTION leak_table() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  CREATE TEMPORARY TABLE leaky (n int);
  RETURN leak();
END $$;
CREATE OR REPLACE FUNCTION leaked() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM leak(); RETURN NEW; END';
CREATE TRIGGER leaked BEFORE INSERT ON leaky FOR EACH ROW EXECUTE FUNCTION leaked();
GRANT ALL ON leaky TO leaked;
"""
LEAKS_CONFIG = """
[database.main]
url = "{url}"
pool = 1
[batch]
[[endpoint]]
path = "/state"
returns = "object"
get = '''SELECT current_user::text AS role, current_setting('search_path') AS path, current_setting('TimeZone') AS zone,
  coalesce(current_setting('app.who', true), '') AS who, (SELECT count(*) FROM leaky) > 1 AS rows,
  (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
  (SELECT count(*) FROM pg_listening_channels()) AS channels, pg_backend_pid() AS pid'''
post = "SELECT leak_table() AS n"
[[endpoint]]
path = "/one"
returns = "object"
get = "SELECT leak() AS n"
[[endpoint]]
path = "/many"
get = "SELECT leak(), n FROM generate_series(1, 20000) n"
[[endpoint]]
path = "/broken"
get = "SELECT leak(), 1 / (n - 3) FROM generate_series(1, 9) n"
[[endpoint]]
path = "/asked"
require = "exists(SELECT 1 WHERE leak() = 1)"
get = "SELECT 1 AS n"
[[endpoint]]
path = "/set"
get = "SELECT n FROM leaky"
[endpoint.put]
table = "leaky"
existing = "SELECT n FROM leaky"
columns.n = {{ key = true }}
"""


def test_what_functions_change_in_the_session_ends_with_their_statement(sluice, postgres):
    postgres.psql(LEAKS)
    served = Notes(sluice(LEAKS_CONFIG.format(url=postgres.url()), server="cores = 1"))
    server = served.server
    before = json.loads(server.get("/state").body)
    assert before["rows"] and before["locks"] == before["channels"] == 0
    batch = [{"method": "POST", "path": "/state", "body": {}}, {"method": "GET", "path": "/one"}]
    for number in range(4, 7):
        for method, path, body, status in [
                ("GET", "/one", None, 200), ("GET", "/many", None, 200), ("GET", "/broken", None, 500),
                ("GET", "/asked", None, 200), ("POST", "/state", {}, 200), ("POST", "/batch", batch, 200),
                ("PUT", "/set", [{"n": n} for n in range(1, number + 1)], 200)]:
            assert served.call(method, path, None, body).status == status, (method, path, server.log)
            assert json.loads(server.get("/state").body) == before, (method, path)
    # Many requests on one connection at a time.
    wrong = []

    def ask(path):
        for _ in range(30):
            answer = server.get(path)
            if answer.status != 200 or (path == "/state" and json.loads(answer.body) != before):
                wrong.append((path, answer.status, answer.body))
    threads = [threading.Thread(target=ask, args=[path]) for path in ["/one", "/state", "/asked", "/state"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, (wrong[:3], server.log)


def test_the_anonymous_role_is_for_whoever_has_none(notes):
    served = notes('anonymous_role = "guest"')
    assert served.numbers(token()) == [1, 2]
    assert served.numbers(token("member")) == [2, 4, 6, 8]
    assert served.call("GET", "/notes", token("none")).status == 403
    assert served.call("POST", "/notes", token(), {"n": 50}).status == 403
    assert served.call("GET", "/notes", None).status == 401
