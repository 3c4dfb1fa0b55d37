"""Every route of every example configuration, by every method: POST /explain says what the server answers."""
import json
import re
import shutil
import sqlite3
import subprocess
import tomllib

import pytest

from conftest import ROOT, SLUICE
from test_explain_admin import explain
from tokens import Rsa, Secret, soon

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"]
SECRET = Secret()


def copy_of(name, tmp_path):
    return shutil.copytree(ROOT / "examples" / name, tmp_path / name, ignore=shutil.ignore_patterns("state", "keys"))


def make_sqlite(file, *scripts):
    with sqlite3.connect(file) as database:
        for script in scripts:
            database.executescript(script.read_text())
    database.close()


class Example:
    def __init__(self, file, token, env=None):
        self.file, self.token, self.env = file, f"Authorization: Bearer {token}", env or {}


def films(tmp_path, _):
    folder = copy_of("films", tmp_path)
    make_sqlite(folder / "films.db", folder / "schema.sqlite.sql")
    return Example(folder / "films.toml", "none")


def users(tmp_path, _):
    folder = copy_of("users", tmp_path)
    make_sqlite(folder / "users.db", folder / "schema.sqlite.sql", folder / "schema.login.sql")
    keys = folder / "keys"
    keys.mkdir()
    subprocess.run([SLUICE, "keys", "--out", keys], check=True, capture_output=True)
    key, = keys.glob("*.key.pem")  # its name is the id that [login] gives the key
    signed = subprocess.run([SLUICE, "token", "--key", key, "--subject", "1", "--claim", "scope=admin"], check=True,
                            capture_output=True, text=True)
    key.rename(keys / "login.key.pem")
    return Example(folder / "users.toml", signed.stdout.strip())


def rls(tmp_path, cluster):
    folder = copy_of("users", tmp_path)
    cluster.psql("CREATE DATABASE walked")
    for script in ("schema.postgres.sql", "schema.rls.sql"):
        cluster.psql((folder / script).read_text(), "walked")
    return Example(folder / "rls.toml", SECRET.token(soon(sub="1", role="sluice_member")),
                   {"JWT_SECRET": SECRET.secret, "DATABASE": cluster.url("walked")})


def gateway(tmp_path, _):
    folder = copy_of("gateway", tmp_path)
    (folder / "state").mkdir()
    key = Rsa()
    (folder / "state/public.pem").write_bytes(key.public_pem)
    make_sqlite(folder / "state/gateway.db", folder / "schema.sql")
    return Example(folder / "sluice.toml", key.token(soon(aud="gateway")))


def paths_of(configuration):
    """(host, path) of every route, with values for its parameters."""
    found = []

    def add(table, path):
        path = re.sub(r"\{\w+:int\}", "1", path)
        path = re.sub(r"\{\w+\.\.\.\}", "a/b", path)
        found.append((table.get("host", "").replace("*.", "a."), re.sub(r"\{\w+\}", "a", path)))

    for table in configuration.get("endpoint", []):
        add(table, table["path"])
        if table.get("changes"):
            add(table, table["path"] + "/changes")
    for table in configuration.get("resident", []):
        if table.get("serve", True):
            add(table, "/" + table["name"])
            if "key" in table:
                add(table, "/" + table["name"] + "/{key}")
    for table in configuration.get("files", []):
        add(table, table["path"])
        add(table, table["path"].rstrip("/") + "/none.txt")
    for table in configuration.get("route", []) + configuration.get("websocket", []):
        add(table, table["path"])
    if "login" in configuration:
        for name in ("login", "refresh", "logout", "me"):
            add(configuration["login"], f"/auth/{name}")
        add(configuration["login"], "/.well-known/jwks.json")
    for name, path in (("batch", "/batch"), ("openapi", "/openapi.json")):
        if name in configuration:
            add(configuration[name], configuration[name].get("path", path))
    return [*found, ("", "/nowhere/at/all"), ("", "/none.csv")]


def requests_of(example):
    for host, path in paths_of(tomllib.loads(example.file.read_text())):
        url = f"http://{host}{path}" if host else path
        for method in METHODS:
            yield method, url, []
            yield method, url, [example.token]
        yield "GET", url + "?nothing=1", [example.token]
        yield "GET", url + ".csv", [example.token]
        for accept in ("application/xml", "text/csv", "application/json;q=0"):
            yield "GET", url, [example.token, f"Accept: {accept}"]


def compare(server, method, url, headers):
    """Returns the status that is explained, or None if the answer comes from somewhere else."""
    said = explain(server, method, url, *headers)
    answer = server.get(url, *headers, method=method)
    where = (method, url, headers, answer.status, said)
    if "answer" in said:
        assert said["answer"]["status"] == answer.status, where
        for name in ("Allow", "WWW-Authenticate", "Location"):
            assert said["answer"]["fields"].get(name) == answer.get(name), where
        if method != "HEAD" and "detail" in said["answer"]:
            assert said["answer"]["detail"] == json.loads(answer.body)["detail"], where
        return answer.status
    assert said["answered"] and "route" in said, where
    assert not any(policy["verdict"] == "refuses" for policy in said["policies"]), where
    there = said["destination"]
    # Only databases, files and servers know whether something is there, and who may have it.
    unknown = {"database", "file", "table", "upstream"} & there.keys()
    assert answer.status not in ({405, 406} if unknown else {401, 403, 404, 405, 406}), where
    if answer.status == 200 and "format" in there:
        assert answer.get("Content-Type") == there["format"], where
    return None


@pytest.mark.parametrize("example, statuses", [
    (films, {405, 406, 501}), (users, {401, 404, 405, 406, 501}), (rls, {404, 405, 406, 501}), (gateway, {401, 404})])
def test_the_routes_of_an_example(sluice, request, tmp_path, example, statuses):
    ready = example(tmp_path, request.getfixturevalue("postgres") if example is rls else None)
    server = sluice(file=ready.file, env=ready.env, ready="/livez")
    seen = [compare(server, *one) for one in requests_of(ready)]
    assert statuses <= set(seen) and None in seen
