"""The examples of docs/loops.md run as they stand, one after the other."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import rfnb as rf

PAGE = (Path(__file__).parents[1] / "docs" / "loops.md").read_text(encoding="utf-8")


def test_the_examples(monkeypatch, capsys):
    """As if they were a file, so that lines have their text."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    monkeypatch.setitem(
        linecache.cache, "loops_page.py", (len(code), None, code.splitlines(keepends=True), "loops_page.py")
    )
    rf.runs.clear()
    exec(compile(code, "loops_page.py", "exec"), {"__name__": "loops_page"})
    rf.runs.clear()
    assert capsys.readouterr().out.count("energy") >= 1
