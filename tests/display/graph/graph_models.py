"""Small models whose graphs are drawn in tests."""

from __future__ import annotations

from typing import Any

import rfnb as rf
from rfnb.display.graph import view as view_of_graph

feat, hidden = rf.Dim(4, name="feat"), rf.Dim(6, name="hidden")
batch = rf.Dim(3, name="batch", kind="batch")


def time() -> rf.Dim:
    return rf.Dim(rf.convert_to_tensor([5, 2, 3], dims=[batch]), name="time")


class Block(rf.Module):
    """Something with a way around it."""

    def __init__(self):
        super().__init__()
        self.up, self.down = rf.Linear(feat, hidden), rf.Linear(hidden, feat)

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        return x + self.down(rf.relu(self.up(x)))


class Stack(rf.Module):
    """Blocks one after the other; `wrong` adds something that does not fit before that block."""

    def __init__(self, count: int, wrong: int | None = None):
        super().__init__()
        self.layers, self.last, self.wrong = rf.ModuleList([Block() for _ in range(count)]), Block(), wrong

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        for i, layer in enumerate(self.layers):
            if i == self.wrong:
                x = x + rf.zeros([rf.Dim(5, name="feat")])
            x = layer(x)
        return rf.tanh(self.last(x))


class Model(rf.Module):
    """A stack, and a step over time."""

    def __init__(self, count: int = 4, wrong: int | None = None):
        super().__init__()
        self.stack, self.step = Stack(count, wrong), rf.Linear(feat, feat)

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        x = self.stack(x)
        axis = next(dim for dim in x.dims if dim.name == "time")
        loop = rf.Loop(axis=axis, name="sums")
        loop.state.h = rf.zeros([batch, feat])
        with loop:
            x_t = loop.unstack(x)
            loop.state.h = rf.tanh(self.step(loop.state.h) + x_t)
            hs = loop.stack(loop.state.h)
        return hs


def model_graph(model: Any, *dims: rf.Dim) -> Any:
    return rf.model_graph(model, rf.zeros([batch, *dims, feat]))


def describe(model: Any, *dims: rf.Dim, **choice: Any) -> Any:
    return view_of_graph.describe(model_graph(model, *dims), **choice)


def failing() -> Any:
    """A view of a call that fails in the middle."""
    return describe(Model(count=6, wrong=3), time())
