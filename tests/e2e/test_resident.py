"""[[resident]]: tables kept in memory, on both databases."""
import csv
import io
import json
import re
import secrets
import socket
import sqlite3
import subprocess
import threading
import time
from urllib.parse import quote

import pytest

import http2
from conftest import SLUICE, database_with
from tokens import Secret

PEOPLE = [
    # id, name, email, roles, score, born
    (1, 'Ada "the" Lovelace', "ada@example.org", ["admin", "user"], "1.50", "1815-12-10"),
    (2, "Grace Hopper", None, ["user"], "10", "1906-12-09"),
    (3, "Ken, Thompson", "ken@example.org", [], "-2.25", "1943-02-04"),
    (4, "Ünïcode ☃", "four@example.org", ["user", "editor"], None, "1970-01-01"),
    (5, "Anna", "anna@example.org", ["admin"], "1.5", "1990-07-31"),
]
CONFIG = '''
[database.main]
url = "{url}"
[[resident]]
name = "people"
query = "SELECT id, name, email, roles, score, born FROM people ORDER BY id"
key = "id"
index = ["roles", "score", "born", "name", "email"]
csv = true
{more}
'''


class Data:
    """The same people in each database."""

    def __init__(self, url, config, execute):
        self.url, self.config, self.execute = url, config, execute


def fill_sqlite(path):
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, email TEXT, roles JSON, score NUMERIC, "
                         "born TEXT)")
        database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)",
                             [(*row[:3], json.dumps(row[3]), *row[4:]) for row in PEOPLE])
    database.close()


def fill_postgres(postgres, name):
    postgres.psql(f"CREATE DATABASE {name}")

    def literal(value):
        if value is None:
            return "NULL"
        if isinstance(value, list):
            return "ARRAY[" + ", ".join(map(literal, value)) + "]::text[]"
        return "'" + str(value).replace("'", "''") + "'"

    rows = ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in PEOPLE)
    postgres.psql("CREATE TABLE people (id int PRIMARY KEY, name text, email text, roles text[], score numeric, born date);"
                  f"INSERT INTO people VALUES {rows}", name)
    return postgres.url(name)


