"""Maps PyTorch calls to their rfnb equivalents, phrased with the actual tensor's name and dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.source import locals_of, user_frame
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.tensor.tensor import Tensor

Way = Callable[..., str]
"""A function that takes a tensor and the arguments of the PyTorch call, and returns the rfnb code to write instead."""

NOT_USERS = {"torch", "numpy", "IPython", "ipykernel"}
"""Packages that call rfnb on behalf of the user."""


def way_of(x: object, method: str, args: Sequence[object], kwargs: dict[str, object]) -> str | None:
    """The rfnb code to write instead of `x.method(…)`; None if `METHODS` does not list the method."""
    way = METHODS.get(method) or METHODS.get(method.rstrip("_"))
    if way is None:
        return None
    written = way(x, *args, **kwargs)
    return f"{called(x)} = {written}" if method.endswith("_") and " needed" not in written else written


def typed(x: object, method: str, args: Sequence[object], kwargs: dict[str, object]) -> str:
    """The call as the user wrote it: "x.mean(dim=-1)"."""
    arguments = [*map(called, args), *(f"{name}={called(value)}" for name, value in kwargs.items())]
    return f"{called(x)}.{method}({', '.join(arguments)})"


def equivalent_error(what: str, way: str, x: object) -> DimError:
    """The error for a PyTorch call: one line with the call, its rfnb equivalent, and the dims of `x`."""
    return DimError(one_line(what, way, x))


def one_line(what: str, way: str, x: Any) -> str:
    """The text of the error: "x.mean(dim=-1) → rf.reduce_mean(x, axis=feat), for x {batch:2, time:5, feat:4}"."""
    return f"{what} → {way}, for {called(x)} {x.describe_dims()}"


def called(value: Any) -> str:
    """The user's name for a value: a variable that holds it, else its own name; "x" for a tensor without one."""
    if isinstance(value, list | tuple):
        parts = ", ".join(map(called, value))
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
    if isinstance(value, Dim):
        return variable_of(value) or ("rf.batch_dim" if value is batch_dim else value.name)
    if hasattr(value, "describe_dims"):
        name = str(value.name)
        named = name != "tensor" and all(part.isidentifier() for part in name.split("."))
        return variable_of(value) or (name if named else "x")
    text = repr(value) if isinstance(value, str | int | float | None) else variable_of(value) or repr(value)
    return text if len(text) <= 40 and "\n" not in text else "…"


def variable_of(value: object) -> str | None:
    """The variable of the user's running function, or of the notebook, that holds this very object."""
    frame = user_frame()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in NOT_USERS:
        frame = user_frame(frame.f_back) if frame.f_back else None
    scopes = [] if frame is None else [locals_of(frame), frame.f_globals]
    names = (name for scope in scopes for name, item in scope.items() if item is value)
    return next((name for name in names if not name.startswith("_")), None)


def dim_at(x: Tensor, number: object) -> Dim | None:
    """The dim at this position; a Dim is returned as it is; None if there is no such axis."""
    if isinstance(number, Dim):
        return number
    if isinstance(number, int) and -len(x.dims) <= number < len(x.dims):
        return x.dims[number]
    return None


def axis(x: Tensor, number: object) -> str:
    """The rfnb text for torch's `dim=number`: the name of the dim, a list of names, or all dims for None."""
    if isinstance(number, list | tuple):
        return f"[{', '.join(axis(x, n) for n in number)}]"
    if number is None:
        return called(x.dims[0]) if len(x.dims) == 1 else f"{called(x)}.dims"
    dim = dim_at(x, number)
    return "…" if dim is None else called(dim)


def picked(x: Tensor, key: object) -> str:
    """The rfnb code for `x[key]`."""
    keys = list(key) if isinstance(key, tuple) else [key]
    where = next((i for i, part in enumerate(keys) if part is Ellipsis), None)
    if where is not None:
        keys[where : where + 1] = [slice(None)] * (len(x.dims) - sum(part is not None for part in keys) + 1)
    text, dims = called(x), iter(x.dims)
    for part in keys:
        if part is None:
            text = f"rf.expand_dim({text}, …)"
        elif getattr(part, "dtype", None) == "bool" and hasattr(part, "dims"):
            text = f"rf.where({called(part)}, {text}, 0)"
        else:
            text = _picked_along(text, next(dims, None), part)
    return (
        "rf.expand_dim(x, dim), if at all: ops find axes by their dims" if any(part is None for part in keys) else text
    )


