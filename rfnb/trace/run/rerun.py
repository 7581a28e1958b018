"""Repeats a call with the seed of an earlier run, to get the new run of the same loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.ground.raw import selected
from rfnb.errors import LoopError
from rfnb.trace.run import session
from rfnb.trace.run.run import Run


def run_again(run: Run, again: Callable[[], Any]) -> Run:
    """Calls `again()` with the seed of `run`, and returns the new run of the loop with the same name.

    Raises LoopError if the call ran no such loop, or several.
    """
    found: list[Run] = []
    backend, seed = selected(), run.replay.seed
    state = backend.get_random_state()
    backend.set_random_seed(seed)
    try:
        with session.seeding(run.name, seed), session.redirecting_runs(found.append):
            again()
    except BaseException:
        for each in found:
            session.store(each)
        raise
    finally:
        backend.set_random_state(state)
    return session.store(_the_same(run, found))


def _the_same(run: Run, found: list[Run]) -> Run:
    named = [each for each in found if each.name == run.name]
    here = [each for each in named if each.loop == run.loop] or named
    if len(here) == 1:
        return here[0]
    names = ", ".join(dict.fromkeys(each.name for each in found))
    raise LoopError(
        f"{run.name}: the call ran {len(here) or 'no'} loop{'s' * (len(here) > 1)} of this name",
        got=names or "no loop at all",
        expected="one",
        hint='a name for each loop: rf.Loop(…, name="…")' if here else None,
    )
