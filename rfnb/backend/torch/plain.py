"""Graphs of plain torch. Their code is imported with the first graph."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

from rfnb.core.ground.tracers import KEEPERS, TRACERS

if TYPE_CHECKING:
    from rfnb.core.graph.model_graph import ModelGraph


def trace(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, meta: bool) -> ModelGraph:
    """The graph of a torch module, or of a function of torch tensors."""
    from rfnb.backend.torch.module_graph import module_graph

    return module_graph(model, args, kwargs, meta=meta)


def keep(model: torch.nn.Module, stack: ExitStack) -> None:
    """Restores the state of the module when `stack` ends."""
    from rfnb.backend.torch.module_state import keep_state

    keep_state(model, stack)


TRACERS[torch.nn.Module] = TRACERS[torch.Tensor] = trace
KEEPERS[torch.nn.Module] = keep
