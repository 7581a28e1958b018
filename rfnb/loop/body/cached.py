"""What is computed once for a whole loop, wherever in its body it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from rfnb.loop.body.entered import entered, outside_of_bodies

T = TypeVar("T")

_made: WeakKeyDictionary[Any, dict[Hashable, object]] = WeakKeyDictionary()  # by the outermost body


def once(key: Hashable, make: Callable[[], T]) -> T:
    """`make()`; in the body of a loop, what it gave there first, as a value from outside of all loops around."""
    bodies = entered.get()
    if not bodies:
        return make()
    made = _made.setdefault(bodies[0], {})
    if key not in made:
        with outside_of_bodies():
            made[key] = make()
    return made[key]  # type: ignore[return-value]
