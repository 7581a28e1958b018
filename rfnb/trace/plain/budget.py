"""How much memory the values of a log may use on the host and on an accelerator; the others become statistics."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from rfnb.trace.plain.syntax import BEFORE
from rfnb.trace.plain.values import backend_of, drop, summary, tensors_in

PART = 0.05
"""The part of what is free on an accelerator that values may use."""


class Budget:
    """The bytes of one kind of memory.

    Args:
        limit: how many there may be; None as long as nothing is on the accelerator.
        of_device: whether it is that of an accelerator.
    """

    __slots__ = ("_at", "_bound", "bytes", "limit", "of_device")

    def __init__(self, limit: float | None, of_device: bool = False):
        self.limit, self.of_device = limit, of_device
        self.bytes, self._at = 0, 0
        self._bound: list[int] = []  # where in the log are older values that variables still have

    def free(self, items: list[Any], now: Set[int], part: float = 0.75) -> None:
        """Replaces the oldest tensors by statistics until this part of the limit is used; `now` has those in use."""
        most = part * (self.limit or 0)
        bound, self._bound = iter(self._bound), []
        while self.bytes > most:
            at = next(bound, self._at)
            if at == self._at:
                self._at += 3
            if at >= len(items):
                self._at = len(items)
                break
            if at in now:
                self._bound.append(at)
                continue
            value, version = items[at + 1 : at + 3]
            if items[at].statement != BEFORE and is_on_device(value, version) == self.of_device:
                self.bytes -= value.nbytes if version is not None else drop(value)
                items[at + 1], items[at + 2] = summary(value, version), None
        self._bound += bound

    def spare(self, value: Any, version: int | None) -> int:
        """How many bytes are free on the accelerator of a value."""
        raw = _raw_of(value, version)
        return int(backend_of(raw).spare_memory_raw(raw))


def is_on_device(value: Any, version: int | None) -> bool:
    """Whether a tensor, or the first one in a container, is on an accelerator."""
    raw = _raw_of(value, version)
    return raw is not None and not backend_of(raw).is_on_host_raw(raw)


def _raw_of(value: Any, version: int | None) -> Any:
    if version is not None:
        return value
    return next((part.raw for part in tensors_in(value) if part.backend is not None), None)
