"""Reads entries of JSON from an untrusted file: every access checks the type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import NoneType, UnionType
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict, overload

from rfnb.errors import RfError, RunFileError
from rfnb.printable import printable

T = TypeVar("T")
Text = NewType("Text", str)
"""The form of a label or tag, which may contain any characters; views escape them."""

MOST = 2**24
"""Largest number that may be read as a size: a small file must not lead to huge allocations."""


@contextmanager
def reading(failure: str, expected: object = None) -> Iterator[None]:
    """Inside the block, something untrusted is read: any error becomes a RunFileError that says `failure`."""
    try:
        yield
    except RfError as error:
        facts = (error.got, error.expected) if isinstance(error, RunFileError) else (None, None)
        got = "" if facts[0] is None else f": {facts[0]}" + ("" if facts[1] is None else f", expected {facts[1]}")
        raise RunFileError(failure, got=error.what + got, expected=expected) from error
    except Exception as error:  # damaged data can cause any error
        raise RunFileError(failure, got=f"{type(error).__name__}: {error}"[:200], expected=expected) from error


@overload
def get(data: object, name: str, form: type[T]) -> T: ...


@overload
def get(data: object, name: str, form: object) -> Any: ...


def get(data: object, name: str, form: object) -> object:
    """Returns `data[name]`. Raises RunFileError if it is missing, or does not have this form."""
    if not isinstance(data, dict) or name not in data:
        raise RunFileError(f"the file has no {name!r}")
    return conform(data[name], form, name)


def count(data: object, name: str, most: int = MOST) -> int:
    """Returns the number `data[name]`, which must be from 0 to `most`."""
    return within(get(data, name, int), most, name)


def within(number: object, most: int, name: str) -> int:
    """Returns the number if it is from 0 to `most`."""
    value: int = conform(number, int, name)
    if not 0 <= value <= most:
        raise RunFileError(f"{name!r} in the file is out of range: {value if abs(value) < 10**18 else 'huge'}")
    return value


def chosen(entries: Sequence[T], number: object, name: str) -> T:
    """Returns the entry of a table of the file with this number."""
    place: int = conform(number, int, name)
    if not 0 <= place < len(entries):
        raise RunFileError(f"{name!r} in the file refers to a missing entry")
    return entries[place]


def conform(value: object, form: object, name: str) -> Any:
    """Returns a value of JSON that has this form: a TypedDict, or a dict, of the forms of its entries, `list[…]`,
    `tuple[…, ...]`, `Literal[…]`, a union, or a type. A NamedTuple or dataclass is made of its fields, by name or in
    order. Raises RunFileError otherwise.
    """
    if form is Text:
        if not isinstance(value, str):
            raise RunFileError(f"{name!r} in the file has entries that are not strings")
        return value
    if type(form) is type:
        names = getattr(form, "__match_args__", None)
        if names is None:
            return _of_type(value, (int, float) if form is float else form, name)
        named = dict(zip(names, value, strict=True)) if isinstance(value, list) else value
        return form(**conform(named, get_type_hints(form), name))
    fields = form if isinstance(form, dict) else get_type_hints(form) if is_typeddict(form) else None
    if fields is not None:
        return {field: get(_of_type(value, dict, name), field, part) for field, part in fields.items()}
    origin, parts = get_origin(form), get_args(form)
    if origin in (list, tuple):
        return origin(conform(entry, parts[0], name) for entry in _of_type(value, list, name))
    if origin is Literal:
        if value not in parts:
            raise RunFileError(f"{name!r} in the file is not one of {parts}")
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in parts:
            return None
        for part in parts:
            with suppress(RunFileError):
                return conform(value, part, name)
        raise RunFileError(f"{name!r} in the file has the wrong type: {type(value).__name__}")
    raise TypeError(f"{form} is not a form of JSON")


def _of_type(value: object, kind: Any, name: str) -> Any:
    """Returns the value if it has this type; True and False do not count as numbers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RunFileError(f"{name!r} in the file has the wrong type: {type(value).__name__}")
    return printable(value) if isinstance(value, str) else value
