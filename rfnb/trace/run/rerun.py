"""Repeats a call with the seed of an earlier run, to get the new run of the same loop."""

from __future__ import annotations

from collections.abc import Callable

from rfnb.core.ground.raw import selected
from rfnb.errors import LoopError
from rfnb.trace.run import session
from rfnb.trace.run.run import Run


def run_again(run: Run, again: Callable[[], object]) -> Run:
    """Calls `again()` with the seed of `run`, and returns the new run of the loop with the same name.

    Raises LoopError if the call ran no such loop, or several.
    """
    runs: list[Run] = []
    backend, seed = selected(), run.replay.seed
    state = backend.get_random_state()
    backend.set_random_seed(seed)
    try:
        with session.seeding(run.name, seed), session.redirecting_runs(runs.append):
            again()
    except BaseException:
        for new_run in runs:
            session.store(new_run)
        raise
    finally:
        backend.set_random_state(state)
    return session.store(_the_same(run, runs))


def _the_same(run: Run, found: list[Run]) -> Run:
    named = [candidate for candidate in found if candidate.name == run.name]
    matches = [candidate for candidate in named if candidate.loop == run.loop] or named
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(dict.fromkeys(candidate.name for candidate in found))
    raise LoopError(
        f"{run.name}: the call ran {len(matches) or 'no'} loop{'s' * (len(matches) > 1)} of this name",
        got=names or "no loop at all",
        expected="one",
        hint='a name for each loop: rf.Loop(…, name="…")' if matches else None,
    )
