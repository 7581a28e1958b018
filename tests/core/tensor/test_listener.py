"""The base class of listeners changes nothing, and passes calls on to the listener outside of it."""

from __future__ import annotations

import pytest

import rfnb as rf
from rfnb.core.tensor.listener import Listener, active_listener, listening


class Record(Listener):
    """Notes what it sees."""

    def __init__(self, outer=None):
        self.outer, self.seen = outer, []

    def call(self, row, args, kwargs):
        self.seen.append(row.name)
        return super().call(row, args, kwargs)

    def call_module(self, module, forward, args, kwargs):
        self.seen.append(type(module).__name__)
        return super().call_module(module, forward, args, kwargs)

    def cond(self, pred, true_fn, false_fn):
        self.seen.append("cond")
        return super().cond(pred, true_fn, false_fn)


class Inner(Listener):
    """Overrides nothing."""

    def __init__(self, outer):
        self.outer = outer


@pytest.fixture
def model():
    feat = rf.Dim(2, name="feat")
    linear = rf.Linear(feat, rf.Dim(3, name="out"))
    x = rf.ones([feat])
    return lambda: rf.cond(rf.convert_to_tensor(True), lambda: linear(x), lambda: linear(x) * 2.0)


def test_a_listener_that_overrides_nothing_changes_nothing(model):
    with listening(Listener()):
        seen = model().raw_tensor.tolist()
    assert seen == model().raw_tensor.tolist()


@pytest.mark.parametrize("between", [lambda outer: outer, Inner, lambda outer: Inner(Inner(outer))])
def test_calls_are_passed_on_to_the_outer_listener(model, between):
    outer = Record()
    with listening(between(outer)):
        model()
    assert outer.seen[-3:] == ["cond", "Linear", "linear"]


def test_both_see_the_same_calls(model):
    outer = Record()
    with listening(inner := Record(outer)):
        model()
    assert inner.seen == outer.seen


def test_the_active_listener_is_that_of_the_innermost_block():
    first, second = Listener(), Listener()
    assert active_listener() is None
    with listening(first):
        with listening(second):
            assert active_listener() is second
        with listening(None):
            assert active_listener() is None
        assert active_listener() is first
    assert active_listener() is None
