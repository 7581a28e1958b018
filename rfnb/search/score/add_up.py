"""The sum of the parts of a score in one step, and what is kept of each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, ParameterError
from rfnb.loop.body.body import Body
from rfnb.ops.create import full, range_over_dim
from rfnb.ops.index import gather, scatter
from rfnb.ops.math import equal, not_equal, where
from rfnb.ops.shape import expand_dims, merge_dims, replace_dim, set_sparse_dim
from rfnb.ops.sort import top_k
from rfnb.search.score.final import Final, reads_more, scaled
from rfnb.search.score.parts import ScorePart
from rfnb.search.score.scorer import PartialScorer, Scorer
from rfnb.search.score.scorer_states import CarriedState, carried_label
from rfnb.search.sources import InputType, log_scores

if TYPE_CHECKING:
    from rfnb.loop.body.hypotheses import Hypotheses


@dataclass
class Scored:
    """The scores of the labels in one step. total: the sum of the scaled parts. {…, beam, axis}

    blank: the label that stands for no label. With one, of_labels is the sum of the parts of scorers, which score the
    labels that a hypothesis gets, and 0 for blank; total that of the others, which score frames.
    """

    axis: Dim
    blank: int | None = None
    total: Any = None
    of_labels: Any = None
    parts: dict[str, Tensor] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    states: list[tuple[CarriedState, Any]] = field(default_factory=list)
    last_label: CarriedState | None = None
    finals: list[Final] = field(default_factory=list)

    def add(self, name: str, scores: Tensor, scale: float, *, of_frame: bool = False) -> None:
        """Adds a part. Labels that a part rules out by −∞ stay ruled out, whatever its scale."""
        apart = self.blank is not None and not of_frame
        if apart:
            scores = where(equal(range_over_dim(self.axis, device=scores.device), self.blank), 0.0, scores)
        self.parts[name], self.scales[name] = scores, scale
        by_scale = scaled(scores, scale)
        if apart:
            self.of_labels = by_scale if self.of_labels is None else self.of_labels + by_scale
        else:
            self.total = by_scale if self.total is None else self.total + by_scale

    @property
    def known(self) -> Any:
        """The sum of all parts so far."""
        return self.total if self.of_labels is None or self.total is None else self.total + self.of_labels


def add_up(
    body: Body,
    parts: list[ScorePart],
    axis: Dim,
    input_type: InputType,
    start: Any,
    candidates: int,
    blank: int | None = None,
) -> Scored:
    """The scores of labels by all parts; those that cost much score only some candidates."""
    assert body.hypotheses is not None
    scored = Scored(axis, blank)
    dims = newest_dims(body.hypotheses)
    scorers = [part for part in parts if not (part.value is None or isinstance(part.value, Tensor))]
    last = scored.last_label = carried_label(body, axis, start) if scorers else None
    costly: list[tuple[ScorePart, Any]] = []
    for part in parts:
        if isinstance(part.value, Tensor):
            scored.add(part.name, log_scores(part.value, axis, input_type), part.scale, of_frame=True)
        elif part.value is None:
            scored.add(part.name, full(dims=[axis], fill_value=1.0), part.scale)
        else:
            assert last is not None
            state = _state(body, part, each=blank is not None)
            since, scores = len(body.tape.calls), None
            if isinstance(part.value, PartialScorer):
                new = part.value.advance(last.before, state.before)
                costly.append((part, new))
            else:
                scores, new = score_by(part, part.value, last.before, state.before)
            scored.states.append((state, new))
            if hasattr(part.value, "final"):
                of_step = reads_more(body, since, [last.before, *leaves(state.before)])
                scored.finals.append(Final(part.name, part.value, state, new, last, of_step))
            if scores is not None:
                scored.add(part.name, over_labels(axis, dims, part.name, scores), part.scale)
    if costly:
        add_costly(scored, costly, dims, candidates, body.hypotheses.scores.device)
    return scored


def add_costly(
    found: Scored, costly: list[tuple[ScorePart, Any]], dims: Sequence[Dim], count: int, device: str | None
) -> None:
    """Adds the parts that score only the best `count` labels of each hypothesis by the other parts. dims: {…, beam}"""
    labels, dim = _candidates(found, dims, count, device)
    for part, state in costly:
        assert isinstance(part.value, PartialScorer)
        scores = part.value.partial(labels, state)
        if dim is not found.axis:
            scores = scatter(scores, indices=labels, indices_dim=dim, out_dim=found.axis, mode="max")
        found.add(part.name, scores, part.scale)


def newest_dims(hypotheses: Hypotheses) -> list[Dim]:
    """The dims of the newest hypotheses, {…, beam}."""
    return [hypotheses.newest if dim is hypotheses.beam else dim for dim in hypotheses.dims]


def _state(body: Body, part: ScorePart, each: bool) -> CarriedState:
    """The state of a scorer. each: all of its parts are made those of each hypothesis, as not all get a label."""
    assert body.hypotheses is not None and isinstance(part.value, Scorer | PartialScorer)
    dims = list(body.hypotheses.dims)

    def expanded(leaf: Any) -> Any:
        missing = [dim for dim in dims if dim not in leaf.dims_set] if isinstance(leaf, Tensor) else []
        return (
            expand_dims(leaf, missing).copy_transpose([*dims, *(dim for dim in leaf.dims if dim not in dims)])
            if missing
            else leaf
        )

    with body.untraced():
        initial = part.value.initial_state(batch_dims=dims)
        initial = map_leaves(expanded, initial) if each else initial
        return CarriedState(body, part.name, initial)


def score_by(part: ScorePart, scorer: Scorer, label: Tensor, state: Any) -> tuple[Tensor, Any]:
    """The scores of the next labels by a scorer, and its new state."""
    result = scorer.score(label, state)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], Tensor):
        raise ParameterError(
            f"choice: the scorer {part.name!r} returns something else than scores and a state",
            got=type(result).__name__,
            hint="def score(self, label, state): return scores, state",
        )
    return result


def over_labels(axis: Dim, dims: Sequence[Dim], name: str, scores: Tensor) -> Tensor:
    """Scores of labels over `axis`, of a scorer that may have a dim of its own for them, or none. dims: {…, beam}"""
    if axis in scores.dims_set:
        return scores
    if scores.dims_set <= set(dims):
        return expand_dims(scores, [axis])
    labels = scores.feature_dim
    if labels is None or labels.dimension != axis.dimension:
        raise DimError(
            f"choice: the scorer {name!r} does not score the labels of {axis.describe()}",
            got=scores.describe_dims(),
            expected="the same labels, in the same order",
        )
    return replace_dim(scores, in_dim=labels, out_dim=axis)[0]


def _candidates(found: Scored, dims: Sequence[Dim], count: int, device: str | None) -> tuple[Tensor, Dim]:
    """The best labels of each hypothesis so far, {…, beam, candidates}, and the dim that counts them."""
    axis, size = found.axis, found.axis.get_dim_value()
    if found.known is None or count >= size:
        return expand_dims(range_over_dim(axis, device=device), dims), axis
    total = found.known
    if dims[-1] not in total.dims_set:
        total = expand_dims(total, [dims[-1]])
    dim = Dim(count, name="candidates")
    _, labels, _ = top_k(total, axis=axis, k_dim=dim)
    assert isinstance(labels, Tensor)
    return labels, dim


def keep(body: Body, scored: Scored, labels: Tensor, parents: Tensor, before: Dim) -> None:
    """Keeps the parts of the labels that were chosen, by name, and takes the new states."""
    hypotheses = body.hypotheses
    assert hypotheses is not None
    _keep_of_pruned(body, scored, before)
    for name, part in scored.parts.items():
        score = of_chosen(part, scored.axis, before, labels, parents)
        earlier = hypotheses.kept.get(f"part {name}")  # of an earlier choice in this step
        score = score if earlier is None else score + earlier
        hypotheses.kept[f"part {name}"] = body.of_body(score.copy_transpose(labels.dims), "choice")
    emitted = None if scored.blank is None else not_equal(labels, scored.blank)
    for state, new in scored.states:
        state.take(new, emitted)
    if scored.last_label is not None:
        scored.last_label.take(labels, emitted)
    hypotheses.search.finals.extend(scored.finals)
    hypotheses.search.scales.update(scored.scales)


def _keep_of_pruned(body: Body, scored: Scored, before: Dim) -> None:
    """Keeps the parts of the pruned candidates that are kept; replays ask for those of all."""
    hypotheses = body.hypotheses
    assert hypotheses is not None
    pruned = hypotheses.search.pruned
    for name, part in scored.parts.items():
        hypotheses.asked[f"part {name}"] = body.of_body(part, "choice")
        if pruned:
            labels, parents, scores = pruned
            score = of_chosen(part, scored.axis, before, labels, parents).copy_transpose(scores.dims)
            earlier = hypotheses.kept.get(f"pruned part {name}")
            score = score if earlier is None else score + earlier
            hypotheses.kept[f"pruned part {name}"] = body.of_body(score, "choice")


def of_chosen(part: Tensor, axis: Dim, before: Dim, labels: Tensor, parents: Tensor) -> Tensor:
    """The scores of chosen labels. {…, beam before, axis}, {…, beam} → {…, beam}"""
    if before not in part.dims_set:
        return gather(part, indices=labels, axis=axis)
    merged, dim = merge_dims(part, dims=[before, axis])
    places = set_sparse_dim(parents, None) * axis.get_dim_value() + set_sparse_dim(labels, None)
    return gather(merged, indices=places, axis=dim)
