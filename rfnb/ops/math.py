"""Elementwise maths: arithmetic, comparisons, choosing, activations, and complex numbers."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.math import COMBINE_KINDS, COMPARE_KINDS, DOMAINS, is_polynomial
from rfnb.core.advice.similar_dims import check_all_in_one
from rfnb.core.advice.torch_equivalents import called, likely_features
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.op import OneOperand, TwoOperands, add_row, binary, guarded, method_of, op, op_of_backend, unary
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, DtypeError, RfError
from rfnb.ops.concat import split
from rfnb.ops.convert import operands, tensor

Value = Tensor | int | float | complex | bool
SIGNS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "==": "equal",
         "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}  # fmt: skip
_NUMBERS = (Tensor, int, float, complex, bool)


@op(frames="any")
def combine(
    a: Value,
    kind: str,
    b: Value,
    *,
    allow_broadcast_all_sources: bool | None = None,
    dim_order: Sequence[Dim] | None = None,
) -> Tensor:
    """a `kind` b, entry by entry. {…}, {…} → {… of both}

    kind: "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "maximum", "minimum", "logical_and",
        "logical_or", "squared_difference", "ceildiv", "logaddexp", "complex"; or an operator of Python, such as "-".
    dim_order: these dims come first, in this order. If it names all dims of the result, both may be broadcast.

    >>> time, feat = rf.Dim(2, name="time"), rf.Dim(2, name="feat")
    >>> a = rf.convert_to_tensor([[7, 8], [9, 10]], dims=[time, feat])
    >>> rf.combine(a, "floordiv", rf.convert_to_tensor([2, 3], dims=[feat])).raw_tensor.tolist()
    [[3, 2], [4, 3]]

    Each operand may lack dims of the other. Raises DimError if two of these dims look alike (`rf.options.accidents`),
    unless `allow_broadcast_all_sources`; if that is False, whenever neither operand has all dims of the result.
    """
    kind = SIGNS.get(kind, kind)
    if kind not in COMBINE_KINDS:
        raise _unknown("combine", kind, COMBINE_KINDS)
    a, b = operands(a, b)
    backend = backend_of_raw(a._raw)
    return backend.combine(a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order)


@op(frames="any")
def compare(
    a: Value,
    kind: str,
    b: Value,
    *,
    allow_broadcast_all_sources: bool | None = None,
    dim_order: Sequence[Dim] | None = None,
) -> Tensor:
    """a `kind` b, entry by entry: "equal", "not_equal", "less", "less_equal", "greater", "greater_equal".

    {…}, {…} → {… of both} bool. kind: also an operator of Python, such as ">=". For operands that lack dims of each
    other see `rf.combine`.

    >>> time, feat = rf.Dim(2, name="time"), rf.Dim(2, name="feat")
    >>> a = rf.convert_to_tensor([[7, 8], [9, 10]], dims=[time, feat])
    >>> rf.compare(a, "greater", rf.convert_to_tensor([7, 9], dims=[feat])).raw_tensor.tolist()
    [[False, False], [True, True]]
    """
    kind = SIGNS.get(kind, kind)
    if kind not in COMPARE_KINDS:
        raise _unknown("compare", kind, COMPARE_KINDS)
    a, b = operands(a, b)
    backend = backend_of_raw(a._raw)
    return backend.compare(a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order)


@guarded
def combine_bc(a: Value, kind: str, b: Value, *, dim_order: Sequence[Dim] | None = None) -> Tensor:
    """`rf.combine`, also where each operand has a dim that looks like one of the other. {…}, {…} → {… of both}

    >>> height, width = rf.Dim(2, name="height"), rf.Dim(2, name="width")
    >>> rf.combine_bc(rf.range_over_dim(height), "add", rf.range_over_dim(width)).raw_tensor.tolist()
    [[0, 1], [1, 2]]
    """
    return combine(a, kind, b, allow_broadcast_all_sources=True, dim_order=dim_order)


@guarded
def compare_bc(a: Value, kind: str, b: Value, *, dim_order: Sequence[Dim] | None = None) -> Tensor:
    """`rf.compare`, also where each operand has a dim that looks like one of the other. {…}, {…} → {… of both} bool

    >>> query, key = rf.Dim(2, name="query"), rf.Dim(2, name="key")
    >>> rf.compare_bc(rf.range_over_dim(query), ">=", rf.range_over_dim(key)).raw_tensor.tolist()
    [[True, False], [True, True]]
    """
    return compare(a, kind, b, allow_broadcast_all_sources=True, dim_order=dim_order)


def _unknown(op: str, kind: str, kinds: Sequence[str]) -> RfError:
    other = "compare" if op == "combine" else "combine"
    exists = kind in (COMPARE_KINDS if other == "compare" else COMBINE_KINDS)
    hint = f'rf.{other}(a, "{kind}", b), or rf.{other}_bc' if exists else did_you_mean(kind, kinds)
    return RfError(f"{op}: unknown `kind`", got=repr(kind), expected=", ".join(kinds), hint=hint)


def _binary(name: str, doc: str, example: str, *, kind: str | None = None, quick: bool = True) -> TwoOperands:
    """Makes an op of two operands. quick: whether operands go to the raw function without checks."""
    kind = kind or name
    compares = kind in COMPARE_KINDS

    def slow(a: Value, b: Value) -> Tensor:
        if kind == "pow" and isinstance(a, Tensor) and isinstance(b, int | float):
            return backend_of_raw(a._raw).power(a, b)
        if quick and isinstance(a, Tensor) and type(b) in (float, int) and a.sparse_dim is None:
            backend = backend_of_raw(a._raw)
            return a.like((backend.compare_raw if compares else backend.combine_raw)(a._raw, kind, b))
        a, b = operands(a, b)
        backend = backend_of_raw(a._raw)
        return (backend.compare if compares else backend.combine)(a, kind, b)

    slow.__name__ = slow.__qualname__ = name
    slow.__doc__ = f"{doc}. {{…}}, {{…}} → {{… of both}}\n\n{_example_of_two(name, example)}"
    if not quick:
        return op(frames="any")(slow)
    row = add_row(slow, frames="any")
    if compares:
        return binary(row, lambda backend: backend.compare_function(kind), plan_sign=-1)
    return binary(
        row,
        lambda backend: backend.combine_function(kind),
        plan_sign=1,
        everywhere=kind not in ("truediv", "pow"),
        with_numbers=is_polynomial if kind == "pow" else None,
    )


def _unary(kind: str, doc: str, example: str, *, module: str = __name__) -> OneOperand:
    """Makes an op of one operand. module: the module that defines it."""

    def slow(a: Value) -> Tensor:
        a = tensor(a)
        return backend_of_raw(a._raw).activation(a, kind)

    slow.__name__ = slow.__qualname__ = kind
    slow.__module__ = module
    slow.__doc__ = f"{doc}. {{…}} → the same\n\n{_example_of_one(kind, example)}"
    row = add_row(slow, frames="any")
    return unary(row, lambda backend: backend.activation_function(kind), everywhere=kind not in DOMAINS)


def _example_of_one(name: str, example: str) -> str:
    """A doctest for an example written as "three numbers → three numbers"."""
    x, result = example.split(" → ")
    return f"""\
