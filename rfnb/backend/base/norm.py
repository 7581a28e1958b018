"""Normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.require import axis_of
from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.parameter import Parameter, parameter_assign
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class NormOps:
    """Raw part: `layer_norm_raw(raw, sizes, scale, bias, eps)` over the last axes, and `rms_norm_raw` likewise."""

    layer_norm_raw: Callable[[Any, Sequence[int], Any, Any, float], Any]
    rms_norm_raw: Callable[[Any, Sequence[int], Any, Any, float], Any]

    @classmethod
    def layer_norm(
        cls: type[Backend],
        source: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        *,
        in_dim: Dim | Sequence[Dim],
        eps: float,
    ) -> Tensor:
        """Mean 0 and variance 1 over `in_dim`, then `scale` and `bias`. {…, in_dim} → the same"""
        return _per_frame(cls, "layer_norm", cls.layer_norm_raw, source, scale, bias, in_dim, eps)

    @classmethod
    def rms_norm(
        cls: type[Backend],
        source: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        *,
        in_dim: Dim | Sequence[Dim],
        eps: float,
    ) -> Tensor:
        """A mean square of 1 over `in_dim`, then `scale` and `bias`. {…, in_dim} → the same"""
        return _per_frame(cls, "rms_norm", cls.rms_norm_raw, source, scale, bias, in_dim, eps)

    @classmethod
    def moments(
        cls: type[Backend],
        x: Tensor,
        axis: Dim | Sequence[Dim],
        *,
        use_mask: bool = True,
        correction: int = 0,
        distributed: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The mean and the variance. {…, axis} → {…}, {…}"""
        x = x.like(cls.fill_padding(x, 0)) if use_mask else x  # NaN of padding would get into the gradient of the mean
        mean_of = cls.reduce_everywhere if distributed else cls.reduce
        mean = mean_of(x, mode="mean", axis=axis, use_mask=use_mask)
        squares = cls.combine(x, "squared_difference", mean, allow_broadcast_all_sources=True)
        variance = mean_of(squares, mode="mean", axis=axis, use_mask=use_mask)
        if correction:
            variance = variance.like(
                cls.combine_raw(variance._raw, "mul", _corrected(cls, x, axis, use_mask, correction, distributed))
            )
        return mean, variance

    @classmethod
    def normalize(cls: type[Backend], x: Tensor, mean: Tensor, variance: Tensor, epsilon: float) -> Tensor:
        """(x - mean) / √(variance + epsilon), and 0 in padding, so that no gradient comes from there. {…} → the same"""
        x = x.like(cls.fill_padding(x, 0))
        factor = variance.like(cls.activation_raw(cls.combine_raw(variance._raw, "add", epsilon), "rsqrt"))
        centered = cls.combine(x, "sub", mean, allow_broadcast_all_sources=True)
        result = cls.combine(centered, "mul", factor, allow_broadcast_all_sources=True)
        return result.like(cls.fill_padding(result, 0))

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
        """Mean 0 and variance 1 of each feature: of this batch in training, else those seen so far. {…} → the same

        In training what was seen so far moves by `momentum` towards this batch, without the bias of its variance.
        """
        features = in_dim if isinstance(in_dim, list | tuple) else (in_dim,)
        for dim in features:
            axis_of("batch_norm", source, dim)
        axes = tuple(dim for dim in source.dims if dim not in features)
        mean: Tensor | None = running_mean
        variance: Tensor | None = running_variance
        train = get_run_ctx().train_flag if train is None else train
        if mean is None or variance is None or train:
            mean, variance = cls.moments(source, axes, use_mask=use_mask, distributed=distributed)
            if running_mean is not None and running_variance is not None:
                factor = _corrected(cls, source, axes, use_mask, 1, distributed)
                unbiased = variance.like(cls.combine_raw(variance._raw, "mul", factor))
                _follow(cls, running_mean, mean, momentum)
                _follow(cls, running_variance, unbiased, momentum)
        result = cls.normalize(source, mean, variance, epsilon)
        for kind, weight in ("mul", gamma), ("add", beta):
            if affine and weight is not None:
                result = cls.combine(result, kind, weight, allow_broadcast_all_sources=True)
        return result


