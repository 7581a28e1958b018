"""The result of a layout: boxes and lines."""

from __future__ import annotations

from dataclasses import dataclass, field

Point = tuple[float, float]


@dataclass(slots=True)
class Box:
    """A placed box: its upper left corner, size, rank and column."""

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
        """The height at which lines leave."""
        return self.y + self.height - self.tail


@dataclass(slots=True)
class Line:
    """The points of a link. smooth: slanted pieces are curves; otherwise all pieces are vertical or horizontal."""

    points: list[Point]
    smooth: bool
    back: bool = False


@dataclass
class Drawing:
    """Boxes and lines in the given order. columns: left and right end of each column, which nothing crosses."""

    width: float = 0.0
    height: float = 0.0
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    columns: list[tuple[float, float]] = field(default_factory=list)
