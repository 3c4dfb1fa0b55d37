"""examples/chat-server as people use it: its page in Chromium, beside clients over TCP and WebSockets. test_program.py tests the
service without the page."""
import collections
import concurrent.futures
import json
import re
import shutil
import signal
import threading
import time

import pytest

import frames
from browser import Chromium
from conftest import ROOT, until
from frames import TOKEN, Frame, decode, encode
from test_program import JOINED, LEFT, SAY, SECRET, WHISPER, chat, routes  # noqa: F401 (chat is a fixture)
from test_reload import reload
from test_revoke import revoke
from websocket import BINARY, CLOSE, WebSocket, close_payload

UNAUTHORIZED = 7
INVALID = "Your token is no longer valid. Enter with a new one."
REFUSED = "The server cannot be reached, or refuses the token."
OPEN, ACCEPTED = 'sluice_sessions_open{service="chat"}', 'sluice_sessions_accepted_total{service="chat"}'


def auth_with(key):
    return routes().replace('type = "jwt"', f'type = "jwt"\n{key}')


def token_of(name, **claims):
    return SECRET.token({"sub": name, "exp": time.time() + 60, **claims})


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture
def start(chat, tmp_path):  # noqa: F811
    shutil.copytree(ROOT / "examples/chat-server/public", tmp_path / "public")
    return chat


@pytest.fixture
def browse(chromium):
    """browse(server) opens the page. At the end of the test, no page may have had an exception."""
    pages = []
    chromium.events.clear()

    def browse(server):
        pages.append(ChatPage(chromium, server))
        return pages[-1]
    yield browse
    for each in pages:
        each.page.close()
    assert not [event for event in chromium.events if event["method"] == "Runtime.exceptionThrown"]


class ChatPage:
    def __init__(self, chromium, server):
        self.page = chromium.open(f"http://127.0.0.1:{server.port}/")
        chromium.ask("Runtime.enable", self.page.session)

    def run(self, expression):
        return self.page.run(f"{{ const lines = () => [...words.children].map(line => line.textContent); {expression} }}")

    def lines(self):
        return self.run("lines()")

    def said(self):
        """What clients have said, in the order of the page."""
        return self.run("[...words.children].filter(line => line.number).map(line => line.textContent)")

    def wait(self, condition, seconds=20):
        """Until the condition holds, which is tried after each change of the page."""
        late = self.run(f"""new Promise(done => {{
            const timer = setTimeout(() => done(lines()), {seconds * 1000});
            const look = () => {condition} && (observer.disconnect(), clearTimeout(timer), done());
            const observer = new MutationObserver(look);
            observer.observe(document, {{subtree: true, childList: true, attributes: true}});
            look();
        }})""")
        assert late is None, f"not within {seconds} s: {condition}\n" + "\n".join(late)

    def wait_for(self, line, **how):
        self.wait(f"lines().includes({json.dumps(line)})", **how)

    def log_in(self, token, room="lobby", then=""):
        return self.run(f"enter.room.value = {json.dumps(room)}; enter.token.value = {json.dumps(token)}; enter.requestSubmit(); {then}")

    def enter(self, name, room="lobby", **claims):
        """Logs in, and waits until the client hears the room."""
        here = f"lines().filter(line => line === {json.dumps(f'{name} is here.')}).length"
        before = self.log_in(token_of(name, **claims), room, here)
        self.wait(f"!form.hidden && {here} > {before}")

    def say(self, text):
        self.run(f"form.text.value = {json.dumps(text)}; form.requestSubmit()")

    def has_left(self):
        return self.run("form.hidden")


class Guest:
    """A client in the lobby, which counts everything that it hears."""

    def enter(self, name):
        self.name = name
        self.heard = collections.Counter()  # messages and texts
        self.said = []  # texts
        self.hear(JOINED, name)

    def listen(self):
        self.hear_frame(self.next())

    def hear_frame(self, frame):
        assert frame is not None and frame.error is None, frame
        text = frame.body.decode()
        if frame.message == SAY:
            text = text.partition(" ")[2]  # without its number
            self.said.append(text)
        self.heard[frame.message, text] += 1

    def hear(self, message, text):
        """Reads until this has been heard."""
        while not self.heard[message, text]:
            self.listen()

    def speak(self, text):
        self.tell(SAY, text)
        self.hear(SAY, f"{self.name}: {text}")


class TcpGuest(Guest, frames.Client):
    next = frames.Client.receive

    def __init__(self, server, name, **claims):
        super().__init__(("127.0.0.1", port_of_frames(server)))
        assert self.call(TOKEN, token_of(name, **claims).encode(), 1) == Frame(TOKEN, b"", 1)
        self.enter(name)

    def tell(self, message, text):
        self.send(message, text.encode())

    def close(self):
        self.socket.close()

    def expect_refusal(self):
        """The error that says so, perhaps after other frames, and the end."""
        while (frame := self.next()).error is None:
            pass
        assert (frame.message, frame.error) == (TOKEN, UNAUTHORIZED)
        assert self.next() is None