def _corrected(
    backend: type[Backend], x: Tensor, axis: Dim | Sequence[Dim], use_mask: bool, correction: int, distributed: bool
) -> Any:
    """n / (n - correction), of n entries; with 1 at least below."""
    if distributed:  # of one shape in all processes, and 0 where a process has no frames
        count = backend.clip_raw(backend.count_everywhere(x, axis, use_mask=use_mask), 1, None)
    else:
        count = backend.count(x, axis, use_mask=use_mask)
    if isinstance(count, int):
        return count / max(count - correction, 1)
    return backend.combine_raw(
        count, "truediv", backend.clip_raw(backend.combine_raw(count, "sub", correction), 1, None)
    )


def _follow(backend: type[Backend], running: Parameter, now: Tensor, momentum: float) -> None:
    """`running` goes a bit towards `now`."""
    step = backend.combine(backend.stop_gradient(now), "sub", running, allow_broadcast_all_sources=True)
    parameter_assign(running, step.like(backend.combine_raw(step._raw, "mul", momentum)), how="add")


def _per_frame(
    backend: type[Backend],
    op: str,
    function: Callable[[Any, Sequence[int], Any, Any, float], Any],
    source: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    in_dim: Dim | Sequence[Dim],
    eps: float,
) -> Tensor:
    """A raw function over the last axes, which takes the weights as well where they are the same for all frames."""
    dims = (in_dim,) if isinstance(in_dim, Dim | int | str) else tuple(in_dim)
    key = (op, dims, scale is not None and scale.sig.serial, bias is not None and bias.sig.serial)
    plan = source.sig.plans.get(key)
    if not plan:
        plan = source.sig.keep(key, _plan(op, source, dims, scale, bias))
    there, back, sizes, moves = plan
    rows = None
    if source.sig.frames and moves is not None and any(x is not None and backend.is_trained(x) for x in (scale, bias)):
        rows = backend.rows_for(source, source.sig.dims, dims)
    raw = source._raw if scale is None or rows is not None else backend.fill_for_gradient(source, scale)
    raw = raw if there is None else backend.move_raw(raw, there)
    if moves is None:  # the weights differ between frames
        raw = align.apply(back, function(raw, sizes, None, None, eps))
        result = tensor_of(raw, source.sig, source.lengths)
        for kind, x in ("mul", scale), ("add", bias):
            result = result if x is None else backend.combine(result, kind, x, allow_broadcast_all_sources=True)
        return result
    raw_scale = None if scale is None else backend.move_raw(scale._raw, moves[0])
    raw_bias = None if bias is None else backend.move_raw(bias._raw, moves[1])
    if rows is None:
        raw = function(raw, sizes, raw_scale, raw_bias, eps)
    else:
        raw = backend.on_frames(lambda x: function(x, sizes, raw_scale, raw_bias, eps), raw, rows)
    result = tensor_of(raw if back is None else backend.move_raw(raw, back), source.sig, source.lengths)
    return backend.cut_gradient(result, scale, bias) if rows is None and result.sig.frames else result


Plan = tuple[align.Move, align.Move, list[int], list[align.Move] | None]


def _plan(op: str, source: Tensor, dims: Sequence[Dim], scale: Tensor | None, bias: Tensor | None) -> Plan:
    """To the end and back, the sizes, and how to bring the weights into the order of `dims`."""
    for dim in dims:
        axis_of(op, source, dim)
    sizes = [dim.dimension for dim in dims if dim.dimension is not None]
    if len(sizes) < len(dims):
        raise DimError(f"{op}: `in_dim` needs a fixed size", got=align.show_dims(dims), expected="Dim(number)")
    order = [*(dim for dim in source.dims if dim not in dims), *dims]
    own = [dims if x is None else x.dims for x in (scale, bias)]
    moves = [align.move(x, dims) for x in own] if all(set(x) == set(dims) for x in own) else None
    return align.move(source.dims, order), align.move(order, source.dims), sizes, moves
