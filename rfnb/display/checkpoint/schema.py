"""The JSON of load reports."""

from __future__ import annotations

from typing import Literal, TypedDict


class LoadedNames(TypedDict):
    """Names of parameters that are missing, unexpected, skipped or renamed."""

    what: str
    names: list[str]


class LoadReportView(TypedDict):
    """The entries of a checkpoint: loaded, missing, unexpected, skipped or renamed."""

    kind: Literal["load_report"]
    path: str
    loaded: list[str]
    groups: list[LoadedNames]
