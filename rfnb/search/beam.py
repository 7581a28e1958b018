"""One step of a beam search, as a function: who gets a place, by rank, in groups, after the end, above a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.tape import untaped
from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, ParameterError
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
from rfnb.ops.shape import expand_dim, expand_dims, merge_dims, replace_dim, set_sparse_dim
from rfnb.search.rules import BeamRules, Combine, check_groups

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


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
    state: BeamState, beam: Dim, rules: BeamRules, *, had_ended: Tensor, count: Tensor | int, limit: Tensor | int | None
) -> Tensor:
    """The scores of the hypotheses after a step, but −∞ for those that go on where the search stops. {…, beam}

    Args:
        had_ended: which had ended before the step, {…, beam}.
        count: how many labels a hypothesis that goes on has.
        limit: how many labels each hypothesis has at most, {…} or a number.
    """
    scores, labels, counts = state.scores, state.labels, state.counts
    most_ended, sure, exponent, offset = rules.most_ended, rules.sure, rules.exponent, rules.offset
    over = one_of(had_ended, among(labels, rules.ends)) if rules.ends else had_ended
    alive = no(is_neg_infinite(scores))
    finished = both(over, alive)
    stops = None
    if most_ended is not None:
        stops = greater_equal(reduce_sum(cast(finished, "int64"), axis=beam), most_ended)
    if sure:
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


def _ordered(a: Any, b: Any) -> tuple[object, object]:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return minimum(a, b), maximum(a, b)
    return min(a, b), max(a, b)


def _by_length(length: Any, exponent: float, offset: float) -> object:
    """What scores are divided by (Wu et al. 2016), but for a constant factor."""
    length = cast(length, "float32") if isinstance(length, Tensor) else length
    return (length + offset) ** exponent


class BeamStep(NamedTuple):
    """The hypotheses after a step. {…, out_beam}

    labels: the label that each got. parents: the hypothesis that it extends. scores: the sums of the scores. counts:
    how many labels each has; None if they were not given.
    """

    labels: Tensor
    parents: Tensor
    scores: Tensor
    counts: Tensor | None


class BeamState(NamedTuple):
    """The hypotheses of a beam, as Tensors {…, beam}; in `rf.search.decode`, as arrays [batch, beam].

    Args:
        labels: the last label of each; None before the first one.
        parents: the hypothesis before the step that each extends; None before the first step.
        scores: the sums of the scores of their labels; -∞ for a place without one.
        counts: how many labels each has; None if scores are not normalized by length.
        ended: which have ended; None if none has, or if this is not known yet.
    """

    labels: Any
    parents: Any
    scores: Any
    counts: Any = None
    ended: Any = None


@guarded
def beam_step(
    scores: Tensor,
    base: Tensor,
    *,
    axis: Dim,
    beam: Dim,
    out_beam: Dim,
    ended: Tensor | None = None,
    counts: Tensor | None = None,
    step: Tensor | int = 0,
    exponent: float = 1.0,
    offset: float = 0.0,
    combine: Combine | None = None,
    keep_beams: bool = False,
    gold: Tensor | None = None,
    gold_once: bool = False,
    groups: int = 1,
    diversity: float = 0.5,
    threshold: float | None = None,
    end: int | Sequence[int] | None = None,
    living: int | None = None,
    most_ended: int | None = None,
) -> BeamStep:
    """The best extensions of all hypotheses by one label. {…, beam, axis}, {…, beam} → {…, out_beam}

    Candidates are ordered by score; of equal ones, that of the hypothesis, and then of the label, with the lower index
    comes first. A hypothesis that has ended competes with its score as it is; the label 0 that it gets does not count.

    >>> label, beam, after = rf.Dim(3, name="label"), rf.Dim(2, name="beam"), rf.Dim(2, name="after")
    >>> scores = rf.convert_to_tensor([[-3.0, -1.0, -2.0], [-1.0, -1.0, -1.0]], dims=[beam, label])
    >>> base = rf.convert_to_tensor([0.0, -0.5], dims=[beam])
    >>> found = rf.search.beam_step(scores, base, axis=label, beam=beam, out_beam=after)
    >>> found.labels.tolist(), found.parents.tolist(), found.scores.tolist()
    ([1, 0], [0, 1], [-1.0, -1.5])

    Args:
        scores: of each label, such as log-probabilities. base: of each hypothesis so far; -∞ for a place without one.
        ended: which hypotheses have ended. {…, beam} bool
        counts: how many labels each hypothesis has, {…, beam}. If given, candidates are compared by
            score / (offset + count) ** exponent (Wu et al. 2016), and `step` is the number of this step.
        combine: the score of a candidate, instead of their sum, from scores {…, beam, axis} and base {…, beam}.
        keep_beams: each hypothesis keeps its own best labels, as many for each; in step 0, there is only one.
        gold: the right label, {…}: it takes the last place, as an extension of the last place. gold_once: it is not
            among the others then.
        groups: each of so many groups fills its own part of the beam, one after the other, and extends its own
            hypotheses; a label costs a candidate `diversity` for each time that an earlier group chose it in this step.
            The cost counts for places only, not in scores (https://arxiv.org/abs/1610.02424).
        threshold: hypotheses that are worse than the best by more than this lose their place.
        living: how many places, the first ones, are for hypotheses that go on; those that have ended, or end by the
            label `end`, or by one of several, get the others. most_ended: no more end once so many have
            (https://arxiv.org/abs/2204.05424).

    Raises DimError if the dims do not fit, ParameterError if `groups` does not divide the beams, or is combined with
    `keep_beams` or `gold`.
    """
    rules = BeamRules(
        exponent=exponent, offset=offset, combine=combine, keep_beams=keep_beams, gold=gold is not None,
        gold_once=gold_once, groups=groups, diversity=diversity, threshold=threshold, ends=_numbers(end), living=living,
        most_ended=most_ended,
    )  # fmt: skip
    state = BeamState(None, None, base, counts, ended)
    after = advance(state, scores, rules, axis=axis, beam=beam, out_beam=out_beam, count=step + 1, gold=gold)
    return BeamStep(*after[:4])


def _numbers(end: int | Sequence[int] | None) -> tuple[int, ...]:
    return () if end is None else (end,) if isinstance(end, int) else tuple(sorted({*end}))


@op(name="beam_step")
def advance(
    state: BeamState,
    scores: Tensor,
    rules: BeamRules,
    *,
    axis: Dim,
    beam: Dim,
    out_beam: Dim,
    count: Tensor | int,
    gold: Tensor | None = None,
) -> BeamState:
    """The hypotheses after one more label. {…, beam}, {…, beam, axis} → {…, out_beam}

    Args:
        scores: those of the labels.
        count: how many labels a hypothesis that goes on has after the step; 1 after the first one.
        gold: the right label, if the last place is for it. {…}
    """
    _, _, base, counts, ended = state
    exponent, offset, combine = rules.exponent, rules.offset, rules.combine
    check_step(scores, base, axis, beam, out_beam)
    if rules.groups != 1 and (rules.keep_beams or rules.gold):
        raise ParameterError(
            "choice: `groups` does not go together with `keep_beams` and `cheating`", got=rules.groups, expected="1"
        )
    backend, batch = backend_of_raw(base._raw), [dim for dim in base.dims if dim is not beam]
    places, order = [*batch, beam], [*batch, beam, axis]
    scores = scores if combine is None else _full(scores, base)
    before, new = raw_in_order(base, places), raw_in_order(scores, order)
    past = None if ended is None else raw_in_order(_full(ended, base), places)
    compared, had_counts = before, None
    if past is not None:
        new = backend.where_raw(backend.expand_dims_raw(past, -1), first_label_only(backend, axis, new), new)
    if counts is not None and past is not None:
        had_counts = raw_in_order(_full(counts, base), places)
        number = backend.cast_raw(_raw_number(count, base), counts.dtype)
        longer, offset_counts = (number + offset, had_counts + offset) if offset else (number, had_counts)
        compared = backend.where_raw(past, before * _power(longer / offset_counts, exponent), before)
    lengths, signature = join(scores, base), align.sig(order, None, scores.feature_dim)
    if combine is None:
        total = tensor_of(backend.expand_dims_raw(compared, -1) + new, signature, lengths)
    else:
        operands = tensor_of(new, signature, lengths), tensor_of(compared, align.sig(places), lengths)
        total = combine(*operands)
        if not isinstance(total, Tensor):
            raise not_a_tensor("beam_step: the result of `combine`", total)
        total = total.copy_transpose(order)
    if rules.groups != 1:
        labels, parents, best = best_of_groups(total, ended, axis, beam, out_beam, rules)
    elif rules.living is not None and rules.ends:
        labels, parents, best = best_apart(total, ended, axis, beam, out_beam, rules)
    elif gold is not None:
        labels, parents, best = _with_gold(total, axis, beam, out_beam, count, gold, rules.gold_once, ended)
    else:
        labels, parents, best = _chosen(total, axis, beam, out_beam, count, rules.keep_beams)
    if rules.threshold is not None:
        survivors = above(best, out_beam, rules.threshold, rules)
        # where all have ended, further steps are those of other sequences, and stretch normalized scores
        best = survivors if ended is None else where(reduce_all(ended, axis=beam), best, survivors)
    if had_counts is None:
        return BeamState(labels, parents, best, None if counts is None else best * 0 + count)
    best = best.copy_transpose([*batch, out_beam])
    index = raw_in_order(_full(parents, best), best.dims), len(batch), 1, False
    counted = backend.gather_raw(had_counts, *index)
    if combine is None:
        sums = backend.gather_raw(before, *index)
    else:
        sums = best._raw / _power(longer / (counted + offset if offset else counted), exponent)
    dead = backend.activation_raw(best._raw, "is_neg_infinite")
    had = backend.compare_raw(backend.gather_raw(past, *index), "greater", dead)  # had ended, and is there
    total, counted = backend.where_raw(had, sums, best._raw), backend.where_raw(had, counted, number)
    return BeamState(labels, parents, best.like(total), best.like(counted))


def raw_in_order(x: Tensor, order: Sequence[Dim]) -> RawTensor:
    """The raw tensor with axes in this order, of size 1 for what `x` does not have."""
    if not x.dims_set <= set(order):
        x.copy_transpose(order)  # raises an error that names the dims
    return align.apply(align.move(x.dims, order, trailing=False), x._raw)


def _full(x: Tensor, like: Tensor) -> Tensor:
    """With all dims of `like`."""
    missing = [dim for dim in like.dims if dim not in x.dims_set]
    return expand_dims(x, missing) if missing else x


def _raw_number(number: Tensor | int, like: Tensor) -> RawTensor:
    if isinstance(number, Tensor):
        return number._raw
    return backend_of_raw(like._raw).full_raw([], number, like.dtype, like.device)


def _power(raw: RawTensor, exponent: float) -> RawTensor:
    return raw if exponent == 1 else raw**exponent


def _chosen(total: Tensor, axis: Dim, beam: Dim, out_beam: Dim, count: Tensor | int, keep: bool) -> Places:
    """The candidates that get a place."""
    best, (parents, labels), _ = top_k(total, axis=[beam, axis], k_dim=out_beam)
    if not keep:
        return labels, parents, best
    per_parent = Dim(out_beam.get_dim_value() // beam.get_dim_value(), name="labels of each")
    own_best, own_labels, _ = top_k(total, axis=axis, k_dim=per_parent)
    own_parents = expand_dim(range_over_dim(beam, device=total.device), per_parent)
    assert isinstance(own_labels, Tensor)
    parts = [_merged(x, beam, per_parent, out_beam) for x in (own_labels, own_parents, own_best)]
    if not isinstance(count, Tensor):
        return (parts[0], parts[1], parts[2]) if count > 1 else (labels, parents, best)
    first = equal(count, 1)
    return where(first, labels, parts[0]), where(first, parents, parts[1]), where(first, best, parts[2])


def _merged(x: Tensor, beam: Dim, several: Dim, out_beam: Dim) -> Tensor:
    merged, dim = merge_dims(x, dims=[beam, several])
    return replace_dim(merged, in_dim=dim, out_dim=out_beam)[0]


def _with_gold(
    total: Tensor,
    axis: Dim,
    beam: Dim,
    out_beam: Dim,
    count: Tensor | int,
    gold: Tensor,
    once: bool,
    ended: Tensor | None,
) -> Places:
    """The best candidates, of which the last is the right label after the last hypothesis."""
    last = beam.get_dim_value() - 1
    gold_parent = cast(greater(count, 1), "int64") * last if isinstance(count, Tensor) else last * (count > 1)
    if ended is not None:
        gold = where(gather(ended, indices=gold_parent, axis=beam), 0, gold)
    gold_total = gather(gather(total, indices=gold_parent, axis=beam), indices=gold, axis=axis)
    if once:
        is_gold = both(equal(range_over_dim(beam), gold_parent), equal(range_over_dim(axis), gold))
        total = where(is_gold, -np.inf, total)
    best, (parents, labels), _ = top_k(total, axis=[beam, axis], k_dim=out_beam)
    replaced = equal(range_over_dim(out_beam, device=total.device), out_beam.get_dim_value() - 1)
    return (
        where(replaced, cast(gold, labels.dtype), labels),
        where(replaced, gold_parent, parents),
        where(replaced, gold_total, best),
    )


def first_label_only(backend: type[Backend], axis: Dim, like: object) -> RawTensor:
    """0 for the first label, -∞ for the others, a raw tensor of the dtype and on the device of another. [axis]"""
    numbers = np.full(axis.get_dim_value(), -np.inf, "float32")
    numbers[:1] = 0
    with untaped():
        raw = backend.from_numpy_raw(numbers, backend.get_device_raw(like))
        return backend.cast_raw(raw, backend.get_dtype_name_raw(like))


def advance_arrays(
    state: BeamState,
    scores: RawTensor,
    rules: BeamRules,
    backend: type[Backend],
    *,
    first_label: object,
    places: int,
    step: int,
    device: str | None,
) -> BeamState:
    """`advance` by rank, for arrays, at less cost: the best extensions of the hypotheses by one label. [batch, places]

    As many as there were hypotheses get a place. Of candidates with the score -∞, any may be among the others.

    Args:
        scores: those of the labels [batch, beam, labels], a raw tensor; or an array, which this overwrites.
        first_label: 0 for the first label, -∞ for the others, which is what hypotheses that have ended get. [labels]
        places: how many of the candidates are wanted.
        step: the number of this step.
        device: that of the scores.
    """
    (batch, beam), count = state.scores.shape, scores.shape[2]
    compared, past = state.scores, state.ended.ravel().nonzero()[0]
    if len(past):
        compared = _compared(state, state.scores, rules, backend, step, device)
    if isinstance(scores, np.ndarray):
        scores += compared[:, :, None]
        if len(past):
            by_hypothesis = scores.reshape(-1, count)
            by_hypothesis[past], by_hypothesis[past, 0] = -np.inf, compared.take(past)
    else:
        if len(past):
            ended = backend.expand_dims_raw(backend.from_numpy_raw(state.ended, device), -1)
            scores = backend.where_raw(ended, first_label, scores)
        scores = backend.expand_dims_raw(backend.from_numpy_raw(compared, device), -1) + scores
    best, index = backend.best_raw(scores.reshape(batch, -1), places, beam)
    parents, labels = np.divmod(index, count)
    counts = np.full(best.shape, step + 1, state.counts.dtype)
    if len(past) and rules.exponent:
        rows = parents + first_rows(batch, beam)
        had = state.ended.take(rows) & (best != -np.inf)
        best = np.where(had, state.scores.take(rows), best)
        counts = np.where(had, state.counts.take(rows), counts)
    return BeamState(labels, parents, best, counts)


def advance_apart(
    state: BeamState,
    scores: RawTensor,
    rules: BeamRules,
    backend: type[Backend],
    *,
    is_end: np.ndarray,
    places: int,
    step: int,
    device: str | None,
) -> BeamState:
    """`advance_arrays` where ended hypotheses have places of their own, as in `best_apart`.

    Args:
        scores: of the labels after the hypotheses that go on, which have the first places. [batch, living, labels]
        is_end: which labels end a hypothesis. [labels]
    """
    (batch, beam), (_, living, count) = state.scores.shape, scores.shape
    past, sums, most, dead = state.ended, state.scores, rules.most_ended, state.scores.dtype.type(-np.inf)
    base = np.where(past, dead, sums)[:, :living, None]
    if isinstance(scores, np.ndarray):
        scores += base
    else:
        scores = backend.from_numpy_raw(base, device) + scores
    best, index = backend.best_raw(scores.reshape(batch, -1), min(places + living * len(rules.ends), living * count), 0)
    copies = _compared(state, dead, rules, backend, step, device)
    firsts = first_rows(batch, 0) + first_rows(beam, count).T
    best, numbers = np.concatenate([best, copies], axis=1), np.concatenate([index, firsts], axis=1)
    order = np.lexsort((numbers, -best))
    copied = order >= index.shape[1]
    order += first_rows(batch, order.shape[1])
    best, numbers = best.take(order), numbers.take(order)
    alive = best != dead
    copied &= alive
    rows = numbers // count + first_rows(batch, beam)
    best, counts = (
        np.where(copied, sums.take(rows), best),
        np.where(copied, state.counts.take(rows), state.counts.dtype.type(step + 1)),
    )
    ends = (is_end.take(numbers % count) & alive) > copied
    goes_on = (alive > copied) > ends
    number = goes_on.cumsum(axis=1)
    ends &= number < living  # among the candidates from the best one on, until enough of them go on
    if most is not None:
        ends &= ends.cumsum(axis=1) + copied.sum(axis=1, keepdims=True) <= most
    ended = copied | ends
    place = np.where(goes_on, number - 1, ended.cumsum(axis=1) + (living - 1))
    without = (place >= np.where(goes_on, living, beam)) | ~(goes_on | ended)
    place = np.where(without, without.cumsum(axis=1) + (beam - 1), place)
    width = max(places, beam + place.shape[1])
    place += first_rows(batch, width)
    columns = (
        np.zeros((batch, width), numbers.dtype),
        np.full((batch, width), dead),
        np.full((batch, width), step + 1, counts.dtype),
    )
    over = past.all(axis=1).nonzero()[0]
    kept = firsts, sums, state.counts
    for column, part, before in zip(columns, (numbers, best, counts), kept, strict=True):
        column.put(place, part)
        if len(over):
            column[over, :beam] = before[over]
    numbers, best, counts = (column[:, :places] for column in columns)
    parents, labels = np.divmod(numbers, count)
    return BeamState(labels, parents, best, counts)


@lru_cache(maxsize=256)
def first_rows(batch: int, size: int) -> np.ndarray:
    """The row of the first entry of each sequence, if each has `size` rows. [batch, 1]"""
    return np.arange(batch)[:, None] * size


def _compared(
    state: BeamState, others: Any, rules: BeamRules, backend: type[Backend], step: int, device: str | None
) -> np.ndarray:
    """The scores by which hypotheses compete at a step if they have ended, `others` if they go on. [batch, beam]"""
    if not rules.exponent:
        return np.where(state.ended, state.scores, others)
    factors = (step + 1 + rules.offset) / (state.counts + rules.offset if rules.offset else state.counts)
    if rules.exponent != 1:  # by the backend, whose powers may differ from those of numpy in the last bit
        factors = backend.to_numpy_raw(backend.from_numpy_raw(factors, device) ** rules.exponent)
    return np.where(state.ended, state.scores * factors, others)


def check_step(scores: Tensor, base: Tensor, axis: Dim, beam: Dim, out_beam: Dim) -> None:
    """Raises DimError for dims of `beam_step` that do not fit."""
    if len({axis, beam, out_beam}) < 3:
        raise DimError(
            "beam_step: `axis`, `beam` and `out_beam` are three dims",
            got=", ".join(dim.describe() for dim in (axis, beam, out_beam)),
            expected="those of the labels, of the hypotheses before the step, and of those after it",
        )
    if not out_beam.dimension:
        raise DimError("beam_step: `out_beam` has no fixed size", got=out_beam, hint='rf.Dim(4, name="after")')
    score_dims = [dim for dim in scores.dims if dim is not axis]
    for name, x, required in (("scores", scores, [axis]), ("base", base, [beam, *score_dims])):
        lacking = next((dim for dim in required if dim not in x.dims_set), None)
        if lacking is not None:
            raise DimError(
                f"beam_step: `{name}` lacks the dim {lacking.name}",
                got=x.describe_dims(),
                expected=", ".join(dict.fromkeys(dim.name for dim in required)),
                hint=f"rf.expand_dim({name}, {lacking.name}) if it is the same for all of its entries",
                dims=[lacking],
            )
