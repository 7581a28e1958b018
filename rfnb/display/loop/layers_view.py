"""The view of `net.explain(…)`: where each layer of a recurrent net is computed, and what keeps it in the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.ground.text import count_of
from rfnb.display.loop.layers_schema import LayerPlaceView, NetExplanationView
from rfnb.display.markup import style
from rfnb.display.markup.grid import Table, aligned
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.widgets_html import quiet, row

if TYPE_CHECKING:
    from rfnb.network.rec.explain import ExplainedLayer, NetExplanation

HUES = {"before the loop": 0, "each step": 1, "after the loop": 3}
"""Index of the colour in the palette, by place."""
PLACES = {"before the loop": "before the loop", "each step": "in each step", "after the loop": "after the loop"}
LONGEST = 6
"""Names of a path that are shown; those in the middle of a longer one are left out."""


def describe(explanation: NetExplanation) -> NetExplanationView:
    """The layers with their places."""
    return {
        "kind": "net_explanation",
        "name": explanation.name,
        "axis": explanation.axis,
        "layers": [_layer(each) for each in explanation.rows],
    }


def _layer(each: ExplainedLayer) -> LayerPlaceView:
    return {
        "name": each.name, "cls": each.layer_class, "line": each.line, "where": each.place,
        "step": each.step, "whole": each.whole, "path": list(each.path), "why": each.why,
    }  # fmt: skip


def headline(view: NetExplanationView) -> str:
    """`2 layers before the loop, 9 in each step, 1 after the loop`"""
    counts = {where: sum(each["where"] == where for each in view["layers"]) for where in PLACES}
    totals = [(count, PLACES[where]) for where, count in counts.items() if count]
    words = [f"{count} {where}" for count, where in totals]
    return ", ".join([f"{count_of(totals[0][0], 'layer')} {totals[0][1]}", *words[1:]]) if totals else "no layers"


def path_of(layer: LayerPlaceView) -> str:
    """`s ← prev:att ← att ← … ← s`"""
    names = layer["path"]
    if len(names) > LONGEST:
        names = [*names[: LONGEST - 2], "…", names[-1]]
    return " ← ".join(names)


def _reason(layer: LayerPlaceView) -> str:
    return "; ".join(filter(None, [path_of(layer), layer["why"]]))


def _dims(layer: LayerPlaceView) -> str:
    """The dims where the layer is computed: with the axis of the loop outside of it."""
    return layer["step"] if layer["where"] == "each step" else layer["whole"]


def to_text(view: NetExplanationView) -> str:
    """The totals, and a line for each layer."""
    rows = [[each["name"], each["cls"], each["where"], _dims(each), _reason(each)] for each in view["layers"]]
    return "\n".join([f"{view['name']}, a loop over {view['axis']}: {headline(view)}", *aligned(rows)])


def to_table(view: NetExplanationView) -> Table:
    """A row for each layer."""
    rows = [
        [each["name"], each["cls"], each["line"], each["where"], each["step"], each["whole"],
         " ← ".join(each["path"]), each["why"]]
        for each in view["layers"]
    ]  # fmt: skip
    return Table(["layer", "class", "line", "where", "in a step", "outside", "path", "why"], rows)


def to_html(view: NetExplanationView) -> Html:
    """The totals, and a table of the layers."""
    titles = ["layer", "class", "where", "dims in a step", "dims outside of the loop", "what keeps it in the steps"]
    rows = [_row(each) for each in view["layers"]]
    head = el("div", el("span", view["name"], style=style.NAME), quiet(f" · over {view['axis']} · {headline(view)}"))
    table = el("table", row(*titles, look=f"{style.LEFT_CELL};{style.QUIET}", tag="th"), rows, style=style.TABLE)
    return el("div", head, table, style=style.BOX)


def _row(each: LayerPlaceView) -> Html:
    chip = el("span", each["where"], style=f"{style.chip(style.PALETTE[HUES[each['where']]])};white-space:nowrap")
    line = quiet(f" line {each['line']}") if each["line"] is not None else None
    name = el("span", each["name"], line, style="white-space:nowrap" if len(each["name"]) <= 40 else None)
    path = el("span", path_of(each), title=" ← ".join(each["path"])) if each["path"] else None
    why = quiet(f"{'; ' if path is not None else ''}{each['why']}") if each["why"] else None
    return row(name, quiet(each["cls"]), chip, each["step"], each["whole"], [path, why])
