"""Parameters that are others in each call of a layer: dropout, noise, the outputs of layers."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError

LINEAR = {"class": "linear", "n_out": 2, "activation": None, "from": "data"}
X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")


def built(net_dict, **options):
    extern = rf.ExternData({"data": {"dim": 4}, "labels": {"dim": 5, "sparse": True}})
    return rf.Network(extern_data=extern, **options).construct_from_dict(net_dict)


def output(net, name="output", x=X):
    out = net.forward({"data": x})[name]
    return out.copy_transpose(net.template(name).dims).raw_tensor.detach().numpy()


def param(net, name, layer="output"):
    return net.get_layer(layer).params[name].numpy()


def test_dropout_of_parameters_is_for_training():
    rf.set_random_seed(3)
    net_dict = {"output": {**LINEAR, "param_dropout": 0.5, "param_dropout_min_ndim": 2, "bias_init": 1.0}}
    net = built(net_dict, train_flag=True)
    one = np.eye(4, dtype="float32")[None]
    dropped = output(net, x=one)[0] - 1.0  # the bias has one axis, so that it stays
    w = param(net, "W")
    assert np.isclose(np.where(np.isclose(dropped, 0), w * 2, dropped), w * 2).all()
    assert 0 < np.isclose(dropped, 0).sum() < 8
    assert not np.allclose(output(net, x=one)[0] - 1.0, dropped)
    net.get_layer("output").params["W"]  # stays
    np.testing.assert_array_equal(param(net, "W"), w)
    evaluated = built(net_dict, train_flag=False)
    evaluated.set_param_values_by_dict(net.get_param_values_dict())
    np.testing.assert_allclose(output(evaluated), X @ w + 1.0, rtol=1e-5)


@pytest.mark.parametrize("of_all", [True, False])
def test_noise_of_parameters_comes_from_the_layer_or_the_config(of_all):
    rf.set_random_seed(1)
    own = {} if of_all else {"param_variational_noise": 0.5}
    config = {"param_variational_noise": 0.5} if of_all else {}
    net = built({"output": {**LINEAR, "with_bias": False, **own}}, config=config, train_flag=True)
    net.set_param_values_by_dict({"output": {"W": np.zeros((4, 2))}})
    found = np.stack([output(net, x=np.eye(4, dtype="float32")[None])[0] for _ in range(400)])
    assert abs(found.mean()) < 0.05 and abs(found.std() - 0.5) < 0.03
    net.get_layer("output").params["W"].raw_tensor.grad = None
    out = net.forward({"data": X})["output"]
    rf.reduce_sum(out, axis=list(out.dims)).raw_tensor.backward()
    np.testing.assert_allclose(
        net.get_layer("output").params["W"].raw_tensor.grad[:, 0], X.sum((0, 1)), rtol=1e-4, atol=1e-5
    )


def test_noise_is_the_same_in_all_steps_of_a_loop():
    rf.set_random_seed(1)
    unit = {
        "x": {**LINEAR, "from": "data:source", "with_bias": False, "param_variational_noise": 1.0},
        "output": {"class": "combine", "kind": "add", "from": ["x", "prev:output"]},
    }
    rec = {"class": "rec", "unit": unit, "from": "data", "optimize_move_layers_out": False}
    net = built({"output": rec}, train_flag=True)
    x = np.ones((1, 5, 4), "float32")
    found = output(net, x=x)[:, 0] if net.template("output").dims[0] is not rf.batch_dim else output(net, x=x)[0]
    steps = np.diff(found, axis=0)
    np.testing.assert_allclose(steps, np.broadcast_to(steps[0], steps.shape), rtol=1e-4, atol=1e-5)
    assert not np.allclose(output(net, x=x), output(net, x=x))


def test_a_cell_with_noise_in_a_loop_and_outside():
    rf.set_random_seed(1)
    cell = {"class": "rnn_cell", "unit": "standardlstm", "n_out": 3, "param_variational_noise": 0.3}
    unit = {"output": {**cell, "from": ["data:source", "prev:output"]}}
    net = built({"output": {"class": "rec", "unit": unit, "from": "data"}}, train_flag=True)
    assert not np.allclose(output(net), output(net))
    whole = {"class": "rec", "unit": "nativelstm2", "n_out": 3, "from": "data", "param_dropout": 0.5}
    net = built({"output": whole}, train_flag=True)
    assert not np.allclose(output(net), output(net))
    assert all(isinstance(each, rf.Parameter) for each in net.get_layer("output").params.values())


def test_the_output_of_a_layer_in_place_of_a_parameter():
    net_dict = {
        "rows": {"class": "variable", "shape": [2, 4], "init": "glorot_uniform"},
        "table": {"class": "activation", "activation": "tanh", "from": "rows"},
        "labels": {**LINEAR, "n_out": 4, "from": "data:labels"},
        "output": {**LINEAR, "use_transposed_weights": True}
        | {"reuse_params": {"map": {"W": {"layer_output": "table"}, "b": None}}},
    }
    net = built(net_dict)
    assert set(net.get_layer("output").params) == {"b"} and set(net.get_param_values_dict()) == {"rows", "output"}
    table = np.tanh(net.get_param_values_dict()["rows"]["rows"])
    np.testing.assert_allclose(output(net), X @ table.T, rtol=1e-4, atol=1e-5)
    out = net.forward({"data": X})["output"]
    rf.reduce_sum(out, axis=list(out.dims)).raw_tensor.backward()
    assert net.get_layer("rows").params["rows"].raw_tensor.grad.abs().sum() > 0
    assert not net.report().of("stops")
    used = {path for path, entry in net.outline().items() if entry.used}
    assert {"rows", "table"} <= used


def test_the_output_of_a_layer_as_a_weight_of_a_step():
    net_dict = {
        "rows": {"class": "variable", "shape": [4, 2], "init": 0.5},
        "output": {
            "class": "rec",
            "from": "data",
            "unit": {
                "x": {**LINEAR, "from": "data:source", "with_bias": False}
                | {"reuse_params": {"map": {"W": {"layer_output": "base:rows"}}}},
                "output": {"class": "combine", "kind": "add", "from": ["x", "prev:output"]},
            },
        },
    }
    net = built(net_dict)
    found = net.forward({"data": X})["output"].copy_transpose(net.template("output").dims).raw_tensor.detach().numpy()
    expected = np.repeat(X.sum(-1, keepdims=True) * 0.5, 2, axis=-1).cumsum(1)
    found = found if found.shape[0] == 2 else found.swapaxes(0, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_an_output_of_another_shape_is_refused():
    net_dict = {
        "rows": {"class": "variable", "shape": [3, 2]},
        "output": {**LINEAR, "reuse_params": {"map": {"W": {"layer_output": "rows"}, "b": None}}},
    }
    with pytest.raises(NetworkError, match="in place of a parameter"):
        built(net_dict)
