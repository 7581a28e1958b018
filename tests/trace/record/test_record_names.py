"""Values of a loop body are named after the variables that hold them."""

from __future__ import annotations

from unittest.mock import Mock

import rfnb as rf
from rfnb.core.ground.nested import named_parts
from rfnb.trace.record import record

feat = rf.Dim(2, name="feat")


def test_a_dataset_in_a_variable_is_not_looked_through_for_names(monkeypatch):
    looked_into = Mock(wraps=named_parts)
    monkeypatch.setattr(record, "named_parts", looked_into)
    dataset = {"train": [([number], "label") for number in range(1000)]}
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.h = rf.ones([feat])
    with loop:
        layers = {"first": [loop.state.h * 3.0]}
        loop.state.h = layers["first"][0] + 1.0
    assert 0 < looked_into.call_count < 100 and len(dataset["train"]) == 1000
    assert loop.run[0]["layers.first.0"].raw_tensor.tolist() == [3.0, 3.0]
