"""Layers without sources: constant."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.network.layer import Layer
from rfnb.network.options import value
from rfnb.ops.create import full


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
