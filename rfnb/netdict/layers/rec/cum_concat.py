"""cum_concat: all frames so far, along an axis of their own; and such frames as a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.netdict.layer import SteppingLayer
from rfnb.netdict.options import axis, value
from rfnb.ops.concat import cum_concat_step
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.math import compare_bc, where
from rfnb.ops.shape import replace_dim, set_feature_dim
from rfnb.ops.slice import slice as slice_

if TYPE_CHECKING:
    from rfnb.netdict.layer import Layer


class CumConcat(SteppingLayer, layer_class="cum_concat", can_leave=False):
    """The frames up to each one, along `out_spatial_dim`, which grows in a loop. {…} → {…, out_spatial_dim}

    Over a sequence, these are all frames, once; for each frame of `axis`, the new axis has another length.
    """

    out_spatial_dim: Dim | None = value(None, Dim)
    axis: Dim = axis("T")
    so_far: Dim

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The new axis."""
        self.so_far = self.out_spatial_dim or Dim(None, name=f"{self.name}:so-far", kind="spatial")

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, out_spatial_dim}"""
        order = [self.axis, *(dim for dim in x.dims if dim is not self.axis)]
        x = x.copy_transpose(order)
        lengths = range_over_dim(self.axis, dtype="int32", device="cpu") + 1
        y = convert_to_tensor(x.raw_tensor, dims=[self.so_far, *order[1:]], lengths={self.so_far: lengths})
        return set_feature_dim(y, x.feature_dim)

    def first_state(self, x: Tensor) -> State:
        """No frames yet."""
        so_far = Dim(0, name="so far")
        frames = zeros([*x.dims, so_far], dtype=x.dtype, sparse_dim=x.sparse_dim)
        return State(frames=frames, so_far=so_far, **no_frames(self, _without(x.dims, x.feature_dim)))

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


def _without(dims: Sequence[Dim], dim: Dim | None) -> list[Dim]:
    return [d for d in dims if d is not dim]


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
