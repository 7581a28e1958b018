"""The table of ops: how each is called, and the fast paths of Tensor's operators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from rfnb.core.advice.torch_equivalents import axis, called, equivalent_error
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.ground.backends import backend_of_raw, table_by_type
from rfnb.core.tensor.arguments import Check, checks_of, explained, positional_error, unknown_argument  # noqa: F401, for the text
from rfnb.core.tensor.listener import _listener, _listening
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.core.vocab import Vocab
from rfnb.errors import DimError, RfError

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
CODE_NAME = f"{__file__}: call"  # a path in this package, so that it never counts as user code


def door(row: OpRow, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Computes an op while a listener is active in some thread."""
    listener = _listener.get()
    return row.fn(*args, **kwargs) if listener is None else listener.call(row, args, kwargs)


@dataclass(frozen=True, slots=True)
class Guarded:
    """Stands for the row of a public function that is not an op."""

    name: str
    checks: dict[str, Check] = field(default_factory=dict)

    def class_of(self, made: object) -> str:
        """The name for errors of a constructor, which a subclass may have called."""
        return type(made).__name__


def guarded(fn: F, name: str | None = None) -> F:
    """Makes a public function check and explain its arguments as an op does.

    >>> rf.label_smoothing([0.1, 0.9], 0.1)
    Traceback (most recent call last):
    rfnb.errors.DtypeError: label_smoothing: `prob` is not an rf.Tensor
    ...
    """
    call = call_of(fn, Guarded(name or fn.__name__))
    functools.update_wrapper(call, fn)
    return call


def guard_methods(cls: type, *names: str) -> None:
    """Makes these methods of a class check and explain their arguments, as `guarded` does."""
    for name in names:
        method = inspect.getattr_static(cls, name)
        if isinstance(method, classmethod):
            setattr(cls, name, classmethod(guarded(method.__func__, name)))
        else:
            setattr(cls, name, guarded(method, cls.__name__ if name.startswith("__") else name))


def call_of(_op_fn: F, _op_row: OpRow | Guarded) -> F:
    """The wrapper of an op: it calls `_op_fn`, or, if that is `backend_of_raw`, the method of a backend with its name.

    Its code is generated when it is first called: for all ops that takes longer than the rest of `import rfnb`.
    Other modules hold the function by then, so it stays and gets the code of the generated one. Python allows that for
    functions with the same free variables: here, as in the text, these are `_op_fn`, `_op_row` and `call`.
    """

    def first_call(*args: object, **kwargs: object) -> object:
        nonlocal _op_fn
        _op_fn = _in_order(_op_fn)
        generated = _generated(_op_fn, _op_row)
        call.__defaults__, call.__kwdefaults__ = generated.__defaults__, generated.__kwdefaults__
        call.__code__ = generated.__code__
        call.__dict__.pop("_torchdynamo_disable", None)
        return call(*args, **kwargs)

    call: Any = first_call
    call._torchdynamo_disable = True  # torch.compile keeps the parameters of what it has traced: not these

    return call


def _generated(fn: Callable[..., object], row: OpRow | Guarded) -> FunctionType:
    namespace: dict[str, Any] = {}
    of_backend = fn is backend_of_raw and isinstance(row, OpRow)
    signed = row.fn if of_backend and isinstance(row, OpRow) else fn
    text = text_of(signed, is_op=not isinstance(row, Guarded), of_backend=of_backend)
    exec(compile(text, CODE_NAME, "exec"), globals(), namespace)  # generated here, from names of parameters alone
    row.checks.update(checks_of(signed))
    call: FunctionType = namespace["make"](fn, row, **_defaults(signed))
    return call


def _in_order(fn: F) -> F:
    """The function with all parameters by position: arguments by name cost more, and those with stars much more."""
    code, stars = getattr(fn, "__code__", None), inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    if code is None or hasattr(fn, "__wrapped__") or not (code.co_kwonlyargcount or code.co_flags & stars):
        return fn
    count = len(inspect.signature(fn).parameters)
    code = code.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~stars)
    quick: Any = functools.update_wrapper(FunctionType(code, fn.__globals__, fn.__name__, None, fn.__closure__), fn)
    quick._in_order = code.co_varnames[:count]
    return quick


