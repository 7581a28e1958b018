"""The state of a `torch.nn.Module` around an inspected call: restored afterwards, or without data."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from itertools import chain
from typing import Any

import torch

from rfnb.core.ground.nested import map_leaves


def keep_state(model: torch.nn.Module, stack: ExitStack) -> None:
    """Until `stack` ends, the model uses copies of its running statistics; then the present ones are restored."""
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            stack.callback(_put_back, table, dict(table))
        for name, raw in module._buffers.items() if module.training else ():
            if raw is not None:
                module._buffers[name] = raw.detach().clone()


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
    for module in chain.from_iterable(model.modules() for model in models):
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
    return map_leaves(lambda leaf: without_numbers(leaf) if isinstance(leaf, torch.Tensor) else leaf, given)


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
    with torch.no_grad():
        twin = torch.empty_like(raw, device="meta")
    if isinstance(raw, torch.nn.Parameter):
        return torch.nn.Parameter(twin, requires_grad=raw.requires_grad)
    return twin.requires_grad_(raw.requires_grad)
