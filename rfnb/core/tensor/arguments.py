"""Arguments of ops and of public functions: their kinds by annotations, and errors that explain calls that failed."""

from __future__ import annotations

import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Number
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from rfnb.core.advice.similar_dims import nearest
from rfnb.core.advice.torch_equivalents import called, equivalent_error
from rfnb.core.dims.align import show_dims
from rfnb.core.dims.axis_names import AxisOrder
from rfnb.core.dims.dim import Dim, check_dims, single_step_dim
from rfnb.core.ground.defaults import has_fractions
from rfnb.core.ground.source import is_users, steps_of
from rfnb.core.ground.text import did_you_mean, nearest as nearest_names
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import BackendError, DimError, DtypeError, ParameterError, RfError

WHOLE, NUMBER = (int, np.integer), (int, float, np.number)
LARGEST = sys.float_info.max

Check = Callable[[str, str, Any], None]
"""Takes the name of the function, that of the parameter, and the value. Raises ParameterError if it is wrong."""


@dataclass(frozen=True)
class InRange:
    """Numbers from `low` to `high`; None: without an end. The values of Tensors, on a device, are not read.

    Args:
        what: the number in words.
        kinds: other types are refused before a call; by default they are judged after it has failed.
    """

    low: float
    high: float | None = None
    what: str = "a number"
    kinds: tuple[type, ...] = ()

    @property
    def expected(self) -> str:
        """The range in words."""
        if self.low == -LARGEST:
            return "such as 1.0"
        kind = "an integer, " if self.kinds == WHOLE else ""
        return f"{kind}{self.low} or more" if self.high in (None, LARGEST) else f"{self.low} to {self.high}"

    def check(self, function: str, parameter: str, value: Any) -> None:
        """Raises ParameterError for a number outside of the range, NaN included."""
        number = isinstance(value, self.kinds or NUMBER) and not (self.kinds == WHOLE and isinstance(value, bool))
        fits = number and self.low <= value and (self.high is None or value <= self.high)
        if not fits and (number or self.kinds):
            fault = f"{function}: `{parameter}` is not {self.what}"
            raise ParameterError(fault, got=repr(value), expected=self.expected)


class OneOf:
    """One of a few strings, or a list of them. any_case: whether upper and lower case mean the same."""

    def __init__(self, *values: str, any_case: bool = False):
        self.values, self.any_case = values, any_case

    def check(self, function: str, parameter: str, value: object) -> None:
        """Raises ParameterError for another string. Other types are judged after a call has failed."""
        for entry in value if isinstance(value, list | tuple) else (value,):
            name = entry.lower() if self.any_case and isinstance(entry, str) else entry
            if isinstance(entry, str) and name not in self.values:
                raise ParameterError(
                    f"{function}: unknown `{parameter}`",
                    got=repr(entry),
                    expected=" or ".join(map(repr, self.values)),
                    hint=did_you_mean(entry, self.values),
                )


class AnonymousText:
    """A string that is shown later, where nobody would know whom it is from."""

    def check(self, function: str, parameter: str, value: object) -> None:
        """Raises ParameterError for what is not a string."""
        if not isinstance(value, str):
            raise ParameterError(
                f"{function}: `{parameter}` is not a string", got=type(value).__name__, expected="a string"
            )


class Floats:
    """Marks a Tensor that must have a float dtype, which is judged after a call has failed."""


Probability = Annotated[float, InRange(0.0, 1.0, "a probability")]
Count = Annotated[int, InRange(0, what="a number of times")]
Positive = Annotated[int, InRange(1, what="a positive number")]
CountFrom0 = Annotated[int, InRange(0, what="a count", kinds=WHOLE)]
CountFrom1 = Annotated[int, InRange(1, what="a count", kinds=WHOLE)]
Finite = Annotated[float, InRange(-LARGEST, LARGEST, "a finite number", NUMBER)]
NotNaN = Annotated[float, InRange(-LARGEST, None, "a finite number", NUMBER)]
Name = Annotated[str, AnonymousText()]
FloatTensor = Annotated[Tensor, Floats]


def hints_of(fn: Callable[..., object]) -> dict[str, object]:
    """The annotations of the parameters; Any for those with names that only type checkers can resolve."""
    fn = inspect.unwrap(fn)
    hints: dict[str, object] = {}
    names = vars(sys.modules[fn.__module__]) if isinstance(fn, type) else fn.__globals__
    for name, annotation in getattr(fn, "__annotations__", {}).items():
        only_this = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= get_type_hints(only_this, names, include_extras=True)
        except Exception:  # whatever stands in an annotation of a user's function, its calls go on
            hints[name] = Any
    return hints


