"""The log of a frame: what its lines assigned, in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from sys import getsizeof
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.trace.plain.syntax import BEFORE
from rfnb.trace.plain.values import PLAIN, Kept, backend_of

if TYPE_CHECKING:
    from rfnb.trace.plain.hidden import Numbers
    from rfnb.trace.plain.recorder import Iterations

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
    """What the lines of a frame assigned, in order: three entries of a list each, which need no collection of garbage.

    items: a `Use`, the value, and the version of a raw tensor; other values that may change are a `Kept`. summarized:
    where the first value is that was not replaced by statistics.
    """

    __slots__ = ("_places", "items", "statements", "summarized")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.statements: list[int] = []  # those that ran, in order
        self.summarized = 0
        self._places: tuple[int, dict[str, list[int]]] = (0, {})  # how much was looked at, and what it was

    def places(self) -> dict[str, list[int]]:
        """By variable, where its values are."""
        start, places = self._places
        for at in range(start, len(self.items), 3):
            places.setdefault(self.items[at].name, []).append(at)
        self._places = len(self.items), places
        return places

    @property
    def bytes(self) -> int:
        """The memory of the log itself, without that of tensors and arrays."""
        values = {id(value): value for value in self.items[1::3]}
        plain = sum(getsizeof(value) for value in values.values() if type(value) in PLAIN)
        others = sum(type(value) not in PLAIN for value in values.values())
        return getsizeof(self.items) + getsizeof(self.statements) + plain + OBJECT * others

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """The entries of a range."""
        for at in range(start, end, 3):
            use, value, version = self.items[at : at + 3]
            if use.statement != BEFORE:
                yield Entry(use.name, use.line, value, version)

    def entry(self, at: int) -> Entry:
        """The entry at a place."""
        use, value, version = self.items[at : at + 3]
        return Entry(use.name, use.line, value, version)


def let_graphs_go(items: list[Any], start: int = 0) -> None:
    """Keeps no autograd graph alive that a later change in place has tied to a raw tensor."""
    for at, value, version in zip(count(start, 3), items[start + 1 :: 3], items[start + 2 :: 3], strict=False):
        if version is not None and backend_of(value).needs_gradient_raw(value):
            items[at + 1], items[at + 2] = Kept.of_raw(value, version), None


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
