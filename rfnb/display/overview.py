"""The view of `rf` itself: the calls to begin with, read from the docstring that `help(rf)` shows."""

from __future__ import annotations

import inspect
import re

from rfnb.display.kit import blocks as page
from rfnb.display.markup import style


@page.shows("overview")
def describe(docstring: str) -> page.Page:
    """The title and the calls of a docstring: a line with the name of each task, its calls indented below.

    >>> from rfnb.display.kit.blocks import to_text
    >>> print(to_text(describe("All about x.\\n\\nlook\\n    show(x)  what is in x  docs/x.md")))
    All about x.
    <BLANKLINE>
    look
      show(x)  what is in x  docs/x.md
    """
    lines, tasks = inspect.cleandoc(docstring).splitlines(), dict[str, list[list[str]]]()
    for line in lines:
        cells = re.split(" {2,}", line.strip())
        if line.startswith(" ") and len(cells) == 3 and tasks:
            tasks[next(reversed(tasks))].append(cells)
        elif line.isidentifier():
            tasks[line] = []
    text = [row for task, calls in tasks.items() for row in ([task], *([f"  {call}", *tail] for call, *tail in calls))]
    html = [_row(task if i == 0 else "", *call) for task, calls in tasks.items() for i, call in enumerate(calls)]
    blocks: list[page.Block] = [page.Line(lines[0] if lines else "", look=style.HEAD)]
    if tasks:
        blocks += [
            page.Only("text", [page.Line(""), page.Grid(text, indent=0)]),
            page.Only("html", [page.Grid(html, look=TABLE)]),
        ]
    table = page.Table(
        ["task", "call", "what", "page"], [[task, *call] for task, calls in tasks.items() for call in calls]
    )
    return page.Page("overview", "", blocks, table)


TABLE = "table-layout:auto;border-collapse:collapse;margin:0"


def _row(task: str, call: str, what: str, file: str) -> page.Row:
    """A call; above the first one of a task there is some space."""
    code = page.Span(call, f"{style.NUMBERS};background:none;white-space:nowrap", tag="code")
    cells: list[page.Words] = [
        page.quiet(task),
        code,
        what,
        page.Span(file, f"{style.NUMBERS};{style.QUIET};white-space:nowrap"),
    ]
    return page.Row(cells, cell=";padding-top:9px" if task else "")
