"""A set's own statements: `delete`, `insert` and `update` of [endpoint.put], on both databases."""
import json
import os
import sqlite3
import subprocess

import pytest

from conftest import SLUICE
from test_sets import counts
from test_write import Films

COLUMNS = '''columns.film = {{ key = true, from = "path.slug" }}
columns.tag = {{ key = true }}
columns.weight = {{}}
'''
CONFIG = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/tags/{{slug}}"
get = "SELECT tag, weight FROM tags WHERE film = :slug AND deleted_at IS NULL ORDER BY tag"
params.who = {{ from = "header.X-Who", type = "int", default = 7 }}
[endpoint.put]
table = "tags"
existing = "SELECT tag FROM tags WHERE film = :slug AND deleted_at IS NULL -- those that are there"
delete = "UPDATE tags SET deleted_at = CURRENT_TIMESTAMP, deleted_by = :who WHERE film = :film AND tag = :tag -- softly"
insert = """INSERT INTO tags (film, tag, weight) VALUES (:film, :tag, :weight)
            ON CONFLICT (film, tag) DO UPDATE SET deleted_at = NULL, weight = :weight;"""
update = "UPDATE tags SET weight = :weight WHERE film = :slug AND tag = :tag"
max_deleted = 600
''' + COLUMNS + '''[endpoint.patch]
table = "tags"
set = true
existing = "SELECT tag FROM tags WHERE film = :slug AND deleted_at IS NULL"
insert = """INSERT INTO tags (film, tag, weight) VALUES (:film, :tag, :weight)
            ON CONFLICT (film, tag) DO UPDATE SET deleted_at = NULL RETURNING tag"""
update = "INSERT INTO history (film, tag, weight, who) VALUES (:film, :tag, :weight, :who)"
''' + COLUMNS + '''[[endpoint]]
path = "/plain/{{slug}}"
[endpoint.put]
table = "tags"
existing = "SELECT tag FROM tags WHERE film = :slug"
max_deleted = 600
''' + COLUMNS + '''[[endpoint]]
path = "/kept/{{slug}}"
[endpoint.put]
table = "tags"
existing = "SELECT tag FROM tags WHERE film = :slug"
delete = "UPDATE tags SET weight = 0 WHERE film = :film AND tag = :tag AND weight = :weight AND weight < 50"
insert = "INSERT INTO tags (film, tag) SELECT :film, :tag WHERE :weight < 50"
''' + COLUMNS
SCHEMA = '''
CREATE TABLE tags (film text NOT NULL, tag text NOT NULL, weight numeric CONSTRAINT light CHECK (weight < 100), deleted_at {time},
                   deleted_by integer, PRIMARY KEY (film, tag));
