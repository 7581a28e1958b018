"""`rf.Network` as a module: batches, parameters, saving, torch, training, dims in another order."""

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import DataNotFound, DimError, LayerNotFound, NetworkError, ParameterError
from tests.walks import calls_made

NET = {
    "front": {"class": "conv", "n_out": 4, "filter_size": [3], "padding": "same", "from": "data", "activation": "relu"},
    "a.b": {"class": "rec", "unit": "nativelstm2", "n_out": 6, "direction": -1, "from": "front"},
    "parameters": {"class": "linear", "n_out": 6, "activation": "tanh", "from": "a.b"},
    "sub": {
        "class": "subnetwork",
        "from": "parameters",
        "subnetwork": {
            "x": {"class": "linear", "n_out": 6, "from": "data"},
            "output": {"class": "combine", "kind": "add", "from": ["x", "data"]},
        },
    },
    "output": {"class": "softmax", "loss": "ce", "target": "classes", "from": "sub"},
}
EXTERN = {"data": {"dim": 5}, "classes": {"dim": 7, "sparse": True}}


def network(net_dict=NET, **options):
    return rf.Network(extern_data=rf.ExternData(EXTERN), **options).construct_from_dict(net_dict)


KINDS = {
    "linear": (38, {"n_out": 8, "activation": "tanh", "dropout": 0.1}),
    "softmax": (38, {"n_out": 8}),
    "layer_norm": (27, {}),
    "activation": (15, {"activation": "relu"}),
    "copy": (10, {}),
    "dropout": (19, {"dropout": 0.1}),
    "combine": (28, {"kind": "mul"}),
    "gating": (31, {}),
    "rec": (60, {"unit": "nativelstm2", "n_out": 8}),
    "self_attention": (60, {"num_heads": 2, "total_key_dim": 8, "n_out": 8}),
    "conv": (60, {"n_out": 8, "filter_size": [3], "padding": "same"}),
    "pool": (56, {"pool_size": [2], "padding": "same", "strides": 1}),
    "subnetwork": (37, {"subnetwork": {"output": {"class": "linear", "n_out": 8, "from": "data"}}}),
}
"""By class: at most so many functions run for a layer, and its options."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_costs_few_calls_in_a_batch(kind):
    """What a batch does not change is decided at construction."""
    most, options = KINDS[kind]

    def calls(count):
        layers = {"0": {"class": "linear", "n_out": 8, "from": "data"}}
        for i in range(count):
            sources = [str(i), "0"] if kind == "combine" else str(i)
            layers[str(i + 1)] = {"class": kind, "from": sources, **options}
        net = network({**layers, "output": {"class": "copy", "from": str(count)}})
        batch = net.extern_data.example()
        net(batch)
        return calls_made(lambda: net(batch))

    assert calls(2) - calls(1) <= most


def test_layers_are_modules_named_as_in_the_dict():
    names = {name for name, _ in network().named_parameters()}
    assert {"front.W", "sub.x.W", "sub.x.b", "output.W"} <= names
    assert {"a_b.W_re", "parameters_.W"} <= names  # names that a module cannot have


def test_save_and_load(tmp_path):
    net, other = network(), network()
    x = net.extern_data.example()
    rf.save(net, tmp_path / "net.safetensors")
    rf.load(tmp_path / "net.safetensors", other)
    given = {key: (x[key].numpy(), x[key].size_of(x[key].dims[1]).values) for key in x}
    found, expected = (each.forward(given)["output"].numpy() for each in (other, net))
    np.testing.assert_array_equal(found, expected)


def test_parameters_by_layer_are_set_and_given():
    net, other = network(), network()
    other.set_param_values_by_dict(net.get_param_values_dict())
    values = other.get_param_values_dict()
    assert set(values) == {"front", "a.b", "parameters", "sub/x", "output"}
    assert values["a.b"]["W_re"].shape == (6, 24)
    np.testing.assert_array_equal(values["sub/x"]["W"], net.get_layer("sub/x").params["W"].numpy())


def test_parameters_that_do_not_fit_are_all_listed_and_none_is_set():
    net = network()
    before = net.get_param_values_dict()
    wrong = {"output": {"W": np.zeros((6, 7)), "c": np.zeros(7), "b": np.zeros(8)}, "outptu": {}}
    with pytest.raises(ParameterError) as caught:
        net.set_param_values_by_dict(wrong)
    assert all(word in str(caught.value) for word in ("3 parameters", "'c'", "(7,)", "did you mean 'output'"))
    np.testing.assert_array_equal(net.get_param_values_dict()["output"]["W"], before["output"]["W"])
    net.set_param_values_by_dict({"outptu": {}, "output": {"b": np.ones(7)}}, ignore_non_existing=True)
    assert net.get_param_values_dict()["output"]["b"].sum() == 7


@pytest.mark.parametrize("as_torch", [False, True])
def test_training_lowers_the_loss(as_torch):
    rf.set_random_seed(1)
    net = network(train_flag=None)
    batch = net.extern_data.example(batch=4)
    parameters = rf.to_torch(net).parameters() if as_torch else [p.raw_tensor for p in net.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.05)
    losses = []
    for step in range(12):
        ctx = rf.init_train_step_run_ctx(step=step)
        net(batch)
        optimizer.zero_grad()
        net.get_objective().backward()
        optimizer.step()
        losses.append(net.get_objective().item())
        assert ctx.total_loss().item() == pytest.approx(losses[-1])
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("normalized", [False, True])
def test_a_marked_loss_knows_its_mean(normalized):
    """The objective has the sum or the mean, as the config says; what progress shows is the mean of a frame."""
    output = {**NET["output"], "loss_opts": {"use_normalized_loss": normalized}, "loss_scale": 0.5}
    net = network({**NET, "output": output}, train_flag=None)
    batch = net.extern_data.example(batch=3)
    ctx = rf.init_train_step_run_ctx()
    net(batch)
    holder, marked = net.get_losses_initialized()[0]["output"], ctx.losses["output"]
    mean = (holder.get_loss_value() * holder.get_norm_factor()).item()
    assert marked.get_mean_loss().item() == pytest.approx(mean)
    assert ctx.total_loss().item() == pytest.approx(0.5 * (mean if normalized else holder.get_loss_value().item()))


def test_tensors_with_axes_in_another_order_give_the_same():
    net = network()
    batch = net.extern_data.example()
    expected = net(batch)["output"]
    x = batch["data"]
    turned = net({"data": x.copy_transpose([x.dims[2], x.dims[1], x.dims[0]]), "classes": batch["classes"]})["output"]
    np.testing.assert_allclose(turned.copy_transpose(expected.dims).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_a_sequence_in_a_batch_gives_what_it_gives_alone():
    """Without a convolution, which sees the frames behind the end."""
    net = network(
        {name: layer for name, layer in NET.items() if name != "front"}
        | {"front": NET["parameters"] | {"from": "data"}}
    )
    x = np.random.default_rng(0).normal(size=(3, 6, 5)).astype("float32")
    lengths = [6, 4, 1]
    out = net.forward({"data": (x, lengths)})["output"]
    batched = out.copy_transpose(net.template("output").dims).numpy()
    for i, length in enumerate(lengths):
        alone = net.forward({"data": (x[i : i + 1, :length], [length])})["output"]
        alone = alone.copy_transpose(net.template("output").dims).numpy()
        np.testing.assert_allclose(batched[i, :length], alone[0], rtol=1e-4, atol=1e-5)


def test_data_that_is_missing_or_unknown_is_an_error():
    net = network(eval_flag=True)
    with pytest.raises(DataNotFound, match="no 'data'"):
        net.forward({})
    with pytest.raises(DataNotFound, match="did you mean 'data'"):
        net.forward({"dat": np.zeros((1, 2, 5))})
    net.forward({"data": np.zeros((1, 2, 5))})
    with pytest.raises(DataNotFound, match="target 'classes'"):
        net.get_losses_initialized()


def test_a_target_of_another_length_names_the_sequence():
    net = network(eval_flag=True)
    net.forward({"data": (np.zeros((3, 4, 5)), [4, 3, 2]), "classes": (np.zeros((3, 4)), [4, 2, 2])})
    with pytest.raises(DimError, match=r"sequence 1[^\0]*2 frames, an output of 3"):
        net.get_losses_initialized()


def test_an_output_that_is_not_there_suggests_one():
    out = network().forward({"data": np.zeros((1, 2, 5))})
    assert "sub/x" in out and "sub/z" not in out
    with pytest.raises(LayerNotFound, match="did you mean 'output'"):
        out["outputs"]


def test_without_the_eval_flag_there_are_no_losses():
    net = network()
    net.forward(net.extern_data.example())
    assert net.get_losses_initialized(with_total=True) == ({}, 0, 0)
    for read in (net.get_objective, net.get_total_loss):  # 0 would be the lowest loss of all
        with pytest.raises(NetworkError, match="train_flag=None"):
            read()


def test_outputs_may_stay_and_the_net_may_change_batches():
    net = network()
    first = net(net.extern_data.example(batch=2, frames=4))["output"]
    second = net(net.extern_data.example(batch=5, frames=9))["output"]
    assert (first.numpy().shape, second.numpy().size) == (first.raw_tensor.shape, 5 * 9 * 7)


def test_a_batch_without_the_target_of_a_choice_that_left_the_steps():
    unit = {
        "p": {"class": "softmax", "from": "prev:output", "target": "classes"},
        "output": {"class": "choice", "from": "p", "target": "classes", "initial_output": 0},
    }
    net = network({"output": {"class": "rec", "from": [], "unit": unit, "target": "classes"}}, train_flag=None)
    batch = net.extern_data.example(batch=2)
    with pytest.raises(DataNotFound, match="layer 'output': the batch has no 'classes'"):
        net({"data": batch["data"]})


def test_a_batch_that_another_network_made_is_an_error():
    net, other = network(), network()
    batch = other.extern_data.example(batch=2)
    with pytest.raises(NetworkError, match=r"(?s)data: the batch has dims of the same names.*one rf.ExternData"):
        net(batch)
    assert other(batch)["output"].dims_set


def test_the_template_is_in_the_declared_order_and_has_no_numbers():
    template = network().template("output")
    assert [dim.name for dim in template.dims] == ["batch", "data", "feature"]
    assert template.device == "meta"
    assert repr(template).splitlines()[0] == "Tensor{'tensor', [batch:?, data:?, feature:7], float32 meta}"


def test_batch_norm_as_an_option_of_a_layer():
    layer = {"class": "activation", "activation": "relu", "from": "data"}
    net = network({"output": layer | {"batch_norm": {"momentum": 0.5}}}, train_flag=True)
    x = np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")
    mask = np.arange(4) < np.array([[4], [2]])
    valid = np.maximum(x, 0)[mask]
    out = net.forward({"data": (x, [4, 2])})["output"].copy_transpose(net.template("output").dims)
    expected = (valid - valid.mean(0)) / np.sqrt(valid.var(0) + 1e-3)
    np.testing.assert_allclose(out.raw_tensor.detach().numpy()[mask], expected, rtol=1e-4, atol=1e-5)
    params = net.get_param_values_dict()["output"]
    mean = next(value for name, value in params.items() if name.endswith("mean")).ravel()
    np.testing.assert_allclose(mean, 0.5 * valid.mean(0), rtol=1e-4, atol=1e-5)
    assert len(net.get_trainable_params()) == 2


def test_parts_of_a_layer():
    split = {"class": "split", "axis": "F", "size_splits": [2, 3], "from": "data"}
    net = network({"sp": split, "output": {"class": "copy", "from": "sp/1"}})
    out = net.forward({"data": np.arange(10.0).reshape(1, 2, 5)})
    assert out["output"].numpy().tolist() == out["sp/1"].numpy().tolist() == [[[2, 3, 4], [7, 8, 9]]]
    with pytest.raises(LayerNotFound, match="its parts: 0, 1"):
        network({"sp": split, "output": {"class": "copy", "from": "sp/2"}})


def test_a_chain_of_layers_may_be_longer_than_python_nests_calls():
    chain = {f"l{i}": {"class": "copy", "from": f"l{i + 1}"} for i in range(1500)}
    inner = {"output": {"class": "copy", "from": "data"}}
    sub = {"class": "subnetwork", "from": "l750", "subnetwork": inner}
    net = network(chain | {"l1500": {"class": "copy", "from": "data"}, "l749": sub, "output": chain["l0"]})
    assert len(net.layers) == 1502  # all but l0, and the layer in the subnetwork
    assert net.template("output").feature_dim.dimension == 5
