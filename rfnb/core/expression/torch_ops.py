"""Functions, methods and attributes of torch, numpy and math that expressions can use, and their results.

They only compute: none writes, draws random numbers, reads files, or has a result whose size is a plain argument.
"""

from __future__ import annotations

import operator
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.ground import backends
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.arguments import leaves
from rfnb.core.tensor.op import OPS
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of


class Pure(NamedTuple):
    """A function that only computes.

    Args:
        name: as it is written, without its module.
        kind: "each": each entry alone; "along": along an axis, in the same shape; "over": reduces axes; or "other".
        module: that has the function; empty for a method.
        fn: the function itself; None for a method.
        most: number of arguments without names; further ones might be written to.
    """

    name: str
    kind: str
    module: str = ""
    fn: Callable[..., object] | None = None
    most: int = 9


TORCH: dict[str, str] = {
    "each": """abs absolute acos acosh add addcdiv addcmul arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin
    asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max clamp_min
    clip copysign cos cosh deg2rad detach digamma div divide eq erf erfc erfinv exp exp2 expm1 fix
    float_power floor floor_divide fmax fmin fmod frac ge greater greater_equal gt heaviside hypot i0
    isclose isfinite isinf isnan isneginf isposinf ldexp le lerp less less_equal lgamma log log10 log1p
    log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt masked_fill
    maximum minimum mul multiply nan_to_num ne neg negative nextafter not_equal positive pow rad2deg
    reciprocal relu remainder round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square sub
    subtract tan tanh true_divide trunc where xlogy""",
    "along": "argsort cummax cummin cumprod cumsum flip log_softmax logcumsumexp roll softmax sort",
    "over": """all amax amin aminmax any argmax argmin count_nonzero logsumexp max mean median min mode nanmean
    nanmedian nanquantile nansum norm prod quantile std std_mean sum var var_mean""",
    "other": """allclose argwhere bmm bucketize cat cdist chunk concat cosine_similarity cross diagonal diff dist dot
    einsum equal flatten gather hstack index_select inner is_complex is_floating_point isin kthvalue
    masked_select matmul mm movedim mv narrow nonzero numel outer permute ravel reshape searchsorted
    select split squeeze stack swapaxes t take take_along_dim tensordot topk trace transpose tril triu
    unbind unflatten unique unique_consecutive unsqueeze vdot vstack""",
}
"""Functions of torch, which its tensors have as methods, but for `FUNCTIONS_ONLY`."""
FUNCTIONS_ONLY = frozenset(
    """bucketize cat cdist concat cosine_similarity einsum hstack isin searchsorted stack std_mean tensordot
    var_mean vstack""".split()
)
METHODS: dict[str, str] = {
    "each": "bfloat16 bool byte char contiguous cpu double float half int long short to",
    "facts": "dim element_size is_contiguous item ndimension size stride tolist",
    "other": "numpy reshape_as view view_as",
}
"""Methods of torch's tensors without a function of the same name; "facts" do not depend on padding."""
FUNCTIONAL: dict[str, str] = {
    "each": """celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu
    sigmoid silu softplus softshrink softsign tanh tanhshrink threshold""",
    "along": "log_softmax normalize softmax softmin",
    "other": """binary_cross_entropy binary_cross_entropy_with_logits cosine_similarity cross_entropy huber_loss kl_div
    l1_loss layer_norm linear mse_loss nll_loss pairwise_distance smooth_l1_loss""",
}
LINALG: dict[str, str] = {
    "other": """cond cross det diagonal eigvals eigvalsh inv matmul matrix_norm matrix_rank multi_dot norm pinv slogdet
    solve svdvals vecdot vector_norm"""
}
NUMPY: dict[str, str] = {
    "each": """abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt ceil clip cos cosh deg2rad
    divide equal exp exp2 expm1 fabs floor floor_divide fmax fmin fmod greater greater_equal hypot
    isclose isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not
    logical_or logical_xor maximum minimum mod multiply negative not_equal power rad2deg reciprocal
    remainder rint round sign signbit sin sinh sqrt square subtract tan tanh true_divide trunc where""",
    "along": "argsort cumprod cumsum flip sort",
    "over": """all amax amin any argmax argmin count_nonzero max mean median min nanmax nanmean nanmin nanstd nansum
    nanvar prod ptp std sum var""",
    "other": """allclose argwhere array_equal expand_dims isin ndim nonzero percentile quantile ravel reshape shape size
    squeeze trace transpose unique""",
}
ARRAY_METHODS = frozenset(
    """all any argmax argmin argsort clip cumprod cumsum flatten item max mean min nonzero prod ravel reshape
    round squeeze std sum tolist trace transpose var""".split()
)
NUMPY_LINALG = {"other": "cond det eigvalsh inv matrix_rank norm slogdet"}
MATH = {
    "facts": """ceil cos degrees exp expm1 fabs floor hypot isclose isfinite isinf isnan log log10 log1p log2 radians
    sin sqrt tan tanh trunc"""
}
THREE = frozenset("clip isclose percentile quantile where allclose".split())
"""Functions of numpy with three arguments; all others have two, before those that are written to."""
ATTRIBUTES = frozenset("T device dtype imag itemsize mT nbytes ndim real requires_grad shape".split())
"""Attributes of raw tensors and arrays."""
KEYWORDS = frozenset(
    """alpha approximate atol axis beta bias bins chunks correction ddof decimals delta descending diagonal dim
    dim0 dim1 dim2 dims dtype end eps equal_nan exponent ignore_index index indices input k keepdim
    keepdims label_smoothing largest length log_target mask max min nan negative_slope neginf offset ord
    other p posinf q reduction return_counts return_inverse right rounding_mode rtol shape shifts side
    size sorted stable start target tensors threshold unbiased upper value weight""".split()
)
"""The arguments that can be given by name."""
AXIS_AT = {"norm": 2, "quantile": 2, "nanquantile": 2, "normalize": 2, "roll": 2}
"""Where the axis stands among the arguments, the tensor included, if not second."""
CONSTANTS = frozenset("torch.inf torch.nan torch.pi torch.e np.inf np.nan np.pi np.e math.inf math.nan math.pi".split())
ALIASES = {"numpy": "np", "torch.nn.functional": "F"}
MODULES = frozenset(("torch", "np", "numpy", "math", "F"))
"""The names of modules in expressions."""
DTYPES = "bfloat16 bool float16 float32 float64 half int16 int32 int64 int8 long uint8 float double int".split()


