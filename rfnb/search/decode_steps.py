"""The steps of `rf.search.decode`: a loop of plain Python, which is recorded like those of users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.trace.plain.record import record_loops
from rfnb.trace.run.run import Run
from rfnb.trace.run.runs import runs

if TYPE_CHECKING:
    import numpy as np

    from rfnb.search.decoding import Decoding, Step
    from rfnb.search.found import Found


def decode_steps(search: Decoding, step: Step, prev: np.ndarray, state: Any) -> None:
    """Makes all steps. prev: the label before, of each hypothesis. [batch · beam]"""
    while search.goes_on():
        scores, state = search.made(prev, step, state)
        prev, rows = search.extend(scores)
        state = search.followed(rows, state)


class RecordedSteps(record_loops):
    """Records the steps of the search inside the block.

    Args:
        labels: their dim, if it is known.
    """

    def __init__(self, labels: Dim | None):
        names: dict[str, list[str | Dim]] = {
            "scores": ["hypotheses", labels or "labels"],
            "prev": ["hypotheses", *([labels] if labels else [])],
            "rows": ["hypotheses"],
        }
        super().__init__(decode_steps, dims=names)
        self.warns = False  # of a search without steps
        self._before = _newest()

    def run_of(self, found: Found, batch: Dim, tags: Sequence[str] | None) -> Run | None:
        """The run of the search, which has its tree; None if it was not recorded."""
        run = _newest()
        if run is None or run is self._before:
            return None
        replay: Any = run.replay
        replay.searched, replay.sequences = found, (batch, Size([], len(found), tags=tags))
        return run


def _newest() -> Run | None:
    return next((run for run in runs if run.name == decode_steps.__name__), None)
