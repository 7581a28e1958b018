"""Models of other libraries, such as torch: backends register how to trace a call, and how to restore their state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from rfnb.core.ground.hook import ClassHook, Hook

if TYPE_CHECKING:
    from rfnb.core.graph.call_recorder import CallRecorder
    from rfnb.core.graph.meter import Meter
    from rfnb.core.graph.model_graph import ModelGraph


class TraceCall(Protocol):
    """A function that traces a call of a model."""

    def __call__(
        self,
        model: object,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        *,
        meta: bool,
        meter: Meter | None = None,
        kept: ExitStack | None = None,
    ) -> ModelGraph:
        """Calls the model once and returns the graph of the call.

        Args:
            meta: on the meta device, without numbers.
            meter: measures the nodes.
            kept: restores, when it closes, the modules that the call finds, for calls that are not traced.
        """


trace_call: ClassHook[TraceCall] = ClassHook("core.ground.tracers.trace_call", by="backend.torch.plain")
"""Traces a call; registered by the class of a model, or of one of its arguments."""

keep_state: ClassHook[Callable[[Any, ExitStack], None]] = ClassHook(
    "core.ground.tracers.keep_state", by="backend.torch.plain"
)
"""Restores the state of modules when the stack closes; registered by the class of modules that a model may hold."""

record_calls: Hook[[Sequence[Any], Meter], AbstractContextManager[CallRecorder | None]] = Hook(
    "core.ground.tracers.record_calls", by="backend.torch.plain", otherwise=lambda models, meter: nullcontext()
)
"""Records the calls of plain torch inside the block, apart from those that rfnb makes itself, and reports them to the
meter. models: modules whose paths begin with their class."""

drop_numbers: ClassHook[Callable[[Any, ExitStack], None]] = ClassHook(
    "core.ground.tracers.drop_numbers", by="backend.torch.plain"
)
"""Puts modules on the device "meta" until the stack closes; registered like `keep_state`."""
