"""Conditions on a step of a run, for `run.find`: `rf.when.not_finite("h")`. Padding does not count.

A name refers to a state after the step, which is stored, or else to a value of the body, which is recomputed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from rfnb.core.ground.defaults import is_int_dtype
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DtypeError, LoopError
from rfnb.printable import encodable, printable_name
from rfnb.trace.run.entries import Entries, frames, going_on, numbers, of_sequence, same
from rfnb.trace.run.find import is_kept, sequence_number
from rfnb.trace.run.names import AtLine
from rfnb.trace.run.variables import Lost, LostValue, NoValue, is_variable, variable_at

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.step import RunStep

__all__ = ["Condition", "best_changes", "changes", "ends", "falls_out", "not_finite", "over", "repeats"]
__dir__ = __all__.copy  # completion offers these names, but no imports

Holds = Callable[["RunStep", "int | None"], bool]


class Condition:
    """A condition on a step of a run, to be called with a `RunStep`; its `repr` describes it.

    >>> loop = rf.Loop(max_seq_len=4, debug=True)
    >>> loop.state.n = rf.convert_to_tensor(1)
    >>> with loop:
    ...     loop.state.n = loop.state.n * 2
    >>> even = rf.when.Condition("n is 4 or 8", lambda at, _: at.after.n.item() in (4, 8))
    >>> even, even(loop.run[0]), loop.run.find(even)
    (n is 4 or 8, False, [1, 2])
    """

    def __init__(self, words: str, holds: Holds, batch: int | str | None = None, reads: str | None = None):
        self.words = words if batch is None else f"{words} in sequence {batch!r}"
        self.reads = reads  # the one value that it looks at, or "*": each value of its own; None: the whole step
        self._holds = holds
        self._batch = batch

    def __call__(self, at: RunStep) -> bool:
        """Whether the condition holds at this step."""
        sequence = None if self._batch is None else sequence_number(at.run, self._batch)
        return self._holds(at, sequence)

    def __repr__(self) -> str:
        return encodable(printable_name(self.words))


def not_finite(name: str | None = None, *, batch: int | str | None = None) -> Condition:
    """Holds where a state after the step, or a value of the body, has NaN or infinite entries. Without a name: any, but
    for masked energies: values whose entries are finite or −∞.

    >>> rf.when.not_finite("h")
    h is not finite
    """

    entries = bad_entries if name is None else lambda numbers: ~np.isfinite(numbers)

    def holds(at: RunStep, sequence: int | None) -> bool:
        return _in_any(at, name, sequence, entries, lambda lost: not lost.finite)

    return Condition(f"{name or 'a value'} is not finite", holds, batch, name or "*")


def bad_entries(numbers: np.ndarray) -> np.ndarray:
    """The entries that are NaN or infinite; none of masked energies, which are finite or −∞."""
    infinite = ~np.isfinite(numbers)
    is_mask = not infinite.all() and bool((numbers[infinite] == -np.inf).all())
    return infinite & (not is_mask)


def over(limit: float, name: str | None = None, *, batch: int | str | None = None) -> Condition:
    """Holds where an entry is larger than `limit` in absolute value. Without a name: in any state or value.

    >>> rf.when.over(100, "h", batch="banana")
    |h| is over 100 in sequence 'banana'
    """

    if not isinstance(limit, int | float | np.number):
        hint = f'rf.when.over({name!r}, "{limit}")' if isinstance(limit, str) and name is not None else None
        raise DtypeError("when.over: `limit` is not a number", got=repr(limit), expected="a number", hint=hint)

    def is_over(lost: Lost) -> bool:
        return lost.largest is not None and lost.largest > limit

    def holds(at: RunStep, sequence: int | None) -> bool:
        return _in_any(at, name, sequence, lambda numbers: np.abs(numbers) > limit, is_over)

    return Condition(f"|{name or 'a value'}| is over {limit:g}", holds, batch, name or "*")


def changes(name: str, *, batch: int | str | None = None) -> Condition:
    """Holds where the step changes a state, or where a value of the body differs from the previous step.

    >>> rf.when.changes("label")
    label changes
    """

    def holds(at: RunStep, sequence: int | None) -> bool:
        pair = _before_and_now(at, name)
        return pair is not None and _any(at, pair[1], ~same(*pair), sequence)

    return Condition(f"{name} changes", holds, batch, name)


def repeats(name: str, *, batch: int | str | None = None) -> Condition:
    """Holds where a label is the same as at the previous step, in any sequence or hypothesis.

    For values that are not integers, all entries of a sequence must be the same.

    >>> rf.when.repeats("label")
    label repeats
    """

    def holds(at: RunStep, sequence: int | None) -> bool:
        pair = _before_and_now(at, name)
        if pair is None:
            return False
        equal, label = same(*pair), pair[1]
        if isinstance(label, Tensor) and not is_int_dtype(label.dtype):
            sequences = (*at.run.size.dims, at.run.sequence_dim)
            axes = tuple(axis for axis, dim in enumerate(label.dims) if dim not in sequences)
            equal = np.all(equal | ~frames(label), axis=axes, keepdims=True)
        return _any(at, label, equal, sequence)

    return Condition(f"{name} repeats", holds, batch, name)


def ends(*, batch: int | str | None = None) -> Condition:
    """Holds at the last step of a sequence.

    >>> rf.when.ends()
    a sequence ends
    """

    def holds(at: RunStep, sequence: int | None) -> bool:
        is_last = at.run.size.values == at.step + 1
        if sequence is not None and at.run.sequence_dim in at.run.size.dims:
            is_last = is_last.take(sequence, at.run.size.dims.index(at.run.sequence_dim))
        return bool(is_last.any())

    return Condition("a sequence ends", holds, batch)


def best_changes(*, batch: int | str | None = None) -> Condition:
    """Holds in a search where the best hypothesis after the step does not extend the best one before it.

    >>> rf.when.best_changes(batch="laugh")
    the best hypothesis changes in sequence 'laugh'
    """

    def steps(run: Run, which: int) -> set[int]:
        tree = run.found.tree[which]
        if not tree.steps:
            return set()
        best = np.where(tree.alive, tree.ranks, tree.beam + 1).argmin(axis=1)
        parents = np.take_along_axis(tree.parents, best[:, None], axis=1)[1:, 0]
        return set((np.flatnonzero((parents != best[:-1]) & tree.alive.any(axis=1)[1:]) + 1).tolist())

    return Condition("the best hypothesis changes", _in_search("best_changes", steps), batch)


def falls_out(reference: object, *, batch: int | str | None = None) -> Condition:
    """Holds in a search where the reference falls out of the beam.

    reference: text, labels or numbers, as for `tree.where`. For several sequences: a dict with one for each name of a
    sequence.

    >>> rf.when.falls_out("L AE F", batch="laugh")
    'L AE F' falls out of the beam in sequence 'laugh'
    """

    def steps(run: Run, which: int) -> set[int]:
        tree = run.found.tree[which]
        if isinstance(reference, dict) and tree.name not in reference:
            return set()
        if not isinstance(reference, dict) and batch is None and len(run.found) > 1:
            raise LoopError(
                "when.falls_out: one reference for several sequences",
                got=f"{len(run.found)} sequences",
                hint="rf.when.falls_out(reference, batch=…), or {name: reference, …}",
            )
        fall = tree.where(reference[tree.name] if isinstance(reference, dict) else reference).fall
        return set() if fall is None else {fall.step}

    words = "a reference" if isinstance(reference, dict) else f"{reference!r}"
    return Condition(f"{words} falls out of the beam", _in_search("falls_out", steps), batch)


def _in_search(name: str, steps: Callable[[Run, int], set[int]]) -> Holds:
    """Whether a step is among the `steps` of a sequence of a search, which are found once for each run."""
    steps_by_run: WeakKeyDictionary[Run, dict[int, set[int]]] = WeakKeyDictionary()

    def holds(at: RunStep, sequence: int | None) -> bool:
        search = at.run.found
        if search is None:
            raise LoopError(f"when.{name}: the loop {at.run.name!r} is not a search", hint="loop.choice(…)")
        sequences = range(len(search)) if sequence is None or len(search) == 1 else [sequence]
        of_run = steps_by_run.setdefault(at.run, {})
        for number in sequences:
            if number not in of_run:
                of_run[number] = steps(at.run, number)
        return any(at.step in of_run[number] for number in sequences)

    return holds


def _before_and_now(at: RunStep, name: str) -> tuple[Any, Any] | None:
    if not isinstance(name, AtLine):
        if name in at.before.names():
            return at.before[name], at.after[name]
        if is_variable(replay := at.run.replay, name):
            try:
                pair = variable_at(replay, name, at.step), variable_at(replay, name, at.step + 1)
            except LostValue:
                raise
            except NoValue:
                return None
            return None if pair[0] is None or pair[1] is None else pair
    if at.step == 0 or not is_kept(earlier := at.run[at.step - 1]):
        return None
    if not isinstance(name, AtLine):
        return earlier[name], at[name]
    values = earlier._latest(name), at._latest(name)
    return (values[0][-1], values[1][-1]) if all(values) else None


def _in_any(
    at: RunStep,
    name: str | None,
    sequence: int | None,
    test: Callable[[np.ndarray], np.ndarray],
    test_left: Callable[[Lost], bool],
) -> bool:
    """Whether an entry of a value passes a test, or the statistics that are left of it. Raises LostValue if neither
    is known.
    """
    untested = None
    for value in at._latest(name):
        if not isinstance(value, LostValue):
            if _any(at, value, test(numbers(value)), sequence):
                return True
        elif value.statistics is None or value.statistics.finite is None or sequence is not None:
            untested = value
        elif test_left(value.statistics):
            return True
    if untested is not None:
        raise untested
    return False


def _any(at: RunStep, value: Entries, marks: np.ndarray, sequence: int | None) -> bool:
    """Whether a mark is at an entry that counts: no padding, and no sequence that has ended."""
    if not marks.any():
        return False
    steps = at.run.size if at.step < at.run.steps else at.run.begun  # in a step that failed
    counts = frames(value) & going_on(value, steps, at.step)
    if sequence is not None:
        counts = counts & of_sequence(value, at.run.sequence_dim, sequence)
    return bool((marks & counts).any())
