"""`rf.BehaviorVersion`: models ask which behaviour they get."""

from __future__ import annotations

import pytest

import rfnb as rf


def test_it_is_always_the_newest_one():
    newest = rf.BehaviorVersion.get()
    rf.BehaviorVersion.set_min_behavior_version(21)
    rf.BehaviorVersion.set(29)
    assert rf.BehaviorVersion.get() == newest >= 24
    assert rf.BehaviorVersion.is_set()


@pytest.mark.parametrize(("version", "count"), [(16, 5), (19, 4), (21, 3), (24, 1)])
def test_a_version_with_other_defaults_gives_a_warning(version, count):
    with pytest.warns(UserWarning, match=f"In version {version}") as warned:
        rf.BehaviorVersion.set(version)
    assert len(str(warned[0].message).splitlines()) == count + 1


def test_a_version_is_a_number():
    with pytest.raises(rf.errors.OptionError, match="not a version"):
        rf.BehaviorVersion.set("newest")


def test_what_a_version_requires_is_required():
    rf.BehaviorVersion.require(True, "use dims", version=16)
    with pytest.raises(rf.errors.OptionError, match="use dims"):
        rf.BehaviorVersion.require(False, "use dims", version=16)
