"""Pictures of a part of an array with one place marked, as found by a check or a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from rfnb.display.markup import png, style
from rfnb.display.markup.html import Html, el, quiet
from rfnb.display.markup.numbers import short


class MarkedPicture(TypedDict):
    """A picture of a part of a value, with one place marked."""

    title: str
    text: str  # what is at the place
    axes: str  # what is down and across
    picture: str | None  # data URI of a PNG
    alt: str


CELLS = (16, 48)
"""Largest number of rows and of columns around the place."""
LIGHT = {"diverging": png.LEVELS // 2, "sequential": 0}


class ValueWindow(NamedTuple):
    """The part that is shown: one or two axes around a place, at the place's position of the other axes.

    names: names of the axes, "" for an axis that is not mentioned. rows, cols: the axes that go down and across.
    at: the place, by axis.
    """

    names: Sequence[str]
    rows: int | None
    cols: int
    down: range
    across: range
    at: tuple[int, ...]

    def cut(self, array: np.ndarray) -> np.ndarray:
        """The part of an array as a matrix."""
        index: list[int | slice] = list(self.at)
        index[self.cols] = slice(self.across.start, self.across.stop)
        if self.rows is not None:
            index[self.rows] = slice(self.down.start, self.down.stop)
        part = array[tuple(index)]
        if self.rows is None:
            return part.reshape(1, -1)
        return part if self.rows < self.cols else part.T

    def words(self) -> str:
        """A caption: which axes go down and across, and the position on the others."""
        words = f"{self.names[self.cols]} {_span(self.across)} across"
        if self.rows is not None and self.names[self.rows]:
            words = f"{self.names[self.rows]} {_span(self.down)} down, {words}"
        positions = [
            f"{name} {at}"
            for i, (name, at) in enumerate(zip(self.names, self.at, strict=True))
            if name and i not in (self.rows, self.cols)
        ]
        return words + (f", at {', '.join(positions)}" if positions else "")


def around(
    shape: Sequence[int], names: Sequence[str], at: Sequence[int], rows: int | None, moves: Sequence[bool]
) -> ValueWindow | None:
    """The part around a place; None for a single number.

    rows: the axis that counts sequences, if there is one. moves: whether each axis is a time-like axis.
    """
    if not shape:
        return None
    axes = range(len(shape))
    cols = max((i for i in axes if i != rows or len(shape) == 1), key=lambda i: (moves[i], shape[i] > 1, i))
    candidates = [i for i in axes if i != cols]
    rows = rows if rows in candidates else max(candidates, key=lambda i: (moves[i], shape[i] > 1, i), default=None)
    down = range(1) if rows is None else _near(at[rows], shape[rows], CELLS[0])
    return ValueWindow(names, rows, cols, down, _near(at[cols], shape[cols], CELLS[1]), tuple(at))


def draw(
    values: np.ndarray, valid: np.ndarray, window: ValueWindow, title: str, text: str, top: float, scale: png.Scale
) -> MarkedPicture:
    """The marked picture of a window.

    values, valid: the entries in the window. top: the value of the strongest colour. text: the value at the place."""
    cell = max(5, min(14, 280 // values.shape[1]))
    row = 0 if window.rows is None else window.at[window.rows] - window.down.start
    col = window.at[window.cols] - window.across.start
    pixels = png.pixels(values / (top or 1.0), valid, scale, (cell, cell))
    _frame(pixels, row * cell, col * cell, cell, png.MARK, LIGHT[scale])
    picture = png.data_uri(png.encode(pixels, png.PALETTES[scale]))
    axes = window.words()
    return {"title": title, "text": text, "axes": axes, "picture": picture, "alt": f"{title}: {axes}; marked: {text}"}


def draw_both(
    window: ValueWindow, valid: np.ndarray, values: dict[str, np.ndarray], apart: np.ndarray
) -> list[MarkedPicture]:
    """Two arrays on one scale, and their difference on its own scale.

    valid: valid entries of the window. values: arrays by title. apart: |difference|.
    """
    parts = {title: window.cut(array) for title, array in values.items()}
    top, scale = png.scale_of(*(part[valid] for part in parts.values()))
    pictures = [draw(parts[t], valid, window, t, short(values[t][window.at]), top, scale) for t in values]
    part = window.cut(apart)
    peak, _ = png.scale_of(part[valid])
    title, text = f"|Δ| up to {short(np.fmax.reduce(part[valid], initial=0.0))}", short(apart[window.at])
    return [*pictures, draw(part, valid, window, title, text, peak, "sequential")]


def pictures_html(pictures: Sequence[MarkedPicture]) -> Html | None:
    """The pictures side by side, each above the value at the place."""
    if not pictures:
        return None
    boxes = [
        el(
            "div",
            quiet(picture["title"], tag="div"),
            _image(picture),
            el("div", picture["text"], style=style.NUMBERS),
            style="display:inline-block;vertical-align:top;margin:4px 16px 4px 0",
        )
        for picture in pictures
    ]
    return el("div", boxes, el("div", pictures[0]["axes"], style=f"{style.QUIET};font-size:11px"))


def _image(picture: MarkedPicture) -> Html | None:
    src, alt = picture["picture"], picture["alt"]
    return el("img", src=src, alt=alt, title=alt, style=style.PICTURE) if src else None


def _frame(pixels: np.ndarray, top: int, left: int, cell: int, *colours: int) -> None:
    """A dark and a light frame just inside of a cell."""
    for inset, colour in enumerate(colours):
        first_row, last_row = top + inset, top + cell - 1 - inset
        first_col, last_col = left + inset, left + cell - 1 - inset
        pixels[[first_row, last_row], first_col : last_col + 1] = colour
        pixels[first_row : last_row + 1, [first_col, last_col]] = colour


def _near(at: int, size: int, most: int) -> range:
    start = max(0, min(at - most // 2, size - most))
    return range(start, min(size, start + most))


def _span(part: range) -> str:
    return f"{part.start}–{part.stop - 1}" if len(part) > 1 else str(part.start)
