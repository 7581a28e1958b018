"""Frames of all sequences as one batch, against loops."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rfnb.errors import NetworkError
from tests.netdict.layers.ragged import FEW, LENGTHS, drawn, outputs


@FEW
@given(lengths=LENGTHS, batch_major=st.booleans())
def test_flatten_and_unflatten(lengths, batch_major):
    x = drawn(lengths)
    net = {
        "flat": {"class": "flatten_batch", "batch_major": batch_major, "from": "data"},
        "output": {"class": "unflatten_batch", "from": "flat"},
    }
    pairs = [(b, t) for b in range(len(lengths)) for t in range(max(lengths)) if t < lengths[b]]
    pairs = pairs if batch_major else sorted(pairs, key=lambda pair: pair[1])
    flat = np.array(outputs(net, x, lengths, "flat"))
    np.testing.assert_array_equal(flat, [x[b, t] for b, t in pairs])
    if batch_major:
        for found, row, length in zip(outputs(net, x, lengths), x, lengths, strict=True):
            np.testing.assert_array_equal(found, row[:length])


@FEW
@given(lengths=LENGTHS)
def test_merged_with_padding_and_split_again(lengths):
    x = drawn(lengths)
    net = {
        "flat": {"class": "merge_dims", "axes": ["B", "T"], "from": "data"},
        "output": {"class": "split_batch_time", "base": "data", "from": "flat"},
    }
    assert len(outputs(net, x, lengths, "flat")) == len(lengths) * max(lengths)
    for found, row, length in zip(outputs(net, x, lengths), x, lengths, strict=True):
        np.testing.assert_array_equal(found, row[:length])


def test_without_a_batch_there_is_nothing_to_flatten():
    layer = {"class": "flatten_batch", "axis": "F", "from": "range"}
    with pytest.raises(NetworkError, match="needs a batch"):
        outputs({"range": {"class": "range", "limit": 3}, "output": layer}, drawn([1]), [1])
