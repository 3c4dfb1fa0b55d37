"""[endpoint.list]: filters, search, order, pages and counts of a `get`, on both databases. test_list_model.py compares many
query strings with a model."""
import itertools
import json
import os
import re
import sqlite3
import subprocess
from urllib.parse import parse_qsl, quote

import pytest

from conftest import SLUICE, database_with

STATEMENTS = [
    "CREATE TABLE films (id INTEGER PRIMARY KEY, slug TEXT NOT NULL UNIQUE, name TEXT, adult BOOLEAN NOT NULL, "
    "popularity REAL, released TEXT)",
    "CREATE INDEX films_popularity ON films (popularity)",
    *(f"INSERT INTO films VALUES ({n}, 'film-{n}', {name}, {adult}, {popularity}, {released})"
      for n, name, adult, popularity, released in [
          (1, "'The Harbor'", "false", "10.5", "'1999-05-01'"), (2, "'Old harbor bridge'", "true", "2", "'2001-02-03'"),
          (3, "'100% Bridge'", "false", "NULL", "'2010-10-10'"), (4, "'Ärger'", "false", "10.5", "NULL"),
          (5, "NULL", "true", "-3.25", "'1980-01-01'"), (6, "'a_b*c'", "false", "7", "'2001-02-03'"),
          (7, "'say \"a, b\"'", "false", "NULL", "'2020-12-31'")])]
