"""Ops on the device "meta" by arithmetic of shapes: torch's own kernels load its compiler first, for seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

Raw = torch.Tensor
Shape = Sequence[int]
_aten = torch.ops.aten


class Shapes(TorchDispatchMode):
    """Inside, frequent ops on tensors of the device "meta" are answered here; torch answers all others, and faults."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise the first call imports torch's compiler

    def __torch_dispatch__(
        self, op: Any, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        rule = RULES.get(op)
        if rule is None and torch.Tag.pointwise in op.tags:
            result = _pointwise(op, args, kwargs)
        elif rule is not None and _is_on_meta(args, kwargs):
            result = rule(*args, **kwargs)
        else:
            result = None
        return op(*args, **kwargs) if result is None else result


@contextmanager
def shapes_only() -> Iterator[None]:
    """Inside, shapes of tensors without numbers are computed without torch's compiler, and without gradients."""
    inside = any(isinstance(mode, Shapes) for mode in _get_current_dispatch_mode_stack())
    with torch.no_grad(), nullcontext() if inside else Shapes():
        yield


def _is_on_meta(args: Sequence[object], kwargs: dict[str, Any]) -> bool:
    if "device" in kwargs and kwargs["device"] is not None:
        return torch.device(kwargs["device"]).type == "meta"
    first = args[0][0] if isinstance(args[0], list | tuple) else args[0]
    return isinstance(first, Raw) and first.is_meta


def _new(shape: Shape, dtype: torch.dtype) -> Raw:
    return torch.empty(shape, dtype=dtype, device="meta")


def _like(x: Raw, *args: object, dtype: torch.dtype | None = None, **kwargs: object) -> Raw:
    return _new(x.shape, dtype or x.dtype)


def _pointwise(op: Any, args: Any, kwargs: dict[str, Any]) -> Raw | None:
    """The dtype is that of the op on numbers; None if torch has to say what the fault is."""
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Raw)]
    if not any(x.is_meta for x in tensors) or any(isinstance(x, list | tuple) for x in args):
        return None
    try:
        shape = np.broadcast_shapes(*(x.shape for x in tensors))
    except ValueError:
        return None
    if op._schema.is_mutable:
        return args[0] if shape == tuple(args[0].shape) and args[0].is_meta and "out" not in kwargs else None
    facts = tuple((x.dtype, x.dim()) if isinstance(x, Raw) else type(x) if isinstance(x, float) else x for x in args)
    return _new(shape, _dtype_of(op, facts, tuple(kwargs.items())))


@cache
def _dtype_of(op: Any, facts: tuple[object, ...], options: tuple[tuple[str, object], ...]) -> torch.dtype:
    numbers = [torch.ones((1,) * x[1], dtype=x[0]) if isinstance(x, tuple) else 1.0 if x is float else x for x in facts]
    dtype: torch.dtype = op(*numbers, **dict(options)).dtype
    return dtype


def _matmul(a: Raw, b: Raw) -> Raw | None:
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2] or a.dtype != b.dtype:
        return None
    return _new((*a.shape[:-1], b.shape[-1]), a.dtype)


def _addmm(x: Raw, a: Raw, b: Raw, **scales: object) -> Raw | None:
    return _matmul(a, b)


def _cat(parts: Sequence[Raw], axis: int = 0) -> Raw | None:
    first = parts[0].shape
    axis = axis % max(len(first), 1)
    rest = {(*x.shape[:axis], *x.shape[axis + 1 :]) for x in parts}
    if len(rest) != 1 or any(x.dim() != len(first) for x in parts):
        return None
    total = sum(x.shape[axis] for x in parts)
    return _new((*first[:axis], total, *first[axis + 1 :]), _joint_dtype(parts))


def _stack(parts: Sequence[Raw], axis: int = 0) -> Raw | None:
    first = parts[0].shape
    axis = axis % (len(first) + 1)
    if any(x.shape != first for x in parts):
        return None
    return _new((*first[:axis], len(parts), *first[axis:]), _joint_dtype(parts))


def _joint_dtype(parts: Sequence[Raw]) -> torch.dtype:
    dtypes = dict.fromkeys(x.dtype for x in parts)
    dtype = parts[0].dtype
    for other in dtypes:
        dtype = torch.promote_types(dtype, other)
    return dtype


def _reduced(shape: Shape, axes: int | Shape | None, keep: bool) -> list[int]:
    reduced = range(len(shape)) if axes is None or axes == [] else [axes] if isinstance(axes, int) else axes
    places = {axis % max(len(shape), 1) for axis in reduced}
    return [1 if i in places else size for i, size in enumerate(shape) if keep or i not in places]


def _reduction(dtype_of: Callable[[torch.dtype], torch.dtype]) -> Callable[..., Raw]:
    def rule(x: Raw, axes: int | Shape | None = None, keep: bool = False, *, dtype: torch.dtype | None = None) -> Raw:
        return _new(_reduced(x.shape, axes, keep), dtype or dtype_of(x.dtype))

    return rule


_kept = _reduction(lambda dtype: dtype)
_counted = _reduction(lambda dtype: dtype if dtype.is_floating_point or dtype.is_complex else torch.int64)
_placed = _reduction(lambda dtype: torch.int64)
_judged = _reduction(lambda dtype: torch.bool)


def _layer_norm(x: Raw, shape: Shape, *args: object) -> tuple[Raw, Raw, Raw]:
    sizes = [*x.shape[: x.dim() - len(shape)], *(1 for _ in shape)]
    return _new(x.shape, x.dtype), _new(sizes, x.dtype), _new(sizes, x.dtype)


