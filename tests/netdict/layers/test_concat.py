"""concat, against numpy: in time, the padding of a source stays between it and the next one."""

import numpy as np
from hypothesis import given, strategies as st

from tests.netdict.layers.ragged import FEW, LENGTHS, drawn, outputs


@FEW
@given(lengths=LENGTHS, times=st.integers(2, 3))
def test_in_time(lengths, times):
    x = drawn(lengths)
    net = {"output": {"class": "concat", "from": [("data", "T")] * times}}
    whole = np.concatenate([x] * times, 1)
    for found, row, length in zip(outputs(net, x, lengths), whole, lengths, strict=True):
        np.testing.assert_array_equal(found, row[: length * times])


def test_in_features():
    x = drawn([4, 2])
    twice = {"class": "eval", "eval": "source(0)[:, :, :2] * 2.0", "from": "data"}
    net = {"twice": twice, "output": {"class": "concat", "from": [("data", "F"), ("twice", "F")]}}
    for found, row in zip(outputs(net, x, [4, 2]), x, strict=True):
        np.testing.assert_array_equal(found, np.concatenate([row, row[:, :2] * 2], -1)[: len(found)])
