"""Composite types whose attributes change while the server runs: ALTER keeps the type's OID."""
import json
import time

import pytest

from test_reload import reload

SCHEMA = """
    DROP TABLE IF EXISTS contacts, cards; DROP DOMAIN IF EXISTS checked; DROP TYPE IF EXISTS contact;
    CREATE TYPE contact AS (name text, mail text);
    CREATE DOMAIN checked AS contact CHECK ((value).name <> '');
    CREATE TABLE contacts (id int PRIMARY KEY, c contact, list contact[], d checked);
    INSERT INTO contacts VALUES (1, ('ada', 'ada@example'), ARRAY[('bob', 'bob@example')::contact], ('eve', 'eve@example'));
    CREATE TABLE cards (id int PRIMARY KEY, mail text, note text);
    INSERT INTO cards VALUES (1, 'ada@example', 'x');"""

CONFIG = """
[database.main]
url = "{url}"
[[endpoint]]
path = "/contacts"
get = "SELECT id, c, list, d FROM contacts ORDER BY id"
[endpoint.post]
table = "contacts"
columns.id = {{ key = true }}
columns.c = {{}}
[[endpoint]]
path = "/contacts/{{id:int}}"
returns = "object"
get = "SELECT id, c, list, d FROM contacts WHERE id = :id"
[[endpoint]]
path = "/returned/{{id:int}}"
[endpoint.post]
sql = "UPDATE contacts SET id = id WHERE id = :id RETURNING id, c"
[[endpoint]]
path = "/all"
[endpoint.put]
table = "contacts"
existing = "SELECT id FROM contacts"
columns.id = {{ key = true }}
columns.c = {{}}
columns.list = {{}}
[[endpoint]]
path = "/cards"
get = "SELECT t AS card FROM cards t ORDER BY id"
[[endpoint]]
path = "/card/{{id:int}}"
returns = "object"
get = "SELECT t AS card, ARRAY[t] AS cards FROM cards t WHERE id = :id"
[[resident]]
name = "kept"
query = "SELECT id, c FROM contacts"
key = "id"
refresh = {{ every = "100ms" }}
"""

SWAP = """BEGIN; ALTER TYPE contact RENAME ATTRIBUTE mail TO other; ALTER TYPE contact RENAME ATTRIBUTE name TO mail;
    ALTER TYPE contact RENAME ATTRIBUTE other TO name; COMMIT"""


def call(server, method, target, rows):
    with server.connect() as connection:
        return connection.call(method, target, json.dumps(rows).encode(), "Content-Type: application/json")


def test_answers_follow_the_type(sluice, postgres):
    postgres.psql(SCHEMA)
    server = sluice(CONFIG.format(url=postgres.url()))

    def compare():
        def told(sql):
            return json.loads(postgres.psql(sql))

        for _ in range(4):  # each core, and connections that know the statement already
            row = told("SELECT to_json(r) FROM (SELECT id, c, list, d FROM contacts WHERE id = 1) r")
            for target, expected in (("/contacts", [row]), ("/contacts/1", row)):
                answer = server.get(target)
                assert (answer.status, json.loads(answer.body)) == (200, expected)
            card = told("SELECT to_json(t) FROM cards t WHERE id = 1")
            for target, expected in (("/cards", [{"card": card}]), ("/card/1", {"card": card, "cards": [card]})):
                answer = server.get(target)
                assert (answer.status, json.loads(answer.body)) == (200, expected)
            answer = server.get("/returned/1", "Content-Length: 0", method="POST")
            assert answer.status in (200, 201), answer.body
            assert json.loads(answer.body) in ({"id": 1, "c": row["c"]}, [{"id": 1, "c": row["c"]}])
        end = time.monotonic() + 15
        while json.loads(server.get("/kept").body) != [{"id": 1, "c": row["c"]}]:
            assert time.monotonic() < end, server.get("/kept").body

    compare()
    for change in (SWAP, "ALTER TABLE cards DROP COLUMN mail, ADD COLUMN phone text DEFAULT '555'", SWAP,
                   "ALTER TABLE cards ADD COLUMN more int DEFAULT 7"):
        postgres.psql(change)
        compare()


@pytest.mark.parametrize("method, target", [("POST", "/contacts"), ("PUT", "/all")])
def test_nothing_is_stored_in_another_attribute(sluice, postgres, method, target):
    postgres.psql(SCHEMA)
    server = sluice(CONFIG.format(url=postgres.url()))

    def rows(id):
        row = {"id": id, "c": {"name": "new", "mail": "new@example"}}
        return row if method == "POST" else [row | {"list": [row["c"]]}]

    answer = call(server, method, target, rows(2))
    assert answer.status in (200, 201), (answer.body, server.log)
    postgres.psql(SWAP)
    for _ in range(4):
        assert call(server, method, target, rows(3)).status == 500
    assert postgres.psql("SELECT count(*) FROM contacts WHERE id = 3") == b"0\n"
    assert "a composite type of the statement has other attributes than before: reload the configuration" in server.log
    assert reload(server)[0] == 200
    assert call(server, method, target, rows(3)).status in (200, 201)
    assert postgres.psql("SELECT (c).name, (c).mail FROM contacts WHERE id = 3") == b"new|new@example\n"
