"""Values of variables of plain Python as they were kept, which recorded loops and files exchange.

Such a value is None, a bool, int, float, str or number of numpy; a list, tuple or dict of such values; or one of
`Leaf`, `Container`, `Growing` and `Lost`. Other objects are what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.graph.graph import Value
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError
from rfnb.trace.run.axis_names import is_unnamed
from rfnb.trace.run.names import LostValue, NoValue, TypeOnly

if TYPE_CHECKING:
    from rfnb.core.dims.lengths import Size
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.stacked import Lineage
    from rfnb.trace.run.step import StepLines, StepText, StepValue


class KeptSteps:
    """The part of `Replayable` that is the same where no step is computed again: of files, and of plain Python.

    searched: what the steps found, if they are those of a search; sequences: those of the search.
    """

    seed, every = 0, 1
    is_isolated = True
    sequences: tuple[Dim | None, Size | None] = (None, None)
    lineages: Sequence[Lineage] = ()
    searched: Any = None

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

    def found(self, run: Run) -> Any:
        """What a search found."""
        return self.searched

    def of_hypothesis(self, step: int, sequence: int | None, place: int) -> dict[Dim, int]:
        """Nothing: values have those of all hypotheses."""
        return {}

    def name_of(self, value: Value) -> str:
        """The name of the variable."""
        return value.name


class PlainSteps(KeptSteps):
    """The same for all plain Python code: no ops."""

    shown: Callable[..., object]
    variable: Callable[..., Any]

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


NUMBERS = (bool, int, float)
NUMPY = "?bhilqBHILQefd"
"""The types of numbers of numpy that are what they are."""
SEQUENCES: dict[str, Any] = {"list": list, "tuple": tuple}
SHOWN_PARTS = 64
"""Largest number of parts of a variable that a step has as values."""


ABSENT = "is not in the file"
"""What is said about values that a file does not have."""


class Leaf(NamedTuple):
    """A tensor, array or number as a Tensor, and the type that it is in the code."""

    tensor: Tensor
    kind: str

    def as_code(self) -> Any:
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
    parts: Any
    is_sequence: bool = False


class Growing(NamedTuple):
    """A list that grows: how many parts it has of those that its values share, and what reads one of them."""

    grown: Grown
    length: int
    part: Callable[[int], Any]

    def parts(self) -> list[Any]:
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
        self._array: Any = ()

    def numbers(self, length: int) -> np.ndarray | list[object] | None:
        """So many first parts, as an array where all have one type; None if some are no numbers."""
        if self._looked < len(self.parts):
            kinds = [*map(type, self.parts)]
            self._looked = len(kinds)
            self._numbers = next((at for at, kind in enumerate(kinds) if not issubclass(kind, NUMBERS)), len(kinds))
            array = np.asarray([*takewhile(lambda part: type(part) is kinds[0], self.parts[: self._numbers])])
            self._array = array if array.dtype.kind in "bf" or array.dtype == np.int64 else ()
        if length > self._numbers:
            return None
        return self._array[:length] if length <= len(self._array) else self.parts[:length]


class GrownRows(NamedTuple):
    """What a step has as values of a list that grows, after a line.

    rows: what reads those of one part, which are the same at all steps; they are one row if all parts are numbers.
    """

    name: str
    kind: str
    line: int
    growing: Growing
    rows: Callable[[int], list[StepValue | StepText]]


def as_code(name: str, value: object) -> Any:
    """A value as code has it; in lists, tuples and dicts, the errors for parts that were not kept.

    Raises NoValue if it was not kept, LostValue if it no longer is.
    """
    if isinstance(value, Lost):
        raise value.error(name)
    return _part(name, value)


def _part(name: str, value: Any) -> Any:
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
    if type(value) in (list, tuple):
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
