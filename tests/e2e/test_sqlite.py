"""SQLite's schemas and functions: triggers, views and CHECKs that call functions; JSON in answers."""
import contextlib
import json
import sqlite3
import subprocess

import pytest

from conftest import SLUICE

# The first statements are copied from https://www.sqlite.org/fts5.html#external_content_tables.
SCHEMA = '''
CREATE TABLE tbl(a INTEGER PRIMARY KEY, b, c);
CREATE VIRTUAL TABLE fts_idx USING fts5(b, c, content='tbl', content_rowid='a');
CREATE TRIGGER tbl_ai AFTER INSERT ON tbl BEGIN
  INSERT INTO fts_idx(rowid, b, c) VALUES (new.a, new.b, new.c);
END;
CREATE TRIGGER tbl_ad AFTER DELETE ON tbl BEGIN
  INSERT INTO fts_idx(fts_idx, rowid, b, c) VALUES('delete', old.a, old.b, old.c);
END;
CREATE TRIGGER tbl_au AFTER UPDATE ON tbl BEGIN
  INSERT INTO fts_idx(fts_idx, rowid, b, c) VALUES('delete', old.a, old.b, old.c);
  INSERT INTO fts_idx(rowid, b, c) VALUES (new.a, new.b, new.c);
END;
CREATE TABLE docs (id INTEGER PRIMARY KEY, doc TEXT CHECK (json_valid(doc)));
CREATE VIEW names AS SELECT id, json_extract(doc, '$.name') AS name FROM docs;
CREATE TABLE films (id INTEGER PRIMARY KEY, title TEXT, extra JSON);
CREATE TABLE tags (film INTEGER, tag TEXT, PRIMARY KEY (film, tag));
INSERT INTO films VALUES (1, 'Heat', '{"year":1995}'), (2, 'Ran', 'no json'), (3, 'M', NULL);
INSERT INTO tags VALUES (1, 'crime'), (1, 'la'), (2, 'war');
'''
CONFIG = '''
[database.main]
url = "sqlite:{path}"
{trust}
[[endpoint]]
path = "/tbl"
post = "INSERT INTO tbl (b, c) VALUES (:b, :c)"
[[endpoint]]
path = "/tbl/{{id:int}}"
put = "UPDATE tbl SET b = :b, c = :c WHERE a = :id"
delete = "DELETE FROM tbl WHERE a = :id"
[[endpoint]]
path = "/found/{{word}}"
get = "SELECT tbl.a, tbl.b FROM fts_idx JOIN tbl ON tbl.a = fts_idx.rowid WHERE fts_idx MATCH :word ORDER BY tbl.a"
[[endpoint]]
path = "/docs"
post = "INSERT INTO docs (doc) VALUES (:doc)"
[[endpoint]]
path = "/names"
get = "SELECT * FROM names ORDER BY id"
'''


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "schema.db"
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    database.close()
    return path


def test_ordinary_schemas_work(sluice, path):
    with sluice(CONFIG.format(path=path, trust="")).connect() as connection:
        def call(method, target, body=None, status=200):
            answer = connection.call(method, target, body and json.dumps(body).encode(), "Content-Type: application/json")
            assert answer.status == status, (target, answer.status, answer.body)
            return json.loads(answer.body) if answer.body else None
        call("POST", "/tbl", {"b": "one word", "c": "two"}, 201)
        assert call("GET", "/found/word") == [{"a": 1, "b": "one word"}]
        call("PUT", "/tbl/1", {"b": "another", "c": "three"}, 204)
        assert call("GET", "/found/word") == [] and call("GET", "/found/another") == [{"a": 1, "b": "another"}]
        call("DELETE", "/tbl/1", status=204)
        assert call("GET", "/found/another") == []
        call("POST", "/docs", {"doc": '{"name":"Ann"}'}, 201)
        call("POST", "/docs", {"doc": "{"}, 422)
        assert call("GET", "/names") == [{"id": 1, "name": "Ann"}]


