"""The JSON of load reports."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.display.markup.schema import Number


class LoadedNames(TypedDict):
    """Names of parameters that are missing, unexpected, skipped or renamed."""

    what: str
    names: list[str]


class LoadedOrigin(TypedDict):
    """Where the value of a parameter came from, and its norm before and after; None if it is not known."""

    name: str
    sources: list[str]
    conversion: str
    before: Number | None
    after: Number | None


class LoadReportView(TypedDict):
    """The entries of a checkpoint: loaded, missing, unexpected, skipped or renamed."""

    kind: Literal["load_report"]
    path: str
    loaded: list[str]
    origins: list[LoadedOrigin]
    groups: list[LoadedNames]
