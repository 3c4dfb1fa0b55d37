"""tests/run_again.py: a test that passes the second time is named, and one that fails twice fails the run."""
import pathlib
import subprocess
import sys

RUN_AGAIN = pathlib.Path(__file__).resolve().parents[1] / "run_again.py"
FLAKY = """
import pathlib
def test_flaky():
    mark = pathlib.Path(__file__).with_suffix(".mark")
    passes = mark.exists()
    mark.touch()
    assert passes
def test_good():
    pass
"""


def run(folder):
    return subprocess.run([sys.executable, RUN_AGAIN, "pytest", "-q", folder], capture_output=True, text=True)


def test_a_test_that_passes_alone_is_flaky(tmp_path):
    (tmp_path / "test_one.py").write_text(FLAKY)
    result = run(tmp_path)
    assert result.returncode == 0, result
    assert result.stdout.splitlines()[-1].startswith("FLAKY ") and result.stdout.rstrip().endswith("::test_flaky"), result


def test_a_test_that_fails_twice_fails_the_run(tmp_path):
    (tmp_path / "test_one.py").write_text(FLAKY)
    (tmp_path / "test_two.py").write_text("def test_bad():\n    assert False\n")
    result = run(tmp_path)
    assert result.returncode == 1, result
    assert "::test_flaky" in result.stdout.splitlines()[-1] and result.stdout.count("FLAKY") == 1, result


def test_an_error_of_pytest_is_not_run_again(tmp_path):
    assert run(tmp_path / "missing").returncode == 4