def test_a_file_of_others_is_not_trusted(path, tmp_path):
    (tmp_path / "sluice.toml").write_text('[server]\nlisten = ["127.0.0.1:0"]\n' + CONFIG.format(path=path, trust="untrusted = true"))
    checked = subprocess.run([SLUICE, "check"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 3
    assert 'endpoint /tbl: unsafe use of virtual table "fts_idx"' in checked.stderr
    assert "endpoint /names: unsafe use of json_extract()" in checked.stderr
    # A search in the configuration's own statement needs no trust in the file.
    assert "endpoint /found" not in checked.stderr


JSON_CONFIG = '''
[database.main]
url = "sqlite:{path}"
[openapi]
[[endpoint]]
path = "/films"
get = """SELECT id, json_object('title', title, 'tags', (SELECT json_group_array(tag) FROM tags WHERE film = id)) AS film,
         (SELECT json_group_array(tag) FROM tags WHERE film = id) AS tags, extra, title FROM films ORDER BY title"""
[endpoint.post]
sql = "INSERT INTO films (title, extra) VALUES (:title, :extra) RETURNING id, json_object('t', title) AS film, extra"
[[endpoint]]
path = "/all"
returns = "object"
get = "SELECT json_group_object(title, extra -> '$.year') AS years, count(*) AS n FROM films WHERE json_valid(extra)"
[[resident]]
name = "kept"
key = "id"
query = "SELECT id, json_object('title', title) AS film, extra FROM films"
'''


def test_a_burst_of_scans_waits_for_its_turn(sluice, path):
    """Two connections for 300 requests at once; once all but 66 of them were refused."""
    sqlite3.connect(path).executescript(
        "CREATE TABLE numbers (n); INSERT INTO numbers WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c "
        "LIMIT 2000) SELECT n FROM c")
    server = sluice(f'''
[database.main]
url = "sqlite:{path}"
pool = 2
wait = "10m"
[[endpoint]]
path = "/numbers"
get = "SELECT max(n) AS n FROM numbers WHERE n <> :n"
''', server="cores = 1")
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(300)]
        for number, connection in enumerate(connections):
            connection.send(f"GET /numbers?n={number} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert {(answer.status, answer.body) for answer in (one.read() for one in connections)} == {(200, b'[{"n":2000}]\n')}


def test_json_of_functions_is_json(sluice, path):
    server = sluice(JSON_CONFIG.format(path=path))
    films = json.loads(server.get("/films").body)
    assert films == [{"id": 1, "film": {"title": "Heat", "tags": ["crime", "la"]}, "tags": ["crime", "la"],
                      "extra": {"year": 1995}, "title": "Heat"},
                     {"id": 3, "film": {"title": "M", "tags": []}, "tags": [], "extra": None, "title": "M"},
                     {"id": 2, "film": {"title": "Ran", "tags": ["war"]}, "tags": ["war"], "extra": "no json", "title": "Ran"}]
    lines = server.get("/films.ndjson").body.splitlines()
    assert [json.loads(line) for line in lines] == films
    assert server.get("/films.csj").body.splitlines()[1] == (
        b'1,{"title":"Heat","tags":["crime","la"]},["crime","la"],{"year":1995},"Heat"')
    assert server.get("/films.csv").body.splitlines()[1] == (
        b'1,"{""title"":""Heat"",""tags"":[""crime"",""la""]}","[""crime"",""la""]","{""year"":1995}",Heat')
    assert json.loads(server.get("/all").body) == {"years": {"Heat": 1995}, "n": 1}
    with server.connect() as connection:
        answer = connection.call("POST", "/films", b'{"title":"Z","extra":["a"]}', "Content-Type: application/json")
        assert json.loads(answer.body) == [{"id": 4, "film": {"t": "Z"}, "extra": ["a"]}]
    kept = json.loads(server.get("/kept/1").body)
    assert kept == {"id": 1, "film": {"title": "Heat"}, "extra": {"year": 1995}}
    assert json.loads(server.get("/kept/2").body) == {"id": 2, "film": {"title": "Ran"}, "extra": "no json"}


VIEW = '''
CREATE TABLE documents (doc JSON NOT NULL);
CREATE TABLE typed (id INTEGER PRIMARY KEY, ok BOOLEAN, bytes BLOB, code TEXT);
CREATE VIEW shown AS SELECT id, upper(title) AS title FROM films;
CREATE TRIGGER shown_insert INSTEAD OF INSERT ON shown
BEGIN INSERT INTO films (id, title) VALUES (new.id, new.title); END;
CREATE TRIGGER shown_update INSTEAD OF UPDATE ON shown BEGIN UPDATE films SET title = new.title WHERE id = old.id; END;
CREATE TRIGGER shown_delete INSTEAD OF DELETE ON shown BEGIN DELETE FROM films WHERE id = old.id; END;
'''
VIEW_CONFIG = '''
[database.main]
url = "sqlite:{path}"
[[endpoint]]
path = "/typed"
post = """INSERT INTO typed (id, ok, bytes, code) VALUES (:id, :ok, :bytes, :code)
          ON CONFLICT (id) DO UPDATE SET ok = :ok, bytes = :bytes, code = :code
          RETURNING ok, typeof(ok) AS of_ok, hex(bytes) AS hex, code"""
[[endpoint]]
path = "/documents"
post = "INSERT INTO documents (doc) VALUES (:doc) RETURNING doc, '' || doc AS stored"
[[endpoint]]
path = "/shown/{{id:int}}"
returns = "object"
get = "SELECT * FROM shown WHERE id = :id"
patch = "UPDATE shown SET title = :title WHERE id = :id"
delete = "DELETE FROM shown WHERE id = :id"
[[endpoint]]
path = "/put/{{id:int}}"
[endpoint.put]
table = "shown"
columns.id = {{ key = true, from = "path.id" }}
columns.title = {{}}
'''


@pytest.fixture
def viewed(sluice, path):
    database = sqlite3.connect(path)
    database.executescript(VIEW)
    database.close()
    return sluice(VIEW_CONFIG.format(path=path))


def test_a_parameter_in_several_places_keeps_its_type(viewed):
    with viewed.connect() as connection:
        for _ in range(2):
            answer = connection.call("POST", "/typed", b'{"id":1,"ok":"t","bytes":"\\\\x00ff","code":1.50}',
                                     "Content-Type: application/json")
            assert json.loads(answer.body) == [{"ok": True, "of_ok": "integer", "hex": "00FF", "code": "1.50"}]


def test_what_triggers_of_a_view_do_is_done(viewed):
    with viewed.connect() as connection:
        def call(method, target, body=None):
            return connection.call(method, target, body, *(["Content-Type: application/json"] if body else [])).status
        assert call("PATCH", "/shown/1", b'{"title":"Thief"}') == 204
        assert json.loads(connection.get("/shown/1").body) == {"id": 1, "title": "THIEF"}
        assert call("PATCH", "/shown/99", b'{"title":"Thief"}') == 404
        assert [call("DELETE", "/shown/1"), call("DELETE", "/shown/1")] == [204, 404]
        assert [call("PUT", "/put/7", b'{"title":"Ran"}'), call("PUT", "/put/7", b'{"title":"Kagemusha"}')] == [201, 204]
        assert json.loads(connection.get("/shown/7").body) == {"id": 7, "title": "KAGEMUSHA"}


@pytest.mark.parametrize("method", ['put = { table = "shown", existing = "SELECT id FROM shown", %s }', 'patch = { table = "shown", set = true, %s }'])
def test_a_set_needs_a_table(viewed, path, tmp_path, method):
    """The program cannot count what a view's triggers do."""
    columns = "columns = { id = { key = true }, title = {} }"
    (tmp_path / "view.toml").write_text(f'[database.main]\nurl = "sqlite:{path}"\n[[endpoint]]\npath = "/set"\n{method % columns}\n')
    done = subprocess.run([SLUICE, "check", "view.toml"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "is a view, and a set needs a table" in done.stderr, done.stderr


def test_null_in_a_column_of_json_that_is_never_null_is_json(viewed):
    with viewed.connect() as connection:
        for sent, shown in (("null", None), ('"a"', "a"), ("{}", {}), ('"{}"', "{}")):
            answer = connection.call("POST", "/documents", f'{{"doc":{sent}}}'.encode(), "Content-Type: application/json")
            assert answer.status == 201 and json.loads(answer.body) == [{"doc": shown, "stored": sent}], answer.body
