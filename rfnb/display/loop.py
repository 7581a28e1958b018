"""The view of `loop.explain()`: the source of a loop, and next to each line when and where its ops ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from textwrap import dedent
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from rfnb.core.ground.source import with_block
from rfnb.core.ground.text import count_of
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, quiet, wide
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import duration, percent

if TYPE_CHECKING:
    from rfnb.loop.steps.explain import ExplainedOp, Explanation


MovedPlace = Literal["once", "all steps", "each step", "after the loop"]


class MovedOp(TypedDict):
    """An op of a loop's body, and where it ran."""

    line: int | None  # of the body, 1-based, in the file or cell
    place: str | None  # of the expression, if it is in a function that the body calls
    op: str
    text: str  # the expression
    where: MovedPlace
    why: str
    states: list[str]  # those that it needs
    seconds: NotRequired[float | None]  # in all steps together, if times were measured
    calls: NotRequired[float | None]  # per step


class LoopTimes(TypedDict):
    """The times of the steps of a loop, in seconds."""

    steps: int
    calls: int  # how often all steps ran; times are medians
    total: float  # of all that was timed, in the steps and outside of them
    steps_total: float  # of all steps, without what timing takes
    overhead: float  # what timing took
    plain: float  # of all steps without timing
    device: str


class LoopExplanationView(TypedDict):
    """Where the ops of a loop ran: before its steps, in them, or after them."""

    kind: Literal["loop_explanation"]
    name: str
    place: str | None
    ran: bool
    first_line: int  # of `body`, 1-based, in the file or cell
    body: list[str]
    ops: list[MovedOp]
    times: NotRequired[LoopTimes]


PLACES = {
    "once": "once",
    "all steps": "for all steps together",
    "each step": "in each step",
    "after the loop": "after the loop",
}
FORMER_PLACES: dict[str, MovedPlace] = {"step": "each step", "behind": "after the loop"}
"""What a place is called now, by its name in views that older versions wrote."""
HUES = {"once": 2, "all steps": 0, "each step": 1, "after the loop": 3}
"""Index of the colour in the palette, by place."""
WIDTH = 80
"""Longest source line shown in a terminal, in characters."""


def describe(explanation: Explanation) -> LoopExplanationView:
    """The source of the `with` block, and its ops."""
    source = explanation.source
    block = with_block(source)
    view: LoopExplanationView = {
        "kind": "loop_explanation",
        "name": explanation.name,
        "place": None if source is None else source.place(),
        "ran": explanation.ran,
        "first_line": block.first_line,
        "body": dedent("\n".join(block.lines)).split("\n") if block.lines else [],
        "ops": [_op(row) for row in explanation.rows],
    }
    profile = explanation.profile
    if profile is None:
        return view
    for row, op in zip(explanation.rows, view["ops"], strict=True):
        op["seconds"] = None if row.time is None else row.time.seconds
        op["calls"] = None if row.time is None else row.time.calls / max(profile.steps, 1)
    extra = sum(row.time.seconds for row in explanation.rows if row.time is not None and row.place != "steps")
    times: LoopTimes = {
        "steps": profile.steps, "calls": profile.calls, "total": profile.seconds + extra,
        "steps_total": profile.seconds, "overhead": profile.overhead, "plain": profile.plain, "device": profile.device,
    }  # fmt: skip
    return {**view, "times": times}


def _op(row: ExplainedOp) -> MovedOp:
    source = row.node.source
    return {
        "line": row.node.line,
        "place": None if source is None or source == row.node.at else source.place(),
        "op": row.node.op,
        "text": row.text,
        "where": row.where,  # type: ignore[typeddict-item]
        "why": row.why,
        "states": list(row.states),
    }


# -- by lines


def ops_of(view: LoopExplanationView) -> list[MovedOp]:
    """The ops, with their places as they are called now."""
    return [{**op, "where": FORMER_PLACES.get(op["where"], op["where"])} for op in view["ops"]]


def lines(view: LoopExplanationView) -> Iterator[tuple[int, str, list[MovedOp]]]:
    """Each source line with its ops. Ops from elsewhere get their expression as a line."""
    by_line: dict[int, list[MovedOp]] = {}
    for op in ops_of(view):
        by_line.setdefault(op["line"] or 0, []).append(op)
    for number, text in enumerate(view["body"], view["first_line"]):
        yield number, text, by_line.pop(number, [])
    for number, ops in by_line.items():
        for op in ops:
            yield number, op["text"], [op]


