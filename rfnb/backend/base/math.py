"""Elementwise ops: plan on dims, then one raw call."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rfnb.core.advice.similar_dims import check_all_in_one, check_pair
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.ground.defaults import is_int_dtype
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


COMBINE_KINDS = ("add", "sub", "mul", "truediv", "floordiv", "ceildiv", "mod", "pow", "maximum", "minimum",
                 "logical_and", "logical_or", "squared_difference", "logaddexp", "complex")  # fmt: skip
COMPARE_KINDS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
PRODUCTS = ("mul", "truediv", "pow", "squared_difference", "logaddexp", "complex")
"""Kinds where the gradient of an operand is a product with the other: 0 · NaN if padding is not finite."""
Domain = Literal["positive", "nonzero", "above -1", "not large", "not small"]
DOMAINS: dict[str, Domain] = {
    "log": "positive", "sqrt": "positive", "rsqrt": "positive", "reciprocal": "nonzero", "log1p": "above -1",
    "exp": "not large", "expm1": "not large",
}  # fmt: skip
"""The arguments for which the values and slopes of an op of one operand are finite."""
AT_INFINITY = ("neg", "abs", "sign", "tanh", "sigmoid", "relu", "log_sigmoid", "softplus", "logical_not", "is_finite",
               "is_infinite", "is_neg_infinite")  # fmt: skip
"""Ops of one operand that have finite slopes at ±∞ too, so that an infinite argument of padding does no harm."""
DIVISIONS = ("floordiv", "ceildiv", "mod")
"""Kinds that divide integers, so that a divisor must not be 0 in padding either."""
SMALLEST = {"float16": 2.0**-14, "float64": 2.0**-1022}
"""The smallest number whose reciprocal, the gradient of its logarithm, is finite; other dtypes have 2⁻¹²⁶."""


class MathOps:
    """Raw part: `combine_raw`, `compare_raw`, `activation_raw`, `where_raw`, `cast_raw`, `clip_raw`,
    `complex_as_real_raw`.
    """

    combine_raw: Callable[[RawTensor, str, RawTensor], RawTensor]
    compare_raw: Callable[[RawTensor, str, RawTensor], RawTensor]
    activation_raw: Callable[[RawTensor, str], RawTensor]
    where_raw: Callable[..., RawTensor]
    cast_raw: Callable[[RawTensor, str], RawTensor]
    clip_raw: Callable[[RawTensor, RawTensor, RawTensor], RawTensor]
    complex_as_real_raw: Callable[[RawTensor], RawTensor]

    @classmethod
    def combine_function(cls: type[Backend], kind: str) -> Callable[[RawTensor, RawTensor], RawTensor]:
        """`combine_raw` for this kind."""
        return lambda a, b: cls.combine_raw(a, kind, b)

    @classmethod
    def compare_function(cls: type[Backend], kind: str) -> Callable[[RawTensor, RawTensor], RawTensor]:
        """`compare_raw` for this kind."""
        return lambda a, b: cls.compare_raw(a, kind, b)

    @classmethod
    def activation_function(cls: type[Backend], func: str) -> Callable[[RawTensor], RawTensor]:
        """`activation_raw` for this kind."""
        return lambda raw: cls.activation_raw(raw, func)

    @classmethod
    def combine(
        cls: type[Backend],
        a: Tensor,
        kind: str,
        b: Tensor,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor:
        """a kind b: "add", "sub", "mul", … {…a}, {…b} → {… of both}"""
        how_a, how_b, out = plan(a.sig, b.sig, 1, kind, allow_broadcast_all_sources, dim_order)
        if kind in PRODUCTS:
            a, b = cls.finite_operand(a), cls.finite_operand(b)
        lengths = a.lengths.join(b.lengths, a.sig, b.sig)
        raw_a, raw_b = a._raw, b._raw
        if kind == "truediv":
            raw_b = cls.safe_argument(b, "nonzero", lengths, out)
        elif kind == "pow":
            raw_a = cls.safe_argument(a, "positive", lengths, out)
        if kind in DIVISIONS and b.sig.frames and b.lengths.sizes:
            raw_b = cls.fill_padding(b, 1)
        raw = cls.combine_raw(align.apply(how_a, raw_a), kind, align.apply(how_b, raw_b))
        return tensor_of(raw, out, lengths)

    @classmethod
    def power(cls: type[Backend], tensor: Tensor, exponent: float) -> Tensor:
        """Each entry to the power of a number."""
        domain: Domain = "not small" if exponent < 0 else "positive"
        raw = tensor._raw if is_polynomial(exponent) else cls.safe_argument(tensor, domain)
        return tensor.like(cls.combine_raw(raw, "pow", exponent))

    @classmethod
    def compare(
        cls: type[Backend],
        a: Tensor,
        kind: str,
        b: Tensor,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor:
        """a kind b: "equal", "less", … {…a}, {…b} → {… of both} bool"""
        how_a, how_b, out = plan(a.sig, b.sig, -1, kind, allow_broadcast_all_sources, dim_order)
        lengths = a.lengths.join(b.lengths, a.sig, b.sig)
        return tensor_of(cls.compare_raw(align.apply(how_a, a._raw), kind, align.apply(how_b, b._raw)), out, lengths)

    @classmethod
    def activation(cls: type[Backend], tensor: Tensor, func: str) -> Tensor:
        """`func` applied to each entry."""
        domain = DOMAINS.get(func)
        if domain is not None:
            return tensor.like(cls.activation_raw(cls.safe_argument(tensor, domain), func))
        if not tensor.lengths.finite and func not in AT_INFINITY:
            tensor = cls.finite_operand(tensor)
        return tensor.like(cls.activation_raw(tensor._raw, func))

    @classmethod
    def where(
        cls: type[Backend],
        cond: Tensor,
        true_: object,
        false_: object,
        *,
        allow_broadcast_all_sources: bool = False,
    ) -> Tensor:
        """`true_` where `cond` is true, else `false_`; both are Tensors or numbers. → {… of all}"""
        if isinstance(cond, Tensor) and cond.dtype != "bool":
            raise DtypeError("where: the condition must be boolean", got=cond.dtype, expected="bool", hint="x > 0")
        operands = (cond, true_, false_)
        (on, yes, no), out, lengths = _together(cls, "where", WHERE, operands, allow_broadcast_all_sources)
        lengths = lengths.infinite() if _is_infinite(true_) or _is_infinite(false_) else lengths
        return tensor_of(cls.where_raw(on, yes, no), out, lengths)

    @classmethod
    def clip_by_value(
        cls: type[Backend],
        x: Tensor,
        clip_value_min: object,
        clip_value_max: object,
        *,
        allow_broadcast_all_sources: bool = False,
    ) -> Tensor:
        """`x` limited to the range between two Tensors or numbers; None means no bound on that side. → {… of all}"""
        operands = (x, clip_value_min, clip_value_max)
        if not (isinstance(clip_value_min, Tensor) or isinstance(clip_value_max, Tensor)):
            return x.like(cls.clip_raw(x._raw, clip_value_min, clip_value_max))
        raws, out, lengths = _together(cls, "clip_by_value", CLIP, operands, allow_broadcast_all_sources)
        return tensor_of(cls.clip_raw(*raws), out, lengths)

    @classmethod
    def safe_log(cls: type[Backend], tensor: Tensor, *, eps: float | None = None) -> Tensor:
        """log(max(a, eps)), which avoids -∞; `eps` is by default the smallest normal number."""
        eps = SMALLEST.get(tensor.dtype, 2.0**-126) if eps is None else eps
        return tensor.like(cls.activation_raw(cls.clip_raw(tensor._raw, eps, None), "log"))

    @classmethod
    def cast(cls: type[Backend], tensor: Tensor, dtype: str) -> Tensor:
        """The same values in another dtype: "float32", "int64", "bool", …. {…} → the same

        >>> time = rf.Dim(3, name="time")
        >>> rf.cast(rf.convert_to_tensor([-1.7, 0.0, 1.7], dims=[time]), "int64").raw_tensor.tolist()
        [-1, 0, 1]
        """
        raw = cls.cast_raw(tensor._raw, dtype)
        if raw is tensor._raw:
            return tensor
        if tensor.sparse_dim is None or is_int_dtype(dtype):
            return tensor_of(raw, tensor.sig, tensor.lengths)
        return tensor_of(raw, align.sig(tensor.dims, None, tensor.feature_dim), tensor.lengths)


WHERE = ("`cond`", "`true_`", "`false_`")
CLIP = ("`x`", "`clip_value_min`", "`clip_value_max`")


@dataclass(frozen=True, slots=True)
class Together:
    """How to bring three operands into the dims of the result, whose signature is `out`."""

    moves: tuple[align.Move, align.Move, align.Move]
    out: weakref.ref[Sig]


def _together(
    backend: type[Backend], op: str, names: tuple[str, str, str], given: tuple[Any, Any, Any], allow: bool
) -> tuple[tuple[object, object, object], Sig, Lengths]:
    """The raw operands in the dims of the result, its signature and its lengths.

    The first of the three operands is a Tensor; numbers stay numbers.
    """
    x, y, z = given
    first: Sig = x.sig
    second, third = getattr(y, "sig", None), getattr(z, "sig", None)
    key = (op, second and second.serial, third and third.serial, allow)
    plan: Any = first.plans.get(key)
    out = plan and plan.out()
    if not out:
        out, plan = _plan_together(op, names, (first, second, third), allow)
        first.keep(key, plan)
    how_x, how_y, how_z = plan.moves
    lengths = x.lengths
    if second is not None:
        if lengths is not y.lengths:
            lengths = lengths.join(y.lengths, first, second)
        y = y._raw if how_y is None else backend.move_raw(y._raw, how_y)
    if third is not None:
        if lengths is not z.lengths:
            lengths = lengths.join(z.lengths, first if second is None else out, third)
        z = z._raw if how_z is None else backend.move_raw(z._raw, how_z)
    return (x._raw if how_x is None else backend.move_raw(x._raw, how_x), y, z), out, lengths


def _plan_together(op: str, names: Sequence[str], sigs: Sequence[Sig | None], allow: bool) -> tuple[Sig, Together]:
    present = [s for s in sigs if s is not None]
    dims, _ = align.broadcast([s.dims for s in present])
    if not allow:
        labels = [name for name, s in zip(names, sigs, strict=True) if s is not None]
        check_all_in_one([s.dims for s in present], dims, op, labels)
    values = present[1:] if op == "where" else present
    sparse = next((s.sparse_dim for s in values if s.sparse_dim is not None), None)
    out = align.sig(dims, sparse, next((s.feature_dim for s in values if s.feature_dim is not None), None))
    how_x, how_y, how_z = (None if s is None else align.move(s.dims, dims) for s in sigs)
    return out, Together((how_x, how_y, how_z), weakref.ref(out))


def is_polynomial(exponent: float) -> bool:
    """Whether x to this power is finite for all finite x, and so is its slope."""
    return exponent >= 0 and exponent == int(exponent) if math.isfinite(exponent) else False


def _is_infinite(value: object) -> bool:
    """Whether it is the number ∞, -∞ or NaN."""
    return isinstance(value, float) and not math.isfinite(value)


Broadcast = tuple[align.Move, align.Move, weakref.ref[Sig], Literal["a", "b", "ab", ""]]
"""How to bring two operands together: a move for each, the signature of the result, and which operands have frames that
the other one lacks. A plain tuple, since unpacking one is the fastest way to read a plan (see `core.tensor.op.binary`).
"""


def plan(
    a: Sig, b: Sig, sign: int, kind: str, allow: bool | None = None, order: Sequence[Dim] | None = None
) -> tuple[align.Move, align.Move, Sig]:
    """How to bring two operands into the dims of the result, and its signature.

    The plan is kept at the first signature, where the quick operators look it up.

    Args:
        sign: 1 for arithmetic, -1 for comparisons, whose results are not labels.
        allow: whether the operands may lack dims of each other; by default, unless two of those dims look alike.
        order: the dims that come first. If it names all dims of the result, broadcasting is allowed, as with `allow`.
    """
    key: object = sign * b.serial if allow is None else ("broadcast", allow, sign * b.serial)
    stored: Broadcast | None = a.plans.get(key) if order is None else None
    if stored is not None:
        how_a, how_b, out_ref, _ = stored
        if out := out_ref():
            return how_a, how_b, out
    dims = _dims_of_both(a.dims, b.dims, order or ())
    if not (allow or (order is not None and set(dims) <= set(order))):
        check_pair(a.dims, b.dims, dims, kind, strictly=allow is False)
    how_a, how_b = align.move(a.dims, dims), align.move(b.dims, dims)
    out = align.sig(dims, _labels_of(a, b) if sign > 0 else None, a.feature_dim or b.feature_dim)
    if order is None:
        entry: Broadcast = (how_a, how_b, weakref.ref(out), _with_own_frames(a, b))
        a.keep(key, entry)
    return how_a, how_b, out


def _with_own_frames(a: Sig, b: Sig) -> Literal["a", "b", "ab", ""]:
    """Which operands have frames that the other one lacks."""
    if lacks_frames(b, a):
        return "ab" if lacks_frames(a, b) else "a"
    return "b" if lacks_frames(a, b) else ""


def _dims_of_both(a: Sequence[Dim], b: Sequence[Dim], order: Sequence[Dim]) -> tuple[Dim, ...]:
    """The dims of `order`, then those of the operand that has all; else those of `a`, then those that only `b` has."""
    first, second = (b, a) if len(b) > len(a) and set(a) <= set(b) else (a, b)
    dims = (*first, *[dim for dim in second if dim not in first])
    return (*[dim for dim in order if dim in dims], *[dim for dim in dims if dim not in order])


def _labels_of(a: Sig, b: Sig) -> Dim | None:
    """What the entries of the result are labels of; None if the operands are labels of different dims."""
    if a.sparse_dim is None or b.sparse_dim is None:
        return a.sparse_dim or b.sparse_dim
    return a.sparse_dim if a.sparse_dim is b.sparse_dim else None


def lacks_frames(some: Sig, other: Sig) -> bool:
    """Whether `other` has an axis with lengths that `some` lacks."""
    return any(dim not in some.index for dim in other.dims if dim.roots)


def join(first: Tensor, *others: Tensor) -> Lengths:
    """The joined lengths of all these tensors. Raises DimRebound if two of them disagree."""
    lengths = first.lengths
    for x in others:
        if x.lengths is not lengths:
            lengths = lengths.join(x.lengths, first.sig, x.sig)
    return lengths
