"""Tensors behind each other, above each other, and taken apart."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, same_dims
from rfnb.backend.base.sizes import bound, size_in
from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.lengths import Lengths, Size
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class ConcatOps:
    """Raw part: `concat_raw`, `stack_raw`, `unstack_raw`, `split_raw`, `broadcast_raw`."""

    concat_raw: Callable[..., Any]
    stack_raw: Callable[..., Any]
    unstack_raw: Callable[..., Any]
    split_raw: Callable[..., Any]
    broadcast_raw: Callable[[Any, Sequence[int]], Any]

    @classmethod
    def concat(  # type: ignore[misc]
        cls: type[Backend],
        *sources: tuple[Tensor, Dim],
        allow_broadcast: bool = False,
        out_dim: Dim,
        handle_dynamic_dims: bool = True,
    ) -> Tensor:
        """One behind the other: {…, a}, {…, b} → {…, out_dim}

        The frames of each sequence follow each other directly, padding is at the end.
        """
        if out_dim.dimension is not None:
            plan = _plan_static(sources, allow_broadcast, out_dim)
            if plan is not None:
                moves, place, signature = plan
                raws = [
                    x._raw if how is None else cls.move_raw(x._raw, how)
                    for (x, _), how in zip(sources, moves, strict=True)
                ]
                return tensor_of(cls.concat_raw(raws, place), signature, join(*[x for x, _ in sources]))
        order, axis = _order(sources, allow_broadcast)
        raws = _aligned(cls, sources, order, axis)
        sizes = [size_in(x, dim) for x, dim in sources]
        raw = cls.concat_raw(raws, axis)
        lengths = join(*(x for x, _ in sources))
        first, first_dim = sources[0]
        rest = [dim for i, dim in enumerate(order) if i != axis]
        total, kept = _total(sizes, rest, handle_dynamic_dims)
        lengths = bound(lengths, out_dim, total, "concat")
        feature = out_dim if first.feature_dim is first_dim else _feature(sources)
        out = align.sig([out_dim if i == axis else dim for i, dim in enumerate(order)], _sparse(sources), feature)
        if kept is not None:
            raw = _without_gaps(cls, raw, lengths, out, out_dim, kept)
        return tensor_of(raw, out, lengths)

    @classmethod
    def stack(cls, sources: Sequence[Tensor], *, out_dim: Dim) -> Tensor:
        """One above the other: {…}, {…} → {out_dim, …}"""
        first = sources[0]
        for i, other in enumerate(sources[1:], 1):
            if other.sig is not first.sig:
                same_dims("stack", other, first.dims, f"sources[{i}]")
        raws = [x._raw if x.sig is first.sig else align.apply(align.move(x.dims, first.dims), x._raw) for x in sources]
        lengths = join(*sources)
        if out_dim.dimension != len(sources):
            lengths = bound(lengths, out_dim, Size((), len(sources)), "stack")
        key = ("stack", out_dim.serial)
        ref = first.sig.plans.get(key)
        signature = ref and ref()
        if not signature:
            signature = align.sig([out_dim, *first.dims], first.sparse_dim, first.feature_dim)
            first.sig.keep(key, weakref.ref(signature))
        return tensor_of(cls.stack_raw(raws, 0), signature, lengths)

    @classmethod
    def unstack(cls, source: Tensor, *, axis: Dim) -> list[Tensor]:
        """The entries along `axis`. {…, axis} → a list of {…}"""
        raws = cls.unstack_raw(source._raw, axis_of("unstack", source, axis))
        out = align.without(source.sig, [axis])
        return [tensor_of(raw, out, source.lengths) for raw in raws]

    @classmethod
    def split(cls, source: Tensor, *, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor, ...]:
        """Cut into pieces of the sizes of `out_dims`. {…, axis} → {…, out_dims[0]}, {…, out_dims[1]}, …"""
        key = ("split", axis.serial, *[dim.serial for dim in out_dims])
        plan = source.sig.plans.get(key)
        sigs = [ref() for ref in plan[2]] if plan else []
        if not plan or None in sigs:
            place, sizes, sigs = _plan_split(source, axis, out_dims)
            plan = source.sig.keep(key, (place, sizes, [weakref.ref(signature) for signature in sigs]))
        raws = cls.split_raw(source._raw, plan[1], plan[0])
        lengths = source.lengths
        return tuple([tensor_of(raw, signature, lengths) for raw, signature in zip(raws, sigs, strict=True)])


def _plan_static(sources: Sequence[tuple[Tensor, Dim]], allow_broadcast: bool, out_dim: Dim) -> Any:
    """For dims of fixed size, without broadcasting: the moves of the sources, the axis, the signature of the result."""
    plans = sources[0][0].sig.plans
    key = ("concat", out_dim.serial, *[(x.sig.serial, dim.serial) for x, dim in sources])
    plan: Any = plans.get(key)
    signature = plan and plan[2]()
    if signature:
        return plan[0], plan[1], signature
    order, axis = _order(sources, allow_broadcast)
    if any(dim.dimension is None or len(x.dims) != len(order) for x, dim in sources):
        return None
    total = sum(dim.dimension or 0 for _, dim in sources)
    if total != out_dim.dimension:
        raise DimError(f"concat: {out_dim.name} has another size", got=total, expected=out_dim.dimension)
    moves = [align.move(x.dims, [dim if i == axis else d for i, d in enumerate(order)]) for x, dim in sources]
    first, first_dim = sources[0]
    feature = out_dim if first.feature_dim is first_dim else _feature(sources)
    signature = align.sig([out_dim if i == axis else d for i, d in enumerate(order)], _sparse(sources), feature)
    sources[0][0].sig.keep(key, (moves, axis, weakref.ref(signature)))
    return moves, axis, signature


def _order(sources: Sequence[tuple[Tensor, Dim]], allow_broadcast: bool) -> tuple[list[Dim], int]:
    """The dims of the result, with the dim of the first source standing for the new one, and its position."""
    first, first_dim = sources[0]
    axis_of("concat", first, first_dim, "sources[0]")
    order = list(first.dims)
    for i, (x, dim) in enumerate(sources[1:], 1):
        axis_of("concat", x, dim, f"sources[{i}]")
        new = [d for d in x.dims if d is not dim and d not in order]
        gone = [d for d in order if d is not first_dim and d not in x.sig.index]
        if (new or gone) and not allow_broadcast:
            same_dims("concat", x, [dim if d is first_dim else d for d in order], f"sources[{i}]")
        order = [*new, *order]
    return order, order.index(first_dim)


def _aligned(backend: Any, sources: Sequence[tuple[Tensor, Dim]], order: Sequence[Dim], axis: int) -> list[Any]:
    """The raw tensors with all axes of the result."""
    raws = []
    for x, dim in sources:
        here = [dim if i == axis else d for i, d in enumerate(order)]
        raws.append(align.apply(align.move(x.dims, here, trailing=False), x._raw))
    shapes = [backend.get_shape_tuple_raw(raw) for raw in raws]
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) == 1:
        return raws
    full = [
        1 if 1 in sizes and len(set(sizes)) == 1 else max(sizes, key=lambda n: n != 1 and n + 1)
        for sizes in zip(*shapes, strict=True)
    ]
    return [
        backend.broadcast_raw(raw, [*full[:axis], shape[axis], *full[axis + 1 :]])
        for raw, shape in zip(raws, shapes, strict=True)
    ]


def _total(sizes: Sequence[Size], rest: Sequence[Dim], close_gaps: bool) -> tuple[Size, list[Size] | None]:
    """The size of the new axis; and the sizes of the parts, if there is padding between them to take out."""
    dims = [dim for dim in rest if any(dim in size.dims for size in sizes)]
    if not close_gaps:
        last = sizes[-1]
        return Size(last.dims, sum(size.max for size in sizes[:-1]) + last.values), None
    values: Any = 0
    for size in sizes:
        values = values + align.apply(align.move(size.dims, dims, trailing=False), size.values)
    gaps = any(size.dims for size in sizes[:-1])
    return Size(dims, values), list(sizes) if gaps else None


def _without_gaps(backend: Any, raw: Any, lengths: Lengths, out: align.Sig, out_dim: Dim, sizes: Sequence[Size]) -> Any:
    """Each frame moved to the front by the padding before it; padding comes from padding."""
    key = ("concat", out.serial, out_dim.serial, *[id(size) for size in sizes], backend.device_key_raw(raw))
    found = lengths.cache.get(key)
    if found is None:
        dims = [dim for dim in out.dims if any(dim in size.dims for size in sizes)]
        positions = align.apply(align.move((*dims, out_dim), out.dims, trailing=False), _positions(sizes, dims))
        found = lengths.keep(key, (backend.from_numpy_raw(positions, key[-1]), sizes))  # the sizes keep their ids
    return backend.gather_raw(raw, found[0], out.index[out_dim], 1)


def _positions(sizes: Sequence[Size], dims: Sequence[Dim]) -> np.ndarray:
    """Frames first, in order, then padding: a permutation of the positions in all parts, cut to what is needed."""
    parts = []
    for size in sizes:
        values = align.apply(align.move(size.dims, dims, trailing=False), size.values)
        parts.append(np.arange(size.max) >= values[..., None])
    shape = np.broadcast_shapes(*[part.shape[:-1] for part in parts])
    padding = np.concatenate([np.broadcast_to(part, (*shape, part.shape[-1])) for part in parts], axis=-1)
    longest = int((~padding).sum(-1).max(initial=0))
    order: np.ndarray = np.argsort(padding, axis=-1, kind="stable")[..., :longest]
    return order


def _sparse(sources: Sequence[tuple[Tensor, Dim]]) -> Dim | None:
    return next((x.sparse_dim for x, _ in sources if x.sparse_dim is not None), None)


def _feature(sources: Sequence[tuple[Tensor, Dim]]) -> Dim | None:
    return next((x.feature_dim for x, dim in sources if x.feature_dim is not None and x.feature_dim is not dim), None)


def _plan_split(source: Tensor, axis: Dim, out_dims: Sequence[Dim]) -> tuple[int, list[int], list[align.Sig]]:
    place = axis_of("split", source, axis)
    sizes = [dim.dimension for dim in out_dims]
    if axis.dimension is None or None in sizes or sum(filter(None, sizes)) != axis.dimension:
        raise DimError(
            f"split: the pieces do not make up {axis.name}",
            got=align.show_dims(out_dims),
            expected=f"static dims whose sizes sum to {axis.describe()}",
        )
    before, after, feature = source.dims[:place], source.dims[place + 1 :], source.feature_dim
    sigs = [align.sig([*before, d, *after], source.sparse_dim, d if feature is axis else feature) for d in out_dims]
    return place, [size for size in sizes if size is not None], sigs
