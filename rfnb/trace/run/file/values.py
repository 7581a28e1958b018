"""The values of the body that a file has, collected step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.trace.run.file.series import Series, form_of

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run


class SavedValues:
    """Collects the values of the body, step by step. Above `limit` bytes, only statistics of the largest are kept.

    unlimited: names of values that do not count. order: by step, which of `orders` its values have, if it is not that
    of the series. orders: numbers of series.
    """

    def __init__(self, run: Run, limit: float, unlimited: Collection[str] = ()):
        self.series: dict[tuple[Any, ...], Series] = {}
        self.order: dict[int, int] = {}
        self.orders: dict[tuple[int, ...], int] = {}
        self.words: list[str] = []
        self._run, self._limit, self._bytes = run, limit, 0
        self._unlimited = unlimited
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._failed: str | None = None

    def collect(self) -> list[str]:
        """Collects all steps, including one that failed. Returns the result of the replay check for each."""
        with self._run.replay.in_order():
            checks = [self._step(step) for step in range(self._run.steps + (self._run.failed is not None))]
        self.words = list(dict.fromkeys(checks))
        return checks

    def _rows(self, step: int) -> tuple[Sequence[Any], str]:
        """The values of a step, and the result of its replay check."""
        return self._run.replay.values(step)

    def _step(self, step: int) -> str:
        try:
            rows, check = self._rows(step)
        except Exception as error:
            self._failed = self._failed or f"step {step} could not be computed again: {type(error).__name__}"
            return "not in the file"
        counts: Counter[tuple[Any, ...]] = Counter()
        numbers = [self._add(step, row, counts) for row in rows]
        if numbers != sorted(numbers) or min(numbers, default=0) < 0:
            self.order[step] = self.orders.setdefault(tuple(numbers), len(self.orders))
        if self._bytes > self._limit:
            self._bytes -= sum(entry.bytes for entry in fit(self._limited(), self._limit))
        return check

    def _add(self, step: int, row: Any, counts: Counter[tuple[Any, ...]]) -> int:
        """Adds a value to its series, and returns the number of that."""
        name, op, line, tensor = row[:4]
        form = (name, op, line, *form_of(tensor))
        counts[form] += 1
        key = *form, counts[form]
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self.series):
            self.series[key] = Series.like(tensor, name, op, line)
        series = self.series[key]
        n_bytes = series.add(step, tensor)
        self._bytes += n_bytes if series.raws is not None and name not in self._unlimited else 0
        return number

    def _limited(self) -> list[Series]:
        """The series whose tensors may be dropped."""
        return [series for series in self.series.values() if series.name not in self._unlimited]

    def note(self, states: Sequence[Series]) -> str | None:
        """A note on what the file does not contain, or None. states: those that were left out."""
        out = [series for series in self._limited() if series.raws is None]
        names = [f"{series.name} ({series.bytes / 2**20:.1f} MiB)" for series in [*states, *out]]
        parts = [f"only statistics of {', '.join(names)}"] if names else []
        return "; ".join([*parts, *([self._failed] if self._failed else [])]) or None


def fit(series: Collection[Series], limit: float) -> list[Series]:
    """Drops the tensors of the largest until all use at most `limit` bytes; returns those that were dropped now."""
    queue = sorted((entry for entry in series if entry.raws is not None), key=lambda entry: entry.bytes)
    size, dropped = sum(entry.bytes for entry in queue), []
    while size > limit:
        dropped.append(queue.pop())
        dropped[-1].raws = None
        size -= dropped[-1].bytes
    return dropped
