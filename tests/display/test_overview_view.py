"""A bare `rf` lists the calls to begin with, and `help(rf)` has the same list."""

from __future__ import annotations

import pydoc
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import rfnb as rf
from rfnb.display.kit.view import View
from rfnb.display.overview import describe
from rfnb.search.result import Found

ROOT = Path(__file__).parents[2]
OVERVIEW = describe(rf.__doc__ or "")
CALLS = list(View(OVERVIEW).table())


def hostile_views(word: Callable[[str], str]) -> dict[str, View]:
    """The calls of a docstring that has such words; see `tests/display/hostile.py`."""
    words = [" ".join(word(name).split()) or "-" for name in ("show(x)", "what is in x", "docs/x.md")]
    return {"overview": View(describe(f"All about x.\n\nlook\n    {'  '.join(words)}"))}


def test_the_calls_are_listed_by_task():
    assert list(dict.fromkeys(call["task"] for call in CALLS)) == "look step search loop check train save net".split()
    assert len(CALLS) == 31


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call["call"])
def test_a_call_exists_and_its_page_has_it(call):
    owner, *names = re.split(r"\.", re.match(r"[\w.]+", call["call"])[0])
    found = {"rf": rf, "run": rf.Run, "loop": rf.Loop, "found": Found}[owner]
    for name in names:
        found = getattr(found, name)
    assert f"{'.'.join([owner, *names])}" in (ROOT / call["page"]).read_text(encoding="utf-8")


def test_the_text_is_as_it_was(golden):
    view = View(OVERVIEW)
    golden("overview.txt", view.text + "\n")


def test_a_notebook_shows_the_calls_of_a_bare_module():
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    data, _ = formatter.format(rf)
    assert all(call["call"] in data["text/plain"] for call in CALLS)
    assert data["text/html"] == str(View(OVERVIEW).html)
    assert "text/html" not in formatter.format(re)[0]


def test_help_shows_the_calls():
    words = pydoc.plain(pydoc.render_doc(rf))
    assert all(call["call"] in words and call["what"] in words for call in CALLS)


@pytest.mark.parametrize("docstring", ["", "one line", "title\n\nlook\n    rf.show(x)", "title\n\n    a  b  c"])
def test_without_calls_there_is_the_title(docstring):
    view = View(describe(docstring))
    assert view.text.splitlines()[:1] == docstring.splitlines()[:1] and not re.search("<td", str(view.html))


def test_text_of_the_docstring_is_escaped():
    html = str(View(describe("<title>\n\nlook\n    <b>  <i>  <u>")).html)
    assert not re.search("<title>|<b>|<i>|<u>", html) and "&lt;b&gt;" in html
