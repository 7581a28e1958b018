"""A tensor as views read it: its raw numbers, its axes, which entries are real; and its dims as JSON, words and pills.

Raw tensors are arrays of numpy or tensors of torch, on any device, of any dtype, with or without grad.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Literal, TypedDict

import numpy as np

from rfnb.core.advice.torch_equivalents import variable_of
from rfnb.core.dims.dim import KINDS, Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.core.vocab import Vocab
from rfnb.display.kit import options
from rfnb.display.markup import style
from rfnb.display.markup.html import Child, Html, el, join
from rfnb.errors import ViewError
from rfnb.printable import error_message
from rfnb.trace.record.traced import Traced


@dataclass(frozen=True)
class Axis:
    """One axis. `lengths` are over the dims `over`; None where all of `size` is real."""

    dim: Dim
    size: int
    over: tuple[Dim, ...] = ()
    lengths: np.ndarray | None = None
    tags: Sequence[str] | None = None

    @property
    def moves(self) -> bool:
        """Whether it is time-like: sequences differ in their number of entries, or may."""
        return self.lengths is not None or self.dim.is_dynamic()


@dataclass(frozen=True)
class Data:
    """A tensor, or one sequence of it."""

    name: str
    dtype: str
    device: str
    raw: RawTensor
    axes: tuple[Axis, ...]
    sparse: Dim | None = None
    feature: Dim | None = None
    notes: tuple[str, ...] = field(default=())
    cls: str = "Tensor"
    source: RawTensor = None
    """The raw tensor of the program itself, with its gradient."""
    live: np.ndarray | None = None
    """For a value of a loop: which entries belong to sequences that have not ended; of size 1 along other axes."""

    @property
    def vocab(self) -> Vocab | None:
        """The labels that integer entries stand for."""
        return None if self.sparse is None else self.sparse.vocab

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(axis.size for axis in self.axes)

    @property
    def entries(self) -> int:
        """Number of entries, padding included."""
        return math.prod(self.shape)

    def position(self, dim: Dim) -> int | None:
        """The position of the axis with this dim; None if there is none."""
        return next((i for i, axis in enumerate(self.axes) if axis.dim is dim), None)

    def sequence_axis(self) -> int | None:
        """The axis that counts sequences: the one with tags or lengths, or the batch dim."""
        over = [dim for axis in self.axes for dim in axis.over]
        for i, axis in enumerate(self.axes):
            if axis.dim.kind == "batch" or axis.tags is not None:
                return i
        return next((i for i, axis in enumerate(self.axes) if axis.dim in over), None)

    def mask(self) -> np.ndarray | None:
        """Which entries are real, of size 1 along axes that it does not depend on; None if all entries are."""
        result = None if self.live is None or self.live.all() else self.live
        for i, axis in enumerate(self.axes):
            if axis.lengths is not None and (axis.lengths < axis.size).any():
                result = _both(result, self._inside(i, np.arange(axis.size)))
        return result

    def _inside(self, i: int, frames: np.ndarray) -> np.ndarray | None:
        """Which frames are inside their sequence, along axis `i` and the axes of its lengths; None if unknown."""
        axis = self.axes[i]
        at = [p for p in map(self.position, axis.over) if p is not None]
        if axis.lengths is None or len(at) < len(axis.over):
            return None
        shape = [1] * len(self.axes)
        lengths = axis.lengths.transpose(np.argsort(at)) if len(at) > 1 else axis.lengths
        for p, size in zip(sorted(at), lengths.shape, strict=True):
            shape[p] = size
        numbers = frames.reshape([-1 if k == i else 1 for k in range(len(self.axes))])
        return numbers < lengths.reshape(shape)

    def pick(self, at: int, index: int) -> Data:
        """One entry of axis `at`, cut to its own length. Entries that are padding are marked as not live."""
        picked = self.axes[at].dim
        raw = self.raw[(slice(None),) * at + (index,)]
        axes = [_picked(axis, picked, index) for i, axis in enumerate(self.axes) if i != at]
        live = None if self.live is None else self.live.take([index if self.live.shape[at] > 1 else 0], axis=at)
        live = _both(live, self._inside(at, np.array([index])))
        return replace(
            self,
            raw=raw[tuple(slice(0, axis.size) for axis in axes)],
            axes=tuple(axes),
            source=None,
            live=None if live is None else live.squeeze(at),
        )


def _both(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def read(tensor: Tensor) -> Data:
    """The data of a tensor. Raises ViewError if it holds no numbers."""
    if isinstance(tensor, Traced):
        plain_data = read(tensor.plain)
        return replace(plain_data, name=tensor.name, notes=(*plain_data.notes, f"step 0 of {tensor.recorder.name}"))
    try:
        raw = tensor.raw_tensor
    except Exception as error:
        raise ViewError(f"no numbers: {_first_line(error)}") from None
    if raw is None:
        raise ViewError("no numbers yet")
    if any((size := tensor.lengths.size(dim)) is not None and size.traced for dim in tensor.dims):
        raise ViewError("no numbers: no batch has these lengths")  # a template, or a traced call
    source, (raw, remark) = raw, numbers(raw)
    if len(raw.shape) != len(tensor.dims):
        raise ViewError(f"the raw tensor has shape {tuple(raw.shape)}, which does not fit {len(tensor.dims)} dims")
    pairs = [_axis(tensor, dim, int(size)) for dim, size in zip(tensor.dims, raw.shape, strict=True)]
    return Data(
        name=str(tensor.name or "tensor"),
        dtype=dtype_of(source),
        device=str(getattr(raw, "device", "cpu")),
        raw=raw,
        axes=tuple(axis for axis, _ in pairs),
        sparse=tensor.sparse_dim,
        feature=getattr(tensor, "feature_dim", None),
        notes=tuple(note for note in (remark, *(note for _, note in pairs)) if note),
        source=source,
    )


def read_as_called(tensor: Tensor) -> Data:
    """The data of a tensor; one without a name gets the name of the user's variable that holds it."""
    data = read(tensor)
    return data if data.name != "tensor" else replace(data, name=variable_of(tensor) or data.name)


