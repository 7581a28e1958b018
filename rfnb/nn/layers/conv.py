"""Convolutions and transposed convolutions over one to three dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rfnb.backend.base.conv import Padding, PerAxis
from rfnb.core.dims.dim import Dim, as_dim, check_dims
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.nn.layers.linear import weight
from rfnb.nn.module.module import Module
from rfnb.ops.conv import Sizes, conv, transposed_conv


class _Sliding(Module):
    """Base of convolutions: a filter with its size, strides and padding, and a bias."""

    nd: ClassVar[int]
    filter: Parameter
    bias: Parameter | None

    def _set(self, in_dim: Dim, out_dim: Dim, filter_size: Sizes, padding: Padding, strides: PerAxis | None) -> None:
        check_dims([in_dim, out_dim], type(self).__name__)
        self.in_dim = in_dim
        self.out_dim = out_dim
        self.filter_size = self._filter_dims(filter_size)
        self.padding = padding
        self.strides = strides

    def _filter_dims(self, sizes: Sizes) -> list[Dim]:
        listed = [sizes] * self.nd if isinstance(sizes, int | Dim) else list(sizes or ())
        if len(listed) != self.nd:
            name = type(self).__name__
            fault = f"{name}: `filter_size` has the wrong number of sizes"
            raise ParameterError(fault, got=sizes, expected=count_of(self.nd, "size"))
        numbers = [size.dimension if isinstance(size, Dim) else size for size in listed]
        if any(size is not None and size < 1 for size in numbers):
            fault = f"{type(self).__name__}: `filter_size` must be 1 or more"
            raise ParameterError(fault, got=" × ".join(map(str, numbers)), expected="1 or more")
        return [as_dim(size, f"filter-dim{axis}") for axis, size in enumerate(listed)]

    def __call__(
        self, source: Tensor, *, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None = None
    ) -> tuple[Tensor, Sequence[Dim]]:
        """The result, and its spatial dims. {…, in_dim, in_spatial_dims…} → {…, out_dim, out_spatial_dims…}"""
        return self._slide(
            source,
            in_dim=self.in_dim,
            out_dim=self.out_dim,
            in_spatial_dims=in_spatial_dims,
            out_spatial_dims=out_spatial_dims,
            filter=self.filter,
            filter_size=self.filter_size,
            padding=self.padding,
            strides=self.strides,
            bias=self.bias,
        )

    def _slide(self, source: Tensor, **options: object) -> tuple[Tensor, Sequence[Dim]]:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Dims, filter size and padding in views: "in:3 → out:4, 3×5, padding=same"."""
        size = "×".join(str(dim.dimension) for dim in self.filter_size)
        return f"{super().extra_repr()}, {size}, padding={self.padding}"


class _OverOneDim(_Sliding):
    """Base of convolutions over one dim, whose call takes a dim instead of a list."""

    nd = 1

    def __call__(  # type: ignore[override]
        self, source: Tensor, *, in_spatial_dim: Dim, out_spatial_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """The result, and its spatial dim. {…, in_dim, in_spatial_dim} → {…, out_dim, out_spatial_dim}"""
        outs = None if out_spatial_dim is None else [out_spatial_dim]
        result, [time] = super().__call__(source, in_spatial_dims=[in_spatial_dim], out_spatial_dims=outs)
        return result, time


class _Conv(_Sliding):
    """Base of convolutions over `nd` dims. {…, in_dim, in_spatial_dims…} → {…, out_dim, out_spatial_dims…}"""

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim,
        filter_size: Sizes,
        *,
        padding: Padding,
        strides: PerAxis | None = None,
        dilation_rate: PerAxis | None = None,
        groups: int | None = None,
        with_bias: bool = True,
    ):
        self._set(in_dim, out_dim, filter_size, padding, strides)
        self.dilation_rate = dilation_rate
        self.groups = groups
        if groups is not None:
            _check_groups(self, groups)
        self.filter_in_dim = in_dim if groups in (None, 1) else in_dim // groups
        self.filter = weight([out_dim, self.filter_in_dim, *self.filter_size], input_axis=1)
        self.with_bias = with_bias
        self.bias = Parameter([out_dim]) if with_bias else None

    def _slide(self, source: Tensor, **options: Any) -> tuple[Tensor, Sequence[Dim]]:
        return conv(source, **options, dilation_rate=self.dilation_rate, groups=self.groups)


class Conv1d(_OverOneDim, _Conv):
    """Convolution over one dim. {…, in_dim, time} → {…, out_dim, new time}

    Args:
        filter_size: the number of frames that the filter covers.
        padding: "valid": only positions where the filter fits; "same": as many positions as frames, divided by the
            stride; a number: that many zeros at each end.
        strides: the distance between positions; by default 1.
        groups: the number of independent parts of `in_dim` and `out_dim`; with the size of `in_dim`: depthwise.

    >>> time, feat, out = rf.Dim(5, name="time"), rf.Dim(3, name="feat"), rf.Dim(4, name="out")
    >>> y, new_time = rf.Conv1d(feat, out, 3, padding="valid")(rf.zeros([time, feat]), in_spatial_dim=time)
    >>> y.dims == (new_time, out), new_time is time - 2
    (True, True)

    The result never depends on padding. Raises ParameterError if the groups do not divide the dims evenly.
    """


