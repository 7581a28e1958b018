"""`loop.choice`: chooses labels for the hypotheses of a beam, in the body of a loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.source import assigned_name
from rfnb.core.ground.suggestions import did_you_mean
from rfnb.core.tensor.argument_errors import not_a_tensor
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError, ParameterError
from rfnb.loop.body.body import Body
from rfnb.loop.body.hypotheses import Choice, Hypotheses
from rfnb.ops.math import where
from rfnb.search.beam import BeamStep, Combine, beam_step
from rfnb.search.collect import SearchPlan, collect
from rfnb.search.sources import InputType, combinations, gumbel, log_scores
from rfnb.search.target import target_labels, target_scores
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


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions:
    """The arguments of `loop.choice`, which explains them."""

    beam: Dim | None = None
    beam_size: int | None = None
    axis: Dim | Sequence[Dim] | None = None
    input_type: InputType = "prob"
    target: Any = None
    search: bool = True
    add_to_beam_scores: bool = False
    scheduled_sampling: bool | float = False
    prob_scale: float = 1.0
    base_beam_score_scale: float = 1.0
    random_sample_scale: float = 0.0
    length_normalization: bool = True
    length_normalization_exponent: float = 1.0
    custom_score_combine: Combine | None = None
    source_beam_sizes: Sequence[int] | None = None
    keep_beams: bool = False
    cheating: bool | Literal["exclusive"] = False

    @property
    def exponent(self) -> float:
        """0 if scores are not normalized by length."""
        return self.length_normalization_exponent if self.length_normalization else 0.0


def choose(body: Body, scores: Tensor | Sequence[Tensor], **given: Any) -> Chosen:
    """Extends each hypothesis by each label, and keeps the best. Called by `loop.choice`."""
    body.refuse_in_branch("choice")
    options = _options(given)
    sources: list[Any] = list(scores) if isinstance(scores, list | tuple) else [scores]
    for source in sources:
        if not isinstance(source, Tensor):
            raise not_a_tensor("choice: `scores`", source)
    dims: list[Any] = list(options.axis) if isinstance(options.axis, list | tuple) else [options.axis] * len(sources)
    axes = [_label_dim(body, source, dim, options.beam) for source, dim in zip(sources, dims, strict=True)]
    if not options.search:
        return _of_target(body, sources, axes, options, several=isinstance(scores, list | tuple))
    if len(sources) == 1 and not isinstance(scores, list | tuple):
        return _step(body, log_scores(sources[0], axes[0], options.input_type), axes[0], options)
    size = options.beam_size or _beam(body, options.beam).get_dim_value()
    log_probs = [log_scores(source, dim, options.input_type) for source, dim in zip(sources, axes, strict=True)]
    combined = combinations(log_probs, axes, options.source_beam_sizes or [size] * len(sources))
    chosen = _step(body, combined.scores, combined.axis, options)
    return replace(chosen, labels=combined.labels(chosen))


def _options(given: dict[str, Any]) -> ChoiceOptions:
    unknown = [name for name in given if name not in ChoiceOptions.__dataclass_fields__]
    if unknown:
        known = list(ChoiceOptions.__dataclass_fields__)
        raise ParameterError(
            "choice: there is no such option", got=unknown[0], expected=", ".join(known),
            hint=OTHER_NAMES.get(unknown[0]) or did_you_mean(unknown[0], known),
        )  # fmt: skip
    return ChoiceOptions(**given)


OTHER_NAMES = {
    "length_penalty": "length_normalization_exponent=…; without normalization, length_normalization=False",
    "num_beams": 'beam=rf.Dim(4, name="beam"), the dim of the hypotheses, which the states have',
    "temperature": 'loop.choice(logits / temperature, input_type="logits", …)',
    "do_sample": "random_sample_scale=1.0",
}
"""Options of other libraries, and ours."""


def _step(body: Body, scores: Tensor, axis: Dim, options: ChoiceOptions) -> Chosen:
    """The hypotheses after one more label."""
    beam = _beam(body, options.beam)
    if options.prob_scale != 1.0:
        scores = scores * options.prob_scale
    if options.random_sample_scale:
        scores = scores + gumbel(scores) * options.random_sample_scale
    hypotheses = body.hypotheses or _begin(body, body.of_body(scores, "choice"), beam, axis, options.exponent)
    carried: Carried = hypotheses.search
    before = hypotheses.newest
    after = hypotheses.dim_after(options.beam_size or beam.get_dim_value())
    ended = hypotheses.follow(carried.ended)
    scale = options.base_beam_score_scale
    found = beam_step(
        scores, hypotheses.scores if scale == 1.0 else hypotheses.scores * scale,
        axis=axis, beam=before, out_beam=after, ended=ended,
        counts=None if carried.counts is None else hypotheses.follow(carried.counts),
        step=body.step_number(), exponent=carried.exponent, combine=options.custom_score_combine,
        keep_beams=options.keep_beams, gold=options.target if options.cheating else None,
        gold_once=options.cheating == "exclusive",
    )  # fmt: skip
    return _take(body, hypotheses, found, before, after, ended)


def _of_target(body: Body, sources: list[Tensor], axes: list[Dim], options: ChoiceOptions, several: bool) -> Chosen:
    """The labels of the target instead of a search."""
    targets = list(options.target) if isinstance(options.target, list | tuple) else [options.target]
    labels = target_labels(body, sources, axes, targets, options.input_type, options.scheduled_sampling)
    if options.add_to_beam_scores and body.hypotheses is not None:
        scores = target_scores(sources[0], axes[0], options.input_type, labels[0])
        _add(body.hypotheses, scores * options.prob_scale)
    return Chosen(labels if several else labels[0], None, None, None, body.hypotheses)


def _take(body: Body, hypotheses: Hypotheses, found: BeamStep, before: Dim, after: Dim, ended: Tensor) -> Chosen:
    """Makes the results of a step the newest hypotheses."""
    labels, parents, total = (body.of_body(part, "choice") for part in found[:3])
    target = assigned_name() or "chosen"
    for value, name in ((labels, "labels"), (parents, "parents"), (total, "scores")):
        value.with_name(f"{target}.{name}")
    hypotheses.choices.append(Choice(before, after, parents, _rows(body, parents, before)))
    carried: Carried = hypotheses.search
    hypotheses.scores = hypotheses.carried[carried.scores_place] = total
    if carried.counts_place is not None and found.counts is not None:
        hypotheses.carried[carried.counts_place] = body.of_body(found.counts, "choice")
    kept = {"labels": labels, "parents": parents, "scores": total, "ended": body.of_body(ended, "choice")}
    hypotheses.kept |= kept
    return Chosen(labels, parents, total, after, hypotheses)


def _add(hypotheses: Hypotheses, scores: Tensor) -> None:
    """Adds the scores of the target to those of the newest hypotheses that go on."""
    carried: Carried = hypotheses.search
    total = where(hypotheses.follow(carried.ended), hypotheses.scores, hypotheses.scores + scores)
    total = total.copy_transpose(hypotheses.scores.dims)
    assert isinstance(total, Traced)
    hypotheses.scores = hypotheses.carried[carried.scores_place] = hypotheses.kept["scores"] = total


def _beam(body: Body, beam: Dim | None) -> Dim:
    """The dim of the hypotheses. Raises DimError if no state has it."""
    states = [leaf for _, leaf in body.loop.state._leaves() if isinstance(leaf, Tensor)]
    known = body.hypotheses
    if beam is None or beam.dimension is None or not beam.dimension:
        raise DimError(
            f"{body.loop.name}: choice needs a beam of fixed size", got=beam, hint='beam = rf.Dim(4, name="beam")'
        )
    if known is None and not any(beam in leaf.dims for leaf in states):
        raise DimError(
            f"{body.loop.name}: choice: no state has the dim {beam.name}",
            got=", ".join(
                f"{name} {x.describe_dims()}" for name, x in body.loop.state._leaves() if isinstance(x, Tensor)
            ),
            hint=f"before the loop: loop.state.prev = rf.zeros([…, {beam.name}], …): states of each hypothesis have it",
        )
    if known is not None and beam is not known.beam:
        raise DimError(
            f"{body.loop.name}: a second choice has another beam",
            got=beam.describe(),
            expected=known.beam.describe(),
            hint="the same beam, with beam_size=… for another number of hypotheses in between",
        )
    return beam


@dataclass(frozen=True)
class Carried:
    """What a search carries from step to step, as values before the step. ended: which hypotheses have ended. counts:
    how many labels each has; None if scores are not normalized. Their positions among all that the loop carries."""

    scores_place: int
    ended: Traced
    counts: Traced | None
    counts_place: int | None
    exponent: float


def _begin(body: Body, scores: Traced, beam: Dim, axis: Dim, exponent: float) -> Hypotheses:
    """The hypotheses before the first choice: one without labels, in the first place of the beam."""
    plain, backend = scores.plain, body.backend
    batch = [dim for dim in plain.dims if dim not in (axis, beam)]
    sizes = [plain.size_of(dim).max for dim in batch]
    numbers = np.full([*sizes, beam.get_dim_value()], -np.inf, plain.dtype)
    numbers[..., :1] = 0
    with body.untraced():
        initial = backend.from_numpy_raw(numbers, plain.device)
        like = tensor_of(initial, align.sig([*batch, beam]), plain.lengths)
    plan = SearchPlan(backend, axis.vocab, like.dims, plain.lengths, exponent, initial)
    hypotheses = body.hypotheses = Hypotheses(body, beam, like.dims, partial(collect, plan))
    place = body.carry("search", like, like.dtype, initial)
    hypotheses.scores = body.carried[place].before
    ended_place = body.carry("search ended", like, "bool")
    ended = hypotheses.carried[ended_place] = body.carried[ended_place].before
    with body.untraced():
        ones = backend.full_raw([*sizes, beam.get_dim_value()], 1, plain.dtype, plain.device)
    counts_place = body.carry("search", like, like.dtype, ones) if exponent else None
    counts = None if counts_place is None else body.carried[counts_place].before
    hypotheses.search = Carried(place, _or_past_the_end(body, ended), counts, counts_place, exponent)
    return hypotheses


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
    starts = np.arange(math.prod(sizes)).reshape([*sizes, 1]) * beam.get_dim_value()
    with body.untraced():
        raw = body.backend.from_numpy_raw(starts, parents.device)
    return body.recorder._wrap(parents.plain.like(parents.plain._raw + raw))


def _label_dim(body: Body, scores: Tensor, axis: Dim | None, beam: Dim | None) -> Dim:
    """The dim of the labels: `axis`, the feature dim, or the only dim that the states lack."""
    states = {dim for _, leaf in body.loop.state._leaves() if isinstance(leaf, Tensor) for dim in leaf.dims}
    hypotheses = body.hypotheses
    newest = beam if hypotheses is None else hypotheses.newest
    given = axis if axis is not None else scores.feature_dim
    found = [given] if given is not None else [dim for dim in scores.dims if dim not in states and dim is not newest]
    if len(found) != 1 or found[0] not in scores.dims:
        raise DimError(
            f"{body.loop.name}: choice: which dim of `scores` has the labels?",
            got=scores.describe_dims(),
            expected="one of its dims",
            hint="loop.choice(scores, axis=label_dim, …)",
        )
    return found[0]
