"""What a search keeps: the label, parent, score and end of each hypothesis, by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.vocab import Vocab

if TYPE_CHECKING:
    from rfnb.search.generate.again import ModelAgain
    from rfnb.search.repeated import Repeated
    from rfnb.search.replayed import SearchSteps


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


def joined(several: Sequence[Candidates]) -> Candidates:
    """The candidates of consecutive steps."""
    three = [np.concatenate([getattr(step, name) for step in several]) for name in ("labels", "parents", "scores")]
    parts = {name: np.concatenate([step.parts[name] for step in several]) for name in several[0].parts}
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
    again: SearchSteps | Repeated | None = None
    why_not: str = NOT_RECORDED
    model: ModelAgain | None = None
    forcing: Callable[[Any, Mapping[str, Any]], ModelAgain] | None = None

    @property
    def beam_text(self) -> str:
        """The size of the beam: "beam 4", or "beam 4, and 4 places for ended hypotheses"."""
        places = int(self.labels.shape[2])
        apart = "" if self.living is None else f", and {places - self.living} places for ended hypotheses"
        return f"beam {self.living or places}{apart}"

    @property
    def replayed(self) -> SearchSteps | Repeated | None:
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
