"""`require`: permissions by claims and by queries, on both databases."""
import json
from types import SimpleNamespace

import pytest

from conftest import database_with
from test_config import run
from tokens import Secret, soon

SECRET = Secret()
CONFIG = '''
[openapi]
[policy.auth]
type = "jwt"
secret = "{secret}"
optional = true
[database.main]
url = "{url}"
[[endpoint]]
path = "/teams/{{team}}/notes"
use = ["auth"]
require = ["present(claim.sub)", "exists(SELECT 1 FROM members WHERE team = :team AND member = claim.sub)"]
get = "SELECT text FROM notes WHERE team = :team ORDER BY text"
[endpoint.post]
sql = "INSERT INTO notes (team, text) VALUES (:team, :text) RETURNING text"
require = "exists(SELECT 1 FROM members WHERE team = :team AND member = claim.sub AND level >= 2)"
[endpoint.put]
table = "notes"
existing = "SELECT text FROM notes WHERE team = :team"
columns.team = {{ from = "path.team", key = true }}
columns.text = {{ key = true }}
require = "or(contains(claim.roles, 'admin'), eq(claim.sub, 'bob'))"
[[endpoint]]
path = "/admin"
use = ["auth"]
get = "SELECT count(*) AS n FROM notes"
[[endpoint.require]]
that = "contains(claim.roles, 'admin')"
status = 404
detail = "There is no such place."
[[endpoint]]
path = "/scoped"
use = ["auth"]
require = "contains(claim.scope, 'notes:read')"
get = "SELECT count(*) AS n FROM notes"
'''
SCHEMA = ["DROP TABLE IF EXISTS notes", "DROP TABLE IF EXISTS members",
          "CREATE TABLE notes (team text NOT NULL, text text NOT NULL, PRIMARY KEY (team, text))",
          "CREATE TABLE members (team text, member text, level int)",
          "INSERT INTO members VALUES ('red', 'ada', 1), ('red', 'bob', 2), ('blue', 'eve', 2)",
          "INSERT INTO notes VALUES ('red', 'first')"]


class Teams:
    def __init__(self, server):
        self.server = server

    def call(self, method, target, sub=None, body=None, **claims):
        fields = [] if sub is None else [f"Authorization: Bearer {SECRET.token(soon(sub=sub, **claims))}"]
        if body is not None:
            fields.append("Content-Type: application/json")
        with self.server.connect() as connection:
            return connection.call(method, target, None if body is None else json.dumps(body).encode(), *fields)

    def texts(self):
        return [row["text"] for row in json.loads(self.call("GET", "/teams/red/notes", "ada").body)]


@pytest.fixture(params=["sqlite", "postgres"])
def teams(request, sluice, tmp_path):
    url = database_with(request, tmp_path, SCHEMA)
    return Teams(sluice(CONFIG.format(url=url, secret=SECRET.secret)))


def test_the_database_is_asked_who_may(teams):
    assert teams.texts() == ["first"]
    for sub in (None, "eve", "nobody", "ada' OR '1'='1"):
        answer = teams.call("GET", "/teams/red/notes", sub)
        status = 401 if sub is None else 403
        assert (answer.status, answer.media_type) == (status, "application/problem+json"), answer.body
        assert (answer.get("www-authenticate") is None) == (sub is not None)
    assert teams.call("GET", "/teams/blue/notes", "ada").status == 403
    assert teams.call("GET", "/teams/blue/notes", "eve").status == 200
    assert teams.server.get("/teams/red/notes", method="HEAD").status == 401


