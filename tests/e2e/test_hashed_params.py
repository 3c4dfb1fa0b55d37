"""Parameters and columns with `hash`, on both databases: the row gets the hash of a password, and nothing else sees the password."""
import base64
import json
import threading

import pytest

from conftest import queried_database

CONFIG = '''
[database.main]
url = "{url}"
[[endpoint]]
path = "/users"
post = "INSERT INTO users (email, password) VALUES (:email, :password) RETURNING email"
[endpoint.params]
password = {{ hash = "argon2id", min_length = 12, required = true }}
[[endpoint]]
path = "/users/{{email}}/password"
patch = "UPDATE users SET password = :new WHERE email = :email"
params.new = {{ hash = "argon2id", common = true, from = "body.new.word" }}
[[endpoint]]
path = "/accounts"
[endpoint.post]
table = "users"
columns.email = {{}}
columns.password = {{ hash = "argon2id" }}
[[endpoint]]
path = "/accounts/{{email}}"
[endpoint.patch]
table = "users"
columns.email = {{ key = true, from = "path.email" }}
columns.password = {{ hash = "argon2id" }}
columns.nick = {{}}
[endpoint.put]
table = "users"
columns.email = {{ key = true, from = "path.email" }}
columns.password = {{ hash = "argon2id" }}
[openapi]
path = "/openapi.json"
[batch]
path = "/batch"
'''
WORD = "a-long-pass-phrase"


class Site:
    def __init__(self, start, url, rows):
        self.start, self.url, self.rows = start, url, rows
        self.server = start(CONFIG.format(url=url), 'cores = 1\naccess_log = "stdout"\n')

    def send(self, method, target, body, type="application/json"):
        text = body if isinstance(body, str) else json.dumps(body)
        with self.server.connect() as client:
            return client.call(method, target, text.encode(), f"Content-Type: {type}")

    def sign_up(self, email, password):
        return self.send("POST", "/users", {"email": email, "password": password})

    def hash_of(self, email):
        (row,) = self.rows(f"SELECT password FROM users WHERE email = '{email}'")
        return row[0]

    def accepts(self, stored, password):
        """Whether a policy of type "basic" with the stored hash accepts the password."""
        server = self.start(f'[database.main]\nurl = "{self.url}"\n[policy.staff]\ntype = "basic"\n'
                            f'users.ada = "{stored}"\n[[endpoint]]\npath = "/"\nuse = ["staff"]\nget = "SELECT 1 AS a"\n')
        token = base64.b64encode(f"ada:{password}".encode()).decode()
        return server.get("/", f"Authorization: Basic {token}").status == 200


@pytest.fixture(params=["sqlite", "postgres"])
def site(request, tmp_path, sluice):
    url, rows = queried_database(request, tmp_path, [
        "DROP TABLE IF EXISTS users", "CREATE TABLE users (email text PRIMARY KEY, password text, nick text)"])
    return Site(sluice, url, rows)


def test_a_row_gets_the_hash(site):
    assert site.sign_up("ada", WORD).status == 201
    assert site.sign_up("alan", WORD).status == 201
    stored = site.hash_of("ada")
    assert stored.startswith("$argon2id$v=19$") and stored != site.hash_of("alan")
    assert site.accepts(stored, WORD) and not site.accepts(stored, WORD + "x")
    form = f"email=grace&password={WORD}+%C3%A9"
    assert site.send("POST", "/users", form, "application/x-www-form-urlencoded").status == 201
    assert site.accepts(site.hash_of("grace"), WORD + " é")
    assert site.send("PATCH", "/users/ada/password", {"new": {"word": "password1"}}).status == 204
    assert site.hash_of("ada") != stored and site.accepts(site.hash_of("ada"), "password1")


