"""Changing the dims of a tensor."""

from __future__ import annotations

import functools
import math
import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.require import axis_of, require_owner_dims
from rfnb.backend.base.sizes import bound, derived, fitted, known_size, moved, ragged, size_in
from rfnb.core.advice.similar_dims import mark_replaced
from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.dims.lengths import Lengths, Size, longest_of, within
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


@dataclass(frozen=True, slots=True)
class MergePlan:
    """How to move the axes to merge to their place, `at` which they are merged, and the signature of the result."""

    how: align.Move
    at: int
    out: weakref.ref[align.Sig]


@dataclass(frozen=True, slots=True)
class SplitDimsPlan:
    """The axis to split, the sizes of its parts, and the signature of the result."""

    place: int
    sizes: tuple[int, ...]
    out: weakref.ref[align.Sig]


class ShapeOps:
    """Raw part: `reshape_raw`, `squeeze_raw`, `transpose_raw`, `expand_dims_raw`, `expand_raw`, `broadcast_raw`,
    `merge_axes_raw`, `split_axis_raw`, and `move_raw`, which does what `align.move` says.
    """

    reshape_raw: Callable[[RawTensor, Sequence[int]], RawTensor]
    squeeze_raw: Callable[[RawTensor, Sequence[int]], RawTensor]
    transpose_raw: Callable[[RawTensor, Sequence[int]], RawTensor]
    expand_dims_raw: Callable[[RawTensor, int], RawTensor]
    expand_raw: Callable[[RawTensor, int, int], RawTensor]
    broadcast_raw: Callable[[RawTensor, Sequence[int]], RawTensor]
    merge_axes_raw: Callable[[RawTensor, int, int], RawTensor]
    split_axis_raw: Callable[[RawTensor, int, Sequence[int]], RawTensor]
    move_raw: Callable[[RawTensor, align.Move], RawTensor]

    @staticmethod
    def make_output_tensor(tensor: Tensor, dims: Sequence[Dim], *, name: str) -> Tensor:
        """The same tensor with its axes in the order `dims`, called `name`."""
        return tensor.copy_transpose(dims).with_name(name)

    @classmethod
    def expand_dim(cls: type[Backend], source: Tensor, dim: Dim) -> Tensor:
        """The tensor repeated along a new axis `dim`. {…} → {dim, …}

        >>> rf.expand_dim(rf.convert_to_tensor(7), rf.Dim(2, name="pair")).raw_tensor.tolist()
        [7, 7]
        """
        ref = source.sig.plans.get(("expand_dim", dim.serial))
        out = ref and ref()
        if not out:
            out = align.sig([dim, *source.dims], source.sparse_dim, source.feature_dim)
            source.sig.keep(("expand_dim", dim.serial), weakref.ref(out))
        count, lengths = dim.dimension, source.lengths
        if count is None:
            current = current_lengths([dim])
            size = lengths.size(dim) or current.size(dim)
            if size is None:
                raise DimError(
                    f"expand_dim: {dim.name} has no size yet", got=dim.describe(), expected="a Dim of known size"
                )
            count, lengths = size.max, lengths.join(current, source.sig, out)
        return tensor_of(cls.broadcast_raw(source._raw, (count, *cls.get_shape_tuple_raw(source._raw))), out, lengths)

    @classmethod
    def squeeze(cls: type[Backend], source: Tensor, axis: Dim) -> Tensor:
        """The tensor without `axis`, which has size 1. {…, axis} → {…}

        >>> one = rf.Dim(1, name="one")
        >>> rf.squeeze(rf.ones([one]), one).dims
        ()
        """
        axis = source.sig.resolve(axis)
        place = axis_of("squeeze", source, axis)
        if cls.get_shape_tuple_raw(source._raw)[place] != 1 or ragged(source, axis):
            raise DimError(
                f"squeeze: {axis.name} is not of size 1", got=source.describe_dims(), expected=f"{axis.name}:1"
            )
        lengths = source.lengths.of_one(axis, 0) if axis in source.lengths.owners else source.lengths
        return tensor_of(cls.squeeze_raw(source._raw, (place,)), align.without(source.sig, [axis]), lengths)

    @classmethod
    def replace_dim(
        cls: type[Backend],
        source: Tensor,
        *,
        in_dim: Dim,
        out_dim: Dim,
        allow_expand: bool = False,
        allow_shrink: bool = False,
    ) -> Tensor:
        """`source` with `out_dim` in place of `in_dim`, also as the sparse dim. {…, in_dim} → {…, out_dim}

        If `allow_expand`, a longer `out_dim` adds zeros to each sequence; if `allow_shrink`, a shorter one cuts off
        frames. With neither, only the longest sequences must agree. For dims of one fixed size, the plan is cached.
        """
        plan_key = ("replace_dim", in_dim.serial, out_dim.serial)
        ref = source.sig.plans.get(plan_key)
        if (out := ref and ref()) and in_dim not in source.lengths.owners:
            return tensor_of(source._raw, out, source.lengths)
        in_dim = source.sig.resolve(in_dim)
        if in_dim is out_dim and in_dim in source.sig.index:
            return source
        sparse = out_dim if source.sparse_dim is in_dim else source.sparse_dim
        if source.sparse_dim is in_dim and in_dim not in source.sig.index:
            return source.like(source._raw, align.sig(source.dims, sparse, source.feature_dim))
        axis_of("replace_dim", source, in_dim)
        size = _wanted(source, in_dim, out_dim)
        source = _resized(cls, source, [in_dim, out_dim], size, allow_expand, allow_shrink)
        lengths = bound(_over_replaced(source.lengths, in_dim, out_dim, size.max), out_dim, size, "replace_dim")
        dims = [out_dim if dim is in_dim else dim for dim in source.dims]
        out = align.sig(dims, sparse, out_dim if source.feature_dim is in_dim else source.feature_dim)
        mark_replaced(in_dim, out_dim)
        if in_dim.dimension is not None and in_dim.dimension == out_dim.dimension:
            source.sig.keep(plan_key, weakref.ref(out))
        return fitted(cls, tensor_of(source._raw, out, lengths), out_dim)

    @classmethod
    def merge_dims(
        cls: type[Backend], source: Tensor, *, dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """`source` with several dims merged into one, the first of them slowest, and that dim.

        {…, dims…} → {…, out_dim}

        >>> height, width = rf.Dim(2, name="height"), rf.Dim(3, name="width")
        >>> rf.merge_dims(rf.zeros([height, width]), dims=[height, width])[1] is height * width
        True

        Only the first of `dims` may have padding, which is then at the end of the result. Padding in the other dims
        would end up between the frames.

        Raises DimError in that case; `rf.pack_padded` and `rf.masked_select` join the valid frames.
        """
        lengths = source.lengths
        plan_key = ("merge_dims", out_dim and out_dim.serial, *map(align.serial_of, dims))
        plan: Any = source.sig.plans.get(plan_key)
        signature = plan and plan.out()
        if signature and lengths.owners.isdisjoint(dims):
            raw = source._raw if plan.how is None else cls.move_raw(source._raw, plan.how)
            return tensor_of(cls.merge_axes_raw(raw, plan.at, len(dims)), signature, lengths), signature.dims[plan.at]
        dims = source.sig.resolve_all(dims)
        if len(dims) == 1 and out_dim is None:
            axis_of("merge_dims", source, dims[0])
            return source, dims[0]
        places = _check_merge(source, dims)
        if out_dim is None:
            key = ("product", *[dim.serial for dim in dims])
            out_dim = derived(source.sig, key, lambda: functools.reduce(operator.mul, dims))
        if out_dim.kind is None and any(dim.is_batch_dim() for dim in dims):
            out_dim.kind = "batch"
        out_size = lengths.size(out_dim) if out_dim.expr is not None else None
        shape = cls.get_shape_tuple_raw(source._raw)
        if out_size is None or any(d in dims for d in out_size.dims):
            first, inner_size = size_in(source, dims[0]), math.prod(shape[i] for i in places[1:])
            lengths = bound(lengths, out_dim, Size(first.dims, first.values * inner_size), "merge_dims")
        outer = [dim for dim in source.dims if dim not in dims]
        at = min(places) - sum(i < min(places) for i in places)
        how = align.move(source.dims, [*outer[:at], *dims, *outer[at:]])
        raw = cls.merge_axes_raw(align.apply(how, source._raw), at, len(dims))
        sizes = tuple(shape[i] for i in places)
        lengths = moved(lengths, dims, ("merge", out_dim.serial), lambda size: _merged(size, dims, out_dim, sizes))
        feature = out_dim if source.feature_dim in dims else source.feature_dim
        signature = align.sig([*outer[:at], out_dim, *outer[at:]], source.sparse_dim, feature)
        if _all_static(out_dim, *dims):
            source.sig.keep(plan_key, MergePlan(how, at, weakref.ref(signature)))
        return fitted(cls, tensor_of(raw, signature, lengths), out_dim), out_dim

    @classmethod
    def split_dims(
        cls: type[Backend],
        source: Tensor,
        *,
        axis: Dim,
        dims: Sequence[Dim],
        pad_to_multiples: bool | None = None,
        pad_value: float | None = None,
    ) -> Tensor:
        """`source` with one dim split into several, the first of them slowest. {…, axis} → {…, dims…}

        >>> time, chunk = rf.Dim(5, name="time"), rf.Dim(2, name="chunk")
        >>> chunks = rf.Dim(None, name="chunks")
        >>> x = rf.range_over_dim(time)
        >>> rf.split_dims(x, axis=time, dims=[chunks, chunk], pad_to_multiples=True, pad_value=9).raw_tensor.tolist()
        [[0, 1], [2, 3], [4, 9]]

        One of `dims` may be a new Dim(None), which gets the remaining size. A sequence whose length is not a multiple
        is padded with `pad_value` (by default 0), unless `pad_to_multiples` is False; by default only if `axis` is
        dynamic.
        """
        plan_key = ("split_dims", axis.serial, *map(align.serial_of, dims))
        plan: Any = source.sig.plans.get(plan_key)
        signature = plan and plan.out()
        if signature and axis not in source.lengths.owners:
            return tensor_of(cls.split_axis_raw(source._raw, plan.place, plan.sizes), signature, source.lengths)
        axis = source.sig.resolve(axis)
        place = axis_of("split_dims", source, axis)
        require_owner_dims("split_dims", source, (axis,))
        size = size_in(source, axis)
        open_dim, shape = _shape("split_dims", source, dims)
        if size.dims and open_dim is not dims[0]:
            raise DimError(
                f"split_dims: {axis.name} has padding, which only the first of `dims` can take",
                got=align.show_dims(dims),
            )
        step = math.prod(shape.values())
        counts = _counts(source, axis, size, step, open_dim, pad_to_multiples)
        uneven = bool((size.values < counts * step).any())
        raw = cls.fill_padding(source, pad_value or 0, (axis,)) if uneven else source._raw
        shape[open_dim] = longest_of(counts)
        total = shape[open_dim] * step
        if total > size.max:
            raw = cls.pad_raw(raw, {place: (0, total - size.max)}, pad_value or 0)
        try:
            lengths = bound(source.lengths, open_dim, Size(size.dims, counts), "split_dims")
        except DimError as error:
            error.what = f"split_dims: {axis.name}:{size} does not fit into {align.show_dims(dims)}"
            error.got, error.expected = f"{open_dim.name}:{error.got}", f"{open_dim.name}:{error.expected}"
            raise
        sizes = tuple(shape[d] for d in dims)
        raw = cls.split_axis_raw(raw, place, sizes)
        key = ("split", *[d.serial for d in dims])
        lengths = moved(lengths, [axis], key, lambda size: _split(size, axis, dims, sizes))
        feature = dims[-1] if source.feature_dim is axis else source.feature_dim
        signature = align.sig([*source.dims[:place], *dims, *source.dims[place + 1 :]], source.sparse_dim, feature)
        if total == axis.dimension and _all_static(*dims):
            source.sig.keep(plan_key, SplitDimsPlan(place, sizes, weakref.ref(signature)))
        return fitted(cls, tensor_of(raw, signature, lengths), open_dim)

    @classmethod
    def reshape(cls: type[Backend], source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim]) -> Tensor:
        """The entries of `in_dims`, the first of them slowest, with `out_dims` instead. {…, in_dims…} → {…, out_dims…}

        >>> six, two, three = rf.Dim(6, name="six"), rf.Dim(2, name="two"), rf.Dim(3, name="three")
        >>> rf.reshape(rf.range_over_dim(six), [six], [two, three]).raw_tensor.tolist()
        [[0, 1, 2], [3, 4, 5]]

        One of `out_dims` may be a new Dim(None). As with `rf.merge_dims`, only the first dim may have padding.
        """
        in_dims = source.sig.resolve_all(in_dims)
        _check_merge(source, in_dims, "reshape")
        _, shape = _shape("reshape", source, out_dims)
        count = math.prod(size_in(source, dim).max for dim in in_dims)
        step = math.prod(shape.values())
        if count % step if step else count:
            raise DimError(
                "reshape: the number of entries differs",
                got=align.show_dims(in_dims),
                expected=f"the number of entries of {align.show_dims(out_dims)}",
            )
        merged, axis = cls.merge_dims(source, dims=in_dims)
        try:
            return cls.split_dims(merged, axis=axis, dims=out_dims, pad_to_multiples=False)
        except DimError as error:
            error.what = error.what.replace("split_dims", "reshape")
            raise