>>> time = rf.Dim(3, name="time")
>>> x = rf.convert_to_tensor({x}, dims=[time])
>>> rf.{name}(x).raw_tensor.tolist()
{result}
"""


def _example_of_two(name: str, example: str) -> str:
    """A doctest for an example written as "numbers of two frames and of one → numbers of two frames"."""
    a, b, result = re.split(" and | → ", example)
    return f"""\
>>> time, feat = rf.Dim(2, name="time"), rf.Dim(2, name="feat")
>>> a = rf.convert_to_tensor({a}, dims=[time, feat])
>>> b = rf.convert_to_tensor({b}, dims=[feat])
>>> rf.{name}(a, b).raw_tensor.tolist()
{result}
"""


add = _binary("add", "a + b", "[[1, 2], [3, 4]] and [10, 20] → [[11, 22], [13, 24]]")
sub = _binary("sub", "a - b", "[[1, 2], [3, 4]] and [1, 2] → [[0, 0], [2, 2]]")
mul = _binary("mul", "a * b", "[[1, 2], [3, 4]] and [1, 10] → [[1, 20], [3, 40]]")
true_divide = _binary("true_divide", "a / b", "[[1, 2], [3, 4]] and [1, 2] → [[1.0, 1.0], [3.0, 2.0]]", kind="truediv")
floor_divide = _binary(
    "floor_divide", "⌊a / b⌋", "[[7, 7], [-7, -7]] and [2, -2] → [[3, -4], [-4, 3]]", kind="floordiv", quick=False
)
ceil_divide = _binary(
    "ceil_divide", "⌈a / b⌉", "[[7, 7], [6, -7]] and [2, -2] → [[4, -3], [3, 4]]", kind="ceildiv", quick=False
)
mod = _binary(
    "mod", "a modulo b, with the sign of b", "[[7, 7], [-7, -7]] and [3, -3] → [[1, -2], [2, -1]]", quick=False
)
pow = _binary("pow", "a to the power of b", "[[1.0, 2.0], [3.0, 4.0]] and [2.0, 0.5] → [[1.0, 1.414...], [9.0, 2.0]]")
logical_and = _binary(
    "logical_and", "a and b", "[[True, True], [False, False]] and [True, False] → [[True, False], [False, False]]"
)
logical_or = _binary(
    "logical_or", "a or b", "[[True, True], [False, False]] and [True, False] → [[True, True], [True, False]]"
)
squared_difference = _binary("squared_difference", "(a - b)²", "[[1, 2], [3, 4]] and [1, 5] → [[0, 9], [4, 1]]")
log_add_exp = _binary(
    "log_add_exp",
    "log(exp(a) + exp(b)), without overflow",
    "[[0.0, 1.0], [1000.0, 2.0]] and [0.0, 1.0] → [[0.693..., 1.693...], [1000.0, 2.313...]]",
    kind="logaddexp",
)
_maximum = _binary("maximum", "the larger of a and b", "[[1, 2], [3, 4]] and [2, 3] → [[2, 3], [3, 4]]")
_minimum = _binary("minimum", "the smaller of a and b", "[[1, 2], [3, 4]] and [2, 3] → [[1, 2], [2, 3]]")
equal = _binary("equal", "a = b", "[[1, 2], [3, 4]] and [1, 4] → [[True, False], [False, True]]")
not_equal = _binary("not_equal", "a ≠ b", "[[1, 2], [3, 4]] and [1, 4] → [[False, True], [True, False]]")
less = _binary("less", "a < b", "[[1, 2], [3, 4]] and [1, 4] → [[False, True], [False, False]]")
less_equal = _binary("less_equal", "a ≤ b", "[[1, 2], [3, 4]] and [1, 4] → [[True, True], [False, True]]")
greater = _binary("greater", "a > b", "[[1, 2], [3, 4]] and [1, 3] → [[False, False], [True, True]]")
greater_equal = _binary("greater_equal", "a ≥ b", "[[1, 2], [3, 4]] and [1, 3] → [[True, False], [True, True]]")

abs = _unary("abs", "|a|", "[-2.0, 0.0, 3.0] → [2.0, 0.0, 3.0]")
neg = _unary("neg", "-a", "[-2.0, 1.0, 3.0] → [2.0, -1.0, -3.0]")
exp = _unary("exp", "eᵃ", "[-1.0, 0.0, 1.0] → [0.367..., 1.0, 2.718...]")
expm1 = _unary("expm1", "eᵃ - 1, exact near 0", "[-1.0, 0.0, 1e-10] → [-0.632..., 0.0, 1...e-10]")
log = _unary("log", "the natural logarithm", "[1.0, 10.0, 0.0] → [0.0, 2.302..., -inf]")
log1p = _unary("log1p", "log(1 + a), exact near 0", "[0.0, 1e-10, 9.0] → [0.0, 1...e-10, 2.302...]")
sqrt = _unary("sqrt", "√a", "[0.0, 2.0, 9.0] → [0.0, 1.414..., 3.0]")
rsqrt = _unary("rsqrt", "1 / √a", "[1.0, 4.0, 16.0] → [1.0, 0.5, 0.25]")
square = _unary("square", "a²", "[-3.0, 0.5, 2.0] → [9.0, 0.25, 4.0]")
reciprocal = _unary("reciprocal", "1 / a", "[-1.0, 2.0, 4.0] → [-1.0, 0.5, 0.25]")
sin = _unary("sin", "sine, in radians", "[-1.0, 0.0, 1.0] → [-0.841..., 0.0, 0.841...]")
cos = _unary("cos", "cosine, in radians", "[-1.0, 0.0, 1.0] → [0.540..., 1.0, 0.540...]")
ceil = _unary("ceil", "rounded up", "[-1.5, 1.2, 2.0] → [-1.0, 2.0, 2.0]")
floor = _unary("floor", "rounded down", "[-1.5, 1.8, 2.0] → [-2.0, 1.0, 2.0]")
round = _unary("round", "rounded to the nearest integer, halves to the even one", "[-1.7, 0.5, 1.5] → [-2.0, 0.0, 2.0]")
sign = _unary("sign", "-1, 0 or 1", "[-2.5, 0.0, 0.1] → [-1.0, 0.0, 1.0]")
logical_not = _unary("logical_not", "not a", "[True, False, True] → [False, True, False]")
is_finite = _unary("is_finite", "whether neither infinite nor NaN", "[1.0, np.inf, np.nan] → [True, False, False]")
is_infinite = _unary("is_infinite", "whether ∞ or -∞", "[-np.inf, np.inf, np.nan] → [True, True, False]")
is_neg_infinite = _unary("is_neg_infinite", "whether -∞", "[-np.inf, np.inf, np.nan] → [True, False, False]")


@guarded
def maximum(a: Value, b: Value, *other_tensors: Value) -> Tensor:
    """The maximum, entry by entry. {…}, {…}, … → {… of all}

    >>> time = rf.Dim(3, name="time")
    >>> x = rf.convert_to_tensor([1, 5, 3], dims=[time])
    >>> rf.maximum(x, rf.range_over_dim(time), 2).raw_tensor.tolist()
    [2, 5, 3]
    """
    for x in (b, *other_tensors):
        a = _maximum(a, x)
    return tensor(a)


@guarded
def minimum(a: Value, b: Value, *other_tensors: Value) -> Tensor:
    """The minimum, entry by entry. {…}, {…}, … → {… of all}

    >>> time = rf.Dim(3, name="time")
    >>> x = rf.convert_to_tensor([1, 0, 3], dims=[time])
    >>> rf.minimum(x, rf.range_over_dim(time), 1).raw_tensor.tolist()
    [0, 0, 1]
    """
    for x in (b, *other_tensors):
        a = _minimum(a, x)
    return tensor(a)


@op(frames="any")
def where(cond: Tensor, true_: Value, false_: Value, *, allow_broadcast_all_sources: bool = False) -> Tensor:
    """`true_` where `cond` is true, else `false_`. {…}, {…}, {…} → {… of all}

    >>> time = rf.Dim(3, name="time")
    >>> rf.where(rf.range_over_dim(time) < 2, 1.0, 0.0).raw_tensor.tolist()
    [1.0, 1.0, 0.0]
    """
    if not isinstance(cond, Tensor):
        cond = tensor(cond)
    if not isinstance(true_, _NUMBERS):
        true_ = tensor(true_)
    if not isinstance(false_, _NUMBERS):
        false_ = tensor(false_)
    return backend_of_raw(cond._raw).where(cond, true_, false_, allow_broadcast_all_sources=allow_broadcast_all_sources)


@op(frames="any")
def clip_by_value(
    x: Tensor,
    clip_value_min: Value | None = None,
    clip_value_max: Value | None = None,
    *,
    allow_broadcast_all_sources: bool = False,
) -> Tensor:
    """`x` limited to the range between the two values; None means no bound on that side. {…}, {…}, {…} → {… of all}

    >>> time = rf.Dim(4, name="time")
    >>> rf.clip_by_value(rf.range_over_dim(time), 1, 2).raw_tensor.tolist()
    [1, 1, 2, 2]
    """
    low, high = (bound if bound is None or isinstance(bound, _NUMBERS) else tensor(bound)
                 for bound in (clip_value_min, clip_value_max))  # fmt: skip
    backend = backend_of_raw(x._raw)
    return backend.clip_by_value(x, low, high, allow_broadcast_all_sources=allow_broadcast_all_sources)


@op(frames="any")
def lerp(start: Tensor, end: Tensor, weight: Value, *, allow_broadcast_all_sources: bool = False) -> Tensor:
    """Linear interpolation from `start` at `weight` 0 to `end` at `weight` 1. {…}, {…}, {…} → {… of all}

    >>> time = rf.Dim(2, name="time")
    >>> start, end = rf.zeros([time]), rf.convert_to_tensor([4.0, 8.0], dims=[time])
    >>> rf.lerp(start, end, 0.25).raw_tensor.tolist()
    [1.0, 2.0]
    """
    weight = tensor(weight, start)
    backend = backend_of_raw(start._raw)
    if not allow_broadcast_all_sources:
        orders = [start.dims, end.dims, weight.dims]
        check_all_in_one(orders, align.broadcast(orders)[0], "lerp", ("`start`", "`end`", "`weight`"))
    way = backend.combine(end, "sub", start, allow_broadcast_all_sources=True)
    part = backend.combine(way, "mul", weight, allow_broadcast_all_sources=True)
    return backend.combine(start, "add", part, allow_broadcast_all_sources=True)


@op(frames="any")
def safe_log(a: Tensor, *, eps: float | None = None) -> Tensor:
    """log(max(a, eps)), so that 0 does not give -∞; `eps` is by default the smallest normal number. {…} → the same

    >>> rf.safe_log(rf.convert_to_tensor([0.0, 1.0], dims=[rf.Dim(2)]), eps=1e-10).raw_tensor.round().tolist()
    [-23.0, 0.0]
    """
    return backend_of_raw(a._raw).safe_log(a, eps=eps)


cast = op_of_backend(Backend.cast, __name__, frames="any")


_OPERATORS = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "truediv": true_divide,
    "floordiv": floor_divide,
    "mod": mod,
    "pow": pow,
    "and": logical_and,
    "or": logical_or,
}


def _reflected(function: TwoOperands, commutes: bool) -> Callable[[Tensor, Any], Tensor]:
    """The operator `other ∘ self`. The quick path takes a number only as the second operand."""

    def call(self: Tensor, other: Value) -> Tensor:
        # a listener sees the operands in the order in which they were written
        swap = commutes and type(other) in (int, float) and active_listener() is None
        return function(self, other) if swap else function(other, self)

    return call


for _name, _function in _OPERATORS.items():
    setattr(Tensor, f"__{_name}__", _function)
    setattr(Tensor, f"__r{_name}__", _reflected(_function, _name in ("add", "mul")))
_COMPARISONS = {"eq": equal, "ne": not_equal, "lt": less, "le": less_equal, "gt": greater, "ge": greater_equal}
_SIGNS = {"neg": neg, "abs": abs, "invert": logical_not}
for _name, _of_signs in {**_COMPARISONS, **_SIGNS}.items():
    setattr(Tensor, f"__{_name}__", _of_signs)


@method_of(Tensor)
@op(frames="any")
def copy_masked(
    self: Tensor, mask_value: Value, *, dims: Sequence[Dim | int] | None = None, allow_int: bool = False
) -> Tensor:
    """The same tensor with `mask_value` in the padding of `dims`, by default of all dims. {…}, {…} → {… of both}

    allow_int: `dims` may be positions.

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[rf.batch_dim, time])
    >>> x.copy_masked(-1).raw_tensor.tolist()
    [[1, 2, 3], [4, -1, -1]]
    """
    backend = backend_of_raw(self._raw)
    if dims is None:
        return backend.copy_masked(self, mask_value, self.dims)
    axes = [self.get_axis_from_description(dim, allow_int) for dim in dims]
    return backend.copy_masked(self, mask_value, tuple(self.dims[axis] for axis in axes))


Condition = Tensor | bool


def opt_logical_and(a: Condition, b: Condition) -> Condition:
    """a and b, where each may be a Tensor or a bool; an op is only applied if both are Tensors.

    >>> time = rf.Dim(3, name="time")
    >>> early = rf.range_over_dim(time) < 2
    >>> rf.opt_logical_and(early, True) is early, rf.opt_logical_and(early, False)
    (True, False)
    """
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return logical_and(a, b)


def opt_logical_or(a: Condition, b: Condition) -> Condition:
    """a or b, where each may be a Tensor or a bool; an op is only applied if both are Tensors.

    >>> time = rf.Dim(3, name="time")
    >>> early = rf.range_over_dim(time) < 2
    >>> rf.opt_logical_or(early, False) is early, rf.opt_logical_or(early, True)
    (True, True)
    """
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return logical_or(a, b)


REAL_IMAG = Dim(2, name="real_imag")


@op(frames="any")
def make_complex(real: Tensor | float, imag: Tensor | float) -> Tensor:
    """real + i·imag. {…}, {…} → {… of both} complex

    >>> freq = rf.Dim(2, name="freq")
    >>> real, imag = rf.ones([freq]), rf.convert_to_tensor([2.0, 3.0], dims=[freq])
    >>> rf.make_complex(real, imag).raw_tensor.tolist()
    [(1+2j), (1+3j)]
    """
    real, imag = operands(real, imag)
    for name, x in ("real", real), ("imag", imag):
        if x.dtype.startswith("complex"):
            raise DtypeError(f"make_complex: `{name}` is complex already", got=x.dtype)
    return backend_of_raw(real._raw).combine(real, "complex", imag)


@op(frames="any")
def complex_as_real(x: Tensor, *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """The real part and the imaginary part, and the dim of the two. {…} complex → {…, out_dim:2}

    >>> freq = rf.Dim(2, name="freq")
    >>> z = rf.convert_to_tensor([1 + 2j, 3 + 4j], dims=[freq])
    >>> rf.complex_as_real(z)[0].raw_tensor.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if not x.dtype.startswith("complex"):
        raise DtypeError("complex_as_real: `x` is not complex", got=x.dtype, expected="complex64 or complex128")
    out_dim = REAL_IMAG if out_dim is None else _pair("complex_as_real", out_dim)
    raw = backend_of_raw(x._raw).complex_as_real_raw(x._raw)
    return x.like(raw, align.sig([*x.dims, out_dim], None, x.feature_dim)), out_dim


