"""`rf.CollectOutputsDict`: a dict that keeps what matches."""

from __future__ import annotations

import pytest

import rfnb as rf


def test_only_matching_keys_are_kept():
    found = rf.CollectOutputsDict({"0": "a", "11": "b"}, allowed_key_patterns=["1*"])
    found["12"], found["2"] = "c", "d"
    found.update({"13": "e"}, other="f")
    assert found == {"11": "b", "12": "c", "13": "e"} and isinstance(found, dict)


def test_setdefault_gives_the_value_in_any_case():
    found = rf.CollectOutputsDict(allowed_key_patterns=["a"])
    assert (found.setdefault("a", 1), found.setdefault("a", 2), found.setdefault("b", 3)) == (1, 1, 3)
    assert found == {"a": 1}


def test_without_patterns_it_is_a_dict():
    found = rf.CollectOutputsDict(a=1)
    found["b"] = 2
    assert found == {"a": 1, "b": 2} and found.is_key_allowed("anything")


@pytest.mark.parametrize("pattern", ["layers.*", "layers.[01]"])
def test_keys_may_have_dots(pattern):
    assert rf.CollectOutputsDict(allowed_key_patterns=[pattern]).is_key_allowed("layers.1")
