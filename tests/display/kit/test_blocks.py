"""Blocks of pages: what a terminal and HTML show of each."""

from __future__ import annotations

import re

import pytest

import rfnb as rf
from rfnb.display.kit.blocks import (
    Facts,
    Figure,
    Fold,
    Grid,
    Group,
    Line,
    Note,
    Only,
    Page,
    Row,
    Span,
    Table,
    bold,
    chip,
    html_of,
    lines_of,
    markup,
    plain,
    quiet,
    to_data,
    to_repr,
    to_text,
    web,
)


def words_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", html)).strip()


BLOCKS = {
    "line": (Line("a ", quiet("b"), 3), ["a b3"], "a b 3"),
    "line, indented": (Line("a\nb", indent=2), ["  a", "  b"], "a b"),
    "empty line": (Line(""), [""], ""),
    "facts": (Facts([("got", "x"), ("hint", bold("y"))]), ["  got       x", "  hint      y"], "got x hint y"),
    "grid": (Grid([["a", 1], ["bb", None]], ["n", "m"]), ["  n   m", "  a   1", "  bb"], "n m a 1 bb"),
    "row with lines below": (
        Grid([Row(["a"], below=[chip("odd", "#d6278f", "  ! odd"), Span(None, text="    note")])], indent=0),
        ["a", "  ! odd", "    note"],
        "a odd",
    ),
    "fold": (Fold("more", [Line("a")]), ["more", "  a"], "more a"),
    "fold without a title in terminals": (Fold(web("more"), [Line("a")]), ["a"], "more a"),
    "group": (Group([Line("a"), Fold("b", [Line("c")])], "color:red", 2), ["  a", "  b", "    c"], "a b c"),
    "figure": (Figure(rf.el("i", "drawn"), ["told"]), ["told"], "drawn"),
    "note": (Note("less"), ["  (less)"], "(less)"),
    "no note": (Note(None), [], ""),
    "only text": (Only("text", [Line("a")]), ["a"], ""),
    "only html": (Only("html", [Line("a")]), [], "a"),
    "nothing": (None, [], ""),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_text_and_html(name):
    block, text, html = BLOCKS[name]
    assert list(lines_of([block])) == text
    assert words_of(html_of([block])) == html


@pytest.mark.parametrize("hostile", ["<b>", "a\x1b[31m", "w" * 3000])
def test_words_are_escaped_and_bounded_everywhere(hostile):
    words = [hostile, quiet(hostile), chip(hostile, "#d6278f", text=hostile)]
    blocks = [Line(*words), Facts([(hostile, words)]), Grid([words], [hostile] * 3), Fold(hostile, [Note(hostile)])]
    html = html_of(blocks)
    assert "<b>" not in html and "\x1b" not in html and "w" * 2000 not in html
    assert plain("w" * 3000) == markup("w" * 3000) != "w" * 3000
    assert max(map(len, lines_of(blocks))) < 4 * 1010, "four words in a line"


def test_a_group_shows_as_many_lines_as_it_may():
    fold = Fold("b", [Line(f"c{i}") for i in range(5)])
    group = Group([Line("a"), fold, Line("d")], indent=2, most=4)
    assert list(lines_of([group])) == ["  a", "  b", "    c0", "    c1", "… 4 more lines; all: .table()"]
    assert words_of(html_of([group])) == "a b c0 c1 … and more; all: .table()"
    assert "more" not in html_of([Group(group.blocks, most=9)]) + "".join(lines_of([Group(group.blocks, most=8)]))


def test_an_open_fold_is_open():
    assert [html_of([Fold("a", [], is_open)]).startswith("<details open") for is_open in (True, False)] == [True, False]


def test_a_page_is_text_a_repr_and_json():
    page = Page("fruit", "kiwi", [Line("long")], Table(["n"], [[float("inf")], [True]]), short=[Line("short")])
    assert (to_text(page), to_repr(page), to_repr(Page("fruit", "", [Line("long")]))) == ("long", "short", "long")
    assert to_data(page) == {"kind": "fruit", "name": "kiwi", "text": "long", "rows": [{"n": "inf"}, {"n": True}]}
