"""Names of the entries of a side: labels, numbers, or times in seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.display.kit.data import Axis, read
from rfnb.display.kit.degrade import Notes
from rfnb.display.tensor.labels import tokens
from rfnb.display.tensor.select import sequence
from rfnb.errors import ViewError


def labels_of(side: Any, size: int, full: int, index: int | None, notes: Notes) -> list[str] | None:
    """The labels of a sequence; None for plain numbers from 0. full: size with padding, which may have labels too."""
    if side is None or isinstance(side, Dim):
        vocab = None if side is None else side.vocab
        if vocab is None or len(vocab) < size:
            return None
        return [str(vocab.decode(i)) for i in range(size)]
    if hasattr(side, "raw_tensor"):
        data = read(side)
        part = data if index is None or data.sequence_axis() is None else sequence(data, index)
        labels = tokens(part, size)
    elif isinstance(side, str):
        labels = list(side)
    else:
        labels = _given(_listed(side), index)
    if len(labels) not in (size, full):
        notes.add(f"{len(labels)} labels for {size} entries")
    return (labels + [str(i) for i in range(len(labels), size)])[:size]


def cell_labels(labels: list[str] | None, size: int, pool: int, seconds: float | None) -> list[str]:
    """Labels of the cells of the large picture: the first entry of each."""
    if labels is not None:
        return labels[::pool]
    if seconds is not None:
        return [f"{i * seconds:.3f}".rstrip("0").rstrip(".") for i in range(0, size, pool)]
    return [str(i) for i in range(0, size, pool)]


def name_or_number(name: str, number: int) -> str:
    """The number of a layer, or its name."""
    return name or ("mean" if number < 0 else str(number))


def lines_of(names: Mapping[int, str]) -> dict[int, str]:
    """The label of each layer: its number, or its name if names differ in more than numbers.

    >>> lines_of({0: "encoder.0.att", 1: "encoder.1.att"})
    {0: '0', 1: '1'}
    >>> lines_of({0: "encoder.att", 1: "decoder.att"})
    {0: 'encoder.att', 1: 'decoder.att'}
    """
    alike = len({re.sub(r"\d+", "0", name) for name in names.values()}) <= 1
    return {layer: name_or_number("" if alike else name, layer) for layer, name in names.items()}


def seconds_of(seconds: Any, rows: Axis, cols: Axis) -> tuple[float | None, float | None]:
    """Seconds from one entry to the next, for both sides; None if unknown.

    seconds: duration of a frame (below 1), or frames per second; for the columns, and for the rows if they are frames
    of the same sequence. A pair gives both. It applies to the dim that a side is derived from: an entry of time/4 is
    four frames.
    """
    if seconds is None:
        return None, None
    if isinstance(seconds, tuple | list) and len(seconds) == 2:
        given_rows, given_cols = seconds
    else:
        (row_root, _), (col_root, _) = factor_of(rows.dim), factor_of(cols.dim)
        given_rows, given_cols = (seconds if row_root is col_root or rows.size == cols.size else None), seconds
    if (
        factor_of(cols.dim)[1] == 1 and cols.dim.expr is None and rows.size == cols.size
    ):  # keys under a dim of their own
        cols = rows
    hops = [_seconds(rate, axis.dim) for rate, axis in ((given_rows, rows), (given_cols, cols))]
    return hops[0], hops[1]


def factor_of(dim: Dim) -> tuple[Dim, float]:
    """The dim that a dim is derived from, and how many of its frames make one entry."""
    factor = 1.0
    while dim.expr is not None:
        expr = dim.expr
        if expr.op in ("floordiv", "ceildiv", "floordiv_left", "ceildiv_left") and expr.numbers:
            factor *= expr.numbers[0]
        elif expr.op == "sum" and len(expr.dims) == 1 and expr.numbers[0] > 0:
            factor /= expr.numbers[0]
        elif expr.op not in ("copy", "max", "min") or len(expr.dims) != 1:
            break
        dim = expr.dims[0]
    return dim, factor


def _seconds(given: Any, dim: Dim) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise ViewError(
            "show_attention: `seconds` is the duration of a frame",
            got=repr(given),
            expected="0.01, or 100 frames a second; or a pair, for rows and columns",
        )
    hop = given if given < 1 else 1 / given
    return round(hop * factor_of(dim)[1], 9)


def _listed(side: Any) -> list[Any]:
    entries = side.tolist() if hasattr(side, "tolist") else side  # of numpy and torch
    if not isinstance(entries, Iterable):
        raise ViewError(
            "show_attention: rows and cols must be labels or a Dim",
            got=type(side).__name__,
            expected="a list of words, a string, a sparse Tensor, or a Dim",
        )
    return list(entries)


def _given(labels: list[Any], index: int | None) -> list[str]:
    """The labels of one sequence, if there is a list for each."""
    if labels and all(isinstance(entry, list | tuple) for entry in labels):
        at = index or 0
        if at >= len(labels):
            raise ViewError("show_attention: no labels for this sequence", got=at, expected=f"0 to {len(labels) - 1}")
        labels = list(labels[at])
    return [str(label) for label in labels]
