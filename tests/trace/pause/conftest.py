"""Pauses are global: each test begins and ends without any."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rfnb as rf
from rfnb.trace.pause import hold


@pytest.fixture(autouse=True)
def no_pauses(tmp_path, monkeypatch) -> Iterator[None]:
    """No conditions, and files in a folder of the test."""
    monkeypatch.setattr(hold, "_written", [])
    monkeypatch.setattr(rf.options, "pause_folder", tmp_path / "pauses")
    yield
    rf.pauses.clear()
    rf.pauses.cell_ended()
