"""self_attention: over a sequence, or in a loop over the frames up to this one."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Positive, Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.layer import SteppingLayer
from rfnb.netdict.layers.initializers import initial_values
from rfnb.netdict.layers.rec.cum_concat import no_frames, with_frame
from rfnb.netdict.options import axis, layer, value
from rfnb.ops.attention import attend
from rfnb.ops.concat import split
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.math import compare_bc, where
from rfnb.ops.matmul import matmul
from rfnb.ops.random import dropout
from rfnb.ops.reduce import softmax
from rfnb.ops.shape import merge_dims, replace_dim, set_feature_dim, split_dims


class SelfAttention(SteppingLayer, layer_class="self_attention"):
    """Dot attention of each frame to the frames of the same sequence. {…, axis, in} → {…, axis, n_out}

    The columns of QKV are grouped by heads; each head has queries, keys and values. In a loop, keys and values of the
    frames so far are the state. https://arxiv.org/abs/1706.03762
    """

    axis: Dim = axis("T")
    num_heads: int = value(1, Positive)
    total_key_dim: int = value(1, Positive)
    key_shift: Any = layer()
    forward_weights_init: Any = value("glorot_uniform")
    attention_dropout: float = value(0.0, Probability)
    attention_left_only: bool = value(False, bool)
    initial_state: Any = value(None)
    restrict_state_to_last_seq: bool = value(False, bool)
    state_var_lengths: Any = value(None)

    def setup(self, x: Tensor, **inputs: Tensor) -> None:  # type: ignore[override]
        """QKV {in, 2 · total_key_dim + n_out}"""
        if x.feature_dim is None or self.out_dim is None:
            raise NetworkError("self_attention needs features and the number of its outputs", expected='"n_out": …')
        total, out, n = self.total_key_dim, self.out_dim.get_dim_value(), self.num_heads
        if total % n or out % n:
            raise NetworkError(
                "the heads do not divide the keys or the outputs", got=f"{n} heads, {total} for keys, {out} outputs",
                expected="total_key_dim and n_out that are multiples of num_heads",
            )  # fmt: skip
        if self.initial_state is not None or self.restrict_state_to_last_seq or self.state_var_lengths is not None:
            fault = "self_attention: initial_state, restrict_state_to_last_seq, state_var_lengths are not supported"
            raise NetworkError(fault, hint="keep the keys and values with cum_concat")
        if self.stepwise and not self.attention_left_only:
            raise NetworkError(
                "self_attention in a loop knows only the frames up to this one", got='"attention_left_only": False',
                expected='"attention_left_only": True',
            )  # fmt: skip
        self.heads = Dim(n, name="heads")
        self.keys_dim, self.values_dim = Dim(total // n, name="key"), Dim(out // n, name="value")
        self.per_head = Dim(2 * (total // n) + out // n, name="query+key+value")
        self.parameter("QKV", [x.feature_dim, self.pool.feature(2 * total + out, x.dims)],
                       initial_values(self.forward_weights_init))  # fmt: skip

    def compute(self, x: Tensor, key_shift: Tensor | None = None) -> Tensor:
        """{…, axis, in} → {…, axis, n_out}"""
        if key_shift is None:
            causal = self.axis if self.attention_left_only else None
            q, k, v = self._parts(x)
            y = attend(
                q, k, v, key_dim=self.keys_dim, axis=self.axis, scale=self.scale, causal=causal,
                att_dropout=self.attention_dropout, att_dropout_broadcast=False,
            )  # fmt: skip
            return self._joined(y)
        q, k, v = self._parts(x)
        keys = next(dim for dim in key_shift.dims if dim is not self.axis and dim is not key_shift.feature_dim)
        k, v = (replace_dim(part, in_dim=self.axis, out_dim=keys)[0] for part in (k, v))
        newest = range_over_dim(self.axis) if self.attention_left_only else None
        return self._attended(q, k, v, keys, key_shift, last=newest)

    def first_state(self, x: Tensor, **inputs: Tensor) -> State:
        """No frames yet."""
        batch, so_far = [dim for dim in x.dims if dim is not x.feature_dim], Dim(0, name="so far")
        dims = {"k_left": self.keys_dim, "v_left": self.values_dim}
        tensors = {name: zeros([*batch, so_far, self.heads, dim], dtype=x.dtype) for name, dim in dims.items()}
        return State(**tensors, so_far=so_far, **no_frames(self, batch))

    def step(self, state: State, x: Tensor, key_shift: Tensor | None = None) -> tuple[Tensor, State]:
        """{…, in} → {…, n_out}"""
        q, k, v = self._parts(x)
        k, keys, _ = with_frame(k, state, "k_left")
        v, _, count = with_frame(v, state, "v_left")
        if key_shift is not None:
            distances = next(dim for dim in key_shift.dims if dim not in (key_shift.feature_dim, *q.dims))
            key_shift = (
                replace_dim(key_shift, in_dim=distances, out_dim=keys)[0] if distances is not keys else key_shift
            )
        y = self._attended(q, k, v, keys, key_shift, last=state.get("count"))
        return y, State(k_left=k, v_left=v, so_far=keys, **count)

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values of each head. {…, in} → {…, heads, key}, {…, heads, key}, {…, heads, value}"""
        weight = self.params["QKV"]
        y = matmul(x, weight, reduce=weight.dims[0])
        y = split_dims(y, axis=weight.dims[1], dims=[self.heads, self.per_head])
        q, k, v = split(y, axis=self.per_head, out_dims=[self.keys_dim, self.keys_dim, self.values_dim])
        return q, k, v

    @property
    def scale(self) -> float:
        """The factor of the energies."""
        return float(self.keys_dim.get_dim_value() ** -0.5)

    def _attended(
        self, q: Tensor, k: Tensor, v: Tensor, keys: Dim, key_shift: Tensor | None, *, last: Tensor | None = None
    ) -> Tensor:
        """last: the last key that counts, for each query; None: all count."""
        q = q * self.scale
        energy = matmul(q, k, reduce=self.keys_dim)
        if key_shift is not None:
            assert key_shift.feature_dim is not None
            shift = replace_dim(key_shift, in_dim=key_shift.feature_dim, out_dim=self.keys_dim)[0]
            energy = energy + matmul(q, shift, reduce=self.keys_dim)
        if last is not None:
            allowed = compare_bc(range_over_dim(keys), "<=", last)
            energy = where(allowed, energy, -1e30, allow_broadcast_all_sources=True)
        masked = not self.attention_left_only  # frames after the end of a sequence are after all that count
        weights = softmax(energy, axis=keys, use_mask=masked)
        if self.attention_dropout:
            weights = dropout(weights, self.attention_dropout, axis=weights.dims)
        y = matmul(weights, v, reduce=keys, use_mask=masked)
        return self._joined(y)

    def _joined(self, y: Tensor) -> Tensor:
        """The values of all heads as features. {…, heads, value} → {…, n_out}"""
        y, _ = merge_dims(y, dims=[self.heads, self.values_dim], out_dim=self.out_dim)
        return set_feature_dim(y, self.out_dim)
