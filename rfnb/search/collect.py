"""Collects what a search leaves behind into what it found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.core.vocab import Vocab
from rfnb.errors import LoopError
from rfnb.search.checks.nan_scores import check_kept
from rfnb.search.found import Found
from rfnb.search.replayed.steps import SearchSteps
from rfnb.search.rules import BeamRules
from rfnb.search.trace import FINAL, NOT_RECORDED, Candidates, Trace, by_length, by_scale
from rfnb.search.variants.several_labels import join_labels

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.steps.beams import Searched


@dataclass(frozen=True)
class CollectPlan:
    """What is known of a search before it runs.

    Args:
        rules: those of the search.
        vocab: the texts of the labels.
        dims: those of the scores, the last of which is the beam.
        lengths: those of the dims.
        initial: the scores before the first step, a raw tensor.
        scales: of the parts of scores.
        what: the function that searches, for errors.
        axis: the dim of the labels.
        why_not: why its steps cannot be replayed, if they cannot.
        vocabs: the texts of the labels of each choice, if a step has several.
        at_start: what the end adds to hypotheses without labels, by the names of parts, not scaled; known if a sequence
            may have no steps. {…, beam}
    """

    backend: type[Backend]
    rules: BeamRules
    vocab: Vocab | None
    dims: tuple[Dim, ...]
    lengths: Lengths
    initial: Any
    scales: Mapping[str, float] = field(default_factory=dict)
    what: str = "choice"
    axis: Dim | None = None
    why_not: str = NOT_RECORDED
    vocabs: list[Vocab | None] = field(default_factory=list)
    at_start: dict[str, np.ndarray] = field(default_factory=dict)

    def of_batch(self, lengths: Lengths, initial: Any) -> CollectPlan:
        """The plan of the same search of another batch."""
        return replace(self, lengths=lengths, initial=initial, scales=dict(self.scales))


def collect(plan: CollectPlan, searched: Searched) -> Found:
    """What the search found."""
    numpy = plan.backend.to_numpy_raw
    initial = numpy(plan.initial)
    rules = plan.rules
    if rules.living and searched.ended is None:
        raise LoopError(
            f'{plan.what}: `ended="apart"` needs the end of the hypotheses', hint="loop.end(chosen.labels == end)"
        )
    sizes = initial.shape[:-1]
    flat = (math.prod(sizes), initial.shape[-1])
    arrays = {name: numpy(raw) for name, raw in searched.kept.items()}
    arrays = {name: raw.reshape(len(raw), flat[0], raw.shape[-1]) for name, raw in arrays.items()}
    vocab = join_labels(arrays, plan.vocabs) if len(plan.vocabs) > 1 and "labels" in arrays else plan.vocab
    labels = arrays.get("labels")
    lengths = np.broadcast_to(searched.size.over(plan.dims), initial.shape)
    ended = np.zeros(initial.shape, bool) if searched.ended is None else numpy(searched.ended)
    counts = np.maximum(lengths + (ended & (not searched.include_eos)), 1)
    none = np.zeros((0, *flat), int)
    parents = arrays.get("parents", none)
    before = arrays.get("ended", none.astype(bool))
    steps = (~before).any(axis=2).sum(axis=0)
    alive = arrays["scores"][-1] if len(parents) else initial.reshape(flat)
    added = _at_the_end(plan, arrays, steps, ~ended.reshape(flat) & (alive > -np.inf))
    if "scores" in arrays:
        names = [dim.name for dim in plan.dims[:-1]]
        check_kept(plan.what, arrays["scores"], sizes, names, _tags(plan), searched.first_nan)
    if len(parents):
        steps = np.maximum(steps, _reordered(parents, arrays["scores"]))
    scores = _final_scores(plan, searched, counts, added)
    final_scores = numpy(plan.backend.alias_raw(scores._raw)).reshape(flat)
    had_ended = np.take_along_axis(before, parents, axis=2)
    trace = Trace(
        labels=none if labels is None else labels,
        parents=parents,
        scores=arrays.get("scores", none.astype(initial.dtype)),
        ended=had_ended,
        final_scores=final_scores,
        lengths=np.where(np.isneginf(final_scores), 0, lengths.reshape(flat)),
        complete=ended.reshape(flat) & np.isfinite(final_scores),
        include_eos=searched.include_eos,
        steps=steps,
        vocab=vocab,
        tags=_tags(plan),
        length_normalization_exponent=rules.exponent,
        length_normalization_offset=rules.offset,
        parts=_parts(plan, arrays, had_ended),
        scales=dict(plan.scales),
        pruned=_pruned(arrays),
        ends=arrays.get("ends"),
        limit=_limit(plan, searched, flat[0]),
        framewise=searched.ended is None,
        end_label=rules.end if plan.axis is not None else None,
        again=_again(plan, searched),
        why_not=plan.why_not,
        blank=rules.blank,
        joined=arrays.get("joined"),
        living=rules.living,
        stops=rules.stops or (rules.threshold is not None and plan.axis is not None),
    )
    trace = trace if rules.blank is None else replace(trace, lengths=trace.label_counts())
    signature = align.sig(plan.dims)
    count = tensor_of(
        plan.backend.from_numpy_raw(trace.lengths.reshape(initial.shape).copy(), None), signature, plan.lengths
    )
    return Found(trace, scores=scores, lengths=count, beam=plan.dims[-1])


def _again(plan: CollectPlan, searched: Searched) -> SearchSteps | None:
    """The steps of a recorded search."""
    if searched.run is None or plan.axis is None:
        return None
    return SearchSteps(searched.run, plan.axis, plan.rules, plan.scales)


def _at_the_end(
    plan: CollectPlan, kept: dict[str, np.ndarray], steps: np.ndarray, going: np.ndarray
) -> np.ndarray | None:
    """Adds, in the last step of each sequence, what the end of the search is worth to hypotheses that had not ended.

    Returns what it adds to the scores by final place, [batch, beam]; None without such scores. Where that is −∞, the
    hypothesis is lost at the end, and keeps the score of its last step.
    """
    names = [name.removeprefix(FINAL) for name in kept if name.startswith(FINAL)] or [*plan.at_start]
    if not names:
        return None
    places, total = _places_at_the_end(kept, steps), np.zeros(going.shape)
    worth = {name: _worth(plan, kept, name, steps, places) for name in names}
    for name, added in worth.items():
        total += by_scale(added, plan.scales.get(name, 1.0))
    total = np.where(going, total, 0.0)
    if not places:
        return total
    stays = going & ~np.isneginf(total) & (steps > 0)[:, None]
    for name in ("scores", *(f"part {name}" for name in names if f"part {name}" in kept)):
        kept[name] = kept[name].copy()
        added = total if name == "scores" else worth[name.removeprefix("part ")]
        for step, place in places.items():
            rows = np.equal(step, steps - 1) | np.greater(step, steps - 1) & (name == "scores")
            at = np.nonzero(stays & rows[:, None])
            kept[name][step, at[0], place[at]] += added[at]
    return total


def _places_at_the_end(kept: Mapping[str, np.ndarray], steps: np.ndarray) -> dict[int, np.ndarray]:
    """The place of each final hypothesis at the last step of its sequence, and at those behind it. [batch, beam]"""
    parents, places = kept.get("parents"), dict[int, np.ndarray]()
    if parents is None or not len(parents):
        return places
    place = np.broadcast_to(np.arange(parents.shape[2]), parents.shape[1:])
    for step in range(len(parents) - 1, max(int(steps.min()) - 2, -1), -1):
        places[step] = place
        before = np.take_along_axis(parents[step], place, axis=1)
        place = np.where((step >= steps)[:, None], before, place)
    return places


def _worth(
    plan: CollectPlan, kept: Mapping[str, np.ndarray], name: str, steps: np.ndarray, places: Mapping[int, np.ndarray]
) -> np.ndarray:
    """What a scorer gives to the end of each final hypothesis. [batch, beam]"""
    shape = len(steps), plan.dims[-1].get_dim_value()
    worth = plan.at_start[name].reshape(shape) if name in plan.at_start else np.zeros(shape)
    for step, place in places.items():
        finals = np.take_along_axis(kept[FINAL + name][step], place, axis=1)
        worth = np.where(np.equal(step, steps - 1)[:, None], finals, worth)
    return worth


def _reordered(parents: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The number of steps up to the last one that changes the order of the hypotheses. [batch]

    What the end of a hypothesis is worth counts for its place in the step after it, and so does that others of its
    sequence were stopped.
    """
    moved = ((parents != np.arange(parents.shape[2])) & np.isfinite(scores)).any(axis=2)
    numbers: np.ndarray = np.where(moved, np.arange(1, len(moved) + 1)[:, None], 0).max(axis=0, initial=0)
    return numbers


