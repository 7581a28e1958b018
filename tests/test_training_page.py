"""The examples of docs/training.md run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "training.md").read_text(encoding="utf-8")


def test_the_examples(monkeypatch):
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    exec(compile(code, "training_page.py", "exec"), {"__name__": "training_page"})