def _wanted(source: Tensor, in_dim: Dim, out_dim: Dim) -> Size:
    """The size of `out_dim`, if it has one that `replace_dim` must not set again; else that of `in_dim`.

    `replace_dim` sets its own output dims again for each batch, unless `in_dim` follows from `out_dim`.
    """
    if out_dim.dimension is not None:
        return out_dim.static_size
    if out_dim.expr is not None or out_dim.given.op != "replace_dim" or out_dim.serial in in_dim.roots:
        sizes = (source.lengths.size(out_dim), current_lengths([out_dim]).size(out_dim))
        known = [size for size in sizes if size is not None and not size.assumed]
        if known:  # of a dim that `source` once had, the lengths may be over dims that it has no more
            return next((size for size in known if all(dim in source.sig.index for dim in size.dims)), known[-1])
    return source.size_of(in_dim)


def _resized(backend: type[Backend], source: Tensor, pair: list[Dim], size: Size, expand: bool, shrink: bool) -> Tensor:
    """The tensor with sequences extended by zeros or cut to the lengths `size`, in which no padding becomes a frame."""
    dim, out_dim = pair
    stored = source.lengths.size(dim)
    if size is stored or (stored is not None and size.max == stored.max and size.agrees(stored)):
        return source
    if expand:
        require_owner_dims("replace_dim", source, (dim,))
    current = size_in(source, dim)
    target = within(size, [d for d in source.dims if d is not dim])
    dims = [d for d in source.dims if d in current.dims or d in target.dims]
    old, new = current.over(dims), target.over(dims)
    longer, shorter = bool((new > old).any()), bool((new < old).any())
    if target.max != current.max if not (expand or shrink) else (longer and not expand) or (shorter and not shrink):
        raise DimError(
            "replace_dim: `out_dim` has a different size",
            got=f"{out_dim.name}:{target} in place of {dim.name}:{current}",
            expected="the same size, or less" if shrink else "the same size, or more" if expand else "the same size",
            hint="rf.replace_dim_v2 pads with zeros or cuts off frames",
        )
    raw = backend.fill_padding(source, 0, (dim,)) if longer else source._raw
    if target.max != current.max:
        raw = backend.pad_raw(raw, {source.sig.index[dim]: (0, target.max - current.max)}, 0)
    return source.like(raw)


