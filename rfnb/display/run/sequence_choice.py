"""What a step is shown of: all sequences, one of them, or one hypothesis of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.lengths import going_on_mask

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.trace.run.run import Run


@dataclass(frozen=True)
class ChosenSequence:
    """One sequence of a run, or one hypothesis of it; all of them by default.

    places: of the hypothesis, in the beam after each step; None after the step at which it was lost.
    copied: at which steps it had ended before, so that what the step computes at its place does not count.
    """

    run: Run
    sequence: int | None = None
    places: Sequence[int | None] = ()
    copied: Sequence[bool] = ()

    def place(self, step: int) -> int | None:
        """The place of the hypothesis after a step; None for all hypotheses."""
        return self.places[min(step, len(self.places) - 1)] if self.places and step < self.run.steps else None

    def in_step(self, step: int) -> dict[Dim, int]:
        """The positions in values that a step computes, and in the states before it."""
        index, place = of_sequence(self.run, self.sequence), self.place(step)
        return index if place is None else {**index, **self.run.replay.of_hypothesis(step, self.sequence, place)}

    def after(self, step: int) -> dict[Dim, int]:
        """The positions in the states after a step."""
        index, place = of_sequence(self.run, self.sequence), self.place(step)
        return index if place is None else {**index, self.run.replay.lineages[0].final: place}

    def live(self, value: Any, step: int, begun: int | None = None) -> np.ndarray | None:
        """Which entries belong to sequences that reach the step `begun`, and to hypotheses that have not ended."""
        live = live_at(self.run, value, step if begun is None else begun)
        if live is None or self.place(step) is None or not self.copied[min(step, len(self.copied) - 1)]:
            return live
        return np.zeros_like(live) if self.in_step(step).keys() & set(value.dims) - {self.run.sequence_dim} else live


def of_sequence(run: Run, sequence: int | None) -> dict[Dim, int]:
    """The position of a sequence in values."""
    return {} if sequence is None or run.sequence_dim is None else {run.sequence_dim: sequence}


def live_at(run: Run, value: Any, step: int) -> np.ndarray | None:
    """Which entries belong to sequences that reach the step; None for numbers and other values without dims."""
    if value is None or not hasattr(value, "dims"):
        return None
    return going_on_mask(value.dims, run.begun, step)
