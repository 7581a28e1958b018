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
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rfnb.core.ground.text import count_of
from rfnb.display.attention import drawing
from rfnb.display.attention.schema import AttentionHead, AttentionScripts, AttentionShape, AttentionView
from rfnb.display.attention.weights import SEVERAL, Side, Weights, choose, read_weights
from rfnb.display.kit import blocks as page, options
from rfnb.display.kit.data import Axis, describe_axes, describe_axis, dim_word, dims_text
from rfnb.display.kit.view import View
from rfnb.display.markup import png
from rfnb.display.markup.html import bounded_in
from rfnb.display.markup.numbers import Number, plain, real, short, size
from rfnb.display.markup.png import SEQUENTIAL, block_for, pooled, ramp
from rfnb.display.markup.svg import figure_class, literal
from rfnb.display.tensor.entries import shown
from rfnb.errors import ViewError
from rfnb.trace.capture.capture import Captured, Seen

LABELS = 40
"""Up to this many entries each has its label; beyond, every n-th."""
FONT = 8


def to_figure(view: AttentionView) -> object:
    """A matplotlib figure of an attention view, made without pyplot's global state: the chosen head, or all heads.

    Text stays text in PDF and SVG. Raises ViewError without matplotlib.
    """
    Figure = figure_class()
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("rfnb", SEQUENTIAL).with_extremes(bad="#d627b7")
    return _grid(view, Figure, colours) if len(view["heads"]) > 1 else _single(view, Figure, colours)


def _single(view: AttentionView, make: type, colours: object) -> object:
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


def _grid(view: AttentionView, make: type, colours: object) -> object:
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
        entropy = f"  {short(drawing.rounded(head['entropy']))}" if layers > 1 else ""
        axes.set_title(literal(drawing.head_name(head, layered=layers > 1) + entropy), fontsize=FONT - 2, pad=2)
    figure.suptitle(literal(view["tag"] or view["name"]), fontsize=FONT + 2)
    return figure


def shares(picture: str) -> np.ndarray:
    """Each pixel of a picture as a share of the darkest colour, 0 to 1; NaN for NaN, masked cells and padding.

    This reads a picture of `drawing` back, as figures are made from the JSON of a view alone."""
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(base64.b64decode(picture.partition(",")[2])))  # red, green, blue, opacity, from 0 to 1
    rgb = np.rint(pixels[..., :3] * 255).astype(np.uint8)
    colours, places = np.unique(rgb.reshape(-1, 3), axis=0, return_inverse=True)
    levels = {colour.tobytes(): i for i, colour in enumerate(ramp(SEQUENTIAL))}
    parts = np.array([levels.get(colour.tobytes(), np.nan) for colour in colours]) / png.LEVELS
    return parts[places].reshape(rgb.shape[:2])


Sort = Literal["entropy", "monotonicity", "coverage", "diagonal"] | None
FLAT = 0.8
"""Entropy above which no path is drawn."""


@page.shows("attention")
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
    if sort not in (None, *drawing.MEASURES):
        raise ViewError("show_attention: cannot sort by this", got=repr(sort), expected=", ".join(drawing.MEASURES))
    notes = page.Notes()
    source = read_weights(
        weights, rows=rows, cols=cols, batch=batch, dims=dims, lengths=lengths, tokenizer=tokenizer, notes=notes
    )
    every = choose(source, layer, head, notes)
    choices = (own if side is None else side for side, own in zip((rows, cols), every.labels, strict=True))
    sides = zip(choices, every.shape(), every.full(), strict=True)
    labels = [drawing.labels_of(side, size, full, every.index, notes) for side, size, full in sides]
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
    counts, top = set(map(len, every.heads)), real(focus["scale"]) if focus else 0.0
    hops = drawing.seconds_of(seconds, *every.sides[place])
    names = [drawing.cell_labels(*side) for side in zip(labels, shape, pool, hops, strict=True)]
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
        "picture": drawing.sprite(matrix, top, pool, heads.causal, padding) if matrix.size else "",
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
        view["audio"] = drawing.describe_sound(audio)
    return view


