"""Attention weights of one sequence as a picture, with labels on both sides and true lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.display import options, png, style
from rfnb.display.attempt import Notes
from rfnb.display.data import Data, index_of, read, sequence, to_numpy
from rfnb.display.html import Html, el
from rfnb.display.numbers import plain, real, short
from rfnb.display.schema import AttentionView
from rfnb.display.views.dims import describe_axes, dim_pill, dim_word
from rfnb.display.views.labels import shown, tokens
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor

Side = Any  # Dim | Tensor | Sequence[str] | None
SMALL = "font-family:monospace;font-size:11px"


def describe(weights: Tensor, *, rows: Side = None, cols: Side = None, batch: int | str | None = None) -> AttentionView:
    """The weights with which `rows` attend to `cols`. Raises ViewError if there are no such two sides."""
    data = read(weights)
    at, tag = _choose(data, batch, [side for side in (_dim_of(rows, data), _dim_of(cols, data)) if side is not None])
    notes = Notes(*data.notes)
    one = data if at is None else data.pick(*at)
    down, across = _sides(one, _dim_of(rows, one), _dim_of(cols, one))
    matrix = _matrix(one, down, across, notes)
    row_axis, col_axis = one.axes[down], one.axes[across]
    dims = describe_axes(one.axes, None)
    return {
        "kind": "attention",
        "name": one.name,
        "row_dim": dims[down],
        "col_dim": dims[across],
        "rows": _labels(rows, row_axis.size, batch if at is None else at[1], notes)[: len(matrix)],
        "cols": _labels(cols, col_axis.size, batch if at is None else at[1], notes)[: matrix.shape[1]],
        "weights": [[plain(round(float(w), 5)) for w in row] for row in matrix],  # type: ignore[misc]
        "tag": tag,
        "picture": png.picture(_unit(matrix), scale="sequential"),
        "note": notes.text(),
    }


def to_text(view: AttentionView) -> str:
    """A line a row: its label, and the three columns that it attends to most."""
    lines = [" ".join(head(view))]
    width = max((len(shown(label)) for label in view["rows"]), default=0)
    lines += [f"  {label:<{width}}  {best}" for label, best in strongest(view)]
    return "\n".join(lines + ([f"  ({view['note']})"] if view["note"] else []))


def to_repr(view: AttentionView) -> str:
    """The same."""
    return to_text(view)


def to_html(view: AttentionView) -> Html:
    """The picture between its labels, and the strongest columns of each row folded away."""
    name, *rest = head(view)
    return el(
        "div",
        el(
            "div",
            el("span", name, style=style.NAME),
            el("span", " ", " ".join(rest), style=style.QUIET),
            style=style.HEAD,
        ),
        el(
            "div",
            dim_pill(view["row_dim"]),
            el("span", "down  ", style=style.QUIET),
            dim_pill(view["col_dim"]),
            el("span", "across", style=style.QUIET),
            style=style.HEAD,
        ),
        _picture(view),
        el("div", f"({view['note']})", style=style.QUIET) if view["note"] else None,
        el("details", el("summary", "strongest", style=style.FOLD), _strongest(view)),
        style=style.BOX,
    )


def head(view: AttentionView) -> list[str]:
    """`weights of 'banana': {dec:6} attends to {enc:6}`"""
    tag = f"of {view['tag']!r}" if view["tag"] is not None else "of one sequence"
    return [
        view["name"],
        f"{tag}:",
        f"{{{dim_word(view['row_dim'])}}}",
        "attends to",
        f"{{{dim_word(view['col_dim'])}}}",
    ]


def strongest(view: AttentionView) -> list[tuple[str, str]]:
    """For each row its label, and `b 0.91  a 0.05`."""
    return [(shown(label), _best(view["cols"], row)) for label, row in zip(view["rows"], view["weights"], strict=True)]


def _best(labels: list[str], row: list[Any]) -> str:
    order = sorted(range(len(row)), key=lambda i: -np.nan_to_num(real(row[i]), nan=np.inf))[:3]
    return "  ".join(f"{shown(labels[i])} {short(row[i])}" for i in order)


def _choose(data: Data, batch: int | str | None, sides: list[Dim]) -> tuple[tuple[int, int] | None, str | None]:
    at = data.sequence_axis()
    if at is None or data.axes[at].dim in sides:
        if batch is not None:
            sequence(data, batch)  # says what is wrong
        return None, None
    axis = data.axes[at]
    index = index_of(0 if batch is None else batch, axis.size, axis.tags)
    return (at, index), (axis.tags[index] if axis.tags is not None else f"{axis.dim.name} {index}")


def _dim_of(side: Side, data: Data) -> Dim | None:
    """Which dim a side means; labels of a tensor mean the one dim that both have."""
    if isinstance(side, Dim):
        if data.position(side) is None:
            raise ViewError(f"show_attention: {data.name} has no dim {side.name}", got=[a.dim.name for a in data.axes])
        return side
    if hasattr(side, "raw_tensor"):
        count = data.sequence_axis()
        both = [d for d in side.dims if data.position(d) is not None and data.position(d) != count]
        return both[0] if both else None
    return None


def _sides(data: Data, rows: Dim | None, cols: Dim | None) -> tuple[int, int]:
    """The axes that go down and across: those that are named, else those that are no features, in their order."""
    known = [data.position(dim) if dim is not None else None for dim in (rows, cols)]
    free = [i for i in range(len(data.axes)) if i not in known]
    free.sort(key=lambda i: (data.axes[i].dim.is_static(), i))
    wanted = known.count(None)
    if len(free) < wanted:
        raise ViewError(
            "show_attention: needs two axes besides the one that counts sequences", got=[a.dim.name for a in data.axes]
        )
    chosen = iter(sorted(free[:wanted]))
    down, across = (i if i is not None else next(chosen) for i in known)
    return down, across


def _matrix(data: Data, down: int, across: int, notes: Notes) -> np.ndarray:
    values = to_numpy(data.raw).astype(np.float64)
    rest = tuple(i for i in range(values.ndim) if i not in (down, across))
    if rest:
        notes.add(f"mean over {', '.join(data.axes[i].dim.name for i in rest)}")
        values = values.mean(axis=rest, keepdims=True)
    matrix = values.reshape([n for i, n in enumerate(values.shape) if i in (down, across)])
    matrix = matrix if down < across else matrix.T
    most = options.ATTENTION_CELLS
    if max(matrix.shape) > most:
        notes.add(f"the first {most} of {matrix.shape[0]}×{matrix.shape[1]}")
    return matrix[:most, :most]


def _labels(side: Side, size: int, at: int | str | None, notes: Notes) -> list[str]:
    if side is None or isinstance(side, Dim):
        labels = _vocab_labels(side, size)
    elif hasattr(side, "raw_tensor"):
        data = read(side)
        one = data if at is None or data.sequence_axis() is None else sequence(data, at)
        labels = tokens(one, options.ATTENTION_CELLS)
    else:
        labels = [str(label) for label in side]
    if len(labels) != size:
        notes.add(f"{len(labels)} labels for {size} entries")
    return (labels + [str(i) for i in range(len(labels), size)])[:size]


def _vocab_labels(side: Dim | None, size: int) -> list[str]:
    if side is not None and side.vocab is not None and len(side.vocab) >= size:
        return [str(side.vocab.decode(i)) for i in range(size)]
    return [str(i) for i in range(size)]


def _unit(matrix: np.ndarray) -> np.ndarray:
    finite = matrix[np.isfinite(matrix)]
    return matrix / max(1e-9, float(np.abs(finite).max(initial=0)))


def _picture(view: AttentionView) -> Html:
    """Labels of the rows on the left, one picture, labels of the columns below."""
    rows, cols = len(view["rows"]), len(view["cols"])
    if not rows or not cols:
        return el("div", "(empty)", style=style.QUIET)
    width, height = _cell(view["cols"], 640), _cell([""] * rows, 640)
    weights = np.array([[real(w) for w in row] for row in view["weights"]])
    drawn = png.picture(_unit(weights), scale="sequential", cell=(height, width))
    size = {"width": width * cols, "height": height * rows}
    image = el("img", src=drawn, alt="weights, dark is high", **size, style="display:block;max-width:none;margin:0")
    edge = f"padding:0;border:1px solid {style.tint(style.GREY, 0.5)};vertical-align:top"
    bare = "border:none;background:none;vertical-align:top"
    return el(
        "table",
        el(
            "tr",
            el("td", _left(view["rows"], height), style=f"padding:1px 6px 0 0;{bare}"),
            el("td", image, style=edge),
            style=style.PLAIN_ROW,
        ),
        el(
            "tr",
            el("td", style=f"padding:0;{bare}"),
            el("td", _below(view["cols"], width), style=f"padding:2px 0 0 1px;{bare}"),
            style=style.PLAIN_ROW,
        ),
        style="border-collapse:collapse;margin:4px 0",
    )


def _left(labels: list[str], height: int) -> Html:
    """One text whose lines are as high as the rows; every n-th label where rows are low."""
    every = next(n for n in (1, 2, 5, 10, 20) if n * height >= 12)
    look = f"{SMALL};line-height:{height * every}px;text-align:right;padding:0;background:none"
    up = height * (every - 1) // 2  # a label stands beside its own row, not in the middle of those it stands for
    look += f";margin:{-up}px 0 0 0" if up else ";margin:0"
    return el("pre", "\n".join(shown(label) for label in labels[::every]), style=look)


def _below(labels: list[str], width: int) -> Html:
    """A box for each column; where columns are narrow, numbers are thinned and words are cut."""
    words = [shown(label) for label in labels]
    need = 7 * max(len(word) for word in words) + 4 if all(label.isdigit() for label in labels) else 12
    every = next(n for n in (1, 2, 5, 10, 20, 50, 100, 1000) if n * width >= need)
    wide = [width * min(every, len(words) - i) for i in range(0, len(words), every)]
    box = "display:inline-block;overflow:hidden;vertical-align:top"
    align = "text-align:center" if every == 1 else "text-align:left"
    look = f"{SMALL};line-height:1.2;white-space:nowrap;{align}"
    most = max(1, width * every * 10 // 66)
    return el(
        "div",
        [el("span", word[:most], style=f"{box};width:{n}px") for word, n in zip(words[::every], wide, strict=True)],
        style=look,
    )


def _cell(labels: list[str], most: int) -> int:
    longest = max((len(shown(label)) for label in labels), default=1)
    return max(1, min(most // len(labels), max(18, min(longest, 6) * 7 + 6)))


def _strongest(view: AttentionView) -> Html:
    pairs = strongest(view)
    wide = max((len(label) for label, _ in pairs), default=0)
    look = f"{style.NUMBERS};margin:0;padding:0;background:none"
    return el("pre", "\n".join(f"{label:<{wide}}  {best}" for label, best in pairs), style=look)
