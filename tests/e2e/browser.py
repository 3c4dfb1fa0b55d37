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
            while b"\0" not in self.buffer:
                left = end - time.monotonic()
                assert left > 0 and select.select([self.answers], [], [], left)[0], f"no answer to {method} in {seconds} s"
                got = os.read(self.answers, 1 << 20)
                assert got, "the browser has ended"
                self.buffer += got
            message, self.buffer = self.buffer.split(b"\0", 1)
            message = json.loads(message)
            if message.get("id") != self.last:
                self.events.append(message)
                continue
            assert "error" not in message, message
            return message["result"]

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

    def close(self):
        self.browser.ask("Target.closeTarget", targetId=self.target)
