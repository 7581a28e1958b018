"""Elementwise ops: plan on dims, then one raw call."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core import align
from rfnb.core.align import Sig
from rfnb.core.dim import Dim
from rfnb.core.lengths import Lengths
from rfnb.core.tensor import Tensor, tensor_of


class MathOps:
    """Raw part: `combine_raw`, `compare_raw`, `activation_raw`, `where_raw`, `clip_raw`."""

    combine_raw: Callable[[Any, str, Any], Any]
    compare_raw: Callable[[Any, str, Any], Any]
    activation_raw: Callable[[Any, str], Any]
    where_raw: Callable[[Any, Any, Any], Any]
    cast_raw: Callable[[Any, str], Any]

    @classmethod
    def combine(
        cls, a: Tensor, kind: str, b: Tensor, *, allow_broadcast_all_sources: bool | None = None, dim_order: Sequence[Dim] | None = None
    ) -> Tensor:
        """a kind b: "add", "sub", "mul", … {…a}, {…b} → {… of both}"""
        how_a, how_b, out = plan(a.sig, b.sig, 1, kind, allow_broadcast_all_sources, dim_order)
        lengths = a.lengths.join(b.lengths, a.sig, b.sig)
        return tensor_of(cls.combine_raw(align.apply(how_a, a._raw), kind, align.apply(how_b, b._raw)), out, lengths)

    @classmethod
    def compare(
        cls, a: Tensor, kind: str, b: Tensor, *, allow_broadcast_all_sources: bool | None = None, dim_order: Sequence[Dim] | None = None
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
    def where(cls, cond: Tensor, true_: Tensor, false_: Tensor, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """`true_` where `cond`, else `false_`. → {… of all}"""
        signature = true_.sig
        key = ("where", cond.sig.serial, false_.sig.serial)
        found = signature.plans.get(key)
        out = found and found[3]()
        if not out:
            operands = (cond.sig, signature, false_.sig)
            dims, (how_c, how_t, how_f) = align.broadcast([s.dims for s in operands])
            if not allow_broadcast_all_sources:
                align.check_all_in_one([s.dims for s in operands], dims, "where", ("`cond`", "`true_`", "`false_`"))
            out = align.sig(dims, signature.sparse_dim or false_.sparse_dim, _feature(signature, false_.sig))
            found = (how_c, how_t, how_f, weakref.ref(out))
            if not allow_broadcast_all_sources:
                signature.keep(key, found)
        lengths = join(cond, true_, false_)
        how_c, how_t, how_f, _ = found
        raw = cls.where_raw(
            align.apply(how_c, cond._raw), align.apply(how_t, true_._raw), align.apply(how_f, false_._raw)
        )
        return tensor_of(raw, out, lengths)

    @classmethod
    def cast(cls, tensor: Tensor, dtype: str) -> Tensor:
        """The same numbers in another type."""
        return tensor if tensor.dtype == dtype else tensor.like(cls.cast_raw(tensor._raw, dtype))


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
        a.keep(key, (how_a, how_b, weakref.ref(out)))
    return how_a, how_b, out


def _feature(a: Sig, b: Sig) -> Dim | None:
    return a.feature_dim or b.feature_dim


def join(first: Tensor, *others: Tensor) -> Lengths:
    """The lengths of a result of all these tensors. Raises DimRebound if two disagree."""
    lengths = first.lengths
    for other in others:
        lengths = lengths.join(other.lengths, first.sig, other.sig)
    return lengths