class WebSocketGuest(Guest, WebSocket):
    def __init__(self, server, name, **claims):
        super().__init__(server.port, "/chat/lobby", f"Authorization: Bearer {token_of(name, **claims)}")
        self.enter(name)

    def next(self):
        frame = self.frame()
        assert frame.opcode == BINARY, frame
        return decode(frame.payload)

    def tell(self, message, text):
        self.say(BINARY, encode(message, text.encode()))


def port_of_frames(server):
    return int(re.search(r"frames   127\.0\.0\.1:(\d+) \(chat\)", server.log)[1])


def refused_over_tcp(server, token):
    with frames.Client(("127.0.0.1", port_of_frames(server))) as client:
        answer = client.call(TOKEN, token.encode(), 1)
        return answer.error == UNAUTHORIZED and client.receive() is None


def test_a_page_and_a_client_over_tcp(start, browse):
    server = start()
    page = browse(server)
    page.log_in(token_of("ada") + "x")
    page.wait_for(REFUSED)
    assert page.has_left()
    page.enter("ada")
    with TcpGuest(server, "bob") as bob, TcpGuest(server, "eve") as eve:
        page.wait_for("bob is here.")
        page.say("<b>hello</b> & grüße")
        bob.hear(SAY, "ada: <b>hello</b> & grüße")
        page.wait_for("ada: <b>hello</b> & grüße")
        bob.speak("hello, ada\nand all")
        page.wait_for("bob: hello, ada\nand all")

        page.say("/w bob psst")
        bob.hear(WHISPER, "ada: psst")
        bob.tell(WHISPER, "ada yes?")
        page.wait_for("(whispers) bob: yes?")
        bob.speak("that was all")  # after the whispers, on their way
        eve.hear(SAY, "bob: that was all")
        page.say("indeed")
        eve.hear(SAY, "ada: indeed")
        assert not [text for message, text in eve.heard if message == WHISPER]

        page.say("/w nobody")
        page.wait_for("Error: A name, and then the text.")
        page.say("a" * 4097)
        page.wait_for("Error: At most 4,096 bytes.")
        page.enter("ada", "kitchen")
        bob.hear(LEFT, "ada")
        page.say("anyone?")
        page.wait_for("ada: anyone?")
        bob.speak("in the lobby")
        page.enter("ada")
        page.wait_for("bob: in the lobby")
        assert not page.has_left()
        assert page.said() == ["ada: <b>hello</b> & grüße", "bob: hello, ada\nand all", "bob: that was all", "ada: indeed",
                               "bob: in the lobby"]
        assert not [line for line in page.lines() if line.startswith("The ")]  # about connections that it has left itself
    page.wait_for("bob has gone.")


def test_the_past_after_a_return(start, browse):
    server = start()
    page = browse(server)
    page.enter("ada")
    with TcpGuest(server, "bob") as bob:
        for n in range(8):
            bob.speak(f"line {n}")
        page.wait_for("bob: line 7")
        page.run("socket.close()")
        page.wait("form.hidden")
        assert page.lines()[-1].startswith("The connection has ended")
        bob.hear(LEFT, "ada")
        for n in range(8, 25):
            bob.speak(f"line {n}")
        page.enter("ada")
        page.wait_for("bob: line 24")
        every = [f"bob: line {n}" for n in range(25)]
        assert page.said() == every  # each once, although the past has lines that were shown

        page.page.reload()
        assert page.lines() == []
        page.enter("ada")
        page.wait_for("bob: line 24")
        assert page.said() == every[5:]
    with TcpGuest(server, "bob") as bob:
        bob.hear(SAY, "bob: line 24")
        assert bob.said == every[5:]


def test_a_token_expires(start, browse):
    server = start(auth_with('leeway = "0s"'))
    page = browse(server)
    with TcpGuest(server, "eve") as eve:
        ends = time.time() + 3
        with TcpGuest(server, "bob", exp=ends) as bob:
            page.enter("ada", exp=ends)
            bob.expect_refusal()
            assert time.time() >= ends
        page.wait_for(INVALID)
        assert page.has_left() and page.run("enter.token.value === '' && document.activeElement === enter.token")
        eve.hear(LEFT, "ada")
        eve.hear(LEFT, "bob")
        eve.speak("where are they?")
        page.enter("ada")
        page.say("here")
        eve.hear(SAY, "ada: here")
        page.wait_for("eve: where are they?")
        page.wait_for("ada: here")
        assert page.said() == ["eve: where are they?", "ada: here"]


