"""The graph as rows of text: the boxes of the picture from top to bottom."""

from __future__ import annotations

from rfnb.core.graph.meter import SUMMED
from rfnb.display.graph.cards import amount
from rfnb.display.graph.measures import COLUMNS as NUMBERS
from rfnb.display.graph.schema import GraphNode, GraphValue, GraphView
from rfnb.display.graph.unfold import shown
from rfnb.display.kit.dims import dims_text
from rfnb.display.markup.grid import Table
from rfnb.display.markup.numbers import percent

COLUMNS = ("node", "class", "output", "parameters", "notes")
MOST = 400
"""Largest number of rows."""
SIGNS = {"input": "→ ", "output": "← ", "frame": "→ ", "state": "↻ "}


def to_table(view: GraphView) -> Table:
    """A row for each box; inner boxes are indented."""
    measured, columns = view.get("measured"), list(COLUMNS)
    if measured:
        columns[1:1] = [NUMBERS[measured["show"]], *(["share"] if measured["show"] in SUMMED else [])]
    rows = [[f"{'  ' * depth}{name(node)}", *_number(view, node), *_cells(view, node)] for depth, node in shown(view)]
    if len(rows) > MOST:
        rows = [*rows[:MOST], [f"… {len(rows) - MOST:,} more", *[""] * (len(columns) - 1)]]
    return Table(columns, rows)


def _number(view: GraphView, node: GraphNode) -> list[str]:
    """What was measured of a box; no cells if nothing was measured at all."""
    measured, number = view.get("measured"), node.get("number")
    if not measured:
        return []
    share = None if number is None else number["share"]
    shares = ["" if share is None else percent(share)] if measured["show"] in SUMMED else []
    return ["" if number is None else number["text"], *shares]


def name(node: GraphNode) -> str:
    """`layers.0–11 × 12`, `→ x`"""
    times = f" × {node['times']}" if node["times"] > 1 else ""
    return f"{SIGNS.get(node['kind'], '')}{node['name']}{times}"


def value_text(view: GraphView, value: GraphValue) -> str:
    """`{batch:3, time:2–5 Σ10}`, `[3, 5]`"""
    if value["shape"] is not None:
        return str(value["shape"])
    return dims_text(view["dims"][i] for i in value["dims"])


def _cells(view: GraphView, node: GraphNode) -> list[str]:
    role = {"input": "in", "output": "out", "frame": "in, each step", "state": "state"}.get(node["kind"], node["cls"])
    many = len(node["outputs"]) > 1
    outputs = ", ".join(f"{value['name']} " * many + value_text(view, value) for value in node["outputs"])
    failed = (
        ["failed here" if _is_the_one(view, node) else "failed inside"] if view["failure"] is not None else ["stops"]
    )
    number = node.get("number")
    extra = [] if number is None else number["more"]
    notes = [*extra, *(failed if node["status"] == "failed" else []), *node["notes"], *filter(None, [node["options"]])]
    return [
        "" if role == node["name"] else role, outputs, amount(node["params"]) if node["params"] else "",
        " · ".join(notes),
    ]  # fmt: skip


def _is_the_one(view: GraphView, node: GraphNode) -> bool:
    return view["failure"] is not None and view["failure"]["node"] == node["id"]
