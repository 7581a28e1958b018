"""The functions of TensorFlow that expressions and functions of configs may call, on arrays and numbers."""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.run_ctx import get_run_ctx, get_run_ctx_step
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.config.arrays import (
    POOL,
    Array,
    AxisLength,
    Number,
    Shape,
    binary,
    elementwise,
    plain,
    without_padding,
)
from rfnb.netdict.config.modules import ConfigModule
from rfnb.netdict.config.values import Known
from rfnb.netdict.layer_call.exact_log import safe_log
from rfnb.ops import activation, audio, math, reduce as reductions
from rfnb.ops.concat import concat, split
from rfnb.ops.create import full, ones_like, range_over_dim, zeros_like
from rfnb.ops.grad import stop_gradient
from rfnb.ops.index import one_hot
from rfnb.ops.random import random_normal, random_uniform
from rfnb.ops.reduce import log_softmax, softmax
from rfnb.ops.shape import set_sparse_dim, squeeze

DTYPES = {name: name for name in "float16 float32 float64 int8 int16 int32 int64 uint8 bool".split()}


def _unary(op: Callable[[Tensor], Tensor], of_number: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    def call(x: Any, name: Any = None) -> Any:
        if isinstance(x, Array):
            return x.like(op(plain(x.x)))
        if of_number is None or not isinstance(x, Number):
            raise TypeError("the function needs a tensor")
        return of_number(x)

    return call


def _reduction(mode: str) -> Callable[..., Any]:
    reduce = getattr(reductions, f"reduce_{mode}")

    def call(
        x: Any, axis: Any = None, keepdims: bool = False, name: Any = None, reduction_indices: Any = None,
        keep_dims: bool = False, output_type: Any = None, dimension: Any = None,
    ) -> Any:  # fmt: skip
        if isinstance(x, Number):
            return x
        axes = next((option for option in (axis, reduction_indices, dimension) if option is not None), None)
        if mode.startswith("arg") and axes is None:
            axes = 0
        places = range(len(x.axes)) if axes is None else [axes] if isinstance(axes, int) else axes
        at = {x.at(place) for place in places}
        dims = [x.axes[place] for place in sorted(at) if x.axes[place] is not None]
        mask = without_padding(x.x, dims)
        y = x.x if not dims else reduce(plain(x.x), axis=dims if len(dims) > 1 else dims[0], use_mask=mask)
        if mode.startswith("arg"):
            y = math.cast(plain(y), output_type or "int64")
        keep = keepdims or keep_dims
        remaining = [None if i in at else dim for i, dim in enumerate(x.axes) if keep or i not in at]
        return x.like(y, remaining)

    return call


def _over_axis(op: Callable[..., Tensor]) -> Callable[..., Any]:
    def call(x: Array, axis: int = -1, name: Any = None, dim: int | None = None) -> Array:
        over = x.axes[x.at(axis if dim is None else dim)]
        return x.like(op(x.x, axis=over, use_mask=without_padding(x.x, [over] if over is not None else [])))

    return call


def _where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    if not isinstance(condition, Array):
        return x if condition else y
    if x is None or y is None:
        raise TypeError("where needs two values")
    return elementwise(lambda c, a, b: math.where(c, a, b, allow_broadcast_all_sources=True))(condition, x, y)


def _cond(
    pred: Any, true_fn: Any = None, false_fn: Any = None, name: Any = None, fn1: Any = None, fn2: Any = None
) -> Any:
    return (true_fn or fn1)() if pred else (false_fn or fn2)()


def _cast(x: Any, dtype: str = "float32", name: Any = None) -> Any:
    if isinstance(x, Array):
        return x.like(math.cast(plain(x.x), dtype))
    return bool(x) if dtype == "bool" else float(x) if dtype.startswith("float") else int(x)


def _expand_dims(x: Array, axis: int = -1, name: Any = None, dim: int | None = None) -> Array:
    at = axis if dim is None else dim
    axes = list(x.axes)
    axes.insert(at if at >= 0 else len(axes) + 1 + at, None)
    return x.like(x.x, axes)


def _squeeze(x: Array, axis: Any = None, name: Any = None, squeeze_dims: Any = None) -> Array:
    axes = axis if squeeze_dims is None else squeeze_dims
    single = [i for i, dim in enumerate(x.axes) if dim is None or dim.dimension == 1]
    at = single if axes is None else [x.at(number) for number in ([axes] if isinstance(axes, int) else axes)]
    y = x.x
    for place in at:
        dim = x.axes[place]
        y = y if dim is None else squeeze(y, dim)
    return x.like(y, [dim for i, dim in enumerate(x.axes) if i not in at])


def _transpose(x: Array, perm: Sequence[int] | None = None, name: Any = None) -> Array:
    order = range(len(x.axes))[::-1] if perm is None else perm
    return x.like(x.x, [x.axes[i] for i in order])


def _shape(x: Array, name: Any = None, out_type: Any = None) -> Shape:
    return Shape(AxisLength(x.size(dim), dim) for dim in x.axes)


def _rank(x: Array, name: Any = None) -> int:
    return len(x.axes)


def _concat(values: Sequence[Array], axis: int, name: Any = None) -> Array:
    like, at = values[0], values[0].at(axis)
    dims = [x.axes[at] for x in values]
    sizes = [1 if dim is None else dim.dimension for dim in dims]
    if None in sizes:
        raise TypeError("concat along an axis whose size comes with the data; use a layer of the class concat")
    new = _made(sum(size or 0 for size in sizes), like, at)
    parts = [(x.whole(), x.whole().dims[at]) for x in values]
    return like.like(concat(*parts, allow_broadcast=True, out_dim=new)[0], [*like.axes[:at], new, *like.axes[at + 1 :]])


def _split(value: Array, num_or_size_splits: Any, axis: int = 0, num: Any = None, name: Any = None) -> list[Array]:
    at = value.at(axis)
    dim = value.axes[at]
    if dim is None or dim.dimension is None:
        raise TypeError("split along an axis without a fixed size")
    sizes = num_or_size_splits
    if isinstance(sizes, int):
        sizes = [dim.dimension // sizes] * sizes
    new = [_made(size, value, at) for size in sizes]
    parts = split(value.x, axis=dim, out_dims=new)
    return [value.like(y, [*value.axes[:at], d, *value.axes[at + 1 :]]) for y, d in zip(parts, new, strict=True)]


def _made(size: int, of: Array, at: int) -> Dim:
    make = of.pool.feature if of.axes[at] is of.x.feature_dim or at == len(of.axes) - 1 else of.pool.static
    return make(size, [dim for i, dim in enumerate(of.axes) if dim is not None and i != at])


def _one_hot(x: Array, depth: int, name: Any = None, dtype: str = "float32", **_: Any) -> Array:
    dim = x.pool.feature(depth, [dim for dim in x.axes if dim is not None])
    return x.like(math.cast(one_hot(set_sparse_dim(x.x, dim)), dtype), [*x.axes, dim])


def _l2_normalize(x: Array, axis: Any = None, epsilon: float = 1e-12, name: Any = None, dim: Any = None) -> Array:
    total = _reduction("sum")(binary("mul")(x, x), axis=axis if dim is None else dim, keepdims=True)
    normalized: Array = binary("mul")(x, _unary(math.rsqrt)(binary("maximum")(total, epsilon)))
    return normalized


def _of_shape(shape: Any) -> tuple[list[Dim | None], list[Dim]]:
    """The axes of a shape, some of which know their dims: `tf.shape(x)`, or parts of it; and the dims."""
    axes: list[Dim | None] = []
    for size in [shape] if isinstance(shape, int) else shape:
        dim = size.dim if isinstance(size, AxisLength) else None
        used_dims = [dim_there for dim_there in axes if dim_there is not None]
        axes.append(dim if dim is not None or size == 1 else POOL.get().static(int(size), used_dims))
    return axes, [dim for dim in axes if dim is not None]


def _filled(shape: Any, value: float, dtype: str = "float32", name: Any = None) -> Array:
    axes, dims = _of_shape(shape)
    return Array(full(dims=dims, fill_value=value, dtype=dtype), axes, POOL.get())


def _uniform(
    shape: Any, minval: Any = 0, maxval: Any = 1, dtype: str = "float32", seed: Any = None, name: Any = None
) -> Array:
    axes, dims = _of_shape(shape)
    return Array(random_uniform(dims, minval=minval, maxval=maxval, dtype=dtype, seed=seed), axes, POOL.get())


def _normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: str = "float32", seed: Any = None, name: Any = None
) -> Array:
    axes, dims = _of_shape(shape)
    return Array(random_normal(dims, mean=mean, stddev=stddev, dtype=dtype, seed=seed), axes, POOL.get())


def _range(start: Any, limit: Any = None, delta: int = 1, dtype: str = "int32", name: Any = None) -> Array:
    if delta != 1 or (limit is not None and start != 0):
        raise TypeError("range needs the size of an axis")
    axes, dims = _of_shape([start if limit is None else limit])
    y = range_over_dim(dims[0], dtype=dtype) if dims else full(dims=[], fill_value=0, dtype=dtype)
    return Array(y, axes, POOL.get())


def random_mask(
    x: Array, batch_axis: int, axis: int, min_num: Any, max_num: Any, max_dims: Any, mask_value: float = 0.0
) -> Array:
    """SpecAugment's mask of random stretches, in place of the function of this name that many configs define."""
    dim, batch = x.axes[x.at(axis)], x.axes[x.at(batch_axis)]
    if dim is None:
        return x
    remaining = [d for d in x.axes if d is not None and d is not batch and d is not dim]
    low, high, widest = int(min_num), int(max_num), int(max_dims)
    masked = audio.random_mask(
        x.x, mask_axis=dim, broadcast_axis=remaining, min_num=low, max_num=high, max_dims=widest, mask_value=mask_value
    )
    return x.like(masked)


NATIVE = {"random_mask": random_mask}
"""Functions of configs that are known by name, and are computed by ops."""


def network_of(options: Any) -> ConfigModule:
    """The object `network` or `self.network`, as far as functions of configs use it."""
    train = bool(get_run_ctx().train_flag)
    return ConfigModule(
        "network",
        {
            "get_config": lambda *_, **__: options,
            "train_flag": train,
            "eval_flag": not train,
            "global_train_step": int(get_run_ctx_step()),
            "cond_on_train": lambda fn_train, fn_eval: fn_train() if train else fn_eval(),
        },
    )


_LIKE = {"zeros_like": zeros_like, "ones_like": ones_like, "stop_gradient": stop_gradient, "identity": lambda x: x}
_PLAIN: dict[str, Callable[[Any], Any] | None] = {
    "exp": numbers.exp, "log": numbers.log, "abs": abs, "sqrt": numbers.sqrt, "square": lambda x: x * x,
    "sin": numbers.sin,
    "cos": numbers.cos, "floor": numbers.floor, "ceil": numbers.ceil, "round": round, "neg": lambda x: -x,
    "rsqrt": None, "log1p": numbers.log1p, "expm1": numbers.expm1, "sign": None,
    "logical_not": lambda x: not x, "is_finite": None,
}  # fmt: skip
_ACTIVATIONS = "relu sigmoid tanh log_sigmoid elu selu swish gelu softplus softsign".split()
_BINARY = {
    **{name: name for name in "add equal not_equal less less_equal greater greater_equal maximum minimum".split()},
    **{name: name for name in "logical_and logical_or floordiv mod pow squared_difference truediv".split()},
    "floormod": "mod", "subtract": "sub", "multiply": "mul", "divide": "truediv", "div": "truediv",
    "floor_div": "floordiv",
}  # fmt: skip


def functions() -> dict[str, Any]:
    """All functions by name, without `tf.`, `tf.math.` and `tf.nn.`."""
    names: dict[str, Any] = {
        **{name: _unary(getattr(math, name), of) for name, of in _PLAIN.items() if hasattr(math, name)},
        **{name: _unary(op) for name, op in _LIKE.items()},
        **{name: _unary(getattr(activation, name)) for name in _ACTIVATIONS},
        **{name: binary(kind) for name, kind in _BINARY.items()},
        **{f"reduce_{mode}": _reduction(mode) for mode in "sum mean max min logsumexp any all".split()},
        **{name: _reduction(name) for name in ("argmax", "argmin")},
        "where": _where, "where_bc": _where, "cond": _cond, "cast": _cast, "expand_dims": _expand_dims,
        "to_float": _cast, "to_int32": lambda x, name=None: _cast(x, "int32"), "squeeze": _squeeze,
        "transpose": _transpose, "shape": _shape, "get_shape_dim": lambda x, i, **_: _shape(x)[i], "rank": _rank,
        "concat": _concat, "split": _split, "one_hot": _one_hot, "l2_normalize": _l2_normalize,
        "softmax": _over_axis(softmax), "log_softmax": _over_axis(log_softmax), "constant": lambda value, **_: value,
        "convert_to_tensor": lambda value, **_: value, "negative": _unary(math.neg, lambda x: -x),
        "clip_by_value": _clipped, "add_n": lambda values, **_: sum(values[1:], values[0]),
        "zeros": lambda shape, dtype="float32", **_: _filled(shape, 0, dtype),
        "ones": lambda shape, dtype="float32", **_: _filled(shape, 1, dtype),
        "fill": _filled, "range": _range, "random_uniform": _uniform, "random_normal": _normal,
        "safe_log": _safe_log,
    }  # fmt: skip
    return names


def _safe_log(x: Any, eps: float = 1e-20, name: Any = None) -> Any:
    return _unary(lambda y: safe_log(y, eps), lambda y: numbers.log(max(y, eps)))(x)


def _clipped(x: Any, clip_value_min: Any, clip_value_max: Any, name: Any = None) -> Any:
    return binary("minimum")(binary("maximum")(x, clip_value_min), clip_value_max)


def tensorflow() -> dict[str, ConfigModule]:
    """The modules that a config imports for such functions, by their names."""
    table = functions()

    def module(name: str, names: Mapping[str, Any]) -> ConfigModule:
        return ConfigModule(name, {key: Known(f"{name}.{key}", function) for key, function in names.items()})

    tf = module("tensorflow", table)
    random = {"uniform": table["random_uniform"], "normal": table["random_normal"]}
    for part, names in (("math", table), ("nn", table), ("random", random)):
        tf.names[part] = module(f"tensorflow.{part}", names)
    tf.names |= {**DTYPES, "newaxis": None}
    compat = ConfigModule("tensorflow.compat", {"v1": tf, "v2": tf})
    tf.names["compat"] = compat
    util = module("TFUtil", {name: table[name] for name in ("where_bc", "safe_log", "get_shape_dim")})
    return {
        "tensorflow": tf, "tensorflow.compat.v1": tf, "tensorflow.compat": compat, "returnn.tf.compat": compat,
        "returnn.tf.compat.v1": tf, "TFCompat": compat, "TFUtil": util, "returnn.tf.util.basic": util,
        "returnn.tf.util": ConfigModule("returnn.tf.util", {"basic": util}),
    }  # fmt: skip
