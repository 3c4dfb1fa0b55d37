"""Databases, resident tables, change streams, stores and the request log, in a configuration that is read again."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import time

import pytest

from test_changes import Ended, Stream
from test_reload import reload, write


def run_sqlite(path, script):
    database = sqlite3.connect(path, timeout=10)
    try:
        database.executescript(script)
        return database.execute("SELECT 1").fetchall()
    finally:
        database.close()


def rows(server, target):
    answer = server.get(target)
    assert answer.status == 200, (target, answer.status, answer.body)
    return json.loads(answer.body)


def post(server, target, value):
    with server.connect() as client:
        return client.call("POST", target, json.dumps(value).encode(), "Content-Type: application/json").status


def done(server):
    status, text = reload(server)
    assert status == 200, text


def chunks(reader):
    """The body of a chunked answer whose head has been read."""
    text = bytearray()
    while (size := int(reader._until(b"\r\n"), 16)) != 0:
        text += reader._exactly(size)
        reader._exactly(2)
    return text


def until(says):
    end = time.monotonic() + 30
    while not says():
        assert time.monotonic() < end
        time.sleep(0.02)


NOTES = '''
[database.{name}]
url = "{url}"
{more}
[[endpoint]]
path = "/notes"
get = "SELECT n FROM notes ORDER BY n"
post = "INSERT INTO notes (n) VALUES (:n)"
changes = {{ tables = ["notes"], notify = "notes" }}
[[endpoint]]
path = "/many"
get = """WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 200000)
         SELECT i.n, (SELECT max(n) FROM notes) AS most, 'some more text that makes the rows longer' AS text FROM i"""
'''
SCHEMA = "CREATE TABLE notes (n integer PRIMARY KEY); INSERT INTO notes VALUES ({n});"


@pytest.fixture(params=["sqlite", "postgres"])
def urls(request, tmp_path):
    """The URLs of two databases. Each has a table with one note, 1 or 2."""
    if request.param == "sqlite":
        for n in (1, 2):
            run_sqlite(tmp_path / f"{n}.db", SCHEMA.format(n=n))
        return ["sqlite:1.db", "sqlite:2.db"]
    postgres = request.getfixturevalue("postgres")
    made = []
    for n in (1, 2):
        postgres.psql(f"DROP DATABASE IF EXISTS reloaded{n}")
        postgres.psql(f"CREATE DATABASE reloaded{n}")
        url = postgres.url().rsplit("/", 1)[0] + f"/reloaded{n}"
        postgres.psql(f"\\connect reloaded{n}\n" + SCHEMA.format(n=n))
        made.append(url)
    return made


def test_another_database(sluice, urls):
    """Answers in progress keep the old database, streams end, and new requests get the new database."""
    server = sluice("# routes\n" + NOTES.format(name="main", url=urls[0], more=""), server="cores = 2\n")
    stream = Stream(server)
    with server.connect() as slow:
        slow.sip = 4096
        slow.send("GET /many HTTP/1.1\r\nHost: test\r\n\r\n")
        slow._until(b"\r\n\r\n")
        for n, url in enumerate((urls[1], urls[0], urls[1]), 1):
            write(server, NOTES.format(name="main", url=url, more=""))
            done(server)
            for _ in range(8):  # on both cores
                assert url != urls[1] or rows(server, "/notes")[0]["n"] == 2
                assert url != urls[0] or rows(server, "/notes")[0]["n"] == 1
            assert post(server, "/notes", {"n": 10 * n}) == 201
        assert [row["n"] for row in rows(server, "/notes")] == [2, 10, 30]
        with pytest.raises(Ended):
            while True:
                stream.next()
        # Another database has other event ids.
        with Stream(server, last=stream.id) as again:
            assert again.next()[1] == "reset"
        slow.sip = 1 << 20
        text = chunks(slow)
    long = json.loads(text)
    assert len(long) == 200_000 and {row["most"] for row in long} == {1}
    until(lambda: server.sample("sluice_earlier_configurations") == 0)


def test_what_is_unchanged_lives_on(sluice, urls, request):
    """Connections, prepared statements, streams and event numbers are kept."""
    config = NOTES.format(name="main", url=urls[0], more="pool = 1")
    is_postgres = urls[0].startswith("postgres")
    if is_postgres:
        config += ('[[endpoint]]\npath = "/backend"\nget = """SELECT pg_backend_pid() AS pid,\n'
                   '(SELECT count(*) FROM pg_prepared_statements) AS statements"""\n')
    server = sluice("# routes\n" + config, server="cores = 1\n")
    with Stream(server) as stream:
        assert post(server, "/notes", {"n": 2}) == 201
        if not is_postgres:
            before = stream.next()[0]
        for _ in range(2):
            assert rows(server, "/notes")[0]["n"] == 1
            backend = rows(server, "/backend") if is_postgres else None  # the second time the statement is prepared
        for n in range(3):
            write(server, config + f'[[endpoint]]\npath = "/other/{n}"\nget = "SELECT {n} AS n"\n')
            done(server)
            assert rows(server, "/notes")[0]["n"] == 1
            assert not is_postgres or rows(server, "/backend") == backend
        if not is_postgres:
            assert post(server, "/notes", {"n": 3}) == 201
            boot, number = before.rsplit("-", 1)
            assert stream.next()[0] == f"{boot}-{int(number) + 1}"


