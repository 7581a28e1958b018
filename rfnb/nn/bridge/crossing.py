"""Calls of parts of a larger model by way of torch: its hooks see raw tensors where the module has Tensors."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import torch
from torch.nn.modules import module as globally

from rfnb.core.ground.nested import leaves, map_pairs
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import BackendError, DimError
from rfnb.trace.record.traced import Traced


class Crossing:
    """One call of a part: what it is given, and its result, on both sides."""

    def __init__(self, part: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.part, self.args, self.kwargs = part, args, kwargs
        self.result: Any = None
        self.seen = _has_hooks(part)

    def call(self) -> Any:
        """What the part gives, called by torch."""
        token = _now.set(self)
        try:
            if not self.seen:
                return self.part(*self.args, **self.kwargs)
            self._check_loop()
            found = self.part(*bare(self.args), **bare(self.kwargs))
            return restored(self.result, found)
        finally:
            _now.reset(token)

    def _check_loop(self) -> None:
        """The body of a loop is traced once; its steps run later, and torch has no part in them."""
        if not any(isinstance(leaf, Traced) for leaf in leaves([self.args, self.kwargs])):
            return
        if hasattr(self.part, "unshard"):
            what, hint = "fully_shard", "the part that has the loop, or the whole model"
        elif self.part._backward_pre_hooks or self.part._backward_hooks:
            what, hint = "a hook on the gradients", "a hook on the part that has the loop; or run.gradients(loss)"
        else:
            return
        raise BackendError(f"to_torch: {what} of {type(self.part.rf_module).__name__}, called at each step", hint=hint)

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the module, from those that came through the hooks."""
        if not self.seen:
            return args, kwargs
        if len(args) != len(self.args) or kwargs.keys() != self.kwargs.keys():
            raise DimError("to_torch: a hook gave other arguments", got=len(args) + len(kwargs))
        positional = tuple(restored(*pair) for pair in zip(self.args, args, strict=True))
        return positional, {name: restored(own, kwargs[name]) for name, own in self.kwargs.items()}

    def raws(self, result: Any) -> Any:
        """What the hooks see of the result."""
        self.result = result
        return bare(result) if self.seen else result


_now: ContextVar[Crossing | None] = ContextVar("rfnb_crossing", default=None)


def crossing_to(part: torch.nn.Module) -> Crossing | None:
    """The call that torch now makes of a part, if it is one from inside of a larger model."""
    crossing = _now.get()
    return crossing if crossing is not None and crossing.part is part else None


def bare(tree: Any) -> Any:
    """Plain dicts, lists and tuples, with raw tensors for Tensors; those that a loop is traced with stay."""
    if isinstance(tree, dict):
        return {key: bare(part) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        parts = [bare(part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree._raw if type(tree) is Tensor else tree


def restored(own: Any, raws: Any) -> Any:
    """`own` itself; made anew only if hooks replaced something in `bare(own)`."""
    if not isinstance(own, dict | list | tuple):
        return _tensor(own, raws)
    before, now = leaves(bare(own)), leaves(raws)
    if len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True)):
        return own
    return map_pairs(_tensor, own, raws)


def _tensor(own: Any, raw: Any) -> Any:
    if type(own) is not Tensor or not isinstance(raw, torch.Tensor):
        return raw
    if raw is own._raw:
        return own
    if raw.shape != own._raw.shape:
        raise DimError("to_torch: a hook gave other axes", got=tuple(raw.shape), expected=own.describe_dims())
    return own.like(raw)


def _has_hooks(part: torch.nn.Module) -> bool:
    own = part._forward_pre_hooks or part._forward_hooks or part._backward_pre_hooks or part._backward_hooks
    of_all = globally._global_backward_pre_hooks or globally._global_backward_hooks
    return bool(own or of_all or globally._has_any_global_hook())
