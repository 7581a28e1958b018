"""Names that the examples in docstrings may use without an import."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf


@pytest.fixture(autouse=True)
def names_in_examples(doctest_namespace: dict[str, object]) -> None:
    """`rf`, `np` and `torch`."""
    doctest_namespace.update(rf=rf, np=np, torch=torch)
