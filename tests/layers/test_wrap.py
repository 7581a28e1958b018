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
    assert {name for name, _ in net.named_parameters()} == {"output.inner.0.W", "output.inner.0.b"}
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
