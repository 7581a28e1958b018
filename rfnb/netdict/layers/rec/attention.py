"""Attention: to a sequence (generic, dot, concat, gauss_window), self_attention, cum_concat; encodings of positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Count, Positive, Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of, with_features, with_last, without
from rfnb.netdict.layer import Layer, SteppingLayer
from rfnb.netdict.layers.activations import initial_values
from rfnb.netdict.layers.basic import N_OUT
from rfnb.netdict.options import REQUIRED, axis, layer, value
from rfnb.netdict.resolve import required
from rfnb.ops.attention import attend
from rfnb.ops.concat import concat, cum_concat_step, split
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import full, range_over_dim, zeros
from rfnb.ops.index import gather
from rfnb.ops.math import cast, clip_by_value, combine_bc, compare_bc, exp, round, square, tanh, where
from rfnb.ops.matmul import matmul
from rfnb.ops.position import sinusoidal_encoding
from rfnb.ops.random import dropout
from rfnb.ops.reduce import reduce_sum, softmax
from rfnb.ops.shape import expand_dim, merge_dims, replace_dim, set_feature_dim, set_sparse_dim, split_dims, squeeze
from rfnb.ops.slice import slice as slice_


class GenericAttention(Layer, layer_class="generic_attention", sourceless=True):
    """The sum of the frames of `base`, each times its weight. {…, time}, base {…, time, features} → {…, features}"""

    weights: object = layer()
    base: object = layer()
    auto_squeeze: bool = value(True, bool)

    def compute(self, weights: Tensor, base: Tensor) -> Tensor:
        """{…, time}, {…, time, features} → {…, features}"""
        frames = frames_of(base)
        for old, new in self.matching(self.pool, weights, base):
            if new is not base.feature_dim:
                weights = replace_dim(weights, in_dim=old, out_dim=new)[0]
        if frames not in weights.dims:
            fault = "the weights are not of the frames of the base"
            raise NetworkError(fault, got=weights.describe_dims(), expected=f"with {frames}")
        for dim in weights.dims if self.auto_squeeze else ():
            if dim.dimension == 1 and dim not in base.dims and not dim.is_batch_dim():
                weights = squeeze(weights, dim)
        y = matmul(weights, base, reduce=frames, use_mask=False)
        return set_feature_dim(y, base.feature_dim)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The features of the base come last."""
        return with_last(order, self.spec.feature_dim)


class DotAttention(Layer, layer_class="dot_attention"):
    """Attention with the energies ⟨base_ctx, source⟩. {…, n}, {…, time, n}, {…, time, features} → {…, features}

    https://arxiv.org/abs/1508.04025
    """

    base: object = layer()
    base_ctx: object = layer()
    energy_factor: float | None = value(None, float)

    def compute(self, x: Tensor, base: Tensor, base_ctx: Tensor) -> Tensor:
        """{…, n}, {…, time, features}, {…, time, n} → {…, features}"""
        frames = frames_of(base)
        energy = self.energy(with_features(x, base_ctx.feature_dim), base_ctx)
        weights = softmax(energy, axis=frames)
        return set_feature_dim(matmul(weights, base, reduce=frames), base.feature_dim)

    def energy(self, x: Tensor, base_ctx: Tensor) -> Tensor:
        """{…, n}, {…, time, n} → {…, time}"""
        energy = matmul(base_ctx, x, reduce=features_of(base_ctx))
        return energy if self.energy_factor is None else energy * self.energy_factor


class ConcatAttention(DotAttention, layer_class="concat_attention"):
    """Attention with the energies ⟨v, tanh(base_ctx + source)⟩; v is trained. https://arxiv.org/abs/1409.0473"""

    def setup(self, x: Tensor, base: Tensor, base_ctx: Tensor) -> None:
        """v {n}"""
        self.v = self.parameter("v", [features_of(base_ctx)], initial_values("glorot_uniform"))

    def energy(self, x: Tensor, base_ctx: Tensor) -> Tensor:
        """{…, n}, {…, time, n} → {…, time}"""
        return matmul(tanh(base_ctx + x), self.v, reduce=features_of(base_ctx))


def frames_of(base: Tensor) -> Dim:
    """The axis that attention sums over. Raises NetworkError if there is none."""
    return required(time_of(base), "the base has no frames", base.describe_dims(), "{batch, time, features}")


