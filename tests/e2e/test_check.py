"""Mistakes that would start but behave unexpectedly: `sluice check` finds them, and each message says how to write it instead."""
import os
import re
import sqlite3
import subprocess

import pytest

from conftest import SLUICE
from test_config import place

SCHEMA = """
CREATE TABLE movies (id integer PRIMARY KEY, name text, link text);
CREATE TABLE genres (id integer PRIMARY KEY, label text);
CREATE TABLE shows (id integer PRIMARY KEY, name text NOT NULL, seats integer NOT NULL DEFAULT 1, at text NOT NULL);
"""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def check(request, tmp_path_factory):
    """check(text, *, good=False): the output of `sluice check` for a [database.main] and the text, which begins in line 3."""
    folder = tmp_path_factory.mktemp("check")
    if request.param == "sqlite":
        with sqlite3.connect(folder / "a.db") as database:
            database.executescript(SCHEMA)
        database.close()
        url = "sqlite:a.db"
    else:
        cluster = request.getfixturevalue("postgres")
        cluster.psql("CREATE DATABASE checked")
        cluster.psql(SCHEMA, "checked")
        url = cluster.url("checked")

    def run(text, good=False):
        whole = f'[database.main]\nurl = "{url}"\n{text}'
        (folder / "sluice.toml").write_text(whole)
        done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=20, cwd=folder,
                              env=os.environ)
        assert done.returncode == (0 if good else 3), done.stdout + done.stderr
        return Said(whole, done.stderr)

    run.kind = request.param
    return run


class Said:
    def __init__(self, whole, text):
        self.whole, self.text = whole, text

    def names(self, needle, message, hint=""):
        """There is an error (or, if the message begins with "warning: ", a warning) at the needle's position."""
        kind = "warning: " if message.startswith("warning: ") else ""
        level = "" if kind else "error: "
        line = f"{kind}sluice.toml:{place(self.whole, needle)}: {level}{message.removeprefix(kind)}"
        assert line in self.text, self.text
        after = self.text[self.text.index(line) + len(line):]
        assert hint in re.split(r"^sluice\.toml:|^warning: ", after, maxsplit=1, flags=re.M)[0], self.text
        return self


def endpoint(get, path="/a", more=""):
    return f'[[endpoint]]\npath = "{path}"\nget = "{get}"\n{more}'


@pytest.mark.parametrize("pattern, hint", [
    ("'%:q%'", "'%' || :q || '%'"), ("':q'", "write :q"), ("'%:q'", "'%' || :q"), ("CAST(:q AS text) IS NULL OR name LIKE ':q%'", ":q || '%'"),
])
def test_a_parameter_within_quotes_is_text(check, pattern, hint):
    get = f"SELECT id FROM movies WHERE {pattern if 'LIKE' in pattern else 'name LIKE ' + pattern}"
    quoted = re.search(r"'[^']*'", get)[0]
    if get.count(":q") == 1:  # ":q" may be the text to search for
        check(endpoint(get), good=True).names(quoted.lstrip("'%"), 'warning: endpoint /a: ":q" within quotes is text', hint)
    said = check(endpoint(get, more="" if get.count(":q") == 2 else 'params.q = "text"\n'))
    said.names(get[get.index(quoted) + quoted.index(":q"):], 'endpoint /a: ":q" within quotes is text, and takes no value', hint)
    assert said.text.count("error:") == 1, said.text


def test_a_parameter_of_the_path_within_quotes(check):
    said = check(endpoint("SELECT id FROM movies WHERE name = ':name'", "/movies/{name}"))
    said.names(":name'", 'endpoint /movies/{name}: ":name" within quotes is text, and takes no value', "write :name")
    said = check('[[endpoint]]\npath = "/movies/{id:int}"\npatch = "UPDATE movies SET name = \':name\' WHERE id = :id"\n'
                 'params.name = { from = "query.name" }\n')
    said.names(":name'", 'endpoint /movies/{id:int}: ":name" within quotes is text, and takes no value')
    # A parameter that no statement uses, inside a longer text.
    said = check(endpoint("SELECT id FROM movies WHERE link = '/movies/:name'", "/movies/{name}"))
    said.names("{name}", "endpoint /movies/{name}: the statement does not use :name", "write '/movies/' || :name")