@pytest.fixture(params=["sqlite", "postgres"])
def people(request, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "people.db"
        fill_sqlite(path)

        def execute(statement):
            with sqlite3.connect(path, timeout=10) as database:
                database.execute(statement)
            database.close()
        return Data(f"sqlite:{path}", CONFIG, execute)
    postgres = request.getfixturevalue("postgres")
    name = f"people_{time.monotonic_ns()}"
    return Data(fill_postgres(postgres, name), CONFIG, lambda statement: postgres.psql(statement, name))


def ids(server, target, total=None):
    answer = server.get(target)
    assert answer.status == 200, (target, answer.body)
    found = [row["id"] for row in json.loads(answer.body)]
    assert answer.get("x-total-count") == str(len(found) if total is None else total), target
    return found


def test_rows_are_found(people, sluice):
    server = sluice(people.config.format(url=people.url, more=""))
    assert ids(server, "/people") == [1, 2, 3, 4, 5]
    for query, wanted in {
        "roles=admin": [1, 5], "roles=user&roles=editor": [4], "roles=in.(editor,admin)": [1, 4, 5], "roles=nobody": [],
        "id=3": [3], "id=eq.3": [3], "id=in.(5,1,77)": [1, 5], "id=in.()": [],
        "score=1.5": [1, 5], "score=gte.1.50": [1, 2, 5], "score=lt.1.5": [3], "score=gt.-3&score=lte.1.5": [1, 3, 5],
        "score=is.null": [4], "score=is.not_null": [1, 2, 3, 5], "email=is.null": [2],
        "born=gte.1943-02-04": [3, 4, 5], "born=lt.1900-01-01": [1],
        "name=Ken%2C+Thompson": [3], "name=in.(%22Ken%2C+Thompson%22,Anna)": [3, 5], "name=eq.Anna": [5],
        "name=%C3%9Cn%C3%AFcode%20%E2%98%83": [4], "roles=user&score=gte.2": [2],
        "sort=-score": [4, 2, 1, 5, 3], "sort=score": [3, 1, 5, 2, 4], "sort=score,-id": [3, 5, 1, 2, 4],
        "sort=name": [1, 5, 2, 3, 4], "roles=user&sort=-born": [4, 2, 1],
    }.items():
        assert ids(server, f"/people?{query}") == wanted, query
    assert ids(server, "/people?limit=2", total=5) == [1, 2]
    assert ids(server, "/people?limit=2&offset=4", total=5) == [5]
    assert ids(server, "/people?offset=9&sort=-id", total=5) == []
    assert ids(server, "/people?sort=-id&limit=2&roles=user", total=3) == [4, 2]
    with server.connect() as connection:
        for target in ("/people", "/people/4"):
            connection.send(f"GET {target} HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n[]".encode())
            assert connection.read().status == 400, "no value is taken from a body"


def test_negations_patterns_and_groups(people, sluice):
    server = sluice(people.config.format(url=people.url, more=""))
    for query, wanted in {
        "id=neq.3": [1, 2, 4, 5], "score=neq.1.5": [2, 3], "score=not.in.(10,1.5)": [3], "score=not.gt.1.5": [1, 3, 5],
        "score=not.is.null": [1, 2, 3, 5], "email=neq.x": [1, 3, 4, 5], "born=not.lt.1943-02-04": [3, 4, 5],
        "roles=neq.admin": [2, 3, 4], "roles=not.in.(admin,editor)": [2, 3], "roles=like.*d*": [1, 4, 5],
        "name=like.A*": [1, 5], "name=like.*a": [5], "name=like.*%22*": [1], "name=like.*%E2%98%83": [4],
        "name=like.a*": [], "name=not.like.*a*": [3, 4], "name=eq.like.A*": [], "email=like.*@*&id=gt.2": [3, 4, 5],
        "or=(id.eq.2,score.lt.0)": [2, 3], "or=(name.eq.%22Ken, Thompson%22,email.is.null)".replace(" ", "%20"): [2, 3],
        "not.or=(id.eq.2,score.lt.2)": [], "not.and=(id.gt.2,score.lt.2)": [1, 2],
        "and=(score.gt.0,or(roles.eq.admin,and(id.gt.1,not.or(id.gt.4,id.eq.3))))": [1, 2, 5],
        "or=(roles.eq.editor,born.gt.1980-01-01)&sort=-id": [5, 4], "or=(id.eq.1,id.eq.4)&or=(id.eq.4,id.eq.5)": [4],
    }.items():
        assert ids(server, f"/people?{query}") == wanted, query


def test_an_answer_is_what_an_endpoint_answers(people, sluice):
    server = sluice(people.config.format(url=people.url, more='''
[[endpoint]]
path = "/table"
get = "SELECT id, name, email, roles, score, born FROM people ORDER BY id"
[[endpoint]]
path = "/table/{id:int}"
returns = "object"
get = "SELECT id, name, email, roles, score, born FROM people WHERE id = :id"
'''))
    for end in ("ndjson", "csj", "csv"):
        mine, other = server.get(f"/people.{end}"), server.get(f"/table.{end}")
        assert (mine.status, mine.body, mine.get("content-type")) == (200, other.body, other.get("content-type")), end
        mine, other = server.get(f"/people/1.{end}"), server.get(f"/table/1.{end}")
        assert (mine.status, mine.body) == (200, other.body), end
    assert json.loads(server.get("/people").body) == json.loads(server.get("/table").body)
    assert server.get("/people/4").body == server.get("/table/4").body
    assert server.get("/people", "Accept: text/csv;header=absent").body == \
        server.get("/table", "Accept: text/csv;header=absent").body
    assert server.get("/people", "Accept: image/png").status == 406
    assert [server.get(target).status for target in ("/people/77", "/people/x", "/people/1/2")] == [404, 404, 404]
    head = server.get("/people/1", method="HEAD")
    assert (head.status, head.body, head.get("content-length")) == (200, b"", str(len(server.get("/people/1").body)))
    refused = server.get("/people", method="DELETE")
    assert (refused.status, refused.get("allow")) == (405, "GET, HEAD, OPTIONS")


def test_fields(people, sluice):
    server = sluice(people.config.format(url=people.url, more=""))
    assert json.loads(server.get("/people?fields=name,id&id=3").body) == [{"name": "Ken, Thompson", "id": 3}]
    assert server.get("/people/1?fields=name").body == b'{"name":"Ada \\"the\\" Lovelace"}\n'
    assert server.get("/people.csj?fields=name,id&limit=1").body == b'"name","id"\n"Ada \\"the\\" Lovelace",1\n'
    rows = list(csv.reader(io.StringIO(server.get("/people.csv?fields=name,id").body.decode())))
    assert rows == [["name", "id"], *[[row[1], str(row[0])] for row in PEOPLE]]


def test_what_cannot_be_asked_is_refused(people, sluice):
    server = sluice(people.config.format(url=people.url, more=""))
    for query, parameter, possible in [
        ("rolls=admin", "rolls", "roles"), ("sort=roles", "sort", "born"), ("sort=nothing", "sort", "score"),
        ("sort=", "sort", "score"), ("limit=-1", "limit", "from 0"), ("limit=x", "limit", "whole number"),
        ("offset=1.5", "offset", "whole number"), ("fields=id,nothing", "fields", "email"), ("fields=id,id", "fields", "twice"),
        ("roles=gt.a", "roles", "eq, neq, in, is"), ("id=abc", "id", "gte."), ("score=gte.much", "score", "a number"),
        ("id=in.(1,2", "id", "in.(1,2,3)"), ("id=is.nothing", "id", "is.null"), ("limit", "limit", "whole number"),
        ("name=%zz", "name", "escape"), ("score=like.1*", "score", "not a text"), ("score=is.true", "score", "is.not_null"),
        ("or=(rolls.eq.admin)", "or", "roles"), ("or=(score.eq.much)", "score", "a number"), ("or=(id.eq.1", "or", "parenthesis"),
        ("or=(id.eq.1,or(id.eq.2,or(id.eq.3,or(id.eq.4,or(id.eq.5)))))", "or", "4 deep"),
    ]:
        if query == "id=abc" and people.url.startswith("sqlite"):
            possible = "a number"
        for target in (f"/people?{query}",):
            answer = server.get(target)
            assert (answer.status, answer.media_type) == (400, "application/problem+json"), (target, answer.body)
            problem = json.loads(answer.body)
            assert problem["parameter"] == parameter and possible in problem["detail"], (target, problem)
    assert server.get("/people/1?limit=1").status == 400


def test_conditions_and_compression(people, sluice):
    server = sluice('[compression]\ncodings = ["gzip"]\nminimum = "16B"\n' + people.config.format(url=people.url, more=""))
    with server.connect() as connection:
        first = connection.get("/people")
        tag = first.get("etag")
        assert re.fullmatch(r'"[0-9a-f]{32}"', tag)
        known = connection.get("/people", f"If-None-Match: {tag}")
        assert (known.status, known.body, known.get("etag")) == (304, b"", tag)
        assert connection.get("/people", 'If-Match: "other"').status == 412
        assert connection.get("/people", f"If-Match: {tag}, *").status == 400
        assert connection.get("/people", f"If-None-Match: {tag}", "If-None-Match: *").status == 400
        assert connection.get("/people.csv").get("etag") != tag
        for _ in range(4):  # compressed, then cached, then from the cache
            coded = connection.get("/people?roles=user", "Accept-Encoding: gzip")
            assert (coded.status, coded.get("content-encoding")) == (200, "gzip")
            assert coded.get("etag") == tag[:-1] + ';gzip"'
        assert connection.get("/people?roles=user", "Accept-Encoding: gzip", f"If-None-Match: {coded.get('etag')}").status == 304
    # The same rows have the same tag in every process.
    again = sluice('[compression]\ncodings = ["gzip"]\nminimum = "16B"\n' + people.config.format(url=people.url, more=""))
    assert again.get("/people").get("etag") == tag


def wait_for(check, seconds=10):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.02)


