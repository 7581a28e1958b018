"""Random loop programs: which values a body computes, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from tests.outside.grammar import Facts, facts


class Input(NamedTuple):
    """A value that a body reads. source: where it comes from."""

    name: str
    facts: Facts
    source: Literal["frame", "whole", "weight", "step"]


INPUTS = (
    Input("x", facts("bh", -1.5, 1.5), "frame"),
    Input("positive", facts("bh", 0.5, 1.5), "frame"),
    Input("u", facts("b", -1.5, 1.5), "frame"),
    Input("label", facts("b", 0, 1, "labels"), "frame"),
    Input("memory", facts("beh", 0.5, 1.5), "whole"),
    Input("energy", facts("be", -1.5, 1.5), "whole"),
    Input("all_x", facts("bth", 0.5, 1.5), "whole"),
    Input("g", facts("bh", 0.5, 1.5), "whole"),
    Input("p", facts("h", -0.7, 0.7), "weight"),
    Input("r", facts("h", 0.5, 1.5), "weight"),
    Input("table", facts("hk", -0.7, 0.7), "weight"),
    Input("step", facts("", 0, 6), "step"),
)


class Op(NamedTuple):
    """A rule applied to values, which are numbered: the inputs, the states, then the results of ops."""

    rule: str
    args: tuple[int, ...]


class Cond(NamedTuple):
    """One of two ops: the first one in the steps before `step`."""

    step: int
    sides: tuple[Op, Op]


class Inner(NamedTuple):
    """A loop over e in a step: from `start`, each step sees a frame of `source`, computes `ops`, and sets its state to
    tanh of the value `update`."""

    source: int
    start: int
    ops: tuple[Op, ...]
    update: int


class State(NamedTuple):
    """A state, and how a step sets it from the value `update`."""

    facts: Facts
    zero: bool
    how: Literal["tanh", "leak", "grow"]
    update: int


class End(NamedTuple):
    """Ends a sequence where the mean of a value is above a number."""

    value: int
    above: float
    include_eos: bool


@dataclass(frozen=True)
class Program:
    """A loop over a batch.

    t, e: the lengths. over_t: whether the loop is over the frames of t. before: whether ops that read nothing of a step
    are computed before the loop. max_len: the largest number of steps, for all sequences or each.
    """

    t: tuple[int, ...]
    e: tuple[int, ...]
    over_t: bool
    before: bool
    max_len: int | tuple[int, ...] | None
    states: tuple[State, ...]
    ops: tuple[Op | Cond | Inner, ...]
    end: End | None
    stacked: tuple[int, ...]
    lasts: tuple[int, ...]
    seed: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Those that a body can read: frames only in a loop over t."""
        return INPUTS if self.over_t else tuple(each for each in INPUTS if each.source != "frame")

    @property
    def first_state(self) -> int:
        return len(self.inputs)

    @property
    def first_op(self) -> int:
        return len(self.inputs) + len(self.states)

    def before_loop(self) -> set[int]:
        """The values that are computed before the loop."""
        if not self.before:
            return set()
        outside = {i for i, each in enumerate(self.inputs) if each.source in ("whole", "weight")}
        for number, op in enumerate(self.ops, self.first_op):
            if isinstance(op, Op) and outside.issuperset(op.args):
                outside.add(number)
        return outside
