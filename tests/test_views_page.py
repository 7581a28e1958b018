"""The calls of docs/views.md give views, as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rfnb as rf
from rfnb.display.kit.view import View

PAGE = (Path(__file__).parents[1] / "docs" / "views.md").read_text(encoding="utf-8")
CALLS = re.findall(r"^\| `(rf\..*?)` \|", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def names():
    """What the page's code defines."""
    found: dict[str, object] = {}
    before = rf.options.record
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), found)
    yield found
    rf.options.record = before
    rf.runs.clear()


def test_each_line_has_a_call():
    assert len(CALLS) == PAGE.count("\n| `") >= 10


@pytest.mark.parametrize("call", CALLS)
def test_a_call(names, call):
    view = eval(call, names)
    assert isinstance(view, View)
    assert view.text and view.html
    assert "no view" not in view.text
