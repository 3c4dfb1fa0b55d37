"""Every example of the guides, as written, on both databases: configurations are checked, and requests are sent. README.md and the
tutorials have a test of their own (test_pages.py).

A block of TOML is checked with what a reader already has: a database, and a policy "auth" and an endpoint if it does not define
them. A comment above a block says what the block does not show: `<!-- example: postgres -->` or `<!-- example: sqlite -->` if it is
for one database, and `<!-- example: continues -->` if it continues the block before it on the page.
"""
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess

import pytest

from browser import Chromium
from conftest import FILMS_GENERATE, ROOT, SLUICE
from test_check import endpoint

CHAT = pathlib.Path(FILMS_GENERATE).parent / "example_chat"  # has the service that docs/guide/programs.md names
FILES = sorted(page for page in (ROOT / "docs/guide").glob("*.md") if "tutorial" not in page.name)
SCHEMA = """
CREATE TABLE films (id {serial}, slug text UNIQUE NOT NULL, name_en text, score {real}, year integer,
                    revision integer NOT NULL DEFAULT 7, adult boolean NOT NULL DEFAULT false, popularity {real}, released date);
CREATE TABLE tags (film text NOT NULL, tag text NOT NULL, PRIMARY KEY (film, tag));
CREATE TABLE labels (film text NOT NULL, label text NOT NULL, deleted_at {time}, PRIMARY KEY (film, label));
CREATE TABLE members (team text, member text);
CREATE TABLE notes (team text, text text, owner text);
CREATE TABLE users (id integer PRIMARY KEY, name text, email text, roles {texts}, score {real},
                    updated_at {time} NOT NULL DEFAULT CURRENT_TIMESTAMP, deleted boolean NOT NULL DEFAULT false,
                    avatar text, avatar_type text, role text, password text);
CREATE TABLE people (id integer PRIMARY KEY, name text);
CREATE TABLE items (id integer PRIMARY KEY, name text, price {real});
CREATE TABLE codes (code text, seal {bytes});
CREATE TABLE seats (row integer, seat integer, UNIQUE (row, seat));
INSERT INTO films (slug, name_en, score) VALUES ('the-silent-harbor', 'The Silent Harbor', 7.5), ('b', 'B', 1), ('c', 'C', 1),
  ('d', 'D', 1), ('e', 'E', 1), ('heat', 'Heat', 8);
INSERT INTO users (id, name, email, roles, score) VALUES (7, 'Ada', NULL, {ada}, 99.5),
  (3, 'Grace', 'grace@example.org', {grace}, 12), (5, 'Alan', NULL, {alan}, 8);
UPDATE users SET role = 'editor', password = '{hash}' WHERE id = 3;
"""
HASH = "$argon2id$v=19$m=19456,t=2,p=1$3KdH/twDsu8h0BjQzEYCkQ$5CpU19n5CtyFZhD2oGgQxkjXtc9vvaI/E03DCUTHNKo"  # of "correct horse"
LOGIN_TABLES = (ROOT / "examples/users/schema.login.sql").read_text()
KINDS = {
    "sqlite": dict(serial="integer PRIMARY KEY", real="real", texts="json", time="text", bytes="blob", ada="'[\"admin\",\"user\"]'",
                   grace="'[\"admin\"]'", alan="'[\"admin\"]'"),
    "postgres": dict(serial="serial PRIMARY KEY", real="double precision", texts="text[]", time="timestamptz", bytes="bytea",
                     ada="'{admin,user}'", grace="'{admin}'", alan="'{admin}'"),
}
FUNCTION = """CREATE FUNCTION place_order(customer text, items jsonb, OUT id integer, OUT total numeric) LANGUAGE sql
              AS 'SELECT 1, 9.5'"""
