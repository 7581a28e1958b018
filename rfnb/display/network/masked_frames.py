"""The frames that masked_computation takes: a strip for each sequence of the last batch, and how many these are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import count_of, cut
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.kit import options
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.widgets_html import quiet
from rfnb.display.network.schema import TakenFrames, TakenRow

CELLS = 120
"""The most cells of a strip; in longer sequences, a cell is several frames."""
TAG = 24
WIDTH = 480
"""Width of the longest strip, in pixels."""
CELL = 16
"""The greatest width of a cell."""
TAKEN = style.PALETTE[2]


def describe_taken(mask: Tensor, axis: Dim) -> TakenFrames:
    """The strips. {…, axis}"""
    outer = [dim for dim in mask.dims if dim is not axis]
    array = mask.copy_transpose([*outer, axis]).numpy()
    size = mask.size_of(axis)
    lengths = np.broadcast_to(size.over(outer), array.shape[:-1])
    tags = [mask.size_of(dim).tags for dim in outer]
    places = list(np.ndindex(array.shape[:-1]))
    per_cell = -(-array.shape[-1] // CELLS) or 1
    rows = [
        _row(_name(outer, place, tags), array[place][: int(lengths[place])], per_cell)
        for place in places[: options.BARS]
    ]
    width = max((len(row["cells"]) for row in rows), default=0)
    return {"axis": axis.name, "width": width, "rows": rows, "more": len(places) - len(rows)}


def _name(others: Sequence[Dim], place: Sequence[int], tags: Sequence[Sequence[str] | None]) -> str:
    """The tag of a sequence, or its place, and the places along other dims: "batch 0 beam 2"."""
    named = zip(others, place, tags, strict=True)
    return " ".join(f"{dim.name} {i}" if labels is None else cut(labels[i], TAG) for dim, i, labels in named)


def _row(name: str, taken: np.ndarray, per_cell: int) -> TakenRow:
    cells = [float(taken[i : i + per_cell].mean()) for i in range(0, len(taken), per_cell)]
    return {"name": name, "frames": len(taken), "taken": int(taken.sum()), "cells": cells}


def taken_text(view: TakenFrames | None) -> list[str]:
    """A line for each sequence: █ for a frame that is taken, · for another one, ▒ for some of several."""
    if view is None:
        return []
    wide = max((len(row["name"]) for row in view["rows"]), default=0)
    lines = [_head(view)]
    for row in view["rows"]:
        strip = "".join("█" if part == 1 else "▒" if part else "·" for part in row["cells"])
        lines.append(f"  {row['name']:<{wide}}  {strip:<{view['width']}}  {_counts(row)}")
    return [*lines, *_more(view)]


def taken_html(view: TakenFrames | None) -> Html | None:
    """A row for each sequence; the darker a cell, the more of its frames are taken."""
    if view is None:
        return None
    cell = min(CELL, WIDTH / max(view["width"], 1))
    rows = [
        el(
            "tr",
            el("td", row["name"], style=style.LABEL_CELL),
            el("td", _strip(row, cell), style=style.LEFT_CELL),
            el("td", _counts(row), style=style.LABEL_CELL),
            style=style.PLAIN_ROW,
        )
        for row in view["rows"]
    ]
    return el("div", quiet(_head(view)), el("table", rows, style=style.TABLE), [quiet(line) for line in _more(view)])


def _strip(row: TakenRow, width: float) -> list[Html]:
    """Cells that are equal and side by side are one element."""
    cells, start = [], 0
    for i, part in enumerate(row["cells"]):
        if i + 1 == len(row["cells"]) or row["cells"][i + 1] != part:
            colour = style.tint(TAKEN, 0.25 + 0.65 * part) if part else style.tint(style.GREY, 0.18)
            look = f"display:inline-block;height:10px;width:{(i + 1 - start) * width:.4g}px;background-color:{colour}"
            cells.append(el("span", style=look))
            start = i + 1
    return cells


def _head(view: TakenFrames) -> str:
    return f"frames of {view['axis']} in the last batch; those taken are filled"


def _counts(row: TakenRow) -> str:
    return f"{row['frames']} → {row['taken']}"


def _more(view: TakenFrames) -> Iterator[str]:
    if view["more"]:
        yield f"  … {count_of(view['more'], 'sequence')} more"
