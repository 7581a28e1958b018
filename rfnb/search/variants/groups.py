"""Candidates that get a place though better ones exist, and those that get none though there is room."""

from __future__ import annotations

import numpy as np

from rfnb.core.advice.broadcast_errors import broadcast_allowed
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.ops.concat import concat, split
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import gather, scatter
from rfnb.ops.math import cast, is_neg_infinite, less, logical_and, logical_not, where
from rfnb.ops.reduce import reduce_all, reduce_max
from rfnb.ops.shape import merge_dims, replace_dim, set_sparse_dim
from rfnb.ops.sort import top_k


@broadcast_allowed()
def best_of_groups(
    total: Tensor, ended: Tensor | None, axis: Dim, beam: Dim, out_beam: Dim, groups: int, diversity: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Labels, parents and scores of the candidates that get a place, where each group of the beam fills its own places.

    {…, beam, axis}, {…, beam} bool → {…, out_beam}. A label costs a candidate `diversity` for each time that an earlier
    group chose it in this step; the scores that are returned are without that (https://arxiv.org/abs/1610.02424). Where
    no hypothesis goes on, all keep their places: further steps are those of other sequences.
    """
    check_groups(groups, beam.get_dim_value(), out_beam.get_dim_value())
    size, out_size = (dim.get_dim_value() // groups for dim in (beam, out_beam))
    dims, out_dims = ([Dim(group_size, name="group") for _ in range(groups)] for group_size in (size, out_size))
    totals = split(total, axis=beam, out_dims=dims)
    goes_on = None if ended is None else split(cast(logical_not(ended), total.dtype), axis=beam, out_dims=dims)
    uses: Tensor | None = None  # how often earlier groups chose each label, {…, axis}
    results: list[tuple[Tensor, Tensor, Tensor]] = []
    for i, (scores, group, out) in enumerate(zip(totals, dims, out_dims, strict=True)):
        ranked = scores
        if uses is not None:
            cost = uses * diversity
            ranked = scores - (cost if goes_on is None else cost * goes_on[i])
        _, (parents, labels), _ = top_k(ranked.copy_transpose(scores.dims), axis=[group, axis], k_dim=out)
        merged, dim = merge_dims(scores, dims=[group, axis])
        places = set_sparse_dim(parents, None) * axis.get_dim_value() + set_sparse_dim(labels, None)
        best = gather(merged, indices=places, axis=dim)
        counts = cast(logical_not(is_neg_infinite(best)), total.dtype)
        if goes_on is not None:
            counts = counts * gather(goes_on[i], indices=parents, axis=group)
        counts = scatter(counts, indices=labels, indices_dim=out, out_dim=axis)
        uses = counts if uses is None else uses + counts
        results.append((labels, set_sparse_dim(parents, None) + i * size, best))
    labels, parents, best = (_joined(parts, out_dims, out_beam) for parts in zip(*results, strict=True))
    if ended is not None and size == out_size:
        over = reduce_all(ended, axis=beam)
        copies = replace_dim(gather(total, indices=0, axis=axis), in_dim=beam, out_dim=out_beam)[0]
        identity = set_sparse_dim(range_over_dim(out_beam, device=total.device), None)
        labels, parents, best = (
            where(over, copied, set_sparse_dim(new, None)).copy_transpose(new.dims)
            for copied, new in ((0, labels), (identity, parents), (copies, best))
        )
    return set_sparse_dim(labels, axis), set_sparse_dim(parents, beam), best


def check_groups(groups: int, *sizes: int) -> None:
    """Raises ParameterError if beams cannot be split into groups of equal size."""
    if groups < 1 or any(size % groups for size in sizes):
        raise ParameterError(
            "choice: `groups` does not divide the beam",
            got=groups,
            expected=f"a divisor of {' and of '.join(map(str, dict.fromkeys(sizes)))}",
        )


def above(best: Tensor, beam: Dim, threshold: float, spared: bool) -> Tensor:
    """The scores of hypotheses, but -∞ for those that are worse than the best by more than `threshold`. {…, beam}

    spared: the last place is not touched.
    """
    if threshold < 0:
        raise ParameterError("choice: `threshold` is negative", got=threshold, expected="0 or more")
    dies = less(best, reduce_max(best, axis=beam) - threshold)
    if spared:
        last = beam.get_dim_value() - 1
        dies = logical_and(dies, less(range_over_dim(beam, device=best.device), last))
    return where(dies, -np.inf, best)


def _joined(parts: tuple[Tensor, ...], dims: list[Dim], out_dim: Dim) -> Tensor:
    joined, dim = concat(*zip(parts, dims, strict=True))
    return replace_dim(joined, in_dim=dim, out_dim=out_dim)[0]
