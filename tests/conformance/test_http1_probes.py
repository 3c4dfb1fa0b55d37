"""The probes of http1_probes.py against the real program: each as a whole, and again in small pieces.

`python3 -m pytest tests/conformance -k "9112 6.3"` runs the probes of one section.
"""
import json
import os
import random
import sqlite3

import pytest

from http1 import Broken
from http1_probes import (BODY_LIMIT, CHUNKS, CLOSED, DATA, FIELD_LIMIT, FILE, HEAD_LIMIT, HELLO, KEPT, PROBES, ROW, TARGET_LIMIT,
                          request)

CANARY = b"GET /f/canary.txt HTTP/1.1\r\nHost: canary\r\nConnection: close\r\n\r\n"
SUNG = b"canary\n"
MODIFIED_S = 1577836800  # http1_probes.MODIFIED, in seconds


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("probes")
    site = folder / "site"
    (site / "sub").mkdir(parents=True)
    for name, data in (("hello.txt", HELLO), ("data.bin", DATA), ("second.txt", b"second\n"), ("canary.txt", SUNG),
                       ("smuggled.txt", b"smuggled\n")):
        (site / name).write_bytes(data)
    os.utime(site / "data.bin", (MODIFIED_S, MODIFIED_S))
    (folder / "secret.txt").write_bytes(b"secret\n")
    (site / "link-out.txt").symlink_to(folder / "secret.txt")
    with sqlite3.connect(folder / "numbers.db") as database:
        database.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
        database.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(1000)])
    database.close()
    return serve(f'''
[database.main]
url = "sqlite:{folder}/numbers.db"
[[endpoint]]
path = "/numbers"
get = "SELECT n FROM numbers ORDER BY n"
[[endpoint]]
path = "/echo/{{value}}"
returns = "object"
get = "SELECT :value AS value"
[[websocket]]
path = "/socket"
handler = "echo"
[[files]]
path = "/f"
root = "{site}"
''', server=f"header_limit = {HEAD_LIMIT}\ntarget_limit = {TARGET_LIMIT}\nfield_limit = {FIELD_LIMIT}\nbody_limit = {BODY_LIMIT}")


@pytest.fixture(scope="module")
def tag(server):
    """The entity-tag of data.bin."""
    answer = server.get("/f/data.bin")
    assert answer.status == 200
    return answer.get("etag").encode()


def name_of(probe):
    section = probe.reference if " " in probe.reference else f"9112 {probe.reference}"
    return f"{section}: {probe.title}".encode("unicode_escape").decode()


def check(connection, expected, closes):
    """The next answer is the expected one, and keeps the rules for every answer."""
    answer = connection.read(head=expected.head)
    assert answer.status == expected.status, answer.body[:300]
    assert answer.get("date")
    if answer.status >= 400 and not expected.head:
        assert answer.media_type == "application/problem+json"
        assert json.loads(answer.body)["status"] == answer.status
    if answer.status == 405:
        assert answer.get("allow")
    if expected.body is not None:
        assert answer.body == expected.body
    for name, value in expected.fields.items():
        got = answer.get(name)
        assert (got is not None) == (value is not None), f"{name}: {got}"
        if isinstance(value, str):
            assert got == value or name == "content-type" and answer.media_type == value, f"{name}: {got}"
    if closes:
        assert answer.get("connection") == "close"
    else:
        assert answer.get("connection") != "close"


def judge(connection, probe):
    for n, expected in enumerate(probe.answers):
        check(connection, expected, closes=probe.fate == CLOSED and n == len(probe.answers) - 1)
    if probe.fate == KEPT:
        answer = connection.read()
        assert (answer.status, answer.body) == (200, SUNG), "what follows the probe is not answered as the canary"
    assert connection.rest() == b"", "more was answered than was asked"


def pieces_of(data):
    """Single bytes; of longer data, at most 41 pieces."""
    if len(data) <= 300:
        cuts = range(1, len(data))
    else:
        cuts = sorted(random.Random(len(data)).sample(range(1, len(data)), 40))
    for begin, end in zip([0, *cuts], [*cuts, len(data)]):
        yield data[begin:end]


@pytest.mark.parametrize("way", ["whole", "in pieces"])
@pytest.mark.parametrize("probe", PROBES, ids=name_of)
def test_probe(server, tag, probe, way):
    data = probe.sent.replace(b"{tag}", tag) + (b"" if probe.alone else CANARY)
    with server.connect(timeout=30) as connection:
        for piece in [data] if way == "whole" else pieces_of(data):
            try:
                connection.send(piece)
            except ConnectionError:
                assert probe.fate == CLOSED
                break
        judge(connection, probe)


def test_there_are_enough():
    """The list was not emptied by mistake, and every probe has a name of its own."""
    names = [name_of(probe) for probe in PROBES]
    assert len(names) == len(set(names)) >= 170


SPLIT = [
    request() + request(target=ROW),
    request("Connection: keep-alive", version="HTTP/1.0"),
    request("X: \t y \t", "Content-Length: 5", method="POST", target="http://h" + FILE, body="hello"),
    request("Transfer-Encoding: chunked", body="5;a=\"b\"\r\nhello\r\n" + CHUNKS[:-2] + "X: y\r\n\r\n"),
    request(target="/x/%2e%2E/f/./hello%2etxt?a#"),
    request("Content-Length: 5", "Transfer-Encoding: chunked", body=CHUNKS),
    request("Transfer-Encoding: chunked", body="5\r\nhello!\r\n"),
]


@pytest.mark.parametrize("data", SPLIT, ids=range(len(SPLIT)))
def test_an_answer_does_not_depend_on_how_the_bytes_come(server, data):
    """Split in two at every byte: the second part comes after the server had time to see the first."""
    data = data.encode() + CANARY

    def without_date(answer):
        return b"".join(line for line in answer.splitlines(keepends=True) if not line.startswith(b"Date: "))

    with server.connect() as connection:
        connection.send(data)
        whole = without_date(connection.rest())
    assert whole.startswith(b"HTTP/1.1 ")
    connections = [server.connect() for _ in range(1, len(data))]
    for at, connection in enumerate(connections, 1):
        connection.send(data[:at])
    assert server.get(FILE).status == 200
    for at, connection in enumerate(connections, 1):
        try:
            connection.send(data[at:])
        except ConnectionError:
            pass  # the server has refused it already
    for at, connection in enumerate(connections, 1):
        assert without_date(connection.rest()) == whole, f"split at {at}"
        connection.close()


@pytest.mark.parametrize("data", [b"G", b"GET /", request()[:-2].encode(), request()[:-1].encode()])
def test_the_end_within_a_head(server, data):
    """RFC 9112, 8: an incomplete request is not executed."""
    with server.connect() as connection:
        connection.send(data)
        connection.shut_sending()
        assert connection.read().status == 400
        connection.assert_closed()


@pytest.mark.parametrize("fields, data", [(["Content-Length: 5"], b"hell"), (["Transfer-Encoding: chunked"], b"5\r\nhello\r\n"),
                                          (["Transfer-Encoding: chunked"], b"5\r\nhello\r\n0\r\n")])
def test_the_end_within_a_body(server, fields, data):
    """RFC 9112, 8: likewise."""
    with server.connect() as connection:
        connection.send(request(*fields).encode() + data)
        connection.shut_sending()
        assert connection.read().status == 400
        connection.assert_closed()


def test_the_end_between_requests(server):
    """RFC 9112, 9.6: the server closes without an error or another answer."""
    with server.connect() as connection:
        connection.send(request())
        connection.shut_sending()
        assert connection.read().body == HELLO
        with pytest.raises(Broken):
            connection.read()
