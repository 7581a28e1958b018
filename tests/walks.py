"""How many files a call goes through: the length of a reader's walk."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import rfnb as rf

ROOT = Path(__file__).parents[1] / "rfnb"


def files_visited(call: Callable[[], Any]) -> set[str]:
    """The files of rfnb in which a function runs during `call`; the bodies of modules and classes do not count."""
    seen = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: seen.add(frame.f_code) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(before)
    files = {Path(code.co_filename) for code in seen if code.co_flags & inspect.CO_OPTIMIZED}
    return {file.relative_to(ROOT).as_posix() for file in files if file.is_relative_to(ROOT) and file.is_file()}


def recorded_loop() -> Callable[[], Any]:
    """The `with` block of a loop that is recorded: three lines over five steps."""
    time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    x = rf.convert_to_tensor([[[1.0, 2.0]] * 5, [[3.0, 4.0]] * 3], dims=[rf.batch_dim, time, feat])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.total = rf.zeros([rf.batch_dim, feat])

    def walk() -> Any:
        with loop:
            frame = loop.unstack(x)
            loop.state.total = loop.state.total + rf.tanh(frame)
            totals = loop.stack(loop.state.total)
        return totals

    return walk


def decoded() -> Callable[[], Any]:
    """`rf.search.decode` with a step that looks up scores in a table."""
    table = torch.tensor([[0.0, 2.0, 1.0], [0.0, 0.5, 2.0], [3.0, 0.0, 0.0]])

    def step(prev: torch.Tensor, state: None) -> tuple[torch.Tensor, None]:
        return table[prev], state

    def walk() -> Any:
        labels = ["</s>", "a", "b"]
        return rf.search.decode(step, batch=1, beam=2, start=0, end="</s>", limit=9, labels=labels)

    return walk
