"""[[files]] as clients see it: curl, and a raw socket where the client must be strict or slow."""
import email
import gzip
import json
import os
import socket
import subprocess
import time

import pytest

from http1 import Broken


def curl(server, target, *options):
    """(status, fields by lower-case name, body)"""
    run = subprocess.run(["curl", "-sS", "--max-time", "30", "-D", "-", "--path-as-is", *options,
                          f"http://127.0.0.1:{server.port}{target}"], capture_output=True, check=True)
    head, body = run.stdout.split(b"\r\n\r\n", 1)
    lines = head.decode("latin-1").split("\r\n")
    return int(lines[0].split()[1]), {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}, body


@pytest.fixture
def serve(sluice, site):
    def start(options="", root=site):
        return sluice(f'[[files]]\npath = "/"\nroot = "{root}"\n{options}\n')
    return start


BIG = bytes(range(256)) * 40_000  # the site fixture's big.bin


def test_one_range(serve):
    server = serve()
    status, fields, body = curl(server, "/big.bin", "-r", "1000-1999")
    assert (status, fields["content-range"], fields["content-length"]) == (206, f"bytes 1000-1999/{len(BIG)}", "1000")
    assert body == BIG[1000:2000]
    assert curl(server, "/big.bin", "-r", "-10")[2] == BIG[-10:]
    assert curl(server, "/big.bin", "-r", "10239000-")[2] == BIG[10_239_000:]
    assert curl(server, "/hello.txt", "-r", "7-11")[2] == b"world"
    status, fields, body = curl(server, "/hello.txt", "-r", "100-")
    assert (status, fields["content-range"]) == (416, "bytes */14")
    assert json.loads(body)["status"] == 416
    status, fields, body = curl(server, "/big.bin")
    assert (status, fields["accept-ranges"], body) == (200, "bytes", BIG)


def test_a_download_goes_on_where_it_ended(serve, tmp_path):
    server = serve()
    half = tmp_path / "half"
    half.write_bytes(BIG[:5_000_000])
    subprocess.run(["curl", "-sS", "-C", "-", "-o", str(half), f"http://127.0.0.1:{server.port}/big.bin"], check=True)
    assert half.read_bytes() == BIG


def parts_of(fields, body):
    message = email.message_from_bytes(b"Content-Type: " + fields["content-type"].encode() + b"\r\n\r\n" + body)
    assert message.get_content_type() == "multipart/byteranges" and message.is_multipart()
    return [(part["Content-Range"], part.get_payload(decode=True)) for part in message.get_payload()]


def test_several_ranges(serve, site):
    text = b"".join(b"%07d\n" % n for n in range(100_000))
    (site / "lines.txt").write_bytes(text)
    server = serve()
    status, fields, body = curl(server, "/lines.txt", "-r", "0-7,400000-599999,-8")
    assert status == 206 and "content-range" not in fields
    size = len(text)
    assert parts_of(fields, body) == [(f"bytes 0-7/{size}", text[:8]),
                                      (f"bytes 400000-599999/{size}", text[400_000:600_000]),
                                      (f"bytes {size - 8}-{size - 1}/{size}", text[-8:])]
    status, fields, body = curl(server, "/lines.txt", "-r", "0-7,8-15,0-")
    assert (status, fields["content-range"], body) == (206, f"bytes 0-{size - 1}/{size}", text)
    many = ",".join(f"{n * 1000}-{n * 1000}" for n in range(500))
    status, fields, body = curl(server, "/lines.txt", "-r", many)
    assert (status, body) == (200, text)
    overlapping = ",".join(["0-"] * 30)
    assert curl(server, "/lines.txt", "-r", overlapping)[2] == text
    with server.connect() as connection:  # the connection stays usable after a multipart answer
        for _ in range(3):
            answer = connection.get("/lines.txt", "Range: bytes=0-7,100000-100007")
            assert answer.status == 206 and text[100_000:100_008] in answer.body
            assert connection.get("/lines.txt", "Range: bytes=0-7,100000-100007", method="HEAD").status == 200


