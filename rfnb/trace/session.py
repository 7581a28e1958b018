"""The runs of this session, and what is recorded."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from rfnb.core.show import Shown
from rfnb.errors import LoopError, OptionError
from rfnb.trace.held import Held
from rfnb.trace.run import Run


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "record": (lambda value: value in ("last", "all", None) or value is False, '"last", "all", False or None'),
    "trace_budget": (_is_count, "bytes: a whole number, like 512 * 2**20"),
    "keep": (lambda value: _is_count(value) and value > 0, "a whole number from 1 on"),
}
"""By option: what it can be, and how that is said."""


@dataclass
class Options:
    """Settings: `rf.options.record = "all"`.

    record: "last": the newest few runs of each loop; "all": all, within the budget; False: none.
        None, the default: "last" in notebooks, False elsewhere.
    trace_budget: bytes that all recorded runs may hold together; the oldest go first, pinned ones never. Of a run
        that is larger than that alone, every second state is kept, or every fourth, and so on.
    keep: how many runs of one loop "last" keeps.

    Raises OptionError for other names and values.
    """

    record: Literal["last", "all", False] | None = None
    trace_budget: int = 512 * 2**20
    keep: int = 4

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _CHECKS:
            raise self._unknown(name)
        fits, expected = _CHECKS[name]
        if not fits(value):
            near = difflib.get_close_matches(str(value), ("last", "all"), n=1) if name == "record" else []
            hint = f"did you mean {near[0]!r}?" if near else None
            raise OptionError(f"options.{name} cannot be this", got=repr(value), expected=expected, hint=hint)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else self._unknown(name)

    def _unknown(self, name: str) -> OptionError:
        near = difflib.get_close_matches(name, _CHECKS, n=1)
        hint = f"did you mean rf.options.{near[0]}?" if near else None
        return OptionError(f"there is no option {name!r}", expected=", ".join(_CHECKS), hint=hint)


options = Options()
_taker: ContextVar[Callable[[Run], None] | None] = ContextVar("rfnb_taker", default=None)


def in_notebook() -> bool:
    """Whether this is a kernel with a front end."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def recording_mode() -> str | bool:
    """ "last", "all" or False, as it is now."""
    return ("last" if in_notebook() else False) if options.record is None else options.record


def wants(debug: bool | None) -> bool:
    """Whether a loop that begins now is recorded."""
    if _taker.get() is not None:
        return True
    return bool(recording_mode()) if debug is None else debug


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


runs = Runs()


def keep(run: Run) -> Run:
    """Adds a run to the session, or hands it to who wants it now."""
    (_taker.get() or runs.add)(run)
    return run


@contextmanager
def handing_runs_to(taker: Callable[[Run], None]) -> Iterator[None]:
    """Loops inside the block are recorded, and their runs given to `taker` instead of kept."""
    token = _taker.set(taker)
    try:
        yield
    finally:
        _taker.reset(token)


@contextmanager
def recording(mode: Literal["last", "all", False]) -> Iterator[None]:
    """Records like `mode` inside the block."""
    before, options.record = options.record, mode
    try:
        yield
    finally:
        options.record = before


_progress: list[Callable[[str, int], Callable[[int], None]]] = []


def show_progress_by(make: Callable[[str, int], Callable[[int], None]]) -> None:
    """`make(name, steps)` gives a function that is told each step; display registers a bar here."""
    _progress[:] = [make]


def progress(name: str, steps: int) -> Callable[[int], None] | None:
    """What a loop tells its steps to, if anything."""
    return _progress[0](name, steps) if _progress and in_notebook() else None
