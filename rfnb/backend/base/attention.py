"""Attention in one kernel, where the dims allow it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rfnb.backend.base.math import join
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


@dataclass(frozen=True)
class RawStep:
    """How a call of attention continues the last one at the same place in the code.

    call: number of the call of the outermost module that it is in. keys: "same" if its keys are those of the last call,
    "more" if some came after them, "slid" if some came after the last ones of them, "written" if some were written into
    the same tensor, "again" if all of them were computed again with some after them, else "new". parents: of each
    sequence of the batch, its place in the batch of the last call, where its keys say so. alike: whether several
    sequences of that batch have the same keys.
    """

    call: int
    keys: Literal["same", "more", "slid", "written", "again", "new"] = "new"
    parents: tuple[int, ...] | None = None
    alike: bool = False


@dataclass(frozen=True)
class RawAttention:
    """Attention that a function on raw tensors computed.

    path: path of the module. place: (code, instruction) of the user's line. shape: shape of the weights, [batch, heads,
    rows, columns], where the second, or the first two may be missing. make: computes the weights. bytes: memory kept
    for that. step: None if the keys were not seen.
    """

    path: str
    place: tuple[Any, int] | None
    shape: tuple[int, ...]
    make: Callable[[], Any]
    bytes: int
    step: RawStep | None = None


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """How to move the operands to where the kernel needs them, and its result back into the order of the queries."""

    query: align.Move
    keys: align.Move
    values: align.Move
    bias: align.Move
    mask: align.Move  # of the mask of the keys, in which `key_dim` has size 1
    rows: bool  # whether the queries have an axis that the keys lack
    back: align.Move
    out: weakref.ref[Sig]


class AttentionOps:
    """Raw part: `attention_raw(query, keys, values, mask, causal, scale, bias, dropout)` on […, frames, features];
    `relative_shift_raw(scores, keys)` on […, queries, distances]; `turn_pairs_raw(x, cosines, sines)`.
    """

    attention_raw: Any = None
    relative_shift_raw: Callable[[RawTensor, int], RawTensor]
    turn_pairs_raw: Callable[[RawTensor, RawTensor, RawTensor], RawTensor]

    @classmethod
    def watching_attention(
        cls, see: Callable[[RawAttention], None], model: object
    ) -> AbstractContextManager[list[str]]:
        """Inside, `see` is called with each attention that other code than rfnb computes on raw tensors.

        model: the module to observe; None observes everything. The list has, after the block, the paths of modules for
        attention whose softmax was not seen to weight values.
        """
        return nullcontext([])

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
        dropout: float = 0.0,
    ) -> Tensor | None:
        """softmax(query · keys · scale + bias) · values, where each weight is dropped with probability `dropout`.

        {…, rows, key_dim}, {…, axis, key_dim}, {…, axis, v}, {…, rows, axis} → {…, rows, v}

        The result has the order of `query`. There must be no NaN in the padding of `bias`. None if no kernel can do it.
        """
        if cls.attention_raw is None or keys.size_of(axis).min <= 0:
            return None
        plan = _plan(query.sig, keys.sig, values.sig, key_dim, axis, None if bias is None else bias.sig)
        if plan is None:
            return None
        how, out = plan
        query, keys, values = cls.finite_operand(query), cls.finite_operand(keys), cls.finite_operand(values)
        mask = None if causal else cls.mask_for(keys, (axis,))  # no valid query sees padding after itself
        raw_bias = None if bias is None else cls.move_raw(bias._raw, how.bias)
        raw_query = cls.move_raw(query._raw, how.query)
        raw = cls.attention_raw(
            raw_query if how.rows else raw_query[..., None, :],
            cls.move_raw(keys._raw, how.keys),
            cls.move_raw(values._raw, how.values),
            None if mask is None else cls.move_raw(mask, how.mask),
            causal,
            scale,
            raw_bias if how.rows or raw_bias is None else raw_bias[..., None, :],
            dropout,
        )
        return tensor_of(cls.move_raw(raw if how.rows else raw[..., 0, :], how.back), out, join(query, keys, values))

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

        """  # fmt: skip
        query = cls.finite_operand(query)
        parts = [dim for dim in positions.dims if dim not in (axis, key_dim)]
        outer = [dim for dim in query.dims if dim not in (*parts, queries, key_dim)]
        rows = [*outer, *([queries] if queries in query.sig.index else [])]
        raw_query = align.apply(align.move(query.dims, [*parts, *rows, key_dim]), query._raw)
        raw_positions = align.apply(align.move(positions.dims, [*parts, key_dim, axis]), positions._raw)
        shape, n = cls.get_shape_tuple_raw(raw_query), len(parts)
        flat = cls.merge_axes_raw(raw_query, n, len(rows)) if rows else cls.expand_dims_raw(raw_query, n)
        raw = cls.matmul_raw(flat, raw_positions)
        raw = cls.split_axis_raw(raw, n, shape[n:-1]) if rows else cls.squeeze_raw(raw, (n,))
        if queries in query.sig.index:
            raw = cls.relative_shift_raw(raw, cls.get_shape_tuple_raw(like._raw)[like.sig.index[keys]])
        return tensor_of(raw, align.sig([*parts, *rows, keys]), join(query, positions, like))

    @classmethod
    def relative_shift(cls: type[Backend], scores: Tensor, *, axis: Dim, queries: Dim, keys: Dim) -> Tensor:
        """Scores by distance as scores by key. {…, queries, axis} → {…, queries, keys}"""
        rows = [queries] if queries in scores.sig.index else []
        outer = [dim for dim in scores.dims if dim not in (queries, axis)]
        raw = align.apply(align.move(scores.dims, [*outer, *rows, axis]), scores._raw)
        out, lengths = align.sig([*outer, *rows, keys]), scores.lengths
        if lengths.size(keys) is None:
            lengths = lengths.join(current_lengths([keys]), scores.sig, align.sig([keys]))
        raw = cls.relative_shift_raw(raw, lengths[keys].max) if rows else raw
        return tensor_of(raw, out, lengths)

    @classmethod
    def turn_pairs(cls: type[Backend], x: Tensor, cosines: Tensor, sines: Tensor, *, feat_dim: Dim) -> Tensor:
        """Pairs of neighbours in `feat_dim` turned by angles. {…, feat_dim}, {…, feat_dim // 2} → {…, feat_dim}"""
        half = feat_dim // 2
        extra = [dim for dim in cosines.dims if dim is not half and dim not in x.sig.index]
        order = [*extra, *(dim for dim in x.dims if dim is not feat_dim)]
        raw = align.apply(align.move(x.dims, [*order, feat_dim]), x._raw)
        turns = [align.apply(align.move(y.dims, [*order, half]), y._raw) for y in (cosines, sines)]
        turned = cls.turn_pairs_raw(raw, *turns)
        return tensor_of(turned, align.sig([*order, feat_dim], None, x.feature_dim), join(x, cosines))


