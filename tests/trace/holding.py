"""A user who looks at pauses: what a paused loop shows, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import rfnb as rf
from rfnb.trace import pause as hold
from rfnb.trace.pause import Paused, Resume


@contextmanager
def user(answer: Callable[[Paused], Resume] = lambda paused: Resume()) -> Iterator[list[tuple[int, str]]]:
    """Answers each pause inside the block; the list that it gives has the step and the reason of each."""
    seen: list[tuple[int, str]] = []
    before = hold.can_hold.fn, hold.show_and_wait.fn

    def look(paused: Paused) -> Resume:
        seen.append((paused.step, paused.why))
        return answer(paused)

    hold.can_hold.register(lambda: "yes")
    hold.show_and_wait.register(look)
    try:
        yield seen
    finally:
        hold.can_hold.fn, hold.show_and_wait.fn = before


@pytest.fixture(autouse=True)
def no_pauses(tmp_path, monkeypatch) -> Iterator[None]:
    """No conditions, and files in a folder of the test."""
    monkeypatch.setattr(hold, "_written", [])
    monkeypatch.setattr(rf.options, "pause_folder", tmp_path / "pauses")
    yield
    rf.pauses.clear()
    rf.pauses.cell_ended()
