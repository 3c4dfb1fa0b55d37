"""The explorer of [openapi], driven in headless Chromium by mouse and keyboard. SLUICE_SCREENSHOTS=FOLDER makes the guide's pictures."""
import base64
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import urllib.parse

import pytest

from browser import Chromium
from conftest import FILMS, SLUICE
from test_start import Program, database  # noqa: F401

OWN = '''
[openapi]
title = "Notes"
description = "Notes, with `tags`."
explorer = "{explorer}"
[database.main]
url = "sqlite:{database}"
[[endpoint]]
path = "/notes"
summary = "All notes"
get = "SELECT id, title, done, score, kind FROM notes"
[endpoint.list]
filter = ["title", "done", "score"]
sort = ["title", "score"]
search = ["title"]
order = "id"
limit = {{ default = 10, max = 100 }}
count = true
[endpoint.post]
table = "notes"
columns.title = {{ required = true, trim = true, type = "text" }}
columns.done = {{ type = "bool", default = false }}
columns.score = {{ type = "real", min = -10, max = 10 }}
columns.kind = {{ values = ["note", "task"], default = "note" }}
returning = "id, title, done, score, kind"
location = "/notes/{{id}}"
[[endpoint]]
path = "/notes/{{id:int}}"
version = "version"
require_match = true
returns = "object"
get = "SELECT id, title, done, score, kind, version FROM notes WHERE id = :id"
[endpoint.patch]
sql = """
UPDATE notes SET title = coalesce(:title, title), score = coalesce(:score, score), version = version + 1
WHERE id = :id RETURNING id, title, done, score, kind, version
"""
[endpoint.delete]
sql = "DELETE FROM notes WHERE id = :id"
[endpoint.params]
score = {{ type = "real", min = -10, max = 10 }}
[[resident]]
name = "words"
key = "word"
index = ["length"]
query = "SELECT length, word FROM words"
'''
HOSTILE = "<img src=x onerror=\"document.title='caught'\">"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture
def own(sluice, tmp_path):
    """own(explorer="/explore"): a server with notes and words."""
    path = tmp_path / "own.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT NOT NULL, done BOOLEAN NOT NULL DEFAULT 0, score REAL, "
                         "kind TEXT NOT NULL DEFAULT 'note', version INTEGER NOT NULL DEFAULT 1)")
        database.executemany("INSERT INTO notes (title, done, score) VALUES (?, ?, ?)",
                             [(HOSTILE if i == 2 else f"Note {i:02}", i % 2, i / 10 if i % 4 else None) for i in range(1, 36)])
        database.execute("CREATE TABLE words (length INTEGER NOT NULL, word TEXT PRIMARY KEY)")
        database.executemany("INSERT INTO words VALUES (?, ?)", [(i % 3, f"word/{i:02}") for i in range(30)])
    database.close()
    return lambda explorer="/explore": sluice(OWN.format(database=path, explorer=explorer))


