"""The capacity of a dim: the size of its axis for all batches, whatever their lengths are."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.dim_math import check_operand
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.dims.dim_math import Expr


class Capacity:
    """The part of Dim about its capacity."""

    _capacity: int | None = None
    _bounded_by: Dim | None = None
    _bounds: weakref.WeakSet[Dim] | None = None
    _assumed: Lengths | None = None

    if TYPE_CHECKING:
        serial: int
        dimension: int | None
        expr: Expr | None
        bound: Lengths | None

        @property
        def size(self) -> Size:
            """The size in the current batch."""

        def bind(self, size: Size) -> Lengths:
            """Sets the size for a new batch."""

    @property
    def capacity(self) -> int | None:
        """The size of the axis, if it is fixed for all batches; derived dims have the one that follows from it.

        >>> time = rf.Dim([5, 2], name="time", capacity=8)
        >>> time, (time + 1).capacity, rf.zeros([rf.batch_dim, time]).raw_tensor.shape
        (Dim{time:2–5 of 8}, 9, torch.Size([2, 8]))

        Existing tensors keep their sizes when it is set. Raises DimError if a sequence has more frames.
        """
        if self.expr is not None:
            return self.expr.number(dim.capacity if dim.dimension is None else dim.dimension for dim in self.expr.dims)
        bound = self._bounded_by
        return bound.capacity if self._capacity is None and bound is not None else self._capacity

    @capacity.setter
    def capacity(self, size: int | None) -> None:
        self._set("_capacity", _checked(size))

    @property
    def assumed(self) -> Lengths | None:
        """The lengths before they are known, which are the whole capacity; None if there is none.

        >>> time = rf.Dim(None, name="time", capacity=8)
        >>> rf.zeros([time]).raw_tensor.shape, time.is_defined()
        (torch.Size([8]), False)
        """
        capacity = self.capacity
        if capacity is None:
            return None
        if self._assumed is None or self._assumed.sizes[self.serial].max != capacity:
            self._assumed = Lengths({self.serial: Size((), capacity, capacity=capacity, assumed=True)})
        return self._assumed

    @property
    def bounded_by(self) -> Dim | None:
        """A dim that is at least as long as this one, which has its capacity if it has none of its own.

        Raises DimError if that dim is bounded by this one.
        """
        return self._bounded_by

    @bounded_by.setter
    def bounded_by(self, other: Dim | None) -> None:
        if other is not None:
            check_operand(other)
            if other in self._following():
                raise DimError("Dim: `bounded_by` goes in a circle", got=f"{other.name}, which is bounded by this dim")
            other._bounds = other._bounds or weakref.WeakSet()
            other._bounds.add(self)  # type: ignore[arg-type]
        self._set("_bounded_by", other)

    def _set(self, name: str, value: Any) -> None:
        """Sets an attribute, and binds all dims whose capacity depends on it again; if one cannot be, none is."""
        old, dims = getattr(self, name), self._following()
        setattr(self, name, value)
        try:
            for dim in dims:
                dim._bind_again()
        except DimError:
            setattr(self, name, old)
            for dim in dims:
                dim._bind_again()
            raise

    def _following(self) -> list[Capacity]:
        """This dim, and all that are bounded by it, directly or not."""
        bounded = [dim for dim in self._bounds or () if dim._bounded_by is self]
        return [self, *(follower for dim in bounded for follower in dim._following())]

    def _bind_again(self) -> None:
        """Binds the dim to the lengths that it has, with the capacity that it has now."""
        if self.dimension is None and self.expr is None and self.bound is not None:
            self.bind(self.size.bounded(None))


def _checked(size: Any) -> int | None:
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise DimError("Dim: the capacity is not a size", got=repr(size), expected="a whole number, or None")
    return int(size)


SHAPES = {"fixed": False, "generation": 0}
"""Whether code must not depend on the sizes of a batch, as for a CUDA graph, and how often that was switched on."""


def check_fixed(dim: Dim) -> None:
    """Raises DimError if sizes must not depend on the batch, as that of `dim` does."""
    if not SHAPES["fixed"] or dim.dimension is not None or dim.capacity is not None:
        return
    if dim.expr is not None or dim.size.capacity is None:
        raise DimError(
            f"{dim.name} has no fixed size, which code for rf.set_static_traceable_ctx() needs",
            got=dim.describe(),
            expected="a static dim, or one with a capacity",
            hint=f"{' and '.join(sorted(root.name for root in dim.roots.values()))}.capacity = …",
            dims=[dim],
        )
