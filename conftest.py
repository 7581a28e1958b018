"""Names that the examples in docstrings may use without an import."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.core import run_ctx


@pytest.fixture(autouse=True, scope="session")
def names_in_examples(doctest_namespace: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> None:
    """`rf`, `np`, `torch`, and a `folder` for files."""
    doctest_namespace.update(rf=rf, np=np, torch=torch, folder=tmp_path_factory.mktemp("examples"))


@pytest.fixture(autouse=True, scope="module")
def only_the_garbage_of_this_file() -> None:
    """Collections of garbage skip what is there before a file: most of their time goes to modules and other tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_run_context() -> Iterator[None]:
    """Examples and tests that begin a training step leave it to no other."""
    with run_ctx.entered(None):
        yield
