"""Methods that write, on both databases: statements of the configuration, rows from JSON bodies, one transaction each."""
import json
import subprocess
import threading

import pytest

from conftest import SLUICE, database_with, queried_database
from test_reload_databases import run_sqlite

CONFIG = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/films"
get = "SELECT id, slug, score FROM films ORDER BY id"
[endpoint.post]
sql = "INSERT INTO films (slug, score) VALUES (:slug, :score) RETURNING id, slug, score"
location = "/films/{{slug}}"
[[endpoint]]
path = "/films/{{slug}}"
returns = "object"
get = "SELECT id, slug, score FROM films WHERE slug = :slug"
put = "UPDATE films SET score = :rating WHERE slug = :slug RETURNING slug, score"
patch = "UPDATE films SET score = :rating WHERE slug = :slug"
delete = "DELETE FROM films WHERE slug = :slug"
params.rating = {{ from = "body.rating.value", type = "real", required = true }}
[[endpoint]]
path = "/all"
returns = "object"
patch = "UPDATE films SET score = :score RETURNING slug"
delete = "DELETE FROM films RETURNING slug"
[[endpoint]]
path = "/moves"
[endpoint.post]
before = ["UPDATE films SET score = score - :amount WHERE slug = :from_slug",
          "UPDATE films SET score = score + :amount WHERE slug = :to_slug"]
