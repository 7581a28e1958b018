"""Containers of Python: their keys, parts and lengths, without running a method of a class of the user."""

from __future__ import annotations

import dataclasses
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from enum import Enum
from types import NoneType
from typing import Any

import numpy as np

from rfnb.trace.plain.attributes import attributes_in, fields_of

PLAIN = frozenset((NoneType, bool, int, float, complex, str, bytes))
"""Types of values that cannot change, and that are compared as they are."""
ATOMS = (NoneType, bool, int, float, complex, str, bytes, range, slice, type, Enum, np.generic)
"""Types of other values that cannot change, too."""


class OddKey(str):
    """Stands for a key that is not kept, such as a parameter. origin: gives the key, while it lives."""

    __slots__ = ("origin",)
    origin: Callable[[], Any]


class Attributed:
    """Stands for the attributes of a container, which are not kept."""


SEQUENCES: tuple[type, ...] = (list, tuple, deque, set, frozenset)
BUILT_IN = frozenset((*SEQUENCES, dict, defaultdict, OrderedDict))


def is_atom(value: Any) -> bool:
    """Whether a value cannot change. By its type: `isinstance` runs a `__class__` that is a property."""
    kind = type(value)
    found = _atoms.get(kind)
    if found is None:
        found = _atoms[kind] = issubclass(kind, ATOMS)
    return found


_atoms: dict[type, bool] = {}


def parts_of(value: Any) -> tuple[tuple[Any, ...] | None, tuple[Any, ...]] | None:
    """Keys and parts of a container; None for other objects. No method of a class of the user runs."""
    kind = type(value)
    if kind is list or kind is tuple:
        return None, tuple(value)
    for base in SEQUENCES if kind is not dict else ():
        if issubclass(kind, base):
            items = tuple(base.__iter__(value))  # type: ignore[attr-defined]
            fields = kind.__dict__.get("_fields")
            return fields if isinstance(fields, tuple) and len(fields) == len(items) else None, items
    if issubclass(kind, dict):
        keys = tuple(dict.keys(value))
        keys = keys if PLAIN.issuperset(map(type, keys)) else tuple(map(_key, keys))
        return keys, tuple(dict.values(value))
    if dataclasses.is_dataclass(kind):
        attributes = attributes_in(value)
        names = tuple(filter(attributes.__contains__, fields_of(kind)))
        if len(names) < len(attributes):
            names = tuple(dict.fromkeys((*names, *attributes)))
        return names, tuple(map(attributes.__getitem__, names))
    return None


def length_of(value: Any) -> int | None:
    """The length of a container; None where that would run code of the user."""
    base: Any = next((base for base in (dict, *SEQUENCES) if issubclass(type(value), base)), None)
    return None if base is None else int(base.__len__(value))


def _key(key: Any) -> Any:
    """A key that can be compared and shown: others, such as parameters, stay where they are."""
    if _is_plain(key):
        return key
    odd = OddKey(f"{type(key).__name__} {id(key):x}")
    odd.origin = reference(key)
    return odd


def _is_plain(key: Any) -> bool:
    return type(key) in PLAIN or (type(key) is tuple and all(map(_is_plain, key)))


def extra_of(value: Any) -> Any:
    """How long a deque may be, what makes the missing entries of a defaultdict, or whether there are attributes."""
    if type(value) not in BUILT_IN and not dataclasses.is_dataclass(type(value)) and attributes_in(value):
        return Attributed
    for kind, name in ((deque, "maxlen"), (defaultdict, "default_factory")):
        if issubclass(type(value), kind):
            return kind.__dict__[name].__get__(value)
    return None


def reference(value: Any) -> Callable[[], Any]:
    """Gives an object, while it lives, and if nothing can refer to it weakly, keeps it alive."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
