"""The view of a check: the first finding with its value, then all others as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np

from rfnb.display.kit import window
from rfnb.display.kit.data import Data, read, to_numpy
from rfnb.display.kit.dims import describe_axes, dims_html, dims_text
from rfnb.display.kit.note import Notes
from rfnb.display.kit.schema import DimView, MarkedPicture
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, chip, facts_html, fold, note_html, note_text, table_html
from rfnb.display.markup.html import Child, Html, el
from rfnb.display.markup.numbers import short
from rfnb.errors import fact_lines
from rfnb.loop.check.finiteness import FiniteReport, NotFinite
from rfnb.loop.check.invariance import BatchDifference, BatchReport

if TYPE_CHECKING:
    from rfnb.trace.observe import OpEvent


class Finding(TypedDict):
    """An op that a check reports."""

    op: str
    name: str  # what the user's line calls its result
    what: str  # "3 NaN", "0.5 together, 0.4 alone"
    at: str  # the entry, by dim; of a difference, the sequence as well
    place: str  # the user's line
    path: str  # of the module it is in
    loop: str | None
    step: int | None  # of that loop
    operands: list[str]
    came_from: str | None


class CheckView(TypedDict):
    """What `rf.check.finite` or `rf.check.batch_invariance` found."""

    kind: Literal["check"]
    name: Literal["finite", "batch invariance"]
    passed: bool
    text: str
    facts: list[list[str]]  # of the first finding: [label, words]
    dims: list[DimView]  # of its value
    pictures: list[MarkedPicture]
    findings: list[Finding]
    note: str | None


ROWS = 20
"""Largest number of findings listed."""
COLUMNS = ["op", "value", "what", "at", "where", "module", "loop", "operands", "came from"]


def describe(report: BatchReport | FiniteReport) -> CheckView:
    """The findings of `rf.check.finite` or `rf.check.batch_invariance` as JSON."""
    notes = Notes()
    finite = isinstance(report, FiniteReport)
    findings = _findings(report)
    first = report.first
    tensor = None if first is None else first.tensor
    data = None if tensor is None else notes.attempt("value", lambda: read(tensor), None)
    if len(findings) > ROWS:
        notes.add(f"the first {ROWS} of {len(findings)} findings")
    return {
        "kind": "check",
        "name": "finite" if finite else "batch invariance",
        "passed": bool(report),
        "text": repr(report).partition("\n")[0],
        "facts": [list(fact) for fact in report.facts()],
        "dims": [] if data is None else describe_axes(data.axes, data.feature),
        "pictures": notes.attempt("picture", lambda: _pictures(first), []) if first is not None else [],
        "findings": findings[:ROWS],
        "note": notes.text(),
    }


def to_text(view: CheckView) -> str:
    """A single line if nothing was found; else facts about the first finding, and a line for each other."""
    lines = [view["text"], *fact_lines(view["facts"])]
    if view["dims"]:
        lines += fact_lines([("dims", dims_text(view["dims"]))])
    if len(view["findings"]) > 1:
        lines += ["", *(f"  {line}" for line in _short_table(view).lines())]
    return "\n".join(lines + note_text(view["note"]))


def to_html(view: CheckView) -> Html:
    """The findings, with pictures in which the place is marked."""
    has_facts = any(label != "hint" for label, _ in view["facts"])
    word, colour = ("passed", style.GREY) if view["passed"] else ("found" if has_facts else "not checked", style.ALARM)
    facts: list[tuple[str, Child]] = [(label, words) for label, words in view["facts"]]
    facts += [("dims", dims_html(view["dims"]))] if view["dims"] else []
    return el(
        "div",
        el("div", chip(word, colour), view["text"], style=style.HEAD),
        facts_html(facts),
        window.pictures_html(view["pictures"]),
        _others(view),
        note_html(view["note"]),
        style=style.BOX,
    )


def to_table(view: CheckView) -> Table:
    """A row for each finding."""
    return Table(COLUMNS, [_row(finding) for finding in view["findings"]])


def _row(found: Finding) -> list[str]:
    loop = "" if found["step"] is None else f"step {found['step']} of {found['loop']}"
    return [
        found["op"],
        found["name"],
        found["what"],
        found["at"],
        found["place"],
        found["path"],
        loop,
        "; ".join(found["operands"]),
        found["came_from"] or "",
    ]


def _short_table(view: CheckView) -> Table:
    """The table without empty columns, and without the first finding, which is shown in full."""
    keep = [i for i, name in enumerate(COLUMNS) if name not in ("operands", "came from")]
    rows = [_row(finding) for finding in view["findings"]]
    keep = [i for i in keep if any(row[i] for row in rows)]
    return Table([COLUMNS[i] for i in keep], [[row[i] for i in keep] for row in rows])


def _others(view: CheckView) -> Html | None:
    if len(view["findings"]) < 2:
        return None
    table = el("div", table_html(_short_table(view)), style="overflow-x:auto")
    return fold(f"all findings ({len(view['findings'])})", table)


def _findings(report: BatchReport | FiniteReport) -> list[Finding]:
    if isinstance(report, FiniteReport):
        return [_not_finite(finding) for finding in report.made]
    return [] if report.first is None else [_difference(report.first)]


def _not_finite(found: NotFinite) -> Finding:
    words = f"{'gradient' if found.gradient else f'{found.count:,}'} {found.kind}"
    source = found.came_from
    came_from = None if source is None else f"{source.kind} of {source.event.place()}"
    return _finding(found.event, words, found.at, found.operands, came_from)


def _difference(found: BatchDifference) -> Finding:
    words = found.lengths or f"{short(found.together)} together, {short(found.alone)} alone"
    at = [found.sequence, *([found.at] if found.at else [])]
    return _finding(found.event, words, ", ".join(at), found.operands, None)


def _finding(event: OpEvent, what: str, at: str, operands: Sequence[str], came_from: str | None) -> Finding:
    source = event.source
    return {
        "op": event.op,
        "name": event.name,
        "what": what,
        "at": at,
        "place": "" if source is None else f"{source.place()}: {source.text()}",
        "path": event.path,
        "loop": event.loop,
        "step": event.step,
        "operands": list(operands),
        "came_from": came_from,
    }


def _pictures(first: BatchDifference | NotFinite) -> list[MarkedPicture]:
    """Pictures of the value around the place; for a difference, of the sequence in its batch and alone."""
    if first.tensor is None or first.place is None:
        return []
    data = read(first.tensor)
    if isinstance(first, BatchDifference):
        return _both(first, data)
    values, valid = _numbers(data, first.counts)
    cut = _window(data, data.shape, first.place, data.sequence_axis())
    if cut is None:
        return []
    part, mask = cut.cut(values), cut.cut(valid)
    top, scale = window.scale_of(part[mask])
    return [window.draw(part, mask, cut, first.event.name, short(values[first.place]), top, scale)]


def _both(first: BatchDifference, data: Data) -> list[MarkedPicture]:
    """One sequence in its batch, alone, and their difference, on one scale."""
    assert first.tensor_alone is not None and first.place is not None
    owner = data.sequence_axis()
    index = tuple(slice(place, place + 1) if i == owner else slice(None) for i, place in enumerate(first.place))
    at = tuple(0 if i == owner else place for i, place in enumerate(first.place))
    values, valid = (array[index] for array in _numbers(data, None))
    padded, cover = np.full(values.shape, np.nan), np.zeros(values.shape, bool)
    single = _numbers(read(first.tensor_alone), None)[0]
    overlap = tuple(slice(0, min(sizes)) for sizes in zip(values.shape, single.shape, strict=True))
    padded[overlap], cover[overlap] = single[overlap], True
    cut = _window(data, values.shape, at, None)
    if cut is None:
        return []
    mask = cut.cut(valid & cover)
    with np.errstate(all="ignore"):
        apart = np.abs(values - padded)
    return window.draw_both(cut, mask, {f"{first.event.name} in the batch": values, "alone": padded}, apart)


def _window(data: Data, shape: tuple[int, ...], at: tuple[int, ...], rows: int | None) -> window.ValueWindow | None:
    owner = data.sequence_axis()
    moves = [i != owner and (axis.lengths is not None or axis.dim.is_dynamic()) for i, axis in enumerate(data.axes)]
    names = ["" if i == owner and rows is None else axis.dim.name for i, axis in enumerate(data.axes)]
    return window.around(shape, names, at, rows, moves)


def _numbers(data: Data, counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The entries, and which of them are valid."""
    values = to_numpy(data.raw).astype(np.float64)
    mask = data.mask()
    valid = np.ones([1] * values.ndim, bool) if mask is None else mask
    return values, np.broadcast_to(valid if counts is None else valid & counts, values.shape)
