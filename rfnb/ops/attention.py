"""Attention by products (Vaswani et al. 2017)."""

from __future__ import annotations

import math

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import size_in
from rfnb.core.dim import Dim
from rfnb.core.op import listener
from rfnb.core.raw import backend_of_raw
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.create import range_over_dim
from rfnb.ops.math import compare_bc, mul, where
from rfnb.ops.matmul import matmul
from rfnb.ops.random import dropout
from rfnb.ops.shape import replace_dim
from rfnb.ops.softmax import softmax


def dropout_broadcast_default() -> bool:
    """Whether attention drops the same weights for all sequences, heads and queries: no, each on its own."""
    return False


def dot_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    key_dim: Dim,
    axis: Dim,
    att_dropout: float = 0.0,
    att_dropout_broadcast: bool | None = None,
    causal_query_spatial_dim: Dim | None = None,
    scale: float | None = None,
) -> Tensor:
    """The mean of `values`, by weights softmax(query · keys · scale) over `axis`.

    {…, key_dim}, {…, axis, key_dim}, {…, axis, values…} → {…, values…}. Without dropout, and outside of loops and
    other places where the weights may be looked at, one kernel does it all.

    Args:
        att_dropout: of the weights, in training.
        att_dropout_broadcast: whether the same keys are dropped for all sequences, heads and queries.
        causal_query_spatial_dim: a dim of `query` as long as `axis`, or `axis`: each query sees the keys up to its own.
        scale: 1 / √key_dim if not given.

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
    if axis in query.dims and causal_query_spatial_dim is None:
        raise DimError(
            f"dot_attention: `query` has {axis.name} too, so each query would see the key of its own frame alone",
            got=query.describe_dims(),
            expected=f"no {axis.name} in `query`",
            hint=f"for self-attention give the keys and values a dim of their own: "
            f"keys, key_axis = rf.replace_dim(keys, in_dim={axis.name})",
        )
    scale = 1 / math.sqrt(key_dim.get_dim_value()) if scale is None else scale
    if causal_query_spatial_dim is not None:
        axis_of("dot_attention", query, causal_query_spatial_dim, "query")
        if causal_query_spatial_dim is axis:
            keys, axis = replace_dim(keys, in_dim=axis)
            values, _ = replace_dim(values, in_dim=causal_query_spatial_dim, out_dim=axis)
        _check_lengths(query, keys, causal_query_spatial_dim, axis)
    # what is in padding would get into gradients, as 0 · NaN
    query, keys, values = (x.copy_masked(0.0) for x in (query, keys, values))
    causal = causal_query_spatial_dim
    who = listener()
    see = getattr(who, "see_attention", None)  # somebody who wants to know what was done, and no change of it
    if (who is None or see) and not (att_dropout and get_run_ctx().is_train_flag_enabled(func=dropout)):
        found: Tensor | None = backend_of_raw(query._raw).fused_attention(
            query, keys, values, key_dim=key_dim, axis=axis, causal=causal is not None, scale=scale
        )
        if found is not None:
            if see:
                see(query, keys, values, key_dim=key_dim, axis=axis, causal=causal, scale=scale)
            return found
    weights = attention_weights(query, keys, key_dim=key_dim, axis=axis, causal=causal, scale=scale)
    broadcast = dropout_broadcast_default() if att_dropout_broadcast is None else att_dropout_broadcast
    weights = dropout(weights, att_dropout, axis=axis if broadcast else None)
    return matmul(weights, values, reduce=axis, use_mask=False)  # weights are 0 in padding, and so are values


def attention_weights(
    query: Tensor, keys: Tensor, *, key_dim: Dim, axis: Dim, causal: Dim | None, scale: float
) -> Tensor:
    """softmax(query · keys · scale) over `axis`. {…, key_dim}, {…, axis, key_dim} → {…, axis}

    causal: a dim of `query`; each query sees the keys up to its own. There must be no NaN in padding.
    """
    energy = matmul(mul(query, scale), keys, reduce=key_dim)
    if causal is not None:
        energy = where(_up_to_itself(axis, causal, energy), energy, float("-inf"))
    return softmax(energy, axis=axis)


def _check_lengths(query: Tensor, keys: Tensor, dim: Dim, axis: Dim) -> None:
    if not size_in(query, dim).agrees(size_in(keys, axis)):
        raise DimError(
            "dot_attention: causal, but there are not as many queries as keys",
            got=f"{query.lengths.describe(dim)} and {keys.lengths.describe(axis)}",
            expected="two dims of the same lengths, or one",
        )


def _up_to_itself(axis: Dim, query: Dim, like: Tensor) -> Tensor:
    """Whether a key is not behind the query. → {query, axis} bool"""
    keys, queries = (range_over_dim(dim, device=like.device) for dim in (axis, query))
    return compare_bc(keys, "less_equal", queries)
