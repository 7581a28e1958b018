"""The examples of docs/search.md run as they stand, one after the other, and print what the page says."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "search.md").read_text(encoding="utf-8")


def test_the_examples(capsys):
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    exec(compile(code, "search_page.py", "exec"), {"__name__": "search_page"})
    printed = capsys.readouterr().out
    for text in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL):
        assert text in printed