# Requests of a page need this besides the page's own configuration.
BEFORE_REQUESTS = {
    "docs/guide/README.md": endpoint("SELECT id, slug FROM films ORDER BY id", "/films"),
    "docs/guide/batch.md": """
[[endpoint]]
path = "/films"
returns = "object"
[endpoint.post]
sql = "INSERT INTO films (slug, score) VALUES (:slug, :score) RETURNING id, slug, score"
location = "/films/{slug}"
[[endpoint]]
path = "/films/{slug}"
returns = "object"
get = "SELECT id, slug, score FROM films WHERE slug = :slug"
[[endpoint]]
path = "/films/{slug}/tags"
post = "INSERT INTO tags (film, tag) VALUES (:slug, :tag)"
""",
}


class Block:
    def __init__(self, page, text, match):
        self.page, self.language, self.text = page, match[2], match[3]
        self.line = text.count("\n", 0, match.start(2)) + 1
        self.kinds = re.findall(r"sqlite|postgres", match[1] or "") or list(KINDS)
        self.continues = "continues" in (match[1] or "")
        self.name = f"{page}:{self.line}"


def blocks_of(page):
    text = page.read_text()
    return [Block(str(page.relative_to(ROOT)), text, match) for match in
            re.finditer(r"^(?:<!-- example: (.*?) -->\n)?```(\w*)\n(.*?)^```", text, re.M | re.S)]


BLOCKS = [block for page in FILES for block in blocks_of(page)]
TOML = [block for block in BLOCKS if block.language == "toml"]
for first, second in zip(TOML, TOML[1:]):
    if second.continues:
        assert first.page == second.page
        second.text = first.text + second.text
# (request, block with its answer): the lines below `$ curl`, or a block of JSON below it.
CURLS = [(block, BLOCKS[number + 1]) for number, block in enumerate(BLOCKS)
         if re.search(r"^(\$ )?curl ", block.text, re.M) and "curl -N" not in block.text  # that stream never ends
         and "sluice token" not in block.text]  # test_token.py runs this one


@pytest.fixture(scope="module")
def folders(request, tmp_path_factory, localhost):
    """folders(kind): a folder with the files that the examples name, and the URL of its database."""
    made = {}

    def folder_of(kind):
        if kind in made:
            return made[kind]
        folder = tmp_path_factory.mktemp(f"examples-{kind}")
        statements = SCHEMA.format(hash=HASH, **KINDS[kind]) + LOGIN_TABLES
        scripts = [block.text for block in BLOCKS if block.language == "sql"]
        if kind == "sqlite":
            with sqlite3.connect(folder / "films.db") as database:
                database.executescript(statements)
                for script in scripts:
                    if script.startswith("CREATE TABLE"):
                        database.executescript(script)
            database.close()
            url = "sqlite:films.db"
        else:
            cluster = request.getfixturevalue("postgres")
            cluster.psql("CREATE DATABASE examples")
            for script in [statements, FUNCTION, *scripts]:
                # Roles belong to the cluster, and other tests may have made one of the same name.
                script = re.sub(r"^CREATE ROLE [^;]*;", r"DO $$ BEGIN \g<0> EXCEPTION WHEN duplicate_object THEN NULL; END $$;",
                                script, flags=re.M)
                cluster.psql(script, "examples")
            url = cluster.url("examples")
        (folder / "public").mkdir()
        (folder / "public/index.html").write_text("<!doctype html>\n")
        (folder / "admin-token").write_text("0123456789abcdef\n")
        (folder / "film.schema.json").write_text('{"type": "object"}')
        (folder / "internal-ca.pem").write_bytes(open(localhost[0], "rb").read())
        (folder / "clients.pem").write_bytes(open(localhost[0], "rb").read())
        for name in ("example.org", "example.com", "gateway"):
            (folder / f"{name}.pem").write_bytes(open(localhost[0], "rb").read())
            (folder / f"{name}.key").write_bytes(open(localhost[1], "rb").read())
        (folder / "keys").mkdir()
        for name in ("login", "new"):
            subprocess.run([SLUICE, "keys", "--kid", name, "--out", "keys"], cwd=folder, check=True, capture_output=True)
        made[kind] = folder, url
        return made[kind]

    return folder_of


