"""Layers that change axes: tile, and what reinterpret_data switches."""

import numpy as np
import pytest
from hypothesis import given

import rfnb as rf
from tests.netdict.layers.ragged import FEW, LENGTHS, drawn, outputs

X = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("float32")


@FEW
@given(LENGTHS)
def test_tile_begins_again_behind_the_longest_sequence(lengths):
    x = drawn(lengths)
    net_dict = {"output": {"class": "tile", "multiples": {"T": 3, "F": 2}, "from": "data"}}
    for found, row, length in zip(outputs(net_dict, x, lengths), x, lengths, strict=True):
        np.testing.assert_array_equal(found, np.tile(row, (3, 2))[: 3 * length])


def switched(switch, after="copy", **options):
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 4}}))
    net.construct_from_dict({
        "pairs": {"class": "split_dims", "axis": "F", "dims": (2, 2), "from": "data"},
        "switched": {"class": "reinterpret_data", "switch_axes": switch, "from": "pairs"},
        "output": {"class": after, "from": "switched", **options},
    })  # fmt: skip
    return net, net.forward({"data": (X, [3, 2])})["output"]


@pytest.mark.parametrize("axes", ["bt", ["B", "T"], ["T", "B"]])
def test_the_batch_and_the_time_change_places(axes):
    """A reduction over the new time is one over the sequences of the batch; padding counts, as it did."""
    net, out = switched(axes, "reduce", mode="mean", axes="T")
    batch, pair, feature = net.template("output").dims
    assert batch.is_batch_dim() and batch is not rf.batch_dim and feature is out.feature_dim
    found = out.copy_transpose([batch, pair, feature]).raw_tensor.numpy()
    np.testing.assert_allclose(found, X.reshape(2, 3, 2, 2).mean(0), rtol=1e-5)


def test_features_change_places_with_an_axis_of_fixed_size():
    net, out = switched(["F", "stag:pairs_split_dims0"], "reduce", mode="sum", axes="F")
    found = out.copy_transpose(net.template("output").dims).raw_tensor.numpy()
    np.testing.assert_allclose(found, X.reshape(2, 3, 2, 2).sum(2), rtol=1e-5)


def test_the_first_spatial_axis_is_the_time():
    net, out = switched(["T", "stag:pairs_split_dims0"], "merge_dims", axes=["stag:pairs_split_dims0", "T"])
    assert [dim.name for dim in net.template("switched").dims[1:3]] == ["static", "data"]
    assert len(out.dims) == 3
