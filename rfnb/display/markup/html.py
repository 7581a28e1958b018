"""HTML as nested calls, and elements that views share. Text is escaped here, so views need not care.

>>> print(el("b", "1 < 2", title='"x"'))
<b title="&quot;x&quot;">1 &lt; 2</b>
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from rfnb.display.markup import style
from rfnb.printable import bounded, visible

VOID = frozenset({"br", "hr", "img", "meta", "col"})


class Html(str):
    """A string of HTML, which is not escaped again."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]


def el(tag: str, *children: Child, **attrs: object) -> Html:
    """An HTML element, for a view of your own. Text and attributes are escaped; a nested `rf.el` is not.

    >>> rf.el("p", "1 < 2, ", rf.el("b", "kiwi"), class_="note", hidden=True)
    '<p class="note" hidden>1 &lt; 2, <b>kiwi</b></p>'

    Args:
        children: text, numbers, elements, and lists of these; None adds nothing.
        attrs: `class_` gives the attribute `class`, True a bare attribute; None and False leave it out.
    """
    opened = f"<{tag}{''.join(_attribute(name, value) for name, value in attrs.items())}>"
    return Html(opened if tag in VOID else f"{opened}{join(*children)}</{tag}>")


def join(*children: Child) -> Html:
    """Children in a row, without an element around them."""
    return Html("".join(_child(child) for child in children))


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(visible(child))
    if isinstance(child, int | float):
        return str(child)
    return "".join(_child(c) for c in child)


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(visible(str(value)))}"'


def visible_in(data: object) -> Any:
    """Plain data with invisible characters replaced in all strings."""
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, dict):
        return {visible_in(key): visible_in(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [visible_in(entry) for entry in data]
    return data


PICTURES = frozenset({"picture", "pictures", "spectrum", "sound"})
"""The entries of plain data that hold drawings and sounds as text, of any length."""


def bounded_in(data: object, drawn: bool = False) -> Any:
    """Plain data without the middle of overlong strings; drawings are left as they are."""
    if isinstance(data, str):
        return data if drawn else bounded(data)
    if isinstance(data, dict):
        return {bounded_in(key): bounded_in(value, drawn=key in PICTURES) for key, value in data.items()}
    return [bounded_in(entry, drawn) for entry in data] if isinstance(data, (list, tuple)) else data


# -- elements


def quiet(*words: Child, tag: str = "span") -> Html:
    """Words in a quieter colour."""
    return el(tag, *words, style=style.QUIET)


def chip(words: Child, colour: str) -> Html:
    """A word that should be noticed."""
    return el("span", words, " ", style=style.chip(colour))


def fold(title: Child, *inside: Child, **attrs: object) -> Html:
    """Content that a click on its title reveals."""
    return el("details", el("summary", title, style=style.FOLD), *inside, **attrs)


def wide(inside: Child, **attrs: object) -> Html:
    """Content in a frame of its own that scrolls to the side where there is no room for it."""
    return el("div", inside, style="overflow-x:auto;max-width:100%", **attrs)


def note_html(note: str | None) -> Html | None:
    """What is left out of a view, and why."""
    return quiet(f"({note})", tag="div") if note else None
