"""Holds a running loop after a step: shows it where somebody can look, else writes its run to a file."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Literal

from rfnb.core.ground.hook import Hook
from rfnb.core.ground.source import warn
from rfnb.core.run_ctx import get_run_ctx_step
from rfnb.printable import error_text
from rfnb.trace.pause.pauses import Pause, pauses
from rfnb.trace.run.file.save import write_run_file
from rfnb.trace.run.job import file_name, job_folder
from rfnb.trace.run.options import options
from rfnb.trace.run.random_numbers import OwnNumbers
from rfnb.trace.run.run import OneStep
from rfnb.trace.run.runs import runs

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.step import Only, RunStep


MOST_FILES = 5
"""Largest number of files that a process writes."""
MOST_BYTES = 2**30
"""Largest size of these files together."""

_written: list[int] = []  # their sizes


def write_pause(run: Run, step: int, what: str) -> Path | None:
    """Writes the run to `rf.options.pause_folder`, with one warning; None if there is no room or it cannot be written.

    The name of the file has the name of the loop, the rank of the process, if there are several, and the step: that of
    the training, if `rf.init_train_step_run_ctx(step=…)` gave one, or else that of the loop.

    what: the first words of the warning.
    """
    if len(_written) >= MOST_FILES or sum(_written) >= MOST_BYTES:
        return None
    job, training_step = job_folder(), get_run_ctx_step()
    folder = Path(options.pause_folder) if job is None else job / "pauses"
    if training_step and run.training is None:
        run.training = OneStep(training_step, run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{file_name(run.name)}{_rank()}-step{training_step or step}"
        limit = MOST_BYTES // MOST_FILES // 2
        path = write_run_file(run, _free(folder, name), limit=limit, states=limit)
    except Exception as error:
        warn(f"{what}; its run could not be written: {error_text(error)}")
        _written.append(0)
        return None
    _written.append(path.stat().st_size)
    is_last = len(_written) >= MOST_FILES or sum(_written) >= MOST_BYTES
    ending = "; no more are written: a process writes at most 5 files, together 1 GiB" if is_last else ""
    warn(f'{what}; its run is in a file: rf.load_run("{path}"){ending}')
    return path


def _rank() -> str:
    """The rank of this process as a part of a file name; empty if it is the only one."""
    is_only = os.environ.get("WORLD_SIZE", "1") == "1"
    return "" if is_only else f"-rank{file_name(os.environ.get('RANK', '0'))}"


def _free(folder: Path, name: str) -> Path:
    """The path of a file that does not exist yet."""
    paths = (folder / f"{name}{f'-{n}' if n else ''}.rfrun" for n in range(10_000))
    return next(path for path in paths if not path.exists())


MOST_PINNED = 5
"""Largest number of runs that are pinned in place of a pause."""


@dataclass(frozen=True)
class Resume:
    """How a held loop goes on.

    until: pause again after this step. tests: pause again where one of these holds. why: the reason of that pause.
    mute: pause no more until the running cell has ended. stop: end the cell by KeyboardInterrupt.
    """

    until: int | None = None
    tests: tuple[Callable[[RunStep], Any], ...] = ()
    why: str = "the next step"
    mute: bool = False
    stop: bool = False

    @cached_property
    def conditions(self) -> tuple[Pause, ...]:
        """The tests as conditions: an error in one is shown once."""
        return tuple(Pause(test, None) for test in self.tests)


@dataclass
class Paused:
    """A loop that is held after a step.

    run: its steps so far. step: the last one. why: the reason. edit: replaces states for the next step: takes their
    new values by name, and which sequence and hypothesis the edit is for. line: the line that asked for the pause.
    locked: the states that cannot be edited, with the reasons.
    """

    run: Run
    step: int
    why: str
    edit: Callable[[Mapping[str, Any], Only], None] | None = None
    line: int | None = None
    locked: Mapping[str, str] = field(default_factory=dict)


Holding = Literal["yes", "no panel", "no subshells"]

can_hold: Hook[[], Holding] = Hook("trace.pause.hold.can_hold", by="display.panel.comm", otherwise=lambda: "no panel")
"""Whether a panel is connected, and its messages arrive while a cell runs."""

show_and_wait: Hook[[Paused], Resume] = Hook("trace.pause.hold.show_and_wait", by="display.panel.comm")
"""Shows a held loop in the panel, answers its questions, and returns when the user lets the loop go on."""


def hold(paused: Paused) -> Resume | None:
    """Holds the loop until the user lets it go on. Returns None where that is not possible: the run is then written to
    a file, or pinned in the list of runs.

    Raises KeyboardInterrupt if the user stops the cell.
    """
    run, message = paused.run, f"{paused.run.name} was not paused after step {paused.step} ({paused.why})"
    if current_thread() is not main_thread():
        write_pause(run, paused.step, f"{message}: only loops of the main thread can be paused")
        return None
    possible = can_hold()
    if possible == "no panel":
        write_pause(run, paused.step, f"{message}: no panel is connected")
        return None
    if possible == "no subshells":
        _pin(run, f"{message}: that needs ipykernel 7 or newer, with subshells")
        return None
    runs.add(paused.run)
    with OwnNumbers():
        resume = contextvars.Context().run(show_and_wait, paused)  # as between two cells: nothing listens or records
    if resume.stop:
        raise KeyboardInterrupt(f"{paused.run.name} was stopped while it was paused after step {paused.step}")
    if resume.mute:
        pauses.mute()
    return resume


def _pin(run: Run, what: str) -> None:
    """Keeps the run, with a warning; does nothing if there are enough already, since pinned runs keep their memory."""
    room = MOST_PINNED - sum(entry.pinned for entry in runs)
    if room <= 0:
        return
    run.pinned = True
    runs.add(run)
    ending = "" if room > 1 else f"; no more than {MOST_PINNED} are, until you unpin one"
    warn(f"{what}; run {run.serial} is pinned in the panel instead{ending}")
