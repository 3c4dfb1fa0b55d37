"""README.md and the tutorials, from the first block to the last in an empty folder, as a reader would paste them.

A comment above a block says what it is for: `<!-- file: NAME -->` writes it to a file, `<!-- append: NAME -->` appends it, and
`<!-- sqlite -->`, `<!-- postgres -->`, `<!-- sqlite: NAME -->`, `<!-- postgres: NAME -->` are for one database. Blocks of `sh` are
run; after a line `$ command` comes the output of the command, in which `...` stands for any text. `<!-- eventually -->`: the command
is repeated until its output is the expected one.
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from cluster import free_port
from conftest import ROOT, SLUICE

README, TUTORIAL, GATEWAY = ROOT / "README.md", ROOT / "docs/guide/tutorial.md", ROOT / "docs/guide/gateway-tutorial.md"
BLOCK = re.compile(r"^(?:<!-- (\w+)(?:: (\S+))? -->\n)?```(\w+)\n(.*?)^```$", re.M | re.S)


class Reader:
    def __init__(self, folder, url):
        self.folder, self.url, self.started = folder, url, []
        self.ports = {port: free_port() for port in (3001, 3002, 3003, 3004, 8080, 8081, 9000, 9001, 9002, 9003)}
        (folder / "bin").mkdir()
        (folder / "bin/sluice").symlink_to(pathlib.Path(SLUICE).resolve())
        self.environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}

    def own(self, text):
        """The text with the ports and the database of this test."""
        for port, own in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(own), text)
        text = re.sub(r"\bkill %(\d)", lambda job: f"kill {self.started[int(job[1]) - 1].pid}", text)
        text = text.replace("sluice reload", f"sluice reload --admin http://127.0.0.1:{self.ports[8081]}")
        if self.url:
            text = text.replace('"sqlite:shop.db"', f'"{self.url}"').replace("postgres://postgres@localhost/shop", self.url)
        return text

    def write(self, name, text, appends):
        file = self.folder / name
        if name == "sluice.toml" and not appends:
            own = f'[server]\nlisten = ["127.0.0.1:{self.ports[8080]}"]\n'
            admin = "" if "[admin]" in text else f'[admin]\nlisten = "127.0.0.1:{self.ports[8081]}"\n'
            text = own + admin + text
        with open(file, "a" if appends else "w") as to:
            to.write(self.own(text))

    def run(self, script, eventually=False):
        commands = re.split(r"^\$ ", script, flags=re.M) if script.startswith("$ ") else None
        for command, _, expected in [one.partition("\n") for one in commands[1:]] if commands else [(script, "", None)]:
            lines = command.splitlines()
            for line in [line for line in lines if line.endswith(" &")]:
                self.start(self.own(line[:-2]))
            command = self.own("\n".join(line for line in lines if not line.endswith(" &")))
            for attempt in range(100 if eventually else 1):
                time.sleep(0.1 if attempt else 0)
                done = subprocess.run(["bash", "-ec", re.sub(r"\bcurl ", "curl -s ", command)], cwd=self.folder,
                                      env=self.environment, capture_output=True, text=True, timeout=60)
                output = done.stdout.replace("\r", "").strip()
                if not eventually or self.is_expected(output, expected):
                    break
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
            if expected is not None:
                assert self.is_expected(output, expected), f"{command}: {output}"

    def is_expected(self, output, expected):
        pattern = re.escape(self.own(expected).strip()).replace(re.escape("..."), ".*")
        return re.fullmatch(pattern, output) is not None

    def start(self, command):
        self.started.append(subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment))
        named = [int(number) for number in re.findall(r"\d+", command)]
        end = time.monotonic() + 30
        for port in [port for port in self.ports.values() if port in named] or [self.ports[8080]]:
            while True:
                assert self.started[-1].poll() is None, f"{command}: ended with {self.started[-1].returncode}"
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    assert time.monotonic() < end, f"{command}: does not answer"
                    time.sleep(0.05)

    def end(self):
        for each in self.started:
            each.send_signal(signal.SIGTERM)
        return [each.wait(30) for each in self.started]


@pytest.mark.parametrize("page, kind", [(README, "sqlite"), (TUTORIAL, "sqlite"), (TUTORIAL, "postgres"), (GATEWAY, "sqlite")],
                         ids=["README", "tutorial-sqlite", "tutorial-postgres", "gateway-tutorial"])
def test_a_page_works_as_pasted(request, tmp_path, page, kind):
    url = None
    if kind == "postgres":
        cluster = request.getfixturevalue("postgres")
        cluster.psql("DROP DATABASE IF EXISTS shop WITH (FORCE)")
        cluster.psql("CREATE DATABASE shop")
        url = cluster.url("shop")
    reader = Reader(tmp_path, url)
    ran = 0
    try:
        for what, name, language, text in BLOCK.findall(page.read_text()):
            if what in ("sqlite", "postgres") and what != kind:
                continue
            if name:
                reader.write(name, text, what == "append")
            elif language == "sh":
                reader.run(text, what == "eventually")
                ran += 1
        assert ran >= 4
    finally:
        reader.end()
