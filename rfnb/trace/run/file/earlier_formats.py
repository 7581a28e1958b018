"""Converts run files of earlier formats to the current format before they are read.

In format 1, internal values of a loop were named `#ended`, `#lengths`, `#last0` or `#before0`, and the first two were
listed as values of the body of an outer loop. Since format 2, such values have no name and are not listed.

Before format 4, runs of plain Python had their states as those of other loops, and the texts of a step apart from its
values. What was before the first step was in the file only for states.
"""

from __future__ import annotations

import re
from typing import Any

from rfnb.trace.run.file.fields import get
from rfnb.trace.run.variables import ABSENT

RESERVED = re.compile(r"#(ended|lengths|(last|before)\d+)")


def update(data: Any, form: int) -> None:
    """Converts the JSON of a file of format `form` to the current format, in place."""
    if form < 2:
        for run in get(data, "runs", list):
            _without_reserved_names(run)
    for run in get(data, "runs", list) if form < 4 else ():
        if run.get("variables") is not None:
            _with_one_list_of_rows(run, get(run, "variables", dict))


def _without_reserved_names(run: Any) -> None:
    run["values"] = [value for value in get(run, "values", list) if not RESERVED.fullmatch(get(value, "name", str))]
    for value in get(get(run, "graph", dict), "values", list):
        if RESERVED.fullmatch(get(value, "name", str)):
            value["name"] = ""


def _with_one_list_of_rows(run: Any, variables: Any) -> None:
    """Texts become rows among the values of their steps; states are what variables were before the first step."""
    order: dict[int, list[int]] = {}
    for number, series in enumerate(get(run, "values", list)):
        for step in range(get(run, "steps", int)) if series.get("steps") is None else series["steps"]:
            order.setdefault(step, []).append(number)
    table = [*variables.get("rows", ())]
    for step, texts in get(variables, "texts", list):
        for text in texts:
            if isinstance(text, list):
                table.append(text)
            order.setdefault(step, []).append(-len(table) if isinstance(text, list) else -1 - text)
    run["orders"], run["order"] = [*order.values()], [[step, at] for at, step in enumerate(order)]
    codes, kept = get(variables, "values", dict), list[Any]()
    kinds = {series["name"]: series["op"] for series in run["values"]}
    before: dict[str, Any] = {name: {"lost": ABSENT} for name in variables["initial"]}
    for state in run["states"]:
        for series in filter(None, (state.get("series"), *state.get("more", ()))):
            steps = range(run["steps"] + 1) if series.get("steps") is None else series["steps"]
            if 0 in steps:
                kept.append({**series, "count": len(steps)})
                before[state["name"]] = {"tensor": [-len(kept), steps.index(0), kinds.get(state["name"], "")]}
    for name, code in before.items():
        codes[name] = [[-1, code], *codes.get(name, ())]
    run["states"] = [{"name": state["name"], "sizes": [], "empty": [], "series": None} for state in run["states"]]
    run["variables"] = {
        "values": codes, "rows": table, "grown": [], "lists": variables.get("lists", []), "kept": kept,
        "forgotten": variables.get("forgotten", 0), "kept_from": variables.get("kept_from", 0),
    }  # fmt: skip