ENVIRONMENT = {**os.environ, "JWT_SECRET": "0123456789abcdef0123456789abcdef", "PASSWORD": "secret"}


def completed(text, url, before=""):
    """The example with the test's database, and with what a reader already has."""
    if text.startswith("[endpoint."):
        text = '[[endpoint]]\npath = "/example"\n' + text
    if "[database." in text:
        text = re.sub(r'^(url = )"[^"]*"', lambda match: f'{match[1]}"{url}"', text, flags=re.M)
    else:
        text += f'\n[database.main]\nurl = "{url}"\n'
    if '"auth"' in text and "[policy.auth]" not in text:
        text += '\n[policy.auth]\ntype = "jwt"\nsecret = "${JWT_SECRET}"\n'
    if "claim." in text and "role = " in text and "[policy.auth]" not in text:
        before += endpoint("SELECT 1 AS a", "/example", 'use = ["auth"]\n') + '[policy.auth]\ntype = "jwt"\nsecret = "${JWT_SECRET}"\n'
    if "tls = true" in text and "[server.tls]" not in text:
        before += '[server.tls]\ncert = "example.org.pem"\nkey = "example.org.key"\n'
    if not re.search(r"^\[\[(endpoint|files|resident|room|websocket)\]\]", text + before, re.M):
        before += endpoint("SELECT 1 AS a", "/example")
    return text + before


