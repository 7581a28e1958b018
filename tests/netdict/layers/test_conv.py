"""conv, pool and transposed_conv with `out_spatial_dims`, against plain loops."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError
from tests.netdict.layers.ragged import FEW, LENGTHS, drawn


def frames_of(layers, batches):
    """For each batch the valid frames of "output", and their lengths as the dim of the user has them."""
    half = rf.SpatialDim("half")
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    net.construct_from_dict({"output": {"from": "data", "out_spatial_dims": [half], **layers}})
    for x, lengths in batches:
        out = net.forward({"data": (x, lengths)})["output"]
        array = out.copy_transpose([rf.batch_dim, half, out.feature_dim]).raw_tensor.detach().numpy()
        yield [row[:size] for row, size in zip(array, np.broadcast_to(half.size.values, len(array)), strict=True)]


def pooled(x, n, size, stride, padding):
    """The maxima of windows over the first frames of `x`, with zeros that count from its end, as -∞."""
    count = -(-n // stride) if padding == "same" else max(-(-(n - size + 1) // stride), 0)
    longest = len(x)
    around = max((-(-longest // stride) - 1) * stride + size - longest, 0) if padding == "same" and longest else 0
    rows = np.concatenate([np.full((around // 2, 3), -np.inf), x, np.full((size + stride, 3), -np.inf)])
    return np.array([rows[i * stride : i * stride + size].max(0) for i in range(count)]).reshape(count, 3)


@FEW
@given(
    st.lists(LENGTHS, min_size=1, max_size=2), st.integers(1, 4), st.integers(1, 4), st.sampled_from(["same", "valid"])
)
def test_pool_rounds_each_length_up(several, size, stride, padding):
    layer = {"class": "pool", "mode": "max", "pool_size": (size,), "strides": stride, "padding": padding}
    batches = [(drawn(lengths), lengths) for lengths in several]
    for (x, lengths), found in zip(batches, frames_of(layer, batches), strict=True):
        for rows, row, n in zip(x, found, lengths, strict=True):
            np.testing.assert_allclose(row, pooled(rows, n, size, stride, padding))


@pytest.mark.parametrize("options", [{"strides": 2}, {"strides": 3}, {"dilation_rate": 2}, {"padding": "valid"}])
def test_conv_has_the_lengths_that_it_has_without_them(options):
    lengths = [7, 4, 1, 0]
    layer = {"class": "conv", "n_out": 2, "filter_size": (3,), "padding": "same", **options}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    net.construct_from_dict({"output": {**layer, "from": "data"}})
    out = net.forward({"data": (drawn(lengths), lengths)})["output"]
    found = next(frames_of(layer, [(drawn(lengths), lengths)]))
    assert [len(row) for row in found] == out.size_of(net.template("output").dims[1]).values.tolist()


@pytest.mark.parametrize("lengths", [[6, 4, 3], [7, 5, 0], [1]])
def test_transposed_conv_comes_back_to_a_dim_of_the_data(lengths):
    time, feature = rf.SpatialDim("time"), rf.FeatureDim("feature", 3)
    tags = {"data": {"dim_tags": [rf.batch_dim, time, feature]}}
    net = rf.Network(extern_data=rf.ExternData(tags))
    net.construct_from_dict({
        "short": {"class": "pool", "mode": "max", "pool_size": (2,), "padding": "same", "from": "data"},
        "output": {"class": "transposed_conv", "filter_size": (2,), "n_out": 2, "from": "short"}
        | {"out_spatial_dims": [time]},
    })  # fmt: skip
    out = net.forward({"data": (drawn(lengths), lengths)})["output"]
    assert time in out.dims
    assert np.broadcast_to(out.size_of(time).values, len(lengths)).tolist() == lengths


def test_a_dim_that_is_longer_than_the_result_is_an_error():
    time, words = rf.SpatialDim("time"), rf.SpatialDim("words")
    extern = {
        key: {"dim_tags": [rf.batch_dim, dim, rf.FeatureDim(key, 3)], "available_for_inference": True}
        for key, dim in (("data", time), ("words", words))
    }
    net = rf.Network(extern_data=rf.ExternData(extern))
    net.construct_from_dict({
        "pool": {"class": "pool", "mode": "max", "pool_size": (1,), "from": "data", "out_spatial_dims": [words]},
        "output": {"class": "copy", "from": ["pool", "data:words"]},
    })  # fmt: skip
    with pytest.raises(DimError, match="words"):
        net.forward({"data": (drawn([4, 2]), [4, 2]), "words": (drawn([6, 1]), [6, 1])})
