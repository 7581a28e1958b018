"""The JSON of `loop.explain()`."""

from __future__ import annotations

from typing import Literal, TypedDict

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


class LoopExplanationView(TypedDict):
    """Where the ops of a loop ran: before its steps, in them, or after them."""

    kind: Literal["loop_explanation"]
    name: str
    place: str | None
    ran: bool
    first_line: int  # of `body`, 1-based, in the file or cell
    body: list[str]
    ops: list[MovedOp]
