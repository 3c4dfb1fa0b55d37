"""A configuration of several files, and secrets in files."""
import hashlib
import json
import re
import sqlite3
import subprocess

import pytest

from conftest import SLUICE
from test_check import endpoint
from test_reload import reload

MAIN = '''include = ["conf.d/*.toml"]
[server]
listen = ["${LISTEN}"]
[admin]
listen = "${ADMIN}"
'''


def check(folder):
    done = subprocess.run([SLUICE, "check", "sluice.toml"], capture_output=True, text=True, timeout=20, cwd=folder)
    return done.returncode, done.stderr


@pytest.fixture
def folder(tmp_path):
    """A main file, which includes conf.d/main.toml and conf.d/one.toml."""
    (tmp_path / "conf.d").mkdir()
    sqlite3.connect(tmp_path / "conf.d/main.db").close()
    (tmp_path / "sluice.toml").write_text(MAIN)
    (tmp_path / "conf.d/main.toml").write_text('[database.main]\nurl = "sqlite:main.db"\n')
    (tmp_path / "conf.d/one.toml").write_text(endpoint("SELECT 1 AS n", "/one"))
    return tmp_path


def test_a_reload_finds_the_files_that_are_new(sluice, folder):
    server = sluice(file=folder / "sluice.toml")
    assert json.loads(server.get("/one").body) == [{"n": 1}]
    (folder / "conf.d/two.toml").write_text(endpoint("SELECT 2 AS n", "/two"))
    assert server.get("/two").status == 404
    assert reload(server)[0] == 200
    assert json.loads(server.get("/two").body) == [{"n": 2}]
    (folder / "conf.d/one.toml").unlink()
    assert reload(server)[0] == 200
    assert server.get("/one").status == 404 and server.get("/two").status == 200


def test_a_reload_with_an_error_in_an_included_file_changes_nothing(sluice, folder):
    server = sluice(file=folder / "sluice.toml")
    (folder / "conf.d/two.toml").write_text("[server]\n" + endpoint("SELECT 2 AS n", "/one"))
    status, text = reload(server)
    assert status == 422
    at = folder / "conf.d/two.toml"
    assert f'{at}:1:2: error: "server" comes twice\n' in text
    assert f"it is in line 2 of {folder}/sluice.toml already" in text
    assert f'{at}:3:8: error: another [[endpoint]] has the path "/one"\n' in text
    assert f"it is in line 2 of {folder}/conf.d/one.toml already" in text
    assert json.loads(server.get("/one").body) == [{"n": 1}]


def test_errors_of_statements_name_the_included_file(folder):
    (folder / "conf.d/two.toml").write_text(endpoint("SELECT nothing AS n", "/two"))
    (folder / "sluice.toml").write_text('include = ["conf.d/*.toml"]\n')
    code, text = check(folder)
    assert code == 3
    assert text.startswith("conf.d/two.toml:3:15: error: "), text
    assert "  3 | get = " in text


def test_explain_names_the_included_file(folder):
    (folder / "sluice.toml").write_text('include = ["conf.d/*.toml"]\n')
    done = subprocess.run([SLUICE, "explain", "GET", "/one"], capture_output=True, text=True, timeout=20, cwd=folder)
    assert "conf.d/one.toml:2" in done.stdout, done.stdout + done.stderr


@pytest.fixture
def secret(folder):
    """secret(text): writes the file that the database's URL names."""
    def write(text):
        file = folder / "conf.d/secret"
        file.touch(0o600)
        file.write_text(text)
        return file

    return write


def digest(server):
    return re.search(r'^sluice_config_info\{sha256="([0-9a-f]{64})"\} 1$', server.admin("/metrics")[1], re.M)[1]


def test_the_digest_is_that_of_the_files(sluice, folder):
    server = sluice(file=folder / "sluice.toml")
    files = [folder / "sluice.toml", folder / "conf.d/main.toml", folder / "conf.d/one.toml"]
    assert digest(server) == hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    (folder / "conf.d/one.toml").write_text("wrong")
    before = digest(server)
    assert reload(server)[0] == 422 and digest(server) == before
    (folder / "conf.d/one.toml").write_text(endpoint("SELECT 2 AS n", "/one"))
    assert reload(server)[0] == 200
    assert digest(server) == hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def test_a_new_password_of_a_database_is_read_by_a_reload(sluice, folder, secret, own_postgres):
    own_postgres.psql("CREATE ROLE app LOGIN PASSWORD 'first-password'")
    with open(f"{own_postgres.data}/pg_hba.conf", "w") as rules:
        rules.write("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    own_postgres.psql("SELECT pg_reload_conf()")
    (folder / "conf.d/main.toml").write_text(
        f'[database.main]\nurl = "postgres://app:${{file:secret}}@127.0.0.1:{own_postgres.port}/postgres"\n')
    (folder / "conf.d/one.toml").write_text(
        endpoint("SELECT current_user::text AS n", "/one"))
    secret("first-password\n")
    server = sluice(file=folder / "sluice.toml")
    before = digest(server)
    assert json.loads(server.get("/one").body) == [{"n": "app"}]

    own_postgres.psql("ALTER ROLE app PASSWORD 'second-password'")
    secret("second-password\n")
    assert reload(server)[0] == 200
    assert json.loads(server.get("/one").body) == [{"n": "app"}]
    assert digest(server) != before

    secret("wrong-password\n")
    status, text = reload(server)
    assert status == 422 and "password authentication failed" in text and "wrong-password" not in text
    assert f"{folder}/conf.d/main.toml:2:7: error: " in text
    assert json.loads(server.get("/one").body) == [{"n": "app"}]


def test_explain_hides_secrets(folder, secret):
    (folder / "sluice.toml").write_text('include = ["conf.d/*.toml"]\n')
    (folder / "conf.d/one.toml").write_text(endpoint("SELECT '${file:secret}' AS n", "/one"))
    secret("hunter2\n")
    done = subprocess.run([SLUICE, "explain", "GET", "/one"], capture_output=True, text=True, timeout=20, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "SELECT '***' AS n" in done.stdout and "hunter2" not in done.stdout + done.stderr


def test_a_secret_that_every_user_may_read_is_warned_of(folder, secret):
    (folder / "sluice.toml").write_text('include = ["conf.d/*.toml"]\n')
    (folder / "conf.d/main.toml").write_text('[database.main]\nurl = "sqlite:main.db"\n'
                                             '[policy.p]\ntype = "headers"\n[policy.p.response]\nset.A = "${file:secret}"\n')
    file = secret("hunter2\n")
    assert check(folder)[0] == 0 and "secret" not in check(folder)[1]
    file.chmod(0o644)
    assert "warning: conf.d/main.toml:6:9: every user may read the secret in conf.d/secret; chmod o-r helps\n" in check(folder)[1]
    file.unlink()
    code, text = check(folder)
    assert code == 3
    assert text.startswith("conf.d/main.toml:6:10: error: secret: cannot be read: No such file or directory\n"), text
