"""A user who looks at pauses: what a paused loop shows, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rfnb.trace.pause import hold
from rfnb.trace.pause.hold import Paused, Resume


@contextmanager
def user(answer: Callable[[Paused], Resume] = lambda paused: Resume()) -> Iterator[list[tuple[int, str]]]:
    """Answers each pause inside the block; the list that it gives has the step and the reason of each."""
    seen: list[tuple[int, str]] = []
    before = hold.can_hold.fn, hold.show_and_wait.fn

    def look(paused: Paused) -> Resume:
        seen.append((paused.step, paused.why))
        return answer(paused)

    hold.can_hold.register(lambda: "yes")
    hold.show_and_wait.register(look)
    try:
        yield seen
    finally:
        hold.can_hold.fn, hold.show_and_wait.fn = before