def test_a_token_is_revoked(start, browse):
    server = start(auth_with('revocations = "revoked.jsonl"'))
    revoked, stays = browse(server), browse(server)
    revoked.enter("ada", jti="a")
    stays.enter("ada", jti="c")
    with TcpGuest(server, "bob", jti="b") as bob, TcpGuest(server, "bob", jti="d") as eve:
        assert revoke(server, "?jti=a&jti=b").status == 200
        since = time.monotonic()
        bob.expect_refusal()
        revoked.wait_for(INVALID, seconds=5)
        assert time.monotonic() - since < 5  # a second, and what a busy machine needs
        assert revoked.has_left()
        for name in ("ada", "bob"):
            eve.hear(LEFT, name)
            stays.wait_for(f"{name} has gone.")
        stays.say("still here")
        eve.hear(SAY, "ada: still here")

        revoked.log_in(token_of("ada", jti="a"))
        revoked.wait_for(REFUSED)
        assert refused_over_tcp(server, token_of("bob", jti="b"))
        revoked.enter("ada", jti="e")
        eve.speak("welcome back")
        revoked.wait_for("bob: welcome back")
        assert not stays.has_left()


def test_reloads_while_everybody_speaks(start, browse):
    def config(n):
        return routes().replace('"60/m"', f'"{60 + n}/m"') + (
            f'[[route]]\npath = "/generation/{n}"\nrespond = {{ status = 200, body = "{n}" }}\n')
    server = start(config(0))
    page = browse(server)
    with WebSocketGuest(server, "first") as first:
        first.speak("start")
    page.enter("ada")
    guests = [(TcpGuest if n % 2 else WebSocketGuest)(server, f"guest{n}") for n in range(8)]
    for guest in guests:
        guest.hear(SAY, "first: start")  # a line of the past, which has been told before the others begin
    page.wait_for("first: start")
    page.run("window.before = socket")
    sessions = server.sample(OPEN), server.sample(ACCEPTED)
    said = {guest.name: [] for guest in guests}
    enough = threading.Event()

    def talk(guest):
        while not enough.is_set():
            guest.speak(f"line {len(said[guest.name])}")
            said[guest.name].append(f"{guest.name}: line {len(said[guest.name])}")
            time.sleep(0.05)  # so that the browser can follow

    with concurrent.futures.ThreadPoolExecutor(len(guests)) as threads:
        speakers = [threads.submit(talk, guest) for guest in guests]

        def wait_for_lines():
            """Until each guest has said five more lines, or one has failed."""
            before = {name: len(lines) for name, lines in said.items()}
            until(lambda: any(each.done() for each in speakers) or all(len(said[name]) >= before[name] + 5 for name in said))
        try:
            for n in range(1, 7):
                wait_for_lines()
                page.say(f"reload {n}")
                server.file.write_text(server.file.read_text().replace(config(n - 1), config(n)))
                if n % 2:
                    assert reload(server)[0] == 200
                else:
                    server.process.send_signal(signal.SIGHUP)
                until(lambda: server.get(f"/generation/{n}").status == 200)
                page.wait_for(f"ada: reload {n}")
            wait_for_lines()
        finally:
            enough.set()
        for each in speakers:
            each.result()
    lines = [line for name in said for line in said[name]] + [f"ada: reload {n}" for n in range(1, 7)]
    for guest in guests:
        for line in lines:
            guest.hear(SAY, line)
    page.say("end")  # nothing comes twice until then
    lines.append("ada: end")
    for guest in guests:
        guest.hear(SAY, "ada: end")
        assert sorted(guest.said) == sorted([*lines, "first: start"])
        assert not [text for message, text in guest.heard if message == LEFT and text != "first"]
    page.wait_for("ada: end")
    assert sorted(page.said()) == sorted([*lines, "first: start"])
    assert page.run("socket === before && socket.readyState === WebSocket.OPEN")
    assert (server.sample(OPEN), server.sample(ACCEPTED)) == sessions
    with TcpGuest(server, "late") as late:
        late.hear(SAY, "ada: end")
        assert late.said == page.said()[-20:]  # the page has the order of the database
    for guest in guests:
        guest.close()


def test_the_program_ends(start, browse):
    quick = 'cores = 2\ngrace = "2s"'  # clients over TCP are closed within half of it
    server = start(server=quick)
    page = browse(server)
    page.enter("ada")
    bobs = [TcpGuest(server, "bob") for _ in range(3)]
    eves = [WebSocketGuest(server, "eve") for _ in range(8)]
    bobs[0].speak("hello")
    page.wait_for("bob: hello")
    for n in range(12):
        eves[0].tell(SAY, f"line {n}")
    server.terminate()
    for eve in eves:
        while (frame := eve.frame()).opcode == BINARY:
            eve.hear_frame(decode(frame.payload))
        assert (frame.opcode, frame.code) == (CLOSE, 1001)
        eve.say(CLOSE, close_payload(1001))
        eve.assert_closed()
        eve.close()
    for bob in bobs:
        while (frame := bob.next()) is not None:
            bob.hear_frame(frame)
        bob.close()
    page.wait_for("The connection has ended (1001). Enter again to come back.")
    assert page.has_left()
    server.stop()  # with the exit status 0

    later = browse(start(server=quick))
    later.enter("ada")
    for heard in (page.said(), *(guest.said for guest in bobs + eves)):
        for line in heard:
            later.wait_for(line)
    kept = later.said()
    assert kept == ["bob: hello", *(f"eve: line {n}" for n in range(len(kept) - 1))]
