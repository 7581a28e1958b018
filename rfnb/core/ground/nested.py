"""Nested structures of tensors: dicts, lists, tuples, named tuples and States, always walked in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.errors import DimError

_CONTAINERS = (dict, list, tuple)


def map_leaves(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Applies `fn` to each leaf, which is anything but a container, and returns the results in the same structure."""
    if not isinstance(tree, _CONTAINERS):
        return fn(tree)
    if isinstance(tree, dict):
        return type(tree)([(key, map_leaves(fn, value)) for key, value in tree.items()])
    parts = [map_leaves(fn, part) if isinstance(part, _CONTAINERS) else fn(part) for part in tree]
    return tuple(parts) if type(tree) is tuple else _like(tree, parts)


def _like(tree: Any, parts: list[Any]) -> Any:
    """A list or tuple of the same type as `tree`, with other parts."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*parts)
    return type(tree)(parts)


def arranged(tree: Any, like: Any) -> Any:
    """`tree` with the keys of its dicts in the order of `like`; a dict with different keys is left unchanged."""
    if isinstance(tree, dict) and isinstance(like, dict) and tree.keys() == like.keys():
        return type(tree)([(key, arranged(tree[key], value)) for key, value in like.items()])
    if isinstance(tree, list | tuple) and isinstance(like, list | tuple) and len(tree) == len(like):
        others = iter(like)
        return _like(tree, [arranged(part, next(others)) for part in tree])
    return tree


def map_pairs(fn: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Applies `fn(leaf of a, leaf of b)`, in the structure of `a`. Raises DimError if `b` has a different structure."""
    b = arranged(b, a)
    if not same_structure(a, b):
        raise DimError(
            "the two structures differ",
            got=", ".join(name for name, _ in named_leaves(b)) or "nothing",
            expected=", ".join(name for name, _ in named_leaves(a)) or "nothing",
        )
    others = iter(leaves(b))
    return map_leaves(lambda leaf: fn(leaf, next(others)), a)


def leaves(tree: Any) -> list[Any]:
    """All leaves, in the order in which `map_leaves` visits them."""
    if not isinstance(tree, _CONTAINERS):
        return [tree]
    found: list[Any] = []
    _collect(tree, found)
    return found


def _collect(tree: Any, found: list[Any]) -> None:
    for part in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(part, _CONTAINERS):
            _collect(part, found)
        else:
            found.append(part)


def named_leaves(tree: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """All leaves with their paths: "lstm.h", "layers.0"."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        items = list(zip(tree._fields, tree, strict=True))
    elif isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, list | tuple):
        items = list(enumerate(tree))
    else:
        return [(prefix, tree)]
    return [leaf for key, value in items for leaf in named_leaves(value, f"{prefix}.{key}" if prefix else str(key))]


def same_structure(a: Any, b: Any) -> bool:
    """Whether both have the same containers with the same keys."""
    return [name for name, _ in named_leaves(a)] == [name for name, _ in named_leaves(b)]
