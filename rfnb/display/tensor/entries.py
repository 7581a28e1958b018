"""The entries of a tensor: labels by sequence, tables of numbers, and a small picture with padding hatched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

import numpy as np

from rfnb.core.ground.text import cut
from rfnb.core.tensor.tensor import RawTensor
from rfnb.core.vocab import Vocab
from rfnb.display.kit import options
from rfnb.display.kit.data import Data, DimView, real_entries, thin_mask, thinned, to_numpy
from rfnb.display.markup import png, style
from rfnb.display.markup.html import Html, el, quiet, wide
from rfnb.display.markup.numbers import plain, real, short
from rfnb.display.markup.png import block_for, extremes, pooled
from rfnb.display.tensor.schema import BadView, LabelCount
from rfnb.display.tensor.stats import Measured, place_of, reduced

QUOTED = frozenset({"", " ", "\n", "\t"})


class Labels(TypedDict):
    """Labels and ids of the first sequences, and how often each label occurs in all of them."""

    labels: list[list[str]]
    label_ids: list[list[int]]
    label_counts: list[LabelCount]


def describe_labels(data: Data) -> tuple[Labels, str | None]:
    """The labels of the first sequences, and a note on what was left out."""
    sequences = data.sequence_axis()
    count = 1 if sequences is None else data.axes[sequences].size
    first = range(min(count, options.LABEL_SEQUENCES))
    samples = [data] if sequences is None else [data.pick(sequences, i) for i in first]
    ids = [[int(number) for number in _first(sample, options.LABEL_TOKENS)] for sample in samples]
    vocab = data.vocab
    counts, sampled = _counts(data, vocab)
    labels: Labels = {
        "labels": [[label_of(number, vocab) for number in row] for row in ids],
        "label_ids": ids,
        "label_counts": counts,
    }
    return labels, _left_out(len(samples), count, max((sample.entries for sample in samples), default=0), sampled)


def describe_unknown(data: Data) -> BadView | None:
    """Ids outside of the sparse dim; None if there are none."""
    size = _labels_of(data)
    if size is None or not data.entries:
        return None
    near = data.device in ("cpu", "None")  # then all are looked at where they are
    where = thinned(data.shape, options.FINITE_ENTRIES if near else options.SAMPLE_ENTRIES)
    values, mask = to_numpy(data.raw[where]), thin_mask(data.mask(), where)
    wrong = ((values < 0) | (values >= size)) & (True if mask is None else mask)
    if not wrong.any():
        return None
    at = np.unravel_index(int(np.argmax(wrong)), values.shape)
    first = [int(i) * (cut.step or 1) for i, cut in zip(at, where, strict=True)]
    place = f"{place_of(data, tuple(first))}: {int(values[at])}"
    return {"word": "unknown", "count": int(wrong.sum()), "first": place}


def tokens(data: Data, most: int = options.LABEL_TOKENS) -> list[str]:
    """The labels of one sequence, in order."""
    return [label_of(int(number), data.vocab) for number in _first(data, most)]


def label_of(number: int, vocab: Vocab | None) -> str:
    """The label of a number; "⟨17?⟩" if it has none."""
    if vocab is None or not 0 <= number < len(vocab):
        return f"⟨{number}?⟩"
    return str(vocab.decode(number))


def labels_text(labels: Sequence[Sequence[str]], tags: Sequence[str] | None) -> list[str]:
    """One line per sequence."""
    names = [f"{tag}: " for tag in tags] if tags is not None else [f"{i}: " for i in range(len(labels))]
    if len(labels) == 1 and tags is None:
        names = [""]
    return [name + line(row) for name, row in zip(names, labels, strict=False)]


def line(labels: Sequence[str]) -> str:
    """The labels of one sequence, separated by spaces; a word for an empty sequence."""
    return " ".join(shown(label) for label in labels) or "(empty)"


def shown(label: str) -> str:
    """The label; in quotes if it would be invisible."""
    return repr(label) if label in QUOTED or not label.isprintable() else label


def counts_text(counts: Sequence[LabelCount]) -> str:
    """`most frequent: a 12, b 7`"""
    return "most frequent: " + ", ".join(f"{shown(count['label'])} {count['count']:,}" for count in counts)


def labels_cells(
    labels: Sequence[Sequence[str]], ids: Sequence[Sequence[int]], tags: Sequence[str] | None, unknown: bool
) -> list[list[str | list[Html]]]:
    """One row per sequence, one box per token with its id as a tooltip; marked if it has no label."""
    heads = list(tags) if tags is not None else [str(i) for i in range(len(labels))]
    box = f"{style.BORDER};border-radius:3px;padding:0 4px"
    token = f"display:inline-block;{box};margin:1px 2px 1px 0;white-space:pre"
    wrong = token.replace(style.tint(style.GREY, 0.35), style.ALARM)

    def boxed(label: str, number: int) -> Html:
        odd = unknown and label == label_of(number, None)
        return el("span", shown(label), title=number, style=wrong if odd else token)

    cells = [list(map(boxed, *row)) or "(empty)" for row in zip(labels, ids, strict=True)]
    return [[head, cell] for head, cell in zip(heads, cells, strict=False)]


def _first(data: Data, most: int) -> np.ndarray:
    if len(data.axes) == 1:
        return to_numpy(data.raw[:most])
    return real_entries(to_numpy(data.raw), data.mask())[:most]


def _labels_of(data: Data) -> int | None:
    """Number of labels in the vocab."""
    if data.vocab is not None:
        return len(data.vocab)
    return None if data.sparse is None else data.sparse.dimension


def _counts(data: Data, vocab: Vocab | None) -> tuple[list[LabelCount], str | None]:
    """The most frequent labels, and a note if not all were counted."""
    where = thinned(data.shape, options.SAMPLE_ENTRIES)
    values = to_numpy(data.raw[where])
    sampled = f"counted in {values.size:,} of {data.entries:,}" if values.size < data.entries else None
    values = real_entries(values, thin_mask(data.mask(), where))
    size = 0 if vocab is None else len(vocab)
    in_vocab = (values >= 0) & (values < size)
    ids, counts = np.unique(values[~in_vocab], return_counts=True)  # slow, but few
    totals = np.bincount(values[in_vocab].astype(np.int64))
    ids, counts = np.append(np.nonzero(totals)[0], ids), np.append(totals[totals > 0], counts)
    order = np.lexsort((ids, -counts))[: options.LABEL_COUNTS]
    return [{"label": label_of(int(ids[i]), vocab), "id": int(ids[i]), "count": int(counts[i])} for i in order], sampled


def _left_out(visible: int, of: int, longest: int, sampled: str | None) -> str | None:
    parts = []
    if visible < of:
        parts.append(f"the first {visible} of {of} sequences")
    if longest > options.LABEL_TOKENS:
        parts.append(f"the first {options.LABEL_TOKENS} tokens of each")
    if sampled:
        parts.append(sampled)
    return "labels: " + ", ".join(parts) if parts else None


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


def rows_of(values: Any, dims: list[DimView], tags: list[str] | None) -> Iterator[tuple[str, list[object]]]:
    """Pairs (label, numbers) for each row; rows that are only padding are left out, sequences are not."""
    names = [_names(dim, tags) for dim in dims[:-1]]
    sequences = len(dims) == 2 and dims[0]["kind"] == "batch"
    for index in itertools.product(*[range(dim["size"]) for dim in dims[:-1]]):
        row = values
        for i in index:
            row = row[i]
        if sequences or any(entry is not None for entry in row):
            yield ", ".join(name[i] for name, i in zip(names, index, strict=True)), row


def table_text(values: object, dims: list[DimView], tags: list[str] | None) -> list[str]:
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


def table_html(values: object, dims: list[DimView], tags: list[str] | None, *, masked: bool = False) -> Html:
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
    if any(None in row for _, row in rows):
        notes.append(f"{PAD} padding")
    return el("div", wide(table), [quiet(line, tag="div") for line in notes])


def headings(dims: list[DimView], tags: list[str] | None) -> list[str]:
    """Column headings: the tags, if columns are sequences."""
    if dims[-1]["kind"] != "batch" or not tags or len(tags) < dims[-1]["size"]:
        return []
    return [cut(tag, TAG) for tag in tags[: min(COLS, dims[-1]["size"])]]


def cell_text(value: object) -> str:
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


def _nested(values: np.ndarray, inside: np.ndarray) -> object:
    if values.ndim == 0:
        return plain(values.item()) if inside else None
    return [_nested(v, i) for v, i in zip(values, inside, strict=True)]


def _names(dim: DimView, tags: list[str] | None) -> list[str]:
    if dim["kind"] == "batch" and tags is not None and len(tags) >= dim["size"]:
        return tags
    return [f"{dim['name']} {i}" for i in range(dim["size"])]


def _look(value: object, top: float, masked: bool) -> str:
    if value is None or (masked and value == "-inf"):
        return f"{style.CELL};{style.QUIET}"
    number = real(value)
    colour = png.DIVERGING[-2] if number > 0 else png.DIVERGING[1]
    strength = 0.0 if top == 0 else round(abs(number) / top * 0.42, 2)
    if not np.isfinite(number):
        colour, strength = NOT_FINITE[str(value)], 0.45
    return f"padding:1px 6px;text-align:right;border:none;background-color:{style.tint(colour, strength)}"


def describe_picture(
    data: Data,
    cells: tuple[int, int] = options.PICTURE_CELLS,
    pixels: tuple[int, int] = (192, 480),
    *,
    measured: Measured | None = None,
) -> tuple[str, str] | None:
    """A PNG of limited size, and a caption; None where a picture would show nothing.

    measured: statistics of the tensor, so that the largest values need not be searched again, and −Inf entries of a
    mask are hatched like padding rather than marked as errors.
    """
    if not data.axes or data.entries < 2 or len(data.axes) > 8:
        return None
    rows, cols = chosen(data)
    outer = tuple(i for i in range(len(data.axes)) if i not in (rows, cols))
    masked = measured is not None and bool(measured.masked)
    values, where = _matrix(data, rows, cols, outer, measured)
    valid = _valid(data, rows, cols, where)
    if masked:
        valid = (values != -np.inf) & (True if valid is None else valid)
    wide = -(-values.shape[1] // -(-values.shape[1] // cells[1]))
    cells = (max(1, min(cells[0], options.PICTURE_PIXELS // wide)), cells[1])
    block = block_for(values.shape, cells)
    signed = extremes(values, valid, block)
    mask = None if valid is None else pooled(valid, block)
    return _draw(signed, mask, bool(outer), pixels), _words(data, rows, cols, outer, values.shape, signed.shape)


def chosen(data: Data) -> tuple[int | None, int]:
    """The axes that go down and across in the picture."""
    sizes = data.shape
    if len(sizes) == 1:
        return None, 0
    down = data.sequence_axis()
    if down is None:
        down = 0 if len(sizes) == 2 else max(range(len(sizes)), key=lambda i: (data.axes[i].moves, sizes[i]))
    candidates = [i for i in range(len(sizes)) if i != down]
    return down, max(candidates, key=lambda i: (data.axes[i].moves, sizes[i]))


def _matrix(
    data: Data, rows: int | None, cols: int, outer: tuple[int, ...], measured: Measured | None
) -> tuple[np.ndarray, tuple[slice, ...]]:
    where = thinned(data.shape, options.EXACT_ENTRIES)
    raw = data.raw[where]
    if measured is not None and measured.masked:
        raw = _largest(_without(raw), outer) if outer else raw
    elif outer and data.dtype == "bool":
        raw = _share(raw, outer)
    elif outer:
        reusable = measured is not None and measured.where is None and measured.frames.inner == outer
        raw = measured.frames.peak if reusable and measured is not None else _largest(raw, outer)
    values = to_numpy(raw).astype(np.float32)
    if rows is None:
        return values.reshape(1, -1), where
    values = values.reshape([n for i, n in enumerate(values.shape) if i in (rows, cols)])
    return (values if rows < cols else values.T), where


def _without(raw: RawTensor) -> object:
    """The numbers with −Inf replaced by zero."""
    hit = raw == -np.inf
    return raw.masked_fill(hit, 0) if hasattr(raw, "detach") else np.where(hit, 0, raw)


def _largest(raw: object, axes: tuple[int, ...]) -> np.ndarray:
    with np.errstate(all="ignore"):
        low, high = (to_numpy(reduced(raw, how, axes)).astype(np.float32) for how in ("amin", "amax"))
    return np.maximum(high, -low)


def _share(raw: RawTensor, axes: tuple[int, ...]) -> np.ndarray:
    """The share of entries that are true."""
    return to_numpy(reduced(raw.float() if hasattr(raw, "detach") else raw, "mean", axes))


def _valid(data: Data, rows: int | None, cols: int, where: tuple[slice, ...]) -> np.ndarray | None:
    mask = data.mask()
    if mask is None:
        return None
    keep = [i for i in (rows, cols) if i is not None]
    merged: np.ndarray = np.any(mask, axis=tuple(i for i in range(mask.ndim) if i not in keep), keepdims=True)
    wide = np.broadcast_to(merged, [n if i in keep else 1 for i, n in enumerate(data.shape)])
    mask = wide[tuple(where[i] if i in keep else slice(None) for i in range(mask.ndim))]
    if rows is None:
        return mask.reshape(1, -1)
    flat = mask.reshape([n for i, n in enumerate(mask.shape) if i in keep])
    return flat if rows < cols else flat.T


def _draw(values: np.ndarray, valid: np.ndarray | None, absolute: bool, pixels: tuple[int, int]) -> str:
    top, scale = png.scale_of(values)
    cell = max(1, min(pixels[0] // values.shape[0], pixels[1] // values.shape[1], 12))
    return png.picture(values / (top or 1.0), valid=valid, scale="sequential" if absolute else scale, cell=cell)


def _words(
    data: Data, rows: int | None, cols: int, outer: tuple[int, ...], shape: tuple[int, ...], drawn: tuple[int, ...]
) -> str:
    names = [axis.dim.name for axis in data.axes]
    words = f"{names[rows]} down, {names[cols]} across" if rows is not None else f"{names[cols]} across"
    if outer:
        quantity = "share of true" if data.dtype == "bool" else "largest absolute value"
        words += f", {quantity} over {', '.join(names[i] for i in outer)}"
    if drawn != shape:
        words += f", each pixel the largest of {-(-shape[0] // drawn[0])}×{-(-shape[1] // drawn[1])}"
    return words
