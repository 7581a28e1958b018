"""The view of a load report: names of parameters that are missing, unexpected, skipped or renamed."""

from __future__ import annotations

from rfnb.checkpoint.report import LoadReport
from rfnb.core.ground.text import count_of
from rfnb.display.checkpoint.schema import LoadReportView
from rfnb.display.markup import style
from rfnb.display.markup.grid import Table
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.widgets_html import chip, fold, quiet

ODD = ("missing", "unexpected")
SHOWN = 5
"""Largest number of names on a line."""


def describe(report: LoadReport) -> LoadReportView:
    """The loaded names, and the other names in groups."""
    return {
        "kind": "load_report",
        "path": report.path,
        "loaded": list(report.loaded),
        "groups": [{"what": what, "names": names} for what, names in report.groups() if names],
    }


def to_text(view: LoadReportView) -> str:
    """A line for each group of names."""
    lines = [f"  {group['what']:<10} {_some(group['names'])}" for group in view["groups"]]
    return "\n".join([f"{_count(view)} loaded from {view['path']}", *lines])


def to_table(view: LoadReportView) -> Table:
    """A row for each name."""
    rows = [["loaded", name] for name in view["loaded"]]
    return Table(
        ["what", "name"], rows + [[group["what"], name] for group in view["groups"] for name in group["names"]]
    )


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
    return el("div", head, el("table", rows, style=style.TABLE) if rows else None, style=style.BOX)


def _count(view: LoadReportView) -> str:
    return count_of(len(view["loaded"]), "parameter")


def _word(what: str) -> Html:
    return chip(what, style.WARN) if what in ODD else quiet(what)


def _names(names: list[str]) -> Html:
    listed = [el("div", name) for name in names]
    return el("div", listed) if len(names) <= SHOWN else fold(_some(names), *listed)


def _some(names: list[str]) -> str:
    """The first names, and the number of others."""
    rest = f", … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest
