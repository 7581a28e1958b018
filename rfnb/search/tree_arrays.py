"""What a tree consists of: the arrays of one sequence of a search, its nodes, and its hypotheses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rfnb.search.trace import Candidates, Trace, by_length


@dataclass(frozen=True)
class Node:
    """A hypothesis after one step; or a candidate that was pruned there.

    Args:
        step: the step that gave it its label.
        place: its place in the beam; None for a pruned candidate.
        parent: the place, in the beam before, that it extends; None in the first step.
        label, text: its label and the text of that.
        score: the sum of the scaled scores up to here.
        compared: the score by which it was compared with others, perhaps normalized by length.
        rank: 1 for the best of this step.
        parts: the score of the label by each scorer, not scaled.
        ended: whether it had ended before, so that this is a copy and its label does not count.
        ends: whether it ends by this label.
        survives: whether a hypothesis that was left at the end goes through it.
        joined: the place, in the beam before, of a second hypothesis, which had the same labels after the step, so that
            the two became one.
    """

    step: int
    place: int | None
    parent: int | None
    label: int
    text: str
    score: float
    compared: float
    rank: int
    parts: Mapping[str, float] = field(default_factory=dict)
    ended: bool = False
    ends: bool = False
    survives: bool = False
    joined: int | None = None

    @property
    def pruned(self) -> bool:
        """Whether it found no place in the beam."""
        return self.place is None


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis that was left at the end of the search.

    Args:
        rank: 1 for the best.
        place: its place in the last beam.
        labels: those that count. text: as the vocabulary joins them.
        score: the final score, perhaps normalized by length. sum: the sum of the scaled scores.
        parts: the sum over its labels by each scorer, not scaled.
        complete: whether it has ended; others reached the limit of steps.
        places: its place at each step.
        taken: how many labels it has, an end label included.
    """

    rank: int
    place: int
    labels: tuple[int, ...]
    text: str
    score: float
    sum: float
    parts: Mapping[str, float]
    complete: bool
    places: tuple[int, ...]
    taken: int


@dataclass(frozen=True, eq=False, repr=False)
class TreeArrays:
    """The arrays of one sequence, with the steps that it took.

    Args:
        trace: the search.
        sequence: the position of the sequence in the batch.
    """

    trace: Trace
    sequence: int

    @cached_property
    def own(self) -> Trace:
        """The trace of this sequence alone."""
        return self.trace.alone(self.sequence)

    @cached_property
    def candidates(self) -> Candidates | None:
        """The best pruned candidates of each step; None if they were not kept, and cannot be computed by replay."""
        return self.trace.with_candidates().alone(self.sequence).pruned

    @property
    def steps(self) -> int:
        """How many steps the search took for this sequence."""
        return int(self.own.labels.shape[0])

    @property
    def beam(self) -> int:
        """How many places the beam has."""
        return int(self.own.labels.shape[2])

    @property
    def labels(self) -> np.ndarray:
        """The label at each place. [steps, beam] int"""
        return self.own.labels[:, 0]

    @property
    def parents(self) -> np.ndarray:
        """The place, in the beam before the step, that each place extends. [steps, beam] int"""
        return self.own.parents[:, 0]

    @property
    def scores(self) -> np.ndarray:
        """The sums of the scaled scores; −inf for a place without a hypothesis. [steps, beam]"""
        return self.own.scores[:, 0]

    @property
    def ended(self) -> np.ndarray:
        """Whether each place is a copy of a hypothesis that had ended before the step. [steps, beam] bool"""
        return self.own.ended[:, 0]

    @property
    def joined(self) -> np.ndarray | None:
        """The place, in the beam before the step, of a second parent; -1 where there is none. [steps, beam] int"""
        return None if self.own.joined is None else self.own.joined[:, 0]

    @cached_property
    def counts(self) -> np.ndarray:
        """Whether the label at each place counts: not that of a copy, and not blank. [steps, beam] bool"""
        return ~self.ended if self.own.blank is None else ~self.ended & (self.labels != self.own.blank)

    @property
    def alive(self) -> np.ndarray:
        """Whether each place has a hypothesis. [steps, beam] bool"""
        return self.scores > -np.inf

    @property
    def died_at(self) -> int | None:
        """The first step after which no hypothesis was left; None if some were left at the end."""
        none = np.asarray(~self.alive.any(axis=1))
        none[-1:] |= np.isneginf(self.own.final_scores[0]).all()
        return int(none.argmax()) if none.any() else None

    @property
    def refused(self) -> np.ndarray:
        """Whether the hypothesis at each place had one to the last step, but may not end there. [beam] bool"""
        alive = self.alive[-1] if self.steps else np.arange(self.beam) == 0
        return alive & np.isneginf(self.own.final_scores[0])

    @cached_property
    def ends(self) -> np.ndarray:
        """Whether the hypothesis at each place ends by the label of the step. [steps, beam] bool"""
        if self.own.ends is not None:
            return self.own.ends[:, 0] & ~self.ended & self.alive
        ends = np.zeros_like(self.ended)
        for step in range(1, self.steps):
            ends[step - 1, self.parents[step, self.ended[step] & self.alive[step]]] = True
        if self.steps and not self.own.framewise:
            ends[-1] |= self.own.complete[0]
        return ends & ~self.ended & self.alive

    @cached_property
    def taken(self) -> np.ndarray:
        """How many labels the hypothesis at each place has, an end label included. [steps, beam] int"""
        totals, counts = np.zeros_like(self.parents), self.counts
        for step in range(self.steps):
            before = totals[step - 1, self.parents[step]] if step else 0
            totals[step] = before + counts[step]
        return totals

    @cached_property
    def compared(self) -> np.ndarray:
        """The scores by which hypotheses are compared, perhaps normalized by length. [steps, beam]"""
        return normalized(self.scores, self.taken, self.own)

    @cached_property
    def ranks(self) -> np.ndarray:
        """The rank of each place among those of the step, 1 for the best; 0 without a hypothesis. [steps, beam] int"""
        order = np.argsort(-self.compared, axis=1, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.broadcast_to(np.arange(1, self.beam + 1), order.shape), axis=1)
        return np.where(self.alive, ranks, 0)

    @cached_property
    def places(self) -> np.ndarray:
        """The place of each final hypothesis at each step. [steps, beam] int"""
        return self.own.places()[:, 0]

    @cached_property
    def part_sums(self) -> dict[str, np.ndarray]:
        """The score of the hypothesis at each place by each scorer, not scaled, over all its labels. [steps, beam]"""
        by_name = {}
        for name, part in self.own.parts.items():
            sums = np.where(self.ended, 0.0, part[:, 0]).astype(np.float64)
            for step in range(1, self.steps):
                sums[step] += sums[step - 1, self.parents[step]]
            by_name[name] = sums
        return by_name


def normalized(scores: np.ndarray, lengths: object, trace: Trace) -> np.ndarray:
    """Scores divided by what the trace says of lengths; unchanged if the exponent is 0."""
    if not trace.length_normalization_exponent:
        return scores
    return scores / by_length(lengths, trace.length_normalization_exponent, trace.length_normalization_offset)
