"""A paused loop holds the main thread, which answers the panel until the user lets the loop go on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.expression.expression import Expression
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.kit.data import read, to_numpy
from rfnb.display.panel.schema import Event, How, PausedView, Where
from rfnb.display.run import view as history_view
from rfnb.display.run.schema import RunView
from rfnb.display.run.step import of_sequence
from rfnb.display.tensor.entries import PAD
from rfnb.display.tensor.value import one_entry
from rfnb.errors import ExpressionError, ViewError
from rfnb.trace.pause import Pause, Paused, Resume, pauses
from rfnb.trace.plain.recorded_variables import RecordedVariables
from rfnb.trace.run import when
from rfnb.trace.run.names import AtLine
from rfnb.trace.run.options import options
from rfnb.trace.run.run import Run
from rfnb.trace.run.step import RunStep
from rfnb.trace.run.variables import NoValue, VariableSteps

BETWEEN = re.compile(r"[\s,;\[\]()]+")
TRUTH = {"true": 1.0, "false": 0.0}


def edited(state: Tensor | int, text: str, at: Mapping[Dim, int]) -> Any:
    """`state` with the entries of `text` at the chosen positions of its dims: one entry for all, or one for each.

    Raises ViewError if an entry is not a number or label, or if the number of entries does not fit.
    """
    if isinstance(state, int):
        return int(_number(text.strip()))
    values = to_numpy(state.raw_tensor).copy()
    part = values[(*(at.get(axis.dim, slice(None)) for axis in read(state).axes), ...)]
    entries = _entries(text, state.sparse_dim)
    if len(entries) not in (1, part.size):
        raise ViewError(
            f"{state.name}: {len(entries)} entries for {part.size}",
            got=text[:40],
            hint=f"write one for all of them, or {part.size}",
        )
    new = np.asarray([np.nan if entry is None else entry for entry in entries])
    keep = np.asarray([entry is None for entry in entries])
    shape = part.shape if len(entries) == part.size else ()
    with np.errstate(invalid="ignore"):
        part[...] = np.where(keep.reshape(shape), part, new.reshape(shape))
    if values.dtype.kind in "biu" and not (keep.reshape(shape) | (part == new.reshape(shape))).all():
        raise ViewError(f"{state.name} cannot hold {text[:40]!r}", expected=state.dtype)
    raw = state.raw_tensor
    return state.like(backend_of_raw(raw).convert_raw(values, state.dtype, state.device))


def _entries(text: str, sparse: Dim | None) -> list[float | None]:
    """The entries of a text; None for `·`, which leaves an entry unchanged."""
    vocab = sparse.vocab if sparse is not None else None
    if sparse is None or vocab is None:
        return [None if word == PAD else _number(word) for word in BETWEEN.split(text) if word]
    labels = [text] if text in vocab else text.split()
    unknown = [label for label in labels if label not in vocab and label != PAD]
    if unknown:
        hint = did_you_mean(text, vocab.labels, "{}") or did_you_mean(unknown[0], vocab.labels, "{}")
        raise ViewError(f"{sparse.name} has no label {unknown[0][:40]!r}", hint=hint)
    return [None if label not in vocab else float(vocab.encode([label])[0]) for label in labels]


def _number(word: str) -> float:
    try:
        return TRUTH[word.lower()] if word.lower() in TRUTH else float(word.replace("−", "-"))
    except ValueError:
        raise ViewError(f"{word[:40]!r} is not a number") from None


Test = Callable[["RunStep"], bool]


def conditions_of(where: Where, run: Run, sequence: int | None) -> list[Test]:
    """The conditions of a search; a step matches if one holds. Raises ViewError for an unknown condition or value."""
    kind = where.get("kind")
    if kind == "expression":
        return [_holds(str(where["text"]), run, sequence)]
    if kind in OF_THE_TREE and sequence is None and run.batch:
        sequence = 0
    if kind not in READY:
        raise ViewError(f"find: no condition {str(kind)[:40]!r}", expected=", ".join(READY))
    return [READY[kind](where, name, sequence) for name in _names(where, run)]


READY: dict[str, Callable[[Where, Any, int | None], Test]] = {
    "not finite": lambda where, name, sequence: when.not_finite(name, batch=sequence),
    "over": lambda where, name, sequence: when.over(float(where["limit"] or 0), name, batch=sequence),
    "changes": lambda where, name, sequence: when.changes(name, batch=sequence),
    "repeats": lambda where, name, sequence: when.repeats(name, batch=sequence),
    "ends": lambda where, name, sequence: when.ends(batch=sequence),
    "best changes": lambda where, name, sequence: when.best_changes(batch=sequence),
    "falls out": lambda where, name, sequence: when.falls_out(str(where["text"]), batch=sequence),
}

OF_THE_TREE = ("best changes", "falls out")
"""Conditions on a search, which hold for the sequence whose tree is shown: the chosen one or the first one."""


def _names(where: Where, run: Run) -> list[str | None]:
    """The values searched: the given one; for a line, the values that it names, else all that it computes."""
    line = where.get("line")
    if line is None:
        return [where.get("name")]
    plain = not run.graph.values  # Python code, of which some steps skip lines
    steps = range(run.steps)[::-1][: None if plain else 1]
    values = next((values for step in steps if (values := [v for v in run[step].values() if v.line == line])), [])
    names = run.replay.names_at(line) if not values and isinstance(run.replay, RecordedVariables) else []
    if not values and not names:
        raise ViewError(f"find: line {line} computes nothing in this loop")
    named = [value.name for value in values if value.name != value.op]
    return [AtLine.of(name, line) for name in dict.fromkeys(names or named or [value.name for value in values])]


def _holds(text: str, run: Run, sequence: int | None) -> Test:
    """Whether an expression is true anywhere, or anywhere in one sequence; numbers are true if not 0."""

    def test(at: RunStep) -> bool:
        try:
            value = at.eval(text)
        except NoValue:
            return False
        if not hasattr(value, "dims"):
            return bool(value)
        data = one_entry(value, of_sequence(run, sequence))
        mask = data.mask()
        true = to_numpy(data.raw) != 0
        return bool((true if mask is None else true & mask).any())

    with suppress(ExpressionError):  # which the test raises
        test.reads = Expression(text).reads  # type: ignore[attr-defined]
    return test


Work = Callable[[], None]
WAIT = 60.0
"""How long a held thread waits for work at most before it looks again whether a panel is there, in seconds."""


class Holder:
    """The queue of work for the main thread, which does it between two cells, or in a cell that is paused."""

    def __init__(self) -> None:
        self.paused: Paused | None = None
        self.resume: Resume | None = None
        self._works: SimpleQueue[Work] = SimpleQueue()
        self._heard = time.monotonic()

    def put(self, work: Work) -> None:
        """Adds work. Safe in any thread."""
        self.hear()
        self._works.put(work)

    def hear(self) -> None:
        """A panel is still there. Safe in any thread."""
        self._heard = time.monotonic()

    def do_next(self) -> None:
        """Does one piece of work, unless a paused cell has done it already."""
        try:
            work = self._works.get_nowait()
        except Empty:
            return
        work()

    def hold(self, paused: Paused, emit: Callable[[Event], object]) -> Resume:
        """Works until the user lets the loop go on, or no panel was there for `rf.options.pause_timeout` seconds."""
        self.paused, self.resume = paused, None
        self.hear()
        emit({"event": "paused", "data": describe(paused)})
        try:
            while self.resume is None:
                seconds = self._heard + options.pause_timeout - time.monotonic()
                if seconds <= 0:
                    return Resume(mute=True)
                try:
                    work = self._works.get(timeout=min(seconds, WAIT))
                except Empty:
                    continue
                work()
            return self.resume
        finally:
            self.paused = None
            emit({"event": "resumed", "data": {"run": paused.run.serial}})


holder = Holder()


def describe(paused: Paused) -> PausedView:
    """What the panel says about a paused loop."""
    run = paused.run
    return {
        "run": run.serial,
        "name": run.name,
        "step": paused.step,
        "why": paused.why,
        "line": paused.line,
        "can_edit": paused.edit is not None,
        "cell_id": run.source.cell_id,
        "locked": dict(paused.locked),
    }


def paused_now(dispatcher: object) -> PausedView | None:
    """The loop that is paused, for a panel that was opened later; None if there is none. Open panels ask from time to
    time, so that the pause goes on.
    """
    holder.hear()
    return None if holder.paused is None else describe(holder.paused)


def pause(dispatcher: object, on: bool = True) -> None:
    """Pauses the next step of a recorded loop, in the running cell or in the next one; or not, if it was asked for."""
    if on:
        pauses.ask()
    else:
        pauses.answer()


def pause_at(dispatcher: object, loop: str, key: str, where: Sequence[Where]) -> None:
    """Pauses loops where the search of the panel or a marked line matches.

    loop: their name. key: what all runs of that loop share. where: the conditions; none removes those given before.
    """
    old = _of_panel.pop(key, None)
    if old is not None:
        old.remove()
    if where:
        _of_panel[key] = pauses.add(Pause(Matches(key, list(where)), loop))


class Matches:
    """Whether a step matches one of the conditions of the panel."""

    words = "a match in the panel"

    def __init__(self, key: str, where: Sequence[Where]):
        self.key, self.where = key, where
        self._tests: tuple[int, list[Test]] = (0, [])  # of the run with this number

    def __call__(self, at: RunStep) -> bool:
        """Whether one of the conditions holds; False in other loops."""
        return any(test(at) for test in self.parts(at.run))

    def parts(self, run: Run) -> list[Test]:
        """The conditions for a run; none for other loops."""
        if run.loop != self.key:
            return []
        if self._tests[0] != run.serial:
            self._tests = run.serial, [test for condition in self.where for test in conditions_of(condition, run, None)]
        return self._tests[1]


_of_panel: dict[str, Pause] = {}


def resume(
    dispatcher: object,
    how: How,
    step: int | None = None,
    where: Sequence[Where] = (),
    sequence: int | None = None,
) -> None:
    """Lets the paused loop go on: for one step, until `step` or until one of the conditions `where` holds, until the
    next pause, without further pauses in this cell ("run"), or not at all ("stop").
    """
    paused = _paused()
    if how not in ("step", "continue", "run", "stop"):
        raise ViewError(f"resume: {str(how)[:40]!r} is not a way to go on", expected="step, continue, run, stop")
    until = paused.step + 1 if how == "step" else None if step is None else max(int(step), paused.step + 1)
    tests = tuple(test for condition in where for test in conditions_of(condition, paused.run, sequence))
    why = "the next step" if how == "step" else "a match in the panel" if tests else "the chosen step"
    holder.resume = Resume(until, tests, why, mute=how == "run", stop=how == "stop")


def edit_paused(dispatcher: object, run: int, states: dict[str, str], sequence: int | None = None) -> RunView:
    """Edits states of the paused loop, with which its next step begins: those of all sequences, or of one; of plain
    Python code, variables, with which its next line runs."""
    paused = _paused()
    loop_run, step = paused.run, paused.step
    if loop_run.serial != run:
        raise ViewError(f"edit: run {run} is not paused", hint=f"run {loop_run.serial} is")
    at, names = of_sequence(loop_run, sequence), [*loop_run.states]
    is_plain = isinstance(loop_run.replay, VariableSteps)
    if is_plain:
        names += [value.name for value in loop_run[step].values()] + [text.name for text in loop_run[step].texts()]
    unknown = set(states) - set(names)
    if paused.edit is None or unknown:
        raise ViewError(f"edit: no state {min(unknown, default='')!r}", expected=", ".join(names) or "none")
    if is_plain:
        new = {name: _typed(loop_run[step], name, text) for name, text in states.items()}
    else:
        new = {name: edited(loop_run[step].after[name], text, at) for name, text in states.items()}
    paused.edit(new, (None, None))
    return history_view.describe_run(loop_run)


def _typed(at: RunStep, name: str, text: str) -> object:
    """The new value of a variable of plain Python code: entries for it, or else a text or an expression."""
    value = at.after[name] if name in at.after.names() else at[name]
    if isinstance(value, str):
        return text
    try:
        return edited(value, text, {})
    except ViewError:
        if not Expression(text).reads:
            raise
        return text


def _paused() -> Paused:
    if holder.paused is None:
        raise ViewError("no loop is paused now", hint="rf.pause_when(…), or the panel's pause button")
    return holder.paused


PAUSING: dict[str, Callable[..., object]] = {
    "paused": paused_now,
    "pause": pause,
    "pause_at": pause_at,
    "resume": resume,
    "edit": edit_paused,
}
