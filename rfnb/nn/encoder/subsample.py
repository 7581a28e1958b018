"""Convolutions that reduce the number of frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.dims.dim import Dim, as_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.nn.encoder.base import ISeqDownsamplingEncoder
from rfnb.nn.layers.conv import Conv2d
from rfnb.nn.module.container import ModuleList
from rfnb.ops.activation import relu
from rfnb.ops.conv import pool2d
from rfnb.ops.shape import merge_dims, split_dims
from rfnb.ops.slide import make_conv_out_spatial_dims

__all__ = ["ConformerConvSubsample"]
__dir__ = __all__.copy  # what is offered for completion: no imports

Pair = int | tuple[int, int]


class ConformerConvSubsample(ISeqDownsamplingEncoder):
    """The frontend of a Conformer: convolutions over time and features, which reduce both.

    {…, in_spatial_dim, in_dim} → {…, fewer frames, out_dim}. Features are treated as an axis to convolve over, because
    those of a log mel filterbank are ordered. Each convolution is followed by `activation` and maximum pooling.

    >>> time, feat = rf.Dim(7, name="time"), rf.Dim(8, name="feat")
    >>> frontend = rf.encoder.conformer.ConformerConvSubsample(
    ...     feat, out_dims=[4, 5], filter_sizes=[3, 3], pool_sizes=[(1, 2)], strides=[1, (3, 1)])
    >>> y, frames = frontend(rf.zeros([time, feat]), in_spatial_dim=time)
    >>> y.dims == (frames, frontend.out_dim), frames is time.ceildiv_right(3), frontend.out_dim.dimension
    (True, True, 20)

    Args:
        out_dims: the channels of each convolution. `out_dim` is the remaining features times the last channels.
        filter_sizes, strides: for each convolution a pair (time, features), or one number for both.
        pool_sizes: the same for pooling; there may be fewer than convolutions, or none.
        padding: the padding of the convolutions, "same" or "valid"; pooling always uses "same".
    """

    def __init__(
        self,
        in_dim: Dim,
        *,
        out_dims: Sequence[Dim | int],
        filter_sizes: Sequence[Pair],
        strides: Sequence[Pair] | None = None,
        pool_sizes: Sequence[Pair] | None = None,
        activation: Callable[[Tensor], Tensor] = relu,
        padding: str = "same",
    ):
        count = len(out_dims)
        steps = _pairs("strides", strides or [1] * count, count)
        pools = _pairs("pool_sizes", pool_sizes or [], None)[:count]
        self.in_dim = in_dim
        self.pool_sizes = [*pools, *[(1, 1)] * (count - len(pools))]
        self.activation = activation
        self.conv_layers = ModuleList()
        channels = self.one_channel = Dim(1, name="one-channel")
        for i, size in enumerate(_pairs("filter_sizes", filter_sizes, count)):
            out = as_dim(out_dims[i], f"channels{i}")
            self.conv_layers.append(Conv2d(channels, out, size, padding=padding, strides=steps[i]))
            channels = out
        self.out_dim = self._shorter(in_dim, 1) * channels
        self.downsample_factor = math.prod(time for time, _ in [*steps, *self.pool_sizes])

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """The result, and the dim of its frames. {…, in_spatial_dim, in_dim} → {…, new spatial dim, out_dim}"""
        source = split_dims(source, axis=self.in_dim, dims=[self.in_dim, self.one_channel])
        dims: Sequence[Dim] = [in_spatial_dim, self.in_dim]
        conv: Any
        for conv, size in zip(self.conv_layers, self.pool_sizes, strict=True):
            source, dims = conv(source, in_spatial_dims=dims)
            source = self.activation(source)
            if size != (1, 1):
                source, dims = pool2d(source, mode="max", pool_size=size, padding="same", in_spatial_dims=dims)
        source, _ = merge_dims(source, dims=[dims[1], conv.out_dim], out_dim=self.out_dim)
        return source, dims[0]

    def get_out_spatial_dim(self, in_spatial_dim: Dim) -> Dim:
        """The dim of the frames of the result.

        >>> frontend = rf.ConformerConvSubsample(rf.Dim(8), out_dims=[4], filter_sizes=[3], strides=[2])
        >>> frontend.get_out_spatial_dim(rf.Dim(7, name="time")).dimension
        4
        """
        return self._shorter(in_spatial_dim, 0)

    def _shorter(self, dim: Dim, axis: int) -> Dim:
        """The dim that results from the first (time) or second (features) axis."""
        conv: Any
        for conv, sizes in zip(self.conv_layers, self.pool_sizes, strict=True):
            filter_size, stride, size = conv.filter_size[axis], conv.strides[axis], sizes[axis]
            [dim] = make_conv_out_spatial_dims([dim], filter_size=filter_size, padding=conv.padding, strides=stride)
            [dim] = make_conv_out_spatial_dims([dim], filter_size=size, padding="same", strides=size)
        return dim


def _pairs(name: str, sizes: Sequence[Pair], count: int | None) -> list[tuple[int, int]]:
    """The sizes as pairs (time, features). Raises ParameterError if their number is not `count`."""
    if (not sizes and count == 0) or count not in (None, len(sizes)):
        raise ParameterError(
            f"ConformerConvSubsample: `{name}` does not have one entry for each convolution",
            got=list(sizes),
            expected=f"{count} entries, as in `out_dims`" if count else "at least one convolution",
        )
    return [(size, size) if isinstance(size, int) else tuple(size) for size in sizes]  # type: ignore[misc]
