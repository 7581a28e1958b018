"""The state of a `torch.nn.Module` around an inspected call: restored afterwards, or without data."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from itertools import chain
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin

from rfnb.core.tensor.tensor_dict import copied_with


def keep_state(model: torch.nn.Module, stack: ExitStack) -> None:
    """Until `stack` ends, the model uses copies of its running statistics; then the present ones are restored, and
    what the call has initialized is uninitialized again.
    """
    for module in model.modules():
        training = getattr(module, "training", False)  # a frozen module of TorchScript does not say
        if isinstance(module, torch.jit.ScriptModule):
            for raw in module.buffers() if training else ():
                keep_numbers(raw, stack)
            continue
        _keep_lazy(module, stack)
        for table in (module._parameters, module._buffers):
            stack.callback(_put_back, table, dict(table))
        for name, raw in module._buffers.items() if training else ():
            if raw is not None and not is_lazy(raw):
                module._buffers[name] = raw.detach().clone()


def is_lazy(raw: torch.Tensor | None) -> bool:
    """Whether a parameter or buffer has no shape until its module is called."""
    return isinstance(raw, UninitializedTensorMixin)


def _keep_lazy(module: torch.nn.Module, stack: ExitStack) -> None:
    """When `stack` ends, a module without shapes has none again. Its call changes its class, hooks and attributes."""
    raws = [
        raw for raw in (*module._parameters.values(), *module._buffers.values()) if raw is not None and is_lazy(raw)
    ]
    if not raws:
        return
    stack.callback(setattr, module, "__class__", type(module))
    for table in (vars(module), *(held for held in vars(module).values() if isinstance(held, dict))):
        stack.callback(_put_back, table, dict(table))
    for raw in raws:
        stack.callback(_make_lazy, raw, type(raw), raw.device, raw.dtype)


def _make_lazy(raw: Any, cls: type, device: torch.device, dtype: torch.dtype) -> None:
    raw.grad = None
    raw.data = torch.empty(0, device=device, dtype=dtype)
    raw.__class__ = cls


def _put_back(table: dict[str, Any], was: dict[str, Any]) -> None:
    table.clear()
    table.update(was)


def keep_numbers(raw: torch.Tensor, stack: ExitStack) -> None:
    """When `stack` ends, the present values of a tensor are restored."""
    numbers = raw.data
    stack.callback(numbers.copy_, numbers.clone())


def on_meta(models: Iterable[torch.nn.Module], given: Any, stack: ExitStack) -> Any:
    """The arguments without data. Until `stack` ends, the models and new tensors have no data either."""
    twins: dict[int, torch.Tensor] = {}
    modules = chain.from_iterable(model.modules() for model in models)
    for module in (each for each in modules if not isinstance(each, torch.jit.ScriptModule)):
        plain = {name: raw for name, raw in vars(module).items() if isinstance(raw, torch.Tensor)}
        stack.callback(vars(module).update, plain)
        vars(module).update(_twins(plain, twins))
        for table in ("_parameters", "_buffers"):
            vars(module)[table].update(_twins(vars(module)[table], twins))
        if isinstance(module, torch.nn.RNNBase):
            stack.callback(setattr, module, "_flat_weights", module._flat_weights)
            flat = dict(enumerate(module._flat_weights))
            module._flat_weights = list(_twins(flat, twins).values())
    stack.enter_context(torch.device("meta"))
    return copied_with(lambda leaf: without_numbers(leaf) if isinstance(leaf, torch.Tensor) else leaf, given)


def _twins(table: dict[Any, Any], twins: dict[int, torch.Tensor]) -> dict[Any, Any]:
    """A tensor without data for each tensor, the same one for the same tensor; None stays."""
    for raw in table.values():
        if raw is not None and id(raw) not in twins:
            twins[id(raw)] = without_numbers(raw)
    return {name: None if raw is None else twins[id(raw)] for name, raw in table.items()}


def without_numbers(raw: torch.Tensor) -> torch.Tensor:
    """A tensor of the same shape and dtype on the device "meta"; a parameter for a parameter."""
    if raw.is_meta:
        return raw
    if is_lazy(raw):
        return type(raw)(raw.requires_grad, device="meta", dtype=raw.dtype)
    with torch.no_grad():
        twin = torch.empty_like(raw, device="meta")
    if isinstance(raw, torch.nn.Parameter):
        return torch.nn.Parameter(twin, requires_grad=raw.requires_grad)
    return twin.requires_grad_(raw.requires_grad)