class Explorer:
    """One page. close() checks that it has asked no other host, and has reported no error."""

    def __init__(self, browser, url, width=1280, height=860, scheme="light"):
        self.browser, self.url = browser, url
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Network", "Log", "Runtime", "Page"):
            self.ask(domain + ".enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url=url)
        self.until("document.querySelector('main h1')")

    def ask(self, method, **parameters):
        return self.browser.ask(method, self.session, **parameters)

    def run(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, (expression, result["exceptionDetails"])
        return result["result"].get("value")

    def until(self, expression):
        """Waits until the expression is true in the page."""
        met = self.run("new Promise(done => { const end = Date.now() + 20000; const look = () => { let met = false; "
                       f"try {{ met = !!({expression}); }} catch {{}} if (met || Date.now() > end) done(met); else setTimeout(look, 10); }}; "
                       "look(); })")
        assert met, (expression, self.run("location.hash"), self.run("document.querySelector('main').innerText")[:2000])

    def go(self, place):
        self.run(f"location.hash = {json.dumps(place)}")
        name = json.dumps("#" + place.partition("?")[0])
        self.until(f"document.querySelector('nav [aria-current]')?.hash === {name}")

    def click(self, expression):
        """Clicks the middle of the element with the mouse."""
        self.run(f"({expression}).scrollIntoView({{block: 'center', inline: 'center'}})")
        # The mouse hits what has been drawn.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")
        x, y = self.run(f"(box => [box.x + box.width / 2, box.y + box.height / 2])(({expression}).getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def choose(self, selector, value):
        self.run(f"{{ const box = document.querySelector({json.dumps(selector)}); box.value = {json.dumps(value)}; "
                 "box.dispatchEvent(new Event('change', {bubbles: true})); }")

    def press(self, key, modifiers=0):
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        named = {"Space": " "}.get(key, key)
        for kind in ("keyDown", "keyUp"):
            code = {"Enter": 13, "Tab": 9, "Space": 32}.get(key, ord(key) if len(key) == 1 else 0)
            self.ask("Input.dispatchKeyEvent", type=kind, key=named, modifiers=modifiers, windowsVirtualKeyCode=code,
                     **({"text": text} if kind == "keyDown" and text else {}))

    def type(self, text):
        self.ask("Input.insertText", text=text)

    def fill(self, name, value):
        """Types a value into the field with this label."""
        self.run(f"[...document.querySelectorAll('main .field')].find(field => field.querySelector('.label').textContent === "
                 f"{json.dumps(name)}).querySelector('input, select, textarea').focus()")
        if self.run("document.activeElement.tagName") == "SELECT":
            self.run(f"{{ document.activeElement.value = {json.dumps(value)}; "
                     "document.activeElement.dispatchEvent(new Event('input', {bubbles: true})); }")
        else:
            self.run("document.activeElement.select()")
            self.type(value)

    def send(self):
        self.click("document.querySelector('main form button.main')")

    def status(self):
        self.until("document.querySelector('.answer .status') && !document.querySelector('.view[aria-busy]')")
        return self.run("document.querySelector('.answer .status').textContent")

    def column(self, name):
        return self.run(f"{{ const at = [...document.querySelectorAll('thead th')].findIndex(head => head.textContent === {json.dumps(name)}); "
                        "[...document.querySelectorAll('main tbody tr')].map(row => row.children[at].textContent); }")

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))

    def close(self):
        mine = [event for event in self.browser.events if event.get("sessionId") == self.session]
        asked = {event["params"]["request"]["url"] for event in mine if event["method"] == "Network.requestWillBeSent"}
        origin = "://".join(urllib.parse.urlsplit(self.url)[:2])
        assert asked and all(url.startswith((origin, "data:")) for url in asked), asked
        errors = [event for event in mine if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled")
                  or event["method"] == "Log.entryAdded" and event["params"]["entry"]["source"] != "network"]
        assert errors == []


@pytest.fixture
def explore(chromium):
    pages = []

    def start(*arguments, **options):
        pages.append(Explorer(chromium, *arguments, **options))
        return pages[-1]
    yield start
    for page in pages:
        page.close()


@pytest.fixture
def films(sluice, films_sqlite, tmp_path):
    path = tmp_path / "films.db"
    shutil.copy(films_sqlite, path)
    server = sluice(file=FILMS / "films.toml", env={"DATABASE": f"sqlite:{path}"})
    return f"http://localhost:{server.port}/explore"


ROWS = "document.querySelectorAll('main tbody tr').length"
TOTAL = "document.querySelector('.count').textContent"
FIRST = "document.querySelector('main tbody tr').innerText"


def head(name):
    return f"[...document.querySelectorAll('thead th button')].find(one => one.textContent === '{name}')"


def link(text):
    return f"[...document.querySelectorAll('main a')].find(one => one.textContent === '{text}')"


def test_every_operation_of_the_films_is_sent_from_its_form(films, explore):
    page = explore(films)
    slug = {"slug": "a-new/film"}
    sent = {
        "postFilms": ({"slug": "a-new/film", "name_en": "New", "popularity": "7.5", "adult": "true"}, "201 Created"),
        "getFilmsBySlug": (slug, "200 OK"),
        "patchFilmsBySlug": ({**slug, "name_en": "Newer"}, "200 OK"),
        "postFilmsBySlugTags": ({**slug, "tag": "first"}, "201 Created"),
        "putFilmsBySlugTags": ({**slug, "tag": "second"}, "200 OK"),
        "getFilmsBySlugTags": (slug, "200 OK"),
        "deleteFilmsBySlugTagsByTag": ({**slug, "tag": "second"}, "204 No Content"),
        "deleteFilmsBySlug": (slug, "204 No Content"),
        "getTags": ({}, "200 OK"),
        "getExport": ({}, "200 OK"),
    }
    assert set(page.run("[...operations.keys()]")) == {*sent, "getFilms"}
    for operation, (fields, status) in sent.items():
        page.go(operation)
        for name, value in fields.items():
            page.fill(name, value)
        if operation == "patchFilmsBySlug":
            body = page.run("document.querySelector('[aria-label=\"The body as application/json\"]').value")
            assert json.loads(body) == {"name_en": "Newer"}
        page.send()
        assert page.status() == status, operation
        if operation == "patchFilmsBySlug":
            assert page.run("[...document.querySelectorAll('table.object tr')].map(row => row.innerText)")[1:5] == [
                "slug\ta-new/film", "adult\ttrue", "name_en\tNewer", "popularity\t7.5"]
            line = page.run("document.querySelector('.curl pre').textContent").replace("a-new%2Ffilm", "the-silent-harbor")
            again = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=20)
            assert json.loads(again.stdout)["name_en"] == "Newer"
    assert page.run(ROWS) == 200 and "The first 200 of 3,000 rows." in page.run("document.querySelector('.answer').innerText")
    page.go("getFilms")
    page.until(f"{ROWS} === 20")