@op(frames="any")
def real_as_complex(x: Tensor, *, pair_dim: Dim) -> Tensor:
    """Complex numbers with the real part at 0 of `pair_dim` and the imaginary part at 1. {…, pair_dim:2} → {…} complex

    >>> pair = rf.Dim(2, name="pair")
    >>> rf.real_as_complex(rf.convert_to_tensor([1.0, 2.0], dims=[pair]), pair_dim=pair).raw_tensor.item()
    (1+2j)
    """
    backend: type[Backend] = backend_of_raw(x._raw)
    parts = (backend.gather(x, indices=i, axis=_pair("real_as_complex", pair_dim)) for i in (0, 1))
    return backend.combine(next(parts), "complex", next(parts))


def _pair(op: str, dim: Dim) -> Dim:
    if dim.dimension != 2:
        raise DimError(
            f"{op}: the dim of real and imaginary part must have size 2",
            got=align.show_dims([dim]),
            expected="a Dim of size 2",
        )
    return dim


_activation = functools.partial(_unary, module=__name__)

tanh = _activation("tanh", "tanh a", "[-1.0, 0.0, 100.0] → [-0.761..., 0.0, 1.0]")
sigmoid = _activation("sigmoid", "1 / (1 + e⁻ᵃ)", "[-1.0, 0.0, 100.0] → [0.268..., 0.5, 1.0]")
log_sigmoid = _activation("log_sigmoid", "log sigmoid a", "[-100.0, 0.0, 1.0] → [-100.0, -0.693..., -0.313...]")
relu = _activation("relu", "max(a, 0)", "[-1.0, 0.0, 2.0] → [0.0, 0.0, 2.0]")
elu = _activation("elu", "a if a > 0, else eᵃ - 1", "[-1.0, 0.0, 2.0] → [-0.632..., 0.0, 2.0]")
selu = _activation("selu", "scaled elu (Klambauer et al. 2017)", "[-1.0, 0.0, 1.0] → [-1.111..., 0.0, 1.050...]")
silu = _activation("silu", "a · sigmoid a (Elfwing et al. 2018)", "[-1.0, 0.0, 100.0] → [-0.268..., 0.0, 100.0]")
swish = silu
gelu = _activation("gelu", "a · Φ(a) (Hendrycks & Gimpel 2016)", "[-1.0, 0.0, 100.0] → [-0.158..., 0.0, 100.0]")
softplus = _activation("softplus", "log(1 + eᵃ)", "[-1.0, 0.0, 100.0] → [0.313..., 0.693..., 100.0]")
softsign = _activation("softsign", "a / (1 + |a|)", "[-1.0, 0.0, 3.0] → [-0.5, 0.0, 0.75]")


