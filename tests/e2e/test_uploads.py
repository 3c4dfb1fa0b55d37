"""Files that clients send and fetch, on both databases: forms and whole bodies, limits, who is refused before a byte of
theirs is read, and what is left of what does not come to its end."""
import hashlib
import json
import os
import sqlite3
import subprocess
import time

import pytest

from conftest import ROOT, SLUICE
from test_config import run
from tokens import Secret, soon

SECRET = Secret()
PNG = (ROOT / "examples/users/ada.png").read_bytes()
LIMIT = 300 * 1024
CONFIG = '''
[openapi]
[batch]
[store.avatars]
path = "avatars"
limit = "300KiB"
types = ["image/*", "text/csv"]
used = "SELECT avatar FROM people WHERE avatar IS NOT NULL"
grace = "10m"
[store.papers]
path = "papers"
limit = "20MiB"
[policy.auth]
type = "jwt"
secret = "{secret}"
optional = true
[database.main]
url = "{url}"
[[endpoint]]
path = "/people"
get = "SELECT id, name, avatar, avatar_type, avatar_name, avatar_size FROM people ORDER BY id"
[endpoint.post]
table = "people"
columns.name = {{ required = true }}
columns.avatar = {{ from = "upload.picture", store = "avatars" }}
columns.avatar_type = {{ from = "upload.picture.type" }}
columns.avatar_name = {{ from = "upload.picture.name" }}
columns.avatar_size = {{ from = "upload.picture.size" }}
returning = "id, name, avatar, avatar_type, avatar_name, avatar_size"
[[endpoint]]
path = "/people/{{id:int}}"
returns = "object"
[endpoint.patch]
table = "people"
columns.id = {{ key = true, from = "path.id" }}
columns.name = {{}}
columns.avatar = {{ from = "upload.picture", store = "avatars" }}
returning = "id, name, avatar"
[[endpoint]]
path = "/people/{{id:int}}/avatar"
returns = "file"
store = "avatars"
get = "SELECT avatar, avatar_type AS type, avatar_name AS name FROM people WHERE id = :id"
put = "UPDATE people SET avatar = :avatar, avatar_type = :type, avatar_name = NULL WHERE id = :id"
params.avatar = {{ from = "upload", store = "avatars" }}
params.type = {{ from = "upload.type" }}
[[endpoint]]
path = "/people/{{id:int}}/paper"
returns = "file"
store = "papers"
use = ["auth"]
require = ["present(claim.sub)", "exists(SELECT 1 FROM people WHERE id = :id AND name = claim.sub)"]
get = "SELECT paper FROM people WHERE id = :id"
put = "UPDATE people SET paper = :paper WHERE id = :id"
params.paper = {{ from = "upload", store = "papers" }}
[[endpoint]]
path = "/names"
post = "INSERT INTO people (name) VALUES (:name) RETURNING id"
'''
SCHEMA = ["DROP TABLE IF EXISTS people",
          "CREATE TABLE people (id integer PRIMARY KEY {generated}, name text NOT NULL UNIQUE, avatar text, "
          "avatar_type text, avatar_name text, avatar_size integer, paper text)",
          "INSERT INTO people (name) VALUES ('ada'), ('bob')"]


