"""The view of a training loop: a curve for each measure, its last and its lowest value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.ground.text import count_of
from rfnb.display.markup import style
from rfnb.display.markup.grid import Table, aligned
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import bars, plain, short
from rfnb.display.markup.schema import Number
from rfnb.display.markup.svg import data_uri
from rfnb.display.markup.widgets_html import chip, note_html, note_text, quiet
from rfnb.display.training.curve import BinnedCurve
from rfnb.display.training.figure import to_figure as to_figure
from rfnb.display.training.schema import LossCurve, ProgressView

if TYPE_CHECKING:
    from rfnb.display.training.progress import Progress

WIDTH = 32
"""Number of blocks of a curve in text."""


def describe(progress: Progress) -> ProgressView:
    """The curves to draw, as JSON."""
    try:
        total = len(progress)
    except TypeError:
        total = None
    return {
        "kind": "progress",
        "name": progress.name or "",
        "steps": progress.step + 1,
        "total": total,
        "epoch": progress.epoch,
        "stopped": progress.stopped and not progress.running,
        "curves": [describe_curve(name, curve, progress.smooth) for name, curve in progress.curves.items()],
        "note": progress.note,
    }


def describe_curve(name: str, curve: BinnedCurve, smooth: float | None) -> LossCurve:
    """A curve as JSON. smooth: how many values its running mean is over."""

    def numbers(values: list[float]) -> list[Number]:
        return [plain(float(f"{value:.5g}")) for value in values]

    at_start = curve.lowest is not None and curve.lowest[0] <= curve.bins[len(curve.bins) // 20].step
    rising = at_start and curve.highest != curve.lowest
    peak = curve.highest if rising else curve.lowest
    return {
        "name": name,
        "steps": [part.step for part in curve.bins],
        "low": numbers([part.low for part in curve.bins]),
        "high": numbers([part.high for part in curve.bins]),
        "smooth": numbers(curve.smoothed(curve.over(smooth))),
        "last": plain(curve.last[1]) if curve.last else None,
        "peak": "highest" if rising else "lowest",
        "peak_value": plain(peak[1]) if peak else None,
        "peak_at": peak[0] if peak else None,
        "bad": curve.bad,
        "first_bad": curve.first_bad if curve.bad else None,
    }


# -- words


def _place(view: ProgressView) -> str:
    """`120 of 400 steps, stopped`"""
    steps, total, epoch = view["steps"], view["total"], view["epoch"]
    if epoch > 1 or total is None:
        words = count_of(steps, "step") + (f", epoch {epoch}" if epoch > 1 else "")
    else:
        words = f"{steps:,} of {count_of(total, 'step')}"
    return f"{words}, stopped" if view["stopped"] else words


def _peak(curve: LossCurve) -> str:
    return f"{curve['peak']} {short(curve['peak_value'])} at step {curve['peak_at']}" if curve["steps"] else ""


def _bad(curve: LossCurve) -> str:
    if not curve["bad"]:
        return ""
    return f"not finite at step {curve['first_bad']}" + (f" and {curve['bad'] - 1} more" if curve["bad"] > 1 else "")


def to_text(view: ProgressView) -> str:
    """One line per measure."""
    lines = [[c["name"], short(c["last"]), _blocks(c), _peak(c), f"! {_bad(c)}" if c["bad"] else ""]
             for c in view["curves"]]  # fmt: skip
    head = "  ".join(filter(None, [view["name"], _place(view)]))
    return "\n".join([head, *(f"  {line}" for line in aligned(lines)), *note_text(view["note"])])


def _blocks(curve: LossCurve) -> str:
    values = curve["smooth"]
    return bars([values[round(i * (len(values) - 1) / (WIDTH - 1))] for i in range(WIDTH)] if values else [])


def to_table(view: ProgressView) -> Table:
    """A row for each measure; `progress.table()` has all steps."""
    columns = ["measure", "last", "running mean", "lowest or highest", "at step", "not finite"]
    rows = [
        [c["name"], c["last"], c["smooth"][-1] if c["smooth"] else None, c["peak_value"], c["peak_at"], c["bad"]]
        for c in view["curves"]
    ]
    return Table(columns, rows)


# -- HTML


def to_html(view: ProgressView) -> Html:
    """A plot for each measure, as many per row as fit."""
    name = el("span", f"{view['name']}  ", style=style.NAME) if view["name"] else None
    return el(
        "div",
        el("div", name, quiet(_place(view)), style=style.HEAD),
        el("div", [picture(curve, number) for number, curve in enumerate(view["curves"])]),
        note_html(view["note"]),
        style=style.BOX,
    )


def picture(curve: LossCurve, number: int) -> Html:
    """The plot of a measure, with its last value above. number: of its colour."""
    from rfnb.display.training.plot import SIZE, colour, plot

    look = f"color:{colour(number)};font-weight:bold"
    words = f"{curve['name']} {short(curve['last'])}, {_peak(curve)}"
    source = data_uri(str(plot(curve, colour(number)))) if curve["steps"] else None
    return el(
        "div",
        el("div", el("span", curve["name"], style=look), f" {short(curve['last'])} ", quiet(_peak(curve)), " ",
           chip(_bad(curve), style.ALARM) if curve["bad"] else None),
        el("img", src=source, alt=words, width=int(SIZE[0]), style="max-width:100%") if source else None,
        style="display:inline-block;vertical-align:top;max-width:100%;margin-right:12px",
    )  # fmt: skip
