"""The view of `rf.search.report`: the rates and classes of each setting, and the wrong outputs with their verdicts."""

from __future__ import annotations

from rfnb.core.ground.text import count_of
from rfnb.display.beam.view import verdict_colour
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.errors import ViewError
from rfnb.search.corpus import RATES, ReportRow, SearchReport, SearchReports, rates_in
from rfnb.search.explain.position import VERDICTS

Settings = dict[str, SearchReport]
"""By the name of a setting, its report; a report alone has no name."""
MOST = 20
"""Wrong outputs that are shown, if no number is given."""


@page.shows("search_report", "rfnb.search.corpus.SearchReport", "rfnb.search.corpus.SearchReports")
def describe(report: SearchReport | SearchReports, verdict: str | None = None, most: int = MOST) -> page.Page:
    """The settings with a bar of their classes, and the wrong outputs.

    verdict: only sequences with it are shown, such as "search error". most: how many of them.
    """
    if verdict is not None and verdict not in VERDICTS:
        raise ViewError("show: there is no such verdict", got=verdict, expected=", ".join(VERDICTS))
    settings = dict(report.settings) if isinstance(report, SearchReports) else {"": report}
    rows = [
        results
        for results in zip(*(setting.rows for setting in settings.values()), strict=False)
        if any(result.verdict == verdict if verdict else result.verdict != "correct" for result in results)
    ]
    extra = len(rows) - most
    names = ["sequence", "reference", *(name or "output" for name in settings)]
    wrong = [[results[0].name, results[0].reference.text, *map(_output, results)] for results in rows[:most]]
    html: list[page.Block] = [
        _in_percent(settings),
        *(page.Figure(_bar(name if len(settings) > 1 else "", setting)) for name, setting in settings.items()),
        page.Grid(wrong, names),
        page.Note(f"{count_of(extra, 'more sequence')}; rf.show(report, most=…, verdict=…)" if extra > 0 else None),
    ]
    return page.Page(
        "search_report", "", [page.Only("text", [page.Line(report.text)]), page.Only("html", html)], _table(settings)
    )


def _table(settings: Settings) -> page.Table:
    """A row for each setting."""
    classes = [verdict for verdict in VERDICTS if any(verdict in setting.classes for setting in settings.values())]
    rows = [
        [name, len(setting), *(float(getattr(setting, rate)) for rate in RATES),
         *(setting.classes.get(verdict, 0) for verdict in classes)]
        for name, setting in settings.items()
    ]  # fmt: skip
    names = rates_in(any(setting.words for setting in settings.values()))
    return page.Table(["setting", "sequences", *names.values(), *classes], rows)


def _in_percent(settings: Settings) -> page.Grid:
    """The table, with shares in percent; a single setting has no name."""
    table, start, shares = _table(settings), 0 if any(settings) else 1, len(RATES)
    rows = [
        [name, count, *(f"{100 * share:.4g} %" for share in tail[:shares]), *tail[shares:]][start:]
        for name, count, *tail in table.rows
    ]
    return page.Grid(rows, table.columns[start:])


def _bar(name: str, setting: SearchReport) -> Html | None:
    """The classes, each as wide as its share of the sequences."""
    parts = [
        el("span", f"{verdict} {count:,}",
           style=f"{PART};flex:{count} 1 0;background-color:{style.tint(verdict_colour(verdict), 0.3)}")
        for verdict, count in setting.classes.items()
    ]  # fmt: skip
    title = el("span", name, " ", style="min-width:80px;margin-right:8px") if name else None
    return el("div", title, parts, style="display:flex;max-width:640px;margin:2px 0") if parts else None


PART = "overflow:hidden;white-space:nowrap;padding:0 4px;font-size:12px;min-width:2px"


def _output(result: ReportRow) -> page.Words:
    """The output of a setting for a sequence, its verdict, and where the reference fell out."""
    words = page.quiet("no hypothesis") if result.output is None else result.output or "(no labels)"
    beam = "" if result.needed is None else f", needs beam {result.needed}"
    fall = result.where.fall
    fell = None if fall is None else page.quiet(f" fell out at step {fall.step}{beam}")
    return [page.chip(result.verdict, verdict_colour(result.verdict)), words, fell]
