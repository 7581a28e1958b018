"""The same hypotheses with other scales of their scores, without the model; and what the beam might have kept then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.ground.text import did_you_mean
from rfnb.errors import SearchError
from rfnb.search.explain.position import limit_of, only_fall, rounding
from rfnb.search.trace import Trace, by_length

if TYPE_CHECKING:
    from rfnb.search.tree import Tree, Trees


@dataclass(frozen=True)
class Doubt:
    """A pruned candidate that would have had a place in the beam with other scales.

    Args:
        sequence: the position of the sequence in the batch.
        step: the step at which it was pruned.
        label: its label. text: all its labels as text.
        score: the sum of the scaled scores with the new scales.
        margin: how much better it compares than the last of the beam.
        may_win: whether it might have become the best hypothesis, as far as scores only fall.
    """

    sequence: int
    step: int
    label: int
    text: str
    score: float
    margin: float
    may_win: bool


def rescaled(
    trees: Trees, scales: Mapping[str, float], exponent: float | None
) -> tuple[Trace, tuple[Doubt, ...] | None]:
    """The trace with other scales, and the candidates in doubt; None if pruned candidates were not recorded."""
    trace = trees.trace.with_candidates()
    trees = type(trees)(trace)
    _check(trace, scales, exponent)
    change = {name: scale - trace.scales.get(name, 1.0) for name, scale in scales.items()}
    scores, final, pruned = trace.scores.copy(), trace.final_scores.copy(), trace.pruned
    candidates = None if pruned is None else pruned.scores.copy()
    exponent = trace.length_normalization_exponent if exponent is None else float(exponent)
    for tree in trees:
        steps, i = slice(tree.steps), tree.sequence
        scores[steps, i] = _with(tree.scores, tree.part_sums, change)
        if candidates is not None:
            candidates[steps, i] = _of_candidates(tree, change)
        if tree.steps:
            final[i] = _final(tree, scores[tree.steps - 1, i], exponent)
    rescaled = replace(
        trace,
        scores=scores,
        final_scores=final,
        scales={**trace.scales, **scales},
        length_normalization_exponent=exponent,
        pruned=None if pruned is None or candidates is None else replace(pruned, scores=candidates),
        again=None,
        why_not="the search has other scales than its run",
    )
    new = type(trees)(rescaled)
    return rescaled, None if pruned is None else tuple(doubt for tree in new for doubt in _doubts(tree))


def _check(trace: Trace, scales: Mapping[str, float], exponent: float | None) -> None:
    for name, scale in {**scales, "length_normalization_exponent": exponent or 0.0}.items():
        if not isinstance(scale, int | float | np.number) or not np.isfinite(scale):
            raise SearchError(f"rerank: {name} is not a finite number", got=repr(scale)[:40])
    if trace.joined is not None:
        raise SearchError(
            "rerank: the scores of merged hypotheses are not sums of parts", hint="search again with the other scales"
        )
    for name in scales:
        check_recorded("rerank", name, trace)


def check_recorded(what: str, name: str, trace: Trace) -> None:
    """Raises SearchError if a search did not keep the score of this name. what: the function that needs it."""
    if name not in trace.parts:
        names = ", ".join(map(repr, trace.parts)) or "nothing, as the search recorded only sums"
        raise SearchError(
            f"{what}: no score with this name was recorded",
            got=repr(name),
            expected=names,
            hint=did_you_mean(name, trace.parts),
        )


def _with(scores: np.ndarray, parts: Mapping[str, np.ndarray], change: Mapping[str, float]) -> np.ndarray:
    """Scores after a change of scales; −inf stays."""
    added = sum((by * np.where(np.isfinite(parts[name]), parts[name], 0.0) for name, by in change.items()), 0.0)
    return scores + added


def _of_candidates(tree: Tree, change: Mapping[str, float]) -> np.ndarray:
    """The scores of the pruned candidates of a tree after a change of scales. [steps, candidates]"""
    pruned = tree.own.pruned
    assert pruned is not None
    parents, old = pruned.parents[:, 0], {}
    for name in change:
        sums = np.zeros(parents.shape)
        sums[1:] = np.take_along_axis(tree.part_sums[name][:-1], parents[1:], axis=1)
        old[name] = sums + (pruned.parts[name][:, 0] if name in pruned.parts else 0.0)
    return _with(pruned.scores[:, 0], old, change)


def _final(tree: Tree, scores: np.ndarray, exponent: float) -> np.ndarray:
    """The final scores; what they were more than the normalized sums is kept."""
    old, finals = tree.compared[-1], tree.own.final_scores[0]
    finite = np.isfinite(finals) & np.isfinite(old)
    bonus = np.subtract(finals, old, out=np.zeros_like(finals), where=finite)
    new = scores / by_length(tree.taken[-1], exponent, tree.own.length_normalization_offset) + bonus
    return np.where(finals > -np.inf, new, -np.inf)


def _doubts(tree: Tree) -> Iterator[Doubt]:
    """The candidates of a tree with new scales that are better than the last hypothesis of their step."""
    threshold = _needed_to_win(tree)
    for step in range(tree.steps):
        beam = tree.nodes(step)
        if len(beam) < tree.beam:  # all others had the score −inf
            continue
        for node in tree.pruned(step):
            if node.compared <= beam[-1].compared:
                continue
            prefix = tree.prefix(step - 1, node.parent) if node.parent is not None else ()
            yield Doubt(
                sequence=tree.sequence,
                step=step,
                label=node.label,
                text=tree.prefix_text(prefix if node.ended else (*prefix, node.label)),
                score=node.score,
                margin=node.compared - beam[-1].compared,
                may_win=node.score > threshold,
            )


def _needed_to_win(tree: Tree) -> float:
    """The sum of scores that a prefix must exceed to become the best hypothesis; −inf if any may, as scores rise."""
    exponent, limit = tree.own.length_normalization_exponent, limit_of(tree)
    if tree.best is None or not only_fall(tree) or (exponent and limit is None):
        return -np.inf
    score = tree.best.score
    divided = by_length(limit or 1, exponent, tree.own.length_normalization_offset)
    return float((score - rounding(score, score)) * divided)
