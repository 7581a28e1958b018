"""What a loop tells of itself to somebody who draws it, while its traced frame is still there."""

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
    """A loop that is done, or has failed. It is let go of when it has been drawn.

    around: the bodies of loops around it, the nearest first. own_ops: how many ops are of the body; the others are what
    the loop does itself. initial, before, after, final: of the states, by name; Tensors or Dims.
    unstacked: (source, frame). stacked, lasts: (value of the body, result). failed: the node that failed in a step.
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
