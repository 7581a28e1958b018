"""Watches a function: every op that it does, and every step of its loops, in order."""

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
    """An op that was done. Those that it is made of come before it.

    numbers: Python's floats among its arguments. loop, step: of the loop's body that it belongs to. steps: how many
    each sequence takes there. kind: of its node.
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
        """Which entries of an input or output are of sequences that take this step; None if there are no steps."""
        return None if self.steps is None or self.step is None else going_on(x, self.steps, self.step)

    @property
    def name(self) -> str:
        """The name of the result in the user's line, else that of the op."""
        return (self.source.name() if self.source is not None else None) or self.op

    @property
    def random(self) -> bool:
        """Whether it draws numbers."""
        return self.op in OPS and OPS[self.op].random

    def place(self) -> str:
        """ "cell 4, line 2: `y = rf.log(x)`, in Encoder, step 3 of decoder"."""
        parts = [] if self.source is None else [f"{self.source.place()}: `{self.source.text()}`"]
        parts += [f"in {self.path}"] if self.path else []
        parts += [f"step {self.step} of {self.loop}"] if self.loop is not None else []
        return ", ".join(parts) or "rfnb"


class Watch(Listener):
    """Reports each op to `see` when it is done."""

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
        """Tells of the ops of all steps of a loop that is done."""
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
def watching(see: Callable[[Event], None]) -> Iterator[None]:
    """`see` is told of all that is done inside. Loops are recorded for that, and not kept."""
    watch = Watch(see)
    with session.handing_runs_to(watch.loop), listening(watch):
        yield
