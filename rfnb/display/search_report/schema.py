"""The JSON of reports on a search."""

from __future__ import annotations

from typing import Literal, TypedDict


class SearchSetting(TypedDict):
    """The numbers of a search with one setting."""

    name: str
    sequences: int
    rates: dict[str, float]  # by the words for them
    classes: dict[str, int]  # how many sequences have each verdict


class SearchOutput(TypedDict):
    """The output for a sequence with one setting."""

    text: str | None  # None: no hypothesis was left
    verdict: str
    fell: str  # where the reference fell out, as words


class SearchRow(TypedDict):
    """A sequence with a wrong output."""

    name: str
    reference: str
    outputs: list[SearchOutput]  # in the order of the settings


class SearchReportView(TypedDict):
    """A report, or several of the same sequences."""

    kind: Literal["search_report"]
    summary: list[str]
    settings: list[SearchSetting]
    rows: list[SearchRow]
    note: str | None
