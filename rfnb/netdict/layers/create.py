"""Layers that make values: constants, variables, ranges, random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import without
from rfnb.netdict.layer import Layer
from rfnb.netdict.layers.activations import initial_values
from rfnb.netdict.options import REQUIRED, axis, layer, value
from rfnb.ops.create import full, range_over_dim, zeros
from rfnb.ops.mask import sequence_mask
from rfnb.ops.math import where
from rfnb.ops.random import random
from rfnb.ops.shape import expand_dim, set_sparse_dim
from rfnb.ops.slice import repeat


class Constant(Layer, layer_class="constant", sourceless=True, without_effect="sparse_dim"):
    """A number. → {}, or {batch}, or the dims of `shape`"""

    shape: Sequence[int | Dim] | None = value(None, list, tuple)
    dtype: str | None = value(None, str)
    with_batch_dim: bool = value(False, bool)
    value: object = value(0.0)

    def setup(self) -> None:
        """The dims."""
        batch = [batch_dim] if self.with_batch_dim else []
        self.dims = [*batch, *self.pool.shape(self.shape or (), batch)]
        self.result_feature = self.dims[-1] if self.dims and self.dims[-1].dimension is not None else None

    def compute(self) -> Tensor:
        """→ {dims…}"""
        is_integer = isinstance(self.value, int) and not isinstance(self.value, bool)
        return full(dims=self.dims, fill_value=self.value, dtype=self.dtype or ("int32" if is_integer else None))


class Variable(Layer, layer_class="variable", sourceless=True):
    """A trained tensor. → {shape…}, or {batch, shape…}"""

    shape: Sequence[int | Dim] | None = value(None, list, tuple)
    dtype: str = value("float32", str)
    add_batch_axis: bool = value(False, bool)
    add_time_axis: bool = value(False, bool)
    init: object = value("glorot_uniform")
    init_by_layer: object = layer()
    param_name: str | None = value(None, str)

    def setup(self, init_by_layer: Tensor | None = None) -> None:
        """One parameter, named after the layer."""
        self.dims = self.pool.shape(self.shape or ())
        self.frame = self.pool.static(1, self.dims) if self.add_time_axis else None
        initial = initial_values(self.init) if init_by_layer is None else self._first_value()
        self.own_name = self.param_name or self.name.rpartition("/")[2]
        self.parameter(self.own_name, self.dims, initial)
        self.result_feature = self.dims[-1] if self.dims else None
        batch = [batch_dim] if self.add_batch_axis else []
        self.result_order = [*batch, *([] if self.frame is None else [self.frame]), *self.dims]

    def _first_value(self) -> np.ndarray:
        """The output of the layer that `init_by_layer` names, as numbers."""
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


class Range(Layer, layer_class="range", sourceless=True):
    """The numbers from `start` to `limit`, `delta` apart. → {n}"""

    limit: int = value(0, int)
    start: int = value(0, int)
    delta: int = value(1, int)
    dtype: str | None = value(None, str)
    sparse: bool = value(False, bool)
    out_spatial_dim: Dim | None = value(None, Dim)

    def setup(self) -> None:
        """The dim of the numbers, which is the feature axis."""
        size = len(range(self.start, self.limit, self.delta))
        self.result_feature = self.numbers = self.out_spatial_dim or self.pool.feature(size)
        self.result_order = [self.numbers]

    def compute(self) -> Tensor:
        """→ {n}"""
        return range_over_dim(self.numbers, dtype=self.dtype or "int32") * self.delta + self.start


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
        return reduce(expand_dim, without(x, self.axis), y) if self.unbroadcast else y


class RangeFromLength(Layer, layer_class="range_from_length"):
    """The positions 0, 1, … up to the lengths that the source gives. {batch} → {frames}"""

    axis: object = value("T", str)
    dtype: str = value("int32", str)
    sparse: bool = value(False, bool)
    out_spatial_dim: Dim | None = value(None, Dim)
    result_feature = None

    def setup(self, x: Tensor) -> None:
        """The dim of the positions, whose lengths come with each batch."""
        self.frames = self.out_spatial_dim or Dim(None, name=f"range:{self.name}", kind="spatial")

    def compute(self, x: Tensor) -> Tensor:
        """{batch} → {frames}"""
        unit = Dim(1, name="one")
        repeat(zeros([unit]), in_spatial_dim=unit, repeats=expand_dim(x, unit), out_spatial_dim=self.frames)
        return range_over_dim(self.frames, dtype=self.dtype, device=x.device)


class SeqLenMask(Layer, layer_class="seq_len_mask"):
    """The source, with `mask_value` after the end of each sequence. {…, axis} → the same"""

    mask_value: float = value(0.0, float)
    axis: Dim = axis("T")

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → the same"""
        return where(sequence_mask(self.axis, device=x.device), x, cast_number(self.mask_value, x))