def test_texts_with_colons_are_texts(check):
    said = check(endpoint("SELECT '12:30' AS at, 'a::b' AS cast_like, 'x:name' AS word, '{\\\"name\\\":true}' AS json, "
                          "'/movies/:name' AS template, 'http://name' AS url, ': name' AS blank, '(:id)' AS other, "
                          "name FROM movies WHERE name = :name", "/movies/{name}"), good=True)
    assert said.text == ""


def test_two_columns_of_one_name(check):
    both = "SELECT m.id, g.id FROM movies m CROSS JOIN genres g"
    check(endpoint(both)).names('"SELECT', 'endpoint /a: two columns are called "id"', "AS")
    check(endpoint("SELECT * FROM movies m CROSS JOIN genres g")).names('"SELECT', 'endpoint /a: two columns are called "id"')
    check(endpoint(both, more='returns = "object"\n')).names('"SELECT', 'endpoint /a: two columns are called "id"')
    check('[[endpoint]]\npath = "/a"\npost = "INSERT INTO movies (id) VALUES (:id) RETURNING name, name"\n').names(
        '"INSERT', 'endpoint /a: two columns are called "name"')
    check(endpoint("SELECT m.id, g.id AS genre FROM movies m CROSS JOIN genres g"), good=True)


@pytest.mark.parametrize("text, needle, says, hint", [
    (endpoint("SELECT 1 AS a", more='[endpoint.params]\ntimeout = "5s"\n'), "timeout",
     '"timeout" is a key of [[endpoint]]; it stands below [endpoint.params]', "move it above [endpoint.params]"),
    ('[[endpoint]]\npath = "/a"\n[endpoint.params.q]\ntype = "int"\nget = "SELECT :q AS a"\n', "get",
     '"get" is a key of [[endpoint]]; it stands below [endpoint.params.q]', "move it above [endpoint.params.q]"),
    ('[[endpoint]]\npath = "/a"\n[endpoint.post]\nsql = "DELETE FROM movies"\nget = "SELECT 1 AS a"\n', "get",
     '"get" is a key of [[endpoint]]; it stands below [endpoint.post]', "move it above [endpoint.post]"),
    ('[[endpoint]]\npath = "/a"\n[endpoint.post]\ntable = "movies"\n[endpoint.post.columns]\nname = {}\nreturning = "id"\n',
     "returning", '"returning" is a key of [endpoint.post]; it stands below [endpoint.post.columns]',
     "move it above [endpoint.post.columns]"),
    (endpoint("SELECT 1 AS a", more='[endpoint.errors]\ncache_control = "no-store"\n'), "cache_control",
     '"cache_control" is a key of [[endpoint]]; it stands below [endpoint.errors]', ""),
    (endpoint("SELECT 1 AS a") + '[server.headers]\nX-A = "b"\nidle_timeout = "9s"\n', "idle_timeout",
     '"idle_timeout" is a key of [server]; it stands below [server.headers]', "move it above [server.headers]"),
    (endpoint("SELECT 1 AS a") + "[server.headers]\ncores = 2\n", "cores",
     '"cores" is a key of [server]; it stands below [server.headers]', ""),
    (endpoint("SELECT 1 AS a") + "[admin]\ncores = 2\n", "cores", 'unknown key "cores" in [admin]', '"cores" is a key of [server]'),
    (endpoint("SELECT 1 AS a", more='sql = "DELETE FROM movies"\n'), "sql", 'unknown key "sql" in [[endpoint]]', ""),
])
def test_a_key_below_the_wrong_header(check, text, needle, says, hint):
    said = check(text)
    said.names(re.search(rf"^{needle} =.*$", text, re.M)[0], says, hint)
    assert said.text.count("error:") == 1, said.text


POLICY = '[policy.auth]\ntype = "jwt"\nsecret = "0123456789abcdef0123456789abcdef"\n'