def test_a_column_gets_the_hash(site):
    assert site.send("POST", "/accounts", {"email": "ada", "password": WORD}).status == 201
    first = site.hash_of("ada")
    assert site.accepts(first, WORD)
    assert site.send("PATCH", "/accounts/ada", {"nick": "a"}).status == 204 and site.hash_of("ada") == first
    assert site.send("PATCH", "/accounts/ada", {"password": "another-" + WORD}).status == 204
    assert site.accepts(site.hash_of("ada"), "another-" + WORD)
    for status in (201, 204):  # it is inserted, then replaced
        assert site.send("PUT", "/accounts/grace", {"password": WORD}).status == status
        assert site.accepts(site.hash_of("grace"), WORD)


@pytest.mark.parametrize("password, reason", [
    ("short-words", "must have at least 12 characters"), ("", "must have at least 12 characters"),
    ("é" * 11 + "x" * 1003, "must have at most 1024 bytes"), ("PasswordPassword", "is a common password, which is easily guessed"),
    ("123456789012", "is a common password, which is easily guessed"), ("nul\0" + WORD, "holds a NUL character"),
    (123456789012345, "must be text"), (True, "must be text"), ([WORD], "must be text"), ({"a": WORD}, "must be text"),
    (None, "must not be null"), (..., "is missing"),
], ids=["short", "empty", "long", "common", "digits", "nul", "number", "boolean", "list", "object", "null", "missing"])
def test_a_password_that_is_not_allowed(site, password, reason):
    body = {"email": "ada"} if password is ... else {"email": "ada", "password": password}
    answer = site.send("POST", "/users", body)
    assert answer.status == 422, answer.body
    (fault,) = json.loads(answer.body)["errors"]
    assert fault["pointer"] == "/password" and fault["detail"] == reason
    if password not in ("", None, ..., True):
        assert str(password) not in answer.body.decode() and WORD not in answer.body.decode()
    assert site.rows("SELECT email FROM users") == []


def test_the_longest_password(site):
    longest = "é" * 500 + "x" * 24
    assert site.sign_up("ada", longest).status == 201
    assert site.accepts(site.hash_of("ada"), longest)


def test_a_body_has_one_row(site):
    rows = [{"email": "a", "password": WORD}, {"email": "b", "password": WORD}]
    assert site.send("POST", "/users", rows).status == 400
    call = {"method": "POST", "path": "/users", "body": rows[0]}
    answer = site.send("POST", "/batch", [call])
    assert answer.status == 422 and "Passwords are not hashed in a batch." in answer.body.decode()
    assert site.rows("SELECT email FROM users") == []


def test_too_many_at_once_and_no_write_is_lost(site):
    answers = {}

    def sign_up(name):
        answers[name] = site.sign_up(name, WORD)
    threads = [threading.Thread(target=sign_up, args=(f"user-{number}",)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = {name: answer.status for name, answer in answers.items()}
    assert set(statuses.values()) == {201, 503}, statuses
    assert all(answer.get("retry-after") == "1" for answer in answers.values() if answer.status == 503)
    written = {email for (email,) in site.rows("SELECT email FROM users")}
    assert written == {name for name, status in statuses.items() if status == 201}
    assert site.sign_up("later", WORD).status == 201
    assert site.server.sample("sluice_password_hashes_total") == len(written) + 1


def test_nothing_tells_the_password(site):
    assert site.sign_up("ada", WORD).status == 201
    assert site.sign_up("ada", WORD).status == 409
    assert site.sign_up("alan", WORD[:8]).status == 422
    site.rows("DROP TABLE users")
    assert site.sign_up("alan", WORD).status == 500
    log = site.server.log
    assert '"target":"/users"' in log and WORD[:8] not in log and "$argon2id$" not in log


def test_the_document_describes_a_password(site):
    document = site.server.get("/openapi.json").body.decode()
    schema = {"type": "string", "format": "password", "writeOnly": True, "minLength": 12, "maxLength": 1024}
    assert document.count('"password":' + json.dumps(schema, separators=(",", ":"))) >= 1
