"""Parameters of statements, as users write them."""
import json

import pytest

from conftest import database_with

CONFIG = '''
[database.main]
url = "{url}"

[[endpoint]]
path = "/films/{{slug}}"
returns = "object"
get = "SELECT * FROM films WHERE slug = :slug"
[[endpoint]]
path = "/films"
get = "SELECT id, slug, name_en FROM films WHERE :q IS NULL OR name_en LIKE '%' || :q || '%' ORDER BY id"
[[endpoint]]
path = "/reversed"
get = "SELECT id FROM films WHERE name_en LIKE '%' || :q || '%' OR :q IS NULL ORDER BY id"
[[endpoint]]
path = "/by-id"
get = "SELECT id FROM films WHERE :id IS NULL OR id = :id ORDER BY id"
[[endpoint]]
path = "/both"
get = "SELECT id FROM films WHERE (:id IS NULL OR id >= :id) AND (:most IS NULL OR score <= :most) ORDER BY id"
params.most = "real"
[[endpoint]]
path = "/guarded"
get = "SELECT id FROM films WHERE :all IS NOT NULL OR id = 1 ORDER BY id"
require = "exists(SELECT 1 FROM films WHERE :owner IS NULL OR id = :owner)"
[endpoint.patch]
sql = "UPDATE films SET score = :score WHERE :only IS NULL OR id = :only"
params.only.from = "query.only"
params.score = "real"
'''
TABLE = ["DROP TABLE IF EXISTS films",
         "CREATE TABLE films (id integer PRIMARY KEY, slug text UNIQUE, name_en text, score double precision)",
         "INSERT INTO films VALUES (1, 'a', 'The Silent Harbor', 1.5), (2, 'b', 'Harbor Lights', 2.5), "
         "(3, 'c', 'Noon', 3.5)"]


@pytest.fixture(params=["sqlite", "postgres"])
def films(request, sluice, tmp_path):
    return sluice(CONFIG.format(url=database_with(request, tmp_path, TABLE)))


def ids(server, target):
    answer = server.get(target)
    assert answer.status == 200, (target, answer.body, server.log)
    return [row["id"] for row in json.loads(answer.body)]


@pytest.mark.parametrize("target, expected", [
    ("/films", [1, 2, 3]), ("/films?q=Harbor", [1, 2]), ("/films?q=x", []), ("/films?q=", [1, 2, 3]),
    ("/reversed", [1, 2, 3]), ("/reversed?q=Noon", [3]),
    ("/by-id", [1, 2, 3]), ("/by-id?id=2", [2]),
    ("/both", [1, 2, 3]), ("/both?id=2", [2, 3]), ("/both?most=2.5", [1, 2]), ("/both?id=2&most=2.5", [2]),
    ("/guarded", [1]), ("/guarded?all=1", [1, 2, 3]), ("/guarded?owner=3", [1]),
])
def test_parameter_that_may_be_missing(films, target, expected):
    assert ids(films, target) == expected


def test_parameter_that_may_be_missing_elsewhere(films):
    assert json.loads(films.get("/films/b").body)["name_en"] == "Harbor Lights"
    assert films.get("/guarded?owner=4").status == 403
    with films.connect() as connection:
        answer = connection.call("PATCH", "/guarded?only=2", b"{\"score\":9.5}", "Content-Type: application/json")
        assert answer.status == 204, answer.body
    assert ids(films, "/both?most=3.5") == [1, 3]
