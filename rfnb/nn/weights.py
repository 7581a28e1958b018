"""Weights: parameters that lead from one dim to another, which may be the same."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.parameter import Parameter
from rfnb.core.tensor import Tensor
from rfnb.nn.init import Glorot
from rfnb.ops.shape import replace_dim_v2


def weight(dims: Sequence[Dim], *, input_axis: int) -> Parameter:
    """A weight with these dims, drawn by Glorot. If both are one dim, a stand-in takes its place at `input_axis`."""
    dims = list(dims)
    if dims.count(dims[input_axis]) > 1:
        dims[input_axis] = stand_in(dims[input_axis])
    parameter = Parameter(dims)
    parameter.initial = Glorot()
    return parameter


def stand_in(dim: Dim) -> Dim:
    """Another Dim of the same size and name."""
    return Dim(dim.dimension, name=dim.name, kind=dim.kind)


def to_input(source: Tensor, in_dim: Dim, weight_dim: Dim) -> Tensor:
    """`source` with the dim that the weight has for `in_dim`."""
    return source if weight_dim is in_dim else replace_dim_v2(source, in_dim=in_dim, out_dim=weight_dim)
