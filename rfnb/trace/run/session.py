"""Session-wide decisions about a running loop: recording, its seed, where its run goes, progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from rfnb.core.ground.hook import Hook
from rfnb.core.ground.scope import within
from rfnb.trace.record.loop_record import LoopRecord
from rfnb.trace.run.options import in_notebook, recording_mode
from rfnb.trace.run.run import Run
from rfnb.trace.run.runs import runs

_taker: ContextVar[Callable[[Run], None] | None] = ContextVar("rfnb_taker", default=None)
Draw = Callable[[LoopRecord], None]
_draw: ContextVar[Draw | None] = ContextVar("rfnb_draw", default=None)
_seed: ContextVar[tuple[str, int] | None] = ContextVar("rfnb_seed", default=None)
_told: ContextVar[Callable[[Run], None] | None] = ContextVar("rfnb_told", default=None)


def wants(debug: bool | None) -> bool:
    """Whether a loop that begins now is recorded."""
    if _draw.get() is not None:
        return bool(debug)
    if _taker.get() is not None or _told.get() is not None:
        return True
    return bool(recording_mode()) if debug is None else debug


def keep(run: Run) -> Run:
    """Adds a run to the session, or hands it to who wants it now."""
    taker, told = _taker.get(), _told.get()
    if told is not None:
        told(run)
    if taker is not None or told is None or recording_mode():
        (taker or runs.add)(run)
    return run


def handing_runs_to(taker: Callable[[Run], None]) -> AbstractContextManager[None]:
    """Loops inside the block are recorded, and their runs given to `taker` instead of kept."""
    return within(_taker, taker)


def telling_runs_to(told: Callable[[Run], None]) -> AbstractContextManager[None]:
    """Loops inside the block are recorded, and their runs shown to `told`; they are kept if they would be anyway."""
    outer = _told.get()

    def both(run: Run) -> None:
        told(run)
        if outer is not None:
            outer(run)

    return within(_told, both)


def seeding(loop: str, seed: int) -> AbstractContextManager[None]:
    """Loops of this name draw the random numbers of `seed` inside the block."""
    return within(_seed, (loop, seed))


def seed_of(loop: str) -> int | None:
    """The seed that is set for a loop of this name; None if it draws its own."""
    forced = _seed.get()
    return forced[1] if forced is not None and forced[0] == loop else None


def draw(record: Callable[[], LoopRecord]) -> None:
    """Hands the record of a loop to the active drawer; it is made only if there is one."""
    drawer = _draw.get()
    if drawer is not None:
        drawer(record())


@contextmanager
def drawn_by(drawer: Draw) -> Iterator[None]:
    """Loops inside the block are handed to `drawer`, inner ones first. No run is kept."""
    with within(_draw, drawer), handing_runs_to(lambda run: None):
        yield


make_progress: Hook[[str, int], Callable[[int], None] | None] = Hook(
    "trace.run.session.make_progress", by="display.panel.comm", otherwise=lambda name, steps: None
)
"""A function that is called with the number of each step, for the name of a loop and how many steps it has."""


def progress(name: str, steps: int) -> Callable[[int], None] | None:
    """What a loop tells its steps to, if anything."""
    return make_progress(name, steps) if in_notebook() else None
