"""Self-attention to what came before, for whole sequences and step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.tensor.state import State
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.attention.base import SelfAttentionBase
from rfnb.ops.concat import concat, cum_concat_step
from rfnb.ops.create import zeros
from rfnb.ops.math import combine_bc, compare_bc, where
from rfnb.ops.position import frame_numbers, number_of_frames


class CausalSelfAttentionState(State):
    """All keys and values so far: `k_accum`, `v_accum` {…, accum_axis, num_heads, …}, and the dim that grows.

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
    """Each frame sees those up to itself. {…, axis, in_dim} → {…, axis, out_dim}

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(8, name="feat")
    >>> attention = rf.CausalSelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
    >>> y, state = attention(rf.zeros([time, feat]), axis=time)
    >>> y.dims == (time, feat), state.accum_axis
    (True, Dim{time:5})

    One step, as in the body of a loop: `axis=rf.single_step_dim`, and a source without it.

    >>> y, state = attention(rf.zeros([feat]), axis=rf.single_step_dim, state=state)
    >>> state.accum_axis
    Dim{time+1:6}
    """

    def __call__(
        self, source: Tensor, axis: Dim, *, state: CausalSelfAttentionState | None = None
    ) -> tuple[Tensor, CausalSelfAttentionState]:
        """What is found, and the state with the new keys and values."""
        query, keys, values = self.forward_qkv(source)
        state = nothing_before(self, source, axis) if state is None else state
        now = longer(state, keys, values, axis)
        return attend_past(self, query, state, now, axis), now

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> CausalSelfAttentionState:
        """Nothing so far."""
        return nothing_so_far(self, batch_dims)


def nothing_so_far(attention: SelfAttentionBase, batch_dims: Sequence[Dim]) -> CausalSelfAttentionState:
    """The state to begin with. → {batch_dims, 0, num_heads, …}"""
    past = Dim(0, name="past")  # of this attention alone: in a loop each state carries its own size
    parts, device = (attention.key_dim_per_head, attention.value_dim_per_head), attention.qkv.weight.device
    keys, values = (zeros([*batch_dims, past, attention.num_heads, dim], device=device) for dim in parts)
    return CausalSelfAttentionState(k_accum=keys, v_accum=values, accum_axis=past)


def nothing_before(attention: SelfAttentionBase, source: Tensor, axis: Dim) -> CausalSelfAttentionState:
    """The state before `source`, if none is given."""
    return nothing_so_far(attention, [dim for dim in source.dims if dim not in (axis, attention.in_dim)])


def longer(state: CausalSelfAttentionState, keys: Tensor, values: Tensor, axis: Dim) -> CausalSelfAttentionState:
    """The state with the keys and values of the frames of `axis`, or of one step, behind the others."""
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


def attend_past(
    attention: SelfAttentionBase,
    query: Tensor,
    state: CausalSelfAttentionState,
    now: CausalSelfAttentionState,
    axis: Dim,
) -> Tensor:
    """What the queries find, where `state` was before them, and `now` has their keys and values too."""
    kv_axis = now.accum_axis
    return attention.attention(query, now.k_accum, now.v_accum, kv_axis=kv_axis, **past_only(state, kv_axis, axis))


def past_only(
    state: CausalSelfAttentionState, kv_axis: Dim, axis: Dim, *, bias: Tensor | None = None
) -> dict[str, Any]:
    """Options of `attention`, so that no query sees a key behind itself."""
    if axis is single_step_dim:  # the last frame so far, before which all others are
        return {"bias": bias}
    if state.accum_axis.dimension == 0:
        return {"bias": bias, "causal": axis}
    own = combine_bc(frame_numbers(axis), "add", number_of_frames(state.accum_axis))
    seen = compare_bc(frame_numbers(kv_axis), "less_equal", own)
    return {"bias": where(seen, 0.0 if bias is None else bias, float("-inf"))}