WRITTEN = {  # in this order
    "/customers": [("post", {"id": "9", "name": "Zoe"}, "201 Created")],
    "/customers/{id}": [("patch", {"id": "9", "name": "Zed"}, "200 OK"), ("delete", {"id": "9"}, "204 No Content")],
    "/products": [("post", {"sku": "cap", "price": "3"}, "201 Created")],
    "/products/{sku}": [("patch", {"sku": "cap", "price": "4"}, "200 OK"), ("delete", {"sku": "cap"}, "204 No Content")],
    "/orders": [("post", {"id": "9", "customer": "2", "cents": "5"}, "201 Created")],
    "/orders/{id}": [("patch", {"id": "9", "cents": "6"}, "200 OK"), ("delete", {"id": "9"}, "204 No Content")],
    "/items": [("post", {"order": "3", "sku": "pen", "amount": "1"}, "201 Created")],
    "/items/{order}/{sku}": [("patch", {"order": "3", "sku": "pen", "amount": "2"}, "200 OK"),
                             ("delete", {"order": "3", "sku": "pen"}, "204 No Content")],
    "/notes": [("post", {"order": "1", "sku": "pen", "text": "<img src=x onerror=alert(1)>"}, "201 Created")],
}
READ = {"id": "1", "order": "1", "customer": "1", "payer": "1", "sku": "ink", "rowid": "1", "mark": "first"}


def test_every_operation_of_a_served_database_is_sent(database, tmp_path, explore):
    with Program(database, "--write", folder=tmp_path) as program:
        page = explore(f"http://localhost:{program.port}/")
        sent = set()
        for path, methods in program.rows("/openapi.json")["paths"].items():
            operation = methods["get"]
            page.go(operation["operationId"])
            parameters = methods.get("parameters", []) + operation.get("parameters", [])
            keys = [one["name"] for one in parameters if one["in"] == "path"]
            for name in keys:
                page.fill(name, READ[name])
            if any(one["name"] == "limit" for one in parameters):
                if keys:
                    page.send()
                page.until(f"{ROWS} > 0 && !document.querySelector('[aria-busy]')")
            else:
                page.send()
                assert page.status() == "200 OK", path
            sent.add((path, "get"))
        for path, calls in WRITTEN.items():
            for method, fields, status in calls:
                page.go(program.rows("/openapi.json")["paths"][path][method]["operationId"])
                for name, value in fields.items():
                    page.fill(name, value)
                page.send()
                assert page.status() == status, (path, method)
                sent.add((path, method))
        there = {(path, method) for path, methods in program.rows("/openapi.json")["paths"].items() for method in methods
                 if method != "parameters"}
        others = ("/notes/", "/marks", "/Order_Items", "/dotted_csv", "/openapi_json")
        assert all(path.startswith(others) for path, _ in there - sent)


