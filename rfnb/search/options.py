"""The options of `loop.choice`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import did_you_mean
from rfnb.errors import ParameterError
from rfnb.search.beam import Combine
from rfnb.search.blank.in_loop import BlankOptions
from rfnb.search.blank.step import Merge as Merge
from rfnb.search.checks.arguments import check_count, check_numbers, check_offset
from rfnb.search.sources import InputType
from rfnb.search.variants.endings import Ended as Ended, EndOptions


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions(BlankOptions, EndOptions):
    """The arguments of `loop.choice`, which explains them."""

    beam: Dim | None = None
    beam_size: int | None = None
    axis: Dim | Sequence[Dim] | None = None
    input_type: InputType = "prob"
    target: Any = None
    search: bool = True
    add_to_beam_scores: bool = False
    scheduled_sampling: bool | float = False
    prob_scale: float = 1.0
    base_beam_score_scale: float = 1.0
    random_sample_scale: float = 0.0
    length_normalization: bool = True
    length_normalization_exponent: float = 1.0
    length_normalization_offset: float = 0.0
    custom_score_combine: Combine | None = None
    source_beam_sizes: Sequence[int] | None = None
    keep_beams: bool = False
    cheating: bool | Literal["exclusive"] = False
    start: int | str = 0
    partial_candidates: int | None = None
    groups: int = 1
    diversity: float = 0.5
    threshold: float | None = None
    candidates: int = 0

    @property
    def exponent(self) -> float:
        """0 if scores are not normalized by length: with a blank, as all have the same number of frames."""
        return self.length_normalization_exponent if self.length_normalization and self.blank is None else 0.0

    @property
    def by_rank(self) -> bool:
        """Whether the best candidates get the places."""
        restricted = self.keep_beams or self.cheating or self.groups != 1 or self.threshold is not None
        return not restricted and self.ended == "compete"

    @property
    def gain(self) -> float | None:
        """The most that a label may add to a score, if that is known: nothing, for log-probabilities."""
        unbounded = self.custom_score_combine or self.random_sample_scale or self.base_beam_score_scale != 1.0
        return None if unbounded or self.prob_scale < 0 else 0.0

    def check(self) -> None:
        """Raises ParameterError for numbers that are out of range."""
        check_numbers("choice", **{name: getattr(self, name) for name in NUMBERS})
        check_offset("choice", self.length_normalization_offset)
        limits = {name: getattr(self, name) for name in ("diversity", "threshold", "most_gain")}
        check_numbers("choice", **{name: x for name, x in limits.items() if repr(x) not in ("None", "inf")})
        if self.custom_score_combine is not None and not callable(self.custom_score_combine):
            raise ParameterError(
                "choice: `custom_score_combine` is not a function", got=repr(self.custom_score_combine),
                expected="lambda scores, base: base + scores",
            )  # fmt: skip
        if not isinstance(self.cheating, bool) and self.cheating != "exclusive":
            raise ParameterError("choice: unknown `cheating`", got=self.cheating, expected='True, False or "exclusive"')
        for size in (self.beam_size, *(self.source_beam_sizes or ())):
            if size is not None:
                check_count("choice", "beam_size" if size is self.beam_size else "source_beam_sizes", size, 1)


NUMBERS = "prob_scale base_beam_score_scale random_sample_scale length_normalization_exponent".split()


def read_options(given: dict[str, Any]) -> ChoiceOptions:
    """The options, from the arguments of `loop.choice`. Raises ParameterError for one that does not exist."""
    unknown = [name for name in given if name not in ChoiceOptions.__dataclass_fields__]
    if unknown:
        options = list(ChoiceOptions.__dataclass_fields__)
        raise ParameterError(
            "choice: there is no such option", got=unknown[0], expected=", ".join(options),
            hint=OTHER_NAMES.get(unknown[0]) or did_you_mean(unknown[0], options),
        )  # fmt: skip
    return ChoiceOptions(**given)


OTHER_NAMES = {
    "length_penalty": "length_normalization_exponent=…; without normalization, length_normalization=False",
    "num_beams": 'beam=rf.Dim(4, name="beam"), the dim of the hypotheses, which the states have',
    "temperature": 'loop.choice(logits / temperature, input_type="logits", …)',
    "do_sample": 'loop.choice(rf.search.sampled(log_probs, axis=labels), input_type="log_prob", …)',
    "top_k": 'loop.choice(rf.search.truncated(log_probs, axis=labels, top_k=…), input_type="log_prob", …)',
    "top_p": 'loop.choice(rf.search.truncated(log_probs, axis=labels, top_p=…), input_type="log_prob", …)',
    "early_stopping": 'early_stop=1, or patience=1.0 with ended="apart"',
    "num_beam_groups": "groups=…",
    "diversity_penalty": "diversity=…",
    "no_repeat_ngram_size": 'loop.choice({"model": scores, "no repeat": rf.search.no_repeat(3)}, …)',
    "min_length": 'loop.choice({"model": scores, "lengths": rf.search.lengths(end=…, minimum=…)}, …)',
    "max_length": 'rf.Loop(max_seq_len=…), or {"model": scores, "lengths": rf.search.lengths(end=…, maximum=…)}',
}
"""Options of other libraries, and ours."""
