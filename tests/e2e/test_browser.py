"""Pages in headless Chromium: files, data, refusals and WebSockets, over TLS with HTTP/2 and HTTP/1.1, and without TLS; and the page
of examples/films."""
import base64
import hashlib
import json
import struct
import wave
import zlib

import pytest

from browser import Chromium
from certificates import openssl, tls_table
from conftest import FILMS
from tokens import Secret

HTML = """<!doctype html><html><head><meta charset="utf-8"><title>Sluice</title><link rel="icon" href="dot.png">
<link rel="stylesheet" href="style.css"><script src="page.js" defer></script></head>
<body><h1>Grüße</h1><img id="dot" src="dot.png"><audio id="sound" preload="metadata" src="sound.wav"></audio></body></html>"""
CSS = "h1 { color: rgb(1, 2, 3); }"
SCRIPT = r"""
const happened = (target, name) => new Promise((done, failed) => {
  target.addEventListener(name, done, {once: true});
  target.addEventListener("error", event => failed(Error(name + " did not happen: " + (target.error?.message ?? event.type))),
                          {once: true});
});

// What the page itself has loaded.
async function looks() {
  const sound = document.getElementById("sound");
  if (sound.readyState < 1) await happened(sound, "loadedmetadata");
  const seeked = happened(sound, "seeked");
  sound.currentTime = 50;
  await seeked;
  return {color: getComputedStyle(document.querySelector("h1")).color, width: document.getElementById("dot").naturalWidth,
          seconds: sound.duration, at: sound.currentTime};
}

async function range(path, from, to) {
  const answer = await fetch(path, {headers: {Range: `bytes=${from}-${to}`}});
  return {status: answer.status, range: answer.headers.get("content-range"), text: await answer.text()};
}

// Rows, counted as they come.
async function rows(path) {
  const answer = await fetch(path, {headers: {Accept: "application/x-ndjson"}});
  const decoder = new TextDecoder();
  let count = 0, sum = 0, rest = "";
  for (const reader = answer.body.getReader();;) {
    const {done, value} = await reader.read();
    if (done) break;
    const lines = (rest + decoder.decode(value, {stream: true})).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      ++count;
      sum += JSON.parse(line).n;
    }
  }
  return {status: answer.status, type: answer.headers.get("content-type"), coding: answer.headers.get("content-encoding"),
          count, sum, rest};
}

async function leave(path) {
  const controller = new AbortController();
  const answer = await fetch(path, {signal: controller.signal});
  const first = await answer.body.getReader().read();
  controller.abort();
  return {status: answer.status, came: first.value.length > 0};
}

async function refusal(path, method) {
  const answer = await fetch(path, {method});
  return {status: answer.status, allow: answer.headers.get("allow"), type: answer.headers.get("content-type")};
}

async function talk(path, protocols) {
  const socket = new WebSocket(location.origin.replace(/^http/, "ws") + path, protocols);
  socket.binaryType = "arraybuffer";
  const long = "Grüße, 世界 ".repeat(20000), bytes = new Uint8Array(100000).map((_, i) => i * i);
  const got = [];
  const whole = new Promise(done => socket.onmessage = event => got.push(event.data) == 12 && done());
  await happened(socket, "open");
  socket.send(long);
  socket.send(bytes);
  for (let i = 0; i < 10; ++i) socket.send("message " + i);
  await whole;
  const same = got[0] === long && new Uint8Array(got[1]).every((byte, i) => byte === bytes[i]) &&
               got.slice(2).every((text, i) => text === "message " + i);
  const closed = new Promise(done => socket.onclose = done);
  socket.close(3000, "enough");
  const {code, wasClean} = await closed;
  return {same, protocol: socket.protocol, extensions: socket.extensions.split(";")[0], code, wasClean};
}

const fails = path => new Promise(done => {
  const socket = new WebSocket(location.origin.replace(/^http/, "ws") + path);
  socket.onopen = () => done("open");
  socket.onclose = event => done(event.code);
});

// The protocol of everything that was loaded.
const protocols = () => performance.getEntries().filter(entry => entry.nextHopProtocol !== undefined)
    .map(entry => [new URL(entry.name).pathname, entry.nextHopProtocol]);
"""


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress((b"\0" + bytes(width)) * height)) + chunk(b"IEND", b""))


@pytest.fixture(scope="module")
def chromium(tmp_path_factory, localhost):
    key = openssl("pkey", "-in", localhost[1], "-pubout", "-outform", "DER").stdout
    browser = Chromium(tmp_path_factory.mktemp("chromium"), [base64.b64encode(hashlib.sha256(key).digest()).decode()])
    yield browser
    browser.close()


