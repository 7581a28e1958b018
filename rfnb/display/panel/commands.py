"""Answers to the messages of the front end. No kernel is needed here: `Dispatcher.handle` maps data to data.

Messages arrive in another thread while a cell runs. What is known already is told at once, and so are steps of finished
runs that can be computed from copies; all else that touches tensors is given to the main thread by `later`, which says
"queued" or "busy", and its answer goes out as an event.
"""

from __future__ import annotations

import contextvars
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rfnb.display.beam.schema import NodeAt
from rfnb.display.kit.blocks import reason
from rfnb.display.panel.paused import PAUSING
from rfnb.display.panel.run_commands import TRAVEL
from rfnb.display.panel.schema import PROTOCOL, Event, Hello, Reply
from rfnb.display.run import list_view as runs_view, step as step_view, view as history_view
from rfnb.display.run.schema import RunItem, RunView, StepView
from rfnb.display.run.step import describe_ops, of_sequence
from rfnb.display.tensor import view as tensor_view
from rfnb.display.tensor.schema import TensorView
from rfnb.display.tensor.value import one_entry
from rfnb.display.tensor.view import index_of
from rfnb.errors import ViewError
from rfnb.trace.plain.cells import cells
from rfnb.trace.run.find import steps_begun
from rfnb.trace.run.names import beside

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

SESSION = uuid.uuid4().hex
"""Id of this process, which changes when the kernel restarts, unlike the kernel's id."""

INNER = 64 * 2**20
"""Bytes of runs outside of the list, such as inner loops, that can still be queried."""

Later = Callable[[Callable[[], None]], Literal["queued", "busy"]]


class RunList(Protocol):
    """The part of `rf.runs` that the panel uses."""

    def __iter__(self) -> Iterator[Run]:
        """The runs, newest first."""

    def by_serial(self, serial: int) -> Run:
        """The run with this number."""

    def pin(self, serial: int, pinned: bool = True) -> None:
        """Pins a run, or unpins it."""

    def forget(self, serial: int) -> None:
        """Removes a run."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when the list changes."""


class Dispatcher:
    """Answers messages about `runs`.

    Args:
        runs: the list of runs.
        later: has something done by the main thread, soon ("queued") or when the running cell is over ("busy").
        emit: sends an event to all front ends.
        is_busy: whether a cell runs that does not wait for the panel.
    """

    def __init__(
        self,
        runs: RunList,
        *,
        later: Later | None = None,
        emit: Callable[[Event], object] | None = None,
        is_busy: Callable[[], bool] = lambda: False,
    ):
        self.runs = runs
        self.later = later
        self.emit = emit or (lambda event: None)
        self.is_busy = is_busy
        self.inner: dict[int, Run] = {}

    def handle(self, message: object, answer: Callable[[Reply], None] | None = None) -> Reply:
        """The answer to a message; never raises. `answer` receives a late answer, instead of an event."""
        message = message if isinstance(message, dict) else {}
        number = message.get("id")
        if not isinstance(number, int):
            return _error(-1, "a message is {id, command, args}")
        command, args = message.get("command"), message.get("args") or {}
        if not isinstance(command, str) or command not in COMMANDS or not isinstance(args, dict):
            return _error(
                number, f"unknown command {str(command)[:40]!r}; the kernel's rfnb may be older than the panel"
            )
        waits = command in TOUCHES_TENSORS and not self._is_gone(args)
        if waits and current_thread() is not main_thread() and (later := self.later) is not None:
            beside = self._do_beside(number, command, args) if self.is_busy() else None
            return beside or self._hand_over(later, number, command, args, answer or self._emit_reply)
        return self._do(number, command, args)

    def _hand_over(
        self, later: Later, number: int, command: str, args: dict[str, object], answer: Callable[[Reply], None]
    ) -> Reply:
        try:
            status = later(lambda: answer(self._do(number, command, args)))
        except Exception as error:
            return _error(number, reason(error))
        return {"id": number, "status": status, "data": None, "error": None}

    def _do_beside(self, number: int, command: str, args: dict[str, Any]) -> Reply | None:
        """The answer beside the running cell; None if only the main thread can give it."""
        try:
            if command not in BESIDE or not self.run_of(args["run"]).replay.is_isolated:
                return None
            context = contextvars.Context()
            context.run(beside.set, True)
            reply = context.run(self._do, number, command, args)
        except Exception:  # wrong arguments: the main thread answers with the error
            return None
        return reply if reply["status"] == "ok" else None

    def _do(self, number: int, command: str, args: dict[str, object]) -> Reply:
        try:
            return {"id": number, "status": "ok", "data": COMMANDS[command](self, **args), "error": None}
        except TypeError as error:
            return _error(number, f"{command}: {reason(error)}")
        except Exception as error:
            return _error(number, reason(error), "gone" if self._is_gone(args) else "error")

    def _is_gone(self, args: dict[str, Any]) -> bool:
        """Whether a message is about a run that is no longer kept."""
        serial = args.get("run")
        return isinstance(serial, int) and serial not in self.inner and all(run.serial != serial for run in self.runs)

    def _emit_reply(self, reply: Reply) -> None:
        self.emit({"event": "reply", "data": reply})

    def run_of(self, serial: int) -> Run:
        """The run with this number. Raises what `runs` raises if it was removed."""
        inner = self.inner.get(int(serial))
        return self.runs.by_serial(int(serial)) if inner is None else inner

    def remember(self, runs: Iterable[Run]) -> None:
        """Keeps runs that are not in the list open to queries, until their limit of bytes is reached."""
        listed = {run.serial for run in self.runs}
        new = {run.serial: run for run in runs if run.serial not in listed}
        room = INNER - sum(run.bytes for run in new.values())
        while self.inner and sum(run.bytes for run in self.inner.values()) > room:
            del self.inner[next(iter(self.inner))]
        self.inner |= new