def prepare_rooms(text, folder):
    """Makes the counters and triggers of rooms, without which `check` and `serve` refuse them."""
    if "[[room]]" not in text:
        return
    (folder / "rooms.toml").write_text(text)
    made = subprocess.run([SLUICE, "rooms", "sql", "--apply", "rooms.toml"], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def test_there_are_examples():
    assert len(TOML) > 20 and len(CURLS) >= 4


@pytest.mark.parametrize("block, kind", [pytest.param(block, kind, id=f"{block.name}-{kind}") for block in TOML for kind in block.kinds])
def test_a_configuration_is_taken_as_written(folders, block, kind):
    folder, url = folders(kind)
    text = completed(block.text, url)
    prepare_rooms(text, folder)
    (folder / "sluice.toml").write_text(text)
    program = CHAT if re.search(r"^service = |^\[service\.", block.text, re.M) else SLUICE
    checked = subprocess.run([program, "check", "sluice.toml"], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True,
                             timeout=30)
    assert checked.returncode == 0, f"{block.name} on {kind}:\n{checked.stderr}"


def requests_of(block):
    """(command, expected text or None) of each request in a block. `...` in an answer stands for any text."""
    if not block.text.startswith("$ "):
        # A command may have several lines.
        return [(command, None) for command in re.split(r"\n(?=curl )", block.text.strip())]
    return [tuple(one.partition("\n")[::2]) for one in re.split(r"^\$ ", block.text, flags=re.M)[1:]]


def configuration_of(block):
    """The last block of TOML above a request, or None."""
    return next((one for one in reversed(TOML) if one.page == block.page and one.line < block.line), None)


@pytest.mark.parametrize("block, after, kind", [pytest.param(block, after, kind, id=f"{block.name}-{kind}") for block, after in CURLS
                                                for kind in (configuration_of(block) or block).kinds])
def test_a_request_is_answered_as_written(folders, sluice, block, after, kind):
    toml = configuration_of(block)
    folder, url = folders(kind)
    before = BEFORE_REQUESTS.get(block.page, "")
    own = toml.text if toml and block.page != "docs/guide/README.md" else ""
    text = completed(own, url if kind == "postgres" else f"sqlite:{folder}/films.db", before)
    text = text.replace('"keys/', f'"{folder}/keys/')
    prepare_rooms(text, folder)
    server = sluice(text, env={"JWT_SECRET": ENVIRONMENT["JWT_SECRET"]})
    for command, answer in requests_of(block):
        said = command.replace("localhost:8080", f"127.0.0.1:{server.port}")
        said = said.replace("localhost:8081", f"127.0.0.1:{server.admin_port}").replace("curl ", "curl -s --fail-with-body ", 1)
        done = subprocess.run(["bash", "-c", said], cwd=folder, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}{server.log}"
        if answer is None and after.language == "json" and after.page == block.page:
            answer = after.text
        if answer:
            is_json = answer.lstrip()[:1] in "[{"
            pattern = re.escape(answer.strip()).replace(re.escape("..."), ".*")
            assert re.fullmatch(pattern, done.stdout.strip()) or is_json and json.loads(done.stdout) == json.loads(answer), done.stdout


def test_the_tables_of_log_in_are_those_of_the_command():
    """examples/users has them as a file, which these tests use too."""
    said = subprocess.run([SLUICE, "login", "sql", "users.toml"], cwd=ROOT / "examples/users", capture_output=True, text=True)
    assert said.stdout == LOGIN_TABLES, said.stderr


def test_the_page_with_log_in(folders, sluice, tmp_path):
    page, = [block for block in BLOCKS if block.language == "html" and 'id="login"' in block.text]
    folder, _ = folders("sqlite")
    shutil.copy(folder / "films.db", tmp_path)
    (tmp_path / "index.html").write_text(page.text)
    toml = completed(configuration_of(page).text, f"sqlite:{tmp_path}/films.db").replace('"keys/', f'"{folder}/keys/')
    server = sluice(toml.replace('root = "public"', f'root = "{tmp_path}"'))
    browser = Chromium(tmp_path)
    try:
        tab = browser.open(f"http://localhost:{server.port}/")

        def fill_in(form, **fields):
            for name, value in fields.items():
                tab.run(f"document.querySelector('#{form} [name={name}]').value = {json.dumps(value)}")
            tab.run(f"document.querySelector('#{form} button').click()")

        def until(condition):
            tab.run(f"(async () => {{ while (!({condition})) await new Promise(done => setTimeout(done, 20)) }})()")

        fill_in("login", email="grace@example.org", password="wrong")
        until("notes.textContent === 'The name or the password is wrong.'")
        fill_in("login", email="grace@example.org", password="correct horse")
        until("login.hidden && !note.hidden")
        assert tab.run("document.cookie") == ""
        fill_in("note", text="first")
        until("notes.textContent === 'first'")
        browser.ask("Network.deleteCookies", tab.session, name="access", domain="localhost")  # as when it has expired
        fill_in("note", text="second")
        until("notes.textContent === 'first\\nsecond'")
        tab.reload()
        until("notes.textContent === 'first\\nsecond'")
        tab.run("logout.click()")
        until("note.hidden && !login.hidden && notes.textContent === ''")
    finally:
        browser.close()


def test_the_page_of_a_room(folders, sluice, tmp_path):
    page, = [block for block in BLOCKS if block.page == "docs/guide/rooms.md" and block.language == "html"]
    folder, _ = folders("sqlite")
    shutil.copy(folder / "films.db", tmp_path)
    (tmp_path / "index.html").write_text(page.text)
    toml = completed(configuration_of(page).text, f"sqlite:{tmp_path}/films.db").replace('root = "public"', f'root = "{tmp_path}"')
    prepare_rooms(toml, tmp_path)

    def publish(text):
        with sqlite3.connect(tmp_path / "films.db", timeout=10) as database:
            database.execute("INSERT INTO messages (room, author, text) VALUES (7, 'grace', ?)", (text,))
        database.close()

    publish("before")
    server = sluice(toml)
    browser = Chromium(tmp_path)
    try:
        tab = browser.open(f"http://localhost:{server.port}/")

        def until(condition):
            tab.run(f"(async () => {{ while (!({condition})) await new Promise(done => setTimeout(done, 20)) }})()")

        until("messages.lastChild?.textContent === 'grace: before'")
        publish("from another process")
        until("messages.lastChild?.textContent === 'grace: from another process'")
        tab.run("document.querySelector('#form [name=text]').value = 'from the page'; document.querySelector('#form button').click()")
        until("messages.lastChild?.textContent === 'ada: from the page'")
    finally:
        browser.close()
