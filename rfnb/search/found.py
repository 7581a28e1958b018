"""What a search found."""

from __future__ import annotations

from dataclasses import dataclass

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.search.trace import Trace


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found. scores, lengths: of the final hypotheses, {…, beam}."""

    trace: Trace
    scores: Tensor
    lengths: Tensor
    beam: Dim
