"""HTTP/2 with real clients, its conformance by h2spec, and the defence against floods."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time

import pytest

from certificates import tls_table
from http2 import (CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING, PREFACE, PRIORITY,
                   RST_STREAM, SETTINGS, WINDOW_UPDATE, Client, Raw, frame, header_block)
from skips import skip, skip_unfetched

ROOT = pathlib.Path(__file__).resolve().parents[2]
HELLO = b"Hello, world.\n"
BIG = bytes(range(256)) * 40_000


@pytest.fixture
def config(site, small_sqlite):
    return f'''
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/numbers"
get = "SELECT n, text FROM numbers ORDER BY n"
[[endpoint]]
path = "/numbers/{{n:int}}"
returns = "object"
get = "SELECT n, text FROM numbers WHERE n = :n"
[[endpoint]]
path = "/endless"
get = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"
[[endpoint]]
path = "/many"
get = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 50000) SELECT n FROM c"
[[files]]
path = "/"
root = "{site}"
'''


@pytest.fixture
def server(sluice, config):
    return sluice(config)


def run(*command, seconds=60):
    return subprocess.run([str(part) for part in command], capture_output=True, timeout=seconds)


def tool(name):
    path = shutil.which(name)
    assert path, f"{name} is missing: scripts/bootstrap test"
    return path


# ---- Clients ----

def test_curl(server, tmp_path):
    url = f"http://127.0.0.1:{server.port}"
    got = run("curl", "-sS", "--http2-prior-knowledge", "-w", "%{stderr}%{http_version} %{http_code}", f"{url}/hello.txt")
    assert (got.stdout, got.stderr) == (HELLO, b"2 200")
    got = run("curl", "-sS", "--http2-prior-knowledge", f"{url}/big.bin")
    assert got.stdout == BIG
    got = run("curl", "-sS", "--http2-prior-knowledge", "-I", f"{url}/big.bin")
    assert f"content-length: {len(BIG)}".encode() in got.stdout and b"HTTP/2 200" in got.stdout
    got = run("curl", "-sS", "--http2-prior-knowledge", f"{url}/numbers/7")
    assert json.loads(got.stdout) == {"n": 7, "text": "number 7"}
    got = run("curl", "-sS", "--http2-prior-knowledge", "-w", "%{stderr}%{http_code}", f"{url}/nothing")
    assert got.stderr == b"404" and json.loads(got.stdout)["status"] == 404
    # The answer comes although no handler reads the body.
    upload = tmp_path / "upload"
    upload.write_bytes(b"x" * 500_000)
    got = run("curl", "-sS", "--http2-prior-knowledge", "-w", "%{stderr}%{http_code}", "--data-binary", f"@{upload}",
              f"{url}/hello.txt")
    assert got.stderr.endswith(b"405")


def test_nghttp(server):
    got = run(tool("nghttp"), "-nv", "-m", "20", f"http://127.0.0.1:{server.port}/numbers")
    text = got.stdout.decode(errors="replace")
    assert got.returncode == 0 and text.count(":status: 200") == 20, text[-2000:]
    got = run(tool("nghttp"), f"http://127.0.0.1:{server.port}/big.bin", "-w", "16", "-W", "16")
    assert got.stdout == BIG
    got = run(tool("nghttp"), "-u", f"http://127.0.0.1:{server.port}/hello.txt")
    assert got.returncode == 0


def test_h2load(server):
    got = run(tool("h2load"), "-n", "5000", "-c", "20", "-m", "32", f"http://127.0.0.1:{server.port}/hello.txt",
              f"http://127.0.0.1:{server.port}/numbers/3")
    text = got.stdout.decode()
    assert "5000 succeeded, 0 failed, 0 errored" in text and "5000 2xx" in text, text


def test_tls_clients_get_http2_by_alpn(sluice, config, authority, localhost):
    server = sluice(config, server=tls_table(localhost))
    url = f"https://localhost:{server.port}"
    curl = ["curl", "-sS", "--cacert", authority.ca, "-w", "%{stderr}%{http_version} %{http_code}"]
    got = run(*curl, f"{url}/hello.txt")
    assert (got.stdout, got.stderr) == (HELLO, b"2 200")
    got = run(*curl, "--http1.1", f"{url}/hello.txt")
    assert (got.stdout, got.stderr) == (HELLO, b"1.1 200")
    got = run(*curl, "--no-alpn", f"{url}/hello.txt")
    assert (got.stdout, got.stderr) == (HELLO, b"1.1 200")
    assert run(*curl, f"{url}/big.bin").stdout == BIG
    assert len(json.loads(run(*curl, f"{url}/many").stdout)) == 50_000
    got = run(tool("nghttp"), "-nv", "-m", "20", f"https://127.0.0.1:{server.port}/numbers")
    text = got.stdout.decode(errors="replace")
    assert "The negotiated protocol: h2" in text and text.count(":status: 200") == 20, text[-2000:]
    got = run(tool("h2load"), "-n", "5000", "-c", "20", "-m", "32", f"https://127.0.0.1:{server.port}/hello.txt",
              f"https://127.0.0.1:{server.port}/numbers/3")
    text = got.stdout.decode()
    assert "5000 succeeded, 0 failed, 0 errored" in text and "Application protocol: h2" in text, text
    # Prior knowledge is for connections without TLS: without ALPN, a TLS connection speaks HTTP/1.1.
    got = run(*curl, "--no-alpn", "--http2-prior-knowledge", f"{url}/hello.txt")
    assert got.returncode != 0


def test_only_http2_over_tls(sluice, config, authority, localhost):
    server = sluice(config, server="http1 = false\n" + tls_table(localhost))
    url = f"https://localhost:{server.port}/hello.txt"
    got = run("curl", "-sS", "--cacert", authority.ca, "-w", "%{stderr}%{http_version}", url)
    assert (got.stdout, got.stderr) == (HELLO, b"2")
    assert run("curl", "-sS", "--cacert", authority.ca, "--http1.1", url).returncode != 0


def test_limits_are_those_of_http1(sluice, config):
    server = sluice(config, server='target_limit = "100"\nfield_limit = 8')
    with Client(server.port) as client:
        assert client.get("/hello.txt?" + "x" * 80).status == 200
        assert client.get("/hello.txt?" + "x" * 100).status == 414
        stream = client.request("/hello.txt", fields=[("a", "b")] * 9)
        assert client.wait(stream)[0].status == 431


def test_a_client_that_expects_to_continue_is_told_so(sluice, small_sqlite):
    server = sluice(f'''
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/numbers"
post = "INSERT INTO numbers (n, text) VALUES (:n, :text) RETURNING n"
require = "ne(query.no, 1)"
''')
    fields = [("content-type", "application/json"), ("expect", "100-continue")]
    with Client(server.port) as client:
        stream = client.request("/numbers", "POST", fields, ends=False)
        while not client.answers[stream].interim:
            assert client.hear()
        client.send(stream, b'{"n": 7000, "text": "x"}')
        answer = client.wait(stream)[0]
        assert (answer.interim, answer.status) == ([100], 201), answer.body
        refused = client.wait(client.request("/numbers?no=1", "POST", fields, ends=False))[0]
        assert (refused.interim, refused.status) == ([], 403)


def test_active_requests_are_counted(server):
    with Client(server.port, opens_windows=False) as client:
        streams = [client.request("/endless") for _ in range(3)]
        client.hear()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            metrics = server.admin("/metrics")[1]
            counts = re.findall(r'^http_server_active_requests\{.*GET.*\} (\d+)', metrics, re.M)
            if counts and counts[0] == "3":
                break
        assert counts and counts[0] == "3", metrics
        for stream in streams:
            client.connection.reset_stream(stream)
        client.flush()
        while time.monotonic() < deadline:
            metrics = server.admin("/metrics")[1]
            if not re.search(r"^http_server_active_requests\{.*GET.*\} [1-9]", metrics, re.M):
                return
        assert False, metrics


def test_both_versions_share_the_port(server):
    with Client(server.port) as client, server.connect() as plain:
        assert client.get("/hello.txt").body == plain.get("/hello.txt").body == HELLO


def test_rows_are_streamed_and_counted_in_the_trailer(server):
    with Client(server.port) as client:
        streams = [client.request("/many"), client.request("/many"), client.request("/many", fields=[("te", "trailers")])]
        *_, last = answers = client.wait(*streams)
        for answer in answers:
            assert answer.status == 200 and answer.ended
            assert answer.trailers == ({"row-count": "50000"} if answer is last else {})
            assert "content-length" not in answer.fields
            assert len(json.loads(answer.body)) == 50_000
            assert answer.fields["content-type"] == "application/json"


def test_answers_do_not_wait_for_each_other(server):
    with Client(server.port, opens_windows=False) as client:
        client.request("/endless")
        client.request("/big.bin")
        # The connection's window stalls the bodies; an answer without a body still comes.
        head = client.request("/big.bin", method="HEAD")
        assert client.wait(head)[0].status == 200


def test_refusals_are_problems(server):
    with Client(server.port) as client:
        for path, fields, status in (("/nothing", (), 404), ("/../x", (), 400), ("/%00", (), 400), ("/" + "x" * 9000, (), 414),
                                     ("/hello.txt", (("x", "y" * 20_000),), 431), ("/hello.txt", (("a", "b"),) * 129, 431),
                                     ("/hello.txt", (("cookie", "b"),) * 129, 431)):
            answer = client.get(path, fields=fields)
            assert answer.status == status, path[:20]
            assert answer.fields["content-type"] == "application/problem+json"
            assert json.loads(answer.body)["status"] == status
        answer = client.get("/hello.txt", method="POST", fields=(("content-length", "2000000"),), body=b"")
        assert answer.reset == 1  # the body does not have the length that it announced
        assert client.get("/hello.txt").body == HELLO


def test_cancelling_leaves_nothing_behind(server):
    with Client(server.port) as client:
        for _ in range(150):
            stream = client.request("/endless")
            client.hear()
            client.connection.reset_stream(stream)
            client.flush()
        assert client.get("/numbers/5").status == 200
    metrics = server.admin("/metrics")[1]
    broken = sum(float(value) for value in re.findall(r"^sluice_responses_broken_total\S* (\S+)$", metrics, re.M))
    assert broken == 150
    assert re.search(r'^http_server_request_duration_seconds_count\{[^}]*route="/numbers/\{n:int\}"[^}]*\} 1$', metrics, re.M)


def test_options(sluice, config):
    server = sluice(config, server="http2 = false")
    with Raw(server.port) as raw:
        raw.send(PREFACE)
        assert raw.socket.recv(100).startswith(b"HTTP/1.1 4")
    server = sluice(config, server="http1 = false\nhttp2_streams = 2")
    with server.connect() as plain:
        plain.send("GET /hello.txt HTTP/1.1\r\nHost: test\r\n\r\n")
        assert b"HTTP/1.1" not in plain.rest()
    with Client(server.port) as client:
        assert client.get("/hello.txt").body == HELLO
        assert client.connection.remote_settings.max_concurrent_streams == 2


# ---- Ends ----

def test_sigterm_lets_streams_finish(server):
    with Raw(server.port) as raw:
        raw.send(PREFACE + frame(SETTINGS) + frame(HEADERS, END_STREAM | END_HEADERS, 1, header_block("/big.bin")))
        body, goaways, ended = b"", [], False
        for kind, flags, stream, payload in raw.all_frames():
            if kind == DATA:
                body += payload
                ended = bool(flags & END_STREAM)
                if len(body) == 65_535:  # the window is used up
                    server.terminate()
            elif kind == PING:
                raw.send(frame(PING, 1, 0, payload))
            elif kind == GOAWAY:
                goaways.append((int.from_bytes(payload[:4], "big"), int.from_bytes(payload[4:8], "big")))
                if len(goaways) == 2:
                    for which in (0, 1):
                        raw.send(frame(WINDOW_UPDATE, 0, which, (1 << 30).to_bytes(4, "big")))
        assert body == BIG and ended
        assert goaways == [(0x7FFFFFFF, 0), (1, 0)]
    server.stop()


def test_sigterm_under_load_fails_nothing(server):
    failed, done = [], []

    def load():
        while True:
            try:
                raw = Raw(server.port)
            except OSError:
                return
            with raw:
                raw.send(PREFACE + frame(SETTINGS))
                asked, answered, last, stream = set(), set(), None, -1
                def ask():
                    nonlocal stream
                    stream += 2
                    asked.add(stream)
                    raw.send(frame(HEADERS, END_STREAM | END_HEADERS, stream, header_block(f"/numbers/{stream % 1000}")))
                try:
                    for _ in range(10):
                        ask()
                    for kind, flags, of_stream, payload in raw.all_frames():
                        if kind == PING and not flags & 1:
                            raw.send(frame(PING, 1, 0, payload))
                        elif kind == GOAWAY:
                            last = int.from_bytes(payload[:4], "big")
                        elif kind in (HEADERS, DATA) and flags & END_STREAM:
                            answered.add(of_stream)
                            if last is None and len(asked) < 1000:
                                ask()
                        if last is None and len(answered) == 1000:
                            break
                except OSError:
                    pass
                # The server must answer every stream up to the last GOAWAY's; clients may repeat the rest elsewhere.
                (failed if {each for each in asked if last is not None and each <= last} - answered else done).append(asked)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    server.terminate()
    for thread in threads:
        thread.join(60)
    assert done and not failed
    server.stop()


def test_time_limits(sluice, config):
    server = sluice(config, server='idle_timeout = "400ms"\nheader_timeout = "300ms"\nwrite_timeout = "500ms"')
    with Raw(server.port) as raw:  # sends nothing after the preface
        raw.send(PREFACE + frame(SETTINGS))
        start = time.monotonic()
        assert raw.goaway() == 0
        assert 0.2 < time.monotonic() - start < 10
    with Raw(server.port) as raw:  # a header block without an end
        raw.send(PREFACE + frame(SETTINGS) + frame(HEADERS, END_STREAM, 1, header_block("/")))
        assert raw.goaway() == ENHANCE_YOUR_CALM
    with Client(server.port, opens_windows=False) as client:
        stream = client.request("/big.bin")
        assert client.wait(stream)[0].reset == 8
    with Raw(server.port) as raw:  # opens the windows, and reads nothing
        raw.send(PREFACE + frame(SETTINGS, payload=b"\x00\x04\x7f\xff\xff\xff") +
                 frame(WINDOW_UPDATE, 0, 0, (1 << 30).to_bytes(4, "big")) +
                 frame(HEADERS, END_STREAM | END_HEADERS, 1, header_block("/endless")))
        time.sleep(3)
        received = 0
        try:
            while data := raw.socket.recv(1 << 20):
                received += len(data)
                assert received < 50_000_000
        except ConnectionError:
            pass


# ---- Conformance ----

# h2spec does not pin its dependencies, and the newest ones need a newer Go than Debian's.
H2SPEC = ("github.com/summerwind/h2spec@v2.2.1+incompatible", "github.com/spf13/cobra@v1.7.0", "github.com/fatih/color@v1.15.0",
          "golang.org/x/net@v0.17.0")


@pytest.fixture(scope="session")
def h2spec(tmp_path_factory):
    """The h2spec program, built once into .cache/."""
    program = ROOT / ".cache/bin/h2spec"
    if not program.exists():
        if not shutil.which("go"):
            skip("go", "h2spec needs Go to be built")
        module = tmp_path_factory.mktemp("h2spec")
        (module / "go.mod").write_text("module build\n\ngo 1.19\n")
        for command in (["go", "get", *H2SPEC], ["go", "build", "-mod=mod", "-o", str(program), f"{H2SPEC[0].split('@')[0]}/cmd/h2spec"]):
            built = subprocess.run(command, cwd=module, capture_output=True, text=True, timeout=500)
            if built.returncode != 0:
                skip_unfetched("h2spec", built.stdout + built.stderr)
    return program


def test_h2spec(sluice, config, h2spec):
    # If the port also speaks HTTP/1.1, a wrong preface is a bad HTTP/1.1 request and gets a 400.
    server = sluice(config, server="http1 = false")
    for strict in ([], ["-S"]):
        passes_whole(h2spec, server, *strict)


def test_h2spec_over_tls(sluice, config, localhost, h2spec):
    passes_whole(h2spec, sluice(config, server=tls_table(localhost)), "-t", "-k")


def passes_whole(h2spec, server, *options):
    got = run(h2spec, "-h", "127.0.0.1", "-p", server.port, "-P", "/hello.txt", "-o", "5", *options, seconds=300)
    text = got.stdout.decode()
    summary = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", text)
    assert summary and got.returncode == 0, text[-6000:]
    tests, passed, skipped, failed = map(int, summary.groups())
    assert tests >= 145 and passed == tests and skipped == failed == 0, text[-6000:]


# ---- Floods ----

def one(bytes_of):
    return lambda count: bytes_of * count


def resets(count, first=[1]):
    start, first[0] = first[0], first[0] + 2 * count
    return b"".join(frame(HEADERS, END_STREAM | END_HEADERS, stream, header_block("/endless")) +
                    frame(RST_STREAM, 0, stream, (8).to_bytes(4, "big")) for stream in range(start, start + 2 * count, 2))


def made_resets(count, first=[1]):
    start, first[0] = first[0], first[0] + 2 * count
    return b"".join(frame(HEADERS, END_STREAM | END_HEADERS, stream, header_block("/endless")) +
                    frame(WINDOW_UPDATE, 0, stream, (0x7FFFFFFF).to_bytes(4, "big"))
                    for stream in range(start, start + 2 * count, 2))


FLOODS = {
    "rapid reset": (b"", resets),
    "made you reset": (b"", made_resets),
    "continuation": (frame(HEADERS, END_STREAM, 1, header_block("/")), one(frame(CONTINUATION, 0, 1, b"\x00\x01x\x01y" * 2000))),
    "empty continuation": (frame(HEADERS, END_STREAM, 1, header_block("/")), one(frame(CONTINUATION, 0, 1))),
    "hpack bomb": (frame(HEADERS, END_STREAM | END_HEADERS, 1,
                         header_block("/") + b"\x40\x01x\x7f\x81\x1e" + b"v" * 3968),
                   one(frame(HEADERS, END_STREAM | END_HEADERS, 3, header_block("/") + b"\xbe" * 16_000))),
    "cookies": (b"", one(frame(HEADERS, END_STREAM | END_HEADERS, 1, header_block("/") + b"\xa0" * 16_000))),
    "ping": (b"", one(frame(PING, 0, 0, b"12345678"))),
    "settings": (b"", one(frame(SETTINGS))),
    "priority": (b"", one(frame(PRIORITY, 0, 3, b"\x00\x00\x00\x05\x10"))),
    "unknown": (b"", one(frame(0xF0, 0, 0, b""))),
    "window update": (b"", one(frame(WINDOW_UPDATE, 0, 0, b"\x00\x00\x00\x01"))),
    "empty data": (frame(HEADERS, END_HEADERS, 1, header_block("/hello.txt", b"\x83")), one(frame(DATA, 0, 1))),
}


def rss_kib(server):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text()).group(1))


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_the_connection(sluice, config, name):
    server = sluice(config, server="cores = 1")
    with Client(server.port) as client:
        assert client.get("/hello.txt").body == HELLO
    before = rss_kib(server)
    opening, more = FLOODS[name]
    for listens in (True, False):
        with Raw(server.port) as raw:
            raw.send(PREFACE + frame(SETTINGS) + opening)
            code, end = None, time.monotonic() + 60
            try:
                # Bounded by time, because on a busy machine the kernel buffers many megabytes before the server reads anything.
                while code is None:
                    assert time.monotonic() < end, "the server endures it"
                    raw.send(more(200))
                    if listens:
                        code = raw.look_for_goaway()
            except ConnectionError:
                pass  # the server closed while this was sending
            assert code in (None, ENHANCE_YOUR_CALM)
    assert rss_kib(server) - before < 40_000, "kB that the flood has cost"
    with Client(server.port) as client:
        assert client.get("/hello.txt").body == HELLO
