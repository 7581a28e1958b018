"""Converts run files of earlier formats to the current format before they are read.

In format 1, internal values of a loop were named `#ended`, `#lengths`, `#last0` or `#before0`, and the first two were
listed as values of the body of an outer loop. Since format 2, such values have no name and are not listed.
"""

from __future__ import annotations

import re
from typing import Any

from rfnb.trace.run.file.fields import get

RESERVED = re.compile(r"#(ended|lengths|(last|before)\d+)")


def update(data: Any, form: int) -> None:
    """Converts the JSON of a file of format `form` to the current format, in place."""
    if form < 2:
        for run in get(data, "runs", list):
            _without_reserved_names(run)


def _without_reserved_names(run: Any) -> None:
    run["values"] = [value for value in get(run, "values", list) if not RESERVED.fullmatch(get(value, "name", str))]
    for value in get(get(run, "graph", dict), "values", list):
        if RESERVED.fullmatch(get(value, "name", str)):
            value["name"] = ""
