"""Linear maps from features to features, embeddings from labels to vectors, and the weights of both."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.nn.init import Glorot
from rfnb.nn.module.module import Module
from rfnb.ops.dims import dim_match_priority_when_needed
from rfnb.ops.index import gather
from rfnb.ops.matmul import linear
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
        return linear(source, self.weight, self.bias, in_dim=self.in_dim, out_dim=self.out_dim, use_mask=True)


def linear_with(weight: Parameter, in_dim: Dim, out_dim: Dim) -> Linear:
    """A Linear without bias, whose weight belongs to another module too. {…, in_dim} → {…, out_dim}

    weight: {in_dim, out_dim}, in any order.
    """
    layer = Linear.__new__(Linear)
    layer.in_dim, layer.out_dim, layer.weight = in_dim, out_dim, weight
    layer.with_bias, layer.bias = False, None
    return layer


class Embedding(Module):
    """A vector for each label. {…} sparse in in_dim → {…, out_dim}

    >>> letter, out = rf.Dim(26, name="letter"), rf.Dim(4, name="out")
    >>> letters = rf.convert_to_tensor([7, 8], dims=[rf.Dim(2, name="position")], sparse_dim=letter)
    >>> rf.Embedding(letter, out)(letters).feature_dim is out
    True
    """

    def __init__(self, in_dim: Dim, out_dim: Dim):
        check_dims([in_dim, out_dim], "Embedding")
        self.in_dim = in_dim
        self.out_dim = out_dim
        self.weight = weight([in_dim, out_dim], input_axis=0)
        self.weight.sig = align.sig(self.weight.dims, None, out_dim)  # so out_dim is the feature dim of the result

    def __call__(self, source: Tensor) -> Tensor:
        """{…} sparse in in_dim → {…, out_dim}. Raises DimError if `source` is sparse in another dim."""
        if source.sparse_dim is not self.in_dim:
            labels = source.sparse_dim
            raise DimError(
                f"Embedding: `source` is not sparse in {self.in_dim.name}",
                got=f"{source.describe_dims()} {source.dtype}" + (f", labels {labels.describe()}" if labels else ""),
                expected=f"a tensor with sparse_dim={self.in_dim.describe()}",
                hint=f"rf.set_sparse_dim(source, {self.in_dim.name})" if labels is None else None,
            )
        return gather(self.weight, indices=source, axis=self.weight.dims[0])
