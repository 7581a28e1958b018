"""The one door: every op is a row of `OPS`; whoever listens sees each call before it happens."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal, Protocol, TypeVar

from rfnb.core.advice.torch_equivalents import axis, called, refusal
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.ground.raw import backend_of_raw, table_by_type
from rfnb.core.tensor.argument_errors import misfit  # noqa: F401, for the text in `_guarded`
from rfnb.core.tensor.tensor import Tensor, new
from rfnb.errors import RfError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class OpRow:
    """An op, and how it may be moved.

    frames: "any" if an extra dim in the operands never changes a result; the op may then run for all steps of a
        loop at once. The default is to stay where it is.
    random: whether it draws numbers. effect: whether it changes something besides its result.
    """

    name: str
    fn: Callable[..., Any]
    frames: Literal["any"] | None = None
    random: bool = False
    effect: bool = False


OPS: dict[str, OpRow] = {}
"""All ops, by name."""


class Listener(Protocol):
    """Somebody who sees every op of this thread."""

    def call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Does the op, or has it done, and gives its result."""

    def call_module(
        self, module: Any, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Likewise for the call of a module."""

    def cond(self, pred: Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
        """What one of them gives, by a tensor without dims."""


_listener: ContextVar[Listener | None] = ContextVar("rfnb_listener", default=None)
_listening: list[Listener | None] = []  # in any thread: the quick paths look only at whether it is empty


def listener() -> Listener | None:
    """Who listens in this thread."""
    return _listener.get() if _listening else None


@contextmanager
def listening(who: Listener | None) -> Iterator[None]:
    """`who` sees the ops of this thread inside the block; None: nobody does."""
    token = _listener.set(who)
    _listening.append(who)
    try:
        yield
    finally:
        _listening.remove(who)
        _listener.reset(token)


def door(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Does an op while somebody listens somewhere."""
    who = _listener.get()
    return row.fn(*args, **kwargs) if who is None else who.call(row, args, kwargs)


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
    before = OPS.get(row.name)
    if before is not None and _place(before.fn) != _place(fn):
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


def op(
    *, frames: Literal["any"] | None = None, random: bool = False, effect: bool = False, name: str | None = None
) -> Callable[[F], F]:
    """Makes a function an op: one node in loops, graphs and recorded runs, whatever it does inside.

    In a loop it runs at every step, on the tensors of that step, so it may use torch on `raw_tensor`.

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
        call = _guarded(fn, add_row(fn, name=name, frames=frames, random=random, effect=effect))
        functools.update_wrapper(call, fn)
        return call

    return decorate


def _guarded(_op_fn: F, _op_row: OpRow) -> F:
    """`fn`, by way of the door while somebody listens; told `dim=`, as in torch, it says which axis is meant.

    Its code is written when it is first called: that of all ops takes longer than the rest of `import rfnb`.
    """

    def first_call(*args: Any, **kwargs: Any) -> Any:
        written = _written(_op_fn, _op_row)
        call.__defaults__, call.__kwdefaults__ = written.__defaults__, written.__kwdefaults__
        call.__code__ = written.__code__  # the same three variables are outside of it
        return call(*args, **kwargs)

    call = first_call

    return call  # type: ignore[return-value]


_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


def _written(fn: Callable[..., Any], row: OpRow) -> FunctionType:
    """The call of an op with the very parameters of `fn`: `*args, **kwargs` would cost as much as a small op."""
    parameters = inspect.signature(fn).parameters
    star: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    defaults = {f"_{p.name}": p.default for p in parameters.values() if p.default is not p.empty}
    teaches = _has_axis(list(parameters.values()))
    if teaches:
        defaults.setdefault("_axis", _NOT_GIVEN)
    declared = [
        f"{star.get(p.kind, '')}{p.name}" + (f"=_{p.name}" if f"_{p.name}" in defaults else "")
        for p in parameters.values()
    ]
    by_name = {
        p.name: f"**{p.name}" if p.kind is p.VAR_KEYWORD else f"{p.name}={p.name}"
        for p in parameters.values()
        if p.kind in _BY_NAME
    }
    in_order = [f"{star.get(p.kind, '')}{p.name}" for p in parameters.values() if p.name not in by_name]
    if any("=" in passed for passed in by_name.values()) and not any(name.startswith("*") for name in in_order):
        declared.insert(len(in_order), "*")
    teach = ""
    if teaches:
        declared.append("dim=None")
        teach = f"  if dim is not None or axis is _NOT_GIVEN: _which_axis(_op_row, {in_order[0]}, dim)\n"
    text = (
        f"def make(_op_fn, _op_row, {', '.join(defaults)}):\n"
        f" def call({', '.join(declared)}):\n"
        f"{teach}"
        f"  try:\n"
        f"   if _listening: return door(_op_row, ({''.join(f'{name}, ' for name in in_order)}), "
        f"dict({', '.join(by_name.values())}))\n"
        f"   return _op_fn({', '.join([*in_order, *by_name.values()])})\n"
        f"  except (AttributeError, TypeError):\n"
        f"   error = misfit(_op_row.name, call, {{{', '.join(f'{p!r}: {p}' for p in parameters)}}})\n"
        f"   if error is None: raise\n"
        f"   raise error from None\n"
        f" return call"
    )
    made: dict[str, Any] = {}
    exec(compile(text, __file__, "exec"), globals(), made)  # our own text: names of parameters only
    written: FunctionType = made["make"](fn, row, **defaults)
    return written


def _has_axis(parameters: list[inspect.Parameter]) -> bool:
    """Whether this is `op(tensor, …, *, axis=…)`."""
    axes = [p for p in parameters if p.name == "axis" and p.kind is p.KEYWORD_ONLY]
    first = parameters[0].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD if parameters else False
    return bool(axes) and first and all(p.name != "dim" for p in parameters)


_NOT_GIVEN = object()


def _which_axis(row: OpRow, source: Any, dim: Any) -> None:
    """Raises the error for an op that was told no axis, or its number."""
    if dim is None or not isinstance(source, Tensor):
        raise TypeError(f"{row.name}() needs `axis`, a Dim")
    raise refusal(
        f"rf.{row.name}({called(source)}, dim={dim})",
        f"rf.{row.name}({called(source)}, axis={axis(source, dim)})",
        source,
    )


def method_of(owner: type, name: str | None = None) -> Callable[[F], F]:
    """Makes a function a method of a core class, which cannot know ops."""

    def decorate(fn: F) -> F:
        setattr(owner, name or fn.__name__, fn)
        return fn

    return decorate


def unary(row: OpRow, raw_function: Callable[[Any], Callable[[Any], Any]]) -> Callable[[Tensor], Tensor]:
    """The quick form of an elementwise op: `raw_function(backend)` gives what does it on raw tensors."""
    functions = table_by_type()

    @functools.wraps(row.fn)
    def call(a: Tensor) -> Tensor:
        if _listening:
            return door(row, (a,), {})
        if not isinstance(a, Tensor):
            return row.fn(a)
        raw = a._raw
        function = functions.get(type(raw))
        if function is None:
            function = functions[type(raw)] = raw_function(backend_of_raw(raw))
        result = new(Tensor)
        result._emptied = None
        result._raw = function(raw)
        result.sig = a.sig
        result.lengths = a.lengths
        return result

    return call


def binary(
    row: OpRow, raw_function: Callable[[Any], Callable[[Any, Any], Any]], *, plan_sign: int
) -> Callable[[Any, Any], Tensor]:
    """The quick form of an elementwise op of two operands.

    The plan for two signatures is kept in the first one under `plan_sign` times the serial of the second;
    `row.fn` makes it (`backend.base.math`), and does all that is not in the plan. It also keeps padding out of the
    gradient of an operand that is trained and lacks frames of the other.
    """
    functions = table_by_type()
    labels = plan_sign > 0  # whether a result of labels is labels

    @functools.wraps(row.fn)
    def call(a: Any, b: Any) -> Tensor:
        if _listening:
            return door(row, (a, b), {})
        try:
            s = a.sig
            function = functions[type(a._raw)]
            kind = b.__class__
            if kind is float or kind is int:
                if not labels and s.sparse_dim is not None:
                    return row.fn(a, b)
                result = new(Tensor)
                result._emptied = None
                result._raw = function(a._raw, b)
                result.sig = s
                result.lengths = a.lengths
                return result
            o = b.sig
        except (AttributeError, KeyError):
            o = None
        if o is None:  # outside of `except`: errors of the op have no other before them
            _learn(functions, raw_function, a)
            return row.fn(a, b)
        mine, theirs = a.lengths, b.lengths
        if mine is not theirs:
            mine = mine if theirs is EMPTY else theirs if mine is EMPTY else mine.join(theirs, s, o)
        result = new(Tensor)
        result._emptied = None
        if s is o and (labels or s.sparse_dim is None):
            result._raw = function(a._raw, b._raw)
            result.sig = s
            result.lengths = mine
            return result
        plan = s.plans.get(plan_sign * o.serial)
        out = plan and plan[2]()
        if not out:
            return row.fn(a, b)
        how_a, how_b, _, a_lacks, b_lacks = plan
        raw_a, raw_b = a._raw, b._raw
        if ((b_lacks and _trained(raw_b, o)) or (a_lacks and _trained(raw_a, s))) and mine.ragged:
            return row.fn(a, b)
        if how_a is not None:
            raw_a = backend_of_raw(raw_a).move_raw(raw_a, how_a)
        if how_b is not None:
            raw_b = backend_of_raw(raw_b).move_raw(raw_b, how_b)
        result._raw = function(raw_a, raw_b)
        result.sig = out
        result.lengths = mine
        return result

    return call


def _trained(raw: Any, sig: Any) -> bool:
    """Whether `backend.base.mask` may keep padding out of its gradient."""
    return getattr(raw, "requires_grad", False) and (raw.is_leaf or not sig.batched)


def _learn(
    functions: dict[type, Callable[..., Any]], raw_function: Callable[[Any], Callable[..., Any]], a: Any
) -> None:
    if isinstance(a, Tensor):
        functions[type(a._raw)] = raw_function(backend_of_raw(a._raw))