def test_a_pool_is_resized_in_place(sluice, urls, request):
    """No stream ends, no table is loaded again, and answers in progress are finished, with more connections and with fewer."""
    is_postgres = urls[0].startswith("postgres")

    def config(pool):
        return NOTES.format(name="main", url=urls[0], more=f'pool = {pool}\nwait = "20s"') + (
            '[[resident]]\nname = "known"\nquery = "SELECT n FROM notes"\nkey = "n"\nrefresh = { every = "1h" }\n')
    server = sluice("# routes\n" + config(2), server="cores = 1\n")
    loads = server.sample('sluice_resident_loads_total{resident="known"}')

    def begin():
        reader = server.connect()
        reader.sip = 4096
        reader.send("GET /many HTTP/1.1\r\nHost: test\r\n\r\n")
        reader._until(b"\r\n\r\n")
        return reader

    def finish(reader):
        reader.sip = 1 << 20
        text = chunks(reader)
        assert len(json.loads(text)) == 200_000
        reader.close()
    with Stream(server) as stream:
        until(lambda: server.sample('sluice_changes_listening{database="main"}') == 1)
        readers = [begin()]
        write(server, config(9))
        done(server)
        readers += [begin() for _ in range(4)]  # more than the first pool has
        if is_postgres:
            maximum = 'db_client_connection_max{db_client_connection_pool_name="main"}'
            assert server.sample(maximum) == 9
        write(server, config(1))
        done(server)
        assert rows(server, "/known") == [{"n": 1}]
        for reader in readers:
            finish(reader)
        for _ in range(3):
            assert rows(server, "/notes") == [{"n": 1}]
        if is_postgres:
            assert server.sample(maximum) == 1
            count = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'reloaded1' AND query NOT LIKE 'LISTEN%'"
            postgres = request.getfixturevalue("postgres")
            until(lambda: int(postgres.psql(count)) == 1)
        assert post(server, "/notes", {"n": 2}) == 201
        if is_postgres:
            postgres.psql("NOTIFY notes", "reloaded1")
            assert server.sample('sluice_changes_connections_total{database="main"}') == 1
        assert stream.next()[1] == "message"
        assert rows(server, "/notes") == [{"n": 1}, {"n": 2}]
    assert server.sample('sluice_resident_loads_total{resident="known"}') == loads


def test_a_replaced_database_is_closed(sluice, tmp_path):
    """Also if the refresher of its resident table is the last to use it."""
    for n in (1, 2):
        run_sqlite(tmp_path / f"{n}.db", SCHEMA.format(n=n))

    def config(n):
        return (f'[database.main]\nurl = "sqlite:{n}.db"\n[[endpoint]]\npath = "/notes"\nget = "SELECT n FROM notes"\n'
                '[[resident]]\nname = "known"\nquery = "SELECT n FROM notes"\nkey = "n"\nrefresh = { every = "1h" }\n')
    server = sluice("# routes\n" + config(1), server="cores = 1\n")

    def opened(n):
        found = []
        for one in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found += [one] if os.readlink(one).endswith(f"/{n}.db") else []
        return found
    assert rows(server, "/known") == [{"n": 1}] and opened(1)
    write(server, config(2))
    done(server)
    assert rows(server, "/known") == [{"n": 2}] and opened(2)
    until(lambda: not opened(1))


