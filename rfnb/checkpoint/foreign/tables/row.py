"""The rows of the tables."""

from __future__ import annotations

from typing import NamedTuple


class TableRow(NamedTuple):
    """One row of a table: `transform` makes the parameter `target` from the weights `sources`.

    Names are relative to a module; "{i}" in them stands for a number. Several rows with the same target are
    alternatives: the first whose sources all exist is used.
    """

    target: str
    sources: tuple[str, ...]
    transform: str = "same"


def below(prefix: str, source: str, rows: tuple[TableRow, ...]) -> tuple[TableRow, ...]:
    """The rows for a submodule that is named `prefix` in rfnb and `source` in the other library."""
    return tuple(
        TableRow(f"{prefix}.{row.target}", tuple(f"{source}.{name}" for name in row.sources), row.transform)
        for row in rows
    )
