"""The stories of docs/stories run as they stand, and their outputs are those of the code."""

from __future__ import annotations

import contextlib
import io
import itertools
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

import rfnb as rf
from rfnb.trace.run import run

FOLDER = Path(__file__).parents[1] / "docs" / "stories"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<output>.*?)```)?", re.DOTALL)


def output_of(code: str, file: str, names: dict[str, Any]) -> str:
    """What a block prints, with the value of its last line."""
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    *lines, last = code.strip().splitlines()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            expression = compile(last, file, "eval")
        except SyntaxError:
            exec(compile(code, file, "exec"), names)
        else:
            exec(compile("\n".join(lines), file, "exec"), names)
            value = eval(expression, names)
            print(*([] if value is None else [repr(value)]))
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().strip().splitlines())


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.md") if file.stem != "README"))
def test_a_story_runs_and_says_what_it_shows(name, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "_serials", itertools.count(1))  # the runs of a fresh kernel
    page = FOLDER / f"{name}.md"
    text, names = page.read_text(encoding="utf-8"), {"__name__": name}
    rf.runs.clear()

    numbers = itertools.count(1)

    def again(block: re.Match[str]) -> str:
        output = output_of(block["code"], f"{name} {next(numbers)}", names)
        return f"```python\n{block['code']}```" + (f"\n\n```text\n{output}```" if block["output"] is not None else "")

    fresh = BLOCK.sub(again, text)
    if request.config.getoption("--update-golden"):
        page.write_text(fresh, encoding="utf-8")
    assert fresh == page.read_text(encoding="utf-8")


def test_the_index_names_each_story():
    assert set(re.findall(r"\]\((\w+\.md)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))) == {
        file.name for file in FOLDER.glob("*.md") if file.stem != "README"
    }
