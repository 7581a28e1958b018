"""The true lengths that an op sees, and those that its result gets."""

from __future__ import annotations

from rfnb.core.dim import Dim, current_lengths
from rfnb.core.lengths import Lengths, Size
from rfnb.core.tensor import Tensor
from rfnb.errors import DimError


def size_in(x: Tensor, dim: Dim) -> Size:
    """How long `dim` is in `x`, over dims that `x` has; lengths over dims that it lost count as their longest."""
    if dim.dimension is not None:
        return dim.static_size
    found = x.lengths.cache.get(("size_in", x.sig.serial, dim.serial))
    if found is None:
        found = x.lengths.cached(("size_in", x.sig.serial, dim.serial), lambda: _size_in(x, dim))
    return found


def _size_in(x: Tensor, dim: Dim) -> Size:
    size = x.size_of(dim)
    lost = tuple(i for i, d in enumerate(size.dims) if d not in x.sig.index)
    values = size.values.max(axis=lost, initial=0) if lost else size.values
    kept = Size([d for d in size.dims if d in x.sig.index], values)
    return Size((), kept.max) if kept.dims and not kept.ragged else kept


def ragged(x: Tensor, dim: Dim) -> bool:
    """Whether `x` has padding along `dim`."""
    return dim.dimension is None and bool(size_in(x, dim).dims)


def bound(lengths: Lengths, dim: Dim, size: Size, by: str) -> Lengths:
    """The lengths of a result that has the output dim `dim` of length `size`; defines `dim` if it is new.

    Raises DimError if it has another size, or is in use.
    """
    here = lengths.size(dim)
    if here is not None and here.max == size.max and (not (size.dims or here.ragged) or here.agrees(size)):
        return lengths
    if dim.dimension is None and dim.expr is None:
        known = current_lengths([dim]).size(dim)
        if known is None or not known.agrees(size):
            dim.define(size, by)
        return lengths.bind({dim: size})
    if here is None:
        lengths = lengths.bind({root: root.size for root in dim.roots.values() if lengths.size(root) is None})
    known = lengths.size(dim)
    if known is None or known.max != size.max:
        raise DimError(f"{by}: {dim.name} has another size", got=size, expected=known)
    return lengths
