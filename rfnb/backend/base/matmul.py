"""Products of tensors over dims."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.core import align
from rfnb.core.align import Sig
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class Product(NamedTuple):
    """How to multiply two raw tensors. `einsum`: by this formula; else `matmul` after the moves."""

    how_a: align.Move
    how_b: align.Move
    squeeze: tuple[int, ...]
    einsum: tuple[Sequence[int], Sequence[int], Sequence[int]] | None
    out: weakref.ref[Sig]


class MatmulOps:
    """Raw part: `matmul_raw(a, b)`, `einsum_raw(a, axes_a, b, axes_b, axes_out)`."""

    matmul_raw: Callable[[Any, Any], Any]
    einsum_raw: Callable[[Any, Sequence[int], Any, Sequence[int], Sequence[int]], Any]
    where_raw: Callable[[Any, Any, Any], Any]

    @classmethod
    def matmul(cls: type[Backend], a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:  # type: ignore[misc]
        """Σ over `reduce` of a·b. {shared…, I…, reduce}, {shared…, reduce, K…} → {shared…, I…, K…}

        Padding in `reduce` does not count, whatever it holds.
        """
        dims = (reduce,) if isinstance(reduce, Dim) else tuple(reduce)
        key = ("matmul", b.sig.serial, *[dim.serial for dim in dims])
        how = a.sig.plans.get(key)
        out = how and how.out()
        if not out:
            out, how = _plan(a, b, dims)
            a.sig.keep(key, how)
        lengths = a.lengths.join(b.lengths, a.sig, b.sig)
        raw_a, raw_b = a._raw, b._raw
        if use_mask and (a.lengths.sizes or b.lengths.sizes):
            raw_a, raw_b = _masked(cls, a, dims), _masked(cls, b, dims)
        if how.einsum is not None:
            raw = cls.einsum_raw(raw_a, how.einsum[0], raw_b, how.einsum[1], how.einsum[2])
        else:
            raw = cls.matmul_raw(align.apply(how.how_a, raw_a), align.apply(how.how_b, raw_b))
            for axis in how.squeeze:
                raw = raw.squeeze(axis)
        return tensor_of(raw, out, lengths)


def _masked(backend: Any, x: Tensor, dims: Sequence[Dim]) -> Any:
    return backend.fill_padding(x, 0, dims)


def _plan(a: Tensor, b: Tensor, reduce: tuple[Dim, ...]) -> tuple[Sig, Product]:
    for name, x in (("a", a), ("b", b)):
        missing = [dim for dim in reduce if dim not in x.sig.index]
        if missing:
            raise DimError(
                f"matmul: `{name}` has no dim {missing[0].name}",
                got=x.describe_dims(),
                expected="all of `reduce`",
                hint=align.nearest(missing[0], x.dims),
            )
    shared = [d for d in a.dims if d in b.sig.index and d not in reduce]
    rows = [d for d in a.dims if d not in b.sig.index]
    cols = [d for d in b.dims if d not in a.sig.index]
    feature = next((f for f in (b.feature_dim, a.feature_dim) if f and f not in reduce), None)
    out = align.sig([*shared, *rows, *cols], None, feature)
    ref = weakref.ref(out)
    if len(reduce) == 1 and len(cols) <= 1 and (len(rows) <= 1 or not shared):
        row_gap, col_gap = ([] if rows else [None]), ([] if cols else [None])
        how_a = _move(a, [*shared, *rows, *row_gap, *reduce])
        how_b = _move(b, [*shared, *reduce, *cols, *col_gap])
        squeeze = ([] if cols else [-1]) + ([] if rows else [-1 if not cols else -2])
        return out, Product(how_a, how_b, tuple(squeeze), None, ref)
    number = {dim: i for i, dim in enumerate([*out.dims, *reduce])}
    axes = [[number[d] for d in x.dims] for x in (a, b)]
    return out, Product(None, None, (), (axes[0], axes[1], [number[d] for d in out.dims]), ref)


def _move(x: Tensor, order: Sequence[Dim | None]) -> align.Move:
    perm = tuple(x.sig.index[d] for d in order if d is not None)
    index = tuple(None if d is None else slice(None) for d in order) if None in order else None
    in_order = perm == tuple(range(len(perm)))
    return None if in_order and index is None else (None if in_order else perm, index)
