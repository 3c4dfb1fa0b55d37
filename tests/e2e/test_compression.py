"""Compressed answers as real clients decode them: python's zlib and brotli, the zstd program, curl."""
import json
import random
import subprocess
import threading
import time
import zlib

import brotli
import pytest

from conftest import SLUICE
from http1 import Broken
from test_gateway import gateway
from upstream import Upstream, response

CODINGS = ["gzip", "br", "zstd"]
TEXT = b"".join(b"line %d of a text that repeats itself\n" % n for n in range(800))
SCRIPT = b"".join(b"function f%d(a) { return a * %d; }\n" % (n, n * n) for n in range(20_000))


def decode(coding, data):
    """Decodes the whole body; fails if it is cut or damaged, or if something follows it."""
    if coding == "gzip":
        decoder = zlib.decompressobj(31)
        text = decoder.decompress(data) + decoder.flush()
        assert decoder.eof and not decoder.unused_data
        return text
    if coding == "br":
        return brotli.decompress(data)
    return subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=True).stdout


@pytest.fixture
def config(site, small_sqlite):
    (site / "text.txt").write_bytes(TEXT)
    (site / "script.js").write_bytes(SCRIPT)
    (site / "page.html").write_bytes(b"<p>short</p>\n")
    (site / "noise.txt").write_bytes(random.Random(1).randbytes(300_000))
    (site / "picture.png").write_bytes(TEXT)
    (site / "empty.txt").write_bytes(b"")
    return f'''
[database.main]
url = "sqlite:{small_sqlite}"
wait = "1m"
[[endpoint]]
path = "/numbers"
get = "SELECT n, text FROM numbers ORDER BY n"
[[endpoint]]
path = "/many"
get = "SELECT a.n * 1000 + b.n AS n, a.text FROM numbers a, numbers b WHERE a.n <= 100 ORDER BY 1"
[[endpoint]]
path = "/few"
get = "SELECT n, text FROM numbers WHERE n <= 3"
[[endpoint]]
path = "/wide/{{n:int}}"
returns = "object"
get = "SELECT n, printf('%.*c', 5000, 'x') AS text FROM numbers WHERE n = :n"
[[endpoint]]
path = "/untouched"
cache_control = "no-store, no-transform"
get = "SELECT n, text FROM numbers ORDER BY n"
[[files]]
path = "/"
root = "{site}"
'''


@pytest.fixture
def server(sluice, config):
    return sluice(config + '[compression]\ncodings = ["zstd", "br", "gzip"]\n')


def get(server, target, accepted, *fields, method="GET"):
    return server.get(target, f"Accept-Encoding: {accepted}", *fields, method=method)


def test_without_the_table_nothing_is_compressed(sluice, config):
    server = sluice(config)
    for target, body in [("/text.txt", TEXT), ("/numbers", None)]:
        answer = get(server, target, "gzip, br, zstd")
        assert answer.get("content-encoding") is None
        assert "encoding" not in (answer.get("vary") or "").lower()
        assert body is None or answer.body == body


@pytest.mark.parametrize("coding", CODINGS)
def test_rows_come_back_in_every_format(server, coding):
    for target in ["/numbers", "/numbers.csv", "/numbers.ndjson", "/numbers.csj", "/many", "/many.csv", "/wide/7"]:
        plain = get(server, target, "identity")
        assert plain.get("content-encoding") is None
        answer = get(server, target, coding)
        assert answer.status == 200
        assert answer.get("content-encoding") == coding
        assert answer.get("content-type") == plain.get("content-type")
        assert answer.get("vary") == plain.get("vary")
        assert "accept-encoding" in answer.get("vary").lower()
        assert len(answer.body) < len(plain.body) / 2
        assert decode(coding, answer.body) == plain.body
    assert len(json.loads(plain.body)["text"]) == 5000


@pytest.mark.parametrize("coding", CODINGS)
def test_files_come_back(server, coding):
    for target, body in [("/text.txt", TEXT), ("/script.js", SCRIPT)]:
        with server.connect() as connection:  # each core has a cache of its own
            for again in range(3):
                answer = connection.get(target, f"Accept-Encoding: {coding}")
                assert answer.get("content-encoding") == coding
                assert answer.get("etag").startswith('W/"')
                assert answer.get("vary") == "Accept-Encoding"
                assert answer.get("accept-ranges") is None
                assert decode(coding, answer.body) == body
                assert len(answer.body) < len(body) / 3
                if again:  # from the cache, so its length is known
                    assert answer.get("content-length") == str(len(answer.body))
    noise = get(server, "/noise.txt", coding)
    assert decode(coding, noise.body) == random.Random(1).randbytes(300_000)