def test_a_link_to_another_file(sluice, tmp_path):
    for n in (1, 7):
        run_sqlite(tmp_path / f"{n}.db", SCHEMA.format(n=n))
    (tmp_path / "main.db").symlink_to("1.db")
    config = NOTES.format(name="main", url="sqlite:main.db", more="")
    server = sluice("# routes\n" + config)
    assert post(server, "/notes", {"n": 2}) == 201
    (tmp_path / "next").symlink_to("7.db")
    os.replace(tmp_path / "next", tmp_path / "main.db")
    assert post(server, "/notes", {"n": 3}) == 201 and rows(server, "/notes") == [{"n": 1}, {"n": 2}, {"n": 3}]
    done(server)
    assert rows(server, "/notes") == [{"n": 7}]
    assert post(server, "/notes", {"n": 8}) == 201 and rows(server, "/notes") == [{"n": 7}, {"n": 8}]
    with contextlib.closing(sqlite3.connect(tmp_path / "1.db")) as old:
        assert old.execute("SELECT n FROM notes").fetchall() == [(1,), (2,), (3,)]


def test_a_file_that_is_moved_to_the_path_of_an_open_one(sluice, tmp_path):
    """SQLite would apply the open file's log, main.db-wal, to the other file."""
    main, old, new = (tmp_path / name for name in ("main.db", "old.db", "new.db"))
    run_sqlite(main, SCHEMA.format(n=1))
    config = NOTES.format(name="main", url="sqlite:main.db", more="")
    server = sluice("# routes\n" + config)
    assert post(server, "/notes", {"n": 2}) == 201
    run_sqlite(new, SCHEMA.format(n=7))
    content = new.read_bytes()
    os.link(main, old)
    os.replace(new, main)
    status, text = reload(server)
    assert status == 422 and "another file has been moved here in place of the one that is open" in text
    assert re.search(r"\.toml:\d+:\d+: error: ", text)
    assert post(server, "/notes", {"n": 3}) == 503  # the row would be lost with the file
    assert server.admin("/readyz")[0] == 503
    assert main.read_bytes() == content
    os.replace(old, main)
    assert post(server, "/notes", {"n": 3}) == 201 and rows(server, "/notes") == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert server.admin("/readyz")[0] == 200
    done(server)


def test_feeds_join_and_leave(sluice, urls, request):
    """A new feed hears changes from its first request on; a client of one feed hears no changes of another."""
    is_postgres = urls[0].startswith("postgres")
    if is_postgres:
        postgres = request.getfixturevalue("postgres")
        postgres.psql("\\connect reloaded1\nCREATE TABLE others (n integer);")

        def tell(channel):
            postgres.psql(f"\\connect reloaded1\nNOTIFY {channel}, 'x';")
    else:
        path = request.getfixturevalue("tmp_path") / "1.db"
        run_sqlite(path, "CREATE TABLE others (n integer)")
        count = iter(range(100, 200))

        def tell(channel):
            assert post(server, f"/{channel}", {"n": next(count)}) == 201
    plain = ('[[endpoint]]\npath = "/others"\nget = "SELECT n FROM others"\npost = "INSERT INTO others (n) VALUES (:n)"\n')
    more = plain + 'changes = { tables = ["others"], notify = "others" }\n'
    notes = NOTES.format(name="main", url=urls[0], more="")
    server = sluice("# routes\n" + notes + plain, server="cores = 2\n")
    until(lambda: server.sample('sluice_changes_listening{database="main"}') == 1)
    last = None
    with Stream(server) as stream:
        tell("notes")
        first = stream.next()
        for _ in range(3):
            write(server, notes + more)
            done(server)
            with Stream(server, "/others/changes") as joined:
                tell("others")
                event = joined.next()
                assert event[1] == "message"
                assert event[0].endswith("-1"), "numbers of a new feed begin anew"
                if last:
                    with Stream(server, "/others/changes", last=last) as lost:
                        assert lost.next()[1] == "reset"
                last = event[0]
                write(server, notes + plain)
                done(server)
                with pytest.raises(Ended):
                    joined.next()
            assert server.get("/others/changes").status == 404
        tell("notes")
        boot, number = first[0].rsplit("-", 1)
        assert stream.next()[:2] == (f"{boot}-{int(number) + 1}", "message")
    assert server.sample('sluice_changes_connections_total{database="main"}') == (1 if is_postgres else 0)
    events = 'sluice_changes_events_total{http_route="/others/changes"}'
    assert server.sample(events) == 3, "of feeds that are gone"
    if is_postgres:
        query = ("SELECT query FROM pg_stat_activity WHERE datname = 'reloaded1' AND application_name LIKE '%(changes)'")
        until(lambda: postgres.psql(query).strip() == b'UNLISTEN "others";')
    write(server, notes.split("changes = ")[0] + plain)
    done(server)
    assert server.sample(events) == 3
    assert server.sample('sluice_changes_connections_total{database="main"}') == (1 if is_postgres else 0)


