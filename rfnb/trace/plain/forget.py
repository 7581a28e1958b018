"""Forgets the oldest iterations of loops that run, where the log itself no longer fits into the budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from rfnb.trace.plain.iterations import Iterations
from rfnb.trace.plain.variables import FrameVariables

FORGOTTEN = 24
"""Bytes that an iteration still needs when it was forgotten."""
GAIN, PART = 0.5, 0.25
"""The part of the entries that may have to stay, and the part of the memory of the log that is forgotten at once."""


def forget_oldest(variables: FrameVariables, loops: list[Iterations]) -> int:
    """Forgets a part of the log, up to the beginning of an iteration; by how much places in the log are less now.

    What stays of it are the last value of each variable, and the values before the first iteration of a loop. They are
    moved to the beginning of the log, and belong to no iteration.

    loops: those that are open, the outermost first.
    """
    log, is_open = variables.log, set(map(id, loops))
    loop, step = _beginning_before(loops[0], variables.budgets.statements_of(PART))
    cut, ran = loop.starts[step], loop.ran[step]
    last = dict(zip(map(attrgetter("name"), log.uses[:cut]), range(cut), strict=True))
    left = [*_left(loops[0], ran, is_open)]
    pinned = {*last.values(), *variables.last.values()}.union(*(loop.places.values() for loop in left))
    pinned.update(at for loop in loops if loop.pauses is not None for at in loop.pauses.before.values())
    kept = sorted(at for at in pinned if at < cut)
    if not ran or len(kept) > GAIN * max(cut, ran):
        return 0  # hardly anything would be gained
    moment = loop.moments[step]
    places, less = {at: number for number, at in enumerate(kept)}, cut - len(kept)

    def moved(at: int) -> int:
        return at - less if at >= cut else places.get(at, len(kept))

    variables.budgets.forget(cut, ran, places, moved)
    variables.hidden.forget(moment)
    for loop in left:
        loop.inner = [inner for inner in loop.inner if inner.ran_end > ran or id(inner) in is_open]
        variables.budgets.log_bytes += FORGOTTEN * loop.forget(ran, len(kept), moved)
        if loop.pauses is not None:
            loop.pauses.move(moved)
    log.remove(cut, ran, kept)
    variables.move(moved)
    return less


def _beginning_before(loop: Iterations, ran: int) -> tuple[Iterations, int]:
    """An iteration that begins closely before a place in the statements of the log: of the outermost loop for which it
    is not far from there."""
    step = max(bisect_right(loop.ran, ran, hi=len(loop.starts)) - 1, 0)
    inner = bisect_right(loop.inner, ran, key=lambda inner: inner.ran[0]) - 1
    if 2 * loop.ran[step] >= ran or inner < 0:
        return loop, step
    found = _beginning_before(loop.inner[inner], ran)
    return found if found[0].ran[found[1]] > loop.ran[step] else (loop, step)


def _left(loop: Iterations, ran: int, is_open: set[int]) -> Iterator[Iterations]:
    """A loop, and those in it, that go on after a place in the statements of the log."""
    yield loop
    for inner in loop.inner:
        if inner.ran_end > ran or id(inner) in is_open:
            yield from _left(inner, ran, is_open)
