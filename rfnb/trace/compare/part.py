"""The part of a value that is compared: selected sequences, axes in the same order, entries that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError
from rfnb.trace.compare.match import match_dims
from rfnb.trace.run.entries import frames, going_on

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

Select = Mapping[str, int]


@dataclass(frozen=True)
class MaskedPart:
    """The numbers of a value with masks. frames: not padding. live: of sequences that take the step. dims: the axes."""

    array: np.ndarray
    frames: np.ndarray
    live: np.ndarray
    dims: tuple[Dim, ...]

    def each(self, change: Callable[[np.ndarray], np.ndarray], dims: Sequence[Dim]) -> MaskedPart:
        """Applies `change` to all three arrays; `dims` are the new axes."""
        return MaskedPart(change(self.array), change(self.frames), change(self.live), tuple(dims))

    def take(self, axis: int, positions: Sequence[int]) -> MaskedPart:
        """Selects positions of an axis."""
        return self.each(lambda array: array.take(positions, axis), self.dims)

    def squeeze(self, axis: int) -> MaskedPart:
        """Removes an axis of size 1."""
        return self.each(lambda array: array.squeeze(axis), [*self.dims[:axis], *self.dims[axis + 1 :]])

    def move(self, dims: Sequence[Dim]) -> MaskedPart:
        """Reorders the axes to `dims`."""
        order = [self.dims.index(dim) for dim in dims]
        return self.each(lambda array: array.transpose(order), dims)

    def pad(self, axis: int, size: int) -> MaskedPart:
        """Pads an axis to `size` with entries that are not frames."""
        padding = [(0, size - self.array.shape[axis] if i == axis else 0) for i in range(self.array.ndim)]
        longer = self.each(lambda array: np.pad(array, padding), self.dims)
        return replace(longer, live=np.pad(self.live, padding, mode="edge")) if self.live.size else longer


STEPS = Dim(None, name="step")
"""The first axis of every part: several steps are compared together."""


def part_of(
    value: Tensor | int,
    arrays: Sequence[np.ndarray],
    run: Run,
    steps: np.ndarray,
    sequences: Sequence[int] | None,
    select: Select,
) -> MaskedPart:
    """The part of a value that is compared at some steps of a run; step -1 stands for the states at the start.

    value: has the dims and lengths, which are the same at all these steps. arrays: the numbers at each step.
    """
    array = np.stack(arrays)
    live = going_on(value, run.size, steps.reshape(-1, *[1] * (array.ndim - 1)))
    real, live = (np.broadcast_to(mask, array.shape) for mask in (frames(value), live))
    part = MaskedPart(array, real, live, (STEPS, *(value.dims if isinstance(value, Tensor) else ())))
    for axis in reversed(range(1, len(part.dims))):
        if part.dims[axis].name in select:
            part = _selected(part, axis, select[part.dims[axis].name]).squeeze(axis)
    if sequences is not None and run.sequence_dim in part.dims:
        part = part.take(part.dims.index(run.sequence_dim), sequences)
    return part


def _selected(part: MaskedPart, axis: int, position: int) -> MaskedPart:
    size, name = part.array.shape[axis], part.dims[axis].name
    if not -size <= position < size:
        raise LoopError(f"compare: there is no {name} {position}", expected=f"0 … {size - 1}")
    return part.take(axis, [position % size])


def fitted(a: MaskedPart, b: MaskedPart, owners: tuple[Dim | None, Dim | None]) -> tuple[MaskedPart, MaskedPart] | str:
    """Both parts with the same axes in the same order, padded to the same sizes; else the reason why they do not fit.

    owners: the dims of the sequences in both runs, which match each other.
    """
    pairs = match_dims(a.dims, b.dims)
    if owners[0] in a.dims and owners[1] in b.dims:
        pairs = {x: y for x, y in pairs.items() if x is not owners[0] and y is not owners[1]}
        pairs |= {owners[0]: owners[1]}
    a, b = _squeezed(a, pairs.keys()), _squeezed(b, pairs.values())
    axes = [[dim.name for dim in a.dims if dim not in pairs], [dim.name for dim in b.dims if dim not in pairs.values()]]
    if axes[0] or axes[1]:
        sides = zip(("first", "second"), axes, strict=True)
        return " and ".join(f"the {side} also has {', '.join(names)}" for side, names in sides if names)
    b = b.move([pairs[dim] for dim in a.dims])
    for axis, (x, y) in enumerate(zip(a.dims, b.dims, strict=True)):
        sizes = a.array.shape[axis], b.array.shape[axis]
        if sizes[0] == sizes[1]:
            continue
        if x.dimension is not None and y.dimension is not None:
            return f"{x.name} has size {sizes[0]} and {sizes[1]}"
        a, b = a.pad(axis, max(sizes)), b.pad(axis, max(sizes))
    return a, b


def _squeezed(part: MaskedPart, matched: Any) -> MaskedPart:
    for axis in reversed(range(len(part.dims))):
        if part.dims[axis] not in matched and part.array.shape[axis] == 1:
            part = part.squeeze(axis)
    return part
