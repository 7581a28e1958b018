"""The numbers that a random program works on: for a batch, padded, and for each sequence alone."""

from __future__ import annotations

import numpy as np
import torch

from tests.outside.grammar import INNER, SIZES
from tests.outside.programs import Program

PADDING = (0.0, 777.0, float("nan"))
WEIGHTS = {
    "hk.weight": (3, 2),
    "hk.bias": (2,),
    "kh.weight": (2, 3),
    "kh.bias": (3,),
    "norm.scale": (3,),
    "norm.bias": (3,),
}
"""Weights of modules; those that a body reads itself are inputs."""
FRAMES = {
    "x": "bth",
    "positive": "bth",
    "u": "bt",
    "label": "bt",
    "memory": "beh",
    "energy": "be",
    "all_x": "bth",
    "g": "bh",
}
"""The axes of each input, with those of the frames."""


class Data:
    """For a program, always the same numbers."""

    def __init__(self, program: Program):
        self.program = program
        random = np.random.RandomState(program.seed)
        self.arrays = {each.name: self._rows(random, each.name) for each in program.inputs if each.name in FRAMES}
        for n, state in enumerate(program.states):
            axes = "b" + "".join(axis for axis in INNER if axis in state.facts.axes)
            low, high = (0.0, 0.0) if state.zero else (0.2, 0.9)
            self.arrays[f"state {n}"] = self._draw(random, axes, low, high)
        drawn = {name: random.uniform(-0.7, 0.7, shape) for name, shape in WEIGHTS.items()}
        for each in program.inputs:
            if each.source == "weight":
                shape = [SIZES[axis] for axis in INNER if axis in each.facts.axes]
                drawn[each.name] = random.uniform(each.facts.low, each.facts.high, shape)
        self.weights = {name: torch.tensor(value, requires_grad=True) for name, value in drawn.items()}
        self.rows = {name: [self._leaf(row) for row in rows] for name, rows in self.arrays.items()}

    def _rows(self, random: np.random.RandomState, name: str) -> list[np.ndarray]:
        [facts] = [each.facts for each in self.program.inputs if each.name == name]
        return self._draw(random, FRAMES[name], facts.low, facts.high, labels=facts.kind == "labels")

    def _draw(
        self, random: np.random.RandomState, axes: str, low: float, high: float, *, labels: bool = False
    ) -> list[np.ndarray]:
        """An array for each sequence, of its true lengths."""
        found = []
        for lengths in zip(self.program.t, self.program.e, strict=True):
            sizes = {**SIZES, **dict(zip("te", lengths, strict=True))}
            shape = [sizes[axis] for axis in axes[1:]]
            found.append(random.randint(0, 2, shape) if labels else random.uniform(low, high, shape))
        return found

    def _leaf(self, row: np.ndarray, device: str | None = None) -> torch.Tensor:
        raw = torch.tensor(row, device=device)
        return raw.requires_grad_() if raw.is_floating_point() else raw

    def axes(self, name: str) -> str:
        """The axes of an input or an initial state, in the order of its array."""
        if name in FRAMES:
            return FRAMES[name]
        state = self.program.states[int(name.removeprefix("state "))]
        return "b" + "".join(axis for axis in INNER if axis in state.facts.axes)

    def padded(self, name: str, device: str | None = None) -> torch.Tensor:
        """The batch, with something in its padding."""
        rows, axes = self.arrays[name], self.axes(name)
        sizes = [max(row.shape[i] for row in rows) for i in range(len(axes) - 1)]
        labels = rows[0].dtype.kind == "i"
        batch = np.full([len(rows), *sizes], 0 if labels else PADDING[self.program.seed % 3], rows[0].dtype)
        for i, row in enumerate(rows):
            batch[(i, *[slice(n) for n in row.shape])] = row
        return self._leaf(batch, device)

    # -- in plain torch

    def plain(self, sequence: int, name: str, step: int) -> torch.Tensor:
        """An input of a sequence at a step: [t, e, h, k]."""
        if name not in self.rows:
            [facts] = [each.facts for each in self.program.inputs if each.name == name]
            return _spread(self.weights[name], "".join(axis for axis in INNER if axis in facts.axes))
        row, axes = self.rows[name][sequence], FRAMES[name][1:]
        [source] = [each.source for each in self.program.inputs if each.name == name]
        return _spread(row[step], axes[1:]) if source == "frame" else _spread(row, axes)

    def start(self, sequence: int, n: int) -> torch.Tensor:
        """The initial value of a state: [t, e, h, k]."""
        return _spread(self.rows[f"state {n}"][sequence], self.axes(f"state {n}")[1:])


def _spread(raw: torch.Tensor, axes: str) -> torch.Tensor:
    """With all four axes."""
    sizes = dict(zip(axes, raw.shape, strict=True))
    return raw.reshape([sizes.get(axis, 1) for axis in INNER])
