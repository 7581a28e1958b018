"""The JSON of `loop.explain()`."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

MovedPlace = Literal["once", "all steps", "each step", "after the loop"]


class MovedOp(TypedDict):
    """An op of a loop's body, and where it ran."""

    line: int | None  # of the body, 1-based, in the file or cell
    place: str | None  # of the expression, if it is in a function that the body calls
    op: str
    text: str  # the expression
    where: MovedPlace
    why: str
    states: list[str]  # those that it needs
    seconds: NotRequired[float | None]  # in all steps together, if times were measured
    calls: NotRequired[float | None]  # per step


class LoopTimes(TypedDict):
    """The times of the steps of a loop, in seconds."""

    steps: int
    calls: int  # how often all steps ran; times are medians
    total: float  # of all that was timed, in the steps and outside of them
    steps_total: float  # of all steps, without what timing takes
    overhead: float  # what timing took
    plain: float  # of all steps without timing
    device: str


class LoopExplanationView(TypedDict):
    """Where the ops of a loop ran: before its steps, in them, or after them."""

    kind: Literal["loop_explanation"]
    name: str
    place: str | None
    ran: bool
    first_line: int  # of `body`, 1-based, in the file or cell
    body: list[str]
    ops: list[MovedOp]
    times: NotRequired[LoopTimes]
