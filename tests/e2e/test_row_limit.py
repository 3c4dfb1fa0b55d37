"""[database.NAME] row_limit: a row over the limit ends its answer, before or after other rows have been sent."""
import pytest

from conftest import database_with
from http1 import Broken

LIMIT = 256 << 10


@pytest.fixture(params=["sqlite", "postgres"])
def server(request, sluice, tmp_path):
    url = database_with(request, tmp_path, [
        "DROP TABLE IF EXISTS texts", "CREATE TABLE texts (n int PRIMARY KEY, text text)",
        *(f"INSERT INTO texts SELECT n, '{'short ' * 20}' FROM (WITH RECURSIVE r(n) AS "
          f"(SELECT {first} UNION ALL SELECT n + 1 FROM r WHERE n < {first + 4999}) SELECT n FROM r) rows" for first in (1, 5001)),
        f"INSERT INTO texts VALUES (20000, '{'x' * (LIMIT - 1000)}'), (20001, '{'x' * LIMIT}')"])
    return sluice(f'''
[database.main]
url = "{url}"
row_limit = "256KiB"
[[endpoint]]
path = "/texts"
get = "SELECT n, text FROM texts ORDER BY n"
[[endpoint]]
path = "/texts/{{n:int}}"
get = "SELECT n, text FROM texts WHERE n >= :n ORDER BY n"
[[endpoint]]
path = "/single"
get = "SELECT n, text FROM texts WHERE n = 20000"
[[endpoint]]
path = "/pairs"
get = "SELECT a.n, a.text, b.text AS other FROM texts a JOIN texts b ON b.n = 20000 WHERE a.n = 20000"
''')


def test_a_row_within_it_is_answered(server):
    answer = server.get("/single")
    assert (answer.status, len(answer.body) > LIMIT - 1000) == (200, True)


def test_a_longer_first_row_is_500(server):
    assert server.get("/texts/20001").status == 500
    assert server.get("/pairs").status == 500
    assert "row_limit" in server.log
    assert server.get("/texts/30000").body == b"[]\n"


def test_a_longer_row_behind_others_cuts_the_answer(server):
    with server.connect() as connection:
        connection.send("GET /texts HTTP/1.1\r\nHost: a\r\n\r\n")
        with pytest.raises(Broken):
            connection.read()
    assert server.get("/texts/30000").status == 200
