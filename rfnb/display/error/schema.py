"""The JSON of errors."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.display.kit.schema import DimView


class StripCell(TypedDict):
    """A dim of an operand, or a size of an array without dims."""

    dim: DimView | None
    word: str  # "time:3–5 Σ8", "time [5, 3]"
    odd: bool  # it does not fit


class StripRow(TypedDict):
    """An operand: its dims below equal dims of the others, with None where it lacks a dim."""

    name: str  # of the parameter
    text: str  # what the user's line says
    type: str  # "float32", "Dim", "numpy.ndarray"
    cells: list[StripCell | None]


class DimOrigin(TypedDict):
    """Where a dim comes from."""

    dim: DimView
    name: str  # "time¹" if another dim has the same name
    where: str  # "ceil(time/2), made in cell 3, line 1"
    text: str | None  # the expression that made it
    odd: bool


class CodeView(TypedDict):
    """Some lines of the user's code, and the expression in question."""

    place: str
    function: str | None  # None outside of functions
    first_line: int  # 1-based, in the file or cell
    lines: list[str]
    marks: list[list[int]]  # per line: [start, end] of the expression in it, or []


class FrameView(TypedDict):
    """A frame of a traceback."""

    place: str
    function: str
    text: str
    whose: Literal["user", "rfnb", "other"]


class CauseView(TypedDict):
    """An earlier error, and how it relates to this one."""

    error: str  # "KeyError: 'x'"
    relation: Literal["caused by", "while handling"]
    frames: list[FrameView]


class ErrorView(TypedDict):
    """An error: the user's line, the call in it, and the dims that do not fit."""

    kind: Literal["error"]
    name: str  # of the class
    what: str
    facts: list[list[str]]  # [["expected", "..."], ["hint", "..."]]
    notes: list[str]
    code: CodeView | None
    call: str | None  # the function of rfnb: "reduce_sum", "layers.0: Linear"
    rows: list[StripRow]
    origins: list[DimOrigin]
    frames: list[FrameView]
    causes: list[CauseView]
    note: str | None  # what could not be told
