"""All code of docs/checkpoints.md runs, from top to bottom, and so do its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rfnb.checkpoint.report import LoadReport

PAGE = (Path(__file__).parents[1] / "docs" / "checkpoints.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CALLS = re.findall(r"^\| .*? \| `(.*)` \|$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the page's code defines, in a folder with its files."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        for block in BLOCKS:
            exec(block, found)
        yield found


def test_what_was_saved_comes_back(names):
    assert names["step"] == 1000
    assert names["linear"].bias is None
    assert names["again"].encoder.in_dim is names["feat"]


CALLS = [call for call in CALLS if call.startswith(("rf.load", "[model"))]


def test_the_table_has_calls():
    assert len(CALLS) == 7


@pytest.mark.parametrize("call", CALLS)
def test_a_call(names, call):
    found = eval(call, names)
    assert isinstance(found, LoadReport | list)
