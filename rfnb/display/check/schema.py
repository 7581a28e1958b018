"""The JSON of checks."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.display.kit.schema import DimView, MarkedPicture


class Finding(TypedDict):
    """An op that a check reports."""

    op: str
    name: str  # what the user's line calls its result
    what: str  # "3 NaN", "0.5 together, 0.4 alone"
    at: str  # the entry, by dim; of a difference, the sequence as well
    place: str  # the user's line
    path: str  # of the module it is in
    loop: str | None
    step: int | None  # of that loop
    operands: list[str]
    came_from: str | None


class CheckView(TypedDict):
    """What `rf.check.finite` or `rf.check.batch_invariance` found."""

    kind: Literal["check"]
    name: Literal["finite", "batch invariance"]
    passed: bool
    text: str
    facts: list[list[str]]  # of the first finding: [label, words]
    dims: list[DimView]  # of its value
    pictures: list[MarkedPicture]
    findings: list[Finding]
    note: str | None
