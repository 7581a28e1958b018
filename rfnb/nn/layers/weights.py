"""Weights: parameters that map one dim to another, which may be the same."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.init import Glorot
from rfnb.ops.dims import dim_match_priority_when_needed
from rfnb.ops.shape import replace_dim_v2


def weight(dims: Sequence[Dim], *, input_axis: int) -> Parameter:
    """A weight with these dims, initialized by Glorot.

    If the input dim is also the output dim, its copy at `input_axis` has the higher match priority.
    """
    dims = list(dims)
    dims[input_axis] = dim_match_priority_when_needed(dims[input_axis], *dims[:input_axis], *dims[input_axis + 1 :])
    parameter = Parameter(dims)
    parameter.initial = Glorot()
    return parameter


def to_input(source: Tensor, in_dim: Dim, weight_dim: Dim) -> Tensor:
    """`source` with `in_dim` replaced by the dim that the weight has for it."""
    return source if weight_dim is in_dim else replace_dim_v2(source, in_dim=in_dim, out_dim=weight_dim)
