"""Parameters of statements, as users write them."""
import json
from types import SimpleNamespace

import pytest

from conftest import database_with
from tokens import Secret, soon

CONFIG = '''
[database.main]
url = "{url}"

[[endpoint]]
path = "/films/{{slug}}"
returns = "object"
get = "SELECT * FROM films WHERE slug = :slug"
[[endpoint]]
path = "/films"
get = "SELECT id, slug, name_en FROM films WHERE :q IS NULL OR name_en LIKE '%' || :q || '%' ORDER BY id"
[[endpoint]]
path = "/reversed"
get = "SELECT id FROM films WHERE name_en LIKE '%' || :q || '%' OR :q IS NULL ORDER BY id"
[[endpoint]]
path = "/by-id"
get = "SELECT id FROM films WHERE :id IS NULL OR id = :id ORDER BY id"
[[endpoint]]
path = "/both"
get = "SELECT id FROM films WHERE (:id IS NULL OR id >= :id) AND (:most IS NULL OR score <= :most) ORDER BY id"
params.most = "real"
[[endpoint]]
path = "/guarded"
get = "SELECT id FROM films WHERE :all IS NOT NULL OR id = 1 ORDER BY id"
require = "exists(SELECT 1 FROM films WHERE :owner IS NULL OR id = :owner)"
params.only.from = "query.only"
params.score = "real"
[endpoint.patch]
sql = "UPDATE films SET score = :score WHERE :only IS NULL OR id = :only"
'''
TABLE = ["DROP TABLE IF EXISTS parts", "DROP TABLE IF EXISTS films",
         "CREATE TABLE films (id integer PRIMARY KEY, slug text UNIQUE, name_en text, score double precision)",
         "INSERT INTO films VALUES (1, 'a', 'The Silent Harbor', 1.5), (2, 'b', 'Harbor Lights', 2.5), "
         "(3, 'c', 'Noon', 3.5)"]


@pytest.fixture(params=["sqlite", "postgres"])
def films(request, sluice, tmp_path):
    return sluice(CONFIG.format(url=database_with(request, tmp_path, TABLE)))


def ids(server, target):
    answer = server.get(target)
    assert answer.status == 200, (target, answer.body, server.log)
    return [row["id"] for row in json.loads(answer.body)]


@pytest.mark.parametrize("target, expected", [
    ("/films", [1, 2, 3]), ("/films?q=Harbor", [1, 2]), ("/films?q=x", []), ("/films?q=", [1, 2, 3]),
    ("/reversed", [1, 2, 3]), ("/reversed?q=Noon", [3]),
    ("/by-id", [1, 2, 3]), ("/by-id?id=2", [2]),
    ("/both", [1, 2, 3]), ("/both?id=2", [2, 3]), ("/both?most=2.5", [1, 2]), ("/both?id=2&most=2.5", [2]),
    ("/guarded", [1]), ("/guarded?all=1", [1, 2, 3]), ("/guarded?owner=3", [1]),
])
def test_parameter_that_may_be_missing(films, target, expected):
    assert ids(films, target) == expected


def test_parameter_that_may_be_missing_elsewhere(films):
    assert json.loads(films.get("/films/b").body)["name_en"] == "Harbor Lights"
    assert films.get("/guarded?owner=4").status == 403
    with films.connect() as connection:
        answer = connection.call("PATCH", "/guarded?only=2", b"{\"score\":9.5}", "Content-Type: application/json")
        assert answer.status == 204, answer.body
    assert ids(films, "/both?most=3.5") == [1, 3]


