"""The log of a frame: what its lines assigned, in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from sys import getsizeof
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.trace.plain.syntax import BEFORE, Use
from rfnb.trace.plain.values import PLAIN, Kept, backend_of

if TYPE_CHECKING:
    from rfnb.trace.plain.hidden import Numbers
    from rfnb.trace.plain.iterations import Iterations

OBJECT = 256
"""Bytes that an object of the log needs beside its numbers."""
MOMENT = 128
"""Bytes that the beginning of an iteration needs."""


class Entry(NamedTuple):
    """A variable after a line that assigned or changed it.

    value: a raw tensor, number or text, or a `Kept`. version: of the raw tensor, as it was then.
    """

    name: str
    line: int
    value: Any
    version: int | None = None


class Log:
    """What the lines of a frame assigned, in order: three lists, which need no collection of garbage for their entries.

    uses, values: who assigned a value, and the value. versions: of raw tensors; other values that may change are a
    `Kept`. statements: those that ran. summarized: where the first value is that was not replaced by statistics.
    """

    __slots__ = ("_places", "statements", "summarized", "uses", "values", "versions")

    def __init__(self) -> None:
        self.uses: list[Use] = []
        self.values: list[Any] = []
        self.versions: list[int | None] = []
        self.statements: list[int] = []
        self.summarized = 0
        self._places: tuple[int, dict[str, list[int]]] = (0, {})  # how much was looked at, and what it was

    def __len__(self) -> int:
        return len(self.uses)

    def add(self, use: Use, value: Any, version: int | None) -> None:
        """One more entry."""
        self.uses.append(use)
        self.values.append(value)
        self.versions.append(version)

    def extend(self, other: Log, end: int | None = None, statements: int | None = None) -> None:
        """Adds the entries and statements of another log, up to a place in it and to a number of statements."""
        self.uses += other.uses[:end]
        self.values += other.values[:end]
        self.versions += other.versions[:end]
        self.statements += other.statements[:statements]

    def places(self) -> dict[str, list[int]]:
        """By variable, where its values are."""
        start, places = self._places
        for at in range(start, len(self)):
            places.setdefault(self.uses[at].name, []).append(at)
        self._places = len(self), places
        return places

    @property
    def bytes(self) -> int:
        """The memory of the log itself, without that of tensors and arrays."""
        values = {id(value): value for value in self.values}
        plain = sum(getsizeof(value) for value in values.values() if type(value) in PLAIN)
        others = sum(type(value) not in PLAIN for value in values.values())
        lists = sum(map(getsizeof, (self.uses, self.values, self.versions, self.statements)))
        return lists + plain + OBJECT * others

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
        for at, version in enumerate(islice(self.versions, start, None), start):
            value = self.values[at]
            if version is not None and backend_of(value).needs_gradient_raw(value):
                self.values[at], self.versions[at] = Kept.of_raw(value, version), None


class Tested(NamedTuple):
    """A `while` loop whose test has run: where in the log that began, the variables there, and the random numbers."""

    loop: int
    at: int
    initial: dict[str, int]
    numbers: Numbers


class Raised(NamedTuple):
    """An error, the statement that raised it, and the loops that were open."""

    error: BaseException
    statement: int
    loops: list[Iterations]
