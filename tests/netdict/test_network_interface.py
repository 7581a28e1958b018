"""The further methods of the reference's class: what they give, and what takes the place of the others."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import LayerNotFound, NetworkError
from rfnb.netdict.network import ONLY_TENSORFLOW

EXTERN = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True, "same_dim_tags_as": "data"}, "unused": {"dim": 2}}
INNER = {"a": {"class": "linear", "n_out": 2, "from": "data"}, "output": {"class": "copy", "from": "a"}}
LAYERS = {
    "sub": {"class": "subnetwork", "from": "data", "subnetwork": INNER},
    "output": {"class": "softmax", "from": "sub", "loss": "ce", "loss_opts": {"scale": 0.5}},
    "more": {"class": "linear", "n_out": 2, "from": "sub"},
}


def built(**options):
    return rf.Network(extern_data=rf.ExternData(EXTERN), train_flag=True, **options).construct_from_dict(LAYERS)


def test_layers_and_data():
    net = built()
    assert [layer.name for layer in net.get_all_layers_shallow()] == ["sub", "output"]
    assert {layer.name for layer in net.get_all_layers_deep()} == {"sub", "sub/a", "sub/output", "output"}
    assert net.get_used_data_keys() == {"data", "classes"}
    assert (net.get_used_targets(), net.get_default_target()) == (["classes"], "classes")
    assert net.get_extern_data("unused").dim == 2
    assert net.get_root_network() is net and net.get_absolute_name_prefix() == ""
    assert not net.is_inside_rec_layer() and net.get_inside_rec_time_dim() is None


def test_one_more_layer():
    net = built()
    assert net.construct_layer(LAYERS, "more") is net.get_layer("more")
    assert net.construct_layer(LAYERS, "sub/a") is net.get_layer("sub/a")
    batch = net.extern_data.example()
    w, b = (net.get_layer("more").params[name].numpy() for name in ("W", "b"))
    out = net(batch)
    x = out["sub"].copy_masked(0).copy_transpose(net.template("sub").dims).numpy() @ w + b
    found = out["more"].copy_transpose(net.template("more").dims).numpy()
    lengths = out["more"].dims[1].get_size_tensor().numpy()
    for i, n in enumerate(lengths):
        np.testing.assert_allclose(found[i, :n], x[i, :n], rtol=1e-5)
    with pytest.raises(LayerNotFound):
        net.construct_layer(LAYERS, "nothing")
    with pytest.raises(NetworkError, match="get_layer"):
        net.construct_layer(LAYERS, "more", get_layer=lambda name: None)


def test_losses_that_are_not_summed():
    net = built()
    net(net.extern_data.example())
    holder = net.get_losses_initialized()[0]["output"]
    each, total, _ = net.get_losses_initialized(reduce_func=lambda x: x, with_total=True)
    frames = each["output"].get_loss_value()
    assert len(frames.dims) == 2 and each["output"].get_error_value().dims == frames.dims
    assert rf.reduce_sum(frames, axis=frames.dims).item() == pytest.approx(holder.get_loss_value().item(), rel=1e-5)
    assert total.item() == pytest.approx(0.5 * holder.get_loss_value().item(), rel=1e-5)
    assert holder.get_loss_value_for_fetch().dims == ()
    mean = rf.reduce_mean(holder.get_error_value_per_pos(), axis=frames.dims[1])
    np.testing.assert_allclose(holder.get_normalized_error_value_per_seq().numpy(), mean.numpy())
    assert holder.copy_new_base(name="a/b:c").get_tf_name() == "a_b_c"


def test_parameters_as_values_with_the_step(tmp_path):
    net = built()
    rf.init_train_step_run_ctx(step=7)
    serialized = net.get_params_serialized(session=None)
    net.save_params_to_file(tmp_path / "a.safetensors", session=None)
    for parameter in net.get_params_list():
        parameter.assign(np.zeros(parameter.raw_tensor.shape))
    rf.init_train_step_run_ctx(step=9)
    net.set_params_by_serialized(serialized, session=None)
    assert net.get_global_train_step() == 7
    np.testing.assert_array_equal(net.get_layer("output").params["W"].numpy(), serialized.values_dict["output"]["W"])
    assert net.load_params_from_file(tmp_path / "a.safetensors").complete


def test_a_layer_with_a_net_has_the_parameters_inside_of_it():
    net = built()
    net.set_param_values_by_dict({"sub": {"a/W": np.full((3, 2), 7.0), "a/b": np.ones(2)}})
    assert (net.get_layer("sub/a").params["W"].numpy() == 7.0).all()
    with pytest.raises(rf.errors.ParameterError, match="a/V"):
        net.set_param_values_by_dict({"sub": {"a/V": np.ones(2)}})


def test_what_is_trained():
    net = built()
    net.declare_train_params(hidden_layer_selection=["sub/a"], with_output=False)
    assert {name for name, parameter in net.named_parameters() if parameter.trainable} == {"sub.a.W", "sub.a.b"}
    net.declare_train_params(global_trainable=False)
    assert not net.get_trainable_params()
    net.declare_train_params()
    assert len(net.get_trainable_params()) == 4
    with pytest.raises(LayerNotFound):
        net.declare_train_params(hidden_layer_selection=["nothing"])


@pytest.mark.parametrize("name", sorted(ONLY_TENSORFLOW))
def test_what_is_for_tensorflow_only_names_the_way(name):
    with pytest.raises(NetworkError) as error:
        getattr(built(), name)(1, x=2)
    assert name in str(error.value) and error.value.hint == ONLY_TENSORFLOW[name]


def test_a_branch_for_training(capsys):
    net = built()
    assert net.cond_on_train(lambda: 1, lambda: 2) == 1
    net.print_network_info("A net")
    assert "A net: 4 layers, 20 parameters" in capsys.readouterr().out
    with pytest.raises(NetworkError):
        net.get_run_opts()
    net.set_run_opts(epoch=3, dataset_name="dev")
    assert net.get_run_opts() == {"epoch": 3, "dataset_name": "dev"}