def _picked_along(text: str, dim: Dim | None, part: object) -> str:
    along = "…" if dim is None else called(dim)
    if not isinstance(part, slice):
        return f"rf.gather({text}, indices={called(part)}, axis={along})"
    bounds = {"start": part.start, "end": part.stop, "step": part.step}
    limits = "".join(f", {name}={called(value)}" for name, value in bounds.items() if value is not None)
    return f"rf.slice({text}, axis={along}{limits})[0]" if limits else text


def product(x: Tensor, y: object = None, *args: object, **kwargs: object) -> str:
    """The rfnb code for `x @ y`."""
    dims, other_dims = x.dims, getattr(y, "dims", ())
    shared = [dim for dim in dims if dim in other_dims]
    if not shared:
        return f"rf.matmul({called(x)}, {called(y)}, reduce=…): no dim is shared"
    inner = [dim for dim in shared if not dim.is_batch_dim()] or shared
    return f"rf.matmul({called(x)}, {called(y)}, reduce={called(dims[-1] if dims[-1] in inner else inner[-1])})"


def _reduction(name: str) -> Way:
    def way(x: Tensor, dim: object = None, *args: object, axis: object = None, **kwargs: object) -> str:
        if hasattr(dim, "dims"):
            return f"rf.{name.replace('reduce_', '')}imum({called(x)}, {called(dim)})"
        return _along(f"rf.{name}({{}}, axis={{}})")(x, axis if dim is None else dim)

    return way


def _along(text: str, default: int | None = None) -> Way:
    def way(x: Tensor, dim: object = default, *args: object, axis: object = default, **kwargs: object) -> str:
        return text.format(called(x), _axis(x, axis if dim == default else dim))

    return way


def _variance(text: str) -> Way:
    def way(x: Tensor, dim: object = None, unbiased: bool = True, *args: object, axis: object = None, **kw: Any) -> str:
        along = _axis(x, axis if dim is None else dim)
        return text.format(called(x), along, kw.get("correction", kw.get("ddof", int(unbiased))))

    return way


def _norm(x: Tensor, p: object = 2, dim: object = None, *args: object, **kwargs: object) -> str:
    return f"rf.sqrt(rf.reduce_sum(rf.square({called(x)}), axis={axis(x, dim)}))"


def _triangle(sign: str) -> Way:
    def way(x: Tensor, *args: object, **kwargs: object) -> str:
        rows, columns = (f"rf.range_over_dim({axis(x, n)})" for n in (-2, -1))
        return f'rf.where(rf.compare_bc({rows}, "{sign}", {columns}), {called(x)}, 0)'

    return way


_axis = axis  # the name is a parameter above


def _text(text: str) -> Way:
    return lambda x, *args, **kwargs: text.format(called(x))


def _same(name: str) -> Way:
    return lambda x, *args, **kwargs: f"rf.{name}({', '.join(map(called, (x, *args)))})"


def _operator(sign: str) -> Way:
    return lambda x, other=None, *args, **kwargs: f"{called(x)} {sign} {called(other)}"


def _not_needed(x: object, *args: object, **kwargs: object) -> str:
    return "not needed: ops find axes by their dims"


def _turned(x: Tensor, *numbers: object, **kwargs: object) -> str:
    order, pair = list(x.dims), [dim for n in numbers if (dim := dim_at(x, n)) is not None]
    if len(pair) == 2 == len(numbers):
        a, b = (order.index(dim) for dim in pair)
        order[a], order[b] = order[b], order[a]
    return _in_order(x, order)


def _permuted(x: Tensor, *numbers: object, **kwargs: object) -> str:
    numbers = tuple(numbers[0]) if len(numbers) == 1 and isinstance(numbers[0], list | tuple) else numbers
    dims = [dim_at(x, n) for n in numbers]
    return _in_order(x, dims if set(dims) == set(x.dims) else x.dims[::-1])


def _in_order(x: object, order: Sequence[object]) -> str:
    return f"not needed: ops find axes by their dims; for raw code {called(x)}.copy_transpose({called(list(order))})"


def _reshaped(x: Tensor, *args: object, **kwargs: object) -> str:
    pair = x.dims[:2]
    sizes = [x.lengths.size(dim) for dim in pair]
    name = "pack_padded" if any(size is not None and size.ragged for size in sizes) else "merge_dims"
    return f"rf.{name}({called(x)}, dims={called(list(pair))}), rf.split_dims or rf.reshape, with dims for the numbers"


def _size(x: Tensor, dim: object = None) -> str:
    if dim is None:
        return f"{called(x)}.dims; the numbers: [dim.get_dim_value() for dim in {called(x)}.dims]"
    return f"{axis(x, dim)}.get_dim_value()"


