"""The view of `net.explain(…)`: where each layer of a recurrent net is computed, and what keeps it in the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from rfnb.core.ground.text import count_of
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, aligned, quiet, row
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import duration, percent

if TYPE_CHECKING:
    from rfnb.netdict.loops.explain import ExplainedLayer, NetExplanation


class LayerPlaceView(TypedDict):
    """A layer of a recurrent net, and where it is computed."""

    name: str
    cls: str
    line: int | None  # of the config
    where: Literal["before the loop", "each step", "after the loop"]
    step: str  # its dims in a step
    whole: str  # its dims outside of the loop
    path: list[str]  # each needs the next one; they keep the layer in the steps
    why: str
    seconds: NotRequired[float | None]  # of a call; absent if it was not measured


class NetExplanationView(TypedDict):
    """Where the layers of a recurrent layer are computed."""

    kind: Literal["net_explanation"]
    name: str
    axis: str
    layers: list[LayerPlaceView]


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
        "layers": [_layer(layer) for layer in explanation.rows],
    }


def _layer(each: ExplainedLayer) -> LayerPlaceView:
    return {
        "name": each.name, "cls": each.layer_class, "line": each.line, "where": each.place,
        "step": each.step, "whole": each.whole, "path": list(each.path), "why": each.why, "seconds": each.seconds,
    }  # fmt: skip


def total(view: NetExplanationView) -> float | None:
    """The seconds of all layers together; None if they were not measured."""
    times = [seconds for layer in view["layers"] if (seconds := layer.get("seconds")) is not None]
    return sum(times) if times else None


def _time(layer: LayerPlaceView, whole: float | None) -> list[str]:
    """`["1.2 ms", "12 %"]`, the time of a layer and its share; nothing if no layer was measured."""
    if whole is None:
        return []
    seconds = layer.get("seconds")
    return ["", ""] if seconds is None else [duration(seconds), percent(seconds / whole if whole else 0.0)]


def headline(view: NetExplanationView) -> str:
    """`2 layers before the loop, 9 in each step, 1 after the loop`"""
    counts = {where: sum(layer["where"] == where for layer in view["layers"]) for where in PLACES}
    totals = [(count, PLACES[where]) for where, count in counts.items() if count]
    words = [f"{count} {where}" for count, where in totals]
    if not totals:
        return "no layers"
    time = total(view)
    facts = [] if time is None else [f"{duration(time)} in a call"]
    if not counts["each step"]:
        facts.append('no steps to look at, unless "optimize_move_layers_out" is False')
    return "; ".join([", ".join([f"{count_of(totals[0][0], 'layer')} {totals[0][1]}", *words[1:]]), *facts])


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
    time = total(view)
    rows = [
        [layer["name"], layer["cls"], layer["where"], *_time(layer, time), _dims(layer), _reason(layer)]
        for layer in view["layers"]
    ]
    return "\n".join([f"{view['name']}, a loop over {view['axis']}: {headline(view)}", *aligned(rows)])


def to_table(view: NetExplanationView) -> Table:
    """A row for each layer."""
    rows = [
        [layer["name"], layer["cls"], layer["line"], layer["where"], layer["step"], layer["whole"],
         " ← ".join(layer["path"]), layer["why"], layer.get("seconds")]
        for layer in view["layers"]
    ]  # fmt: skip
    return Table(["layer", "class", "line", "where", "in a step", "outside", "path", "why", "seconds"], rows)


def to_html(view: NetExplanationView) -> Html:
    """The totals, and a table of the layers."""
    time = total(view)
    titles = ["layer", "class", "where", *(["time", "share"] if time is not None else [])]
    titles += ["dims in a step", "dims outside of the loop", "what keeps it in the steps"]
    rows = [_row(layer, time) for layer in view["layers"]]
    head = el("div", el("span", view["name"], style=style.NAME), quiet(f" · over {view['axis']} · {headline(view)}"))
    table = el("table", row(*titles, look=f"{style.LEFT_CELL};{style.QUIET}", tag="th"), rows, style=style.TABLE)
    return el("div", head, table, style=style.BOX)


def _row(each: LayerPlaceView, time: float | None) -> Html:
    chip = el("span", each["where"], style=f"{style.chip(style.PALETTE[HUES[each['where']]])};white-space:nowrap")
    line = quiet(f" line {each['line']}") if each["line"] is not None else None
    name = el("span", each["name"], line, style="white-space:nowrap" if len(each["name"]) <= 40 else None)
    path = el("span", path_of(each), title=" ← ".join(each["path"])) if each["path"] else None
    why = quiet(f"{'; ' if path is not None else ''}{each['why']}") if each["why"] else None
    took = [el("span", text, style="white-space:nowrap") for text in _time(each, time)]
    return row(name, quiet(each["cls"]), chip, *took, each["step"], each["whole"], [path, why])