@pytest.fixture
def config(site, small_sqlite):
    (site / "index.html").write_text(HTML)
    (site / "style.css").write_text(CSS)
    (site / "page.js").write_text(SCRIPT)
    (site / "dot.png").write_bytes(png(7, 5))
    with wave.open(str(site / "sound.wav"), "wb") as sound:  # a minute of silence, 1.9 MB
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16000)
        sound.writeframes(bytes(2 * 16000 * 60))
    return f'''
[compression]
codings = ["zstd", "br", "gzip"]
[database.main]
url = "sqlite:{small_sqlite}"
[[endpoint]]
path = "/many"
get = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 50000) SELECT n FROM c"
[[endpoint]]
path = "/endless"
get = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"
[[websocket]]
path = "/echo"
handler = "echo"
protocols = ["chat"]
compression = "connection"
[[websocket]]
path = "/others"
handler = "echo"
origins = ["https://example.org"]
[[files]]
path = "/"
root = "{site}"
'''


def log_entries(server):
    """The access log's entries of requests. Stops the server first, so that all are written. A request that the browser resets
    before the server starts it has no target there; Chromium sends such requests when it seeks in a sound."""
    server.stop()
    entries = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    return [entry for entry in entries if "target" in entry]


@pytest.mark.parametrize("scheme, protocol", (("https", "h2"), ("https", "http/1.1"), ("http", "http/1.1")))
def test_a_page(sluice, config, chromium, localhost, scheme, protocol):
    secure, http2 = scheme == "https", protocol == "h2"
    server = sluice(config, server=f'access_log = "stdout"\nhttp2 = {str(http2).lower()}\n' +
                    (tls_table(localhost) if secure else ""))
    page = chromium.open(f"{scheme}://localhost:{server.port}/")

    assert page.run("document.querySelector('h1').textContent") == "Grüße"
    assert page.run("looks()") == {"color": "rgb(1, 2, 3)", "width": 7, "seconds": 60, "at": 50}
    assert page.run("range('hello.txt', 7, 11)") == {"status": 206, "range": "bytes 7-11/14", "text": "world"}
    rows = page.run("rows('/many')")
    assert (rows["status"], rows["type"].split(";")[0], rows["coding"]) == (200, "application/x-ndjson", "zstd")
    assert (rows["count"], rows["sum"], rows["rest"]) == (50_000, 1_250_025_000, "")
    assert page.run("leave('/endless')") == {"status": 200, "came": True}
    assert page.run("refusal('/many', 'POST')") == {"status": 405, "allow": "GET, HEAD, OPTIONS",
                                                    "type": "application/problem+json"}
    assert page.run("refusal('/hello.txt', 'DELETE')")["status"] == 405
    assert page.run("refusal('/none', 'GET')")["status"] == 404
    assert page.run("refusal('/echo', 'GET')")["status"] == (405 if http2 else 426)
    connections = server.sample("sluice_connections_total")
    assert page.run("talk('/echo', ['soap', 'chat'])") == {
        "same": True, "protocol": "chat", "extensions": "permessage-deflate", "code": 3000, "wasClean": True}
    assert page.run("fails('/others')") == 1006
    # Two WebSockets at once, and a request beside them.
    both = page.run("Promise.all([talk('/echo'), talk('/echo'), rows('/many')])")
    assert [each.get("same", each.get("count")) for each in both] == [True, True, 50_000]

    # Over HTTP/2 the WebSockets are streams of the page's connection.
    more = server.sample("sluice_connections_total") - connections
    assert more == 0 if http2 else more >= 3, more

    used = page.run("protocols()")
    assert {"/", "/style.css", "/page.js", "/dot.png", "/hello.txt", "/many"} <= {path for path, _ in used}
    assert {each for _, each in used if each} == {protocol}, used
    page.close()

    assert server.sample("sluice_websockets_total") == 3 and server.sample("sluice_websockets_lost_total") == 0
    log = log_entries(server)
    talks = [(entry["method"], entry["status"]) for entry in log if entry["target"] in ("/echo", "/others")]
    opened, refused = (("CONNECT", 200), ("CONNECT", 403)) if http2 else (("GET", 101), ("GET", 403))
    assert talks.count(opened) == 3 and talks.count(refused) == 1, talks
    assert any(entry["target"] == "/sound.wav" and entry["status"] == 206 for entry in log)


