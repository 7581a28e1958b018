"""HTML elements that views share: quiet words, chips, folds, table rows, notes."""

from __future__ import annotations

from rfnb.display.markup import style
from rfnb.display.markup.html import Child, Html, el


def quiet(*words: Child, tag: str = "span") -> Html:
    """Words in a quieter colour."""
    return el(tag, *words, style=style.QUIET)


def chip(words: Child, colour: str) -> Html:
    """A word that should be noticed."""
    return el("span", words, style=style.chip(colour))


def fold(title: Child, *inside: Child, **attrs: object) -> Html:
    """Content that a click on its title reveals."""
    return el("details", el("summary", title, style=style.FOLD), *inside, **attrs)


def row(*cells: Child, look: str = style.LEFT_CELL, tag: str = "td") -> Html:
    """A row of a table; `tag` is "th" for the header."""
    return el("tr", [el(tag, cell, style=look) for cell in cells], style=style.PLAIN_ROW)


def note_html(note: str | None) -> Html | None:
    """What is left out of a view, and why."""
    return quiet(f"({note})", tag="div") if note else None


def note_text(note: str | None, indent: str = "  ") -> list[str]:
    """The note as a list of one line; an empty list if there is none."""
    return [f"{indent}({note})"] if note else []
