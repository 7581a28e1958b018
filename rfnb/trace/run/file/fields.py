"""Reads entries of JSON from an untrusted file: every access checks the type."""

from __future__ import annotations

from contextlib import suppress
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from rfnb.errors import RunFileError
from rfnb.printable import printable

MOST = 2**24
"""Largest number that may be read as a size: a small file must not lead to huge allocations."""


def get(data: object, name: str, kind: type | tuple[type, ...]) -> Any:
    """Returns `data[name]`. Raises RunFileError if it is missing or of another type."""
    if not isinstance(data, dict) or name not in data:
        raise RunFileError(f"the file has no {name!r}")
    return of_type(data[name], kind, name)


def of_type(value: object, kind: type | tuple[type, ...], name: str) -> Any:
    """Returns the value if it has this type; True and False do not count as numbers. Raises RunFileError otherwise."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RunFileError(f"{name!r} in the file has the wrong type: {type(value).__name__}")
    return printable(value) if isinstance(value, str) else value


def optional(data: object, name: str, kind: type | tuple[type, ...]) -> Any:
    """Returns `data[name]`, which may be None."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return get(data, name, (*kinds, type(None)))


def count(data: object, name: str, most: int = MOST) -> int:
    """Returns the number `data[name]`, which must be from 0 to `most`."""
    number: int = get(data, name, int)
    if not 0 <= number <= most:
        raise RunFileError(f"{name!r} in the file is out of range: {number if abs(number) < 10**18 else 'huge'}")
    return number


def list_of(data: object, name: str, kind: type | tuple[type, ...]) -> list[Any]:
    """Returns the list `data[name]`, whose entries must all have this type."""
    return [of_type(entry, kind, name) for entry in get(data, name, list)]


def raw_strings(data: object, name: str) -> list[str]:
    """Returns a list of labels or tags. They may contain any characters; views escape them."""
    strings: list[str] = get(data, name, list)
    if not all(isinstance(entry, str) for entry in strings):
        raise RunFileError(f"{name!r} in the file has entries that are not strings")
    return strings


def chosen(entries: list[Any], number: Any, name: str) -> Any:
    """Returns the entry of a table of the file with this number."""
    if not 0 <= of_type(number, int, name) < len(entries):
        raise RunFileError(f"{name!r} in the file refers to a missing entry")
    return entries[number]


def conform(value: Any, form: Any, name: str) -> Any:
    """Returns a value of JSON that has this form: a TypedDict, or a dict, of the forms of its entries, `list[…]`,
    `Literal[…]`, a union, or a type. Raises RunFileError otherwise.
    """
    if form is bool:
        return of_type(value, bool, name)
    fields = form if isinstance(form, dict) else get_type_hints(form) if is_typeddict(form) else None
    if fields is not None:
        missing = [field for field in fields if field not in of_type(value, dict, name)]
        if missing:
            raise RunFileError(f"the file has no {missing[0]!r}")
        return {field: conform(value[field], part, field) for field, part in fields.items()}
    origin, parts = get_origin(form), get_args(form)
    if origin is list:
        return [conform(entry, parts[0], name) for entry in of_type(value, list, name)]
    if origin is Literal:
        if value not in parts:
            raise RunFileError(f"{name!r} in the file is not one of {parts}")
        return value
    if origin in (Union, UnionType):
        for part in parts:
            with suppress(RunFileError):
                return conform(value, part, name)
        raise RunFileError(f"{name!r} in the file has the wrong type: {type(value).__name__}")
    return of_type(value, (int, float) if form is float else form, name)