sql = "SELECT slug, score FROM films WHERE slug IN (:from_slug, :to_slug) ORDER BY slug"
isolation = "serializable"
[[endpoint]]
path = "/slow"
timeout = "300ms"
{slow}
[[endpoint]]
path = "/who"
post = "INSERT INTO films (slug, score) VALUES (:agent, :session) RETURNING slug, score"
params.agent = {{ from = "header.x-agent", trim = true, required = true }}
params.session = {{ from = "cookie.session", type = "real", default = 1.5 }}
[[endpoint]]
path = "/scores"
[endpoint.patch]
table = "films"
columns.slug = {{ key = true }}
columns.score = {{}}
[endpoint.delete]
table = "films"
columns.slug = {{ key = true, from = "query.slug" }}
[[endpoint]]
path = "/bodies"
[endpoint.delete]
table = "films"
columns.slug = {{ key = true }}
[[endpoint]]
path = "/parts/{{film}}"
get = "SELECT film FROM parts WHERE film = :film"
patch = "UPDATE parts SET film = :other WHERE film = :film RETURNING film"
delete = "DELETE FROM parts WHERE film = :film"
[[endpoint]]
path = "/set"
[endpoint.put]
table = "films"
existing = "SELECT slug FROM films"
columns.slug = {{ key = true }}
[[endpoint]]
path = "/board"
params.holds = {{ from = "query.holds" }}
[endpoint.put]
before = ["DELETE FROM films"]
sql = "INSERT INTO films (slug, score) VALUES (:slug, :score) RETURNING slug"
require = {{ that = "exists(SELECT 1 FROM films WHERE slug = :holds)", status = 409 }}
[endpoint.post]
before = ["UPDATE films SET score = score + 1"]
sql = "INSERT INTO films (slug) VALUES (:slug)"
[endpoint.patch]
before = ["UPDATE films SET score = score + 1"]
sql = "UPDATE films SET score = :score WHERE slug = :slug"
[[endpoint]]
path = "/named/{{slug}}"
[endpoint.put]
table = "films"
columns.slug = {{ key = true, from = "path.slug" }}
columns.score = {{}}
[endpoint.patch]
table = "films"
columns.slug = {{ key = true, from = "path.slug" }}
columns.score = {{}}
[[endpoint]]
path = "/counted/{{slug}}"
returns = "object"
[endpoint.put]
before = ["UPDATE films SET score = score + 1"]
sql = "UPDATE films SET score = :score WHERE slug = :slug"
[endpoint.patch]
before = ["UPDATE films SET score = score + 1"]
sql = "UPDATE films SET score = :score WHERE slug = :slug RETURNING slug"
[endpoint.delete]
before = ["UPDATE films SET score = score + 1"]
table = "films"
columns.slug = {{ key = true, from = "path.slug" }}
[batch]
[[endpoint]]
path = "/told/header"
[endpoint.post]
table = "films"
columns.slug = {{ from = "header.x-slug" }}
columns.score = {{}}
[[endpoint]]
path = "/told/query"
post = "INSERT INTO films (slug, score) VALUES (:slug, :score)"
params.slug = {{ from = "query.slug" }}
[[endpoint]]
path = "/told/path/{{slug}}"
get = "SELECT slug FROM films WHERE slug = :other"
params.other.from = "path.slug"
[[endpoint]]
path = "/whole"
post = "INSERT INTO films (slug) VALUES (:row)"
params.row.from = "body"
[[endpoint]]
path = "/told/cookie"
[endpoint.put]
table = "films"
existing = "SELECT id FROM films"
columns.id = {{ key = true }}
columns.slug = {{ from = "cookie.slug" }}
[[endpoint]]
path = "/parts"
post = "INSERT INTO parts (film) VALUES (:film) RETURNING film"
'''
SLOW = {
    "sqlite": 'post = "INSERT INTO films (slug) WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) '
              'SELECT n FROM c"',
    "postgres": 'post = "INSERT INTO films (slug) SELECT pg_sleep(30)::text"',
}
JSON = "Content-Type: application/json"


class Films:
    def __init__(self, server, kind, query):
        self.server, self.kind, self.query = server, kind, query

    def call(self, method, target, body=None, *fields):
        with self.server.connect() as connection:
            return self.call_on(connection, method, target, body, *fields)

    @staticmethod
    def call_on(connection, method, target, body=None, *fields):
        data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        lines = [f"{method} {target} HTTP/1.1", "Host: test", *fields]
        if body is not None:
            lines += [f"Content-Length: {len(data)}"]
            if not any(field.lower().startswith("content-type") for field in fields):
                lines += [JSON]
        connection.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        return connection.read()

    def problem(self, status, method, target, body=None, *fields):
        answer = self.call(method, target, body, *fields)
        assert answer.status == status, (answer.status, answer.body, self.server.log)
        assert answer.get("content-type") == "application/problem+json"
        found = json.loads(answer.body)
        assert found["status"] == status
        return found

    def rows(self):
        return [(row["slug"], row["score"]) for row in json.loads(self.call("GET", "/films").body)]


@pytest.fixture(params=["sqlite", "postgres"])
def films(request, sluice, tmp_path):
    key = "integer PRIMARY KEY" if request.param == "sqlite" else "serial PRIMARY KEY"
    url, query = queried_database(request, tmp_path, [
        "DROP TABLE IF EXISTS parts", "DROP TABLE IF EXISTS films",
        f"CREATE TABLE films (id {key}, slug text UNIQUE NOT NULL, score double precision CHECK (score <= 10))",
        "CREATE TABLE parts (film int REFERENCES films (id))"])
    return Films(sluice(CONFIG.format(url=url, slow=SLOW[request.param])), request.param, query)


def test_create_change_and_delete(films):
    made = films.call("POST", "/films", {"slug": "am ende/ß", "score": 8.5})
    assert made.status == 201
    assert made.get("location") == "/films/am%20ende%2F%C3%9F"
    assert json.loads(made.body) == [{"id": 1, "slug": "am ende/ß", "score": 8.5}]
    assert json.loads(films.call("GET", made.get("location")).body)["id"] == 1
    films.call("POST", "/films", {"slug": "alien"})
    assert films.rows() == [("am ende/ß", 8.5), ("alien", None)]

    changed = films.call("PUT", "/films/alien", {"rating": {"value": 9.25}})
    assert (changed.status, json.loads(changed.body)) == (200, {"slug": "alien", "score": 9.25})
    assert films.call("PATCH", "/films/alien", {"rating": {"value": "1.5"}}).status == 204
    assert films.rows()[1] == ("alien", 1.5)
    films.problem(404, "PATCH", "/films/none", {"rating": {"value": 1}})
    films.problem(404, "PUT", "/films/none", {"rating": {"value": 1}})

    assert films.call("DELETE", "/films/alien").status == 204
    films.problem(404, "DELETE", "/films/alien")
    assert len(films.rows()) == 1


@pytest.mark.parametrize("slug", ["report.csv", "report%2Ecsv"])
def test_an_extension_is_part_of_the_name_of_what_is_written(films, slug):
    """Only a GET's extension is a format: for a write, `report` and `report.csv` are two rows."""
    films.call("POST", "/films", {"slug": "report", "score": 1.5})
    for method in ("PUT", "PATCH"):
        films.problem(404, method, f"/films/{slug}", {"rating": {"value": 7}})
    films.problem(404, "DELETE", f"/films/{slug}")
    films.problem(404, "POST", "/films.csv", {"slug": "other"})
    assert films.rows() == [("report", 1.5)]
    films.call("POST", "/films", {"slug": "report.csv", "score": 2})
    assert json.loads(films.call("PUT", f"/films/{slug}", {"rating": {"value": 3}}).body) == {"slug": "report.csv", "score": 3.0}
    answer = films.call("PUT", f"/films/{slug}", {"rating": {"value": 4.5}}, "Accept: text/csv")
    assert answer.body.splitlines() == [b"slug,score", b"report.csv,4.5"], answer.body
    assert films.call("DELETE", f"/films/{slug}").status == 204
    assert films.rows() == [("report", 1.5)]
    assert films.call("GET", f"/films/{slug}").body.splitlines()[1].endswith(b",report,1.5")


def test_several_rows_are_one_transaction(films):
    made = films.call("POST", "/films", [{"slug": "a", "score": 1}, {"slug": "b"}])
    assert made.status == 201 and made.get("location") is None
    assert [row["slug"] for row in json.loads(made.body)] == ["a", "b"]
    films.problem(409, "POST", "/films", [{"slug": "c"}, {"slug": "a"}])
    films.problem(422, "POST", "/films", [{"slug": "c"}, {"slug": "d", "score": 11}])
    assert films.rows() == [("a", 1), ("b", None)]
    made = films.call("POST", "/films", '{"slug":"x"}\n{"slug":"y"}\n', "Content-Type: application/x-ndjson")
    assert (made.status, len(json.loads(made.body))) == (201, 2)
    assert films.call("POST", "/films", "[]").status == 200
    assert len(films.rows()) == 4


EMPTY = [("[]", JSON), ("slug,score\n", "Content-Type: text/csv"), ('"slug","score"\n', "Content-Type: application/csj"),
         ("\n", "Content-Type: application/x-ndjson")]


@pytest.mark.parametrize("kind", ["", "rows = 3\n"])
def test_a_body_has_so_many_rows(sluice, tmp_path, kind):
    """Each row runs a statement, and the SQLite writer is held meanwhile."""
    run_sqlite(tmp_path / "main.db", "CREATE TABLE t (n INTEGER)")
    server = sluice(f'''