CROSS_ORIGIN = '''
[policy.web]
type = "cors"
origins = ["{origin}"]
credentials = true
[policy.elsewhere]
type = "cors"
origins = ["https://elsewhere.example"]
[policy.auth]
type = "jwt"
secret = "{secret}"
[database.main]
url = "sqlite:{database}"
[[endpoint]]
path = "/numbers/{{n:int}}"
use = ["auth", "web"]
returns = "object"
get = "SELECT n, text FROM numbers WHERE n = :n"
put = "UPDATE numbers SET text = :text WHERE n = :n RETURNING n, text"
delete = "DELETE FROM numbers WHERE n = :n"
[[endpoint]]
path = "/open/{{n:int}}"
use = ["web"]
get = "SELECT n, text FROM numbers WHERE n = :n"
delete = "DELETE FROM numbers WHERE n = :n"
changes = {{ tables = ["numbers"] }}
[[endpoint]]
path = "/elsewhere"
use = ["elsewhere"]
get = "SELECT 1 AS one"
put = "UPDATE numbers SET text = 'never' WHERE n = 1"
[[resident]]
name = "known"
query = "SELECT n, text FROM numbers"
key = "n"
use = ["web"]
[[files]]
path = "/site"
root = "{site}"
use = ["web"]
'''


@pytest.mark.parametrize("http2", (True, False))
def test_routes_are_called_from_another_origin(sluice, config, chromium, localhost, small_sqlite, site, http2):
    """The browser sends a preflight without the token, then the allowed requests, and the page may read the answers."""
    tls = f"http2 = {str(http2).lower()}\n" + tls_table(localhost)
    page = chromium.open(f"https://localhost:{sluice(config, server=tls).port}/")
    origin = page.run("location.origin")
    secret = Secret()
    server = sluice(CROSS_ORIGIN.format(origin=origin, secret=secret.secret, database=small_sqlite, site=site),
                    server='access_log = "stdout"\n' + tls)

    def call(method, token, body="undefined"):
        return page.run(f"""fetch('https://localhost:{server.port}/numbers/7', {{method: '{method}', body: {body}, headers: {{
            Authorization: 'Bearer {token}', 'Content-Type': 'application/json'}}}})
            .then(async answer => [answer.status, answer.status === 204 ? null : await answer.json()], error => error.name)""")
    token = secret.token()
    assert call("GET", token) == [200, {"n": 7, "text": "number 7"}]
    assert call("PUT", token, "JSON.stringify({text: 'seven'})") == [200, {"n": 7, "text": "seven"}]
    status, problem = call("GET", "none")
    assert status == 401 and "malformed" in problem["detail"]  # the page may read it
    assert call("DELETE", token) == [204, None]

    def fetch(path, options="{}", then="[answer.status, await answer.text()]"):
        return page.run(f"""fetch('https://localhost:{server.port}{path}', {options})
            .then(async answer => {then}, error => error.name)""")
    assert fetch("/known/8", "{credentials: 'include'}", "[answer.status, (await answer.json()).text]") == [200, "number 8"]
    assert fetch("/site/hello.txt", then="[answer.status, answer.headers.get('etag') !== null, await answer.text()]") == [
        200, True, "Hello, world.\n"]
    assert fetch("/site/none.txt", then="answer.status") == 404
    assert fetch("/elsewhere") == "TypeError"  # it is executed, but the page may not read the answer
    assert fetch("/elsewhere", "{method: 'PUT'}") == "TypeError"  # it is never sent
    assert fetch("/none") == "TypeError"
    assert page.run(f"""new Promise((resolve, reject) => {{
        const source = new EventSource('https://localhost:{server.port}/open/9/changes', {{withCredentials: true}});
        source.onerror = () => reject(new Error('no stream'));
        source.onopen = () => fetch('https://localhost:{server.port}/open/9', {{method: 'DELETE'}});
        source.onmessage = event => {{ source.close(); resolve(JSON.parse(event.data).operation ?? event.data); }};
    }})""")
    page.close()
    entries = {(entry["method"], entry["target"], entry["status"]) for entry in log_entries(server)}
    guarded = {(method, status) for method, target, status in entries if target == "/numbers/7"}
    assert guarded == {("OPTIONS", 204), ("GET", 200), ("PUT", 200), ("GET", 401), ("DELETE", 204)}
    assert {(method, status) for method, target, status in entries if target == "/elsewhere"} == {("GET", 200), ("OPTIONS", 204)}


