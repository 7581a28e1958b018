"""Positions as features: positional_encoding, relative_positional_encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Count
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.netdict.axes import time_of, with_last, without
from rfnb.netdict.layer import SteppingLayer
from rfnb.netdict.layers.basic import N_OUT
from rfnb.netdict.layers.initializers import initial_values
from rfnb.netdict.options import axis, layer, value
from rfnb.netdict.resolve import required
from rfnb.ops.concat import concat
from rfnb.ops.create import full, range_over_dim, zeros
from rfnb.ops.index import gather
from rfnb.ops.math import cast, clip_by_value, combine_bc
from rfnb.ops.position import sinusoidal_encoding
from rfnb.ops.shape import expand_dim, replace_dim, set_feature_dim, set_sparse_dim


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
        for dim in without(x, x.feature_dim, self.axis):
            positions = expand_dim(positions, dim)
        return self._added(x, positions, offset)

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

    def axis_in_loop(self, given: Any, axes: Any, source: Tensor | None, *, numbers: bool) -> object:
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
