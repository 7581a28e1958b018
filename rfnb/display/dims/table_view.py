"""The table of dims: size or lengths, origin, and the objects that have each; probable mistakes come first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rfnb.core.dims import dim_math
from rfnb.core.ground.text import count_of
from rfnb.display.dims.conflicts import by_chance, by_name, lengths_of, namesakes, rebound, size_of
from rfnb.display.dims.schema import DimRow, DimTableView
from rfnb.display.dims.uses import DimUse, Uses
from rfnb.display.kit.dims import colour_of, describe_dim, named_pill, names_of, origin, size_word
from rfnb.display.markup import style, widgets_html
from rfnb.display.markup.grid import Table, aligned
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import bars
from rfnb.display.markup.widgets_html import chip, note_html, note_text, quiet

NAMES = 3
"""Largest number of names in a list of tensors, parameters or modules."""
BARS = 32
COLUMNS = ("dim", "kind", "size", "made", "used by")


def describe(objects: Iterable[tuple[str, Any]], name: str = "dims") -> DimTableView:
    """The dims of named objects as JSON."""
    uses = Uses(objects)
    entries = sorted(uses.by_serial.values(), key=lambda use: use.dim.serial)
    groups = by_name(entries)
    names = names_of(use.dim for use in entries)
    notes = by_chance(uses, names)
    rows = [_row(use, groups[use.dim.name], names, notes.get(use.dim.serial, [])) for use in entries]
    remarks = [*(["no dims"] if not rows else []), *(["not everything was searched"] if uses.left_out else [])]
    return {
        "kind": "dims",
        "name": name,
        "rows": sorted(rows, key=lambda row: not row["conflicts"]),
        "note": "; ".join(remarks) or None,
    }


def _row(use: DimUse, group: Sequence[DimUse], names: dict[int, str], notes: list[str]) -> DimRow:
    dim = use.dim
    text = None if dim.made is None else dim.made.text() or None
    return {
        "dim": describe_dim(dim, lengths_of(use)),
        "name": names[dim.serial],
        "known": size_of(use) is not None,
        "role": " ".join(filter(None, ("dynamic" if dim.is_dynamic() else "static", dim.kind))),
        "text": text,
        "tensors": use.tensors[:NAMES],
        "tensor_count": len(use.tensors),
        "parameters": use.parameters[:NAMES],
        "parameter_count": len(use.parameters),
        "modules": use.modules[:NAMES],
        "module_count": len(use.modules),
        "same_as": [names.get(alias.serial, alias.name) for alias in dim_math.followed(dim)],
        "conflicts": [*namesakes(use, group, names), *rebound(use)],
        "notes": notes,
    }


# -- text


def to_text(view: DimTableView) -> str:
    """Aligned columns, with conflicts below their dim."""
    if not view["rows"]:
        return f"({view['note']})"
    head, *rows = aligned([COLUMNS, *map(_words, view["rows"])])
    lines = [head]
    for row, line in zip(view["rows"], rows, strict=True):
        lines.append(line)
        lines += [f"  ≠ {conflict}" for conflict in row["conflicts"]]
        lines += [f"    {note}" for note in _quiet(row)]
    return "\n".join(lines + note_text(view["note"], ""))


def to_table(view: DimTableView) -> Table:
    """A row for each dim, with conflicts and notes."""
    rows = [[*_words(row), "; ".join([*row["conflicts"], *_quiet(row)])] for row in view["rows"]]
    return Table([*COLUMNS, "notes"], rows)


def _words(row: DimRow) -> list[str]:
    return [row["name"], row["role"], _size_words(row), _made(row), ", ".join(_used_by(row))]


def _size_words(row: DimRow) -> str:
    return f"{size_word(row['dim'])}{f' {blocks}' if (blocks := _bars(row)) else ''}" if row["known"] else "?"


def _bars(row: DimRow) -> str:
    """Bars for the first lengths, relative to the longest."""
    lengths = row["dim"]["lengths"] or []
    return bars(lengths[:BARS]) + ("…" if len(lengths) > BARS else "") if len(lengths) > 1 else ""


def _made(row: DimRow) -> str:
    return (origin(row["dim"]) or "").removeprefix(f"{row['dim']['name']}, ")


def _used_by(row: DimRow) -> list[str]:
    """`["3 tensors: x, y, z", "1 parameter: model.weight"]`"""
    groups = [
        (row["tensor_count"], "tensor", row["tensors"]),
        (row["parameter_count"], "parameter", row["parameters"]),
        (row["module_count"], "module", row["modules"]),
    ]
    return [
        f"{count_of(count, word)}: {', '.join(names)}{', …' if count > len(names) else ''}"
        for count, word, names in groups
        if count
    ]


def _quiet(row: DimRow) -> list[str]:
    return [*(f"declared the same as {name}" for name in row["same_as"]), *row["notes"]]


# -- HTML


def to_html(view: DimTableView) -> Html:
    """The table with each dim in its colour."""
    if not view["rows"]:
        return el("div", f"({view['note']})", style=f"{style.BOX};{style.QUIET}")
    head = el("thead", widgets_html.row(*COLUMNS, look=_HEAD, tag="th"))
    rows = [_html_row(row) for row in view["rows"]]
    return el("div", el("table", head, el("tbody", rows), style=_TABLE), note_html(view["note"]), style=style.BOX)


_CELL = "padding:4px 14px 4px 0;text-align:left;border:none;background:none;vertical-align:top"
_HEAD = f"{_CELL};font-weight:normal;opacity:0.65"
_TABLE = f"{style.TABLE};font-family:sans-serif;font-size:13px;line-height:1.45"


def _html_row(row: DimRow) -> Html:
    line = f"background:none;border-top:1px solid {style.tint(style.GREY, 0.25)}"
    code = el("div", row["text"], style=f"{style.NUMBERS};{style.QUIET}") if row["text"] else None
    notes = [quiet(note, tag="div") for note in _quiet(row)]
    cells = [
        el("td", named_pill(row["dim"], row["name"]), style=_CELL),
        el("td", row["role"], style=f"{_CELL};{style.QUIET}"),
        el("td", _size_html(row), style=f"{_CELL};white-space:nowrap"),
        el("td", _made(row), code, style=f"{_CELL};min-width:12em;overflow-wrap:anywhere"),
        el("td", [el("div", words) for words in _used_by(row)], notes, style=_CELL),
    ]
    warnings = [chip(f"≠ {word}", style.ALARM) for word in row["conflicts"]]
    warning_row = el("tr", el("td", warnings, colspan=len(COLUMNS), style=_CELL), style=style.PLAIN_ROW)
    return join(el("tr", cells, style=line), warning_row if warnings else None)


def _size_html(row: DimRow) -> Html:
    if not row["known"]:
        return quiet("?")
    hue = colour_of(row["dim"]) or style.GREY
    blocks = _bars(row)
    box = el("div", blocks, style=f"color:{hue};font-family:monospace;line-height:1") if blocks else None
    return el("div", size_word(row["dim"]), box, style=style.NUMBERS)
