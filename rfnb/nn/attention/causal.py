"""Self-attention to the current and earlier frames, for whole sequences and step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim, check_dims, single_step_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State, check_state
from rfnb.nn.attention.base import SelfAttentionBase
from rfnb.ops.concat import concat, cum_concat_step
from rfnb.ops.create import zeros
from rfnb.ops.math import combine_bc, compare_bc, where
from rfnb.ops.position import frame_numbers, number_of_frames


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
        *_args: Any,
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
    parts, device = (attention.key_dim_per_head, attention.value_dim_per_head), attention.qkv.weight.device
    keys, values = (zeros([*batch_dims, past, attention.num_heads, dim], device=device) for dim in parts)
    return CausalSelfAttentionState(k_accum=keys, v_accum=values, accum_axis=past)


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
