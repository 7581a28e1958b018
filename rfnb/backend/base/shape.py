"""The same entries under other dims."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, ragged, size_in
from rfnb.core import align
from rfnb.core.dim import Dim, current_lengths
from rfnb.core.lengths import Lengths, Size
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class ShapeOps:
    """Raw part: `expand_raw`, `squeeze_axis_raw`, `merge_axes_raw`, `split_axis_raw`, `pad_raw`."""

    expand_raw: Callable[[Any, int], Any]
    squeeze_axis_raw: Callable[..., Any]
    merge_axes_raw: Callable[[Any, int, int], Any]
    split_axis_raw: Callable[[Any, int, Sequence[int]], Any]
    get_shape_tuple_raw: Callable[[Any], tuple[int, ...]]

    @classmethod
    def expand_dim(cls, source: Tensor, dim: Dim) -> Tensor:
        """The same entries for each position of `dim`; no copy. {…} → {dim, …}"""
        current = current_lengths([dim])
        size = source.lengths.size(dim) or current.size(dim)
        if size is None:
            raise DimError(
                f"expand_dim: {dim.name} has no size yet", got=dim.describe(), expected="a Dim whose size is known"
            )
        signature = align.sig([dim, *source.dims], source.sparse_dim, source.feature_dim)
        lengths = source.lengths if dim.dimension is not None else source.lengths.join(current, source.sig, signature)
        return tensor_of(cls.expand_raw(source._raw, size.max), signature, lengths)

    @classmethod
    def squeeze(cls, source: Tensor, axis: Dim) -> Tensor:
        """Without an axis of size 1. {…, axis} → {…}"""
        place = axis_of("squeeze", source, axis)
        if cls.get_shape_tuple_raw(source._raw)[place] != 1:
            raise DimError(
                f"squeeze: {axis.name} is not of size 1", got=source.describe_dims(), expected=f"{axis.name}:1"
            )
        return source.like(cls.squeeze_axis_raw(source._raw, place), align.without(source.sig, [axis]))

    @classmethod
    def replace_dim(cls, source: Tensor, *, in_dim: Dim, out_dim: Dim) -> Tensor:
        """`out_dim` in place of `in_dim`, of the same size. {…, in_dim} → {…, out_dim}; a sparse dim likewise"""
        place = source.sig.index.get(in_dim)
        feature = out_dim if source.feature_dim is in_dim else source.feature_dim
        if place is None:
            if source.sparse_dim is not in_dim:
                axis_of("replace_dim", source, in_dim)
            return source.like(source._raw, align.sig(source.dims, out_dim, feature))
        lengths = bound(source.lengths, out_dim, source.size_of(in_dim), "replace_dim")
        dims = [out_dim if dim is in_dim else dim for dim in source.dims]
        sparse = out_dim if source.sparse_dim is in_dim else source.sparse_dim
        return tensor_of(source._raw, align.sig(dims, sparse, feature), lengths)

    @classmethod
    def merge_dims(cls, source: Tensor, *, dims: Sequence[Dim], out_dim: Dim) -> Tensor:
        """Several dims as one, the first of them slowest. {…, dims…} → {…, out_dim}"""
        places = [axis_of("merge_dims", source, dim) for dim in dims]
        _check_merge(source, dims)
        lengths = source.lengths
        known = lengths.size(out_dim) if out_dim.expr is not None else None
        shape = cls.get_shape_tuple_raw(source._raw)
        if known is None or any(d in dims for d in known.dims):
            first = size_in(source, dims[0])
            lengths = bound(
                lengths, out_dim, Size(first.dims, first.values * math.prod(shape[i] for i in places[1:])), "merge_dims"
            )
        rest = [dim for dim in source.dims if dim not in dims]
        at = min(places) - sum(i < min(places) for i in places)
        order = [*rest[:at], *dims, *rest[at:]]
        raw = cls.merge_axes_raw(align.apply(align.move(source.dims, order), source._raw), at, len(dims))
        lengths = _merged(source, lengths, rest, dims, out_dim, [shape[i] for i in places])
        feature = out_dim if source.feature_dim in dims else source.feature_dim
        return tensor_of(raw, align.sig([*rest[:at], out_dim, *rest[at:]], source.sparse_dim, feature), lengths)

    @classmethod
    def split_dims(  # type: ignore[misc]
        cls: type[Backend],
        source: Tensor,
        *,
        axis: Dim,
        dims: Sequence[Dim],
        pad_to_multiples: bool | None = None,
        pad_value: float | None = None,
    ) -> Tensor:
        """One dim as several, the first of them slowest. {…, axis} → {…, dims…}

        One of `dims` may be new; it gets the size that is left.
        """
        place = axis_of("split_dims", source, axis)
        size = size_in(source, axis)
        free = [d for d in dims if source.lengths.size(d) is None and not d.is_defined()]
        if len(free) > 1:
            raise DimError(
                "split_dims: more than one size is not known", got=align.show_dims(dims), expected="one new Dim at most"
            )
        open_dim = free[0] if free else dims[0]
        shape = {d: (source.lengths.size(d) or d.size).max for d in dims if d is not open_dim}
        step = math.prod(shape.values())
        padded = axis.dimension is None if pad_to_multiples is None else pad_to_multiples
        if size.max % step and not padded:
            raise DimError(
                f"split_dims: {axis.name} is no multiple of {step}",
                got=source.describe_dims(),
                hint="pad_to_multiples=True",
            )
        if size.dims and open_dim is not dims[0]:
            raise DimError(f"split_dims: {axis.name} has padding, so the first dim takes it", got=align.show_dims(dims))
        uneven = padded and bool((size.values % step).any())
        raw = cls.fill_padding(source, pad_value or 0, (axis,)) if uneven else source._raw
        count = -(-size.max // step)
        if count * step > size.max:
            raw = cls.pad_raw(raw, {place: (0, count * step - size.max)}, pad_value or 0)
        lengths = bound(source.lengths, open_dim, Size(size.dims, -(-size.values // step)), "split_dims")
        shape[open_dim] = count
        raw = cls.split_axis_raw(raw, place, [shape[d] for d in dims])
        feature = dims[-1] if source.feature_dim is axis else source.feature_dim
        out = [*source.dims[:place], *dims, *source.dims[place + 1 :]]
        lengths = _split(source, lengths, axis, dims, [shape[d] for d in dims])
        return tensor_of(raw, align.sig(out, source.sparse_dim, feature), lengths)


def product(dims: Sequence[Dim]) -> Dim:
    """The dim that counts the entries of all of them."""
    return functools.reduce(operator.mul, dims)


def _check_merge(source: Tensor, dims: Sequence[Dim]) -> None:
    """Frames stay together only if the padding is at the end: in the first of the merged dims."""
    for i, dim in enumerate(dims):
        if ragged(source, dim) and (i or any(d in dims for d in size_in(source, dim).dims)):
            raise DimError(
                f"merge_dims: {dim.name} has padding, which would end up between the frames",
                got=source.describe_dims(),
                expected="padding in the first of the merged dims at most, by lengths over other dims",
                hint="use rf.masked_select to take the frames without the padding",
            )


def _merged(
    source: Tensor, lengths: Lengths, rest: Sequence[Dim], dims: Sequence[Dim], out_dim: Dim, shape: Sequence[int]
) -> Lengths:
    """Lengths over merged dims become lengths over the merged dim."""
    changed: dict[Dim, Size] = {}
    for dim in (d for d in rest if ragged(source, d)):
        size = size_in(source, dim)
        if any(d in dims for d in size.dims):
            kept = [d for d in size.dims if d not in dims]
            present = align.apply(align.move(size.dims, [*kept, *dims], trailing=False), size.values)
            values = np.broadcast_to(present, (*present.shape[: len(kept)], *shape))
            changed[dim] = Size([*kept, out_dim], values.reshape(*present.shape[: len(kept)], -1))
    return lengths.bind(changed) if changed else lengths


def _split(source: Tensor, lengths: Lengths, axis: Dim, dims: Sequence[Dim], shape: Sequence[int]) -> Lengths:
    """Lengths over a dim that was split become lengths over those of its parts on which they depend."""
    changed: dict[Dim, Size] = {}
    for dim in (d for d in source.dims if d is not axis and ragged(source, d)):
        size = size_in(source, dim)
        if axis in size.dims:
            at = size.dims.index(axis)
            values = size.values.reshape(*size.values.shape[:at], *shape, *size.values.shape[at + 1 :])
            over = [*size.dims[:at], *dims, *size.dims[at + 1 :]]
            for i in reversed(range(at, at + len(dims))):
                if (values == values.take([0], axis=i)).all():
                    values = np.asarray(values.take(0, axis=i))
                    del over[i]
            changed[dim] = Size(over, values)
    return lengths.bind(changed) if changed else lengths
