"""The views of checkpoints: what is in one, and which parameters were loaded, are missing, or were left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from rfnb.checkpoint.entries import CheckpointFile, StoredEntry
from rfnb.checkpoint.report import LoadReport, ValueOrigin
from rfnb.core.ground.text import count_of
from rfnb.display.kit import blocks as page, options
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el, fold as fold_html
from rfnb.display.markup.numbers import amount, plain, size
from rfnb.printable import bounded

DEEPEST = 12
"""Names with more parts keep the rest in one."""
OPEN = 8
"""Parts with at most so many entries are open at first."""
ITEMSIZES = {"bool": 1, "float8_e5m2": 1, "float8_e4m3fn": 1}
"""The bytes of a value, for dtypes whose names do not say it."""


@dataclass
class EntryTree:
    """A part of the names: its entries by the rest of their names, the parts below it, and the totals of both."""

    rows: dict[str, StoredEntry] = field(default_factory=dict)
    parts: dict[str, EntryTree] = field(default_factory=dict)
    entries: int = 0
    values: int = 0


@page.shows("checkpoint", "rfnb.checkpoint.entries.CheckpointFile")
def page_of_checkpoint(file: CheckpointFile) -> page.Page:
    """The entries as a tree of their names, and those that stand apart."""
    root, entries = EntryTree(), file.entries
    for path, entry in entries.items():
        *folders, name = path.split(file.separator, DEEPEST)
        part = root
        for folder in [None, *folders]:
            part = part if folder is None else part.parts.setdefault(folder, EntryTree())
            part.entries += 1
            part.values += prod(entry.shape)
        part.rows[name] = entry
    number = f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"
    total = f"{number}, {amount(root.values)} values, {size(sum(map(_bytes, entries.values())))}"
    text = f"{file.kind} {file.path}: {total}"
    head = page.Span([page.name(file.path), page.quiet(f"  {file.kind} · {total}")], text=text)
    tree = page.Group(list(_blocks(root, file.separator)), f"{style.RAIL};overflow-x:auto;{style.NUMBERS}", indent=2)
    extras = [_entry(path, entry) for path, entry in file.apart.items()]
    words, kinds = f"apart: {len(extras)}", "optimizers, steps, and values that are not numbers"
    title = _title(words, kinds, f"  {words}")
    apart = page.Fold(title, [page.Group(extras, indent=2)], rail=True) if extras else None
    rows = [[path, _shape(x), x.dtype, prod(x.shape), _bytes(x), ""] for path, x in entries.items()]
    rows += [[path, _shape(x), x.dtype, prod(x.shape), _bytes(x), "yes"] for path, x in file.apart.items()]
    table = page.Table(["name", "shape", "dtype", "values", "bytes", "apart"], rows)
    blocks: list[page.Block] = [page.Line(head), page.Group([tree, apart], most=options.MODULE_LINES - 1)]
    return page.Page("checkpoint", file.path, blocks, table)


def _blocks(part: EntryTree, separator: str) -> Iterator[page.Block]:
    """A line for each entry, in columns, and a fold for each part."""
    widths = [min(max(map(len, column), default=0), limit) for column, limit in
              ((part.rows, 40), (list(map(_shape, part.rows.values())), 20))]  # fmt: skip
    for name, entry in part.rows.items():
        yield _entry(name, entry, *widths)
    for path, branch in part.parts.items():
        facts = f"{amount(branch.values)} values in {branch.entries}"
        title = _title(f"{path}{separator}", facts, f"{path}{separator}  {facts}")
        yield page.Fold(title, list(_blocks(branch, separator)), branch.entries <= OPEN, rail=True)


def _title(words: str, facts: str, text: str) -> page.Span:
    return page.Span([page.bold(words), " ", page.quiet(facts)], text=text)


def _entry(path: str, entry: StoredEntry, *widths: int) -> page.Line:
    shape = _shape(entry)
    name_width, shape_width = widths or (0, 0)
    text = f"{path:<{name_width}}  {shape:<{shape_width}}  {entry.dtype}"
    words = page.Span([f"{path} ", page.quiet(f"{shape} · {entry.dtype}")], text=text)
    return page.Line(words, look="white-space:nowrap")


def _shape(entry: StoredEntry) -> str:
    return "×".join(map(str, entry.shape)) or "scalar"


def _bytes(entry: StoredEntry) -> int:
    bits = re.fullmatch(r"(?:b?float|u?int|complex)(8|16|32|64|128)", entry.dtype)
    return prod(entry.shape) * (int(bits[1]) // 8 if bits else ITEMSIZES.get(entry.dtype, 0))


ODD = ("missing", "unexpected", "note")
LISTED = 500
"""Largest number of parameters that are listed with their sources."""
SHOWN = 5
"""Largest number of names on a line."""


@page.shows("load_report", "rfnb.checkpoint.report.LoadReport")
def page_of_report(report: LoadReport) -> page.Page:
    """The report with possible mistakes marked and long lists folded."""
    origins, count = list(report.origins), count_of(len(report.loaded), "parameter")
    groups = [(word, list(map(bounded, names))) for word, names in report.groups() if names]
    blocks: list[page.Block] = [
        page.Line(page.name(count), page.quiet(page.web(" "), f" loaded from {report.path}")),
        page.Only("text", [page.Line(f"{word:<10} {_some(names)}", indent=2) for word, names in groups]),
        page.Only("html", [page.Grid([[_word(word), _names(names)] for word, names in groups])]),
    ]
    if origins:
        rows: list[list[page.Words]] = [[origin.name, *_cells(origin)] for origin in origins[:LISTED]]
        grid = page.Grid(rows, ["parameter", "from", "conversion", "norm before", "after"])
        tail = f"… and {len(origins) - LISTED} more; all: .table()" if len(origins) > LISTED else None
        fold = page.Fold("each parameter", [grid, page.Line(page.quiet(tail)) if tail else None])
        blocks.append(page.Only("html", [fold]))
    return page.Page("load_report", "", blocks, _table(report))


def _table(report: LoadReport) -> page.Table:
    """A row for each name; for a network, with the entries that the value came from, and norms."""
    origins = {origin.name: origin for origin in report.origins}
    rows = [["loaded", name, *_cells(origins.get(name))] for name in report.loaded]
    rows += [[word, name, *_cells(None)] for word, names in report.groups() for name in names]
    if not origins:
        return page.Table(["what", "name"], [row[:2] for row in rows])
    return page.Table(["what", "name", "from", "conversion", "norm before", "norm after"], rows)


def _cells(origin: ValueOrigin | None) -> list[str | float | None]:
    if origin is None:
        return ["", "", None, None]
    norms = (None if norm is None else plain(norm) for norm in (origin.before, origin.after))
    return [", ".join(origin.sources), origin.conversion, *norms]


def _word(what: str) -> page.Words:
    return page.chip(what, style.WARN) if what in ODD else page.quiet(what)


def _names(names: list[str]) -> Html:
    listed = [el("div", name) for name in names]
    return el("div", listed) if len(names) <= SHOWN else fold_html(_some(names), *listed)


def _some(names: list[str]) -> str:
    """The first names, and the number of others."""
    tail = f", … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + tail
