"""The tests of recorded plain loops begin and end without runs, and leave nothing that traces."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import rfnb as rf


@pytest.fixture(autouse=True)
def no_runs() -> Iterator[None]:
    """No run and no tracing, before a test and after it."""
    rf.runs.clear()
    yield
    assert sys.gettrace() is None
    rf.runs.clear()
