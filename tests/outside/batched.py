"""Programs in rfnb: the whole batch at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import rfnb as rf
from rfnb import batch_dim
from tests.outside.data import WEIGHTS, Data
from tests.outside.grammar import INNER, RULES, SIZES
from tests.outside.programs import Cond, Inner, Op, Program


class Batched:
    """A batch of sequences, and after `run` what the loop gave for it.

    hoist: `optimize_move_layers_out`. record: whether the run is recorded. device: where all data is.
    """

    def __init__(self, program: Program, data: Data, *, hoist: bool | None, record: bool, device: str | None = None):
        self.program, self.data, self.hoist, self.record = program, data, hoist, record
        self.device = device
        self.dims = {axis: rf.Dim(SIZES[axis] if axis in "hk" else None, name=axis) for axis in INNER}
        self.leaves: dict[str, torch.Tensor] = {}
        self.names: dict[str, int] = {}  # of values of the body, each with its number
        self.values: list[Any] = []
        self._inputs()
        self._weights()

    def _inputs(self) -> None:
        program = self.program
        lengths = {self.dims["t"]: program.t, self.dims["e"]: program.e}
        self.tensors = {}
        for name in self.data.arrays:
            dims = [batch_dim, *(self.dims[axis] for axis in self.data.axes(name)[1:])]
            self.leaves[name] = self.data.padded(name, self.device)
            given = {dim: list(n) for dim, n in lengths.items() if dim in dims}
            sparse = self.dims["k"] if name == "label" else None
            self.tensors[name] = rf.convert_to_tensor(
                self.leaves[name], dims=dims, lengths=given or None, sparse_dim=sparse
            )

    def _weights(self) -> None:
        h, k = self.dims["h"], self.dims["k"]
        self.modules = {"hk": rf.Linear(h, k), "kh": rf.Linear(k, h), "norm": rf.LayerNorm(h)}
        made = {name: getattr(self.modules[name.split(".")[0]], name.split(".")[1]) for name in WEIGHTS}
        for each in self.program.inputs:
            if each.source == "weight":
                made[each.name] = rf.Parameter([self.dims[axis] for axis in INNER if axis in each.facts.axes])
        with torch.no_grad():
            for name, parameter in made.items():
                self.leaves[name] = parameter.raw_tensor
                assert parameter.dtype == "float64"
                parameter.raw_tensor.copy_(self.data.weights[name])
        self.tensors |= {name: made[name] for name in made if name not in WEIGHTS}

    # -- the loop

    def run(self) -> rf.Tensor:
        """Runs the loop; the loss."""
        program, before = self.program, self.program.before_loop()
        known: list[Any] = [self.tensors.get(each.name) for each in program.inputs]
        known += [None] * len(program.states)
        for number, op in enumerate(program.ops, program.first_op):
            known.append(self.compute(op, known, None) if number in before else None)
        self.loop = loop = rf.Loop(**self._options())
        for n, _ in enumerate(program.states):
            setattr(loop.state, f"s{n}", self.tensors[f"state {n}"])
        with loop:
            step = rf.cast(loop.iter_idx, "float64")
            values = [self._input(i, known, step) for i in range(program.first_state)]
            values += [getattr(loop.state, f"s{n}") for n in range(len(program.states))]
            for number, op in enumerate(program.ops, program.first_op):
                if number in before:
                    values.append(known[number])
                    continue
                value = self.compute(op, values, step)
                values.append(value.with_name(f"v{number}"))
                self.names[f"v{number}"] = number
            self._finish_body(values)
        self.states = [getattr(loop.state, f"s{n}") for n in range(len(program.states))]
        return self._loss()

    def _options(self) -> dict[str, Any]:
        program = self.program
        axis = self.dims["t"] if program.over_t else rf.Dim(None, name="steps")
        if program.over_t and (program.end is not None or program.max_len is not None):
            axis = None
        longest: Any = program.max_len
        if isinstance(longest, tuple):
            longest = rf.convert_to_tensor(np.array(longest), dims=[batch_dim])
        return {"axis": axis, "max_seq_len": longest, "optimize_move_layers_out": self.hoist, "debug": self.record}

    def _input(self, i: int, known: list[Any], step: rf.Tensor) -> rf.Tensor:
        each = self.program.inputs[i]
        if each.source == "frame":
            return self.loop.unstack(known[i], axis=self.dims["t"])
        return step if each.source == "step" else known[i]

    def _finish_body(self, values: list[rf.Tensor]) -> None:
        program, loop = self.program, self.loop
        for n, state in enumerate(program.states):
            before = getattr(loop.state, f"s{n}")
            setattr(loop.state, f"s{n}", self._updated(n, self.fit(values[state.update], state.facts.axes), before))
        if program.end is not None:
            mean = self.fit(values[program.end.value], frozenset("b"))
            loop.end(mean > program.end.above, include_eos=program.end.include_eos)
        without = frozenset("behk") if program.over_t else frozenset("btehk")
        self.stacked = [
            loop.stack(self.fit(values[number], without), name=f"out{number}") for number in program.stacked
        ]
        self.lasts = [loop.last(values[number]) for number in program.lasts]

    def _updated(self, n: int, value: rf.Tensor, before: rf.Tensor) -> rf.Tensor:
        how = self.program.states[n].how
        if how == "tanh":
            return rf.tanh(value + 0.1 * before)
        return 0.5 * before + 0.5 * rf.tanh(value) if how == "leak" else before + rf.sigmoid(value)

    def fit(self, value: rf.Tensor, axes: frozenset[str]) -> rf.Tensor:
        """The mean over the axes that are not among `axes`."""
        for axis in INNER:
            if axis not in axes and self.dims[axis] in value.dims_set:
                value = rf.reduce_mean(value, axis=self.dims[axis])
        return value

    def compute(self, op: Any, values: list[Any], step: rf.Tensor | None) -> rf.Tensor:
        if isinstance(op, Op):
            return RULES[op.rule].named(self, *[values[i] for i in op.args])  # type: ignore[no-any-return]
        if isinstance(op, Cond):
            one, other = op.sides
            assert step is not None
            return rf.cond(
                step < op.step - 0.5, lambda: self.compute(one, values, step), lambda: self.compute(other, values, step)
            )
        return self.inner(op, values, step)

    def inner(self, op: Inner, values: list[Any], step: rf.Tensor | None) -> rf.Tensor:
        loop = rf.Loop(axis=self.dims["e"], optimize_move_layers_out=self.hoist, name="inner")
        loop.state.z = values[op.start]
        axes = frozenset(axis for axis in INNER if self.dims[axis] in values[op.start].dims_set) | {"b"}
        with loop:
            inside = [*values, loop.state.z, loop.unstack(values[op.source])]
            for each in op.ops:
                inside.append(self.compute(each, inside, step))
            loop.state.z = rf.tanh(self.fit(inside[op.update], axes) + 0.1 * loop.state.z)
        return loop.state.z

    def _loss(self) -> rf.Tensor:
        results = [*self.stacked, *self.lasts, *self.states]
        total = sum(rf.reduce_sum(rf.sin(y), axis=y.dims).raw_tensor for y in results)
        return total

    # -- what it gave

    def of_sequence(self, y: rf.Tensor, sequence: int, axes: str = INNER) -> np.ndarray:
        """The valid entries of a value: the axis of the loop first, then those of plain torch."""
        order = [batch_dim, *(self.dims[axis] for axis in axes)]
        first = [dim for dim in y.dims if dim not in order]
        there = [dim for dim in order if dim in y.dims_set]
        raw = y.copy_transpose([*first, *there]).raw_tensor.detach().cpu().numpy()
        raw = raw.take(sequence, len(first)) if batch_dim in there else raw
        lengths = {self.dims["t"]: self.program.t, self.dims["e"]: self.program.e}
        there = [dim for dim in there if dim is not batch_dim]
        cut = [slice(lengths[dim][sequence] if dim in lengths else None) for dim in there]
        raw = raw[(*[slice(None)] * len(first), *cut)]
        sizes = dict(zip(there, raw.shape[len(first) :], strict=True))
        return raw.reshape([*raw.shape[: len(first)], *(sizes.get(self.dims[axis], 1) for axis in axes)])
