"""The view of the list of runs, newest first."""

from __future__ import annotations

from collections.abc import Iterable

from rfnb.core.ground.text import count_of
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style
from rfnb.display.run.schema import Origin, RunItem, RunsView
from rfnb.trace.plain.recorded_variables import RecordedVariables
from rfnb.trace.run.run import Run

LAST_ONLY = "last iteration only"
"""In place of a number of steps, for a loop that was not recorded and raised."""


@page.shows("runs", "rfnb.trace.run.runs.Runs")
def describe(runs: Iterable[Run]) -> RunsView:
    """The JSON of all runs."""
    return {"kind": "runs", "runs": [describe_item(run) for run in list(runs)]}


def describe_item(run: Run) -> RunItem:
    """The JSON of a run in the list; reads no tensor."""
    item: RunItem = {
        "run": run.serial,
        "loop": run.loop,
        "name": run.name,
        "place": run.place,
        "steps": run.steps,
        "batch": run.batch,
        "flags": list(run.flags),
        "pinned": bool(run.pinned),
        **describe_origin(run),
    }
    if isinstance(run.replay, RecordedVariables):
        item["is_plain"] = True
        if run.replay.raised_in is not None:
            item["is_last_only"] = True
    return item


def describe_origin(run: Run) -> Origin:
    """The origin of a fork; None values for other runs."""
    return {"parent": None if run.parent is None else run.parent.serial, "forked_at": run.forked_at}


def to_page(view: RunsView) -> page.Page:
    """A line for each run."""
    runs = view["runs"]
    rows = [[item.get(key) if key != "flags" else ", ".join(item["flags"]) for key in COLUMNS] for item in runs]
    text: list[page.Block] = [page.Line(item_text(item)) for item in runs]
    blocks = [page.Only("text", text), page.Only("html", [page.Grid([_row(item) for item in runs])])]
    placeholder = page.Line("no runs yet", look=style.QUIET)
    return page.Page("runs", "", blocks if runs else [placeholder], page.Table(list(COLUMNS.values()), rows))


COLUMNS = {
    "run": "run", "name": "name", "place": "place", "steps": "steps", "batch": "sequences", "parent": "fork of",
    "forked_at": "forked at", "flags": "flags", "pinned": "pinned",
}  # fmt: skip


def item_text(item: RunItem) -> str:
    """`3  decoder  cell 4, line 2  9 steps  3 sequences  not finite`"""
    return "  ".join([str(item["run"]), item["name"], *filter(None, _facts(item)), *marks_of(item)])


def _facts(item: RunItem) -> list[str]:
    """Place, number of steps, and number of sequences or ""."""
    steps = LAST_ONLY if item.get("is_last_only") else count_of(item["steps"], "step")
    return [item["place"], steps, "" if item["batch"] is None else count_of(item["batch"], "sequence")]


def marks_of(item: RunItem) -> list[str]:
    """`["fork of 3 at 5", "not finite", "pinned"]`"""
    fork = [] if item["parent"] is None else [f"fork of {item['parent']} at {item['forked_at']}"]
    return [*fork, *item["flags"], *(["pinned"] if item["pinned"] else [])]


def _row(item: RunItem) -> list[page.Words]:
    marks = [page.chip(mark, style.ALARM if mark in item["flags"] else style.GREY) for mark in marks_of(item)]
    return [str(item["run"]), page.bold(item["name"]), *_facts(item), marks]
