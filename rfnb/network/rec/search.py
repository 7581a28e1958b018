"""The search of a recurrent net: its steps, and its result with the scores of the reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.math import cast, maximum, minimum, where
from rfnb.ops.reduce import reduce_max
from rfnb.ops.shape import set_feature_dim

if TYPE_CHECKING:
    from rfnb.loop.loop import Loop
    from rfnb.network.rec.net import RecNet


@dataclass(frozen=True)
class SearchChoices:
    """The result of a search.

    Attributes:
        beam_dim: the final hypotheses. beam_scores: their scores, {batch, beam}. lengths: how many labels
            each has.
        found: the search, with its tree and n-best lists.
    """

    beam_dim: Dim
    beam_scores: Tensor
    lengths: Tensor
    found: Any

    @property
    def src_beams(self) -> Tensor:
        """Which hypothesis of the step before each one extends in the last step. → {batch, beam}"""
        parents = self.found.trace.parents[-1]
        dims = self.found.lengths.copy_transpose([*self.beam_scores.dims]).dims
        return convert_to_tensor(np.asarray(parents, "int32").reshape(parents.shape), dims=dims)


@dataclass
class StepsOfSearch:
    """The choices of a step, while it is computed. chosen: the newest one. by_layer: each by the name of its layer."""

    loop: Loop
    rec: RecNet
    chosen: Any = None
    by_layer: dict[str, Any] = field(default_factory=dict)

    def choose(self, name: str, scores: Any, **options: Any) -> Any:
        """A choice of `loop.choice`."""
        choice = self.loop.choice(scores, beam=self.rec.beam, **options)
        self.by_layer[name] = choice
        if choice.parents is not None:
            self.chosen = choice
        return choice

    def newest(self, x: Tensor) -> Tensor:
        """A value of hypotheses before the newest choice, for those after it."""
        if self.chosen is None:
            return x
        y: Tensor = self.chosen.follow(x)
        return y if y is x else set_feature_dim(y, x.feature_dim)


def result_of(rec: RecNet, loop: Loop) -> SearchChoices | None:
    """The result of a search, whose scores are those of the reference: normalized by one length for all hypotheses,
    or with `batch_independent` for those of a sequence.
    """
    if rec.beam is None or loop.found is None:
        return None
    scores, lengths = loop.found.scores, loop.found.lengths
    choice: Any = rec.last_choice
    if choice.length_normalization and lengths.num_elements():
        over = [rec.beam] if rec.layer.spec.batch_independent else list(lengths.dims)
        longest = reduce_max(lengths, axis=over, use_mask=False)
        with_end = bool(rec.layer.include_eos)  # type: ignore[attr-defined]
        limit = loop.max_seq_len
        steps = longest if with_end or limit is None else minimum(longest + 1, limit)
        counted = cast(maximum(longest + (not with_end), 1), scores.dtype)
        factor = cast(steps, scores.dtype) ** choice.length_normalization_exponent / counted
        scores = scores * where(longest > 0, factor, 1.0)
    return SearchChoices(rec.beam, scores, lengths, loop.found)
