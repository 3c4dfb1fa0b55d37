"""`sluice import`: files into tables, in batches; an interrupted import continues where it ended."""
import csv
import json
import os
import random
import signal
import sqlite3
import string
import subprocess
import time

import pytest

from conftest import SLUICE


class Target:
    """A table films(id, slug, score) that the command imports into."""

    def __init__(self, kind, url, query, folder):
        self.kind, self.url, self.query, self.folder = kind, url, query, folder

    def run(self, *arguments, code=0, stdin=None, table="films"):
        done = subprocess.run([SLUICE, "import", "--database", self.url, *arguments], cwd=self.folder, text=True,
                              input=stdin, capture_output=True, timeout=120)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def rows(self):
        return sorted((int(i), slug, None if score in (None, "") else float(score))
                      for i, slug, score in self.query("SELECT id, slug, score FROM films"))


@pytest.fixture(params=["sqlite", "postgres"])
def target(request, tmp_path):
    schema = "CREATE TABLE films (id int PRIMARY KEY, slug text UNIQUE NOT NULL, score double precision DEFAULT 5)"
    if request.param == "sqlite":
        path = tmp_path / "films.db"

        def query(sql):
            database = sqlite3.connect(path, timeout=10, isolation_level=None)
            try:
                return database.execute(sql).fetchall()
            finally:
                database.close()
        url = f"sqlite:{path}"
    else:
        postgres = request.getfixturevalue("postgres")

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql).decode().splitlines()]
        url = postgres.url()
        query("DROP TABLE IF EXISTS parts, films CASCADE")
    query(schema)
    return Target(request.param, url, query, tmp_path)


def write_films(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["slug", "id", "score"])
        writer.writerows(rows)


def test_inserts_updates_and_leaves_alone(target):
    target.query("INSERT INTO films VALUES (1, 'one', 1), (2, 'two', 2), (99, 'stays', 9)")
    write_films(target.folder / "films.csv", [["one", 1, 1.0], ["zwei, \"2\"", 2, ""], ["drei, ß", 3, 3.5]])
    said = target.run("films", "films.csv", "--dry-run")
    assert "3 rows: 1 would be inserted, 1 updated, 1 unchanged" in said
    assert len(target.rows()) == 3
    said = target.run("films", "films.csv")
    assert "films: 3 rows: 1 inserted, 1 updated, 1 unchanged" in said
    assert target.rows() == [(1, "one", 1), (2, 'zwei, "2"', None), (3, "drei, ß", 3.5), (99, "stays", 9)]
    assert "3 unchanged" in target.run("films", "films.csv")
    assert not list(target.folder.glob("*.sluice-import*"))
    # Columns that an object does not have keep their values.
    lines = "\n".join(json.dumps(each) for each in ({"id": 1, "score": 7}, {"id": 4, "slug": "vier"}))
    said = target.run("films", "-", "--format", "ndjson", stdin=lines)
    assert "2 rows: 1 inserted, 1 updated, 0 unchanged" in said
    assert dict((row[0], row[2]) for row in target.rows())[4] == 5
    said = target.run("films", "-", "--format", "csv", "--key", "slug", stdin="slug,score\none,8\n")
    assert "1 updated" in said
    assert target.rows()[0] == (1, "one", 8)


