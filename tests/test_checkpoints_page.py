"""All code of docs/checkpoints.md runs, from top to bottom, and so do its tables."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import rfnb as rf
from rfnb.checkpoint.report import LoadReport

PAGE = (Path(__file__).parents[1] / "docs" / "checkpoints.md").read_text(encoding="utf-8")
GOLDEN = Path(__file__).parent / "golden" / "checkpoint"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CALLS = re.findall(r"^\| .*? \| `(.*)` \|$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the page's code defines, in a folder with its files."""
    found = {}
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(GOLDEN / "net_dict", folder / "net-model")
    shutil.copy(GOLDEN / "hdf" / "simple.hdf", folder / "train.hdf")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in BLOCKS:
            exec(block, found)
        yield found


def test_what_was_saved_comes_back(names):
    assert names["step"] == 1000
    assert names["linear"].bias is None
    assert names["again"].encoder.in_dim is names["feat"]
    assert names["report"].unexpected and not names["report"].missing and not names["report"].notes
    assert sorted(rf.hdf(names["file"].path).lengths()) == [1, 2, 3, 4, 5]


CALLS = [call for call in CALLS if call.startswith(("rf.load", "[model"))]


def test_the_table_has_calls():
    assert len(CALLS) == 7


@pytest.mark.parametrize("call", CALLS)
def test_a_call(names, call):
    found = eval(call, names)
    assert isinstance(found, LoadReport | list)
