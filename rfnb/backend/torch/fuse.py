"""Fuses raw calls of a step, and computes the gradients of weights at the end of the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch.nn import functional

from rfnb.backend.base.tape import Call, External, Once, Product, Var
from rfnb.backend.torch.tape import TorchTape
from rfnb.errors import BackendError

storage_raw = TorchTape.storage_raw
_ADD = frozenset({torch.add, torch.Tensor.add, torch.Tensor.__add__})
_MATMUL = frozenset({torch.matmul, torch.mm, torch.Tensor.matmul, torch.Tensor.mm})
_TRANSPOSE = frozenset({torch.t, torch.Tensor.t})


class TorchFuse:
    """Optimizations of the raw calls of a loop step."""

    @staticmethod
    def joins_raw() -> bool:
        """Whether calls may be joined under the current settings."""
        return not (torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda") or _transformed())

    @staticmethod
    def joined_raw(
        calls: Sequence[Call], values: Sequence[object], externals: Sequence[object], wanted: Collection[Var]
    ) -> list[Call]:
        """The calls with each x + h·W fused into one call, and each h·W of rows h of a table replaced by rows of
        the table's product with W, unless that has more rows than h; results agree up to rounding.

        values: values of the Vars, on the traced frame. wanted: results that are needed besides the last ones.
        """
        sources, fixed = _made(calls), _Fixed(calls, values, externals)
        calls = [(call.fn in _LINEAR and _looked_up(call, sources, values, externals)) or call for call in calls]
        producers, counts = _made(calls), Counter(reference for call in calls for reference in call.reads)
        counts.update(wanted)
        return [(call.fn in _ADD and _joined(call, producers, counts, values, fixed)) or call for call in calls]

    @staticmethod
    def products_raw(calls: Sequence[Call], values: Sequence[object], externals: Sequence[object]) -> list[Product]:
        """The calls that are x + h·W, or h·W, where W comes from outside."""
        if _transformed():
            return []
        producers, fixed = _made(calls), _Fixed(calls, values, externals)
        return [product for call in calls if (product := _product(call, producers, values, fixed)) is not None]

    sum_raw = torch.add

    @staticmethod
    def constant_weight_raw(weight: torch.Tensor, transposed: bool) -> torch.Tensor:
        """The same values without a gradient, transposed if `transposed`."""
        return weight.detach().t() if transposed else weight.detach()

    @staticmethod
    def deferred_raw(
        frames: torch.Tensor, weights: Sequence[torch.Tensor], out_first: Sequence[bool]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The same frames [steps, batch, out], and a list for the tensors that the weights are multiplied with.

        Where `frames` are summed with products h·W of all steps, the gradient of each W is one product of their
        gradients with all h, once the list has one tensor [steps, batch, in] for each W.
        out_first: whether a W is [out, in], not [in, out].
        """
        inputs: list[torch.Tensor] = []
        return _DeferWeightGradients.apply(inputs, out_first, frames, *weights), inputs

    @staticmethod
    def no_frames_raw(like: torch.Tensor, steps: int) -> torch.Tensor:
        """Zeros [steps, …] that take no memory."""
        return like.detach().new_zeros(()).expand(steps, *like.shape)

    @staticmethod
    def stack_detached_raw(raws: Sequence[torch.Tensor]) -> torch.Tensor:
        """All tensors stacked as [n, …], without gradients."""
        with torch.no_grad():
            return torch.stack(list(raws))

    @staticmethod
    def grad_enabled_raw() -> bool:
        """Whether gradients are recorded now."""
        return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


