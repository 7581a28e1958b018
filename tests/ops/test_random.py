"""Dropout."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb.core.scope import random_from
from rfnb.errors import DimError

rows, feat = rf.Dim(200, name="rows"), rf.Dim(50, name="feat")


@pytest.fixture
def training():
    rf.init_train_step_run_ctx(train_flag=True)
    yield
    rf.init_forward_step_run_ctx()


def test_only_in_training_or_if_asked_for():
    x = rf.ones([rows, feat])
    assert rf.dropout(x, 0.5) is x
    assert rf.dropout(x, 0.5, on_forward=True) is not x
    assert rf.dropout(x, 0.0, on_forward=True) is x


def test_the_mean_stays(training):
    y = rf.dropout(rf.ones([rows, feat]), 0.25).raw_tensor
    assert y.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert y.mean() == pytest.approx(1.0, abs=0.05)
    assert rf.dropout(rf.ones([rows]), 1.0).raw_tensor.sum() == 0


def test_along_an_axis_only(training):
    y = rf.dropout(rf.ones([rows, feat]), 0.5, axis=feat).raw_tensor
    assert (y == y[:1]).all() and 0 < y[0].sum() < 2 * 50
    with pytest.raises(DimError, match="no dim"):
        rf.dropout(rf.ones([rows]), 0.5, axis=feat)


def test_the_numbers_come_from_the_stream(training):
    def drop(seed):
        with random_from(lambda device: torch.Generator(device=device).manual_seed(seed)):
            return rf.dropout(rf.ones([rows, feat]), 0.5).raw_tensor

    assert torch.equal(drop(1), drop(1)) and not torch.equal(drop(1), drop(2))