SHARED_FILE = '''
[database.{name}]
url = "{url}"
{more}
[[endpoint]]
path = "/{name}"
database = "{name}"
get = "SELECT n FROM notes"
post = "{insert}"
changes = {{ tables = ["notes"], notify = "notes" }}
'''


def test_several_databases_of_one_file_hear_every_commit(sluice, urls):
    """Each database may commit, a new one may come, one may be opened again, and one may have another spelling."""
    is_postgres = urls[0].startswith("postgres")
    insert = ("WITH told AS (SELECT pg_notify('notes', (:n::int)::text)) INSERT INTO notes (n) SELECT :n::int FROM told"
              if is_postgres else "INSERT INTO notes (n) VALUES (:n)")
    count = iter(range(100, 200))

    def database(name, more=""):
        return SHARED_FILE.format(name=name, url=urls[0], more=more, insert=insert)

    def hear(stream, n):
        if not is_postgres:
            assert stream.next()[1] == "message"
            return
        while True:
            _, event, data = stream.next()
            # A connection that has just begun to listen sends "reset" for the events that it may have missed.
            if event == "reset" or data == str(n):
                return

    def all_hear(streams, writers):
        for writer in writers:
            n = next(count)
            assert post(server, writer, {"n": n}) == (204 if is_postgres else 201)
            for stream in streams:
                hear(stream, n)

    server = sluice("# routes\n" + database("a") + database("b"), server="cores = 2\n")
    for name in "ab":
        until(lambda: server.sample(f'sluice_changes_listening{{database="{name}"}}') == 1)
    with Stream(server, "/a/changes") as a, contextlib.ExitStack() as open_streams:
        b = open_streams.enter_context(Stream(server, "/b/changes"))
        all_hear([a, b], ["/a", "/b"])
        write(server, database("c") + database("b") + database("a"))
        done(server)
        c = open_streams.enter_context(Stream(server, "/c/changes"))
        all_hear([a, b, c], ["/a", "/b", "/c"])
        for more in ('statement_timeout = "6s"', 'statement_timeout = "7s"'):
            write(server, database("a") + database("b", more) + database("c", more))
            done(server)
            for stream in (b, c):
                with pytest.raises(Ended):
                    stream.next()
            b, c = (open_streams.enter_context(Stream(server, f"/{name}/changes")) for name in "bc")
            all_hear([a, b, c], ["/a", "/b", "/c"])
        write(server, database("a"))
        done(server)
        all_hear([a], ["/a"])


