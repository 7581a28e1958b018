"""The view of `rf.capture`: a list of attention weights, and an overview of them."""

from __future__ import annotations

from typing import Any

from rfnb.display.attention import view as attention_view
from rfnb.display.attention.schema import AttentionListView, AttentionScripts, AttentionView, SeenRow
from rfnb.display.kit.blocks import Notes, Table
from rfnb.display.kit.data import Axis, describe_axis, dims_text
from rfnb.display.markup import style
from rfnb.display.markup.elements import fold, note_html, note_text, quiet, table_html
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import size
from rfnb.trace.capture.capture import Captured, Seen


def describe(seen: Captured | Seen, **choice: Any) -> AttentionListView | AttentionView:
    """The JSON of a list of weights; for a single entry, that of its weights."""
    if isinstance(seen, Seen):
        return attention_view.describe(seen, **choice)
    notes = Notes()
    attention = notes.attempt("picture", lambda: attention_view.describe(seen, **choice), None) if len(seen) else None
    notes.add(seen.why_nothing())
    if seen.left_out and len(seen):
        notes.add(f"left out: {', '.join(dict.fromkeys(seen.left_out))}")
    return {
        "kind": "attention_list",
        "rows": [_row(entry) for entry in seen],
        "left_out": list(seen.left_out),
        "attention": attention,
        "note": notes.text(),
    }


def to_text(view: AttentionListView) -> str:
    """A line for each attention: its name, dims and place."""
    lines = [f"attention: {len(view['rows'])} seen"]
    lines += [f"  {line}" for line in to_table(view).lines()[1:]] if view["rows"] else []
    return "\n".join(lines + note_text(view["note"]))


def to_table(view: AttentionListView) -> Table:
    """A row for each attention."""
    rows = [[row["name"], dims_text(row["dims"]), row["place"], size(row["bytes"])] for row in view["rows"]]
    return Table(["name", "dims", "place", "held"], rows)


def to_scripts(view: AttentionListView) -> AttentionScripts | None:
    """The scripts of the overview."""
    return None if view["attention"] is None else attention_view.to_scripts(view["attention"])


def to_html(view: AttentionListView) -> Html:
    """The list, with the overview below."""
    head = el("div", el("span", "attention", style=style.NAME), quiet(f" {len(view['rows'])} seen"))
    table = table_html(to_table(view)) if view["rows"] else None
    listed = table if len(view["rows"]) <= 8 else fold("all", table)
    return el(
        "div", head, listed, note_html(view["note"]),
        None if view["attention"] is None else attention_view.to_html(view["attention"]),
        style=style.BOX,
    )  # fmt: skip


def _row(seen: Seen) -> SeenRow:
    dims = [describe_axis(axis, "batch" if axis.dim.kind == "batch" else "spatial") for axis in map(_axis, seen.axes)]
    return {"name": seen.name, "dims": dims, "place": seen.place, "bytes": seen.bytes}


def _axis(axis: Any) -> Axis:
    dim, count = axis
    return Axis(dim, count)