def _over_replaced(lengths: Lengths, in_dim: Dim, out_dim: Dim, count: int) -> Lengths:
    """Lengths over `in_dim` as lengths over `out_dim`, which has `count` entries; those of `out_dim` itself stay."""
    if in_dim not in lengths.owners:
        return lengths

    def change(size: Size) -> Size:
        values = _fit(size.values, size.dims.index(in_dim), count)
        dims = [out_dim if dim is in_dim else dim for dim in size.dims]
        return Size(dims, values, renamed=size if values.shape == size.values.shape else None)

    def make() -> Lengths:
        stay = out_dim.roots
        entries = lengths.sizes.items()
        return Lengths({s: size if s in stay or in_dim not in size.dims else change(size) for s, size in entries})

    replaced: Lengths = lengths.cached(("replace_dim", in_dim.serial, out_dim.serial, count), make)
    return replaced if lengths.finite else replaced.infinite()


def _all_static(*dims: Dim) -> bool:
    return all(dim.dimension is not None for dim in dims)


def _fit(values: np.ndarray, axis: int, count: int) -> np.ndarray:
    """Lengths cut or extended to a number of entries; new entries are 0."""
    missing = max(count - values.shape[axis], 0)
    return np.pad(values, [(0, missing if i == axis else 0) for i in range(values.ndim)]).take(range(count), axis)


