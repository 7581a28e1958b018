"""A tensor as a small picture: sequences down, frames across, padding hatched."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.display.kit import options
from rfnb.display.kit.data import Data, thinned, to_numpy
from rfnb.display.markup import png
from rfnb.display.markup.png import block_for, extremes, pooled
from rfnb.display.tensor.frames import reduced
from rfnb.display.tensor.stats import Measured


def describe_picture(
    data: Data,
    cells: tuple[int, int] = options.PICTURE_CELLS,
    pixels: tuple[int, int] = (192, 480),
    *,
    found: Measured | None = None,
) -> tuple[str, str] | None:
    """A PNG of limited size, and a caption; None where a picture would show nothing.

    found: the statistics of the tensor, so that the largest values need not be searched again, and −Inf entries of a
    mask are hatched like padding rather than marked as errors.
    """
    if not data.axes or data.entries < 2 or len(data.axes) > 8:
        return None
    rows, cols = chosen(data)
    outer = tuple(i for i in range(len(data.axes)) if i not in (rows, cols))
    masked = found is not None and bool(found.masked)
    values, where = _matrix(data, rows, cols, outer, found)
    valid = _valid(data, rows, cols, where)
    if masked:
        valid = (values != -np.inf) & (True if valid is None else valid)
    wide = -(-values.shape[1] // -(-values.shape[1] // cells[1]))
    cells = (max(1, min(cells[0], options.PICTURE_PIXELS // wide)), cells[1])
    block = block_for(values.shape, cells)
    signed = extremes(values, valid, block)
    mask = None if valid is None else pooled(valid, block)
    return _draw(signed, mask, bool(outer), pixels), _words(data, rows, cols, outer, values.shape, signed.shape)


def chosen(data: Data) -> tuple[int | None, int]:
    """The axes that go down and across in the picture."""
    sizes = data.shape
    if len(sizes) == 1:
        return None, 0
    down = data.sequence_axis()
    if down is None:
        down = 0 if len(sizes) == 2 else max(range(len(sizes)), key=lambda i: (_moves(data, i), sizes[i]))
    candidates = [i for i in range(len(sizes)) if i != down]
    return down, max(candidates, key=lambda i: (_moves(data, i), sizes[i]))


def _moves(data: Data, i: int) -> bool:
    return data.axes[i].lengths is not None or data.axes[i].dim.is_dynamic()


def _matrix(
    data: Data, rows: int | None, cols: int, rest: tuple[int, ...], found: Measured | None
) -> tuple[np.ndarray, tuple[slice, ...]]:
    where = thinned(data.shape, options.EXACT_ENTRIES)
    raw = data.raw[where]
    if found is not None and found.masked:
        raw = _largest(_without(raw), rest) if rest else raw
    elif rest and data.dtype == "bool":
        raw = _share(raw, rest)
    elif rest:
        reusable = found is not None and found.where is None and found.frames.inner == rest
        raw = found.frames.peak if reusable and found is not None else _largest(raw, rest)
    values = to_numpy(raw).astype(np.float32)
    if rows is None:
        return values.reshape(1, -1), where
    values = values.reshape([n for i, n in enumerate(values.shape) if i in (rows, cols)])
    return (values if rows < cols else values.T), where


def _without(raw: Any) -> Any:
    """The numbers with −Inf replaced by zero."""
    hit = raw == -np.inf
    return raw.masked_fill(hit, 0) if hasattr(raw, "detach") else np.where(hit, 0, raw)


def _largest(raw: Any, axes: tuple[int, ...]) -> np.ndarray:
    with np.errstate(all="ignore"):
        low, high = (to_numpy(reduced(raw, how, axes)).astype(np.float32) for how in ("amin", "amax"))
    return np.maximum(high, -low)


def _share(raw: Any, axes: tuple[int, ...]) -> np.ndarray:
    """The share of entries that are true."""
    return to_numpy(reduced(raw.float() if hasattr(raw, "detach") else raw, "mean", axes))


def _valid(data: Data, rows: int | None, cols: int, where: tuple[slice, ...]) -> np.ndarray | None:
    mask = data.mask()
    if mask is None:
        return None
    keep = [i for i in (rows, cols) if i is not None]
    merged: np.ndarray = np.any(mask, axis=tuple(i for i in range(mask.ndim) if i not in keep), keepdims=True)
    wide = np.broadcast_to(merged, [n if i in keep else 1 for i, n in enumerate(data.shape)])
    mask = wide[tuple(where[i] if i in keep else slice(None) for i in range(mask.ndim))]
    if rows is None:
        return mask.reshape(1, -1)
    flat = mask.reshape([n for i, n in enumerate(mask.shape) if i in keep])
    return flat if rows < cols else flat.T


def _draw(values: np.ndarray, valid: np.ndarray | None, absolute: bool, pixels: tuple[int, int]) -> str:
    finite = values[np.isfinite(values)]
    top = float(np.abs(finite).max(initial=0)) or 1.0
    scale: png.Scale = "sequential" if absolute or not (finite < 0).any() else "diverging"
    cell = max(1, min(pixels[0] // values.shape[0], pixels[1] // values.shape[1], 12))
    return png.picture(values / top, valid=valid, scale=scale, cell=cell)


def _words(
    data: Data, rows: int | None, cols: int, rest: tuple[int, ...], shape: tuple[int, ...], drawn: tuple[int, ...]
) -> str:
    names = [axis.dim.name for axis in data.axes]
    words = f"{names[rows]} down, {names[cols]} across" if rows is not None else f"{names[cols]} across"
    if rest:
        quantity = "share of true" if data.dtype == "bool" else "largest absolute value"
        words += f", {quantity} over {', '.join(names[i] for i in rest)}"
    if drawn != shape:
        words += f", each pixel the largest of {-(-shape[0] // drawn[0])}×{-(-shape[1] // drawn[1])}"
    return words
