"""The view of `rf` itself: the calls to begin with, read from the docstring that `help(rf)` shows."""

from __future__ import annotations

import inspect
import re
from typing import Literal, TypedDict

from rfnb.display.markup import style
from rfnb.display.markup.elements import aligned, quiet, row
from rfnb.display.markup.html import Html, el


class Call(TypedDict):
    """A call, what it does, and the page of the documentation that explains it."""

    call: str
    what: str
    page: str


class Task(TypedDict):
    """A task with its calls."""

    name: str
    calls: list[Call]


class Overview(TypedDict):
    """The calls to begin with, by task."""

    kind: Literal["overview"]
    title: str
    tasks: list[Task]


def describe(docstring: str) -> Overview:
    """The title and the calls of a docstring: a line with the name of each task, its calls indented below.

    >>> describe("All about x.\\n\\nlook\\n    show(x)  what is in x  docs/x.md")["tasks"]
    [{'name': 'look', 'calls': [{'call': 'show(x)', 'what': 'what is in x', 'page': 'docs/x.md'}]}]
    """
    lines, tasks = inspect.cleandoc(docstring).splitlines(), list[Task]()
    for line in lines:
        cells = re.split(" {2,}", line.strip())
        if line.startswith(" ") and len(cells) == 3 and tasks:
            tasks[-1]["calls"].append({"call": cells[0], "what": cells[1], "page": cells[2]})
        elif line.isidentifier():
            tasks.append({"name": line, "calls": []})
    return {"kind": "overview", "title": lines[0] if lines else "", "tasks": tasks}


def to_text(view: Overview) -> str:
    """The title, then a line for each call, below the name of its task."""
    rows = [
        cells
        for task in view["tasks"]
        for cells in ([task["name"]], *([f"  {call['call']}", call["what"], call["page"]] for call in task["calls"]))
    ]
    return "\n".join([view["title"], "", *aligned(rows)] if rows else [view["title"]])


def to_html(view: Overview) -> Html:
    """The title, then a row for each call; the name of a task stands beside its first call."""
    rows = [
        _row(call, task["name"] if call is task["calls"][0] else None)
        for task in view["tasks"]
        for call in task["calls"]
    ]
    table = el("table", el("tbody", rows), style="table-layout:auto;border-collapse:collapse;margin:0")
    return el("div", el("div", view["title"], style=style.HEAD), table if rows else None, style=style.BOX)


def _row(call: Call, task: str | None) -> Html:
    """task: its name, above whose first call there is some space."""
    look = style.LEFT_CELL if task is None else f"{style.LEFT_CELL};padding-top:9px"
    return row(task and quiet(task), _code(call["call"]), call["what"], _page(call), look=look)


def _code(call: str) -> Html:
    return el("code", call, style=f"{style.NUMBERS};background:none;white-space:nowrap")


def _page(call: Call) -> Html:
    return el("span", call["page"], style=f"{style.NUMBERS};{style.QUIET};white-space:nowrap")
