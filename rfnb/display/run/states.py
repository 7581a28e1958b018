"""The states of a run: a line for each step shown, and one for each state over all steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rfnb.display.kit.dims import dims_html, dims_text
from rfnb.display.kit.schema import DimView
from rfnb.display.markup import style, widgets_html
from rfnb.display.markup.grid import Table, aligned
from rfnb.display.markup.html import Child, Html, el
from rfnb.display.markup.numbers import bars, short
from rfnb.display.markup.schema import Number
from rfnb.display.markup.widgets_html import chip
from rfnb.display.run.schema import HistoryView, StateRow
from rfnb.display.run.step import spread
from rfnb.display.tensor.schema import ValueView
from rfnb.display.tensor.table import PAD
from rfnb.display.tensor.value import ENDED

BLOCKS = 32
"""Largest number of blocks in a sparkline."""
SHORT = 24
"""Longest value shown both before and after a step, in characters; longer ones are shown after it only."""


class StepLine(NamedTuple):
    """A step: its label, why it is shown, and each state after it."""

    step: str
    why: str
    cells: list[str]


class StateLine(NamedTuple):
    """A state: its dims, sparkline, anomalies, and picture with caption."""

    name: str
    dims: list[DimView]
    sparkline: str
    odd: list[str]
    picture: str | None
    alt: str | None


def steps_text(view: HistoryView) -> list[str]:
    """Aligned lines."""
    rows = [line for line in _grid(view) if line.cells]
    return aligned([[row.step, *([row.why] if _has_reasons(view) else []), *row.cells] for row in rows])


def steps_html(view: HistoryView) -> Html | None:
    """One row per step; ended sequences are pale."""
    head, *rows = _grid(view)
    if not head.cells:
        return None
    why = _has_reasons(view)
    top = el(
        "tr",
        el("th", head.step, style=style.LABEL_CELL),
        [el("th", name, style=style.LEFT_CELL) for name in head.cells],
        el("th", style=style.LEFT_CELL) if why else None,
        style=style.PLAIN_ROW,
    )
    body = [
        el(
            "tr",
            el("td", row.step, style=f"{style.LABEL_CELL};vertical-align:top;padding-top:2px"),
            [el("td", _marked(cell), style=style.LEFT_CELL) for cell in row.cells],
            el("td", row.why, style=f"{style.LEFT_CELL};{style.QUIET}") if why else None,
            style=style.PLAIN_ROW,
        )
        for row in rows
    ]
    return el("div", el("table", top, body, style=style.TABLE), style="overflow-x:auto")


def states_text(view: HistoryView) -> list[str]:
    """One line per state."""
    return aligned([[row.name, dims_text(row.dims), row.sparkline, "  ".join(row.odd)] for row in _states(view)])


def states_html(view: HistoryView) -> Html | None:
    """One row per state, with its picture."""
    rows = list(_states(view))
    table = el("table", [_state_html(row) for row in rows], style=style.TABLE)
    return el("div", table, style="overflow-x:auto") if rows else None


def to_table(view: HistoryView) -> Table:
    """A row for each shown step and state."""
    columns = ["step", "state", "before", "after", "change", "flags", "why"]
    rows = [
        [
            step["step"], row["name"], row["before"]["text"], row["after"]["text"], row["change"],
            ", ".join(row["after"]["flags"]), why,
        ]
        for step, why in zip(view["steps"], view["reasons"], strict=True)
        for row in step["states"]
    ]  # fmt: skip
    return Table(columns, rows)


def _grid(view: HistoryView) -> list[StepLine]:
    """Names of states, initial states, then each step. Gaps show the range of steps left out."""
    names = [value["name"] for value in view["start"]]
    lines = [StepLine("step", "", names), StepLine("start", "", [_value(value) for value in view["start"]])]
    last = -1
    for step, why in zip(view["steps"], view["reasons"], strict=True):
        gap = step["step"] > last + 1
        lines.append(StepLine(str(step["step"]), why, [_cell(row, gap) for row in step["states"]]))
        last = step["step"]
    return lines


def _cell(row: StateRow, gap: bool) -> str:
    """The state after the step, its anomalies, and its change."""
    before, after = _value(row["before"]), _value(row["after"])
    text = f"{before} → {after}" if gap and before != after and len(before) <= SHORT else after
    return text + ("" if row["change"] in (None, 0) else f"  Δ {short(row['change'])}")


def _value(value: ValueView) -> str:
    """A value with its anomalies, unless the numbers show them."""
    words = value["text"].split()
    return value["text"] + "".join(f"  {flag}" for flag in value["flags"] if flag not in ("constant", *words))


def _states(view: HistoryView) -> Iterator[StateLine]:
    rows = {row["name"]: row for row in view["steps"][-1]["states"]} if view["steps"] else {}
    strips = {strip["state"]: strip for strip in view["strips"]}
    for value in view["start"]:
        name = value["name"]
        row, strip = rows.get(name), strips.get(name)
        sparkline, odd = (
            (bars(_some(row["spark"])) or "labels", row["flags"]) if row else ("", [])
        )  # these have no size
        picture = (strip["picture"], strip["alt"]) if strip else (None, None)
        yield StateLine(name, value["dims"], sparkline, odd, *picture)


def _some(spark: list[Number]) -> list[Number]:
    """At most as many values as fit below the picture."""
    return [spark[i] for i in spread(range(len(spark)), BLOCKS)]


def _state_html(row: StateLine) -> Html:
    look = f"display:block;{style.BORDER}"
    picture = el("img", src=row.picture, alt=row.alt, title=row.alt, style=look) if row.picture else None
    middle = f"{style.LEFT_CELL};vertical-align:middle"
    sparkline = [picture, el("div", row.sparkline, style="opacity:0.65;white-space:nowrap")]
    odd = [chip(flag, style.WARN) for flag in row.odd]
    return widgets_html.row(el("b", row.name), dims_html(row.dims), sparkline, odd, look=middle)


def _marked(cell: str) -> list[Child]:
    """A value with ended sequences paler, and NaN and Inf marked."""
    looks = {PAD: _PALE, ENDED: _PALE, **dict.fromkeys(("nan", "inf", "-inf"), f"color:{style.ALARM}")}
    pieces = re.split(r"( +)", cell.replace("Δ ", "Δ\u00a0"))
    return [el("span", piece, style=looks[piece]) if piece in looks else piece for piece in pieces]


_PALE = "opacity:0.4"


def _has_reasons(view: HistoryView) -> bool:
    return any(view["reasons"])