class _DeferWeightGradients(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: list[torch.Tensor], out_first: Sequence[bool], frames: torch.Tensor, *weights: torch.Tensor
    ) -> torch.Tensor:
        ctx.inputs, ctx.out_first = inputs, out_first
        return frames.view_as(frames)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> object:
        if torch.is_grad_enabled():  # the factor is known here without its graph
            raise BackendError(
                "second-order gradients do not work through a loop with parts moved out of its steps",
                got="create_graph=True",
                hint="rf.Loop(optimize_move_layers_out=False)",
            )
        rows = gradient.flatten(0, 1)
        gradients = []
        for factor, turned in zip(ctx.inputs, ctx.out_first, strict=True):
            a = factor.flatten(0, 1).to(rows.dtype)  # autocast gave the product a different dtype
            gradients.append(rows.t().mm(a) if turned else a.t().mm(rows))
        return (None, None, gradient, *gradients)


def _add_linear(x: torch.Tensor, h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x + h·W, of a W [out, in]."""
    return torch.addmm(x, h, weight.t())


_PRODUCTS = {torch.addmm: 2, _add_linear: 2, functional.linear: 1, **dict.fromkeys(_MATMUL, 1)}
"""Position of W in the arguments; h is the argument before it."""


_LINEAR = frozenset({functional.linear, *_MATMUL})


class _Fixed:
    """Values that no call writes into, directly or through shared memory."""

    def __init__(self, calls: Sequence[Call], values: Sequence[Any], externals: Sequence[Any]):
        self._values, self._externals = values, externals
        self._written = {storage_raw(values[number]) for call in calls for number in call.changes}

    def __contains__(self, read: Var | External) -> bool:
        if not self._written:
            return True
        raw = (self._externals if type(read) is External else self._values)[read.number]
        return storage_raw(raw) not in self._written


def _transformed() -> bool:
    """Whether this runs inside torch.func, which has no deferred gradients, and whose tensors have no memory."""
    return bool(torch._C._are_functorch_transforms_active())


def _made(calls: Sequence[Call]) -> dict[int, Call]:
    """The calls by the number of their result."""
    return {call.result: call for call in calls if call.result is not None}


def _factors(call: Call, made: dict[int, Call]) -> tuple[Callable[..., Any], Any, Any] | None:
    """For a call h·W: the function (x, h, W) that adds it to x, and h [rows, in] and W."""
    if call.fn in _MATMUL and len(call.args) == 2 and not call.kwargs:
        return torch.addmm, *call.args
    if call.fn is functional.linear and len(call.args) > 1 and call.args[2:] in ((), (None,)) and not call.kwargs:
        weight, transposed = _untransposed(call.args[1], made)
        return torch.addmm if transposed else _add_linear, call.args[0], weight
    return None


def _untransposed(weight: object, made: dict[int, Call]) -> tuple[object, bool]:
    """The tensor that `weight` is the transpose of, or `weight` itself; and whether it is transposed."""
    producer = made.get(weight.number) if type(weight) is Var else None
    return (producer.args[0], True) if producer is not None and producer.fn in _TRANSPOSE else (weight, False)


def _product(call: Call, made: dict[int, Call], values: Sequence[Any], fixed: _Fixed) -> Product | None:
    """x + h·W or h·W, where W comes from outside."""
    if call.fn not in _PRODUCTS or call.result is None or call.kwargs:
        return None
    place, out = _PRODUCTS[call.fn], values[call.result]
    h, factor = call.args[place - 1 : place + 1]
    weight, transposed = _untransposed(factor, made)
    if type(h) is not Var or type(weight) is not External or h not in fixed or weight not in fixed:
        return None
    if not out.ndim == values[h.number].ndim == 2:
        return None
    x = call.args[0] if place == 2 and type(call.args[0]) is Var else None
    x = None if x is None or values[x.number].shape != out.shape else x
    out_first = transposed is not (call.fn in (functional.linear, _add_linear))
    return Product(call, x, h, weight, place, transposed, out_first)


def _joined(
    call: Call, made: dict[int, Call], read: Counter[Any], values: Sequence[object], fixed: _Fixed
) -> Call | None:
    """The call that computes x + h·W, in place of an addition."""
    if len(call.args) != 2 or call.kwargs or call.result is None:
        return None
    for product, other in (call.args, call.args[::-1]):
        producer = made.get(product.number) if type(product) is Var else None
        factors = None if producer is None or read[product] > 1 else _factors(producer, made)
        if factors is None or not _fit(other, product, *factors[1:], call.result, values):
            continue
        if not all(factor in fixed for factor in factors[1:]):  # the fused call reads them later
            continue
        add, *pair = factors
        return Call(add, (other, *pair), {}, call.result, node=call.node)
    return None


def _looked_up(call: Call, made: dict[int, Call], values: Sequence[Any], externals: Sequence[Any]) -> Call | None:
    """The call that looks rows up in the product of a table with W, in place of the product of its rows with W; or that
    adds them to the product of other features, which were joined with the rows, with their part of W."""
    (rows, *factors), fn, features, start = call.args, call.fn, None, 0
    source = made.get(rows.number) if type(rows) is Var else None
    if source is not None and source.fn is torch.cat:
        source, features, start = _rows_beside(source, made, values)
    if source is None or source.fn is not torch.embedding or len(source.args) != 2 or source.kwargs or call.kwargs:
        return None
    weight, transposed = _untransposed(factors[0], made)
    table, indices = source.args
    if type(table) is not External or type(weight) is not External or type(indices) is not Var:
        return None
    if any(type(bias) is not External and bias is not None for bias in factors[1:]):
        return None
    shape = externals[table.number].shape
    if shape[0] > values[indices.number].numel() or externals[weight.number].ndim != 2:
        return None
    product = Once(_product_of, (fn, transposed, start, table, weight, *factors[1:]))
    if features is None:
        return Call(torch.embedding, (product, indices), {}, call.result, node=source.node)
    part = Once(_part_of, (fn, transposed, 0 if start else shape[1], values[features.number].shape[-1], weight))
    return Call(_add_rows, (product, indices, features, part), {}, call.result, node=source.node)


def _rows_beside(joined: Call, made: dict[int, Call], values: Sequence[Any]) -> tuple[Call | None, Var | None, int]:
    """The lookup of the rows that were joined with other features, these, and where the rows begin in the result."""
    parts, *axis = joined.args
    if isinstance(parts, list | tuple) and len(parts) == 2 and all(type(part) is Var for part in parts):
        for rows, features in (parts, parts[::-1]):
            lookup, like = made.get(rows.number), values[rows.number]
            if lookup is None or lookup.fn is not torch.embedding or like.ndim < 2:
                continue
            if axis in ([-1], [like.ndim - 1]) and values[features.number].dtype is like.dtype:
                return lookup, features, 0 if rows is parts[0] else values[features.number].shape[-1]
    return None, None, 0


def _part_of(fn: Callable[..., object], transposed: bool, start: int, size: int, weight: Any) -> Any:
    """The rows of W [in, out] for so many inputs of `fn`."""
    out_first = transposed is not (fn is functional.linear)
    return (weight.t() if out_first else weight).narrow(0, start, size)


def _product_of(
    fn: Callable[..., object], transposed: bool, start: int, table: Any, weight: Any, bias: Any = None
) -> object:
    return functional.linear(table, _part_of(fn, transposed, start, table.shape[1], weight).t(), bias)


def _add_rows(table: torch.Tensor, indices: torch.Tensor, other: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    rows = torch.embedding(table, indices)
    return torch.addmm(rows.flatten(0, -2), other.flatten(0, -2), weight).view(rows.shape)


def _fit(other: Any, product: Var, h: Any, weight: Any, result: int, values: Sequence[Any]) -> bool:
    """Whether it is x [rows, out] + h [rows, in] · W, all of one dtype, without broadcasting."""
    if type(other) is not Var or type(h) is not Var or type(weight) not in (External, Var):
        return False
    out, x, factor = values[result], values[other.number], values[h.number]
    return bool(
        x.shape == values[product.number].shape == out.shape and out.ndim == factor.ndim == 2
        and x.dtype == factor.dtype == out.dtype and out.is_floating_point()
    )  # fmt: skip
