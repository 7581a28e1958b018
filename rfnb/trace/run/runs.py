"""The recorded runs of this session, and the memory that they use together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from threading import RLock
from typing import NamedTuple

from rfnb.core.ground.show import Shown
from rfnb.core.tensor.op import guard_methods
from rfnb.errors import LoopError
from rfnb.trace.run.options import options, recording_mode
from rfnb.trace.run.run import Run


class Runs(Shown):
    """The recorded runs, newest first: `rf.runs["decoder"]` is the newest run of the loop with that name."""

    def __init__(self) -> None:
        self._added: list[Run] = []
        self._later: list[_Later] = []  # that nobody has looked at
        self._counted: dict[int, Mapping[Hashable, int]] = {}  # the storages of each run, by its number
        self._held = HeldStorages()
        self._listeners: list[Callable[[], object]] = []
        self._lock = RLock()  # loops may run in several threads

    @property
    def _runs(self) -> list[Run]:
        """The runs, the oldest first."""
        with self._lock:
            self._make()
            return [*self._added]

    def _make(self) -> None:
        later, self._later = self._later, []
        for entry in later:
            self._add(entry.make())

    def __iter__(self) -> Iterator[Run]:
        return reversed(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __getitem__(self, name: str | int) -> Run:
        if isinstance(name, int):
            return list(self)[name]
        for run in self:
            if run.name == name:
                return run
        names = ", ".join(dict.fromkeys(run.name for run in self))
        hint = (
            None
            if names
            else "rf.steps and rf.record_loops record loops of plain Python; rf.Loop is recorded in notebooks, "
            "elsewhere with rf.options.record = 'last', or rf.Loop(debug=True)"
        )
        raise LoopError(f"there is no run of a loop {name!r}", expected=names or "a recorded run", hint=hint)

    def __contains__(self, run: object) -> bool:
        """Whether a run, or one of this name, is kept."""
        return any(run in (entry, entry.name) for entry in self)

    def by_serial(self, serial: int) -> Run:
        """The run with this serial number. Raises LoopError if it is not kept."""
        for run in self._runs:
            if run.serial == serial:
                return run
        raise LoopError(f"run {serial} is no longer kept", hint="pin a run to keep it; or raise rf.options.keep")

    def add(self, run: Run) -> None:
        """Adds a run; removes older ones if the loop has too many runs, or all runs together use too many bytes.

        A run that is in the list, whose loop was paused and has gone on, is counted again with all its steps.
        """
        with self._lock:
            self._make()
            self._add(run)
        self._changed()

    def add_later(self, loop: Hashable, n_bytes: int, make: Callable[[], Run]) -> None:
        """Adds a run that is made when the list is looked at; never if too many newer ones of its loop come first.

        Args:
            loop: what all runs of the loop share, and no others.
            n_bytes: what the run keeps alive.
            make: makes the run.
        """
        with self._lock:
            self._later.append(_Later(loop, n_bytes, make))
            siblings = [entry for entry in self._later if entry.loop == loop]
            if len(siblings) > options.keep and recording_mode() != "all":
                self._later.remove(siblings[0])
            if sum(entry.n_bytes for entry in self._later) > options.trace_budget:
                self._make()
        self._changed()

    def _add(self, run: Run) -> None:
        storages = run.storages
        if run in self._added:
            self._drop(run)
        self._added.append(run)
        self._counted[run.serial] = storages
        self._held.add(storages)
        if recording_mode() != "all":
            parents = [r.parent for r in self._added if r.parent is not None]
            siblings = [r for r in self._added if r.loop == run.loop and not r.pinned and r not in parents]
            for old in siblings[: -options.keep]:
                self._drop(old)
        for old in [old for old in self._added[:-1] if not old.pinned]:
            if self._held.bytes > options.trace_budget:
                self._drop(old)

    def make_room(self, n_bytes: int) -> int:
        """Removes the oldest runs that are not pinned, until so many bytes of the budget are free, for a run that is
        recorded now; how many are free then.
        """
        with self._lock:
            count = len(self._added) + len(self._later)
            for run in [run for run in self._added if not run.pinned]:
                if self._free < n_bytes:
                    self._drop(run)
            while self._later and self._free < n_bytes:
                self._later.pop(0)
            has_dropped, free = len(self._added) + len(self._later) < count, self._free
        if has_dropped:
            self._changed()
        return free

    @property
    def pinned_bytes(self) -> int:
        """The bytes of the runs that are pinned."""
        return sum(run.bytes for run in [*self._added] if run.pinned)

    @property
    def _free(self) -> int:
        return options.trace_budget - self._held.bytes - sum(entry.n_bytes for entry in self._later)

    def _drop(self, run: Run) -> None:
        self._added.remove(run)
        self._held.remove(self._counted.pop(run.serial))

    @property
    def bytes(self) -> int:
        """The bytes that the runs keep alive; storages that several runs share are counted once."""
        with self._lock:
            self._make()
            return self._held.bytes

    def pin(self, serial: int, pinned: bool = True) -> None:
        """Pins a run, so that it is kept until `forget`; or unpins it."""
        self.by_serial(serial).pinned = pinned
        self._changed()

    def forget(self, serial: int) -> None:
        """Removes the run with this serial number."""
        with self._lock:
            self._drop(self.by_serial(serial))
        self._changed()

    def clear(self) -> None:
        """Removes all runs."""
        with self._lock:
            self._later.clear()
            self._added.clear()
            self._counted.clear()
            self._held = HeldStorages()
        self._changed()

    def on_change(self, listener: Callable[[], object]) -> None:
        """Registers `listener`, which is called without arguments when a run is added, removed or pinned."""
        self._listeners.append(listener)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()


class _Later(NamedTuple):
    """A run that is not made yet; the arguments are those of `Runs.add_later`."""

    loop: Hashable
    n_bytes: int
    make: Callable[[], Run]


class HeldStorages:
    """Counts the bytes of storages that runs keep alive: each storage once and in full, also if only a part is used."""

    def __init__(self) -> None:
        self.bytes = 0
        self._holders: Counter[Hashable] = Counter()

    def add(self, storages: Mapping[Hashable, int]) -> None:
        """Adds one holder of these storages, given as bytes by storage key."""
        for key, n_bytes in storages.items():
            self.bytes += n_bytes if not self._holders[key] else 0
            self._holders[key] += 1

    def remove(self, storages: Mapping[Hashable, int]) -> None:
        """Removes one holder of these storages; those without a holder are no longer counted."""
        for key, n_bytes in storages.items():
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
                self.bytes -= n_bytes


runs = Runs()

guard_methods(Run, "__getitem__", "find", "fork", "gradients", "next", "previous", "rerun", "save", "stack")
guard_methods(Runs, "add", "by_serial", "forget", "on_change", "pin")
