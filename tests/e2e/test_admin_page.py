"""The page of the admin listener, in headless Chromium; and which requests the listener refuses to pages of other origins.

SLUICE_SCREENSHOTS=FOLDER writes the pictures of the guide there."""
import base64
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import threading
from contextlib import closing

import pytest

import http1
from browser import Chromium, Page
from conftest import ROOT, SLUICE, until
from test_gateway import gateway
from upstream import Upstream, response
from websocket import WebSocket

TOKEN = "0123456789-abcdef"
OPEN = '[[route]]\npath = "/ok"\nrespond = 204\n[[route]]\npath = "/bad"\nrespond = 503\n'


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


class AdminPage(Page):
    """The page, and all that it has asked for and complained about."""

    def __init__(self, browser, url):
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        super().__init__(browser, target, browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        browser.events.clear()
        for domain in ("Runtime", "Log", "Network"):
            browser.ask(f"{domain}.enable", self.session)
        went = browser.ask("Page.navigate", self.session, url=url)
        assert "errorText" not in went, went

    def wait(self, condition):
        """Waits until the expression is true."""
        self.run("new Promise(done => { const look = () => { let is; try { is = " + condition + "; } catch { is = false; }"
                 " is ? done() : setTimeout(look, 10); }; look(); })")

    def rows(self, section):
        return self.run(f"[...document.querySelectorAll('#{section} tbody tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))")

    def row(self, section, text):
        """A JavaScript expression for the texts of the row that contains the text."""
        return (f"[...[...document.querySelectorAll('#{section} tbody tr')].find(row => row.innerText.includes({json.dumps(text)})).cells]"
                ".map(cell => cell.innerText.trim())")

    def click(self, text, within="body"):
        self.run(f"[...document.querySelectorAll({json.dumps(within + ' button')})].find(one => one.innerText.trim().startsWith({json.dumps(text)})"
                 " && one.offsetParent).click()")

    def complaints(self):
        self.run("0")  # what has happened is in the events by its answer
        found = []
        for event in [one for one in self.browser.events if one.get("sessionId") == self.session]:
            of = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(of["exceptionDetails"])
            if event["method"] == "Runtime.consoleAPICalled":
                found.append(of["args"])
            if event["method"] == "Log.entryAdded":
                found.append(of["entry"]["text"])
        return found

    def asked(self):
        self.run("0")
        return [event["params"]["request"]["url"] for event in self.browser.events
                if event["method"] == "Network.requestWillBeSent" and event.get("sessionId") == self.session]


@pytest.fixture
def visit(chromium):
    pages = []

    def open_page(server, host="127.0.0.1"):
        pages.append(AdminPage(chromium, f"http://{host}:{server.admin_port}/"))
        return pages[-1]
    yield open_page
    for page in pages:
        page.close()


READY = "document.getElementById('state').innerText === 'ready' && !document.getElementById('main').hidden"


def test_numbers_follow_the_requests(sluice, visit):
    server = sluice(OPEN)
    page = visit(server)
    page.wait(READY)
    assert [row[:2] for row in page.rows("routes")] == [["any", "/bad"], ["any", "/ok"]]
    with server.connect() as client:
        for _ in range(30):
            assert client.get("/ok").status == 204
        for _ in range(10):
            assert client.get("/bad").status == 503
    page.wait(page.row("routes", "/bad") + "[8] === '10'")
    page.wait(page.row("routes", "/ok") + "[8] === '30'")
    rows = {row[1]: row for row in page.rows("routes")}
    assert rows["/ok"][4:6] == ["0 %", "0 %"] and all(re.fullmatch(r"(< )?[\d.]+ m?s", text) for text in rows["/ok"][6:8])
    assert rows["/bad"][4:6] == ["0 %", "100 %"]
    assert float(rows["/ok"][2]) > 0
    assert page.run("document.querySelectorAll('#tiles dd')[1].innerText") == "25 %"
    page.click("5 min")
    assert page.run("document.querySelectorAll('#tiles dd')[1].innerText") == "25 %"
    assert page.run("document.querySelector('#databases').hidden && document.querySelector('#policies').hidden")
    assert page.run("document.querySelector('#process').innerText.includes('Open files')")
    own = f"http://127.0.0.1:{server.admin_port}/"
    assert set(page.asked()) <= {own, own + "live"} | {url for url in page.asked() if url.startswith("data:")}
    assert page.complaints() == []


def test_all_sections(sluice, small_sqlite, localhost, visit):
    with Upstream(lambda *_: response(b"back")) as back:
        server = sluice(gateway(back.url, path="/back/{rest...}", route='use = ["slow"]\n',
                                more=f'[policy.slow]\ntype = "rate-limit"\nrate = "1/h"\nburst = 1\n[database.main]\nurl = "sqlite:{small_sqlite}"\n'
                                     '[[endpoint]]\npath = "/numbers"\nget = "SELECT n, text FROM numbers"\n'))
        page = visit(server)
        page.wait(READY)
        with server.connect() as client:
            assert client.get("/numbers").status == 200
            assert [client.get("/back/a").status for _ in range(3)] == [200, 429, 429]
        page.wait(page.row("policies", "slow") + "[3] === '2'")
        assert page.rows("policies")[0][:2] == ["slow", "rate-limit"] and "refused 2" in page.rows("policies")[0][4]
        assert page.rows("databases")[0][:2] == ["main", "SQLite"]
        assert page.rows("upstreams")[0][:3] == ["back", back.name, "up"]
        assert page.complaints() == []


def test_rooms(sluice, tmp_path, visit):
    with closing(sqlite3.connect(tmp_path / "chat.db")) as database:
        database.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, room text NOT NULL, text text NOT NULL)")
    config = f"""[database.chat]
url = "sqlite:{tmp_path}/chat.db"
[[room]]
path = "/rooms/{{id}}"
[room.publish]
sql = "INSERT INTO messages (room, text) VALUES (:id, :text)"
[room.history]
query = "SELECT seq, text FROM messages WHERE room = :id AND seq > :after ORDER BY seq LIMIT 200"
changes = {{ tables = ["messages"] }}
"""
    (tmp_path / "rooms.toml").write_text(config)
    subprocess.run([SLUICE, "rooms", "sql", "--apply", "rooms.toml"], cwd=tmp_path, check=True, capture_output=True)
    server = sluice(config)
    page = visit(server)
    page.wait(READY)
    with WebSocket(server.port, "/rooms/7") as client:
        assert json.loads(client.frame().payload)["type"] == "subscribed"
        page.wait(page.row("rooms", "/rooms/{id}") + "[2] === '1'")
        assert page.rows("rooms")[0][1] == "1"
    page.wait(page.row("rooms", "/rooms/{id}") + "[2] === '0'")
    assert page.complaints() == []


