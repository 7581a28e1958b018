"""How much memory the values of a log may use on the host and on an accelerator; the others become statistics."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Set
from contextlib import suppress
from time import monotonic
from typing import Any
from weakref import WeakSet

from rfnb.trace.plain.containers import PLAIN
from rfnb.trace.plain.log import TENSOR, Log
from rfnb.trace.plain.summary import summary
from rfnb.trace.plain.syntax import BEFORE
from rfnb.trace.plain.values import Kept, backend_of, drop, growth_of, hold, tensor_backend, tensors_in
from rfnb.trace.run.runs import runs
from rfnb.trace.run.warn import warn

PART = 0.05
"""The part of what is free on an accelerator that values may use."""

MOMENT, LOOP = 160, 1024
"""Bytes that the beginning of an iteration, and a loop inside of one, need."""

PARTS = 16
"""Number of parts in which a log takes the limit."""

FREE = 4096
"""Part of the limit below which a log takes nothing of it."""

TINY = 64
"""Bytes of values that never go, such as losses."""

CHECKED = 0.1
"""Seconds after which it is looked again how much memory is free on an accelerator."""


Drop = Callable[[Any, int | None], int]


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

    def move(self, cut: int, kept: Container[int], moved: Callable[[int], int]) -> None:
        """Takes the places of values after those before a place were forgotten, but for those that are kept."""
        self.at = moved(max(self.at, cut))
        self._bound = [moved(at) for at in self._bound if at >= cut or at in kept]

    def free(self, log: Log, now: Set[int], drop: Drop, part: float = 0.75) -> None:
        """Replaces the oldest tensors by statistics until this part of the limit is used; `now` has those in use."""
        most = part * (self.limit or 0)
        bound, self._bound = iter(self._bound), []
        while self.bytes > most:
            at = next(bound, self.at)
            if at == self.at:
                self.at += 1
            if at >= len(log):
                self.at = len(log)
                break
            if at in now:
                self._bound.append(at)
                continue
            value, version = log.values[at], log.versions[at]
            if is_tiny(value, version):
                continue
            if log.uses[at].statement != BEFORE and is_on_device(value, version) == self.of_device:
                self.bytes -= drop(value, version)
                log.values[at], log.versions[at] = summary(value, version), None
        self._bound += bound


_open: WeakSet[Budgets] = WeakSet()
"""The budgets of all logs of frames that run."""


class Budgets:
    """The budgets of a log, on the host and on an accelerator: there, it is a small part of what is free at first.

    On the host, logs and runs share one limit: a log takes it in parts, for which the oldest runs go.

    last: by variable, where in the log its value is. most: bytes on the host, without those of the log. log_bytes: of
    the log itself. steps, loops: how many iterations and loops were not counted yet; so for `_raws`, its raw tensors.
    """

    def __init__(self, limit: int, log: Log, last: Mapping[str, int]):
        self.host, self._device, self.most = Budget(0), Budget(None, of_device=True), 0
        self._is_on_host = tensor_backend().is_on_host_raw
        self._limit, self._log, self._last, self._next_check, self._tiny = limit, log, last, 0.0, 0
        self._taken = 0  # of the limit, but for a small part that is free
        self._free = limit // FREE
        self._entries: dict[int, int] = {}  # by raw tensor, how many entries of the log have it
        self.log_bytes = self.steps = self.loops = self._raws = 0
        self._parts: list[tuple[int, int]] = []  # of the log: how many statements ran, and the bytes until there
        self._every = min(max(limit // 2**16, 64), 2**14)
        self._next_count, self._most_hidden = self._every, limit // 64
        self._warned = False
        _open.add(self)

    @property
    def bytes(self) -> int:
        """All that is used."""
        return self.host.bytes + self._device.bytes + self._tiny + self.log_bytes

    def log_is_large(self) -> bool:
        """Whether the log leaves too little to tensors and arrays."""
        most = self._limit - self._others - runs.pinned_bytes
        return 2 * (self.log_bytes + self._tiny) > most

    @property
    def _others(self) -> int:
        """What other logs have taken of the limit."""
        return sum(budgets._taken for budgets in [*_open] if budgets is not self)

    def grow(self) -> bool:
        """Takes a part of the limit above what is used, if that is more than was taken; whether all values fit now."""
        used = self.host.bytes + self._tiny + self.log_bytes
        if self._taken == 0 and used <= self._free:  # as of most short loops, which come by thousands
            self.most = self.host.limit = self._free - self._tiny - self.log_bytes
            return True
        if used > self._taken:
            wanted, others = min(used + self._limit // PARTS, self._limit), self._others
            self._taken = max(min(runs.make_room(wanted + others) - others, wanted), 0)
        self.most = max(self._taken - self._tiny - self.log_bytes, 0)
        self.host.limit = self.most
        return self.host.bytes <= self.most

    def is_due(self, hidden: int) -> bool:
        """Whether much was added to the log, or to so many bytes of moments, since it was counted."""
        return len(self._log.statements) >= self._next_count or hidden > self._most_hidden

    def count(self) -> None:
        """Counts the memory of what was added to the log."""
        self.log_bytes += self._log.new_bytes() + MOMENT * self.steps + LOOP * self.loops + TENSOR * self._raws
        self.steps = self.loops = self._raws = 0
        self._parts.append((len(self._log.statements), self.log_bytes))
        self.grow()
        self._next_count = len(self._log.statements) + self._every

    def statements_of(self, part: float) -> int:
        """How many statements the oldest part of the log has, by memory."""
        return next(ran for ran, n_bytes in self._parts if n_bytes >= part * self.log_bytes)

    def forget(self, cut: int, ran: int, kept: Container[int], moved: Callable[[int], int]) -> None:
        """Counts the entries before a place in the log no longer, but for those that are kept, nor so many statements.

        moved: where an entry will be.
        """
        for at, (use, value, version) in enumerate(self._log.rows(cut)):
            if type(value) not in PLAIN and at not in kept and use.statement != BEFORE:
                tiny, on_device = is_tiny(value, version), is_on_device(value, version)
                size = self.drop(value, version)
                if tiny:
                    self._tiny -= size
                else:
                    (self._device if on_device else self.host).bytes -= size
        gone = max((n_bytes for end, n_bytes in self._parts if end <= ran), default=0)
        self.log_bytes -= gone
        self._next_count -= ran
        self._parts = [(end - ran, n_bytes - gone) for end, n_bytes in self._parts if end > ran]
        for budget in (self.host, self._device):
            budget.move(cut, kept, moved)

    def add_raw(self, raw: Any, size: int) -> None:
        """Counts a raw tensor of the log, of this size."""
        entries, key = self._entries, id(raw)
        count = entries.get(key, 0)
        entries[key] = count + 1
        if count:
            return
        self._raws += 1
        if size <= TINY:
            self._tiny += size
        else:
            self._add_large(raw, size)

    def add_kept(self, kept: Kept, size: int) -> None:
        """Counts a tensor that no other entry of the log has, of this size."""
        kept.holders = 1
        if size <= TINY:
            self._tiny += size
        else:
            self._add_large(kept.value, size)

    def add(self, value: Any, version: int | None) -> None:
        """Counts a value of the log."""
        if version is not None:
            self.add_raw(value, value.nbytes)
        elif size := hold(value):
            if size <= TINY and is_tiny(value, version):
                self._tiny += size
            else:
                self._add_large(_raw_of(value, None), size)

    def _add_large(self, raw: Any, size: int) -> None:
        if raw is None or self._is_on_host(raw):
            self.host.bytes += size
            return
        budget, time, backend = self._device, monotonic(), tensor_backend()
        with backend.unobserved():
            budget.bytes += size
            if budget.limit is None:
                budget.limit = PART * backend.spare_memory_raw(raw)
            if time > self._next_check:
                self._next_check = time + CHECKED
                if backend.spare_memory_raw(raw) < budget.limit:
                    self.free(budget, 0)  # the program needs the memory
            if budget.bytes > budget.limit:
                self.free(budget)

    def drop(self, value: Any, version: int | None) -> int:
        """The memory that is free without an entry of the log."""
        if version is None:
            return drop(value)
        count = self._entries.pop(id(value), 0) - 1
        if count > 0:
            self._entries[id(value)] = count
        if count:
            return 0
        self._raws = max(self._raws - 1, 0)
        return int(value.nbytes)

    def separate(self, raw: Any, kept: Kept) -> None:
        """An entry has a copy in place of a raw tensor."""
        budget, size = self._device if is_on_device(raw, 0) else self.host, self.drop(raw, 0)
        if size > TINY:
            budget.bytes -= size
        else:
            self._tiny -= size
        self.add(kept, None)

    def make_room(self, error: BaseException | None) -> None:
        """Lets go of what is on an accelerator that has no memory left, as the program may try again."""
        if self._device.bytes and type(error).__name__ == "OutOfMemoryError":
            self.free(self._device, 0)

    def free(self, budget: Budget | None = None, part: float = 0.75) -> None:
        """Replaces the oldest values by statistics, until a part of a budget is used: that of the host by default."""
        budget = budget or self.host
        budget.free(self._log, {*self._last.values()}, self.drop, part)
        if self.host.bytes > self._limit and not self._warned:
            self._warned = True
            self._warn()
        self._log.summarized = max(self._log.summarized, budget.at)

    def _warn(self) -> None:
        """Warns that the last values of the variables need more than the budget."""
        sizes = {name: sum(part.bytes for part in tensors_in(self._log.values[at])) for name, at in self._last.items()}
        name = max(sizes, key=lambda name: sizes[name])
        with suppress(Warning):  # also where warnings are errors
            warn(
                "the recording of a loop needs more memory than rf.options.trace_budget, as the last value of each "
                f"variable stays: that of {name}, of which copies are kept, is the largest"
            )


def is_tiny(value: Any, version: int | None) -> bool:
    """Whether the tensors and arrays of a value need hardly any memory."""
    if version is not None:
        return bool(value.nbytes <= TINY)
    if growth_of(value) is not None:
        return False
    size = 0
    return all((size := size + part.bytes) <= TINY for part in tensors_in(value))


def is_on_device(value: Any, version: int | None) -> bool:
    """Whether a tensor, or the first one in a container, is on an accelerator."""
    raw = _raw_of(value, version)
    return raw is not None and not backend_of(raw).is_on_host_raw(raw)


def _raw_of(value: Any, version: int | None) -> Any:
    if version is not None:
        return value
    if type(value) is Kept and value.backend is not None:
        return value.raw
    return next((part.raw for part in tensors_in(value) if part.backend is not None), None)
