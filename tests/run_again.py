#!/usr/bin/env python3
"""Runs tests, and runs the failed ones once more, alone. Tests that pass the second time are named in lines "FLAKY name", and the
run passes. A test that fails twice fails the run, and so does a crash. A gtest that hangs has failed: its threads' stacks are
printed, and the tests after it run too.

usage: run_again.py pytest ARGUMENT...
       run_again.py gtest PROGRAM
"""
import contextlib
import json
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile

MOST_FAILURES = 10  # more failures than that are a defect, and a second run would only take time
SILENCE = 300  # seconds without a line from a gtest program, which prints two for each test: it hangs
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


def print_stacks(pid):
    """Prints the stacks of a program's threads, if there is a debugger."""
    if not shutil.which("gdb"):
        print("There is no gdb to show its stacks.", flush=True)
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace"], timeout=SILENCE)


def run_watched(command):
    """Runs a gtest program. Returns its code, the names of the tests that passed, and the one that hung, or None."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
    passed, running = [], None
    while True:
        readable, _, _ = select.select([process.stdout], [], [], SILENCE)
        line = process.stdout.readline() if readable else None
        if line == b"":
            return process.wait(), passed, None
        if line is None:
            print(f"{running} hangs.", flush=True)
            print_stacks(process.pid)
            process.kill()
            process.wait()
            return 1, passed, running
        sys.stdout.buffer.write(line)
        sys.stdout.flush()
        words = line.decode(errors="replace").split()
        if words[:3] == ["[", "RUN", "]"]:
            running = words[3]
        elif words[:3] == ["[", "OK", "]"]:
            passed.append(words[3])


def run_gtest(program, folder):
    report = folder / "report.json"
    command = [program, f"--gtest_output=json:{report}"]
    code, passed, hung = run_watched(command)
    if hung:
        command.append("--gtest_filter=-" + ":".join(passed))
    else:
        failed = gtest_failures(report) if code else None
        if not failed or len(failed) > MOST_FAILURES:
            return code, set()
        command.append("--gtest_filter=" + ":".join(sorted(failed)))
    print("Runs the tests that have not passed." if hung else f"Runs {len(failed)} failed tests again.", flush=True)
    report.unlink(missing_ok=True)
    code, _, hung_again = run_watched(command)
    again = gtest_failures(report)
    if again is None or hung_again:
        return code or 1, set()
    return code, {hung} - again if hung else failed - again


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
