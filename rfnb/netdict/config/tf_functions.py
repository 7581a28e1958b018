"""Functions of TensorFlow about shapes, control and random choices, and the modules that have all functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.run_ctx import get_run_ctx, get_run_ctx_step
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.axes import unknown_size, with_dim, with_padding
from rfnb.netdict.config.modules import ConfigModule
from rfnb.netdict.config.tf_names import (
    DTYPES,
    Array,
    AxisLength,
    binary,
    cast_to,
    concat_arrays,
    functions,
    of_shape,
    plain,
    reduction,
    truth,
    whole_number,
    without_padding,
)
from rfnb.netdict.config.values import Known
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import full, range_over_dim, zeros, zeros_like
from rfnb.ops.index import gather, top_k
from rfnb.ops.math import cast, combine_bc
from rfnb.ops.matmul import matmul
from rfnb.ops.random import dropout
from rfnb.ops.reduce import reduce_sum
from rfnb.ops.shape import expand_dim, merge_dims, reshape, squeeze
from rfnb.ops.slice import cumsum, pad


def _while_loop(
    cond: Callable[..., object], body: Callable[..., object], loop_vars: Iterable[object], **_: object
) -> object:
    """As often as the condition holds; without numbers, once."""
    variables = tuple(loop_vars)
    while (holds := truth(cond(*variables))) is not False:
        result = body(*variables)
        variables = tuple(result) if isinstance(result, list | tuple) else (result,)
        if holds is None:
            break
    return variables if len(variables) > 1 else variables[0]


def _cond(pred: object, true_fn: Callable[[], object], false_fn: Callable[[], object]) -> object:
    """The side that the condition chooses; without numbers, both are computed."""
    holds = truth(pred)
    result = false_fn() if holds is not True else None
    return true_fn() if holds is not False else result


def _concat(values: Sequence[Any], axis: object) -> object:
    """Tensors joined one after the other along an axis; shapes alike."""
    if not any(isinstance(x, Array) and x.axes for x in values):
        return [entry for x in values for entry in (x if isinstance(x, list | tuple) else [x])]
    return concat_arrays(values, whole_number(axis))


def _stack(values: Sequence[Any], axis: int = 0) -> object:
    if not any(isinstance(x, Array) and x.axes for x in values):
        return list(values)
    array = next(x for x in values if isinstance(x, Array))
    rank = len(array.axes) + 1
    return concat_arrays([_expanded(x, axis % rank) for x in values], axis % rank)


def _expanded(x: Array, at: int) -> Array:
    return x.like(x.x, [*x.axes[:at], None, *x.axes[at:]])


def _unstack(value: Array | Sequence[object], num: int | None = None, axis: int = 0) -> list[object]:
    if not isinstance(value, Array):
        return list(value)
    at = value.at(axis)
    return [value[(*[slice(None)] * at, i)] for i in range(num or value.size(value.axes[at]))]


def _top_k(input: Array, k: object = 1, sorted: bool = True) -> tuple[Array, Array]:
    """The largest entries along the last axis, and their positions. Frames after an end are among them."""
    axis, x = input.axes[-1], input.x
    if axis is None:
        return input, input.like(cast(zeros_like(plain(x)), "int32"))
    count = whole_number(k)
    if x.device == "meta":
        count = min(count, input.size(axis))
    if axis.dimension is None:
        x, axis = with_padding(x, axis)
    values, positions, new = top_k(x, axis=axis, k_dim=input.pool.static(count, x.dims), k=count)
    axes = [*input.axes[:-1], new]
    return input.like(values, axes), input.like(plain(positions), axes)  # type: ignore[arg-type]


def _sequence_mask(lengths: Array, maxlen: object = None, dtype: str = "bool") -> Array:
    """Which frames are before the end of their sequence. {batch} → {batch, frames}"""
    if maxlen is None and lengths.counted is not None:
        maxlen = AxisLength(0, lengths.counted)
    frames = of_shape([reduction("max")(lengths) if maxlen is None else maxlen])[0]
    dim = frames[0]
    if dim is None:
        mask = binary("less")(0, lengths)
    else:
        mask = binary("less")(
            Array(range_over_dim(dim, dtype="int32"), [dim], lengths.pool), _expanded(lengths, len(lengths.axes))
        )
    return mask if dtype == "bool" else cast_to(mask, dtype)


def _broadcast_to(x: Array, shape: object) -> Array:
    """The tensor with this shape: axes of size 1 are repeated."""
    axes, _ = of_shape(shape)
    old = [*[None] * (len(axes) - len(x.axes)), *x.axes]
    y = x.x
    for place, (dim, new) in enumerate(zip(old, axes, strict=True)):
        if new is None or (dim is not None and dim.dimension != 1):
            axes[place] = dim
            continue
        y = expand_dim(y if dim is None else squeeze(y, dim), new)
    return x.like(y, axes)


def _tile(x: Array, multiples: Sequence[object]) -> Array:
    """The tensor several times along its axes."""
    for at, number in enumerate(multiples):
        dim = x.axes[at]
        if dim is None or dim.dimension == 1:
            x = _broadcast_to(x, [number if i == at else AxisLength(1, d) for i, d in enumerate(x.axes)])
        elif (count := whole_number(number)) != 1:
            x = concat_arrays([x] * count, at)
    return x


def _reshape(tensor: Any, shape: Any) -> Array:
    """The entries in the same order with other axes: axes stay, are merged, or are split."""
    x = tensor
    sizes = [
        size if isinstance(size, AxisLength) else whole_number(size)
        for size in ([shape] if isinstance(shape, int) else shape)
    ]
    singles = [dim for dim in x.axes if dim is not None and dim.dimension == 1]
    y = reduce(squeeze, singles, plain(x.x))
    old = [dim for dim in x.axes if dim is not None and dim.dimension != 1]
    old_sizes = [x.size(dim) for dim in old]
    unknown = reduce(mul, old_sizes, 1) // max(reduce(mul, (int(size) for size in sizes if size != -1), 1), 1)
    computed = [i for i, size in enumerate(sizes) if size == -1 or getattr(size, "factors", ()) == (None,)]
    at_rest = computed[0] if len(computed) == 1 else None
    rest_size = None if at_rest is None else sizes[at_rest]
    sizes = [size if size != -1 else AxisLength(unknown, None, _left_over(sizes, old)) for size in sizes]
    axes: list[Dim | None] = [None] * len(sizes)
    places = [i for i, size in enumerate(sizes) if size != 1 or i == at_rest or _comes_with_data(size)]
    while places and old:
        parts, wholes = [places.pop(0)], [old.pop(0)]
        factors = getattr(sizes[parts[0]], "factors", ())
        merged = next((key for key, dim in x.pool.merged.items() if dim is wholes[0]), ())
        if factors and None not in factors and (*wholes, *old[: len(factors) - 1]) == factors:
            wholes += [old.pop(0) for _ in factors[1:]]
        elif merged and tuple(getattr(sizes[i], "dim", None) for i in (*parts, *places)[: len(merged)]) == merged:
            parts += [places.pop(0) for _ in merged[1:]]
        elif parts[0] == at_rest and any(dim.dimension is None for dim in (*wholes, *old)):
            stay = 0
            while stay < min(len(places), len(old)) and _is_size_of(sizes[places[~stay]], old[~stay]):
                stay += 1
            parts += [places.pop(0) for _ in places[stay:]]
            wholes += [old.pop(0) for _ in old[stay:]]
        else:
            product, total = int(sizes[parts[0]]), x.size(wholes[0])
            while product != total and (places if product < total else old):
                if product < total:
                    parts.append(places.pop(0))
                    product *= int(sizes[parts[-1]])
                else:
                    wholes.append(old.pop(0))
                    total *= x.size(wholes[-1])
            if product != total:
                raise TypeError(f"reshape: a tensor of the sizes {old_sizes} has no place in {[int(n) for n in sizes]}")
        if len(parts) == len(wholes) == 1:
            axes[parts[0]] = wholes[0]
            continue
        y, new = _regrouped(y, wholes, [sizes[i] for i in parts], x)
        for place, dim in zip(parts, new, strict=True):
            axes[place] = dim
    result = x.like(y, axes)
    is_checked = isinstance(rest_size, AxisLength) and not rest_size.is_symbol
    if places or old or (is_checked and result.size(axes[at_rest or 0]) != rest_size):
        raise TypeError(f"reshape: a tensor of the sizes {old_sizes} has no place in {[int(n) for n in sizes]}")
    return result


def _comes_with_data(size: int) -> bool:
    """Whether it is the size of an axis that other batches have with other sizes."""
    dim = size.dim if isinstance(size, AxisLength) else None
    return dim is not None and dim.dimension is None


def _is_size_of(size: int, dim: Dim) -> bool:
    return getattr(size, "dim", None) is dim or dim.dimension == size


def _left_over(sizes: Sequence[int], old: Sequence[Dim]) -> tuple[Dim | None, ...]:
    """The axes that stand for the size -1, if all others stay as they are."""
    at, dims = sizes.index(-1), list(old)
    for part, step in ((sizes[:at], 0), (sizes[:at:-1], -1)):
        for size in part:
            if size == 1 and not _comes_with_data(size):
                continue
            if not dims or not _is_size_of(size, dims[step]):
                return ()
            dims.pop(step)
    return tuple(dims)


def _regrouped(y: Tensor, old: list[Dim], sizes: list[int], x: Array) -> tuple[Tensor, list[Dim]]:
    """Some axes merged and split into others, in which padding counts as frames."""
    key = tuple(old)
    for i, dim in enumerate(old):
        if dim.dimension is None and not dim.is_batch_dim():
            y, old[i] = with_padding(y, dim)
    if len(sizes) == 1 and any(dim.dimension is None for dim in old):
        merged = x.pool.merged.setdefault(key, Dim(None, name="*".join(dim.name for dim in key)))
        return merge_dims(y, dims=old, out_dim=merged)[0], [merged]
    neighbours = [dim for dim in y.dims if dim not in old]
    new: list[Dim] = []
    rest_dim = None
    dims: list[Dim | None] = [getattr(size, "dim", None) for size in sizes]
    for size, target in zip(sizes, dims, strict=True):
        if target is not None and target.is_batch_dim():
            new.append(target)
        elif target is None and isinstance(size, AxisLength) and any(dim.dimension is None for dim in old):
            others = tuple(int(other) for other in sizes if other is not size)  # known: the rest comes with the data
            name = f"{'*'.join(dim.name for dim in key)}/{'*'.join(map(str, others))}"
            rest_dim = x.pool.merged.setdefault((*key, *others), Dim(None, name=name))
            new.append(rest_dim)
        else:
            new.append(x.pool.static(int(size), [*neighbours, *new]))
    if rest_dim is not None and y.device == "meta":
        rest_dim.define(unknown_size(rest_dim), "split_dims")
        y = zeros([*neighbours, *new], dtype=y.dtype, device="meta")
    else:
        y = reshape(y, old, new)
    for i, target in enumerate(dims):
        if target is not None and target is not new[i] and target not in y.sig.index:
            y, new[i] = with_dim(y, new[i], target), target
    return y, new


def _pad(tensor: Array, paddings: Sequence[Any], mode: str = "CONSTANT", constant_values: float = 0) -> Array:
    """Numbers before and after the entries along axes; those after a sequence stand after its end."""
    if mode.upper() != "CONSTANT":
        raise TypeError(f"pad: the mode {mode} is not known here")
    y, axes = plain(tensor.x), list(tensor.axes)
    for at, (before, after) in enumerate(paddings):
        amount = whole_number(before), whole_number(after)
        if not any(amount):
            continue
        dim = axes[at]
        if dim is None:
            dim = tensor.pool.static(1, [old for old in axes if old is not None])
            y = expand_dim(y, dim)
        fixed = None if dim.dimension is None else [tensor.pool.instead(dim, dim.dimension + sum(amount), y)]
        y, [axes[at]] = pad(y, axes=[dim], padding=amount, value=constant_values, out_dims=fixed)
    return tensor.like(y, axes)


def _gather(
    params: Array, indices: Any, validate_indices: object = None, axis: object = None, batch_dims: int = 0
) -> Array:
    """The entries at positions along an axis; the first `batch_dims` axes of both are the same."""
    at = params.at(batch_dims if axis is None else whole_number(axis))
    if not isinstance(indices, Array):
        if not isinstance(indices, list | tuple):
            return params[(*[slice(None)] * at, int(indices))]
        positions = params.pool.static(len(indices), params.x.dims)
        indices = params.like(convert_to_tensor([int(i) for i in indices], dims=[positions]), [positions])
    dim, outer_axes, new = params.axes[at], params.axes[:at], indices.axes[batch_dims:]
    if dim is None or indices.axes[:batch_dims] != outer_axes[:batch_dims] or {*new} & {*params.axes} - {dim, None}:
        raise TypeError("gather: the positions have an axis of the tensor, which only batch_dims may share")
    y = gather(plain(params.x), indices=plain(indices.x), axis=dim, clip_to_valid=True)
    return params.like(y, [*outer_axes, *new, *params.axes[at + 1 :]])


def _einsum(equation: str, *inputs: Array) -> Array:
    """Products of tensors whose axes have letters, summed over the letters that the result does not have."""
    operands, _, result = equation.replace(" ", "").partition("->")
    terms = operands.split(",")
    if not result and "->" not in equation:
        result = "".join(sorted(letter for letter in {*operands} - {","} if operands.count(letter) == 1))
    dims: dict[str, Dim] = {}
    tensors: list[Tensor] = []
    for term, array in zip(terms, inputs, strict=True):
        if len(term) != len(array.axes) or len({*term}) != len(term):
            raise TypeError(f"einsum: {term} are not the axes of a tensor with {len(array.axes)} axes")
        x = plain(array.x)
        for letter, dim in zip(term, array.axes, strict=True):
            if dim is None:
                continue
            if letter not in dims:
                dims[letter] = _another(dim, dims.values(), array)
            if dims[letter] is not dim:
                x = with_dim(x, dim, dims[letter])
        tensors.append(x)
    y = tensors[0]
    for i, x in enumerate(tensors[1:], 1):
        later = {*result}.union(*terms[i + 1 :])
        over = [dim for letter, dim in dims.items() if letter not in later and dim in {*x.dims} & {*y.dims}]
        y = matmul(y, x, reduce=over, use_mask=without_padding(y, over)) if over else combine_bc(y, "mul", x)
    over = [dim for letter, dim in dims.items() if letter not in result and dim in y.dims]
    y = reduce_sum(y, axis=over, use_mask=without_padding(y, over)) if over else y
    return inputs[0].like(y, [dims.get(letter) for letter in result])


def _reverse(tensor: Array, axis: int | Sequence[int]) -> Array:
    """The entries along axes of a fixed size in the opposite order."""
    for place in [axis] if isinstance(axis, int) else axis:
        at = tensor.at(whole_number(place))
        dim = tensor.axes[at]
        if dim is not None and dim.dimension is None:
            raise TypeError("reverse along an axis whose size comes with the data; use tf.reverse_sequence in a layer")
        tensor = tensor[(*[slice(None)] * at, slice(None, None, -1))]
    return tensor


def _roll(input: Array, shift: object, axis: int) -> Array:
    """The entries along an axis of a fixed size, moved in a circle."""
    at, dim = input.at(axis), input.axes[input.at(axis)]
    if dim is None:
        return input
    if dim.dimension is None:
        raise TypeError("roll along an axis whose size comes with the data; use a layer of the class shift_axis")
    begin = -whole_number(shift) % dim.dimension
    whole_axes = [slice(None)] * at
    return concat_arrays([input[(*whole_axes, slice(begin, None))], input[(*whole_axes, slice(None, begin))]], at)


def _cumsum(x: Array, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Array:
    """The sum of each entry and those before it along an axis."""
    dim = x.axes[x.at(axis)]
    if reverse:
        raise TypeError("cumsum: reverse is not known here")
    y = x if dim is None else x.like(cumsum(plain(x.x), spatial_dim=dim))
    return binary("sub")(y, x) if exclusive else y


def _another(dim: Dim, taken: Iterable[Dim], x: Array) -> Dim:
    """The axis, or another one of its size if it is one of those that are taken."""
    if dim not in taken:
        return dim
    if dim.dimension is None:
        raise TypeError(f"einsum: the axis {dim.name} would be there twice")
    return x.pool.static(dim.dimension, [*taken, *x.x.dims])


def _matmul(a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False, **_: object) -> Array:
    """The product of the last two axes, for all others."""
    batch = "abcdefgh"[: max(len(a.axes), len(b.axes)) - 2]
    names = [batch[len(batch) + 2 - len(x.axes) :] for x in (a, b)]
    first, second = "nm" if transpose_a else "mn", "kn" if transpose_b else "nk"
    return _einsum(f"{names[0]}{first},{names[1]}{second}->{batch}mk", a, b)


def _map_fn(fn: Callable[[Any], object], elems: Any, *_: object, **__: object) -> object:
    """The function for each entry along the first axis: for all at once, as it does not see that axis."""
    arrays = list(elems) if isinstance(elems, list | tuple) else [elems]
    axis = arrays[0].axes[0]
    inner = [x.like(x.x, x.axes[1:]) for x in arrays]
    result = fn(inner[0] if arrays[0] is elems else type(elems)(inner))

    def outer(y: object) -> Array:
        if not isinstance(y, Array):
            y = Array(
                full(dims=[], fill_value=y, dtype="float32" if isinstance(y, float) else "int32"), [], inner[0].pool
            )
        has_axis = axis is None or axis in y.x.sig.index
        return y.like(y.x if has_axis else expand_dim(y.x, axis), [axis, *y.axes])

    return type(result)(map(outer, result)) if isinstance(result, list | tuple) else outer(result)


def _dropout(
    x: Array, keep_prob: float = 1.0, noise_shape: Sequence[object] = (), seed: object = None, rate: float | None = None
) -> Array:
    drops = 1.0 - keep_prob if rate is None else rate
    shared = [size == 1 for size in noise_shape]
    dims = [dim for i, dim in enumerate(x.axes) if dim is not None and not (shared and shared[i])]
    return x.like(dropout(x.x, drops, axis=dims, on_forward=True))


def network_of(options: object) -> ConfigModule:
    """The object `network` or `self.network`, as far as functions of configs use it."""
    train = bool(get_run_ctx().train_flag)
    network = ConfigModule(
        "network",
        {
            "get_config": lambda *_, **__: options,
            "train_flag": train,
            "eval_flag": not train,
            "global_train_step": int(get_run_ctx_step()),
            "cond_on_train": lambda fn_train, fn_eval: fn_train() if train else fn_eval(),
        },
    )
    network.names["get_root_network"] = lambda: network
    return network


OTHER_NAMES = {
    **dict.fromkeys("dim dimension squeeze_dims reduction_indices".split(), "axis"),
    "keep_dims": "keepdims", "fn1": "true_fn", "fn2": "false_fn",
}  # fmt: skip
"""Names that options have in other versions of TensorFlow."""


def _called(function: Callable[..., object]) -> Callable[..., object]:
    """A function as configs call it: with a `name` that means nothing, and with options of None that are not given."""
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    count = None if inspect.Parameter.VAR_POSITIONAL in kinds else len(kinds)

    def call(*args: object, **kwargs: object) -> object:
        options = {OTHER_NAMES.get(key, key): x for key, x in kwargs.items() if key != "name" and x is not None}
        return function(*args[:count], **options)

    return call


def tensorflow() -> dict[str, ConfigModule]:
    """The modules that a config imports for such functions, by their names."""
    table = functions() | {
        "while_loop": _while_loop, "cond": _cond, "concat": _concat, "stack": _stack, "unstack": _unstack,
        "top_k": _top_k, "sequence_mask": _sequence_mask, "broadcast_to": _broadcast_to, "tile": _tile,
        "reshape": _reshape, "pad": _pad, "pad_v2": _pad, "gather": _gather, "einsum": _einsum, "matmul": _matmul,
        "map_fn": _map_fn, "reverse": _reverse, "roll": _roll,
        "cumsum": _cumsum, "vectorized_map": _map_fn, "dropout": _dropout, "Print": lambda input_, *_, **__: input_,
    }  # fmt: skip

    def module(name: str, names: Mapping[str, Callable[..., object]]) -> ConfigModule:
        return ConfigModule(name, {key: Known(f"{name}.{key}", _called(function)) for key, function in names.items()})

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