def test_conditions(serve):
    server = serve('cache_control = "max-age=60"')
    status, fields, _ = curl(server, "/hello.txt")
    assert status == 200
    tag, date = fields["etag"], fields["last-modified"]
    for field in (f"If-None-Match: {tag}", f"If-None-Match: W/{tag}", "If-None-Match: *", f"If-Modified-Since: {date}"):
        status, fields, body = curl(server, "/hello.txt", "-H", field)
        assert (status, body) == (304, b""), field
        assert (fields["etag"], fields["cache-control"]) == (tag, "max-age=60")
        assert not {"content-type", "content-length", "last-modified"} & fields.keys()
    for field, wanted in ((f"If-Match: {tag}", 200), (f"If-Match: W/{tag}", 412), ('If-Match: "x"', 412),
                          (f"If-Unmodified-Since: {date}", 200),
                          ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT", 412),
                          ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", 200),
                          (f"If-Match: {tag}, *", 400), (f"If-None-Match: *, {tag}", 400)):
        assert curl(server, "/hello.txt", "-H", field)[0] == wanted, field
    for validator, wanted in ((tag, 206), ('"x"', 200), (f"W/{tag}", 200)):
        assert curl(server, "/hello.txt", "-r", "0-4", "-H", f"If-Range: {validator}")[0] == wanted
    assert curl(server, "/hello.txt", "-z", date)[0] == 304


def test_precompressed(serve, site):
    page = b"<p>" + b"word " * 50_000
    (site / "page.html").write_bytes(page)
    (site / "page.html.gz").write_bytes(gzip.compress(page))
    (site / "page.html.br").write_bytes(b"not really brotli")
    os.utime(site / "page.html", (1_700_000_000, 1_700_000_000))
    server = serve("precompressed = true")
    status, fields, body = curl(server, "/page.html", "--compressed", "-H", "Accept-Encoding: gzip")
    assert (status, body, fields["content-encoding"], fields["vary"]) == (200, page, "gzip", "Accept-Encoding")
    assert fields["content-type"] == "text/html; charset=utf-8"
    plain = curl(server, "/page.html")
    assert plain[2] == page and "content-encoding" not in plain[1] and plain[1]["vary"] == "Accept-Encoding"
    assert plain[1]["etag"] != fields["etag"]
    coded = server.get("/page.html", "Accept-Encoding: gzip;q=0.5, br")
    assert (coded.get("content-encoding"), coded.body) == ("br", b"not really brotli")
    assert coded.get("etag") not in (fields["etag"], plain[1]["etag"])
    os.utime(site / "page.html.br", (1_600_000_000, 1_600_000_000))
    time.sleep(1.1)
    assert server.get("/page.html", "Accept-Encoding: gzip;q=0.5, br").get("content-encoding") == "gzip"


