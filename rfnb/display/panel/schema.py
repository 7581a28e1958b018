"""The messages between the panel and the kernel."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from rfnb.display.attention.schema import AttentionScripts
from rfnb.display.run.schema import RunView, StepView

PROTOCOL = 4
"""Raised when a message changes in a way that an older panel or kernel would misread."""


class Where(TypedDict):
    """A condition to search for: on one value, on the values of a line, or on any value."""

    kind: Literal["not finite", "over", "changes", "repeats", "ends", "best changes", "falls out", "expression"]
    name: str | None
    line: int | None
    limit: float | None  # of "over"
    text: str | None  # of "expression"; of "falls out", the reference


class RowsView(TypedDict):
    """A value that is a row of weights at each step: a picture of all steps for each row of a step.

    One pixel of a picture is as in `AttentionScripts`: `pool` if there is one picture, else `head_pool`.
    """

    name: str
    sequence: int | None
    pictures: list[str]
    scripts: AttentionScripts


class FoundView(TypedDict):
    """Part of a search: the matching steps, and the step to continue from."""

    hits: list[int]
    next: int | None  # None: all that was asked for is searched


class RunAtView(TypedDict):
    """The run of a probe at another training step."""

    run: RunView
    step: StepView | None  # None: the step has to be asked for


How = Literal["step", "continue", "run", "stop"]
"""How a paused loop goes on: one step, to the next pause, without pauses in this cell, or not at all."""


class PausedView(TypedDict):
    """A loop that is held after a step in the running cell."""

    run: int
    name: str
    step: int
    why: str
    line: int | None  # of `rf.pause()`, or of plain Python code the line after which it is held
    can_edit: bool
    cell_id: str | None
    locked: NotRequired[dict[str, str]]  # states that cannot be edited, with the reasons; older kernels do not send it


class Hello(TypedDict):
    """The kernel's answer to the first message: its versions."""

    protocol: int
    version: str
    session: str  # of the kernel process


class Message(TypedDict):
    """Front end to kernel, on the command comm."""

    id: int
    command: str  # a row of `COMMANDS` in rfnb/display/panel/commands.py
    args: dict[str, object]


class Reply(TypedDict):
    """Kernel to front end. `queued`: the answer comes as an event with the same id; `busy`: after the running cell;
    `gone`: the run is no longer kept.
    """

    id: int
    status: Literal["ok", "error", "gone", "queued", "busy"]
    data: object
    error: str | None


class Event(TypedDict):
    """Kernel to front end, on the event comm."""

    event: Literal["runs", "reply", "open", "paused", "resumed"]
    data: object
