"""dot, and which dims of its sources are the same."""

import numpy as np
import pytest

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import NetworkError

X = np.random.default_rng(0).normal(size=(3, 6, 5)).astype("float32")
LENGTHS = [6, 4, 0]


def computed(net_dict, extern, version):
    net = rf.Network({"behavior_version": version}, rf.ExternData(extern))
    net.construct_from_dict(net_dict)
    values = {}
    for path, layer in net.layers.items():
        for name, parameter in layer.params.items():
            shape = [dim.dimension for dim in parameter.dims]
            values.setdefault(path, {})[name] = np.random.default_rng(len(values)).normal(size=shape)
    net.set_param_values_by_dict(values)
    out = net.forward(dict.fromkeys(extern, (X, LENGTHS)))["output"]
    return net, out.copy_transpose(net.template("output").dims).copy_masked(0).raw_tensor.detach().numpy()


def of_the_user(*names):
    """Two data keys with one time and features of one size, which are dims of these names."""
    time, dims = rf.SpatialDim("time"), {name: rf.FeatureDim(name, 5) for name in names}
    tags = {"a": [batch_dim, time, dims[names[0]]], "b": [batch_dim, time, dims[names[-1]]]}
    return time, {key: {"dim_tags": tag, "available_for_inference": True} for key, tag in tags.items()}


@pytest.mark.parametrize("version", [15, 16, 21])
def test_features_of_one_size_are_different_dims(version):
    time, extern = of_the_user("mine", "other")
    net, found = computed({"output": {"class": "dot", "from": ["data:a", "data:b"], "reduce": time}}, extern, version)
    valid = np.where(np.arange(6)[None, :, None] < np.array(LENGTHS)[:, None, None], X, 0)
    np.testing.assert_allclose(found, np.einsum("btf,btg->bfg", valid, valid), rtol=1e-4, atol=1e-5)
    assert net.template("output").feature_dim.name == "other"
    time, extern = of_the_user("mine")
    _, found = computed({"output": {"class": "dot", "from": ["data:a", "data:b"], "reduce": time}}, extern, version)
    np.testing.assert_allclose(found, np.einsum("btf,btf->bf", valid, valid), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("version", "matches"), [(15, True), (16, False)])
@pytest.mark.parametrize(
    "layer",
    [
        {"class": "combine", "kind": "mul"},
        {"class": "eval", "eval": "source(0) * source(1)"},
        {"class": "compare", "kind": "equal"},
    ],
)
def test_other_layers_match_sizes_before_version_16(layer, version, matches):
    _, extern = of_the_user("mine", "other")
    layer = {**layer, "from": ["data:a", "data:b"]}
    if not matches:  # each source lacks the features of the other one
        with pytest.raises(NetworkError, match="all sources need broadcasting"):
            computed({"output": layer}, extern, version)
        layer["allow_broadcast_all_sources"] = True
    net, found = computed({"output": layer}, extern, version)
    names = [dim.name for dim in net.template("output").dims]
    assert names == ["batch", "time", "mine", *([] if matches else ["other"])]
    assert net.template("output").feature_dim.name == names[-1]
    if not matches and layer["class"] != "compare":
        valid = np.where(np.arange(6)[None, :, None] < np.array(LENGTHS)[:, None, None], X, 0)
        np.testing.assert_allclose(found, valid[..., None] * valid[..., None, :], rtol=1e-5)


@pytest.mark.parametrize(("version", "count"), [(15, 3), (16, 4)])
def test_sides_of_a_switch_match_as_sources_do(version, count):
    _, extern = of_the_user("mine", "other")
    condition = {"class": "compare", "kind": "greater", "value": 0.0, "from": "data:a"}
    switch = {"class": "switch", "condition": "condition", "true_from": "data:a", "false_from": "data:b"}
    if count == 4:  # each side lacks the features of the other one
        with pytest.raises(NetworkError, match="all sources need broadcasting"):
            computed({"condition": condition, "output": switch}, extern, version)
        switch["allow_broadcast_all_sources"] = True
    net, found = computed({"condition": condition, "output": switch}, extern, version)
    assert len(net.template("output").dims) == count
    expected = X[0] if count == 3 else np.where(X[0, ..., None] > 0, X[0, ..., None], X[0, :, None])
    np.testing.assert_array_equal(found[0], expected)