def together(ops: Iterable[MovedOp]) -> list[list[MovedOp]]:
    """Groups of neighbouring ops with the same place and reason."""
    return [list(group) for _, group in groupby(ops, key=lambda op: (op["where"], op["why"]))]


def names(ops: list[MovedOp]) -> str:
    """`add, tanh`, `mul ×3`"""
    runs = [(name, len(list(group))) for name, group in groupby(ops, key=lambda op: op["op"])]
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in runs)


def counts(view: LoopExplanationView) -> dict[str, int]:
    """Number of ops by place, without zeros."""
    counter = Counter[str](op["where"] for op in ops_of(view))
    return {where: counter[where] for where in PLACES if counter[where]}


# -- times


def legend(view: LoopExplanationView) -> list[str]:
    """What the times of a view are; empty without times."""
    times = view.get("times")
    if times is None:
        return []
    where = "the CPU" if times["device"] == "cpu" else "the GPU, which is waited for after each call"
    many = "" if times["calls"] == 1 else f", median of {times['calls']} runs"
    op_seconds = sum(op.get("seconds") or 0.0 for op in view["ops"])
    gap = max(times["total"] - op_seconds, 0.0)
    return [
        f"{count_of(times['steps'], 'step')} on {where}, without gradients: {duration(times['steps_total'])}{many}",
        f"{duration(times['overhead'])} of timing taken off; without timing the steps take {duration(times['plain'])}",
        f"between the ops: {duration(gap)} ({percent(gap / times['total'] if times['total'] else 0.0)})",
    ]


def cost(view: LoopExplanationView, ops: Sequence[MovedOp]) -> tuple[str, str, str, float]:
    """The time of a line, its share, its calls per step, and its share as a number; empty words without a time."""
    times = view.get("times")
    timed = [op for op in ops if op.get("seconds") is not None]
    if times is None or not timed:
        return "", "", "", 0.0
    seconds = sum(op.get("seconds") or 0.0 for op in timed)
    share = min(seconds / times["total"], 1.0) if times["total"] else 0.0
    calls = sum(op.get("calls") or 0.0 for op in timed if op["where"] == "each step")
    return duration(seconds), percent(share), f"{calls:g} a step" if calls else "once", share


# -- text


def to_text(view: LoopExplanationView) -> str:
    """The totals; then the source, and after each line where its ops ran, and why."""
    if not view["ran"]:
        return f"{view['name']} has not run yet"
    listing = list(lines(view))
    width = min(WIDTH, max((len(text) for _, text, _ in listing), default=0))
    rows = [row for number, text, ops in listing for row in _text_rows(view, number, text, ops, width)]
    return "\n".join([f"{view['name']}: {headline(view)}", *(f"  {line}" for line in legend(view)), *rows])


def headline(view: LoopExplanationView) -> str:
    """`1 op once, 2 in each step`"""
    totals = [f"{count} {PLACES[where]}" for where, count in counts(view).items()]
    if totals:
        where, count = next(iter(counts(view).items()))
        totals[0] = f"{count_of(count, 'op')} {PLACES[where]}"
    return ", ".join(totals) or "no ops"


def _text_rows(view: LoopExplanationView, number: int, text: str, ops: list[MovedOp], width: int) -> Iterator[str]:
    seconds, share, calls, _ = cost(view, ops)
    costs = f"  {seconds:>8} {share:>5} {calls:<10}" if "times" in view else ""
    groups = together(ops)
    words = [
        f"{group[0]['where']:<14}  {names(group)}" + (f"  # {group[0]['why']}" if group[0]["why"] else "")
        for group in groups
    ]
    beside = words.pop(0) if words and len(text) <= width else ""
    yield f"{costs}  {number:>4}  {text:<{width}}  {beside}".rstrip()
    for line in words:
        yield f"{' ' * len(costs)}  {'':>4}  {'':<{width}}  {line}"


def to_table(view: LoopExplanationView) -> Table:
    """A row for each op; with times the slowest first."""
    columns = ["line", "op", "where", "why", "states", "text"]
    rows = [[op["line"], op["op"], op["where"], op["why"], ", ".join(op["states"]), op["text"]] for op in ops_of(view)]
    if "times" not in view:
        return Table(columns, rows)
    rows = [[*cost(view, [op])[:3], *row] for op, row in zip(ops_of(view), rows, strict=True)]
    slowest = sorted(range(len(rows)), key=lambda i: -(view["ops"][i].get("seconds") or 0.0))
    return Table(["time", "share", "calls", *columns], [rows[i] for i in slowest])


# -- HTML


