"""The kept steps of one loop, and which of them is right for a call.

A step is used again for tensors of the same dims, dtypes and devices, whose sizes lie between those of two traces that
gave the same step. So whatever grows or falls with a size, such as a limit from which on an op computes something else,
is the same as in those traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.tensor import Tensor
from rfnb.loop.kept.again import step_again
from rfnb.loop.kept.keep import KeptStep, NotKept, facts_of, keep
from rfnb.loop.loop import Loop
from rfnb.loop.step import TracedStep
from rfnb.trace.record.record import current_recorder
from rfnb.trace.run import session

MOST = 8
"""Maximum number of steps kept of one loop."""


@dataclass
class _Entry:
    """A kept step. key, facts: what it was traced under. least, most: the sizes between which it holds. extra: what
    the caller wants to know again."""

    key: tuple[Any, ...]
    facts: tuple[Any, ...]
    least: tuple[int, ...]
    most: tuple[int, ...]
    step: KeptStep
    extra: Any

    def is_for(self, key: Sequence[Any], facts: tuple[Any, ...]) -> bool:
        """Whether it was traced under the same conditions."""
        return facts == self.facts and equal(key, self.key)


class KeptSteps:
    """The steps of one loop that were traced before.

    traced, again: how often the body was traced, and how often a kept step was used. refused: why a step was not kept,
    or not used, and how often.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self.traced = self.again = 0
        self.refused: Counter[str] = Counter()

    def __reduce__(self) -> tuple[type[KeptSteps], tuple[()]]:
        """A copy knows no step yet."""
        return KeptSteps, ()

    def find(self, loop: Loop, key: Sequence[Any], given: Sequence[Tensor]) -> tuple[TracedStep, Any] | None:
        """A step for these tensors, and what `kept` got as `extra`; None if the body has to be traced.

        key: values that the lines of the body depend on besides `given`: objects, or numbers, strings and tuples of
        these.
        """
        reason = _in_the_way(loop)
        step = self._find(loop, key, given) if reason is None else None
        if reason is not None:
            self.refused[reason] += 1
        if step is None:
            self.traced += 1
        else:
            self.again += 1
        return step

    def _find(self, loop: Loop, key: Sequence[Any], given: Sequence[Tensor]) -> tuple[TracedStep, Any] | None:
        initial = [leaf for _, leaf in loop.state._leaves()]
        if not all(isinstance(leaf, Tensor) for leaf in initial):
            return None
        facts, sizes = facts_of([*given, *initial])
        for place, entry in enumerate(self._entries):
            if entry.is_for(key, facts) and _between(entry, sizes):
                try:
                    step = step_again(entry.step, loop, [*given, *initial], initial)
                except Exception as why:  # what is wrong with the tensors, the traced body tells with its place
                    self._refuse(why)
                    del self._entries[place]
                    return None
                return step, entry.extra
        return None

    def keeping(
        self,
        loop: Loop,
        key: Sequence[Any],
        given: Sequence[Tensor],
        key_after: Callable[[], Sequence[Any] | None],
        extra: Callable[[], Any],
    ) -> Callable[[TracedStep], None] | None:
        """A function that keeps the step, which is traced now; None if it cannot be kept.

        key_after: gives the key once the step is traced, to see whether its lines change what they depend on. extra:
        gives what `find` returns with the step.
        """
        if _in_the_way(loop) is not None:
            return None
        tensors = [*given, *(leaf for _, leaf in loop.state._leaves() if isinstance(leaf, Tensor))]
        facts, sizes = facts_of(tensors)

        def take(step: TracedStep) -> None:
            try:
                if not equal(key, key_after() or ()):
                    raise NotKept("the body changes what it depends on")
                self._take(tuple(key), facts, sizes, keep(step, tensors), extra())
            except Exception as why:
                self._refuse(why)

        return take

    def _take(
        self, key: tuple[Any, ...], facts: tuple[Any, ...], sizes: tuple[int, ...], step: KeptStep, extra: Any
    ) -> None:
        for entry in self._entries:
            if entry.is_for(key, facts) and entry.step.agrees(step):
                entry.least = tuple(map(min, entry.least, sizes))
                entry.most = tuple(map(max, entry.most, sizes))
                return
        self._entries = [_Entry(key, facts, sizes, sizes, step, extra), *self._entries][:MOST]

    def _refuse(self, why: Exception) -> None:
        self.refused[str(why) if isinstance(why, NotKept) else type(why).__name__] += 1

    def forget(self) -> None:
        """Forgets all steps."""
        self._entries.clear()


def _between(entry: _Entry, sizes: tuple[int, ...]) -> bool:
    return all(low <= n <= high for low, n, high in zip(entry.least, sizes, entry.most, strict=True))


def equal(key: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two keys have the same objects, and equal numbers, strings and tuples."""
    if len(key) != len(other):
        return False
    return all(map(is_, key, other)) or all(map(_same, key, other))


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, int | float | str | tuple) and bool(a == b))


def _in_the_way(loop: Loop) -> str | None:
    """Why a body has to be traced by Python: because somebody looks at it, for example."""
    if current_recorder() is not None:
        return "a loop in a loop"
    if active_listener() is not None:
        return "ops are observed"
    if session.should_record(loop.debug, loop.name) or session.is_drawing():
        return "it is recorded"
    if session.seed_of(loop.name) is not None:
        return "its seed is given"
    return None