class People:
    def __init__(self, start, folder, config):
        self.start, self.folder, self.config = start, folder, config
        self.server = start(config, server='body_limit = "64KiB"')

    def call(self, method, target, body=None, *fields):
        with self.server.connect() as connection:
            return self.call_on(connection, method, target, body, *fields)

    @staticmethod
    def call_on(connection, method, target, body=None, *fields):
        lines = [f"{method} {target} HTTP/1.1", "Host: test", *fields]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        connection.send("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        return connection.read(head=method == "HEAD")

    def form(self, method, target, *parts):
        body = b""
        for disposition, value, *media_type in parts:
            body += f"--xyz\r\nContent-Disposition: form-data; {disposition}\r\n".encode()
            body += "".join(f"Content-Type: {one}\r\n" for one in media_type).encode() + b"\r\n" + value + b"\r\n"
        return self.call(method, target, body + b"--xyz--\r\n", "Content-Type: multipart/form-data; boundary=xyz")

    def people(self):
        return json.loads(self.call("GET", "/people").body)

    def files(self, store="avatars"):
        """What lies in the store, by hash."""
        root = self.folder / store
        found = [path for path in root.rglob("*") if path.is_file()]
        return {"".join(path.relative_to(root).parts): path.read_bytes() for path in found}

    def open_files(self, store="avatars"):
        """Files in the store that the server has open, also those without a name."""
        count = 0
        for link in os.scandir(f"/proc/{self.server.process.pid}/fd"):
            try:
                path = os.readlink(link.path)
            except FileNotFoundError:
                continue
            count += path.startswith(f"{self.folder / store}/")
        return count

    def wait_for_open_files(self, count):
        end = time.monotonic() + 10
        while self.open_files() != count:
            assert time.monotonic() < end, f"{self.open_files()} files are open, not {count}"
            time.sleep(0.01)


@pytest.fixture(params=["sqlite", "postgres"])
def people(request, sluice, tmp_path):
    generated = "" if request.param == "sqlite" else "GENERATED BY DEFAULT AS IDENTITY"
    schema = [statement.format(generated=generated) for statement in SCHEMA]
    if request.param == "sqlite":
        database = sqlite3.connect(tmp_path / "people.db", isolation_level=None)
        for statement in schema:
            database.execute(statement)
        database.close()
        url = f"sqlite:{tmp_path}/people.db"
    else:
        postgres = request.getfixturevalue("postgres")
        postgres.psql("; ".join(schema))
        url = postgres.url()
    return People(sluice, tmp_path, CONFIG.format(url=url, secret=SECRET.secret))


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def test_a_whole_body_is_stored_and_fetched(people):
    put = people.call("PUT", "/people/1/avatar", PNG, "Content-Type: image/png")
    assert (put.status, put.body) == (204, b""), (put.body, people.server.log)
    assert people.files() == {sha256(PNG): PNG}
    assert people.people()[0]["avatar"] == sha256(PNG)

    tag = f'"{sha256(PNG)}"'
    got = people.call("GET", "/people/1/avatar")
    assert (got.status, got.body, got.get("content-type"), got.get("etag")) == (200, PNG, "image/png", tag)
    assert got.get("x-content-type-options") == "nosniff" and "sandbox" in got.get("content-security-policy")
    assert people.call("GET", "/people/1/avatar", None, f"If-None-Match: {tag}").status == 304
    part = people.call("GET", "/people/1/avatar", None, "Range: bytes=1-3")
    assert (part.status, part.body, part.get("content-range")) == (206, b"PNG", f"bytes 1-3/{len(PNG)}")
    assert people.call("GET", "/people/1/avatar", None, "Range: bytes=9000-").status == 416
    assert people.call("GET", "/people/1/avatar", None, 'If-Match: "other"').status == 412
    head = people.call("HEAD", "/people/1/avatar")
    assert (head.status, head.get("content-length"), head.body) == (200, str(len(PNG)), b"")

    # Larger than what is kept in memory, in chunks, and over what other bodies may have.
    large = PNG + os.urandom(LIMIT - len(PNG))
    with people.server.connect() as connection:
        connection.send("PUT /people/2/avatar HTTP/1.1\r\nHost: test\r\nContent-Type: image/png\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(large), 50_000):
            piece = large[at:at + 50_000]
            connection.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        connection.send("0\r\n\r\n")
        assert connection.read().status == 204
        assert people.call_on(connection, "GET", "/people/2/avatar").body == large
        assert people.call_on(connection, "GET", "/people/2/avatar", None, "Range: bytes=-10").body == large[-10:]
    assert people.call("GET", "/people/99/avatar").status == 404
    assert people.call("PUT", "/people/99/avatar", PNG, "Content-Type: image/png").status == 404

    # What a row refers to and is not there.
    lost = PNG + b"lost"
    assert people.call("PUT", "/people/1/avatar", lost, "Content-Type: image/png").status == 204
    (people.folder / "avatars" / sha256(lost)[:2] / sha256(lost)[2:]).unlink()
    assert people.call("GET", "/people/1/avatar").status == 404
    assert f"the file {sha256(lost)} is missing" in people.server.log


def test_a_form_brings_files_and_fields(people):
    csv = b"a,b\r\n1,2\r\n"
    made = people.form("POST", "/people", ("name=name", "Grüße & Co".encode()),
                       ('name="picture"; filename="../../../etc/Bücher.csv"', csv, "text/csv; charset=utf-8"))
    assert made.status == 201, (made.body, people.server.log)
    row = {"name": "Grüße & Co", "avatar": sha256(csv), "avatar_type": "text/csv", "avatar_name": "Bücher.csv",
           "avatar_size": len(csv)}
    assert {key: json.loads(made.body)[key] for key in row} == row
    assert people.files() == {sha256(csv): csv}
    assert sorted(os.listdir(people.folder / "avatars")) == [sha256(csv)[:2]]
    got = people.call("GET", f"/people/{json.loads(made.body)['id']}/avatar")
    assert got.get("content-type") == "text/csv" and got.body == csv
    assert got.get("content-disposition") == "inline; filename=\"B_cher.csv\"; filename*=UTF-8''B%C3%BCcher.csv"

    # The same again is the same file; none is none.
    same = people.form("POST", "/people", ("name=name", b"cyd"), ("name=picture; filename=x", csv, "text/csv"))
    none = people.form("POST", "/people", ("name=name", b"dan"), ('name=picture; filename=""', b"", "application/x"))
    assert (same.status, none.status) == (201, 201), none.body
    assert json.loads(none.body)["avatar"] is None
    assert people.files() == {sha256(csv): csv}
    assert people.call("GET", f"/people/{json.loads(none.body)['id']}/avatar").status == 404

    # What a PATCH does not bring stays.
    number = json.loads(same.body)["id"]
    assert json.loads(people.form("PATCH", f"/people/{number}", ("name=name", b"sid")).body)["avatar"] == sha256(csv)
    changed = json.loads(people.form("PATCH", f"/people/{number}", ("name=picture; filename=a", PNG, "image/png")).body)
    assert changed == {"id": number, "name": "sid", "avatar": sha256(PNG)}


def test_what_is_not_taken(people):
    before = people.people()
    png = "Content-Type: image/png"
    cases = [
        (413, people.call("PUT", "/people/1/avatar", PNG + bytes(LIMIT), png)),
        (413, people.call("PUT", "/people/1/avatar", PNG + bytes(LIMIT + 70_000), png)),
        (413, people.form("POST", "/people", ("name=name", b"x"), ("name=picture", PNG + bytes(LIMIT), "image/png"))),
        (413, people.call("POST", "/names", b'{"name":"' + b"x" * 70_000 + b'"}', "Content-Type: application/json")),
        (415, people.call("PUT", "/people/1/avatar", b"<script>", "Content-Type: text/html")),
        (415, people.call("PUT", "/people/1/avatar", b"<script>", png)),
        (415, people.call("PUT", "/people/1/avatar", PNG)),
        (415, people.call("POST", "/people", b'{"name":"x"}', "Content-Type: application/json")),
        (415, people.form("POST", "/people", ("name=name", b"x"), ("name=picture; filename=a", b"GIF8", "image/gif"))),
        (422, people.form("POST", "/people", ("name=name", b"x"), ("name=id", b"7"))),
        (422, people.form("POST", "/people", ("name=name", b"x"), ("name=other; filename=a", PNG, "image/png"))),
        (422, people.form("POST", "/people", ("name=picture; filename=a", PNG, "image/png"))),
        (400, people.call("POST", "/people", b"--xyz\r\n", "Content-Type: multipart/form-data; boundary=xyz")),
        (400, people.call("PUT", "/people/1/avatar", None, png)),
        (422, people.call("POST", "/batch", b'[{"method":"GET","path":"/people/1/avatar"}]', "Content-Type: application/json")),
        (422, people.call("POST", "/batch", b'[{"method":"PUT","path":"/people/1/avatar","body":1}]',
                          "Content-Type: application/json")),
    ]
    for number, (status, answer) in enumerate(cases):
        assert (answer.status, answer.media_type) == (status, "application/problem+json"), (number, answer.body)
    assert people.people() == before
    # A file whose row is refused is there, and nothing refers to it.
    taken = people.form("POST", "/people", ("name=name", b"ada"), ("name=picture; filename=a", PNG, "image/png"))
    assert taken.status == 409 and people.people() == before
    assert people.files() == {sha256(PNG): PNG}


def test_whoever_may_not_write_is_told_before_a_byte_is_read(people):
    head = "PUT /people/1/paper HTTP/1.1\r\nHost: test\r\nContent-Length: 15000000\r\nExpect: 100-continue\r\n"
    for token, status in ((None, 403), ("x.y.z", 401), (SECRET.token(soon(sub="bob")), 403)):
        with people.server.connect() as connection:
            connection.send(head + (f"Authorization: Bearer {token}\r\n" if token else "") + "\r\n")
            assert connection.read().status == status  # and not 100
    assert people.files("papers") == {}
    own = f"Authorization: Bearer {SECRET.token(soon(sub='ada'))}"
    paper = os.urandom(3_000_000)
    assert people.call("PUT", "/people/1/paper", paper, own).status == 204, people.server.log
    got = people.call("GET", "/people/1/paper", None, own)
    assert got.body == paper and got.get("content-type") == "application/octet-stream"
    assert people.call("GET", "/people/1/paper").status == 403
    curl = ["curl", "-sS", "--http2-prior-knowledge", "-H", own, f"http://127.0.0.1:{people.server.port}/people/1/paper"]
    again = os.urandom(2_000_000)
    (people.folder / "again").write_bytes(again)
    sent = subprocess.run([*curl, "-T", "again", "-w", "%{http_version} %{http_code}"], cwd=people.folder, check=True,
                          capture_output=True, text=True)
    assert sent.stdout == "2 204"
    assert subprocess.run(curl, check=True, capture_output=True).stdout == again
    with open(people.folder / "again", "ab") as file:
        file.truncate(22_000_000)
    sent = subprocess.run([*curl, "-T", "again", "-o", "answer", "-w", "%{http_version} %{http_code}"], cwd=people.folder,
                          capture_output=True, text=True)
    assert sent.stdout == "2 413"
    assert len(people.files("papers")) == 2


def test_what_does_not_come_to_its_end_leaves_nothing(people):
    head = b"PUT /people/1/avatar HTTP/1.1\r\nHost: test\r\nContent-Type: image/png\r\nContent-Length: 300000\r\n\r\n"
    half = PNG + bytes(270_000)
    with people.server.connect() as connection:
        connection.send(head + half)
        people.wait_for_open_files(1)
    people.wait_for_open_files(0)
    assert people.files() == {}

    # Killed in the middle, and begun again.
    with people.server.connect() as connection:
        connection.send(head + half)
        people.wait_for_open_files(1)
        people.server.judged = True
        people.server.kill()
    assert people.files() == {}
    people.server = people.start(people.config)
    assert people.people()[0]["avatar"] is None
    assert people.call("PUT", "/people/1/avatar", PNG, "Content-Type: image/png").status == 204
    assert people.files() == {sha256(PNG): PNG}


def collect(people, *arguments):
    (people.folder / "gc.toml").write_text(people.config)
    return subprocess.run([SLUICE, "store", "gc", "gc.toml", *arguments], cwd=people.folder, capture_output=True,
                          text=True, timeout=30)


def test_what_nothing_refers_to_is_collected(people):
    pictures = [PNG + bytes([number]) for number in range(3)]
    for picture in pictures:
        assert people.call("PUT", "/people/1/avatar", picture, "Content-Type: image/png").status == 204
    young = collect(people)
    assert young.returncode == 0, young.stderr
    assert young.stdout == "store avatars: 3 files, 1 in use, 2 unused and younger than 10m, 0 removed (0 bytes)\n"
    assert 'store papers: there is no "used"' in young.stderr
    for path in (people.folder / "avatars").rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    assert people.call("PUT", "/people/2/avatar", pictures[0], "Content-Type: image/png").status == 204
    assert people.call("PUT", "/people/2/avatar", pictures[2], "Content-Type: image/png").status == 204
    dry = collect(people, "--dry-run")
    assert dry.stdout.endswith(f"1 would be removed ({len(PNG) + 1} bytes)\n"), dry.stdout + dry.stderr
    assert len(people.files()) == 3
    done = collect(people)
    assert done.returncode == 0 and "1 in use, 1 unused and younger than 10m, 1 removed" in done.stdout, done.stdout
    assert sorted(people.files().values()) == [pictures[0], pictures[2]]
    assert people.call("GET", "/people/1/avatar").body == pictures[2]

    people.config = people.config.replace("SELECT avatar FROM people WHERE avatar IS NOT NULL", "SELECT name FROM people")
    wrong = collect(people)
    assert wrong.returncode == 1 and "something that is no hash of a file; nothing is removed" in wrong.stderr
    assert len(people.files()) == 2


def test_rows_that_a_policy_hides_are_in_use(postgres, tmp_path):
    postgres.psql("""CREATE TABLE hidden (picture text); ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
                     CREATE ROLE collector LOGIN; GRANT SELECT ON hidden TO collector;
                     CREATE POLICY none ON hidden USING (false)""")
    url = postgres.url().replace("postgres@", "collector@")
    (tmp_path / "gc.toml").write_text(f'''[database.main]
url = "{url}"
[store.pictures]
path = "pictures"
used = "SELECT picture FROM hidden"
[[endpoint]]
path = "/"
get = "SELECT 1"
''')
    folder = tmp_path / "pictures" / "ab"
    folder.mkdir(parents=True)
    (folder / ("c" * 62)).write_bytes(b"x")
    os.utime(folder / ("c" * 62), (1, 1))
    ran = subprocess.run([SLUICE, "store", "gc", "gc.toml"], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert ran.returncode == 1 and "42501" in ran.stderr and "nothing is removed" in ran.stderr, ran.stderr
    assert (folder / ("c" * 62)).exists()


def test_the_description_says_what_is_sent(people):
    paths = json.loads(people.call("GET", "/openapi.json").body)["paths"]
    form = paths["/people"]["post"]["requestBody"]["content"]["multipart/form-data"]
    assert set(form["schema"]["properties"]) == {"name", "picture"} and form["schema"]["required"] == ["name"]
    assert form["encoding"]["picture"]["contentType"] == "image/*, text/csv"
    assert list(paths["/people/{id}/avatar"]["put"]["requestBody"]["content"]) == ["image/*", "text/csv"]
    assert "application/octet-stream" in paths["/people/{id}/paper"]["put"]["requestBody"]["content"]
    assert {"200", "206", "304", "404", "416"} <= set(paths["/people/{id}/avatar"]["get"]["responses"])


@pytest.mark.parametrize("endpoint, says", [
    ('get = "SELECT 1"\nreturns = "file"', "a file needs a store"),
    ('[[store]]', "store"),
    ('post = "INSERT INTO t VALUES (:a)"\nparams.a = { from = "upload.x.colour" }', "of a file there are its size, type"),
    ('post = "INSERT INTO t VALUES (:a)"\nparams.a = { from = "upload.x", store = "none" }', "there is no [store.none]"),
    ('post = "INSERT INTO t VALUES (:a)"\nparams.a = { from = "query.x", store = "s" }', '"store" is for a file'),
    ('post = "INSERT INTO t VALUES (:a)"\nparams.a = { from = "upload.x.type" }', "nothing takes the hash of"),
    ('post = "INSERT INTO t VALUES (:a || :b)"\nparams.a.from = "upload"', "is the whole body, and so it has no fields"),
    ('delete = "DELETE FROM t WHERE a = :a"\nparams.a.from = "upload.x"', "DELETE takes no files"),
    ('get = "SELECT :a AS x"\nparams.a.from = "upload.x"', "GET takes no file for :a"),
    ('get = "SELECT a, a AS b FROM t"\nreturns = "file"', 'the others are called "type" and "name", not "b"'),
    ('put = { table = "t", existing = "SELECT a FROM t", columns = { a = { key = true, from = "upload.x" } } }',
     "a set takes no files"),
    ('get = "SELECT 1"\nrequire = "present(upload.x)"', "the body is not read before"),
])
def test_what_check_finds(tmp_path, endpoint, says):
    sqlite3.connect(tmp_path / "t.db").execute("CREATE TABLE t (a text PRIMARY KEY)").connection.close()
    store = "" if "needs a store" in says else '[store.s]\npath = "files"\nused = "SELECT a FROM t"\n'
    checked = run(tmp_path, f'[database.main]\nurl = "sqlite:t.db"\n{store}[[endpoint]]\npath = "/t"\n{endpoint}\n')
    assert checked.returncode == 3 and says in checked.stderr, checked.stderr


@pytest.mark.parametrize("store, says", [
    ('path = "files"\nused = "SELECT b FROM t"', "no such column: b"),
    ('path = "files"\nused = "SELECT a, a FROM t"', '"used" returns one column'),
    ('path = "t.db"', "this is no folder"),
    ('path = "files"\ntypes = ["png"]', "must be a media type"),
    ('path = "public/files"', "serve this folder"),
    ('path = "files/inner"\n[store.other]\npath = "files"', "lies in the same folder"),
    ('path = "files"\ndatabase = "main"', '"database" is for "used"'),
])
def test_what_check_finds_of_stores(tmp_path, store, says):
    sqlite3.connect(tmp_path / "t.db").execute("CREATE TABLE t (a text PRIMARY KEY)").connection.close()
    (tmp_path / "public").mkdir()
    checked = run(tmp_path, f'[database.main]\nurl = "sqlite:t.db"\n[store.s]\n{store}\n'
                            '[[files]]\npath = "/"\nroot = "public"\n')
    assert checked.returncode == 3 and says in checked.stderr, checked.stderr
