"""Where in a training a run was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run


class Training(Protocol):
    """Where in a training a run was made, and the runs of the same loop at other steps of that training.

    step: the training step. measures: what the training had reported.
    """

    step: int
    measures: Mapping[str, float]

    def steps(self) -> list[int]:
        """The training steps that have a run of the loop, in order."""

    def run(self, step: int) -> Run:
        """The run at a training step. Raises RfError if there is none."""