def module(name: str) -> Any:
    """A module of Python that is there."""
    return sys.modules.get(name)


@cache
def methods() -> dict[str, Pure]:
    """The methods of torch's tensors, by name."""
    of_functions = {n: Pure(n, kind) for kind, names in TORCH.items() for n in names.split() if n not in FUNCTIONS_ONLY}
    return of_functions | {n: Pure(n, kind) for kind, names in METHODS.items() for n in names.split()}


@cache
def functions() -> dict[str, Pure]:
    """The functions, by name with the module: "torch.isnan", "F.softmax"."""
    import math

    torch, numpy = module("torch"), module("numpy")
    tables = [("math", math, MATH), ("np", numpy, NUMPY), ("np.linalg", numpy.linalg, NUMPY_LINALG)]
    if torch is not None:
        tables += [("torch", torch, TORCH), ("F", torch.nn.functional, FUNCTIONAL)]
        tables += [("torch.linalg", torch.linalg, LINALG)]
    return {f"{name}.{pure.name}": pure for name, owner, table in tables for pure in _pure(name, owner, table)}


def _pure(name: str, owner: object, table: dict[str, str]) -> Iterator[Pure]:
    for kind, names in table.items():
        for function in names.split():
            fn = getattr(owner, function)
            limit = 9
            if name.startswith("np"):
                limit = 3 if function in THREE else 2
            elif name == "F" and getattr(fn, "__code__", None) is not None:
                arguments = fn.__code__.co_varnames[: fn.__code__.co_argcount]
                written = [at for at, argument in enumerate(arguments) if argument in ("inplace", "out")]
                limit = min([limit, *written])
            yield Pure(function, kind, name.partition(".")[0].replace("F", "torch"), fn, limit)


@cache
def constants() -> dict[str, object]:
    """Numbers and dtypes, by name with the module."""
    import math

    torch = module("torch")
    owners = {"np": module("numpy"), "math": math, "torch": torch}
    values = {}
    for path in CONSTANTS:
        owner, _, name = path.partition(".")
        if owners[owner] is not None:
            values[path] = getattr(owners[owner], name)
    return values | ({f"torch.{name}": getattr(torch, name) for name in DTYPES} if torch is not None else {})


def exists(path: str) -> bool:
    """Whether a module has something of this name, in the form of `functions`."""
    owner, _, name = path.rpartition(".")
    owners = {"F": "torch.nn.functional", "np": "numpy", "np.linalg": "numpy.linalg"}
    return hasattr(module(owners.get(owner, owner)), name)


