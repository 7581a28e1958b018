"""Splitting tensors along a dim."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, constant, fitted, known_size, ragged, renamed, size_in, taken, trimmed
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The axis, the sizes of the pieces, and the signature of each piece."""

    place: int
    sizes: Sequence[Any]
    outs: Sequence[weakref.ref[align.Sig]]


class SplitOps:
    """Raw part: `unstack_raw(raw, axis)`, `split_raw(raw, sizes, axis)`."""

    unstack_raw: Callable[..., Any]
    split_raw: Callable[..., Any]

    @classmethod
    def unstack(cls: type[Backend], source: Tensor, *, axis: Dim) -> list[Tensor]:
        """The entries along `axis`. {…, axis} → a list of {…}"""
        axis = source.sig.resolve(axis)
        place = axis_of("unstack", source, axis)
        if ragged(source, axis):
            raise DimError(
                f"unstack: {axis.name} has padding, which would become an entry of its own",
                got=source.describe_dims(),
                expected="sequences of equal length",
                hint=f"with rf.Loop(axis={axis.name}) as loop: x = loop.unstack(…)",
            )
        out, lengths = align.without(source.sig, [axis]), source.lengths
        parts = [tensor_of(raw, out, lengths) for raw in cls.unstack_raw(source._raw, place)]
        if axis not in lengths.owners:
            return parts
        return [trimmed(cls, tensor_of(x._raw, out, lengths.of_one(axis, i))) for i, x in enumerate(parts)]

    @classmethod
    def split(cls: type[Backend], source: Tensor, *, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor, ...]:
        """Pieces of `source`, with the sizes of `out_dims`. {…, axis} → {…, out_dims[0]}, {…, out_dims[1]}, …"""
        if source.sig.priority_copies:
            axis = source.sig.resolve(axis)
        key = ("split", axis.serial, *[dim.serial for dim in out_dims])
        plan: SplitPlan | None = source.sig.plans.get(key)
        lengths = source.lengths
        sigs: list[Any] = [ref() for ref in plan.outs] if plan else []
        if not plan or None in sigs:
            place = axis_of("split", source, axis)
            sizes = [dim.dimension for dim in out_dims]
            if axis.dimension is None or None in sizes or sum(filter(None, sizes)) != axis.dimension:
                return _split_each(cls, source, axis, out_dims)
            sigs = [renamed(source, axis, dim) for dim in out_dims]
            plan = source.sig.keep(key, SplitPlan(place, sizes, [weakref.ref(signature) for signature in sigs]))
        if axis in lengths.owners:
            return _split_each(cls, source, axis, out_dims)
        raws = cls.split_raw(source._raw, plan.sizes, plan.place)
        return tuple([tensor_of(raw, signature, lengths) for raw, signature in zip(raws, sigs, strict=True)])


def _split_each(backend: type[Backend], source: Tensor, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor, ...]:
    """`split` where the places to cut may differ between sequences."""
    sizes, starts = _cuts(source, axis, out_dims)
    dims = [dim for dim in source.dims if any(dim in size.dims for size in sizes)]
    pieces, place = [], source.sig.index[axis]
    for dim, size, start in zip(out_dims, sizes, starts, strict=True):
        lengths = bound(source.lengths, dim, size, "split")
        if start.ndim:
            key = ("split", axis.serial, start.tobytes(), size.max)
            make = functools.partial(_from, start, size.max, size_in(source, axis).max - 1)
            raw = backend.gather_raw(source._raw, constant(backend, source, [*dims, axis], key, make), place, 1)
        else:
            first, last = int(start), int(start) + size.max
            raw = backend.slice_raw(source._raw, place, first, last, 1)
            lengths = taken(lengths, axis, dim, ("split", first), functools.partial(_take, first=first, last=last))
        pieces.append(fitted(backend, tensor_of(raw, renamed(source, axis, dim), lengths), dim))
    return tuple(pieces)


def _cuts(source: Tensor, axis: Dim, out_dims: Sequence[Dim]) -> tuple[list[Size], list[np.ndarray]]:
    """The sizes of the pieces, and where each begins: one number, or one for each sequence."""
    full = size_in(source, axis)
    pieces = [known_size(source.lengths, dim) for dim in out_dims]
    sizes = [size for size in pieces if size is not None and all(dim in source.sig.index for dim in size.dims)]
    dims = [dim for dim in source.dims if any(dim in size.dims for size in [full, *sizes])]
    total = full.over(dims)
    remainder = total - sum(size.over(dims) for size in sizes)
    if len(sizes) + 1 == len(out_dims) and (remainder >= 0).all():
        sizes.insert(pieces.index(None), Size(dims, remainder))
    elif len(sizes) < len(out_dims) or remainder.any():
        raise DimError(
            f"split: the sizes of the pieces do not sum to {axis.name}",
            got=align.show_dims(out_dims),
            expected=f"dims whose sizes sum to {axis.name}:{full}",
        )
    starts, start = [], np.zeros_like(total)
    for size in sizes:
        starts.append(start.flat[0] if start.size and (start == start.flat[0]).all() else start)
        start = start + size.over(dims)
    return sizes, starts


def _from(start: np.ndarray, count: int, last: int) -> np.ndarray:
    positions: np.ndarray = np.clip(start[..., None] + np.arange(count), 0, max(last, 0))
    return positions


def _take(values: np.ndarray, axis: int, first: int, last: int) -> np.ndarray:
    return values.take(range(first, last), axis)
