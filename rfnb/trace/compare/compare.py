"""Compares two runs value by value, and finds the first difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError, ParameterError
from rfnb.ops import math
from rfnb.trace.compare.comparison import Compared, Comparison, PairedNumbers
from rfnb.trace.compare.hypotheses import SameHypotheses, hypotheses_of
from rfnb.trace.compare.match import Sequences, match_sequences
from rfnb.trace.compare.pairs import Pairs, Stretch, steps_text
from rfnb.trace.compare.part import MaskedPart, Select, fitted, part_of
from rfnb.trace.compare.tolerance import Tolerance, distance
from rfnb.trace.run.entries import Entries
from rfnb.trace.run.run import Run
from rfnb.trace.run.step import AGREES, KEPT, is_lost

OTHERS: dict[type, Callable[..., Any]] = {}
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
def compare(a: Any, kind: Any, /, *, sequence: int | str | None = None) -> Any: ...


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
            return OTHERS[type(a)](
                a, b if kind is None else kind, **({} if sequence is None else {"sequence": sequence})
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
    compared: dict[Any, Compared] = {}
    for stretch in pairs.stretches():
        entry = stretch.first.what
        _look(compared.setdefault(entry.key, Compared(entry.name, entry.lines, state=entry.state)), stretch, context)
    forked = {run.forked_at for run in (a, b) if run.forked_at}
    for value in compared.values():
        if value.lost and not value.note:
            value.note = f"{steps_text(value.lost)} not compared, as the value was not kept"
        value.edited = value.state is not None and value.step is not None and value.step + 1 in forked
    result.numbers = context.earliest.numbers
    result.beams = () if hypotheses is None else hypotheses.beams
    result.values, (result.only_a, result.only_b) = list(compared.values()), pairs.only
    uneven = _uneven(a, b, sequences)
    notes = [
        *uneven,
        *(f"{x} and {y}: the tolerance is that of the less precise dtype" for x, y in context.types),
    ]
    notes += [f"{beam.name}: {beam.words}" for beam in result.beams if not beam.agree]
    result.same_steps, result.complete = not uneven, not pairs.forgotten
    result.notes = [*sequences.notes, *notes, *pairs.notes, *_checks(a, b)]
    return result


@dataclass
class _Earliest:
    """The earliest difference found so far; the numbers of all others are freed."""

    when: tuple[int, int] | None = None
    numbers: PairedNumbers | None = None


@dataclass(frozen=True)
class _Context:
    a: Run
    b: Run
    sequences: Sequences
    tolerance: Tolerance
    select: Select
    hypotheses: SameHypotheses | None = None
    earliest: _Earliest = field(default_factory=_Earliest)
    types: dict[tuple[str, str], None] = field(default_factory=dict)  # pairs of different dtypes, in order

    def parts(self, stretch: Stretch) -> tuple[MaskedPart, MaskedPart] | str:
        """The two parts to compare, with the same axes; or the reason why they cannot be compared."""
        first = stretch.first
        if first.a is None or first.b is None:
            return "" if first.a is first.b else f"the {'first' if first.a is None else 'second'} is None"
        if stretch.missing:
            return stretch.missing
        steps = np.array(stretch.steps)
        assert not isinstance(first.a, str) and not isinstance(first.b, str)
        a = part_of(first.a, stretch.a, self.a, steps, self.sequences.a, self.select)
        b = part_of(first.b, stretch.b, self.b, steps, self.sequences.b, self.select)
        if self.hypotheses is not None:
            values, is_state = (first.a, first.b), first.what.state is not None
            a, b = self.hypotheses.matched((a, b), values, steps, is_state=is_state)
        return fitted(a, b, (self.a.sequence_dim, self.b.sequence_dim))

    def numbers(
        self, parts: tuple[MaskedPart, MaskedPart], row: int, counts: np.ndarray, at: tuple[Any, ...]
    ) -> PairedNumbers:
        """A copy of the numbers of one step, so that the other steps of the stretch can be freed."""
        (a, b), dims = (part.array[row].copy() for part in parts), parts[0].dims[1:]
        has_owner = self.a.sequence_dim in dims and self.sequences.a is not None
        owner = dims.index(self.a.sequence_dim) if has_owner and self.a.sequence_dim is not None else None
        return PairedNumbers(a, b, counts.copy(), dims, tuple(map(int, at)), owner, list(self.sequences.names))

    def where(self, part: MaskedPart, at: tuple[Any, ...]) -> str:
        """The place of an entry as text: "batch 'banana', time 3"."""
        owner = self.a.sequence_dim if self.sequences.a is not None else None
        names = self.sequences.names
        places = zip(part.dims[1:], map(int, at), strict=True)
        return ", ".join(f"{dim.name} {names[i] if dim is owner else i}" for dim, i in places)


def _look(value: Compared, stretch: Stretch, context: _Context) -> None:
    """Compares a value over some steps, and adds the result to `value`."""
    if stretch.is_text:
        _look_at_texts(value, stretch, context.earliest)
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
    differs = counts & ~context.tolerance.agree(a.array, b.array, counts, dtypes)
    if differs.any():
        far = np.where(differs, distance(a.array, b.array), -1.0)
        _note_difference(value, stretch, far, (a, b), counts, context)


def _look_at_texts(value: Compared, stretch: Stretch, earliest: _Earliest) -> None:
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
            if earliest.when is None or when < earliest.when:
                earliest.when, earliest.numbers = when, None


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
        if context.earliest.when is None or when < context.earliest.when:
            context.earliest.when = when
            context.earliest.numbers = context.numbers(parts, row, counts[row], at)


def _relative(difference: float, *numbers: np.ndarray) -> float:
    """A difference relative to the largest finite number."""
    with np.errstate(all="ignore"):
        sizes = [np.abs(array)[np.isfinite(array)].max(initial=0) for array in numbers]
    return difference / float(max(sizes)) if max(sizes) else float("inf")


def _entry(value: Entries | str, number: np.generic) -> Any:
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
