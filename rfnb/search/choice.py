"""`loop.choice`: chooses labels for the hypotheses of a beam, in the body of a loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.ground.source import assigned_name
from rfnb.core.tensor.arguments import explained, not_a_tensor
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.core.vocab import Vocab
from rfnb.errors import DimError, LoopError, ParameterError
from rfnb.loop.body.body import Body
from rfnb.loop.body.hypotheses import BeamChoice, Hypotheses
from rfnb.loop.step import StepNumber, has_steps
from rfnb.ops.index import gather
from rfnb.ops.math import cast, less, where
from rfnb.ops.random import random_uniform
from rfnb.ops.reduce import reduce_argmax
from rfnb.search.beam import BeamState, advance, stopped
from rfnb.search.frames import Blanks, FrameState, advance_frame, check_blank, check_parts
from rfnb.search.result import CollectPlan, collect
from rfnb.search.rules import BeamRules, ChoiceOptions, read_options, rules_of
from rfnb.search.score.carried_scorers import CarriedScorers, Final, add_finals, settle
from rfnb.search.score.scorer import label_dim_of, most_gain, read_parts, refuse_finals
from rfnb.search.score.sum import Scored, add_up
from rfnb.search.sources import InputType, combinations, gumbel, log_scores
from rfnb.search.variants.candidates import (
    follow_sums,
    keep_labels,
    keep_pruned,
    keep_pruned_labels,
    left_over,
    parted,
    pruned_of,
    with_candidates,
)
from rfnb.search.variants.constraints import number_of
from rfnb.trace.record.traced import Traced


@dataclass(frozen=True)
class Chosen:
    """The hypotheses after a choice. Their dim `beam` is not the beam before the choice, but has the same name.

    labels: the label that each got, {…, beam}; for several sources, a list. parents: which hypothesis before the choice
    each extends, {…, beam}. scores: the sum of the scores of its labels, {…, beam}. Without search, the labels are
    those of the target.
    """

    labels: Any
    parents: Tensor | None
    scores: Tensor | None
    beam: Dim | None
    _hypotheses: Hypotheses | None

    def follow(self, x: Tensor) -> Tensor:
        """For each hypothesis, the `x` of its parent. {…, beam before} → {…, beam}

        States need no call: at the end of the step, those from before the choice follow their hypotheses.
        """
        return self._hypotheses.follow(x) if self._hypotheses is not None and isinstance(x, Traced) else x


def choose(body: Body, scores: object, **given: object) -> Chosen:
    """Extends each hypothesis by each label, and keeps the best. Called by `loop.choice`."""
    body.refuse_in_branch("choice")
    try:
        return _chosen(body, scores, read_options(given))
    except Exception as failure:
        error = explained("choice", ChoiceOptions.__init__, given, failure)
        if error is None:
            raise
        raise error from error.__cause__


def _chosen(body: Body, scores: object, options: ChoiceOptions) -> Chosen:
    options.check()
    if isinstance(scores, Mapping):
        return _of_parts(body, scores, options)
    sources: list[Any] = list(scores) if isinstance(scores, list | tuple) else [scores]
    for source in sources:
        if not isinstance(source, Tensor):
            raise not_a_tensor("choice: `scores`", source)
    dims: list[Any] = list(options.axis) if isinstance(options.axis, list | tuple) else [options.axis] * len(sources)
    if len(dims) != len(sources):
        raise ParameterError("choice: `axis` has a dim for each source", got=len(dims), expected=len(sources))
    axes = [_label_dim(body, source, dim, options.beam) for source, dim in zip(sources, dims, strict=True)]
    if not options.search:
        return _of_target(body, sources, axes, options, several=isinstance(scores, list | tuple))
    if len(sources) == 1 and not isinstance(scores, list | tuple):
        return _step(body, log_scores(sources[0], axes[0], options.input_type), axes[0], options)
    size = options.beam_size or _beam(body, options).get_dim_value()
    log_probs = [log_scores(source, dim, options.input_type) for source, dim in zip(sources, axes, strict=True)]
    combined = combinations(log_probs, axes, options.source_beam_sizes or [size] * len(sources))
    choice = _step(body, combined.scores, combined.axis, options)
    labels = combined.labels(choice.labels, choice.follow)
    hypotheses = body.hypotheses
    assert hypotheses is not None
    keep_labels(body, hypotheses, [*hypotheses.search.labels[:-1], *labels])
    if hypotheses.search.pruned:
        pruned = combined.labels(*pruned_of(hypotheses))
        keep_pruned_labels(body, hypotheses, [*hypotheses.search.pruned_labels[:-1], *pruned])
    return replace(choice, labels=labels)


def _of_parts(body: Body, by_name: Mapping[str, object], options: ChoiceOptions) -> Chosen:
    """A step whose scores are a sum of parts, which are kept by name."""
    parts = read_parts(by_name)
    tensors = [part.value for part in parts if isinstance(part.value, Tensor)]
    if options.axis is not None and not isinstance(options.axis, Dim):
        raise DimError(
            "choice: `axis` is not a Dim", got=repr(options.axis), expected="the dim of the labels, of all parts"
        )
    axis = options.axis or label_dim_of(tensors)
    if axis is None and not tensors:
        raise DimError(
            f"{body.loop.name}: choice: which labels do the scorers score?", got=", ".join(by_name),
            hint="loop.choice({…}, axis=label_dim, …)",
        )  # fmt: skip
    axis = axis or _label_dim(body, tensors[0], None, options.beam)
    if not options.search:
        return _of_target(body, tensors[:1], [axis], options, several=False)
    for entry in parts:
        if options.exponent and getattr(entry.value, "needs_plain_sums", False):
            raise ParameterError(
                f"choice: with {entry.name!r}, hypotheses cannot be compared by score / length",
                hint="loop.choice(…, length_normalization=False)",
            )
    if options.blank is not None:
        check_parts(body.loop.name, parts, axis, options)
    if options.early_stop:
        refuse_finals(f"{body.loop.name}: choice", parts)
    options = replace(options, most_gain=most_gain(parts, options.gain, options.most_gain))
    beam = _beam(body, options, with_scorers=0 < len(tensors) < len(parts))
    hypotheses = body.hypotheses or _begin(body, _like(body, tensors, beam), beam, axis, options)
    before, size = hypotheses.newest, options.beam_size or beam.get_dim_value()
    scored, states = Scored(axis, options.blank), CarriedScorers(body, axis, options.start, options.blank)
    dims = [before if dim is hypotheses.beam else dim for dim in hypotheses.dims]
    add_up(
        scored, parts, dims, states, input_type=options.input_type, device=hypotheses.scores.device,
        candidates=options.partial_candidates or 2 * size,
    )  # fmt: skip
    for part in scored.scales:
        scored.scales[part] *= options.prob_scale
    total = scored.total if options.prob_scale == 1.0 else scored.total * options.prob_scale
    of_labels = scored.of_labels if scored.of_labels is None else scored.of_labels * options.prob_scale
    if of_labels is not None and not options.by_frame:
        total, of_labels = total + of_labels, None
    if options.random_sample_scale:
        noise = gumbel(total)
        scored.parts["noise"], scored.scales["noise"] = noise, options.random_sample_scale
        total = total + noise * options.random_sample_scale
    chosen = _step(body, total, axis, replace(options, prob_scale=1.0, random_sample_scale=0.0), of_labels)
    assert chosen.parents is not None
    if options.base_beam_score_scale != 1.0 or options.custom_score_combine is not None or options.by_frame:
        scored.parts.clear()  # they do not add up
    states.keep(scored, chosen.labels, chosen.parents, before)
    if states.finals:
        hypotheses.at_ends, hypotheses.at_close = add_finals, partial(settle, body)
    return chosen


def _like(body: Body, tensors: Sequence[Tensor], beam: Dim) -> Tensor:
    """A tensor with the dims of all scores: those of the tensors or, without any, of a state of the hypotheses."""
    if tensors:
        total = tensors[0]
        for scores in tensors[1:]:
            total = total + scores
        return body.of_body(total, "choice").plain
    states = [leaf for _, leaf in body.loop.state._leaves() if isinstance(leaf, Traced) and beam in leaf.dims]
    fewest = min(states, key=lambda leaf: len(leaf.dims)).plain
    with body.untraced():
        return cast(fewest, "float32")


def _step(body: Body, scores: Tensor, axis: Dim, options: ChoiceOptions, of_labels: Tensor | None = None) -> Chosen:
    """The hypotheses after one more label. of_labels: see `advance_frame`."""
    check_blank(options, axis)
    beam = _beam(body, options)
    _check_scores(body, scores, axis, beam, by_frame=options.blank is not None)
    if options.prob_scale != 1.0:
        scores = scores * options.prob_scale
    if options.random_sample_scale:
        scores = scores + gumbel(scores) * options.random_sample_scale
    hypotheses = body.hypotheses or _begin(body, body.of_body(scores, "choice").plain, beam, axis, options)
    carried: SearchCarry = hypotheses.search
    before = hypotheses.newest
    after = hypotheses.dim_after(options.beam_size or beam.get_dim_value())
    wide = with_candidates(after, options.candidates)
    ended = hypotheses.follow(carried.ended)
    scale = options.base_beam_score_scale
    base = hypotheses.scores if scale == 1.0 else hypotheses.scores * scale
    if carried.blanks is not None:
        frame = carried.blanks.before(body, hypotheses, base, ended)
        dims: Any = {"axis": axis, "beam": before, "out_beam": wide}
        frame, pruned = parted(advance_frame(frame, scores, carried.rules, of_labels=of_labels, **dims), wide, after)
        carried.blanks.take(body, hypotheses, frame)
        keep_pruned(body, hypotheses, pruned, before)
        return _take(body, hypotheses, frame, before, after)
    if hypotheses.choices and (options.ended == "apart" or carried.rules.living):
        raise ParameterError(f'{body.loop.name}: choice: `ended="apart"` needs the only choice of a step')
    counts = None if carried.counts is None else hypotheses.follow(carried.counts)
    inputs = {"choice scores": scores, "base": base, "had ended": ended, "counts before": counts}
    hypotheses.asked |= {name: body.of_body(x, "choice") for name, x in inputs.items() if x is not None}
    state, rules, count = BeamState(None, None, base, counts, ended), options.rules(carried.rules), carried.count
    by_rank = partial(advance, state, scores, axis=axis, beam=before, out_beam=wide, count=count)
    if rules.by_rank:
        result, pruned = parted(by_rank(rules), wide, after)
    else:
        gold = options.target if rules.gold else None
        result, pruned = by_rank(rules, out_beam=after, gold=gold), None
        if wide is not after:
            pruned = left_over(result, by_rank(rules.ranking), axis, after, wide)
    keep_pruned(body, hypotheses, pruned, before)
    if rules.stops:
        had = gather(ended, indices=result.parents, axis=before)
        scores = stopped(result, after, rules, had_ended=had, count=count, limit=carried.limit)
        result = result._replace(scores=scores)
    return _take(body, hypotheses, result, before, after)


def _of_target(body: Body, sources: list[Tensor], axes: list[Dim], options: ChoiceOptions, several: bool) -> Chosen:
    """The labels of the target instead of a search."""
    targets = list(options.target) if isinstance(options.target, list | tuple) else [options.target]
    labels = target_labels(body, sources, axes, targets, options.input_type, options.scheduled_sampling)
    if options.add_to_beam_scores and body.hypotheses is not None:
        scores = target_scores(sources[0], axes[0], options.input_type, labels[0])
        _add(body.hypotheses, scores * options.prob_scale)
    return Chosen(labels if several else labels[0], None, None, None, body.hypotheses)


def _take(body: Body, hypotheses: Hypotheses, result: BeamState | FrameState, before: Dim, after: Dim) -> Chosen:
    """Makes the results of a step the newest hypotheses."""
    labels, parents, total = (body.of_body(part, "choice") for part in result[:3])
    target, carried = assigned_name() or "chosen", hypotheses.search
    for value, name in ((labels, "labels"), (parents, "parents"), (total, "scores")):
        value.with_name(f"{target}.{name}")
    values = {"labels": labels, "scores": total, "ended": carried.ended}
    values["parents"] = body.of_body(_from_the_first(hypotheses, parents, before), "choice")
    hypotheses.choices.append(BeamChoice(before, after, parents, _rows(body, parents, before)))
    hypotheses.scores = hypotheses.carried[carried.scores_place] = total
    hypotheses.asked |= {"labels": labels, "parents": parents, "scores": total}
    if isinstance(result, FrameState):
        values["joined"] = body.of_body(result.joined, "choice")
    elif carried.counts_place is not None and result.counts is not None:
        counts = hypotheses.carried[carried.counts_place] = body.of_body(result.counts, "choice")
        hypotheses.asked["counts"] = counts
    hypotheses.kept |= values
    follow_sums(hypotheses)
    earlier = [gather(x, indices=parents, axis=before) for x in carried.labels]
    keep_labels(body, hypotheses, [*earlier, labels])
    return Chosen(labels, parents, total, after, hypotheses)


def _from_the_first(hypotheses: Hypotheses, parents: Tensor, before: Dim) -> Tensor:
    """Which hypothesis before the first choice of the step each one extends."""
    return gather(hypotheses.kept["parents"], indices=parents, axis=before) if hypotheses.choices else parents


def _add(hypotheses: Hypotheses, scores: Tensor) -> None:
    """Adds the scores of the target to those of the newest hypotheses that go on."""
    carried: SearchCarry = hypotheses.search
    total = where(hypotheses.follow(carried.ended), hypotheses.scores, hypotheses.scores + scores)
    total = total.copy_transpose(hypotheses.scores.dims)
    assert isinstance(total, Traced)
    hypotheses.scores = hypotheses.carried[carried.scores_place] = hypotheses.kept["scores"] = total


def _beam(body: Body, options: ChoiceOptions, with_scorers: bool = False) -> Dim:
    """The dim of the hypotheses. Raises DimError if no state has it, unless there are scorers, or blanks are told from
    labels."""
    _check_beam(body, options.beam, needs_state=not with_scorers and options.blank is None)
    assert options.beam is not None
    return options.beam


@dataclass(frozen=True)
class SearchCarry:
    """What a search carries from step to step, and what it knows of its steps.

    Args:
        rules: those of the search.
        limit: the most steps of each sequence, if that is known and needed.
        scores_place: the position of the scores among all that the loop carries.
        ended: which hypotheses had ended before the step.
        counts: how many labels each has then; None if scores are not normalized.
        counts_place: their position.
        count: how many labels a hypothesis has after the step, if it goes on.
        scales: of the parts of scores, as they become known.
        blanks: what a search over frames carries.
        at_start: see `CollectPlan`.
        finals: what scores the end of a hypothesis.
        labels: those of the newest hypotheses by each choice of the step.
        vocabs: their texts.
        pruned: the candidates of the last choice that found no place: labels, parents, scores.
        pruned_labels: their labels by each choice of the step.
    """

    rules: BeamRules
    limit: Tensor | int | None
    scores_place: int
    ended: Traced
    counts: Traced | None
    counts_place: int | None
    count: Traced
    scales: dict[str, float]
    blanks: Blanks | None
    at_start: dict[str, Any]
    finals: list[Final] = field(default_factory=list)
    labels: list[Tensor] = field(default_factory=list)
    vocabs: list[Vocab | None] = field(default_factory=list)
    pruned: list[Tensor] = field(default_factory=list)
    pruned_labels: list[Tensor] = field(default_factory=list)


def _begin(body: Body, plain: Tensor, beam: Dim, axis: Dim, options: ChoiceOptions) -> Hypotheses:
    """The hypotheses before the first choice: one without labels, in the first place of the beam, or of each group."""
    backend, size = body.backend, beam.get_dim_value()
    rules, limit = _rules(body, options, size, axis)
    batch = [dim for dim in plain.dims if dim not in (axis, beam)]
    sizes = [plain.size_of(dim).max for dim in batch]
    numbers = np.full([*sizes, size], -np.inf, plain.dtype)
    numbers[..., :: size // rules.groups] = 0
    with body.untraced():
        initial = backend.from_numpy_raw(numbers, plain.device)
        like = tensor_of(initial, align.sig([*batch, beam]), plain.lengths)
    scales: dict[str, float] = {}
    plan = CollectPlan(backend, rules, axis.vocab, like.dims, plain.lengths, initial, scales, axis=axis)
    hypotheses = body.hypotheses = Hypotheses(body, beam, like.dims, partial(collect, plan))
    place = body.carry("search", like, like.dtype, initial)
    hypotheses.scores = body.carried[place].before
    ended_place = body.carry("search ended", like, "bool")
    ended = hypotheses.carried[ended_place] = body.carried[ended_place].before
    with body.untraced():
        units = backend.full_raw([*sizes, beam.get_dim_value()], 1, plain.dtype, plain.device)
    counts_place = body.carry("search", like, like.dtype, units) if rules.exponent else None
    counts = None if counts_place is None else body.carried[counts_place].before
    blanks = Blanks(body, like, initial, options) if options.by_frame else None
    past = _or_past_the_end(body, ended)
    hypotheses.search = SearchCarry(
        rules, limit, place, past, counts, counts_place, body.frame_of(StepNumber(1, like.dtype)), scales,
        blanks, plan.at_start, vocabs=plan.vocabs,
    )  # fmt: skip
    return hypotheses


def _rules(body: Body, options: ChoiceOptions, places: int, axis: Dim) -> tuple[BeamRules, Tensor | int | None]:
    """The rules of a search, and the most steps of each sequence if it may stop early. Raises ParameterError for
    options that do not fit together."""
    who = f"{body.loop.name}: choice"
    limit = _most_steps(body) if options.early_stop else None
    end: Any = options.end
    ends = [number_of(label, axis) for label in (end if isinstance(end, list | tuple) else [end]) if label is not None]
    unusual = {"beam_size": options.beam_size not in (None, places), "keep_beams": options.keep_beams}
    unusual |= {"cheating": bool(options.cheating), "blank": options.blank is not None}
    conflicts = [name for name, used in unusual.items() if used]
    rules = rules_of(who, options, places, ends=ends, gain=options.gain, others=conflicts)
    if rules.sure and limit is None and (options.exponent or rules.most_gain > 0):
        raise ParameterError(
            f"{who}: `early_stop` needs to know how many steps there may be", hint="rf.Loop(max_seq_len=…)"
        )
    return rules, limit


def _most_steps(body: Body) -> Tensor | int | None:
    """The most steps of each sequence, as far as they are known where the choice is made."""
    limit, axis = body.loop.max_seq_len, body.loop.axis
    size = body.size or (axis.size if axis is not None and has_steps(axis) else None)
    if size is None:
        return None if isinstance(limit, Traced) else limit
    if not size.dims:
        return size.max
    with body.untraced():
        return tensor_of(body.backend.from_numpy_raw(size.values, None), align.sig(size.dims), EMPTY)


def _or_past_the_end(body: Body, ended: Traced) -> Traced:
    """Hypotheses that have ended, or whose sequence is shorter than this step."""
    plain = ended.plain
    mask = body.ended_masks(body.backend, plain.sig, body.backend.device_key_raw(plain._raw))
    return ended if mask is None else body.recorder._wrap(plain.like(plain._raw | mask))


def _rows(body: Body, parents: Tensor, beam: Dim) -> Traced:
    """The parents as positions in the merged dims of all hypotheses. {…, beam} → the same"""
    assert isinstance(parents, Traced)
    sizes = [parents.plain.size_of(dim).max for dim in parents.dims[:-1]]
    if not sizes:
        return parents
    count = beam.get_dim_value()
    with body.untraced():
        starts = np.arange(math.prod(sizes)).reshape([*sizes, 1]) * count  # of the hypotheses of each sequence
        raw = body.backend.from_numpy_raw(starts, parents.device)
    return body.recorder._wrap(parents.plain.like(parents.plain._raw + raw))


def _label_dim(body: Body, scores: Tensor, axis: Dim | None, beam: Dim | None) -> Dim:
    """The dim of the labels: `axis`, the feature dim, or the only dim that the states lack."""
    states = {dim for _, leaf in body.loop.state._leaves() if isinstance(leaf, Tensor) for dim in leaf.dims}
    hypotheses = body.hypotheses
    newest = beam if hypotheses is None else hypotheses.newest
    axis = axis if axis is not None else scores.feature_dim
    candidates = [axis] if axis is not None else [dim for dim in scores.dims if dim not in states and dim is not newest]
    if len(candidates) != 1 or candidates[0] not in scores.dims or not candidates[0].get_dim_value():
        raise DimError(
            f"{body.loop.name}: choice: which dim of `scores` has the labels?",
            got=scores.describe_dims(),
            expected="one of its dims, with one label or more",
            hint="loop.choice(scores, axis=label_dim, …)",
        )
    return candidates[0]


def _check_beam(body: Body, beam: object, *, needs_state: bool = True) -> None:
    """Raises DimError if the beam is not a Dim of fixed size, or no state has it; LoopError in a nested loop."""
    name, hypotheses = body.loop.name, body.hypotheses
    if body.outer is not None:
        raise LoopError(
            f"{name}: choice in a loop inside of another, where the result of the search differs at each step",
            got=f"{name} in {body.outer.name}",
            hint=f"make the steps of {body.outer.name} a batch dim; or rf.search.beam_step with states of your own",
        )
    if not isinstance(beam, Dim) or not beam.dimension:
        raise DimError(
            f"{name}: choice: `beam` is the dim of the hypotheses, of fixed size",
            got="nothing" if beam is None else repr(beam),
            expected="a Dim that the states have",
            hint='before the loop: beam = rf.Dim(4, name="beam"); loop.state.prev = rf.zeros([…, beam], …)',
        )
    states = [(state, x) for state, x in body.loop.state._leaves() if isinstance(x, Tensor)]
    if hypotheses is None and needs_state and not any(beam in x.dims for _, x in states):
        namesake = next((dim for _, x in states for dim in x.dims if dim.name == beam.name), None)
        if namesake is not None:
            raise DimError(
                f"{name}: choice: `beam` is another Dim than that of the states, of the same name",
                got=beam.describe(),
                expected=namesake.describe(),
                hint=f"make it once, before the loop: {beam.name} = rf.Dim({namesake.dimension}, name={beam.name!r})",
            )
        raise DimError(
            f"{name}: choice: no state has the dim {beam.name}",
            got=", ".join(f"{state} {x.describe_dims()}" for state, x in states) or "no states",
            hint=f"before the loop: loop.state.prev = rf.zeros([…, {beam.name}], …): states of each hypothesis have it",
        )
    if hypotheses is not None and beam is not hypotheses.beam:
        raise DimError(
            f"{name}: a second choice has another beam",
            got=beam.describe(),
            expected=hypotheses.beam.describe(),
            hint="the same beam, with beam_size=… for another number of hypotheses in between",
        )


def _check_scores(body: Body, scores: Tensor, axis: Dim, beam: Dim, *, by_frame: bool = False) -> None:
    """Raises DimError for scores of other hypotheses than those that the choice extends, or of none.

    Over frames, such as those of CTC, scores may be the same for all hypotheses.
    """
    name, hypotheses = body.loop.name, body.hypotheses
    newest = beam if hypotheses is None else hypotheses.newest
    older = [] if hypotheses is None else [hypotheses.beam, *(choice.after for choice in hypotheses.choices[:-1])]
    if hypotheses is not None and any(dim in scores.dims for dim in older if dim is not newest):
        raise DimError(
            f"{name}: choice: the scores are of hypotheses before the last choice",
            got=scores.describe_dims(),
            expected=f"the {beam.name} after it",
            hint="chosen = loop.choice(…); loop.choice(chosen.follow(scores), …), or scores from what was chosen",
        )
    if newest not in scores.dims and not (by_frame or body.unstacked):
        raise DimError(
            f"{name}: choice: the scores lack the dim {beam.name}, so that they are the same for all hypotheses",
            got=scores.describe_dims(),
            expected=f"{beam.name} too, from states that have it",
            hint=f"loop.choice(rf.expand_dim(scores, {beam.name}), …) if this is intended",
        )
    if axis in (newest, beam) or axis.is_batch_dim():
        raise DimError(
            f"{name}: choice: the dim of the labels cannot be that of the {'batch' if axis.is_batch_dim() else 'beam'}",
            got=f"axis={axis.name}, scores {scores.describe_dims()}",
            hint="loop.choice(scores, axis=label_dim, …)",
        )


def target_labels(
    body: Body,
    sources: Sequence[Tensor],
    axes: Sequence[Dim],
    targets: Sequence[Any],
    input_type: InputType,
    scheduled_sampling: bool | float,
) -> list[Tensor]:
    """The labels of the target; with `scheduled_sampling`, samples in their place, with this probability."""
    for item in targets:
        if not isinstance(item, Tensor):
            raise LoopError(
                f"{body.loop.name}: choice without search needs a target",
                got=item,
                hint="loop.choice(scores, target=loop.unstack(labels), search=False)",
            )
    if not scheduled_sampling:
        return list(targets)
    share = 1.0 if scheduled_sampling is True else float(scheduled_sampling)
    labels = []
    for scores, axis, target in zip(sources, axes, targets, strict=True):
        noisy = log_scores(scores, axis, input_type) + gumbel(scores)
        sampled = cast(reduce_argmax(noisy, axis=axis), target.dtype)
        labels.append(where(less(random_uniform(target.dims, device=target.device), share), sampled, target))
    return labels


def target_scores(scores: Tensor, axis: Dim, input_type: InputType, target: Tensor) -> Tensor:
    """The scores of the labels of the target. {…, axis}, {…} → {…}"""
    return gather(log_scores(scores, axis, input_type), indices=target, axis=axis)
