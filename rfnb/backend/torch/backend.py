"""The torch backend: the families in one class; and what records calls of plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

import torch

from rfnb.backend.base.backend import Backend
from rfnb.backend.torch.attention import TorchAttention
from rfnb.backend.torch.conv import TorchConv, TorchSignal
from rfnb.backend.torch.data import TorchData, TorchMeasure
from rfnb.backend.torch.fuse import TorchFuse
from rfnb.backend.torch.grad import TorchGrad
from rfnb.backend.torch.index import TorchIndex, TorchMask, TorchScatter, TorchSort, TorchTopK
from rfnb.backend.torch.loss import TorchCtc, TorchLoss
from rfnb.backend.torch.math import TorchMath
from rfnb.backend.torch.random import TorchRandom
from rfnb.backend.torch.rec import TorchRec
from rfnb.backend.torch.reduce import TorchReduce
from rfnb.backend.torch.shape import TorchShape
from rfnb.backend.torch.tape import TorchTape
from rfnb.core.ground.backends import register_backend_by_tensor_type, select
from rfnb.core.ground.hook import drop_numbers, keep_state, record_calls, trace_call

if TYPE_CHECKING:
    from rfnb.core.graph.call_recorder import CallRecorder
    from rfnb.core.graph.meter import Meter
    from rfnb.core.graph.model_graph import ModelGraph


class TorchBackend(
    TorchMath,
    TorchData,
    TorchMask,
    TorchRandom,
    TorchIndex,
    TorchScatter,
    TorchTopK,
    TorchSort,
    TorchShape,
    TorchReduce,
    TorchConv,
    TorchSignal,
    TorchAttention,
    TorchLoss,
    TorchCtc,
    TorchRec,
    TorchGrad,
    TorchTape,
    TorchFuse,
    TorchMeasure,
    Backend,
):
    """Computes with torch."""

    name = "torch"
    RawTensorType = torch.Tensor


register_backend_by_tensor_type(torch.Tensor, TorchBackend)
select(TorchBackend)


# -- graphs of plain torch, whose code is imported with the first graph


@trace_call.register(torch.nn.Module, torch.Tensor)
def trace(model: Any, args: tuple[object, ...], kwargs: dict[str, object], **options: Any) -> ModelGraph:
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
