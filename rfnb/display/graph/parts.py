"""The picture as parts, from which scripts put it together with other nodes open."""

from __future__ import annotations

from typing import Any

from rfnb.display.graph.cards import FRAME, Card, card, frame
from rfnb.display.graph.picture import Painter
from rfnb.display.graph.rows import name, value_text
from rfnb.display.schema import GraphNode, GraphView

BYTES = 150_000
"""Bodies that are not drawn yet are left out when this is full."""


def to_scripts(view: GraphView) -> dict[str, Any]:
    """Bodies with what is drawn now, then outer ones before inner ones."""
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
    for made in bodies.values():
        for node in made["nodes"]:
            if node["body"] not in bodies:
                node["body"], node["other"] = None, None
    return {"kind": "graph", "root": view["root"], "open": view["open"], "frame": FRAME, "bodies": bodies}


def _size(body: dict[str, Any]) -> int:
    """About how many bytes."""
    others = sum(len(node["other"]["svg"]) for node in body["nodes"] if node["other"])
    return len(body["svg"]) + others + 260 * len(body["nodes"]) + 130 * len(body["edges"])


def _body(view: GraphView, painter: Painter, key: str) -> dict[str, Any]:
    picture, body = painter.body(key), view["bodies"][key]
    drawing = picture.drawing
    return {
        "width": _short(drawing.width),
        "height": _short(drawing.height),
        "columns": [[_short(left), _short(right)] for left, right in drawing.columns],
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


def _other(view: GraphView, painter: Painter, node: GraphNode) -> dict[str, Any] | None:
    """The node in its other state."""
    if node["body"] is None:
        return None
    if node["id"] in painter.open:
        made: Card = card(view, node)
    else:
        inner = painter.body(node["body"]).drawing
        made = frame(view, node, inner.width, inner.height)
    return {"w": _short(made.width), "h": _short(made.height), "tail": _short(made.tail), "svg": made.svg}


def _text(view: GraphView, node: GraphNode) -> str:
    outputs = [value_text(view, value) for value in node["outputs"]]
    words = [name(node), "" if node["cls"] == node["name"] else node["cls"], *outputs, *node["notes"]]
    return " ".join(filter(None, words))


def _short(number: float) -> float:
    return round(number, 1)
