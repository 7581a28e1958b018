"""Reported measures by step, and their curves in bounded memory.

Tensors are read later and in groups, because each read synchronizes with the GPU. When a curve has too many values,
neighbours are joined.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from rfnb.backend.base.tape import untaped
from rfnb.core.run_ctx import Loss
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.kit.blocks import Table
from rfnb.errors import ViewError
from rfnb.ops.reduce import reduce_mean

MOST = 240
"""Largest number of bins in a curve, more than a picture can show."""
SHARE = 0.03
"""Share of the values that the running mean covers."""


@dataclass
class Bin:
    """Consecutive values: the step of the last, the lowest, the highest, their sum and number."""

    step: int
    low: float
    high: float
    total: float
    count: int

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return self.total / self.count

    def joined(self, later: Bin) -> Bin:
        """This bin joined with the next."""
        low, high = min(self.low, later.low), max(self.high, later.high)
        return Bin(later.step, low, high, self.total + later.total, self.count + later.count)


class BinnedCurve:
    """Finite values in bins, and the number and first step of others. `lowest` and `highest` are pairs (step, value).

    >>> curve = BinnedCurve()
    >>> for step, value in enumerate([3.0, float("nan"), 1.0, 2.0]):
    ...     curve.add(step, value)
    >>> [b.mean for b in curve.bins], curve.lowest, curve.bad, curve.first_bad
    ([3.0, 1.0, 2.0], (2, 1.0), 1, 1)
    """

    def __init__(self) -> None:
        self.bins: list[Bin] = []
        self.last: tuple[int, float] | None = None
        self.lowest: tuple[int, float] | None = None
        self.highest: tuple[int, float] | None = None
        self.bad, self.first_bad = 0, -1
        self._width = 1

    def add(self, step: int, value: float) -> None:
        """Adds a value."""
        self.last = step, value
        if not math.isfinite(value):
            self.bad, self.first_bad = self.bad + 1, self.first_bad if self.bad else step
            return
        if self.lowest is None or value < self.lowest[1]:
            self.lowest = step, value
        if self.highest is None or value > self.highest[1]:
            self.highest = step, value
        point = Bin(step, value, value, value, 1)
        if self.bins and self.bins[-1].count < self._width:
            self.bins[-1] = self.bins[-1].joined(point)
        else:
            self.bins.append(point)
        if len(self.bins) >= MOST:
            self.bins = [a.joined(b) for a, b in zip(self.bins[::2], self.bins[1::2], strict=True)]
            self._width *= 2

    def recent(self, over: float | None = None) -> float:
        """The running mean at the end, or the last value if it is not finite."""
        assert self.last is not None
        return self.smoothed(self.over(over))[-1] if math.isfinite(self.last[1]) else self.last[1]

    def over(self, count: float | None) -> float:
        """How many values the running mean covers, if not as many as asked for."""
        return SHARE * sum(part.count for part in self.bins) if count is None else count

    def smoothed(self, over: float) -> list[float]:
        """The running mean at each bin, over about `over` values, weighted towards the newest.

        >>> curve = BinnedCurve()
        >>> for step in range(4):
        ...     curve.add(step, step % 2)
        >>> [round(value, 2) for value in curve.smoothed(over=3)]
        [0.0, 0.67, 0.29, 0.67]
        """
        total = weight = 0.0
        means = []
        for part in self.bins:
            keep = (1 - 2 / (max(over, 1.0) + 1)) ** part.count
            total, weight = keep * total + (1 - keep) * part.mean, keep * weight + (1 - keep)
            means.append(total / weight)
        return means


UNREAD = 256
"""Largest number of unread values."""


class MeasureHistory:
    """Rows `{"step": 3, "loss": 0.2}`, and a curve for each measure."""

    def __init__(self) -> None:
        self.curves: dict[str, BinnedCurve] = {}
        self._rows: list[dict[str, Any]] = []
        self._unread: list[tuple[dict[str, Any], str]] = []

    def report(self, where: Mapping[str, int], measures: Mapping[str, object]) -> None:
        """Reports measures at `{"step": 3}`. The last report of a measure at a step counts."""
        values = {name: _kept(name, value) for name, value in measures.items()}
        if not self._rows or any(self._rows[-1].get(name) != number for name, number in where.items()):
            self._rows.append(dict(where))
        row = self._rows[-1]
        self._unread += [(row, name) for name in values if name not in row]
        row.update(values)
        if len(self._unread) > UNREAD:
            self.read(before=row)

    def read(self, before: object = None) -> None:
        """Reads waiting tensors into the curves; an incomplete last row may stay."""
        ready = [(row, name) for row, name in self._unread if row is not before]
        for (row, name), value in zip(ready, _read([row[name] for row, name in ready]), strict=True):
            row[name] = value
            self.curves.setdefault(name, BinnedCurve()).add(row["step"], value)
        self._unread = [(row, name) for row, name in self._unread if row is before]

    def rows(self) -> list[dict[str, float]]:
        """All rows, as plain numbers."""
        values = iter(_read([value for row in self._rows for value in row.values()]))
        return [{name: next(values) for name in row} for row in self._rows]

    def table(self) -> Table:
        """A row for each step with a report."""
        rows = self.rows()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        return Table(columns, [[row.get(name) for name in columns] for row in rows])


def _kept(name: str, value: Any) -> object:
    """A number, or a tensor to be read later, without its autograd graph."""
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Loss):
        return replace(value, loss=_detached(value.loss))
    if isinstance(value, Tensor):
        return _detached(value)
    size = value.numel() if hasattr(value, "numel") else getattr(value, "size", None)
    if size != 1:
        got = type(value).__name__ if size is None else f"{type(value).__name__} of {size} numbers"
        raise ViewError(
            f"report: {name!r} is not one number", got=got, expected="a number, or a Tensor: its mean counts"
        )
    return value.detach().reshape(()) if hasattr(value, "detach") else float(value.reshape(()))


def _detached(value: Tensor) -> Tensor:
    raw = value.raw_tensor
    return value.like(raw.detach()) if hasattr(raw, "detach") else value


def _read(values: Iterable[Any]) -> list[Any]:
    """Values as numbers. Raw tensors of one device and dtype are read together."""
    with untaped():
        values = [_mean(value) if isinstance(value, Tensor | Loss) else value for value in values]
    groups: dict[object, list[int]] = {}
    for i, value in enumerate(values):
        if hasattr(value, "detach"):
            groups.setdefault((value.device, value.dtype), []).append(i)
    for places in groups.values():
        import torch

        for i, number in zip(places, torch.stack([values[i] for i in places]).tolist(), strict=True):
            values[i] = number
    return [number if isinstance(number, int) else float(number) for number in values]


def _mean(value: Tensor | Loss) -> object:
    """The mean over all valid entries, as a raw tensor."""
    if isinstance(value, Loss):
        return value.get_mean_loss().raw_tensor
    return (reduce_mean(value, axis=value.dims) if value.dims else value).raw_tensor
