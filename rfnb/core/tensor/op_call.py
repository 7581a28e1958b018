"""The call of an op, or of another public function: a generated wrapper with the same parameters.

The wrapper gives calls of an op to the active listener, checks the arguments that `argument_kinds` describes, and
explains a call that fails. With `*args, **kwargs` it would cost as much as a small op; so its text is generated from
the signature:

>>> def scale(a, factor=2.0, *, axis): ...
>>> print(text_of(scale))
def make(_op_fn, _op_row, _axis, _factor):
 def call(a, factor=_factor, *, axis=_axis, dim=None):
  if dim is not None or axis is _NOT_GIVEN: _which_axis(_op_row, a, dim)
  try:
   if _listening: return door(_op_row, (a, factor, ), dict(axis=axis))
   return _op_fn(a, factor, axis=axis)
  except Exception as failure:
   error = explained(_op_row.name, call, {'a': a, 'factor': factor, 'axis': axis}, failure)
   if error is None: raise
   raise error
 return call

A public function that is not an op gets the same by the decorator `guarded`, without the line of the listener. With an
`axis`, both also accept torch's `dim=`, to raise an error that shows the call with `axis=`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from rfnb.core.advice.torch_equivalents import axis, called, equivalent_error
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.argument_errors import explained, positional_error  # noqa: F401, for the generated text
from rfnb.core.tensor.argument_kinds import Check, checks_of
from rfnb.core.tensor.listener import _listener, _listening  # noqa: F401, for the generated text
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.vocab.vocab import Vocab
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.tensor.op import OpRow

F = TypeVar("F", bound=Callable[..., Any])
CODE_NAME = f"{__file__}: call"  # a path in this package, so that it never counts as user code


def door(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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
    """The wrapper of an op. Its code is generated when it is first called: for all ops that takes longer than the
    rest of `import rfnb`.

    Other modules hold the function by then, so it stays and gets the code of the generated one. Python allows that for
    functions with the same free variables: here, as in the text, these are `_op_fn`, `_op_row` and `call`.
    """

    def first_call(*args: Any, **kwargs: Any) -> Any:
        generated = _generated(_op_fn, _op_row)
        call.__defaults__, call.__kwdefaults__ = generated.__defaults__, generated.__kwdefaults__
        call.__code__ = generated.__code__
        call.__dict__.pop("_torchdynamo_disable", None)
        return call(*args, **kwargs)

    call: Any = first_call
    call._torchdynamo_disable = True  # torch.compile keeps the parameters of what it has traced: not these

    return call


def _generated(fn: Callable[..., Any], row: OpRow | Guarded) -> FunctionType:
    namespace: dict[str, Any] = {}
    text = text_of(fn, is_op=not isinstance(row, Guarded))
    exec(compile(text, CODE_NAME, "exec"), globals(), namespace)  # generated here, from names of parameters alone
    row.checks.update(checks_of(fn))
    call: FunctionType = namespace["make"](fn, row, **_defaults(fn))
    return call


def text_of(fn: Callable[..., Any], *, is_op: bool = True) -> str:
    """The text of the wrapper of `fn`. Defaults are arguments of `make`, as their values have no text."""
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
        f"   return _op_fn({', '.join([*in_order, *by_name.values()])})\n"
        f"  except Exception as failure:\n"
        f"   error = explained({name}, call, {{{', '.join(f'{p!r}: {p}' for p in reported)}}}, failure)\n"
        f"   if error is None: raise\n"
        f"   raise error\n"
        f" return call"
    )


def _declared(fn: Callable[..., Any], in_order: list[str], more: list[str]) -> list[str]:
    """The parameters of the wrapper: those of `fn`, and `more` that are only there to be refused."""
    parameters, defaults = inspect.signature(fn).parameters, _defaults(fn)
    declared = [
        f"{_STAR.get(p.kind, '')}{p.name}" + (f"=_{p.name}" if f"_{p.name}" in defaults else "")
        for p in parameters.values()
    ]
    starred = [parameter for parameter in more if parameter.startswith("*")]
    if any(p.kind is p.KEYWORD_ONLY for p in parameters.values()) and not any(p.startswith("*") for p in in_order):
        declared.insert(len(in_order), *(starred or ["*"]))
    kinds = [p.kind for p in parameters.values()]
    if inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.POSITIONAL_ONLY in kinds:  # any name may follow
        declared.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    return declared + [parameter for parameter in more if parameter not in starred]


def _refused(fn: Callable[..., Any], in_order: list[str], name: str) -> tuple[list[str], str]:
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


_STAR: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
_NOT_GIVEN = object()


def _defaults(fn: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of `fn`, by the names that they have in the text; an `axis` without one may be left out."""
    parameters = inspect.signature(fn).parameters.values()
    missing_axis = {"_axis": _NOT_GIVEN} if _has_axis(fn) else {}
    return missing_axis | {f"_{p.name}": p.default for p in parameters if p.default is not p.empty}


def _has_axis(fn: Callable[..., Any]) -> bool:
    """Whether this is `op(tensor, …, *, axis=…)`."""
    parameters = list(inspect.signature(fn).parameters.values())
    axes = [p for p in parameters if p.name == "axis" and p.kind is p.KEYWORD_ONLY]
    positional = parameters[0].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD if parameters else False
    return bool(axes) and positional and all(p.name not in ("dim", "self") for p in parameters)


def _no_pairs(row: OpRow | Guarded, sources: tuple[Any, ...], dim: Any) -> None:
    """Raises the error for an op on pairs (tensor, dim) that was called with one dim for all."""
    tensors = sources[0] if len(sources) == 1 and isinstance(sources[0], list | tuple) else sources
    pairs = ", ".join(f"({called(item[0] if isinstance(item, tuple) else item)}, {called(dim)})" for item in tensors)
    raise DimError(
        f"{row.name}: each source comes with its own dim",
        got=f"axis={called(dim)}",
        expected="pairs",
        hint=f"rf.{row.name}({pairs})",
    )


def _which_axis(row: OpRow, source: Any, dim: Any) -> None:
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
