"""A tensor, or one sequence of it, as JSON. Parts that cannot be computed are replaced by a note."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.ground.text import did_you_mean, number_of
from rfnb.display.kit import options
from rfnb.display.kit.blocks import Notes
from rfnb.display.kit.data import Axis, Data, DimView, describe_axes, describe_dim, read_as_called
from rfnb.display.markup.numbers import amount, plain
from rfnb.display.tensor.entries import describe_labels, describe_picture, describe_unknown, describe_values
from rfnb.display.tensor.schema import GradView, LengthsView, SequenceRow, TensorView
from rfnb.display.tensor.stats import Measured, measure, same, tensor_stats
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from rfnb.core.tensor.tensor import RawTensor, Tensor


def select(data: Data, batch: int | str | None, **positions: int | str) -> Data:
    """One sequence, by its number or tag, and single positions of other dims, by their names.

    A position is a number, or a label if the dim has a vocab. The choice is appended to the name.
    Raises ViewError if there is no such sequence, dim or position.
    """
    part = data if batch is None else sequence(data, batch)
    choices = [] if batch is None else [_word(data, batch)]
    for name, position in positions.items():
        at = next((i for i, axis in enumerate(part.axes) if axis.dim.name == name), None)
        if at is None:
            names = [axis.dim.name for axis in part.axes]
            raise ViewError(
                f"show: {data.name} has no dim {name}",
                got=f"{name}={position!r}",
                expected=", ".join(names) or "a scalar has none to choose from",
                hint=did_you_mean(name, [*names, "lengths", "dims", "batch"], "{}"),
            )
        axis = part.axes[at]
        index = _position(axis, position)
        short = 0 if axis.lengths is None else int((axis.lengths <= index).sum())
        if short:
            part = replace(part, notes=(*part.notes, f"{name} {index} is padding in {short} of the sequences"))
        part = part.pick(at, index)
        choices.append(f"{name} {position if isinstance(position, str) else index}")
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


def describe(tensor: Tensor, batch: int | str | None = None, **positions: int | str) -> TensorView:
    """The JSON of a tensor, of one sequence by number or tag, or of single positions of other dims."""
    try:
        data = read_as_called(tensor)
    except ViewError as error:
        return _bare(tensor, error.what)
    return describe_data(data if batch is None and not positions else select(data, batch, **positions))


def describe_data(data: Data) -> TensorView:
    """The JSON of data that was read before."""
    notes = Notes(*data.notes)
    view = _frame(data)
    tags = _tags(data)
    view["tags"] = tags if tags is None or len(tags) <= options.TAGS else None
    view["grad"] = notes.attempt("gradient", lambda: describe_grad(data.source), None)
    view["lengths"] = notes.attempt("lengths", lambda: describe_lengths(data), [])
    measured = None
    if _out_of_reach(data):
        notes.add(_out_of_reach(data))
    elif data.entries == 0:
        notes.add("empty")
    elif data.sparse is not None and data.sparse.vocab is not None:
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
        "bytes": data.entries * _itemsize(data),
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


def _out_of_reach(data: Data) -> str | None:
    """Why the numbers cannot be read; None if they can."""
    if data.device == "meta":
        return "no numbers: on the meta device"
    layout = str(getattr(data.raw, "layout", "torch.strided"))
    return None if layout == "torch.strided" else f"no numbers: {layout.removeprefix('torch.')} layout"


def _add_labels(view: TensorView, data: Data, notes: Notes) -> None:
    view["unknown"] = notes.attempt("unknown ids", lambda: describe_unknown(data), None)
    labels = notes.attempt("labels", lambda: describe_labels(data), None)
    if labels is not None:
        view.update(labels[0])  # type: ignore[typeddict-item]
        notes.add(labels[1])


def _add_numbers(view: TensorView, data: Data, measured: Measured | None, notes: Notes) -> None:
    if measured is not None:
        view["stats"] = notes.attempt("statistics", lambda: tensor_stats(measured), None)
    if data.sparse is not None:
        view["unknown"] = notes.attempt("unknown ids", lambda: describe_unknown(data), None)
    if data.entries <= options.TABLE_ENTRIES:
        view["values"] = notes.attempt("numbers", lambda: describe_values(data), None)
        return
    if data.entries > options.FINITE_ENTRIES:
        notes.add(f"no picture of {amount(data.entries)} entries")
        return
    if view["stats"] is not None and same(view["stats"]) and not view["stats"]["bad"]:
        return
    picture = notes.attempt("picture", lambda: describe_picture(data, measured=measured), None)
    if picture is not None:
        view["picture"], view["picture_alt"] = picture


def _bare(tensor: Tensor, note: str) -> TensorView:
    """The JSON of a tensor whose numbers cannot be read."""
    notes = Notes(note)

    def ask(name: str, otherwise: str) -> str:
        return str(notes.attempt(name, lambda: getattr(tensor, name), otherwise) or otherwise)

    dims: list[DimView] = notes.attempt("dims", lambda: [describe_dim(dim, tensor.lengths) for dim in tensor.dims], [])
    empty = Data(ask("name", "tensor"), ask("dtype", "?"), ask("device", "?"), None, ())
    return {**_frame(empty), "bytes": 0, "dims": dims, "note": notes.text()}


def _itemsize(data: Data) -> int:
    dtype = getattr(data.raw, "dtype", None)
    return int(getattr(dtype, "itemsize", 0))


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
    return [_in_short(i, axis.lengths, axis.size) for i, axis in enumerate(data.axes) if axis.lengths is not None]


def _in_short(axis: int, lengths: np.ndarray, size: int) -> LengthsView:
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


def _numbers(measured: Measured, at: int) -> dict[str, Sequence[Any]]:
    frames = measured.frames
    axes = tuple(i for i in range(frames.mean.ndim) if i != at)
    mask = frames.weights > 0
    total = frames.weights.sum(axis=axes)
    with np.errstate(all="ignore"):
        mean = (np.where(mask, frames.mean, 0) * frames.weights).sum(axis=axes) / total
    low = np.where(mask, frames.low, np.inf).min(axis=axes, initial=np.inf)
    high = np.where(mask, frames.high, -np.inf).max(axis=axes, initial=-np.inf)
    moments = {"mean": mean, "min": low, "max": high}
    result: dict[str, Sequence[Any]] = {key: _where(total > 0, values) for key, values in moments.items()}
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
