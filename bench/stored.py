"""Stored results: results/NAME.json holds the figures of one run, with its machine and commit. From them come the tables of
results/NAME.md and the blocks of the documents, which begin with `<!-- figures: NAME -->` and end with `<!-- end -->`.

usage: stored.py [--check]      writes all blocks again; --check only says which ones differ, and ends with 1 if any does
"""
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build/release"))
RESULTS = ROOT / "bench/results"
QUIET = 0.05  # the part of the CPUs that other programs may take
BLOCK = re.compile(r"(<!-- figures: ([\w.-]+) -->\n).*?(<!-- end -->)", re.S)


def busy():
    """The part of the CPUs that other programs take."""
    def times():
        numbers = [int(number) for number in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]  # all; idle, and waiting for a disk
    before = times()
    time.sleep(1)
    after = times()
    return 1 - (after[1] - before[1]) / max(after[0] - before[0], 1)


def _output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _caches():
    """Such as "L1d 32K, L2 512K, L3 32768K"."""
    found = {}
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found[f'L{level}{"d" if kind == "Data" else ""}'] = size
    return ", ".join(f"{name} {size}" for name, size in found.items()) or "unknown"


def about():
    """The machine and the commit. Call it before the run: `other programs` is the part of the CPUs that they take now."""
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    memory = int(re.search(r"^MemTotal:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)[1])
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]
    changed = _output("git", "status", "--porcelain", "--untracked-files=no", "--", "src", "cmake", "CMakeLists.txt", ":!*.md")
    return {
        "CPU": f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} of them; {_caches()}",
        "memory": f"{memory / 1024 ** 2:.1f} GiB",
        "kernel": platform.release(),
        "compiler": _output(compiler, "--version").splitlines()[0],
        "commit": _output("git", "rev-parse", "--short", "HEAD") + (" and changes" if changed else ""),
        "date": str(datetime.date.today()),
        "other programs": f"{busy():.0%} of the CPUs",
    }


def table(head, rows):
    """Of markdown; `rows` of any values."""
    return ["| " + " | ".join(map(str, head)) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |" for row in rows)]


def about_lines(told):
    return ["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in told.items())]


def is_quiet(told):
    return float(told["other programs"].split("%")[0]) / 100 <= QUIET


def store(name, told, figures, **more):
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({"about": told, **more, "figures": figures}, indent=1) + "\n")


def load(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def documents():
    return [ROOT / "README.md", ROOT / "bench/README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(RESULTS.glob("*.md"))]


def filled(text, render):
    """The document with its blocks written again. `render` maps the name of a block to its lines."""
    return BLOCK.sub(lambda block: block[1] + "\n".join(["", *render(block[2]), ""]) + "\n" + block[3], text)


def main():
    from pages import render
    wrong = []
    for document in documents():
        text = document.read_text()
        if (now := filled(text, render)) != text:
            wrong.append(str(document.relative_to(ROOT)))
            if "--check" not in sys.argv:
                document.write_text(now)
    for name in wrong:
        print(f"{name}: its figures are not those of bench/results" if "--check" in sys.argv else f"written: {name}")
    return 1 if wrong and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
