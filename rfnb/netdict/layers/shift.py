"""Layers that move or stretch the frames of an axis: shift_axis, resize."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Positive
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.layer import Layer
from rfnb.netdict.layers.batches import with_lengths, with_padding
from rfnb.netdict.layers.create import cast_number
from rfnb.netdict.options import axis, value
from rfnb.ops.create import full, range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.mask import get_size_tensor, masked_select
from rfnb.ops.math import abs as abs_, cast, compare_bc, equal, logical_and, logical_or, maximum, minimum, mod, where
from rfnb.ops.random import random_uniform
from rfnb.ops.reduce import reduce_sum
from rfnb.ops.sequence import repeat
from rfnb.ops.shape import replace_dim
from rfnb.ops.slice import slice as slice_


class ShiftAxis(Layer, layer_class="shift_axis"):
    """Each frame `amount` places later, or earlier if it is negative. {…, axis} → the same, or {…, axis'}

    The padding behind the end of a sequence moves into its last frames. Without `pad` there are fewer frames: a
    sequence is cut to the new size of the axis, and to nothing else.
    """

    axis: Dim = axis()
    amount: int = value(1, int)
    pad: bool = value(True, bool)
    pad_value: float = value(0.0, float)
    adjust_size_info: bool = value(True, bool)

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The new dim, whose lengths depend on the size of the axis in each batch."""
        size = self.axis.dimension
        if size is None:
            self.cut = Dim(None, name=f"{self.name}_shift_axis", kind="spatial")
        else:
            self.cut = self.pool.instead(self.axis, max(size - abs(self.amount), 0), x)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, axis'}"""
        places = range_over_dim(self.axis, device=x.device) - self.amount
        end = end_of(self, x, self.axis)
        final = x.size_of(self.axis).max - 1
        if self.pad:
            moved = gather(x, indices=minimum(maximum(places, 0), max(final, 0)), axis=self.axis)
            valid = logical_and(compare_bc(places, "greater_equal", 0), compare_bc(places, "less", end))
            moved = where(valid, moved, cast_number(self.pad_value, x))
            return self._adjusted(moved) if self.adjust_size_info else moved
        shift = max(-self.amount, 0)
        moved = gather(x, indices=minimum(places + self.amount + shift, max(final, 0)), axis=self.axis)
        if self.axis.dimension is not None:
            return slice_(moved, axis=self.axis, end=max(final + 1 - abs(self.amount), 0), out_dim=self.cut)[0]
        lengths = get_size_tensor(self.axis, device=x.device)
        if self.adjust_size_info and self.amount < 0:
            lengths = maximum(lengths + self.amount, 0)
        lengths = minimum(lengths, maximum(end - abs(self.amount), 0))
        return with_lengths(*with_padding(moved, self.axis), lengths, self.cut)

    def _adjusted(self, x: Tensor) -> Tensor:
        """With lengths that are `amount` larger, within the size of the axis."""
        if self.axis.dimension is not None:
            return x
        lengths = get_size_tensor(self.axis, device=x.device) + self.amount
        lengths = minimum(maximum(lengths, 0), end_of(self, x, self.axis))
        return with_lengths(*with_padding(x, self.axis), lengths, self.cut)


class Resize(Layer, layer_class="resize"):
    """`factor` frames for each frame. {…, axis} → {…, axis · factor}

    Kind "nn" repeats it, "linear" goes on to the next frame in equal steps, "cubic" along a curve through four frames
    (Keys 1981, with the slope −3/4), "fill" puts `fill_value` after it. Of the frames between, each is left out with
    the probability `fill_dropout`, also outside of training, and in all sequences the same ones.
    """

    axis: Dim = axis()
    factor: int = value(1, Positive)
    kind: str = value("nn", str)
    fill_value: Any = value(None)
    fill_dropout: float | None = value(None, float)
    out_dim: Dim | None = value(None, Dim)

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """Whether the kind is known."""
        if self.kind not in ("nn", "linear", "cubic", "fill"):
            raise NetworkError("resize: there is no such kind", got=self.kind, expected="nn, linear, cubic, fill")
        size = self.axis.dimension
        if self.fill_dropout:
            if size is not None:
                fault = "resize: fill_dropout needs an axis whose size the batch gives"
                raise NetworkError(fault, got=str(self.axis), expected='"axis": "T"')
            self.left = self.out_dim or Dim(None, name=f"{self.name}_resize", kind="spatial")
            self.out_dim = None
        if self.out_dim is None and size is not None:
            self.out_dim = self.pool.instead(self.axis, size * self.factor, x)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, axis · factor}"""
        y, frames = self._repeated(x)
        part = mod(range_over_dim(frames, device=x.device), self.factor)
        y = self._filled(x, y, part)
        return self._dropped(y, frames) if self.fill_dropout else y

    def _filled(self, x: Tensor, y: Tensor, part: Tensor) -> Tensor:
        """The repeated frames with those between replaced. part: how many places after its frame each one is."""
        if self.kind == "nn":
            return y
        if self.kind == "fill":
            return where(equal(part, 0), y, cast_number(self.fill_value or 0, x))
        place = cast(part, x.dtype) * (1.0 / self.factor)
        if self.kind == "linear":
            return y + (self._repeated(self._moved(x, 1))[0] - y) * place
        return reduce(add, (self._repeated(self._moved(x, by))[0] * _cubic(place - by) for by in (-1, 0, 1, 2)))

    def _dropped(self, x: Tensor, frames: Dim) -> Tensor:
        """Without some of the frames between: as short as that makes each sequence."""
        lengths = get_size_tensor(frames, device=x.device)
        x, padded = with_padding(x, frames)
        places = range_over_dim(padded, device=x.device)
        mask = compare_bc(random_uniform([padded], device=x.device), "greater_equal", self.fill_dropout or 0.0)
        mask = logical_or(equal(mod(places, self.factor), 0), mask)
        lengths = reduce_sum(cast(logical_and(mask, compare_bc(places, "less", lengths)), "int32"), axis=padded)
        x, selected = masked_select(x, mask=mask, dims=[padded])
        return with_lengths(x, selected, lengths, self.left)

    def _moved(self, x: Tensor, by: int) -> Tensor:
        """Each frame replaced by one before or after it, or by the first or last one."""
        end = maximum(end_of(self, x, self.axis) - 1, 0)
        places = minimum(maximum(range_over_dim(self.axis, device=x.device) + by, 0), end)
        return gather(x, indices=places, axis=self.axis)

    def _repeated(self, x: Tensor) -> tuple[Tensor, Dim]:
        y, frames = repeat(x, in_spatial_dim=self.axis, repeats=self.factor)
        return (y, frames) if self.out_dim is None else replace_dim(y, in_dim=frames, out_dim=self.out_dim)


def _cubic(distance: Tensor) -> Tensor:
    """The weight of a frame at this distance, in frames (Keys 1981, equation 15 with a = −3/4)."""
    d, a = abs_(distance), -0.75
    near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    far = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    return where(d <= 1.0, near, where(d < 2.0, far, 0.0))


def end_of(layer: Layer, x: Tensor, axis: Dim) -> Tensor:
    """Where the frames end: behind the longest sequence, or with `batch_independent` each one for itself. → {batch?}"""
    if layer.spec.batch_independent and axis.dimension is None:
        return get_size_tensor(axis, device=x.device)
    return full(dims=[], fill_value=x.size_of(axis).max, dtype="int32", device=x.device)
