"""Normalization."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.mask import BOUNDS, FLOAT32
from rfnb.backend.base.reduce import EXACT
from rfnb.backend.base.require import axis_of
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, as_dims
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.arguments import FloatTensor
from rfnb.core.tensor.op import guarded, op, op_of_backend
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError
from rfnb.ops.math import add, cast, mul
from rfnb.ops.random import in_training
from rfnb.ops.shape import merge_dims, split_dims

Axes = Dim | Sequence[Dim]


@op(frames="any")
def layer_norm(
    source: FloatTensor, scale: Tensor | None, bias: Tensor | None, *, in_dim: Axes, eps: float = 1e-6
) -> Tensor:
    """Mean 0 and variance 1 over `in_dim`, then times `scale` plus `bias`, in one kernel. {…, in_dim} → the same

    >>> feat = rf.Dim(2, name="feat")
    >>> x = rf.convert_to_tensor([1.0, 3.0], dims=[feat])
    >>> rf.layer_norm(x, None, None, in_dim=feat, eps=0.0).raw_tensor.tolist()
    [-1.0, 1.0]
    """
    backend: type[Backend] = backend_of_raw(source._raw)
    return _per_frame(backend, "layer_norm", backend.layer_norm_raw, source, scale, bias, in_dim, eps)


@op(frames="any")
def rms_norm(
    source: FloatTensor, scale: Tensor | None, bias: Tensor | None = None, *, in_dim: Axes, eps: float = 1e-6
) -> Tensor:
    """A mean square of 1 over `in_dim` (Zhang & Sennrich 2019), then times `scale` plus `bias`, in one kernel.

    {…, in_dim} → the same

    >>> feat = rf.Dim(2, name="feat")
    >>> x = rf.convert_to_tensor([5.0, -5.0], dims=[feat])
    >>> rf.rms_norm(x, None, in_dim=feat, eps=0.0).raw_tensor.tolist()
    [1.0, -1.0]
    """
    backend: type[Backend] = backend_of_raw(source._raw)
    return _per_frame(backend, "rms_norm", backend.rms_norm_raw, source, scale, bias, in_dim, eps)


def _per_frame(
    backend: type[Backend],
    op: str,
    function: Callable[[RawTensor, Sequence[int], RawTensor, RawTensor, float], object],
    source: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    in_dim: Dim | Sequence[Dim],
    eps: float,
) -> Tensor:
    """Applies a raw function over the last axes. It also applies the weights if they are the same for all frames."""
    dims = (in_dim,) if isinstance(in_dim, Dim | int | str) else tuple(in_dim)
    key = (op, dims, scale is not None and scale.sig.serial, bias is not None and bias.sig.serial)
    plan = source.sig.plans.get(key)
    if not plan:
        plan = source.sig.keep(key, _plan(op, source, dims, scale, bias))
    front, back, sizes, moves = plan
    source = backend.finite_operand(source)
    eps = max(eps, BOUNDS.get(source.dtype, FLOAT32).small ** 2)  # a frame of padding may have a variance of 0
    raw = source._raw if front is None else backend.move_raw(source._raw, front)
    if moves is None:  # the weights differ between frames
        raw = align.apply(back, function(raw, sizes, None, None, eps))
        result = tensor_of(raw, source.sig, source.lengths)
        for kind, x in ("mul", scale), ("add", bias):
            result = result if x is None else backend.combine(result, kind, x, allow_broadcast_all_sources=True)
        return result
    raw_scale = None if scale is None else backend.move_raw(scale._raw, moves[0])
    raw_bias = None if bias is None else backend.move_raw(bias._raw, moves[1])
    raw = function(raw, sizes, raw_scale, raw_bias, eps)
    return tensor_of(raw if back is None else backend.move_raw(raw, back), source.sig, source.lengths)


Plan = tuple[align.Move, align.Move, list[int], list[align.Move] | None]


def _plan(op: str, source: Tensor, dims: Sequence[Dim], scale: Tensor | None, bias: Tensor | None) -> Plan:
    """Moves to the end and back, the sizes, and moves of the weights into the order of `dims`."""
    for dim in dims:
        axis_of(op, source, dim)
    sizes = [dim.dimension for dim in dims if dim.dimension is not None]
    if len(sizes) < len(dims):
        raise DimError(f"{op}: `in_dim` must have a fixed size", got=align.show_dims(dims), expected="Dim(number)")
    order = [*(dim for dim in source.dims if dim not in dims), *dims]
    orders = [dims if x is None else x.dims for x in (scale, bias)]
    moves = [align.move(x, dims) for x in orders] if all(set(x) == set(dims) for x in orders) else None
    return align.move(source.dims, order), align.move(order, source.dims), sizes, moves


moments = op_of_backend(Backend.moments, __name__, frames="any")


@op(frames="any")
def normalize(a: FloatTensor, *, axis: Axes, epsilon: float = 1e-6) -> Tensor:
    """Mean 0 and variance 1 over the valid frames of `axis`; 0 in padding. {…, axis} → the same

    >>> feat = rf.Dim(2, name="feat")
    >>> rf.normalize(rf.convert_to_tensor([1.0, 3.0], dims=[feat]), axis=feat, epsilon=0.0).raw_tensor.tolist()
    [-1.0, 1.0]
    """
    if exact := EXACT.get(a.dtype):  # squares exceed the largest number of float16 from 256 on
        return cast(normalize(cast(a, exact), axis=axis, epsilon=epsilon), a.dtype)
    backend = backend_of_raw(a._raw)
    return backend.normalize(a, *backend.moments(a, axis), epsilon)


@guarded
def group_norm(
    source: FloatTensor,
    scale: Tensor | None,
    bias: Tensor | None,
    *,
    in_dim: Dim,
    num_groups: int | Dim,
    axis: Axes = (),
    eps: float = 1e-6,
) -> Tensor:
    """Mean 0 and variance 1 over each group of neighbours in `in_dim` (Wu & He 2018), then times `scale` plus `bias`.

    {…, in_dim} → the same. axis: dims whose valid frames share the statistics.

    >>> feat = rf.Dim(4, name="feat")
    >>> x = rf.convert_to_tensor([1.0, 3.0, 20.0, 10.0], dims=[feat])
    >>> rf.group_norm(x, None, None, in_dim=feat, num_groups=2, eps=0.0).raw_tensor.tolist()
    [-1.0, 1.0, 1.0, -1.0]
    """
    groups = num_groups if isinstance(num_groups, Dim) else _groups(num_groups)
    if in_dim.get_dim_value() % groups.get_dim_value():
        raise DimError("group_norm: the groups differ in size", got=f"{in_dim.describe()} in {groups.describe()}")
    size = in_dim.div_left(groups.get_dim_value())
    parts = split_dims(source, axis=in_dim, dims=[groups, size])
    if extra := as_dims(axis):
        parts = normalize(parts, axis=[*extra, size], epsilon=eps)
    else:
        parts = layer_norm(parts, None, None, in_dim=size, eps=eps)
    result, _ = merge_dims(parts, dims=[groups, size], out_dim=in_dim)
    result = result if scale is None else mul(result, scale)
    return result if bias is None else add(result, bias)


@functools.cache
def _groups(number: int) -> Dim:
    return Dim(number, name="groups")


@op(effect=True)
def batch_norm(
    source: FloatTensor,
    *,
    in_dim: Axes,
    running_mean: Parameter | None,
    running_variance: Parameter | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    epsilon: float = 1e-3,
    momentum: float = 0.1,
    affine: bool = True,
    use_mask: bool = True,
    distributed: bool = False,
    train: bool | None = None,
) -> Tensor:
    """Mean 0 and variance 1 of each entry of `in_dim` (Ioffe & Szegedy 2015), then times `gamma` plus `beta`.

    {…, in_dim} → the same. In training, mean and variance are those of all valid frames of the batch, and the running
    statistics move towards them by `momentum`. Otherwise the running statistics are used, if given.

    train: whether this is training; by default the run context decides.

    >>> time, feat = rf.Dim(2, name="time"), rf.Dim(1, name="feat")
    >>> x = rf.convert_to_tensor([[1.0], [3.0]], dims=[time, feat])
    >>> options = {"running_mean": None, "running_variance": None, "gamma": None, "beta": None, "epsilon": 0.0}
    >>> rf.batch_norm(x, in_dim=feat, **options).raw_tensor.tolist()
    [[-1.0], [1.0]]
    """
    train = (running_mean is None or in_training(source, func=batch_norm)) if train is None else train
    return backend_of_raw(source._raw).batch_norm(**locals())