def _plan(
    query: Sig, keys: Sig, values: Sig, key_dim: Dim, axis: Dim, bias: Sig | None
) -> tuple[AttentionPlan, Sig] | None:
    """How to call the kernel, and the signature of the result; None if the kernel cannot do it.

    The plan is kept at the signature of the queries.
    """
    key = ("attention", keys.serial, values.serial, key_dim.serial, axis.serial, bias and bias.serial)
    plan: Any = query.plans.get(key)
    out = plan and plan.out()
    if out:
        return plan, out
    planned = _planned(query, keys, values, key_dim, axis, bias)
    if planned is not None:
        query.keep(key, planned[0])
    return planned


def _planned(
    query: Sig, keys: Sig, values: Sig, key_dim: Dim, axis: Dim, bias: Sig | None
) -> tuple[AttentionPlan, Sig] | None:
    shared = [dim for dim in query.dims if dim in keys.index and dim is not key_dim and dim is not axis]
    rows = [dim for dim in query.dims if dim not in keys.index or dim is axis]
    features = [dim for dim in values.dims if dim not in shared and dim is not axis]
    fits = len(rows) <= 1 and len(features) == 1 and features != rows and len(values.dims) == len(shared) + 2
    if not fits or set(keys.dims) != {*shared, axis, key_dim}:
        return None
    if bias is not None and (axis in rows or set(bias.dims) != {*shared, *rows, axis}):
        return None
    order = [features[0] if dim is key_dim else dim for dim in query.dims]
    out = align.sig(order, None, values.feature_dim)
    plan = AttentionPlan(
        query=align.move(query.dims, [*shared, *rows, key_dim]),
        keys=align.move(keys.dims, [*shared, axis, key_dim]),
        values=align.move(values.dims, [*shared, axis, *features]),
        bias=None if bias is None else align.move(bias.dims, [*shared, *rows, axis]),
        mask=align.move(keys.dims, [*shared, key_dim, axis]),
        rows=bool(rows),
        back=align.move([*shared, *rows, *features], order),
        out=weakref.ref(out),
    )
    return plan, out