@cache
def checks_of(fn: Callable[..., object]) -> dict[str, Check]:
    """The checks that calls of `fn` need, by parameter, or those of the fields of a dataclass."""
    checks = {name: check_of(hint) for name, hint in hints_of(fn).items() if name != "return"}
    return {name: check for name, check in checks.items() if check is not None}


def check_of(hint: object) -> Check | None:
    """The check that values of an annotation need; None if its type says it all."""
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    marks = [mark for part in parts for mark in getattr(part, "__metadata__", ())]
    mark = next((mark for mark in marks if isinstance(mark, InRange | OneOf | AnonymousText)), None)
    others = [part for part in parts if not hasattr(part, "__metadata__")]
    if mark is None or not getattr(mark, "kinds", ()) or not others:
        return None if mark is None else mark.check

    def check(function: str, parameter: str, value: object) -> None:
        if all(mismatches(value, part) for part in others):
            mark.check(function, parameter, value)

    return check


RAW = (AttributeError, TypeError, ValueError, LookupError, RuntimeError, ArithmeticError)
"""What Python, torch and numpy raise for wrong arguments."""

AXES = re.compile(r"(^|_)(axis|axes|in_dims?|spatial_dims?|indices_dim|key_dim|reduce)$")
"""Parameters for dims that a tensor must have."""

Arguments = dict[str, Any]


def explained(name: str, fn: Callable[..., object], arguments: Arguments, failure: Exception) -> RfError | None:
    """The error to raise for a call of `fn` that failed; None if `failure` says it all.

    That is so for errors of rfnb, for those of the user's own code, which an op may call, and for kinds of errors that
    torch has a class for, such as a lack of memory.
    """
    ours = isinstance(failure, RfError)
    if not isinstance(failure, RAW) or (ours and not isinstance(failure, AttributeError | TypeError | DimError)):
        return None
    arguments, hints = _by_name(fn, arguments)
    wrong = list(_wrong_types(fn, arguments, hints))
    if isinstance(failure, DimError):  # it may be about the name or the position of an axis, given for the Dim
        wrong = [entry for entry in wrong if AXES.search(entry[0]) and isinstance(entry[1], str | int)]
        wrong = wrong if next(_tensors(arguments), None) is not None else []
    error = _tensor_or_dim_error(name, wrong, arguments)
    if error is None and wrong and not ours:
        parameter, value, hint = wrong[0]
        error = not_of_kind(f"{name}: `{parameter}`", value, hint)
    if error is not None:
        error.__suppress_context__ = True
    elif not ours and _from_a_kernel(failure, arguments):
        error = _missing_dim(name, arguments) or _dim_given_twice(name, arguments)
        error = error or _dtype_error(name, hints, arguments, failure) or _refused(name, arguments, failure)
        error.__cause__ = failure
    return error


def positional_error(name: str, fn: Callable[..., object], given: Sequence[object]) -> ParameterError:
    """The error for arguments without names, of a function that takes all of them by name."""
    hints = {key: hint for key, hint in hints_of(fn).items() if key not in ("self", "return")}
    free, named = {key: hint for key, hint in hints.items() if hint not in (Any, object)}, []
    parameters = inspect.signature(fn).parameters
    is_method = "self" in parameters and name[0].islower()  # the name of `__init__` is that of its class
    for value in given:
        fits = next(
            (key for key, hint in free.items() if hint not in (Any, object) and not mismatches(value, hint)), None
        )
        free.pop(fits or "", None)
        named.append(f"{fits or '…'}={called(value)}")
    return ParameterError(
        f"{name}: all arguments must be given by name",
        got=", ".join(map(called, given)),
        expected=", ".join(parameters).removeprefix("self, "),
        hint=f"{'' if is_method else 'rf.'}{name}({', '.join(named)})",
    )


def unknown_argument(name: str, fn: Callable[..., object], others: Mapping[str, object]) -> TypeError:
    """The error for an argument that a function does not take, in the words of Python 3.13."""
    known, other = [key for key in inspect.signature(fn).parameters if key != "self"], next(iter(others))
    near = ["axis"] if other in ("dim", "dims") and "axis" in known else nearest_names(other, known)
    way_out = f"Did you mean {near[0]!r}?" if near else f"It takes {', '.join(known) or 'none'}"
    return TypeError(f"{name}() got an unexpected keyword argument {other!r}. {_OF_TORCH.get(other, way_out)}")


