"""The JSON of training loops and gradient norms."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.display.markup.numbers import Number


class LossCurve(TypedDict):
    """A measure over the steps of training. Bins of several steps have their last step, lowest and highest value."""

    name: str
    steps: list[int]
    low: list[Number]
    high: list[Number]
    smooth: list[Number]  # the running mean
    last: Number | None
    peak: Literal["lowest", "highest"]  # which of them is told: the lowest, unless that is where it began
    peak_value: Number | None
    peak_at: int | None
    bad: int  # values that are not finite
    first_bad: int | None  # at which step


class ProgressView(TypedDict):
    """A training loop: its progress and reported measures."""

    kind: Literal["progress"]
    name: str
    steps: int
    total: int | None  # of an epoch
    epoch: int  # from 1
    stopped: bool  # before the batches ended
    curves: list[LossCurve]
    note: str | None


class SlidLoop(TypedDict):
    """The loop whose steps are the second slider of a probe."""

    name: str
    states: list[str]  # their names
    steps: list[int]  # those that the slider has


class ProbeSlide(TypedDict):
    """What the sliders of a probe show of one training step."""

    step: int
    picture: str  # of the attention: data URI of a PNG; "" without, or if the step has a card, whose picture it is
    shape: list[int]  # rows and columns of it
    words: str  # the result
    measures: dict[str, Number]
    values: list[list[str]]  # after each of the loop's steps that the sliders have, each state
    note: str | None


class ShotView(ProbeSlide):
    """What a probe has of one training step."""

    runs: list[str]  # names of the loops


class ProbeScripts(TypedDict):
    """What scripts read of a probe: they add the sliders, training step and step of the loop."""

    loop: SlidLoop | None
    slides: list[ProbeSlide]


class ProbeView(TypedDict):
    """A function that ran again and again during a training."""

    kind: Literal["probe"]
    name: str
    every: int
    bytes: int
    off: str | None  # the error that ended it
    shots: list[ShotView]
    shown: list[int]  # places in `shots` of those with a card
    slides: list[int]  # and of those that the slider has
    loop: SlidLoop | None
    attention: str  # "att: dec_time × enc_time of 'kiwi', mean of 4 heads, darkest: 0.93"; "" without
    others: list[str]  # names of other attention
    curves: list[LossCurve]
    note: str | None