def metric(server, name):
    text = server.admin("/metrics")[1]
    return float(re.search(rf'^sluice_resident_{name}{{resident="people"}} (\S+)$', text, re.M).group(1))


def full_loads(server):
    """Reads both counters from one answer, because they keep growing."""
    text = server.admin("/metrics")[1]
    loads, partial = (float(re.search(rf'^sluice_resident_{name}{{resident="people"}} (\S+)$', text, re.M).group(1))
                      for name in ("loads_total", "partial_total"))
    return loads - partial


def test_it_is_loaded_again(people, sluice):
    server = sluice(people.config.format(url=people.url, more='refresh = { every = "50ms" }'))
    tag = server.get("/people").get("etag")
    people.execute("DELETE FROM people WHERE id = 1")
    wait_for(lambda: ids(server, "/people") == [2, 3, 4, 5])
    wait_for(lambda: server.get("/people/1").status == 404)  # the cores take the new version one after the other
    wait_for(lambda: server.get("/people").get("etag") != tag)
    wait_for(lambda: metric(server, "unchanged_total") >= 1)
    assert metric(server, "rows") == 4 and metric(server, "failures_total") == 0

    # A table that cannot be loaded stays as it was, and its answers have an Age.
    people.execute("ALTER TABLE people RENAME TO others")
    wait_for(lambda: metric(server, "failures_total") >= 1)
    wait_for(lambda: server.get("/people").get("age") is not None)
    assert ids(server, "/people") == [2, 3, 4, 5]
    known = server.get("/people", f"If-None-Match: {server.get('/people').get('etag')}")
    assert known.status == 304 and int(known.get("age")) >= 0
    head = server.get("/people", method="HEAD")
    assert (head.status, head.get("x-total-count"), int(head.get("age")) >= 0) == (200, "4", True)
    assert "resident people: " in server.log
    people.execute("ALTER TABLE others RENAME TO people")
    wait_for(lambda: server.get("/people").get("age") is None)


