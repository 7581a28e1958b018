"""The tree of a beam search as SVG and as a figure of matplotlib: steps to the right, places in the beam downwards."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from rfnb.display.beam.schema import BeamFall, BeamNode, BeamStep, BeamView
from rfnb.display.markup import svg
from rfnb.display.markup.html import Child, Html, el, quiet
from rfnb.display.markup.svg import figure_class, literal
from rfnb.errors import ViewError

ROW, GAP, HEAD, FOOT = 24.0, 22.0, 20.0, 6.0
"""Height of a row, width between columns, height of the header, distance to the pruned candidates."""
LEAST, MOST = 26.0, 84.0
"""Least and largest width of a column."""
INK, FAINT, EDGE, SKIPPED = "#1c2733", "#59636e", "#9aa3ad", "#808080"
BEST, REFERENCE, JOINED = "#0072b2", "#00875f", "#b05a00"
TINTS = ("#ffffff", "#eaf2f8", "#cfe3f1", "#a9cfe8", "#7db8de")
"""From the worst to the best score of a step."""
PAPER = "#f3f5f7"
"""Behind what has no score: its text reads alike on light and on dark pages."""
STEPS = 60
"""Largest number of steps that are drawn."""
PRUNED = 4
"""Pruned candidates that are drawn of each step, if no number is given; fewer if there are many steps."""


def image(view: BeamView) -> str:
    """The picture of the whole tree."""
    columns, width, height = placed(view)
    edges = [edge for previous, column in pairwise(columns) for edge in edges_of(previous, column, view)]
    return svg.image(
        width, height,
        *_header(columns),
        *_lines(edges),
        *_boxes(columns, view),
        *_labels(columns, view),
        *_fall(columns, view),
    )  # fmt: skip


def drawn_steps(steps: int, fall: int | None, most: int = STEPS) -> list[int]:
    """All steps; of many, the first and last ones, and those around the fall of a reference."""
    if steps <= most:
        return list(range(steps))
    third, middle = most // 3, steps // 2 if fall is None else fall
    near = range(max(0, middle - third // 2), min(steps, middle + third // 2))
    return sorted({*range(third), *near, *range(steps - third, steps)})


def drawn(view: BeamView) -> list[BeamStep]:
    """The columns and nodes that fit into the picture."""
    fall = _fall_step(view)
    steps = set(drawn_steps(view["steps"], fall))
    columns: list[BeamStep] = []
    for column in view["columns"]:
        if column["step"] in steps:
            previous = columns[-1]["step"] if columns else -1
            rows = view["beam"] + pruned_rows(view, column["step"])
            nodes = [node for node in column["nodes"] if node["row"] < rows]
            columns.append({"step": column["step"], "nodes": nodes, "skipped": column["step"] - previous - 1})
    return columns


def pruned_rows(view: BeamView, step: int) -> int:
    """How many pruned candidates of a step are drawn; where the reference falls out, the usual number."""
    pruned = view.get("pruned", PRUNED)
    return max(pruned, PRUNED) if pruned and step == _fall_step(view) else pruned


def _fall_of(view: BeamView) -> BeamFall | None:
    return None if view["reference"] is None else view["reference"]["fall"]


def _fall_step(view: BeamView) -> int | None:
    fall = _fall_of(view)
    return None if fall is None else fall["step"]


def placed(view: BeamView) -> tuple[list[Column], float, float]:
    """The columns at their places; width and height of the picture."""
    columns = [Column(column) for column in drawn(view)]
    x = 18.0 if _fall_step(view) == columns[0].step else 4.0  # with room for the scissors
    for column in columns:
        x += 26.0 if column.skipped else 0.0
        column.x = x
        x += column.width + GAP
    rows = 1 + max((node["row"] for column in columns for node in column.nodes), default=0)
    return columns, x - GAP + 6.0, HEAD + rows * ROW + (FOOT if rows > view["beam"] else 0.0) + 4.0


class Column:
    """A step: its nodes, its place from the left, its width, and the range of its scores."""

    def __init__(self, step: BeamStep):
        self.step, self.nodes, self.skipped = step["step"], step["nodes"], step["skipped"]
        self.x = 0.0
        texts = [svg.width(text_of(node), 11, bold=node["best"]) for node in self.nodes]
        self.width = min(MOST, max(LEAST, max(texts, default=0.0) + 10.0))
        scores = [node["score"] for node in self.nodes if node["state"] != "pruned" and math.isfinite(node["score"])]
        self.high, self.low = max(scores, default=0.0), min(scores, default=0.0)

    def tint(self, node: BeamNode) -> str:
        """A stronger colour for a better score."""
        apart = self.high - self.low
        share = 1.0 if not apart else (node["score"] - self.low) / apart
        return TINTS[round(share * (len(TINTS) - 1))] if math.isfinite(share) else TINTS[0]


def text_of(node: BeamNode) -> str:
    """What a box says."""
    return ("·" if node["state"] == "copy" else node["text"] or "∅") + (" ▣" if node["ends"] else "")


def top(node: BeamNode, view: BeamView) -> float:
    """How far down a box begins."""
    return HEAD + node["row"] * ROW + (FOOT if node["row"] >= view["beam"] else 0.0)


def _header(columns: list[Column]) -> Iterable[Html]:
    """The numbers of the steps, on a ground of their own, and dots where steps are left out."""
    texts, grounds = [], ""
    for column in columns:
        middle, number = column.x + column.width / 2, str(column.step)
        wide = svg.width(number, 10) + 8
        grounds += f"M{svg.number(middle - wide / 2)},2h{svg.number(wide)}v13h-{svg.number(wide)}z"
        texts.append(svg.words(middle, 12, number))
        if column.skipped:
            yield svg.words(column.x - 22, HEAD + 15, "⋯", fill=SKIPPED)
    yield el("path", d=grounds, fill=PAPER)
    yield svg.group(*texts, fill=FAINT, text_anchor="middle", font_size=10)


Edge = tuple[str, svg.Point, svg.Point]


def edges_of(before: Column, column: Column, view: BeamView) -> Iterable[Edge]:
    """The kind and the two ends of each line from a parent, and from a hypothesis that joined it."""
    if column.skipped:
        return
    at = {node["row"]: node for node in before.nodes if node["state"] != "pruned"}

    def line(parent: BeamNode, node: BeamNode) -> tuple[svg.Point, svg.Point]:
        y, v = top(parent, view) + ROW / 2 - 2, top(node, view) + ROW / 2 - 2
        return (before.x + before.width, y), (column.x, v)

    for node in column.nodes:
        parent, partner = (at.get(-1 if place is None else place) for place in (node["parent"], node["joined"]))
        if parent is not None:
            kind = "best" if node["best"] and parent["best"] else node["state"]
            marked = node["reference"] and parent["reference"] and kind != "best"
            yield "reference" if marked else kind, *line(parent, node)
        if partner is not None:
            yield "joined", *line(partner, node)


LINES = {
    "pruned": {"stroke": EDGE, "stroke_width": 0.8, "stroke_dasharray": "2 2", "opacity": 0.6},
    "copy": {"stroke": EDGE, "stroke_width": 1, "stroke_dasharray": "1 3"},
    "joined": {"stroke": JOINED, "stroke_width": 1.2, "stroke_dasharray": "4 2"},
    "dies": {"stroke": EDGE, "stroke_width": 1},
    "lives": {"stroke": "#5d6b78", "stroke_width": 1.4},
    "reference": {"stroke": REFERENCE, "stroke_width": 1.6},
    "best": {"stroke": BEST, "stroke_width": 2.6},
}
"""How lines are drawn, the last ones on top."""


def _lines(edges: Iterable[Edge]) -> list[Html]:
    """One path for all lines of a kind."""
    paths: dict[str, list[str]] = {}
    for kind, start, stop in edges:
        paths.setdefault(kind, []).append(svg.sideways(start, stop))
    return [el("path", d="".join(paths[kind]), fill="none", **look) for kind, look in LINES.items() if kind in paths]


def _boxes(columns: list[Column], view: BeamView) -> list[Html]:
    """One path for all boxes that look alike."""
    paths: dict[Look, list[str]] = {}
    for column in columns:
        for node in column.nodes:
            y, w, h = top(node, view), svg.number(column.width), svg.number(ROW - 4)
            box = f"M{svg.number(column.x)},{svg.number(y)}h{w}v{h}h-{w}z"
            paths.setdefault(look_of(column, node), []).append(box)
            if node["reference"]:
                rim = _around(column, y)
                paths.setdefault(("none", REFERENCE, 1.6, None), []).append(rim)
    looks = sorted(paths, key=lambda look: (look[2], look[0] == "none"))
    return [
        el("path", d="".join(paths[look]), fill=look[0], stroke=look[1], stroke_width=look[2],
           stroke_dasharray=look[3], stroke_linejoin="round")
        for look in looks
    ]  # fmt: skip


Look = tuple[str, str, float, str | None]
"""Fill, stroke, its width, its dashes."""


def look_of(column: Column, node: BeamNode) -> Look:
    """How a box is drawn."""
    if node["state"] in ("pruned", "copy"):
        return PAPER, EDGE, 0.8, "2 2" if node["state"] == "pruned" else None
    return (column.tint(node), BEST, 2.2, None) if node["best"] else (column.tint(node), EDGE, 0.8, None)


def _around(column: Column, y: float) -> str:
    w, h = svg.number(column.width + 6), svg.number(ROW + 2)
    return f"M{svg.number(column.x - 3)},{svg.number(y - 3)}h{w}v{h}h-{w}z"


def _labels(columns: list[Column], view: BeamView) -> list[Html]:
    """The labels of the nodes, with their scores as titles where there are few."""
    nodes = [(column, node) for column in columns for node in column.nodes]
    groups: dict[str, list[Html]] = {"plain": [], "faint": [], "best": []}
    for column, node in nodes:
        kind = "faint" if node["state"] in ("pruned", "copy") else "best" if node["best"] else "plain"
        text = svg.elided(text_of(node), 11, column.width - 8.0, bold=node["best"])
        title = el("title", f"{node['text']}  {node['score']:.4g}") if len(nodes) <= TITLES else None
        x, y = svg.number(column.x + column.width / 2), svg.number(top(node, view) + 14)
        groups[kind].append(el("text", text, title, x=x, y=y))
    return [
        svg.group(
            *texts, text_anchor="middle", fill=FAINT if kind == "faint" else INK,
            font_weight="bold" if kind == "best" else None,
        )
        for kind, texts in groups.items()
        if texts
    ]  # fmt: skip


TITLES = 400
"""Up to this many nodes, each has its score as a title."""


def _fall(columns: list[Column], view: BeamView) -> list[Html]:
    """Scissors where the reference fell out."""
    place, fall = _fall_place(columns, view), _fall_of(view)
    if place is None or fall is None:
        return []
    column, y, framed = place
    marks = [svg.words(column.x - 15, y + 15, "✂", fill="#c2410c", font_size=13)]
    if framed:
        rim = _around(column, y)
        marks.append(el("path", d=rim, fill="none", stroke=REFERENCE, stroke_width=1.6, stroke_dasharray="4 2"))
    return [svg.group(el("title", fall["words"]), marks)]


def _fall_place(columns: list[Column], view: BeamView) -> tuple[Column, float, bool] | None:
    """The column where the reference fell out, how far down, and whether its candidate is drawn there."""
    fall = _fall_of(view)
    column = next((column for column in columns if fall is not None and column.step == fall["step"]), None)
    if column is None or fall is None:
        return None
    row = fall["row"]
    if row is None or row >= view["beam"] + pruned_rows(view, column.step):
        return column, HEAD + view["beam"] * ROW, False
    return column, HEAD + row * ROW + FOOT, True


def legend_html(view: BeamView) -> Html:
    """What the marks mean that occur in the picture; scripts draw a legend of their own."""
    columns = drawn(view)
    nodes = [node for column in columns for node in column["nodes"]]
    states = {node["state"] for node in nodes}
    shades = [_swatch(fill, EDGE) for fill in TINTS]
    items: list[tuple[bool, Child, str]] = [
        (True, "→", "step by step"),
        (bool(states & {"lives", "dies"}), shades, "score: the bluer, the better in its step"),
        (any(node["best"] for node in nodes), _swatch(TINTS[-1], BEST, 2), "the best hypothesis"),
        ("pruned" in states, _swatch(PAPER, EDGE, 1, "dashed"), "pruned: found no place in the beam"),
        (any(node["ends"] for node in nodes), "▣", "ends here"),
        (any(text_of(node) == "·" for node in nodes), "·", "had ended before"),
        ("living" in view, "↕", f"{view.get('living')} places go on, those below have ended"),
        (any(node["joined"] is not None for node in nodes), _swatch("transparent", JOINED, 1, "dashed"),
         "joined: the labels are the same"),
        (any(node["reference"] for node in nodes), _swatch("transparent", REFERENCE, 2), "the reference"),
        (_fall_place([Column(column) for column in columns], view) is not None, "✂", "the reference fell out"),
    ]  # fmt: skip
    look = "display:inline-block;margin-right:14px"
    marks = [el("span", mark, " ", quiet(words), " ", style=look) for occurs, mark, words in items if occurs]
    return el("div", marks, style="font-size:12px", data_rfnb_still=True)


def _swatch(fill: str, stroke: str, width: int = 1, line: str = "solid") -> Html:
    look = f"display:inline-block;width:11px;height:9px;background-color:{fill};border:{width}px {line} {stroke}"
    return el("span", style=look)


INCH = 96.0
"""Units of the picture in an inch."""
POINT = 72.0 / INCH
"""A unit of the picture in points."""


def to_figure(view: BeamView) -> object:
    """The tree; text stays text. Raises ViewError without matplotlib, or if there is no step to draw."""
    if not view["columns"]:
        raise ViewError("beam: there is no step to draw", got=view["name"])
    Figure = figure_class()
    columns, width, height = placed(view)
    figure = Figure(figsize=(width / INCH, height / INCH))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, width), ylim=(height, 0.0))
    axes.set_axis_off()
    for previous, column in pairwise(columns):
        for kind, start, stop in edges_of(previous, column, view):
            _line(axes, kind, start, stop)
    for column in columns:
        _words(axes, column.x + column.width / 2, 9.0, str(column.step), FAINT, 10.0)
        if column.skipped:
            _words(axes, column.x - 18.0, HEAD + 11.0, "⋯", FAINT, 11.0)
        for node in column.nodes:
            _node(axes, column, node, view)
    _draw_fall(axes, columns, view)
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


def _node(axes: object, column: Column, node: BeamNode, view: BeamView) -> None:
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


def _dashes(pattern: object) -> object:
    return "solid" if pattern is None else (0.0, [float(part) for part in str(pattern).split()])


def _words(axes: Any, x: float, y: float, text: str, colour: str, size: float, *, bold: bool = False) -> None:
    axes.text(
        x, y, literal(text), color=colour, fontsize=size * POINT, fontweight="bold" if bold else "normal",
        ha="center", va="center", zorder=len(LINES) + 2,
    )  # fmt: skip


def _draw_fall(axes: object, columns: list[Column], view: BeamView) -> None:
    """Scissors where the reference fell out."""
    place = _fall_place(columns, view)
    if place is not None:
        column, y, framed = place
        _words(axes, column.x - 9.0, y + (ROW - 4) / 2, "✂", "#c2410c", 13.0)
        if framed:
            _box(axes, column, y, 3.0, fill="none", stroke=REFERENCE, width=1.6, dashes="4 2")
