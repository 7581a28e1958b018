"""Where in a training a run was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rfnb.errors import LoopError

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


@dataclass
class OneStep:
    """The training step at which a run was made, if nothing is known about others."""

    step: int
    _run: Run = field(repr=False)
    measures: Mapping[str, float] = field(default_factory=dict)

    def steps(self) -> list[int]:
        """This step."""
        return [self.step]

    def run(self, step: int) -> Run:
        """The run at this step. Raises LoopError for others."""
        if step != self.step:
            raise LoopError(f"{self._run.name}: there is no run at training step {step}", expected=str(self.step))
        return self._run