def to_page(view: AttentionView) -> page.Page:
    """The overview, the chosen head between its labels, and folded below, its measures and strongest columns.

    A terminal shows the three columns that each row attends to most, and a line per head if there are several.
    """
    heads, units, limit = view["heads"], _several(view), options.ATTENTION_LINES
    many, (heading, *words) = len(heads) > 1, head_words(view)
    table, best = _table(view), drawing.strongest(view)
    width = max((len(shown(label)) for label in view["rows"]), default=0)
    lines = [f"  {flag}" for head in heads if not many for flag in head["flags"]]
    lines += [f"{head_name}:"] if (head_name := drawing.which_head(view)) else []
    lines += [f"  {label:<{width}}  {shares}" for label, shares in best[:limit]]
    lines += [f"  … {count_of(len(best) - limit, 'more row')}"] if len(best) > limit else []
    lines += ["", *_table(view, limit).lines()] if many else []
    lines += [f"… {len(heads) - limit} more {units}"] if len(heads) > limit else []
    nothing = page.Only("html", [page.Line(page.quiet(f"(no {units})"))])
    blocks: list[page.Block] = [
        page.head(heading, " ", " ".join(words)),
        page.Figure((lambda: drawing.overview(view)) if many else None, lines),
        page.Figure(lambda: drawing.large_head(view, heads[0])) if heads else nothing,
        page.Figure(drawing.player(view["audio"])) if "audio" in view else None,
        page.Note(view["note"]),
        page.Only("html", [page.Fold(f"all {units}", [table])]) if many else None,
        page.Figure(lambda: drawing.strongest_html(view)),
    ]
    return page.Page("attention", view["name"], blocks, table)


def _table(view: AttentionView, most: int | None = None) -> page.Table:
    """A row for each head, in the order of the overview: its measures, and the columns with most weight."""
    rows = [
        [
            drawing.name_or_number(head["name"], head["layer"]),
            "mean" if head["head"] < 0 else head["head"],
            *(drawing.rounded(head[name]) for name in drawing.MEASURES),
            head["role"],
            "  ".join(shown(label) for label in head["top"]),
            "; ".join(head["flags"]),
        ]
        for head in view["heads"][:most]
    ]
    columns = ["layer", view.get("unit", "head"), *drawing.MEASURES, "role", "top columns", "flags"]
    count = len(columns) if any(row[-1] for row in rows) else len(columns) - 1
    return page.Table(columns[:count], [row[:count] for row in rows])


def to_scripts(view: AttentionView) -> AttentionScripts:
    """The data that scripts need besides the pictures in the HTML."""
    special = dict(zip(("nan", "inf", "-inf"), (bytes(rgb).hex() for rgb in png.SPECIAL), strict=False))
    shared = {key: value for key, value in view.items() if key in AttentionShape.__annotations__}
    extra: Any = {
        "row_name": view["row_dim"]["name"],
        "col_name": view["col_dim"]["name"],
        "rows": view["row_labels"],
        "cols": view["col_labels"],
        "colours": png.ramp(png.SEQUENTIAL).tobytes().hex(),
        "special": special,
    }
    return shared | extra


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


def _plain(matrix: np.ndarray) -> list[list[Number]]:
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


NEAR = 0.1
"""Tachibana's g: the width of the diagonal, as a share of the columns."""


