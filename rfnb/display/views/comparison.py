"""Two runs of a loop: whether they computed the same, and what differs, the first difference first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.display import style
from rfnb.display.html import Html, el
from rfnb.display.numbers import count_of, short
from rfnb.display.schema import ComparisonView, Difference

if TYPE_CHECKING:
    from rfnb.trace.compare.comparison import Compared, Comparison


def describe(comparison: Comparison) -> ComparisonView:
    """What differs, in the order in which it came to be; then what could not be compared, then what is in one only."""
    differing = comparison.differing + [value for value in comparison.values if value.step is None and value.note]
    alone = [(name, "only in the first") for name in comparison.only_a]
    alone += [(name, "only in the second") for name in comparison.only_b]
    rows: list[Difference] = [
        {
            "name": value.name,
            "line": value.line[0],
            "step": None if value.step is None else max(value.step, 0),
            "text": difference(value),
        }
        for value in differing
    ]
    rows += [{"name": name, "line": None, "step": None, "text": text} for name, text in alone]
    view: ComparisonView = {
        "kind": "comparison",
        "run": comparison.serials[0],
        "other": comparison.serials[1],
        "agree": comparison.agree,
        "differences": rows,
        "notes": list(comparison.notes),
        "text": f"{comparison.a} and {comparison.b}: {_summary(comparison, len(differing))}",
    }
    return view


def difference(value: Compared) -> str:
    """`0.52 and 0.48 at batch 0, time 3 · Δ 0.04 · 5 steps differ, Δ at most 0.3`"""
    if value.step is None:
        return value.note
    at = f" at {value.where}" if value.where else ""
    when = "at the start: " if value.step < 0 else "after it: " if value.name.startswith("state ") else ""
    words = [f"{when}{_entry(value.a)} and {_entry(value.b)}{at}"]
    is_number = not isinstance(value.a, str | bool)
    if is_number:
        words.append(f"Δ {short(value.difference)}")
    if value.steps > 1:
        most = f", Δ at most {short(value.largest)}" if is_number and value.largest > value.difference else ""
        words.append(f"{count_of(value.steps, 'step')} differ{most}")
    return " · ".join([*words, *([value.note] if value.note else [])])


def to_text(view: ComparisonView) -> str:
    """What is said of all, then a line for each difference and note."""
    rows = [[row["name"], _line(row), _step(row)] for row in view["differences"]]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), row["text"]])
        for cells, row in zip(rows, view["differences"], strict=True)
    ]
    return "\n".join([view["text"], *(f"  {line}" for line in lines), *(f"  ({note})" for note in view["notes"])])


def to_html(view: ComparisonView) -> Html:
    """The same."""
    word = el(
        "span", "agree" if view["agree"] else "differ", style=style.chip(style.GREY if view["agree"] else style.ALARM)
    )
    return el(
        "div",
        el("div", word, view["text"], style=style.HEAD),
        el("table", [_row(row) for row in view["differences"]], style=style.TABLE) if view["differences"] else None,
        [el("div", f"({note})", style=style.QUIET) for note in view["notes"]],
        style=style.BOX,
    )


def _row(row: Difference) -> Html:
    cells = [el("b", row["name"]), _line(row), _step(row), row["text"]]
    return el("tr", [el("td", cell, style=style.LEFT_CELL) for cell in cells], style=style.PLAIN_ROW)


def _summary(comparison: Comparison, differing: int) -> str:
    count = count_of(len(comparison.values), "value")
    first = comparison.first
    if first is not None:
        line = f" (line {first.line[0]})" if first.line[0] is not None else ""
        when = f"in step {first.step}" if first.step is not None and first.step >= 0 else "before the first step"
        return f"{differing} of {count} differ, first {first.name}{line} {when}"
    if not comparison.values:
        return "nothing has the same name in both"
    if differing:
        return f"{differing} of {count} cannot be compared, the others agree"
    return f"all {count} agree" + ("" if comparison.same_steps else ", but not the number of steps")


def _line(row: Difference) -> str:
    return "" if row["line"] is None else f"line {row['line']}"


def _step(row: Difference) -> str:
    return "" if row["step"] is None else f"step {row['step']}"


def _entry(entry: object) -> str:
    return repr(entry) if isinstance(entry, str) else short(entry)
