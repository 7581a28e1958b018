"""The JSON of attention weights."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from rfnb.display.kit.data import DimView
from rfnb.display.markup.numbers import Number


class AttentionHead(TypedDict):
    """Measures of one head; `display/attention/heads.py` defines them."""

    layer: int
    head: int
    name: str  # of its layer: "encoder.layers.0.self_att"; "" if it has none
    entropy: Number  # 0: one column each, 1: all alike
    monotonicity: Number  # share of steps that do not go back
    coverage: Number  # 1: all columns alike
    diagonal: Number
    previous: Number | None  # for as many rows as columns: weight of the entry before, of itself, of the next
    itself: Number | None
    next: Number | None
    role: str  # "diagonal", "previous", "itself", "next", "first", "flat", "peaked" or ""
    top: list[str]  # the columns with most weight in all
    flags: list[str]  # "rows sum to 0.9 … 1, not to 1", "2 % of the weight is on padding"
    scale: Number  # the weight of the darkest colour of its picture
    shape: NotRequired[list[int]]  # its true rows and columns, where layers differ in them


class AttentionShape(TypedDict):
    """Facts about the pictures that both the view of attention and its scripts need."""

    kind: Literal["attention"]
    shape: list[int]  # true rows and columns
    padding: list[int]  # so many rows and columns of pixels after them are padding, hatched
    pool: list[int]  # entries that are one cell of the large picture
    head_pool: list[int]  # entries that are one pixel of the small ones
    row_seconds: float | None  # from one row to the next
    col_seconds: float | None
    causal: bool
    heads: list[AttentionHead]  # in the order of the HTML
    chosen: list[int]  # layer and head of the large picture; -1: the mean of them
    path: list[int]  # in it the column of each row, by the best path that never goes back
    unit: NotRequired[Literal["head", "hypothesis"]]  # what the heads are, if they are something else


class AttentionScripts(AttentionShape):
    """What scripts read beside the pictures of the HTML, which are `<img data-rfnb-head="layer,head">` in the overview,
    and an `<image data-rfnb-head=… data-rfnb-large>` in the SVG of the large one.

    One pixel is `head_pool` (of the large one: `pool`) rows by columns; its colour is an entry of `colours` (n of them,
    from pale to dark: weight = index / (n - 1) * scale of the head), or one of `special`, or half transparent: masked
    or padding. Labels are those of entries, not of pixels; None means that they are the numbers from 0.
    """

    row_name: str
    col_name: str
    rows: list[str] | None  # labels
    cols: list[str] | None
    colours: str  # "f4f1eccfdfd6…": six digits each
    special: dict[str, str]  # "nan", "inf", "-inf": six digits


class AttentionSound(TypedDict):
    """The sound that the columns stand for."""

    spectrum: str  # data URI of a picture, which is as wide as all columns
    sound: str  # data URI of a WAV file
    duration: float  # in seconds


class AttentionView(AttentionShape):
    """Weights of one sequence, where rows attend to columns: one head in large, and an overview of all heads."""

    name: str
    row_dim: DimView
    col_dim: DimView
    rows: list[str]  # labels of the rows of `weights`
    cols: list[str]
    weights: list[list[Number]]  # of the chosen head; of each block, if they are pooled: the largest
    tag: str | None
    picture: str  # data URI of a PNG: one pixel a cell of `weights`, and some padding
    pictures: list[str]  # of the heads, if there are several
    sort: str | None
    grid: bool  # whether there is a line of pictures for each layer
    row_labels: list[str] | None  # of all entries; None: their numbers
    col_labels: list[str] | None
    audio: NotRequired[AttentionSound]
    note: str | None
