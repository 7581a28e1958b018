"""How much memory the values of a log may use on the host and on an accelerator; the others become statistics."""

from __future__ import annotations

from collections.abc import Mapping, Set
from time import monotonic
from typing import Any

from rfnb.trace.plain.log import Log
from rfnb.trace.plain.syntax import BEFORE
from rfnb.trace.plain.values import backend_of, drop, hold, summary, tensors_in

PART = 0.05
"""The part of what is free on an accelerator that values may use."""

CHECKED = 0.1
"""Seconds after which it is looked again how much memory is free on an accelerator."""


class Budget:
    """The bytes of one kind of memory.

    Args:
        limit: how many there may be; None as long as nothing is on the accelerator.
        of_device: whether it is that of an accelerator.

    at: where in the log the values begin that were not looked at.
    """

    __slots__ = ("_bound", "at", "bytes", "limit", "of_device")

    def __init__(self, limit: float | None, of_device: bool = False):
        self.limit, self.of_device = limit, of_device
        self.bytes, self.at = 0, 0
        self._bound: list[int] = []  # where in the log are older values that variables still have

    @property
    def is_full(self) -> bool:
        """Whether so much is used that the oldest values have to go."""
        return self.bytes > 0.75 * (self.limit or 0)

    def free(self, items: list[Any], now: Set[int], part: float = 0.75) -> None:
        """Replaces the oldest tensors by statistics until this part of the limit is used; `now` has those in use."""
        most = part * (self.limit or 0)
        bound, self._bound = iter(self._bound), []
        while self.bytes > most:
            at = next(bound, self.at)
            if at == self.at:
                self.at += 3
            if at >= len(items):
                self.at = len(items)
                break
            if at in now:
                self._bound.append(at)
                continue
            value, version = items[at + 1 : at + 3]
            if items[at].statement != BEFORE and is_on_device(value, version) == self.of_device:
                self.bytes -= value.nbytes if version is not None else drop(value)
                items[at + 1], items[at + 2] = summary(value, version), None
        self._bound += bound


class Budgets:
    """The budgets of a log, on the host and on an accelerator: there, it is a small part of what is free at first.

    last: by variable, where in the log its value is.
    """

    def __init__(self, limit: int, log: Log, last: Mapping[str, int]):
        self.host, self._device = Budget(limit), Budget(None, of_device=True)
        self._log, self._last, self._next_check = log, last, 0.0

    @property
    def bytes(self) -> int:
        """All that is used."""
        return self.host.bytes + self._device.bytes

    @property
    def is_over(self) -> bool:
        """Whether more is used on the host than may be."""
        return self.host.bytes > (self.host.limit or 0)

    def add(self, value: Any, version: int | None) -> None:
        """Counts a value of the log."""
        size = hold(value) if version is None else value.nbytes
        if not size or not is_on_device(value, version):
            self.host.bytes += size
            return
        budget, time, raw = self._device, monotonic(), _raw_of(value, version)
        budget.bytes += size
        if budget.limit is None:
            budget.limit = PART * backend_of(raw).spare_memory_raw(raw)
        if time > self._next_check:
            self._next_check = time + CHECKED
            if backend_of(raw).spare_memory_raw(raw) < budget.limit:
                self.free(budget, 0)  # the program needs the memory
        if budget.bytes > budget.limit:
            self.free(budget)

    def make_room(self, error: BaseException | None) -> None:
        """Lets go of what is on an accelerator that has no memory left, as the program may try again."""
        if self._device.bytes and type(error).__name__ == "OutOfMemoryError":
            self.free(self._device, 0)

    def free(self, budget: Budget | None = None, part: float = 0.75) -> None:
        """Replaces the oldest values by statistics, until a part of a budget is used: that of the host by default."""
        budget = budget or self.host
        budget.free(self._log.items, {*self._last.values()}, part)
        self._log.summarized = max(self._log.summarized, budget.at)


def is_on_device(value: Any, version: int | None) -> bool:
    """Whether a tensor, or the first one in a container, is on an accelerator."""
    raw = _raw_of(value, version)
    return raw is not None and not backend_of(raw).is_on_host_raw(raw)


def _raw_of(value: Any, version: int | None) -> Any:
    if version is not None:
        return value
    return next((part.raw for part in tensors_in(value) if part.backend is not None), None)
