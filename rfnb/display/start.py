"""The calls to begin with, as HTML: the list in the docstring of `rfnb`, which a notebook shows for a bare `rf`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.widgets_html import quiet, row


def to_html(docstring: str) -> Html:
    """A table with a group of rows for each task; tasks and calls are lines of the docstring."""
    title, _, rest = docstring.partition("\n")
    return el(
        "div",
        el("div", title, style=style.HEAD),
        el("table", el("tbody", *_rows(rest)), style=style.TABLE),
        style=style.BOX,
    )


def _rows(text: str) -> Iterator[Html]:
    task = ""
    for line in text.splitlines():
        if re.fullmatch(r"[a-z]+", line):
            task = line
        elif line.startswith("  "):
            call, what, page = re.split(r" {2,}", line.strip())
            yield row(quiet(task), el("code", call, style=style.CODE), what, quiet(page))
            task = ""
