"""What the end of a hypothesis adds to its score, in the body of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.tape import Var
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError
from rfnb.loop.body.body import Body
from rfnb.ops.math import is_neg_infinite, logical_and, logical_not, where
from rfnb.ops.shape import expand_dims
from rfnb.search.score.scorer import scores_ends, state_after
from rfnb.search.score.scorer_states import CarriedState

if TYPE_CHECKING:
    from rfnb.loop.body.hypotheses import Hypotheses
    from rfnb.trace.record.traced import Traced


@dataclass
class Final:
    """The scorer of a part that also scores the ends of hypotheses.

    Args:
        name: that of the part.
        scorer: the scorer, which has `final`.
        state: what the choice carries of it. label: the last label of each hypothesis.
        new: its state after `score` was called in this step, for the labels before the choice. {…, beam before}
        of_step: whether its state depends on values of the step, so that it cannot be called for one more label.
    """

    name: str
    scorer: Any
    state: CarriedState
    new: Any
    label: CarriedState
    of_step: bool

    def before_the_end(self) -> Any:
        """The score of an end by the label of this step. {…, beam before}"""
        return self.scorer.final(self.new)

    def after_all_labels(self) -> Any:
        """The score of an end after the labels so far, that of this step included. {…, newest beam}"""
        return self.scorer.final(state_after(self.scorer, self.label.newest, self.state.newest))

    def without_labels(self) -> Any:
        """The score of an end before the first label. {…, beam}"""
        return self.scorer.final(state_after(self.scorer, self.label.initial, self.state.initial))


def reads_more(body: Body, since: int, known: Sequence[Traced | None]) -> bool:
    """Whether the raw calls of the body from the position `since` on read values of this step other than those known,
    and their own."""
    tape = body.tape
    sources = {tape.find(x.plain._raw) for x in known if x is not None}
    numbers = {var.number for var in sources if isinstance(var, Var)}
    for call in tape.calls[since:]:
        if not numbers.issuperset(call.read_vars):
            return True
        numbers.update(call.made)
    return False


def settle(body: Body, hypotheses: Hypotheses, ends: bool, empty: bool) -> None:
    """Keeps what the end of the search is worth to each hypothesis, should this step be the last one.

    ends: whether hypotheses end in the loop. empty: whether a sequence may have no steps.
    """
    search: Any = hypotheses.search
    by_label = ends and search.rules.blank is None
    for final in search.finals:
        if by_label and scores_ends(final.scorer):
            continue
        if not by_label and final.of_step and search.rules.blank is not None:
            raise LoopError(
                f"{body.loop.name}: choice: {final.name!r} scores the end of a hypothesis by values of the step",
                got="a search with a blank, where the last label comes in any step",
                hint="a scorer whose state depends on labels only",
            )
        before = by_label or final.of_step
        score = final.before_the_end() if before else final.after_all_labels()
        score = hypotheses.follow(body.of_body(score, f"the final score of {final.name!r}"))
        hypotheses.kept[f"final {final.name}"] = body.of_body(_over(score, hypotheses.scores.dims), "choice")
        if empty and not before:
            with body.untraced():
                initial = _over(final.without_labels(), hypotheses.dims)
                search.at_start[final.name] = body.backend.to_numpy_raw(initial._raw)


def _over(score: Tensor, dims: Sequence[Dim]) -> Tensor:
    """A score with all dims of the hypotheses, in order."""
    lacking = [dim for dim in dims if dim not in score.dims_set]
    return (expand_dims(score, lacking) if lacking else score).copy_transpose(dims)


def add_finals(hypotheses: Hypotheses, ends: Traced) -> None:
    """Adds to the hypotheses that end in this step what their end is worth. ends: {…, newest beam}"""
    search: Any = hypotheses.search
    ending = logical_and(ends, logical_not(hypotheses.follow(search.ended)))
    total: Any = hypotheses.scores
    order = total.dims
    for name in [final.name for final in search.finals if f"final {final.name}" in hypotheses.kept]:
        added: Any = where(ending, hypotheses.kept[f"final {name}"], 0.0)
        part: Any = hypotheses.kept.get(f"part {name}")
        if part is not None:
            hypotheses.kept[f"part {name}"] = (part + added).copy_transpose(order)
        total = total + scaled(added, search.scales[name])
    total = total.copy_transpose(order)
    hypotheses.scores = hypotheses.carried[search.scores_place] = hypotheses.kept["scores"] = total


def scaled(scores: Any, scale: float) -> Any:
    """Scores by their scale; −∞ stays, whatever the scale. {…}"""
    products = scores if scale == 1.0 else scores * scale
    return where(is_neg_infinite(scores), -np.inf, products) if scale < 0 else products
