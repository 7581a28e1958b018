"""Heads as PNG pictures with one pixel per cell, and the large one as an SVG with labels, ticks and a path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.core.ground.text import cut
from rfnb.display.kit import options
from rfnb.display.markup import png, style
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import short
from rfnb.display.markup.png import block_for
from rfnb.display.markup.svg import data_uri
from rfnb.display.tensor.labels import shown

FEW = 16 - 4
"""Shades in pictures with four bits per pixel, where NaN, masked and hatched cells need colours too."""
MARGIN = 12
"""Largest number of hatched rows and columns of padding that are drawn after the end."""
WORDS = "#7f7f7f"
PATH = style.PALETTE[1]
FONT = "font-family:ui-monospace,monospace;font-size:11px"
WIDTH, HEIGHT = 640, 420


CELLS = (options.ATTENTION_CELLS, options.ATTENTION_CELLS)


def margin(true: tuple[int, int], full: tuple[int, int], pool: tuple[int, int]) -> tuple[int, int]:
    """Number of rows and columns of padding to draw: an eighth of the existing ones, at least one."""
    rows, cols = (
        min(-(-(total - size) // per), MARGIN, max(1, size // per // 8))
        for size, total, per in zip(true, full, pool, strict=True)
    )
    return rows, cols


def _cells(
    weights: np.ndarray, top: float, shades: int, *, pool: tuple[int, int], causal: bool, padding: tuple[int, int],
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
    weights: np.ndarray, top: float, *, pool: tuple[int, int], causal: bool, padding: tuple[int, int],
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
) -> Html:
    """The large picture, an `<img>` of an SVG. rows, cols: labels of cells. marks: attributes of the inner picture."""
    wide, high = _cell(cols, len(cols) + padding[1], WIDTH), _cell([""], len(rows) + padding[0], HEIGHT)
    if square:
        wide = high = min(wide, max(high, 3.0) if len(rows) > 100 else high)
    gutter = 8 + 6.7 * max((len(_cut(label)) for label in _thin(rows, high, 12)[0]), default=1)
    foot, names = _below(cols, wide)
    width, height = wide * (len(cols) + padding[1]), high * (len(rows) + padding[0])
    size = {"width": _px(gutter + width + 24), "height": _px(height + foot + 4)}
    line = [f"{_px(gutter + wide * (col + 0.5))},{_px(2 + high * (row + 0.5))}" for row, col in enumerate(path)]
    svg = el(
        "svg",
        el(
            "image", href=picture, x=_px(gutter), y=2, width=_px(width), height=_px(height),
            preserveAspectRatio="none", style="image-rendering:pixelated", **marks,
        ),
        el(
            "rect", x=_px(gutter), y=2, width=_px(width), height=_px(height), fill="none",
            stroke=style.GREY, stroke_opacity=0.5,
        ),
        _hatching(gutter + wide * len(cols), 2, wide * padding[1], height),
        _hatching(gutter, 2 + high * len(rows), wide * len(cols), high * padding[0]),
        _left(rows, high, gutter),
        join([el("g", word, transform=f"translate({_px(gutter + x)} {_px(height + 2)})") for x, word in names]),
        el(
            "polyline", points=" ".join(line), fill="none", stroke=PATH, stroke_width=1.2, stroke_opacity=0.9,
            stroke_linejoin="round",
        ) if line else None,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {size['width']} {size['height']}", style=FONT, fill=WORDS,
        **size,
    )  # fmt: skip
    return el("img", src=data_uri(svg), alt=alt, style="display:block;max-width:100%;height:auto;margin:4px 0", **size)


def scale_bar(top: object) -> Html:
    """A scale of colours: pale is 0, dark the largest weight."""
    strip = png.picture(np.linspace(0, 1, 64)[None, :], scale="sequential")
    look = f"width:64px;height:9px;border:1px solid {style.tint(style.GREY, 0.5)};display:inline;margin:0 4px"
    return el(
        "span", "0", el("img", src=strip, alt="pale to dark", width=64, height=9, style=look), short(top),
        style=f"{style.QUIET};{style.NUMBERS};white-space:nowrap", data_rfnb_still="",
    )  # fmt: skip


def _hatching(x: float, y: float, width: float, height: float) -> Html | None:
    """A box filled with slanted lines."""
    if width <= 0 or height <= 0:
        return None
    lines = "".join(f"M{k} 0L{_px(k - height)} {_px(height)}" for k in range(0, int(width + height) + 6, 6))
    path = el("path", d=lines, stroke=style.GREY, stroke_opacity=0.55, fill="none")
    return el("svg", path, x=_px(x), y=_px(y), width=_px(width), height=_px(height))


def _left(labels: Sequence[str], high: float, left: float) -> Html:
    picks, every = _thin(labels, high, 12)
    return join(
        [
            el("text", _cut(label), x=_px(left - 5), y=_px(2 + high * (i * every + 0.5) + 3.8), text_anchor="end")
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
