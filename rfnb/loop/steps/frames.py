"""The frames that a loop steps through. After its end, a sequence repeats its last frame,
or goes on with padding, where that is finite, or labels, and not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.backend.base.tape import Var
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.ground.default import has_fractions
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.loop.steps.ended_frames import ended
from rfnb.ops.math import where

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


@lru_cache(maxsize=256)
def frames_dim(steps: int) -> Dim:
    """The Dim that counts the steps; loops of equal length share it, and with it cached plans. Users never see it."""
    return Dim(steps, name="frames")


def first_frame(backend: type[Backend], source: Tensor, axis: Dim, repeat: bool = True) -> Tensor:
    """The first frame of each sequence; zeros for empty ones. {…, axis} → {…}"""
    going_on = None if repeat else _harmless(backend, source)
    source = source if going_on is None else going_on
    size, position = source.size_of(axis), source.axis(axis)
    shape = list(backend.get_shape_tuple_raw(source._raw))
    if size.max == 0:
        raw = backend.full_raw(shape[:position] + shape[position + 1 :], 0, source.dtype, source.device)
    else:
        raw = backend.alias_raw(backend.select_raw(source._raw, position, 0))
    frame = tensor_of(raw, align.without(source.sig, [axis]), source.lengths)
    return _zeros_if_empty(backend, frame, size) if size.max and going_on is None else frame


class Unstacked(NamedTuple):
    """The frames of a tensor along an axis. repeat: whether each sequence repeats its last frame in its padding; else
    only if padding could do harm."""

    axis: Dim
    repeat: bool

    def frames(self, backend: type[Backend], source: Tensor, limit: Size) -> Sequence[Any]:
        """All frames as raw tensors."""
        source = _without_padding(backend, source, self.axis, self.repeat)
        return backend.frames_raw(source._raw, source.axis(self.axis))

    def stacked(self, backend: type[Backend], source: Tensor, frames: Dim) -> Tensor:
        """All frames as one tensor, with `frames` in place of the axis; later frames than it counts are dropped."""
        axis, source = self.axis, _without_padding(backend, source, self.axis, self.repeat)
        place, steps = source.axis(axis), frames.dimension or 0
        raw = source._raw if source.size_of(axis).max == steps else backend.slice_raw(source._raw, place, 0, steps, 1)
        dims = [frames if dim is axis else dim for dim in source.dims]
        feature = None if source.feature_dim is axis else source.feature_dim
        return tensor_of(raw, align.sig(dims, source.sparse_dim, feature), source.lengths)


class StepNumber(NamedTuple):
    """The number of each step, 0, 1, …"""

    def frames(self, backend: type[Backend], source: None, limit: Size) -> Sequence[Any]:
        """All numbers as raw tensors."""
        return StepNumbers(backend)

    def stacked(self, backend: type[Backend], source: None, frames: Dim) -> Tensor:
        """All numbers as one tensor. {frames} int64"""
        return tensor_of(backend.range_raw(frames.get_dim_value(), "int64", None), align.sig([frames]), EMPTY)


class EndedMask(NamedTuple):
    """Which sequences have ended before each step; or, if `going`, which of them take it. how: moves the axes of the
    lengths."""

    going: bool
    how: align.Move | None
    device: Any

    def frames(self, backend: type[Backend], source: None, limit: Size) -> Sequence[Any]:
        """All masks as raw tensors."""
        mask = ended(limit, self.how, max(limit.max, 1)) ^ self.going
        return backend.frames_raw(backend.from_numpy_raw(mask, self.device), 0)


class FrameInput(NamedTuple):
    """A sequence that gives each step one frame.

    var: the frame in the program. source: the tensor that has the frames, if there is one; in a kept step, its place
    among the given tensors.
    """

    var: Var
    kind: Unstacked | StepNumber | EndedMask
    source: Any = None

    @property
    def is_stackable(self) -> bool:
        """Whether all frames can be one tensor."""
        return not isinstance(self.kind, EndedMask)


def _without_padding(backend: type[Backend], source: Tensor, axis: Dim, repeat: bool) -> Tensor:
    size = source.size_of(axis)
    if not size.ragged or not set(size.dims) <= set(source.dims):
        return source
    going_on = None if repeat else _harmless(backend, source)
    if going_on is not None:
        return going_on
    return _zeros_if_empty(backend, _repeat_last_frame(backend, source, axis, size), size)


def _harmless(backend: type[Backend], source: Tensor) -> Tensor | None:
    """The source with padding that does no harm in sequences that have ended: finite numbers, or labels in the range of
    their dim. None if its padding may be anything else."""
    labels = source.sparse_dim
    if labels is not None and labels.dimension:
        return source.like(backend.in_range(source, labels.dimension, source.dims))
    finite = has_fractions(source.dtype) and source.lengths.finite and not backend.version_raw(source._raw)
    return source if finite else None


def _repeat_last_frame(backend: type[Backend], source: Tensor, axis: Dim, size: Size) -> Tensor:
    steps = np.minimum(np.arange(size.max), np.maximum(size.values[..., None] - 1, 0))
    dims = [*size.dims, axis]
    in_order = steps.transpose([dims.index(dim) for dim in source.dims if dim in dims])
    shaped = in_order[tuple(slice(None) if dim in dims else None for dim in source.dims)]
    indices = backend.from_numpy_raw(shaped, source.device)
    return source.like(backend.gather_raw(source._raw, indices, source.axis(axis), 1))


def _zeros_if_empty(backend: type[Backend], frames: Tensor, size: Size) -> Tensor:
    if (size.values > 0).all() or not set(size.dims) <= set(frames.dims):
        return frames
    has_frames = tensor_of(backend.from_numpy_raw(size.values > 0, frames.device), align.sig(size.dims), frames.lengths)
    zero = False if frames.dtype == "bool" else 0  # which keeps the dtype
    zeroed: Tensor = where(has_frames, frames, zero).copy_transpose(frames.dims)
    return zeroed


class StepNumbers(Sequence[Any]):
    """The numbers of the steps as raw tensors, each created on access: the number of steps may not be known."""

    def __init__(self, backend: type[Backend]):
        self._backend = backend

    def __getitem__(self, step: Any) -> Any:
        return self._backend.full_raw([], step, "int64", None)

    def __len__(self) -> int:
        return 0


def has_steps(axis: Dim) -> bool:
    """Whether data or an op gave the axis its size. The size that an earlier loop gave it does not count."""
    return axis.is_defined() and not axis.given.loop
