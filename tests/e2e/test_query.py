"""`sluice query`: the rows of a statement on standard output or in a file."""
import os
import pathlib
import pty
import re
import select
import signal
import sqlite3
import subprocess

import pytest

from conftest import SLUICE, until

# A shell starts background jobs with SIGINT ignored. The command would inherit that, and leave it so.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SCHEMA = "CREATE TABLE films (id int PRIMARY KEY, title text UNIQUE, score double precision, at timestamp)"
ROWS = """INSERT INTO films VALUES (1, 'plain', 1.5, '2026-01-02 03:04:05'), (2, 'a "b", c', -0.25, NULL),
  (3, '', NULL, NULL), (4, 'zwei
Zeilen', 1e20, NULL), (5, 'ß', 3, NULL)"""


class Target:
    def __init__(self, kind, name, query, folder):
        self.kind, self.name, self.query, self.folder = kind, name, query, folder
        # The numbers from 1 to :n, of which the database computes one after the other.
        self.numbers = ("SELECT generate_series(1, :n::int) AS n" if kind == "postgres" else
                        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < CAST(:n AS int)) SELECT n FROM r")

    def command(self, *arguments):
        return [SLUICE, "query", self.name, *arguments]

    def run(self, *arguments, code=0, **options):
        """Standard output as bytes; of a failure, the line of standard error as text."""
        options = {"stdout": subprocess.PIPE, **options}
        done = subprocess.run(self.command(*arguments), cwd=self.folder, stderr=subprocess.PIPE, timeout=120, **options)
        said = done.stderr.decode()
        assert done.returncode == code, (done.returncode, said)
        if code in (0, 128 + signal.SIGPIPE):
            assert said == ""
            return done.stdout
        assert re.fullmatch(r"sluice: .+\n(Run with --help for more information.\n)?", said), said
        return said

    def start(self, *arguments, **options):
        return subprocess.Popen(self.command(*arguments), cwd=self.folder, stderr=subprocess.PIPE, **options)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("films.db"))


@pytest.fixture(params=["sqlite", "postgres"])
def target(request, tmp_path):
    if request.param == "sqlite":
        name = str(tmp_path / "films.db")

        def query(sql):
            database = sqlite3.connect(name, timeout=10, isolation_level=None)
            try:
                return [tuple(str(value) for value in row) for row in database.execute(sql)]
            finally:
                database.close()
    else:
        postgres = request.getfixturevalue("postgres")
        name = postgres.url()

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql).decode().splitlines()]
        query("DROP TABLE IF EXISTS parts, films CASCADE")
    query(SCHEMA)
    query(ROWS)
    return Target(request.param, name, query, tmp_path)


def running(postgres, text):
    return postgres.psql(f"SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND query LIKE '%{text}%'"
                         " AND pid <> pg_backend_pid()").decode().strip()


def test_formats(target, sluice):
    """Each format has the bytes of an endpoint with the same statement."""
    url = target.name if target.kind == "postgres" else f"sqlite:{target.name}"
    statements = {"all": "SELECT * FROM films ORDER BY id", "none": "SELECT id, title FROM films WHERE id > 100",
                  "many": target.numbers.replace(":n", "200000").replace("200000::int", "200000")}
    if target.kind == "postgres":
        statements["types"] = "SELECT ARRAY[1, NULL] AS a, '{\"b\": 1}'::jsonb AS b, true AS c, row(1, 'x') AS d, now()::date AS e"
    server = sluice(f'[database.main]\nurl = "{url}"\n' + "".join(
        f"[[endpoint]]\npath = \"/{path}\"\nget = '''{text}'''\n" for path, text in statements.items()))
    for path, text in statements.items():
        for form in ("csv", "csj", "ndjson", "json"):
            answer = server.get(f"/{path}.{form}")
            assert answer.status == 200
            assert target.run(text, "--format", form) == answer.body, (path, form)
        assert target.run(text) == server.get(f"/{path}.csv").body
    if target.kind == "sqlite":
        assert target.run("SELECT 1 AS one") == subprocess.run(
            [SLUICE, "query", f"sqlite://{target.name}", "SELECT 1 AS one"], capture_output=True, check=True).stdout


