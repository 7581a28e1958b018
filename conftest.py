"""Names that the examples in docstrings may use without an import."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.core import run_ctx


@pytest.fixture(autouse=True)
def names_in_examples(doctest_namespace: dict[str, object]) -> None:
    """`rf`, `np` and `torch`."""
    doctest_namespace.update(rf=rf, np=np, torch=torch)


@pytest.fixture(autouse=True)
def no_run_context() -> None:
    """Examples and tests that begin a training step leave it to no other."""
    run_ctx._current.set(None)