@dataclass(frozen=True)
class Measures:
    """Measures of shape [heads]; measures of neighbours are None unless rows and columns are equal in number."""

    entropy: np.ndarray
    monotonicity: np.ndarray
    coverage: np.ndarray
    diagonal: np.ndarray
    previous: np.ndarray | None
    itself: np.ndarray | None
    next: np.ndarray | None
    first: np.ndarray

    def role(self, head: int) -> str:
        """One word for a head: what receives at least half of its weight, or how the weight is spread."""
        neighbours = {"previous": self.previous, "itself": self.itself, "next": self.next}
        shares = {word: share for word, share in neighbours.items() if share is not None}
        for word, share in (shares | {"first": self.first}).items():
            if share[head] >= 0.5:
                return word
        if self.entropy[head] >= 0.95:
            return "flat"
        if self.diagonal[head] >= 0.8 and self.monotonicity[head] >= 0.8:
            return "diagonal"
        return "peaked" if self.entropy[head] <= 0.05 else ""


def measure(weights: np.ndarray, *, causal: bool) -> Measures:
    """The measures of all heads of a layer. [heads, rows, columns] with at least one row and column"""
    _, rows, cols = weights.shape
    counts = np.arange(1, rows + 1) if causal else np.full(rows, cols)  # columns that a row may attend to
    with np.errstate(all="ignore"):
        return Measures(
            entropy=_entropy(weights, counts),
            monotonicity=_monotonicity(weights),
            coverage=np.minimum(weights.sum(axis=1), rows / cols).sum(axis=1) / rows,
            diagonal=np.einsum("hrc,rc->h", weights, _near(rows, cols)) / rows,
            previous=_at(weights, -1) if rows == cols and rows > 1 else None,
            itself=_at(weights, 0) if rows == cols and rows > 1 else None,
            next=_at(weights, 1) if rows == cols and rows > 1 and not causal else None,
            first=weights[:, 1:, 0].mean(axis=1) if rows > 1 and cols > 2 else np.zeros(len(weights)),
        )


def is_causal(weights: np.ndarray) -> bool:
    """Whether no row of any head attends to a later column. [heads, rows, columns]"""
    _, rows, cols = weights.shape
    if rows != cols or rows < 2:
        return False
    behind = np.triu(np.ones((rows, cols), bool), 1)
    return not weights[:, behind].any() and bool((weights[:, 1:, 0] > 0).any() or (_at(weights, 0) > 0).any())


def sums(weights: np.ndarray) -> tuple[float, float]:
    """The smallest and the largest sum of a row. [rows, columns]"""
    totals = weights.sum(axis=-1, dtype=np.float64)
    return float(totals.min(initial=np.inf)), float(totals.max(initial=-np.inf))


def best_path(weights: np.ndarray) -> list[int]:
    """The column of each row on the monotonic path with the largest product of weights (Viterbi 1967)."""
    rows, cols = weights.shape
    if not rows or not cols:
        return []
    logs = np.log(np.clip(np.nan_to_num(weights.astype(np.float64)), 1e-8, None))
    scores, came = logs[0], np.zeros((rows, cols), np.int64)
    for row in range(1, rows):
        best = np.maximum.accumulate(scores)
        came[row] = np.maximum.accumulate(np.where(scores >= best, np.arange(cols), 0))
        scores = best + logs[row]
    path = [int(scores.argmax())]
    for row in range(rows - 1, 0, -1):
        path.append(int(came[row, path[-1]]))
    return path[::-1]


def _entropy(weights: np.ndarray, seen: np.ndarray) -> np.ndarray:
    mask = seen > 1
    if not mask.any():
        return np.zeros(len(weights))
    logs = np.log(np.maximum(weights, np.float32(1e-30)))
    nats = -np.einsum("hrc,hrc->hr", weights, logs)
    return (nats[:, mask] / np.log(seen[mask])).mean(axis=1)


def _monotonicity(weights: np.ndarray) -> np.ndarray:
    peaks = weights.argmax(axis=2)
    return np.ones(len(weights)) if weights.shape[1] < 2 else (np.diff(peaks, axis=1) >= 0).mean(axis=1)


def _near(rows: int, cols: int) -> np.ndarray:
    down = np.arange(rows)[:, None] / max(1, rows - 1)
    across = np.arange(cols)[None, :] / max(1, cols - 1)
    return np.exp(-((down - across) ** 2) / (2 * NEAR**2)).astype(np.float32)


