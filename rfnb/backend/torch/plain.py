"""Graphs of plain torch. What makes them is imported when the first one is made."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

from rfnb.core.ground.tracers import keep_state, trace_call

if TYPE_CHECKING:
    from rfnb.core.graph.model_graph import ModelGraph


@trace_call.register(torch.nn.Module, torch.Tensor)
def trace(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, meta: bool) -> ModelGraph:
    """Of a module of torch, or a function of its tensors."""
    from rfnb.backend.torch.module_graph import module_graph

    return module_graph(model, args, kwargs, meta=meta)


@keep_state.register(torch.nn.Module)
def keep(model: torch.nn.Module, stack: ExitStack) -> None:
    """Its state is as before when `stack` ends."""
    from rfnb.backend.torch import module_state

    module_state.keep_state(model, stack)
