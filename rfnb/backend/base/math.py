"""Elementwise ops: plan on dims, then one raw call."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core import align
from rfnb.core.align import Sig
from rfnb.core.dim import Dim
from rfnb.core.lengths import Lengths
from rfnb.core.tensor import Tensor, tensor_of

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


PRODUCTS = ("mul", "truediv", "pow", "squared_difference", "logaddexp")
"""Where the gradient of one operand is a product with the other: 0 · NaN of a padded frame would get into it."""


class MathOps:
    """Raw part: `combine_raw`, `compare_raw`, `activation_raw`, `where_raw`, `clip_raw`."""

    combine_raw: Callable[[Any, str, Any], Any]
    compare_raw: Callable[[Any, str, Any], Any]
    activation_raw: Callable[[Any, str], Any]
    where_raw: Callable[..., Any]
    cast_raw: Callable[[Any, str], Any]
    fill_for_gradient: Callable[[Tensor, Tensor], Any]
    cut_gradient: Callable[..., Tensor]

    @classmethod
    def combine(
        cls,
        a: Tensor,
        kind: str,
        b: Tensor,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor:
        """a kind b: "add", "sub", "mul", … {…a}, {…b} → {… of both}"""
        how_a, how_b, out = plan(a.sig, b.sig, 1, kind, allow_broadcast_all_sources, dim_order)
        lengths = a.lengths.join(b.lengths, a.sig, b.sig)
        raw_a, raw_b = a._raw, b._raw
        if kind in PRODUCTS and lengths.sizes:
            raw_a = cls.fill_for_gradient(a, b) if lacks_frames(b.sig, a.sig) else raw_a
            raw_b = cls.fill_for_gradient(b, a) if lacks_frames(a.sig, b.sig) else raw_b
        raw = cls.combine_raw(align.apply(how_a, raw_a), kind, align.apply(how_b, raw_b))
        return cls.cut_gradient(tensor_of(raw, out, lengths), a, b) if out.frames else tensor_of(raw, out, lengths)

    @classmethod
    def compare(
        cls,
        a: Tensor,
        kind: str,
        b: Tensor,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor:
        """a kind b: "equal", "less", … {…a}, {…b} → {… of both} bool"""
        how_a, how_b, out = plan(a.sig, b.sig, -1, kind, allow_broadcast_all_sources, dim_order)
        lengths = a.lengths.join(b.lengths, a.sig, b.sig)
        return tensor_of(cls.compare_raw(align.apply(how_a, a._raw), kind, align.apply(how_b, b._raw)), out, lengths)

    @classmethod
    def activation(cls, tensor: Tensor, func: str) -> Tensor:
        """func of every entry."""
        return tensor.like(cls.activation_raw(tensor._raw, func))

    @classmethod
    def where(  # type: ignore[misc]
        cls: type[Backend],
        cond: Tensor,
        true_: Any,
        false_: Any,
        *,
        allow_broadcast_all_sources: bool = False,
    ) -> Tensor:
        """`true_` where `cond`, else `false_`; both Tensors or numbers. → {… of all}"""
        yes, no = getattr(true_, "sig", None), getattr(false_, "sig", None)
        key = ("where", yes and yes.serial, no and no.serial, allow_broadcast_all_sources)
        found: Any = cond.sig.plans.get(key)
        out = found and found[3]()
        if not out:
            out, found = _plan_where([cond.sig, yes, no], allow_broadcast_all_sources)
            cond.sig.keep(key, found)
        how_c, how_t, how_f, _ = found
        lengths, raw_t, raw_f = cond.lengths, true_, false_
        if yes is not None:
            lengths = lengths if lengths is true_.lengths else lengths.join(true_.lengths, cond.sig, yes)
            raw_t = true_._raw if how_t is None else cls.move_raw(true_._raw, how_t)
        if no is not None:
            lengths = lengths if lengths is false_.lengths else lengths.join(false_.lengths, out, no)
            raw_f = false_._raw if how_f is None else cls.move_raw(false_._raw, how_f)
        raw_c = cond._raw if how_c is None else cls.move_raw(cond._raw, how_c)
        return tensor_of(cls.where_raw(raw_c, raw_t, raw_f), out, lengths)

    @classmethod
    def cast(cls, tensor: Tensor, dtype: str) -> Tensor:
        """The same numbers in another type."""
        raw = cls.cast_raw(tensor._raw, dtype)
        return tensor if raw is tensor._raw else tensor_of(raw, tensor.sig, tensor.lengths)


def _plan_where(sigs: Sequence[Sig | None], allow: bool) -> tuple[Sig, tuple[Any, ...]]:
    given = [s for s in sigs if s is not None]
    dims, _ = align.broadcast([s.dims for s in given])
    if not allow:
        names = [name for name, s in zip(("`cond`", "`true_`", "`false_`"), sigs, strict=True) if s is not None]
        align.check_all_in_one([s.dims for s in given], dims, "where", names)
    values = [s for s in sigs[1:] if s is not None]
    sparse = next((s.sparse_dim for s in values if s.sparse_dim is not None), None)
    out = align.sig(dims, sparse, next((s.feature_dim for s in values if s.feature_dim is not None), None))
    how = [None if s is None else align.move(s.dims, dims) for s in sigs]
    return out, (*how, weakref.ref(out))


def plan(
    a: Sig, b: Sig, sign: int, kind: str, allow: bool | None = None, order: Sequence[Dim] | None = None
) -> tuple[align.Move, align.Move, Sig]:
    """How to bring two operands together; kept at the first signature, where the quick operators look.

    sign: 1 for arithmetic, -1 for comparisons, whose results are no labels.
    """
    key = sign * b.serial
    found = a.plans.get(key) if order is None else None
    out = found and found[2]()
    if found is not None and out:
        return found[0], found[1], out
    dims, (how_a, how_b) = align.broadcast([a.dims, b.dims], order)
    if not allow and order is None:
        align.check_all_in_one([a.dims, b.dims], dims, kind, ("`a`", "`b`"))
    sparse = a.sparse_dim or b.sparse_dim if sign > 0 else None
    out = align.sig(dims, sparse, _feature(a, b))
    if not allow and order is None:
        lacking = (lacks_frames(a, b), lacks_frames(b, a)) if out.frames else (False, False)
        a.keep(key, (how_a, how_b, weakref.ref(out), *lacking))
    return how_a, how_b, out


def lacks_frames(some: Sig, other: Sig) -> bool:
    """Whether `other` has an axis with lengths that `some` has not."""
    return any(dim not in some.index for dim in other.dims if dim.roots)


def _feature(a: Sig, b: Sig) -> Dim | None:
    return a.feature_dim or b.feature_dim


def join(first: Tensor, *others: Tensor) -> Lengths:
    """The lengths of a result of all these tensors. Raises DimRebound if two disagree."""
    lengths = first.lengths
    for other in others:
        lengths = lengths.join(other.lengths, first.sig, other.sig)
    return lengths
