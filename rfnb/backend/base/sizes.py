"""The true lengths of the operands of an op, and those of its result."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size, within
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


def size_in(x: Tensor, dim: Dim) -> Size:
    """The size of `dim` in `x`, over dims of `x`. Lengths over a dim that `x` lacks become their maximum."""
    if dim.dimension is not None:
        return dim.static_size
    size = x.size_of(dim)
    if size.ragged and len(size.dims) == 1 and size.dims[0] in x.sig.index:  # the most frequent case
        return size
    result: Size = x.lengths.cached(("size_in", x.sig.serial, dim.serial), lambda: _size_in(x, size))
    return result


def known_size(lengths: Lengths, dim: Dim) -> Size | None:
    """The size of `dim` in these lengths, or else in the current batch; None if at most its capacity is known."""
    size = lengths.size(dim) or current_lengths([dim]).size(dim)
    return None if size is not None and size.assumed else size


def _size_in(x: Tensor, size: Size) -> Size:
    size = within(size, x.dims)
    one_for_all = size.dims and not size.ragged and size.values.size  # not without sequences
    return Size((), size.max, made=size.made) if one_for_all else size


def ragged(x: Tensor, dim: Dim) -> bool:
    """Whether `x` has padding along `dim`."""
    return dim.dimension is None and size_in(x, dim).ragged


def bound(lengths: Lengths, dim: Dim, size: Size, by: str) -> Lengths:
    """The lengths of a result that has the output dim `dim` of length `size`; defines `dim` if it is new.

    Raises DimError if `dim` has a different size, or is in use.
    """
    entry = lengths.size(dim)
    if (
        entry is not None
        and not entry.assumed
        and entry.max == size.max
        and (not (size.dims or entry.ragged) or entry.agrees(size))
    ):
        return lengths
    if dim.dimension is None and dim.expr is None:
        size.dtype = size.dtype or lengths.dtype
        stored = current_lengths([dim]).size(dim)
        if stored is None or stored.assumed or not stored.agrees(size):
            dim.define(size, by)
        return _with(lengths, dim, size.within_capacity(dim))
    if entry is None:
        lengths = lengths.bind({root: root.size for root in dim.roots.values() if lengths.size(root) is None})
    stored = lengths.size(dim)
    if stored is not None and (size.unknown or (stored.capacity is not None and stored.agrees(size))):
        return lengths
    if stored is None or stored.max != size.max or (dim.dimension is not None and size.ragged):
        raise DimError(f"{by}: {dim.name} has a different size", got=size, expected=stored)
    return lengths


def _with(lengths: Lengths, dim: Dim, size: Size) -> Lengths:
    """The lengths with this size of `dim`; the same object for the same size."""
    if not lengths.sizes:  # EMPTY is shared, and would keep the result alive forever
        return lengths.bind({dim: size})
    entry: Lengths | None = lengths.cache.get("bound")  # only the last one is cached, since each step may have new dims
    if entry is None or entry.sizes.get(dim.serial) is not size:
        entry = lengths.keep("bound", lengths.bind({dim: size}))
    return entry


def moved(lengths: Lengths, gone: Sequence[Dim], key: object, change: Callable[[Size], Size]) -> Lengths:
    """The lengths with `change` applied to those over dims that are `gone`. It is called once per `key`."""
    if lengths.owners.isdisjoint(gone):
        return lengths

    def make() -> Lengths:
        entries = lengths.sizes.items()
        return Lengths({s: size if set(size.dims).isdisjoint(gone) else change(size) for s, size in entries})

    changed: Lengths = lengths.cached(("moved", key, *[dim.serial for dim in gone]), make)
    return changed if lengths.finite else changed.infinite()


def taken(
    lengths: Lengths, axis: Dim, out_dim: Dim, key: object, take: Callable[[np.ndarray, int], np.ndarray]
) -> Lengths:
    """Lengths over `axis` as lengths over `out_dim`; `take(values, i)` applies the op to axis `i`."""

    def change(size: Size) -> Size:
        dims = [out_dim if dim is axis else dim for dim in size.dims]
        return Size(dims, take(size.values, size.dims.index(axis)))

    return moved(lengths, [axis], (key, out_dim.serial), change)


def trimmed(backend: type[Backend], x: Tensor) -> Tensor:
    """The tensor without frames that are padding in all remaining sequences, and with all that a capacity adds."""
    raw = x._raw
    for place, dim in enumerate(x.dims):
        longest = x.size_of(dim).max
        missing = longest - backend.get_shape_tuple_raw(raw)[place]
        if missing:
            cut = missing < 0
            raw = (
                backend.slice_raw(raw, place, 0, longest, 1) if cut else backend.pad_raw(raw, {place: (0, missing)}, 0)
            )
    return x if raw is x._raw else x.like(raw)


def fitted(backend: type[Backend], x: Tensor, dim: Dim) -> Tensor:
    """The result `x` of an op that made its axis `dim` as long as the sequences need, with the size that axes have."""
    resizes = dim in x.lengths.owners or ((size := x.lengths.size(dim)) and size.capacity is not None)
    return trimmed(backend, x) if resizes else x


def inner_dims(x: Tensor, dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The other dims of `x` whose lengths depend on `dims`, along which their padding is in other places."""
    if x.lengths.owners.isdisjoint(dims):
        return ()
    sizes = {dim: x.size_of(dim) for dim in x.sig.frames if dim not in dims}
    return tuple(dim for dim, size in sizes.items() if size.ragged and not set(dims).isdisjoint(size.dims))


