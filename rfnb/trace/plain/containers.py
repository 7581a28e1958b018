"""Attributes of objects, and the keys and parts of containers, read without running code of their classes; and where
CPython has the objects of a list, which tells without a look at each whether they are the same."""

from __future__ import annotations

import ast
import dataclasses
import struct
import sys
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from ctypes import c_size_t, string_at
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from operator import is_
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType, NoneType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

MISSING = object()
"""Stands for the value of an attribute that is not there."""
HIDDEN = object()
"""Stands for the value of an attribute that only code of its object could give, or that belongs to another value."""
ITEMS = (list, tuple, dict)
"""The containers, without their subclasses, of which an entry is read."""
TABLES = ("_parameters", "_buffers", "_modules")
"""The dicts in which a module of torch keeps attributes that are not in its `__dict__`."""

USUAL = tuple(kind.__getattribute__ for kind in (object, ModuleType, SimpleNamespace))
"""What reads an attribute without code of the user's class."""


class Path(NamedTuple):
    """An attribute as it is written.

    Args:
        text: the source.
        root: the variable that it begins with.
        steps: what is read one after the other: the name of an attribute, or in a tuple a key, or the variable with it.
        written: whether the code assigns it, or changes it in place by its form.
    """

    text: str
    root: str
    steps: tuple[str | tuple[bool, Any], ...]
    written: bool = False

    @property
    def variables(self) -> set[str]:
        """The variables that it reads."""
        return {self.root, *(step[1] for step in self.steps if type(step) is tuple and step[0])}

    def value(self, names: Mapping[str, object]) -> object:
        """The value now; MISSING or HIDDEN if there is none, or none that can be read."""
        owner = names.get(self.root, MISSING)
        for step in self.steps:
            if owner is MISSING or owner is HIDDEN:
                return owner
            if type(step) is str:
                owner = _attribute(owner, step)
            else:
                owner = _item(owner, names.get(step[1], MISSING) if step[0] else step[1])
        return owner


def path_of(node: ast.AST) -> Path | None:
    """The path that an attribute is; None for other expressions, and where a call or a calculation is inside."""
    steps: list[str | tuple[bool, object]] = []
    part = node
    while not isinstance(part, ast.Name):
        if isinstance(part, ast.Attribute):
            steps.append(part.attr)
        elif isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Name):
            steps.append((True, part.slice.id))
        elif isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant):
            steps.append((False, part.slice.value))
        elif isinstance(part, ast.Subscript) and ast.unparse(part.slice) == "-1":
            steps.append((False, -1))
        else:
            return None
        part = part.value
    return Path(ast.unparse(node), part.id, tuple(reversed(steps))) if isinstance(node, ast.Attribute) else None


def _attribute(owner: object, name: str) -> object:
    kind = type(owner)
    way = _way_to(kind, name)
    if way is HIDDEN:
        return MISSING if owner is None else HIDDEN
    try:
        namespace = way.__get__(owner)
    except AttributeError:  # an empty slot
        return MISSING
    if way.__name__ != "__dict__":
        return namespace
    if name in namespace:
        return namespace[name]
    default = _of_class(kind, name)
    if default is not MISSING:
        return HIDDEN if _has_code(default, "__get__") else default
    for table in TABLES:
        if issubclass(type(entries := namespace.get(table)), dict) and dict.__contains__(entries, name):
            return dict.__getitem__(entries, name)
    return MISSING


def _way(kind: type, name: str) -> object:
    """The descriptor of a slot, or of the `__dict__`, by which an attribute is read without code of the class."""
    if is_dataclass(kind):  # its fields are parts of the value
        return HIDDEN
    if _of_class(kind, "__getattribute__") not in USUAL:
        return HIDDEN
    descriptor, table = _of_class(kind, name), _of_class(kind, "__dict__")
    if type(descriptor) is MemberDescriptorType:
        return descriptor
    if _has_code(descriptor, "__set__") or type(table) not in (GetSetDescriptorType, MemberDescriptorType):
        return HIDDEN
    return table


_way_to: Callable[[type, str], Any] = cache(_way)


def namespaces_of(kind: type) -> list[Mapping[str, object]]:
    """The attributes of a class and of those that it inherits from."""
    return [type.__dict__["__dict__"].__get__(base) for base in type.__dict__["__mro__"].__get__(kind)]


def _of_class(kind: type, name: str) -> object:
    return next((namespace[name] for namespace in namespaces_of(kind) if name in namespace), MISSING)


def _has_code(attribute: object, name: str) -> bool:
    return any(name in namespace for namespace in namespaces_of(type(attribute)))


def _item(owner: Any, key: object) -> object:
    if type(owner) not in ITEMS or type(key) not in (int, str, bool):
        return MISSING
    try:
        return owner[key]
    except (LookupError, TypeError):
        return MISSING


