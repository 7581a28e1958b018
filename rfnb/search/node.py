"""What a tree consists of: nodes, one for each place and step, and the hypotheses that were left at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
