"""The examples of docs/distributed.md that need one process run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "distributed.md").read_text(encoding="utf-8")


def test_the_examples():
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    names = {"__name__": "distributed_page"}
    exec(compile(code, "distributed_page.py", "exec"), names)
    assert names["loss"].shape == ()


def test_the_others_can_be_read_by_python():
    for code in re.findall(r"```python no-run\n(.*?)```", PAGE, re.DOTALL):
        compile(code, "distributed_page.py", "exec")