def dtype_of(raw: RawTensor) -> str:
    """The type of the entries of a raw tensor, "float32"."""
    return str(raw.dtype).removeprefix("torch.")


def to_numpy(raw: RawTensor) -> np.ndarray:
    """The entries as a numpy array of float64, float32, int or bool, copied from their device."""
    if hasattr(raw, "detach"):
        raw = raw.detach().cpu()
        if getattr(raw.dtype, "itemsize", 8) < 4 and raw.dtype.is_floating_point:
            raw = raw.float()
        raw = raw.numpy()
    array = np.asarray(raw)
    return array.astype(np.float32) if array.dtype == np.float16 else array


@lru_cache(maxsize=256)
def thinned(shape: tuple[int, ...], limit: int) -> tuple[slice, ...]:
    """Slices that keep every n-th entry along the longest axes, so that at most `limit` entries remain.

    n is odd, because every second entry may be special: sine and cosine alternate, and so do real and imaginary parts.
    """
    steps = [1] * len(shape)
    while math.prod(-(-size // step) for size, step in zip(shape, steps, strict=True)) > limit:
        longest = max(range(len(shape)), key=lambda i: -(-shape[i] // steps[i]))
        steps[longest] = max(3, steps[longest] * 2 - 1)
    return tuple(slice(None, None, step) for step in steps)


def thin_mask(mask: np.ndarray | None, where: tuple[slice, ...]) -> np.ndarray | None:
    """The part of a mask that belongs to a thinned tensor."""
    if mask is None:
        return None
    return mask[tuple(cut if size > 1 else slice(None) for cut, size in zip(where, mask.shape, strict=True))]


def real_entries(values: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """The entries that the mask counts, in a row."""
    return values.reshape(-1) if mask is None else values[np.broadcast_to(mask, values.shape)]


def _axis(tensor: Tensor, dim: Dim, actual: int) -> tuple[Axis, str | None]:
    size = tensor.lengths.size(dim)
    if size is None:
        return Axis(dim, actual), None
    values = np.asarray(size.values)
    longest = int(values.max(initial=0))
    note = None if actual == size.max else f"{dim.name} has length {longest}, but the raw tensor has {actual}"
    per_sequence = values.ndim > 0
    return Axis(dim, actual, tuple(size.dims), values if per_sequence else None, size.tags), note


def numbers(raw: RawTensor) -> tuple[RawTensor, str | None]:
    """The raw tensor as real numbers without grad, and a note if they had to be converted."""
    if hasattr(raw, "detach"):
        if raw.is_nested:
            hint = "show x.unbind(), or x.to_padded_tensor(0)"
            raise ViewError("a nested tensor has no axes of one length", hint=hint)
        raw = raw.detach()
        return (raw.abs(), "complex: absolute values") if raw.is_complex() else (raw, None)
    raw = np.asarray(raw)
    if raw.dtype.kind not in "biufc":
        way = "rf.show(array.tolist()) shows them as they are" if raw.dtype.kind in "OUSMm" else None
        raise ViewError(f"the entries are of type {raw.dtype}, not numbers", hint=way)
    return (np.abs(raw), "complex: absolute values") if raw.dtype.kind == "c" else (raw, None)


def _picked(axis: Axis, picked: Dim, index: int) -> Axis:
    if axis.lengths is None or picked not in axis.over:
        return axis
    lengths = axis.lengths.take(index, axis=axis.over.index(picked))
    over = tuple(dim for dim in axis.over if dim is not picked)
    size = min(axis.size, int(lengths.max(initial=0)))
    return Axis(axis.dim, size, over, lengths if over else None, axis.tags)


def _first_line(error: Exception) -> str:
    return (error_message(error).splitlines() or [type(error).__name__])[0]


# -- dims


class DimView(TypedDict):
    """One axis: its name, its size (the longest, where sizes differ), and its true lengths."""

    name: str
    serial: int
    size: int
    kind: Literal["batch", "spatial", "feature", "other"]
    lengths: list[int] | None  # per sequence, for at most 256 sequences
    length_range: list[int] | None  # [shortest, longest, sum], for dynamic dims
    colour: int | None  # 0..9, the same for the same Dim everywhere; None for batch and feature
    formula: str | None  # of a derived dim: "time+1"
    made: str | None  # "cell 4, line 2" or "model.py:31"


Kind = Literal["batch", "spatial", "feature", "other"]

UNKNOWN = -1
"""The size of a dim that has none, outside of any batch."""

_seen: dict[int, int] = {}
_seen_lock = Lock()


def describe_axes(axes: Sequence[Axis], feature: Dim | None = None) -> list[DimView]:
    """The JSON of the axes of one tensor."""
    counted = {dim for axis in axes for dim in axis.over}
    return [describe_axis(axis, _kind(axis, counted, feature)) for axis in axes]


def describe_axis(axis: Axis, kind: Kind) -> DimView:
    """The JSON of one axis."""
    lengths = None if axis.lengths is None else np.asarray(axis.lengths)
    fits = lengths is not None and lengths.ndim == 1 and len(lengths) <= options.LENGTHS
    return {
        "name": axis.dim.name,
        "serial": axis.dim.serial,
        "size": axis.size,
        "kind": kind,
        "lengths": [int(n) for n in lengths] if lengths is not None and fits else None,
        "length_range": _range(lengths),
        "colour": None if kind in ("batch", "feature") else palette_index(axis.dim.serial),
        "formula": axis.dim.formula,
        "made": made_in(axis.dim),
    }


def describe_dim(dim: Dim, lengths: Lengths) -> DimView:
    """The JSON of a dim outside of a tensor, under the lengths of a batch; of size `UNKNOWN` if it has none."""
    size = lengths.size(dim)
    kind: Kind = _given_kind(dim) or ("spatial" if dim.is_dynamic() else "other")
    if size is None or size.traced:  # also of a template
        return describe_axis(Axis(dim, UNKNOWN), kind)
    values = size.values if size.values.ndim else None
    return describe_axis(Axis(dim, size.max, size.dims, values, size.tags), kind)


def dim_word(dim: DimView) -> str:
    """`feat:4`, `time:2–5 Σ11`."""
    return f"{dim['name']}:{size_word(dim)}"


def dims_text(dims: Iterable[DimView]) -> str:
    """`{batch:3, time:2–5 Σ11, feat:4}`"""
    return "{" + ", ".join(dim_word(dim) for dim in dims) + "}"


def size_word(dim: DimView) -> str:
    """`4`, or `2–5 Σ11` where sequences differ; `?` if not known."""
    if dim["size"] == UNKNOWN:
        return "?"
    span = dim["length_range"]
    if span is None or (span[0] == span[1] == dim["size"]):
        return str(dim["size"])
    return f"{span[0]}–{span[1]} Σ{span[2]}"


def dims_html(dims: Iterable[DimView]) -> Html:
    """A pill for each dim."""
    return join([dim_pill(dim) for dim in dims])


def dim_pill(dim: DimView) -> Html:
    """Name and size of a dim in its colour; its tooltip says where it comes from. Scripts find it by its serial."""
    derived = f" ← {dim['formula']}" if dim["formula"] not in (None, dim["name"]) else ""
    return named_pill(dim, f"{dim['name']}:{size_word(dim)}{derived}")


def named_pill(dim: DimView, words: Child, look: str = "") -> Html:
    """The pill of a dim with text of your choice in it."""
    look = style.pill(colour_of(dim)) + look
    serial = dim["serial"]
    return el("span", words, " ", class_="rfnb-dim", data_rfnb_dim=serial, style=look, title=origin(dim))


def palette_index(serial: int) -> int:
    """The index of a dim's hue in the palette: the first Dim that is shown gets the first hue and keeps it."""
    with _seen_lock:
        if serial not in _seen and len(_seen) >= 4096:
            _seen.pop(next(iter(_seen)))
        return _seen.setdefault(serial, len(_seen) % len(style.PALETTE))


def colour_of(dim: DimView) -> str | None:
    """The hue of a dim; None for batch and feature dims, which have none."""
    return None if dim["colour"] is None else style.PALETTE[dim["colour"] % len(style.PALETTE)]


def origin(dim: DimView) -> str | None:
    """`time+1, made in cell 4, line 2`"""
    parts = [dim["formula"], f"made in {dim['made']}" if dim["made"] else None]
    return ", ".join(part for part in parts if part) or None


def made_in(dim: Dim) -> str | None:
    """Where in the user's code the dim was made; None for dims that rfnb defines."""
    place = None if dim.made is None else dim.made.place()
    return None if place is None or place.startswith("<frozen") else place


def _given_kind(dim: Dim) -> Kind | None:
    return next((kind for kind in KINDS if kind == dim.kind), None)


def _kind(axis: Axis, counted: set[Dim], feature: Dim | None) -> Kind:
    if (kind := _given_kind(axis.dim)) is not None:
        return kind
    if axis.dim in counted or axis.tags is not None:
        return "batch"
    if axis.moves:
        return "spatial"
    return "feature" if axis.dim is feature else "other"


def _range(lengths: np.ndarray | None) -> list[int] | None:
    if lengths is None or lengths.size == 0:
        return None
    return [int(lengths.min()), int(lengths.max()), int(lengths.sum())]


HIGH = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def namesakes(dims: Iterable[Dim]) -> dict[int, int]:
    """Numbers, from 1, for different dims that share a name, by serial."""
    by_name: dict[str, dict[int, None]] = {}
    for dim in dims:
        by_name.setdefault(dim.name, {})[dim.serial] = None
    return {serial: i for serials in by_name.values() if len(serials) > 1 for i, serial in enumerate(serials, 1)}


def names_of(dims: Iterable[Dim]) -> dict[int, str]:
    """Names that distinguish the dims, by serial.

    >>> names = names_of([rf.Dim(3, name="time"), rf.Dim(4, name="time"), rf.Dim(2, name="feat")])
    >>> list(names.values())
    ['time¹', 'time²', 'feat']
    """
    every = list(dims)
    numbers = namesakes(every)
    return {dim.serial: dim.name + str(numbers.get(dim.serial, "")).translate(HIGH) for dim in every}
