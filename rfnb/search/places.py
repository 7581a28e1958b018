"""Who gets a place in the beam other than by rank: in groups, after the end, above a threshold, where it stops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.ops.concat import concat, split
from rfnb.ops.create import full, range_over_dim
from rfnb.ops.index import gather, scatter, top_k
from rfnb.ops.math import (
    cast,
    compare_bc,
    equal,
    greater,
    greater_equal,
    is_neg_infinite,
    less,
    logical_and as both,
    logical_not as no,
    logical_or as one_of,
    maximum,
    minimum,
    where,
)
from rfnb.ops.reduce import reduce_all, reduce_max, reduce_sum
from rfnb.ops.shape import merge_dims, replace_dim, set_sparse_dim
from rfnb.search.rules import BeamRules, check_groups

if TYPE_CHECKING:
    from rfnb.search.beam import BeamState

Places = tuple[Tensor, Tensor, Tensor]
"""Labels, parents and scores of the candidates that get a place. {…, out_beam}"""


@broadcast_allowed()
def best_of_groups(
    total: Tensor, ended: Tensor | None, axis: Dim, beam: Dim, out_beam: Dim, rules: BeamRules
) -> Places:
    """The candidates that get a place where each group of the beam fills its own places.

    {…, beam, axis}, {…, beam} bool → {…, out_beam}. A label costs a candidate `diversity` for each time that an earlier
    group chose it in this step; the scores that are returned are without that (https://arxiv.org/abs/1610.02424). Where
    no hypothesis goes on, all keep their places: further steps are those of other sequences.
    """
    groups = rules.groups
    check_groups(groups, beam.get_dim_value(), out_beam.get_dim_value())
    size, out_size = (dim.get_dim_value() // groups for dim in (beam, out_beam))
    dims, out_dims = ([Dim(group_size, name="group") for _ in range(groups)] for group_size in (size, out_size))
    totals = split(total, axis=beam, out_dims=dims)
    goes_on = None if ended is None else split(cast(no(ended), total.dtype), axis=beam, out_dims=dims)
    uses: Tensor | None = None  # how often earlier groups chose each label, {…, axis}
    results: list[Places] = []
    for i, (scores, group, out) in enumerate(zip(totals, dims, out_dims, strict=True)):
        ranked = scores
        if uses is not None:
            cost = uses * rules.diversity
            ranked = scores - (cost if goes_on is None else cost * goes_on[i])
        _, (parents, labels), _ = top_k(ranked.copy_transpose(scores.dims), axis=[group, axis], k_dim=out)
        merged, dim = merge_dims(scores, dims=[group, axis])
        places = set_sparse_dim(parents, None) * axis.get_dim_value() + set_sparse_dim(labels, None)
        best = gather(merged, indices=places, axis=dim)
        counts = cast(no(is_neg_infinite(best)), total.dtype)
        if goes_on is not None:
            counts = counts * gather(goes_on[i], indices=parents, axis=group)
        counts = scatter(counts, indices=labels, indices_dim=out, out_dim=axis)
        uses = counts if uses is None else uses + counts
        results.append((labels, set_sparse_dim(parents, None) + i * size, best))
    labels, parents, best = (_joined(parts, out_dims, out_beam) for parts in zip(*results, strict=True))
    if ended is not None and size == out_size:
        labels, parents, best = _kept((labels, parents, best), total, ended, axis, beam, out_beam)
    return set_sparse_dim(labels, axis), set_sparse_dim(parents, beam), best


def _kept(places: Places, total: Tensor, ended: Tensor, axis: Dim, beam: Dim, out_beam: Dim) -> Places:
    """Some places, but those of before where no hypothesis goes on."""
    over = reduce_all(ended, axis=beam)
    copies = replace_dim(gather(total, indices=0, axis=axis), in_dim=beam, out_dim=out_beam)[0]
    before: tuple[Tensor | int, ...] = 0, set_sparse_dim(range_over_dim(out_beam, device=total.device), None), copies
    labels, parents, best = (
        where(over, copied, set_sparse_dim(new, None)).copy_transpose(new.dims)
        for copied, new in zip(before, places, strict=True)
    )
    return labels, parents, best


def above(best: Tensor, beam: Dim, threshold: float, rules: BeamRules) -> Tensor:
    """The scores of hypotheses, but -∞ for those that are worse than the best by more than `threshold`. {…, beam}"""
    if threshold < 0:
        raise ParameterError("choice: `threshold` is negative", got=threshold, expected="0 or more")
    dies = less(best, reduce_max(best, axis=beam) - threshold)
    if rules.gold:  # the last place is not touched
        last = beam.get_dim_value() - 1
        dies = both(dies, less(range_over_dim(beam, device=best.device), last))
    return where(dies, -np.inf, best)


def _joined(parts: tuple[Tensor, ...], dims: list[Dim], out_dim: Dim) -> Tensor:
    joined, dim = concat(*zip(parts, dims, strict=True))
    return replace_dim(joined, in_dim=dim, out_dim=out_dim)[0]


@broadcast_allowed()
def best_apart(
    total: Tensor,
    ended: Tensor | None,
    axis: Dim,
    beam: Dim,
    out_beam: Dim,
    rules: BeamRules,
) -> Places:
    """The candidates that get a place where the first `living` places are for hypotheses that go on, the others for
    those that have ended. {…, beam, axis}, {…, beam} bool → {…, out_beam}

    As in Kasai et al. 2022 (A Call for Clarity in Beam Search, https://arxiv.org/abs/2204.05424): candidates are taken
    from the best one on, until `living` of them go on; those among them that end are put aside, until `most_ended`
    have. Where no hypothesis goes on, all keep their places.
    """
    living, most_ended = rules.living, rules.most_ended
    assert rules.ends and living is not None
    going, apart = Dim(living, name="living"), Dim(out_beam.get_dim_value() - living, name="ended")
    had = full(dims=[beam], fill_value=False, device=total.device) if ended is None else ended
    goes_on = where(one_of(had, among(range_over_dim(axis, device=total.device), rules.ends)), -np.inf, total)
    best, (parents, labels), _ = top_k(goes_on.copy_transpose(total.dims), axis=[beam, axis], k_dim=going)
    count, size = len(rules.ends), axis.get_dim_value()
    cell = Dim(beam.get_dim_value() * count, name="hypotheses by end label")
    number: Any = set_sparse_dim(range_over_dim(cell, device=total.device), None)
    parent, which = number // count, number % count
    label: Any = rules.ends[0]
    for i, other in enumerate(rules.ends[1:], 1):
        label = where(equal(which, i), other, label)
    copied = gather(had, indices=parent, axis=beam)
    place = parent * size + where(copied, 0, label)
    whole, joint = merge_dims(total, dims=[beam, axis])
    at_end = where(both(copied, greater(which, 0)), -np.inf, gather(whole, indices=place, axis=joint))
    last, last_parent, last_label = (gather(x, indices=living - 1, axis=going) for x in (best, parents, labels))
    last_place = set_sparse_dim(last_parent, None) * size + set_sparse_dim(last_label, None)
    earlier = both(equal(at_end, last), less(place, last_place))
    comes = both(no(copied), both(no(is_neg_infinite(at_end)), one_of(greater(at_end, last), earlier)))
    if most_ended is not None:
        ended_before = reduce_sum(cast(both(copied, no(is_neg_infinite(at_end))), "int64"), axis=cell)
        comes = both(comes, less(_rank(where(comes, at_end, -np.inf), number, cell) + ended_before, most_ended))
    ends = where(one_of(copied, comes), at_end, -np.inf).copy_transpose((*best.dims[:-1], cell))
    best_ended, cells, _ = top_k(ends, axis=cell, k_dim=apart)
    assert isinstance(cells, Tensor)
    ended_parents = gather(parent, indices=cells, axis=cell)
    label = label if isinstance(label, int) else gather(label, indices=cells, axis=cell)
    ended_labels = where(gather(copied, indices=cells, axis=cell), 0, label)
    ended_labels = cast(set_sparse_dim(ended_labels, axis), labels.dtype)
    parts: list[Tensor] = []
    for part, ended_part in ((labels, ended_labels), (parents, ended_parents), (best, best_ended)):
        second = set_sparse_dim(ended_part, None).copy_transpose([*part.dims[:-1], apart])
        joined, dim = concat((set_sparse_dim(part, None), going), (second, apart))
        parts.append(replace_dim(joined, in_dim=dim, out_dim=out_beam)[0])
    labels, parents, best = _kept((parts[0], parts[1], parts[2]), total, had, axis, beam, out_beam)
    return set_sparse_dim(labels, axis), set_sparse_dim(parents, beam), best


def among(labels: Tensor, ends: Sequence[int]) -> Tensor:
    """Which labels are among some. {…} bool"""
    return reduce(one_of, (equal(labels, label) for label in ends))


def _rank(scores: Tensor, number: Tensor, beam: Dim) -> Tensor:
    """How many entries are better, or equal and earlier. {…, beam} int64"""
    rivals = Dim(beam.get_dim_value(), name="other")
    rival_scores, others_number = (replace_dim(x, in_dim=beam, out_dim=rivals)[0] for x in (scores, number))
    tied = both(compare_bc(rival_scores, "equal", scores), compare_bc(others_number, "less", number))
    return reduce_sum(cast(one_of(compare_bc(rival_scores, "greater", scores), tied), "int64"), axis=rivals)


@broadcast_allowed()
def stopped(
    state: BeamState, beam: Dim, rules: BeamRules, *, had_ended: Tensor, step: Tensor | int, limit: Tensor | int | None
) -> Tensor:
    """The scores of the hypotheses after a step, but −∞ for those that go on where the search stops. {…, beam}

    Args:
        had_ended: which had ended before the step, {…, beam}.
        limit: how many labels each hypothesis has at most, {…} or a number.
    """
    scores, labels, counts = state.scores, state.labels, state.counts
    most_ended, sure, exponent, offset = rules.most_ended, rules.sure, rules.exponent, rules.offset
    over = one_of(had_ended, among(labels, rules.ends)) if rules.ends else had_ended
    alive = no(is_neg_infinite(scores))
    finished = both(over, alive)
    stops: Any = None
    if most_ended is not None:
        stops = greater_equal(reduce_sum(cast(finished, "int64"), axis=beam), most_ended)
    if sure:
        count = step + 1
        compared = scores
        if exponent and counts is not None:
            compared = scores / _by_length(counts, exponent, offset)
        last = Dim(sure, name="sure")
        best, _, _ = top_k(where(finished, compared, -np.inf).copy_transpose(scores.dims), axis=beam, k_dim=last)
        threshold = gather(best, indices=sure - 1, axis=last)
        bounds = where(over, -np.inf, bound(scores, count, limit, rules))
        certain = greater(threshold, reduce_max(bounds, axis=beam))
        stops = certain if stops is None else one_of(stops, certain)
    if stops is None:
        return scores
    return where(both(stops, no(over)), -np.inf, scores).copy_transpose(scores.dims)


def bound(scores: Tensor, count: Any, limit: Any, rules: BeamRules) -> Tensor:
    """The highest final score that hypotheses with `count` labels may get, if each label adds at most `most_gain`."""
    highest = scores + rules.most_gain * (limit - count) if rules.most_gain > 0 else scores
    if not rules.exponent:
        return highest
    shortest, longest = (_by_length(length, rules.exponent, rules.offset) for length in (count, limit))
    least_divisor, largest = _ordered(shortest, longest)
    return where(less(highest, 0.0), highest / largest, highest / least_divisor)


def _ordered(a: Any, b: Any) -> tuple[Any, Any]:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return minimum(a, b), maximum(a, b)
    return min(a, b), max(a, b)


def _by_length(length: Any, exponent: float, offset: float) -> Any:
    """What scores are divided by (Wu et al. 2016), but for a constant factor."""
    length = cast(length, "float32") if isinstance(length, Tensor) else length
    return (length + offset) ** exponent
