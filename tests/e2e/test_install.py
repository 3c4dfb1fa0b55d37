"""The installed library, as projects outside of the tree use it: the guide's, examples/services, and one with a schema."""
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess
import time

import pytest

from browser import Chromium
from cluster import free_port
from conftest import ROOT, SLUICE
from frames import Client, Frame
from test_pages import BLOCK, Reader

GUIDE = ROOT / "docs/guide/services.md"
BUILD = pathlib.Path(SLUICE).parent
pytestmark = pytest.mark.timeout(600)  # it compiles


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def of_this_build(name):
    """A variable in the cache of this build."""
    return re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]


@pytest.fixture(scope="module")
def environment():
    """With the compiler and the linker of this build."""
    return {**os.environ, "CMAKE_GENERATOR": "Ninja", "CXX": of_this_build("CMAKE_CXX_COMPILER"),
            "LDFLAGS": of_this_build("CMAKE_EXE_LINKER_FLAGS")}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", folder / "first")
    shutil.move(folder / "first", folder / "moved")  # a package may be unpacked anywhere
    return folder / "moved"


@pytest.fixture(scope="module")
def built(prefix, environment, tmp_path_factory):
    """built(source): the folder with the programs of this project."""
    def build(source):
        folder = tmp_path_factory.mktemp("built")
        run("cmake", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", env=environment)
        run("cmake", "--build", folder)
        return folder
    return build


@pytest.fixture(scope="module")
def examples(built, tmp_path_factory):
    source = tmp_path_factory.mktemp("services")
    shutil.copytree(ROOT / "examples/services", source, dirs_exist_ok=True)
    return built(source)


def test_the_program(prefix):
    assert run(prefix / "bin/sluice", "--version").startswith("sluice ")


def test_headers_of_tests_are_not_installed(prefix):
    headers = list(prefix.rglob("*.h"))
    assert prefix / "include/sluice/services/host.h" in headers
    assert not [header for header in headers if "gtest" in header.read_text()]


def test_echo(examples):
    port = free_port()
    with subprocess.Popen([examples / "echo", f"127.0.0.1:{port}"]) as echo:
        try:
            end = time.monotonic() + 20
            while True:
                try:
                    client = Client(("127.0.0.1", port))
                    break
                except ConnectionRefusedError:
                    assert time.monotonic() < end and echo.poll() is None
                    time.sleep(0.02)
            with client:
                assert client.call(7, b"hello", 42) == Frame(7, b"hello", 42)
        finally:
            echo.terminate()
    assert echo.returncode == 0


def test_a_query_as_csj(examples, postgres):
    query = "SELECT n AS id, repeat('x', n % 100) || E'\\n' AS text, NULLIF(n % 2, 0) AS odd FROM generate_series(1, 20000) n"
    lines = run(examples / "stream_csj", postgres.url(), query).splitlines()
    assert lines[0] == '"id","text","odd"'
    assert lines[1:] == [f'{n},"{"x" * (n % 100)}\\n",{1 if n % 2 else "null"}' for n in range(1, 20001)]


@pytest.mark.parametrize("url, query, text", [(None, "SELECT nothing", 'column "nothing" does not exist'),
                                              (None, "SELECT 1 / (3 - n) FROM generate_series(1, 3) n", "division by zero"),
                                              ("mysql://localhost", "SELECT 1", "postgres://")])
def test_errors_of_a_query(examples, postgres, url, query, text):
    done = subprocess.run([examples / "stream_csj", url or postgres.url(), query], capture_output=True, text=True)
    assert done.returncode == 1 and text in done.stderr


def test_a_schema(built, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("""
cmake_minimum_required(VERSION 3.25)
project(login LANGUAGES CXX)
find_package(sluice 0.2 REQUIRED)
add_executable(login login.cc)
target_link_libraries(login PRIVATE sluice::msg)
sluice_flatbuffers(TARGET login SCHEMAS login.fbs)
""")
    (tmp_path / "login.fbs").write_text("table Login { name: string (required); }\n")
    (tmp_path / "login.cc").write_text("""
#include "login.fbs.h"
#include "msg/flatbuffer.h"

int main() {
  alignas(8) std::byte body[64] = {};
  return sluice::msg::verified<Login>(body) == nullptr ? 0 : 1;
}
""")
    run(built(tmp_path) / "login")


def test_a_program_with_services(prefix, built, tmp_path):
    """examples/chat-server, built outside of the tree; test_program.py runs the same program."""
    shutil.copytree(ROOT / "examples/chat-server", tmp_path / "chat-server")
    program = built(tmp_path / "chat-server") / "chat"
    assert run(program, "--version").startswith("sluice ")
    folder = tmp_path / "chat-server"
    with sqlite3.connect(folder / "chat.db") as database:
        database.executescript((folder / "schema.sqlite.sql").read_text())
    database.close()
    environment = {**os.environ, "CHAT_SECRET": "0123456789abcdef0123456789abcdef"}
    assert run(program, "check", cwd=folder, env=environment) == "sluice.toml: ok\n"
    run("g++", "-std=c++23", "-fsyntax-only", "-I", prefix / "include/sluice", folder / "chat.cc")


AWAITS = """
#include <string>
#include "msg/context.h"
using namespace sluice;
struct Other : msg::Service {};
core::Task<void> ask(msg::Context& context, std::string text) {
  %s
}
"""
DEADLINE = "context.reactor().now() + std::chrono::seconds(1)"


@pytest.mark.parametrize("code, compiles", [
    (f"(void)co_await context.call<Other>(1, {DEADLINE}, [text](Other&) {{ return text; }});", False),
    (f"(void)co_await context.post<Other>(1, {DEADLINE}, [text](Other&) {{}});", False),
    ("(void)co_await context.block([text] { return text; });", False),
    (f"auto fn = [text](Other&) {{ return text; }}; (void)co_await context.call<Other>(1, {DEADLINE}, fn);", True),
    (f"auto fn = [text](Other&) {{}}; (void)co_await context.post<Other>(1, {DEADLINE}, fn);", True),
    ("auto work = [text] { return text; }; (void)co_await context.block(work);", True),
    (f"int n = 1; (void)co_await context.call<Other>(1, {DEADLINE}, [n](Other&) {{ return n; }});", True)])
def test_gcc_does_not_take_functions_that_it_would_destroy_twice(prefix, tmp_path, code, compiles):
    (tmp_path / "ask.cc").write_text(AWAITS % code)
    done = subprocess.run(["g++", "-std=c++23", "-fsyntax-only", "-w", "-I", prefix / "include/sluice", tmp_path / "ask.cc"],
                          capture_output=True, text=True)
    assert (done.returncode == 0) == compiles, done.stderr
    assert compiles or "with g++, name the function" in done.stderr, done.stderr


def test_the_guide_works_as_pasted(prefix, environment, tmp_path):
    (tmp_path / "sluice").symlink_to(prefix)
    reader = Reader(tmp_path, None)
    reader.environment |= {**environment, "HOME": str(tmp_path)}
    browser = page = None
    try:
        for what, name, language, text in BLOCK.findall(GUIDE.read_text()):
            if name:
                reader.write(name, text, what == "append")
            elif language == "sh":
                reader.run(text)
            elif language == "js" and page is None:
                browser = Chromium(tmp_path)
                page = browser.open(f"http://127.0.0.1:{reader.ports[9002]}/")
                page.run("shown = new Promise(done => console.log = done); 0")
                page.run(text)
                page.run("new Promise((done, failed) => { socket.onclose = failed; socket.readyState == 1 ? done() : "
                         "socket.onopen = () => done(); })")
            elif language == "js":
                page.run(text)
                assert f"\n```\n{page.run('shown')}\n```\n" in GUIDE.read_text()
        assert page
    finally:
        if browser:
            browser.close()
        ended = reader.end()
    assert ended == [0, 0, 0]


def test_the_guide_shows_the_examples():
    shown = {name: text for _, name, _, text in BLOCK.findall(GUIDE.read_text())}
    for name in ("echo.cc", "broadcast.cc"):
        assert shown[name] == (ROOT / "examples/services" / name).read_text()
