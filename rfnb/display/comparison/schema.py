"""The JSON of comparisons of runs."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from rfnb.display.kit.schema import DimView, MarkedPicture
from rfnb.display.markup.schema import Number


class Difference(TypedDict):
    """A value that differs between two runs, and where it differs first."""

    name: str
    value: NotRequired[str]  # the name without the word "state"; older kernels do not send it
    line: int | None
    step: int | None  # None: it is in one of the runs only
    text: str  # by how much


class FirstDifference(TypedDict):
    """The first value that differs between two runs."""

    name: str
    lines: list[int | None]  # in the first run, in the second
    step: int  # -1: before the first step
    edited: NotRequired[bool]  # whether a fork edited it before that step; older kernels do not send it
    dims: list[DimView]
    where: str  # the entry that differs most: "batch 'banana', feat 3"
    a: str
    b: str
    difference: Number | None  # None for labels
    relative: Number  # to the largest number of the value
    note: str | None  # "the lengths differ"
    pictures: list[MarkedPicture]


class ComparisonView(TypedDict):
    """The differences of two runs of a loop, the first one first."""

    kind: Literal["comparison"]
    run: int
    other: int
    agree: bool
    first: FirstDifference | None
    differences: list[Difference]
    notes: list[str]  # what else is not the same: numbers of steps, sequences
    text: str