STRICT = '''
[database.main]
url = "{url}"
[batch]

[[endpoint]]
path = "/films"
get = "SELECT id FROM films WHERE :q IS NULL OR name_en LIKE '%' || :q || '%' ORDER BY id"
params.least = "int"
[endpoint.put]
table = "films"
existing = "SELECT id FROM films WHERE :least IS NULL OR id >= :least"
columns.id = {{ key = true }}
columns.slug = {{}}
columns.name_en = {{}}
columns.score = {{}}

[[endpoint]]
path = "/films/{{id:int}}"
returns = "object"
version = "slug"
get = "SELECT id, slug FROM films WHERE id = :id AND :lang IS NULL"
require = "ne(query.key, 'wrong')"
delete = "DELETE FROM films WHERE id = :id AND score = :score"
params.note.from = "query.note"
[endpoint.patch]
sql = "UPDATE films SET score = :score WHERE id = :id"
before = ["UPDATE films SET name_en = :note WHERE :note IS NOT NULL AND id = 0"]

[[endpoint]]
path = "/some"
get = "SELECT id FROM films WHERE {any} ORDER BY id"
params.id = "int[]"

[[endpoint]]
path = "/lists"
get = "{lists}"
params.i = "int[]"
params.t = "text[]"
params.r = "real[]"
params.b = "bool[]"

[[endpoint]]
path = "/lax"
query = "any"
get = "SELECT id FROM films WHERE :q IS NULL OR name_en LIKE '%' || :q || '%' ORDER BY id"

[[endpoint]]
path = "/streamed"
get = "SELECT id FROM films"
changes = {changes}
'''


@pytest.fixture(params=["sqlite", "postgres"])
def strict(request, sluice, tmp_path):
    sqlite = request.param == "sqlite"
    any_of = "id IN (SELECT value FROM json_each(:id))" if sqlite else "id = ANY(:id)"
    lists = "SELECT :i AS i, :t AS t, :r AS r, :b AS b"
    if sqlite:
        lists = "SELECT " + ", ".join(f"json(:{name}) AS {name}" for name in "itrb")
    changes = '{ tables = ["films"] }' if sqlite else '{ notify = "films_changed" }'
    url = database_with(request, tmp_path, TABLE)
    server = sluice(STRICT.format(url=url, any=any_of, lists=lists, changes=changes))
    server.dialect = request.param
    return server


def refused(answer, parameter, detail):
    assert answer.status == 400, answer.body
    problem = json.loads(answer.body)
    assert problem["parameter"] == parameter, problem
    assert problem["detail"] == f"{parameter or 'a parameter without a name'}: {detail}"


def call(server, method, target, body=None, fields=()):
    with server.connect() as connection:
        return connection.call(method, target, body, "Content-Type: application/json", *fields)


def test_unknown_parameters_are_named(strict):
    unknown = "unknown parameter; possible are: "
    refused(strict.get("/films?Q=x"), "Q", unknown + "q")
    refused(strict.get("/films?q=Noon&x%20y=1"), "x y", unknown + "q")
    refused(strict.get("/films?=1"), "", unknown + "q")
    refused(strict.get("/films.csv?limit=1", method="GET"), "limit", unknown + "q")
    refused(strict.get("/films?%zz=1"), "%zz", "its name has a broken escape")
    refused(strict.get("/films?" + "%C3%BC" * 40 + "=1"), "ü" * 32, unknown + "q")
    refused(strict.get("/films?%ff=1"), "", unknown + "q")
    assert strict.get("/films?x=1", method="HEAD").status == 400
    refused(strict.get("/films/1?x=1"), "x", unknown + "lang, key")
    refused(call(strict, "DELETE", "/films/1?nope=1"), "nope", unknown + "score, key, lang")
    refused(call(strict, "PATCH", "/films/1?nope=2", b'{"score":1}'), "nope", unknown + "note, key, lang")
    refused(call(strict, "PUT", "/films?dryrun", b"[]"), "dryrun", unknown + "least, dry-run, max-deleted")
    refused(strict.get("/streamed/changes?since=1"), "since", unknown + "none")
    assert ids(strict, "/films?&q=Noon&") == [3]
    assert ids(strict, "/lax?x=1&q=Noon&%zz=1") == [3]
    assert call(strict, "PATCH", "/films/1?note=2&key=a&lang=b", b'{"score":1.5}').status == 204