def features_of(x: Tensor) -> Dim:
    """The feature dim. Raises NetworkError if there is none."""
    return required(x.feature_dim, "attention needs features", x.describe_dims())


class GaussWindowAttention(Layer, layer_class="gauss_window_attention"):
    """The frames around a position, each times its density of a normal distribution. {…}, {…, time, F} → {…, F}

    The weights are not normalized. Frames before the first and after the last one are these.
    """

    base: object = layer(REQUIRED)
    window_size: int = value(REQUIRED, Positive)
    std: float = value(1.0, float)
    inner_size: int | None = value(None, Positive)
    inner_size_step: float = value(0.5, float)

    def setup(self, x: Tensor, base: Tensor) -> None:
        """The axes of the window, and of several positions."""
        self.frames, self.window = frames_of(base), Dim(self.window_size, name="window")
        if x.feature_dim is not None and x.feature_dim.dimension != 1:
            raise NetworkError("the source is more than a position", got=x.describe_dims(), expected="{batch}")
        self.result_feature = base.feature_dim
        self.inner = None if self.inner_size is None else Dim(self.inner_size, name="inner")

    def compute(self, x: Tensor, base: Tensor) -> Tensor:
        """{…}, {…, time, F} → {…, F}"""
        position = x if x.feature_dim is None else squeeze(x, x.feature_dim)
        if self.inner is not None:
            shift = cast(set_sparse_dim(range_over_dim(self.inner), None), x.dtype) * self.inner_size_step
            position = combine_bc(position, "+", shift - self.inner.get_dim_value() / 2)
        start = cast(round(position), "int64") - self.window_size // 2
        at = combine_bc(start, "+", set_sparse_dim(range_over_dim(self.window, dtype="int64"), None))
        weights = exp(square(position - cast(at, x.dtype)) / (-2 * self.std**2)) / (self.std * math.sqrt(2 * math.pi))
        near = gather(base, indices=at, axis=self.frames, clip_to_valid=True)
        return set_feature_dim(reduce_sum(near * weights, axis=self.window), base.feature_dim)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The positions stand before the features, which come last."""
        return with_last(order, self.inner, self.result_feature)


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
        """The new axis in the place of the old one, in a loop after the batch."""
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


class PositionalEncoding(SteppingLayer, layer_class="positional_encoding"):
    """Sines and cosines of the position of each frame. {…, axis, …} → {…, axis, n_out}

    In a loop, the position is the number of steps of the layer so far, a state. https://arxiv.org/abs/1706.03762
    """

    axis: Dim = axis("T")
    add_to_input: bool = value(False, bool)
    constant: int = value(-1, int)
    offset: object = layer()

    def setup(self, x: Tensor, **inputs: Tensor) -> None:
        """The features: those of the source, if the encoding is added to it."""
        features = x.feature_dim if self.add_to_input else self.out_dim or x.feature_dim
        self.features = required(features, "positional_encoding needs the number of its outputs", expected=N_OUT)

    def compute(self, x: Tensor, offset: Tensor | None = None) -> Tensor:
        """{…, axis, …} → {…, axis, n_out}"""
        if self.constant >= 0:
            return self._added(x, full(dims=without(x, x.feature_dim), fill_value=self.constant, dtype="int32"))
        positions = cast(range_over_dim(self.axis), "int32")
        return self._added(x, reduce(expand_dim, without(x, x.feature_dim, self.axis), positions), offset)

    def first_state(self, x: Tensor, **inputs: Tensor) -> State:
        """No step yet: −1."""
        return State(position=full(dims=without(x, x.feature_dim), fill_value=-1, dtype="int32"))

    def step(self, state: State, x: Tensor, offset: Tensor | None = None) -> tuple[Tensor, State]:
        """{…} → {…, n_out}"""
        position = state.position + 1
        at = position if self.constant < 0 else full(dims=position.dims, fill_value=self.constant, dtype="int32")
        return self._added(x, at, offset if self.constant < 0 else None), State(position=position)

    def _added(self, x: Tensor, positions: Tensor, offset: Tensor | None = None) -> Tensor:
        if offset is not None:
            positions = positions + cast(offset, positions.dtype)
        y = encoded(positions, self.features)
        return set_feature_dim(x + y if self.add_to_input else y, self.features)


def encoded(positions: Tensor, features: Dim) -> Tensor:
    """sin and cos of positions; a 0 at the end if the number of features is odd. {…} → {…, features}"""
    size = features.get_dim_value()
    if size % 2 == 0:
        return sinusoidal_encoding(positions, feat_dim=features)
    even, unit = Dim(size - 1, name="even"), Dim(1, name="one")
    y = sinusoidal_encoding(positions, feat_dim=even)
    return concat((y, even), (zeros([*positions.dims, unit], dtype=y.dtype), unit), out_dim=features)[0]


class RelativePositionalEncoding(SteppingLayer, layer_class="relative_positional_encoding"):
    """A vector for the distance of each key from each query. {…, axis, …} → {query, key, n_out}

    Distances are clipped; the vectors are trained, or sines and cosines. In a loop, the query is the frame of the step,
    and the keys are those up to it. https://arxiv.org/abs/1803.02155
    """

    axis: Dim | None = axis(None)
    clipping: int = value(16, Count)
    fixed: bool = value(False, bool)
    forward_weights_init: object = value("glorot_uniform")
    query_spatial_dim: Dim | None = value(None, Dim)
    key_value_spatial_dim: Dim | None = value(None, Dim)
    query_offset: object = layer()

    def setup(self, x: Tensor, **inputs: Tensor) -> None:
        """encoding_matrix {2 · clipping + 1, n_out}"""
        required(self.out_dim, "relative_positional_encoding needs the number of its outputs", expected=N_OUT)
        self.distances = Dim(2 * self.clipping + 1, name="distance")
        if not self.stepwise:
            query, expected = self.query_spatial_dim or self.axis or time_of(x), '"query_spatial_dim": …'
            self.query = self.axis = required(query, "the source has no frames", x.describe_dims(), expected)
            self.keys = self.key_value_spatial_dim or Dim(None, name=f"{self.query.name} of keys", kind="spatial")
        if not self.fixed:
            initial = initial_values(self.forward_weights_init)
            self.encoding_matrix = self.parameter("encoding_matrix", [self.distances, self.out_dim], initial)
            if self.spec.changes is None or "encoding_matrix" not in self.spec.changes.shared:
                self.distances = self.encoding_matrix.dims[0]  # another net may have made it

    def leave_loop(self, axis: Dim) -> None:
        """Queries and keys are the frames of the loop."""
        super().leave_loop(axis)
        self.query, self.keys = axis, Dim(None, name=f"{axis.name} of keys", kind="spatial")

    def axis_in_loop(self, given: object, axes: Any, source: Tensor | None, *, numbers: bool) -> object:
        """None in a loop, unless a source has frames of its own."""
        return super().axis_in_loop("T" if given is None else given, axes, source, numbers=numbers)

    def compute(self, x: Tensor, query_offset: Tensor | None = None) -> Tensor:
        """{…, axis, …} → {query, key, n_out}"""
        queries = cast(range_over_dim(self.query), "int32")
        if self.key_value_spatial_dim is None:
            keys, _ = replace_dim(queries, in_dim=self.query, out_dim=self.keys)
        else:
            keys = cast(range_over_dim(self.keys), "int32")
        shift = query_offset if query_offset is not None else self.query_offset
        if shift is not None:
            queries = queries + (cast(shift, "int32") if isinstance(shift, Tensor) else shift)
        return self._vectors(combine_bc(keys, "sub", queries))

    def first_state(self, x: Tensor) -> State:
        """No step yet."""
        count = full(dims=without(x, x.feature_dim) if self.spec.by_mask else [], fill_value=-1, dtype="int32")
        return State(count=count, so_far=Dim(0, name="so far"))

    def step(self, state: State, x: Tensor) -> tuple[Tensor, State]:
        """{…} → {key, n_out}"""
        count: Tensor = state["count"] + 1
        so_far: Dim = state["so_far"] + 1
        positions = cast(range_over_dim(so_far), "int32")
        return self._vectors(combine_bc(positions, "sub", count)), State(count=count, so_far=so_far)

    def _vectors(self, distance: Tensor) -> Tensor:
        """{…} → {…, n_out}"""
        places = clip_by_value(distance, -self.clipping, self.clipping) + self.clipping
        if self.fixed:
            return set_feature_dim(encoded(places, self.out_dim), self.out_dim)
        y = gather(self.encoding_matrix, indices=set_sparse_dim(places, self.distances), axis=self.distances)
        return set_feature_dim(y, self.out_dim)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """Queries, keys, features."""
        return order if self.stepwise else with_last(order, self.query, self.keys, self.out_dim)
