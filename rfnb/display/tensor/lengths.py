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
    return [f"{dims[one['axis']]['name']}: {_empty(one)}" for one in lengths if one["empty"]]


def lengths_html(lengths: Sequence[LengthsView], dims: Sequence[DimView], tags: Sequence[str] | None) -> Html | None:
    """The lengths of sequences and the origins of dims, folded."""
    if not lengths:
        return None
    title = [_title(one, dims[one["axis"]]) for one in lengths]
    body = [_one(one, dims[one["axis"]], tags) for one in lengths]
    others = [dim for i, dim in enumerate(dims) if origin(dim) and i not in [one["axis"] for one in lengths]]
    made = [el("div", dim_pill(dim), origin(dim)) for dim in others]
    return fold(title, body, made)


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
    told = f"[{low} {bars(one['histogram'])} {high}]" if one["histogram"] else f"all {low}"
    return el("div", where, el("span", told, style=style.NUMBERS))


def bars_html(lengths: Sequence[int], dim: DimView, tags: Sequence[str] | None) -> Html:
    """A bar for each sequence."""
    known = tags is not None and len(tags) == len(lengths)
    names = [cut(tags[i], TAG) if known and tags else str(i) for i in range(len(lengths))]
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
