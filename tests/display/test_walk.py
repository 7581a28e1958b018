"""How far a reader walks from `rf.show(x)` to its data."""

from __future__ import annotations

import rfnb as rf
from tests.walks import files_visited


def test_showing_a_tensor_passes_few_files():
    batch, feat = rf.Dim(2, name="batch"), rf.Dim(4, name="feat")
    time = rf.Dim(rf.convert_to_tensor([5, 3], dims=[batch]), name="time")
    x = rf.random_normal([batch, time, feat])
    x.name = "x"
    rf.show(x)
    assert len(files_visited(lambda: rf.show(x))) < 18