RESIDENT = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/x"
get = "SELECT 1 AS n"
'''


def resident(name, query, more=""):
    return f'[[resident]]\nname = "{name}"\nquery = "{query}"\nkey = "n"\n{more}\n'


def test_resident_tables_come_go_and_change(sluice, urls, request):
    is_postgres = urls[0].startswith("postgres")

    def add(n):
        if is_postgres:
            request.getfixturevalue("postgres").psql(
                f"\\connect reloaded1\nINSERT INTO notes VALUES ({n}); NOTIFY notes;")
        else:
            run_sqlite(request.getfixturevalue("tmp_path") / "1.db", f"INSERT INTO notes VALUES ({n})")
    config = RESIDENT.format(url=urls[0])
    refresh = 'refresh = { notify = "notes" }' if is_postgres else 'refresh = { every = "20ms" }'
    kept = resident("kept", "SELECT n FROM notes", refresh)
    server = sluice("# routes\n" + config + kept, server="cores = 2\n")
    assert rows(server, "/kept") == [{"n": 1}]
    loads = "sluice_resident_loads_total{resident=\"kept\"}"
    if is_postgres:  # the table is loaded again once the server listens
        until(lambda: server.sample(loads) == 2)
    write(server, config + kept + resident("new", "SELECT n, 'a' AS of FROM notes", refresh))
    done(server)
    assert rows(server, "/new") == [{"n": 1, "of": "a"}] and rows(server, "/new/1") == {"n": 1, "of": "a"}
    assert not is_postgres or server.sample(loads) == 2
    # Both are refreshed on every core.
    add(2)
    for _ in range(8):
        until(lambda: len(rows(server, "/kept")) == 2 and len(rows(server, "/new")) == 2)
    # One table has another query, and the other one is gone.
    write(server, config + resident("new", "SELECT n, 'b' AS of FROM notes WHERE n > 1", refresh))
    done(server)
    for _ in range(8):
        assert rows(server, "/new") == [{"n": 2, "of": "b"}] and server.get("/kept").status == 404
    add(3)
    for _ in range(8):
        until(lambda: rows(server, "/new") == [{"n": 2, "of": "b"}, {"n": 3, "of": "b"}])
    # No table, and then one again.
    write(server, config)
    done(server)
    assert server.get("/new").status == 404 and "sluice_resident_rows" not in server.admin("/metrics")[1]
    write(server, config + kept)
    done(server)
    assert len(rows(server, "/kept")) == 3
    # A table that cannot be loaded changes nothing.
    write(server, config + resident("new", "SELECT n FROM nowhere"))
    assert reload(server)[0] == 422
    add(4)
    until(lambda: len(rows(server, "/kept")) == 4)


def test_readers_of_a_table_that_goes_get_all_of_it(sluice, tmp_path):
    run_sqlite(tmp_path / "1.db", SCHEMA.format(n=1))
    config = RESIDENT.format(url="sqlite:1.db")
    long = ("WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 100000) "
            "SELECT n, 'some more text that makes the rows longer' AS text FROM i")
    server = sluice("# routes\n" + config + resident("long", long, 'refresh = { every = "20ms" }'))
    with server.connect() as slow:
        slow.sip = 4096
        slow.send("GET /long HTTP/1.1\r\nHost: test\r\n\r\n")
        head = slow._until(b"\r\n\r\n").decode().lower()
        write(server, config)
        done(server)
        assert server.get("/long").status == 404
        slow.sip = 1 << 20
        text = bytearray()
        if "content-length" in head:
            text += slow._exactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        else:
            while (size := int(slow._until(b"\r\n"), 16)) != 0:
                text += slow._exactly(size)
                slow._exactly(2)
        assert len(json.loads(text)) == 100_000


def test_the_log_of_requests_changes_its_table(sluice, tmp_path):
    columns = "(path TEXT, status INT)"
    run_sqlite(tmp_path / "log.db", f"CREATE TABLE one {columns}; CREATE TABLE two {columns};")
    config = '[database.main]\nurl = "sqlite:log.db"\n[[endpoint]]\npath = "/{path}"\nget = "SELECT 1 AS n"\n'
    log = '[request_log]\ndatabase = "main"\ntable = "{table}"\nevery = "{every}"\n'
    server = sluice("# routes\n" + config.format(path="a") + log.format(table="one", every="1h"))

    def logged(table):
        database = sqlite3.connect(tmp_path / "log.db", timeout=10)
        try:
            return [row[0] for row in database.execute(f"SELECT path FROM {table} ORDER BY path")]
        finally:
            database.close()
    assert server.get("/a").status == 200
    # An unchanged log is not disturbed: it writes at its own time.
    write(server, config.format(path="b") + log.format(table="one", every="1h"))
    done(server)
    assert server.get("/b").status == 200 and logged("one") == []
    write(server, config.format(path="c") + log.format(table="two", every="20ms"))
    done(server)
    until(lambda: logged("one") == ["/a", "/b"])
    assert server.get("/c").status == 200
    until(lambda: logged("two") == ["/c"])
    write(server, config.format(path="d"))
    done(server)
    assert server.get("/d").status == 200
    write(server, config.format(path="e") + log.format(table="one", every="1h"))
    done(server)
    assert server.get("/e").status == 200
    # Five configurations had logs, and each written row is counted once.
    assert server.sample("sluice_request_log_rows_total") == 3
    server.stop()
    assert logged("one") == ["/a", "/b", "/e"] and logged("two") == ["/c"]


def test_stores_come_and_change(sluice, tmp_path):
    run_sqlite(tmp_path / "main.db", "CREATE TABLE files (id INTEGER PRIMARY KEY, hash TEXT)")
    base = '[database.main]\nurl = "sqlite:main.db"\n[[endpoint]]\npath = "/x"\nget = "SELECT 1 AS n"\n'

    def config(limit):
        return base + f'''
