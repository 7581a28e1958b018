"""The largest entries."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.raw import backend_of_raw
from rfnb.core.tensor import Tensor
from rfnb.errors import DimError


@op(frames="any")
def top_k(
    source: Tensor, *, axis: Dim | Sequence[Dim], k: int | None = None, k_dim: Dim | None = None, sorted: bool = True
) -> tuple[Tensor, Tensor | list[Tensor], Dim]:
    """The `k` largest over `axis`: their values, their positions, and the new dim. {…, axis} → {…, k_dim}, the same

    >>> beam, vocab = rf.Dim(2, name="beam"), rf.Dim(5, name="vocab")
    >>> scores, (parents, labels), beam = rf.top_k(rf.zeros([beam, vocab]), axis=[beam, vocab], k=2)
    >>> labels.sparse_dim is vocab
    True

    Args:
        axis: several are searched as one; then there is a list of positions, one for each.
        k, k_dim: one of them is enough.
        sorted: the largest first.
    """
    if k is None:
        if k_dim is None or k_dim.dimension is None:
            raise DimError("top_k: how many?", expected="`k`, or a `k_dim` of fixed size", got=k_dim)
        k = k_dim.dimension
    if not isinstance(k, int):
        raise DimError("top_k: `k` is no number", got=type(k).__name__, expected="int")
    if k_dim is None:
        k_dim = Dim(k, name="top_k")
    return backend_of_raw(source._raw).top_k(source, axis=axis, k=k, k_dim=k_dim, sorted=sorted)
