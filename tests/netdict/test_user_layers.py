"""`rf.layer`: functions and modules as classes of layers, in nets, reports, pictures and code."""

import pytest
import torch

import rfnb as rf
from rfnb.netdict.code.trace import Unwritten
from rfnb.netdict.layer import LAYERS
from rfnb.netdict.user_layers import OwnLayer


@pytest.fixture(autouse=True)
def known_classes():
    """The classes of a test are not those of others."""
    yield
    for name in [name for name, cls in LAYERS.items() if issubclass(cls, OwnLayer)]:
        del LAYERS[name]


def network(layers, **options):
    extern = rf.ExternData({"data": {"dim": 5}, "classes": {"dim": 3, "sparse": True}})
    return rf.Network(extern_data=extern, train_flag=None).construct_from_dict(layers, **options)


def one_layer(kind, **options):
    return network({"output": {"class": kind, "from": "data", **options}})


def define_scaled():
    @rf.layer("scaled")
    def scaled(x, *, factor: float = 2.0):
        """Scales."""
        return x * factor

    return scaled


def define_block():
    @rf.layer("block")
    class Block(rf.Module):
        def __init__(self, in_dim, out_dim, *, wider: int = 2):
            inner = rf.Dim(wider * in_dim.dimension, name="inner")
            self.norm = rf.LayerNorm(in_dim)
            self.first, self.second = rf.Linear(in_dim, inner), rf.Linear(inner, out_dim)
            self.bias = self.second.bias

        def __call__(self, x):
            return self.second(rf.relu(self.first(self.norm(x)))) + self.bias

    return Block


def test_a_function_is_a_layer_and_stays_a_function():
    scaled, net = define_scaled(), one_layer("scaled", factor=3)
    x = net.extern_data.tensors(net.extern_data.example())["data"]
    assert torch.equal(net({"data": x})["output"].raw_tensor, scaled(x, factor=3).raw_tensor)
    assert net.report() and "scaled" in repr(rf.show(net))


def test_a_module_gets_dims_and_options_and_gives_its_parameters():
    define_block()
    net = one_layer("block", n_out=3, wider=4, target="classes", loss="ce", L2=0.1)
    assert net.get_num_params() == 5 + 5 + 5 * 20 + 20 + 20 * 3 + 3
    assert "output/norm/scale" in net.variables() and next(iter(net.get_layer("output").params)) == "bias"
    net(net.extern_data.example())
    net.get_objective().backward()
    assert all(x.raw_tensor.grad is not None for x in net.parameters())


def test_layers_share_the_parameters_of_a_module():
    define_block()
    layers = {"a": {"class": "block", "n_out": 5, "from": "data"}}
    layers["output"] = {"class": "block", "n_out": 5, "from": "a", "reuse_params": "a"}
    net = network(layers)
    net.set_param_values_by_dict({"a": {"bias": [1.0] * 5, "second/weight": [[0.0] * 5] * 10}})
    assert (net(net.extern_data.example())["output"].copy_masked(2).raw_tensor == 2).all()


def test_a_layer_in_the_steps_of_a_loop():
    define_block()
    unit = {
        "s": {"class": "block", "n_out": 3, "from": ["data:source", "prev:s"]},
        "output": {"class": "softmax", "from": "s", "target": "classes", "loss": "ce"},
    }
    net = network({"output": {"class": "rec", "from": "data", "target": "classes", "unit": unit}})
    frames = net.extern_data.example(frames=4)
    assert net.report() and net(frames)["output"].feature_dim.dimension == 3


def test_an_option_annotated_as_a_dim_is_an_axis():
    @rf.layer("mean_of")
    def mean_of(x, axis: rf.Dim):
        return rf.reduce_mean(x, axis=axis)

    net = one_layer("mean_of", axis="T")
    assert [dim.dimension for dim in net(net.extern_data.example())["output"].dims] == [None, 5]
    with pytest.raises(rf.errors.NetworkError, match="the option axis is missing"):
        one_layer("mean_of")


WRONG = {
    "number of sources": ("product", {}, "from names too few or too many sources"),
    "type": ("scaled", {"factor": "two"}, "factor has a value of another type"),
    "option": ("scaled", {"factr": 2}, "unknown option 'factr'"),
    "n_out": ("block", {}, "block needs out_dim"),
    "result": ("nothing", {}, "nothing gives no Tensor"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_a_layer_lacks_is_an_error_that_names_it(what):
    define_scaled(), define_block()
    rf.layer("product")(lambda x, y: x * y)
    rf.layer("nothing")(lambda x: None)
    kind, options, fault = WRONG[what]
    with pytest.raises(rf.errors.NetworkError, match=rf"layer 'output' \({kind}\).*{fault}"):
        one_layer(kind, **options)


@pytest.mark.parametrize("name", ["linear", None])
def test_the_name_is_one_that_rfnb_does_not_have(name):
    with pytest.raises(rf.errors.ParameterError, match=r"rf\.layer"):
        rf.layer(name)


@pytest.mark.parametrize("defined", [3, dict, lambda x, dropout=0.1: x, lambda x, spec=None: x])
def test_what_cannot_be_a_layer_is_an_error(defined):
    with pytest.raises(rf.errors.ParameterError, match=r"rf\.layer\('mine'\)"):
        rf.layer("mine")(defined)
    assert "mine" not in LAYERS


def test_a_cell_that_runs_again_replaces_the_class():
    rf.layer("scaled")(lambda x: x * 1)
    define_scaled()
    assert "factor" in LAYERS["scaled"].options


def test_the_report_names_the_way_to_an_unknown_class():
    net = network({"output": {"class": "ours", "from": "data"}}, strict=False)
    assert net.report().of("stops")[0].way == "@rf.layer('ours') makes a function or an rf.Module this class"
    rf.layer("ours")(rf.relu)
    assert one_layer("ours").report()


def test_the_code_of_a_layer_has_the_ops_of_its_function():
    define_block()
    code = rf.to_code(one_layer("block", n_out=3), check=True)
    assert "class Block(rf.Module):" in code and "rf.layer_norm(" in code


def test_the_code_in_torch_of_arguments_by_name():
    @rf.layer("by_name")
    def by_name(x):
        feature = x.feature_dim
        mean, variance = rf.moments(x=x, axis=feature)
        best = rf.reduce_argmax(source=x, axis=feature)
        loss = rf.cross_entropy(estimated=x, target=best, axis=feature, estimated_type="logits")
        return rf.clip_by_value(x=(x - mean) * variance, clip_value_max=1.0) + rf.cast(tensor=loss, dtype="float32")

    code = rf.to_code(one_layer("by_name"), target="torch", check=True)
    assert "F.cross_entropy(" in code and ".clamp(max=1.0)" in code


@pytest.mark.parametrize("kind", ["of_torch", "own_loop"])
def test_a_layer_without_a_form_as_code_is_an_error_that_names_it(kind):
    @rf.layer("of_torch")
    def of_torch(x):
        return rf.convert_to_tensor(torch.erf(x.raw_tensor), dims=x.dims, feature_dim=x.feature_dim)

    @rf.layer("own_loop")
    def own_loop(x):
        loop = rf.Loop(axis=x.dims[1])
        loop.state.h = rf.zeros([x.dims[0], x.dims[2]])
        with loop:
            loop.state.h = loop.state.h + loop.unstack(x)
            y = loop.stack(loop.state.h)
        return y

    net = network({"a": {"class": kind, "from": "data"}, "output": {"class": "copy", "from": "a"}})
    with pytest.raises(Unwritten, match="to_code: layer 'a' has no form as code"):
        rf.to_code(net)
