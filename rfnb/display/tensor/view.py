"""The view of a tensor: name, dtype, dims with true lengths, statistics, and the numbers, labels or a picture."""

from __future__ import annotations

from typing import TypeGuard

from rfnb.display.kit.dims import dim_word, dims_html, dims_text
from rfnb.display.markup import style, svg
from rfnb.display.markup.grid import Table
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import percent, real, short, size as size_text
from rfnb.display.markup.widgets_html import chip, note_html, note_text, quiet
from rfnb.display.tensor.describe import describe as describe, describe_data as describe_data
from rfnb.display.tensor.labels import counts_text, labels_html, labels_text
from rfnb.display.tensor.lengths import lengths_html, lengths_text
from rfnb.display.tensor.moments import alarms, bad_text, stats_html, stats_text
from rfnb.display.tensor.schema import GradView, TensorStats, TensorView
from rfnb.display.tensor.table import table_html, table_text


def to_text(view: TensorView) -> str:
    """Name, dims and statistics, then labels or numbers."""
    head = " ".join(filter(None, (view["name"], view["cls"], view["dtype"], dims_text(view["dims"]))))
    lines = [head + _extras(view), *_facts(view)]
    if view["labels"] is not None:
        lines += [f"  {line}" for line in labels_text(view["labels"], view["tags"])]
    if view["values"] is not None:
        lines += table_text(view["values"], view["dims"], view["tags"])
    return "\n".join(lines + note_text(view["note"]))


def to_repr(view: TensorView) -> str:
    """A header and a line of statistics."""
    dims = ", ".join(dim_word(dim) for dim in view["dims"])
    lines = [f"{view['cls']}{{{view['name']!r}, [{dims}], {view['dtype']}{_extras(view)}}}", *_facts(view)]
    if view["values"] is not None and not view["dims"] and not _many(view["stats"]):
        lines[0] += " " + table_text(view["values"], [], None)[0].strip()
    if view["labels"] is not None:
        lines += [f"  {line}" for line in labels_text(view["labels"][:2], view["tags"])]
    return "\n".join(lines + note_text(view["note"]))


def to_html(view: TensorView) -> Html:
    """The view as HTML, with a picture."""
    return el(
        "div",
        _head(view),
        chip(bad_text(view["unknown"]), style.ALARM) if view["unknown"] is not None else None,
        stats_html(view["stats"], ids=view["sparse"] is not None) if _many(view["stats"]) else None,
        _by_sequence(view),
        _labels(view),
        _values(view),
        _picture(view),
        note_html(view["note"]),
        lengths_html(view["lengths"], view["dims"], view["tags"]),
        style=style.BOX,
    )


def to_table(view: TensorView) -> Table:
    """A row for each sequence; a single row if no axis counts sequences."""
    if view["sequences"] is None:
        stats = view["stats"]
        cells = [None] * 5 if stats is None else [stats[key] for key in ("mean", "min", "max", "nan", "inf")]
        return Table(["name", "mean", "min", "max", "NaN", "Inf"], [[view["name"], *cells]])
    rows = [
        [i if row["tag"] is None else row["tag"], *(row[key] for key in COLUMNS)]  # type: ignore[literal-required]
        for i, row in enumerate(view["sequences"])
    ]
    return Table(["sequence", *COLUMNS.values()], rows)


COLUMNS = {"length": "length", "mean": "mean", "min": "min", "max": "max", "nan": "NaN", "inf": "Inf"}


def _facts(view: TensorView) -> list[str]:
    lines = [bad_text(view["unknown"])] if view["unknown"] is not None else []
    if _many(view["stats"]):
        lines.append(stats_text(view["stats"], ids=view["sparse"] is not None))
    lines += lengths_text(view["lengths"], view["dims"])
    return [f"  {line}" for line in lines]


def _many(stats: TensorStats | None) -> TypeGuard[TensorStats]:
    """Whether statistics say more than the single number."""
    return stats is not None and (stats["count"] > 1 or bool(alarms(stats)))


def _extras(view: TensorView) -> str:
    parts = []
    if view["sparse"] is not None:
        parts.append(f"of {view['sparse']}")
    if view["device"] not in ("cpu", "?", "None"):
        parts.append(view["device"])
    if view["bytes"] >= 10_000:
        parts.append(size_text(view["bytes"]))
    grad = _grad_text(view["grad"])
    if grad is not None:
        parts.append(grad)
    return "".join(f" {part}" for part in parts)


def _grad_text(grad: GradView | None) -> str | None:
    """`‖grad‖ 0.12`, `no grad yet`; None for tensors that are not leaves."""
    if grad is None or not grad["leaf"]:
        return None
    return "no grad yet" if grad["norm"] is None else f"‖grad‖ {short(grad['norm'])}"


def _head(view: TensorView) -> Html:
    return el(
        "div",
        el("span", view["name"], style=style.NAME),
        quiet(f" {view['cls']} {view['dtype']} "),
        dims_html(view["dims"]),
        quiet(_extras(view)),
        style=style.HEAD,
    )


def _values(view: TensorView) -> Html | None:
    if view["values"] is None:
        return None
    masked = view["stats"] is not None and view["stats"]["masked"] > 0
    return table_html(view["values"], view["dims"], view["tags"], masked=masked)


def _labels(view: TensorView) -> Html | None:
    if view["labels"] is None or view["label_ids"] is None:
        return None
    counts = counts_text(view["label_counts"]) if view["label_counts"] else None
    table = labels_html(view["labels"], view["label_ids"], view["tags"], unknown=view["unknown"] is not None)
    return join(table, quiet(counts, tag="div") if counts else None)


def _by_sequence(view: TensorView) -> Html | None:
    """For bools, the share of true entries in each of a few sequences."""
    stats, rows = view["stats"], view["sequences"]
    if stats is None or stats["true"] is None or rows is None or not 1 < len(rows) <= 16:
        return None
    shares = [f"{i if row['tag'] is None else row['tag']}: {percent(real(row['mean']))}"
            for i, row in enumerate(rows) if row["mean"] is not None]  # fmt: skip
    return quiet("by sequence: ", ", ".join(shares), tag="div")


def to_svg(view: TensorView) -> str | None:
    """The picture of a large tensor as SVG; None if it has none."""
    return None if view["picture"] is None else svg.of_png(view["picture"])


def _picture(view: TensorView) -> Html | None:
    if view["picture"] is None:
        return None
    return el(
        "div",
        el("img", src=view["picture"], alt=view["picture_alt"], style=style.PICTURE),
        el("div", view["picture_alt"], style=style.QUIET + ";font-size:11px"),
    )
