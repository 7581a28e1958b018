"""The view of `rf.search.report`: the rates and classes of each setting, and the wrong outputs with their verdicts."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.core.ground.text import count_of
from rfnb.display.beam.view import verdict_colour
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, chip, note_html, quiet, row, table_html
from rfnb.display.markup.html import Html, el
from rfnb.errors import ViewError
from rfnb.search.corpus.report import RATES, Row, SearchReport, SearchReports
from rfnb.search.explain.where import VERDICTS


class SearchSetting(TypedDict):
    """The numbers of a search with one setting."""

    name: str
    sequences: int
    rates: dict[str, float]  # by the words for them
    classes: dict[str, int]  # how many sequences have each verdict


class SearchOutput(TypedDict):
    """The output for a sequence with one setting."""

    text: str | None  # None: no hypothesis was left
    verdict: str
    fell: str  # where the reference fell out, as words


class SearchRow(TypedDict):
    """A sequence with a wrong output."""

    name: str
    reference: str
    outputs: list[SearchOutput]  # in the order of the settings


class SearchReportView(TypedDict):
    """A report, or several of the same sequences."""

    kind: Literal["search_report"]
    summary: list[str]
    settings: list[SearchSetting]
    rows: list[SearchRow]
    note: str | None


MOST = 20
"""Wrong outputs that are shown, if no number is given."""


def describe(report: SearchReport | SearchReports, verdict: str | None = None, most: int = MOST) -> SearchReportView:
    """The report as JSON.

    verdict: only sequences with it are shown, such as "search error". most: how many of them.
    """
    if verdict is not None and verdict not in VERDICTS:
        raise ViewError("show: there is no such verdict", got=verdict, expected=", ".join(VERDICTS))
    settings = dict(report.settings) if isinstance(report, SearchReports) else {"": report}
    rows = _rows(list(settings.values()), verdict)
    extra = len(rows) - most
    return {
        "kind": "search_report",
        "summary": report.text.splitlines(),
        "settings": [_setting(name, setting) for name, setting in settings.items()],
        "rows": rows[:most],
        "note": f"{count_of(extra, 'more sequence')}; rf.show(report, most=…, verdict=…)" if extra > 0 else None,
    }


def _setting(name: str, report: SearchReport) -> SearchSetting:
    rates = {words: float(getattr(report, rate)) for rate, words in RATES.items()}
    return {"name": name, "sequences": len(report), "rates": rates, "classes": report.classes}


def _rows(reports: list[SearchReport], verdict: str | None) -> list[SearchRow]:
    """The sequences for which one of the settings has this verdict, or a wrong output."""
    rows: list[SearchRow] = []
    for results in zip(*(report.rows for report in reports), strict=False):
        if any(result.verdict == verdict if verdict else result.verdict != "correct" for result in results):
            first = results[0]
            outputs = [_output(result) for result in results]
            rows.append({"name": first.name, "reference": first.reference.text, "outputs": outputs})
    return rows


def _output(row: Row) -> SearchOutput:
    fall = row.where.fall
    beam = "" if row.needed is None else f", needs beam {row.needed}"
    fell = "" if fall is None else f"fell out at step {fall.step}{beam}"
    return {"text": row.output, "verdict": row.verdict, "fell": fell}


# -- text


def to_text(view: SearchReportView) -> str:
    """The rates and classes; of one setting, the first wrong outputs too."""
    return "\n".join(view["summary"])


def to_table(view: SearchReportView) -> Table:
    """A row for each setting."""
    rates = list(view["settings"][0]["rates"]) if view["settings"] else []
    classes = [verdict for verdict in VERDICTS if any(verdict in setting["classes"] for setting in view["settings"])]
    rows = [
        [setting["name"], setting["sequences"], *(setting["rates"][rate] for rate in rates),
         *(setting["classes"].get(verdict, 0) for verdict in classes)]
        for setting in view["settings"]
    ]  # fmt: skip
    return Table(["setting", "sequences", *rates, *classes], rows)


# -- HTML


def to_html(view: SearchReportView) -> Html:
    """The settings with a bar of their classes, and the wrong outputs."""
    return el(
        "div",
        el("div", table_html(_in_percent(view)), style="overflow-x:auto"),
        [_bar(setting, len(view["settings"]) > 1) for setting in view["settings"]],
        el("div", _wrong(view), style="overflow-x:auto") if view["rows"] else None,
        note_html(view["note"]),
        style=style.BOX,
    )


def _in_percent(view: SearchReportView) -> Table:
    """The table, with shares in percent; a single setting has no name."""
    table = to_table(view)
    shares = len(view["settings"][0]["rates"]) if view["settings"] else 0
    rows = [
        [name, count, *(f"{100 * share:.4g} %" for share in tail[:shares]), *tail[shares:]]
        for name, count, *tail in table.rows
    ]
    first = 0 if any(name for name, *_ in rows) else 1
    return Table(table.columns[first:], [cells[first:] for cells in rows])


def _bar(setting: SearchSetting, named: bool) -> Html | None:
    """The classes, each as wide as its share of the sequences."""
    if not setting["classes"]:
        return None
    parts = [
        el(
            "span",
            f"{verdict} {count:,}",
            style=f"{PART};flex:{count} 1 0;background-color:{style.tint(verdict_colour(verdict), 0.3)}",
        )
        for verdict, count in setting["classes"].items()
    ]
    name = el("span", setting["name"], style="min-width:80px;margin-right:8px") if named else None
    return el("div", name, parts, style="display:flex;max-width:640px;margin:2px 0")


PART = "overflow:hidden;white-space:nowrap;padding:0 4px;font-size:12px;min-width:2px"


def _wrong(view: SearchReportView) -> Html:
    """A row for each sequence: its reference, and the output with each setting."""
    names = [setting["name"] or "output" for setting in view["settings"]]
    head = row("sequence", "reference", *names, tag="th")
    rows = [row(sequence["name"], sequence["reference"], *map(_cell, sequence["outputs"])) for sequence in view["rows"]]
    return el("table", el("thead", head), el("tbody", rows), style=style.TABLE)


def _cell(output: SearchOutput) -> Html:
    words = quiet("no hypothesis") if output["text"] is None else el("span", output["text"] or "(no labels)")
    word = chip(output["verdict"], verdict_colour(output["verdict"]))
    return el("div", word, words, quiet(f" {output['fell']}") if output["fell"] else None)
