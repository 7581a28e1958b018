"""A tensor as views read it: its raw numbers, its axes, which entries are real and which are padding.

Raw tensors are arrays of numpy or tensors of torch, on any device, of any dtype, with or without grad.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.advice.torch_equivalents import variable_of
from rfnb.errors import ViewError
from rfnb.printable import error_message
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.tensor.tensor import RawTensor, Tensor


@dataclass(frozen=True)
class Axis:
    """One axis. `lengths` are over the dims `over`; None where all of `size` is real."""

    dim: Dim
    size: int
    over: tuple[Dim, ...] = ()
    lengths: np.ndarray | None = None
    tags: Sequence[str] | None = None


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
    source: Any = None
    """The raw tensor of the program itself, with its gradient."""
    live: np.ndarray | None = None
    """For a value of a loop: which entries belong to sequences that have not ended; of size 1 along other axes."""

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
        first = read(tensor.plain)
        return replace(first, name=tensor.name, notes=(*first.notes, f"step 0 of {tensor.recorder.name}"))
    try:
        raw = tensor.raw_tensor
    except Exception as error:
        raise ViewError(f"no numbers: {_first_line(error)}") from None
    if raw is None:
        raise ViewError("no numbers yet")
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


def _axis(tensor: Tensor, dim: Dim, actual: int) -> tuple[Axis, str | None]:
    size = tensor.lengths.size(dim)
    if size is None:
        return Axis(dim, actual), None
    values = np.asarray(size.values)
    longest = int(values.max(initial=0))
    note = None if actual == size.max else f"{dim.name} has length {longest}, but the raw tensor has {actual}"
    per_sequence = values.ndim > 0
    return Axis(dim, actual, tuple(size.dims), values if per_sequence else None, size.tags), note


def numbers(raw: RawTensor) -> tuple[Any, str | None]:
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
