"""The tree of a beam search as a matplotlib figure: the same picture as `picture`, for papers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from rfnb.display.beam.picture import (
    FAINT,
    FOOT,
    HEAD,
    INK,
    LINES,
    QUIET,
    REFERENCE,
    ROW,
    Column,
    edges_of,
    look_of,
    placed,
    text_of,
    top,
)
from rfnb.display.beam.schema import BeamNode, BeamView
from rfnb.display.markup import svg
from rfnb.display.markup.figures import figure_class, literal
from rfnb.errors import ViewError

INCH = 96.0
"""Units of the picture in an inch."""
POINT = 72.0 / INCH
"""A unit of the picture in points."""


def to_figure(view: BeamView) -> Any:
    """The tree; text stays text. Raises ViewError without matplotlib, or if there is no step to draw."""
    if not view["columns"]:
        raise ViewError("beam: there is no step to draw", got=view["name"])
    Figure = figure_class()
    columns, width, height = placed(view)
    figure = Figure(figsize=(width / INCH, height / INCH))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, width), ylim=(height, 0.0))
    axes.set_axis_off()
    for before, column in pairwise(columns):
        for kind, start, stop in edges_of(before, column, view):
            _line(axes, kind, start, stop)
    for column in columns:
        _words(axes, column.x + column.width / 2, 9.0, str(column.step), QUIET, 10.0)
        if column.skipped:
            _words(axes, column.x - 18.0, HEAD + 11.0, "⋯", QUIET, 11.0)
        for node in column.nodes:
            _node(axes, column, node, view)
    _fall(axes, columns, view)
    return figure


def _line(axes: Any, kind: str, start: svg.Point, stop: svg.Point) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    middle, look = (start[0] + stop[0]) / 2, LINES[kind]
    path = Path([start, (middle, start[1]), (middle, stop[1]), stop], [Path.MOVETO, *[Path.CURVE4] * 3])
    axes.add_patch(
        PathPatch(
            path, fill=False, edgecolor=look["stroke"], linewidth=float(str(look["stroke_width"])) * POINT,
            linestyle=_dashes(look.get("stroke_dasharray")), alpha=look.get("opacity"),
            zorder=1 + list(LINES).index(kind),
        )
    )  # fmt: skip


def _node(axes: Any, column: Column, node: BeamNode, view: BeamView) -> None:
    fill, stroke, width, dashes = look_of(column, node)
    y = top(node, view)
    _box(axes, column, y, 0.0, fill=fill, stroke=stroke, width=width, dashes=dashes)
    if node["reference"]:
        _box(axes, column, y, 3.0, fill="none", stroke=REFERENCE, width=1.6)
    faint = node["state"] in ("pruned", "copy")
    text = svg.elided(text_of(node), 11, column.width - 8.0, bold=node["best"])
    middle = column.x + column.width / 2
    _words(axes, middle, y + (ROW - 4) / 2, text, FAINT if faint else INK, 11.0, bold=node["best"])


def _box(axes: Any, column: Column, y: float, around: float, **look: Any) -> None:
    from matplotlib.patches import Rectangle

    size = column.width + 2 * around, (ROW - 4) + 2 * around
    box = Rectangle(
        (column.x - around, y - around), *size, facecolor=look["fill"], edgecolor=look["stroke"],
        linewidth=look["width"] * POINT, linestyle=_dashes(look.get("dashes")), zorder=len(LINES) + 1,
    )  # fmt: skip
    axes.add_patch(box)


def _dashes(given: object) -> Any:
    return "solid" if given is None else (0.0, [float(part) for part in str(given).split()])


def _words(axes: Any, x: float, y: float, text: str, colour: str, size: float, *, bold: bool = False) -> None:
    axes.text(
        x, y, literal(text), color=colour, fontsize=size * POINT, fontweight="bold" if bold else "normal",
        ha="center", va="center", zorder=len(LINES) + 2,
    )  # fmt: skip


def _fall(axes: Any, columns: list[Column], view: BeamView) -> None:
    """Scissors where the reference fell out."""
    fall = view["reference"]["fall"] if view["reference"] is not None else None
    column = next((column for column in columns if fall is not None and column.step == fall["step"]), None)
    if fall is None or column is None:
        return
    row = view["beam"] if fall["row"] is None else fall["row"]
    y = HEAD + row * ROW + (0.0 if fall["row"] is None else FOOT)
    _words(axes, column.x - 9.0, y + (ROW - 4) / 2, "✂", "#c2410c", 13.0)
    if fall["row"] is not None:
        _box(axes, column, y, 3.0, fill="none", stroke=REFERENCE, width=1.6, dashes="4 2")
