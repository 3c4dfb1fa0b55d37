"""Several processes share what must be shared by rows of PostgreSQL: keys, plans and revoked tokens (docs/guide/deploying.md)."""
import hashlib
import time

import pytest

from tokens import Secret, soon

SECRET = Secret()
NODE = """
[database.main]
url = "{url}"

[[resident]]
name = "keys"
query = "SELECT digest, owner AS sub, plan FROM api_keys WHERE NOT revoked"
key = "digest"
refresh = {{ notify = "keys_changed" }}
serve = false

[[resident]]
name = "revoked"
query = "SELECT jti FROM revoked_tokens"
key = "jti"
refresh = {{ notify = "revoked_changed" }}
serve = false

[policy.customers]
type = "api-key"
table = "keys"

[policy.sessions]
type = "jwt"
secret = "${{JWT_SECRET}}"
revoked = "revoked"

[[endpoint]]
path = "/plan"
get = "SELECT :plan AS plan"
returns = "object"
params.plan = {{ from = "claim.plan" }}
use = ["customers"]

[[endpoint]]
path = "/session"
get = "SELECT :sub AS sub"
returns = "object"
params.sub = {{ from = "claim.sub" }}
use = ["sessions"]
"""
SCHEMA = """
CREATE TABLE api_keys (digest text PRIMARY KEY, owner text NOT NULL, plan text NOT NULL, revoked boolean NOT NULL DEFAULT false);
CREATE TABLE revoked_tokens (jti text PRIMARY KEY);
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify(TG_ARGV[0], ''); RETURN NULL; END $$;
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON api_keys FOR EACH STATEMENT EXECUTE FUNCTION tell('keys_changed');
CREATE TRIGGER tell AFTER INSERT OR UPDATE OR DELETE ON revoked_tokens FOR EACH STATEMENT EXECUTE FUNCTION tell('revoked_changed');
"""


@pytest.fixture
def nodes(postgres, sluice):
    """Two processes, and a function that runs SQL in their database."""
    name = f"nodes_{time.monotonic_ns()}"
    postgres.psql(f"CREATE DATABASE {name}")
    postgres.psql(SCHEMA, name)
    config = NODE.format(url=postgres.url(name))
    servers = [sluice(config, env={"JWT_SECRET": SECRET.secret}) for _ in range(2)]
    # A change between the table's reading and LISTEN is seen as well, so the tests need not wait for the latter.
    return servers, lambda sql: postgres.psql(sql, name)


def eventually(nodes, target, field, status, body=None):
    """Every node answers so; the change has no other way to them than the database."""
    end = time.monotonic() + 20
    for node in nodes:
        while True:
            answer = node.get(target, field)
            if answer.status == status and (body is None or answer.body.strip() == body):
                break
            assert time.monotonic() < end, (answer.status, answer.body)
            time.sleep(0.02)


def test_a_key_and_its_plan_reach_every_node(nodes):
    servers, sql = nodes
    key = "X-API-Key: a-key-of-acme-0001"
    digest = hashlib.sha256(b"a-key-of-acme-0001").hexdigest()
    eventually(servers, "/plan", key, 401)
    sql(f"INSERT INTO api_keys VALUES ('{digest}', 'acme', 'free')")
    eventually(servers, "/plan", key, 200, b'{"plan":"free"}')
    sql("UPDATE api_keys SET plan = 'paid'")
    eventually(servers, "/plan", key, 200, b'{"plan":"paid"}')
    sql("UPDATE api_keys SET revoked = true")
    eventually(servers, "/plan", key, 401)


def test_a_revoked_token_is_refused_by_every_node(nodes):
    servers, sql = nodes
    token = f"Authorization: Bearer {SECRET.token(soon(sub='ada', jti='t1'))}"
    eventually(servers, "/session", token, 200, b'{"sub":"ada"}')
    sql("INSERT INTO revoked_tokens VALUES ('t1')")
    eventually(servers, "/session", token, 401)
    sql("DELETE FROM revoked_tokens")
    eventually(servers, "/session", token, 200)
