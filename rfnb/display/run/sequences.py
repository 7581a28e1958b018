"""The sequences of a run: the number of steps of each, and why it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.ground.text import count_of
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.widgets_html import quiet
from rfnb.display.run.schema import SequenceEnd

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

SHOWN = 32
"""Largest number of sequences with a row."""
WIDTH = 16
PIXELS = 160


def describe_sequences(run: Run, sequence: int | None) -> list[SequenceEnd]:
    """All sequences, or the chosen one; none if the run has no sequence dim."""
    lengths, ends = run.lengths or [], run.ends
    rows: list[SequenceEnd] = [
        {
            "sequence": i,
            "tag": None if run.tags is None else run.tags[i],
            "steps": int(n),
            "end": None if ends is None else ends[i],
        }
        for i, n in enumerate(lengths)
    ]
    return rows if sequence is None else rows[sequence : sequence + 1]


def sequences_text(rows: list[SequenceEnd]) -> list[str]:
    """One line per sequence, or one for all if they end alike."""
    if _alike(rows):
        return [_together(rows)]
    names = [_name(row) for row in rows[:SHOWN]]
    width, top = max(map(len, names), default=0), _top(rows)
    lines = [
        f"{name:<{width}}  {'█' * round(WIDTH * row['steps'] / top):<{WIDTH}}  {row['end'] or row['steps']}"
        for name, row in zip(names, rows, strict=False)
    ]
    return lines + _more(rows)


def sequences_html(rows: list[SequenceEnd]) -> Html | None:
    """The sequences as HTML."""
    if not rows:
        return None
    if _alike(rows):
        return quiet(_together(rows), tag="div")
    top = _top(rows)
    table = el("table", [_row(row, top) for row in rows[:SHOWN]], style=style.TABLE)
    return el("div", table, [quiet(line, tag="div") for line in _more(rows)])


def _row(row: SequenceEnd, top: int) -> Html:
    look = f"background-color:{style.tint(style.GREY, 0.5)};height:9px;width:{round(PIXELS * row['steps'] / top)}px"
    return el(
        "tr",
        el("td", _name(row), style=style.LABEL_CELL),
        el("td", el("div", style=look), style=f"{style.LEFT_CELL};vertical-align:middle;width:{PIXELS}px"),
        el("td", row["end"] or str(row["steps"]), style=style.LEFT_CELL),
        style=style.PLAIN_ROW,
    )


def _alike(rows: list[SequenceEnd]) -> bool:
    return len(rows) == 1 or len({(row["steps"], row["end"]) for row in rows}) == 1


def _together(rows: list[SequenceEnd]) -> str:
    first, is_single = rows[0], len(rows) == 1
    ending = first["end"] or count_of(first["steps"], "step")
    return f"{_name(first) if is_single else f'all {len(rows)} sequences'}: {ending}"


def _name(row: SequenceEnd) -> str:
    return f"sequence {row['sequence']}" if row["tag"] is None else repr(row["tag"])


def _top(rows: list[SequenceEnd]) -> int:
    return max([row["steps"] for row in rows], default=0) or 1


def _more(rows: list[SequenceEnd]) -> list[str]:
    return [f"… {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