def cast_number(number: Any, x: Tensor) -> Any:
    """A number of the kind that a tensor has."""
    return number if x.dtype.startswith("float") else int(number)


class Drawn(Layer, sourceless=True):
    """What the layers of random numbers share: dims that are given by numbers and Dims."""

    shape: Sequence[int | Dim] = value(REQUIRED, list, tuple)
    seed: int | Sequence[int] | None = value(None)
    sparse_dim: int | Dim | None = value(None, int, Dim)

    def setup(self, *sources: Any, **inputs: Any) -> None:
        """The dims."""
        self.dims = self.result_order = self.pool.shape(self.shape)
        self.labels = None if self.sparse_dim is None else self.pool.feature(self.sparse_dim)
        fixed = [dim for dim in self.dims[-1:] if dim.dimension is not None and self.labels is None]
        self.result_feature = fixed[0] if fixed else None


class Random(Drawn, layer_class="random", without_effect="algorithm auto_update_state shape_deps stop_grad"):
    """Random numbers of a distribution, anew in each batch unless there is a `seed`. → {shape…}"""

    distribution: str = value(REQUIRED, str)
    mean: object = layer(None)
    stddev: object = layer(None)
    bound: object = layer(None)
    minval: object = layer(None)
    maxval: object = layer(None)
    dtype: str = value("float32", str)
    explicit_state: object = layer(None)
    static: bool | None = value(None, bool)

    def compute(self, *sources: Tensor, **inputs: Tensor) -> Tensor:
        """→ {shape…}"""
        parameters = self.inputs_of(inputs)
        if isinstance(parameters["explicit_state"], Tensor) and parameters["explicit_state"].device == "meta":
            del parameters["explicit_state"]
        parameters |= {name: getattr(self, name) for name in ("dtype", "distribution", "seed", "static")}
        parameters = {name: option for name, option in parameters.items() if option is not None}
        return set_sparse_dim(random(self.dims, **parameters), self.labels)


class RandInt(Drawn, layer_class="rand_int"):
    """Whole numbers from `minval` to `maxval` - 1, anew in each batch unless there is a `seed`. → {shape…}"""

    maxval: object = layer(REQUIRED)
    minval: object = layer(0)
    dtype: str = value("int32", str)

    def compute(self, *sources: Tensor, **inputs: Tensor) -> Tensor:
        """→ {shape…}"""
        bounds = self.inputs_of(inputs)
        sample = random(self.dims, dtype=self.dtype, distribution="uniform", seed=self.seed, **bounds)
        return set_sparse_dim(sample, self.labels)


class RandomStateInit(Layer, layer_class="random_state_init", sourceless=True, without_effect="algorithm"):
    """Numbers for the option `explicit_state` of `random`: the same for the same `seed`. → {state}"""

    seed: int | Sequence[int] | None = value(None)
    result_feature = None

    def setup(self) -> None:
        """The dim of the numbers."""
        self.state = self.out_dim or self.pool.static(3)

    def compute(self) -> Tensor:
        """→ {state}"""
        return random([self.state], dtype="int64", distribution="uniform", minval=0, maxval=2**31 - 1, seed=self.seed)
