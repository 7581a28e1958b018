"""Colours are given out anew in each test, so that golden files do not depend on the order of tests."""

from __future__ import annotations

import pytest

from rfnb.display.kit import data


@pytest.fixture(autouse=True)
def _colours_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_seen", {})