LINEAR = {"class": "linear", "n_out": 4, "activation": None, "from": "data"}
TWO = {"a": LINEAR, "b": LINEAR}


@pytest.mark.parametrize(
    ("layers", "sources", "apart"),
    [
        (TWO, ["a", "b"], True),
        (TWO, ["a", "a"], False),
        ({"a": LINEAR, "b": {**LINEAR, "from": "a"}}, ["a", "b"], False),
        ({**TWO, "both": {"class": "combine", "kind": "add", "from": ["a", "b"]}}, ["both", "b"], True),
        ({**TWO, "both": {"class": "combine", "kind": "add", "from": ["a", "b"]}}, ["both", "a"], False),
        ({"a": {**LINEAR, "n_out": 5}}, ["a", "data"], False),
    ],
)
@pytest.mark.parametrize("version", [13, 14])
def test_dims_for_numbers_are_apart_by_the_layer_that_made_them(layers, sources, apart, version):
    dot = {"class": "dot", "red1": "T", "red2": "T", "from": sources}
    net, found = computed({**layers, "output": dot}, {"data": {"dim": 5}}, version)
    assert len(net.template("output").dims) == (3 if apart and version >= 14 else 2)
    net, found = computed(
        {**layers, "output": {**dot, "var1": "F", "var2": "F"}, "x": {"class": "copy", "from": sources[0]}},
        {"data": {"dim": 5}}, version,
    )  # fmt: skip
    assert found.ndim == 3


def test_as_many_features_as_those_of_the_user_are_the_same_dim():
    time, extern = of_the_user("mine")
    linear = {"class": "linear", "n_out": 5, "activation": None, "from": "data:a"}
    dot = {"class": "dot", "from": ["data:a", "linear"], "reduce": time}
    net, _ = computed({"linear": linear, "output": dot}, extern, 21)
    assert net.template("output").describe_dims() == "{batch:?, mine:5}"


def test_the_features_are_the_last_axis_of_a_fixed_size():
    split = {"class": "split_dims", "axis": "F", "dims": (2, 2)}
    net, _ = computed({
        **TWO, "s": {**split, "from": "a"}, "r": {**split, "from": "b"},
        "output": {"class": "dot", "red1": "F", "red2": "F", "var1": "T", "var2": "T", "from": ["s", "r"]},
    }, {"data": {"dim": 5}}, 0)  # fmt: skip
    assert net.template("output").feature_dim.dimension == 2


@pytest.mark.parametrize(
    ("more", "dims"), [({}, "{batch:?, feature:5, feature:1}"), ({"add_var2_if_empty": False}, "{batch:?, feature:5}")]
)
def test_before_version_3_no_axes_are_none_and_are_not_the_default(more, dims):
    weights = {"class": "reduce", "mode": "mean", "axes": "F", "from": "data"}
    dot = {"class": "dot", "red1": "T", "red2": "T", "var1": "F", "from": ["data", "weights"]}
    net, found = computed({"weights": weights, "output": {**dot, "var2": None, **more}}, {"data": {"dim": 5}}, 0)
    assert net.template("output").describe_dims() == dims
    frames = [x[:n] for x, n in zip(X, LENGTHS, strict=True)]
    np.testing.assert_allclose(found.reshape(3, 5), [x.T @ x.mean(1) for x in frames], atol=1e-5)
    with pytest.raises(NetworkError, match="reduced, and kept"):
        computed({"weights": weights, "output": dot}, {"data": {"dim": 5}}, 0)