def test_bad_rows_end_it_and_it_goes_on_behind_what_was_written(target):
    rows = [[f"film-{n}", n, n / 2] for n in range(1, 5001)]
    rows[4321][0] = None
    path = target.folder / "films.csv"
    write_films(path, rows)
    said = target.run("films", "films.csv", "--batch", "1000", code=1)
    assert "films.csv:4323: slug: must not be null" in said
    assert "have been written" in said
    written = len(target.query("SELECT id FROM films"))
    assert written == 4000
    rows[4321][0] = "film-4322"
    write_films(path, rows)
    done = subprocess.run([SLUICE, "import", "films", "films.csv", "--batch", "1000", "--database", target.url],
                          cwd=target.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"{written:,} rows are there already" in done.stderr
    assert f"{5000 - written:,} inserted, 0 updated, 0 unchanged" in done.stdout
    assert len(target.query("SELECT id FROM films")) == 5000


def test_rows_that_break_a_constraint_are_told_with_their_lines(target):
    write_films(target.folder / "films.csv", [["a", 1, 1], ["b", 2, 2], ["a", 3, 3], ["c", 4, 4]])
    for arguments in (["--dry-run"], []):
        said = target.run("films", "films.csv", *arguments, code=1)
        assert "films.csv:4: " in said and "has the same unique value as another row" in said
        assert target.rows() == []


def test_the_constraint_that_a_row_breaks_is_named(target):
    write_films(target.folder / "films.csv", [["a", 1, 1], ["a", 2, 2]])
    said = target.run("films", "films.csv", code=1)
    name = "films_slug_key" if target.kind == "postgres" else "slug"
    assert f"films.csv:3: has the same unique value as another row ({name})" in said
    target.query("CREATE TABLE parts (id int PRIMARY KEY, price int, CONSTRAINT price_positive CHECK (price > 0))")
    said = target.run("parts", "-", "--format", "csv", stdin="id,price\n1,5\n2,0\n3,-1\n", code=1)
    assert "-:3: is outside of what is allowed (price_positive)" in said
    assert "-:4: is outside of what is allowed (price_positive)" in said


def test_a_text_that_is_too_long_for_an_index_is_a_fault_of_its_row(target):
    slug = "".join(random.Random(1).choices(string.ascii_letters, k=20_000))
    write_films(target.folder / "films.csv", [["a", 1, 1], [slug, 2, 2]])
    if target.kind == "postgres":
        assert "films.csv:3: is too long" in target.run("films", "films.csv", code=1)
    else:
        target.run("films", "films.csv")
        assert len(target.rows()) == 2


EXPORTS = {"csv": 'id,g,name\n1,2,"a"\n2,4,"c"\n', "csj": '"id","g","name"\n1,2,"a"\n2,4,"c"\n',
           "ndjson": '{"id":1,"g":2,"name":"a"}\n{"id":2,"g":4,"name":"c"}\n', "json": '[{"id":1,"g":2,"name":"a"},{"id":2,"g":4,"name":"c"}]'}


def test_columns_that_the_database_generates_are_passed_over(target):
    """So a table's own export can be imported."""
    target.query("DROP TABLE IF EXISTS made")
    target.query("CREATE TABLE made (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED, name text)")
    for kind, text in EXPORTS.items():
        target.query("DELETE FROM made")
        target.query("INSERT INTO made (id, name) VALUES (1, 'a'), (2, 'b')")
        said = target.run("made", "-", "--format", kind, stdin=text)
        assert "made: 2 rows: 0 inserted, 1 updated, 1 unchanged" in said, kind
        assert [tuple(map(str, row)) for row in target.query("SELECT id, g, name FROM made ORDER BY id")] == [("1", "2", "a"), ("2", "4", "c")]
    for arguments in (["--key", "g"], []):
        if arguments == []:
            if target.kind == "sqlite":
                continue  # SQLite allows no generated key
            target.query("DROP TABLE made")
            target.query("CREATE TABLE made (id int, g int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text)")
        for kind, text in EXPORTS.items():
            said = target.run("made", "-", "--format", kind, *arguments, stdin=text, code=2)
            assert 'the database makes the values of the key "g" itself: --key names another' in said, kind
            assert ("declare it GENERATED BY DEFAULT AS IDENTITY" in said) == (target.kind == "postgres"), kind


def test_a_dot_in_a_columns_name_is_no_field_within_an_object(target):
    document = "json" if target.kind == "sqlite" else "jsonb"
    target.query("DROP TABLE IF EXISTS dotted")
    target.query(f'CREATE TABLE dotted (id int PRIMARY KEY, a {document}, "a.b" text)')
    target.query("INSERT INTO dotted VALUES (1, '{}', 'stays')")
    assert "1 updated" in target.run("dotted", "-", "--format", "ndjson", stdin='{"id":1,"a":{"b":"q"}}\n')
    assert target.query('SELECT "a.b" FROM dotted')[0][0] == "stays"
    assert 'there is no field "a.b"' in target.run("dotted", "-", "--format", "ndjson", stdin='{"id":1,"a.b":"x"}\n', code=1)
    assert "1 updated" in target.run("dotted", "-", "--format", "csv", stdin="id,a.b\n1,changed\n")
    assert target.query('SELECT "a.b" FROM dotted')[0][0] == "changed"


@pytest.mark.parametrize("given, delimiter", [(";", ";"), ("\\t", "\t"), ("\t", "\t"), ("|", "|"), ("x", "x")])
def test_the_delimiter_of_csv(target, given, delimiter):
    rows = [["a,b", "1", "1"], [f'c{delimiter}"d\ne', "2", ""], [",,", "3", "3.5"]]
    path = target.folder / "films.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["slug", "id", "score"])
        writer.writerows(rows)
    said = target.run("films", "films.csv", "--delimiter", given)
    assert "3 rows: 3 inserted" in said
    hexed = "hex(slug)" if target.kind == "sqlite" else "encode(convert_to(slug, 'UTF8'), 'hex')"
    read = target.query(f"SELECT {hexed} FROM films ORDER BY id")
    assert [bytes.fromhex(slug).decode() for slug, in read] == [slug for slug, _, _ in rows]
    scores = target.query("SELECT score FROM films WHERE score IS NOT NULL ORDER BY id")
    assert [float(score) for score, in scores] == [1, 3.5]
    assert "3 unchanged" in target.run("films", "films.csv", "--delimiter", given)
    # With a comma the header is one column, which the table does not have.
    assert "films.csv:1: " in target.run("films", "films.csv", code=1)


@pytest.mark.parametrize("arguments", [("films.csv", "--delimiter", ";;"), ("films.csv", "--delimiter", '"'),
                                       ("films.csv", "--delimiter", "\n"), ("films.csv", "--delimiter", "é"),
                                       ("films.ndjson", "--delimiter", ";")])
def test_what_is_no_delimiter(target, arguments):
    write_films(target.folder / "films.csv", [["a", 1, 1]])
    (target.folder / "films.ndjson").write_text('{"id":1,"slug":"a"}\n')
    assert "--delimiter is" in target.run("films", *arguments, code=2)
    assert target.rows() == []


def test_what_is_not_of_the_columns_type_is_named(target):
    """Also in SQLite's tables, which are not STRICT."""
    for row, column in (("1,a,much", "score"), ("one,a,5", "id"), ("1.5,a,5", "id")):
        (target.folder / "films.csv").write_text(f"id,slug,score\n{row}\n")
        told = target.run("films", "films.csv", code=1)
        assert "films.csv:2:" in told and column in told, told
    told = target.run("films", "-", "--format", "ndjson", stdin='{"id":1,"slug":"a","score":true}\n', code=1)
    assert "-:1:" in told and "score" in told, told
    assert target.rows() == []


def test_the_row_with_the_same_key_is_named_by_its_line(target):
    (target.folder / "films.csv").write_text("id,slug,score\n1,a,5\n2,b,5\n3,c,5\n4,d,5\n4,e,5\n")
    told = target.run("films", "films.csv", "--batch", "3", code=1)
    assert "films.csv:6: has the same key as line 5" in told, told


def test_a_file_whose_beginning_has_changed_is_not_gone_on_with(target):
    path = target.folder / "films.csv"
    rows = [[f"film-{n}", n, n / 2] for n in range(1, 3001)]
    write_films(path, [*rows, [None, 9999, 1]])
    target.run("films", "films.csv", "--batch", "1000", code=1)
    rows[7][2] = 1234
    write_films(path, rows)
    assert "have changed" in target.run("films", "films.csv", "--batch", "1000", code=1)
    assert "3,000 rows" in target.run("films", "films.csv", "--batch", "1000", "--restart")
    assert target.rows()[7] == (8, "film-8", 1234)


def test_a_batch_has_as_many_rows_as_it_is_told(target):
    path = target.folder / "films.csv"
    write_films(path, [["a", 1, 1], ["b", 2, 2], ["c", 3, 3], [None, 4, 4]])
    assert "the first 3 rows have been written" in target.run("films", "films.csv", "--batch", "1", code=1)
    assert "have been written" in target.run("films", "films.csv", "--batch", "2", code=1)
    # With another key it is another import.
    assert "is of another import" in target.run("films", "films.csv", "--key", "slug", code=1)
    write_films(path, [["a", 1, 1], ["b", 2, 2], ["c", 3, 3], ["d", 4, 4]])
    assert "1 inserted, 0 updated, 0 unchanged" in target.run("films", "films.csv", "--batch", "10")


def test_no_password_is_in_the_checkpoint_or_in_a_message(tmp_path, postgres):
    postgres.psql("DROP TABLE IF EXISTS parts, films CASCADE; CREATE TABLE films (id int PRIMARY KEY, slug text, score real)")
    write_films(tmp_path / "films.csv", [["a", 1, 1], ["b", "none", 2]])
    url = postgres.url()

    def run(database, code=1):
        done = subprocess.run([SLUICE, "import", "films", "films.csv", "--batch", "1", "--database", database], cwd=tmp_path,
                              text=True, capture_output=True, timeout=60)
        assert done.returncode == code and "hush" not in done.stdout + done.stderr, done.stderr
        return done.stderr
    run(url + ("&" if "?" in url else "?") + "password=hush")
    checkpoint = (tmp_path / "films.csv.sluice-import").read_text()
    assert "rows 1" in checkpoint and "password=***" in checkpoint and "hush" not in checkpoint
    # With another URL the import does not continue, and the message names the first URL.
    assert "password=***" in run(url)


def test_one_name_for_two_databases(tmp_path):
    """The rows written to one database do not count for the other."""
    (tmp_path / "sluice.toml").write_text('[database.main]\nurl = "${DATABASE}"\n[[endpoint]]\npath = "/t"\nget = "SELECT id FROM t"\n')
    rows = ["id,n", "1,1", "2,2", "3,300", "4,4"]
    for name in "ab":
        with sqlite3.connect(tmp_path / f"{name}.db") as database:
            database.execute("CREATE TABLE t (id integer PRIMARY KEY, n int CHECK (n < 100))")

    def run(name, code, *arguments):
        (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
        done = subprocess.run([SLUICE, "import", "t", "t.csv", "--config", "sluice.toml", "--batch", "2", *arguments], cwd=tmp_path,
                              text=True, capture_output=True, timeout=60, env={**os.environ, "DATABASE": f"sqlite:{name}.db"})
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stderr
    run("a", 1)
    rows[3] = "3,30"
    assert "a.db" in run("b", 1)
    run("b", 0, "--restart")
    assert sqlite3.connect(tmp_path / "b.db").execute("SELECT count(*) FROM t").fetchone() == (4,)


def test_killed_and_gone_on(target):
    rows = [[f"film-{n}", n, n / 2] for n in range(1, 5001)]
    path = target.folder / "films.csv"
    write_films(path, rows)
    half = path.read_bytes()[:50_000]  # small enough to fit into a pipe that nobody reads
    path.unlink()
    # The command gets no more than half of the file, so it cannot finish before it is killed.
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR)
    command = [SLUICE, "import", "films", "films.csv", "--batch", "1000", "--database", target.url]
    process = subprocess.Popen(command, cwd=target.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        os.write(pipe, half)
        state = target.folder / "films.csv.sluice-import"
        end = time.monotonic() + 60
        while not (state.exists() and "rows 0\n" not in state.read_text()):
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < end, "no batch was written"
            time.sleep(0.002)
    finally:
        process.kill()
        process.communicate()
        os.close(pipe)
    assert process.returncode == -signal.SIGKILL
    count = len(target.query("SELECT id FROM films"))
    assert 0 < count < 5000
    path.unlink()
    write_films(path, rows)
    done = subprocess.run(command, cwd=target.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "rows are there already" in done.stderr
    assert len(target.query("SELECT id FROM films")) == 5000


def test_what_cannot_be_done(target):
    (target.folder / "films.csv").write_text("id,slug,colour\n1,a,b\n")
    assert "colour" in target.run("films", "films.csv", code=1)
    (target.folder / "films.csv").write_text("slug,score\na,1\n")
    assert 'no column "id", which is the key' in target.run("films", "films.csv", code=1)
    assert "--format" in target.run("films", "films.xls", code=2)
    assert "No such file" in target.run("films", "none.csv", code=1)
    assert 'no column "x"' in target.run("films", "films.csv", "--key", "x", code=2)
    target.query("CREATE TABLE IF NOT EXISTS loose (a int)")
    (target.folder / "loose.csv").write_text("a\n1\n")
    assert "no primary key" in target.run("loose", "loose.csv", code=2)
    (target.folder / "films.csv").write_text("id,slug\n1,a\n1,b\n")
    assert "films.csv:3: " in target.run("films", "films.csv", code=1)
    assert target.rows() == []
    assert not list(target.folder.glob("*.sluice-import*"))
    (target.folder / "films.csv").write_text("id,slug\n")
    assert "0 rows" in target.run("films", "films.csv")


def test_nothing_written_is_nothing_to_go_on_with(target):
    path = target.folder / "films.csv"
    state = target.folder / "films.csv.sluice-import"
    # The state after a kill before the first batch, of a file with other columns.
    state.write_text("sluice-import 1\ntarget another \"films\" \"id\" \"slug\"\nrows 0\nhash cbf29ce484222325\n")
    path.write_text("id,slug,score\n1,a,1\n")
    assert "1 inserted" in target.run("films", "films.csv")
    assert not state.exists()
    # Once rows are written, only the same import can continue.
    of_another = "sluice-import 1\ntarget another\nrows 1\nhash 1\n"
    state.write_text(of_another)
    assert "is of another import" in target.run("films", "films.csv", code=1)
    assert state.read_text() == of_another
    path.write_text("id,slug,score\n2,b,1\n2,c,1\n")
    assert "nothing has been written" in target.run("films", "films.csv", "--restart", code=1)
    assert not state.exists()
