"""Nested structures of tensors, always walked in the same order.

Containers are dicts, lists, tuples and named tuples, `rf.State`, dataclasses, classes of attrs and `SimpleNamespace`,
with all their subclasses. Everything else is a leaf.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from rfnb.errors import DimError


class Form(NamedTuple):
    """The way to take containers of a class apart, and to put them together.

    Args:
        names: the keys of a container, the names of its fields, or the numbers of its parts.
        parts: the parts, in the same order.
        like: a container of the same class with other parts.
    """

    names: Callable[[Any], Iterable[Any]]
    parts: Callable[[Any], Iterable[Any]]
    like: Callable[[Any, list[Any]], Any]


def _form(cls: type) -> Form | None:
    if issubclass(cls, dict):
        return Form(cls.keys, cls.values, _dict_like)
    if issubclass(cls, tuple) and hasattr(cls, "_make"):
        return Form(lambda tree: tree._fields, iter, lambda tree, parts: tree._make(parts))
    if issubclass(cls, list | tuple):
        return Form(lambda tree: range(len(tree)), iter, lambda tree, parts: cls(parts))
    if hasattr(cls, "named_modules") or hasattr(cls, "reorder_cache") or cls.__module__.startswith("rfnb."):
        return None
    if issubclass(cls, SimpleNamespace):
        return _object_form(lambda tree: sorted(vars(tree)))  # by name, in whatever order they were set
    names = field_names(cls)
    return _object_form(lambda tree: names) if names else None


form_of: Callable[[type], Form | None] = lru_cache(1024)(_form)
"""The form of a class of containers; None for leaves: modules, caches that reorder themselves, rfnb's own records."""


def _object_form(names: Callable[[Any], list[str]]) -> Form:
    """The form of objects whose parts are attributes."""

    def like(tree: object, parts: list[object]) -> Any:
        pairs = zip(names(tree), parts, strict=True)
        changed = [(name, part) for name, part in pairs if getattr(tree, name, None) is not part]
        new = _copied(tree, names(tree)) if changed else tree
        for name, part in changed:
            object.__setattr__(new, name, part)  # also if it is frozen
        return new

    return Form(names, lambda tree: [getattr(tree, name, None) for name in names(tree)], like)


def _copied(tree: object, names: list[str]) -> object:
    """A shallow copy that runs no code of the class: a `__getattr__` may count on attributes that are not set yet."""
    try:
        new = object.__new__(type(tree))
    except TypeError:  # a class that is not written in Python
        return copy.copy(tree)
    slots = [name for name in names if name not in getattr(tree, "__dict__", {}) and hasattr(tree, name)]
    for name, part in [*getattr(tree, "__dict__", {}).items(), *((name, getattr(tree, name)) for name in slots)]:
        object.__setattr__(new, name, part)
    return new


def field_names(cls: type) -> list[str]:
    """The names of the fields of a dataclass, or a class of attrs; nothing for other classes."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else getattr(cls, "__attrs_attrs__", ())
    return [field.name for field in fields]


def _dict_like(tree: Any, parts: list[object]) -> object:
    return _dict_with(tree, list(zip(tree, parts, strict=True)))


def _dict_with(tree: Any, items: list[tuple[object, object]]) -> object:
    """A dict of the same class with other items. If the class has a constructor of its own, it is copied."""
    cls: Any = type(tree)
    if cls.__init__ in (dict.__init__, OrderedDict.__init__):
        return cls(items)
    new, fields = copy.copy(tree), field_names(cls)
    new.clear()
    for key, part in items:
        new[key] = part
        if key in fields:  # the outputs of Hugging Face are dicts and dataclasses
            object.__setattr__(new, key, part)
    return new


def map_leaves(fn: Callable[[Any], object], tree: object) -> Any:
    """Applies `fn` to each leaf, which is anything but a container, and returns the results in the same structure."""
    form = form_of(type(tree))
    if form is None:
        return fn(tree)
    parts = [fn(part) if form_of(type(part)) is None else map_leaves(fn, part) for part in form.parts(tree)]
    return form.like(tree, parts)


def arranged(tree: object, like: object) -> Any:
    """`tree` with the keys of its dicts in the order of `like`; a dict with different keys is left unchanged."""
    if isinstance(tree, dict) and isinstance(like, dict) and tree.keys() == like.keys():
        return _dict_with(tree, [(key, arranged(tree[key], value)) for key, value in like.items()])
    form, like_form = form_of(type(tree)), form_of(type(like))
    if form is None or like_form is None or [*form.names(tree)] != [*like_form.names(like)]:
        return tree
    return form.like(tree, [arranged(*pair) for pair in zip(form.parts(tree), like_form.parts(like), strict=True)])


def map_pairs(fn: Callable[[Any, Any], object], a: object, b: object) -> Any:
    """Applies `fn(leaf of a, leaf of b)`, in the structure of `a`. Raises DimError if `b` has a different structure."""
    b = arranged(b, a)
    if not same_structure(a, b):
        raise DimError(
            "the two structures differ",
            got=", ".join(name for name, _ in named_leaves(b)) or "nothing",
            expected=", ".join(name for name, _ in named_leaves(a)) or "nothing",
        )
    partners = iter(leaves(b))
    return map_leaves(lambda leaf: fn(leaf, next(partners)), a)


def leaves(tree: object) -> list[Any]:
    """All leaves, in the order in which `map_leaves` visits them."""
    form = form_of(type(tree))
    if form is None:
        return [tree]
    result: list[Any] = []
    for part in form.parts(tree):
        result += [part] if form_of(type(part)) is None else leaves(part)
    return result


def named_leaves(tree: object, prefix: str = "") -> list[tuple[str, Any]]:
    """All leaves with their paths: "lstm.h", "layers.0"."""
    form = form_of(type(tree))
    if form is None:
        return [(prefix, tree)]
    result: list[tuple[str, Any]] = []
    for key, part in zip(form.names(tree), form.parts(tree), strict=True):
        path = f"{prefix}.{key}" if prefix else str(key)
        result += [(path, part)] if form_of(type(part)) is None else named_leaves(part, path)
    return result


def named_parts(tree: object) -> list[tuple[object, object]] | None:
    """The parts of a container with their names; None for a leaf."""
    form = form_of(type(tree))
    return None if form is None else list(zip(form.names(tree), form.parts(tree), strict=True))


def same_structure(a: object, b: object) -> bool:
    """Whether both have the same containers with the same keys."""
    return [name for name, _ in named_leaves(a)] == [name for name, _ in named_leaves(b)]
