"""Run files of earlier formats: what they hold is brought to the present one before it is read.

Format 1 called what a loop carries for itself `#ended`, `#lengths`, `#last0` or `#before0`, and listed the first two as
values of a body around it. Since format 2 such values have no name, and are not listed.
"""

from __future__ import annotations

import re
from typing import Any

from rfnb.trace.run.file.fields import get

RESERVED = re.compile(r"#(ended|lengths|(last|before)\d+)")


def update(data: Any, form: int) -> None:
    """Changes the JSON of a file of format `form` to what the present format says."""
    if form < 2:
        for run in get(data, "runs", list):
            _without_reserved_names(run)


def _without_reserved_names(run: Any) -> None:
    run["values"] = [value for value in get(run, "values", list) if not RESERVED.fullmatch(get(value, "name", str))]
    for value in get(get(run, "graph", dict), "values", list):
        if RESERVED.fullmatch(get(value, "name", str)):
            value["name"] = ""