_OF_TORCH = {
    **dict.fromkeys(("keepdim", "keepdims", "keep_dims"), "It is not needed: ops find axes by their dims"),
    **dict.fromkeys(("inplace", "out"), "It is not needed: ops return new tensors"),
    "dtype": "rf.cast converts to another dtype",
    "requires_grad": "x.requires_grad_() sets it for a tensor, and an rf.Parameter has it",
    "training": "rf.init_train_step_run_ctx() turns it on, rf.init_forward_step_run_ctx() off",
    "reduction": "The result is not reduced: rf.reduce_mean(loss, axis=loss.dims)",
    "ignore_index": "Mask the loss, rf.where(mask, loss, 0), with any label where the mask is False",
}
"""Arguments of other libraries, and what to write instead."""


_WRONG_CALL = re.compile(r"\S+\(\) (needs|missing|takes|got) ")
"""What is said of a call with missing or unknown arguments, here and by Python."""


def _from_a_kernel(failure: Exception, arguments: Arguments) -> bool:
    """Whether rfnb, torch or numpy raised `failure` in this call, for a reason that torch has no class for.

    An error with notes is one of a loop's body, and they say of which step.
    """
    own_class = type(failure).__module__.startswith("torch") or isinstance(failure, RecursionError)
    if hasattr(failure, "__notes__") or (isinstance(failure, TypeError) and _WRONG_CALL.match(str(failure))):
        return False
    of_users = any(map(_is_users, arguments.values())) or any(is_users(at.code) for _, at in steps_of(failure))
    return not own_class and not of_users


def _is_users(value: object) -> bool:
    """Whether a value is a function that does not belong to rfnb; one of torch leaves no frame in a traceback."""
    function = callable(value) and not isinstance(value, type | Tensor)
    return function and not str(getattr(value, "__module__", "")).startswith("rfnb.")


Wrong = tuple[str, object, object]
"""A parameter, the value or the part of it that is of another type, and the annotation that it should match."""


def _by_name(fn: Callable[..., object], arguments: Arguments) -> tuple[Arguments, dict[str, object]]:
    """The arguments and their annotations, with those that `fn` takes as **options among the others."""
    by_name: Arguments = {}
    hints = hints_of(fn)
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            options = arguments.get(parameter.name, {})
            hints |= dict.fromkeys(options, hints.get(parameter.name, Any))
            by_name |= options
        elif parameter.name in arguments:
            by_name[parameter.name] = arguments[parameter.name]
    return by_name, hints


def _wrong_types(fn: Callable[..., object], arguments: Arguments, hints: dict[str, object]) -> Iterator[Wrong]:
    """All arguments of another type than declared."""
    variadic = {p.name for p in inspect.signature(fn).parameters.values() if p.kind is p.VAR_POSITIONAL}
    for parameter, value in arguments.items():
        for entry in value if parameter in variadic else [value]:
            for wrong, hint in mismatches(entry, hints.get(parameter, Any)):
                yield parameter, wrong, hint


def _tensor_or_dim_error(name: str, wrong: list[Wrong], arguments: Arguments) -> RfError | None:
    """The error for the first of `wrong` where a Tensor or a Dim is declared."""
    for parameter, value, hint in wrong:
        kinds = _kinds(hint)
        number = isinstance(value, Number) and kinds & {int, float}
        if Tensor in kinds and not number and not (Dim in kinds and isinstance(value, str | int)):
            return not_a_tensor(f"{name}: `{parameter}`", value)
        if Dim in kinds and (isinstance(value, str) or not kinds & {int, float}):
            return _not_a_dim(name, parameter, value, next(_tensors(arguments), None))
    return None


def not_a_tensor(what: str, value: object) -> DtypeError:
    """The error for a `value` that must be a Tensor: it shows the type, and how to convert the value to a Tensor."""
    shape = getattr(value, "shape", None)
    hint: str | None
    if isinstance(value, tuple) and value and isinstance(value[0], Tensor):
        got = f"a tuple ({', '.join(map(_brief, value))})"
        hint = f"conv, slice, concat, … return a tensor and its new dim: y, {_name(value[-1])} = rf.slice(…)"
    else:
        kind = f"{type(value).__module__}.".removeprefix("builtins.") + type(value).__name__
        got = kind + (f" {value!r:.40}" if shape is None else f" of shape {tuple(shape)}")
        data = shape is not None or isinstance(value, list | tuple)
        hint = f"rf.convert_to_tensor({called(value)}, dims=[…])" if data else None
    error = DtypeError(f"{what} is not an rf.Tensor", got=got, expected="an rf.Tensor", hint=hint)
    error.__suppress_context__ = True  # the AttributeError of the fast path
    return error


