"""Finds, for variables of a model that a file does not have, the variables of the file that they can be made from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rfnb.checkpoint.variables.net_dicts import ROWS, VariableRow


class Made(NamedTuple):
    """The variables of the file that a variable is made from, and the row of the table that says how."""

    sources: tuple[str, ...]
    row: VariableRow


def made_from(missing: Iterable[str], obsolete: Iterable[str]) -> dict[str, Made]:
    """For each missing name for which there is one, the first row that fits. obsolete: names that no variable has.

    >>> found = made_from(["lstm/rec/lstm_cell/kernel"], ["lstm/rec/W", "lstm/rec/W_re", "lstm/rec/b"])
    >>> found["lstm/rec/lstm_cell/kernel"].sources, found["lstm/rec/lstm_cell/kernel"].row.transform
    (('lstm/rec/W', 'lstm/rec/W_re'), 'kernel of native weights')
    """
    lacking = dict.fromkeys(missing)
    beside: dict[str, list[str]] = {}
    for name in obsolete:
        beside.setdefault(name.rpartition("/")[0], []).append(name)
    results: dict[str, Made] = {}
    for name in lacking:
        for row in ROWS:
            if name.endswith(row.missing):
                prefix = name[: len(name) - len(row.missing)]
                sources = [_named(prefix, source, beside) for source in row.sources]
                if None not in sources and all(prefix + other_name in lacking for other_name in row.together):
                    results[name] = Made(tuple(filter(None, sources)), row)
                    break
    return results


def _named(prefix: str, source: str, beside: Mapping[str, list[str]]) -> str | None:
    """The one name that a row means; None if there is none, or several. beside: names by what is before the last /."""
    names = beside.get((prefix + source).rpartition("/")[0], [])
    pattern = re.compile(re.escape(prefix) + "[^/]*".join(map(re.escape, source.split("*"))))
    named = [name for name in names if pattern.fullmatch(name)]
    return named[0] if len(named) == 1 else None
