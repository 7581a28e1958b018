"""Self-attention with rotary positions (Su et al. 2021, "RoFormer")."""

from __future__ import annotations

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Probability
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
