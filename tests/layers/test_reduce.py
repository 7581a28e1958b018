"""weighted_sum over windows, against numpy."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import NetworkError
from tests.layers.ragged import FEW, LENGTHS, drawn, parts_of


def built(**options):
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    return net.construct_from_dict({"output": {"class": "weighted_sum", "from": "data", **options}})


@FEW
@given(LENGTHS, st.integers(1, 4), st.sampled_from(["same", "valid"]))
def test_over_windows(lengths, size, padding):
    x, net = drawn(lengths), built(axes="T", size=(size,), padding=padding)
    net.set_param_values_by_dict({"output": {"W": (w := np.arange(1.0, size + 1))}})
    before = (size - 1) // 2
    for found, row, length in zip(
        parts_of(net, net.forward({"data": (x, lengths)})["output"]), x, lengths, strict=True
    ):
        if padding == "same":
            row = np.concatenate([np.zeros((before, 3)), row, np.zeros((size, 3))])
        count = length if padding == "same" else max(length - size + 1, 0)
        expected = [(row[i : i + size] * w[:, None]).sum(0) for i in range(count)]
        np.testing.assert_allclose(found, np.reshape(expected, (count, 3)), rtol=1e-4, atol=1e-5)


def test_over_two_axes():
    x, net = drawn([5]), built(axes=["T", "F"], size=(2, 2))
    w = np.array([[1.0, 2.0], [3.0, 4.0]])
    net.set_param_values_by_dict({"output": {"W": w}})
    found = parts_of(net, net.forward({"data": (x, [5])})["output"])[0]
    expected = [[(x[0, i : i + 2, j : j + 2] * w).sum() for j in range(2)] for i in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert net.template("output").feature_dim.dimension == 2


def test_a_whole_axis_is_a_window_too():
    net = built(axes="F", keep_dims=True)
    x = drawn([4, 2])
    found = parts_of(net, net.forward({"data": (x, [4, 2])})["output"])
    np.testing.assert_allclose(found[1], x[1, :2].mean(-1, keepdims=True), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("options", [{"size": (2, 3), "axes": "T"}, {"axes": "T"}, {"axes": "T", "keep_dims": True}])
def test_sizes_are_checked(options):
    with pytest.raises(NetworkError, match="weighted_sum"):
        built(**options)