def test_bytes_of_sqlite_are_found(tmp_path, sluice):
    with sqlite3.connect(tmp_path / "b.db") as database:
        database.executescript(r"""CREATE TABLE u (by BLOB PRIMARY KEY, t TEXT);
                                   INSERT INTO u VALUES (x'00ff', 'a'), (x'4142', 'b'), ('\x4143', 'c'), (x'', 'd')""")
    database.close()
    server = sluice(f'''
[database.main]
url = "sqlite:{tmp_path}/b.db"
[[resident]]
name = "r"
query = "SELECT * FROM u"
key = "by"
''')
    for asked, found in ((r"\x00ff", "a"), (r"\x00FF", "a"), (r"\x4142", "b"), (r"\x4143", "c"), (r"\x", "d")):
        assert json.loads(server.get(f"/r/{quote(asked)}").body)["t"] == found, asked
        assert [row["t"] for row in json.loads(server.get(f"/r?by={quote(asked)}").body)] == [found], asked
    for asked in ("AB", r"\x4", r"\x414", r"\xzz", r"\x41"):
        assert server.get(f"/r/{quote(asked)}").status == 404, asked


def test_sqlite_is_read_again_only_after_a_commit(tmp_path, sluice):
    path = tmp_path / "people.db"
    fill_sqlite(path)
    config = CONFIG.format(url=f"sqlite:{path}", more='refresh = { every = "20ms" }') + '''
[[endpoint]]
path = "/people/{id:int}/name"
put = "UPDATE people SET name = 'Bob' WHERE id = :id"
'''
    server = sluice(config)
    wait_for(lambda: metric(server, "unchanged_total") >= 5)
    assert metric(server, "loads_total") == 1
    # Another process commits.
    with sqlite3.connect(path, timeout=10) as database:
        database.execute("DELETE FROM people WHERE id = 2")
    database.close()
    wait_for(lambda: ids(server, "/people") == [1, 3, 4, 5])
    # This process commits.
    assert server.get("/people/3/name", method="PUT").status == 204
    wait_for(lambda: json.loads(server.get("/people/3").body)["name"] == "Bob")
    assert metric(server, "loads_total") == 3
    # A check that finds the table unchanged resets its age.
    since, unchanged = time.monotonic(), metric(server, "unchanged_total")
    wait_for(lambda: metric(server, "unchanged_total") >= unchanged + 3)
    assert metric(server, "age_seconds") < time.monotonic() - since
    assert metric(server, "loads_total") == 3


def test_sqlite_is_read_in_full_now_and_then(tmp_path, sluice):
    path = tmp_path / "people.db"
    fill_sqlite(path)
    server = sluice(CONFIG.format(url=f"sqlite:{path}", more='refresh = { every = "20ms", full = "100ms" }').replace(
        "name, email", "strftime('%f', 'now') AS name, email"))
    name = json.loads(server.get("/people/1").body)["name"]
    wait_for(lambda: json.loads(server.get("/people/1").body)["name"] != name)


# Versions are plain numbers in SQLite and times in PostgreSQL, as is most common.
CHANGING = '''
[database.main]
url = "{url}"
[[resident]]
name = "people"
query = "SELECT id, name, tags, changed FROM members WHERE NOT deleted ORDER BY id"
key = "id"
index = ["tags", "name"]
[resident.refresh]
every = "20ms"
full = "{full}"
changes = "SELECT * FROM members WHERE changed >= {since}"
version = "changed"
deleted = "deleted"
'''


