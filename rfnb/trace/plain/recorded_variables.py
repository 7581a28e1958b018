"""What a Run of a plain Python loop reads from: values that its lines assigned, as they were then."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.graph.graph import BodyGraph
from rfnb.core.ground import backends
from rfnb.core.ground.hook import Hook
from rfnb.core.ground.source import Block, Source
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import LoopError, LoopNameError
from rfnb.printable import printable
from rfnb.trace.plain.containers import PLAIN
from rfnb.trace.plain.log import Summary
from rfnb.trace.plain.syntax import BEFORE
from rfnb.trace.plain.values import (
    MAY,
    MEDIUM,
    NUMBERS,
    Growth,
    Kept,
    Opaque,
    Parts,
    backend_of,
    growth_of,
    tensor_backend,
    tensors_in,
)
from rfnb.trace.run import session
from rfnb.trace.run.axis_names import Axes, AxisNames
from rfnb.trace.run.failure import Failure
from rfnb.trace.run.run import Run
from rfnb.trace.run.stacked import stacked_variable
from rfnb.trace.run.step import KEPT, GrownRows, Only, Row, StepLines, StepText, StepValue
from rfnb.trace.run.variables import (
    NUMPY,
    SHOWN_PARTS,
    Container,
    Growing,
    Leaf,
    Lost,
    LostValue,
    NoValue,
    VariableSteps,
    array_of,
)
from rfnb.trace.run.when import bad_entries

if TYPE_CHECKING:
    from rfnb.trace.plain.iterations import Iterations
    from rfnb.trace.plain.log import Entry

FORGOTTEN = "no longer kept"


class RecordedVariables(VariableSteps):
    """The iterations of a loop of plain Python, as a Run reads them.

    Args:
        iterations: what was recorded.
        dims: the names of axes; loops inside of one another, and forks, share them.
        raised_in: its step is then from the traceback.
    """

    def __init__(self, iterations: Iterations, dims: Axes | AxisNames | None = None, raised_in: str | None = None):
        self.iterations = iterations
        self.names = dims if isinstance(dims, AxisNames) else AxisNames(dims)
        self.axis = Dim(None, name="iterations")
        self.axis.bind(Size([], len(iterations.starts)))
        self._sure: dict[Growth, int] = {}  # of lists that grow, how many parts have been looked at
        self._grown: dict[tuple[Growth, str, int], list[StepValue | StepText]] = {}  # of lists that grow
        self.raised_in = raised_in
        cell = Source(iterations.code, 0).cell
        self._shift = cell.skipped_lines if cell else 0  # from the lines that were compiled to those that a user sees

    def look_again(self) -> None:
        """The loop has gone on."""
        for name in ("_initial", "_places", "_changes"):
            self.__dict__.pop(name, None)
        self.axis.bind(Size([], len(self.iterations.starts)))

    # -- values

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """Tensors and numbers that the lines of a step assigned, in order; of loops in it, the last of each line."""
        rows = [row for entry in self.iterations.entries(step) for row in self._rows(entry)]
        return [row for row in map(_with_tensor, rows) if isinstance(row, StepValue)], self._check

    @property
    def _check(self) -> str:
        return KEPT if self.raised_in is None else "from the traceback"

    def texts(self, step: int) -> list[StepText]:
        """Everything else that they assigned."""
        entries = [entry for entry in self.iterations.entries(step) if not self._has_numbers(entry)]
        return [row for entry in entries for row in self._rows(entry) if type(row) is StepText]

    def _has_numbers(self, entry: Entry) -> bool:
        """Whether a value is a number, or a raw tensor as it was."""
        if entry.version is None:
            return self._is_number(entry.name, entry.value)
        return bool(backend_of(entry.value).version_raw(entry.value) == entry.version)

    def _is_number(self, name: str, kept: object) -> bool:
        """Whether a value is a number that a Tensor without dims can have."""
        is_number = type(kept) in NUMBERS and name not in self.names.of
        return is_number and (type(kept) is not int or -(2**63) <= kept < 2**63)

    def lines(self, step: int) -> StepLines:
        """Where code did not run, and where loops inside of the step begin."""
        if step < self.iterations.first:
            return StepLines()
        loops = {loop.text.first + self._shift for loop in self.iterations.loops(step)}
        return StepLines([line + self._shift for line in self.iterations.skipped(step)], sorted(loops))

    def state_names(self) -> list[str]:
        """The variables that an iteration reads before it assigns them, if they are tensors or numbers."""
        if self.raised_in is not None:
            return []  # nobody knows what they were before
        first = self._initial
        steps = len(self.iterations.starts)
        last = {entry.name: entry for entry in self.iterations.entries(steps - 1)} if steps else {}
        paths, carried = self.iterations.outline.paths, self.iterations.text.carried
        names = [n for n in carried if (n not in paths or n in self._places) and (n in first or n in last)]
        return [n for n in names if all(_is_numeric(entries[n]) for entries in (first, last) if n in entries)]

    def state(self, name: str, step: int) -> object:
        """A variable before `step`; None if nothing was assigned to it yet. Raises LoopNameError for other names."""
        if name not in self._initial and name not in self._places:
            raise LoopNameError(f"there is no variable {name!r}", expected=", ".join(self.variable_names()))
        try:
            snapshot = self._before(name, step)
        except KeyError:
            return None
        return self._tensor(name, snapshot)

    def variable(self, name: str, step: int, *, after: bool = False) -> object:
        """A variable before or after `step`, as code has it: a raw tensor, array, number or text, or a list or dict.

        A Tensor if its axes have names. Raises KeyError if there was none, and NoValue if it was not kept.
        """
        return self._as_code(name, self._before(name, step, after))

    def shown(self, name: str, step: int, *, after: bool = False) -> object:
        """A variable as `variable` has it, but tensors, arrays, numbers and lists of numbers as Tensors.

        Words for what is not kept.
        """
        snapshot = self._before(name, step, after)
        if not _is_array(snapshot):
            with suppress(NoValue):
                return _plain(name, snapshot)
        return self._tensor(name, snapshot)

    # -- for files

    def rows(self, step: int) -> tuple[list[Row], str]:
        """All that the lines of a step assigned, in order, with numbers as they are, and the check."""
        rows: list[Row] = []
        for entry in self.iterations.entries(step):
            is_plain = entry.version is not None or type(entry.value) in PLAIN
            rows += self._rows(entry) if is_plain else self._grown_rows(entry.name, entry.value, entry)
        return rows, self._check

    def _grown_rows(self, name: str, kept: Any, entry: Entry) -> Iterator[Row]:
        """The rows of a value, with one for each list that grows."""
        growth = None if getattr(kept, "note", "") or name in self.names.of else growth_of(kept)
        if growth is not None:
            growing = self._growing(name, growth, kept.value.length)
            rows = partial(self._part_rows, entry, name, growth)
            yield GrownRows(name, "list", entry.line + self._shift, growing, rows)
            return
        for leaf, part in _leaves(name, kept, depth=1):
            yield from [self._row(name, kept, entry)] if part is kept else self._grown_rows(leaf, part, entry)

    def _part_rows(self, entry: Entry, name: str, growth: Growth, number: int) -> list[StepValue | StepText]:
        parts = _leaves(f"{name}.{number}", growth.parts[number])
        return [self._row(name, part, entry) for name, part in parts]

    def odd_names(self, step: int) -> list[str]:
        """The variables whose value after a step that assigned them is not that of their last row."""
        entries = {entry.name: entry for entry in self.iterations.entries(step)}
        odd = (name for name, entry in entries.items() if not self._has_numbers(entry))
        return [name for name in odd if not self._is_as_in_row(name, self._before(name, step, after=True))]

    def _is_as_in_row(self, name: str, kept: object) -> bool:
        """Whether a value is a Tensor in its row, which has the types of all numbers."""
        if not _is_shown_as_tensor(kept):
            return False
        parts = kept.value if isinstance(kept, Kept) else kept
        if not isinstance(parts, Parts) or name in self.names.of:
            return not isinstance(parts, np.bool_) and (name in self.names.of or _is_in_torch(parts))
        if parts.growth is not None or parts.kind not in (list, tuple):
            return False
        kinds = {*map(type, parts.items)}
        return len(kinds) == 1 and kinds <= {*NUMBERS} and (int not in kinds or _numbers(parts).dtype.kind in "iu")  # type: ignore[union-attr]

    def kept_value(self, name: str, step: int, *, after: bool = False) -> object:
        """A variable before or after `step`, as `run/variables.py` says. Raises KeyError if there is none."""
        snapshot = self._before(name, step, after)
        if name in self.names.of and _is_shown_as_tensor(snapshot):
            return Leaf(self._tensor(name, snapshot), _kind(snapshot))
        return self._described(name, snapshot)

    def _described(self, name: str, kept: object) -> object:
        if (lost := _lost(kept)) is not None:
            return lost._replace(text=self._mark(kept)) if isinstance(kept, Kept) and kept.changed() else lost
        value = kept.value if isinstance(kept, Kept) else kept
        if isinstance(value, Parts):
            if value.growth is not None:
                return self._growing(name, value.growth, value.length)
            parts = [self._described(f"{name}.{key}", item) for key, item in value.named()]
            kind, is_sequence = value.kind, issubclass(value.kind, list | tuple)
            if value.keys is not None:
                fields = dict(zip(value.keys, parts, strict=True))
                return fields if kind is dict else Container(kind.__name__, fields, is_sequence)
            if is_sequence:
                return tuple(parts) if issubclass(kind, tuple) else parts
            return Container(kind.__name__, parts)
        is_number = type(value) in NUMBERS or (isinstance(value, np.generic) and value.dtype.char in NUMPY)
        is_tensor = not is_number and _is_array(kept) and _is_in_torch(value)
        return Leaf(self._tensor(name, kept), _kind(kept)) if is_tensor else value

    def _growing(self, name: str, growth: Growth, length: int) -> Growing:
        return Growing(growth, length, lambda number: self._described(f"{name}.{number}", growth.parts[number]))

    def _before(self, name: str, step: int, after: bool = False) -> object:
        """What was kept of a variable before or after `step`, at the end of which a fork may have edited it.

        Raises KeyError if there was none.
        """
        loop, places = self.iterations, self._places.get(name, [])
        if step + after < loop.first:
            return Summary(FORGOTTEN)
        start = loop.starts[step] if step < len(loop.starts) else loop.end
        number = bisect_left(places, loop.span(step)[1] if after else start)
        entry = loop.log.entry(places[number - 1]) if number else self._initial[name]
        return Summary(MAY) if self._may_have_changed(entry.value) else entry.kept

    def _may_have_changed(self, kept: Any) -> bool:
        """Whether a value has large parts that nothing compares; of a list that grows, new parts are looked at."""
        growth = growth_of(kept)
        start = 0 if growth is None else self._sure.get(growth, 0)
        parts = [kept] if growth is None else growth.parts[start : kept.value.length]
        if any(not part.compared and part.bytes > MEDIUM for item in parts for part in tensors_in(item)):
            return True
        if growth is not None:
            self._sure[growth] = max(start, kept.value.length)
        return False

    def as_code_has(self, entry: Entry) -> object:
        """A value as `variable` gives it."""
        return self._as_code(entry.name, entry.kept)

    def _as_code(self, name: str, kept: object) -> object:
        return self._tensor(name, kept) if name in self.names.of and _is_array(kept) else _plain(name, kept)

    def name_axes(self, name: str, axes: Sequence[str | Dim] | None) -> None:
        """Names the axes of a variable at all steps. Raises LoopError if they fit none of its values."""
        entries = [self._initial[name]] if name in self._initial else []  # also of one that no step assigns
        initial = (row for entry in entries for row in self._values(entry) if type(row) is StepValue)
        rows = (row for step in range(len(self.iterations.starts)) for row in self.values(step)[0])
        self._grown.clear()
        self.names.rename(name, axes, (row.tensor for row in chain(initial, rows) if row.name == name))

    def lost(self, step: int) -> list[LostValue]:
        """The values that a step assigned, and that are no longer kept."""
        if step < self.iterations.first:
            return [LostValue(f"step {step} is {FORGOTTEN}")]
        entries = self.iterations.entries(step)
        errors = [lost.error(entry.name) for entry in entries if (lost := _lost(entry.kept)) is not None]
        return [error for error in errors if isinstance(error, LostValue)]

    def names_at(self, line: int) -> list[str]:
        """The variables that the code in a line assigns."""
        statements = self.iterations.outline.statements
        return [name for at in statements if at.line + self._shift == line for name in at.assigned]

    def variable_names(self) -> list[str]:
        """The variables that `variable` has."""
        return list(dict.fromkeys([*self._initial, *self._places]))

    @cached_property
    def _initial(self) -> dict[str, Entry]:
        """The variables before the first step."""
        return {entry.name: entry for entry in self.iterations.initial}

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """By variable, where in the log its values are."""
        loop, places = self.iterations, dict[str, list[int]]()
        for at in range(0 if loop.first else loop.begin, loop.end):
            use = loop.log.uses[at]
            if use.statement != BEFORE:
                places.setdefault(use.name, []).append(at)
        return places

    def stack(self, name: str, resolve: bool = True) -> Tensor:
        """A variable after each step, stacked. → {axis, …}"""
        return stacked_variable(self, name, len(self.iterations.starts))

    def _values(self, entry: Entry) -> Iterator[StepValue | StepText]:
        return map(_with_tensor, self._rows(entry))

    def _rows(self, entry: Entry) -> Iterator[StepValue | StepText]:
        """The parts of a value that are shown, with numbers as they are in place of Tensors."""
        growth = None if getattr(entry.value, "note", "") else growth_of(entry.value)
        if growth is not None and not growth.has_kept and entry.value.value.numbers() is None:
            rows = self._grown.setdefault((growth, entry.name, entry.line), [])  # what all lengths share
            length = min(entry.value.value.length, SHOWN_PARTS)
            for number, part in enumerate(growth.parts[len(rows) : length], len(rows)):
                rows.append(self._row(f"{entry.name}.{number}", part, entry))
            yield from rows[:length]
        elif entry.version is not None or type(entry.value) in PLAIN:
            yield self._row(entry.name, entry.value, entry)
        else:
            yield from (self._row(name, part, entry) for name, part in _leaves(entry.name, entry.value))

    def _row(self, name: str, part: Any, entry: Entry) -> StepValue | StepText:
        value = part if self._is_number(name, part) else self._tensor(name, part, entry.version)
        row = StepText if isinstance(value, str) else StepValue
        return row(name, _kind(part), entry.line + self._shift, value)

    def _tensor(self, name: str, value: Any, version: int | None = None) -> Any:
        """A Tensor; a text for what is not a tensor, number or list of numbers, and for values that are lost."""
        with tensor_backend().unobserved():
            if version is not None and backend_of(value).version_raw(value) == version:
                tensor = tensor_of(value.detach(), *self._form(name, value))
                tensor.name = name
                return tensor
            snapshot = value if version is None else Kept.of_raw(value, version)
            if isinstance(snapshot, Kept) and (snapshot.changed() or snapshot.note):
                return self._mark(snapshot)
            content = snapshot.value if isinstance(snapshot, Kept) else snapshot
            raw = None if isinstance(content, Tensor) else _array(snapshot)
        if isinstance(content, Tensor):
            tensor = tensor_of(content._raw, content.sig, content.lengths)
        elif raw is None:
            return printable(_words(snapshot))
        else:
            tensor = tensor_of(raw, *self._form(name, raw))
        tensor.name = name
        return tensor

    def _mark(self, kept: Kept) -> str:
        """The words for a value that has a note, or whose memory was written later: by which line, if one was seen."""
        if kept.note:
            return kept.note
        changes = self._changes.get(kept.backend.storage_raw(kept.raw)[0], [])
        line = next((line for version, line in changes if version > (kept.version or 0)), None)
        return "changed later" + (f" at line {line + self._shift}" if line else ", where the recording did not see it")

    @cached_property
    def _changes(self) -> dict[object, list[tuple[int, int]]]:
        """By memory, the versions that tensors in it had, each with the line after which they had it."""
        changes: dict[object, list[tuple[int, int]]] = {}
        log = self.iterations.log
        for entry in map(log.entry, range(len(log))):
            for part in tensors_in(entry.kept):
                if part.version is not None:
                    key = part.backend.storage_raw(part.raw)[0]
                    changes.setdefault(key, []).append((part.version, entry.line))
        return changes

    def _form(self, name: str, raw: RawTensor) -> tuple[align.Sig, Lengths]:
        return self.names.form(name, backends.backend_of_raw(raw).get_shape_tuple_raw(raw), raw)

    # -- about the run

    def storages(self) -> dict[object, int]:
        """The memory of the tensors, and of modules that are kept so that the loop can be continued."""
        around, log = self.iterations.around, self.iterations.log
        sizes: dict[object, int] = {} if around is None else {**around.sizes}
        if self.iterations.bytes is not None:
            return sizes | {id(log): self.iterations.bytes}
        start, end = (self.iterations.starts or [0])[0], self.iterations.end
        parts: dict[int, list[object]] = {}  # of values of a list that grows, those that they share
        for value, version in zip(log.values[start:end], log.versions[start:end], strict=True):
            if version is not None:
                sizes[id(value)] = value.nbytes
            else:
                growth = growth_of(value)
                parts |= {id(value): [value]} if growth is None else {id(growth): growth.parts}
        return sizes | {id(part): part.bytes for items in parts.values() for item in items for part in tensors_in(item)}

    @property
    def flags(self) -> list[str]:
        """Whether a variable of the last step is NaN; in a step that failed, also whether one is infinite."""
        steps = len(self.iterations.starts)
        values = self.values(steps - 1)[0] if steps else []
        bad = np.isnan if self.failed is None else bad_entries  # masks of good runs are infinite
        words = None if self.failed is None else self.failed.text if self.raised_in is None else "raised, not recorded"
        failed = [] if words is None else [words]
        return [*failed, *(["not finite"] if any(_has(bad, value) for value in values) else []), *self.iterations.notes]

    @property
    def forgotten(self) -> int:
        """How many steps were forgotten, the oldest ones."""
        return self.iterations.first

    @property
    def kept_from(self) -> int:
        """The first step that has all of its values; of those before it there are statistics, to save memory."""
        return max(bisect_left(self.iterations.starts, self.iterations.log.summarized), self.iterations.first)

    @property
    def failed(self) -> Failure | None:
        """The error that ended the loop, with its line as a user sees it."""
        failed = self.iterations.failed
        return None if failed is None else failed._replace(line=failed.line and failed.line + self._shift)

    @property
    def begun(self) -> Size:
        """How many steps there were."""
        return Size([], len(self.iterations.starts))

    def ends(self) -> list[str] | None:
        """Nothing is known but that the code ended."""
        return None

    def rerun(self, run: Run, fn: object) -> NoReturn:
        """Raises LoopError."""
        message = f"rerun: {run.name} is plain Python code, of which only the steps were recorded, not its call"
        raise LoopError(message, hint="run.fork(0), or the code once more")

    def gradients(self, run: Run, loss: object) -> NoReturn:
        """Raises LoopError."""
        message = f"gradients: {run.name} is plain Python code, whose steps cannot be computed again"
        raise LoopError(message, hint="rf.Loop")

    def explain(self) -> NoReturn:
        """Raises LoopError."""
        raise LoopError("explain: the steps are plain Python code, not those of an rf.Loop")

    def loops(self, step: int) -> list[Run]:
        """The runs of the loops inside a step, in order."""
        return [run_of(inner, self.names) for inner in self.iterations.loops(step)]

    def fork(self, run: Run, step: int, seed: int | None, only: Only, states: Mapping[str, object]) -> Run:
        """Runs the loop from a step on with edited variables, as a new Run; it is kept even if a step raises an error.

        Raises LoopError if the loop cannot be continued there.
        """
        if only != (None, None):
            raise LoopError(
                "fork: plain Python code has no sequences and no hypotheses that are known",
                hint="the whole value of a variable, with other numbers in the entries of the sequence",
            )
        iterations, error = continue_from(self.iterations, run.source.lines, step, seed, states)
        forked = run_of(iterations, self.names, parent=run)
        if error is None or len(iterations.starts) > (iterations.forked_at or 0):
            session.store(forked)
        if error is not None:
            raise error
        return forked

    def locked_states(self, run: Run, step: int) -> Mapping[str, str]:
        """The variables that a fork cannot edit before a step, with the reasons."""
        return locked_variables(self.iterations, run.source.lines, step, run.states)


Continued = tuple["Iterations", BaseException | None]
continue_from: Hook[[Iterations, Sequence[str], int, int | None, Mapping[str, object]], Continued] = Hook(
    "trace.plain.recorded_variables.continue_from", by="trace.plain.fork"
)
"""Runs a loop with these lines from a step on, with a seed and new values of variables: `fork.fork`."""

locked_variables: Hook[[Iterations, Sequence[str], int, Sequence[str]], Mapping[str, str]] = Hook(
    "trace.plain.recorded_variables.locked_variables", by="trace.plain.fork"
)
"""Which of some variables a fork of a loop with these lines cannot edit before a step, and why: `fork.locked`."""


def run_of(
    iterations: Iterations,
    dims: Axes | AxisNames | None = None,
    raised_in: str | None = None,
    also: Sequence[str] = (),
    parent: Run | None = None,
    text: Block | None = None,
) -> Run:
    """The Run of a recorded loop; that of a loop which has paused gets the steps that it has now.

    parent: for a fork, the run that it continues. text: the source lines, if they were read before.
    """
    run, source = iterations.run, Source(iterations.code, 0)
    replay = RecordedVariables(iterations, dims, raised_in) if run is None else run.replay
    assert isinstance(replay, RecordedVariables)
    replay.also = also
    replay.sequences = replay.sequences if parent is None else parent.replay.sequences
    count = len(iterations.starts) - (replay.failed is not None)
    size = Size([], count)
    if run is not None:
        replay.look_again()
        run.states = replay.state_names()
        run._take(replay, count, size, replay.failed)
        return run
    block = text or block_of(iterations)
    return Run(
        name=iterations.name or name_of(iterations), place=place_of(iterations, source), source=block, replay=replay,
        steps=count, axis=replay.axis, size=size, graph=BodyGraph(), failed=replay.failed, parent=parent,
        forked_at=iterations.forked_at,
    )  # fmt: skip


def name_of(iterations: Iterations) -> str:
    """What a loop is called: by its function if all others of that are inside of it, else by its header."""
    code, outermost = iterations.code, [loop for loop in iterations.outline.loops if not loop.around]
    only = outermost == [iterations.text] and code.co_name != "<module>"
    return code.co_name if only else iterations.text.header


def place_of(iterations: Iterations, source: Source) -> str:
    """Where a loop begins, as text."""
    line = iterations.text.first
    if source.cell is not None:
        return f"cell {source.cell.number}, line {line + source.cell.skipped_lines}"
    return f"{source.file.rpartition('/')[2]}:{line}"


def block_of(iterations: Iterations) -> Block:
    """The source lines of a loop."""
    source, text = Source(iterations.code, 0), iterations.text
    cell, lines = source.cell, iterations.outline.lines
    return Block(
        file=None if cell else source.file,
        cell_id=cell.cell_id if cell else None,
        cell_text=cell.text if cell else None,
        first_line=text.first + (cell.skipped_lines if cell else 0),
        lines=tuple(line.rstrip("\n") for line in lines[text.first - 1 : text.last]),
    )


def _leaves(name: str, kept: object, depth: int | None = None) -> Iterator[tuple[str, object]]:
    """The parts of a value that are shown, with their names; of so many levels."""
    value = kept.value if isinstance(kept, Kept) else kept
    is_marked = isinstance(kept, Kept) and bool(kept.note)
    if depth == 0 or not isinstance(value, Parts) or _is_array(kept) or not value.length or is_marked:
        yield name, kept
        return
    for number, (key, item) in enumerate(value.named()):
        if number == SHOWN_PARTS:
            break
        yield from _leaves(f"{name}.{key}", item, depth and depth - 1)


def _plain(name: str, kept: object) -> object:
    """A value as code has it, in lists, tuples and dicts. Raises NoValue for what is not kept, LostValue for what no
    longer is.
    """
    if (lost := _lost(kept)) is not None:
        raise lost.error(name)
    value = kept.value if isinstance(kept, Kept) else kept
    if not isinstance(value, Parts):
        return value
    parts = [_part(f"{name}.{key}", item) for key, item in value.named()]
    if value.keys is not None:
        return dict(zip(value.keys, parts, strict=True))
    return tuple(parts) if issubclass(value.kind, tuple) else parts


def _lost(kept: object) -> Lost | None:
    """Why a value is not kept; None if it is."""
    value = kept.value if isinstance(kept, Kept) else kept
    if isinstance(kept, Kept) and (kept.note or kept.changed()):
        words = "changed later" if kept.changed() else kept.note
        return Lost(words, kept.note or words)
    if isinstance(value, Summary):
        return Lost(value.words, value.words, False, value.finite, value.largest)
    return Lost(f"only its type was kept: {value.kind}", repr(value), True) if isinstance(value, Opaque) else None


def _part(name: str, kept: object) -> object:
    """A part of a container as code has it; the error for one that was not kept, which an expression raises."""
    try:
        return _plain(name, kept)
    except NoValue as error:
        return error


def _array(kept: object) -> RawTensor:
    """The raw tensor of a tensor, array, number or list of numbers; None for other values."""
    value = kept.value if isinstance(kept, Kept) else kept
    if isinstance(value, Tensor):
        return value._raw
    if isinstance(kept, Kept) and kept.backend is not None:
        return value
    array = _numbers(value)
    return None if array is None else backends.selected().from_numpy_raw(array, None)


def _numbers(value: object) -> np.ndarray | None:
    """An array, number or list of numbers as an array; None for other values."""
    if type(value) is Parts:
        value = value.numbers()
    return array_of([*value] if isinstance(value, tuple) else value)


def _is_array(kept: object) -> bool:
    """Whether `_array` has a raw tensor of it."""
    value = kept.value if isinstance(kept, Kept) else kept
    is_tensor = isinstance(value, Tensor) or (isinstance(kept, Kept) and kept.backend is not None)
    return is_tensor or _numbers(value) is not None


def _is_in_torch(value: object) -> bool:
    """Whether a Tensor has all digits of a number or array."""
    return not isinstance(value, np.generic | np.ndarray) or value.dtype.char not in "gG"


def _words(kept: object) -> str:
    value = kept.value if isinstance(kept, Kept) else kept
    if isinstance(value, Parts):
        return f"{value.kind.__name__} of {value.length} parts"
    try:
        return repr(value)
    except Exception:  # of a class of the user
        return f"<{type(value).__name__}>"


def _with_tensor(row: StepValue | StepText) -> StepValue | StepText:
    """A row with a Tensor in place of a number."""
    if isinstance(row, StepText) or not isinstance(row.tensor, NUMBERS):
        return row
    tensor = tensor_of(_array(row.tensor), align.EMPTY_SIG, EMPTY)
    tensor.name = row.name
    return row._replace(tensor=tensor)


def _is_numeric(entry: Entry) -> bool:
    return entry.version is not None or _is_array(entry.value)


def _is_shown_as_tensor(kept: object) -> bool:
    is_lost = isinstance(kept, Kept) and (bool(kept.note) or kept.changed())
    return not is_lost and _is_array(kept)


def _kind(kept: object) -> str:
    value = kept.value if isinstance(kept, Kept) else kept
    if isinstance(value, Parts):
        return value.kind.__name__
    return value.kind if isinstance(value, Opaque) else type(value).__name__


def _has(entries: Callable[[np.ndarray], np.ndarray], value: StepValue) -> bool:
    """Whether a value has such entries, of those that are not finite."""
    if not isinstance(value.tensor, Tensor) or not value.tensor.dtype.startswith(("float", "bfloat")):
        return False
    backend = backends.backend_of_raw(value.tensor._raw)
    with backend.unobserved():
        if backend.is_finite_raw(value.tensor._raw):
            return False
        return bool(entries(backend.to_numpy_raw(value.tensor._raw)).any())