def test_drain_and_enable_by_click(sluice, visit):
    with Upstream(lambda *_: response(b"a")) as a, Upstream(lambda *_: response(b"b")) as b:
        server = sluice(gateway(a.url, b.url))
        page = visit(server)
        page.wait(READY)
        page.run(f"document.querySelector('[aria-label=\"Drain {a.name} of back\"]').click()")
        page.wait(page.row("upstreams", a.name) + "[2] === 'drained'")
        with server.connect() as client:
            assert {client.get("/").body for _ in range(10)} == {b"b"}
        page.run(f"document.querySelector('[aria-label=\"Enable {a.name} of back\"]').click()")
        page.wait(page.row("upstreams", a.name) + "[2] === 'up'")
        with server.connect() as client:
            assert {client.get("/").body for _ in range(10)} == {b"a", b"b"}
        assert page.complaints() == []


def test_reload_by_click(sluice, visit):
    server = sluice(OPEN)
    page = visit(server)
    page.wait(READY)
    good = server.file.read_text()
    server.file.write_text(good + 'nonsense_key = "<img src=x onerror=alert(1)>"\n"<img src=x onerror=alert(2)>" = 1\n')
    page.click("Reload", "header")
    page.wait("document.getElementById('notice').innerText.includes('nonsense_key')")
    page.wait("document.getElementById('reload-error').innerText.includes('nonsense_key')")
    page.wait("document.getElementById('lines').innerText.includes('the configuration is not read again')")
    assert "<img src=x onerror=alert(2)>" in page.run("document.getElementById('lines').innerText")
    assert "0 done, 1 refused" in page.run("document.getElementById('reloads').innerText")
    assert page.run("document.querySelectorAll('img').length") == 0
    server.file.write_text(good)
    page.click("Reload", "header")
    page.wait("document.getElementById('reload-error').hidden && document.getElementById('reloads').innerText.includes('1 done, 1 refused')")
    assert page.run("document.getElementById('notice').hidden")
    assert page.complaints() == ["Failed to load resource: the server responded with a status of 422 (Unprocessable Content)"]


