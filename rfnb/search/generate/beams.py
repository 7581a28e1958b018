"""The beams of `generate` at each step, made again from the scores of labels.

The running beams are the best candidates that do not end. Those among the first K candidates that end are banked: the K
best of them, by their scores divided by length ** penalty, are the result. Numbers have single precision, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from rfnb.core.tensor.tensor import RawTensor
from rfnb.search.generate.scores import Best, StepScores, looked_at
from rfnb.search.generate.settings import Settings

NOTHING = np.float32(-1e9)
"""The score of a place without a hypothesis, in `generate`."""

NO_HYPOTHESIS = np.float32(-5e8)
"""Scores below are those of places without a hypothesis."""


class Source(Protocol):
    """What has the scores of all steps."""

    steps: int
    rows: int

    def best(self, step: int, running: np.ndarray, most: int) -> Best:
        """The best candidates of a step, up to `most`, for the scores of the running beams. [batch, beams]"""

    def order(self, scores: np.ndarray, most: int) -> np.ndarray:
        """The positions of the best of some scores. [batch, …] → [batch, most]"""


class FullScores:
    """The scores of all labels, as `output_scores=True` gives them: raw tensors [batch · beams, labels]."""

    def __init__(self, scores: Sequence[RawTensor], looked: int):
        self.scores, self.looked = scores, looked
        self.steps, self.rows = len(scores), scores[0].shape[0]

    def best(self, step: int, running: np.ndarray, most: int) -> Best:
        """See `Source`. Of equal scores, those come first that do so in `generate`, if the tensors are still where they
        were."""
        raw = self.scores[step]
        count = raw.shape[-1]
        total = (raw.reshape(*running.shape, count) + raw.new_tensor(running)[:, :, None]).reshape(len(running), -1)
        scores, places = (x.cpu().numpy() for x in total.topk(min(most, total.shape[-1]), dim=-1))
        looked = self.looked
        if looked < scores.shape[1] and (scores[:, :looked] == scores[:, 1 : looked + 1]).any():
            exact = total.topk(looked, dim=-1).indices.cpu().numpy()
            tails = [
                [place for place in row if place not in set(first)] for row, first in zip(places, exact, strict=True)
            ]
            places = np.array([[*first, *row][: places.shape[1]] for first, row in zip(exact, tails, strict=True)])
        return Best(scores, places // count, places % count)

    def order(self, scores: np.ndarray, most: int) -> np.ndarray:
        """See `Source`."""
        order: np.ndarray = self.scores[0].new_tensor(scores).topk(most, dim=-1).indices.cpu().numpy()
        return order


class BestCandidates:
    """The best candidates of each row, and the labels that were taken, which decide between equal scores.

    drawn: the candidates of each step that were sampled, if they were; the others follow them.
    """

    def __init__(self, kept: Sequence[StepScores], drawn: Sequence[Best] = ()):
        self.kept, self.steps, self.rows = kept, len(kept), len(kept[0].labels)
        self.drawn = drawn

    def best(self, step: int, running: np.ndarray, most: int) -> Best:
        """See `Source`."""
        entry, (batch, beams) = self.kept[step], running.shape
        shape = batch, beams, -1
        total = (entry.scores.reshape(shape) + running[:, :, None]).reshape(batch, -1)
        labels = entry.labels.reshape(batch, -1)
        parents = np.broadcast_to(np.arange(beams).repeat(entry.labels.shape[1]), labels.shape)
        turns = np.full(labels.shape, beams)
        if entry.parents is not None and entry.taken is not None:
            rows, chosen_labels = entry.parents.reshape(batch, beams) % beams, entry.taken.reshape(batch, beams)
            matches = (parents[:, :, None] == rows[:, None]) & (labels[:, :, None] == chosen_labels[:, None])
            turns = np.where(matches.any(axis=2), matches.argmax(axis=2), beams)
        if self.drawn:
            first = self.drawn[step]
            pairs = (parents[:, :, None] == first.parents[:, None]) & (labels[:, :, None] == first.labels[:, None])
            total = np.where(pairs.any(axis=2), np.float32(-np.inf), total)
            most -= first.labels.shape[1]
        order = np.lexsort((labels, parents, turns, -total))[:, :most]
        best = Best(*(np.take_along_axis(x, order, axis=1) for x in (total, parents, labels)))
        return Best(*map(_beside, first, best)) if self.drawn else best

    def order(self, scores: np.ndarray, most: int) -> np.ndarray:
        """See `Source`."""
        return np.argsort(-scores, axis=1, kind="stable")[:, :most]


def _beside(*arrays: np.ndarray) -> np.ndarray:
    return np.concatenate(arrays, axis=1)


class BeamsStep(NamedTuple):
    """The beams after a step.

    Args:
        best: the candidates.
        running: the candidates that go on, by their positions, the best first. [batch, beams]
        running_scores: their scores. [batch, beams]
        banked: where each banked hypothesis comes from: its place in the bank before, or `beams` and more for the
            position of a candidate. [batch, beams]
        bank: the scores of the banked hypotheses, by length. [batch, beams]
        finished: whether there is one. [batch, beams]
        frozen: whether nothing is banked for a sequence any more. [batch]
    """

    best: Best
    running: np.ndarray
    running_scores: np.ndarray
    banked: np.ndarray
    bank: np.ndarray
    finished: np.ndarray
    frozen: np.ndarray


@dataclass(frozen=True)
class RepeatedSearch:
    """A search that was made again.

    Args:
        settings: of the search.
        steps: the beams after each step.
        limit: the most labels of a hypothesis, if that is known, or was found from the number of steps.
        stopped: whether the search ends where the scores end.
    """

    settings: Settings
    steps: list[BeamsStep]
    limit: int | None
    stopped: bool


def search(source: Source, settings: Settings, limit: int | None, candidates: int) -> RepeatedSearch:
    """The search of all steps. candidates: how many pruned candidates of each step are looked for."""
    beams = settings.beams
    shape = batch, _ = source.rows // beams, beams
    running = np.zeros(shape, np.float32)
    running[:, 1:] = NOTHING
    bank, finished, open_ = np.full(shape, NOTHING), np.zeros(shape, bool), np.ones((batch, 1), bool)
    looked = looked_at(beams, len(settings.ends))
    penalty, stop = settings.length_penalty, settings.early_stopping
    steps: list[BeamsStep] = []
    over = False
    for step in range(source.steps):
        if over:
            return RepeatedSearch(settings, steps, limit, False)
        best, length = source.best(step, running, looked + candidates), step + 1
        scores, labels = best.scores[:, :looked], best.labels[:, :looked]
        ends = np.isin(labels, settings.ends) | (length == limit)
        going = scores + ends.astype(np.float32) * NOTHING
        order = source.order(going, beams)
        running = np.take_along_axis(going, order, axis=1)
        full = finished.all(axis=1, keepdims=True) & (stop is True)
        first = ends & (np.arange(looked) < beams)
        compared = scores / np.float32(length**penalty)
        for closed in (full, ~open_, ~first):
            compared = compared + closed.astype(np.float32) * NOTHING
        merged = np.concatenate([bank, compared], axis=1)
        banked = source.order(merged, beams)
        bank = np.take_along_axis(merged, banked, axis=1)
        finished = np.take_along_axis(np.concatenate([finished, first], axis=1), banked, axis=1)
        longest = limit if stop == "never" and penalty > 0 and limit is not None else length
        possible = running[:, :1] / np.float32(longest**penalty)
        open_ = open_ & (possible > np.where(finished, bank.min(axis=1, keepdims=True), NOTHING)).any(1, keepdims=True)
        full = finished.all(axis=1) & (stop is True)
        steps.append(BeamsStep(best, order, running, banked, bank, finished, full | ~open_[:, 0]))
        over = not open_.any() or bool(full.all()) or bool(ends.all())
    return RepeatedSearch(settings, steps, limit, over)


class Banked(NamedTuple):
    """A banked hypothesis.

    Args:
        labels: its labels, with the one that ended it.
        score: its score by length.
        real: whether it is one; `generate` fills places with others, whose scores are about −10⁹ or −∞.
    """

    labels: tuple[int, ...]
    score: float
    real: bool


def hypotheses(searched: RepeatedSearch, most: int) -> list[list[Banked]]:
    """The best banked hypotheses of each sequence, also in places without one."""
    result: list[list[Banked]] = []
    for row in range(len(searched.steps[-1].bank)):
        prefixes: list[tuple[int, ...]] = [()] * searched.settings.beams
        banked = [Banked((), float(NOTHING), False)] * searched.settings.beams
        for step in searched.steps:
            best = zip(*(part[row].tolist() for part in step.best), strict=True)
            extended = [Banked((*prefixes[p], label), 0.0, score > NO_HYPOTHESIS) for score, p, label in best]
            banked = [[*banked, *extended][place] for place in step.banked[row]]
            prefixes = [extended[place].labels for place in step.running[row]]
        pairs = zip(banked, searched.steps[-1].bank[row].tolist(), strict=True)
        result.append([item._replace(score=score) for item, score in pairs][:most])
    return result
