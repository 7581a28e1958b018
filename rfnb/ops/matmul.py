"""Products of tensors over dims, and linear maps."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor


@op(frames="any")
def matmul(a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """Σ over `reduce` of a·b; dims that both have stay as batch dims. {…, reduce}, {…, reduce} → {… of both}

    >>> keys, time = rf.Dim(4, name="keys"), rf.Dim(3, name="time")
    >>> rf.matmul(rf.ones([time, keys]), rf.ones([keys]), reduce=keys).raw_tensor.tolist()
    [4.0, 4.0, 4.0]

    Padding in `reduce` does not count, unless `use_mask` is False.
    """
    return backend_of_raw(a._raw).matmul(a, b, reduce, use_mask)


dot = matmul


@op(frames="any")
def linear(
    source: Tensor, weight: Tensor, bias: Tensor | None, *, in_dim: Dim, out_dim: Dim, use_mask: bool = False
) -> Tensor:
    """source · weight + bias, in one kernel. {…, in_dim}, {in_dim, out_dim}, {out_dim} → {…, out_dim}

    A source that is sparse in `in_dim` counts as one-hot.

    >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(2, name="out")
    >>> rf.linear(rf.ones([feat]), rf.ones([feat, out]), rf.ones([out]), in_dim=feat, out_dim=out).raw_tensor.tolist()
    [4.0, 4.0]

    use_mask: whether padding need not be computed: where that is faster, it becomes 0.
    """
    backend = backend_of_raw(source._raw)
    return backend.linear(source, weight, bias, in_dim=in_dim, out_dim=out_dim, use_mask=use_mask)
