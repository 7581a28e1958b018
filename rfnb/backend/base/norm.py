"""Normalization."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.require import axis_of
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.arguments import FloatTensor
from rfnb.core.tensor.listener import takes_kernels
from rfnb.core.tensor.parameter import Parameter, parameter_assign
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend

_HALF = ("float16", "bfloat16")


class NormOps:
    """Raw part: `layer_norm_raw(raw, sizes, scale, bias, eps)` over the last axes, and `rms_norm_raw` like it.

    Optional: `batch_norm_raw(raw, axes, scale, bias, running_mean, running_variance, train, momentum, eps)`.
    """

    layer_norm_raw: Callable[[RawTensor, Sequence[int], RawTensor, RawTensor, float], RawTensor]
    rms_norm_raw: Callable[[RawTensor, Sequence[int], RawTensor, RawTensor, float], RawTensor]
    batch_norm_raw: Any = None

    @classmethod
    def moments(
        cls: type[Backend],
        x: FloatTensor,
        axis: Dim | Sequence[Dim],
        *,
        use_mask: bool = True,
        correction: int = 0,
        distributed: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The mean and the variance over `axis`, over the valid frames only. {…, axis} → {…}, {…}

        correction: 1 for an unbiased variance: the sum of squares of n frames is divided by max(n - 1, 1).

        >>> time = rf.Dim(3, name="time")
        >>> mean, variance = rf.moments(rf.cast(rf.range_over_dim(time), "float32"), time, correction=1)
        >>> mean.raw_tensor.item(), variance.raw_tensor.item()
        (1.0, 1.0)
        """
        x = cls.finite_operand(x) if use_mask else x
        mean_of = cls.reduce_everywhere if distributed else cls.reduce
        mean = mean_of(x, mode="mean", axis=axis, use_mask=use_mask)
        squares = cls.combine(x, "squared_difference", mean, allow_broadcast_all_sources=True)
        squares = cls.activation(squares, "abs") if x.dtype.startswith("complex") else squares
        variance = mean_of(squares, mode="mean", axis=axis, use_mask=use_mask)
        if correction:
            variance = variance.like(
                cls.combine_raw(variance._raw, "mul", _corrected(cls, x, axis, use_mask, correction, distributed))
            )
        return mean, variance

    @classmethod
    def normalize(cls: type[Backend], x: Tensor, mean: Tensor, variance: Tensor, epsilon: float) -> Tensor:
        """(x - mean) / √(variance + epsilon). {…} → the same"""
        factor = cls.activation(variance.like(cls.combine_raw(variance._raw, "add", epsilon)), "rsqrt")
        centered = cls.combine(x, "sub", mean, allow_broadcast_all_sources=True)
        return cls.combine(centered, "mul", factor, allow_broadcast_all_sources=True)

    @classmethod
    def batch_norm(
        cls: type[Backend],
        source: Tensor,
        *,
        in_dim: Dim | Sequence[Dim],
        running_mean: Parameter | None,
        running_variance: Parameter | None,
        gamma: Tensor | None,
        beta: Tensor | None,
        epsilon: float,
        momentum: float,
        affine: bool,
        use_mask: bool,
        distributed: bool = False,
        train: bool | None = None,
    ) -> Tensor:
        """Normalizes each feature by the statistics of the batch in training, else by the running ones. {…} → the same

        In training, the running statistics move by `momentum` towards the batch, with the unbiased variance.
        """
        features = (in_dim,) if isinstance(in_dim, Dim | int | str) else tuple(in_dim)
        for dim in features:
            axis_of("batch_norm", source, dim)
        train = get_run_ctx().train_flag if train is None else train
        running = None if running_mean is None or running_variance is None else (running_mean, running_variance)
        scale, bias = (gamma, beta) if affine else (None, None)
        if not distributed:
            weights = (scale, bias, *(running or (None, None)))
            result = _by_kernel(cls, source, features, weights, use_mask, (train or running is None, momentum, epsilon))
            if result is not None:
                return result
        dtype = source.dtype
        source = cls.cast(source, "float32") if dtype in _HALF else source
        if train or running is None:
            axes = tuple(dim for dim in source.dims if dim not in features)
            mean, variance = cls.moments(source, axes, use_mask=use_mask, distributed=distributed)
            if running is not None:
                factor = _corrected(cls, source, axes, use_mask, 1, distributed)
                _follow(cls, running[0], mean, momentum)
                _follow(cls, running[1], variance.like(cls.combine_raw(variance._raw, "mul", factor)), momentum)
        else:
            mean, variance = running
        result = cls.normalize(source, mean, variance, epsilon)
        for kind, weight in ("mul", scale), ("add", bias):
            if weight is not None:
                result = cls.combine(result, kind, weight, allow_broadcast_all_sources=True)
        return cls.cast(result, dtype) if dtype in _HALF else result


