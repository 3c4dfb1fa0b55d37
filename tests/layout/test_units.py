"""The systemd units of packaging/."""
import pathlib
import shutil
import subprocess

import pytest

PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging"

if shutil.which("systemd-analyze") is None:
    pytest.skip("there is no systemd-analyze", allow_module_level=True)


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60)


def test_the_service_is_hardened():
    done = analyze("security", "--offline=true", "--threshold=20", str(PACKAGING / "sluice.service"))
    assert done.returncode == 0, done.stdout[-200:] + done.stderr


def test_the_units_have_no_errors(tmp_path):
    units = [tmp_path / name for name in ("sluice.service", "sluice.socket")]
    for unit in units:
        unit.write_text((PACKAGING / unit.name).read_text().replace("/usr/bin/sluice", "/bin/true"))
    done = analyze("verify", "--recursive-errors=no", *map(str, units))
    assert done.returncode == 0 and done.stderr == "", done.stderr
