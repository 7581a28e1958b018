"""The view of `net.explain(…)`: where each layer of a recurrent net is computed, and what keeps it in the steps."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rfnb.core.ground.text import count_of
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style
from rfnb.display.markup.numbers import duration, percent

if TYPE_CHECKING:
    from rfnb.netdict.loops.explain import ExplainedLayer, NetExplanation

HUES = {"before the loop": 0, "each step": 1, "after the loop": 3}
"""Index of the colour in the palette, by place."""
PLACES = {"before the loop": "before the loop", "each step": "in each step", "after the loop": "after the loop"}
LONGEST = 6
"""Names of a path that are shown; those in the middle of a longer one are left out."""
COLUMNS = ["layer", "class", "line", "where", "in a step", "outside", "path", "why", "seconds"]


@page.shows("net_explanation", "rfnb.netdict.loops.explain.NetExplanation")
def describe(explanation: NetExplanation) -> page.Page:
    """The totals, and a table of the layers."""
    rows, total = explanation.rows, explanation.seconds
    text = [
        [row.name, row.layer_class, row.place, *_time(row, total), row.step if row.place == "each step" else row.whole,
         "; ".join(filter(None, [path_of(row), row.why]))]
        for row in rows
    ]  # fmt: skip
    titles = ["layer", "class", "where", *(["time", "share"] if total is not None else [])]
    titles += ["dims in a step", "dims outside of the loop", "what keeps it in the steps"]
    head = [page.name(explanation.name), page.quiet(f" · over {explanation.axis} · {headline(explanation)}")]
    blocks: list[page.Block] = [
        page.Line(page.Span(head, text=f"{explanation.name}, a loop over {explanation.axis}: {headline(explanation)}")),
        page.Only("text", [page.Grid(text, indent=0)]),
        page.Only(
            "html", [page.Grid([_row(row, total) for row in rows], titles, head=f"{style.LEFT_CELL};{style.QUIET}")]
        ),
    ]
    cells = [
        [row.name, row.layer_class, row.line, row.place, row.step, row.whole, " ← ".join(row.path), row.why,
         row.seconds]
        for row in rows
    ]  # fmt: skip
    return page.Page("net_explanation", explanation.name, blocks, page.Table(COLUMNS, cells))


def headline(explanation: NetExplanation) -> str:
    """`2 layers before the loop, 9 in each step, 1 after the loop`"""
    counts = Counter[str](row.place for row in explanation.rows)
    totals = [(counts[where], words) for where, words in PLACES.items() if counts[where]]
    if not totals:
        return "no layers"
    facts = [] if explanation.seconds is None else [f"{duration(explanation.seconds)} in a call"]
    if not counts["each step"]:
        facts.append('no steps to look at, unless "optimize_move_layers_out" is False')
    (count, first), *further = totals
    return "; ".join([", ".join([f"{count_of(count, 'layer')} {first}", *(f"{n} {w}" for n, w in further)]), *facts])


def path_of(layer: ExplainedLayer) -> str:
    """`s ← prev:att ← att ← … ← s`"""
    names = layer.path
    return " ← ".join(names if len(names) <= LONGEST else [*names[: LONGEST - 2], "…", names[-1]])


def _time(layer: ExplainedLayer, total: float | None) -> list[str]:
    """`["1.2 ms", "12 %"]`, the time of a layer and its share; nothing if no layer was measured."""
    if total is None:
        return []
    return ["", ""] if layer.seconds is None else [duration(layer.seconds), percent(layer.seconds / (total or 1.0))]


def _row(layer: ExplainedLayer, total: float | None) -> list[page.Words]:
    line = page.quiet(f" line {layer.line}") if layer.line is not None else None
    title = page.Span([layer.name, line], "white-space:nowrap" if len(layer.name) <= 40 else "")
    path = page.Span(path_of(layer), title=" ← ".join(layer.path)) if layer.path else None
    why = page.quiet(f"{'; ' if path is not None else ''}{layer.why}") if layer.why else None
    took = [page.Span(text, "white-space:nowrap") for text in _time(layer, total)]
    place = page.Span(layer.place, f"{style.chip(style.PALETTE[HUES[layer.place]])};white-space:nowrap")
    return [title, page.quiet(layer.layer_class), place, *took, layer.step, layer.whole, [path, why]]