@pytest.fixture(params=["sqlite", "postgres"])
def members(request, tmp_path):
    """A function that runs a statement, in which {now} is later with each call, and a function that makes the configuration."""
    ticks = iter(range(1, 1000))
    if request.param == "sqlite":
        path = tmp_path / "members.db"
        fill_sqlite(path)
        url, since, now = f"sqlite:{path}", ":since", "{}"

        def run(statements):
            with sqlite3.connect(path, timeout=10) as database:
                database.executescript("BEGIN;" + statements + ";COMMIT")
            database.close()
        types, tags = "tags JSON, deleted BOOLEAN, changed INTEGER", "'[\"{}\"]'"
    else:
        postgres = request.getfixturevalue("postgres")
        name = f"members_{time.monotonic_ns()}"
        postgres.psql(f"CREATE DATABASE {name}")
        url, since, now = postgres.url(name), "CAST(:since AS timestamptz) - interval '1 second'", \
            "timestamptz '2026-11-22 12:00+01' + interval '{} seconds'"

        def run(statements):
            postgres.psql(statements, name)
        types, tags = "tags text[], deleted boolean, changed timestamptz", "ARRAY['{}']"

    def execute(statements):
        run(re.sub(r"tag_(\w)", lambda found: tags.format(found[1]), statements).replace("{now}", now.format(next(ticks))))
    execute(f"CREATE TABLE members (id int PRIMARY KEY, name text, {types});"
            "INSERT INTO members SELECT id, 'm' || id, tag_a, false, {now} FROM "
            "(SELECT 2 AS id UNION ALL SELECT 4 UNION ALL SELECT 6 UNION ALL SELECT 8) AS ids")
    return execute, lambda full="0": CHANGING.format(url=url, since=since, full=full)


def test_changes_alone_are_read(members, sluice):
    execute, config = members
    server = sluice(config())
    assert ids(server, "/people") == [2, 4, 6, 8]
    # New, changed and deleted rows; and a key that changes, which is a deletion and a new row.
    execute("INSERT INTO members VALUES (5, 'new', tag_b, false, {now})")
    wait_for(lambda: ids(server, "/people") == [2, 4, 5, 6, 8])
    # Cores take a version at different times, and each request may reach another core.
    wait_for(lambda: ids(server, "/people?tags=b") == [5] and ids(server, "/people?name=new") == [5])
    execute("UPDATE members SET name = 'other', tags = tag_c, changed = {now} WHERE id = 4")
    wait_for(lambda: ids(server, "/people?tags=c") == [4])
    wait_for(lambda: json.loads(server.get("/people/4").body)["name"] == "other" and ids(server, "/people?name=m4") == [])
    execute("UPDATE members SET deleted = true, changed = {now} WHERE id = 6")
    wait_for(lambda: server.get("/people/6").status == 404)
    execute("UPDATE members SET deleted = true, changed = {now} WHERE id = 2;"
            "INSERT INTO members VALUES (9, 'm2', tag_a, false, {now})")
    wait_for(lambda: ids(server, "/people") == [4, 5, 8, 9])
    execute("UPDATE members SET deleted = false, changed = {now} WHERE id = 6")
    wait_for(lambda: ids(server, "/people?tags=a") == [6, 8, 9])
    # The query ran only once, and the changes have led to the same rows as the query.
    assert metric(server, "partial_total") >= 5 and metric(server, "failures_total") == 0
    unchanged = metric(server, "unchanged_total")
    wait_for(lambda: metric(server, "unchanged_total") > unchanged + 1)
    fresh = sluice(config())
    assert fresh.get("/people").get("etag") == server.get("/people").get("etag")
    assert full_loads(server) == 1

    # If the changes cannot be read, nothing changes.
    execute("ALTER TABLE members RENAME TO others")
    wait_for(lambda: metric(server, "failures_total") >= 1 and server.get("/people").get("age") is not None)
    assert ids(server, "/people") == [4, 5, 6, 8, 9]
    execute("ALTER TABLE others RENAME TO members; DELETE FROM members WHERE id = 5;"
            "INSERT INTO members VALUES (1, 'first', tag_a, false, {now})")
    wait_for(lambda: ids(server, "/people") == [1, 4, 6, 8, 9])  # a full load follows, as no change has shown that 5 is gone


def test_a_full_load_finds_what_no_change_has_told(members, sluice):
    execute, config = members
    server = sluice(config("100ms"))
    execute("DELETE FROM members WHERE id = 2")
    wait_for(lambda: ids(server, "/people") == [4, 6, 8])
    wait_for(lambda: metric(server, "loads_total") - metric(server, "partial_total") >= 3)


def test_check_finds_what_is_wrong_with_changes(members, tmp_path):
    _, config = members

    def complaint(old, new):
        assert old in config()
        file = tmp_path / "wrong.toml"
        file.write_text(config().replace(old, new))
        run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True)
        assert run.returncode == 3, run.stderr
        return run.stderr

    assert 'needs a "version"' in complaint('version = "changed"', "")
    assert 'needs the table\'s "key"' in complaint('key = "id"', "")
    assert 'it has no effect without "changes"' in complaint("changes = ", "notify = ")
    assert "one parameter, :since" in complaint(":since", ":from")
    assert 'no column "tags"' in complaint("SELECT *", "SELECT id, name, deleted, changed")
    assert 'deleted "gone" is no column' in complaint('deleted = "deleted"', 'deleted = "gone"')
    assert 'version "deleted" is no column of the query' in complaint('version = "changed"', 'version = "deleted"')
    assert 'column "name" of the changes has another type' in complaint(
        "SELECT *", "SELECT id, CAST(1 AS int) AS name, tags, deleted, changed")
    assert "nowhere" in complaint("SELECT * FROM members", "SELECT * FROM nowhere")