NAMED = """
[database.main]
url = "{url}"
[[endpoint]]
path = "/films/{{id:int}}"
get = "SELECT slug FROM films WHERE id = :id"
[endpoint.put]
table = "films"
columns.id = {{ key = true, from = "path.id" }}
columns.slug = {{}}
[endpoint.patch]
table = "films"
columns.id = {{ key = true, from = "path.id" }}
columns.slug = {{}}
[[endpoint]]
path = "/untyped"
get = "SELECT slug FROM films WHERE id = :id"
[[endpoint]]
path = "/text"
get = "SELECT cast(:text AS text) AS text"
[[endpoint]]
path = "/json"
get = "SELECT cast(:n AS integer) AS n, cast(:doc AS json) AS doc"
[[endpoint]]
path = "/set"
[endpoint.put]
table = "films"
existing = "SELECT id, slug FROM films WHERE id = :id"
columns.id = {{ key = true, from = "query.id" }}
columns.slug = {{ key = true }}
"""


def test_what_postgres_refuses_is_named(request, sluice, tmp_path):
    server = sluice(NAMED.format(url=database_with(SimpleNamespace(param="postgres", getfixturevalue=request.getfixturevalue), tmp_path, TABLE)))
    for method, target, name, body in [
            ("GET", "/films/3000000000", "id", None), ("PUT", "/films/3000000000", "id", b'{"slug":"a"}'),
            ("PATCH", "/films/3000000000", "id", b'{"slug":"a"}'), ("GET", "/untyped?id=abc", "id", None),
            ("PUT", "/set?id=abc", "id", b'[{"slug":"a"}]'),
            # PostgreSQL quotes the document in its message before it names the parameter.
            ("GET", "/json?n=1&doc=%22parameter%20$1%22%20x", "doc", None),
            ("GET", "/json?n=1&doc=[%0Aunnamed%20portal%20parameter%20$1", "doc", None)]:
        answer = call(server, method, target, body)
        assert answer.status == 400, (target, answer.body)
        assert json.loads(answer.body)["detail"] == f'The parameter "{name}" does not fit its type.', target


UNNAMED = """
[database.main]
url = "{url}"
[[endpoint]]
path = "/text"
get = "SELECT :other AS other, cast(:text AS text) AS text"
errors.22xxx = 409
[[endpoint]]
path = "/refused"
get = "SELECT id FROM films {refused}"
[[endpoint]]
path = "/bare"
get = "SELECT count(*) AS n FROM films WHERE (:h IS NULL OR id = :h) AND (:c IS NULL OR id = :c) AND (:u IS NULL OR id = :u)"
params.h = {{ from = "header.x-h", type = "int" }}
params.c = {{ from = "cookie.c", type = "int" }}
params.u = {{ from = "header.x-u" }}
[[endpoint]]
path = "/set"
params.first = {{ from = "query.first" }}
[endpoint.put]
table = "films"
existing = "SELECT id, name_en FROM films WHERE coalesce(:first, '') <> 'x' AND name_en = :name_en"
columns.id = {{ key = true }}
columns.slug = {{ from = "query.slug" }}
columns.name_en = {{ key = true, from = "query.name_en" }}
"""


@pytest.fixture(params=["sqlite", "postgres"])
def unnamed(request, sluice, tmp_path):
    refused = {"postgres": "LIMIT :value", "sqlite": "WHERE slug LIKE :value || printf('%.*c', 50001, '_')"}[request.param]
    return sluice(UNNAMED.format(url=database_with(request, tmp_path, TABLE), refused=refused))


def refusal(server, target, method="GET", body=None, fields=()):
    answer = call(server, method, target, body, fields)
    assert answer.status == 400, (target, answer.body)
    return json.loads(answer.body)["detail"]