def text_of(fn: Callable[..., object], *, is_op: bool = True, of_backend: bool = False) -> str:
    """The text of the wrapper of `fn`. Defaults are arguments of `make`, as their values have no text.

    of_backend: whether the wrapper calls the method of a backend that has the name of `fn`.
    """
    parameters, defaults = inspect.signature(fn).parameters, _defaults(fn)
    by_name = {
        p.name: f"**{p.name}" if p.kind is p.VAR_KEYWORD else f"{p.name}={p.name}"
        for p in parameters.values()
        if p.kind in _BY_NAME
    }
    in_order = [f"{_STAR.get(p.kind, '')}{p.name}" for p in parameters.values() if p.name not in by_name]
    makes = fn.__name__ == "__init__"  # what it makes has nothing to show yet
    name = "_op_row.class_of(self)" if makes else "_op_row.name"
    reported = [p for p in parameters if not makes or p != "self"]
    extra, refused = _refused(fn, in_order, name)
    if inspect.Parameter.VAR_KEYWORD not in (p.kind for p in parameters.values()):
        extra.append("**_others")
        refused = f"  if _others: raise unknown_argument({name}, call, _others)\n{refused}"
    called_fn = f"_op_fn({next(iter(parameters))}._raw).{fn.__name__}" if of_backend else "_op_fn"
    passed = getattr(fn, "_in_order", None) or [*in_order, *by_name.values()]
    checked = "".join(f"   _op_row.checks[{p!r}]({name}, {p!r}, {p})\n" for p in checks_of(fn))
    listened = f"   if _listening: return door(_op_row, ({''.join(f'{argument}, ' for argument in in_order)}), "
    listened += f"dict({', '.join(by_name.values())}))\n"
    return (
        f"def make({', '.join(['_op_fn', '_op_row', *defaults])}):\n"
        f" def call({', '.join(_declared(fn, in_order, extra))}):\n"
        f"{refused}"
        f"  try:\n"
        f"{checked}"
        f"{listened if is_op else ''}"
        f"   return {called_fn}({', '.join(passed)})\n"
        f"  except Exception as failure:\n"
        f"   error = explained({name}, call, {{{', '.join(f'{p!r}: {p}' for p in reported)}}}, failure)\n"
        f"   if error is None: raise\n"
        f"   raise error\n"
        f" return call"
    )


def _declared(fn: Callable[..., object], in_order: list[str], more: list[str]) -> list[str]:
    """The parameters of the wrapper: those of `fn`, and `more` that are only there to be refused."""
    parameters, defaults = inspect.signature(fn).parameters, _defaults(fn)
    declared = [
        f"{_STAR.get(p.kind, '')}{p.name}" + (f"=_{p.name}" if f"_{p.name}" in defaults else "")
        for p in parameters.values()
    ]
    starred = [parameter for parameter in more if parameter.startswith("*_given")]
    if any(p.kind is p.KEYWORD_ONLY for p in parameters.values()) and not any(p.startswith("*") for p in in_order):
        declared.insert(len(in_order), *(starred or ["*"]))
    kinds = [p.kind for p in parameters.values()]
    if inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.POSITIONAL_ONLY in kinds:  # any name may follow
        declared.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    return declared + [parameter for parameter in more if parameter not in starred]


def _refused(fn: Callable[..., object], in_order: list[str], name: str) -> tuple[list[str], str]:
    """Further parameters of the wrapper, and the line that raises an error if they are given."""
    parameters = inspect.signature(fn).parameters
    if _has_axis(fn):
        return ["dim=None"], (f"  if dim is not None or axis is _NOT_GIVEN: _which_axis(_op_row, {in_order[0]}, dim)\n")
    if in_order[:1] == ["*sources"]:
        return ["axis=None", "dim=None"], (
            "  if axis is not None or dim is not None: _no_pairs(_op_row, sources, axis or dim)\n"
        )
    kinds = {p.kind for p in list(parameters.values())[len(in_order) :]}
    if in_order in ([], ["self"]) and kinds == {inspect.Parameter.KEYWORD_ONLY}:
        return ["*_given"], f"  if _given: raise positional_error({name}, call, _given)\n"
    return [], ""


_STAR: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
_NOT_GIVEN = object()


def _defaults(fn: Callable[..., object]) -> dict[str, object]:
    """The defaults of `fn`, by the names that they have in the text; an `axis` without one may be left out."""
    parameters = inspect.signature(fn).parameters.values()
    missing_axis = {"_axis": _NOT_GIVEN} if _has_axis(fn) else {}
    return missing_axis | {f"_{p.name}": p.default for p in parameters if p.default is not p.empty}


def _has_axis(fn: Callable[..., object]) -> bool:
    """Whether this is `op(tensor, …, *, axis=…)`."""
    parameters = list(inspect.signature(fn).parameters.values())
    axes = [p for p in parameters if p.name == "axis" and p.kind is p.KEYWORD_ONLY]
    positional = parameters[0].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD if parameters else False
    return bool(axes) and positional and all(p.name not in ("dim", "self") for p in parameters)