@op(frames="any")
def identity(x: Tensor) -> Tensor:
    """The tensor itself; in the body of a loop, a value with its own name. {…} → the same

    >>> x = rf.ones([rf.Dim(2, name="feat")])
    >>> rf.identity(x) is x
    True
    """
    return x


@guarded
def relu_square(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021). {…} → the same

    >>> time = rf.Dim(3, name="time")
    >>> rf.relu_square(rf.convert_to_tensor([-2.0, 0.5, 3.0], dims=[time])).raw_tensor.tolist()
    [0.0, 0.25, 9.0]
    """
    return square(relu(x))


@guarded
def gating(
    x: Tensor,
    *,
    axis: Dim | None = None,
    gate_func: Callable[[Tensor], Tensor] = sigmoid,
    act_func: Callable[[Tensor], Tensor] = identity,
    out_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """The first half of `axis` times `gate_func` of the second half (Dauphin et al. 2017), and the dim of the halves.

    {…, axis} → {…, axis // 2}. axis: by default the feature dim.

    >>> feat = rf.Dim(4, name="feat")
    >>> y, half = rf.gating(rf.ones([feat]), axis=feat, gate_func=rf.relu)
    >>> y.raw_tensor.tolist()
    [1.0, 1.0]
    """
    axis = axis or x.feature_dim
    if axis is None or axis.dimension is None or axis.dimension % 2:
        got = "no feature dim" if axis is None else align.show_dims([axis])
        dim = likely_features(x) if axis is None else None
        raise DimError(
            "gating: the features must split into two halves",
            got=got,
            expected="an even number of features",
            hint=dim and f"rf.gating({called(x)}, axis={dim})",
        )
    out_dim = out_dim or axis // 2
    values, gate = split(x, axis=axis, out_dims=[out_dim, out_dim])
    return mul(act_func(values), gate_func(gate)), out_dim