def test_csv_is_that_of_psql(postgres, tmp_path):
    text = "SELECT n, repeat('x\"', n % 9), now()::date + n, n::numeric / 7, nullif(n % 5, 0) FROM generate_series(1, 20000) n"
    expected = subprocess.run(["psql", "-XAtq", postgres.url(), "-c", f"\\copy ({text}) TO STDOUT (FORMAT csv, HEADER)"],
                              capture_output=True, check=True).stdout
    assert Target("postgres", postgres.url(), None, tmp_path).run(text) == expected


def test_parameters(target):
    text = "SELECT id FROM films WHERE id >= :low AND title <> :not AND ':x' <> '' ORDER BY id"
    assert target.run(text, "--param", "low=2", "--param", "not=a=b") == b"id\n2\n3\n4\n5\n"
    assert target.run("SELECT id FROM films WHERE title = :t", "--param", "t=") == b"id\n3\n"
    assert target.run("SELECT id FROM films WHERE title = :t", "--param", "t=' OR 1 = 1 --") == b"id\n"
    assert "--param not=VALUE" in target.run(text, "--param", "low=2", code=2)
    assert "no parameter :x" in target.run(text, "--param", "low=2", "--param", "not=a", "--param", "x=1", code=2)
    assert "low comes twice" in target.run(text, "--param", "low=2", "--param", "low=2", "--param", "not=a", code=2)
    assert "NAME=VALUE" in target.run(text, "--param", "low", code=2)
    if target.kind == "postgres":
        assert "invalid input syntax" in target.run(text, "--param", "low=x", "--param", "not=a", code=1)


def test_reads_only(target):
    for text in ("INSERT INTO films (id) VALUES (6) RETURNING id", "UPDATE films SET score = 0", "DROP TABLE films",
                 "CREATE TABLE other (a int)"):
        assert "--write" in target.run(text, code=1)
    if target.kind == "postgres":
        target.query("CREATE OR REPLACE FUNCTION writes() RETURNS int LANGUAGE sql AS"
                     " 'INSERT INTO films VALUES (7, ''seven'') RETURNING id'")
        for text in ("SELECT writes()", "SELECT id FROM films FOR UPDATE"):
            assert "--write" in target.run(text, code=1)
        assert target.run("SELECT writes()", "--write") == b"writes\n7\n"
        target.query("DELETE FROM films WHERE id = 7")
    assert target.query("SELECT count(*), sum(score) IS NULL FROM films")[0][0] == "5"
    if target.kind == "sqlite":
        assert target.query("PRAGMA journal_mode") == [("delete",)], "reading has changed the file"


def test_writes(target):
    insert = "INSERT INTO films (id, title) VALUES (:id, :title) RETURNING id, title"
    arguments = ("--write", "--param", "id=6", "--param", "title=six")
    assert target.run(insert, *arguments, "--format", "json") == b'[{"id":6,"title":"six"}]\n'
    assert target.query("SELECT title FROM films WHERE id = 6") == [("six",)]
    assert "(23505)" in target.run(insert, *arguments, code=1)
    assert target.run("UPDATE films SET title = 'seven' WHERE id = 6", "--write") == b""
    assert target.query("SELECT title FROM films WHERE id = 6") == [("seven",)]
    assert target.run("DELETE FROM films WHERE id = 99 RETURNING id", "--write") == b"id\n"
    assert target.run("SELECT count(*) AS n FROM films", "--write") == b"n\n6\n"
    target.run("CREATE TABLE parts (n int CHECK (n < 100000))", "--write")
    # One row too many: nothing is written.
    numbers = target.numbers + (" WHERE true" if target.kind == "sqlite" else "")
    fill = f"INSERT INTO parts {numbers} RETURNING n"
    assert "23514" in target.run(fill, "--param", "n=100000", "--write", code=1)
    assert target.query("SELECT count(*) FROM parts") == [("0",)]
    rows = target.run(fill, "--param", "n=99999", "--write")
    assert rows == "\n".join(["n", *map(str, range(1, 100000)), ""]).encode()
    assert target.query("SELECT count(*) FROM parts") == [("99999",)]


