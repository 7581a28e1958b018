"""The builder escapes; nobody else has to."""

from __future__ import annotations

from html.parser import HTMLParser

from rfnb.display.markup.html import Html, el, join

HOSTILE = "<script>alert(1)</script>"


def test_text_is_escaped_and_html_is_not():
    assert el("b", HOSTILE) == "<b>&lt;script&gt;alert(1)&lt;/script&gt;</b>"
    assert el("b", el("i", "x")) == "<b><i>x</i></b>"


def test_attributes_are_escaped_and_cannot_be_closed():
    made = el("span", title='"><script>')
    assert made == '<span title="&quot;&gt;&lt;script&gt;"></span>'


def test_children_can_be_lists_numbers_and_nothing():
    assert el("p", [1, " ", ["a", None]], 2.5) == "<p>1 a2.5</p>"
    assert isinstance(join("a", el("br")), Html)
    assert join("a", el("br")) == "a<br>"


def test_a_bare_attribute_and_a_missing_one():
    assert el("details", open=True, class_="x", title=None, hidden=False) == '<details open class="x"></details>'


def test_what_is_built_can_be_read_back():
    seen: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            seen.append(data)

    Reader().feed(el("div", HOSTILE, el("b", "&amp;")))
    assert seen == [HOSTILE, "&amp;"]