def path_of(dotted: str) -> str:
    """The name of a function with its module, in the form of `functions`."""
    owner, _, name = dotted.rpartition(".")
    root, dot, inner = owner.partition(".")
    owner = ALIASES.get(owner, ALIASES.get(root, root) + dot + inner)
    return f"{owner}.{name}"


LARGEST = 2**26
"""Number of entries that a result may have if it has more than its operands."""
MANY = 10**5
"""Number of Python objects that a result may have."""


ONLY_COMPUTE = "what only computes: no writing, random numbers, files, or sizes as arguments"


class Refusal(Exception):
    """Something that an expression cannot do, with the facts of an error."""

    def __init__(self, what: str, **facts: object):
        super().__init__(what)
        self.what, self.facts = what, facts


ARRAYS = (np.ndarray, np.memmap)
"""Types of arrays; functions would drop the mask of a masked one."""
_raw_types = backends.table_by_type()


def is_raw(value: Any) -> bool:
    """Whether a value is a raw tensor or an array of numbers."""
    kind = type(value)
    answer = _raw_types.get(kind)
    if answer is None:
        answer = _raw_types[kind] = issubclass(kind, tuple(backends.BACKENDS))
    return answer and (not issubclass(kind, np.ndarray) or (kind in ARRAYS and value.dtype.kind in "biufc"))


def method_of(owner: object, name: str) -> Pure:
    """The method of a value with this name. Raises Refusal if there is none that only computes."""
    if not (is_raw(bare(owner)) or isinstance(owner, np.generic)):
        raise Refusal(f"{article(owner)} has no method `{name}` here", expected="a method of a tensor or array")
    if isinstance(bare(owner), np.ndarray | np.generic):
        table = {method: methods().get(method, Pure(method, "over")) for method in ARRAY_METHODS}
    else:
        table = methods()
    if name not in table:
        raise refused_method(name, table)
    return table[name]


def refused_method(name: str, known: Mapping[str, object]) -> Refusal:
    """The error about a method that writes, that an expression must not call, or that is unknown."""
    if name.endswith("_") and not name.startswith("_"):
        hint = f"x.{name.rstrip('_')}(…) gives a new tensor"
        return Refusal(f"`{name}` writes, and expressions cannot change values", hint=hint)
    exists = hasattr(getattr(module("torch"), "Tensor", None), name)
    return Refusal(
        f"the method `{name}` cannot be called in an expression",
        expected=ONLY_COMPUTE,
        hint=None if exists else did_you_mean(name, known, "{}"),
    )


