"""gauss_window_attention against its formula."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rfnb.errors import NetworkError
from tests.examples import examples
from tests.netdict.layers.rec.nets import array, run, sequences

EXTERN = {"data": {"dim": 2}, "position": {"dim": 1, "shape": [None, 1]}}


def net_dict(**options):
    att = {"class": "gauss_window_attention", "from": "data:source", "base": "base:data", "window_size": 3, **options}
    return {"output": {"class": "rec", "from": "data:position", "unit": {"output": att}}}


def by_hand(frames, position, *, window_size=3, std=1.0):
    first = int(np.round(position)) - window_size // 2
    out = np.zeros(frames.shape[-1])
    for i in range(first, first + window_size):
        weight = math.exp(-((position - i) ** 2) / (2 * std**2)) / (std * math.sqrt(2 * math.pi))
        out += weight * frames[min(max(i, 0), len(frames) - 1)]
    return out


@examples(8)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=2, max_size=2),
    positions=st.lists(st.floats(-2, 7, width=32), min_size=2, max_size=2),
    window_size=st.integers(1, 4),
    std=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_frames_around_the_position(lengths, positions, window_size, std):
    frames = sequences(0, lengths, 2)
    given_positions = np.asarray(positions, "float32").reshape(2, 1, 1)
    _, out = run(
        net_dict(window_size=window_size, std=std), EXTERN, {"data": frames, "position": (given_positions, [1, 1])}
    )
    for b, length in enumerate(lengths):
        expected = by_hand(frames[0][b, :length], positions[b], window_size=window_size, std=std)
        np.testing.assert_allclose(array(out["output"])[b, 0], expected, atol=1e-5)


def test_several_positions():
    frames, at = sequences(1, [5], 2), 2.25
    options = {"inner_size": 3, "inner_size_step": 0.5}
    position = (np.full((1, 1, 1), at, "float32"), [1])
    net, out = run(net_dict(**options), EXTERN, {"data": frames, "position": position})
    found = array(out["output"])[0, 0]
    expected = [by_hand(frames[0][0], at + k * 0.5 - 1.5) for k in range(3)]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert net.template("output").feature_dim.dimension == 2


def test_more_than_a_position_is_an_error():
    with pytest.raises(NetworkError, match="more than a position"):
        run(net_dict(**{"from": "base:data"}), EXTERN, {})
