"""Dims that look alike: broadcasting one against the other is probably a mistake."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim

_beams: weakref.WeakSet[Dim] = weakref.WeakSet()
_replaced: weakref.WeakKeyDictionary[Dim, weakref.WeakSet[Dim]] = weakref.WeakKeyDictionary()
_extended: weakref.WeakKeyDictionary[Dim, weakref.WeakSet[Dim]] = weakref.WeakKeyDictionary()
_PARTS = {"floordiv": 1, "ceildiv": 1, "floordiv_left": 1, "ceildiv_left": 1, "mod": 1}
"""How many dims of an expression its entries belong to, where not all: a divisor only says how many there are."""


def mark_beam(dim: Dim) -> None:
    """Says that `dim` counts hypotheses or other choices, so that it looks like no other dim; not for a batch."""
    if not dim.is_batch_dim():
        _beams.add(dim)


def is_beam(dim: Dim) -> bool:
    """Whether `dim` counts hypotheses or other choices."""
    return dim in _beams


def mark_extended(before: Dim, after: Dim) -> None:
    """Says that the hypotheses of `after` extend those of `before`: entry i of one is not entry i of the other."""
    _extended.setdefault(before, weakref.WeakSet()).update((after, *_extended.get(after, ())))


def extends(a: Dim, b: Dim) -> bool:
    """Whether the hypotheses of one extend those of the other."""
    return b in _extended.get(a, ()) or a in _extended.get(b, ())


def mark_replaced(dim: Dim, by: Dim) -> None:
    """Says that `by` stands for a second axis of the size of `dim`, so that the two are meant to be different."""
    replaced = _replaced.get(by)
    if (replaced is not None and dim in replaced) or derived(dim, by):
        return
    if replaced is None:
        replaced = _replaced[by] = weakref.WeakSet()
    replaced.update((dim, *_replaced.get(dim, ())))


def look_alike(a: Dim, b: Dim) -> bool:
    """Whether the dims have the same name, line, or fixed size, or are derived from each other.

    Equal lengths do not count, since they differ from batch to batch. Dims of size 1 and beams look like no other dim;
    a dim and its replacement by `rf.replace_dim` are different on purpose.
    """
    if 1 in (a.dimension, b.dimension) or a in _beams or b in _beams or _apart(a, b):
        return False
    if a.name == b.name:
        return True
    if a.is_batch_dim() or b.is_batch_dim():
        return False
    return (a.dimension == b.dimension and (a.is_static() or same_line(a, b))) or derived(a, b)


def same_line(a: Dim, b: Dim) -> bool:
    """Whether the same expression in the user's code made both."""
    if a.made is None or b.made is None:
        return False
    return (a.made.file, a.made.span) == (b.made.file, b.made.span)


def derived(a: Dim, b: Dim) -> bool:
    """Whether one is an expression of the other, or of the same dims: `time` and `time + 1`, `2 * feat` and `feat`."""
    origins_a, origins_b = _origins(a), _origins(b)
    return origins_a <= origins_b or origins_b <= origins_a


def _origins(dim: Dim) -> set[Dim]:
    if dim.expr is None:
        return {dim}
    parts = dim.expr.dims[: _PARTS.get(dim.expr.op)]
    return set().union(*map(_origins, parts))


def _apart(a: Dim, b: Dim) -> bool:
    """Whether one is, or is derived from, a replacement of the other, or both are replacements of the same dim."""
    origins_a, origins_b = _origins(a), _origins(b)
    return origins_a.isdisjoint(origins_b) and not _family(origins_a).isdisjoint(_family(origins_b))


def _family(dims: set[Dim]) -> set[Dim]:
    return dims.union(*(_replaced.get(dim, ()) for dim in dims))