@pytest.mark.parametrize("text, needle, hint", [
    (endpoint("SELECT id FROM moveis"), None, "movies"),
    (endpoint("SELECT nmae FROM movies"), None, "name"),
    (endpoint("SELECT m.nmae FROM movies m"), None, "name"),
    (endpoint("SELECT lable FROM genres"), None, "label"),
    (endpoint("SELECT 1 AS a", more='require = "exists(SELECT 1 FROM moveis)"\n'), None, "movies"),
    ('[[endpoint]]\npath = "/a"\npost = "INSERT INTO movies (nmae) VALUES (:n)"\n', None, "name"),
    ('[[endpoint]]\npath = "/a"\n[endpoint.post]\ntable = "moveis"\ncolumns.name = {}\n', '"moveis"', "movies"),
    ('[[endpoint]]\npath = "/a"\n[endpoint.post]\ntable = "movies"\ncolumns.nmae = {}\n', "nmae", "name"),
    ('[[endpoint]]\npath = "/a"\n[endpoint.put]\ntable = "movies"\nexisting = "SELECT id FROM moveis"\ncolumns.id = { key = true }\n',
     None, "movies"),
    ('[[resident]]\nname = "all"\nquery = "SELECT id FROM moveis"\n', None, "movies"),
    ('[request_log]\ntable = "moveis"\n' + endpoint("SELECT 1 AS a"), '"moveis"', "movies"),
    (POLICY + endpoint("SELECT 1 AS a", more='use = ["outh"]\n'), '"outh"', "auth"),
])
def test_did_you_mean(check, text, needle, hint):
    said = check(text)
    by_postgres = f"Perhaps you meant to reference the column \"\\w+\\.{hint}\""
    assert f'did you mean "{hint}"?' in said.text or (check.kind == "postgres" and re.search(by_postgres, said.text)), said.text
    assert said.text.count("error:") == 1, said.text
    if needle:
        assert f"sluice.toml:{place(said.whole, needle)}: error:" in said.text


POLICY = '[policy.a]\ntype = "jwt"\n'
SECRETS = [POLICY + 'secret = ["hush"]\n', POLICY + 'secret = {a = "hush"}\n', POLICY + 'Secret = "hush"\n', POLICY + 'secrt = "hush"\n',
           POLICY + 'public_key = "hush"\n', POLICY + 'secret = hush\n', POLICY + 'secret: "hush"\n', POLICY + 'secret = """\nhush\\x"""\n',
           '[server.headers]\nX-Api-Key = "hush" 5\n', '[server]\ncorse = 1 # hush\n', '[server]\ngrace = "hush"\n',
           '[database.b]\nurl = "sqlite:postgres://u:hush@h"\n', '[database.b]\nurl = "sqlite://u:hush@h"\n',
           endpoint("SELECT :a AS a", more='params.a = { type = "int", default = "hush" }\n'),
           endpoint("SELECT 1 AS a", more="""require = "eq(header.x-api-key,'hush'"\n"""), endpoint("SELEC 'hush'"),
           endpoint("SELECT 'hush'::int AS a"), endpoint("SELECT x'hush' AS a"), endpoint("SELECT nope, $$hush$$"),
           endpoint("SELECT nope, $q$hush$q$"), endpoint("SELEC $$hush$$"), endpoint("SELECT '{1,hush}'::int[] AS a"),
           endpoint(r"SELECT E'it\\'s hush'::int AS a"), endpoint(r"SELECT nope, E'\\'hush'"), endpoint("SELECT nope /* /* */ it's */, 'hush'")]


@pytest.mark.parametrize("text", SECRETS)
def test_no_message_repeats_a_value_that_may_be_secret(check, text):
    assert "hush" not in check(text if "[[endpoint]]" in text else text + endpoint("SELECT 1 AS a")).text


@pytest.mark.parametrize("text, needle, says, hint", [
    (endpoint("SELECT 1 AS a", "/a/:id"), ":id", 'a part of a path does not begin with ":"', "{name}"),
    (endpoint("SELECT :b AS a", more='params.b.from = "body.b"\n'), '"SELECT', "GET takes no body for :b", ""),
    (endpoint("SELECT 1 AS a", more="errors.23XXX = 409\n"), "23XXX", 'is no SQLSTATE', "23xxx"),
    ('[[endpoint]]\npath = "/a"\n[endpoint.post]\ntable = "movies"\ncolumns.id = {}\nschema = { required = ["zz"] }\n', "{ required",
     'the schema requires "zz", which this method does not take', "")])
