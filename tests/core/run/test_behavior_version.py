"""`rf.BehaviorVersion`: models ask which behaviour they get."""

from __future__ import annotations

import pytest

import rfnb as rf


def test_it_is_always_the_newest_one():
    newest = rf.BehaviorVersion.get()
    rf.BehaviorVersion.set_min_behavior_version(21)
    rf.BehaviorVersion.set(16)
    assert rf.BehaviorVersion.get() == newest >= 24
    assert rf.BehaviorVersion.is_set()


def test_what_a_version_requires_is_required():
    rf.BehaviorVersion.require(True, "use dims", version=16)
    with pytest.raises(rf.errors.OptionError, match="use dims"):
        rf.BehaviorVersion.require(False, "use dims", version=16)
