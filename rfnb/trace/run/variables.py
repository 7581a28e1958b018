"""Values of variables of plain Python as they were kept, which recorded loops and files exchange.

Such a value is None, a bool, int, float, str or number of numpy; a list, tuple or dict of such values; or one of
`Leaf`, `Container`, `Growing` and `Lost`. Other objects are what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.graph.graph import Value
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ExpressionNameError
from rfnb.trace.run.axis_names import AxisNames, is_unnamed

if TYPE_CHECKING:
    from rfnb.core.dims.lengths import Size
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.stacked import Lineage
    from rfnb.trace.run.step import Row, StepLines, StepText


class KeptSteps:
    """The part of `Replayable` that is the same where no step is computed again: of files, and of plain Python.

    searched: what the steps found, if they are those of a search; sequences: those of the search.
    """

    seed, every = 0, 1
    is_isolated = True
    sequences: tuple[Dim | None, Size | None] = (None, None)
    lineages: Sequence[Lineage] = ()
    searched: object = None

    @property
    def is_search(self) -> bool:
        """Whether the steps choose hypotheses."""
        return self.searched is not None

    def in_order(self) -> AbstractContextManager[None]:
        """Nothing is computed again."""
        return nullcontext()

    def computed(self, step: int, only: Collection[int] | None = None) -> list[tuple[Value, Tensor]]:
        """No ops were recorded."""
        return []

    def lines(self, step: int) -> StepLines | None:
        """Not known."""
        return None

    def texts(self, step: int) -> list[StepText]:
        """There are none."""
        return []

    def found(self, run: Run) -> object:
        """What a search found."""
        return self.searched

    def of_hypothesis(self, step: int, sequence: int | None, place: int) -> dict[Dim, int]:
        """Nothing: values have those of all hypotheses."""
        return {}

    def name_of(self, value: Value) -> str:
        """The name of the variable."""
        return value.name


class VariableSteps(KeptSteps):
    """Steps of plain Python, also of a file: their variables keep their values until they are assigned again.

    names: of the axes of variables. raised_in: of a loop that was not recorded and raised, the id of the cell. also:
    other functions with loops that ran, which were not recorded.
    """

    names: AxisNames
    axis: Dim
    raised_in: str | None = None
    also: Sequence[str] = ()
    variable: Callable[..., object]
    shown: Callable[..., object]
    kept_value: Callable[..., object]
    state: Callable[[str, int], object]
    rows: Callable[[int], tuple[list[Row], str]]
    lost: Callable[[int], list[LostValue]]
    variable_names: Callable[[], list[str]]
    odd_names: Callable[[int], list[str]]
    name_axes: Callable[[str, Sequence[str | Dim] | None], None]

    @property
    def forgotten(self) -> int:
        """How many steps were forgotten, the oldest ones."""
        return 0

    @property
    def kept_from(self) -> int:
        """The first step that has all of its values."""
        return 0


class NoValue(ExpressionNameError):
    """A name of the run has no value at this step, where a condition is false."""


class TypeOnly(NoValue):
    """Of a value, only the type was kept."""


class LostValue(NoValue):
    """A value was not kept: what is left are `statistics`, or None."""

    statistics: Lost | None = None


def variable_names(replay: object) -> list[str]:
    """The variables of plain Python; none of other loops."""
    return replay.variable_names() if isinstance(replay, VariableSteps) else []


def is_variable(replay: object, name: str) -> TypeGuard[VariableSteps]:
    """Whether a name is that of a variable of plain Python."""
    return name in variable_names(replay)


def variable_at(replay: VariableSteps, name: str, step: int) -> object:
    """A variable of plain Python before `step`, as views show it; None if there is none. Raises LostValue."""
    try:
        replay.variable(name, step)
    except KeyError:
        return None
    return replay.state(name, step)


NUMBERS = (bool, int, float)
NUMPY = "?bhilqBHILQefd"
"""The types of numbers of numpy that are what they are."""
SEQUENCES: dict[str, type[list[object]] | type[tuple[object, ...]]] = {"list": list, "tuple": tuple}
SHOWN_PARTS = 64
"""Largest number of parts of a variable that a step has as values."""


ABSENT = "is not in the file"
"""What is said about values that a file does not have."""


class Leaf(NamedTuple):
    """A tensor, array or number as a Tensor, and the type that it is in the code."""

    tensor: Tensor
    kind: str

    def as_code(self) -> object:
        """The value as code has it; a Tensor if its axes have names."""
        raw = self.tensor._raw
        if not all(map(is_unnamed, self.tensor.dims)):
            return self.tensor
        is_list = self.kind in SEQUENCES and len(self.tensor.dims) == 1
        if is_list or (self.kind in {kind.__name__ for kind in NUMBERS} and not self.tensor.dims):
            numbers = backend_of_raw(raw).to_numpy_raw(raw).tolist()
            return SEQUENCES[self.kind](numbers) if is_list else numbers
        if self.kind == "ndarray" or hasattr(np, self.kind):
            array = np.asarray(backend_of_raw(raw).to_numpy_raw(raw))
            return array if self.kind == "ndarray" else array[()]
        return raw


class Container(NamedTuple):
    """A container of another type, with its parts as code has them: a list, tuple or dict.

    is_sequence: whether it is shown like a list or tuple of the same numbers.
    """

    kind: str
    parts: list[object] | tuple[object, ...] | dict[Hashable, object]
    is_sequence: bool = False


class Growing(NamedTuple):
    """A list that grows: how many parts it has of those that its values share, and what reads one of them."""

    grown: Grown
    length: int
    part: Callable[[int], object]

    def parts(self) -> list[object]:
        """All of them."""
        return [self.part(number) for number in range(self.length)]


class Lost(NamedTuple):
    """A value that was not kept.

    words: why. text: what is shown in its place. is_known: whether its type is known, and was all that was kept.
    finite, largest: of its numbers, as of a `Summary`.
    """

    words: str
    text: str
    is_known: bool = False
    finite: bool | None = None
    largest: float | None = None

    def error(self, name: str) -> NoValue:
        """The error for a variable with this name."""
        kind = TypeOnly if self.is_known else LostValue
        error = kind(f"`{name}` {self.words if self.words == ABSENT else f'has no value at this step: {self.words}'}")
        if isinstance(error, LostValue) and self.finite is not None:
            error.statistics = self
        return error


class Grown:
    """The parts of a list that grows, which its values after several lines share."""

    __slots__ = ("__weakref__", "_array", "_looked", "_numbers", "parts")

    def __init__(self, parts: Iterable[object] = ()):
        self.parts: list[Any] = [*parts]
        self._looked = self._numbers = 0
        self._array: np.ndarray | list[object] = []

    def numbers(self, length: int) -> np.ndarray | list[object] | None:
        """So many first parts, as an array where all have one type; None if some are not numbers."""
        if self._looked < len(self.parts):
            kinds = [*map(type, self.parts)]
            self._looked = len(kinds)
            self._numbers = next((at for at, kind in enumerate(kinds) if not issubclass(kind, NUMBERS)), len(kinds))
            array = np.asarray([*takewhile(lambda part: type(part) is kinds[0], self.parts[: self._numbers])])
            self._array = array if array.dtype.kind in "bf" or array.dtype == np.int64 else []
        if length > self._numbers:
            return None
        return self._array[:length] if length <= len(self._array) else self.parts[:length]


def as_code(name: str, value: object) -> object:
    """A value as code has it; in lists, tuples and dicts, the errors for parts that were not kept.

    Raises NoValue if it was not kept, LostValue if it no longer is.
    """
    if isinstance(value, Lost):
        raise value.error(name)
    return _part(name, value)


def _part(name: str, value: object) -> object:
    if isinstance(value, Leaf):
        return value.as_code()
    if isinstance(value, Lost):
        return value.error(name)
    if isinstance(value, Growing):
        value = value.parts()
    if isinstance(value, Container):
        value = value.parts
    if type(value) is dict:
        return {key: _part(f"{name}.{key}", part) for key, part in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_part(f"{name}.{number}", part) for number, part in enumerate(value))
    return value


def array_of(value: object) -> np.ndarray | None:
    """An array, number, or list or tuple of numbers as an array; None for other values."""
    if isinstance(value, list | tuple):
        value = np.asarray(value) if value and all(issubclass(kind, NUMBERS) for kind in {*map(type, value)}) else None
    if not isinstance(value, bool | int | float | np.generic | np.ndarray):
        return None
    array = np.asarray(value)
    if array.dtype.char in "QgG":  # which torch does not have, as of whole numbers from 2**63 on
        array = array.astype({"Q": "uint64", "g": "float64", "G": "complex128"}[array.dtype.char])
    return array if array.dtype.kind in "biufc" else None
