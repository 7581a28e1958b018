"""Searches of `generate` without beams: the best label of each step, or a sample, and the candidates beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.core.vocab import Vocab
from rfnb.search.generate.output import CLOSE, Output, limits
from rfnb.search.generate.scores import StepScores
from rfnb.search.generate.settings import Settings, contradiction
from rfnb.search.trace import Candidates, Trace


def steps_of(out: Output, most: int) -> tuple[StepScores, ...]:
    """The best candidates of each step, with the labels that were taken."""
    if out.kept is not None:
        return out.kept
    assert out.scores is not None
    return tuple(_step(raw, out.sequences[:, out.prompt + i], most) for i, raw in enumerate(out.scores))


def _step(raw: Any, taken: np.ndarray, most: int) -> StepScores:
    scores = raw.float().gather(1, raw.new_tensor(taken, dtype=raw.argmax().dtype)[:, None])[:, 0]
    step = StepScores.of(raw.float(), most, distribution=True)
    return replace(step, taken=taken, taken_scores=scores.cpu().numpy())


def trace_of_branches(out: Output, settings: Settings, batch: int, candidates: int, vocab: Vocab | None) -> Trace:
    """The trace of a search without beams, with a place for each result of a sequence.

    Scores are sums of log-probabilities, as labels were chosen by: after all processors.
    """
    branches = len(out.sequences) // batch
    steps = steps_of(out, candidates + branches)
    shape = len(steps), batch, branches
    labels, taken = (np.array([getattr(step, name) for step in steps]) for name in ("taken", "taken_scores"))
    ends = np.isin(labels, settings.ends)
    ended: np.ndarray = np.greater(np.cumsum(ends, axis=0) - ends, 0)
    check_ends(out, settings, labels, ended, ends)
    best = np.array([step.scores[:, 0] for step in steps])
    worse = ~ended & (taken < best - CLOSE * np.maximum(np.abs(best), 1.0))
    if worse.any() and not settings.sampled:
        raise contradiction("do_sample", False, True, f"as the label of step {np.nonzero(worse)[0][0]} is not the best")
    totals, entropies = (np.array([getattr(step, name) for step in steps]) for name in ("log_total", "entropy"))
    logs = np.where(ended, 0.0, taken - totals)
    scores, counts = np.cumsum(logs, axis=0), (~ended).sum(axis=0)
    parents = np.broadcast_to(np.arange(branches), shape).copy()
    parents[:1] = 0
    over: np.ndarray = (ended | ends)[-1].reshape(batch, branches)
    return Trace(
        labels=np.where(ended, 0, labels).reshape(shape),
        parents=parents,
        scores=scores.reshape(shape),
        ended=ended.reshape(shape),
        ends=(ends & ~ended).reshape(shape),
        final_scores=scores[-1].reshape(batch, branches),
        lengths=counts.reshape(batch, branches) - over,
        complete=over,
        include_eos=False,
        steps=counts.reshape(batch, branches).max(axis=1),
        vocab=vocab,
        pruned=_beside(steps, scores - logs, totals, ended, shape, candidates),
        limit=None if settings.limit(out.prompt) is None else np.full(batch, settings.limit(out.prompt)),
        end_label=settings.ends,
        sampled=settings.sampled,
        entropies=np.where(ended, 0.0, entropies).reshape(shape),
    )


def check_ends(out: Output, settings: Settings, labels: np.ndarray, ended: np.ndarray, ends: np.ndarray) -> None:
    """Raises SearchError if results end elsewhere than the settings say. Arrays: [steps, rows]"""
    limit, steps = settings.limit(out.prompt), len(labels)
    if limit is not None and steps > limit:
        raise limits(settings, out)
    if settings.pad is not None and (ended & (labels != settings.pad)).any():
        _, row = np.argwhere(ended & (labels != settings.pad))[0]
        raise contradiction("eos_token_id", settings.ends, why=f"as labels follow its end in result {row}")
    if limit is not None and steps < limit and not (ended | ends)[-1].any():
        raise limits(settings, out)
    if ended.all(axis=1).any() or (limit is not None and steps < limit and not (ended | ends)[-1].all()):
        raise contradiction("eos_token_id", settings.ends, why=f"as the search ended after {steps} steps")


def _beside(
    steps: tuple[StepScores, ...], before: np.ndarray, totals: np.ndarray, ended: np.ndarray, shape: Any, most: int
) -> Candidates:
    """The best candidates of each step that were not taken, by their scores."""
    count, batch, branches = shape
    labels = np.array([step.labels for step in steps])
    scores = np.array([step.scores for step in steps]) - totals[:, :, None] + before[:, :, None]
    same = labels == np.array([step.taken for step in steps])[:, :, None]
    owners = np.broadcast_to(np.arange(branches)[None, None, :, None], (count, batch, branches, labels.shape[2])).copy()
    first = labels[:1].reshape(1, batch, branches, -1)  # all branches begin with the candidates of the first
    starts = np.asarray(steps[0].taken).reshape(1, batch, 1, 1, branches)
    same = same.reshape(owners.shape)
    same[:1] |= (first[..., None] == starts).any(axis=-1) | (owners[:1] > 0)
    owners[:1] = 0
    scores = np.where(same | ended.reshape(*shape, 1), -np.inf, scores.reshape(owners.shape)).reshape(count, batch, -1)
    order = np.argsort(-scores, axis=2, kind="stable")[:, :, :most]
    parts = (labels.reshape(scores.shape), owners.reshape(scores.shape), scores)
    labels, parents, scores = (np.take_along_axis(part, order, axis=2) for part in parts)
    return Candidates(labels, parents, scores)
