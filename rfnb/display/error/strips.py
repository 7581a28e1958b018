"""Operands as strips of dims: equal dims are below each other, and dims that do not fit are marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.display.error.failed_call import Argument
from rfnb.display.error.operands import OperandCell, aligned, dims_in
from rfnb.display.error.schema import DimOrigin, StripCell, StripRow
from rfnb.display.kit.dims import describe_dim, named_pill, names_of, size_word
from rfnb.display.markup import grid, style
from rfnb.display.markup.html import Html, el

SHOWN_LENGTHS = 8
"""Largest number of lengths that are listed."""


def describe_strips(
    arguments: Sequence[Argument], odd: Sequence[object] = ()
) -> tuple[list[StripRow], list[DimOrigin]]:
    """A row for each argument, and the origins of their dims. odd: dims known not to fit."""
    rows, columns = aligned(arguments, odd)
    cells = [cell for row in rows for cell in row.cells]
    names = names_of(dims_in(cells))
    described: list[StripRow] = [
        {
            "name": row.argument.name,
            "text": row.argument.text,
            "type": row.type,
            "cells": [_cell(column[number], names) if number in column else None for column in columns],
        }
        for number, row in enumerate(rows)
        if row.cells or row.argument.text
    ]
    return described, _origins(cells, names)


def _cell(cell: OperandCell, names: dict[int, str]) -> StripCell:
    if cell.dim is None or cell.lengths is None:
        return {"dim": None, "word": str(cell.number), "odd": cell.odd}
    dim = describe_dim(cell.dim, cell.lengths)
    lengths = dim["lengths"]
    size = f":{size_word(dim)}"
    if cell.spelled and lengths and len(lengths) <= SHOWN_LENGTHS:
        size = f" {lengths}"
    return {"dim": dim, "word": names[cell.dim.serial] + size, "odd": cell.odd}


def _origins(cells: Sequence[OperandCell], names: dict[int, str]) -> list[DimOrigin]:
    """The origin of each dim, first of dims that do not fit; two origins for a dim with two lengths."""
    origins: dict[Any, DimOrigin] = {}
    for cell in cells:
        if cell.dim is not None and cell.lengths is not None:
            bound = cell.size.made if cell.spelled and cell.size is not None else None
            place = None if bound is None else bound.place()
            origin = _origin(cell.dim, names[cell.dim.serial], cell.lengths, place, odd=cell.odd)
            if origin["dim"]["made"] or place:
                origins.setdefault((cell.dim.serial, place), origin)
    return sorted(origins.values(), key=lambda origin: not origin["odd"])


def _origin(dim: Dim, name: str, lengths: Lengths, bound: str | None, *, odd: bool) -> DimOrigin:
    view = describe_dim(dim, lengths)
    formula = view["formula"] if view["formula"] != dim.name else None
    place = f"made in {view['made']}" if view["made"] else None
    where = ", ".join(part for part in (formula, place, f"bound in {bound}" if bound else None) if part)
    text = None if dim.made is None else dim.made.text() or None
    return {"dim": view, "name": name, "where": where, "text": text, "odd": odd}


# -- text


def strips_text(rows: Sequence[StripRow]) -> list[str]:
    """One line per operand, in columns, with `^` below dims that do not fit."""
    words = [[cell["word"] if cell else "" for cell in row["cells"]] for row in rows]
    table = [[*head, *cells] for head, cells in zip(_heads(rows), words, strict=True)]
    columns = list(zip(*(row["cells"] for row in rows), strict=True))
    odd = [any(cell is not None and cell["odd"] for cell in column) for column in columns]
    if any(odd):
        widths = [max(len(cell["word"]) if cell else 0 for cell in column) for column in columns]
        marks = ["^" * size if wrong else "" for wrong, size in zip(odd, widths, strict=True)]
        table.append(["", "", "", *marks])
    return grid.aligned(table)


def _heads(rows: Sequence[StripRow]) -> list[list[str]]:
    return [[row["name"], row["text"] if row["text"] != row["name"] else "", row["type"]] for row in rows]


def origins_text(origins: Sequence[DimOrigin]) -> list[str]:
    """`time+1  made in cell 3, line 1: rf.pad(x, …)`"""
    width = max((len(origin["name"]) for origin in origins), default=0)
    return [
        f"{origin['name']:<{width}}  {origin['where']}" + (f": {origin['text']}" if origin["text"] else "")
        for origin in origins
    ]


# -- HTML


def strips_html(rows: Sequence[StripRow]) -> Html:
    """The operands as rows of pills."""
    return el("table", [_row_html(row, head) for row, head in zip(rows, _heads(rows), strict=True)], style=style.TABLE)


def _row_html(row: StripRow, head: list[str]) -> Html:
    name, text, kind = head
    look = f"{style.LABEL_CELL};vertical-align:middle"
    cells = [
        el("td", name, style=look),
        el("td", text, style=f"{look};opacity:1;font-weight:bold;white-space:normal;max-width:18em"),
        el("td", kind, style=look),
        *(
            el("td", _pill(cell), style="padding:3px 2px 3px 0;text-align:left;border:none;background:none")
            for cell in row["cells"]
        ),
    ]
    return el("tr", cells, style=style.PLAIN_ROW)


def _pill(cell: StripCell | None) -> Html | None:
    if cell is None:
        return None
    dim = cell["dim"]
    odd = f";outline:2px solid {style.ALARM};display:inline-block" if cell["odd"] else ""
    mark = el("b", "≠ ", style=f"color:{style.ALARM}") if cell["odd"] else None
    if dim is None:
        return el("span", mark, cell["word"], style=style.pill(None) + odd)
    return named_pill(dim, [mark, cell["word"]], odd)


def origins_html(origins: Sequence[DimOrigin]) -> Html:
    """A line for each dim: where it was made, and by which expression."""
    return el("table", [_origin_row(origin) for origin in origins], style=style.TABLE)


def _origin_row(told: DimOrigin) -> Html:
    cells = [
        el("td", named_pill(told["dim"], told["name"]), style=style.LEFT_CELL),
        el("td", told["where"], style=f"{style.LEFT_CELL};{style.QUIET}"),
        el("td", told["text"], style=style.LEFT_CELL),
    ]
    return el("tr", cells, style=style.PLAIN_ROW)