def _at(weights: np.ndarray, offset: int) -> np.ndarray:
    """The mean weight on one of the diagonals."""
    diagonal = np.diagonal(weights, offset, axis1=1, axis2=2)
    return diagonal.mean(axis=1)


TOLERANCE = 0.01
"""Tolerance for the sum of a row, as weights may have half precision."""


@dataclass(frozen=True)
class Heads:
    """Heads in the order of layers. pictures: empty for a single head. pool: entries per pixel of a picture."""

    heads: list[AttentionHead]
    pictures: list[str]
    causal: bool
    pool: tuple[int, int]

    def sorted_by(self, name: str, *, largest_first: bool) -> Heads:
        """Heads sorted by a measure, with NaN last."""
        sign = -1 if largest_first else 1
        heads: Sequence[Mapping[str, object]] = self.heads
        values = [sign * real(head[name]) for head in heads]
        order = sorted(range(len(values)), key=lambda i: (math.isnan(values[i]), values[i]))
        pictures = [self.pictures[i] for i in order] if self.pictures else []
        return Heads([self.heads[i] for i in order], pictures, self.causal, self.pool)


def describe_heads(every: Weights, labels: list[str] | None, notes: page.Notes) -> Heads:
    """Describes all heads, one layer at a time to save memory. labels: labels of the columns."""
    count, layers = every.count, range(len(every.layers))
    largest = [max(sizes) for sizes in zip(*map(every.shape, layers), strict=True)]
    pool = drawing.head_pool((largest[0], largest[1]) if largest else (0, 0), count)
    cells = sum(len(every.heads[i]) * math.prod(every.shape(i)) for i in layers)
    coarse = cells / math.prod(pool) > options.ATTENTION_FINE
    heads: list[AttentionHead] = []
    pictures: list[str] = []
    causal = count > 0
    for place in layers if count else ():
        true, full = every.shape(place), np.stack([every.matrix(place, i) for i in range(len(every.heads[place]))])
        valid = full[:, : true[0], : true[1]]
        triangular = bool(valid.size) and is_causal(valid)
        causal = causal and triangular
        new = list(_of_layer(every, place, full, triangular, labels))
        heads += new
        if count > 1:
            padding = drawing.margin(true, every.full(place), pool)
            frame = pool, triangular, padding, coarse
            small = zip(pooled(valid, pool), new, strict=True)
            pictures += [drawing.sprite(matrix, real(head["scale"]), *frame) for matrix, head in small]
    if max(pool) > 1 and pictures:
        notes.add(_how_drawn(every, pool))
    return Heads(heads, pictures, causal, pool)


