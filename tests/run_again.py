#!/usr/bin/env python3
"""Runs tests, and runs the failed ones once more, alone. Tests that pass the second time are named in lines "FLAKY name", and the
run passes. A test that fails twice fails the run, and so does a crash.

usage: run_again.py pytest ARGUMENT...
       run_again.py gtest PROGRAM
"""
import json
import pathlib
import subprocess
import sys
import tempfile

MOST_FAILURES = 10  # more failures than that are a defect, and a second run would only take time
TESTS_FAILED = 1  # pytest's exit code; its other codes are not about single tests


def pytest_failures(cache):
    """The node ids that pytest's cache names as failed."""
    path = cache / "v/cache/lastfailed"
    return set(json.loads(path.read_text())) if path.exists() else set()


def run_pytest(arguments, folder):
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={folder}", *arguments]
    code = subprocess.run(command).returncode
    failed = pytest_failures(folder)
    if code != TESTS_FAILED or not 0 < len(failed) <= MOST_FAILURES:
        return code, set()
    print(f"Runs {len(failed)} failed tests again.", flush=True)
    parallel = ["-n", "0"] if "-n" in arguments else []
    code = subprocess.run([*command, *parallel, "--last-failed", "--last-failed-no-failures", "none"]).returncode
    return code, failed - pytest_failures(folder)


def gtest_failures(report):
    """The names of the failed tests; None if the program ended before it wrote its report."""
    if not report.exists():
        return None
    suites = json.loads(report.read_text())["testsuites"]
    return {f"{suite['name']}.{test['name']}" for suite in suites for test in suite["testsuite"] if "failures" in test}


def run_gtest(program, folder):
    report = folder / "report.json"
    command = [program, f"--gtest_output=json:{report}"]
    code = subprocess.run(command).returncode
    failed = gtest_failures(report) if code else None
    if not failed or len(failed) > MOST_FAILURES:
        return code, set()
    print(f"Runs {len(failed)} failed tests again.", flush=True)
    report.unlink()
    code = subprocess.run([*command, "--gtest_filter=" + ":".join(sorted(failed))]).returncode
    again = gtest_failures(report)
    return code, set() if again is None else failed - again


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("pytest", "gtest"):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if sys.argv[1] == "pytest":
            code, flaky = run_pytest(sys.argv[2:], folder)
        else:
            code, flaky = run_gtest(sys.argv[2], folder)
    for name in sorted(flaky):
        print(f"FLAKY {name}")
    sys.exit(code if code >= 0 else 1)


if __name__ == "__main__":
    main()