def _not_a_dim(name: str, parameter: str, value: object, source: Tensor | None) -> DimError:
    """The error for a `value` that must be a Dim. For the name or number of an axis, it shows the corrected call."""
    source = None if parameter.startswith("out") else source
    position = isinstance(value, int) and "ax" not in parameter
    axis = None if source is None or position else _axis_meant(value, source)
    if axis is not None:
        meant = f"[{called(axis)}]" if parameter.endswith("s") and parameter != "axis" else called(axis)
        way = f"({called(source)}, {called(axis)})" if parameter == "sources" else f"{parameter}={meant}"
        return equivalent_error(f"{name}: {value!r} is not a Dim", way, source)
    label = f"{name}: `{parameter}`"
    if source is not None and isinstance(value, str | int) and AXES.search(parameter):
        return DimError(
            f"{label}: {value!r} is not a Dim",
            got=type(value).__name__,
            expected=f"one of {', '.join(map(called, source.dims))}, the dims of {_brief(source)}",
        )
    if isinstance(value, str | int | Dim):
        try:
            check_dims(value, label)
        except DimError as error:
            return error
    return DimError(f"{label}: {called(value)} is not a Dim", got=type(value).__name__, expected="a Dim")


def _axis_meant(value: object, source: Tensor) -> Dim | None:
    """The dim of `source` at a position, or with a name: its own, a name of axes such as "T", or a similar one."""
    dims = source.dims
    if isinstance(value, int):
        return dims[value] if -len(dims) <= value < len(dims) else None
    if not isinstance(value, str):
        return None
    try:
        axes = [dims[axis] for axis in AxisOrder(dims, source.feature_dim).find(value)]
    except DimError:
        axes = []
    near = nearest_names(value, [dim.name for dim in dims])
    named = [dim for dim in dims if dim.name == value] or axes or [dim for dim in dims if dim.name in near]
    return named[0] if len(named) == 1 else None


def not_of_kind(what: str, value: object, hint: object) -> DtypeError:
    """The error for a `value` of another kind: a string where a number is declared."""
    words = list(dict.fromkeys(kind_in_words(part) for part in _alternatives(hint) if part is not types.NoneType))
    kind = type(value).__name__
    return DtypeError(f"{what} is not {words[0]}", got=f"{kind} {called(value)}", expected=" or ".join(words))


def kind_in_words(hint: Any) -> str:
    """The values that an annotation allows, in words."""
    kind = get_origin(hint)
    if kind is Annotated:
        return kind_in_words(get_args(hint)[0])
    if kind is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "a dict"
    if isinstance(kind, type) and issubclass(kind, Iterable) and kind is not tuple:
        return "a list"
    if kind is os.PathLike:
        return "a path"
    if kind is not None:
        return "a function" if kind is _FUNCTION else "a tuple" if kind is tuple else "another value"
    return _WORDS.get(hint) or ("an rf." if hint.__module__.startswith("rfnb.") else "a ") + hint.__name__


_FUNCTION = get_origin(Callable[..., Any])
_WORDS = {bool: "True or False", int: "a whole number", float: "a number", complex: "a number", str: "a string"}
_WORDS |= {Dim: "a Dim", Tensor: "an rf.Tensor"}


def mismatches(value: object, hint: object) -> list[tuple[object, object]]:
    """The parts of `value` that do not match the annotation, each with the annotation that it should match."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        by_part = [mismatches(value, part) for part in parts]
        inner = [pair for pair in by_part if pair and pair[0][0] is not value]
        return [] if not all(by_part) else inner[0] if inner else [(value, hint)]
    if kind is Annotated:
        return mismatches(value, parts[0])
    if kind is Literal:
        return [] if any(type(value) is type(part) and value == part for part in parts) else [(value, hint)]
    if kind is Iterable:
        plain = isinstance(value, str | Mapping) and str not in _kinds(hint)
        if plain or not isinstance(value, Iterable):
            return [(value, hint)]
        entries = value if isinstance(value, tuple | list) else ()
        return [pair for v in entries for pair in mismatches(v, parts[0])]
    if kind is tuple and Ellipsis not in parts:
        if not isinstance(value, tuple | list) or len(value) != len(parts):
            return [(value, hint)]
        return [pair for v, part in zip(value, parts, strict=True) for pair in mismatches(v, part)]
    if isinstance(kind, type) and issubclass(kind, Sequence):
        if not isinstance(value, tuple | list):
            return [(value, hint)]
        return [pair for v in value for pair in mismatches(v, parts[0])]
    return [] if _fits(value, hint if kind is None else kind) else [(value, hint)]


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a class; a number may be one of numpy, or a raw tensor without axes."""
    if kind in (bool, int, float, complex):
        number = Integral | np.integer | np.bool_ if kind is int else Number | np.generic
        return isinstance(value, number) or getattr(value, "shape", None) == ()
    if kind is _FUNCTION:
        return callable(value)
    plain = isinstance(kind, type) and kind is not Any and not getattr(kind, "_is_protocol", False)
    return not plain or isinstance(value, kind)


