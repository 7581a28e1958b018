"""Errors for arguments of ops that are not a Tensor or a Dim. They are made only after an op has failed."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from rfnb.core.advice.torch_equivalents import called, equivalent_error
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, DtypeError

NUMBERS = (bool, int, float, complex)


def argument_error(name: str, fn: Callable[..., Any], arguments: dict[str, Any]) -> Exception | None:
    """The error for an argument that is not a Tensor or a Dim where the op `fn` declares one; None if all are."""
    try:
        hints = get_type_hints(fn)
    except NameError:  # an annotation that only type checkers can resolve
        return None
    several = {p.name for p in inspect.signature(fn).parameters.values() if p.kind is p.VAR_POSITIONAL}
    source = next((x for x in _leaves(list(arguments.values())) if isinstance(x, Tensor)), None)
    for parameter, value in arguments.items():
        for entry in value if parameter in several else [value]:
            for wrong, hint in _mismatches(entry, hints.get(parameter, Any)):
                kinds = _kinds(hint)
                if Tensor in kinds and not (Dim in kinds and isinstance(wrong, str | int)):
                    return not_a_tensor(f"{name}: `{parameter}`", wrong)
                if Dim in kinds:
                    return _not_a_dim(name, parameter, wrong, source)
    return None


def not_a_tensor(what: str, value: Any) -> DtypeError:
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


def _not_a_dim(name: str, parameter: str, value: Any, source: Tensor | None) -> DimError:
    """The error for a `value` that must be a Dim. For the name or number of an axis, it shows the corrected call."""
    dims = () if source is None or parameter.startswith("out") else source.dims
    found = next((dim for dim in dims if isinstance(value, str) and dim.name == value), None)
    if "ax" in parameter and isinstance(value, int) and -len(dims) <= value < len(dims):
        found = dims[value]
    if found is not None:
        meant = f"[{called(found)}]" if parameter.endswith("s") and parameter != "axis" else called(found)
        way = f"({called(source)}, {called(found)})" if parameter == "sources" else f"{parameter}={meant}"
        return equivalent_error(f"{name}: {value!r} is not a Dim", way, source)
    what = f"{name}: `{parameter}`"
    if isinstance(value, str | int | Dim):
        try:
            check_dims(value, what)
        except DimError as error:
            return error
    return DimError(f"{what}: {called(value)} is not a Dim", got=type(value).__name__, expected="a Dim")


def _mismatches(value: Any, hint: Any) -> list[tuple[Any, Any]]:
    """The parts of `value` that do not match the annotation, each with the annotation that it should match."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        each = [_mismatches(value, part) for part in parts]
        inside = [found for found in each if found and found[0][0] is not value]
        return [] if not all(each) else inside[0] if inside else [(value, hint)]
    if kind is tuple and Ellipsis not in parts:
        if not isinstance(value, tuple | list) or len(value) != len(parts):
            return [(value, hint)]
        return [found for v, part in zip(value, parts, strict=True) for found in _mismatches(v, part)]
    if isinstance(kind, type) and issubclass(kind, Sequence):
        if not isinstance(value, tuple | list):
            return [(value, hint)]
        return [found for v in value for found in _mismatches(v, parts[0])]
    if hint in NUMBERS:
        fits = isinstance(value, Number | np.generic) or getattr(value, "shape", None) == ()
    else:
        fits = isinstance(value, hint) if hint in (Tensor, Dim, str, types.NoneType) else True
    return [] if fits else [(value, hint)]


def _kinds(hint: Any) -> set[Any]:
    return {hint}.union(*(_kinds(part) for part in get_args(hint)))


def _leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, list | tuple) else [value]


def _name(value: Any) -> str:
    name = called(value)
    return name if isinstance(value, Dim) and name.isidentifier() else "new_dim"


def _brief(value: Any) -> str:
    return f"{called(value)} {value.describe_dims()}" if isinstance(value, Tensor) else called(value)
