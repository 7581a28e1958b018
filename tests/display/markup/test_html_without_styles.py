"""Views where a site takes away all styles and scripts, as GitHub does with the outputs of notebooks.

GitHub's viewer keeps text, tables, folds and pictures; `style`, `class`, and elements that it does not know are gone.
"""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from tests.display.hostile import harmless, views

WITHIN_LINES = {"span", "b", "i", "em", "strong", "s", "a"}
HIDDEN = {"script", "style", "title"}


class Words(HTMLParser):
    """The text of a page, and where a word of an element touches that of the next one.

    In code, and between labels of one character each, they may.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before, self.touching, self.nameless, self.inside = "", [], [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "img":
            if attributes.get("alt") is None:
                self.nameless.append(attributes)
            self.before = attributes.get("alt") or ""
        elif tag not in {"br", "hr", "meta", "col", "input"}:
            self.inside.append(tag)
        if tag not in {*WITHIN_LINES, "img", "code"}:
            self.before = ""

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass
        if tag not in {*WITHIN_LINES, "code"}:
            self.before = ""

    def handle_data(self, data):
        if HIDDEN & {*self.inside} or not data:
            return
        ends = self.before[-1:] + data[:1]
        if len(ends) == 2 and ends.isalnum() and "pre" not in self.inside and len(self.before + data) > 2:
            self.touching.append(f"{self.before[-30:]}|{data[:30]}")
        self.before = data


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: str(view.html) for name, view in views(harmless).items()}


def test_words_that_only_a_style_holds_apart_have_a_space_between_them(pages):
    found = {name: read(html).touching for name, html in pages.items()}
    assert {name: words for name, words in found.items() if words} == {}


def test_no_style_hides_anything_and_each_picture_has_words(pages):
    for name, html in pages.items():
        assert "display:none" not in html, name
        assert read(html).nameless == [], name


def read(html: str) -> Words:
    words = Words()
    words.feed(html)
    return words


def test_touching_words_are_found():
    assert read("<p><span>batch:2</span><span>time:3</span></p>").touching == ["batch:2|time:3"]
    assert read("<p><span>batch:2 </span><span>time:3</span><br><td>a</td><td>b</td></p>").touching == []
