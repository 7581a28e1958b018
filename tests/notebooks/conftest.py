"""The notebooks import modules that stand beside them; so do their tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))


@pytest.fixture(autouse=True, scope="session")
def dictionary_that_is_read_once() -> Iterator[None]:
    """Reading it takes a second, and no test changes it."""
    import g2p_data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(g2p_data, "load", cache(g2p_data.load))
        yield
