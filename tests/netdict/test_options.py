"""Options of layers: their types and axes, unknown ones, and what an error says."""

import pytest

import rfnb as rf
from rfnb.errors import DimError, NetworkError, RfError


def constructed(layer, version=0, **more):
    extern = rf.ExternData({"data": {"dim": 6}, "classes": {"dim": 3, "sparse": True}})
    net = rf.Network({"behavior_version": version}, extern)
    return net.construct_from_dict({"output": layer, **more})


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ({"class": "liner", "from": "data"}, "did you mean 'linear'"),
        ({"class": "linear", "from": "data", "n_ot": 3}, "did you mean 'n_out'"),
        ({"class": "linear", "from": "data", "n_out": "3"}, "n_out has a value of another type"),
        ({"class": "linear", "from": "data"}, "number of outputs is missing"),
        ({"class": "linear", "from": "data", "n_out": 3, "activation": "tan"}, "did you mean 'tanh'"),
        ({"class": "conv", "from": "data", "n_out": 3}, "the option filter_size is missing"),
        ({"class": "reduce", "from": "data", "axes": "stag:tyme"}, "stag:tyme"),
        ({"class": "reduce", "from": "data", "mode": "men", "axes": "T"}, "did you mean"),
        ({"class": "rec", "from": "data", "n_out": 3, "unit": "nativelstm3"}, "did you mean 'nativelstm"),
        ({"class": "softmax", "from": "data", "loss": "cee"}, "did you mean 'ce'"),
        ({"class": "softmax", "from": "data", "loss": "ce", "loss_opts": {"scal": 2}}, "did you mean 'scale'"),
        ({"class": "combine", "from": "data", "kind": "ad"}, "did you mean 'add'"),
        ({"class": "linear", "from": "data", "n_out": 3, "forward_weights_init": "glorot"}, "no initializer"),
        ({"class": "linear", "from": "data", "n_out": 3, "reuse_params": "a"}, "no parameter 'W'"),
        ({"class": "eval", "from": "data", "eval": "().__class__"}, "may not read"),
        ({"class": "eval", "from": "data", "eval": "source(0) + nothing"}, "nothing"),
        ("linear", "not described by a dict"),
    ],
)
def test_an_error_names_the_layer_and_the_way_out(layer, said):
    with pytest.raises(RfError) as caught:
        constructed(layer, a={"class": "copy", "from": "data"})
    assert "'output'" in str(caught.value)
    assert said in str(caught.value)


def test_the_line_of_a_config_is_told(tmp_path):
    path = tmp_path / "net.config"
    path.write_text(
        "extern_data = {'data': {'dim': 3}}\n\nnetwork = {\n  'output': {'class': 'linear', 'from': 'data'}}\n"
    )
    with pytest.raises(NetworkError, match="line 4"):
        rf.Network.from_config(path)


def test_axes_by_number_until_version_4():
    layer = {"class": "reduce", "mode": "sum", "axes": -1, "from": "data"}
    assert len(constructed(layer).template("output").dims) == 2
    with pytest.raises(DimError, match="version 5"):
        constructed(layer, version=5)


def test_from_is_data_in_version_0_and_required_later():
    assert constructed({"class": "copy"}).template("output").feature_dim.dimension == 6
    with pytest.raises(NetworkError, match="from"):
        constructed({"class": "copy"}, version=1)


def test_the_version_that_is_set_holds_for_later_networks():
    rf.set_behavior_version(1)
    try:
        assert rf.Network(extern_data=rf.ExternData({})).behavior_version == 1
    finally:
        rf.set_behavior_version(0)
    with pytest.raises(rf.errors.OptionError):
        rf.set_behavior_version(-1)


def test_conv_has_a_bias_since_version_10():
    conv = {"class": "conv", "n_out": 2, "filter_size": [3], "padding": "same", "from": "data"}
    assert set(constructed(conv).get_layer("output").params) == {"W"}
    assert set(constructed(conv, version=10).get_layer("output").params) == {"W", "bias"}


@pytest.mark.parametrize(("version", "first"), [(0, 2), (6, 3)])
def test_merge_dims_takes_the_order_of_its_axes_since_version_6(version, first):
    import numpy as np

    net = constructed(
        {"class": "merge_dims", "axes": ["F", "dim:2"], "from": "split"},
        version=version,
        split={"class": "split_dims", "axis": "F", "dims": [2, 3], "from": "data"},
    )
    x = np.arange(6.0).reshape(1, 1, 6)
    expected = x if version == 0 else x.reshape(1, 1, 2, 3).swapaxes(2, 3).reshape(1, 1, 6)
    assert net.forward({"data": x})["output"].raw_tensor.tolist() == expected.tolist()


def test_comments_among_the_options_are_ignored():
    net = constructed({"class": "copy", "from": "data", "#note": 1}, **{"#old": {"class": "nothing"}})
    assert list(net.layers) == ["output"]
