"""Scorers and constraints of a search that steps without a loop, such as `rf.search.decode`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import map_leaves
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.ops.index import gather
from rfnb.search.score.add_up import Scored, add_up
from rfnb.search.score.parts import ScorePart, most_gain, parts_of
from rfnb.search.score.scorer import scores_ends, state_after
from rfnb.search.variants.constraint import Constraint

MODEL = "model"
"""The name of the scores that `step` returns."""


class Scorers:
    """The parts of a score beside that of the model, and the states that they need.

    Args:
        given: as for `loop.choice`; of the model, only the scale: {"model": 0.8, "lm": (lm, 0.4)}.
        constraints: those that no scale changes, and that are not among the parts that are kept.
        candidates: how many labels of each hypothesis the costly ones see.
    """

    def __init__(self, given: Mapping[str, Any] | None, constraints: Sequence[Constraint], candidates: int):
        scale = 1.0 if given is None else given.get(MODEL, 1.0)
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not math.isfinite(scale):
            raise ParameterError(
                "decode: the scores of the model come from `step`", got=type(scale).__name__, hint='"model": its scale'
            )
        self.parts = parts_of({name: value for name, value in (given or {}).items() if name != MODEL})
        for part in self.parts:
            if isinstance(part.value, Tensor):
                raise ParameterError(
                    f"decode: {part.name!r} is a Tensor",
                    expected='a scorer, a module, or a number for "length"',
                    hint="add such scores to those that `step` returns",
                )
        self.constraints = [ScorePart(f"constraint {i}", value, 1.0) for i, value in enumerate(constraints)]
        self.scale, self.candidates = float(scale), candidates
        self.scales = {} if given is None else {MODEL: self.scale} | {part.name: part.scale for part in self.parts}
        self.finals: dict[str, Tensor] = {}  # what the end of each hypothesis is worth
        self._states: dict[str, Any] = {}
        self._dims: Sequence[Dim] = ()
        self._last: Any = None

    @property
    def gain(self) -> float | None:
        """The most that a label may add to a score; None if that is not known."""
        return most_gain(self.parts, None if self.scale < 0 else 0.0, None)

    def add_up(self, scores: Tensor, last: Tensor, dims: Sequence[Dim], axis: Dim) -> Scored:
        """The scores of the next labels. {…, beam, axis}, last: the last label of each hypothesis, {…, beam}"""
        scored, self._last, self._dims = Scored(axis), last, dims
        for parts in ([ScorePart(MODEL, scores, self.scale), *self.parts], self.constraints):
            add_up(
                scored, parts, dims, self, input_type="log_prob", candidates=self.candidates, device=scores.device
            )  # fmt: skip
        return scored

    def of(self, part: ScorePart) -> tuple[Tensor, Any]:
        """The last label of each hypothesis, {…, beam}, and the state of a scorer."""
        return self._last, self._states[part.name] if part.name in self._states else _initial(part, self._dims)

    def take(self, part: ScorePart, new: Any) -> None:
        """Takes the new state of a scorer, of the hypotheses before the step."""
        value: Any = part.value
        self._states[part.name] = new
        if hasattr(value, "final") and not scores_ends(value):
            self.finals[part.name] = value.final(new)

    def settled(self, last: Tensor, dims: Sequence[Dim], *, empty: bool) -> dict[str, Tensor]:
        """What the end is worth to each hypothesis by the parts that score ends, if no label ends them. {…, beam}

        last: the last label of each hypothesis, {…, beam}. empty: it is the start, and they have none.
        """
        finals: dict[str, Tensor] = {}
        for part in (*self.parts, *self.constraints):
            value: Any = part.value
            if hasattr(value, "final"):
                state = _initial(part, dims) if empty else self._states[part.name]
                finals[part.name] = value.final(state_after(value, last, state))
        return finals

    def follow(self, parents: Tensor, beam: Dim) -> None:
        """Takes the states of the hypotheses that were extended. parents: {…, beam}"""

        def followed(state: Any) -> Any:
            has_beam = isinstance(state, Tensor) and beam in state.dims_set
            return gather(state, indices=parents, axis=beam) if has_beam else state

        self._states = {name: map_leaves(followed, state) for name, state in self._states.items()}


def _initial(part: ScorePart, dims: Sequence[Dim]) -> Any:
    value: Any = part.value
    return value.initial_state(batch_dims=list(dims))