def _parts(plan: CollectPlan, kept: Mapping[str, np.ndarray], ended: np.ndarray) -> dict[str, np.ndarray]:
    """The parts of the scores of labels that count."""
    parts = {name: kept[f"part {name}"] for name in plan.scales if f"part {name}" in kept}
    return {name: np.where(ended | np.isneginf(kept["scores"]), 0.0, part) for name, part in parts.items()}


def _final_scores(plan: CollectPlan, searched: Searched, counts: np.ndarray, more: np.ndarray | None) -> Tensor:
    """The scores of the final hypotheses, normalized by length if they were compared so. {…, beam}"""
    steps = searched.kept.get("scores", ())
    scores = tensor_of(steps[-1] if len(steps) else plan.initial, align.sig(plan.dims), plan.lengths)
    if more is not None:
        raw = plan.backend.from_numpy_raw(more.reshape(counts.shape).astype(scores.dtype), scores.device)
        scores = scores + scores.like(raw)
    if not plan.rules.exponent:
        return scores
    by = by_length(counts, plan.rules.exponent, plan.rules.offset)
    by = plan.backend.from_numpy_raw(by.astype(scores.dtype), scores.device)
    return scores / scores.like(by)


def _pruned(kept: Mapping[str, np.ndarray]) -> Candidates | None:
    if "pruned parents" not in kept:
        return None
    parents, scores = kept["pruned parents"], kept["pruned scores"]
    none = np.take_along_axis(kept["ended"], parents, axis=2) | np.isneginf(scores)
    prefix = "pruned part "
    parts = {name.removeprefix(prefix): np.where(none, 0.0, kept[name]) for name in kept if name.startswith(prefix)}
    return Candidates(kept["pruned labels"], parents, scores, parts)


def _limit(plan: CollectPlan, searched: Searched, batch: int) -> np.ndarray | None:
    """The most steps of each sequence. [batch]"""
    if searched.limit is None or plan.dims[-1] in searched.limit.dims:
        return None
    values = searched.limit.over(plan.dims[:-1])
    return np.broadcast_to(values, [plan.lengths[dim].max for dim in plan.dims[:-1]]).reshape(batch)


def _tags(plan: CollectPlan) -> list[str] | None:
    """The names of the sequences, if there is one dim of them and it has names."""
    batch = plan.dims[:-1]
    size = plan.lengths.size(batch[0]) if len(batch) == 1 else None
    size = size or (batch[0].size if len(batch) == 1 and batch[0].is_defined() else None)
    return None if size is None or size.tags is None else list(size.tags)