class FilmsPage:
    def __init__(self, chromium, url):
        self.page = chromium.open(url)
        self.wait("settled()")

    def run(self, expression):
        return self.page.run("{ const settled = () => document.getElementById('films').ariaBusy === 'false'; " + expression + " }")

    def wait(self, condition):
        """Until the condition holds, which is tried after each change of the page."""
        self.run(f"""new Promise(done => {{
            const look = () => {condition} && done(), root = document.documentElement;
            new MutationObserver(look).observe(root, {{subtree: true, childList: true, attributes: true, characterData: true}});
            look();
        }})""")

    def do(self, action, query):
        """Does the action, and waits until the page shows the list of this query."""
        self.run(action)
        self.wait(f"location.search === {json.dumps(query)} && settled()")

    def click(self, selector, query):
        self.do(f"document.querySelector({json.dumps(selector)}).click()", query)

    def state(self):
        return self.run("""({
            query: location.search,
            status: document.getElementById('search-status').textContent,
            titles: [...document.querySelectorAll('#films a')].map(link => link.textContent),
            sorted: [...document.querySelectorAll('th')].map(head => head.ariaSort),
            pages: [...document.querySelectorAll('.pages a[href]')].map(link => link.rel),
            fields: ['q', 'adult', 'least'].map(name => document.forms[0].elements[name].value)})""")


def test_the_films_page_keeps_its_state_in_its_address(sluice, chromium, films_sqlite):
    server = sluice(file=FILMS / "films.toml", env={"DATABASE": f"sqlite:{films_sqlite}"})
    films = FilmsPage(chromium, f"http://localhost:{server.port}/")
    start = films.state()
    assert start["status"] == "3,000 films" and start["titles"][0] == "The Silent Harbor" and len(start["titles"]) == 20
    assert start["sorted"] == [None, None, None] and start["pages"] == ["next", "last"] and start["fields"] == ["", "", ""]

    form = "document.forms[0]"
    films.do(f"{form}.q.value = 'harbor'; {form}.least.value = '10'; {form}.requestSubmit()", "?q=harbor&popularity=gte.10")
    searched = films.state()
    assert all("Harbor" in title for title in searched["titles"])
    films.do(f"{form}.adult.value = 'false'; {form}.adult.dispatchEvent(new Event('change'))",
             "?q=harbor&popularity=gte.10&adult=false")
    filtered = films.state()
    assert 20 < int(filtered["status"].split()[0]) < int(searched["status"].split()[0])

    films.click("[data-sort=name_en]", filtered["query"] + "&sort=name_en")
    ascending = films.state()
    assert ascending["sorted"] == ["ascending", None, None] and ascending["titles"] == sorted(ascending["titles"])
    films.click("[data-sort=name_en]", filtered["query"] + "&sort=-name_en")
    descending = films.state()
    assert descending["sorted"] == ["descending", None, None]
    assert descending["titles"] == sorted(descending["titles"], reverse=True) != ascending["titles"][::-1]

    following = films.run("document.querySelector('[rel=next]').getAttribute('href')")
    films.click("[rel=next]", following)
    second = films.state()
    assert second["pages"][:2] == ["first", "prev"] and second["status"] == filtered["status"]
    assert second["titles"][0] <= descending["titles"][-1] and second["fields"] == ["harbor", "false", "10"]

    films.page.reload()
    films.wait("settled()")
    assert films.state() == second
    films.do("history.back()", descending["query"])
    assert films.state() == descending
    films.page.close()

    films = FilmsPage(chromium, f"http://localhost:{server.port}/{following}")
    assert films.state() == second
    films.click("[data-sort=popularity]", "?q=harbor&popularity=gte.10&adult=false&sort=popularity&limit=20")
    films.do(f"{form}.q.value = {form}.adult.value = {form}.least.value = ''; {form}.requestSubmit()",
             "?sort=popularity&limit=20&popularity=is.not_null")
    known = films.state()
    assert known["fields"] == ["", "", ""] and known["sorted"] == [None, None, "ascending"]
    films.click("[data-sort=popularity]", "?sort=-popularity&limit=20&popularity=is.not_null")
    assert films.state()["status"] == known["status"] < "3,000 films"
    assert films.run("document.querySelector('#films .number').textContent") != "–"
    films.do("history.pushState(null, '', '?sort=slug'); dispatchEvent(new Event('popstate'))", "?sort=slug")
    assert films.state()["status"].startswith("sort: ") and films.state()["titles"] == []
    films.page.close()