def test_statements_that_fail(target):
    assert "nowhere" in target.run("SELECT * FROM nowhere", code=1)
    said = target.run("SELECT nothing FROM films", code=1)
    assert "nothing" in said and said.endswith(", at character 8\n")
    assert "more than one statement" in target.run("SELECT 1; SELECT 2", code=1)
    assert "empty" in target.run("", code=1)
    assert "xml not in {csv,csj,ndjson,json}" in target.run("SELECT 1", "--format", "xml", code=2)
    # A message of several lines is one line.
    if target.kind == "postgres":
        assert "Key (title)=(plain) already exists" in target.run(
            "INSERT INTO films (id, title) VALUES (9, 'plain')", "--write", code=1)


def test_fails_in_the_middle(target):
    """The rows before the error have been written; a file is not."""
    if target.kind == "postgres":
        text = "SELECT n, 1 / (n - 100000) AS x FROM (SELECT generate_series(1, 200000) AS n) AS numbers"
    else:
        text = target.numbers.replace(":n", "200000").replace(
            "SELECT n FROM r", "SELECT n, CASE n WHEN 100000 THEN json_extract('{', '$') ELSE 0 END AS x FROM r")
    for output in ((), ("--output", "rows.csv")):
        process = target.start(text, *output, stdout=subprocess.PIPE)
        rows, said = process.communicate(timeout=60)
        assert process.returncode == 1
        assert re.fullmatch(rb"sluice: .*(22012|JSON).*\n", said), said
        lines = rows.split(b"\n")
        if output:
            assert rows == b""
        else:
            assert lines[0] == b"n,x" and len(lines) > 50_000
            assert lines[-1] == b"" and len(lines) <= 100_001
        assert target.files() == []


def test_output_is_a_file(target):
    path = target.folder / "rows.csv"
    path.write_text("before")
    path.chmod(0o640)
    (target.folder / "link.csv").symlink_to("rows.csv")
    assert "nowhere" in target.run("SELECT * FROM nowhere", "--output", "rows.csv", code=1)
    assert path.read_text() == "before"
    assert target.run("SELECT id FROM films WHERE id < 3", "--output", "link.csv") == b""
    assert path.read_text() == "id\n1\n2\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert target.files() == ["link.csv", "rows.csv"]
    assert "cannot write to none/rows.csv: No such file or directory" in target.run(
        "SELECT 1", "--output", "none/rows.csv", code=1)
    assert target.run("SELECT 1", "--output", "/dev/null") == b""
    assert pathlib.Path("/dev/null").is_char_device()


def test_full_disk(target):
    numbers = (target.numbers, "--param", "n=1000000")
    with open("/dev/full", "wb") as full:
        said = target.run(*numbers, code=1, stdout=full)
    assert said == "sluice: cannot write to standard output: No space left on device\n"
    said = target.run(*numbers, "--output", "/dev/full", code=1)
    assert said == "sluice: cannot write to /dev/full: No space left on device\n"


def test_broken_pipe(target, request):
    process = target.start(target.numbers, "--param", "n=1000000000", stdout=subprocess.PIPE)
    assert process.stdout.read(4) == b"n\n1\n"
    process.stdout.close()
    assert process.wait(60) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""
    if target.kind == "postgres":
        assert running(request.getfixturevalue("postgres"), "generate_series(1, $1::int)") == "0"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(target, request, number):
    process = target.start(target.numbers, "--param", "n=2000000000", "--output", "rows.csv")
    until(lambda: any(path.stat().st_size > 1 << 20 for path in target.folder.glob("rows.csv.*.part")))
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert process.stderr.read() == b""
    assert target.files() == []
    if target.kind == "postgres":
        assert running(request.getfixturevalue("postgres"), "generate_series(1, $1::int)") == "0"