def _no_pairs(row: OpRow | Guarded, sources: tuple[object, ...], dim: object) -> None:
    """Raises the error for an op on pairs (tensor, dim) that was called with one dim for all."""
    tensors = sources[0] if len(sources) == 1 and isinstance(sources[0], list | tuple) else sources
    pairs = ", ".join(f"({called(item[0] if isinstance(item, tuple) else item)}, {called(dim)})" for item in tensors)
    raise DimError(
        f"{row.name}: each source comes with its own dim",
        got=f"axis={called(dim)}",
        expected="pairs",
        hint=f"rf.{row.name}({pairs})",
    )


def _which_axis(row: OpRow, source: object, dim: object) -> None:
    """Raises the error for an op that was called without an axis, or with the number of one."""
    if dim is None or not isinstance(source, Tensor):
        raise TypeError(f"{row.name}() needs `axis`, a Dim")
    raise equivalent_error(
        f"rf.{row.name}({called(source)}, dim={dim})",
        f"rf.{row.name}({called(source)}, axis={axis(source, dim)})",
        source,
    )


guard_methods(Dim, "bind", "copy", "reset_raw")
guard_methods(Tensor, "__init__", "axis", "copy", "copy_template")
guard_methods(Vocab, "__init__", "create_vocab_from_labels", "decode", "encode", "get_seq_labels", "join", "of_labels")


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
    fn: Callable[..., object],
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


def _place(fn: Callable[..., object]) -> tuple[str, str]:
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


def op_of_backend(
    method: Callable[P, R],
    module: str,
    *,
    frames: Literal["any"] | None = None,
    random: bool = False,
    effect: bool = False,
) -> Callable[P, R]:
    """Makes a method of a backend an op, with the same parameters: it is called of the backend of the first argument.

    module: the module that the op belongs to. The other options are those of `op`.
    """
    name, first = method.__name__, next(iter(inspect.signature(method).parameters))

    def fn(*args: P.args, **kwargs: P.kwargs) -> R:
        source: Any = args[0] if args else kwargs[first]
        result: R = getattr(backend_of_raw(source._raw), name)(*args, **kwargs)
        return result

    functools.update_wrapper(fn, method)
    fn.__module__, fn.__qualname__ = module, name
    call: Any = call_of(backend_of_raw, add_row(fn, frames=frames, random=random, effect=effect))
    functools.update_wrapper(call, fn)
    typed: Callable[P, R] = call
    return typed


def method_of(owner: type, name: str | None = None) -> Callable[[F], F]:
    """Makes a function a method of a class of `core`, which cannot import ops."""

    def decorate(fn: F) -> F:
        setattr(owner, name or fn.__name__, fn)
        return fn

    return decorate


class OneOperand(Protocol):
    """An op of one operand, computed entry by entry."""

    def __call__(self, a: Tensor | complex) -> Tensor:
        """Computes it."""


class TwoOperands(Protocol):
    """An op of two operands, computed entry by entry."""

    def __call__(self, a: Tensor | complex, b: Tensor | complex) -> Tensor:
        """Computes it."""


def unary(
    row: OpRow, raw_function: Callable[[Any], Callable[[RawTensor], RawTensor]], *, everywhere: bool = True
) -> OneOperand:
    """The fast path of an elementwise op: `raw_function(backend)` is its function on raw tensors.

    everywhere: whether finite numbers always give finite numbers. If not, `row.fn` computes padded tensors.
    """
    functions = table_by_type()
    name, slow = row.name, row.fn  # torch.compile traces these, but not the row

    @functools.wraps(slow)
    def call(a: object, **others: object) -> Tensor:
        try:
            if _listening or others:
                if others:
                    raise unknown_argument(name, slow, others)
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
    raw_function: Callable[[Any], Callable[[RawTensor, RawTensor], RawTensor]],
    *,
    plan_sign: int,
    everywhere: bool = True,
    with_numbers: Callable[[Any], bool] | None = None,
) -> TwoOperands:
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
    def call(a: Any, b: Any) -> Tensor:  # no **others: operators cost enough
        try:
            if _listening:
                return door(OPS[name], (a, b), {})
            try:
                s = a.sig
                function = functions[type(a._raw)]
                kind = type(b)
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
                if isinstance(a, Tensor):
                    functions[type(a._raw)] = raw_function(backend_of_raw(a._raw))
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
            if own_frames and sizes.ragged:
                version = backend_of_raw(raw_a).version_raw  # of padding that was perhaps changed in place
                if (own_frames != "b" and version(raw_a)) or (own_frames != "a" and version(raw_b)):
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


def _explain(name: str, arguments: dict[str, object], failure: Exception) -> None:
    """Raises the error that says which argument is wrong, if there is one."""
    error = None if isinstance(failure, RfError) else explained(name, OPS[name].fn, arguments, failure)
    if error is not None:
        raise error
