"""Compares two runs value by value, and finds the first difference."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

import numpy as np

from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims.dim import Dim
from rfnb.core.graph.graph import Value
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError, ParameterError, RunFileError
from rfnb.ops import math
from rfnb.trace.compare.comparison import Compared, Comparison, PairedNumbers
from rfnb.trace.compare.match import MaskedPart, Select, Sequences, fitted, match_sequences, match_values, part_of
from rfnb.trace.run.entries import Entries, numbers
from rfnb.trace.run.file.stored import StoredReplay
from rfnb.trace.run.run import Run
from rfnb.trace.run.step import AGREES, KEPT, StepText, StepValue, is_lost

ORDER = ("first", "second")
HELD = 16 * 2**20
"""Bytes of numbers that are collected before they are compared."""


class ValuePair(NamedTuple):
    """A value at one step, in both runs; of plain Python also texts of other values, and of those that are lost."""

    value: Compared
    a: Entries | str
    b: Entries | str


@dataclass
class Stretch:
    """A pair at several steps with the same dtypes, dims and sizes, which are compared together for speed.

    first: the pair at the first of these steps. places: the position of the value in each step. a, b: its numbers at
    each step, or texts. missing: why the numbers are missing, if they are.
    """

    first: ValuePair
    steps: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    a: list[Any] = field(default_factory=list)
    b: list[Any] = field(default_factory=list)
    missing: str = ""

    @property
    def is_text(self) -> bool:
        """Whether one of the two is not a number."""
        return isinstance(self.first.a, str) or isinstance(self.first.b, str)


class Pairs:
    """The pairs of two runs. only: names of values in one run only, complete after the first step has been read."""

    def __init__(self, a: Run, b: Run):
        self.runs = a, b
        self.states = [name for name in a.states if name in b.states]
        self.only = tuple([f"state {name}" for name in run.states if name not in self.states] for run in (a, b))
        self.notes: list[str] = []
        self.forgotten = 0  # steps that one of the runs no longer has
        forgotten = [getattr(run.replay, "forgotten", 0) for run in self.runs]
        if steps := min(max(forgotten), *(run.steps for run in self.runs)):
            self.forgotten = steps
            words = "both no longer have" if all(forgotten) else f"the {ORDER[not forgotten[0]]} no longer has"
            self.notes.append(f"{steps_text(range(steps))} not compared: {words} {'it' if steps == 1 else 'them'}")
        self.values: dict[Hashable, Compared] = {}
        self._matches: dict[Hashable, list[tuple[Compared, int, int]]] = {}

    def stretches(self) -> Iterator[Stretch]:
        """All pairs of all common steps that both still have; step -1 stands for the states at the start."""
        open_: dict[Hashable, Stretch] = {}
        n_bytes = 0
        for step in range(self.forgotten or -1, min(run.steps for run in self.runs)):
            for place, pair in enumerate(self._states(0) if step < 0 else self._at(step)):
                n_bytes += _add(open_, step, place, pair)
            if n_bytes > HELD:
                yield from open_.values()
                open_, n_bytes = {}, 0
        yield from open_.values()

    def _at(self, step: int) -> list[ValuePair]:
        """The values that a step computed, also inside modules, and the states after it."""
        if not all(run.graph.values for run in self.runs):  # plain Python code
            return self._remembered(step)
        values_a, values_b = ([pair for pair in run.replay.computed(step) if pair[0].node] for run in self.runs)
        matched = self._matched([value for value, _ in values_a], [value for value, _ in values_b])
        return [ValuePair(entry, values_a[i][1], values_b[j][1]) for entry, i, j in matched] + self._states(step + 1)

    def _remembered(self, step: int) -> list[ValuePair]:
        """What the lines of a step assigned, in order, and the other states after it."""
        rows: list[list[StepValue | StepText]] = [[*run[step].values(), *run[step].texts()] for run in self.runs]
        rows_a, rows_b = rows
        sides = [[(row.name, _text(run, row.line)) for row in side] for run, side in zip(self.runs, rows, strict=True)]
        key = tuple(tuple(side) for side in sides)
        matches = self._matches.get(key)
        if matches is None:
            positions = match_values(*sides)
            self._note_alone(step, rows, positions)
            lines = [(rows_a[i].line, rows_b[j].line) for i, j in positions]
            matches = self._matches[key] = self._numbered([(sides[0][i][0], i, j) for i, j in positions], lines)
        pairs = [
            ValuePair(value, a, b) for value, i, j in matches if not _unknown(a := rows_a[i][3], b := rows_b[j][3])
        ]
        names = {pair.value.name for pair in pairs}
        return [*pairs, *(pair for pair in self._states(step + 1) if pair.value.state not in names)]

    def _note_alone(self, step: int, rows: list[list[StepValue | StepText]], positions: list[tuple[int, int]]) -> None:
        """Notes values that one of the runs does not have, and the first line that only one of them ran."""
        for side, assigned in enumerate(rows):
            paired, names = {pair[side] for pair in positions}, {row.name for row in rows[1 - side]}
            extra = [row for i, row in enumerate(assigned) if i not in paired]
            self.only[side].extend({row.name: 0 for row in extra if row.name not in (*names, *self.only[side])})
            repeat = next((row for row in extra if row.name in names), None)
            note = f"only the {ORDER[side]} assigns"
            if repeat is not None and not any(earlier.partition(": ")[2].startswith(note) for earlier in self.notes):
                self.notes.append(f"step {step}: {note} {repeat.name} in line {repeat.line}")

    def _states(self, step: int) -> list[ValuePair]:
        a, b = (run.replay for run in self.runs)
        for name in self.states:
            self.values.setdefault(("state", name), Compared(f"state {name}", state=name))
        values = [(name, self.values["state", name]) for name in self.states]
        return [ValuePair(value, a.state(name, step), b.state(name, step)) for name, value in values]

    def _matched(self, mine: list[Value], theirs: list[Value]) -> list[tuple[Compared, int, int]]:
        """The matching values, with their positions in both. Most steps compute the same values: they are cached."""
        key = tuple(value.number for value in mine), tuple(value.number for value in theirs)
        if key not in self._matches:
            sides = [[(run.replay.name_of(value), _code(value)) for value in values]
                     for run, values in zip(self.runs, (mine, theirs), strict=True)]  # fmt: skip
            positions = match_values(*sides)
            from_file = [isinstance(run.replay, StoredReplay) for run in self.runs]
            for side, values in enumerate(sides if not self._matches else ()):
                paired = {pair[side] for pair in positions}
                extra = [i for i in range(len(values)) if i not in paired]
                hidden = {i for i in extra if _inside((mine, theirs)[side][i])} if from_file[1 - side] else set()
                self.only[side].extend(values[i][0] for i in extra if i not in hidden)
                self._note_hidden(side, len(hidden))
            lines = [(_line(mine[i]), _line(theirs[j])) for i, j in positions]
            self._matches[key] = self._numbered([(sides[0][i][0], i, j) for i, j in positions], lines)
        return self._matches[key]

    def _numbered(
        self, pairs: list[tuple[str, int, int]], lines: Sequence[tuple[int | None, int | None]]
    ) -> list[tuple[Compared, int, int]]:
        """Pairs of positions with the value that they are; those of one name and line are numbered."""
        counts, matches = Counter[Hashable](), []
        for (name, i, j), line_pair in zip(pairs, lines, strict=True):
            counts[name, line_pair] += 1
            key = name, line_pair, counts[name, line_pair]
            matches.append((self.values.setdefault(key, Compared(name, line_pair)), i, j))
        return matches

    def _note_hidden(self, side: int, count: int) -> None:
        """Adds a note on values that are missing in a file because it has none of modules and functions."""
        if count:
            owner, partner = ORDER[side], ORDER[1 - side]
            where = f"inside modules and functions of the {owner}: the file of the {partner} does not contain them"
            self.notes.append(f"{count_of(count, 'value')} {where}")


def _text(run: Run, line: int) -> str:
    """A line of the code of a run."""
    at = line - run.source.first_line
    return run.source.lines[at].strip() if 0 <= at < len(run.source.lines) else ""


def _inside(value: Value) -> bool:
    """Whether a value was computed in a module or function, rather than by a line of the body."""
    node = value.node
    return node is not None and node.source != node.at


def _unknown(a: object, b: object) -> bool:
    """Whether nothing can be said about two objects of one type, or two containers of one length."""
    return isinstance(a, str) and isinstance(b, str) and a == b and (a.startswith("<") or a.endswith(" parts"))


def _add(open_: dict[Hashable, Stretch], step: int, place: int, pair: ValuePair) -> int:
    """Adds a pair to its stretch; returns the size of its numbers in bytes."""
    a: Any = pair.a
    b: Any = pair.b
    form: object = None
    missing, size = "", 0
    if not isinstance(a, str) and not isinstance(b, str):
        try:
            a, b = numbers(a), numbers(b)
        except RunFileError as error:
            a = b = np.zeros(0)
            missing = error.what
        size, form = a.nbytes + b.nbytes, (_form(pair.a, a), _form(pair.b, b))
    stretch = open_.setdefault((id(pair.value), missing, form), Stretch(pair, missing=missing))
    stretch.steps.append(step)
    stretch.places.append(place)
    stretch.a.append(a)
    stretch.b.append(b)
    return size


def steps_text(steps: Sequence[int]) -> str:
    """`step 3 was`, or `12 steps from 0 to 20 were`."""
    first, last = min(steps), max(steps)
    if len(steps) == 1:
        return f"step {first} was" if first >= 0 else "the start was"
    return f"{count_of(len(steps), 'step')} from {max(first, 0)} to {last} were"


def _form(value: Entries | str, array: np.ndarray) -> object:
    return (value.sig, value.lengths, value.dtype, array.shape) if isinstance(value, Tensor) else type(value)


def _line(value: Value) -> int | None:
    return None if value.node is None else value.node.line


def _code(value: Value) -> str:
    node = value.node
    return "" if node is None else f"{node.op} {'' if node.source is None else node.source.text()} {value.output}"


@dataclass(frozen=True)
class SameHypotheses:
    """Which hypotheses of two searches have the same labels.

    there: for each step, those before the first one included, and each place of the first run, the place in the second
    run, -1 if that has no such hypothesis. [1 + steps, sequences, beam of the first]. here: the same the other way.
    beams: how the beams of each sequence differ, with the first step at which they do.
    """

    a: Run
    b: Run
    there: np.ndarray
    here: np.ndarray
    beams: tuple[Any, ...]

    def matched(
        self, parts: tuple[MaskedPart, MaskedPart], values: Sequence[object], steps: np.ndarray, *, is_state: bool
    ) -> tuple[MaskedPart, MaskedPart]:
        """Both parts by the hypotheses of the first run; those that only one run has do not count."""
        a, b = parts
        axes = [self._beam(run, part.dims) for run, part in zip((self.a, self.b), parts, strict=True)]
        labels = [self._beam(run, [x.sparse_dim] if isinstance(x, Tensor) else []) for run, x in self._of(values)]
        if axes[0] is not None and axes[1] is not None and axes[0][1] == axes[1][1]:
            rows = steps + 1 if is_state or axes[0][1] else steps
            b = self._moved(a, b, axes[1][0], self.there[rows])
        if labels[0] is not None and labels[1] is not None and labels[0][1] == labels[1][1]:
            b = self._renamed(b, self.here[steps + 1 if labels[0][1] else steps])
        return a, b

    def _of(self, values: Sequence[object]) -> list[tuple[Run, object]]:
        return list(zip((self.a, self.b), values, strict=True))

    @staticmethod
    def _beam(run: Run, dims: Sequence[Dim | None]) -> tuple[int, bool] | None:
        """The axis of the hypotheses before the choices of a step, or after them, and which of the two it is."""
        lineages = run.replay.lineages
        for axis, dim in enumerate(dims):
            if dim is not None and dim in (lineages[0].beam, lineages[-1].beam):
                return axis, dim is lineages[-1].beam
        return None

    def _moved(self, a: MaskedPart, b: MaskedPart, beam_b: int, places: np.ndarray) -> MaskedPart:
        owners = [
            part.dims.index(run.sequence_dim) if run.sequence_dim in part.dims else None
            for run, part in ((self.a, a), (self.b, b))
        ]
        if (owners[0] is None) != (owners[1] is None) or (owners[1] is None and places.shape[1] > 1):
            return b
        leading = [axis for axis in (0, owners[1], beam_b) if axis is not None]
        axes = [axis for axis in range(len(b.dims)) if axis not in leading]
        b = b.move([b.dims[axis] for axis in (*leading, *axes)])
        places = places if owners[1] is not None else places[:, 0]
        index = places.reshape(*places.shape, *[1] * len(axes))
        moved = b.each(lambda x: np.take_along_axis(x, np.maximum(index, 0), axis=len(leading) - 1), b.dims)
        return MaskedPart(moved.array, moved.frames, moved.live & (index >= 0), moved.dims)

    def _renamed(self, b: MaskedPart, places: np.ndarray) -> MaskedPart:
        """Places of the second run, which are the entries of a value, as those of the first one."""
        owner = b.dims.index(self.b.sequence_dim) if self.b.sequence_dim in b.dims else None
        if owner is None and places.shape[1] > 1:
            return b
        grid = np.ogrid[tuple(slice(size) for size in b.array.shape)]
        row = grid[owner] if owner is not None else 0
        entries = np.clip(b.array, 0, places.shape[2] - 1).astype(int)
        indices: np.ndarray = places[grid[0], row, entries]
        return MaskedPart(
            np.where(indices < 0, b.array, indices).astype(b.array.dtype), b.frames, b.live & (indices >= 0), b.dims
        )


def hypotheses_of(a: Run, b: Run, sequences: Sequences) -> SameHypotheses | None:
    """The common hypotheses of two runs; None if not both are searches, or their sequences are not those of one dim."""
    searches = a.found, b.found
    if searches[0] is None or searches[1] is None or not all(run.replay.lineages for run in (a, b)):
        return None
    for run in (a, b):
        dims = run.replay.lineages[0].dims
        if len(dims) > 1 or (dims and dims[0] is not run.sequence_dim):
            return None
    rows_a, rows_b = ([0] if rows is None else rows for rows in (sequences.a, sequences.b))
    pairs = list(zip(rows_a, rows_b, strict=True))
    places_b, places_a, beams = searches[0].same_hypotheses(searches[1], pairs)
    return SameHypotheses(a, b, places_b, places_a, beams)


RTOL = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-5, "complex64": 1e-5, "float16": 1e-2, "bfloat16": 1e-2}
"""Default tolerance by dtype, relative to the largest number of the value. Other dtypes must agree exactly."""


class Tolerance(NamedTuple):
    """Allows differences up to `atol + rtol · the largest number`; the defaults are `RTOL` and a tenth of it."""

    exact: bool = False
    rtol: float | None = None
    atol: float | None = None

    def agree(self, a: np.ndarray, b: np.ndarray, counts: np.ndarray, dtypes: Sequence[str]) -> np.ndarray:
        """Where two arrays [steps, …] agree; NaN agrees with NaN.

        counts: the entries that count for the largest number of a step. dtypes: the original ones, before numpy.
        """
        equal: np.ndarray = (a == b) | ((a != a) & (b != b))
        if self.exact:
            return equal & (np.signbit(a) == np.signbit(b)) if a.dtype.kind == b.dtype.kind == "f" else equal
        rtols = [RTOL[dtype] for dtype in dtypes if dtype in RTOL]
        if not rtols or equal.all():
            return equal
        largest = np.maximum(_largest(a, counts), _largest(b, counts))
        return equal | (distance(a, b) <= self._limit(max(rtols), largest))

    def _limit(self, by_type: float, largest: np.ndarray) -> np.ndarray:
        rtol = by_type if self.rtol is None else self.rtol
        return (rtol / 10 if self.atol is None else self.atol) + rtol * largest


def _largest(array: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The largest finite absolute value at each step. [steps, 1…]"""
    sizes = np.where(counts & np.isfinite(array), np.abs(array).astype(np.float64), 0.0)
    largest: np.ndarray = sizes.max(axis=tuple(range(1, array.ndim)), keepdims=True, initial=0.0)
    return largest


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The distance |a - b|; infinite where the difference is NaN, as when only one of them is NaN."""
    with np.errstate(all="ignore"):
        x, y = (array if array.dtype.kind == "c" else array.astype(np.float64) for array in (a, b))
        difference = np.abs(x - y)
    result: np.ndarray = np.where(np.isnan(difference), np.inf, difference)
    return result


OTHERS: dict[type, Callable[..., object]] = {}
"""What compares two results that are not runs, such as searches, by their class; ranks above register it."""


@overload
def compare(
    a: Run,
    kind: Run,
    /,
    *,
    exact: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    sequence: int | str | None = None,
    select: Select | None = None,
) -> Comparison: ...


@overload
def compare(
    a: Tensor | float,
    kind: str,
    b: Tensor | float,
    *,
    allow_broadcast_all_sources: bool | None = None,
    dim_order: Sequence[Dim] | None = None,
) -> Tensor: ...


@overload
def compare(a: object, kind: object, /, *, sequence: int | str | None = None) -> Any: ...


@guarded
def compare(
    a: Any,
    kind: Any = None,
    b: Any = None,
    *,
    allow_broadcast_all_sources: bool | None = None,
    dim_order: Sequence[Dim] | None = None,
    exact: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    sequence: int | str | None = None,
    select: Select | None = None,
) -> Any:
    """Compares two runs or searches, and finds the first difference; or compares two tensors: a `kind` b.

    `rf.compare(run, other)` matches values by name and line, then by order within the name; steps by number;
    sequences by tag, else by number; and dims by name, in any order. Padding, and steps after the end of a sequence, do
    not count. The result is true if everything agrees; if a run no longer has some values, it is false, and notes tell
    which. `rf.compare(found, other)` finds, for each sequence of two searches, the first step at which their beams have
    other hypotheses. In two runs of searches, hypotheses with the same labels are compared, wherever they are in the
    beams, which may have different sizes.

    Args:
        kind, allow_broadcast_all_sources, dim_order: for tensors. The kind is "equal", "not_equal", "less",
            "less_equal", "greater" or "greater_equal"; the others are as in all binary ops.
        exact: whether all bits must agree; NaN equals NaN.
        rtol, atol: the largest difference allowed: `atol + rtol · the largest number of the value`. The defaults depend
            on the dtype.
        sequence: the only sequence to compare, by number or tag. If one run has a single sequence, this is its
            counterpart in the other run.
        select: positions in dims, by name: `{"beam": 0}` if only one run has a beam.

    >>> rf.compare(rf.convert_to_tensor(7), "greater", 2).item()
    True
    >>> def run(scale):
    ...     loop = rf.Loop(max_seq_len=3, debug=True)
    ...     loop.state.x = rf.convert_to_tensor(1.0)
    ...     with loop:
    ...         loop.state.x = loop.state.x * scale
    ...     return loop.run
    >>> bool(rf.compare(run(2.0), run(2.0)))
    True
    >>> first = rf.compare(run(2.0), run(2.5)).first
    >>> first.step, first.a, first.b
    (0, 2.0, 2.5)

    Raises LoopError if the sequences of the two runs cannot be matched.
    """
    if isinstance(a, Run) or isinstance(kind, Run):
        second = b if kind is None else kind
        if not (isinstance(a, Run) and isinstance(second, Run)):
            odd = second if isinstance(a, Run) else a
            raise LoopError(
                "compare: a run can only be compared with another run", got=type(odd).__name__, expected="a Run"
            )
        return compare_runs(a, second, Tolerance(exact, rtol, atol), sequence, select or {})
    if not isinstance(kind, str):
        if type(a) in OTHERS:
            more = {"sequence": sequence} if sequence is not None else {}
            more |= {"batch": b} if kind is not None and b is not None else {}
            others = OTHERS[type(a)]
            if unknown := more.keys() - inspect.signature(others).parameters.keys():
                raise ParameterError(
                    f"compare: `{'b' if 'batch' in unknown else 'sequence'}` means nothing for {called(a)}",
                    hint="rf.compare(a, b)",
                )
            return others(a, b if kind is None else kind, **more)
        if not (isinstance(a, Tensor | float | int) or hasattr(a, "dtype")):
            raise ParameterError(
                "compare: these objects cannot be compared",
                got=f"{type(a).__name__} and {type(b if kind is None else kind).__name__}",
                expected="two runs, searches, trees or networks; or two tensors, and how they are compared",
            )
        raise ParameterError(
            "compare: `kind` says how two tensors are compared",
            got=called(kind),
            expected='"equal", "less", … or an operator',
            hint=f'rf.compare({called(a)}, "==", {called(b if kind is None else kind)})',
        )
    return math.compare(a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order)


def compare_runs(a: Run, b: Run, tolerance: Tolerance, sequence: int | str | None, select: Select) -> Comparison:
    """Compares the runs of two loops, step by step."""
    sequences, pairs = match_sequences(a, b, sequence), Pairs(a, b)
    hypotheses = None if "beam" in select else hypotheses_of(a, b, sequences)
    context = _Context(a, b, sequences, tolerance, select, hypotheses)
    result = Comparison(f"{a.name}, run {a.serial}", f"{b.name}, run {b.serial}", (a.serial, b.serial))
    compared: dict[int, Compared] = {}
    for stretch in pairs.stretches():
        _look(compared.setdefault(id(stretch.first.value), stretch.first.value), stretch, context)
    forked = {run.forked_at for run in (a, b) if run.forked_at}
    for value in compared.values():
        if value.lost and not value.note:
            value.note = f"{steps_text(value.lost)} not compared, as the value was not kept"
        value.edited = value.state is not None and value.step is not None and value.step + 1 in forked
    result.numbers = context.earliest_numbers
    result.beams = () if hypotheses is None else hypotheses.beams
    result.values, (result.only_a, result.only_b) = list(compared.values()), pairs.only
    uneven = _uneven(a, b, sequences)
    notes = [
        *uneven,
        *(f"{x} and {y}: the tolerance is that of the less precise dtype" for x, y in context.types),
    ]
    notes += [
        f"{name}: NaN in both runs{'' if step < 0 else f', first at step {step}'}"
        for name, step in context.not_numbers.items()
    ]
    notes += [f"{beam.name}: {beam.words}" for beam in result.beams if not beam.agree]
    result.same_steps, result.complete = not uneven, not pairs.forgotten
    result.notes = [*sequences.notes, *notes, *pairs.notes, *_checks(a, b)]
    return result


@dataclass
class _Context:
    """How two runs are compared, and what was found so far: of the earliest difference, also the numbers."""

    a: Run
    b: Run
    sequences: Sequences
    tolerance: Tolerance
    select: Select
    hypotheses: SameHypotheses | None = None
    earliest: tuple[int, int] | None = None
    earliest_numbers: PairedNumbers | None = None
    types: dict[tuple[str, str], None] = field(default_factory=dict)  # pairs of different dtypes, in order
    not_numbers: dict[str, int] = field(default_factory=dict)  # the first step at which both have NaN, by value

    def parts(self, stretch: Stretch) -> tuple[MaskedPart, MaskedPart] | str:
        """The two parts to compare, with the same axes; or the reason why they cannot be compared."""
        pair = stretch.first
        if pair.a is None or pair.b is None:
            return "" if pair.a is pair.b else f"the {'first' if pair.a is None else 'second'} is None"
        if stretch.missing:
            return stretch.missing
        steps = np.array(stretch.steps)
        assert not isinstance(pair.a, str) and not isinstance(pair.b, str)
        a = part_of(pair.a, stretch.a, self.a, steps, self.sequences.a, self.select)
        b = part_of(pair.b, stretch.b, self.b, steps, self.sequences.b, self.select)
        if self.hypotheses is not None:
            values, is_state = (pair.a, pair.b), pair.value.state is not None
            a, b = self.hypotheses.matched((a, b), values, steps, is_state=is_state)
        return fitted(a, b, (self.a.sequence_dim, self.b.sequence_dim))

    def numbers(
        self, parts: tuple[MaskedPart, MaskedPart], row: int, counts: np.ndarray, at: tuple[np.intp, ...]
    ) -> PairedNumbers:
        """A copy of the numbers of one step, so that the other steps of the stretch can be freed."""
        (a, b), dims = (part.array[row].copy() for part in parts), parts[0].dims[1:]
        has_owner = self.a.sequence_dim in dims and self.sequences.a is not None
        owner = dims.index(self.a.sequence_dim) if has_owner and self.a.sequence_dim is not None else None
        return PairedNumbers(a, b, counts.copy(), dims, tuple(map(int, at)), owner, list(self.sequences.names))

    def where(self, part: MaskedPart, at: tuple[np.intp, ...]) -> str:
        """The place of an entry as text: "batch 'banana', time 3"."""
        owner = self.a.sequence_dim if self.sequences.a is not None else None
        names = self.sequences.names
        places = zip(part.dims[1:], map(int, at), strict=True)
        return ", ".join(f"{dim.name} {names[i] if dim is owner else i}" for dim, i in places)


def _look(value: Compared, stretch: Stretch, context: _Context) -> None:
    """Compares a value over some steps, and adds the result to `value`."""
    if stretch.is_text:
        _look_at_texts(value, stretch, context)
        return
    parts = context.parts(stretch)
    if isinstance(parts, str):
        value.note = value.note or parts
        return
    a, b = parts
    live = a.live & b.live
    if ((a.frames != b.frames) & live).any():
        value.note = value.note or "the lengths differ"
    counts = live & a.frames & b.frames
    dtypes = [value.dtype for value in (stretch.first.a, stretch.first.b) if isinstance(value, Tensor)]
    if len({*dtypes}) > 1:
        context.types[dtypes[0], dtypes[1]] = None
    if (alike := counts & (a.array != a.array) & (b.array != b.array)).any():
        step = stretch.steps[int(alike.any(axis=tuple(range(1, alike.ndim))).argmax())]
        context.not_numbers[value.name] = min(step, context.not_numbers.get(value.name, step))
    differs = counts & ~context.tolerance.agree(a.array, b.array, counts, dtypes)
    if differs.any():
        far = np.where(differs, distance(a.array, b.array), -1.0)
        _note_difference(value, stretch, far, (a, b), counts, context)


def _look_at_texts(value: Compared, stretch: Stretch, context: _Context) -> None:
    """The same for values that are texts in one run or both: of other kinds of objects, or that were not kept."""
    for step, place, a, b in zip(stretch.steps, stretch.places, stretch.a, stretch.b, strict=True):
        when = step, place
        if a is None or b is None or is_lost(a) or is_lost(b):
            value.lost.append(step)
        elif (a := str(a)) != (b := str(b)):
            value.steps += step >= 0
            if value.step is None or when < (value.step, value.place):
                (value.step, value.place), value.where, value.difference = when, "", 0.0
                value.a, value.b = a, b
            if context.earliest is None or when < context.earliest:
                context.earliest, context.earliest_numbers = when, None


def _note_difference(
    value: Compared,
    stretch: Stretch,
    far: np.ndarray,
    parts: tuple[MaskedPart, MaskedPart],
    counts: np.ndarray,
    context: _Context,
) -> None:
    """Adds a difference to `value`. far: [steps, …], the distances; -1 where entries agree. counts: which count."""
    differs = far.max(axis=tuple(range(1, far.ndim))) >= 0
    value.steps += int((differs & (np.array(stretch.steps) >= 0)).sum())
    value.largest = max(value.largest, float(far.max()))
    row = int(differs.argmax())
    when = stretch.steps[row], stretch.places[row]
    if value.step is None or when < (value.step, value.place):
        (value.step, value.place), far = when, far[row]
        at = np.unravel_index(int(far.argmax()), far.shape)
        value.difference, value.where = float(far[at]), context.where(parts[0], at)
        ours = zip((stretch.first.a, stretch.first.b), parts, strict=True)
        value.a, value.b = (_entry(like, part.array[row][at]) for like, part in ours)
        value.relative = _relative(value.difference, *(part.array[row][counts[row]] for part in parts))
        if context.earliest is None or when < context.earliest:
            context.earliest, context.earliest_numbers = when, context.numbers(parts, row, counts[row], at)


def _relative(difference: float, *numbers: np.ndarray) -> float:
    """A difference relative to the largest finite number."""
    with np.errstate(all="ignore"):
        sizes = [np.abs(array)[np.isfinite(array)].max(initial=0) for array in numbers]
    return difference / float(max(sizes)) if max(sizes) else float("inf")


def _entry(value: Entries | str, number: np.generic) -> object:
    """The number of an entry, or the text of its label."""
    vocab = value.vocab if isinstance(value, Tensor) else None
    entry = number.item()
    return entry if vocab is None or not 0 <= entry < len(vocab) else vocab.decode(entry)


def _uneven(a: Run, b: Run, sequences: Sequences) -> list[str]:
    """Notes on sequences whose numbers of steps differ."""
    steps_a, steps_b = _steps(a, sequences.a), _steps(b, sequences.b)
    if steps_a is None or steps_b is None:
        return [] if a.steps == b.steps else [f"{a.steps} and {b.steps} steps"]
    rows = zip(sequences.names or [""], steps_a, steps_b, strict=True)
    return [f"{f'sequence {name}: ' if name else ''}{x} and {y} steps" for name, x, y in rows if x != y]


def _steps(run: Run, chosen: list[int] | None) -> list[int] | None:
    """How many steps each of the sequences took; None if this also depends on other dims, such as a beam."""
    if run.size.values.ndim == 0:
        return [run.size.max] * (1 if chosen is None else len(chosen))
    return None if run.lengths is None or chosen is None else [run.lengths[i] for i in chosen]


def _checks(a: Run, b: Run) -> list[str]:
    """Notes on runs whose replay does not agree, which makes the comparison unreliable."""
    checks = {side: run[0].check for side, run in (("first", a), ("second", b)) if run.steps}
    return [f"the {side}: {check}" for side, check in checks.items() if check not in (AGREES, KEPT)]
