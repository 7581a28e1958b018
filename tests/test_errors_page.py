"""docs/errors.md: its mistakes say what the page says; `--update-golden` writes the page."""

from __future__ import annotations

import inspect
import linecache
import re
from pathlib import Path

import pytest

import rfnb as rf

FILE = Path(__file__).parents[1] / "docs" / "errors.md"
PAGE = FILE.read_text(encoding="utf-8")
MISTAKE = re.compile(r"```python\n([^`]*?)```\n```text\n(.*?)```", re.DOTALL)
MISTAKES = MISTAKE.findall(PAGE)
SETUP, *_, LAST, OF_TORCH = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def run(monkeypatch):
    """As if the code were a file of this name, so that lines have their text."""
    names: dict[str, object] = {"__name__": "page"}

    def of_file(name, code):
        monkeypatch.setitem(linecache.cache, name, (len(code), None, code.splitlines(keepends=True), name))
        exec(compile(code, name, "exec"), names)

    of_file("setup.py", SETUP)
    yield of_file
    rf.runs.clear()


@pytest.mark.parametrize(("code", "said"), MISTAKES, ids=re.findall("### (.*)", PAGE))
def test_a_mistake_says_this(run, code, said, request):
    with pytest.raises(rf.errors.RfError) as caught:
        run("model.py", code)
    text = rf.show(caught.value).text.partition("\n\ncalled in ")[0] + "\n"
    if request.config.getoption("--update-golden"):
        page = FILE.read_text(encoding="utf-8")
        FILE.write_text(
            page.replace(f"```python\n{code}```\n```text\n{said}```", f"```python\n{code}```\n```text\n{text}```")
        )
    else:
        assert text == said


def test_there_are_five():
    assert len(MISTAKES) == 5


def test_the_tree_is_the_tree():
    listed = dict(re.findall(r"^[│├└─ ]*(\w+Error|DimRebound|\w+NotFound|\w+Exception) +(.*)$", PAGE, re.MULTILINE))
    kinds = {
        name: kind
        for name, kind in vars(rf.errors).items()
        if inspect.isclass(kind) and issubclass(kind, rf.errors.RfError)
    }
    assert set(listed) == set(kinds)
    for name, words in listed.items():
        for also in re.findall(r"(\w+Error)", words.partition("also")[2]):
            assert also in [base.__name__ for base in kinds[name].__mro__]


def test_what_raises_no_error_is_found(run, capsys):
    run("model.py", LAST)
    assert "tanh" in capsys.readouterr().out
    run("model.py", OF_TORCH)
    assert "multi_head_attention_forward differs for sequence 1" in capsys.readouterr().out
