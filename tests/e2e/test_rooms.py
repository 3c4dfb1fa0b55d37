"""[[room]]: committed rows reach the clients of a room (docs/guide/rooms.md, docs/formats/rooms.md), on both databases."""
import contextlib
import itertools
import json
import os
import random
import re
import sqlite3
import subprocess
import threading
import time

import pytest

from conftest import SLUICE, queried_database, until
from http1 import Broken
from test_reload import reload, write
from tokens import Secret, soon
from websocket import CLOSE, PING, PONG, TEXT, WebSocket

SECRET = Secret()
SCHEMA = [
    "CREATE TABLE messages (id {serial}, room {room} NOT NULL, author text, text text NOT NULL)",
    "CREATE TABLE members (room {room} NOT NULL, member text NOT NULL)",
]
SERIAL = {"sqlite": "INTEGER PRIMARY KEY", "postgres": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"}
HISTORY = "SELECT seq, author, text FROM messages WHERE room = :id AND seq > :after ORDER BY seq LIMIT 200"
OPEN = f"""
[[room]]
path = "/rooms/{{id}}"
[room.publish]
sql = "INSERT INTO messages (room, text) VALUES (:id, :text)"
rate = "10000/s"
[room.history]
query = "{HISTORY}"
changes = {{ tables = ["messages"] }}
{{keys}}
[rooms]
"""
GUARDED = f"""
[policy.auth]
type = "jwt"
secret = "{SECRET.secret}"
leeway = "0s"
[[room]]
path = "/rooms/{{id}}"
use = ["auth"]
require = ["exists(SELECT 1 FROM members WHERE room = :id AND member = claim.sub)"]
[room.publish]
sql = "INSERT INTO messages (room, author, text) VALUES (:id, claim.sub, :text)"
require = ["eq(claim.role, 'writer')"]
rate = "5/s"
[room.history]
query = "{HISTORY}"
changes = {{ tables = ["messages"] }}
[rooms]
"""
numbers = itertools.count(1)


def bearer(name, **claims):
    return f"Authorization: Bearer {SECRET.token(soon(sub=name, **claims))}"


class Client(WebSocket):
    """A client of a room over a WebSocket; `path` is the room's, or /realtime."""

    def __init__(self, server, path="/rooms/7", *fields, **how):
        super().__init__(server.port, path, *fields, **how)

    def say_json(self, **message):
        self.say(TEXT, json.dumps(message))

    def next(self):
        while True:
            frame = self.frame()
            if frame.opcode == PING:
                self.say(PONG, frame.payload)
                continue
            if frame.opcode == CLOSE:
                raise Broken(f"closed with {frame.code}")
            message = json.loads(frame.payload)
            if message["type"] != "ping":
                return message

    def begin(self):
        message = self.next()
        assert message["type"] == "subscribed", message
        return message

    def ask(self, **message):
        self.say_json(**message)
        return self.next()

    def rows(self, count):
        """The texts of the next publications."""
        found = []
        for _ in range(count):
            message = self.next()
            assert message["type"] == "publication", message
            assert message["offset"] == message["data"]["seq"]
            found.append(message["data"]["text"])
        return found


class Stream:
    """A client of a room by Server-Sent Events."""

    def __init__(self, server, path="/rooms/7", *fields):
        self.connection = server.connect()
        self.connection.send("\r\n".join([f"GET {path} HTTP/1.1", "Host: test", "Accept: text/event-stream", *fields]) + "\r\n\r\n")
        self.head = self.connection._until(b"\r\n\r\n").decode()
        self.text, self.id = "", None

    def __enter__(self):
        assert self.head.startswith("HTTP/1.1 200 "), self.head
        return self

    def __exit__(self, *_):
        self.connection.close()

    def next(self):
        """(name, data) of the next event; ("end", None) at the end of the stream."""
        while True:
            while "\n\n" not in self.text:
                size = int(self.connection._until(b"\r\n").decode().strip(), 16)
                chunk = self.connection._exactly(size).decode()
                self.connection._exactly(2)
                if size == 0:
                    return "end", None
                self.text += chunk
            event, self.text = self.text.split("\n\n", 1)
            fields = [line.split(": ", 1) for line in event.split("\n") if line and not line.startswith(":")]
            fields = dict(field for field in fields if len(field) == 2)
            self.id = fields.get("id", self.id)
            if "data" in fields:
                return fields.get("event", "message"), json.loads(fields["data"])


class Site:
    def __init__(self, kind, folder, url, query, start):
        self.kind, self.folder, self.url, self.query, self.start = kind, folder, url, query, start

    def config(self, rooms=OPEN, keys=""):
        return f'[database.main]\nurl = "{self.url}"\n' + rooms.replace("{keys}", keys)

    def apply(self, rooms):
        (self.folder / "rooms.toml").write_text(self.config(rooms))
        subprocess.run([SLUICE, "rooms", "sql", "--apply", "rooms.toml"], cwd=self.folder, check=True, capture_output=True)

    def serve(self, rooms=OPEN, keys="", server="", **how):
        self.apply(rooms)
        return self.start(self.config(rooms, keys), server, **how)

    def insert(self, text, room="7"):
        self.query(f"INSERT INTO messages (room, text) VALUES ('{room}', '{text}')")


def site_of(request, tmp_path, sluice, room="text", cluster=None):
    if request.param == "sqlite":
        url, query = queried_database(request, tmp_path, ["PRAGMA journal_mode = WAL"])
    else:
        postgres, name = cluster or request.getfixturevalue("postgres"), f"rooms_{next(numbers)}"
        postgres.psql(f"CREATE DATABASE {name}")
        url = postgres.url(name)

        def query(sql):
            return [tuple(line.split("|")) for line in postgres.psql(sql, name).decode().splitlines()]
    for statement in SCHEMA:
        query(statement.format(serial=SERIAL[request.param], room=room))
    return Site(request.param, tmp_path, url, query, sluice)


@pytest.fixture(params=["sqlite", "postgres"])
def site(request, tmp_path, sluice):
    return site_of(request, tmp_path, sluice)


@pytest.fixture(params=["postgres"])
def postgres_site(request, tmp_path, sluice):
    return site_of(request, tmp_path, sluice)


def publish(server, text, room="7", *fields):
    with server.connect() as connection:
        return connection.call("POST", f"/rooms/{room}", json.dumps({"text": text}).encode(), "Content-Type: application/json",
                               *fields)


def rows_of(server, path="/rooms/7"):
    answer = server.get(path)
    assert answer.status == 200
    return json.loads(answer.body)


def at(message):
    return f"offset={message['offset']}&epoch={message['epoch']}"


# ---- what is committed arrives ----

def test_rows_reach_every_client_whoever_writes_them(site):
    server = site.serve()
    with Client(server) as socket, Stream(server) as stream, Client(server, "/realtime") as many:
        first = socket.begin()
        assert first == {"type": "subscribed", "room": "/rooms/7", "offset": 0, "epoch": first["epoch"], "recovered": False}
        assert stream.next() == ("subscribed", {"room": "/rooms/7", "offset": 0, "epoch": first["epoch"], "recovered": False})
        assert many.ask(subscribe="/rooms/7", id="a")["id"] == "a"
        assert publish(server, "by http").status == 201
        site.insert("by a shell")
        assert socket.ask(publish="", data={"text": "by a message"}, id=3)["type"] in ("published", "publication")
        for client in (many, ):
            assert client.rows(3) == ["by http", "by a shell", "by a message"]
        for text in ("by http", "by a shell", "by a message"):
            name, data = stream.next()
            assert (name, data["text"]) == ("message", text)
        assert stream.id == f"{first['epoch']}-3"
    assert rows_of(server, "/rooms/7?after=1") == [{"seq": 2, "author": None, "text": "by a shell"},
                                                   {"seq": 3, "author": None, "text": "by a message"}]
    assert rows_of(server, "/rooms/8") == []


def test_rooms_do_not_mix(site):
    server = site.serve()
    with Client(server, "/rooms/7") as seven, Client(server, "/rooms/a%2Fb%20%C3%A4") as other, Client(server, "/realtime") as many:
        seven.begin()
        assert other.begin()["room"] == "/rooms/a%2Fb%20%C3%A4"
        assert many.ask(subscribe="/rooms/a%2fb%20%c3%a4")["room"] == "/rooms/a%2Fb%20%C3%A4"
        site.insert("one", "7")
        site.insert("two", "a/b ä")
        assert seven.rows(1) == ["one"] and other.rows(1) == ["two"] and many.rows(1) == ["two"]
        site.insert("three", "7")
        assert seven.rows(1) == ["three"]
        assert many.ask(unsubscribe="/rooms/a%2fb%20%c3%a4", id=1) == {
            "type": "unsubscribed", "room": "/rooms/a%2Fb%20%C3%A4", "status": 204, "id": 1}
        site.insert("four", "a/b ä")
        assert other.rows(1) == ["four"]
        assert many.ask(subscribe="/rooms/7")["offset"] == 2  # nothing came in between


def test_a_client_goes_on_where_it_was(site):
    server = site.serve()
    with Client(server) as client:
        client.begin()
        site.insert("one")
        assert client.rows(1) == ["one"]
        assert client.ask(publish="/rooms/9", data={"text": "x"})["status"] == 409
        seen = {"offset": 1}
    with Client(server) as client:
        seen["epoch"] = client.begin()["epoch"]
    site.insert("two")
    site.insert("three")
    for again in range(2):  # from memory, and after a restart from the table
        with Client(server, f"/rooms/7?{at(seen)}") as client:
            begun = client.begin()
            assert (begun["recovered"], begun["offset"]) == (True, 1)
            assert client.rows(2) == ["two", "three"]
        with Stream(server, "/rooms/7", f"Last-Event-ID: {seen['epoch']}-2") as stream:
            assert stream.next()[1]["recovered"] is True
            assert stream.next()[1]["text"] == "three"
        with Client(server, "/realtime") as client:
            assert client.ask(subscribe="/rooms/7", **seen)["recovered"] is True
            assert client.rows(2) == ["two", "three"]
        server.stop()
        server = site.start(site.config())
    for wrong in ({"offset": 1, "epoch": "1"}, {"offset": 99, "epoch": seen["epoch"]}):
        with Client(server, f"/rooms/7?{at(wrong)}") as client:
            begun = client.begin()
            assert (begun["recovered"], begun["offset"]) == (False, 3)


def test_what_is_not_kept_is_not_recovered(site):
    server = site.serve(keys="keep = 3")
    with Client(server) as client:
        epoch = client.begin()["epoch"]
        for text in "abcdef":
            site.insert(text)
        assert client.rows(6) == list("abcdef")
    for offset, recovered in ((2, False), (3, True), (6, True)):
        with Client(server, f"/rooms/7?offset={offset}&epoch={epoch}") as client:
            assert client.begin()["recovered"] is recovered
    site.query("DELETE FROM messages WHERE seq = 5")
    server.stop()
    server = site.start(site.config(keys="keep = 3"))
    with Client(server, f"/rooms/7?offset=4&epoch={epoch}") as client:  # the client has never heard of row 5
        assert client.begin()["recovered"] is False


def test_rows_that_were_there_before_have_numbers(site):
    for text in "abc":
        site.insert(text)
    site.insert("x", "8")
    server = site.serve()
    assert [row["seq"] for row in rows_of(server)] == [1, 2, 3]
    with Client(server) as client:
        assert client.begin()["offset"] == 3
        site.insert("d")
        assert client.next()["offset"] == 4
    site.apply(OPEN)  # again
    site.insert("e")
    assert [row["seq"] for row in rows_of(server)] == [1, 2, 3, 4, 5]


def test_a_rollback_leaves_no_hole(site):
    server = site.serve()
    with Client(server) as client:
        client.begin()
        with contextlib.closing(sqlite3.connect(site.url.removeprefix("sqlite:"))) if site.kind == "sqlite" else contextlib.nullcontext() as database:
            insert = "INSERT INTO messages (room, text) VALUES ('7', 'no')"
            if database is None:
                site.query(f"BEGIN; {insert}; ROLLBACK;")
            else:
                database.execute(insert)
                database.rollback()
        site.insert("yes")
        message = client.next()
        assert (message["offset"], message["data"]["text"]) == (1, "yes")


def test_a_transaction_that_commits_late_loses_nothing(postgres_site, postgres):
    site = postgres_site
    server = site.serve()
    database = site.url.rsplit("/", 1)[1]
    with Client(server) as client, Client(server, "/rooms/8") as other:
        client.begin()
        other.begin()
        slow = subprocess.Popen(["psql", "-XAtq", site.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        slow.stdin.write("BEGIN; INSERT INTO messages (room, text) VALUES ('7', 'first') RETURNING seq;\n")
        slow.stdin.flush()
        assert slow.stdout.readline() == "1\n"
        later = threading.Thread(target=site.insert, args=("second", ))
        later.start()
        site.insert("elsewhere", "8")  # other rooms do not wait
        assert other.rows(1) == ["elsewhere"]
        until(lambda: postgres.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                                    f"datname = '{database}'") == b"1\n")
        slow.communicate("COMMIT;\n")
        later.join()
        assert client.rows(2) == ["first", "second"]


def test_a_long_row_and_a_large_commit(postgres_site):
    site = postgres_site
    server = site.serve(keys='keep_bytes = "1MiB"')
    with Client(server) as client:
        client.begin()
        site.insert("x" * 20_000)
        assert client.rows(1) == ["x" * 20_000]
        site.query("INSERT INTO messages (room, text) SELECT '7', n::text FROM generate_series(1, 999) n")
        assert client.rows(999) == [str(n) for n in range(1, 1000)]


def test_a_burst_is_read_once(postgres_site, postgres):
    site = postgres_site
    server = site.serve()
    clients = [Client(server) for _ in range(20)]
    for client in clients:
        client.begin()
    reads = server.sample('sluice_rooms_reads_total{http_route="/rooms/{id}"}')
    site.query("INSERT INTO messages (room, text) SELECT '7', n::text FROM generate_series(1, 100) n")
    for client in clients:
        assert client.rows(100) == [str(n) for n in range(1, 101)]
        client.close()
    assert server.sample('sluice_rooms_reads_total{http_route="/rooms/{id}"}') == reads + 1


def test_a_row_that_moves_is_numbered_in_its_new_room(site):
    server = site.serve()
    with Client(server, "/rooms/7") as seven, Client(server, "/rooms/8") as eight:
        seven.begin(), eight.begin()
        for text in "abc":
            site.insert(text)
        site.insert("x", "8")
        assert seven.rows(3) == ["a", "b", "c"] and eight.rows(1) == ["x"]
        site.query("UPDATE messages SET room = '8' WHERE text = 'b'")
        site.query("UPDATE messages SET text = 'C' WHERE text = 'c'")
        site.insert("y", "8")
        assert eight.rows(2) == ["b", "y"]
        site.insert("d")
        assert seven.rows(1) == ["d"]


def test_one_row_for_each_publish(site):
    server = site.serve()
    with server.connect() as connection:
        answer = connection.call("POST", "/rooms/7", b'[{"text": "a"}, {"text": "b"}]', "Content-Type: application/json")
        assert answer.status == 400
    with Client(server) as client:
        assert client.begin()["offset"] == 0
        assert client.ask(publish="", data=[{"text": "a"}, {"text": "b"}])["status"] == 400


def test_a_table_in_a_schema(postgres_site):
    site = postgres_site
    site.query("CREATE SCHEMA chat; ALTER TABLE messages SET SCHEMA chat")
    rooms = OPEN.replace("FROM messages", "FROM chat.messages").replace('"messages"', '"chat.messages"').replace(
        "INTO messages", "INTO chat.messages")
    server = site.serve(rooms)
    with Client(server) as client:
        client.begin()
        assert publish(server, "one").status == 201
        assert client.rows(1) == ["one"]


def test_writers_cannot_act_as_the_owner_of_the_triggers(postgres_site):
    site = postgres_site
    site.apply(OPEN)
    role = f"writer_{site.url.rsplit('_', 1)[1]}"
    site.query(f"CREATE ROLE {role}; GRANT INSERT, SELECT ON messages TO {role}")
    found = site.query(f"""SET ROLE {role};
        CREATE TEMP TABLE sluice_rooms (source text, room text, seq bigint, PRIMARY KEY (source, room));
        GRANT ALL ON pg_temp.sluice_rooms TO public;
        CREATE FUNCTION pg_temp.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.seq := 777; RETURN NEW; END $$;
        CREATE TRIGGER t BEFORE INSERT ON pg_temp.sluice_rooms FOR EACH ROW EXECUTE FUNCTION pg_temp.f();
        INSERT INTO messages (room, text) VALUES ('7', 'x') RETURNING seq""")
    assert found == [("1", )]


# ---- who may follow and publish ----

def test_members_alone_follow_and_writers_alone_publish(site):
    site.query("INSERT INTO members VALUES ('7', 'ada'), ('7', 'bob')")
    server = site.serve(GUARDED)
    with WebSocket(server.port, "/rooms/7", open=False) as client:
        assert client.handshake(bearer("eve")).status == 403
    assert server.get("/rooms/7", bearer("eve"), "Accept: text/event-stream").status == 403
    assert server.get("/rooms/7", "Accept: text/event-stream").status == 401
    assert server.get("/rooms/7", bearer("eve")).status == 403
    assert publish(server, "no", "7", bearer("eve", role="writer")).status == 403
    assert publish(server, "no", "7", bearer("bob")).status == 403
    with Client(server, "/rooms/7", bearer("ada", role="writer")) as ada, Client(server, "/realtime", bearer("bob")) as bob:
        ada.begin()
        assert bob.ask(subscribe="/rooms/7", id=1)["type"] == "subscribed"
        refused = bob.ask(subscribe="/rooms/8", id=2)
        assert (refused["type"], refused["status"], refused["id"]) == ("error", 403, 2)
        refused = bob.ask(publish="/rooms/7", id=3, data={"text": "no"})
        assert (refused["type"], refused["status"]) == ("error", 403)
        ada.say_json(publish="", id=4, data={"text": "yes"})
        told = [ada.next(), ada.next()]
        assert {"type": "published", "room": "/rooms/7", "status": 201, "id": 4} in told
        assert bob.next()["data"] == {"seq": 1, "author": "ada", "text": "yes"}
        wrong = ada.ask(publish="", id=5, data={"txt": "yes"})
        assert (wrong["type"], wrong["status"], wrong["id"]) == ("error", 422, 5)
    with Client(server, "/realtime") as nobody:
        assert nobody.ask(subscribe="/rooms/7")["status"] == 401


def test_a_member_who_is_removed_leaves(site):
    site.query("INSERT INTO members VALUES ('7', 'ada'), ('7', 'bob')")
    server = site.serve(GUARDED)
    with Client(server, "/rooms/7", bearer("ada")) as ada, Client(server, "/rooms/7", bearer("bob")) as bob, \
            Stream(server, "/rooms/7", bearer("bob")) as stream, Client(server, "/realtime", bearer("bob")) as many:
        ada.begin(), bob.begin(), stream.next(), many.ask(subscribe="/rooms/7")
        site.query("DELETE FROM members WHERE member = 'bob'")
        with pytest.raises(Broken, match="closed with 4403"):
            bob.next()
        assert stream.next() == ("end", None)
        gone = many.next()
        assert (gone["type"], gone["status"], gone["room"]) == ("unsubscribed", 403, "/rooms/7")
        site.insert("for ada")
        assert ada.rows(1) == ["for ada"]
        assert many.ask(subscribe="/rooms/7")["status"] == 403


def test_a_session_ends_with_its_token(site):
    site.query("INSERT INTO members VALUES ('7', 'ada')")
    server = site.serve(GUARDED)
    with Client(server, "/rooms/7", bearer("ada", exp=time.time() + 2)) as ada, \
            Client(server, "/realtime", bearer("ada", exp=time.time() + 2)) as many:
        ada.begin()
        assert many.ask(subscribe="/rooms/7")["type"] == "subscribed"
        with pytest.raises(Broken, match="closed with 4401"):
            ada.next()
        gone = many.next()
        assert (gone["type"], gone["status"]) == ("unsubscribed", 401)
        assert many.ask(subscribe="/rooms/7")["status"] == 401


def test_publishing_has_a_rate(site):
    site.query("INSERT INTO members VALUES ('7', 'ada')")
    server = site.serve(GUARDED)
    with Client(server, "/realtime", bearer("ada", role="writer")) as ada:
        answers = [ada.ask(publish="/rooms/7", data={"text": "x"}) for _ in range(30)]
    statuses = [answer["status"] for answer in answers]
    assert statuses[:5] == [201] * 5 and 429 in statuses and set(statuses) == {201, 429}


# ---- what clients may send ----

@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
def test_messages_that_are_none(site):
    server = site.serve()
    for wrong in ("", "{", "[]", '"a"', "{}", '{"subscribe":1}', '{"subscribe":"/rooms/7","unsubscribe":"/rooms/7"}',
                  '{"publish":"/rooms/7"}', '{"subscribe":"/rooms/7","data":1}', '{"subscribe":"/rooms/7","more":1}',
                  '{"subscribe":"/rooms/7","offset":-1}', '{"subscribe":"/rooms/7","id":{}}',
                  '{"subscribe":"/rooms/7","id":"' + "x" * 80 + '"}', '{"a":' * 100):
        with Client(server, "/realtime") as client:
            client.say(TEXT, wrong)
            with pytest.raises(Broken, match="closed with 1008"):
                client.next()
    with Client(server, "/realtime") as client:
        for path in ("", "rooms/7", "/rooms", "/rooms/", "/rooms/7/8", "/other", "/rooms/%", "/rooms/a b", "/rooms/%00", "/rooms/%ff", "/rooms/7?a=1"):
            answer = client.ask(subscribe=path, id=1)
            assert (answer["type"], answer["id"]) == ("error", 1) and answer["status"] in (400, 404), (path, answer)
        assert client.ask(subscribe="/rooms/7")["type"] == "subscribed"
        assert client.ask(subscribe="/rooms/7")["status"] == 409
        assert client.ask(unsubscribe="/rooms/8")["status"] == 404


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_room_has_one_path(kind, request, tmp_path, sluice):
    request.param = kind
    site = site_of(request, tmp_path, sluice, room="integer")
    server = site.serve()
    for path in ("007", "+7", "7.0", "x", "-0", "99999999999999999999", "7%20"):
        with WebSocket(server.port, f"/rooms/{path}", open=False) as client:
            assert client.handshake().status == 404, path
        assert publish(server, "x", path).status == 404
        assert server.get(f"/rooms/{path}").status == 404
    with Client(server, "/rooms/7") as client:
        client.begin()
        site.insert("one")
        assert client.rows(1) == ["one"]


@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
def test_an_id_that_is_no_text_harms_nobody(site):
    server = site.serve()
    for _ in range(3):
        with WebSocket(server.port, "/rooms/%ff", open=False) as client:
            assert client.handshake().status == 404
    with Client(server, "/rooms/8") as client:
        client.begin()


@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
def test_a_client_may_be_in_so_many_rooms(site):
    server = site.serve(OPEN + "rooms = 2\n")
    with Client(server, "/realtime") as client:
        assert [client.ask(subscribe=f"/rooms/{n}").get("status") for n in range(3)] == [None, None, 429]


# ---- when something fails ----

class Faithful(threading.Thread):
    """A client of room 7 that comes back with its position whenever its connection ends. `servers`: it takes any of them."""

    def __init__(self, servers):
        super().__init__(daemon=True)
        self.servers, self.seen, self.position, self.fault, self.until = servers, [], None, None, None

    def is_done(self):
        return self.until is not None and len(self.seen) >= self.until

    def run(self):
        while not self.is_done() and self.fault is None:
            try:
                self.follow()
            except (Broken, OSError):
                time.sleep(0.05)
            except AssertionError as error:  # of the handshake: 503 while the server or the database is away
                if "subscribed" in str(error):
                    self.fault = str(error)
                time.sleep(0.05)

    def follow(self):
        query = f"?{at(self.position)}" if self.position else ""
        with Client(random.choice(self.servers), f"/rooms/7{query}", timeout=5) as client:
            begun = client.begin()
            if self.position is not None and not begun["recovered"]:
                self.fault = f"not recovered: {self.position} {begun}"
                return
            self.position = self.position or begun
            while not self.is_done():
                message = client.next()
                if message["type"] != "publication":
                    self.fault = f"no publication: {message}"
                    return
                self.seen.append(message["data"]["text"])
                self.position = {"offset": message["offset"], "epoch": self.position["epoch"]}


class Writer(threading.Thread):
    """Inserts rows into room 7 until it is stopped. `rows`: those whose commit was acknowledged."""

    def __init__(self, site, name):
        super().__init__(daemon=True)
        self.site, self.name_, self.rows, self.stop = site, name, [], threading.Event()

    def run(self):
        for n in itertools.count():
            if self.stop.is_set():
                return
            text = f"{self.name_}-{n}"
            try:
                self.site.insert(text)
                self.rows.append(text)
            except RuntimeError:  # the database is away
                pass
            time.sleep(random.random() / 50)


def nothing_is_lost(site, servers, disturb, rounds):
    """Clients each see each row once, in order, while `disturb` is called again and again."""
    followers = [Faithful(servers) for _ in range(int(os.environ.get("ROOMS_CLIENTS", "8")))]
    for follower in followers:
        follower.start()
    until(lambda: all(follower.position for follower in followers))
    writers = [Writer(site, name) for name in range(2 if site.kind == "postgres" else 1)]
    for writer in writers:
        writer.start()
    for _ in range(rounds):
        time.sleep(random.random() / 2)
        disturb()
    for writer in writers:
        writer.stop.set()
        writer.join()
    site.insert("last")
    rows = [row[0] for row in site.query("SELECT text FROM messages WHERE room = '7' ORDER BY seq")]
    assert len(rows) == len(set(rows)) and {"last", *itertools.chain(*(writer.rows for writer in writers))} <= set(rows)
    for follower in followers:
        follower.until = len(rows)
    site.insert("wakes those that have everything")
    for follower in followers:
        follower.join(60)
        assert follower.fault is None
        assert follower.seen[:len(rows)] == rows


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_restart_of_the_server_loses_nothing(site, nodes):
    servers = [site.serve()] + [site.start(site.config()) for _ in range(nodes - 1)]
    idle = None
    if site.kind == "postgres":  # a transaction that is open all the time
        idle = subprocess.Popen(["psql", "-XAtq", site.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        idle.stdin.write("BEGIN; INSERT INTO messages (room, text) VALUES ('8', 'idle') RETURNING seq;\n")
        idle.stdin.flush()
        assert idle.stdout.readline() == "1\n"

    def kill():
        which = random.randrange(nodes)
        servers[which].judged = True
        servers[which].kill()
        servers[which] = site.start(site.config())
    nothing_is_lost(site, servers, kill, int(os.environ.get("ROOMS_KILLS", "4")))
    if idle is not None:
        idle.communicate("COMMIT;\n")
        assert rows_of(servers[0], "/rooms/8")[0]["text"] == "idle"


def test_a_restart_of_the_database_loses_nothing(own_postgres, request, tmp_path, sluice):
    request.param = "postgres"
    site = site_of(request, tmp_path, sluice, cluster=own_postgres)
    servers = [site.serve(), site.start(site.config())]

    def restart():
        own_postgres.stop(random.choice(["fast", "immediate"]))
        own_postgres.start()
    nothing_is_lost(site, servers, restart, int(os.environ.get("ROOMS_RESTARTS", "3")))


def test_the_database_goes_and_comes_back(own_postgres, request, tmp_path, sluice):
    request.param = "postgres"
    site = site_of(request, tmp_path, sluice, cluster=own_postgres)
    server = site.serve()
    heard = 'sluice_rooms_listening{database="main"}'
    with Client(server, timeout=60) as client, Stream(server) as stream:
        client.begin(), stream.next()
        until(lambda: server.sample(heard) == 1)
        for n in range(2):
            own_postgres.stop("immediate" if n else "fast")
            until(lambda: server.sample(heard) == 0)
            own_postgres.start()
            site.insert(f"row {n}")
            assert client.rows(1) == [f"row {n}"]
            assert stream.next()[1]["text"] == f"row {n}"
            until(lambda: server.sample(heard) == 1, 30)


def test_a_listener_that_hears_nothing_is_noticed(postgres_site):
    """The server's own beat does not come back: rooms look themselves, and /readyz says so."""
    site = postgres_site
    server = site.serve()
    heard = 'sluice_rooms_listening{database="main"}'
    with Client(server, timeout=60) as client:
        client.begin()
        until(lambda: server.sample(heard) == 1)
        # A function of this name stands before pg_catalog's, so nobody is notified any more.
        site.query("CREATE SCHEMA silent; CREATE FUNCTION silent.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT'; "
                   f"ALTER DATABASE {site.url.rsplit('/', 1)[1]} SET search_path = silent, public, pg_catalog; "
                   "ALTER FUNCTION sluice_rooms_notify_messages() SET search_path = silent, public, pg_catalog")
        site.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice' AND "
                   "datname = current_database()")
        until(lambda: server.sample(heard) == 0, 30)
        assert "poll every second" in server.admin("/readyz")[1]
        site.insert("found by looking")
        assert client.rows(1) == ["found by looking"]
        site.query(f"ALTER DATABASE {site.url.rsplit('/', 1)[1]} RESET search_path; DROP SCHEMA silent CASCADE; "
                   "ALTER FUNCTION sluice_rooms_notify_messages() SET search_path = public")
        site.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice' AND "
                   "datname = current_database()")
        until(lambda: server.sample(heard) == 1, 30)


def test_two_nodes(site):
    one, two = site.serve(), site.start(site.config())
    with Client(one) as first, Client(two) as second:
        epoch = first.begin()["epoch"]
        assert second.begin()["epoch"] == epoch
        for n in range(20):
            publish((one, two)[n % 2], str(n))
        for client in (first, second):
            assert client.rows(20) == [str(n) for n in range(20)]
    with Client(two, f"/rooms/7?offset=10&epoch={epoch}") as moved:
        assert moved.begin()["recovered"] is True
        assert moved.rows(10) == [str(n) for n in range(10, 20)]


def test_a_counter_that_is_set_back(site):
    server = site.serve()
    with Client(server) as client:
        client.begin()
        site.insert("one")
        site.insert("two")
        assert client.rows(2) == ["one", "two"]
        site.query("DELETE FROM messages")
        site.query("DELETE FROM sluice_rooms WHERE source <> ''")
        if site.kind == "postgres":
            site.query("SELECT pg_notify('sluice_rooms', 't' || chr(31) || 'messages')")
        message = client.next()
        assert (message["type"], message["reason"], message["offset"]) == ("reset", "rewound", 0)
        site.insert("again")
        assert client.rows(1) == ["again"]


# ---- reload and the end ----

def test_a_reload_keeps_rooms_that_stay(site):
    server = site.serve()
    with Client(server) as client, Client(server, "/realtime") as many, Stream(server) as stream:
        client.begin(), many.ask(subscribe="/rooms/7"), stream.next()
        write(server, site.config() + '[[websocket]]\npath = "/f"\nhandler = "echo"\n')
        assert reload(server)[0] == 200
        site.insert("one")
        assert client.rows(1) == ["one"] and many.rows(1) == ["one"] and stream.next()[1]["text"] == "one"
        other = site.config().replace("/rooms/{id}", "/other/{id}")
        write(server, other)
        assert reload(server)[0] == 200
        with pytest.raises(Broken, match="closed with 1001"):
            client.next()
        gone = many.next()
        assert (gone["type"], gone["status"]) == ("unsubscribed", 503)
        assert stream.next() == ("end", None)
        assert many.ask(subscribe="/rooms/7")["status"] == 404
        assert many.ask(subscribe="/other/7")["offset"] == 1
        site.insert("two")
        assert many.rows(1) == ["two"]


def test_a_reload_changes_nothing_for_two_rooms_of_a_database(site):
    second = OPEN[:OPEN.index("[rooms]")].replace("/rooms/{id}", "/others/{id}")
    config = OPEN + second
    server = site.serve(config)
    with Client(server) as client, Client(server, "/others/7") as other:
        client.begin(), other.begin()
        assert server.sample('sluice_rooms_listening{database="main"}') in (0, 1)
        assert reload(server)[0] == 200
        write(server, site.config(config).replace('url = "', 'pool = 3\nurl = "'))
        assert reload(server)[0] == 200
        site.insert("one")
        assert client.rows(1) == ["one"] and other.rows(1) == ["one"]
        again = site.url + ("?application_name=x" if site.kind == "postgres" else "")
        write(server, site.config(config).replace(site.url, again))
        assert reload(server)[0] == 200
        site.insert("two")
    with Client(server) as client:
        assert client.begin()["offset"] == 2 or client.rows(1) == ["two"]


@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
def test_a_reload_ends_many_subscriptions(site):
    """More than are woken in one turn, on one core."""
    server = site.serve(server="cores = 1")
    clients = [Client(server, "/realtime") for _ in range(200)]
    for client in clients:
        assert client.ask(subscribe="/rooms/7")["type"] == "subscribed"
    write(server, site.config(keys="keep = 10"))
    assert reload(server)[0] == 200
    for client in clients:
        assert client.next()["status"] == 503
    site.insert("one")
    for client in clients:
        assert client.ask(subscribe="/rooms/7", offset=0)["type"] == "subscribed"
        client.close()


def test_the_end_of_the_server(site):
    server = site.serve()
    with Client(server) as client, Client(server, "/realtime") as many, Stream(server) as stream:
        client.begin(), many.ask(subscribe="/rooms/7"), stream.next()
        server.terminate()
        for one in (client, many):
            with pytest.raises(Broken, match="closed with 1001"):
                one.next()
        assert stream.next() == ("end", None)


# ---- the configuration ----

WRONG = {
    "no-parameter": ('path = "/rooms"', "the path of a room has parameters"),
    "rest": ('path = "/rooms/{id...}"', "the path of a room has parameters"),
    "no-seq": (HISTORY.replace("seq, author", "author"), 'the history returns no column "seq"'),
    "no-after": (HISTORY.replace("seq > :after", "seq > 0"), "does not begin after :after"),
    "claim-in-history": (HISTORY.replace(":after", ":after AND author = :who"), "cannot have :who"),
    "no-room-column": (HISTORY.replace("room = :id", "room || '' = :id"), "Sluice cannot know which"),
    "no-table": ('tables = ["other"]', "compares no column of other"),
    "no-tables": ("tables = []", "room.history.changes.tables must not be empty"),
    "query-in-require": ('require = "eq(query.a, \'b\')"', "has no query.a"),
    "claims-without-policy": ('require = "exists(SELECT 1 FROM members WHERE member = claim.sub)"', "no claims without a policy"),
    "rate": ('rate = "fast"', "must be a number of requests"),
}


@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", WRONG)
def test_check_finds_faults(site, name):
    site.apply(OPEN)
    change, complaint = WRONG[name]
    config = site.config()
    key = change.split(" = ")[0] if not change.startswith("SELECT") else "query"
    if change.startswith("SELECT"):
        config = config.replace(HISTORY, change)
    elif key in ("path", "rate"):
        config = re.sub(rf'^{key} = ".*"$', lambda _: change, config, count=1, flags=re.M)
    elif key == "tables":
        config = config.replace('tables = ["messages"]', change)
    else:
        config = config.replace('path = "/rooms/{id}"', 'path = "/rooms/{id}"\n' + change)
    (site.folder / "wrong.toml").write_text(config)
    run = subprocess.run([SLUICE, "check", "wrong.toml"], cwd=site.folder, capture_output=True, text=True)
    assert run.returncode != 0 and complaint in run.stdout + run.stderr, run.stdout + run.stderr


def test_check_asks_for_the_triggers(site):
    (site.folder / "check.toml").write_text(site.config(GUARDED))

    def check():
        run = subprocess.run([SLUICE, "check", "check.toml"], cwd=site.folder, capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr
    code, text = check()
    assert code != 0 and 'no column "seq"' in text and "sluice rooms sql --apply" in text
    site.apply(OPEN)
    if site.kind == "postgres":
        code, text = check()
        assert code != 0 and "the table members, which" in text
    site.apply(GUARDED)
    assert check()[0] == 0
    site.query("DROP TRIGGER sluice_rooms_notify ON messages" if site.kind == "postgres" else "DROP TRIGGER sluice_rooms_messages")
    code, text = check()
    assert code != 0 and "has no triggers for rooms" in text
