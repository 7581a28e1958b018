"""The view of gradients through time: a line per state, with the gradient's norm from the first step to the last."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from rfnb.core.ground.text import count_of
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style
from rfnb.display.markup.numbers import BLOCKS, Number, plain, real, short
from rfnb.display.run.schema import Curve, GradientsView
from rfnb.display.run.step import spread
from rfnb.loop.replay.gradients import Gradients, verdict

WIDTH = 64
HEAD = ("state", "step by step", "first", "last", "first/last", "")


@page.shows("gradients", "rfnb.loop.replay.gradients.Gradients")
def describe(gradients: Gradients) -> GradientsView:
    """The norms of all states as JSON."""
    run = gradients.run
    return {
        "kind": "gradients",
        "run": run.serial,
        "loss": gradients.loss,
        "curves": curves_of(gradients.norm),
        "note": f"{run.name}, {count_of(run.steps, 'step')}; one block higher means a factor of 10",
    }


def curves_of(norms: Mapping[str, Iterable[float]]) -> list[Curve]:
    """The norms of each state as JSON."""
    return [{"state": name, "norms": [plain(float(norm)) for norm in values]} for name, values in norms.items()]


def to_page(view: GradientsView) -> page.Page:
    """A line per state, with NaN, Inf and zero marked; as a table, a row for each step."""
    curves, title = view["curves"], f"‖d {view['loss']} / d state‖"
    rows: list[list[page.Words]] = []
    for *cells, warning in map(_cells, curves):
        rows.append([*cells, page.chip(warning, style.WARN) if warning else None])
    steps = range(max((len(curve["norms"]) for curve in curves), default=0))
    norms = [[step, *(curve["norms"][step] for curve in curves)] for step in steps]
    blocks: list[page.Block] = [
        page.Line(page.Span(page.name(title), text=f"{title}  ({view['note']})"), look=style.HEAD),
        page.Grid(rows, HEAD, [style.LEFT_CELL, f"{style.LEFT_CELL};opacity:0.65"]),
        page.Only("html", [page.Note(view["note"])]),
    ]
    return page.Page("gradients", "", blocks, page.Table(["step", *(curve["state"] for curve in curves)], norms))


def _cells(curve: Curve) -> tuple[str, ...]:
    norms = [real(n) for n in curve["norms"]]
    if not norms:
        return (curve["state"], "", "", "", "", "no steps")
    first, last = norms[0], norms[-1]
    ratio = short(first / last) if last and math.isfinite(first) and math.isfinite(last) else ""
    return (curve["state"], levels(curve["norms"]), short(first), short(last), ratio, verdict(norms))


def levels(norms: Sequence[Number]) -> str:
    """A line of blocks, for a sample of many steps: one block lower means a tenth.

    >>> levels([1e-9, 0.01, 0.1, 1.0, 0, "nan"])
    '▁▆▇█·×'
    """
    values = [real(norm) for norm in spread(norms, WIDTH)]
    top = max([n for n in values if math.isfinite(n)], default=0.0)
    return "".join(_level(n, top) for n in values)


def _level(norm: float, top: float) -> str:
    if not math.isfinite(norm):
        return "×"
    return "·" if norm == 0 else BLOCKS[max(0, 7 + math.floor(math.log10(norm / top) + 1e-9))]