def test_what_no_request_could_meet(check, text, needle, says, hint):
    said = check(text).text
    assert says in said and hint in said, said


@pytest.mark.parametrize("options, needle, says", [
    ("{ values = [] }", "[]", "values must not be empty"),
    ('{ values = ["a", "b", "a"] }', '"a"]', '"p" has this value already'),
    ('{ type = "real", values = [1, 2, 1.0] }', "1.0", '"p" has this value already'),
    ('{ type = "int", values = [1, "x"] }', '"x"', 'this does not fit the type of "p"'),
    ('{ type = "int[]", values = [1, "x"] }', '"x"', 'this does not fit the type of "p"'),
    ('{ type = "int", values = [1], max = 2 }', "2", '"values" lists all possible values, so they have no "min" or "max"'),
    ('{ type = "int", min = 2, max = 1 }', "2, max", '"min" is above "max"'),
    ('{ min = "a" }', '"a"', "must be a number"),
    ('{ type = "text", min = 1 }', "1 }", '"min" and "max" are for numbers, and the type of "p" is text'),
    ('{ values = ["a"], default = "b" }', '"b"', 'this default of "p" must be one of: a'),
    ('{ type = "int", min = 1, default = 0 }', "0 }", 'this default of "p" must be at least 1')])
def test_possible_values_that_contradict_each_other(check, options, needle, says):
    said = check(endpoint("SELECT id FROM movies WHERE :p IS NOT NULL", more=f"params.p = {options}\n"))
    position = place(said.whole, f"params.p = {options}")
    line, column = (int(part) for part in position.split(":"))
    column += f"params.p = {options}".rindex(needle)
    assert re.search(rf"^sluice.toml:{line}:{column}: error: .*{re.escape(says)}", said.text, re.M), said.text
    assert said.text.count("error:") == 1, said.text


def test_possible_values_that_the_database_does_not_take(check):
    said = check(endpoint("SELECT id FROM movies WHERE name = :name AND id = :id",
                          more='params.name.min = 7\nparams.id.values = [5, "x"]\n'))
    said.names("7\n", 'endpoint /a: "min" and "max" are for numbers, and the database does not take "name" for one')
    said.names('"x"]', 'endpoint /a: this value of "id" must be an integer')
    assert said.text.count("error:") == 2, said.text
    post = '[[endpoint]]\npath = "/a"\n[endpoint.post]\ntable = "movies"\ncolumns.id = {}\ncolumns.link = { ignored = true, %s }\n'
    check(post % 'values = ["a"]').names("true,", 'the column "link" is ignored, so it has no other keys')


def test_a_delete_does_not_pass_over_a_column_that_is_no_key(check):
    """Its value would not be compared, and the row would be deleted for any value."""
    delete = '[[endpoint]]\npath = "/a/{id}"\n[endpoint.delete]\ntable = "movies"\ncolumns.id = { key = true, from = "path.id" }\n'
    said = check(delete + 'columns.name = { required = true, from = "header.x-owner" }\ncolumns.link = {}\n')
    for column in ("name", "link"):
        said.names(f"{column} = {{", f'"{column}" is not a key, and a DELETE takes keys only', "key = true")
    assert said.text.count("error:") == 2, said.text
    check(delete + 'columns.name = { key = true, from = "header.x-owner" }\ncolumns.link = { ignored = true }\n', good=True)


def test_a_column_that_must_not_be_null_is_missed(check):
    said = check('[[endpoint]]\npath = "/a"\n[endpoint.post]\ntable = "shows"\ncolumns.id = {}\ncolumns.at = {}\n', good=True)
    said.names('"shows"', 'warning: endpoint /a: new rows have no "name"', "columns.name")
    assert said.text.count("warning") == 1, said.text


def test_a_role_on_sqlite_is_one_error(tmp_path):
    config = tmp_path / "sluice.toml"
    config.write_text('[database.main]\nurl = "sqlite::memory:"\nrole = "claim.role"\n' + endpoint("SELECT 1 AS a"))
    done = subprocess.run([SLUICE, "check", config], capture_output=True, text=True, timeout=20)
    assert '"role" is for PostgreSQL' in done.stderr and "jwt" not in done.stderr, done.stderr


