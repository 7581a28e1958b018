"""The base of recurrent cells: a step, and how it runs over a sequence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rfnb.core.dims.dim import Dim, check_dims, single_step_dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State, check_state
from rfnb.errors import ParameterError
from rfnb.loop.loop import Loop
from rfnb.loop.pure import Keeping, StepCache, key_of, loop_to_keep
from rfnb.nn.layers.rec import check_recurrent_state
from rfnb.nn.module.module import Module
from rfnb.ops.create import full
from rfnb.ops.random import dropout, in_training
from rfnb.ops.shape import expand_dims

CELLS: dict[str, type[RecCell]] = {}
"""All cells, by the names that `rf.make_cell` accepts."""


class RecCell(Module):
    """Base of recurrent cells, which are written as one step. {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}

    >>> class Sum(rf.RecCell):
    ...     def step(self, x, state):
    ...         h = state.h + x
    ...         return h, rf.State(h=h)
    >>> feat, time = rf.Dim(1, name="feat"), rf.Dim(3, name="time")
    >>> total = Sum(feat, feat)
    >>> y, state = total(rf.ones([time, feat]), state=total.default_initial_state(batch_dims=[]), spatial_dim=time)
    >>> y.raw_tensor.tolist(), state.h.raw_tensor.tolist()
    ([[1.0], [2.0], [3.0]], [3.0])

    `project` is the part of a step that depends on the input alone: over a sequence it runs once, for all frames. After
    the end of a sequence the state stays as it is. `rf.make_cell` finds a class by its name, and by further `names` in
    the class statement.
    """

    state_class: type[State] = State
    state_parts: Sequence[str] = ("h",)
    unit_options: ClassVar[dict[str, Any]] = {}  # options of `make_cell` that differ from the defaults of the class
    recurrent_dropout: float = 0.0

    def __init_subclass__(cls, *, names: Sequence[str] = (), **options: object) -> None:
        super().__init_subclass__(**options)
        if not cls.__name__.startswith("_") and "_parametrized_names" not in vars(cls):  # no class of `parametrize`
            CELLS.update({_key(name): cls for name in (cls.__name__, *names)})

    def __init__(self, in_dim: Dim, out_dim: Dim):
        check_dims([in_dim, out_dim])
        self.in_dim = in_dim
        self.out_dim = out_dim

    def __call__(self, source: Tensor, *, state: State, spatial_dim: Dim) -> tuple[Tensor, State]:
        """The outputs, and the state after the last valid frame of each sequence.

        With `spatial_dim=rf.single_step_dim` it does a single step, with a source without that dim.
        """
        self._check_state(state)
        if spatial_dim is single_step_dim:
            return self.step(self.project(source), state)
        return self.over(source, state, spatial_dim)

    def _check_state(self, state: object) -> None:
        name = f"{type(self).__name__}: `state`"
        if type(self).default_initial_state is RecCell.default_initial_state:
            check_recurrent_state(state, name, self.state_parts, self.out_dim, ["mask"])
        else:  # of other parts
            check_state(state, name)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The output and the next state; `x` is the result of `project`. {…}, {…, out_dim} → {…, out_dim}"""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def project(self, source: Tensor) -> Tensor:
        """The part of a step that depends on the input alone. {…, in_dim} → {…}"""
        return source

    def over(self, source: Tensor, state: State, spatial_dim: Dim) -> tuple[Tensor, State]:
        """Runs all steps. {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}"""
        frames, initial = self.prepared(source, state, spatial_dim)
        functions, name = (self.step,), self.get_default_name()
        steps = vars(self).setdefault("_kept_steps", StepCache(4))
        computed = any(type(part) is Tensor for part in vars(self).values())  # weights that are made for each call
        key = None if computed else key_of(functions, spatial_dim, name, None, initial, frames)
        if (step := steps.find(key, functions)) is not None:
            outputs, final = step.run(initial, frames)
            return outputs, self.state_class(final)
        keeping = None if key is None else Keeping(key, functions, steps)
        loop = loop_to_keep(keeping, axis=spatial_dim, name=name)
        loop.file = type(self).step.__code__.co_filename
        outputs, final = self.steps(loop, frames, initial)
        if keeping is not None:
            keeping.done(loop, outputs, initial)
        return outputs, final

    def prepared(self, source: Tensor, state: State, spatial_dim: Dim) -> tuple[Tensor, dict[str, Tensor]]:
        """What the steps need of all frames, and the first state with all dims."""
        batch = [dim for dim in source.dims if dim not in (spatial_dim, self.in_dim)]
        initial = {
            part: expand_dims(value, [dim for dim in batch if dim not in value.dims]) for part, value in state.items()
        }
        return self.project(source), initial

    def steps(self, loop: Loop, frames: Tensor, initial: Mapping[str, Tensor]) -> tuple[Tensor, State]:
        """Runs all steps in a loop. {…, its axis} → {…, its axis, out_dim}"""
        loop.state = initial
        with loop:
            x = loop.unstack(frames, name="x")
            out, loop.state = self.step(x, self._state(loop, initial))
            outputs = loop.stack(out)
        return outputs, self._state(loop, initial)

    def _state(self, loop: Loop, names: Iterable[str]) -> State:
        return self.state_class({name: loop.state[name] for name in names})

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """Zeros; in training with recurrent dropout also the dropout mask. → {batch_dims, out_dim} each"""
        check_dims(batch_dims, "default_initial_state: `batch_dims`")
        like = next(self.parameters(), None)
        dtype, device = (None, None) if like is None else (like.dtype, like.device)
        filled = partial(full, dims=[*batch_dims, self.out_dim], dtype=dtype, device=device, feature_dim=self.out_dim)
        state = self.state_class({name: filled(fill_value=0.0) for name in self.state_parts})
        if self._drops(state[self.state_parts[0]]):
            state.mask = dropout(filled(fill_value=1.0), self.recurrent_dropout)
        return state

    def dropped(self, h: Tensor, state: State) -> Tensor:
        """`h` times the dropout mask of its sequence, which is the same in all steps (Gal & Ghahramani 2016)."""
        if not self._drops(h):
            return h
        if "mask" not in state:
            raise ParameterError(
                f"{type(self).__name__}: in training, the state must contain the dropout mask of the sequence",
                got=f"State with {', '.join(state)}",
                hint="start from `default_initial_state(batch_dims=…)` and change only the parts that differ",
            )
        return h * state.mask

    def _drops(self, h: Tensor) -> bool:
        return self.recurrent_dropout > 0 and in_training(h, func=dropout)


@guarded
def make_cell(unit: str, in_dim: Dim, out_dim: Dim, **options: object) -> RecCell:
    """A new cell of the class with this name, in upper or lower case, with or without a final "Cell".

    >>> inp, out = rf.Dim(3, name="in"), rf.Dim(2, name="out")
    >>> type(rf.make_cell("GRUCell", inp, out)).__name__, type(rf.make_cell("nativelstm2", inp, out)).__name__
    ('GRU', 'VanillaLSTM')

    Raises ParameterError if there is no such class.
    """
    cls = CELLS.get(_key(unit))
    if cls is None:
        raise ParameterError(
            f"make_cell: there is no cell {unit!r}",
            expected=", ".join(sorted(CELLS)),
            hint=did_you_mean(_key(unit), CELLS),
        )
    return cls(in_dim, out_dim, **{**cls.unit_options, **options})


def _key(name: str) -> str:
    return name.lower().removesuffix("cell")


def gate_bias(out_dim: Dim, *values: float) -> np.ndarray:
    """The initial values of a bias with one part for each gate, each {out_dim}."""
    return np.repeat(values, out_dim.get_dim_value())
