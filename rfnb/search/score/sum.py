"""The sum of the parts of a score in one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, ParameterError
from rfnb.ops.create import full, range_over_dim
from rfnb.ops.index import gather, scatter, top_k
from rfnb.ops.math import equal, is_neg_infinite, where
from rfnb.ops.shape import expand_dims, merge_dims, replace_dim, set_feature_dim, set_sparse_dim
from rfnb.search.score.scorer import ChangingScorer, PartialScorer, ScorePart, SearchState
from rfnb.search.sources import InputType, log_scores, over


class ScorerStates(Protocol):
    """What scorers know of the hypotheses before a step."""

    def of(self, part: ScorePart) -> tuple[Tensor, SearchState]:
        """The last label of each hypothesis, {…, beam}, and the state of a scorer."""

    def take(self, part: ScorePart, new: object) -> None:
        """Takes the new state of a scorer, of the hypotheses before the step."""


@dataclass
class Scored:
    """The scores of the labels in one step. {…, beam, axis}

    Args:
        axis: the dim of the labels.
        blank: the label that stands for no label.
        total: the sum of the scaled parts; with a blank, only of those that score frames.
        of_labels: with a blank, the sum of the parts of scorers, which score the labels that a hypothesis gets, and 0
            for blank.
        parts: the scores by name, not scaled.
        scales: their scales.
    """

    axis: Dim
    blank: int | None = None
    total: Any = None
    of_labels: Any = None
    parts: dict[str, Tensor] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, scores: Tensor, scale: float, *, of_frame: bool = False) -> None:
        """Adds a part. Labels that a part rules out by −∞ stay ruled out, whatever its scale."""
        blank = None if of_frame else self.blank
        if blank is not None:
            scores = where(equal(range_over_dim(self.axis, device=scores.device), blank), 0.0, scores)
        self.parts[name], self.scales[name] = scores, scale
        by_scale = scaled(scores, scale)
        if blank is not None:
            self.of_labels = by_scale if self.of_labels is None else self.of_labels + by_scale
        else:
            self.total = by_scale if self.total is None else self.total + by_scale

    @property
    def known(self) -> Any:
        """The sum of all parts so far."""
        return self.total if self.of_labels is None or self.total is None else self.total + self.of_labels


def add_up(
    scored: Scored,
    parts: Sequence[ScorePart],
    dims: Sequence[Dim],
    states: ScorerStates,
    *,
    input_type: InputType,
    candidates: int,
    device: str | None,
) -> None:
    """Adds the scores of labels by all parts.

    Args:
        dims: those of the hypotheses, {…, beam}.
        states: of the scorers.
        input_type: what the scores that are Tensors are.
        candidates: how many labels of each hypothesis scorers see that cost much: the best by the other parts.
        device: that of the hypotheses.
    """
    axis = scored.axis
    costly: list[tuple[ScorePart, object]] = []
    changes = [part for part in parts if isinstance(part.value, ChangingScorer)]
    for part in parts:
        value = part.value
        if isinstance(value, Tensor):
            scored.add(part.name, log_scores(value, axis, input_type), part.scale, of_frame=True)
        elif value is None:
            scored.add(part.name, full(dims=[axis], fill_value=1.0, device=device), part.scale)
        elif not isinstance(value, ChangingScorer):
            label, state = states.of(part)
            scores = None
            if isinstance(value, PartialScorer):
                new = value.advance(label, state)
                costly.append((part, new))
            else:
                scores, new = _pair(part, value.score(label, state))
            states.take(part, new)
            if scores is not None:
                scored.add(part.name, _over_labels(axis, dims, part.name, scores), part.scale)
    if costly:
        labels, dim = _candidates(scored, dims, candidates, device)
    for part, state in costly:
        assert isinstance(part.value, PartialScorer)
        scores = part.value.partial(labels, state)
        if dim is not axis:
            scores = scatter(scores, indices=labels, indices_dim=dim, out_dim=axis, mode="max")
        scored.add(part.name, scores, part.scale)
    for part in changes:
        _change(scored, part, dims, states)


def _change(scored: Scored, part: ScorePart, dims: Sequence[Dim], states: ScorerStates) -> None:
    """Adds what a part changes of the sum of those before it."""
    before = set_feature_dim(over(scored.known, [*dims, scored.axis]), scored.axis)
    label, state = states.of(part)
    after, new = _pair(part, part.value.change(before, label, state))  # type: ignore[union-attr]
    states.take(part, new)
    after = _over_labels(scored.axis, dims, part.name, after)
    scored.add(part.name, where(is_neg_infinite(before), 0.0, after - before), part.scale)


def scaled(scores: Any, scale: float) -> Any:
    """Scores by their scale; −∞ stays, whatever the scale. {…}"""
    products = scores if scale == 1.0 else scores * scale
    return where(is_neg_infinite(scores), -np.inf, products) if scale < 0 else products


def _pair(part: ScorePart, result: object) -> tuple[Tensor, SearchState]:
    """What a scorer has returned, if it is scores and a state."""
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], Tensor):
        raise ParameterError(
            f"choice: the scorer {part.name!r} returns something else than scores and a state",
            got=type(result).__name__,
            hint="def score(self, label, state): return scores, state",
        )
    return result


def _over_labels(axis: Dim, dims: Sequence[Dim], name: str, scores: Tensor) -> Tensor:
    """Scores of labels over `axis`, of a scorer that may have a dim of its own for them, or none. dims: {…, beam}"""
    labels = scores.feature_dim
    foreign = scores.dims_set - {*dims, axis, labels}
    if foreign:
        raise DimError(
            f"choice: the scorer {name!r} has a dim that the hypotheses lack",
            got=scores.describe_dims(), expected=", ".join(dim.describe() for dim in [*dims, axis]),
            hint="in rf.search.decode, batch=… is the dim of the sequences, and labels=… that of the labels",
            dims=[*foreign],
        )  # fmt: skip
    if axis in scores.dims_set:
        return scores
    if scores.dims_set <= set(dims):
        return expand_dims(scores, [axis])
    if labels is None or labels.dimension != axis.dimension:
        lacks_one = labels is not None and labels.dimension is not None and labels.dimension + 1 == axis.dimension
        raise DimError(
            f"choice: the scorer {name!r} does not score the labels of {axis.describe()}",
            got=scores.describe_dims(),
            expected="the same labels, in the same order",
            hint="blank is a label too: it needs a score, which does not count" if lacks_one else None,
        )
    return replace_dim(scores, in_dim=labels, out_dim=axis)[0]


def _candidates(scored: Scored, dims: Sequence[Dim], count: int, device: str | None) -> tuple[Tensor, Dim]:
    """The best labels of each hypothesis so far, {…, beam, candidates}, and the dim that counts them."""
    axis, size = scored.axis, scored.axis.get_dim_value()
    if scored.known is None or count >= size:
        return expand_dims(range_over_dim(axis, device=device), dims), axis
    total = scored.known
    if dims[-1] not in total.dims_set:
        total = expand_dims(total, [dims[-1]])
    dim = Dim(count, name="candidates")
    _, labels, _ = top_k(total, axis=axis, k_dim=dim)
    assert isinstance(labels, Tensor)
    return labels, dim


def of_chosen(part: Tensor, axis: Dim, before: Dim, labels: Tensor, parents: Tensor) -> Tensor:
    """The scores of chosen labels. {…, beam before, axis}, {…, beam} → {…, beam}"""
    if before not in part.dims_set:
        return gather(part, indices=labels, axis=axis)
    merged, dim = merge_dims(part, dims=[before, axis])
    places = set_sparse_dim(parents, None) * axis.get_dim_value() + set_sparse_dim(labels, None)
    return gather(merged, indices=places, axis=dim)
