"""Reductions and softmax on torch tensors, with masks, and normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from rfnb.backend.base.tape import current_tape, opaque
from rfnb.errors import BackendError


def lowest(raw: torch.Tensor) -> float:
    """The lowest value of the dtype: -∞, or the smallest integer."""
    if raw.dtype is torch.bool:
        return False
    return float("-inf") if raw.dtype.is_floating_point else torch.iinfo(raw.dtype).min


def highest(raw: torch.Tensor) -> float:
    """The highest value of the dtype: ∞, or the largest integer."""
    if raw.dtype is torch.bool:
        return True
    return float("inf") if raw.dtype.is_floating_point else torch.iinfo(raw.dtype).max


_FILL = {
    "sum": lambda raw: 0,
    "max": lowest,
    "min": highest,
    "argmax": lowest,
    "argmin": highest,
    "logsumexp": lambda raw: float("-inf"),
    "any": lambda raw: False,
    "all": lambda raw: True,
}


Axes = int | tuple[int, ...]
Maybe = torch.Tensor | None


def _mean(raw: torch.Tensor, axes: Axes) -> torch.Tensor:
    raw = _float(raw)
    return raw.mean(axes) if raw.numel() else _over_nothing(raw, "mean", axes)


def _float(raw: torch.Tensor) -> torch.Tensor:
    return raw if raw.dtype.is_floating_point or raw.dtype.is_complex else raw.to(torch.get_default_dtype())


def _logsumexp(raw: torch.Tensor, axes: Axes) -> torch.Tensor:
    raw = _float(raw)
    if raw.dtype is torch.float16:  # its sum of exponentials exceeds 65504
        return _logsumexp(raw.float(), axes).half()
    return torch.logsumexp(raw, axes) if raw.numel() else _over_nothing(raw, "logsumexp", axes)


Reduction = Callable[..., torch.Tensor]


def _numbers(function: Reduction) -> Reduction:
    """Wraps functions that do not support bool."""
    return lambda raw, axes: function(raw.byte() if raw.dtype is torch.bool else raw, axes)


def _guarded(mode: str, function: Reduction) -> Reduction:
    """Wraps functions that are undefined over no entries."""

    def reduce(raw: torch.Tensor, axes: Axes) -> torch.Tensor:
        return function(raw, axes) if raw.numel() else _over_nothing(raw, mode, axes)

    return reduce


def _in_turn(function: Reduction) -> Reduction:
    """Wraps functions over one axis: several axes are reduced one after the other, from the last."""

    def reduce(raw: torch.Tensor, axes: Axes) -> torch.Tensor:
        for axis in sorted(_tuple(axes), reverse=True):
            raw = function(raw, axis)
        return raw

    return reduce


def _over_nothing(raw: torch.Tensor, mode: str, axes: Axes) -> torch.Tensor:
    """The result for an empty sequence next to longer ones: 0 for the mean, position 0, the lowest value for "max"."""
    shape = [n for axis, n in enumerate(raw.shape) if axis not in _tuple(axes)]
    if mode in ("argmax", "argmin"):
        return raw.new_zeros(shape, dtype=torch.int64)
    fill = raw.new_full(shape, 0 if mode == "mean" else _FILL[mode](raw))
    return fill + raw.sum(axes).to(raw.dtype)  # with a gradient of 0


def _tuple(axes: Axes) -> tuple[int, ...]:
    return (axes,) if isinstance(axes, int) else axes


_REDUCE: dict[str, Reduction] = {
    "sum": torch.sum,
    "mean": _mean,
    "max": _guarded("max", torch.amax),
    "min": _guarded("min", torch.amin),
    "logsumexp": _logsumexp,
    "any": _in_turn(torch.any),
    "all": _in_turn(torch.all),
    "argmax": _guarded("argmax", _numbers(torch.argmax)),
    "argmin": _guarded("argmin", _numbers(torch.argmin)),
}


class SumOfAll(torch.autograd.Function):
    """The sum over all processes. Its gradient is the sum of the gradients of all processes."""

    @staticmethod
    def forward(ctx: object, raw: torch.Tensor) -> torch.Tensor:
        """The sum, which is the same in each process."""
        total = raw.clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: object, *gradients: object) -> object:
        """The sum of the gradients of all processes."""
        return SumOfAll.apply(gradients[0])


class TorchReduce:
    """The raw part of `backend.base.reduce` and `norm`."""

    reduce_function = staticmethod(_REDUCE.__getitem__)
    lowest_raw = staticmethod(lowest)
    highest_raw = staticmethod(highest)

    @staticmethod
    def reduce_raw(raw: torch.Tensor, mode: str, axes: Axes, padding: torch.Tensor) -> torch.Tensor:
        """`mode` over `axes`; entries where `padding` is true do not count."""
        raw = _float(raw) if mode == "logsumexp" else raw
        return _REDUCE[mode](raw.masked_fill(padding, _FILL[mode](raw)), axes)

    @staticmethod
    def all_reduce_raw(raw: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, through which gradients flow."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            raise BackendError(
                "`distributed`: only one process is running",
                expected="an initialised process group",
                hint="call torch.distributed.init_process_group(…) first",
            )
        return SumOfAll.apply(raw)

    @staticmethod
    def softmax_raw(raw: torch.Tensor, axis: int, padding: torch.Tensor | None, some_empty: bool) -> torch.Tensor:
        """Softmax over `axis`; 0 where `padding` is true."""
        if padding is None:
            return torch.softmax(raw, axis)
        if not some_empty:
            result = torch.softmax(raw.masked_fill(padding, float("-inf")), axis)
            # gradients of padding may be NaN, which a product with 0 would not remove
            return result.masked_fill(padding, 0.0) if raw.requires_grad or current_tape() is not None else result
        return torch.softmax(_not_empty(raw, axis, padding), axis).masked_fill(padding, 0.0)

    @staticmethod
    def log_softmax_raw(raw: torch.Tensor, axis: int, padding: torch.Tensor | None, some_empty: bool) -> torch.Tensor:
        """Log softmax over `axis`; -inf where `padding` is true."""
        if padding is None:
            return torch.log_softmax(raw, axis)
        raw = _not_empty(raw, axis, padding) if some_empty else raw.masked_fill(padding, float("-inf"))
        return torch.log_softmax(raw, axis).masked_fill(padding, float("-inf"))

    @staticmethod
    def log_probs_raw(raw: torch.Tensor, axis: int) -> torch.Tensor:
        """Log softmax over `axis`; -inf where all entries are -inf."""
        result: torch.Tensor = opaque(_log_probs, raw, axis, effect=False)
        return result

    layer_norm_raw = staticmethod(torch.layer_norm)

    @staticmethod
    def rms_norm_raw(raw: torch.Tensor, sizes: Sequence[int], scale: Maybe, bias: Maybe, eps: float) -> torch.Tensor:
        """Over the last axes, of these sizes; in the dtype of `raw`."""
        if scale is not None and scale.dtype is not raw.dtype:
            scale = scale.to(raw.dtype)
        result = torch.rms_norm(raw, sizes, scale, eps)
        return result if bias is None else (result + bias).to(raw.dtype)

    @staticmethod
    def batch_norm_raw(
        raw: torch.Tensor,
        axes: int,
        scale: Maybe,
        bias: Maybe,
        running_mean: Maybe,
        running_variance: Maybe,
        train: bool,
        momentum: float,
        eps: float,
    ) -> torch.Tensor:
        """Normalizes over all but the last `axes` axes; in training, the running statistics move in place.

        Gradients use copies of these, since they may move again before the backward pass.
        """
        running = [running_mean, running_variance]
        if axes > 1:
            scale, bias = (x if x is None else x.reshape(-1) for x in (scale, bias))
        mean, variance = copies = [_flat_copy(x) for x in running]
        flat, cudnn = raw.flatten(0, -axes - 1).flatten(1), torch.backends.cudnn.enabled
        result = torch.batch_norm(flat, scale, bias, mean, variance, train, momentum, eps, cudnn)
        if train:
            with torch.no_grad():
                for old, new in zip(running, copies, strict=True):
                    if old is not None and new is not None:
                        old.copy_(new.view(old.shape))
        return result.view(raw.shape)


def _not_empty(raw: torch.Tensor, axis: int, padding: torch.Tensor) -> torch.Tensor:
    """-inf where `padding` is true, but 0 in rows of padding alone, which would become NaN."""
    return raw.masked_fill(padding, float("-inf")).masked_fill(padding.all(axis, keepdim=True), 0.0)


def _log_probs(raw: torch.Tensor, axis: int) -> torch.Tensor:
    """Rows of -inf alone become NaN in `torch.log_softmax`, and are rare; on the CPU, they are looked for there."""
    if raw.device.type == "cpu" and not torch.compiler.is_compiling():
        result = torch.log_softmax(raw, axis)
        first = result.select(axis, 0)
        if torch.equal(first, first):  # NaN is not equal to itself
            return result
    empty = (raw == float("-inf")).all(axis, keepdim=True)
    return torch.log_softmax(raw.masked_fill(empty, 0.0), axis).masked_fill(empty, float("-inf"))


def _flat_copy(raw: Maybe) -> Maybe:
    return None if raw is None else raw.detach().clone(memory_format=torch.contiguous_format).view(-1)
