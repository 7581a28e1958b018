"""Dims that turn out to have one size: one of them becomes an expression of the other, and stays a Dim of its own."""

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
    """`Dim.declare_same_as`: of the two, or of what they are made of, the one without a size follows the other."""
    if a is b or a.expr == _alias(b) or b.expr == _alias(a):
        return
    for dim, other in ((a, b), (b, a)):
        root, constant = dim_math.free_term(dim)
        if root is not None and root.serial not in other.roots:
            _follow(root, other - constant)
            return
    raise DimError(
        f"declare_same_as: {a.name} is in use already",
        got=f"{a.describe()} and {b.describe()}",
        expected="one Dim without a size",
    )


def _follow(dim: Dim, other: Dim) -> None:
    stale = [made for made in [dim, *dim_math.derived(), *_aliases] if dim.serial in made.roots]
    dim.expr = _alias(other)
    _aliases.add(dim)
    for made in stale:
        made.__dict__.pop("_derived_roots", None)
    for made in stale:
        settle(made)
    align.forget(stale)


def followed(dim: Dim) -> tuple[Dim, ...]:
    """What `dim` was declared to be the same as: one dim, or none."""
    return dim.expr.dims if dim.expr is not None and dim in _aliases else ()


def _alias(dim: Dim) -> Expr:
    return Expr("sum", (dim,), (1, 0))


def settle(dim: Dim) -> None:
    """A dim made of dims that have a fixed size gets one as well."""
    if dim.dimension is None and dim.expr is not None:
        for part in dim.expr.dims:
            settle(part)
        if all(part.dimension is not None for part in dim.expr.dims):
            size = dim.expr.evaluate(lambda part: part.static_size)
            dim.dimension = None if size is None else size.max
