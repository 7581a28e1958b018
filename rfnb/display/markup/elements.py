"""Elements that views share: quiet words, chips, folds, notes; and tables as `view.table()` returns them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rfnb.display.markup import style
from rfnb.display.markup.html import Child, Html, el
from rfnb.display.markup.numbers import short
from rfnb.printable import bounded, encodable, printable_name


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


@dataclass(frozen=True)
class Table:
    """Named columns and rows; `pandas.DataFrame(list(table))` turns it into a data frame.

    >>> Table(["state", "norm"], [["h", 0.123456], ["c", None]])
    state  norm
    h      0.123
    c
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each row as a dict."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def lines(self) -> list[str]:
        """The columns and rows as text, aligned."""
        return aligned([[printable_name(_word(cell)) for cell in row] for row in (self.columns, *self.rows)])

    def __repr__(self) -> str:
        return encodable("\n".join(self.lines()))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": str(table_html(self))}


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row, with aligned columns; short rows are filled with empty cells.

    >>> aligned([["state", "norm"], ["h", "0.12"], ["cell"]])
    ['state  norm', 'h      0.12', 'cell']
    """
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def table_html(table: Table) -> Html:
    """The table as HTML, with a header of column names."""
    rows = [el("tr", [_cell(_word(cell)) for cell in cells], style=style.PLAIN_ROW) for cells in table.rows]
    names = [el("th", bounded(name), style=style.LEFT_CELL) for name in table.columns]
    head = el("thead", el("tr", names, style=style.PLAIN_ROW))
    return wide(el("table", head, el("tbody", rows), style=style.TABLE))


def _cell(words: str) -> Html:
    """A cell that is not broken into a line for each word where the table is wider than its frame."""
    broken = "white-space:nowrap" if len(words) <= SHORT else "min-width:16em"
    return el("td", words, style=f"{style.LEFT_CELL};{broken}" if " " in words else style.LEFT_CELL)


SHORT = 24
"""Number of characters up to which the words of a cell stay in one line."""


def facts_html(facts: Sequence[tuple[str, Child]]) -> Html | None:
    """A table with one labelled fact per row; None if there are no facts."""
    rows = [
        el(
            "tr",
            el("td", label, style=f"{style.LABEL_CELL};vertical-align:top;padding-top:2px"),
            el("td", words, style=style.LEFT_CELL),
            style=style.PLAIN_ROW,
        )
        for label, words in facts
    ]
    return wide(el("table", rows, style=style.TABLE)) if rows else None


def _word(cell: object) -> str:
    if cell is None:
        return ""
    return short(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else bounded(str(cell))
