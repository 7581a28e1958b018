"""Entries of JSON that a stranger may have written: each is asked for with the type that it must have."""

from __future__ import annotations

from typing import Any

from rfnb.errors import RunFileError

MOST = 2**24
"""No axis of a tensor without entries is longer, nor is there a longer list of sequences: a number costs nothing in a
file, what is made of it does."""


def get(data: Any, name: str, kind: type | tuple[type, ...]) -> Any:
    """`data[name]`. Raises RunFileError if it is missing, or of another type."""
    if not isinstance(data, dict) or name not in data:
        raise RunFileError(f"the file has no {name!r}")
    return of_type(data[name], kind, name)


def of_type(value: Any, kind: type | tuple[type, ...], name: str) -> Any:
    """The value itself. True and False are no numbers here."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RunFileError(f"{name!r} in the file is a {type(value).__name__}")
    return printable(value) if isinstance(value, str) else value


def optional(data: Any, name: str, kind: type | tuple[type, ...]) -> Any:
    """`data[name]`, or None."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return get(data, name, (*kinds, type(None)))


def count(data: Any, name: str, most: int = MOST) -> int:
    """A number from 0 to `most`."""
    number: int = get(data, name, int)
    if not 0 <= number <= most:
        raise RunFileError(f"{name!r} in the file is {number if abs(number) < 10**18 else 'huge'}")
    return number


def list_of(data: Any, name: str, kind: type | tuple[type, ...]) -> list[Any]:
    """A list with entries of one type."""
    return [of_type(entry, kind, name) for entry in get(data, name, list)]


def raw_strings(data: Any, name: str) -> list[str]:
    """Labels and tags: any characters, which the views take care of."""
    found: list[str] = get(data, name, list)
    if not all(isinstance(entry, str) for entry in found):
        raise RunFileError(f"{name!r} in the file has entries that are no strings")
    return found


def chosen(entries: list[Any], number: Any, name: str) -> Any:
    """An entry of a table of the file, by its number."""
    if not 0 <= of_type(number, int, name) < len(entries):
        raise RunFileError(f"{name!r} in the file points to nothing")
    return entries[number]


def printable(text: str) -> str:
    r"""Without characters that would steer a terminal.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