class Conv2d(_Conv):
    """`rf.Conv1d` over two dims: `in_spatial_dims`. {…, in_dim, a, b} → {…, out_dim, new a, new b}

    >>> time, freq, one, out = (rf.Dim(n, name=name) for n, name in [(5, "time"), (4, "freq"), (1, "one"), (2, "out")])
    >>> conv = rf.Conv2d(one, out, 3, padding="same", strides=(2, 1))
    >>> y, [new_time, new_freq] = conv(rf.zeros([time, freq, one]), in_spatial_dims=[time, freq])
    >>> new_time.dimension, new_freq is freq
    (3, True)
    """

    nd = 2


class Conv3d(_Conv):
    """`rf.Conv1d` over three dims: `in_spatial_dims`. {…, in_dim, a, b, c} → {…, out_dim, new a, new b, new c}

    >>> inp, out, *dims = (rf.Dim(n, name=name) for n, name in zip((1, 2, 5, 5, 5), ("in", "out", "x", "y", "z")))
    >>> y, new_dims = rf.Conv3d(inp, out, 2, padding="valid")(rf.zeros([*dims, inp]), in_spatial_dims=dims)
    >>> new_dims == [dim - 1 for dim in dims]
    True
    """

    nd = 3


class _TransposedConv(_Sliding):
    """Base of transposed convolutions. {…, in_dim, in_spatial_dims…} → {…, out_dim, out_spatial_dims…}"""

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim,
        filter_size: Sizes,
        *,
        padding: Padding,
        remove_padding: PerAxis = 0,
        output_padding: int | Sequence[int | None] | None = None,
        strides: PerAxis | None = None,
        with_bias: bool = True,
    ):
        self._set(in_dim, out_dim, filter_size, padding, strides)
        self.remove_padding = remove_padding
        self.output_padding = output_padding
        self.filter = weight([in_dim, out_dim, *self.filter_size], input_axis=0)
        self.with_bias = with_bias
        self.bias = Parameter([out_dim]) if with_bias else None

    def _slide(self, source: Tensor, **options: Any) -> tuple[Tensor, Sequence[Dim]]:
        return transposed_conv(
            source, **options, remove_padding=self.remove_padding, output_padding=self.output_padding
        )


class TransposedConv1d(_OverOneDim, _TransposedConv):
    """Transposed convolution: each frame times a filter, placed `strides` apart and summed, which gives more frames.

    {…, in_dim, time} → {…, out_dim, new time}

    Args:
        filter_size: the number of output frames that each input frame contributes to.
        padding: "valid": all frames that a filter covers, at least `strides` per input frame; "same": exactly `strides`
            per input frame.
        remove_padding: the number of frames to remove at both ends.
        output_padding: the number of frames to add at the end.
        strides: the distance between the filters; by default the filter size.

    >>> time, feat, out = rf.Dim(5, name="time"), rf.Dim(3, name="feat"), rf.Dim(4, name="out")
    >>> y, new_time = rf.TransposedConv1d(feat, out, 2, padding="valid")(rf.zeros([time, feat]), in_spatial_dim=time)
    >>> y.dims == (new_time, out), new_time is 2 * time
    (True, True)
    """


class TransposedConv2d(_TransposedConv):
    """`rf.TransposedConv1d` over two dims: `in_spatial_dims`. {…, in_dim, a, b} → {…, out_dim, new a, new b}

    >>> time, freq, one, out = (rf.Dim(n, name=name) for n, name in [(5, "time"), (4, "freq"), (1, "one"), (2, "out")])
    >>> grow = rf.TransposedConv2d(one, out, (2, 3), padding="same")
    >>> _, new_dims = grow(rf.zeros([time, freq, one]), in_spatial_dims=[time, freq])
    >>> [dim.dimension for dim in new_dims]
    [10, 12]
    """

    nd = 2


class TransposedConv3d(_TransposedConv):
    """`rf.TransposedConv1d` over three dims: `in_spatial_dims`. {…, in_dim, a, b, c} → {…, out_dim, new a, …}

    >>> inp, out, *dims = (rf.Dim(n, name=name) for n, name in zip((1, 2, 2, 2, 2), ("in", "out", "x", "y", "z")))
    >>> _, new_dims = rf.TransposedConv3d(inp, out, 2, padding="valid")(rf.zeros([*dims, inp]), in_spatial_dims=dims)
    >>> new_dims == [2 * dim for dim in dims]
    True
    """

    nd = 3


def _check_groups(conv: _Conv, groups: int) -> None:
    for dim in (conv.in_dim, conv.out_dim):
        if groups < 1 or dim.get_dim_value() % groups:
            raise ParameterError(
                f"{type(conv).__name__}: `groups` must divide {dim.name} evenly",
                got=f"{groups} groups of {dim.describe()}",
            )