CONFIG = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/films"
get = "SELECT id, slug, name, adult, popularity, released FROM films"
[endpoint.list]
filter = ["id", "slug", "name", "adult", "popularity", "released"]
search = ["name", "slug"]
sort = ["popularity", "released", "name"]
order = "id"
limit = {{ default = 50, max = 100 }}
count = true
{more}
'''


@pytest.fixture(params=["sqlite", "postgres"])
def films(request, sluice, tmp_path):
    def start(more="", statements=()):
        if request.param == "postgres":
            request.getfixturevalue("postgres").psql("DROP TABLE IF EXISTS films CASCADE")
        url = database_with(request, tmp_path, [*STATEMENTS, *statements])
        server = sluice(CONFIG.format(url=url, more=more))
        server.database = url
        return server
    return start


def ids(response):
    assert response.status == 200, response.body
    return [row["id"] for row in json.loads(response.body)]


def link(response, relation):
    """The query string of a reference; None if there is none."""
    found = re.search(rf'<\?([^>]*)>; rel="{relation}"', response.get("link"))
    return found and found.group(1)


def refusal(response):
    assert response.status == 400, (response.status, response.body)
    problem = json.loads(response.body)
    return problem["parameter"], problem["detail"]


ROWS = [
    ("", [1, 2, 3, 4, 5, 6, 7]),
    ("adult=true", [2, 5]),
    ("adult=is.true", [2, 5]),
    ("adult=is.false&popularity=gte.10", [1, 4]),
    ("popularity=10.5", [1, 4]),
    ("popularity=eq.10.50", [1, 4]),
    ("popularity=neq.10.5", [2, 5, 6]),
    ("popularity=not.eq.10.5", [2, 5, 6]),
    ("popularity=is.null", [3, 7]),
    ("popularity=not.is.null", [1, 2, 4, 5, 6]),
    ("popularity=gt.-4&popularity=lt.7", [2, 5]),
    ("popularity=not.gt.5", [2, 5]),
    ("released=2001-02-03", [2, 6]),
    ("released=lt.2000-01-01", [1, 5]),
    ("id=in.(7,2,2,99)", [2, 7]),
    ("id=not.in.(1,2,3)", [4, 5, 6, 7]),
    ("id=in.()", []),
    ('name=in.("say \\"a, b\\"",Ärger)', [4, 7]),
    ("name=like.*arbor*", [1, 2]),
    ("name=like.*Harbor", [1]),
    ("name=like.100%25*", [3]),
    ("name=like.a_b\\*c", [6]),
    ("name=like.a%25c", []),
    ("slug=like.film-*&name=not.like.*r*", [6, 7]),
    ("or=(id.eq.1,adult.is.true)", [1, 2, 5]),
    ("or=(id.eq.1,and(adult.is.true,popularity.lt.0))", [1, 5]),
    ("not.or=(id.lte.3,not.and(adult.is.false,popularity.is.not_null))", [4, 6]),
    ('or=(name.eq."say \\"a, b\\"",id.in.(1,2))', [1, 2, 7]),
    ("and=(id.gt.2,id.lt.5)", [3, 4]),
    ("q=harbor", [1, 2]),
    ("q=HARBOR+old", [2]),
    ("q=bridge+film", [2, 3]),
    ("q=100%25", [3]),
    ("q=b*c", [6]),
    ("q=", [1, 2, 3, 4, 5, 6, 7]),
    ("popularity=&adult=&released=lt.2000-01-01", [1, 5]),  # fields of a form that were left empty
    ("sort=popularity", [5, 2, 6, 1, 4, 3, 7]),
    ("sort=-popularity", [3, 7, 1, 4, 6, 2, 5]),
    ("sort=-released,popularity", [4, 7, 3, 2, 6, 1, 5]),
    ("limit=2", [1, 2]),
    ("limit=2&offset=3", [4, 5]),
    ("limit=0", []),
    ("offset=7", []),
]


def test_rows(films):
    server = films()
    wrong = []
    with server.connect() as connection:
        for query, expected in ROWS:
            answer = connection.get("/films?" + quote(query, safe='%=&+*(),.\\"-_'))
            got = [row["id"] for row in json.loads(answer.body)] if answer.status == 200 else answer.body
            if got != expected:
                wrong.append((query, got, expected))
    assert wrong == []


def test_words_are_folded_beyond_ascii(films):
    server = films()
    assert ids(server.get("/films?q=%C3%84rger")) == [4]
    # PostgreSQL folds by the locale of the database.
    if server.database.startswith("sqlite"):
        assert ids(server.get("/films?q=%C3%A4RGER")) == [4]


REFUSED = [
    ("nam=a", "nam", "there is no such parameter; possible are: id, slug, name, adult, popularity, released, sort, "
                     "limit, offset, fields, or, and, q, after, before, count"),
    ("popularity=much", "popularity", "a number is possible"),
    ("id=1.5", "id", ""),
    ("adult=gt.maybe", "adult", "true or false"),
    ("adult=is.maybe", "adult", "is.true"),
    ("popularity=is.true", "popularity", "possible are: is.null, is.not_null"),
    ("popularity=like.1*", "popularity", "is not a text"),
    ("id=in.1,2", "id", "a list is written in.(1,2,3)"),
    ("id=in.(1,x)", "id", ""),
    ("id=in.(" + ",".join("1" * 201) + ")", "id", "a list of up to 200 values is possible"),
    ("&".join(["id=gt.0"] * 33), "id", "up to 32 conditions are possible"),
    ("or=(id.eq.1", "or", "a closing parenthesis is missing"),
    ("or=id.eq.1", "or", "a group is written (a.eq.1,b.gt.2)"),
    ("or=(id.eq.1)x", "or", "something follows the group"),
    ("or=(id)", "or", "an operator is missing"),
    ("or=(id.1)", "or", "an operator is missing"),
    ("or=(nope.eq.1)", "or", 'there is no field "nope"'),
    ("or=()", "or", 'there is no field ""'),
    ("or=" + "(or" * 5 + "(id.eq.1" + ")" * 6, "or", ""),
    ("sort=id", "sort", 'sorted can be by: name, popularity, released'),
    ("sort=name,-name", "sort", "twice"),
    ("sort=", "sort", "it names no field"),
    ("fields=id,nope", "fields", "there are: id, slug, name, adult, popularity, released"),
    ("limit=101", "limit", "up to 100 is possible"),
    ("limit=-1", "limit", "a whole number from 0 on is possible"),
    ("limit=1&limit=2", "limit", "it comes twice"),
    ("offset=10001", "offset", "up to 10000 is possible"),
    ("count=some", "count", "possible are: exact, estimated"),
    ("after=AAAA", "after", "it is no cursor of this list"),
    ("after=%00", "after", "it is no cursor of this list"),
    ("name=%FF", "name", "it is not UTF-8"),
    ("name=a%00b", "name", "it is not UTF-8, or holds a NUL character"),
    ("q=%FF", "q", "it is not UTF-8"),
    ("name=%zz", "name", "its value has a broken escape"),
]


def test_refusals(films):
    server = films()
    wrong = []
    with server.connect() as connection:
        for query, parameter, says in REFUSED:
            got, detail = refusal(connection.get("/films?" + query))
            if got != parameter or says not in detail:
                wrong.append((query, got, detail))
    assert wrong == []


def test_pages(films):
    server = films()
    for query in ("", "sort=-popularity", "sort=popularity,-released", "adult=false&sort=name"):
        whole = ids(server.get("/films?" + query))
        page = server.get(f"/films?{query}&limit=2")
        assert link(page, "prev") is None
        forward = [ids(page)]
        while (following := link(page, "next")) is not None:
            assert "limit=2" in following
            page = server.get("/films?" + following)
            forward.append(ids(page))
        assert sum(forward, []) == whole
        assert all(len(part) == 2 for part in forward[:-1])
        backward = [forward[-1]]
        while (previous := link(page, "prev")) is not None:
            page = server.get("/films?" + previous)
            backward.insert(0, ids(page))
        assert backward == forward
        assert ids(server.get("/films?" + link(page, "first"))) == forward[0]


def test_a_cursor_belongs_to_its_list(films):
    server = films()
    cursor = dict(parse_qsl(link(server.get("/films?sort=name&adult=false&limit=1"), "next")))["after"]
    assert ids(server.get(f"/films?sort=name&adult=false&after={cursor}"))
    for other in ("sort=-name&adult=false", "sort=name", "sort=name&adult=true", "adult=false",
                  "sort=name&adult=false&q=a"):
        assert refusal(server.get(f"/films?{other}&after={cursor}"))[0] == "after"
    for broken in (cursor[:-1], cursor + "A", "A" + cursor[1:], cursor.swapcase()):
        assert refusal(server.get(f"/films?sort=name&adult=false&after={broken}"))[0] == "after"
    both = f"/films?sort=name&adult=false&after={cursor}"
    assert refusal(server.get(f"{both}&before={cursor}"))[0] == "before"
    assert refusal(server.get(f"{both}&offset=1"))[0] == "offset"


def test_links_keep_what_was_asked(films):
    server = films()
    page = server.get("/films?name=like.*%3C%22*&or=(id.gt.0,id.lt.0)&fields=id&limit=2&offset=0")
    assert ids(page) == []
    assert link(page, "first") == "name=like.*%3C%22*&or=(id.gt.0,id.lt.0)&fields=id&limit=2"
    page = server.get("/films?sort=-name&fields=id&offset=2&limit=2&count=exact")
    assert dict(parse_qsl(link(page, "last"))) == {"sort": "-name", "fields": "id", "count": "exact", "limit": "2",
                                                   "offset": "6"}
    before = server.get("/films?" + link(page, "prev"))
    assert ids(before) == ids(server.get("/films?sort=-name&fields=id&limit=2"))


def test_counts(films):
    server = films()
    page = server.get("/films?adult=false&limit=2&count=exact")
    assert (page.get("x-total-count"), page.get("content-range")) == ("5", "items 0-1/5")
    assert len(ids(page)) == 2
    behind = server.get("/films?adult=false&limit=2&offset=40&count=exact")
    assert (behind.get("x-total-count"), behind.get("content-range")) == ("5", "items */5")
    assert behind.body == b"[]\n" or json.loads(behind.body) == []
    cursor = server.get("/films?" + link(page, "next"))
    assert cursor.get("x-total-count") == "5" and cursor.get("content-range") is None
    nothing = server.get("/films?id=0&count=exact")
    assert nothing.get("x-total-count") == "0" and json.loads(nothing.body) == []
    assert server.get("/films").get("x-total-count") is None
    estimated = server.get("/films?count=estimated&limit=2")
    assert len(ids(estimated)) == 2 and int(estimated.get("x-total-count")) >= 0


def test_fields_of_other_clients(films):
    server = films()
    page = server.get("/films", "Prefer: return=minimal, count=exact", "Range: items=2-3")
    assert page.status == 206
    assert page.get("content-range") == "items 2-3/7"
    assert page.get("preference-applied") == "count=exact"
    assert [row["id"] for row in json.loads(page.body)] == [3, 4]
    assert server.get("/films", "Range: items=5-").get("content-range") == "items 5-6/*"
    assert server.get("/films", "Range: items=7-9").status == 200
    for ignored in ("bytes=0-1", "items=1-0", "items=a-b", "items=-5"):
        assert ids(server.get("/films", f"Range: {ignored}")) == [1, 2, 3, 4, 5, 6, 7]


def test_formats_and_fields(films):
    server = films()
    assert server.get("/films.csv?fields=slug,id&limit=1").body == b"slug,id\nfilm-1,1\n"
    assert server.get("/films?fields=id&sort=-popularity&limit=1", "Accept: application/x-ndjson").body == b'{"id":3}\n'
    head = server.get("/films?limit=1&count=exact", method="HEAD")
    assert head.status == 200 and head.get("x-total-count") == "7" and head.body == b""
    assert server.get("/films?limit=3").get("row-count") == "3"


def test_parameters_and_requirements_of_the_statement(films):
    server = films(more='''
