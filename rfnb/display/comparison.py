"""The view of a comparison of two runs: whether they agree, and their differences, the first one first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

import numpy as np

from rfnb.core.ground.text import count_of
from rfnb.display.kit import blocks as page, window
from rfnb.display.kit.data import Axis, DimView, describe_axes, dims_text
from rfnb.display.kit.window import MarkedPicture
from rfnb.display.markup.numbers import Number, plain, real, short
from rfnb.display.markup.style import ALARM, GREY, HEAD
from rfnb.errors import fact_lines

if TYPE_CHECKING:
    from rfnb.trace.compare.comparison import Compared, Comparison, PairedNumbers


class Difference(TypedDict):
    """A value that differs between two runs, and where it differs first."""

    name: str
    value: NotRequired[str]  # the name without the word "state"; older kernels do not send it
    line: int | None
    step: int | None  # None: it is in one of the runs only
    text: str  # by how much


class FirstDifference(TypedDict):
    """The first value that differs between two runs."""

    name: str
    lines: list[int | None]  # in the first run, in the second
    step: int  # -1: before the first step
    edited: NotRequired[bool]  # whether a fork edited it before that step; older kernels do not send it
    dims: list[DimView]
    where: str  # the entry that differs most: "batch 'banana', feat 3"
    a: str
    b: str
    difference: Number | None  # None for labels
    relative: Number  # to the largest number of the value
    note: str | None  # "the lengths differ"
    pictures: list[MarkedPicture]


class ComparisonView(TypedDict):
    """The differences of two runs of a loop, the first one first."""

    kind: Literal["comparison"]
    run: int
    other: int
    agree: bool
    first: FirstDifference | None
    differences: list[Difference]
    notes: list[str]  # what else is not the same: numbers of steps, sequences
    text: str


ALONE = ("only in the first", "only in the second")


@page.shows("comparison", "rfnb.trace.compare.comparison.Comparison")
def describe(comparison: Comparison) -> ComparisonView:
    """Differences in the order of computation; then values that could not be compared, then values in one run only."""
    differing = comparison.differing + [value for value in comparison.values if value.step is None and value.note]
    unpaired = [(name, ALONE[0]) for name in comparison.only_a] + [(name, ALONE[1]) for name in comparison.only_b]
    rows: list[Difference] = [
        {
            "name": value.name,
            "value": value.state or value.name,
            "line": value.line[0],
            "step": None if value.step is None else max(_step_of(value), 0),
            "text": difference(value),
        }
        for value in differing
    ]
    rows += [{"name": name, "line": None, "step": None, "text": text} for name, text in unpaired]
    notes = page.Notes()
    return {
        "kind": "comparison",
        "run": comparison.serials[0],
        "other": comparison.serials[1],
        "agree": comparison.agree,
        "first": notes.attempt("first difference", lambda: _first(comparison), None),
        "differences": rows,
        "notes": [*comparison.notes, *notes.lines],
        "text": f"{comparison.a} and {comparison.b}: {_summary(comparison, len(differing))}",
    }


def difference(value: Compared) -> str:
    """`0.52 and 0.48 at batch 0, time 3 · Δ 0.04 · 5 steps differ, Δ at most 0.3`"""
    if value.step is None:
        return value.note
    at = f" at {value.where}" if value.where else ""
    words = [f"{_relation(value)}{_entry(value.a)} and {_entry(value.b)}{at}"]
    is_number = _is_number(value)
    if is_number:
        words.append(f"Δ {short(value.difference)}")
    if value.steps > 1:
        peak = f", Δ at most {short(value.largest)}" if is_number and value.largest > value.difference else ""
        words.append(f"{count_of(value.steps, 'step')} differ{peak}")
    return " · ".join([*words, *([value.note] if value.note else [])])


def _step_of(value: Compared) -> int:
    """The first step that differs; for a state that a fork edited, the step after the edit; -1 for the start."""
    return -1 if value.step is None else value.step + value.edited


def _relation(value: Compared) -> str:
    """Whether a state differs at the start, before the step or after it; empty for values of the body."""
    if _step_of(value) < 0:
        return "at the start: "
    return "before it: " if value.edited else "" if value.state is None else "after it: "


def _when(step: int, *, edited: bool) -> str:
    """`step 3`, or before it."""
    return "before the first step" if step < 0 else f"before step {step}" if edited else f"step {step}"


def to_page(view: ComparisonView) -> page.Page:
    """The first difference with pictures; later ones folded."""
    first, rows, count = view["first"], view["differences"], len(view["differences"])
    word = page.chip("agree", GREY) if view["agree"] else page.chip("differ", ALARM)
    blocks = [
        page.Line(page.web(word), view["text"], look=HEAD),
        None if first is None else _first_block(first),
        page.Only("text", [page.Grid([_cells(row) for row in rows[:ROWS]])]),
        page.Only("text", [page.Line(f"  … {count - ROWS:,} more: view.table()")]) if count > ROWS else None,
        page.Only("html", [_folded(words, group) for words, group in _groups(view).items() if group]),
        *map(page.Note, view["notes"]),
    ]
    cells = [[row["name"], row["line"], row["step"], row["text"]] for row in rows]
    return page.Page("comparison", "", blocks, page.Table(["value", "line", "step", "difference"], cells))


def _first_block(first: FirstDifference) -> page.Group:
    labelled = facts(first)
    head = page.Span(
        [page.bold(first["name"]), " ", page.pills(first["dims"]), page.quiet(labelled[0][1].partition("}, ")[2])],
        text=fact_lines(labelled[:1])[0],
    )
    pictures = window.pictures_html(first["pictures"])
    return page.Group([page.Line(head), page.Facts(labelled[1:]), page.Figure(pictures)], look=FIRST)


FIRST = f"border-left:3px solid {ALARM};padding-left:10px;margin:4px 0"
ROWS = 40
"""Largest number of differences in the text."""


def facts(first: FirstDifference) -> list[tuple[str, str]]:
    """Labelled facts about the first difference."""
    lines = [str(line) for line in first["lines"] if line is not None]
    step = _when(first["step"], edited=first.get("edited", False))
    place = [step, *([f"line {' and '.join(dict.fromkeys(lines))}"] if lines else [])]
    return [
        ("first", f"{first['name']} {dims_text(first['dims'])}, {', '.join(place)}"),
        ("values", f"{first['a']} and {first['b']}" + (f" at {first['where']}" if first["where"] else "")),
        *_apart(first),
        *([("note", first["note"])] if first["note"] else []),
    ]


def _apart(first: FirstDifference) -> list[tuple[str, str]]:
    if first["difference"] in (None, "inf", 0):
        return []
    return [("apart", f"|Δ| {short(first['difference'])}, {short(100 * real(first['relative']))} % of the largest")]


def _first(comparison: Comparison) -> FirstDifference | None:
    value, numbers = comparison.first, comparison.numbers
    if value is None or numbers is None or value.step is None:
        return None
    axes = [Axis(dim, size) for dim, size in zip(numbers.dims, numbers.a.shape, strict=True)]
    return {
        "name": value.name,
        "lines": list(value.line),
        "step": _step_of(value),
        "edited": value.edited,
        "dims": describe_axes(axes),
        "where": value.where,
        "a": _entry(value.a),
        "b": _entry(value.b),
        "difference": plain(value.difference) if _is_number(value) else None,
        "relative": plain(value.relative),
        "note": value.note or None,
        "pictures": _pictures(comparison, numbers),
    }


def _is_number(value: Compared) -> bool:
    """Whether a distance makes sense: labels and truth values have none."""
    return not isinstance(value.a, str | bool)


def _pictures(comparison: Comparison, numbers: PairedNumbers) -> list[MarkedPicture]:
    """Pictures of both runs on one scale, and of their difference; entries that are not compared are hatched.

    Labels, whose numbers mean nothing, have one picture of where they differ, and a single entry has none.
    """
    if numbers.a.size == 1:
        return []
    names = [dim.name for dim in numbers.dims]
    moves = [i != numbers.owner and dim.is_dynamic() for i, dim in enumerate(numbers.dims)]
    cut = window.around(numbers.a.shape, names, numbers.place, numbers.owner, moves)
    if cut is None:
        return []
    valid = cut.cut(numbers.counts)
    if (first := comparison.first) is not None and not _is_number(first):
        differs, text = cut.cut(numbers.a != numbers.b) * 1.0, f"{_entry(first.a)} and {_entry(first.b)}"
        return [window.draw(differs, valid, cut, "where they differ", text, 1.0, "sequential")]
    a, b = _real(numbers.a), _real(numbers.b)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
    titles = [f"run {serial}" for serial in comparison.serials]
    return window.draw_both(cut, valid, dict(zip(titles, [a, b], strict=True)), apart)


def _real(array: np.ndarray) -> np.ndarray:
    return np.abs(array) if array.dtype.kind == "c" else array.astype(np.float64)


def _groups(view: ComparisonView) -> dict[str, list[Difference]]:
    """The other differences, values that could not be compared, and values in one run only."""
    rows = view["differences"]
    differing = [row for row in rows if row["step"] is not None]
    uncompared = [row for row in rows if row["step"] is None]
    unpaired = [row for row in uncompared if row["text"] in ALONE]
    return {
        "consequences": differing if view["first"] is None else differing[1:],
        "not compared": [row for row in uncompared if row not in unpaired],
        "in one run only": unpaired,
    }


def _folded(words: str, rows: list[Difference]) -> page.Fold:
    grid = page.Grid([[page.bold(name), *tail] for name, *tail in map(_cells, rows)])
    return page.Fold(f"{words} ({len(rows)})", [grid])


def _cells(row: Difference) -> list[str]:
    line = "" if row["line"] is None else f"line {row['line']}"
    return [row["name"], line, "" if row["step"] is None else f"step {row['step']}", row["text"]]


def _summary(comparison: Comparison, differing: int) -> str:
    count = count_of(len(comparison.values), "value")
    first = comparison.first
    if first is not None:
        line = f" (line {first.line[0]})" if first.line[0] is not None else ""
        when = _when(_step_of(first), edited=first.edited)
        during = "in " if when.startswith("step") else ""
        verb = "differs" if differing == 1 else "differ"
        return f"{differing} of {count} {verb}, first {first.name}{line} {during}{when}"
    if not comparison.values:
        return "no value has the same name in both"
    if differing:
        return f"{differing} of {count} cannot be compared, the others agree"
    where = "" if comparison.complete else " in the steps that were compared"
    return f"all {count} agree{where}" + ("" if comparison.same_steps else ", but not the number of steps")


def _entry(entry: object) -> str:
    return repr(entry) if isinstance(entry, str) else short(entry)
