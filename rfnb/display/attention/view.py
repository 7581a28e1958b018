"""Attention: the overview of layers and heads as small pictures, and one head large, with labels and its path.

What scripts read (`to_scripts`) is `AttentionScripts` of the schema. The pictures stay in the HTML: in the overview
`<img data-rfnb-head="layer,head">`, one pixel for `head_pool` rows by columns. The large one is an `<img>` of an SVG,
in which `<image data-rfnb-head="layer,head" data-rfnb-large="">` is the picture, one pixel for `pool` rows by columns,
and `<polyline>` the path. Behind the `shape` true rows and columns there are `padding` pixels of padding, hatched.
`-1` for a layer or head is the mean of them. Scripts hide what has `data-rfnb-still`: it tells of the chosen head.

    {"kind": "attention", "row_name": "dec", "col_name": "enc", "shape": [7, 6], "padding": [0, 1], "pool": [1, 1],
     "head_pool": [1, 1], "rows": ["b", …] or null, "cols": […], "row_seconds": null, "col_seconds": 0.04,
     "causal": false, "colours": "f4f1ecf3f1eb…", "special": {"nan": "d627b7", "inf": "ff8c00", "-inf": "6a3cd2"},
     "heads": [{"layer": 0, "head": 3, "scale": 0.93, "entropy": 0.4, …}, …], "chosen": [0, 3], "path": [0, 0, 1, 3, …]}

The weight of a pixel is its place in `colours` / (their number - 1) · `scale` of its head.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from rfnb.display.attention import drawing
from rfnb.display.attention.drawing import (
    MEASURES,
    cell_labels,
    labels_of,
    large_head,
    name_or_number,
    overview,
    rounded,
    seconds_of,
    strongest,
    strongest_html,
    which_head,
)
from rfnb.display.attention.heads import best_path, describe_heads
from rfnb.display.attention.schema import AttentionHead, AttentionScripts, AttentionShape, AttentionView
from rfnb.display.attention.sound import describe_sound, player
from rfnb.display.attention.weights import SEVERAL, Side, choose, read_weights
from rfnb.display.kit import options
from rfnb.display.kit.dims import describe_axes, dim_word
from rfnb.display.kit.note import Notes
from rfnb.display.markup import png, style
from rfnb.display.markup.elements import Table, fold, note_html, note_text, quiet, table_html
from rfnb.display.markup.figures import figure_class, literal
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import plain, real, short
from rfnb.display.markup.png import SEQUENTIAL, block_for, pooled, ramp
from rfnb.display.tensor.entries import shown
from rfnb.errors import ViewError

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


def _single(view: AttentionView, make: Any, colours: object) -> object:
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


def _grid(view: AttentionView, make: Any, colours: object) -> object:
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


Sort = Literal["entropy", "monotonicity", "coverage", "diagonal"] | None
FLAT = 0.8
"""Entropy above which no path is drawn."""


def describe(
    weights: object,
    *,
    rows: Side = None,
    cols: Side = None,
    batch: int | str | None = None,
    layer: int | str | None = None,
    head: int | str | None = None,
    dims: Sequence[str] | None = None,
    lengths: object = None,
    seconds: object = None,
    sort: Sort = None,
    tokenizer: object = None,
    audio: object = None,
) -> AttentionView:
    """The JSON of the weights with which `rows` attend to `cols`. Raises ViewError if there are no such two sides."""
    if sort not in (None, *MEASURES):
        raise ViewError("show_attention: cannot sort by this", got=repr(sort), expected=", ".join(MEASURES))
    notes = Notes()
    source = read_weights(
        weights, rows=rows, cols=cols, batch=batch, dims=dims, lengths=lengths, tokenizer=tokenizer, notes=notes
    )
    every = choose(source, layer, head, notes)
    given = (own if side is None else side for side, own in zip((rows, cols), every.labels, strict=True))
    sides = zip(given, every.shape(), every.full(), strict=True)
    labels = [labels_of(side, size, full, every.index, notes) for side, size, full in sides]
    heads = describe_heads(every, labels[1], notes)
    if sort is not None:
        heads = heads.sorted_by(sort, largest_first=sort != "entropy")
    focus = heads.heads[0] if heads.heads else None
    place = every.layers.index(focus["layer"]) if focus else 0
    shape, full = every.shape(place), every.full(place)
    labels = [side if own == first else None for side, own, first in zip(labels, shape, every.shape(), strict=True)]
    pool = block_for(shape, drawing.CELLS)
    padding = drawing.margin(shape, full, pool)
    matrix = np.zeros((0, 0), np.float32)
    if focus is not None:
        padded = every.matrix(place, every.heads[place].index(focus["head"]))
        matrix = pooled(padded[: shape[0], : shape[1]], pool)
    if max(pool) > 1:
        notes.add(f"drawn at {matrix.shape[0]}×{matrix.shape[1]}: a cell is the largest weight of {pool[0]}×{pool[1]}")
    counts = set(map(len, every.heads))
    hops = seconds_of(seconds, *every.sides[place])
    names = [cell_labels(*side) for side in zip(labels, shape, pool, hops, strict=True)]
    frame: Any = {"pool": pool, "causal": heads.causal, "padding": padding}
    row_dim, col_dim = describe_axes([*every.sides[place]])
    view: AttentionView = {
        "kind": "attention",
        "name": every.name,
        "row_dim": row_dim,
        "col_dim": col_dim,
        "rows": names[0][: len(matrix)],
        "cols": names[1],
        "weights": _plain(matrix),
        "tag": every.tag,
        "picture": drawing.sprite(matrix, real(focus["scale"]), **frame) if focus and matrix.size else "",
        "path": _path(matrix) if focus and real(focus["entropy"]) <= FLAT else [],
        "heads": heads.heads,
        "pictures": heads.pictures,
        "chosen": [focus["layer"], focus["head"]] if focus else [0, 0],
        "sort": sort,
        "grid": sort is None and len(every.layers) > 1 and counts not in ({0}, {1}) and len(counts) == 1,
        "shape": [*shape],
        "padding": [*padding],
        "pool": [*pool],
        "head_pool": [*heads.pool],
        "row_labels": labels[0],
        "col_labels": labels[1],
        "row_seconds": hops[0],
        "col_seconds": hops[1],
        "causal": heads.causal,
        "note": notes.text(),
    }
    if every.unit != "head":
        view["unit"] = every.unit
    if audio is not None:
        view["audio"] = describe_sound(audio)
    return view


def to_text(view: AttentionView) -> str:
    """One line per row with the three columns that it attends to most; one line per head if there are several."""
    lines = [" ".join(head_words(view))]
    lines += [f"  {flag}" for head in view["heads"] if len(view["heads"]) == 1 for flag in head["flags"]]
    lines += [f"{title}:"] if (title := which_head(view)) else []
    width = max((len(shown(label)) for label in view["rows"]), default=0)
    best = strongest(view)
    lines += [f"  {label:<{width}}  {words}" for label, words in best[: options.ATTENTION_LINES]]
    if len(best) > options.ATTENTION_LINES:
        lines.append(f"  … {len(best) - options.ATTENTION_LINES} more rows")
    if len(view["heads"]) > 1:
        lines += ["", *to_table(view, most=options.ATTENTION_LINES).lines()]
    if len(view["heads"]) > options.ATTENTION_LINES:
        lines.append(f"… {len(view['heads']) - options.ATTENTION_LINES} more {_several(view)}")
    return "\n".join(lines + note_text(view["note"]))


def to_table(view: AttentionView, most: int | None = None) -> Table:
    """A row for each head, in the order of the overview: its measures, and the columns with most weight."""
    rows = [
        [
            name_or_number(head["name"], head["layer"]),
            "mean" if head["head"] < 0 else head["head"],
            *(rounded(head[name]) for name in MEASURES),
            head["role"],
            "  ".join(shown(label) for label in head["top"]),
            "; ".join(head["flags"]),
        ]
        for head in view["heads"][:most]
    ]
    columns = ["layer", view.get("unit", "head"), *MEASURES, "role", "top columns", "flags"]
    count = len(columns) if any(row[-1] for row in rows) else len(columns) - 1
    return Table(columns[:count], [row[:count] for row in rows])


def to_scripts(view: AttentionView) -> AttentionScripts:
    """The data that scripts need besides the pictures in the HTML."""
    special = dict(zip(("nan", "inf", "-inf"), (bytes(rgb).hex() for rgb in png.SPECIAL), strict=False))
    shared = {key: view[key] for key in AttentionShape.__annotations__ if key in view}  # type: ignore[literal-required]
    extra: Any = {
        "row_name": view["row_dim"]["name"],
        "col_name": view["col_dim"]["name"],
        "rows": view["row_labels"],
        "cols": view["col_labels"],
        "colours": png.ramp(png.SEQUENTIAL).tobytes().hex(),
        "special": special,
    }
    return shared | extra


def to_html(view: AttentionView) -> Html:
    """The overview, the chosen head between its labels, and folded below, its measures and strongest columns."""
    name, *words = head_words(view)
    many = len(view["heads"]) > 1
    return el(
        "div",
        el("div", el("span", name, style=style.NAME), quiet(" ", " ".join(words)), style=style.HEAD),
        overview(view) if many else None,
        large_head(view, view["heads"][0]) if view["heads"] else quiet(f"(no {_several(view)})", tag="div"),
        player(view["audio"]) if "audio" in view else None,
        note_html(view["note"]),
        fold(f"all {_several(view)}", table_html(to_table(view))) if many else None,
        strongest_html(view),
        style=style.BOX,
    )


def head_words(view: AttentionView) -> list[str]:
    """`weights of 'banana': {dec:6} attends to {enc:6}`"""
    name = view["name"] if view["tag"] is not None else f"{view['name']}:"
    words = [name, f"of {view['tag']!r}:"] if view["tag"] is not None else [name]
    words += [f"{{{dim_word(view['row_dim'])}}}", "attends to", f"{{{dim_word(view['col_dim'])}}}"]
    heads = len(view["heads"])
    if heads > 1:
        layers = len({head["layer"] for head in view["heads"]})
        product = f"× {heads // layers}" if heads % layers == 0 else f"with {heads}"
        words.append(f"· {layers} layers {product} {_several(view)}" if layers > 1 else f"· {heads} {_several(view)}")
        words += [f"· by {view['sort']}"] if view["sort"] else []
    words += [f"· {short(view['audio']['duration'])} s of sound"] if "audio" in view else []
    return words


def _several(view: AttentionView) -> str:
    return SEVERAL[view.get("unit", "head")]


def _plain(matrix: np.ndarray) -> list[list[Any]]:
    """Weights as numbers for JSON."""
    rounded_ = np.round(matrix.astype(np.float64), 5)
    if np.isfinite(rounded_).all():
        return rounded_.tolist()
    return [[plain(w) for w in row] for row in rounded_.tolist()]


def _path(matrix: np.ndarray) -> list[int]:
    """The monotonic path through the weights; empty if it would collect less than half of the weight of the peaks."""
    if len(matrix) < 3 or matrix.shape[1] < 2 or not np.isfinite(matrix).all():
        return []
    path = best_path(matrix)
    caught = matrix[np.arange(len(path)), path].sum()
    return path if caught >= 0.5 * matrix.max(axis=1).sum() and path[-1] > path[0] else []
