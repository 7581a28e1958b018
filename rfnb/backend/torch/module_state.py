"""The state of a `torch.nn.Module` around a call: restored afterwards, without data, or in evaluation mode."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parameter import is_lazy

from rfnb.core.ground.source import words_of
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


def _replace(table: dict[str, Any], name: str, new: object, stack: ExitStack) -> None:
    """Until `stack` ends, an entry of a table is `new`, unless another one has taken its place."""
    stack.callback(_undo, table, name, new, table[name])
    table[name] = new


def _undo(table: dict[str, object], name: str, new: object, old: object) -> None:
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


def _put_back(table: dict[str, Any], was: dict[str, object]) -> None:
    table.clear()
    table.update(was)


@contextmanager
def uncompiled() -> Iterator[None]:
    """A block in which compiled modules run as written: torch would compile what observes them as well."""
    dynamo: object = sys.modules.get("torch._dynamo")  # loaded if anything is compiled
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


def on_meta(models: Iterable[torch.nn.Module], given: object, stack: ExitStack) -> Any:
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


DEPTH = 4
"""How far `modules_of` follows functions and objects."""
SHARDED = ("FullyShardedDataParallel", "FSDPModule")
"""Wrappers whose forward passes need all processes."""


@contextmanager
def evaluating(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Without gradients, and with these modules, and all others that are called inside, in evaluation mode.

    Afterwards, each module has its own mode again, its buffers have their values and its parameters their gradients.
    """
    modes = _Kept()
    with ExitStack() as stack:
        stack.callback(modes.restore)
        for module in modules:
            modes.add(module)
        stack.enter_context(register_module_forward_pre_hook(lambda module, args: modes.add(module)))
        stack.enter_context(torch.no_grad())
        yield


class _Kept:
    """What modules had before: modes, buffers, gradients, and whether DistributedDataParallel is to send buffers."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._back: list[Callable[[], object]] = []

    def add(self, module: nn.Module) -> None:
        """Remembers a module and all below it, and sets them to evaluation mode."""
        if id(module) in self._seen:
            return
        for child in module.modules():
            if id(child) not in self._seen:
                self._seen.add(id(child))
                self._add(child)

    def _add(self, module: nn.Module) -> None:
        self._back.append(functools.partial(setattr, module, "training", module.training))
        module.training = False
        for name, buffer in module._buffers.items():
            if buffer is not None:
                self._back.append(functools.partial(_give_back, module, name, buffer, buffer.clone()))
        for parameter in module._parameters.values():
            if parameter is not None and id(parameter) not in self._seen:
                self._seen.add(id(parameter))
                self._back.append(functools.partial(setattr, parameter, "grad", parameter.grad))
                parameter.grad = None
        if isinstance(module, nn.parallel.DistributedDataParallel):
            for name in ("require_forward_param_sync", "_join_config"):
                self._back.append(functools.partial(setattr, module, name, getattr(module, name)))
            module.require_forward_param_sync = False  # the other processes do not take part
            module._join_config = module._join_config._replace(enable=False)

    def restore(self) -> None:
        """Everything as it was."""
        with torch.no_grad():
            for give_back in reversed(self._back):
                give_back()


def _give_back(module: nn.Module, name: str, buffer: torch.Tensor, values: torch.Tensor) -> None:
    if not buffer.equal(values):  # kernels of batch norm do not count versions
        buffer.data.copy_(values)
    module._buffers[name] = buffer


def modules_of(fn: Callable[..., object]) -> list[nn.Module]:
    """The modules that a function refers to: as closure, default, global variable, or in objects found there."""
    modules: list[nn.Module] = []
    _look(fn, DEPTH, modules, set())
    return modules


def _look(value: object, depth: int, found: list[nn.Module], seen: set[int]) -> None:
    if id(value) in seen or depth < 0 or isinstance(value, type | ModuleType | torch.Tensor):
        return
    seen.add(id(value))
    if isinstance(value, nn.Module):
        found.append(value)
        return
    for part in _parts(value):
        _look(part, depth - 1, found, seen)


def _parts(value: object) -> Iterable[Any]:
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        return [*cells, *defaults, *(value.__globals__.get(name) for name in words_of(value.__code__))]
    if isinstance(value, list | tuple | dict):
        return list(value.values() if isinstance(value, dict) else value)[:100]
    return list(getattr(value, "__dict__", {}).values())[:100]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a variable that has no value yet
        return False


def is_sharded(modules: Iterable[nn.Module]) -> bool:
    """Whether a forward pass of one of these modules needs all processes: FSDP, or parameters that are DTensors."""
    parts = [part for module in modules for part in module.modules()]
    if any(cls.__name__ in SHARDED for part in parts for cls in type(part).__mro__):
        return True
    return any(type(parameter).__name__ == "DTensor" for part in parts for parameter in part.parameters(recurse=False))


def rank() -> int:
    """The number of this process among those that train together."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_rank())
    return int(os.environ.get("RANK", "0"))
