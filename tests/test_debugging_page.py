"""The examples of docs/debugging.md run as they stand, one after the other."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "debugging.md").read_text(encoding="utf-8")


def test_the_examples():
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    linecache.cache["debugging_page.py"] = (len(code), None, code.splitlines(keepends=True), "debugging_page.py")
    exec(compile(code, "debugging_page.py", "exec"), {"__name__": "debugging_page"})
