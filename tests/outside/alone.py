"""Programs in plain torch: each sequence alone, cut to its lengths, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from tests.outside.data import Data
from tests.outside.grammar import INNER, RULES, place, plain_mean
from tests.outside.programs import Cond, Inner, Op, Program


@dataclass
class Found:
    """What a sequence gives: its values in each step, those stacked and last, and its final states."""

    steps: list[list[torch.Tensor]] = field(default_factory=list)
    stacked: list[list[torch.Tensor]] = field(default_factory=list)
    lasts: list[torch.Tensor] = field(default_factory=list)
    states: list[torch.Tensor] = field(default_factory=list)
    before: list[list[torch.Tensor]] = field(default_factory=list)  # the states before each step

    def results(self) -> list[torch.Tensor]:
        """All that the loss depends on."""
        return [*(y for frames in self.stacked for y in frames), *self.lasts, *self.states]


def fit(value: torch.Tensor, axes: frozenset[str]) -> torch.Tensor:
    """The mean over the axes that are not among `axes`."""
    for axis in INNER:
        if axis not in axes:
            value = plain_mean(value, place(axis))
    return value


class Alone:
    """A sequence of a batch."""

    def __init__(self, program: Program, data: Data, sequence: int):
        self.program, self.data, self.sequence = program, data, sequence
        self.weights = data.weights

    def run(self) -> Found:
        """All steps."""
        program, found = self.program, Found(stacked=[[] for _ in self.program.stacked])
        states = [self.data.start(self.sequence, n) for n in range(len(program.states))]
        for step in range(program_steps(program, self.sequence)):
            values = [*(self.input(each.name, step) for each in program.inputs), *states]
            for op in program.ops:
                values.append(self.compute(op, values, step))
            ended = program.end is not None and bool(
                fit(values[program.end.value], frozenset()).item() > program.end.above
            )
            if ended and program.end and not program.end.include_eos:
                break
            found.steps.append(values)
            found.before.append(states)
            states = [self.updated(n, values, states[n]) for n in range(len(states))]
            for frames, number in zip(found.stacked, program.stacked, strict=True):
                frames.append(fit(values[number], frozenset("ehk") if program.over_t else frozenset(INNER)))
            if ended:
                break
        found.states = states
        found.lasts = [found.steps[-1][number] for number in program.lasts]
        return found

    def input(self, name: str, step: int) -> torch.Tensor:
        if name == "step":
            return torch.full([1] * 4, step, dtype=torch.float64)
        return self.data.plain(self.sequence, name, step)

    def compute(self, op: Any, values: list[torch.Tensor], step: int) -> torch.Tensor:
        if isinstance(op, Op):
            return RULES[op.rule].plain(self, *[values[i] for i in op.args])  # type: ignore[no-any-return]
        if isinstance(op, Cond):
            return self.compute(op.sides[0] if step < op.step else op.sides[1], values, step)
        return self.inner(op, values, step)

    def inner(self, op: Inner, values: list[torch.Tensor], step: int) -> torch.Tensor:
        state = values[op.start]
        axes = {axis for axis in INNER if state.shape[place(axis)] != 1}
        source, at = values[op.source], place("e")
        for n in range(source.shape[at]):
            inside = [*values, state, source.narrow(at, n, 1)]
            for each in op.ops:
                inside.append(self.compute(each, inside, step))
            state = torch.tanh(fit(inside[op.update], frozenset(axes)) + 0.1 * state)
        return state

    def updated(self, n: int, values: list[torch.Tensor], before: torch.Tensor) -> torch.Tensor:
        state = self.program.states[n]
        value = fit(values[state.update], state.facts.axes)
        if state.how == "tanh":
            return torch.tanh(value + 0.1 * before)
        return 0.5 * before + 0.5 * torch.tanh(value) if state.how == "leak" else before + torch.sigmoid(value)


def program_steps(program: Program, sequence: int) -> int:
    """The largest number of steps of a sequence."""
    limits = [program.t[sequence]] if program.over_t else []
    if program.max_len is not None:
        limits.append(program.max_len if isinstance(program.max_len, int) else program.max_len[sequence])
    return min(limits)
