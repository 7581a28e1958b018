"""What a search keeps: the label, parent, score and end of each hypothesis, by step; and one sequence of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.vocab import Vocab

if TYPE_CHECKING:
    from rfnb.search.generate.rerun import ModelRerun
    from rfnb.search.repeated_decode import RepeatedDecode
    from rfnb.search.search_steps import SearchSteps


DEPTH = 8
"""Pruned candidates of each step that are computed by replay, where a search kept none."""


NOT_RECORDED = "the loop was not recorded"
"""Why the steps of most searches cannot be computed again."""

NOT_REPLAYED = "rf.search.decode does not record its steps, as `step` may change its state in place"
"""Why those of `decode` cannot, so that no hypothesis can be kept, and no run forked."""


NOT_RUN = "a search of `generate` is known without its model: found.force(model, inputs=…)"
"""Why the steps of such a search cannot be computed again."""


Sums = list[list[float] | None]
"""Of several sequences of labels, the sums of their scores after each label; None where these are not known."""

FINAL = "final "
"""Beginning of the names of what the end of a hypothesis is worth."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates that were pruned, the best first; C of them in each step of each sequence.

    labels, parents: [steps, batch, C] int. scores: [steps, batch, C], −inf where there are fewer. parts: the score of
    the label by each scorer, not scaled, [steps, batch, C].
    """

    labels: np.ndarray
    parents: np.ndarray
    scores: np.ndarray
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)

    def at(self, steps: Any, sequences: Any) -> Candidates:
        """The candidates of some steps and sequences."""
        parts = {name: part[steps, sequences] for name, part in self.parts.items()}
        at = steps, sequences
        return Candidates(self.labels[at], self.parents[at], self.scores[at], parts)


def joined(candidates: Sequence[Candidates]) -> Candidates:
    """The candidates of consecutive steps."""
    three = [np.concatenate([getattr(step, name) for step in candidates]) for name in ("labels", "parents", "scores")]
    parts = {name: np.concatenate([step.parts[name] for step in candidates]) for name in candidates[0].parts}
    return Candidates(three[0], three[1], three[2], parts)


@dataclass(frozen=True, eq=False)
class Trace:
    """The beams of a search over all of its steps, for all sequences of a batch.

    Args:
        labels: the label that each place of the beam got. [steps, batch, beam] int
        parents: the place, in the beam before the step, that it extends; in step 0, always 0. [steps, batch, beam] int
        scores: the sum of the scaled scores up to this step, not normalized; −inf for a place without a hypothesis.
            [steps, batch, beam]
        ended: whether the hypothesis had ended before this step. It then keeps its place by a copy, whose label does
            not count. [steps, batch, beam] bool
        final_scores: the scores by which final hypotheses are compared, perhaps normalized by length. [batch, beam]
        lengths: how many labels of each final hypothesis count. [batch, beam] int
        complete: whether a final hypothesis has ended; others reached the limit of steps. [batch, beam] bool
        include_eos: whether the label that ends a hypothesis counts.
        steps: how many steps each sequence took; later entries are padding. [batch] int
        vocab: the texts of the labels. tags: the names of the sequences.
        length_normalization_exponent: candidates are compared by score / length ** exponent; 0 if they are not
            normalized. The length counts the end label. length_normalization_offset: see `by_length`.
        parts: the score of each label by each scorer, not scaled, [steps, batch, beam]; scales: their scales.
        pruned: the best of the candidates that found no place, if they were kept.
        ends: whether the hypothesis ends by the label of this step. Without it, this is found from `ended` of the next
            step and from `complete`, which misses hypotheses that lose their place right after their end.
            [steps, batch, beam] bool
        limit: the most steps that each sequence may take, if that is known. [batch] int
        framewise: whether the steps are frames of the input, so that no label ends a hypothesis.
        end_label: the label that ends hypotheses, or several, if that is known; otherwise those are looked at that have
            ended.
        prompts: the labels of each sequence before the first step, where a search goes on from some.
        entropies: of the distribution from which each label was taken, in nats, in searches without beams.
            [steps, batch, beam]
        model: that of a search of `generate`, which is run for forced scores, and for hypotheses that are kept.
        forcing: makes it, of a model and the inputs of `generate`; None of other searches.
        again: the recorded steps, which replays compute again; None if there are none. why_not: why there are none.
        blank: the label that stands for no label, of searches over frames. lengths does not count it.
        joined: the place, in the beam before the step, of a second hypothesis that became this one, as both had the
            same labels then; -1 if there is none. [steps, batch, beam] int
        living: how many places, the first ones, are for hypotheses that go on; None if all compete. stops: whether
            hypotheses may lose their places though there is room, as the search stops or by a threshold. sampled:
            whether labels were drawn, so that worse ones than others may have been taken.
    """

    labels: np.ndarray
    parents: np.ndarray
    scores: np.ndarray
    ended: np.ndarray
    final_scores: np.ndarray
    lengths: np.ndarray
    complete: np.ndarray
    include_eos: bool
    steps: np.ndarray
    vocab: Vocab | None = None
    tags: Sequence[str] | None = None
    length_normalization_exponent: float = 0.0
    length_normalization_offset: float = 0.0
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    pruned: Candidates | None = None
    ends: np.ndarray | None = None
    limit: np.ndarray | None = None
    framewise: bool = False
    end_label: int | Sequence[int] | None = None
    prompts: tuple[tuple[int, ...], ...] | None = None
    entropies: np.ndarray | None = None
    blank: int | None = None
    joined: np.ndarray | None = None
    living: int | None = None
    stops: bool = False
    sampled: bool = False
    again: SearchSteps | RepeatedDecode | None = None
    why_not: str = NOT_RECORDED
    model: ModelRerun | None = None
    forcing: Callable[[Any, Mapping[str, Any]], ModelRerun] | None = None

    @property
    def beam_text(self) -> str:
        """The size of the beam: "beam 4", or "beam 4, and 4 places for ended hypotheses"."""
        places = int(self.labels.shape[2])
        apart = "" if self.living is None else f", and {places - self.living} places for ended hypotheses"
        return f"beam {self.living or places}{apart}"

    @property
    def replayed(self) -> SearchSteps | RepeatedDecode | None:
        """The recorded steps, if they can be computed again as they were."""
        return self.again if self.again is not None and self.again.why_not is None else None

    def with_candidates(self) -> Trace:
        """The trace with the best pruned candidates of each step, computed by replay if they were not kept."""
        candidates = None if self.pruned is not None or self.replayed is None else self.replayed.pruned()
        return self if candidates is None else replace(self, pruned=candidates)

    def places(self) -> np.ndarray:
        """The place of each final hypothesis at each step, by tracing parents back. [steps, batch, beam] int"""
        places = np.empty_like(self.parents)
        place = np.broadcast_to(np.arange(self.parents.shape[2]), self.parents.shape[1:])
        for step in range(len(self.parents) - 1, -1, -1):
            places[step] = place
            before = np.take_along_axis(self.parents[step], place, axis=1)
            place = np.where((step < self.steps)[:, None], before, place)
        return places

    def label_counts(self) -> np.ndarray:
        """How many labels other than blank each final hypothesis has in its first `lengths` steps. [batch, beam] int"""
        places, steps = self.places(), np.arange(len(self.labels))[:, None, None]
        labels, copies = (np.take_along_axis(array, places, axis=2) for array in (self.labels, self.ended))
        return ((labels != self.blank) & ~copies & (steps < self.lengths)).sum(axis=0)

    def alone(self, sequence: int) -> Trace:
        """One sequence of the batch, as a batch of one, with the steps that it took."""
        steps, row = slice(int(self.steps[sequence])), slice(sequence, sequence + 1)

        def cut(array: Any) -> Any:
            return None if array is None else array[steps, row]

        def cut_all(parts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {name: cut(part) for name, part in parts.items()}

        pruned = self.pruned
        return replace(
            self,
            **{name: cut(getattr(self, name)) for name in BY_STEP},
            **{name: getattr(self, name)[row] for name in BY_SEQUENCE},
            parts=cut_all(self.parts),
            tags=None if self.tags is None else [self.tags[sequence]],
            prompts=None if self.prompts is None else (self.prompts[sequence],),
            limit=None if self.limit is None else self.limit[row],
            pruned=None if pruned is None else pruned.at(steps, row),
        )


def by_length(lengths: Any, exponent: float, offset: float) -> np.ndarray:
    """What the scores of hypotheses are divided by, ((offset + length) / (offset + 1)) ** exponent (Wu et al. 2016)."""
    divisor: np.ndarray = ((offset + np.maximum(lengths, 1)) / (offset + 1.0)) ** exponent
    return divisor


def by_scale(scores: np.ndarray, scale: float) -> np.ndarray:
    """Scores by their scale; −∞ stays, whatever the scale."""
    return np.where(np.isneginf(scores), -np.inf, np.where(np.isneginf(scores), 0.0, scores) * scale)


BY_STEP = ("labels", "parents", "scores", "ended", "ends", "joined", "entropies")
"""The arrays of a Trace over [steps, batch, beam]."""

BY_SEQUENCE = ("final_scores", "lengths", "complete", "steps")
"""The arrays of a Trace over [batch] or [batch, beam]."""


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