def token_file(site):
    file = site.parent / "sluice.toml"
    file.write_text(f'[server]\nlisten = ["${{LISTEN}}"]\n[admin]\nlisten = "${{ADMIN}}"\ntoken = "{TOKEN}"\n{OPEN}')
    return file


def test_the_token_is_asked_for_and_kept(sluice, site, visit):
    server = sluice(file=token_file(site))
    page = visit(server)
    page.wait("!document.getElementById('ask').hidden")
    assert page.run("document.getElementById('main').hidden && document.activeElement.id === 'token'")

    def enter(token):
        page.run(f"document.getElementById('token').value = '{token}'; document.getElementById('ask').requestSubmit()")
    enter("another-token-of-16")
    page.wait("document.getElementById('wrong').innerText.includes('does not accept')")
    enter(TOKEN)
    page.wait(READY)
    page.reload()
    page.wait(READY)
    assert page.run("document.getElementById('ask').hidden && localStorage.length === 0 && document.cookie === ''")
    page.click("Reload", "header")
    page.wait("document.getElementById('reloads').innerText.includes('1 done')")
    assert not any(TOKEN in url for url in page.asked())
    assert set(page.complaints()) <= {"Failed to load resource: the server responded with a status of 401 (Unauthorized)"}
    other = visit(server)
    other.wait("!document.getElementById('ask').hidden")


def test_hostile_paths_stay_text(sluice, visit):
    path = "/<img/src=x/onerror=alert(1)>/{x}"
    server = sluice(f"[[route]]\npath = '{path}'\nrespond = 204\n")
    page = visit(server)
    page.wait(READY)
    assert page.rows("routes")[0][1] == path
    assert page.run("document.querySelectorAll('img').length") == 0 and page.complaints() == []


