"""The graph of a loop body, asked from its values."""

from __future__ import annotations

import pytest

import rfnb as rf
from rfnb.errors import BackendError

feat = rf.Dim(2, name="feat")


def test_what_a_value_is_made_of_and_what_is_made_of_it():
    found = {}
    loop = rf.Loop(max_seq_len=2)
    loop.state.h = rf.zeros([feat])
    with loop:
        h = loop.state.h
        a = rf.tanh(h)
        b = a + h
        c = b * 2.0
        found["b"] = [x.name for x in rf.get_tensor_dependencies(b)]
        found["h"] = [x.name for x in rf.get_tensor_consumers(h)]
        found["all"] = [x.name for x in rf.walk_tensor_consumers(h)]
        found["until"] = [x.name for x in rf.walk_tensor_consumers(h, ending_condition=lambda x: x.name == "b")]
        found["none"] = [x.name for x in rf.walk_tensor_consumers(h, filter_outputs=lambda x: x.name != "b")]
        assert rf.get_tensor_dependencies(h) == []
        loop.state.h = c
    assert found == {"b": ["a", "h"], "h": ["a", "b"], "all": ["a", "b", "c"], "until": ["a", "b"], "none": ["a"]}


@pytest.mark.parametrize("ask", [rf.get_tensor_dependencies, rf.get_tensor_consumers])
def test_outside_of_a_body_nothing_is_recorded(ask):
    with pytest.raises(BackendError, match="no graph records"):
        ask(rf.zeros([feat]))
