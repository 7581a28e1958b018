"""Sums, products and quotients of dims, in one canonical form: `time + 1 - 1` is `time`, `2 * feat // 2` is `feat`.

`Algebra` gives dims their operators; dims that are declared to have the same size become expressions of one another.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.lengths import Size, check_size
from rfnb.core.ground.hook import Hook
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim


SizeOf = Callable[["Dim"], Size | None]


class Expr(NamedTuple):
    """How a dim is derived from other dims.

    op: "sum": the dims times the numbers, plus the last number. "product" of the dims. "floordiv", "ceildiv", "mod":
        the first dim divided by the number or the second dim; "floordiv_left", "ceildiv_left": where that is the outer
        part. "max", "min" of the dims and numbers. "copy": the dim itself, with the number as its match priority.
    """

    op: str
    dims: tuple[Dim, ...]
    numbers: tuple[int, ...] = ()

    def evaluate(self, size_of: SizeOf) -> Size | None:
        """The size, computed from the sizes of the parts; None if one of them is unknown."""
        sizes = [size_of(dim) for dim in self.dims]
        parts = [size for size in sizes if size is not None]
        if len(parts) < len(sizes):
            return None
        dims, values = aligned(parts)
        maker = next((size.made for size in parts if size.made is not None), None)
        capacity = None if all(size.capacity is None for size in parts) else self.number([size.max for size in parts])
        return Size(dims, np.maximum(_EVALUATE[self.op](values, self.numbers), 0), made=maker, capacity=capacity)

    def number(self, sizes: Iterable[int | None]) -> int | None:
        """The size as a number, computed from those of the parts; None if one of them is unknown."""
        numbers = list(sizes)
        if None in numbers:
            return None
        return max(int(_EVALUATE[self.op]([np.asarray(size) for size in numbers], self.numbers)), 0)

    def text(self) -> str:
        """The expression as a formula: "time+1", "⌈(time+2)/3⌉"."""
        return _TEXT[self.op](self)


def check_static(expr: Expr, sizes: Sequence[int]) -> None:
    """Raises DimError if the size of an expression of dims with these sizes is too large, before it overflows."""
    if expr.op == "sum":
        total = expr.numbers[-1] + sum(size * factor for size, factor in zip(sizes, expr.numbers, strict=False))
        check_size(expr.text(), total)
    elif expr.op == "product":
        check_size(expr.text(), math.prod(sizes))


def aligned(sizes: Sequence[Size]) -> tuple[tuple[Dim, ...], list[np.ndarray]]:
    """All dims that the sizes depend on, and the values of each size with an axis for each of these dims."""
    dims: list[Dim] = []
    for size in sizes:
        dims += [dim for dim in size.dims if dim not in dims]
    return tuple(dims), [size.over(dims) for size in sizes]


def _sum(values: list[np.ndarray], numbers: tuple[int, ...]) -> np.ndarray:
    total = np.asarray(numbers[-1])
    for value, factor in zip(values, numbers, strict=False):
        total = total + value * factor
    return total


def _extreme(pick: Any, values: list[np.ndarray], numbers: tuple[int, ...]) -> np.ndarray:
    result: Any = values[0]
    for value in (*values[1:], *numbers):
        result = pick(result, value)
    return result


def _by_what(values: list[np.ndarray], numbers: tuple[int, ...]) -> np.ndarray:
    return np.maximum(values[1] if len(values) > 1 else numbers[0], 1)  # a dim may be empty


def _floordiv(values: list[np.ndarray], numbers: tuple[int, ...]) -> np.ndarray:
    return values[0] // _by_what(values, numbers)


def _ceildiv(values: list[np.ndarray], numbers: tuple[int, ...]) -> np.ndarray:
    return -(-values[0] // _by_what(values, numbers))


_EVALUATE: dict[str, Callable[[list[np.ndarray], tuple[int, ...]], np.ndarray]] = {
    "sum": _sum,
    "product": lambda values, numbers: math.prod(values, start=np.asarray(1)),
    "floordiv": _floordiv,
    "floordiv_left": _floordiv,
    "ceildiv": _ceildiv,
    "ceildiv_left": _ceildiv,
    "mod": lambda values, numbers: values[0] % _by_what(values, numbers),
    "copy": lambda values, numbers: values[0],
    "max": lambda values, numbers: _extreme(np.maximum, values, numbers),
    "min": lambda values, numbers: _extreme(np.minimum, values, numbers),
}

OPS = frozenset(_EVALUATE)


def _sum_text(expr: Expr) -> str:
    text = ""
    for dim, factor in zip(expr.dims, expr.numbers, strict=False):
        sign = "-" if factor < 0 else "+" if text else ""
        text += sign + ("" if abs(factor) == 1 else f"{abs(factor)}*") + _in_brackets(dim, "max min".split())
    constant = expr.numbers[-1]
    return text + (f"{constant:+d}" if constant and text else str(constant) if not text else "")


def _in_brackets(dim: Dim, ops: Sequence[str]) -> str:
    bracket = dim.expr is not None and dim.expr.op in ops and dim.expr.dims
    return f"({dim.name})" if bracket else dim.name


def _by(expr: Expr) -> str:
    return str(expr.numbers[0]) if expr.numbers else _in_brackets(expr.dims[1], ("sum", "product"))


_TEXT: dict[str, Callable[[Expr], str]] = {
    "sum": _sum_text,
    "product": lambda e: "*".join(_in_brackets(dim, ("sum",)) for dim in e.dims),
    "floordiv": lambda e: f"⌊{_in_brackets(e.dims[0], ('sum',))}/{_by(e)}⌋",
    "ceildiv": lambda e: f"⌈{_in_brackets(e.dims[0], ('sum',))}/{_by(e)}⌉",
    "floordiv_left": lambda e: f"⌊{_by(e)}\\{_in_brackets(e.dims[0], ('sum',))}⌋",
    "ceildiv_left": lambda e: f"⌈{_by(e)}\\{_in_brackets(e.dims[0], ('sum',))}⌉",
    "copy": lambda e: f"{e.dims[0].name}({e.numbers[0]})",
    "mod": lambda e: f"{_in_brackets(e.dims[0], ('sum', 'product'))}%{_by(e)}",
    "max": lambda e: f"max({', '.join([*(d.name for d in e.dims), *map(str, e.numbers)])})",
    "min": lambda e: f"min({', '.join([*(d.name for d in e.dims), *map(str, e.numbers)])})",
}

_interned: weakref.WeakValueDictionary[tuple, Dim] = weakref.WeakValueDictionary()


def make(op: str, dims: Sequence[Dim], numbers: Sequence[int] = ()) -> Dim:
    """The dim for an expression in canonical form. Equal expressions give the same Dim."""
    key = (op, tuple(dim.serial for dim in dims), tuple(numbers))
    dim = _interned.get(key)
    if dim is None:
        new = derived_dim(Expr(op, tuple(dims), tuple(numbers)))
        dim = _interned.setdefault(key, new)  # another thread may have been quicker
    return dim


derived_dim: Hook[[Expr], Dim] = Hook("core.dims.dim_math.derived_dim", by="core.dims.dim")
"""Makes a new Dim for an expression."""

Terms = list[tuple["Dim", int]]
"""Dims and their factors, in order: `a + b` and `b + a` have the same size but different layouts, so they differ."""


def _linear(dim: Dim | int) -> tuple[Terms, int]:
    """A dim as a sum of dims with factors, and a constant."""
    if isinstance(dim, int | np.integer):
        return [], int(dim)
    check_operand(dim)
    if dim.expr is not None and dim.expr.op == "sum":
        return list(zip(dim.expr.dims, dim.expr.numbers, strict=False)), dim.expr.numbers[-1]
    return [(dim, 1)], 0


def check_operand(given: object) -> None:
    """Raises DimError for what is not a Dim."""
    if not hasattr(given, "expr"):
        raise DimError(
            f"a Dim cannot be combined with a value of type {type(given).__name__}",
            got=type(given).__name__,
            expected="a Dim, or a whole number",
        )


def _from_linear(terms: Terms, constant: int) -> Dim:
    if constant == 0 and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    return make("sum", [dim for dim, _ in terms], [*(factor for _, factor in terms), constant])


def _joined(terms: Terms, more: Terms) -> Terms:
    """Both sums, concatenated. A term merges with a term of the same dim if that is adjacent, or if it subtracts."""
    joined = list(terms)
    for dim, factor in more:
        places = [i for i, (term_dim, _) in enumerate(joined) if term_dim is dim]
        if places and (factor < 0 or places[-1] == len(joined) - 1):
            joined[places[-1]] = (dim, joined[places[-1]][1] + factor)
        else:
            joined.append((dim, factor))
        joined = [term for term in joined if term[1]]
    return joined


def add(a: Dim | int, b: Dim | int, *, sign: int = 1) -> Dim:
    """The dim a + sign * b."""
    terms, constant = _linear(a)
    more, more_constant = _linear(b)
    return _from_linear(_joined(terms, [(dim, sign * factor) for dim, factor in more]), constant + sign * more_constant)


def mul(a: Dim | int, b: Dim | int) -> Dim:
    """The dim a * b."""
    terms_a, constant_a = _linear(a)
    terms_b, constant_b = _linear(b)
    if not terms_b:
        scaled = [(dim, factor * constant_b) for dim, factor in terms_a if factor * constant_b]
        return _from_linear(scaled, constant_a * constant_b)
    if not terms_a:
        return mul(b, a)
    scale, parts = 1, list[Any]()
    for operand, terms, constant in ((a, terms_a, constant_a), (b, terms_b, constant_b)):
        if len(terms) == 1 and constant == 0:
            [(dim, factor)] = terms
            scale, parts = scale * factor, [*parts, *_product_parts(dim)]
        else:
            parts.append(operand)
    return _from_product(parts, scale)


def _from_product(parts: Sequence[Dim], scale: int) -> Dim:
    if not parts:
        return _from_linear([], scale)
    return mul(parts[0] if len(parts) == 1 else make("product", parts), scale)


def _product_parts(dim: Dim) -> tuple[Dim, ...]:
    check_operand(dim)
    return dim.expr.dims if dim.expr is not None and dim.expr.op == "product" else (dim,)


def div(a: Dim | int, b: Dim | int, *, rounding: str = "floordiv") -> Dim:
    """The dim a / b, rounded down ("floordiv") or up ("ceildiv")."""
    if isinstance(b, int | np.integer) and b < 0:
        a, b = mul(a, -1), -b
    terms, constant = _linear(a)
    if _below_zero(terms, constant):
        return mul(div(mul(a, -1), b, rounding=_OTHER_WAY[rounding]), -1)
    if isinstance(b, int | np.integer):
        b = _divisor(a, b)
        if all(number % b == 0 for number in [*(factor for _, factor in terms), constant]):
            return _from_linear([(dim, factor // b) for dim, factor in terms], constant // b)
        inner = a.expr if not isinstance(a, int | np.integer) else None
        if inner is not None and inner.op == rounding and inner.numbers:
            return make(rounding, inner.dims, [inner.numbers[0] * b])
        return make(rounding, [_from_linear(terms, constant)], [b])
    if a is b:
        return _from_linear([], 1)
    if len(terms) == 1 and constant == 0:
        [(only, scale)] = terms
        factors = _without(_product_parts(only), _product_parts(b))
        if factors is not None:
            return _from_product(factors, scale)
    return make(rounding, [_from_linear(terms, constant), b])


_OTHER_WAY = {"floordiv": "ceildiv", "ceildiv": "floordiv"}


def _below_zero(terms: Terms, constant: int) -> bool:
    """Whether a sum is never above 0. It is divided as ⌊−x / n⌋ = −⌈x / n⌉, since a size below 0 counts as 0."""
    return bool(terms) and constant <= 0 and all(factor < 0 for _, factor in terms)


def div_side(a: Dim, b: Dim | int, side: str, *, rounding: str = "floordiv") -> Dim:
    """The dim a / b, where `b` is the "left" (outer) or the "right" (inner) factor. A number can be either."""
    if isinstance(b, int | np.integer) or a is b:
        return div(a, b, rounding=rounding)
    terms, constant = _linear(a)
    if _below_zero(terms, constant):
        return mul(div_side(mul(a, -1), b, side, rounding=_OTHER_WAY[rounding]), -1)
    if len(terms) == 1 and constant == 0:
        [(only, scale)] = terms
        parts, divisors = _product_parts(only), _product_parts(b)
        cut = len(divisors) if side == "left" else len(parts) - len(divisors)
        head, tail = parts[:cut], parts[cut:]
        factors = (tail if head == divisors else None) if side == "left" else (head if tail == divisors else None)
        if factors is not None:
            return _from_product(factors, scale)
    return make(rounding + ("_left" if side == "left" else ""), [_from_linear(terms, constant), b])


def sub_side(a: Dim, b: Dim | int, side: str) -> Dim:
    """The dim a - b, where `b` is removed only from the "left" or the "right" end. A number can be at either."""
    terms, constant = _linear(a)
    taken, taken_constant = _linear(b)
    for dim, factor in taken if side == "left" else reversed(taken):
        at = 0 if side == "left" else len(terms) - 1
        if terms and terms[at][0] is dim:
            terms[at] = (dim, terms[at][1] - factor)
        else:
            terms.insert(at if side == "left" else at + 1, (dim, -factor))
        terms = [term for term in terms if term[1]]
    return _from_linear(terms, constant - taken_constant)


def free_term(dim: Dim) -> tuple[Dim | None, int]:
    """The dim without a size and the number that add up to `dim`; None and 0 if `dim` is not such a sum."""
    terms, constant = _linear(dim)
    if len(terms) == 1 and terms[0][1] == 1 and terms[0][0].is_free():
        return terms[0][0], constant
    return None, 0


def derived() -> list[Dim]:
    """All existing dims that are derived from others."""
    return list(_interned.values())


def _divisor(a: Dim | int, b: int | np.integer) -> int:
    if int(b) == 0:
        raise DimError("division by 0", got=f"{getattr(a, 'name', a)} by 0", expected="a divisor of 1 or more")
    check_size("the divisor", int(b))
    return int(b)


def _without(parts: Sequence[Dim], taken: Sequence[Dim]) -> list[Dim] | None:
    """The factors that remain without `taken`; None if one of those is not among them."""
    remaining = list(parts)
    for dim in taken:
        if dim not in remaining:
            return None
        remaining.remove(dim)
    return remaining


def mod(a: Dim, b: Dim | int) -> Dim:
    """The dim a % b."""
    return make("mod", [a], [_divisor(a, b)]) if isinstance(b, int | np.integer) else make("mod", [a, b])


def extreme(op: str, dims: Sequence[Dim | int]) -> Dim:
    """The "max" or "min" of dims and numbers."""
    parts = sorted({dim for dim in dims if not isinstance(dim, int | np.integer)}, key=lambda dim: dim.serial)
    constants = [int(dim) for dim in dims if isinstance(dim, int | np.integer)]
    numbers = [max(constants) if op == "max" else min(constants)] if constants else []
    return parts[0] if len(parts) == 1 and not numbers else make(op, parts, numbers)


_aliases: weakref.WeakSet[Dim] = weakref.WeakSet()


def declare(a: Dim, b: Dim) -> None:
    """Implements `Dim.declare_same_as`: the dim without a size, or the root of it, becomes an alias of the other."""
    check_operand(b)
    if a is b or a.expr == _alias(b) or b.expr == _alias(a):
        return
    for dim, other in ((a, b), (b, a)):
        root, constant = free_term(dim)
        if root is not None and root.serial not in other.roots:
            _follow(root, other - constant)
            return
    raise DimError(
        f"declare_same_as: {a.name} is already in use",
        got=f"{a.describe()} and {b.describe()}",
        expected="one Dim without a size",
    )


def _follow(dim: Dim, other: Dim) -> None:
    stale = [follower for follower in [dim, *derived(), *_aliases] if dim.serial in follower.roots]
    dim.expr = _alias(other)
    _aliases.add(dim)
    for follower in stale:
        follower.__dict__.pop("_derived_roots", None)
    for follower in stale:
        settle(follower)
    align.forget(stale)


def followed(dim: Dim) -> tuple[Dim, ...]:
    """The dim that `dim` was declared to be the same as, in a tuple; empty if there is none."""
    return dim.expr.dims if dim.expr is not None and dim in _aliases else ()


def _alias(dim: Dim) -> Expr:
    return Expr("sum", (dim,), (1, 0))


def settle(dim: Dim) -> None:
    """Sets the fixed size of a dim that is derived from dims of fixed size."""
    if dim.dimension is None and dim.expr is not None:
        for part in dim.expr.dims:
            settle(part)
        sizes = [part.dimension for part in dim.expr.dims if part.dimension is not None]
        if len(sizes) == len(dim.expr.dims):
            check_static(dim.expr, sizes)
            size = dim.expr.evaluate(lambda part: part.static_size)
            dim.dimension = None if size is None else size.max


class Algebra:
    """The part of Dim that makes dims from dims."""

    def __add__(self: Dim, other: Dim | int) -> Dim:
        return add(self, other)

    __radd__ = __add__

    def __sub__(self: Dim, other: Dim | int) -> Dim:
        return add(self, other, sign=-1)

    def __rsub__(self: Dim, other: int) -> Dim:
        return add(other, self, sign=-1)

    def __mul__(self: Dim, other: Dim | int) -> Dim:
        return mul(self, other)

    __rmul__ = __mul__

    def __floordiv__(self: Dim, other: Dim | int) -> Dim:
        return div(self, other)

    def __rfloordiv__(self: Dim, other: int) -> Dim:
        return div(other, self)

    def __truediv__(self: Dim, other: Dim | int) -> Dim:
        if self.dimension is not None and isinstance(other, int) and other and self.dimension % other:
            fault = f"{self.name} ({self.dimension}) is not divisible by {other}"
            raise DimError(fault, hint=f"{self.name} // {other} rounds down")
        return self // other

    def __mod__(self: Dim, other: Dim | int) -> Dim:
        return mod(self, other)

    def __neg__(self: Dim) -> Dim:
        return mul(self, -1)

    def __index__(self: Dim, *_: object) -> int:
        raise DimError(f"{self.describe()} is an axis, not a number", hint=f"{self.name}.get_dim_value() is its size")

    __int__ = __float__ = __pow__ = __index__

    def ceildiv_right(self: Dim, other: Dim | int) -> Dim:
        """⌈self / other⌉, where `other` is the inner, faster part."""
        return div(self, other, rounding="ceildiv")

    def ceildiv_left(self: Dim, other: Dim | int) -> Dim:
        """⌈self / other⌉, where `other` is the outer, slower part."""
        return div_side(self, other, "left", rounding="ceildiv")

    def div_right(self: Dim, other: Dim | int) -> Dim:
        """self / other, rounded down, where `other` is the right factor: (a * b).div_right(b) is a."""
        return div_side(self, other, "right")

    def div_left(self: Dim, other: Dim | int) -> Dim:
        """self / other, rounded down, where `other` is the left factor: (a * b).div_left(a) is b."""
        return div_side(self, other, "left")

    def sub_right(self: Dim, other: Dim | int) -> Dim:
        """self - other, taken from the right end: (a + b).sub_right(b) is a."""
        return sub_side(self, other, "right")

    def sub_left(self: Dim, other: Dim | int) -> Dim:
        """self - other, taken from the left end: (a + b).sub_left(a) is b."""
        return sub_side(self, other, "left")

    # -- dims of the same size

    def copy(
        self: Dim,
        same_as_self: bool = True,
        description: str | None = None,
        kind: str | None = None,
        match_priority: int | None = None,
    ) -> Dim:
        """This dim with another `match_priority`; or, with `same_as_self=False`, another Dim of the same size.

        >>> feat = rf.Dim(4, name="feat")
        >>> feat.copy(match_priority=1), feat.copy() is feat, feat.copy(same_as_self=False) is feat
        (Dim{feat(1):4}, True, False)

        A square matrix has both: {feat(1), feat}. There, `axis=feat` refers to the first of them. A dim has
        one name and one kind, so `description` and `kind` apply only with `same_as_self=False`.
        """
        if same_as_self:
            priority = self.match_priority if match_priority is None else match_priority
            return self.base if priority == 0 else make("copy", [self.base], [priority])
        new = type(self)(
            self.dimension,
            name=description or self.name,
            kind=kind or self.kind,
            vocab=self.vocab,
            capacity=self.capacity,
            bounded_by=self.bounded_by,
            dyn_size_ext=None if self.template is None else self.template.copy_template(),
        )
        if self.is_dynamic() and self.is_defined():
            new.bind(self.size)
        return new

    def copy_from(self: Dim, other: Dim) -> None:
        """Gives this dim the size, the vocab and the kind of `other`. It must not have a size yet.

        >>> word = rf.Dim(None, name="word", vocab=["the", "cat", "sat"])
        >>> out = rf.Dim(None, name="out")
        >>> out.copy_from(word)
        >>> out, out.vocab.decode(1)
        (Dim{out:3}, 'cat')
        """
        self.declare_same_as(other)
        self.vocab, self.kind = self.vocab or other.vocab, self.kind or other.kind

    def declare_same_as(self: Dim, other: Dim) -> None:
        """Declares that both dims always have the same size: that of the one that has, or first gets, a size.

        The other must not have a size yet, and must not occur in a tensor with data. They stay two dims: an axis
        of one is not an axis of the other. Raises DimError if both are in use.

        >>> time, frames = rf.Dim([5, 2], name="time"), rf.Dim(None, name="frames")
        >>> frames.declare_same_as(time)
        >>> frames, frames == time
        (Dim{frames:2–5}, False)
        """
        declare(self, other)
