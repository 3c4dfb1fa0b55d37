"""TLS between Sluice and PostgreSQL: every sslmode against servers with TLS, without it, and with a wrong certificate."""
import json
import os
import pathlib
import pwd
import shutil
import socket
import struct
import subprocess
import threading
import time

import pytest

from certificates import Authority
from cluster import Postgres
from conftest import SLUICE

ROWS = 200_000
SSL_REQUEST, CANCEL_REQUEST = 80877103, 80877102

HBA = """
local     all  all          trust
hostssl   all  certified    127.0.0.1/32  trust          clientcert=verify-ca
hostssl   all  scram        127.0.0.1/32  scram-sha-256
hostssl   all  clear        127.0.0.1/32  password
hostssl   all  encrypted    127.0.0.1/32  trust
hostnossl all  unencrypted  127.0.0.1/32  trust
host      all  postgres     127.0.0.1/32  trust
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pgtls") / "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pgtls") / "theirs")


@pytest.fixture(scope="module")
def secure(authority):
    """A cluster whose certificate is for "localhost", but for no address."""
    cluster = Postgres()
    try:
        certificate, key = authority.issue("server", ["localhost"])
        for source, name in (certificate, "server.crt"), (key, "server.key"), (authority.ca, "root.crt"):
            target = pathlib.Path(cluster.data) / name
            shutil.copyfile(source, target)
            target.chmod(0o600)
            if os.geteuid() == 0:
                owner = pwd.getpwnam("postgres")
                os.chown(target, owner.pw_uid, owner.pw_gid)
        (pathlib.Path(cluster.data) / "pg_hba.conf").write_text(HBA)
        cluster.psql("CREATE USER certified; CREATE USER encrypted; CREATE USER unencrypted;"
                     "CREATE USER scram PASSWORD 'a secret'; CREATE USER clear PASSWORD 'another'")
        cluster.settings += ["ssl=on", "ssl_ca_file=root.crt"]
        cluster.stop()
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


def url(cluster, parameters="", host="localhost", user="postgres", port=None):
    return f"postgres://{user}@{host}:{port or cluster.port}/postgres?{parameters}"


DATABASE = '''
[database.{name}]
url = "{url}"
[[endpoint]]
path = "/{name}"
database = "{name}"
returns = "object"
get = "SELECT ssl, current_user AS who FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
'''


def check(folder, address):
    """(exit code, output) of `sluice check` with one database."""
    file = folder / "check.toml"
    file.write_text(DATABASE.format(name="main", url=address))
    run = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=60)
    return run.returncode, run.stdout + run.stderr


def test_every_mode_that_gets_through(sluice, secure, postgres, authority):
    trust = f"sslrootcert={authority.ca}"
    certificate, key = authority.issue("client", ["client"])
    ours = f"sslcert={certificate}&sslkey={key}"
    cases = {
        "unsaid": (url(secure), True),
        "disable": (url(secure, "sslmode=disable"), False),
        "allow": (url(secure, "sslmode=allow"), False),
        "prefer": (url(secure, "sslmode=prefer"), True),
        "require": (url(secure, "sslmode=require"), True),
        "verify_ca": (url(secure, f"sslmode=verify-ca&{trust}", host="127.0.0.1"), True),
        "verify_full": (url(secure, f"sslmode=verify-full&{trust}"), True),
        # The server's rules decide.
        "allow_must": (url(secure, "sslmode=allow", user="encrypted"), True),
        "prefer_must_not": (url(secure, "sslmode=prefer", user="unencrypted"), False),
        "certified": (url(secure, f"sslmode=verify-full&{trust}&{ours}", user="certified"), True),
        # Passwords: with channel binding, without it, and in the clear to a verified server.
        "bound": (url(secure, "sslmode=require&channel_binding=require", user="scram:a%20secret"), True),
        "unbound": (url(secure, "sslmode=require&channel_binding=disable", user="scram:a%20secret"), True),
        "clear": (url(secure, f"sslmode=verify-full&{trust}", user="clear:another"), True),
        # The server has no TLS.
        "none_unsaid": (url(postgres), False),
        "none_prefer": (url(postgres, "sslmode=prefer"), False),
        "none_allow": (url(postgres, "sslmode=allow"), False),
        "unix": (f"postgres://postgres@/postgres?host={secure.folder}&port={secure.port}&sslmode=require", False),
    }
    server = sluice("".join(DATABASE.format(name=name, url=address) for name, (address, _) in cases.items()),
                    server="cores = 1")
    for name, (_, encrypted) in cases.items():
        answer = server.get(f"/{name}")
        assert answer.status == 200, (name, answer.body)
        assert json.loads(answer.body)["ssl"] is encrypted, name


def test_every_mode_that_must_not(tmp_path, secure, postgres, authority, stranger):
    trust = f"sslrootcert={authority.ca}"
    other = f"sslrootcert={stranger.ca}"
    certificate, key = stranger.issue("client", ["client"])
    for address, said in [
            (url(postgres, "sslmode=require"), "the server does not support TLS, but sslmode=require"),
            (url(postgres, f"sslmode=verify-ca&{trust}"), "the server does not support TLS, but sslmode=verify-ca"),
            (url(postgres, f"sslmode=verify-full&{trust}"), "the server does not support TLS, but sslmode=verify-full"),
            (url(secure, f"sslmode=verify-full&{trust}", host="127.0.0.1"), 'TLS with "127.0.0.1": '),
            (url(secure, f"sslmode=verify-full&{trust}", host="127.0.0.1"), "IP address mismatch"),
            (url(secure, f"sslmode=verify-full&{other}"), 'TLS with "localhost": certificate verify failed'),
            (url(secure, f"sslmode=verify-ca&{other}"), 'TLS with "localhost": certificate verify failed'),
            (url(secure, f"sslmode=require&{other}"), 'TLS with "localhost": certificate verify failed'),
            (url(secure, "sslrootcert=system"), 'TLS with "localhost": certificate verify failed'),
            (url(secure, "sslmode=disable", user="encrypted"), "no encryption"),
            (url(secure, "sslmode=require", user="unencrypted"), "SSL encryption"),
            (url(secure, "sslmode=require", user="certified"), "valid client certificate"),
            (url(secure, f"sslmode=require&sslcert={certificate}&sslkey={key}", user="certified"),
             # It depends on what comes first: the server's alert, or a failed write of our next message.
             ("the server refuses: tlsv1 alert unknown ca", "cannot send to the server")),
            (url(secure, "sslmode=require", user="clear:another"), "password in the clear"),
            (url(secure, "sslmode=prefer", user="certified"), "without TLS: "),
            (url(secure, "sslmode=require", user="scram:wrong"), "password authentication failed"),
            (url(postgres, "sslmode=prefer&channel_binding=require"), "channel_binding=require"),
    ]:
        start = time.monotonic()
        code, output = check(tmp_path, address)
        said = (said,) if isinstance(said, str) else said
        assert code == 1 and any(words in output for words in said), (address, output)
        assert "another" not in output  # the password
        assert time.monotonic() - start < 30


def test_files_that_cannot_be_used_are_errors_of_the_configuration(tmp_path, secure, authority):
    certificate, _ = authority.issue("client", ["client"])
    _, key = authority.issue("other", ["client"])
    (tmp_path / "empty.pem").write_text("")
    for parameters, said in [
            ("sslmode=verify-full", "sslrootcert=system"),
            ("sslmode=verify-full&sslrootcert=gone.pem", f"{tmp_path}/gone.pem cannot be read"),
            ("sslmode=verify-full&sslrootcert=empty.pem", "empty.pem holds no PEM certificates"),
            (f"sslmode=require&sslcert={certificate}&sslkey={key}", "is not the key of"),
            (f"sslmode=require&sslcert={certificate}", "sslcert and sslkey go together"),
            ("sslmode=maybe", "sslmode must be"),
    ]:
        code, output = check(tmp_path, url(secure, parameters))
        assert code == 3 and said in output and ":3:7: error: " in output, (parameters, output)
    # Relative paths start at the configuration's folder.
    shutil.copyfile(authority.ca, tmp_path / "ca.pem")
    assert check(tmp_path, url(secure, "sslmode=verify-full&sslrootcert=ca.pem"))[0] == 0


class Wire:
    """Forwards connections to a server, and records how each of them began."""

    def __init__(self, port):
        self.target = port
        self.begun = []  # the first number of each packet that a client sends before TLS
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            threading.Thread(target=self.begin, args=(client, server), daemon=True).start()

    def begin(self, client, server):
        first = client.recv(8, socket.MSG_WAITALL)
        code = struct.unpack("!II", first)[1]
        server.sendall(first)
        if code == SSL_REQUEST:
            client.sendall(server.recv(1))
            record = client.recv(5)
            server.sendall(record)
            code = "TLS" if record[:2] == b"\x16\x03" else "clear"
        self.begun.append(code)
        threading.Thread(target=self.pass_on, args=(server, client), daemon=True).start()
        self.pass_on(client, server)

    def pass_on(self, source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.fixture
def wire(secure):
    passing = Wire(secure.port)
    yield passing
    passing.close()


EXPORT = f"SELECT n, md5(n::text) AS hash, repeat('x', n % 100) AS text FROM generate_series(1, {ROWS}) n"
CONFIG = '''
[database.main]
url = "{url}"
pool = 2
[database.clear]
url = "{clear}"
[[endpoint]]
path = "/export"
database = "main"
get = "{export}"
[[endpoint]]
path = "/clear"
database = "clear"
get = "{export}"
[[endpoint]]
path = "/number/{{n:int}}"
database = "main"
returns = "object"
get = "SELECT :n::int AS n, repeat('y', :n::int) AS text"
[[endpoint]]
path = "/nap"
database = "main"
returns = "object"
get = "SELECT pg_sleep(60) AS nap"
[[endpoint]]
path = "/endless"
database = "main"
get = "SELECT generate_series(1, 1000000000) AS n, repeat('z', 1000)"
'''


@pytest.fixture
def server(sluice, secure, wire, authority):
    return sluice(CONFIG.format(export=EXPORT, clear=url(secure, "sslmode=disable"),
                                url=url(secure, f"sslmode=verify-full&sslrootcert={authority.ca}", port=wire.port)),
                  server="cores = 1")


def test_large_answers_are_the_same(server, wire):
    plain, encrypted = server.get("/clear.csv"), server.get("/export.csv")
    assert plain.status == encrypted.status == 200
    assert encrypted.body == plain.body and len(plain.body) > 80 * ROWS
    # A client that reads slowly gets the same.
    with server.connect() as slow:
        slow.send("GET /export.csv HTTP/1.1\r\nHost: test\r\n\r\n")
        time.sleep(0.5)
        assert slow.read().body == plain.body
    assert wire.begun and set(wire.begun) == {"TLS"}


def test_look_ups_share_an_encrypted_connection(server, wire):
    failed = []

    def ask(first):
        with server.connect() as connection:
            for n in range(first, first + 100):
                row = json.loads(connection.get(f"/number/{n}").body)
                if row != {"n": n, "text": "y" * n}:
                    failed.append(n)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(0, 80, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and set(wire.begun) == {"TLS"}


def wait_until(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_cancelling_is_encrypted_too(server, secure, wire):
    def running(what):
        return int(secure.psql(f"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%{what}%' "
                               "AND pid <> pg_backend_pid()"))

    for target, what in ("/nap", "pg_sleep(60)"), ("/endless", "generate_series(1, 1000000000)"):
        before = len(wire.begun)
        with server.connect() as connection:
            connection.send(f"GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: running(what) == 1, f"{what} does not run")
        wait_until(lambda: running(what) == 0, f"{what} still runs in the database")
        assert len(wire.begun) > before  # the cancel request used a connection of its own
    assert set(wire.begun) == {"TLS"} and CANCEL_REQUEST not in wire.begun
    assert json.loads(server.get("/number/3").body)["n"] == 3


def test_a_session_that_is_ended_comes_back(server, secure):
    assert server.get("/number/1").status == 200
    secure.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'")
    wait_until(lambda: server.get("/number/2").status == 200, "it does not come back")
