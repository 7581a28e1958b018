"""Joining tensors along a dim, and splitting them."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, require_owner_dims, require_same_dims
from rfnb.backend.base.sizes import (
    bound,
    derived,
    fitted,
    known_size,
    picked,
    ragged,
    renamed,
    size_in,
    taken,
    trimmed,
)
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size, longest_of
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


Pairs = Sequence[tuple[Tensor, Dim]]
ONE = Dim(1, name="one")


ConcatPlan = tuple[list[align.Move] | None, int, weakref.ref[align.Sig]]
"""A move for each source (None if all are in place), the axis to join, and the signature of the result. A plain tuple,
as the plans of elementwise ops (`Broadcast` in `backend.base.math`)."""


class ConcatOps:
    """Raw part: `concat_raw(raws, axis)`, `stack_raw(raws, axis=0)`."""

    concat_raw: Callable[..., RawTensor]
    stack_raw: Callable[..., RawTensor]

    @classmethod
    def concat(
        cls: type[Backend],
        *sources: tuple[Tensor, Dim],
        allow_broadcast: bool = False,
        out_dim: Dim,
        handle_dynamic_dims: bool = True,
    ) -> Tensor:
        """The tensors one after the other. {…, a}, {…, b} → {…, out_dim}

        The frames of each sequence follow directly; padding stays at the end.
        """
        return cls.concat_to(sources, allow_broadcast, out_dim, handle_dynamic_dims)[0]

    @classmethod
    def concat_to(
        cls: type[Backend], sources: Pairs, allow_broadcast: bool, out_dim: Dim | None, close_gaps: bool
    ) -> tuple[Tensor, Dim]:
        """`concat`, and the new dim, which is the sum if `out_dim` is None.

        For dims of fixed size, the plan for these signatures is cached at the first one.
        """
        first, dim = sources[0]
        signature, lengths = first.sig, first.lengths
        plan: ConcatPlan | None
        if len(sources) == 2:  # the most frequent case
            x, other = sources[1]
            plan = signature.plans.get(("concat", out_dim and out_dim.serial, dim.serial, x.sig.serial, other.serial))
            if plan is not None and lengths is x.lengths and not (dim in lengths.owners or other in lengths.owners):
                moves, place, ref = plan
                out = ref()
                if moves is None and out is not None:
                    return tensor_of(cls.concat_raw((first._raw, x._raw), place), out, lengths), out.dims[place]
        key: list[Any] = ["concat", out_dim and out_dim.serial]
        raws = []
        for x, dim in sources:
            sig, sizes = x.sig, x.lengths
            key += sig.serial, dim.serial
            raws.append(x._raw)
            if dim in sizes.owners:
                return _concat(cls, sources, allow_broadcast, out_dim, close_gaps)
            if sizes is not lengths:
                lengths = lengths.join(sizes, signature, sig)
        del key[2]  # the plan is cached there
        plan = signature.plans.get(tuple(key))
        out = plan and plan[2]()
        if plan is None or out is None:
            sources = [(x, x.sig.resolve(dim)) for x, dim in sources]
            static = _plan_static(sources, out_dim)
            if static is None:
                return _concat(cls, sources, allow_broadcast, out_dim, close_gaps)
            moves, place, out = static
            plan = signature.keep(tuple(key), (moves, place, weakref.ref(out)))
        moves, place, _ = plan
        if moves is not None:
            raws = [raw if how is None else cls.move_raw(raw, how) for raw, how in zip(raws, moves, strict=True)]
        return tensor_of(cls.concat_raw(raws, place), out, lengths), out.dims[place]

    @classmethod
    def stack(cls: type[Backend], sources: Sequence[Tensor], out_dim: Dim) -> Tensor:
        """The tensors stacked along `out_dim`. {…}, {…} → {out_dim, …}"""
        first = sources[0]
        signature, lengths = first.sig, first.lengths
        raws: list[RawTensor] = []
        for x in sources:
            raw = x._raw
            if x.sig is not signature:
                require_same_dims("stack", x, first.dims, f"sources[{len(raws)}]")
                raw = align.apply(align.move(x.dims, first.dims), raw)
            raws.append(raw)
            if x.lengths is not lengths:
                lengths = lengths.join(x.lengths, signature, x.sig)
        if out_dim.dimension != len(raws):
            lengths = bound(lengths, out_dim, Size((), len(raws)), "stack")
        ref = signature.plans.get(("stack", out_dim.serial))
        out = ref and ref()
        if out is None:
            out = align.sig([out_dim, *first.dims], first.sparse_dim, first.feature_dim)
            signature.keep(("stack", out_dim.serial), weakref.ref(out))
        result = tensor_of(cls.stack_raw(raws), out, lengths)
        return result if out_dim.dimension and out_dim not in lengths.owners else fitted(cls, result, out_dim)

    @classmethod
    def cum_concat_step(
        cls: type[Backend], source: Tensor, *, prev_accum: Tensor, axis: Dim, out_spatial_dim: Dim
    ) -> Tensor:
        """`prev_accum` with `source` as one more frame at the end. {…}, {…, axis} → {…, out_spatial_dim}"""
        frame = cls.expand_dim(source, ONE)
        return cls.concat((prev_accum, axis), (frame, ONE), out_dim=out_spatial_dim)


def _plan_static(sources: Pairs, out_dim: Dim | None) -> tuple[list[align.Move] | None, int, align.Sig] | None:
    """The moves of the sources, the axis, the signature of the result; None for dims that are not of fixed size, or
    if a source lacks one.
    """
    order, axis = _order(sources, allow_broadcast=True)
    if any(dim.dimension is None or len(x.dims) != len(order) for x, dim in sources):
        return None
    total = sum(dim.dimension or 0 for _, dim in sources)
    out_dim = _sum_of(sources) if out_dim is None else out_dim
    if out_dim.dimension != total:
        if out_dim.dimension is None:
            return None
        raise DimError(f"concat: {out_dim.name} has a different size", got=total, expected=out_dim.dimension)
    moves = [align.move(x.dims, [dim if i == axis else d for i, d in enumerate(order)]) for x, dim in sources]
    return moves if any(moves) else None, axis, _joined(sources, order, axis, out_dim)


def _sum_of(sources: Pairs) -> Dim:
    dims = [dim for _, dim in sources]
    key = ("sum", *[dim.serial for dim in dims])
    return derived(sources[0][0].sig, key, lambda: functools.reduce(operator.add, dims))


def _joined(sources: Pairs, order: Sequence[Dim], axis: int, out_dim: Dim) -> align.Sig:
    """The signature of the result."""
    first, first_dim = sources[0]
    sparse = next((x.sparse_dim for x, _ in sources if x.sparse_dim is not None), None)
    features = (x.feature_dim for x, dim in sources if x.feature_dim is not None and x.feature_dim is not dim)
    feature = out_dim if first.feature_dim is first_dim else next(features, None)
    return align.sig([out_dim if i == axis else d for i, d in enumerate(order)], sparse, feature)


def _concat(
    backend: type[Backend], sources: Pairs, allow_broadcast: bool, out_dim: Dim | None, close_gaps: bool
) -> tuple[Tensor, Dim]:
    """`concat` of sequences, and of sources that lack dims."""
    order, axis = _order(sources, allow_broadcast)
    for x, dim in sources[:-1] if close_gaps else ():
        require_owner_dims("concat", x, (dim,))
    if out_dim is None:
        out_dim = _sum_of(sources)
        if not close_gaps and out_dim.dimension is None:
            out_dim = Dim(None, name=out_dim.name)
    sizes = [size_in(x, dim) for x, dim in sources]
    outer = [dim for i, dim in enumerate(order) if i != axis]
    total, gaps = _total(sizes, outer, close_gaps)
    out = _joined(sources, order, axis, out_dim)
    lengths = bound(_lengths(sources, out_dim), out_dim, total, "concat")
    if out_dim in lengths.owners:
        sources = [(_widened(backend, x, dim, lengths), dim) for x, dim in sources]
    result = tensor_of(backend.concat_raw(_aligned(backend, sources, order, axis), axis), out, lengths)
    return fitted(backend, result if gaps is None else _without_gaps(backend, result, out_dim, gaps), out_dim), out_dim


def _order(sources: Pairs, allow_broadcast: bool) -> tuple[list[Dim], int]:
    """The dims of the result, with the dim of the first source standing for the new one, and its position."""
    first, first_dim = sources[0]
    axis_of("concat", first, first_dim, "sources[0]")
    order = list(first.dims)
    for i, (x, dim) in enumerate(sources[1:], 1):
        axis_of("concat", x, dim, f"sources[{i}]")
        new_dims = [d for d in x.dims if d is not dim and d not in order]
        missing = [d for d in order if d is not first_dim and d not in x.sig.index]
        if (new_dims or missing) and not allow_broadcast:
            require_same_dims("concat", x, [dim if d is first_dim else d for d in order], f"sources[{i}]")
        order = [*new_dims, *order]
    return order, order.index(first_dim)


def _aligned(backend: type[Backend], sources: Pairs, order: Sequence[Dim], axis: int) -> list[object]:
    """The raw tensors with all axes of the result."""
    raws = []
    for x, dim in sources:
        axes = [dim if i == axis else d for i, d in enumerate(order)]
        raws.append(align.apply(align.move(x.dims, axes, trailing=False), x._raw))
    shapes = [backend.get_shape_tuple_raw(raw) for raw in raws]
    others = [(*shape[:axis], *shape[axis + 1 :]) for shape in shapes]
    if all(sizes == others[0] for sizes in others):
        return raws
    full = [next((n for n in sizes if n != 1), 1) for sizes in zip(*shapes, strict=True)]
    return [
        backend.broadcast_raw(raw, [*full[:axis], shape[axis], *full[axis + 1 :]])
        for raw, shape in zip(raws, shapes, strict=True)
    ]


def _lengths(sources: Pairs, out_dim: Dim) -> Lengths:
    """The lengths of the result. Lengths over the joined dims are joined as well."""
    if not any(dim in x.lengths.owners for x, dim in sources):
        return join(*[x for x, _ in sources])
    joined_sizes: dict[int, Size] = {}
    for x, dim in sources:
        for serial in (s for s, size in x.lengths.sizes.items() if dim in size.dims and s in x.sig.roots):
            joined_sizes[serial] = _behind_each_other(sources, serial, out_dim)
    parts = [tensor_of(None, x.sig, _without(x.lengths, joined_sizes)) for x, _ in sources]
    joined = Lengths({**join(*parts).sizes, **joined_sizes})
    return joined if all(x.lengths.finite for x, _ in sources) else joined.infinite()


def _without(lengths: Lengths, serials: Collection[int]) -> Lengths:
    def make() -> Lengths:
        return Lengths({serial: size for serial, size in lengths.sizes.items() if serial not in serials})

    return lengths.cached(("without", *serials), make)


def _behind_each_other(sources: Pairs, serial: int, out_dim: Dim) -> Size:
    sizes = [(x.lengths.sizes[serial], dim, x.size_of(dim).max) for x, dim in sources]
    outer = list(dict.fromkeys(d for size, dim, _ in sizes for d in size.dims if d is not dim))
    parts = [size.over([dim, *outer]) for size, dim, _ in sizes]
    shape = np.broadcast_shapes(*[part.shape[1:] for part in parts])
    full = [np.broadcast_to(part, (count, *shape)) for part, (_, _, count) in zip(parts, sizes, strict=True)]
    return Size([out_dim, *outer], np.concatenate(full))


def _widened(backend: type[Backend], x: Tensor, axis: Dim, lengths: Lengths) -> Tensor:
    """The tensor padded to the longest sequence of all joined tensors."""
    missing = {}
    for place, (dim, n) in enumerate(zip(x.dims, backend.get_shape_tuple_raw(x._raw), strict=True)):
        size = lengths.size(dim) if dim.dimension is None and dim is not axis else None
        if size is not None and size.max > n:
            missing[place] = (0, size.max - n)
    return x.like(backend.pad_raw(x._raw, missing, 0)) if missing else x


def _total(sizes: Sequence[Size], rest: Sequence[Dim], close_gaps: bool) -> tuple[Size, list[Size] | None]:
    """The size of the new axis, and the sizes of the parts if there is padding to remove between them."""
    if not close_gaps:
        end = sizes[-1]
        return Size(end.dims, sum(size.max for size in sizes[:-1]) + end.values), None
    dims = [dim for dim in rest if any(dim in size.dims for size in sizes)]
    values: object = sum(size.over(dims) for size in sizes)
    gaps = any(size.dims for size in sizes[:-1])
    return Size(dims, values), list(sizes) if gaps else None


def _without_gaps(backend: type[Backend], x: Tensor, out_dim: Dim, sizes: Sequence[Size]) -> Tensor:
    """Each frame moved towards the front by the padding before it; padding is filled from padding."""
    dims = [dim for dim in x.dims if any(dim in size.dims for size in sizes)]
    key = ("concat", out_dim.serial, *[(*[dim.serial for dim in size.dims], size.values.tobytes()) for size in sizes])
    raw, lengths = picked(backend, x, out_dim, out_dim, dims, key, lambda: _positions(sizes, dims))
    return tensor_of(raw, x.sig, lengths)


def _positions(sizes: Sequence[Size], dims: Sequence[Dim]) -> np.ndarray:
    """Frames first, in order, then padding: a permutation of the positions in all parts, cut to the new length."""
    total = functools.reduce(operator.add, [size.over(dims) for size in sizes])
    nowhere = (total < 0)[..., None]  # has all dims
    padding = np.concatenate([~size.frames(dims) | nowhere for size in sizes], axis=-1)
    order: np.ndarray = np.argsort(padding, axis=-1, kind="stable")[..., : longest_of(total)]
    return order


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The axis, the sizes of the pieces, and the signature of each piece."""

    place: int
    sizes: Sequence[Any]
    outs: Sequence[weakref.ref[align.Sig]]


class SplitOps:
    """Raw part: `unstack_raw(raw, axis)`, `split_raw(raw, sizes, axis)`."""

    unstack_raw: Callable[[RawTensor, int], Sequence[RawTensor]]
    split_raw: Callable[..., RawTensor]

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
        key = ("split", axis.serial, *map(align.serial_of, out_dims))
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
        return tuple(map(tensor_of, raws, sigs, repeat(lengths)))


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
            x = tensor_of(source._raw, source.sig, lengths)
            raw, lengths = picked(backend, x, axis, dim, dims, key, make)
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
