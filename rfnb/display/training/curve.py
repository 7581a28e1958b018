"""Curves of measures in bounded memory: when there are too many values, neighbours are joined."""

from __future__ import annotations

import math
from dataclasses import dataclass

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

    def over(self, asked: float | None) -> float:
        """How many values the running mean covers, if not as many as asked for."""
        return SHARE * sum(part.count for part in self.bins) if asked is None else asked

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
