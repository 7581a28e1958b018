"""Cheap tensors for views: real dims and lengths, any raw array behind them."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.trace.run.step import StepValue


@dataclass
class Raw:
    """What a view asks of a Tensor."""

    dims: tuple[Dim, ...]
    raw_tensor: Any
    lengths: Lengths = EMPTY
    name: str = "x"
    sparse_dim: Dim | None = None
    feature_dim: Dim | None = None

    @property
    def dtype(self) -> str:
        return str(self.raw_tensor.dtype).removeprefix("torch.")


def batch_of(raw: Any, dims: list[Dim], lens: Any = None, tags: list[str] | None = None, **more: Any) -> Raw:
    """A tensor whose second dim has the lengths `lens` in the first."""
    lengths = current_lengths([])
    if lens is not None:
        first, second = dims[:2]
        lengths = lengths.bind({first: Size([], len(lens), tags=tags), second: Size([first], lens)})
    return Raw(tuple(dims), raw, lengths, **more)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Some normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Body:
    """Where a loop stands."""

    file: str | None = None
    cell_id: str | None = "c1"
    cell_text: str | None = "…"
    first_line: int = 2
    lines: tuple[str, ...] = (
        "with loop:",
        "    step = loop.unstack(numbers)",
        "    loop.state.total = loop.state.total + step",
        "    loop.stack(loop.state.total)",
    )


class Carried(dict):
    """`before["h"]`, `before.h`"""

    __getattr__ = dict.__getitem__


@dataclass
class StepOf:
    """One step of a running sum."""

    before: Carried
    after: Carried
    made: list[Any]
    check: str = "replay agrees"

    def texts(self):
        return []

    def lines(self):
        return None

    def values(self) -> list[Any]:
        """Those of the step."""
        return self.made


class SumRun:
    """A running sum over unequal sequences, as a run that is not computed but known."""

    def __init__(self, values: np.ndarray, lens: list[int], tags: list[str] | None = None, serial: int = 7):
        self.serial, self.loop, self.name, self.place = serial, "c3:2:sum", "sum", "cell 3, line 2"
        self.steps = values.shape[1]
        self.axis, self.sequence_dim = Dim(None, name="time"), batch_dim
        self.lengths, self.tags, self.flags = list(lens), tags, []
        self.parent, self.forked_at, self.failed, self.training = None, None, None, None
        self.states, self.pinned, self.bytes, self.source = ["total", "offset"], False, 4 * values.size, Body()
        self.batch = len(lens)
        self.raw = values
        self.begun = Size([batch_dim], lens)
        self.ends = [f"length {n} reached" for n in lens]
        self.alive = np.arange(self.steps)[None, :] < np.array(lens)[:, None]
        sums = np.cumsum(np.where(self.alive, values, 0), axis=1)
        self.sums = np.concatenate([np.zeros((len(lens), 1)), sums], axis=1).astype(np.float32)
        self.asked: list[int] = []
        self.replay = SimpleNamespace(every=1, state=self.state, is_search=False, lineages=())

    def tensor(self, raw: np.ndarray, name: str = "x") -> Raw:
        """A value with one number a sequence."""
        lengths = EMPTY.bind({batch_dim: Size([], len(raw), tags=self.tags)})
        return Raw((batch_dim,), raw, lengths, name)

    def state(self, name: str, step: int) -> Raw:
        """Before a step."""
        return self.tensor(np.ones(len(self.raw), np.float32) if name == "offset" else self.sums[:, step], name)

    def __getitem__(self, i: int) -> StepOf:
        self.asked.append(i)
        carried = [Carried({name: self.state(name, k) for name in self.states}) for k in (i, i + 1)]
        frame: Any = self.tensor(self.raw[:, i])
        made = [StepValue("step", "gather", 3, frame), StepValue("total", "add", 4, carried[1]["total"])]
        return StepOf(*carried, made)


class RunList(list):
    """The list of runs, as the kernel side asks it."""

    def __init__(self, *runs: Any):
        super().__init__(runs)
        self.listeners: list[Any] = []

    def by_serial(self, serial: int) -> Any:
        """The run. Raises KeyError if it is gone."""
        for run in self:
            if run.serial == serial:
                return run
        raise KeyError(serial)

    def pin(self, serial: int, pinned: bool = True) -> None:
        """Keeps it, or no longer."""
        self.by_serial(serial).pinned = pinned

    def forget(self, serial: int) -> None:
        """Drops it."""
        self.remove(self.by_serial(serial))

    def on_change(self, callback: Any) -> None:
        """Calls it when the list changes."""
        self.listeners.append(callback)
