"""Matplotlib figures of views, for papers and slides."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

from rfnb.display.attention.schema import AttentionHead, AttentionView
from rfnb.display.markup.figures import figure_class, literal
from rfnb.display.markup.numbers import real, short
from rfnb.display.markup.png import SEQUENTIAL, ramp

LABELS = 40
"""Up to this many entries each has its label; beyond, every n-th."""
FONT = 8


def to_figure(view: AttentionView) -> Any:
    """A matplotlib figure of an attention view, made without pyplot's global state: the chosen head, or all heads.

    Text stays text in PDF and SVG. Raises ViewError without matplotlib.
    """
    Figure = figure_class()
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("rfnb", SEQUENTIAL).with_extremes(bad="#d627b7")
    return _grid(view, Figure, colours) if len(view["heads"]) > 1 else _single(view, Figure, colours)


def _single(view: AttentionView, make: Any, colours: Any) -> Any:
    """One matrix with labels, its path and a colour bar."""
    weights = np.array([[real(w) for w in row] for row in view["weights"]]).reshape(len(view["rows"]), -1)
    size = [min(12.0, 1.5 + 0.3 * n) for n in (len(view["cols"]), len(view["rows"]))]
    figure = make(figsize=(max(2.5, size[0]), max(2.0, size[1])), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights, cmap=colours, aspect="auto", vmin=0, interpolation="nearest")
    for axis, labels, name, seconds in (
        (axes.xaxis, view["cols"], view["col_dim"]["name"], view["col_seconds"]),
        (axes.yaxis, view["rows"], view["row_dim"]["name"], view["row_seconds"]),
    ):
        every = -(-len(labels) // LABELS)
        axis.set_ticks(range(0, len(labels), every), [literal(label) for label in labels[::every]], fontsize=FONT)
        axis.set_label_text(literal(f"{name} (s)" if seconds is not None else name), fontsize=FONT + 1)
    if max((len(label) for label in view["cols"]), default=0) > 3 and len(view["cols"]) > 4:
        axes.tick_params(axis="x", labelrotation=90)
    if view["path"]:
        axes.plot(view["path"], range(len(view["path"])), color="#d55e00", linewidth=1)
    axes.set_title(literal(view["tag"] or view["name"]), fontsize=FONT + 2)
    if weights.size:
        figure.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=FONT)
    return figure


def _grid(view: AttentionView, make: Any, colours: Any) -> Any:
    """A small matrix for each head, in the order of the view."""
    heads = view["heads"]
    layers = len({head["layer"] for head in heads})
    across = len(heads) // layers if view["grid"] else min(len(heads), 8)
    down = -(-len(heads) // across)
    figure = make(figsize=(min(14.0, 0.9 * across + 0.4), min(18.0, 1.0 * down + 0.4)), layout="constrained")
    places = figure.subplots(down, across, squeeze=False).flat
    for axes in places:
        axes.set_axis_off()
    for axes, head, picture in zip(figure.axes, heads, view["pictures"], strict=False):
        axes.imshow(shares(picture), cmap=colours, aspect="auto", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(literal(_word(head, layers > 1)), fontsize=FONT - 2, pad=2)
    figure.suptitle(literal(view["tag"] or view["name"]), fontsize=FONT + 2)
    return figure


def _word(head: AttentionHead, several: bool) -> str:
    """`3.5  0.42`: layer, head, entropy."""
    number = "mean" if head["head"] < 0 else str(head["head"])
    return f"{head['layer']}.{number}  {short(round(real(head['entropy']), 2))}" if several else number


def shares(picture: str) -> np.ndarray:
    """Each pixel of a picture as a share of the darkest colour, 0 to 1; NaN for NaN, masked cells and padding.

    This reads a picture of `drawing` back, as figures are made from the JSON of a view alone."""
    data = base64.b64decode(picture.partition(",")[2])
    chunks = dict(_chunks(data))
    width, height, bits = struct.unpack(">IIB", chunks[b"IHDR"][:9])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)[:, 1:]
    per_byte = 8 // bits
    spread = [(lines >> (8 - bits * (place + 1))) & (2**bits - 1) for place in range(per_byte)]
    indices = np.stack(spread, axis=-1).reshape(height, -1)[:, :width]
    return _values(chunks[b"PLTE"])[indices]


def _values(palette: bytes) -> np.ndarray:
    levels = {colour.tobytes(): i for i, colour in enumerate(ramp(SEQUENTIAL))}
    colours = [palette[i : i + 3] for i in range(0, len(palette), 3)]
    return np.array([levels.get(colour, np.nan) for colour in colours]) / (len(ramp(SEQUENTIAL)) - 1)


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    at, chunks = 8, []
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    return chunks
