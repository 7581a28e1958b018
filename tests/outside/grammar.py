"""A grammar of loop programs: each rule says what an op means in rfnb and, for a sequence alone, in plain torch.

A value has some of the axes b (batch), t (the frames of the loop), e (frames of an encoder), h and k (features). In
plain torch, it has four axes [t, e, h, k], of size 1 where the value lacks one, and no batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

import rfnb as rf

INNER = "tehk"
SIZES = {"t": 4, "e": 4, "h": 3, "k": 2}  # the largest
POSITIVE = 0.05
LARGE = 40.0
MARGIN = 0.3719  # comparisons with it are no ties


class Facts(NamedTuple):
    """What is known of a value before it is computed: its axes, the interval it lies in, its kind."""

    axes: frozenset[str]
    low: float
    high: float
    kind: str = "float"

    def __repr__(self) -> str:
        return f"facts({''.join(sorted(self.axes))!r}, {self.low}, {self.high}, {self.kind!r})"


def facts(axes: str, low: float, high: float, kind: str = "float") -> Facts:
    return Facts(frozenset(axes), low, high, kind)


class Known(NamedTuple):
    """What a rule may depend on: axes of which a sequence may have no frame, and whether the loop is over t."""

    empty: frozenset[str]
    over_t: bool


Check = Callable[..., Facts | None]
Meaning = Callable[..., Any]


@dataclass(frozen=True)
class Rule:
    """An op: the facts of its result (None if it does not apply), and its two meanings.

    padding: whether it can leave the finite numbers where its argument is padding.
    """

    name: str
    arity: int
    check: Check
    named: Meaning
    plain: Meaning
    weight: int = 1
    padding: bool = False


def place(axis: str) -> int:
    """The position of an axis in plain torch."""
    return INNER.index(axis)


def bounded(axes: frozenset[str], low: float, high: float) -> Facts | None:
    """Facts, unless the value may become large."""
    return Facts(axes, low, high) if low >= -LARGE and high <= LARGE else None


# -- elementwise


def unary(
    name: str,
    interval: Callable[[float, float], tuple[float, float] | None],
    both: Meaning | None = None,
    named: Meaning | None = None,
    plain: Meaning | None = None,
    **options: Any,
) -> Rule:
    """An op on one value. both: a meaning that is the same code in rfnb and torch."""

    def check(known: Known, a: Facts) -> Facts | None:
        found = interval(a.low, a.high) if a.kind == "float" else None
        return None if found is None else bounded(a.axes, *found)

    here, there = named or both or getattr(rf, name), plain or both or getattr(torch, name)
    return Rule(name, 1, check, lambda env, a: here(a), lambda env, a: there(a), **options)


def monotonic(fn: Callable[[float], float], least: float = -math.inf, most: float = math.inf) -> Callable[..., Any]:
    """The interval of a function that rises or falls, for arguments from `least` to `most`."""

    def interval(low: float, high: float) -> tuple[float, float] | None:
        if low < least or high > most:
            return None
        ends = fn(low), fn(high)
        return min(ends), max(ends)

    return interval


def spread(low: float, high: float) -> float:
    return max(abs(low), abs(high))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


UNARY = [
    unary("tanh", monotonic(math.tanh), weight=4),
    unary("sigmoid", monotonic(sigmoid), weight=3),
    unary("sin", lambda low, high: (-1.0, 1.0)),
    unary("relu", monotonic(lambda x: max(x, 0.0))),
    unary("abs", lambda low, high: (max(low, -high, 0.0), spread(low, high))),
    unary("square", lambda low, high: (max(low, -high, 0.0) ** 2, spread(low, high) ** 2)),
    unary("negative", monotonic(lambda x: -x), both=lambda a: -a),
    unary("one plus", monotonic(lambda x: 1 + x), both=lambda a: 1.0 + a),
    unary("two minus", monotonic(lambda x: 2 - x), both=lambda a: 2.0 - a),
    unary("half", monotonic(lambda x: 0.5 * x - 0.1), both=lambda a: a * 0.5 - 0.1),
    unary("exp", monotonic(math.exp, most=3.0), padding=True),
    unary("stop_gradient", lambda low, high: (low, high), plain=lambda a: a.detach()),
    unary("dropout", lambda low, high: (low, high), named=lambda a: rf.dropout(a, 0.5), plain=lambda a: a),
    unary("over 1 + abs", lambda low, high: (-1.0, 1.0), both=lambda a: a / (1.0 + abs(a))),
    unary("log of 1 + abs", lambda low, high: (0.0, spread(low, high)), named=lambda a: rf.log(1.0 + rf.abs(a)),
          plain=lambda a: torch.log(1.0 + a.abs())),
    *[
        unary(name, monotonic(fn, least=POSITIVE), both, padding=True)
        for name, fn, both in (
            ("log", math.log, None),
            ("sqrt", math.sqrt, None),
            ("rsqrt", lambda x: x**-0.5, None),
            ("reciprocal", lambda x: 1 / x, None),
            ("one over", lambda x: 1 / x, lambda a: 1.0 / a),
            ("power -1.5", lambda x: x**-1.5, lambda a: a**-1.5),
            ("power 0.5", lambda x: x**0.5, lambda a: a**0.5),
        )
    ],
]  # fmt: skip


def together(a: Facts, b: Facts) -> frozenset[str] | None:
    """The axes of both, if one has all of them."""
    return max(a.axes, b.axes, key=len) if a.axes <= b.axes or b.axes <= a.axes else None


def binary(name: str, numbers: Callable[[float, float], float], both: Meaning, **options: Any) -> Rule:
    """An op on two values, whose extreme values are those at the ends of both intervals."""
    divides = name in ("div", "log of a quotient")

    def check(known: Known, a: Facts, b: Facts) -> Facts | None:
        axes = together(a, b)
        if axes is None or a.kind != "float" or b.kind != "float" or (divides and b.low < POSITIVE):
            return None
        ends = [numbers(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return bounded(axes, min(ends), max(ends))

    return Rule(name, 2, check, lambda env, a, b: both(a, b), lambda env, a, b: both(a, b), **options)


def check_choice(known: Known, a: Facts, b: Facts) -> Facts | None:
    axes = together(a, b)
    if axes is None or a.kind != "float" or b.kind != "float":
        return None
    return Facts(axes, min(a.low, b.low), max(a.high, b.high))


def check_greater(known: Known, a: Facts, b: Facts) -> Facts | None:
    found = check_choice(known, a, b)
    return None if found is None else Facts(found.axes, 0, 1, "bool")


def check_where(known: Known, mask: Facts, a: Facts) -> Facts | None:
    axes = together(mask, a)
    if axes is None or mask.kind != "bool" or a.kind != "float":
        return None
    return Facts(axes, min(a.low, -0.25), max(a.high, -0.25))


BINARY = [
    binary("add", lambda x, y: x + y, lambda a, b: a + b, weight=4),
    binary("sub", lambda x, y: x - y, lambda a, b: a - b, weight=2),
    binary("mul", lambda x, y: x * y, lambda a, b: a * b, weight=4),
    binary("div", lambda x, y: x / y, lambda a, b: a / b, weight=3, padding=True),
    Rule("maximum", 2, check_choice, lambda env, a, b: rf.maximum(a, b), lambda env, a, b: torch.maximum(a, b)),
]  # fmt: skip

CHOICES = [
    Rule("greater", 2, check_greater, lambda env, a, b: a > b + MARGIN, lambda env, a, b: a > b + MARGIN, weight=3),
    Rule("where", 2, check_where, lambda env, m, a: rf.where(m, a, -0.25), lambda env, m, a: torch.where(m, a, -0.25),
         weight=2),
    Rule("where not", 2, check_where, lambda env, m, a: rf.where(rf.logical_not(m), a, -0.25),
         lambda env, m, a: torch.where(~m, a, -0.25)),
    Rule("mask", 2, check_where, lambda env, m, a: rf.cast(m, a.dtype) * a - 0.25 * rf.cast(rf.logical_not(m), a.dtype),
         lambda env, m, a: torch.where(m, a, -0.25)),
]  # fmt: skip


# -- over an axis


def over(axis: str, name: str, check: Check, named: Meaning, plain: Meaning, **options: Any) -> Rule:
    """An op on one value over an axis that it has."""

    def checked(known: Known, a: Facts) -> Facts | None:
        return check(known, a) if a.kind == "float" and axis in a.axes and (axis in "hk" or "b" in a.axes) else None

    at = place(axis)
    return Rule(
        f"{name} over {axis}",
        1,
        checked,
        lambda env, a: named(env, a, env.dims[axis]),
        lambda env, a: plain(a, at),
        **options,
    )


def with_zero(axis: str, known: Known, low: float, high: float) -> tuple[float, float]:
    """The interval with 0, if the axis may have no frame."""
    return (min(low, 0.0), max(high, 0.0)) if axis in known.empty else (low, high)


def reduced(axis: str, interval: Callable[[Known, Facts], tuple[float, float] | None]) -> Check:
    def check(known: Known, a: Facts) -> Facts | None:
        found = interval(known, a)
        return None if found is None else bounded(a.axes - {axis}, *found)

    return check


def kept(interval: Callable[[Known, Facts], tuple[float, float] | None]) -> Check:
    def check(known: Known, a: Facts) -> Facts | None:
        found = interval(known, a)
        return None if found is None else bounded(a.axes, *found)

    return check


def plain_mean(a: torch.Tensor, at: int) -> torch.Tensor:
    """0 over no frames."""
    return a.sum(at, keepdim=True) / max(a.shape[at], 1)


def self_attention(a: torch.Tensor, at: int) -> torch.Tensor:
    rows = a.reshape(a.shape[at], SIZES["h"])
    return ((rows @ rows.T).softmax(1) @ rows).reshape(a.shape)


def named_self_attention(env: Any, a: rf.Tensor, dim: rf.Dim) -> rf.Tensor:
    keys, key = rf.replace_dim(a, in_dim=dim, out_dim=rf.Dim(None, name="key"))
    weights = rf.softmax(rf.matmul(a, keys, reduce=env.dims["h"]), axis=key)
    return rf.matmul(weights, keys, reduce=key)


def plus_positions(a: torch.Tensor, at: int) -> torch.Tensor:
    sizes = [1, 1, 1, 1]
    sizes[at] = a.shape[at]
    return a + 0.1 * torch.arange(a.shape[at], dtype=a.dtype).reshape(sizes)


def masked_softmax(axis: str) -> Rule:
    """A softmax over an axis of -∞ but for the first frame and those where a mask is true."""

    def check(known: Known, mask: Facts, a: Facts) -> Facts | None:
        fits = mask.kind == "bool" and a.kind == "float" and axis in mask.axes and {"b"} | mask.axes <= a.axes
        return Facts(a.axes, 0.0, 1.0) if fits else None

    def named(env: Any, mask: rf.Tensor, a: rf.Tensor) -> rf.Tensor:
        mask = rf.logical_or(mask, rf.range_over_dim(env.dims[axis]) == 0)
        return rf.softmax(rf.where(mask, a, float("-inf")), axis=env.dims[axis])

    def plain(env: Any, mask: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        mask = mask | (plus_positions(torch.zeros_like(a), place(axis)) == 0)
        return torch.where(mask, a, -torch.inf).softmax(place(axis))

    return Rule(f"masked softmax over {axis}", 2, check, named, plain, weight=2)


def named_slice(env: Any, a: rf.Tensor, dim: rf.Dim) -> rf.Tensor:
    rest, shorter = rf.slice(a, axis=dim, start=1)
    return rf.reduce_sum(rest, axis=shorter)


def named_concat(env: Any, a: rf.Tensor, dim: rf.Dim) -> rf.Tensor:
    both, longer = rf.concat((a, dim), (rf.tanh(a), dim))
    return rf.reduce_sum(rf.softmax(both, axis=longer) * both, axis=longer)


def plain_concat(a: torch.Tensor, at: int) -> torch.Tensor:
    both = torch.cat([a, a.tanh()], at)
    return (both.softmax(at) * both).sum(at, keepdim=True)


def rules_over(axis: str) -> Iterator[Rule]:
    """The rules for an axis; those for frames only for t and e."""
    n = SIZES[axis]
    frames = axis in "te"
    filled = lambda found: lambda known, a: None if axis in known.empty else found(a)  # noqa: E731
    same = lambda a: (a.low, a.high)  # noqa: E731

    def summed(known: Known, a: Facts) -> tuple[float, float]:
        low, high = min(a.low, a.low * n), max(a.high, a.high * n)
        return with_zero(axis, known, low, high)

    def ratio(known: Known, a: Facts) -> tuple[float, float] | None:
        return (a.low / (n * a.high), 1.0) if a.low >= POSITIVE else None

    def weights(known: Known, a: Facts) -> tuple[float, float] | None:
        return (1 / (n * math.exp(a.high - a.low)), 1.0) if a.high - a.low < 20 else None

    def log_weights(known: Known, a: Facts) -> tuple[float, float]:
        return -(a.high - a.low) - math.log(n), 0.0

    rule = partial(over, axis)
    yield rule("sum", reduced(axis, summed), lambda env, a, dim: rf.reduce_sum(a, axis=dim),
               lambda a, at: a.sum(at, keepdim=True), weight=2)  # fmt: skip
    yield rule("mean", reduced(axis, lambda known, a: with_zero(axis, known, a.low, a.high)),
               lambda env, a, dim: rf.reduce_mean(a, axis=dim), plain_mean)  # fmt: skip
    yield rule("max", reduced(axis, filled(same)), lambda env, a, dim: rf.reduce_max(a, axis=dim),
               lambda a, at: a.amax(at, keepdim=True))  # fmt: skip
    yield rule("min", reduced(axis, filled(same)), lambda env, a, dim: rf.reduce_min(a, axis=dim),
               lambda a, at: a.amin(at, keepdim=True))  # fmt: skip
    yield rule("logsumexp", reduced(axis, filled(lambda a: (a.low, a.high + math.log(n)))),
               lambda env, a, dim: rf.reduce_logsumexp(a, axis=dim),
               lambda a, at: a.logsumexp(at, keepdim=True))  # fmt: skip
    yield rule("softmax", kept(weights), lambda env, a, dim: rf.softmax(a, axis=dim),
               lambda a, at: a.softmax(at), weight=2)  # fmt: skip
    yield rule("log_softmax", kept(log_weights), lambda env, a, dim: rf.log_softmax(a, axis=dim),
               lambda a, at: a.log_softmax(at))  # fmt: skip
    yield rule("over its sum", kept(ratio), lambda env, a, dim: a / rf.reduce_sum(a, axis=dim),
               lambda a, at: a / a.sum(at, keepdim=True), padding=True)  # fmt: skip
    yield rule("over its norm", kept(ratio), lambda env, a, dim: a / rf.sqrt(rf.reduce_sum(a * a, axis=dim)),
               lambda a, at: a / (a * a).sum(at, keepdim=True).sqrt(), padding=True)  # fmt: skip
    yield rule("first", reduced(axis, filled(same)), lambda env, a, dim: rf.gather(a, indices=0, axis=dim),
               lambda a, at: a.narrow(at, 0, 1))  # fmt: skip
    yield rule("last", reduced(axis, filled(same)), lambda env, a, dim: rf.gather(a, indices=-1, axis=dim),
               lambda a, at: a.narrow(at, a.shape[at] - 1, 1))  # fmt: skip
    yield rule("all but the first", reduced(axis, lambda known, a: (min(0.0, a.low * n), max(0.0, a.high * n))),
               named_slice, lambda a, at: a.narrow(at, 1, max(a.shape[at] - 1, 0)).sum(at, keepdim=True)
               if a.shape[at] else a.sum(at, keepdim=True))  # fmt: skip
    yield rule("concat with its tanh", reduced(axis, lambda known, a: (min(0.0, a.low, -1), max(0.0, a.high, 1))),
               named_concat, plain_concat)  # fmt: skip
    if frames:
        yield rule("cumsum", kept(lambda known, a: (min(a.low, a.low * n), max(a.high, a.high * n))),
                   lambda env, a, dim: rf.cumsum(a, spatial_dim=dim), lambda a, at: a.cumsum(at))  # fmt: skip
        yield rule("shift", kept(lambda known, a: (min(a.low, 0.5), max(a.high, 0.5))),
                   lambda env, a, dim: rf.shift_right(a, axis=dim, pad_value=0.5),
                   lambda a, at: torch.cat([torch.full_like(a, 0.5), a], at).narrow(at, a.shape[at] - 1, a.shape[at])
                   if a.shape[at] else a)  # fmt: skip
        yield rule("reverse", kept(lambda known, a: same(a)), lambda env, a, dim: rf.reverse_sequence(a, axis=dim),
                   lambda a, at: a.flip(at))  # fmt: skip
        yield rule("plus positions", kept(lambda known, a: (a.low, a.high + 0.1 * n)),
                   lambda env, a, dim: a + 0.1 * rf.cast(rf.range_over_dim(dim), a.dtype), plus_positions)  # fmt: skip
        attended = kept(lambda known, a: same(a) if a.axes == frozenset(("b", axis, "h")) else None)
        yield rule("self-attention", attended, named_self_attention, self_attention, weight=2)


# -- weights


def linear(inside: str, out: str, *, module: bool) -> Rule:
    """A shared weight; a module has a bias as well."""

    def check(known: Known, a: Facts) -> Facts | None:
        if a.kind != "float" or inside not in a.axes or out in a.axes:
            return None
        most = SIZES[inside] * spread(a.low, a.high) * 0.7 + 0.7
        return bounded((a.axes - {inside}) | {out}, -most, most)

    def named(env: Any, a: rf.Tensor) -> rf.Tensor:
        lin = env.modules[inside + out]
        return lin(a) if module else rf.matmul(a, lin.weight, reduce=env.dims[inside])

    def plain(env: Any, a: torch.Tensor) -> torch.Tensor:
        weight, bias = env.weights[f"{inside}{out}.weight"], env.weights[f"{inside}{out}.bias"]
        y = (a if inside == "k" else a.transpose(2, 3)) @ weight
        y = y + bias if module else y
        return y if out == "k" else y.transpose(2, 3)

    return Rule(f"{'Linear' if module else 'matmul'} {inside}{out}", 1, check, named, plain, weight=3)


def check_norm(known: Known, a: Facts) -> Facts | None:
    return Facts(a.axes, -2.0, 2.0) if a.kind == "float" and {"b", "h"} <= a.axes else None


def plain_norm(env: Any, a: torch.Tensor) -> torch.Tensor:
    mean = a.mean(2, keepdim=True)
    variance = (a - mean).square().mean(2, keepdim=True)
    return (a - mean) * torch.rsqrt(variance + 1e-6) * env.weights["norm.scale"][:, None] + env.weights["norm.bias"][
        :, None
    ]


def product(axis: str) -> Rule:
    """The product of two values, summed over an axis of both: attention, energies."""

    def check(known: Known, a: Facts, b: Facts) -> Facts | None:
        if not (a.kind == b.kind == "float" and axis in a.axes and axis in b.axes and "b" in a.axes | b.axes):
            return None
        if axis in "te" and not ("b" in a.axes and "b" in b.axes):
            return None
        ends = [x * y * n for x in (a.low, a.high) for y in (b.low, b.high) for n in (1, SIZES[axis])]
        return bounded((a.axes | b.axes) - {axis}, *with_zero(axis, known, min(ends), max(ends)))

    return Rule(
        f"product over {axis}",
        2,
        check,
        lambda env, a, b: rf.matmul(a, b, reduce=env.dims[axis]),
        lambda env, a, b: (a * b).sum(place(axis), keepdim=True),
        weight=3,
    )


def check_features(known: Known, a: Facts, b: Facts) -> Facts | None:
    fits = a.kind == b.kind == "float" and "h" in a.axes and "k" in b.axes and a.axes - {"h"} == b.axes - {"k"}
    return Facts(a.axes - {"h"}, -5.0, 5.0) if fits else None


def named_features(env: Any, a: rf.Tensor, b: rf.Tensor) -> rf.Tensor:
    both, dim = rf.concat((a, env.dims["h"]), (b, env.dims["k"]))
    return rf.reduce_sum(rf.sin(both), axis=dim)


def check_label(known: Known, labels: Facts, a: Facts) -> Facts | None:
    fits = labels.kind == "labels" and a.kind == "float" and "k" in a.axes and labels.axes <= a.axes | {"b"}
    return Facts((a.axes - {"k"}) | labels.axes, a.low, a.high) if fits else None


WEIGHTS = [
    *[linear(inside, out, module=module) for inside, out in ("hk", "kh") for module in (True, False)],
    Rule("LayerNorm", 1, check_norm, lambda env, a: env.modules["norm"](a), plain_norm, weight=2),
    *[product(axis) for axis in INNER],
    Rule("concat of features", 2, check_features, named_features,
         lambda env, a, b: a.sin().sum(2, keepdim=True) + b.sin().sum(3, keepdim=True)),
    Rule("gather by labels", 2, check_label,
         lambda env, labels, a: rf.gather(a, indices=labels, axis=env.dims["k"]),
         lambda env, labels, a: a.narrow(3, int(labels), 1), weight=3),
]  # fmt: skip

FAMILIES = {
    "unary": UNARY,
    "binary": BINARY,
    "choices": [*CHOICES, *[masked_softmax(axis) for axis in INNER]],
    **{f"over {axis}": list(rules_over(axis)) for axis in INNER},
    "weights": WEIGHTS,
}
"""Programs have about as many ops of each family."""
RULES = {rule.name: rule for rules in FAMILIES.values() for rule in rules}
"""By name."""
