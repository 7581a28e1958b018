"""The iterations of a loop of plain Python: where in the log of its frame each begins.

Those of a fork without edits are compared with the loop that it continues: if they differ, something that no line of
the loop shows has changed since, such as a variable of a module that a function counts with.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rfnb.core.ground.source import locals_of
from rfnb.printable import error_text
from rfnb.trace.plain.containers import PLAIN
from rfnb.trace.plain.hidden_state import NO_MOMENT
from rfnb.trace.plain.log import Entry, Log, Summary
from rfnb.trace.plain.recorded_variables import run_of
from rfnb.trace.plain.syntax import BEFORE, LoopText, Outline, Use, outline
from rfnb.trace.plain.user_code import is_yours
from rfnb.trace.plain.values import MAY, Kept, Opaque, Parts, keep, tensors_in
from rfnb.trace.run.failure import Failure
from rfnb.trace.run.run import Run

if TYPE_CHECKING:
    from rfnb.trace.plain.hidden_state import HiddenState, LoopContext
    from rfnb.trace.plain.pause import LinePauses
    from rfnb.trace.run.axis_names import Axes
    from rfnb.trace.run.stretches import Stretches


class Iterations:
    """The iterations of a loop of plain Python, while it runs and afterwards.

    code, number: the code object, and which of its loops it is. log: what all loops of the frame assigned. starts, end:
    where in it each iteration begins, and where the last one ends. inner: the loops inside of iterations, in order.
    moments: what no line shows, at the beginning of each iteration. places: where in the log the variables before the
    first one are. codes: `code`, and in a fork before it that of the loops that it continues. inputs: by `id`, copies
    of tensors that the first one begins with, and that were changed later. around: of the loop, or of the outermost
    one. first: the first iteration whose beginning was not forgotten.
    """

    def __init__(self, code: CodeType, outline: Outline, number: int, log: Log):
        self.code, self.outline, self.number, self.log = code, outline, number, log
        self.codes = [code]
        self.starts: list[int] = []
        self.moments: list[HiddenState] = []
        self.around: LoopContext | None = None
        self.inputs: dict[int, Kept] = {}
        self.forked_at: int | None = None  # of a fork, its first iteration of its own
        self.notes: Sequence[str] = ()  # of a fork: what is not as it was
        self.ran: list[int] = []  # where in the statements of the log each iteration begins
        self.end = self.ran_end = self.first = 0
        self.places: dict[str, int] = {}
        self.inner: list[Iterations] = []
        self.failed: Failure | None = None
        self.name: str | None = None
        self.dims: Axes = {}  # for variables, the names of their axes
        self.tentative = False  # whether the loop may have ended before its last iteration
        self.stored = False  # whether it is a run already
        self.bytes: int | None = None  # of all that the log has, if no loop is around it
        self.inside = False  # whether it belongs to an iteration of another one that is recorded
        self.pauses: LinePauses | None = None  # while it runs
        self.run: Run | None = None  # if it was needed while the loop ran
        self.was_paused = False
        self.stretches: Stretches | None = None  # of a job

    @property
    def text(self) -> LoopText:
        """The loop as it is written."""
        return self.outline.loops[self.number]

    @property
    def initial(self) -> list[Entry]:
        """The variables before the first iteration."""
        return [self.log.entry(at)._replace(line=0) for at in self.places.values()]

    def move(self, log: Log, entries: int, statements: int) -> None:
        """Moves to another log, to the end of so many entries and statements."""
        self.log, self.end, self.ran_end = log, self.end + entries, self.ran_end + statements
        self.starts = [start + entries for start in self.starts]
        self.ran = [start + statements for start in self.ran]
        self.places = {name: at + entries for name, at in self.places.items()}

    def forget(self, ran: int, kept: int, moved: Callable[[int], int]) -> int:
        """Forgets what is before a place in the statements of the log; of how many iterations that was.

        kept: how many entries stay of it. moved: where an entry is then.
        """
        old, self.first = self.first, max(self.first, bisect_left(self.ran, ran, hi=len(self.starts)))
        count = self.first - old
        self.starts[old : self.first], self.ran[old : self.first] = [0] * count, [0] * count
        self.moments[old : self.first] = [NO_MOMENT] * count
        self.starts[self.first :] = map(moved, self.starts[self.first :])
        self.ran[self.first :] = [number - ran for number in self.ran[self.first :]]
        if self.first:
            self.starts[self.first - 1] = kept
        self.end, self.ran_end = max(moved(self.end), 0), max(self.ran_end - ran, 0)
        self.places = {name: moved(at) for name, at in self.places.items()}
        return count

    def before(self, step: int) -> dict[str, Entry]:
        """The variables at the beginning of an iteration, also those that later lines are the first to read."""
        start, log, entries = self.starts[step], self.log, dict[str, Entry]()
        for name, places in log.places().items():
            number = bisect_left(places, start)
            if number:
                entries[name] = log.entry(places[number - 1])
            elif log.uses[places[0]].statement == BEFORE:
                entries[name] = log.entry(places[0])._replace(line=0)
        return entries

    def targets(self, step: int) -> dict[str, Entry]:
        """The variables that the header assigned for an iteration."""
        header, (start, end) = self.outline.header_of(self.number), self.span(step)
        names = self.outline.statements[header].assigned
        entries: dict[str, Entry] = {}
        for at in range(start, end):
            use = self.log.uses[at]
            if use.statement == header and use.name in names:
                entries.setdefault(use.name, self.log.entry(at))
        return entries

    @property
    def begin(self) -> int:
        """Where in the log the loop begins."""
        return self.starts[0] if self.starts else self.end

    def span(self, step: int) -> tuple[int, int]:
        """Where in the log an iteration begins and ends."""
        if step < self.first - 1:
            return 0, 0
        return self.starts[step], self.starts[step + 1] if step + 1 < len(self.starts) else self.end

    def entries(self, step: int) -> list[Entry]:
        """What an iteration assigned, in order; of loops inside it, the last of each line and variable."""
        start, end = self.span(step)
        entries: list[Entry] = []
        for inner in self.loops(step):
            entries += self.log.entries(start, inner.starts[0])
            start = inner.end
            by_place: dict[tuple[int, str], Entry] = {}
            for entry in (entry for number in range(len(inner.starts)) for entry in inner.entries(number)):
                by_place.pop((entry.line, entry.name), None)  # in the order in which they were last assigned
                by_place[entry.line, entry.name] = entry
            entries += by_place.values()
        return [*entries, *self.log.entries(start, end)]

    def skipped(self, step: int) -> list[int]:
        """The lines of the loop on which nothing ran in an iteration, although there is code."""
        end = self.ran[step + 1] if step + 1 < len(self.ran) else self.ran_end
        numbers = {*self.log.statements[self.ran[step] : end], self.outline.header_of(self.number)}
        ran = {number for group in map(self.outline.groups.__getitem__, numbers) for number in group}
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
        place = bisect_left(self.inner, start, key=lambda inner: inner.begin)
        inner = takewhile(lambda inner: inner.begin <= end, islice(self.inner, place, None))
        return [loop for loop in inner if loop.starts and loop.end <= end]


def last_iteration(error: BaseException, cell_id: str | None) -> Run | None:
    """The Run of one step that has the variables of the innermost loop of the user which an error has left.

    cell_id: of the cell that raised. None if the error was not raised in a loop.
    """
    for trace in reversed([*_traces(error.__traceback__)]):
        frame = trace.tb_frame
        text = outline(frame.f_code) if is_yours(frame.f_code.co_filename) else None
        place = None if text is None else text.places.get(trace.tb_lasti)
        if text is not None and place is not None and text.statements[place.statement].loops:
            return run_of(_iterations(frame, text, place.statement, error), raised_in=cell_id or "")
    return None


def _traces(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _iterations(frame: FrameType, text: Outline, raising: int, error: BaseException) -> Iterations:
    """One iteration of the outermost loop around a statement, with the variables of a frame at their lines."""
    number, log = text.statements[raising].loops[0], Log()
    loop = Iterations(frame.f_code, text, number, log)
    log.statements += _statements_of(text, number)  # nobody knows which of them ran
    places: dict[str, int] = {}
    for use, value in variables_at(frame, text, number, raising):
        if use.statement == BEFORE:
            places[use.name] = len(log)
        elif not loop.starts:
            loop.starts.append(len(log))
        log.add(use, value if type(value) in PLAIN else keep(value, copied=True), None)
    loop.places = places
    loop.starts = loop.starts or [len(log)]
    loop.ran, loop.end, loop.ran_end = [0], len(log), len(log.statements)
    loop.failed = Failure(0, error_text(error), line=text.statements[raising].line)
    return loop


def variables_at(frame: FrameType, text: Outline, number: int, running: int) -> Iterator[tuple[Use, object]]:
    """The variables of a loop at a statement that runs, each with its value and the line that assigned it; first those
    that no statement before this one assigns."""
    statements, names = text.statements, locals_of(frame)
    uses: dict[str, Use] = {}
    for at in _statements_of(text, number):
        for name in statements[at].assigned:
            if at < running or name not in uses:
                uses[name] = Use(name, at if at < running else BEFORE, statements[at].line, True, False)
    for name in statements[running].read:
        uses.setdefault(name, Use(name, running, statements[running].line, False, True))
    for use in sorted(uses.values(), key=lambda use: (use.statement != BEFORE, use.line)):
        value = names.get(use.name, frame.f_globals.get(use.name))
        is_missing = use.name not in names and use.name not in frame.f_globals
        if not (is_missing or (use.reads and (isinstance(value, ModuleType) or callable(value)))):
            yield use, value


def _statements_of(text: Outline, number: int) -> list[int]:
    """The header of a loop, and the statements of its body."""
    header = text.header_of(number)
    return [at for at, statement in enumerate(text.statements) if number in statement.loops or at == header]


# -- in the files of a job


def run_from(loop: Iterations, first: int) -> Run:
    """The iterations from one on, or from the first one that was not forgotten, as a run."""
    return run_of(stretch(loop, max(first, loop.first)), loop.dims)


def stretch(loop: Iterations, first: int) -> Iterations:
    """The iterations from one on, as a loop of their own, without the loops inside of them."""
    log, part = Log(), Iterations(loop.code, loop.outline, loop.number, Log())
    for name, entry in loop.before(first).items():
        part.places[name] = len(log)
        log.add(Use(name, BEFORE, entry.line, True, False), entry.value, entry.version)
    start, ran, offset = loop.starts[first], loop.ran[first], len(log)
    log.extend(loop.log, slice(start, None), slice(ran, None))
    part.log, part.around, part.name = log, loop.around, loop.name
    part.starts = [at - start + offset for at in loop.starts[first:]]
    part.ran = [at - ran for at in loop.ran[first:]]
    part.moments = loop.moments[first:]
    part.end, part.ran_end = len(log), len(log.statements)
    return part


# -- compared with those of a fork

CLOCKS = frozenset(
    "time perf_counter monotonic process_time time_ns now today uuid4 urandom id empty empty_like".split()
)
"""Names of functions whose results differ from call to call, and of memory that is not set."""


class StepDifference(NamedTuple):
    """The first value that differs: of a variable, or None if other lines ran, or if there is an error."""

    step: int
    line: int
    name: str | None
    error: str | None = None

    def __str__(self) -> str:
        reason = self.error or ("other lines run" if self.name is None else f"`{self.name}` differs")
        return f"step {self.step} does not come back as it was: {reason} at line {self.line}"


def difference(loop: Iterations, fork: Iterations, at: int, whole: bool) -> StepDifference | None:
    """The first difference between the iterations of a loop from one on, and those of its fork; None if there is none.

    whole: the fork has run to its end. Values that are not kept, and variables that only one of them follows, are not
    compared.
    """
    end = len(loop.starts)
    if loop.forked_at is not None and at < loop.forked_at:  # it is a fork itself, with edits
        end, whole = loop.forked_at, False
    failed = fork.failed
    if failed is not None and at + failed.step < end and (loop.failed is None or loop.failed.step != at + failed.step):
        return StepDifference(at + failed.step, failed.line or fork.text.first, None, failed.error.partition("\n")[0])
    count, compared = min(len(fork.starts), end - at), dict[tuple[int, int], int]()
    for step in range(count):
        old = _by_place(loop, at + step)
        for (name, line), entries in _by_place(fork, step).items():
            if not all(
                is_equal(a.kept, b.kept, compared) for a, b in zip(old.get((name, line), ()), entries, strict=False)
            ):
                return StepDifference(at + step, line, name)
        if step < count - 1 and _statements(loop, at + step) != _statements(fork, step):
            return StepDifference(at + step, fork.text.first, None)
    if whole and len(fork.starts) != end - at:
        return StepDifference(at + count, fork.text.first, None)
    return None


def _by_place(loop: Iterations, step: int) -> dict[tuple[str, int], list[Entry]]:
    """What an iteration assigned, by variable and line."""
    places: dict[tuple[str, int], list[Entry]] = {}
    for entry in loop.entries(step):
        places.setdefault((entry.name, entry.line), []).append(entry)
    return places


def _statements(loop: Iterations, step: int) -> list[int]:
    return loop.log.statements[loop.ran[step] : loop.ran[step + 1]]


def has_other_devices(loop: Iterations, step: int) -> bool:
    """Whether tensors are not in the memory of the CPU, on which alone the same numbers come back bit for bit."""
    parts = [part for entry in loop.before(step).values() for part in tensors_in(entry.kept)]
    return any(part.backend is not None and part.backend.get_device_raw(part.raw) != "cpu" for part in parts)


def is_equal(a: object, b: object, compared: dict[tuple[int, int], int]) -> bool:
    """Whether two values are the same bit for bit, as far as both are kept.

    compared: by the `id` of two containers, or of what values of lists that grow share, how many first parts are the
    same.
    """
    if isinstance(a, Kept) and isinstance(b, Kept):
        if a.note == MAY or b.note == MAY or a.changed() or b.changed():
            return True
        if a.backend is not None and a.backend is b.backend:
            same_dtype = a.backend.get_dtype_name_raw(a.raw) == a.backend.get_dtype_name_raw(b.raw)
            return same_dtype and bool(a.backend.same_raw(a.raw, b.raw))
        return is_equal(a.value, b.value, compared)
    a, b = (value.value if isinstance(value, Kept) else value for value in (a, b))
    if any(isinstance(value, Opaque | Summary) for value in (a, b)):
        return True
    if isinstance(a, Parts) and isinstance(b, Parts):
        if a.kind is not b.kind or a.length != b.length:
            return False
        key = id(a.growth or a), id(b.growth or b)
        at = compared.get(key, 0)
        items = zip(a.items[at:], b.items[at:], strict=True)
        equal = issubclass(a.kind, set | frozenset) or all(is_equal(x, y, compared) for x, y in items)
        compared[key] = max(at, a.length) if equal else at
        return equal
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and (a.dtype.hasobject or a.tobytes() == b.tobytes())
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return isinstance(a, type) or bool(a == b) or bool(a != a)
