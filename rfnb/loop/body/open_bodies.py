"""The bodies of nested loops that are being traced now, and values that are computed once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body

T = TypeVar("T")

entered: ContextVar[tuple[Body, ...]] = ContextVar("rfnb_entered", default=())
"""The bodies that are being traced, outermost first."""
_made: WeakKeyDictionary[Any, dict[Hashable, object]] = WeakKeyDictionary()  # per outermost body


@contextmanager
def outside_of_bodies() -> Iterator[None]:
    """Ops inside are not traced by any body, and run in the modes active around the outermost loop."""
    bodies = entered.get()
    with ExitStack() as stack:
        for body in bodies:
            stack.enter_context(body.untraced())
            stack.enter_context(body.generators.ignored())
        for outermost in bodies[:1]:
            stack.enter_context(outermost.backend.modes(outermost.modes))
        yield


def once(key: Hashable, make: Callable[[], T]) -> T:
    """The result of `make()`. Within one outermost body it is called once per key, outside of all loops."""
    bodies = entered.get()
    if not bodies:
        return make()
    cache = _made.setdefault(bodies[0], {})
    if key not in cache:
        with outside_of_bodies():
            cache[key] = make()
    return cache[key]  # type: ignore[return-value]
