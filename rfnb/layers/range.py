"""Positions along axes, and masks of the frames that count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.network.layer import Layer
from rfnb.network.options import axis, value
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.mask import sequence_mask
from rfnb.ops.math import where
from rfnb.ops.sequence import repeat
from rfnb.ops.shape import expand_dim


class Range(Layer, layer_class="range", sourceless=True):
    """The numbers from `start` to `limit`, `delta` apart. → {n}"""

    limit: int = value(0, int)
    start: int = value(0, int)
    delta: int = value(1, int)
    dtype: str | None = value(None, str)
    sparse: bool = value(False, bool)
    out_spatial_dim: Dim | None = value(None, Dim)

    def setup(self) -> None:  # type: ignore[override]
        """The dim of the numbers, which is the feature axis."""
        size = len(range(self.start, self.limit, self.delta))
        self.numbers = self.out_spatial_dim or self.pool.feature(size)

    def compute(self) -> Tensor:
        """→ {n}"""
        return range_over_dim(self.numbers, dtype=self.dtype or "int32") * self.delta + self.start

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The dim of the numbers."""
        return self.numbers

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """There is one axis."""
        return [self.numbers]


class RangeInAxis(Layer, layer_class="range_in_axis"):
    """The position of each frame along an axis. {…, axis} → {axis}, or with `unbroadcast` {…, axis}

    `keepdims` is of no effect: other axes would have size 1, and dims that are not there are broadcast anyway.
    """

    axis: Dim = axis("T")
    dtype: str = value("int32", str)
    unbroadcast: bool = value(False, bool)
    keepdims: bool = value(False, bool)
    sparse: bool = value(False, bool)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {axis}"""
        y = range_over_dim(self.axis, dtype=self.dtype, device=x.device)
        for dim in x.dims if self.unbroadcast else ():
            y = y if dim is self.axis else expand_dim(y, dim)
        return y


class RangeFromLength(Layer, layer_class="range_from_length"):
    """The positions 0, 1, … up to the lengths that the source gives. {batch} → {frames}"""

    axis: Any = value("T", str)
    dtype: str = value("int32", str)
    sparse: bool = value(False, bool)
    out_spatial_dim: Dim | None = value(None, Dim)

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The dim of the positions, whose lengths come with each batch."""
        self.frames = self.out_spatial_dim or Dim(None, name=f"range:{self.name}", kind="spatial")

    def compute(self, x: Tensor) -> Tensor:
        """{batch} → {frames}"""
        unit = Dim(1, name="one")
        repeat(zeros([unit]), in_spatial_dim=unit, repeats=expand_dim(x, unit), out_spatial_dim=self.frames)
        return range_over_dim(self.frames, dtype=self.dtype, device=x.device)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """There is none."""
        return None


class SeqLenMask(Layer, layer_class="seq_len_mask"):
    """The source, with `mask_value` behind the end of each sequence. {…, axis} → the same"""

    mask_value: float = value(0.0, float)
    axis: Dim = axis("T")

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → the same"""
        return where(sequence_mask(self.axis, device=x.device), x, cast_number(self.mask_value, x))


def cast_number(number: Any, x: Tensor) -> Any:
    """A number of the kind that a tensor has."""
    return number if x.dtype.startswith("float") else int(number)
