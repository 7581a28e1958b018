"""Zero-step loops: their results keep parameters in the graph of the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.loop.step import TracedStep


def reaching(step: TracedStep, results: Sequence[Any]) -> list[Any]:
    """The results, connected so that a gradient of 0 reaches all tensors that the steps would have read.

    All parameters then have a gradient, which distributed training waits for in every process.
    """
    backend = step.backend
    raws = [*step.tape.externals, *(source._raw for source, _ in step.unstacked)]
    sources = [raw for raw in raws if backend.needs_gradient_raw(raw)]
    if not sources:
        return list(results)
    return [raw if isinstance(raw, int | None) else backend.reaching_raw(raw, sources) for raw in results]