def _squeezed(x: Tensor, dim: object = None, *args: object, **kwargs: object) -> str:
    singles = [d for d in x.dims if d.dimension == 1]
    dim = singles[0] if dim is None and singles else dim
    return f"rf.squeeze({called(x)}, axis={'…' if dim is None else axis(x, dim)})"


def _unsqueezed(x: object, *args: object, **kwargs: object) -> str:
    return f"not needed: ops broadcast by dims; rf.expand_dim({called(x)}, dim) if you must"


def _expanded(x: object, *args: object, **kwargs: object) -> str:
    return f"not needed: ops broadcast by dims; rf.expand_dims({called(x)}, dims=[…]) if you must"


def _masked_fill(x: object, mask: object = "mask", value: object = "value", *args: object) -> str:
    return f"rf.where({called(mask)}, {called(value)}, {called(x)})"


def _gathered(x: Tensor, dim: object = None, index: object = "…", *args: object, **kwargs: object) -> str:
    return f"rf.gather({called(x)}, indices={called(index)}, axis={'…' if dim is None else axis(x, dim)})"


def _narrowed(x: Tensor, dim: object = 0, start: object = 0, length: object = "…") -> str:
    return f"rf.slice({called(x)}, axis={axis(x, dim)}, start={called(start)}, size={called(length)})[0]"


def _pieces(x: Tensor, size: object = None, dim: object = 0, *args: object, **kwargs: object) -> str:
    return f"rf.split({called(x)}, axis={axis(x, dim)}, out_dims=[…])"


def _largest(x: Tensor, k: object = "…", dim: object = -1, *args: object, **kwargs: object) -> str:
    return f"rf.top_k({called(x)}, axis={axis(x, dim)}, k={called(k)})"


def _joined(xs: Any, dim: object = 0, *args: object, **kwargs: object) -> str:
    xs = xs if isinstance(xs, list | tuple) else [xs]
    pairs = ", ".join(f"({called(x)}, {axis(x, dim)})" for x in xs if hasattr(x, "dims"))
    return f"rf.concat({pairs})[0]"


def _stacked(xs: object, *args: object, **kwargs: object) -> str:
    return f"rf.stack({called(list(xs) if isinstance(xs, list | tuple) else [xs])})[0]"


def _clipped(x: object, min: object = None, max: object = None) -> str:
    return f"rf.clip_by_value({called(x)}, {called(min)}, {called(max)})"


def _cast(x: object, dtype: object = "…", *args: object, **kwargs: object) -> str:
    return f'rf.cast({called(x)}, "{str(dtype).removeprefix("torch.")}")'


def _loss(x: Tensor, target: object = "targets", *args: object, **kwargs: object) -> str:
    vocab = axis(x, -1)
    return f'rf.cross_entropy(estimated={called(x)}, target={called(target)}, axis={vocab}, estimated_type="logits")'


_SIGNS = {
    "+": "add", "-": "sub subtract", "*": "mul multiply", "/": "div divide true_divide", "//": "floor_divide",
    "%": "remainder", "**": "pow", "==": "eq", "!=": "ne not_equal", "<": "lt less", "<=": "le less_equal",
    ">": "gt greater", ">=": "ge greater_equal",
}  # fmt: skip

_RAW = "register_hook new_zeros new_ones new_tensor to_sparse pin_memory prod cumprod median unique nonzero erf"