[store.blobs]
path = "blobs"
limit = "{limit}"
[[endpoint]]
path = "/files"
post = "INSERT INTO files (hash) VALUES (:hash) RETURNING id"
params.hash = {{ from = "upload.blob", store = "blobs" }}
'''
    server = sluice("# routes\n" + base)

    def upload(size):
        body = (b'--b\r\nContent-Disposition: form-data; name="blob"; filename="a"\r\n\r\n' + b"x" * size + b"\r\n--b--\r\n")
        with server.connect() as client:
            return client.call("POST", "/files", body, "Content-Type: multipart/form-data; boundary=b").status
    for limit, small, large in (("1KiB", 201, 413), ("64KiB", 201, 201), ("1KiB", 201, 413)):
        write(server, config(limit))
        done(server)
        assert upload(100) == small and upload(10_000) == large, limit


KEPT = '''
[database.main]
url = "{url}"
start_timeout = "10s"
[openapi]
path = "/openapi.json"
[[endpoint]]
database = "main"
path = "/notes"
get = "SELECT n FROM notes ORDER BY n"
post = "INSERT INTO notes (n) VALUES (:n)"
changes = {{ notify = "notes" }}
[[endpoint]]
database = "main"
path = "/notes/{{note}}/tags"
get = "SELECT tag FROM tags WHERE note = :note ORDER BY tag"
[endpoint.put]
table = "tags"
existing = "SELECT tag FROM tags WHERE note = :note"
columns.note = {{ key = true, from = "path.note" }}
columns.tag = {{ key = true }}
[[endpoint]]
database = "main"
path = "/plan"
get = "EXPLAIN SELECT 1"
[[endpoint]]
database = "main"
path = "/all"
get = "SELECT n FROM notes WHERE ctid >= :ctid_from AND ctid < :ctid_to"
parallel = 2
[[endpoint]]
database = "main"
path = "/notes/{{note}}"
get = "SELECT n FROM notes WHERE n = :note"
params.note = {{ type = "int" }}
require = "exists(SELECT 1 FROM tags WHERE note = :note)"
[[endpoint]]
database = "main"
path = "/backend"
get = """SELECT pg_backend_pid() AS pid,
  (SELECT count(*) FROM pg_prepared_statements WHERE statement NOT LIKE 'INSERT%') AS statements"""