[[endpoint]]
path = "/films/{least:int}/after"
get = "SELECT id, popularity FROM films WHERE id > :least AND (cast(:most AS int) IS NULL OR id < :most)"
params.most = "int"
require = "present(header.x-who)"
[endpoint.list]
filter = ["popularity"]
order = "-id"
''')
    assert server.get("/films/3/after").status == 403
    assert ids(server.get("/films/3/after?most=7&popularity=gt.0", "X-Who: me")) == [6, 4]
    parameter, detail = refusal(server.get("/films/3/after?mist=7", "X-Who: me"))
    assert "possible are: popularity, sort, limit, offset, fields, or, and, after, before, most" in detail
    assert refusal(server.get("/films/3/after?most=7&most=8", "X-Who: me"))[0] == "most"
    assert server.get("/films/3/after?most=x", "X-Who: me").status == 400
    assert refusal(server.get("/films/3/after?q=x", "X-Who: me"))[0] == "q"
    assert refusal(server.get("/films/3/after?count=exact", "X-Who: me"))[0] == "count"


def test_joins_expressions_and_json(films):
    server = films(more='''
[[endpoint]]
path = "/years"
get = "SELECT substr(released, 1, 4) AS year, count(*) AS films FROM films GROUP BY 1"
[endpoint.list]
filter = ["films", "year"]
order = "year"
''')
    rows = json.loads(server.get("/years?films=gte.2").body)
    assert rows == [{"year": "2001", "films": 2}]
    assert [row["year"] for row in json.loads(server.get("/years?year=gt.2001").body)] == ["2010", "2020"]


def test_a_semicolon_a_short_limit_and_the_last_page(films):
    server = films("""
[[endpoint]]
path = "/short"
get = "SELECT id, name FROM films;"
list = { order = "id", limit = 3, filter = ["id"] }
""")
    assert ids(server.get("/short")) == [1, 2, 3]
    last = server.get("/short?before=end")
    assert ids(last) == [5, 6, 7] and link(last, "next") is None
    assert ids(server.get("/short?" + link(last, "prev"))) == [2, 3, 4]


def test_json_of_sqlite_stays_json(sluice, tmp_path):
    with sqlite3.connect(tmp_path / "main.db") as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, j JSON)")
        database.execute("INSERT INTO t VALUES (1, '{\"a\":1}')")
    database.close()
    server = sluice('''