def test_a_parameter_where_postgres_takes_none(check):
    said = check(endpoint("SELECT interval :d AS a")).text
    assert ("CAST(:d AS interval)" in said) == (check.kind == "postgres"), said


def test_what_the_database_finds_is_said_with_the_rest(check):
    text = (endpoint("SELECT nmae FROM movies", more='retuns = "object"\n')
            + endpoint("SELECT id FROM moveis", "/b")
            + '[[endpoint]]\npath = "/c"\n[endpoint.post]\ntable = "genre"\ncolumns.label = {}\n[endpoint.put]\n'
              'table = "genres"\ncolumns.lable = {}\n[endpoint.delete]\nsql = "DELETE FORM genres"\nbefore = ["DELETE FROM x"]\n'
            + '[[resident]]\nname = "all"\nquery = "SELECT idd FROM genres"\n'
            + endpoint("SELECT id FROM movies WHERE name = :n", "/fine", 'params.n = { from = "nowhere" }\n'))
    said = check(text)
    said.names("retuns", 'unknown key "retuns" in [[endpoint]]')
    said.names('"nowhere"', "endpoint.params.n.from")
    for what in ("nmae", "moveis", "genre", "lable", "idd", "FORM"):
        assert re.search(rf'error: .*"?{what}\b', said.text), (what, said.text)
    assert said.text.count("error:") == 9, said.text
    lines = [int(line) for line in re.findall(r"^sluice\.toml:(\d+):", said.text, re.M)]
    assert lines == sorted(lines)


def test_a_weak_secret_and_all_of_a_schema_are_said_with_the_rest(check):
    schema = ('[[endpoint]]\npath = "/c"\n[endpoint.post]\ntable = "genres"\ncolumns.label = {}\n'
              'schema = { type = "objekt", patern = "a", properties = { label = { minLength = -1 } } }\n')
    said = check(POLICY + 'secret = "short"\n' + endpoint("SELECT nmae FROM movies", more='retuns = "object"\n') + schema)
    said.names("retuns", 'unknown key "retuns" in [[endpoint]]').names("[policy.a]", "the secret has 5 bytes; HS256 needs 32")
    for what in ("/type: a type is one of", '/patern: the keyword "patern" is not known', "/properties/label/minLength: must be"):
        said.names("{ type", f'endpoint "/c": the schema, at {what}')
    assert said.text.count("error:") == 6, said.text
    # Errors that only follow from another one are not reported.
    assert check(POLICY + 'secret = "${SLUICE_NOT_THERE}"\n' + endpoint("SELECT 1 AS a")).text.count("error:") == 1
    assert check(schema.replace('{ type = "objekt"', '7 # ')).text.count("error:") == 1


def test_a_database_that_is_away_does_not_hide_the_rest(tmp_path):
    text = '[database.main]\nurl = "postgres://u@127.0.0.1:1/x"\n' + endpoint("SELECT 1 AS a", more='retuns = "object"\n')
    (tmp_path / "sluice.toml").write_text(text)
    done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=20, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert 'unknown key "retuns"' in done.stderr
    assert f"sluice.toml:{place(text, chr(34) + 'postgres')}: error: " in done.stderr and "have not been checked" in done.stderr


def test_a_requirement_that_the_client_decides_is_told_of(tmp_path):
    sqlite3.connect(tmp_path / "main.db").execute("CREATE TABLE t (id integer, owner text)").connection.close()
    config = ('[database.main]\nurl = "sqlite:main.db"\n[[endpoint]]\npath = "/t/{id:int}"\nget = "SELECT owner FROM t WHERE id = :id"\n'
              'require = "exists(SELECT 1 FROM t WHERE id = :%s)"\n')
    for name, more, is_told in (("id", "", False), ("idd", "", True), ("idd", 'params.idd.from = "query.idd"\n', False)):
        (tmp_path / "sluice.toml").write_text(config % name + more)
        done = subprocess.run([SLUICE, "check", "sluice.toml"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert ("sluice.toml:6:11: endpoint /t/{id:int}: :idd in this requirement is a parameter of the query string" in
                done.stderr) == is_told, done.stderr
