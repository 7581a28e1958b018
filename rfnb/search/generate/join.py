"""A branch that joins the tree of a search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.search.trace import BY_STEP, Candidates, Trace, by_length


def joined_at(trace: Trace, row: int, step: int, label: int, parent: int, score: float, branch: Trace) -> Trace:
    """The search with a branch for one sequence: a candidate of a step, and a search that goes on from it.

    The branch has places of its own, behind those of the hypotheses that go on, and of those that have ended.

    Args:
        trace: the search.
        row: the position of the sequence.
        step, label, parent: where the branch begins. score: the sum of scores there.
        branch: the search after it, of one sequence.
    """
    first, count = step + 1, int(branch.steps[0])
    own = int(trace.steps[row])
    steps = max(len(trace.labels), first + count)
    going, more = _living(trace), _living(branch)
    beam, extra = trace.labels.shape[2], branch.labels.shape[2]
    places = np.where(np.arange(beam) < going, np.arange(beam), np.arange(beam) + more)
    others = np.where(np.arange(extra) < more, np.arange(extra) + going, np.arange(extra) + beam)
    shape = steps, len(trace.steps), beam + extra
    arrays: dict[str, Any] = {}
    for name in BY_STEP:
        old, new = getattr(trace, name), getattr(branch, name)
        if old is None or new is None:
            continue
        array = np.full(shape, -np.inf if name == "scores" else 0, old.dtype)
        array[: len(old)][..., places] = places[old] if name == "parents" else old
        array[own:, row] = -np.inf if name == "scores" else 0
        values = others[new[:count, 0]] if name == "parents" else new[:count, 0] + (score if name == "scores" else 0)
        array[first : first + count, row, others] = values.astype(old.dtype) if old.dtype != bool else new[:count, 0]
        arrays[name] = array
    arrays["labels"][step, row, going], arrays["parents"][step, row, going] = label, places[parent]
    arrays["scores"][step, row, going] = score
    _copy(arrays, row, own, places, max(own, first + count))
    _copy(arrays, row, first + count, others, max(own, first + count))
    lengths = np.where(np.isneginf(branch.final_scores[0]), 0, branch.lengths[0] + first)
    taken = np.maximum(lengths + branch.complete[0], 1)
    sums = branch.scores[count - 1, 0] + score
    divided = by_length(taken, trace.length_normalization_exponent, trace.length_normalization_offset)
    final = np.where(np.isneginf(branch.final_scores[0]), -np.inf, sums / divided)
    ends = {"final_scores": final, "lengths": lengths, "complete": branch.complete[0]}
    for name, values in ends.items():
        old = getattr(trace, name)
        array = np.full(shape[1:], -np.inf if name == "final_scores" else 0, old.dtype)
        array[:, places], array[row, others] = old, values
        arrays[name] = array
    counts = trace.steps.copy()
    counts[row] = max(own, first + count)
    return replace(
        trace,
        **arrays,
        steps=counts,
        living=None if trace.living is None else going + more,
        pruned=_pruned(trace, branch, row, first, count, score, shape[:2], places, others),
    )


def _living(trace: Trace) -> int:
    return int(trace.labels.shape[2]) if trace.living is None else trace.living


def _copy(arrays: dict[str, Any], row: int, since: int, places: np.ndarray, until: int) -> None:
    """Copies final hypotheses to later steps."""
    for at in range(since, until):
        arrays["scores"][at, row, places] = arrays["scores"][at - 1, row, places]
        arrays["parents"][at, row, places], arrays["ended"][at, row, places] = places, True


def _pruned(
    trace: Trace, branch: Trace, row: int, first: int, count: int, score: float, shape: Any, places: Any, others: Any
) -> Candidates | None:
    """The pruned candidates of both."""
    old, new = trace.pruned, branch.pruned
    if old is None or new is None:
        return None
    width, more = old.labels.shape[2], new.labels.shape[2]
    labels, parents = np.zeros((*shape, width + more), int), np.zeros((*shape, width + more), int)
    scores = np.full((*shape, width + more), -np.inf, old.scores.dtype)
    at = slice(len(trace.labels))
    labels[at, :, :width], parents[at, :, :width], scores[at, :, :width] = old.labels, places[old.parents], old.scores
    rows = slice(first, first + count)
    labels[rows, row, width:], parents[rows, row, width:] = new.labels[:count, 0], others[new.parents[:count, 0]]
    scores[rows, row, width:] = new.scores[:count, 0] + score
    order = np.argsort(-scores, axis=2, kind="stable")
    parts = [np.take_along_axis(part, order, axis=2) for part in (labels, parents, scores)]
    return Candidates(parts[0], parts[1], parts[2])
