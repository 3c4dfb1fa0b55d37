"""POST /batch: several calls in one transaction, on both databases."""
import json
import sqlite3
import threading

import pytest

from tokens import Secret, soon

CONFIG = '''
[database.main]
url = "{url}"
[batch]
calls = 20
answer_limit = "16KiB"
[[endpoint]]
path = "/films"
get = "SELECT id, slug, score FROM films ORDER BY id"
[endpoint.post]
table = "films"
columns.slug = {{ required = true }}
columns.score = {{}}
returning = "id, slug, score"
location = "/films/{{slug}}"
[[endpoint]]
path = "/films/{{slug}}"
returns = "object"
get = "SELECT id, slug, score FROM films WHERE slug = :slug"
patch = "UPDATE films SET score = :score WHERE slug = :slug"
delete = "DELETE FROM films WHERE slug = :slug"
[[endpoint]]
path = "/films/{{slug}}/tags"
get = "SELECT tag FROM tags WHERE film = :slug ORDER BY tag"
post = "INSERT INTO tags (film, tag) VALUES (:slug, :tag)"
[endpoint.put]
table = "tags"
existing = "SELECT tag FROM tags WHERE film = :slug"
columns.film = {{ key = true, from = "path.slug" }}
columns.tag = {{ key = true }}
[[endpoint]]
path = "/me"
require = "eq(header.X-User-Role, 'admin')"
get = "SELECT slug FROM films WHERE slug = :user"
params.user = {{ from = "header.X-User" }}
[[endpoint]]
path = "/many/{{n:int}}"
get = """WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < :n)
         SELECT n, 'some text that takes its room' AS text FROM c"""
'''
LEVELS = '''
[[endpoint]]
path = "/level/{n}"
get = "SELECT current_setting('transaction_isolation') || substr(:n, 2) AS level"
[endpoint.post]
sql = "SELECT current_setting('transaction_isolation') || substr(:n, 2) AS level"
isolation = "serializable"
[[endpoint]]
path = "/mode"
get = "SELECT current_setting('transaction_read_only') AS read_only"
'''
ODD = 'a "quoted"/é ${x'


