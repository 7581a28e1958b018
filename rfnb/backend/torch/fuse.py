"""Joins raw calls of a step into fewer, and keeps the gradients of its weights for the end of the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.nn import functional

from rfnb.backend.base.fuse import Product
from rfnb.backend.base.tape import Call, External, Var
from rfnb.errors import BackendError

_ADD = frozenset({torch.add, torch.Tensor.add, torch.Tensor.__add__})
_MATMUL = frozenset({torch.matmul, torch.mm, torch.Tensor.matmul, torch.Tensor.mm})
_TRANSPOSE = frozenset({torch.t, torch.Tensor.t})


class TorchFuse:
    """What makes the steps of a loop quicker than their calls one by one."""

    @staticmethod
    def joined_raw(calls: Sequence[Call], values: Sequence[Any], wanted: Collection[Var]) -> list[Call]:
        """The same calls, where x + h·W is one; results agree to rounding.

        values: of the Vars, on the traced frame. wanted: what is asked for besides the last results.
        """
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            return list(calls)
        made = {call.result: call for call in calls if call.result is not None}
        read = Counter(read for call in calls for read in call.reads())
        read.update(wanted)
        return [_joined(call, made, read, values) or call for call in calls]

    @staticmethod
    def product_raw(call: Call, calls: Sequence[Call], values: Sequence[Any]) -> Product | None:
        """What a call is: x + h·W, or h·W, where W [in, out] comes from outside; None if neither."""
        if call.result is None:
            return None
        if call.fn is torch.addmm:
            x, h, weight = call.args
            return Product(call, x, h, weight, 2) if type(weight) is External else None
        made = {each.result: each for each in calls if each.result is not None}
        h, weight = _factors(call, made) or (None, None)
        if (
            type(h) is not Var
            or type(weight) is not External
            or not values[call.result].ndim == values[h.number].ndim == 2
        ):
            return None
        return Product(call, None, h, weight, 1, transposed=call.fn not in _MATMUL)

    sum_raw = torch.add

    @staticmethod
    def constant_weight_raw(weight: torch.Tensor, transposed: bool) -> torch.Tensor:
        """The same numbers, without a gradient; [in, out] → [out, in], if `transposed`."""
        return weight.detach().t() if transposed else weight.detach()

    @staticmethod
    def deferred_raw(frames: torch.Tensor, weights: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The same frames [steps, batch, out], and a list for what the weights [in, out] are multiplied with.

        Where `frames` are summed with products h·W of all steps, the gradient of each W is one product of their
        gradients with all h, once the list has one tensor [steps, batch, in] for each W.
        """
        inputs: list[torch.Tensor] = []
        return _Deferred.apply(inputs, frames, *weights), inputs

    @staticmethod
    def no_frames_raw(like: torch.Tensor, steps: int) -> torch.Tensor:
        """Zeros [steps, …] that take no memory."""
        return like.detach().new_zeros(()).expand(steps, *like.shape)

    @staticmethod
    def stack_detached_raw(raws: Sequence[torch.Tensor]) -> torch.Tensor:
        """All of them [n, …], without gradients."""
        with torch.no_grad():
            return torch.stack(list(raws))

    @staticmethod
    def grad_enabled_raw() -> bool:
        """Whether gradients are recorded now."""
        return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


class _Deferred(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: list[torch.Tensor], frames: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        ctx.inputs = inputs
        return frames.view_as(frames)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if torch.is_grad_enabled():  # what it is multiplied with is known here without its graph
            raise BackendError(
                "gradients of gradients through a loop that does parts of it outside of its steps",
                got="create_graph=True",
                hint="rf.Loop(optimize_move_layers_out=False)",
            )
        rows = gradient.flatten(0, 1)
        found = [given.flatten(0, 1).t().mm(rows) for given in ctx.inputs]
        return (None, gradient, *found)


def _factors(call: Call, made: dict[int, Call]) -> tuple[Any, Any] | None:
    """h [rows, in] and W [in, out] of h·W."""
    if call.fn is functional.linear and len(call.args) > 1 and call.args[2:] in ((), (None,)) and not call.kwargs:
        before = made.get(call.args[1].number) if type(call.args[1]) is Var else None
        if before is not None and before.fn in _TRANSPOSE:
            return call.args[0], before.args[0]
    if call.fn in _MATMUL and len(call.args) == 2 and not call.kwargs:
        return call.args[0], call.args[1]
    return None


def _joined(call: Call, made: dict[int, Call], read: Counter[Any], values: Sequence[Any]) -> Call | None:
    """x + h·W as one call."""
    if call.fn not in _ADD or len(call.args) != 2 or call.kwargs or call.result is None:
        return None
    for product, other in (call.args, call.args[::-1]):
        before = made.get(product.number) if type(product) is Var else None
        factors = None if before is None or read[product] > 1 else _factors(before, made)
        if factors is None or not _fit(other, *factors, call.result, values):
            continue
        return Call(torch.addmm, (other, *factors), {}, call.result, node=call.node)
    return None


def _fit(other: Any, h: Any, weight: Any, result: int, values: Sequence[Any]) -> bool:
    """Whether it is x [rows, out] + h [rows, in] · W, all of one type."""
    if type(other) is not Var or type(h) is not Var or type(weight) not in (External, Var):
        return False
    whole, x, factor = values[result], values[other.number], values[h.number]
    return bool(
        x.shape == whole.shape and whole.ndim == factor.ndim == 2 and x.dtype == factor.dtype == whole.dtype
        and whole.is_floating_point()
    )  # fmt: skip
