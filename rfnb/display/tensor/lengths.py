"""The lengths of sequences: a bar for each, or a histogram, and the share of padding."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.ground.text import count_of, cut
from rfnb.display.kit import options
from rfnb.display.kit.dims import colour_of, dim_pill, origin
from rfnb.display.kit.schema import DimView
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import bars, percent, short
from rfnb.display.markup.widgets_html import chip, fold
from rfnb.display.tensor.schema import LengthsView

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


def _title(one: LengthsView, dim: DimView) -> Html:
    low, high, _ = dim["length_range"] or [0, 0, 0]
    words = f"{dim['name']}: lengths {low}–{high}, median {short(one['median'])}, padding {percent(one['padding'])} "
    return join(words, chip(_empty(one), style.WARN) if one["empty"] else None)


def _empty(one: LengthsView) -> str:
    return f"{count_of(one['empty'], 'sequence')} of length 0"


def _one(one: LengthsView, dim: DimView, tags: Sequence[str] | None) -> Html:
    where = el("div", dim_pill(dim), origin(dim)) if origin(dim) else None
    lengths = dim["lengths"]
    if lengths is not None and len(lengths) <= options.BARS:
        return el("div", where, bars_html(lengths, dim, tags))
    low, high, _ = dim["length_range"] or [0, 0, 0]
    text = f"[{low} {bars(one['histogram'])} {high}]" if one["histogram"] else f"all {low}"
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
