"""`sluice serve` of a database or a folder without a configuration, and `sluice init`, which writes one."""
import contextlib
import json
import os
import re
import sqlite3
import subprocess

import pytest

from certificates import Authority, tls_table
from cluster import free_port
from conftest import SLUICE
from http1 import Connection

# Composite keys, generated columns, reserved words, views, two references to one table, a table without a key.
TABLES = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, "group" TEXT, {status});
CREATE TABLE products (sku TEXT PRIMARY KEY, price NUMERIC NOT NULL, details {json}, photo {bytes});
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customers (id),
  payer INTEGER REFERENCES customers (id), cents INTEGER NOT NULL,
  total INTEGER GENERATED ALWAYS AS (cents * 2) STORED);
CREATE TABLE items ("order" INTEGER NOT NULL REFERENCES orders (id), sku TEXT NOT NULL REFERENCES products (sku),
  amount INTEGER NOT NULL, PRIMARY KEY ("order", sku));
CREATE TABLE notes ("order" INTEGER NOT NULL, sku TEXT NOT NULL, text TEXT NOT NULL,
  FOREIGN KEY ("order", sku) REFERENCES items ("order", sku));
CREATE TABLE marks (customer INTEGER NOT NULL REFERENCES customers (id), mark TEXT NOT NULL, PRIMARY KEY (customer, mark));
CREATE TABLE "Order Items" (id INTEGER PRIMARY KEY, "a.b" TEXT, "k,l" INTEGER);
CREATE TABLE "dotted.csv" (id INTEGER PRIMARY KEY);
CREATE TABLE "openapi.json" (id INTEGER PRIMARY KEY);
CREATE VIEW colours AS SELECT 'red' AS colour, id % 2 AS side FROM customers UNION ALL SELECT 'red', 1 FROM orders;
INSERT INTO "Order Items" VALUES (1, 'x', 2);
INSERT INTO "dotted.csv" VALUES (1);
INSERT INTO "openapi.json" VALUES (1);
CREATE VIEW totals AS SELECT customer, sum(cents) AS cents FROM orders GROUP BY customer;
INSERT INTO customers (id, name, "group") VALUES (1, 'Ada', 'a'), (2, 'Bob', NULL), (3, '<b>Eve</b>', 'a');
INSERT INTO products (sku, price) VALUES ('ink', 2), ('pen', 5);
INSERT INTO orders (id, customer, payer, cents) VALUES (1, 1, 2, 100), (2, 1, NULL, 50), (3, 2, 1, 7);
INSERT INTO items VALUES (1, 'ink', 2), (1, 'pen', 1), (2, 'pen', 3);
INSERT INTO marks VALUES (1, 'first');
INSERT INTO notes VALUES (1, 'ink', 'blue'), (1, 'ink', 'in a box');
"""
ON_SQLITE = {"status": "status TEXT DEFAULT 'new'", "json": "JSON", "bytes": "BLOB"}
ON_POSTGRES = {"status": "status status NOT NULL DEFAULT 'new'", "json": "jsonb", "bytes": "bytea"}
FIRST = "CREATE TYPE status AS ENUM ('new', 'known'); CREATE DOMAIN pieces AS integer CHECK (value > 0);"
THEN = """
ALTER TABLE items ALTER amount TYPE pieces;
COMMENT ON TABLE customers IS 'All who buy "here"';
COMMENT ON COLUMN customers.name IS 'As on
the invoice';
"""


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """The argument of `sluice serve` for a database with the tables."""
    if request.param == "sqlite":
        with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as file:
            file.executescript(TABLES.format(**ON_SQLITE))
        return str(tmp_path / "shop.db")
    cluster = request.getfixturevalue("postgres")
    cluster.psql("DROP DATABASE IF EXISTS shop WITH (FORCE)")
    cluster.psql("CREATE DATABASE shop")
    cluster.psql(FIRST + TABLES.format(**ON_POSTGRES) + THEN, "shop")
    return cluster.url("shop")


class Program:
    """A `sluice serve` that has said where it serves."""

    def __init__(self, *words, folder, environment=None):
        self.port = free_port()
        listen = () if any(word.endswith(".toml") for word in words) else ("--listen", f"127.0.0.1:{self.port}")
        self.process = subprocess.Popen([SLUICE, "serve", *words, *listen], cwd=folder, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, env={**os.environ, **(environment or {})})
        self.said = []
        for line in self.process.stdout:
            self.said.append(line)
            if re.search(r"^  io ", line):
                return
        raise AssertionError("".join(self.said))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            assert self.process.wait(30) == 0, "".join(self.said)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def get(self, target, *fields, method="GET", body=None, host="localhost", media="application/json"):
        text = json.dumps(body) if body else ""
        length = [f"Content-Type: {media}", f"Content-Length: {len(text)}"] if body else []
        with Connection(self.port) as connection:
            connection.send("\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}", *length, *fields]) + "\r\n\r\n" + text)
            return connection.read()

    def rows(self, target):
        answer = self.get(target)
        assert answer.status == 200, (target, answer.body)
        return json.loads(answer.body)


def run(*words, folder, environment=None):
    done = subprocess.run([SLUICE, *words], cwd=folder, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **(environment or {})})
    return done.returncode, done.stdout, done.stderr


LISTS = ["/customers", "/products", "/orders", "/items", "/notes", "/totals", "/customers?sort=-name&limit=2&count=exact",
         "/customers?group=is.null", "/customers?q=ada", "/customers/1/orders_by_customer", "/customers/1/orders_by_payer",
         "/orders/1/items?sort=-amount", "/items/1/ink/notes", "/products/pen/items", "/totals?cents=gt.7"]
OBJECTS = ["/customers/3", "/products/ink", "/orders/2", "/items/1/pen"]


def test_every_table_is_served(database, tmp_path):
    with Program(database, folder=tmp_path) as program:
        assert [row["name"] for row in program.rows("/customers?sort=-name")] == ["Bob", "Ada", "<b>Eve</b>"]
        assert program.rows("/customers/1")["group"] == "a"
        assert [row["id"] for row in program.rows("/customers/1/orders_by_customer")] == [1, 2]
        assert [row["id"] for row in program.rows("/customers/1/orders_by_payer")] == [3]
        assert [row["sku"] for row in program.rows("/orders/1/items")] == ["ink", "pen"]
        assert program.rows("/orders/1")["total"] == 200
        assert program.rows("/items/1/pen")["amount"] == 1
        assert [row["text"] for row in program.rows("/items/1/ink/notes?sort=text")] == ["blue", "in a box"]
        assert program.rows("/totals?sort=-cents")[0] == {"customer": 1, "cents": 150}
        assert program.get("/customers?count=exact").get("x-total-count") == "3"
        assert program.get("/customers/9").status == 404
        document = program.rows("/openapi.json")
        assert {"/customers", "/customers/{id}", "/orders/{order}/items", "/items/{order}/{sku}/notes"} <= set(
            document["paths"])
        page = program.get("/")
        assert page.status == 200 and b"<!doctype html>" in page.body.lower()
        for method in ("POST", "PUT", "PATCH", "DELETE"):  # read only
            assert program.get("/customers", method=method).status == 405
            assert program.get("/customers/1", method=method).status == 405


def test_clients_write_only_if_told(database, tmp_path):
    with Program(database, "--write", folder=tmp_path) as program:
        made = program.get("/customers", method="POST", body={"id": 9, "name": "Zoe"})
        assert made.status == 201 and made.get("location") == "/customers/9"
        assert program.get("/customers/9", method="PATCH", body={"group": "z"}).status == 200
        assert program.rows("/customers/9") == {"id": 9, "name": "Zoe", "group": "z", "status": "new"}
        assert program.get("/customers/9", method="DELETE").status == 204
        assert program.get("/customers/9").status == 404
        assert program.get("/items/1/pen", method="PATCH", body={"amount": 8}).status == 200
        assert program.rows("/items/1/pen")["amount"] == 8
        assert program.get("/orders/1", method="PATCH", body={"total": 5}).status == 200  # generated, so ignored
        assert program.rows("/orders/1")["total"] == 200
        assert program.get("/totals", method="POST", body={"customer": 1}).status == 405


def test_web_pages_reach_nothing(database, tmp_path):
    with Program(database, "--write", folder=tmp_path) as program:
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example"):
            for target in ("/", "/customers", "/openapi.json", "/nothing"):
                assert program.get(target, host=host).status == 421
        for host in ("localhost", f"localhost:{program.port}", "127.0.0.1", f"[::1]:{program.port}", "LOCALHOST"):
            assert program.get("/customers", host=host).status == 200
        answer = program.get("/customers", "Origin: http://evil.example")
        assert answer.get("access-control-allow-origin") is None
        simple = program.get("/customers", "Origin: http://evil.example", method="POST", body={"id": 7, "name": "evil"},
                             media="text/plain")  # a page may send this without being asked
        assert simple.status in (403, 415)
        for fields in (["Origin: http://evil.example"], ["Sec-Fetch-Site: cross-site"], ["Origin: null"],
                       [f"Origin: http://127.0.0.1:{program.port}"]):  # another origin than localhost, which is asked
            for method, media in (("POST", "application/json"), ("DELETE", "application/json")):
                assert program.get("/customers", *fields, method=method, body={"id": 7, "name": "evil"},
                                   media=media).status == 403
            with Connection(program.port) as connection:  # a form
                connection.send("\r\n".join(["POST /customers HTTP/1.1", "Host: localhost", *fields, "Content-Length: 14",
                                              "Content-Type: application/x-www-form-urlencoded", "", "id=7&name=evil"]))
                assert connection.read().status == 403
        own = program.get("/customers", f"Origin: http://localhost:{program.port}", "Sec-Fetch-Site: same-origin",
                          method="POST", body={"id": 8, "name": "own"}, host=f"localhost:{program.port}")
        assert own.status == 201
        assert program.get("/customers/7").status == 404


def test_pages_without_a_key_have_every_row(database, tmp_path):
    with Program(database, folder=tmp_path) as program:
        rows, target = [], "/colours?limit=2&count=exact"
        while target:
            answer = program.get(target)
            rows += json.loads(answer.body)
            following = re.search(r'<(\?[^>]*)>; rel="next"', answer.get("link"))
            target = following and "/colours" + following[1]
        assert answer.get("x-total-count") == "6" and len(rows) == 6
        assert sorted(row["side"] for row in rows) == [0, 1, 1, 1, 1, 1]
        assert program.get("/colours?after=x").status == 400


def test_names_of_all_kinds(database, tmp_path):
    with Program(database, "--write", folder=tmp_path) as program:
        assert program.rows("/Order_Items/1") == {"id": 1, "a.b": "x", "k,l": 2}
        assert program.get("/Order_Items", method="POST", body={"id": 2, "k,l": 3}).status == 201
        assert program.rows("/Order_Items?sort=-id&fields=id") == [{"id": 2}, {"id": 1}]
        assert program.get("/marks", method="POST", body={"customer": 1, "mark": "new"}).status == 201
        assert program.rows("/customers/1/marks") == [{"customer": 1, "mark": "first"}, {"customer": 1, "mark": "new"}]
        assert program.get("/marks/1/new", method="PATCH", body={}).status == 405  # nothing but its key
        assert program.get("/marks/1/new", method="DELETE").status == 204
        assert program.rows("/dotted_csv") == program.rows("/openapi_json") == [{"id": 1}]


def test_tables_that_cannot_be_read_are_left_out(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "odd.db")) as file:
        file.executescript("""CREATE TABLE good (id INTEGER PRIMARY KEY, gone INTEGER REFERENCES gone (id));
