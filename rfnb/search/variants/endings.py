"""What becomes of hypotheses that end, and when a search stops: the options, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.search.variants.stopping import stopped

if TYPE_CHECKING:
    from rfnb.search.beam import BeamStep

Ended = Literal["compete", "apart"]


@dataclass(frozen=True, kw_only=True)
class EndOptions:
    """The arguments of `loop.choice` about the ends of hypotheses, which explains them."""

    ended: Ended = "compete"
    end: int | str | None = None
    living: int | None = None
    patience: float | None = None
    early_stop: int = 0
    most_gain: float | None = None


@dataclass(frozen=True)
class Endings:
    """The options about ends as numbers. end: the label that ends hypotheses. living: how many places are for those
    that go on, None for all. most_ended, sure, most_gain, limit: see `stopped`."""

    end: int | None = None
    living: int | None = None
    most_ended: int | None = None
    sure: int = 0
    most_gain: float = 0.0
    limit: Tensor | int | None = None

    @property
    def stops(self) -> bool:
        """Whether a search may stop though some of its hypotheses go on."""
        return bool(self.sure) or self.most_ended is not None

    @property
    def selects(self) -> dict[str, Any]:
        """The arguments of `beam_step`."""
        return {"end": self.end, "living": self.living, "most_ended": self.most_ended} if self.living else {}

    def stop(
        self, found: BeamStep, beam: Dim, had_ended: Tensor, step: Tensor | int, exponent: float, offset: float
    ) -> BeamStep:
        """The hypotheses after a step, without those that go on where the search stops. had_ended: {…, beam}"""
        scores = stopped(
            found.scores, found.labels, found.counts, beam, had_ended=had_ended, end=self.end, limit=self.limit,
            most_ended=self.most_ended, sure=self.sure, exponent=exponent, offset=offset, most_gain=self.most_gain,
            step=step,
        )  # fmt: skip
        return found._replace(scores=scores)


def endings(what: str, options: EndOptions, places: int, *, end: int | None, limit: Any, gain: float | None) -> Endings:
    """The options as numbers. places: the size of the beam. gain: the most that a label may add, if it is known.

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
    if isinstance(options.early_stop, bool) or not isinstance(options.early_stop, int) or options.early_stop < 0:
        raise ParameterError(
            f"{what}: `early_stop` is a number of hypotheses", got=options.early_stop,
            hint="early_stop=1: until the best one is certain",
        )  # fmt: skip
    gain = gain if options.most_gain is None else options.most_gain
    if options.early_stop and gain is None:
        raise ParameterError(
            f"{what}: `early_stop` needs to know how much a label can add to a score",
            got="scores other than log-probabilities, or scorers that may give rewards",
            hint="most_gain=…: the most that one label adds, scaled; 0.0 for log-probabilities",
        )
    if not apart:
        return Endings(end=end, sure=options.early_stop, most_gain=gain or 0.0, limit=limit)
    if end is None:
        raise ParameterError(f'{what}: `ended="apart"` needs the label that ends hypotheses', hint='end="</s>"')
    living = options.living or living_of(places, patience)
    most_ended = None if patience is None else math.ceil(living * patience)
    if not 1 <= living < places or (most_ended or 1) > places - living:
        least = living + (most_ended or 1)
        raise ParameterError(
            f"{what}: the beam has no room for hypotheses that end",
            got=f"{places} places, {living} of them for hypotheses that go on",
            expected=f"at least {least} places",
            hint=f'beam=rf.Dim({least}, name="beam")',
        )
    return Endings(end, living, most_ended, options.early_stop, gain or 0.0, limit)


def places_for(living: int, options: EndOptions) -> int:
    """How many places a beam needs that has `living` for hypotheses that go on."""
    patience = options.patience or 1.0
    ended = math.ceil(living * patience) if 0 < patience < math.inf else 1
    return living + max(living, ended) if options.ended == "apart" else living


def living_of(places: int, patience: float | None) -> int:
    """How many places are for hypotheses that go on: half of them, or what leaves room for those that end."""
    if patience is None:
        return (places + 1) // 2
    fitting = [living for living in range(1, places) if living + math.ceil(living * patience) <= places]
    return max(fitting, default=1)