def _alternatives(hint: object) -> tuple[object, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _kinds(hint: object) -> set[object]:
    return {hint} if get_origin(hint) is _FUNCTION else {hint}.union(*map(_kinds, get_args(hint)))


def leaves(value: object) -> list[Any]:
    """The entries of nested lists, or the value alone."""
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, list | tuple) else [value]


def _tensors(arguments: Arguments) -> Iterator[Tensor]:
    return (x for x in leaves(list(arguments.values())) if isinstance(x, Tensor))


# -- arguments of the right type


def _missing_dim(name: str, arguments: Arguments) -> DimError | None:
    tensors = list(_tensors(arguments))
    dims = {dim for x in tensors for dim in (*x.dims, x.sparse_dim)}
    for parameter, value in arguments.items():
        if not tensors or not AXES.search(parameter) or parameter.startswith("out"):
            continue
        for dim in leaves(value):
            if isinstance(dim, Dim) and not {dim, dim.base} & {single_step_dim, *dims}:
                return DimError(
                    f"{name}: no tensor has the dim {dim.name}, which `{parameter}` names",
                    got=", ".join(map(_brief, tensors)),
                    expected="a dim of a tensor",
                    hint=nearest(dim, tensors[0].dims),
                    dims=[dim],
                )
    return None


def _dim_given_twice(name: str, arguments: Arguments) -> DimError | None:
    for parameter, value in arguments.items():
        dims = [dim for dim in leaves(value) if isinstance(dim, Dim)] if isinstance(value, list | tuple) else []
        twice = next((dim for dim in dims if dims.count(dim) > 1), None)
        if twice is not None:
            fault = f"{name}: `{parameter}` has the dim {twice.name} twice"
            return DimError(fault, got=show_dims(dims), expected="each dim once", dims=[twice])
    return None


def _dtype_error(name: str, hints: dict[str, object], arguments: Arguments, failure: Exception) -> DtypeError | None:
    single = len(list(_tensors(arguments))) == 1
    for parameter, x in arguments.items():
        if not isinstance(x, Tensor) or has_fractions(x.dtype):
            continue
        needs_floats = any(Floats in getattr(part, "__metadata__", ()) for part in _alternatives(hints.get(parameter)))
        if needs_floats or type(failure) is NotImplementedError or (single and x.dtype == "bool"):
            return DtypeError(
                f"{name}: `{parameter}` has the dtype {x.dtype}, which is not supported",
                got=f"{_brief(x)} {x.dtype}",
                expected="float32, float64, …" if needs_floats else None,
                hint=f'rf.cast({called(x)}, "float32")' + ("; rf.logical_not" if x.dtype == "bool" else ""),
            )
    return None


def _refused(name: str, arguments: Arguments, failure: Exception) -> BackendError:
    """The error for a call that failed for another reason: it shows all arguments, and what the kernel says."""
    texts = [f"`{parameter}` {_shown(value)}" for parameter, value in arguments.items() if value is not None]
    message = str(failure).strip().partition("\n")[0]
    return BackendError(
        f"{name}: these arguments do not fit together",
        got=", ".join(texts),
        hint=f"the computation failed with {type(failure).__name__}: {message:.160}",
    )


def _shown(value: object) -> str:
    return f"{value.describe_dims()} {value.dtype}" if isinstance(value, Tensor) else called(value)


def _name(value: object) -> str:
    name = called(value)
    return name if isinstance(value, Dim) and name.isidentifier() else "new_dim"


def _brief(value: object) -> str:
    return f"{called(value)} {value.describe_dims()}" if isinstance(value, Tensor) else called(value)
