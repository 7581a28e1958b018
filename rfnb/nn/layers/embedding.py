"""Embeddings: from labels to vectors."""

from __future__ import annotations

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.nn.layers.weights import weight
from rfnb.nn.module.module import Module
from rfnb.ops.index import gather


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
