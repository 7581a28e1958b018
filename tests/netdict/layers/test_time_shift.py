"""shift_axis and resize, against loops over the padded axis, of which the padding is 0 here."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.netdict.layers.ragged import FEW, LENGTHS, drawn, outputs


@FEW
@given(lengths=LENGTHS, amount=st.integers(-3, 3).filter(bool), adjust=st.booleans())
def test_shift_axis_with_padding(lengths, amount, adjust):
    x, n = drawn(lengths), max(lengths)
    layer = {"class": "shift_axis", "axis": "T", "amount": amount, "adjust_size_info": adjust, "from": "data"}
    moved = np.zeros_like(x)
    for t in range(n):
        if 0 <= t - amount < n:
            moved[:, t] = x[:, t - amount]
    for found, row, length in zip(outputs({"output": layer}, x, lengths), moved, lengths, strict=True):
        size = min(max(length + amount, 0), n) if adjust else length
        np.testing.assert_array_equal(found, row[:size])


@FEW
@given(lengths=LENGTHS, amount=st.integers(-3, 3).filter(bool), adjust=st.booleans())
def test_shift_axis_without_padding_is_shorter(lengths, amount, adjust):
    x, n = drawn(lengths), max(lengths)
    layer = {"class": "shift_axis", "axis": "T", "amount": amount, "pad": False, "from": "data"}
    layer["adjust_size_info"] = adjust
    left = x[:, :-amount] if amount > 0 else x[:, -amount:]
    size = max(n - abs(amount), 0)
    for found, row, length in zip(outputs({"output": layer}, x, lengths), left, lengths, strict=True):
        own = max(length + amount, 0) if adjust and amount < 0 else length
        np.testing.assert_array_equal(found, row[: min(own, size)])


@FEW
@given(lengths=LENGTHS, factor=st.integers(1, 4), kind=st.sampled_from(["nn", "linear", "fill"]))
def test_resize(lengths, factor, kind):
    x = drawn(lengths)
    layer = {"class": "resize", "axis": "T", "factor": factor, "kind": kind, "fill_value": 9, "from": "data"}
    for found, row, length in zip(outputs({"output": layer}, x, lengths), x, lengths, strict=True):
        expected = np.zeros((length * factor, 3))
        for t in range(length * factor):
            here, part = divmod(t, factor)
            following = row[min(here + 1, len(row) - 1)]
            expected[t] = {
                "nn": row[here],
                "linear": row[here] + (following - row[here]) * part / factor,
                "fill": 9 if part else row[here],
            }[kind]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ({"class": "shift_axis", "axis": "F", "amount": 1}, lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0)))[..., :3]),
        ({"class": "shift_axis", "axis": "F", "amount": -1, "pad": False}, lambda x: x[..., 1:]),
        ({"class": "resize", "axis": "F", "factor": 2}, lambda x: np.repeat(x, 2, -1)),
    ],
)
def test_along_an_axis_of_fixed_size(layer, expected):
    x = drawn([4, 4])
    np.testing.assert_array_equal(outputs({"output": {**layer, "from": "data"}}, x, [4, 4]), expected(x))


@FEW
@given(LENGTHS, st.integers(1, 4))
def test_a_cubic_curve_goes_through_the_frames(lengths, factor):
    """Each value weights four frames, the first and the last one of the batch repeated (Keys 1981, a = −3/4)."""

    def weight(d, a=-0.75):
        d = abs(d)
        near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        return near if d <= 1 else far if d < 2 else 0.0

    x, longest = drawn(lengths), max(lengths)
    net_dict = {"output": {"class": "resize", "axis": "T", "factor": factor, "kind": "cubic", "from": "data"}}
    for found, row, length in zip(outputs(net_dict, x, lengths), x, lengths, strict=True):
        expected = [
            sum(weight(part / factor - by) * row[min(max(t + by, 0), longest - 1)] for by in (-1, 0, 1, 2))
            for t in range(length)
            for part in range(factor)
        ]
        np.testing.assert_allclose(found, np.reshape(expected, (length * factor, 3)), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[::factor], row[:length], rtol=1e-4, atol=1e-5)


@FEW
@given(LENGTHS, st.integers(1, 4), st.sampled_from([0.3, 1.0]), st.sampled_from(["fill", "nn"]))
def test_fill_dropout_leaves_out_the_same_frames_in_all_sequences(lengths, factor, drop, kind):
    x = drawn(lengths)
    x[..., 0] = np.arange(1, 1 + max(lengths))
    layer = {"class": "resize", "axis": "T", "factor": factor, "kind": kind, "fill_dropout": drop, "from": "data"}
    found = outputs({"output": {**layer, "fill_value": -1}}, x, lengths)
    longest = next(each for each, length in zip(found, lengths, strict=True) if length == max(lengths))
    for each, row, length in zip(found, x, lengths, strict=True):
        assert length <= len(each) <= (length if drop == 1 else length * factor)
        np.testing.assert_array_equal(each[:, 0], longest[: len(each), 0])
        frames = each[each[:, 0] > 0]
        kept, first = np.unique(frames[:, 0], return_index=True)
        assert kept.tolist() == list(range(1, length + 1))
        np.testing.assert_array_equal(frames[first], row[:length])


def test_the_rate_of_fill_dropout():
    """The reference leaves out frames in evaluation too: of 6000 with 0.3, it kept 4239."""
    layer = {"class": "resize", "axis": "T", "factor": 3, "kind": "fill", "fill_dropout": 0.3, "from": "data"}
    [found] = outputs({"output": layer}, np.ones((1, 3000, 1), "float32"), [3000])
    assert abs(len(found) - 3000 - 0.7 * 6000) < 200
    between = np.diff(np.flatnonzero(found[:, 0])) - 1
    np.testing.assert_allclose(np.bincount(between) / len(between), [0.09, 0.42, 0.49], atol=0.05)


def test_what_is_behind_the_end_moves_along():
    """The numbers of the reference; its array keeps one more frame than its longest sequence."""
    x = np.arange(1, 11, dtype="float32").reshape(2, 5, 1)
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 1}}))
    net.construct_from_dict({"output": {"class": "shift_axis", "axis": "T", "amount": -1, "from": "data"}})
    out = net.forward({"data": (x, [5, 2])})["output"]
    array = out.copy_transpose(net.template("output").dims).raw_tensor[..., 0]
    assert array.tolist() == [[2, 3, 4, 5], [7, 8, 9, 10]]


@pytest.mark.parametrize(
    ("layer", "option"),
    [
        ({"class": "window", "window_size": 3, "stride": 2}, "out_spatial_dim"),
        ({"class": "pad", "axes": "T", "padding": (1, 2)}, "out_dims"),
    ],
)
def test_the_new_axis_is_the_dim_that_is_given(layer, option):
    lengths, new = [5, 0, 3], rf.SpatialDim("new")
    x = drawn(lengths)
    plain = {"class": "reduce", "mode": "sum", "from": "new"}
    found, expected = (
        outputs({"new": {"from": "data", **layer, **further}, "output": {**plain, "axis": axis}}, x, lengths)
        for further, axis in (({option: new}, new), ({}, "T"))
    )
    for row, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(row, wanted)
    assert new.is_defined()
