"""Elements that many views have: what is quiet, what should be noticed, what is folded, rows of cells, notes."""

from __future__ import annotations

from rfnb.display.markup import style
from rfnb.display.markup.html import Child, Html, el


def quiet(*words: Child, tag: str = "span") -> Html:
    """Words that step back behind the others."""
    return el(tag, *words, style=style.QUIET)


def chip(words: Child, colour: str) -> Html:
    """A word that should be noticed."""
    return el("span", words, style=style.chip(colour))


def fold(title: Child, *inside: Child, **attrs: object) -> Html:
    """What is seen when its title is clicked."""
    return el("details", el("summary", title, style=style.FOLD), *inside, **attrs)


def row(*cells: Child, look: str = style.LEFT_CELL, tag: str = "td") -> Html:
    """A line of a table; `tag` is "th" for that of the column names."""
    return el("tr", [el(tag, cell, style=look) for cell in cells], style=style.PLAIN_ROW)


def note_html(note: str | None) -> Html | None:
    """What is left out of a view, and why."""
    return quiet(f"({note})", tag="div") if note else None


def note_text(note: str | None, indent: str = "  ") -> list[str]:
    """The same as lines: one, or none."""
    return [f"{indent}({note})"] if note else []
