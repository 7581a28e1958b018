"""The view of `loop.explain()`: the source of a loop, and next to each line when and where its ops ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import dedent
from typing import TYPE_CHECKING

from rfnb.core.ground.source import with_block
from rfnb.core.ground.text import count_of
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el, quiet, wide
from rfnb.display.markup.numbers import duration, percent
from rfnb.printable import bounded

if TYPE_CHECKING:
    from rfnb.loop.steps.explain import ExplainedOp, Explanation


PLACES = {
    "once": "once",
    "all steps": "for all steps together",
    "each step": "in each step",
    "after the loop": "after the loop",
}
HUES = {"once": 2, "all steps": 0, "each step": 1, "after the loop": 3}
"""Index of the colour in the palette, by place."""
WIDTH = 80
"""Longest source line shown in a terminal, in characters."""

LoopLine = tuple[int, str, Sequence["ExplainedOp"]]
"""A source line: its number, its text, and its ops."""


@page.shows("loop_explanation", "rfnb.loop.steps.explain.Explanation")
def describe(explanation: Explanation) -> page.Page:
    """The totals; then the source, and after each line where its ops ran, and why."""
    title = bounded(explanation.name)
    if not explanation.ran:
        return page.Page(
            "loop_explanation", title, [page.Line(f"{title} has not run yet", look=style.QUIET)], _table(explanation)
        )
    listing, times = list(lines(explanation)), legend(explanation)
    width = min(WIDTH, max((len(text) for _, text, _ in listing), default=0))
    rows = [_rows(explanation, *line) for line in listing]
    table = el("table", rows, style=f"{style.TABLE};width:100%;min-width:{720 if times else 480}px")
    blocks: list[page.Block] = [
        page.Figure(_head(explanation), [f"{title}: {headline(explanation)}"]),
        *(page.Line(page.quiet(line), indent=2) for line in times),
        page.Figure(wide(table), [row for line in listing for row in _text_rows(explanation, *line, width)]),
    ]
    return page.Page("loop_explanation", title, blocks, _table(explanation))


# -- by lines


def lines(explanation: Explanation) -> Iterator[LoopLine]:
    """Each source line with its ops. Ops from elsewhere get their expression as a line."""
    block = with_block(explanation.source)
    body = dedent("\n".join(block.lines)).split("\n") if block.lines else []
    by_line: dict[int, list[ExplainedOp]] = {}
    for op in explanation.rows:
        by_line.setdefault(op.node.line or 0, []).append(op)
    for number, text in enumerate(body, block.first_line):
        yield number, bounded(text), by_line.pop(number, [])
    for number, ops in by_line.items():
        for op in ops:
            yield number, bounded(op.text), [op]


def together(ops: Sequence[ExplainedOp]) -> list[list[ExplainedOp]]:
    """Groups of neighbouring ops with the same place and reason."""
    return [list(group) for _, group in groupby(ops, key=lambda op: (op.where, op.why))]


def names(ops: Sequence[ExplainedOp]) -> str:
    """`add, tanh`, `mul ×3`"""
    runs = [(name, len(list(group))) for name, group in groupby(ops, key=lambda op: op.node.op)]
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in runs)


def counts(explanation: Explanation) -> dict[str, int]:
    """Number of ops by place, without zeros."""
    counter = Counter[str](op.where for op in explanation.rows)
    return {where: counter[where] for where in PLACES if counter[where]}


def headline(explanation: Explanation) -> str:
    """`1 op once, 2 in each step`"""
    totals = [f"{count} {PLACES[where]}" for where, count in counts(explanation).items()]
    if totals:
        where, count = next(iter(counts(explanation).items()))
        totals[0] = f"{count_of(count, 'op')} {PLACES[where]}"
    return ", ".join(totals) or "no ops"


# -- times


def total_time(explanation: Explanation) -> float:
    """The seconds of all that was timed, in the steps and outside of them."""
    seconds = (op.time.seconds for op in explanation.rows if op.time is not None and op.place != "steps")
    return sum(seconds, 0.0 if explanation.profile is None else explanation.profile.seconds)


def legend(explanation: Explanation) -> list[str]:
    """What the times are; empty without times."""
    profile = explanation.profile
    if profile is None:
        return []
    where = "the CPU" if profile.device == "cpu" else "the GPU, which is waited for after each call"
    many = "" if profile.calls == 1 else f", median of {profile.calls} runs"
    total, in_ops = total_time(explanation), sum(op.time.seconds for op in explanation.rows if op.time is not None)
    gap = max(total - in_ops, 0.0)
    return [
        f"{count_of(profile.steps, 'step')} on {where}, without gradients: {duration(profile.seconds)}{many}",
        f"{duration(profile.overhead)} of timing taken off; without timing the steps take {duration(profile.plain)}",
        f"between the ops: {duration(gap)} ({percent(gap / total if total else 0.0)})",
    ]


def cost(explanation: Explanation, ops: Sequence[ExplainedOp]) -> tuple[str, str, str, float]:
    """The time of a line, its share, its calls per step, and its share as a number; empty words without a time."""
    profile, timed = explanation.profile, [(op.where, op.time) for op in ops if op.time is not None]
    if profile is None or not timed:
        return "", "", "", 0.0
    seconds, total = sum(time.seconds for _, time in timed), total_time(explanation)
    share = min(seconds / total, 1.0) if total else 0.0
    calls = sum(time.calls for where, time in timed if where == "each step") / max(profile.steps, 1)
    return duration(seconds), percent(share), f"{calls:g} a step" if calls else "once", share


# -- text


def _text_rows(
    explanation: Explanation, number: int, text: str, ops: Sequence[ExplainedOp], width: int
) -> Iterator[str]:
    seconds, share, calls, _ = cost(explanation, ops)
    costs = f"  {seconds:>8} {share:>5} {calls:<10}" if explanation.profile is not None else ""
    words = [
        f"{group[0].where:<14}  {names(group)}" + (f"  # {bounded(group[0].why)}" if group[0].why else "")
        for group in together(ops)
    ]
    beside = words.pop(0) if words and len(text) <= width else ""
    yield f"{costs}  {number:>4}  {text:<{width}}  {beside}".rstrip()
    for line in words:
        yield f"{' ' * len(costs)}  {'':>4}  {'':<{width}}  {line}"


def _table(explanation: Explanation) -> page.Table:
    """A row for each op; with times the slowest first."""
    columns = ["line", "op", "where", "why", "states", "text"]
    cells = [[op.node.line, op.node.op, op.where, op.why, ", ".join(op.states), op.text] for op in explanation.rows]
    if explanation.profile is None:
        return page.Table(columns, cells)
    timed = [([*cost(explanation, [op])[:3], *row], op.time) for op, row in zip(explanation.rows, cells, strict=True)]
    timed.sort(key=lambda row: 0.0 if row[1] is None else -row[1].seconds)
    return page.Table(["time", "share", "calls", *columns], [row for row, _ in timed])


# -- HTML


def _head(explanation: Explanation) -> Html:
    place = "" if explanation.source is None else f" · {bounded(explanation.source.place())}"
    chips = [
        el("span", el("b", str(count)), f" {PLACES[where]} ", style=_chip(where))
        for where, count in counts(explanation).items()
    ]
    total = f"{place} · {count_of(len(explanation.rows), 'op')}: "
    return el("div", el("span", bounded(explanation.name), style=style.NAME), quiet(total), chips)


def _rows(explanation: Explanation, number: int, text: str, ops: Sequence[ExplainedOp]) -> list[Html]:
    """A source line, with a row for each place and reason next to it; expressions of several ops are folded."""
    groups = together(ops)
    spans = len(groups) if len(groups) > 1 else None
    slowest = max((op.where for op in ops), key=SPEEDS.index, default=None)
    mark = "transparent" if slowest is None else style.PALETTE[HUES[slowest]]
    code = text.lstrip(" ")
    indent = 8 + 7 * (len(text) - len(code))  # as padding, for lines that are wrapped
    look = f"{_LINE};{_CODE};min-width:14em"
    line = [
        *(_cost_cells(explanation, ops, spans) if explanation.profile is not None else ()),
        el("td", str(number), rowspan=spans, style=f"{style.LABEL_CELL};text-align:right;vertical-align:top"),
        el("td", code, rowspan=spans, style=f"{look};border-left:3px solid {mark};padding-left:{indent}px"),
    ]
    beside = [_cells(group, folds=len(ops) > 1) for group in groups] or [[]]
    return [
        el("tr", line if is_first else None, cells, style=style.PLAIN_ROW)
        for is_first, cells in zip([True] + [False] * len(beside), beside, strict=False)
    ]


def _cost_cells(explanation: Explanation, ops: Sequence[ExplainedOp], spans: int | None) -> list[Html]:
    """The time of a line over a bar of its share, and its calls."""
    seconds, share, calls, part = cost(explanation, ops)
    bar = f"linear-gradient(to right,{style.tint(HEAT, 0.55)} {part:.1%},transparent {part:.1%})" if seconds else "none"
    look = f"{_LINE};text-align:right;white-space:nowrap"
    shares = f"{look};{style.NUMBERS};min-width:48px"
    return [
        el("td", seconds, rowspan=spans, style=f"{look};{style.NUMBERS};font-weight:bold;padding-right:6px"),
        el("td", share, rowspan=spans, title=calls or None, style=f"{shares};background:{bar}"),
        el("td", quiet(calls), rowspan=spans, style=look),
    ]


SPEEDS = ("once", "after the loop", "all steps", "each step")
"""Places, the slowest last."""
HEAT = "#e8962e"
_LINE = "padding:1px 12px 1px 0;text-align:left;border:none;background:none;vertical-align:top"
_CODE = "white-space:pre-wrap;overflow-wrap:break-word"


def _cells(ops: list[ExplainedOp], *, folds: bool) -> list[Html]:
    first = ops[0]
    states = first.states if first.why.startswith("needs ") else ()  # those that keep it in the steps
    reason = "needs" if states else first.why
    words = [
        names(ops),
        quiet(f" {reason} ") if reason else None,
        [el("span", bounded(state), " ", style=style.pill(None)) for state in states],
    ]
    listed = el("div", [_expression(op) for op in ops], style=f"margin:2px 0 4px 14px;{_CODE}")
    is_fold = folds or _place(first) is not None
    cell = el("details", el("summary", words, style="cursor:pointer"), listed) if is_fold else words
    return [
        el("td", el("span", first.where, style=_chip(first.where)), style=_LINE),
        el("td", cell, style=f"{_LINE};min-width:14em"),
    ]


def _expression(op: ExplainedOp) -> Html:
    place = _place(op)
    return el("div", bounded(op.text), quiet(f"  {place}") if place else None)


def _place(op: ExplainedOp) -> str | None:
    """The place of the expression, if it is in a function that the body calls."""
    source = op.node.source
    return None if source is None or source == op.node.at else bounded(source.place())


def _chip(where: str) -> str:
    return f"{style.chip(style.PALETTE[HUES[where]])};white-space:nowrap"