def article(value: object) -> str:
    """The type of a value, for messages: "a str", "an int"."""
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def call(pure: Pure, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
    """The result of a function, or of a method of the first argument."""
    _check_arguments(pure, args, kwargs)
    if pure.name in ("where", "max", "min"):
        pure = pure._replace(kind=_kind(pure, args))
    tensors = [value for value in leaves([*args, *kwargs.values()]) if isinstance(value, Tensor)]
    if not tensors:
        return _computed(pure, args, kwargs)
    widest = max(tensors, key=lambda tensor: len(tensor.dims))
    axes = _axes(pure, args, kwargs, widest)
    for tensor in tensors:
        _check_padding(pure, tensor, axes)
    in_place = bare
    if pure.kind == "each" and len(tensors) > 1:
        if not all(tensor.dims_set <= widest.dims_set for tensor in tensors):
            raise Refusal(
                f"{pure.name}: the dims of the operands differ",
                got=", ".join(tensor.describe_dims() for tensor in tensors),
                expected="operands with the dims of one of them",
            )

        def in_place(value: object) -> Any:
            return value.copy_compatible_to_dims_raw(widest.dims) if isinstance(value, Tensor) else value

    result = _computed(
        pure, _swapped(args, in_place), {name: _swapped(value, in_place) for name, value in kwargs.items()}
    )
    keeps_axes = kwargs.get("keepdim", kwargs.get("keepdims", any(arg is True for arg in args[2:])))
    return _with_dims(result, pure.kind, widest, None if keeps_axes else axes)


def _kind(pure: Pure, args: Sequence[object]) -> str:
    """The kind of a function with these arguments: `max(a, b)` works entry by entry, `where(a)` gives positions."""
    if pure.name == "where":
        return "each" if len(args) == 3 else "other"
    two = pure.name in ("max", "min") and len(args) == 2
    return "each" if two and (is_raw(args[1]) or isinstance(args[1], Tensor)) else pure.kind


def pick(owner: object, key: object) -> object:
    """`owner[key]` of a raw tensor, an array or a Tensor."""
    if isinstance(owner, Tensor):
        return _pick_named(owner, key)
    return _index(owner, _swapped(key, bare))


def bare(value: object) -> Any:
    """The raw tensor of a Tensor; other values as they are."""
    return value._raw if isinstance(value, Tensor) else value


def copied(value: Any) -> Any:
    """A value with copies of its tensors, arrays and containers; other objects as they are."""
    if isinstance(value, Tensor):
        return tensor_of(copied(value._raw), value.sig, value.lengths)
    if isinstance(value, np.ndarray):
        return value.copy()
    if is_raw(value):
        return backends.backend_of_raw(value).snapshot_raw(value)
    if type(value) is dict:
        return {key: copied(part) for key, part in value.items()}
    return type(value)(map(copied, value)) if type(value) in (list, tuple) else value


def mapped(fn: Callable[[Any], Any], values: Any) -> object:
    """`fn` of the parts of a list, dict or tuple, whose parts keep their names: `.values`, `.indices`."""
    if isinstance(values, dict):
        return {key: fn(part) for key, part in values.items()}
    parts, names = [fn(part) for part in values], getattr(type(values), "__match_args__", ())
    if isinstance(values, list):
        return parts
    return namedtuple("result", names)(*parts) if names else tuple(parts)


def entries(value: object) -> int:
    """The number of entries of a raw tensor, an array, a Tensor or a number."""
    return prod(bare(value).shape) if isinstance(value, Tensor) or is_raw(value) else 1


# -- computing


def _computed(pure: Pure, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
    """The result for raw operands."""
    if pure.fn is None and isinstance(args[0], np.ndarray | np.generic):
        if pure.name == "tolist":
            _check_count(args[0])
        return _checked(getattr(_read_only(args[0]), pure.name)(*map(_read_only, args[1:]), **kwargs), args)
    if pure.module in ("np", "math"):
        args = _swapped(args, _as_array)
        _check_growth(args) if pure.kind == "each" else None
        return _checked(pure.fn(*args, **{name: _swapped(v, _as_array) for name, v in kwargs.items()}), args)  # type: ignore[misc]
    args, kwargs = _swapped(args, _as_torch), {name: _swapped(value, _as_torch) for name, value in kwargs.items()}
    if pure.name in ("tolist", "unbind", "split", "chunk"):
        _check_count(args[0])
    if pure.name == "numpy":
        return _as_array(args[0])
    if pure.name == "to" and not all(type(arg) is module("torch").dtype for arg in [*args[1:], *kwargs.values()]):
        raise Refusal("`to` can only change the dtype", hint="x.to(torch.float32), x.float()")
    function = pure.fn or getattr(type(args[0]), pure.name)
    _check_growth(args, kwargs, None if pure.kind == "each" else function)
    return _checked(function(*args, **kwargs), args)


def operate(how: Callable[[object, object], object], left: object, right: object) -> object:
    """An operator of Python between two values, of which one is a raw tensor or an array."""
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        tensors = [value for value in (left, right) if isinstance(value, Tensor)]
        result = operate(how, bare(left), bare(right))
        return _with_dims(result, "each", max(tensors, key=lambda tensor: len(tensor.dims)), ())
    if isinstance(left, int | float) or isinstance(right, int | float):
        return how(left, right)
    if type(left) is not type(right):
        left, right = _as_torch(left), _as_torch(right)  # an array beside a tensor
    _check_growth((left, right), function=how if how is operator.matmul else None)
    return _checked(how(left, right), (left, right))


def _index(raw: RawTensor, key: object) -> object:
    if not all(_is_key(part) for part in (key if isinstance(key, tuple) else (key,))):
        raise Refusal(
            "a tensor cannot be indexed by this", expected="numbers, slices, `...`, None, tensors, lists of them"
        )
    positions = _swapped(key, _as_torch)
    where = [part for part in leaves([positions]) if is_raw(part)]
    _check_growth((_as_torch(raw) if where else raw, *where), function=lambda x, *_: x[positions])
    return _checked(raw[_swapped(key, _as_array) if isinstance(raw, np.ndarray) else positions], (raw,))


def _is_key(part: object) -> bool:
    if isinstance(part, slice):
        return all(bound is None or is_raw(bound) or type(bound) is int for bound in (part.start, part.stop, part.step))
    if isinstance(part, list):
        return all(_is_key(entry) for entry in part)
    return part is None or part is Ellipsis or isinstance(part, int | np.generic) or is_raw(part)


def _as_array(value: object) -> Any:
    """A raw tensor as an array that cannot be written to."""
    if is_raw(value) and not isinstance(value, np.ndarray):
        value = backends.backend_of_raw(value).to_numpy_raw(value)
    return _read_only(value)


def _read_only(value: object) -> object:
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


def _as_torch(value: object) -> Any:
    """An array as a tensor of torch."""
    if isinstance(value, np.ndarray | np.generic):
        return module("torch").from_numpy(np.array(value))
    return value


def _swapped(value: object, fn: Callable[[Any], object]) -> Any:
    """`fn` of all values in lists and tuples."""
    if type(value) is tuple or type(value) is list:
        return type(value)(_swapped(part, fn) for part in value)
    return fn(value)


# -- dims


def _axes(pure: Pure, args: Sequence[object], kwargs: Mapping[str, object], whole: Tensor) -> tuple[int, ...] | None:
    """The positions of the axes that a function reduces or goes along; None for all of them."""
    if pure.kind not in ("over", "along"):
        return ()
    at = AXIS_AT.get(pure.name, 1)
    axes = kwargs.get("dim", kwargs.get("axis", kwargs.get("dims", args[at] if len(args) > at else None)))
    if pure.kind == "along" and axes is None and pure.name in ("argsort", "sort"):
        axes = -1
    numbers = axes if isinstance(axes, list | tuple) else (axes,)
    if not numbers or not all(type(number) is int for number in numbers):
        return None
    return tuple(number % max(len(whole.dims), 1) for number in numbers)


def _check_padding(pure: Pure, tensor: Tensor, axes: tuple[int, ...] | None) -> None:
    """Raises Refusal if padding would count."""
    padded = padded_dims(tensor)
    if not padded or pure.kind in ("each", "facts"):
        return
    reduced = {tensor.dims[at] for at in axes if at < len(tensor.dims)} if axes is not None else set(tensor.dims)
    if pure.kind == "other" or reduced & padded:
        names = ", ".join(dim.name for dim in tensor.dims if dim in (reduced & padded or padded))
        name = next((name for name in (f"reduce_{pure.name}", pure.name) if name in OPS), "reduce_sum")
        raise Refusal(
            f"`{pure.name}` would count the padding of {names}", got=tensor.describe_dims(),
            hint=f"rf.{name}(x, axis=…); functions of rf leave padding out",
        )  # fmt: skip


def padded_dims(tensor: Tensor) -> set[Dim]:
    """The dims along which some entries are padding, and those of the lengths."""
    dims: set[Dim] = set()
    for dim in tensor.sig.frames:
        size = tensor.lengths.size(dim)
        if size is not None and size.ragged:
            dims |= {dim, *(owner for owner in size.dims if owner in tensor.sig.index)}
    return dims


def _with_dims(result: Any, kind: str, whole: Tensor, axes: tuple[int, ...] | None) -> object:
    """A result with the dims of its operand, as far as it has these axes."""
    if isinstance(result, list | tuple):
        return mapped(lambda part: _with_dims(part, kind, whole, axes), result)
    if isinstance(result, np.ndarray | np.generic):
        result = backends.backend_of_raw(whole._raw).from_numpy_raw(np.asarray(result), None)
    if not is_raw(result) or kind not in ("each", "along", "over"):
        return result
    dims: Sequence[Dim] = whole.dims
    if kind == "over":
        dims = () if axes is None else [dim for at, dim in enumerate(dims) if at not in axes]
    shape = tuple(n for dim, n in zip(whole.dims, whole._raw.shape, strict=True) if dim in dims)
    if tuple(result.shape) != shape:
        return result
    feature = whole.feature_dim if whole.feature_dim in dims else None
    return tensor_of(result, align.sig(dims, None, feature), whole.lengths.infinite())


def _pick_named(owner: Tensor, key: object) -> object:
    """Indexing of a Tensor: where only numbers and `:` are given, the other dims stay."""
    parts = key if isinstance(key, tuple) else (key,)
    every = slice(None)
    count = sum(part is not None and part is not Ellipsis for part in parts)
    if parts.count(Ellipsis) == 1 if all(not is_raw(p) and not isinstance(p, Tensor) for p in parts) else False:
        at = parts.index(Ellipsis)
        parts = (*parts[:at], *[every] * (len(owner.dims) - count), *parts[at + 1 :])
    simple = all(type(part) is int or (isinstance(part, slice) and part == every) for part in parts)
    if not simple or len(parts) > len(owner.dims):
        if padded_dims(owner):
            raise Refusal(
                "a Tensor with padding can only be indexed by numbers and `:`", got=owner.describe_dims(),
                hint="rf.gather(x, indices=…, axis=…), rf.slice(x, axis=…, start=…, end=…)",
            )  # fmt: skip
        return _index(owner._raw, _swapped(key, bare))
    result = owner
    for dim, part in zip(owner.dims, parts, strict=False):
        if type(part) is not int:
            continue
        size = int(owner._raw.shape[owner.dims.index(dim)])
        if not -size <= part < size:
            raise Refusal(f"the index {part} of {dim.name} is out of range", expected=f"0 … {size - 1}")
        if part < 0 and dim in padded_dims(owner):
            raise Refusal(
                f"the last entries of {dim.name} may be padding", got=owner.describe_dims(),
                hint="rf.gather_last(x, axis=…)" if "gather_last" in OPS else "rf.gather(x, indices=…, axis=…)",
            )  # fmt: skip
        result = OPS["gather"].fn(result, indices=part % size, axis=dim)
    return result


# -- what is refused


def _check_arguments(pure: Pure, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    for name in kwargs:
        if name not in KEYWORDS:
            writes = name in ("out", "inplace", "_out")
            raise Refusal(
                f"{pure.name}: `{name}=` writes, and expressions cannot change values"
                if writes
                else f"{pure.name}: the argument `{name}=` cannot be given in an expression",
                hint=did_you_mean(name, KEYWORDS, "{}") if not writes else "leave it out",
            )
    if len(args) > pure.most:
        raise Refusal(f"{pure.name} has too many arguments without names", got=len(args), expected=f"≤ {pure.most}")
    for value in leaves([*args, *kwargs.values()]):
        if not is_data(value):
            raise Refusal(
                f"{pure.name}: a {type(value).__name__} cannot be an argument", expected="tensors and numbers"
            )


def is_data(value: object) -> bool:
    """Whether functions of torch and numpy can be given a value: tensors, numbers, texts and dtypes."""
    if value is None or isinstance(value, bool | int | float | str | np.generic | Tensor):
        return True
    return is_raw(value) or type(value).__name__ == "dtype"


def _check_growth(operands: Sequence[Any], kwargs: Mapping[str, object] = {}, function: Any = None) -> None:
    """Raises Refusal if the result of several operands would be far larger than each of them.

    function: is tried without numbers; None if it works entry by entry.
    """
    raws = [value for value in leaves([*operands, *kwargs.values()]) if is_raw(value)]
    if len(raws) < 2 or prod(map(_volume, raws)) <= LARGEST:
        return
    if function is None:
        volume = prod(np.broadcast_shapes(*(tuple(raw.shape) for raw in raws)))
    else:
        result = function(*_swapped(tuple(operands), _meta), **{name: _swapped(v, _meta) for name, v in kwargs.items()})
        volume = max((_volume(part) for part in leaves([result]) if is_raw(part)), default=0)
    if volume > max(LARGEST, 4 * max(map(_volume, raws))):
        raise _too_large()


def _meta(value: Any) -> Any:
    """A tensor without numbers, whose results have shapes only; a mask with numbers, which say the shape."""
    return value.to("meta") if is_raw(value) and value.dtype is not module("torch").bool else value


def _volume(raw: RawTensor) -> int:
    """The number of entries, an axis without any counted as one: its sum would have as many."""
    return prod(max(int(n), 1) for n in raw.shape)


def _too_large() -> Refusal:
    return Refusal("the result would be too large", expected=f"at most {LARGEST:,} entries")


def _check_count(raw: RawTensor) -> None:
    if entries(raw) > MANY:
        raise Refusal("there are too many entries", got=f"{entries(raw):,}", expected=f"at most {MANY:,}")


def _checked(result: Any, operands: Sequence[object]) -> Any:
    """A result, which must consist of tensors and numbers. Raises Refusal otherwise."""
    if isinstance(result, list | tuple):
        for part in result:
            _checked(part, operands)
    elif is_raw(result):
        if 0 in result.shape and _volume(result) > LARGEST:
            raise _too_large()
    elif not is_data(result):
        raise Refusal(f"the result is neither a tensor nor a number, but {article(result)}")
    return result
