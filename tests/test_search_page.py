"""The examples of docs/search.md run as they stand, one after the other, and print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rfnb as rf
from rfnb.errors import ParameterError
from rfnb.search.rules import ChoiceOptions

PAGE = (Path(__file__).parents[1] / "docs" / "search.md").read_text(encoding="utf-8")


def test_the_examples(capsys):
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    exec(compile(code, "search_page.py", "exec"), {"__name__": "search_page"})
    printed = capsys.readouterr().out
    for text in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL):
        assert text in printed


def test_the_options_of_the_table_exist():
    here = " ".join(re.findall(r"^\| (`\w+=.*?) \|", PAGE.partition("## Options")[2], re.MULTILINE))
    named = set(re.findall(r"(?<!\w)(\w+)=", re.sub(r"\(.*?\)", "", here)))
    assert len(named) > 10
    assert named <= set(ChoiceOptions.__dataclass_fields__)


def test_a_name_of_another_library_is_answered_with_ours():
    loop, beam = rf.Loop(max_seq_len=2), rf.Dim(2, name="beam")
    loop.state.prev = rf.zeros([beam], dtype="int64")
    with pytest.raises(ParameterError, match="length_normalization_exponent=…"), loop:
        loop.choice(rf.zeros([beam, rf.Dim(3, name="label")]), beam=beam, length_penalty=0.6)
