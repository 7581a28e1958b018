"""`rf.pause_when`: where running loops pause, what a held loop gives to the panel, and how it goes on."""

from __future__ import annotations

import atexit
import contextvars
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Literal

from rfnb.core.expression.expression import Expression
from rfnb.core.ground.hook import Hook
from rfnb.core.ground.source import Source, user_source, warn
from rfnb.core.ground.text import did_you_mean
from rfnb.core.run_ctx import get_run_ctx_step
from rfnb.core.tensor.op import guarded
from rfnb.errors import ExpressionNameError, LoopError, LoopNameError, ParameterError
from rfnb.printable import encodable, error_text, printable_name
from rfnb.trace.run.file.save import write_run_file
from rfnb.trace.run.find import Where, test_of, truth
from rfnb.trace.run.job import file_name, job_folder
from rfnb.trace.run.options import in_notebook, options
from rfnb.trace.run.random_numbers import OwnNumbers
from rfnb.trace.run.run import OneStep
from rfnb.trace.run.runs import runs
from rfnb.trace.run.session import waits_for

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.step import Only, RunStep


MOST_FILES = 5
"""Largest number of files that a process writes."""
MOST_BYTES = 2**30
"""Largest size of these files together."""

_written: list[int] = []  # their sizes


def write_pause(run: Run, step: int, message: str) -> Path | None:
    """Writes the run to `rf.options.pause_folder`, with one warning; None if there is no room or it cannot be written.

    The name of the file has the name of the loop, the rank of the process, if there are several, and the step: that of
    the training, if `rf.init_train_step_run_ctx(step=…)` gave one, or else that of the loop.

    message: the first words of the warning.
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
        warn(f"{message}; its run could not be written: {error_text(error)}")
        _written.append(0)
        return None
    _written.append(path.stat().st_size)
    is_last = len(_written) >= MOST_FILES or sum(_written) >= MOST_BYTES
    ending = "; no more are written: a process writes at most 5 files, together 1 GiB" if is_last else ""
    warn(f'{message}; its run is in a file: rf.load_run("{path}"){ending}')
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
    tests: tuple[Callable[[RunStep], object], ...] = ()
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
    edit: Callable[[Mapping[str, object], Only], None] | None = None
    line: int | None = None
    locked: Mapping[str, str] = field(default_factory=dict)


Holding = Literal["yes", "no panel", "no subshells"]

can_hold: Hook[[], Holding] = Hook("trace.pause.can_hold", by="display.panel.comm", otherwise=lambda: "no panel")
"""Whether a panel is connected, and its messages arrive while a cell runs."""

show_and_wait: Hook[[Paused], Resume] = Hook("trace.pause.show_and_wait", by="display.panel.comm")
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


def _pin(run: Run, message: str) -> None:
    """Keeps the run, with a warning; does nothing if there are enough already, since pinned runs keep their memory."""
    room = MOST_PINNED - sum(entry.pinned for entry in runs)
    if room <= 0:
        return
    run.pinned = True
    runs.add(run)
    ending = "" if room > 1 else f"; no more than {MOST_PINNED} are, until you unpin one"
    warn(f"{message}; run {run.serial} is pinned in the panel instead{ending}")


WAY_OUT = "Plain Python loops are recorded by `for … in rf.steps(…):` or `with rf.record_loops():`"


class Pause:
    """A condition under which running loops pause; made by `rf.pause_when`.

    hits: at how many steps it held. checked: at how many steps it was evaluated. error: why it is no longer evaluated.

    >>> pause = rf.pause_when("loss > 100", loop="training")
    >>> pause, pause.hits
    (pause when loss > 100 in 'training', 0)
    >>> pause.remove()
    """

    def __init__(self, where: Where, loop: str | None, source: Source | None = None):
        self.where, self.loop, self.source = where, loop, source
        self.hits, self.checked = 0, 0
        self.error: Exception | None = None
        self._missing: str | None = None  # the name that a loop did not have
        self.was_tested = False  # whether a loop had all that it reads
        self._is_new, self._is_named = True, False  # made in this cell; met by a loop, or named as not met
        self._test: Callable[[RunStep], object] = test_of(where)

    @property
    def words(self) -> str:
        """The condition as text."""
        return self.where if isinstance(self.where, str) else printable_name(_name(self.where))

    def holds(self, at: RunStep, again: bool = False, test: Callable[[RunStep], object] | None = None) -> bool:
        """Whether the condition holds at a step. An error is shown once, as a warning; then the answer is False.

        again: the step was counted already. test: a part of the condition, which is tested instead of the whole.
        """
        if self.error is not None:
            return False
        self.checked += not again
        try:
            hit = truth((test or self._test)(at), self.where, at.step, "pause_when")
            self.was_tested = True
        except (ExpressionNameError, LoopNameError) as error:  # another loop than the one that is meant
            self._missing = error.what
            return False
        except Exception as error:
            self.error = error
            warn(
                f"pause_when: the condition {self.words!r} failed in step {at.step} of {at.run.name}, "
                f"and is no longer evaluated: {error_text(error)}"
            )
            return False
        self.hits += hit
        return hit

    def lacks(self, steps: int, reason: str) -> None:
        """The condition was false at these steps, as the loop does not have what it reads."""
        self.checked, self._missing = self.checked + steps, reason

    def sentence(self, ran: Set[str], has_loop: bool) -> str | None:
        """What is said at the end of a cell, whose loops had the names `ran`; None if nothing."""
        if self.error is not None or self.hits:
            return None
        if self.checked:
            missing = f" ({self._missing})" if self._missing else ""
            return f"{self} was evaluated at {self.checked} steps, and never true{missing}"
        near = None if self.loop is None or self.loop in ran else did_you_mean(self.loop, ran)
        if near is not None:
            return f"{self}: no loop with this name ran, {near}"
        met = bool(ran) if self.loop is None else self.loop in ran
        if met or self._is_named or (self._is_new and not has_loop):
            return None
        self._is_named = True
        reason = (
            f"no loop with this name ran, but {', '.join(map(repr, sorted(ran)))}"
            if ran
            else "no loop ran that is recorded"
        )
        return f"{self}: {reason}. {WAY_OUT}"

    def cell_ended(self) -> None:
        """Counts anew."""
        self._is_named = self._is_named or self.checked > 0
        self.checked, self.hits, self._missing, self._is_new = 0, 0, None, False

    def remove(self) -> None:
        """Removes the condition: loops no longer pause for it."""
        pauses.discard(self)

    def __repr__(self) -> str:
        return encodable(f"pause when {self.words}{'' if self.loop is None else f' in {self.loop!r}'}")


class Pauses:
    """The conditions of this session; `rf.pauses.clear()` removes all.

    `ask()` makes the next step of any loop pause; `mute()` stops all pauses until the running cell has ended.

    conditions: all of them. asked: why the next step pauses, if it was asked for. ran: the names of the loops that ran
        in this cell, while there were conditions.
    """

    def __init__(self) -> None:
        self.conditions: tuple[Pause, ...] = ()  # replaced as a whole: other threads read it
        self.asked: str | None = None
        self.ran: set[str] = set()
        self.muted = False

    def __iter__(self) -> Iterator[Pause]:
        return iter(self.conditions)

    def __len__(self) -> int:
        return len(self.conditions)

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self.conditions))}]"

    def add(self, pause: Pause) -> Pause:
        """Adds a condition. It replaces an equal one, and those that the same line added when its cell ran before."""
        self.conditions = (*(old for old in self.conditions if not _replaces(pause, old)), pause)
        return pause

    def discard(self, pause: Pause) -> None:
        """Removes a condition, if it is there."""
        self.conditions = tuple(old for old in self.conditions if old is not pause)

    def clear(self) -> None:
        """Removes all conditions."""
        self.conditions, self.asked = (), None

    def of(self, loop: str) -> list[Pause]:
        """The conditions for a loop of this name, which runs now, that are still evaluated."""
        if self.conditions:
            self.ran.add(loop)
        return [pause for pause in self.conditions if pause.error is None and pause.loop in (None, loop)]

    def ask(self, why: str = "asked for in the panel") -> None:
        """Makes the next step of any loop pause, in this cell or in a later one."""
        self.asked, self.muted = why, False

    def answer(self) -> str | None:
        """The reason given to `ask`, once."""
        reason, self.asked = self.asked, None
        return reason

    def mute(self) -> None:
        """Makes no loop pause until `cell_ended`."""
        self.muted, self.asked = True, None

    def cell_ended(self, has_loop: bool = False) -> list[str]:
        """Lets loops pause again; returns a sentence for each condition that was never true, or that no loop met.

        has_loop: whether there is a loop in the text of the cell, so that conditions which it made were for it, and not
        for a later cell. That no loop met a condition is said once.
        """
        self.muted = False
        ran, self.ran = self.ran, set()
        sentences = [sentence for pause in self.conditions if (sentence := pause.sentence(ran, has_loop))]
        for pause in self.conditions:
            pause.cell_ended()
        return sentences


pauses = Pauses()


@atexit.register
def end_of_script() -> None:
    """Names conditions that no loop could test, such as one with a misspelt name; in notebooks, each cell does."""
    for pause in pauses if not in_notebook() else ():
        sentence = None if pause.was_tested else pause.sentence(pauses.ran, has_loop=True)
        if sentence:
            print(sentence, file=sys.stderr)


@waits_for.register
def _waits_for(loop: str) -> bool:
    return bool(pauses.of(loop))


@guarded
def pause_when(where: Where, *, loop: str | None = None) -> Pause:
    """Pauses running loops after each step at which a condition holds, in JupyterLab with the panel open.

    >>> pause = rf.pause_when(rf.when.not_finite("h"), loop="decoder")
    >>> list(rf.pauses)
    [pause when h is not finite in 'decoder']
    >>> rf.pauses.clear()

    The step is held before its states are overwritten; a recorded loop of plain Python at the line that makes the
    condition true, before the next one runs. The panel then shows its values, steps the real execution
    forward, and back by replay; a state can be edited before the loop continues. Results and gradients of a loop that
    was paused and not edited are those of a loop that was not paused, bit for bit.

    Where no panel is connected, as in a script, a loop never waits: the first time that the condition holds in a run,
    there is one warning, and the run is written to the folder `rf.options.pause_folder`, for `rf.load_run`.

    where: as for `run.find`: an expression, `rf.when.…`, or a function of the step. It may use states and values of the
        body, or the variables of a recorded loop of plain Python: that of `rf.steps`, `rf.record_loops`, `rf.progress`.
    loop: the name of the loop; None for all. The loop of `rf.progress` is called "training", or as its `name` says.

    Returns the condition, whose `remove()` ends it. It is false in loops that lack a name in it. The end of a cell says
    which conditions were never true, and which no loop met; the end of a script, which no loop could test. A condition
    that raises is shown once, and then ignored.

    Raises ExpressionError for an expression that cannot be read or that calls an unknown function, ParameterError for
    other types.
    """
    if not (isinstance(where, str) or callable(where)):
        raise ParameterError(
            "pause_when: the condition must be an expression, a function or one of rf.when",
            got=type(where).__name__,
            hint='rf.pause_when("loss > 100"), or rf.pause_when(rf.when.not_finite("h"))',
        )
    if not isinstance(loop, str | None):
        raise ParameterError("pause_when: `loop` must be the name of a loop", got=repr(loop), expected="a string")
    if isinstance(where, str):
        Expression(where)
    return pauses.add(Pause(where, loop, user_source()))


def warn_of_inner(loop: str) -> None:
    """Warns if there are conditions for a loop of this name, which runs inside of another loop."""
    for pause in pauses.of(loop):
        if pause.loop == loop:
            pause.error = LoopError("the loop runs inside of another one")
            warn(f"{pause}: {loop} runs inside of another loop, and only the outer one can be paused")


def _name(where: Callable[..., object]) -> str:
    return str(getattr(where, "words", None) or getattr(where, "__name__", None) or type(where).__name__)


def _replaces(new: Pause, old: Pause) -> bool:
    if new.source is None or old.source is None or place_of(new.source) != place_of(old.source):
        return False
    return new.source.code is not old.source.code or (new.words, new.loop) == (old.words, old.loop)


def place_of(source: Source) -> tuple[str, int]:
    """The cell or file, and the line, of a source: the same when the code runs again."""
    cell = source.cell
    return (source.file if cell is None or cell.cell_id is None else cell.cell_id), source.line
