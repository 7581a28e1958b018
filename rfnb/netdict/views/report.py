"""The view of `net.report()`: a table, the worst first."""

from __future__ import annotations

from rfnb.core.ground.text import count_of
from rfnb.display.graph.cards import amount
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, chip, fold, note_html, note_text, quiet, row
from rfnb.display.markup.html import Html, el, join
from rfnb.netdict.report.findings import LEVELS, NetworkReport
from rfnb.netdict.views.schema import NetworkReportView, ReportFinding

COLUMNS = ("", "what", "layers", "line", "what to do")
WORDS = {
    "stops": "stops",
    "ignored": "ignored",
    "differs": "differs",
    "training": "up to you",
}
ABOUT = {
    "stops": "no batch passes before this is mended",
    "ignored": "options without effect",
    "differs": "values may not be those that you expect",
    "training": "entries for the training, which is your own loop",
}
COLOURS = {"stops": style.ALARM, "ignored": style.WARN, "differs": style.WARN, "training": style.GREY}
FEW = 3
"""So many layers are named of a finding."""
MOST = 200
"""Largest number of findings listed."""


def describe(report: NetworkReport) -> NetworkReportView:
    """The findings as JSON."""
    extra = len(report.findings) - MOST
    return {
        "kind": "network_report",
        "name": report.name,
        "runs": bool(report),
        "layers": report.layers,
        "params": report.params,
        "findings": [
            {"level": x.level, "what": x.what, "layers": list(x.layers), "lines": list(x.lines), "way": x.way}
            for x in report.findings[:MOST]
        ],
        "note": f"{extra} more findings" if extra > 0 else None,
    }


def _facts(view: NetworkReportView) -> str:
    return f"{count_of(view['layers'], 'layer')} constructed, {amount(view['params'])} parameters"


def _verdict(view: NetworkReportView) -> str:
    stops = sum(finding["level"] == "stops" for finding in view["findings"])
    return "runs" if view["runs"] else f"does not run: {count_of(stops, 'reason')}"


def to_text(view: NetworkReportView) -> str:
    """The verdict, then a row for each finding."""
    lines = [f"{view['name']}: {_verdict(view)} ({_facts(view)})"]
    if view["findings"]:
        lines += [f"  {line}" for line in to_table(view).lines()]
    return "\n".join(lines + note_text(view["note"]))


def to_table(view: NetworkReportView) -> Table:
    """A row for each finding."""
    return Table(COLUMNS, [_row(finding) for finding in view["findings"]])


def _row(found: ReportFinding) -> list[str]:
    return [WORDS[found["level"]], found["what"], _layers(found), _lines(found), found["way"]]


def _layers(found: ReportFinding) -> str:
    names = found["layers"]
    tail = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + tail


def _lines(found: ReportFinding) -> str:
    return ", ".join(map(str, found["lines"][:FEW])) + (" …" if len(found["lines"]) > FEW else "")


def to_html(view: NetworkReportView) -> Html:
    """A fold for each level, the worst first."""
    verdict = chip(_verdict(view), style.GREY if view["runs"] else style.ALARM)
    head = join(el("span", view["name"], style=style.NAME), " ", verdict, quiet(_facts(view)))
    parts = [_level(view, level) for level in LEVELS]
    return el("div", el("div", head, style=style.HEAD), parts, note_html(view["note"]), style=style.BOX)


def _level(view: NetworkReportView, level: str) -> Html | None:
    findings = [finding for finding in view["findings"] if finding["level"] == level]
    if not findings:
        return None
    title = join(chip(f"{WORDS[level]} {len(findings)}", COLOURS[level]), quiet(ABOUT[level]))
    rows = [_html_row(finding) for finding in findings]
    header = row(*COLUMNS[1:], tag="th", look=f"{style.LEFT_CELL};opacity:0.65;font-weight:normal")
    table = el("table", el("thead", header), el("tbody", rows), style=style.TABLE.replace("monospace", "sans-serif"))
    return fold(title, el("div", table, style="overflow-x:auto"), open=level != "training")


def _html_row(found: ReportFinding) -> Html:
    words = f"{style.LEFT_CELL};white-space:normal;min-width:9em;overflow-wrap:break-word"
    cells = (found["what"], _layers(found), _lines(found), found["way"])
    looks = (
        f"{words};max-width:30em",
        f"{words};max-width:16em;font-family:monospace",
        style.LEFT_CELL,
        f"{words};max-width:24em;opacity:0.8",
    )
    return el(
        "tr", [el("td", cell, style=look) for cell, look in zip(cells, looks, strict=True)], style=style.PLAIN_ROW
    )