def test_a_file_that_changes_is_compressed_anew(server, site):
    with server.connect() as connection:  # each core checks the file by itself, at most once a second
        for version in range(3):
            body = TEXT + b"version %d" % version
            (site / "text.txt").write_bytes(body)
            end = time.monotonic() + 20
            while decode("gzip", connection.get("/text.txt", "Accept-Encoding: gzip").body) != body:
                assert time.monotonic() < end
                time.sleep(0.1)
            assert decode("br", connection.get("/text.txt", "Accept-Encoding: br").body) == body


def test_curl_decodes(server, tmp_path):
    for target in ["/many.csv", "/script.js", "/numbers"]:
        bodies = []
        for arguments in [["--compressed"], *(["--compressed", "-H", f"Accept-Encoding: {coding}"] for coding in CODINGS),
                          ["--http1.0", "--compressed"], []]:
            out = tmp_path / "out"
            subprocess.run(["curl", "-sS", "-f", "-o", str(out), *arguments, f"http://127.0.0.1:{server.port}{target}"],
                           check=True, timeout=60)
            bodies.append(out.read_bytes())
        assert len(bodies[0]) > 10_000
        assert all(body == bodies[0] for body in bodies)


def test_what_is_not_compressed(server, site):
    for target, body in [("/page.html", b"<p>short</p>\n"), ("/picture.png", TEXT), ("/empty.txt", b""), ("/few", None),
                         ("/untouched", None)]:
        answer = get(server, target, "gzip, br, zstd")
        assert answer.status == 200
        assert answer.get("content-encoding") is None
        assert "accept-encoding" not in (answer.get("vary") or "").lower()
        assert answer.get("content-length") == str(len(answer.body))
        assert body is None or answer.body == body
    assert get(server, "/few", "gzip, identity;q=0").get("content-encoding") == "gzip"


def test_the_client_chooses(server):
    for accepted, coding in [("gzip, deflate, br, zstd", "zstd"), ("gzip, deflate, br", "br"), ("gzip, deflate", "gzip"),
                             ("br;q=0.5, gzip;q=0.9", "gzip"), ("*", "zstd"), ("*, zstd;q=0", "br"), ("x-gzip", "gzip"),
                             ("deflate", None), ("gzip;q=0", None), ("identity, gzip;q=0.5", None), ("", None)]:
        answer = get(server, "/text.txt", accepted)
        assert answer.get("content-encoding") == coding, accepted
        assert answer.get("vary") == "Accept-Encoding"
        assert (decode(coding, answer.body) if coding else answer.body) == TEXT
    assert server.get("/text.txt").body == TEXT


def test_the_servers_order_decides_among_equals(sluice, config):
    server = sluice(config + '[compression]\ncodings = ["gzip", "br"]\n')
    assert get(server, "/text.txt", "zstd, br, gzip").get("content-encoding") == "gzip"
    assert get(server, "/text.txt", "zstd").get("content-encoding") is None


def test_minimum_and_types(sluice, config):
    server = sluice(config + '[compression]\ncodings = ["gzip"]\nminimum = 0\ntypes = ["image/*", "text/html"]\n')
    assert decode("gzip", get(server, "/page.html", "gzip").body) == b"<p>short</p>\n"
    assert decode("gzip", get(server, "/picture.png", "gzip").body) == TEXT
    assert get(server, "/text.txt", "gzip").get("content-encoding") is None


def test_head_has_the_fields_of_get_and_no_length(server):
    for target in ["/text.txt", "/script.js", "/numbers", "/many", "/wide/7"]:
        with server.connect() as connection:
            got = connection.get(target, "Accept-Encoding: br")
            head = connection.get(target, "Accept-Encoding: br", method="HEAD")
            again = connection.get("/page.html")
        assert head.get("content-length") is None
        assert again.body == b"<p>short</p>\n"
        unlike = {"date", "content-length", "transfer-encoding", "row-count"}
        assert [f for f in head.fields if f[0] not in unlike] == [f for f in got.fields if f[0] not in unlike]
    assert get(server, "/page.html", "br", method="HEAD").get("content-length") == "13"


def test_revalidation(server):
    for target in ["/text.txt", "/script.js"]:
        plain, packed = get(server, target, "identity"), get(server, target, "gzip")
        assert packed.get("etag") == "W/" + plain.get("etag")
        for accepted, known in [("gzip", packed), ("identity", plain), ("gzip", plain), ("br", packed)]:
            answer = get(server, target, accepted, f"If-None-Match: {known.get('etag')}")
            assert answer.status == 304
            assert answer.get("etag") == known.get("etag")
            assert answer.get("vary") == "Accept-Encoding"
        assert get(server, target, "gzip", 'If-None-Match: W/"other"').status == 200


