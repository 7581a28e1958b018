"""Convolution, its transpose, and pooling over spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.arguments import Count, Positive
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import NetworkDims, renamed, without
from rfnb.netdict.layer import Layer
from rfnb.netdict.layer_call import input_first, renaming
from rfnb.netdict.layers.activations import Activation, activation_of, initial_values
from rfnb.netdict.options import REQUIRED, layer, value
from rfnb.netdict.versions import holds
from rfnb.ops.conv import conv, make_conv_out_spatial_dims, pool, transposed_conv
from rfnb.ops.create import ones_like, range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import cast, compare_bc, logical_and, maximum, where
from rfnb.ops.shape import expand_dim, replace_dim_v2, set_feature_dim, split_dims, squeeze


class Spatial(Layer):
    """What layers share that give new spatial axes. new_dims: these, before `out_spatial_dims` stand in their place."""

    out_spatial_dims: Sequence[Dim] | None = value(None, list, tuple)
    function: Activation
    new_dims: list[Dim]

    def spatial_of(self, x: Tensor, nd: int, described: object) -> list[Dim]:
        """The axes that windows slide over: as described, or else the first `nd`, without batch and features."""
        inner = [dim for dim in x.dims if not dim.is_batch_dim() and dim is not x.feature_dim]
        return inner[:nd] if described is None else list(self.pool.find(described, x))

    def with_given_dims(self, y: Tensor) -> Tensor:
        """The result with `out_spatial_dims`, which have the lengths of those in whose place they are."""
        for source, target in zip(self.new_dims, self.out_spatial_dims or (), strict=False):
            y = replace_dim_v2(y, in_dim=source, out_dim=self.pool.of(target), allow_expand=False)
        return y

    def given_back(self, y: Tensor) -> Tensor:
        """The result with its features, and activated."""
        y = self.with_given_dims(y) if self.out_spatial_dims else y
        y = y if y.sig.feature_dim is self.out_dim else set_feature_dim(y, self.out_dim)
        return self.activated(self.function, y)

    def names_of_dims(self) -> dict[Dim, str]:
        """name:conv:sI."""
        return {dim: f"{self.name}:conv:s{i}" for i, dim in enumerate(self.out_spatial_dims or self.new_dims)}


class Sliding(Spatial, without_effect="use_channel_first auto_use_channel_first use_time_mask"):
    """What convolution and pooling share: windows that slide over spatial axes."""

    padding: Any = value("same", str, int, list, tuple)
    strides: object = value(None, int, list, tuple)
    dilation_rate: object = value(1, int, list, tuple)
    in_spatial_dims: object = value(None, str, list, tuple, Dim)

    def slide(self, x: Tensor, sizes: Sequence[int]) -> None:
        """Sets the spatial dims, the new ones, and what slides over them."""
        nd = len(sizes)
        spatial = self.spatial_of(x, nd, self.in_spatial_dims)
        if len(spatial) != nd:
            fault = "the window has another number of axes than the source has spatial axes"
            raise NetworkError(fault, got=f"{nd} for {x.describe_dims()}", hint='"in_spatial_dims": ["T", …]')
        self.spatial, self.sizes = spatial, tuple(sizes)
        self.steps = tuple(per_axis(self.strides if self.strides is not None else self.usual_strides(), nd))
        self.dilations = tuple(per_axis(self.dilation_rate, nd))
        mode = self.padding.lower() if isinstance(self.padding, str) else self.padding
        self.same = mode == "same"
        out_dims = make_conv_out_spatial_dims(
            spatial, filter_size=list(sizes), padding=mode, strides=self.steps, dilation_rate=self.dilations
        )
        self.new_dims = []
        for dim, old in zip(out_dims, spatial, strict=True):
            if dim is not old and dim.dimension is not None:
                dim = self.pool.instead(old, dim.dimension, x, self.new_dims)
            self.new_dims.append(dim)

    def usual_strides(self) -> object:
        """The strides if none are given."""
        return 1

    def placed(self, x: Tensor) -> tuple[Tensor, list[Dim], Any, list[Tensor]]:
        """The source, the axes to slide over, the padding of each, and masks where zeros are part of the source.

        "same" counts the zeros from the longest sequence of the batch. With `batch_independent`, each sequence has its
        own, so they become part of the source; a mask says what is a frame.
        """
        if not self.same:
            return x, self.spatial, self.padding.lower() if isinstance(self.padding, str) else self.padding, []
        spatial, margins, masks = list(self.spatial), [], []
        for i, dim in enumerate(self.spatial):
            size = x.size_of(dim)
            if self.spec.batch_independent and size.dims and size.max:
                x, spatial[i], mask = self._with_own_zeros(x, i, size)
                margins.append((0, 0))
                masks.append(mask)
            else:
                total = int(self._span(i, size.max)) - size.max
                margins.append((total // 2, total - total // 2))
        return x, spatial, tuple(margins), masks

    def _span(self, i: int, n: Any) -> Any:
        """How many entries the windows along the i-th axis cover, for `n` frames: these, and the zeros around."""
        positions = (n + self.steps[i] - 1) // self.steps[i]
        span = (positions - 1) * self.steps[i] + (self.sizes[i] - 1) * self.dilations[i] + 1
        return np.where(n > 0, np.maximum(span, n), 0)

    def _with_own_zeros(self, x: Tensor, i: int, size: Size) -> tuple[Tensor, Dim, Tensor]:
        dim, spans = self.spatial[i], self._span(i, size.values)
        padded = Dim(None, name=dim.name, kind="spatial")
        padded.bind(Size(size.dims, spans))
        length, span = (cast(get_size_tensor(axis, device=x.device), "int64") for axis in (dim, padded))
        places = range_over_dim(padded, dtype="int64", device=x.device) - (span - length) // 2
        mask = logical_and(compare_bc(places, "greater_equal", 0), compare_bc(places, "less", length))
        frames = gather(x, indices=places, axis=dim, clip_to_valid=True)
        return where(mask, frames, 0.0), padded, mask


class Conv(Sliding, layer_class="conv"):
    """Filters that slide over spatial axes. {…, spatial…, in} → {…, spatial'…, n_out}"""

    filter_size: int | Sequence[int] = value(REQUIRED, int, list, tuple)
    groups: int = value(1, Positive)
    activation: object = value(None)
    with_bias: bool | None = value(None, bool)
    input_expand_dims: int = value(0, Count)
    input_add_feature_dim: bool = value(False, bool)
    input_split_feature_dim: int | None = value(None, Positive)
    filter: object = layer(None)
    bias: Parameter | None = layer(None)
    W: Parameter
    forward_weights_init: object = value("glorot_uniform")
    bias_init: object = value(0.0)

    def setup(self, x: Tensor, filter: Tensor | None = None, bias: Tensor | None = None) -> None:
        """W {filter…, in / groups, out}, bias {out}, unless they are the outputs of layers."""
        if self.out_dim is None and filter is not None:
            self.out_dim = self.pool.feature(filter.dims[-1].get_dim_value(), x.dims)
        if x.feature_dim is None or self.out_dim is None:
            raise NetworkError("conv needs features, and the number of filters", expected='"n_out": …')
        x = self._prepared_axes(x)
        assert x.feature_dim is not None
        sizes = per_axis(self.filter_size)
        self.slide(x, sizes)
        self.in_dim, self.function = x.feature_dim, activation_of(self.activation)
        self.widths = NetworkDims().shape(sizes, feature=False)
        per_group = self.in_dim if self.groups == 1 else self.in_dim // self.groups
        dims = [*self.widths, per_group, self.out_dim]
        self.of_filter = None if filter is None else renaming(filter, dims)
        self.of_bias = None if bias is None else renaming(bias, [self.out_dim])
        if filter is None:
            self.parameter("W", dims, initial_values(self.forward_weights_init))
        with_bias = holds("conv has a bias", self.spec.version) if self.with_bias is None else self.with_bias
        self.bias = None
        if with_bias and bias is None:
            self.parameter("bias", [self.out_dim], initial_values(self.bias_init))

    def _prepared_axes(self, x: Tensor) -> Tensor:
        """Sets the axes that the options add; gives the template with them, in the declared order."""
        feature = x.feature_dim
        assert feature is not None
        self.ones = self.pool.shape([1] * self.input_expand_dims, x.dims, feature=False)
        order = [*without(x, feature), *self.ones]
        self.pieces: tuple[Dim, list[Dim]] | None = None
        if self.input_add_feature_dim:
            self.ones.append(self.pool.feature(1, [*x.dims, *self.ones]))
            order += [feature]
            feature = self.ones[-1]
        elif self.input_split_feature_dim:
            size = self.input_split_feature_dim
            if feature.dimension is None or feature.dimension % size:
                raise NetworkError("conv: input_split_feature_dim does not divide the features", got=feature.describe())
            spatial = self.pool.static(feature.dimension // size, [*x.dims, *self.ones])
            self.pieces = feature, [spatial, self.pool.feature(size, [*order, spatial])]
            order, feature = [*order, spatial], self.pieces[1][1]
        self.source_feature = feature
        self.adds_axes = feature is not x.feature_dim or bool(self.ones)
        return self._with_axes(x).copy_transpose([*order, feature])

    def _with_axes(self, x: Tensor) -> Tensor:
        x = reduce(expand_dim, self.ones, x)
        if self.pieces is not None:
            x = split_dims(x, axis=self.pieces[0], dims=self.pieces[1])
        return x if x.sig.feature_dim is self.source_feature else set_feature_dim(x, self.source_feature)

    def compute(self, x: Tensor, filter: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        """{…, spatial…, in} → {…, spatial'…, out}"""
        x = self._with_axes(x) if self.adds_axes else x
        weight = self.W if filter is None else renamed(filter, self.of_filter or ())
        shift = self.bias if bias is None else renamed(bias, self.of_bias or ())
        x, spatial, margins, _ = self.placed(x)
        y, _ = conv(
            x, in_dim=self.in_dim, out_dim=self.out_dim, in_spatial_dims=spatial, out_spatial_dims=self.new_dims,
            filter=weight, filter_size=self.widths, padding=margins, strides=self.steps, dilation_rate=self.dilations,
            groups=self.groups, bias=shift, use_mask=False,
        )  # fmt: skip
        return self.given_back(y)


class Pool(Sliding, layer_class="pool"):
    """The maximum or the mean over windows. {…, spatial…} → {…, spatial'…}"""

    mode: str = value("max", str)
    pool_size: int | Sequence[int] = value(REQUIRED, int, list, tuple)
    padding: Any = value("valid", str, int, list, tuple)

    def usual_strides(self) -> object:
        """The size of the window."""
        return self.pool_size

    def setup(self, x: Tensor) -> None:
        """The new dims."""
        self.slide(x, per_axis(self.pool_size))

    def compute(self, x: Tensor) -> Tensor:
        """{…, spatial…} → {…, spatial'…}"""
        x, spatial, around, masks = self.placed(x)
        frames = reduce(logical_and, masks) if masks else None
        if frames is not None and self.mode == "max":
            x = where(frames, x, float("-inf"))
        pooled = partial(
            pool, mode=self.mode, pool_size=self.sizes, padding=around, dilation_rate=self.dilations,
            strides=self.steps, in_spatial_dims=spatial, out_spatial_dims=self.new_dims, use_mask=False,
        )  # fmt: skip
        y: Tensor = pooled(x)[0]
        if frames is not None and self.mode == "max":
            y = y.copy_masked(0.0)
        elif frames is not None:
            y = y / maximum(pooled(where(frames, ones_like(x), 0.0))[0], 1e-9)
        return self.with_given_dims(y) if self.out_spatial_dims else y


def per_axis(given: Any, nd: int = 1) -> list[int]:
    """One number for each axis; nd: how many these are at least."""
    return [given] * nd if isinstance(given, int) else [*given, *([given[-1]] * (nd - len(given)))]


class TransposedConv(Spatial, layer_class="transposed_conv"):
    """Each frame times a filter, `strides` apart, summed where they overlap. {…, spatial…, in} → {…, spatial'…, out}"""

    filter_size: int | Sequence[int] = value(REQUIRED, int, list, tuple)
    strides: object = value(None, int, list, tuple)
    padding: Any = value("same", str)
    remove_padding: Any = value(0, int, list, tuple)
    output_padding: Any = value(None, int, list, tuple)
    in_spatial_dims: object = value(None, str, list, tuple, Dim)
    activation: object = value(None)
    with_bias: bool = value(True, bool)
    forward_weights_init: object = value("glorot_uniform")
    bias_init: object = value(0.0)

    def setup(self, x: Tensor) -> None:
        """W_native_transposed_conv {filter…, 1 if there is one axis, out, in}, bias {out}."""
        sizes = per_axis(self.filter_size)
        if x.feature_dim is None or self.out_dim is None:
            raise NetworkError("transposed_conv needs features, and the number of filters", expected='"n_out": …')
        self.spatial = self.spatial_of(x, len(sizes), self.in_spatial_dims)
        self.in_dim, self.function = x.feature_dim, activation_of(self.activation)
        self.steps = per_axis(sizes if self.strides is None else self.strides, len(sizes))
        widths = NetworkDims().shape([*sizes, *([1] if len(sizes) == 1 else [])], feature=False)
        self.widths, self.ones = widths[: len(sizes)], widths[len(sizes) :]
        dims = [*widths, self.out_dim, self.in_dim]
        self.parameter("W_native_transposed_conv", dims, initial_values(self.forward_weights_init))
        if self.with_bias:
            self.parameter("bias", [self.out_dim], initial_values(self.bias_init))

    def compute(self, x: Tensor) -> Tensor:
        """{…, spatial…, in} → {…, spatial'…, out}"""
        params = self.params
        weight: Tensor = params["W_native_transposed_conv"]
        weight = reduce(squeeze, self.ones, weight)
        if self.in_dim is self.out_dim:  # of equal dims, the op takes the one with the higher priority as the input
            out, into = weight.dims[-2:]
            weight = input_first(weight, out, into, self.in_dim)
        y, [*self.new_dims] = transposed_conv(
            x, in_dim=self.in_dim, out_dim=self.out_dim, in_spatial_dims=self.spatial, filter=weight,
            filter_size=self.widths, padding=self.padding.lower(), remove_padding=self.remove_padding,
            output_padding=self.output_padding, strides=self.steps, bias=params.get("bias"),
            use_mask=self.spec.batch_independent,
        )  # fmt: skip
        return self.given_back(y)
