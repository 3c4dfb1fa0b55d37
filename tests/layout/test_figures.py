"""The figures of README and the documents are those of bench/results."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import msg_page  # noqa: E402
import pages  # noqa: E402
import stored  # noqa: E402


def test_documents_have_the_stored_figures():
    run = subprocess.run([sys.executable, "-B", ROOT / "bench/stored.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_figure_changed_by_hand_is_found():
    text = (ROOT / "README.md").read_text()
    block = stored.BLOCK.search(text)
    assert block[2] == "readme.speed"
    assert stored.filled(text, pages.render) == text
    changed = text.replace(block[0], f"{block[1]}| by hand |\n{block[3]}")
    assert changed != text and stored.filled(changed, pages.render) == text


def test_all_stored_results_stand_in_a_document():
    shown = {block.split(".", 1)[-1] if block.startswith("about.") else block.split(".")[0]
             for document in stored.documents()
             for block in (match[2] for match in stored.BLOCK.finditer(document.read_text()))}
    by_page = {"message-services", "check"}  # a page of its own; the bounds of bench-check
    assert {file.stem for file in stored.RESULTS.glob("*.json")} - by_page <= shown


def test_the_page_of_message_services_misses_nothing(monkeypatch):
    assert msg_page.complain({}) == []
    assert msg_page.complain({"core": ["forgotten/64"]}) == ["core/forgotten/64 has no row"]
    monkeypatch.setitem(msg_page.PUBLISHED, "forgotten", [1.0])
    assert msg_page.complain({}) == ["no row has the published figure forgotten"]


def test_a_row_behind_the_published_figure_needs_a_reason():
    values = {name: 1e12 for name in msg_page.figures()}
    slow = msg_page.behind(values, {})
    assert "push that a full ring refuses" in slow
    assert not [row.what for row in msg_page.ROWS if row.why and row.what in slow]
