"""What docs/contributing.md says of the folders is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:rfnb|tests|extension)/[\w/.]*)`", TEXT))))
def test_the_place_is_there(path):
    assert (ROOT / path).exists()


def test_the_ranks_are_those_of_the_folders():
    [line] = re.findall(r"`(printable < .*) < rfnb/__init__.py < as_returnn`", TEXT)
    there = {path.stem for path in (ROOT / "rfnb").iterdir() if path.suffix in ("", ".py")}
    assert set(line.split(" < ")) == there - {"__init__", "__main__", "__pycache__", "labextension", "as_returnn"}
