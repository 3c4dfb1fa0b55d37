"""Headless Chromium, driven over a pipe by its DevTools protocol."""
import json
import os
import select
import shutil
import signal
import subprocess
import time


class Chromium:
    """One browser for many pages. `trusted` lists public keys (RFC 7469 fingerprints) that need no certificate authority."""

    def __init__(self, folder, trusted=()):
        program = shutil.which("chromium")
        assert program, "chromium is missing: scripts/bootstrap test"
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        script = f"exec 3<&{to_browser} 4>&{from_browser} {to_browser}<&- {from_browser}>&-; exec \"$@\""
        self.log = open(folder / "chromium.log", "wb")
        self.process = subprocess.Popen(
            ["bash", "-c", script, "chromium", program, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--no-first-run",
             "--autoplay-policy=no-user-gesture-required", f"--user-data-dir={folder}/profile", "--remote-debugging-pipe",
             f"--ignore-certificate-errors-spki-list={','.join(trusted)}"],
            stdout=self.log, stderr=self.log, pass_fds=(to_browser, from_browser), start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.last = 0
        self.events = []

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.log.close()

    def ask(self, method, session=None, seconds=60, **parameters):
        """Sends a command and returns its result."""
        self.last += 1
        command = {"id": self.last, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        end = time.monotonic() + seconds
        while True:
            message = self.receive(end, f"no answer to {method} in {seconds} s")
            if message.get("id") != self.last:
                self.events.append(message)
                continue
            assert "error" not in message, message
            return message["result"]

    def receive(self, end, otherwise):
        """The browser's next message: an answer or an event."""
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.answers], [], [], left)[0], otherwise
            got = os.read(self.answers, 1 << 20)
            assert got, "the browser has ended"
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, url):
        """Opens a page and returns it when it has loaded."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, target, self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        went = self.ask("Page.navigate", page.session, url=url)
        assert "errorText" not in went, went
        page.run("new Promise(done => document.readyState == 'complete' ? done() : addEventListener('load', done))")
        return page


class Page:
    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session

    def run(self, expression):
        """The value of the expression; if it is a promise, the value that it resolves to."""
        result = self.browser.ask("Runtime.evaluate", self.session, expression=expression, awaitPromise=True,
                                  returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def reload(self):
        """Loads the page again, and returns when it has loaded."""
        loaded = {"method": "Page.loadEventFired", "sessionId": self.session}
        self.browser.ask("Page.enable", self.session)
        self.browser.events.clear()
        self.browser.ask("Page.reload", self.session)
        end = time.monotonic() + 60
        while not any(loaded.items() <= event.items() for event in self.browser.events):
            self.browser.events.append(self.browser.receive(end, "the page was not loaded in 60 s"))
        self.browser.ask("Page.disable", self.session)

    def close(self):
        self.browser.ask("Target.closeTarget", targetId=self.target)
