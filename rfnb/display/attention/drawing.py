"""Heads as PNG pictures with a pixel per cell: small ones of all, and a large one as an SVG with labels and a path.

Labels and seconds of rows and columns, and the numbers about a head, are put into words here.
"""

from __future__ import annotations

import base64
import io
import math
import re
import wave
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import cut
from rfnb.display.attention.schema import AttentionHead, AttentionSound, AttentionView
from rfnb.display.attention.weights import SEVERAL
from rfnb.display.kit import options
from rfnb.display.kit.blocks import Notes
from rfnb.display.kit.data import Axis, dim_pill
from rfnb.display.markup import png, style, svg
from rfnb.display.markup.html import Html, chip, el, fold, join, quiet, wide
from rfnb.display.markup.numbers import Number, plain, real, short
from rfnb.display.markup.png import block_for
from rfnb.display.tensor.entries import shown, tokens
from rfnb.display.tensor.value import one_entry
from rfnb.display.tensor.view import sequence
from rfnb.errors import ViewError

FEW = 16 - 4
"""Shades in pictures with four bits per pixel, where NaN, masked and hatched cells need colours too."""
MARGIN = 12
"""Largest number of hatched rows and columns of padding that are drawn after the end."""
PATH = style.PALETTE[1]
FONT = "font-family:ui-monospace,monospace;font-size:11px"
WIDTH, HEIGHT = 640, 420
SPECTRUM = 64
"""The height of the picture above the columns."""
CELLS = (options.ATTENTION_CELLS, options.ATTENTION_CELLS)


