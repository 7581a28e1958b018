"""How many files, and how many functions, a call goes through: the length of a reader's walk."""

from __future__ import annotations

import gc
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import torch

import rfnb as rf

ROOT = Path(__file__).parents[1] / "rfnb"


def files_visited(call: Callable[[], Any]) -> set[str]:
    """The files of rfnb in which a function runs during `call`; the bodies of modules and classes do not count."""
    files = {Path(code.co_filename) for code in _called(call) if code.co_flags & inspect.CO_OPTIMIZED}
    return {file.relative_to(ROOT).as_posix() for file in files if file.is_relative_to(ROOT) and file.is_file()}


def calls_made(call: Callable[[], Any]) -> int:
    """How many functions of rfnb run during `call`; comprehensions count too."""
    return sum(count for code, count in _called(call).items() if code.co_filename.startswith(str(ROOT)))


def _called(call: Callable[[], Any]) -> Counter[CodeType]:
    counts: Counter[CodeType] = Counter()
    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what other tests have left may call functions when it is collected
    sys.setprofile(lambda frame, event, _: counts.update([frame.f_code]) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return counts


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


def net_forward() -> Callable[[], Any]:
    """The forward call of a net dict: four linear layers with activation and dropout, norms, a softmax."""
    layers: dict[str, Any] = {"output": {"class": "softmax", "from": "norm3", "target": "classes", "loss": "ce"}}
    for i in range(4):
        source = f"norm{i - 1}" if i else "data"
        layers[f"ff{i}"] = {"class": "linear", "from": source, "n_out": 8, "activation": "relu", "dropout": 0.1}
        layers[f"norm{i}"] = {"class": "layer_norm", "from": f"ff{i}"}
    extern = rf.ExternData({"data": {"dim": 5}, "classes": {"dim": 7, "sparse": True}})
    net = rf.Network(extern_data=extern).construct_from_dict(layers)
    batch = {key: (x.raw_tensor, [7, 6, 5]) for key, x in extern.example().data.items()}
    return lambda: net(batch)


def decoded() -> Callable[[], Any]:
    """`rf.search.decode` with a step that looks up scores in a table."""
    table = torch.tensor([[0.0, 2.0, 1.0], [0.0, 0.5, 2.0], [3.0, 0.0, 0.0]])

    def step(prev: torch.Tensor, state: None) -> tuple[torch.Tensor, None]:
        return table[prev], state

    def walk() -> Any:
        labels = ["</s>", "a", "b"]
        return rf.search.decode(step, batch=1, beam=2, start=0, end="</s>", limit=9, labels=labels)

    return walk
