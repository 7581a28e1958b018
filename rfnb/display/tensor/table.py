"""Small tensors as tables of numbers: the last dim across, all others down."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from rfnb.core.ground.text import cut
from rfnb.display.kit.data import Data, to_numpy
from rfnb.display.kit.schema import DimView
from rfnb.display.markup import png, style
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import plain, real, short
from rfnb.display.markup.widgets_html import quiet

ROWS = 24
COLS = 24
PAD = "·"
NOT_FINITE = {"nan": style.ALARM, "inf": "#ff8c00", "-inf": "#6a3cd2"}
"""Colours for NaN and infinities, as in pictures."""
TAG = 12
"""Longest tag above a column, in characters."""


def describe_values(data: Data) -> Any:
    """Nested lists in the order of the axes; None for padding."""
    values = to_numpy(data.raw)
    mask = data.mask()
    valid = np.ones(values.shape, bool) if mask is None else np.broadcast_to(mask, values.shape)
    return _nested(values, valid)


def rows_of(values: Any, dims: list[DimView], tags: list[str] | None) -> Iterator[tuple[str, list[Any]]]:
    """Pairs (label, numbers) for each row; rows that are only padding are left out, sequences are not."""
    names = [_names(dim, tags) for dim in dims[:-1]]
    sequences = len(dims) == 2 and dims[0]["kind"] == "batch"
    for index in itertools.product(*[range(dim["size"]) for dim in dims[:-1]]):
        row = values
        for i in index:
            row = row[i]
        if sequences or any(entry is not None for entry in row):
            yield ", ".join(name[i] for name, i in zip(names, index, strict=True)), row


def table_text(values: Any, dims: list[DimView], tags: list[str] | None) -> list[str]:
    """The numbers as aligned lines."""
    if not dims:
        return [f"  {cell_text(values)}"]
    rows = list(rows_of(values, dims, tags))
    notes, rows = left_out(len(rows), dims), rows[:ROWS]
    over = headings(dims, tags)
    labels = [*([""] if over else []), *(label for label, _ in rows)]
    cells = [*([over] if over else []), *([cell_text(v) for v in row[:COLS]] for _, row in rows)]
    width = max((len(c) for row in cells for c in row), default=0)
    head = max((len(label) for label in labels), default=0)
    lines = [
        f"  {label:<{head}}  {' '.join(f'{c:>{width}}' for c in row)}".rstrip()
        for label, row in zip(labels, cells, strict=True)
    ]
    return lines + [f"  {line}" for line in notes]


def table_html(values: Any, dims: list[DimView], tags: list[str] | None, *, masked: bool = False) -> Html:
    """The numbers as an HTML table. The background shows sign and size; padding is pale, as is −Inf if `masked`."""
    if not dims:
        return el("div", cell_text(values), style=style.NUMBERS)
    rows = list(rows_of(values, dims, tags))
    notes, rows = left_out(len(rows), dims), rows[:ROWS]
    top = max(
        (abs(real(v)) for _, row in rows for v in row[:COLS] if v is not None and np.isfinite(real(v))), default=0
    )
    over = headings(dims, tags)
    top_row = el(
        "tr",
        el("td", "", style=style.LABEL_CELL) if len(dims) > 1 else None,
        [el("th", tag, style=style.HEADER_CELL) for tag in over],
        style=style.PLAIN_ROW,
    )
    body = [
        el(
            "tr",
            el("td", label, style=style.LABEL_CELL) if len(dims) > 1 else None,
            [el("td", cell_text(v), style=_look(v, top, masked)) for v in row[:COLS]],
            style=style.PLAIN_ROW,
        )
        for label, row in rows
    ]
    table = el("table", [top_row, *body] if over else body, style=style.TABLE)
    return el("div", el("div", table, style="overflow-x:auto"), [quiet(line, tag="div") for line in notes])


def headings(dims: list[DimView], tags: list[str] | None) -> list[str]:
    """Column headings: the tags, if columns are sequences."""
    if dims[-1]["kind"] != "batch" or not tags or len(tags) < dims[-1]["size"]:
        return []
    return [cut(tag, TAG) for tag in tags[: min(COLS, dims[-1]["size"])]]


def cell_text(value: Any) -> str:
    """A number, or the sign for padding."""
    return PAD if value is None else short(value)


def left_out(rows: int, dims: list[DimView]) -> list[str]:
    """Notes on rows and columns beyond the limits."""
    parts = []
    if rows > ROWS:
        parts.append(f"{rows - ROWS} more rows")
    if dims[-1]["size"] > COLS:
        parts.append(f"{dims[-1]['size'] - COLS} more entries in each row")
    return ["… " + ", ".join(parts)] if parts else []


def _nested(values: np.ndarray, inside: np.ndarray) -> Any:
    if values.ndim == 0:
        return plain(values.item()) if inside else None
    return [_nested(v, i) for v, i in zip(values, inside, strict=True)]


def _names(dim: DimView, tags: list[str] | None) -> list[str]:
    if dim["kind"] == "batch" and tags is not None and len(tags) >= dim["size"]:
        return tags
    return [f"{dim['name']} {i}" for i in range(dim["size"])]


def _look(value: Any, top: float, masked: bool) -> str:
    if value is None or (masked and value == "-inf"):
        return style.CELL + ";opacity:0.35"
    number = real(value)
    if not np.isfinite(number):
        return f"padding:1px 6px;text-align:right;border:none;background-color:{style.tint(NOT_FINITE[value], 0.45)}"
    strength = 0.0 if top == 0 else abs(number) / top * 0.42
    colour = png.DIVERGING[-2] if number > 0 else png.DIVERGING[1]
    return f"padding:1px 6px;text-align:right;border:none;background-color:{style.tint(colour, round(strength, 2))}"