METHODS: dict[str, Way] = {
    **{name: _reduction(f"reduce_{name}") for name in "sum mean max min all any logsumexp argmax argmin".split()},
    "amax": _reduction("reduce_max"),
    "amin": _reduction("reduce_min"),
    "softmax": _along("rf.softmax({}, axis={})"),
    "log_softmax": _along("rf.log_softmax({}, axis={})"),
    "cumsum": _along("rf.cumsum({}, spatial_dim={})"),
    "flip": lambda x, dim=0, *args, **kwargs: _along("rf.reverse_sequence({}, axis={})")(
        x, dim[0] if isinstance(dim, tuple) else dim
    ),
    "unbind": _along("rf.unstack({}, axis={})", 0),
    "sort": _along("rf.sort({}, axis={})", -1),
    "argsort": _along("rf.sort({}, axis={})[1]", -1),
    "var": _variance("rf.moments({}, axis={}, correction={})[1]"),
    "std": _variance("rf.sqrt(rf.moments({}, axis={}, correction={})[1])"),
    "norm": _norm,
    "tril": _triangle(">="),
    "triu": _triangle("<="),
    **{name: _same(name) for name in "abs ceil cos exp expm1 floor log log1p neg reciprocal round rsqrt".split()},
    **{name: _same(name) for name in "sigmoid sign sin sqrt square tanh relu gelu silu elu selu softplus".split()},
    **{name: _same(name) for name in "where maximum minimum zeros_like ones_like logical_and logical_or".split()},
    **{name: _same(name) for name in "logical_not lerp".split()},
    **{name: _operator(sign) for sign, names in _SIGNS.items() for name in names.split()},
    "isnan": _text("{0} != {0}"),
    "isinf": _text("rf.is_infinite({})"),
    "isfinite": _text("rf.is_finite({})"),
    **dict.fromkeys("matmul bmm mm mv dot inner".split(), product),
    **dict.fromkeys("transpose swapaxes swapdims t".split(), _turned),
    "permute": _permuted,
    "contiguous": _not_needed,
    **dict.fromkeys("view reshape flatten unflatten view_as reshape_as".split(), _reshaped),
    "size": _size,
    **dict.fromkeys(["dim", "ndimension"], _text("len({}.dims)")),
    **dict.fromkeys(["numel", "nelement"], _text("{}.raw_tensor.numel(), padding too")),
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    **dict.fromkeys("expand expand_as repeat tile broadcast_to".split(), _expanded),
    "masked_fill": _masked_fill,
    **dict.fromkeys("gather index_select take_along_dim select".split(), _gathered),
    "masked_select": _text("rf.masked_select({}, mask=…, dims=[…])"),
    **dict.fromkeys(
        "scatter scatter_add index_add".split(), _text("rf.scatter(…, indices=…, indices_dim=…, out_dim=…)")
    ),
    "repeat_interleave": _text("rf.repeat({}, in_spatial_dim=…, repeats=…)"),
    "fill": _text("rf.full(dims={0}.dims, fill_value=…), or {0}.assign(…) for a parameter"),
    "zero": _text("rf.zeros({0}.dims), or {0}.assign(…) for a parameter"),
    "normal": _text("rf.random_normal({0}.dims), or {0}.assign(…) for a parameter"),
    "uniform": _text("rf.random_uniform({0}.dims), or {0}.assign(…) for a parameter"),
    "narrow": _narrowed,
    **dict.fromkeys("chunk split tensor_split".split(), _pieces),
    "topk": _largest,
    **dict.fromkeys("cat concat concatenate".split(), _joined),
    "stack": _stacked,
    **dict.fromkeys("clamp clip".split(), _clipped),
    "clamp_min": _same("maximum"),
    "clamp_max": _same("minimum"),
    **dict.fromkeys("type astype".split(), _cast),
    "copy": _text("rf.copy({0}), or {0}.assign(…) for a parameter"),
    "dropout": _text("rf.dropout({}, 0.1), or rf.Dropout"),
    **{name: _text(f"rf.{name}({{}}, …)") for name in "pad one_hot layer_norm group_norm rms_norm".split()},
    "normalize": _text("{0} / rf.sqrt(rf.reduce_sum(rf.square({0}), axis=…))"),
    "embedding": _text("rf.Embedding(vocab_dim, out_dim), or rf.gather(weight, indices={}, axis=vocab_dim)"),
    "cross_entropy": _loss,
    "linear": _text("rf.Linear(in_dim, out_dim); torch's takes {}.raw_tensor"),
    **{name: _text(f"{{}}.raw_tensor.{name}(…)") for name in _RAW.split()},
}
"""The equivalents of methods and of functions in `torch` and `torch.nn.functional`; a trailing "_" is ignored."""

PROPERTIES: dict[str, Way] = {
    "shape": lambda x: f"{called(x)}.dims; one size: {called(x.dims[0]) if x.dims else 'dim'}.get_dim_value()",
    "ndim": lambda x: f"len({called(x)}.dims)",
    "data": lambda x: f"{called(x)}.raw_tensor",
    "is_cuda": lambda x: f'{called(x)}.device.startswith("cuda")',
    **dict.fromkeys(["T", "mT", "H"], lambda x: _in_order(x, x.dims[::-1])),
    **{name: (lambda x, name=name: f"{called(x)}.raw_tensor.{name}") for name in ("grad_fn", "is_leaf", "real")},
}
"""The equivalents of properties of a torch tensor."""


def features_hint(x: Tensor) -> str | None:
    """The code that gives `x` a feature dim; None if no dim of it can be one."""
    dim = likely_features(x)
    if dim is None:
        return None
    return (
        f"rf.set_feature_dim({called(x)}, {dim}); or feature_dim={dim} where it is made: rf.zeros(…, feature_dim={dim})"
    )


def likely_features(x: Tensor) -> str | None:
    """The user's name for the last dim of a fixed size, without batch and beam; None if there is none."""
    fixed = [dim for dim in x.dims if not (dim.dimension is None or dim.is_batch_dim() or is_beam(dim))]
    return called(fixed[-1]) if fixed else None
