"""Calls of submodules through torch, so that torch's hooks run: they see raw tensors where the module has Tensors."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import torch
from torch.nn.modules import module as globally

from rfnb.core.ground.nested import form_of, leaves, map_pairs
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import BackendError, DimError
from rfnb.nn.bridge.outputs import with_leaves
from rfnb.trace.record.traced import Traced


class Crossing:
    """One call of a submodule: its arguments and its result, as Tensors and as raw tensors."""

    def __init__(self, part: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.part, self.args, self.kwargs = part, args, kwargs
        self.result: Any = None
        self.seen = _has_hooks(part)

    def call(self) -> Any:
        """The result of the submodule, called through torch."""
        token = _now.set(self)
        try:
            if not self.seen:
                return self.part(*self.args, **self.kwargs)
            self._check_loop()
            result = self.part(*to_raws(self.args), **to_raws(self.kwargs))
            return from_raws(self.result, result)
        finally:
            _now.reset(token)

    def _check_loop(self) -> None:
        """Raises BackendError for hooks that cannot run in a loop, whose body is traced once and runs without torch."""
        if not any(isinstance(leaf, Traced) for leaf in leaves([self.args, self.kwargs])):
            return
        if hasattr(self.part, "unshard"):
            wrapper, hint = "fully_shard", "apply it to the module that has the loop, or to the whole model"
        elif self.part._backward_pre_hooks or self.part._backward_hooks:
            wrapper, hint = "a hook on gradients", "hook the module that has the loop, or use run.gradients(loss)"
        else:
            return
        name = type(self.part.rf_module).__name__
        raise BackendError(f"to_torch: {wrapper} cannot be used on {name}, which is called at each step", hint=hint)

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the module, made from those that the hooks returned."""
        if not self.seen:
            return args, kwargs
        if len(args) != len(self.args) or kwargs.keys() != self.kwargs.keys():
            got, expected = len(args) + len(kwargs), len(self.args) + len(self.kwargs)
            raise DimError("to_torch: a hook changed the number of arguments", got=got, expected=expected)
        positional = tuple(from_raws(*pair) for pair in zip(self.args, args, strict=True))
        return positional, {name: from_raws(value, kwargs[name]) for name, value in self.kwargs.items()}

    def raws(self, result: Any) -> Any:
        """The result as the hooks see it."""
        self.result = result
        return to_raws(result) if self.seen else result


_now: ContextVar[Crossing | None] = ContextVar("rfnb_crossing", default=None)


def crossing_to(part: torch.nn.Module) -> Crossing | None:
    """The current call of `part`, if it comes from inside a larger model; otherwise None."""
    crossing = _now.get()
    return crossing if crossing is not None and crossing.part is part else None


def to_raws(tree: Any) -> Any:
    """The structure with raw tensors for Tensors. Traced tensors stay as they are."""
    return with_leaves(lambda leaf: leaf._raw if type(leaf) is Tensor else leaf, tree)


def from_raws(own: Any, raws: Any) -> Any:
    """`own` itself if hooks left `to_raws(own)` unchanged; otherwise the structure with the Tensors of `raws`."""
    if form_of(type(own)) is None:
        return _tensor(own, raws)
    old, new = leaves(to_raws(own)), leaves(raws)
    if len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True)):
        return own
    return map_pairs(_tensor, own, raws)


def _tensor(own: Any, raw: Any) -> Any:
    if type(own) is not Tensor or not isinstance(raw, torch.Tensor):
        return raw
    if raw is own._raw:
        return own
    if raw.shape != own._raw.shape:
        raise DimError("to_torch: a hook changed the shape", got=tuple(raw.shape), expected=own.describe_dims())
    return own.like(raw)


def _has_hooks(part: torch.nn.Module) -> bool:
    hooks = part._forward_pre_hooks or part._forward_hooks or part._backward_pre_hooks or part._backward_hooks
    of_all = globally._global_backward_pre_hooks or globally._global_backward_hooks
    return bool(hooks or of_all or globally._has_any_global_hook())