[[resident]]
database = "main"
name = "known"
query = "SELECT n FROM notes"
key = "n"
[request_log]
database = "main"
table = "log"
'''
TAGS = SCHEMA.format(n=1) + "CREATE TABLE tags (note integer REFERENCES notes, tag text, PRIMARY KEY (note, tag));"
TAGS += "CREATE TABLE log (path text, status integer);"


def refused(server, *texts):
    status, text = reload(server)
    assert status == 422 and all(part in text for part in texts), text
    assert text.splitlines()[0] in server.log
    return text


def test_an_unchanged_database_may_be_away(sluice, own_postgres):
    """The program keeps what it knows of the database, and refuses statements that the database has not described yet."""
    postgres = own_postgres
    postgres.psql(TAGS)
    config = KEPT.format(url=postgres.url())
    server = sluice("# routes\n" + config, server="cores = 1\n")
    described = server.get("/openapi.json").body
    postgres.stop()
    done(server)
    assert server.get("/openapi.json").body == described
    other = ('[database.other]\nurl = "sqlite:other.db"\n'
             '[[endpoint]]\ndatabase = "other"\npath = "/other/{n}"\nget = "SELECT {n} AS n"\n')
    run_sqlite(server.file.parent / "other.db", "CREATE TABLE t (n INTEGER)")
    for n in (1, 2):  # the plan was not known before, either
        write(server, config + other.format(n=n))
        done(server)
        assert rows(server, f"/other/{n}") == [{"n": n}]
        assert rows(server, "/known") == [{"n": 1}]
        assert server.get("/notes").status == 503
    assert 'database "main" is away, its statements are taken as they are served: ' in server.log
    new = '[[endpoint]]\ndatabase = "main"\npath = "/new"\nget = "SELECT n, 2 AS two FROM notes"\n'
    write(server, config + other.format(n=3) + new)
    line = server.file.read_text().splitlines().index('get = "SELECT n, 2 AS two FROM notes"') + 1
    refused(server, f"{server.file.name}:{line}:7: error: endpoint /new: the database is away, and this is not served yet: ")
    # A new table would need a description, too.
    write(server, config.replace('table = "tags"', 'table = "others"'))
    refused(server, "the database is away, and this is not served yet: ")
    # With another timeout it is another database.
    write(server, config.replace("start_timeout", 'statement_timeout = "9s"\nstart_timeout') + other.format(n=3))
    line = server.file.read_text().splitlines().index(f'url = "{postgres.url()}"') + 1
    refused(server, f"{server.file.name}:{line}:7: error: cannot connect to ")
    assert server.get("/other/3").status == 404 and rows(server, "/other/2") == [{"n": 2}]
    # The document needs to know which columns may be NULL, so it is refused while the database is unavailable.
    write(server, config.replace('[openapi]\npath = "/openapi.json"\n', ""))
    done(server)
    write(server, config)
    line = server.file.read_text().splitlines().index(f'url = "{postgres.url()}"') + 1
    refused(server, f"{server.file.name}:{line}:7: error: cannot connect to ")
    postgres.start()
    until(lambda: server.get("/notes").status == 200)
    with server.connect() as client:
        assert client.call("PUT", "/notes/1/tags", b'[{"tag": "a"}]', "Content-Type: application/json").status == 200
    assert rows(server, "/notes/1/tags") == [{"tag": "a"}]
    assert rows(server, "/notes/1") == rows(server, "/all") == [{"n": 1}]
    for _ in range(2):
        backend = rows(server, "/backend")
    write(server, config + other.format(n=3) + new)
    done(server)
    # The connection and its statements stay: a restored statement has the same id as a described one.
    assert rows(server, "/backend") == backend
    assert rows(server, "/new") == [{"n": 1, "two": 2}]


def test_a_reload_does_not_wait_without_end(sluice, postgres):
    """The message names a server that accepts connections and sends nothing, and one that stops in the middle."""
    for statement in ("DROP DATABASE IF EXISTS locked", "CREATE DATABASE locked"):
        postgres.psql(statement)
    postgres.psql(TAGS + "CREATE TABLE held (n integer)", "locked")
    url = postgres.url("locked")
    config = KEPT.format(url=url).replace('start_timeout = "10s"', 'start_timeout = "1s"')
    server = sluice("# routes\n" + config, server="cores = 1\n")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent = f"postgres://127.0.0.1:{mute.getsockname()[1]}/silent"
        write(server, config.replace(url, silent).replace("start_timeout", 'wait = "100ms"\nstart_timeout'))
        line = server.file.read_text().splitlines().index(f'url = "{silent}"') + 1
        refused(server, f"{server.file.name}:{line}:7: error: no connection to the server yet")
    held = "SELECT n, 3 AS three FROM held"
    with subprocess.Popen(["psql", "-XAtq", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as locker:
        locker.stdin.write("BEGIN; LOCK TABLE held; SELECT 'locked';\n")
        locker.stdin.flush()
        assert locker.stdout.readline() == "locked\n"
        write(server, config + f'[[endpoint]]\ndatabase = "main"\npath = "/held"\nget = "{held}"\n')
        refused(server, f'database "main" has not answered within 1 s: {held}')
        assert server.get("/held").status == 404 and rows(server, "/notes") == [{"n": 1}]
        locker.stdin.close()
    done(server)
    assert rows(server, "/held") == []
    # A server that answers with an error is not unavailable.
    postgres.psql("ALTER DATABASE locked ALLOW_CONNECTIONS false")
    refused(server, "is not currently accepting connections")


def stopped(pid):
    """Stops a process while the block runs."""
    @contextlib.contextmanager
    def stop():
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)
    return stop()


def test_an_unchanged_database_may_be_hung(sluice, own_postgres):
    """Neither the server, which accepts no connection, nor the stopped connection that listens for changes delays a reload."""
    postgres = own_postgres
    postgres.psql(TAGS)
    config = KEPT.format(url=postgres.url()).replace("start_timeout", 'wait = "100ms"\nstart_timeout')
    server = sluice("# routes\n" + config, server="cores = 1\n")
    until(lambda: server.sample('sluice_changes_listening{database="main"}') == 1)
    assert rows(server, "/notes") == [{"n": 1}]
    listener = int(postgres.psql("SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"))
    postmaster = int(pathlib.Path(postgres.data, "postmaster.pid").read_text().split()[0])
    with stopped(listener), stopped(postmaster):
        write(server, config + '[[files]]\npath = "/files"\nroot = "."\n')
        done(server)
        # The reload ended before the program gave the connection up.
        assert server.sample('sluice_changes_connections_total{database="main"}') == 1
        assert server.sample('sluice_changes_listening{database="main"}') == 1
        assert server.get(f"/files/{server.file.name}").status == 200
        assert rows(server, "/notes") == [{"n": 1}]
    assert 'database "main" is away, its statements are taken as they are served: ' in server.log


def test_idle_connections_of_another_url_close(sluice, postgres):
    """They close at the switch, except one that still sends an answer."""
    for n in (1, 2):
        postgres.psql(f"DROP DATABASE IF EXISTS reloaded{n}")
        postgres.psql(f"CREATE DATABASE reloaded{n}")
        postgres.psql(SCHEMA.format(n=n), f"reloaded{n}")
    url = postgres.url("reloaded1")
    server = sluice("# routes\n" + NOTES.format(name="main", url=url, more="pool = 5"), server="cores = 1\n")

    def connections():
        return int(postgres.psql("SELECT count(*) FROM pg_stat_activity WHERE datname = 'reloaded1'"))
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(server.connect()) for _ in range(3)]
        for reader in readers:
            reader.sip = 4096
            reader.send("GET /many HTTP/1.1\r\nHost: test\r\n\r\n")
            reader._until(b"\r\n\r\n")
        assert rows(server, "/notes") == [{"n": 1}]
        until(lambda: server.sample('sluice_changes_listening{database="main"}') == 1)
        assert connections() >= 5  # one of them listens

        def finish(reader):
            reader.sip = 1 << 20
            text = chunks(reader)
            assert len(json.loads(text)) == 200_000
            reader._until(b"\r\n")
        finish(readers[0])
        write(server, NOTES.format(name="main", url=postgres.url("reloaded2"), more="pool = 5"))
        done(server)
        until(lambda: connections() == 2)
        finish(readers[1])
        until(lambda: connections() == 1)
        assert rows(server, "/notes") == [{"n": 2}]
        finish(readers[2])
        until(lambda: connections() == 0)
