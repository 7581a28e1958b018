"""Variants of a search that steps without a loop, such as `rf.search.decode`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.ground.nested import map_leaves
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.ops.index import gather
from rfnb.search.variants.constraint import Constraint

Change = Callable[[Tensor, Dim], Tensor]
"""A function on the log-probabilities {…, beam, labels}; it gets the labels too."""


@dataclass
class Variant:
    """What a search changes of the scores of a model, and the states that it needs for it.

    constraints: see there. change: of the scores, after the constraints.
    finals: what the end of each hypothesis is worth.
    """

    constraints: Sequence[Constraint] = ()
    change: Change | None = None
    states: list[Any] = field(default_factory=list)
    finals: dict[str, Tensor] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether the scores are others than those of the model."""
        return bool(self.constraints) or self.change is not None

    def settled(self, last: Tensor, dims: Sequence[Dim], *, empty: bool) -> dict[str, Tensor]:
        """What the end is worth to each hypothesis by the constraints that say which may end, if no label ends them.
        {…, beam}

        last: the last label of each hypothesis, {…, beam}. empty: it is the start, and they have none.
        """
        finals: dict[str, Tensor] = {}
        for i, constraint in enumerate(self.constraints):
            value: Any = constraint
            if hasattr(value, "final"):
                state = value.initial_state(batch_dims=list(dims)) if empty else self.states[i]
                finals[f"constraint {i}"] = value.final(value.score(last, state)[1])
        return finals

    def scores(self, scores: Tensor, last: np.ndarray, dims: Sequence[Dim], labels: Dim) -> Tensor:
        """The scores of the next labels. last: the last label of each hypothesis, over `dims`."""
        if self.constraints and not self.states:
            self.states = [item.initial_state(batch_dims=list(dims)) for item in self.constraints]
        for i, constraint in enumerate(self.constraints):
            added, self.states[i] = constraint.score(_beside(last, scores, dims, labels), self.states[i])
            scores = scores + added
            if hasattr(constraint, "final") and not getattr(constraint, "scores_ends", False):
                self.finals[f"constraint {i}"] = constraint.final(self.states[i])
        changed = scores if self.change is None else self.change(scores, labels)
        if not isinstance(changed, Tensor):
            raise not_a_tensor("decode: the result of `change`", changed)
        return changed

    def follow(self, parents: np.ndarray, dims: Sequence[Dim]) -> None:
        """Takes the states of the hypotheses that were extended."""

        def followed(state: Any) -> Any:
            if not isinstance(state, Tensor) or dims[-1] not in state.dims_set:
                return state
            return gather(state, indices=_beside(parents, state, dims), axis=dims[-1])

        self.states = [map_leaves(followed, state) for state in self.states]


def _beside(numbers: np.ndarray, like: Tensor, dims: Sequence[Dim], sparse_dim: Dim | None = None) -> Tensor:
    """Numbers over `dims`, on the device of another Tensor."""
    raw = backend_of_raw(like._raw).from_numpy_raw(numbers, like.device)
    return tensor_of(raw, align.sig(dims, sparse_dim), EMPTY)
