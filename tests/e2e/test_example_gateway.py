"""examples/gateway: its README, from the first block to the last, and the metrics that its dashboard shows."""
import json
import re
import shutil
import urllib.request

import pytest

from conftest import ROOT
from test_pages import BLOCK, Reader

EXAMPLE = ROOT / "examples/gateway"
WORDS = {"by", "or", "and", "unless"}  # of PromQL, without those before a parenthesis


@pytest.fixture
def reader(tmp_path):
    """A reader in a copy of the example with ports of its own."""
    folder = tmp_path / "gateway"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("state"))
    reader = Reader(folder, None)
    for name in ("run", "sluice.toml"):
        (folder / name).write_text(reader.own((folder / name).read_text()))
    try:
        yield reader
    finally:
        reader.end()


def test_the_readme_works_as_pasted(reader):
    blocks = [(what, text) for what, _, language, text in BLOCK.findall((EXAMPLE / "README.md").read_text()) if language == "sh"]
    assert len(blocks) >= 8
    for what, text in blocks:
        reader.run(text, what == "eventually")


def matchers_of(text):
    return re.findall(r'(\w+)(=~|!=|!~|=)"((?:[^"\\]|\\.)*)"', text)


def queries():
    """(expression, metrics that it uses, labels by which it sums, matchers, labels in its legend) of all queries of the dashboard."""
    for panel in json.loads((EXAMPLE / "grafana.json").read_text())["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            groups = re.findall(r"\bby \(([^)]*)\)", expression)
            plain = re.sub(r"\{[^}]*\}|\bby \([^)]*\)|\[[^]]*\]", " ", expression)
            metrics = set(re.findall(r"\b[a-z_]\w*\b(?!\s*\()", plain)) - WORDS
            yield (expression, metrics, {label for group in groups for label in group.split(", ")}, matchers_of(expression),
                   set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])))


def test_the_dashboard_shows_metrics_that_exist(reader):
    reader.run("./run &\n")
    for request in ('-H "Authorization: Bearer $(./token ada)" localhost:8080/orders/42', "localhost:8080/orders/42",
                    '-H "X-API-Key: $(cat state/acme.key)" localhost:8080/catalog/books', "localhost:8080/catalog/books"):
        reader.run(f"curl -o /dev/null {request}")
    with urllib.request.urlopen(f"http://127.0.0.1:{reader.ports[8081]}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    # A counter may have no series until something is counted.
    series = {name: [] for name in re.findall(r"^# TYPE (\w+) (?:counter|gauge)$", text, re.M)}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", text, re.M):
        series.setdefault(name, []).append({label: value for label, _, value in matchers_of(labels)})
    seen = set()
    for expression, metrics, groups, matchers, legend in queries():
        assert metrics, expression
        seen |= metrics
        for metric in metrics:
            assert metric in series, f"{metric} of {expression}"
            for label in groups | {label for label, _, _ in matchers}:
                assert any(label in labels for labels in series[metric]), f"{label} of {expression}"
            for label, operator, value in matchers:
                fits = re.compile(value if operator == "=~" else re.escape(value))
                assert operator in ("=", "=~") and any(fits.fullmatch(labels.get(label, "")) for labels in series[metric]), expression
        assert legend <= groups, f"the legend of {expression}"
    assert len(seen) > 30
