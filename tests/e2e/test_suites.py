"""`sluice test`: the examples' own tests on both databases, and the output for tests that fail."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import ROOT, SLUICE
from tokens import Ec, Rsa, Secret, soon

CONFIG = '''
[database.main]
url = "sqlite:never-opened.db"
[[endpoint]]
path = "/films"
get = "SELECT id, slug FROM films ORDER BY id"
post = "INSERT INTO films (id, slug) VALUES (:id, :slug) RETURNING id, slug"
params = { id = { type = "int", required = true }, slug = "text" }
query = "any"
[[endpoint]]
path = "/slow"
get = "%s"
'''
SLOW = {"sqlite": "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c",
        "postgres": "SELECT pg_sleep(60)::text"}
HEAD = '''config = "sluice.toml"
[database.main]
schema = ["schema.sql"]
'''


class Suite:
    """A folder with a configuration, a schema and files of tests, for one kind of database."""

    def __init__(self, folder, kind, database):
        self.folder, self.kind, self.database = folder, kind, database
        self.write("sluice.toml", CONFIG % SLOW[kind])
        self.write("schema.sql", "CREATE TABLE films (id int PRIMARY KEY, slug text NOT NULL);\nINSERT INTO films VALUES (1, 'alien');\n")

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def command(self, *arguments):
        return [SLUICE, "test", "--database", self.database, *arguments]

    def run(self, steps, *arguments, head=HEAD):
        self.write("t.sluicetest", head + steps)
        return self.call("t.sluicetest", *arguments)

    def call(self, *arguments):
        return subprocess.run(self.command(*arguments), cwd=self.folder, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "TMPDIR": str(self.temporary())})

    def temporary(self):
        # Short, because the path of a unix socket is limited.
        path = pathlib.Path(f"/tmp/sst-{os.getpid()}")
        path.mkdir(exist_ok=True)
        return path


@pytest.fixture(params=["sqlite", "postgres"])
def suite(request, tmp_path):
    database = "sqlite"
    if request.param == "postgres":
        cluster = request.getfixturevalue("postgres")
        database = cluster.url()
    made = Suite(tmp_path, request.param, database)
    yield made
    assert list(made.temporary().iterdir()) == [], "a folder is left behind"
    made.temporary().rmdir()
    if request.param == "postgres":
        assert left_behind(cluster) == b""


def left_behind(cluster):
    return cluster.psql("SELECT datname FROM pg_database WHERE datname LIKE 'sluice\\_test\\_%'")


def points(output):
    return re.findall(r"^(ok|not ok) (\d+) - (.*)$", output, re.M)


def test_the_examples(suite):
    examples = shutil.copytree(ROOT / "examples", suite.folder / "examples", ignore=shutil.ignore_patterns("state", "keys"))
    (examples / "users/keys").mkdir()
    subprocess.run([SLUICE, "keys", "--kid", "login", "--out", "keys"], cwd=examples / "users", check=True, capture_output=True)
    files = sorted(str(path) for path in examples.glob("*/*.sluicetest"))
    assert str(examples / "films/films.sluicetest") in files
    run = suite.call(*files)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    assert run.stdout.startswith("TAP version 13\nok 1 - ")
    assert run.stdout.endswith(f"\n1..{len(points(run.stdout))}\n")


def test_prove_takes_it(suite):
    suite.write("good.sluicetest", HEAD + '[[step]]\nrequest = "GET /films"\n')
    suite.write("bad.sluicetest", HEAD + '[[step]]\nname = "no # one"\nrequest = "GET /films"\nstatus = 404\n')
    run = subprocess.run(["prove", "-e", " ".join(suite.command()), "good.sluicetest", "bad.sluicetest"], cwd=suite.folder,
                         capture_output=True, text=True, env={**os.environ, "TMPDIR": str(suite.temporary())})
    assert run.returncode == 1
    assert re.search(r"^good.sluicetest \.+ ok$", run.stdout, re.M), run.stdout
    assert "Failed test:  1" in run.stdout and "Parse errors" not in run.stdout, run.stdout


def test_what_fails_is_shown(suite):
    run = suite.run('''
[[step]]
name = "a film is there"
request = "GET /films"
status = 201
expect_headers = { X-None = "#any" }
table = """
id, slug
1,  "heat"
"""
[[step]]
name = "and this goes on"
request = "POST /films"
json = { id = 2, slug = "ran" }
status = 201
[[step]]
request = "GET /films/none"
[[step]]
name = "exact"
request = "GET /films"
exact = [{ id = 1 }]
[[step]]
sql = "SELECT slug FROM films WHERE id = 2"
exact = [{ slug = "kagemusha" }]
[[step]]
sql = "SELECT nothing FROM films"
[[step]]
sql = "INSERT INTO films VALUES (1, 'x')"
sqlstate = "23505"
''')
    assert run.returncode == 1, run.stdout + run.stderr
    assert [one[0] for one in points(run.stdout)] == ["not ok", "ok", "not ok", "not ok", "not ok", "not ok", "ok"]
    assert '  message: "status: expected 201, got 200"\n  at: "t.sluicetest:5"\n' in run.stdout
    assert ("  differences: |\n    status: expected 201, got 200\n    header.X-None: expected #any, got nothing\n"
            "    body.0.slug: expected \"heat\", got \"alien\"\n") in run.stdout
    assert '  diff: |\n    --- expected\n    +++ got\n    -1, "heat"\n    +1, "alien"\n' in run.stdout
    assert "    GET /films HTTP/1.1\n" in run.stdout and '"slug":"alien"' in run.stdout
    assert 'status: expected 200 to 299, got 404' in run.stdout
    assert 'body.1: expected nothing, got {' in run.stdout
    assert 'rows.0.slug: expected \\"kagemusha\\", got \\"ran\\"' in run.stdout
    assert re.search(r"the statement fails: .*nothing.*, at t.sluicetest:29:15", run.stdout), run.stdout
    assert run.stdout.endswith("1..7\n# 5 of 7 failed\n")


def test_variables_reach_everything(suite):
    run = suite.run('''
[variables]
film = { id = 7, slug = "am ende/ß" }
[[step]]
request = "POST /films"
json = "${film}"
set = { id = "body.0.id", slug = "body.0.slug" }
status = 201
[[step]]
request = "GET /films?x=${slug}"
expect = [{ id = 1 }, { id = "${id}", slug = "${slug}" }]
[[step]]
sql = "SELECT id, slug FROM films WHERE id = :id AND slug = :slug"
table = """
id, slug
"${id}", "${slug}"
"""
set = { n = "rows.0.id" }
[[step]]
name = "what has not been set"
request = "GET /films"
set = { gone = "body.9.id" }
[[step]]
request = "GET /films/${gone}"
''')
    assert [one[0] for one in points(run.stdout)] == ["ok", "ok", "ok", "not ok", "not ok"], run.stdout
    assert 'body.9.id: nothing was sent to set \\"gone\\" from' in run.stdout
    assert "${gone} has no value: the step that sets it has failed" in run.stdout


def test_a_bad_file_is_said_with_its_place(suite):
    run = suite.run('[[step]]\nrequest = "GET /films"\nstatsu = 1\n')
    assert run.returncode == 3 and run.stdout == ""
    assert run.stderr.startswith('t.sluicetest:6:1: error: unknown key "statsu" in [[step]]\n')
    assert 'did you mean "status"?' in run.stderr
    suite.write("sluice.toml", "[server]\nlisten = 1\n")
    run = suite.run('[[step]]\nrequest = "GET /films"\n')
    assert run.returncode == 3 and run.stderr.startswith("sluice.toml:2:10: error: ")
    run = suite.call("none.sluicetest")
    assert run.returncode == 3 and "none.sluicetest: error: cannot be read" in run.stderr
    suite.write("sluice.toml", CONFIG % SLOW[suite.kind])
    run = suite.run('[[step]]\nrequest = "GET /"\n', head='config = "sluice.toml"\n[database.man]\nschema = ["schema.sq"]\n')
    assert run.returncode == 3 and "t.sluicetest:3:11: error: there is no such file" in run.stderr
    run = suite.run('[[step]]\nrequest = "GET /"\n', head='config = "sluice.toml"\n[database.man]\nschema = ["schema.sql"]\n')
    assert run.returncode == 3 and 'sluice.toml has no [database.man]' in run.stderr and 'did you mean "main"?' in run.stderr


def test_a_suite_that_cannot_begin(suite):
    step = '[[step]]\nrequest = "GET /films"\n'
    suite.write("schema.sql", "CREATE TABLE films (id int PRIMARY KEY, slug text);\nSELECT nothing;\n")
    run = suite.run(step)
    assert run.returncode == 1 and points(run.stdout) == [("not ok", "1", "schema.sql")]
    assert "schema.sql:2:8: error: " in run.stdout and "# 1 steps were not run" in run.stdout
    suite.write("schema.sql", "CREATE TABLE films (id int PRIMARY KEY);\n")
    run = suite.run(step)
    assert run.returncode == 3 and points(run.stdout) == [("not ok", "1", "sluice.toml is served")]
    assert "sluice.toml:6:" in run.stdout and "slug" in run.stdout


def test_the_command_line(suite):
    steps = '''
[[step]]
name = "first"
request = "POST /films"
json = { id = 2, slug = "ran" }
[[step]]
name = "second"
request = "GET /films"
status = 500
[[step]]
name = "only here"
only = "%s"
sql = "SELECT count(*) AS n FROM films"
exact = [{ n = 2 }]
[[step]]
name = "only there"
only = "%s"
request = "GET /none"
''' % (suite.kind, {"sqlite": "postgres", "postgres": "sqlite"}[suite.kind])
    run = suite.run(steps, "--filter", "only")
    assert run.returncode == 0, run.stdout
    assert points(run.stdout) == [("ok", "1", "only here"), ("ok", "2", "only there # SKIP on this database")]
    assert "# second (not in the filter) has failed: status: expected 500, got 200\n" in run.stdout
    run = suite.run(steps, "--filter", "first", "--verbose")
    assert "# POST /films HTTP/1.1\n" in run.stdout and '"slug":"ran"' in run.stdout and run.returncode == 0
    run = suite.call("t.sluicetest", "--database", "mysql://localhost")
    assert run.returncode == 2 and 'a database is "sqlite"' in run.stderr
    assert suite.call().returncode == 2
    run = suite.run(steps, "--filter", "TYPO")
    assert run.returncode == 2 and run.stdout == "" and run.stderr == "sluice: --filter: no step's name contains \"TYPO\"\n"
    run = suite.call("t.sluicetest", "--database", suite.database, "--filter", "first")
    assert [one[2] for one in points(run.stdout)] == [f"{suite.kind}: first"] * 2


def test_a_kept_database(suite, request):
    run = suite.run('[[step]]\nrequest = "POST /films"\njson = { id = 2, slug = "ran" }\n', "--keep")
    kept = re.search(r"^# \[database.main\] is kept: (.*)$", run.stdout, re.M).group(1)
    if suite.kind == "sqlite":
        output = subprocess.run(["sqlite3", kept, "SELECT count(*) FROM films"], check=True, capture_output=True).stdout
        assert output == b"2\n"
        folder = pathlib.Path(kept).parent
    else:
        cluster = request.getfixturevalue("postgres")
        assert cluster.psql("SELECT count(*) FROM films", kept) == b"2\n"
        cluster.psql(f"DROP DATABASE {kept}")
        [folder] = suite.temporary().iterdir()
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cleans_up(suite, number, request):
    suite.write("t.sluicetest", HEAD + '[[step]]\nrequest = "GET /films"\n[[step]]\nrequest = "GET /slow"\ntimeout = "100s"\n')
    with subprocess.Popen(suite.command("t.sluicetest"), cwd=suite.folder, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "TMPDIR": str(suite.temporary())}) as run:
        seen = ""
        for line in run.stdout:
            seen += line
            if line.startswith("ok 1"):
                break
        if suite.kind == "postgres":
            assert left_behind(request.getfixturevalue("postgres")) != b""
        time.sleep(0.2)  # most likely during the slow request
        run.send_signal(number)
        seen += run.stdout.read()
    assert run.returncode == -number, seen
    assert seen.endswith("Bail out! interrupted by a signal\n") and "1.." not in seen


def test_a_step_has_a_timeout(suite):
    run = suite.run('[[step]]\nrequest = "GET /slow"\ntimeout = "200ms"\n[[step]]\nrequest = "GET /films"\n')
    assert run.returncode == 1
    assert [one[0] for one in points(run.stdout)][:2] == ["not ok", "ok"], run.stdout
    assert "no complete answer within the timeout" in run.stdout


def test_the_configuration_is_checked_for_the_database_that_is_used(suite, postgres):
    other = {"sqlite": "postgres://nobody@127.0.0.1:1/nowhere", "postgres": "sqlite:never-opened.db"}[suite.kind]
    config = f'''
[database.main]
url = "{other}"
%s
[[endpoint]]
path = "/films"
get = "SELECT id, slug FROM films ORDER BY id"
post = "INSERT INTO films (id, slug) VALUES (:id, :slug)"
changes = {{ notify = "films_changed", tables = ["films"] }}
'''
    step = '\n[[step]]\nname = "a film"\nrequest = "GET /films"\n'
    suite.write("sluice.toml", config % "")
    run = suite.run(step)
    assert run.returncode == 0, run.stdout + run.stderr
    # A key of the other kind of database, then one of this kind.
    keys = {"sqlite": 'untrusted = true', "postgres": 'start_timeout = "60s"'}
    suite.write("sluice.toml", config % keys.pop(suite.kind))
    run = suite.run(step)
    assert run.returncode == 0, run.stdout + run.stderr
    suite.write("sluice.toml", config % keys.popitem()[1])
    run = suite.run(step)
    assert run.returncode == 3 and "sluice.toml:4:" in run.stderr, run.stderr
    assert "this database is " + {"sqlite": "SQLite", "postgres": "PostgreSQL"}[suite.kind] in run.stderr
    # The same file with the other kind of database is checked as that kind.
    suite.write("sluice.toml", config % "")
    run = suite.call("t.sluicetest", "--database", "sqlite" if suite.kind == "postgres" else postgres.url())
    assert run.returncode == 0 and len(points(run.stdout)) == 2, run.stdout + run.stderr


GUARDED = '''
[database.main]
url = "sqlite:never-opened.db"
%s
[[endpoint]]
path = "/me"
get = "SELECT CAST(:me AS text) AS me, CAST(:role AS text) AS role"
params.me = { from = "claim.sub" }
params.role = { from = "claim.role" }
use = ["auth"]
'''
POLICY = '[policy.auth]\ntype = "jwt"\nissuer = "https://issuer.example"\naudience = "films"\n'
TOKENS = '''
[[step]]
request = "GET /me"
status = 401
[[step]]
request = "GET /me"
token = { sub = "ada", role = "${wanted}" }
exact = [{ me = "ada", role = "editor" }]
set = { last = "body.0.me" }
[[step]]
request = "GET /me"
token = { sub = "${last}-2" }
expect = [{ me = "ada-2", role = "#null" }]
[[step]]
request = "GET /me"
token = { sub = "ada", exp = 1 }
status = 401
[[step]]
request = "GET /me"
token = { sub = "ada", aud = "else" }
status = 401
'''


@pytest.mark.parametrize("keys", [
    'secret = "0123456789abcdef0123456789abcdef"', 'secret_file = "auth.secret"',
    'secret = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"\nalgorithms = ["RS256", "HS512"]',
    'public_key = "rsa.pem"', 'jwks = "keys.json"\nalgorithms = ["ES256"]',
    'jwks_url = "http://127.0.0.1:1/jwks.json"', 'secret = "0123456789abcdef0123456789abcdef"\nfrom = ["query.t", "cookie.t"]',
    'secret = "0123456789abcdef0123456789abcdef"\nfrom = ["header.X-Token"]'])
def test_tokens_are_signed_without_an_issuer(suite, keys):
    suite.write("auth.secret", "fedcba9876543210fedcba9876543210\n")
    suite.write("rsa.pem", Rsa().public_pem.decode())
    suite.write("keys.json", json.dumps({"keys": [Ec().jwk("k")]}))
    suite.write("sluice.toml", GUARDED % (POLICY + keys))
    ran = suite.run(TOKENS, head=HEAD + '[variables]\nwanted = "editor"\n')
    assert ran.returncode == 0 and ran.stdout.endswith("1..5\n"), ran.stdout + ran.stderr


def test_a_token_of_the_real_issuer_is_still_accepted(suite):
    secret = Secret()
    suite.write("sluice.toml", GUARDED % f'[policy.auth]\ntype = "jwt"\nsecret = "{secret.secret}"')
    ran = suite.run(f'''
[[step]]
request = "GET /me"
headers = {{ Authorization = "Bearer {secret.token(soon())}" }}
expect = [{{ me = "ada" }}]
[[step]]
request = "GET /me"
token = {{ sub = "eve" }}
expect = [{{ me = "eve" }}]
''', head=HEAD + '[headers]\nAuthorization = "Bearer x"\n')
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("policies, step, says", [
    ("", 'token = { sub = "1" }', 'the configuration has no policy of type "jwt"'),
    (POLICY + 'secret = "0123456789abcdef0123456789abcdef"\n' + POLICY.replace("auth", "more")
     + 'secret = "0123456789abcdef0123456789abcdef"\n', 'token = { sub = "1" }', 'which policy the token is for'),
    (POLICY + 'secret = "0123456789abcdef0123456789abcdef"\n', 'token = { sub = "1" }\ntoken_policy = "auht"',
     'no [policy.auht] has the type "jwt"'),
    (POLICY + 'secret = "0123456789abcdef0123456789abcdef"\n', 'token = "1"', "a table of claims"),
    (POLICY + 'secret = "0123456789abcdef0123456789abcdef"\n', 'token_policy = "auth"', '"token_policy" is for'),
    (POLICY + 'secret = "0123456789abcdef0123456789abcdef"\nfrom = ["query.t"]\n', 'token = { sub = "1" }',
     "from the query string only"),
])
def test_a_token_that_cannot_be_signed_is_an_error_of_the_file(suite, policies, step, says):
    config = GUARDED % policies
    suite.write("sluice.toml", config if policies else CONFIG % SLOW[suite.kind])
    ran = suite.run(f'[[step]]\nrequest = "GET /me"\n{step}\n')
    assert ran.returncode == 3 and says in ran.stderr, ran.stdout + ran.stderr
