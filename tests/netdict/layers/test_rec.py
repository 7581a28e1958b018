"""Recurrent layers, where no recorded case has them: dropout of units in training, last states, errors."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import LayerNotFound, NetworkError, RfError

LENGTHS = [5, 3]
X = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")


def built(net_dict, **options):
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 4}}), **options)
    return net.construct_from_dict(net_dict)


def rec(unit, **unit_opts):
    return {"class": "rec", "unit": unit, "n_out": 3, "unit_opts": unit_opts, "from": "data", "loss": "as_is"}


@pytest.mark.parametrize(
    ("unit", "options"),
    [
        ("nativelstm2", {"rec_weight_dropout": 0.5}),
        ("layernormvariantslstm", {"dropout": 0.3, "dropout_h": 0.5}),
        ("rhn", {"depth": 2, "dropout": 0.5}),
        ("zoneoutlstm", {"zoneout_factor_cell": 0.5, "zoneout_factor_output": 0.5}),
    ],
)
def test_dropout_of_units_is_in_training_only(unit, options):
    net = built({"output": rec(unit, **options)}, train_flag=None)
    drawn, train = [], []
    for flag, found in ((False, drawn), (True, train)):
        for step in range(2):
            rf.init_train_step_run_ctx(train_flag=flag, step=step)
            out = net({"data": (X, LENGTHS)})["output"]
            found.append(out.copy_masked(0).copy_transpose(net.template("output").dims).raw_tensor.detach().numpy())
    np.testing.assert_array_equal(*drawn)
    assert np.abs(train[0] - train[1]).max() > 1e-4
    net.get_total_loss().backward()
    assert all(parameter.raw_tensor.grad is not None for parameter in net.parameters())


@pytest.mark.parametrize("key", ["c", "h", "*", "flat", None])
def test_the_last_states_of_several_layers(key):
    units = {"a": rec("nativelstm2"), "b": {**rec("lstmblock"), "direction": -1}}
    last = {"class": "get_last_hidden_state", "from": ["a", "b"], "key": key}
    net = built({**units, "output": last})
    out = net.forward({"data": (X, LENGTHS)})
    found = out["output"].copy_transpose(net.template("output").dims).raw_tensor.detach().numpy()
    assert found.shape == (2, 6 if key in ("c", "h") else 12)
    if key != "c":  # h of the last frame, and of the first one of the other direction
        a, b = (out[name].copy_transpose(net.template(name).dims).raw_tensor.detach().numpy() for name in units)
        ends = np.stack([a[i, n - 1] for i, n in enumerate(LENGTHS)])
        at = slice(0, 3) if key == "h" else slice(3, 6)
        np.testing.assert_allclose(found[:, at], ends, rtol=1e-5)
        np.testing.assert_allclose(found[:, -3:], b[:, 0], rtol=1e-5)


def test_the_state_of_a_subnetwork_is_that_of_its_output():
    sub = {"class": "subnetwork", "from": "data", "subnetwork": {"output": {**rec("gru"), "loss": None}}}
    last = {"class": "get_last_hidden_state", "from": "sub", "n_out": 3}
    net = built({"sub": sub, "output": last})
    out = net.forward({"data": (X, LENGTHS)})
    sequence = out["sub"].copy_transpose(net.template("sub").dims).raw_tensor.detach().numpy()
    np.testing.assert_allclose(out["output"].raw_tensor.detach(), sequence[[0, 1], [4, 2]], rtol=1e-5)


def test_what_cannot_be_is_told():
    last = {"class": "get_last_hidden_state", "from": "a", "key": "c"}
    with pytest.raises(LayerNotFound, match="state:c"):
        built({"a": rec("gru"), "output": last})
    with pytest.raises(NetworkError, match="combine"):
        built({"a": rec("gru"), "output": {**last, "key": "*", "combine": "mul"}})
    with pytest.raises(NetworkError, match="depht"):
        built({"output": rec("rhn", depht=3)})


@pytest.mark.parametrize("unit", ["GRU", "LSTMBlock", "nativelstm2", "BasicRNN", "layernormvariantslstm"])
@pytest.mark.parametrize("direction", [1, -1])
def test_behind_the_end_is_0_as_a_window_may_read_it(unit, direction):
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    net.construct_from_dict(
        {"output": {"class": "rec", "unit": unit, "n_out": 2, "direction": direction, "from": "data"}}
    )
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    out = net.forward({"data": (x, [5, 3])})["output"].copy_transpose(net.template("output").dims)
    assert (out.raw_tensor[1, 3:] == 0).all() and (out.raw_tensor[1, :3] != 0).all()


@pytest.mark.parametrize(
    ("net_dict", "message"),
    [
        ({"output": {**rec("gru"), "initial_state": "data"}}, "initial_state: the layer gives a sequence"),
        (
            {"last": {"class": "reduce", "mode": "max", "axis": "T"}, "output": {"class": "cumsum", "from": "last"}},
            "there is no axis 'T'",
        ),
    ],
)
def test_where_frames_decide(net_dict, message):
    with pytest.raises(RfError, match=message):
        built(net_dict)