def to_html(view: LoopExplanationView) -> Html:
    """The view as HTML; expressions of lines with several ops are folded."""
    if not view["ran"]:
        return el("div", f"{view['name']} has not run yet", style=f"{style.BOX};{style.QUIET}")
    rows = [_rows(view, number, text, ops) for number, text, ops in lines(view)]
    times = [el("div", quiet(line)) for line in legend(view)]
    table = el("table", rows, style=f"{style.TABLE};width:100%;min-width:{720 if times else 480}px")
    return el("div", _head(view), times, wide(table), style=style.BOX)


def _head(view: LoopExplanationView) -> Html:
    total = count_of(len(view["ops"]), "op")
    place = f" · {view['place']} · {total}: " if view["place"] else f" · {total}: "
    totals = counts(view).items()
    chips = [el("span", el("b", str(count)), f" {PLACES[where]} ", style=_chip(where)) for where, count in totals]
    return el("div", el("span", view["name"], style=style.NAME), quiet(place), chips)


def _rows(view: LoopExplanationView, number: int, text: str, ops: list[MovedOp]) -> list[Html]:
    """A source line, with a row for each place and reason next to it."""
    groups = together(ops)
    spans = len(groups) if len(groups) > 1 else None
    mark = style.PALETTE[HUES[_slowest(ops)]] if ops else "transparent"
    code = text.lstrip(" ")
    indent = 8 + 7 * (len(text) - len(code))  # as padding, for lines that are wrapped
    look = f"{_LINE};{_CODE};min-width:14em"
    line = [
        *(_cost_cells(view, ops, spans) if "times" in view else ()),
        el("td", str(number), rowspan=spans, style=f"{style.LABEL_CELL};text-align:right;vertical-align:top"),
        el("td", code, rowspan=spans, style=f"{look};border-left:3px solid {mark};padding-left:{indent}px"),
    ]
    beside = [_cells(group, folds=len(ops) > 1) for group in groups] or [[]]
    return [
        el("tr", line if first else None, cells, style=style.PLAIN_ROW)
        for first, cells in zip([True] + [False] * len(beside), beside, strict=False)
    ]


def _cost_cells(view: LoopExplanationView, ops: list[MovedOp], spans: int | None) -> list[Html]:
    """The time of a line over a bar of its share, and its calls."""
    seconds, share, calls, part = cost(view, ops)
    bar = f"linear-gradient(to right,{style.tint(HEAT, 0.55)} {part:.1%},transparent {part:.1%})" if seconds else "none"
    look = f"{_LINE};text-align:right;white-space:nowrap"
    shares = f"{look};{style.NUMBERS};min-width:48px"
    return [
        el("td", seconds, rowspan=spans, style=f"{look};{style.NUMBERS};font-weight:bold;padding-right:6px"),
        el("td", share, rowspan=spans, title=calls or None, style=f"{shares};background:{bar}"),
        el("td", quiet(calls), rowspan=spans, style=look),
    ]


HEAT = "#e8962e"
_LINE = "padding:1px 12px 1px 0;text-align:left;border:none;background:none;vertical-align:top"
_CODE = "white-space:pre-wrap;overflow-wrap:break-word"


def _slowest(ops: list[MovedOp]) -> str:
    """The slowest place of the ops of a line."""
    return max((op["where"] for op in ops), key=["once", "after the loop", "all steps", "each step"].index)


def _cells(ops: list[MovedOp], *, folds: bool) -> list[Html]:
    first, reason = ops[0], _reason(ops[0])
    words = [
        names(ops),
        quiet(f" {reason} ") if reason else None,
        [el("span", state, " ", style=style.pill(None)) for state in _kept_by(first)],
    ]
    listed = el("div", [_expression(op) for op in ops], style=f"margin:2px 0 4px 14px;{_CODE}")
    cell = el("details", el("summary", words, style="cursor:pointer"), listed) if folds or first["place"] else words
    return [el("td", el("span", first["where"], style=_chip(first["where"])), style=_LINE), el("td", cell, style=_LINE)]


def _expression(op: MovedOp) -> Html:
    return el("div", op["text"], quiet(f"  {op['place']}") if op["place"] else None)


def _reason(op: MovedOp) -> str:
    return "needs" if _kept_by(op) else op["why"]


def _kept_by(op: MovedOp) -> list[str]:
    """The states that keep an op in the steps."""
    return op["states"] if op["why"].startswith("needs ") else []


def _chip(where: str) -> str:
    return f"{style.chip(style.PALETTE[HUES[where]])};white-space:nowrap"
