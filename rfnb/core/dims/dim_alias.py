"""Dims that are declared to have the same size: one becomes an expression of the other, but stays a separate Dim."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from rfnb.core.dims import align, dim_math
from rfnb.core.dims.dim_math import Expr
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim

_aliases: weakref.WeakSet[Dim] = weakref.WeakSet()


def declare(a: Dim, b: Dim) -> None:
    """Implements `Dim.declare_same_as`: the dim without a size, or the root of it, becomes an alias of the other."""
    dim_math.check_operand(b)
    if a is b or a.expr == _alias(b) or b.expr == _alias(a):
        return
    for dim, other in ((a, b), (b, a)):
        root, constant = dim_math.free_term(dim)
        if root is not None and root.serial not in other.roots:
            _follow(root, other - constant)
            return
    raise DimError(
        f"declare_same_as: {a.name} is already in use",
        got=f"{a.describe()} and {b.describe()}",
        expected="one Dim without a size",
    )


def _follow(dim: Dim, other: Dim) -> None:
    stale = [follower for follower in [dim, *dim_math.derived(), *_aliases] if dim.serial in follower.roots]
    dim.expr = _alias(other)
    _aliases.add(dim)
    for follower in stale:
        follower.__dict__.pop("_derived_roots", None)
    for follower in stale:
        settle(follower)
    align.forget(stale)


def followed(dim: Dim) -> tuple[Dim, ...]:
    """The dim that `dim` was declared to be the same as, in a tuple; empty if there is none."""
    return dim.expr.dims if dim.expr is not None and dim in _aliases else ()


def _alias(dim: Dim) -> Expr:
    return Expr("sum", (dim,), (1, 0))


def settle(dim: Dim) -> None:
    """Sets the fixed size of a dim that is derived from dims of fixed size."""
    if dim.dimension is None and dim.expr is not None:
        for part in dim.expr.dims:
            settle(part)
        sizes = [part.dimension for part in dim.expr.dims if part.dimension is not None]
        if len(sizes) == len(dim.expr.dims):
            dim_math.check_static(dim.expr, sizes)
            size = dim.expr.evaluate(lambda part: part.static_size)
            dim.dimension = None if size is None else size.max
