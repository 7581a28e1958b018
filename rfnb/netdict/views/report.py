"""The view of `net.report()`: a table, the worst first."""

from __future__ import annotations

from rfnb.core.ground.text import count_of, first_of
from rfnb.display.graph.cards import amount
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style
from rfnb.netdict.report.findings import LEVELS, NetworkFinding, NetworkReport

COLUMNS = ("", "what", "layers", "line", "what to do")
WORDS = {
    "stops": ("stops", "no batch passes before this is mended", style.ALARM),
    "search": ("no search", "training runs, a search does not", style.ALARM),
    "ignored": ("ignored", "options without effect", style.WARN),
    "differs": ("differs", "values may not be those that you expect", style.WARN),
    "training": ("up to you", "entries for the training, which is your own loop", style.GREY),
}
"""By level: the word for it, what it means, and its colour."""
FEW = 3
"""So many layers are named of a finding."""
MOST = 200
"""Largest number of findings listed."""


@page.shows("network_report", "rfnb.netdict.report.findings.NetworkReport")
def describe(report: NetworkReport) -> page.Page:
    """The verdict, then a fold for each level, the worst first."""
    findings = report.findings[:MOST]
    rows = [[WORDS[x.level][0], x.what, _layers(x), _lines(x), x.way] for x in findings]
    stops = sum(x.level == "stops" for x in findings)
    verdict = "runs" if report else f"does not run: {count_of(stops, 'reason')}"
    facts = f"{count_of(report.layers, 'layer')} constructed, {amount(report.params)} parameters"
    colour = style.GREY if report else style.ALARM
    head: list[page.Words] = [page.name(report.name), " ", page.chip(verdict, colour), page.quiet(facts)]
    folds = [_fold(level, [row for x, row in zip(findings, rows, strict=True) if x.level == level]) for level in LEVELS]
    stubs = [line for finding in report.of("stops") for line in finding.stub.splitlines()]
    blocks: list[page.Block] = [
        page.Line(page.Span(head, text=f"{report.name}: {verdict} ({facts})"), look=style.HEAD),
        page.Only("text", [page.Grid(rows, COLUMNS) if rows else None]),
        page.Only("html", folds),
        page.Fold("functions to fill in", [page.Line(line, look=style.CODE) for line in stubs]) if stubs else None,
        page.Note(f"{len(report.findings) - MOST} more findings" if len(report.findings) > MOST else None),
    ]
    return page.Page("network_report", report.name, blocks, page.Table(COLUMNS, rows))


def _layers(found: NetworkFinding) -> str:
    needed = f" (needed by {count_of(found.behind, 'other')})" if found.behind else ""
    return first_of(found.layers, FEW) + needed


def _lines(found: NetworkFinding) -> str:
    return ", ".join(map(str, found.lines[:FEW])) + (" …" if len(found.lines) > FEW else "")


CELL = f"{style.LEFT_CELL};white-space:normal;min-width:9em;overflow-wrap:break-word"
LOOKS = (
    f"{CELL};max-width:30em",
    f"{CELL};max-width:16em;font-family:monospace",
    style.LEFT_CELL,
    f"{CELL};max-width:24em",
)
HEADER = f"{style.LEFT_CELL};opacity:0.65;font-weight:normal"
TABLE = style.TABLE.replace("monospace", "sans-serif")


def _fold(level: str, rows: list[list[str]]) -> page.Block:
    """The findings of a level."""
    word, meaning, colour = WORDS[level]
    title = [page.chip(f"{word} {len(rows)}", colour), page.quiet(meaning)]
    grid = page.Grid([row[1:] for row in rows], COLUMNS[1:], LOOKS, head=HEADER, look=TABLE)
    return page.Fold(title, [grid], is_open=level != "training") if rows else None
