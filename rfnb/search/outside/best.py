"""The candidates that get a place in a step, found by raw tensors: those of `rf.search.beam_step`, at less cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class Before(NamedTuple):
    """The hypotheses before a step. [batch, beam]

    scores: the sums of the scores of their labels. past: whether they go on no more. counts: how many labels they have.
    """

    scores: np.ndarray
    past: np.ndarray
    counts: np.ndarray


class Best(NamedTuple):
    """The best candidates, as of `rf.search.BeamStep`. [batch, candidates]"""

    labels: np.ndarray
    parents: np.ndarray
    scores: np.ndarray
    counts: np.ndarray

    def among(self, rows: np.ndarray, before: Before) -> Best:
        """These, of some sequences, and those of the others, whose hypotheses stay as they were."""
        shape, beam = (len(before.scores), self.scores.shape[1]), before.scores.shape[1]
        labels, parents = (np.zeros(shape, part.dtype) for part in self[:2])
        scores, counts = np.full(shape, -np.inf, self.scores.dtype), np.zeros(shape, self.counts.dtype)
        parents[:, :beam], scores[:, :beam], counts[:, :beam] = np.arange(beam), before.scores, before.counts
        joined = Best(labels, parents, scores, counts)
        for array, part in zip(joined, self, strict=True):
            array[rows] = part
        return joined


def best_candidates(
    backend: type[Backend],
    scores: Any,
    before: Before,
    *,
    first_label: Any,
    places: int,
    step: int,
    exponent: float,
    offset: float,
    device: str | None,
) -> Best:
    """The `places` best extensions of hypotheses by a label, of which as many as there were hypotheses get a place.

    Of candidates with the score -∞, any may be among those without a place.

    Args:
        scores: those of the next labels, a raw tensor [batch, beam, labels]. first_label: 0 for the first label, -∞ for
            the others, [labels]: what hypotheses that go on no more get. step, exponent, offset: as of `beam_step`.
    """
    batch, beam = before.scores.shape
    compared = before.scores
    some_past = before.past.any()
    if some_past:
        past = backend.expand_dims_raw(backend.from_numpy_raw(before.past, device), -1)
        scores = backend.where_raw(past, first_label, scores)
        if exponent:
            factors = _power(backend, (step + 1 + offset) / _plus(before.counts, offset), exponent, device)
            compared = np.where(before.past, compared * factors, compared)
    total = backend.expand_dims_raw(backend.from_numpy_raw(compared, device), -1) + scores
    best, index = backend.best_raw(total.reshape(batch, -1), places, beam)
    parents, labels = np.divmod(index, total.shape[2])
    counts = np.full(best.shape, step + 1, before.counts.dtype)
    if some_past and exponent:
        rows = parents + np.arange(batch)[:, None] * beam
        had = before.past.take(rows) & (best != -np.inf)
        best = np.where(had, before.scores.take(rows), best)
        counts = np.where(had, before.counts.take(rows), counts)
    return Best(labels, parents, best, counts)


def _plus(counts: np.ndarray, offset: float) -> np.ndarray:
    return counts + offset if offset else counts


def _power(backend: type[Backend], base: np.ndarray, exponent: float, device: str | None) -> np.ndarray:
    """By the backend, whose powers may differ from those of numpy in the last bit."""
    if exponent == 1:
        return base
    powers: np.ndarray = backend.to_numpy_raw(backend.from_numpy_raw(base, device) ** exponent)
    return powers