class Films:
    def __init__(self, server):
        self.server = server

    def send(self, body, *fields, path="/batch"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", "Host: test", f"Content-Length: {len(data)}", *fields]
        if not any(field.lower().startswith("content-type") for field in fields):
            lines += ["Content-Type: application/json"]
        with self.server.connect() as connection:
            connection.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
            return connection.read()

    def batch(self, *calls):
        answer = self.send(list(calls))
        assert answer.status == 200, (answer.status, answer.body, self.server.log)
        assert answer.get("content-type") == "application/json"
        return json.loads(answer.body)

    def refused(self, status, *calls, raw=None):
        answer = self.send(list(calls) if raw is None else raw)
        assert answer.status == status, (answer.status, answer.body, self.server.log)
        assert answer.get("content-type") == "application/problem+json"
        return json.loads(answer.body)

    def films(self):
        return [(row["slug"], row["score"]) for row in json.loads(self.server.get("/films").body)]


@pytest.fixture(params=["sqlite", "postgres"])
def films(request, sluice, tmp_path):
    key = "integer PRIMARY KEY" if request.param == "sqlite" else "serial PRIMARY KEY"
    schema = (f"CREATE TABLE films (id {key}, slug text UNIQUE NOT NULL, score double precision);"
              "CREATE TABLE tags (film text NOT NULL, tag text NOT NULL, PRIMARY KEY (film, tag));")
    if request.param == "sqlite":
        path = tmp_path / "films.db"
        with sqlite3.connect(path) as database:
            database.executescript(schema)
        database.close()
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")
        postgres.psql("DROP TABLE IF EXISTS parts, films, tags CASCADE; " + schema)
        url = postgres.url()
    films = Films(sluice(CONFIG.format(url=url) + (LEVELS if request.param == "postgres" else ""),
                         server='target_limit = "1KiB"\nheader_limit = "2KiB"'))
    films.file = path if request.param == "sqlite" else None
    return films


def post(slug, **more):
    return {"method": "POST", "path": "/films", "body": {"slug": slug, **more}}


def test_later_calls_refer_to_earlier_ones(films):
    answers = films.batch(
        {**post(ODD.replace("${", "$${"), score=8.5), "id": "film"},
        {"method": "POST", "path": "/films/${film.0.slug}/tags", "body": {"tag": "id ${film.0.id}"}},
        {"method": "GET", "path": "/films/${film.0.slug}/tags"},
        {"method": "POST", "path": "/films", "body": [{"slug": "x-${2.0.tag}", "score": "${film.0.score}"}, {"slug": "y"}]},
        {"method": "GET", "path": "/films"},
        {"method": "GET", "path": "/films.csv", "headers": {"X-Other": "1"}})
    assert [each["status"] for each in answers] == [201, 201, 200, 201, 200, 200]
    assert answers[0]["body"] == [{"id": 1, "slug": ODD, "score": 8.5}]
    assert answers[0]["headers"]["location"] == "/films/a%20%22quoted%22%2F%C3%A9%20%24%7Bx"
    assert answers[2]["body"] == [{"tag": "id 1"}]
    assert [row["slug"] for row in answers[4]["body"]] == [ODD, "x-id 1", "y"]
    assert answers[5]["body"].splitlines()[0] == "id,slug,score"
    assert answers[5]["headers"]["content-type"].startswith("text/csv")
    assert films.films() == [(ODD, 8.5), ("x-id 1", 8.5), ("y", None)]
    assert films.batch() == []


def test_a_reference_stays_in_its_segment_of_the_path(films):
    for slug in ("..", ".", "../films", "x/..", "x/./y"):
        for path in ("/films/${0.0.slug}/tags", "/films/${0.0.slug}"):
            problem = films.refused(400, post(slug), {"method": "DELETE", "path": path})
            assert problem["pointer"] == "/1/path" and "segment" in problem["detail"], problem
    for slug, path in ((".", "/films/.${0.0.slug}/tags"), (".", "/films/%2e${0.0.slug}/tags"), ("..", "/films/x%2F${0.0.slug}")):
        assert films.refused(400, post(slug), {"method": "GET", "path": path})["pointer"] == "/1/path"
    # An empty segment is not dropped.
    assert films.refused(404, post("a"), {"method": "DELETE", "path": "/films//a"})["call"] == 1
    assert films.films() == []
    # A Location does not lead elsewhere, either.
    for slug, location in (("..", None), (".", None), ("a/../b", None), ("...", "/films/..."), ("%2e%2e", "/films/%252e%252e")):
        assert films.batch(post(slug))[0]["headers"].get("location") == location
    answers = films.batch(post("..a"), {"method": "POST", "path": "/films/${0.0.slug}/tags", "body": {"tag": "x"}},
                          {"method": "GET", "path": "/films/..a/tags"})
    assert answers[2]["body"] == [{"tag": "x"}]


def test_a_reference_does_not_choose_a_format(films):
    """A GET's path may end in an extension, which names a format, so a reference must not add one. A write has no extensions."""
    films.batch(post("a"))
    for slug, path in (("a.csv", "/films/${0.0.slug}"), ("a.json", "/films/${0.0.slug}?x=1"), ("csv", "/films/a%2e${0.0.slug}"),
                       ("a.nd", "/films/${0.0.slug}%6ason"), ("x/a.csj", "/films/${0.0.slug}")):
        problem = films.refused(400, post(slug), {"method": "GET", "path": path})
        assert problem["pointer"] == "/1/path" and "extension" in problem["detail"], problem
    assert [film[0] for film in films.films()] == ["a"]
    films.batch(post("a.csv"), {"method": "DELETE", "path": "/films/${0.0.slug}"})
    assert [film[0] for film in films.films()] == ["a"]
    answers = films.batch(post("b.csv"), {"method": "GET", "path": "/films/${0.0.slug}.json"},
                          {"method": "DELETE", "path": "/films/${0.0.slug}"}, post("c.csv"), {"method": "POST", "path": "/films/${3.0.slug}/tags", "body": {"tag": "x"}})
    assert answers[0]["headers"].get("location") is None and answers[3]["headers"].get("location") is None
    assert [film[0] for film in films.films()] == ["a", "c.csv"]


def test_references_make_no_body_longer_than_a_batch_may_be(films):
    long = "x" * 500
    problem = films.refused(400, post(long), {"method": "POST", "path": "/films", "body": {"slug": "${0.0.slug}" * 5000}})
    assert problem["pointer"] == "/1/body" and "longer than a batch may be" in problem["detail"], problem
    assert films.films() == []


def test_a_call_is_as_long_as_a_request_may_be(films):
    path = "/films/" + "x" * 1100
    assert films.server.get(path).status == 414
    assert films.refused(400, {"method": "GET", "path": path}) == {
        "type": "about:blank", "title": "Bad Request", "status": 400, "detail": "The batch cannot be read: it is too long.",
        "pointer": "/0/path"}
    problem = films.refused(400, post("a" * 600), {"method": "GET", "path": "/films/${0.0.slug}?${0.0.slug}"})
    assert problem["pointer"] == "/1/path" and "longer than a target may be" in problem["detail"], problem
    header = {"method": "GET", "path": "/films", "headers": {"X-Long": "x" * 2100}}
    assert films.refused(400, header)["pointer"] == "/0/headers"
    # Each field is short, but all together are too long; the first thirty are not.
    short = {f"X-{number}": "x" * 40 for number in range(48)}
    problem = films.refused(400, {**header, "headers": short})
    assert problem["pointer"] == "/0/headers" and "they are too long" in problem["detail"], problem
    assert films.batch({**header, "headers": dict(list(short.items())[:30])})[0]["status"] == 200
    assert films.films() == []


def test_all_or_nothing(films):
    films.batch(post("alien", score=1))
    problem = films.refused(409, post("brazil"), {"method": "PATCH", "path": "/films/alien", "body": {"score": 9}},
                            post("alien"), post("cube"))
    assert problem["call"] == 2
    assert problem["answer"]["status"] == problem["answer"]["body"]["status"] == 409
    assert films.films() == [("alien", 1)]
    assert films.refused(404, post("brazil"), {"method": "DELETE", "path": "/films/none"})["call"] == 1
    assert films.refused(404, post("brazil"), {"method": "GET", "path": "/elsewhere"})["call"] == 1
    assert films.refused(422, post("brazil"), {"method": "POST", "path": "/films", "body": {"score": 1}})["call"] == 1
    refused = films.refused(405, post("brazil"), {"method": "PUT", "path": "/films", "body": {}})
    assert refused["call"] == 1
    # The calls of a batch see the changes of its own transaction, and all of them are committed.
    answers = films.batch({"method": "DELETE", "path": "/films/alien"}, {"method": "GET", "path": "/films"}, post("alien"))
    assert answers[0]["status"] == 204 and "body" not in answers[0]
    assert answers[1]["body"] == []
    assert films.films() == [("alien", None)]


@pytest.mark.parametrize("films", ["postgres"], indirect=True)
def test_the_strictest_isolation_of_its_calls_is_everyones(films):
    get, strict = {"method": "GET", "path": "/level/1"}, {"method": "POST", "path": "/level/1"}
    other = {**strict, "path": "/level/${0.0.level}", "id": "other"}

    def levels(*calls):
        return [answer["body"][0]["level"] for answer in films.batch(*calls)]
    assert levels(get, get) == ["read committed"] * 2
    assert levels(get, strict, get) == ["serializable"] * 3
    assert [level[:12] for level in levels(get, other)] == ["serializable"] * 2


def test_what_a_batch_cannot_do(films):
    assert films.refused(422, {"method": "PUT", "path": "/films/x/tags", "body": [{"tag": "a"}]})["call"] == 0
    assert films.refused(404, {"method": "POST", "path": "/batch", "body": []})["call"] == 0
    problem = films.refused(422, post("brazil"), {"method": "GET", "path": "/many/5000"})
    assert "16384" in problem["detail"]
    assert films.films() == []
    assert len(films.batch({"method": "GET", "path": "/many/5"})[0]["body"]) == 5
    assert "20 that are taken" in films.refused(400, *[post(str(n)) for n in range(21)])["detail"]


def test_what_only_reads_takes_no_write_lock(films):
    films.batch(post("alien"), post("brazil"))
    reads = [{"method": "GET", "path": "/films/alien"}, {"method": "GET", "path": "/films"}, {"method": "GET", "path": "/many/3"}]
    alone = [json.loads(films.server.get(call["path"]).body) for call in reads]
    if films.file is None:
        answers = films.batch(*reads, {"method": "GET", "path": "/mode"})
        assert answers.pop()["body"] == [{"read_only": "on"}]
        assert [answer["body"] for answer in answers] == alone
        assert films.batch(post("cube"), {"method": "GET", "path": "/mode"})[1]["body"] == [{"read_only": "on"}]
        return
    # Another connection holds the write lock.
    other = sqlite3.connect(films.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM films")
    assert [answer["body"] for answer in films.batch(*reads)] == alone
    other.execute("COMMIT")
    other.close()
    assert films.batch(reads[1])[0]["body"] == []
    assert films.refused(404, reads[1], reads[0])["call"] == 1


def test_the_limit_of_the_answers_is_that_of_each_statement(films):
    # The whole answer would have 100 MB.
    for calls in ([], [post("alien")]):
        problem = films.refused(422, *calls, {"method": "GET", "path": "/many/2000000"})
        assert "16384" in problem["detail"]
    assert films.films() == []


def test_a_call_does_not_say_who_its_client_is(films):
    films.batch(post("ada"), post("root"))
    me = {"method": "GET", "path": "/me"}
    user, admin = "X-User: ada", "X-User-Role: admin"
    answer = films.send([me, {**me, "headers": {"X-Other": "1"}}], user, admin)
    assert [each["body"] for each in json.loads(answer.body)] == [[{"slug": "ada"}]] * 2
    for name, value in (("X-User", "root"), ("x-user-role", "admin")):
        for fields in ((user, "X-User-Role: guest"), (user, admin), ()):
            refused = films.send([me, {**me, "headers": {name: value}}], *fields)
            problem = json.loads(refused.body)
            assert (refused.status, problem["pointer"]) == (400, f"/1/headers/{name}"), problem
    # Even if the call's own endpoint does not use the field.
    assert films.refused(400, {**post("x"), "headers": {"X-USER": "root"}})["pointer"] == "/0/headers/X-USER"
    assert films.refused(403, me)["call"] == 0


def test_what_cannot_be_read(films):
    for raw, pointer, says in ((b"[{}", "", "no JSON"), (b'[{"method":"GET","path":"/../x"}]', "/0/path", "no path"),
                               (b'[{"method":"GET","path":"/films"},{"method":"GET","path":"/films/${0.0.slug}"}]',
                                "/1/path", 'no "0"')):
        problem = films.refused(400, raw=raw)
        assert problem["pointer"] == pointer
        assert says in problem["detail"]
    assert films.send(b"").status == 400
    assert films.films() == []


def test_type_and_method(films):
    assert films.send(b"[]", "Content-Type: text/plain").status == 415
    assert films.server.get("/batch").status == 405


def test_batches_at_once(films):
    """Each batch adds to the value that it has read, so the sum is right only if they do not interleave."""
    films.batch(post("sum", score=0))
    done = []

    def work(worker):
        for n in range(10):
            answer = films.send([
                {"method": "PATCH", "path": "/films/sum", "body": {"score": worker * 100 + n}},
                {"method": "GET", "path": "/films/sum", "id": "read"},
                {"method": "POST", "path": f"/films/{worker}/tags", "body": {"tag": "${read.score}"}}])
            done.append((answer.status, worker * 100 + n, json.loads(answer.body)))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 80
    for status, wrote, answers in done:
        assert status == 200, answers
        assert answers[1]["body"]["score"] == wrote
    for worker in range(8):
        tags = json.loads(films.server.get(f"/films/{worker}/tags").body)
        assert sorted(float(row["tag"]) for row in tags) == [worker * 100 + n for n in range(10)]


def test_each_call_runs_as_its_client(sluice, postgres):
    """The role and request.* are set for each call. A call without the right to do something ends the batch."""
    secret = Secret()
    postgres.psql('''DROP TABLE IF EXISTS batch_notes;
        DO $$ BEGIN CREATE ROLE batch_member; CREATE ROLE batch_login LOGIN NOINHERIT; GRANT batch_member TO batch_login;
        EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        CREATE TABLE batch_notes (n int PRIMARY KEY, owner text); GRANT SELECT, INSERT ON batch_notes TO batch_member;''')
    served = Films(sluice(f'''
[policy.auth]
type = "jwt"
secret = "{secret.secret}"
[database.main]
url = "postgres://batch_login@127.0.0.1:{postgres.port}/postgres"
pool = 2
role = "claim.role"
[batch]
[[endpoint]]
path = "/who/{{any}}"
use = ["auth"]
returns = "object"
get = """SELECT current_user::text AS role, current_setting('request.path') AS path,
         current_setting('request.method') AS method, :any AS any"""
[[endpoint]]
path = "/notes"
use = ["auth"]
get = "SELECT n FROM batch_notes"
post = "INSERT INTO batch_notes VALUES (:n, current_setting('request.jwt.claims')::json ->> 'sub') RETURNING owner"
params.n = "int"
delete = "DELETE FROM batch_notes"
'''))
    token = f'Authorization: Bearer {secret.token(soon(sub="ada", role="batch_member"))}'
    calls = [{"method": "GET", "path": "/who/a"}, {"method": "POST", "path": "/notes", "body": {"n": 7}},
             {"method": "GET", "path": "/who/b"}]
    answer = served.send(calls, token)
    assert answer.status == 200, answer.body
    first, second, third = [each["body"] for each in json.loads(answer.body)]
    assert first == {"role": "batch_member", "path": "/who/a", "method": "GET", "any": "a"}
    assert second in ({"owner": "ada"}, [{"owner": "ada"}])
    assert third["path"] == "/who/b"
    refused = served.send(calls)
    assert (refused.status, json.loads(refused.body)["call"]) == (401, 0)
    assert refused.get("www-authenticate").startswith("Bearer")
    forbidden = served.send([{"method": "POST", "path": "/notes", "body": {"n": 8}}, {"method": "DELETE", "path": "/notes"}], token)
    assert (forbidden.status, json.loads(forbidden.body)["call"]) == (403, 1)
    stranger = f'Authorization: Bearer {secret.token(soon(sub="bob", role="postgres"))}'
    assert served.send(calls, stranger).status == 403
    assert postgres.psql("SELECT n FROM batch_notes").decode().split() == ["7"]


def test_what_a_call_sets_ends_with_it(sluice, postgres):
    """SET LOCAL lasts until the end of the transaction, but must not reach the batch's later calls."""
    postgres.psql('''DO $$ BEGIN CREATE ROLE batch_boss; CREATE ROLE batch_setter; CREATE ROLE batch_sets LOGIN NOINHERIT;
        GRANT batch_boss, batch_setter TO batch_sets; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        CREATE OR REPLACE FUNCTION batch_set(name text, value text) RETURNS text LANGUAGE sql
        AS $$ SELECT set_config(name, value, true) $$;''')
    served = Films(sluice(f'''
[database.main]
url = "postgres://batch_sets@127.0.0.1:{postgres.port}/postgres"
role = "env.BATCH_ROLE"
settings."app.user" = "header.x-user"
[batch]
[[endpoint]]
path = "/set"
post = "SELECT batch_set(:name, :value) AS was"
[[endpoint]]
path = "/state"
returns = "object"
get = """SELECT current_user::text AS user, current_setting('app.user') AS app_user, current_setting('app.own', true) AS own,
         current_setting('search_path') AS path"""
''', env={"BATCH_ROLE": "batch_setter"}))
    state = {"method": "GET", "path": "/state"}
    answer = served.send([state, *({"method": "POST", "path": "/set", "body": {"name": name, "value": value}} for name, value in
                                   (("role", "batch_boss"), ("app.user", "root"), ("app.own", "x"), ("search_path", "pg_temp"))), state],
                         "X-User: ann")
    assert answer.status == 200, answer.body
    first, *_, last = [each["body"] for each in json.loads(answer.body)]
    assert first["user"] == "batch_setter" and first["app_user"] == "ann"
    assert last == {**first, "own": ""}, "a name that has been set once is known, and empty"


def test_a_get_that_writes_is_refused_as_it_is_alone(sluice, postgres):
    """The batch's other calls do not change that; the role and the settings of each call hold."""
    postgres.psql('''DO $$ BEGIN CREATE ROLE batch_writer; CREATE ROLE batch_writes LOGIN NOINHERIT; GRANT batch_writer TO batch_writes;
        EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        DROP TABLE IF EXISTS batch_hits; CREATE TABLE batch_hits (n int); GRANT SELECT, INSERT ON batch_hits TO batch_writer;
        CREATE OR REPLACE FUNCTION batch_hit(n int) RETURNS int LANGUAGE sql AS $$ INSERT INTO batch_hits VALUES (n) RETURNING n $$;
        CREATE OR REPLACE FUNCTION batch_raises() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;''')
    served = Films(sluice(f'''
[database.main]
url = "postgres://batch_writes@127.0.0.1:{postgres.port}/postgres"
role = "env.BATCH_ROLE"
settings."app.user" = "header.x-user"
[batch]
[[endpoint]]
path = "/hit/{{n:int}}"
get = "SELECT batch_hit(:n)"
post = "SELECT batch_hit(:n)"
[[endpoint]]
path = "/raises"
get = "SELECT batch_raises()"
[[endpoint]]
path = "/hits"
get = "SELECT n, current_user::text AS role, current_setting('app.user') AS app_user FROM batch_hits ORDER BY n"
''', env={"BATCH_ROLE": "batch_writer"}))
    writes, hits = ({"method": "POST", "path": "/hit/1"}, {"method": "GET", "path": "/hits"})
    get = {"method": "GET", "path": "/hit/7"}
    raises = {"method": "GET", "path": "/raises"}
    alone = {call["path"]: served.server.get(call["path"]) for call in (get, raises)}
    assert [answer.status for answer in alone.values()] == [500, 400]
    for calls in ([get], [get, writes], [writes, get], [writes, hits, get, writes], [hits, get, writes],
                  [writes, raises, writes]):
        refused = served.send(calls, "X-User: ann")
        problem = json.loads(refused.body)
        number = next(n for n, call in enumerate(calls) if call not in (writes, hits))
        expected = alone[calls[number]["path"]]
        assert (refused.status, problem["call"]) == (expected.status, number)
        assert problem["answer"]["body"] == json.loads(expected.body)
    assert served.server.log.count("25006") == 6
    answer = served.send([hits, writes, hits, {**writes, "path": "/hit/2"}, hits], "X-User: ann")
    assert answer.status == 200, answer.body
    rows = [{"n": n, "role": "batch_writer", "app_user": "ann"} for n in (1, 2)]
    assert [each["body"] for each in json.loads(answer.body)][::2] == [[], rows[:1], rows]


def test_a_call_does_not_choose_its_role(sluice, postgres):
    postgres.psql("""DROP TABLE IF EXISTS batch_own;
        DO $$ BEGIN CREATE ROLE batch_a; CREATE ROLE batch_b; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        CREATE TABLE batch_own (owner text); INSERT INTO batch_own VALUES ('batch_a'), ('batch_b');
        ALTER TABLE batch_own ENABLE ROW LEVEL SECURITY; GRANT SELECT ON batch_own TO batch_a, batch_b;
        CREATE POLICY own ON batch_own USING (owner = current_user);""")
    served = Films(sluice(f'''
[database.main]
url = "{postgres.url()}"
role = "header.X-Role"
[batch]
[[endpoint]]
path = "/own"
get = "SELECT owner FROM batch_own"
'''))
    own = {"method": "GET", "path": "/own"}
    answer = served.send([own, own], "X-Role: batch_a")
    assert [each["body"] for each in json.loads(answer.body)] == [[{"owner": "batch_a"}]] * 2
    for role in ("batch_b", "postgres"):
        refused = served.send([own, {**own, "headers": {"x-role": role}}], "X-Role: batch_a")
        assert (refused.status, json.loads(refused.body)["pointer"]) == (400, "/1/headers/x-role")


@pytest.mark.parametrize("credential, name", [("token", "X-Token"), ("key", "X-KEY")])
@pytest.mark.parametrize("place", ["batch", "route", "method"])
def test_a_call_sets_no_field_that_a_policy_reads(sluice, small_sqlite, place, credential, name):
    uses = {"batch": "[batch]\nuse = [{}]\n", "route": "use = [{}]\n", "method": "post.use = [{}]\n"}
    server = sluice(f"""
[database.main]
url = "sqlite:{small_sqlite}"
{uses["batch"].format(f'"rate", "busy", "{credential}"') if place == "batch" else "[batch]"}
[[endpoint]]
path = "/one"
get = "SELECT 1 AS one"
post.sql = "SELECT 1 AS one"
{uses[place].format(f'"rate", "busy", "{credential}"') if place != "batch" else ""}
[policy.rate]
type = "rate-limit"
rate = "9/h"
per = ["header.X-Tenant", "client"]
[policy.busy]
type = "concurrency"
requests = 1
per = "header.X-Team"
[policy.token]
type = "jwt"
secret = "{Secret().secret}"
from = ["header.X-Token", "cookie.t"]
pass = true
optional = true
[policy.key]
type = "api-key"
header = "X-Key"
keys.ada = "the-key-of-ada-012345"
pass = true
optional = true
""", server="cores = 1")  # on several, the one request of "busy" may be told of later than the client has its answer
    films = Films(server)
    for field in ("X-Tenant", "x-team", name):
        call = {"method": "POST", "path": "/one", "headers": {"X-Other": "1", field: "z"}}
        assert films.refused(400, call)["pointer"] == f"/0/headers/{field}"
