"""What is drawn: links between boxes that are numbered from 0."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """From box to box.

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
class Size:
    """Of a box. tail: the part of its height, at the lower end, that lines pass through.

    axis: how far from its left end lines come in and go out; in the middle, if it is not given.
    """

    width: float
    height: float
    tail: float = 0.0
    axis: float | None = None

    @property
    def left(self) -> float:
        """So much is left of its axis."""
        return self.width / 2 if self.axis is None else self.axis

    @property
    def right(self) -> float:
        """So much is right of it."""
        return self.width - self.left