def test_what_is_too_old_is_not_answered(people, sluice):
    server = sluice(people.config.format(url=people.url, more='refresh = { every = "50ms" }\nstale_after = "1s"'))
    people.execute("ALTER TABLE people RENAME TO others")
    wait_for(lambda: server.get("/people").status == 503)
    wait_for(lambda: server.get("/people/1").status == 503 and server.get("/people").get("retry-after"))
    people.execute("ALTER TABLE others RENAME TO people")
    wait_for(lambda: server.get("/people").status == 200)


def test_two_rows_of_one_key_are_not_loaded(people, sluice):
    config = people.config.format(url=people.url, more='refresh = { every = "50ms" }').replace('key = "id"', 'key = "email"')
    config = config.replace("FROM people", "FROM people WHERE email IS NOT NULL")
    server = sluice(config)
    assert server.get("/people/ken@example.org").status == 200
    people.execute("UPDATE people SET email = 'ken@example.org' WHERE id = 1")
    wait_for(lambda: 'several rows have the key "ken@example.org"' in server.log)
    assert len(ids(server, "/people")) == 4 and server.get("/people/ada@example.org").status == 200


def test_notify(postgres, sluice):
    name = f"people_{time.monotonic_ns()}"
    server = sluice(CONFIG.format(url=fill_postgres(postgres, name), more='refresh = { notify = "people_changed" }'))
    loads = metric(server, "loads_total")
    wait_for(lambda: metric(server, "loads_total") > loads or metric(server, "loads_total") == 2)  # listening has begun
    postgres.psql("DELETE FROM people WHERE id = 2; NOTIFY people_changed", name)
    wait_for(lambda: ids(server, "/people") == [1, 3, 4, 5])