def test_what_a_method_requires_comes_on_top(teams):
    assert teams.call("POST", "/teams/red/notes", "ada", {"text": "no"}).status == 403
    assert teams.call("POST", "/teams/red/notes", "eve", {"text": "no"}).status == 403
    assert teams.call("POST", "/teams/red/notes", None, {"text": "no"}).status == 401
    assert teams.texts() == ["first"]
    made = teams.call("POST", "/teams/red/notes", "bob", {"text": "second"})
    assert made.status == 201, (made.body, teams.server.log)
    assert teams.texts() == ["first", "second"]

    assert teams.call("PUT", "/teams/red/notes", "ada", [{"text": "x"}]).status == 403
    assert teams.call("PUT", "/teams/red/notes", "eve", [{"text": "x"}], roles=["admin"]).status == 403
    assert teams.texts() == ["first", "second"]
    assert teams.call("PUT", "/teams/red/notes", "ada", [{"text": "x"}], roles=["user", "admin"]).status == 200
    assert teams.call("PUT", "/teams/red/notes", "bob", [{"text": "x"}, {"text": "y"}]).status == 200
    assert teams.texts() == ["x", "y"]


def test_a_refusal_says_what_it_is_told_to(teams):
    refused = teams.call("GET", "/admin", "ada")
    assert refused.status == 404
    assert json.loads(refused.body)["detail"] == "There is no such place."
    assert json.loads(teams.call("GET", "/admin", "ada", roles=["admin"]).body) == [{"n": 1}]


def test_a_scope_is_a_list_or_words(teams):
    for scope in "notes:read", "x notes:read", ["x", "notes:read"]:
        assert teams.call("GET", "/scoped", "ada", scope=scope).status == 200, scope
    for scope in "", "notes:rea", "notes:reads x", ["notes:rea"]:
        assert teams.call("GET", "/scoped", "ada", scope=scope).status == 403, scope


def test_the_description_says_what_a_refusal_is(teams):
    operation = json.loads(teams.call("GET", "/openapi.json").body)["paths"]["/admin"]["get"]
    assert "404" in operation["responses"]


