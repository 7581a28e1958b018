"""Ended hypotheses that stay apart from those that go on, instead of competing with them for the same places."""

from __future__ import annotations

import numpy as np

from rfnb.core.advice.broadcast_errors import broadcast_allowed
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.concat import concat
from rfnb.ops.create import full, range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.math import (
    cast,
    compare_bc,
    equal,
    greater,
    is_neg_infinite,
    less,
    logical_and as both,
    logical_not as no,
    logical_or as one_of,
    where,
)
from rfnb.ops.reduce import reduce_all, reduce_sum
from rfnb.ops.shape import replace_dim, set_sparse_dim
from rfnb.ops.sort import top_k


@broadcast_allowed()
def best_apart(
    total: Tensor,
    ended: Tensor | None,
    axis: Dim,
    beam: Dim,
    out_beam: Dim,
    *,
    end: int,
    living: int,
    most_ended: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Labels, parents and scores, where the first `living` places are for hypotheses that go on, the others for ended
    ones. {…, beam, axis}, {…, beam} bool → {…, out_beam}

    As in Kasai et al. 2022 (A Call for Clarity in Beam Search, https://arxiv.org/abs/2204.05424): candidates are taken
    from the best one on, until `living` of them go on; those among them that end are put aside. most_ended: no more end
    once so many have. Where no hypothesis goes on, all keep their places.
    """
    going, apart = Dim(living, name="living"), Dim(out_beam.get_dim_value() - living, name="ended")
    had = full(dims=[beam], fill_value=False, device=total.device) if ended is None else ended
    goes_on = where(one_of(had, equal(range_over_dim(axis, device=total.device), end)), -np.inf, total)
    best, (parents, labels), _ = top_k(goes_on.copy_transpose(total.dims), axis=[beam, axis], k_dim=going)
    at_end = where(had, gather(total, indices=0, axis=axis), gather(total, indices=end, axis=axis))
    last, last_parent, last_label = (gather(x, indices=living - 1, axis=going) for x in (best, parents, labels))
    number = set_sparse_dim(range_over_dim(beam, device=total.device), None)
    size = axis.get_dim_value()
    last_place = set_sparse_dim(last_parent, None) * size + set_sparse_dim(last_label, None)
    earlier = both(equal(at_end, last), less(number * size + end, last_place))
    comes = both(no(had), both(no(is_neg_infinite(at_end)), one_of(greater(at_end, last), earlier)))
    if most_ended is not None:
        count = reduce_sum(cast(both(had, no(is_neg_infinite(at_end))), "int64"), axis=beam)
        comes = both(comes, less(_rank(where(comes, at_end, -np.inf), number, beam) + count, most_ended))
    ends = where(one_of(had, comes), at_end, -np.inf).copy_transpose((*best.dims[:-1], beam))
    best_ended, ended_parents, _ = top_k(ends, axis=beam, k_dim=apart)
    assert isinstance(ended_parents, Tensor)
    ended_labels = where(gather(had, indices=ended_parents, axis=beam), 0, end)
    ended_labels = cast(set_sparse_dim(ended_labels, axis), labels.dtype)
    parts: list[Tensor] = []
    for part, ended_part in ((labels, ended_labels), (parents, ended_parents), (best, best_ended)):
        second = set_sparse_dim(ended_part, None).copy_transpose([*part.dims[:-1], apart])
        joined, dim = concat((set_sparse_dim(part, None), going), (second, apart))
        parts.append(replace_dim(joined, in_dim=dim, out_dim=out_beam)[0])
    over = reduce_all(had, axis=beam)
    identity = set_sparse_dim(range_over_dim(out_beam, device=total.device), None)
    copies = replace_dim(at_end, in_dim=beam, out_dim=out_beam)[0]
    fixed: tuple[Tensor | int, ...] = 0, identity, copies
    labels, parents, best = (
        where(over, part, new).copy_transpose(new.dims) for part, new in zip(fixed, parts, strict=True)
    )
    return set_sparse_dim(labels, axis), set_sparse_dim(parents, beam), best


def _rank(scores: Tensor, number: Tensor, beam: Dim) -> Tensor:
    """How many entries are better, or equal and earlier. {…, beam} int64"""
    rivals = Dim(beam.get_dim_value(), name="other")
    rival_scores, others_number = (replace_dim(x, in_dim=beam, out_dim=rivals)[0] for x in (scores, number))
    tied = both(compare_bc(rival_scores, "equal", scores), compare_bc(others_number, "less", number))
    return reduce_sum(cast(one_of(compare_bc(rival_scores, "greater", scores), tied), "int64"), axis=rivals)
