"""The state of a `torch.nn.Module` around an inspected call: restored afterwards, or without data."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, cast

import torch
from torch.nn.parameter import is_lazy

from rfnb.core.tensor.tensor_dict import copied_with


def keep_state(model: torch.nn.Module, stack: ExitStack, *, inside: bool = False) -> bool:
    """Until `stack` ends, the model uses copies of its running statistics; then the present ones are restored.

    Returns whether it has parameters without a shape, which its first call makes; in the end they have none again.
    inside: whether a call is going on, in which `torch.func.functional_call` may have replaced parameters for a while.
    """
    lazy = False
    for module in model.modules():
        training = getattr(module, "training", False)  # a frozen module of TorchScript does not say
        if isinstance(module, torch.jit.ScriptModule):
            for buffer in module.buffers() if training else ():
                keep_numbers(buffer, stack)
            continue
        lazy |= _keep_lazy(module, stack)
        for table in () if inside else (module._parameters, module._buffers):
            stack.callback(_put_back, table, dict(table))
        for name, raw in [*module._buffers.items()] if training else ():
            if raw is not None and not is_lazy(raw):
                _replace(module._buffers, name, raw.detach().clone(), stack)
    return lazy


def _replace(table: dict[str, Any], name: str, new: Any, stack: ExitStack) -> None:
    """Until `stack` ends, an entry of a table is `new`, unless another one has taken its place."""
    stack.callback(_undo, table, name, new, table[name])
    table[name] = new


def _undo(table: dict[str, Any], name: str, new: Any, old: Any) -> None:
    if table.get(name) is new:
        table[name] = old


def _keep_lazy(module: torch.nn.Module, stack: ExitStack) -> bool:
    """Restores a module with parameters without a shape: its first call changes its class, hooks and attributes."""
    raws = [
        raw for raw in (*module._parameters.values(), *module._buffers.values()) if raw is not None and is_lazy(raw)
    ]
    if not raws:
        return False
    stack.callback(setattr, module, "__class__", type(module))
    for table in (vars(module), *(value for value in vars(module).values() if isinstance(value, dict))):
        stack.callback(_put_back, table, dict(table))
    for raw in raws:
        stack.callback(_make_lazy, raw, type(raw), raw.device, raw.dtype)
    return True


def _make_lazy(raw: Any, cls: type, device: torch.device, dtype: torch.dtype) -> None:
    raw.grad = None
    raw.data = torch.empty(0, device=device, dtype=dtype)
    raw.__class__ = cls


def _put_back(table: dict[str, Any], was: dict[str, Any]) -> None:
    table.clear()
    table.update(was)


@contextmanager
def uncompiled() -> Iterator[None]:
    """A block in which compiled modules run as written: torch would compile what observes them as well."""
    dynamo: Any = sys.modules.get("torch._dynamo")  # loaded if anything is compiled
    if not hasattr(dynamo, "set_stance"):  # since torch 2.6
        yield
        return
    with dynamo.set_stance("force_eager"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")
        yield


def keep_numbers(raw: torch.Tensor, stack: ExitStack) -> None:
    """When `stack` ends, the present values of a tensor are restored."""
    numbers = raw.data
    stack.callback(numbers.copy_, numbers.clone())


def on_meta(models: Iterable[torch.nn.Module], given: Any, stack: ExitStack) -> Any:
    """The arguments without data. Until `stack` ends, the models and new tensors have no data either."""
    twins: dict[int, torch.Tensor] = {}
    modules = chain.from_iterable(model.modules() for model in models)
    for module in (child for child in modules if not isinstance(child, torch.jit.ScriptModule)):
        for table in (vars(module), module._parameters, module._buffers):
            plain = {name: raw for name, raw in table.items() if isinstance(raw, torch.Tensor)}
            for name, twin in _twins(plain, twins).items():
                _replace(table, name, twin, stack)
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
        cls: Any = type(raw)
        return cast(torch.Tensor, cls(raw.requires_grad, device="meta", dtype=raw.dtype))
    with torch.no_grad():
        twin = torch.empty_like(raw, device="meta")
    if isinstance(raw, torch.nn.Parameter):
        return torch.nn.Parameter(twin, requires_grad=raw.requires_grad)
    return twin.requires_grad_(raw.requires_grad)
