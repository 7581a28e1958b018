"""Layers that reduce axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.arguments import Positive
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.axes import NetworkDims, time_of, with_padding, without
from rfnb.netdict.layer import Layer, SteppingLayer
from rfnb.netdict.options import REQUIRED, axes, axis, layers, value
from rfnb.netdict.resolve import entry_of, required
from rfnb.ops import reduce as reductions
from rfnb.ops.conv import window
from rfnb.ops.create import zeros
from rfnb.ops.grad import stop_gradient
from rfnb.ops.math import abs as abs_, cast, pow as pow_
from rfnb.ops.reduce import reduce_mean, reduce_out, reduce_sum
from rfnb.ops.shape import expand_dim, replace_dim, set_feature_dim, set_sparse_dim
from rfnb.ops.slice import cumsum

MODES = {"avg": "mean", **{name: name for name in "sum mean max min argmax argmin logsumexp any all".split()}}


class ReducingLayer(Layer):
    """A layer that leaves out axes, or keeps them with one entry."""

    axes: tuple[Dim, ...] = axes(None)
    axis: object = value(None)
    keep_dims: bool = value(False, bool)

    def setup(self, x: Tensor) -> None:
        """Which axes, and the axes of size 1 that stay."""
        over = self.over = self.axes if self.axes is not None else self.pool.find(self.axis, x)
        frames = time_of(x)
        self.kept: list[Dim] = []
        for dim in over if self.keep_dims else ():
            make = self.pool.feature if dim is x.feature_dim else self.pool.time if dim is frames else self.pool.static
            self.kept.append(make(1, [*without(x, *over), *self.kept]))
        self.result_feature = x.feature_dim
        if x.feature_dim in over:
            self.result_feature = self.kept[-1] if self.kept else None

    def with_kept(self, y: Tensor) -> Tensor:
        """With the axes of size 1. {…} → {…, axes…}"""
        return reduce(expand_dim, self.kept, y)


class Reduce(ReducingLayer, layer_class="reduce", without_effect="enforce_batch_dim_axis"):
    """The sum, mean, maximum and so on over axes, without the padding. {…, axes…} → {…}"""

    mode: str = value("sum", str)
    use_time_mask: bool | None = value(None, bool)

    def setup(self, x: Tensor) -> None:
        """The function, and what its positions are labels of."""
        self.function = getattr(reductions, f"reduce_{entry_of(MODES, self.mode, f'there is no mode {self.mode!r}')}")
        super().setup(x)
        last = self.over[-1]
        self.label_dim = last if self.mode.startswith("arg") and last.dimension is not None else None

    def compute(self, x: Tensor) -> Tensor:
        """{…, axes…} → {…}"""
        masked = {} if self.use_time_mask is None else {"use_mask": self.use_time_mask or self.spec.batch_independent}
        y: Tensor = self.function(x, axis=self.over if len(self.over) != 1 else self.over[0], **masked)
        if self.mode.startswith("arg"):
            y = set_sparse_dim(cast(y, "int32"), self.label_dim)
        return self.with_kept(y)


class ReduceOut(Layer, layer_class="reduce_out"):
    """The maximum, or the mean, over groups of neighbouring features. {…, F} → {…, F // num_pieces}"""

    mode: str = value("max", str)
    num_pieces: int = value(2, Positive)

    def setup(self, x: Tensor) -> None:
        """The new features."""
        feature = required(x.feature_dim, "reduce_out needs features", x.describe_dims())
        self.out_dim = self.pool.instead(feature, feature.get_dim_value() // self.num_pieces, x)

    def compute(self, x: Tensor) -> Tensor:
        """{…, F} → {…, F // num_pieces}"""
        return reduce_out(x, mode=MODES[self.mode], num_pieces=self.num_pieces, out_dim=self.out_dim)


class MathNorm(ReducingLayer, layer_class="math_norm"):
    """(Σ |x|ᵖ)^(1/p) over axes. {…, axes…} → {…}"""

    p: float = value(2.0, float)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axes…} → {…}"""
        return self.with_kept(pow_(reduce_sum(pow_(abs_(x), self.p), axis=self.over), 1.0 / self.p))


class CumSum(SteppingLayer, layer_class="cumsum"):
    """The sum of all entries up to each one, and of the initial output. {…, axis} → the same"""

    axis: Dim = axis("T")
    additional_left_summand_per_element: float | None = value(None, float)
    reverse: bool = value(False, bool)
    initial_output: Any = layers(None, ("zeros", "ones", "var", "apply(0)"))

    def setup(self, x: Tensor, **inputs: Tensor) -> None:
        """The initial output {F}, if it is trained."""
        self.trained = ""
        if self.initial_output == "var":
            self.trained = f"init_{self.name.rpartition('/')[2]}_var"
            self.parameter(self.trained, [] if x.feature_dim is None else [x.feature_dim], 0.0)

    def compute(self, x: Tensor, initial_output: Tensor | None = None) -> Tensor:
        """{…, axis} → the same"""
        x, initial = self._summand(x), self._first(initial_output)
        if self.spec.batch_independent or self.axis.dimension is not None:
            y = self._summed(x, self.axis)
        else:
            y, padded = with_padding(x, self.axis)
            y = replace_dim(self._summed(y, padded), in_dim=padded, out_dim=self.axis)[0]
        return y + initial if isinstance(initial, Tensor) or initial else y

    def _summed(self, x: Tensor, axis: Dim) -> Tensor:
        y = cumsum(x, spatial_dim=axis)
        return reduce_sum(x, axis=axis) - y + x if self.reverse else y

    def _summand(self, x: Tensor) -> Tensor:
        summand = self.additional_left_summand_per_element
        return x if summand is None else summand + x

    def _first(self, given: Tensor | None) -> object:
        """The initial output: a number or a Tensor. given: the output of a layer."""
        if given is not None:
            return given
        if self.trained:
            return self.params[self.trained]
        by_name = {None: 0, "zeros": 0, "apply(0)": 0, "ones": 1}
        return by_name.get(self.initial_output, self.initial_output)

    def first_state(self, x: Tensor, initial_output: Tensor | None = None) -> State:
        """The initial output."""
        return State(sum=zeros(x.dims, dtype=x.dtype) + self._first(initial_output))

    def step(self, state: State, x: Tensor, initial_output: Tensor | None = None) -> tuple[Tensor, State]:
        """{…} → {…}"""
        y = state.sum + self._summand(x)
        return y, State(sum=y)


class WeightedSum(Layer, layer_class="weighted_sum"):
    """The sum over axes, or over windows of the `size` along each, with a trained weight for each entry.

    {…, axes…} → {…}, or with `size` {…, axes'…}
    """

    axes: tuple[Dim, ...] = axes()
    padding: str = value("valid", str)
    size: Any = value(None)
    keep_dims: bool = value(False, bool)

    def setup(self, x: Tensor) -> None:
        """W {axes…}, or {size…}: a mean, at first."""
        sizes = [self.size] * len(self.axes) if isinstance(self.size, int) else self.size
        if self.keep_dims and sizes is None:
            sizes = [dim.dimension for dim in self.axes]
        if sizes is None and any(dim.dimension is None for dim in self.axes):
            fault = "weighted_sum over an axis without a fixed size needs the size of a window"
            raise NetworkError(fault, got=", ".join(dim.describe() for dim in self.axes), expected='"size": (3,)')
        if sizes is not None and (len(sizes) != len(self.axes) or None in sizes):
            raise NetworkError("weighted_sum: size is not one number for each axis", got=repr(self.size))
        self.windows = NetworkDims().shape(sizes or (), feature=False)
        self.old_feature = x.feature_dim
        dims = self.windows or self.axes
        self.parameter("W", dims, 1.0 / math.prod(dim.get_dim_value() for dim in dims))

    def compute(self, x: Tensor) -> Tensor:
        """{…, axes…} → {…}, or {…, axes'…}"""
        weight, self.made = self.params["W"], {}
        if not self.windows:
            return reduce_sum(x * weight, axis=self.axes)
        mode = self.padding.lower()
        for axis_, width in zip(self.axes, self.windows, strict=True):
            target = axis_
            if mode == "valid" and axis_.dimension is not None:
                target = self.pool.instead(axis_, axis_.dimension - width.get_dim_value() + 1, x)
            x, dim = window(x, spatial_dim=axis_, window_dim=width, padding=mode, use_mask=self.spec.batch_independent)
            if dim is not target and target is not axis_:
                x, dim = replace_dim(x, in_dim=dim, out_dim=target)
            self.made[axis_] = dim
        return reduce_sum(x * weight, axis=self.windows)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """That of the source, or what became of it."""
        feature = self.made.get(self.old_feature, self.old_feature)  # type: ignore[arg-type]
        return feature if feature in out.sig.index else None


class ElemwiseProd(Layer, layer_class="elemwise_prod", without_effect="size"):
    """The source times a trained weight for each entry of axes. {…, axes…} → the same"""

    axes: tuple[Dim, ...] = axes()

    def setup(self, x: Tensor) -> None:
        """W {axes…}."""
        self.parameter("W", self.axes, 1.0)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axes…} → the same"""
        return x * self.params["W"]


class AccumulateMean(Layer, layer_class="accumulate_mean"):
    """The mean of all frames so far, of which the newest counts most: of a prior, for example. {…} → {F}

    Each call in training moves it by `exp_average` towards the mean of the batch; its output is the one before.
    """

    exp_average: float = value(REQUIRED, float)
    axes: tuple[Dim, ...] = axes("bt")
    initial_value: object = value(None)
    is_prob_distribution: bool | None = value(None, bool)
    mean_1: Parameter

    def setup(self, x: Tensor) -> None:
        """The mean, which the optimizer leaves alone; it begins at 0, or as a distribution."""
        dims = without(x, *self.axes)
        if any(dim.dimension is None or dim.is_batch_dim() for dim in dims):
            raise NetworkError("accumulate_mean: the sizes that are left are not fixed", got=x.describe_dims())
        initial = self.initial_value
        if initial is None:
            initial = 1.0 / math.prod(dim.get_dim_value() for dim in dims) if self.is_prob_distribution else 0.0
        self.parameter("mean_1", dims, initial).trainable = False

    def compute(self, x: Tensor) -> Tensor:
        """{…} → {F}"""
        mean = self.mean_1 * 1.0
        if get_run_ctx().is_train_flag_enabled() and x.device != "meta":
            change = stop_gradient(reduce_mean(x, axis=list(self.axes))) - self.mean_1
            self.mean_1.assign_add(change * self.exp_average)
        return set_feature_dim(mean, x.feature_dim)
