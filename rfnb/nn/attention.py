"""Self-attention and cross-attention (Vaswani et al. 2017).

Causal self-attention sees the current and earlier frames, for whole sequences and step by step. Positions may be
relative (Dai et al. 2019, "Transformer-XL") or rotary (Su et al. 2021, "RoFormer"), with and without such a state.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim, check_dims, single_step_dim
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State, check_state
from rfnb.errors import DimError
from rfnb.nn.init import Glorot
from rfnb.nn.layers.linear import Linear
from rfnb.nn.layers.transformer import LearnedRelativePositionalEncoding
from rfnb.nn.module.module import Module
from rfnb.ops.attention import attend, dot_attention, own_axis, relative_scores, relative_shift
from rfnb.ops.concat import concat, cum_concat_step, split
from rfnb.ops.create import zeros
from rfnb.ops.math import add, combine_bc, compare_bc, mul, where
from rfnb.ops.position import Offset, frame_numbers, number_of_frames, relative_positional_encoding, rotary_encoding
from rfnb.ops.random import dropout, dropout_broadcast_default
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


class CausalSelfAttentionState(State):
    """All keys and values so far: `k_accum`, `v_accum` {…, accum_axis, num_heads, …}, and the growing dim `accum_axis`.

    >>> feat = rf.Dim(8, name="feat")
    >>> attention = rf.CausalSelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
    >>> attention.default_initial_state(batch_dims=[]).accum_axis
    Dim{past:0}
    """

    k_accum: Tensor
    v_accum: Tensor
    accum_axis: Dim

    def __init__(
        self,
        *_args: object,
        k_accum: Tensor | None = None,
        v_accum: Tensor | None = None,
        accum_axis: Dim | None = None,
    ):
        super().__init__(*_args)
        if not _args:
            self.update(k_accum=k_accum, v_accum=v_accum, accum_axis=accum_axis)


class CausalSelfAttention(SelfAttentionBase):
    """Self-attention in which each frame sees itself and earlier frames. {…, axis, in_dim} → {…, axis, out_dim}

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(8, name="feat")
    >>> attention = rf.CausalSelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
    >>> y, state = attention(rf.zeros([time, feat]), axis=time)
    >>> y.dims == (time, feat), state.accum_axis
    (True, Dim{time:5})

    For a single step, as in the body of a loop: `axis=rf.single_step_dim`, and a source without that dim.

    >>> y, state = attention(rf.zeros([feat]), axis=rf.single_step_dim, state=state)
    >>> state.accum_axis
    Dim{time+1:6}
    """

    def __call__(
        self, source: Tensor, axis: Dim, *, state: CausalSelfAttentionState | None = None
    ) -> tuple[Tensor, CausalSelfAttentionState]:
        """The result, and the state with the new keys and values."""
        query, keys, values = self.forward_qkv(source)
        state = state_before(self, source, axis) if state is None else state
        new = extended(state, keys, values, axis)
        return attend_causally(self, query, state, new, axis), new

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> CausalSelfAttentionState:
        """The state without any keys and values."""
        return empty_state(self, batch_dims)


def empty_state(attention: SelfAttentionBase, batch_dims: Sequence[Dim]) -> CausalSelfAttentionState:
    """The state without any keys and values. → {batch_dims, 0, num_heads, …}"""
    check_dims(batch_dims, "default_initial_state: `batch_dims`")
    past = Dim(0, name="past")  # a Dim for this attention alone: in a loop each state carries its own size
    weight, dims = attention.qkv.weight, [*batch_dims, past, attention.num_heads]
    parts = attention.key_dim_per_head, attention.value_dim_per_head
    empty = {dim: zeros([*dims, dim], dtype=weight.dtype, device=weight.device) for dim in dict.fromkeys(parts)}
    return CausalSelfAttentionState(k_accum=empty[parts[0]], v_accum=empty[parts[1]], accum_axis=past)


def state_before(attention: SelfAttentionBase, source: Tensor, axis: Dim) -> CausalSelfAttentionState:
    """The empty state for the batch dims of `source`."""
    return empty_state(attention, [dim for dim in source.dims if dim not in (axis, attention.in_dim)])


def extended(state: CausalSelfAttentionState, keys: Tensor, values: Tensor, axis: Dim) -> CausalSelfAttentionState:
    """The state, to which the keys and values of the frames of `axis`, or of a single step, are appended."""
    check_state(state, "self-attention: `state`", ("k_accum", "v_accum", "accum_axis"))
    past = state.accum_axis
    if axis is not single_step_dim and past.dimension == 0:
        return CausalSelfAttentionState(k_accum=keys, v_accum=values, accum_axis=axis)
    total = past + (1 if axis is single_step_dim else axis)

    def joined(before: Tensor, new: Tensor) -> Tensor:
        if axis is single_step_dim:
            return cum_concat_step(new, prev_accum=before, axis=past, out_spatial_dim=total)[0]
        return concat((before, past), (new, axis), out_dim=total)[0]

    return CausalSelfAttentionState(
        k_accum=joined(state.k_accum, keys), v_accum=joined(state.v_accum, values), accum_axis=total
    )


def attend_causally(
    attention: SelfAttentionBase,
    query: Tensor,
    state: CausalSelfAttentionState,
    now: CausalSelfAttentionState,
    axis: Dim,
) -> Tensor:
    """The result of the queries. `state`: before them; `now`: with their own keys and values too."""
    kv_axis = now.accum_axis
    return attention.attention(query, now.k_accum, now.v_accum, kv_axis=kv_axis, **causal_options(state, kv_axis, axis))


def causal_options(
    state: CausalSelfAttentionState, kv_axis: Dim, axis: Dim, *, bias: Tensor | None = None
) -> dict[str, Any]:
    """The options of `attention` with which no query sees a later key."""
    if axis is single_step_dim:  # the query is the last frame so far, so it may see all keys
        return {"bias": bias}
    if state.accum_axis.dimension == 0:
        return {"bias": bias, "causal": axis}
    positions = combine_bc(frame_numbers(axis), "add", number_of_frames(state.accum_axis))
    visible = compare_bc(frame_numbers(kv_axis), "less_equal", positions)
    return {"bias": where(visible, 0.0 if bias is None else bias, float("-inf"))}


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

    def __call__(self, source: Tensor, *, axis: Dim, **_kwargs: object) -> Tensor:
        """{…, axis, in_dim} → {…, axis, out_dim}"""
        query, keys, values = self.forward_qkv(source)
        keys, values, kv_axis = own_axis(query, keys, values, axis=axis)
        bias = self.bias(query, keys, query_axis=axis, kv_axis=kv_axis)
        return self.attention(self.biased(query, self.pos_bias_u), keys, values, kv_axis=kv_axis, bias=bias)

    def positions(self, query_axis: Dim, kv_axis: Dim, *, query_offset: Offset = 0) -> tuple[Tensor, Dim]:
        """The encodings of all distances, and their dim. → {query_axis + kv_axis - 1, (num_heads,) key_dim_per_head}"""
        dims: dict[str, Any] = {"query_spatial_dim": query_axis, "key_value_spatial_dim": kv_axis}
        if self.learned_pos_emb is None:
            weight = self.qkv.weight
            dims |= {"feat_dim": self.encoding_dim, "dtype": weight.dtype, "device": weight.device}
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


class _Rotary(SelfAttentionBase):
    """Base of both kinds: rotates queries and keys."""

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
        base: float = 10_000.0,
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
        self.base = base

    def rotated(self, x: Tensor, axis: Dim, *, offset: Offset = 0) -> Tensor:
        """Queries or keys, rotated for the positions offset, offset + 1, …"""
        dim = self.key_dim_per_head
        return rotary_encoding(x, spatial_dim=axis, feat_dim=dim, offset=offset, base=self.base)


class RotaryPosSelfAttention(_Rotary):
    """Self-attention to all frames, with queries and keys rotated by their positions.

    {…, axis, in_dim} → {…, axis, out_dim}

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(8, name="feat")
    >>> attention = rf.RotaryPosSelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
    >>> attention(rf.zeros([time, feat]), axis=time).dims == (time, feat)
    True

    Args:
        base: of the angles; with a larger base, positions further apart can be told apart. For the other options see
            `rf.SelfAttentionBase`.
    """

    def __call__(self, source: Tensor, *, axis: Dim) -> Tensor:
        """{…, axis, in_dim} → {…, axis, out_dim}"""
        query, keys, values = self.forward_qkv(source)
        return self.attention(self.rotated(query, axis), self.rotated(keys, axis), values, kv_axis=axis)


class RotaryPosCausalSelfAttention(_Rotary, CausalSelfAttention):
    """Self-attention to the current and earlier frames, with rotary positions. {…, axis, in_dim} → {…, axis, out_dim}

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(8, name="feat")
    >>> attention = rf.RotaryPosCausalSelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
    >>> y, state = attention(rf.zeros([time, feat]), axis=time)
    >>> y.dims == (time, feat), state.accum_axis
    (True, Dim{time:5})

    A single step works as with `rf.CausalSelfAttention`. For `base` see `rf.RotaryPosSelfAttention`.
    """

    def __call__(
        self, source: Tensor, axis: Dim, *, state: CausalSelfAttentionState | None = None
    ) -> tuple[Tensor, CausalSelfAttentionState]:
        """The result, and the state with the new values and the new keys, which are already rotated."""
        query, keys, values = self.forward_qkv(source)
        state = state_before(self, source, axis) if state is None else state
        offset = number_of_frames(state.accum_axis)
        query, keys = self.rotated(query, axis, offset=offset), self.rotated(keys, axis, offset=offset)
        new = extended(state, keys, values, axis)
        return attend_causally(self, query, state, new, axis), new
