"""What a comparison of two runs found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.show import Shown

if TYPE_CHECKING:
    import numpy as np

    from rfnb.core.dims.dim import Dim


@dataclass
class Compared:
    """A value of both runs: where it differs first, and how much it ever does.

    line: in the first run, in the second. step: the first that differs, -1 for the start; None if none does. place:
    its place in that step. a, b: the two numbers, or labels, that are the furthest apart there; where: which they are.
    difference: between them; relative: to the largest number of the value there. steps: how many differ. largest: of
    all steps. note: why it cannot be compared.
    """

    name: str
    line: tuple[int | None, int | None] = (None, None)
    step: int | None = None
    place: int = 0
    a: Any = None
    b: Any = None
    where: str = ""
    difference: float = 0.0
    relative: float = 0.0
    steps: int = 0
    largest: float = 0.0
    note: str = ""

    @property
    def agree(self) -> bool:
        """Whether it is the same in both."""
        return self.step is None and not self.note


@dataclass
class Numbers:
    """What two runs have of a value at one step: on the same axes, as long as the longer.

    counts: which entries are compared: no padding, nothing of sequences that have ended. dims: of the first run.
    place: the entry that differs most. owner: the axis that counts sequences, whose entries are called `names`.
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
    """What `rf.compare` found. True if all that is in both agrees, and the steps are as many.

    a, b: the runs, in words; serials: their numbers. values: what is in both, in the order of the first. only_a,
    only_b: what is in one. notes: what else is not the same: numbers of steps, sequences. numbers: of `first`, where it
    differs first.

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
    numbers: Numbers | None = None

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