def _check_merge(source: Tensor, dims: Sequence[Dim], what: str = "merge_dims") -> list[int]:
    """The positions of the dims. Raises DimError if another one than the first has padding."""
    places = [axis_of(what, source, dim) for dim in dims]
    if not places or len(set(places)) < len(places):
        raise DimError(f"{what}: the dims must be at least one, without repeats", got=align.show_dims(dims))
    require_owner_dims(what, source, tuple(dims[1:]))
    for i, dim in enumerate(dims):
        if ragged(source, dim) and (i or any(d in dims for d in size_in(source, dim).dims)):
            raise DimError(
                f"{what}: {dim.name} has padding, which would end up between the frames",
                got=source.describe_dims(),
                expected="padding only in the first of the merged dims, with lengths over other dims",
                hint="rf.pack_padded or rf.masked_select joins the valid frames without padding",
            )
    return places


def _merged(size: Size, dims: Sequence[Dim], out_dim: Dim, shape: Sequence[int]) -> Size:
    """Lengths over merged dims as lengths over the merged dim."""
    outer = [d for d in size.dims if d not in dims]
    values = size.over([*outer, *dims])
    lead = values.shape[: len(outer)]
    return Size([*outer, out_dim], np.broadcast_to(values, (*lead, *shape)).reshape(*lead, math.prod(shape)))


