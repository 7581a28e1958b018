"""Whether two runs computed the same, and where they part first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.show import Shown
from rfnb.core.tensor import Tensor
from rfnb.errors import LoopError, RunFileError
from rfnb.ops import math
from rfnb.trace.match import Sequences, match_sequences
from rfnb.trace.pairs import Pair, Pairs
from rfnb.trace.part import Part, Select, fitted, part_of
from rfnb.trace.run import Run
from rfnb.trace.tolerance import Tolerance, distance


@dataclass
class Compared:
    """A value of both runs: where it differs first, and how much it ever does.

    line: in the first run, in the second. step: the first that differs, -1 for the start; None if none does. place:
    its place in that step. a, b: the two numbers, or labels, that are the furthest apart there; where: which they are.
    difference: between them. steps: how many differ. largest: of all steps. note: why it cannot be compared.
    """

    name: str
    line: tuple[int | None, int | None] = (None, None)
    step: int | None = None
    place: int = 0
    a: Any = None
    b: Any = None
    where: str = ""
    difference: float = 0.0
    steps: int = 0
    largest: float = 0.0
    note: str = ""

    @property
    def agree(self) -> bool:
        """Whether it is the same in both."""
        return self.step is None and not self.note


@dataclass(repr=False)
class Comparison(Shown):
    """What `rf.compare` found. True if all that is in both agrees, and the steps are as many.

    a, b: the runs, in words; serials: their numbers. values: what is in both, in the order of the first. only_a,
    only_b: what is in one. notes: what else is not the same: numbers of steps, sequences.
    """

    a: str
    b: str
    serials: tuple[int, int]
    values: list[Compared] = field(default_factory=list)
    only_a: list[str] = field(default_factory=list)
    only_b: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    same_steps: bool = True

    @property
    def agree(self) -> bool:
        """Whether all that is in both agrees, there is something, and the steps are as many."""
        return self.same_steps and bool(self.values) and all(value.agree for value in self.values)

    @property
    def differing(self) -> list[Compared]:
        """The values that differ, in the order in which they come to."""
        found = [value for value in self.values if value.step is not None]
        return sorted(found, key=lambda value: (value.step, value.place))

    @property
    def first(self) -> Compared | None:
        """The value that differs first: in the earliest step, by the earliest op; None if none does."""
        return next(iter(self.differing), None)

    def __bool__(self) -> bool:
        return self.agree


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
    """Of two runs: whether they computed the same, and where they part first. Of tensors: a `kind` b, entry by entry.

    `rf.compare(run, other)` matches values by name and line, then by order within the name; steps by number,
    sequences by tag, else by number; dims by name, in any order. Padding, and steps behind the end of a sequence, do
    not count. The result is true if all agrees.

    Args:
        kind, allow_broadcast_all_sources, dim_order: of the op: "equal", "not_equal", "less", "less_equal", "greater",
            "greater_equal".
        exact: bits have to agree; NaN is NaN.
        rtol, atol: how far apart numbers may be: `atol + rtol · the largest of the value`. If not given, by type.
        sequence: the only one to compare, by number or tag. For a run of one sequence: which of the other it is.
        select: positions in dims, by name: `{"beam": 0}` where only one run has a beam.

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

    Raises LoopError if it is not clear which sequence of one run is which of the other.
    """
    if isinstance(a, Run) or isinstance(kind, Run):
        other = b if kind is None else kind
        if not (isinstance(a, Run) and isinstance(other, Run)):
            odd = other if isinstance(a, Run) else a
            raise LoopError("compare: a run is compared with another run", got=type(odd).__name__, expected="a Run")
        return compare_runs(a, other, Tolerance(exact, rtol, atol), sequence, select or {})
    return math.compare(a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order)


def compare_runs(a: Run, b: Run, tolerance: Tolerance, sequence: int | str | None, select: Select) -> Comparison:
    """The runs of two loops, step by step."""
    sequences, pairs = match_sequences(a, b, sequence), Pairs(a, b)
    result = Comparison(f"{a.name}, run {a.serial}", f"{b.name}, run {b.serial}", (a.serial, b.serial))
    found: dict[Any, Compared] = {}
    for step in range(-1, min(a.steps, b.steps)):
        for place, pair in enumerate(pairs.at_start() if step < 0 else pairs.at(step)):
            value = found.setdefault(pair.key, Compared(pair.name, pair.lines))
            _look(value, pair, (step, place), _Context(a, b, sequences, tolerance, select))
    result.values, (result.only_a, result.only_b) = list(found.values()), pairs.only
    uneven = _uneven(a, b, sequences)
    result.same_steps, result.notes = not uneven, [*sequences.notes, *uneven, *_checks(a, b)]
    return result


@dataclass(frozen=True)
class _Context:
    a: Run
    b: Run
    sequences: Sequences
    tolerance: Tolerance
    select: Select

    def parts(self, pair: Pair, step: int) -> tuple[Part, Part] | str:
        if pair.a is None or pair.b is None:
            return "" if pair.a is pair.b else f"the {'first' if pair.a is None else 'second'} is None"
        try:
            a = part_of(pair.a, self.a, step, self.sequences.a, self.select)
            b = part_of(pair.b, self.b, step, self.sequences.b, self.select)
        except RunFileError as error:
            return error.what
        return fitted(a, b, (self.a.sequence_dim, self.b.sequence_dim))

    def where(self, part: Part, at: tuple[Any, ...]) -> str:
        """ "batch 'banana', time 3"."""
        owner = self.a.sequence_dim if self.sequences.a is not None else None
        names = self.sequences.names
        places = zip(part.dims, map(int, at), strict=True)
        return ", ".join(f"{dim.name} {names[i] if dim is owner else i}" for dim, i in places)


def _look(value: Compared, pair: Pair, when: tuple[int, int], context: _Context) -> None:
    """What one step says of a value."""
    parts = context.parts(pair, when[0])
    if isinstance(parts, str):
        value.note = value.note or parts
        return
    a, b = parts
    live = a.live & b.live
    if ((a.frames != b.frames) & live).any():
        value.note = value.note or "the lengths differ"
    counts = live & a.frames & b.frames
    dtypes = getattr(pair.a, "dtype", None), getattr(pair.b, "dtype", None)
    differs = counts & ~context.tolerance.agree(a.array, b.array, counts, dtypes)
    if not differs.any():
        return
    far = np.where(differs, distance(a.array, b.array), -1.0)
    at = np.unravel_index(int(far.argmax()), far.shape)
    value.steps, value.largest = value.steps + (when[0] >= 0), max(value.largest, float(far[at]))
    if value.step is None:
        (value.step, value.place), value.difference = when, float(far[at])
        value.a, value.b = _entry(pair.a, a.array[at]), _entry(pair.b, b.array[at])
        value.where = context.where(a, at)


def _entry(value: Tensor | int, number: np.generic) -> Any:
    """A number of a value, or what the label is called."""
    vocab = value.vocab if isinstance(value, Tensor) else None
    entry = number.item()
    return entry if vocab is None or not 0 <= entry < len(vocab) else vocab.decode(entry)


def _uneven(a: Run, b: Run, sequences: Sequences) -> list[str]:
    """Where the numbers of steps differ."""
    mine, theirs = _steps(a, sequences.a), _steps(b, sequences.b)
    if mine is None or theirs is None:
        return [] if a.steps == b.steps else [f"{a.steps} and {b.steps} steps"]
    rows = zip(sequences.names or [""], mine, theirs, strict=True)
    return [f"{f'sequence {name}: ' if name else ''}{x} and {y} steps" for name, x, y in rows if x != y]


def _steps(run: Run, chosen: list[int] | None) -> list[int] | None:
    """How many steps each of the sequences took; None if there are more than sequences, as in a beam."""
    if run.size.values.ndim == 0:
        return [run.size.max] * (1 if chosen is None else len(chosen))
    return None if run.lengths is None or chosen is None else [run.lengths[i] for i in chosen]


def _checks(a: Run, b: Run) -> list[str]:
    """What makes a comparison doubtful."""
    checks = {which: run[0].check for which, run in (("first", a), ("second", b)) if run.steps}
    return [f"the {which}: {check}" for which, check in checks.items() if check != "replay agrees"]