def attributes_in(value: object) -> Mapping[str, object]:
    """What is in the `__dict__` and the slots of an object, read without code of its class."""
    slots = slots_of(type(value))
    try:
        attributes: Mapping[str, object] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        attributes = {}
    if not slots:
        return attributes
    filled = {}
    for name, slot in slots.items():
        with suppress(AttributeError):  # an empty slot
            filled[name] = slot.__get__(value)
    return {**filled, **attributes}


def _slots(kind: type) -> dict[str, MemberDescriptorType]:
    return {
        name: slot
        for namespace in reversed(namespaces_of(kind))
        if "__slots__" in namespace
        for name, slot in namespace.items()
        if type(slot) is MemberDescriptorType
    }


slots_of: Callable[[type], dict[str, MemberDescriptorType]] = cache(_slots)
"""The slots of a class of Python, by the names of their attributes."""


@cache
def fields_of(kind: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass."""
    return tuple(field.name for field in fields(kind))


PLAIN = frozenset((NoneType, bool, int, float, complex, str, bytes))
"""Types of values that cannot change, and that are compared as they are."""
ATOMS = (NoneType, bool, int, float, complex, str, bytes, range, slice, type, Enum, np.generic)
"""Types of other values that cannot change, too."""


class OddKey(str):
    """Stands for a key that is not kept, such as a parameter. origin: gives the key, while it lives."""

    __slots__ = ("origin",)
    origin: Callable[[], object]


class Attributed:
    """Stands for the attributes of a container, which are not kept."""


SEQUENCES: tuple[type, ...] = (list, tuple, deque, set, frozenset)
BUILT_IN = frozenset((*SEQUENCES, dict, defaultdict, OrderedDict))


def is_atom(value: object) -> bool:
    """Whether a value cannot change. By its type: `isinstance` runs a `__class__` that is a property."""
    return _is_atomic(type(value))


_is_atomic: Callable[[type], bool] = cache(lambda kind: issubclass(kind, ATOMS))


def parts_of(
    value: Any, known_keys: tuple[object, ...] = ()
) -> tuple[tuple[object, ...] | None, tuple[object, ...]] | None:
    """Keys and parts of a container; None for other objects. No method of a class of the user runs.

    known_keys: of a dict before, so that only new keys are looked at.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return None, tuple(value)
    base: Any
    for base in SEQUENCES if kind is not dict else ():
        if issubclass(kind, base):
            items = tuple(base.__iter__(value))
            fields = kind.__dict__.get("_fields")
            return fields if isinstance(fields, tuple) and len(fields) == len(items) else None, items
    if issubclass(kind, dict):
        keys = tuple(dict.keys(value))
        if not PLAIN.issuperset(map(type, keys)):
            begin = known_keys if len(known_keys) <= len(keys) and all(map(is_, keys, known_keys)) else ()
            keys = (*begin, *map(_key, keys[len(begin) :]))
        return keys, tuple(dict.values(value))
    if dataclasses.is_dataclass(kind):
        attributes = attributes_in(value)
        names = tuple(filter(attributes.__contains__, fields_of(kind)))
        if len(names) < len(attributes):
            names = tuple(dict.fromkeys((*names, *attributes)))
        return names, tuple(map(attributes.__getitem__, names))
    return None


def length_of(value: object) -> int | None:
    """The length of a container; None where that would run code of the user."""
    base: Any = next((base for base in (dict, *SEQUENCES) if issubclass(type(value), base)), None)
    return None if base is None else int(base.__len__(value))


def _key(key: object) -> object:
    """A key that can be compared and shown: others, such as parameters, stay where they are."""
    if _is_plain(key):
        return key
    odd = OddKey(f"{type(key).__name__} {id(key):x}")
    odd.origin = reference(key)
    return odd


def _is_plain(key: object) -> bool:
    return type(key) in PLAIN or (type(key) is tuple and (PLAIN.issuperset(map(type, key)) or all(map(_is_plain, key))))


def extra_of(value: object) -> object:
    """How long a deque may be, what makes the missing entries of a defaultdict, or whether there are attributes."""
    if type(value) not in BUILT_IN and not dataclasses.is_dataclass(type(value)) and attributes_in(value):
        return Attributed
    for kind, name in ((deque, "maxlen"), (defaultdict, "default_factory")):
        if issubclass(type(value), kind):
            return kind.__dict__[name].__get__(value)
    return None


def reference(value: object) -> Callable[[], object]:
    """Gives an object, while it lives, and if nothing can refer to it weakly, keeps it alive."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


OBJECTS = object.__basicsize__ + 8
"""Where in a list its pointer to the objects is, after its length."""


def places_in(value: list[object], length: int) -> bytes:
    """The addresses of the first objects of a list; empty where it is not known where they are.

    As long as the objects live, the same addresses are the same objects.
    """
    return string_at(c_size_t.from_address(id(value) + OBJECTS).value, 8 * length) if _is_known() else b""


@cache
def _is_known() -> bool:
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    trial = [object(), None, []]
    place = c_size_t.from_address(id(trial) + OBJECTS).value
    return string_at(place, 24) == struct.pack("3P", *map(id, trial))
