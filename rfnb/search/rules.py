"""The options of a search, and the rules that follow from them: who gets a place in the beam, and when it stops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.arguments import LARGEST, NUMBER, WHOLE, CountFrom1, Finite, InRange, NotNaN, checks_of
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.search.sources import InputType

Combine = Callable[[Tensor, Tensor], Tensor]
Ended = Literal["compete", "apart"]
Merge = Literal["sum", "max"]


@dataclass(frozen=True, kw_only=True)
class BeamRules:
    """The rules of a search, as numbers.

    Args:
        exponent: hypotheses are compared by score / (offset + count) ** exponent; 0: by their scores.
        offset: see `exponent`.
        combine: the score of a candidate, from those of the labels and of the hypotheses; None: their sum.
        noisy: whether noise is added to the scores of labels.
        keep_beams: whether each hypothesis keeps its own best labels, as many for each.
        gold: whether the last place is that of the right label.
        gold_once: whether that label is not among the others then.
        groups: how many parts the beam has; each is filled with extensions of its own hypotheses.
        diversity: what a label costs for each time that an earlier group chose it.
        threshold: hypotheses that are worse than the best by more than this lose their place.
        ends: the labels that end hypotheses, if they are known, the lowest first.
        living: how many places, the first ones, are for hypotheses that go on; None if all compete.
        most_ended: the search stops when so many have ended.
        sure: it stops when so many that have ended are better than all that the others can still become.
        most_gain: the most that a label adds to a score.
        blank: the label that stands for no label, in a search over frames.
        merge: the score of two hypotheses with the same labels; None if they stay apart.
        label_loop: whether a label may take several frames.
    """

    exponent: float = 1.0
    offset: float = 0.0
    combine: Combine | None = None
    noisy: bool = False
    keep_beams: bool = False
    gold: bool = False
    gold_once: bool = False
    groups: int = 1
    diversity: float = 0.5
    threshold: float | None = None
    ends: tuple[int, ...] = ()
    living: int | None = None
    most_ended: int | None = None
    sure: int = 0
    most_gain: float = 0.0
    blank: int | None = None
    merge: Merge | None = "sum"
    label_loop: bool = False

    @property
    def stops(self) -> bool:
        """Whether a search may stop though some of its hypotheses go on."""
        return bool(self.sure) or self.most_ended is not None

    @property
    def by_rank(self) -> bool:
        """Whether the best candidates get the places."""
        restricted = self.keep_beams or self.gold or self.groups != 1 or self.threshold is not None
        return not restricted and self.living is None

    @property
    def ranking(self) -> BeamRules:
        """The rules by which candidates are compared, where the best get the places."""
        return BeamRules(exponent=self.exponent, offset=self.offset, combine=self.combine)

    def last_place(self, size: int, step: int, label: int, parent: int, *, copy: bool) -> int:
        """The last place that a candidate may take. size: of the beam. copy: whether its parent had ended."""
        if self.living is not None and label not in self.ends and not copy:
            return self.living - 1
        if self.groups > 1:
            width = size // self.groups
            return parent // width * width + width - 1
        if self.keep_beams and step:
            return parent
        return max(size - 2, 0) if self.gold else size - 1


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions:
    """The arguments of `loop.choice`, which explains them; those of `rf.search.decode` are among them."""

    ended: Ended = "compete"
    end: int | str | Sequence[int | str] | None = None
    living: int | None = None
    patience: float | None = None
    early_stop: Annotated[int, InRange(0, what="a number of hypotheses", kinds=WHOLE)] = 0
    most_gain: NotNaN | None = None
    blank: int | None = None
    merge: Merge | None = "sum"
    label_loop: bool = False
    beam: Dim | None = None
    beam_size: CountFrom1 | None = None
    axis: Dim | Sequence[Dim] | None = None
    input_type: InputType = "prob"
    target: Any = None
    search: bool = True
    add_to_beam_scores: bool = False
    scheduled_sampling: bool | float = False
    prob_scale: Finite = 1.0
    base_beam_score_scale: Finite = 1.0
    random_sample_scale: Finite = 0.0
    length_normalization: bool = True
    length_normalization_exponent: Finite = 1.0
    length_normalization_offset: Annotated[float, InRange(0, LARGEST, "a finite number, 0 or more", NUMBER)] = 0.0
    custom_score_combine: Combine | None = None
    source_beam_sizes: Sequence[int] | None = None
    keep_beams: bool = False
    cheating: bool | Literal["exclusive"] = False
    start: int | str = 0
    partial_candidates: CountFrom1 | None = None
    groups: int = 1
    diversity: NotNaN = 0.5
    threshold: NotNaN | None = None
    candidates: Annotated[int, InRange(0, what="a number of pruned candidates to keep", kinds=WHOLE)] = 0

    @property
    def exponent(self) -> float:
        """0 if scores are not normalized by length: with a blank, as all have the same number of frames."""
        return self.length_normalization_exponent if self.length_normalization and self.blank is None else 0.0

    @property
    def gain(self) -> float | None:
        """The most that a label may add to a score, if that is known: nothing, for log-probabilities."""
        unbounded = self.custom_score_combine or self.random_sample_scale or self.base_beam_score_scale != 1.0
        return None if unbounded or self.prob_scale < 0 else 0.0

    @property
    def by_frame(self) -> bool:
        """Whether hypotheses with the same labels merge, or a frame may repeat a label."""
        return self.blank is not None and (self.merge is not None or self.label_loop)

    def check(self, what: str = "choice") -> None:
        """Raises ParameterError for numbers that are out of range."""
        for name, check in checks_of(ChoiceOptions).items():
            check(what, name, getattr(self, name))
        if self.custom_score_combine is not None and not callable(self.custom_score_combine):
            raise ParameterError(
                f"{what}: `custom_score_combine` is not a function", got=repr(self.custom_score_combine),
                expected="lambda scores, base: base + scores",
            )  # fmt: skip
        if not isinstance(self.cheating, bool) and self.cheating != "exclusive":
            raise ParameterError(
                f"{what}: unknown `cheating`", got=self.cheating, expected='True, False or "exclusive"'
            )
        for size in self.source_beam_sizes or ():
            checks_of(ChoiceOptions)["beam_size"](what, "source_beam_sizes", size)

    def rules(self, first: BeamRules) -> BeamRules:
        """The rules of a choice. first: those of the first choice of its step, which say how hypotheses end."""
        return replace(first, **self.own_rules)

    @property
    def own_rules(self) -> dict[str, Any]:
        """The rules that each choice of a step has of its own."""
        return {
            "combine": self.custom_score_combine, "keep_beams": self.keep_beams, "gold": bool(self.cheating),
            "gold_once": self.cheating == "exclusive", "groups": self.groups, "diversity": self.diversity,
            "threshold": self.threshold,
        }  # fmt: skip


def read_options(arguments: dict[str, Any]) -> ChoiceOptions:
    """The options, from the arguments of `loop.choice`. Raises ParameterError for one that does not exist."""
    unknown = [name for name in arguments if name not in ChoiceOptions.__dataclass_fields__]
    if unknown:
        options = list(ChoiceOptions.__dataclass_fields__)
        raise ParameterError(
            "choice: there is no such option", got=unknown[0], expected=", ".join(options),
            hint=OTHER_NAMES.get(unknown[0]) or did_you_mean(unknown[0], options),
        )  # fmt: skip
    return ChoiceOptions(**arguments)


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
    "repetition_penalty": 'loop.choice({"model": scores, "repetition": rf.search.repetition_penalty(1.2)}, …)',
    "presence_penalty": 'loop.choice({"model": scores, "presence": rf.search.presence_penalty(0.5)}, …)',
    "bad_words_ids": 'loop.choice({"model": scores, "bad words": rf.search.bad_words([…], labels=…)}, …)',
    "no_repeat_ngram_size": 'loop.choice({"model": scores, "no repeat": rf.search.no_repeat(3)}, …)',
    "eos_token_id": "loop.end(chosen.labels == end)",
    "min_length": 'loop.choice({"model": scores, "lengths": rf.search.lengths(end=…, minimum=…)}, …)',
    "max_length": 'rf.Loop(max_seq_len=…), or {"model": scores, "lengths": rf.search.lengths(end=…, maximum=…)}',
}
"""Options of other libraries, and ours."""


def rules_of(
    what: str,
    options: ChoiceOptions,
    places: int,
    *,
    ends: Sequence[int],
    gain: float | None,
    others: Sequence[str] = (),
) -> BeamRules:
    """The rules that follow from the options.

    Args:
        what: the name of the caller, for errors.
        places: the size of the beam.
        ends: the numbers of the labels that end hypotheses.
        gain: the most that a label may add to a score, if it is known.
        others: options in use that need the usual ends of hypotheses.

    Raises ParameterError for options that are out of range or do not fit together.
    """
    if options.ended not in ("compete", "apart"):
        raise ParameterError(f"{what}: unknown `ended`", got=options.ended, expected='"compete" or "apart"')
    apart, patience = options.ended == "apart", options.patience
    for name, value in (("living", options.living), ("patience", patience)):
        if value is not None and not apart:
            raise ParameterError(f"{what}: `{name}` needs hypotheses that stay apart", got=value, hint='ended="apart"')
    if patience is not None and not 0 < patience < math.inf:
        raise ParameterError(f"{what}: `patience` is not above 0", got=patience, expected="such as 1.0")
    gain = gain if options.most_gain is None else options.most_gain
    if options.early_stop and gain is None:
        raise ParameterError(
            f"{what}: `early_stop` needs to know how much a label can add to a score",
            got="scores other than log-probabilities, or scorers that may give rewards",
            hint="most_gain=…: the most that one label adds, scaled; 0.0 for log-probabilities",
        )
    living = most_ended = None
    if apart:
        living, most_ended = _apart(what, options, places, ends)
    for name in ("groups", *others):
        if (apart or options.early_stop) and (name != "groups" or options.groups != 1):
            raise ParameterError(f"{what}: `{name}` is not possible with `ended`, `patience` and `early_stop`")
    check_groups(options.groups, places)
    return BeamRules(
        exponent=options.exponent, offset=options.length_normalization_offset,
        noisy=bool(options.random_sample_scale), ends=tuple(sorted({*ends})), living=living, most_ended=most_ended,
        sure=options.early_stop, most_gain=gain or 0.0, blank=options.blank, merge=options.merge,
        label_loop=options.label_loop, **options.own_rules,
    )  # fmt: skip


def _apart(what: str, options: ChoiceOptions, places: int, ends: Sequence[int]) -> tuple[int, int | None]:
    """How many places are for hypotheses that go on, and how many that have ended stop the search."""
    if not ends:
        raise ParameterError(f'{what}: `ended="apart"` needs the label that ends hypotheses', hint='end="</s>"')
    patience = options.patience
    living = options.living or _living_of(places, patience)
    most_ended = None if patience is None else math.ceil(living * patience)
    if not 1 <= living < places or (most_ended or 1) > places - living:
        least = living + (most_ended or 1)
        raise ParameterError(
            f"{what}: the beam has no room for hypotheses that end",
            got=f"{places} places, {living} of them for hypotheses that go on",
            expected=f"at least {least} places",
            hint=f'beam=rf.Dim({least}, name="beam")',
        )
    return living, most_ended


def places_for(living: int, options: ChoiceOptions) -> int:
    """How many places a beam needs that has `living` for hypotheses that go on."""
    patience = options.patience or 1.0
    ended = math.ceil(living * patience) if 0 < patience < math.inf else 1
    return living + max(living, ended) if options.ended == "apart" else living


def _living_of(places: int, patience: float | None) -> int:
    """How many places are for hypotheses that go on: half of them, or what leaves room for those that end."""
    if patience is None:
        return (places + 1) // 2
    fitting = [living for living in range(1, places) if living + math.ceil(living * patience) <= places]
    return max(fitting, default=1)


def check_groups(groups: int, *sizes: int) -> None:
    """Raises ParameterError if beams cannot be split into groups of equal size."""
    if groups < 1 or any(size % groups for size in sizes):
        raise ParameterError(
            "choice: `groups` does not divide the beam",
            got=groups,
            expected=f"a divisor of {' and of '.join(map(str, dict.fromkeys(sizes)))}",
        )
