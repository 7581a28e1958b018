"""Warnings of a loop that runs, but probably does not compute what was intended."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.source import PerPlace, Source, frame_of
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopWarning
from rfnb.loop.step import TracedStep, place_of
from rfnb.printable import terminal_text

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.steps.execute import Outcome


class Notice(NamedTuple):
    """A warning. about: the key under which it is shown only once per loop."""

    about: str
    text: str


_judged: PerPlace[set[tuple[str, ...]]] = PerPlace(lambda source: set())


def judged(source: Source | None) -> set[tuple[str, ...]]:
    """The bodies at the line of a `with` that have been judged, each by the names of its states."""
    return set() if source is None else _judged[source]


def judge(step: TracedStep) -> None:
    """Warns of probable mistakes, once for each body in the source and its set of states."""
    if step.reads is None:
        return
    judged(step.source).add(step.states)
    for notice in (*_of_generators(step), *_of_states(step, step.reads)):
        warn(step, notice)


def _of_states(step: TracedStep, reads: frozenset[int]) -> Iterator[Notice]:
    """Warnings about states that the body never sets or never reads."""
    for name in step.states:
        parts = [c for c in step.carried if c.kind == "state" and (c.name == name or c.name.startswith(f"{name}."))]
        if not parts or any(isinstance(part.before, Dim) for part in parts):
            continue
        unchanged = all(step.assigned[part.name] is part.before for part in parts)
        if unchanged and name not in step.set_states:
            yield Notice(f"unset {name}", _unset(name))
        elif not any(part.before.value.number in reads for part in parts):
            yield Notice(f"unread {name}", _unread(name))


def _of_generators(step: TracedStep) -> Iterator[Notice]:
    """Warnings about random numbers from generators that the loop does not control."""
    for name in step.generators:
        yield Notice(
            f"generator {name}",
            f"the body seeds {name} or draws from it; Python runs the body once, so every step gets the same numbers\n"
            "  hint      rf.random_uniform([]) and similar ops draw anew at every step; rf.cond and rf.where choose",
        )


def _unset(name: str) -> str:
    return (
        f"the state {name!r} is never set in the body, so it stays as it was before the loop\n"
        f"  hint      loop.state.{name} = …  # in the body; a constant does not need to be a state"
    )


def _unread(name: str) -> str:
    return (
        f"the state {name!r} is never read: the body does not use its value from the previous step\n"
        f"  hint      use loop.state.{name} before you set it; for the final value alone, loop.last(…)"
    )


def warn_of_end(step: TracedStep, outcome: Outcome) -> None:
    """Warns if the condition of `end` was true for no sequence, unless an axis says how many frames there are."""
    place = place_of(step.carried, "ended")
    if place is None or step.frames_size is not None or not outcome.steps or outcome.steps < step.limit.max:
        return
    ended = step.backend.to_numpy_raw(outcome.states[place])
    if ended.size and not ended.any():
        text = (
            f"the condition of loop.end is never true: no sequence ended within max_seq_len={step.limit.max} steps\n"
            "  hint      rf.watch(…) around the condition shows it step by step; or give a larger max_seq_len"
        )
        warn(step, Notice("end", text))


def not_ended(ended: np.ndarray, condition: Tensor) -> str | None:
    """Says which sequences never ended: "never ended" for all, "never ended: sequences 1, 3 of 5" for some, or None."""
    if ended.all():
        return None
    if not ended.any() or ended.ndim != 1:
        return "never ended" if not ended.any() else f"never ended: {int((~ended).sum())} of {ended.size}"
    numbers, size = np.flatnonzero(~ended), condition.lengths.size(condition.dims[0])
    tags = size.tags if size is not None else None
    named = [f"{n} {tags[n]!r}" if tags is not None else str(n) for n in numbers[:4]]
    sequences = f"sequence{'s' * (len(numbers) > 1)} {', '.join(named)}{', …' * (len(numbers) > 4)}"
    return f"never ended: {sequences} of {ended.size}"


def warn(step: TracedStep, notice: Notice) -> None:
    """Warns at the line of the `with`, once for each loop in the source, however often it runs."""
    source = step.source
    if source is None or not step.warns or notice.about in _warned[source]:
        return
    _warned[source].add(notice.about)
    frame = frame_of(source.code)
    registry = frame.f_globals.setdefault("__warningregistry__", {}) if frame is not None else {}
    text = terminal_text(f"{step.name} ({source.place()}): {notice.text}")
    warnings.warn_explicit(text, LoopWarning, source.file, source.span.line, registry=registry)


_warned: PerPlace[set[str]] = PerPlace(lambda source: set())
"""The keys of the warnings already shown, by the line of the `with`."""


_STATES: dict[str, Callable[[Any], Any]] = {
    "Python's `random`": lambda backend: random.getstate(),
    "`numpy.random`": lambda backend: _numpy(),
    "the backend's own generator": lambda backend: backend.get_random_state(),
}


class GlobalGenerators:
    """Watches the global generators while a body is traced, to find those that it draws from. look: False for off."""

    def __init__(self, backend: type[Backend], *, look: bool):
        self._backend, self.look = backend, look
        self._used: dict[str, None] = {}
        self._before = self._now() if look else {}

    def _now(self) -> dict[str, Any]:
        return {name: reader(self._backend) for name, reader in _STATES.items()}

    def _look(self) -> None:
        if self._before:
            states = self._now()
            self._used |= dict.fromkeys(name for name, state in states.items() if state != self._before[name])
            self._before = states

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Ignores numbers that are drawn in this context, by the loop itself."""
        self._look()
        yield
        if self._before:
            self._before = self._now()

    def used(self) -> list[str]:
        """The generators that the body has drawn from. Call it at the end of the body."""
        self._look()
        return list(self._used)


def _numpy() -> tuple[Any, ...]:
    kind, keys, *numbers = np.random.get_state()
    return kind, keys.tobytes() if isinstance(keys, np.ndarray) else keys, *numbers