def test_bytes_that_are_no_text_are_named(unnamed):
    """They do not reach the database, so no [errors] applies."""
    assert refusal(unnamed, "/text?text=%ff") == 'The parameter "text" is not UTF-8.'
    assert refusal(unnamed, "/text?other=%ff") == 'The parameter "other" is not UTF-8.'
    for name, target in (("first", "/set?first=%ff&name_en=a"), ("name_en", "/set?first=a&name_en=%ff")):
        for body in (b'[{"id":1}]', b"[]"):
            assert refusal(unnamed, target, "PUT", body) == f'The parameter "{name}" is not UTF-8.'


def test_a_value_that_the_statement_refuses_is_no_matter_of_types(unnamed):
    assert refusal(unnamed, "/refused?value=-1") == "The database refuses a parameter's value."


def test_an_empty_header_or_cookie_is_missing(unnamed):
    for fields, expected in ((["X-H: ", "Cookie: c=", "X-U: "], 3), (["X-H: 1", "Cookie: c=1", "X-U: 1"], 1)):
        answer = call(unnamed, "GET", "/bare", None, fields)
        assert (answer.status, json.loads(answer.body)) == (200, [{"n": expected}]), answer.body
    assert refusal(unnamed, "/bare", fields=["X-H: x"]) == 'The header "x-h" must be an integer.'
    assert refusal(unnamed, "/bare", fields=["Cookie: c=x"]) == 'The cookie "c" must be an integer.'


CUT = """
[database.main]
url = "{url}"
[[endpoint]]
path = "/texts/{{id:int}}"
get = "SELECT v, c, b::text, a FROM cut WHERE id = :id"
returns = "object"
[endpoint.put]
table = "cut"
columns.id = {{ key = true, from = "path.id" }}
columns.v = {{}}
columns.c = {{}}
columns.b = {{}}
columns.a = {{}}
"""


