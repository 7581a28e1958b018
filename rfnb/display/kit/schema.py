"""The JSON that views of several subjects share: dims, pictures with a marked place."""

from __future__ import annotations

from typing import Literal, TypedDict


class DimView(TypedDict):
    """One axis: its name, its size (the longest, where sizes differ), and its true lengths."""

    name: str
    serial: int
    size: int
    kind: Literal["batch", "spatial", "feature", "other"]
    lengths: list[int] | None  # per sequence, for at most 256 sequences
    length_range: list[int] | None  # [shortest, longest, sum], for dynamic dims
    colour: int | None  # 0..9, the same for the same Dim everywhere; None for batch and feature
    formula: str | None  # of a derived dim: "time+1"
    made: str | None  # "cell 4, line 2" or "model.py:31"


class MarkedPicture(TypedDict):
    """A picture of a part of a value, with one place marked."""

    title: str
    text: str  # what is at the place
    axes: str  # what is down and across
    picture: str | None  # data URI of a PNG
    alt: str
