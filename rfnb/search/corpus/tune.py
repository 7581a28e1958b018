"""`rf.search.tune`: the scales of scores with which the best hypotheses have the fewest errors, without the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.op import guarded
from rfnb.errors import SearchError
from rfnb.printable import printable_name
from rfnb.search.corpus.report import edit_distances, for_each, trees_of, units_of
from rfnb.search.explain.life import references_of
from rfnb.search.found import Found
from rfnb.search.tree import Tree
from rfnb.search.words import InWords, number

ROUNDS = 20
"""Most rounds over all scales."""


@dataclass(frozen=True, eq=False, repr=False)
class Tuned(InWords):
    """What `rf.search.tune` found.

    scales: the scale of each score that was tuned, for `found.rerank(tuned.scales)`. error_rate: with them. before:
    with the scales of the search. oracle: the least that any choice from the n-best lists gives. between: around each
    scale, the interval in which the errors stay the same if only this one changes.
    """

    scales: dict[str, float]
    error_rate: float
    before: float
    oracle: float
    between: dict[str, tuple[float, float]]

    @property
    def text(self) -> str:
        """The error rates and the scales."""
        rates = [f"{100 * rate:.4g} %" for rate in (self.before, self.error_rate, self.oracle)]
        lines = [f"errors {rates[0]} → {rates[1]}; at best {rates[2]} with these n-best lists"]
        for name, scale in self.scales.items():
            low, high = self.between[name]
            lines.append(f"  {printable_name(name)} {number(scale)}  (the same from {number(low)} to {number(high)})")
        return "\n".join(lines)


@guarded
def tune(
    found: Found | Iterable[Found],
    references: object,
    *,
    errors: Literal["labels", "words", "sequences"] = "labels",
    scales: Mapping[str, tuple[float, float]] | None = None,
    **more: tuple[float, float],
) -> Tuned:
    """Scales that give the fewest errors, found on n-best lists: `rf.search.tune(found, references, lm=(0.0, 1.0))`.

    One scale after the other is set to its best value, until none gets better. As a function of one scale, the score of
    each hypothesis is a straight line, so the best hypothesis changes at few points, which are known exactly. The
    middle of the widest interval with the fewest errors is taken (Och 2003, "Minimum Error Rate Training in Statistical
    Machine Translation"). Nothing is drawn by chance. With other scales a new search may keep other hypotheses: search
    again with the scales that were found, and tune once more.

    >>> from rfnb.search.trace import Trace
    >>> import numpy as np
    >>> parts = {"model": np.array([[[-1.0, -1.2]]]), "lm": np.array([[[-3.0, -1.0]]])}
    >>> trace = Trace(
    ...     labels=np.array([[[1, 2]]]), parents=np.zeros((1, 1, 2), int), scores=parts["model"],
    ...     ended=np.zeros((1, 1, 2), bool), final_scores=parts["model"][0], lengths=np.ones((1, 2), int),
    ...     complete=np.zeros((1, 2), bool), include_eos=False, steps=np.array([1]), parts=parts,
    ...     scales={"model": 1.0, "lm": 0.0}, framewise=True,
    ... )
    >>> tuned = rf.search.tune(rf.search.Found(trace), [[2]], lm=(0.0, 1.0))
    >>> tuned.before, tuned.error_rate, round(tuned.scales["lm"], 3)  # 0.1 and more is enough
    (1.0, 0.0, 0.55)

    Args:
        found: what the search returned, or a list of it if there were several batches.
        references: as for `rf.search.report`.
        errors: what is counted: wrong labels, wrong words, or wrong sequences.
        scales, more: the scores to tune by name, each with the lowest and the highest scale.

    Raises SearchError for a score that was not recorded, an empty interval, or a sequence without a reference.
    """
    if errors not in ("labels", "words", "sequences"):
        raise SearchError("tune: unknown `errors`", got=repr(errors), expected='"labels", "words" or "sequences"')
    trees = trees_of(found)
    intervals = {**(scales or {}), **more}
    if not intervals:
        raise SearchError("tune: no score is given", hint="rf.search.tune(found, references, lm=(0.0, 1.0))")
    for name, interval in intervals.items():
        _check(trees, name, interval)
    entries = for_each(trees, references, "reference")
    lists = [_list(tree, reference, errors, [*intervals]) for tree, reference in zip(trees, entries, strict=True)]
    recorded = {name: float(trees[0].own.scales.get(name, 1.0)) if trees else 1.0 for name in intervals}
    start = {name: float(np.clip(recorded[name], *interval)) for name, interval in intervals.items()}
    best = _descend(lists, intervals, start)
    length = max(sum(nbest.length for nbest in lists), 1)
    spans = {name: _span(lists, intervals, best, name) for name in intervals}
    return Tuned(
        scales=best,
        error_rate=_errors(lists, best) / length,
        before=_errors(lists, recorded) / length,
        oracle=sum(int(nbest.errors.min()) for nbest in lists) / length,
        between=spans,
    )


def _check(trees: Sequence[Tree], name: str, interval: Any) -> None:
    for tree in trees:
        if name not in tree.trace.parts:
            raise SearchError(
                "tune: no score with this name was recorded",
                got=repr(name),
                expected=", ".join(map(repr, tree.trace.parts)) or "nothing, as the search recorded only sums",
                hint=did_you_mean(name, tree.trace.parts),
            )
        if tree.trace.scales.get(name, 1.0) != trees[0].trace.scales.get(name, 1.0):
            raise SearchError("tune: the searches have different scales", got=name, hint="found.rerank(…)")
    two = isinstance(interval, Sequence) and not isinstance(interval, str) and len(interval) == 2
    if not two or not all(isinstance(bound, int | float) and np.isfinite(bound) for bound in interval):
        raise SearchError(f"tune: {name} needs two numbers", got=interval, expected="(lowest, highest)")
    if interval[0] >= interval[1]:
        raise SearchError(f"tune: the interval of {name} is empty", got=interval, expected="(lowest, highest)")


@dataclass(frozen=True, eq=False)
class _List:
    """The n-best list of a sequence, by place in the beam. scores: the final scores with the scales of the search, of
    which `scales` are those that are tuned. slopes: by scorer, how they change with its scale. errors: of each. length:
    what they are relative to. A sequence without hypotheses has one without labels."""

    scores: np.ndarray
    scales: Mapping[str, float]
    slopes: Mapping[str, np.ndarray]
    errors: np.ndarray
    length: int

    def with_scales(self, scales: Mapping[str, float]) -> np.ndarray:
        """The final scores with other scales."""
        changes = [(scale - self.scales[name]) * self.slopes[name] for name, scale in scales.items()]
        scores: np.ndarray = self.scores + sum(changes, np.zeros(()))
        return scores


def _list(tree: Tree, given: object, errors: str, names: Sequence[str]) -> _List:
    references = references_of(given, tree)
    trace, hypotheses = tree.own, sorted(tree.hypotheses, key=lambda item: item.place)
    own, by_rank = units_of(tree, references, errors == "words")
    units = [by_rank[tree.hypotheses.index(item)] for item in hypotheses] or [()]
    by_reference = np.array([edit_distances(item, units) for item in own])
    nearest = int(by_reference[:, units.index(by_rank[0]) if by_rank else 0].argmin())
    wrong = by_reference.min(axis=0)
    places = [item.place for item in hypotheses] or [0]
    per = np.maximum([item.taken for item in hypotheses] or [1], 1) ** trace.length_normalization_exponent
    sums = {name: tree.part_sums[name][-1] if tree.steps else np.zeros(tree.beam) for name in names}
    return _List(
        scores=np.array([item.score for item in hypotheses] or [0.0]),
        scales={name: trace.scales.get(name, 1.0) for name in names},
        slopes={name: np.where(np.isfinite(part), part, 0.0)[places] / per for name, part in sums.items()},
        errors=(wrong > 0).astype(int) if errors == "sequences" else wrong,
        length=1 if errors == "sequences" else len(own[nearest]),
    )


def _errors(lists: Sequence[_List], scales: Mapping[str, float]) -> int:
    """The errors of the best hypotheses; of equal ones, that with the lower place is the best."""
    return sum(int(nbest.errors[nbest.with_scales(scales).argmax()]) for nbest in lists)


def _descend(lists: Sequence[_List], intervals: Mapping[str, Any], scales: dict[str, float]) -> dict[str, float]:
    """Sets one scale after the other to its best value, as long as this gives fewer errors."""
    least = _errors(lists, scales)
    for _ in range(ROUNDS):
        before = least
        for name in intervals:
            edges, errors = _line(lists, intervals[name], scales, name)
            best = np.flatnonzero(errors == errors.min())
            widest = best[np.diff(edges)[best].argmax()]
            new = {**scales, name: float(edges[widest] + edges[widest + 1]) / 2}
            if (count := _errors(lists, new)) < least:
                scales, least = new, count
        if least == before:
            break
    return scales


def _span(
    lists: Sequence[_List], intervals: Mapping[str, Any], scales: Mapping[str, float], name: str
) -> tuple[float, float]:
    """The interval around a scale in which the errors stay the same."""
    edges, _ = _line(lists, intervals[name], scales, name)
    at = int(np.clip(np.searchsorted(edges, scales[name]) - 1, 0, len(edges) - 2))
    return float(edges[at]), float(edges[at + 1])


def _line(
    lists: Sequence[_List], interval: tuple[float, float], scales: Mapping[str, float], name: str
) -> tuple[np.ndarray, np.ndarray]:
    """The errors as a function of one scale: the edges of the intervals in which they stay the same, [n + 1], and the
    errors in each, [n]."""
    low, high = map(float, interval)
    changes: dict[float, int] = {}
    at_low = 0
    for nbest in lists:
        offsets, slopes = nbest.with_scales({**scales, name: 0.0}), nbest.slopes[name]
        bends = _best_along(offsets, slopes, low, high)
        errors = [int(nbest.errors[k]) for _, k in bends]
        at_low += errors[0]
        for (at, _), before, after in zip(bends[1:], errors, errors[1:], strict=False):
            changes[at] = changes.get(at, 0) + after - before
    points = sorted(at for at, change in changes.items() if change)
    totals = at_low + np.cumsum([0, *(changes[at] for at in points)])
    return np.array([low, *points, high]), totals


def _best_along(offsets: np.ndarray, slopes: np.ndarray, low: float, high: float) -> list[tuple[float, int]]:
    """The upper edge of straight lines: from where on each is the highest, and its number; the first begins at `low`.

    >>> _best_along(np.array([0.0, -1.0, -3.0]), np.array([0.0, 1.0, 2.0]), 0.0, 5.0)
    [(0.0, 0), (1.0, 1), (2.0, 2)]
    """
    at, best = low, int(np.lexsort((np.arange(len(slopes)), -slopes, -(offsets + slopes * low)))[0])
    edge = [(at, best)]
    while (steeper := np.flatnonzero(slopes > slopes[best])).size:
        meets = np.maximum((offsets[best] - offsets[steeper]) / (slopes[steeper] - slopes[best]), at)
        k = np.lexsort((steeper, -slopes[steeper], meets))[0]
        at, best = float(meets[k]), int(steeper[k])
        if at >= high:
            break
        edge = [point for point in edge if point[0] < at] + [(at, best)]
    return edge
