"""The view of a load report: names of parameters that are missing, unexpected, skipped or renamed."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.checkpoint.report import LoadReport
from rfnb.core.ground.text import count_of
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, chip, fold, quiet, row
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import Number, plain, short


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


def to_text(view: LoadReportView) -> str:
    """A line for each group of names."""
    lines = [f"  {group['what']:<10} {_some(group['names'])}" for group in view["groups"]]
    return "\n".join([f"{_count(view)} loaded from {view['path']}", *lines])


def to_table(view: LoadReportView) -> Table:
    """A row for each name; for a network, with the entries that the value came from, and norms."""
    origins = {origin["name"]: origin for origin in view.get("origins", [])}
    rows = [["loaded", name, *_cells(origins.get(name))] for name in view["loaded"]]
    unloaded = [[group["what"], name, *_cells(None)] for group in view["groups"] for name in group["names"]]
    if not origins:
        return Table(["what", "name"], [row[:2] for row in rows + unloaded])
    return Table(["what", "name", "from", "conversion", "norm before", "norm after"], rows + unloaded)


def _cells(origin: LoadedOrigin | None) -> list[object]:
    if origin is None:
        return ["", "", None, None]
    return [", ".join(origin["sources"]), origin["conversion"], origin["before"], origin["after"]]


def to_html(view: LoadReportView) -> Html:
    """The report with possible mistakes marked and long lists folded."""
    rows = [
        el(
            "tr",
            el("td", _word(group["what"]), style=style.LEFT_CELL),
            el("td", _names(group["names"]), style=style.LEFT_CELL),
            style=style.PLAIN_ROW,
        )
        for group in view["groups"]
    ]
    head = el("div", el("span", _count(view), style=style.NAME), quiet(f"  loaded from {view['path']}"))
    return el("div", head, el("table", rows, style=style.TABLE) if rows else None, _origins(view), style=style.BOX)


def _origins(view: LoadReportView) -> Html | None:
    """Each parameter with its source and its norms, folded."""
    if not view.get("origins"):
        return None
    names = "parameter", "from", "conversion", "norm before", "after"
    rows = [
        row(o["name"], ", ".join(o["sources"]), o["conversion"], _norm(o["before"]), _norm(o["after"]))
        for o in view.get("origins", [])[:LISTED]
    ]
    count = len(view["origins"]) - LISTED
    tail = quiet(f"… and {count} more; all: .table()", tag="div") if count > 0 else None
    return fold("each parameter", el("table", row(*names, tag="th"), rows, style=style.TABLE), tail)


def _norm(number: Number | None) -> str:
    return "" if number is None else short(number)


def _count(view: LoadReportView) -> str:
    return count_of(len(view["loaded"]), "parameter")


def _word(what: str) -> Html:
    return chip(what, style.WARN) if what in ODD else quiet(what)


def _names(names: list[str]) -> Html:
    listed = [el("div", name) for name in names]
    return el("div", listed) if len(names) <= SHOWN else fold(_some(names), *listed)


def _some(names: list[str]) -> str:
    """The first names, and the number of others."""
    tail = f", … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + tail
