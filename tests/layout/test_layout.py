"""The structure of src/, as src/README.md states it."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
README = (SRC / "README.md").read_text()
SOURCES = sorted([*SRC.rglob("*.h"), *SRC.rglob("*.cc")])


def ranks():
    """Each module's place in the layer line; siblings share one."""
    line = re.search(r"^`(base < .* < app)`$", README, re.M)
    assert line, "src/README.md has no layer line"
    layers = [re.findall(r"\w+", layer) for layer in line.group(1).split("<")]
    return {module: rank for rank, layer in enumerate(layers) for module in layer}


def includes(path):
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', path.read_text(), re.M)


def relative(path):
    return str(path.relative_to(SRC))


def circles(graph):
    """The strongly connected components of more than one node (Tarjan)."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in order:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in order:
            visit(node)
    return [circle for circle in found if len(circle) > 1]


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}) == [["b", "c"], ["e", "f"]]


def test_there_is_something_to_look_at():
    assert len(SOURCES) > 10
    assert any(includes(path) for path in SOURCES)


def test_a_module_includes_only_itself_and_what_is_to_its_left():
    rank = ranks()
    wrong = []
    for path in SOURCES:
        module = path.relative_to(SRC).parts[0]
        for include in includes(path):
            other = include.split("/")[0]
            file = SRC / (include.removesuffix(".h") if include.endswith(".fbs.h") else include.removesuffix(".inc"))
            if other not in rank or not file.is_file():
                wrong.append(f'{relative(path)}: "{include}" is no path from the source root')
            elif other != module and rank[other] >= rank[module]:
                wrong.append(f'{relative(path)}: {module} must not include "{include}"')
    assert not wrong, "\n".join(wrong)


def test_the_folders_of_the_gateway_form_no_circle():
    """The files directly in gateway/ count as one folder. Tests and benchmarks may include what they need."""
    gateway = SRC / "gateway"
    graph = {}
    for path in SOURCES:
        if gateway not in path.parents or re.search("_(test|bench|for_tests)$", path.stem):
            continue
        others = {os.path.dirname(include) for include in includes(path) if include.startswith("gateway/")}
        graph.setdefault(relative(path.parent), set()).update(others)
    assert len(graph) > 10
    assert circles(graph) == []


MOST_UNITS = {"api": 8, "http": 5, "sql": 6}  # they may shrink


def test_circles_of_units_are_small():
    """A unit is a header and its source."""
    graph = {}
    for path in SOURCES:
        if re.search("_(test|bench|for_tests|for_benches)$", path.stem):
            continue
        unit = relative(path.with_suffix(""))
        same_module = {include.removesuffix(".h") for include in includes(path) if include.split("/")[0] == unit.split("/")[0]}
        graph.setdefault(unit, set()).update(same_module - {unit})
    wrong = [circle for circle in circles(graph) if len(circle) > MOST_UNITS.get(circle[0].split("/")[0], 3)]
    assert len(graph) > 500 and wrong == []


def test_cores_meet_by_the_means_of_core_alone():
    """No ring, letter or lock above core, but where a thread that is not a core takes part."""
    threads = {"app/reloader.h", "app/reloader.cc", "app/commands/development.cc",  # the manager's thread, and a watcher
               "gateway/jwt/revocations.h",  # a thread that waits for the disk
               "msg/context.h"}                                                     # Context::try_post()
    found = {relative(path) for path in SOURCES
             if relative(path).split("/")[0] in ("api", "app", "gateway", "msg") and not path.stem.endswith(("_test", "_bench"))
             and re.search(r"\btry_post\b|\bLetter\b|std::mutex|std::once_flag", path.read_text())}
    assert found == threads


def test_app_has_few_loose_files():
    assert len([path for path in (SRC / "app").iterdir() if path.is_file() and path.suffix in (".h", ".cc")]) <= 15


def test_the_readme_lists_the_folders_that_exist():
    listed = re.findall(r"^\| `(\w+)/` \|", README, re.M)
    exist = sorted(path.name for path in SRC.iterdir() if path.is_dir())
    assert sorted(listed) == exist
    assert set(exist) <= set(ranks()), "a folder has no place in the layer line"


def test_links_lead_to_pages_and_headings():
    def anchors(page):
        plain = (re.sub(r"\[([^]]*)]\([^)]*\)|[`*]", r"\1", heading).lower() for heading in
                 re.findall(r"^#+ (.*)", page.read_text(), re.M))
        return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}

    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    broken, links = [], 0
    for page in (ROOT / name for name in listed):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([\w-]+))?\)", text):
            links += 1
            to = page.parent / target if target else page
            if not to.exists() or (anchor and anchor not in anchors(to)):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert links > 100 and broken == []


def test_the_example_of_the_frame_format_is_the_one_that_is_tested():
    examples = re.findall(r"```hex\n(.*?)\n```", (ROOT / "docs/formats/frame.md").read_text(), re.S)
    assert len(examples) == 2
    tested = (SRC / "msg/frame_test.cc").read_text()
    assert all(f'"{example}"' in tested for example in examples)


def test_a_source_includes_its_own_header_first():
    wrong = []
    for path in SRC.rglob("*.cc"):
        header = path.with_suffix(".h")
        if not header.exists():
            continue
        first = re.search(r'^#include\s+["<]([^">]+)[">]', path.read_text(), re.M)
        if not first or first.group(1) != relative(header):
            wrong.append(f'{relative(path)} must begin with #include "{relative(header)}"')
    assert not wrong, "\n".join(wrong)


def test_headers_have_no_include_guard_but_pragma_once():
    wrong = [relative(path) for path in SRC.rglob("*.h") if not path.read_text().startswith("#pragma once\n")]
    assert not wrong, "\n".join(wrong)


def test_every_file_compiles_alone(tmp_path):
    """Modules compile in batches, which hide a missing #include. A source begins with its own header, so this checks both."""
    compiler = [os.environ.get("CXX", "clang++-19")]
    if ccache := shutil.which("ccache"):  # recompiles only what changed
        compiler.insert(0, ccache)
    for schema in SRC.rglob("*.fbs"):  # as cmake/flatbuffers.cmake does
        subprocess.run(["flatc", "--cpp", "--scoped-enums", "--filename-suffix", ".fbs", "--filename-ext", "h", "-I", SRC,
                        "-o", tmp_path / "generated" / schema.parent.relative_to(SRC), schema], check=True)

    for page in SRC.rglob("*.html"):  # as sluice_embed_pages() does
        literal = tmp_path / "generated" / page.relative_to(SRC).with_suffix(".html.inc")
        subprocess.run(["cmake", "-D", f"FROM={page}", "-D", f"TO={literal}", "-P", ROOT / "cmake/embed.cmake"], check=True)

    def check(path):
        run = subprocess.run(
            [*compiler, "-std=c++23", "-Isrc", "-isystem", tmp_path / "generated",
             "-Wno-pragma-once-outside-header", "-x", "c++", "-c",
             path.relative_to(ROOT), "-o", tmp_path / relative(path).replace("/", "_")],
            cwd=ROOT, env={**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}, capture_output=True, text=True)
        return "" if run.returncode == 0 else f"{relative(path)}:\n{run.stderr[:2000]}"

    sources = [path for path in SOURCES if path.suffix == ".cc" and not path.stem.endswith("_test")]
    headers = [path for path in SOURCES if path.suffix == ".h" and path.with_suffix(".cc") not in sources]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [text for text in pool.map(check, sources + headers) if text]
    assert not wrong, "\n".join(wrong)
