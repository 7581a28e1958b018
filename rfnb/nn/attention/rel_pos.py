"""Self-attention with relative positions (Dai et al. 2019, "Transformer-XL")."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.attention.base import SelfAttentionBase
from rfnb.nn.attention.causal import CausalSelfAttentionState, causal_options, empty_state, extended, state_before
from rfnb.nn.init import Glorot
from rfnb.nn.layers.linear import Linear
from rfnb.nn.layers.position import LearnedRelativePositionalEncoding
from rfnb.ops.attention import own_axis, relative_scores, relative_shift
from rfnb.ops.math import add, mul
from rfnb.ops.position import Offset, number_of_frames, relative_positional_encoding
from rfnb.ops.random import dropout, dropout_broadcast_default
from rfnb.ops.shape import split_dims


class RelPosSelfAttention(SelfAttentionBase):
    """Self-attention to all frames, with relative positions. {…, axis, in_dim} → {…, axis, out_dim}

    The energy of a query q and key k at distance r is (q + pos_bias_u) · k + (q + pos_bias_v) · linear_pos(r).

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(8, name="feat")
    >>> attention = rf.RelPosSelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
    >>> attention(rf.zeros([time, feat]), axis=time).dims == (time, feat)
    True

    Args:
        with_linear_pos: whether encodings have `in_dim` and go through `linear_pos`; otherwise they have the key dim.
        with_pos_bias: whether there are biases `pos_bias_u` and `pos_bias_v` for each head.
        learnable_pos_emb: whether encodings are learned, instead of sines and cosines.
        separate_pos_emb_per_head: whether each head has its own part of the encoding; otherwise all share it.
        pos_emb_dropout: dropout of the encodings, in training.
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
        with_linear_pos: bool = True,
        with_pos_bias: bool = True,
        learnable_pos_emb: bool = False,
        learnable_pos_emb_clipping: int = 16,
        separate_pos_emb_per_head: bool = True,
        pos_emb_dropout: Probability = 0.0,
        att_dropout: Probability = 0.1,
        att_dropout_broadcast: bool | None = None,
    ):
        super().__init__(
            in_dim,
            proj_dim,
            key_dim_total=key_dim_total,
            value_dim_total=value_dim_total,
            num_heads=num_heads,
            with_bias=with_bias,
            att_dropout=att_dropout,
            att_dropout_broadcast=att_dropout_broadcast,
        )
        self.separate_pos_emb_per_head = separate_pos_emb_per_head
        self.pos_emb_dropout = pos_emb_dropout
        self.pos_emb_feat_dim = key_dim_total if separate_pos_emb_per_head else self.key_dim_per_head
        self.linear_pos = Linear(in_dim, self.pos_emb_feat_dim, with_bias=False) if with_linear_pos else None
        self.encoding_dim = in_dim if with_linear_pos else self.pos_emb_feat_dim
        learned = functools.partial(LearnedRelativePositionalEncoding, clipping=learnable_pos_emb_clipping)
        self.learned_pos_emb = learned(self.encoding_dim) if learnable_pos_emb else None
        bias_dims = [self.num_heads, self.key_dim_per_head]
        self.pos_bias_u = Parameter(bias_dims, initial=Glorot()) if with_pos_bias else None
        self.pos_bias_v = Parameter(bias_dims, initial=Glorot()) if with_pos_bias else None

    def __call__(self, source: Tensor, *, axis: Dim, **_kwargs: Any) -> Tensor:
        """{…, axis, in_dim} → {…, axis, out_dim}"""
        query, keys, values = self.forward_qkv(source)
        keys, values, kv_axis = own_axis(query, keys, values, axis=axis)
        bias = self.bias(query, keys, query_axis=axis, kv_axis=kv_axis)
        return self.attention(self.biased(query, self.pos_bias_u), keys, values, kv_axis=kv_axis, bias=bias)

    def positions(self, query_axis: Dim, kv_axis: Dim, *, query_offset: Offset = 0) -> tuple[Tensor, Dim]:
        """The encodings of all distances, and their dim. → {query_axis + kv_axis - 1, (num_heads,) key_dim_per_head}"""
        dims: dict[str, Any] = {"query_spatial_dim": query_axis, "key_value_spatial_dim": kv_axis}
        if self.learned_pos_emb is None:
            dims |= {"feat_dim": self.encoding_dim, "device": self.qkv.weight.device}
        encode = self.learned_pos_emb or relative_positional_encoding
        encoding, distances = encode(**dims, query_offset=query_offset)
        encoding = dropout(encoding, self.pos_emb_dropout, axis=dropout_broadcast_default() and self.encoding_dim)
        if self.linear_pos is not None:
            encoding = self.linear_pos(encoding)
        if self.separate_pos_emb_per_head:
            parts = [self.num_heads, self.key_dim_per_head]
            encoding = split_dims(encoding, axis=self.pos_emb_feat_dim, dims=parts)
        return encoding, distances

    def bias(self, query: Tensor, keys: Tensor, *, query_axis: Dim, kv_axis: Dim, query_offset: Offset = 0) -> Tensor:
        """The positional part of the energy. {…, query_axis, heads, key}, {kv_axis, …} → {…, query_axis, kv_axis}"""
        positions, distances = self.positions(query_axis, kv_axis, query_offset=query_offset)
        return relative_scores(
            mul(self.biased(query, self.pos_bias_v), self.scale),
            positions,
            keys,
            key_dim=self.key_dim_per_head,
            axis=distances,
            queries=query_axis,
            keys=kv_axis,
        )

    @staticmethod
    def _rel_shift(x: Tensor, axis: Dim, positions_dim: Dim, hist_dim: Dim) -> Tensor:
        """For derived classes: scores of each distance as scores of each key.

        {…, axis, positions_dim} → {…, axis, hist_dim}. positions_dim: the distances, in the order of `positions`, from
        that of the last query and the first key on.
        """
        return relative_shift(x, axis=positions_dim, queries=axis, keys=hist_dim)

    def biased(self, query: Tensor, bias: Parameter | None) -> Tensor:
        """query + bias, or the query if there is no bias."""
        return query if bias is None else add(query, bias)


class RelPosCausalSelfAttention(RelPosSelfAttention):
    """Self-attention to the current and earlier frames, with relative positions. {…, axis, in_dim} → {…, axis, out_dim}

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(8, name="feat")
    >>> attention = rf.RelPosCausalSelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
    >>> y, state = attention(rf.zeros([time, feat]), axis=time)
    >>> y.dims == (time, feat), state.accum_axis
    (True, Dim{time:5})

    A single step works as with `rf.CausalSelfAttention`.
    """

    def __call__(  # type: ignore[override]
        self, source: Tensor, *, axis: Dim, state: CausalSelfAttentionState | None = None
    ) -> tuple[Tensor, CausalSelfAttentionState]:
        """The result, and the state with the new keys and values."""
        query, keys, values = self.forward_qkv(source)
        state = state_before(self, source, axis) if state is None else state
        new = extended(state, keys, values, axis)
        keys, values, kv_axis = new.k_accum, new.v_accum, new.accum_axis
        if kv_axis is axis:
            keys, values, kv_axis = own_axis(query, keys, values, axis=axis)
        bias = self.bias(query, keys, query_axis=axis, kv_axis=kv_axis, query_offset=number_of_frames(state.accum_axis))
        limits = causal_options(state, kv_axis, axis, bias=bias)
        return self.attention(self.biased(query, self.pos_bias_u), keys, values, kv_axis=kv_axis, **limits), new

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> CausalSelfAttentionState:
        """The state without any keys and values."""
        return empty_state(self, batch_dims)
