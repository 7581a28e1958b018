"""Collects what a search leaves behind into what it found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.core.vocab.vocab import Vocab
from rfnb.search.beam import Combine
from rfnb.search.found import Found
from rfnb.search.replayed.steps import Steps
from rfnb.search.trace import NOT_RECORDED, Candidates, Trace

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.steps.beams import Searched


@dataclass(frozen=True)
class SearchPlan:
    """What is known of a search before it runs.

    vocab: the texts of the labels. dims: those of the scores, the last of which is the beam; lengths: theirs. exponent:
    hypotheses are compared by score / count ** exponent. initial: the scores before the first step, a raw tensor.
    blank: the label that stands for no label, if there is one. axis: the dim of the labels. combine: as in `beam_step`.
    noisy: whether noise is added to the scores. why_not: why its steps cannot be replayed, if they cannot.
    """

    backend: type[Backend]
    vocab: Vocab | None
    dims: tuple[Dim, ...]
    lengths: Lengths
    exponent: float
    initial: Any
    blank: int | None = None
    axis: Dim | None = None
    combine: Combine | None = None
    noisy: bool = False
    why_not: str = NOT_RECORDED


def collect(plan: SearchPlan, searched: Searched) -> Found:
    """What the search found."""
    numpy = plan.backend.to_numpy_raw
    initial = numpy(plan.initial)
    lengths = np.broadcast_to(searched.size.over(plan.dims), initial.shape)
    ended = np.zeros(initial.shape, bool) if searched.ended is None else numpy(searched.ended)
    counts = np.maximum(lengths + (ended & (not searched.include_eos)), 1)
    scores = _final_scores(plan, searched, counts)
    flat = (math.prod(initial.shape[:-1]), initial.shape[-1])
    kept = {name: numpy(raw).reshape(len(raw), flat[0], -1) for name, raw in searched.kept.items()}
    none = np.zeros((0, *flat), int)
    parents = kept.get("parents", none)
    before = kept.get("ended", none.astype(bool))
    trace = Trace(
        labels=kept.get("labels", none),
        parents=parents,
        scores=kept.get("scores", none.astype(initial.dtype)),
        ended=np.take_along_axis(before, parents, axis=2),
        final_scores=numpy(plan.backend.alias_raw(scores._raw)).reshape(flat),
        lengths=lengths.reshape(flat),
        complete=(ended & np.isfinite(numpy(plan.backend.alias_raw(scores._raw)))).reshape(flat),
        include_eos=searched.include_eos,
        steps=(lengths + (ended & (not searched.include_eos))).reshape(flat).max(axis=1, initial=0),
        vocab=plan.vocab,
        tags=_tags(plan),
        length_normalization_exponent=plan.exponent,
        pruned=_pruned(kept),
        ends=kept.get("ends"),
        limit=_limit(plan, searched, flat[0]),
        framewise=searched.ended is None,
        again=_again(plan, searched),
        why_not=plan.why_not,
        blank=plan.blank,
        joined=kept.get("joined"),
    )
    trace = trace if plan.blank is None else replace(trace, lengths=trace.label_counts())
    signature = align.sig(plan.dims)
    count = tensor_of(
        plan.backend.from_numpy_raw(trace.lengths.reshape(initial.shape).copy(), None), signature, plan.lengths
    )
    return Found(trace, scores=scores, lengths=count, beam=plan.dims[-1])


def _again(plan: SearchPlan, searched: Searched) -> Steps | None:
    """The steps of a recorded search."""
    if searched.run is None or plan.axis is None:
        return None
    return Steps(searched.run, plan.axis, plan.exponent, plan.combine, plan.noisy)


def _final_scores(plan: SearchPlan, searched: Searched, counts: np.ndarray) -> Tensor:
    """The scores of the final hypotheses, normalized by length if they were compared so. {…, beam}"""
    steps = searched.kept.get("scores", ())
    scores = tensor_of(steps[-1] if len(steps) else plan.initial, align.sig(plan.dims), plan.lengths)
    if not plan.exponent:
        return scores
    by = plan.backend.from_numpy_raw((counts**plan.exponent).astype(scores.dtype), scores.device)
    return scores / scores.like(by)


def _pruned(kept: Mapping[str, np.ndarray]) -> Candidates | None:
    if "pruned labels" not in kept:
        return None
    return Candidates(kept["pruned labels"], kept["pruned parents"], kept["pruned scores"])


def _limit(plan: SearchPlan, searched: Searched, batch: int) -> np.ndarray | None:
    """The most steps of each sequence. [batch]"""
    if searched.limit is None or plan.dims[-1] in searched.limit.dims:
        return None
    values = searched.limit.over(plan.dims[:-1])
    return np.broadcast_to(values, [plan.lengths[dim].max for dim in plan.dims[:-1]]).reshape(batch)


def _tags(plan: SearchPlan) -> list[str] | None:
    """The names of the sequences, if there is one dim of them and it has names."""
    batch = plan.dims[:-1]
    size = plan.lengths.size(batch[0]) if len(batch) == 1 else None
    size = size or (batch[0].size if len(batch) == 1 and batch[0].is_defined() else None)
    return None if size is None or size.tags is None else list(size.tags)
