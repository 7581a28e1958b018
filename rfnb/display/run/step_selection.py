"""Selects the steps that the static view of a run shows, with the reason for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.ground.text import count_of
from rfnb.display.kit import options
from rfnb.display.kit.data import read, to_numpy
from rfnb.display.run.state_history import SampledState
from rfnb.display.run.step import spread

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

ENDS = 4
"""Largest number of shown steps at which sequences end."""


def chosen_steps(run: Run, sequence: int | None, steps: int, histories: Sequence[SampledState]) -> dict[int, str]:
    """The reason for each shown step; "" for steps that only fill gaps. All steps, if there are few.

    steps: the number of steps, of the sequence if one was chosen; includes a failed step.
    """
    reasons: dict[int, list[str]] = {}
    for step, why in _events(run, sequence, steps, histories):
        if step in reasons or len(reasons) < options.HISTORY_STEPS or steps <= options.HISTORY_STEPS:
            reasons.setdefault(step, []).append(why)
    if steps <= options.HISTORY_STEPS:
        return {step: ", ".join(reasons.get(step, [])) for step in range(steps)}
    while len(reasons) < options.HISTORY_STEPS:
        reasons[_middle(sorted(reasons))] = []
    return {step: ", ".join(reasons[step]) for step in sorted(reasons)}


def _middle(steps: list[int]) -> int:
    """The step in the middle of the widest gap."""
    _, before, after = max((b - a, a, b) for a, b in pairwise(steps))
    return (before + after) // 2


def _events(run: Run, sequence: int | None, steps: int, histories: Sequence[SampledState]) -> Iterator[tuple[int, str]]:
    """Events as (step, reason), the most important first."""
    if steps > options.HISTORY_STEPS:
        yield from [(0, "first"), (steps - 1, "last")]
    if run.failed is not None and run.failed.step < steps:
        yield run.failed.step, "failed"
    yield from ((step, why) for step, why in _fork(run) if step < steps)
    for history in histories:
        if (place := history.not_finite()) is not None:
            step, since = history.steps[place], history.since(place)
            yield step, f"{history.name} is not finite" + (f", first at step {since} or later" if since < step else "")
    if sequence is None:
        yield from _ends(run)
    for history in histories:
        if (change := history.largest_change()) is not None:
            place, jumped = change
            step, since = history.steps[place], history.since(place)
            among = f" from step {since} to here" if since < step else ", except in step 0" if jumped else ""
            yield step, f"{history.name} changes most{among}"


def _fork(run: Run) -> Iterator[tuple[int, str]]:
    """The step where a fork begins, and the states edited there, which no step computed."""
    step, parent = run.forked_at, run.parent
    if step is None or parent is None:
        return
    edited = [name for name in run.states if _differs(*(side.replay.state(name, step) for side in (run, parent)))]
    words = ", ".join(edited)
    if edited and step:
        yield step - 1, f"{words} edited after it"
    yield step, "the fork begins" + (f", {words} edited before it" if edited and not step else "")


def _differs(a: Any, b: Any) -> bool:
    if not (hasattr(a, "dims") and hasattr(b, "dims")):
        return bool(a != b)
    first, second = (to_numpy(read(value).raw) for value in (a, b))
    return not np.array_equal(first, second, equal_nan=True)


def _ends(run: Run) -> Iterator[tuple[int, str]]:
    """The steps at which sequences end while others continue."""
    counts = run.begun.values.reshape(-1).tolist() if run.begun.dims else []
    at = {n: [i for i, count in enumerate(counts) if count == n] for n in sorted({*counts}) if 0 < n < max(counts)}
    for n in spread([*at], ENDS):
        indices = at[n]
        name = repr(run.tags[indices[0]]) if run.tags else f"sequence {indices[0]}"
        yield n - 1, f"{name} ends" if len(indices) == 1 else f"{count_of(len(indices), 'sequence')} end"
