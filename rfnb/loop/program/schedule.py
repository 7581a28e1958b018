"""Which values of a Program are the inputs, the states and the outputs of the steps of a loop."""

from __future__ import annotations

from dataclasses import dataclass

from rfnb.backend.base.tape import Var


@dataclass(frozen=True)
class Schedule:
    """Inputs and outputs of the steps of a loop, as Vars of its Program.

    states, frames: the inputs of a step. new: the states after a step in which no sequence has ended. kept: the states
    after a step in which ended sequences keep theirs. outputs: the values to stack. ended: whether all sequences have
    ended. max_steps: upper bound of the steps. free_steps: how many steps come before the first sequence ends.
    """

    states: tuple[Var, ...]
    frames: tuple[Var, ...]
    new: tuple[Var, ...]
    kept: tuple[Var, ...]
    outputs: tuple[Var, ...]
    ended: Var | None
    max_steps: int
    free_steps: int