@pytest.mark.parametrize("name, width, scheme", [("light", 1280, "light"), ("dark", 1280, "dark"), ("narrow", 360, "light")])
def test_the_page_fits(sluice, small_sqlite, visit, chromium, name, width, scheme):
    with Upstream(lambda *_: response(b"a")) as a, Upstream(lambda *_: response(b"b")) as b:
        server = sluice(gateway(a.url, b.url, path="/shop/{rest...}", route='use = ["visitors"]\n', more=f"""
[policy.visitors]
type = "rate-limit"
rate = "20/s"
burst = 60
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/numbers"
get = "SELECT n, text FROM numbers LIMIT 3"
[[endpoint]]
path = "/numbers/{{n:int}}"
get = "SELECT n, text FROM numbers WHERE n = :n"
returns = "object"
"""))
        page = visit(server)
        height = 1150 if width > 400 else 1200
        chromium.ask("Emulation.setDeviceMetricsOverride", page.session, width=width, height=height, deviceScaleFactor=1, mobile=width < 400)
        chromium.ask("Emulation.setEmulatedMedia", page.session, features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.wait(READY)
        folder = os.environ.get("SLUICE_SCREENSHOTS")
        for rounds in range(1, 7 if folder else 2):
            with server.connect() as client:
                for i in range(40 if rounds % 3 else 80):
                    client.get("/shop/cart")
                    client.get("/numbers")
                    client.get(f"/numbers/{990 - i * i}")
            total = 40 * rounds + 40 * (rounds // 3)
            page.wait(page.row("routes", "/numbers") + f"[8] === '{total}'")
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
        light = page.run("getComputedStyle(document.body).backgroundColor")
        assert (light == "rgb(245, 246, 248)") == (scheme == "light")
        page.run("document.getElementById('configuration').open = true")
        page.wait("document.getElementById('text').innerText.includes('[[endpoint]]')")
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
        page.run("document.getElementById('configuration').open = false; scrollTo(0, 0)")
        if folder:
            picture = chromium.ask("Page.captureScreenshot", page.session, format="png")["data"]
            (pathlib.Path(folder) / f"admin-{name}.png").write_bytes(base64.b64decode(picture))
        assert page.complaints() == []


def test_a_thousand_routes(sluice, visit):
    server = sluice("".join(f'[[route]]\npath = "/r/{i}"\nrespond = 204\n' for i in range(1000)))
    page = visit(server)
    page.wait(READY)
    assert len(page.rows("routes")) == 200
    with server.connect() as client:
        for _ in range(7):
            client.get("/r/777")
        client.get("/r/888")
    page.run("document.getElementById('filter').value = '777'; document.getElementById('filter').dispatchEvent(new Event('input'))")
    page.wait(page.row("routes", "/r/777") + "[8] === '7'")
    assert [row[1] for row in page.rows("routes")] == ["/r/777"]
    page.run("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))")
    page.click("Requests", "#routes th:last-child")
    assert [row[1] for row in page.rows("routes")][:2] == ["/r/777", "/r/888"]
    page.click("Path", "#routes")
    assert [row[1] for row in page.rows("routes")][:2] == ["/r/0", "/r/1"]
    page.click("Path", "#routes")
    assert page.rows("routes")[0][1] == "/r/999"
    page.click("Show all 1,000", "#routes")
    assert len(page.rows("routes")) == 1000
    assert page.complaints() == []


def test_a_drain_ends_the_stream_at_once(sluice, visit):
    asked, release = threading.Event(), threading.Event()

    def answer(*_):
        asked.set()
        release.wait(30)
        return response(b"late")
    with Upstream(answer) as back:
        server = sluice(gateway(back.url), server='grace = "60s"\n')
        page = visit(server)
        page.wait(READY)
        with server.connect() as client, http1.Connection(server.admin_port) as reader:
            reader.send("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            assert asked.wait(20)
            server.terminate()
            assert b'"ready":' in reader.read().body  # to its end, while the request still holds the drain
            page.wait("document.getElementById('state').innerText !== 'ready'")
            assert server.process.poll() is None
            release.set()
            assert client.read().body == b"late"
        server.stop()


def test_an_open_page_does_not_hold_the_end(sluice, visit):
    server = sluice(OPEN, server='grace = "60s"\n')
    page = visit(server)
    page.wait(READY)
    server.stop()
    page.wait("document.getElementById('state').innerText === 'not connected'")


def test_few_readers_at_once(sluice):
    server = sluice(OPEN)

    def read():
        reader = http1.Connection(server.admin_port)
        reader.send("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return reader, reader.socket.recv(12)
    readers = [read() for _ in range(8)]
    assert {first for _, first in readers} == {b"HTTP/1.1 200"}
    late, first = read()
    assert first == b"HTTP/1.1 503" and b"close one of them" in late.socket.recv(4096)
    late.close()
    readers.pop()[0].close()

    def is_free():
        reader, status = read()
        readers.append((reader, status))
        return status == b"HTTP/1.1 200"
    until(is_free)
    for reader, _ in readers:
        reader.close()


def test_the_configuration_is_shown_without_secrets(sluice, site):
    (site.parent / "key").write_text("secret-of-a-file\n")
    file = site.parent / "sluice.toml"
    file.write_text(f"""# the password is secret-in-comment
[server]
listen = ["${{LISTEN}}"]
[admin]
listen = "${{ADMIN}}"
token = "{TOKEN}"
[policy.tells]
type = "headers"
request.set = {{ X-Key = "${{file:key}}", X-Other = "${{KEY}}", X-Third = "secret-written" }}
[[upstream]]
name = "back"
servers = ["http://127.0.0.1:9"]
[[route]]
path = "/ok${{EMPTY:-secret-preset}}"
respond = 204
[[files]]
path = "/files"
root = "site"
""")
    server = sluice(file=file, env={"KEY": "secret-of-environment"})
    with http1.Connection(server.admin_port) as admin:
        admin.send(f"GET /configuration HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
        text = admin.read().body.decode()
    assert "secret" not in text and TOKEN not in text, text
    assert '[[files]]\npath = "/files"\nroot = "site"\n' in text
    assert 'token = "***"' in text and 'path = "/ok${EMPTY:-***}"' in text


# Every path of the listener. test_the_list_is_complete() compares it with the source.
PATHS = [("GET", "/"), ("GET", "/livez"), ("GET", "/readyz"), ("GET", "/metrics"), ("GET", "/live"), ("GET", "/configuration"),
         ("GET", "/upstreams"), ("POST", "/upstreams/back/drain"), ("POST", "/upstreams/back/enable"), ("POST", "/jwt/revoke"),
         ("POST", "/explain"), ("POST", "/reload")]
PROBES = ("/livez", "/readyz")


def test_the_list_is_complete():
    added = []
    for name in ("runtime/admin.cc", "app/admin/admin.cc"):
        source = (ROOT / "src" / name).read_text()
        added += re.findall(r'\badd\((?:http::Method::)?(get|post|put|delete_|patch), "([^"]+)"', source)
    assert sorted((method.upper(), path.replace("{name}", "back")) for method, path in added) == sorted(PATHS)


def status_of(server, method, path, *fields, host=None):
    with http1.Connection(server.admin_port) as admin:
        admin.send("\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{server.admin_port}'}", *fields, "", ""]))
        return int(admin.socket.recv(12)[9:])


@pytest.mark.parametrize("method, path", PATHS, ids=[path for _, path in PATHS])
def test_other_origins_are_refused(sluice, site, method, path):
    back = '[[upstream]]\nname = "back"\nservers = ["http://127.0.0.1:9"]\n'
    for server, token in ((sluice(OPEN + back), ()), (sluice(file=token_file(site)), (f"Authorization: Bearer {TOKEN}",))):
        own = f"127.0.0.1:{server.admin_port}"
        evil = f"evil.example:{server.admin_port}"
        for fields in ([], [f"Origin: http://{own}"], ["Sec-Fetch-Site: same-origin"], ["Sec-Fetch-Site: none"]):
            assert status_of(server, method, path, *fields, *token) not in (401, 403), fields
        for fields in ([f"Origin: http://localhost:{server.admin_port}"], [f"Origin: https://{own}"], ["Origin: null"], ["Origin: "],
                       [f"Origin: http://{evil}"], [f"Origin: http://{own}.evil.example"], [f"Origin: http://{own}", f"Origin: http://{evil}"],
                       ["Sec-Fetch-Site: cross-site"], ["Sec-Fetch-Site: same-site"]):
            assert (status_of(server, method, path, *fields, *token) == 403) == (path not in PROBES), fields
        for host in (evil, "evil.example", "localhost.evil.example", "127.0.0.1.evil.example"):
            for fields in ([], [f"Origin: http://{host}"]):
                assert (status_of(server, method, path, *fields, *token, host=host) == 403) == (path not in PROBES), (host, fields)
    open_to_all = path == "/" or path in PROBES
    for wrong in ([], ["Authorization: Bearer 0123456789-abcdeX"], [f"Origin: http://{own}"]):
        assert (status_of(server, method, path, *wrong) == 401) == (not open_to_all), wrong


FOREIGN = """async paths => {
  const found = [];
  const load = (element, source) => new Promise(done => {
    element.onload = () => done("loaded");
    element.onerror = () => done("failed");
    element.src = source;
    document.body.append(element);
  });
  for (const [method, url] of paths) {
    for (const mode of ["cors", "no-cors"]) {
      const got = await fetch(url, {method, mode}).then(answer => answer.type, () => "failed");
      if (got !== "failed" && got !== "opaque") found.push([method, url, mode, got]);
    }
    if (method === "GET" && !url.endsWith("/livez") && !url.endsWith("/readyz")) {
      for (const name of ["script", "img"]) if (await load(document.createElement(name), url) === "loaded") found.push([name, url]);
      const frame = document.createElement("iframe");
      await load(frame, url);
      try { if (frame.contentDocument !== null) found.push(["iframe", url]); } catch {}
    }
    if (method === "POST") {
      const frame = document.createElement("iframe");
      frame.name = "to" + document.querySelectorAll("iframe").length;
      document.body.append(frame);
      const form = document.createElement("form");
      Object.assign(form, {method: "POST", action: url, target: frame.name});
      document.body.append(form);
      await new Promise(done => { frame.onload = done; form.submit(); });
    }
  }
  return found;
}"""


def test_a_page_of_another_origin_reads_and_does_nothing(sluice, site, chromium):
    (site / "index.html").write_text("<!doctype html><title>Another origin</title><body>")
    with Upstream(lambda *_: response(b"a")) as back:
        server = sluice('[[files]]\npath = "/site"\nroot = "site"\n' + gateway(back.url))
        before = server.admin("/metrics")[1]
        page = chromium.open(f"http://127.0.0.1:{server.port}/site/")
        try:
            paths = [(method, f"http://127.0.0.1:{server.admin_port}{path}" + (f"?server={back.name}" if "back" in path else "")) for method, path in PATHS]
            assert page.run(f"({FOREIGN})({json.dumps(paths)})") == []
        finally:
            page.close()
        after = server.admin("/metrics")[1]
        for wanted in (f'sluice_upstream_state{{upstream="back",server="{back.name}",state="up"}} 1', 'sluice_reloads_total{result="done"} 0',
                       'sluice_reloads_total{result="refused"} 0'):
            assert wanted in before and wanted in after
