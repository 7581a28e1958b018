"""Where loops of plain Python pause: after the line that makes a condition true, before the next one runs.

A paused loop takes new values for the local variables of the frame that runs.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.lengths import Size
from rfnb.core.expression.expression import Expression
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import RawTensor, Tensor, plain_tensor
from rfnb.errors import LoopError, LoopNameError, RfError
from rfnb.ops.math import where
from rfnb.trace.pause import Pause, Paused, Resume, hold, pauses
from rfnb.trace.plain.rebuild import edited_value, has_numbers, reason_missing
from rfnb.trace.plain.recorded_variables import RecordedVariables, name_of, run_of
from rfnb.trace.plain.syntax import BEFORE, Use
from rfnb.trace.plain.values import Kept, backend_of, keep
from rfnb.trace.run.axis_names import Axes
from rfnb.trace.run.find import Where, test_of
from rfnb.trace.run.names import AtLine, StepNames, Variables
from rfnb.trace.run.run import Run
from rfnb.trace.run.runs import runs
from rfnb.trace.run.step import Only, RunStep, States, StepText, StepValue

if TYPE_CHECKING:
    from rfnb.trace.plain.iterations import Iterations
    from rfnb.trace.plain.recorder import Client, FrameRecorder
    from rfnb.trace.run.step import RunStep


TRUTH = {"true": True, "false": False}


def edited(name: str, old: object, new: Any, at: RunStep) -> object:
    """The value that a variable gets by an edit: of the type, shape, dtype and device of its old one.

    The new entries of a tensor are constants to gradients, all others go on.

    Args:
        name: of the variable.
        old: its value.
        new: as `edited_value` takes it; for all but texts also the text of a number, or an expression.
        at: the step, for expressions.

    Raises LoopError for a variable that cannot be edited, LoopError and DtypeError for values that do not fit,
    ExpressionError for a text that is neither a number nor an expression.
    """
    if isinstance(new, str) and not isinstance(old, str):
        new = _of_text(new.strip(), at)
    _check(name, old)
    raw = old._raw if isinstance(old, Tensor) else old
    backend = backend_of(raw)
    value = edited_value(name, old, new)
    if backend is None or not backend.needs_gradient_raw(raw):
        return value
    result = value._raw if isinstance(old, Tensor) else value
    raw = result if np.ndim(getattr(new, "_raw", new)) == 0 else _changed(raw, result)
    return old.like(raw) if isinstance(old, Tensor) else raw


def _check(name: str, old: object) -> None:
    """Raises LoopError for a variable that cannot be edited, whatever its new value is."""
    raw = old._raw if isinstance(old, Tensor) else old
    backend = backend_of(raw)
    if backend is not None and not backend.is_readable_raw(raw):
        raise LoopError(f"edit: `{name}` cannot be edited, as its numbers cannot be read", got=type(raw).__name__)
    if backend is not None and backend.is_leaf_raw(raw):
        raise LoopError(
            f"edit: `{name}` is a parameter: what holds it, such as an optimizer, would keep the old one",
            hint=f"with torch.no_grad(): {name}.fill_(…), in the code",
        )


def locked(names: Iterable[str], values: Mapping[str, object]) -> dict[str, str]:
    """The states that cannot be edited with numbers, with the reasons. values: the variables of the frame."""
    reasons: dict[str, str] = {}
    for name in names:
        try:
            _check(name, values.get(name))
        except LoopError as error:
            reasons[name] = error.what.removeprefix("edit: ")
        if name not in values:
            reasons[name] = reason_missing(name)
        elif not has_numbers(values[name]):
            reasons[name] = f"`{name}` has no numbers: it is of type {type(values[name]).__name__}"
    return reasons


def write_variables(frame: FrameType, values: Mapping[str, object]) -> None:
    """Writes variables of a frame that runs."""
    for name, value in values.items():
        names = frame.f_locals if name in frame.f_locals else frame.f_globals
        names[name] = value
        if sys.version_info < (3, 13):  # there, `f_locals` is a copy for functions
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _changed(raw: RawTensor, new: object) -> object:
    """The old tensor with the entries that differ in the new one."""
    backend, old = backend_of_raw(raw), plain_tensor(raw)
    before, after = backend.to_numpy_raw(raw), backend.to_numpy_raw(new)
    differs = np.asarray((before != after) & ((before == before) | (after == after)))
    return where(old.like(backend.from_numpy_raw(differs, old.device)), old.like(new), old)._raw


def _of_text(text: str, at: RunStep) -> object:
    if text.lower() in TRUTH:
        return TRUTH[text.lower()]
    for kind in (int, float):
        try:
            return kind(text.replace("−", "-"))
        except ValueError:
            pass
    return at.eval(text)


EACH = "*"
"""Stands for each value that a line assigns."""
OF_STEP = frozenset(("step", "values"))
"""Names in an expression that are not those of variables."""
ROOT = re.compile(r"[.\[]")
"""Ends the name of a variable in that of a part of it."""


class Watch:
    """A condition in one loop, or a part of one, and what has become of it in this iteration.

    Args:
        pause: the condition.
        where: what it tests, or a part of that: the condition holds if one part does.
        why: the reason of a pause.
        of: the loop. The condition waits until all that it reads and the loop assigns has new values.
    """

    def __init__(self, pause: Pause, where: Where, why: str, of: LinePauses):
        self.pause, self.where, self.why = pause, where, why
        self.test = None if where is pause.where else test_of(where)
        self.names = names_read(where)
        self._lines = {str(n): n.line - of.replay._shift for n in self.names or () if isinstance(n, AtLine)}
        self.each = self.names == {EACH}
        self.whole = self.names is None or not self.names.isdisjoint(OF_STEP)
        self._awaited = frozenset() if self.names is None else self.names & of.loop.text.assigned
        self._roots = frozenset(map(root, self.names or ()))
        self.was_tested = False
        self.begin()

    def begin(self) -> None:
        """An iteration begins."""
        self._waits = set(self._awaited)
        self.line: int | None = None  # that last assigned one of the names, if it was not tested since
        self.has_held = self.is_counted = False

    def reads(self, name: str) -> bool:
        """Whether a value with this name is one that the condition reads."""
        return self.each or root(name) in self._roots

    def take(self, name: str, line: int) -> bool:
        """Takes a new value of a variable that it reads. Returns whether the condition can be tested."""
        if self._lines.get(name, line) != line:
            return False
        self.line = line
        self._waits.discard(name)
        return not self._waits and not self.has_held


def names_read(where: object) -> frozenset[str] | None:
    """The names that a condition reads; None if it looks at the whole step."""
    if isinstance(where, str):
        return Expression(where).reads
    reads = getattr(where, "reads", None)
    return frozenset((reads,)) if isinstance(reads, str) else reads


def root(name: str) -> str:
    """The variable that a value is a part of: `x` of `x.0`."""
    return name if name.isidentifier() else ROOT.split(name, maxsplit=1)[0]


class LineStep(RunStep):
    """The running iteration of a loop, as a condition sees it after a line: what it does not ask for is not built.

    Args:
        of: the loop.
        frame: in which it runs.
        names: those that the condition reads; None for all.
    """

    def __init__(self, of: LinePauses, frame: FrameType, names: Collection[str] | None):
        self._of, self._frame, self._names = of, frame, names
        self.step = len(of.loop.starts) - 1
        self._check = "as it is now"

    @property
    def run(self) -> Run:  # type: ignore[override]
        """The iterations so far."""
        return self._of.run_now()

    @property
    def before(self) -> States:  # type: ignore[override]
        """The variables before the iteration."""
        return States(self, self.step)  # type: ignore[arg-type]

    @property
    def after(self) -> States:  # type: ignore[override]
        """The variables now."""
        return States(self, self.step + 1)  # type: ignore[arg-type]

    def values(self) -> list[StepValue]:
        """The values that the iteration has assigned so far, as far as the condition reads them."""
        return [row for row in self._rows(self._names) if isinstance(row, StepValue)]

    def texts(self) -> list[StepText]:
        """What is neither a tensor nor a number."""
        return [row for row in self._rows(self._names) if isinstance(row, StepText)]

    def __getitem__(self, name: str) -> Any:
        rows = [row for row in self._rows([name]) if row.name == name]
        if not rows:
            raise LoopNameError(f"{self._of.name}: the iteration has assigned no {name!r}")
        return rows[-1].text if isinstance(rows[-1], StepText) else rows[-1].tensor

    def state_names(self) -> list[str]:
        """The variables that have a value, as far as the condition reads them."""
        names = self._frame.f_locals
        return [name for name in self._names or self._of.last if name in self._of.last or name in names]

    def state(self, name: str, step: int) -> object:
        """A variable before the iteration, or now. Raises LoopNameError if it had no value."""
        places = self._of.last if step > self.step else self._of.before
        if name in places:
            entry = self._of.loop.log.entry(places[name])
            return self._of.replay._tensor(name, entry.value, entry.version)
        if step > self.step and name in self._frame.f_locals:
            return self._of.replay._tensor(name, keep(self._frame.f_locals[name]))
        raise LoopNameError(f"there is no variable {name!r} before the iteration")

    def _variables(self) -> Mapping[str, object]:
        return LineNames(self, self._of, self._frame)

    def _latest(self, name: str | None) -> list[Any]:
        names = [name] if name is not None else self._of.last if self._names is None else self._names
        arrays = [array for variable in names if variable in self._of.last for array in self._of.arrays(variable)]
        return arrays if arrays or name is None else super()._latest(name)

    def _rows(self, names: Iterable[str] | None) -> list[StepValue | StepText]:
        """The values that the iteration has assigned to variables and their parts; to all if `names` is None."""
        log, start = self._of.loop.log, self._of.loop.starts[-1]
        roots = None if names is None else frozenset(map(root, names))
        places = [at for name, at in self._of.last.items() if at >= start and (roots is None or root(name) in roots)]
        return [row for at in places for row in self._of.replay._values(log.entry(at))]


class LineNames(Mapping[str, object]):
    """The names that an expression can use in a running iteration: the variables of the frame, as they are now.

    Args:
        at: the iteration.
        of: the loop.
        frame: in which it runs.
    """

    def __init__(self, at: LineStep, of: LinePauses, frame: FrameType):
        self._at, self._of, self._locals = at, of, frame.f_locals

    def __getitem__(self, name: str) -> object:
        if name in self._of.dims or (name in self._of.last and name not in self._locals):
            return self._of.replay.as_code_has(self._of.loop.log.entry(self._of.last[name]))
        if name in self._locals:
            return self._locals[name]
        if name == "before":
            return Variables(self._of, self._at.step)
        if name == "step":
            return self._at.step
        if name.isidentifier():
            return StepNames(self._at)[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._locals, *self._of.last, "before", "after", "step", "values"]))

    def __len__(self) -> int:
        return len(list(iter(self)))


class LinePauses:
    """Where one loop of plain Python pauses.

    before: by variable, where in the log its value before this iteration is. last: where its value is now.

    Args:
        loop: the loop, which runs.
        recorder: of its frame.
        client: what wants it to be recorded.
    """

    def __init__(self, loop: Iterations, recorder: FrameRecorder, client: Client):
        self.loop, self.name = loop, loop.name or name_of(loop)
        self.replay = RecordedVariables(loop, loop.dims)
        self.before: dict[str, int] = {}
        self._recorder, self._client = recorder, client
        self._conditions: tuple[Pause, ...] | None = None  # for which there are watches
        self._watches: list[Watch] = []
        self._readers: dict[str, list[Watch]] = {}
        self._resume, self.is_off = Resume(), False
        self._ended = -1  # the last iteration that was tested at its end

    @property
    def last(self) -> dict[str, int]:
        """By variable, where in the log its value is."""
        return self._recorder.variables.last

    def begin(self) -> None:
        """An iteration begins."""
        self.before = dict(self.last)
        for watch in self._watches:
            watch.begin()

    def move(self, moved: Callable[[int], int]) -> None:
        """Takes the places in the log after the oldest iterations were forgotten."""
        self.before = {name: moved(at) for name, at in self.before.items()}
        for replay in (self.replay, None if self.loop.run is None else self.loop.run.replay):
            if isinstance(replay, RecordedVariables):
                replay.look_again()

    @property
    def dims(self) -> Axes:
        """The names of the axes of variables."""
        return self.loop.dims

    def variable_names(self) -> list[str]:
        """The variables that had a value before the iteration."""
        return [*self.before]

    def variable(self, name: str, step: int) -> object:
        """A variable before the iteration, as code has it. Raises KeyError if there was none."""
        return self.replay.as_code_has(self.loop.log.entry(self.before[name]))

    def arrays(self, name: str) -> Sequence[np.ndarray | Tensor]:
        """The numbers of a variable, or of its parts; rf Tensors as they are."""
        at, log = self.last[name], self.loop.log
        value, version = log.values[at], log.versions[at]
        if version is not None:
            return [backend_of(value).to_numpy_raw(value)]
        if type(value) in (bool, int, float):
            return [np.asarray(value)]
        if type(value) is Kept and value.backend is not None and not (value.note or isinstance(value.value, Tensor)):
            return [value.backend.to_numpy_raw(value.value)]
        rows = self.replay._values(self.loop.log.entry(self.last[name]))
        return [row.tensor for row in rows if isinstance(row, StepValue)]

    def ready(self, uses: Sequence[Use]) -> list[Watch]:
        """The conditions that read a variable which a line has assigned, and that can be tested."""
        if self._conditions is not pauses.conditions:
            self._renew()
        watches: list[Watch] = []
        for use in uses if not self.is_off else ():
            name = use.name
            if name not in self._readers:
                self._readers[name] = [watch for watch in self._watches if watch.reads(name)]
            if use.statement != BEFORE:
                watches += [watch for watch in self._readers[name] if watch.take(name, use.line)]
        return watches

    def _renew(self) -> None:
        """Takes the conditions that there are now."""
        self._conditions, self._readers = pauses.conditions, {}
        old = {(watch.pause, watch.where): watch for watch in self._watches}
        conditions = [(pause, pause.words) for pause in pauses.of(self.name)]
        conditions += [(pause, self._resume.why) for pause in self._resume.conditions]
        self._watches = [
            old.get((pause, where)) or Watch(pause, where, why, self)
            for pause, why in conditions
            for where in self._parts(pause.where)
        ]

    def _parts(self, where: Where) -> Sequence[Where]:
        """The conditions of the panel, each on its own."""
        parts: Callable[[Run], Sequence[Where]] | None = getattr(where, "parts", None)
        try:
            return [where] if parts is None else parts(self.run_now())
        except RfError:  # such as of a marked line that assigns nothing: tested as a whole, where the error is shown
            return [where]

    def run_now(self) -> Run:
        """The iterations so far, as the Run of a loop that goes on; its memory is not counted anew."""
        run, steps = self.loop.run or self.run(), len(self.loop.starts)
        if run.size.max != steps + 1 and isinstance(run.replay, RecordedVariables):
            self._recorder._mark_ends()
            run.replay.look_again()
            run.steps, run.size = steps, Size([], steps + 1)
        return run

    def run(self) -> Run:
        """The iterations so far, as a Run; always the same one."""
        self._recorder._mark_ends()
        self.loop.run = run_of(self.loop, self.loop.dims)
        return self.loop.run

    def test(self, watch: Watch, frame: FrameType, names: Collection[str] | None) -> bool:
        """Whether a condition holds now."""
        with listening(None):
            holds = watch.pause.holds(LineStep(self, frame, names), again=watch.is_counted, test=watch.test)
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
        self.ready(())
        for watch in self._watches:
            line = watch.line
            names = None if watch.each else watch.names
            if not watch.has_held and (watch.whole or line is not None) and self.test(watch, frame, names):
                return watch.why, line
        return None

    def hold(self, frame: FrameType, why: str, line: int | None) -> None:
        """Holds the loop. Raises KeyboardInterrupt if the user stops the cell."""
        run, step = self.run(), len(self.loop.starts) - 1
        self._client.pausing()
        line = None if line is None else line + self.replay._shift
        with listening(None):
            reasons = locked(run.states, {**frame.f_globals, **frame.f_locals})
            resume = hold(Paused(run, step, why, partial(self._edit, frame), line, reasons))
        self.loop.was_paused = self.loop.was_paused or resume is not None
        self._resume, self.is_off, self._conditions = resume or Resume(), resume is None, None
        self._recorder.goes_on = self._resume.until is not None or bool(self._resume.tests)

    def _edit(self, frame: FrameType, variables: Mapping[str, object], only: Only = (None, None)) -> None:
        """Gives variables of the frame new values, with which the loop goes on: all, or none if one does not fit."""
        step = len(self.loop.starts) - 1
        if only != (None, None):
            raise LoopError("edit: a loop of plain Python has no sequences and hypotheses")
        names = {**frame.f_globals, **frame.f_locals}
        if unknown := [name for name in variables if name not in names or name not in self.last]:
            raise LoopNameError(f"edit: {self.name} has no variable `{unknown[0]}`", expected=", ".join(self.last))
        if not variables:
            return
        at = self.run()[step]
        values = {name: edited(name, names[name], new, at) for name, new in variables.items()}
        write_variables(frame, values)
        self._recorder.add_edits(values)
        run = self.run()
        run.edits[step] = list(dict.fromkeys([*run.edits.get(step, []), *values]))

    def close(self) -> None:
        """The loop has ended."""
        for watch in self._watches:
            if not watch.was_tested and not self.loop.inside:
                watch.pause.lacks(
                    len(self.loop.starts), f"{self.name} assigns no {', '.join(sorted(watch.names or ()))}"
                )
        if self.loop.run is not None:
            run = run_of(self.loop, self.loop.dims)
            if self.loop.inside and self.loop.was_paused:
                runs.add(run)


def pauses_of(recorder: FrameRecorder, loop: Iterations) -> LinePauses:
    """Where an open loop pauses."""
    if loop.pauses is None:
        loop.pauses = LinePauses(loop, recorder, recorder._client_of(loop))
    return loop.pauses


def after_line(recorder: FrameRecorder, frame: FrameType, start: int) -> bool:
    """Pauses after a line if there is a reason; `start` is where in the log it began. Returns whether there was one."""
    if pauses.muted:
        return False
    if pauses.asked and recorder._previous != BEFORE:
        statement, of = recorder._outline.statements[recorder._previous], pauses_of(recorder, recorder._open[-1])
        if of.loop.number in statement.loops and not of.is_off:
            _hold(recorder, of, frame, str(pauses.answer()), statement.line)
            return True
    uses = recorder.variables.log.uses[start:]
    reason: tuple[LinePauses, str, int | None] | None = None
    tested: set[tuple[Pause, Where]] = set()
    for loop in reversed(recorder._open):
        of = loop.pauses or pauses_of(recorder, loop)
        for watch in of.ready(uses):
            line = watch.line
            if line is None or (watch.pause, watch.where) in tested:  # an inner loop has tested it
                watch.line = None
                continue
            tested.add((watch.pause, watch.where))
            if of.test(watch, frame, [use.name for use in uses] if watch.each else watch.names) and reason is None:
                reason = of, watch.why, line
    if reason is not None:
        _hold(recorder, reason[0], frame, *reason[1:])
    return reason is not None


def after_step(recorder: FrameRecorder, frame: FrameType) -> bool:
    """Pauses at the end of an iteration of the innermost loop if there is a reason. Returns whether there was one."""
    of = pauses_of(recorder, recorder._open[-1])
    reason = None if pauses.muted else of.after_step(frame)
    if reason is not None:
        _hold(recorder, of, frame, *reason)
    return reason is not None


def _hold(recorder: FrameRecorder, of: LinePauses, frame: FrameType, why: str, line: int | None) -> None:
    """Holds a loop inside of an event: until it goes on, nothing else is recorded in this thread."""
    recorder._recording.is_held = True
    try:
        of.hold(frame, why, line)
    finally:
        recorder._recording.is_held = False
