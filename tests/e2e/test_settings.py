"""[database.NAME] settings: values that each request sets for its transaction, without a role."""
import json
import subprocess

import pytest

from conftest import SLUICE
from tokens import Secret, soon

SECRET = Secret()
CONFIG = '''
[policy.auth]
type = "jwt"
secret = "{secret}"
optional = true
[database.main]
url = "{url}"
pool = 2
settings.TimeZone = "header.time-zone"
settings."app.user" = "claim.sub"
settings.application_name = "request.id"
[policy.ids]
type = "headers"
request_id = true
[batch]
use = ["auth"]
[[endpoint]]
path = "/who"
use = ["auth"]
returns = "object"
get = """SELECT current_setting('app.user') AS "user", current_setting('TimeZone') AS zone,
         current_setting('request.method') AS method, current_setting('request.path') AS path,
         current_setting('request.client_address') AS client, current_setting('request.jwt.claims') AS claims,
         to_timestamp(0) AS time"""
[endpoint.post]
sql = "INSERT INTO audit (n) VALUES (:n) RETURNING *"
[[endpoint]]
path = "/set"
use = ["auth"]
get = "SELECT n, by, method FROM audit ORDER BY n"
[endpoint.put]
table = "audit"
existing = "SELECT n FROM audit"
columns.n = {{ key = true }}
[[endpoint]]
path = "/id"
use = ["ids"]
returns = "object"
get = """SELECT current_setting('request.id') AS setting, current_setting('application_name') AS name, :id AS parameter"""
params.id = {{ from = "request.id" }}
[[endpoint]]
path = "/no-id"
get = "SELECT current_setting('request.id') AS setting"
'''
# A trigger that records who has written: the usual purpose of settings without roles.
SCHEMA = '''
DROP TABLE IF EXISTS audit;
CREATE TABLE audit (n int PRIMARY KEY, by text, method text);
CREATE OR REPLACE FUNCTION note_who() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  NEW.by := current_setting('app.user'); NEW.method := current_setting('request.method'); RETURN NEW;
END $$;
CREATE TRIGGER who BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION note_who();
'''


@pytest.fixture
def served(sluice, postgres):
    postgres.psql(SCHEMA)
    return sluice(CONFIG.format(url=postgres.url(), secret=SECRET.secret))


def call(server, method, target, body=None, *fields, sub=None):
    if sub is not None:
        fields += (f"Authorization: Bearer {SECRET.token(soon(sub=sub))}",)
    with server.connect() as connection:
        return connection.call(method, target, None if body is None else json.dumps(body).encode(),
                               "Content-Type: application/json", *fields)


def test_reads_and_writes_have_them(served):
    for _ in range(3):  # the same connections, in turn
        who = json.loads(call(served, "GET", "/who", None, "Time-Zone: Asia/Tokyo", sub="ada").body)
        assert json.loads(who.pop("claims"))["sub"] == "ada"
        assert who == {"user": "ada", "zone": "Asia/Tokyo", "method": "GET", "path": "/who", "client": "127.0.0.1",
                       "time": "1970-01-01T09:00:00+09:00"}
        who = json.loads(call(served, "GET", "/who").body)
        assert (who["user"], who["claims"]) == ("", "")
        assert who["zone"] != "Asia/Tokyo"
    made = call(served, "POST", "/who", {"n": 1}, sub="bob")
    assert (made.status, json.loads(made.body)) == (201, {"n": 1, "by": "bob", "method": "POST"})
    assert call(served, "PUT", "/set", [{"n": 1}, {"n": 2}], sub="eve").status == 200
    assert json.loads(call(served, "GET", "/set").body) == [
        {"n": 1, "by": "bob", "method": "POST"}, {"n": 2, "by": "eve", "method": "PUT"}]


def test_the_request_id(served):
    ids = set()
    with served.connect() as connection:
        for _ in range(3):
            answer = connection.get("/id")
            given = answer.get("x-request-id")
            assert json.loads(answer.body) == {"setting": given, "name": given, "parameter": given}
            assert json.loads(connection.get("/no-id").body) == [{"setting": ""}]
            ids.add(given)
    calls = json.loads(call(served, "POST", "/batch", [{"method": "GET", "path": "/id"}] * 2).body)
    ids |= {result["body"]["setting"] for result in calls}
    assert len(ids) == 5 and {len(one) for one in ids} == {32}


def test_values_that_a_setting_does_not_take(served):
    assert call(served, "GET", "/who", None, "Time-Zone: Mars/Olympus").status == 400
    assert call(served, "GET", "/who", None, "Time-Zone: UTC", "Time-Zone: UTC").status == 400
    assert call(served, "POST", "/who", {"n": 1}, "Time-Zone: '; DROP TABLE audit; --").status == 422
    assert call(served, "GET", "/who").status == 200


def test_calls_of_a_batch_have_those_of_the_batch(served):
    calls = [{"method": "GET", "path": "/who"}, {"method": "POST", "path": "/who", "body": {"n": 7}}]
    answer = call(served, "POST", "/batch", calls, "Time-Zone: Asia/Tokyo", sub="ada")
    assert answer.status == 200, (answer.body, served.log)
    who, made = [result["body"] for result in json.loads(answer.body)]
    assert (who["user"], who["zone"], who["method"]) == ("ada", "Asia/Tokyo", "GET")
    assert made == {"n": 7, "by": "ada", "method": "POST"}
    calls[1]["headers"] = {"time-zone": "UTC"}
    assert call(served, "POST", "/batch", calls, sub="ada").status == 400


@pytest.mark.parametrize("setting, complaint", [
    ('TimZone = "header.tz"', 'unrecognized configuration parameter "timzone"'),
    ('role = "header.role"', 'is set by [database.NAME] "role"'),
    ('"request.path" = "header.path"', 'whose settings Sluice makes itself'),
    ('TimeZone = "query.tz"', "must begin with claim, header, cookie, env or request"),
])
def test_settings_that_are_refused(tmp_path, postgres, setting, complaint):
    config = tmp_path / "sluice.toml"
    config.write_text(f'[database.main]\nurl = "{postgres.url()}"\nsettings.{setting}\n'
                      '[[endpoint]]\npath = "/a"\nget = "SELECT 1 AS a"\n')
    checked = subprocess.run([SLUICE, "check", config], capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 3 and complaint in checked.stderr and ":3:" in checked.stderr, checked.stderr


def test_sqlite_has_none(tmp_path):
    config = tmp_path / "sluice.toml"
    config.write_text('[database.main]\nurl = "sqlite:a.db"\nsettings.TimeZone = "header.tz"\n')
    checked = subprocess.run([SLUICE, "check", config], capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 3 and '"settings" are for PostgreSQL' in checked.stderr, checked.stderr
