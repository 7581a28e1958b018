"""A Run: the recorded steps of a loop, to be looked at forward and back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from rfnb.core.dim import Dim
from rfnb.core.graph import Graph, Value
from rfnb.core.lengths import Size
from rfnb.core.show import Shown
from rfnb.core.source import Block
from rfnb.core.tensor import Tensor
from rfnb.errors import LoopError

_serials = itertools.count(1)


class StepValue(NamedTuple):
    """A value that the body computed: its name in the user's code, the op, the line."""

    name: str
    op: str
    line: int
    tensor: Tensor


class Replayable(Protocol):
    """Gives the states of a run as they were, and computes the rest again."""

    @property
    def bytes(self) -> int:
        """What it holds, in bytes."""

    def state_names(self) -> list[str]:
        """The states of the user."""

    def state(self, name: str, step: int) -> Any:
        """A state before `step`."""

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """What the body computed at `step`, and whether the replay agrees with the run."""

    def computed(self, step: int) -> list[tuple[Value, Tensor]]:
        """All that the step was given and computed, also inside of modules, in order."""

    def stack(self, name: str) -> Tensor:
        """A value of the body over all steps."""


class States:
    """The states at one point of a run: `run[3].before.h`, `run[3].before.lstm.h` or `["lstm.h"]` for a nested one."""

    def __init__(self, replay: Replayable, step: int, prefix: str = ""):
        self._replay, self._step, self._prefix = replay, step, prefix

    def names(self) -> list[str]:
        """The names of all states here, nested ones with dots."""
        return [name.removeprefix(self._prefix) for name in self._replay.state_names() if name.startswith(self._prefix)]

    def __getitem__(self, name: str | int) -> Any:
        name = str(name)  # of a list, the entries are called "0", "1", …
        if name in self.names():
            return self._replay.state(self._prefix + name, self._step)
        if any(known.startswith(f"{name}.") for known in self.names()):
            return States(self._replay, self._step, f"{self._prefix}{name}.")
        raise LoopError(f"there is no state {name!r}", expected=", ".join(self.names()))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())


class RunStep:
    """One step of a run: the states before and after it, and every value of its body by name."""

    def __init__(self, run: Run, step: int):
        self.run, self.step = run, step
        self.before = States(run.replay, step)
        self.after = States(run.replay, step + 1)
        self._values: list[StepValue] | None = None
        self._check = ""

    def values(self) -> list[StepValue]:
        """What the body computed, in order; computed again when first asked for."""
        if self._values is None:
            self._values, self._check = self.run.replay.values(self.step)
        return self._values

    @property
    def check(self) -> str:
        """Whether the replay gave the states of the run: "replay agrees", "with today's weights", "replay differs"."""
        self.values()
        return self._check

    def __getitem__(self, name: str) -> Tensor:
        found = [value.tensor for value in self.values() if value.name == name]
        if not found:
            names = list(dict.fromkeys(value.name for value in self.values()))
            raise LoopError(f"{self.run.name}: the body has no value {name!r}", expected=", ".join(names))
        return found[-1]

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(value.name for value in self.values())]

    def __repr__(self) -> str:
        return f"step {self.step} of {self.run.name}: {', '.join(dict.fromkeys(v.name for v in self.values()))}"


class Run(Shown):
    """What one execution of a loop left: `run[i].att` is the body's variable `att` at step i.

    `run[i].before.h` and `run[i].after.h` are states; `run.stack("att")` is a variable over all steps.

    Args:
        name, place, source: which loop, and where it is written.
        replay: gives states, and computes values again.
        steps: how many were done.
        flags: "failed: …", "not finite", "never ended".
        axis, size: the Dim of the steps, and how many each sequence took.
        sequence_dim, sequences: what counts the sequences, and how many there are, with their tags.
    """

    def __init__(
        self,
        *,
        name: str,
        place: str,
        source: Block,
        replay: Replayable,
        steps: int,
        flags: list[str],
        axis: Dim,
        size: Size,
        sequence_dim: Dim | None,
        sequences: Size | None,
        graph: Graph,
    ):
        self.serial = next(_serials)
        self.name = name
        self.place = place
        self.source = source
        self.replay = replay
        self.steps = steps
        self.flags = flags
        self.axis = axis
        self.size = size
        self.sequence_dim = sequence_dim
        self.graph = graph
        self.pinned = False
        self.states = replay.state_names()
        self.bytes = replay.bytes
        self.batch = None if sequences is None else sequences.max
        self.tags = None if sequences is None else sequences.tags
        self.lengths = [int(n) for n in size.values] if size.values.ndim == 1 else None

    @property
    def loop(self) -> str:
        """The same for all runs of one loop: its name and where it is written."""
        return f"{self.source.cell_id or self.source.file}:{self.source.first_line}:{self.name}"

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[RunStep]:
        return (self[step] for step in range(self.steps))

    def __getitem__(self, step: int) -> RunStep:
        if not -self.steps <= step < self.steps:
            raise LoopError(f"{self.name}: there is no step {step}", expected=f"0 … {self.steps - 1}")
        return RunStep(self, step % self.steps)

    def stack(self, name: str) -> Tensor:
        """A variable of the body over all steps, stacked in the loop or not. → {axis, …}"""
        return self.replay.stack(name)

    def open(self) -> None:
        """Shows this run in the panel."""
        for listener in on_open:
            listener(self)


on_open: list[Any] = []
"""Called with a run that somebody wants to see; display registers here."""