def test_trailers_come_with_compressed_rows(server):
    answer = get(server, "/numbers", "gzip", "TE: trailers")
    assert len(json.loads(decode("gzip", answer.body))) == 1000
    assert answer.trailer("row-count") == "1000"


def test_pipelined_answers_keep_their_order(server):
    with server.connect() as connection:
        wanted = [(target, coding) for target in ["/text.txt", "/many.csv", "/few", "/script.js"]
                  for coding in [*CODINGS, "identity"]]
        connection.send("".join(f"GET {target} HTTP/1.1\r\nHost: test\r\nAccept-Encoding: {coding}\r\n\r\n"
                                for target, coding in wanted))
        bodies = {}
        for target, coding in wanted:
            answer = connection.read()
            encoded = answer.get("content-encoding")
            assert encoded == (None if coding == "identity" or target == "/few" else coding)
            bodies.setdefault(target, set()).add(decode(encoded, answer.body) if encoded else answer.body)
        assert all(len(same) == 1 for same in bodies.values())
        assert bodies["/script.js"] == {SCRIPT}


def test_many_at_once(server):
    faults = []

    def ask(coding):
        try:
            with server.connect(60) as connection:
                for _ in range(4):
                    answer = connection.get("/many.csv", f"Accept-Encoding: {coding}")
                    assert answer.status == 200, answer.body
                    assert decode(coding, answer.body) == plain
        except BaseException as fault:  # noqa: BLE001: reported below
            faults.append(fault)

    plain = get(server, "/many.csv", "identity").body
    threads = [threading.Thread(target=ask, args=(CODINGS[i % 3],)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[0]


def test_without_memory_answers_are_plain(sluice, config):
    server = sluice(config + '[compression]\ncodings = ["gzip"]\nmemory = "1MiB"\ncache = 0\n', server="cores = 1")
    plain = get(server, "/many.csv", "identity").body
    connections = [server.connect(60) for _ in range(12)]
    for connection in connections:
        connection.sip = 4096
        connection.send("GET /many HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n")
    time.sleep(0.2)
    answers = [connection.read() for connection in connections]
    whole = json.dumps(json.loads(get(server, "/many", "identity").body))
    for answer in answers:
        body = decode("gzip", answer.body) if answer.get("content-encoding") else answer.body
        assert json.dumps(json.loads(body)) == whole
    for connection in connections:
        connection.close()
    assert decode("gzip", get(server, "/many.csv", "gzip").body) == plain


def test_clients_that_leave_do_no_harm(server):
    for coding in CODINGS:
        for _ in range(10):
            with server.connect() as connection:
                connection.send(f"GET /many HTTP/1.1\r\nHost: test\r\nAccept-Encoding: {coding}\r\n\r\n")
                connection.socket.recv(200)
    for coding in CODINGS:
        assert len(json.loads(decode(coding, get(server, "/many", coding).body))) == 100_000


@pytest.mark.parametrize("coding", ["gzip", "br"])
def test_rows_arrive_when_they_are_there(sluice, postgres, coding):
    """The compressor does not hold back rows that come with pauses."""
    server = sluice(f'''
[compression]
codings = ["gzip", "br"]
[database.main]
url = "{postgres.url('postgres')}"
[[endpoint]]
path = "/slow"
get = "SELECT n, repeat('x', 20000), pg_sleep(0.7) FROM generate_series(1, 4) n"
''')
    decoder = zlib.decompressobj(31) if coding == "gzip" else brotli.Decompressor()
    feed = decoder.decompress if coding == "gzip" else decoder.process
    with server.connect(60) as connection:
        connection.send(f"GET /slow HTTP/1.1\r\nHost: test\r\nAccept-Encoding: {coding}\r\n\r\n")
        head = connection._until(b"\r\n\r\n")
        assert f"Content-Encoding: {coding}".encode() in head
        text, first, end = b"", None, None
        while end is None:
            size = int(connection._until(b"\r\n"), 16)
            if size == 0:
                end = time.monotonic()
                break
            text += feed(connection._exactly(size))
            assert connection._exactly(2) == b"\r\n"
            if first is None and b'"n":1' in text:
                first = time.monotonic()
    assert len(json.loads(text)) == 4
    assert end - first > 0.7, "the first row came with the last"


def test_metrics_count_it(server, sluice, config):
    for _ in range(3):
        get(server, "/text.txt", "gzip")
        get(server, "/text.txt", "identity")
    text = server.admin("/metrics")[1]
    values = dict(line.split() for line in text.splitlines() if line.startswith("sluice_compression_"))
    assert values["sluice_compression_answers_total"] == "3"
    assert int(values["sluice_compression_input_bytes_total"]) % len(TEXT) == 0
    assert 0 < int(values["sluice_compression_output_bytes_total"]) < int(values["sluice_compression_input_bytes_total"])
    assert values["sluice_compression_refused_total"] == "0"
    assert "sluice_compression" not in sluice(config).admin("/metrics")[1]


def test_a_stream_that_breaks_is_cut(sluice, postgres):
    server = sluice(f'''
[compression]
codings = ["gzip"]
[database.main]
url = "{postgres.url('postgres')}"
[[endpoint]]
path = "/breaks"
get = "SELECT n, 1 / (200000 - n) AS x FROM generate_series(1, 200000) n"
''')
    with server.connect() as connection, pytest.raises(Broken):
        connection.get("/breaks", "Accept-Encoding: gzip")


@pytest.mark.parametrize("keys, says", [
    ('codings = ["deflate"]', "gzip"),
    ('codings = ["gzip"]\ngzip_level = 10', "gzip_level"),
    ('codings = ["gzip"]\nbrotli_quality = 11', "brotli_quality"),
    ('codings = ["gzip"]\ntypes = ["*"]', "text/csv"),
    ('codings = ["gzip"]\ntypes = []', "types"),
    ('codings = ["gzip"]\nwindow = "1KiB"', "window"),
    ('enabled = true', "enabled"),
])
def test_a_wrong_configuration_is_refused(tmp_path, config, keys, says):
    file = tmp_path / "sluice.toml"
    file.write_text(config + "[compression]\n" + keys + "\n")
    checked = subprocess.run([SLUICE, "check", str(file)], capture_output=True, text=True, timeout=20)
    assert checked.returncode == 3
    assert says in checked.stderr


class Versions:
    """A server behind the gateway that obeys conditions. It compares entity-tags as a whole."""

    def __init__(self):
        self.version = 1

    def __call__(self, request, _):
        method, _, fields, _ = request
        fields, tag = dict(fields), f'"v{self.version}"'
        if "if-match" in fields and fields["if-match"] not in (tag, "*"):
            return response(b"", status="412 Precondition Failed")
        if method == "PUT":
            self.version += 1
            return response(TEXT, "Content-Type: text/plain", f'ETag: "v{self.version}"')
        if tag in [one.strip().removeprefix("W/") for one in fields.get("if-none-match", "").split(",")]:
            return response(b"", f"ETag: {tag}", status="304 Not Modified").replace(b"Content-Length: 0\r\n", b"")
        whole = "range" not in fields or fields.get("if-range", tag) != tag
        return response(TEXT if whole else TEXT[:2000], "Content-Type: text/plain", f"ETag: {tag}", "Accept-Ranges: bytes",
                        *([] if whole else [f"Content-Range: bytes 0-1999/{len(TEXT)}"]),
                        status="200 OK" if whole else "206 Partial Content")


@pytest.mark.parametrize("coding", CODINGS)
def test_conditions_of_clients_reach_a_server_behind_the_gateway(sluice, coding):
    with Upstream(Versions()) as back:
        server = sluice(gateway(back.url, more='[compression]\ncodings = ["zstd", "br", "gzip"]\n'))
        accepts = f"Accept-Encoding: {coding}"
        with server.connect() as client:
            plain, packed = client.get("/a"), client.get("/a", accepts)
            assert plain.get("etag") == '"v1"' and packed.get("etag") == f'"v1;{coding}"'
            assert decode(coding, packed.body) == TEXT
            for known, fields in [(packed, (accepts,)), (plain, (accepts,)), (plain, ())]:
                answer = client.get("/a", f'If-None-Match: "x", {known.get("etag")}', *fields)
                assert (answer.status, answer.get("etag")) == (304, known.get("etag"))
            # A client that no longer takes the coding gets the bytes that it takes.
            answer = client.get("/a", f"If-None-Match: {packed.get('etag')}")
            assert (answer.status, answer.body, answer.get("etag")) == (200, TEXT, '"v1"')
            # A range is a part of the uncompressed bytes.
            part = client.get("/a", "Range: bytes=0-1999", f"If-Range: {plain.get('etag')}", accepts)
            assert (part.status, part.body, part.get("etag")) == (206, TEXT[:2000], '"v1"')
            assert client.get("/a", "Range: bytes=0-1999", f"If-Range: {packed.get('etag')}", accepts).status == 200
            written = client.call("PUT", "/a", b"new", f"If-Match: {packed.get('etag')}", accepts)
            assert (written.status, written.get("etag")) == (200, f'"v2;{coding}"')
            assert client.call("PUT", "/a", b"new", f"If-Match: {packed.get('etag')}").status == 412
            assert client.call("PUT", "/a", b"new", f"If-Match: {written.get('etag')}").status == 200
            assert client.get("/a", f"If-None-Match: {written.get('etag')}", accepts).status == 200
