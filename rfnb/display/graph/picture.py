"""Bodies as drawings, laid out from the inside out, because an open node is as large as its body.

`to_scripts` gives the same picture in parts, from which scripts draw it with other nodes open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from rfnb.display.graph.cards import FAINT, FRAME, Card, card, frame
from rfnb.display.graph.schema import GraphNode, GraphView
from rfnb.display.graph.unfold import name, value_text
from rfnb.display.layout.layered import draw
from rfnb.display.layout.layers import Link
from rfnb.display.layout.route import Drawing
from rfnb.display.markup import svg
from rfnb.display.markup.html import Html

LINE, BACK = "#878c96", "#4f7ac0"
TIP = Html(
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6.5" markerHeight="6.5" orient="auto">'
    f'<path d="M1,0.8L7,4L1,7.2" fill="none" stroke="{LINE}" stroke-width="1.5"/></marker></defs>'
)
JOG = 40.0
"""Shift up to which lines are kept straight, in pixels."""
LEGEND = 14.0
"""Height of a line of the legend, in pixels."""
WIDTH = 900.0
"""Width of a notebook cell, in pixels."""


@dataclass
class GraphPicture:
    """The picture of a body: its layout and its SVG."""

    drawing: Drawing
    svg: Html


class Painter:
    """Draws the bodies of a view."""

    def __init__(self, view: GraphView, width: float = WIDTH):
        self.view, self.open = view, set(view["open"])
        self.width = width
        self._done: dict[str, GraphPicture] = {}
        nodes = (node for body in view["bodies"].values() for node in body["nodes"])
        outputs = (value for node in nodes for value in node["outputs"] if value["dims"])
        self._serials = {v["value"]: " ".join(str(view["dims"][i]["serial"]) for i in v["dims"]) for v in outputs}

    def body(self, key: str, depth: int = 0) -> GraphPicture:
        """The picture of a body, with open nodes drawn open."""
        if key not in self._done:
            self._done[key] = self._painted(key, depth)
        return self._done[key]

    def _painted(self, key: str, depth: int) -> GraphPicture:
        body = self.view["bodies"][key]
        cards = [self.node(node, depth) for node in body["nodes"]]
        place = {node["id"]: i for i, node in enumerate(body["nodes"])}
        links = [
            Link(place[e["source"]], place[e["target"]], e["value"],
                 cards[place[e["source"]]].exits.get(e["value"], 0.0), e["back"])
            for e in body["edges"]
        ]  # fmt: skip
        room = self.width - 2 * FRAME["pad"] * depth
        drawing = draw(cards, links, width=room, tall=640.0 if depth == 0 else 560.0)
        return GraphPicture(drawing, self._svg(key, drawing, cards))

    def node(self, node: GraphNode, depth: int = 0) -> Card:
        """The drawing of a node, open or closed."""
        return self.opened(node, depth) if node["id"] in self.open and node["body"] else card(self.view, node)

    def opened(self, node: GraphNode, depth: int = 0) -> Card:
        """The drawing of an open node with its body."""
        assert node["body"] is not None
        inner = self.body(node["body"], depth + 1)
        outer = frame(self.view, node, inner.drawing.width, inner.drawing.height)
        drawn = svg.group(outer.svg, svg.group(inner.svg, at=(FRAME["pad"], FRAME["head"])))
        axis, exits = self._aligned(outer.width, node, inner)
        return replace(outer, svg=drawn, axis=axis, exits=exits)

    def _aligned(self, width: float, node: GraphNode, inner: GraphPicture) -> tuple[float, dict[int, float]]:
        """Aligns an open node with its body: a single line continues straight inside, and leaves straight below."""
        body = self.view["bodies"][node["body"] or ""]
        pairs = list(zip(body["nodes"], inner.drawing.boxes, strict=True))
        ins = [box.axis + FRAME["pad"] for child, box in pairs if child["kind"] in ("input", "frame")]
        outs = [box.axis + FRAME["pad"] for child, box in pairs if child["kind"] == "output"]
        axis = ins[0] if len(ins) == 1 else width / 2
        leave = outs[0] - axis if len(outs) == 1 else 0.0
        return axis, {value["value"]: leave for value in node["outputs"] if abs(leave) > JOG}

    def _svg(self, key: str, drawing: Drawing, cards: list[Card]) -> Html:
        body = self.view["bodies"][key]
        edges = [
            svg.group(
                svg.path(line.points, smooth=line.smooth, marker_end="url(#tip)",
                         stroke=BACK if line.back else None,
                         stroke_dasharray="4 3" if line.back or body["edges"][i]["value"] < 0 else None),
                data_edge=i, data_rfnb_dim=self._serials.get(body["edges"][i]["value"]),
            )
            for i, line in enumerate(drawing.lines)
        ]  # fmt: skip
        nodes = [
            svg.group(
                face.svg, at=(box.x, box.y), data_node=node["id"], data_body=node["body"],
                data_open="" if node["id"] in self.open and node["body"] else None,
            )
            for node, face, box in zip(body["nodes"], cards, drawing.boxes, strict=True)
        ]  # fmt: skip
        return svg.group(svg.group(edges, fill="none", stroke=LINE, stroke_width=1.2), nodes)

    def image(self, legend: Sequence[str] = ()) -> tuple[Html, float]:
        """The whole picture and its width; above it the lines of a legend."""
        root = self.body(self.view["root"])
        width, height = max(root.drawing.width, 40.0), max(root.drawing.height, 20.0)
        lines = [part for line in legend for part in wrap(line, max(int(width / 5.6), 40))]
        words = [svg.words(2, 12 + LEGEND * i, line, font_size=10, fill=FAINT) for i, line in enumerate(lines)]
        top = LEGEND * len(lines) + (8 if lines else 0)
        picture = svg.group(root.svg, at=(0, top)) if lines else root.svg
        width = max([width, *(svg.width(line, 10) + 4 for line in lines)])
        return svg.image(width, height + top, TIP, *words, picture), width


BYTES = 150_000
"""Budget for bodies that are not visible at first, in bytes; the rest is left out."""


def to_scripts(view: GraphView) -> dict[str, object]:
    """The picture in parts: visible bodies first, then outer ones before inner ones."""
    painter = Painter(view)
    bodies: dict[str, Any] = {}
    waiting: list[str] = [view["root"]]
    later: list[str] = []
    size = 0
    while waiting or (later and size < BYTES):
        key = waiting.pop(0) if waiting else later.pop(0)
        if key in bodies:
            continue
        bodies[key] = _body(view, painter, key)
        size += _size(bodies[key])
        for node in view["bodies"][key]["nodes"]:
            if node["body"]:
                (waiting if node["id"] in painter.open else later).append(node["body"])
    for body in bodies.values():
        for node in body["nodes"]:
            if node["body"] not in bodies:
                node["body"], node["other"] = None, None
    return {"kind": "graph", "root": view["root"], "open": view["open"], "frame": FRAME, "bodies": bodies}


def _size(body: dict[str, Any]) -> int:
    """The approximate size of a body, in bytes."""
    extra = sum(len(node["other"]["svg"]) for node in body["nodes"] if node["other"])
    return len(body["svg"]) + extra + 260 * len(body["nodes"]) + 130 * len(body["edges"])


def _body(view: GraphView, painter: Painter, key: str) -> dict[str, object]:
    picture, body = painter.body(key), view["bodies"][key]
    drawing = picture.drawing
    return {
        "width": _short(drawing.width),
        "height": _short(drawing.height),
        "columns": [[_short(start), _short(right)] for start, right in drawing.columns],
        "svg": picture.svg,
        "nodes": [
            {
                "id": node["id"],
                "name": node["name"],
                "path": node["path"],
                "text": _text(view, node),
                "x": _short(box.x),
                "y": _short(box.y),
                "w": _short(box.width),
                "h": _short(box.height),
                "tail": _short(box.tail),
                "rank": box.rank,
                "column": box.column,
                "body": node["body"],
                "open": node["id"] in painter.open and node["body"] is not None,
                "other": _other(view, painter, node),
            }
            for node, box in zip(body["nodes"], drawing.boxes, strict=True)
        ],
        "edges": [
            {
                "id": i,
                "from": edge["source"],
                "to": edge["target"],
                "back": line.back,
                "shape": "smooth" if line.smooth else "round",
                "points": [[_short(x), _short(y)] for x, y in line.points],
            }
            for i, (edge, line) in enumerate(zip(body["edges"], drawing.lines, strict=True))
        ],
    }


def _other(view: GraphView, painter: Painter, node: GraphNode) -> dict[str, object] | None:
    """The node in its other state: closed if it is open, and vice versa."""
    if node["body"] is None:
        return None
    if node["id"] in painter.open:
        face: Card = card(view, node)
    else:
        inner = painter.body(node["body"]).drawing
        face = frame(view, node, inner.width, inner.height)
    return {"w": _short(face.width), "h": _short(face.height), "tail": _short(face.tail), "svg": face.svg}


def _text(view: GraphView, node: GraphNode) -> str:
    outputs = [value_text(view, value) for value in node["outputs"]]
    number = node.get("number")
    numbers = [] if number is None else [number["text"], *number["more"]]
    words = [name(node), "" if node["cls"] == node["name"] else node["cls"], *outputs, *numbers, *node["notes"]]
    return " ".join(filter(None, words))


def _short(number: float) -> float:
    return round(number, 1)
