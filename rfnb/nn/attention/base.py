"""Self-attention and cross-attention (Vaswani et al. 2017)."""

from __future__ import annotations

import functools
import math
from typing import Any

from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State, check_state
from rfnb.errors import DimError
from rfnb.nn.init import Glorot
from rfnb.nn.layers.linear import Linear
from rfnb.nn.module.module import Module
from rfnb.ops.attention import attend, dot_attention
from rfnb.ops.concat import split
from rfnb.ops.shape import merge_dims, split_dims


class _Attention(Module):
    """Base of all attention: dims of the heads, and the projection `proj` of their joined results."""

    proj: Linear | None

    def _set(self, proj_dim: Dim | None, key_dim_total: Dim, value_dim_total: Dim, num_heads: int | Dim) -> None:
        self.out_dim = value_dim_total if proj_dim is None else proj_dim
        self.num_heads = heads_dim(num_heads)
        self.key_dim_total = key_dim_total
        self.key_dim_per_head = per_head(key_dim_total, self.num_heads)
        self.value_dim_total = value_dim_total
        self.value_dim_per_head = per_head(value_dim_total, self.num_heads)

    def project(self, found: Tensor) -> Tensor:
        """Joins the heads and applies `proj`. {…, num_heads, value_dim_per_head} → {…, out_dim}"""
        dims = [self.num_heads, self.value_dim_per_head]
        found, _ = merge_dims(found, dims=dims, out_dim=self.value_dim_total)
        return found if self.proj is None else self.proj(found)


