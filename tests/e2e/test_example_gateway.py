"""examples/gateway: its README, from the first block to the last."""
import shutil

import pytest

from conftest import ROOT
from test_pages import BLOCK, Reader

EXAMPLE = ROOT / "examples/gateway"


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