def test_listening_outlives_an_idle_timeout(own_postgres, sluice):
    server = sluice(CONFIG.format(url=fill_postgres(own_postgres, "people"), more='refresh = { notify = "people_changed" }'))
    own_postgres.psql("ALTER SYSTEM SET idle_session_timeout = '300ms'; SELECT pg_reload_conf()")
    own_postgres.psql("ALTER DATABASE people SET idle_session_timeout = '300ms'")

    def listener():
        return own_postgres.psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'sluice (changes)'")

    wait_for(lambda: listener() != b"")
    own_postgres.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice (changes)'")
    wait_for(lambda: listener() != b"")
    before = listener()
    for _ in range(3):  # an idle session of somebody else is ended
        with subprocess.Popen(["psql", "-XAtq", own_postgres.url("people"), "-f", "-"], stdin=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as other:
            other.stdin.write("SET application_name = 'other';\n")
            other.stdin.flush()

            def others():
                return own_postgres.psql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'other'")

            wait_for(lambda: others() == b"1\n")
            wait_for(lambda: others() == b"0\n")
            other.kill()
    assert listener() == before
    own_postgres.psql("DELETE FROM people WHERE id = 2; NOTIFY people_changed", "people")
    wait_for(lambda: ids(server, "/people") == [1, 3, 4, 5])


def test_types_whose_order_postgres_alone_knows(postgres, sluice):
    name = f"types_{time.monotonic_ns()}"
    postgres.psql(f"CREATE DATABASE {name}")
    postgres.psql("""CREATE TYPE size AS ENUM ('small', 'medium', 'large');
CREATE TABLE people (id int, size size, span interval, paid money, part int4range, code uuid, codes uuid[]);
INSERT INTO people VALUES
    (1, 'large', '2 days', '$2', '[1,3)', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'),
    (2, 'small', '10 days', '$10', '[2,5)', '00eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{}')""", name)
    server = sluice(f"""
[database.main]
url = "{postgres.url(name)}"
[[resident]]
name = "people"
query = "SELECT * FROM people ORDER BY id"
index = ["size", "span", "paid", "part", "code", "codes"]
""")
    for column, value, other in (("size", "large", "small"), ("span", "2%20days", "1%20day"), ("paid", "$2.00", "$10.00"),
                                 ("part", "[1,3)", "[1,2)")):
        assert ids(server, f"/people?{column}={value}") == [1] and ids(server, f"/people?{column}=in.(%22{value}%22)") == [1]
        for query, parameter in ((f"{column}=gt.{other}", column), (f"sort={column}", "sort")):
            refused = server.get(f"/people?{query}")
            assert (refused.status, json.loads(refused.body)["parameter"]) == (400, parameter), query
    for code in ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc999c0b4ef8bb6d6bb9bd380a11"):
        assert ids(server, f"/people?code={code}") == [1]
        assert ids(server, f"/people?codes=B{code[1:]}") == [1]
    assert ids(server, "/people?sort=code") == [2, 1]


@pytest.fixture(params=["sqlite", "postgres"])
def seen(request, sluice, tmp_path):
    url = database_with(request, tmp_path, ["DROP TABLE IF EXISTS parts", "DROP TABLE IF EXISTS films",
                                            "CREATE TABLE films (id integer, seen boolean)",
                                            "INSERT INTO films VALUES (1, true), (2, false), (3, NULL)"])
    return sluice(f'''
[database.main]
url = "{url}"
[[resident]]
name = "films"
query = "SELECT id, seen FROM films ORDER BY id"
key = "id"
index = ["seen"]
''')


def test_booleans(seen):
    for true, false in (("true", "false"), ("t", "f"), ("1", "0")):
        for condition, found in ((true, [1]), (f"eq.{true}", [1]), (false, [2]), (f"in.({false},{true})", [1, 2]),
                                 (f"lt.{true}", [2]), (f"lte.{true}", [1, 2]), (f"gt.{false}", [1]), (f"gte.{true}", [1])):
            assert ids(seen, f"/films?seen={condition}") == found, condition
    for condition, found in (("is.true", [1]), ("is.false", [2]), ("neq.true", [2]), ("not.is.true", [2, 3]), ("not.eq.t", [2])):
        assert ids(seen, f"/films?seen={condition}") == found, condition
    for wrong in ("banana", "0.0", "2", "eq.banana", "lt.banana", "gte.0.0", "in.(true,banana)", "ne.true", ""):
        refused = seen.get(f"/films?seen={wrong}")
        assert refused.status == 400, wrong
        problem = json.loads(refused.body)
        assert problem["parameter"] == "seen" and "true or false is possible" in problem["detail"], problem


def test_no_answer_is_of_two_versions(postgres, sluice):
    """Versions follow each other every 20 ms. An answer that mixes two of them would have two values of `v`."""
    name = f"versions_{time.monotonic_ns()}"
    postgres.psql(f"CREATE DATABASE {name}")
    server = sluice(f'''
[database.main]
url = "{postgres.url(name)}"
[[resident]]
name = "people"
query = """
SELECT id, (extract(epoch FROM now()) * 1000000)::bigint AS v, id % 2 AS half FROM generate_series(1, 5000) AS id"""
key = "id"
index = ["half", "v"]
refresh = {{ every = "20ms" }}
''')
    end = time.monotonic() + 2
    seen, wrong = set(), []

    def ask(target, count):
        with server.connect() as connection:
            # On a busy machine versions come more slowly.
            while (time.monotonic() < end or len(seen) <= 10) and time.monotonic() < end + 10 and not wrong:
                answer = connection.get(target)
                versions = set(re.findall(rb'"v":(\d+)', answer.body))
                rows = answer.body.count(b'"id"')
                if answer.status != 200 or len(versions) != 1 or rows != count:
                    wrong.append((target, answer.status, versions, rows))
                seen.update(versions)

    askers = [threading.Thread(target=ask, args=arguments) for arguments in
              [("/people", 5000), ("/people?half=1", 2500), ("/people?half=0&limit=100&sort=-id", 100), ("/people?limit=50", 50)]]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert not wrong and len(seen) > 10, (wrong, len(seen))


def test_policies_stand_in_front(people, sluice):
    secret = Secret()
    server = sluice(people.config.format(url=people.url, more=f'use = ["token"]\n[policy.token]\ntype = "jwt"\nsecret = "{secret.secret}"'))
    assert (server.get("/people").status, server.get("/people/1").status) == (401, 401)
    assert server.get("/people/1", f"Authorization: Bearer {secret.token()}").status == 200


def test_check_finds_what_is_wrong(people, tmp_path):
    def complaint(old, new):
        config = people.config.format(url=people.url, more='refresh = { every = "1s" }')
        assert old in config
        file = tmp_path / "wrong.toml"
        file.write_text(config.replace(old, new))
        run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True)
        assert run.returncode == 3, run.stderr
        return run.stderr

    assert 'key "nothing" is no column of the query' in complaint('key = "id"', 'key = "nothing"')
    assert 'index "rolls" is no column' in complaint('index = ["roles"', 'index = ["rolls"')
    assert "has a parameter, :id" in complaint("ORDER BY id", "WHERE id = :id")
    assert "people" in complaint("SELECT id, name", "DELETE FROM people WHERE name")
    assert "says neither" in complaint('refresh = { every = "1s" }', "refresh = {}")
    if people.url.startswith("postgres"):
        assert '"full" is for' in complaint('every = "1s"', 'every = "1s", full = "1m"')
    assert "would stay too old" in complaint('refresh = { every = "1s" }', 'stale_after = "1s"')
    assert 'has the path "/people"' in \
        complaint("[[resident]]", '[[endpoint]]\npath = "/people"\nget = "SELECT 1"\n[[resident]]')


