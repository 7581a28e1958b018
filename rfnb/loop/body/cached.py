"""Values that are computed once per loop, even if several lines of its body need them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from rfnb.loop.body.entered import entered, outside_of_bodies

T = TypeVar("T")

_made: WeakKeyDictionary[Any, dict[Hashable, object]] = WeakKeyDictionary()  # per outermost body


def once(key: Hashable, make: Callable[[], T]) -> T:
    """The result of `make()`. Within one outermost body it is called once per key, outside of all loops."""
    bodies = entered.get()
    if not bodies:
        return make()
    made = _made.setdefault(bodies[0], {})
    if key not in made:
        with outside_of_bodies():
            made[key] = make()
    return made[key]  # type: ignore[return-value]
