"""What is computed once for a whole loop, wherever in its body it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import ExitStack
from typing import TypeVar
from weakref import WeakKeyDictionary

from rfnb.loop.body import Body
from rfnb.loop.print_value import entered

T = TypeVar("T")

_made: WeakKeyDictionary[Body, dict[Hashable, object]] = WeakKeyDictionary()


def once(key: Hashable, make: Callable[[], T]) -> T:
    """`make()`; in the body of a loop, what it gave there first, as a value from outside of all loops around."""
    bodies = entered.get()
    if not bodies:
        return make()
    made = _made.setdefault(bodies[0], {})
    if key not in made:
        with ExitStack() as stack:
            for body in bodies:
                stack.enter_context(body.aside())
                stack.enter_context(body.chance.own())
            stack.enter_context(bodies[0].backend.modes(bodies[0].modes))
            made[key] = make()
    return made[key]  # type: ignore[return-value]
