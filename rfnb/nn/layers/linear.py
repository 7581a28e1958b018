"""Linear maps from features to features."""

from __future__ import annotations

from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.layers.weights import weight
from rfnb.nn.module.module import Module
from rfnb.ops.matmul import linear


class Linear(Module):
    """A linear map, W·x + b. {…, in_dim} → {…, out_dim}

    >>> hidden, out = rf.Dim(3, name="hidden"), rf.Dim(2, name="out")
    >>> rf.Linear(hidden, out)(rf.zeros([hidden])).dims == (out,)
    True

    A source that is sparse in `in_dim` is treated as one-hot. If both dims are the same, the weight is
    {in_dim(1), out_dim}.
    """

    def __init__(self, in_dim: Dim, out_dim: Dim, *, with_bias: bool = True):
        check_dims([in_dim, out_dim], "Linear")
        self.in_dim = in_dim
        self.out_dim = out_dim
        self.weight = weight([in_dim, out_dim], input_axis=0)
        self.with_bias = with_bias
        self.bias = Parameter([out_dim]) if with_bias else None

    def __call__(self, source: Tensor) -> Tensor:
        """{…, in_dim} → {…, out_dim}"""
        return linear(source, self.weight, self.bias, in_dim=self.in_dim, out_dim=self.out_dim)


def linear_with(weight: Parameter, in_dim: Dim, out_dim: Dim) -> Linear:
    """A Linear without bias, whose weight belongs to another module too. {…, in_dim} → {…, out_dim}

    weight: {in_dim, out_dim}, in any order.
    """
    layer = Linear.__new__(Linear)
    layer.in_dim, layer.out_dim, layer.weight = in_dim, out_dim, weight
    layer.with_bias, layer.bias = False, None
    return layer
