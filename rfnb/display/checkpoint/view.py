"""The view of a load report: names of parameters that are missing, unexpected, skipped or renamed."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.checkpoint.report import LoadReport
from rfnb.core.ground.text import count_of
from rfnb.display.kit.blocks import Block, Fold, Grid, Line, Only, Page, Span, Table, Words, chip, name, quiet
from rfnb.display.markup import style
from rfnb.display.markup.elements import fold
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import Number, plain


class LoadedNames(TypedDict):
    """Names of parameters that are missing, unexpected, skipped or renamed."""

    what: str
    names: list[str]


class LoadedOrigin(TypedDict):
    """Where the value of a parameter came from, and its norm before and after; None if it is not known."""

    name: str
    sources: list[str]
    conversion: str
    before: Number | None
    after: Number | None


class LoadReportView(TypedDict):
    """The entries of a checkpoint: loaded, missing, unexpected, skipped or renamed."""

    kind: Literal["load_report"]
    path: str
    loaded: list[str]
    origins: list[LoadedOrigin]
    groups: list[LoadedNames]


ODD = ("missing", "unexpected", "note")
LISTED = 500
"""Largest number of parameters that are listed with their sources."""
SHOWN = 5
"""Largest number of names on a line."""


def describe(report: LoadReport) -> LoadReportView:
    """The loaded names, and the other names in groups."""
    return {
        "kind": "load_report",
        "path": report.path,
        "loaded": list(report.loaded),
        "origins": [
            {
                "name": origin.name,
                "sources": list(origin.sources),
                "conversion": origin.conversion,
                "before": None if origin.before is None else plain(origin.before),
                "after": None if origin.after is None else plain(origin.after),
            }
            for origin in report.origins
        ],
        "groups": [{"what": title, "names": names} for title, names in report.groups() if names],
    }


def page(view: LoadReportView) -> Page:
    """The report with possible mistakes marked and long lists folded."""
    origins, groups, count = view.get("origins", []), view["groups"], count_of(len(view["loaded"]), "parameter")
    blocks: list[Block] = [
        Line(Span([name(count), quiet(f"  loaded from {view['path']}")], text=f"{count} loaded from {view['path']}")),
        Only("text", [Line(f"{group['what']:<10} {_some(group['names'])}", indent=2) for group in groups]),
        Only("html", [Grid([[_word(group["what"]), _names(group["names"])] for group in groups])]),
    ]
    if origins:
        rows = [
            [o["name"], ", ".join(o["sources"]), o["conversion"], o["before"], o["after"]] for o in origins[:LISTED]
        ]
        grid = Grid(rows, ["parameter", "from", "conversion", "norm before", "after"])
        tail = f"… and {len(origins) - LISTED} more; all: .table()" if len(origins) > LISTED else None
        blocks.append(Only("html", [Fold("each parameter", [grid, Line(quiet(tail)) if tail else None])]))
    return Page("load_report", "", blocks, _table(view, {origin["name"]: origin for origin in origins}))


def _table(view: LoadReportView, origins: dict[str, LoadedOrigin]) -> Table:
    """A row for each name; for a network, with the entries that the value came from, and norms."""
    rows = [["loaded", name, *_cells(origins.get(name))] for name in view["loaded"]]
    rows += [[group["what"], name, *_cells(None)] for group in view["groups"] for name in group["names"]]
    if not origins:
        return Table(["what", "name"], [row[:2] for row in rows])
    return Table(["what", "name", "from", "conversion", "norm before", "norm after"], rows)


def _cells(origin: LoadedOrigin | None) -> list[object]:
    if origin is None:
        return ["", "", None, None]
    return [", ".join(origin["sources"]), origin["conversion"], origin["before"], origin["after"]]


def _word(what: str) -> Words:
    return chip(what, style.WARN) if what in ODD else quiet(what)


def _names(names: list[str]) -> Html:
    listed = [el("div", name) for name in names]
    return el("div", listed) if len(names) <= SHOWN else fold(_some(names), *listed)


def _some(names: list[str]) -> str:
    """The first names, and the number of others."""
    tail = f", … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + tail
