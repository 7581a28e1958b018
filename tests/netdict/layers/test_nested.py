"""Layers inside of a layer: cond."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError, RfError

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
YES = {"class": "linear", "n_out": 2, "activation": "tanh", "from": "data"}
NO = {"class": "linear", "n_out": 2, "activation": "relu", "from": "data"}
COND = {"class": "cond", "condition": "positive", "true_layer": YES, "false_layer": NO, "L2": 0.5}
CONDITION = {
    "largest": {"class": "reduce", "mode": "max", "axes": ["B", "T", "F"], "from": "data"},
    "positive": {"class": "compare", "kind": "greater", "value": 0.0, "from": "largest"},
}


def built(layer, **options):
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 4}}), **options)
    return net.construct_from_dict({**CONDITION, "output": layer})


@pytest.mark.parametrize("sign", [1, -1])
def test_one_of_two_layers_with_the_same_parameters(sign):
    net = built({**COND, "loss": "as_is"}, train_flag=True)
    assert set(net.get_layer("output").params) == {"W", "b"}
    assert {name for name, _ in net.named_parameters()} == {
        f"output.inner.true_layer.layers.true_layer.{name}" for name in "Wb"
    }
    w = net.get_layer("output").params["W"]
    x = sign * np.abs(X)
    out = net.forward({"data": x})["output"].copy_transpose(net.template("output").dims)
    y = x @ w.numpy()
    np.testing.assert_allclose(out.raw_tensor.detach(), np.tanh(y) if sign == 1 else np.maximum(y, 0), rtol=1e-5)
    constraint = net.get_total_constraints().item()
    assert constraint == pytest.approx(0.5 * (w.numpy() ** 2).sum(), rel=1e-5)
    net.get_total_loss().backward()
    assert w.raw_tensor.grad.abs().sum() > 0


def test_a_side_may_be_another_layer_and_takes_layers_as_inputs():
    gathered = {"class": "gather", "axis": "F", "position": "first", "from": "data"}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 4}}))
    first = {"class": "constant", "value": 1, "dtype": "int32"}
    last = {"class": "slice", "axis": "F", "slice_start": 3, "from": "data"}
    squeezed = {"class": "squeeze", "axis": "F", "from": "last"}
    layer = {"class": "cond", "condition": "positive", "true_layer": gathered, "false_layer": "squeezed"}
    net.construct_from_dict({**CONDITION, "first": first, "last": last, "squeezed": squeezed, "output": layer})
    np.testing.assert_array_equal(net.forward({"data": np.abs(X)})["output"].raw_tensor, np.abs(X)[..., 1])
    np.testing.assert_array_equal(net.forward({"data": -np.abs(X)})["output"].raw_tensor, -np.abs(X)[..., 3])


def test_saved_and_loaded(tmp_path):
    net, other = built(COND), built(COND)
    rf.save(net, tmp_path / "net.safetensors")
    rf.load(tmp_path / "net.safetensors", other)
    np.testing.assert_array_equal(net.get_layer("output").params["W"].numpy(), other.get_layer("output").params["W"])


def test_a_side_must_be_given_and_must_be_right():
    with pytest.raises(NetworkError, match="false_layer is missing"):
        built({"class": "cond", "condition": "positive", "true_layer": YES})
    with pytest.raises(RfError, match="activatoin"):
        built({**COND, "true_layer": {**YES, "activatoin": "tanh"}})


SUBNET = {
    "class": "subnetwork",
    "from": "data",
    "subnetwork": {
        "hidden": {"class": "linear", "n_out": 3, "activation": "tanh", "from": "data"},
        "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 3, "from": "hidden"},
        "output": {"class": "linear", "n_out": 2, "activation": None, "from": ["lstm", "base:data"]},
    },
}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_side_may_be_a_subnetwork(sign):
    """Its parameters have the names of its layers, behind that of the cond; both sides find data as outside."""
    rf.set_random_seed(0)
    extern = rf.ExternData({"data": {"dim": 4}})
    side = rf.Network(extern_data=extern).construct_from_dict({"output": SUBNET})
    cond = {"class": "cond", "condition": "positive", "true_layer": SUBNET, "false_layer": NO}
    net = built(cond)
    names = {"W", "b", "hidden/W", "hidden/b", "lstm/rec/W", "lstm/rec/W_re", "lstm/rec/b", "output/W", "output/b"}
    assert set(net.get_layer("output").params) == names
    assert set(net.variables()) == {f"output/{name}" for name in names}
    own = net.get_layer("output").params
    for path, each in side.get_param_values_dict().items():
        name = path.removeprefix("output/")
        for key, array in each.items():
            own[f"{name}/rec/{key}" if name == "lstm" else f"{name}/{key}"].assign(array)
    x = sign * np.abs(X)
    found = net.forward({"data": x})["output"].copy_transpose(net.template("output").dims).raw_tensor.detach().numpy()
    expected = side.forward({"data": x})["output"]
    expected = expected.copy_transpose(side.template("output").dims).raw_tensor.detach().numpy()
    if sign == -1:
        expected = np.maximum(x @ own["W"].numpy() + own["b"].numpy(), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_what_fails_in_the_side_that_is_not_taken_is_in_the_report():
    bad = {"class": "eval", "eval": "tf.reduce_sum(source(0), axis=7)", "from": "data"}
    with pytest.raises(RfError, match="axis 7"):
        built({"class": "cond", "condition": "positive", "true_layer": YES, "false_layer": bad})


def test_a_side_with_a_state_in_a_loop_is_refused():
    cell = {"class": "rnn_cell", "unit": "standardlstm", "n_out": 2, "from": "data:source"}
    unit = {
        "yes": {"class": "compare", "kind": "greater", "value": 0, "from": ":i"},
        "output": {"class": "cond", "condition": "yes", "true_layer": cell, "false_layer": "prev:output"},
    }
    with pytest.raises(NetworkError, match="carries a state"):
        built({"class": "rec", "unit": unit, "from": "data"})


def test_a_cond_in_a_loop():
    unit = {
        "late": {"class": "compare", "kind": "greater", "value": 0, "from": ":i"},
        "x": {"class": "linear", "n_out": 2, "activation": None, "from": "data:source"},
        "output": {"class": "cond", "condition": "late", "false_layer": "x"}
        | {"true_layer": {"class": "combine", "kind": "add", "from": ["x", "prev:output"]}},
    }
    net = built({"class": "rec", "unit": unit, "from": "data"})
    out = net.forward({"data": X})
    w, b = (net.get_layer("output/x").params[name].numpy() for name in "Wb")
    found = out["output"].copy_transpose(net.template("output").dims).raw_tensor.detach().numpy()
    found = found if found.shape[0] == 2 else found.swapaxes(0, 1)
    np.testing.assert_allclose(found, (X @ w + b).cumsum(1), rtol=1e-4, atol=1e-5)


def test_a_function_of_the_config_inside_of_a_layer():
    """A unit of masked_computation and a side of cond find the values of the config, as layers outside do."""
    called = "self.network.get_config().typed_value('twice')(source(0))"
    unit = {"class": "eval", "eval": called, "from": "data"}
    masked = {
        "mask": {"class": "compare", "kind": "greater", "value": -1e9, "from": "sum"},
        "sum": {"class": "reduce", "mode": "sum", "axes": "F", "from": "data"},
        "masked": {"class": "masked_computation", "mask": "mask", "unit": unit, "from": "data"},
    }
    extern = rf.ExternData({"data": {"dim": 4}})
    net = rf.Network({"twice": lambda x: x * 2.0}, extern)
    layer = {"class": "cond", "condition": "positive", "true_layer": unit, "false_layer": "masked"}
    net.construct_from_dict({**CONDITION, **masked, "output": layer})
    for x in (np.abs(X), -np.abs(X)):
        out = net.forward({"data": x})
        np.testing.assert_allclose(out["masked"].copy_transpose(net.template("masked").dims).raw_tensor, 2 * x)
    np.testing.assert_allclose(net.forward({"data": np.abs(X)})["output"].raw_tensor, 2 * np.abs(X))
