"""What a layout gives."""

from __future__ import annotations

from dataclasses import dataclass, field

Point = tuple[float, float]


@dataclass(slots=True)
class Box:
    """Where a box is: its upper left corner, its size, its rank, its column."""

    x: float
    y: float
    width: float
    height: float
    tail: float
    rank: int
    column: int
    axis: float  # across: where lines come in and go out

    @property
    def leave(self) -> float:
        """The height at which its lines begin."""
        return self.y + self.height - self.tail


@dataclass(slots=True)
class Line:
    """The points of a link. smooth: what is not upright is a curve; else all is upright or level."""

    points: list[Point]
    smooth: bool
    back: bool = False


@dataclass
class Drawing:
    """Boxes and lines, in the order of what was given. columns: left and right end of each, which nothing crosses."""

    width: float = 0.0
    height: float = 0.0
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    columns: list[tuple[float, float]] = field(default_factory=list)
