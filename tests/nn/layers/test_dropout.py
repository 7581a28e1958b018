"""Dropout is on in training only."""

from __future__ import annotations

import pytest

import rfnb as rf

WIDE = rf.Dim(10_000, name="wide")


@pytest.fixture(autouse=True)
def no_training_left_behind():
    yield
    rf.init_forward_step_run_ctx()


def test_off_without_training():
    rf.init_forward_step_run_ctx()
    assert (rf.Dropout(0.5)(rf.ones([WIDE])).raw_tensor == 1).all()


def test_on_in_training():
    rf.init_train_step_run_ctx()
    y = rf.Dropout(0.25)(rf.ones([WIDE])).raw_tensor
    assert (y == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert sorted(y.unique().tolist()) == pytest.approx([0.0, 1 / 0.75])


def test_along_an_axis_alone():
    rf.init_train_step_run_ctx()
    time = rf.Dim(3, name="time")
    y = rf.Dropout(0.5, axis=WIDE)(rf.ones([time, WIDE])).raw_tensor
    assert (y == y[0]).all() and (y == 0).any()


def test_on_everywhere_if_asked():
    rf.init_forward_step_run_ctx()
    assert (rf.Dropout(0.5, on_forward=True)(rf.ones([WIDE])).raw_tensor == 0).any()


def test_nothing_is_dropped_with_probability_zero():
    rf.init_train_step_run_ctx()
    assert (rf.Dropout(0.0)(rf.ones([WIDE])).raw_tensor == 1).all()
