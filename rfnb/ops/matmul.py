"""Products of tensors over dims."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.raw import backend_of_raw
from rfnb.core.tensor import Tensor


@op(frames="any")
def matmul(a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """Σ over `reduce` of a·b; dims that both have stay as batch dims. {…, reduce}, {…, reduce} → {… of both}

    >>> energy = rf.matmul(keys, query, reduce=key_dim)  # {batch, time, key}, {batch, key} → {batch, time}

    Padding in `reduce` does not count, unless `use_mask` is False.
    """
    return backend_of_raw(a._raw).matmul(a, b, reduce=reduce, use_mask=use_mask)  # type: ignore[no-any-return]


dot = matmul
