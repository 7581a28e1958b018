"""A linear map."""

from __future__ import annotations

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor


@op(frames="any")
def linear(source: Tensor, weight: Tensor, bias: Tensor | None, *, in_dim: Dim, out_dim: Dim) -> Tensor:
    """source · weight + bias, in one kernel. {…, in_dim}, {in_dim, out_dim}, {out_dim} → {…, out_dim}

    A source that is sparse in `in_dim` counts as one-hot.

    >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(2, name="out")
    >>> rf.linear(rf.ones([feat]), rf.ones([feat, out]), rf.ones([out]), in_dim=feat, out_dim=out).raw_tensor.tolist()
    [4.0, 4.0]
    """
    return backend_of_raw(source._raw).linear(source, weight, bias, in_dim=in_dim, out_dim=out_dim)