def _gather(x: Raw, axis: int, index: Raw, **options: object) -> Raw:
    return _new(index.shape, x.dtype)


def _embedding(table: Raw, index: Raw, *options: object) -> Raw:
    return _new((*index.shape, *table.shape[1:]), table.dtype)


def _repeat(x: Raw, counts: Shape) -> Raw:
    shape = [1] * (len(counts) - x.dim()) + [*x.shape]
    return _new([n * size for n, size in zip(counts, shape, strict=True)], x.dtype)


def _arange(*numbers: float, dtype: torch.dtype | None = None, **options: object) -> Raw:
    start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    fractions = any(isinstance(n, float) for n in numbers)
    return _new([math.ceil((stop - start) / step)], dtype or (torch.get_default_dtype() if fractions else torch.int64))


def _sorted(x: Raw, *args: object, **options: object) -> tuple[Raw, Raw]:
    return _new(x.shape, x.dtype), _new(x.shape, torch.int64)


def _nll_loss(x: Raw, labels: Raw, weight: Raw | None, reduction: int, *options: int) -> tuple[Raw, Raw]:
    return _new(() if reduction else labels.shape, x.dtype), _new((), x.dtype)


def _itself(x: Raw, *args: object, **options: object) -> Raw:
    return x


def _convolution(
    x: Raw,
    weight: Raw,
    bias: Raw | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    added: Shape,
    groups: int,
) -> Raw | None:
    ways = [_each(n, x.dim() - 2) for n in (stride, padding, dilation)]
    frames = list(zip(x.shape[2:], weight.shape[2:], *ways, strict=True))
    if transposed:
        ends = _each(added, x.dim() - 2)
        sizes = [(n - 1) * s - 2 * p + d * (k - 1) + 1 + end for (n, k, s, p, d), end in zip(frames, ends, strict=True)]
        return _new((x.shape[0], weight.shape[1] * groups, *sizes), x.dtype)
    sizes = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in frames]
    fits = x.shape[1] == weight.shape[1] * groups and min(sizes, default=1) > 0
    return _new((x.shape[0], weight.shape[0], *sizes), x.dtype) if fits else None


def _each(numbers: Shape, count: int) -> list[int]:
    return [*numbers] * count if len(numbers) == 1 else [*numbers]


def _pooled(
    x: Raw, pool: Shape, stride: Shape = (), padding: Shape = (0,), dilation: Shape = (1,), ceil: bool = False
) -> Raw | None:
    count = len(pool)
    ways = [_each(n, count) for n in (stride or pool, padding, dilation)]
    frames = zip(x.shape[-count:], pool, *ways, strict=True)
    sizes = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in frames]
    return None if ceil or min(sizes) <= 0 else _new((*x.shape[:-count], *sizes), x.dtype)


def _max_pooled(x: Raw, *args: Any) -> tuple[Raw, Raw] | None:
    y = _pooled(x, *args)
    return None if y is None else (y, _new(y.shape, torch.int64))


def _averaged(
    x: Raw, pool: Shape, stride: Shape = (), padding: Shape = (0,), ceil: bool = False, *args: object
) -> Raw | None:
    return _pooled(x, pool, stride, padding, ceil=ceil)


RULES: dict[Any, Callable[..., Any]] = {
    _aten.mm.default: _matmul,
    _aten.bmm.default: _matmul,
    _aten.addmm.default: _addmm,
    _aten.cat.default: _cat,
    _aten.stack.default: _stack,
    _aten.native_layer_norm.default: _layer_norm,
    _aten._softmax.default: _like,
    _aten._log_softmax.default: _like,
    _aten._safe_softmax.default: _like,
    _aten.empty_like.default: _like,
    _aten.zeros_like.default: _like,
    _aten.ones_like.default: _like,
    _aten.full_like.default: _like,
    _aten.cumsum.default: _like,
    _aten.flip.default: _like,
    _aten.roll.default: _like,
    _aten.tril.default: _like,
    _aten.triu.default: _like,
    _aten.scatter.value: _like,
    _aten.scatter.src: _like,
    _aten.scatter_add.default: _like,
    _aten.scatter_reduce.two: _like,
    _aten.sort.stable: _sorted,
    _aten.cummin.default: _sorted,
    _aten.cummax.default: _sorted,
    _aten.sum.dim_IntList: _counted,
    _aten.mean.dim: _kept,
    _aten.amax.default: _kept,
    _aten.amin.default: _kept,
    _aten.logsumexp.default: _kept,
    _aten.argmax.default: _placed,
    _aten.argmin.default: _placed,
    _aten.sum.default: _counted,
    _aten.any.default: _judged,
    _aten.all.default: _judged,
    _aten.any.dim: _judged,
    _aten.all.dim: _judged,
    _aten.gather.default: _gather,
    _aten.embedding.default: _embedding,
    _aten.repeat.default: _repeat,
    _aten.arange.default: _arange,
    _aten.arange.start: _arange,
    _aten.arange.start_step: _arange,
    _aten.nll_loss_forward.default: _nll_loss,
    _aten.log_sigmoid_forward.default: lambda x: (_like(x), _new([0], x.dtype)),
    _aten.copy_.default: _itself,
    _aten.normal_.default: _itself,
    _aten.uniform_.default: _itself,
    getattr(_aten.random_, "from"): _itself,
    _aten.bernoulli_.float: _itself,
    _aten.convolution.default: _convolution,
    _aten.max_pool2d_with_indices.default: _max_pooled,
    _aten.avg_pool2d.default: _averaged,
}
"""By op of torch: its result without numbers; None, and torch answers."""
