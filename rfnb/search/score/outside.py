"""Scorers of a search that steps without a loop, such as `rf.search.decode`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import map_leaves
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.ops.create import full
from rfnb.ops.index import gather
from rfnb.search.score.add_up import Scored, add_costly, over_labels, score_by
from rfnb.search.score.parts import ScorePart, most_gain, parts_of
from rfnb.search.score.scorer import PartialScorer, scores_ends, state_after

MODEL = "model"
"""The name of the scores that `step` returns."""


class Scorers:
    """The parts of a score beside that of the model, and the states that they need.

    Args:
        given: as for `loop.choice`; of the model, only the scale: {"model": 0.8, "lm": (lm, 0.4)}.
        candidates: how many labels of each hypothesis the costly ones see.
    """

    def __init__(self, given: Mapping[str, Any], candidates: int):
        scale = given.get(MODEL, 1.0)
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not math.isfinite(scale):
            raise ParameterError(
                "decode: the scores of the model come from `step`", got=type(scale).__name__, hint='"model": its scale'
            )
        self.parts = parts_of({name: value for name, value in given.items() if name != MODEL})
        for part in self.parts:
            if isinstance(part.value, Tensor):
                raise ParameterError(
                    f"decode: {part.name!r} is a Tensor",
                    expected='a scorer, a module, or a number for "length"',
                    hint="add such scores to those that `step` returns",
                )
        self.scale, self.candidates = float(scale), candidates
        self.states: dict[str, Any] = {}
        self.finals: dict[str, Tensor] = {}  # what the end of each hypothesis is worth

    @property
    def scales(self) -> dict[str, float]:
        """The scale of each part."""
        return {MODEL: self.scale} | {part.name: part.scale for part in self.parts}

    @property
    def gain(self) -> float | None:
        """The most that a label may add to a score; None if that is not known."""
        return most_gain(self.parts, None if self.scale < 0 else 0.0, None)

    def add_up(self, scores: Tensor, last: Tensor, dims: Sequence[Dim], axis: Dim) -> Scored:
        """The scores of the next labels. {…, beam, axis}, last: the last label of each hypothesis, {…, beam}"""
        scored, costly, new = Scored(axis), list[tuple[ScorePart, Any]](), dict[str, Any]()
        scored.add(MODEL, scores, self.scale)
        for part in self.parts:
            value = part.value
            if value is None:
                scored.add(part.name, full(dims=[axis], fill_value=1.0, device=scores.device), part.scale)
                continue
            assert not isinstance(value, Tensor)
            state = self.states[part.name] if part.name in self.states else value.initial_state(batch_dims=list(dims))
            if isinstance(value, PartialScorer):
                new[part.name] = value.advance(last, state)
                costly.append((part, new[part.name]))
            else:
                next_scores, new[part.name] = score_by(part, value, last, state)
                scored.add(part.name, over_labels(axis, dims, part.name, next_scores), part.scale)
            if hasattr(value, "final") and not scores_ends(value):
                self.finals[part.name] = value.final(new[part.name])
        if costly:
            add_costly(scored, costly, dims, self.candidates, scores.device)
        self.states = new
        return scored

    def settled(self, last: Tensor, dims: Sequence[Dim], *, empty: bool) -> dict[str, Tensor]:
        """What the end is worth to each hypothesis by the parts that score ends, if no label ends them. {…, beam}

        last: the last label of each hypothesis, {…, beam}. empty: it is the start, and they have none.
        """
        finals: dict[str, Tensor] = {}
        for part in self.parts:
            value: Any = part.value
            if hasattr(value, "final"):
                state = value.initial_state(batch_dims=list(dims)) if empty else self.states[part.name]
                finals[part.name] = value.final(state_after(value, last, state))
        return finals

    def follow(self, parents: Tensor, beam: Dim) -> None:
        """Takes the states of the hypotheses that were extended. parents: {…, beam}"""

        def followed(state: Any) -> Any:
            has_beam = isinstance(state, Tensor) and beam in state.dims_set
            return gather(state, indices=parents, axis=beam) if has_beam else state

        self.states = {name: map_leaves(followed, state) for name, state in self.states.items()}