def _by_kernel(
    backend: type[Backend],
    source: Tensor,
    features: tuple[Dim, ...],
    weights: Sequence[Tensor | None],
    use_mask: bool,
    how: tuple[bool, float, float],
) -> Tensor | None:
    """Batch norm of the frames by a kernel; None if no kernel supports it, or there are too few frames to train."""
    if not takes_kernels() or not _kernel_takes(backend, source, features, weights):  # a listener records each part
        return None
    rows = backend.rows_for(source, source.sig.dims, features, few=True) if use_mask else None
    if rows is None and backend.padding_for(source, source.sig.dims) is not None:
        return None
    order = [*(dim for dim in source.dims if dim not in features), *features]
    raw = align.apply(align.move(source.dims, order), source._raw)
    shape = backend.get_shape_tuple_raw
    outer = shape(raw)[: -len(features)] if rows is None else shape(rows.frames)
    if not outer or (how[0] and math.prod(outer) < 2):
        return None
    raws = [x if x is None else x._raw for x in weights]

    def kernel(frames: RawTensor) -> object:
        return backend.batch_norm_raw(frames, len(features), *raws, *how)

    raw = kernel(raw) if rows is None else backend.on_frames(kernel, raw, rows)
    return tensor_of(align.apply(align.move(order, source.dims), raw), source.sig, source.lengths)


def _kernel_takes(
    backend: type[Backend], source: Tensor, features: tuple[Dim, ...], weights: Sequence[Tensor | None]
) -> bool:
    """Whether a kernel supports these dims and dtypes. Kernels give no gradient of running statistics."""
    if backend.batch_norm_raw is None or "float" not in source.dtype:
        return False
    present = [x for x in weights if x is not None]
    running = [x for x in weights[2:] if x is not None]
    types = {x.dtype for x in present}
    fit = types <= {source.dtype} or (types == {"float32"} and source.dtype in _HALF)
    trained = any(x is not None and backend.needs_gradient_raw(x._raw) for x in running)
    return fit and all(x.dims == features for x in present) and not trained


def _corrected(
    backend: type[Backend], x: Tensor, axis: Dim | Sequence[Dim], use_mask: bool, correction: int, distributed: bool
) -> object:
    """n / max(n - correction, 1) for n entries."""
    if distributed:  # the same shape in all processes; 0 in a process without frames
        count = backend.clip_raw(backend.count_everywhere(x, axis, use_mask=use_mask), 1, None)
    else:
        count = backend.count(x, axis, use_mask=use_mask)
    if isinstance(count, int):
        return count / max(count - correction, 1)
    return backend.combine_raw(
        count, "truediv", backend.clip_raw(backend.combine_raw(count, "sub", correction), 1, None)
    )


def _follow(backend: type[Backend], running: Parameter, now: Tensor, momentum: float) -> None:
    """Moves `running` towards `now` by `momentum`."""
    step = backend.combine(backend.stop_gradient(now), "sub", running, allow_broadcast_all_sources=True)
    parameter_assign(running, step.like(backend.combine_raw(step._raw, "mul", momentum)), how="add")
