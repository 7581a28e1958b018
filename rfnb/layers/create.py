"""Layers without sources: constant, variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.layers.initializers import initial_values
from rfnb.network.layer import Layer
from rfnb.network.options import layer, value
from rfnb.ops.create import full
from rfnb.ops.shape import expand_dim


class Constant(Layer, layer_class="constant", sourceless=True):
    """A number. → {}, or {batch}, or the dims of `shape`"""

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
        is_integer = isinstance(self.value, int) and not isinstance(self.value, bool)
        return full(dims=self.dims, fill_value=self.value, dtype=self.dtype or ("int32" if is_integer else None))


class Variable(Layer, layer_class="variable", sourceless=True):
    """A trained tensor. → {shape…}, or {batch, shape…}"""

    shape: Any = value(None, list, tuple)
    dtype: str = value("float32", str)
    add_batch_axis: bool = value(False, bool)
    add_time_axis: bool = value(False, bool)
    init: Any = value("glorot_uniform")
    init_by_layer: Any = layer()
    param_name: str | None = value(None, str)

    def setup(self, init_by_layer: Tensor | None = None) -> None:  # type: ignore[override]
        """One parameter, named after the layer."""
        self.dims: list[Dim] = []
        sizes = self.shape or ()
        for i, size in enumerate(sizes):
            make = self.pool.feature if i == len(sizes) - 1 else self.pool.static
            self.dims.append(make(size, self.dims))
        self.frame = self.pool.static(1, self.dims) if self.add_time_axis else None
        initial = initial_values(self.init) if init_by_layer is None else self._first_value()
        self.own_name = self.param_name or self.name.rpartition("/")[2]
        self.parameter(self.own_name, self.dims, initial)

    def _first_value(self) -> np.ndarray:
        """The output of the layer that `init_by_layer` names, as numbers."""
        assert self.site is not None
        initial = self.site.value_of("init_by_layer")
        shape, expected = [dim.dimension for dim in initial.dims], [dim.dimension for dim in self.dims]
        if (shape, initial.dtype) != (expected, self.dtype):
            got = f"{initial.dtype} {initial.describe_dims()}"
            raise NetworkError("init_by_layer has another shape or dtype", got=got, expected=f"{self.dtype} {expected}")
        return initial.numpy()

    def compute(self, init_by_layer: Tensor | None = None) -> Tensor:
        """→ {dims…}"""
        trained: Tensor = self.params[self.own_name]
        y = trained if self.frame is None else expand_dim(trained, self.frame)
        return expand_dim(y, batch_dim) if self.add_batch_axis else y

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The last axis."""
        return self.dims[-1] if self.dims else None

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The batch, the time, and the axes of the shape."""
        batch = [batch_dim] if self.add_batch_axis else []
        return [*batch, *([] if self.frame is None else [self.frame]), *self.dims]
