"""What wants loops of plain Python to be recorded."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rfnb.trace.plain.iterations import Iterations
    from rfnb.trace.plain.syntax import LoopText
    from rfnb.trace.run.axis_names import Axes


class Client(Protocol):
    """What wants loops to be recorded.

    dims: for variables, the names of their axes.
    """

    dims: Axes | None

    def chooses(self, code: CodeType) -> bool:
        """Whether frames that run this code are followed from their first line on."""

    def wants(self, loop: LoopText, number: int) -> bool:
        """Whether a loop of a frame that is followed is recorded."""

    def name(self, number: int) -> str | None:
        """The name of a loop; None if it has none of its own."""

    def done(self, loop: Iterations) -> None:
        """Takes a loop that has ended."""

    def left(self) -> None:
        """A frame that was followed has ended."""

    @property
    def pausing(self) -> Callable[[], object]:
        """Is called before a loop pauses."""
