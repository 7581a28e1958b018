"""The view of what is in a checkpoint: a tree of names, with shapes, dtypes and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Literal, TypedDict

from rfnb.checkpoint.entries import CheckpointFile, StoredEntry
from rfnb.display.kit import options
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, quiet
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import amount, size

DEEPEST = 12
"""Names with more parts keep the rest in one."""
OPEN = 8
"""Parts with at most so many entries are open at first."""
ITEMSIZES = {"bool": 1, "float8_e5m2": 1, "float8_e4m3fn": 1}
"""The bytes of a value, for dtypes whose names do not say it."""


class StoredRow(TypedDict):
    """An entry: its full name, its shape and dtype, its number of values and bytes."""

    name: str
    shape: list[int]
    dtype: str
    count: int
    bytes: int


class ContentsNode(TypedDict):
    """A part of the names: its entries by number, and the parts below it."""

    name: str
    rows: list[int]
    entries: int
    count: int
    children: list[ContentsNode]


class ContentsView(TypedDict):
    """A checkpoint: its entries as a tree, and those that stand apart."""

    kind: Literal["checkpoint"]
    path: str
    format: str
    separator: str
    rows: list[StoredRow]
    root: ContentsNode
    apart: list[StoredRow]


def describe(file: CheckpointFile) -> ContentsView:
    """The entries, and their names as a tree."""
    rows = _rows(file.entries)
    root = _node("")
    places: dict[tuple[str, ...], ContentsNode] = {(): root}
    for number, row in enumerate(rows):
        path = tuple(row["name"].split(file.separator, DEEPEST)[:-1])
        for i in range(len(path)):
            if path[: i + 1] not in places:
                places[path[: i + 1]] = _node(path[i])
                places[path[:i]]["children"].append(places[path[: i + 1]])
        for i in range(len(path) + 1):
            places[path[:i]]["entries"] += 1
            places[path[:i]]["count"] += row["count"]
        places[path]["rows"].append(number)
    return {
        "kind": "checkpoint",
        "path": file.path,
        "format": file.kind,
        "separator": file.separator,
        "rows": rows,
        "root": root,
        "apart": _rows(file.apart),
    }


def _node(name: str) -> ContentsNode:
    return {"name": name, "rows": [], "entries": 0, "count": 0, "children": []}


def _rows(entries: Mapping[str, StoredEntry]) -> list[StoredRow]:
    rows: list[StoredRow] = []
    for name, entry in entries.items():
        count = prod(entry.shape)
        rows.append(
            {
                "name": name,
                "shape": list(entry.shape),
                "dtype": entry.dtype,
                "count": count,
                "bytes": count * _itemsize(entry.dtype),
            }
        )
    return rows


def _itemsize(dtype: str) -> int:
    bits = re.fullmatch(r"(?:b?float|u?int|complex)(8|16|32|64|128)", dtype)
    return int(bits[1]) // 8 if bits else ITEMSIZES.get(dtype, 0)


def to_text(view: ContentsView) -> str:
    """A line for each part and entry."""
    lines = [f"{view['format']} {view['path']}: {_total(view)}", *(f"  {line}" for line in _lines(view["root"], view))]
    if view["apart"]:
        lines += [f"  apart: {len(view['apart'])}"]
        lines += [f"    {row['name']}  {_shape(row)}  {row['dtype']}" for row in view["apart"]]
    if len(lines) > options.MODULE_LINES:
        lines = [*lines[: options.MODULE_LINES], f"… {len(lines) - options.MODULE_LINES} more lines; all: .table()"]
    return "\n".join(lines)


def to_table(view: ContentsView) -> Table:
    """A row for each entry, also for those that stand apart."""
    rows = [*((row, "") for row in view["rows"]), *((row, "yes") for row in view["apart"])]
    return Table(
        ["name", "shape", "dtype", "values", "bytes", "apart"],
        [[row["name"], _shape(row), row["dtype"], row["count"], row["bytes"], apart] for row, apart in rows],
    )


def to_html(view: ContentsView) -> Html:
    """The tree with folds."""
    room = [options.MODULE_LINES]
    entries = _inside(view["root"], view, room)
    apart = [_entry(row["name"], row) for row in view["apart"][: options.MODULE_LINES]]
    return el(
        "div",
        el("div", el("span", view["path"], style=style.NAME), quiet(f"  {view['format']} · {_total(view)}")),
        el("div", entries, style=f"{style.RAIL};overflow-x:auto;{style.NUMBERS}"),
        _fold(f"apart: {len(view['apart'])}", "optimizers, steps, and values that are not numbers", apart, shut=True)
        if apart
        else None,
        quiet("… and more; all: .table()", tag="div") if room[0] <= 0 else None,
        style=style.BOX,
    )


def _total(view: ContentsView) -> str:
    number = len(view["rows"])
    sizes = size(sum(row["bytes"] for row in view["rows"]))
    return f"{number:,} {'entry' if number == 1 else 'entries'}, {amount(view['root']['count'])} values, {sizes}"


def _shape(row: StoredRow) -> str:
    return "×".join(map(str, row["shape"])) or "scalar"


def _short(row: StoredRow, view: ContentsView) -> str:
    return row["name"].split(view["separator"], DEEPEST)[-1]


def _facts(node: ContentsNode) -> str:
    return f"{amount(node['count'])} values in {node['entries']}"


def _lines(node: ContentsNode, view: ContentsView) -> Iterator[str]:
    rows = [view["rows"][i] for i in node["rows"]]
    cells = [(_short(row, view), _shape(row), row["dtype"]) for row in rows]
    widths = [max((len(cell[i]) for cell in cells), default=0) for i in range(2)]
    for name, shape, dtype in cells:
        yield f"{name:<{min(widths[0], 40)}}  {shape:<{min(widths[1], 20)}}  {dtype}"
    for child in node["children"]:
        yield f"{child['name']}{view['separator']}  {_facts(child)}"
        yield from (f"  {line}" for line in _lines(child, view))


def _inside(node: ContentsNode, view: ContentsView, left: list[int]) -> list[Html]:
    parts = []
    for row in (view["rows"][i] for i in node["rows"]):
        if left[0] > 0:
            left[0] -= 1
            parts.append(_entry(_short(row, view), row))
    for child in node["children"]:
        if left[0] > 0:
            left[0] -= 1
            entries = _inside(child, view, left)
            parts.append(_fold(f"{child['name']}{view['separator']}", _facts(child), entries, child["entries"] > OPEN))
    return parts


def _entry(name: str, row: StoredRow) -> Html:
    return el("div", f"{name} ", quiet(f"{_shape(row)} · {row['dtype']}"), style="white-space:nowrap")


def _fold(title: str, facts: str, inside: list[Any], shut: bool) -> Html:
    summary = el("summary", el("b", title), " ", quiet(facts), style="cursor:pointer")
    return el("details", summary, el("div", inside, style=style.RAIL), open=not shut)
