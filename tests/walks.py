"""Which files of rfnb something passes through: a walk is short where few of them are needed to understand it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import rfnb as rf

ROOT = Path(rf.__file__).parent


def files_of(walk: Callable[[], Any]) -> list[str]:
    """The files of rfnb that have a Python function called during `walk()`, as "loop/body.py", sorted."""
    seen: set[str] = set()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        walk()
    finally:
        sys.setprofile(before)
    return sorted(str(Path(name).relative_to(ROOT)) for name in seen if name.startswith(f"{ROOT}/") and ":" not in name)


def recorded_loop() -> Callable[[], Any]:
    """A loop of three lines over five steps, to be run and recorded."""
    time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    x = rf.convert_to_tensor([[[1.0, 2.0]] * 5, [[3.0, 4.0]] * 3], dims=[rf.batch_dim, time, feat])

    def walk() -> Any:
        loop = rf.Loop(axis=time, debug=True)
        loop.state.total = rf.zeros([rf.batch_dim, feat])
        with loop:
            frame = loop.unstack(x)
            loop.state.total = loop.state.total + rf.tanh(frame)
            totals = loop.stack(loop.state.total)
        return totals

    return walk
