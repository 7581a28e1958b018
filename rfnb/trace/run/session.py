"""Session-wide decisions about a running loop: recording, its seed, where its run goes, progress.

Also `run_again`, which repeats a call to get the run of the same loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from glob import escape
from pathlib import Path

from rfnb.core.ground.backends import selected
from rfnb.core.ground.hook import Hook
from rfnb.core.ground.scope import current_meter, within
from rfnb.errors import LoopError
from rfnb.trace.record.record import LoopRecord
from rfnb.trace.run.job import JOB, file_name, in_job
from rfnb.trace.run.options import in_notebook, options, recording_mode
from rfnb.trace.run.run import Run
from rfnb.trace.run.runs import runs

_receiver: ContextVar[Callable[[Run], None] | None] = ContextVar("rfnb_receiver", default=None)
Draw = Callable[[LoopRecord], None]
_draw: ContextVar[Draw | None] = ContextVar("rfnb_draw", default=None)
_seed: ContextVar[tuple[str, int] | None] = ContextVar("rfnb_seed", default=None)
_observer: ContextVar[Callable[[Run], None] | None] = ContextVar("rfnb_observer", default=None)


waits_for: Hook[[str], bool] = Hook("trace.run.session.waits_for", by="trace.pause", otherwise=lambda loop: False)
"""Whether there is a condition under which loops of this name pause."""


def should_record(debug: bool | None, loop: str) -> bool:
    """Whether a loop of this name that starts now is recorded; `debug` is its option."""
    return should_store(debug) or (not is_drawing() and waits_for(loop))


def should_store(debug: bool | None) -> bool:
    """Whether the run of a loop that starts now is stored; `debug` is its option."""
    if (meter := current_meter()) is not None and meter.records:
        return True
    if is_drawing():
        return bool(debug)
    if _receiver.get() is not None or _observer.get() is not None:
        return True
    return is_wanted(debug)


def is_wanted(debug: bool | None) -> bool:
    """Whether a loop with this `debug` is recorded for `rf.runs`, whatever else observes it."""
    return bool(recording_mode()) if debug is None else debug


def is_drawing() -> bool:
    """Whether loops are only drawn."""
    return _draw.get() is not None


def store(run: Run, *, wanted: bool = True) -> Run:
    """Adds a run to `rf.runs`, or passes it to the active `redirecting_runs` and `observing_runs`; returns it.

    wanted: whether it is more than the run that an `observing_runs` asked for.
    """
    receiver, observer = _receiver.get(), _observer.get()
    if (meter := current_meter()) is not None:
        meter.loop_ran(run)
    if observer is not None:
        observer(run)
    if receiver is not None or observer is None or wanted:
        (receiver or runs.add)(run)
    if JOB in os.environ:
        in_job(lambda folder: _write(run, folder / "runs"))
    return run


def _write(run: Run, folder: Path) -> None:
    """Writes a run for those who follow this job; older ones of its loop are removed, as in `rf.runs`."""
    from rfnb.trace.run.file.save import write_run_file

    folder.mkdir(exist_ok=True)
    name = file_name(run.name)
    write_run_file(run, folder / f"{name}-{run.serial:06d}.rfrun", limit=None, states=options.trace_budget)
    paths = folder.glob(f"{escape(name)}-{'[0-9]' * 6}.rfrun")
    for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns)[: -options.keep]:  # also of an earlier start
        path.unlink()


def store_later(loop: Hashable, n_bytes: int, make: Callable[[], Run]) -> None:
    """Adds a run to `rf.runs` that is made when these are looked at, as `Runs.add_later`; now, if more than that is
    active.
    """
    if _receiver.get() is None and _observer.get() is None and current_meter() is None and JOB not in os.environ:
        runs.add_later(loop, n_bytes, make)
    else:
        store(make())


def redirecting_runs(receiver: Callable[[Run], None]) -> AbstractContextManager[None]:
    """Records the loops inside the block and passes their runs to `receiver` instead of `rf.runs`."""
    return within(_receiver, receiver)


def observing_runs(observer: Callable[[Run], None]) -> AbstractContextManager[None]:
    """Records the loops inside the block and calls `observer` with their runs, in addition to storing them as usual."""
    outer = _observer.get()

    def both(run: Run) -> None:
        observer(run)
        if outer is not None:
            outer(run)

    return within(_observer, both)


def seeding(loop: str, seed: int) -> AbstractContextManager[None]:
    """Makes loops of this name draw their random numbers from `seed` inside the block."""
    return within(_seed, (loop, seed))


def seed_of(loop: str) -> int | None:
    """The seed set by `seeding` for a loop of this name, or None if the loop chooses its own seed."""
    forced = _seed.get()
    return forced[1] if forced is not None and forced[0] == loop else None


def run_again(run: Run, again: Callable[[], object]) -> Run:
    """Calls `again()` with the seed of `run`, and returns the new run of the loop with the same name.

    Raises LoopError if the call ran no such loop, or several.
    """
    runs: list[Run] = []
    backend, seed = selected(), run.replay.seed
    state = backend.get_random_state()
    backend.set_random_seed(seed)
    try:
        with seeding(run.name, seed), redirecting_runs(runs.append):
            again()
    except BaseException:
        for new_run in runs:
            store(new_run)
        raise
    finally:
        backend.set_random_state(state)
    return store(_the_same(run, runs))


def _the_same(run: Run, new_runs: list[Run]) -> Run:
    named = [candidate for candidate in new_runs if candidate.name == run.name]
    matches = [candidate for candidate in named if candidate.loop == run.loop] or named
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(dict.fromkeys(candidate.name for candidate in new_runs))
    raise LoopError(
        f"{run.name}: the call ran {len(matches) or 'no'} loop{'s' * (len(matches) > 1)} of this name",
        got=names or "no loop at all",
        expected="one",
        hint='a name for each loop: rf.Loop(…, name="…")' if matches else None,
    )


def draw(record: Callable[[], LoopRecord]) -> None:
    """Passes the record of a loop to the active drawer; without a drawer, the record is not created."""
    drawer = _draw.get()
    if drawer is None:
        return
    meter = current_meter()
    if meter is not None:
        meter.pause()
    drawer(record())
    if meter is not None:
        meter.resume()


@contextmanager
def drawing_to(drawer: Draw) -> Iterator[None]:
    """Passes the records of loops inside the block to `drawer`, inner loops first. No run is stored."""
    with within(_draw, drawer), redirecting_runs(lambda run: None):
        yield


make_progress: Hook[[str, int], Callable[[int], None] | None] = Hook(
    "trace.run.session.make_progress", by="display.panel.comm", otherwise=lambda name, steps: None
)
"""Creates a progress bar for the name of a loop and its number of steps: a function called with each step number."""


def progress(name: str, steps: int) -> Callable[[int], None] | None:
    """The function that a loop calls with the number of each step, or None if no progress is shown."""
    return make_progress(name, steps) if in_notebook() else None
