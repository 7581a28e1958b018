"""The JSON of what a search explains."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.display.beam.schema import BeamView
from rfnb.display.markup.schema import Number


class Scorer(TypedDict):
    """One of several parts of the scores."""

    name: str
    scale: float


class LifeStep(TypedDict):
    """A sequence of labels after a step of the search."""

    step: int
    label: str  # of this step; of those that were kept instead, all labels so far
    state: Literal["kept", "last", "fell", "instead"]  # last: at the last place of a full beam
    ended: bool  # the copy of a hypothesis that had ended
    rank: int | None  # 1: the best
    kept: int  # how many were kept
    score: Number | None  # as it was compared
    gap: Number | None  # how far it is below the best
    last: Number | None  # the score of the last that was kept
    margin: Number | None  # how far it is above that one
    at_least: bool  # rank and margin are bounds, as the candidate ranks below those that were recorded
    pruned: Number | None  # the score of the best candidate that was pruned, if it was recorded
    parts: list[Number]  # the score over all labels so far, by scorer, scaled


class LifeView(TypedDict):
    """The life of a sequence of labels, step by step."""

    scorers: list[Scorer]  # empty if there is only one
    steps: list[LifeStep]
    apart: int | None  # the first step at which its labels differ from those of the best hypothesis
    closest: str | None  # when it was closest to being pruned, as a sentence


class WhereView(TypedDict):
    """Where a reference is in the beam."""

    kind: Literal["where"]
    summary: list[str]  # in words
    reference: str
    verdict: str
    advice: str | None  # what the verdict means
    because: str
    fall: str | None  # where it fell out, as a sentence
    needed: int | None  # the size of the beam that would have kept it in that step
    unknown: bool  # whether its score in that step was not recorded
    life: LifeView
    beam: BeamView
    note: str | None


class WhyView(TypedDict):
    """The life of a hypothesis."""

    kind: Literal["why"]
    name: str  # of the sequence
    steps: int
    beam: int
    summary: list[str]  # in words
    text: str
    state: Literal["best", "left", "continued", "lost"]
    fate: str
    life: LifeView
    note: str | None


class KeptPrefix(TypedDict):
    """A hypothesis in one of two beams after a step."""

    text: str
    rank: int
    score: Number


class RankedScore(TypedDict):
    """A final hypothesis in one of two searches."""

    rank: int
    score: Number


class ComparedHypothesis(TypedDict):
    """A hypothesis that was left at the end of one or both of two searches."""

    labels: list[str]  # from the first one that is shown; "▣" stands for an end label that does not count
    more: int  # how many labels follow that are not shown
    common: int  # how many of those that are shown it has in common with the first hypothesis
    sides: list[RankedScore | None]  # in the first and the second search


class ComparedSequence(TypedDict):
    """One sequence in two searches."""

    name: str
    agree: bool
    words: str
    same_output: bool  # whether the best hypotheses have the same text
    step: int | None  # the first one after which the beams differ
    beams: list[int]  # the sizes of the two beams
    only: list[list[KeptPrefix]]  # what only the first, and only the second, has after that step
    start: int  # the position of the first label that is shown: those before it are the same in all hypotheses
    by_step: bool  # whether each label has a step of its own
    hypotheses: list[ComparedHypothesis]  # the output of the first search, that of the second, then the others by rank


class SearchComparisonView(TypedDict):
    """Two searches of the same sequences."""

    kind: Literal["search_comparison"]
    agree: bool
    summary: list[str]  # in words
    sequences: list[ComparedSequence]  # those that differ
    alone: list[list[str]]  # the sequences that only the first, and only the second search has
    note: str | None
