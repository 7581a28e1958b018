"""What was measured of the nodes of a call: times, bytes, activations or gradients, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Show = Literal["time", "memory", "activation", "gradient"]
"""What can be measured."""
SUMMED = ("time", "memory")
"""What adds up; of the others, a node with others inside has the largest number."""
Bad = Literal["", "NaN", "infinity"]
"""What is wrong with a result."""


@dataclass(frozen=True, slots=True)
class NodeMeasure:
    """What was measured of a node, with all that is inside it.

    amount: seconds, bytes, or the root mean square of activations or gradients, per call of the model. calls: how often
    it ran in a call of the model. most: the largest absolute value. bad: "NaN" or "infinity", if the node has one.
    place: where the loop around it computed it: "once", "frames" (for all steps together), "steps" or "after".
    saved: the seconds that the place has saved in comparison with computing the node in each step.
    """

    amount: float
    calls: float = 1.0
    most: float = 0.0
    bad: Bad = ""
    place: str = ""
    saved: float | None = None


@dataclass(frozen=True, slots=True)
class NodeMeasures:
    """The measures of the nodes of a call.

    calls: over how many calls of the model. nodes: by number of the node; nodes that did not run, or whose results are
    not floats, are missing. total: of a whole call. overhead: seconds per call that the measuring itself took; they are
    taken off all times. plain: seconds of a call that is not measured. device: where the times are from. first_bad: the
    number of the node that made the first NaN or infinity. loss: what the gradients are those of.
    """

    show: Show
    calls: int
    nodes: dict[int, NodeMeasure] = field(default_factory=dict)
    total: float = 0.0
    overhead: float = 0.0
    plain: float | None = None
    device: str = "cpu"
    first_bad: int | None = None
    loss: str = ""
    notes: tuple[str, ...] = ()