def _how_drawn(every: Weights, pool: tuple[int, int]) -> str:
    size = "×".join(str(-(-n // p)) for n, p in zip(every.shape(), pool, strict=True))
    sides = (("layer", every.layers), ("head", every.heads[-1]))  # as the arguments are called
    example = ", ".join(f"{word}={numbers[-1]}" for word, numbers in sides if len(numbers) > 1)
    return f"the small pictures are drawn at {size}; rf.show_attention(…, {example}) shows one exactly"


def _of_layer(
    every: Weights, place: int, full: np.ndarray, causal: bool, labels: list[str] | None
) -> Iterator[AttentionHead]:
    true = every.shape(place)
    valid = full[:, : true[0], : true[1]]
    measures = measure(valid, causal=causal) if valid.size else None
    labels = labels if true[1] == every.shape()[1] else None
    shape = {"shape": [*true]} if len(set(map(every.shape, range(len(every.layers))))) > 1 else {}
    for i, head in enumerate(every.heads[place]):
        finite = valid[i] if np.isfinite(valid[i].sum()) else np.where(np.isfinite(valid[i]), valid[i], 0)
        head_view: Any = {
            "layer": every.layers[place],
            "head": head,
            "name": every.names[place],
            **_measured(measures, i),
            "top": [labels[i] if labels is not None else str(i) for i in _largest(finite.sum(axis=0))],
            "flags": faults(full[i], true),
            "scale": _scale(finite),
            **shape,
        }
        yield head_view


def _scale(weights: np.ndarray) -> float:
    """The weight of the darkest colour: the largest one, or twice an even one, so that even weights are not dark."""
    largest = float(np.abs(weights).max(initial=0))
    low, high = sums(weights)
    if weights.size and low >= 1 - TOLERANCE and high <= 1 + TOLERANCE:
        largest = max(largest, min(1.0, 2 / weights.shape[1]))
    return round(largest, 6)


def _measured(measures: Measures | None, head: int) -> Any:
    """The measures as JSON; zeros if there are no weights."""
    names = ("entropy", "monotonicity", "coverage", "diagonal", "previous", "itself", "next")
    values = {name: getattr(measures, name, None) for name in names}
    numbers = {name: None if array is None else plain(round(float(array[head]), 4)) for name, array in values.items()}
    if measures is None:
        numbers |= dict.fromkeys(names[:4], 0.0)
    return {**numbers, "role": "" if measures is None else measures.role(head)}


def _largest(totals: np.ndarray) -> list[int]:
    """The three columns with the largest weight."""
    return [int(i) for i in np.argsort(-totals, kind="stable")[:3]]


def faults(full: np.ndarray, true: tuple[int, int]) -> list[str]:
    """Faults: NaN, rows that do not sum to 1, weight on padding. full: weights with the padding."""
    rows = full[: true[0]]
    if not rows.size:
        return []
    low, high = sums(rows)
    if not np.isfinite(low) or not np.isfinite(high):
        bad = np.argwhere(~np.isfinite(rows))
        row, col = bad[0].tolist()
        return [f"{len(bad)} not finite: the first is {short(plain(rows[row, col]))} at row {row}, column {col}"]
    flags = []
    if low < 1 - TOLERANCE or high > 1 + TOLERANCE:
        flags.append(f"rows sum to {short(round(low, 3))} … {short(round(high, 3))}, not to 1")
    leak = float(rows[:, true[1] :].sum(dtype=np.float64)) / true[0]
    if leak > 1e-6:
        flags.append(f"{short(leak * 100)} % of the weight is on padding")
    if float(rows.min(initial=0)) < 0:
        flags.append("negative weights")
    return flags


@page.shows("attention_list", "rfnb.trace.capture.capture.Captured", "rfnb.trace.capture.capture.Seen")
def page_of_captured(seen: Captured | Seen, **choice: Any) -> page.Page | AttentionView:
    """The list of what `rf.capture` saw, and an overview of it; for a single entry, the JSON of its weights."""
    if isinstance(seen, Seen):
        return describe(seen, **choice)
    notes = page.Notes()
    attention = notes.attempt("picture", lambda: bounded_in(describe(seen[:], **choice)), None) if len(seen) else None
    notes.add(seen.why_nothing() or seen.left_out_text())
    table = page.Table(["name", "dims", "place", "held"], list(map(_captured_cells, seen)))
    blocks: list[page.Block] = [
        page.Line(
            page.Span([page.name("attention"), page.quiet(f" {len(seen)} seen")], text=f"attention: {len(seen)} seen")
        ),
        page.Figure(None, [f"  {line}" for line in table.lines()[1:]]) if len(seen) else None,
        page.Only("html", [table if len(seen) <= 8 else page.Fold("all", [table])]) if len(seen) else None,
        page.Note(notes.text()),
        None if attention is None else page.Only("html", to_page(attention).blocks),
    ]
    return page.Page("attention_list", "", blocks, table, drawing=None if attention is None else View(attention))


def _captured_cells(seen: Seen) -> list[str]:
    axes = [describe_axis(Axis(dim, n), "batch" if dim.kind == "batch" else "spatial") for dim, n in seen.axes]
    return [seen.name, dims_text(axes), seen.place, size(seen.bytes)]