CREATE TABLE history (film text, tag text, weight numeric, who integer)
'''


@pytest.fixture(params=["sqlite", "postgres", "pooled"])
def films(request, sluice, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "sets.db"

        def query(sql):
            database = sqlite3.connect(path, timeout=10, isolation_level=None)
            try:
                return [tuple("" if value is None else str(value) for value in row) for row in database.execute(sql)]
            finally:
                database.close()

        schema, url = SCHEMA.format(time="text"), f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql).decode().splitlines()]

        schema = "DROP TABLE IF EXISTS tags; DROP TABLE IF EXISTS history;" + SCHEMA.format(time="timestamptz")
        url = postgres.url()
    for statement in schema.split(";"):
        query(statement)
    config = CONFIG.format(url=url)
    if request.param == "pooled":
        config = config.replace("[database.main]\n", "[database.main]\nprepared = false\n")
    films = Films(sluice(config, server='body_limit = "64MiB"'), request.param, query)
    films.url = url
    return films


def rows(numbers, weight=1):
    return [{"tag": f"tag {n}", "weight": weight} for n in numbers]


def number(films, condition):
    return int(films.query(f"SELECT count(*) FROM tags WHERE {condition}")[0][0])


@pytest.mark.parametrize("target", ["/tags/alien", "/plain/alien"])
def test_counts_and_limits_are_those_of_a_set(films, target):
    soft = target.startswith("/tags")
    assert counts(films.call("PUT", target, rows(range(1000)))) == (1000, 0, 0, 0)
    assert counts(films.call("PUT", target, rows(range(1000)))) == (0, 0, 0, 1000)
    half = rows(range(0, 1000, 2))
    assert counts(films.call("PUT", target + "?dry-run", half)) == (0, 0, 500, 500)
    assert number(films, "deleted_at IS NULL") == 1000
    for most, body, deleted in (("?max-deleted=499", half, 500), ("", rows(range(300)), 700), ("", [], 1000)):
        assert films.problem(409, "PUT", target + most, body)["deleted"] == deleted
    assert number(films, "deleted_at IS NULL") == 1000
    assert counts(films.call("PUT", target, half)) == (0, 0, 500, 500)
    assert number(films, "deleted_at IS NOT NULL AND deleted_by = 7") == (500 if soft else 0)
    assert counts(films.call("PUT", target, half)) == (0, 0, 0, 500)
    assert counts(films.call("PUT", target + "?dry-run", rows(range(1000), 2))) == (500, 500, 0, 0)
    assert number(films, "deleted_at IS NULL AND weight = 1") == 500
    assert counts(films.call("PUT", target, rows(range(1000), 2))) == (500, 500, 0, 0)
    assert number(films, "deleted_at IS NULL AND weight = 2") == 1000
    assert counts(films.call("PUT", target, rows([*range(600), 2000]))) == (1, 600, 400, 0)
    assert len(json.loads(films.call("GET", "/tags/alien").body)) == 601


def test_parameters_come_from_the_request_too(films):
    counts(films.call("PUT", "/tags/alien", rows(range(3))))
    assert counts(films.call("PUT", "/tags/alien", rows([0]), "X-Who: 12")) == (0, 0, 2, 1)
    assert number(films, "deleted_by = 12") == 2


def test_a_refused_row_is_listed_and_nothing_is_written(films):
    counts(films.call("PUT", "/tags/alien", rows(range(100))))
    counts(films.call("PUT", "/tags/alien", rows(range(0, 100, 2))))
    for numbers in (range(200), range(0, 100, 2)):  # by `insert`, which brings rows back, and by `update`
        body = rows(numbers, 3)
        body[30]["weight"] = body[41]["weight"] = 100
        found = films.problem(422, "PUT", "/tags/alien", body)
        assert [each["row"] for each in found["errors"]] == [30, 41]
        assert all("light" in each["detail"] for each in found["errors"])
        assert number(films, "weight = 1") == 100 and number(films, "deleted_at IS NULL") == 50
    assert counts(films.call("PUT", "/tags/alien", rows(range(200), 3))) == (150, 50, 0, 0)


def test_a_patch_has_own_statements_too(films):
    counts(films.call("PUT", "/tags/alien", rows(range(4))))
    counts(films.call("PUT", "/tags/alien", rows(range(2))))
    body = [{"tag": "tag 0"}, {"tag": "tag 1", "weight": 9}, {"tag": "tag 3"}, {"tag": "new", "weight": 5}]
    assert counts(films.call("PATCH", "/tags/alien?dry-run", body)) == (2, 1, 0, 1)
    assert counts(films.call("PATCH", "/tags/alien", body)) == (2, 1, 0, 1)
    assert films.query("SELECT * FROM history") == [("alien", "tag 1", "9", "7")]
    assert number(films, "deleted_at IS NULL") == 4 and number(films, "weight = 1") == 4  # a row that is back keeps its weight


def test_a_statement_that_changes_no_row_leaves_it_unchanged(films):
    counts(films.call("PUT", "/plain/alien", rows(range(2), 10) + rows(range(2, 4), 60)))
    body = rows(range(10, 12), 10) + rows(range(12, 15), 60)
    assert counts(films.call("PUT", "/kept/alien", body)) == (2, 0, 2, 3)
    assert number(films, "weight = 0") == 2 and number(films, "weight = 60") == 2


def check(folder, config):
    (folder / "sluice.toml").write_text(config)
    done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=20, cwd=folder, env=os.environ)
    return done.returncode, done.stderr


@pytest.mark.parametrize("old, new, message, hint", [
    ("tag = :tag -- softly", "tag = :tga", '":tga" is no column of the set, and no parameter of the path', 'did you mean "tag"?'),
    ("deleted_by = :who", "deleted_by = :note", '":note" is no column of the set', "add columns.note"),
    ("SET deleted_at = CURRENT_TIMESTAMP", "SET gone = 1", "gone", "column"),
])
def test_statements_are_checked_at_the_start(films, tmp_path, old, new, message, hint):
    config = CONFIG.format(url=films.url)
    assert old in config
    assert check(tmp_path, config) == (0, "")
    status, output = check(tmp_path, config.replace(old, new))
    assert status == 3 and message in output and hint in output
    line = next(i for i, text in enumerate(config.replace(old, new).splitlines(), 1) if new in text)
    assert f"sluice.toml:{line}:" in output


def test_explain_prints_the_statements(films, tmp_path):
    (tmp_path / "sluice.toml").write_text(CONFIG.format(url=films.url))
    done = subprocess.run([SLUICE, "explain", "PUT", "/tags/alien"], capture_output=True, text=True, timeout=20, cwd=tmp_path)
    assert "deleted_by = :who" in done.stdout and "ON CONFLICT (film, tag) DO UPDATE" in done.stdout


PUT = '[endpoint.put]\ntable = "items"\ncolumns.id = { key = true }\n'


@pytest.mark.parametrize("method, keys, message, hint", [
    (PUT, 'delete = "DELETE FROM items"', '"delete" here is the statement of a set, a PUT that has "existing"',
     'an HTTP DELETE is declared as [endpoint.delete], or as "delete" of [[endpoint]]'),
    ('[endpoint.post]\nsql = "SELECT 1 AS a"\n', 'delete = "DELETE FROM items"', '"delete" here is the statement of a set',
     "an HTTP DELETE is declared as [endpoint.delete]"),
    (PUT.replace("put", "patch"), 'set = true\ndelete = "DELETE FROM items"', "a PATCH of a set deletes nothing", ""),
    (PUT, 'insert = "INSERT INTO items (id) VALUES (:id)"', '"insert" is a statement of a set', ""),
    (PUT, 'existing = "SELECT id FROM items"\nupdate = ""', '"update" is an empty statement', ""),
    (PUT, 'existing = "SELECT id FROM items"\nupdate = "UPDATE items SET name = 1"', 'no use for "update"', ""),
])
def test_keys_that_are_of_a_set(tmp_path, method, keys, message, hint):
    with sqlite3.connect(tmp_path / "films.db") as database:
        database.execute("CREATE TABLE items (id integer PRIMARY KEY, name text)")
    status, output = check(tmp_path, f'[database.main]\nurl = "sqlite:films.db"\n[[endpoint]]\npath = "/items"\n{method}{keys}\n')
    assert status == 3 and message in output and hint in output and "move it" not in output