def test_no_value_is_cut_to_its_column(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS cut; CREATE TABLE cut (id integer PRIMARY KEY, v varchar(3), c char(3), b bit(3), a varchar(3)[])")
    server = sluice(CUT.format(url=postgres.url()))
    good = {"v": "abc", "c": "ab ", "b": "101", "a": ["abc"]}
    assert call(server, "PUT", "/texts/1", json.dumps(good).encode()).status == 201, server.log
    for longer in ({"v": "abcd"}, {"c": "abcd"}, {"b": "1011"}, {"b": "10"}, {"a": ["abcd"]}):
        answer = call(server, "PUT", "/texts/1", json.dumps(good | longer).encode())
        assert answer.status == 422, (longer, answer.body)
    assert json.loads(server.get("/texts/1").body) == good


def test_repeated_parameters_are_refused(strict):
    refused(strict.get("/films?q=a&q=b"), "q", "it comes more than once")
    refused(strict.get("/lax?q=a&x=1&x=2&%71=b"), "q", "it comes more than once")
    refused(strict.get("/films/1?key=right&key=wrong"), "key", "it comes more than once")
    assert strict.get("/films/1?key=wrong&key=right").status == 403  # what is required is checked before
    refused(call(strict, "PUT", "/films?dry-run=true&dry-run=false", b"[]"), "dry-run", "it comes more than once")


def test_dry_run_takes_true_and_false(strict):
    def counts(target):
        answer = call(strict, "PUT", target, b'[{"id":3,"slug":"c","name_en":"Noon","score":3.5}]')
        assert answer.status == 200, answer.body
        return json.loads(answer.body)["deleted"]

    for asked in ("dry-run", "dry-run=true", "dry-run=1", "dry-run=true&least=2"):
        assert counts(f"/films?{asked}") == (1 if "least" in asked else 2)
        assert ids(strict, "/films") == [1, 2, 3]
    assert call(strict, "PUT", "/films?dry-run=yes", b"[]").status == 400
    assert counts("/films?dry-run=false&least=2") == 1
    assert ids(strict, "/films") == [1, 3]


def test_calls_of_a_batch_are_as_strict(strict):
    def batch(*targets):
        calls = json.dumps([{"method": "GET", "path": target} for target in targets]).encode()
        return call(strict, "POST", "/batch", calls)

    answer = batch("/films?q=Noon", "/some?id=1&id=2")
    assert answer.status == 200, answer.body
    assert [result["body"] for result in json.loads(answer.body)] == [[{"id": 3}], [{"id": 1}, {"id": 2}]]
    for target in ("/films?x=1", "/films?q=1&q=2"):
        answer = batch("/films", target)
        assert answer.status == 400, answer.body


def test_lists(strict):
    assert ids(strict, "/some?id=1&id=3") == [1, 3]
    assert ids(strict, "/some?id=2") == [2]
    assert ids(strict, "/some?id=02&id=&id=2&id=9") == [2]
    assert ids(strict, "/some") == []  # the parameter is NULL
    assert ids(strict, "/some?id=") == []
    for bad in ("id=1&id=x", "id=1,2", "id=1.5", "id=%zz", "id=99999999999999999999"):
        answer = strict.get(f"/some?{bad}")
        assert answer.status == 400, (bad, answer.body)
        assert "id" in json.loads(answer.body)["detail"]
    answer = strict.get("/lists?i=7&i=-007&i=-0&t=a%22b%5C&t=&t=c,d%7B%C3%BC&r=.5&r=-1.&r=100&b=t&b=0")
    assert answer.status == 200, answer.body
    row = json.loads(answer.body)[0]
    assert row == {"i": [7, -7, 0], "t": ['a"b\\', "", "c,d{ü"], "r": [0.5, -1, 100], "b": [True, False]}


CANONICAL = '''
[database.main]
url = "{url}"
[batch]
[[endpoint]]
path = "/secret/{{id:int}}"
returns = "object"
get = "SELECT id FROM films WHERE id = :id"
require = "ne(path.id, 1)"
[[endpoint]]
path = "/asked"
get = "SELECT id FROM films WHERE id = :id"
params.id = "int"
require = "ne(query.id, 1)"
[[endpoint]]
path = "/named/{{id}}"
get = "SELECT id FROM films WHERE id = :id"
params.id = "int"
require = "ne(path.id, 1)"
[[endpoint]]
path = "/scores"
get = "SELECT id FROM films WHERE score = :score"
params.score = "real"
require = "ne(query.score, 1.5)"
[[endpoint]]
path = "/flag"
get = "SELECT id FROM films WHERE :all OR id = 1 ORDER BY id"
params.all = {{ type = "bool", default = false }}
require = "ne(query.all, true)"
[[endpoint]]
path = "/slugs"
get = "SELECT id FROM films WHERE slug = :slug"
params.slug = {{ trim = true }}
require = "ne(query.slug, 'a')"
'''


@pytest.fixture(params=["sqlite", "postgres"])
def canonical(request, sluice, tmp_path):
    return sluice(CANONICAL.format(url=database_with(request, tmp_path, TABLE)))


def test_no_spelling_evades_a_requirement(canonical):
    def status(target):
        alone = canonical.get(target).status
        batch = call(canonical, "POST", "/batch", json.dumps([{"method": "GET", "path": target}]).encode())
        # A refused call ends its batch, whose answer has the status.
        in_batch = json.loads(batch.body)[0]["status"] if batch.status == 200 else json.loads(batch.body)["status"]
        return alone, in_batch

    for target in ("/secret/1", "/secret/1.json", "/asked?id=1", "/asked?id=01", "/asked?id=0001", "/named/1",
                   "/named/01", "/scores?score=1.5", "/scores?score=1.50", "/scores?score=15e-1", "/flag?all=true",
                   "/flag?all=t", "/flag?all=1", "/slugs?slug=a", "/slugs?slug=+a", "/slugs?slug=a%09"):
        alone, in_batch = status(target)
        assert alone == 403, (target, alone)
        assert in_batch == 403, (target, in_batch)
    for target in ("/secret/01", "/secret/+1", "/secret/%2B1", "/secret/-0", "/secret/00", "/secret/01.json"):
        assert status(target) == (404, 404), target
    for target in ("/asked?id=%2B1", "/asked?id=+1", "/asked?id=1.0", "/asked?id=1e0", "/asked?id=2&id=1",
                   "/scores?score=1.50000000000000000001", "/flag?all=TRUE", "/named/+1", "/named/1.0"):
        assert status(target)[0] == 400, target
    assert status("/secret/2")[0] == 200
    assert ids(canonical, "/asked?id=02") == ids(canonical, "/named/02") == [2]
    assert ids(canonical, "/scores?score=2.50") == [2]
    assert ids(canonical, "/flag?all=f") == ids(canonical, "/flag") == [1]
    assert ids(canonical, "/slugs?slug=b+") == [2]


ALLOWED = """
[database.main]
url = "{url}"
[batch]
[policy.auth]
type = "jwt"
secret = "{secret}"
[[endpoint]]
path = "/films"
get = "SELECT id FROM films WHERE score >= :least ORDER BY CASE :sort WHEN 'name' THEN name_en ELSE slug END, id LIMIT :limit"
params.sort = {{ values = ["slug", "name"], default = "slug" }}
params.limit = {{ type = "int", min = 1, max = 3, default = 2 }}
params.least = {{ from = "header.x-least", type = "real", min = 0.5, default = 0.5 }}
[endpoint.post]
table = "films"
columns.id = {{ min = 1 }}
columns.slug = {{ values = ["a", "b", "c", "d"], required = true }}
columns.score = {{ max = 10 }}
[[endpoint]]
path = "/films/{{id:int}}"
params.id.max = 3
params.score = {{ type = "int", values = [1, 2, 3] }}
get = "SELECT slug, score FROM films WHERE id = :id"
returns = "object"
patch = "UPDATE films SET score = :score WHERE id = :id"
[endpoint.put]
table = "films"
columns.id = {{ key = true, from = "path.id", max = 4 }}
columns.slug = {{ values = ["a", "b", "c", "d"] }}
columns.score = {{ min = 0.5 }}
[[endpoint]]
path = "/all"
[endpoint.put]
table = "films"
existing = "SELECT id, slug, score FROM films"
columns.id = {{ key = true, min = 1 }}
columns.slug = {{ values = ["a", "b", "c"] }}
columns.score = {{ from = "query.score", max = 10 }}
[[endpoint]]
path = "/some"
params.id = {{ type = "int[]", values = [1, 2] }}
get = "SELECT id FROM films WHERE {any} ORDER BY id"
[[endpoint]]
path = "/mine"
use = ["auth"]
get = "SELECT :role AS role, :theme AS theme"
returns = "object"
params.role = {{ from = "claim.role", values = ["editor", "reader"] }}
params.theme = {{ from = "cookie.theme", values = ["dark", "light"] }}
[[endpoint]]
path = "/open"
get = "SELECT 1 AS id WHERE :mode IS NOT NULL"
params.mode.values = ["open", "shut"]
require = "eq(query.mode, 'open')"
"""


@pytest.fixture(params=["sqlite", "postgres"])
def allowed(request, sluice, tmp_path):
    any_of = "id IN (SELECT value FROM json_each(:id))" if request.param == "sqlite" else "id = ANY(:id)"
    return sluice(ALLOWED.format(url=database_with(request, tmp_path, TABLE), any=any_of, secret=Secret().secret))


def test_values_outside_of_those_that_are_possible(allowed):
    sort = 'The parameter "sort" must be one of: slug, name.'
    for target, expected in (("/films", [1, 2]), ("/films?sort=name&limit=03", [2, 3, 1]), ("/films?limit=", [1, 2])):
        assert ids(allowed, target) == expected, target
    for target in ("/films?sort=score", "/films?sort=", "/films?sort=Name", "/films?sort=slug%20"):
        assert refusal(allowed, target) == sort
    for limit in ("0", "4", "-1", "9223372036854775807"):
        assert refusal(allowed, f"/films?limit={limit}") == 'The parameter "limit" must be from 1 to 3.'
    assert refusal(allowed, "/films?limit=x") == 'The parameter "limit" must be an integer.'
    assert refusal(allowed, "/films", fields=["X-Least: 0.49999"]) == 'The header "x-least" must be at least 0.5.'
    assert call(allowed, "GET", "/films", None, ["X-Least: 5e-1"]).status == 200
    assert refusal(allowed, "/films/4") == 'The parameter "id" must be at most 3.'
    assert ids(allowed, "/some?id=1&id=02") == [1, 2] and ids(allowed, "/some") == []
    assert refusal(allowed, "/some?id=1&id=3") == 'The parameter "id" must be one of: 1, 2.'
    assert refusal(allowed, "/open?mode=ajar") == 'The parameter "mode" must be one of: open, shut.'
    assert allowed.get("/open?mode=shut").status == 403 and ids(allowed, "/open?mode=open") == [1]


def test_claims_and_cookies_have_possible_values_too(allowed):
    def asked(role, theme):
        token = Secret().token(soon(role=role))
        answer = call(allowed, "GET", "/mine", None, [f"Authorization: Bearer {token}", f"Cookie: theme={theme}"])
        return answer.status, json.loads(answer.body)

    assert asked("editor", "dark") == (200, {"role": "editor", "theme": "dark"})
    assert asked(None, "light") == (200, {"role": None, "theme": "light"})
    status, problem = asked("owner", "dark")
    assert (status, problem["detail"]) == (403, 'The token\'s claim "role" must be one of: editor, reader.')
    status, problem = asked("reader", "red")
    assert (status, problem["detail"]) == (400, 'The cookie "theme" must be one of: dark, light.')


def test_fields_of_bodies_have_possible_values_too(allowed):
    def faults(method, target, body):
        answer = call(allowed, method, target, json.dumps(body).encode())
        if answer.status != 422:
            return answer.status
        return [(fault["pointer"], fault["detail"]) for fault in json.loads(answer.body)["errors"]]

    slug = "must be one of: a, b, c, d"
    assert faults("POST", "/films", [{"id": 0, "slug": "d"}]) == [("/0/id", "must be at least 1")]
    assert faults("POST", "/films", {"id": 4, "slug": "x"}) == [("/slug", slug)]
    assert faults("POST", "/films", {"id": 4, "slug": ""}) == [("/slug", slug)]
    assert faults("POST", "/films", {"id": 4, "slug": "d", "score": 10.5}) == [("/score", "must be at most 10")]
    assert faults("POST", "/films", {"id": 4, "slug": "d", "score": None}) == 201
    assert faults("PATCH", "/films/1", {"score": 4}) == [("/score", "must be one of: 1, 2, 3")]
    assert faults("PATCH", "/films/1", {"score": 2.0}) == 204
    assert faults("PUT", "/films/3", {"slug": "c", "score": 0.4}) == [("/score", "must be at least 0.5")]
    assert faults("PUT", "/films/3", {"slug": "e", "score": 1}) == [("/slug", slug)]
    assert faults("PUT", "/films/3", {"slug": "c", "score": 0.5}) == 204
    assert refusal(allowed, "/films/5", "PUT", b'{"slug":"c"}') == 'The parameter "id" must be at most 4.'
    rows = [{"id": 1, "slug": "a"}, {"id": 0, "slug": "b"}, {"id": 2, "slug": "d"}]
    assert faults("PUT", "/all", rows) == [("/1/id", "must be at least 1"), ("/2/slug", "must be one of: a, b, c")]
    assert refusal(allowed, "/all?score=11", "PUT", b"[]") == 'The parameter "score" must be at most 10.'
    assert faults("PUT", "/all?score=10", rows[:1]) == 200
    assert ids(allowed, "/films") == [1]
    calls = [{"id": "a", "method": "PATCH", "path": "/films/1", "body": {"score": 5}}]
    answer = call(allowed, "POST", "/batch", json.dumps(calls).encode())
    assert b"must be one of: 1, 2, 3" in answer.body, answer.body
    assert json.loads(allowed.get("/films/1").body)["score"] == 10
