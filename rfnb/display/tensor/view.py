"""The view of a tensor: name, dtype, dims with true lengths, statistics, and the numbers, labels or a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from rfnb.core.ground.text import count_of, cut
from rfnb.display.kit import options
from rfnb.display.kit.data import DimView, colour_of, dim_pill, dim_word, dims_html, dims_text, origin
from rfnb.display.markup import style, svg
from rfnb.display.markup.elements import Table, chip, fold, note_html, note_text, quiet
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import amount, bars, percent, real, short, size as size_text
from rfnb.display.tensor.describe import describe as describe, describe_data as describe_data
from rfnb.display.tensor.entries import counts_text, labels_html, labels_text, table_html, table_text
from rfnb.display.tensor.schema import BadView, GradView, LengthsView, TensorStats, TensorView
from rfnb.display.tensor.stats import same

WIDTH = 160
"""Width of the longest bar, in pixels."""
TAG = 24


def lengths_text(lengths: Sequence[LengthsView], dims: Sequence[DimView]) -> list[str]:
    """A line for each axis with sequences of length 0."""
    return [f"{dims[entry['axis']]['name']}: {_empty(entry)}" for entry in lengths if entry["empty"]]


def lengths_html(lengths: Sequence[LengthsView], dims: Sequence[DimView], tags: Sequence[str] | None) -> Html | None:
    """The lengths of sequences and the origins of dims, folded."""
    if not lengths:
        return None
    title = [_title(entry, dims[entry["axis"]]) for entry in lengths]
    body = [_one(entry, dims[entry["axis"]], tags) for entry in lengths]
    plain = [dim for i, dim in enumerate(dims) if origin(dim) and i not in [entry["axis"] for entry in lengths]]
    origins = [el("div", dim_pill(dim), origin(dim)) for dim in plain]
    return fold(title, body, origins)


def _title(summary: LengthsView, dim: DimView) -> Html:
    low, high, _ = dim["length_range"] or [0, 0, 0]
    median, padding = short(summary["median"]), percent(summary["padding"])
    words = f"{dim['name']}: lengths {low}–{high}, median {median}, padding {padding} "
    return join(words, chip(_empty(summary), style.WARN) if summary["empty"] else None)


def _empty(summary: LengthsView) -> str:
    return f"{count_of(summary['empty'], 'sequence')} of length 0"


def _one(summary: LengthsView, dim: DimView, tags: Sequence[str] | None) -> Html:
    where = el("div", dim_pill(dim), origin(dim)) if origin(dim) else None
    lengths = dim["lengths"]
    if lengths is not None and len(lengths) <= options.BARS:
        return el("div", where, bars_html(lengths, dim, tags))
    low, high, _ = dim["length_range"] or [0, 0, 0]
    text = f"[{low} {bars(summary['histogram'])} {high}]" if summary["histogram"] else f"all {low}"
    return el("div", where, el("span", text, style=style.NUMBERS))


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


WHOLE = ";display:inline-block;margin-bottom:2px"
"""Style that keeps a chip on one line."""


def stats_text(view: TensorView, stats: TensorStats) -> str:
    """`μ 0.1  σ 1.2  [-2 ▁▃█▃▁ 2]  1 NaN at batch 1, time 2`"""
    parts = [f"{sign} {number}" for sign, number in moments(stats, ids=view["sparse"] is not None)]
    return "  ".join([*parts, *spread(stats), *alarms(stats), *warnings(view, stats), *facts(view, stats)])


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


def stats_html(view: TensorView, stats: TensorStats) -> Html:
    """Statistics as one line of HTML, errors first."""
    return el(
        "div",
        [el("span", text, " ", style=style.chip(style.ALARM) + WHOLE) for text in alarms(stats)],
        [el("span", text, " ", title=COUNTED, style=style.chip(style.WARN) + WHOLE) for text in warnings(view, stats)],
        [_pair(sign, number) for sign, number in moments(stats, ids=view["sparse"] is not None)],
        [el("span", text, " ", style=f"{style.NUMBERS};{APART}") for text in spread(stats)],
        [el("span", text, " ", style=style.QUIET + ";margin-right:12px") for text in facts(view, stats)],
    )


def _leaks(stats: TensorStats) -> bool:
    padding = stats["padding"]
    mean, std = real(stats["mean"]), real(stats["std"])
    if padding is None or mean != mean:
        return False
    moved = abs(real(padding["mean"]) - mean) > 0.1 * std
    return moved or not 0.8 * std <= real(padding["std"]) <= 1.25 * std


def _pair(sign: str, number: str) -> Html:
    words = join(quiet(sign + " "), el("span", number, style=style.NUMBERS))
    return el("span", words, " ", style=APART)


APART = "display:inline-block;margin-right:12px"


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
        stats_html(view, view["stats"]) if _many(view["stats"]) else None,
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
        [i if row["tag"] is None else row["tag"], *(row.get(key) for key in COLUMNS)]
        for i, row in enumerate(view["sequences"])
    ]
    return Table(["sequence", *COLUMNS.values()], rows)


COLUMNS = {"length": "length", "mean": "mean", "min": "min", "max": "max", "nan": "NaN", "inf": "Inf"}


def _facts(view: TensorView) -> list[str]:
    lines = [bad_text(view["unknown"])] if view["unknown"] is not None else []
    if _many(view["stats"]):
        lines.append(stats_text(view, view["stats"]))
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