def test_a_single_page_app(serve, site):
    (site / "index.html").write_bytes(b"<p>app</p>")
    server = serve('fallback = "index.html"')
    page = ("-H", "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
    status, fields, body = curl(server, "/users/5?tab=1", *page)
    assert (status, body, fields["content-type"]) == (200, b"<p>app</p>", "text/html; charset=utf-8")
    assert curl(server, "/users/5")[0] == 200
    assert curl(server, "/users%2F5", *page)[0] == 200
    assert curl(server, "/users/5", "-H", "Accept: application/json")[0] == 404
    assert curl(server, "/missing.js")[0] == 404
    assert curl(server, "/hello.txt", *page)[2] == b"Hello, world.\n"
    assert curl(server, "/users/5", *page, "-X", "POST")[0] == 405


def test_the_page_of_a_single_page_app_does_not_answer_for_apis(sluice, site, small_sqlite):
    (site / "index.html").write_bytes(b"<p>app</p>")
    server = sluice(f"""
        [database.small]
        url = "sqlite:{small_sqlite}"
        [[endpoint]]
        path = "/api/numbers/{{id:int}}"
        get = "SELECT :id AS id"
        [[resident]]
        name = "digits"
        query = "SELECT 1 AS id"
        key = "id"
        [[route]]
        path = "/old"
        respond = {{status = 204}}
        [[files]]
        path = "/"
        root = "{site}"
        fallback = "index.html"
    """)
    page = ("-H", "Accept: text/html,*/*;q=0.8")
    for target in ("/api/none", "/api/numbers/x/y", "/digits/1/x", "/old/x"):
        status, fields, _ = curl(server, target)
        assert (status, fields["content-type"]) == (404, "application/problem+json"), target
    assert curl(server, "/api/numbers/1/x", *page)[0] == 404
    for target in ("/", "/api/films", "/users/5"):
        assert curl(server, target, *page)[0] == 200, target
    assert curl(server, "/users/5")[0] == 200


def test_a_file_with_the_same_content_has_the_same_tag(serve, site):
    server = serve()
    _, fields, _ = curl(server, "/hello.txt")
    (site / "again.txt").write_bytes((site / "hello.txt").read_bytes())
    os.utime(site / "again.txt", (1, 1))
    _, again, _ = curl(server, "/again.txt")
    assert again["etag"] == fields["etag"] and "last-modified" in fields and "last-modified" not in again


def test_listings(serve, site):
    (site / "docs").mkdir()
    (site / "docs/a&b <1>.txt").write_bytes(b"123")
    (site / "docs/\u00fc").mkdir()
    (site / ".secret").write_bytes(b"")
    server = serve("listing = true")
    status, fields, body = curl(server, "/docs/")
    assert (status, fields["content-type"], fields["vary"]) == (200, "text/html; charset=utf-8", "Accept")
    assert b'<a href="a%26b%20%3C1%3E.txt">a&amp;b &lt;1&gt;.txt</a>' in body
    status, fields, body = curl(server, "/docs/", "-H", "Accept: application/json")
    listing = json.loads(body)
    assert listing["path"] == "/docs/" and listing["complete"]
    assert [(one["name"], one["href"], one["type"]) for one in listing["entries"]] == [
        ("\u00fc", "%C3%BC/", "folder"), ("a&b <1>.txt", "a%26b%20%3C1%3E.txt", "file")]
    for one in listing["entries"]:
        assert curl(server, "/docs/" + one["href"])[0] == 200
    assert b".secret" not in curl(server, "/")[2]
    assert curl(server, "/docs/", "-H", "Accept: application/json", "-H", f"If-None-Match: {fields['etag']}")[0] == 304


def test_folders(serve, site):
    (site / "docs").mkdir()
    (site / "\u00fc d").mkdir()
    server = serve()
    assert curl(server, "/docs/")[0] == 404
    for target, location in (("/docs", "/docs/"), ("/docs?a=b&c", "/docs/?a=b&c"), ("/%C3%BC%20d", "/%C3%BC%20d/"),
                             ("//docs", "/docs/"), ("/x/../docs", "/docs/")):
        status, fields, _ = curl(server, target)
        assert (status, fields["location"]) == (301, location), target


def test_the_path_of_the_files_leads_to_its_folder(sluice, site):
    server = sluice(f'''
[[files]]
path = "/"
root = "{site}"
[[files]]
path = "/f"
root = "{site}"
''')
    for target, location in (("/f", "/f/"), ("/f?a=b", "/f/?a=b"), ("/%66", "/f/")):
        for options in ((), ("--http2-prior-knowledge",)):
            status, fields, _ = curl(server, target, *options)
            assert (status, fields["location"]) == (301, location), target
        head = server.get(target, method="HEAD")
        assert (head.status, head.get("location")) == (301, location), target
    assert curl(server, "/f", "-X", "POST")[0] == 405
    assert curl(server, "/f/hello.txt")[2] == b"Hello, world.\n"
    assert curl(server, "/ff")[0] == 404


def test_methods(serve):
    server = serve()
    assert curl(server, "/hello.txt", "-X", "TRACE")[0] == 405
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        status, fields, _ = curl(server, "/hello.txt", "-X", method)
        assert (status, fields["allow"]) == (405, "GET, HEAD, OPTIONS")
    status, fields, body = curl(server, "/hello.txt", "-X", "OPTIONS")
    assert (status, fields["allow"], body) == (204, "GET, HEAD, OPTIONS", b"")
    get, head = curl(server, "/big.bin")[1], dict(server.get("/big.bin", method="HEAD").fields)
    assert {**get, "date": ""} == {**head, "date": ""}


def test_names_are_utf8(serve, site):
    (site / "\u00fc \u20ac.txt").write_bytes(b"name")
    (site / "100%.txt").write_bytes(b"percent")
    server = serve()
    assert curl(server, "/%C3%BC%20%E2%82%AC.txt")[2] == b"name"
    assert curl(server, "/100%25.txt")[2] == b"percent"


def test_nothing_outside_the_root_can_be_had(serve, site, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    (site / "sub").mkdir()
    (site / "relative").symlink_to("../secret")
    (site / "absolute").symlink_to(tmp_path / "secret")
    (site / "folder").symlink_to(tmp_path)
    (site / "sub/up").symlink_to("..")
    (site / "self").symlink_to("self")
    os.mkfifo(site / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(site / "socket"))
        server = serve("listing = true")
        for target in ("/../secret", "/%2e%2e/secret", "/..%2fsecret", "/%2e%2e%2fsecret", "/sub/../../secret",
                       "/sub/..%2f..%2fsecret", "/..%5csecret", "/relative", "/absolute", "/folder/secret", "/folder/",
                       "/sub/up/../secret", "/hello.txt%00", "/%00", "/self", "/self/x", "/fifo", "/socket",
                       "/hello.txt/", "/hello.txt/x", "/" + "x" * 300, "//etc/passwd", "/proc/self/root/etc/passwd"):
            status, _, body = curl(server, target)
            climbs = target in ("/../secret", "/%2e%2e/secret", "/sub/../../secret")
            assert status == (400 if climbs or "%00" in target else 404), target
            assert b"secret" not in body, target
        assert curl(server, "/sub/up/hello.txt")[2] == b"Hello, world.\n"  # a link that stays inside
        listed = {one["name"] for one in json.loads(curl(server, "/", "-H", "Accept: application/json")[2])["entries"]}
        assert listed == {"big.bin", "hello.txt", "sub"}


def test_names_that_begin_with_a_dot(serve, site):
    for name in (".env", ".git/config", "a/.htpasswd", ".well-known/security.txt", "a/.well-known/x", ".well-known/.x"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("text")
    (site / "app.html").write_text("app")
    server = serve('listing = true\nfallback = "app.html"')
    assert curl(server, "/.well-known/security.txt")[2] == b"text"
    for hidden in ("/.env", "/%2Eenv", "/.git/config", "/.git/", "/.git", "/a/.htpasswd", "/a/.well-known/x", "/.well-known/.x",
                   "//.env", "/a/../.env", "/.", "/.well-known-not"):
        status, _, body = curl(server, hidden, "-H", "Accept: text/plain")
        assert status == (200 if hidden == "/." else 404) and body != b"text", hidden
    assert curl(server, "/.env", "-H", "Accept: text/html")[2] == b"app", "as for any file that does not exist"
    assert curl(server, "/.env")[0] == 404
    shown = serve("dotfiles = true")
    for name in ("/.env", "/.git/config", "/a/.htpasswd", "/.well-known/.x"):
        assert curl(shown, name)[2] == b"text"


def test_devices_are_not_served(serve):
    server = serve(root="/dev")
    for target in ("/zero", "/null", "/tty", "/random"):
        assert curl(server, target)[0] == 404, target


def test_a_file_that_shrinks_cuts_the_answer(serve, site):
    (site / "huge.bin").write_bytes(bytes(64 << 20))
    server = serve()
    with server.connect() as connection:
        connection.send("GET /huge.bin HTTP/1.1\r\nHost: test\r\n\r\n")
        connection.sip = 1000
        connection._more()
        os.truncate(site / "huge.bin", 1000)
        connection.sip = 1 << 20
        with pytest.raises(Broken):
            connection.read()
    with server.connect() as connection:
        time.sleep(1.1)
        assert len(connection.get("/huge.bin").body) == 1000


def test_a_file_that_is_replaced_is_sent_as_it_was(serve, site):
    (site / "huge.bin").write_bytes(b"old!" * (16 << 20))
    server = serve()
    with server.connect() as connection:
        connection.send("GET /huge.bin HTTP/1.1\r\nHost: test\r\n\r\n")
        connection.sip = 1000
        connection._more()
        (site / "new").write_bytes(b"new")
        os.rename(site / "new", site / "huge.bin")
        connection.sip = 1 << 20
        assert connection.read().body == b"old!" * (16 << 20)
        time.sleep(1.1)
        assert connection.get("/huge.bin").body == b"new"


def test_the_cache_is_counted(serve):
    server = serve("cache_files = 1")
    with server.connect() as connection:
        for _ in range(10):
            connection.get("/hello.txt")
        connection.get("/big.bin")

    def metric(name):
        lines = server.admin("/metrics")[1].splitlines()
        return float(next(line for line in lines if line.startswith(name + " ")).split()[1])
    assert metric("sluice_files_cache_hits_total") + metric("sluice_files_cache_misses_total") == 11
    assert metric("sluice_files_cache_misses_total") >= 2
    assert metric("sluice_files_cache_files") == 1
    assert metric("sluice_files_cache_bytes") == 0  # the large one has displaced the small one


def test_many_files_that_were_never_asked_for(serve, site):
    (site / "many").mkdir()
    for n in range(3000):
        (site / f"many/{n}").write_bytes(b"%d" % n * 10)
    server = serve("cache_files = 100\ncache_memory = 1000")
    with server.connect() as connection:
        for begin in range(0, 3000, 100):  # pipelined
            connection.send("".join(f"GET /many/{n} HTTP/1.1\r\nHost: test\r\n\r\n" for n in range(begin, begin + 100)))
            for n in range(begin, begin + 100):
                assert connection.read().body == b"%d" % n * 10
