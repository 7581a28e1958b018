"""Frames so far as a state: all steps of a loop, or those that a mask takes, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.ops.concat import cum_concat_step
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.math import compare_bc, where
from rfnb.ops.shape import set_feature_dim

if TYPE_CHECKING:
    from rfnb.network.layer import Layer


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
