"""Records the iterations of plain Python loops while they run: which lines ran, and what they assigned.

The oldest iterations are forgotten where the log itself no longer fits into the budget.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from rfnb.core.ground.source import warn
from rfnb.printable import error_text
from rfnb.trace.pause import pauses
from rfnb.trace.plain.events import Events, make_events
from rfnb.trace.plain.hidden_state import HiddenState, HiddenStateRecorder, LoopContext
from rfnb.trace.plain.iterations import Iterations, run_from
from rfnb.trace.plain.log import Raised, Summary, Tested
from rfnb.trace.plain.pause import after_line, after_step, pauses_of
from rfnb.trace.plain.syntax import BEFORE, CodePlace, Outline, Use, outline
from rfnb.trace.plain.values import tensor_backend
from rfnb.trace.plain.variables import LOOP, MOMENT, FrameVariables
from rfnb.trace.run.failure import Failure
from rfnb.trace.run.job import JOB
from rfnb.trace.run.stretches import Stretches

if TYPE_CHECKING:
    from rfnb.trace.plain.syntax import LoopText
    from rfnb.trace.run.axis_names import Axes


class Client:
    """What wants loops to be recorded: by default all of the frames that are followed for it.

    dims: for variables, the names of their axes. stores: whether it keeps runs.
    """

    dims: Axes | None = None
    stores = True

    def chooses(self, code: CodeType) -> bool:
        """Whether frames that run this code are followed from their first line on."""
        return False

    def wants(self, loop: LoopText, number: int) -> bool:
        """Whether a loop of a frame that is followed is recorded."""
        return True

    def name(self, number: int) -> str | None:
        """The name of a loop; None if it has none of its own."""
        return None

    def done(self, loop: Iterations) -> None:
        """Takes a loop that has ended."""

    def left(self) -> None:
        """A frame that was followed has ended."""

    def pausing(self) -> object:
        """A loop is about to pause."""


class LoopClient(Client):
    """A client that wants one loop of some code, with those inside it."""

    def __init__(self, number: int):
        self._number = number

    def wants(self, loop: LoopText, number: int) -> bool:
        """The loop, and those inside it; not those of its `else`."""
        return self._number in (number, *loop.around)


FORGOTTEN = 24
"""Bytes that an iteration still needs when it was forgotten."""
GAIN, PART = 0.5, 0.25
"""The part of the entries that may have to stay, and the part of the memory of the log that is forgotten at once."""


def forget_oldest(variables: FrameVariables, loops: list[Iterations]) -> int:
    """Forgets a part of the log, up to the beginning of an iteration; by how much places in the log are less now.

    What stays of it are the last value of each variable, and the values before the first iteration of a loop. They are
    moved to the beginning of the log, and belong to no iteration.

    loops: those that are open, the outermost first.
    """
    log, is_open = variables.log, set(map(id, loops))
    loop, step = _beginning_before(loops[0], variables.budgets.statements_of(PART))
    cut, ran = loop.starts[step], loop.ran[step]
    last_places = dict(zip(map(attrgetter("name"), log.uses[:cut]), range(cut), strict=True))
    remaining = [*_left(loops[0], ran, is_open)]
    pinned = {*last_places.values(), *variables.last.values()}.union(*(loop.places.values() for loop in remaining))
    pinned.update(at for loop in loops if loop.pauses is not None for at in loop.pauses.before.values())
    positions = sorted(at for at in pinned if at < cut)
    if not ran or len(positions) > GAIN * max(cut, ran):
        return 0  # hardly anything would be gained
    moment = loop.moments[step]
    places, less = {at: number for number, at in enumerate(positions)}, cut - len(positions)

    def moved(at: int) -> int:
        return at - less if at >= cut else places.get(at, len(positions))

    variables.budgets.forget(cut, ran, places, moved)
    variables.hidden.forget(moment)
    for loop in remaining:
        loop.inner = [inner for inner in loop.inner if inner.ran_end > ran or id(inner) in is_open]
        variables.budgets.log_bytes += FORGOTTEN * loop.forget(ran, len(positions), moved)
        if loop.pauses is not None:
            loop.pauses.move(moved)
    log.remove(cut, ran, positions)
    variables.move(moved)
    return less


def _beginning_before(loop: Iterations, ran: int) -> tuple[Iterations, int]:
    """An iteration that begins closely before a place in the statements of the log: of the outermost loop for which it
    is not far from there."""
    step = max(bisect_right(loop.ran, ran, hi=len(loop.starts)) - 1, 0)
    inner = bisect_right(loop.inner, ran, key=lambda inner: inner.ran[0]) - 1
    if 2 * loop.ran[step] >= ran or inner < 0:
        return loop, step
    beginning = _beginning_before(loop.inner[inner], ran)
    return beginning if beginning[0].ran[beginning[1]] > loop.ran[step] else (loop, step)


def _left(loop: Iterations, ran: int, is_open: set[int]) -> Iterator[Iterations]:
    """A loop, and those in it, that go on after a place in the statements of the log."""
    yield loop
    for inner in loop.inner:
        if inner.ran_end > ran or id(inner) in is_open:
            yield from _left(inner, ran, is_open)


STALE = Summary("that of the iteration before")
"""Stands for the value of an attribute, which differs from what it will be."""


class FrameRecorder:
    """Follows one frame of a recording, and gives the iterations of its loops to `clients` when each has ended."""

    def __init__(self, code: CodeType, text: Outline, clients: list[Client], recording: Recording):
        self.code, self._outline, self.clients, self._recording = code, text, clients, recording
        self._places, self.jumps, self.variables = text.places, text.jumps, FrameVariables(text)
        self._open: list[Iterations] = []
        self._previous = BEFORE
        self._caught: BaseException | None = None  # since the line before
        self._raised: Raised | None = None  # while it is handled
        self._unobserved, self._outside = tensor_backend().unobserved, text.outside
        self._calm: Mapping[int, CodePlace] = {}  # places at which a line only takes what the one before has assigned
        self._before_test: Tested | None = None
        self._tested = 0  # how much of the log conditions were tested on
        self._frame: FrameType | None = None  # while a line is tested, if it may pause
        self.goes_on = False  # whether a paused loop was resumed up to a step or condition

    # -- events

    def line(self, frame: FrameType) -> None:
        """A line is about to run."""
        place = self._calm.get(frame.f_lasti)
        try:
            if place is None or pauses.conditions or pauses.asked:
                self._line_of_any_kind(frame)
                return
            statement, previous, variables = place[0], self._previous, self.variables
            if statement == previous and not place[1]:
                return  # a statement goes on in another line
            if not self._open:
                self._previous = statement
                return
            names = frame.f_locals  # also after `del`, as it keeps alive what was there the last time
            if previous != BEFORE and variables.rows[previous]:
                variables.take(names, previous, True, False)
            variables.log.statements.append(statement)
            if statement in variables.writers:
                with self._unobserved():
                    variables.separate(statement)
            self._previous = statement
        except Exception as error:
            self._give_up(error)
        except BaseException as error:  # a paused cell is stopped
            self._recording.interrupt(error)
            raise

    def _line_of_any_kind(self, frame: FrameType) -> None:
        place = self._places.get(frame.f_lasti)
        if self._raised is not None and self._caught is None and sys.exc_info()[1] is not self._raised.error:
            self._raised = None
        if place is not None:
            self._frame = frame if pauses.conditions or pauses.asked or self.goes_on else None
            with self._unobserved():
                self._line(frame, place)
        self._caught = self._frame = None
        is_calm = self._raised is None and not (self._outside or self.goes_on) and self._places
        self._calm = self._outline.inside[self._open[-1].number if self._open else -1] if is_calm else {}

    def caught(self, error: BaseException) -> None:
        """The line before has raised an error, which may have ended loops; not that of an iterator without items."""
        self._make_room(error)
        self._calm = {}
        if not (isinstance(error, StopIteration | StopAsyncIteration) and self._previous in self._outline.headers):
            self._caught = error
            if self._raised is None or self._raised.error is not error:
                self._raised = Raised(error, self._previous, [*self._open])

    def _line(self, frame: FrameType, place: CodePlace) -> None:
        statement, starts, begins, tentative = place
        if not begins and not starts and statement == self._previous:
            return  # a statement goes on in another line
        if begins:
            names = self._names(frame)
            for loop in begins:
                self._begin(loop, names, tentative and loop == begins[-1])
        elif self._open:
            names = self._names(frame) if self._outside else frame.f_locals
            if self._previous != BEFORE:
                self.variables.take(names, self._previous, self._caught is None, False)
            if self._frame is not None:
                names = self._pause(names)
            if self._open[-1].number not in self._outline.statements[statement].loops:
                header_loop = self._outline.headers.get(statement)
                self._leave_loops(statement, header_loop, names)
                if self._open and self._open[-1].number == header_loop:
                    self._pause(names, ended=True)
        if statement in self._outline.tests and not begins:
            self._test(self._outline.headers[statement], self._names(frame))
        if self._open:
            self.variables.log.statements.append(statement)
            if statement in self.variables.writers:
                self.variables.separate(statement)
        self._previous = statement

    def _leave_loops(self, statement: int, header_loop: int | None, names: Mapping[str, object]) -> None:
        """Closes the loops that a statement is not in; header_loop: the loop of which it is the header."""
        loops = self._outline.statements[statement].loops
        while self._open and self._open[-1].number not in loops and self._open[-1].number != header_loop:
            self._look_again(names)
            raised = self._raised if self._raised is not None and self._open[-1] in self._raised.loops else None
            self._close(self._caught if raised is None else raised.error)

    def leave(self, frame: FrameType, error: BaseException | None, value: object) -> None:
        """The function returns, or is left by an error."""
        self._frame = frame if error is None and (pauses.conditions or self.goes_on) else None
        self._make_room(error)
        try:
            self._take_last(frame, None if isinstance(error, GeneratorExit) else error, value, whole=error is None)
        except BaseException as stopped:
            self._recording.interrupt(stopped)
            raise
        self._frame = self._raised = None
        self._recording.frames.pop(frame, None)
        for client in [*self.clients]:
            client.left()

    def _make_room(self, error: BaseException | None) -> None:
        """Lets go of values if there is no memory left."""
        with self._apart():
            self.variables.budgets.make_room(error)

    def stop(self, frame: FrameType) -> None:
        """The recording ends before the frame does, such as that of a generator that waits."""
        self._take_last(frame, None, None, whole=False)

    def lose(self) -> None:
        """The recording has ended, some lines ago."""
        FrameRecorder._end(self, None, None)
        self._places = {}
        for client in [*self.clients]:
            client.left()

    def _finish(self, names: Mapping[str, object], *, whole: bool = True, header: bool = False) -> None:
        """Takes what the previous line assigned, or changed in place.

        whole: the line ran to its end. header: it is that of a loop, whose target has a new value.
        """
        if self._previous != BEFORE and self._open:
            self.variables.take(names, self._previous, whole, header)

    def _look_again(self, names: Mapping[str, object], targets: Collection[str] = ()) -> None:
        """Takes values whose changes nothing counts, and that other lines, or other names, have changed.

        targets: what the header has assigned already, for the next iteration.
        """
        if not self.variables.uncounted:
            return
        loop_names = self._open[0].text.names if self._open else ()
        line = self._outline.statements[self._previous].line if self._previous != BEFORE else 0
        self.variables.look_again(names, loop_names, targets, Use("", self._previous, line, False, True))

    def _take_last(self, frame: FrameType, error: BaseException | None, value: object, *, whole: bool) -> None:
        """Takes what the last line assigned, and ends the loops. whole: the line ran to its end."""
        with self._apart():
            if self._open:
                names = self._names(frame)
                self._finish(names, whole=whole)
                self._look_again(names)
            self._end(error, value)
            self._previous = BEFORE

    def _end(self, error: BaseException | None, value: object) -> None:
        """The open loops end with the function."""
        while self._open:
            self._close(error)

    def begin(self, frame: FrameType) -> bool:
        """Follows one more frame, if frames are followed one after the other."""
        return False

    def enter(self, frame: FrameType, number: int, name: str | None) -> None:
        """Begins a loop whose header runs already, if no other line begins it, as its body is in the same line."""
        if not self._outline.loops[number].short:
            return
        if any(loop.number == number for loop in self._open):
            self._open[-1].name = name or self._open[-1].name
            return
        with self._apart():
            self._line(frame, CodePlace(self._outline.header_of(number), True, (number,), True))

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        """Code of the recorder, which no one sees, and with whose problems it gives up."""
        try:
            with self._unobserved():
                yield
        except Exception as error:
            self._give_up(error)

    def _names(self, frame: FrameType) -> Mapping[str, object]:
        """The variables of the frame, and those of its module that it changes."""
        variables = self.variables
        if variables.hidden is None:
            variables.hidden = HiddenStateRecorder(frame.f_code, frame.f_globals, variables.hides, variables.spend)
        if not self._outside:
            return frame.f_locals
        module_names = frame.f_globals
        return {**frame.f_locals, **{name: module_names[name] for name in self._outside if name in module_names}}

    def _give_up(self, error: Exception) -> None:
        """Records this frame no longer: a problem of the recorder never becomes one of the loop."""
        self._places, self._open, self._calm, self._recording.problem = {}, [], {}, error
        self.variables.start()
        with contextlib.suppress(Warning):  # also where warnings are errors
            warn(f"the loop is no longer recorded: {type(error).__name__}: {error}")

    # -- iterations

    def _begin(self, number: int, names: Mapping[str, object], tentative: bool) -> None:
        """An iteration of a loop begins; what the header assigned belongs to it."""
        text, variables, self._calm = self._outline.loops[number], self.variables, {}
        if self._previous == BEFORE and not self._open:  # the frame is followed since its header ran
            self._previous = self._outline.header_of(number)
        header_ran = not text.short and self._outline.headers.get(self._previous) == number
        if not header_ran:
            self._finish(names)
            if self._frame is not None:
                names = self._pause(names)
        tested = self._before_test if header_ran else None
        if tested is not None and tested.loop != number:
            tested = None
        if variables.uncounted:
            header = self._outline.statements[self._previous] if header_ran else None
            self._look_again(names, () if header is None else {*header.assigned, *header.parts})
        while self._open and self._open[-1].number != number and self._open[-1].number not in text.around:
            self._close(self._caught)
        if not self._open or self._open[-1].number != number:
            clients = [client for client in self.clients if client.wants(text, number)]
            if not clients:
                return
            loop = Iterations(self.code, self._outline, number, variables.log)
            variables.budgets.log_bytes += LOOP
            loop.name = next(filter(None, (client.name(number) for client in clients)), None)
            loop.dims = {name: axes for client in reversed(clients) for name, axes in (client.dims or {}).items()}
            variables.forget_functions(names)
            loop.places = variables.look_first(text.names, names) if tested is None else tested.initial
            for name in self._recording.stale & loop.places.keys():
                variables.log.values[loop.places[name]], variables.log.versions[loop.places[name]] = STALE, None
            loop.around = self._open[0].around if self._open else self._around(loop)
            if self._open:
                self._open[-1].inner.append(loop)
                loop.inside = True
            self._open.append(loop)
        elif self._frame is not None:
            names = self._pause(names, ended=True)
        if len(self._open) == 1 and self._open[0].starts and JOB in os.environ:
            self._write(self._open[0])
        loop = self._open[-1]
        hidden = variables.hidden
        loop.starts.append(len(variables.log.uses) if tested is None else tested.at)
        loop.ran.append(len(variables.log.statements))
        numbers = hidden.numbers() if tested is None else tested.numbers
        modules = {} if loop.inside else hidden.modules()
        loop.moments.append(HiddenState(numbers, hidden.objects(variables.objects()), modules))
        loop.tentative = tentative
        if self._frame is not None:
            pauses_of(self, loop).begin()
        if header_ran:
            self._finish(names, header=True)
        if not loop.inside and len(loop.starts) == 1:
            variables.copy_inputs(loop)
        if header_ran and self._frame is not None:
            self._pause(names)
        self._previous = BEFORE
        variables.budgets.log_bytes += MOMENT
        if variables.budgets.is_due(hidden.bytes) and variables.count():
            self._tested = max(self._tested - forget_oldest(variables, self._open), 0)
            self._before_test = None

    def _write(self, loop: Iterations) -> None:
        """Writes the newest iterations of the outermost loop for those who follow this job."""
        if self._client_of(loop).stores:
            self._mark_ends()
            loop.stretches = loop.stretches or Stretches()
            loop.stretches.after_step(len(loop.starts), partial(run_from, loop))

    def _around(self, loop: Iterations) -> LoopContext:
        values = self.variables.log.values
        return self.variables.hidden.around({name: values[at] for name, at in loop.places.items()}, loop.text.names)

    def _test(self, number: int, names: Mapping[str, object]) -> None:
        """The test of a `while` loop is about to run; what it assigns, changes and draws belongs to the iteration."""
        text, initial = self._outline.loops[number], {}
        if self._open:
            self._look_again(names)
        if all(loop.number != number for loop in self._open) and any(
            client.wants(text, number) for client in self.clients
        ):
            self.variables.forget_functions(names)
            initial = self.variables.look_first(text.names, names)
        self._before_test = Tested(number, len(self.variables.log), initial, self.variables.hidden.numbers())

    def _close(self, error: BaseException | None = None) -> None:
        """The innermost open loop has ended."""
        loop, variables, self._calm = self._open[-1], self.variables, {}
        end = len(variables.log)
        if loop.tentative and not any(loop.log.entries(loop.starts[-1], end)):
            if error is None or len(loop.starts) == 1:  # else the next item is missing
                loop.starts.pop()
        elif error is None:
            self._pause({}, ended=True)
        self._mark_ends()
        self._open.pop()
        if error is not None and loop.starts:
            in_header = not loop.text.short and self._outline.headers.get(self._previous) == loop.number
            if in_header and isinstance(error, Exception):  # it comes from the next item, or from the test
                loop.starts.append(end)
                loop.ran.append(len(variables.log.statements))
            loop.failed = self._failure(loop, error)
        if loop.pauses is not None:
            loop.pauses.close()
            loop.pauses = None
        if not loop.inside:
            variables.separate_inputs(loop)
            variables.count()
            loop.bytes = variables.budgets.bytes
            variables.let_go()
            variables.start()
            self._tested = 0
            variables.hidden.end(loop.log.others())
        loop.log.let_graphs_go(loop.starts[0] if loop.inside and loop.starts else 0)
        for client in [*self.clients]:
            if client.wants(loop.text, loop.number):
                client.done(loop)
        if loop.stretches is not None:
            loop.stretches.end()

    def _failure(self, loop: Iterations, error: BaseException) -> Failure:
        """The error that ended the last iteration of a loop."""
        number = self._raised.statement if self._raised is not None and self._raised.error is error else self._previous
        line = self._outline.statements[number].line if number != BEFORE else None
        return Failure(len(loop.starts) - 1, error_text(error), line=line)

    # -- pauses

    def _pause(self, names: Mapping[str, object], ended: bool = False) -> Mapping[str, object]:
        """Pauses if there is a reason: after a line, or when an iteration of the innermost loop has ended. Returns the
        variables, which may have been edited."""
        if self._frame is None or not self._open:
            return names
        start, self._tested = self._tested, len(self.variables.log)
        has_paused = after_step(self, self._frame) if ended else after_line(self, self._frame, start)
        return self._names(self._frame) if has_paused else names

    def add_step(self, variables: Iterable[tuple[Use, object]]) -> None:
        """Begins an iteration of the open loop that has these variables."""
        loop = self._open[-1]
        loop.starts.append(len(self.variables.log))
        loop.ran.append(len(self.variables.log.statements))
        with self._unobserved():
            for use, value in variables:
                self.variables.log.statements.append(max(use.statement, 0))
                self.variables.add(use.name, use._replace(statement=max(use.statement, 0)), value)

    def add_edits(self, values: Mapping[str, object]) -> None:
        """Records new values that a user gave to variables while the loop is paused."""
        statements, number = self._outline.statements, self._previous
        line = self._open[-1].text.first if number == BEFORE else statements[number].line
        with self._unobserved():
            for name, value in values.items():
                self.variables.add(name, Use(name, max(number, 0), line, True, False), value)
        self._tested = len(self.variables.log)

    def _mark_ends(self) -> None:
        """The loops that are open have all that was recorded so far."""
        self.variables.settle()
        for loop in self._open:
            loop.end, loop.ran_end = len(self.variables.log), len(self.variables.log.statements)

    def _client_of(self, loop: Iterations) -> Client:
        return next(client for client in self.clients if client.wants(loop.text, loop.number))


class Recording:
    """Records loops in one thread for several clients, from the first that is added until the last is removed.

    frames: the recorders of frames that run. is_held: whether an event holds a loop, so that no others arrive. problem:
    the last one by which a recorder has given up. stale: attributes that have, when a loop begins, the values of an
    iteration before.
    """

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.stale: frozenset[str] = frozenset()
        self._clients: list[Client] = []
        self.frames: dict[FrameType, FrameRecorder] = {}
        self._events: Events | None = None
        self.is_held = False

    def add(self, client: Client) -> None:
        """Records for one more client. Raises Busy if another tool uses the events."""
        self.check()
        if self._events is None:
            events = make_events(self.chooses, self._begin, warn)
            events.start()
            self._events = events
        self._clients.append(client)
        self._events.ask_again()

    def remove(self, client: Client) -> None:
        """Records no more for a client."""
        self.check()
        if client not in self._clients:
            return
        for frame, recorder in [*self.frames.items()]:  # such as those of generators that wait
            if recorder.clients == [client] and recorder is not client:
                recorder.stop(frame)
        if client in self._clients:  # it may have removed itself when its loop ended
            self._clients.remove(client)
        if not self._clients and self._events is not None:
            self._events.stop()
            self._events = None
            self.frames.clear()

    def check(self) -> None:
        """Ends all loops where they were when another tool began to trace, if one did."""
        if self._events is None or self._events.are_ours:
            return
        self._events.stop()
        self._events = None
        recorders = {id(recorder): recorder for recorder in self.frames.values()}
        self.frames.clear()
        for recorder in recorders.values():
            recorder.lose()
        with contextlib.suppress(Warning):  # also where warnings are errors
            warn("loops are no longer recorded, since a debugger or another tool has begun to trace")

    def interrupt(self, error: BaseException) -> None:
        """Ends all loops, because an error leaves a line; Python then traces no more."""
        for frame, recorder in reversed([*self.frames.items()]):
            recorder.leave(frame, error, None)
        for client in [*self._clients]:
            self.remove(client)

    def follow(self, frame: FrameType, client: Client, number: int | None = None) -> None:
        """Records a frame that runs already, for a client; `number` is the loop whose header runs."""
        text = outline(frame.f_code)
        if frame in self.frames:
            self.frames[frame].clients.append(client)
        elif text is not None and self._events is not None:
            self.frames[frame] = FrameRecorder(frame.f_code, text, [client], self)
            self._events.follow(frame)
        if number is not None and frame in self.frames:
            self.frames[frame].enter(frame, number, client.name(number))

    def chooses(self, code: CodeType) -> bool:
        """Whether frames that run this code are followed for any client."""
        clients = [client for client in self._clients if client.chooses(code)]
        return any(isinstance(client, FrameRecorder) or outline(code) is not None for client in clients)

    def _begin(self, frame: FrameType) -> FrameRecorder | None:
        if frame in self.frames:
            return self.frames[frame]
        clients = [client for client in self._clients if client.chooses(frame.f_code)]
        of_calls = [client for client in clients if isinstance(client, FrameRecorder)]
        of_loops = [client for client in clients if not isinstance(client, FrameRecorder)]
        recorder: FrameRecorder | None = next((recorder for recorder in of_calls if recorder.begin(frame)), None)
        text = outline(frame.f_code) if recorder is None and of_loops else None
        if text is not None:
            recorder = FrameRecorder(frame.f_code, text, of_loops, self)
        if recorder is not None:
            self.frames[frame] = recorder
        return recorder


class _OfThread(threading.local):
    """The recording of each thread."""

    def __init__(self) -> None:
        self.recording = Recording()


_of_thread = _OfThread()


def recording_here() -> Recording:
    """The recording of this thread."""
    return _of_thread.recording


def _start_anew() -> None:
    """In a forked process, such as the worker of a DataLoader, nothing is recorded."""
    events, _of_thread.recording = _of_thread.recording._events, Recording()
    if events is not None:
        events.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
