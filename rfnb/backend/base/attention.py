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
    """Raw part: `attention_raw(query, keys, values, mask, causal, scale)` on […, frames, features], if there is one."""

    attention_raw: Any = None

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
    ) -> Tensor | None:
        """softmax(query · keys · scale) · values. {…, rows, key_dim}, {…, axis, key_dim}, {…, axis, v} → {…, rows, v}

        There must be no NaN in padding. None if no kernel can do it.
        """
        shared = [dim for dim in query.dims if dim in keys.sig.index and dim is not key_dim]
        rows = [dim for dim in query.dims if dim not in keys.sig.index]
        features = [dim for dim in values.dims if dim not in shared and dim is not axis]
        fits = len(rows) <= 1 and len(features) == 1 and features != rows and len(values.dims) == len(shared) + 2
        if cls.attention_raw is None or not fits or set(keys.dims) != {*shared, axis, key_dim}:
            return None
        if not (keys.size_of(axis).values > 0).all():
            return None
        mask = None if causal else cls.mask_for(keys, (axis,))  # no valid query sees padding behind itself
        if mask is not None:
            mask = align.apply(align.move(keys.dims, [*shared, key_dim, axis]), mask)  # key_dim has size 1 there
        raw_query = align.apply(align.move(query.dims, [*shared, *rows, key_dim]), query._raw)
        raw = cls.attention_raw(
            raw_query if rows else raw_query[..., None, :],
            align.apply(align.move(keys.dims, [*shared, axis, key_dim]), keys._raw),
            align.apply(align.move(values.dims, [*shared, axis, *features]), values._raw),
            mask,
            causal,
            scale,
        )
        out = align.sig([*shared, *rows, *features], None, values.feature_dim)
        return tensor_of(raw if rows else raw[..., 0, :], out, join(query, keys, values))
