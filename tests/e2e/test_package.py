"""The packages of `make package`: what is in them, and that their program needs glibc alone."""
import json
import pathlib
import re
import subprocess
import tarfile

import pytest

from cluster import free_port
from conftest import ROOT, until

PACKAGES = ROOT / "build/package/packages"
VERSION = re.search(r"project\(sluice VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
GLIBC = (2, 34)
MEGABYTE = 1 << 20


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tarball():
    return PACKAGES / f"sluice-{VERSION}-linux-x86_64.tar.xz"


@pytest.fixture(scope="module")
def unpacked(tarball, tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    with tarfile.open(tarball) as archive:
        archive.extractall(folder)
    return folder / tarball.name.removesuffix(".tar.xz")


@pytest.fixture(scope="module")
def deb():
    return PACKAGES / f"sluice_{VERSION}_amd64.deb"


def test_the_program_needs_glibc_alone(unpacked):
    headers = run("objdump", "-p", unpacked / "bin/sluice")
    needed = set(re.findall(r"NEEDED\s+(\S+)", headers))
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    newest = max(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", run("objdump", "-T", unpacked / "bin/sluice")))
    assert newest <= GLIBC
    assert "GLIBCXX" not in headers


def test_sizes(tarball, deb, unpacked):
    assert (unpacked / "bin/sluice").stat().st_size <= 16 * MEGABYTE  # libraries: nine
    assert tarball.stat().st_size <= 6 * MEGABYTE
    assert deb.stat().st_size <= 6 * MEGABYTE


def test_the_tarball(unpacked):
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert {"bin/sluice", "share/man/man1/sluice.1", "share/bash-completion/completions/sluice", "share/zsh/vendor-completions/_sluice",
            "share/fish/vendor_completions.d/sluice.fish", "share/sluice/sluice.toml", "share/sluice/sluice.service",
            "share/sluice/sluice.socket", "share/doc/sluice/LICENSE", "share/doc/sluice/CHANGELOG.md",
            "share/doc/sluice/licences/libssl-dev"} <= files
    assert not [name for name in files if name.endswith((".a", ".h"))]


def test_the_debug_symbols_are_those_of_the_program(unpacked):
    with tarfile.open(PACKAGES / f"{unpacked.name}-debug.tar.xz") as archive:
        archive.extractall(unpacked.parent / "debug")
    symbols = next((unpacked.parent / "debug").rglob("sluice.debug"))
    of_program, of_symbols = (re.search(r"Build ID: (\w+)", run("readelf", "-n", file))[1] for file in (unpacked / "bin/sluice", symbols))
    assert of_program == of_symbols


def test_the_version(unpacked):
    text = run(unpacked / "bin/sluice", "--version")
    assert re.match(rf"sluice {re.escape(VERSION)} \([0-9a-f]{{7,}}(-dirty)?\)\ncompiler: .*[Cc]lang.*\nlibraries: glibc 2\.\d+, OpenSSL 3\.", text)


def test_the_program_serves_its_sample(unpacked, tmp_path):
    port, admin = free_port(), free_port()
    text = (unpacked / "share/sluice/sluice.toml").read_text()
    (tmp_path / "sluice.toml").write_text(text.replace(":8080", f":{port}").replace(":8081", f":{admin}"))
    program = unpacked / "bin/sluice"
    run(program, "check", tmp_path / "sluice.toml")
    readyz = f"http://127.0.0.1:{admin}/readyz"
    with subprocess.Popen([program, "serve", tmp_path / "sluice.toml"], cwd=tmp_path) as server:
        try:
            until(lambda: subprocess.run([program, "health", readyz], capture_output=True).returncode == 0)
            assert run("curl", "-sf", f"http://127.0.0.1:{port}/").startswith("Sluice runs.")
        finally:
            server.terminate()
    assert server.returncode == 0
    refused = subprocess.run([program, "health", readyz], capture_output=True, text=True)
    assert (refused.returncode, refused.stderr) == (1, f"sluice: {readyz}: cannot connect to the server: Connection refused\n")


def test_the_deb(deb, tmp_path):
    fields = run("dpkg-deb", "--field", deb)
    assert {"Package: sluice", f"Version: {VERSION}", "Depends: adduser, libc6 (>= 2.34)"} <= set(fields.splitlines())
    run("dpkg-deb", "--raw-extract", deb, tmp_path / "deb")
    control = tmp_path / "deb/DEBIAN"
    assert (control / "conffiles").read_text() == "/etc/sluice/sluice.toml\n"
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", control / script)
        assert (control / script).stat().st_mode & 0o111
    for file in ("etc/sluice/sluice.toml", "lib/systemd/system/sluice.service", "usr/bin/sluice", "usr/share/man/man1/sluice.1",
                 "usr/share/bash-completion/completions/sluice"):
        assert (tmp_path / "deb" / file).is_file(), file


def test_the_library_is_another_package(tmp_path):
    file = PACKAGES / f"libsluice-dev_{VERSION}_amd64.deb"
    names = run("dpkg-deb", "--contents", file)
    assert "./usr/include/sluice/services/host.h" in names
    assert "sluiceConfig.cmake" in names
    assert "libsluice_services.a" in names
    assert "bin/sluice" not in names


def test_completions(unpacked, tmp_path):
    share = unpacked / "share"
    script = share / "bash-completion/completions/sluice"

    def complete(*words):
        return run("bash", "-c", f"source {script}; COMP_WORDS=(sluice \"$@\"); COMP_CWORD=$#; _sluice; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                   "bash", *words, cwd=tmp_path).split()

    assert {"serve", "check", "store"} <= set(complete(""))
    assert "--version" in complete("--v")
    assert complete("rel") == ["reload"]
    assert complete("store", "") == ["gc"]
    assert set(complete("store", "gc", "--")) == {"--dry-run", "--url", "--help"}
    (tmp_path / "films.toml").touch()
    assert "films.toml" in complete("serve", "fi")
    run("zsh", "-n", share / "zsh/vendor-completions/_sluice")
    run("fish", "-n", share / "fish/vendor_completions.d/sluice.fish")
    words = run("fish", "-c", f"source {share / 'fish/vendor_completions.d/sluice.fish'}; complete -C 'sluice reload --a'")
    assert words.startswith("--admin")


def test_the_manual(unpacked):
    page = unpacked / "share/man/man1/sluice.1"
    run("mandoc", "-T", "lint", "-Wunsupp", page)
    text = run("mandoc", "-T", "ascii", page)
    assert re.search("sluice.*store gc", re.sub(".\b", "", text))


def test_the_container_uses_the_tarball(tarball):
    text = (ROOT / "examples/container/Containerfile").read_text()
    assert f"sluice-{VERSION}-linux-x86_64" in text
    health = re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", text, re.M)[1]
    assert json.loads(health)[:2] == ["sluice", "health"]
    assert pathlib.Path(tarball).exists()