def test_interrupted_while_the_database_works(target, request):
    """The statement has no rows yet; a write is rolled back."""
    if target.kind == "postgres":
        postgres = request.getfixturevalue("postgres")
        for arguments in (("SELECT pg_sleep(600)",),
                          ("INSERT INTO films SELECT 10 FROM pg_sleep(600)", "--write"),
                          ("INSERT INTO films SELECT 10 FROM pg_sleep(600) RETURNING id", "--write")):
            process = target.start(*arguments, stdout=subprocess.PIPE)
            until(lambda: running(postgres, "pg_sleep(600)") == "1")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert running(postgres, "pg_sleep(600)") == "0"
            assert process.communicate() == (b"", b"")
    else:
        # The journal shows that the statement runs.
        target.query("PRAGMA journal_mode = WAL")
        text = "INSERT INTO films (id, title) " + target.numbers.replace("SELECT n FROM r", "SELECT n + 100, n || 'x' FROM r")
        process = target.start(text, "--write", "--param", "n=1000000000", stdout=subprocess.PIPE)
        log = target.folder / "films.db-wal"
        until(lambda: log.exists() and log.stat().st_size > 1 << 20, 60)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.communicate() == (b"", b"")
    assert target.query("SELECT count(*) FROM films") == [("5",)]


def test_needs_little_memory(target):
    peaks = []
    # AddressSanitizer would keep 256 MB of freed memory.
    environment = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}
    for count in (50_000, 500_000):
        process = target.start(target.numbers, "--param", f"n={count}", stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, process.stderr.read()
        peaks.append(usage.ru_maxrss)
    assert peaks[1] < peaks[0] + 8192, peaks


def test_progress_on_a_terminal(target):
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(target.command(target.numbers, "--param", "n=2000000000"), stdout=subprocess.PIPE,
                                   stderr=theirs, cwd=target.folder)
        seen = b""
        while seen.count(b"rows/s") < 3:
            process.stdout.read1(1 << 20)
            if select.select([ours], [], [], 0)[0]:
                seen += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait(60) in (130, 141)
        seen += os.read(ours, 4096)
        assert re.search(rb"\r\x1b\[K[\d,]+ rows, [\d.]+ MB, [\d,]+ rows/s\r\x1b\[K[\d,]+ rows, ", seen), seen
        assert seen.endswith(b"\r\x1b[K")
    finally:
        os.close(ours)
        os.close(theirs)


def test_no_progress_among_rows(target):
    """Rows on the same terminal."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(target.command("SELECT id FROM films"), stdout=theirs, stderr=theirs)
        assert process.wait(60) == 0
        assert os.read(ours, 4096) == b"id\r\n1\r\n2\r\n3\r\n4\r\n5\r\n"
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("url, code", [
    ("postgres://ada:s3cret@127.0.0.1:1/films", 1), ("postgres://ada:s3cret@[x/films", 2), ("mysql://ada:s3cret@h/films", 2),
    ("sqlite://ada:s3cret@h/films", 2), ("postgres://ada:s3cret@127.0.0.1:1/films?sslmode=x", 2)])
def test_no_passwords(url, code, tmp_path):
    said = Target("postgres", url, None, tmp_path).run("SELECT 1", code=code)
    assert "s3cret" not in said
    wrong = subprocess.run([SLUICE, "query", "a.db", "SELECT 1", url], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 2 and "not expected" in wrong.stderr and "s3cret" not in wrong.stderr


def test_databases_that_do_not_exist(tmp_path, postgres):
    (tmp_path / "notes.txt").write_text("no database")
    for name, reason in (("none.db", "there is no file none.db"), ("notes.txt", "not a SQLite database"),
                         (postgres.url("nothing"), "3D000"), ("postgres://postgres@127.0.0.1:1/x", "refused")):
        assert reason in Target("", name, None, tmp_path).run("SELECT 1", code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_help():
    said = subprocess.run([SLUICE, "query", "--help"], capture_output=True, text=True, check=True).stdout
    for word in ("STATEMENT", "--format", "--param", "--output", "--write", "Exit codes"):
        assert word in said
    manual = subprocess.run([SLUICE, "man"], capture_output=True, text=True, check=True).stdout
    assert "sluice query" in manual