def test_it_does_not_start_without_its_rows(people, tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text(people.config.format(url=people.url, more="").replace('key = "id"', 'key = "score"').replace(
        "[database.main]", '[admin]\nlisten = ""\n[database.main]'))
    run = subprocess.run([SLUICE, "serve", str(file)], capture_output=True, text=True, timeout=20)
    assert run.returncode == 1 and 'resident "people": the key "score" of row 4 is NULL' in run.stderr, run.stderr


class SlowReader:
    """Requests all rows, and reads only the head of the answer until body() is called."""

    def __init__(self, server, *fields, body=b""):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(20)
        self.socket.connect(("127.0.0.1", server.port))
        lines = ["GET /people HTTP/1.1", "Host: a", *fields]
        self.socket.sendall("".join(line + "\r\n" for line in [*lines, ""]).encode() + body)
        if not body:
            self.read_head()

    def read_head(self):
        self.received = b""
        while b"\r\n\r\n" not in self.received:
            self.received += self.socket.recv(100)
        self.head, self.received = self.received.split(b"\r\n\r\n", 1)

    def body(self):
        """Reads the rest of the body. Returns the bytes, and whether the connection was reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        broken = False
        end = re.search(rb"Content-Length: (\d+)", self.head)
        try:
            while piece := self.socket.recv(1 << 20):
                self.received += piece
                if len(self.received) == int(end.group(1)) if end else self.received.endswith(b"0\r\n\r\n"):
                    break
        except ConnectionResetError:
            broken = True
        self.socket.close()
        return self.received, broken


@pytest.mark.parametrize("encode", ["load", "on-demand"])
def test_slow_clients_do_not_keep_what_is_new_from_others(encode, tmp_path, sluice):
    """Each client holds a version by reading nothing. The oldest are cut, and the newest get their whole answers."""
    path = tmp_path / "people.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, v INTEGER, text TEXT)")
        database.executemany("INSERT INTO people VALUES (?, 0, ?)", [(i, secrets.token_hex(5000)) for i in range(1200)])
    server = sluice(f'''
[compression]
codings = ["gzip"]
[database.main]
url = "sqlite:{path}"
[[resident]]
name = "people"
query = "SELECT id, v, text FROM people ORDER BY id"
key = "id"
index = ["v"]
encode = "{encode}"
refresh = {{ every = "20ms", hold = "200ms" }}
''', server='cores = 1\nbody_timeout = "60s"')
    readers, streams, compressed, bodies = [], [], [], []
    client = http2.Client(server.port, opens_windows=False)
    for version in range(1, 7):
        readers.append(SlowReader(server))
        compressed.append(SlowReader(server, "Accept-Encoding: gzip"))
        bodies.append(SlowReader(server, "Content-Length: 2", body=b"{"))
        streams.append(client.request("/people"))
        streams.append(client.request("/people", method="HEAD"))
        with sqlite3.connect(path, timeout=10) as database:
            database.execute("UPDATE people SET v = ? WHERE id % 300 = 0", (version,))
        wait_for(lambda: server.get(f"/people?v={version}&limit=1&fields=id").get("x-total-count") == "4")
    database.close()
    assert metric(server, "cut_total") >= 2
    body, broken = readers[0].body()
    size = re.search(rb"Content-Length: (\d+)", readers[0].head)
    assert broken or (size and len(body) < int(size.group(1))), len(body)
    body, _ = compressed[0].body()
    assert not body.endswith(b"0\r\n\r\n")
    client.wait(streams[0])
    assert client.answers[streams[0]].reset is not None
    assert client.wait(streams[1])[0].ended
    bodies[0].socket.sendall(b"}")
    bodies[0].read_head()
    body, broken = bodies[0].body()
    assert not broken and body.count(b'"v":6') == 4, "a request that waits for its body holds no version"
    # The last client is not cut, because there is room for its version.
    body, broken = readers[-1].body()
    assert not broken and body.count(b'"v":5') == 4 and body.rstrip().endswith((b"]", b"]\n\r\n0"))
    assert server.get("/people/1").status == 200
