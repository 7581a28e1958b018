"""Records the iterations of plain Python loops while they run: which lines ran, and what they assigned."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Protocol

from rfnb.core.ground import raw as raw_registry
from rfnb.printable import error_text
from rfnb.trace.pause.pauses import pauses
from rfnb.trace.plain.attributes import HIDDEN, MISSING, Path
from rfnb.trace.plain.budget import Budgets
from rfnb.trace.plain.events import Events, make_events
from rfnb.trace.plain.hidden import Around, Hidden, Moment
from rfnb.trace.plain.log import MOMENT, Entry, Log, Raised, Tested, let_graphs_go
from rfnb.trace.plain.pause import LoopPauses, after_line, after_step, pauses_of
from rfnb.trace.plain.syntax import BEFORE, LoopText, Outline, Place, Use, outline
from rfnb.trace.plain.values import (
    MEDIUM,
    PLAIN,
    SMALL,
    Kept,
    Opaque,
    backend_of,
    growth_of,
    is_opaque,
    is_same,
    keep,
    tensors_in,
    version_of,
)
from rfnb.trace.run.failure import Failure
from rfnb.trace.run.options import options
from rfnb.trace.run.warn import warn

if TYPE_CHECKING:
    from rfnb.trace.plain.remembered import Axes
    from rfnb.trace.run.run import Run


class Iterations:
    """The iterations of a loop of plain Python, while it runs and afterwards.

    code, number: the code object, and which of its loops it is. log: what all loops of the frame assigned. starts, end:
    where in it each iteration begins, and where the last one ends. inner: the loops inside of iterations, in order.
    moments: what no line shows, at the beginning of each iteration. places: where in the log the variables before the
    first one are. around: of the loop, or of the outermost one.
    """

    def __init__(self, code: CodeType, outline: Outline, number: int, log: Log):
        self.code, self.outline, self.number, self.log = code, outline, number, log
        self.starts: list[int] = []
        self.moments: list[Moment] = []
        self.around: Around | None = None
        self.forked_at: int | None = None  # of a fork, its first iteration of its own
        self.notes: Sequence[str] = ()  # of a fork: what is not as it was
        self.ran: list[int] = []  # where in the statements of the log each iteration begins
        self.end = self.ran_end = 0
        self.places: dict[str, int] = {}
        self.inner: list[Iterations] = []
        self.failed: Failure | None = None
        self.name: str | None = None
        self.tentative = False  # whether the loop may have ended before its last iteration
        self.stored = False  # whether it is a run already
        self.bytes: int | None = None  # of all that the log has, if no loop is around it
        self.inside = False  # whether it belongs to an iteration of another one that is recorded
        self.pauses: LoopPauses | None = None  # while it runs
        self.run: Run | None = None  # if it was needed while the loop ran
        self.was_paused = False

    @property
    def text(self) -> LoopText:
        """The loop as it is written."""
        return self.outline.loops[self.number]

    def begins_with(self, places: dict[str, int]) -> None:
        """Takes the variables before the first iteration, by their places in the log."""
        self.places = places

    @property
    def initial(self) -> list[Entry]:
        """The variables before the first iteration."""
        return [Entry(name, 0, *self.log.items[at + 1 : at + 3]) for name, at in self.places.items()]

    def codes(self) -> list[CodeType]:
        """The code of the loop; in a fork, also that of the loop that it continues."""
        return [self.code]

    def move(self, log: Log, entries: int, statements: int) -> None:
        """Moves to another log, to the end of so many items and statements."""
        self.log, self.end, self.ran_end = log, self.end + entries, self.ran_end + statements
        self.starts = [start + entries for start in self.starts]
        self.ran = [start + statements for start in self.ran]
        self.places = {name: at + entries for name, at in self.places.items()}

    def before(self, step: int) -> dict[str, Entry]:
        """The variables at the beginning of an iteration, also those that later lines are the first to read."""
        start, log, entries = self.starts[step], self.log, dict[str, Entry]()
        for name, places in log.places().items():
            number = bisect_left(places, start)
            if number:
                entries[name] = log.entry(places[number - 1])
            elif log.items[places[0]].statement == BEFORE:
                entries[name] = log.entry(places[0])._replace(line=0)
        return entries

    def targets(self, step: int) -> dict[str, Entry]:
        """The variables that the header assigned for an iteration."""
        header = next(header for header, number in self.outline.headers.items() if number == self.number)
        names, (start, end) = self.outline.statements[header].assigned, self.span(step)
        entries: dict[str, Entry] = {}
        for at in range(start, end, 3):
            use, value, version = self.log.items[at : at + 3]
            if use.statement == header and use.name in names:
                entries.setdefault(use.name, Entry(use.name, use.line, value, version))
        return entries

    def span(self, step: int) -> tuple[int, int]:
        """Where in the log an iteration begins and ends."""
        return self.starts[step], self.starts[step + 1] if step + 1 < len(self.starts) else self.end

    def entries(self, step: int) -> list[Entry]:
        """What an iteration assigned, in order; of loops inside it, the last of each line and variable."""
        start, end = self.span(step)
        found: list[Entry] = []
        for inner in self.loops(step):
            found += self.log.entries(start, inner.starts[0])
            start = inner.end
            last: dict[tuple[int, str], Entry] = {}
            for entry in (entry for number in range(len(inner.starts)) for entry in inner.entries(number)):
                last.pop((entry.line, entry.name), None)  # in the order in which they were last assigned
                last[entry.line, entry.name] = entry
            found += last.values()
        return [*found, *self.log.entries(start, end)]

    def skipped(self, step: int) -> list[int]:
        """The lines of the loop on which nothing ran in an iteration, although there is code."""
        end = self.ran[step + 1] if step + 1 < len(self.ran) else self.ran_end
        ran = {*self.log.statements[self.ran[step] : end], self.outline.header_of(self.number)}
        written = {place.statement for place in self.outline.places.values()}
        lines: dict[bool, set[int]] = {True: set(), False: set()}
        for number in written:
            statement = self.outline.statements[number]
            if number in ran or self.number in statement.loops:
                lines[number in ran].update(range(statement.line, statement.end + 1))
        return sorted(lines[False] - lines[True])

    def loops(self, step: int) -> list[Iterations]:
        """The loops inside of an iteration."""
        start, end = self.span(step)
        return [inner for inner in self.inner if inner.starts and start <= inner.starts[0] and inner.end <= end]


class Client(Protocol):
    """What wants loops to be recorded.

    dims: for variables, the names of their axes.
    """

    dims: Axes | None

    def chooses(self, code: CodeType) -> bool:
        """Whether frames that run this code are followed from their first line on."""

    def wants(self, loop: LoopText, number: int) -> bool:
        """Whether a loop of a frame that is followed is recorded."""

    def name(self, number: int) -> str | None:
        """The name of a loop; None if it has none of its own."""

    def done(self, loop: Iterations) -> None:
        """Takes a loop that has ended."""

    def left(self) -> None:
        """A frame that was followed has ended."""

    @property
    def pausing(self) -> Callable[[], object]:
        """Is called before a loop pauses."""


class FrameRecorder:
    """Follows one frame, and gives the iterations of its loops to `clients` when each has ended.

    frames: those that are followed now, by frame.
    """

    def __init__(self, code: CodeType, text: Outline, clients: list[Client], frames: dict[FrameType, Any]):
        self.code, self._outline, self.clients, self._frames = code, text, clients, frames
        self._places, self.jumps, self._log = text.places, text.jumps, Log()
        self._open: list[Iterations] = []
        self._previous = BEFORE
        self._caught: BaseException | None = None  # since the line before
        self._raised: Raised | None = None  # while it is handled
        backend = raw_registry.selected()
        self._version, self._unobserved = backend.version_raw, backend.unobserved
        self._hides = any(statement.hides for statement in text.statements)
        self._uses, self._paths, self._outside = [*text.uses], dict(text.paths), text.outside
        self._uncounted = {*text.paths, *text.shared}  # what may change where no line of the frame shows it
        self._last: dict[str, int] = {}  # by variable, where in the log its value is
        self._budgets = Budgets(options.trace_budget, self._log, self._last)
        self._memories: dict[int, Any] = {}  # by place in the log, the memory of a tensor
        self._parts: dict[tuple[int, str], set[int]] = {}  # by statement and container, the tensors that it changes
        self._writers = {number: set(names) for number, names in text.writes.items()}
        self._hidden: Any = None  # a Hidden, from the first line on
        self._tests = {header for header, loop in text.headers.items() if text.loops[loop].header.startswith("while")}
        self._before_test: Tested | None = None
        self._tested = 0  # how much of the log conditions were tested on
        self._frame: FrameType | None = None  # while a line is tested, if it may pause
        self.goes_on = False  # whether a paused loop was resumed up to a step or condition

    # -- events

    def line(self, frame: FrameType) -> None:
        """A line is about to run."""
        place = self._places.get(frame.f_lasti)
        if self._raised is not None and self._caught is None and sys.exc_info()[1] is not self._raised.error:
            self._raised = None
        if place is not None:
            self._frame = frame if pauses.conditions or pauses.asked or self.goes_on else None
            try:
                with self._unobserved():
                    self._line(frame, place)
            except Exception as error:
                self._give_up(error)
            except BaseException as error:  # a paused cell is stopped
                recording_here().interrupt(error)
                raise
        self._caught = self._frame = None

    def caught(self, error: BaseException) -> None:
        """The line before has raised an error, which may have ended loops; not that of an iterator without items."""
        self._make_room(error)
        if not (isinstance(error, StopIteration | StopAsyncIteration) and self._previous in self._outline.headers):
            self._caught = error
            if self._raised is None or self._raised.error is not error:
                self._raised = Raised(error, self._previous, [*self._open])

    def _line(self, frame: FrameType, place: Place) -> None:
        statement, starts, begins, tentative = place
        if not begins and not starts and statement == self._previous:
            return  # a statement goes on in another line
        if begins:
            names = self._names(frame)
            for loop in begins:
                self._begin(loop, names, tentative and loop == begins[-1])
        elif self._open:
            names = self._names(frame) if self._outside else frame.f_locals
            self._finish(names, whole=self._caught is None)
            if self._frame is not None:
                names = self._pause(names)
            if self._open[-1].number not in self._outline.statements[statement].loops:
                own = self._outline.headers.get(statement)
                self._leave_loops(statement, own, names)
                if self._open and self._open[-1].number == own:
                    self._pause(names, ended=True)
        if statement in self._tests and not begins:
            self._test(self._outline.headers[statement], self._names(frame))
        if self._open:
            self._log.statements.append(statement)
            if statement in self._writers:
                for name in self._writers[statement]:
                    self._separate(name, self._parts.get((statement, name)))
        self._previous = statement

    def _leave_loops(self, statement: int, own: int | None, names: Mapping[str, Any]) -> None:
        """Closes the loops that a statement is not in; own: the loop of which it is the header."""
        around = self._outline.statements[statement].loops
        while self._open and self._open[-1].number not in around and self._open[-1].number != own:
            self._look_again(names)
            raised = self._raised if self._raised is not None and self._open[-1] in self._raised.loops else None
            self._close(self._caught if raised is None else raised.error)

    def leave(self, frame: FrameType, error: BaseException | None, value: Any) -> None:
        """The function returns, or is left by an error."""
        self._frame = frame if error is None and (pauses.conditions or self.goes_on) else None
        self._make_room(error)
        try:
            self._take_last(frame, lambda: self._end(None if isinstance(error, GeneratorExit) else error, value), error)
        except BaseException as stopped:
            recording_here().interrupt(stopped)
            raise
        self._frame = self._raised = None
        self._frames.pop(frame, None)
        for client in [*self.clients]:
            client.left()

    def _make_room(self, error: BaseException | None) -> None:
        """Lets go of values if there is no memory left."""
        try:
            with self._unobserved():
                self._budgets.make_room(error)
        except Exception as problem:
            self._give_up(problem)

    def stop(self, frame: FrameType) -> None:
        """The recording ends before the frame does, such as that of a generator that waits."""
        self._take_last(frame, lambda: self._end(None, None), whole=False)

    def lose(self) -> None:
        """The recording has ended, some lines ago."""
        FrameRecorder._end(self, None, None)
        self._places = {}
        for client in [*self.clients]:
            client.left()

    def _take_last(
        self, frame: FrameType, end: Callable[[], None], error: BaseException | None = None, *, whole: bool = True
    ) -> None:
        """Takes what the last line assigned; `end` ends the loops."""
        try:
            with self._unobserved():
                if self._open:
                    names = self._names(frame)
                    self._finish(names, whole=whole and error is None)
                    self._look_again(names)
                end()
            self._previous = BEFORE
        except Exception as problem:
            self._give_up(problem)

    def _end(self, error: BaseException | None, value: Any) -> None:
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
        try:
            header = self._outline.header_of(number)
            with self._unobserved():
                self._line(frame, Place(header, True, (number,), True))
        except Exception as error:
            self._give_up(error)

    def _names(self, frame: FrameType) -> Mapping[str, Any]:
        """The variables of the frame, and those of its module that it changes."""
        self._states(frame)
        if not self._outside:
            return frame.f_locals
        outside = frame.f_globals
        return {**frame.f_locals, **{name: outside[name] for name in self._outside if name in outside}}

    def _states(self, frame: FrameType) -> Hidden:
        if self._hidden is None:
            self._hidden = Hidden(frame.f_code, frame.f_globals, self._hides, self._spend)
        return self._hidden

    def _value(self, name: str, names: Mapping[str, Any]) -> Any:
        """The value of a variable or attribute; MISSING if there is none."""
        path = self._paths.get(name)
        value = names.get(name, MISSING) if path is None else path.value(names)
        return MISSING if value is HIDDEN else value

    def _forget(self, hidden: set[str]) -> None:
        """Looks no longer at attributes that have no value to show."""
        if not hidden:
            return
        self._paths = {name: path for name, path in self._paths.items() if name not in hidden}
        self._uncounted.difference_update(hidden)
        self._uses = [tuple(use for use in uses if use.name not in hidden) for uses in self._uses]

    def _give_up(self, error: Exception) -> None:
        """Records this frame no longer: a problem of the recorder never becomes one of the loop."""
        self._places, self._open, self._last, self._log = {}, [], {}, Log()
        with contextlib.suppress(Warning):  # also where warnings are errors
            warn(f"the loop is no longer recorded: {type(error).__name__}: {error}")

    # -- iterations

    def _begin(self, number: int, names: Mapping[str, Any], tentative: bool) -> None:
        """An iteration of a loop begins; what the header assigned belongs to it."""
        text = self._outline.loops[number]
        if self._previous == BEFORE and not self._open:  # the frame is followed since its header ran
            self._previous = self._outline.header_of(number)
        header_ran = not text.short and self._outline.headers.get(self._previous) == number
        if not header_ran:
            self._finish(names)
            if self._frame is not None:
                names = self._pause(names)
        tested = self._before_test if header_ran else None
        tested = tested if tested is not None and tested.loop == number else None
        if self._uncounted:
            header = self._outline.statements[self._previous] if header_ran else None
            self._look_again(names, () if header is None else {*header.assigned, *header.parts})
        while self._open and self._open[-1].number not in (number, *text.around):
            self._close(self._caught)
        if not self._open or self._open[-1].number != number:
            clients = [client for client in self.clients if client.wants(text, number)]
            if not clients:
                return
            loop = Iterations(self.code, self._outline, number, self._log)
            loop.name = next(filter(None, (client.name(number) for client in clients)), None)
            if not self._last:
                self._forget({name for name, path in self._paths.items() if _is_no_value(path, names)})
            loop.begins_with(self._look_first(text, names) if tested is None else tested.initial)
            loop.around = self._open[0].around if self._open else self._hidden.around(loop.initial, text.names)
            if self._open:
                self._open[-1].inner.append(loop)
                loop.inside = True
            self._open.append(loop)
        elif self._frame is not None:
            names = self._pause(names, ended=True)
        loop = self._open[-1]
        loop.starts.append(len(self._log.items) if tested is None else tested.at)
        loop.ran.append(len(self._log.statements))
        numbers = self._hidden.numbers() if tested is None else tested.numbers
        values = (self._log.items[self._last[name] + 1] for name in self._uncounted if name in self._last)
        loop.moments.append(Moment(numbers, self._hidden.objects(values)))
        loop.tentative = tentative
        if self._frame is not None:
            pauses_of(self, loop).begin()
        if header_ran:
            self._finish(names, header=True)
            if self._frame is not None:
                self._pause(names)
        self._previous = BEFORE

    def _test(self, number: int, names: Mapping[str, Any]) -> None:
        """The test of a `while` loop is about to run; what it assigns, changes and draws belongs to the iteration."""
        text, initial = self._outline.loops[number], {}
        if self._open:
            self._look_again(names)
        if all(loop.number != number for loop in self._open) and any(
            client.wants(text, number) for client in self.clients
        ):
            initial = self._look_first(text, names)
        self._before_test = Tested(number, len(self._log.items), initial, self._hidden.numbers())

    def _look_first(self, text: LoopText, names: Mapping[str, Any]) -> dict[str, int]:
        """Takes the variables before a loop; their places in the log."""
        uses = {name: value for name in text.names if (value := self._value(name, names)) is not MISSING}
        self._hides = self._hides or any(map(raw_registry.selected().hides_changes, uses.values()))
        for name, value in uses.items():
            self._look(name, value)
        return {name: at for name, at in self._last.items() if name in uses}

    def _close(self, error: BaseException | None = None) -> None:
        """The innermost open loop has ended."""
        loop, end = self._open[-1], len(self._log.items)
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
                loop.ran.append(len(self._log.statements))
            loop.failed = self._failure(loop, error)
        if loop.pauses is not None:
            loop.pauses.close()
            loop.pauses = None
        if not loop.inside:
            loop.bytes = self._budgets.bytes + self._log.bytes + MOMENT * len(loop.starts)
            for value in (loop.log.items[at + 1] for at in self._last.values()):
                if type(value) is Kept:
                    value.let_go()
            self._log, self._last, self._memories, self._tested = Log(), {}, {}, 0
            self._budgets = Budgets(options.trace_budget, self._log, self._last)
            self._hidden.end(loop.log.items[1::3])
        let_graphs_go(loop.log.items, loop.starts[0] if loop.inside and loop.starts else 0)
        for client in [*self.clients]:
            if client.wants(loop.text, loop.number):
                client.done(loop)

    def _failure(self, loop: Iterations, error: BaseException) -> Failure:
        """The error that ended the last iteration of a loop."""
        number = self._raised.statement if self._raised is not None and self._raised.error is error else self._previous
        line = self._outline.statements[number].line if number != BEFORE else None
        return Failure(len(loop.starts) - 1, error_text(error), line=line)

    # -- pauses

    def _pause(self, names: Mapping[str, Any], ended: bool = False) -> Mapping[str, Any]:
        """Pauses if there is a reason: after a line, or when an iteration of the innermost loop has ended. Returns the
        variables, which may have been edited."""
        if self._frame is None or not self._open:
            return names
        start, self._tested = self._tested, len(self._log.items)
        has_paused = after_step(self, self._frame) if ended else after_line(self, self._frame, start)
        return self._names(self._frame) if has_paused else names

    def add_step(self, variables: Iterable[tuple[Use, Any]]) -> None:
        """Begins an iteration of the open loop that has these variables."""
        loop = self._open[-1]
        loop.starts.append(len(self._log.items))
        loop.ran.append(len(self._log.statements))
        with self._unobserved():
            for use, value in variables:
                self._log.statements.append(max(use.statement, 0))
                self._add(use.name, use._replace(statement=max(use.statement, 0)), value)

    def add_edits(self, values: Mapping[str, Any]) -> None:
        """Records new values that a user gave to variables while the loop is paused."""
        statements, number = self._outline.statements, self._previous
        line = self._open[-1].text.first if number == BEFORE else statements[number].line
        with self._unobserved():
            for name, value in values.items():
                self._add(name, Use(name, max(number, 0), line, True, False), value)
        self._tested = len(self._log.items)

    def _mark_ends(self) -> None:
        """The loops that are open have all that was recorded so far."""
        if self._hidden is not None:
            self._hidden.check()
        for loop in self._open:
            loop.end, loop.ran_end = len(self._log.items), len(self._log.statements)

    def _client_of(self, loop: Iterations) -> Client:
        return next(client for client in self.clients if client.wants(loop.text, loop.number))

    # -- values

    def _finish(self, names: Mapping[str, Any], *, whole: bool = True, header: bool = False) -> None:
        """Takes what the previous line assigned, or changed in place.

        whole: the line ran to its end. header: it is that of a loop, whose target has a new value.
        """
        if self._previous == BEFORE or not self._open:
            return
        items, last, version_raw = self._log.items, self._last, self._version
        for use in self._uses[self._previous]:
            name, reads = use[0], use[4]
            try:
                value = names[name]
            except KeyError:
                path = self._paths.get(name)
                value = MISSING if path is None else path.value(names)
                if value is HIDDEN:
                    self._forget({name})
                if value is MISSING or value is HIDDEN:
                    continue
            at = last.get(name)
            if at is None:
                self._add(name, use if not reads else Use(name, BEFORE, 0, False, True), value)
                continue
            old, version = items[at + 1], items[at + 2]
            if old is value:
                same = version is None or version_raw(old) == version
                if reads and same:
                    continue
            elif version is not None:
                same = False
            elif type(old) is Kept and type(old.value) is Opaque:
                same = old.object is value
            else:
                same = is_same(value, old, closely=name in self._writers.get(self._previous, ()))
            if not same:
                if reads and (old is value or (type(old) is Kept and old.object is value)):
                    self._writers.setdefault(self._previous, set()).add(name)
                    changed = {number for number, part in enumerate(tensors_in(old)) if part.was_written()}
                    self._parts.setdefault((self._previous, name), set()).update(changed)
                self._add(name, use, value)
            elif (use.always and whole) or (header and not reads):
                if type(old) is Kept and not old.compared:  # other names may have changed it
                    self._add(name, use, value)
                    continue
                if type(old) not in PLAIN:
                    self._budgets.add(old, version)
                last[name] = len(items)
                items += (use, old, version)

    def _look(self, name: str, value: Any) -> None:
        """Keeps a value that no line of the loop has assigned."""
        at = self._last.get(name)
        if at is None or not self._is_same(value, at):
            self._add(name, Use(name, BEFORE, 0, False, True), value)

    def _look_again(self, names: Mapping[str, Any], targets: Collection[str] = ()) -> None:
        """Takes values whose changes nothing counts, and that other lines, or other names, have changed.

        targets: what the header has assigned already, for the next iteration.
        """
        named = self._open[0].text.names if self._open else ()
        for name in [*self._uncounted]:
            at, path = self._last.get(name), self._paths.get(name)
            has_next = name in targets or (path is not None and not path.variables.isdisjoint(targets))
            if has_next or (at is None and name not in named):
                continue
            value = self._value(name, names)
            if value is not MISSING and (path if at is None else not self._is_same(value, at)):
                line = self._outline.statements[self._previous].line if self._previous != BEFORE else 0
                self._add(name, Use(name, self._previous, line, False, True), value)

    def _is_same(self, value: Any, at: int) -> bool:
        """Whether a variable still has the value in the log."""
        old, version = self._log.items[at + 1 : at + 3]
        if version is not None:
            return old is value and bool(backend_of(old).version_raw(old) == version)
        return old is value or is_same(value, old, MEDIUM)

    def _add(self, name: str, use: Use, value: Any) -> None:
        items, at = self._log.items, self._last.get(name)
        before = None if at is None else items[at + 1]
        self._last[name] = len(items)
        version, kept = None, value
        if type(value) not in PLAIN:
            version = None if self._hides else version_of(value)
            if version is None:
                kept = keep(value, self._hides, before)
                self._uncounted.add(name)
            elif use.statement != BEFORE and backend_of(value).keeps_more_raw(value):
                kept, version = Kept.of_raw(value, version), None
                kept.separate()
                self._uncounted.add(name)
            if use.statement != BEFORE:  # what was there needs no more memory
                self._budgets.add(kept, version)
        if type(before) is Kept:
            before.let_go(parts=growth_of(kept) is None)
        items += (use, kept, version)
        if self._budgets.is_over:
            self._spend(0)

    def _spend(self, size: int) -> None:
        """Counts what is kept of objects, and lets go of what does not fit."""
        budget = self._budgets.host
        budget.bytes += size
        if not self._budgets.is_over:
            return
        while budget.is_full and self._hidden.states:
            budget.bytes -= self._hidden.free()
        self._budgets.free()

    def _separate(self, name: str, parts: Collection[int] | None) -> None:
        """Takes copies before a line that is known to change a value in place, also of others in the same memory.

        parts: the tensors in a container that the line changes; None if it has not run before.
        """
        at = self._last.get(name)
        if at is None:
            return
        memory = self._memory(at)
        self._copy(name, at, parts)
        for other, place in self._last.items() if memory is not None else ():
            if other != name and self._memory(place) == memory:
                self._copy(other, place, ())

    def _copy(self, name: str, at: int, parts: Collection[int] | None) -> None:
        """Takes a copy of a value, where it is by reference."""
        items = self._log.items
        value, version = items[at + 1 : at + 3]
        kept = value if version is None else Kept.of_raw(value, version)
        if isinstance(kept, Kept) and kept.version is not None:
            kept.separate()
            items[at + 1], items[at + 2] = kept, None
            if version is not None and items[at].statement != BEFORE:
                self._budgets.separate(value, kept)
            self._uncounted.add(name)
        for number, part in enumerate(tensors_in(kept)):
            if not part.compared or (part.bytes <= SMALL if parts is None else number in parts):
                part.separate()

    def _memory(self, at: int) -> Any:
        """The memory of a tensor that is kept by reference; None for other values."""
        if at not in self._memories:
            value, version = self._log.items[at + 1 : at + 3]
            raw = value if version is not None else None
            if raw is None and type(value) is Kept and value.version is not None:
                raw = value.raw
            self._memories[at] = None if raw is None else backend_of(raw).storage_raw(raw)[0]
        return self._memories[at]


def _is_no_value(path: Path, names: Mapping[str, Any]) -> bool:
    """Whether an attribute cannot be read, or is a module, a function or the like that the code only reads."""
    value = path.value(names)
    return value is HIDDEN or not (value is MISSING or path.written or not is_opaque(value))


class Recording:
    """Records loops in one thread for several clients, from the first that is added until the last is removed.

    frames: the recorders of frames that run.
    """

    def __init__(self) -> None:
        self._clients: list[Client] = []
        self.frames: dict[FrameType, FrameRecorder] = {}
        self._events: Events | None = None

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
        if client in self._clients:
            for frame, recorder in [*self.frames.items()]:  # such as those of generators that wait
                if recorder.clients == [client] and recorder is not client:
                    recorder.stop(frame)
        if client in self._clients:
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
            self.frames[frame] = FrameRecorder(frame.f_code, text, [client], self.frames)
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
            recorder = FrameRecorder(frame.f_code, text, of_loops, self.frames)
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
