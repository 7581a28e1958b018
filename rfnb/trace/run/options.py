"""The options of rfnb: which loops are recorded, how much memory runs may use, which broadcasting is refused,
what a pause may take."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from rfnb.core.advice.similar_dims import Accidents, refuse_accidents
from rfnb.core.ground.source import ipython_shell
from rfnb.core.ground.text import did_you_mean
from rfnb.errors import OptionError


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_WORDS = {"record": ("last", "all"), "accidents": ("alike", "all", "off")}
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "record": (lambda value: value in ("last", "all", None) or value is False, '"last", "all", False or None'),
    "trace_budget": (_is_count, "a whole number of bytes, like 512 * 2**20"),
    "keep": (lambda value: _is_count(value) and value > 0, "a whole number, at least 1"),
    "accidents": (lambda value: value in _WORDS["accidents"], '"alike", "all" or "off"'),
    "pause_folder": (lambda value: isinstance(value, str | os.PathLike) and bool(os.fspath(value)), "a path"),
    "pause_timeout": (lambda value: isinstance(value, int | float) and value > 0, "a number of seconds above 0"),
}
"""For each option, a check of its value and a description of the values that are allowed."""


@dataclass
class Options:
    """Global options, for example `rf.options.record = "all"`.

    record: which runs are kept. "last": the newest few runs of each loop; "all": all runs, within the budget; False:
        none. None, the default, means "last" in notebooks and False elsewhere.
    trace_budget: how many bytes all recorded runs may use together. The oldest runs are removed first, pinned ones
        never. A single run that exceeds the budget keeps every second state only, or every fourth, and so on.
    keep: how many runs of one loop "last" keeps.
    accidents: which broadcasting of arithmetic and comparisons is refused, where each operand lacks a dim of the other.
        "alike", the default: if two of these dims look alike, because they have one name, one line made both, one is an
        expression of the other, or both have one fixed size above 1. "all": always. "off": never.
    pause_folder: the folder for the runs of loops that would have been paused, but for which no panel is connected.
    pause_timeout: after how many seconds without a panel a pause ends.

    Raises OptionError for other names and values.
    """

    record: Literal["last", "all", False] | None = None
    trace_budget: int = 512 * 2**20
    keep: int = 4
    accidents: Accidents = "alike"
    pause_folder: str | os.PathLike[str] = "rfnb-pauses"
    pause_timeout: float = 8 * 3600

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _CHECKS:
            raise self._unknown(name)
        fits, expected = _CHECKS[name]
        if not fits(value):
            hint = did_you_mean(value, _WORDS[name]) if name in _WORDS else None
            raise OptionError(
                f"options.{name}: this value is not allowed", got=repr(value), expected=expected, hint=hint
            )
        object.__setattr__(self, name, value)
        if name == "accidents":
            refuse_accidents(value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else self._unknown(name)

    def _unknown(self, name: str) -> OptionError:
        hint = did_you_mean(name, _CHECKS, "rf.options.{}")
        return OptionError(f"there is no option {name!r}", expected=", ".join(_CHECKS), hint=hint)


options = Options()


def in_notebook() -> bool:
    """Whether this process is a Jupyter kernel with a front end, or that of a marimo notebook."""
    marimo, kernel = sys.modules.get("marimo"), getattr(ipython_shell(), "kernel", None)
    return kernel is not None or (marimo is not None and bool(marimo.running_in_notebook()))


def recording_mode() -> str | bool:
    """The current recording mode: "last", "all" or False."""
    return ("last" if in_notebook() else False) if options.record is None else options.record


@contextmanager
def recording(mode: Literal["last", "all", False]) -> Iterator[None]:
    """Sets the recording mode inside the block.

    >>> time, feat = rf.Dim(3, name="time"), rf.Dim(2, name="feat")
    >>> loop = rf.Loop(axis=time, name="sum")
    >>> loop.state.total = rf.zeros([feat])
    >>> with rf.recording("last"), loop:
    ...     loop.state.total = loop.state.total + 1
    >>> rf.runs["sum"][1].after.total.raw_tensor.tolist()
    [2.0, 2.0]

    Args:
        mode: "last" keeps the newest few runs of each loop, "all" keeps all runs within the budget, False keeps none.
    """
    old, options.record = options.record, mode
    try:
        yield
    finally:
        options.record = old
