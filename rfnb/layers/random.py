"""Random numbers: random, rand_int, random_state_init."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.network.layer import Layer
from rfnb.network.options import REQUIRED, layer, value
from rfnb.ops.random import random
from rfnb.ops.shape import set_sparse_dim


class Drawn(Layer, sourceless=True):
    """What the layers of random numbers share: dims that are given by numbers and Dims."""

    shape: Any = value(REQUIRED, list, tuple)
    seed: Any = value(None)
    sparse_dim: int | Dim | None = value(None, int, Dim)

    def setup(self, *sources: Tensor, **inputs: Tensor) -> None:
        """The dims."""
        self.dims: list[Dim] = []
        for i, size in enumerate(self.shape):
            make = self.pool.feature if i == len(self.shape) - 1 else self.pool.static
            self.dims.append(make(size, self.dims))
        self.labels = None if self.sparse_dim is None else self.pool.feature(self.sparse_dim)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The last axis, if its size is fixed."""
        feature = self.dims[-1] if self.dims else None
        return feature if feature is not None and feature.dimension is not None and self.labels is None else None

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The axes are those of `shape`."""
        return self.dims


class Random(Drawn, layer_class="random"):
    """Random numbers of a distribution, anew in each batch unless there is a `seed`. → {shape…}"""

    distribution: str = value(REQUIRED, str)
    mean: Any = layer(None)
    stddev: Any = layer(None)
    bound: Any = layer(None)
    minval: Any = layer(None)
    maxval: Any = layer(None)
    dtype: str = value("float32", str)
    algorithm: Any = value(None)
    explicit_state: Any = layer(None)
    auto_update_state: Any = value(None)
    static: bool | None = value(None, bool)
    shape_deps: Any = value(None)
    stop_grad: Any = value(None)

    def compute(self, *sources: Tensor, **inputs: Tensor) -> Tensor:
        """→ {shape…}"""
        names = ("mean", "stddev", "bound", "minval", "maxval", "explicit_state")
        parameters = {name: inputs.get(name, getattr(self, name)) for name in names}
        if isinstance(parameters["explicit_state"], Tensor) and parameters["explicit_state"].device == "meta":
            del parameters["explicit_state"]
        sample = random(
            self.dims,
            dtype=self.dtype,
            distribution=self.distribution,
            seed=self.seed,
            static=self.static,
            **{name: number for name, number in parameters.items() if number is not None},
        )
        return set_sparse_dim(sample, self.labels)


class RandInt(Drawn, layer_class="rand_int"):
    """Whole numbers from `minval` to `maxval` - 1, anew in each batch unless there is a `seed`. → {shape…}"""

    maxval: Any = layer(REQUIRED)
    minval: Any = layer(0)
    dtype: str = value("int32", str)

    def compute(self, *sources: Tensor, **inputs: Tensor) -> Tensor:
        """→ {shape…}"""
        bounds = {name: inputs.get(name, getattr(self, name)) for name in ("minval", "maxval")}
        sample = random(self.dims, dtype=self.dtype, distribution="uniform", seed=self.seed, **bounds)
        return set_sparse_dim(sample, self.labels)


class RandomStateInit(Layer, layer_class="random_state_init", sourceless=True):
    """Numbers for the option `explicit_state` of `random`: the same for the same `seed`. → {state}"""

    algorithm: Any = value(None)
    seed: Any = value(None)

    def setup(self) -> None:  # type: ignore[override]
        """The dim of the numbers."""
        self.state = self.out_dim or self.pool.static(3)

    def compute(self) -> Tensor:
        """→ {state}"""
        return random([self.state], dtype="int64", distribution="uniform", minval=0, maxval=2**31 - 1, seed=self.seed)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """There is none."""
        return None

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """There is one axis."""
        return [self.state]
