"""The examples of docs/debugging.md run as they stand, one after the other."""

from __future__ import annotations

import linecache
import re
import warnings
from pathlib import Path

import pytest

import rfnb as rf
from rfnb.trace import pause as hold
from rfnb.trace.probe.probe import followers

PAGE = (Path(__file__).parents[1] / "docs" / "debugging.md").read_text(encoding="utf-8")


@pytest.fixture
def no_pauses(tmp_path, monkeypatch):
    """No conditions before and after, and files in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hold, "_written", [])
    monkeypatch.setattr(followers, "_probes", {})
    rf.pauses.clear()
    yield
    rf.pauses.clear()
    rf.runs.clear()


def test_the_examples(no_pauses):
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    linecache.cache["debugging_page.py"] = (len(code), None, code.splitlines(keepends=True), "debugging_page.py")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        exec(compile(code, "debugging_page.py", "exec"), {"__name__": "debugging_page"})
    assert [str(each.message).partition(" was not paused")[0] for each in told] == ["training", "growing"]
    assert not rf.pauses


def test_the_options_of_the_page_exist():
    assert {name for name in re.findall(r"rf\.options\.(\w+)", PAGE) if not hasattr(rf.options, name)} == set()


def test_the_buttons_of_the_page_are_those_of_the_panel():
    source = Path(__file__).parents[1] / "extension" / "src" / "views" / "panel" / "paused.tsx"
    labels = set(re.findall(r"button\('\w+', words\.__\('([^'(]+?)(?: \(\w\))?'\)", source.read_text(encoding="utf-8")))
    table = PAGE.partition("| button | effect |")[2].partition("\n\n")[0]
    assert {row.split(" (key")[0] for row in re.findall(r"^\| ([^|-][^|]*?) \|", table, re.M)} == labels
