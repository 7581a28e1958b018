"""docs/performance.md shows the numbers of tests/bench/history.json, all that there are; losses are told."""

from __future__ import annotations

from tests.bench import performance


def test_the_page_has_the_numbers_of_the_history() -> None:
    page = performance.PAGE.read_text(encoding="utf-8")
    assert page == performance.page(performance.read())
    assert "| – |" not in page, "a row without a number: python tests/bench/performance.py with a word of its group"


def test_rows_that_lost_more_than_ten_percent_are_told() -> None:
    before = {"a": (1.0, "2026-11-01"), "b": (1.0, "2026-11-01"), "gone": (1.0, "2026-11-01")}
    now = {"a": (1.09, "2026-12-01"), "b": (1.2, "2026-12-01"), "new": (9.0, "2026-12-01")}
    assert list(performance.losses(before, now)) == ["b: 1.00 → 1.20"]
