"""The JSON of the overview of `rf`."""

from __future__ import annotations

from typing import Literal, TypedDict


class Call(TypedDict):
    """A call, what it does, and the page of the documentation that explains it."""

    call: str
    what: str
    page: str


class Task(TypedDict):
    """A task with its calls."""

    name: str
    calls: list[Call]


class Overview(TypedDict):
    """The calls to begin with, by task."""

    kind: Literal["overview"]
    title: str
    tasks: list[Task]
