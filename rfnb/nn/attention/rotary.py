"""Self-attention with rotary positions (Su et al. 2021, "RoFormer")."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.attention.base import SelfAttentionBase
from rfnb.nn.attention.causal import (
    CausalSelfAttention,
    CausalSelfAttentionState,
    attend_causally,
    extended,
    state_before,
)
from rfnb.ops.position import Offset, number_of_frames, rotary_encoding


class RotaryPosSelfAttention(SelfAttentionBase):
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

    def __init__(self, *args: Any, base: float = 10_000.0, **options: Any):
        super().__init__(*args, **options)
        self.base = base

    def __call__(self, source: Tensor, *, axis: Dim) -> Tensor:
        """{…, axis, in_dim} → {…, axis, out_dim}"""
        query, keys, values = self.forward_qkv(source)
        return self.attention(*rotated(self, query, keys, axis), values, kv_axis=axis)


class RotaryPosCausalSelfAttention(CausalSelfAttention):
    """Self-attention to the current and earlier frames, with rotary positions. {…, axis, in_dim} → {…, axis, out_dim}

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(8, name="feat")
    >>> attention = rf.RotaryPosCausalSelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
    >>> y, state = attention(rf.zeros([time, feat]), axis=time)
    >>> y.dims == (time, feat), state.accum_axis
    (True, Dim{time:5})

    A single step works as with `rf.CausalSelfAttention`. For `base` see `rf.RotaryPosSelfAttention`.
    """

    def __init__(self, *args: Any, base: float = 10_000.0, **options: Any):
        super().__init__(*args, **options)
        self.base = base

    def __call__(
        self, source: Tensor, axis: Dim, *, state: CausalSelfAttentionState | None = None
    ) -> tuple[Tensor, CausalSelfAttentionState]:
        """The result, and the state with the new values and the new keys, which are already rotated."""
        query, keys, values = self.forward_qkv(source)
        state = state_before(self, source, axis) if state is None else state
        query, keys = rotated(self, query, keys, axis, offset=number_of_frames(state.accum_axis))
        now = extended(state, keys, values, axis)
        return attend_causally(self, query, state, now, axis), now


def rotated(
    attention: RotaryPosSelfAttention | RotaryPosCausalSelfAttention,
    query: Tensor,
    keys: Tensor,
    axis: Dim,
    *,
    offset: Offset = 0,
) -> tuple[Tensor, Tensor]:
    """Queries and keys, rotated for the positions offset, offset + 1, …"""
    dim, base = attention.key_dim_per_head, attention.base
    query, keys = (rotary_encoding(x, spatial_dim=axis, feat_dim=dim, offset=offset, base=base) for x in (query, keys))
    return query, keys
