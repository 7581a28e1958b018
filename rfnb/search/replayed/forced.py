"""The scores that the model of a recorded search gives to labels from outside: a replay that chooses only these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.tensor.tensor import tensor_of
from rfnb.loop.step import place_of

if TYPE_CHECKING:
    from rfnb.search.replayed.steps import SearchSteps

Labels = Sequence[int]
"""The labels of one reference, with the label that ends it."""


def forced(steps: SearchSteps, wanted: Mapping[int, Sequence[Labels]]) -> dict[int, list[float | None]]:
    """The sum of the scores of each sequence of labels; None if it needs more steps than the loop allows.

    wanted: sequences of labels, with the label that ends them, by position in the batch. As many as the beam has places
    are computed at once for each.
    """
    limit, beam = steps.replay.bindings.limit.max, steps.dims[-1].get_dim_value()
    sums_by_row: dict[int, list[float | None]] = {b: [None] * len(group) for b, group in wanted.items()}
    fits = {b: [i for i, labels in enumerate(group) if 0 < len(labels) <= limit] for b, group in wanted.items()}
    while any(fits.values()):
        chunk = {b: group[:beam] for b, group in fits.items() if group}
        fits = {b: group[beam:] for b, group in fits.items()}
        sums = _sums(steps, {b: [wanted[b][i] for i in group] for b, group in chunk.items()})
        for b, group in chunk.items():
            for place, i in enumerate(group):
                sums_by_row[b][i] = float(sums[b, place])
    return sums_by_row


def _sums(steps: SearchSteps, wanted: Mapping[int, Sequence[Labels]]) -> np.ndarray:
    """The sums of the scores, [batch, beam], of up to `beam` references for each sequence: each has its own place."""
    replay, beam = steps.replay, steps.dims[-1].get_dim_value()
    lengths = np.zeros((steps.batch, beam), int)
    labels = np.zeros((max(len(row) for rows in wanted.values() for row in rows), steps.batch, beam), int)
    for b, rows in wanted.items():
        for place, row in enumerate(rows):
            lengths[b, place] = len(row)
            labels[: len(row), b, place] = row
    total, states = np.full(lengths.shape, -np.inf), list(replay.states_before(0))
    places, scores_place = np.broadcast_to(np.arange(beam), lengths.shape), place_of(replay.step.carried, "search")
    assert scores_place is not None
    for step in range(len(labels)):
        values = steps.choice(step, states)
        choice = _choice(steps, step, values, labels[step], places if step else places * 0)
        choice["scores"] = np.where(step < lengths, choice["scores"], -np.inf)
        states, finals = steps.after(step, states, steps.given(values, choice))
        like = replay.step.carried[scores_place].before
        scores = steps.array(tensor_of(states[scores_place], like.sig, like.lengths))
        total = np.where(lengths == step + 1, scores + finals, total)
    return total


def _choice(
    steps: SearchSteps, step: int, values: Any, labels: np.ndarray, parents: np.ndarray
) -> dict[str, np.ndarray]:
    """The result of a choice that gives each place this label, after this parent. [batch, beam]"""
    scores, counts = steps.scores_at(step, values, labels)
    rows, places = np.indices(labels.shape)
    at = rows, parents, np.where(np.take_along_axis(steps.array(values["had ended"]), parents, axis=1), 0, places)
    result = {"labels": labels, "parents": parents, "scores": scores[at]}
    return result | ({"counts": counts[at]} if "counts" in values else {})