def test_a_list_by_mouse(films, explore):
    page = explore(films + "#getFilms")
    page.until(f"{ROWS} === 20 && {TOTAL} === '1–20'")
    page.click("[...document.querySelectorAll('main label input[type=checkbox]')][0]")
    page.until(f"{TOTAL} === '1–20 of 3,000'")
    page.click(head("popularity"))
    page.until("document.querySelector('th[aria-sort=ascending]')?.textContent === 'popularity'")
    page.click(head("popularity"))
    page.until("document.querySelector('th[aria-sort=descending]')?.textContent === 'popularity' && !document.querySelector('[aria-busy]')")
    assert page.column("popularity") == ["null"] * 20

    page.choose("[aria-label='Operator for popularity']", "lt")
    page.click("document.querySelector('[aria-label=\"Value for popularity\"]')")
    page.type("500")
    page.press("Enter")
    page.until(f"Number({FIRST}.split('\\t')[4]) < 500 && !{TOTAL}.includes('3,000')")
    falling = [float(one) for one in page.column("popularity")]
    assert falling == sorted(falling, reverse=True) and falling[0] > 490
    page.choose("[aria-label='Value for adult']", "true")
    page.until("location.hash.includes('adult=eq.true') && !document.querySelector('[aria-busy]')")
    page.until("[...document.querySelectorAll('main tbody tr')].every(row => row.children[2].textContent === 'true')")
    filtered = page.run(TOTAL)
    first = page.column("slug")

    page.click(link("Next"))
    page.until(f"location.hash.includes('after=') && {json.dumps(first)}[0] !== document.querySelector('main tbody a').textContent")
    second = page.column("slug")
    assert not set(first) & set(second)
    page.run("history.back()")
    page.until(f"{json.dumps(first)}[0] === document.querySelector('main tbody a').textContent")
    assert page.run(TOTAL) == filtered
    page.click(link("Last"))
    page.until(f"!{link('Next')}.hasAttribute('href') && {link('Previous')}.hasAttribute('href')")
    page.ask("Page.reload")
    page.until(f"document.readyState === 'complete' && {link('Previous')}?.hasAttribute('href') && !{link('Next')}.hasAttribute('href')")
    assert page.run("document.querySelector('[aria-label=\"Value for popularity\"]').value") == "500"

    page.go("getFilms?limit=10")
    page.until(f"{ROWS} === 10")
    page.click("document.querySelector('[aria-label=\"Search the rows\"]')")
    page.type("harbor")
    page.press("Enter")
    page.until("[...document.querySelectorAll('main tbody tr')].every(row => /harbor/i.test(row.innerText))")
    page.click("document.querySelector('main tbody tr').children[2]")
    page.until("location.hash.startsWith('#getFilmsBySlug?') && document.querySelector('table.object')")
    assert "harbor" in page.run("document.querySelector('table.object').innerText").lower()


def test_a_row_is_created_changed_and_deleted(own, explore):
    server = own()
    page = explore(f"http://localhost:{server.port}/explore#getNotes?count=exact")
    page.until(f"{ROWS} === 10 && {TOTAL} === '1–10 of 35'")
    assert HOSTILE in page.column("title") and page.run("document.querySelectorAll('main img').length") == 0
    page.click(link("2"))
    page.until("location.hash === '#getNotesById?path%3Aid=2' && document.querySelector('table.object')")
    page.click(link("Edit"))
    page.until(f"[...document.querySelectorAll('textarea')].some(one => one.value === {json.dumps(HOSTILE)})")
    page.fill("title", "Mended")
    page.fill("score", "11")
    page.run("document.querySelector('main form').noValidate = true")
    page.send()
    assert page.status() == "422 Unprocessable Content"
    refused = "[...document.querySelectorAll('main .field')].filter(one => !one.querySelector('.wrong').hidden)"
    assert page.run(f"{refused}.map(one => one.querySelector('.label').textContent)") == ["score"]
    assert page.run("document.activeElement.getAttribute('aria-invalid')") == "true"
    page.fill("score", "9.5")
    page.send()
    page.until("document.querySelector('.answer .status')?.textContent === '200 OK'")
    assert page.run(f"{refused}.length") == 0
    page.until("!document.querySelector('[aria-busy]')")
    page.fill("title", "Mended again")  # the form has the new ETag
    page.send()
    page.until("document.querySelector('.answer table')?.innerText.includes('Mended again')")
    page.fill("If-Match", '"1"')
    page.send()
    page.until("document.querySelector('.answer .status')?.textContent.startsWith('412')")
    page.click(link("View"))
    page.until("document.querySelector('table.object')?.innerText.includes('Mended')")
    assert json.loads(server.get("/notes/2").body)["score"] == 9.5

    page.click(link("Delete"))
    page.until("document.querySelector('nav [aria-current]')?.hash === '#deleteNotesById'")  # hashchange comes later
    page.send()
    assert page.status().startswith("204")
    assert server.get("/notes/2").status == 404
    page.click(link("List"))
    page.until(f"location.hash.startsWith('#getNotes?') && {ROWS} === 10 && {TOTAL} === '1–10'")
    page.click(link("New"))
    page.until("location.hash.startsWith('#postNotes')")
    page.send()
    assert page.status() == "422 Unprocessable Content"
    page.fill("title", "Of a form")
    page.fill("kind", "task")
    page.send()
    page.until("document.querySelector('.answer .status')?.textContent === '201 Created'")
    page.go("getNotes?title=eq.Of+a+form&title=not.is.null")
    page.until(f"{ROWS} === 1 && document.querySelector('.chip')?.textContent.startsWith('title=not.is.null')")
    assert page.column("kind") == ["task"]
    assert page.run("[...document.querySelectorAll('.filters td')][1].querySelector('input').value") == "Of a form"


