"""Variables that begin with the output of a layer."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError

COUNTED = {
    "count": {"class": "range", "limit": 6, "dtype": "float32"},
    "start": {"class": "split_dims", "from": "count", "axis": "F", "dims": (2, 3)},
    "output": {"class": "variable", "shape": (2, 3), "init_by_layer": "start"},
}


def network(layers, **flags):
    extern = rf.ExternData({"data": {"dim": 3}})
    return rf.Network({"behavior_version": 1}, extern, **flags).construct_from_dict(layers)


def first_values(layers, path="output"):
    [parameter] = network(layers).get_layer(path).params.values()
    return parameter.numpy()


def test_a_variable_begins_with_the_output_of_a_layer():
    np.testing.assert_array_equal(first_values(COUNTED), np.arange(6.0).reshape(2, 3))
    net = network(COUNTED)
    assert list(net.variables()) == ["output/output"]  # as in the reference's checkpoints
    out = net({"data": np.zeros((2, 4, 3), "float32")})["output"]
    np.testing.assert_array_equal(out.numpy(), np.arange(6.0).reshape(2, 3))


def test_it_may_depend_on_another_variable():
    layers = {
        "v": {"class": "variable", "shape": (3,), "init": "glorot_uniform"},
        "twice": {"class": "combine", "kind": "add", "from": ["v", "v"]},
        "output": {"class": "variable", "shape": (3,), "init_by_layer": "twice", "init": 7.0},
    }
    values = network(layers).get_param_values_dict()
    np.testing.assert_array_equal(values["output"]["output"], 2 * values["v"]["v"])


def test_in_a_subnetwork_and_with_other_axes():
    inner = {"class": "variable", "shape": (2, 3), "init_by_layer": "base:start", "param_name": "w"}
    sub = {"class": "subnetwork", "from": [], "subnetwork": {"output": inner}}
    layers = {**COUNTED, "sub": sub, "output": {"class": "copy", "from": "sub"}}
    np.testing.assert_array_equal(first_values(layers, "sub/output"), np.arange(6.0).reshape(2, 3))
    layers = {**COUNTED, "output": {**COUNTED["output"], "add_batch_axis": True, "add_time_axis": True}}
    out = network(layers)({"data": np.zeros((2, 4, 3), "float32")})["output"]
    assert out.copy_transpose([rf.batch_dim, *out.remaining_dims(rf.batch_dim)]).raw_tensor.shape == (2, 1, 2, 3)


def test_the_first_value_counts_once(tmp_path):
    """A trained or loaded value stays: the layer says only where a variable begins."""
    net = network(COUNTED)
    net.set_param_values_by_dict({"output": {"output": np.ones((2, 3))}})
    np.savez(tmp_path / "trained.npz", **{"output/output": np.full((2, 3), 5.0, "float32")})
    batch = {"data": np.zeros((2, 4, 3), "float32")}
    assert (net(batch)["output"].numpy() == 1).all()
    rf.load(tmp_path / "trained.npz", net)
    assert (net(batch)["output"].numpy() == 5).all()
    again = network({**COUNTED, "more": {"class": "copy", "from": "output", "is_output_layer": True}})
    assert (again.get_layer("output").params["output"].numpy() == np.arange(6).reshape(2, 3)).all()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"output": {"shape": (3, 2)}}, r"another shape or dtype(.|\n)*feature:3(.|\n)*float32 \[3, 2\]"),
        ({"output": {"shape": (6,)}}, "another shape or dtype"),
        ({"count": {"dtype": "int32"}}, "another shape or dtype"),
        ({"start": {"class": "reduce", "mode": "mean", "axes": "bt", "from": "data"}}, "'data:data', which is known"),
        ({"output": {"init_by_layer": "begin"}}, "begin"),
    ],
)
def test_what_a_variable_cannot_begin_with(changes, message):
    layers = {name: {**options, **changes.get(name, {})} for name, options in COUNTED.items()}
    if "start" in changes:
        layers["start"] = changes["start"]
    with pytest.raises(NetworkError, match=message):
        network(layers)
