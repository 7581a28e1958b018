"""The view of a tensor: name, dtype, dims with true lengths, statistics, and the numbers, labels or a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from rfnb.core.ground.text import count_of, cut
from rfnb.display.kit import options
from rfnb.display.kit.blocks import (
    Block,
    Figure,
    Fold,
    Line,
    Note,
    Only,
    Page,
    Span,
    Table,
    Words,
    chip,
    mono,
    name,
    pill,
    pills,
    quiet,
)
from rfnb.display.kit.data import DimView, colour_of, dim_word, origin
from rfnb.display.markup import style, svg
from rfnb.display.markup.elements import quiet as quiet_html
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import amount, bars, percent, real, short, size as size_text
from rfnb.display.tensor.describe import describe as describe, describe_data as describe_data
from rfnb.display.tensor.entries import cell_text, counts_text, labels_html, labels_text, table_html, table_text
from rfnb.display.tensor.schema import BadView, GradView, LengthsView, TensorStats, TensorView
from rfnb.display.tensor.stats import same

WIDTH = 160
"""Width of the longest bar, in pixels."""
TAG = 24


def lengths_fold(view: TensorView) -> Block:
    """The lengths of sequences and the origins of dims, folded."""
    dims, axes = view["dims"], [summary["axis"] for summary in view["lengths"]]
    if not axes:
        return None
    title = [_title(summary, dims[summary["axis"]]) for summary in view["lengths"]]
    bars = [block for summary in view["lengths"] for block in _one(summary, dims[summary["axis"]], view["tags"])]
    origins = [_origin(dim) for i, dim in enumerate(dims) if i not in axes]
    return Only("html", [Fold(title, [*bars, *origins])])


def _title(summary: LengthsView, dim: DimView) -> Words:
    low, high, _ = dim["length_range"] or [0, 0, 0]
    median, padding = short(summary["median"]), percent(summary["padding"])
    words = f"{dim['name']}: lengths {low}–{high}, median {median}, padding {padding} "
    return [words, chip(_empty(summary), style.WARN) if summary["empty"] else None]


def _empty(summary: LengthsView) -> str:
    return f"{count_of(summary['empty'], 'sequence')} of length 0"


def _origin(dim: DimView) -> Block:
    return Line(pill(dim), origin(dim)) if origin(dim) else None


def _one(summary: LengthsView, dim: DimView, tags: Sequence[str] | None) -> list[Block]:
    lengths = dim["lengths"]
    if lengths is not None and len(lengths) <= options.BARS:
        return [_origin(dim), Figure(bars_html(lengths, dim, tags))]
    low, high, _ = dim["length_range"] or [0, 0, 0]
    text = f"[{low} {bars(summary['histogram'])} {high}]" if summary["histogram"] else f"all {low}"
    return [_origin(dim), Line(mono(text))]


def bars_html(lengths: Sequence[int], dim: DimView, tags: Sequence[str] | None) -> Html:
    """A bar for each sequence."""
    tagged = tags is not None and len(tags) == len(lengths)
    names = [cut(tags[i], TAG) if tagged and tags else str(i) for i in range(len(lengths))]
    wide = max(map(len, names), default=0)
    look = f"display:inline-block;height:8px;background-color:{style.tint(colour_of(dim) or style.GREY, 0.55)}"
    rows = [
        join(
            f"{name:<{wide}} ",
            el("span", style=f"{look};width:{round(WIDTH * n / max(1, dim['size']))}px"),
            f" {n}",
            " ← empty" if n == 0 else None,
            "\n",
        )
        for name, n in zip(names, lengths, strict=True)
    ]
    return el("div", rows, style=style.NUMBERS + ";white-space:pre;line-height:1.3;overflow-x:auto;margin:4px 0")


def statistics(view: TensorView, stats: TensorStats) -> Span:
    """`μ 0.1  σ 1.2  [-2 ▁▃█▃▁ 2]  1 NaN at batch 1, time 2`; in HTML, errors first."""
    pairs = moments(stats, ids=view["sparse"] is not None)
    parts = [f"{sign} {number}" for sign, number in pairs]
    parts += [*spread(stats), *alarms(stats), *warnings(view, stats), *facts(view, stats)]
    whole = ";display:inline-block;margin-bottom:2px"  # a chip stays on one line
    words: list[Words] = [Span([text, " "], style.chip(style.ALARM) + whole) for text in alarms(stats)]
    words += [Span([text, " "], style.chip(style.WARN) + whole, title=COUNTED) for text in warnings(view, stats)]
    words += [Span([quiet(sign, " "), mono(number), " "], APART) for sign, number in pairs]
    words += [Span([text, " "], f"{style.NUMBERS};{APART}") for text in spread(stats)]
    words += [Span([text, " "], style.QUIET + ";margin-right:12px") for text in facts(view, stats)]
    return Span(words, text="  ".join(parts))


def moments(stats: TensorStats, *, ids: bool) -> list[tuple[str, str]]:
    """Mean and deviation with their signs; empty where they would mean nothing."""
    if stats["true"] is not None:
        return [("true", f"{percent(stats['true'] / stats['count'])} ({stats['true']:,} of {stats['count']:,})")]
    if ids or same(stats):
        return []
    return [("μ", short(stats["mean"])), ("σ", short(stats["std"]))]


def spread(stats: TensorStats) -> list[str]:
    """`[-2 ▁▃█▃▁ 2]`, or `all 2`; empty for bools, and if no entry is finite."""
    if stats["true"] is not None or stats["min"] == "nan":
        return []
    if same(stats):
        return [f"all {short(stats['min'])}"]
    between = bars(stats["histogram"]) if stats["histogram"] else ".."
    return [f"[{short(stats['min'])} {between} {short(stats['max'])}]"]


def alarms(stats: TensorStats) -> list[str]:
    """`2 NaN, first at batch 1 ('banana'), time 2`"""
    return [bad_text(bad) for bad in stats["bad"]]


def bad_text(bad: BadView) -> str:
    """The number of entries that are not finite in one way, and where the first is."""
    many = ", first" if bad["count"] > 1 else ""
    return f"{bad['count']:,} {bad['word']}" + (f"{many} at {bad['first']}" if bad["first"] else "")


COUNTED = "Code that does not know the lengths counts these numbers."


def warnings(view: TensorView, stats: TensorStats) -> list[str]:
    """Padding that is not finite; in a plain array, whose code does not know the lengths, also what it would change."""
    if stats["padding"] is not None and stats["padding"]["bad"]:  # then there are no numbers with it
        return ["NaN or Inf in the padding"]
    return [] if view["cls"] == "Tensor" else [f"padding ≠ 0: with it {words}" for words in with_padding(stats)]


def with_padding(stats: TensorStats) -> list[str]:
    """`μ -0.31, σ 2`, if padding would change these numbers much."""
    padding = stats["padding"]
    if padding is None or padding["bad"] or not _leaks(stats):
        return []
    return [f"μ {short(padding['mean'])}, σ {short(padding['std'])}"]


def facts(view: TensorView, stats: TensorStats) -> list[str]:
    """Facts worth mentioning that are not errors."""
    lines = [f"with padding {words}" for words in with_padding(stats) if view["cls"] == "Tensor"]
    lines += [f"{stats['masked']:,} −Inf, masked"] if stats["masked"] else []
    number = stats["true"] is None and stats["unique"] is None and not same(stats)
    partial = stats["count"] > options.HISTOGRAM_ENTRIES  # only they were looked at for this
    if number and stats["zeros"] >= 0.01:
        lines.append(f"{'≈ ' if partial and stats['zeros'] < 0.995 else ''}{percent(stats['zeros'])} zeros")
    if stats["unique"] is not None and not same(stats):
        lines.append(f"{'≥' if partial else ''}{stats['unique']:,} distinct")
    if stats["sampled"] is not None:
        lines.append(f"sampled {stats['sampled']:,} of {amount(stats['entries'])}")
    return lines


def _leaks(stats: TensorStats) -> bool:
    padding = stats["padding"]
    mean, std = real(stats["mean"]), real(stats["std"])
    if padding is None or mean != mean:
        return False
    moved = abs(real(padding["mean"]) - mean) > 0.1 * std
    return moved or not 0.8 * std <= real(padding["std"]) <= 1.25 * std


APART = "display:inline-block;margin-right:12px"


def page(view: TensorView) -> Page:
    """Name, dims and statistics, then labels, numbers or a picture."""
    stats, tags, extras = view["stats"], view["tags"], _extras(view)
    kind = "".join(f" {word}" for word in (view["cls"], view["dtype"]) if word) + " "
    dims = ", ".join(dim_word(dim) for dim in view["dims"])
    scalar = view["values"] is not None and not view["dims"] and not _many(stats)
    number = f" {cell_text(view['values'])}" if scalar else ""
    labels = [] if view["labels"] is None else [f"  {line}" for line in labels_text(view["labels"], tags)]
    numbers = [] if view["values"] is None else table_text(view["values"], view["dims"], tags)
    about: list[Block] = [
        None if view["unknown"] is None else Line(chip(bad_text(view["unknown"]), style.ALARM), indent=2),
        Line(statistics(view, stats), indent=2) if _many(stats) else None,
        *(Only("text", [_no_sequences(view, summary)]) for summary in view["lengths"] if summary["empty"]),
    ]
    blocks: list[Block] = [
        Line(name(view["name"]), quiet(kind), pills(view["dims"]), quiet(extras), look=style.HEAD),
        *about,
        _by_sequence(view),
        Figure(lambda: _labels(view), labels),
        Figure(lambda: _values(view), numbers),
        Figure(lambda: _picture(view)),
        Note(view["note"]),
        lengths_fold(view),
    ]
    head = f"{view['cls']}{{{view['name']!r}, [{dims}], {view['dtype']}{extras}}}{number}"
    in_short = [Line(head), *about, Figure(None, labels[:2]), Note(view["note"])]
    return Page("tensor", view["name"], blocks, _table(view), in_short)


def _no_sequences(view: TensorView, summary: LengthsView) -> Line:
    return Line(f"{view['dims'][summary['axis']]['name']}: {_empty(summary)}", indent=2)


def _table(view: TensorView) -> Table:
    """A row for each sequence; a single row if no axis counts sequences."""
    if view["sequences"] is None:
        stats = view["stats"]
        cells = [None] * 5 if stats is None else [stats[key] for key in ("mean", "min", "max", "nan", "inf")]
        return Table(["name", "mean", "min", "max", "NaN", "Inf"], [[view["name"], *cells]])
    rows = [
        [i if row["tag"] is None else row["tag"], *(row.get(key) for key in COLUMNS)]
        for i, row in enumerate(view["sequences"])
    ]
    return Table(["sequence", *COLUMNS.values()], rows)


COLUMNS = {"length": "length", "mean": "mean", "min": "min", "max": "max", "nan": "NaN", "inf": "Inf"}


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


def _values(view: TensorView) -> Html | None:
    if view["values"] is None:
        return None
    stats = view["stats"]
    return table_html(view["values"], view["dims"], view["tags"], masked=bool(stats and stats["masked"]))


def _labels(view: TensorView) -> Html | None:
    if view["labels"] is None or view["label_ids"] is None:
        return None
    counts = counts_text(view["label_counts"]) if view["label_counts"] else None
    table = labels_html(view["labels"], view["label_ids"], view["tags"], unknown=view["unknown"] is not None)
    return join(table, quiet_html(counts, tag="div") if counts else None)


def _by_sequence(view: TensorView) -> Block:
    """For bools, the share of true entries in each of a few sequences."""
    stats, rows = view["stats"], view["sequences"]
    if stats is None or stats["true"] is None or rows is None or not 1 < len(rows) <= 16:
        return None
    shares = [f"{i if row['tag'] is None else row['tag']}: {percent(real(row['mean']))}"
            for i, row in enumerate(rows) if row["mean"] is not None]  # fmt: skip
    return Only("html", [Line(quiet("by sequence: ", ", ".join(shares)))])


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
