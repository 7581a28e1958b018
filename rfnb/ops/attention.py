"""Dot-product attention (Vaswani et al. 2017)."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, require_owner_dims
from rfnb.backend.base.sizes import require_no_inner_dims, size_in
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError, DimRebound
from rfnb.ops.create import range_over_dim
from rfnb.ops.math import add, compare_bc, mul, where
from rfnb.ops.matmul import matmul
from rfnb.ops.random import attention_dropout_broadcast_default, dropout, in_training
from rfnb.ops.reduce import softmax
from rfnb.ops.shape import replace_dim


@guarded
def dot_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    key_dim: Dim,
    axis: Dim,
    att_dropout: Probability = 0.0,
    att_dropout_broadcast: bool | None = None,
    causal_query_spatial_dim: Dim | None = None,
    scale: float | None = None,
) -> Tensor:
    """The mean of `values` over `axis`, weighted by softmax(query · keys · scale).

    {…, key_dim}, {…, axis, key_dim}, {…, axis, values…} → {…, values…}. One kernel computes it, except in loops
    and while a listener observes the weights, or with `att_dropout_broadcast`. If `query` has `axis` too, this is
    self-attention: each frame of the query sees all frames of the keys, as if these had a dim of their own.

    Args:
        att_dropout: dropout probability of the weights, in training.
        att_dropout_broadcast: whether the same keys are dropped for all sequences, heads and queries.
        causal_query_spatial_dim: a dim of `query` as long as `axis`, or `axis`: each query sees the keys up to its own.
        scale: by default 1 / √key_dim.

    >>> time, key, value = rf.Dim(3, name="time"), rf.Dim(2, name="key"), rf.Dim(1, name="value")
    >>> values = rf.convert_to_tensor([[1.0], [2.0], [6.0]], dims=[time, value])
    >>> rf.dot_attention(rf.zeros([key]), rf.ones([time, key]), values, key_dim=key, axis=time).raw_tensor.tolist()
    [3.0]
    """
    for name, x, dim in (
        ("query", query, key_dim),
        ("keys", keys, key_dim),
        ("keys", keys, axis),
        ("values", values, axis),
    ):
        axis_of("dot_attention", x, dim, name)
    scale = 1 / math.sqrt(key_dim.get_dim_value()) if scale is None else scale
    if causal_query_spatial_dim is not None:
        axis_of("dot_attention", query, causal_query_spatial_dim, "query")
        _check_lengths(query, keys, causal_query_spatial_dim, axis)
    return attend(
        query,
        keys,
        values,
        key_dim=key_dim,
        axis=axis,
        scale=scale,
        causal=causal_query_spatial_dim,
        att_dropout=att_dropout,
        att_dropout_broadcast=att_dropout_broadcast,
    )


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    key_dim: Dim,
    axis: Dim,
    scale: float,
    causal: Dim | None = None,
    bias: Tensor | None = None,
    att_dropout: Probability = 0.0,
    att_dropout_broadcast: bool | None = None,
) -> Tensor:
    """`dot_attention` with a `bias` {…, axis} of the energy, in the order of `query`.

    If `query` has `axis`, its frames are those of the keys. There must be no NaN in the padding of `bias`.
    """
    if axis in keys.lengths.owners:
        require_no_inner_dims("attention", keys, [axis])
    if query.sig.index.keys().isdisjoint(keys.size_of(axis).dims):
        require_owner_dims("attention", keys, (axis,))
    listener = active_listener()
    result: Tensor | None = None
    broadcast = attention_dropout_broadcast_default() if att_dropout_broadcast is None else att_dropout_broadcast
    dropped = att_dropout if att_dropout and in_training(query, func=dropout) else 0.0
    extended = own_axis(query, keys, values, axis=axis) if listener is not None and axis in query.sig.index else None
    if (listener is None or listener.takes_kernels) and not (dropped and broadcast) and 0.0 <= dropped <= 1.0:
        result = _in_one_kernel(query, keys, values, key_dim, axis, causal is not None, scale, bias, dropped)
        if result is not None and listener is None:
            return result
    if axis in query.sig.index:
        keys, values, axis = extended or own_axis(query, keys, values, axis=axis)
    how: dict[str, Any] = {"key_dim": key_dim, "axis": axis, "causal": causal, "scale": scale, "bias": bias}
    if result is not None and listener is not None:
        listener.attention(query, keys, values, **how, result=result)
        return result
    weights = attention_weights(query, keys, **how)
    weights = dropout(weights, att_dropout, axis=axis if broadcast else None)
    result = matmul(weights, values, reduce=axis, use_mask=not values.lengths.finite)  # weights are 0 in padding
    return result.copy_transpose(_in_order(result.dims, query.dims, key_dim))


def _in_one_kernel(
    query: Tensor, keys: Tensor, values: Tensor, key_dim: Dim, axis: Dim, causal: bool, scale: float,
    bias: Tensor | None, dropped: float,
) -> Tensor | None:  # fmt: skip
    """`attend`, where each weight is dropped with probability `dropped`; None if no kernel can do it.

    {…, rows, key_dim}, {…, axis, key_dim}, {…, axis, v}, {…, rows, axis} → {…, rows, v}
    """
    backend: type[Backend] = backend_of_raw(query._raw)
    if backend.attention_raw is None or keys.size_of(axis).min <= 0:
        return None
    plan = _plan(query.sig, keys.sig, values.sig, key_dim, axis, None if bias is None else bias.sig)
    if plan is None:
        return None
    how, out = plan
    query, keys, values = backend.finite_operand(query), backend.finite_operand(keys), backend.finite_operand(values)
    mask = None if causal else backend.mask_for(keys, (axis,))  # no valid query sees padding after itself
    raw_bias = None if bias is None else backend.move_raw(bias._raw, how.bias)
    raw_query = backend.move_raw(query._raw, how.query)
    raw = backend.attention_raw(
        raw_query if how.rows else raw_query[..., None, :],
        backend.move_raw(keys._raw, how.keys),
        backend.move_raw(values._raw, how.values),
        None if mask is None else backend.move_raw(mask, how.mask),
        causal,
        scale,
        raw_bias if how.rows or raw_bias is None else raw_bias[..., None, :],
        dropped,
    )
    return tensor_of(backend.move_raw(raw if how.rows else raw[..., 0, :], how.back), out, join(query, keys, values))


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


_keys_axes: weakref.WeakKeyDictionary[Dim, Dim] = weakref.WeakKeyDictionary()


def own_axis(query: Tensor, keys: Tensor, values: Tensor, *, axis: Dim) -> tuple[Tensor, Tensor, Dim]:
    """Keys and values of self-attention with a separate dim in place of `axis`, and that dim.

    All layers and batches share the dim, and so its plans and masks. It is a new one while a listener is active,
    or if a tensor has the shared one already.
    """
    shared = active_listener() is None and not any(_keys_axes.get(axis) in x.sig.index for x in (query, keys, values))
    keys, keys_axis = replace_dim(keys, in_dim=axis, out_dim=_keys_axes.get(axis) if shared else None)
    values, _ = replace_dim(values, in_dim=axis, out_dim=keys_axis)
    if shared:
        _keys_axes[axis] = keys_axis
    return keys, values, keys_axis


def attention_weights(
    query: Tensor, keys: Tensor, *, key_dim: Dim, axis: Dim, causal: Dim | None, scale: float, bias: Tensor | None
) -> Tensor:
    """softmax(query · keys · scale + bias) over `axis`. {…, key_dim}, {…, axis, key_dim} → {…, axis}

    causal: a dim of `query`; each query sees the keys up to its own. There must be no NaN in padding.
    """
    energy = matmul(mul(query, scale), keys, reduce=key_dim)
    energy = energy if bias is None else add(energy, bias)
    if causal is not None:
        energy = where(_up_to_itself(axis, causal, energy), energy, float("-inf"))
    return softmax(energy, axis=axis)


@op(frames="any")
def relative_scores(
    query: Tensor, positions: Tensor, like: Tensor, *, key_dim: Dim, axis: Dim, queries: Dim, keys: Dim
) -> Tensor:
    """query · position of each key, seen from the query (Dai et al. 2019, appendix B).

    {…, queries, key_dim}, {axis, …, key_dim} → {…, queries, keys}. `axis` are the distances, from that of the
    last query and the first key on, as in `rf.relative_positional_encoding`; `like` has `keys`.

    Raises DimRebound if the distances are those of another batch.
    """
    if queries in query.sig.index:
        sizes = [size_in(query, queries), size_in(like, keys), size_in(positions, axis)]
        if not any(size.traced for size in sizes) and sizes[0].max + sizes[1].max - 1 not in (sizes[2].max, -1):
            raise DimRebound(
                f"relative positions: {queries.name} has the lengths of a later batch",
                got=f"{sizes[2].max} distances for {sizes[0].max} queries and {sizes[1].max} keys",
                expected="tensors of the batch that was made last",
                hint=f"make the batch again, or give {queries.name} its lengths: rf.convert_to_tensor(…, lengths=…)",
                dims=[queries],
            )
    backend: type[Backend] = backend_of_raw(query._raw)
    query = backend.finite_operand(query)
    parts = [dim for dim in positions.dims if dim not in (axis, key_dim)]
    outer = [dim for dim in query.dims if dim not in (*parts, queries, key_dim)]
    rows = [*outer, *([queries] if queries in query.sig.index else [])]
    raw_query = align.apply(align.move(query.dims, [*parts, *rows, key_dim]), query._raw)
    raw_positions = align.apply(align.move(positions.dims, [*parts, key_dim, axis]), positions._raw)
    shape, n = backend.get_shape_tuple_raw(raw_query), len(parts)
    flat = backend.merge_axes_raw(raw_query, n, len(rows)) if rows else backend.expand_dims_raw(raw_query, n)
    raw = backend.matmul_raw(flat, raw_positions)
    raw = backend.split_axis_raw(raw, n, shape[n:-1]) if rows else backend.squeeze_raw(raw, (n,))
    if queries in query.sig.index:
        raw = backend.relative_shift_raw(raw, backend.get_shape_tuple_raw(like._raw)[like.sig.index[keys]])
    return tensor_of(raw, align.sig([*parts, *rows, keys]), join(query, positions, like))


@op(frames="any")
def relative_shift(scores: Tensor, *, axis: Dim, queries: Dim, keys: Dim) -> Tensor:
    """Scores of each distance as scores of each key, seen from the query. {…, queries, axis} → {…, queries, keys}

    `axis` are the distances as in `relative_scores`. All of them count, also where sequences are shorter.
    """
    axis_of("relative_shift", scores, axis, "scores")
    backend: type[Backend] = backend_of_raw(scores._raw)
    rows = [queries] if queries in scores.sig.index else []
    outer = [dim for dim in scores.dims if dim not in (queries, axis)]
    raw = align.apply(align.move(scores.dims, [*outer, *rows, axis]), scores._raw)
    out, lengths = align.sig([*outer, *rows, keys]), scores.lengths
    if lengths.size(keys) is None:
        lengths = lengths.join(current_lengths([keys]), scores.sig, align.sig([keys]))
    raw = backend.relative_shift_raw(raw, lengths[keys].max) if rows else raw
    return tensor_of(raw, out, lengths)


def _in_order(found: Sequence[Dim], query: Sequence[Dim], key_dim: Dim) -> list[Dim]:
    """The dims of `query` in its order, then the others; the dims of the values stand in place of `key_dim`."""
    value_dims = [dim for dim in found if dim is key_dim or dim not in query]
    return [new for dim in query for new in (value_dims if dim is key_dim else [dim])]


def _check_lengths(query: Tensor, keys: Tensor, dim: Dim, axis: Dim) -> None:
    if not size_in(query, dim).agrees(size_in(keys, axis)):
        raise DimError(
            "dot_attention: `causal` needs the same number of queries and keys",
            got=f"{query.lengths.describe(dim)} and {keys.lengths.describe(axis)}",
            expected="two dims of equal lengths, or one dim",
        )


def _up_to_itself(axis: Dim, query: Dim, like: Tensor) -> Tensor:
    """Whether a key is not after the query. → {query, axis} bool"""
    keys, queries = (range_over_dim(dim, device=like.device) for dim in (axis, query))
    return compare_bc(keys, "less_equal", queries)