def _shape(what: str, source: Tensor, dims: Sequence[Dim]) -> tuple[Dim, dict[Dim, int]]:
    """The dim that takes the remaining size, and the sizes of the others."""
    if not dims:
        raise DimError(f"{what}: no dims are given to split into", expected="at least one Dim")
    check_dims(dims, what)
    sizes = {dim: known_size(source.lengths, dim) for dim in dims}
    free = [dim for dim, size in sizes.items() if size is None]
    if len(free) > 1:
        raise DimError(
            f"{what}: more than one size is unknown", got=align.show_dims(dims), expected="at most one new Dim"
        )
    open_dim = free[0] if free else dims[0]
    return open_dim, {dim: size.max for dim, size in sizes.items() if size is not None and dim is not open_dim}


def _counts(source: Tensor, axis: Dim, size: Size, step: int, open_dim: Dim, pad: bool | None) -> np.ndarray:
    """The number of steps of each sequence, where the last one may be padded."""
    if not step:
        if size.max:
            raise DimError(f"split_dims: {axis.name} does not fit into dims of size 0", got=source.describe_dims())
        stored = known_size(source.lengths, open_dim)
        return stored.values if stored else size.values
    counts: np.ndarray = -(-size.values // step)
    if (counts * step > size.values).any() and not (axis.dimension is None if pad is None else pad):
        raise DimError(
            f"split_dims: {axis.name} is not a multiple of {step}",
            got=source.describe_dims(),
            hint="pad_to_multiples=True",
        )
    return counts


def _split(size: Size, axis: Dim, dims: Sequence[Dim], shape: Sequence[int]) -> Size:
    """Lengths over a split dim, as lengths over those of its parts on which they depend."""
    at = size.dims.index(axis)
    values = _fit(size.values, at, math.prod(shape))
    values = values.reshape(*values.shape[:at], *shape, *values.shape[at + 1 :])
    over = [*size.dims[:at], *dims, *size.dims[at + 1 :]]
    for i in reversed(range(at, at + len(dims))):
        if values.shape[i] and (values == values.take([0], axis=i)).all():
            values = np.asarray(values.take(0, axis=i))
            del over[i]
    return Size(over, values)
