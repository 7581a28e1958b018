"""Where loops of plain Python pause: after the line that makes a condition true, before the next one runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from rfnb.core.expression.expression import Expression
from rfnb.core.tensor.listener import listening
from rfnb.errors import LoopNameError
from rfnb.trace.pause.hold import Paused, Resume, hold
from rfnb.trace.pause.pauses import Pause, pauses
from rfnb.trace.plain.remembered import Remembered, name_of, run_of
from rfnb.trace.plain.syntax import BEFORE
from rfnb.trace.plain.values import PLAIN
from rfnb.trace.run.run import Run
from rfnb.trace.run.runs import runs
from rfnb.trace.run.step import RunStep, States, StepText, StepValue

if TYPE_CHECKING:
    from rfnb.trace.plain.recorder import Client, FrameRecorder, Iterations

EACH = "*"
"""Stands for each value that a line assigns."""
OF_STEP = frozenset(("step", "values"))
"""Names in an expression that are not those of variables."""


class Watch:
    """A condition in one loop, and what has become of it in this iteration.

    Args:
        pause: the condition.
        why: the reason of a pause.
        assigned: the variables that the loop assigns: the condition waits until those that it reads have new values.
    """

    def __init__(self, pause: Pause, why: str, assigned: Collection[str]):
        self.pause, self.why = pause, why
        self.names = names_read(pause.where)
        self.each = self.names == {EACH}
        self.whole = self.names is None or not self.names.isdisjoint(OF_STEP)
        self._awaited = frozenset() if self.names is None else self.names & frozenset(assigned)
        self._reads: dict[str, bool] = {}
        self.was_tested = False
        self.begin()

    def begin(self) -> None:
        """An iteration begins."""
        self.waits = set(self._awaited)
        self.line: int | None = None  # that last assigned one of the names, if it was not tested since
        self.has_held = self.is_counted = False

    def take(self, fresh: Mapping[str, int]) -> bool:
        """Takes the variables that a line assigned. Returns whether the condition reads one, and can be tested."""
        for name, line in fresh.items():
            if name not in self._reads:
                self._reads[name] = self._is_read(name)
            if self._reads[name]:
                self.line = line
                self.waits.discard(name)
        return self.line is not None and not self.waits and not self.has_held

    def _is_read(self, name: str) -> bool:
        return self.each or root(name) in {root(read) for read in self.names or ()}


def names_read(where: Any) -> frozenset[str] | None:
    """The names that a condition reads; None if it looks at the whole step."""
    if isinstance(where, str):
        return Expression(where).reads
    reads = getattr(where, "reads", None)
    return frozenset((reads,)) if isinstance(reads, str) else None


def root(name: str) -> str:
    """The variable that a value is a part of: `x` of `x.0`."""
    return re.split(r"[.\[]", name, maxsplit=1)[0]


class LineStep(RunStep):
    """The running iteration of a loop, as a condition sees it after a line: what it does not ask for is not built.

    Args:
        of: the loop.
        frame: in which it runs.
        names: those that the condition reads; None for all.
    """

    def __init__(self, of: LoopPauses, frame: FrameType, names: Collection[str] | None):
        self._of, self._frame = of, frame
        self.step = len(of.loop.starts) - 1
        self.before, self.after = States(self, self.step), States(self, self.step + 1)  # type: ignore[arg-type]
        self._roots = None if names is None else dict.fromkeys(map(root, names))
        self._check = "as it is now"
        self._values = None

    @property
    def run(self) -> Run:  # type: ignore[override]
        """The iterations so far."""
        return self._of.run()

    def values(self) -> list[StepValue]:
        """The variables that the iteration has assigned so far, as far as the condition reads them."""
        if self._values is None:
            self._values = [row for row in self._rows() if isinstance(row, StepValue)]
        return self._values

    def texts(self) -> list[StepText]:
        """What is neither a tensor nor a number."""
        return [row for row in self._rows() if isinstance(row, StepText)]

    def __getitem__(self, name: str) -> Any:
        rows = [row for row in self._rows(root(name)) if row.name == name]
        if not rows:
            raise LoopNameError(f"{self._of.name}: the iteration has assigned no {name!r}")
        return rows[-1].text if isinstance(rows[-1], StepText) else rows[-1].tensor

    def state_names(self) -> list[str]:
        """The variables that have a value, as far as the condition reads them."""
        known = {**self._of.before, **self._of.last}
        if self._roots is None:
            return [*known]
        names = self._frame.f_locals
        return [] if EACH in self._roots else [name for name in self._roots if name in known or name in names]

    def state(self, name: str, step: int) -> Any:
        """A variable before the iteration, or now. Raises LoopNameError if it had no value."""
        places = self._of.last if step > self.step else self._of.before
        if name in places:
            return self._value(name, places[name])
        if step > self.step and name in self._frame.f_locals:
            return self._of.replay._tensor(name, self._frame.f_locals[name])
        raise LoopNameError(f"there is no variable {name!r} before the iteration")

    def _rows(self, name: str | None = None) -> list[StepValue | StepText]:
        """The values of a variable, or of all, that the iteration has assigned."""
        last, start = self._of.last, self._of.loop.starts[-1]
        names = [name] if name is not None else self._roots or last
        rows: list[StepValue | StepText] = []
        for each in names:
            if last.get(each, -1) >= start:
                use, value, _ = self._of.loop.log.items[last[each] : last[each] + 3]
                if type(value) in PLAIN and self._roots is not None:
                    rows.append(StepValue(each, type(value).__name__, use.line, value))
                else:
                    rows += self._of.replay._values(self._of.loop.log.entry(last[each]))
        return rows

    def _value(self, name: str, at: int) -> Any:
        _, value, version = self._of.loop.log.items[at : at + 3]
        plain = type(value) in PLAIN and self._roots is not None
        return value if plain else self._of.replay._tensor(name, value, version)


class LoopPauses:
    """Where one loop of plain Python pauses.

    before: by variable, where in the log its value before this iteration is. last: where its value is now.

    Args:
        loop: the loop, which runs.
        recorder: of its frame.
        client: what wants it to be recorded.
    """

    def __init__(self, loop: Iterations, recorder: FrameRecorder, client: Client):
        self.loop, self.name = loop, loop.name or name_of(loop)
        self.replay = Remembered(loop, client.dims)
        self.before: dict[str, int] = {}
        self._recorder, self._client = recorder, client
        self._conditions: tuple[Pause, ...] | None = None  # for which there are watches
        self._watches: list[Watch] = []
        self._resume, self.is_off = Resume(), False
        self._ended = -1  # the last iteration that was tested at its end

    @property
    def last(self) -> dict[str, int]:
        """By variable, where in the log its value is."""
        return self._recorder._last

    def begin(self) -> None:
        """An iteration begins."""
        self.before = dict(self.last)
        for watch in self._watches:
            watch.begin()

    def watches(self) -> list[Watch]:
        """The conditions for this loop, and those with which it was resumed."""
        if self._conditions is not pauses.conditions:
            self._conditions, assigned = pauses.conditions, self.loop.text.assigned
            self._watches = [
                *(Watch(pause, pause.words, assigned) for pause in pauses.of(self.name)),
                *(Watch(condition, self._resume.why, assigned) for condition in self._resume.conditions),
            ]
        return self._watches

    def run(self) -> Run:
        """The iterations so far, as a Run; always the same one."""
        self._recorder._mark_ends()
        self.loop.run = run_of(self.loop, self._client.dims)
        return self.loop.run

    def test(self, watch: Watch, frame: FrameType, names: Collection[str] | None) -> bool:
        """Whether a condition holds now."""
        with listening(None):
            holds = watch.pause.holds(LineStep(self, frame, names), again=watch.is_counted)
        watch.was_tested = watch.is_counted = True
        watch.line, watch.has_held = None, watch.has_held or holds
        return holds

    def after_step(self, frame: FrameType) -> tuple[str, int | None] | None:
        """The reason to pause at the end of an iteration, and a line; None if there is none."""
        step = len(self.loop.starts) - 1
        if self.is_off or self._ended == step:
            return None
        self._ended = step
        until = self._resume.until
        if until is not None and step >= until:
            return self._resume.why, None
        for watch in self.watches():
            line = watch.line
            names = None if watch.each else watch.names
            if not watch.has_held and (watch.whole or line is not None) and self.test(watch, frame, names):
                return watch.why, line
        return None

    def hold(self, frame: FrameType, why: str, line: int | None) -> None:
        """Holds the loop. Raises KeyboardInterrupt if the user stops the cell."""
        run, step = self.run(), len(self.loop.starts) - 1
        self._client.pausing()
        with listening(None):
            resume = hold(Paused(run, step, why, None, None if line is None else line + self.replay._shift))
        self.loop.was_paused = self.loop.was_paused or resume is not None
        self._resume, self.is_off, self._conditions = resume or Resume(), resume is None, None
        self._recorder.goes_on = self._resume.until is not None or bool(self._resume.tests)

    def close(self) -> None:
        """The loop has ended."""
        for watch in self._watches:
            if not watch.was_tested and not self.loop.inside:
                watch.pause.lacks(len(self.loop.starts), f"{self.name} assigns no {', '.join(sorted(watch.names or ()))}")
        if self.loop.run is not None:
            run = run_of(self.loop, self._client.dims)
            if self.loop.inside and self.loop.was_paused:
                runs.add(run)


def pauses_of(recorder: FrameRecorder, loop: Iterations) -> LoopPauses:
    """Where an open loop pauses."""
    if loop.pauses is None:
        loop.pauses = LoopPauses(loop, recorder, recorder._client_of(loop))
    return loop.pauses


def after_line(recorder: FrameRecorder, frame: FrameType, start: int) -> bool:
    """Pauses after a line if there is a reason; `start` is where in the log it began. Returns whether there was one."""
    loops = [of for loop in reversed(recorder._open) if not (of := pauses_of(recorder, loop)).is_off]
    if pauses.muted or not loops:
        return False
    if pauses.asked and recorder._previous != BEFORE:
        statement = recorder._outline.statements[recorder._previous]
        if loops[0].loop.number in statement.loops:
            loops[0].hold(frame, str(pauses.answer()), statement.line)
            return True
    items = recorder._log.items
    fresh = {use.name: use.line for use in items[start::3] if use.statement != BEFORE}
    reasons: list[tuple[LoopPauses, str, int | None]] = []
    tested: set[Pause] = set()
    for of in loops if fresh else ():
        for watch in of.watches():
            if watch.take(fresh):
                if watch.pause in tested:
                    watch.line = None  # an inner loop has tested it
                    continue
                tested.add(watch.pause)
                line = watch.line
                if of.test(watch, frame, {EACH, *fresh} if watch.each else watch.names):
                    reasons.append((of, watch.why, line))
    for of, why, line in reasons[:1]:
        of.hold(frame, why, line)
    return bool(reasons)


def after_step(recorder: FrameRecorder, frame: FrameType) -> bool:
    """Pauses at the end of an iteration of the innermost loop if there is a reason. Returns whether there was one."""
    of = pauses_of(recorder, recorder._open[-1])
    reason = None if pauses.muted else of.after_step(frame)
    if reason is not None:
        of.hold(frame, *reason)
    return reason is not None
