"""Iterators of Python itself as variables of a loop: what they go through, and how far they have come."""

from __future__ import annotations

import gc
import itertools
import operator
import sys
import warnings
from collections.abc import Mapping
from types import GeneratorType
from typing import Any

DICTS: dict[type, Any] = {type(iter(view({}))): view for view in (dict.keys, dict.values, dict.items)}
SETS: tuple[type, ...] = (type(iter(set())),)
PLAIN = (
    *(type(iter(kind())) for kind in (list, tuple, str, bytes, bytearray)),
    *(type(iter(numbers)) for numbers in (range(1), range(2**70))),
    *(type(iter("é")), type(reversed([])), type(iter(int, 1))),
    *(enumerate, filter, map, reversed, zip),
    *(
        operator.attrgetter,
        operator.itemgetter,
        operator.methodcaller,
    ),  # which are no iterators, but made in the same way
)
LAZY = (
    *(itertools.accumulate, itertools.chain, itertools.combinations, itertools.compress, itertools.count),
    *(itertools.cycle, itertools.dropwhile, itertools.filterfalse, itertools.islice, itertools.permutations),
    *(itertools.product, itertools.repeat, itertools.starmap, itertools.takewhile, itertools.zip_longest),
)
ITERATORS = frozenset((*DICTS, *SETS, *PLAIN, *LAZY, GeneratorType))
"""The types of iterators that can be made again; of generators only those that have ended."""


def iterator_contents(value: Any) -> dict[str, object] | None:
    """What an iterator goes through, and how far it has come; None if that cannot be read. No item is taken."""
    kind = type(value)
    if kind is GeneratorType:
        return {"made by": iter, "0": ()} if value.gi_frame is None else None
    if kind in DICTS:
        owner = next((part for part in gc.get_referents(value) if isinstance(part, dict)), {})
        return {"made by": kind, "0": owner, "left": value.__length_hint__()}
    try:
        made_by, arguments, *state = _reduced(value) if kind in LAZY else value.__reduce__()
    except (AttributeError, TypeError):
        return None
    contents = {"made by": made_by, **{str(number): part for number, part in enumerate(arguments)}}
    return contents | {"state": state[0]} if state else contents


def _reduced(value: object) -> Any:
    """An iterator of itertools as a call; since Python 3.12 that warns, and from 3.14 on it is gone."""
    if sys.version_info < (3, 12):
        return value.__reduce__()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return value.__reduce__()


def iterator_of(contents: Mapping[str, Any]) -> object:
    """An iterator with these contents."""
    parts = dict(contents)
    made_by, left, state = parts.pop("made by"), parts.pop("left", None), parts.pop("state", None)
    iterator: Any = iter(DICTS[made_by](*parts.values())) if made_by in DICTS else made_by(*parts.values())
    if left is not None:
        for _ in range(len(parts["0"]) - left):
            next(iterator)
    elif state is not None:
        iterator.__setstate__(state)
    return iterator
