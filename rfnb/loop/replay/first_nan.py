"""Finds the op that made the first NaN of a hypothesis, in the recorded steps of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.graph.graph import Node
from rfnb.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rfnb.loop.replay.replay import Replay


def first_nan(replay: Replay, step: int, at: Sequence[int], place: int) -> str | None:
    """The op that made the first NaN of a hypothesis, with its step and line; None if no value of the body is NaN.

    Args:
        step: the step after which the score of the hypothesis is NaN.
        at: its sequence, along each dim of the batch. place: its place in the beam.
    """
    for number, where in enumerate(_path(replay, step, at, place)):
        for value, tensor in replay.computed(number):
            if value.node is not None and _has_nan(replay, tensor, where):
                return f"{_described(value.node, tensor.name)}, in step {number}"
    return None


def _path(replay: Replay, step: int, at: Sequence[int], place: int) -> list[dict[Dim, int]]:
    """Where a hypothesis is at each step up to `step`: its position along each dim of a batch, and in each beam."""
    search, path = replay.plan.search, list[dict[Dim, int]]()
    assert search is not None
    beams = search.beams
    for number in range(step, -1, -1):
        where = dict(zip(beams.dims, at, strict=False))
        for after, parents in zip(reversed(beams.after), reversed(replay.parents), strict=True):
            where[after] = place
            place = int(parents[number][(*at, place)])
        where[beams.dims[-1]] = place
        path.append(where)
    return path[::-1]


def _has_nan(replay: Replay, tensor: Tensor, where: dict[Dim, int]) -> bool:
    """Whether an entry of a hypothesis is NaN, other than padding."""
    if not tensor.dtype.startswith(("float", "bfloat", "complex")):
        return False
    values, mask = replay.backend.to_numpy_raw(tensor._raw), replay.backend.mask_for(tensor, tensor.dims)
    if mask is not None:
        values = np.where(np.broadcast_to(replay.backend.to_numpy_raw(mask), values.shape), values, 0)
    return bool(np.isnan(values[tuple(where.get(dim, slice(None)) for dim in tensor.dims)]).any())


def _described(node: Node, name: str) -> str:
    place = "" if node.source is None else f" at {node.source.place()}: `{node.source.text()}`"
    subject = f"the {node.kind} {name}" if node.kind in ("input", "state") else node.op
    return f"{subject}{place}"
