"""The description of a loop for drawing its graph, while its traced frame still exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import Node
from rfnb.core.ground.source import Source
from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.record.record import Recorder


@dataclass
class LoopRecord:
    """A loop that has finished or failed, with all that is drawn of it. It is freed after drawing.

    around: the recorders of outer loops, the innermost first. own_ops: how many ops belong to the user's body; later
    ones were added by the loop. initial, before, after, final: the states by name, as Tensors or Dims, before the loop,
    at the start and end of the body, and after the loop. unstacked: pairs (source, frame). stacked, lasts: pairs (value
    of the body, result). error: whether the loop failed; failed: the node that failed in a step.
    """

    name: str
    recorder: Recorder
    around: list[Recorder]
    source: Source | None
    axis: Dim | None
    size: Size | None
    own_ops: int
    initial: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any]
    final: dict[str, Any]
    unstacked: list[tuple[Tensor, Tensor]]
    stacked: list[tuple[Tensor, Tensor]]
    lasts: list[tuple[Tensor, Tensor]]
    end: Tensor | None
    include_eos: bool
    error: bool
    failed: Node | None