[database.main]
url = "sqlite:main.db"
[[endpoint]]
path = "/t"
get = "SELECT count(*) AS count FROM t"
[endpoint.post]
sql = "INSERT INTO t (n) VALUES (:n)"
{kind}''')
    most = 3 if kind else 10_000
    with server.connect() as client:
        def post(count):
            return client.call("POST", "/t", json.dumps([{"n": 1}] * count).encode(), "Content-Type: application/json")
        refused = post(most + 1)
        assert refused.status == 413 and json.loads(refused.body)["detail"] == f"The body has more than {most} rows."
        assert client.get("/t").body == b'[{"count":0}]\n'
        assert post(most).status in (200, 201, 204)
        assert client.get("/t").body == b'[{"count":%d}]\n' % most


@pytest.mark.parametrize("body, content_type", EMPTY)
def test_a_list_without_rows_runs_all_but_its_rows(films, body, content_type):
    def fill():
        films.query("DELETE FROM films")
        films.call("POST", "/films", [{"slug": "a", "score": 1}, {"slug": "b", "score": 2}])

    fill()
    films.problem(409, "PUT", "/board?holds=none", body, content_type)
    assert films.rows() == [("a", 1), ("b", 2)]
    for method in ("POST", "PATCH"):
        assert films.call(method, "/board", body.replace(",score", "").replace(',"score"', "") if method == "POST" else body,
                          content_type).status == 204
    assert films.rows() == [("a", 3), ("b", 4)]
    done = films.call("PUT", "/board?holds=a", body, content_type)
    assert (done.status, json.loads(done.body), films.rows()) == (200, [], [])

    fill()
    sent = body if content_type != JSON else json.loads(body)
    headers = {} if content_type == JSON else {"Content-Type": content_type.split(": ")[1]}
    call = {"method": "PUT", "path": "/board?holds=none", "headers": headers, "body": sent}
    films.problem(409, "POST", "/batch", [call])
    assert films.rows() == [("a", 1), ("b", 2)]
    done = films.call("POST", "/batch", [{**call, "path": "/board?holds=a"}])
    assert (done.status, json.loads(done.body)[0]["status"], films.rows()) == (200, 200, [])


def test_what_finds_no_row_leaves_nothing_of_what_ran_before(films):
    films.query("INSERT INTO films (slug, score) VALUES ('a', 1)")
    for method, body in (("PUT", {"score": 9}), ("PATCH", {"score": 9}), ("DELETE", None)):
        films.problem(404, method, "/counted/none", body)
        assert films.rows() == [("a", 1)], method
    assert films.call("PUT", "/counted/a", {"score": 5}).status == 204
    assert films.call("PATCH", "/counted/a", {"score": 6}).status == 200
    assert films.rows() == [("a", 6)]
    assert films.call("DELETE", "/counted/a").status == 204


def test_a_path_that_names_one_row_takes_one(films):
    films.call("POST", "/films", {"slug": "a", "score": 1})
    two = [{"score": 2}, {"score": 3}]
    csv, lines = "score\n2\n3\n", '{"score":2}\n{"score":3}\n'
    for method in ("PUT", "PATCH"):
        for body, *content_type in ((two,), ([],), (csv, "Content-Type: text/csv"), ("score\n", "Content-Type: text/csv"),
                                    (lines, "Content-Type: application/x-ndjson")):
            found = films.problem(400, method, "/named/a", body, *content_type)
            assert "exactly one row" in found["detail"]
        films.problem(400, method, "/films/a", [{"rating": {"value": 2}}, {"rating": {"value": 3}}])
        call = {"method": method, "path": "/named/a", "body": two}
        assert films.problem(400, "POST", "/batch", [call])["answer"]["status"] == 400
    assert films.rows() == [("a", 1)]
    assert films.call("PUT", "/named/a", "score\n5\n", "Content-Type: text/csv").status == 204
    assert films.rows() == [("a", 5)]
    assert films.call("PATCH", "/named/a", [{"score": 6}]).status == 204
    assert films.rows() == [("a", 6)]


def test_statements_before_it_take_values_of_one_row(films):
    films.call("POST", "/films", [{"slug": "a", "score": 5}, {"slug": "b", "score": 5}])
    move = {"from_slug": "a", "to_slug": "b", "amount": 2}
    for body in ([], [move, move]):
        assert "exactly one row" in films.problem(400, "POST", "/moves", body)["detail"]
    assert films.rows() == [("a", 5), ("b", 5)]
    assert films.call("POST", "/moves", [move]).status == 200
    assert films.rows() == [("a", 3), ("b", 7)]


def test_rows_that_cannot_be_taken_are_listed_and_nothing_is_written(films):
    found = films.problem(422, "POST", "/films", '[{"slug":"a"},\n{"slug":"b","scor":1},\n\n {"slug":[1]},{"slug":7}]')
    assert [(each["line"], each["row"], each["pointer"]) for each in found["errors"]] == [(2, 1, "/1/scor")]
    many = [{"slug": str(n), "wrong": 1} for n in range(150)]
    assert len(films.problem(422, "POST", "/films", many)["errors"]) == 100
    found = films.problem(422, "PATCH", "/films/a", {"rating": {"value": "high"}})
    assert found["errors"] == [{"line": 1, "row": 0, "pointer": "/rating/value", "detail": "must be a number"}]
    found = films.problem(422, "PATCH", "/films/a", {"rating": {}})
    assert found["errors"][0]["detail"] == "is missing"
    films.problem(422, "PATCH", "/films/a", {"rating": {"value": None}})
    assert films.rows() == []


def test_bodies_that_cannot_be_read(films):
    assert films.problem(400, "POST", "/films", '[{"slug":"a"},')["errors"][0]["row"] == 1
    films.problem(400, "POST", "/films", '{"slug":"a"} x')
    films.problem(400, "POST", "/films", "")
    films.problem(400, "POST", "/films")
    assert "application/json" in films.problem(415, "POST", "/films", "slug=a", "Content-Type: text/html")["detail"]
    films.problem(415, "POST", "/films", "{}", "Content-Type: application/json; charset=latin1")
    # `curl -d` without a Content-Type of its own sends this one.
    for method, path, body in (("POST", "/films", '{"slug":"a"}'), ("POST", "/films", '[{"slug":"a"},{"slug":"b"}]'),
                               ("PATCH", "/films/a", '{"score":1}'), ("PATCH", "/films/a", '{}')):
        found = films.problem(400, method, path, body, "Content-Type: application/x-www-form-urlencoded")
        assert "application/x-www-form-urlencoded" in found["errors"][0]["detail"]
        assert "send Content-Type: application/json" in found["errors"][0]["detail"]
    assert films.call("PUT", "/films", {}).status == 405
    assert films.call("OPTIONS", "/films/a").get("allow") == "GET, HEAD, PUT, DELETE, PATCH, OPTIONS"
    assert films.rows() == []


def test_more_rows_than_an_object_are_not_written(films):
    films.call("POST", "/films", [{"slug": "a", "score": 1}, {"slug": "b", "score": 1}])
    films.problem(500, "PATCH", "/all", {"score": 5})
    films.problem(500, "DELETE", "/all")
    assert films.rows() == [("a", 1), ("b", 1)]


def test_what_the_database_refuses(films):
    films.call("POST", "/films", {"slug": "a"})
    assert "key" in films.problem(409, "POST", "/films", {"slug": "a"})["detail"]
    films.problem(422, "POST", "/films", {"slug": None})
    films.problem(422, "POST", "/films", {"score": 1})
    films.problem(422, "POST", "/films", {"slug": "b", "score": 11})
    films.query("INSERT INTO parts VALUES (1)")
    assert "refer" in films.problem(409, "DELETE", "/films/a")["detail"]
    for body in ({"slug": "x'; DROP TABLE films; --"}, {"slug": ":slug $1 ?1"}):
        assert json.loads(films.call("POST", "/films", body).body)[0]["slug"] == body["slug"]
    if films.kind == "postgres":
        films.problem(422, "POST", "/films", {"slug": "c", "score": "high"})


def test_statements_of_one_request_are_one_transaction(films):
    films.call("POST", "/films", [{"slug": "a", "score": 5}, {"slug": "b", "score": 5}])
    moved = films.call("POST", "/moves", {"from_slug": "a", "to_slug": "b", "amount": 2})
    assert moved.status == 200, films.server.log
    assert json.loads(moved.body) == [{"slug": "a", "score": 3}, {"slug": "b", "score": 7}]
    films.problem(422, "POST", "/moves", {"from_slug": "a", "to_slug": "b", "amount": 4})  # b would become 11
    assert films.rows() == [("a", 3), ("b", 7)]


def test_concurrent_moves_lose_nothing(films):
    films.call("POST", "/films", [{"slug": "a", "score": 0}, {"slug": "b", "score": 0}])
    statuses = []

    def work():
        with films.server.connect() as connection:
            for _ in range(25):
                body = {"from_slug": "a", "to_slug": "b", "amount": 0.01}
                statuses.append(films.call_on(connection, "POST", "/moves", body).status)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = statuses.count(200)
    assert set(statuses) <= {200, 409} and done >= 25, statuses
    if films.kind == "sqlite":
        assert done == 150
    scores = dict(films.rows())
    assert scores["a"] == pytest.approx(-0.01 * done) and scores["b"] == pytest.approx(0.01 * done)


def test_a_slow_statement_is_cancelled(films):
    films.problem(504, "POST", "/slow")
    assert films.call("POST", "/films", {"slug": "after"}).status == 201
    assert films.rows() == [("after", None)]


def test_headers_and_cookies(films):
    made = films.call("POST", "/who", None, "X-Agent:  smith ", 'Cookie: a=b; session="2.5"; sessions=3')
    assert json.loads(made.body) == [{"slug": "smith", "score": 2.5}]
    assert json.loads(films.call("POST", "/who", None, "x-agent: jones").body)[0]["score"] == 1.5
    assert "x-agent" in films.problem(400, "POST", "/who")["detail"]
    films.problem(400, "POST", "/who", None, "X-Agent: neo", "Cookie: session=red")
    twice = films.problem(400, "POST", "/who", None, "X-Agent: neo", "Accept: */*", "x-agent: smith")
    assert '"x-agent" comes more than once' in twice["detail"]
    for cookies in (["Cookie: session=1; a=b; session=2"], ["Cookie: session=1", "Cookie: session=1"]):
        twice = films.problem(400, "POST", "/who", None, "X-Agent: neo", *cookies)
        assert twice["detail"] == 'The cookie "session" comes more than once.'


def test_no_row_is_meant_without_its_key(films):
    films.call("POST", "/films", {"slug": "a", "score": 1})
    assert "slug" in films.problem(400, "DELETE", "/scores")["detail"]
    assert films.problem(422, "PATCH", "/scores", {"score": 2})["errors"][0]["detail"] == "is missing"
    assert films.rows() == [("a", 1)]
    assert films.call("PATCH", "/scores", {"slug": "a", "score": 2}).status == 204
    assert films.call("DELETE", "/scores?slug=a").status == 204
    # Without `from` the value comes from the body.
    films.call("POST", "/films", {"slug": "c"})
    assert films.problem(400, "DELETE", "/bodies?slug=c")["parameter"] == "slug"
    assert films.call("DELETE", "/bodies", {"slug": "c"}).status == 204
    assert films.rows() == []


def test_integers_and_what_is_none(films):
    films.call("POST", "/films", {"slug": "a"})
    for number in ("1", "1.0", "10e-1", "0.01e+2"):
        made = films.call("POST", "/parts", f'{{"film": {number}}}')
        assert (made.status, json.loads(made.body)) == (201, [{"film": 1}])
    assert films.call("PATCH", "/parts/1", '{"other": 1.0}').status == 200
    if films.kind == "postgres":
        films.problem(422, "POST", "/parts", '{"film": 1.5}')
        for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"other": 1})):
            films.problem(400, method, "/parts/abc", body)


def test_a_client_that_leaves_in_the_middle(films):
    for _ in range(20):
        with films.server.connect() as connection:
            connection.send("POST /moves HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 54\r\n\r\n")
            connection.send('{"from_slug": "a", "to_slug": "b", "amount": 0.000001}')
    assert films.call("POST", "/films", {"slug": "a"}).status == 201
    films.problem(409, "POST", "/films", {"slug": "a"})


def test_no_part_is_taken_for_the_whole(films):
    """A PUT with Content-Range is refused (RFC 9110, 14.4)."""
    assert films.call("POST", "/films", {"slug": "alien", "score": 8.5}).status == 201
    problem = films.problem(400, "PUT", "/films/alien", {"rating": {"value": 1}}, "Content-Range: bytes 0-3/9")
    assert "Content-Range" in problem["detail"]
    problem = films.problem(400, "PUT", "/set", [], "content-range: bytes 0-3/9")
    assert "Content-Range" in problem["detail"]
    assert films.rows() == [("alien", 8.5)]
    # With other methods Content-Range is ignored.
    assert films.call("PATCH", "/films/alien", {"rating": {"value": 1}}, "Content-Range: bytes 0-3/9").status == 204


def test_a_body_that_came_before_it_was_asked_for_keeps_the_connection(films):
    def body_of(n):
        return json.dumps({"slug": f"film {n}", "score": n}).encode()
    with films.server.connect() as connection:
        for n in range(3):
            chunked = n % 2 == 1
            body = body_of(n)
            framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
            if chunked:
                body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
            connection.send(f"POST /films HTTP/1.1\r\nHost: test\r\n{JSON}\r\nExpect: 100-continue\r\n{framing}\r\n\r\n"
                            .encode() + body)
            answer = connection.read()
            assert (answer.status, answer.get("connection")) == (201, None)
        # A client that waits gets 100 Continue, and its connection stays open, too.
        body = body_of(3)
        connection.send(f"POST /films HTTP/1.1\r\nHost: test\r\n{JSON}\r\nExpect: 100-continue\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n")
        assert connection.read().status == 100
        connection.send(body)
        assert connection.read().status == 201
        assert connection.get("/films").status == 200
    assert films.rows() == [(f"film {n}", n) for n in range(4)]


def test_a_body_is_refused_where_no_value_comes_from_it(films):
    films.query("INSERT INTO films (slug) VALUES ('a'), ('b'), ('c')")
    for method, target in (("DELETE", "/films/a"), ("DELETE", "/all"), ("DELETE", "/scores?slug=a"), ("GET", "/films"),
                           ("GET", "/films/a"), ("POST", "/slow")):
        for body in ([{"slug": "b"}], "{} ", "slug=b"):
            assert "body" in films.problem(400, method, target, body)["detail"]
    call = {"method": "DELETE", "path": "/films/a", "body": {"slug": "b"}}
    assert films.problem(400, "POST", "/batch", [call])["call"] == 0
    assert [slug for slug, _ in films.rows()] == ["a", "b", "c"]
    assert films.call("GET", "/films", "{}").status == 200
    assert films.call("DELETE", "/films/a", "{}").status == 204
    assert films.call("DELETE", "/films/b", "").status == 204
    with films.server.connect() as connection:
        for status in (204, 404):
            connection.send(b"DELETE /films/c HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            assert connection.read().status == status


def test_a_value_of_the_request_that_must_be_there_is_named(films):
    detail = films.problem(400, "POST", "/told/header", {"score": 1})["detail"]
    assert detail == 'The header "x-slug" is missing.'
    assert films.problem(400, "POST", "/told/query", {"score": 1})["detail"] == 'The parameter "slug" is missing.'
    assert films.problem(400, "PUT", "/told/cookie", [{"id": 9}])["detail"] == 'The cookie "slug" is missing.'
    assert films.problem(422, "POST", "/films", {"score": 1})["errors"][0]["pointer"] == "/slug"
    assert films.rows() == []
    assert films.call("POST", "/told/header", {"score": 1}, "X-Slug: a").status == 201
    assert films.call("POST", "/told/query?slug=b", {"score": 1}).status == 201
    assert films.call("PUT", "/told/cookie?dry-run", [{"id": 9}], "Cookie: slug=c").status == 200


def test_the_whole_row_is_of_json_alone(films):
    assert films.call("POST", "/whole", '{"a":1}').status == 201
    for body, content_type in (("a=1", "application/x-www-form-urlencoded"), ("a\n1\n", "text/csv"), ('"a"\n1\n', "application/csj")):
        detail = films.problem(415, "POST", "/whole", body, f"Content-Type: {content_type}")["detail"]
        assert "application/json, application/x-ndjson" in detail
    assert films.rows() == [('{"a":1}', None)]


def test_a_parameter_takes_a_value_of_the_path_under_another_name(films):
    films.query("INSERT INTO films (slug) VALUES ('a')")
    assert json.loads(films.call("GET", "/told/path/a").body) == [{"slug": "a"}]


GENERATED = '''
[[endpoint]]
path = "/made"
get = "SELECT id, name FROM made ORDER BY id"
[endpoint.patch]
table = "made"
columns.id = { key = true }
columns.name = {}
[[endpoint]]
path = "/made/{id:int}"
returns = "object"
get = "SELECT id, name FROM made WHERE id = :id"
[endpoint.patch]
table = "made"
columns.id = { key = true, from = "path.id" }
columns.name = {}
[endpoint.delete]
table = "made"
columns.id = { key = true, from = "path.id" }
'''


@pytest.fixture(params=["sqlite", "postgres"])
def made(request, tmp_path):
    """The URL of a database with made(id, name) and three rows, in which only the database chooses ids."""
    table = ("n integer PRIMARY KEY, id int GENERATED ALWAYS AS (n) STORED" if request.param == "sqlite"
             else "id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
    return database_with(request, tmp_path, ["DROP TABLE IF EXISTS made", f"CREATE TABLE made ({table}, name text)",
                                             "INSERT INTO made (name) VALUES ('a'), ('b'), ('c')"])


def test_a_key_that_the_database_generates_finds_its_row(made, sluice):
    films = Films(sluice(f'[database.main]\nurl = "{made}"\n{GENERATED}'), None, None)
    assert films.call("PATCH", "/made/1", {"name": "one"}).status == 204
    assert films.call("PATCH", "/made/1", json.loads(films.call("GET", "/made/1").body)).status == 204
    refused = films.problem(422, "PATCH", "/made/1", {"id": 2, "name": "x"})
    assert refused["errors"][0]["pointer"] == "/id", refused
    assert films.call("PATCH", "/made", [{"id": 2, "name": "two"}]).status == 204
    assert films.call("DELETE", "/made/3").status == 204
    films.problem(404, "DELETE", "/made/3")
    films.problem(404, "PATCH", "/made/3", {"name": "x"})
    assert json.loads(films.call("GET", "/made").body) == [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}]


@pytest.mark.parametrize("method, columns, hint", [
    ("put", "columns.id = { key = true }\ncolumns.name = {}", "name another"),
    ("patch", "set = true\ncolumns.id = { key = true }\ncolumns.name = {}", "name another"),
    ("patch", "columns.name = { key = true }\ncolumns.id = {}", "leave it out"),
    ("post", "columns.id = {}", "leave it out")])
def test_a_column_that_the_database_generates_is_not_written(made, method, columns, hint, tmp_path):
    (tmp_path / "made.toml").write_text(f'[database.main]\nurl = "{made}"\n[[endpoint]]\npath = "/made"\n[endpoint.{method}]\n'
                                        f'table = "made"\n{columns}\n')
    done = subprocess.run([SLUICE, "check", "made.toml"], capture_output=True, text=True, timeout=20, cwd=tmp_path)
    assert done.returncode == 3 and 'the database makes the values of "id" itself' in done.stderr and hint in done.stderr, done.stderr
