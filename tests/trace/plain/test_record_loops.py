"""Loops as others write them are recorded, and compute what they compute unrecorded, bit for bit."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.trace.plain.recorder import FrameRecorder, recording_here
from tests.trace.plain import loops_by_hand
from tests.trace.plain.snapped import All, check, is_equal, normal, snapped


@pytest.fixture(autouse=True)
def no_runs():
    rf.runs.clear()
    yield
    assert sys.gettrace() is None
    rf.runs.clear()


def result_of(loop):
    """What a loop gives, and the state of the random generators after it."""
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    result = loop()
    return normal([result, torch.rand(2), np.random.rand(2), random.random()])


@pytest.mark.parametrize("name", loops_by_hand.LOOPS)
def test_loops_written_by_hand(name, monkeypatch):
    problems = []
    monkeypatch.setattr(FrameRecorder, "_give_up", lambda self, error: problems.append(error))
    loop, client = loops_by_hand.LOOPS[name], All(loops_by_hand.__file__)
    expected = result_of(loop)
    recording_here().add(client)
    try:
        got = result_of(loop)
    finally:
        recording_here().remove(client)
    assert not problems and is_equal(got, expected)
    assert sum(len(loop.starts) for loop in client.loops) > 0
    again, copies = snapped(loops_by_hand)
    assert is_equal(result_of(again.LOOPS[name]), expected)
    assert check(client.loops, copies) > 0 or copies.recursive
