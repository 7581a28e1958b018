"""`loop.choice`: chooses labels for the hypotheses of a beam, in the body of a loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.source import assigned_name
from rfnb.core.tensor.argument_errors import not_a_tensor
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError, ParameterError
from rfnb.loop.body.body import Body
from rfnb.loop.body.hypotheses import Choice, Hypotheses
from rfnb.ops.math import log
from rfnb.ops.softmax import log_softmax
from rfnb.search.beam import beam_step
from rfnb.search.collect import SearchPlan, collect
from rfnb.trace.record.traced import Traced

InputType = Literal["prob", "log_prob", "logits"]


@dataclass(frozen=True)
class Chosen:
    """The hypotheses after a choice. Their dim `beam` is not the beam before the choice, but has the same name.

    labels: the label that each got, {…, beam}. parents: which hypothesis before the choice each extends, {…, beam}.
    scores: the sum of the scores of its labels, {…, beam}.
    """

    labels: Traced
    parents: Traced
    scores: Traced
    beam: Dim
    _hypotheses: Hypotheses

    def follow(self, x: Tensor) -> Tensor:
        """For each hypothesis, the `x` of its parent. {…, beam before} → {…, beam}

        States need no call: at the end of the step, those from before the choice follow their hypotheses.
        """
        return self._hypotheses.follow(x) if isinstance(x, Traced) else x


def choose(
    body: Body,
    scores: Tensor,
    *,
    beam: Dim,
    axis: Dim | None = None,
    input_type: InputType = "prob",
    prob_scale: float = 1.0,
    base_beam_score_scale: float = 1.0,
    length_normalization: bool = True,
    length_normalization_exponent: float = 1.0,
) -> Chosen:
    """Extends each hypothesis by each label, and keeps the best. Called by `loop.choice`."""
    body.refuse_in_branch("choice")
    if not isinstance(scores, Tensor):
        raise not_a_tensor("choice: `scores`", scores)
    axis = _label_dim(body, scores, axis, beam)
    exponent = length_normalization_exponent if length_normalization else 0.0
    log_probs = log_scores(scores, axis, input_type)
    log_probs = log_probs if prob_scale == 1.0 else log_probs * prob_scale
    hypotheses = body.hypotheses or _begin(body, body.of_body(log_probs, "choice"), beam, axis, exponent)
    search: _Carried = hypotheses.search
    before, after = hypotheses.newest, hypotheses.dim_after(beam.get_dim_value())
    ended = hypotheses.follow(search.ended)
    base = hypotheses.scores if base_beam_score_scale == 1.0 else hypotheses.scores * base_beam_score_scale
    counts = None if search.counts is None else hypotheses.follow(search.counts)
    found = beam_step(
        log_probs, base, axis=axis, beam=before, out_beam=after, ended=ended,
        counts=counts, step=body.step_number(), exponent=exponent,
    )  # fmt: skip
    labels, parents, total = (body.of_body(part, "choice") for part in found[:3])
    target = assigned_name() or "chosen"
    for value, name in ((labels, "labels"), (parents, "parents"), (total, "scores")):
        value.with_name(f"{target}.{name}")
    hypotheses.choices.append(Choice(before, after, parents, _rows(body, parents, before)))
    hypotheses.scores = hypotheses.carried[search.scores_place] = total
    if search.counts_place is not None and found.counts is not None:
        hypotheses.carried[search.counts_place] = body.of_body(found.counts, "choice")
    hypotheses.kept |= {"labels": labels, "parents": parents, "scores": total, "ended": ended}
    return Chosen(labels, parents, total, after, hypotheses)


@dataclass(frozen=True)
class _Carried:
    """What a search carries from step to step, as values before the step. ended: which hypotheses have ended. counts:
    how many labels each has; None if scores are not normalized. Their positions among all that the loop carries."""

    scores_place: int
    ended: Traced
    counts: Traced | None
    counts_place: int | None


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
    counts_place = body.carry("search", like, like.dtype) if exponent else None
    counts = None if counts_place is None else body.carried[counts_place].before
    hypotheses.search = _Carried(place, _or_past_the_end(body, ended), counts, counts_place)
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


def log_scores(scores: Tensor, axis: Dim, input_type: InputType) -> Tensor:
    """Scores of labels that add up."""
    if input_type == "logits":
        return log_softmax(scores, axis=axis)
    if input_type == "prob":
        return log(scores)
    if input_type == "log_prob":
        return scores
    raise ParameterError("choice: unknown `input_type`", got=input_type, expected='"prob", "log_prob" or "logits"')


def _label_dim(body: Body, scores: Tensor, axis: Dim | None, beam: Dim) -> Dim:
    """The dim of the labels: `axis`, the feature dim, or the only dim that the states lack."""
    states = {dim for _, leaf in body.loop.state._leaves() if isinstance(leaf, Tensor) for dim in leaf.dims}
    hypotheses = body.hypotheses
    newest = beam if hypotheses is None else hypotheses.newest
    given = axis or scores.feature_dim
    found = [given] if given is not None else [dim for dim in scores.dims if dim not in states and dim is not newest]
    if len(found) != 1 or found[0] not in scores.dims:
        raise DimError(
            f"{body.loop.name}: choice: which dim of `scores` has the labels?",
            got=scores.describe_dims(),
            expected="one of its dims",
            hint="loop.choice(scores, axis=label_dim, …)",
        )
    return found[0]
