"""Torch modules in evaluation mode beside a training, which then goes on as if nothing had run."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

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
        self._back: list[Callable[[], Any]] = []

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


def modules_of(fn: Callable[..., Any]) -> list[nn.Module]:
    """The modules that a function refers to: as closure, default, global variable, or in objects found there."""
    modules: list[nn.Module] = []
    _look(fn, DEPTH, modules, set())
    return modules


def _look(value: Any, depth: int, found: list[nn.Module], seen: set[int]) -> None:
    if id(value) in seen or depth < 0 or isinstance(value, type | ModuleType | torch.Tensor):
        return
    seen.add(id(value))
    if isinstance(value, nn.Module):
        found.append(value)
        return
    for part in _parts(value):
        _look(part, depth - 1, found, seen)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        return [*cells, *defaults, *(value.__globals__.get(name) for name in _names(value.__code__))]
    if isinstance(value, list | tuple | dict):
        return list(value.values() if isinstance(value, dict) else value)[:100]
    return list(getattr(value, "__dict__", {}).values())[:100]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a variable that has no value yet
        return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


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
