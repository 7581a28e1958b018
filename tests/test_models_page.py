"""The examples of docs/models.md run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import rfnb as rf

PAGE = (Path(__file__).parents[1] / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_examples():
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    exec(compile(code, "models_page.py", "exec"), {"__name__": "models_page"})


def test_the_table_names_what_there_is():
    names = re.findall(r"`rf\.(\w+)`", PAGE.partition("```python")[0])
    assert len(names) > 20 and [name for name in names if not hasattr(rf, name)] == []
