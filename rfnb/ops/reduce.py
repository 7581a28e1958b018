"""Reductions over dims; padding is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.raw import backend_of_raw
from rfnb.core.tensor import Tensor

Axes = Dim | Sequence[Dim]


@op(frames="any")
def reduce(source: Tensor, *, mode: str, axis: Axes, use_mask: bool = True) -> Tensor:
    """`mode` over `axis`, over the valid frames only. {…, axis} → {…}

    mode: "sum", "mean", "max", "min", "logsumexp", "any", "all", "argmax", "argmin".
    """
    return backend_of_raw(source._raw).reduce(source, mode=mode, axis=axis, use_mask=use_mask)


def _reduction(mode: str, doc: str) -> Any:
    def reduction(source: Tensor, *, axis: Axes, use_mask: bool = True) -> Tensor:
        return backend_of_raw(source._raw).reduce(source, mode=mode, axis=axis, use_mask=use_mask)

    reduction.__name__ = reduction.__qualname__ = f"reduce_{mode}"
    reduction.__doc__ = f"{doc} over `axis`, over the valid frames only. {{…, axis}} → {{…}}"
    return op(frames="any")(reduction)


reduce_sum = _reduction("sum", "The sum")
reduce_mean = _reduction("mean", "The mean (0 over nothing)")
reduce_max = _reduction("max", "The largest")
reduce_min = _reduction("min", "The smallest")
reduce_logsumexp = _reduction("logsumexp", "log Σ exp(x)")
reduce_any = _reduction("any", "Whether any entry holds,")
reduce_all = _reduction("all", "Whether all entries hold,")
reduce_argmax = _reduction("argmax", "The position of the largest")
reduce_argmin = _reduction("argmin", "The position of the smallest")
