"""shift_axis and resize, against loops over the padded axis, of which the padding is 0 here."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.layers.ragged import FEW, LENGTHS, drawn, outputs


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
@given(lengths=LENGTHS, amount=st.integers(-3, 3).filter(bool))
def test_shift_axis_without_padding_is_shorter(lengths, amount):
    x, n = drawn(lengths), max(lengths)
    layer = {"class": "shift_axis", "axis": "T", "amount": amount, "pad": False, "from": "data"}
    left = x[:, :-amount] if amount > 0 else x[:, -amount:]
    size = max(n - abs(amount), 0)
    for found, row, length in zip(outputs({"output": layer}, x, lengths), left, lengths, strict=True):
        np.testing.assert_array_equal(found, row[: min(length, size)])


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
