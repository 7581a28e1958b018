"""A row of a table."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """`target` is what `transform` makes of `sources`: names below a module, "{i}" in them stands for a number.

    The rows of one target are ways to the same: the first whose sources are all there counts.
    """

    target: str
    sources: tuple[str, ...]
    transform: str = "same"


def below(prefix: str, source: str, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows of a part that is called `prefix` here and `source` there."""
    return tuple(
        Row(f"{prefix}.{row.target}", tuple(f"{source}.{name}" for name in row.sources), row.transform) for row in rows
    )
