"""The examples of the pages on search run as they stand, one after the other, and print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rfnb as rf
from rfnb.errors import ParameterError
from rfnb.search.rules import ChoiceOptions

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {
    name: (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in "search search_recipes search_reference".split()
}


@pytest.mark.parametrize("name", PAGES)
def test_the_examples(name, capsys):
    """Those of the other pages go on from the first block of docs/search.md."""
    blocks = re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL)
    if name != "search":
        blocks.insert(0, re.findall(r"```python\n(.*?)```", PAGES["search"], re.DOTALL)[0])
    exec(compile("\n".join(blocks), "search_page.py", "exec"), {"__name__": "search_page"})
    printed = capsys.readouterr().out
    for text in re.findall(r"```text\n(.*?)```", PAGES[name], re.DOTALL):
        assert text in printed


def test_the_options_of_the_table_exist():
    here = " ".join(
        re.findall(r"^\| (`\w+=.*?) \|", PAGES["search_reference"].partition("## Options")[2], re.MULTILINE)
    )
    named = set(re.findall(r"(?<!\w)(\w+)=", re.sub(r"\(.*?\)", "", here)))
    assert len(named) > 10
    assert named <= set(ChoiceOptions.__dataclass_fields__)


def test_a_name_of_another_library_is_answered_with_ours():
    loop, beam = rf.Loop(max_seq_len=2), rf.Dim(2, name="beam")
    loop.state.prev = rf.zeros([beam], dtype="int64")
    with pytest.raises(ParameterError, match="length_normalization_exponent=…"), loop:
        loop.choice(rf.zeros([beam, rf.Dim(3, name="label")]), beam=beam, length_penalty=0.6)
