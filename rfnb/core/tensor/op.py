"""Ops: every op is a row of `OPS`, and calls of it go through `op_call.door` while a listener is active."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, overload

from rfnb.core.dims.lengths import EMPTY
from rfnb.core.ground.raw import backend_of_raw, table_by_type
from rfnb.core.tensor.argument_errors import explained
from rfnb.core.tensor.argument_kinds import Check
from rfnb.core.tensor.listener import _listening
from rfnb.core.tensor.op_call import call_of, door
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import RfError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class OpRow:
    """An op, and how a loop may move it.

    frames: "any" if an extra dim in the operands never changes a result; the op may then run for all steps of a
        loop at once. The default is to stay where it is.
    random: whether it draws numbers. effect: whether it changes something besides its result.
    checks: what its wrapper checks before a call, by parameter.
    """

    name: str
    fn: Callable[..., Any]
    frames: Literal["any"] | None = None
    random: bool = False
    effect: bool = False
    checks: dict[str, Check] = field(default_factory=dict, compare=False)


OPS: dict[str, OpRow] = {}
"""All ops, by name."""


def add_row(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    frames: Literal["any"] | None = None,
    random: bool = False,
    effect: bool = False,
) -> OpRow:
    """A new row of `OPS`; an op that is defined again, as by a notebook cell that runs again, replaces its row.

    Raises RfError if another op has this name.
    """
    row = OpRow(name or fn.__name__, fn, frames, random, effect)
    old = OPS.get(row.name)
    if old is not None and _place(old.fn) != _place(fn):
        raise RfError(
            f"op: there is already an op called {row.name}",
            got=f"{fn.__module__}.{fn.__qualname__}",
            expected="a name of its own",
            hint=f'rf.op(name="my_{row.name}")',
        )
    OPS[row.name] = row
    return row


def _place(fn: Callable[..., Any]) -> tuple[str, str]:
    """Where a function is defined."""
    return fn.__module__, fn.__qualname__


@overload
def op(fn: F) -> F: ...


@overload
def op(
    *, frames: Literal["any"] | None = None, random: bool = False, effect: bool = False, name: str | None = None
) -> Callable[[F], F]: ...


def op(
    fn: Any = None,
    *,
    frames: Literal["any"] | None = None,
    random: bool = False,
    effect: bool = False,
    name: str | None = None,
) -> Any:
    """Makes a function an op: one node in loops, graphs and recorded runs, whatever it does inside.

    It may call torch functions on `raw_tensor`. A loop traces it once, as the rest of its body, and repeats these calls
    at each step. What needs Python, numpy or torch's random numbers at each step is passed to `rf.raw_call` instead.

    >>> @rf.op(frames="any")
    ... def softcap(x: rf.Tensor, cap: float) -> rf.Tensor:
    ...     out = x.copy_template()
    ...     out.raw_tensor = torch.tanh(x.raw_tensor / cap) * cap
    ...     return out
    >>> softcap(rf.convert_to_tensor([0.0, 100.0], dims=[rf.Dim(2, name="feat")]), cap=2.0).tolist()
    [0.0, 2.0]

    Args:
        frames: "any" if an extra dim in the operands never changes a result, as for elementwise functions; a loop may
            then run the op for all steps at once.
        random: whether it draws random numbers.
        effect: whether it changes something besides its result; such an op is never moved or left out.
        name: the name of the op, if not that of the function.

    Raises RfError if another op has this name.
    """

    def decorate(fn: F) -> F:
        row = add_row(fn, name=name, frames=frames, random=random, effect=effect)
        call = call_of(fn, row)
        functools.update_wrapper(call, fn)
        return call

    return decorate if fn is None else decorate(fn)


def method_of(owner: type, name: str | None = None) -> Callable[[F], F]:
    """Makes a function a method of a class of `core`, which cannot import ops."""

    def decorate(fn: F) -> F:
        setattr(owner, name or fn.__name__, fn)
        return fn

    return decorate


def unary(
    row: OpRow, raw_function: Callable[[Any], Callable[[Any], Any]], *, everywhere: bool = True
) -> Callable[[Tensor], Tensor]:
    """The fast path of an elementwise op: `raw_function(backend)` is its function on raw tensors.

    everywhere: whether finite numbers always give finite numbers. If not, `row.fn` computes padded tensors.
    """
    functions = table_by_type()
    name, slow = row.name, row.fn  # torch.compile traces these, but not the row

    @functools.wraps(slow)
    def call(a: Tensor) -> Tensor:
        try:
            if _listening:
                return door(OPS[name], (a,), {})
            if not isinstance(a, Tensor) or (a.lengths.ragged and not (everywhere and a.lengths.finite)):
                return slow(a)
            raw = a._raw
            function = functions.get(type(raw))
            if function is None:
                function = functions[type(raw)] = raw_function(backend_of_raw(raw))
            return tensor_of(function(raw), a.sig, a.lengths)
        except Exception as failure:
            _explain(name, {"a": a}, failure)
            raise

    return call


def binary(
    row: OpRow,
    raw_function: Callable[[Any], Callable[[Any, Any], Any]],
    *,
    plan_sign: int,
    everywhere: bool = True,
    with_numbers: Callable[[Any], bool] | None = None,
) -> Callable[[Any, Any], Tensor]:
    """The fast path of an elementwise op with two operands.

    The plan for two signatures is kept in the first one, under `plan_sign` times the serial of the second.
    `row.fn` makes it (`backend.base.math`) and computes all that no plan covers, and padding that is not finite.

    everywhere: whether finite numbers always give finite numbers. If not, `row.fn` computes padded tensors; those with
        a number as the second operand only if `with_numbers(number)` is false.
    """
    functions = table_by_type()
    name, slow = row.name, row.fn  # torch.compile traces these, but not the row
    labels = plan_sign > 0  # whether the result of labels are labels

    @functools.wraps(slow)
    def call(a: Any, b: Any) -> Tensor:
        try:
            if _listening:
                return door(OPS[name], (a, b), {})
            try:
                s = a.sig
                function = functions[type(a._raw)]
                kind = b.__class__
                if kind is float or kind is int:
                    if (not labels and s.sparse_dim is not None) or (
                        with_numbers is not None and a.lengths.ragged and not with_numbers(b)
                    ):
                        return slow(a, b)
                    return tensor_of(function(a._raw, b), s, a.lengths)
                o = b.sig
            except (AttributeError, KeyError):
                o = None
            if o is None:  # outside of `except`, so that errors of the op are not chained to this one
                _learn(functions, raw_function, a)
                return slow(a, b)
            sizes, b_sizes = a.lengths, b.lengths
            if sizes is not b_sizes:
                sizes = sizes if b_sizes is EMPTY else b_sizes if sizes is EMPTY else sizes.join(b_sizes, s, o)
            if sizes.ragged and not (everywhere and sizes.finite):
                return slow(a, b)
            if s is o and (labels or s.sparse_dim is None):
                return tensor_of(function(a._raw, b._raw), s, sizes)
            plan = s.plans.get(plan_sign * o.serial)
            if plan is None:
                return slow(a, b)
            how_a, how_b, out_ref, own_frames = plan
            out = out_ref()
            if out is None:
                return slow(a, b)
            raw_a, raw_b = a._raw, b._raw
            if (
                own_frames
                and sizes.ragged
                and (("a" in own_frames and _written(raw_a)) or ("b" in own_frames and _written(raw_b)))
            ):
                return slow(a, b)
            if how_a is not None:
                raw_a = backend_of_raw(raw_a).move_raw(raw_a, how_a)
            if how_b is not None:
                raw_b = backend_of_raw(raw_b).move_raw(raw_b, how_b)
            return tensor_of(function(raw_a, raw_b), out, sizes)
        except Exception as failure:
            _explain(name, {"a": a, "b": b}, failure)
            raise

    return call


def _explain(name: str, arguments: dict[str, Any], failure: Exception) -> None:
    """Raises the error that says which argument is wrong, if there is one."""
    error = None if isinstance(failure, RfError) else explained(name, OPS[name].fn, arguments, failure)
    if error is not None:
        raise error


def _written(raw: Any) -> bool:
    """Whether its values were changed in place, and with them perhaps its padding."""
    return bool(backend_of_raw(raw).version_raw(raw))


def _learn(
    functions: dict[type, Callable[..., Any]], raw_function: Callable[[Any], Callable[..., Any]], a: Any
) -> None:
    if isinstance(a, Tensor):
        functions[type(a._raw)] = raw_function(backend_of_raw(a._raw))
