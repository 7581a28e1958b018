"""The JSON of tensors, and of values at one step of a loop."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from rfnb.display.kit.data import DimView
from rfnb.display.markup.numbers import Number


class StatsView(TypedDict):
    """Statistics over the valid entries, or over a sample of them if `sampled` is not None."""

    count: int
    min: Number
    mean: Number
    max: Number
    std: Number
    nan: int
    inf: int
    first_bad: str | None  # where the first NaN or Inf is: "batch 3 ('banana'), time 7, feat 11"
    sampled: int | None
    histogram: list[int] | None  # entries in 8 equal steps from min to max; None if all are equal


class BadView(TypedDict):
    """Entries that are not finite: their number, and where the first is."""

    word: Literal["NaN", "+Inf", "−Inf", "unknown"]
    count: int
    first: str | None  # "batch 3 ('banana'), time 7, feat 11"


class PaddingView(TypedDict):
    """Statistics over all entries with the padding, as code that ignores lengths would compute them."""

    mean: Number
    std: Number
    bad: bool  # there are NaN or Inf in the padding


class TensorStats(StatsView):
    """Statistics with the fields that only the view of a tensor has."""

    bad: list[BadView]
    masked: int  # entries of −Inf that a mask put there: nothing is wrong with them
    zeros: float  # the share of zeros
    unique: int | None  # how many numbers differ, in integers; at least so many if they are a sample
    true: int | None  # how many are true, in bools
    entries: int  # of the whole tensor, padding included
    padding: PaddingView | None  # None: there is none, or it is zero


class SequenceRow(TypedDict):
    """One sequence of a tensor."""

    tag: str | None
    length: int | None
    mean: Number | None
    min: Number | None
    max: Number | None
    nan: int | None  # None: not counted, as only a sample was looked at
    inf: int | None


class LengthsView(TypedDict):
    """Summary of the lengths of one axis."""

    axis: int
    median: float
    padding: float  # the share of the axis that is padding
    empty: int  # sequences of length 0
    histogram: list[int] | None


class LabelCount(TypedDict):
    """How often a label occurs."""

    label: str
    id: int
    count: int


class GradView(TypedDict):
    """The gradient of a tensor that requires one: whether it is a leaf, and the norm."""

    leaf: bool  # the gradient is kept here; else it only passes
    norm: Number | None  # None: there is none yet


class TensorView(TypedDict):
    """A tensor, or one sequence of it."""

    kind: Literal["tensor"]
    name: str
    cls: str  # "Tensor", or "numpy.ndarray" and the like
    dtype: str
    device: str
    bytes: int
    dims: list[DimView]
    sparse: str | None  # name of the dim that integer entries point into
    stats: TensorStats | None  # None for empty tensors and for labels
    lengths: list[LengthsView]
    sequences: list[SequenceRow] | None  # for at most 256 sequences
    values: list | None  # nested lists in the order of dims, for at most 400 entries; None for padding
    labels: list[list[str]] | None  # sparse with a vocab: the first 8 sequences, 24 tokens each
    label_ids: list[list[int]] | None  # their numbers
    label_counts: list[LabelCount] | None  # the 10 most frequent
    unknown: BadView | None  # ids that are outside of the sparse dim
    tags: list[str] | None  # of the sequences, in batch order
    picture: str | None  # data URI of a PNG
    picture_alt: str | None  # what the picture shows, in words
    grad: GradView | None
    note: str | None  # what was left out and why


class ValueView(TypedDict):
    """A value at one step, of one sequence if one was chosen."""

    name: str
    text: str  # one line: "0.12 −0.31 … (16)", or labels
    dims: list[DimView]
    dtype: str
    stats: StatsView | None
    picture: str | None
    flags: list[str]  # "nan", "inf", "−inf", "constant"
    alarms: NotRequired[list[str]]  # those of the flags that are errors; older kernels do not send it
    is_row: NotRequired[bool]  # of a line: whether it is a row of weights, which `rows` shows for all steps
