"""The log of a frame: what its lines assigned, in order; of values beyond the budget, shapes and statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, islice
from sys import getsizeof
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.trace.plain.containers import PLAIN
from rfnb.trace.plain.syntax import BEFORE, Use
from rfnb.trace.plain.values import MAY, Kept, Parts, tensor_backend, tensors_in

if TYPE_CHECKING:
    from rfnb.trace.plain.hidden_state import GeneratorStates
    from rfnb.trace.plain.iterations import Iterations


class Summary:
    """What is left of a value that no longer fits into the budget: shape and statistics, as text.

    finite: whether all entries are finite. largest: of the absolute values. None where that is not known.
    """

    __slots__ = ("finite", "largest", "words")

    def __init__(self, words: str, finite: bool | None = None, largest: float | None = None):
        self.words, self.finite, self.largest = words, finite, largest

    def __repr__(self) -> str:
        return self.words


def summary(value: object, version: int | None) -> object:
    """A value without its tensors."""
    snapshot = Kept.of_raw(value, version) if version is not None else value
    if not isinstance(snapshot, Kept) or not any(part.bytes for part in tensors_in(snapshot)):
        return value
    if snapshot.changed() or snapshot.note == MAY:
        return Summary(snapshot.note or "changed later")
    if isinstance(snapshot.value, Parts):
        return Summary(f"{snapshot.value.kind.__name__} of {snapshot.value.length} parts, no longer kept")
    array = snapshot.value if isinstance(snapshot.value, np.ndarray) else snapshot.backend.to_numpy_raw(snapshot.raw)
    shape = "×".join(map(str, array.shape))
    if array.dtype.kind not in "fiub" or not array.size:
        return Summary(f"{shape} {array.dtype}, no longer kept")
    finite = array[np.isfinite(array)].astype(np.float64)
    numbers = f"{finite.min():.4g} … {finite.max():.4g}, μ {finite.mean():.4g}" if finite.size else "none is finite"
    nan = int(np.isnan(array).sum())
    words = [shape, numbers, f"{nan} NaN" if nan else "", "no longer kept"]
    inf = bool(np.isinf(array).any())
    largest = np.inf if inf else float(np.abs(finite).max(initial=-1))
    return Summary(", ".join(filter(None, words)), not (nan or inf), largest)


SLOTS = 24
"""Bytes that an entry of the log needs beside its value."""
OBJECT, TENSOR = 256, 600
"""Bytes that an object of the log, and a raw tensor, need beside their numbers."""
LONG = 128
"""Average of bytes from which on texts are counted once, if several entries have them."""
FEW = 8
"""Number of parts of a container by which the memory of all is estimated."""


class Entry(NamedTuple):
    """A variable after a line that assigned or changed it.

    value: a raw tensor, number or text, or a `Kept`. version: of the raw tensor, as it was then.
    """

    name: str
    line: int
    value: Any
    version: int | None = None

    @property
    def kept(self) -> Any:
        """The value, a raw tensor as a `Kept` without its autograd graph."""
        if self.version is None:
            return self.value
        with tensor_backend().unobserved():
            return Kept.of_raw(self.value, self.version)


class Log:
    """What the lines of a frame assigned, in order: three lists, which need no collection of garbage for their entries.

    uses, values: who assigned a value, and the value. versions: of raw tensors; other values that may change are a
    `Kept`. statements: those that ran. summarized: where the first value is that was not replaced by statistics.
    """

    __slots__ = ("_counted", "_places", "statements", "summarized", "uses", "values", "versions")

    def __init__(self) -> None:
        self.uses: list[Use] = []
        self.values: list[Any] = []
        self.versions: list[int | None] = []
        self.statements: list[int] = []
        self.summarized = 0
        self._places: tuple[int, dict[str, list[int]]] = (0, {})  # how much was looked at, and what it was
        self._counted = 0, 0  # entries and statements

    def __len__(self) -> int:
        return len(self.uses)

    def add(self, use: Use, value: object, version: int | None) -> None:
        """One more entry."""
        self.uses.append(use)
        self.values.append(value)
        self.versions.append(version)

    def extend(self, other: Log, entries: slice = slice(None), statements: slice = slice(None)) -> None:
        """Adds entries and statements of another log."""
        self.uses += other.uses[entries]
        self.values += other.values[entries]
        self.versions += other.versions[entries]
        self.statements += other.statements[statements]

    def places(self) -> dict[str, list[int]]:
        """By variable, where its values are."""
        start, places = self._places
        for at in range(start, len(self)):
            places.setdefault(self.uses[at].name, []).append(at)
        self._places = len(self), places
        return places

    def new_bytes(self) -> int:
        """The memory of the log itself that was not counted before, without raw tensors, and the numbers of others."""
        (entries, statements), self._counted = self._counted, (len(self), len(self.statements))
        values = self.others(entries)
        plain = [value for value in values if type(value) in PLAIN]
        size = sum(map(getsizeof, plain))
        if size > LONG * len(plain):
            size = sum(map(getsizeof, {id(value): value for value in plain}.values()))
        if len(plain) < len(values):
            size += sum(map(_size_of, {id(value): value for value in values if type(value) not in PLAIN}.values()))
        return size + SLOTS * (len(self) - entries) + 8 * (len(self.statements) - statements)

    def others(self, start: int = 0) -> list[object]:
        """The values from a place on that are not raw tensors, none of which is looked at."""
        values = self.values
        return [values[at] for at, version in enumerate(islice(self.versions, start, None), start) if version is None]

    def rows(self, end: int) -> Iterator[tuple[Use, object, int | None]]:
        """What the log has before a place."""
        return islice(zip(self.uses, self.values, self.versions, strict=True), end)

    def remove(self, cut: int, ran: int, kept: Sequence[int]) -> None:
        """Removes the entries before a place, but for those at some places, and so many statements."""
        lists: tuple[list[Any], ...] = self.uses, self.values, self.versions
        for entries in lists:
            entries[:cut] = [entries[at] for at in kept]
        del self.statements[:ran]
        less = cut - len(kept)
        self.summarized, self._places = max(self.summarized - less, 0), (0, {})
        self._counted = self._counted[0] - less, self._counted[1] - ran

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """The entries of a range."""
        for at in range(start, end):
            if self.uses[at].statement != BEFORE:
                yield self.entry(at)

    def entry(self, at: int) -> Entry:
        """The entry at a place."""
        use = self.uses[at]
        return Entry(use.name, use.line, self.values[at], self.versions[at])

    def let_graphs_go(self, start: int = 0) -> None:
        """Keeps no autograd graph alive that a later change in place has tied to a raw tensor."""
        values, versions = self.values, self.versions
        places = [at for at, version in enumerate(islice(versions, start, None), start) if version is not None]
        has_graph = [*map(tensor_backend().needs_gradient_raw, map(values.__getitem__, places))]
        for at in compress(places, has_graph):
            values[at], versions[at] = Kept.of_raw(values[at], versions[at]), None  # type: ignore[arg-type]


def _size_of(value: object) -> int:
    """The memory of a value other than a number or text; of a list that grows, of the parts not counted before."""
    parts = value.value if type(value) is Kept else None
    if not isinstance(parts, Parts):
        return OBJECT if isinstance(value, Kept | Summary) else TENSOR
    growth = parts.growth
    items = parts.items if growth is None else growth.parts[growth.counted :]
    if growth is not None:
        growth.counted = len(growth.parts)
    sample = items[:FEW]
    size = sum(8 + (getsizeof(part) if type(part) in PLAIN else _size_of(part)) for part in sample)
    return OBJECT + (size * len(items) // len(sample) if sample else 0)


class Tested(NamedTuple):
    """A `while` loop whose test has run: where in the log that began, the variables there, and the random numbers."""

    loop: int
    at: int
    initial: dict[str, int]
    numbers: GeneratorStates


class Raised(NamedTuple):
    """An error, the statement that raised it, and the loops that were open."""

    error: BaseException
    statement: int
    loops: list[Iterations]