[database.main]
url = "sqlite:main.db"
[[endpoint]]
path = "/t"
get = "SELECT id, j, json_array(id, 'x') AS list FROM t"
[endpoint.list]
order = "id"
count = true
''')
    expected = [{"id": 1, "j": {"a": 1}, "list": [1, "x"]}]
    assert json.loads(server.get("/t").body) == expected
    assert json.loads(server.get("/t?count=exact").body) == expected


def test_text_search_of_the_database(request, films):
    server_of = films
    is_sqlite = "sqlite" in request.node.callspec.id
    if is_sqlite:
        statements = ["CREATE VIRTUAL TABLE films_fts USING fts5(name, content='films', content_rowid='id')",
                      "INSERT INTO films_fts(films_fts) VALUES ('rebuild')"]
        column, search = "", 'search = { fts = "films_fts" }'
    else:
        statements = ["ALTER TABLE films ADD document tsvector GENERATED ALWAYS AS (to_tsvector('simple', "
                      "coalesce(name, ''))) STORED"]
        column, search = ", document", 'search = { tsvector = "document", config = "simple" }'
    server = server_of(more=f'''
[[endpoint]]
path = "/found"
get = "SELECT id, name{column} FROM films"
[endpoint.list]
{search}
order = "id"
''', statements=statements)
    assert ids(server.get("/found?q=harbor")) == [1, 2]
    assert ids(server.get("/found?q=bridge+old")) == [2]
    assert ids(server.get("/found?q=harb")) == []
    assert ids(server.get('/found?q=%22)*+OR')) == []  # signs of the search expression are no syntax
    assert "document" not in json.loads(server.get("/found?q=harbor").body)[0]
    assert refusal(server.get("/found?fields=document"))[0] == "fields"


def test_batch(films):
    server = films(more='[batch]\npath = "/batch"\n')
    with server.connect() as connection:
        body = json.dumps([{"method": "GET", "path": "/films?adult=true&sort=-popularity"}])
        answer = connection.call("POST", "/batch", body.encode(), "Content-Type: application/json")
    assert [row["id"] for row in json.loads(answer.body)[0]["body"]] == [2, 5]


def shapes():
    """Query strings whose statements differ."""
    columns = ["id", "slug", "name", "adult", "popularity", "released"]
    for sort in itertools.product(["", "-"], itertools.permutations(["popularity", "released", "name"])):
        for bits in range(1, 64):
            for condition in ("", "&adult=true", "&popularity=gt.0", "&released=lt.2000-01-01", "&name=like.*a*", "&q=a",
                              "&or=(id.eq.1,adult.is.true)", "&id=in.(1,2)", "&id=in.(1,2,3)", "&count=exact",
                              "&offset=1", "&popularity=is.null", "&name=neq.a", "&slug=gte.f"):
                fields = ",".join(column for bit, column in enumerate(columns) if bits >> bit & 1)
                yield f"fields={fields}&sort={sort[0]}{f',{sort[0]}'.join(sort[1])}{condition}"


def test_a_session_keeps_a_bounded_number_of_statements(sluice, postgres):
    postgres.psql("DROP TABLE IF EXISTS films CASCADE; " + "; ".join(STATEMENTS))
    server = sluice(CONFIG.format(url=postgres.url(), more='''
