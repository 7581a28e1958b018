"""What is recorded, and how much of it is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from rfnb.core.ground.suggestions import did_you_mean
from rfnb.errors import OptionError


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
            hint = did_you_mean(value, ("last", "all")) if name == "record" else None
            raise OptionError(f"options.{name} cannot be this", got=repr(value), expected=expected, hint=hint)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else self._unknown(name)

    def _unknown(self, name: str) -> OptionError:
        hint = did_you_mean(name, _CHECKS, "rf.options.{}")
        return OptionError(f"there is no option {name!r}", expected=", ".join(_CHECKS), hint=hint)


options = Options()


def in_notebook() -> bool:
    """Whether this is a kernel with a front end."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def recording_mode() -> str | bool:
    """ "last", "all" or False, as it is now."""
    return ("last" if in_notebook() else False) if options.record is None else options.record


@contextmanager
def recording(mode: Literal["last", "all", False]) -> Iterator[None]:
    """Records like `mode` inside the block.

    >>> time, feat = rf.Dim(3, name="time"), rf.Dim(2, name="feat")
    >>> loop = rf.Loop(axis=time, name="sum")
    >>> loop.state.total = rf.zeros([feat])
    >>> with rf.recording("last"), loop:
    ...     loop.state.total = loop.state.total + 1
    >>> rf.runs["sum"][1].after.total.raw_tensor.tolist()
    [2.0, 2.0]

    Args:
        mode: "last": the newest few runs of each loop; "all": all, within the budget; False: none.
    """
    before, options.record = options.record, mode
    try:
        yield
    finally:
        options.record = before
