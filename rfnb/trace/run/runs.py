"""The recorded runs of this session, and the memory that they hold together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from rfnb.core.ground.show import Shown
from rfnb.errors import LoopError
from rfnb.trace.run.options import options, recording_mode
from rfnb.trace.run.run import Run


class Runs(Shown):
    """The recorded runs, newest first: `rf.runs["decoder"]` is the newest of the loop with that name."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._held = Held()
        self._listeners: list[Callable[[], Any]] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(reversed(self._runs))

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
            else "loops are recorded in notebooks; elsewhere: rf.options.record = 'last', or rf.Loop(debug=True)"
        )
        raise LoopError(f"there is no run of a loop {name!r}", expected=names or "a recorded run", hint=hint)

    def by_serial(self, serial: int) -> Run:
        """The run with this number."""
        for run in self._runs:
            if run.serial == serial:
                return run
        raise LoopError(f"run {serial} is not kept any longer", hint="pin a run to keep it; or raise rf.options.keep")

    def add(self, run: Run) -> None:
        """Keeps a run; older ones go if there are too many of the loop, or too many bytes."""
        self._runs.append(run)
        self._held.add(run.storages)
        if recording_mode() != "all":
            parents = [r.parent for r in self._runs if r.parent is not None]
            same = [r for r in self._runs if r.loop == run.loop and not r.pinned and r not in parents]
            for old in same[: -options.keep]:
                self._drop(old)
        for old in [old for old in self._runs[:-1] if not old.pinned]:
            if self.bytes > options.trace_budget:
                self._drop(old)
        self._changed()

    def _drop(self, run: Run) -> None:
        self._runs.remove(run)
        self._held.remove(run.storages)

    @property
    def bytes(self) -> int:
        """The memory that the runs keep alive; what several hold is counted once."""
        return self._held.bytes

    def pin(self, serial: int, pinned: bool = True) -> None:
        """A pinned run is kept until it is forgotten."""
        self.by_serial(serial).pinned = pinned
        self._changed()

    def forget(self, serial: int) -> None:
        """Drops a run."""
        self._drop(self.by_serial(serial))
        self._changed()

    def clear(self) -> None:
        """Drops all runs."""
        self._runs.clear()
        self._held = Held()
        self._changed()

    def on_change(self, listener: Callable[[], Any]) -> None:
        """`listener()` is called when a run comes or goes."""
        self._listeners.append(listener)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()


class Held:
    """The bytes of all storages that somebody holds, also where only a part of one is needed; each counted once."""

    def __init__(self) -> None:
        self.bytes = 0
        self._holders: Counter[Hashable] = Counter()

    def add(self, storages: Mapping[Hashable, int]) -> None:
        """One more holder of these: by what tells one storage from another, its bytes."""
        for key, n_bytes in storages.items():
            self.bytes += n_bytes if not self._holders[key] else 0
            self._holders[key] += 1

    def remove(self, storages: Mapping[Hashable, int]) -> None:
        """One less."""
        for key, n_bytes in storages.items():
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
                self.bytes -= n_bytes


runs = Runs()
