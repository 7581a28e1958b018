"""Where boxes go when a node opens: Python lays out again, scripts move what is drawn. One golden holds both to it.

`extension/test/pictures/unfold.test.ts` reads the same file. Rows and sizes are the same in both. Sideways, scripts
keep the middle of a node and Python keeps the line that runs through it, so x agrees where that line is in the middle.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import rfnb as rf
from rfnb.display.graph import view as view_of_graph
from tests.display.graph.graph_models import Model, Stack, describe, time

BOX = ("id", "x", "y", "w", "h", "tail", "rank", "column")


def root(model: rf.Module, **options: Any) -> dict[str, Any]:
    """The outermost body as scripts get it, without what is drawn in it."""
    scripts = view_of_graph.to_scripts(describe(model, time(), depth=0, **options))
    body = scripts["bodies"][scripts["root"]]
    boxes = [{key: node[key] for key in BOX} for node in body["nodes"]]
    return {**{key: body[key] for key in ("width", "height", "columns", "edges")}, "nodes": boxes}


def case(model: rf.Module, path: str) -> dict[str, Any]:
    """The body before and after this node opens."""
    closed, opened = root(model), root(model, open=path)
    grown = next(box for box, old in zip(opened["nodes"], closed["nodes"], strict=True) if box["h"] != old["h"])
    line = next(edge["points"][-1][0] for edge in opened["edges"] if edge["to"] == grown["id"])
    in_the_middle = abs(line - grown["x"] - grown["w"] / 2) < 1
    return {"open": path, "line_in_the_middle": in_the_middle, "before": closed, "after": opened}


def test_boxes_are_where_scripts_put_them(golden: Callable[[str, str], None]):
    cases = [case(Model(1), "stack"), case(Model(1), "sums"), case(Stack(3), "last")]
    assert [each["line_in_the_middle"] for each in cases] == [True, False, False]
    text = ",\n".join(json.dumps(each) for each in cases)
    golden("unfold.json", f"[\n{text}\n]\n")