def require_no_inner_dims(op: str, x: Tensor, dims: Sequence[Dim]) -> None:
    """Raises DimError if lengths of another dim of `x` depend on `dims`, for ops whose results would be uneven."""
    inner = inner_dims(x, dims)
    if inner:
        raise DimError(
            f"{op}: the lengths of {inner[0].name} depend on {align.show_dims(dims)}",
            got=x.describe_dims(),
            expected="the same padding in all frames",
            hint="rf.pack_padded or rf.masked_select joins the valid frames without padding",
        )


def constant(
    backend: type[Backend], x: Tensor, dims: Sequence[Dim], key: object, make: Callable[[], np.ndarray]
) -> RawTensor:
    """A raw constant over `dims`, which are dims of `x`, shaped to broadcast against it; computed once per batch."""

    def place() -> RawTensor:
        return backend.from_numpy_raw(align.apply(align.move(dims, x.dims, trailing=False), make()), device)

    device = backend.device_key_raw(x._raw)
    return x.lengths.cached((key, x.sig.serial, device, backend), place) if x.lengths.sizes else place()


def picked(
    backend: type[Backend],
    x: Tensor,
    axis: Dim,
    out_dim: Dim,
    dims: Sequence[Dim],
    key: object,
    make: Callable[[], np.ndarray],
) -> tuple[RawTensor, Lengths]:
    """The frames of `axis` at the positions [dims…, out_dim] that `make` gives; lengths over `axis` are picked too."""

    def change(size: Size) -> Size:
        outer = [*dict.fromkeys([*(dim for dim in size.dims if dim is not axis), *dims])]
        positions = align.apply(align.move([*dims, axis], [*outer, axis], trailing=False), make())
        values = size.over([*outer, axis])
        values = values if values.shape[-1] else np.zeros((*values.shape[:-1], 1), np.int64)
        shape = np.broadcast_shapes(values.shape[:-1], positions.shape[:-1])
        values, positions = (np.broadcast_to(part, (*shape, part.shape[-1])) for part in (values, positions))
        return Size([*outer, out_dim], np.take_along_axis(values, positions, -1))

    raw = backend.gather_raw(x._raw, constant(backend, x, [*dims, axis], key, make), x.sig.index[axis], 1)
    return raw, moved(x.lengths, [axis], ("picked", key, out_dim.serial), change)


def derived(signature: Sig, key: object, make: Callable[[], Dim]) -> Dim:
    """The output dim that `make` gives, an expression of dims of `signature`; cached while it is referenced."""
    ref = signature.plans.get(key)
    dim: Dim | None = ref and ref()
    if dim is None:
        dim = make()
        signature.keep(key, weakref.ref(dim))
    return dim


def renamed(source: Tensor, axis: Dim, out_dim: Dim) -> align.Sig:
    """The signature with `out_dim` in place of `axis`."""
    feature = out_dim if source.feature_dim is axis else source.feature_dim
    return align.sig([out_dim if dim is axis else dim for dim in source.dims], source.sparse_dim, feature)


def same(values: object) -> int | None:
    """The common value of all `values`; None if they differ."""
    values = np.asarray(values)
    if not values.size:
        return 0
    value = int(values.flat[0])
    return value if (values == value).all() else None
