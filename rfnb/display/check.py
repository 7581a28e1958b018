"""The view of a check: the first finding with its value, then all others as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.display.kit import blocks as page, window
from rfnb.display.kit.data import Data, describe_axes, read, to_numpy
from rfnb.display.kit.window import MarkedPicture
from rfnb.display.markup import png
from rfnb.display.markup.numbers import short
from rfnb.display.markup.style import ALARM, GREY, HEAD
from rfnb.loop.check.finiteness import FiniteReport, NotFinite
from rfnb.loop.check.invariance import BatchDifference, BatchReport
from rfnb.trace.observe import OpEvent

ROWS = 20
"""Largest number of findings listed."""
COLUMNS = ("op", "value", "what", "at", "where", "module", "loop", "operands", "came from")
LONG = ("operands", "came from")
"""Columns that only `view.table()` has."""


@page.shows("check", "rfnb.loop.check.invariance.BatchReport", "rfnb.loop.check.finiteness.FiniteReport")
def describe(report: BatchReport | FiniteReport) -> page.Page:
    """The first finding of `rf.check.finite` or `rf.check.batch_invariance`, with pictures, and all others."""
    notes, first = page.Notes(), report.first
    findings, facts = _findings(report), list[tuple[str, page.Words]](report.facts())
    tensor = None if first is None else first.tensor
    data = None if tensor is None else notes.attempt("value", lambda: read(tensor), None)
    if len(findings) > ROWS:
        notes.add(f"the first {ROWS} of {len(findings)} findings")
    is_found = any(label != "hint" for label, _ in facts)
    word, colour = ("passed", GREY) if report else ("found" if is_found else "not checked", ALARM)
    if data is not None:
        facts.append(("dims", page.pills(describe_axes(data.axes, data.feature))))
    pictures = [] if first is None else notes.attempt("picture", lambda: _pictures(first), list[MarkedPicture]())
    table = page.Table(COLUMNS, findings[:ROWS])
    blocks: list[page.Block] = [
        page.Line(page.web(page.chip(word, colour)), repr(report).partition("\n")[0], look=HEAD),
        page.Facts(facts),
        page.Figure(window.pictures_html(pictures)),
        page.Fold(page.web(f"all findings ({len(table)})"), [page.Line(""), _short(table)]) if len(table) > 1 else None,
        page.Note(notes.text()),
    ]
    return page.Page("check", "finite" if isinstance(report, FiniteReport) else "batch invariance", blocks, table)


def _short(table: page.Table) -> page.Grid:
    """The table without long and empty columns."""
    keep = [i for i, name in enumerate(COLUMNS) if name not in LONG and any(row[i] for row in table.rows)]
    return page.Grid([[row[i] for i in keep] for row in table.rows], [COLUMNS[i] for i in keep])


def _findings(report: BatchReport | FiniteReport) -> list[list[str]]:
    """A row of `COLUMNS` for each finding."""
    if isinstance(report, FiniteReport):
        return [_not_finite(finding) for finding in report.made]
    return [] if report.first is None else [_difference(report.first)]


def _not_finite(finding: NotFinite) -> list[str]:
    words = f"{'gradient' if finding.gradient else f'{finding.count:,}'} {finding.kind}"
    source = finding.came_from
    came_from = "" if source is None else f"{source.kind} of {source.event.place()}"
    return _finding(finding.event, words, finding.at, finding.operands, came_from)


def _difference(finding: BatchDifference) -> list[str]:
    words = finding.lengths or f"{short(finding.together)} together, {short(finding.alone)} alone"
    at = [finding.sequence, *([finding.at] if finding.at else [])]
    return _finding(finding.event, words, ", ".join(at), finding.operands, "")


def _finding(event: OpEvent, words: str, at: str, operands: Sequence[str], came_from: str) -> list[str]:
    source = event.source
    place = "" if source is None else f"{source.place()}: {source.text()}"
    loop = "" if event.step is None else f"step {event.step} of {event.loop}"
    return [event.op, event.name, words, at, place, event.path, loop, "; ".join(operands), came_from]


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
    top, scale = png.scale_of(part[mask])
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
    moves = [i != owner and axis.moves for i, axis in enumerate(data.axes)]
    names = ["" if i == owner and rows is None else axis.dim.name for i, axis in enumerate(data.axes)]
    return window.around(shape, names, at, rows, moves)


def _numbers(data: Data, counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The entries, and which of them are valid."""
    values = to_numpy(data.raw).astype(np.float64)
    mask = data.mask()
    valid = np.ones([1] * values.ndim, bool) if mask is None else mask
    return values, np.broadcast_to(valid if counts is None else valid & counts, values.shape)
