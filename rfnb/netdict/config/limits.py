"""How much a config may take: steps, entries of sequences, digits of numbers, seconds."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sized
from itertools import islice
from typing import Any

from rfnb.errors import ConfigError

ENTRIES = 1_000_000
"""The most entries of one sequence, or characters of one text."""
TOTAL = 20_000_000
"""The most entries of all sequences together."""
STEPS = 2_000_000
STEPS_OF_EXPRESSIONS = 100_000
SECONDS = 1.5
"""Seconds of computing time that a config may take."""
BITS = 10_000
"""The most bits of an integer."""
WIDTH = 10_000
"""The largest width or precision in a format."""


NESTED = (list, tuple, dict, set, frozenset, str, bytes)
CONVERSION = re.compile(
    r"%(?:\((?P<name>[^()]*)\))?[-+ #0]*(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d+))?[hlL]?(?P<kind>.)", re.S
)
"""A place of a text in which `%` writes a value."""


class LimitError(ConfigError):
    """A config takes more than it may. The config itself cannot catch this."""


class Limits:
    """Counts what a config takes. Raises LimitError when it is too much."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begins to count again."""
        self.steps, self.entries, self.end = STEPS, TOTAL, time.process_time() + SECONDS

    def renew_for_tensors(self) -> None:
        """Begins to count again, for an expression of a net: few steps, which may take as long as tensors take."""
        self.steps, self.entries, self.end = STEPS_OF_EXPRESSIONS, TOTAL, math.inf

    def step(self) -> None:
        """Counts a step."""
        self.steps -= 1
        if self.steps < 0:
            raise LimitError("the config takes too many steps", hint="is there a loop without an end?")
        if not self.steps % 64:
            self._check_time()

    def spend(self, entries: int) -> None:
        """Counts the entries of a new sequence, before it is made."""
        self.entries -= entries
        if entries > ENTRIES or self.entries < 0:
            raise LimitError("the config makes a sequence that is too long", got=entries, expected=f"at most {ENTRIES}")
        self._check_time()

    def _check_time(self) -> None:
        if time.process_time() > self.end:
            raise LimitError(f"the config takes more than {SECONDS:g} seconds")

    def made(self, value: object) -> Any:
        """The value, whose size is counted."""
        if isinstance(value, int) and value.bit_length() > BITS:
            raise LimitError("the config computes a number that is too large", expected=f"at most {BITS} bits")
        if isinstance(value, str | bytes | list | tuple | dict | set | frozenset) and len(value) > 64:
            self.spend(len(value))
        return value

    def entries_of(self, values: Iterable[object]) -> list[Any]:
        """The entries of an iterable as a list."""
        if isinstance(values, Sized):
            self.spend(len(values))
            return list(values)
        entries = list(islice(values, ENTRIES + 1))
        self.spend(len(entries))
        return entries

    def weigh(self, *values: object) -> int:
        """The number of entries and characters of data that is compared or written as text; too many are refused.

        What nested data holds twice counts twice.
        """
        waiting = [value for value in values if isinstance(value, NESTED)]
        count = 0
        while waiting:
            entries: Any = waiting.pop()
            count += len(entries)
            if count > ENTRIES:
                raise LimitError("the config compares or writes data that is too large", expected=f"at most {ENTRIES}")
            if isinstance(entries, dict):
                waiting += [key for key in entries if isinstance(key, NESTED)]
                entries = entries.values()
            if not isinstance(entries, str | bytes):
                waiting += [entry for entry in entries if isinstance(entry, NESTED)]
        return count

    def before(self, op: str, a: object, b: object) -> None:
        """Refuses an operation whose result would be too large."""
        if op == "Mult":
            for sequence, count in ((a, b), (b, a)):
                if isinstance(sequence, str | bytes | list | tuple) and isinstance(count, int):
                    self.spend(len(sequence) * max(count, 0))
        elif op == "Add" and isinstance(a, str | bytes | list | tuple) and isinstance(b, str | bytes | list | tuple):
            self.spend(len(a) + len(b))
        elif op in ("Pow", "LShift") and isinstance(a, int) and isinstance(b, int):
            bits = a.bit_length() * b if op == "Pow" else a.bit_length() + b
            if bits > BITS:
                raise LimitError("the config computes a number that is too large", expected=f"at most {BITS} bits")
        elif op == "Mod" and isinstance(a, str | bytes):
            self._percent(a if isinstance(a, str) else a.decode("latin-1"), b)

    def format(self, specification: str) -> None:
        """Refuses the widths and precisions of a replacement field that make a text too long."""
        self.spend(len(specification))
        for digits in re.findall(r"\d+", specification):
            self._width(digits, specification)

    def _percent(self, text: str, values: object) -> None:
        """Refuses `text % values` if it would be too long; a width that is `*` is an entry of the values."""
        self.spend(len(text))
        waiting = iter(values if isinstance(values, tuple) else (values,))
        for conversion in CONVERSION.finditer(text):
            if conversion["kind"] == "%":
                continue
            for width in (conversion["width"], conversion["precision"]):
                if width is not None:
                    self._width(next(waiting, None) if width == "*" else width, text)
            if conversion["name"] is None:
                self.spend(self.weigh(next(waiting, None)))
            elif isinstance(values, dict):
                name = conversion["name"]
                self.spend(self.weigh(values.get(name, values.get(name.encode("latin-1", "replace")))))

    def _width(self, width: object, text: str) -> None:
        if isinstance(width, str):
            width = int(width) if len(width) < 20 else math.inf
        if isinstance(width, int | float) and abs(width) > WIDTH:
            raise LimitError("a format is too wide", got=text[:40], expected=f"at most {WIDTH}")