class SelfAttentionBase(_Attention):
    """Base of self-attention: one linear map `qkv` gives queries, keys and values; `proj` projects the result.

    The features of `qkv` are, head by head: query, key, value.

    Args:
        proj_dim: the dim of the result; None: the result is not projected and has `value_dim_total`.
        key_dim_total, value_dim_total: the dims of keys and values of all heads together.
        num_heads: the number of heads, or a Dim.
        att_dropout: dropout of the attention weights, in training.
        att_dropout_broadcast: whether the same keys are dropped for all sequences, heads and queries.

    >>> time, model, heads = rf.Dim(5, name="time"), rf.Dim(8, name="model"), rf.Dim(2, name="heads")
    >>> att = rf.SelfAttentionBase(model, model, key_dim_total=model, value_dim_total=model, num_heads=heads)
    >>> query, key, value = att.forward_qkv(rf.ones([time, model]))
    >>> query.dims == (time, heads, att.key_dim_per_head), att.key_dim_per_head.dimension
    (True, 4)
    """

    def __init__(
        self,
        in_dim: Dim,
        proj_dim: Dim | None,
        *,
        key_dim_total: Dim,
        value_dim_total: Dim,
        num_heads: int | Dim,
        with_bias: bool = True,
        att_dropout: Probability = 0.1,
        att_dropout_broadcast: bool | None = None,
    ):
        self.in_dim = in_dim
        self._set(proj_dim, key_dim_total, value_dim_total, num_heads)
        self.qkv_dim_total = 2 * key_dim_total + value_dim_total
        self.qkv_dim_per_head = 2 * self.key_dim_per_head + self.value_dim_per_head
        self.qkv = Linear(in_dim, self.qkv_dim_total, with_bias=with_bias)
        self.proj = None if proj_dim is None else Linear(value_dim_total, proj_dim, with_bias=with_bias)
        self.att_dropout = att_dropout
        self.att_dropout_broadcast = att_dropout_broadcast

    def forward_qkv(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, {…, in_dim} → {…, num_heads, key_dim_per_head}, for values value_dim_per_head."""
        dims = [self.num_heads, self.qkv_dim_per_head]
        qkv = split_dims(self.qkv(source), axis=self.qkv_dim_total, dims=dims)
        key, value = self.key_dim_per_head, self.value_dim_per_head
        query, keys, values = split(qkv, axis=self.qkv_dim_per_head, out_dims=[key, key, value])
        return query, keys, values

    def attention(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        kv_axis: Dim,
        causal: Dim | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Attends over `kv_axis`, which may be an axis of the queries, and projects. {…, heads, key} → {…, out_dim}

        causal: a dim of `query`, each frame of which sees only the keys up to its own. bias: added to the energy.
        """
        context = attend(
            query,
            keys,
            values,
            key_dim=self.key_dim_per_head,
            axis=kv_axis,
            scale=self.scale,
            causal=causal,
            bias=bias,
            att_dropout=self.att_dropout,
            att_dropout_broadcast=self.att_dropout_broadcast,
        )
        return self.project(context)

    @property
    def scale(self) -> float:
        """The factor of the energy: 1 / √key_dim_per_head."""
        return 1 / math.sqrt(self.key_dim_per_head.get_dim_value())


class SelfAttention(SelfAttentionBase):
    """Self-attention in which each frame sees all frames. {…, axis, in_dim} → {…, axis, out_dim}

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(8, name="feat")
    >>> attention = rf.SelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
    >>> attention(rf.zeros([time, feat]), axis=time).dims == (time, feat)
    True
    """

    def __call__(self, source: Tensor, *, axis: Dim) -> Tensor:
        """{…, axis, in_dim} → {…, axis, out_dim}"""
        return self.attention(*self.forward_qkv(source), kv_axis=axis)


class CrossAttention(_Attention):
    """Attention of one sequence to all frames of another. {…, query_in_dim}, {…, axis, encoder_dim} → {…, out_dim}

    The features of `kv` are, head by head: key, value. For options see `rf.SelfAttentionBase`.

    >>> letters, phones = rf.Dim(5, name="letters"), rf.Dim(3, name="phones")
    >>> enc, model = rf.Dim(4, name="enc"), rf.Dim(8, name="model")
    >>> attention = rf.CrossAttention(enc, model, model, key_dim_total=model, value_dim_total=model, num_heads=2)
    >>> encoder = attention.transform_encoder(rf.zeros([letters, enc]), axis=letters)
    >>> attention(rf.zeros([phones, model]), encoder).dims == (phones, model)
    True
    """

    def __init__(
        self,
        encoder_dim: Dim,
        query_in_dim: Dim,
        proj_dim: Dim | None,
        *,
        key_dim_total: Dim,
        value_dim_total: Dim,
        num_heads: int | Dim,
        with_bias: bool = True,
        att_dropout: Probability = 0.1,
        att_dropout_broadcast: bool | None = None,
    ):
        self.encoder_dim = encoder_dim
        self.query_in_dim = query_in_dim
        self._set(proj_dim, key_dim_total, value_dim_total, num_heads)
        self.kv_dim_total = key_dim_total + value_dim_total
        self.kv_dim_per_head = self.key_dim_per_head + self.value_dim_per_head
        self.kv = Linear(encoder_dim, self.kv_dim_total, with_bias=with_bias)
        self.q = Linear(query_in_dim, key_dim_total, with_bias=with_bias)
        self.kv.weight.initial, self.q.weight.initial = Glorot(3 / 4), Glorot(1 / 2)
        self.proj = None if proj_dim is None else Linear(value_dim_total, proj_dim, with_bias=with_bias)
        self.att_dropout = att_dropout
        self.att_dropout_broadcast = att_dropout_broadcast

    def forward_query(self, source: Tensor) -> Tensor:
        """The queries. {…, query_in_dim} → {…, num_heads, key_dim_per_head}"""
        return split_dims(self.q(source), axis=self.key_dim_total, dims=[self.num_heads, self.key_dim_per_head])

    def forward_kv(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values. {…, encoder_dim} → {…, num_heads, key_dim_per_head}, for values value_dim_per_head."""
        kv = split_dims(self.kv(source), axis=self.kv_dim_total, dims=[self.num_heads, self.kv_dim_per_head])
        keys, values = split(kv, axis=self.kv_dim_per_head, out_dims=[self.key_dim_per_head, self.value_dim_per_head])
        return keys, values

    def attention(self, query: Tensor, keys: Tensor, values: Tensor, *, kv_axis: Dim) -> Tensor:
        """Attends over `kv_axis` and projects. {…, num_heads, key_dim_per_head} → {…, out_dim}"""
        context = dot_attention(
            query,
            keys,
            values,
            key_dim=self.key_dim_per_head,
            axis=kv_axis,
            att_dropout=self.att_dropout,
            att_dropout_broadcast=self.att_dropout_broadcast,
        )
        return self.project(context)

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> State:
        """Computes keys and values once for all queries. {…, axis, encoder_dim} → a State with k, v and kv_axis."""
        keys, values = self.forward_kv(encoder)
        return State(k=keys, v=values, kv_axis=axis)

    def __call__(self, q: Tensor, encoder: State) -> Tensor:
        """{…, query_in_dim} → {…, out_dim}. encoder: the result of `transform_encoder`."""
        check_state(encoder, f"{type(self).__name__}: `encoder`", ("k", "v", "kv_axis"), start=TRANSFORM)
        return self.attention(self.forward_query(q), encoder.k, encoder.v, kv_axis=encoder.kv_axis)


TRANSFORM = "encoder=module.transform_encoder(encoder_output, axis=…)"
"""How the state of an encoder is made, for messages."""


def heads_dim(heads: int | Dim) -> Dim:
    """The Dim for a number of heads, which is the same for all modules; a Dim is returned unchanged.

    Raises DimError if it is not one or more.
    """
    dim = heads if isinstance(heads, Dim) else _heads(heads) if isinstance(heads, int) else None
    if dim is None or dim.dimension == 0:
        raise DimError("attention: `num_heads` must be 1 or more", got=heads, expected="a number, or a Dim")
    return dim


@functools.cache
def _heads(number: int) -> Dim:
    return Dim(number, name="heads")


def per_head(total: Dim, heads: Dim) -> Dim:
    """The dim of the part of `total` that each head gets. Raises DimError if the heads do not divide it."""
    check_dims([total], "attention")
    if total.get_dim_value() % heads.get_dim_value():
        raise DimError(
            f"attention: {total.name} cannot be divided evenly among the heads",
            got=f"{total.describe()} for {heads.describe()}",
            expected=f"a multiple of {heads.get_dim_value()}",
        )
    return total // heads


def attention_options(dim: Dim, num_heads: int | Dim, att_dropout: Probability) -> dict[str, Any]:
    """The options of attention whose keys, values and result all have `dim`."""
    dims = dict.fromkeys(("proj_dim", "key_dim_total", "value_dim_total"), dim)
    return {**dims, "num_heads": num_heads, "att_dropout": att_dropout}