def test_a_request_is_refused_before_its_body_is_read(teams):
    with teams.server.connect() as connection:
        connection.send("PUT /teams/red/notes HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                        "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
        assert connection.read().status == 401  # before any 100


def test_whoever_may_not_is_not_told_which_parameters_there_are(teams):
    row = [{"text": "x"}]
    for method, target, body in (("GET", "/teams/red/notes?nope=1", None), ("POST", "/teams/red/notes?nope=1", row[0]),
                                 ("PUT", "/teams/red/notes?nope=1", row), ("GET", "/teams/red/notes?nope=1&nope=2", None)):
        assert teams.call(method, target, None, body).status == 401, (method, target)
        assert teams.call(method, target, "bob", body).status == 400, (method, target)
    assert teams.call("GET", "/admin?nope=1", "ada").status == 404
    assert teams.call("GET", "/admin?nope=1", "ada", roles=["admin"]).status == 400


@pytest.mark.parametrize("require, says", [
    ("eq(claim.role)", '3:12: error: "eq" takes 2'),
    ("and(eq(1, 1), eq(path.x, 1))", "3:29: error: there is no {x} in the path"),
    ("eq(claim.role, 1)", "3:15: error: there are no claims without a policy"),
    ("exists(SELECT 1 FROM nowhere)", "3:11: error: endpoint /: no such table: nowhere"),
    ("not(exists(SELECT nope FROM numbers))", "3:30: error: endpoint /: no such column: nope"),
    ("ne(query.ids, 7)", '3:15: error: "query.ids" is a list, which nothing can be compared with'),
])
def test_mistakes_are_found_at_their_place(tmp_path, small_sqlite, require, says):
    checked = run(tmp_path, '[[endpoint]]\npath = "/"\nrequire = "' + require + '"\nget = "SELECT 1 AS one"\nparams.ids = "int[]"\n'
                            '[database.main]\nurl = "sqlite:small.db"\n')
    assert checked.returncode == 3 and says in checked.stderr, checked.stderr


def test_a_default_is_compared_too(sluice, tmp_path, small_sqlite):
    server = sluice('''
[database.main]
url = "sqlite:small.db"
[[endpoint]]
path = "/who"
params.who.default = "admin"
get = "SELECT :who AS who"
require = "ne(query.who, 'admin')"
''')
    assert [server.get(f"/who{query}").status for query in ("", "?who=admin", "?who=ada")] == [403, 403, 200]


def test_exists_asks_about_what_is_written(tmp_path, small_sqlite):
    config = '''[database.main]
url = "sqlite:small.db"
[[endpoint]]
path = "/numbers"
%s
[endpoint.post]
sql = "INSERT INTO numbers (n, text) VALUES (:n, 'x')"
require = "exists(SELECT 1 FROM numbers WHERE n = :n)"
'''
    refused = run(tmp_path, config % "")
    assert refused.returncode == 3 and '":n" is the query parameter "n" in exists()' in refused.stderr, refused.stderr
    assert run(tmp_path, config % 'params.n.from = "query.n"').returncode == 0


VALUES = '''
[policy.auth]
type = "jwt"
secret = "{secret}"
[database.main]
url = "{url}"
[[endpoint]]
path = "/declared"
use = ["auth"]
require = "exists(SELECT 1 FROM members WHERE level = :level AND level > :rank)"
params.level = "int"
params.rank = {{ from = "claim.rank", type = "int" }}
get = "SELECT 1 AS one"
post = "INSERT INTO notes VALUES ('red', 'declared')"
[[endpoint]]
path = "/columns"
use = ["auth"]
require = "exists(SELECT 1 FROM members WHERE level = :level AND level > claim.rank)"
get = "SELECT 1 AS one"
post = "INSERT INTO notes VALUES ('red', 'columns')"
'''


SPELLED = '''
[policy.auth]
type = "jwt"
secret = "{secret}"
[database.main]
url = "{url}"
[[endpoint]]
path = "/path/{{id:int}}"
use = ["auth"]
require = "eq(claim.sub, path.id)"
get = "SELECT member FROM members WHERE level = :id"
[[endpoint]]
path = "/param/{{id}}"
use = ["auth"]
require = "in(path.id, 1, claim.sub)"
params.id = "int"
get = "SELECT member FROM members WHERE level = :id"
[[endpoint]]
path = "/exists"
use = ["auth"]
require = "exists(SELECT 1 FROM members WHERE level = claim.sub)"
get = "SELECT 1 AS one"
[[endpoint]]
path = "/statement"
use = ["auth"]
params.me.from = "claim.sub"
get = "SELECT member FROM members WHERE level = :me"
'''


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_claim_is_one_number_in_one_spelling(request, sluice, tmp_path, database):
    url = database_with(SimpleNamespace(param=database, getfixturevalue=request.getfixturevalue), tmp_path, SCHEMA)
    server = Teams(sluice(SPELLED.format(url=url, secret=SECRET.secret)))
    for path in ("/path/2", "/param/2", "/exists", "/statement"):
        for good in ("2", 2):
            assert (path, good, server.call("GET", path, good).status) == (path, good, 200)
        for bad in ("2e0", "2.0", "20e-1", "2.", ".2e1", "02", "+2", " 2", "0x2", "two", 2.5):
            assert (path, bad, server.call("GET", path, bad).status) == (path, bad, 403)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_value_that_does_not_fit_is_named(request, sluice, tmp_path, database):
    url = database_with(SimpleNamespace(param=database, getfixturevalue=request.getfixturevalue), tmp_path, SCHEMA)
    server = Teams(sluice(VALUES.format(url=url, secret=SECRET.secret)))
    reasons = {"/declared": "must be an integer"}
    if database == "postgres":  # its parameters have the columns' types
        reasons["/columns"] = "does not fit its type"
    for path, reason in reasons.items():
        for method, good in (("GET", 200), ("POST", 201)):
            answer = server.call(method, path + "?level=high", "ada", rank=1)
            assert (answer.status, json.loads(answer.body)["detail"]) == (400, f'The parameter "level" {reason}.'), (method, path)
            answer = server.call(method, path + "?level=2", "ada", rank="high")
            assert (answer.status, json.loads(answer.body)["detail"]) == (403, 'The token\'s claim "rank" must be an integer.'), (method, path)
            assert server.call(method, path + "?level=2", "ada", rank=2).status == 403
            assert server.call(method, path + "?level=2", "ada", rank=1).status == good, (method, path)
