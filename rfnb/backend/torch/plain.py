"""Graphs of plain torch. Their code is imported with the first graph."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

import torch

from rfnb.core.ground.hook import drop_numbers, keep_state, record_calls, trace_call

if TYPE_CHECKING:
    from rfnb.core.graph.call_recorder import CallRecorder
    from rfnb.core.graph.meter import Meter
    from rfnb.core.graph.model_graph import ModelGraph


@trace_call.register(torch.nn.Module, torch.Tensor)
def trace(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], **options: Any) -> ModelGraph:
    """The graph of a torch module, or of a function of torch tensors."""
    from rfnb.backend.torch.module_graph import module_graph

    return module_graph(model, args, kwargs, **options)


@keep_state.register(torch.nn.Module)
def keep(model: torch.nn.Module, stack: ExitStack) -> None:
    """Restores the state of the module when `stack` ends."""
    from rfnb.backend.torch import module_state

    module_state.keep_state(model, stack)


@record_calls.register
def record(models: Sequence[object], meter: Meter) -> AbstractContextManager[CallRecorder]:
    """Records the calls of torch inside the block."""
    from rfnb.backend.torch.module_graph import recording_calls

    return recording_calls(models, meter)


@drop_numbers.register(torch.nn.Module)
def drop(model: torch.nn.Module, stack: ExitStack) -> None:
    """Puts the module on the device "meta" until `stack` ends."""
    from rfnb.backend.torch import module_state

    module_state.on_meta([model], (), stack)
