"""Weights: parameters that connect dims."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.parameter import Parameter
from rfnb.nn.init import Glorot


def weight(dims: Sequence[Dim]) -> Parameter:
    """A weight with these dims, drawn by Glorot. Where a dim occurs twice, the first is a stand-in of the same size."""
    parameter = Parameter([stand_in(dim) if dim in dims[i + 1 :] else dim for i, dim in enumerate(dims)])
    parameter.initial = Glorot()
    return parameter


def stand_in(dim: Dim) -> Dim:
    """Another Dim of the same size and name."""
    return Dim(dim.dimension, name=dim.name, kind=dim.kind)
