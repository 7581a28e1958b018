"""self_attention: over a sequence, or in a loop over the frames up to this one. cum_concat: all frames so far."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Positive, Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.axes import without
from rfnb.netdict.layer import Layer, SteppingLayer
from rfnb.netdict.layers.initializers import initial_values
from rfnb.netdict.options import axis, layer, value
from rfnb.ops.attention import attend
from rfnb.ops.concat import cum_concat_step, split
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.math import compare_bc, where
from rfnb.ops.matmul import matmul
from rfnb.ops.random import dropout
from rfnb.ops.reduce import softmax
from rfnb.ops.shape import merge_dims, replace_dim, set_feature_dim, split_dims
from rfnb.ops.slice import slice as slice_


class SelfAttentionLayer(SteppingLayer, layer_class="self_attention"):
    """Dot attention of each frame to the frames of the same sequence. {…, axis, in} → {…, axis, n_out}

    The columns of QKV are grouped by heads; each head has queries, keys and values. In a loop, keys and values of the
    frames so far are the state. https://arxiv.org/abs/1706.03762
    """

    axis: Dim = axis("T")
    num_heads: int = value(1, Positive)
    total_key_dim: int = value(1, Positive)
    key_shift: object = layer()
    forward_weights_init: object = value("glorot_uniform")
    attention_dropout: float = value(0.0, Probability)
    attention_left_only: bool = value(False, bool)
    initial_state: object = value(None)
    restrict_state_to_last_seq: bool = value(False, bool)
    state_var_lengths: object = value(None)

    def setup(self, x: Tensor, **inputs: Tensor) -> None:
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
        self.scale = float(self.keys_dim.get_dim_value() ** -0.5)  # of the energies
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
        keys = without(key_shift, self.axis, key_shift.feature_dim)[0]
        k, v = (replace_dim(part, in_dim=self.axis, out_dim=keys)[0] for part in (k, v))
        newest = range_over_dim(self.axis) if self.attention_left_only else None
        return self._attended(q, k, v, keys, key_shift, last=newest)

    def first_state(self, x: Tensor, **inputs: Tensor) -> State:
        """No frames yet."""
        batch, so_far = without(x, x.feature_dim), Dim(0, name="so far")
        dims = {"k_left": self.keys_dim, "v_left": self.values_dim}
        tensors = {name: zeros([*batch, so_far, self.heads, dim], dtype=x.dtype) for name, dim in dims.items()}
        return State(**tensors, so_far=so_far, **no_frames(self, batch))

    def step(self, state: State, x: Tensor, key_shift: Tensor | None = None) -> tuple[Tensor, State]:
        """{…, in} → {…, n_out}"""
        q, k, v = self._parts(x)
        k, keys, _ = with_frame(k, state, "k_left")
        v, _, count = with_frame(v, state, "v_left")
        if key_shift is not None:
            distances = without(key_shift, key_shift.feature_dim, *q.dims)[0]
            if distances is not keys:
                key_shift, _ = replace_dim(key_shift, in_dim=distances, out_dim=keys)
        y = self._attended(q, k, v, keys, key_shift, last=state.get("count"))
        return y, State(k_left=k, v_left=v, so_far=keys, **count)

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values of each head. {…, in} → {…, heads, key}, {…, heads, key}, {…, heads, value}"""
        weight = vars(self)["QKV"]
        in_dim, out_dim = weight.sig.dims
        y = matmul(x, weight, reduce=in_dim)
        y = split_dims(y, axis=out_dim, dims=[self.heads, self.per_head])
        q, k, v = split(y, axis=self.per_head, out_dims=[self.keys_dim, self.keys_dim, self.values_dim])
        return q, k, v

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
        return y if y.sig.feature_dim is self.out_dim else set_feature_dim(y, self.out_dim)


class CumConcat(SteppingLayer, layer_class="cum_concat", can_leave=False):
    """The frames up to each one, along `out_spatial_dim`, which grows in a loop. {…} → {…, out_spatial_dim}

    Over a sequence, these are all frames, once; for each frame of `axis`, the new axis has another length.
    """

    out_spatial_dim: Dim | None = value(None, Dim)
    axis: Dim = axis("T")
    so_far: Dim

    def setup(self, x: Tensor) -> None:
        """The new axis."""
        self.so_far = self.out_spatial_dim or Dim(None, name=f"{self.name}:so-far", kind="spatial")

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, out_spatial_dim}"""
        order = [self.axis, *without(x, self.axis)]
        x = x.copy_transpose(order)
        lengths = range_over_dim(self.axis, dtype="int32", device="cpu") + 1
        y = convert_to_tensor(x.raw_tensor, dims=[self.so_far, *order[1:]], lengths={self.so_far: lengths})
        return set_feature_dim(y, x.feature_dim)

    def first_state(self, x: Tensor) -> State:
        """No frames yet."""
        so_far = Dim(0, name="so far")
        frames = zeros([*x.dims, so_far], dtype=x.dtype, sparse_dim=x.sparse_dim)
        return State(frames=frames, so_far=so_far, **no_frames(self, without(x, x.feature_dim)))

    def step(self, state: State, x: Tensor) -> tuple[Tensor, State]:
        """{…} → {…, out_spatial_dim}"""
        frames, so_far, count = with_frame(x, state, "frames")
        new = State(frames=frames, so_far=so_far, **count)
        return set_feature_dim(self.output_of(new), x.feature_dim), new

    def output_of(self, state: State) -> Tensor:
        """The frames so far, of each sequence as many as count."""
        frames, so_far = state["frames"], state["so_far"]
        if "count" in state:
            frames, so_far = slice_(frames, axis=so_far, end=state["count"])
        return replace_dim(frames, in_dim=so_far, out_dim=self.so_far)[0]

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The new axis in the place of the old one, in a loop behind the batch."""
        source = [self.so_far if dim is self.axis else dim for dim in sources[0].dims]
        if self.so_far not in source:
            source.insert(len([dim for dim in source if dim.is_batch_dim()]), self.so_far)
        return source


def no_frames(layer: Layer, batch: Sequence[Dim]) -> dict[str, Tensor]:
    """The part of a first state that counts the frames of each sequence; nothing if each step is a frame."""
    return {"count": zeros(batch, dtype="int32")} if layer.spec.by_mask else {}


def with_frame(x: Tensor, state: State, name: str) -> tuple[Tensor, Dim, dict[str, Tensor]]:
    """The frames in a state with those of this step, their axis, and their count. {…}, {…, so_far} → {…, so_far + 1}

    They stand after the frames of each sequence that count. In a sequence where a mask is false, the count stays as it
    was, and the next frame takes this place.
    """
    y, so_far = cum_concat_step(x, prev_accum=state[name], axis=state["so_far"])
    if "count" not in state:
        return y, so_far, {}
    count: Tensor = state["count"]
    place = compare_bc(range_over_dim(so_far), "==", count)
    y = where(place, x, y, allow_broadcast_all_sources=True)
    return set_feature_dim(y, x.feature_dim), so_far, {"count": count + 1}
