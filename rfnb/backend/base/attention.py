"""Attention in one kernel, where the dims allow it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.math import join
from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, tensor_of

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


@dataclass(frozen=True)
class RawAttention:
    """Attention that a function on raw tensors did.

    path: of its module. place: (code, instruction) of the user's line. shape: of the weights, [batch, heads, rows,
    columns], the first two where there are such. make: gives them; bytes: what is kept for that.
    """

    path: str
    place: tuple[Any, int] | None
    shape: tuple[int, ...]
    make: Callable[[], Any]
    bytes: int


class AttentionOps:
    """Raw part: `attention_raw(query, keys, values, mask, causal, scale, bias)` on […, frames, features], if any;
    `relative_shift_raw(scores, keys)` on […, queries, distances]; `turn_pairs_raw(x, cosines, sines)`.
    """

    attention_raw: Any = None
    relative_shift_raw: Callable[[Any, int], Any]
    turn_pairs_raw: Callable[[Any, Any, Any], Any]

    @classmethod
    def watching_attention(cls, see: Callable[[RawAttention], None], model: Any) -> AbstractContextManager[Any]:
        """Inside, `see` is told of attention that is done on raw tensors, by whoever is not rfnb.

        model: inside of which module; None: everywhere.
        """
        return nullcontext()

    @classmethod
    def fused_attention(
        cls: type[Backend],
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        key_dim: Dim,
        axis: Dim,
        causal: bool,
        scale: float,
        bias: Tensor | None = None,
    ) -> Tensor | None:
        """softmax(query · keys · scale + bias) · values.

        {…, rows, key_dim}, {…, axis, key_dim}, {…, axis, v}, {…, rows, axis} → {…, rows, v}

        The result has the order of `query`. There must be no NaN in padding. None if no kernel can do it.
        """
        shared = [dim for dim in query.dims if dim in keys.sig.index and dim is not key_dim and dim is not axis]
        rows = [dim for dim in query.dims if dim not in keys.sig.index or dim is axis]
        features = [dim for dim in values.dims if dim not in shared and dim is not axis]
        fits = len(rows) <= 1 and len(features) == 1 and features != rows and len(values.dims) == len(shared) + 2
        if cls.attention_raw is None or not fits or set(keys.dims) != {*shared, axis, key_dim}:
            return None
        if bias is not None and (axis in rows or set(bias.dims) != {*shared, *rows, axis}):
            return None
        if keys.size_of(axis).some_empty():
            return None
        mask = None if causal else cls.mask_for(keys, (axis,))  # no valid query sees padding behind itself
        if mask is not None:
            mask = align.apply(align.move(keys.dims, [*shared, key_dim, axis]), mask)  # key_dim has size 1 there
        raw_query, raw_bias = align.apply(align.move(query.dims, [*shared, *rows, key_dim]), query._raw), None
        if bias is not None:
            raw_bias = align.apply(align.move(bias.dims, [*shared, *rows, axis]), bias._raw)
            raw_bias = raw_bias if rows else raw_bias[..., None, :]
        raw = cls.attention_raw(
            raw_query if rows else raw_query[..., None, :],
            align.apply(align.move(keys.dims, [*shared, axis, key_dim]), keys._raw),
            align.apply(align.move(values.dims, [*shared, axis, *features]), values._raw),
            mask,
            causal,
            scale,
            raw_bias,
        )
        found = [*shared, *rows, *features]
        order = [features[0] if dim is key_dim else dim for dim in query.dims]
        raw = align.apply(align.move(found, order), raw if rows else raw[..., 0, :])
        return tensor_of(raw, align.sig(order, None, features[0]), join(query, keys, values))

    @classmethod
    def relative_scores(
        cls: type[Backend],
        query: Tensor,
        positions: Tensor,
        like: Tensor,
        *,
        key_dim: Dim,
        axis: Dim,
        queries: Dim,
        keys: Dim,
    ) -> Tensor:
        """query · position of each key. {…, queries, key_dim}, {axis, …, key_dim} → {…, queries, keys}

        Padding gives 0 and takes none of the gradient, which `matmul` would look after in all distances.
        """  # fmt: skip
        parts = [dim for dim in positions.dims if dim not in (axis, key_dim)]
        others = [dim for dim in query.dims if dim not in (*parts, queries, key_dim)]
        rows = [*others, *([queries] if queries in query.sig.index else [])]
        raw_query = align.apply(align.move(query.dims, [*parts, *rows, key_dim]), cls.fill_padding(query, 0))
        raw_positions = align.apply(align.move(positions.dims, [*parts, key_dim, axis]), positions._raw)
        shape, n = cls.get_shape_tuple_raw(raw_query), len(parts)
        flat = cls.merge_axes_raw(raw_query, n, len(rows)) if rows else cls.expand_dims_raw(raw_query, n)
        raw = cls.matmul_raw(flat, raw_positions)
        raw = cls.split_axis_raw(raw, n, shape[n:-1]) if rows else cls.squeeze_raw(raw, (n,))
        if queries in query.sig.index:
            raw = cls.relative_shift_raw(raw, cls.get_shape_tuple_raw(like._raw)[like.sig.index[keys]])
        return tensor_of(raw, align.sig([*parts, *rows, keys]), join(query, positions, like))

    @classmethod
    def turn_pairs(cls: type[Backend], x: Tensor, cosines: Tensor, sines: Tensor, *, feat_dim: Dim) -> Tensor:
        """Pairs of neighbours in `feat_dim` turned by angles. {…, feat_dim}, {…, feat_dim // 2} → {…, feat_dim}"""
        half = feat_dim // 2
        rest = [dim for dim in cosines.dims if dim is not half and dim not in x.sig.index]
        order = [*rest, *(dim for dim in x.dims if dim is not feat_dim)]
        raw = align.apply(align.move(x.dims, [*order, feat_dim]), x._raw)
        turns = [align.apply(align.move(y.dims, [*order, half]), y._raw) for y in (cosines, sines)]
        found = cls.turn_pairs_raw(raw, *turns)
        return tensor_of(found, align.sig([*order, feat_dim], None, x.feature_dim), join(x, cosines))