def hello(dispatcher: Dispatcher, protocol: int = 0, version: str = "?") -> Hello:
    """The versions of the kernel; the front end compares `protocol` with its own."""
    return {"protocol": PROTOCOL, "version": _version(), "session": SESSION}


def list_runs(dispatcher: Dispatcher) -> list[RunItem]:
    """All runs, newest first."""
    return runs_view.describe(dispatcher.runs)["runs"]


def run_view(dispatcher: Dispatcher, run: int) -> RunView:
    """Facts about a run that are the same for all steps; also opens the run it was forked from."""
    loop_run = dispatcher.run_of(run)
    if loop_run.parent is not None:
        dispatcher.remember([loop_run.parent])
    return history_view.describe_run(loop_run)


def step_of(
    dispatcher: Dispatcher,
    run: int,
    step: int,
    sequence: int | None = None,
    watch: Sequence[str] = (),
    ops: bool = False,
    op: int | None = None,
    hypothesis: NodeAt | None = None,
    seen: int | None = None,
) -> StepView:
    """One step, by replay, with the values of the expressions in `watch`; with its `ops`, and the values of one.

    hypothesis: of a search, to show values of this one only. seen: how many columns of its tree the front end has.
    """
    loop_run = dispatcher.run_of(run)
    if not 0 <= int(step) < (steps := steps_begun(loop_run)):
        raise ViewError(f"run {run} has no step {step}", expected=f"0 … {steps - 1}" if steps else "none")
    row = _sequence(loop_run, sequence)
    view = step_view.describe_step(loop_run, int(step), row, watch=watch, hypothesis=hypothesis, seen=seen, locked=True)
    if ops:
        view["ops"] = describe_ops(loop_run[int(step)], op, step_view.choose(loop_run, row, hypothesis))
    return view


def value_of(dispatcher: Dispatcher, run: int, step: int, name: str, sequence: int | None = None) -> TensorView:
    """One value of one step, as large as a tensor is shown."""
    loop_run = dispatcher.run_of(run)
    for variable, _op, _line, value, *_ in reversed(list(loop_run[int(step)].values())):
        if variable == name:
            data = one_entry(value, of_sequence(loop_run, _sequence(loop_run, sequence)))
            return tensor_view.describe_data(data)
    if name in loop_run.states:
        data = one_entry(loop_run[int(step)].after[name], of_sequence(loop_run, _sequence(loop_run, sequence)))
        return tensor_view.describe_data(data)
    raise ViewError(f"step {step} of run {run} has no value {str(name)[:40]!r}")


def pin(dispatcher: Dispatcher, run: int, pinned: bool) -> list[RunItem]:
    """Pins a run, or lets newer runs replace it."""
    dispatcher.runs.pin(dispatcher.run_of(run).serial, bool(pinned))
    return list_runs(dispatcher)


def forget(dispatcher: Dispatcher, run: int) -> list[RunItem]:
    """Removes a run and what it holds."""
    dispatcher.runs.forget(dispatcher.run_of(run).serial)
    return list_runs(dispatcher)


def record_cells(dispatcher: Dispatcher, on: bool | None = None) -> bool:
    """Whether the plain loops of all cells are recorded. `on` switches that, from the next cell on."""
    if on is not None:
        cells.every = bool(on)
    return cells.every


COMMANDS: dict[str, Callable[..., object]] = {
    "hello": hello,
    "runs": list_runs,
    "run": run_view,
    "step": step_of,
    "value": value_of,
    "pin": pin,
    "forget": forget,
    "record_cells": record_cells,
    **TRAVEL,
    **PAUSING,
}

BESIDE = frozenset({"step", "value", "find", "training"})
"""Commands that only read a run; a thread beside the running cell can answer them."""

TOUCHES_TENSORS = frozenset({"step", "value", "resume", "edit", *TRAVEL})


def _sequence(run: Run, sequence: int | None) -> int | None:
    return None if sequence is None or not run.batch else index_of(int(sequence), run.batch, run.tags)


def _error(number: int, words: str, status: Literal["error", "gone"] = "error") -> Reply:
    return {"id": number, "status": status, "data": None, "error": words}


def _version() -> str:
    return str(getattr(sys.modules.get("rfnb"), "__version__", "0"))
