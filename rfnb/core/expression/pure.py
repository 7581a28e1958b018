"""The functions, methods and attributes of torch, numpy and math that expressions can use.

They only compute: none writes, draws random numbers, reads files, or has a result whose size is a plain argument.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple


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
    fn: Callable[..., Any] | None = None
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


def _pure(name: str, owner: Any, table: dict[str, str]) -> Iterator[Pure]:
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
def constants() -> dict[str, Any]:
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
