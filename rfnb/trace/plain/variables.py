"""The variables of a frame that is followed: how their values go into the log, and how much memory they may use.

Values beyond the budget, on the host or on an accelerator, become statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from itertools import takewhile
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from rfnb.core.ground.source import warn
from rfnb.trace.plain.containers import HIDDEN, MISSING, PLAIN, Path
from rfnb.trace.plain.log import TENSOR, Log, summary
from rfnb.trace.plain.syntax import BEFORE, Outline, Use
from rfnb.trace.plain.values import (
    MAY,
    MEDIUM,
    SMALL,
    Kept,
    Opaque,
    backend_of,
    drop,
    growth_of,
    has_objects,
    has_stayed,
    hold,
    is_opaque,
    is_same,
    keep,
    tensor_backend,
    tensor_type,
    tensors_in,
    version_of,
    written_in,
)
from rfnb.trace.run.options import options
from rfnb.trace.run.runs import runs

if TYPE_CHECKING:
    from rfnb.trace.plain.iterations import Iterations


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


Drop = Callable[[object, int | None], int]


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
        limit = part * (self.limit or 0)
        bound, self._bound = iter(self._bound), []
        while self.bytes > limit:
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
    the log itself, with values that never go, and of loops and their iterations; its raw tensors that were not counted
    yet are `_raws`.
    """

    def __init__(self, limit: int, log: Log, last: Mapping[str, int]):
        self.host, self._device, self.most = Budget(0), Budget(None, of_device=True), 0
        self._is_on_host = tensor_backend().is_on_host_raw
        self._limit, self._log, self._last, self._next_check = limit, log, last, 0.0
        self._taken = 0  # of the limit, but for a small part that is free
        self._free = limit // FREE
        self._entries: dict[int, int] = {}  # by raw tensor, how many entries of the log have it
        self.log_bytes = self._raws = 0
        self._parts: list[tuple[int, int]] = []  # of the log: how many statements ran, and the bytes until there
        self._every = min(max(limit // 2**16, 64), 2**14)
        self._next_count, self._most_hidden = self._every, limit // 64
        self._warned = False
        _open.add(self)

    @property
    def bytes(self) -> int:
        """All that is used."""
        return self.host.bytes + self._device.bytes + self.log_bytes

    def log_is_large(self) -> bool:
        """Whether the log leaves too little to tensors and arrays."""
        return 2 * self.log_bytes > self._limit - self._others - runs.pinned_bytes

    @property
    def _others(self) -> int:
        """What other logs have taken of the limit."""
        return sum(budgets._taken for budgets in [*_open] if budgets is not self)

    def grow(self) -> bool:
        """Takes a part of the limit above what is used, if that is more than was taken; whether all values fit now."""
        n_bytes = self.host.bytes + self.log_bytes
        if self._taken == 0 and n_bytes <= self._free:  # as of most short loops, which come by thousands
            self.most = self.host.limit = self._free - self.log_bytes
            return True
        if n_bytes > self._taken:
            size, of_others = min(n_bytes + self._limit // PARTS, self._limit), self._others
            self._taken = max(min(runs.make_room(size + of_others) - of_others, size), 0)
        self.most = self.host.limit = max(self._taken - self.log_bytes, 0)
        return self.host.bytes <= self.most

    def is_due(self, hidden: int) -> bool:
        """Whether much was added to the log, or to so many bytes of moments, since it was counted."""
        return len(self._log.statements) >= self._next_count or hidden > self._most_hidden

    def count(self) -> None:
        """Counts the memory of what was added to the log."""
        self.log_bytes += self._log.new_bytes() + TENSOR * self._raws
        self._raws = 0
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
                is_in_log, budget = is_tiny(value, version), self._of(value, version)
                size = self.drop(value, version)
                budget.bytes -= 0 if is_in_log else size
        freed = max((n_bytes for end, n_bytes in self._parts if end <= ran), default=0)
        self.log_bytes -= freed
        self._next_count -= ran
        self._parts = [(end - ran, n_bytes - freed) for end, n_bytes in self._parts if end > ran]
        for budget in (self.host, self._device):
            budget.move(cut, kept, moved)

    def add_raw(self, raw: object, size: int) -> None:
        """Counts a raw tensor of the log, of this size."""
        entries, key = self._entries, id(raw)
        count = entries.get(key, 0)
        entries[key] = count + 1
        if count:
            return
        self._raws += 1
        if size <= TINY:
            self.log_bytes += size
        else:
            self._add_large(raw, size)

    def add_kept(self, kept: Kept, size: int) -> None:
        """Counts a tensor that no other entry of the log has, of this size."""
        kept.holders = 1
        if size <= TINY:
            self.log_bytes += size
        else:
            self._add_large(kept.value, size)

    def add(self, value: Any, version: int | None) -> None:
        """Counts a value of the log."""
        if version is not None:
            self.add_raw(value, value.nbytes)
        elif size := hold(value):
            if size <= TINY and is_tiny(value, version):
                self.log_bytes += size
            else:
                self._add_large(_raw_of(value, None), size)

    def _of(self, value: object, version: int | None) -> Budget:
        """The budget that has a value."""
        return self._device if is_on_device(value, version) else self.host

    def _add_large(self, raw: object, size: int) -> None:
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

    def separate(self, raw: object, kept: Kept) -> None:
        """An entry has a copy in place of a raw tensor."""
        budget, size = self._of(raw, 0), self.drop(raw, 0)
        if size > TINY:
            budget.bytes -= size
        else:
            self.log_bytes -= size
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


def is_on_device(value: object, version: int | None) -> bool:
    """Whether a tensor, or the first one in a container, is on an accelerator."""
    raw = _raw_of(value, version)
    return raw is not None and not backend_of(raw).is_on_host_raw(raw)


def _raw_of(value: object, version: int | None) -> object:
    if version is not None:
        return value
    return next((part.raw for part in tensors_in(value) if part.backend is not None), None)


MOST_ITEMS = 1024
"""Number of items of a loop of which copies are taken."""
INPUTS = 2**20
"""Bytes of all tensors before a loop of which copies are taken."""
MEMORIES = 1024
"""Number of places in the log of which the memory is known."""


class FrameVariables:
    """The variables and attributes of a frame.

    log: what its lines assigned. last: by variable, where in the log its value is. uncounted: what may change where no
    line of the frame shows it. writers: by statement, what it changes in place. hides: whether lines change tensors so
    that nothing counts it. hidden: what no line shows; None before the first one.
    """

    def __init__(self, text: Outline):
        self._text = text
        backend = tensor_backend()
        self._version_now, self._plain_version = backend.current_version_raw, backend.plain_version_raw
        self._unobserved, self._is_observed, self._raw_kind = backend.unobserved, backend.is_observed, tensor_type()
        self.hides = False
        if any(statement.hides for statement in text.statements):
            self._copy_all()
        self.uncounted = {*text.paths, *text.shared}
        self._paths = dict(text.paths)
        self.rows, self._gone = text.rows, set[str]()
        self._parts: dict[tuple[int, str], set[int]] = {}  # by statement and container, the tensors that it changes
        self._changes: set[tuple[int, str]] = set()  # statements that change a container otherwise than by new parts
        self.writers = {number: set(names) for number, names in text.writes.items()}
        self.hidden: Any = None  # a Hidden, from the first line on
        self.start()

    def start(self) -> None:
        """Begins an empty log."""
        self.log = Log()
        self.last: dict[str, int] = {}
        self.budgets = Budgets(options.trace_budget, self.log, self.last)
        self._memories: dict[int, object] = {}  # by place in the log, the memory of a tensor
        self._kept: set[str] = set()  # variables that have had objects that may change
        self._objects: list[Kept] | None = None

    def count(self) -> bool:
        """Counts the memory of the log; whether so much is used that the oldest iterations have to go."""
        if self.hidden is not None:
            self.budgets.log_bytes, self.hidden.bytes = self.budgets.log_bytes + self.hidden.bytes, 0
        self.budgets.count()
        self.spend(0)
        return self.budgets.log_is_large()

    def move(self, moved: Callable[[int], int]) -> None:
        """Takes the places in the log after the oldest iterations were forgotten."""
        self.last.update({name: moved(at) for name, at in self.last.items()})
        self._memories.clear()

    def _copy_all(self) -> None:
        """From now on, lines may change tensors so that nothing counts it."""
        self.hides, self._plain_version = True, lambda value: None

    def value(self, name: str, names: Mapping[str, object]) -> object:
        """The value of a variable or attribute; MISSING if there is none."""
        path = self._paths.get(name)
        value = names.get(name, MISSING) if path is None else path.value(names)
        return MISSING if value is HIDDEN else value

    def forget_functions(self, names: Mapping[str, object]) -> None:
        """Before the first loop, looks no longer at attributes that cannot be read, or are functions and the like."""
        if not self.last:
            self._forget({name for name, path in self._paths.items() if _is_no_value(path, names)})

    def _forget(self, hidden: set[str]) -> None:
        """Looks no longer at attributes that have no value to show."""
        if not hidden:
            return
        self._paths = {name: path for name, path in self._paths.items() if name not in hidden}
        self.uncounted.difference_update(hidden)
        self._kept.difference_update(hidden)
        self._objects = None
        self._gone |= hidden
        cache = self._text.rows_without
        if (rows := cache.get(key := frozenset(self._gone))) is None:
            rows = cache[key] = [tuple(row for row in rows if row[0] not in key) for rows in self._text.rows]
        self.rows = rows

    def let_go(self) -> None:
        """Keeps the objects that the variables have alive no longer."""
        for value in self._last_kept():
            value.let_go()

    def _last_kept(self) -> Iterator[Kept]:
        """The last values of the variables that may change."""
        values = (self.log.values[at] for at in self.last.values())
        return (value for value in values if type(value) is Kept)

    def settle(self) -> None:
        """Compares what was assumed to have stayed as it was."""
        for value in self._last_kept():
            value.settle()
        if self.hidden is not None:
            self.hidden.settle()

    def objects(self) -> list[Kept]:
        """The values in which objects may change where no line shows it; the same list as long as they are the same."""
        if self._objects is None:
            values = (self.log.values[self.last[name]] for name in self._kept)
            self._objects = [value for value in values if type(value) is Kept]
        return self._objects

    # -- before and after lines

    def look_first(self, used: Iterable[str], names: Mapping[str, object]) -> dict[str, int]:
        """Takes the variables before a loop; their places in the log. used: those that it uses."""
        values = {name: value for name in used if (value := self.value(name, names)) is not MISSING}
        if any(map(tensor_backend().hides_changes, values.values())):
            self._copy_all()
        for name, value in values.items():
            at = self.last.get(name)
            if at is None or not self._is_same(value, at):
                self.add(name, Use(name, BEFORE, 0, False, True), value)
        return {name: at for name, at in self.last.items() if name in values}

    def take(self, names: Mapping[str, object], statement: int, whole: bool, header: bool) -> None:
        """Takes what a statement assigned, or changed in place.

        whole: it ran to its end. header: it is that of a loop, whose target has a new value.
        """
        places, raw_kind, is_observed = self.last, self._raw_kind, self._is_observed()
        values, versions = self.log.values, self.log.versions
        for name, reads, always, path, use in self.rows[statement]:
            value = names.get(name, MISSING) if path is None else path.value(names)
            if value is MISSING:
                continue
            at = places.get(name)
            if at is not None and not is_observed:  # most values need no more than this
                old, version = values[at], versions[at]
                if reads:
                    if old is value:
                        if version is None or (type(old) is raw_kind and self._version_now(old) == version):
                            continue
                    elif type(old) is Kept and (
                        old.is_as_it_was(value, raw_kind) or (type(value) is list and self._grow(name, use, value, old))
                    ):
                        continue
                elif always and whole:
                    is_new = type(old) is not Kept or (
                        type(old.value) is raw_kind and old.original is not value and name not in self._kept
                    )
                    if is_new and self._add_plain(name, use, value):
                        continue
            with self._unobserved():
                self._take(name, value, use, always and whole, header and not reads)

    def _grow(self, name: str, use: Use, value: list[object], old: Kept) -> bool:
        """Takes a list that has only got more items, if that is known at once."""
        with self._unobserved():
            snapshot = None if self.hides else old.grown(value)
            if snapshot is None:
                return False
            self._parts.setdefault((use.statement, name), set())
            self._note(name, snapshot)
            self.budgets.add(snapshot, None)
            self.last[name] = len(self.log.values)
            self.log.add(use, snapshot, None)
            if self.budgets.host.bytes > self.budgets.most:
                self.spend(0)
        return True

    def _add_plain(self, name: str, use: Use, value: object) -> bool:
        """Takes a new value of a variable that had no object, if it is a number, a text or a plain tensor."""
        log, version, snapshot = self.log, None, value
        if type(value) not in PLAIN:
            plain = self._plain_version(value)
            if plain is None:
                return False
            version, size, has_graph = plain
            if has_graph:
                with self._unobserved():
                    snapshot = Kept.of_raw(value, version)
                snapshot.gradient, version = 2, None
                self.uncounted.add(name)
                self.budgets.add_kept(snapshot, size)
            else:
                self.budgets.add_raw(value, size)
        self.last[name] = len(log.values)
        log.uses.append(use)
        log.values.append(snapshot)
        log.versions.append(version)
        if self.budgets.host.bytes > self.budgets.most:
            with self._unobserved():
                self.spend(0)
        return True

    def _take(self, name: str, value: object, use: Use, assigned: bool, of_header: bool) -> None:
        """Takes a value that may need a closer look.

        assigned: a statement has assigned it. of_header: the header of a loop may have.
        """
        if value is HIDDEN:
            self._forget({name})
            return
        at, reads, statement = self.last.get(name), use.reads, use.statement
        if at is None:
            self.add(name, use if not reads else Use(name, BEFORE, 0, False, True), value)
            return
        old, version = self.log.values[at], self.log.versions[at]
        if assigned and type(old) is not Kept:
            self.add(name, use, value)
            return
        if old is value:
            is_equal = version is None or self._version_now(old) == version
        elif version is not None:
            is_equal = False
        elif type(old) is Kept and type(old.value) is Opaque:
            is_equal = old.is_of(value)
        else:
            is_equal = is_same(value, old, closely=use.always or name in self.writers.get(statement, ()))
        if not is_equal:
            is_written = old is value or (type(old) is Kept and old.is_of(value) and old.note != MAY)
            self.add(name, use, value)
            if is_written and has_stayed(old, self.log.values[self.last[name]]):
                self._parts.setdefault((statement, name), set())
            elif is_written and reads:
                self.writers.setdefault(statement, set()).add(name)
                self._changes.add((statement, name))
                self._parts.setdefault((statement, name), set()).update(written_in(old))
        elif assigned or of_header:
            if type(old) is Kept and not old.compared:  # other names may have changed it
                self.add(name, use, value)
                return
            if type(old) not in PLAIN:
                self.budgets.add(old, version)
            self.last[name] = len(self.log.values)
            self.log.add(use, old, version)

    def look_again(
        self, names: Mapping[str, object], used: Collection[str], targets: Collection[str], use: Use
    ) -> None:
        """Takes values whose changes nothing counts, and that other lines, or other names, have changed.

        used: the variables of the outermost loop. targets: what its header has assigned already, for the next
        iteration. use: by whom a value is taken, without its name.
        """
        for name in [*self.uncounted]:
            at, path = self.last.get(name), self._paths.get(name)
            has_next = name in targets or (targets and path is not None and not path.variables.isdisjoint(targets))
            if has_next or (at is None and name not in used):
                continue
            value = names.get(name, MISSING) if path is None else self.value(name, names)
            if value is not MISSING and (path if at is None else not self._is_same(value, at)):
                self.add(name, use._replace(name=name), value)

    def _is_same(self, value: object, at: int) -> bool:
        """Whether a variable still has the value in the log."""
        old, version = self.log.values[at], self.log.versions[at]
        if version is not None:
            return old is value and bool(backend_of(old).version_raw(old) == version)
        return old is value or is_same(value, old, MEDIUM)

    def add(self, name: str, use: Use, value: Any) -> None:
        """Takes a new value."""
        log, at = self.log, self.last.get(name)
        old = None if at is None else log.values[at]
        self.last[name] = len(log.values)
        version, snapshot = None, value
        if type(value) not in PLAIN:
            version = None if self.hides else version_of(value)
            if version is None:
                snapshot = keep(value, self.hides, old)
            elif use.statement != BEFORE and backend_of(value).keeps_more_raw(value):
                snapshot, version = Kept.of_raw(value, version), None
                snapshot.separate()
            if version is None:
                self._note(name, snapshot)
            if use.statement != BEFORE:  # what was there needs no more memory
                self.budgets.add(snapshot, version)
        if type(old) is Kept:
            self._objects = None if name in self._kept else self._objects
            old.let_go(parts=growth_of(snapshot) is None)
        log.add(use, snapshot, version)
        if self.budgets.host.bytes > self.budgets.most:
            self.spend(0)

    def _note(self, name: str, kept: Kept) -> None:
        """A variable has a value of which nothing counts the changes; what is opaque changes only as another object."""
        if has_objects(kept):
            self._kept.add(name)
            self._objects = None
        elif name in self._kept:
            self._kept.remove(name)
            self._objects = None
        if type(kept.value) is not Opaque:
            self.uncounted.add(name)

    def spend(self, size: int) -> None:
        """Counts what is kept of objects, and lets go of what does not fit."""
        budget = self.budgets.host
        budget.bytes += size
        if budget.bytes <= self.budgets.most or self.budgets.grow():
            return
        while budget.is_full and self.hidden is not None and self.hidden.states:
            budget.bytes -= self.hidden.free()
        self.budgets.free()

    # -- copies

    def copy_inputs(self, loop: Iterations) -> None:
        """Before the first iteration runs, takes copies of the small tensors that it begins with, for a fork: lines may
        change them in place that do not show it."""
        for _, _, part in self._small_inputs(loop):
            if part.identity not in loop.inputs and not part.changed():
                copy = loop.inputs[part.identity] = Kept(part.value, part.origin, part.version, part.backend)
                copy.identity, copy.gradient = part.identity, part.gradient
                copy.separate()

    def separate_inputs(self, loop: Iterations) -> None:
        """After a loop, takes copies of the small tensors that it began with, and of its items, as what comes then may
        change them in place. Of the first copies, those stay that are needed."""
        log, lost = self.log, set[int]()
        for at, snapshot, part in self._small_inputs(loop):
            if part.changed():
                lost.add(part.identity)
                continue
            part.separate()
            if log.versions[at] is not None:
                raw, log.values[at], log.versions[at] = log.values[at], snapshot, None
                if log.uses[at].statement != BEFORE:
                    self.budgets.separate(raw, snapshot)
        loop.inputs = {identity: copy for identity, copy in loop.inputs.items() if identity in lost}
        self.spend(sum(map(hold, loop.inputs.values())))

    def _small_inputs(self, loop: Iterations) -> Iterator[tuple[int, Kept, Kept]]:
        """The small tensors by reference in the variables before a loop, and in its items, up to a limit for all: where
        in the log each is, in what, and the tensor."""
        log, header, places, spare = self.log, self._text.header_of(loop.number), [*loop.places.values()], INPUTS
        for start in loop.starts[loop.first :][:MOST_ITEMS]:
            places += takewhile(lambda at: log.uses[at].statement == header, range(start, len(log)))
        for at in places:
            snapshot = log.entry(at).kept
            for part in tensors_in(snapshot):
                if part.version is not None and part.bytes <= min(SMALL, spare):
                    spare -= part.bytes
                    yield at, snapshot, part

    def separate(self, statement: int) -> None:
        """Takes copies before a statement of values that it is known to change in place, also of others in the same
        memory."""
        for name in self.writers[statement]:
            at = self.last.get(name)
            if at is None:
                continue
            parts, value = self._parts.get((statement, name)), self.log.values[at]
            if parts is not None and growth_of(value) is not None and (statement, name) not in self._changes:
                continue  # as far as it is known, it only gets more parts
            if type(value) is Kept:
                value.settle()
            memory = self._memory(at)
            self._copy(name, at, parts)
            for alias, place in self.last.items() if memory is not None else ():
                if alias != name and self._memory(place) == memory:
                    self._copy(alias, place, ())

    def _copy(self, name: str, at: int, parts: Collection[int] | None) -> None:
        """Takes a copy of a value, where it is by reference.

        parts: the tensors in a container that the line changes; None if it has not run before.
        """
        log = self.log
        snapshot = log.entry(at).kept
        if isinstance(snapshot, Kept) and snapshot.version is not None:
            snapshot.separate()
            raw, version, log.values[at], log.versions[at] = log.values[at], log.versions[at], snapshot, None
            if version is not None and log.uses[at].statement != BEFORE:
                self.budgets.separate(raw, snapshot)
            self._note(name, snapshot)
        growth = growth_of(snapshot)
        if growth is not None and growth.is_plain and parts is not None and not parts:
            return
        for number, part in enumerate(tensors_in(snapshot)):
            if not part.compared or (part.bytes <= SMALL if parts is None else number in parts):
                part.separate()
                if growth is not None:
                    growth.is_plain = False

    def _memory(self, at: int) -> object:
        """The memory of a tensor that is kept by reference, or was before it was copied; None for other values."""
        if len(self._memories) > MEMORIES:
            self._memories.clear()
        if at not in self._memories:
            value, version = self.log.values[at], self.log.versions[at]
            raw = value if version is not None else None
            if raw is None and type(value) is Kept and value.version is not None:
                raw = value.raw
            elif raw is None and type(value) is Kept and value.copied_at is not None:
                raw = getattr(value.original, "_raw", value.original)
            self._memories[at] = None if raw is None else backend_of(raw).storage_raw(raw)[0]
        return self._memories[at]


def _is_no_value(path: Path, names: Mapping[str, object]) -> bool:
    """Whether an attribute cannot be read, or is a module, a function or the like that the code only reads."""
    value = path.value(names)
    return value is HIDDEN or not (value is MISSING or path.written or not is_opaque(value))
