"""Pieces of a dim, and frames added to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core import dim_math
from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.raw import backend_of_raw
from rfnb.core.tensor import Tensor


@op(frames="any")
def slice(
    source: Tensor,
    *,
    axis: Dim,
    start: int | Tensor | None = None,
    end: int | Tensor | None = None,
    step: int | None = None,
    size: int | Tensor | Dim | None = None,
    out_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """From `start` to `end`, or `size` frames from `start`, and the new dim. {…, axis} → {…, out_dim}

    >>> time = rf.Dim(5, name="time")
    >>> rf.slice(rf.range_over_dim(time), axis=time, start=1, end=-1)[0].raw_tensor.tolist()
    [1, 2, 3]

    Numbers are as in Python; negative ones count from the end of each sequence. Tensors give each sequence its own
    bounds; the new dim then has lengths of their own, unless `size` is a number or a Dim.
    """
    if out_dim is None:
        out_dim = _out_dim(axis, start, end, step or 1, size)
    return backend_of_raw(source._raw).slice(
        source, axis=axis, start=start, end=end, step=step, size=size, out_dim=out_dim
    ), out_dim


def _out_dim(
    axis: Dim, start: int | Tensor | None, end: int | Tensor | None, step: int, size: int | Tensor | Dim | None
) -> Dim:
    """An expression of `axis` where there is one, so that the same slice has the same dim."""
    if isinstance(size, Dim):
        return size
    if isinstance(size, int):
        return Dim(size, name=f"{axis.name}_slice")
    first = 0 if start is None else start
    if isinstance(size, Tensor) or isinstance(first, Tensor) or isinstance(end, Tensor):
        return Dim(None, name=f"{axis.name}_slice")
    if axis.dimension is not None and len(range(axis.dimension)[first or None : end : step]) == axis.dimension:
        return axis
    if step < 0 or (first < 0 and end is not None and end >= 0):
        return Dim(None, name=f"{axis.name}_slice")
    length = axis if first < 0 else axis - first
    if first < 0:
        length = dim_math.extreme("min", [axis + (end or 0), (end or 0) - first])
    elif end is not None:
        length = length + end if end < 0 else dim_math.extreme("min", [length, max(end - first, 0)])
    return length if step == 1 else length.ceildiv_right(step)


@op(frames="any")
def pad(
    source: Tensor,
    *,
    axes: Sequence[Dim],
    padding: Sequence[tuple[Dim | int, Dim | int]] | tuple[Dim | int, Dim | int],
    out_dims: Sequence[Dim] | None = None,
    mode: str = "constant",
    value: float | Tensor | None = None,
    handle_dynamic_dims: bool | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """Frames before and behind those of `axes`, and the new dims. {…, axes…} → {…, out_dims…}

    Args:
        padding: for each of the axes (before, behind); or one pair for all.
        mode: "constant" (`value`, or 0), "replicate", "reflect", "circular".
        handle_dynamic_dims: if False, the frames behind come after the padding, not directly behind each sequence.
    """
    pairs: list[Any] = list(padding) if isinstance(padding[0], tuple | list) else [padding] * len(axes)
    if out_dims is None:
        out_dims = [before + axis + behind for axis, (before, behind) in zip(axes, pairs, strict=True)]
    result = backend_of_raw(source._raw).pad(
        source,
        axes=axes,
        padding=pairs,
        out_dims=out_dims,
        handle_dynamic_dims=handle_dynamic_dims is not False,
        mode=mode,
        value=value,
    )
    return result, out_dims


@op(frames="any")
def shift_right(source: Tensor, *, axis: Dim, pad_value: float | Tensor, amount: int = 1) -> Tensor:
    """Each frame `amount` places later; the first ones are `pad_value`. {…, axis} → the same"""
    return backend_of_raw(source._raw).shift(source, axis=axis, amount=amount, pad_value=pad_value)


@op(frames="any")
def shift_left(source: Tensor, *, axis: Dim, pad_value: float | Tensor, amount: int = 1) -> Tensor:
    """Each frame `amount` places earlier; the last ones of each sequence are `pad_value`. {…, axis} → the same"""
    return backend_of_raw(source._raw).shift(source, axis=axis, amount=-amount, pad_value=pad_value)
