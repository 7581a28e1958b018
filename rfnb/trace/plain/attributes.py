"""Attributes that the lines of a loop name, `self.h` or `layers[i].h`, read without running code of their objects."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

MISSING: Any = object()
"""Stands for the value of an attribute that is not there."""
HIDDEN: Any = object()
"""Stands for the value of an attribute that only code of its object could give, or that belongs to another value."""
ITEMS = (list, tuple, dict)
"""The containers, without their subclasses, of which an entry is read."""
TABLES = ("_parameters", "_buffers", "_modules")
"""The dicts in which a module of torch keeps attributes that are not in its `__dict__`."""

USUAL = tuple(each.__getattribute__ for each in (object, ModuleType, SimpleNamespace))
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

    def value(self, names: Mapping[str, Any]) -> Any:
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
    steps: list[Any] = []
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


def _attribute(owner: Any, name: str) -> Any:
    kind = type(owner)
    way = _ways.get((kind, name))
    if way is None:
        way = _ways[kind, name] = _way(kind, name)
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


_ways: dict[tuple[type, str], Any] = {}


def _way(kind: type, name: str) -> Any:
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


def _insides(kind: type) -> list[Mapping[str, Any]]:
    """The attributes of a class and of those that it inherits from."""
    return [type.__dict__["__dict__"].__get__(base) for base in type.__dict__["__mro__"].__get__(kind)]


def _of_class(kind: type, name: str) -> Any:
    return next((namespace[name] for namespace in _insides(kind) if name in namespace), MISSING)


def _has_code(attribute: Any, name: str) -> bool:
    return any(name in namespace for namespace in _insides(type(attribute)))


def _item(owner: Any, key: Any) -> Any:
    if type(owner) not in ITEMS or type(key) not in (int, str, bool):
        return MISSING
    try:
        return owner[key]
    except (LookupError, TypeError):
        return MISSING


def attributes_in(value: Any) -> Mapping[str, Any]:
    """What is in the `__dict__` and the slots of an object, read without code of its class."""
    kind = type(value)
    slots = _slots.get(kind)
    if slots is None:
        slots = _slots[kind] = slots_of(kind)
    try:
        attributes: Mapping[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        attributes = {}
    if not slots:
        return attributes
    filled = {}
    for name, slot in slots.items():
        with suppress(AttributeError):  # an empty slot
            filled[name] = slot.__get__(value)
    return {**filled, **attributes}


def slots_of(kind: type) -> dict[str, Any]:
    """The slots of a class of Python, by the names of their attributes."""
    insides = [type.__dict__["__dict__"].__get__(base) for base in reversed(type.__dict__["__mro__"].__get__(kind))]
    return {
        name: slot
        for namespace in insides
        if "__slots__" in namespace
        for name, slot in namespace.items()
        if type(slot) is MemberDescriptorType
    }


_slots: dict[type, dict[str, Any]] = {}


@cache
def fields_of(kind: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass."""
    return tuple(field.name for field in fields(kind))