[[endpoint]]
path = "/kept"
returns = "object"
get = "SELECT count(*) AS kept FROM pg_prepared_statements"
''').replace('"\n[[endpoint]]', '"\npool = 1\nstatements = 64\n[[endpoint]]', 1), server="cores = 1")
    most = 0
    with server.connect() as connection:
        for n, query in enumerate(itertools.islice(shapes(), int(os.environ.get("SLUICE_LIST_SHAPES", "400")))):
            assert connection.get(f"/films?{query}").status == 200
            if n % 100 == 99:
                most = max(most, json.loads(connection.get("/kept").body)["kept"])
        assert json.loads(connection.get("/films?limit=1").body)[0]["id"] == 1
    assert 64 <= most <= 64 + 2  # and the statements of the configuration


def check(tmp_path, config):
    (tmp_path / "checked.toml").write_text(config)
    run = subprocess.run([SLUICE, "check", "checked.toml"], cwd=tmp_path, capture_output=True, text=True)
    return run.returncode, run.stderr + run.stdout


@pytest.fixture(params=["sqlite", "postgres"])
def checked(request, tmp_path):
    if request.param == "postgres":
        request.getfixturevalue("postgres").psql("DROP TABLE IF EXISTS films CASCADE")
    url = database_with(request, tmp_path, STATEMENTS)

    def run(get, options):
        return check(tmp_path, f'[database.main]\nurl = "{url}"\n[[endpoint]]\npath = "/films/{{n:int}}"\nget = """{get}"""\n'
                               f"[endpoint.list]\n{options}\n")
    run.is_sqlite = request.param == "sqlite"
    return run


@pytest.mark.parametrize("options, says", [
    ('order = "nope"', '"order": there is no field "nope"'),
    ('order = "id"\nfilter = ["nmae"]', 'returns no column "nmae", which "filter" names'),
    ('order = "id"\nfilter = ["name", "name"]', 'names "name" twice'),
    ('order = "id"\nsort = ["nope"]', 'returns no column "nope", which "sort" names'),
    ('order = "id"\nsearch = ["nope"]', 'returns no column "nope", which "search" names'),
    ('order = "id"\nlimit = { default = 300 }', "default is 300, more than max, which is 200"),
    ('order = "id"\nsearch = ["name", { fts = "x" }]', "stand alone"),
    ("filter = []", "order"),
])
def test_check_refuses(checked, options, says):
    code, text = checked("SELECT id, name FROM films WHERE id > :n", options)
    assert code == 3, text
    assert says in text


def test_check_refuses_what_cannot_be_compared(checked):
    get = "SELECT id, name AS limit_, name AS q, {} AS j FROM films WHERE id > :n"
    get = get.format("json_array(1)" if checked.is_sqlite else "json_build_array(1)")
    for options, says in (('order = "id"\nfilter = ["j"]', "without equality"),
                          ('order = "id"\nsort = ["j"]', "have no order"), ('order = "j"', "have no order"),
                          ('order = "id"\nfilter = ["q"]', "has another meaning here")):
        code, text = checked(get, options)
        assert code == 3 and says in text, text


def test_parameters_of_get_and_the_list_have_different_names(checked):
    code, text = checked("SELECT id, name FROM films WHERE id > :n AND name <> :sort", 'order = "id"')
    assert code == 3 and '?sort= belongs to the list; give the parameter of "get" another name' in text


def test_a_parameter_is_no_barrier(checked):
    for get in ("SELECT id, name FROM films WHERE id > :n AND id < :limitless",
                "SELECT id, name FROM films WHERE id > :n UNION ALL SELECT id, name FROM films"):
        code, text = checked(get, 'order = "id"')
        assert code == 0 and "has LIMIT" not in text and "has UNION" not in text, text


def test_check_warns_and_gives_hints(checked):
    options = 'order = "id"\nfilter = ["popularity", "released"]\nsort = ["popularity", "released"]\nsearch = ["name"]'
    code, text = checked("SELECT id, name, popularity, released FROM films WHERE :n = :n", options)
    assert code == 0 and "hint" in text
    code, text = checked("SELECT DISTINCT id, name, popularity, released FROM films WHERE id > :n", options)
    assert code == 0
    assert '"get" has DISTINCT' in text and 'the plan of "get"' in text


def test_hints_name_columns_without_an_index(checked, tmp_path, request):
    url = request.getfixturevalue("postgres").url() if not checked.is_sqlite else f"sqlite:{tmp_path}/main.db"
    code, text = check(tmp_path, f'''
[database.main]
url = "{url}"
[[endpoint]]
path = "/films"
get = "SELECT id, name, popularity, released FROM films"
[endpoint.list]
filter = ["popularity", "released", "id"]
sort = ["popularity", "released"]
order = "id"
''')
    assert code == 0, text
    assert 'hint: checked.toml:7:1: endpoint /films: no index serves "filter" by: released\n' in text
    assert 'no index serves "sort" by: released\n' in text


def test_explain(films, tmp_path):
    server = films()
    run = subprocess.run([SLUICE, "explain", "GET", "/films?popularity=gte.10&sort=-name", "--config", server.file.name], cwd=tmp_path,
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert 'WHERE list."popularity" >= ' in run.stdout
    assert "ORDER BY" in run.stdout and "plan" in run.stdout
    assert "10" in run.stdout
    run = subprocess.run([SLUICE, "explain", "GET", "/films?popularity=x", "--config", server.file.name], cwd=tmp_path,
                         capture_output=True, text=True)
    assert "a number is possible" in run.stdout