def margin(true: tuple[int, int], full: tuple[int, int], pool: tuple[int, int]) -> tuple[int, int]:
    """Number of rows and columns of padding to draw: an eighth of the existing ones, at least one."""
    rows, cols = (
        min(-(-(total - size) // per), MARGIN, max(1, size // per // 8))
        for size, total, per in zip(true, full, pool, strict=True)
    )
    return rows, cols


def _cells(
    weights: np.ndarray, top: float, shades: int, *, pool: Sequence[int], causal: bool, padding: Sequence[int],
    hatched: bool,
) -> np.ndarray:  # fmt: skip
    """Palette entries of the pooled weights of one head, and of its padding: transparent or hatched."""
    table = np.rint(np.arange(shades) * (png.LEVELS / (shades - 1))).astype(np.uint8)
    with np.errstate(invalid="ignore"):
        unit = np.clip(weights * np.float32((shades - 1) / max(top, 1e-9)), 0, shades - 1)
        entries = table[(unit + np.float32(0.5)).astype(np.uint8)]
    if not np.isfinite(weights.sum()):
        entries[np.isnan(weights)] = png.NAN
        entries[np.isposinf(weights)] = png.POSITIVE_INF
        entries[np.isneginf(weights)] = png.NEGATIVE_INF
    if causal:
        rows, cols = np.indices(entries.shape, sparse=True)
        entries[cols * pool[1] > (rows + 1) * pool[0] - 1] = png.PADDING
    if not any(padding):
        return entries
    shape = tuple(size + pad for size, pad in zip(entries.shape, padding, strict=True))
    framed = png.hatching(shape) if hatched else np.full(shape, png.PADDING, np.uint8)
    framed[: entries.shape[0], : entries.shape[1]] = entries
    return framed


def sprite(
    weights: np.ndarray, top: float, pool: Sequence[int], causal: bool, padding: Sequence[int],
    few: bool | None = None,
) -> str:  # fmt: skip
    """The pooled weights of one head as a data URI.

    few: four bits per pixel; None for the large picture, which is hatched separately.
    """
    shades = FEW if few else png.LEVELS + 1
    cells = _cells(weights, top, shades, pool=pool, causal=causal, padding=padding, hatched=few is not None)
    return png.data_uri(png.encode(cells, png.PALETTES["sequential"], bits=4 if few else 8, level=6 if few else 1))


def large(
    picture: str,
    rows: Sequence[str],
    cols: Sequence[str],
    *,
    padding: Sequence[int],
    path: Sequence[int],
    marks: dict[str, str],
    alt: str,
    square: bool,
    spectrum: str = "",
) -> Html:
    """The large picture, an `<img>` of an SVG. rows, cols: labels of cells. marks: attributes of the inner picture.

    spectrum: a picture above the columns.
    """
    top = 2 + (SPECTRUM + 4 if spectrum else 0)
    wide, high = _cell(cols, len(cols) + padding[1], WIDTH), _cell([""], len(rows) + padding[0], HEIGHT)
    if square:
        wide = high = min(wide, max(high, 3.0) if len(rows) > 100 else high)
    gutter = 8 + 6.7 * max((len(_cut(label)) for label in _thin(rows, high, 12)[0]), default=1)
    foot, names = _below(cols, wide)
    width, height = wide * (len(cols) + padding[1]), high * (len(rows) + padding[0])
    size = {"width": _px(gutter + width + 24), "height": _px(top + height + foot + 2)}
    line = [f"{_px(gutter + wide * (col + 0.5))},{_px(top + high * (row + 0.5))}" for row, col in enumerate(path)]
    drawing = el(
        "svg",
        BRIGHT,
        el(
            "image", href=spectrum, x=_px(gutter), y=2, width=_px(wide * len(cols)), height=SPECTRUM,
            preserveAspectRatio="none", data_rfnb_spectrum="",
        ) if spectrum else None,
        el(
            "image", href=picture, x=_px(gutter), y=top, width=_px(width), height=_px(height),
            preserveAspectRatio="none", style="image-rendering:pixelated", **marks,
        ),
        el(
            "rect", x=_px(gutter), y=top, width=_px(width), height=_px(height), fill="none",
            stroke=style.GREY, stroke_opacity=0.5,
        ),
        _hatching(gutter + wide * len(cols), top, wide * padding[1], height),
        _hatching(gutter, top + high * len(rows), wide * len(cols), high * padding[0]),
        _left(rows, high, gutter, top),
        join([el("g", word, transform=f"translate({_px(gutter + x)} {_px(height + top)})") for x, word in names]),
        el(
            "polyline", points=" ".join(line), fill="none", stroke=PATH, stroke_width=1.2, stroke_opacity=0.9,
            stroke_linejoin="round",
        ) if line else None,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {size['width']} {size['height']}", style=FONT, fill=svg.WORDS,
        **size,
    )  # fmt: skip
    return el(
        "img", src=svg.data_uri(drawing), alt=alt, style="display:block;max-width:100%;height:auto;margin:4px 0", **size
    )


BRIGHT = el("style", "@media (prefers-color-scheme:dark){image{filter:invert(1) hue-rotate(180deg)}}")
"""On a dark page, the larger weights are brighter."""


def scale_bar(top: object) -> Html:
    """A scale of colours as in the picture: pale is 0, dark the largest weight."""
    strip = png.picture(np.linspace(0, 1, 64)[None, :], scale="sequential")
    bar = svg.image(64, 9, BRIGHT, el("image", href=strip, width=64, height=9, preserveAspectRatio="none"))
    look = f"width:64px;height:9px;border:1px solid {style.tint(style.GREY, 0.5)};display:inline;margin:0 4px"
    return el(
        "span", quiet("0"), el("img", src=svg.data_uri(bar), alt=" to ", width=64, height=9, style=look),
        quiet(short(top)), style=f"{style.NUMBERS};white-space:nowrap", data_rfnb_still="",
    )  # fmt: skip


def _hatching(x: float, y: float, width: float, height: float) -> Html | None:
    """A box filled with slanted lines."""
    if width <= 0 or height <= 0:
        return None
    lines = "".join(f"M{k} 0L{_px(k - height)} {_px(height)}" for k in range(0, int(width + height) + 6, 6))
    path = el("path", d=lines, stroke=style.GREY, stroke_opacity=0.55, fill="none")
    return el("svg", path, x=_px(x), y=_px(y), width=_px(width), height=_px(height))


def _left(labels: Sequence[str], high: float, left: float, top: float) -> Html:
    picks, every = _thin(labels, high, 12)
    return join(
        [
            el("text", _cut(label), x=_px(left - 5), y=_px(top + high * (i * every + 0.5) + 3.8), text_anchor="end")
            for i, label in enumerate(picks)
        ]
    )


def _below(labels: Sequence[str], wide: float) -> tuple[float, list[tuple[float, Html]]]:
    """Height of the labels below the picture, and each label with its place: horizontal if they fit, else turned."""
    longest = max((len(_cut(label)) for label in labels), default=1)
    numbers = all(label.replace(".", "").replace(" s", "").isdigit() for label in labels)
    turned = not numbers and longest * 6.7 + 4 > wide
    picks, every = _thin(labels, wide, 12 if turned else longest * 6.7 + 8)
    how = {"transform": "translate(4 6) rotate(-90)", "text_anchor": "end"} if turned else {"text_anchor": "middle"}
    place = {} if turned else {"y": 13}
    words = [(wide * (i * every + 0.5), el("text", _cut(label), **how, **place)) for i, label in enumerate(picks)]
    return (longest * 6.7 + 12 if turned else 18), words


def _thin(labels: Sequence[str], cell: float, need: float) -> tuple[list[str], int]:
    """Every n-th label, so that each has enough room."""
    steps = (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000)
    every = next((n for n in steps if n * cell >= need), steps[-1])
    return list(labels[::every]), every


def _cell(labels: Sequence[str], count: int, most: int) -> float:
    longest = max((len(shown(label)) for label in labels), default=1)
    return max(1.0, min(most / max(1, count), max(22, min(longest, 6) * 6.7 + 8)))


def _cut(label: str, most: int = 18) -> str:
    return cut(shown(label), most)


def _px(number: float) -> float:
    return round(number, 1)


def head_pool(shape: tuple[int, int], heads: int) -> tuple[int, int]:
    """Pooling of the pictures of all heads, for the largest size they may have."""
    pool = block_for(shape, CELLS)
    while heads * np.prod([-(-n // p) for n, p in zip(shape, pool, strict=True)]) > options.ATTENTION_PIXELS:
        pool = (pool[0] * 2 if shape[0] > 16 else pool[0], pool[1] * 2 if shape[1] > 16 else pool[1])
        if max(pool) > 4096:
            break
    return pool


# -- labels


def labels_of(side: object, size: int, full: int, index: int | None, notes: Notes) -> list[str] | None:
    """The labels of a sequence; None for plain numbers from 0. full: size with padding, which may have labels too."""
    if side is None or isinstance(side, Dim):
        vocab = None if side is None else side.vocab
        if vocab is None or len(vocab) < size:
            return None
        return [str(vocab.decode(i)) for i in range(size)]
    if hasattr(side, "raw_tensor"):
        data = one_entry(side, {})
        part = data if index is None or data.sequence_axis() is None else sequence(data, index)
        labels = tokens(part, size)
    elif isinstance(side, str):
        labels = list(side)
    else:
        labels = _labels_of_sequence(_listed(side), index)
    if len(labels) not in (size, full):
        notes.add(f"{len(labels)} labels for {size} entries")
    return (labels + [str(i) for i in range(len(labels), size)])[:size]


def cell_labels(labels: list[str] | None, size: int, pool: int, seconds: float | None) -> list[str]:
    """Labels of the cells of the large picture: the first entry of each."""
    if labels is not None:
        return labels[::pool]
    if seconds is not None:
        return [f"{i * seconds:.3f}".rstrip("0").rstrip(".") for i in range(0, size, pool)]
    return [str(i) for i in range(0, size, pool)]


def name_or_number(name: str, number: int) -> str:
    """The number of a layer, or its name."""
    return name or ("mean" if number < 0 else str(number))


def lines_of(names: Mapping[int, str]) -> dict[int, str]:
    """The label of each layer: its number, or its name if names differ in more than numbers.

    >>> lines_of({0: "encoder.0.att", 1: "encoder.1.att"})
    {0: '0', 1: '1'}
    >>> lines_of({0: "encoder.att", 1: "decoder.att"})
    {0: 'encoder.att', 1: 'decoder.att'}
    """
    alike = len({re.sub(r"\d+", "0", name) for name in names.values()}) <= 1
    return {layer: name_or_number("" if alike else name, layer) for layer, name in names.items()}


def seconds_of(seconds: object, rows: Axis, cols: Axis) -> tuple[float | None, float | None]:
    """Seconds from one entry to the next, for both sides; None if unknown.

    seconds: duration of a frame (below 1), or frames per second; for the columns, and for the rows if they are frames
    of the same sequence. A pair gives both. It applies to the dim that a side is derived from: an entry of time/4 is
    four frames.
    """
    if seconds is None:
        return None, None
    if isinstance(seconds, tuple | list) and len(seconds) == 2:
        row_rate, col_rate = seconds
    else:
        (row_root, _), (col_root, _) = factor_of(rows.dim), factor_of(cols.dim)
        row_rate, col_rate = (seconds if row_root is col_root or rows.size == cols.size else None), seconds
    if cols.dim.expr is None and rows.size == cols.size:  # keys under a dim of their own
        cols = rows
    hops = [_seconds(rate, axis.dim) for rate, axis in ((row_rate, rows), (col_rate, cols))]
    return hops[0], hops[1]


def factor_of(dim: Dim) -> tuple[Dim, float]:
    """The dim that a dim is derived from, and how many of its frames make one entry."""
    factor = 1.0
    while dim.expr is not None:
        expr = dim.expr
        if expr.op in ("floordiv", "ceildiv", "floordiv_left", "ceildiv_left") and expr.numbers:
            factor *= expr.numbers[0]
        elif expr.op == "sum" and len(expr.dims) == 1 and expr.numbers[0] > 0:
            factor /= expr.numbers[0]
        elif expr.op not in ("copy", "max", "min") or len(expr.dims) != 1:
            break
        dim = expr.dims[0]
    return dim, factor


def _seconds(rate: object, dim: Dim) -> float | None:
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < float("inf"):
        raise ViewError(
            "show_attention: `seconds` is the duration of a frame",
            got=repr(rate),
            expected="0.01, or 100 frames a second; or a pair, for rows and columns",
        )
    hop = rate if rate < 1 else 1 / rate
    return round(hop * factor_of(dim)[1], 9)


def _listed(side: object) -> list[object]:
    entries = side.tolist() if hasattr(side, "tolist") else side  # of numpy and torch
    if not isinstance(entries, Iterable):
        raise ViewError(
            "show_attention: rows and cols must be labels or a Dim",
            got=type(side).__name__,
            expected="a list of words, a string, a sparse Tensor, or a Dim",
        )
    return list(entries)


def _labels_of_sequence(labels: list[object], index: int | None) -> list[str]:
    """The labels of one sequence, if there is a list for each."""
    lists = [entry for entry in labels if isinstance(entry, list | tuple)]
    if labels and len(lists) == len(labels):
        at = index or 0
        if at >= len(labels):
            raise ViewError("show_attention: no labels for this sequence", got=at, expected=f"0 to {len(labels) - 1}")
        labels = list(lists[at])
    return [str(label) for label in labels]


# -- the large picture

STILL = {"data-rfnb-still": ""}
"""Attributes of elements about the chosen head: scripts hide them, because users may choose another head."""
MEASURES: tuple[Literal["entropy", "monotonicity", "coverage", "diagonal"], ...]
MEASURES = ("entropy", "monotonicity", "coverage", "diagonal")


def large_head(view: AttentionView, head: AttentionHead) -> Html:
    """The chosen head with its dims, scale and faults, and its picture between the labels."""
    return el(
        "div",
        el(
            "div", _which(view), dim_pill(view["row_dim"]), quiet(" down  "),
            dim_pill(view["col_dim"]), quiet(" across  "),
            scale_bar(head["scale"]), style=style.HEAD,
        ),
        el("div", [chip(flag, style.ALARM) for flag in head["flags"]], **STILL),
        _picture(view, head) if view["picture"] else quiet("(empty)", tag="div"),
        el("div", measured(head), style=style.QUIET, **STILL) if view["picture"] else None,
    )  # fmt: skip


def measured(head: AttentionHead) -> str:
    """`entropy 0.42 · monotonicity 1 · coverage 0.9 · previous`"""
    words = [f"{name} {short(rounded(head[name]))}" for name in MEASURES[:3]]
    return " · ".join(words + ([head["role"]] if head["role"] else []))


def strongest(view: AttentionView) -> list[tuple[str, str]]:
    """The label of each row and its strongest columns, `b 0.91  a 0.05`; rows with NaN come first."""
    pairs = []
    for label, row in zip(view["rows"], view["weights"], strict=True):
        numbers = np.array(row, np.float64)
        best = np.argsort(-np.where(np.isnan(numbers), np.inf, numbers), kind="stable")[:3]
        pairs.append((shown(label), "  ".join(f"{shown(view['cols'][i])} {short(row[i])}" for i in best)))
    return pairs


def strongest_html(view: AttentionView) -> Html:
    """The strongest columns of each row, folded."""
    pairs = strongest(view)
    wide = max((len(label) for label, _ in pairs), default=0)
    look = f"{style.NUMBERS};margin:0;padding:0;background:none"
    lines = el("pre", "\n".join(f"{label:<{wide}}  {best}" for label, best in pairs), style=look)
    return fold("strongest", lines, **STILL)


def rounded(number: object) -> Number:
    """A number rounded to two digits."""
    return plain(round(real(number), 2))


def _which(view: AttentionView) -> Html | None:
    words = which_head(view)
    return el("span", words, " ", style=f"{style.NAME};margin-right:10px", **STILL) if words else None


def which_head(view: AttentionView) -> str:
    """`layer 3 head 5`, the head that is drawn large; empty if there is only one."""
    if len(view["heads"]) < 2:
        return ""
    head = view["heads"][0]
    layers = len({entry["layer"] for entry in view["heads"]})
    layer = head["name"] or f"layer {name_or_number('', head['layer'])}"
    words = [layer] if layers > 1 else []
    unit = view.get("unit", "head")
    words.append(f"mean of the {SEVERAL[unit]}" if head["head"] < 0 else f"{unit} {head['head']}")
    return " ".join(words)


def _picture(view: AttentionView, head: AttentionHead) -> Html:
    facts: Mapping[str, object] = view
    row_unit, col_unit = (
        " s" if facts[seconds] is not None and facts[labels] is None else ""
        for seconds, labels in (("row_seconds", "row_labels"), ("col_seconds", "col_labels"))
    )
    rows, cols = view["shape"]
    return large(
        view["picture"],
        [label + row_unit for label in view["rows"]],
        [label + col_unit for label in view["cols"]],
        padding=view["padding"],
        path=view["path"],
        marks={"data-rfnb-head": f"{head['layer']},{head['head']}", "data-rfnb-large": ""},
        alt=f"weights of {rows} rows on {cols} columns, 0 to {short(head['scale'])}; the strongest are listed below",
        square=rows == cols and not any(view["padding"]),
        spectrum=view["audio"]["spectrum"] if "audio" in view else "",
    )


# -- the small pictures

ROOM = 440
"""Largest width of a row of pictures, in pixels."""
WORD = "font-family:monospace;font-size:10px;line-height:1.3"
BARE = "border:none;background:none"


def overview(view: AttentionView) -> Html:
    """The pictures in the order of the view; the chosen head has a frame."""
    wide, high = _size(view)
    blurred = "" if min(wide / _pixels(view, 1), high / _pixels(view, 0)) < 1 else "image-rendering:pixelated;"
    cells = [
        _small_head(view, head, picture, blurred + _look(view, head, wide, high))
        for head, picture in zip(view["heads"], view["pictures"], strict=True)
    ]
    measure = view["sort"] or "entropy"
    unit = view.get("unit", "head")
    sorted_ = f"layer.{unit}, or {unit}; " if view["sort"] else ""
    words = f"rows are layers, columns {SEVERAL[unit]}; " if view["grid"] else sorted_
    return el(
        "div",
        _grid(view, cells) if view["grid"] else _flow(view, cells, wide),
        el("div", f"{words}below each: {measure}", style=f"{style.QUIET};font-size:11px"),
        style="margin:4px 0 8px 0",
    )


def _look(view: AttentionView, head: AttentionHead, wide: int, high: int) -> str:
    """The style of a picture, in proportion to the largest if layers differ in size."""
    shapes = [entry.get("shape", view["shape"]) for entry in view["heads"]]
    own = head.get("shape", view["shape"])
    width, height = (
        max(4, round(limit * size / max(1, *sizes)))
        for limit, size, sizes in zip((high, wide), own, zip(*shapes, strict=True), strict=True)
    )
    return f"width:{height}px;height:{width}px;display:block;max-width:none;margin:0"


def _grid(view: AttentionView, cells: list[Html]) -> Html:
    layers = list(dict.fromkeys(head["layer"] for head in view["heads"]))
    count = len(cells) // len(layers)
    names = lines_of({head["layer"]: head["name"] for head in view["heads"]})
    quiet = f"{BARE};{WORD};opacity:0.65;text-align:center;padding:0 4px 0 0;vertical-align:middle;font-weight:normal"
    numbers = [el("th", head_word(head), style=quiet) for head in view["heads"][:count]]
    lines = [
        el(
            "tr", el("th", names[layer], style=quiet),
            [el("td", cell, style=f"{BARE};padding:1px 2px") for cell in cells[i * count : (i + 1) * count]],
            style=style.PLAIN_ROW,
        )
        for i, layer in enumerate(layers)
    ]  # fmt: skip
    header = el("tr", el("th", style=quiet), numbers, style=style.PLAIN_ROW)
    table = el("table", header, lines, style="border-collapse:collapse;margin:0")
    return wide(table)


def _flow(view: AttentionView, cells: list[Html], wide: int) -> Html:
    box = f"display:inline-block;vertical-align:top;margin:1px 4px 2px 0;width:{wide + 4}px"
    layered = len({head["layer"] for head in view["heads"]}) > 1
    names = [head_name(head, layered=layered) for head in view["heads"]]
    quiet = f"{WORD};opacity:0.65;text-align:center"
    return el(
        "div",
        [el("div", el("div", name, style=quiet), cell, style=box) for name, cell in zip(names, cells, strict=True)],
    )


def _small_head(view: AttentionView, head: AttentionHead, picture: str, look: str) -> Html:
    is_chosen = [head["layer"], head["head"]] == view["chosen"]
    edge = f"2px solid {style.PALETTE[1]}" if is_chosen else f"1px solid {style.tint(style.GREY, 0.35)}"
    alarm = f";{style.MARKED if head['flags'] else style.QUIET}"
    measures: Mapping[str, object] = head
    value = short(rounded(measures[view["sort"] or "entropy"]))
    title = ", ".join([measured(head), *head["flags"]])
    image = el(
        "img", src=picture, style=look, alt=f"layer {head['layer']} {view.get('unit', 'head')} {head['head']}",
        data_rfnb_head=f"{head['layer']},{head['head']}",
    )  # fmt: skip
    border = el("div", image, style=f"border:{edge};padding:1px;display:inline-block")
    return el(
        "div", border, el("div", value, style=f"{WORD}{alarm}"), title=title, style="text-align:center;line-height:0"
    )


def _size(view: AttentionView) -> tuple[int, int]:
    """The size of a picture on the page: proportional to its shape, but not too flat."""
    layers = len({head["layer"] for head in view["heads"]})
    across = len(view["heads"]) // layers if view["grid"] else min(len(view["heads"]), 10)
    room = max(28, min(128, ROOM // max(1, across) - 8))
    rows, cols = (_pixels(view, axis) for axis in (0, 1))
    if rows > cols:
        return max(16, round(room * max(0.3, cols / rows))), room
    return room, max(16, round(room * max(0.3, rows / cols)))


def _pixels(view: AttentionView, axis: int) -> int:
    return max(1, -(-view["shape"][axis] // view["head_pool"][axis]) + view["padding"][axis])


def head_name(head: AttentionHead, *, layered: bool) -> str:
    """`3.5`: the numbers of layer and head; of the head alone, if there is one layer."""
    return f"{name_or_number('', head['layer'])}.{head_word(head)}" if layered else head_word(head)


def head_word(head: AttentionHead) -> str:
    """The number of a head, or "mean"."""
    return "mean" if head["head"] < 0 else str(head["head"])


# -- sounds

LONGEST = 2_000_000
"""Samples of a sound."""
FRAMES, BANDS = 600, 64
"""The largest size of the picture, in pixels."""
DECIBELS = 60
"""What is so much below the loudest is white."""


def describe_sound(audio: Any) -> AttentionSound:
    """The sound and its spectrogram as data URIs. audio: (samples, samples a second).

    Raises ViewError for what is not the sound of one channel.
    """
    try:
        samples, rate = audio
        samples, rate = np.asarray(getattr(samples, "raw_tensor", samples)), float(rate)
        is_sound = samples.ndim == 1 and samples.dtype.kind in "fi" and np.isfinite(samples).all()
    except (TypeError, ValueError):
        is_sound = False
    if not is_sound or not 1 <= rate <= 1e6 or not 0 < len(samples) <= LONGEST:
        raise ViewError(
            "show_attention: `audio` is not a sound",
            got=type(audio).__name__ if not isinstance(audio, tuple) else f"({', '.join(map(_part_word, audio))})",
            expected=f"(samples of one channel, samples a second), at most {LONGEST:,} samples",
            hint="audio=(sound, 16000)",
        )
    if samples.dtype.kind == "i":
        samples = samples / -float(np.iinfo(samples.dtype).min)
    samples = np.clip(samples.astype(np.float32), -1, 1)
    return {
        "spectrum": _spectrogram(samples, rate),
        "sound": _wav(samples, round(rate)),
        "duration": len(samples) / rate,
    }


def player(sound: AttentionSound) -> Html:
    """The element that plays the sound."""
    words, look = "the sound of the columns", "display:block;height:32px;width:320px;max-width:100%;margin:4px 0"
    return el("audio", controls=True, src=sound["sound"], aria_label=words, style=look)


def _part_word(part: object) -> str:
    shape = getattr(part, "shape", None)
    return repr(part)[:20] if shape is None else f"{type(part).__name__} of shape {tuple(shape)}"


def _wav(samples: np.ndarray, rate: int) -> str:
    """The sound as a data URI of a WAV file of 16 bits."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(np.rint(samples * 32767).astype("<i2").tobytes())
    return "data:audio/wav;base64," + base64.b64encode(buffer.getvalue()).decode()


def _spectrogram(samples: np.ndarray, rate: float) -> str:
    """The energy of each frequency, from low at the bottom to half of the rate, over time, in decibels."""
    window = 2 ** max(4, math.ceil(math.log2(0.025 * rate)))
    count = min(FRAMES, max(1, len(samples) * 4 // window))
    begins = np.linspace(0, len(samples), count, endpoint=False).astype(int)
    frames = np.pad(samples, (window // 2, window))[begins[:, None] + np.arange(window)]
    energy = np.abs(np.fft.rfft(frames * np.hanning(window))[:, 1:]) ** 2
    bands = png.pooled(energy.T[::-1], (max(1, window // 2 // BANDS), 1))
    loudness = 10 * np.log10(np.maximum(bands / max(bands.max(), 1e-12), 1e-12))
    return png.picture(1 + loudness / DECIBELS, scale="sequential")
