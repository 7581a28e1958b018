"""Layers without sources: constant, variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.layers.initializers import initial_values
from rfnb.network.layer import Layer
from rfnb.network.options import value
from rfnb.ops.create import full
from rfnb.ops.shape import expand_dim


class Constant(Layer, layer_class="constant"):
    """A number. → {}, or {batch}, or the dims of `shape`"""

    sourceless = True
    shape: Any = value(None, list, tuple)
    dtype: str | None = value(None, str)
    with_batch_dim: bool = value(False, bool)
    sparse_dim: Any = value(None)
    value: Any = value(0.0)

    def setup(self) -> None:  # type: ignore[override]
        """The dims."""
        sizes = self.shape or ()
        self.dims: list[Dim] = [batch_dim] if self.with_batch_dim else []
        for i, size in enumerate(sizes):
            make = self.pool.feature if i == len(sizes) - 1 else self.pool.static
            self.dims.append(make(size, self.dims))

    def compute(self) -> Tensor:
        """→ {dims…}"""
        return full(dims=self.dims, fill_value=self.value, dtype=self.dtype)


class Variable(Layer, layer_class="variable"):
    """A trained tensor. → {shape…}, or {batch, shape…}"""

    sourceless = True
    shape: Any = value(None, list, tuple)
    dtype: str = value("float32", str)
    add_batch_axis: bool = value(False, bool)
    add_time_axis: bool = value(False, bool)
    init: Any = value("glorot_uniform")
    init_by_layer: Any = value(None)
    param_name: str | None = value(None, str)

    def setup(self) -> None:  # type: ignore[override]
        """One parameter, named after the layer."""
        if self.init_by_layer:
            raise NetworkError("variable: init_by_layer is not supported here yet", hint='"init": a number or a name')
        self.dims: list[Dim] = []
        sizes = self.shape or ()
        for i, size in enumerate(sizes):
            make = self.pool.feature if i == len(sizes) - 1 else self.pool.static
            self.dims.append(make(size, self.dims))
        self.frame = self.pool.static(1, self.dims) if self.add_time_axis else None
        initial = initial_values(self.init)
        self.trained = self.parameter(self.param_name or self.name.rpartition("/")[2], self.dims, initial)

    def compute(self) -> Tensor:
        """→ {dims…}"""
        y = self.trained if self.frame is None else expand_dim(self.trained, self.frame)
        return expand_dim(y, batch_dim) if self.add_batch_axis else y

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The last axis."""
        return self.dims[-1] if self.dims else None

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The batch, the time, and the axes of the shape."""
        more = [batch_dim] if self.add_batch_axis else []
        return [*more, *([] if self.frame is None else [self.frame]), *self.dims]
