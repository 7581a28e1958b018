"""The result of comparing two runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.show import Shown

if TYPE_CHECKING:
    import numpy as np

    from rfnb.core.dims.dim import Dim


@dataclass
class Compared:
    """A value of both runs, with its first difference and its largest one.

    state: the name of the state that it is; None for values of the body. edited: whether a fork edited the state after
    the first step that differs and before the next one.
    line: in the first and in the second run. step: the first step that differs; -1 for the start, None if no step
    differs. place: the position of the value in that step. a, b: the two numbers or labels that differ most at that
    step; where: their position in the value. difference: between them; relative: to the largest number of the value at
    that step. steps: how many steps differ. largest: the largest difference of all steps. note: why the value cannot be
    compared. lost: the steps at which a run no longer has the value.
    """

    name: str
    line: tuple[int | None, int | None] = (None, None)
    step: int | None = None
    place: int = 0
    a: object = None
    b: object = None
    where: str = ""
    difference: float = 0.0
    relative: float = 0.0
    steps: int = 0
    largest: float = 0.0
    note: str = ""
    state: str | None = None
    edited: bool = False
    lost: list[int] = field(default_factory=list)

    @property
    def agree(self) -> bool:
        """Whether the value is the same in both runs."""
        return self.step is None and not self.note


@dataclass
class PairedNumbers:
    """The numbers of a value at one step in two runs, with the same axes, padded to the same sizes.

    counts: which entries are compared; padding and sequences that have ended are not. dims: of the first run. place:
    the entry that differs most. owner: the axis of the sequences; names: the names of its entries.
    """

    a: np.ndarray
    b: np.ndarray
    counts: np.ndarray
    dims: tuple[Dim, ...]
    place: tuple[int, ...]
    owner: int | None
    names: list[str]


@dataclass(repr=False)
class Comparison(Shown):
    """The result of `rf.compare`. It is true if all common values agree, at all steps, and their number is the same.

    a, b: the names of the runs; serials: their serial numbers. values: those in both runs, in the order of the first.
    only_a, only_b: names of values in one run only. notes: other differences, such as numbers of steps or sequences.
    numbers: those of `first` at the step where it differs first. beams: of two searches, for each sequence, the first
    step at which the beams differ, and the hypotheses that only one of them has there (`rf.compare(found, other)`).
    complete: whether both runs have all steps; those that one of them no longer has are not compared.

    >>> def run(scale):
    ...     loop = rf.Loop(max_seq_len=3, debug=True)
    ...     loop.state.x = rf.convert_to_tensor(1.0)
    ...     with loop:
    ...         loop.state.x = loop.state.x * scale
    ...     return loop.run
    >>> found = rf.compare(run(2.0), run(2.5))
    >>> bool(found), found.first.name, found.first.a, found.first.b, found.first.steps
    (False, 'x', 2.0, 2.5, 3)
    """

    a: str
    b: str
    serials: tuple[int, int]
    values: list[Compared] = field(default_factory=list)
    only_a: list[str] = field(default_factory=list)
    only_b: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    same_steps: bool = True
    complete: bool = True
    numbers: PairedNumbers | None = None
    beams: tuple[Any, ...] = ()

    @property
    def agree(self) -> bool:
        """Whether there are common values, all of them agree, and the numbers of steps and the beams are the same."""
        is_same = self.same_steps and self.complete and all(beam.agree for beam in self.beams)
        return is_same and bool(self.values) and all(value.agree for value in self.values)

    @property
    def differing(self) -> list[Compared]:
        """The values that differ, in the order of their first difference."""
        values = [value for value in self.values if value.step is not None]
        return sorted(values, key=lambda value: (value.step, value.place))

    @property
    def first(self) -> Compared | None:
        """The value that differs first, by step and then by op; None if no value differs."""
        return next(iter(self.differing), None)

    def __bool__(self) -> bool:
        return self.agree
