"""Models of other kinds, such as modules of torch: backends register how a call of one is traced, and put back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from rfnb.core.ground.hook import ClassHook

if TYPE_CHECKING:
    from rfnb.core.graph.model_graph import ModelGraph


class TraceCall(Protocol):
    """The type of functions that trace a call."""

    def __call__(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, meta: bool) -> ModelGraph:
        """Calls the model once and returns the graph of the call. meta: without numbers."""


trace_call: ClassHook[TraceCall] = ClassHook("core.ground.tracers.trace_call", by="backend.torch.plain")
"""By the class of a model, or of what it is given."""

keep_state: ClassHook[Callable[[Any, ExitStack], None]] = ClassHook(
    "core.ground.tracers.keep_state", by="backend.torch.plain"
)
"""By the class of modules which a model may hold: has their state put back when the stack ends."""
