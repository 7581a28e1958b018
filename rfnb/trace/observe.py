"""Reports every op of a function, and every step of its loops, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import Node, NodeKind
from rfnb.core.ground.nested import leaves
from rfnb.core.ground.scope import module_path
from rfnb.core.ground.source import Source, user_source
from rfnb.core.tensor.listener import Listener, listening
from rfnb.core.tensor.op import OPS, OpRow
from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.run import session
from rfnb.trace.run.entries import going_on
from rfnb.trace.run.run import Run


@dataclass(frozen=True, slots=True)
class Event:
    """An op that has finished. The ops inside it are reported before it.

    numbers: the Python floats among its arguments. loop, step: the loop and step that it belongs to. steps: how many
    steps each sequence takes in that loop. kind: the kind of its node.
    """

    op: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    source: Source | None
    path: str = ""
    numbers: tuple[float, ...] = ()
    loop: str | None = None
    step: int | None = None
    steps: Size | None = None
    kind: NodeKind = "op"

    def counts(self, x: Tensor) -> np.ndarray | None:
        """A mask of the entries of an input or output whose sequences take this step; None outside of loops."""
        return None if self.steps is None or self.step is None else going_on(x, self.steps, self.step)

    @property
    def name(self) -> str:
        """The name of the result in the user's line, else that of the op."""
        return (self.source.name() if self.source is not None else None) or self.op

    @property
    def random(self) -> bool:
        """Whether the op draws random numbers."""
        return self.op in OPS and OPS[self.op].random

    def place(self) -> str:
        """The place as text: "cell 4, line 2: `y = rf.log(x)`, in Encoder, step 3 of decoder"."""
        parts = [] if self.source is None else [f"{self.source.place()}: `{self.source.text()}`"]
        parts += [f"in {self.path}"] if self.path else []
        parts += [f"step {self.step} of {self.loop}"] if self.loop is not None else []
        return ", ".join(parts) or "rfnb"


class Observer(Listener):
    """Calls `see` with each op when it has finished."""

    def __init__(self, see: Callable[[Event], None]):
        self._see = see

    def call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Computes an op and reports it."""
        result = super().call(row, args, kwargs)
        given, made = leaves([args, kwargs]), leaves(result)
        self._see(
            Event(
                row.name,
                tuple(leaf for leaf in given if isinstance(leaf, Tensor)),
                tuple(leaf for leaf in made if isinstance(leaf, Tensor)),
                user_source(),
                module_path(),
                tuple(leaf for leaf in given if isinstance(leaf, float)),
            )
        )
        return result

    def loop(self, run: Run) -> None:
        """Reports the ops of all steps of a loop that has finished."""
        for step in range(run.steps):
            found: dict[int, Tensor] = {}
            for value, tensor in run.replay.computed(step):
                found[value.number] = tensor
                if value.node is not None:
                    self._see(_event(value.node, found, tensor, run, step))


def _event(node: Node, found: dict[int, Tensor], made: Tensor, run: Run, step: int) -> Event:
    inputs = tuple(found[number] for number in node.inputs if number in found)
    where: Any = {"loop": run.name, "step": step, "steps": run.size}
    return Event(node.op, inputs, (made,), node.source, node.path, kind=node.kind, **where)


@contextmanager
def observing(see: Callable[[Event], None]) -> Iterator[None]:
    """Calls `see` with every op inside the block. Loops are recorded for this, but their runs are not kept."""
    observer = Observer(see)
    with session.redirecting_runs(observer.loop), listening(observer):
        yield