def test_a_resident_table_is_a_list(own, explore):
    server = own()
    page = explore(f"http://localhost:{server.port}/explore#getWords?limit=10")
    page.until(f"{TOTAL} === '1–10 of 30'")
    page.click(link("Last"))
    page.until(f"{TOTAL} === '21–30 of 30'")
    page.click(link("word/29"))
    page.until("document.querySelector('table.object')?.innerText.includes('word/29')")


def test_by_keyboard_alone(own, explore):
    server = own()
    page = explore(f"http://localhost:{server.port}/explore")
    page.press("/")
    page.until("document.activeElement.id === 'filter'")
    page.type("post notes")
    page.until("[...document.querySelectorAll('nav li')].filter(one => one.checkVisibility()).length === 1")
    page.press("Tab")
    page.press("Enter")
    page.until("location.hash === '#postNotes' && document.activeElement.tagName === 'H1'")
    for _ in range(10):
        page.press("Tab")
        if page.run("document.activeElement.closest('.field')?.querySelector('.label').textContent") == "title":
            break
    page.type("By keyboard")
    page.press("Enter", modifiers=2)
    assert page.status() == "201 Created"


def test_the_page_has_a_policy_and_works_at_any_path(own, explore):
    for path in ("/", "/a/b/c"):
        server = own(path)
        answer = server.get(path)
        policy = answer.get("content-security-policy")
        assert "default-src 'none'" in policy and "'unsafe-inline'" not in policy and len(answer.body) < 100_000
        assert answer.get("x-content-type-options") == "nosniff"
        assert server.get(path, f"If-None-Match: {answer.get('etag')}").status == 304
        page = explore(f"http://localhost:{server.port}{path}#getNotes")
        page.until(f"{ROWS} === 10")
        assert f"explore  http://127.0.0.1:{server.port}{path}" in server.log
        told = subprocess.run([SLUICE, "explain", "--config", str(server.file), "GET", path], capture_output=True, text=True, timeout=20)
        assert "the page that shows the endpoints" in told.stdout, told


def test_credentials_stay_in_the_tab(sluice, small_sqlite, explore):
    server = sluice('''
[openapi]
public = true
explorer = "/explore"
[defaults]
use = ["keys"]
[policy.keys]
type = "api-key"
header = "X-Key"
keys.me = "secret-of-mine-alone"
[database.main]
url = "sqlite:DATABASE"
[[endpoint]]
path = "/one"
get = "SELECT 1 AS one"
'''.replace("DATABASE", str(small_sqlite)))
    page = explore(f"http://localhost:{server.port}/explore#getOne?")
    assert page.status().startswith("401")
    page.click("document.getElementById('authorize')")
    page.run("[...document.querySelectorAll('dialog input')].at(-1).focus()")
    page.type("secret-of-mine-alone")
    page.press("Enter")
    page.until("document.querySelector('.answer .status')?.textContent === '200 OK'")
    assert "X-Key: secret-of-mine-alone" in page.run("document.querySelector('.curl pre').textContent")
    assert page.run("localStorage.length + document.cookie.length") == 0 and page.run("sessionStorage.length") == 1


def test_a_narrow_page_does_not_scroll_sideways(own, explore):
    server = own()
    page = explore(f"http://localhost:{server.port}/explore", width=360, height=740)
    for place in ("getNotes?count=exact&title=not.is.null", "postNotes", "patchNotesById?path%3Aid=2", "getNotesById?path%3Aid=2"):
        page.go(place)
        page.until("!document.querySelector('[aria-busy]')")
        assert page.run("document.documentElement.scrollWidth") <= 360, place
    page.click("document.getElementById('menu')")
    page.until("document.querySelector('nav.operations').checkVisibility()")
    page.click("document.querySelector('nav a')")
    page.until("!document.querySelector('nav.operations').checkVisibility() && location.hash === '#getNotes'")


def test_pictures_for_the_guide(films, explore, tmp_path):
    folder = pathlib.Path(os.environ.get("SLUICE_SCREENSHOTS", tmp_path))
    place = "#getFilms?sort=-popularity&popularity=lt.900&count=exact&limit=10&fields=id,slug,adult,name_en,popularity"
    for name, options in {"light": {"height": 620}, "dark": {"height": 620, "scheme": "dark"}, "narrow": {"width": 360, "height": 740}}.items():
        page = explore(films + place, **options)
        page.until(f"{ROWS} === 10")
        page.picture(folder / f"explorer-{name}.png")
        assert (folder / f"explorer-{name}.png").stat().st_size < 150_000