CREATE TABLE old (id INTEGER PRIMARY KEY); CREATE VIEW broken AS SELECT id FROM old; DROP TABLE old;
CREATE TABLE "a b" (id INTEGER PRIMARY KEY); CREATE TABLE a_b (id INTEGER PRIMARY KEY)""")
    with Program("odd.db", "--write", folder=tmp_path) as program:
        said = "".join(program.said)
        assert "warning: broken is left out: no such table" in said
        assert "warning: the table a_b is left out: another one has the path /a_b" in said
        assert program.rows("/good") == [] and program.rows("/a_b") == []
        assert program.get("/good", method="POST", body={"id": 1}).status == 405


def test_what_init_writes_serves_the_same(database, tmp_path):
    code, out, errors = run("init", database, folder=tmp_path)
    assert (code, errors) == (0, "") and "next: sluice serve" in out
    file = tmp_path / "sluice.toml"
    text = file.read_text()
    code, out, errors = run("init", database, folder=tmp_path)
    assert code == 1 and "sluice.toml is there already" in errors and file.read_text() == text
    assert run("check", folder=tmp_path)[0] == 0
    port = free_port()
    file.write_text(text.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("127.0.0.1:8081", "127.0.0.1:0"))
    with Program(database, folder=tmp_path) as first, Program("sluice.toml", folder=tmp_path) as second:
        second.port = port
        for target in LISTS + OBJECTS:
            one, other = (program.get(target) for program in (first, second))
            assert (one.status, one.body, one.get("link")) == (200, other.body, other.get("link")), target
        ours, theirs = (program.rows("/openapi.json") for program in (first, second))
        assert ours == theirs
    if database.startswith("postgres"):
        assert '# All who buy "here"' in text and "# name: As on the invoice" in text and "# status: new, known" in text
        assert theirs["paths"]["/customers"]["get"]["description"] == 'All who buy "here"'
    else:
        assert 'url = "sqlite:shop.db"' in text


def test_init_writes_what_is_asked_for(database, tmp_path):
    code, out, _ = run("init", database, "--tables", "orders,customers", "--write", "--output", "own.toml", folder=tmp_path)
    text = (tmp_path / "own.toml").read_text()
    assert code == 0 and "own.toml: tables and views: 2" in out
    assert "[endpoint.post]" in text and "/products" not in text and "/items" not in text
    assert run("check", "own.toml", folder=tmp_path)[0] == 0
    code, _, errors = run("init", database, "--tables", "order", "--output", "x.toml", folder=tmp_path)
    assert code == 1 and 'no table "order"; did you mean "orders"?' in errors and not (tmp_path / "x.toml").exists()


def test_a_password_is_not_written(postgres, tmp_path):
    url = postgres.url().replace("postgres@", "postgres:hush-hush@")
    postgres.psql("CREATE TABLE IF NOT EXISTS of_init (id integer PRIMARY KEY)")
    code, out, errors = run("init", folder=tmp_path, environment={"DATABASE_URL": url})
    assert code == 0, errors
    text = (tmp_path / "sluice.toml").read_text()
    assert 'url = "${DATABASE_URL}"' in text and "hush" not in text + out and "DATABASE_URL" in out
    assert run("check", folder=tmp_path, environment={"DATABASE_URL": url})[0] == 0


def test_a_folder_is_served(tmp_path):
    (tmp_path / "public").mkdir()
    (tmp_path / "public/index.html").write_text("<p>hi")
    with Program("public", folder=tmp_path) as program:
        assert program.get("/").body == b"<p>hi"
        assert program.get("/", host="evil.example").status == 421


def test_without_a_file_it_says_what_can_be_served(tmp_path):
    code, _, errors = run("serve", folder=tmp_path)
    assert code == 3 and len(errors.splitlines()) == 4
    assert all(word in errors for word in ("films.db", "postgres://", "public/", "sluice init"))


def test_init_finds_the_only_file(tmp_path):
    code, _, errors = run("init", folder=tmp_path, environment={"DATABASE_URL": ""})
    assert code == 1 and "there is no SQLite file here" in errors
    for name in ("a.db", "b.sqlite"):
        with contextlib.closing(sqlite3.connect(tmp_path / name)) as file:
            file.execute("CREATE TABLE t (a)")
        code, _, errors = run("init", "--output", f"{name}.toml", folder=tmp_path, environment={"DATABASE_URL": ""})
        assert code == (0 if name == "a.db" else 1), errors
    assert "several SQLite files: a.db, b.sqlite" in errors
    text = (tmp_path / "a.db.toml").read_text()  # without a key: by the rowid
    assert 'path = "/t/{rowid:int}"' in text and 'order = "rowid"' in text
    assert run("check", "a.db.toml", folder=tmp_path)[0] == 0


@pytest.mark.parametrize("words, said", [
    (("nothing.db",), "there is no file nothing.db"),
    (("text.db",), "text.db is not a SQLite database"),
    (("empty.db", "--listen", "*:8080"), "*:8080 is not on the loopback"),
    (("empty.db", "--listen", "0.0.0.0:8080"), "0.0.0.0:8080 is not on the loopback"),
    ((".", "--listen", "*:8080"), "*:8080 is not on the loopback"),
    (("empty.db", "--listen", "nowhere"), '"nowhere" is no address'),
    (("empty.db",), "the database has no tables"),
    (("postgres://127.0.0.1:1/x",), "the database cannot be read"),
    (("some.toml", "--write"), "--write is for a database or a folder"),
    (("some.toml", "--listen", "127.0.0.1:1"), "--listen is for a database or a folder"),
])
def test_what_is_wrong_is_named(tmp_path, words, said):
    (tmp_path / "text.db").write_text("no database")
    (tmp_path / "some.toml").write_text("")
    with contextlib.closing(sqlite3.connect(tmp_path / "empty.db")) as file:
        file.execute("CREATE TABLE t (a)")
        file.execute("DROP TABLE t")
        file.commit()
    code, _, errors = run("serve", *words, folder=tmp_path)
    assert code in (1, 2) and said in errors and "/proc/" not in errors


# `sluice serve --dev`

CONFIG = '''[server]
listen = ["{listen}"]
[admin]
listen = "127.0.0.1:0"
[database.main]
url = "sqlite:shop.db"
[[endpoint]]
path = "/customers"
get = "SELECT id, name FROM customers WHERE name = :name OR json_extract(:json, '$.a') = 1"
'''


def wait_for(program, words):
    """Reads what the program says up to the line with the words."""
    lines = []
    for line in program.process.stdout:
        lines.append(line)
        if words in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


@pytest.fixture
def shop(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as file:
        file.executescript(TABLES.format(**ON_SQLITE))
    return tmp_path


def test_a_changed_file_is_served(shop):
    port = free_port()
    text = CONFIG.format(listen=f"127.0.0.1:{port}")
    file = shop / "sluice.toml"
    file.write_text(text)
    with Program("sluice.toml", "--dev", folder=shop) as program:
        program.port = port
        answer = program.get("/customers?json=x")
        problem = json.loads(answer.body)
        assert answer.status == 400 and "malformed JSON" in problem["database"]["message"]
        assert problem["database"]["statement"].startswith("SELECT id, name FROM customers")
        file.write_text(text + '[[endpoint]]\npath = "/orders"\nget = "SELECT id FROM orders ORDER BY id"\n')
        said = wait_for(program, "has been read again")
        assert "sluice.toml has changed" in said
        assert program.rows("/orders") == [{"id": 1}, {"id": 2}, {"id": 3}]
        file.write_text(text + '[[endpoint]]\npath = "/orders"\ngett = "SELECT 1"\n')
        said = wait_for(program, 'did you mean "get"?')
        assert "the last configuration is still served" in said
        assert re.search(r"sluice\.toml:\d+:1: error: unknown key \"gett\".*\n +\d+ \| gett = .*\n +\| \^", said)
        assert program.rows("/orders") == [{"id": 1}, {"id": 2}, {"id": 3}]
        file.write_text(text.replace("127.0.0.1:" + str(port), "*:" + str(port)))
        assert "may only listen on the loopback" in wait_for(program, "error:")


def test_an_included_file_is_watched(shop):
    port = free_port()
    (shop / "parts").mkdir()
    part = shop / "parts/orders.toml"
    part.write_text("")
    (shop / "sluice.toml").write_text('include = ["parts/orders.toml"]\n' + CONFIG.format(listen=f"127.0.0.1:{port}"))
    with Program("sluice.toml", "--dev", folder=shop) as program:
        program.port = port
        assert program.get("/orders").status == 404
        part.write_text('[[endpoint]]\npath = "/orders"\nget = "SELECT count(*) AS n FROM orders"\n')
        assert "orders.toml has changed" in wait_for(program, "has been read again")
        assert program.rows("/orders") == [{"n": 3}]


@pytest.mark.parametrize("listen, tls", [("*:8080", ""), ("127.0.0.1:8443", '[server.tls]\ncert = "a"\nkey = "b"\n')])
def test_development_is_for_the_loopback(shop, listen, tls, tmp_path):
    if tls:
        tls = tls_table(Authority(tmp_path / "ca").issue("localhost"))
    (shop / "sluice.toml").write_text(CONFIG.format(listen=listen) + tls)
    code, _, errors = run("serve", "--dev", folder=shop)
    assert code == 3 and "may only listen on the loopback and without TLS" in errors and "sluice.toml:2:" in errors


def test_without_it_answers_keep_the_message(shop):
    port = free_port()
    (shop / "sluice.toml").write_text(CONFIG.format(listen=f"127.0.0.1:{port}"))
    with Program("sluice.toml", folder=shop) as program:
        program.port = port
        answer = program.get("/customers?json=x")
        assert answer.status == 400 and b"malformed" not in answer.body and "database" not in json.loads(answer.body)
