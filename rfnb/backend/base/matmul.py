"""Products of tensors over dims."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.mask import Rows, sized
from rfnb.backend.base.require import (
    FULL_LENGTH,
    axis_of,
    explain_dtypes,
    require_distinct,
    require_owner_dims,
    require_same_dims,
)
from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


Product = Callable[[RawTensor, RawTensor], RawTensor]
ProductPlan = tuple[Product, weakref.ref[Sig], tuple[Dim, ...], tuple[tuple[Dim, ...], tuple[Dim, ...]] | None, bool]
"""The product of two raw tensors, the signature of the result, the summed dims, those of each operand that may have
padding (None: there are none), and whether an operand may have padding."""


@dataclass(frozen=True, slots=True)
class LinearPlan:
    """How to apply a weight matrix: moves of the source and of the result, and the signature of the result."""

    there: align.Move
    transpose: bool
    back: align.Move
    axis: Dim
    sizes: tuple[int, int]
    out: weakref.ref[Sig]


LEAST_PADDING, LEAST_PRODUCTS = 96, 2_000_000
"""A linear map of the frames alone is faster if its narrower side, times the share of padding, and the number of
products in the padding are at least these. With fewer products per copied number, what is faster depends on the CPU."""


class MatmulOps:
    """Raw part: `matmul_raw(a, b)`, `einsum_raw(a, axes_a, b, axes_b, axes_out)`,
    `linear_raw(x, weight, bias, transpose)`; where a backend has it, `linear_of_rows_raw(…, *rows[1:])` with Rows,
    which computes the frames only.
    """

    matmul_raw: Callable[[RawTensor, RawTensor], RawTensor]
    linear_of_rows_raw: Any = None
    einsum_raw: Callable[[RawTensor, Sequence[int], RawTensor, Sequence[int], Sequence[int]], RawTensor]
    linear_raw: Callable[[RawTensor, RawTensor, RawTensor, bool], RawTensor]

    @classmethod
    def matmul(cls: type[Backend], a: Tensor, b: Tensor, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """Σ over `reduce` of a·b. {shared…, I…, reduce}, {shared…, reduce, K…} → {shared…, I…, K…}

        Padding in `reduce` does not count. Of two axes of a square matrix, `reduce` is the one with
        the higher priority: {batch, feat}, {feat(1), feat} → {batch, feat}.
        """
        out, key = None, (reduce, b.sig.serial, cls)
        try:
            plan: ProductPlan | None = a.sig.plans.get(key)
        except TypeError:  # a list of dims
            return cls.matmul(a, b, tuple(reduce), use_mask)  # type: ignore[arg-type]
        if plan is not None:
            product, ref, summed, dynamic, ragged = plan
            out = ref()
        if out is None:
            dims = (reduce,) if isinstance(reduce, Dim | int | str) else reduce
            require_distinct("matmul", "reduce", dims)
            out, plan = _plan(cls, a, b, dims)  # type: ignore[arg-type]
            product, _, summed, dynamic, ragged = a.sig.keep(key, plan)
        if ragged:
            a = cls.finite_operand(a) if a.lengths.ragged else a
            b = cls.finite_operand(b) if b.lengths.ragged else b
        lengths, raw_a, raw_b = a.lengths, a._raw, b._raw
        if lengths is not b.lengths and b.lengths is not EMPTY:
            lengths = lengths.join(b.lengths, a.sig, b.sig)
        if ragged and use_mask and lengths.ragged:
            padded: Any = dynamic if lengths.owners.isdisjoint(summed) else (None, None)
            if padded is not None:
                raw_a, raw_b = _without_padding(cls, a, b, padded)
        try:
            raw = product(raw_a, raw_b)
        except RuntimeError as error:
            raise explain_dtypes(cls, "matmul", error, a=a, b=b) from None
        return tensor_of(raw, out, lengths)

    @classmethod
    def linear(
        cls: type[Backend],
        source: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        *,
        in_dim: Dim,
        out_dim: Dim,
        use_mask: bool = False,
    ) -> Tensor:
        """source · weight + bias. {…, in_dim}, {in_dim, out_dim}, {out_dim} → {…, out_dim}"""
        raw_bias, sig_bias = (None, None) if bias is None else (bias._raw, bias.sig.serial)
        key = ("linear", weight.sig.serial, sig_bias, in_dim.serial, out_dim.serial)
        plan: Any = source.sig.plans.get(key)
        out = plan and plan.out()
        if not out:
            if source.sparse_dim is in_dim or len(weight.dims) > 2 or (bias is not None and len(bias.dims) > 1):
                return _linear_in_parts(cls, source, weight, bias, in_dim, out_dim)
            out, plan = _plan_linear(source, weight, bias, in_dim, out_dim)
            source.sig.keep(key, plan)
        source = cls.finite_operand(source)
        raw = source._raw if plan.there is None else cls.move_raw(source._raw, plan.there)
        rows = _rows_for_linear(cls, source, plan) if use_mask and source.lengths.ragged else None
        try:
            if rows is None:
                raw = cls.linear_raw(raw, weight._raw, raw_bias, plan.transpose)
            else:
                raw = cls.linear_of_rows_raw(raw, weight._raw, raw_bias, plan.transpose, *rows[1:])
        except RuntimeError as error:
            raise explain_dtypes(cls, "linear", error, source=source, weight=weight) from None
        return tensor_of(raw if plan.back is None else cls.move_raw(raw, plan.back), out, source.lengths)


def _without_padding(backend: type[Backend], a: Tensor, b: Tensor, dims: tuple[Any, Any]) -> tuple[Any, Any]:
    """The raw operands of a product, so that the padding of `dims`, or of all dims, adds 0: one of them is 0 there."""
    over = [x.sig.dims if axes is None else axes for x, axes in zip((a, b), dims, strict=True)]
    uneven_a, uneven_b = sized(a, over[0]), sized(b, over[1])
    if not (uneven_a or uneven_b or dims[0] is None):
        require_owner_dims("matmul", a, dims[0], FULL_LENGTH)
        return a._raw, b._raw
    if set(uneven_a) != set(uneven_b):
        return backend.fill_padding(a, 0, over[0]), backend.fill_padding(b, 0, over[1])
    if backend.is_empty_in_padding(a, over[0]) or backend.is_empty_in_padding(b, over[1]):
        return a._raw, b._raw
    if len(a.dims) < len(b.dims):
        return backend.fill_padding(a, 0, over[0]), b._raw
    return a._raw, backend.fill_padding(b, 0, over[1])


def _linear_in_parts(
    backend: type[Backend], source: Tensor, weight: Tensor, bias: Tensor | None, in_dim: Dim, out_dim: Dim
) -> Tensor:
    """`linear` for labels, or for weights with more dims."""
    if source.sparse_dim is in_dim:
        picked = backend.gather(source=weight, indices=source, axis=in_dim)
        product = picked.like(picked._raw, align.sig(picked.dims, None, out_dim))
    else:
        product = backend.matmul(source, weight, reduce=in_dim)
    return product if bias is None else backend.combine(product, "add", bias, allow_broadcast_all_sources=True)


def _rows_for_linear(backend: type[Backend], source: Tensor, plan: LinearPlan) -> Rows | None:
    """The frames of the source, if it is faster to compute no padding."""
    large = min(plan.sizes) > LEAST_PADDING
    rows = backend.rows_for(source, source.sig.dims, (plan.axis,)) if large else None
    if rows is None:
        return None
    padding, frames = (backend.get_shape_tuple_raw(numbers)[0] for numbers in rows[:2])
    share = padding * min(plan.sizes) / (frames + padding)
    return rows if share >= LEAST_PADDING and padding * math.prod(plan.sizes) >= LEAST_PRODUCTS else None


def _plan_linear(
    source: Tensor, weight: Tensor, bias: Tensor | None, in_dim: Dim, out_dim: Dim
) -> tuple[Sig, LinearPlan]:
    axis, rows = source.sig.resolve(in_dim), weight.sig.resolve(in_dim)
    place = axis_of("linear", source, axis)
    require_same_dims("linear", weight, (rows, out_dim), "weight")
    if bias is not None:
        require_same_dims("linear", bias, (out_dim,), "bias")
    outer = [dim for dim in source.dims if dim is not axis]
    out = align.sig([*outer[:place], out_dim, *outer[place:]], None, out_dim)
    front, back = align.move(source.dims, [*outer, axis]), align.move([*outer, out_dim], out.dims)
    sizes = (axis.dimension or 0, out_dim.dimension or 0)
    return out, LinearPlan(front, weight.dims == (rows, out_dim), back, axis, sizes, weakref.ref(out))


def _dynamic(dims: Iterable[Dim]) -> tuple[Dim, ...]:
    return tuple(dim for dim in dims if dim.dimension is None)


def _plan(backend: type[Backend], a: Tensor, b: Tensor, reduce: tuple[Dim, ...]) -> tuple[Sig, ProductPlan]:
    over_a, over_b = a.sig.resolve_all(reduce), b.sig.resolve_all(reduce)
    try:
        for name, x, over in (("a", a, over_a), ("b", b, over_b)):
            for dim in over:
                axis_of("matmul", x, dim, name)
    except DimError as error:
        names = [called(dim) for dim in a.dims if dim in b.sig.index]
        error.hint = error.hint or (f"reduce={' or '.join(names)}" if names else "`a` and `b` share no dim")
        raise
    rest_a, rest_b = [d for d in a.dims if d not in over_a], [d for d in b.dims if d not in over_b]
    shared = [d for d in rest_a if d in rest_b]
    rows = [d for d in rest_a if d not in rest_b]
    cols = [d for d in rest_b if d not in rest_a]
    feature = next((f for f, rest in ((b.feature_dim, rest_b), (a.feature_dim, rest_a)) if f in rest), None)
    if feature is None:
        feature = _of_weight(a, b, over_a, cols) or _of_weight(b, a, over_b, rows)
    out = align.sig([*shared, *rows, *cols], None, feature)
    dynamic = _dynamic(over_a), _dynamic(over_b)
    ragged = bool(a.sig.frames or b.sig.frames)
    common = weakref.ref(out), (*over_a, *over_b), dynamic if any(dynamic) else None, ragged
    if len(reduce) == 1 and len(cols) <= 1 and (len(rows) <= 1 or not shared):
        row_gap, col_gap = ([] if rows else [None]), ([] if cols else [None])
        how_a = _move(a, [*shared, *rows, *row_gap, *over_a])
        how_b = _move(b, [*shared, *over_b, *cols, *col_gap])
        squeeze = ([] if cols else [-1]) + ([] if rows else [-1 if not cols else -2])
        return out, (_matmul(backend, how_a, how_b, squeeze), *common)
    number = {dim: i for i, dim in enumerate(out.dims)}
    axes = []
    for x, over in ((a, over_a), (b, over_b)):
        summed = {dim: len(number) + i for i, dim in enumerate(over)}
        axes.append([summed[d] if d in summed else number[d] for d in x.dims])
    in_out = [number[d] for d in out.dims]
    return out, (lambda raw_a, raw_b: backend.einsum_raw(raw_a, axes[0], raw_b, axes[1], in_out), *common)


def _matmul(backend: type[Backend], how_a: align.Move, how_b: align.Move, squeeze: Sequence[int]) -> Product:
    """`matmul` of operands that are moved there, without the axes `squeeze` of the result."""

    def product(raw_a: RawTensor, raw_b: RawTensor) -> RawTensor:
        raw = backend.matmul_raw(backend.move_raw(raw_a, how_a), backend.move_raw(raw_b, how_b))
        for axis in squeeze:
            raw = raw.squeeze(axis)
        return raw

    return product if how_a or how_b or squeeze else backend.matmul_raw


def _of_weight(x: Tensor, weight: Tensor, over: Sequence[Dim], new: Sequence[Dim]) -> Dim | None:
    """The dim that a weight puts in the place of the features of `x`; None if `weight` is data or has several dims."""
    replaces = x.feature_dim in over and len(new) == 1 and weight.feature_dim is None
    return new[0] if replaces and all(dim.dimension is not None for dim in weight.dims) else None


def _move(x: Tensor, order: Sequence[Dim | None]) -> align.Move:
    perm = tuple(x.sig.index[d] for d in order if d is not None)
    index = tuple(None if d is None else slice(None) for d in order) if None in order else None
    in_order = perm == tuple(range(len(perm)))
    return None if in_order and index is None else (None if in_order else perm, index)
