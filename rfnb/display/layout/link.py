"""The input of a layout: links between boxes that are numbered from 0."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A link from box to box.

    Args:
        value: links of one source with the same value share their way as far as they go together.
        leave: where the line starts, right of the axis of the source.
        back: against the direction of the drawing, around the other boxes.
    """

    source: int
    target: int
    value: int = 0
    leave: float = 0.0
    back: bool = False


@dataclass(frozen=True, slots=True)
class BoxSize:
    """The size of a box. tail: height at its lower end that lines pass through.

    axis: distance from its left end to where lines enter and leave; the middle by default.
    """

    width: float
    height: float
    tail: float = 0.0
    axis: float | None = None

    @property
    def left(self) -> float:
        """Width left of the axis."""
        return self.width / 2 if self.axis is None else self.axis

    @property
    def right(self) -> float:
        """Width right of the axis."""
        return self.width - self.left
