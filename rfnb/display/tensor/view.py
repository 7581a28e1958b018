"""The view of a tensor: name, dtype, dims with true lengths, statistics, and the numbers, labels or a picture."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np

from rfnb.core.ground.text import count_of, cut, did_you_mean, number_of
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.display.kit import blocks as page, options
from rfnb.display.kit.data import (
    Axis,
    Data,
    DimView,
    colour_of,
    describe_axes,
    describe_dim,
    dim_word,
    origin,
    read_as_called,
)
from rfnb.display.markup import style, svg
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import amount, bars, percent, plain, real, short, size as size_text
from rfnb.display.tensor import entries
from rfnb.display.tensor.schema import BadView, GradView, LengthsView, SequenceRow, TensorStats, TensorView
from rfnb.display.tensor.stats import Measured, measure, same, tensor_stats
from rfnb.errors import ViewError

# -- as JSON


def select(data: Data, batch: int | str | None, **positions: int | str) -> Data:
    """One sequence, by its number or tag, and single positions of other dims, by their names.

    A position is a number, or a label if the dim has a vocab. The choice is appended to the name.
    Raises ViewError if there is no such sequence, dim or position.
    """
    part = data if batch is None else sequence(data, batch)
    choices = [] if batch is None else [_word(data, batch)]
    for dim_name, position in positions.items():
        at = next((i for i, axis in enumerate(part.axes) if axis.dim.name == dim_name), None)
        if at is None:
            names = [axis.dim.name for axis in part.axes]
            raise ViewError(
                f"show: {data.name} has no dim {dim_name}",
                got=f"{dim_name}={position!r}",
                expected=", ".join(names) or "a scalar has none to choose from",
                hint=did_you_mean(dim_name, [*names, "lengths", "dims", "batch"], "{}"),
            )
        axis = part.axes[at]
        index = _position(axis, position)
        short = 0 if axis.lengths is None else int((axis.lengths <= index).sum())
        if short:
            part = replace(part, notes=(*part.notes, f"{dim_name} {index} is padding in {short} of the sequences"))
        part = part.pick(at, index)
        choices.append(f"{dim_name} {position if isinstance(position, str) else index}")
    return replace(part, name=f"{data.name} of {', '.join(choices)}") if choices else part


def sequence(data: Data, batch: int | str) -> Data:
    """One sequence, by its number or tag. Raises ViewError if it does not exist."""
    at = data.sequence_axis()
    if at is None:
        raise ViewError(
            f"show: {data.name} has no axis that counts sequences",
            got=f"batch={batch!r}",
            expected=f"one of {', '.join(axis.dim.name for axis in data.axes) or 'no dims'} to be a batch dim",
            hint=None if data.cls == "Tensor" else 'rf.show(array, dims=["batch", …], batch=…)',
        )
    return data.pick(at, index_of(batch, data.axes[at].size, data.axes[at].tags))


def index_of(batch: int | str, size: int, tags: Sequence[str] | None) -> int:
    """The number of a sequence, given its number or tag. Raises ViewError if it does not exist."""
    if isinstance(batch, str):
        return number_of(batch, tags, "show", ViewError)
    return _within(batch, size, "show: no such sequence")


def _within(position: Any, size: int, complaint: str) -> int:
    try:
        number = operator.index(position)
    except TypeError:
        number = size  # of no use either
    if not -size <= number < size:
        expected = f"0 to {size - 1}" if size else "nothing: there are none"
        raise ViewError(complaint, got=repr(position), expected=expected)
    return number % size


def _position(axis: Axis, position: int | str) -> int:
    vocab = axis.dim.vocab
    if isinstance(position, str) and vocab is not None:
        position = vocab.encode([position])[0]
    if axis.lengths is not None and isinstance(position, int) and position < 0:
        raise ViewError(
            f"show: {axis.dim.name} ends at a different position in each sequence",
            got=position,
            expected="one sequence: batch=…",
        )
    return _within(position, axis.size, f"show: no such position of {axis.dim.name}")


def _word(data: Data, batch: int | str) -> str:
    """The tag of a sequence, or "batch 3"."""
    axis = data.axes[data.sequence_axis() or 0]
    index = index_of(batch, axis.size, axis.tags)
    return repr(axis.tags[index]) if axis.tags is not None else f"{axis.dim.name} {index}"


@page.shows("tensor", "rfnb.core.tensor.tensor.Tensor")
def describe(tensor: Tensor, batch: int | str | None = None, **positions: int | str) -> TensorView:
    """The JSON of a tensor, of one sequence by number or tag, or of single positions of other dims."""
    try:
        data = read_as_called(tensor)
    except ViewError as error:
        return _bare(tensor, error.what)
    return describe_data(data if batch is None and not positions else select(data, batch, **positions))


def describe_data(data: Data) -> TensorView:
    """The JSON of data that was read before."""
    notes = page.Notes(*data.notes)
    view = _frame(data)
    tags = _tags(data)
    view["tags"] = tags if tags is None or len(tags) <= options.TAGS else None
    view["grad"] = notes.attempt("gradient", lambda: describe_grad(data.source), None)
    view["lengths"] = notes.attempt("lengths", lambda: describe_lengths(data), [])
    measured = None
    if (reason := _no_numbers(data)) is not None:
        notes.add(reason)
    elif data.vocab is not None:
        _add_labels(view, data, notes)
    else:
        measured = notes.attempt("statistics", lambda: measure(data), None)
        _add_numbers(view, data, measured, notes)
    view["sequences"] = notes.attempt("sequences", lambda: describe_sequences(data, measured), None)
    view["note"] = notes.text()
    return view


def _frame(data: Data) -> TensorView:
    return {
        "kind": "tensor",
        "name": data.name,
        "cls": data.cls,
        "dtype": data.dtype,
        "device": data.device,
        "bytes": data.entries * int(getattr(getattr(data.raw, "dtype", None), "itemsize", 0)),
        "dims": describe_axes(data.axes, data.feature),
        "sparse": data.sparse.name if data.sparse is not None else None,
        "stats": None,
        "lengths": [],
        "sequences": None,
        "values": None,
        "labels": None,
        "label_ids": None,
        "label_counts": None,
        "unknown": None,
        "tags": None,
        "picture": None,
        "picture_alt": None,
        "grad": None,
        "note": None,
    }


def _no_numbers(data: Data) -> str | None:
    """The reason why no numbers can be shown; None if they can."""
    if data.device == "meta":
        return "no numbers: on the meta device"
    layout = str(getattr(data.raw, "layout", "torch.strided"))
    if layout != "torch.strided":
        return f"no numbers: {layout.removeprefix('torch.')} layout"
    return None if data.entries else "empty"


def _add_labels(view: TensorView, data: Data, notes: page.Notes) -> None:
    view["unknown"] = notes.attempt("unknown ids", lambda: entries.describe_unknown(data), None)
    labels = notes.attempt("labels", lambda: entries.describe_labels(data), None)
    if labels is not None:
        view.update(labels[0])  # type: ignore[typeddict-item]
        notes.add(labels[1])


def _add_numbers(view: TensorView, data: Data, measured: Measured | None, notes: page.Notes) -> None:
    if measured is not None:
        view["stats"] = notes.attempt("statistics", lambda: tensor_stats(measured), None)
    if data.sparse is not None:
        view["unknown"] = notes.attempt("unknown ids", lambda: entries.describe_unknown(data), None)
    if data.entries <= options.TABLE_ENTRIES:
        view["values"] = notes.attempt("numbers", lambda: entries.describe_values(data), None)
        return
    if data.entries > options.FINITE_ENTRIES:
        notes.add(f"no picture of {amount(data.entries)} entries")
        return
    if view["stats"] is not None and same(view["stats"]) and not view["stats"]["bad"]:
        return
    picture = notes.attempt("picture", lambda: entries.describe_picture(data, measured=measured), None)
    if picture is not None:
        view["picture"], view["picture_alt"] = picture


def _bare(tensor: Tensor, note: str) -> TensorView:
    """The JSON of a tensor whose numbers cannot be read."""
    notes = page.Notes(note)

    def ask(name: str, otherwise: str) -> str:
        return str(notes.attempt(name, lambda: getattr(tensor, name), otherwise) or otherwise)

    dims: list[DimView] = notes.attempt("dims", lambda: [describe_dim(dim, tensor.lengths) for dim in tensor.dims], [])
    empty = Data(ask("name", "tensor"), ask("dtype", "?"), ask("device", "?"), None, ())
    return {**_frame(empty), "bytes": 0, "dims": dims, "note": notes.text()}


def _tags(data: Data) -> list[str] | None:
    return next((list(axis.tags) for axis in data.axes if axis.tags is not None), None)


def describe_grad(raw: RawTensor) -> GradView | None:
    """Facts about the gradient; None if the tensor requires none."""
    if not getattr(raw, "requires_grad", False):
        return None
    leaf = raw.is_leaf or raw.retains_grad  # of others, asking for the gradient warns
    grad = raw.grad if leaf else None
    if grad is None or math.prod(grad.shape) > options.FINITE_ENTRIES:
        return {"leaf": bool(leaf), "norm": None}
    return {"leaf": True, "norm": plain(float(grad.detach().norm().item()))}


def describe_sequences(data: Data, measured: Measured | None) -> list[SequenceRow] | None:
    """A row for each sequence; None if no axis counts sequences, or there are too many."""
    at = data.sequence_axis()
    if at is None or data.axes[at].size > options.LENGTHS:
        return None
    count = data.axes[at].size
    empty: SequenceRow = {
        "tag": None, "length": None, "mean": None, "min": None, "max": None, "nan": None, "inf": None
    }  # fmt: skip
    rows: list[SequenceRow] = [{**empty} for _ in range(count)]
    _put(rows, "tag", data.axes[at].tags)
    _put(rows, "length", _lengths(data, at))
    if measured is not None and measured.frames.mean.shape[at] == count:
        for key, values in _numbers(measured, at).items():
            _put(rows, key, values)
    return rows


def describe_lengths(data: Data) -> list[LengthsView]:
    """Summary of the lengths of each axis that has some."""
    return [_lengths_of(i, axis.lengths, axis.size) for i, axis in enumerate(data.axes) if axis.lengths is not None]


def _lengths_of(axis: int, lengths: np.ndarray, size: int) -> LengthsView:
    low, high = (int(lengths.min()), int(lengths.max())) if lengths.size else (0, 0)
    many = lengths.size > options.BARS and low < high
    counts = np.histogram(lengths, bins=options.HISTOGRAM_BINS, range=(low, high))[0] if many else None
    return {
        "axis": axis,
        "median": float(np.median(lengths)) if lengths.size else 0.0,
        "padding": 1 - float(lengths.sum()) / max(1, size * lengths.size) if size else 0.0,
        "empty": int((lengths == 0).sum()),
        "histogram": None if counts is None else [int(n) for n in counts],
    }


def _lengths(data: Data, at: int) -> list[int] | None:
    """The lengths of the first axis with one length per sequence."""
    dim = data.axes[at].dim
    lengths = next((axis.lengths for axis in data.axes if axis.lengths is not None and axis.over == (dim,)), None)
    return None if lengths is None else [int(n) for n in lengths]


def _numbers(measured: Measured, at: int) -> dict[str, Sequence[object]]:
    frames = measured.frames
    axes = tuple(i for i in range(frames.mean.ndim) if i != at)
    mask = frames.weights > 0
    total = frames.weights.sum(axis=axes)
    with np.errstate(all="ignore"):
        mean = (np.where(mask, frames.mean, 0) * frames.weights).sum(axis=axes) / total
    low = np.where(mask, frames.low, np.inf).min(axis=axes, initial=np.inf)
    high = np.where(mask, frames.high, -np.inf).max(axis=axes, initial=-np.inf)
    moments = {"mean": mean, "min": low, "max": high}
    result: dict[str, Sequence[object]] = {key: _where(total > 0, values) for key, values in moments.items()}
    return result if measured.where is not None else {**result, **_wrong(measured, at, axes)}


def _wrong(measured: Measured, at: int, others: tuple[int, ...]) -> dict[str, Sequence[object]]:
    def count(*words: str) -> list[int]:
        none = np.zeros(measured.data.axes[at].size, np.int64)
        parts = [measured.frames.wrong[word].sum(axis=others) for word in words if word in measured.bad]
        return sum(parts, none).tolist()

    return {"nan": count("NaN"), "inf": count("+Inf", "−Inf")}


def _where(some: np.ndarray, values: np.ndarray) -> list[object]:
    return [plain(float(value)) if exists else None for exists, value in zip(some, values, strict=True)]


def _put(rows: Sequence[Any], key: str, values: Sequence[object] | None) -> None:
    for row, value in zip(rows, values or (), strict=False):
        row[key] = value


# -- as a page

WIDTH = 160
"""Width of the longest bar, in pixels."""
TAG = 24


def lengths_fold(view: TensorView) -> page.Block:
    """The lengths of sequences and the origins of dims, folded."""
    dims, axes = view["dims"], [summary["axis"] for summary in view["lengths"]]
    if not axes:
        return None
    title = [_title(summary, dims[summary["axis"]]) for summary in view["lengths"]]
    bars = [block for summary in view["lengths"] for block in _one(summary, dims[summary["axis"]], view["tags"])]
    origins = [_origin(dim) for i, dim in enumerate(dims) if i not in axes]
    return page.Only("html", [page.Fold(title, [*bars, *origins])])


def _title(summary: LengthsView, dim: DimView) -> page.Words:
    low, high, _ = dim["length_range"] or [0, 0, 0]
    lengths = f"all of length {low}" if low == high else f"lengths {low}–{high}, median {short(summary['median'])}"
    words = f"{dim['name']}: {lengths}, padding {percent(summary['padding'])} "
    return [words, page.chip(_empty(summary), style.WARN) if summary["empty"] else None]


def _empty(summary: LengthsView) -> str:
    return f"{count_of(summary['empty'], 'sequence')} of length 0"


def _origin(dim: DimView) -> page.Block:
    return page.Line(page.pill(dim), origin(dim)) if origin(dim) else None


def _one(summary: LengthsView, dim: DimView, tags: Sequence[str] | None) -> list[page.Block]:
    lengths = dim["lengths"]
    if lengths is not None and len(lengths) <= options.BARS:
        return [_origin(dim), page.Figure(bars_html(lengths, dim, tags))]
    low, high, _ = dim["length_range"] or [0, 0, 0]
    text = f"[{low} {bars(summary['histogram'])} {high}]" if summary["histogram"] else f"all {low}"
    return [_origin(dim), page.Line(page.mono(text))]


def bars_html(lengths: Sequence[int], dim: DimView, tags: Sequence[str] | None) -> Html:
    """A bar for each sequence."""
    tagged = tags is not None and len(tags) == len(lengths)
    names = [cut(tags[i], TAG) if tagged and tags else str(i) for i in range(len(lengths))]
    wide = max(map(len, names), default=0)
    look = f"display:inline-block;height:8px;background-color:{style.tint(colour_of(dim) or style.GREY, 0.55)}"
    rows = [
        join(
            f"{name:<{wide}} ",
            el("span", style=f"{look};width:{round(WIDTH * n / max(1, dim['size']))}px"),
            f" {n}",
            " ← empty" if n == 0 else None,
            "\n",
        )
        for name, n in zip(names, lengths, strict=True)
    ]
    return el("div", rows, style=style.NUMBERS + ";white-space:pre;line-height:1.3;overflow-x:auto;margin:4px 0")


def statistics(view: TensorView, stats: TensorStats) -> page.Span:
    """`μ 0.1  σ 1.2  [-2 ▁▃█▃▁ 2]  1 NaN at batch 1, time 2`; in HTML, errors first."""
    pairs = moments(stats, ids=view["sparse"] is not None)
    parts = [f"{sign} {number}" for sign, number in pairs]
    parts += [*spread(stats), *alarms(stats), *warnings(view, stats), *facts(view, stats)]
    nowrap = ";display:inline-block;margin-bottom:2px"  # a chip stays on one line
    words: list[page.Words] = [page.Span([text, " "], style.chip(style.ALARM) + nowrap) for text in alarms(stats)]
    words += [page.Span([text, " "], style.chip(style.WARN) + nowrap, title=COUNTED) for text in warnings(view, stats)]
    words += [page.Span([page.quiet(sign, " "), page.mono(number), " "], APART) for sign, number in pairs]
    words += [page.Span([text, " "], f"{style.NUMBERS};{APART}") for text in spread(stats)]
    words += [page.Span([text, " "], style.QUIET + ";margin-right:12px") for text in facts(view, stats)]
    return page.Span(words, text="  ".join(parts))


def moments(stats: TensorStats, *, ids: bool) -> list[tuple[str, str]]:
    """Mean and deviation with their signs; empty where they would mean nothing."""
    if stats["true"] is not None:
        return [("true", f"{percent(stats['true'] / stats['count'])} ({stats['true']:,} of {stats['count']:,})")]
    if ids or same(stats):
        return []
    return [("μ", short(stats["mean"])), ("σ", short(stats["std"]))]


def spread(stats: TensorStats) -> list[str]:
    """`[-2 ▁▃█▃▁ 2]`, or `all 2`; empty for bools, and if no entry is finite."""
    if stats["true"] is not None or stats["min"] == "nan":
        return []
    if same(stats):
        return [f"all {short(stats['min'])}"]
    between = bars(stats["histogram"]) if stats["histogram"] else ".."
    return [f"[{short(stats['min'])} {between} {short(stats['max'])}]"]


def alarms(stats: TensorStats) -> list[str]:
    """`2 NaN, first at batch 1 ('banana'), time 2`"""
    return [bad_text(bad) for bad in stats["bad"]]


def bad_text(bad: BadView) -> str:
    """The number of entries that are not finite in one way, and where the first is."""
    many = ", first" if bad["count"] > 1 else ""
    return f"{bad['count']:,} {bad['word']}" + (f"{many} at {bad['first']}" if bad["first"] else "")


COUNTED = "Code that does not know the lengths counts these numbers."


def warnings(view: TensorView, stats: TensorStats) -> list[str]:
    """Padding that is not finite; in a plain array, whose code does not know the lengths, also what it would change."""
    if stats["padding"] is not None and stats["padding"]["bad"]:  # then there are no numbers with it
        return ["NaN or Inf in the padding"]
    return [] if view["cls"] == "Tensor" else [f"padding ≠ 0: with it {words}" for words in with_padding(stats)]


def with_padding(stats: TensorStats) -> list[str]:
    """`μ -0.31, σ 2`, if padding would change these numbers much."""
    padding = stats["padding"]
    if padding is None or padding["bad"] or not _leaks(stats):
        return []
    return [f"μ {short(padding['mean'])}, σ {short(padding['std'])}"]


def facts(view: TensorView, stats: TensorStats) -> list[str]:
    """Facts worth mentioning that are not errors."""
    lines = [f"with padding {words}" for words in with_padding(stats) if view["cls"] == "Tensor"]
    lines += [f"{stats['masked']:,} −Inf, masked"] if stats["masked"] else []
    number = stats["true"] is None and stats["unique"] is None and not same(stats)
    partial = stats["count"] > options.HISTOGRAM_ENTRIES  # only they were looked at for this
    if number and stats["zeros"] >= 0.01:
        lines.append(f"{'≈ ' if partial and stats['zeros'] < 0.995 else ''}{percent(stats['zeros'])} zeros")
    if stats["unique"] is not None and not same(stats):
        lines.append(f"{'≥' if partial else ''}{stats['unique']:,} distinct")
    if stats["sampled"] is not None:
        lines.append(f"sampled {stats['sampled']:,} of {amount(stats['entries'])}")
    return lines


def _leaks(stats: TensorStats) -> bool:
    padding = stats["padding"]
    mean, std = real(stats["mean"]), real(stats["std"])
    if padding is None or mean != mean:
        return False
    moved = abs(real(padding["mean"]) - mean) > 0.1 * std
    return moved or not 0.8 * std <= real(padding["std"]) <= 1.25 * std


APART = "display:inline-block;margin-right:12px"


def to_page(view: TensorView) -> page.Page:
    """Name, dims and statistics, then labels, numbers or a picture."""
    stats, tags, extras = view["stats"], view["tags"], _extras(view)
    kind = "".join(f" {word}" for word in (view["cls"], view["dtype"]) if word) + " "
    dims = ", ".join(dim_word(dim) for dim in view["dims"])
    number = "" if view["dims"] or view["values"] is None or _many(stats) else f" {entries.cell_text(view['values'])}"
    labels = [] if view["labels"] is None else [f"  {line}" for line in entries.labels_text(view["labels"], tags)]
    about: list[page.Block] = [
        None if view["unknown"] is None else page.Line(page.chip(bad_text(view["unknown"]), style.ALARM), indent=2),
        page.Line(statistics(view, stats), indent=2) if _many(stats) else None,
    ]
    for summary in view["lengths"]:
        if summary["empty"]:
            words = f"{view['dims'][summary['axis']]['name']}: {_empty(summary)}"
            about.append(page.Only("text", [page.Line(words, indent=2)]))

    def blocks() -> list[page.Block]:
        return [
            page.Line(
                page.name(view["name"]), page.quiet(kind), page.pills(view["dims"]), page.quiet(extras), look=style.HEAD
            ),
            *about,
            _by_sequence(view),
            page.Figure(None, labels),
            page.Only("html", _labels(view)),
            _values(view),
            page.Figure(lambda: _picture(view)),
            page.Note(view["note"]),
            lengths_fold(view),
        ]

    head = f"{view['cls']}{{{view['name']!r}, [{dims}], {view['dtype']}{extras}}}{number}"
    in_short = [page.Line(head), *about, page.Figure(None, labels[:2]), page.Note(view["note"])]
    return page.Page("tensor", view["name"], page.Later(blocks), _table(view), in_short)


def _table(view: TensorView) -> page.Table:
    """A row for each sequence; a single row if no axis counts sequences."""
    if view["sequences"] is None:
        stats = view["stats"]
        cells = [None] * 5 if stats is None else [stats[key] for key in ("mean", "min", "max", "nan", "inf")]
        return page.Table(["name", "mean", "min", "max", "NaN", "Inf"], [[view["name"], *cells]])
    rows = [
        [i if row["tag"] is None else row["tag"], *(row.get(key) for key in COLUMNS)]
        for i, row in enumerate(view["sequences"])
    ]
    return page.Table(["sequence", *COLUMNS.values()], rows)


COLUMNS = {"length": "length", "mean": "mean", "min": "min", "max": "max", "nan": "NaN", "inf": "Inf"}


def _many(stats: TensorStats | None) -> TypeGuard[TensorStats]:
    """Whether statistics say more than the single number."""
    return stats is not None and (stats["count"] > 1 or bool(alarms(stats)))


def _extras(view: TensorView) -> str:
    parts = []
    if view["sparse"] is not None:
        parts.append(f"of {view['sparse']}")
    if view["device"] not in ("cpu", "?", "None"):
        parts.append(view["device"])
    if view["bytes"] >= 10_000:
        parts.append(size_text(view["bytes"]))
    grad = view["grad"]
    if grad is not None and grad["leaf"]:
        parts.append("no grad yet" if grad["norm"] is None else f"‖grad‖ {short(grad['norm'])}")
    return "".join(f" {part}" for part in parts)


def _values(view: TensorView) -> page.Block:
    if view["values"] is None:
        return None
    numbers, masked = (view["values"], view["dims"], view["tags"]), bool(view["stats"] and view["stats"]["masked"])
    return page.Figure(lambda: entries.table_html(*numbers, masked=masked), entries.table_text(*numbers))


def _labels(view: TensorView) -> list[page.Block]:
    if view["labels"] is None or view["label_ids"] is None:
        return []
    cells = entries.labels_cells(view["labels"], view["label_ids"], view["tags"], unknown=view["unknown"] is not None)
    counts = entries.counts_text(view["label_counts"]) if view["label_counts"] else None
    return [page.Grid(cells, looks=[style.LABEL_CELL]), page.Line(counts, look=style.QUIET)]


def _by_sequence(view: TensorView) -> page.Block:
    """For bools, the share of true entries in each of a few sequences."""
    stats, rows = view["stats"], view["sequences"]
    if stats is None or stats["true"] is None or rows is None or not 1 < len(rows) <= 16:
        return None
    shares = [f"{i if row['tag'] is None else row['tag']}: {percent(real(row['mean']))}"
            for i, row in enumerate(rows) if row["mean"] is not None]  # fmt: skip
    return page.Only("html", [page.Line(page.quiet("by sequence: ", ", ".join(shares)))])


def to_svg(view: TensorView) -> str | None:
    """The picture of a large tensor as SVG; None if it has none."""
    return None if view["picture"] is None else svg.of_png(view["picture"])


def _picture(view: TensorView) -> Html | None:
    if view["picture"] is None:
        return None
    return el(
        "div",
        el("img", src=view["picture"], alt=view["picture_alt"], style=style.PICTURE),
        el("div", view["picture_alt"], style=style.QUIET + ";font-size:11px"),
    )
